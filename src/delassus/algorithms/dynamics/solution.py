"""What a method of forward dynamics returns, on any backend."""

from __future__ import annotations

from dataclasses import dataclass

from delassus.spatial.ops import Matrix


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
    """

    qdd: Matrix
    forces: Matrix
    delassus: Matrix | None = None
