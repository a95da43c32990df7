"""From a request to a `Program`: trace and optimise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from delassus.accuracy.policy import are_no_guide
from delassus.compiler.passes.schedule import reorder
from delassus.compiler.passes.simplify import optimise
from delassus.compiler.program.header import file_header
from delassus.compiler.program.program import Program, Result, Stage
from delassus.compiler.program.stages import cut
from delassus.compiler.program.trace import Trace, trace_request
from delassus.compiler.targets.c.text import identifier
from delassus.quantities.request import Request
from delassus.spatial.trace.graph import Graph
from delassus.version import __version__

MOST_VALUES = 60_000
"""Values that stages set for others, at most: those of a block, 64 bytes each, lie on the stack, of 8 MiB as a rule."""


def make_program(asked: Request, with_rcond: bool = True, dtype: str = "") -> Program:
    """Trace what is asked for and optimise its graph; with its reciprocal condition as the last result, or without.

    For numbers of type ``dtype`` errors are estimated by what solutions miss where pivots are no guide.
    """
    tree, quantity = asked.tree, asked.quantity
    traced = trace_request(asked, with_rcond, calls=True, dtype=dtype or "float64")
    if dtype and asked.solves and not asked.error_dtype and are_no_guide(traced.ops, traced.by_pivots, dtype):
        return make_program(replace(asked, error_dtype=dtype))
    before, graph = _cut(asked, traced)
    if len({target for stage in before for target in stage.targets}) > MOST_VALUES:
        traced = trace_request(asked, with_rcond, calls=False, dtype=dtype or "float64")
        before, graph = _cut(asked, traced)
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


def _cut(asked: Request, traced: Trace) -> tuple[tuple[Stage, ...], Graph]:
    """Stages of what has been traced, and its last part."""
    n_inputs = sum(a.size for a in asked.arguments)
    return cut(traced.ops.graph(traced.computed), traced.ops.loops, n_inputs, optimise)


def derivative_programs(asked: Request, order: int) -> list[Program]:
    """Programs of derivatives for CasADi: of order 1 the Jacobian, of order 2 also cotangents and their Jacobian."""
    modes = [("jacobian",), ("vjp",), ("vjp", "jacobian")][: (0, 1, 3)[order]]
    return [make_program(asked.differentiated(*some), with_rcond=False) for some in modes]


def _meaning(whole: str, results: Sequence[Result]) -> str:
    if len(results) == 1:
        return f"{results[0].meaning}."
    return f"{whole}: {'; '.join(f'{x.name}, {x.meaning}' for x in results)}."
