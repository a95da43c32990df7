"""Articulated-body algorithm over clusters: forward dynamics in the independent coordinates of loops.

With all that `articulated` makes, and in each cluster the accelerations ``a°`` of its links and the forces ``b`` at its
joints that ``q̈ = g`` asks for on a link at rest (Newton and Euler's recursion inside):

- leaves → root ``u = Wᵀ (τ − b)``, ``pᴬ_p += Σ Xᵀ f + U D⁻¹ u``;
- root → leaves ``ÿ = D⁻¹ (u − Uᵀ a_p)``, ``q̈ = W ÿ + g``, ``a_i = X_i a_p + c_i + S_i q̈_i``.

Forces of constraints give what joints of their cluster are left with, ``r = M W ÿ + Fᵀ a_p + b − τ``: ``Jᵀ f = r``.
Accelerations of dependent coordinates follow from the others, so that rows hold to round-off; rows may depend on one
another. Cost O(n) where clusters are small. Source: Chignoli, Adrian, Kim, Wensing, arXiv 2311.13732, algorithm 2;
Jain 2012. Deviations: forces of constraints, which minimal coordinates leave out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from delassus.algorithms.clusters.articulated import ArticulatedClusters, TiedCluster
from delassus.algorithms.clusters.transmission import units
from delassus.algorithms.dynamics.constraint_acceleration import wanted_accelerations
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.constraints import At
from delassus.model.tree import WORLD
from delassus.spatial.motion import column, scaled
from delassus.spatial.ops import Matrix, Ops, Scalar

AT_REST = 1e-30
"""Velocity (m/s) that stands for none where others are compared with it."""


def cluster_aba(motion: DynamicsProblem) -> DynamicsSolution:
    """Accelerations of all joints, and constraint forces, of least norm where rows depend on one another.

    Rows are those of loops that are closed, and stay so. By how much loops gape, over the robot's length, or part, over
    its velocity, and rows contradict one another, over its accelerations, is `DynamicsSolution.idle`.
    """
    ops, problem, loops, apart, rates = motion.ops, motion.problem, motion.of_loops(), list[Scalar](), list[Scalar]()
    found, gaps, missed = _by_loops(loops)
    for k, (own, other) in enumerate(zip(problem.constraints, loops.problem.constraints, strict=True)):
        if own is not other:
            apart += column(ops, own.position(At(problem, k, motion)))
            rates += column(ops, other.velocity(At(loops.problem, k, loops)))
    v, over = [x for joint in motion.v for x in column(ops, joint)], 1.0 / problem.length
    idle = [*_largest(ops, gaps), *(x * over for x in _largest(ops, apart)), *_part(motion, rates, v)]
    idle += _part(motion, missed, column(ops, found.qdd))
    return replace(found, idle=idle[0], idle_qdd=idle[0]) if (idle := _largest(ops, idle)) else found


def _part(motion: DynamicsProblem, along: list[Scalar], rates: list[Scalar]) -> list[Scalar]:
    """The largest velocity or acceleration along rows, over that of all degrees of freedom (m/s); none of none."""
    problem = motion.problem
    (usual,) = _largest(motion.ops, [x * (problem.length / y) for x, y in zip(rates, units(problem), strict=True)])
    return [x * (1.0 / (usual + AT_REST)) for x in _largest(motion.ops, along)]


def _largest(ops: Ops, numbers: Sequence[Scalar]) -> list[Scalar]:
    """The largest size of numbers; none of none."""
    return [reduce(ops.maximum, [ops.maximum(x, -x) for x in numbers])] if numbers else []


def _by_loops(motion: DynamicsProblem) -> tuple[DynamicsSolution, list[Scalar], list[Scalar]]:
    """The same of constraints whose clusters are as small as can be; gaps, and accelerations that rows miss."""
    ops, tree, problem = motion.ops, motion.tree, motion.problem
    body = ArticulatedClusters(problem, problem, motion.elimination.independent)
    gamma, p = wanted_accelerations(motion), list(motion.p)
    u, g, left = dict[int, Matrix](), dict[int, list[Matrix]](), dict[int, Matrix]()
    gaps = [x for own in body.tied.values() for x in own.loops.gaps()]
    missed = [x for own in body.tied.values() for x in own.loops.missed(gamma)]

    # leaves → root: u = Wᵀ (τ − b), pᴬ_p += Σ Xᵀ f + U D⁻¹ u
    for first, *_ in (cluster.links for cluster in reversed(body.clusters)):
        own, parent = body.tied.get(first), tree.parents[first]
        if own is None:
            u[first] = motion.tau[first] - tree.joints[first].across(ops, p[first])
            if parent != WORLD:
                b = p[first] + body.Ha[first] @ motion.c[first]
                p[parent] = p[parent] + body.bias_to_parent(first, b, u[first], motion.tau[first])
            continue
        g[first] = _by_link(motion, own, own.loops.drift(gamma))
        left[first], carried = _held_forces(motion, body, own, g[first], p)
        u[first] = ops.transpose(own.loops.W) @ left[first]
        if parent != WORLD:
            p[parent] = p[parent] + carried + (own.U @ own.D.solve(u[first]) if own.loops.free else ops.zeros(6, 1))
    ops.mark("articulated bias forces", [*u.values(), *p])

    # root → leaves: ÿ = D⁻¹ (u − Uᵀ a_p), q̈ = W ÿ + g, a_i = X_i a_p + c_i + S_i q̈_i
    a, qdd, f = dict[int, Matrix](), dict[int, Matrix](), ops.zeros(problem.n_rows, 1)
    for first, *_ in (cluster.links for cluster in body.clusters):
        own, parent = body.tied.get(first), tree.parents[first]
        if own is None:
            carried = motion.to_link(first, a)
            carried = carried if parent == WORLD else carried + motion.c[first]
            qdd[first], a[first] = body.through_joint(first, u[first], carried)
            continue
        below = ops.zeros(6, 1) if parent == WORLD else a[parent]
        ydd = own.D.solve(u[first] - ops.transpose(own.U) @ below)
        along = _by_link(motion, own, own.loops.W @ ydd)
        for i, x, y in zip(own.links, along, g[first], strict=True):
            qdd[i] = x + y
            a[i] = motion.to_link(i, a) + motion.c[i] + motion.along_joint(i, qdd[i])
        r = own.MW @ ydd + ops.transpose(own.F) @ below - left[first]
        f = f + ops.put(own.loops.forces(r), (problem.n_rows, 1), own.loops.rows, (0,))
    ops.mark("accelerations", [*qdd.values(), f])
    return DynamicsSolution(motion.stacked([qdd[i] for i in tree.root_to_leaves()]), f), gaps, missed


def _by_link(motion: DynamicsProblem, own: TiedCluster, x: Matrix) -> list[Matrix]:
    """Numbers of all joints of a cluster (k × 1), one column (n_i × 1) a joint."""
    out, start = list[Matrix](), 0
    for i in own.links:
        out.append(motion.ops.take(x, range(start, start + motion.tree.joints[i].nv), None))
        start += motion.tree.joints[i].nv
    return out


def _held_forces(
    motion: DynamicsProblem, body: ArticulatedClusters, own: TiedCluster, g: list[Matrix], p: list[Matrix]
) -> tuple[Matrix, Matrix]:
    """``τ − b`` (k × 1) where ``q̈ = g`` and the link below is at rest, and the force ``Σ Xᵀ f`` (6 × 1) on that."""
    ops, tree, X, a, f = motion.ops, motion.tree, motion.problem.X, dict[int, Matrix](), dict[int, Matrix]()
    still = {} if own.parent == WORLD else {own.parent: ops.zeros(6, 1)}

    # root → leaves: a°_i = X_i a°_p + c_i + S_i g_i, f_i = Hᴬ_i a°_i + pᴬ_i
    for i, x in zip(own.links, g, strict=True):
        a[i] = motion.to_link(i, {**still, **a}) + motion.c[i] + motion.along_joint(i, x)
        f[i] = body.H[i] @ a[i] + p[i]

    # leaves → root: b_i = S_iᵀ f_i, f_p += X_iᵀ f_i
    left, below = dict[int, Matrix](), list[Matrix]()
    for i, x in reversed([*zip(own.links, g, strict=True)]):
        joint, parent = tree.joints[i], tree.parents[i]
        left[i] = motion.tau[i] - joint.across(ops, f[i])
        if joint.armature.any():
            left[i] = left[i] - scaled(ops, list(joint.armature), x)
        if parent in f:
            f[parent] = f[parent] + X[i].forces_to_parent(f[i])
        elif parent != WORLD:
            below.append(X[i].forces_to_parent(f[i]))
    return ops.vstack([left[i] for i in own.links]), reduce(lambda x, y: x + y, below, ops.zeros(6, 1))
