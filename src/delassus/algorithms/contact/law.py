"""The law of contact and of joints, in one text for kernels, compiled loops and arrays.

Impulses ``p`` of a group with the mobility ``w`` obey their law where they are images of themselves,

    w p = P(w p − u − s),

with ``P`` the projection on what is allowed, and ``s``, De Saxcé's shift, ``(0, 0, μ |u_t|)`` at contacts. Their
distance from that, a velocity, is the *residual*.

- *Contacts*, tangent, tangent, normal: ``|p_t| ≤ μ p_n + friction_offset``, ``p_n ≥ 0``. With the shift, the optimality
  of a convex problem becomes Coulomb's law. Of *patches*, contacts with torsional or rolling friction, ``p_t`` has
  spins too, relative angular velocities times lengths over ``μ``: see `delassus.contact.sparse.spins`.
- *Joints*: friction up to ``friction``, and limits that hold velocities from ``least ≤ 0`` to ``most ≥ 0``. Of both
  together, ``−p`` is a subgradient of ``friction |u|`` within the limits; ``P(z) = z + u`` with the velocity ``u`` that
  friction and limits leave of ``−z``.

Either map is the gradient of a convex function, so that its derivative is symmetric and positive semidefinite.
Source: De Saxcé and Feng 1998; Alart and Curnier 1991.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from delassus.spatial.ops import SQUARE_FLOOR, Scalar, ScalarOps

TINY = 1e-30
"""Length below which there is none."""


FARTHEST = 1e30
"""Distance (m/s) of modes that do not change."""

ALIKE = 1e-6
"""Difference of moments of inertia about centres of mass, over their sum, up to which a body turns alike."""


PENETRATION = 1e-4
"""Overlap (m) that is left alone."""

CORRECTION = 0.2
"""Fraction of the rest of it, and of loop errors, that a step takes back."""

COMPLIANCE = 1e-2
"""Compliance of contacts in the position correction, over their mean mobility."""

LEAST_MOBILITY = 1e-12
"""The least of these mobilities, over the largest one."""

MOST_DISPLACEMENT = 10.0
"""How far rows may move in the position correction, over the largest displacement wanted."""

MOST_TURN = 0.02
"""How far joints may turn in it (rad)."""

MOST_SLIDE = 0.2
"""How far joints may slide in it, over the `characteristic_length` of the robots."""

CORRECTION_TOLERANCE = 1e-3
"""Accuracy of the position correction, over what the tolerance of velocities makes of positions in a step."""

HELD_FRACTION = 16.0
"""Mobility of a row under closed loops, over its round-off, up to which these hold it."""

STIFF = 0.25
"""Rate of a joint's spring and damping, ``h √(k / I) + h d / I``, up to which sub-steps of loops follow it."""

LONGEST = 0.1
"""Longest time step (s) for which kernels ask whether they do."""

RESTING = 2.0
"""Contacts bounce that approach faster than gravity makes them in so many steps."""

Cone = tuple[Scalar, Scalar, Scalar, Scalar, Scalar, Scalar, Scalar, Scalar, Scalar]
"""An impulse, and the derivative: xx, xy, yy, xz, yz, zz."""


def cone(ops: ScalarOps, mu: Scalar, friction_offset: Scalar, x: Scalar, y: Scalar, z: Scalar) -> Cone:
    """The nearest allowed impulse of a contact, and its derivative."""
    over, t = 1.0 / (1.0 + mu * mu), ops.length(x, y)
    onto = ops.maximum(z, (z + mu * (t - friction_offset)) * over)
    n, presses = ops.maximum(onto, 0.0), 1.0 - ops.less(onto, 0.0)
    limit = mu * n + friction_offset
    over_t = 1.0 / ops.maximum(t, TINY)
    sticks = ops.less(t, limit)
    across = ops.select(sticks, 1.0, limit * over_t)
    e, f = x * over_t, y * over_t
    steep = ops.select(sticks, 0.0, presses * over)
    own = ops.select(sticks, 0.0, mu * mu * steep - across)
    return (
        across * x, across * y, n,
        across + own * e * e, own * e * f, across + own * f * f,
        mu * steep * e, mu * steep * f, ops.select(sticks, presses, steep),
    )  # fmt: skip


def joint(
    ops: ScalarOps, friction: Scalar | None, least: Scalar | None, most: Scalar | None, z: Scalar
) -> tuple[Scalar, Scalar]:
    """``P(z)`` of a joint, and its derivative: 1 where the velocity is held, else 0; None is without."""
    u: Scalar = -z
    free: Scalar = 1.0
    if friction is not None:
        u, free = clamped(ops, z, -friction, friction) - z, ops.less(friction, ops.maximum(z, -z))
    if most is not None:
        u, free = ops.minimum(u, most), free * ops.less(u, most)
    if least is not None:
        u, free = ops.maximum(u, least), free * ops.less(least, u)
    return z + u, 1.0 - free


def point_image(
    ops: ScalarOps, mu: Scalar, friction_offset: Scalar, w: Scalar, p: Sequence[Scalar], u: Sequence[Scalar]
) -> tuple[Scalar, Scalar, Scalar]:
    """``P(w p − u − s)`` of a contact, velocities."""
    found = cone(
        ops, mu, w * friction_offset, w * p[0] - u[0], w * p[1] - u[1], w * p[2] - u[2] - mu * ops.length(u[0], u[1])
    )
    return found[0], found[1], found[2]


def size_of(ops: ScalarOps, friction: Sequence[Scalar]) -> Scalar:
    """Length of a vector, with a derivative where it is zero."""
    return ops.sqrt(sum((x * x for x in friction), cast(Scalar, SQUARE_FLOOR)))


def patch_image(
    ops: ScalarOps, mu: Scalar, friction_offset: Scalar, w: Scalar, p: Sequence[Scalar], u: Sequence[Scalar]
) -> list[Scalar]:
    """The same of a patch: tangent, tangent, normal, then spins; all of its friction is one vector in one cone."""
    tried, speed = [w * a - b for a, b in zip(p, u, strict=True)], size_of(ops, [*u[:2], *u[3:]])
    size = size_of(ops, [*tried[:2], *tried[3:]])
    along, _, normal, *_ = cone(ops, mu, w * friction_offset, size, 0.0, tried[2] - mu * speed)
    part = along / ops.maximum(size, TINY)
    return [part * tried[0], part * tried[1], normal, *(part * x for x in tried[3:])]


def bouncing_speed(ops: ScalarOps, gravity: Sequence[Scalar], h: Scalar) -> Scalar:
    """Speed of approach (m/s) from which on contacts bounce: what is slower than gravity makes it rests."""
    return RESTING * h * ops.sqrt(ops.maximum(sum(g * g for g in gravity), SQUARE_FLOOR))


def impact(
    ops: ScalarOps, rate: Scalar, approach: Scalar, reached: Scalar, restitution: Scalar, tolerance: Scalar,
    resting: Scalar,
) -> tuple[Scalar, Scalar]:  # fmt: skip
    """Whether a contact hits within the step, and whether it bounces: 1 or 0.

    ``rate`` is that at which its gap closes in the step, ``approach`` its normal velocity, ``reached`` that by which
    the step moves it without contacts, ``resting`` the speed from which on it bounces (m/s). What is closed hits,
    whether or not it approaches: bodies that are struck lean on it. A rate below zero is that of what parts after an
    impact of this step.
    """
    parts = ops.less(rate, -tolerance)
    hits = ops.less(rate + ops.select(parts, reached, ops.minimum(reached, 0.0)), tolerance)
    return hits, hits * ops.less(approach, -resting) * ops.less(0.0, restitution)


def impact_margins(
    ops: ScalarOps, rate: Scalar, approach: Scalar, reached: Scalar, restitution: Scalar, tolerance: Scalar,
    resting: Scalar,
) -> tuple[Scalar, Scalar]:  # fmt: skip
    """Changes of a velocity (m/s) at which `impact` says otherwise: whether a contact hits, and whether it bounces.

    What is closed hits at any velocity.
    """
    parts, opens = ops.less(rate, -tolerance), ops.less(0.0, rate)
    after = rate + ops.select(parts, reached, ops.minimum(reached, 0.0)) - tolerance
    hits, fast = ops.less(after, 0.0), ops.less(approach, -resting)
    of_hit = ops.maximum(after, -after)
    of_hit = ops.select(parts, ops.minimum(of_hit, -tolerance - rate), ops.select(opens, of_hit, FARTHEST))
    of_speed = ops.maximum(approach + resting, -resting - approach)
    either, both = ops.minimum(of_hit, of_speed), ops.maximum(of_hit, of_speed)
    of_bounce = ops.select(hits, ops.select(fast, either, of_speed), ops.select(fast, of_hit, both))
    return of_hit, ops.select(ops.less(0.0, restitution), of_bounce, FARTHEST)


def impact_time(ops: ScalarOps, rate: Scalar, approach: Scalar, reached: Scalar, h: Scalar) -> Scalar:
    """When within the step (s) a contact is closed that hits.

    Half a step behind its gap parts by ``approach``, and by ``reached`` a step later, with an acceleration that is
    constant: ``φ + t (u + u*) / 2 + t² (u* − u) / (2 h) = 0``, in parts of the step.
    """
    slope, curve = 0.5 * (approach + reached), reached - approach
    root = ops.sqrt(ops.maximum(slope * slope - 2.0 * curve * rate, 0.0))
    over = ops.maximum(root - slope, TINY)
    return h * clamped(ops, 2.0 * rate / over, 0.0, 1.0)


def turns_alike(ops: ScalarOps, m: Scalar, c: Sequence[Scalar], about: Sequence[Scalar]) -> Scalar:
    """1 where a body has the same inertia about all axes through its centre of mass: its energy has no orientation.

    From its mass, that centre, and its inertia about the origin: xx, yy, zz, xy, xz, yz.
    """
    (x, y, z), (xx, yy, zz, xy, xz, yz) = c, about
    a, b, d = xx - m * (y * y + z * z), yy - m * (x * x + z * z), zz - m * (x * x + y * y)
    worst: Scalar = 0.0
    for apart in (a - b, b - d, xy + m * (x * y), xz + m * (x * z), yz + m * (y * z)):
        worst = ops.maximum(worst, ops.maximum(apart, -apart))
    return 1.0 - ops.less(ALIKE * (a + b + d), worst)


def part_beyond(ops: ScalarOps, margin: Scalar, smoothing: Scalar | None) -> Scalar:
    """1 where a margin (m/s) is positive, else 0; with ``smoothing`` above zero the mean of that over changes of it.

    These are uniform, up to ``smoothing`` (m/s) to either side: a ramp in the place of the step.
    """
    beyond = ops.less(0.0, margin)
    if smoothing is None:
        return beyond
    part = 0.5 + 0.5 * margin / ops.maximum(smoothing, TINY)
    return ops.select(ops.less(0.0, smoothing), clamped(ops, part, 0.0, 1.0), beyond)


def mean_beyond(ops: ScalarOps, margin: Scalar, smoothing: Scalar) -> Scalar:
    """Mean of ``max(margin, 0)`` over these changes; `part_beyond` is its derivative."""
    within = ops.maximum(smoothing - ops.maximum(margin, -margin), 0.0)
    return ops.maximum(margin, 0.0) + 0.25 * (within * within) / ops.maximum(smoothing, TINY)


def passive_part(ops: ScalarOps, linear: Scalar, square: Scalar, budget: Scalar) -> Scalar:
    """Largest part ``s`` of impulses, up to 1, that adds no more energy (J) than there is: ``s linear + s² square``.

    What is in a cone stays there, which is convex and holds zero. Of a solution all is left: it takes energy.
    """
    size = ops.maximum(ops.maximum(linear, -linear), ops.maximum(ops.maximum(square, budget), SQUARE_FLOOR))
    linear, square, budget = linear / size, square / size, budget / size
    root = ops.sqrt(ops.maximum(linear * linear + 4.0 * square * budget, 0.0) + SQUARE_FLOOR)
    takes = ops.less(linear, 0.0)  # the form of the root in which nothing cancels
    over = ops.select(takes, 2.0 * square, root + linear) + SQUARE_FLOOR
    part = ops.minimum(ops.select(takes, root - linear, 2.0 * budget) / over, 1.0)
    return ops.select(ops.less(budget, linear + square), part, 1.0)


def gap_correction(
    ops: ScalarOps, gap: Scalar, moved: Scalar, penetration: Scalar, correction: Scalar
) -> tuple[Scalar, Scalar]:
    """Displacement along a normal by which an overlap is taken back, and the least one, if the step moves by ``moved``.

    ``correction`` is the fraction that a step takes back of what is beyond ``penetration``.
    """
    wanted = correction * ops.maximum(-gap - penetration, 0.0)
    return wanted, wanted - ops.maximum(0.0, gap + moved)  # of what is closed exactly, 0 with its derivatives


def limit_correction(ops: ScalarOps, distance: Scalar, correction: Scalar, tolerance: Scalar) -> tuple[Scalar, Scalar]:
    """The same of a joint at a ``distance`` from a limit after the step, negative beyond it."""
    wanted = ops.select(ops.less(distance, -tolerance), -correction * distance, 0.0)
    return wanted, wanted - ops.maximum(distance, 0.0)


def clamped(ops: ScalarOps, x: Scalar, least: Scalar, most: Scalar) -> Scalar:
    """``x``, or the bound that it is beyond."""
    return ops.maximum(ops.minimum(x, most), least)


def step_of_spring(
    ops: ScalarOps, h: Scalar, stiffness: Scalar, damping: Scalar, mobility: Scalar
) -> tuple[Scalar, Scalar]:
    """Mass ``a`` that a spring adds along its row in a step, and momentum ``b`` of a velocity along it.

    What acts over a step ``h``, beside its force at the start, is ``a (v⁺ − v) + b v``. With ``κ = h² k w``, of the
    mobility ``w``, ``β = κ / (1 + κ)`` and ``α = (1 + 3 β) / 4`` they are ``h d + α h² k`` and ``β h² k``: see
    `delassus.contact.sparse.springs`.
    """
    over = h * h * stiffness
    ahead = over * mobility / (1.0 + over * mobility)
    return h * damping + 0.25 * (1.0 + 3.0 * ahead) * over, ahead * over
