"""Where two shapes are nearest to each other, without branches.

Spheres and capsules: the closest points of two segments (Ericson, Real-Time Collision Detection, 5.1.9), less radii.
Balls and boxes, cylinders or hulls: the nearest point of the surface; from inside, through the nearest face. A capsule
is three balls of a box: at the point of its axis that is nearest to the box, and at both ends of the stretch that is
over the face there. Its squared distance from a box along the axis is convex, with a derivative that is linear between
the places at which the axis crosses planes of faces: from its values at these follows the point where it is least, or
the stretch of an axis that is parallel to a face.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from delassus.constraints.shapes.convex_distance import Placed
from delassus.constraints.shapes.convex_patch import FLAT, contacts, n_contacts
from delassus.constraints.shapes.lowest_points import Solid
from delassus.model.shapes import Box, Capsule, Cylinder, Ellipsoid, Mesh, Sphere
from delassus.spatial.motion import chosen, dot, minus, plus_scaled
from delassus.spatial.ops import Ops, Scalar, ScalarOps

TINY = 1e-30
"""Added to squares of lengths that may be zero."""

ON_SURFACE = 1e-12
"""Distance of a ball's centre from a surface, over its radius, below which it counts as inside."""

FAR = 1e6
"""Distance from a hull, over its size, beyond which nothing is sought."""

PARALLEL = 1e-10
"""Sine of the angle below which the axis of a capsule is parallel to a face."""

PAIRS = "convex shapes with one another, hulls of triangles among them"
"""Pairs of shapes that `touches` knows."""

ORDER = (Sphere, Capsule, Box, Cylinder, Ellipsoid, Mesh)
"""Which of two shapes is the first, as in `delassus.contact.collision.colliders`."""

Round = Sphere | Capsule
Vector = list["Scalar"]


class Touch(NamedTuple):
    """Nearest places of two shapes: gap (m), unit normal (3,) to the first shape and the point (3,) midway.

    Places that come twice have a distance (m) ``apart``, which adds to the gap.
    """

    gap: Scalar
    normal: Vector
    point: Vector
    apart: Scalar | None = None


def has_formula(first: Solid, second: Solid) -> bool:
    """Whether there is a formula for the points at which two shapes touch."""
    if isinstance(first, Round) and isinstance(second, Round):
        return True
    ball, other = (first, second) if isinstance(first, Round) else (second, first)
    if isinstance(ball, Sphere):
        return isinstance(other, Box | Cylinder | Mesh)
    return isinstance(ball, Capsule) and isinstance(other, Box)


def n_touches(first: Solid, second: Solid) -> int:
    """How many places `touches` finds; 0 for meshes that are no hulls of triangles."""
    if any(isinstance(x, Mesh) and (not x.convex or x.triangles is None) for x in (first, second)):
        return 0
    if not has_formula(first, second):
        return n_contacts(first, second)
    return 3 if {type(first), type(second)} == {Capsule, Box} else 1


def touches(a: Placed, b: Placed) -> list[Touch]:
    """Where two shapes are nearest."""
    first, second = a.shape, b.shape
    if ORDER.index(type(first)) > ORDER.index(type(second)):
        return [t._replace(normal=[-x for x in t.normal]) for t in touches(b, a)]
    if not has_formula(first, second):
        far = a.size + b.size
        return [Touch(gap, n, x, (1.0 - there) * far) for gap, n, x, there in contacts(a, b)]
    if isinstance(first, Round) and isinstance(second, Round):
        return [_segments(a, first, b, second)]
    if isinstance(first, Capsule):
        assert isinstance(second, Box)
        return _capsule_on_box(a, first, b, second)
    assert isinstance(first, Sphere)
    return [_ball(first.radius, a.origin, b)]


def _ball(radius: float, centre: Vector, beside: Placed) -> Touch:
    """A ball beside a box, cylinder or hull."""
    ops, shape = beside.ops, beside.shape
    own = beside.to_own(minus(centre, beside.origin))
    if isinstance(shape, Mesh):
        distance, out = _from_hull(ops, own, shape, radius)
    elif isinstance(shape, Cylinder):
        distance, out = from_cylinder(ops, own, shape.radius, 0.5 * shape.length, radius)
    else:
        assert isinstance(shape, Box)
        distance, out = from_block(ops, own, [0.5 * shape.x, 0.5 * shape.y, 0.5 * shape.z], radius)
    normal = beside.to_world(out)
    back = 0.5 * (distance + radius)
    return Touch(distance - radius, normal, [a - back * n for a, n in zip(centre, normal, strict=True)])


def from_cylinder(ops: ScalarOps, x: Sequence[Scalar], round: Any, half: Any, radius: Any) -> tuple[Scalar, Vector]:
    """Signed distance of the centre of a ball from a cylinder, and the unit normal along which it is measured."""
    across = ops.sqrt(x[0] * x[0] + x[1] * x[1] + TINY)
    on_axis = ops.less(across, ON_SURFACE * round)
    u, v = ops.select(on_axis, 1.0, x[0] * (1.0 / across)), ops.select(on_axis, 0.0, x[1] * (1.0 / across))
    distance, (r, z) = from_block(ops, [across, x[2]], [round, half], radius)
    return distance, [r * u, r * v, z]


def from_block(ops: ScalarOps, x: Sequence[Scalar], half: Sequence[Any], radius: Any) -> tuple[Scalar, Vector]:
    """The same from ``|x_i| ≤ half_i``."""
    away = [a - _within(ops, a, h) for a, h in zip(x, half, strict=True)]
    outside = ops.sqrt(sum((a * a for a in away), TINY))
    slack = [h - ops.maximum(a, -a) for a, h in zip(x, half, strict=True)]
    least = slack[0]
    for s in slack[1:]:
        least = ops.minimum(least, s)
    inside, over, left = 1.0 - ops.less(ON_SURFACE * radius, outside), 1.0 / outside, ops.less(0.0, 1.0)
    out = []
    for a, s, d in zip(x, slack, away, strict=True):
        nearest = left * (1.0 - ops.less(least, s))  # the first of those that are as near
        left = left - nearest
        out.append(ops.select(inside, nearest * ops.copysign(1.0, a), over * d))
    return ops.select(inside, -least, outside), out


def _from_hull(ops: Ops, x: Vector, hull: Mesh, radius: float) -> tuple[Scalar, Vector]:
    """Signed distance of a point from a convex hull of triangles, and the unit normal along which it is measured.

    Outside, the nearest of all edges and of the faces that it is over; inside, the nearest plane of a face.
    """
    assert hull.triangles is not None
    corners = hull.vertices[hull.triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    heights, of_edge = [], dict[tuple[int, int], list[int]]()
    for f, triangle in enumerate(hull.triangles.tolist()):
        n = normals[f].tolist()
        heights.append(dot(n, x) - float(normals[f] @ corners[f, 0]))
        for i, j in zip(triangle, triangle[1:] + triangle[:1], strict=True):
            of_edge.setdefault((min(i, j), max(i, j)), []).append(f)
    deepest, inwards = heights[0], normals[0].tolist()
    for height, normal in zip(heights[1:], normals[1:].tolist(), strict=True):
        nearer = ops.less(deepest, height)
        deepest = ops.maximum(deepest, height)
        inwards = chosen(ops, nearer, normal, inwards)
    away: Vector = [0.0, 0.0, 0.0]
    least: Scalar = float((np.ptp(hull.vertices, axis=0).max() * FAR) ** 2)
    for (i, j), faces in of_edge.items():
        if np.ptp(normals[faces], axis=0).max() < FLAT:
            continue
        start, edge = hull.vertices[i], hull.vertices[j] - hull.vertices[i]
        from_start = minus(x, start.tolist())
        part = ops.maximum(ops.minimum(dot((edge / (edge @ edge)).tolist(), from_start), 1.0), 0.0)
        d = [a - part * b for a, b in zip(from_start, edge.tolist(), strict=True)]
        squared = dot(d, d)
        nearer = ops.less(squared, least)
        least = ops.minimum(squared, least)
        away = chosen(ops, nearer, d, away)
    for height, normal, places in zip(heights, normals, corners, strict=True):
        over = ops.less(0.0, height) * ops.less(height * height, least)
        for start, end in zip(places, np.roll(places, -1, axis=0), strict=True):
            outwards = np.cross(end - start, normal)
            over = over * (1.0 - ops.less(float(outwards @ start), dot(outwards.tolist(), x)))
        least = ops.select(over, height * height, least)
        away = [ops.select(over, height * a, b) for a, b in zip(normal.tolist(), away, strict=True)]
    inside, outside = ops.less(deepest, ON_SURFACE * radius), ops.sqrt(least + TINY)
    unit = 1.0 / outside
    out = [ops.select(inside, a, unit * b) for a, b in zip(inwards, away, strict=True)]
    return ops.select(inside, deepest, outside), out


def _capsule_on_box(at: Placed, capsule: Capsule, beside: Placed, box: Box) -> list[Touch]:
    """Three balls of a capsule that are nearest to a box."""
    ops, half, size = at.ops, [0.5 * box.x, 0.5 * box.y, 0.5 * box.z], 0.5 * capsule.length
    axis = at.along(np.array([0.0, 0.0, size]))
    c = beside.to_own(minus(at.origin, beside.origin))
    d = beside.to_own(axis)
    scale = size * (size + sum(half))
    steep = [ops.copysign(ops.maximum(ops.maximum(x, -x), 1e-12 * size), x) for x in d]
    crossings = [
        [_within(ops, (side * h - x) * (1.0 / y), 1.0) for side in (-1.0, 1.0)]
        for x, y, h in zip(c, steep, half, strict=True)
    ]

    def slope(s: Scalar) -> Scalar:
        x = plus_scaled(c, d, s)
        return sum((b * (a - _within(ops, a, h)) for a, b, h in zip(x, d, half, strict=True)), 0.0)

    low: Scalar = -1.0
    high: Scalar = 1.0
    at_low, at_high = slope(low), slope(high)
    for s in [-1.0, 1.0, *(x for pair in crossings for x in pair)]:
        g = slope(s)
        falls = ops.less(g, PARALLEL * scale) * (1.0 - ops.less(s, low))
        low, at_low = ops.select(falls, s, low), ops.select(falls, g, at_low)
        rises = ops.less(-PARALLEL * scale, g) * (1.0 - ops.less(high, s))
        high, at_high = ops.select(rises, s, high), ops.select(rises, g, at_high)
    flat = ops.less(high, low)
    steps = ops.maximum(at_high - at_low, PARALLEL * scale)
    between = _within(ops, low - at_low * (high - low) * (1.0 / steps), 1.0)
    s = ops.select(ops.less(low, high), between, 0.5 * (low + high))
    centre = plus_scaled(at.origin, axis, s)
    nearest = _ball(capsule.radius, centre, beside)
    # the stretch over the face whose normal is nearest to that of the contact
    n = [x * x for x in beside.to_own(nearest.normal)]
    start: Scalar = -1.0
    end: Scalar = 1.0
    for k, pair in enumerate(crossings):
        others = ops.maximum(n[(k + 1) % 3], n[(k + 2) % 3])
        bounds = ops.less(n[k], others)
        start = ops.maximum(start, ops.select(bounds, ops.minimum(*pair), -1.0))
        end = ops.minimum(end, ops.select(bounds, ops.maximum(*pair), 1.0))
    empty = ops.less(end, start)
    far, out = 2.0 * size, [nearest._replace(apart=flat * (2.0 * size))]
    for place, edge in ((high, start), (low, end)):
        t = ops.select(flat, place, ops.select(empty, s, edge))
        off = t - s
        twice = (1.0 - flat) * ops.less(off * off, PARALLEL * PARALLEL)
        x = plus_scaled(at.origin, axis, t)
        out.append(_ball(capsule.radius, x, beside)._replace(apart=twice * far))
    return out


def _segments(at: Placed, first: Round, beside: Placed, second: Round) -> Touch:
    """Closest points of two segments, less radii."""
    ops = at.ops
    h, g = (0.5 * x.length if isinstance(x, Capsule) else 0.0 for x in (first, second))
    p, q = at.origin, beside.origin
    d, e = at.along(np.array([0.0, 0.0, h])), beside.along(np.array([0.0, 0.0, g]))
    s, t = _closest(ops, p, d, h, q, e, g)
    x = plus_scaled(p, d, s) if h else p
    y = plus_scaled(q, e, t) if g else q
    apart = minus(x, y)
    distance = ops.sqrt(dot(apart, apart) + TINY)
    over = 1.0 / distance
    normal = [over * a for a in apart]
    reach = 0.5 * (distance + (second.radius - first.radius))
    point = plus_scaled(y, normal, reach)
    return Touch(distance - (first.radius + second.radius), normal, point)


def _closest(ops: Ops, p: Vector, d: Vector, h: float, q: Vector, e: Vector, g: float) -> tuple[Scalar, Scalar]:
    """Parameters from −1 to 1 of the closest points of the segments ``p + s d`` and ``q + t e``, half as long as h, g.

    One of length zero has parameter zero.
    """

    def bounded(x: Scalar) -> Scalar:
        return _within(ops, x, 1.0)

    r = minus(p, q)
    if not h and not g:
        return 0.0, 0.0
    if not g:
        return bounded(-(dot(d, r) * (1.0 / (h * h)))), 0.0
    if not h:
        return 0.0, bounded(dot(e, r) * (1.0 / (g * g)))
    b, c, f = dot(d, e), dot(d, r), dot(e, r)
    hh, gg = h * h, g * g
    s = bounded((b * f - c * gg) / ((hh * gg - b * b) + 1e-12 * hh * gg))
    t = bounded((b * s + f) * (1.0 / gg))
    return bounded((b * t - c) * (1.0 / hh)), t


def _within(ops: ScalarOps, x: Scalar, most: Any) -> Scalar:
    """``x``, or the end of ±``most`` that is nearest to it."""
    return ops.maximum(ops.minimum(x, most), -most)
