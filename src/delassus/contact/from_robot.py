"""Scenes of one robot by its name: its colliders, which of them never collide, a floor, and where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.contact.collision.detector import CollisionDetector
from delassus.contact.contacts import ContactSet
from delassus.contact.filters import Solids
from delassus.errors import ConfigurationError
from delassus.formats.colliders import load_colliders, load_ignored
from delassus.formats.load import find_description, load
from delassus.model.kinematics import world_poses
from delassus.model.shapes import Collider
from delassus.model.tree import WORLD, Tree
from delassus.spatial.joint_kinds import FREE
from delassus.spatial.rotations import Array

SAMPLES, ALWAYS = 100, 0.95
"""Random configurations in which pairs are looked at; a pair that touches in more than this part of them is ignored."""

NEAR, FAR = 1.0, 100.0
"""Gaps (m) up to which a floor is looked for below a robot, at first and at last."""

MOST_MOVES, TOUCHING = 100, 1e-9
"""Moves of a robot that is set down, and the gap (m) at which it stands."""


def described(
    robot: str | Path | Any, friction: float
) -> tuple[Tree, tuple[Collider, ...], tuple[tuple[str, str], ...] | None]:
    """Tree of a robot, its colliders, and the pairs of them that its files ignore; None if they name no pairs."""
    path = find_description(robot) if isinstance(robot, str | Path) else None
    is_urdf = path is not None and path.suffix.lower() == ".urdf"
    srdf = srdf_beside(path) if path is not None and is_urdf else None
    tree = load(robot, root="floating" if is_urdf else "fixed", srdf=srdf)
    given = robot if path is None else path
    colliders = load_colliders(given, tree, friction=friction) if is_urdf else load_colliders(given, tree)
    if not is_urdf:
        return tree, colliders, load_ignored(given)
    return tree, colliders, (load_ignored(srdf, tree=tree) if srdf is not None else None) or None


def srdf_beside(urdf: Path) -> Path | None:
    """The SRDF file of the same stem, or the only one, in the folder of a URDF file or in ``srdf`` beside that."""
    for folder in (urdf.parent, urdf.parent.parent / "srdf"):
        files = sorted(folder.glob("*.srdf"))
        named = [file for file in files if file.stem == urdf.stem]
        if named or len(files) == 1:
            return (named or files)[0]
    return None


def touching_always(scene: Solids) -> tuple[tuple[str, str], ...]:
    """Pairs of colliders that touch in the neutral configuration, or nearly always in random ones."""
    detector, tree = CollisionDetector(scene), scene.tree
    pairs = detector.pairs
    counts = np.zeros((len(scene.colliders),) * 2)
    for number, q in enumerate([tree.neutral(), *tree.random(0, SAMPLES)]):
        contacts = _contacts(detector, q)
        touch = {tuple(sorted(pair)) for pair in np.asarray(contacts.colliders).tolist()}
        for a, b in touch:
            counts[a, b] += 1 if number else SAMPLES
    often = [(a, b) for a, b in np.sort(pairs, axis=1).tolist() if counts[a, b] > ALWAYS * SAMPLES]
    return tuple((scene.colliders[a].name, scene.colliders[b].name) for a, b in often)


def set_down(scene: Solids, q: ArrayLike) -> Array:
    """Configuration (nq,) whose robot touches the world's colliders from above; see `Scene.set_down`."""
    tree = scene.tree
    if len(scene.robots) != 1 or tree.joints[0].kind is not FREE:
        raise ConfigurationError(
            "scene", "one robot on a free joint", f"{len(scene.robots)} robot(s)", "Give it its place in q."
        )
    out, detector = np.array(tree.check_configuration(q)), CollisionDetector(scene)
    reach = NEAR
    for _ in range(MOST_MOVES):  # on slopes, nothing is nearer than the gap, and moving by it takes a part of the way
        contacts = _contacts(detector, out, reach)
        below = contacts.depths[np.asarray(contacts.links)[:, 1] == WORLD]
        if not below.size and reach >= FAR:
            raise ConfigurationError("scene", "colliders of the world below the robot", "none", "Pass floor=True.")
        if not below.size:
            reach *= 10.0
            continue
        out[2] += below.max()
        if abs(below.max()) <= TOUCHING:
            break
    return out


def _contacts(detector: CollisionDetector, q: Array, reach: float = 0.0) -> ContactSet:
    poses = [np.column_stack([R, p]) for R, p in world_poses(detector.scene.tree, q)]
    return detector.contacts(np.array(poses), reach)
