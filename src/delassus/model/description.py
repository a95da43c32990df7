"""Raw descriptions, in the description's own frames, and what must be true of their links, joints and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from delassus.errors import ModelError, shown, warn
from delassus.model.inertia import inertia_defects
from delassus.model.joints import JointKind
from delassus.model.rotations import Array
from delassus.model.tree import WORLD, Tree

Root = Literal["fixed", "floating"]
Check = Literal["warn", "refuse"]

FIXED = None
"""Kind of a raw joint that does not move."""

LARGEST = 1e30
"""Numbers of a description beyond this (SI units) are refused: their products would overflow."""


@dataclass(frozen=True, slots=True)
class RawLink:
    """A link as described: mass, centre of mass and rotational inertia about it, in the link's own frame."""

    name: str
    mass: float = 0.0
    com: Array = field(default_factory=lambda: np.zeros(3))
    inertia: Array = field(default_factory=lambda: np.zeros((3, 3)))


@dataclass(frozen=True, slots=True)
class RawJoint:
    """A joint as described: placement in the parent link's frame, then motion about ``axis`` (``kind`` None: fixed).

    ``child_position`` is the origin of the child link's frame in the frame that moves. Armature, limits and damping are
    one number, or one for each degree of freedom.
    """

    name: str
    kind: JointKind | None
    parent: str
    child: str
    position: Array = field(default_factory=lambda: np.zeros(3))
    rotation: Array = field(default_factory=lambda: np.eye(3))
    axis: Array = field(default_factory=lambda: np.array([0.0, 0.0, 1.0]))
    armature: float | Array = 0.0
    lower: float | Array = -np.inf
    upper: float | Array = np.inf
    damping: float | Array = 0.0
    child_position: Array = field(default_factory=lambda: np.zeros(3))


def find_root(name: str, links: Sequence[RawLink], joints: Sequence[RawJoint]) -> str:
    """Check that the links form one tree and return its root; names the link or joint that breaks it."""
    what = f"robot {name!r}"
    if not links:
        raise ModelError(what, "at least one link", "none", "Check that this file describes a robot.")
    for kind, names in (("link", [x.name for x in links]), ("joint", [x.name for x in joints])):
        twice = [n for n, count in Counter(names).items() if count > 1]
        if twice:
            raise ModelError(what, f"{kind} names that are unique", f"{twice[0]!r} twice", f"Rename one {kind}.")
    known = {link.name for link in links}
    carrier: dict[str, RawJoint] = {}
    for joint in joints:
        for role, link in (("parent", joint.parent), ("child", joint.child)):
            if link not in known:
                raise ModelError(
                    f"joint {joint.name!r}",
                    f"a {role} link that exists",
                    repr(link),
                    "Add the link or correct the name.",
                )
        if joint.child in carrier:
            raise ModelError(
                f"link {joint.child!r}",
                "one parent joint",
                f"two, {carrier[joint.child].name!r} and {joint.name!r}",
                "Describe a closed loop by a constraint between two links instead.",
            )
        carrier[joint.child] = joint
    roots = [link.name for link in links if link.name not in carrier]
    if len(roots) > 1:
        shown = ", ".join(repr(r) for r in roots[:4])
        raise ModelError(what, "one root link", f"{len(roots)} ({shown})", "Connect them with joints.")
    reached = set(roots)
    children: dict[str, list[str]] = {}
    for joint in joints:
        children.setdefault(joint.parent, []).append(joint.child)
    pending = list(roots)
    while pending:
        for child in children.get(pending.pop(), []):
            reached.add(child)
            pending.append(child)
    cyclic = [link.name for link in links if link.name not in reached]
    if cyclic:
        joint = carrier[cyclic[0]]
        raise ModelError(
            f"joint {joint.name!r}",
            "links that form a tree",
            f"a cycle through link {cyclic[0]!r}",
            "Describe a closed loop by a constraint between two links instead.",
        )
    return roots[0]


def check_numbers(numbers: Array, argument: str) -> None:
    """Refuse numbers that are not finite or beyond `LARGEST`."""
    fine = np.abs(numbers) < LARGEST
    if not fine.all():
        raise ModelError(argument, f"finite numbers below {LARGEST:g}", f"{numbers[~fine][0]:g}", "Correct them.")


def check_masses(links: Sequence[RawLink], check_inertia: Check) -> None:
    """Refuse masses and inertias that are negative or not finite; warn of (or refuse) unphysical inertias."""
    if check_inertia not in ("warn", "refuse"):
        raise ModelError("check_inertia", "'warn' or 'refuse'", shown(check_inertia), "Choose one of the two.")
    defects: list[str] = []
    for link in links:
        numbers = np.concatenate([[link.mass], np.ravel(link.com), np.ravel(link.inertia)])
        check_numbers(numbers, f"inertial of link {link.name!r}")
        if link.mass < 0:
            raise ModelError(
                f"mass of link {link.name!r}", "a mass of at least 0 kg", f"{link.mass:g}", "Correct the mass."
            )
        defect = inertia_defects(link.inertia)
        if defect:
            defects.append(f"{link.name} ({defect})")
    if not defects:
        return
    if check_inertia == "refuse":
        raise ModelError(
            f"inertia of link {defects[0].split(' (')[0]!r}",
            "one that a rigid body can have",
            ", ".join(defects),
            "Correct the inertia, or load with check_inertia='warn'.",
        )
    warn(
        f"{len(defects)} link(s) have an inertia that no rigid body can have: {', '.join(defects)}. "
        "The numbers are used as they are; check_inertia='refuse' makes this an error."
    )


def refuse_massless(tree: Tree) -> None:
    """Raise if a joint moves nothing that has inertia: the mass matrix would be singular.

    Runs the articulated-body sweep at one fixed generic configuration (rigid-body dynamics text: `D` must be positive).
    """
    from delassus.model.kinematics import relative_transforms

    X = relative_transforms(tree, tree.random(20240229))
    articulated = [H.copy() for H in tree.inertias]
    composite = [H.copy() for H in tree.inertias]
    for i in tree.leaves_to_root():
        joint, axes = tree.joints[i], list(tree.joints[i].motion_axes)
        U = articulated[i][:, axes]
        D = U[axes] + np.diag(joint.armature)
        size = max(float(np.max(np.abs(composite[i][axes][:, axes]))), float(np.max(joint.armature)), 1e-30)
        least = np.linalg.eigvalsh(D)[0]
        if least <= 1e-12 * size:
            came, means = ("a negative one", "indefinite") if least < -1e-12 * size else ("none", "singular")
            raise ModelError(
                f"joint {joint.name!r}",
                "a subtree with inertia about every degree of freedom",
                f"{came} behind link {tree.link_names[i]!r} (the mass matrix is {means})",
                "Give the links mass and inertia, add armature, or make the joint fixed.",
            )
        p = tree.parents[i]
        if p != WORLD:
            articulated[p] += X[i].T @ (articulated[i] - U @ np.linalg.solve(D, U.T)) @ X[i]
            composite[p] += X[i].T @ composite[i] @ X[i]
