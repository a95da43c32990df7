"""Joints of UsdPhysics → joints of the library, actuators, constraints of loops and of joints that follow others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf, radians
from typing import Any, NamedTuple

import numpy as np

from delassus.constraints import Constraint, Distance, Frame, Hinge, JointRows, Point, Prismatic, Weld
from delassus.errors import ModelError, shown
from delassus.formats.features import JOINTS, USD
from delassus.formats.sdf.frames import Pose, inverse, times
from delassus.formats.usd.prims import (
    WORLD,
    Prims,
    each,
    first_number,
    flag,
    has_api,
    names_of,
    number,
    schemas,
    targets,
    text,
)
from delassus.model.actuators import Actuator
from delassus.model.description import FIXED, RawJoint, RawLink, unique_name
from delassus.spatial.joint_kinds import BALL, PLANAR, PRISMATIC, REVOLUTE, TRANSLATION, JointKind
from delassus.spatial.rotations import Array, matrix_to_quaternion, rotation_about, rotation_between

TYPES = {words: kind for kind, words in JOINTS[USD].items() if " " not in words}
"""Kind of each type of joint that has one."""

WHOLE = {tuple(words.split()[1:]): kind for kind, words in JOINTS[USD].items() if " " in words}
"""Kind of a joint that leaves these freedoms of a generic one."""

OTHER_TYPES = ("PhysicsFixedJoint", "PhysicsDistanceJoint", "PhysicsJoint")

STRAIGHT, TURNING = ("transX", "transY", "transZ"), ("rotX", "rotY", "rotZ")
"""Degrees of freedom of a generic joint."""

NO_LIMIT = 1e30
"""Limits and forces from here on are none: the largest number of single precision is one of them."""

MIMIC = "PhysxMimicJointAPI:"
"""Schema of PhysX of a joint that follows another, before the degree of freedom."""


class Freedom(NamedTuple):
    """A degree of freedom, or all, of a joint: its kind, the number of its axis, and its name in UsdPhysics."""

    kind: JointKind
    axis: int
    word: str


class UsdJoint(NamedTuple):
    """A joint: its prim and name, the bodies that it connects, where it is on each, and what it leaves free.

    ``freedoms`` None: it carries nothing. ``is_loop``: it closes a loop.
    """

    prim: Any
    name: str
    ends: tuple[str, str]
    poses: tuple[Pose, Pose]
    freedoms: tuple[Freedom, ...] | None
    is_loop: bool

    @property
    def what(self) -> str:
        """What messages call it."""
        return f"joint {self.name!r}"

    def reversed(self) -> UsdJoint:
        """The joint from its second body to its first: its coordinates are the same."""
        return self._replace(ends=self.ends[::-1], poses=self.poses[::-1])

    def named(self, k: int) -> str:
        """Name of the library's joint for one of what it leaves free."""
        own = self.freedoms or ()
        return self.name if len(own) == 1 else f"{self.name}:{own[k].word}"


def joints_of(prims: Prims) -> list[UsdJoint]:
    """Joints of a stage that are enabled."""
    own = [x for x in each(prims, *TYPES, *OTHER_TYPES) if flag(x, "physics:jointEnabled", True)]
    names = names_of(own)
    return [_joint(prims, prim, names[str(prim.GetPath())]) for prim in own]


def in_series(joints: Sequence[UsdJoint]) -> tuple[list[UsdJoint], dict[str, tuple[str, str]]]:
    """Joints of MuJoCo's schema between the same two bodies, one after the other, as MuJoCo has them; all others as is.

    And links between them, which are where the second body is as long as all are at zero, with the two bodies.
    """
    found, last, between = list[UsdJoint](), dict[tuple[str, str], int](), dict[str, tuple[str, str]]()
    for joint in joints:
        ends, is_one = joint.ends, bool(joint.freedoms) and has_api(joint.prim, "MjcJointAPI") and not joint.is_loop
        if is_one and ends in last:
            before = found[last[ends]]
            middle = f"{ends[1]}:{before.name}"
            found[last[ends]] = before._replace(ends=(before.ends[0], middle))
            joint, between[middle] = joint._replace(ends=(middle, ends[1]), poses=(joint.poses[1],) * 2), ends
        if is_one:
            last[ends] = len(found)
        found.append(joint)
    return found, between


def _joint(prims: Prims, prim: Any, name: str) -> UsdJoint:
    ends, poses = [], []
    for k in "01":
        paths = targets(prim, f"physics:body{k}")
        owner = prims.stage.GetPrimAtPath(paths[0]) if paths else None
        if len(paths) > 1 or (paths and not owner):
            came = f"{len(paths)}" if len(paths) > 1 else shown(paths[0])
            raise ModelError(f"physics:body{k} of joint {name!r}", "one prim that exists", came, "Correct the stage.")
        body = None if owner is None else prims.body_of(owner)
        ends.append(WORLD if body is None else body.name)
        poses.append(prims.local(prim, (f"physics:localPos{k}", f"physics:localRot{k}"), owner, body))
    if ends[0] == ends[1]:
        raise ModelError(f"joint {name!r}", "two bodies, or one and the world", f"{ends[0]!r} twice", "Correct it.")
    is_loop = flag(prim, "physics:excludeFromArticulation", False)
    return UsdJoint(prim, name, (ends[0], ends[1]), (poses[0], poses[1]), _freedoms(prim, name), is_loop)


def _freedoms(prim: Any, name: str) -> tuple[Freedom, ...] | None:
    """What a joint leaves free, from its first body on."""
    kind = str(prim.GetTypeName())
    if kind in TYPES:
        axis = text(prim, "physics:axis") or "X"
        if axis not in ("X", "Y", "Z"):
            raise ModelError(f"physics:axis of joint {name!r}", "X, Y or Z", shown(axis), "Correct it.")
        return (Freedom(TYPES[kind], "XYZ".index(axis), "linear" if TYPES[kind] is PRISMATIC else "angular"),)
    if kind != "PhysicsJoint":
        return () if kind == "PhysicsFixedJoint" else None
    free = [word for word in (*STRAIGHT, *TURNING) if not _is_locked(prim, word)]
    bare = not any(x.split(":")[0] in ("PhysicsDriveAPI", "PhysicsLimitAPI") and x.split(":")[-1] in free
                   for x in schemas(prim))  # fmt: skip
    whole = {**WHOLE, TURNING: BALL}
    if bare and tuple(free) in whole:
        return (Freedom(whole[tuple(free)], 2, ""),)
    return tuple(Freedom(PRISMATIC if x in STRAIGHT else REVOLUTE, "XYZ".index(x[-1]), x) for x in free)


def _is_locked(prim: Any, word: str) -> bool:
    """Whether limits hold a degree of freedom of a generic joint: the lower one is above the upper one."""
    if not has_api(prim, f"PhysicsLimitAPI:{word}"):
        return False
    low, high = (number(prim, f"limit:{word}:physics:{x}", y, True) for x, y in (("low", -inf), ("high", inf)))
    return low > high


def raw_joints(joint: UsdJoint, is_reversed: bool, prims: Prims, extra: dict[str, RawLink]) -> Iterator[RawJoint]:
    """Joints of the library for one of the stage, whose first body carries the second; links between in ``extra``."""
    parent, child = joint.ends
    (R0, p0), (R1, p1) = joint.poses
    freedoms = [*enumerate(joint.freedoms or ())][:: -1 if is_reversed else 1]
    if not freedoms:
        yield RawJoint(joint.name, FIXED, parent, child, p0 - R0 @ R1.T @ p1, R0 @ R1.T)
    R, p = R0, p0
    for place, (k, own) in enumerate(freedoms, start=1):
        last = place == len(freedoms)
        link = child if last else unique_name(f"{child}:{own.word}", {*extra})
        if not last:
            extra[link] = RawLink(link)
        axis = np.eye(3)[own.axis] * (-1.0 if is_reversed else 1.0)
        yield RawJoint(
            joint.named(k), own.kind, parent, link, p, R @ R1.T if last else R, R1 @ axis if last else axis,
            child_position=-p1 if last else np.zeros(3), **_numbers(joint, own, prims),
        )  # fmt: skip
        parent, p, R = link, np.zeros(3), np.eye(3)


def factors_of(prims: Prims, own: Freedom) -> tuple[float, float]:
    """Units of a coordinate (rad or m), and of a force along it."""
    if own.kind is PRISMATIC:
        return prims.length, prims.mass * prims.length
    return radians(1.0), prims.mass * prims.length**2


def _numbers(joint: UsdJoint, own: Freedom, prims: Prims) -> dict[str, Any]:
    """Limits and resistance of a degree of freedom."""
    if own.kind not in (REVOLUTE, PRISMATIC):
        return {}
    prim, (unit, force) = joint.prim, factors_of(prims, own)
    names = ("physics:lowerLimit", "physics:upperLimit")
    if own.word in (*STRAIGHT, *TURNING):
        is_limited = has_api(prim, f"PhysicsLimitAPI:{own.word}")
        names = (f"limit:{own.word}:physics:low", f"limit:{own.word}:physics:high") if is_limited else ("", "")
    lower, upper = (number(prim, x, y, True) if x else y for x, y in zip(names, (-inf, inf), strict=True))
    drive = _drive(joint, own, prims)
    per = prims.mass if own.kind is PRISMATIC else force  # of armature, and of what is per radian or metre
    speed = number(prim, "physxJoint:maxJointVelocity", inf, True)
    is_one = own.word in ("linear", "angular")
    scaled = per / (1.0 if own.kind is PRISMATIC else unit)  # what is per degree
    return {
        "lower": -inf if lower <= -NO_LIMIT else lower * unit, "upper": inf if upper >= NO_LIMIT else upper * unit,
        "armature": first_number(prim, ("mjc:armature", "newton:armature", "physxJoint:armature"), (per,) * 3),
        "damping": first_number(prim, ("mjc:damping", "newton:damping"), (per, scaled)) if is_one else 0.0,
        "friction": first_number(
            prim, ("mjc:frictionloss", "newton:friction", "physxJoint:jointFriction"), (force,) * 3
        ) if is_one else 0.0,
        "stiffness": first_number(prim, ("mjc:stiffness",), (per,)) if is_one else 0.0,
        "rest_position": first_number(prim, ("mjc:springref",), (unit,)) if is_one else 0.0,
        "velocity_limit": inf if speed >= NO_LIMIT else speed * unit,
        "effort_limit": drive.most if drive is not None and not (drive.stiffness or drive.damping) else inf,
    }  # fmt: skip


# -- drives --------------------------------------------------------------------------------------------------------


class Drive(NamedTuple):
    """A drive of a degree of freedom, in SI units: gains, targets, largest force, and whether that is a force."""

    stiffness: float
    damping: float
    position: float
    velocity: float
    most: float
    is_force: bool


def _drive(joint: UsdJoint, own: Freedom, prims: Prims) -> Drive | None:
    prim, start = joint.prim, f"drive:{own.word}:physics:"
    if not has_api(prim, f"PhysicsDriveAPI:{own.word}"):
        return None
    unit, force = factors_of(prims, own)
    k, d, q, v = (number(prim, start + x, 0.0) for x in ("stiffness", "damping", "targetPosition", "targetVelocity"))
    most = number(prim, start + "maxForce", inf, True)
    kind = text(prim, start + "type") or "force"
    if most < 0.0 or kind not in ("force", "acceleration"):
        raise ModelError(f"drive of {joint.what}", "a positive maxForce, type force or acceleration",
                         shown((most, kind)), "Correct it.")  # fmt: skip
    return Drive(
        k * force / unit, d * force / unit, q * unit, v * unit, inf if most >= NO_LIMIT else most * force,
        kind == "force",
    )  # fmt: skip


def actuators_of(joints: Sequence[UsdJoint], prims: Prims) -> tuple[list[Actuator], list[float], dict[str, list[str]]]:
    """Servos of the drives of joints, their controls at the start, and names of drives that none is.

    A drive with stiffness is a servo of position, one with damping alone a servo of velocity; controls are targets.
    """
    found, controls = list[Actuator](), list[float]()
    others: dict[str, list[str]] = {"accelerations": [], "drives": []}
    for joint in joints:
        driven = {x.split(":")[-1] for x in schemas(joint.prim) if x.startswith("PhysicsDriveAPI:")}
        single = {x.word: k for k, x in enumerate(joint.freedoms or ()) if x.kind in (REVOLUTE, PRISMATIC)}
        others["drives"] += [f"{joint.name}:{word}" for word in sorted(driven - {*single})]
        for word, k in single.items():
            drive, name = _drive(joint, (joint.freedoms or ())[k], prims), joint.named(k)
            if drive is None or not (drive.stiffness or drive.damping):
                continue
            if not drive.is_force:
                others["accelerations"].append(name)
                continue
            given = text(joint.prim, f"delassus:drive:{word}:name") or name
            if drive.stiffness:
                push = drive.damping * drive.velocity
                gain, bias = (drive.stiffness, 0.0, 0.0), (push, -drive.stiffness, -drive.damping)
            else:
                gain, bias = (drive.damping, 0.0, 0.0), (0.0, 0.0, -drive.damping)
            found.append(Actuator(given, {name: 1.0}, gain, bias, force_range=(-drive.most, drive.most)))
            controls.append(drive.position if drive.stiffness else drive.velocity)
    return found, controls, others


# -- loops, and joints that follow others ----------------------------------------------------------------------------


def loop_of(joint: UsdJoint, prims: Prims) -> Constraint | None:
    """Constraint of a joint between bodies that others carry; None where no pair has its motion."""
    first, second = (Frame(on, p, R) for on, (R, p) in zip(joint.ends, joint.poses, strict=True))
    if joint.freedoms is None:
        low, high = (number(joint.prim, f"physics:{x}Distance", -1.0, True) for x in ("min", "max"))
        return Distance(first, second, length=low * prims.length) if low == high and 0.0 < low < NO_LIMIT else None
    if len(joint.freedoms) > 1:
        return None
    if not joint.freedoms:
        return Weld(first, second)
    own = joint.freedoms[0]
    if own.kind is BALL:
        return Point(first, second)
    if own.kind not in (REVOLUTE, PRISMATIC):
        return None
    return (Hinge if own.kind is REVOLUTE else Prismatic)(first, second, np.eye(3)[own.axis])


def followers_of(joints: Sequence[UsdJoint], prims: Prims) -> tuple[list[Constraint], list[str]]:
    """Couplings of joints that follow others, as Newton's and PhysX's schemas have them; names of those that do not."""
    by_path = {str(joint.prim.GetPath()): joint for joint in joints}
    found, others = list[Constraint](), list[str]()
    for joint in joints:
        given = [(path, *_newton(joint.prim)) for path in targets(joint.prim, "newton:mimicJoint")
                 if flag(joint.prim, "newton:mimicEnabled", True)]  # fmt: skip
        for schema in schemas(joint.prim):
            if schema.startswith(MIMIC):
                word = schema.removeprefix(MIMIC)
                start = f"physxMimicJoint:{word}:"
                gear, offset = (number(joint.prim, start + x, y) for x, y in (("gearing", 1.0), ("offset", 0.0)))
                given += [(path, -offset, -gear) for path in targets(joint.prim, start + "referenceJoint")]
        for path, rest, factor in given:
            leader = by_path.get(path)
            singles = [_single(x) for x in (joint, leader) if x is not None]
            if len(singles) < 2 or None in singles or leader is joint:
                others.append(joint.name)
                continue
            (a, unit), (b, other) = (x for x in singles if x is not None)
            u, w = (factors_of(prims, x)[0] for x in (unit, other))
            found.append(JointRows({a: 1.0, b: -factor * u / w}, rest=rest * u))
    return found, others


def _newton(prim: Any) -> tuple[float, float]:
    """Offset and factor of Newton's schema."""
    return number(prim, "newton:mimicCoef0", 0.0), number(prim, "newton:mimicCoef1", 1.0)


def _single(joint: UsdJoint) -> tuple[str, Freedom] | None:
    """Name of the only degree of freedom of a joint."""
    own = joint.freedoms or ()
    return (joint.name, own[0]) if len(own) == 1 and own[0].kind in (REVOLUTE, PRISMATIC) else None


# -- where joints are ------------------------------------------------------------------------------------------------


def coordinates(joint: UsdJoint, raw: Mapping[str, RawJoint], poses: Mapping[str, Pose]) -> dict[str, Array]:
    """Coordinates of the library's joints for one of the stage where its bodies have these poses in the world.

    Those of a joint about several axes are what its turn about x, then y, then z is.
    """
    first, second = (poses[x] for x in joint.ends)
    R, p = times(inverse(times(first, joint.poses[0])), times(second, joint.poses[1]))
    freedoms = joint.freedoms or ()
    turns = [x.axis for x in freedoms if x.kind is REVOLUTE]
    angles = np.array([np.arctan2(-R[1, 2], R[2, 2]), np.arctan2(R[0, 2], np.hypot(R[0, 0], R[0, 1])),
                       np.arctan2(-R[0, 1], R[0, 0])])  # fmt: skip
    if len(turns) == 1:
        i = turns[0]
        j, k = (i + 1) % 3, (i + 2) % 3
        angles[i] = np.arctan2(R[k, j] - R[j, k], R[j, j] + R[k, k])
    found = dict[str, Array]()
    for k, own in enumerate(freedoms):
        name = joint.named(k)
        if own.kind is REVOLUTE or own.kind is PRISMATIC:
            found[name] = np.atleast_1d(angles[own.axis] if own.kind is REVOLUTE else p[own.axis])
        else:
            found[name] = _whole(raw[name], poses)
    return found


def _whole(raw: RawJoint, poses: Mapping[str, Pose]) -> Array:
    """Coordinates of a joint of several degrees of freedom, from its placement."""
    R, p = times(inverse(poses[raw.parent]), poses[raw.child])
    turn = raw.rotation.T @ R
    moved = raw.rotation.T @ (p - raw.position) - turn @ raw.child_position
    if raw.kind is PLANAR:
        A = rotation_between(np.eye(3)[2], raw.axis / np.linalg.norm(raw.axis))
        turn, moved = A.T @ turn @ A, A.T @ moved
        return np.array([*moved[:2], *np.array([turn[0, 0], turn[1, 0]]) / np.hypot(turn[0, 0], turn[1, 0])])
    if raw.kind is TRANSLATION:
        return np.asarray(moved)
    quaternion = matrix_to_quaternion(turn)
    return quaternion if raw.kind is BALL else np.array([*moved, *quaternion])


def is_at(joint: UsdJoint, q: Mapping[str, Array], poses: Mapping[str, Pose], near: float) -> bool:
    """Whether bodies have the poses that coordinates of the joint between them give them, but for ``near``."""
    first, second = (poses[x] for x in joint.ends)
    R, p = times(inverse(times(first, joint.poses[0])), times(second, joint.poses[1]))
    freedoms = joint.freedoms or ()
    free = np.zeros(3)
    turned = np.eye(3)
    for k, own in enumerate(freedoms):
        if own.kind is PRISMATIC:
            free[own.axis] = q[joint.named(k)][0]
        elif own.kind is REVOLUTE:
            turned = turned @ rotation_about(np.eye(3)[own.axis], q[joint.named(k)][0])
        else:
            turned = R if own.kind is not TRANSLATION else turned
            free = p if own.kind is not BALL else free
    return bool(np.max(np.abs(turned - R)) < near and np.max(np.abs(free - p)) < near)
