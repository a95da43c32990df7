"""How what a constraint asks of the accelerations, and its wrenches, change with positions and velocities.

In the axes ``Q`` of its rows (those of its first frame, or the world's) a constraint asks that ``N [Qᵀ L; Qᵀ A]`` is
its target. With ``Δ`` the motion of the first link less that of the second one, *p* the first origin, ``ṗ`` its
velocity:

========  ======================================================================================================
rigid     ``L = Δa_v + Δa_ω × p + Δω × ṗ − ω_1 × e``, ``A = Δa_ω − ω_1 × Δω``, ``e = Δv + Δω × p``; the last terms only
          for rows whose axes turn with the first link
points    ``L`` is the difference of the classical accelerations ``a_v + a_ω × p + ω × ṗ`` of both origins
========  ======================================================================================================

Rows on joints ask for ``Σ C q̈``, whose coefficients are constant, and exert no wrenches. To both are added Baumgarte's
terms: ``β e`` and ``β Δω``, ``α`` times the position errors of `constraint_acceleration`, whose
definitions these are, in one inertial frame. Each vector carries its changes, by the rules of sums and products.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from delassus.algorithms.dynamics.derivatives.rates import Rates, force_matrix, motion_matrix
from delassus.algorithms.problem import Pose
from delassus.constraints import CenterOfMass, Distance, JointRows
from delassus.model.tree import WORLD
from delassus.spatial.motion import ANGULAR, LINEAR, cross_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """A vector (3 × 1) in the common frame, and its changes (3 × nv)."""

    ops: Ops
    value: Matrix
    change: Matrix

    def __add__(self, other: Vector) -> Vector:
        return Vector(self.ops, self.value + other.value, self.change + other.change)

    def __sub__(self, other: Vector) -> Vector:
        return Vector(self.ops, self.value - other.value, self.change - other.change)

    def __neg__(self) -> Vector:
        return Vector(self.ops, -self.value, -self.change)

    def cross(self, other: Vector) -> Vector:
        """``a × b``, ``a × ∂b − b × ∂a``."""
        a, b = cross_matrix(self.ops, self.value), cross_matrix(self.ops, other.value)
        return Vector(self.ops, a @ other.value, a @ other.change - b @ self.change)

    def dot(self, other: Vector) -> tuple[Matrix, Matrix]:
        """``aᵀ b`` (1 × 1), and its changes (1 × nv)."""
        at, bt = self.ops.transpose(self.value), self.ops.transpose(other.value)
        return at @ other.value, at @ other.change + bt @ self.change

    def times(self, factor: Scalar) -> Vector:
        """The vector scaled."""
        by = self.ops.matrix([[factor if i == j else 0.0 for j in range(3)] for i in range(3)])
        return Vector(self.ops, by @ self.value, by @ self.change)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """A link, or the world: its twist, its acceleration, and the origin of the constraint's frame on it."""

    v: Vector
    w: Vector
    a: Vector
    alpha: Vector
    p: Vector

    def velocity(self) -> Vector:
        """``ṗ``."""
        return self.v + self.w.cross(self.p)

    def acceleration(self) -> Vector:
        """``p̈``."""
        return self.a + self.alpha.cross(self.p) + self.w.cross(self.velocity())


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintRates:
    """Changes (m_c × nv) of the rows; by link the wrench (6 × 1) exerted on it, and its changes (6 × nv).

    The latter are those beyond what a wrench that is fixed in the link has; none where there are no others.
    """

    rows: Matrix
    wrenches: dict[int, Matrix]
    wrench_changes: dict[int, Matrix]


def constraint_rates(rates: Rates, index: int, f: Matrix, *, positions: bool) -> ConstraintRates:
    """One constraint with the forces ``f`` along its rows: changes with positions, or else with velocities."""
    motion, problem, ops, tree = rates.motion, rates.motion.problem, rates.motion.ops, rates.motion.tree
    if isinstance(problem.constraints[index], JointRows):
        return ConstraintRates(_joint_rates(rates, index, positions), {}, {})
    if isinstance(problem.constraints[index], CenterOfMass):
        return _centre_rates(rates, index, f, positions)
    c, goal, none = problem.frame_constraint(index), motion.goals[index], ops.zeros(3, tree.nv)
    links = c.first.carrier(tree), WORLD if c.second is None else c.second.carrier(tree)
    frame1 = rates.in_common(links[0], problem.frame_pose(index, "first"))
    pose2 = goal.pose if c.second is None else problem.frame_pose(index, "second")
    frame2 = None if pose2 is None else rates.in_common(links[1], pose2)
    one = _side(rates, links[0], frame1[1], positions)
    two = _side(rates, links[1], ops.zeros(3, 1) if frame2 is None else frame2[1], positions)
    turns = [ops.take(rates.of_link(link, rates.S), ANGULAR, None) if positions else none for link in links]

    # L and A
    local, local_angular = c.axes == "local", "local" in (c.axes, c.angular_axes)
    A = dw = Vector(ops, ops.zeros(3, 1), none)
    if c.rigid:
        dw = one.w - two.w
        e = (one.v - two.v) + dw.cross(one.p)
        L = (one.a - two.a) + (one.alpha - two.alpha).cross(one.p) + dw.cross(one.velocity())
        L = L - one.w.cross(e) if local else L
        A = one.alpha - two.alpha
        A = A - one.w.cross(dw) if local_angular else A
    else:
        e, L = one.velocity() - two.velocity(), one.acceleration() - two.acceleration()
    if isinstance(c, Distance):
        return _distance_rates(rates, index, f, positions, (one, two), links, (e, L))
    if goal.velocity_gain is not None:
        L, A = L + e.times(goal.velocity_gain), A + dw.times(goal.velocity_gain)
    if goal.position_gain is not None and frame2 is not None:
        L = L + (one.p - two.p).times(goal.position_gain)
        A = A + _angle(ops, frame1, frame2, turns).times(goal.position_gain) if c.rigid else A

    # rows N [Qᵀ L; Qᵀ A], whose axes may turn
    N, world = problem.selection(index), rates.in_common(WORLD, (ops.eye(3), ops.zeros(3, 1)))[0]
    linear, angular = ops.take(N, None, LINEAR), ops.take(N, None, ANGULAR)
    Q, Q_angular = frame1[0] if local else world, frame1[0] if local_angular else world
    turn, turn_angular = turns[0] if local else none, turns[0] if local_angular else none
    rows = linear @ ops.transpose(Q) @ (L.change + cross_matrix(ops, L.value) @ turn)
    rows = rows + angular @ ops.transpose(Q_angular) @ (A.change + cross_matrix(ops, A.value) @ turn_angular)

    # wrenches [F; p × F + T]: of rigid constraints at the first origin, of points at each link's own
    F, T = Q @ ops.transpose(linear) @ f, Q_angular @ ops.transpose(angular) @ f
    force = Vector(ops, F, -cross_matrix(ops, F) @ turn)
    moment = Vector(ops, T, -cross_matrix(ops, T) @ turn_angular)

    def acting() -> Iterator[tuple[int, Vector, Vector, bool]]:
        yield links[0], force, one.p.cross(force) + moment, not local  # else it is fixed in its link
        reaction, p, turned = -force, one.p if c.rigid else two.p, -moment
        yield links[1], reaction, p.cross(reaction) + turned, True

    return ConstraintRates(rows, *_wrenches(rates, positions, acting()))


def _wrenches(
    rates: Rates, positions: bool, acting: Iterable[tuple[int, Vector, Vector, bool]]
) -> tuple[dict[int, Matrix], dict[int, Matrix]]:
    """Wrenches by link, and their changes, of forces and moments about the common origin; whether they change."""
    ops, wrenches, changes = rates.motion.ops, dict[int, Matrix](), dict[int, Matrix]()
    for link, force, about, turns in acting:
        if link != WORLD:
            W = wrenches[link] = ops.vstack([force.value, about.value])
            if positions and turns:
                S = rates.of_link(link, rates.S)
                changes[link] = ops.vstack([force.change, about.change]) - force_matrix(ops, W) @ S
    return wrenches, changes


def _distance_rates(
    rates: Rates,
    index: int,
    f: Matrix,
    positions: bool,
    sides: tuple[Side, Side],
    links: tuple[int, int],
    relative: tuple[Vector, Vector],
) -> ConstraintRates:
    """``nᵀ r̈ + (ṙᵀ ṙ − (nᵀ ṙ)²) / ‖r‖``, ``∂n = (1 − n nᵀ) ∂r / ‖r‖``, and the force ``n f`` between the origins."""
    ops, goal, c = rates.motion.ops, rates.motion.goals[index], rates.motion.problem.frame_constraint(index)
    assert isinstance(c, Distance), c
    r, (e, acceleration) = sides[0].p - sides[1].p, relative
    length = ops.sqrt(ops.entries(r.dot(r)[0])[0][0])
    one_over = ops.matrix([[1.0 / length]])
    value = r.value @ one_over
    along = ops.transpose(value) @ r.change
    n = Vector(ops, value, r.times(1.0 / length).change - value @ one_over @ along)
    (speed, d_speed), (square, d_square), (_, rows) = n.dot(e), e.dot(e), n.dot(acceleration)
    rows = rows + one_over @ (d_square - (speed + speed) @ d_speed)
    rows = rows - one_over @ one_over @ (square - speed @ speed) @ along
    if goal.velocity_gain is not None:
        rows = rows + ops.matrix([[goal.velocity_gain]]) @ d_speed
    if goal.position_gain is not None and c.length is not None:
        rows = rows + ops.matrix([[goal.position_gain]]) @ along
    force = n.times(ops.entries(f)[0][0])

    def acting() -> Iterator[tuple[int, Vector, Vector, bool]]:
        for link, side, push in zip(links, sides, (force, -force), strict=True):
            yield link, push, side.p.cross(push), True

    return ConstraintRates(rows, *_wrenches(rates, positions, acting()))


def _centre_rates(rates: Rates, index: int, f: Matrix, positions: bool) -> ConstraintRates:
    """``Σ m_i c̈_i / m``: each link by its first moment, which takes the place of an origin; its force is its share."""
    ops, tree, goal = rates.motion.ops, rates.motion.tree, rates.motion.goals[index]
    none = ops.zeros(3, tree.nv)
    L = Vector(ops, ops.zeros(3, 1), none)
    mass, moments = list[Scalar](), list[Vector]()
    for i, body in enumerate(rates.bodies):
        side, S = _side(rates, i, ops.zeros(3, 1), positions), rates.of_link(i, rates.S)
        m = ops.entries(body.m)[0][0]
        linear, turned = Vector(ops, body.h, ops.take(S, LINEAR, None)).times(m).change, ops.take(S, ANGULAR, None)
        h = Vector(ops, body.h, linear - cross_matrix(ops, body.h) @ turned if positions else none)
        velocity = side.v.times(m) + side.w.cross(h)
        L = L + side.a.times(m) + side.alpha.cross(h) + side.w.cross(velocity)
        if goal.velocity_gain is not None:
            L = L + velocity.times(goal.velocity_gain)
        if goal.position_gain is not None and goal.pose is not None:
            L = L + h.times(goal.position_gain)
        mass.append(m)
        moments.append(h)
    one_over = 1.0 / sum(mass)
    world = rates.in_common(WORLD, (ops.eye(3), ops.zeros(3, 1)))[0]
    F = Vector(ops, world @ f, none).times(one_over)

    def acting() -> Iterator[tuple[int, Vector, Vector, bool]]:
        for i, (m, h) in enumerate(zip(mass, moments, strict=True)):
            yield i, F.times(m), h.cross(F), True

    return ConstraintRates(ops.transpose(world) @ L.times(one_over).change, *_wrenches(rates, positions, acting()))


def _joint_rates(rates: Rates, index: int, positions: bool) -> Matrix:
    """Changes (m_c × nv) of rows on joints: Baumgarte's terms, and what `Rates` leaves out of a floating root."""
    motion, ops, tree = rates.motion, rates.motion.ops, rates.motion.tree
    c, goal, slices = motion.problem.joint_rows(index), motion.goals[index], tree.v_slices
    C, rows = c.coefficients(tree), ops.zeros(c.size, tree.nv)
    if rates.root in C:
        drift = rates.drift_q if positions else rates.drift_v
        rows = rows - ops.put(ops.constant(C[rates.root]) @ drift, (c.size, tree.nv), range(c.size), range(6))
    gain, met = (goal.position_gain, c.position_coefficients(tree)) if positions else (goal.velocity_gain, C)
    for i, coefficients in met.items() if gain is not None else ():
        weighed = ops.matrix([[gain * x for x in row] for row in coefficients.tolist()])
        rows = rows + ops.put(weighed, (c.size, tree.nv), range(c.size), range(slices[i].start, slices[i].stop))
    return rows


def _side(rates: Rates, link: int, p: Matrix, positions: bool) -> Side:
    ops, nv = rates.motion.ops, rates.motion.tree.nv
    if link == WORLD:
        still = Vector(ops, ops.zeros(3, 1), ops.zeros(3, nv))
        return Side(still, still, still, still, Vector(ops, p, ops.zeros(3, nv)))
    gravity = ops.put(rates.gravity, (6, 1), LINEAR, (0,))
    V, a = rates.V[link], rates.a[link] + gravity
    S, psi, xi, phi = (rates.of_link(link, columns) for columns in (rates.S, rates.psi, rates.xi, rates.phi))
    at_V = motion_matrix(ops, V)
    if positions:
        dV = psi - at_V @ S
        da = (xi + motion_matrix(ops, gravity) @ S) - motion_matrix(ops, a) @ S - at_V @ psi
        dp = ops.take(S, LINEAR, None) - cross_matrix(ops, p) @ ops.take(S, ANGULAR, None)
    else:
        dV, da, dp = S, phi - at_V @ S, ops.zeros(3, nv)
    v, w, a_v, a_w = (
        Vector(ops, ops.take(x, part, None), ops.take(dx, part, None))
        for x, dx in ((V, dV), (a, da))
        for part in (LINEAR, ANGULAR)
    )
    return Side(v, w, a_v, a_w, Vector(ops, p, dp))


def _angle(ops: Ops, frame1: Pose, frame2: Pose, turns: Sequence[Matrix]) -> Vector:
    """``½ Σ_j R_2 e_j × R_1 e_j``."""
    value, M = ops.zeros(3, 1), ops.zeros(3, 3)
    for j in range(3):
        x1, x2 = ops.take(frame1[0], None, (j,)), cross_matrix(ops, ops.take(frame2[0], None, (j,)))
        value, M = value + x2 @ x1, M + x2 @ cross_matrix(ops, x1)
    return Vector(ops, value, ops.transpose(M) @ turns[1] - M @ turns[0]).times(0.5)
