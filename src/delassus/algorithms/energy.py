"""Energy, momentum and centre of mass of all moving links, and how the latter two change; cost O(n).

Columns of the Jacobian of momentum are ``X_jᵀ Iᶜ_j S_j``, ``Iᶜ_j`` the inertia of all that joint j carries, about the
centre of mass; its linear rows are those of the centre of mass, times the mass. Energies and the momentum about the
world's origin are linear in the ten parameters of each link in its own frame: `regressors`. Source: Orin, Goswami, Lee,
"Centroidal dynamics of a humanoid robot", Autonomous Robots 2013. No deviations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from delassus.algorithms.blocks import assembled
from delassus.algorithms.crba import composite_inertias, momenta_of
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.kinematics import body_poses, frame_pose
from delassus.algorithms.problem import Problem, mass_moments
from delassus.algorithms.rnea import link_forces
from delassus.model.tree import WORLD
from delassus.spatial.motion import ANGULAR, LINEAR, cross, cross_matrix, momentum_of_parameters, scaled, scaled_matrix
from delassus.spatial.ops import Matrix, Scalar


def kinetic_energy(motion: DynamicsProblem) -> Matrix:
    """``½ vᵀ M v`` (1 × 1), motors included: ``½ Σ V_iᵀ H_i V_i + ½ Σ v_iᵀ (armature) v_i``."""
    ops = motion.ops
    twice = ops.zeros(1, 1)
    for H, V in zip(motion.problem.inertias, motion.V, strict=True):
        twice = twice + ops.transpose(V) @ (H @ V)
    for joint, v in zip(motion.tree.joints, motion.v, strict=True):
        if np.any(joint.armature):
            twice = twice + ops.transpose(v) @ scaled(ops, list(joint.armature), v)
    return scaled(ops, [0.5], twice)


def potential_energy(motion: DynamicsProblem) -> Matrix:
    """``−m gᵀ r + ½ Σ k (q − r)²`` (1 × 1): of gravity, zero at the origin of the world, and of springs.

    Springs are those of joints and those between frames. Masses whose weight is compensated have none.
    """
    ops = motion.ops
    _, moment = mass_moments(motion.problem, motion.compensated)
    energy = -(ops.transpose(motion.gravity) @ moment)
    for i, deflection in motion.spring_deflections.items():
        half = scaled(ops, [0.5 * k for k in motion.tree.joints[i].stiffness], deflection)
        energy = energy + ops.transpose(deflection) @ half
    for _, each in motion.stretched:
        energy = energy + ops.matrix([[sum((0.5 * k * (x * x) for k, _, x, _ in each), cast(Scalar, 0.0))]])
    return energy


def momentum(motion: DynamicsProblem) -> Matrix:
    """``[linear; angular]`` momentum (6 × 1) about the centre of mass, in world axes."""
    return _about_centre(motion.problem, [H @ V for H, V in zip(motion.problem.inertias, motion.V, strict=True)])


def momentum_rate(motion: DynamicsProblem, qdd: Sequence[Matrix] | None = None) -> Matrix:
    """Rate (6 × 1) of the momentum, of a problem without gravity and wrenches: ``ṙ × m ṙ = 0``.

    ``qdd`` holds a column a joint, None is zero.
    """
    return _about_centre(motion.problem, link_forces(motion, qdd))


def _about_centre(problem: Problem, forces: Sequence[Matrix]) -> Matrix:
    """Sum of forces (or momenta) on all links, about the centre of mass, in world axes."""
    ops, tree, X, f = problem.ops, problem.tree, problem.X, list(forces)
    at_world = ops.zeros(6, 1)

    # leaves → root: that of each link with all that it carries
    for i in tree.leaves_to_root():
        moved, p = X[i].forces_to_parent(f[i]), tree.parents[i]
        if p == WORLD:
            at_world = at_world + moved
        else:
            f[p] = f[p] + moved
    linear, angular = ops.take(at_world, LINEAR, None), ops.take(at_world, ANGULAR, None)
    return ops.vstack([linear, angular - cross(ops, problem.centre_of_mass, linear)])


def momentum_jacobian(problem: Problem) -> Matrix:
    """Centroidal momentum matrix (6 × nv): momentum about the centre of mass, in world axes, is that times ``v``."""
    ops, tree = problem.ops, problem.tree
    composite, poses, centre = problem.once(composite_inertias), body_poses(problem), problem.centre_of_mass
    columns: dict[tuple[int, int], Matrix] = {}
    for j in tree.root_to_leaves():
        (R, p), F = poses[j], momenta_of(ops, composite[j], tree.joints[j])
        linear, angular = R @ ops.take(F, LINEAR, None), R @ ops.take(F, ANGULAR, None)
        columns[0, j] = ops.vstack([linear, angular + cross_matrix(ops, p - centre) @ linear])
    return assembled(ops, [6], [joint.nv for joint in tree.joints], columns)


def per_mass(problem: Problem, momenta: Matrix) -> Matrix:
    """Linear rows (3 × k) of momenta by the mass of all moving links: motions of the centre of mass."""
    ops = problem.ops
    one_over = 1.0 / mass_moments(problem)[0]
    return ops.matrix([[one_over * x for x in row] for row in ops.entries(ops.take(momenta, LINEAR, None))])


def regressors(motion: DynamicsProblem) -> list[Matrix]:
    """Kinetic and potential energy (1 × 10 n), motors and springs apart, and momentum about the world's origin.

    The last (6 × 10 n) is ``[linear; angular]``, in world axes.
    """
    ops, tree, problem = motion.ops, motion.tree, motion.problem
    poses, frames = body_poses(problem), problem.link_frames
    kinetic, potential, momenta = dict[tuple[int, int], Matrix](), dict[tuple[int, int], Matrix](), {}
    for i, name in enumerate(tree.link_names):
        (R, p), V = frame_pose(problem, poses, tree.placement(name)), frames[i].motions_to_child(motion.V[i])
        P = momentum_of_parameters(ops, V)
        kinetic[0, i] = scaled_matrix(ops, 0.5, ops.transpose(V) @ P)
        at_mass = ops.hstack([p, R, ops.zeros(3, 6)])
        potential[0, i] = -(ops.transpose(motion.gravity) @ at_mass)
        linear, angular = R @ ops.take(P, LINEAR, None), R @ ops.take(P, ANGULAR, None)
        momenta[0, i] = ops.vstack([linear, angular + cross_matrix(ops, p) @ linear])
    widths = [10] * tree.n_links
    return [assembled(ops, [rows], widths, of) for rows, of in ((1, kinetic), (1, potential), (6, momenta))]
