"""Points of shapes that may touch a plane: what lies furthest against its normal.

Each point has a fixed *site* in the frame of the shape, at which the ground is asked for where it comes with each call,
and a radius; cylinders, ellipsoids and hulls have an offset from it, which follows from the plane's normal:

- Cylinders: four points on each rim, a quarter circle apart, the lowest one first. Where the axis is all but normal to
  the plane they stay on the cylinder, as no continuous choice exists there.
- Ellipsoids: the one point whose normal is that of the plane.
- Hulls of up to `MOST_POINTS` vertices: all of them. Of more, the lowest one, and those that are lowest over planes
  tilted by `TILT`: on a face that touches, the furthest in so many directions. Vertices that come twice count once.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import cos, pi, sin
from typing import Any, NamedTuple, cast

import numpy as np

from delassus.model.shapes import Box, Capsule, Cylinder, Ellipsoid, Mesh, Sphere
from delassus.spatial.motion import chosen, dot
from delassus.spatial.ops import SQUARE_FLOOR, Ops, Scalar, ScalarOps
from delassus.spatial.rotations import Array

Solid = Sphere | Capsule | Cylinder | Box | Ellipsoid | Mesh
"""Shapes that touch planes; meshes are convex hulls."""

MOST_POINTS = 8
"""Contact points of one shape on a plane."""

LEVEL = 1e-4
"""Sine of the angle below which a cylinder stands on its base: its points then stay where they are on it."""

TILT = 0.1
"""Tangent of the angle by which planes are tilted whose lowest vertices are contact points: a face that comes nearer to
the plane touches it with all its corners, if it meets its neighbours at a larger angle."""

AS_LOW = 1e-9
"""Part of a hull's size by which a vertex has to be lower than those before it: on a face that is level, the first one
is the lowest, whatever round-off says."""


class PointOffset(NamedTuple):
    """From the site of a point to the point (3,), in the frame of the shape; ``apart`` (m), if any, adds to its gap."""

    vector: Sequence[Scalar]
    apart: Scalar | None = None


def sites(shape: Solid) -> list[tuple[Array, float]]:
    """Place (3,) of each point in the frame of the shape, and the radius of the ball about it."""
    match shape:
        case Box():
            half = 0.5 * np.array([shape.x, shape.y, shape.z])
            return [(half * np.array(signs), 0.0) for signs in product((-1.0, 1.0), repeat=3)]
        case Sphere() | Ellipsoid():
            return [(np.zeros(3), getattr(shape, "radius", 0.0))]
        case Mesh():
            corners, n = shape.vertices, len(shape.vertices)
            centre = 0.5 * (corners.min(axis=0) + corners.max(axis=0))
            return [(x, 0.0) for x in (corners if n <= MOST_POINTS else np.tile(centre, (MOST_POINTS, 1)))]
    on_end, radius = (1, shape.radius) if isinstance(shape, Capsule) else (4, 0.0)
    ends = np.repeat([-0.5 * shape.length, 0.5 * shape.length], on_end)
    return [(np.array([0.0, 0.0, z]), radius) for z in ends]


def offsets(ops: Ops, shape: Solid, normals: Sequence[Sequence[Scalar]]) -> list[PointOffset | None]:
    """Where points are that touch planes of these unit normals, in the frame of the shape: one of each site."""
    match shape:
        case Cylinder():
            return [_on_rim(ops, shape.radius, k % 4, n) for k, n in enumerate(normals)]
        case Ellipsoid():
            (n,) = normals
            return [PointOffset(on_ellipsoid(ops, (shape.x, shape.y, shape.z), [-c for c in n]))]
        case Mesh() if len(shape.vertices) > MOST_POINTS:
            return _corners(ops, shape.vertices, normals)
    return [None for _ in normals]


def _on_rim(ops: Ops, radius: float, quarter: int, n: Sequence[Scalar]) -> PointOffset:
    """Point of a circle about z, so many quarters of it from the lowest one."""
    u, v = on_rim(ops, radius, -n[0], -n[1])
    x, y = ((u, v), (-v, u), (-u, -v), (v, -u))[quarter]
    return PointOffset([x, y, 0.0])


def on_rim(ops: ScalarOps, radius: Scalar | float, x: Scalar, y: Scalar) -> list[Scalar]:
    """Point (2,) of a circle that lies furthest along part of a unit vector; at the first axis of a level circle."""
    squared = x * x + y * y
    tilted = ops.less(LEVEL * LEVEL, squared)
    over = radius / ops.sqrt(ops.maximum(squared, LEVEL * LEVEL))
    return [ops.select(tilted, over * x, cast(Scalar, radius)), ops.select(tilted, over * y, 0.0)]


def on_ellipsoid(ops: ScalarOps, half: Sequence[Any], d: Sequence[Scalar]) -> list[Scalar]:
    """Point (3,) of an ellipsoid of these semi-axes that lies furthest along ``d``."""
    x = [h * c for h, c in zip(half, d, strict=True)]
    part = 1.0 / ops.sqrt(dot(x, x) + SQUARE_FLOOR)
    return [part * h * c for h, c in zip(half, x, strict=True)]


def _corners(ops: Ops, vertices: Array, normals: Sequence[Sequence[Scalar]]) -> list[PointOffset | None]:
    """Lowest vertices of a hull, from its centre."""
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    corners, size = (vertices - 0.5 * (low + high)).tolist(), float(np.linalg.norm(high - low))
    found: list[Scalar] = []
    out: list[PointOffset | None] = []
    for k, n in enumerate(normals):
        direction = list(n)
        if k:
            angle = 2.0 * pi * k / (len(normals) - 1)
            first, second = tangents(ops, n)
            direction = [a + TILT * (cos(angle) * b + sin(angle) * c) for a, b, c in zip(n, first, second, strict=True)]
        index: Scalar = 0.0
        best, at = dot(direction, corners[0]), list(corners[0])
        for i, x in enumerate(corners[1:], 1):
            height = dot(direction, x)
            lower = ops.less(height, best - AS_LOW * size)
            best, index = ops.select(lower, height, best), ops.select(lower, 1.0 * i, index)
            at = chosen(ops, lower, x, at)
        twice: Scalar = 0.0
        for other in found:
            distance = index - other
            twice = ops.maximum(twice, ops.less(distance * distance, 0.25))
        found.append(index)
        out.append(PointOffset(at, twice * size if k else None))
    return out


def tangents(ops: ScalarOps, n: Sequence[Scalar]) -> tuple[list[Scalar], list[Scalar]]:
    """Two unit vectors normal to the unit vector ``n`` and to each other, without branches (Duff et al. 2017)."""
    x, y, z = n
    sign = ops.copysign(1.0, z)
    a = -1.0 / (sign + z)
    b = x * y * a
    return [1.0 + sign * x * x * a, sign * b, -(sign * x)], [b, sign + y * y * a, -y]
