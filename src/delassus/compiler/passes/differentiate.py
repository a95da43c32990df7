"""Derivatives of a traced program, operation by operation: forwards of a tangent, backwards of a cotangent, or all.

``tangents``    ẏ = (∂y/∂x) ẋ      from inputs to outputs, at one to three times the operations of the program
``cotangents``  x̄ = (∂y/∂x)ᵀ ȳ     from outputs to inputs, at two to four times (Baur and Strassen 1983)
``jacobian``    ∂y/∂x              of unit tangents or cotangents, whose zeros take no operation

All go through the program once, of any number of inputs and outputs, and make further nodes of the same trace, which
shares, folds and drops as for the program itself. Inputs count as independent numbers: those of a quaternion are four.
Where the program compares numbers, its derivative is that of the branch that is taken.

Source: Griewank and Walther, Evaluating Derivatives, chapter 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from delassus.spatial.trace.operations import LEAVES, OPERATIONS, arity
from delassus.spatial.trace.trace_ops import TraceOps


def _partial(ops: TraceOps, op: int, y: int, operands: Sequence[int], which: int, x: int) -> int:
    """``x`` times the partial derivative of the operation ``y`` with respect to one of its operands."""
    return OPERATIONS[op].partials[which](ops, x, y, *operands[: arity(op)])


def tangents(ops: TraceOps, inputs: Sequence[int], outputs: Sequence[int], given: Sequence[int]) -> list[int]:
    """Nodes of the tangents of the nodes ``outputs``, those of the nodes ``inputs`` being ``given``."""
    return _forwards(ops, _operations(ops, outputs), inputs, outputs, given)


def cotangents(ops: TraceOps, inputs: Sequence[int], outputs: Sequence[int], given: Sequence[int]) -> list[int]:
    """Nodes of the cotangents of the nodes ``inputs``, those of the nodes ``outputs`` being ``given``."""
    return _backwards(ops, _operations(ops, outputs), inputs, outputs, given)


def jacobian(ops: TraceOps, inputs: Sequence[int], outputs: Sequence[int]) -> list[list[int]]:
    """Nodes of the derivatives of each of the nodes ``outputs``: a list of those with each of the nodes ``inputs``.

    Column by column forwards; of many more columns than rows, backwards if that takes fewer operations.
    """
    steps, one = _operations(ops, outputs), ops.number(1.0)
    n, m = len(inputs), len(outputs)
    columns = [_forwards(ops, steps, inputs, outputs, _unit(n, k, one)) for k in range(n)]
    rows = [list(row) for row in zip(*columns, strict=True)] if columns else [[] for _ in outputs]
    if n > 2 * m:
        others = [_backwards(ops, steps, inputs, outputs, _unit(m, k, one)) for k in range(m)]
        rows = min(rows, others, key=lambda made: ops.count(chain.from_iterable(made)))
    return rows


def _unit(size: int, k: int, one: int) -> list[int]:
    return [one if j == k else 0 for j in range(size)]


Step = tuple[int, int, tuple[int, int, int]]
"""Node of an operation, its kind and its operands, −1 where there are none."""


def _forwards(
    ops: TraceOps, steps: Sequence[Step], inputs: Sequence[int], outputs: Sequence[int], given: Sequence[int]
) -> list[int]:
    found = {k: x for k, x in zip(inputs, given, strict=True) if x}
    for k, op, operands in steps:
        total = 0
        for which, x in enumerate(operands):
            if change := found.get(x):
                total = ops.add(total, _partial(ops, op, k, operands, which, change))
        if total:
            found[k] = total
    return [found.get(k, 0) for k in outputs]


def _backwards(
    ops: TraceOps, steps: Sequence[Step], inputs: Sequence[int], outputs: Sequence[int], given: Sequence[int]
) -> list[int]:
    moves = set(inputs)
    for k, _, operands in steps:
        if not moves.isdisjoint(operands):
            moves.add(k)
    found: dict[int, int] = {}
    for k, x in zip(outputs, given, strict=True):
        found[k] = ops.add(found.get(k, 0), x)
    for k, op, operands in reversed(steps):
        if k in moves and (own := found.get(k)):
            for which, x in enumerate(operands):
                if x in moves:
                    found[x] = ops.add(found.get(x, 0), _partial(ops, op, k, operands, which, own))
    return [found.get(k, 0) for k in inputs]


def _operations(ops: TraceOps, outputs: Sequence[int]) -> list[Step]:
    """Operations that the outputs need, in order, with their operands, −1 where there are none."""
    graph = ops.graph([outputs])
    needed = graph.reachable(outputs)
    nodes = enumerate(graph.nodes())
    return [(k, op, (a, b, c)) for k, (op, a, b, c) in nodes if needed[k] and op not in LEAVES]
