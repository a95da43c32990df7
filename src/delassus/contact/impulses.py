"""Impulses at loops and contacts from the Delassus matrix of their rows: loops eliminated, contacts solved.

``G`` (m, m) and ``b`` (m,) hold the rows of loops first, then three for each contact; ``b`` are the velocities without
impulses. Loops end with ``u_b = 0``, contacts obey Coulomb's law or its polyhedral approximation ([OS] eqs. 12 and 53).
Nothing is checked here; `ContactProblem` is the way with checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from delassus.contact.results import OUTCOMES, SolverStatus
from delassus.contact.solvers.compiled import compiled
from delassus.contact.solvers.mixed import eliminated
from delassus.contact.solvers.pivoting import lemke_kernel
from delassus.contact.solvers.pyramids import impulses_of, linear_problem, regular_directions
from delassus.contact.solvers.registry import SOLVERS
from delassus.errors import unknown_name
from delassus.model.rotations import Array

LIMIT = 10000
"""Most iterations of a solver."""
SECOND: Mapping[str, str] = MappingProxyType({"lemke": "nsgs", "pgs": "nsgs", "nsgs": "admm", "admm": "nsgs"})
"""Solver that is asked where one fails."""


@dataclass(frozen=True, slots=True, eq=False)
class Impulses:
    """Impulses along all rows.

    Attributes
    ----------
    p : (m,) array
        Loops first, then tangent, tangent, normal of each contact (N s; N m s).
    status : SolverStatus
    iterations : int
    """

    p: Array
    status: SolverStatus
    iterations: int


@compiled
def beside_given(
    W: Array, b: Array, mu: Array, more: Array, directions: Array, tolerance: float, limit: int
) -> tuple[Array, int, int]:
    """Contact impulses (3 n,) on pyramids, outcome and pivots; friction may exceed ``μ F_n`` by ``more`` (n,)."""
    M, q = linear_problem(W, b, mu, directions)
    n = mu.size
    for i in range(n):
        q[q.size - n + i] = more[i]
    z, outcome, pivots = lemke_kernel(M, q, tolerance, limit)
    return impulses_of(z, directions, n), outcome, pivots


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
        No such solver.
    """

    def __init__(self, solver: str = "lemke", n_directions: int = 4, tolerance: float = 1e-8) -> None:
        if not isinstance(solver, str) or solver not in SOLVERS:
            raise unknown_name("solver", solver, SOLVERS)
        self.name, self.n_directions, self.tolerance = solver, n_directions, tolerance
        self.directions = regular_directions(n_directions)

    def __call__(self, G: Array, b: Array, n_loops: int, mu: Array, start: Array | None = None) -> Impulses:
        """Impulses that stop loops and obey the law of contact at once; ``start`` (3 n,): those of a step before."""
        if not mu.size:
            _, _, back = without_loops(G, b, n_loops)
            return Impulses(back(np.zeros(0)), SolverStatus.CONVERGED, 0)
        W, c, back = without_loops(G, b, n_loops)
        begin = np.zeros(c.size) if start is None else start
        r, status, iterations = self._solved(self.name, W, c, mu, begin)
        if status not in (SolverStatus.CONVERGED, SolverStatus.ROUND_OFF):
            other, verdict, more = self._solved(SECOND[self.name], W, c, mu, np.zeros(c.size))
            iterations += more
            if verdict is SolverStatus.CONVERGED or not np.isfinite(r).all():
                r, status = other, verdict
        return Impulses(back(r), status, iterations)

    def _solved(self, name: str, W: Array, c: Array, mu: Array, start: Array) -> tuple[Array, SolverStatus, int]:
        kind, solve = SOLVERS[name]
        if kind == "linear":
            r, outcome, iterations = solve(W, c, mu, self.directions, start, self.tolerance, LIMIT)
        else:
            r, outcome, iterations = solve(W, c, mu, start, self.tolerance, LIMIT)
        return r, OUTCOMES[outcome], iterations

    def decompression(self, G: Array, b: Array, n_loops: int, mu: Array, returned: Array) -> Impulses:
        """Impulses beside the normal ones ``returned`` (n,), whose friction they bring; always on pyramids."""
        W, c, back = without_loops(G, b, n_loops)
        r, outcome, pivots = beside_given(W, c, mu, mu * returned, self.directions, self.tolerance, LIMIT)
        return Impulses(back(r), OUTCOMES[outcome], pivots)

    def frictionless(self, G: Array, b: Array, n_loops: int) -> Impulses:
        """The same where contacts have only a normal: ``G`` and ``b`` hold one row for each."""
        W, c, back = without_loops(G, b, n_loops)
        z, outcome, pivots = lemke_kernel(W, c, self.tolerance, LIMIT)
        return Impulses(back(z), OUTCOMES[outcome], pivots)


def without_loops(G: Array, b: Array, n_loops: int) -> tuple[Array, Array, Callable[[Array], Array]]:
    """``W`` and ``b`` of contacts where loops hold, and the way from contact impulses to those of all rows."""
    k = n_loops
    if not k:
        return G, b, lambda r: r
    solution, _, _ = eliminated(G[:k, :k], np.column_stack([G[:k, k:], b[:k]]))
    W = G[k:, k:] - G[k:, :k] @ solution[:, :-1]
    c = b[k:] - G[k:, :k] @ solution[:, -1]
    return 0.5 * (W + W.T), c, lambda r: np.concatenate([-(solution[:, :-1] @ r + solution[:, -1]), r])
