"""PV-OSIMr: force propagators and inverse inertias between branching links only.

Cost O(n + m²). Source: [r2] Algorithm 3, with the corrections of [r1] eqs. 13, 17 (the right factor belongs to *j*) and
line 20 (the lower block is the transpose of the upper one).

Deviations: the propagator of a segment is never computed across a joint on the world, where nothing reads it. A
branching link directly on the world keeps its inverse inertia ``S D⁻¹ Sᵀ`` factorised until a branching link below asks
for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.osim.assemble import EndBlocks
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix


@dataclass(frozen=True, slots=True)
class Segment:
    """From where propagation started (an end-effector or a branching link) to the link that it has reached.

    Attributes
    ----------
    P : (m_e, 6) or (6, 6) matrix
        Propagator of the start's rows to the link reached ([r2] line 4: an end-effector starts from its own rows).
    Omega : (m_e, m_e) or (6, 6) matrix
        Inverse inertia at the start when the link reached is grounded.
    """

    P: Matrix
    Omega: Matrix


def pv_osimr(problem: Problem) -> Matrix:
    """Delassus matrix (m × m)."""
    ops, tree, ends = problem.ops, problem.tree, problem.ends
    body = Articulated(problem)
    branching = tree.branching_links([end.link for end in ends])

    # leaves → root: (P, Ω) from each end-effector or branching link to the next branching link
    travelling: dict[int, tuple[object, Segment]] = {}
    arrived: dict[object, Segment] = {}
    for e, end in enumerate(ends):
        if end.link not in branching:
            m = ops.shape(end.K)[0]
            travelling[end.link] = (("end", e), Segment(end.K, ops.zeros(m, m)))
    for i in tree.leaves_to_root():
        if i in branching:
            travelling[i] = (("branching", i), Segment(ops.eye(6), ops.zeros(6, 6)))
        if i not in travelling:
            continue
        start, segment = travelling.pop(i)
        p = tree.parents[i]
        if p == WORLD and start == ("branching", i):
            continue  # Ω = S D⁻¹ Sᵀ, kept factorised
        Omega = ops.sym_add(segment.Omega, body.joint_quadratic(i, segment.P))
        P = body.rows_to_parent(i, segment.P) if p != WORLD else segment.P
        if p == WORLD or p in branching:
            arrived[start] = Segment(P, Omega)
        else:
            travelling[p] = (start, Segment(P, Omega))
    ops.mark("segments", [part for s in arrived.values() for part in (s.P, s.Omega)])

    # root → leaves over branching links: Ω_{0→b} = Ω_{a→b} + P Ω_{0→a} Pᵀ  ([r2] eq. 18)
    above = tree.closest_branching_above(branching)
    Omega_0: dict[int, Matrix] = {}

    def explicit(b: int) -> Matrix:
        if b not in Omega_0:
            Omega_0[b] = body.joint_inverse_inertia(b)
        return Omega_0[b]

    for b in branching:
        a = above[b]
        if tree.parents[b] == WORLD:
            continue
        Omega_0[b] = arrived["branching", b].Omega
        if a != WORLD:
            P = arrived["branching", b].P
            Omega_0[b] = ops.sym_add(Omega_0[b], ops.sym_product(P @ explicit(a), ops.transpose(P)))

    # towards the root over branching links: K_{a,e} = K_{b,e} P_{a→b}  ([r2] eq. 19)
    K: dict[tuple[int, int], Matrix] = {}
    for e, end in enumerate(ends):
        at = end.link
        if at in branching:
            K[at, e] = end.K
        elif above[at] != WORLD:
            K[above[at], e] = arrived["end", e].P
            at = above[at]
        while at in branching and above[at] != WORLD:
            K[above[at], e] = K[at, e] @ arrived["branching", at].P
            at = above[at]
    ops.mark("propagators to branching links", [*Omega_0.values(), *K.values()])

    # assemble: K_{c,e} Ω_{0→c} K_{c,f}ᵀ at the closest common ancestor c  ([r2] eq. 17, corrected)
    @cache
    def half(c: int, e: int) -> Matrix:
        return body.joint_half(c, K[c, e])

    @cache
    def left(c: int, e: int) -> Matrix:
        return body.joint_scaled(c, half(c, e)) if tree.parents[c] == WORLD else K[c, e] @ Omega_0[c]

    def right(c: int, e: int) -> Matrix:
        return ops.transpose(half(c, e) if tree.parents[c] == WORLD else K[c, e])

    def between(c: int, e: int, f: int) -> Matrix:
        return ops.sym_product(left(c, e), right(c, f)) if e == f else left(c, e) @ right(c, f)

    G = EndBlocks(problem)
    for e, end in enumerate(ends):
        for f in range(e):
            meeting = tree.closest_common_ancestor(end.link, ends[f].link)
            if meeting != WORLD:
                near, far = (e, f) if end.link <= ends[f].link else (f, e)
                G.add(near, far, between(meeting, near, far))
        if end.link in branching:
            G.add(e, e, between(end.link, e, e))
        else:
            own, a = arrived["end", e].Omega, above[end.link]
            G.add(e, e, ops.sym_add(own, between(a, e, e)) if a != WORLD else own)
    result = G.matrix()
    ops.mark("Delassus matrix", [result])
    return result
