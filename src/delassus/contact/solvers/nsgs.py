"""Nonsmooth Gauss–Seidel (NSGS) on the exact Coulomb cone, O(n²) a sweep.

Contacts are solved one after the other, each exactly (`coulomb`). Once their modes stand still, Newton's method on
these modes (`modes`) takes over, which ends at round-off or is dropped. If neither works within `PATIENCE` sweeps, the
problem is made soft, ``W + δ``, and hardened step by step from the solutions before (`continuation`, which calls
`admm` too where its first path ends early). Solutions too large for float64 are refined in extended precision
(`refine`).

Source: Jean 1999, Moreau 1999; Acary, Brémond and Huber 2018 for the survey.
*Deviations*: the local problem is solved by one equation; Newton's method, the continuation and the refinement are this
library's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from delassus.contact.problems import ConeProblem
from delassus.contact.results import OUTCOMES, ConeResult
from delassus.contact.solvers.compiled import compiled
from delassus.contact.solvers.continuation import attempts, relax
from delassus.contact.solvers.coulomb import LIMIT, SOLVED, TROUBLE, mobilities, prepare, rounding
from delassus.contact.solvers.iterative_refinement import NEAR, TRUSTED, conclude
from delassus.contact.solvers.linear import assign
from delassus.contact.solvers.options import check_kind, check_options, starting, writable
from delassus.model.rotations import Array

PATIENCE = 150
"""Sweeps before the continuation begins."""


@compiled
def nsgs_kernel(
    W: Array, b: Array, mu: Array, start: Array, tolerance: float, limit: int
) -> tuple[Array, Array, Array, float, int, int]:
    """``r``, what it lacks beyond float64, ``u``, residual, outcome and number of sweeps."""
    contacts, size = mu.size, b.size
    omega, prepared, modes = np.empty(contacts), np.empty((contacts, 8)), np.full(contacts, -1)
    r, low, u = np.copy(start), np.zeros(size), np.empty(size)
    most = mobilities(W, omega)
    prepare(W, most, prepared)
    best, sweeps = relax(W, b, mu, omega, most, prepared, modes, r, u, tolerance, min(PATIENCE, limit))
    noise = rounding(W, r, b)
    if best <= tolerance and noise <= TRUSTED * tolerance:
        return r, low, u, best, SOLVED, sweeps
    outcome = LIMIT
    if best <= max(tolerance, NEAR * noise):
        best, outcome = conclude(W, b, mu, omega, most, tolerance, r, low, u)
    if outcome == LIMIT and sweeps < limit:
        try_r, try_low, try_u = np.copy(r), np.copy(low), np.copy(u)
        residual, ended, more = attempts(W, b, mu, omega, most, try_r, try_low, try_u, tolerance, limit - sweeps)
        sweeps += more
        if ended != LIMIT or residual < best:
            best, outcome = residual, ended
            assign(r, try_r)
            assign(low, try_low)
            assign(u, try_u)
    if not best < np.inf:
        outcome = TROUBLE
    return r, low, u, best, outcome, sweeps


def nsgs(
    problem: ConeProblem, start: ArrayLike | None = None, *, tolerance: float = 1e-8, max_sweeps: int = 10000
) -> ConeResult:
    """Solve a contact problem with exact friction cones by nonsmooth Gauss–Seidel.

    Parameters
    ----------
    problem : ConeProblem
    start : (n, 3) array_like, optional
        Impulses to start from (N s), such as those of the step before.
    tolerance : float
        Of `ConeResult.residual` (m/s).
    max_sweeps : int

    Raises
    ------
    ConfigurationError
        Another kind of problem, an option or ``start`` that makes no sense.
    MissingDependencyError
        numba is not installed.

    Examples
    --------
    >>> from delassus.contact.problems import ConeProblem
    >>> block = ConeProblem([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [3, 4, -1], mu=0.5)
    >>> result = nsgs(block)
    >>> result.status.name, result.impulses.round(6).tolist()
    ('CONVERGED', [[-0.3, -0.4, 1.0]])
    """
    check_kind(problem, ConeProblem, "Linear problems are for lemke and pgs; a ContactProblem has solve().")
    check_options(tolerance, max_sweeps, "max_sweeps")
    r, low, u, _, outcome, sweeps = nsgs_kernel(
        *writable(problem), starting(problem, start), float(tolerance), int(max_sweeps)
    )
    shape = (-1, 3)
    return ConeResult(
        problem, r.reshape(shape), u.reshape(shape), low.reshape(shape), OUTCOMES[outcome], sweeps, tolerance
    )
