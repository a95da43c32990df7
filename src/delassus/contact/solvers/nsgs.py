"""Nonsmooth Gauss–Seidel (NSGS) on the exact Coulomb cone, O(n²) a sweep.

Contacts are solved one after the other, each exactly (`coulomb`). Once contact modes stand still, `newton` takes over,
which ends at round-off or is dropped. What neither solves within `TUNING.sweeps_alone` sweeps goes to `interior`, then
to `admm`. Contacts that jam are left, by continuation in compliance: ``W + δ D`` from soft to hard, each from where the
last two solutions point. Impulses are taken to go on as ``x + y / δ``, which covers those that grow without bound.
Where paths end early (solutions of friction problems come and go in pairs), another path may go on: the next have
random weights ``D``, which become equal behind the place where the first ended. Between them are more sweeps without
compliance.

Source: Jean 1999, Moreau 1999; Acary, Brémond and Huber 2018 for the survey.
*Deviations*: the local problem is solved by one equation; Newton's method and the continuation are this library's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from delassus.compiler.jit.compile import compiled
from delassus.contact.problems import ConeProblem
from delassus.contact.results import SOLVED, Impulses, Solution, SolverStatus, solved_cones
from delassus.contact.solvers.admm import admm_contacts
from delassus.contact.solvers.coulomb import mobilities, natural_residual, prepare, rounding, single
from delassus.contact.solvers.interior import interior_contacts
from delassus.contact.solvers.linear import affine, assign
from delassus.contact.solvers.newton import Indices, concluded, modes_of, newton
from delassus.spatial.rotations import Array


class Tuning(NamedTuple):
    """Numbers of `nsgs`; compliances are relative to the largest mobility."""

    sweeps_alone: int = 150
    """Sweeps before other ways are tried."""
    largest_ratio: float = 10.0**0.5
    """Largest ratio of one compliance to the next."""
    smallest_ratio: float = 1.05
    """Smallest ratio of one compliance to the next."""
    first_compliance: float = 1.0
    """First compliance."""
    last_compliance: float = 1e-10
    """Last compliance."""
    weight_spreads: tuple[float, float] = (1.5, 0.4)
    """Decades by which weights differ from one, either way, in turn."""
    weights_differ_above: float = 0.3
    """Compliance, relative to where the first path ended, from which on weights become equal."""
    weights_equal_below: float = 1e-3
    """The same at which they are equal."""
    sweeps_a_compliance: int = 60
    """Most sweeps at one compliance."""
    sweeps_between_paths: int = 200
    """Most sweeps without compliance between two paths."""
    interior_iterations: int = 60
    """Most iterations of `interior`."""
    admm_iterations: int = 1500
    """Most iterations of `admm`."""


TUNING = Tuning()


Candidate = tuple[Impulses, float]
"""Impulses and their residual."""


@compiled
def sweep(
    W: Array, mu: Array, friction_offset: Array, omega: Array, prepared: Array, r: Array, u: Array, mode: Indices,
    alphas: Array,
) -> tuple[float, int]:  # fmt: skip
    """Solve every contact once, in order, each with the newest velocities ``u = W r + b``.

    Returns the largest change, as a velocity, and the number of contacts whose mode changed.
    """
    moved, changed = 0.0, 0
    size = r.size
    for i in range(mu.size):
        k = 3 * i
        p = prepared[i]
        r1, r2, r3 = r[k], r[k + 1], r[k + 2]
        A, B, C = W[k], W[k + 1], W[k + 2]
        c1 = u[k] - A[k] * r1 - A[k + 1] * r2 - A[k + 2] * r3 - p[0] * r1
        c2 = u[k + 1] - B[k] * r1 - B[k + 1] * r2 - B[k + 2] * r3 - p[0] * r2
        c3 = u[k + 2] - C[k] * r1 - C[k + 1] * r2 - C[k + 2] * r3 - p[0] * r3
        x, y, z, now, alphas[i] = single(p, mu[i], friction_offset[i], c1, c2, c3, alphas[i])
        changed += now != mode[i]
        mode[i] = now
        d1, d2, d3 = x - r1, y - r2, z - r3
        if d1 != 0.0 or d2 != 0.0 or d3 != 0.0:
            moved = max(moved, omega[i] * max(abs(d1), abs(d2), abs(d3)))
            for j in range(size):
                u[j] += A[j] * d1 + B[j] * d2 + C[j] * d3
            r[k], r[k + 1], r[k + 2] = x, y, z
    return moved, changed


@compiled
def relax(
    W: Array, b: Array, mu: Array, friction_offset: Array, start: Array, tolerance: float, limit: int
) -> tuple[Array, Array, float, int]:
    """Sweep until the residual is small; returns the best impulses, their velocities and residual, and sweeps.

    Newton's method is tried when contact modes have not changed for two sweeps, and then after ever longer waits.
    """
    omega, most = mobilities(W)
    prepared = prepare(W, most)
    mode, alphas = np.full(mu.size, -1), np.zeros(mu.size)
    r, u, try_r, try_u = np.copy(start), np.empty(b.size), np.empty(b.size), np.empty(b.size)
    affine(W, r, b, u)
    best_r, best_u, best = np.copy(r), np.copy(u), natural_residual(u, r, mu, friction_offset, omega)
    steady, after, wait, sweeps = 0, 4, 2, 0
    while best > tolerance and sweeps < limit:
        moved, changed = sweep(W, mu, friction_offset, omega, prepared, r, u, mode, alphas)
        sweeps += 1
        steady = 0 if changed else steady + 1
        if (steady >= 2 and sweeps >= after) or sweeps >= 4 * after or moved <= tolerance or sweeps == limit:
            affine(W, r, b, u)
            residual = natural_residual(u, r, mu, friction_offset, omega)
            if residual < best:
                best = residual
                assign(best_r, r)
                assign(best_u, u)
            assign(try_r, r)
            assign(try_u, u)
            residual = newton(W, b, mu, friction_offset, omega, most, mode, 1e-3 * tolerance, try_r, try_u)
            if residual < best:
                best = residual
                assign(best_r, try_r)
                assign(best_u, try_u)
                if residual < 0.1 * moved:
                    assign(r, try_r)
                    assign(u, try_u)
            wait = min(wait * 2, 64)
            after = sweeps + wait
    return best_r, best_u, best, sweeps


def nsgs_contacts(
    W: Array, b: Array, mu: Array, friction_offset: Array, start: Array, tolerance: float, limit: int
) -> Impulses:
    """Impulses by nonsmooth Gauss–Seidel; see `delassus.contact.solvers.registry`."""
    r, _, residual, sweeps = relax(W, b, mu, friction_offset, start, tolerance, min(TUNING.sweeps_alone, limit))
    found, residual = concluded(W, b, mu, friction_offset, r, residual, tolerance, sweeps)
    if found.status is not SolverStatus.ITERATION_LIMIT or sweeps >= limit:
        return found
    for solve, start_again, most in (
        (interior_contacts, r, TUNING.interior_iterations),
        (admm_contacts, np.zeros(b.size), TUNING.admm_iterations),
    ):
        other = solve(W, b, mu, friction_offset, start_again, tolerance, min(most, limit - sweeps))
        sweeps += other.iterations
        if other.status in SOLVED or sweeps >= limit:
            return other._replace(iterations=sweeps)
    return attempts(W, b, mu, friction_offset, (found._replace(iterations=sweeps), residual), tolerance, limit)


def harden(
    W: Array, b: Array, mu: Array, friction_offset: Array, weights: Array, end: float, tolerance: float, limit: int
) -> tuple[Candidate, int, float]:
    """Follow a path of falling compliances: best impulses, number of sweeps, last compliance solved (0: none).

    ``end`` is the compliance at which the first path ended, behind which weights become equal.
    """
    omega, most = mobilities(W)
    mode = np.empty(mu.size, np.int64)
    best: Candidate = Impulses(np.zeros(b.size), SolverStatus.ITERATION_LIMIT, 0), np.inf
    delta, ratio, last, older, sweeps = TUNING.first_compliance, TUNING.largest_ratio, 0.0, 0.0, 0
    found = before = np.zeros(b.size)
    while delta > TUNING.last_compliance and ratio > TUNING.smallest_ratio and sweeps < limit:
        whole = np.log(TUNING.weights_differ_above / TUNING.weights_equal_below)
        unequal = np.clip(np.log(delta / (TUNING.weights_equal_below * end)) / whole, 0.0, 1.0)
        soft = W + np.diag(np.repeat(delta * most * weights**unequal, 3))
        ahead = (1.0 / delta - 1.0 / last) / (1.0 / last - 1.0 / older) if older > 0.0 else 0.0
        start, most_sweeps = found + ahead * (found - before), min(TUNING.sweeps_a_compliance, limit - sweeps)
        r, u, left, added = relax(soft, b, mu, friction_offset, start, tolerance, most_sweeps)
        sweeps += added
        if left > max(tolerance, rounding(W, r, b)):
            if last == 0.0:
                break
            ratio = np.sqrt(ratio)
            delta = last / ratio
            continue
        before, found, older, last = found, r, last, delta
        delta /= ratio
        ratio = min(ratio**1.5, TUNING.largest_ratio)
        modes_of(r, u, friction_offset, 10.0 * tolerance, mode)
        rigid = r.copy()
        left = newton(W, b, mu, friction_offset, omega, most, mode, 1e-3 * tolerance, rigid, u)
        best = min(best, concluded(W, b, mu, friction_offset, rigid, left, tolerance, 0), key=quality)
        if best[0].status in SOLVED:
            return best, sweeps, last
    r, _, left, added = relax(
        W, b, mu, friction_offset, found, tolerance, min(TUNING.sweeps_a_compliance, limit - sweeps)
    )
    return min(best, concluded(W, b, mu, friction_offset, r, left, tolerance, 0), key=quality), sweeps + added, last


def quality(candidate: Candidate) -> tuple[bool, float]:
    """Sort key: solved before unsolved, then the smaller residual."""
    return candidate[0].status not in SOLVED, candidate[1]


def attempts(
    W: Array, b: Array, mu: Array, friction_offset: Array, best: Candidate, tolerance: float, limit: int
) -> Impulses:
    """Paths, one after the other, until one arrives; sweeps without compliance go on between them."""
    weights, end, sweeps = np.ones(mu.size), TUNING.first_compliance, best[0].iterations
    slow, random, first = best[0].p, np.random.default_rng(0), True
    spread = TUNING.weight_spreads[0]

    def solved(candidate: Candidate) -> bool:
        nonlocal best
        best = min(best, candidate, key=quality)
        return best[0].status in SOLVED or sweeps >= limit

    while True:
        path, added, last = harden(W, b, mu, friction_offset, weights, end, tolerance, limit - sweeps)
        sweeps += max(added, 1)
        if solved(path):
            break
        if first:
            first, end = False, max(last, TUNING.last_compliance / TUNING.weights_equal_below)
        slow, _, left, added = relax(
            W, b, mu, friction_offset, slow, tolerance, min(TUNING.sweeps_between_paths, limit - sweeps)
        )
        sweeps += added
        if solved(concluded(W, b, mu, friction_offset, slow, left, tolerance, 0)):
            break
        weights = 10.0 ** (spread * random.uniform(-1.0, 1.0, mu.size))
        spread = TUNING.weight_spreads[1] if spread == TUNING.weight_spreads[0] else TUNING.weight_spreads[0]
    return best[0]._replace(iterations=sweeps)


def nsgs(
    problem: ConeProblem, start: ArrayLike | None = None, *, tolerance: float = 1e-8, max_iterations: int = 10000
) -> Solution[ConeProblem]:
    """Solve a contact problem with exact friction cones by nonsmooth Gauss–Seidel.

    Parameters
    ----------
    problem : ConeProblem
    start : (n, 3) array_like, optional
        Impulses to start from (N s), such as those of the step before.
    tolerance : float
        Of `ConeProblem.residual` (m/s).
    max_iterations : int
        Sweeps.

    Raises
    ------
    ConfigurationError
        Another kind of problem; a tolerance or limit that is not positive; a start of another size.

    Examples
    --------
    >>> from delassus.contact.problems import ConeProblem
    >>> block = ConeProblem([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [3, 4, -1], mu=0.5)
    >>> solution = nsgs(block)
    >>> solution.status.name, solution.values.round(6).tolist()
    ('CONVERGED', [[-0.3, -0.4, 1.0]])
    """
    return solved_cones(nsgs_contacts, problem, start, tolerance, max_iterations)
