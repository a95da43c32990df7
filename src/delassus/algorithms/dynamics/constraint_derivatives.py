"""How what a constraint asks of the accelerations, and its wrenches, change with positions and velocities.

In the axes ``Q`` of its rows (those of its first frame, or the world's) a constraint asks that ``N [Qᵀ L; Qᵀ A]`` is
its target. With ``Δ`` the motion of the first link less that of the second one, *p* the first origin, ``ṗ`` its
velocity:

========  ======================================================================================================
rigid     ``L = Δa_v + Δa_ω × p + Δω × ṗ − ω_1 × e``, ``A = Δa_ω − ω_1 × Δω``, ``e = Δv + Δω × p``; the last terms only
          for rows whose axes turn with the first link
points    ``L`` is the difference of the classical accelerations ``a_v + a_ω × p + ω × ṗ`` of both origins
========  ======================================================================================================

plus Baumgarte's terms: ``β e`` and ``β Δω``, ``α`` times the position errors of `constraint_acceleration`, whose
definitions these are, in one inertial frame, where they can be differentiated term by term.
"""

from __future__ import annotations

from dataclasses import dataclass

from delassus.algorithms import inputs
from delassus.algorithms.dynamics.kinematics import Pose
from delassus.algorithms.dynamics.rates import Rates, force_matrix, motion_matrix
from delassus.algorithms.problem import cross_matrix
from delassus.constraints import Frame
from delassus.model.tree import WORLD
from delassus.spatial.motion import ANGULAR, LINEAR
from delassus.spatial.ops import Matrix, Ops


@dataclass(frozen=True, slots=True, eq=False)
class Moving:
    """A link, or the world, and the frame on it that a constraint meets; 3 × 1 columns in the common frame.

    As a rate, the same of their changes (3 × n_j) with the coordinates of one joint.
    """

    v: Matrix
    w: Matrix
    a: Matrix
    alpha: Matrix
    p: Matrix


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Changes with the coordinates of one joint: of a constraint's rows (m × n_j), of its wrenches on each link."""

    rows: Matrix
    wrenches: dict[int, Matrix]


class ConstraintRates:
    """One constraint in the common frame.

    Attributes
    ----------
    links : tuple of int
        Its two links, `WORLD` among them.
    wrenches : dict of int to (6, 1) matrix
        What it exerts on each, for the forces ``f`` along its rows.
    """

    def __init__(self, rates: Rates, index: int, f: Matrix) -> None:
        motion = rates.motion
        self._rates, self._ops, self._tree = rates, motion.ops, motion.tree
        self._index, self._c = index, motion.problem.constraints[index]
        self._goal = motion.goals[index]
        c, ops = self._c, self._ops
        N = motion.problem.selection(index)
        self._linear, self._angular = ops.take(N, None, LINEAR), ops.take(N, None, ANGULAR)
        self._local = c.axes == "local"
        self._local_angular = self._local or c.angular_axes == "local"
        self.links = c.first.carrier(self._tree), WORLD if c.second is None else c.second.carrier(self._tree)
        self._frame1 = self._place(c.first, "first")
        self._frame2 = None if c.second is None else self._place(c.second, "second")
        if c.second is None and self._goal.pose is not None:
            self._frame2 = self._in_common(WORLD, self._goal.pose)
        world = self._in_common(WORLD, (ops.eye(3), ops.zeros(3, 1)))[0]
        self._Q = self._frame1[0] if self._local else world
        self._Q_angular = self._frame1[0] if self._local_angular else world
        self._first = self._moving(self.links[0], self._frame1[1])
        self._second = self._moving(self.links[1], None if self._frame2 is None else self._frame2[1])
        self._F, self._T = self._Q @ ops.transpose(self._linear) @ f, self._Q_angular @ ops.transpose(self._angular) @ f
        self._L, self._A = self._asked()
        self.wrenches = self._exerted()

    # -- where and how everything moves --------------------------------------------------------------------------------

    def _in_common(self, link: int, pose: Pose) -> Pose:
        rates, (R, p) = self._rates, pose
        if link == rates.root:
            return R, p
        if link == WORLD:
            R0, p0 = rates.motion.problem.pose_between(WORLD, rates.root)
        else:
            R0, p0 = rates.poses[link]
        return R0 @ R, p0 + R0 @ p

    def _place(self, frame: Frame, which: inputs.End) -> Pose:
        pose = self._rates.motion.problem._pose(frame, inputs.placement_name(self._index, which))
        return self._in_common(frame.carrier(self._tree), pose)

    def _moving(self, link: int, p: Matrix | None) -> Moving:
        ops, rates = self._ops, self._rates
        zero = ops.zeros(3, 1)
        p = zero if p is None else p
        if link == WORLD:
            return Moving(zero, zero, zero, zero, p)
        V, a = rates.V[link], rates.a[link]
        true = ops.take(a, LINEAR, None) + rates.gravity
        return Moving(ops.take(V, LINEAR, None), ops.take(V, ANGULAR, None), true, ops.take(a, ANGULAR, None), p)

    def _changed(self, which: int, j: int, positions: bool) -> Moving:
        """Rate of one side with the coordinates of joint j."""
        ops, rates, link, side = self._ops, self._rates, self.links[which], (self._first, self._second)[which]
        S = rates.S[j]
        none = ops.zeros(3, ops.shape(S)[1])
        if link == WORLD or j not in self._tree.support(link):
            return Moving(none, none, none, none, none)
        V, at_V = rates.V[link], motion_matrix(ops, rates.V[link])
        if positions:
            gravity = ops.put(rates.gravity, (6, 1), LINEAR, (0,))
            true, xi = rates.a[link] + gravity, rates.xi[j] + motion_matrix(ops, gravity) @ S
            dV = rates.psi[j] - at_V @ S
            da = xi - motion_matrix(ops, true) @ S - at_V @ rates.psi[j]
            dp = ops.take(S, LINEAR, None) - cross_matrix(ops, side.p) @ ops.take(S, ANGULAR, None)
        else:
            dV, da, dp = S, rates.phi[j] - motion_matrix(ops, V) @ S, none
        parts = [ops.take(x, part, None) for x in (dV, da) for part in (LINEAR, ANGULAR)]
        return Moving(parts[0], parts[1], parts[2], parts[3], dp)

    # -- values --------------------------------------------------------------------------------------------------------

    def _asked(self) -> tuple[Matrix, Matrix]:
        """``L`` and ``A``, Baumgarte's terms included."""
        ops, one, two, goal = self._ops, self._first, self._second, self._goal
        if self._c.rigid:
            d = _difference(one, two)
            e = d.v + _x(ops, d.w, one.p)
            L = d.a + _x(ops, d.alpha, one.p) + _x(ops, d.w, one.v + _x(ops, one.w, one.p))
            L = L - _x(ops, one.w, e) if self._local else L
            A = d.alpha - _x(ops, one.w, d.w) if self._local_angular else d.alpha
        else:
            e = _point_velocity(ops, one) - _point_velocity(ops, two)
            L = _point_acceleration(ops, one) - _point_acceleration(ops, two)
            A, d = ops.zeros(3, 1), one
        if goal.velocity_gain is not None:
            L = L + _times(ops, goal.velocity_gain, e)
            A = A + _times(ops, goal.velocity_gain, d.w) if self._c.rigid else A
        if goal.position_gain is not None and self._frame2 is not None:
            L = L + _times(ops, goal.position_gain, one.p - two.p)
            A = A + _times(ops, goal.position_gain, self._apart()) if self._c.rigid else A
        return L, A

    def _apart(self) -> Matrix:
        """``½ Σ_j R_2 e_j × R_1 e_j``."""
        ops = self._ops
        assert self._frame2 is not None
        R1, R2 = self._frame1[0], self._frame2[0]
        turned = [_x(ops, ops.take(R2, None, (j,)), ops.take(R1, None, (j,))) for j in range(3)]
        return _times(ops, 0.5, turned[0] + turned[1] + turned[2])

    def _exerted(self) -> dict[int, Matrix]:
        on_both = zip(self.links, (self._at(0), self._at(1)), (1.0, -1.0), strict=True)
        return {link: _times(self._ops, sign, self._wrench_at(p)) for link, p, sign in on_both if link != WORLD}

    def _at(self, which: int) -> Matrix:
        """Where the force acts on a link: rigid constraints at the first origin, points at their own."""
        return self._second.p if which and not self._c.rigid else self._first.p

    def _wrench_at(self, p: Matrix) -> Matrix:
        return self._ops.vstack([self._F, _x(self._ops, p, self._F) + self._T])

    # -- rates ---------------------------------------------------------------------------------------------------------

    def joints(self) -> list[int]:
        """Joints that move one of the links."""
        return sorted({j for link in self.links if link != WORLD for j in self._tree.support(link)})

    def columns(self, j: int, positions: bool) -> Columns:
        """Changes with the positions of joint j (its velocities, if not ``positions``)."""
        one, two = self._changed(0, j, positions), self._changed(1, j, positions)
        turn = self._turn(0, j) if positions else None
        L, A = self._asked_changes(one, two)
        if positions and self._c.rigid and self._goal.position_gain is not None and self._frame2 is not None:
            A = A + _times(self._ops, self._goal.position_gain, self._apart_changes(turn, self._turn(1, j)))
        ops = self._ops
        if turn is not None:  # the rows' axes turn
            L = L + cross_matrix(ops, self._L) @ turn if self._local else L
            A = A + cross_matrix(ops, self._A) @ turn if self._local_angular else A
        rows = self._linear @ ops.transpose(self._Q) @ L + self._angular @ ops.transpose(self._Q_angular) @ A
        return Columns(rows, self._exerted_changes(j, one, two, turn) if positions else {})

    def _turn(self, which: int, j: int) -> Matrix | None:
        """Angular part of the joint's axes if it moves that link."""
        link = self.links[which]
        if link == WORLD or j not in self._tree.support(link):
            return None
        return self._ops.take(self._rates.S[j], ANGULAR, None)

    def _asked_changes(self, c1: Moving, c2: Moving) -> tuple[Matrix, Matrix]:
        ops, one, two, goal = self._ops, self._first, self._second, self._goal
        if self._c.rigid:
            d, c = _difference(one, two), _difference(c1, c2)
            e = d.v + _x(ops, d.w, one.p)
            de = c.v + _dx(ops, d.w, c.w, one.p, c1.p)
            speed, dspeed = one.v + _x(ops, one.w, one.p), c1.v + _dx(ops, one.w, c1.w, one.p, c1.p)
            L = c.a + _dx(ops, d.alpha, c.alpha, one.p, c1.p) + _dx(ops, d.w, c.w, speed, dspeed)
            L = L - _dx(ops, one.w, c1.w, e, de) if self._local else L
            A = c.alpha - _dx(ops, one.w, c1.w, d.w, c.w) if self._local_angular else c.alpha
        else:
            de = _point_velocity_change(ops, one, c1) - _point_velocity_change(ops, two, c2)
            L = _point_acceleration_change(ops, one, c1) - _point_acceleration_change(ops, two, c2)
            A, c = ops.zeros(*ops.shape(L)), c1
        if goal.velocity_gain is not None:
            L = L + _times(ops, goal.velocity_gain, de)
            A = A + _times(ops, goal.velocity_gain, c.w) if self._c.rigid else A
        if goal.position_gain is not None and self._frame2 is not None:
            L = L + _times(ops, goal.position_gain, c1.p - c2.p)
        return L, A

    def _apart_changes(self, turn1: Matrix | None, turn2: Matrix | None) -> Matrix:
        """Changes of `_apart` as the two frames turn."""
        ops = self._ops
        assert self._frame2 is not None
        width = next((ops.shape(t)[1] for t in (turn1, turn2) if t is not None), 0)
        total = ops.zeros(3, width)
        for j in range(3):
            x1, x2 = (cross_matrix(ops, ops.take(R, None, (j,))) for R in (self._frame1[0], self._frame2[0]))
            if turn1 is not None:
                total = total - x2 @ x1 @ turn1
            if turn2 is not None:
                total = total + x1 @ x2 @ turn2
        return _times(ops, 0.5, total)

    def _exerted_changes(self, j: int, c1: Moving, c2: Moving, turn: Matrix | None) -> dict[int, Matrix]:
        """Changes of the wrenches beyond ``s_j ×* W`` of links that joint j moves."""
        ops, S = self._ops, self._rates.S[j]
        none = ops.zeros(3, ops.shape(S)[1])
        dF = -cross_matrix(ops, self._F) @ turn if turn is not None and self._local else none
        dT = -cross_matrix(ops, self._T) @ turn if turn is not None and self._local_angular else none
        out: dict[int, Matrix] = {}
        for which, (link, own, sign) in enumerate(zip(self.links, (c1, c2), (1.0, -1.0), strict=True)):
            if which == 0 and self._local and j in self._tree.support(link):
                continue  # a wrench fixed in its link
            if link != WORLD:
                dp = own.p if which and not self._c.rigid else c1.p
                moment = _dx(ops, self._at(which), dp, self._F, dF) + dT
                out[link] = _times(ops, sign, ops.vstack([dF, moment]))
                if j in self._tree.support(link):
                    out[link] = out[link] - force_matrix(ops, self.wrenches[link]) @ S
        return out


def _x(ops: Ops, a: Matrix, b: Matrix) -> Matrix:
    return cross_matrix(ops, a) @ b


def _dx(ops: Ops, a: Matrix, da: Matrix, b: Matrix, db: Matrix) -> Matrix:
    """Change of ``a × b`` with those of ``a`` and ``b``, as columns."""
    return cross_matrix(ops, a) @ db - cross_matrix(ops, b) @ da


def _times(ops: Ops, factor: object, a: Matrix) -> Matrix:
    return ops.matrix([[factor * x for x in row] for row in ops.entries(a)])


def _difference(one: Moving, two: Moving) -> Moving:
    return Moving(one.v - two.v, one.w - two.w, one.a - two.a, one.alpha - two.alpha, one.p)


def _point_velocity(ops: Ops, x: Moving) -> Matrix:
    return x.v + _x(ops, x.w, x.p)


def _point_velocity_change(ops: Ops, x: Moving, c: Moving) -> Matrix:
    return c.v + _dx(ops, x.w, c.w, x.p, c.p)


def _point_acceleration(ops: Ops, x: Moving) -> Matrix:
    return x.a + _x(ops, x.alpha, x.p) + _x(ops, x.w, _point_velocity(ops, x))


def _point_acceleration_change(ops: Ops, x: Moving, c: Moving) -> Matrix:
    speed, dspeed = _point_velocity(ops, x), _point_velocity_change(ops, x, c)
    return c.a + _dx(ops, x.alpha, c.alpha, x.p, c.p) + _dx(ops, x.w, c.w, speed, dspeed)
