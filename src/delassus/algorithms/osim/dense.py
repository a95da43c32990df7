"""Delassus matrix by its definition, ``G = J M⁻¹ Jᵀ`` with a dense factorisation of ``M``.

Cost O(n³ + m² n). Assumes nothing. Source: the definition ([LQR] eq. 5); this is the oracle of the other methods.
"""

from __future__ import annotations

from delassus.algorithms.crba import mass_matrix
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.problem import Problem
from delassus.spatial.ops import Matrix


def dense(problem: Problem) -> Matrix:
    """Delassus matrix (m × m)."""
    ops, m = problem.ops, problem.n_rows
    M, J = mass_matrix(problem), jacobian(problem)
    G = ops.factor(M).quadratic(J) if problem.tree.nv else ops.zeros(m, m)
    ops.mark("Delassus matrix", [G])
    return G
