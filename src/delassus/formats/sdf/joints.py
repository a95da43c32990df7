"""Joints of SDF files: the links that they connect, their axes, limits and resistance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf, pi
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from delassus.errors import ModelError, shown
from delassus.formats.sdf.frames import OWN, WORLD, Frames, Model, Pose, flag_of, inverse, numbers_of, text_of
from delassus.model.check import decimal_numbers
from delassus.model.describe import SAME
from delassus.model.description import FIXED, RawJoint, RawLink, unique_name
from delassus.spatial.joint_kinds import BALL, PLANAR, PRISMATIC, REVOLUTE, SCREW, JointKind
from delassus.spatial.rotations import Array, rotation_between

KINDS: dict[str, tuple[JointKind, ...] | None] = {
    "revolute": (REVOLUTE,), "continuous": (REVOLUTE,), "prismatic": (PRISMATIC,), "ball": (BALL,), "screw": (SCREW,),
    "universal": (REVOLUTE, REVOLUTE), "revolute2": (REVOLUTE, REVOLUTE), "fixed": (), "gearbox": None,
    "planar": (PLANAR,),
}  # fmt: skip
"""Joints of each type, one on the other; a gearbox couples others."""

JOINTS = ("joint", "drake:joint")
"""Elements that are joints; `OF_DRAKE` are the types of the latter."""

OF_DRAKE = ("planar",)

AXES = ("axis", "axis2")

AXES_OF_JOINTS = (1, 5)
"""Version from which on axes are those of the joint's frame; before, of the model's."""

SHORTEST_AXIS = 1e-9
"""Axes that are shorter than this are refused."""

NO_LIMIT = 1e16
"""Positions from which on there is no limit; there is none where efforts and speeds are negative."""


class JointElement(NamedTuple):
    """A joint of a file: its model and element, its whole name, the links that it connects, and its type.

    ``frame`` and ``other`` are its frames on parent and child, which are one where it is at zero.
    """

    model: Model
    element: Element
    name: str
    parent: str
    child: str
    kind: str
    frame: str
    other: str

    @property
    def what(self) -> str:
        """What messages call it."""
        return f"joint {self.name!r}"


def read_joint(model: Model, element: Element, key: str, frames: Frames) -> JointElement:
    """A joint of `JOINTS`, with the links that it connects."""
    what, kind, is_own = f"joint {key!r}", element.get("type", ""), element.tag == "joint"
    types = [x for x in KINDS if is_own != (x in OF_DRAKE)]
    if kind not in types:
        raise ModelError(what, f"a type among {', '.join(types)}", shown(element.get("type")), "Use one of these.")
    ends = []
    for role in ("parent", "child"):
        tag = role if is_own else f"drake:{role}"
        name = text_of(element, tag)
        if not name:
            raise ModelError(what, f"a <{tag}>", "none", f"Say which link is its {role}.")
        ends.append(frames.key(name, model, what))
    parent, child = map(frames.link, ends)
    if child == WORLD and not model.is_static:
        raise ModelError(what, "a child that moves", "the world", "Exchange parent and child.")
    at = 2 * [Frames.of_joint(key, model)] if is_own else ends
    return JointElement(model, element, key, parent, child, kind, *at)


def carriers_of(
    joints: Sequence[JointElement], links: Mapping[str, RawLink]
) -> tuple[dict[str, JointElement], list[JointElement]]:
    """The joint that carries each link, in the order of the file, and those that close loops."""
    found, loops = dict[str, JointElement](), list[JointElement]()
    for joint in joints:
        at = joint.parent
        while at in found and at != joint.child:
            at = found[at].parent
        is_loop = joint.kind == "gearbox" or joint.child in found or at == joint.child
        if is_loop:
            loops.append(joint)
        else:
            found[joint.child] = joint
    return found, loops


def raw_joints(joint: JointElement, frames: Frames, extra: dict[str, RawLink]) -> Iterator[RawJoint]:
    """Joints of the library for one of the file: two for two axes, with a link without mass between, in ``extra``."""
    kinds = KINDS[joint.kind] or ()
    R, at = frames.within(joint.child, joint.parent)
    turned, p = frames.within(joint.frame, joint.parent)
    own = frames.within(joint.other, joint.child)
    beyond = -own[1]
    if joint.kind == "planar":
        yield from _planar(joint, (turned, p), own, extra)
        return
    if not kinds:
        yield RawJoint(joint.name, FIXED, joint.parent, joint.child, at, R)
    parent = joint.parent
    for k, (kind, tag) in enumerate(zip(kinds, AXES, strict=False), start=1):
        last = k == len(kinds)
        name = joint.name if len(kinds) == 1 else f"{joint.name}:{k}"
        child = joint.child if last else unique_name(f"{joint.child}:{k}", {*extra})
        if not last:
            extra[child] = RawLink(child)
        numbers = _numbers(joint, tag, frames)
        yield RawJoint(
            name,
            kind,
            parent,
            child,
            p,
            R,
            child_position=beyond if last else np.zeros(3),
            pitch=_pitch(joint),
            **numbers,
        )
        parent, p, R = child, np.zeros(3), np.eye(3)


def _planar(joint: JointElement, at: Pose, own: Pose, extra: dict[str, RawLink]) -> Iterator[RawJoint]:
    """A planar joint of Drake, whose frames have the poses ``at`` in its parent and ``own`` in its child."""
    (R, p), child = at, joint.child
    damping = np.array(numbers_of(joint.element, "drake:damping", joint.what, 0.0, 0.0, 0.0))
    if damping[0] != damping[1]:
        wanted = "the same damping along x and y"
        raise ModelError(f"{joint.what}, <drake:damping>", wanted, shown(damping.tolist()), "Use two prismatic joints.")
    axis, child_position, R_child = own[0][:, 2], -own[1], np.asarray(R @ own[0].T)
    if np.max(np.abs(own[0] - rotation_between(np.eye(3)[2], axis))) > SAME:  # `build_tree` turns links about no more
        child, axis, child_position, R_child = unique_name(f"{child}:planar", {*extra}), np.eye(3)[2], np.zeros(3), R
        extra[child] = RawLink(child)
        turn, position = inverse(own)
        yield RawJoint(f"{joint.name}:fixed", FIXED, child, joint.child, position, turn)
    yield RawJoint(joint.name, PLANAR, joint.parent, child, p, R_child, axis, child_position=child_position,
                   damping=damping)  # fmt: skip


def _numbers(joint: JointElement, tag: str, frames: Frames) -> dict[str, Any]:
    """Axis, in the child's frame, limits and resistance of an ``<axis>`` or ``<axis2>``; of a ball its damping."""
    element = joint.element.find(tag)
    what = f"{joint.what}, <{tag}>"
    if joint.kind == "ball":
        dynamics = None if element is None else element.find("dynamics")
        return {} if dynamics is None else {"damping": numbers_of(dynamics, "damping", what, 0.0)[0]}
    if element is None:
        raise ModelError(joint.what, f"an <{tag}>", "none", f"A {joint.kind} joint has one.")
    lower, upper, effort, velocity = -inf, inf, inf, inf
    if (limit := element.find("limit")) is not None:
        lower, upper, effort, velocity = (
            _number(limit, x, what, default)
            for x, default in (("lower", -inf), ("upper", inf), ("effort", inf), ("velocity", inf))
        )
    lower, upper = -inf if lower <= -NO_LIMIT else lower, inf if upper >= NO_LIMIT else upper
    damping = friction = rest = stiffness = 0.0
    if (dynamics := element.find("dynamics")) is not None:
        damping, friction, rest, stiffness = (
            numbers_of(dynamics, x, what, 0.0)[0]
            for x in ("damping", "friction", "spring_reference", "spring_stiffness")
        )
    rotor, ratio = (
        numbers_of(joint.element, f"drake:{x}", joint.what, y)[0]
        for x, y in (("rotor_inertia", 0.0), ("gear_ratio", 1.0))
    )
    return {
        "axis": frames.within(axes_of(joint, element, frames), joint.child)[0] @ axis_of(element, what),
        "lower": -inf if joint.kind == "continuous" else lower, "upper": inf if joint.kind == "continuous" else upper,
        "effort_limit": inf if effort < 0.0 else effort, "velocity_limit": inf if velocity < 0.0 else velocity,
        "damping": damping, "friction": friction, "stiffness": stiffness, "rest_position": rest,
        "armature": rotor * ratio * ratio,
    }  # fmt: skip


def axis_of(element: Element, what: str) -> Array:
    """Direction that an ``<axis>`` says, of length one."""
    axis = np.array(numbers_of(element, "xyz", what, 0.0, 0.0, 1.0))
    length = float(np.linalg.norm(axis))
    if not length > SHORTEST_AXIS:
        raise ModelError(f"{what}, <xyz>", "a vector that is not zero", shown(axis.tolist()), "Correct it.")
    return np.asarray(axis / length)


def axes_of(joint: JointElement, element: Element, frames: Frames) -> str:
    """The frame that an axis is given in."""
    xyz = element.find("xyz")
    name = "" if xyz is None else xyz.get("expressed_in", "")
    if joint.model.version < AXES_OF_JOINTS or flag_of(element, "use_parent_model_frame", joint.what):
        name = name or OWN
    return frames.key(name, joint.model, joint.what) if name else joint.frame


def _number(element: Element, tag: str, what: str, default: float) -> float:
    """Number in a child element, which may be infinite."""
    text = text_of(element, tag)
    numbers = decimal_numbers(text, infinite=True) if text else (default,)
    if numbers is None or len(numbers) != 1:
        raise ModelError(f"{what}, <{tag}>", "a number", shown(text), "Correct the text.")
    return numbers[0]


def _pitch(joint: JointElement) -> float:
    """Metres a radian of a screw: ``screw_thread_pitch`` is metres a turn, ``thread_pitch`` is −radians a metre."""
    if joint.kind != "screw":
        return 0.0
    if joint.element.find("screw_thread_pitch") is None and joint.element.find("thread_pitch") is not None:
        (turns,) = numbers_of(joint.element, "thread_pitch", joint.what, 1.0)
        if turns == 0.0:
            raise ModelError(f"{joint.what}, <thread_pitch>", "a number that is not zero", "0", "Use a revolute joint.")
        return -1.0 / turns
    return numbers_of(joint.element, "screw_thread_pitch", joint.what, 1.0)[0] / (2.0 * pi)
