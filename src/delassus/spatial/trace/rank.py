"""Rank of a matrix of numbers with errors."""

from __future__ import annotations

from typing import Any

import numpy as np

RANK_TOLERANCE = 1e-9
"""Singular values of matrices of unit rows and columns that count: far above round-off, also where that is squared."""


def rank_of(a: Any, errors: Any) -> int:
    """Rank of a matrix (m, n), whose rows and columns may have different units, by bounds on its entries' errors."""
    a = np.where(np.abs(a) > errors, a, 0.0)  # also what is not a number
    for axis in (-1, -2):
        size = np.linalg.norm(a, axis=axis, keepdims=True)
        size = np.where(size > 0, size, 1.0)
        a, errors = a / size, errors / size
    least = max(RANK_TOLERANCE, float(np.linalg.norm(errors)))
    return int(np.linalg.matrix_rank(a, tol=least)) if a.size else 0
