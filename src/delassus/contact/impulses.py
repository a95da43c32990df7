"""`ImpulseSolver`: contact impulses from ``W``, ``b`` and ``μ`` by one solver, and by another where that fails."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delassus.contact.results import OUTCOMES, SOLVED, Impulses, SolverStatus
from delassus.contact.solvers.lemke import lemke_kernel
from delassus.contact.solvers.pyramids import impulses_of, linear_problem, regular_directions
from delassus.contact.solvers.registry import SOLVERS
from delassus.errors import unknown_name
from delassus.model.check import check_number
from delassus.model.rotations import Array

LIMIT = 10000
"""Most iterations of a solver."""

COMPLIANCES = (1e-13, 1e-12, 1e-11, 1e-10)
"""Compliances of contacts over their mean mobility, tried on pyramids where rigid ones have no definite impulses."""

DIGITS = 1e-4
"""Round-off of velocities ``W r`` that leaves impulses definite, over the tolerance."""

EPSILON = float(np.finfo(float).eps)


class ImpulseSolver:
    """One solver with its options, for callers that solve at every step: arrays are not checked.

    Parameters
    ----------
    solver : str
        One of `delassus.contact.solvers.registry.SOLVERS`: "lemke" and "pgs" on pyramids, "nsgs" and "admm" on cones.
    n_directions : int
        Sides of the pyramids that stand for friction cones, even.
    tolerance : float
        Residual that the solver is held to (m/s).

    Raises
    ------
    UnknownNameError
        No such solver, or one that does not solve from arrays.
    ConfigurationError
        A tolerance that is not positive.
    """

    def __init__(self, solver: str = "lemke", n_directions: int = 4, tolerance: float = 1e-8) -> None:
        known = [name for name, entry in SOLVERS.items() if entry.contacts is not None]
        if solver not in known:
            raise unknown_name("solver", solver, known)
        self.name, self.n_directions = solver, n_directions
        self.tolerance = check_number("tolerance", tolerance, "In m/s, such as 1e-8.", above=True)
        self.directions = regular_directions(n_directions)

    def __call__(
        self,
        W: Array,
        b: Array,
        mu: Array,
        start: Array | None = None,
        more: Array | None = None,
        accept: Callable[[Array], bool] | None = None,
    ) -> Impulses:
        """Impulses (3 n,) that obey the law of contact for ``W`` (3 n, 3 n), ``b`` (3 n,) and ``mu`` (n,).

        ``start`` (3 n,) are those of a step before. With ``more`` (n,), friction may exceed ``μ`` times the normal
        impulse by so much (N s); this is solved by Lemke's method whatever the solver. ``accept`` says of impulses on
        pyramids whether they solve the problem that ``W`` and ``b`` were reduced from.
        """
        if not mu.size:
            return Impulses(np.zeros(0), SolverStatus.CONVERGED, 0)
        if more is not None:
            M, q = linear_problem(W, b, mu, self.directions, more)
            z, outcome, pivots = lemke_kernel(M, q, self.tolerance, LIMIT)
            return Impulses(impulses_of(z, self.directions, mu.size), OUTCOMES[outcome], pivots)
        found = self._solved(self.name, W, b, mu, np.zeros(b.size) if start is None else start, accept)
        if found.status in SOLVED:
            return found
        other = self._solved(SOLVERS[self.name].then, W, b, mu, np.zeros(b.size), None)
        iterations = found.iterations + other.iterations
        better = other.status is SolverStatus.CONVERGED or not np.isfinite(found.p).all()
        return (other if better else found)._replace(iterations=iterations)

    def _solved(
        self, name: str, W: Array, b: Array, mu: Array, start: Array, accept: Callable[[Array], bool] | None
    ) -> Impulses:
        kind, _, contacts, _ = SOLVERS[name]
        assert contacts is not None
        if kind == "cone":
            return contacts(W, b, mu, start, self.tolerance, LIMIT)
        first = contacts(W, b, mu, self.directions, start, self.tolerance, LIMIT)
        rounding = EPSILON * W.trace() * np.sqrt(first.p @ first.p)  # at least that of W p: W is positive semidefinite
        accept = accept or (lambda _: True)
        definite = rounding <= DIGITS * self.tolerance
        if first.status is SolverStatus.CONVERGED and definite and accept(first.p):
            return first
        iterations = first.iterations
        for compliance in COMPLIANCES:
            soft = W.copy()
            soft.flat[:: b.size + 1] += compliance * W.diagonal().mean()
            found = contacts(soft, b, mu, self.directions, start, self.tolerance, LIMIT)
            iterations += found.iterations
            # the velocity that the compliance adds must not show in the residual
            hidden = np.abs((soft - W) @ found.p).max() <= self.tolerance
            if found.status is SolverStatus.CONVERGED and hidden and accept(found.p):
                return found._replace(iterations=iterations)
        return first._replace(iterations=iterations)

    def frictionless(self, W: Array, b: Array) -> Impulses:
        """Impulses (n,) of contacts that have only a normal, by Lemke's method: a row of ``W`` (n, n) for each."""
        z, outcome, pivots = lemke_kernel(W, b, self.tolerance, LIMIT)
        return Impulses(z, OUTCOMES[outcome], pivots)
