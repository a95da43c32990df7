"""What contact points and joints do at a solution: linear laws of small changes, of which derivatives of steps follow.

Impulses ``p`` and velocities ``u`` of a contact point change by ``C du + D x = 0``, ``dp = B x``. Along the direction
``e`` of friction, ``b`` across it and the normal ``n``:

==========  ====================================================================================================
sticks      no row changes its velocity: ``C = B = 1``, ``D = 0``
slides      ``n`` does not; friction goes with the normal impulse, ``dp_e = μ dp_n``, and turns with the velocity:
            ``(1 − κ) w dp_b = −κ du_b``, ``κ = μ p_n / |p_t − u_t / w|``, with the mobility ``w``
open        ``dp = 0``
==========  ====================================================================================================

Of patches, whose friction is one vector of tangents and spins, ``b`` are all directions across it, with one law. They
are those of `PointLaw`: velocities times its units.

Derivatives that are smoothed are means over changes of the velocity that each contact and joint would have alone, by up
to so many m/s to either side (`part_beyond`). What acts for a part ``θ`` of them has the rows of all modes by their
parts, as ``θ du_n + (1 − θ) w dp_n = 0``; impulses, velocities and directions are those of the solution.

`image_by_modes` says the same to programs that are differentiated as equations: a map with these laws.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import NamedTuple, cast

from delassus.algorithms.contact.law import FARTHEST, TINY, clamped, mean_beyond, part_beyond, size_of
from delassus.algorithms.contact.problem import JointLaw, PointLaw, StepProblem, magnitude, maximum_of
from delassus.spatial.motion import column, diagonal, dot, from_entries
from delassus.spatial.ops import Matrix, Ops, Scalar

NO_DIRECTION = 1e-12
"""Speed (m/s) below which friction has no direction."""

LEAST_SIZE = 1e-6
"""Speed over smoothing below which a mean is its rate times that speed, which round-off hides."""


class Mode(NamedTuple):
    """What a contact point does: ``C`` and ``B`` (r × r), ``D`` (r), mobility, and ``distance`` (m/s) of other modes.

    It has three rows, a patch has those of its spins behind them. ``axes`` (r × r) are along friction, across it, and
    the normal; further ones of a patch are across it, too. ``with_floor`` (1/kg) is what the row of the normal has of
    its least impulse; ``with_friction`` the change of impulses (r) with the friction coefficient.
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
    """Mode of a contact point at impulses and velocities of its law (r); ``moves`` is 0 where loops hold it."""
    if len(p) > 3 and not problem.pyramid:
        return _patch_mode(problem, x, p, u, moves, smoothing)
    ops, w_n, friction = problem.ops, problem.own_mobility[x.row + 2], [0, 1, *range(3, len(p))]
    w = 0.5 * (problem.own_mobility[x.row] + problem.own_mobility[x.row + 1])
    pressed = w_n * (p[2] if x.floor is None else p[2] - x.floor) - u[2]
    closed, is_closed = (part_beyond(ops, pressed, s) * moves for s in (smoothing, None))
    mobilities = [w, w]
    if x.spins:  # those of pyramids, each with its own
        own = x.sizes(problem.own_mobility)
        mobilities = [own[k] for k in friction]
    limits = [y * (x.friction * p[2]) for y in mobilities]
    mean_limits = limits
    if smoothing is not None:
        normal = mean_beyond(ops, pressed, smoothing) * (1.0 / w_n)
        mean = x.friction * moves * (normal if x.floor is None else normal + x.floor)
        mean_limits = [y * mean for y in mobilities]
    tried = [y * p[k] - u[k] for k, y in zip(friction, mobilities, strict=True)]
    sizes = [magnitude(ops, a) for a in tried] if problem.pyramid else [ops.length(*tried)]
    over = [1.0 / size for size in sizes]
    each = zip(sizes, over, mean_limits, strict=False)
    parts = [friction_parts(ops, size, y, most, smoothing) for size, y, most in each]
    sticks, turns, shares = zip(*parts, strict=True)
    if problem.pyramid:
        signs = [ops.copysign(share, a) for a, share in zip(tried, shares, strict=True)]
        along, with_friction = [x.friction * sign for sign in signs], [sign * p[2] for sign in signs]
        axes, kept = ops.eye(len(p)), [*sticks[:2], closed, *sticks[2:]]
        speeds = [magnitude(ops, u[k]) for k in friction]
        used = [y * magnitude(ops, p[k]) for k, y in zip(friction, mobilities, strict=True)]
    else:
        has_direction = ops.less(NO_DIRECTION, sizes[0])
        e0, e1 = (ops.select(has_direction, a * over[0], first) for a, first in zip(tried, (1.0, 0.0), strict=True))
        axes = ops.matrix([[e0, e1, 0.0], [-e1, e0, 0.0], [0.0, 0.0, 1.0]])
        with_friction = [shares[0] * p[2] * e0, shares[0] * p[2] * e1]
        along, kept = [shares[0] * x.friction, 0.0], [sticks[0], turns[0], closed]
        speeds, used = [ops.length(*u[:2])], [w * ops.length(*p[:2])]
    columns = [*along[:2], 1.0, *along[2:]]
    coupled = ops.matrix([_placed(len(p), {k: 1.0, 2: column}) for k, column in enumerate(columns)])
    D = [(1.0 - k) * size for k, size in zip(kept, (*mobilities[:2], w_n, *mobilities[2:]), strict=True)]
    with_floor: Scalar = 0.0 if x.floor is None else (moves - closed) * w_n
    apart = ops.select(is_closed, problem.G[x.row + 2][x.row + 2] * p[2], magnitude(ops, u[2]))
    turn: Scalar = FARTHEST
    for size, speed, held, limit in zip(sizes, speeds, used, limits, strict=False):
        turn = ops.minimum(turn, ops.select(ops.less(limit, size), speed, limit - held))
    is_touching = is_closed if x.floor is None else ops.maximum(is_closed, ops.less(0.0, x.floor) * moves)
    distance = ops.select(moves, ops.select(is_touching, ops.minimum(apart, turn), apart), FARTHEST)
    C, B = diagonal(ops, kept) @ axes, ops.transpose(axes) @ coupled
    with_friction = [*with_friction[:2], 0.0, *with_friction[2:]]
    return Mode(axes, C, B, D, problem.mobility[x.row], with_floor, with_friction, distance)


def _patch_mode(
    problem: StepProblem, x: PointLaw, p: Sequence[Scalar], u: Sequence[Scalar], moves: Scalar,
    smoothing: Scalar | None,
) -> Mode:  # fmt: skip
    """Mode of a patch: that of a point in the plane of its friction and the normal, and one law for all across it."""
    ops, r, sizes = problem.ops, len(p), x.sizes(problem.own_mobility)
    friction = [*range(3, r), 0, 1]  # spins first: without Coulomb's friction, axes along tangents stay apart
    mean = 0.5 * (sizes[0] + sizes[1])  # of a point
    most = maximum_of(ops, [mean, *sizes[3:]])
    e, *across = axes_along(ops, [most * p[k] - u[k] for k in friction])
    own = sum((y * y * (mean if k < 2 else sizes[k]) for k, y in zip(friction, e, strict=True)), cast(Scalar, 0.0))
    size = ops.select(ops.less(0.0, own), own, most)
    pressing, moving = ([dot(e, [y[k] for k in friction]), 0.0, y[2]] for y in (p, u))
    plane = SimpleNamespace(
        ops=ops, pyramid=False, own_mobility=[size, size, sizes[2]], mobility=[problem.mobility[x.row]],
        G=[[None, None, problem.G[k][k]] for k in range(x.row, x.row + 3)],
    )  # fmt: skip
    found = point_mode(cast(StepProblem, plane), replace(x, row=0, spins=()), pressing, moving, moves, smoothing)
    kinds, rows = [0, 1, 2, *[1] * (r - 3)], [e, across[0], None, *across[1:]]
    axes = ops.matrix([_placed(r, {2: 1.0} if row is None else dict(zip(friction, row, strict=True))) for row in rows])
    kept, pressed = [ops.entries(found.C)[k][k] for k in kinds], ops.entries(found.B)[0][2]
    coupled = ops.matrix([_placed(r, {i: 1.0} if i else {0: 1.0, 2: pressed}) for i in range(r)])
    with_friction = _placed(r, {k: found.with_friction[0] * y for k, y in zip(friction, e, strict=True)})
    return found._replace(
        axes=axes, C=diagonal(ops, kept) @ axes, B=ops.transpose(axes) @ coupled, D=[found.D[k] for k in kinds],
        with_friction=with_friction,
    )  # fmt: skip


def _placed(n: int, entries: Mapping[int, Scalar]) -> list[Scalar]:
    """Numbers (n) by their places; others are zero."""
    return [entries.get(k, 0.0) for k in range(n)]


def axes_along(ops: Ops, x: Sequence[Scalar]) -> list[list[Scalar]]:
    """Orthonormal axes (k × k), the first along a vector (k) that has a direction (m/s), else the unit vectors."""
    size = size_of(ops, x)
    over = ops.less(NO_DIRECTION, size) / ops.maximum(size, NO_DIRECTION)
    is_none = 1.0 - ops.less(NO_DIRECTION, size)
    e = [over * x[0] + is_none, *(over * y for y in x[1:])]
    mirror = [e[0] + ops.copysign(1.0, e[0]), *e[1:]]  # Householder: the first axis becomes −e or e
    factor = 2.0 / sum((y * y for y in mirror[1:]), mirror[0] * mirror[0])
    rest = [[(1.0 if i == k else 0.0) - factor * mirror[i] * y for k, y in enumerate(mirror)] for i in range(1, len(x))]
    return [e, *rest]


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
        axes, coupled, C = (ops.matrix([held(row) for row in ops.entries(a)])
                            for a in (mode.axes, mode.axes @ mode.B, mode.C))  # fmt: skip
        slips, (over,), units = held(mode.with_friction), held([1.0 / mode.mobility]), held(x.units)
        impulses, speeds = problem.in_law_of(x, p, u)
        given = from_entries(ops, [y - slip * x.friction for y, slip in zip(impulses, slips, strict=True)])
        along = axes @ given
        unknown = along + along - coupled @ along  # of a unit triangle 1 + N, N² = 0
        missed = C @ from_entries(ops, speeds) + diagonal(ops, held(mode.D)) @ unknown
        moved = column(ops, ops.transpose(axes) @ missed)
        if x.spins:  # tangents without Coulomb's friction have no impulse
            kept = [*units[:2], *[1.0] * (len(units) - 2)]
            for row, part, unit, y in zip(x.rows, kept, units, moved, strict=True):
                out[row] = part * p[row] - over * unit * y
            continue
        for row, y in zip(x.rows, moved, strict=True):
            out[row] = p[row] - over * y
    for law, (hold, position) in zip(problem.joints, joints, strict=True):
        row, w = law.row, problem.own_mobility[law.row]
        compliant = (1.0 - hold.held) / (1.0 + w * (0.0 if hold.added is None else hold.added))
        over, part, added = held([hold.held / w, compliant, hold.added])
        with_position, with_time, slip = held([hold.with_position, hold.with_time, hold.slip / h])
        velocity: Scalar = u[row] - with_position * position - with_time * h
        out[row] = p[row] - over * velocity - part * (p[row] - slip * h + added * velocity)
    return out


def smoothed_laws(
    ops: Ops, laws: Sequence[PointLaw], gaps: Sequence[Scalar], over_h: Scalar, smoothing: Sequence[Scalar | None],
    displaced: Sequence[Scalar],
) -> list[PointLaw]:  # fmt: skip
    """Laws of points whose rates have the derivatives of means over starts, ``displaced`` along rows by an impact."""
    return [
        replace(x, rate=ops.derived(x.rate, smoothed_rate(ops, gap, over_h, own) + over_h * s))
        for x, gap, own, s in zip(laws, gaps, smoothing, displaced[2::3], strict=False)
    ]


def smoothed_rate(ops: Ops, gap: Scalar, over_h: Scalar, smoothing: Scalar | None) -> Scalar:
    """A number that changes as the rate at which a gap may close does, smoothed."""
    closing = part_beyond(ops, over_h * gap, smoothing) * over_h
    return ops.derived(closing, 0.0) * gap + over_h * ops.derived(ops.maximum(gap, 0.0), 0.0)
