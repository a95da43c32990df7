"""EFPA over clusters: the Delassus matrix of rows on a mechanism that loops close, ``J G (Gᵀ M G)⁻¹ Gᵀ Jᵀ``.

Rows ``K`` of an end-effector on a link of a cluster become, on its way to the link below, rows ``K°`` on that link as
if no joint moved, and ``R = K S W`` on the cluster's independent coordinates:

- leaves → root ``K_p = K° − R D⁻¹ Uᵀ``;
- root → leaves, for forces of other rows ``e``, ``ÿ_e = D⁻¹ (R_eᵀ − Uᵀ Λ_p,e)``, and ``Λ_i,e`` by joints at ``W ÿ_e``;
- at the first cluster that two meet in, ``G_fe = K°_f Λ_p,e + R_f ÿ_e``.

A joint that no loop ties is passed as in `efpa`. Without loops it is that algorithm. Cost O(n + m d + m²), d clusters
deep. Source: Chignoli, Adrian, Kim, Wensing, arXiv 2311.13732v1, on EFPA; [EFPA] table I.
"""

from __future__ import annotations

from dataclasses import dataclass

from delassus.algorithms.blocks import ConstraintBlocks
from delassus.algorithms.clusters.articulated import ArticulatedClusters, TiedCluster
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix


@dataclass(frozen=True, slots=True, eq=False)
class PassedRows:
    """Rows of an end-effector in a cluster: the link that they come to, ``K`` there, ``K°`` and ``R``."""

    link: int
    K: Matrix
    rigid: Matrix
    R: Matrix


def cluster_efpa(problem: Problem) -> Matrix:
    """Delassus matrix (m × m)."""
    ops, tree, ends = problem.ops, problem.tree, problem.all_end_effectors
    body = ArticulatedClusters(problem, *problem.closed)
    first = {i: cluster.links[0] for cluster in body.clusters for i in cluster.links}

    # leaves → root: K_p = K° − R D⁻¹ Uᵀ
    passed = list[dict[int, PassedRows]]()  # from the root on
    for end in ends:
        link, K, found = end.link, end.K, dict[int, PassedRows]()
        while link != WORLD:
            c = first[link]
            own = body.tied.get(c)
            if own is None:
                found[c] = PassedRows(link, K, K, body.at_joint(link, K))
                K = body.rows_to_parent(link, K) if tree.parents[link] != WORLD else K
            else:
                found[c] = PassedRows(link, K, *body.through(link, K))
                K = own.rows_below(ops, found[c].rigid, found[c].R)
            link = tree.parents[c]
        passed.append(dict(reversed(found.items())))
    ops.mark("force propagators", [x.K for found in passed for x in found.values()])

    # root → leaves: ÿ_e = D⁻¹ (R_eᵀ − Uᵀ Λ_p,e), and links at W ÿ_e
    Lambda: dict[tuple[int, int], Matrix] = {}  # by link that rows come to, and end-effector
    below: dict[tuple[int, int], Matrix] = {}  # of the link that a cluster hangs from
    ydd: dict[tuple[int, int], Matrix] = {}
    for e, found in enumerate(passed):
        moved = ops.zeros(6, ops.shape(ends[e].K)[0])
        for c, x in found.items():
            below[c, e] = moved
            own = body.tied.get(c)
            if own is None:
                moved = body.motions_to_child(c, moved) if tree.parents[c] != WORLD else moved
                moved = moved + body.joint_response(c, ops.transpose(x.K))
            else:
                ydd[c, e] = own.D.solve(ops.transpose(x.R) - ops.transpose(own.U) @ moved)
                moved = _carried(problem, own, x.link, moved, own.loops.W @ ydd[c, e])
            Lambda[c, e] = moved

    # blocks at the first cluster that both are in: G_fe = K°_f Λ_p,e + R_f ÿ_e
    G = ConstraintBlocks(problem)
    for e, end in enumerate(ends):
        G.add_own(end.constraint, ops.sym_product(end.K, Lambda[first[end.link], e]))
        for f in range(e):
            common = [c for c in passed[e] if c in passed[f]]
            if common:
                c, (near, far) = common[-1], (e, f) if end.link <= ends[f].link else (f, e)
                x = passed[near][c]
                block = x.K @ Lambda[c, far]
                if c in body.tied:
                    block = x.rigid @ below[c, far] + x.R @ ydd[c, far]
                G.add(ends[near].constraint, ends[far].constraint, block)
    return G.delassus()


def _carried(problem: Problem, own: TiedCluster, link: int, moved: Matrix, qdd: Matrix) -> Matrix:
    """Accelerations of a link of a cluster, of those of the link below and of its joints (k × columns)."""
    ops, tree, start = problem.ops, problem.tree, 0
    at = dict[int, range]()
    for i in own.links:
        at[i] = range(start, start + tree.joints[i].nv)
        start = at[i].stop
    for i in (i for i in tree.support(link) if i in at):
        moved = problem.X[i].motions_to_child(moved) if tree.parents[i] != WORLD else moved
        moved = moved + tree.joints[i].along(ops, ops.take(qdd, at[i], None))
    return moved
