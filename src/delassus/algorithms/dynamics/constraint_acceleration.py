"""What a constraint asks of the accelerations: the right-hand side ``k`` of ``Σ K a = k`` over its ends.

The rows measure the velocity ``e = v_a − X_ab v_b`` of the first frame *a* relative to the second one *b* (points: of
their origins), and ``k`` is such that

=====================  =============================================================================================
six or five rows,      the components of ``e`` in the axes of *a* do not change: ``N (a_a − X_ab a_b + v_a × X_ab v_b)
any rows; local axes   = 0``; to the world, the *spatial* acceleration vanishes
the same; world axes   the components of ``e`` in the axes of the world do not change: ``ω_a × e`` more
points                 the *classical* accelerations of the two origins are equal, in either axes
distances              their second derivative ``nᵀ r̈ + (ṙᵀ ṙ − (nᵀ ṙ)²) / ‖r‖`` vanishes, ``r = p_a − p_b``
centre of mass         its classical acceleration vanishes
=====================  =============================================================================================

plus the target and Baumgarte's terms. All of it equals ``pinocchio.constraintDynamics`` (CONTACT_6D and CONTACT_3D,
to the world and between joints, LOCAL) at any velocity; the 6D contact of Pinocchio in LOCAL_WORLD_ALIGNED leaves out
both velocity products, and so agrees only where ``e = 0``.

Position errors, whose rate is ``e`` to first order: ``p_a − p_b`` and ``½ Σ_j R_b e_j × R_a e_j`` (the axis of the
rotation from *b* to *a* times the sine of its angle), both zero where the frames coincide; smooth, without branches,
and blind to a half turn. Rows of `Rows` have none. Pinocchio's is the same for points, and ``log6`` of the relative
pose for 6D contacts: equal to first order.

Rows on joints measure ``Σ C v``, and nothing drifts. Their position errors are ``Σ C q − rest``, where the position of
each joint is one number. Distances have ``‖r‖ − length``, centres of mass their way from where they should be.

Sources: [LQR] section III-B2 (gravity); Featherstone, Rigid Body Dynamics Algorithms, 8.2 (loops); Baumgarte 1972.
"""

from __future__ import annotations

from typing import Literal, Union

from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.energy import centre_of_mass
from delassus.algorithms.inputs import ENDS
from delassus.algorithms.problem import End, Pose, compose
from delassus.algorithms.rnea import accelerations
from delassus.constraints import CenterOfMass, Distance, JointRows
from delassus.model.tree import WORLD
from delassus.spatial.motion import ANGULAR, LINEAR, cross, linear_at, motion_cross, scaled
from delassus.spatial.ops import Matrix


def right_hand_sides(motion: DynamicsProblem) -> list[Matrix]:
    """``k`` (m × 1) of each constraint, shifted by gravity as the accelerations are; zero if it is off."""
    flags = [motion.problem.flag(index) for index in range(len(motion.problem.constraints))]
    return [
        k if flag is None else scaled(motion.ops, [flag] * motion.ops.shape(k)[0], k)
        for k, flag in zip(unswitched_right_hand_sides(motion), flags, strict=True)
    ]


def unswitched_right_hand_sides(motion: DynamicsProblem) -> list[Matrix]:
    """The same as they are where no constraint is off."""
    k = [_right_hand_side(motion, index) for index in range(len(motion.problem.constraints))]
    motion.ops.mark("constraint accelerations", k)
    return k


def _right_hand_side(motion: DynamicsProblem, index: int) -> Matrix:
    ops, goal, relative = motion.ops, motion.goals[index], row_motion(motion, index)
    size = motion.problem.constraints[index].size
    k = ops.zeros(size, 1) if goal.target is None else goal.target
    k = k - relative.drift() - relative.gravity()
    if goal.velocity_gain is not None:
        k = k - scaled(ops, [goal.velocity_gain] * size, relative.velocity())
    if goal.position_gain is not None:
        k = k - scaled(ops, [goal.position_gain] * size, relative.position(goal.pose))
    return k


def row_accelerations(motion: DynamicsProblem, a: list[Matrix], qdd: list[Matrix] | None = None) -> Matrix:
    """``Σ K a + Σ C q̈`` (m × 1) over the ends of each constraint, for accelerations of links and of joints."""
    ops, problem = motion.ops, motion.problem
    rows = [ops.zeros(c.size, 1) for c in problem.constraints]
    for end in problem.ends:
        rows[end.constraint] = rows[end.constraint] + end.K @ a[end.link]
    if qdd is not None:
        for on_joint in problem.joint_ends:
            rows[on_joint.constraint] = rows[on_joint.constraint] + on_joint.C @ qdd[on_joint.link]
    return motion.stacked(rows)


def wanted_accelerations(motion: DynamicsProblem) -> Matrix:
    """``γ = k − Σ K a°`` (m × 1), what ``J q̈`` has to be: velocities and gravity alone cause ``a°``."""
    return motion.stacked(right_hand_sides(motion)) - row_accelerations(motion, accelerations(motion))


def jacobian_drift(motion: DynamicsProblem, qdd: list[Matrix] | None = None) -> Matrix:
    """``J̇ v + J q̈`` (m × 1): rate of what the rows measure, by default at ``q̈ = 0``."""
    rows = (row_motion(motion, index) for index in range(len(motion.goals)))
    drifts = [relative.rate() + relative.gravity() for relative in rows]
    return motion.stacked(drifts) + row_accelerations(motion, accelerations(motion, qdd), qdd)


def position_errors(motion: DynamicsProblem) -> Matrix:
    """Position errors (m × 1) of constraints along their rows."""
    return motion.stacked([row_motion(motion, k).position(goal.pose) for k, goal in enumerate(motion.goals)])


def row_velocities(motion: DynamicsProblem) -> Matrix:
    """Velocities (m × 1) along the rows of constraints."""
    return motion.stacked([row_motion(motion, k).velocity() for k in range(len(motion.goals))])


RowMotion = Union["JointMotion", "CentreMotion", "RelativeMotion"]


def row_motion(motion: DynamicsProblem, index: int) -> RowMotion:
    """Motion along the rows of a constraint."""
    c = motion.problem.constraints[index]
    if isinstance(c, JointRows):
        return JointMotion(motion, index)
    if isinstance(c, CenterOfMass):
        return CentreMotion(motion, index)
    return DistanceMotion(motion, index) if isinstance(c, Distance) else RelativeMotion(motion, index)


class JointMotion:
    """Motion of joints along the rows of a constraint (m_c × 1); the acceleration is that of joints alone."""

    def __init__(self, motion: DynamicsProblem, index: int) -> None:
        self._motion, self._ops, self._c = motion, motion.ops, motion.problem.joint_rows(index)
        self._zero = motion.ops.zeros(self._c.size, 1)
        self._ends = [end for end in motion.problem.unswitched_joint_ends if end.constraint == index]

    def drift(self) -> Matrix:
        """Part of the rows' acceleration that velocities alone cause: none."""
        return self._zero

    def rate(self) -> Matrix:
        """What velocities alone add to the rate of `velocity`: nothing."""
        return self._zero

    def gravity(self) -> Matrix:
        """What gravity adds to the rows' acceleration: nothing."""
        return self._zero

    def velocity(self) -> Matrix:
        """``Σ C v``."""
        e = self._zero
        for end in self._ends:
            e = e + end.C @ self._motion.v[end.link]
        return e

    def position(self, goal: Pose | None) -> Matrix:
        """``Σ C q − rest`` of rows whose joints all have positions of one number; zero of others."""
        ops, problem, tree = self._ops, self._motion.problem, self._motion.tree
        e = ops.constant(-(self._c.measured(tree) * self._c.rest)[:, None])
        for i, C in self._c.position_coefficients(tree).items():
            e = e + ops.constant(C) @ ops.matrix([[problem.coordinate(tree.q_slices[i].start)]])
        return e


class CentreMotion:
    """Motion of the centre of mass (3 × 1), in the axes of the world."""

    def __init__(self, motion: DynamicsProblem, index: int) -> None:
        self._motion, self._ops = motion, motion.ops
        self._ends = [end for end in motion.problem.unswitched_ends if end.constraint == index]

    def drift(self) -> Matrix:
        """Acceleration that velocities alone cause, beside that of links: ``Σ R ω × K V``."""
        drift = self._ops.zeros(3, 1)
        for end in self._ends:
            drift = drift + self._turning(end)
        return drift

    def _turning(self, end: End) -> Matrix:
        """``R ω × h / m`` of a link with the momentum ``h``, ``R h / m`` being its share ``K V``."""
        ops, V = self._ops, self._motion.V[end.link]
        R = self._motion.problem.turns[end.link]
        return cross(ops, R @ ops.take(V, ANGULAR, None), end.K @ V)

    def rate(self) -> Matrix:
        """The same: axes do not turn."""
        return self.drift()

    def gravity(self) -> Matrix:
        """What gravity adds to its acceleration."""
        return self._motion.gravity

    def velocity(self) -> Matrix:
        """Its velocity."""
        e = self._ops.zeros(3, 1)
        for end in self._ends:
            e = e + end.K @ self._motion.V[end.link]
        return e

    def position(self, goal: Pose | None) -> Matrix:
        """Its way from where it should be; zero if nothing says where that is."""
        return self._ops.zeros(3, 1) if goal is None else centre_of_mass(self._motion.problem) - goal[1]


class RelativeMotion:
    """Motion of a constraint's first frame relative to its second one, along its rows (m_c × 1).

    Rows are applied in the body frame of the *carrier*: the first frame's link, or the second one's if the first frame
    is on the world. There, ``K`` is the rows' own matrix, whatever axes they are given in.
    """

    def __init__(self, motion: DynamicsProblem, index: int) -> None:
        self._motion, self._problem, self._ops = motion, motion.problem, motion.ops
        self._index, self._c = index, motion.problem.frame_constraint(index)
        self._zero = motion.ops.zeros(self._c.size, 1)
        ends = [end for end in motion.problem.unswitched_ends if end.constraint == index]
        self._first: End | None = ends.pop(0) if self._c.first.carrier(motion.tree) != WORLD else None
        self._second: End | None = ends.pop(0) if ends else None
        self._ends = [end for end in (self._first, self._second) if end is not None]
        self._carrier = WORLD
        if self._ends:
            self._carrier, K = self._ends[0].link, self._ends[0].K
            self._K = -K if self._first is None else K

    def drift(self) -> Matrix:
        """Part of the rows' acceleration that velocities alone cause."""
        if not self._c.rigid:
            return self._drift_of_points()
        if self._first is None:
            return self._zero
        ops, V = self._ops, self._motion.V[self._carrier]
        W = ops.zeros(6, 1) if self._second is None else self._carried(self._second)
        drift = self._K @ motion_cross(ops, V, W)
        if self._c.axes == "world":  # ω × e
            w, p, e = ops.take(V, ANGULAR, None), self._problem.frame_pose(self._index, "first")[1], V - W
            drift = drift + self._linear(self._K) @ cross(ops, w, linear_at(ops, e, p))
            if self._c.angular_axes == "world":
                turned = cross(ops, w, ops.take(e, ANGULAR, None))
                drift = drift + self._K @ ops.vstack([cross(ops, p, turned), turned])
        return drift

    def rate(self) -> Matrix:
        """What velocities alone add to the rate of `velocity`: of points, axes of the first frame turn with it."""
        if self._c.rigid or self._c.axes == "world" or self._first is None:
            return self.drift()
        ops, V = self._ops, self._motion.V[self._carrier]
        e = linear_at(ops, V, self._problem.frame_pose(self._index, "first")[1])
        if self._second is not None:
            W, p = self._motion.V[self._second.link], self._problem.frame_pose(self._index, "second")[1]
            R = self._problem.pose_between(self._carrier, self._second.link)[0]
            e = e - ops.transpose(R) @ linear_at(ops, W, p)
        return self.drift() - self._linear(self._K) @ cross(ops, ops.take(V, ANGULAR, None), e)

    def _drift_of_points(self) -> Matrix:
        """``ω × ṗ`` of both origins."""
        ops, drift = self._ops, self._zero
        for end, which in zip((self._first, self._second), ENDS, strict=True):
            if end is not None:
                V, p = self._motion.V[end.link], self._problem.frame_pose(self._index, which)[1]
                drift = drift + self._linear(end.K) @ cross(ops, ops.take(V, ANGULAR, None), linear_at(ops, V, p))
        return drift

    def gravity(self) -> Matrix:
        """What gravity adds to the rows' acceleration; between two links, nothing."""
        if len(self._ends) != 1:
            return self._zero
        return self._linear(self._ends[0].K) @ gravity_in(self._motion, self._carrier)

    def velocity(self) -> Matrix:
        """``e`` along the rows."""
        e = self._zero
        for end in self._ends:
            e = e + end.K @ self._motion.V[end.link]
        return e

    def position(self, goal: Pose | None) -> Matrix:
        """Position error along the rows; zero where nothing says what it is relative to."""
        ops = self._ops
        if self._carrier == WORLD or (self._c.second is None and goal is None):
            return self._zero
        R1, p1 = self._seen_from_carrier("first")
        if goal is not None and self._c.second is None:
            R2, p2 = compose(self._problem.pose_between(WORLD, self._carrier), goal)
        else:
            R2, p2 = self._seen_from_carrier("second")
        if not self._c.rigid:
            return self._linear(self._K) @ (p1 - p2)
        turned = [cross(ops, ops.take(R2, None, (j,)), ops.take(R1, None, (j,))) for j in range(3)]
        angle = scaled(ops, [0.5] * 3, turned[0] + turned[1] + turned[2])
        return self._K @ ops.vstack([p1 - p2 + cross(ops, p1, angle), angle])

    def _linear(self, K: Matrix) -> Matrix:
        """Columns that linear motion meets."""
        return self._ops.take(K, None, LINEAR)

    def _seen_from_carrier(self, which: Literal["first", "second"]) -> Pose:
        """Pose of a frame in the body frame of the carrier."""
        frame, pose = (
            self._c.first if which == "first" else self._c.second,
            self._problem.frame_pose(self._index, which),
        )
        assert frame is not None, "the constraint has a second frame"
        link = frame.carrier(self._motion.tree)
        return pose if link == self._carrier else compose(self._problem.pose_between(link, self._carrier), pose)

    def _carried(self, end: End) -> Matrix:
        """Twist of an end's link, in the carrier's body frame."""
        ops, V = self._ops, self._motion.V[end.link]
        R, p = self._problem.pose_between(self._carrier, end.link)
        back = ops.transpose(R)
        return ops.vstack([back @ linear_at(ops, V, p), back @ ops.take(V, ANGULAR, None)])


class DistanceMotion(RelativeMotion):
    """Motion of two origins along the line between them (1 × 1)."""

    def drift(self) -> Matrix:
        """``nᵀ`` of what velocities alone cause, and ``(ṙᵀ ṙ − (nᵀ ṙ)²) / ‖r‖``."""
        ops, (_, length) = self._ops, self._problem.line(self._index)
        r = self._rate_of_way()
        ((square,),), ((along,),) = ops.entries(ops.transpose(r) @ r), ops.entries(self.velocity())
        return super().drift() + ops.matrix([[(square - along * along) * (1.0 / length)]])

    def rate(self) -> Matrix:
        """The same: what the row measures is a number."""
        return self.drift()

    def position(self, goal: Pose | None) -> Matrix:
        """``‖r‖ − length``; zero without a length."""
        c, (_, length) = self._c, self._problem.line(self._index)
        assert isinstance(c, Distance), c
        return self._zero if c.length is None else self._ops.matrix([[length - c.length]])

    def _rate_of_way(self) -> Matrix:
        """``ṙ`` (3 × 1), in the axes of the carrier but for the sign."""
        ops, out = self._ops, self._ops.zeros(3, 1)
        for end, which in zip((self._first, self._second), ENDS, strict=True):
            if end is not None:
                p = self._problem.frame_pose(self._index, which)[1]
                velocity = linear_at(ops, self._motion.V[end.link], p)
                if end.link != self._carrier:
                    velocity = -(self._problem.pose_between(end.link, self._carrier)[0] @ velocity)
                out = out + velocity
        return out


def gravity_in(motion: DynamicsProblem, link: int) -> Matrix:
    """Gravity (3 × 1) in the axes of a link."""
    ops = motion.ops
    g = ops.put(motion.gravity, (6, 1), LINEAR, (0,))
    for i in motion.tree.support(link):
        g = motion.problem.X[i].motions_to_child(g)
    return ops.take(g, LINEAR, None)
