"""Nonsmooth Gauss–Seidel (NSGS) on the exact Coulomb cone, O(n k) a sweep with ``W`` of rank k.

It is the solver of islands of `Simulator` (`delassus.solvers.islands.newton`) on one block: contacts are solved one
after the other, each exactly; `newton` on ``W`` ends at round-off. What is not solved goes to `interior`, then to all
that islands are solved by, sweeps and Newton's method by turns. Contacts that jam are left, by continuation in
compliance: ``W + δ D`` from soft to hard, each from where the last two solutions point. Impulses are taken to go on as
``x + y / δ``, which covers those that grow without bound. Where paths end early (solutions of friction problems come
and go in pairs), another path may go on: the next have random weights ``D``, which become equal behind the place where
the first ended.

Source: Jean 1999, Moreau 1999; Acary, Brémond and Huber 2018 for the survey.
*Deviations*: the local problem is solved by one equation; Newton's method and the continuation are this library's.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from delassus.solvers.interior import solved
from delassus.solvers.islands.dense import ConeLaws, alone, block_impulses
from delassus.solvers.islands.factor import MAX_PARTS
from delassus.solvers.islands.newton import MAX_FACTORISATIONS, SWEEPS_BEFORE_NEWTON
from delassus.solvers.linear import Indices, mobilities, rounding
from delassus.solvers.newton import concluded, newton
from delassus.solvers.problems import ConeProblem
from delassus.solvers.results import SOLVED, Impulses, Solution, SolverStatus, solved_cones
from delassus.spatial.rotations import Array

SWEEPS_ALONE = SWEEPS_BEFORE_NEWTON
"""Sweeps before other ways are tried."""

INTERIOR_ITERATIONS = 60
"""Most iterations of `interior`."""

LARGEST_RATIO = 10.0**0.5
"""Largest ratio of one compliance to the next."""

SMALLEST_RATIO = 1.05
"""Smallest ratio of one compliance to the next."""

FIRST_COMPLIANCE = 1.0
"""First compliance."""

LAST_COMPLIANCE = 1e-10
"""Last compliance."""

WEIGHT_SPREADS = (1.5, 0.4)
"""Decades by which weights differ from one, either way, in turn."""

WEIGHTS_DIFFER_ABOVE = 0.3
"""Compliance, relative to where the first path ended, from which on weights become equal."""

WEIGHTS_EQUAL_BELOW = 1e-3
"""The same at which they are equal."""


Candidate = tuple[Impulses, float]
"""Impulses and their residual."""


def quality(candidate: Candidate) -> tuple[bool, float]:
    """Sort key: solved before unsolved, then the smaller residual."""
    return candidate[0].status not in SOLVED, candidate[1]


class NsgsSearch:
    """A problem, the best impulses that were found for it, and the number of iterations that may still be made.

    Patches, groups that have a ``partner``, are known to the solver of islands alone.
    """

    def __init__(
        self, W: Array, b: Array, mu: Array, friction_offset: Array, partner: Indices | None, tolerance: float,
        limit: int,
    ) -> None:  # fmt: skip
        self.W, self.laws, self.tolerance = W, (b, mu, friction_offset), tolerance
        self.limit, self.iterations, self.has_patches = limit, 0, partner is not None
        self.cones = ConeLaws(mu, friction_offset, alone(mu.size) if partner is None else partner)
        self.best: Candidate = Impulses(np.zeros(b.size), SolverStatus.ITERATION_LIMIT, 0), np.inf

    @property
    def ended(self) -> bool:
        """Whether the problem is solved, or nothing is left of the iterations."""
        return self.best[0].status in SOLVED or self.iterations >= self.limit

    def swept(self, W: Array, start: Array, limit: int, parts: int) -> tuple[Array, float]:
        """Impulses by sweeps, and by Newton's method where these do not end, and their residual."""
        p = start.copy()
        most = min(limit, self.limit - self.iterations)
        residual, sweeps = block_impulses(W, self.laws[0], self.cones, p, self.tolerance, most, parts)
        self.iterations += sweeps
        return (p, residual) if residual <= self.tolerance else self.refined(W, p)

    def refined(self, W: Array, p: Array) -> tuple[Array, float]:
        """Impulses by Newton's method, with patches after as few sweeps as it takes, and their residual."""
        if self.has_patches:
            p, most = p.copy(), SWEEPS_BEFORE_NEWTON
            return p, block_impulses(W, self.laws[0], self.cones, p, self.tolerance, most, MAX_PARTS)[0]
        p, _, residual = newton(W, *self.laws, p, self.tolerance)
        return p, residual

    def offer(self, p: Array, residual: float) -> None:
        """Take impulses, if they are better than what there is."""
        if self.has_patches:
            status = SolverStatus.CONVERGED if residual <= self.tolerance else SolverStatus.ITERATION_LIMIT
            found: Candidate = Impulses(p, status, 0), residual
        else:
            found = concluded(self.W, *self.laws, p, residual, self.tolerance, 0)
        self.best = min(self.best, found, key=quality)

    def follow(self, weights: Array, end: float) -> float:
        """Follow a path of falling compliances; the last one solved (0: none).

        ``end`` is the compliance at which the first path ended, behind which weights become equal.
        """
        most, still = mobilities(self.W)[1], np.zeros(self.laws[0].size)
        delta, ratio, last, older, found, before = FIRST_COMPLIANCE, LARGEST_RATIO, 0.0, 0.0, still, still
        while delta > LAST_COMPLIANCE and ratio > SMALLEST_RATIO and not self.ended:
            whole = np.log(WEIGHTS_DIFFER_ABOVE / WEIGHTS_EQUAL_BELOW)
            unequal = np.clip(np.log(delta / (WEIGHTS_EQUAL_BELOW * end)) / whole, 0.0, 1.0)
            soft = self.W + np.diag(np.repeat(delta * most * weights**unequal, 3))
            ahead = (1.0 / delta - 1.0 / last) / (1.0 / last - 1.0 / older) if older > 0.0 else 0.0
            p = found + ahead * (found - before)
            self.iterations += weights.size
            r, residual = self.refined(soft, p)
            if not residual <= max(self.tolerance, rounding(soft, r, self.laws[0])):
                r, residual = self.swept(soft, p, SWEEPS_BEFORE_NEWTON, 0)
            if not residual <= max(self.tolerance, rounding(soft, r, self.laws[0])):
                if last == 0.0:
                    break
                ratio = np.sqrt(ratio)
                delta = last / ratio
                continue
            before, found, older, last = found, r, last, delta
            delta /= ratio
            ratio = min(ratio**1.5, LARGEST_RATIO)
            self.offer(*self.refined(self.W, r))
        return last


def follow_paths(search: NsgsSearch, n_contacts: int) -> None:
    """Follow paths, one after the other, until one arrives."""
    weights, end, random, paths = np.ones(n_contacts), FIRST_COMPLIANCE, np.random.default_rng(0), 0
    while not search.ended:
        last = search.follow(weights, end)
        if not paths:
            end = max(last, LAST_COMPLIANCE / WEIGHTS_EQUAL_BELOW)
        weights = 10.0 ** (WEIGHT_SPREADS[paths % 2] * random.uniform(-1.0, 1.0, n_contacts))
        paths += 1


def nsgs_contacts(
    W: Array, b: Array, mu: Array, friction_offset: Array, start: Array, tolerance: float, limit: int,
    partner: Indices | None = None,
) -> Impulses:  # fmt: skip
    """Impulses by nonsmooth Gauss–Seidel; see `delassus.solvers.registry`.

    Groups of rows with a ``partner`` (n,) are patches, and these are their spins: there are no interior points then.
    """
    search = NsgsSearch(W, b, mu, friction_offset, partner, tolerance, limit)
    search.offer(*search.swept(W, start, *((limit, MAX_PARTS) if search.has_patches else (SWEEPS_ALONE, 0))))
    if not (search.ended or search.has_patches):
        most = min(INTERIOR_ITERATIONS, limit - search.iterations)
        r, residual, iterations = solved(W, b, mu, friction_offset, search.best[0].p, True, tolerance, most)
        search.iterations += iterations
        search.offer(r, residual)
    if not (search.ended or search.has_patches):
        # a factorisation counts as a sweep for each contact, as it takes so long
        parts = (limit - search.iterations) // (MAX_FACTORISATIONS * mu.size)
        search.offer(*search.swept(W, start, limit, min(parts, MAX_PARTS)))
    if not search.ended:
        follow_paths(search, mu.size)
    return search.best[0]._replace(iterations=search.iterations)


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
    >>> from delassus.contact import ConeProblem
    >>> block = ConeProblem([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [3, 4, -1], mu=0.5)
    >>> solution = nsgs(block)
    >>> solution.status.name, solution.values.round(6).tolist()
    ('CONVERGED', [[-0.3, -0.4, 1.0]])
    """
    return solved_cones(nsgs_contacts, problem, start, tolerance, max_iterations)
