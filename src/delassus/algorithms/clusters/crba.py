"""Composite-rigid-body algorithm over clusters: the mass matrix ``Gᵀ M G`` of independent coordinates of loops.

In a cluster ``M = Sᵀ Hᶜ S`` of its spanning tree, and ``F`` on the link below, by joints; ``Wᵀ M W`` is its own block.
``F W``, a column for each independent coordinate, goes on to the root and meets the joints of clusters on the way.
Cost O(n_y d) of n_y independent coordinates. Source: Jain 2012; Featherstone, table 6.2, inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from delassus.algorithms.blocks import symmetric
from delassus.algorithms.clusters.grouping import Cluster
from delassus.algorithms.clusters.transmission import ClusterLoops
from delassus.algorithms.crba import composite_inertias, momenta_of
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix


def spanning_tree(problem: Problem, cluster: Cluster, momenta: Callable[[int], Matrix]) -> tuple[Matrix, Matrix]:
    """``M`` (k × k) of the joints of a cluster, and ``F`` (6 × k) on the link below, zero of a cluster on the world.

    ``momenta`` are ``Hᶜ_i S_i`` (6 × n_i) of a link with all that it carries.
    """
    ops, X, tree, at = problem.ops, problem.X, problem.tree, cluster.links.index
    blocks, F = dict[tuple[int, int], Matrix](), dict[int, Matrix]()

    # leaves → root: F = Hᶜ_i S_i, M_ii = Sᵀ F, and up the support F ← X_jᵀ F, M_ij = Fᵀ S_j
    for i in cluster.links:
        j, joint, F[i] = i, tree.joints[i], momenta(i)
        own = joint.across(ops, F[i])
        blocks[at(i), at(i)] = ops.sym_add(own, ops.constant(np.diag(joint.armature))) if joint.armature.any() else own
        while tree.parents[j] != cluster.parent:
            j, F[i] = tree.parents[j], X[j].forces_to_parent(F[i])
            blocks[at(i), at(j)] = ops.transpose(tree.joints[j].across(ops, F[i]))
        F[i] = ops.zeros(*ops.shape(F[i])) if cluster.parent == WORLD else X[j].forces_to_parent(F[i])
    return symmetric(ops, [tree.joints[i].nv for i in cluster.links], blocks), ops.hstack([*F.values()])


def reduced_mass_matrix(problem: Problem, parts: Sequence[ClusterLoops]) -> Matrix:
    """``Gᵀ M G`` (n × n), independent coordinates in the order of clusters."""
    ops, tree, composite = problem.ops, problem.tree, problem.once(composite_inertias)
    number = {i: k for k, part in enumerate(parts) for i in part.cluster.links}
    blocks: dict[tuple[int, int], Matrix] = {}
    for k, part in enumerate(parts):
        if not part.free:
            continue
        M, F = spanning_tree(problem, part.cluster, lambda i: momenta_of(ops, composite[i], tree.joints[i]))
        blocks[k, k] = ops.sym_product(ops.transpose(part.W), M @ part.W)

        # up the support: Sᵀ F W of joints of other clusters, F ← X_jᵀ F
        F, j, met = F @ part.W, part.cluster.parent, dict[int, dict[int, Matrix]]()
        while j != WORLD:
            met.setdefault(number[j], {})[j] = tree.joints[j].across(ops, F)
            F, j = F if tree.parents[j] == WORLD else problem.X[j].forces_to_parent(F), tree.parents[j]
        for other, rows in met.items():
            links, width = parts[other].cluster.links, len(part.free)
            along = ops.vstack([rows.get(i, ops.zeros(tree.joints[i].nv, width)) for i in links])
            blocks[k, other] = ops.transpose(along) @ parts[other].W
    return symmetric(ops, [len(part.free) for part in parts], blocks)
