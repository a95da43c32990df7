"""The contact solvers by name, which one is asked next where one fails, and `ImpulseSolver`, which asks them.

Functions of arrays check nothing, for callers that solve at every step: ``contacts(W, b, mu, friction_offset, start,
tolerance, limit)`` on exact cones, with ``directions`` (n_f, 2) before ``start`` on pyramids. ``W`` (3n, 3n), ``b``
(3n,), ``mu`` and ``friction_offset`` (n,) are those of a `ConeProblem`, C-contiguous float64; ``start`` (3n,) are
impulses to start from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np

from delassus.errors import unknown_name
from delassus.model.check import check_number, check_whole
from delassus.solvers.admm import admm_contacts
from delassus.solvers.interior import convex_contacts, interior_contacts
from delassus.solvers.lemke import lemke_impulses
from delassus.solvers.linear import Indices, cone_residual, mobilities
from delassus.solvers.nsgs import nsgs_contacts, quality
from delassus.solvers.pgs import pgs_impulses
from delassus.solvers.problems import check_directions
from delassus.solvers.pyramids import regular_directions
from delassus.solvers.results import SOLVED, STATUSES, Impulses, SolverStatus
from delassus.spatial.rotations import Array


def on_pyramids(solve: Callable[..., tuple[Array, int, int]]) -> Callable[..., Impulses]:
    """Impulses of what returns them with the number of a status, and that of iterations."""

    def contacts(*given: Any) -> Impulses:
        p, outcome, iterations = solve(*given)
        return Impulses(p, STATUSES[outcome], iterations)

    return contacts


class SolverEntry(NamedTuple):
    """Friction on pyramids or exact cones, the function of arrays, and the solver that is asked where this one fails.

    That is `nsgs`: exact cones, where pyramids have no solution or their matrix is badly conditioned; and continuation,
    where contacts jam.
    """

    kind: Literal["linear", "cone"]
    contacts: Callable[..., Impulses]
    then: str = ""


SOLVERS: Mapping[str, SolverEntry] = MappingProxyType(
    {
        "lemke": SolverEntry("linear", on_pyramids(lemke_impulses), "nsgs"),
        "pgs": SolverEntry("linear", on_pyramids(pgs_impulses), "nsgs"),
        "nsgs": SolverEntry("cone", nsgs_contacts),
        "admm": SolverEntry("cone", admm_contacts, "nsgs"),
        "interior": SolverEntry("cone", interior_contacts, "nsgs"),
        "convex": SolverEntry("cone", convex_contacts),
    }
)

PATCHES = "nsgs"
"""The solver that has torsional and rolling friction."""

TOLERANCE = 1e-6
"""Residual that solvers of steps and impacts are held to by default (m/s): of no account to what moves at 1 mm/s."""

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
        One of `SOLVERS`: "lemke" and "pgs" on pyramids, "nsgs", "admm" and "interior" on cones, "convex" on relaxed
        ones.
    n_directions : int
        Sides of the pyramids that stand for friction cones, even.
    tolerance : float
        Residual that the solver is held to (m/s), 1e-6 by default.
    max_iterations : int
        Most iterations, of each solver that is asked.

    Raises
    ------
    UnknownNameError
        No such solver.
    ConfigurationError
        A tolerance or limit that is not positive, or an odd number of sides.
    """

    def __init__(
        self, solver: str = "lemke", n_directions: int = 4, tolerance: float = TOLERANCE, max_iterations: int = LIMIT
    ) -> None:
        if not isinstance(solver, str) or solver not in SOLVERS:
            raise unknown_name("solver", solver, SOLVERS)
        self.name, self.n_directions = solver, check_directions(n_directions)
        self.tolerance = check_number("tolerance", tolerance, "In m/s, such as 1e-6.")
        self.max_iterations = check_whole("max_iterations", max_iterations, "Allow at least one.", least=1, most=10**9)
        self.directions = regular_directions(n_directions)

    def __call__(
        self,
        W: Array,
        b: Array,
        mu: Array,
        friction_offset: Array,
        start: Array | None = None,
        accept: Callable[[Array], bool] | None = None,
        partner: Indices | None = None,
    ) -> Impulses:
        """Impulses (3 n,) that obey the law of contact for ``W`` (3 n, 3 n), ``b`` (3 n,) and ``mu`` (n,).

        Friction may exceed ``μ`` times the normal impulse by ``friction_offset`` (n,), in N s. ``start`` (3 n,) are
        impulses of a step before. ``accept`` says of those on pyramids whether they solve the problem that ``W`` and
        ``b`` were reduced from. Groups of rows with a ``partner`` (n,) are patches, and these are their spins; "nsgs"
        alone has these. Of two solvers that fail, the impulses with the smaller residual on exact cones are returned.
        """
        if not mu.size:
            return Impulses(np.zeros(0), SolverStatus.CONVERGED, 0)
        if partner is not None and (partner >= 0).any():
            first = np.zeros(b.size) if start is None else start
            return nsgs_contacts(W, b, mu, friction_offset, first, self.tolerance, self.max_iterations, partner)
        found = self._solved(self.name, W, b, mu, friction_offset, np.zeros(b.size) if start is None else start, accept)
        then = SOLVERS[self.name].then
        if found.status in SOLVED or not then:
            return found
        other, omega = self._solved(then, W, b, mu, friction_offset, np.zeros(b.size), None), mobilities(W)[0]
        ways = [
            (way, cone_residual(W, b, mu, friction_offset, omega, way.p, way.remainder)[0]) for way in (found, other)
        ]
        return min(ways, key=quality)[0]._replace(iterations=found.iterations + other.iterations)

    def _solved(
        self,
        name: str,
        W: Array,
        b: Array,
        mu: Array,
        friction_offset: Array,
        start: Array,
        accept: Callable[[Array], bool] | None,
    ) -> Impulses:
        kind, contacts, _ = SOLVERS[name]
        if kind == "cone":
            return contacts(W, b, mu, friction_offset, start, self.tolerance, self.max_iterations)
        first = contacts(W, b, mu, friction_offset, self.directions, start, self.tolerance, self.max_iterations)
        rounding = EPSILON * W.trace() * np.sqrt(first.p @ first.p)  # at least that of W p: W is positive semidefinite
        definite = rounding <= DIGITS * self.tolerance
        if first.status is SolverStatus.CONVERGED and definite and (accept is None or accept(first.p)):
            return first
        iterations = first.iterations
        for compliance in COMPLIANCES:
            soft = W.copy()
            soft.flat[:: b.size + 1] += compliance * W.diagonal().mean()
            found = contacts(soft, b, mu, friction_offset, self.directions, start, self.tolerance, self.max_iterations)
            iterations += found.iterations
            # the velocity that the compliance adds must not show in the residual
            hidden = np.abs((soft - W) @ found.p).max() <= self.tolerance
            if found.status is SolverStatus.CONVERGED and hidden and (accept is None or accept(found.p)):
                return found._replace(iterations=iterations)
        return first._replace(iterations=iterations)
