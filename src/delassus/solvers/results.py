"""Results of contact solvers: values, status, and residuals that check them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ConfigurationError
from delassus.frozen import Explained, Frozen
from delassus.model.check import check_number, check_whole, flat_array
from delassus.solvers.problems import LCP, MLCP, ConeProblem
from delassus.spatial.rotations import Array


class SolverStatus(Explained):
    """How a solver ended; the text says what that means for the user.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.contact.SolverStatus.CONVERGED.text
    'solved: the residual of the solution returned is within the tolerance'
    """

    CONVERGED = "solved: the residual of the solution returned is within the tolerance"
    RAY_TERMINATION = (
        "Lemke's path went off to infinity: contacts may jam, or the problem may have no solution; "
        "check that the matrix comes from J M⁻¹ Jᵀ and that equalities can be met, or try another solver"
    )
    ITERATION_LIMIT = (
        "stopped at the largest number of iterations; allow more by max_iterations, start from a nearby solution (in a "
        "scene, by a shorter dt), or take another solver, such as solver='nsgs'"
    )
    NUMERICAL_TROUBLE = (
        "the solution found misses the tolerance, and iterating on cannot mend that: the problem is badly conditioned; "
        "scale it, or try another solver"
    )
    ROUND_OFF = (
        "solved, velocities to the tolerance and impulses with their remainder; without it, rounding to float64 takes "
        "them out of the tolerance: they are huge because contacts press against one another (they jam); drop "
        "redundant contacts, or add compliance to the matrix"
    )
    RESTITUTION_REDUCED = (
        "solved, and contacts give back less than their coefficients of restitution say: with all of it, "
        "kinetic energy would grow, as it can by Poisson's law with friction; lower the restitution of these contacts"
    )
    SINGULAR_MASS = (
        "the mass matrix is singular, or all but: in this configuration nothing has inertia along a joint, and its "
        "motion is not to be trusted; give links mass, or joints armature"
    )
    COARSE_STEP = (
        "the motion between contacts is faster than the smallest sub-steps of the time step can follow, or it gains "
        "energy; positions and energy are not to be trusted; make the time step shorter, or give the lightest links of "
        "loops mass"
    )
    LOOPS_OPEN = (
        "loops gape, and more so than at the start of the step: the motion is too fast for the time step; make it "
        "shorter"
    )
    NOT_DIFFERENTIABLE = (
        "solved, but derivatives are not known: the correction of large overlaps was cut off, round-off decides which "
        "points of two bodies touch, or a body slides and turns on redundant contacts, "
        "whose friction is not unique; start without large overlaps, make the time step shorter, or let the body "
        "slide on three points"
    )
    CONFLICTING = "the equality rows contradict one another; drop rows, or ask for velocities that go together"


STATUSES = tuple(SolverStatus)
"""Statuses by the numbers that compiled functions have for them."""
SOLVED = (SolverStatus.CONVERGED, SolverStatus.ROUND_OFF, SolverStatus.RESTITUTION_REDUCED)
"""Statuses of problems whose velocities are within the tolerance."""


def worst_of(statuses: Iterable[SolverStatus]) -> SolverStatus:
    """The first that is not solved, or else the first that is not `CONVERGED`."""

    def weight(status: SolverStatus) -> tuple[bool, bool]:
        return status not in SOLVED, status is not SolverStatus.CONVERGED

    return max(statuses, key=weight, default=SolverStatus.CONVERGED)


P = TypeVar("P", bound=LCP | MLCP | ConeProblem)


class Impulses(NamedTuple):
    """Impulses (3 n,) of one call without checks (N s); ``remainder`` is that of a `Solution`."""

    p: Array
    status: SolverStatus
    iterations: int
    remainder: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Solution(Frozen, Generic[P]):
    """Result of a solver.

    Attributes
    ----------
    problem : LCP, MLCP or ConeProblem
    values : array
        Unknowns ``z`` (n,) of an `LCP`; ``(x, z)`` of an `MLCP`; impulses (n, 3) of a `ConeProblem` (N s).
    status : SolverStatus
    iterations : int
        Pivots, sweeps, or iterations.
    remainder : (n, 3) array, optional
        What impulses lack beyond float64 (N s): the solution is ``values + remainder``. None but where contacts jam
        and impulses are so huge that rounding them misses the tolerance, status `SolverStatus.ROUND_OFF`.

    Examples
    --------
    >>> import numpy as np
    >>> from delassus.contact import ConeProblem, nsgs
    >>> solution = nsgs(ConeProblem(np.eye(3), [0.1, 0.0, -1.0], [0.5]))
    >>> solution.status.name, (solution.values.round(6) + 0.0).tolist()
    ('CONVERGED', [[-0.1, 0.0, 1.0]])
    """

    problem: P
    values: Array
    status: SolverStatus
    iterations: int
    remainder: Array | None = None

    def residual(self) -> float:
        """Residual of the solution in its problem, in the problem's units."""
        return self.problem.residual(self.values, self.remainder)

    def complementarity(self) -> float:
        """Largest product of an unknown and its row: zero at a solution."""
        return self.problem.complementarity(self.values)


def check_request(problem: object, kind: type, advice: str, tolerance: float, max_iterations: int) -> None:
    """Raise `ConfigurationError` unless the problem is of that kind, and tolerance and limit are positive."""
    if not isinstance(problem, kind):
        raise ConfigurationError("problem", f"of type {kind.__name__}", type(problem).__name__, advice)
    check_number("tolerance", tolerance, "1e-8 is usual.")
    check_whole("max_iterations", max_iterations, "Allow at least one.", least=1, most=10**9)


def starting(size: int, start: ArrayLike | None) -> Array:
    """Values to start from, flat; zero by default."""
    return (
        np.zeros(size) if start is None else flat_array(start, size, "start", "Pass values as the solvers return them.")
    )


def solved_cones(
    solve: Callable[..., Impulses], problem: ConeProblem, start: ArrayLike | None, tolerance: float, limit: int
) -> Solution[ConeProblem]:
    """Check the problem and the options of a solver on cones, and solve."""
    advice = "Linear problems are for lemke and pgs; a ContactProblem has solve()."
    check_request(problem, ConeProblem, advice, tolerance, limit)
    given = problem.W, problem.b, problem.mu, problem.friction_offset, starting(problem.size, start)
    found = solve(*given, float(tolerance), int(limit))
    low = None if found.remainder is None else found.remainder.reshape(-1, 3)
    return Solution(problem, found.p.reshape(-1, 3), found.status, found.iterations, low)
