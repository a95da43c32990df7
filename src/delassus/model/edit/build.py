"""From raw links and joints to a `Tree`: merge fixed joints, order, place body frames, check every number.

Every loader ends here. A description is a list of `RawLink` and `RawJoint` in the description's own frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise

import numpy as np

from delassus.errors import ModelError
from delassus.frozen import read_only
from delassus.model.check import check_choice
from delassus.model.description import (
    FIXED,
    LARGEST,
    Check,
    RawJoint,
    RawLink,
    Root,
    check_descriptions,
    depth_first,
    find_root,
    unique_name,
)
from delassus.model.edit.massless import idle_joints
from delassus.model.inertia import move_inertia, spatial_inertia
from delassus.model.tree import WORLD, Placement, Tree
from delassus.spatial.joint_kinds import FREE
from delassus.spatial.joints import LIMITS, PER_DOF, Joint
from delassus.spatial.rotations import Array, exact_quarter_turns, rotation_between

_GROUND = WORLD, np.eye(3), np.zeros(3)
"""Pose of what the root of a description is on."""

_IS_LIMIT = np.array([[attribute in LIMITS] for attribute in PER_DOF])


def build_tree(
    name: str,
    links: Sequence[RawLink],
    joints: Sequence[RawJoint],
    *,
    root: Root = "fixed",
    sort_children: bool = False,
    keep_order: bool = False,
    check_inertia: Check = "warn",
    source: str = "",
) -> Tree:
    """Build a tree from a description.

    Parameters
    ----------
    name : str
        Name of the robot.
    links, joints : sequences
        The description. The one link without a parent is the root.
    root : {"fixed", "floating"}
        Whether the root link is fixed to the world or carried by a free joint.
    sort_children : bool
        Visit the children of a link in the order of their joints' names, as URDF readers do; else in the order given.
    keep_order : bool
        Number the joints in the order given, in which parents come before children; else depth first.
    check_inertia : {"warn", "refuse", "repair"}
        What to do about rotational inertias that no rigid body can have.
    source : str
        What messages about them call the description; the robot's name if not given.

    Raises
    ------
    ModelError
        Names the link or joint that is wrong, such as one with a negative inertia along it.
    """
    check_choice("root", root, ("fixed", "floating"), ModelError)
    root_link = find_root(name, links, joints)
    links = check_descriptions(links, joints, check_inertia, source or f"robot {name!r}")
    if root == "floating":
        carrier = RawJoint(unique_name("root_joint", {joint.name for joint in joints}), FREE, "", root_link)
    else:
        carrier = RawJoint(f"world_to_{root_link}", FIXED, "", root_link)
    ordered = [carrier, *joints] if keep_order else _depth_first(carrier, joints, sort_children)

    rotations = _exact([raw.rotation for raw in ordered])
    moving = [raw for raw in ordered if raw.kind is not FIXED]
    axes, alignments = _axes_and_alignments(moving)
    poses = _poses(ordered, moving, rotations, np.swapaxes(alignments, 1, 2))
    children = [raw.child for raw in ordered]
    on, R_links, p_links = zip(*(poses[child] for child in children), strict=True)
    placements = map(Placement, on, _exact(R_links), read_only(p_links))
    frames = dict(zip(children, placements, strict=True))

    carried = [_GROUND if raw is carrier else poses[raw.parent] for raw in moving]
    parents = tuple(i for i, *_ in carried)
    R = np.array([R for _, R, _ in carried]).reshape(-1, 3, 3)
    positions = np.array([p for *_, p in carried]).reshape(-1, 3) + _products(R, [raw.position for raw in moving])
    rotations = R @ rotations[[raw.kind is not FIXED for raw in ordered]] @ alignments

    inertias = _inertias(links, frames, children, len(moving))
    frames.setdefault("world", Placement(WORLD, np.eye(3), np.zeros(3)))
    joints_placed = _joints(moving, axes, _exact(rotations), read_only(positions))
    link_names = tuple(raw.child for raw in moving)
    described = ordered if root == "floating" else [raw for raw in ordered if raw is not carrier]
    joint_frames = {raw.name: raw.child for raw in described if raw.name not in frames and not raw.child_position.any()}
    tree = Tree(
        name, link_names, joints_placed, parents, inertias[:-1], frames, inertias[-1], joint_frames=joint_frames
    )
    idle_joints(tree)  # refuses negative inertias
    return tree


def _depth_first(carrier: RawJoint, joints: Sequence[RawJoint], sort_children: bool) -> list[RawJoint]:
    """Joints from what carries the root on, those of a link in the order given or of their names."""
    outgoing: dict[str, list[RawJoint]] = {}
    for raw in joints:
        outgoing.setdefault(raw.parent, []).append(raw)
    if sort_children:
        for siblings in outgoing.values():
            siblings.sort(key=lambda j: j.name)
    return list(depth_first(carrier, outgoing))


def _poses(
    ordered: Sequence[RawJoint], moving: Sequence[RawJoint], rotations: Array, turned: Array
) -> dict[str, tuple[int, Array, Array]]:
    """Link of the tree that each link of the description is on, with its rotation (3, 3) and position (3,) there.

    The first joint carries the root. ``rotations`` (n, 3, 3) are those of all joints, and ``turned`` (m, 3, 3) those of
    links in the axes of the joints that move them.
    """
    shifted = _products(turned, [raw.child_position for raw in moving])
    poses = {raw.child: (i, turned[i], shifted[i]) for i, raw in enumerate(moving)}
    for raw, rotation in zip(ordered, rotations, strict=True):
        if raw.kind is FIXED:
            i, R, p = _GROUND if raw is ordered[0] else poses[raw.parent]
            p, R = p + R @ raw.position, R @ rotation
            poses[raw.child] = i, R, p + R @ raw.child_position
    return poses


def _inertias(links: Sequence[RawLink], frames: Mapping[str, Placement], order: Sequence[str], n: int) -> Array:
    """Inertias (n + 1, 6, 6) of the tree's links and of the world, added up in the order of these links' names."""
    placed = [frames[link.name] for link in links]
    own = spatial_inertia(
        np.array([x.mass for x in links]), np.array([x.com for x in links]), np.array([x.inertia for x in links])
    )
    moved = move_inertia(own, np.array([x.rotation for x in placed]), np.array([x.position for x in placed]))
    inertias = np.zeros((n + 1, 6, 6))
    number = {link.name: k for k, link in enumerate(links)}
    np.add.at(inertias, [frames[name].link for name in order], moved[[number[name] for name in order]])
    return inertias


def _joints(moving: Sequence[RawJoint], axes: Sequence[int], rotations: Array, positions: Array) -> tuple[Joint, ...]:
    """Joints of the tree; their arrays are parts of a few large ones. Limits beyond `LARGEST` are none."""
    kinds = [raw.kind for raw in moving if raw.kind is not FIXED]
    numbers = np.array(
        [
            [x for raw, kind in zip(moving, kinds, strict=True) for x in _per_dof(getattr(raw, attribute), kind.nv)]
            for attribute in PER_DOF
        ]
    )
    numbers = read_only(np.where(_IS_LIMIT & (np.abs(numbers) > LARGEST), np.copysign(np.inf, numbers), numbers))
    ends = accumulate((kind.nv for kind in kinds), initial=0)
    return tuple(
        Joint(
            raw.name,
            kind,
            axis,
            R,
            p,
            *numbers[:, start:stop],
            armature_is_straight=raw.armature_is_straight,
            pitch=raw.pitch,
        )
        for raw, kind, axis, R, p, (start, stop) in zip(
            moving, kinds, axes, rotations, positions, pairwise(ends), strict=True
        )
    )


def _per_dof(value: float | Array, nv: int) -> Sequence[float] | Array:
    return value if isinstance(value, np.ndarray) else [value] * nv


def _exact(rotations: Sequence[Array] | Array) -> Array:
    return read_only(exact_quarter_turns(np.array(rotations).reshape(-1, 3, 3)))


def _axes_and_alignments(moving: Sequence[RawJoint]) -> tuple[list[int], Array]:
    """Coordinate axis for the axis of each joint, and rotations (n, 3, 3) of the joints' frames that make it that one.

    Joints without a direction have the z axis, and are not turned.
    """
    given = [raw.axis if raw.kind and raw.kind.has_axis else (0.0, 0.0, 1.0) for raw in moving]
    directions = np.array(given, dtype=float).reshape(-1, 3)
    directions /= np.linalg.norm(directions, axis=-1, keepdims=True)
    axes = np.argmax(np.abs(directions), axis=-1)
    axes[[raw.kind is not FIXED and raw.kind.nv > 1 for raw in moving]] = 2
    return axes.tolist(), exact_quarter_turns(rotation_between(np.eye(3)[axes], directions))


def _products(matrices: Array, vectors: Sequence[Array]) -> Array:
    """Products (n, 3) of matrices (n, 3, 3) and vectors (3,)."""
    return np.asarray((matrices @ np.array(vectors).reshape(-1, 3, 1))[..., 0])
