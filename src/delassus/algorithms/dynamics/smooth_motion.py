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

Where springs pull (`Pulling`), a motion without them comes first; from where that ends, one stage at the start finds
what springs bring, with the masses that they add; then comes a second motion, under what springs hold over the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, cast

from delassus.algorithms.loops.motion_stages import Bringing, MotionStage, State, SubSteps, root_at_zero
from delassus.spatial.dual_ops import Dual, Rates, rates_of, value
from delassus.spatial.motion import chosen, dot, minus, plus, plus_scaled
from delassus.spatial.ops import Matrix, Ops, Scalar

ENERGY_TOLERANCE = 1e-5
"""Error of the energy over a step that sub-steps may make, over the kinetic energy."""

GAP_TOLERANCE = 2e-5
"""Gap of loops (lengths of the robot, rad) that a sub-step may leave before it is taken back."""

CLOSED = 2e-2
"""Errors of loops (lengths of the robot, rad) up to which they are closed: there, rows are the rates of errors."""

HELD_FRACTION = 1e-6
"""Fraction of the kinetic energy without loops that counts as kinetic energy: loops may hold all motion."""

OPENING_FRACTION = 1e-8
"""Fraction of the kinetic energy in velocities that open loops, up to which these are left out of accelerations."""

SMALLEST_SUB_STEP = 1.0 / 1024.0
"""Length of the smallest sub-steps over that of the step: one that needs smaller ones has to say so."""

MOST_SHRINKING = 0.2
"""Least length of a sub-step over that of the one before."""

MOST_GROWTH = 5.0
"""Largest length of a sub-step over that of the one before."""

SAFETY = 0.9
"""Length of a sub-step over what the estimate of its error allows."""

LEAST_ERROR = 1e-9
"""Estimate below which sub-steps grow no more."""

STRETCH_TO_END = 1.01
"""How far a sub-step may be lengthened to the end of the step."""

MOST_STAGES = 6 * 1024
"""Most stages of a step: three of as many sub-steps as there may be, and as many again that are not accepted."""

COLUMNS = 4
"""Columns of derivatives that go through a motion side by side: they share its numbers; code grows with them."""

LOST = 1.0 / ENERGY_TOLERANCE
"""Estimate at which the smallest sub-steps make errors of the energy as large as that over a step: it ends there."""

STILL = 1e-100
"""Kinetic energy (J) of what is at rest: squares of smaller velocities underflow."""

INFINITE = 1e30
"""Estimate of what is not finite."""


class SmoothMotion(NamedTuple):
    """Displacement ``moved`` and velocity ``reached``, in the axes of the start of the step; both (n).

    ``closed`` and ``resolved`` are 1 where loops were closed at the start, and where no sub-step had to be too long and
    the end of the step was reached. ``unpushed`` are both of a step without impulses, if springs pull.
    """

    moved: State
    reached: State
    closed: Scalar
    resolved: Scalar
    unpushed: tuple[State, State] | None = None

    def ending(self, ops: Ops, pushed: Scalar) -> tuple[State, State]:
        """Displacement and velocity of a step in which impulses act where ``pushed`` is 1."""
        if self.unpushed is None:
            return self.moved, self.reached
        moved, reached = (
            chosen(ops, pushed, *pair) for pair in zip((self.moved, self.reached), self.unpushed, strict=True)
        )
        return moved, reached


class Pulling(Protocol):
    """Springs that pull implicitly: what they bring to a motion, and hold over it.

    ``acts`` is 1 where there are any, ``at_once`` the part that acts at the start of the second motion, ``masses`` what
    they add to links, and ``forces`` (n) those of joints in the first motion.
    """

    acts: Scalar
    at_once: Scalar
    masses: Mapping[tuple[int, int], Matrix]
    forces: State

    def brought(self, gained: State) -> tuple[State, State]:
        """Momenta (n) that they bring by the velocities (n) that the first motion gains, with impulses and without."""

    def held(self, pull: State, x: State) -> State:
        """Joint forces (n) of the second motion, by the momentum without impulses, and the velocities that it makes."""


class SmoothPull(NamedTuple):
    """Joint ``forces`` (n) of now, end of the step with impulses (n each), and phase: 0, 1 where springs bring, 2."""

    forces: State
    moved: State
    reached: State
    phase: Scalar


class PassStart(NamedTuple):
    """What a pass of the loop starts from.

    Displacement and velocity at the start of the sub-step; rates of stages 0 to 2; errors of loops at the start of the
    sub-step, and wanted at the end of the step; stage, time left, length of the sub-step; flags of `SmoothMotion`; what
    springs do.
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
    pulled: SmoothPull | None = None

    def flat(self) -> State:
        """All numbers."""
        of_rates = [x for rates in (*self.u_rates, *self.w_rates) for x in rates]
        last = [self.stage, self.left, self.h, self.closed, self.resolved]
        if self.pulled is not None:
            forces, *ends, phase = self.pulled
            last += [*forces, *ends[0], *ends[1], phase]
        return [*self.u, *self.w, *of_rates, *self.before, *self.wanted, *last]

    @property
    def ends(self) -> State:
        """Displacement and velocity, with those of the step with impulses first if springs pull."""
        of_pulled = [] if self.pulled is None else [*self.pulled.moved, *self.pulled.reached]
        return [*of_pulled, *self.u, *self.w]

    @classmethod
    def none(cls, n: int, m: int, is_pulled: bool) -> PassStart:
        """All zero but the stage, which begins."""
        return cls.of([0.0] * (8 * n + 2 * m) + [-1.0] + [0.0] * (4 + is_pulled * (3 * n + 1)), n, m)

    @classmethod
    def first(cls, start: Start) -> PassStart:
        """At the start of a step."""
        none = cls.none(len(start.steps.dofs), start.steps.n_rows, start.pulling is not None)
        if none.pulled is not None and start.pulling is not None:
            none = none._replace(pulled=none.pulled._replace(forces=start.pulling.forces))
        return none._replace(w=start.v, left=start.h, h=start.h, closed=1.0, resolved=1.0)

    @classmethod
    def of(cls, values: Sequence[Scalar], n: int, m: int) -> PassStart:
        """From `flat` of n degrees of freedom and m rows."""
        rest = iter(values)
        u, w, *rates = (list(islice(rest, n)) for _ in range(8))
        before, wanted = (list(islice(rest, m)) for _ in range(2))
        stage, left, h, closed, resolved, *more = rest
        pulled = SmoothPull(more[:n], more[n : 2 * n], more[2 * n : 3 * n], more[-1]) if more else None
        return cls(u, w, rates[:3], rates[3:], before, wanted, stage, left, h, closed, resolved, pulled)


class Start(NamedTuple):
    """What a motion starts from: stages at its state, the velocity (n, of `SubSteps.dofs`), the time, and correction.

    Of the errors of closed loops the step takes back the part ``correction``. Springs may be ``pulling``.
    """

    steps: SubSteps
    v: State
    h: Scalar
    correction: Scalar
    pulling: Pulling | None = None

    @property
    def most_stages(self) -> int:
        """Most passes of all motions."""
        return MOST_STAGES * (1 if self.pulling is None else 2)


Varied = Callable[[Sequence[Rates]], Start]
"""From rates of the numbers that a motion follows from, by column, to its start on `DualOps`."""

MotionChanges = Callable[[Sequence[Rates], int], Matrix]
"""`motion_changes` of a motion."""


def smooth_motion(start: Start, numbers: Sequence[Scalar], changes: MotionChanges) -> SmoothMotion:
    """Motion by sub-steps, which ``changes`` with the ``numbers`` that it follows from."""
    n, m, ops = len(start.steps.dofs), start.steps.n_rows, start.steps.ops

    def advance(values: State) -> tuple[State, Scalar]:
        after, stop = _pass(start, PassStart.of(values, n, m))
        return after.flat(), stop

    first = PassStart.first(start).flat()
    end = PassStart.of(ops.repeat(start.most_stages, first, advance), n, m)
    found = ops.changing(end.ends, numbers, changes)
    flags = end.closed, end.resolved * (1.0 - ops.less(0.0, end.left))
    unpushed = (found[2 * n : 3 * n], found[3 * n :]) if end.pulled is not None else None
    return SmoothMotion(found[:n], found[n : 2 * n], *flags, unpushed)


def motion_changes(ops: Ops, varied: Varied, changes: Sequence[Rates], width: int) -> Matrix:
    """Changes (2 n × width) of ``moved`` and ``reached`` with ``changes`` of what motions follow from.

    If springs pull, these and then those of ``unpushed`` (4 n × width). One loop goes through the motion once for
    `COLUMNS` of them after others, with numbers and their rates.
    """
    first = varied(changes)
    n, m, is_pulled = len(first.steps.dofs), first.steps.n_rows, first.pulling is not None
    none = PassStart.none(n, m, is_pulled)
    stage, size, results = 8 * n + 2 * m, len(none.flat()), len(none.ends)
    moving = [*range(stage), stage + 1, stage + 2, *range(stage + 5, size - 1)]  # all but the stage, flags and phase
    side = range(min(COLUMNS, width))
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
        if is_pulled:
            begins = begins * ops.less(numbers[-1], 0.5)
        now = chosen(start.steps.ops, begins, PassStart.first(start).flat(), carried)
        after, stop = _pass(start, PassStart.of(now, n, m))
        ends, found = value(stop), after.flat()
        for row, x in enumerate(after.ends):
            for k in range(width):
                place, (number, beside) = row * width + k, divmod(k, len(side))
                out[place] = ops.select(ends * is_pass[number], rates_of(x).get(beside, 0.0), out[place])
        found[stage] = ops.select(ends, -1.0, value(after.stage))
        if is_pulled:
            found[-1] = ops.select(ends, 0.0, value(found[-1]))
        of_rates = [rates_of(found[place]).get(k, 0.0) for place in moving for k in side]
        return [*map(value, found), *of_rates, at_pass + ends, *out], ends * is_pass[-1]

    begin = [*none.flat(), *([0.0] * (len(side) * len(moving) + 1 + results * width))]
    out = ops.repeat(first.most_stages * passes, begin, advance)[-results * width :]
    return ops.matrix([out[k : k + width] for k in range(0, len(out), width)])


SUB_STEP = ((0.5,), (0.0, 0.75), (2.0 / 9.0, 3.0 / 9.0, 4.0 / 9.0))
"""Parts of the rates of stages before in stages 1 to 3."""

DIFFERENCE = (-5.0 / 72.0, 1.0 / 12.0, 1.0 / 9.0, -1.0 / 8.0)
"""Parts of the rates of all stages in the difference of both orders."""


def _pass(start: Start, at: PassStart) -> tuple[PassStart, Scalar]:
    """One stage, and after the last one of a sub-step what follows it; 1 where the step is at its end."""
    steps, _, dt, correction, pulling = start
    ops, h, forces, bringing = steps.ops, at.h, None, None
    is_stage = [ops.less(k - 0.5, at.stage) * ops.less(at.stage, k + 0.5) for k in range(4)]
    is_first, is_last = ops.less(at.stage, -0.5), is_stage[3]
    u, w = list(at.u), list(at.w)
    for k, parts in enumerate(SUB_STEP, 1):  # rates of later stages need not be finite
        u = chosen(ops, is_stage[k], _along(at.u, parts, h, at.u_rates), u)
        w = chosen(ops, is_stage[k], _along(at.w, parts, h, at.w_rates), w)

    def goal(errors: State) -> State:
        return chosen(ops, is_first, [(1.0 - correction) * x for x in errors], at.wanted)

    if pulling is not None and at.pulled is not None:
        flag = ops.less(0.5, at.pulled.phase) * ops.less(at.pulled.phase, 1.5)
        momenta = pulling.brought(minus(at.pulled.reached, start.v))
        forces, bringing = at.pulled.forces, Bringing(flag, *momenta, pulling.masses)
    found = steps.stage(u, w, goal, forces, bringing)
    closed = ops.select(is_first, 1.0 - ops.less(CLOSED, steps.largest(found.errors)), at.closed)
    error = _error(steps, at, found, dt, closed)
    good, is_shortest = 1.0 - ops.less(1.0, error), 1.0 - ops.less(SMALLEST_SUB_STEP * dt, h)
    bearable = ops.less(error, LOST)
    accepted = is_last * ops.maximum(good, is_shortest * bearable)
    lost = is_last * is_shortest * (1.0 - bearable)

    # the length of the next sub-step
    shorter = h * ops.maximum(MOST_SHRINKING, SAFETY / ops.sqrt(ops.maximum(error, 1.0)))
    shorter = ops.maximum(shorter, SMALLEST_SUB_STEP * dt)
    longer = SAFETY / ops.sqrt(ops.sqrt(ops.maximum(error, LEAST_ERROR)))
    longer = h * ops.select(good, ops.minimum(MOST_GROWTH, longer), 1.0)
    left = at.left - h
    longer = ops.select(ops.less(left, STRETCH_TO_END * longer), left, longer)
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
    reached = PassStart(
        chosen(ops, accepted, chosen(ops, closed, found.u, u), at.u),
        chosen(ops, ops.maximum(accepted, is_first), found.w, at.w),
        u_rates, w_rates,
        chosen(ops, is_first, found.errors, chosen(ops, accepted, at.wanted, at.before)),
        goal(found.errors),
        stage, ops.select(accepted, left, at.left), next_h, closed,
        at.resolved * (1.0 - accepted * (1.0 - good)),
    )  # fmt: skip
    stop = ops.maximum(lost, accepted * (1.0 - ops.less(0.0, left)))
    if pulling is None or at.pulled is None or bringing is None:
        return reached, stop
    return _with_springs(start, pulling, at.pulled, bringing, found, reached, stop)


def _with_springs(
    start: Start, pulling: Pulling, pulled: SmoothPull, bringing: Bringing, found: MotionStage, reached: PassStart,
    stop: Scalar,
) -> tuple[PassStart, Scalar]:  # fmt: skip
    """What follows a pass where springs pull: their stage the first motion, and the second one that."""
    ops, dt, brings = start.steps.ops, start.h, bringing.flag
    ends = stop * ops.less(pulled.phase, 0.5)
    turns = ends * pulling.acts * (1.0 - ops.less(0.0, reached.left))
    begins = ops.maximum(brings, turns)
    push, pull = found.w, found.w_rate
    moved = chosen(ops, brings, plus_scaled(pulled.moved, push, 0.5 * dt), pulled.moved)
    velocity = chosen(ops, brings, plus(pulled.reached, push), pulled.reached)
    own = SmoothPull(
        chosen(ops, brings, pulling.held(bringing.pull, pull), pulled.forces),
        chosen(ops, ends, reached.u, moved),
        chosen(ops, ends, reached.w, velocity),
        ops.select(turns, 1.0, ops.select(brings, 2.0, pulled.phase)),
    )
    w = chosen(ops, brings, plus_scaled(start.v, pull, pulling.at_once), chosen(ops, turns, start.v, reached.w))
    after = reached._replace(
        u=chosen(ops, begins, [0.0] * len(w), reached.u), w=w, stage=ops.select(begins, -1.0, reached.stage),
        left=ops.select(begins, dt, reached.left), h=ops.select(begins, dt, reached.h), pulled=own,
    )  # fmt: skip
    return after, stop * (1.0 - turns)


def _error(steps: SubSteps, at: PassStart, end: MotionStage, dt: Scalar, closed: Scalar) -> Scalar:
    """Estimate of the error of a sub-step, 1 where it is as large as may be; `INFINITE` where it is not finite."""
    ops, h = steps.ops, at.h
    of_u, of_w = (
        end.length([h * x for x in _combined(DIFFERENCE, [*rates, last])])
        for rates, last in ((at.u_rates, end.u_rate), (at.w_rates, end.w_rate))
    )
    speed, acceleration = root_at_zero(ops, end.speed), root_at_zero(ops, end.acceleration)
    kinetic = 0.5 * (end.speed + dt * dt * (end.acceleration + HELD_FRACTION * end.free))
    allowed = ENERGY_TOLERANCE * (kinetic + (1.0 - ops.less(STILL, kinetic)))  # at rest there is no error
    energy = dt / h * (speed * of_w + acceleration * of_u) / allowed
    gap = closed * steps.largest(minus(end.errors, at.before)) * (1.0 / GAP_TOLERANCE)
    is_finite = ops.less(energy, INFINITE) * ops.less(gap, INFINITE)
    return ops.select(is_finite, ops.maximum(energy, gap), INFINITE)


def _opens(ops: Ops, found: MotionStage) -> Scalar:
    """1 where the velocity of a stage opens loops by more than accelerations bear."""
    return ops.less(OPENING_FRACTION * found.speed, found.opening)


def _along(x: State, parts: Sequence[float], h: Scalar, rates: Sequence[State]) -> State:
    """``x + h Σ part · rate``."""
    return plus_scaled(x, _combined(parts, rates[: len(parts)]), h)


def _combined(parts: Sequence[float], rates: Sequence[State]) -> State:
    """``Σ part · rate``."""
    return [dot([part for part in parts if part], [x for x, part in zip(column, parts, strict=True) if part])
            for column in zip(*rates, strict=True)]  # fmt: skip
