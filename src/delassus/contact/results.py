"""What contact solvers return: a solution, how it came about, and residuals that check it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from delassus.contact.problems import LCP, MLCP, ConeProblem
from delassus.model.rotations import Array


class SolverStatus(Enum):
    """How a solver ended; the text says what that means for the user."""

    CONVERGED = "solved: the residual of the solution returned is within the tolerance"
    RAY_TERMINATION = (
        "Lemke's path went off to infinity: contacts may jam, or the problem may have no solution; "
        "check that the matrix comes from J M⁻¹ Jᵀ and that equalities can be met, or try another solver"
    )
    ITERATION_LIMIT = "stopped at the largest number of iterations; allow more, or start from a nearby solution"
    NUMERICAL_TROUBLE = (
        "the solution found misses the tolerance, and iterating on cannot mend that: the problem is badly conditioned; "
        "scale it, or try another solver"
    )
    ROUND_OFF = (
        "solved, velocities to the tolerance and impulses with their remainder; without it, rounding to float64 takes "
        "them out of the tolerance: they are huge because contacts press against one another (they jam); drop "
        "redundant contacts, or add compliance to the matrix"
    )
    CONFLICTING = "the equality rows contradict one another; drop rows, or ask for velocities that go together"

    @property
    def text(self) -> str:
        """What this status means for the user."""
        return str(self.value)


OUTCOMES = (
    SolverStatus.CONVERGED,
    SolverStatus.RAY_TERMINATION,
    SolverStatus.ITERATION_LIMIT,
    SolverStatus.NUMERICAL_TROUBLE,
    SolverStatus.ROUND_OFF,
)
"""Statuses by the numbers that compiled functions return."""


@dataclass(frozen=True, slots=True, eq=False)
class LCPResult:
    """Solution of an `LCP`.

    Attributes
    ----------
    problem : LCP
    z : (n,) array
        Unknowns.
    status : SolverStatus
    iterations : int
        Pivots or sweeps.
    tolerance : float
        What `residual` was held to.
    """

    problem: LCP
    z: Array
    status: SolverStatus
    iterations: int
    tolerance: float

    @property
    def w(self) -> Array:
        """``M z + q`` (n,)."""
        return np.asarray(self.problem.M @ self.z + self.problem.q)

    def residual(self) -> float:
        """``max |min(z, w)|``, in the units of ``z`` and ``w``."""
        return float(np.abs(np.minimum(self.z, self.w)).max(initial=0.0))

    def complementarity(self) -> float:
        """``max |z w|``."""
        return float(np.abs(self.z * self.w).max(initial=0.0))


@dataclass(frozen=True, slots=True, eq=False)
class MLCPResult:
    """Solution of an `MLCP`.

    Attributes
    ----------
    problem : MLCP
    x : (k,) array
        Free unknowns; where the equality rows are redundant, those of least norm.
    z, w : (n,) arrays
        Complementary unknowns and rows.
    rank : int
        Number of independent equality rows.
    status : SolverStatus
    iterations : int
    tolerance : float
        What `residual` was held to.
    """

    problem: MLCP
    x: Array
    z: Array
    w: Array
    rank: int
    status: SolverStatus
    iterations: int
    tolerance: float

    def _rows(self) -> Array:
        return np.asarray(self.problem.M @ np.concatenate([self.x, self.z]) + self.problem.q)

    def equality_residual(self) -> float:
        """``max |rows of the equalities|``."""
        return float(np.abs(self._rows()[: self.problem.n_free]).max(initial=0.0))

    def complementarity(self) -> float:
        """``max |z w|``."""
        return float(np.abs(self.z * self._rows()[self.problem.n_free :]).max(initial=0.0))

    def residual(self) -> float:
        """Larger one of `equality_residual` and ``max |min(z, w)|``."""
        gap = float(np.abs(np.minimum(self.z, self._rows()[self.problem.n_free :])).max(initial=0.0))
        return max(gap, self.equality_residual())


@dataclass(frozen=True, slots=True, eq=False)
class ConeResult:
    """Solution of a `ConeProblem`; its residuals are those of the problem.

    Attributes
    ----------
    problem : ConeProblem
    impulses, velocities : (n, 3) arrays
        ``r`` (N s) and ``u = W (r + remainder) + b`` (m/s), in the order tangent, tangent, normal.
    remainder : (n, 3) array
        What impulses lack beyond float64 (N s): the solution is ``r + remainder``. Zero but where contacts jam and
        impulses are so huge that rounding them misses the tolerance, status `SolverStatus.ROUND_OFF`.
    status : SolverStatus
    iterations : int
        Sweeps, or iterations of the solver.
    tolerance : float
        What `residual` was held to (m/s).
    """

    problem: ConeProblem
    impulses: Array
    velocities: Array
    remainder: Array
    status: SolverStatus
    iterations: int
    tolerance: float

    def residual(self) -> float:
        """How far ``impulses + remainder`` are from a solution, as a velocity (m/s); see `ConeProblem.residual`."""
        return self.problem.residual(self.impulses, self.remainder if self.remainder.any() else None)

    def complementarity(self) -> float:
        """``max |rᵀ (u + s)|`` (J)."""
        return self.problem.complementarity(self.impulses)

    def cone_violation(self) -> float:
        """By how much impulses are outside of their cones (N s)."""
        return self.problem.cone_violation(self.impulses)

    def penetration_velocity(self) -> float:
        """How fast bodies still approach (m/s)."""
        return self.problem.penetration_velocity(self.impulses)

    def dissipation(self) -> Array:
        """Energy that friction takes at each contact (n,), in J."""
        return self.problem.dissipation(self.impulses)
