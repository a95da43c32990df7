"""Nonsmooth Gauss–Seidel (NSGS) on the exact Coulomb cone, O(n²) a sweep.

Contacts are solved one after the other, each exactly (`coulomb`). Once their modes stand still, Newton's method on
these modes (`modes`) takes over, which ends at round-off or is dropped. If neither works within `PATIENCE` sweeps, the
problem is made soft, ``W + δ``, and hardened step by step from the solutions before.

Source: Jean 1999, Moreau 1999; Acary, Brémond and Huber 2018 for the survey.
*Deviations*: the local problem is solved by one equation; Newton's method and the continuation are this library's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.contact.problems import ConeProblem
from delassus.contact.results import OUTCOMES, ConeResult
from delassus.contact.solvers.compiled import compiled
from delassus.contact.solvers.coulomb import (
    LIMIT,
    ROUND_OFF,
    SOLVED,
    TROUBLE,
    mobilities,
    natural_residual,
    prepare,
    rounding,
    sweep,
)
from delassus.contact.solvers.linear import affine
from delassus.contact.solvers.modes import modes_of, newton
from delassus.contact.solvers.options import check_options, starting
from delassus.model.rotations import Array

RATIO, SMALLEST_RATIO = 10.0**0.5, 1.05
"""Largest and smallest ratio of the compliance of one stage of the continuation to that of the next."""
SOFTEST, HARDEST = 1.0, 1e-10
"""First and last compliance, relative to the largest mobility."""
PATIENCE = 150
"""Sweeps before the continuation begins."""
STAGE = 60
"""Most sweeps of one of its stages."""


@compiled
def relax(
    W: Array,
    b: Array,
    mu: Array,
    omega: Array,
    most: float,
    prepared: Array,
    modes: NDArray[Any],
    r: Array,
    u: Array,
    tolerance: float,
    limit: int,
) -> tuple[float, int]:
    """Sweep, with Newton's method now and then, until the residual is small; overwrites ``r`` by the best found.

    Newton's method is tried when modes have not changed for two sweeps, and then after ever longer waits.
    """
    alphas = np.zeros(mu.size)
    best_r, best_u, try_r, try_u = np.copy(r), np.empty(b.size), np.empty(b.size), np.empty(b.size)
    affine(W, r, b, u)
    best_u[:] = u
    best = natural_residual(u, r, mu, omega)
    steady, after, wait, sweeps = 0, 4, 2, 0
    while best > tolerance and sweeps < limit:
        moved, changed = sweep(W, mu, omega, prepared, r, u, modes, alphas)
        sweeps += 1
        steady = 0 if changed else steady + 1
        if (steady >= 2 and sweeps >= after) or sweeps >= 4 * after or moved <= tolerance or sweeps == limit:
            affine(W, r, b, u)
            residual = natural_residual(u, r, mu, omega)
            if residual < best:
                best = residual
                best_r[:], best_u[:] = r, u
            try_r[:], try_u[:] = r, u
            residual = newton(W, b, mu, omega, most, modes, 1e-3 * tolerance, try_r, try_u)
            if residual < best:
                best = residual
                best_r[:], best_u[:] = try_r, try_u
                if residual < 0.1 * moved:
                    r[:], u[:] = try_r, try_u
            wait = min(wait * 2, 64)
            after = sweeps + wait
    r[:], u[:] = best_r, best_u
    return best, sweeps


@compiled
def harden(
    W: Array,
    b: Array,
    mu: Array,
    omega: Array,
    most: float,
    modes: NDArray[Any],
    r: Array,
    u: Array,
    tolerance: float,
    limit: int,
) -> tuple[float, int]:
    """Continuation in compliance: ``W + δ`` from soft to hard, each stage from where the last two point to.

    Impulses are taken to go on as ``x + y / δ``, which covers those that grow without bound. A stage that fails is
    tried again with a smaller step of ``δ``. Overwrites ``r`` by the best found; returns residual and sweeps.
    """
    size = b.size
    soft, prepared = np.copy(W), np.empty((mu.size, 8))
    x, v, found, before = np.zeros(size), np.empty(size), np.zeros(size), np.zeros(size)
    try_r, try_u = np.empty(size), np.empty(size)
    best, sweeps, ratio = np.inf, 0, RATIO
    delta, last, older = SOFTEST, 0.0, 0.0
    while delta > HARDEST and ratio > SMALLEST_RATIO and sweeps < limit:
        for i in range(size):
            soft[i, i] = W[i, i] + delta * most
        prepare(soft, most, prepared)
        ahead = (1.0 / delta - 1.0 / last) / (1.0 / last - 1.0 / older) if older > 0.0 else 0.0
        for i in range(size):
            x[i] = found[i] + ahead * (found[i] - before[i])
        left, more = relax(soft, b, mu, omega, most, prepared, modes, x, v, tolerance, min(STAGE, limit - sweeps))
        sweeps += more
        if left > max(tolerance, rounding(W, x, b)):
            ratio = np.sqrt(ratio)
            delta = last / ratio if last > 0.0 else 10.0 * delta
            continue
        before[:], found[:] = found, x
        older, last = last, delta
        delta /= ratio
        ratio = min(ratio**1.5, RATIO)
        modes_of(x, v, 10.0 * tolerance, modes)
        try_r[:], try_u[:] = x, v
        residual = newton(W, b, mu, omega, most, modes, 1e-3 * tolerance, try_r, try_u)
        if residual < best:
            best = residual
            r[:], u[:] = try_r, try_u
        if best <= tolerance or best <= rounding(W, r, b):
            break
    return best, sweeps


@compiled
def nsgs_kernel(
    W: Array, b: Array, mu: Array, start: Array, tolerance: float, limit: int
) -> tuple[Array, Array, float, int, int]:
    """``r``, ``u``, residual, outcome and number of sweeps."""
    contacts = mu.size
    omega, prepared, modes = np.empty(contacts), np.empty((contacts, 8)), np.full(contacts, -1)
    r, u = np.copy(start), np.empty(b.size)
    most = mobilities(W, omega)
    prepare(W, most, prepared)
    best, sweeps = relax(W, b, mu, omega, most, prepared, modes, r, u, tolerance, min(PATIENCE, limit))
    if best <= tolerance:
        return r, u, best, SOLVED, sweeps
    if sweeps < limit:
        try_r, try_u = np.copy(r), np.copy(u)
        residual, more = harden(W, b, mu, omega, most, modes, try_r, try_u, tolerance, limit - sweeps)
        sweeps += more
        if residual < best or residual <= rounding(W, try_r, b):
            best = residual
            r[:], u[:] = try_r, try_u
    if best > tolerance and best > rounding(W, r, b) and sweeps < limit:
        best, more = relax(W, b, mu, omega, most, prepared, modes, r, u, tolerance, limit - sweeps)
        sweeps += more
    if best <= tolerance:
        return r, u, best, SOLVED, sweeps
    if best <= rounding(W, r, b):
        return r, u, best, ROUND_OFF, sweeps
    return r, u, best, LIMIT if best < np.inf else TROUBLE, sweeps


def nsgs(
    problem: ConeProblem, start: ArrayLike | None = None, *, tolerance: float = 1e-8, max_sweeps: int = 5000
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
        An option or ``start`` that makes no sense.
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
    check_options(tolerance, max_sweeps, "max_sweeps")
    r, u, _, outcome, sweeps = nsgs_kernel(
        problem.W, problem.b, problem.mu, starting(problem, start), float(tolerance), int(max_sweeps)
    )
    return ConeResult(problem, r.reshape(-1, 3), u.reshape(-1, 3), OUTCOMES[outcome], sweeps, tolerance)
