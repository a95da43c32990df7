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

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import chain
from typing import Any

from delassus.spatial.ops import Body
from delassus.spatial.trace.batched_calls import called
from delassus.spatial.trace.nodes import Expression, Table
from delassus.spatial.trace.operations import LEAVES, OPERATIONS, Op, arity
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


NONE: frozenset[int] = frozenset()

Step = tuple[int, int, tuple[int, int, int], frozenset[int]]
"""Node of an operation, its kind, its operands, −1 where there are none, and those that count as known numbers."""


def _forwards(
    ops: TraceOps, steps: Sequence[Step], inputs: Sequence[int], outputs: Sequence[int], given: Sequence[int]
) -> list[int]:
    found = {k: x for k, x in zip(inputs, given, strict=True) if x}
    for k, op, operands, held in steps:
        total = 0
        for which, x in enumerate(operands):
            if (change := found.get(x)) and x not in held:
                total = ops.add(total, _partial(ops, op, k, operands, which, change))
        if total:
            found[k] = total
    return [found.get(k, 0) for k in outputs]


def _backwards(
    ops: TraceOps, steps: Sequence[Step], inputs: Sequence[int], outputs: Sequence[int], given: Sequence[int]
) -> list[int]:
    moves = set(inputs)
    for k, _, operands, held in steps:
        if not moves.isdisjoint(set(operands) - held):
            moves.add(k)
    found: dict[int, int] = {}
    for k, x in zip(outputs, given, strict=True):
        found[k] = ops.add(found.get(k, 0), x)
    for k, op, operands, held in reversed(steps):
        if k in moves and (own := found.get(k)):
            for which, x in enumerate(operands):
                if x in moves and x not in held:
                    found[x] = ops.add(found.get(x, 0), _partial(ops, op, k, operands, which, own))
    return [found.get(k, 0) for k in inputs]


def _operations(ops: TraceOps, outputs: Sequence[int]) -> list[Step]:
    """Operations that the outputs need, in order, with their operands, −1 where there are none."""
    graph = ops.graph([outputs])
    needed = graph.reachable(outputs)
    nodes = enumerate(graph.nodes())
    return [(k, op, (a, b, c), ops.held.get(k, NONE)) for k, (op, a, b, c) in nodes if needed[k] and op not in LEAVES]


class DifferentiableTraceOps(TraceOps):
    """Tracing of programs that are differentiated: loops end where an equation holds, from which derivatives follow.

    With ``F(p, x) = p − g(p, x) = 0`` and ``J = ∂F/∂p``, ``p − J⁻¹ F`` with ``p`` and ``J`` held has the derivative
    ``−J⁻¹ ∂F/∂x`` of the implicit function theorem, by elimination without exchanges. Where ``p`` is not unique, as of
    rows that are redundant, ``(1 + 2 δ R) R J R``, ``R = (J + δ)⁻¹``, has small changes: of what no ``p`` can follow,
    as where one of four corners that rest has a gap and others overlap by round-off, it leaves out that part. Beside
    ``1 / j`` it errs by ``3 (δ / j)²``. ``δ`` is the root of the round-off.
    """

    def repeat(self, times: int, start: Sequence[Any], body: Body, unless: Any = 0.0) -> list[Any]:
        """A single pass is not a loop: derivatives go through it."""
        if times != 1:
            return super().repeat(times, start, body, unless)
        return [self.select(unless, x, y) for x, y in zip(start, body(list(start))[0], strict=True)]

    def differentiable(self, repeated: Callable[[], list[Any]], once: Callable[[], list[Any]]) -> list[Any]:
        """What ``once`` makes."""
        return once()

    def implicit(self, values: Sequence[Any], image: Callable[[Sequence[Any]], Sequence[Any]]) -> list[Any]:
        """``values``, which ``image`` maps to themselves, with the derivative of ``p − J⁻¹ (p − g(p))``."""
        p = [self.number(x) for x in values]
        missed = [self.subtract(x, self.number(y)) for x, y in zip(p, image(values), strict=True)]
        U, n, shift = jacobian(self, p, missed), len(p), self.number(self.epsilon**0.5)
        J, L = [list(row) for row in U], [[0] * n for _ in U]
        for k in range(n):
            U[k][k] = self.add(U[k][k], shift)
            over = self.divide(self._one, U[k][k])
            for i in range(k + 1, n):
                if U[i][k]:
                    L[i][k] = self.multiply(U[i][k], over)
                    for j in range(k + 1, n):
                        U[i][j] = self.subtract(U[i][j], self.multiply(L[i][k], U[k][j]))
            U[k][k] = over
        start = len(self.at)
        still = [self.operation(Op.MAX, x, x) for x in missed]  # rounded numbers, without derivatives
        self.held |= {x: frozenset([y]) for x, y in zip(still, missed, strict=True)}
        moving = {*missed, *still}
        x = self._substituted(L, U, list(map(self.subtract, missed, still)))
        x = self._substituted(L, U, [self._sum(map(self.multiply, row, x)) for row in J])
        twice = self.add(shift, shift)
        x = [self.add(a, self.multiply(twice, b)) for a, b in zip(x, self._substituted(L, U, x), strict=True)]
        for node, (_, *operands) in enumerate(self.since(start), start):
            if node not in still:
                self.held[node] = frozenset(a for a in operands if a < start and a not in moving)
        return [Expression(self, self.subtract(old, change)) for old, change in zip(p, x, strict=True)]

    def tangents(self, values: Sequence[Any], inputs: Sequence[Any], changes: Any) -> Any:
        """Changes (m × k) of the values, by code that the columns share."""
        outputs, given = ([self.number(x) for x in nodes] for nodes in (values, inputs))

        def of_column(change: Table) -> list[Table]:
            return [Table(self, [[x] for x in tangents(self, given, outputs, change.nodes())], 1)]

        columns = [[self.take(changes, None, (k,))] for k in range(changes.columns)]
        made: list[Any] = [change for (change,) in called(self, of_column, columns)]
        return self.hstack([self.zeros(len(outputs), 0), *made])

    def _sum(self, terms: Iterable[int]) -> int:
        return reduce(self.add, terms)

    def _substituted(self, L: Sequence[Sequence[int]], U: Sequence[Sequence[int]], right: Sequence[int]) -> list[int]:
        """``(L U)⁻¹`` times the right side; the diagonal of L is 1, that of U inverted."""
        x, n = list(right), len(U)
        for i in range(n):
            for k in range(i):
                x[i] = self.subtract(x[i], self.multiply(L[i][k], x[k]))
        for i in reversed(range(n)):
            for k in range(i + 1, n):
                x[i] = self.subtract(x[i], self.multiply(U[i][k], x[k]))
            x[i] = self.multiply(U[i][i], x[i])
        return x
