"""How velocities of bodies that touch answer changes of momentum and of rows, in the modes of a solved problem.

The modes are those of `delassus.algorithms.contact.response`, in the same text; here bodies are factorised and not
contacts. With ``D`` raised by ``δ`` of mobilities, impulses ``x`` are eliminated,

    (M + (Bᵀ J)ᵀ (D + δ)⁻¹ C J) dv⁺ = −∂ρ − (Bᵀ J)ᵀ (D + δ)⁻¹ C ∂σ,

and what that ``δ`` changes is taken back by steps of iterative refinement on the equations without it. Rows that depend
on others share impulses as if all yielded alike: the smallest ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from delassus.algorithms.contact.problem import JointLaw, PointLaw
from delassus.algorithms.contact.response import DEPENDENT, joint_hold, point_mode
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array

REFINEMENTS = 2
"""Steps that take back what ``δ`` changes: each leaves ``δ`` of it."""


def modes_of(
    friction: Array, floors: Array, impulses: Array, velocities: Array, mobilities: Array, smoothing: float | None
) -> Any:
    """Modes of contacts (m,) at impulses, velocities and mobilities of rows (m, 3), a `Mode` of arrays."""
    own = list(mobilities.T)
    problem: Any = SimpleNamespace(
        ops=NUMPY, pyramid=False, own_mobility=own, mobility=[sum(own) / 3.0], G=[[None] * 2 + [x] for x in own]
    )
    law = PointLaw(0, friction, np.zeros_like(friction), floor=floors)
    return point_mode(problem, law, list(impulses.T), list(velocities.T), np.ones_like(friction), smoothing)


def holds_of(
    law: JointLaw, impulses: Array, velocities: Array, mobility: Array, distances: Sequence[Array], over_h: float,
    smoothing: float | None,
) -> Any:  # fmt: skip
    """Holds of joints (k,) at ``distances`` from their limits, a `Hold` of arrays."""
    problem: Any = SimpleNamespace(ops=NUMPY, own_mobility=[mobility])
    return joint_hold(problem, law, impulses, velocities, distances, over_h, smoothing)


class Rows(NamedTuple):
    """Rows of an island: ``J`` (r, n), by modes ``C J`` and ``Bᵀ J``, ``D`` (r,) and mobilities (r,)."""

    C: Any
    CJ: Array
    BJ: Array
    D: Array
    mobility: Array


class Response:
    """Answers of an island of ``n`` degrees of freedom with the mass matrix ``M`` (n, n)."""

    def __init__(self, M: Array, rows: Rows) -> None:
        self._M, self.rows = M, rows
        self._raised = rows.D + DEPENDENT * rows.mobility
        self._inverse = np.asarray(np.linalg.inv(M + rows.BJ.T @ (rows.CJ / self._raised[:, None])), float)

    def solve(self, momentum: Array, rows: Array) -> tuple[Array, Array]:
        """``dv⁺`` (n, k) and ``x`` (r, k) with ``M dv⁺ − (Bᵀ J)ᵀ x = momentum``, ``C J dv⁺ + D x = rows``."""
        return self._refined(self._inverse, self.rows.CJ, self.rows.BJ, momentum, rows)

    def solve_transposed(self, velocities: Array, impulses: Array) -> tuple[Array, Array]:
        """What changes of momentum and of rows do to ``velocitiesᵀ dv⁺ + impulsesᵀ x``: (n, k) and (r, k)."""
        y, z = self._refined(self._inverse.T, self.rows.BJ, self.rows.CJ, velocities, -impulses)
        return y, -z

    def _refined(self, inverse: Array, first: Array, second: Array, a: Array, b: Array) -> tuple[Array, Array]:
        """``M y − secondᵀ x = a``, ``first y + D x = b``."""
        raised, D = self._raised[:, None], self.rows.D[:, None]
        y, x = np.zeros_like(a), np.zeros_like(b)
        for _ in range(1 + REFINEMENTS):
            r, s = a - self._M @ y + second.T @ x, b - first @ y - D * x
            dy = inverse @ (r + second.T @ (s / raised))
            x = x + (s - first @ dy) / raised
            y = y + dy
        return y, x
