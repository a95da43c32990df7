"""Small dense linear algebra: LU factorisation with partial pivoting, by rows; sizes of Delassus matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled
from delassus.contact.solvers.double_double import ROUNDING
from delassus.spatial.rotations import Array


@compiled
def factor(A: Array, n: int, order: NDArray[Any]) -> float:
    """Overwrite the leading n × n part of ``A`` by ``L`` and ``U`` and ``order`` by the order of its rows.

    Returns the smallest pivot's size over the largest one's: 0 where ``A`` is singular.
    """
    least, most = np.inf, 0.0
    for k in range(n):
        order[k] = k
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[p, k]):
                p = i
        if p != k:
            order[k], order[p] = order[p], order[k]
            for j in range(n):
                A[k, j], A[p, j] = A[p, j], A[k, j]
        pivot = A[k, k]
        least, most = min(least, abs(pivot)), max(most, abs(pivot))
        if pivot == 0.0:
            return 0.0
        inverse = 1.0 / pivot
        for i in range(k + 1, n):
            if A[i, k] != 0.0:
                L = A[i, k] * inverse
                A[i, k] = L
                for j in range(k + 1, n):
                    A[i, j] -= L * A[k, j]
    return least / most if n else 1.0


@compiled
def substitute(A: Array, n: int, order: NDArray[Any], b: Array, x: Array) -> None:
    """``x = A⁻¹ b`` from what `factor` left; ``x`` must not be ``b``."""
    for i in range(n):
        total = b[order[i]]
        for j in range(i):
            total -= A[i, j] * x[j]
        x[i] = total
    for i in range(n - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, n):
            total -= A[i, j] * x[j]
        x[i] = total / A[i, i]


@compiled
def affine(W: Array, x: Array, b: Array, out: Array) -> None:
    """``out = W x + b``."""
    for i in range(b.size):
        total = 0.0
        for j in range(x.size):
            total += W[i, j] * x[j]
        out[i] = total + b[i]


@compiled
def assign(to: Array, what: Array) -> None:
    """Copy a vector into another."""
    for i in range(to.size):
        to[i] = what[i]


@compiled
def mobilities(W: Array) -> tuple[Array, float]:
    """Mean mobility of each contact (that of all where it has none), and the largest diagonal entry."""
    total, most, omega = 0.0, 0.0, np.empty(W.shape[0] // 3)
    for i in range(omega.size):
        omega[i] = (W[3 * i, 3 * i] + W[3 * i + 1, 3 * i + 1] + W[3 * i + 2, 3 * i + 2]) / 3.0
        total += omega[i]
        for k in range(3):
            most = max(most, W[3 * i + k, 3 * i + k])
    mean = total / omega.size if total > 0.0 else 1.0
    for i in range(omega.size):
        if omega[i] < 1e-12 * mean:
            omega[i] = mean
    return omega, most


@compiled
def rounding(W: Array, r: Array, b: Array) -> float:
    """Bound of the round-off of ``W r + b``: the largest of a row."""
    worst = 0.0
    for i in range(b.size):
        total = abs(b[i])
        for j in range(b.size):
            total += abs(W[i, j] * r[j])
        worst = max(worst, total)
    return ROUNDING * worst
