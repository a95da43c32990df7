"""How velocities of bodies that touch answer changes of momentum and of rows, in the modes of a solved problem.

The modes are those of `delassus.algorithms.contact.modes`, in the same text; here bodies are factorised and not
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

from delassus.algorithms.contact.modes import joint_hold, point_mode
from delassus.algorithms.contact.problem import JointLaw, PointLaw
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
        self._raised = rows.D + NUMPY.epsilon**0.5 * rows.mobility
        self._inverse = np.asarray(np.linalg.inv(M + rows.BJ.T @ (rows.CJ / self._raised[:, None])), float)

    def solve(self, momentum: Array, rows: Array) -> tuple[Array, Array]:
        """``dv⁺`` (n, k) and ``x`` (r, k) with ``M dv⁺ − (Bᵀ J)ᵀ x = momentum``, ``C J dv⁺ + D x = rows``."""
        CJ, BJ, raised = self.rows.CJ, self.rows.BJ, self._raised[:, None]
        y = self._inverse @ (momentum + BJ.T @ (rows / raised))
        x = dx = (rows - CJ @ y) / raised
        for _ in range(REFINEMENTS):
            missed = (raised - self.rows.D[:, None]) * dx  # of rows; what momentum misses is round-off
            dy = self._inverse @ (momentum - self._M @ y + BJ.T @ (x + missed / raised))
            dx = (missed - CJ @ dy) / raised
            x, y = x + dx, y + dy
        return y, x
