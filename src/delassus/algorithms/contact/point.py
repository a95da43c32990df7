"""The impulse of one contact point, all three rows at once, from its own mobility ``W`` and its velocity ``u``.

With ``c = u − W p`` the impulse ``r`` in the cone ``|r_t| ≤ μ r_n`` and ``W r + c`` obey Coulomb's law: the contact is
open (``c_n ≥ 0``, ``r = 0``), sticks (``W r + c = 0``), or slides: ``u_n = 0``, ``u_t = −α r_t``, ``|r_t| = μ r_n``.
Eliminating ``r_n`` by ``u_n = 0`` leaves the Schur complement ``A`` (2 × 2) and

    r_t = −R(α) / D(α),   R = adj(A) c̃ + α c̃,   D = det(A + α),   r_n = N(α) / D(α),

with ``α = 0`` where it sticks, and else a zero of ``μ N − |R|``: a quadratic less the length of a point on a line.
Steps of Newton's method go from the ``α`` that the caller keeps from one call to the next; of ``α`` only the direction
of ``R`` is used. What stays where it is, with its ``α``, solves the law in any precision.

Friction may exceed ``μ r_n`` by a constant: then there is friction where ``r_n = 0``, too, by the same equation with
the block of the tangents for ``A`` and no normal, as long as that does not make the contact approach.

*Deviation*: ``W_nn`` is raised to ``2 μ |W_tn|`` where it is smaller; what changes by that is taken from ``p``, so that
the law at rest is the same. Points at which friction may press in as much as the normal impulse itself have two
solutions or none nearby, between which sweeps over several points would go back and forth without end.

A *patch*, a contact with torsional or rolling friction, has spins beside its tangents: angular velocities times lengths
over ``μ`` (`delassus.contact.sparse.spins`). All of its friction is one vector of three to five numbers, so that
``(A + α) r_t = −c̃`` is solved by a factor, and ``α`` by Newton's method on ``(μ r_n + offset) / |r_t|``, nearly a line.

Source: Bonnefon and Daviet 2011 find the same roots from a quartic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

from delassus.algorithms.contact.law import size_of
from delassus.spatial.motion import dot, minus, plus_scaled
from delassus.spatial.ops import SQUARE_FLOOR, Scalar, ScalarOps

STEPS = 2
"""Steps of Newton's method at a time."""

LARGEST_SLIP = 1e4
"""Largest ``α``, relative to the tangential mobility: from there on friction is against ``c̃``."""

LARGEST_PRESSING = 0.5
"""Largest part of a normal impulse by which friction that it allows adds to it, ``μ |W_tn| / W_nn``."""

LEAST_SHARE = 1e-6
"""Least normal impulse without friction, relative to that with it."""

PIVOT = 4.0
"""Least pivot of the friction of a patch, over the round-off of its mobility."""

Impulse = tuple[Scalar, Scalar, Scalar]


class Tangents(NamedTuple):
    """Mobility ``A = [a b; b d]`` along the tangents (1/kg), its determinant, and ``(h, k) = W_tn / W_nn``."""

    a: Scalar
    b: Scalar
    d: Scalar
    det: Scalar
    h: Scalar
    k: Scalar


class PointBlock(NamedTuple):
    """A contact point alone: ``A`` where ``u_n = 0``, ``W_nn`` and one over it, and ``A`` where ``r_n = 0``."""

    closed: Tangents
    normal: Scalar
    over_normal: Scalar
    open: Tangents


def point_block(
    ops: ScalarOps, W: Sequence[Sequence[Scalar]], friction: Scalar, least: Scalar, is_only: bool = False
) -> PointBlock:
    """Block of ``W`` (3 × 3; tangent, tangent, normal; 1/kg) and a friction coefficient.

    ``least`` (1/kg) is added to mobilities: what can hardly move stays where it was. ``is_only``: no other impulses.
    """
    a, b, d, normal = W[0][0] + least, W[0][1], W[1][1] + least, W[2][2] + least
    if not is_only:
        normal = ops.maximum(normal, (1.0 / LARGEST_PRESSING) * (friction * ops.length(W[0][2], W[1][2])))
    over = 1.0 / normal
    h, k = W[0][2] * over, W[1][2] * over
    closed = _tangents(ops, a - h * h * normal, b - h * k * normal, d - k * k * normal, h, k, least)
    return PointBlock(closed, normal, over, _tangents(ops, a, b, d, h, k, least))


def _tangents(ops: ScalarOps, a: Scalar, b: Scalar, d: Scalar, h: Scalar, k: Scalar, least: Scalar) -> Tangents:
    return Tangents(a, b, d, ops.maximum(a * d - b * b, 0.5 * least * (a + d)), h, k)


def farthest_slip(block: PointBlock | PatchBlock) -> Scalar:
    """The largest ``α`` (1/kg), to start from: the first step goes to where it is if ``A`` is isotropic."""
    if isinstance(block, PatchBlock):
        return LARGEST_SLIP * _trace(block.closed)
    return LARGEST_SLIP * (block.closed.a + block.closed.d)


def solve_point(
    ops: ScalarOps, block: PointBlock, mu: Scalar, p: Sequence[Scalar], u: Sequence[Scalar], slip: Scalar
) -> tuple[Impulse, Scalar]:
    """Impulse in place of ``p``, at which the velocity is ``u``; and ``α``, from ``slip`` on."""
    alone = _alone(block, p, u)
    closed = ops.less(0.0, alone)
    a, b, n, x = ops.where(closed, lambda: _closed(ops, block, mu, 0.0, p, u, slip), [0.0, 0.0, 0.0, slip])
    return (a, b, n), x


def solve_point_beside(
    ops: ScalarOps, block: PointBlock, mu: Scalar, friction_offset: Scalar, p: Sequence[Scalar], u: Sequence[Scalar],
    slip: Scalar,
) -> tuple[Impulse, Scalar]:  # fmt: skip
    """The same with friction of ``friction_offset`` (N s) beside that of the normal impulse."""
    h, k, n = block.closed.h, block.closed.k, block.normal * p[2]
    v = u[0] - h * n, u[1] - k * n
    s, t, _, y = _with_friction(ops, block.open._replace(h=0.0, k=0.0), mu, friction_offset, p, v, 0.0, slip)
    closed = ops.less(0.0, _alone(block, p, u) - h * s - k * t)
    a, b, n, x = ops.where(closed, lambda: _closed(ops, block, mu, friction_offset, p, u, slip), [s, t, 0.0, y])
    return (a, b, n), x


def _alone(block: PointBlock, p: Sequence[Scalar], u: Sequence[Scalar]) -> Scalar:
    """Normal impulse without friction."""
    return p[2] + block.closed.h * p[0] + block.closed.k * p[1] - u[2] * block.over_normal


def _closed(
    ops: ScalarOps, block: PointBlock, mu: Scalar, offset: Scalar, p: Sequence[Scalar], u: Sequence[Scalar],
    slip: Scalar,
) -> list[Scalar]:  # fmt: skip
    """Impulse and ``α`` with ``u_n = 0``."""
    v = u[0] - block.closed.h * u[2], u[1] - block.closed.k * u[2]
    return _with_friction(ops, block.closed, mu, offset, p, v, _alone(block, p, u), slip)


def _with_friction(
    ops: ScalarOps, A: Tangents, mu: Scalar, offset: Scalar, p: Sequence[Scalar], v: Sequence[Scalar], alone: Scalar,
    slip: Scalar,
) -> list[Scalar]:  # fmt: skip
    """Impulse, and ``α``, which stays where it sticks; velocities ``v`` are those at the friction of ``p``."""
    a, b, d, det, h, k = A
    trace, most = a + d, mu * alone + offset
    r0, r1 = (d * v[0] - b * v[1]) - det * p[0], (a * v[1] - b * v[0]) - det * p[1]
    t0, n0 = r0 * r0 + r1 * r1, most * det + mu * (h * r0 + k * r1)
    limit, over_det = ops.maximum(n0, 0.0), 1.0 / det
    s0, s1 = -(r0 * over_det), -(r1 * over_det)
    slides = ops.less(limit * limit, t0)

    def sliding() -> list[Scalar]:
        # μ N + offset D = (n2 α + n1) α + n0 and |R|² = (t2 α + 2 t1) α + t0
        c0, c1 = v[0] - (a * p[0] + b * p[1]), v[1] - (b * p[0] + d * p[1])
        n1, n2 = most * trace + mu * (h * c0 + k * c1), most
        t1, t2 = r0 * c0 + r1 * c1, c0 * c0 + c1 * c1
        x, far = slip, LARGEST_SLIP * trace
        least = ops.epsilon * ops.epsilon * ops.select(slides, t0, 1.0)
        for _ in range(STEPS):  # on (μ N + offset D − |R|) / (α + ½ tr A), which is nearly straight
            rate = t2 * x + t1
            length = ops.sqrt(ops.maximum((rate + t1) * x + t0, least))
            mean = x + 0.5 * trace
            excess = (((n2 * x + n1) * x + n0) - length) * length
            slope = ((2.0 * n2 * x + n1) * length - rate) * mean - excess
            rises = ops.less(0.0, slope)
            step = x - excess * mean / ops.select(rises, slope, 1.0)
            x = ops.maximum(ops.minimum(ops.select(rises, step, 2.0 * x + trace), far), 0.0)
        f0, f1 = r0 + x * c0, r1 + x * c1
        length = ops.sqrt(ops.maximum(f0 * f0 + f1 * f1, least))
        pressing = h * f0 + k * f1  # r_n = alone − (h, k)ᵀ r_t and r_t = −(μ r_n + offset) R / |R|, by one division
        over = 1.0 / ops.maximum(length - mu * pressing, LEAST_SHARE * length)
        share = -(most * over)
        return [share * f0, share * f1, (alone * length + offset * pressing) * over, x]

    return ops.where(slides, sliding, [s0, s1, alone - (h * s0 + k * s1), slip])


class PointFactor(NamedTuple):
    """Unit lower triangle, row by row, and one over each pivot."""

    rows: list[list[Scalar]]
    over: list[Scalar]

    def solved(self, b: Sequence[Scalar]) -> list[Scalar]:
        """``(L D Lᵀ)⁻¹ b``."""
        x, n = list(b), len(self.over)
        for i, row in enumerate(self.rows):
            x[i] = x[i] - dot(row, x[:i])
        x = [a * y for a, y in zip(self.over, x, strict=True)]
        for i in reversed(range(n)):
            x[i] = x[i] - dot((row[i] for row in self.rows[i + 1 :]), x[i + 1 :])
        return x


class PatchBlock(NamedTuple):
    """A patch alone: mobility ``A`` of its friction where ``u_n = 0``, its factor, and ``A`` where ``r_n = 0``.

    ``beside`` is ``W_tn / W_nn``, and ``least`` (1/kg) what mobilities have more.
    """

    closed: list[list[Scalar]]
    sticking: PointFactor
    normal: Scalar
    over_normal: Scalar
    beside: list[Scalar]
    open: list[list[Scalar]]
    least: Scalar


class Friction(NamedTuple):
    """Mobility of the friction of a patch, its factor, ``W_tn / W_nn`` (0 without normal), and what it has more."""

    A: list[list[Scalar]]
    sticking: PointFactor
    beside: list[Scalar]
    least: Scalar


def patch_block(
    ops: ScalarOps, W: Sequence[Sequence[Scalar]], friction: Scalar, least: Scalar, is_only: bool = False
) -> PatchBlock:
    """`point_block` of a patch: tangent, tangent, normal, then spins."""
    n, beside = len(W), [W[k][2] for k in range(len(W)) if k != 2]
    own = [[W[i][k] + least if i == k else W[i][k] for k in range(n) if k != 2] for i in range(n) if i != 2]
    normal = W[2][2] + least
    if not is_only:
        normal = ops.maximum(normal, (1.0 / LARGEST_PRESSING) * (friction * size_of(ops, beside)))
    over = 1.0 / normal
    h = [x * over for x in beside]
    closed = [[x - h[i] * (h[k] * normal) for k, x in enumerate(row)] for i, row in enumerate(own)]
    return PatchBlock(closed, _factor(ops, closed, 0.0, least), normal, over, h, own, least)


def solve_patch(
    ops: ScalarOps, block: PatchBlock, mu: Scalar, p: Sequence[Scalar], u: Sequence[Scalar], slip: Scalar,
    offset: Scalar | None = None,
) -> tuple[list[Scalar], Scalar]:  # fmt: skip
    """`solve_point` of a patch, and with an ``offset`` (N s) `solve_point_beside`."""
    given, speeds, h = [*p[:2], *p[3:]], [*u[:2], *u[3:]], block.beside
    alone = p[2] + dot(h, given) - u[2] * block.over_normal
    none = [cast(Scalar, 0.0)] * len(given)
    others, presses = [*none, 0.0, slip], alone
    if offset is not None:
        v = plus_scaled(speeds, h, -(block.normal * p[2]))
        opened = Friction(block.open, _factor(ops, block.open, 0.0, block.least), none, block.least)
        *found, _, following = _resisting(ops, opened, mu, offset, given, v, 0.0, slip)
        others, presses = [*found, 0.0, following], alone - dot(h, found)

    def closed() -> list[Scalar]:
        v, limit = plus_scaled(speeds, h, -u[2]), 0.0 if offset is None else offset
        own = Friction(block.closed, block.sticking, h, block.least)
        return _resisting(ops, own, mu, limit, given, v, alone, slip)

    *friction, normal, following = ops.where(ops.less(0.0, presses), closed, others)
    return [*friction[:2], normal, *friction[2:]], following


def _resisting(
    ops: ScalarOps, own: Friction, mu: Scalar, offset: Scalar, p: Sequence[Scalar], v: Sequence[Scalar], alone: Scalar,
    slip: Scalar,
) -> list[Scalar]:  # fmt: skip
    """`_with_friction` of a patch."""
    A, sticking, h, more = own
    stuck, trace = minus(p, sticking.solved(v)), _trace(A)
    n0, square = alone - dot(h, stuck), dot(stuck, stuck)
    limit = ops.maximum(mu * n0 + offset, 0.0)
    slides = ops.less(limit * limit, square)

    def sliding() -> list[Scalar]:
        x = slip

        def resisting(x: Scalar) -> tuple[PointFactor, list[Scalar], Scalar]:
            factor = _factor(ops, A, x, more)
            r = minus(p, factor.solved(plus_scaled(v, p, x)))
            return factor, r, ops.sqrt(ops.maximum(ops.select(slides, dot(r, r), 1.0), SQUARE_FLOOR))

        for _ in range(STEPS):
            factor, r, size = resisting(x)
            q = factor.solved(r)  # r changes by −q
            most = mu * (alone - dot(h, r)) + offset
            slope = (mu * dot(h, q)) * size + most * (dot(r, q) / size)
            rises = ops.less(0.0, slope)
            step = x - (most - size) * size / ops.select(rises, slope, 1.0)
            x = ops.maximum(ops.minimum(ops.select(rises, step, 2.0 * x + trace), LARGEST_SLIP * trace), 0.0)
        _, r, size = resisting(x)
        pressing = dot(h, r)
        share = (mu * alone + offset) / ops.maximum(size + mu * pressing, LEAST_SHARE * size)
        return [*(share * a for a in r), alone - share * pressing, x]

    return ops.where(slides, sliding, [*stuck, n0, slip])


def _trace(A: Sequence[Sequence[Scalar]]) -> Scalar:
    return sum((row[k] for k, row in enumerate(A)), cast(Scalar, 0.0))


def _factor(ops: ScalarOps, A: Sequence[Sequence[Scalar]], alpha: Scalar, least: Scalar) -> PointFactor:
    """Factor of ``A + α``; pivots that are round-off become larger than that, and than what mobilities have more."""
    rows, over = list[list[Scalar]](), list[Scalar]()
    for i, own in enumerate(A):
        left, row = list[Scalar](), list[Scalar]()
        for k, other in enumerate(rows):
            left.append(own[k] - dot(left, other))
            row.append(left[k] * over[k])
        pivot = own[i] + alpha - dot(left, row)
        over.append(1.0 / ops.maximum(pivot, 0.5 * least + PIVOT * ops.epsilon * own[i]))
        rows.append(row)
    return PointFactor(rows, over)
