"""Impulses of loops by the velocities that they take, ``G⁺ u``, of rows ``G`` that may depend on one another.

Where a point closes a planar loop, impulses along its rows are not unique: the proximal point method finds some. Its
weight is relative to the mobility of each row by itself: those of links of next to no mass are 10⁶ times others.

In the metric of ``M = Lᵀ L`` loops project: of ``L v`` they leave ``(1 − Yᵀ G⁺ Y) L v``, ``Y = J L⁻¹``, ``G = Y Yᵀ``.
"""

from __future__ import annotations

from typing import NamedTuple

from delassus.spatial.motion import diagonal
from delassus.spatial.ops import SQUARE_FLOOR, Matrix, Ops


class Tuning(NamedTuple):
    """Numbers of the proximal point method."""

    weight: float = 1e-9
    """Weight over the mobilities of rows."""
    rounding: float = 16.0
    """Least weight over the relative round-off."""
    steps: int = 3
    """Number of steps."""


TUNING = Tuning()


class LoopImpulses:
    """``G⁺`` of ``G`` (m × m), in numbers of the relative round-off ``epsilon``."""

    def __init__(self, ops: Ops, G: Matrix, epsilon: float) -> None:
        entries, weight = ops.entries(G), max(TUNING.weight, TUNING.rounding * epsilon)
        mobilities = [row[k] for k, row in enumerate(entries)]
        self._scale = diagonal(ops, [1.0 / ops.sqrt(x + SQUARE_FLOOR) for x in mobilities])
        self._G = ops.sym_product(self._scale, G @ self._scale)
        ops.new_system()
        self._factor = ops.factor(ops.sym_add(self._G, diagonal(ops, [weight] * len(mobilities))))

    def solve(self, u: Matrix) -> Matrix:
        """``G⁺ u`` (m × k)."""
        u = self._scale @ u
        found = self._factor.solve(u)
        for _ in range(TUNING.steps - 1):
            found = found + self._factor.solve(u - self._G @ found)
        return self._scale @ found


class ClosedLoops:
    """Motions ``L v`` beside loops whose rows are ``Y`` (l × nv), in numbers of the relative round-off ``epsilon``."""

    def __init__(self, ops: Ops, Y: Matrix, epsilon: float) -> None:
        self._ops, self._Y = ops, Y
        self._impulses = LoopImpulses(ops, ops.sym_product(Y, ops.transpose(Y)), epsilon)

    def impulses(self, x: Matrix) -> Matrix:
        """Impulses (l × k) that take what opens loops of motions ``x = L v`` (nv × k)."""
        return self._impulses.solve(self._Y @ x)

    def kept(self, x: Matrix) -> Matrix:
        """What loops leave of motions (nv × k)."""
        return x - self._ops.transpose(self._Y) @ self.impulses(x)

    def moving(self, rates: Matrix) -> Matrix:
        """Motions (nv × k) of least kinetic energy at which rows move at these rates (l × k)."""
        return self._ops.transpose(self._Y) @ self._impulses.solve(rates)
