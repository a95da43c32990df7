"""Smooth motion of links that loops tie over a time step, its velocity products and loops resolved in time.

Links of little mass in loops, such as gimbals at the ends of rods, turn much faster than what they hang on. A step that
is explicit in their velocity products throws them apart, so the motion without contacts is integrated by sub-steps of
the Runge-Kutta pair of Bogacki and Shampine (orders 3 and 2), as long as an estimate of their error allows:

    u̇ = dexp⁻¹(u) w,    ẇ = q̈ − M⁻¹ Jᵀ G⁺ (J q̈ + ρ),    q = q₀ ⊕ u,

with ``q̈`` the acceleration without loops, ``ρ`` the rate ``J̇ v``, ``G = J M⁻¹ Jᵀ`` of the rows ``J`` of the loops, and
the velocity ``w`` in the axes of the start of the step, which do not turn. After each sub-step the error of the loops'
positions and velocities is taken back, along displacements of least kinetic energy. The errors that count are those of
the energy, ``vᵀ M δw + q̈ᵀ M δu``, and the gap of the loops before it is taken back. Bodies that the user moves have no
energy there (`delassus.model.kinematics.HEAVY`): all of it would be theirs.

A pass of the one loop is a stage: at the start of the step with its velocity, and once more with what loops leave of it
if that is another one; then three for each sub-step that is tried.

Contacts, limits and friction of joints act on the whole step, by the geometry of its start.

Sources: Bogacki and Shampine 1989; Hairer, Lubich, Wanner, Geometric Numerical Integration, IV.4 (projection) and
IV.8 (``dexp``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from itertools import islice
from typing import Any, NamedTuple, cast

from delassus.algorithms.dynamics.constraint_acceleration import position_errors
from delassus.algorithms.dynamics.ltl import JointSpace
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.loops.impulses import LoopImpulses
from delassus.algorithms.operational_space_compliance import straight_accelerations, straight_drift
from delassus.model.kinematics import heavy_links
from delassus.spatial.dual_ops import Dual, Rates, rates_of, value
from delassus.spatial.joints import Joint
from delassus.spatial.motion import chosen, column, dot, from_entries, minus, plus, plus_scaled
from delassus.spatial.ops import Matrix, Ops, Scalar

State = list[Scalar]


class Tuning(NamedTuple):
    """Numbers of `smooth_motion`."""

    energy_tolerance: float = 1e-5
    """Error of the energy over a step that sub-steps may make, over the kinetic energy."""
    gap_tolerance: float = 2e-5
    """Gap of loops (lengths of the robot, rad) that a sub-step may leave before it is taken back."""
    closed: float = 2e-2
    """Errors of loops (lengths of the robot, rad) up to which they are closed: there, rows are the rates of errors."""
    held_fraction: float = 1e-6
    """Fraction of the kinetic energy without loops that counts as kinetic energy: loops may hold all motion."""
    opening_fraction: float = 1e-8
    """Fraction of the kinetic energy in velocities that open loops, up to which these are left out of accelerations."""
    smallest_sub_step: float = 1.0 / 1024.0
    """Length of the smallest sub-steps over that of the step: one that needs smaller ones has to say so."""
    most_shrinking: float = 0.2
    """Least length of a sub-step over that of the one before."""
    most_growth: float = 5.0
    """Largest length of a sub-step over that of the one before."""
    safety: float = 0.9
    """Length of a sub-step over what the estimate of its error allows."""
    least_error: float = 1e-9
    """Estimate below which sub-steps grow no more."""
    stretch_to_end: float = 1.01
    """How far a sub-step may be lengthened to the end of the step."""
    most_stages: int = 6 * 1024
    """Most stages of a step: three of as many sub-steps as there may be, and as many again that are not accepted."""
    columns: int = 4
    """Columns of derivatives that go through a motion side by side: they share its numbers; code grows with them."""


TUNING = Tuning()

LOST = 1.0 / TUNING.energy_tolerance
"""Estimate at which the smallest sub-steps make errors of the energy as large as that over a step: it ends there."""

STILL = 1e-100
"""Kinetic energy (J) of what is at rest: squares of smaller velocities underflow."""

INFINITE = 1e30
"""Estimate of what is not finite."""


class SmoothMotion(NamedTuple):
    """Displacement ``moved`` and velocity ``reached``, in the axes of the start of the step; both (nv).

    ``closed`` and ``resolved`` are 1 where loops were closed at the start, and where no sub-step had to be too long and
    the end of the step was reached.
    """

    moved: State
    reached: State
    closed: Scalar
    resolved: Scalar


class Stage(NamedTuple):
    """What a stage finds at a displacement and a velocity, in the axes of the start of the step.

    Rates of both; both without what opens loops; errors of loops; squares of lengths ``xᵀ M x`` of the velocity, of
    what of it opens loops, of the acceleration, and of that without loops; and length ``(xᵀ M x)^½`` of others.
    """

    u_rate: State
    w_rate: State
    u: State
    w: State
    errors: State
    speed: Scalar
    opening: Scalar
    acceleration: Scalar
    free: Scalar
    length: Callable[[State], Scalar]


class SubSteps:
    """Stages and sub-steps of the joints of some links, tied by the constraints of those numbers.

    Forces are those of ``motion``, joint forces are held; ``epsilon`` is the relative round-off.
    """

    def __init__(self, motion: DynamicsProblem, links: Sequence[int], loops: Sequence[int], epsilon: float) -> None:
        self.ops, self._motion, self._loops = motion.ops, motion, loops
        tree = motion.tree
        self._nv, self._q = tree.nv, [self.ops.entry(motion.problem.q, k) for k in range(tree.nq)]
        self._epsilon = epsilon
        self._joints: list[tuple[Joint, slice, slice, slice]] = []
        self.dofs: list[int] = []
        for i in links:
            sv, n = tree.v_slices[i], len(self.dofs)
            self._joints.append((tree.joints[i], tree.q_slices[i], sv, slice(n, n + sv.stop - sv.start)))
            self.dofs += range(sv.start, sv.stop)
        self.n_rows = sum(motion.problem.constraints[k].size for k in loops)
        self._heavy = [k for i in heavy_links(tree) for k in range(tree.v_slices[i].start, tree.v_slices[i].stop)]
        sizes = [x for k in loops for x in motion.problem.row_sizes(k)]
        self._sizes = [motion.problem.length**2 * self.ops.select(self.ops.less(0.0, x), x, 1.0) for x in sizes]

    def stage(self, u: State, w: State, goal: Callable[[State], State]) -> Stage:
        """Stage at ``u`` and ``w`` (n, of `dofs`); loops are pulled to errors that ``goal`` makes of those there."""
        ops = self.ops
        q, v = list(self._q), self._of_tree([0.0] * len(self.dofs))
        for joint, sq, sv, own in self._joints:
            q[sq], v[sv] = joint.kind.position_update(ops, self._q[sq], w[own], u[own])
        motion = self._motion.at_state(q, v, self._loops)
        space = JointSpace(motion)
        free = column(ops, space.accelerations(ops.zeros(self.n_rows, 1)))
        qdd = straight_accelerations(motion, [from_entries(ops, free[sv]) for sv in motion.tree.v_slices])
        errors = column(ops, position_errors(motion))
        gaps = from_entries(ops, minus(errors, goal(errors)))

        # L v, L q̈, 0, less what loops take: Yᵀ G⁺ of their rates
        over = ops.hstack([self._over(space, from_entries(ops, v)), self._over(space, qdd), ops.zeros(self._nv, 1)])
        rates = space.along_rows(over) + ops.hstack([ops.zeros(self.n_rows, 1), straight_drift(motion), gaps])
        impulses = LoopImpulses(motion.problem, space.L, space.G, range(self.n_rows), self._epsilon).solve(rates)
        left = space.back_substitution(over, -impulses)
        columns = [column(ops, ops.take(left, None, (k,))) for k in range(3)]
        w_end, w_rate, back = (self._to_start(q, u, [x[k] for k in self.dofs]) for x in columns)

        of_v, of_qdd, _ = (column(ops, ops.take(over, None, (k,))) for k in range(3))
        taken, along = (column(ops, ops.take(x, None, (0,))) for x in (impulses, rates))

        def square(x: Sequence[Scalar]) -> Scalar:
            light = [0.0 if k in self._heavy else y for k, y in enumerate(x)]
            over = column(ops, self._over(space, from_entries(ops, light)))
            return dot(over, over)

        return Stage(
            self._chart_rate(u, w), w_rate, plus(u, self._chart_rate(u, back)), w_end, errors,
            square(v) if self._heavy else dot(of_v, of_v), dot(taken, along), square(columns[1]), dot(of_qdd, of_qdd),
            lambda x: _root(ops, square(self._of_tree(x))),
        )  # fmt: skip

    def largest(self, errors: State) -> Scalar:
        """Largest of errors of loops (m, rad), in lengths of the robot and rad by the sizes of their rows."""
        square: Scalar = 0.0
        for x, size in zip(errors, self._sizes, strict=True):
            square = self.ops.maximum(square, x * x / size)
        return _root(self.ops, square)

    def _of_tree(self, x: State) -> State:
        """Entries (nv) of all joints, zero beside those of `dofs`."""
        out: State = [0.0] * self._nv
        for k, own in zip(self.dofs, x, strict=True):
            out[k] = own
        return out

    def _over(self, space: JointSpace, x: Matrix) -> Matrix:
        """``L x`` (nv × 1)."""
        rows = space.L.multiply([self.ops.take(x, (k,), None) for k in range(self._nv)])
        return self.ops.vstack([self.ops.zeros(0, self.ops.shape(x)[1]), *rows])

    def _to_start(self, q: State, u: State, x: State) -> State:
        """Velocities at the displacement ``u`` in the axes of the start."""
        out: State = []
        for joint, sq, _, own in self._joints:
            out += joint.kind.position_update(self.ops, q[sq], x[own], [-a for a in u[own]])[1]
        return out

    def _chart_rate(self, u: State, w: State) -> State:
        """``u̇`` at the velocity ``w``."""
        out: State = []
        for joint, _, _, own in self._joints:
            out += joint.kind.displacement_rate(self.ops, u[own], w[own])
        return out


class Progress(NamedTuple):
    """What a pass of the loop starts from.

    Displacement and velocity at the start of the sub-step; rates of stages 0 to 2; errors of loops at the start of the
    sub-step, and wanted at the end of the step; stage, time left, length of the sub-step; flags of `SmoothMotion`.
    """

    u: State
    w: State
    u_rates: list[State]
    w_rates: list[State]
    before: State
    wanted: State
    stage: Scalar
    left: Scalar
    h: Scalar
    closed: Scalar
    resolved: Scalar

    def flat(self) -> State:
        """All numbers."""
        of_rates = [x for rates in (*self.u_rates, *self.w_rates) for x in rates]
        last = [self.stage, self.left, self.h, self.closed, self.resolved]
        return [*self.u, *self.w, *of_rates, *self.before, *self.wanted, *last]

    @classmethod
    def none(cls, n: int, m: int) -> Progress:
        """All zero but the stage, which begins."""
        return cls.of([0.0] * (8 * n + 2 * m) + [-1.0] + [0.0] * 4, n, m)

    @classmethod
    def first(cls, start: Start) -> Progress:
        """At the start of a step."""
        none = cls.none(len(start.steps.dofs), start.steps.n_rows)
        return none._replace(w=start.v, left=start.h, h=start.h, closed=1.0, resolved=1.0)

    @classmethod
    def of(cls, values: Sequence[Scalar], n: int, m: int) -> Progress:
        """From `flat` of n degrees of freedom and m rows."""
        rest = iter(values)
        u, w, *rates = (list(islice(rest, n)) for _ in range(8))
        before, wanted = (list(islice(rest, m)) for _ in range(2))
        return cls(u, w, rates[:3], rates[3:], before, wanted, *rest)


class Start(NamedTuple):
    """What a motion starts from: stages at its state, the velocity (n, of `SubSteps.dofs`), the time, and correction.

    Of the errors of closed loops the step takes back the part ``correction``.
    """

    steps: SubSteps
    v: State
    h: Scalar
    correction: Scalar


Varied = Callable[[Sequence[Rates]], Start]
"""From rates of the numbers that a motion follows from, by column, to its start on `DualOps`."""

MotionChanges = Callable[[Sequence[Rates], int], Matrix]
"""`motion_changes` of a motion."""


def smooth_motion(start: Start, numbers: Sequence[Scalar], changes: MotionChanges) -> SmoothMotion:
    """Motion by sub-steps, which ``changes`` with the ``numbers`` that it follows from."""
    n, m, ops = len(start.steps.dofs), start.steps.n_rows, start.steps.ops

    def advance(values: State) -> tuple[State, Scalar]:
        after, stop = _pass(start, Progress.of(values, n, m))
        return after.flat(), stop

    first = Progress.first(start).flat()
    end = Progress.of(ops.repeat(TUNING.most_stages, first, advance), n, m)
    found = ops.changing([*end.u, *end.w], numbers, changes)
    return SmoothMotion(found[:n], found[n:], end.closed, end.resolved * (1.0 - ops.less(0.0, end.left)))


def motion_changes(ops: Ops, varied: Varied, changes: Sequence[Rates], width: int) -> Matrix:
    """Changes (2 n × width) of ``moved`` and ``reached`` with ``changes`` of what motions follow from.

    One loop goes through the motion once for `Tuning.columns` of them after others, with numbers and their rates.
    """
    at = varied(changes).steps
    n, m = len(at.dofs), at.n_rows
    stage, size = 8 * n + 2 * m, 8 * n + 2 * m + 5
    moving = [*range(stage), stage + 1, stage + 2]  # all but the stage and flags
    side = range(min(TUNING.columns, width))
    passes = math.ceil(width / len(side))

    def advance(values: State) -> tuple[State, Scalar]:
        rest = iter(values)
        numbers, rates = (list(islice(rest, k)) for k in (size, len(side) * len(moving)))
        at_pass, out = next(rest), list(rest)
        is_pass = [ops.less(k - 0.5, at_pass) * ops.less(at_pass, k + 0.5) for k in range(passes)]
        own = list[Rates]()
        for of in changes:
            along: dict[Hashable, Scalar] = {}
            for k, x in of.items():
                number, beside = divmod(cast(int, k), len(side))
                along[beside] = along.get(beside, 0.0) + is_pass[number] * x
            own.append(along)
        start = varied(own)
        carried: list[Any] = [Dual(x) for x in numbers]
        for i, place in enumerate(moving):
            carried[place] = Dual(numbers[place], {k: rates[i * len(side) + k] for k in side})
        begins = start.steps.ops.less(numbers[stage], -0.5)
        now = chosen(start.steps.ops, begins, Progress.first(start).flat(), carried)
        after, stop = _pass(start, Progress.of(now, n, m))
        ends, found = value(stop), after.flat()
        for row, x in enumerate([*after.u, *after.w]):
            for k in range(width):
                place, (number, beside) = row * width + k, divmod(k, len(side))
                out[place] = ops.select(ends * is_pass[number], rates_of(x).get(beside, 0.0), out[place])
        found[stage] = ops.select(ends, -1.0, value(after.stage))
        of_rates = [rates_of(found[place]).get(k, 0.0) for place in moving for k in side]
        return [*map(value, found), *of_rates, at_pass + ends, *out], ends * is_pass[-1]

    begin = [*Progress.none(n, m).flat(), *([0.0] * (len(side) * len(moving) + 1 + 2 * n * width))]
    out = ops.repeat(TUNING.most_stages * passes, begin, advance)[-2 * n * width :]
    return ops.matrix([out[k : k + width] for k in range(0, len(out), width)])


SUB_STEP = ((0.5,), (0.0, 0.75), (2.0 / 9.0, 3.0 / 9.0, 4.0 / 9.0))
"""Parts of the rates of stages before in stages 1 to 3."""

DIFFERENCE = (-5.0 / 72.0, 1.0 / 12.0, 1.0 / 9.0, -1.0 / 8.0)
"""Parts of the rates of all stages in the difference of both orders."""


def _pass(start: Start, at: Progress) -> tuple[Progress, Scalar]:
    """One stage, and after the last one of a sub-step what follows it; 1 where the step is at its end."""
    steps, _, dt, correction = start
    ops, h = steps.ops, at.h
    is_stage = [ops.less(k - 0.5, at.stage) * ops.less(at.stage, k + 0.5) for k in range(4)]
    is_first, is_last = ops.less(at.stage, -0.5), is_stage[3]
    u, w = list(at.u), list(at.w)
    for k, parts in enumerate(SUB_STEP, 1):  # rates of later stages need not be finite
        u = chosen(ops, is_stage[k], _along(at.u, parts, h, at.u_rates), u)
        w = chosen(ops, is_stage[k], _along(at.w, parts, h, at.w_rates), w)

    def goal(errors: State) -> State:
        return chosen(ops, is_first, [(1.0 - correction) * x for x in errors], at.wanted)

    found = steps.stage(u, w, goal)
    closed = ops.select(is_first, 1.0 - ops.less(TUNING.closed, steps.largest(found.errors)), at.closed)
    error = _error(steps, at, found, dt, closed)
    good, is_shortest = 1.0 - ops.less(1.0, error), 1.0 - ops.less(TUNING.smallest_sub_step * dt, h)
    bearable = ops.less(error, LOST)
    accepted = is_last * ops.maximum(good, is_shortest * bearable)
    lost = is_last * is_shortest * (1.0 - bearable)

    # the length of the next sub-step
    shorter = h * ops.maximum(TUNING.most_shrinking, TUNING.safety / ops.sqrt(ops.maximum(error, 1.0)))
    shorter = ops.maximum(shorter, TUNING.smallest_sub_step * dt)
    longer = TUNING.safety / ops.sqrt(ops.sqrt(ops.maximum(error, TUNING.least_error)))
    longer = h * ops.select(good, ops.minimum(TUNING.most_growth, longer), 1.0)
    left = at.left - h
    longer = ops.select(ops.less(left, TUNING.stretch_to_end * longer), left, longer)
    next_h = ops.select(is_last, ops.select(accepted, longer, shorter), h)

    # the state that it starts from
    opens = _opens(ops, found)
    begins = ops.maximum(is_first, is_stage[0])
    u_rates, w_rates = list(at.u_rates), list(at.w_rates)
    for k in range(3):
        flag = ops.maximum(begins, accepted) if k == 0 else is_stage[k]
        u_rates[k] = chosen(ops, flag, found.u_rate, at.u_rates[k])
        w_rates[k] = chosen(ops, flag, found.w_rate, at.w_rates[k])
    stage = ops.select(is_first, 1.0 - opens, ops.select(is_last, 1.0, at.stage + 1.0))
    reached = Progress(
        chosen(ops, accepted, chosen(ops, closed, found.u, u), at.u),
        chosen(ops, ops.maximum(accepted, is_first), found.w, at.w),
        u_rates, w_rates,
        chosen(ops, is_first, found.errors, chosen(ops, accepted, at.wanted, at.before)),
        goal(found.errors),
        stage, ops.select(accepted, left, at.left), next_h, closed,
        at.resolved * (1.0 - accepted * (1.0 - good)),
    )  # fmt: skip
    return reached, ops.maximum(lost, accepted * (1.0 - ops.less(0.0, left)))


def _error(steps: SubSteps, at: Progress, end: Stage, dt: Scalar, closed: Scalar) -> Scalar:
    """Estimate of the error of a sub-step, 1 where it is as large as may be; `INFINITE` where it is not finite."""
    ops, h = steps.ops, at.h
    of_u, of_w = (
        end.length([h * x for x in _combined(DIFFERENCE, [*rates, last])])
        for rates, last in ((at.u_rates, end.u_rate), (at.w_rates, end.w_rate))
    )
    speed, acceleration = _root(ops, end.speed), _root(ops, end.acceleration)
    kinetic = 0.5 * (end.speed + dt * dt * (end.acceleration + TUNING.held_fraction * end.free))
    allowed = TUNING.energy_tolerance * (kinetic + (1.0 - ops.less(STILL, kinetic)))  # at rest there is no error
    energy = dt / h * (speed * of_w + acceleration * of_u) / allowed
    gap = closed * steps.largest(minus(end.errors, at.before)) * (1.0 / TUNING.gap_tolerance)
    is_finite = ops.less(energy, INFINITE) * ops.less(gap, INFINITE)
    return ops.select(is_finite, ops.maximum(energy, gap), INFINITE)


def _opens(ops: Ops, found: Stage) -> Scalar:
    """1 where the velocity of a stage opens loops by more than accelerations bear."""
    return ops.less(TUNING.opening_fraction * found.speed, found.opening)


def _along(x: State, parts: Sequence[float], h: Scalar, rates: Sequence[State]) -> State:
    """``x + h Σ part · rate``."""
    return plus_scaled(x, _combined(parts, rates[: len(parts)]), h)


def _combined(parts: Sequence[float], rates: Sequence[State]) -> State:
    """``Σ part · rate``."""
    return [dot([part for part in parts if part], [x for x, part in zip(column, parts, strict=True) if part])
            for column in zip(*rates, strict=True)]  # fmt: skip


def _root(ops: Ops, x: Scalar) -> Scalar:
    """Square root that has a derivative at zero, where it is zero."""
    none = 1.0 - ops.less(0.0, x)
    return ops.sqrt(x + none) - none
