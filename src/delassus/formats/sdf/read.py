"""SDF files → `Tree`. Meshes, visuals, collisions and sensors are not read.

All is as SDFormat says: a model moves freely unless a joint or ``<static>`` holds it, a link without ``<inertial>`` has
a mass of 1 kg and moments of 1 kg·m², and axes are those of the joint's frame (before 1.5 of the model's).
A joint whose child another one carries already closes a loop, and becomes a constraint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf, pi
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element

import numpy as np

from delassus.constraints import Constraint, Frame, Hinge, JointRows, Point, Prismatic, Weld
from delassus.errors import ModelError, shown
from delassus.formats.features import FROM_SDF, omitted
from delassus.formats.sdf.frames import OWN, WORLD, Frames, Model, flag_of, numbers_of, read_pose, text_of
from delassus.formats.sdf.models import models_of
from delassus.model.check import decimal_numbers
from delassus.model.description import FIXED, Check, RawJoint, RawLink, Root, unique_name
from delassus.model.edit.build import build_tree
from delassus.model.keyframe import Keyframe
from delassus.model.tree import Tree
from delassus.spatial.joint_kinds import BALL, FREE, PRISMATIC, REVOLUTE, SCREW, JointKind
from delassus.spatial.rotations import Array, matrix_to_quaternion

KINDS: dict[str, tuple[JointKind, ...] | None] = {
    "revolute": (REVOLUTE,), "continuous": (REVOLUTE,), "prismatic": (PRISMATIC,), "ball": (BALL,), "screw": (SCREW,),
    "universal": (REVOLUTE, REVOLUTE), "revolute2": (REVOLUTE, REVOLUTE), "fixed": (), "gearbox": None,
}  # fmt: skip
"""Joints of each type, one on the other; a gearbox couples others."""

AXES = ("axis", "axis2")

AXES_OF_JOINTS = (1, 5)
"""Version from which on axes are those of the joint's frame; before, of the model's."""

SHORTEST_AXIS = 1e-9
"""Axes that are shorter than this are refused."""

PARALLEL = 0.999
"""Cosine above which the axis of a gearbox and that of a joint are one."""

NO_LIMIT = 1e16
"""Positions from which on there is no limit; there is none where efforts and speeds are negative."""

FOREIGN, READ = ("plugin", "actor", "fluid_added_mass"), ("drake:rotor_inertia", "drake:gear_ratio", "drake:mimic")
"""Elements that change what a robot does and that a tree does not hold; elements of Drake that are read."""


class _Joint(NamedTuple):
    """A joint of a file: its model and element, its whole name, the links that it connects, and its type."""

    model: Model
    element: Element
    name: str
    parent: str
    child: str
    kind: str

    @property
    def what(self) -> str:
        return f"joint {self.name!r}"

    @property
    def frame(self) -> str:
        return Frames.of_joint(self.name, self.model)


def tree_from_sdf(
    root: Element,
    path: Path,
    fallback_name: str,
    given: Root | None,
    check_inertia: Check,
    source: str,
    max_bytes: float,
) -> Tree:
    """Build the tree of a parsed ``<sdf>``; see `delassus.load`.

    ``given`` None: roots of models move freely unless a joint or ``<static>`` holds them, else all are as it says.
    """
    models = models_of(root, path, max_bytes)
    frames = Frames(models)
    elements = {key: (model, x) for model in models[1:] for x, key in model.children("link")}
    links = {key: _link(x, key) for key, (_, x) in elements.items()}
    still = {key for key, (model, _) in elements.items() if model.is_static}
    joints = [_joint(model, x, key, frames) for model in models for x, key in model.children("joint")]
    carried, loops = _carriers([joint for joint in joints if joint.child not in still], links)
    raw, extra = list(_roots(elements, carried, frames, still, given)), dict[str, RawLink]()
    starts = {joint.name: frames.pose(joint.child) for joint in raw if joint.kind is FREE}
    for joint in carried.values():
        raw += _raw_joints(joint, frames, extra)
    used = {joint.name for joint in raw}
    for key, on in _named_frames(models, frames):
        R, p = frames.within(key, on)
        extra[key] = RawLink(key)
        raw.append(RawJoint(unique_name(f"{key}:fixed", used), FIXED, on, key, p, R))
    described = [RawLink(WORLD), *links.values(), *extra.values()]
    name = (models[1] if models[1].key == OWN else models[0]).element.get("name") or fallback_name
    tree = build_tree(name, described, raw, check_inertia=check_inertia, source=source)
    constraints, others = _constraints(joints, loops, carried, frames, tree)
    weightless = {
        key: links[key] for key, (_, x) in elements.items() if not flag_of(x, "gravity", f"link {key!r}", True)
    }
    tree = replace(
        tree,
        constraints=tuple(constraints),
        omitted=omitted(FROM_SDF, tree, loops=others, **_foreign(models)),
        gravity=np.array(numbers_of(models[0].element, "gravity", "the world", *tree.gravity.tolist())),
        gravity_compensation={
            key: np.array([x.mass, *x.com]) for key, x in weightless.items() if tree.frames[key].link >= 0
        },
    )
    q = tree.neutral()
    for free, (R, p) in starts.items():
        q[tree.q_index(free)] = [*p, *matrix_to_quaternion(R)]
    return replace(tree, keyframes={} if np.array_equal(q, tree.neutral()) else {"qpos0": Keyframe(q)})


# -- links ---------------------------------------------------------------------------------------------------------


def _link(element: Element, key: str) -> RawLink:
    """A link; without ``<inertial>`` its mass is 1 kg and its moments are 1 kg·m², as SDF has them."""
    what, inertial = f"link {key!r}", element.find("inertial")
    if inertial is None:
        return RawLink(key, 1.0, np.zeros(3), np.eye(3))
    if inertial.get("auto", "false").lower() in ("true", "1"):
        wanted = "numbers in its <inertial>"
        raise ModelError(what, wanted, "auto='true', of its collisions", "Write mass and moments out.")
    (mass,) = numbers_of(inertial, "mass", what, 1.0)
    R, com = read_pose(inertial, f"<inertial> of {what}")
    moments = inertial.find("inertia")
    terms = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
    own = np.zeros((3, 3))
    for i, j in terms:
        default = 1.0 if i == j else 0.0
        tag = f"i{'xyz'[i]}{'xyz'[j]}"
        (value,) = (default,) if moments is None else numbers_of(moments, tag, f"<inertia> of {what}", default)
        own[i, j] = own[j, i] = value
    return RawLink(key, mass, com, R @ own @ R.T)


def _roots(
    elements: Mapping[str, tuple[Model, Element]],
    carried: Mapping[str, _Joint],
    frames: Frames,
    still: Collection[str],
    given: Root | None,
) -> Iterator[RawJoint]:
    """Joints between the world and links that no joint of the file carries."""
    used = {joint.name for joint in carried.values()} | {*elements}
    for key, (model, _) in elements.items():
        if key in carried:
            continue
        R, p = frames.pose(key)
        if key in still or given == "fixed":
            yield RawJoint(unique_name(f"{key}:fixed", used), FIXED, WORLD, key, p, R)
        else:
            is_own = frames.link(model.key) == key
            yield RawJoint(
                unique_name(f"{model.prefix}root_joint" if is_own else f"{key}:root_joint", used), FREE, WORLD, key
            )


def _named_frames(models: Sequence[Model], frames: Frames) -> Iterator[tuple[str, str]]:
    """Whole names of frames, of models in others and in a world, too, and the links that they move with."""
    for model in models:
        keys = [key for _, key in model.children("frame")]
        for key in keys if model.around is None or model.key == OWN else [model.key, *keys]:
            yield key, frames.link(key)


# -- joints --------------------------------------------------------------------------------------------------------


def _joint(model: Model, element: Element, key: str, frames: Frames) -> _Joint:
    what, kind = f"joint {key!r}", element.get("type", "")
    if kind not in KINDS:
        raise ModelError(what, f"a type among {', '.join(KINDS)}", shown(element.get("type")), "Use one of these.")
    ends = []
    for role in ("parent", "child"):
        name = text_of(element, role)
        if not name:
            raise ModelError(what, f"a <{role}>", "none", f"Say which link is its {role}.")
        ends.append(frames.link(frames.key(name, model, what)))
    if ends[1] == WORLD and not model.is_static:
        raise ModelError(what, "a child that moves", "the world", "Exchange parent and child.")
    return _Joint(model, element, key, ends[0], ends[1], kind)


def _carriers(joints: Sequence[_Joint], links: Mapping[str, RawLink]) -> tuple[dict[str, _Joint], list[_Joint]]:
    """The joint that carries each link, in the order of the file, and those that close loops."""
    found, loops = dict[str, _Joint](), list[_Joint]()
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


def _raw_joints(joint: _Joint, frames: Frames, extra: dict[str, RawLink]) -> Iterator[RawJoint]:
    """Joints of the library for one of the file: two for two axes, with a link without mass between, in ``extra``."""
    kinds = KINDS[joint.kind] or ()
    R, at = frames.within(joint.child, joint.parent)
    _, p = frames.within(joint.frame, joint.parent)
    beyond = -frames.within(joint.frame, joint.child)[1]
    if not kinds:
        yield RawJoint(joint.name, FIXED, joint.parent, joint.child, at, R)
    parent = joint.parent
    for k, (kind, tag) in enumerate(zip(kinds, AXES, strict=False), start=1):
        last = k == len(kinds)
        name = joint.name if len(kinds) == 1 else f"{joint.name}:{k}"
        child = joint.child if last else unique_name(f"{joint.child}:{k}", {*extra})
        if not last:
            extra[child] = RawLink(child)
        numbers = _numbers(joint, tag, frames) if kind is not BALL else {}
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


def _numbers(joint: _Joint, tag: str, frames: Frames) -> dict[str, Any]:
    """Axis, in the child's frame, limits and resistance that an ``<axis>`` or ``<axis2>`` says."""
    element = joint.element.find(tag)
    what = f"{joint.what}, <{tag}>"
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
        "axis": frames.within(_axes_of(joint, element, frames), joint.child)[0] @ _axis(element, what),
        "lower": -inf if joint.kind == "continuous" else lower, "upper": inf if joint.kind == "continuous" else upper,
        "effort_limit": inf if effort < 0.0 else effort, "velocity_limit": inf if velocity < 0.0 else velocity,
        "damping": damping, "friction": friction, "stiffness": stiffness, "rest_position": rest,
        "armature": rotor * ratio * ratio,
    }  # fmt: skip


def _axis(element: Element, what: str) -> Array:
    """Direction that an ``<axis>`` says, of length one."""
    axis = np.array(numbers_of(element, "xyz", what, 0.0, 0.0, 1.0))
    length = float(np.linalg.norm(axis))
    if not length > SHORTEST_AXIS:
        raise ModelError(f"{what}, <xyz>", "a vector that is not zero", shown(axis.tolist()), "Correct it.")
    return np.asarray(axis / length)


def _axes_of(joint: _Joint, element: Element, frames: Frames) -> str:
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


def _pitch(joint: _Joint) -> float:
    """Metres a radian of a screw: ``screw_thread_pitch`` is metres a turn, ``thread_pitch`` is −radians a metre."""
    if joint.kind != "screw":
        return 0.0
    if joint.element.find("screw_thread_pitch") is None and joint.element.find("thread_pitch") is not None:
        (turns,) = numbers_of(joint.element, "thread_pitch", joint.what, 1.0)
        if turns == 0.0:
            raise ModelError(f"{joint.what}, <thread_pitch>", "a number that is not zero", "0", "Use a revolute joint.")
        return -1.0 / turns
    return numbers_of(joint.element, "screw_thread_pitch", joint.what, 1.0)[0] / (2.0 * pi)


# -- loops and couplings -------------------------------------------------------------------------------------------


def _constraints(
    joints: Sequence[_Joint], loops: Sequence[_Joint], carried: Mapping[str, _Joint], frames: Frames, tree: Tree
) -> tuple[list[Constraint], list[str]]:
    """Constraints of joints that close loops, of gearboxes and of joints that follow others; names of what has none."""
    found, others = list[Constraint](), list[str]()
    for joint in loops:
        made = _gearbox(joint, carried, frames) if joint.kind == "gearbox" else _loop(joint, frames)
        found += [made] if made is not None else []
        others += [joint.name] if made is None else []
    single = {joint.name for joint in tree.joints if joint.nv == 1}
    for joint in joints:
        for name, row, rest in _followers(joint):
            if {name, *row} <= single:
                found.append(JointRows({name: 1.0} | {leader: -x for leader, x in row.items()}, rest=rest))
            else:
                others.append(name)
    return found, others


def _loop(joint: _Joint, frames: Frames) -> Constraint | None:
    """Constraint of a joint between links that others carry."""
    R, p = frames.within(joint.frame, joint.parent)
    own = frames.within(joint.frame, joint.child)
    first, second = Frame(joint.parent, p, R), Frame(joint.child, own[1], own[0])
    match joint.kind:
        case "fixed":
            return Weld(first, second)
        case "ball":
            return Point(first, second)
        case "revolute" | "continuous" | "prismatic":
            element = joint.element.find("axis")
            if element is None:
                raise ModelError(joint.what, "an <axis>", "none", f"A {joint.kind} joint has one.")
            turn = frames.within(_axes_of(joint, element, frames), joint.frame)[0]
            axis = turn @ _axis(element, joint.what)
            return Prismatic(first, second, axis) if joint.kind == "prismatic" else Hinge(first, second, axis)
    return None


def _gearbox(joint: _Joint, carried: Mapping[str, _Joint], frames: Frames) -> Constraint | None:
    """``θ₂ + ratio θ₁ = 0``: angles of parent and child from the reference body, about ``axis`` and ``axis2``."""
    (ratio,) = numbers_of(joint.element, "gearbox_ratio", joint.what, 1.0)
    reference = text_of(joint.element, "gearbox_reference_body")
    if not reference:
        return None
    on, row = frames.link(frames.key(reference, joint.model, joint.what)), dict[str, float]()
    for link, tag, factor in ((joint.parent, "axis", ratio), (joint.child, "axis2", 1.0)):
        element, hinge, sign = joint.element.find(tag), carried.get(link), 1.0
        if hinge is None or hinge.parent != on:
            hinge, sign = carried.get(on), -1.0
            if hinge is None or hinge.parent != link:
                return None
        own = hinge.element.find("axis")
        if element is None or own is None or hinge.kind not in ("revolute", "continuous"):
            return None
        turn = frames.within(_axes_of(joint, element, frames), _axes_of(hinge, own, frames))[0]
        along = float(_axis(own, hinge.what) @ turn @ _axis(element, joint.what))
        if abs(along) < PARALLEL:
            return None
        row[hinge.name] = row.get(hinge.name, 0.0) + factor * sign * float(np.sign(along))
    return JointRows(row)


def _followers(joint: _Joint) -> Iterator[tuple[str, dict[str, float], float]]:
    """Degrees of freedom of a joint that follow others: name, factors of those, and rest."""
    kinds, prefix = KINDS[joint.kind] or (), joint.model.prefix
    for k, (_, tag) in enumerate(zip(kinds, AXES, strict=False), start=1):
        axis = joint.element.find(tag)
        mimic = None if axis is None else axis.find("mimic")
        if mimic is None:
            continue
        factor, offset, reference = (
            numbers_of(mimic, x, joint.what, y)[0]
            for x, y in (("multiplier", 1.0), ("offset", 0.0), ("reference", 0.0))
        )
        leader = prefix + mimic.get("joint", "")
        name = joint.name if len(kinds) == 1 else f"{joint.name}:{k}"
        yield name, {leader: factor}, offset - factor * reference
    own = joint.element.find("drake:mimic")
    if own is not None:
        numbers = [decimal_numbers(own.get(x, y)) for x, y in (("multiplier", "1"), ("offset", "0"))]
        if any(x is None or len(x) != 1 for x in numbers):
            raise ModelError(joint.what, "numbers in <drake:mimic>", shown(own.attrib), "Correct them.")
        (factor,), (offset,) = (x for x in numbers if x is not None)
        yield joint.name, {prefix + own.get("joint", ""): factor}, offset


def _foreign(models: Sequence[Model]) -> dict[str, list[str]]:
    """What of a file a tree does not hold: sensors, and elements of other programs that change the motion."""
    found: dict[str, list[str]] = {"sensors": [], "foreign": []}
    for model in models:
        for element in model.element:
            own = [element, *(element if element.tag in ("link", "joint") else ())]
            for part in own:
                name = f"{part.tag} {part.get('name')}" if part.get("name") else part.tag
                if part.tag == "sensor":
                    found["sensors"].append(model.prefix + part.get("name", ""))
                elif part.tag in FOREIGN or (part.tag.startswith("drake:") and part.tag not in READ):
                    found["foreign"].append(name)
    return found
