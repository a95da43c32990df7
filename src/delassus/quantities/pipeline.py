"""From a request to a `Program`: trace and optimise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from delassus.accuracy.policy import are_no_guide
from delassus.compiler.passes.schedule import reorder
from delassus.compiler.passes.simplify import optimise
from delassus.compiler.program.program import Program, Result
from delassus.compiler.program.stages import cut
from delassus.compiler.targets.c.text import identifier
from delassus.constraints import Constraint, exact
from delassus.quantities.request import Request
from delassus.quantities.trace import trace_request
from delassus.version import __version__


def make_program(asked: Request, with_rcond: bool = True, dtype: str = "") -> Program:
    """Trace what is asked for and optimise its graph; with its reciprocal condition as the last result, or without.

    For numbers of type ``dtype`` errors are estimated by what solutions miss where pivots are no guide.
    """
    tree, quantity = asked.tree, asked.quantity
    traced = trace_request(asked, with_rcond, calls=True, dtype=dtype or "float64")
    if dtype and asked.solves and not asked.error_dtype and are_no_guide(traced.ops, traced.by_pivots, dtype):
        return make_program(replace(asked, error_dtype=dtype))
    n_inputs = sum(a.size for a in asked.arguments)
    before, graph = cut(traced.ops.graph(traced.computed), traced.ops.loops, n_inputs, optimise)
    traced.ops.forget()
    made = Program(
        name=identifier("_".join((tree.name, quantity.name, *asked.derivative))),
        graph=graph,
        arguments=asked.arguments,
        results=tuple(traced.results),
        before=before,
        error_dtype=asked.error_dtype,
    )
    return _commented(asked, made)


def without_estimate(asked: Request, program: Program) -> Program:
    """A program without its reciprocal condition: all else to the bit, which a trace without it need not give."""
    if not any(r.hidden for r in program.results):
        return program
    graph = replace(program.graph, outputs=(np.array(program.graph.flat_outputs()[:-1], dtype=np.int64),))  # the last
    graph = reorder(graph, np.flatnonzero(graph.reachable(graph.flat_outputs())))
    return _commented(asked, replace(program, graph=graph, results=program.results[:-1]))


def _commented(asked: Request, made: Program) -> Program:
    """A program that says what it is."""
    tree, quantity, count = asked.tree, asked.quantity, made.count().total
    comment = (
        _meaning(quantity.meaning, made.results),
        f"{f'Method: {asked.method}, {count}' if quantity.methods else count} operations.",
        f"Robot: {tree.name}, nq = {tree.nq}, nv = {tree.nv}, fingerprint {tree.fingerprint}.",
        *file_header(asked),
        f"Made by delassus {__version__}.",
    )
    return replace(made, comment=comment)


def derivative_programs(asked: Request, order: int) -> list[Program]:
    """Programs of derivatives for CasADi: of order 1 the Jacobian, of order 2 also cotangents and their Jacobian."""
    modes = [("jacobian",), ("vjp",), ("vjp", "jacobian")][: (0, 1, 3)[order]]
    return [make_program(asked.differentiated(*some), with_rcond=False) for some in modes]


def _meaning(whole: str, results: Sequence[Result]) -> str:
    if len(results) == 1:
        return f"{results[0].meaning}."
    return f"{whole}: {'; '.join(f'{x.name}, {x.meaning}' for x in results)}."


# -- headers of generated files: what of a request is numbers in the code, in lines of text ---------------------------


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
    if options.springs:
        yield f"Springs: {', '.join(map(repr, options.springs))}."
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
    if "compliance" in asked.quantity.options and isinstance(given := options.compliance[i], tuple) and given:
        yield f"compliance {exact(given)}"


def _span(where: slice) -> str:
    return f"{where.start}" if where.stop == where.start + 1 else f"{where.start}:{where.stop}"
