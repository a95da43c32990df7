"""Lemke's method for linear complementarity problems, O(n²) a pivot; the pivoting itself is in `pivoting`.

It ends for every problem: with a solution, or on a ray. Ties are broken lexicographically, so that it does not cycle.
For the matrices of frictional contact (copositive) a ray means that no impulses satisfy the problem, or that round-off
hid them; other starting vectors are tried before it is reported. A solution that misses the tolerance because of
round-off is computed again from its basis, with iterative refinement.

Source: Lemke 1965; Cottle, Pang, Stone, *The Linear Complementarity Problem*, 4.4 and 4.9.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from delassus.compiler.jit.compile import compiled
from delassus.contact.problems import LCP
from delassus.contact.results import STATUSES, Solution, check_request
from delassus.contact.solvers.linear import affine, assign
from delassus.contact.solvers.pivoting import LIMIT, RAY, SOLVED, TROUBLE, from_basis, gap, pivot, scales
from delassus.contact.solvers.pyramids import impulses_of, linear_problem, unknowns
from delassus.spatial.rotations import Array

L = TypeVar("L", bound=LCP)

ATTEMPTS = 4
"""Vectors ``d`` to begin with, one after the other."""
SHARPER = 1e-3
"""Part of the tolerance beyond which the solution is computed again from the basis."""


@compiled
def lemke_kernel(M: Array, q: Array, tolerance: float, limit: int) -> tuple[Array, int, int]:
    """``z``, outcome and number of pivots."""
    n = q.size
    z, least = np.zeros(n), 0.0
    for i in range(n):
        least = min(least, q[i])
    if least >= -tolerance * SHARPER:
        return z, SOLVED, 0
    w, s, d, active, pivots = np.empty(n), np.empty(n), np.ones(n), np.zeros(n, np.bool_), 0
    scales(M, s)
    seed = 0.5
    ended = RAY
    for _ in range(ATTEMPTS):
        outcome, further = pivot(M, q, s, d, limit - pivots, active, z)
        pivots += further
        affine(M, z, q, w)
        residual = gap(z, w)
        if residual > tolerance * SHARPER and outcome == SOLVED:
            better_z, better_w = np.empty(n), np.empty(n)
            sharper = from_basis(M, q, s, active, better_z, better_w)
            if sharper < residual:
                residual = sharper
                assign(z, better_z)
                assign(w, better_w)
        if residual <= tolerance:
            return z, SOLVED, pivots
        if outcome != RAY:
            ended = TROUBLE
        if outcome == LIMIT:
            return z, LIMIT, pivots
        for i in range(n):
            seed += 0.6180339887498949
            seed -= seed >= 1.0
            d[i] = 0.25 + 1.5 * seed
    return z, ended, pivots


@compiled
def lemke_impulses(
    W: Array, b: Array, mu: Array, friction_offset: Array, directions: Array, start: Array, tolerance: float, limit: int
) -> tuple[Array, int, int]:
    """Impulses on pyramids; no pivot is needed if the contact modes of ``start`` still hold."""
    n = mu.size
    M, q = linear_problem(W, b, mu, directions, friction_offset)
    z, active, some = unknowns(W, b, mu, directions, start, friction_offset)
    if some:
        w, s = np.empty(q.size), np.empty(q.size)
        scales(M, s)
        if from_basis(M, q, s, active, z, w) <= tolerance:
            return impulses_of(z, directions, n), SOLVED, 0
    z, outcome, pivots = lemke_kernel(M, q, tolerance, limit)
    return impulses_of(z, directions, n), outcome, pivots


def lemke(problem: L, *, tolerance: float = 1e-8, max_iterations: int = 10000) -> Solution[L]:
    """Solve a linear complementarity problem by Lemke's method.

    Parameters
    ----------
    problem : LCP
    tolerance : float
        Of `LCP.residual`, in the units of ``z`` and ``w``.
    max_iterations : int
        Pivots.

    Raises
    ------
    ConfigurationError
        Another kind of problem; a tolerance or limit that is not positive.

    References
    ----------
    Cottle, Pang, Stone, algorithm 4.4.5 and section 4.9.

    Examples
    --------
    >>> from delassus.contact.problems import LCP
    >>> lemke(LCP([[2, 1], [1, 2]], [-5, -6])).values.round(6).tolist()
    [1.333333, 2.333333]
    >>> lemke(LCP([[-1]], [-1])).status.name
    'RAY_TERMINATION'
    """
    advice = "Of a ConeProblem, pass polyhedral(); for equality rows, solve_mixed."
    check_request(problem, LCP, advice, tolerance, max_iterations)
    z, outcome, pivots = lemke_kernel(problem.M, problem.q, float(tolerance), int(max_iterations))
    return Solution(problem, z, STATUSES[outcome], pivots)
