"""Raw descriptions, in the description's own frames, and what must be true of their links, joints and numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import hypot
from typing import Literal

import numpy as np

from delassus.errors import ModelError, warn
from delassus.model.check import check_choice
from delassus.model.inertia import inertia_defects, nearest_inertia
from delassus.spatial.joint_kinds import JointKind
from delassus.spatial.rotations import Array

Root = Literal["fixed", "floating"]
Check = Literal["warn", "refuse", "repair"]
Unsupported = Literal["warn", "refuse", "ignore"]

FIXED = None
"""Kind of a raw joint that does not move."""

DEEPEST_XML = 1000
"""Elements nested deeper than this are refused; robots need a few levels, MJCF one for each link of a chain."""

MOST_NAMED = 3
"""Names of each kind that a warning or an error gives."""

LARGEST = 1e30
"""Numbers of a description beyond this (SI units) are refused: their products would overflow. Limits are none there."""


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

    ``child_position`` is the origin of the child link's frame in the frame that moves. What is in `PER_DOF` is one
    number, or one for each degree of freedom.
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
    friction: float | Array = 0.0
    stiffness: float | Array = 0.0
    rest_position: float | Array = 0.0
    effort_limit: float | Array = np.inf
    velocity_limit: float | Array = np.inf
    child_position: Array = field(default_factory=lambda: np.zeros(3))
    armature_is_straight: bool = False
    pitch: float = 0.0

    @property
    def greatest_resistance(self) -> tuple[float, ...]:
        """Armature, damping, friction, stiffness and rest position of largest magnitude."""
        values = (self.armature, self.damping, self.friction, self.stiffness, self.rest_position)
        return tuple(float(np.max(np.abs(x))) if isinstance(x, np.ndarray) else x for x in values)


def unique_name(wanted: str, taken: set[str]) -> str:
    """``wanted``, followed by underscores while that name is taken; adds it to ``taken``."""
    while wanted in taken:
        wanted += "_"
    taken.add(wanted)
    return wanted


def depth_first(first: RawJoint, outgoing: Mapping[str, Sequence[RawJoint]]) -> Iterator[RawJoint]:
    """Visit joints depth first; without recursion, because chains may be long."""
    pending = [first]
    while pending:
        joint = pending.pop()
        yield joint
        pending.extend(reversed(outgoing.get(joint.child, ())))


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


def check_descriptions(
    links: Sequence[RawLink], joints: Sequence[RawJoint], check_inertia: Check, source: str
) -> Sequence[RawLink]:
    """Refuse numbers that are not finite or beyond `LARGEST`, and negative masses; warn of unphysical inertias.

    Returns the links, their inertias repaired if that is asked for; ``source`` is what messages call the description.
    """
    check_choice("check_inertia", check_inertia, ("warn", "refuse", "repair"), ModelError)
    for what, named, attributes in (
        ("inertial of link", links, ("mass", "com", "inertia")),
        ("origin of joint", joints, ("position", "rotation", "child_position")),
        ("axis of joint", joints, ("axis",)),
        ("pitch of joint", joints, ("pitch",)),
        ("armature, damping, friction or spring of joint", joints, ("greatest_resistance",)),
    ):
        columns = [np.array([getattr(x, attribute) for x in named]) for attribute in attributes]
        numbers = (
            np.concatenate([column.reshape(len(named), -1) for column in columns], axis=1) if named else np.zeros(0)
        )
        bad = ~(np.abs(numbers) < LARGEST)
        if bad.any():
            k, entry = np.argwhere(bad)[0]
            raise ModelError(
                f"{what} {named[k].name!r}", f"finite numbers below {LARGEST:g}", f"{numbers[k, entry]:g}",
                "Correct them.",
            )  # fmt: skip
    for joint in joints:
        if any(map(_has_nan, (joint.lower, joint.upper, joint.effort_limit, joint.velocity_limit))):
            raise ModelError(f"limits of joint {joint.name!r}", "numbers", "NaN", "Correct them, or leave them out.")
        if joint.kind and joint.kind.has_axis and hypot(*joint.axis) < 1e-9:
            raise ModelError(
                f"axis of joint {joint.name!r}", "a vector that is not zero", str(joint.axis), "Give the joint an axis."
            )
    odd = [f"{joint.name} ({fault})" for joint in joints if (fault := _fault(joint))]
    if odd:
        warn(f"{source}: no joint is like {', '.join(odd)}; the numbers are used as they are", once=True)
    for link in links:
        if link.mass < 0:
            raise ModelError(
                f"mass of link {link.name!r}", "a mass of at least 0 kg", f"{link.mass:g}", "Correct the mass."
            )
    all_defects = inertia_defects(np.array([link.inertia for link in links]))
    defects = {link.name: defect for link, defect in zip(links, all_defects, strict=True) if defect}
    listed = ", ".join(f"{name} ({defect})" for name, defect in defects.items())
    if defects and check_inertia == "refuse":
        raise ModelError(
            f"{source}, inertia of link {next(iter(defects))!r}",
            "one that a rigid body can have",
            listed,
            "Correct it, or load with check_inertia='repair' for the nearest one, or 'warn'.",
        )
    if defects and check_inertia == "warn":
        warn(f"{source}: no body has the inertia of {listed}; check_inertia='repair' mends it", once=True)
    if check_inertia == "repair":
        return [replace(x, inertia=nearest_inertia(x.inertia)) if x.name in defects else x for x in links]
    return links


def _fault(joint: RawJoint) -> str:
    """Numbers of a joint that make no sense although they can be computed with; "" if there are none."""
    faults = ["lower limit above the upper one"] if np.any(np.asarray(joint.lower) > joint.upper) else []
    signed = ("armature", "damping", "friction", "effort_limit", "velocity_limit")
    faults += [f"negative {x.replace('_', ' ')}" for x in signed if np.any(np.asarray(getattr(joint, x)) < 0)]
    return ", ".join(faults)


def judge_omitted(
    robot: str, form: str, omitted: Mapping[str, Sequence[str]], unsupported: Unsupported, advice: str = ""
) -> None:
    """Warn or raise where ``form`` does not hold all of a robot: names, by what they are names of."""
    check_choice("unsupported", unsupported, ("warn", "refuse", "ignore"), ModelError)
    parts = "; ".join(
        f"{len(names)} {what} ({', '.join(names[:MOST_NAMED])}{', …' if len(names) > MOST_NAMED else ''})"
        for what, names in omitted.items()
    )
    if parts and unsupported == "refuse":
        raise ModelError(
            f"robot {robot!r}", f"nothing that {form} does not hold", parts,
            "Pass unsupported='warn' to go on without these.",
        )  # fmt: skip
    if parts and unsupported == "warn":
        warn(f"robot {robot!r}, as {form}: not represented: {parts}. {advice}".rstrip())


def _has_nan(value: float | Array) -> bool:
    return bool(np.isnan(value).any()) if isinstance(value, np.ndarray) else value != value
