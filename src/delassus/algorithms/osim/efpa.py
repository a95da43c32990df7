"""EFPA: the extended-force-propagator algorithm.

Cost O(n + m d + m²). Source: [EFPA] table I; [r2] Algorithm 2.

Deviations: rows ``K_e`` take the place of the end-effectors' own coordinates. Of a pair, ``K`` is taken of the end with
the lower link number, whatever the order of the constraints: it may sit on the common ancestor itself, where ``K`` is
its own. Several end-effectors on one link are propagated separately, as in the paper.
"""

from __future__ import annotations

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.blocks import ConstraintBlocks
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix


def efpa(problem: Problem) -> Matrix:
    """Delassus matrix (m × m)."""
    ops, tree, ends = problem.ops, problem.tree, problem.all_end_effectors
    body = Articulated(problem)

    # leaves → root: extended force propagators K_{i,e}  ([EFPA] eq. 11)
    K: dict[tuple[int, int], Matrix] = {}
    for e, end in enumerate(ends):
        K[end.link, e] = end.K
        for i in reversed(tree.support(end.link)[1:]):
            K[tree.parents[i], e] = body.rows_to_parent(i, K[i, e])
    ops.mark("force propagators", list(K.values()))

    # root → leaves: Λ_{i,e} = A_i Λ_{p(i),e} + S_i D_i⁻¹ S_iᵀ K_{i,e}ᵀ  ([EFPA] eq. 13)
    Lambda: dict[tuple[int, int], Matrix] = {}
    for e, end in enumerate(ends):
        for i in tree.support(end.link):
            p = tree.parents[i]
            Lambda[i, e] = body.joint_response(i, ops.transpose(K[i, e]))
            if p != WORLD:
                Lambda[i, e] = body.motions_to_child(i, Lambda[p, e]) + Lambda[i, e]

    # blocks at the closest common ancestor  ([EFPA] eq. 14)
    G = ConstraintBlocks(problem)
    for e, end in enumerate(ends):
        G.add_own(end.constraint, ops.sym_product(end.K, Lambda[end.link, e]))
        for f in range(e):
            meeting = tree.closest_common_ancestor(end.link, ends[f].link)
            if meeting != WORLD:
                near, far = (e, f) if end.link <= ends[f].link else (f, e)
                G.add(ends[near].constraint, ends[far].constraint, K[meeting, near] @ Lambda[meeting, far])
    return G.delassus()
