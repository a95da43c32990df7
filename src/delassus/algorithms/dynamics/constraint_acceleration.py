"""What a constraint asks of the accelerations: the right-hand side ``k`` of ``Σ K a = k`` over its ends.

Each kind of constraint says what its rows measure, and what it asks for beyond the target and Baumgarte's terms
(`delassus.constraints`). All of it equals ``pinocchio.constraintDynamics`` (CONTACT_6D and CONTACT_3D, to the world and
between joints, LOCAL) at any velocity; the 6D contact of Pinocchio in LOCAL_WORLD_ALIGNED leaves out both velocity
products, and so agrees only where rows have no velocity.

Sources: [LQR] section III-B2 (gravity); Featherstone, Rigid Body Dynamics Algorithms, 8.2 (loops); Baumgarte 1972.
"""

from __future__ import annotations

from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.rnea import accelerations
from delassus.constraints import At, Constraint
from delassus.spatial.motion import scaled
from delassus.spatial.ops import Matrix


def right_hand_sides(motion: DynamicsProblem) -> list[Matrix]:
    """``k`` (m × 1) of each constraint, shifted by gravity as the accelerations are; zero if it is off."""
    flags = [motion.problem.flag(index) for index in range(len(motion.problem.constraints))]
    return [
        k if flag is None else scaled(motion.ops, [flag] * motion.ops.shape(k)[0], k)
        for k, flag in zip(unswitched_right_hand_sides(motion), flags, strict=True)
    ]


def unswitched_right_hand_sides(motion: DynamicsProblem) -> list[Matrix]:
    """Right-hand sides ``k`` (m × 1) of each constraint where no constraint is off."""
    k = [_right_hand_side(c, at) for c, at in motion.each_constraint()]
    motion.ops.mark("constraint accelerations", k)
    return k


def _right_hand_side(c: Constraint, at: At) -> Matrix:
    ops, goal = at.ops, at.goal
    k = ops.zeros(c.size, 1) if goal.target is None else goal.target
    k = k - c.drift(at) - c.gravity(at)
    for gains, error in zip(goal.gains(c.size), (c.velocity, c.position), strict=True):
        if gains is not None:
            k = k - scaled(ops, gains, error(at))
    return k


def row_accelerations(motion: DynamicsProblem, a: list[Matrix], qdd: list[Matrix] | None = None) -> Matrix:
    """``Σ K a + Σ C q̈`` (m × 1) over the ends of each constraint, for accelerations of links and of joints."""
    ops, problem = motion.ops, motion.problem
    rows = [ops.zeros(c.size, 1) for c in problem.constraints]
    for end in problem.end_effectors:
        rows[end.constraint] = rows[end.constraint] + end.K @ a[end.link]
    if qdd is not None:
        for on_joint in problem.joint_space_rows:
            rows[on_joint.constraint] = rows[on_joint.constraint] + on_joint.C @ qdd[on_joint.link]
    return motion.stacked(rows)


def constraint_residual(motion: DynamicsProblem, qdd: list[Matrix]) -> Matrix:
    """``Σ K a + Σ C q̈ − k`` (m × 1): what the rows miss under accelerations of joints."""
    a = accelerations(motion, qdd)
    return row_accelerations(motion, a, qdd) - motion.stacked(right_hand_sides(motion))


def wanted_accelerations(motion: DynamicsProblem) -> Matrix:
    """``γ = k − Σ K a°`` (m × 1), what ``J q̈`` has to be: velocities and gravity alone cause ``a°``."""
    return motion.stacked(right_hand_sides(motion)) - row_accelerations(motion, accelerations(motion))


def jacobian_drift(motion: DynamicsProblem, qdd: list[Matrix] | None = None) -> Matrix:
    """``J̇ v + J q̈`` (m × 1): rate of what the rows measure, by default at ``q̈ = 0``."""
    drifts = [c.velocity_drift(at) + c.gravity(at) for c, at in motion.each_constraint()]
    return motion.stacked(drifts) + row_accelerations(motion, accelerations(motion, qdd), qdd)


def position_errors(motion: DynamicsProblem) -> Matrix:
    """Position errors (m × 1) of constraints along their rows."""
    return motion.stacked([c.position(at) for c, at in motion.each_constraint()])


def row_velocities(motion: DynamicsProblem) -> Matrix:
    """Velocities (m × 1) along the rows of constraints."""
    return motion.stacked([c.velocity(at) for c, at in motion.each_constraint()])
