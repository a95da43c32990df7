"""Lemke's method for linear complementarity problems, O(n²) a pivot: complementary pivoting on a condensed tableau.

It ends for every problem: with a solution, or on a ray. Ties are broken lexicographically, so that it does not cycle.
For the matrices of frictional contact (copositive) a ray means that no impulses satisfy the problem, or that round-off
hid them; other starting vectors are tried before it is reported. A solution that misses the tolerance because of
round-off is computed again from its basis, with iterative refinement.

Row ``i`` of the tableau says how basic variable ``i`` depends on those that are not: ``basic = T · (nonbasic, 1)``.
Variables are numbered ``w = 0 … n−1``, ``z = n … 2n−1``, and ``2n`` for the artificial ``z₀`` of
``w = M z + d z₀ + q``. Rows and columns are scaled to ones on the diagonal.

Source: Lemke 1965; Cottle, Pang, Stone, *The Linear Complementarity Problem*, 4.4 and, against cycling, 4.9. There,
``q`` is perturbed by ``(ε, ε², …)``; the perturbations of a row are its coefficients of ``w``, signs turned.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled
from delassus.solvers.linear import Indices, affine, assign, factor, substitute
from delassus.solvers.problems import LCP
from delassus.solvers.pyramids import impulses_of, linear_problem, unknowns
from delassus.solvers.results import STATUSES, Solution, check_request
from delassus.spatial.rotations import Array

SOLVED, RAY, LIMIT, TROUBLE = 0, 1, 2, 3
"""How it ended; `delassus.solvers.results.STATUSES` in order."""
PIVOT = 1e-10
"""Smallest entry to pivot on, of a matrix scaled to have ones on its diagonal."""
TIE = 1e-12
"""Ratios this near to each other are one."""


@compiled
def scales(M: Array, s: Array) -> None:
    """Factors that give ``diag(s) M diag(s)`` a diagonal of ones, and other rows entries up to one."""
    n = s.size
    for i in range(n):
        s[i] = 1.0 / np.sqrt(M[i, i]) if M[i, i] > 0.0 else 0.0
    for i in range(n):
        if s[i] == 0.0:
            most = 0.0
            for j in range(n):
                if M[j, j] > 0.0:
                    most = max(most, abs(M[i, j]) * s[j], abs(M[j, i]) * s[j])
            s[i] = -1.0 / most if most > 0.0 else -1.0
    for i in range(n):
        s[i] = abs(s[i])


@compiled
def precedes(T: Array, i: int, k: int, c: int, n: int, row_of: Indices, column_of: Indices) -> bool:
    """Whether row ``i`` is lexicographically smaller than row ``k``, each over its entry in column ``c``."""
    a, b = -1.0 / T[i, c], -1.0 / T[k, c]
    for j in range(n):
        column = column_of[j]
        if column >= 0:
            left, right = -T[i, column] * a, -T[k, column] * b
        else:
            left, right = a * (row_of[j] == i), b * (row_of[j] == k)
        if abs(left - right) > TIE * (1.0 + abs(left) + abs(right)):  # what should be zero is round-off
            return bool(left < right)
    return False


@compiled
def exchange(T: Array, r: int, c: int) -> None:
    """Make the basic variable of row ``r`` and the one of column ``c`` change places."""
    rows, columns = T.shape
    inverse = 1.0 / T[r, c]
    pivot_row = T[r]
    for j in range(columns):
        pivot_row[j] *= -inverse
    pivot_row[c] = 0.0
    for i in range(rows):
        f = T[i, c]
        if f != 0.0 and i != r:
            row = T[i]
            for j in range(columns):
                row[j] += f * pivot_row[j]
            row[c] = f * inverse
    pivot_row[c] = inverse


@compiled
def pivot(M: Array, q: Array, s: Array, d: Array, limit: int, active: NDArray[np.bool_], z: Array) -> tuple[int, int]:
    """Follow Lemke's path from ``d``; returns how it ended and the number of pivots, and sets the basis and ``z``."""
    n = q.size
    T, ratios = np.empty((n, (n + 2 + 7) // 8 * 8)), np.empty(n)
    size = 0.0
    for i in range(n):
        size = max(size, abs(q[i]) * s[i])
    for i in range(n):
        for j in range(n):
            T[i, j] = s[i] * M[i, j] * s[j]
        T[i, n], T[i, n + 1] = d[i], s[i] * q[i] / size
        for j in range(n + 2, T.shape[1]):
            T[i, j] = 0.0
    basic, column = np.arange(n), np.arange(n + 1)
    row_of, column_of = np.full(2 * n + 1, -1), np.full(2 * n + 1, -1)
    for i in range(n + 1):
        column[i] += n
    for i in range(n):
        row_of[i] = i
        column_of[n + i] = i
    column_of[2 * n] = n
    # z₀ comes in, as large as the worst row needs it
    r = 0
    for i in range(n):
        if T[i, n + 1] / d[i] <= T[r, n + 1] / d[r]:
            r = i
    c, pivots, outcome = n, 0, LIMIT
    while pivots < limit:
        leaving, entering = basic[r], column[c]
        exchange(T, r, c)
        pivots += 1
        basic[r], column[c] = entering, leaving
        row_of[entering], column_of[entering] = r, -1
        row_of[leaving], column_of[leaving] = -1, c
        if leaving == 2 * n:
            outcome = SOLVED
            break
        c = column_of[leaving - n if leaving >= n else leaving + n]
        # the ratio test
        least, r = np.inf, -1
        for i in range(n):
            ratios[i] = max(T[i, n + 1], 0.0) / -T[i, c] if T[i, c] < -PIVOT else np.inf
            least = min(least, ratios[i])
        if least == np.inf:
            outcome = RAY
            break
        margin = least + TIE * (1.0 + least)
        for i in range(n):
            if ratios[i] <= margin and (
                r < 0 or basic[i] == 2 * n or (basic[r] != 2 * n and precedes(T, i, r, c, n, row_of, column_of))
            ):
                r = i
    for i in range(n):
        active[i] = row_of[n + i] >= 0
        z[i] = max(T[row_of[n + i], n + 1], 0.0) * s[i] * size if active[i] else 0.0
    return outcome, pivots


@compiled
def gap(z: Array, w: Array) -> float:
    """``max |min(z, w)|``; NaN counts as infinite."""
    worst = 0.0
    for i in range(z.size):
        here = abs(min(z[i], w[i]))
        if not here <= worst:
            worst = here
        if not worst < np.inf or z[i] != z[i]:
            return np.inf
    return worst


@compiled
def from_basis(M: Array, q: Array, s: Array, active: NDArray[np.bool_], z: Array, w: Array) -> float:
    """Compute the solution again that has ``w = 0`` where active and ``z = 0`` elsewhere; returns its `gap`."""
    n, m = q.size, 0
    rows = np.empty(n, np.int64)
    for i in range(n):
        if active[i]:
            rows[m] = i
            m += 1
    B, order = np.empty((m, m)), np.empty(m, np.int64)
    for i in range(m):
        for j in range(m):
            B[i, j] = s[rows[i]] * M[rows[i], rows[j]] * s[rows[j]]
    if factor(B, m, order) == 0.0:
        return np.inf
    z[:] = 0.0
    right, step = np.empty(m), np.empty(m)
    for _ in range(2):  # the second time is iterative refinement
        affine(M, z, q, w)
        for i in range(m):
            right[i] = -w[rows[i]] * s[rows[i]]
        substitute(B, m, order, right, step)
        for i in range(m):
            z[rows[i]] += step[i] * s[rows[i]]
    for i in range(n):
        z[i] = max(z[i], 0.0)
    affine(M, z, q, w)
    return gap(z, w)


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
    >>> from delassus.contact import LCP
    >>> lemke(LCP([[2, 1], [1, 2]], [-5, -6])).values.round(6).tolist()
    [1.333333, 2.333333]
    >>> lemke(LCP([[-1]], [-1])).status.name
    'RAY_TERMINATION'
    """
    advice = "Of a ConeProblem, pass polyhedral(); for equality rows, solve_mixed."
    check_request(problem, LCP, advice, tolerance, max_iterations)
    z, outcome, pivots = lemke_kernel(problem.M, problem.q, float(tolerance), int(max_iterations))
    return Solution(problem, z, STATUSES[outcome], pivots)
