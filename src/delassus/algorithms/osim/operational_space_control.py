"""Operational-space control: joint forces that make tasks accelerate as they are asked to, near singularities, too.

Rows ``J`` of tasks are asked for accelerations ``b = γ − k_d J v − k_p e``, with targets ``γ`` and position errors
``e``. What they leave open follows the accelerations ``a`` of a posture: of all accelerations with ``J q̈ + J̇ v = b``
those that are nearest to ``a`` in the metric ``M`` are (Gauss's principle)

    q̈ = a + M⁻¹ Jᵀ F,    G F = r = b − J a − J̇ v,    τ = M a + c + Jᵀ F,

which is Khatib's ``Jᵀ Λ (b − J̇ v) + c + (1 − Jᵀ J̄ᵀ) M a``, without ``Λ`` and without a projector. Rows of impedance are
asked for no acceleration, and their ``b`` is a force that is added to ``F``: ``Λ (J q̈ + J̇ v) = b``.

Directions that joints hardly move have small eigenvalues of ``G``. With a compliance ``R`` of the rows, diagonal, the
passes ``F ← F + x, r ← R x`` with ``(G + R) x = r`` keep in ``r`` what is still missed, as ``r − G x = R x``: after
three of them, from zero, ``(R (G + R)⁻¹)³`` of what is asked. In units in which ``R`` is 1, an eigenvalue ``g`` of
``G`` leaves ``(1 + g)⁻³``: a millionth at 100, an eighth at 1. The force is at most ``3 |r|``, and ``Fᵀ G F``, which is
``Δq̈ᵀ M Δq̈`` of what it adds to ``a``, at most ``0.96 |r|²``, the largest value of ``(1 − (1 + g)⁻³)² / g``, at every
configuration. Damping once has the bounds ``|r|`` and ``|r|² / 4``, but misses a hundredth at 100; ``(G² + R²)⁻¹ G``
squares the condition number.

With contacts, these are rows too, whose compliance is smaller, and ``q̈`` goes through inverse dynamics with
constraints, which gives forces of motors and contacts.

Sources: Khatib, "A unified approach for motion and force control of robot manipulators", IEEE J. Robotics and
Automation 1987; Nakamura and Hanafusa 1986 and Wampler 1986 (damping); King and Chillingworth, "Approximation of
generalised inverses by iterated regularization", 1979.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import NamedTuple

from delassus.algorithms.dynamics.actuation import clipped
from delassus.algorithms.dynamics.constraint_acceleration import constraint_residual, position_errors, row_velocities
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.loops.inverse_dynamics import ConstrainedForces, constrained_inverse_dynamics
from delassus.algorithms.osim.ltl import rows_over_factor, squared
from delassus.algorithms.problem import Problem
from delassus.algorithms.rnea import inverse_dynamics
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.spatial.motion import column, diagonal, from_entries, scaled
from delassus.spatial.ops import Matrix, Scalar

PASSES = 3
"""Times that what is still asked for is solved for."""

WEAK = 1e-2
"""Mobility of rows that is damped, as a part of that of a free body as heavy as the robot."""

HELD = 1e-4
"""The same of contacts, as a part of that of tasks."""


class Law(NamedTuple):
    """What the tasks, the first constraints, are asked for: gains by row (m, zero of contacts), and rows of forces."""

    n_tasks: int
    kp: Sequence[Scalar]
    kd: Sequence[Scalar]
    is_force: Sequence[bool]


class TaskControls(NamedTuple):
    """``τ`` (nv × 1), forces along the rows (m × 1), accelerations along them that are missed (m × 1)."""

    tau: Matrix
    forces: Matrix
    missed: Matrix


class Motors(NamedTuple):
    """Degrees of freedom that motors drive, limits of all (nv), and weights and friction as of inverse dynamics."""

    limits: Sequence[float]
    driven: Sequence[int] = ()
    weights: Sequence[Scalar] | None = None
    friction: Mapping[int, Scalar] = {}


def operational_space_control(
    motion: DynamicsProblem, posture: Sequence[Matrix], law: Law, motors: Motors
) -> TaskControls:
    """Forces of motors at all joints; ``posture`` are accelerations by joint."""
    ops, J = motion.ops, motion.problem.once(jacobian)
    forces, missed = _task_forces(motion, posture, law)
    wanted = inverse_dynamics(motion, posture) + ops.transpose(J) @ forces
    ops.mark("joint forces of tasks", [wanted])
    tau = _within(motion, wanted, motors.limits)
    if any(map(isfinite, motors.limits)):
        missed = missed + J @ _accelerations(motion.problem, wanted - tau)
    return TaskControls(tau, forces, missed)


def whole_body_control(
    motion: DynamicsProblem, posture: Sequence[Matrix], law: Law, motors: Motors
) -> tuple[TaskControls, ConstrainedForces]:
    """Forces of motors and of contacts, the constraints after the tasks, and what inverse dynamics finds of them."""
    ops, problem, tree = motion.ops, motion.problem, motion.tree
    forces, missed = _task_forces(motion, posture, law)
    moved = _accelerations(problem, ops.transpose(problem.once(jacobian)) @ forces)
    parts = [ops.take(moved, range(sv.start, sv.stop), None) for sv in tree.v_slices]
    qdd = [a + x for a, x in zip(posture, parts, strict=True)]
    q = [problem.q[k] for k in range(tree.nq)]
    v = [motion.velocity[k] for k in range(tree.nv)]
    held = motion.at_state(q, v, range(law.n_tasks, len(problem.constraints)))
    found = constrained_inverse_dynamics(held, qdd, motors.driven, motors.weights, motors.friction)
    of_tasks = ops.take(forces, range(sum(c.size for c in problem.constraints[: law.n_tasks])), None)
    tau = _within(motion, found.tau, motors.limits)
    return TaskControls(tau, ops.vstack([of_tasks, found.forces]), missed), found


def posture_accelerations(
    motion: DynamicsProblem, target: Sequence[Scalar] | None, kp: Sequence[Scalar], kd: Sequence[Scalar]
) -> list[Matrix]:
    """``k_p (target − q) − k_d v`` (n_i × 1) by joint, differences along the tangent of ``q``; None is no target."""
    ops, tree, out = motion.ops, motion.tree, []
    for v, joint, sq, sv in zip(motion.v, tree.joints, tree.q_slices, tree.v_slices, strict=True):
        a = -scaled(ops, kd[sv], v)
        if target is not None:
            q = [motion.problem.q[k] for k in range(sq.start, sq.stop)]
            a = a + scaled(ops, kp[sv], from_entries(ops, joint.kind.difference(ops, q, target[sq])))
        out.append(a)
    return out


def _task_forces(motion: DynamicsProblem, posture: Sequence[Matrix], law: Law) -> tuple[Matrix, Matrix]:
    """Forces along the rows, and accelerations that they miss (m × 1)."""
    ops, problem = motion.ops, motion.problem
    if not problem.n_rows:
        return ops.zeros(0, 1), ops.zeros(0, 1)
    targets = [
        ops.zeros(c.size, 1) if goal.target is None else goal.target
        for c, goal in zip(problem.constraints, motion.goals, strict=True)
    ]
    b = motion.stacked(targets) - scaled(ops, law.kd, row_velocities(motion))
    b = b - scaled(ops, law.kp, position_errors(motion))

    # r = b − J a − J̇ v, b of accelerations alone
    wanted = scaled(ops, [float(not x) for x in law.is_force], b)
    goals = [
        replace(goal, target=ops.take(wanted, range(rows.start, rows.stop), None))
        for goal, rows in zip(motion.goals, problem.rows, strict=True)
    ]
    r = -constraint_residual(motion.with_goals(goals), list(posture))

    # F ← F + x, r ← R x,  (G + R) x = r; by the factor of M, which M⁻¹ Jᵀ F takes, too
    G = squared(problem, rows_over_factor(problem, problem.once(SparseFactor)))
    R = _compliances(motion, law.n_tasks)
    factor = ops.factor(ops.sym_add(problem.relaxed(G), diagonal(ops, R)), is_judged=False)
    F = ops.zeros(problem.n_rows, 1)
    for _ in range(PASSES):
        x = factor.solve(r)
        F, r = F + x, scaled(ops, R, x)
    flags = [problem.flag(k) for k, c in enumerate(problem.constraints) for _ in range(c.size)]
    acting = [float(x) if flag is None else flag * float(x) for x, flag in zip(law.is_force, flags, strict=True)]
    ops.mark("forces of tasks", [F])
    return F + scaled(ops, acting, b), r


def _compliances(motion: DynamicsProblem, n_tasks: int) -> list[Scalar]:
    """Diagonal of ``R``: as it is given, or a part of the mobility of a free body."""
    ops, problem, mass, out = motion.ops, motion.problem, motion.tree.mass, list[Scalar]()
    for k, goal in enumerate(motion.goals):
        if goal.compliance is not None:
            out += column(ops, goal.compliance)
            continue
        factor = (WEAK if k < n_tasks else WEAK * HELD) / (mass or 1.0)
        out += [factor * x for x in problem.row_sizes(k)]
    return out


def _accelerations(problem: Problem, tau: Matrix) -> Matrix:
    """``M⁻¹ τ`` (nv × 1)."""
    L = problem.once(SparseFactor)
    return problem.ops.vstack([problem.ops.zeros(0, 1), *L.solve(L.solve_transpose(tau))])


def _within(motion: DynamicsProblem, tau: Matrix, limits: Sequence[float]) -> Matrix:
    """Joint forces, cut off at their limits."""
    ops, forces = motion.ops, column(motion.ops, tau)
    return from_entries(ops, [clipped(ops, x, -most, most) for x, most in zip(forces, limits, strict=True)])
