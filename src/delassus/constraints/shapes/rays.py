"""Whether a ray meets a shape: what a touch sensor counts a contact by, which is where its normal begins."""

from __future__ import annotations

from collections.abc import Sequence

from delassus.model.shapes import Box, Capsule, Cylinder, Ellipsoid, Solid, Sphere
from delassus.spatial.motion import dot
from delassus.spatial.ops import SQUARE_FLOOR, Scalar, ScalarOps

LEAST_SLOPE = 1e-30
"""Size of a direction's coordinate, over its length, below which the ray goes along the others."""

Interval = tuple[Scalar, Scalar]
"""Lengths along a ray at which it enters and leaves."""


def ray_meets(ops: ScalarOps, shape: Solid, start: Sequence[Scalar], direction: Sequence[Scalar]) -> Scalar:
    """1 where the ray from ``start`` (3,) along a unit ``direction`` (3,) meets the shape, or starts in it, else 0.

    Both are in the shape's frame.
    """
    match shape:
        case Sphere():
            return _meets_ball(ops, shape.radius, start, direction)
        case Ellipsoid():
            radii = (shape.x, shape.y, shape.z)
            scaled = ([x * (1.0 / r) for x, r in zip(a, radii, strict=True)] for a in (start, direction))
            return _meets_ball(ops, 1.0, *scaled)
        case Box():
            sizes = (shape.x, shape.y, shape.z)
            return _is_passed(ops, [_slab(ops, *of) for of in zip(sizes, start, direction, strict=True)])
        case Cylinder():
            return _meets_tube(ops, shape, start, direction)
        case Capsule():
            out = _meets_tube(ops, shape, start, direction)
            for side in (-0.5, 0.5):
                from_end = [*start[:2], start[2] - side * shape.length]
                out = ops.maximum(out, _meets_ball(ops, shape.radius, from_end, direction))
            return out


def _meets_ball(ops: ScalarOps, radius: float, start: Sequence[Scalar], direction: Sequence[Scalar]) -> Scalar:
    a, b, c = dot(direction, direction), dot(start, direction), dot(start, start) - radius * radius
    is_ahead = ops.less(b, 0.0) * (1.0 - ops.less(b * b, a * c))
    return ops.maximum(is_ahead, 1.0 - ops.less(0.0, c))


def _meets_tube(
    ops: ScalarOps, shape: Cylinder | Capsule, start: Sequence[Scalar], direction: Sequence[Scalar]
) -> Scalar:  # fmt: skip
    """The same of the cylinder between the ends of a shape."""
    x, n = start[:2], direction[:2]
    a, b = ops.maximum(dot(n, n), SQUARE_FLOOR), dot(x, n)
    square = b * b - a * (dot(x, x) - shape.radius * shape.radius)
    half, over = ops.sqrt(ops.maximum(square, 0.0)), 1.0 / a
    across = (-b - half) * over, (half - b) * over
    return (1.0 - ops.less(square, 0.0)) * _is_passed(ops, [across, _slab(ops, shape.length, start[2], direction[2])])


def _slab(ops: ScalarOps, size: float, x: Scalar, n: Scalar) -> Interval:
    """Where a coordinate is within half a size of zero."""
    over = 1.0 / ops.copysign(ops.maximum(ops.maximum(n, -n), LEAST_SLOPE), n)
    a, b = (-0.5 * size - x) * over, (0.5 * size - x) * over
    return ops.minimum(a, b), ops.maximum(a, b)


def _is_passed(ops: ScalarOps, parts: Sequence[Interval]) -> Scalar:
    """1 where a ray is within all intervals somewhere."""
    enters: Scalar = 0.0
    leaves = parts[0][1]
    for first, last in parts:
        enters, leaves = ops.maximum(enters, first), ops.minimum(leaves, last)
    return 1.0 - ops.less(leaves, enters)
