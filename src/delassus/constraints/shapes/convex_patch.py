"""Contacts of any two convex shapes: the patch on which they face each other, without branches.

The patch is that of `delassus.contact.collision.patches`: the feature of one shape cut to the outline of the face of
the other, seen along the normal, each corner with its own depth. Where it does not have the deepest point, the nearest
points of the two shapes are a contact as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from math import cos, log2, pi, sin
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.constraints.shapes.convex_distance import (
    HUGE,
    TINY,
    Placed,
    Vector,
    distance,
)
from delassus.constraints.shapes.lowest_points import MOST_POINTS, Solid, on_rim, tangents
from delassus.model.shapes import Box, Capsule, Cylinder, Ellipsoid, Mesh, Sphere
from delassus.spatial.motion import chosen, cross_entries, dot, minus, plus_scaled
from delassus.spatial.ops import Ops, Scalar, ScalarOps
from delassus.spatial.rotations import Array

EXACT = 1e-10
"""Part of the shapes' size by which the deepest point of a patch may miss the depth; else the nearest point acts."""

ALIGNED = 1e-3
"""One minus the cosine of the angle between a face's normal and a contact's, below which the face touches flatly."""

PARALLEL = 5e-7
"""One minus the cosine of the angle between lines that touch along a stretch."""

BESIDE = 1e-6
"""How far a point may be beside a face and still count as on it, as a part of its edge."""

BASE = 0.7
"""Cosine of the angle between axis and normal from which on a cylinder touches with its base."""

RIM = 8
"""Points on the rim of a cylinder's base."""

FLAT = 1e-5
"""Neighbouring triangles are one face if their unit normals differ by less, and their planes by less than this part of
the size: files hold single-precision numbers."""


@dataclass(frozen=True, slots=True)
class Feature:
    """What of a shape lies furthest in a direction: corners in the world, counterclockwise seen from outside.

    The first of them stands in the place of those beyond ``count``; ``is_face`` is 0 for lines; ``normal`` is that of
    the face.
    """

    corners: list[Vector]
    count: Scalar
    normal: Vector
    is_face: Scalar


def has_flats(shape: Solid) -> bool:
    """Whether a shape has faces or straight sides."""
    return not isinstance(shape, Sphere | Ellipsoid)


def has_faces(shape: Solid) -> bool:
    """Whether a shape has faces."""
    return isinstance(shape, Box | Cylinder | Mesh)


def polygons(vertices: Array, triangles: NDArray[np.int64], normals: Array) -> list[tuple[Array, NDArray[np.int64]]]:
    """Outward normal and corners of each face of a hull, its triangles (n, 3) taken together."""
    heights, size = (vertices[triangles[:, 0]] * normals).sum(axis=1), float(np.ptp(vertices, axis=0).max())
    out, left = [], np.ones(len(normals), dtype=bool)
    while left.any():
        n, height = normals[first := int(np.argmax(left))], heights[first]
        flat = left & (np.abs(normals - n).max(axis=1) < FLAT) & (np.abs(heights - height) < FLAT * size)
        left &= ~flat
        corners = np.unique(triangles[flat])
        from_centre = vertices[corners] - vertices[corners].mean(axis=0)
        start = from_centre[0] - n * (n @ from_centre[0])
        order = np.argsort(np.arctan2(from_centre @ np.cross(n, start), from_centre @ start))
        out.append((n, corners[order]))
    return out


@lru_cache(64)
def _faces(hull: Mesh) -> list[tuple[Array, Array]]:
    """Outward normal and corners (n, 3) of each face."""
    assert hull.triangles is not None
    corners = hull.vertices[hull.triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    return [(n, hull.vertices[face]) for n, face in polygons(hull.vertices, hull.triangles, normals)]


def face_normals(hull: Mesh) -> list[list[float]]:
    """Outward unit normals of the faces of a hull, in its frame."""
    return [n.tolist() for n, _ in _faces(hull)]


def feature(a: Placed, d: Sequence[Scalar]) -> Feature:
    """What of a shape lies furthest in a direction of the world."""
    ops, shape, own = a.ops, a.shape, a.to_own(d)
    flat: Scalar = 1.0
    count: Scalar = 4.0
    if isinstance(shape, Box):
        half = [0.5 * shape.x, 0.5 * shape.y, 0.5 * shape.z]
        size = [ops.maximum(x, -x) for x in own]
        second = ops.less(size[0], size[1])
        third = ops.less(ops.maximum(size[0], size[1]), size[2])
        axes = [(1.0 - second) * (1.0 - third), second * (1.0 - third), third]
        side = [f * ops.copysign(1.0, x) for f, x in zip(axes, own, strict=True)]
        sign, normal = side[0] + side[1] + side[2], side
        points = [
            [h * (side[j] + axes[(j + 2) % 3] * (u * sign) + axes[(j + 1) % 3] * v) for j, h in enumerate(half)]
            for u, v in ((-1.0, 1.0), (-1.0, -1.0), (1.0, -1.0), (1.0, 1.0))
        ]
    elif isinstance(shape, Mesh):
        faces = _faces(shape)
        most = max(len(x) for _, x in faces)
        best: Scalar = -HUGE
        normal, points = [0.0] * 3, [[0.0] * 3 for _ in range(most)]
        for n, x in faces:
            cosine = dot(n.tolist(), own)
            further = ops.less(best, cosine)
            best = ops.maximum(best, cosine)
            normal = chosen(ops, further, n.tolist(), normal)
            count = ops.select(further, float(len(x)), count)
            padded = [*x.tolist(), *[x[0].tolist()] * (most - len(x))]
            points = [chosen(ops, further, new, old) for new, old in zip(padded, points, strict=True)]
    else:
        assert isinstance(shape, Cylinder | Capsule)
        half_length = 0.5 * shape.length
        across = ops.sqrt(own[0] * own[0] + own[1] * own[1] + TINY)
        length: Scalar = across if isinstance(shape, Cylinder) else 1.0
        side_point = [shape.radius * own[0] / length, shape.radius * own[1] / length]
        up: Scalar = shape.radius * own[2] if isinstance(shape, Capsule) else 0.0
        ends = [[*side_point, up - half_length], [*side_point, up + half_length]]
        if isinstance(shape, Capsule):
            return Feature([a.at(x) for x in ends], 2.0, [0.0] * 3, 0.0)
        flat = ops.less(BASE, ops.maximum(own[2], -own[2]))
        out, (c, s) = ops.copysign(1.0, own[2]), on_rim(ops, shape.radius, own[0], own[1])
        points, normal = [], [0.0, 0.0, out]
        for k in range(RIM):
            cosine, sine = cos(2 * pi * k / RIM), out * sin(2 * pi * k / RIM)
            rim = [c * cosine - s * sine, s * cosine + c * sine, out * half_length]
            points.append(chosen(ops, flat, rim, ends[k == 1]))
        count = ops.select(flat, float(RIM), 2.0)
    return Feature([a.at(x) for x in points], count, a.to_world(normal), flat)


class Patch(NamedTuple):
    """Contact points of a patch: places (3,), overlaps (m), whether each is there, and how many may be."""

    points: list[Vector]
    depths: list[Scalar]
    there: list[Scalar]


def patch(a: Placed, b: Placed, n: Vector, depth: Scalar) -> Patch:
    """Contacts between the features of A and B that face each other along ``n`` (from B to A), none below ``depth``."""
    ops, back, exact = a.ops, [-x for x in n], EXACT * (a.size + b.size)
    of_a, of_b = feature(a, back), feature(b, n)
    flat_a, flat_b = (f.is_face * ops.less(1.0 - dot(f.normal, d), ALIGNED) for f, d in ((of_a, back), (of_b, n)))
    # either would do: what they share, seen along the normal, is the same
    if not has_faces(b.shape):
        face, points, up, aligned = of_a, of_b, back, flat_a
    elif not has_faces(a.shape):
        face, points, up, aligned = of_b, of_a, n, flat_b
    else:
        face, points, up = (
            _either(ops, flat_b, of_b, of_a),
            _either(ops, flat_b, of_a, of_b),
            chosen(ops, flat_b, n, back),
        )
        aligned = ops.maximum(flat_a, flat_b)
    first, second = tangents(ops, up)
    origin = face.corners[0]

    def seen(x: Vector) -> Vector:
        """Place along the two tangents, and overlap under the face."""
        away = minus(x, origin)
        return [dot(first, away), dot(second, away), -dot(face.normal, away)]

    outline = [seen(x)[:2] for x in face.corners]
    count, corners = clip(ops, [seen(x) for x in points.corners], points.count, points.is_face, outline)
    slope = dot(face.normal, up)
    over = 1.0 / ops.select(aligned, slope, 1.0)
    along = [dot(first, face.normal), dot(second, face.normal)]
    found = Patch([], [], [])
    for k, (x, y, under) in enumerate(corners):
        height = -over * (under + along[0] * x + along[1] * y)  # over the face's corner, along the normal
        place = plus_scaled(plus_scaled(plus_scaled(origin, first, x), second, y), up, height)
        own = at_most(ops, over * under, depth, exact)
        found.points.append(plus_scaled(place, up, 0.5 * own))
        found.depths.append(own)
        found.there.append(aligned * ops.less(float(k), count))
    edge = minus(face.corners[1], face.corners[0])
    u = [x * (1.0 / ops.sqrt(dot(edge, edge) + TINY)) for x in edge]
    found = _reduced(ops, found, u, cross_entries(face.normal, u))
    return _with_lines(ops, found, of_a, of_b, n, depth, exact, 1.0 - aligned)


def at_most(ops: ScalarOps, depth: Scalar, most: Scalar, exact: Scalar) -> Scalar:
    """The smaller one; of those that are equal but for ``exact`` the first, which turns with its face."""
    return ops.select(ops.less(most + exact, depth), most, depth)


def _reduced(ops: Ops, found: Patch, u: Vector, v: Vector) -> Patch:
    """Of more than `MOST_POINTS` points, the deepest and the furthest in directions along the face, each once."""
    if len(found.points) <= MOST_POINTS:
        return found
    many = ops.less(MOST_POINTS + 0.5, reduce(lambda x, y: x + y, found.there))
    out, taken = Patch([], [], []), list[Scalar]()
    for k in range(MOST_POINTS):
        angle = 2 * pi * (k - 0.75) / (MOST_POINTS - 1)  # a quarter of a step from the edge
        w = plus_scaled([cos(angle) * x for x in u], v, sin(angle))
        best: Scalar = -HUGE
        index: Scalar = 0.0
        point, depth = found.points[0], found.depths[0]
        for i, (x, own, there) in enumerate(zip(*found, strict=True)):
            reach = ops.select(there, dot(x, w) if k else own, -HUGE)
            further = ops.less(best, reach)
            best, index = ops.maximum(best, reach), ops.select(further, float(i), index)
            point, depth = chosen(ops, further, x, point), ops.select(further, own, depth)
        once: Scalar = 1.0
        for other in taken:
            once = once * ops.less(0.25, (index - other) * (index - other))
        taken.append(index)
        out.points.append(chosen(ops, many, point, found.points[k]))
        out.depths.append(ops.select(many, depth, found.depths[k]))
        out.there.append(ops.select(many, once, found.there[k]))
    return out


def _with_lines(
    ops: Ops, found: Patch, of_a: Feature, of_b: Feature, n: Vector, depth: Scalar, exact: float, rather: Scalar
) -> Patch:
    """Where no face touches flatly, the two ends of the stretch that parallel edges or lines of A and B share."""
    back = [-x for x in n]
    there, *ends = stretch(ops, _edge(ops, of_a, back), _edge(ops, of_b, n), n)
    for k, (middle, own) in enumerate(ends):
        found.points[k] = chosen(ops, rather, middle, found.points[k])
        found.depths[k] = ops.select(rather, at_most(ops, own, depth, exact), found.depths[k])
        found.there[k] = ops.select(rather, rather * there, found.there[k])
    return found


def stretch(ops: ScalarOps, a: Sequence[Vector], b: Sequence[Vector], n: Sequence[Scalar]) -> tuple[Any, ...]:
    """Whether two lines from point to point run side by side, and of both ends of that a place between and an overlap.

    ``n`` is the unit normal from B to A.
    """
    (p, p1), (q, q1) = a, b
    u, w = minus(p1, p), minus(q1, q)
    length, other = ops.sqrt(dot(u, u) + TINY), ops.sqrt(dot(w, w) + TINY)
    u, w = [x * (1.0 / length) for x in u], [x * (1.0 / other) for x in w]
    cosine, tilt = dot(u, w), dot(u, n)
    parallel = ops.less(1.0 - ops.maximum(cosine, -cosine), PARALLEL) * ops.less(tilt * tilt, PARALLEL)
    start, end = dot(minus(q, p), u), dot(minus(q1, p), u)
    first, last = ops.maximum(0.0, ops.minimum(start, end)), ops.minimum(length, ops.maximum(start, end))
    ends = []
    for s in (first, last):
        x, along = plus_scaled(p, u, s), (s - start) * ops.copysign(1.0, cosine)
        y = plus_scaled(q, w, ops.minimum(ops.maximum(along, 0.0), other))
        ends.append(([0.5 * (i + j) for i, j in zip(x, y, strict=True)], dot(minus(y, x), n)))
    return parallel * ops.less(1e-6 * (length + other), last - first), *ends


def _edge(ops: Ops, of: Feature, d: Sequence[Scalar]) -> tuple[Vector, Vector]:
    """Ends of a line, or of the edge of a face that lies furthest along ``d``."""
    corners, n = of.corners, len(of.corners)
    heights = [dot(d, x) for x in corners]
    best: Scalar = -HUGE
    start, end = corners[0], corners[1]
    for k in range(n if n > 2 else 0):
        reach = heights[k] + heights[(k + 1) % n]
        further = of.is_face * ops.less(best, reach) * ops.less(float(k), of.count)
        best = ops.select(further, reach, best)
        start, end = chosen(ops, further, corners[k], start), chosen(ops, further, corners[(k + 1) % n], end)
    return start, end


# -- contacts ----------------------------------------------------------------------------------------------------------


def n_contacts(first: Solid, second: Solid) -> int:
    """How many contacts `contacts` finds at most."""
    if not (has_flats(first) and has_flats(second)):
        return 1
    most, least = (pick(_most_corners(first), _most_corners(second)) for pick in (max, min))
    return 1 + (2 if least == 2 else min(MOST_POINTS, 2 * most))


def _most_corners(shape: Solid) -> int:
    if isinstance(shape, Mesh):
        return max(len(x) for _, x in _faces(shape))
    return 4 if isinstance(shape, Box) else RIM if isinstance(shape, Cylinder) else 2


def contacts(a: Placed, b: Placed, along: Vector | None = None) -> list[tuple[Scalar, Vector, Vector, Scalar]]:
    """Gap (m), unit normal from B to A and point of each contact, and whether it is there.

    The first is that of the nearest points, where a patch does not have the deepest; the others are the patch. The
    normal is that of the gap, or ``along``.
    """
    unit = 2.0 ** -round(log2(a.size + b.size))  # exact: digits stay, and floors are parts of the shapes' size
    a, b = a.scaled(unit), b.scaled(unit)
    n, depth, nearest = _nearest(a, b) if along is None else (along, *_deepest(a, b, along))
    found: list[tuple[Scalar, Vector, Scalar]] = [(-depth, nearest, 1.0)]
    if has_flats(a.shape) and has_flats(b.shape):
        of_patch = patch(a, b, n, depth)
        deepest = reduce(
            a.ops.maximum,
            [a.ops.select(there, own, -HUGE) for own, there in zip(of_patch.depths, of_patch.there, strict=True)],
        )
        alone = a.ops.less(deepest, depth - EXACT * (a.size + b.size))
        found = [(-own, x, there) for x, own, there in zip(*of_patch, strict=True)]
        if isinstance(a.shape, Capsule) and isinstance(b.shape, Capsule):  # of two points one is not there
            gap, x, there = found[0]
            found[0] = (
                a.ops.select(alone, -depth, gap), chosen(a.ops, alone, nearest, x), a.ops.maximum(alone, there)
            )  # fmt: skip
        else:
            found = [(-depth, nearest, alone), *found]
    return [(gap * (1.0 / unit), n, [(1.0 / unit) * c for c in x], there) for gap, x, there in found]


def _deepest(a: Placed, b: Placed, n: Vector) -> tuple[Scalar, Vector]:
    """Depth (m) along a unit vector from B to A, and the point between those that are deepest: of the smaller shape."""
    p, q = a.at(a.support(a.to_own([-x for x in n]))), b.at(b.support(b.to_own(n)))
    depth = (a.radius + b.radius) - dot(n, minus(p, q))
    of_b = b.size < a.size
    return depth, plus_scaled(q, n, b.radius - 0.5 * depth) if of_b else plus_scaled(p, n, 0.5 * depth - a.radius)


def _nearest(a: Placed, b: Placed) -> tuple[Vector, Scalar, Vector]:
    """Unit normal of the gap from B to A, depth (m), and the point between the nearest ones."""
    if b.size < a.size:  # the point is one of the smaller shape, also where passes end before it is exact
        gap, back, q = distance(b, a)
        n = [-x for x in back]
        p = plus_scaled(q, n, gap)
    else:
        gap, n, p = distance(a, b)
    depth = a.radius + b.radius - gap
    return n, depth, plus_scaled(_on_surface(a, b, n, gap, p), n, 0.5 * depth - a.radius)


def _on_surface(a: Placed, b: Placed, n: Vector, gap: Scalar, p: Vector) -> Vector:
    """Nearest point of the core of A, from one that a loop has ended with: as low as that of A that lies lowest.

    Of ellipsoids, it is the point that has the normal.
    """
    if isinstance(b.shape, Ellipsoid) and not (isinstance(a.shape, Ellipsoid) and a.size < b.size):
        return plus_scaled(b.at(b.support(b.to_own(n))), n, gap)
    lowest = a.at(a.support(a.to_own([-x for x in n])))
    return lowest if isinstance(a.shape, Ellipsoid) else plus_scaled(p, n, dot(n, minus(lowest, p)))


def _either(ops: Ops, condition: Scalar, x: Feature, y: Feature) -> Feature:
    """One feature or the other."""
    most = max(len(x.corners), len(y.corners))
    full = [[*f.corners, *[f.corners[0]] * (most - len(f.corners))] for f in (x, y)]
    corners = [chosen(ops, condition, p, q) for p, q in zip(*full, strict=True)]
    return Feature(
        corners, ops.select(condition, x.count, y.count), chosen(ops, condition, x.normal, y.normal),
        ops.select(condition, x.is_face, y.is_face),
    )  # fmt: skip


def clip(
    ops: Ops, points: list[Vector], count: Scalar, is_face: Scalar, outline: list[Vector]
) -> tuple[Scalar, list[Vector]]:
    """Cut a polygon or line to what lies within the edges of a face (Sutherland and Hodgman 1974).

    The first two numbers of a corner are its place, and what comes after them changes evenly between corners. Returns
    how many are left, and the corners, the first one in place of those that are not there.
    """
    for k, (x0, y0) in enumerate(outline):
        x1, y1 = outline[(k + 1) % len(outline)]
        e, f = y1 - y0, -(x1 - x0)  # outwards
        beside = BESIDE * (e * e + f * f)
        heights = [e * (x - x0) + f * (y - y0) for x, y, *_ in points]
        made: list[tuple[Scalar, Vector]] = []
        for i, (x, own) in enumerate(zip(points, heights, strict=True)):
            j = (i + 1) % len(points)
            there = ops.less(float(i), count)
            made.append((there * (1.0 - ops.less(beside, own)), x))
            crosses = ops.maximum(
                ops.less(own, 0.0) * ops.less(beside, heights[j]), ops.less(heights[j], 0.0) * ops.less(beside, own)
            )
            part = own * (1.0 / ops.select(crosses, own - heights[j], 1.0))
            if i:  # a line has no way back
                crosses = crosses * ops.maximum(is_face, ops.less(float(i + 1), count))
            made.append((there * crosses, plus_scaled(x, minus(points[j], x), part)))
        points, count = _compacted(ops, made, len(points) + 1 if len(points) > 2 else 2)  # lines have no more
    return count, points


def _compacted(ops: Ops, made: list[tuple[Scalar, Vector]], most: int) -> tuple[list[Vector], Scalar]:
    """What is there of a list, in order, then the first one again; and how much that is."""
    before: list[Scalar] = []
    count: Scalar = 0.0
    for there, _ in made:
        before.append(count)
        count = count + there
    out: list[Vector] = []
    for slot in range(most):
        found = out[0] if slot else made[0][1]
        for j in reversed(range(slot, len(made))):
            there, x = made[j]
            here = there * ops.less(slot - 0.5, before[j]) * ops.less(before[j], slot + 0.5)
            found = chosen(ops, here, x, found)
        out.append(found)
    return out, ops.minimum(count, float(most))
