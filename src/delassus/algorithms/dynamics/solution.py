"""What a method of forward dynamics returns, on any backend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from delassus.spatial.ops import Matrix, Scalar


def least_pivot(dtype: str) -> float:
    """What `Solution.pivot` has to exceed: errors are round-off over the pivot, and half of the digits are to count."""
    return float(np.sqrt(np.finfo(dtype).eps))


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Accelerations and forces of one problem.

    Attributes
    ----------
    qdd : (nv, 1) matrix
        Joint accelerations.
    forces : (m, 1) matrix
        Constraint forces ``f``, all rows stacked: ``M q̈ + c = τ + Jᵀ f``.
    delassus : (m, m) matrix or None
        ``G = J M⁻¹ Jᵀ`` if the method has it: its rank says whether the solution is unique.
    pivot : scalar or None
        Smallest pivot, relative to its reference scale, of a method that has no ``G``: where it is small,
        another method has to solve.
    unfinished : scalar or None
        How far a fixed number of iterations is from the end: what they could still change, by what rows are asked for,
        squared. Above 1e-16 in float64, another method has to solve.
    """

    qdd: Matrix
    forces: Matrix
    delassus: Matrix | None = None
    pivot: Scalar | None = None
    unfinished: Scalar | None = None
