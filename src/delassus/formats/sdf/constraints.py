"""Constraints of SDF files: joints that close loops, gearboxes, joints that follow others, and springs of Drake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from xml.etree.ElementTree import Element

import numpy as np

from delassus.constraints import (
    Bushing,
    Constraint,
    Frame,
    Hinge,
    JointRows,
    Planar,
    Point,
    Prismatic,
    SpringDamper,
    Universal,
    Weld,
)
from delassus.errors import ModelError, shown
from delassus.formats.sdf.frames import Frames, Model, numbers_of, text_of
from delassus.formats.sdf.joints import AXES, KINDS, JointElement, axes_of, axis_of
from delassus.model.check import decimal_numbers
from delassus.model.tree import Tree
from delassus.spatial.rotations import Array

FORCES = ("drake:linear_spring_damper", "drake:linear_bushing_rpy", "drake:ball_constraint")
"""Elements of Drake between two bodies that are read."""

PARALLEL = 0.999
"""Cosine above which the axis of a gearbox and that of a joint are one."""


def constraints_of(
    models: Sequence[Model], joints: Sequence[JointElement], loops: Sequence[JointElement],
    carried: Mapping[str, JointElement], frames: Frames, tree: Tree,
) -> tuple[list[Constraint], list[str]]:  # fmt: skip
    """Constraints of joints that close loops, of gearboxes, of joints that follow others, and of what is in `FORCES`.

    With names of what has none.
    """
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
    return [*found, *(made for model in models for made in _forces(model, frames))], others


def _loop(joint: JointElement, frames: Frames) -> Constraint | None:
    """Constraint of a joint between links that others carry."""
    R, p = frames.within(joint.frame, joint.parent)
    own = frames.within(joint.other, joint.child)
    first, second = Frame(joint.parent, p, R), Frame(joint.child, own[1], own[0])
    match joint.kind:
        case "fixed":
            return Weld(first, second)
        case "ball":
            return Point(first, second)
        case "planar":
            return Planar(first, second)
        case "revolute" | "continuous":
            return Hinge(first, second, _axis_in_joint(joint, "axis", frames))
        case "prismatic":
            return Prismatic(first, second, _axis_in_joint(joint, "axis", frames))
        case "universal" | "revolute2":
            return Universal(first, second, *(_axis_in_joint(joint, tag, frames) for tag in AXES))
    return None


def _axis_in_joint(joint: JointElement, tag: str, frames: Frames) -> Array:
    """Direction of an axis in the joint's frame."""
    element = joint.element.find(tag)
    if element is None:
        raise ModelError(joint.what, f"an <{tag}>", "none", f"A {joint.kind} joint has one.")
    turn = frames.within(axes_of(joint, element, frames), joint.frame)[0]
    return np.asarray(turn @ axis_of(element, joint.what))


def _gearbox(joint: JointElement, carried: Mapping[str, JointElement], frames: Frames) -> Constraint | None:
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
        turn = frames.within(axes_of(joint, element, frames), axes_of(hinge, own, frames))[0]
        along = float(axis_of(own, hinge.what) @ turn @ axis_of(element, joint.what))
        if abs(along) < PARALLEL:
            return None
        row[hinge.name] = row.get(hinge.name, 0.0) + factor * sign * float(np.sign(along))
    return JointRows(row)


def _followers(joint: JointElement) -> Iterator[tuple[str, dict[str, float], float]]:
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


# -- elements of Drake ---------------------------------------------------------------------------------------------


def _forces(model: Model, frames: Frames) -> Iterator[Constraint]:
    """Springs, bushings and points that elements of a model hold together."""
    for element in model.element:
        what = f"<{element.tag}> of {model.what}"
        match element.tag:
            case "drake:linear_spring_damper":
                stiffness, damping, length = (
                    numbers_of(element, f"{element.tag}_{x}", what, 0.0)[0]
                    for x in ("stiffness", "damping", "free_length")
                )
                first, second = _ends(element, model, frames, what)
                yield SpringDamper(first, second, stiffness, damping, length=length)
            case "drake:ball_constraint":
                yield Point(*_ends(element, model, frames, what))
            case "drake:linear_bushing_rpy":
                K, D = (
                    [x for part in ("force", "torque") for x in numbers_of(
                        element, f"drake:bushing_{part}_{kind}", what, 0.0, 0.0, 0.0)]
                    for kind in ("stiffness", "damping")
                )  # fmt: skip
                first, second = _ends(element, model, frames, what)
                yield Bushing(first, second, K, D)


def _ends(element: Element, model: Model, frames: Frames, what: str) -> tuple[Frame, Frame]:
    """The two frames that an element of Drake is between."""
    found, tag = list[Frame](), element.tag
    is_bushing = tag == "drake:linear_bushing_rpy"
    for end, point in (("A", ""), ("C", "")) if is_bushing else (("A", "AP"), ("B", "BQ")):
        role = f"drake:bushing_frame{end}" if is_bushing else f"{tag}_body_{end}"
        name = text_of(element, role)
        if not name:
            raise ModelError(what, f"a <{role}>", "none", "Name both ends.")
        key = frames.key(name, model, what)
        R, p = frames.within(key, link := frames.link(key))
        found.append(Frame(link, p + R @ numbers_of(element, f"{tag}_p_{point}", what, 0.0, 0.0, 0.0), R))
    first, second = found
    if first.link == second.link:
        raise ModelError(what, "two bodies", f"{first.link!r} twice", "Drop it.")
    return first, second
