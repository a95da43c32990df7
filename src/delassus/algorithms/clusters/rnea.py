"""Newton and Euler's recursion over clusters: forces of motors at independent coordinates of loops that cause a motion.

The forces ``b = M q̈ + c`` of all joints follow by the recursion of links, leaves → root. In each cluster that loops tie
motors have ``τ_y = Wᵀ b``, joints without motors nothing, and forces of constraints give the rest: ``Jᵀ f = b − τ``, of
least norm where rows depend on one another. Cost O(n) where clusters are small. Source: Chignoli, Adrian, Kim, Wensing,
arXiv 2311.13732, algorithm 1; Jain 2012. Deviations: forces of constraints, which minimal coordinates leave out.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from delassus.algorithms.clusters.grouping import clusters
from delassus.algorithms.clusters.transmission import ClusterLoops
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.rnea import inverse_dynamics
from delassus.spatial.ops import Matrix

CLUSTER_RNEA = "cluster-rnea"
"""Name of the method."""


def cluster_rnea(
    motion: DynamicsProblem, qdd: Sequence[Matrix], independent: Collection[int]
) -> tuple[Matrix, Matrix, Matrix]:
    """Joint forces ``b`` (nv × 1), those of motors, and constraint forces (m × 1), for accelerations by joint."""
    ops, nv, m = motion.ops, motion.tree.nv, motion.problem.n_rows
    b, tau, f = inverse_dynamics(motion, qdd), ops.zeros(nv, 1), ops.zeros(m, 1)
    for cluster in clusters(motion.tree, motion.problem.constraints):
        loops = ClusterLoops(motion.problem, cluster, independent)
        own, driven = ops.take(b, loops.dofs, None), [loops.dofs[at] for at in loops.free]
        tau = tau + ops.put(ops.transpose(loops.W) @ own, (nv, 1), driven, (0,))
        if loops.rows:
            f = f + ops.put(loops.forces(own), (m, 1), loops.rows, (0,))
    ops.mark("joint forces of motors", [tau, f])
    return b, tau, f
