"""Joints that move nothing with inertia: which they are, the error where a mass matrix is inverted, and ways out.

A link without inertia is harmless where what it carries has some about the joint. So the articulated inertia along each
joint decides, at one generic configuration: what holds there holds at almost all. It is compared with the rigid inertia
of all that the joint carries.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, TypeVar

import numpy as np

from delassus.errors import ModelError
from delassus.model.edit.combine import ON_THE_WORLD
from delassus.model.inertia import motion_transform, move_inertia
from delassus.model.kinematics import generic_configurations, relative_poses
from delassus.model.topology import WORLD, Placement, Topology, characteristic_length
from delassus.spatial.motion import LINEAR
from delassus.spatial.rotations import Array, exact_quarter_turns

T = TypeVar("T", bound=Topology)

Massless = Literal["keep", "lock", "armature", "error"]

MASSLESS: tuple[Massless, ...] = ("keep", "lock", "armature", "error")

LEAST_INERTIA = 1e-12
"""Of what a joint feels, relative to the inertia of the rigid subtree along the same axis: below it there is none."""

SMALL_ARMATURE = 1e-4
"""Armature of joints that move nothing with inertia, where it is asked for: part of the mass of the robot (kg) at those
that slide, and of that mass times the square of its characteristic length (kg m²) at those that turn."""

KEPT = "joints that move nothing with inertia, which forward dynamics, Delassus matrices and simulation refuse"
LOCKED = "joints that move nothing with inertia, and are locked at zero"
ADDED = "joints that move nothing with inertia, and have a small armature"
LEFT_OUT = "constraints, actuators and sensors of locked joints"

GENERIC = 20240229
"""Seed of the configuration."""


@dataclass(frozen=True, slots=True)
class Idle:
    """Degrees of freedom of a joint, by number, along which nothing that moves has inertia; whether all are."""

    dofs: tuple[int, ...]
    is_whole: bool


@lru_cache(maxsize=256)
def idle_joints(tree: Topology, loaded: tuple[str, ...] = ()) -> Mapping[int, Idle]:
    """Joints, by link, along which there is no inertia; ``loaded`` names links that get one with each call.

    Raises
    ------
    ModelError
        The articulated inertia of a joint is negative: the mass matrix is indefinite.
    """
    inertias = np.array(tree.inertias)
    mass, moment = typical_inertias(tree)
    for name in loaded:
        if (at := tree.placement(name)).link != WORLD:
            inertias[at.link] += np.diag([mass] * 3 + [moment] * 3)
    if np.all(np.linalg.eigvalsh(inertias)[:, 0] > LEAST_INERTIA * inertias.max(axis=(1, 2), initial=0.0)):
        return {}  # each link is a body of its own
    found: dict[int, Idle] = {}
    X = motion_transform(*relative_poses(tree, generic_configurations(tree, GENERIC)))
    both = np.stack([inertias, inertias], axis=1)  # articulated and rigid inertia of each subtree
    for i in tree.leaves_to_root():
        joint, parent = tree.joints[i], tree.parents[i]
        S = joint.subspace
        U = both[i, 0] @ S
        D = S.T @ U + np.diag(joint.armature)
        rigid = np.diagonal(S.T @ both[i, 1] @ S)
        size = np.sqrt(np.abs(rigid) + np.abs(joint.armature))  # masses and moments have their units
        size[size == 0.0] = 1.0
        values, vectors = np.linalg.eigh(D / size / size[:, None])
        if values[0] < -LEAST_INERTIA:
            raise ModelError(
                f"joint {joint.name!r}", "a subtree with inertia about every degree of freedom",
                f"a negative one behind link {tree.link_names[i]!r} (the mass matrix is indefinite)",
                "Give the links mass and inertia, add armature, or make the joint fixed.",
            )  # fmt: skip
        none = values <= LEAST_INERTIA
        if none.any():
            dofs = np.flatnonzero(np.abs(vectors[:, none]).max(axis=1) > np.sqrt(LEAST_INERTIA))
            found[i] = Idle(tuple(dofs.tolist()), bool(none.all()))
        if parent != WORLD:
            V = vectors[:, ~none] / size[:, None]  # of what has no inertia nothing is taken off
            both[i, 0] -= (U @ V / values[~none]) @ (U @ V).T
            both[parent] += X[i].T @ both[i] @ X[i]
    return found


def typical_inertias(tree: Topology) -> tuple[float, float]:
    """Mass of a robot (kg), and that times the square of its characteristic length (kg m²); 1 kg if it has none."""
    mass = float(tree.inertias[:, 0, 0].sum()) or 1.0
    return mass, mass * characteristic_length(tree) ** 2


def require_inertia(tree: Topology, loaded: tuple[str, ...] = ()) -> None:
    """Raise `ModelError` with the names of joints that move nothing with inertia; see `idle_joints`."""
    idle = idle_joints(tree, loaded)
    if idle:
        raise _refused(tree, idle, "massless='lock' or massless='armature' of delassus.load")


def with_inertia(tree: T, how: Massless) -> T:
    """The tree as ``massless`` of `delassus.load` says; the names of these joints are in ``tree.omitted``.

    Raises
    ------
    ModelError
        "error", and joints move nothing with inertia; "lock", and one does so along some of its degrees of freedom.
    """
    idle = idle_joints(tree)
    if not idle:
        return tree
    if how == "error":
        raise _refused(tree, idle, "massless='lock' or massless='armature'")
    names = tuple(tree.joint_names[i] for i in sorted(idle))
    if how == "keep":
        return replace(tree, omitted={**tree.omitted, KEPT: names})
    if how == "armature":
        return replace(_with_armature(tree, idle), omitted={**tree.omitted, ADDED: names})
    for i, found in idle.items():
        if not found.is_whole:
            joint = tree.joints[i]
            raise ModelError(
                f"joint {joint.name!r}", "inertia along all of its degrees of freedom, or along none",
                f"inertia along some, behind link {tree.link_names[i]!r}", "Load it with massless='armature'.",
            )  # fmt: skip
    out, left_out = _locked(tree, set(idle))
    return replace(out, omitted={**tree.omitted, LOCKED: names, **({LEFT_OUT: left_out} if left_out else {})})


def _refused(tree: Topology, idle: Collection[int], ways: str) -> ModelError:
    joints, links = ([names[i] for i in sorted(idle)] for names in (tree.joint_names, tree.link_names))
    plural = "s" if len(joints) > 1 else ""
    return ModelError(
        f"joint{plural} {', '.join(map(repr, joints))}", "a subtree with inertia about every degree of freedom",
        f"none behind link{plural} {', '.join(map(repr, links))} (the mass matrix is singular)",
        f"Give the links mass and inertia, add armature, make the joints fixed, or use {ways}.",
    )  # fmt: skip


def _with_armature(tree: T, idle: Mapping[int, Idle]) -> T:
    """The tree with a small armature where there is no inertia: the same for all turns of a joint, or all slides."""
    mass, moment = typical_inertias(tree)
    joints = list(tree.joints)
    for i, found in idle.items():
        slides = [axis in LINEAR for axis in joints[i].motion_axes]
        kinds = {slides[k] for k in found.dofs}
        added = [SMALL_ARMATURE * (mass if kind else moment) if kind in kinds else 0.0 for kind in slides]
        joints[i] = replace(joints[i], armature=joints[i].armature + added)
    return replace(tree, joints=tuple(joints))


def _locked(tree: T, locked: Collection[int]) -> tuple[T, tuple[str, ...]]:
    """The tree without joints, at zero, and names of constraints, actuators and sensors that it does not have then."""
    names = {tree.joint_names[i] for i in locked}
    # of each link, the one that it is part of now, and its pose there
    places: list[Placement] = []
    joints, parents, kept = [], list[int](), list[int]()
    inertias, world_inertia = list[Array](), np.array(tree.world_inertia)
    for i, joint in enumerate(tree.joints):
        on = ON_THE_WORLD if tree.parents[i] == WORLD else places[tree.parents[i]]
        rotation, position = on.rotation @ joint.rotation, on.position + on.rotation @ joint.position
        if i not in locked:
            places.append(Placement(len(kept), np.eye(3), np.zeros(3)))
            joints.append(replace(joint, rotation=exact_quarter_turns(rotation), position=position))
            parents.append(on.link)
            inertias.append(np.array(tree.inertias[i]))
            kept.append(i)
            continue
        at = Placement(on.link, exact_quarter_turns(rotation), position)
        places.append(at)
        moved = move_inertia(tree.inertias[i], at.rotation, at.position)
        if at.link == WORLD:
            world_inertia += moved
        else:
            inertias[at.link] += moved

    def placed(at: Placement) -> Placement:
        on = ON_THE_WORLD if at.link == WORLD else places[at.link]
        rotation = exact_quarter_turns(on.rotation @ at.rotation)
        return replace(at, link=on.link, rotation=rotation, position=on.position + on.rotation @ at.position)

    frames = {name: placed(at) for name, at in tree.frames.items()}
    of_q, of_v = ([k for i in kept for k in range(x[i].start, x[i].stop)] for x in (tree.q_slices, tree.v_slices))
    out = replace(
        tree, link_names=tuple(tree.link_names[i] for i in kept), joints=tuple(joints), parents=tuple(parents),
        inertias=np.array(inertias).reshape(-1, 6, 6), frames=frames, world_inertia=world_inertia,
        keyframes={},
        aliases={old: new for old, new in tree.aliases.items() if new not in names}, constraints=(), actuators=(),
        sensors=(),
    )  # fmt: skip
    constraints = [_without(constraint, names, out) for constraint in tree.constraints]
    ratios = [{joint: x for joint, x in a.transmission.items() if joint not in names} for a in tree.actuators]
    actuators = [replace(a, transmission=own) for a, own in zip(tree.actuators, ratios, strict=True) if own]
    lost = names | {a.name for a in tree.actuators} - {a.name for a in actuators}
    lost |= {tree.link_names[i] for i in locked}
    moving = ("joint", "actuator", "link", "moving frame")
    sensors = [s for s in tree.sensors if s.KINDS[s.kind][0] not in moving or not lost.intersection(s.names)]
    gone = [repr(c) for c, kept_one in zip(tree.constraints, constraints, strict=True) if kept_one is None]
    gone += sorted({a.name for a in tree.actuators} - {a.name for a in actuators})
    gone += [s.name for s in tree.sensors if s not in sensors]
    held = tuple(c for c in constraints if c is not None)
    acting = [k for k, own in enumerate(ratios) if own]
    keyframes = {n: replace(x, q=x.q[of_q], v=x.v[of_v], ctrl=x.ctrl[acting]) for n, x in tree.keyframes.items()}
    made = replace(
        out, constraints=held, actuators=tuple(actuators), sensors=tuple(sensors), keyframes=keyframes
    )  # fmt: skip
    return made, tuple(gone)


def _without(constraint: Any, locked: Collection[str], tree: Topology) -> Any:
    """The constraint on a tree whose locked joints are at zero; None where nothing is left of it, or moves by it.

    Rows on joints hold for the joints that are left, but for those whose first joint is locked: it followed the others.
    """
    if not set(constraint.joints) & set(locked):
        ends = {tree.placement(frame.link).link for frame in constraint.frames}
        return None if len(constraint.frames) == 2 and len(ends) == 1 else constraint
    rows = [
        (left, rest)
        for row, rest in constraint.couplings() or ()
        if next(iter(row)) not in locked and (left := {name: x for name, x in row.items() if name not in locked})
    ]
    return type(constraint)([row for row, _ in rows], [rest for _, rest in rows]) if rows else None
