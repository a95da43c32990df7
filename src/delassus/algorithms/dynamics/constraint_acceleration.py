"""What a constraint asks of the accelerations: the right-hand side ``k`` of ``Σ K a = k`` over its ends.

The rows measure the velocity ``e = v_a − X_ab v_b`` of the first frame *a* relative to the second one *b* (points: of
their origins), and ``k`` is such that

=====================  =============================================================================================
six or five rows,      the components of ``e`` in the axes of *a* do not change: ``N (a_a − X_ab a_b + v_a × X_ab v_b)
any rows; local axes   = 0``; to the world, the *spatial* acceleration vanishes
the same; world axes   the components of ``e`` in the axes of the world do not change: ``ω_a × e`` more
points                 the *classical* accelerations of the two origins are equal, in either axes
=====================  =============================================================================================

plus the target and Baumgarte's terms. All of it equals ``pinocchio.constraintDynamics`` (CONTACT_6D and CONTACT_3D,
to the world and between joints, LOCAL) at any velocity; the 6D contact of Pinocchio in LOCAL_WORLD_ALIGNED leaves out
both velocity products, and so agrees only where ``e = 0``.

Position errors, whose rate is ``e`` to first order: ``p_a − p_b`` and ``½ Σ_j R_b e_j × R_a e_j`` (the axis of the
rotation from *b* to *a* times the sine of its angle), both zero where the frames coincide; smooth, without branches,
and blind to a half turn. Rows of `Rows` have none. Pinocchio's is the same for points, and ``log6`` of the relative
pose for 6D contacts: equal to first order.

Sources: [LQR] section III-B2 (gravity); Featherstone, Rigid Body Dynamics Algorithms, 8.2 (loops); Baumgarte 1972.
"""

from __future__ import annotations

from delassus.algorithms import inputs
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import End
from delassus.constraints import Frame
from delassus.model.tree import WORLD
from delassus.spatial.motion import ANGULAR, LINEAR, cross, linear_at, motion_cross, scaled
from delassus.spatial.ops import Matrix, Ops

Pose = tuple[Matrix, Matrix]
"""Rotation (3 × 3) and origin (3 × 1)."""

Side = tuple[End | None, Frame | None, inputs.End]
"""One of the two frames of a constraint, with its end-effector if its link moves."""


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
    ops, goal = motion.ops, motion.goals[index]
    relative = RelativeMotion(motion, index)
    size = motion.problem.constraints[index].size
    k = ops.zeros(size, 1) if goal.target is None else goal.target
    for term in (relative.drift(), relative.gravity()):
        if term is not None:
            k = k - term
    if goal.velocity_gain is not None:
        error = relative.velocity()
        k = k if error is None else k - scaled(ops, [goal.velocity_gain] * size, error)
    if goal.position_gain is not None:
        error = relative.position(goal.pose)
        k = k if error is None else k - scaled(ops, [goal.position_gain] * size, error)
    return k


class RelativeMotion:
    """Motion of a constraint's first frame relative to its second one, along its rows.

    Rows are applied in the body frame of the *carrier*: the first frame's link, or the second one's if the first frame
    is on the world. There, ``K`` is the rows' own matrix, whatever axes they are given in.
    """

    def __init__(self, motion: DynamicsProblem, index: int) -> None:
        self._motion, self._ops = motion, motion.ops
        self._index = index
        self._c = c = motion.problem.constraints[index]
        ends = [end for end in motion.problem.unswitched_ends if end.constraint == index]
        self._first: End | None = ends.pop(0) if c.first.carrier(motion.tree) != WORLD else None
        self._second: End | None = ends.pop(0) if ends else None
        self._carrier = WORLD
        if self._first is not None:
            self._carrier, self._K = self._first.link, self._first.K
        elif self._second is not None:
            self._carrier, self._K = self._second.link, -self._second.K

    def drift(self) -> Matrix | None:
        """Part of the rows' acceleration that velocities alone cause; None if there is none."""
        if not self._c.rigid:
            return self._drift_of_points()
        if self._first is None:
            return None
        ops, V = self._ops, self._motion.V[self._carrier]
        W = None if self._second is None else self._carried(self._second)
        terms = [] if W is None else [self._K @ motion_cross(ops, V, W)]
        if self._c.axes == "world":
            w, p = ops.take(V, ANGULAR, None), self._place(self._c.first, "first")[1]
            e = V if W is None else V - W
            terms.append(self._linear(self._K) @ cross(ops, w, linear_at(ops, e, p)))
            if W is not None and self._c.angular_axes == "world":
                turned = cross(ops, w, ops.take(e, ANGULAR, None))
                terms.append(self._K @ ops.vstack([cross(ops, p, turned), turned]))
        return _sum(terms)

    def _drift_of_points(self) -> Matrix | None:
        ops, terms = self._ops, []
        sides: tuple[Side, ...] = (self._first, self._c.first, "first"), (self._second, self._c.second, "second")
        for end, frame, which in sides:
            if end is not None and frame is not None:
                V = self._motion.V[end.link]
                point = linear_at(ops, V, self._place(frame, which)[1])
                terms.append(self._linear(end.K) @ cross(ops, ops.take(V, ANGULAR, None), point))
        return _sum(terms)

    def gravity(self) -> Matrix | None:
        """What gravity adds to the rows' acceleration; between two links, nothing."""
        ends = [end for end in (self._first, self._second) if end is not None]
        if len(ends) != 1:
            return None
        return self._linear(ends[0].K) @ gravity_in(self._motion, self._carrier)

    def velocity(self) -> Matrix | None:
        """``e`` along the rows."""
        return _sum([end.K @ self._motion.V[end.link] for end in (self._first, self._second) if end is not None])

    def position(self, goal: Pose | None) -> Matrix | None:
        """Position error along the rows; None where nothing says what it is relative to."""
        ops = self._ops
        if self._carrier == WORLD:
            return None
        if self._c.second is not None:
            R2, p2 = self._seen_from_carrier(self._c.second, "second")
        elif goal is not None:
            R2, p2 = _compose(ops, self._motion.problem.pose_between(WORLD, self._carrier), goal)
        else:
            return None
        R1, p1 = self._seen_from_carrier(self._c.first, "first")
        apart = p1 - p2
        if not self._c.rigid:
            return self._linear(self._K) @ apart
        turned = [cross(ops, ops.take(R2, None, (j,)), ops.take(R1, None, (j,))) for j in range(3)]
        angle = scaled(ops, [0.5] * 3, turned[0] + turned[1] + turned[2])
        return self._K @ ops.vstack([apart + cross(ops, p1, angle), angle])

    def _linear(self, K: Matrix) -> Matrix:
        """Columns that linear motion meets."""
        return self._ops.take(K, None, LINEAR)

    def _place(self, frame: Frame, which: inputs.End) -> Pose:
        """Pose of a frame in the body frame of its link."""
        return self._motion.problem._pose(frame, inputs.placement_name(self._index, which))

    def _seen_from_carrier(self, frame: Frame, which: inputs.End) -> Pose:
        link = frame.carrier(self._motion.tree)
        place = self._place(frame, which)
        if link == self._carrier:
            return place
        return _compose(self._ops, self._motion.problem.pose_between(link, self._carrier), place)

    def _carried(self, end: End) -> Matrix:
        """Twist of an end's link, in the carrier's body frame."""
        ops, V = self._ops, self._motion.V[end.link]
        R, p = self._motion.problem.pose_between(self._carrier, end.link)
        back = ops.transpose(R)
        return ops.vstack([back @ linear_at(ops, V, p), back @ ops.take(V, ANGULAR, None)])


def gravity_in(motion: DynamicsProblem, link: int) -> Matrix:
    """Gravity (3 × 1) in the axes of a link."""
    ops = motion.ops
    g = ops.put(motion.gravity, (6, 1), LINEAR, (0,))
    for i in motion.tree.support(link):
        g = motion.problem.X[i].motions_to_child(g)
    return ops.take(g, LINEAR, None)


def _compose(ops: Ops, outer: Pose, inner: Pose) -> Pose:
    return outer[0] @ inner[0], outer[1] + outer[0] @ inner[1]


def _sum(terms: list[Matrix]) -> Matrix | None:
    total: Matrix | None = None
    for term in terms:
        total = term if total is None else total + term
    return total
