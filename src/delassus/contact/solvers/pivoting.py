"""Lemke's complementary pivoting on a condensed tableau.

Row ``i`` of the tableau says how basic variable ``i`` depends on those that are not: ``basic = T · (nonbasic, 1)``.
Variables are numbered ``w = 0 … n−1``, ``z = n … 2n−1``, and ``2n`` for the artificial ``z₀`` of
``w = M z + d z₀ + q``. Rows and columns are scaled to ones on the diagonal.

Source: Cottle, Pang, Stone, *The Linear Complementarity Problem*, section 4.4 and, against cycling, 4.9. There, ``q``
is perturbed by ``(ε, ε², …)``; the perturbations of a row are its coefficients of ``w``, signs turned.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled
from delassus.contact.assembly import Indices
from delassus.contact.solvers.linear import affine, factor, substitute
from delassus.spatial.rotations import Array

SOLVED, RAY, LIMIT, TROUBLE = 0, 1, 2, 3
"""How it ended; `delassus.contact.results.STATUSES` in order."""
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
