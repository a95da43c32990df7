"""PV-OSIMr over clusters: the Delassus matrix of rows on a mechanism that loops close, by propagators between meetings.

Rows of two end-effectors meet on a link that both come to, or in a cluster: one that they come to by links of their
own, or that is on the world. With ``K°`` and ``R`` of `efpa`, a cluster passes rows on by ``L ← L + R D⁻¹ Rᵀ`` and
``K ← K° − R D⁻¹ Uᵀ``. From each link where rows meet, rows ``K = 1`` go on in their place, as in `pv_osimr`:

- root → leaves ``Ω_b = Ω_{a→b} + P Ω_a Pᵀ``;
- towards the root ``K_{a,e} = K_{b,e} P_{a→b}``, in a cluster ``Z`` with ``Z_e Δ Z_fᵀ = R_e D⁻¹ R_fᵀ``;
- ``G_ef = K_e Ω K_fᵀ`` on the link, or ``Z_e Δ Z_fᵀ`` in the cluster and ``K_e Ω K_fᵀ`` on the link below.

Without loops it is that algorithm. Cost O(n + m²) where clusters are small. Sources: [r2] Algorithm 3; for clusters
Chignoli, Adrian, Kim, Wensing, arXiv 2311.13732. Neither has both.
"""

from __future__ import annotations

from functools import cache

from delassus.algorithms.blocks import ConstraintBlocks
from delassus.algorithms.clusters.articulated import ArticulatedClusters
from delassus.algorithms.clusters.grouping import Cluster
from delassus.algorithms.osim.pv import Stack, to_parent
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix

Node = int | Cluster
"""Where rows meet: a link, or a cluster."""


def cluster_pv_osimr(problem: Problem) -> Matrix:
    """Delassus matrix (m × m)."""
    ops, ends = problem.ops, problem.all_end_effectors
    body = ArticulatedClusters(problem, *problem.closed)
    of, entered = body.of, [_entered(body, end.link) for end in ends]
    meetings = {(e, f): _meeting(body, entered[e], entered[f]) for e in range(len(ends)) for f in range(e)}
    nodes = {x for found in meetings.values() for x in found}

    def node(i: int) -> Node | None:
        """Where rows on a link end their way: there, in its cluster on the world, or neither."""
        if i == WORLD or i in nodes:
            return i if i in nodes else None
        return of[i] if of[i] in nodes and of[i].parent == WORLD else None

    def segment(i: int, stack: Stack, starts: bool = False) -> tuple[int, Stack, dict[Node, Matrix]]:
        """The first node's link at or below link i, or the world; there ``P`` as K, ``Ω`` as L; ``Z`` on the way."""
        Z = dict[Node, Matrix]()
        while i != WORLD and (starts or node(i) is None):
            if of[i] in nodes:
                Z[of[i]] = body.joint_half(i, stack.K)
            i, stack, starts = of[i].parent, to_parent(problem, body, i, stack), False
        return i, stack, Z

    # leaves → root: P and Ω of each end-effector and link where rows meet, to the next node
    sizes = [problem.constraints[end.constraint].size for end in ends]
    of_end = [segment(end.link, Stack((), end.K, ops.zeros(m, m))) for end, m in zip(ends, sizes, strict=True)]
    start = Stack((), ops.eye(6), ops.zeros(6, 6))
    of_link = {b: segment(b, start, starts=True) for b in of if b in nodes}
    ops.mark("segments", [part for _, s, _ in (*of_end, *of_link.values()) for part in (s.K, s.L)])

    # root → leaves: Ω_{0→b} = Ω_{a→b} + P Ω_{0→a} Pᵀ
    Omega: dict[Node, Matrix] = {x: body.joint_diagonal(x.links[0]) for x in body.clusters if x in nodes}
    for b, (a, s, _) in of_link.items():
        Omega[b] = s.L
        if a != WORLD:
            if a not in Omega:
                Omega[a] = body.joint_quadratic(a, start.K)
            Omega[b] = ops.sym_add(s.L, ops.sym_product(s.K @ Omega[a], ops.transpose(s.K)))

    # towards the root: K_{a,e} = K_{b,e} P_{a→b}, and Z of clusters
    K = dict[tuple[Node, int], Matrix]()
    for e, (i, s, Z) in enumerate(of_end):
        rows = s.K
        K |= {(x, e): z for x, z in Z.items()}
        while i in of_link:
            K[i, e] = rows
            i, s, Z = of_link[i]
            K |= {(x, e): rows @ z for x, z in Z.items()}
            rows = rows @ s.K if i != WORLD else rows
        if i != WORLD:
            K[of[i], e] = body.joint_half(i, rows)
    ops.mark("propagators to nodes", [*Omega.values(), *K.values()])

    @cache
    def KOmega(x: Node, e: int) -> Matrix:
        return K[x, e] @ Omega[x]

    # K_e Ω K_fᵀ, and Z_e Δ Z_fᵀ, where two meet
    G = ConstraintBlocks(problem)
    first = [node(i) for i, _, _ in of_end]
    for e, (_, s, _) in enumerate(of_end):
        own, x = s.L, first[e]
        if x is not None:
            own = ops.sym_add(own, ops.sym_product(KOmega(x, e), ops.transpose(K[x, e])))
        G.add_own(ends[e].constraint, own)
    for (e, f), found in meetings.items():
        for x in found:
            # K Ω is there of an end-effector whose first node this is
            near, far = (e, f) if (first[e] != x, ends[e].link) <= (first[f] != x, ends[f].link) else (f, e)
            G.add(ends[near].constraint, ends[far].constraint, KOmega(x, near) @ ops.transpose(K[x, far]))
    return G.delassus()


def _entered(body: ArticulatedClusters, link: int) -> dict[Cluster, int]:
    """Clusters that rows on a link pass through, and the links that they come to, leaves → root."""
    found = dict[Cluster, int]()
    while link != WORLD:
        found[body.of[link]] = link
        link = body.of[link].parent
    return found


def _meeting(body: ArticulatedClusters, one: dict[Cluster, int], other: dict[Cluster, int]) -> list[Node]:
    """The first link that two come to, or the first cluster and the link below it; on the world clusters only."""
    cluster = next((x for x in one if x in other), None)
    if cluster is None:
        return []
    link = cluster.parent
    if link != WORLD and one[cluster] == other[cluster]:
        return [one[cluster]]
    own: list[Node] = [cluster] if body.moves(cluster) else []
    if link == WORLD or body.of[link].parent != WORLD:
        return own if link == WORLD else [*own, link]
    return [*own, body.of[link]] if body.moves(body.of[link]) else own
