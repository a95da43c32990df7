"""Recursive Newton-Euler algorithm: joint forces from accelerations, their regressor and the Coriolis matrix.

Root → leaves ``a_i = X_i a_p + c_i + S_i q̈_i``, leaves → root ``f_i = H_i a_i + p_i + Σ Xᵀ f_child`` and
``τ_i = S_iᵀ f_i``. Cost O(n). Source: Featherstone, Rigid Body Dynamics Algorithms, table 5.1, in link frames.
Deviations: armature, damping and springs are added to the joint forces: ``a q̈`` here, the others by
`DynamicsProblem.resistance`. The regressor (Atkeson, An and Hollerbach 1986)
carries ten columns a link from there to the root, cost O(n d), and so does the Coriolis matrix (Echeandia and
Wensing, "Numerical methods to compute the Coriolis matrix and Christoffel symbols for rigid-body systems", 2021).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delassus.algorithms.blocks import assembled
from delassus.algorithms.crba import composite_inertias, momenta_of
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.model.tree import WORLD
from delassus.spatial.motion import (
    ANGULAR,
    LINEAR,
    column,
    cross_entries,
    cross_matrix,
    diagonal,
    force_matrix,
    force_of_parameters,
    force_of_points,
    from_entries,
    motion_matrix,
    plus,
    scaled,
    scaled_matrix,
    turning_matrix,
)
from delassus.spatial.ops import Matrix, Scalar


def accelerations(motion: DynamicsProblem, qdd: Sequence[Matrix] | None = None) -> list[Matrix]:
    """Spatial acceleration (6 × 1) of each link less gravity; ``qdd`` holds a column a joint, None is zero."""
    a: list[Matrix] = []

    # root → leaves: a_i = X_i a_p + c_i + S_i q̈_i
    for i in motion.tree.root_to_leaves():
        carried = motion.to_link(i, a)
        if motion.tree.parents[i] != WORLD:
            carried = carried + motion.c[i]
        a.append(carried if qdd is None else carried + motion.along_joint(i, qdd[i]))
    return a


def link_forces(motion: DynamicsProblem, qdd: Sequence[Matrix] | None = None) -> list[Matrix]:
    """Force ``H_i a_i + p_i`` (6 × 1) that each link takes for these accelerations."""
    a = accelerations(motion, qdd)
    return [H @ a[i] + motion.p[i] for i, H in enumerate(motion.problem.inertias)]


def joint_forces(motion: DynamicsProblem, qdd: Sequence[Matrix] | None = None) -> list[Matrix]:
    """Forces (n_i × 1) that the joints must exert for these accelerations; `DynamicsProblem.resistance` left out."""
    tau = to_joints(motion, link_forces(motion, qdd), qdd)
    motion.ops.mark("joint forces", tau)
    return tau


def to_joints(motion: DynamicsProblem, f: list[Matrix], qdd: Sequence[Matrix] | None = None) -> list[Matrix]:
    """Forces (n_i × 1) that the joints must exert for links to get the forces ``f`` (6 × 1), which are overwritten."""
    ops, tree, X = motion.ops, motion.tree, motion.problem.X
    tau: dict[int, Matrix] = {}

    # leaves → root: τ_i = S_iᵀ f_i, f_p += X_iᵀ f_i
    for i in tree.leaves_to_root():
        joint, p = tree.joints[i], tree.parents[i]
        tau[i] = joint.across(ops, f[i])
        if qdd is not None and np.any(joint.armature):
            tau[i] = tau[i] + scaled(ops, list(joint.armature), qdd[i])
        if p != WORLD:
            f[p] = f[p] + X[i].forces_to_parent(f[i])
    return [tau[i] for i in tree.root_to_leaves()]


def applied_forces(motion: DynamicsProblem) -> Matrix:
    """``τ − c`` (nv × 1), `DynamicsProblem.resistance` taken off."""
    return motion.stacked([t - c for t, c in zip(motion.tau, joint_forces(motion), strict=True)])


def momentum(motion: DynamicsProblem, h: Scalar, gained: Sequence[Scalar], impulses: Sequence[Scalar]) -> Matrix:
    """``M Δv + h (c − τ) − Jᵀ p`` (nv × 1) of velocities that are ``gained`` over a time, zero where they follow."""
    ops, over_h, at = motion.ops, 1.0 / h, motion.by_joint(gained)
    rates = [scaled_matrix(ops, over_h, x) - motion.velocity_product(i) for i, x in enumerate(at)]
    forces = [f - t for f, t in zip(joint_forces(motion, rates), motion.tau, strict=True)]
    total = scaled_matrix(ops, h, motion.stacked(forces))
    if impulses:
        total = total - ops.transpose(motion.problem.once(jacobian)) @ from_entries(ops, impulses)
    return total


def bias_change(motion: DynamicsProblem, x: Sequence[Scalar]) -> Matrix:
    """``(∂c/∂v) x`` (nv × 1) of the force ``c`` of velocity products, in axes that do not turn, as `momentum` has it.

    Linear in ``v`` and in ``x`` (nv), and the same with both exchanged. Damping is left out. Points of a link, at
    ``r`` from its origin, have accelerations ``a + A r``, in the axes of the link.
    """
    ops, tree, X, directions = motion.ops, motion.tree, motion.problem.X, motion.by_joint(x)
    none: list[Scalar] = [0.0] * 3
    W, a, A, f, rates = list[list[Scalar]](), list[Matrix](), list[Matrix](), list[Matrix](), list[Matrix]()
    alphas = list[list[Scalar]]()

    def turned(i: int, b: Sequence[Scalar]) -> list[Scalar]:
        return column(ops, X[i].motions_to_child(from_entries(ops, [*b, *none])))[:3]

    # root → leaves: ω = R ω_p + o_ω, η = R η_p + x_ω, α = R α_p + η × o_ω + ω × x_ω, A of both,
    # a = R (a_p + A_p r) + 2 (R η_p × o_v + R ω_p × x_v) + o_ω × x_v + x_ω × o_v
    for i in range(tree.n_links):
        rates.append(-(motion.velocity_product_changes(i) @ directions[i]))
        own, along, turns = (column(ops, motion.along_joint(i, y)) for y in (motion.v[i], directions[i], rates[i]))
        carried, p = [none, none, none], tree.parents[i]
        if i in motion.problem.free_bodies:
            own = along = turns = [*none, *none]
        elif p != WORLD:
            carried = [turned(i, y) for y in (column(ops, motion.V[p])[3:], W[p], alphas[p])]
        (v, w), (dv, dw), (omega, eta, alpha) = *((y[:3], y[3:]) for y in (own, along)), carried
        linear = plus(turns[:3], plus(cross_entries(w, dv), cross_entries(dw, v)))
        if p != WORLD:
            moved = plus(cross_entries(eta, v), cross_entries(omega, dv))
            linear = plus(linear, plus(moved, moved))
            linear = plus(linear, turned(i, column(ops, a[p] + A[p] @ X[i].position())))
        W.append(plus(eta, dw))
        alphas.append(plus(plus(alpha, turns[3:]), plus(cross_entries(eta, w), cross_entries(omega, dw))))
        a.append(from_entries(ops, linear))
        A.append(turning_matrix(ops, alphas[i], plus(omega, w), W[i]))
        f.append(force_of_points(ops, *motion.moments(i), a[i], A[i]))
    forces = to_joints(motion, f, rates)
    for i, armature in motion.straight_armature.items():
        forces[i] = forces[i] - scaled(ops, armature, rates[i])
    return motion.stacked(forces)


def inverse_dynamics(motion: DynamicsProblem, qdd: Sequence[Matrix] | None = None) -> Matrix:
    """``M q̈ + c + d v + k (q − r)`` (nv × 1): joint forces; without ``qdd`` the bias force of the joints."""
    tau = joint_forces(motion, qdd)
    if motion.resistance is not None:
        tau = [t + r for t, r in zip(tau, motion.resistance, strict=True)]
    return motion.stacked(tau)


def regressor(motion: DynamicsProblem, qdd: Sequence[Matrix]) -> Matrix:
    """``Y`` (nv × 10 n): `joint_forces` are ``Y π`` and armature, ``π`` the parameters of links in their own frames."""
    ops, tree, X, frames = motion.ops, motion.tree, motion.problem.X, motion.problem.link_frames
    a = accelerations(motion, qdd)
    blocks: dict[tuple[int, int], Matrix] = {}
    for i in tree.root_to_leaves():
        V, acceleration = (frames[i].motions_to_child(x[i]) for x in (motion.V, a))
        F = frames[i].forces_to_parent(force_of_parameters(ops, V, acceleration))

        # link → root: Y_ji = S_jᵀ F, F ← X_jᵀ F
        for j in reversed(tree.support(i)):
            blocks[j, i] = tree.joints[j].across(ops, F)
            if tree.parents[j] != WORLD:
                F = X[j].forces_to_parent(F)
    return assembled(ops, [joint.nv for joint in tree.joints], [10] * tree.n_links, blocks)


def coriolis_matrix(motion: DynamicsProblem) -> Matrix:
    """Coriolis matrix ``C`` (nv × nv): ``C v`` is the bias force without gravity, and ``Ṁ − 2 C`` is skew.

    ``C = Σ Jᵀ (H J̇ + B J)`` over all links, with ``2 B v = V ×* H v − H (V × v) + v ×* H V``.
    """
    ops, tree, X = motion.ops, motion.tree, motion.problem.X
    composite, B, turns = motion.problem.once(composite_inertias), list[Matrix](), list[Matrix]()
    for V, H in zip(motion.V, motion.problem.inertias, strict=True):
        turns.append(motion_matrix(ops, V))
        rate = -(ops.transpose(turns[-1]) @ H) - H @ turns[-1]
        B.append(scaled_matrix(ops, 0.5, rate + force_matrix(ops, H @ V)))
    blocks: dict[tuple[int, int], Matrix] = {}

    # leaves → root: Bᶜ_p += X_iᵀ Bᶜ_i X_i, and up the support with F of Ṡ_i = V_i × S_i and of S_i
    for i in tree.leaves_to_root():
        joint, j = tree.joints[i], i
        momenta, carried = momenta_of(ops, composite[i], joint), joint.columns(ops, B[i])
        rates = ops.transpose(joint.across(ops, B[i]))
        F = composite[i].columns(range(6)) @ joint.columns(ops, turns[i]) + carried
        blocks[i, i] = joint.across(ops, F)
        while tree.parents[j] != WORLD:
            F, momenta, rates = (X[j].forces_to_parent(x) for x in (F, momenta, rates))
            j = tree.parents[j]
            on = tree.joints[j]
            blocks[j, i] = on.across(ops, F)
            along = ops.transpose(on.columns(ops, turns[j])) @ momenta + on.across(ops, rates)
            blocks[i, j] = ops.transpose(along)
        if (p := tree.parents[i]) != WORLD:
            B[p] = B[p] + X[i].forces_to_parent(X[i].rows_to_parent(B[i]))
    for i, a in motion.straight_armature.items():  # ω × of linear directions
        axes, w = tree.joints[i].motion_axes, ops.take(motion.along_joint(i, motion.v[i]), ANGULAR, None)
        turn = ops.take(ops.put(cross_matrix(ops, w), (6, 6), LINEAR, LINEAR), axes, axes)
        blocks[i, i] = blocks[i, i] + diagonal(ops, a) @ turn
    sizes = [joint.nv for joint in tree.joints]
    return assembled(ops, sizes, sizes, blocks)
