"""Where two shapes are nearest to each other, without branches.

Spheres and capsules: the closest points of two segments (Ericson, Real-Time Collision Detection, 5.1.9), less radii;
capsules side by side touch at both ends of the stretch that they share. Where centres or axes meet, the normal is that
of both axes, or an axis of the second shape. Balls and boxes, cylinders or hulls: the nearest point of the surface;
from inside, through the nearest face. A capsule is three balls of a box: at the point of its axis that is nearest to
the box, and at both ends of the stretch that is over the face there. Its squared distance from a box along the axis is
convex, with a derivative that is linear between the places at which the axis crosses planes of faces: from its values
at these follows the point where it is least, or the stretch of an axis that is parallel to a face. An axis that is in
the box leaves it along the shortest way out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from delassus.constraints.shapes.convex_distance import Placed
from delassus.constraints.shapes.convex_patch import FLAT, contacts, n_contacts
from delassus.constraints.shapes.lowest_points import Solid
from delassus.model.shapes import Box, Capsule, Cylinder, Ellipsoid, Mesh, Sphere
from delassus.spatial.motion import chosen, cross_entries, dot, minus, plus_scaled
from delassus.spatial.ops import Ops, Scalar, ScalarOps

ON_SURFACE = 1e-12
"""Distance of a ball's centre from a surface, over the size of both, below which it counts as inside: above the
round-off of places, which are differences of lengths of that size."""

COINCIDE = 1e-9
"""Distance of two axes, over the size of both shapes, below which it has no direction: the difference of two places
then says it to less than a millionth."""

SIDE_BY_SIDE = 1e-3
"""Sine of the angle between the axes of capsules below which they touch at both ends of the stretch that they share."""

PLACES = 16.0
"""Square of the sine of the angle between axes, over the round-off of numbers, below which their closest points are
lost in it: those of parallel ones are as good."""

BESIDE = 1e-9
"""How far a point may be beside a triangle and still count as over it, across an edge that is flat, as a part of the
hull's size: above round-off, and no error where the neighbour goes on."""

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
    if isinstance(first, Capsule) and isinstance(second, Capsule):
        return 2
    return 3 if {type(first), type(second)} == {Capsule, Box} else 1


def touches(a: Placed, b: Placed) -> list[Touch]:
    """Where two shapes are nearest."""
    first, second = a.shape, b.shape
    if ORDER.index(type(first)) > ORDER.index(type(second)):
        return [t._replace(normal=[-x for x in t.normal]) for t in touches(b, a)]
    if not has_formula(first, second):
        far = 2.0 * (a.size + b.size)
        return [Touch(gap, n, x, (1.0 - there) * far) for gap, n, x, there in contacts(a, b)]
    if isinstance(first, Round) and isinstance(second, Round):
        return _round_pair(a, first, b, second)
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
    square, least = x[0] * x[0] + x[1] * x[1], (ON_SURFACE * round) * (ON_SURFACE * round)
    off_axis = ops.less(least, square)
    across = ops.sqrt(ops.maximum(square, least))
    u, v = ops.select(off_axis, x[0] * (1.0 / across), 1.0), ops.select(off_axis, x[1] * (1.0 / across), 0.0)
    distance, (r, z) = from_block(ops, [across, x[2]], [round, half], radius)
    return distance, [r * u, r * v, z]


def from_block(ops: ScalarOps, x: Sequence[Scalar], half: Sequence[Any], radius: Any) -> tuple[Scalar, Vector]:
    """The same from ``|x_i| ≤ half_i``."""
    away = [a - _within(ops, a, h) for a, h in zip(x, half, strict=True)]
    near = ON_SURFACE * sum(half, radius)
    square, least_square = dot(away, away), near * near
    outside = ops.sqrt(ops.maximum(square, least_square))
    slack = [h - ops.maximum(a, -a) for a, h in zip(x, half, strict=True)]
    least = slack[0]
    for s in slack[1:]:
        least = ops.minimum(least, s)
    inside, over, left = 1.0 - ops.less(least_square, square), 1.0 / outside, ops.less(0.0, 1.0)
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
    corners, size = hull.vertices[hull.triangles], float(np.ptp(hull.vertices, axis=0).max())
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    heights, of_edge = [], dict[tuple[int, int], list[int]]()
    for f, triangle in enumerate(hull.triangles.tolist()):
        n = normals[f].tolist()
        heights.append(dot(n, x) - float(normals[f] @ corners[f, 0]))
        for edge in _edges(triangle):
            of_edge.setdefault(edge, []).append(f)
    flat = {edge for edge, faces in of_edge.items() if np.ptp(normals[faces], axis=0).max() < FLAT}
    deepest, inwards = heights[0], normals[0].tolist()
    for height, normal in zip(heights[1:], normals[1:].tolist(), strict=True):
        nearer = ops.less(deepest, height)
        deepest = ops.maximum(deepest, height)
        inwards = chosen(ops, nearer, normal, inwards)
    from_edges = []
    for i, j in [edge for edge in of_edge if edge not in flat]:
        start, along = hull.vertices[i], hull.vertices[j] - hull.vertices[i]
        from_start = minus(x, start.tolist())
        part = ops.maximum(ops.minimum(dot((along / (along @ along)).tolist(), from_start), 1.0), 0.0)
        from_edges.append([a - part * b for a, b in zip(from_start, along.tolist(), strict=True)])
    away, *others = from_edges
    least = dot(away, away)
    for d in others:
        squared = dot(d, d)
        nearer = ops.less(squared, least)
        least = ops.minimum(squared, least)
        away = chosen(ops, nearer, d, away)
    for height, normal, triangle in zip(heights, normals, hull.triangles.tolist(), strict=True):
        over = ops.less(0.0, height) * ops.less(height * height, least)
        for edge, i, j in zip(_edges(triangle), triangle, triangle[1:] + triangle[:1], strict=True):
            outwards = np.cross(hull.vertices[j] - hull.vertices[i], normal)
            most = float(outwards @ hull.vertices[i] + (edge in flat) * BESIDE * size * np.linalg.norm(outwards))
            over = over * (1.0 - ops.less(most, dot(outwards.tolist(), x)))
        least = ops.select(over, height * height, least)
        away = [ops.select(over, height * a, b) for a, b in zip(normal.tolist(), away, strict=True)]
    near = ON_SURFACE * (size + radius)
    inside, outside = ops.less(deepest, near), ops.sqrt(ops.maximum(least, near * near))
    unit = 1.0 / outside
    out = [ops.select(inside, a, unit * b) for a, b in zip(inwards, away, strict=True)]
    return ops.select(inside, deepest, outside), out


def _edges(triangle: Sequence[int]) -> list[tuple[int, int]]:
    """Edges of a triangle, the lower corner of each first."""
    a, b, c = triangle
    return [(min(edge), max(edge)) for edge in ((a, b), (b, c), (c, a))]


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
    nearest = _ball(capsule.radius, plus_scaled(at.origin, axis, s), beside)
    near = ON_SURFACE * (capsule.radius + size + sum(half))
    pierced = 1.0 - ops.less(near, nearest.gap + capsule.radius)
    inwards, height, lowest, is_edge = _out_of_box(ops, c, d, half)
    own, flat = chosen(ops, pierced, inwards, beside.to_own(nearest.normal)), flat * (1.0 - pierced)
    # the stretch over the face whose normal is nearest to that of the contact
    n = [x * x for x in own]
    start: Scalar = -1.0
    end: Scalar = 1.0
    for k, pair in enumerate(crossings):
        others = ops.maximum(n[(k + 1) % 3], n[(k + 2) % 3])
        bounds = ops.less(n[k], others)
        start = ops.maximum(start, ops.select(bounds, ops.minimum(*pair), -1.0))
        end = ops.minimum(end, ops.select(bounds, ops.maximum(*pair), 1.0))
    over_face = ops.minimum(ops.maximum(lowest, start), end)
    s = ops.select(pierced, ops.select(is_edge, lowest, over_face), s)
    out_of_box = beside.to_world(inwards)

    def ball_at(t: Scalar) -> Touch:
        x = plus_scaled(at.origin, axis, t)
        ball = _ball(capsule.radius, x, beside)
        gap = dot(inwards, plus_scaled(c, d, t)) - height - capsule.radius
        point = plus_scaled(x, out_of_box, -(0.5 * gap + capsule.radius))
        return Touch(
            ops.select(pierced, gap, ball.gap), chosen(ops, pierced, out_of_box, ball.normal),
            chosen(ops, pierced, point, ball.point),
        )  # fmt: skip

    empty = ops.less(end, start)
    far = 2.0 * (capsule.radius + size + sum(half))
    out = [ball_at(s)._replace(apart=flat * far)]
    for place, edge in ((high, start), (low, end)):
        t = ops.select(flat, place, ops.select(ops.maximum(empty, pierced * is_edge), s, edge))
        off = t - s
        twice = (1.0 - flat) * ops.less(off * off, PARALLEL * PARALLEL)
        out.append(ball_at(t)._replace(apart=twice * far))
    return out


def _out_of_box(ops: Ops, c: Vector, d: Vector, half: Sequence[float]) -> tuple[Vector, Scalar, Scalar, Scalar]:
    """Unit normal along which a segment ``c ± d`` leaves a box soonest, and the box's extent along it.

    It is that of a face, or the product of an edge with the segment, which the last number says. Also the segment's
    lowest place, from −1 to 1.
    """
    ways, square = list[tuple[Scalar, Vector, Scalar, Scalar]](), dot(d, d)
    for k, h in enumerate(half):
        side = ops.copysign(1.0, c[k])
        depth = h + ops.maximum(d[k], -d[k]) - side * c[k]
        ways.append((depth, [side if j == k else 0.0 for j in range(3)], h, -ops.copysign(1.0, side * d[k])))
    for k in range(3):
        x, y = (k + 1) % 3, (k + 2) % 3
        across, least = d[x] * d[x] + d[y] * d[y], PARALLEL * PARALLEL * square
        over = 1.0 / ops.sqrt(ops.maximum(across, least))
        side = ops.copysign(over, d[x] * c[y] - d[y] * c[x])
        u, v = -(side * d[y]), side * d[x]
        reach = half[x] * ops.maximum(u, -u) + half[y] * ops.maximum(v, -v)
        depth = ops.select(ops.less(least, across), reach - (u * c[x] + v * c[y]), ways[0][0])
        corner = ops.copysign(half[x], u) - c[x], ops.copysign(half[y], v) - c[y]
        place = _within(ops, (corner[0] * d[x] + corner[1] * d[y]) * (over * over), 1.0)
        ways.append((depth, [{x: u, y: v}.get(j, 0.0) for j in range(3)], reach, place))
    best, out, extent, lowest = ways[0]
    is_edge: Scalar = 0.0
    for k, (depth, normal, reach, place) in enumerate(ways[1:], 1):
        nearer = ops.less(depth, best)
        best, out = ops.minimum(best, depth), chosen(ops, nearer, normal, out)
        extent, lowest = ops.select(nearer, reach, extent), ops.select(nearer, place, lowest)
        is_edge = ops.select(nearer, 1.0 * (k > 2), is_edge)
    return out, extent, lowest, is_edge


def _round_pair(at: Placed, first: Round, beside: Placed, second: Round) -> list[Touch]:
    """Touches of spheres and capsules."""
    h, g = (0.5 * x.length if isinstance(x, Capsule) else 0.0 for x in (first, second))
    a, b = at.along(np.array([0.0, 0.0, 1.0])), beside.along(np.array([0.0, 0.0, 1.0]))
    size, spare = first.radius + second.radius + h + g, beside.along(np.array([1.0, 0.0, 0.0]))
    of_a, of_b = (at.origin, a, h, first.radius), (beside.origin, b, g, second.radius)
    found, there = round_pair(at.ops, of_a, of_b, spare, size)
    return [Touch(*found[0]), *(Touch(*x, (1.0 - there) * (2.0 * size)) for x in found[1:])]


def round_pair(
    ops: ScalarOps, first: Sequence[Any], second: Sequence[Any], spare: Sequence[Scalar], size: Any
) -> tuple[list[tuple[Scalar, Vector, Vector]], Scalar]:
    """Gap, normal and point of the closest places of two segments, less radii; and of the far end of what they share.

    Whether there is that, the last number says. Each has an origin (3,), an axis (3,), half a length and a radius.
    Where they coincide, the normal is that of both axes, or ``spare``.
    """
    (p, a, h, radius), (q, b, g, other) = first, second
    there: Scalar = 0.0
    places: Sequence[tuple[Scalar, Scalar]] = [(0.0, 0.0)]
    if h and g:  # in loops, where lengths come later, always: a sphere has the axis of the other one there
        spare = across(ops, a, b, spare)
        *places, there = side_by_side(ops, minus(p, q), a, h, b, g)
    elif g:
        places = [(0.0, _within(ops, dot(b, minus(p, q)), g))]
    elif h:
        places = [(_within(ops, -dot(a, minus(p, q)), h), 0.0)]
    out = []
    for s, t in places:
        x, y = plus_scaled(p, a, s) if h else p, plus_scaled(q, b, t) if g else q
        distance, normal = from_point(ops, minus(x, y), spare, size)
        gap = distance - (radius + other)
        out.append((gap, normal, plus_scaled(y, normal, 0.5 * gap + other)))
    return out, there


def from_point(ops: ScalarOps, x: Sequence[Scalar], spare: Sequence[Scalar], size: Any) -> tuple[Scalar, Vector]:
    """Distance of a place from the origin, and the unit vector to it; ``spare``, and how far along it, where they meet.

    ``size`` (m) is that of the shapes whose axes or centres these are.
    """
    square, least = dot(x, x), (COINCIDE * size) * (COINCIDE * size)
    apart, over = ops.less(least, square), 1.0 / ops.sqrt(ops.maximum(square, least))
    n = chosen(ops, apart, [over * c for c in x], spare)
    return dot(n, x), n


def across(ops: ScalarOps, a: Sequence[Scalar], b: Sequence[Scalar], spare: Sequence[Scalar]) -> Vector:
    """Unit vector normal to two axes; ``spare``, which is normal to the second, where they are parallel."""
    n = cross_entries(a, b)
    square, least = dot(n, n), COINCIDE * COINCIDE
    over = 1.0 / ops.sqrt(ops.maximum(square, least))
    return chosen(ops, ops.less(least, square), [over * c for c in n], spare)


def side_by_side(
    ops: ScalarOps, d: Sequence[Scalar], a: Sequence[Scalar], h: Any, b: Sequence[Scalar], g: Any
) -> tuple[Any, ...]:
    """Two pairs of places (m) along segments on the axes ``a``, ``b``, half as long as ``h``, ``g``; ``d`` apart.

    The first is where they are closest. The second is the far end of the stretch that they share where they are side by
    side, which the last number says; parallel segments are as close at both.
    """
    n, c, of_a, of_b = cross_entries(a, b), dot(a, b), dot(a, d), dot(b, d)
    square, least = dot(n, n), PLACES * ops.epsilon
    start, end = ops.maximum(-h, -of_a - g), ops.minimum(h, g - of_a)

    def places(s: Scalar) -> tuple[Scalar, Scalar]:
        t = _within(ops, of_b + c * s, g)
        return _within(ops, c * t - of_a, h), t

    middle = 0.5 * (start + end)
    begin, shares = ops.minimum(start, middle), ops.less(COINCIDE * (h + g), end - start)
    crossing = _within(ops, (c * of_b - of_a) * (1.0 / ops.maximum(square, least)), h)
    s, t = places(ops.select(ops.less(least, square), crossing, _within(ops, begin, h)))
    other = places(ops.select(ops.less(s + s, start + end), end, start))
    return (s, t), other, shares * ops.less(square, SIDE_BY_SIDE * SIDE_BY_SIDE)


def _within(ops: ScalarOps, x: Scalar, most: Any) -> Scalar:
    """``x``, or the end of ±``most`` that is nearest to it."""
    return ops.maximum(ops.minimum(x, most), -most)
