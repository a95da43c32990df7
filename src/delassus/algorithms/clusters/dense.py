"""Delassus matrix of a robot that loops close, dense: ``J Γ (Γᵀ M Γ)⁻¹ Γᵀ Jᵀ``.

All links are one cluster, whose joints move by ``q̇ = Γ ẏ``; ``M`` is the mass matrix of the tree. Cost O(n³), and
O(m n²) for m rows. It shares the transmission with `efpa` over clusters, and no recursion. Source: Jain 2012.
"""

from __future__ import annotations

from delassus.algorithms.clusters.grouping import Cluster
from delassus.algorithms.clusters.transmission import ClusterLoops
from delassus.algorithms.crba import mass_matrix
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix


def dense_over_loops(problem: Problem) -> Matrix:
    """Delassus matrix (m × m) of the rows of a problem whose loops are closed."""
    ops, (of_loops, independent) = problem.ops, problem.closed
    whole = Cluster(tuple(problem.tree.root_to_leaves()), WORLD, tuple(range(len(of_loops.constraints))))
    W = ClusterLoops(of_loops, whole, independent).W
    ops.new_system()
    return ops.factor(ops.sym_product(ops.transpose(W) @ mass_matrix(problem), W)).quadratic(jacobian(problem) @ W)
