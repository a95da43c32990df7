"""Small dense linear algebra: LU factorisation with partial pivoting, by rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled
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
