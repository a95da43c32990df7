"""Laws of row groups in compiled loops (`delassus.algorithms.contact.law`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from delassus.algorithms.contact import law, point
from delassus.algorithms.contact.point import PointBlock
from delassus.compiler.jit.compile import compiled, inlined
from delassus.compiler.jit.loop_ops import emitted
from delassus.spatial.rotations import Array

CONTACT, JOINT, PATCH, SPIN = range(4)
"""Kinds of row groups; contacts have three rows, joints one, the last of three places.

A *patch* is a contact with torsional or rolling friction. It has a partner, its *spin*: three rows of relative angular
velocity, about tangents and normal, times lengths over the friction coefficient. So all of a patch's friction is one
vector of five impulses (N s) with one round cone, as that of a contact is one of two.
"""

MOBILITY, BESIDE, OF_SPIN, SPEEDS, TAKEN, ALONG, SHIFTED, CHANGE, KEPT, TANGENTS, FACTOR, SIZE = (
    0, 36, 45, 54, 60, 66, 72, 78, 84, 90, 115, 140
)  # fmt: skip
"""Places in the memory of a patch: its ``W`` (6, 6), ``D`` from spin to contact (3, 3) and back; six numbers each,
tangent, tangent, normal, spins: velocities, impulses, direction of friction, derivative of the shift, what changes, and
a copy; mobilities of its friction (5, 5) and their factor; and its size."""

NEWTON_STEPS = 40
"""Most steps to the slip of a patch."""

PRECISION = 1e-14
"""Relative error of its friction at which they end."""

PIVOT = 1e-14
"""Least pivot there."""

SPEED = 1e6
"""Velocity over the tolerance that residuals are small against: 1 m/s with the default one."""

OUT_OF_REACH = 1e20
"""Velocity (m/s, rad/s) of what does not take part."""

Solved = tuple[tuple[float, float, float], float]
Law = tuple[float, float, float, float, float, float, float, float, float]

cone_law: Callable[..., Law] = emitted(law.cone)
joint_law: Callable[..., tuple[float, float]] = emitted(law.joint)
point_block: Callable[..., PointBlock] = emitted(partial(point.point_block, is_only=True))
solve_point: Callable[..., Solved] = emitted(point.solve_point)
solve_point_beside: Callable[..., Solved] = emitted(point.solve_point_beside)
passive_part: Callable[..., float] = emitted(law.passive_part)
impact: Callable[..., tuple[float, float]] = emitted(law.impact)
impact_time: Callable[..., float] = emitted(law.impact_time)
turns_alike: Callable[..., float] = emitted(law.turns_alike)
gap_correction: Callable[..., tuple[float, float]] = emitted(law.gap_correction)
limit_correction: Callable[..., tuple[float, float]] = emitted(law.limit_correction)
step_of_spring: Callable[..., tuple[float, float]] = emitted(law.step_of_spring)


@inlined
def impulse(kind: int, mu: float, friction_offset: float, x: float, y: float, z: float) -> Law:
    """``P(x, y, z)`` and its derivative: xx, xy, yy, xz, yz, zz. Of joints, ``x`` and ``y`` are limits negated."""
    if kind == JOINT:
        found = joint_law(friction_offset, -x, -y, z)
        return 0.0, 0.0, found[0], 0.0, 0.0, 0.0, 0.0, 0.0, found[1]
    return cone_law(mu, friction_offset, x, y, z)


@inlined
def patch_law(mu: float, friction_offset: float, x: Array, at: int) -> tuple[float, ...]:
    """``P`` of a patch at the six numbers from ``at`` on: the factor of its friction, its normal impulse, and ``P'``.

    This is a number times the identity across the direction of friction, which ``ALONG`` gets, and a matrix along that
    and the normal: across, along, along and normal, normal.
    """
    t = math.sqrt(x[at] ** 2 + x[at + 1] ** 2 + x[at + 3] ** 2 + x[at + 4] ** 2 + x[at + 5] ** 2)
    law, over = cone_law(mu, friction_offset, t, 0.0, x[at + 2]), 1.0 / t if t > 0.0 else 0.0
    for k in range(6):
        x[ALONG + k] = over * x[at + k] if k != 2 else 0.0
    return over * law[0], law[2], law[5], law[3], law[6], law[8]


@compiled
def patch_step(mu: float, friction_offset: float, w: float, x: Array) -> tuple[float, float, float, float, float]:
    """``KEPT = P(w p − u − s)`` of a patch and ``CHANGE``, less ``w p``; ``P'`` as of `patch_law`, ``SHIFTED = ∂s``."""
    t = 0.0
    for k in range(6):
        t += x[SPEEDS + k] ** 2 if k != 2 else 0.0
    t = math.sqrt(t)
    for k in range(6):
        x[SHIFTED + k] = mu * x[SPEEDS + k] / t if t > 0.0 and k != 2 else 0.0
        x[CHANGE + k] = w * x[TAKEN + k] - x[SPEEDS + k]
    x[CHANGE + 2] -= mu * t
    across, normal, p0, p1, p2, p3 = patch_law(mu, friction_offset, x, CHANGE)
    for k in range(6):
        x[KEPT + k] = normal if k == 2 else across * x[CHANGE + k]
        x[CHANGE + k] = x[KEPT + k] - w * x[TAKEN + k]
    return p0, p1, p2, p3, normal


@compiled
def solve_patch(mu: float, friction_offset: float, least: float, slip: float, x: Array) -> float:
    """Change of the impulse of a patch alone to the solution of its law, and ``α``, from ``slip`` on; see `point`.

    ``least`` is added to mobilities. What moves without its impulses takes the place of ``SPEEDS``.
    """
    for i in range(6):
        x[SPEEDS + i] -= least * x[TAKEN + i]
        for k in range(6):
            x[SPEEDS + i] -= x[MOBILITY + 6 * i + k] * x[TAKEN + k]
    normal = x[MOBILITY + 14] + least
    alone, n = -x[SPEEDS + 2] / normal, 0.0
    for k in range(6):
        x[CHANGE + k], x[SHIFTED + k], x[ALONG + k] = 0.0, 0.0, x[SPEEDS + k]
    if friction_offset > 0.0:  # without a normal impulse
        for i in range(5):
            for k in range(5):
                x[TANGENTS + 5 * i + k] = x[MOBILITY + 6 * place(i) + place(k)]
            x[TANGENTS + 6 * i] += least
        found = resist(mu, friction_offset, 0.0, slip, x)
        n = alone
        for k in range(5):
            n -= x[MOBILITY + 12 + place(k)] / normal * x[CHANGE + place(k)]
        slip = slip if n > 0.0 else found
    elif alone > 0.0:
        n = alone
    if n > 0.0:
        for i in range(5):
            x[SHIFTED + place(i)] = x[MOBILITY + 12 + place(i)] / normal
            x[ALONG + place(i)] = x[SPEEDS + place(i)] - x[SHIFTED + place(i)] * x[SPEEDS + 2]
        for i in range(5):
            for k in range(5):
                shared = normal * x[SHIFTED + place(i)] * x[SHIFTED + place(k)]
                x[TANGENTS + 5 * i + k] = x[MOBILITY + 6 * place(i) + place(k)] - shared
            x[TANGENTS + 6 * i] += least
        slip, n = resist(mu, friction_offset, alone, slip, x), alone
        for k in range(5):
            n -= x[SHIFTED + place(k)] * x[CHANGE + place(k)]
        x[CHANGE + 2] = max(n, 0.0)
    for k in range(6):
        x[CHANGE + k] -= x[TAKEN + k]
    return slip


@inlined
def place(k: int) -> int:
    """Place of a row of friction among the six of a patch."""
    return k if k < 2 else k + 1


@compiled
def resist(mu: float, friction_offset: float, alone: float, slip: float, x: Array) -> float:
    """Friction ``CHANGE`` of a patch and ``α``: ``(A + α) r = −c``, ``|r| ≤ μ n + offset``, ``n = alone − h r``.

    ``A`` is in ``TANGENTS``, ``c`` in ``ALONG``, ``h`` in ``SHIFTED``. ``α = 0`` where it sticks. Else it is found by
    Newton's method on ``(μ n + offset) / |r|``, nearly a line, between bounds.
    """
    low, high, alpha, limit, total = 0.0, math.inf, 0.0, 0.0, 0.0
    size, most = 0.0, mu * alone + friction_offset
    for k in range(5):
        total += x[ALONG + place(k)] ** 2
    for step in range(NEWTON_STEPS):
        for k in range(5):
            x[CHANGE + place(k)] = -x[ALONG + place(k)]
        solve_tangents(alpha, True, x)
        n, size = alone, 0.0
        for k in range(5):
            r = x[CHANGE + place(k)]
            x[KEPT + k] = r
            n, size = n - x[SHIFTED + place(k)] * r, size + r * r
        size, limit = math.sqrt(size), mu * n + friction_offset
        if (step == 0 and size <= limit) or abs(size - limit) <= PRECISION * size:
            return alpha
        if not most > 0.0:
            break
        if step == 0:
            alpha = slip if slip > 0.0 else math.sqrt(total) / most
            continue
        if size > limit:
            low = alpha
        else:
            high = alpha
        solve_tangents(alpha, False, x)
        with_size, with_limit = 0.0, 0.0
        for k in range(5):
            r, q = x[KEPT + k], x[CHANGE + place(k)]
            with_size, with_limit = with_size - r * q / size, with_limit + mu * x[SHIFTED + place(k)] * q
        slope = (with_limit * size - limit * with_size) / (size * size)
        alpha = alpha - (limit / size - 1.0) / slope if slope > 0.0 else -1.0
        if not (low < alpha and alpha < high):
            alpha = 0.5 * (low + high) if high < math.inf else 4.0 * low
    part = max(limit, 0.0) / size if size > limit else 1.0
    for k in range(5):
        x[CHANGE + place(k)] = part * x[KEPT + k]
    return alpha


@compiled
def solve_tangents(alpha: float, factor: bool, x: Array) -> None:
    """``CHANGE ← (A + α)⁻¹ CHANGE`` of friction, by a Cholesky factor that is new or the last one."""
    if factor:
        for i in range(5):
            for k in range(i + 1):
                rest = x[TANGENTS + 5 * i + k] + (alpha if i == k else 0.0)
                for c in range(k):
                    rest -= x[FACTOR + 5 * i + c] * x[FACTOR + 5 * k + c]
                if i == k:
                    x[FACTOR + 6 * i] = math.sqrt(max(rest, PIVOT * x[TANGENTS + 6 * i]))
                else:
                    x[FACTOR + 5 * i + k] = rest / x[FACTOR + 6 * k]
    for i in range(5):
        for c in range(i):
            x[CHANGE + place(i)] -= x[FACTOR + 5 * i + c] * x[CHANGE + place(c)]
        x[CHANGE + place(i)] /= x[FACTOR + 6 * i]
    for j in range(5):
        i = 4 - j
        for c in range(i + 1, 5):
            x[CHANGE + place(i)] -= x[FACTOR + 5 * c + i] * x[CHANGE + place(c)]
        x[CHANGE + place(i)] /= x[FACTOR + 6 * i]
