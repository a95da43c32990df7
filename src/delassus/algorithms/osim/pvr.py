"""PV-OSIMr: force propagators and inverse inertias between branching links only.

Cost O(n + m²). Source: [r2] Algorithm 3, with the corrections of [r1] eqs. 13, 17 (the right factor belongs to *j*) and
line 20 (the lower block is the transpose of the upper one).

Deviations: the propagator of a segment is never computed across a joint on the world, where nothing reads it. A
branching link on the world keeps ``Ω = S D⁻¹ Sᵀ`` in factors, ``K Ω K'ᵀ = Z Δ Z'ᵀ`` with a diagonal ``Δ``.
"""

from __future__ import annotations

from functools import cache

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.blocks import ConstraintBlocks
from delassus.algorithms.osim.pv import Stack, to_parent
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix


def pv_osimr(problem: Problem) -> Matrix:
    """Delassus matrix (m × m)."""
    ops, tree, ends = problem.ops, problem.tree, problem.all_end_effectors
    body = Articulated(problem)
    branching = tree.branching_links([end.link for end in ends])

    def segment(i: int, stack: Stack) -> tuple[int, Stack]:
        """The first branching link at or above link i, or the world; and there ``P`` as K, ``Ω`` as L."""
        while i != WORLD and i not in branching:
            i, stack = tree.parents[i], to_parent(problem, body, i, stack)
        return i, stack

    # leaves → root: P and Ω of each end-effector (from its rows: line 4) and branching link, to the next branching link
    sizes = [problem.constraints[end.constraint].size for end in ends]
    of_end = [segment(end.link, Stack((), end.K, ops.zeros(m, m))) for end, m in zip(ends, sizes, strict=True)]
    start = Stack((), ops.eye(6), ops.zeros(6, 6))
    inner = [b for b in branching if tree.parents[b] != WORLD]
    of_link = {b: segment(tree.parents[b], to_parent(problem, body, b, start)) for b in inner}
    ops.mark("segments", [part for _, s in (*of_end, *of_link.values()) for part in (s.K, s.L)])

    # root → leaves over branching links: Ω_{0→b} = Ω_{a→b} + P Ω_{0→a} Pᵀ  ([r2] eq. 18)
    Omega: dict[int, Matrix] = {}
    for b, (a, s) in of_link.items():
        Omega[b] = s.L
        if a != WORLD:
            if a not in Omega:
                Omega[a] = body.joint_inverse_inertia(a)
            Omega[b] = ops.sym_add(s.L, ops.sym_product(s.K @ Omega[a], ops.transpose(s.K)))

    # towards the root over branching links: K_{a,e} = K_{b,e} P_{a→b}  ([r2] eq. 19)
    K: dict[tuple[int, int], Matrix] = {}
    for e, (c, s) in enumerate(of_end):
        rows = s.K
        while c in of_link:
            K[c, e] = rows
            c, s = of_link[c]
            rows = rows @ s.K if c != WORLD else rows
        if c != WORLD:
            K[c, e] = body.joint_half(c, rows)  # Z
            Omega[c] = body.joint_diagonal(c)  # Δ
    ops.mark("propagators to branching links", [*Omega.values(), *K.values()])

    @cache
    def KOmega(c: int, e: int) -> Matrix:
        return K[c, e] @ Omega[c]

    # K_{c,e} Ω_{0→c} K_{c,f}ᵀ at the closest common ancestor c  ([r2] eq. 17, corrected)
    G = ConstraintBlocks(problem)
    for e, (c, s) in enumerate(of_end):
        own = s.L
        if c != WORLD:
            own = ops.sym_add(own, ops.sym_product(KOmega(c, e), ops.transpose(K[c, e])))
        G.add_own(ends[e].constraint, own)
        for f in range(e):
            meeting = tree.closest_common_ancestor(ends[e].link, ends[f].link)
            if meeting != WORLD:
                # K Ω is there of an end-effector whose first branching link this is
                near, far = sorted((e, f), key=lambda x: (of_end[x][0] != meeting, ends[x].link))
                block = KOmega(meeting, near) @ ops.transpose(K[meeting, far])
                G.add(ends[near].constraint, ends[far].constraint, block)
    return G.delassus()
