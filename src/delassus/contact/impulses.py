"""Impulses at loops and contacts from the Delassus matrix of their rows: loops eliminated, contacts solved.

``G`` (m, m) and ``b`` (m,) hold the rows of loops first, then three for each contact; ``b`` are the velocities without
impulses. Loops end with ``u_b = 0``, contacts obey Coulomb's law or its polyhedral approximation ([OS] eqs. 12 and 53).
Nothing is checked here; `ContactProblem` is the way with checks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

import numpy as np

from delassus.contact.problems import ConeProblem
from delassus.contact.results import OUTCOMES, ConeResult, SolverStatus
from delassus.contact.solvers.admm import admm
from delassus.contact.solvers.compiled import compiled
from delassus.contact.solvers.mixed import eliminated
from delassus.contact.solvers.nsgs import nsgs
from delassus.contact.solvers.pivoting import lemke_kernel
from delassus.errors import unknown_name
from delassus.model.rotations import Array

MAX_PIVOTS = 10000


@compiled
def polyhedral(W: Array, b: Array, mu: Array, directions: Array, M: Array, q: Array) -> None:
    """Matrix and vector of [OS] eq. 41 from those of cones; see `PolyhedralLCP` for the order of unknowns."""
    n, f = mu.size, directions.shape[0]
    size = n * (f + 1)
    M[:] = 0.0
    row = np.empty((3, n * (f + 1)))
    for i in range(n):
        for k in range(3):  # W_i D
            for j in range(n):
                row[k, j * (f + 1)] = W[3 * i + k, 3 * j + 2]
                for d in range(f):
                    row[k, j * (f + 1) + 1 + d] = (
                        W[3 * i + k, 3 * j] * directions[d, 0] + W[3 * i + k, 3 * j + 1] * directions[d, 1]
                    )
        first = i * (f + 1)
        for c in range(size):
            M[first, c] = row[2, c]
            for d in range(f):
                M[first + 1 + d, c] = directions[d, 0] * row[0, c] + directions[d, 1] * row[1, c]
        q[first], q[size + i] = b[3 * i + 2], 0.0
        M[size + i, first] = mu[i]
        for d in range(f):
            q[first + 1 + d] = directions[d, 0] * b[3 * i] + directions[d, 1] * b[3 * i + 1]
            M[first + 1 + d, size + i] = 1.0
            M[size + i, first + 1 + d] = -1.0


@compiled
def lemke_impulses(
    W: Array, b: Array, mu: Array, more: Array, directions: Array, tolerance: float, limit: int
) -> tuple[Array, int, int]:
    """Contact impulses (3 n,) by Lemke's method, outcome and pivots.

    Friction may reach ``μ`` times the normal impulse, and ``more`` (n,) beyond that.
    """
    n, f = mu.size, directions.shape[0]
    M, q = np.empty((n * (f + 2), n * (f + 2))), np.empty(n * (f + 2))
    polyhedral(W, b, mu, directions, M, q)
    for i in range(n):
        q[n * (f + 1) + i] = more[i]
    z, outcome, pivots = lemke_kernel(M, q, tolerance, limit)
    r = np.zeros(3 * n)
    for i in range(n):
        first = i * (f + 1)
        r[3 * i + 2] = z[first]
        for d in range(f):
            r[3 * i] += directions[d, 0] * z[first + 1 + d]
            r[3 * i + 1] += directions[d, 1] * z[first + 1 + d]
    return r, outcome, pivots


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


def _lemke(tolerance: float, W: Array, b: Array, mu: Array, directions: Array) -> tuple[Array, SolverStatus, int]:
    r, outcome, pivots = lemke_impulses(W, b, mu, np.zeros(mu.size), directions, tolerance, MAX_PIVOTS)
    return r, OUTCOMES[outcome], pivots


def _cone(
    solve: Callable[..., ConeResult], tolerance: float, W: Array, b: Array, mu: Array, directions: Array
) -> tuple[Array, SolverStatus, int]:
    result = solve(ConeProblem(W, b, mu), tolerance=tolerance)
    return result.impulses.ravel(), result.status, result.iterations


CONTACT_SOLVERS: Mapping[str, Callable[..., tuple[Array, SolverStatus, int]]] = MappingProxyType(
    {"lemke": _lemke, "nsgs": partial(_cone, nsgs), "admm": partial(_cone, admm)}
)
"""Solvers for contacts by name: Lemke's on pyramids of ``n_f`` sides, the others on exact cones."""


class ImpulseSolver:
    """One solver with its options.

    Parameters
    ----------
    solver : str
        One of `CONTACT_SOLVERS`.
    n_directions : int
        Sides of the pyramids that stand for friction cones, even.
    tolerance : float
        Residual that the solver is held to (m/s).
    """

    def __init__(self, solver: str = "lemke", n_directions: int = 4, tolerance: float = 1e-8) -> None:
        if solver not in CONTACT_SOLVERS:
            raise unknown_name("solver", solver, CONTACT_SOLVERS)
        self.name, self.n_directions, self.tolerance = solver, n_directions, tolerance
        self._solve = CONTACT_SOLVERS[solver]
        angles = 2 * np.pi * np.arange(n_directions) / n_directions
        self.directions = np.column_stack([np.cos(angles), np.sin(angles)])
        self.directions[np.abs(self.directions) < 1e-15] = 0.0

    def __call__(self, G: Array, b: Array, n_loops: int, mu: Array) -> Impulses:
        """Impulses that stop loops and obey the law of contact at once."""
        W, c, back = without_loops(G, b, n_loops)
        r, status, iterations = self._solve(self.tolerance, W, c, mu, self.directions)
        if status not in (SolverStatus.CONVERGED, SolverStatus.ROUND_OFF) and self.name != "nsgs":
            other, verdict, more = CONTACT_SOLVERS["nsgs"](self.tolerance, W, c, mu, self.directions)
            iterations += more
            if verdict is SolverStatus.CONVERGED or not np.isfinite(r).all():
                r, status = other, verdict
        return Impulses(back(r), status, iterations)

    def decompression(self, G: Array, b: Array, n_loops: int, mu: Array, returned: Array) -> Impulses:
        """Impulses beside the normal ones ``returned`` (n,), whose friction they bring; always on pyramids."""
        W, c, back = without_loops(G, b, n_loops)
        r, outcome, pivots = lemke_impulses(
            np.ascontiguousarray(W), c, mu, mu * returned, self.directions, self.tolerance, MAX_PIVOTS
        )
        return Impulses(back(r), OUTCOMES[outcome], pivots)

    def frictionless(self, G: Array, b: Array, n_loops: int) -> Impulses:
        """The same where contacts have only a normal: ``G`` and ``b`` hold one row for each."""
        W, c, back = without_loops(G, b, n_loops)
        z, outcome, pivots = lemke_kernel(np.ascontiguousarray(W), c, self.tolerance, MAX_PIVOTS)
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
