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

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from delassus.errors import ConfigurationError
from delassus.spatial.ops import Body, Changes, Equations, Image, MotionSpace
from delassus.spatial.trace.nodes import Expression, Table
from delassus.spatial.trace.operations import LEAVES, OPERATIONS, Op, arity
from delassus.spatial.trace.trace_ops import TraceOps

T = TypeVar("T")

ROUNDING = 2.0**4
"""``δ`` of `FixedPoint` over round-off, where only single states have other values; else the root of round-off."""


def _partial(ops: TraceOps, op: int, y: int, operands: Sequence[int], which: int, x: int) -> int:
    """``x`` times the partial derivative of the operation ``y`` with respect to one of its operands."""
    return OPERATIONS[op].partials[which](ops, x, y, *operands[: arity(op)])


def tangents(
    ops: TraceOps, inputs: Sequence[int], outputs: Sequence[int], given: Sequence[int], in_passes: bool = False
) -> list[int]:
    """Nodes of the tangents of the nodes ``outputs``, those of the nodes ``inputs`` being ``given``.

    ``in_passes``: those of a single pass have a pass of their own; they have no derivatives, nor share code by columns.
    """
    return _forwards(ops, _operations(ops, outputs), inputs, outputs, given, in_passes)


def cotangents(
    ops: TraceOps, inputs: Sequence[int], outputs: Sequence[int], given: Sequence[int], in_passes: bool = False
) -> list[int]:
    """Nodes of the cotangents of the nodes ``inputs``, given those of ``outputs``; see `tangents`."""
    return _backwards(ops, _operations(ops, outputs), inputs, outputs, given, in_passes)


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
"""Node of an operation, its kind, and its operands, −1 where there are none."""


def _forwards(
    ops: TraceOps, steps: Sequence[Step], inputs: Sequence[int], outputs: Sequence[int], given: Sequence[int],
    in_passes: bool = False,
) -> list[int]:  # fmt: skip
    found, known = {k: x for k, x in zip(inputs, given, strict=True) if x}, set(inputs)
    for k, op, operands in steps:
        if k in known:
            continue
        if solution := ops.solutions.get(k):
            if k == solution.values[0]:
                is_pass = in_passes and isinstance(solution, SinglePass)
                found |= solution.forwards_in_a_pass(found) if is_pass else solution.forwards(found)
            continue
        total = 0
        for which, x in enumerate(operands):
            if change := found.get(x):
                total = ops.add(total, _partial(ops, op, k, operands, which, change))
        if total:
            found[k] = total
    return [found.get(k, 0) for k in outputs]


def _backwards(
    ops: TraceOps, steps: Sequence[Step], inputs: Sequence[int], outputs: Sequence[int], given: Sequence[int],
    in_passes: bool = False,
) -> list[int]:  # fmt: skip
    moves = set(inputs)
    for k, _, operands in steps:
        solution = ops.solutions.get(k)
        if not moves.isdisjoint(operands if solution is None else solution.depends_on):
            moves.add(k)
    found: dict[int, int] = {}

    def gather(k: int, x: int) -> None:
        if k in moves and x:
            found[k] = ops.add(found.get(k, 0), x)

    for k, x in zip(outputs, given, strict=True):
        gather(k, x)
    for k, op, operands in reversed(steps):
        if solution := ops.solutions.get(k):
            if k == solution.values[0]:
                is_pass = in_passes and isinstance(solution, SinglePass)
                for node, x in solution.backwards_in_a_pass(found, moves) if is_pass else solution.backwards(found):
                    gather(node, x)
        elif own := found.get(k):
            for which, x in enumerate(operands):
                if x in moves:
                    gather(x, _partial(ops, op, k, operands, which, own))
    return [found.get(k, 0) for k in inputs]


def _operations(ops: TraceOps, outputs: Sequence[int], earlier: Collection[int] = ()) -> list[Step]:
    """Operations that derivatives of the outputs need, in order, with their operands, −1 where there are none.

    Of what is ``earlier``, nothing.
    """
    graph, found = ops.graph([outputs]), list(outputs)
    among = np.ones(len(graph), dtype=bool)
    among[list(earlier)] = False
    needed = graph.reachable(found, among)
    for solution in reversed(dict.fromkeys(ops.solutions.values())):
        if any(needed[k] for k in solution.values):
            found += [*solution.values, *solution.depends_on]  # all are differentiated at once
            needed = graph.reachable(found, among)
    nodes = enumerate(graph.nodes())
    return [(k, op, (a, b, c)) for k, (op, a, b, c) in nodes if needed[k] and op not in LEAVES]


class FixedPoint:
    """Nodes ``values`` that are the nodes ``p``, and where ``missed``, ``F = p − g(p, x)``, is zero.

    With ``J = ∂F/∂p`` they have the derivative ``−J⁻¹ ∂F/∂x`` of the implicit function theorem, by elimination without
    exchanges. Where values are not unique, as impulses of rows that are redundant, ``(1 + 2 δ R) R J R``,
    ``R = (J + δ)⁻¹``, stands for ``J⁻¹`` and has small changes: of what no ``p`` can follow, as where one of four
    corners that rest has a gap and others overlap by round-off, it leaves out that part. Beside ``1 / j`` it errs by
    ``3 (δ / j)²``.
    """

    def __init__(
        self, ops: TraceOps, p: Sequence[int], missed: Sequence[int], J: list[list[int]], is_unique: bool
    ) -> None:
        self._ops, self._p, self._missed = ops, list(p), list(missed)
        self.values, self.depends_on = [_copy(ops, x) for x in p], [*p, *missed]
        self._inverse = Inverse(ops, J, is_unique)

    def forwards(self, found: Mapping[int, int]) -> dict[int, int]:
        """Tangents of the values from those that have been found."""
        x = self._inverse.times([found.get(k, 0) for k in self._missed])
        made = (self._ops.subtract(found.get(k, 0), change) for k, change in zip(self._p, x, strict=True))
        return {k: change for k, change in zip(self.values, made, strict=True) if change}

    def backwards(self, found: Mapping[int, int]) -> list[tuple[int, int]]:
        """Cotangents of ``p`` and ``missed`` from those of the values."""
        own = [found.get(k, 0) for k in self.values]
        x = self._inverse.transposed_times(own)
        return [*zip(self._p, own, strict=True), *zip(self._missed, map(self._ops.negate, x), strict=True)]


class MotionSolution:
    """Velocities ``v`` and impulses ``p`` that solve ``ρ = M (v − v*) − Jᵀ p = 0`` and ``F(p, u) = 0``, ``u = J v``.

    With ``z = −L⁻ᵀ ∂ρ`` and ``A = ∂F/∂p + ∂F/∂u G``, ``G = Y Yᵀ``,

        dp = −A⁻¹ (∂F + ∂F/∂u Y z),   dv = L⁻¹ (z + Yᵀ dp),

    ``v`` and ``p`` held in ``∂ρ``, ``∂F``: vectors, where changes of ``L``, ``Y`` and ``G`` would be matrices.
    """

    def __init__(
        self, ops: DifferentiableTraceOps, space: Any, v: Sequence[int], p: Sequence[int], momentum: Sequence[int],
        u: Sequence[int], missed: Sequence[int],
    ) -> None:  # fmt: skip
        self._ops, self._momentum, self._missed, self._space = ops, list(momentum), list(missed), space
        self._n, self.values = len(v), [_copy(ops, x) for x in (*v, *p)]
        self.depends_on = [*v, *p, *momentum, *missed]
        self._with_u = Table(ops, jacobian(ops, u, missed), len(u))
        J = Table(ops, jacobian(ops, p, missed), len(p)) + self._with_u @ space.G
        self._inverse = Inverse(ops, J.rows, not p or ops.rank(space.G) == len(p))

    def forwards(self, found: Mapping[int, int]) -> dict[int, int]:
        """Tangents of the values from those that have been found."""
        z = -self._space.solve_transpose(self._column(found.get(k, 0) for k in self._momentum))
        missed = self._column(found.get(k, 0) for k in self._missed) + self._with_u @ self._space.along_rows(z)
        dp = -self._column(self._inverse.times(missed.nodes()))
        made = [*self._space.back_substitution(z, dp).nodes(), *dp.nodes()]
        return {k: change for k, change in zip(self.values, made, strict=True) if change}

    def backwards(self, found: Mapping[int, int]) -> list[tuple[int, int]]:
        """Cotangents of ``ρ`` and ``F`` from those of the values."""
        own, n = self._column(found.get(k, 0) for k in self.values), self._n
        z = self._space.solve_transpose(self._ops.take(own, range(n), None))
        pushed = self._ops.take(own, range(n, len(own.rows)), None) + self._space.along_rows(z)
        of_missed = -self._column(self._inverse.transposed_times(pushed.nodes()))
        of_momentum = -self._space.back_substitution(z, self._ops.transpose(self._with_u) @ of_missed)
        return [*zip(self._momentum, of_momentum.nodes(), strict=True),
                *zip(self._missed, of_missed.nodes(), strict=True)]  # fmt: skip

    def _column(self, nodes: Iterable[int]) -> Table:
        return Table(self._ops, [[x] for x in nodes], 1)


class Inverse:
    """Inverse of a matrix ``J`` for columns, by elimination without exchanges; of redundant rows as in `FixedPoint`."""

    def __init__(self, ops: TraceOps, J: list[list[int]], is_unique: bool) -> None:
        self._ops, self._is_unique, n = ops, is_unique, len(J)
        shift = ops.number(ROUNDING * ops.epsilon if is_unique else ops.epsilon**0.5)
        self._J, self._twice = J, ops.add(shift, shift)
        self._L, self._U = [[0] * n for _ in J], [list(row) for row in J]
        L, U = self._L, self._U
        for k in range(n):
            U[k][k] = ops.add(U[k][k], shift)
            over = ops.divide(ops.number(1.0), U[k][k])
            for i in range(k + 1, n):
                if U[i][k]:
                    L[i][k] = ops.multiply(U[i][k], over)
                    for j in range(k + 1, n):
                        U[i][j] = ops.subtract(U[i][j], ops.multiply(L[i][k], U[k][j]))
            U[k][k] = over

    def times(self, x: Sequence[int]) -> list[int]:
        """``J⁻¹ x``."""
        x = self._solved(x)
        if self._is_unique:
            return x
        x = self._solved(self._product(self._J, x))
        return self._regular(x, self._solved(x))

    def transposed_times(self, x: Sequence[int]) -> list[int]:
        """``J⁻ᵀ x``."""
        x = self._solved_transposed(x)
        if self._is_unique:
            return x
        x = self._regular(x, self._solved_transposed(x))
        return self._solved_transposed(self._product(zip(*self._J, strict=True), x))

    def _regular(self, x: Sequence[int], again: Sequence[int]) -> list[int]:
        """``x + 2 δ R x``."""
        return [self._ops.add(a, self._ops.multiply(self._twice, b)) for a, b in zip(x, again, strict=True)]

    def _product(self, rows: Iterable[Sequence[int]], x: Sequence[int]) -> list[int]:
        return [reduce(self._ops.add, map(self._ops.multiply, row, x), 0) for row in rows]

    def _solved(self, right: Sequence[int]) -> list[int]:
        """``(L U)⁻¹`` times the right side; the diagonal of L is 1, that of U inverted."""
        ops, L, U, x, n = self._ops, self._L, self._U, list(right), len(self._U)
        for i in range(n):
            for k in range(i):
                x[i] = ops.subtract(x[i], ops.multiply(L[i][k], x[k]))
        for i in reversed(range(n)):
            for k in range(i + 1, n):
                x[i] = ops.subtract(x[i], ops.multiply(U[i][k], x[k]))
            x[i] = ops.multiply(U[i][i], x[i])
        return x

    def _solved_transposed(self, right: Sequence[int]) -> list[int]:
        """``(L U)⁻ᵀ`` times the right side."""
        ops, L, U, x, n = self._ops, self._L, self._U, list(right), len(self._U)
        for i in range(n):
            for k in range(i):
                x[i] = ops.subtract(x[i], ops.multiply(U[k][i], x[k]))
            x[i] = ops.multiply(U[i][i], x[i])
        for i in reversed(range(n)):
            for k in range(i + 1, n):
                x[i] = ops.subtract(x[i], ops.multiply(L[k][i], x[k]))
        return x


class SinglePass:
    """Nodes ``values`` that are the nodes ``after`` a pass, or as ``before`` where ``unless`` is 1.

    The pass has no nodes before ``first``. Where its derivatives are in a pass, they are code of their own, which no
    block of states runs without need.
    """

    def __init__(
        self, ops: DifferentiableTraceOps, unless: int, before: Sequence[int], after: Sequence[int], first: int
    ) -> None:
        self._ops, self._unless, self._before, self._after, self._first = ops, unless, before, after, first
        self.depends_on = [ops.operation(Op.SELECT, unless, x, y) for x, y in zip(before, after, strict=True)]
        self.values = [_copy(ops, x) for x in self.depends_on]

    def forwards(self, found: Mapping[int, int]) -> dict[int, int]:
        """Tangents of the values from those that have been found."""
        made = {x: found.get(k, 0) for x, k in zip(self.values, self.depends_on, strict=True)}
        return {k: x for k, x in made.items() if x}

    def forwards_in_a_pass(self, found: Mapping[int, int]) -> dict[int, int]:
        """The same, in a pass."""
        ops, (steps, inputs) = self._ops, self._inside(found)

        def change(_: list[Any]) -> tuple[list[Any], float]:
            made = _forwards(ops, steps, inputs, self._after, [found[k] for k in inputs])
            return [Expression(ops, x) for x in made], 1.0

        start = [Expression(ops, found.get(k, 0)) for k in self._before]
        final = TraceOps.repeat(ops, 1, start, change, Expression(ops, self._unless))
        return dict(zip(self.values, map(ops.number, final), strict=True))

    def _inside(self, moves: Container[int]) -> tuple[list[Step], list[int]]:
        """Operations of the pass, and inputs and earlier solutions that it reads and that ``moves`` holds."""
        ops, earlier = self._ops, {k for k in self._ops.solutions if k < self._first}
        steps = _operations(ops, self._after, earlier)
        read, nodes = {x for *_, operands in steps for x in operands}, ops.since(0)
        read.update(x for k, *_ in steps if k in ops.solutions for x in ops.solutions[k].depends_on)
        return steps, [k for k in sorted(read) if k in moves and (k in earlier or nodes[k][0] == Op.INPUT)]

    def backwards(self, found: Mapping[int, int]) -> list[tuple[int, int]]:
        """Cotangents of what is chosen between, from those of the values."""
        return [(k, found.get(x, 0)) for k, x in zip(self.depends_on, self.values, strict=True)]

    def backwards_in_a_pass(self, found: Mapping[int, int], moves: Container[int]) -> list[tuple[int, int]]:
        """Cotangents of inputs and earlier solutions that the pass reads and that ``moves`` holds, in a pass."""
        ops, own, (steps, inputs) = self._ops, [found.get(k, 0) for k in self.values], self._inside(moves)

        def add(values: list[Any]) -> tuple[list[Any], float]:
            made = _backwards(ops, steps, inputs, self._after, own)
            return [x + Expression(ops, y) for x, y in zip(values, made, strict=True)], 1.0

        total = TraceOps.repeat(ops, 1, [0.0] * len(inputs), add, Expression(ops, self._unless))
        left = [(k, ops.operation(Op.SELECT, self._unless, x, 0)) for k, x in zip(self._before, own, strict=True) if x]
        return [*zip(inputs, map(ops.number, total), strict=True), *left]


class Derived:
    """A node with the value of another and the derivatives of a third, ``like``."""

    def __init__(self, ops: TraceOps, value: int, like: int) -> None:
        self.values, self.depends_on = [_copy(ops, value)], [like]

    def forwards(self, found: Mapping[int, int]) -> dict[int, int]:
        """Tangent of the value from those that have been found."""
        return {self.values[0]: change} if (change := found.get(self.depends_on[0])) else {}

    def backwards(self, found: Mapping[int, int]) -> list[tuple[int, int]]:
        """Cotangent of ``like`` from that of the value."""
        return [(self.depends_on[0], found.get(self.values[0], 0))]


class Changing:
    """Nodes ``values`` of loops, and how they change with the nodes ``inputs``; once, for loops have one derivative."""

    def __init__(self, ops: TraceOps, values: Sequence[int], inputs: Sequence[int], changes: Changes) -> None:
        self._ops, self._changes, self._is_used = ops, changes, False
        self.values, self.depends_on = [ops.copied(x) for x in values], list(inputs)

    def forwards(self, found: Mapping[int, int]) -> dict[int, int]:
        """Tangents of the values from those of the inputs."""
        rates = [{0: Expression(self._ops, found[x])} if found.get(x) else {} for x in self.depends_on]
        made = self.along(rates, 1) if any(rates) else []
        return {k: change for k, (change,) in zip(self.values, made, strict=False) if change}

    def backwards(self, found: Mapping[int, int]) -> list[tuple[int, int]]:
        """Cotangents of the inputs from those of the values."""
        ops, own = self._ops, [found.get(k, 0) for k in self.values]
        if not any(own):
            return []
        inputs = list(dict.fromkeys(self.depends_on))
        place = {x: k for k, x in enumerate(inputs)}
        columns = zip(*self.along([{place[x]: 1.0} for x in self.depends_on], len(inputs)), strict=True)
        return [(x, reduce(ops.add, map(ops.multiply, column, own))) for x, column in zip(inputs, columns, strict=True)]

    def along(self, rates: Sequence[Mapping[int, Any]], width: int) -> list[list[int]]:
        """Changes of the values (n × width) with those of the inputs."""
        if self._is_used:
            raise ConfigurationError("derivative", "one, of a step with loops", "another", "Take the first.")
        self._is_used = True
        made: Any = self._changes(rates, width)
        rows: list[list[int]] = made.rows
        return rows


def _copy(ops: TraceOps, x: int) -> int:
    """The number of a node in one of its own, which may have other derivatives than further copies."""
    before, copy = len(ops.at), ops.copied(x)
    while copy < before:
        copy = ops.copied(copy)
    return copy


class DifferentiableTraceOps(TraceOps):
    """Tracing of programs that are differentiated: loops end where an equation holds, from which derivatives follow."""

    def repeat(self, times: int, start: Sequence[Any], body: Body, unless: Any = 0.0) -> list[Any]:
        """A single pass is not a loop: derivatives go through it."""
        if times != 1:
            return super().repeat(times, start, body, unless)
        first = len(self.at)
        before, after = ([self.number(x) for x in values] for values in (start, body(list(start))[0]))
        return self._solved(SinglePass(self, self.number(unless), before, after, first))

    def differentiable(self, plain: Callable[[], T], differentiated: Callable[[], T]) -> T:
        """What the second makes."""
        return differentiated()

    def implicit(self, values: Sequence[Any], image: Image, mobility: Sequence[Sequence[Any]]) -> list[Any]:
        """``values``, which ``image`` maps to themselves, with the derivatives of `FixedPoint`."""
        p, rank = [self.number(x) for x in values], self.rank(self.matrix(mobility)) if values else 0
        missed = [self.subtract(x, self.number(y)) for x, y in zip(p, image(values), strict=True)]
        return self._solved(FixedPoint(self, p, missed, jacobian(self, p, missed), rank == len(p)))

    def implicit_motion(
        self, v: Sequence[Any], p: Sequence[Any], equations: Equations, space: MotionSpace
    ) -> tuple[list[Any], list[Any]]:
        """Velocities and impulses with the derivatives of `MotionSolution`."""
        held_v, held_p = ([self.derived(x, 0.0) for x in values] for values in (v, p))
        momentum, along, image = equations(held_v, held_p)
        u = [self._fresh(x) for x in along]
        missed = [x - y for x, y in zip(held_p, image(u), strict=True)]
        nodes = [[self.number(x) for x in values] for values in (held_v, held_p, momentum, u, missed)]
        found = MotionSolution(self, space, *nodes)
        values = self._solved(found)
        return values[: len(v)], values[len(v) :]

    def _solved(self, found: Any) -> list[Any]:
        self.solutions |= dict.fromkeys(found.values, found)
        return [Expression(self, x) for x in found.values]

    def derived(self, value: Any, like: Any) -> Any:
        """``value``, with the derivatives of ``like``."""
        x, y = self.number(value), self.number(like)
        return value if x == y else self._solved(Derived(self, x, y))[0]

    def _fresh(self, x: Any) -> Any:
        """The same in a node of its own."""
        node = self.number(x)
        return self._solved(Derived(self, node, node))[0]

    def changing(self, values: Sequence[Any], inputs: Sequence[Any], changes: Changes) -> list[Any]:
        """``values``, with the derivatives of `Changing`."""
        found = Changing(self, [self.number(x) for x in values], [self.number(x) for x in inputs], changes)
        self.solutions |= dict.fromkeys(found.values, found)
        return [Expression(self, x) for x in found.values]
