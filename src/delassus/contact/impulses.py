"""Impulses at loops and contacts from the Delassus matrix of their rows: loops eliminated, contacts solved.

``G`` (m, m) and ``b`` (m,) hold the rows of loops first, then three for each contact; ``b`` are the velocities without
impulses. Loops end with ``u_b = 0``, contacts obey Coulomb's law or its polyhedral approximation ([OS] eqs. 12 and 53).
Nothing is checked here; `ContactProblem` is the way with checks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delassus.contact.results import OUTCOMES, SOLVED, Impulses, SolverStatus
from delassus.contact.solvers.lemke import lemke_kernel
from delassus.contact.solvers.mixed import eliminated
from delassus.contact.solvers.pyramids import impulses_of, linear_problem, regular_directions
from delassus.contact.solvers.registry import SOLVERS
from delassus.errors import unknown_name
from delassus.model.rotations import Array

LIMIT = 10000
"""Most iterations of a solver."""


class ImpulseSolver:
    """One solver with its options.

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
    """

    def __init__(self, solver: str = "lemke", n_directions: int = 4, tolerance: float = 1e-8) -> None:
        known = [name for name, entry in SOLVERS.items() if entry.contacts is not None]
        if solver not in known:
            raise unknown_name("solver", solver, known)
        self.name, self.n_directions, self.tolerance = solver, n_directions, tolerance
        self.directions = regular_directions(n_directions)

    def __call__(self, G: Array, b: Array, n_loops: int, mu: Array, start: Array | None = None) -> Impulses:
        """Impulses that stop loops and obey the law of contact at once; ``start`` (3 n,): those of a step before."""
        W, c, all_rows = without_loops(G, b, n_loops)
        if not mu.size:
            return Impulses(all_rows(np.zeros(0)), SolverStatus.CONVERGED, 0)
        found = self._solved(self.name, W, c, mu, np.zeros(c.size) if start is None else start)
        if found.status not in SOLVED:
            other = self._solved(SOLVERS[self.name].then, W, c, mu, np.zeros(c.size))
            iterations = found.iterations + other.iterations
            if other.status is SolverStatus.CONVERGED or not np.isfinite(found.p).all():
                found = other
            found = found._replace(iterations=iterations)
        return Impulses(all_rows(found.p), found.status, found.iterations)

    def _solved(self, name: str, W: Array, c: Array, mu: Array, start: Array) -> Impulses:
        kind, _, contacts, _ = SOLVERS[name]
        assert contacts is not None
        pyramids = (self.directions,) if kind == "linear" else ()
        return contacts(W, c, mu, *pyramids, start, self.tolerance, LIMIT)

    def decompression(self, G: Array, b: Array, n_loops: int, mu: Array, returned: Array) -> Impulses:
        """Impulses beside the normal ones ``returned`` (n,), whose friction they bring; always on pyramids."""
        W, c, all_rows = without_loops(G, b, n_loops)
        M, q = linear_problem(W, c, mu, self.directions, mu * returned)
        z, outcome, pivots = lemke_kernel(M, q, self.tolerance, LIMIT)
        return Impulses(all_rows(impulses_of(z, self.directions, mu.size)), OUTCOMES[outcome], pivots)

    def frictionless(self, G: Array, b: Array, n_loops: int) -> Impulses:
        """The same where contacts have only a normal: ``G`` and ``b`` hold one row for each."""
        W, c, all_rows = without_loops(G, b, n_loops)
        z, outcome, pivots = lemke_kernel(W, c, self.tolerance, LIMIT)
        return Impulses(all_rows(z), OUTCOMES[outcome], pivots)


def without_loops(G: Array, b: Array, n_loops: int) -> tuple[Array, Array, Callable[[Array], Array]]:
    """``W`` and ``b`` of contacts where loops hold, and the map from contact impulses to those of all rows."""
    k = n_loops
    if not k:
        return G, b, lambda r: r
    solution, _, _ = eliminated(G[:k, :k], np.column_stack([G[:k, k:], b[:k]]))
    W = G[k:, k:] - G[k:, :k] @ solution[:, :-1]
    c = b[k:] - G[k:, :k] @ solution[:, -1]
    return 0.5 * (W + W.T), c, lambda r: np.concatenate([-(solution[:, :-1] @ r + solution[:, -1]), r])
