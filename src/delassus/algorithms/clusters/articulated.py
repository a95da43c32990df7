"""The articulated-body sweep over clusters: all that hangs from a link moves by the independent coordinates of loops.

Links of a cluster move with their spanning tree: with the composite inertias ``Hᶜ`` of what hangs from each inside, and
the joints' ``S``, its mass matrix is ``M = Sᵀ Hᶜ S``, and ``F`` the forces on the link below that accelerations of its
joints ask for. Loops leave ``q̇ = W ẏ`` of them:

    D = Wᵀ M W,    U = F W,    Hᴬ_p += Σ Xᵀ Hᶜ X − U D⁻¹ Uᵀ,

the sum over links on the link ``p`` below. A joint that no loop ties is eliminated as in `Articulated`. Cost O(n) where
clusters are small, O(k²) for one of k links. Source: Chignoli, Adrian, Kim, Wensing, arXiv 2311.13732, IV; Jain 2012.
Deviations: ``S_c = S_span W`` of a cluster is not formed: composite inertias of the spanning tree take its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.clusters.crba import spanning_tree
from delassus.algorithms.clusters.grouping import Cluster, clusters
from delassus.algorithms.clusters.transmission import ClusterLoops
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Factor, Matrix, Ops


@dataclass(frozen=True, slots=True, eq=False)
class TiedCluster:
    """A cluster with loops: ``M W`` (k × y), ``F`` (6 × k) on the link below, ``U = F W``, and what solves ``D``.

    ``F`` and ``U`` are zero of a cluster on the world.
    """

    cluster: Cluster
    loops: ClusterLoops
    MW: Matrix
    F: Matrix
    U: Matrix
    D: Factor

    @property
    def links(self) -> tuple[int, ...]:
        """Its links."""
        return self.cluster.links

    @property
    def parent(self) -> int:
        """Link that it hangs from."""
        return self.cluster.parent

    def rows_below(self, ops: Ops, rigid: Matrix, R: Matrix) -> Matrix:
        """``K° − R D⁻¹ Uᵀ``: rows on the link below."""
        if self.parent == WORLD or not self.loops.free:
            return rigid
        return rigid - R @ self.D.solve(ops.transpose(self.U))


class ArticulatedClusters(Articulated):
    """Articulated-body quantities of every link, where loops ``tie`` clusters and some coordinates are independent.

    Attributes
    ----------
    clusters : list of Cluster
        All clusters, parents before children.
    of : dict of Cluster
        The cluster of each link.
    tied : dict of TiedCluster
        Those with loops, by their first link.

    What rows of link i do at its joint, they do in its cluster where loops tie it: `joint_half` and others.
    """

    def __init__(self, problem: Problem, loops: Problem, independent: Iterable[int]) -> None:
        """``loops``: the robot with the constraints that close them."""
        self._loops, self._independent = loops, frozenset(independent)
        self.clusters, self.tied = clusters(loops.tree, loops.constraints), dict[int, TiedCluster]()
        self.of = {i: cluster for cluster in self.clusters for i in cluster.links}
        self._problem, self._laden = problem, {cluster.parent for cluster in self.clusters}
        super().__init__(problem)

    def _tied_of(self, i: int) -> TiedCluster | None:
        return self.tied.get(self.of[i].links[0])

    def moves(self, cluster: Cluster) -> bool:
        """Whether loops leave it any freedom."""
        own = self._tied_of(cluster.links[0])
        return own is None or bool(own.loops.free)

    def _sweep(self) -> None:
        """Eliminate all clusters, leaves → root."""
        for cluster in reversed(self.clusters):
            if cluster.constraints:
                self.tied[cluster.links[0]] = self._tied(cluster)
            else:
                self._eliminate(*cluster.links)

    def _tied(self, cluster: Cluster) -> TiedCluster:
        ops, problem, joints = self._ops, self._problem, self._tree.joints
        loops, (composite, below) = ClusterLoops(self._loops, cluster, self._independent), self._composite(cluster)
        M, F = spanning_tree(problem, cluster, lambda i: joints[i].columns(ops, composite[i]))

        # D = Wᵀ M W, U = F W, Hᴬ_p += Σ Xᵀ Hᶜ X − U D⁻¹ Uᵀ
        W, p = loops.W, cluster.parent
        MW, U = M @ W, F @ W
        D = ops.factor(ops.sym_product(ops.transpose(W), MW))
        if p != WORLD:
            total = reduce(ops.sym_add, [self.H[p], *below])
            self.H[p] = ops.sym_subtract(total, D.quadratic(U)) if loops.free else total
        return TiedCluster(cluster, loops, MW, F, U, D)

    def _composite(self, cluster: Cluster) -> tuple[dict[int, Matrix], list[Matrix]]:
        """Inertia (6 × 6) of each link with all that it carries in its cluster; those of the links on the one below.

        They move rigidly: by ten numbers, but for what other clusters hang from.
        """
        ops, parents, X, own = self._ops, self._tree.parents, self._X, self._problem.inertias
        laden = self._tree.supporting_links(self._laden.intersection(cluster.links))
        full = {i: self.H[i] for i in cluster.links if i in laden}
        rigid = {i: ops.rigid_inertia(own[i]) for i in cluster.links if i not in laden}
        below = list[Matrix]()

        # leaves → root: Hᶜ_p += Xᵀ Hᶜ X
        for i in reversed(cluster.links):
            p = parents[i]
            if p == WORLD:
                continue
            if i in rigid and p in rigid:
                rigid[p] = rigid[p] + rigid[i].to_parent(X[i])
                continue
            moved = rigid[i].to_parent(X[i]).columns(range(6)) if i in rigid else X[i].inertia_to_parent(full[i])
            if p in full:
                full[p] = ops.sym_add(full[p], moved)
            else:
                below.append(moved)
        return {i: full[i] if i in full else rigid[i].columns(range(6)) for i in cluster.links}, below

    # -- rows on a link of a cluster ---------------------------------------------------------------------------------

    def through(self, i: int, K: Matrix) -> tuple[Matrix, Matrix]:
        """``K°`` on the link below, as if no joint moved, and ``R = K S W`` on independent coordinates."""
        ops, tree, own, along = self._ops, self._tree, self.tied[self.of[i].links[0]], dict[int, Matrix]()
        while i != own.parent:
            along[i] = tree.joints[i].columns(ops, K)
            K = self._X[i].rows_to_parent(K) if tree.parents[i] != WORLD else K
            i = tree.parents[i]
        m = ops.shape(K)[0]
        moved = [along[k] if k in along else ops.zeros(m, tree.joints[k].nv) for k in own.links]
        return K, ops.hstack(moved) @ own.loops.W

    def rows_to_parent(self, i: int, K: Matrix, C: Matrix | None = None) -> Matrix:
        """``K° − R D⁻¹ Uᵀ`` on the link that the cluster hangs from."""
        own = self._tied_of(i)
        return super().rows_to_parent(i, K, C) if own is None else own.rows_below(self._ops, *self.through(i, K))

    def joint_quadratic(self, i: int, K: Matrix, C: Matrix | None = None) -> Matrix:
        """``R D⁻¹ Rᵀ``."""
        own = self._tied_of(i)
        if own is None:
            return super().joint_quadratic(i, K, C)
        m = self._ops.shape(K)[0]
        return own.D.quadratic(self.through(i, K)[1]) if own.loops.free else self._ops.zeros(m, m)

    def joint_half(self, i: int, K: Matrix) -> Matrix:
        """``Z`` with ``Z Δ Z'ᵀ = R D⁻¹ R'ᵀ``."""
        own, ops = self._tied_of(i), self._ops
        if own is None:
            return super().joint_half(i, K)
        return ops.transpose(own.D.half_solve(ops.transpose(self.through(i, K)[1])))

    def joint_diagonal(self, i: int) -> Matrix:
        """``Δ``."""
        own = self._tied_of(i)
        return super().joint_diagonal(i) if own is None else own.D.scale(self._ops.eye(len(own.loops.free)))
