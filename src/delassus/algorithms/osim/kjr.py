"""KJR: operational-space inertias of links by a sweep from the root, cross blocks joint by joint.

Cost O(n + m² d). Source: Kreutz-Delgado, Jain and Rodriguez 1992; [OS] eqs. 65–69; [EFPA] §V-A.

Deviations: end-effectors have general rows ``K``, applied once at the end. A cross block is propagated from the closest
common ancestor; what several pairs share is computed once, as the recursion (69) implies.
"""

from __future__ import annotations

from functools import cache

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.blocks import ConstraintBlocks
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix


def kjr(problem: Problem) -> Matrix:
    """Delassus matrix (m × m)."""
    ops, tree, ends = problem.ops, problem.tree, problem.all_end_effectors
    body = Articulated(problem)
    supporting = tree.supporting_links([end.link for end in ends])

    # root → leaves: Ω_i = A_i Ω_{p(i)} A_iᵀ + S_i D_i⁻¹ S_iᵀ  ([OS] eq. 67)
    Omega: dict[int, Matrix] = {}
    for i in sorted(supporting):
        Omega[i] = body.joint_inverse_inertia(i)
        if tree.parents[i] != WORLD:
            Omega[i] = ops.sym_add(body.inverse_inertia_to_child(i, Omega[tree.parents[i]]), Omega[i])

    # cross blocks: Ω_{i,j} = A_i Ω_{p(i),j}, from the closest common ancestor outwards  ([OS] eq. 69)
    @cache
    def cross(i: int, j: int) -> Matrix:
        if i == j:
            return Omega[i]
        if i < j:
            return ops.transpose(cross(j, i))
        return body.motions_to_child(i, cross(tree.parents[i], j))

    pairs = [(e, f) for e in range(len(ends)) for f in range(e + 1)]
    pairs = [(e, f) for e, f in pairs if tree.closest_common_ancestor(ends[e].link, ends[f].link) != WORLD]
    ops.mark("inverse inertias", [cross(ends[e].link, ends[f].link) for e, f in pairs])

    # constraint rows on both sides
    G = ConstraintBlocks(problem)
    for e, f in pairs:
        left, right = ends[e].K @ cross(ends[e].link, ends[f].link), ops.transpose(ends[f].K)
        if e == f:
            G.add_own(ends[e].constraint, ops.sym_product(left, right))
        else:
            G.add(ends[e].constraint, ends[f].constraint, left @ right)
    return G.delassus()
