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
from delassus.model.edit.lock import LEFT_OUT, lock
from delassus.model.inertia import motion_transform
from delassus.model.kinematics import generic_configurations, relative_poses
from delassus.model.topology import WORLD, Topology, characteristic_length
from delassus.spatial.motion import LINEAR

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
    led = [_led(constraint, names) for constraint in tree.constraints]
    gone = tuple(repr(c) for c, left in zip(tree.constraints, led, strict=True) if left is None)
    omitted = {**tree.omitted, LOCKED: names, **({LEFT_OUT: gone} if gone else {})}
    moving = replace(tree, constraints=tuple(c for c in led if c is not None), omitted=omitted)
    return lock(moving, idle.keys(), tree.neutral())


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


def _led(constraint: Any, locked: Collection[str]) -> Any:
    """The constraint without rows whose first joint is locked: it followed the others. None if no row is left."""
    if not set(constraint.joints) & set(locked):
        return constraint
    rows = [(row, rest) for row, rest in constraint.couplings() or () if next(iter(row)) not in locked]
    return type(constraint)([row for row, _ in rows], [rest for _, rest in rows]) if rows else None
