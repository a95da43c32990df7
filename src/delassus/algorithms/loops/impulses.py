"""Impulses of loops by the velocities that they take, ``G⁺ u``, of rows ``G`` that may depend on one another.

Where a point closes a planar loop, impulses along its rows are not unique: the proximal point method finds some. Its
weight is relative to the mobility of each row by itself: those of links of next to no mass are 10⁶ times others. A row
that nothing moves has no direction: what round-off leaves of it has no impulse (`unmoved`).

In the metric of ``M = Lᵀ L`` loops project: of ``L v`` they leave ``(1 − Yᵀ G⁺ Y) L v``, ``Y = J L⁻¹``, ``G = Y Yᵀ``.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.algorithms.osim.least_squares import UNMOVED, mobility_bound
from delassus.algorithms.osim.ltl import dense_rows
from delassus.algorithms.problem import Problem
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.spatial.motion import diagonal
from delassus.spatial.ops import Matrix, Scalar

WEIGHT = 1e-9
"""Weight over the mobilities of rows."""

ROUNDING = 16.0
"""Least weight over the relative round-off."""

STEPS = 3
"""Number of steps."""


def weight_of(epsilon: float) -> float:
    """Weight over the mobilities of rows, in numbers of the relative round-off ``epsilon``."""
    return max(WEIGHT, ROUNDING * epsilon)


def unmoved(epsilon: float) -> float:
    """Part of `mobility_bound` up to which a row counts as one that nothing moves.

    A row is known to round-off of what it could be. Its direction is known to that over its own size. A row that
    depends on others must not pass for another one: the square of that error has to be below the weight.
    """
    return max(UNMOVED, (ROUNDING * epsilon) ** 2 / weight_of(epsilon))


class LoopImpulses:
    """``G⁺`` of ``G`` (l × l) of the rows ``loops`` of a problem, in numbers of the relative round-off ``epsilon``.

    ``L`` is the factor that ``G`` is made with.
    """

    def __init__(self, problem: Problem, L: SparseFactor, G: Matrix, loops: Sequence[int], epsilon: float) -> None:
        ops, scale, usual = problem.ops, list[Scalar](), mobility_bound(problem, L)
        self._ops = ops
        for k, row in enumerate(ops.entries(G)):
            moved = ops.less(unmoved(epsilon) * usual[loops[k]], row[k])
            scale.append(ops.select(moved, 1.0 / ops.sqrt(ops.select(moved, row[k], 1.0)), 0.0))
        self._scale = diagonal(ops, scale)
        self._G = ops.sym_product(self._scale, G @ self._scale)
        ops.new_system()
        self._factor = ops.factor(ops.sym_add(self._G, diagonal(ops, [weight_of(epsilon)] * len(scale))))

    def solve(self, u: Matrix) -> Matrix:
        """``G⁺ u`` (m × k)."""
        if not self._ops.shape(u)[0]:
            return u
        u = self._scale @ u
        found = self._factor.solve(u)
        for _ in range(STEPS - 1):
            found = found + self._factor.solve(u - self._G @ found)
        return self._scale @ found


class LoopMotions:
    """Motions ``L v`` beside the rows ``loops`` of a problem, in numbers of the relative round-off ``epsilon``."""

    def __init__(self, problem: Problem, L: SparseFactor, loops: Sequence[int], epsilon: float) -> None:
        self._ops, self._Y = ops, Y = problem.ops, problem.ops.take(dense_rows(problem, L), loops, None)
        self._impulses = LoopImpulses(problem, L, ops.sym_product(Y, ops.transpose(Y)), loops, epsilon)

    def impulses(self, x: Matrix) -> Matrix:
        """Impulses (l × k) that take what opens loops of motions ``x = L v`` (nv × k)."""
        return self._impulses.solve(self._Y @ x)

    def kept(self, x: Matrix) -> Matrix:
        """What loops leave of motions (nv × k)."""
        return x - self._ops.transpose(self._Y) @ self.impulses(x)

    def moving(self, rates: Matrix) -> Matrix:
        """Motions (nv × k) of least kinetic energy at which rows move at these rates (l × k)."""
        return self._ops.transpose(self._Y) @ self._impulses.solve(rates)
