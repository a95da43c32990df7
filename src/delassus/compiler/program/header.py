"""Headers of generated files: what of a request is numbers in the code, in lines of text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from delassus.constraints import Constraint, exact
from delassus.quantities.request import Request

NAMED = ("integrator", "reference", "solver", "sweeps", "tolerance", "friction", "restitution", "smoothing", "limits")
"""Options whose value stands there as it is."""


def file_header(asked: Request) -> Iterator[str]:
    """Joints in order with what acts on them, constraints, gravity, gains, and options."""
    tree, options, taken = asked.tree, asked.options, asked.quantity.options
    if "gravity" in taken and options.gravity != "input":
        yield f"Gravity: {exact(options.gravity)} m/s^2."
    if tree.joints:
        yield "Joints, in the order of q and v:"
    for joint, q, v in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        straight = " along axes of the parent" if joint.straight_armature.any() else ""
        parts = [f"armature {exact(joint.armature)}{straight}"] if joint.armature.any() else []
        if "passive" in taken and isinstance(options.damping, tuple) and any(options.damping[v]):
            parts.append(f"damping {exact(options.damping[v])}")
        if "passive" in taken and options.passive and joint.stiffness.any():
            parts.append(f"stiffness {exact(joint.stiffness)} about {exact(joint.rest_position)}")
        if "solver" in taken:
            if options.limits and np.isfinite([*joint.lower, *joint.upper]).any():
                parts.append(f"limits {exact(joint.lower)} to {exact(joint.upper)}")
            if options.passive and joint.friction.any():
                parts.append(f"dry friction {exact(joint.friction)}")
        yield f"  {joint.name}: {joint.kind.name}, q[{_span(q)}], v[{_span(v)}]{''.join(f', {x}' for x in parts)}"
    if "control" in taken and asked.control == "ctrl":
        yield "Actuators, in the order of ctrl:"
        for actuator in tree.actuators:
            joints = ", ".join(f"{ratio:g} {joint}" for joint, ratio in actuator.transmission.items())
            ranges = f"control {exact(actuator.control_range)}, force {exact(actuator.force_range)}"
            affine = f"gain {exact(actuator.gain)}, bias {exact(actuator.bias)}"
            yield f"  {actuator.name}: on {joints}; {affine}; within {ranges}"
    yield f"Constraints:{'' if asked.constraints else ' none.'}"
    row = 0
    for i, c in enumerate(asked.constraints):
        rows = f"row {row}" if c.size == 1 else f"rows {row}-{row + c.size - 1}"
        yield f"  {i}, {rows}: {'; '.join(_described(asked, i, c))}"
        row += c.size
    for title, frames in (("Frames", options.frames or ()), ("Wrenches act at", options.wrenches)):
        if frames:
            yield f"{title}: {', '.join(map(repr, frames))}."
    if options.sensors:
        yield "Sensors, in the order of sensors:"
    at = 0
    for sensor in options.sensors:
        start, at = at, at + sensor.size(tree)
        what = f"{sensor.kind} of {sensor.of!r}, sensors[{_span(slice(start, at))}]"
        yield f"  {sensor.name}: {what}, {sensor.KINDS[sensor.kind][2]}"
    parts = [
        f"{name} {getattr(options, name)}" for name in NAMED if name in taken and getattr(options, name) is not None
    ]
    if parts:
        yield f"Options: {', '.join(parts)}."


def _described(asked: Request, i: int, c: Constraint) -> Iterator[str]:
    """A constraint with its rows, where its name does not say them, and what holds it."""
    yield repr(c)
    yield from c.header_lines()
    options = asked.options
    if "baumgarte" in asked.quantity.options and (gains := options.baumgarte[i]) is not None:
        yield f"stabilised by {gains[0]:g} (velocity error) + {gains[1]:g} (position error)"
    if "compliance" in asked.quantity.options and isinstance(given := options.compliance[i], tuple):
        yield f"compliance {exact(given)}"


def _span(where: slice) -> str:
    return f"{where.start}" if where.stop == where.start + 1 else f"{where.start}:{where.stop}"
