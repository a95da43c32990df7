"""Configurations that move: ``q ⊕ u``, the exponential of each joint, and how springs stretch; free of branches.

The same as `integrate` and `stretch` of `delassus.spatial.joints`, on any backend. Near zero, ``sin x / x`` is taken at
``√(x² + ε²)``, and ``(θ − sin θ) / θ³`` only ever multiplies ``θ²``, so that neither needs a series. Quaternions and
cos-sin pairs come out of unit length: one Newton step, ``x (3 − |x|²) / 2``, undoes round-off before it grows from step
to step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from delassus.spatial.joints import Joint, JointKind
from delassus.spatial.motion import ANGULAR, LINEAR, column, cross_entries, cross_matrix, from_entries, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar
from delassus.spatial.rotations import quaternion_exp
from delassus.spatial.transform import quaternion_rows

SERIES = 18
"""Terms of power series in squares of angles: to round-off up to one turn."""

HALF_ANGLES = 11
"""Terms of the power series of angles from rotations: to round-off up to tan²(π/16)."""

TINY = 1e-36
"""``ε²``: a normal number in float32 as well, and nothing beside the square of an angle that matters."""


def integrate(ops: Ops, joint: Joint, q: Sequence[Scalar], u: Sequence[Scalar]) -> list[Scalar]:
    """Configuration (nq) reached from ``q`` by the velocity ``u`` (nv) held for one unit of time."""
    kind = joint.kind
    if kind is JointKind.COS_SIN:
        out = _rotated_further(ops, q, u[0])
    elif kind is JointKind.PLANAR:
        dp, _ = _displacement(ops, [u[0], u[1], 0.0], [0.0, 0.0, u[2]])
        c, s = q[2], q[3]
        out = [q[0] + c * dp[0] - s * dp[1], q[1] + s * dp[0] + c * dp[1], *_rotated_further(ops, q[2:], u[2])]
    elif kind is JointKind.BALL:
        out = _product(q, _displacement(ops, [0.0, 0.0, 0.0], u)[1])
    elif kind is JointKind.FREE:
        dp, dq = _displacement(ops, u[:3], u[3:])
        R = quaternion_rows(q[3], q[4], q[5], q[6])
        moved = [x + row[0] * dp[0] + row[1] * dp[1] + row[2] * dp[2] for x, row in zip(q[:3], R, strict=True)]
        out = [*moved, *_product(q[3:], dq)]
    else:
        out = [x + y for x, y in zip(q, u, strict=True)]
    if kind.unit is not None:
        out[kind.unit] = _unit(out[kind.unit])
    return out


def integrate_changes(ops: Ops, joint: Joint, u: Sequence[Scalar]) -> tuple[Matrix, Matrix]:
    """What changes of ``q`` and of ``u`` do to ``q ⊕ u`` (nv × nv each), in tangents at ``q`` and at ``q ⊕ u``."""
    nv, axes = joint.nv, joint.motion_axes
    if joint.kind not in (JointKind.BALL, JointKind.FREE, JointKind.PLANAR):
        return ops.eye(nv), ops.eye(nv)
    U = ops.put(from_entries(ops, u), (6, 1), axes, (0,))
    V, W = cross_matrix(ops, ops.take(U, LINEAR, None)), cross_matrix(ops, ops.take(U, ANGULAR, None))
    v, w = column(ops, U)[:3], column(ops, U)[3:]
    square, slope = _dot(w, w), 2.0 * _dot(v, w)
    WW, VW = W @ W, V @ W + W @ V
    out = []
    for k in (0, 1):
        (a, da), (b, db) = _alternating(square, k + 1), _alternating(square, k + 2)
        turned = ops.eye(3) - scaled_matrix(ops, a, W) + scaled_matrix(ops, b, WW)
        shifted = scaled_matrix(ops, b, VW) - scaled_matrix(ops, a, V)
        shifted = shifted + scaled_matrix(ops, slope * db, WW) - scaled_matrix(ops, slope * da, W)
        whole = ops.vstack([ops.hstack([turned, shifted]), ops.hstack([ops.zeros(3, 3), turned])])
        out.append(ops.take(whole, axes, axes))
    return out[0], out[1]


def _alternating(y: Scalar, k: int) -> tuple[Scalar, Scalar]:
    """``Σ (−y)ⁿ / (2 n + k)!`` and its derivative: ``sin θ / θ``, ``(1 − cos θ) / θ²`` … at ``y = θ²``."""
    value: Scalar = _coefficient(SERIES - 1, k)
    slope: Scalar = 0.0
    for n in reversed(range(SERIES - 1)):  # Horner's rule, and its derivative
        slope = value + y * slope
        value = _coefficient(n, k) + y * value
    return value, slope


def _coefficient(n: int, k: int) -> float:
    return (-1.0) ** n / math.factorial(2 * n + k)


def stretch(ops: Ops, joint: Joint, q: Sequence[Scalar]) -> list[Scalar]:
    """By how much (nv) the spring of a joint is stretched; see `delassus.spatial.joints.stretch`."""
    rest = joint.rest_position.tolist()
    if not joint.kind.has_quaternion:
        return [x - r if r else x for x, r in zip(q, rest, strict=True)]  # a rest position of zero costs nothing
    sign, (x, y, z, w) = _turn(ops, joint, q)
    factor = 2.0 * sign * _half_angle(ops, w)[0]
    turn = [factor * x, factor * y, factor * z]
    if joint.kind is JointKind.BALL:
        return turn
    away = [x - r if r else x for x, r in zip(q[:3], rest[:3], strict=True)]
    return _rotated(list(zip(*quaternion_rows(*q[3:]), strict=True)), away) + turn


def stretch_changes(ops: Ops, joint: Joint, q: Sequence[Scalar]) -> Matrix:
    """What changes of ``q`` (in its tangent) do to `stretch` (nv × nv)."""
    if not joint.kind.has_quaternion:
        return ops.eye(joint.nv)
    sign, (x, y, z, w) = _turn(ops, joint, q)
    f, g = _half_angle(ops, w)
    V = cross_matrix(ops, from_entries(ops, [x, y, z]))
    turned = ops.eye(3) + scaled_matrix(ops, sign * f, V) + scaled_matrix(ops, g, V @ V)
    if joint.kind is JointKind.BALL:
        return turned
    away = cross_matrix(ops, from_entries(ops, stretch(ops, joint, q)[:3]))
    return ops.vstack([ops.hstack([ops.eye(3), away]), ops.hstack([ops.zeros(3, 3), turned])])


def _turn(ops: Ops, joint: Joint, q: Sequence[Scalar]) -> tuple[Scalar, list[Scalar]]:
    """Quaternion from the rest position of a joint, and the sign that makes it the short way round; ``w ≥ 0`` then."""
    rest, turn = joint.rest_position[-3:], list(q[-4:])
    if rest.any():
        x, y, z, w = quaternion_exp(rest).tolist()
        turn = _product([-x, -y, -z, w], turn)
    return ops.copysign(1.0, turn[3]), [*turn[:3], ops.copysign(turn[3], 1.0)]


def _half_angle(ops: Ops, w: Scalar) -> tuple[Scalar, Scalar]:
    """``h / sin h`` and ``(1 − h cot h) / sin² h`` of ``h = acos w``, at most π/2.

    Power series of ``atan t / t`` in ``t² = tan²(h / 8)``, and formulas for twice the angle.
    """
    c4 = ops.sqrt(0.5 + 0.5 * w)
    c2 = ops.sqrt(0.5 + 0.5 * c4)
    over = 1.0 / (1.0 + c2)
    z = (1.0 - c2) * over
    rest: Scalar = 0.0
    for n in reversed(range(1, HALF_ANGLES)):
        rest = (-1.0) ** n / (2 * n + 1) + z * rest
    series = 1.0 + z * rest  # of the angle h / 8
    f = 2.0 * over * series  # of h / 4, and twice doubled
    g = over * over * (series - rest)
    for c in (c2, c4):
        f = f / c
        g = 0.25 * (g + f) / (c * c)
    return f, g


def turning(joint: Joint, v: Sequence[Scalar]) -> list[Scalar] | None:
    """``ω × v`` (nv) of a free or planar joint, whose velocity is in its moving frame; None for the others."""
    if joint.kind is JointKind.FREE:
        return [*cross_entries(v[3:], v[:3]), 0.0, 0.0, 0.0]
    if joint.kind is JointKind.PLANAR:
        return [-v[2] * v[1], v[2] * v[0], 0.0]
    return None


def position_update(
    ops: Ops, joint: Joint, q: Sequence[Scalar], v: Sequence[Scalar], u: Sequence[Scalar]
) -> tuple[list[Scalar], list[Scalar]]:
    """Configuration displaced by ``u`` (nv), linear parts straight in the axes of ``q``, and ``v`` in the new axes."""
    if joint.kind is JointKind.FREE:
        rotation = [0.0, 0.0, 0.0, *u[3:]]
        rotated, own = integrate(ops, joint, q, rotation), integrate(ops, joint, [0.0] * 6 + [1.0], rotation)
        moved = _rotated(quaternion_rows(q[3], q[4], q[5], q[6]), u[:3])
        back = _transposed(quaternion_rows(own[3], own[4], own[5], own[6]))
        place = [x + y for x, y in zip(q[:3], moved, strict=True)]
        return place + rotated[3:], _rotated(back, v[:3]) + _rotated(back, v[3:])
    if joint.kind is JointKind.BALL:
        own = integrate(ops, joint, [0.0] * 3 + [1.0], u)
        return integrate(ops, joint, q, u), _rotated(_transposed(quaternion_rows(*own)), v)
    if joint.kind is JointKind.PLANAR:
        rotated = integrate(ops, joint, q, [0.0, 0.0, u[2]])
        c, s = q[2], q[3]
        place = [q[0] + c * u[0] - s * u[1], q[1] + s * u[0] + c * u[1]]
        c, s = ops.cos(u[2]), ops.sin(u[2])
        return place + rotated[2:], [c * v[0] + s * v[1], c * v[1] - s * v[0], v[2]]
    return integrate(ops, joint, q, u), list(v)


def _transposed(R: Sequence[Sequence[Scalar]]) -> list[list[Scalar]]:
    return [list(column) for column in zip(*R, strict=True)]


def _rotated(R: Sequence[Sequence[Scalar]], x: Sequence[Scalar]) -> list[Scalar]:
    return [row[0] * x[0] + row[1] * x[1] + row[2] * x[2] for row in R]


def _rotated_further(ops: Ops, cs: Sequence[Scalar], angle: Scalar) -> list[Scalar]:
    c, s = ops.cos(angle), ops.sin(angle)
    return [c * cs[0] - s * cs[1], s * cs[0] + c * cs[1]]


def _displacement(ops: Ops, v: Sequence[Scalar], w: Sequence[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
    """Translation and quaternion that the twist ``[v; w]`` reaches in one unit of time."""
    square = w[0] * w[0] + w[1] * w[1] + w[2] * w[2] + TINY
    half = 0.5 * ops.sqrt(square)
    cosine = ops.cos(half)
    sinc = ops.sin(half) / half
    wv = cross_entries(w, v)
    wwv = cross_entries(w, wv)
    b, c = 0.5 * sinc * sinc, (1.0 - sinc * cosine) / square  # (1 − cos θ)/θ², (θ − sin θ)/θ³
    translation = [x + b * y + c * z for x, y, z in zip(v, wv, wwv, strict=True)]
    return translation, [0.5 * sinc * x for x in w] + [cosine]


def _product(a: Sequence[Scalar], b: Sequence[Scalar]) -> list[Scalar]:
    """Hamilton product of quaternions x y z w."""
    product = cross_entries(a[:3], b[:3])
    vector = [a[3] * y + b[3] * x + z for x, y, z in zip(a[:3], b[:3], product, strict=True)]
    return [*vector, a[3] * b[3] - a[0] * b[0] - a[1] * b[1] - a[2] * b[2]]


def _dot(a: Sequence[Scalar], b: Sequence[Scalar]) -> Scalar:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _unit(x: Sequence[Scalar]) -> list[Scalar]:
    square = x[0] * x[0]
    for y in x[1:]:
        square = square + y * y
    factor = 1.5 - 0.5 * square
    return [factor * y for y in x]
