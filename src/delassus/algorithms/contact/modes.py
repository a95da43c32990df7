"""What contact points and joints do at a solution: linear laws of small changes, of which derivatives of steps follow.

Impulses ``p`` and velocities ``u`` of a contact point change by ``C du + D x = 0``, ``dp = B x``. Along the direction
``e`` of friction, ``b`` across it and the normal ``n``:

==========  ====================================================================================================
sticks      no row changes its velocity: ``C = B = 1``, ``D = 0``
slides      ``n`` does not; friction goes with the normal impulse, ``dp_e = μ dp_n``, and turns with the velocity:
            ``(1 − κ) w dp_b = −κ du_b``, ``κ = μ p_n / |p_t − u_t / w|``, with the mobility ``w``
open        ``dp = 0``
==========  ====================================================================================================

Derivatives that are smoothed are means over changes of the velocity that each contact and joint would have alone, by up
to so many m/s to either side (`part_beyond`). What acts for a part ``θ`` of them has the rows of all modes by their
parts, as ``θ du_n + (1 − θ) w dp_n = 0``; impulses, velocities and directions are those of the solution.

`image_by_modes` says the same to programs that are differentiated as equations: a map with these laws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, cast

from delassus.algorithms.contact.law import FARTHEST, TINY, clamped, mean_beyond, part_beyond
from delassus.algorithms.contact.problem import JointLaw, PointLaw, StepProblem, magnitude
from delassus.spatial.motion import column, diagonal, from_entries
from delassus.spatial.ops import Matrix, Ops, Scalar

NO_DIRECTION = 1e-12
"""Speed (m/s) below which friction has no direction."""

LEAST_SIZE = 1e-6
"""Speed over smoothing below which a mean is its rate times that speed, which round-off hides."""


class Mode(NamedTuple):
    """What a contact point does: ``C`` and ``B`` (3 × 3), ``D`` (3), mobility, and ``distance`` (m/s) of other modes.

    ``axes`` (3 × 3) are along friction, across it, and the normal. ``with_floor`` (1/kg) is what the row of the normal
    has of its least impulse; ``with_friction`` the change of the tangential impulse (2) with the friction coefficient.
    """

    axes: Matrix
    C: Matrix
    B: Matrix
    D: list[Scalar]
    mobility: Scalar
    with_floor: Scalar
    with_friction: list[Scalar]
    distance: Scalar


def point_mode(
    problem: StepProblem, x: PointLaw, p: Sequence[Scalar], u: Sequence[Scalar], moves: Scalar,
    smoothing: Scalar | None,
) -> Mode:  # fmt: skip
    """Mode of a contact point at its impulse and velocity (3); ``moves`` is 0 where loops hold it."""
    ops, w_n = problem.ops, problem.own_mobility[x.row + 2]
    w = 0.5 * (problem.own_mobility[x.row] + problem.own_mobility[x.row + 1])
    pressed = w_n * (p[2] if x.floor is None else p[2] - x.floor) - u[2]
    closed, is_closed = (part_beyond(ops, pressed, s) * moves for s in (smoothing, None))
    limit = w * (x.friction * p[2])
    mean_limit = limit
    if smoothing is not None:
        normal = mean_beyond(ops, pressed, smoothing) * (1.0 / w_n)
        mean_limit = w * (x.friction * moves * (normal if x.floor is None else normal + x.floor))
    tried = [w * a - b for a, b in zip(p[:2], u[:2], strict=True)]
    sizes = [magnitude(ops, a) for a in tried] if problem.pyramid else [ops.length(*tried)]
    over = [1.0 / size for size in sizes]
    parts = [friction_parts(ops, size, y, mean_limit, smoothing) for size, y in zip(sizes, over, strict=True)]
    sticks, turns, shares = zip(*parts, strict=True)
    if problem.pyramid:
        signs = [ops.copysign(share, a) for a, share in zip(tried, shares, strict=True)]
        along, with_friction = [x.friction * sign for sign in signs], [sign * p[2] for sign in signs]
        axes, kept = ops.eye(3), [*sticks, closed]
        speeds, used = [magnitude(ops, b) for b in u[:2]], [w * magnitude(ops, a) for a in p[:2]]
    else:
        has_direction = ops.less(NO_DIRECTION, sizes[0])
        e0, e1 = (ops.select(has_direction, a * over[0], first) for a, first in zip(tried, (1.0, 0.0), strict=True))
        axes = ops.matrix([[e0, e1, 0.0], [-e1, e0, 0.0], [0.0, 0.0, 1.0]])
        with_friction = [shares[0] * p[2] * e0, shares[0] * p[2] * e1]
        along, kept = [shares[0] * x.friction, 0.0], [sticks[0], turns[0], closed]
        speeds, used = [ops.length(*u[:2])], [w * ops.length(*p[:2])]
    coupled = ops.matrix([[1.0, 0.0, along[0]], [0.0, 1.0, along[1]], [0.0, 0.0, 1.0]])
    D = [(1.0 - k) * size for k, size in zip(kept, (w, w, w_n), strict=True)]
    with_floor: Scalar = 0.0 if x.floor is None else (moves - closed) * w_n
    apart = ops.select(is_closed, problem.G[x.row + 2][x.row + 2] * p[2], magnitude(ops, u[2]))
    turn: Scalar = FARTHEST
    for size, speed, friction in zip(sizes, speeds, used, strict=True):
        turn = ops.minimum(turn, ops.select(ops.less(limit, size), speed, limit - friction))
    is_touching = is_closed if x.floor is None else ops.maximum(is_closed, ops.less(0.0, x.floor) * moves)
    distance = ops.select(moves, ops.select(is_touching, ops.minimum(apart, turn), apart), FARTHEST)
    C, B = diagonal(ops, kept) @ axes, ops.transpose(axes) @ coupled
    return Mode(axes, C, B, D, problem.mobility[x.row], with_floor, with_friction, distance)


def friction_parts(
    ops: Ops, size: Scalar, over: Scalar, limit: Scalar, smoothing: Scalar | None
) -> tuple[Scalar, Scalar, Scalar]:
    """Parts of a change that friction takes up, along it and across it, and of its limit's that slides if none sticks.

    Friction of that ``size`` (m/s; ``over`` is one over it) without a limit is ``f = min(size, limit)``; these are
    ``∂f/∂size``, ``f / size`` and ``∂f/∂limit / (1 − ∂f/∂size)``. Its mean is odd: no direction is before others at 0.
    """
    slides = part_beyond(ops, size - limit, smoothing)
    if smoothing is None:
        sticks = 1.0 - slides
        return sticks, sticks + slides * (limit * over), slides
    back = part_beyond(ops, -(size + limit), smoothing)
    sticks = 1.0 - slides - back
    mean = size - mean_beyond(ops, size - limit, smoothing) + mean_beyond(ops, -(size + limit), smoothing)
    turns = ops.select(ops.less(LEAST_SIZE * smoothing, size), mean * over, sticks)
    return sticks, turns, (slides - back) / ops.maximum(slides + back, TINY)


class Hold(NamedTuple):
    """What holds a joint: a flag; what it adds to the inertia; change of its velocity with its position and with time.

    The second is not zero where smoothed derivatives hold it in part. ``slip`` is the impulse of dry friction that
    slides, and ``distance`` that to the nearest other mode.
    """

    held: Scalar
    added: Scalar | None
    with_position: Scalar
    with_time: Scalar
    slip: Scalar
    distance: Scalar


def joint_hold(
    problem: StepProblem, x: JointLaw, p: Scalar, u: Scalar, distances: Sequence[Scalar | None], over_h: Scalar,
    smoothing: Scalar | None,
) -> Hold:  # fmt: skip
    """Hold of a joint at its impulse, velocity and distances from its limits."""
    ops, w = problem.ops, problem.own_mobility[x.row]
    friction: Scalar = 0.0 if x.friction is None else w * x.friction
    free = w * p - u
    slowed = clamped(ops, free, -friction, friction) - free
    none = cast(Scalar, 0.0)
    held, share, with_position, with_time = none, none, none, none
    distance, sticks = cast(Scalar, FARTHEST), none
    if x.friction is not None:
        size = magnitude(ops, free)
        sticks = ops.less(size, friction)  # until friction slips, a limit changes no velocity
        held, _, share = friction_parts(ops, size, 1.0, friction, smoothing)
        distance = ops.select(sticks, friction - w * magnitude(ops, p), magnitude(ops, u))
    for bound, gap, sign in zip(x.bounds, distances, (1.0, -1.0), strict=True):
        if bound is None or gap is None:
            continue
        reserve = sign * (bound - slowed)
        stopped = part_beyond(ops, reserve, smoothing)
        open_before = part_beyond(ops, gap * over_h, smoothing)
        with_position = with_position - stopped * (open_before * over_h)
        with_time = with_time - stopped * (bound * over_h)
        held = ops.minimum(held + stopped, 1.0)
        is_stopped = ops.less(0.0, reserve)
        apart = ops.minimum(distance, -reserve)
        apart = apart if x.friction is None else ops.select(sticks, distance, apart)
        distance = ops.select(is_stopped, reserve, apart)
    flag, added = held, None
    if smoothing is not None:
        flag = 1.0 - ops.less(held, 1.0)
        added = ops.select(flag, 0.0, held / (w * ops.maximum(1.0 - held, TINY)))
        over = 1.0 / ops.maximum(held, TINY)
        with_position, with_time = with_position * over, with_time * over
    dry: Scalar = 0.0 if x.friction is None else (1.0 - flag) * ops.copysign(share * x.friction, free)
    return Hold(flag, added, with_position, with_time, dry, distance)


def nearest_mode(ops: Ops, modes: Sequence[Mode], holds: Mapping[int, Hold]) -> Matrix:
    """Distance (m/s, rad/s) of the nearest other mode (1 × 1)."""
    distance: Scalar = FARTHEST
    for x in [mode.distance for mode in modes] + [hold.distance for hold in holds.values()]:
        distance = ops.minimum(distance, x)
    return ops.matrix([[distance]])


def image_by_modes(
    problem: StepProblem, p: Sequence[Scalar], u: Sequence[Scalar], modes: Sequence[Mode],
    joints: Sequence[tuple[Hold, Scalar]], h: Scalar,
) -> list[Scalar]:  # fmt: skip
    """Impulses whose changes are those of ``p`` where these and velocities obey the linear laws of modes.

    Values mean nothing.

    ``joints``: holds, and positions of joints.
    """
    ops, out = problem.ops, list(p)

    def held(values: Sequence[Scalar | None]) -> list[Scalar]:
        return [ops.derived(0.0 if x is None else x, 0.0) for x in values]

    for x, mode in zip(problem.points, modes, strict=True):
        own = range(x.row, x.row + 3)
        axes, coupled, C = (ops.matrix([held(row) for row in ops.entries(a)])
                            for a in (mode.axes, mode.axes @ mode.B, mode.C))  # fmt: skip
        slips, (over,) = held([*mode.with_friction, 0.0]), held([1.0 / mode.mobility])
        given = from_entries(ops, [p[row] - slip * x.friction for row, slip in zip(own, slips, strict=True)])
        along = axes @ given
        unknown = along + along - coupled @ along  # of a unit triangle 1 + N, N² = 0
        missed = C @ from_entries(ops, u[x.row : x.row + 3]) + diagonal(ops, held(mode.D)) @ unknown
        for row, y in zip(own, column(ops, ops.transpose(axes) @ missed), strict=True):
            out[row] = p[row] - over * y
    for law, (hold, position) in zip(problem.joints, joints, strict=True):
        row, w = law.row, problem.own_mobility[law.row]
        compliant = (1.0 - hold.held) / (1.0 + w * (0.0 if hold.added is None else hold.added))
        over, part, added = held([hold.held / w, compliant, hold.added])
        with_position, with_time, slip = held([hold.with_position, hold.with_time, hold.slip / h])
        velocity: Scalar = u[row] - with_position * position - with_time * h
        out[row] = p[row] - over * velocity - part * (p[row] - slip * h + added * velocity)
    return out


def smoothed_rate(ops: Ops, gap: Scalar, over_h: Scalar, smoothing: Scalar | None) -> Scalar:
    """A number that changes as the rate at which a gap may close does, smoothed."""
    closing = part_beyond(ops, over_h * gap, smoothing) * over_h
    return ops.derived(closing, 0.0) * gap + over_h * ops.derived(ops.maximum(gap, 0.0), 0.0)
