"""Derivatives of a traced program, operation by operation: forwards of one tangent, backwards of one cotangent.

``tangents``    ẏ = (∂y/∂x) ẋ      from inputs to outputs, at one to three times the operations of the program
``cotangents``  x̄ = (∂y/∂x)ᵀ ȳ     from outputs to inputs, at two to four times (Baur and Strassen 1983)

Both go through the program once, of any number of inputs and outputs, and make further nodes of the same trace, which
shares, folds and drops as for the program itself. Inputs count as independent numbers: those of a quaternion are four.
Where the program compares numbers, its derivative is that of the branch that is taken.

Source: Griewank and Walther, Evaluating Derivatives, chapter 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.spatial.graph import LEAVES, Op
from delassus.spatial.trace_ops import COS, LESS, SELECT, SIN, TraceOps


def _partials(ops: TraceOps, op: int, y: int, operands: Sequence[int], x: int) -> list[tuple[int, int]]:
    """Operands of the operation ``y``, each with ``x`` times the partial derivative with respect to it."""
    a, b, c = operands
    match op:
        case Op.ADD:
            return [(a, x), (b, x)]
        case Op.SUBTRACT:
            return [(a, x), (b, ops.negate(x))]
        case Op.MULTIPLY:
            return [(a, ops.multiply(x, b)), (b, ops.multiply(x, a))]
        case Op.DIVIDE:
            part = ops.divide(x, b)
            return [(a, part), (b, ops.negate(ops.multiply(part, y)))]
        case Op.NEGATE:
            return [(a, ops.negate(x))]
        case Op.SQRT:
            return [(a, ops.divide(ops.multiply(ops.number(0.5), x), y))]
        case Op.SIN:
            return [(a, ops.multiply(x, ops.operation(COS, a)))]
        case Op.COS:
            return [(a, ops.negate(ops.multiply(x, ops.operation(SIN, a))))]
        case Op.COPYSIGN:
            one = ops.number(1.0)
            signs = [ops.operation(Op.COPYSIGN, one, k) for k in (a, b)]
            return [(a, ops.multiply(x, ops.multiply(*signs)))]
        case Op.MIN | Op.MAX:
            first = (a, b) if op == Op.MIN else (b, a)
            return _either(ops, ops.operation(LESS, *first), a, b, x)
        case Op.SELECT:
            return _either(ops, a, b, c, x)
    return []  # a comparison


def _either(ops: TraceOps, condition: int, a: int, b: int, x: int) -> list[tuple[int, int]]:
    return [(a, ops.operation(SELECT, condition, x, 0)), (b, ops.operation(SELECT, condition, 0, x))]


def tangents(ops: TraceOps, inputs: Sequence[int], outputs: Sequence[int], given: Sequence[int]) -> list[int]:
    """Nodes of the tangents of the nodes ``outputs``, those of the nodes ``inputs`` being ``given``."""
    found = dict(zip(inputs, given, strict=True))
    for k, op, operands in _operations(ops, outputs):
        total = 0
        for x in dict.fromkeys(operands):
            if change := found.get(x):
                for of, part in _partials(ops, op, k, operands, change):
                    total = ops.add(total, part) if of == x else total
        if total:
            found[k] = total
    return [found.get(k, 0) for k in outputs]


def cotangents(ops: TraceOps, inputs: Sequence[int], outputs: Sequence[int], given: Sequence[int]) -> list[int]:
    """Nodes of the cotangents of the nodes ``inputs``, those of the nodes ``outputs`` being ``given``."""
    steps = _operations(ops, outputs)
    moves = set(inputs)
    for k, _, operands in steps:
        if not moves.isdisjoint(operands):
            moves.add(k)
    found: dict[int, int] = {}
    for k, x in zip(outputs, given, strict=True):
        found[k] = ops.add(found.get(k, 0), x)
    for k, op, operands in reversed(steps):
        if k in moves and (own := found.get(k)):
            for x, part in _partials(ops, op, k, operands, own):
                if x in moves:
                    found[x] = ops.add(found.get(x, 0), part)
    return [found.get(k, 0) for k in inputs]


def _operations(ops: TraceOps, outputs: Sequence[int]) -> list[tuple[int, int, tuple[int, int, int]]]:
    """Operations that the outputs need, in order, with their operands."""
    graph = ops.graph([outputs])
    needed = graph.reachable(outputs)
    nodes = enumerate(graph.nodes())
    return [(k, op, (a, b, c)) for k, (op, a, b, c) in nodes if needed[k] and op not in LEAVES]
