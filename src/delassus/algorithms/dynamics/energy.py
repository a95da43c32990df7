"""Energy, momentum and centre of mass of all moving links; cost O(n)."""

from __future__ import annotations

import numpy as np

from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.motion import ANGULAR, LINEAR, cross, from_entries, scaled
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


def potential_energy(problem: Problem, gravity: Matrix) -> Matrix:
    """``−m gᵀ r`` (1 × 1), ``r`` the centre of mass in the world: zero there."""
    _, moment = mass_moments(problem)
    return -(problem.ops.transpose(gravity) @ moment)


def mass_moments(problem: Problem) -> tuple[Scalar, Matrix]:
    """Mass of all moving links, and first moment of mass (3 × 1) about the origin of the world, in its axes."""
    ops, tree = problem.ops, problem.tree
    inertias = [ops.entries(H) for H in problem.inertias]
    mass = [H[0][0] for H in inertias]
    moment = [from_entries(ops, [H[5][1], H[3][2], H[4][0]]) for H in inertias]
    total: Scalar = 0.0
    at_world = ops.zeros(3, 1)

    # leaves → root: mass and first moment of each link with all that it carries
    for i in tree.leaves_to_root():
        X, p = problem.X[i], tree.parents[i]
        moved = X.rotate_to_parent(moment[i]) + scaled(ops, [mass[i]] * 3, X.position())
        if p == WORLD:
            total, at_world = total + mass[i], at_world + moved
        else:
            mass[p], moment[p] = mass[p] + mass[i], moment[p] + moved
    return total, at_world


def centre_of_mass(problem: Problem) -> Matrix:
    """Centre of mass (3 × 1) in the world."""
    ops = problem.ops
    mass, moment = mass_moments(problem)
    return scaled(ops, [1.0 / mass] * 3, moment)


def momentum(motion: DynamicsProblem) -> Matrix:
    """``[linear; angular]`` momentum (6 × 1) about the centre of mass, in world axes."""
    ops, tree, X = motion.ops, motion.tree, motion.problem.X
    h = [H @ V for H, V in zip(motion.problem.inertias, motion.V, strict=True)]
    at_world = ops.zeros(6, 1)

    # leaves → root: momentum of each link with all that it carries
    for i in tree.leaves_to_root():
        moved, p = X[i].forces_to_parent(h[i]), tree.parents[i]
        if p == WORLD:
            at_world = at_world + moved
        else:
            h[p] = h[p] + moved
    linear, angular = ops.take(at_world, LINEAR, None), ops.take(at_world, ANGULAR, None)
    return ops.vstack([linear, angular - cross(ops, centre_of_mass(motion.problem), linear)])
