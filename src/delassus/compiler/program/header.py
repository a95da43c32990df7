"""What of a request is numbers in the code: lines of text for the head of generated files."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from delassus.constraints import Contact, FrameConstraint, JointRows
from delassus.constraints.constraint import Constraint
from delassus.model.rotations import Array
from delassus.quantities.request import Request

NAMED = ("integrator", "reference", "solver", "sweeps", "tolerance", "friction", "restitution", "limits")
"""Options whose value is told as it is."""


def built_in(asked: Request) -> Iterator[str]:
    """Joints in order with what acts on them, constraints, gravity, gains, and options."""
    tree, options, taken = asked.tree, asked.options, asked.quantity.options
    if "gravity" in taken and options.gravity != "input":
        yield f"Gravity: {_numbers(options.gravity)} m/s^2."
    if tree.joints:
        yield "Joints, in the order of q and v:"
    for joint, q, v in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        told = [f"armature {_numbers(joint.armature)}"] if joint.armature.any() else []
        if "passive" in taken and isinstance(options.damping, tuple) and any(options.damping[v]):
            told.append(f"damping {_numbers(options.damping[v])}")
        if "passive" in taken and options.passive and joint.stiffness.any():
            told.append(f"stiffness {_numbers(joint.stiffness)} about {_numbers(joint.rest_position)}")
        if "solver" in taken:
            if options.limits and np.isfinite([*joint.lower, *joint.upper]).any():
                told.append(f"limits {_numbers(joint.lower)} to {_numbers(joint.upper)}")
            if options.dry_friction and joint.friction.any():
                told.append(f"dry friction {_numbers(joint.friction)}")
        yield f"  {joint.name}: {joint.kind.value}, q[{_span(q)}], v[{_span(v)}]{''.join(f', {x}' for x in told)}"
    if "control" in taken and asked.control == "ctrl":
        yield "Actuators, in the order of ctrl:"
        for actuator in tree.actuators:
            joints = ", ".join(f"{ratio:g} {joint}" for joint, ratio in actuator.transmission.items())
            ranges = f"control {_numbers(actuator.control_range)}, force {_numbers(actuator.force_range)}"
            affine = f"gain {_numbers(actuator.gain)}, bias {_numbers(actuator.bias)}"
            yield f"  {actuator.name}: on {joints}; {affine}; within {ranges}"
    yield f"Constraints:{'' if asked.constraints else ' none.'}"
    row = 0
    for i, c in enumerate(asked.constraints):
        rows = f"row {row}" if c.size == 1 else f"rows {row}-{row + c.size - 1}"
        yield f"  {i}, {rows}: {'; '.join(_told(asked, i, c))}"
        row += c.size
    for title, frames in (("Frames", options.frames or ()), ("Wrenches act at", options.wrenches)):
        if frames:
            yield f"{title}: {', '.join(map(repr, frames))}."
    told = [
        f"{name} {getattr(options, name)}" for name in NAMED if name in taken and getattr(options, name) is not None
    ]
    if told:
        yield f"Options: {', '.join(told)}."


def _told(asked: Request, i: int, c: Constraint) -> Iterator[str]:
    """A constraint with its rows, where its name does not say them, and what holds it."""
    yield repr(c)
    if isinstance(c, JointRows):
        rows = ("; ".join(f"{_numbers(x)} {joint}" for joint, x in row.items()) for row in c.rows)
        yield f"rows {' | '.join(rows)}, at rest {_numbers(c.rest)}"
    elif isinstance(c, Contact):
        yield f"friction {c.friction:g}, restitution {c.restitution:g}"
    elif isinstance(c, FrameConstraint):
        if c.rows is not None and not _is_selection(c.rows):
            yield f"rows {' | '.join(map(_numbers, c.rows))}"
        if c.angular_axes != c.axes:
            yield f"angular rows in {c.angular_axes} axes"
    options = asked.options
    if "baumgarte" in asked.quantity.options and (gains := options.gains[i]) is not None:
        yield f"stabilised by {gains[0]:g} (velocity error) + {gains[1]:g} (position error)"
    if "compliance" in asked.quantity.options and isinstance(given := options.compliance[i], tuple):
        yield f"compliance {_numbers(given)}"


def _is_selection(rows: Array) -> bool:
    """Whether rows are rows of the identity, in order: as of `Weld` and `Point`."""
    return bool(np.array_equal(rows, np.eye(6)[: len(rows)]))


def _span(where: slice) -> str:
    return f"{where.start}" if where.stop == where.start + 1 else f"{where.start}:{where.stop}"


def _numbers(values: object) -> str:
    """Numbers as they are, to the last digit; one of them alone without brackets."""
    numbers = [repr(float(x)) for x in np.ravel(np.asarray(values, dtype=float))]
    numbers = [x.removesuffix(".0") for x in numbers]
    return numbers[0] if len(numbers) == 1 else f"({', '.join(numbers)})"
