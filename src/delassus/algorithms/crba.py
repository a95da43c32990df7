"""Joint-space mass matrix by the composite-rigid-body algorithm.

Cost O(n d). Source: Featherstone, Rigid Body Dynamics Algorithms, table 6.2, in link frames. No deviations; armature is
added to the diagonal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from delassus.algorithms.blocks import symmetric
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.joints import Joint
from delassus.spatial.ops import Matrix, Ops


def composite_inertias(problem: Problem) -> list[Any]:
    """Inertia of each link with all that it carries, as it moves rigidly."""
    ops, tree = problem.ops, problem.tree
    composite = [ops.rigid_inertia(H) for H in problem.inertias]

    # leaves → root: Iᶜ_p += X_iᵀ Iᶜ_i X_i
    for i in tree.leaves_to_root():
        if (p := tree.parents[i]) != WORLD:
            composite[p] = composite[p] + composite[i].to_parent(problem.X[i])
    return composite


def momenta_of(ops: Ops, H: Any, joint: Joint) -> Matrix:
    """``H S`` (6 × n_i) of a composite inertia."""
    if joint.subspace_is_axes:
        columns: Matrix = H.columns(joint.motion_axes)
        return columns
    return joint.columns(ops, H.columns(range(6)))


def mass_matrix_blocks(problem: Problem) -> dict[tuple[int, int], Matrix]:
    """Blocks (n_i × n_j) of the mass matrix for every link i and every link j on its support, i itself included."""
    ops, tree, X = problem.ops, problem.tree, problem.X
    composite = problem.once(composite_inertias)
    blocks: dict[tuple[int, int], Matrix] = {}

    # leaves → root: F = Iᶜ_i S_i, H_ii = S_iᵀ F, and up the support F ← X_jᵀ F, H_ij = Fᵀ S_j
    for i in tree.leaves_to_root():
        joint = tree.joints[i]
        F = momenta_of(ops, composite[i], joint)
        own = joint.across(ops, F)
        if np.any(joint.armature):
            own = ops.sym_add(own, ops.constant(np.diag(joint.armature)))
        blocks[i, i] = own
        j = i
        while tree.parents[j] != WORLD:
            F = X[j].forces_to_parent(F)
            j = tree.parents[j]
            blocks[i, j] = ops.transpose(tree.joints[j].across(ops, F))
    ops.mark("mass matrix", list(blocks.values()))
    return blocks


def mass_matrix(problem: Problem) -> Matrix:
    """Mass matrix ``M`` (nv × nv)."""
    return symmetric(problem.ops, [joint.nv for joint in problem.tree.joints], problem.once(mass_matrix_blocks))
