"""Gap and normal of any two convex shapes, without branches.

A shape is a core with a radius around it, and a core is known by its support points. Of the vectors from points of B's
core to points of A's the nearest to the origin is the gap (Gilbert, Johnson, Keerthi 1988), one pass of a loop a
support point. Cores that overlap are made smaller about their centres until a gap is left; its normal leads to that of
the shapes as they are: A is moved out along it, and the normal there is the next one, until none is better. That is the
way out that is shortest among those nearby. Shapes that overlap by a large part of their size, and those whose middles
coincide, try those that begin along their axes as well; `Simulator` may still take another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import reduce

import numpy as np

from delassus.constraints.shapes.lowest_points import Solid, on_ellipsoid
from delassus.model.shapes import Box, Capsule, Cylinder, Ellipsoid, Mesh, Sphere
from delassus.spatial.motion import chosen, column, cross_entries, dot, minus, plus, plus_scaled
from delassus.spatial.ops import Matrix, Ops, Scalar
from delassus.spatial.rotations import Array

MOST_PASSES = 256
"""Passes of the loop, one a support point."""

MOST_SLOW = 4
"""Passes for a direction that bring nothing above round-off: a square of a length hides what turns its direction by
less than the root of that, by which wide faces are missed."""

ROUND_OFF = 1e-14
"""Part of the shapes' size that is the error of a distance."""

NEAR = 0.02
"""Part of the shapes' size below which a gap alone does not give an exact normal, and to which shapes are parted."""

SHRINKAGE = 1e-3
"""Part of the smaller core's size that cores that overlap lose at first; twice that each time that they still do."""

FASTER = 8.0
"""How much more than before the larger one loses once the smaller one is a point."""

DEEP = 0.1
"""Part of the shapes' size from which on an overlap has ways out that are not nearby."""

THIN = 1e-20
"""Square of the sine between edges below which a triangle is a line."""

TINY = 1e-30
"""Added to squares of lengths that may be zero."""

HUGE = 1e30
"""More than any length: shapes here have a size of about one."""

Vector = list["Scalar"]


class Placed:
    """A shape in the world: rotation of its link (3 × 3), its own on the link, and the place (3,) of its frame.

    ``axes`` (3 × 3) are those of the shape.
    """

    def __init__(self, ops: Ops, shape: Solid, link: Matrix, rotation: Array, origin: Vector) -> None:
        self.ops, self.shape, self.origin, self._link, self._rotation = ops, shape, origin, link, rotation
        self.axes = link @ ops.constant(rotation)
        self._rows = ops.entries(self.axes)

    @property
    def radius(self) -> float:
        """Radius around the core (m)."""
        return self.shape.radius if isinstance(self.shape, Sphere | Capsule) else 0.0

    @property
    def middle(self) -> Array:
        """A point (3,) inside the core, in the frame of the shape."""
        return self.shape.vertices.mean(axis=0) if isinstance(self.shape, Mesh) else np.zeros(3)

    @property
    def size(self) -> float:
        """Radius (m) of a ball about the middle that holds the shape."""
        match self.shape:
            case Mesh():
                return float(np.linalg.norm(self.shape.vertices - self.middle, axis=1).max())
            case Sphere():
                return self.shape.radius
            case Capsule():
                return self.shape.radius + 0.5 * self.shape.length
            case Cylinder():
                return float(np.hypot(self.shape.radius, 0.5 * self.shape.length))
            case Ellipsoid():
                return max(self.shape.x, self.shape.y, self.shape.z)
        return 0.5 * float(np.linalg.norm([self.shape.x, self.shape.y, self.shape.z]))

    def scaled(self, factor: float) -> Placed:
        """The same in another unit of length."""
        of, shape = self.shape, self.shape
        if isinstance(of, Mesh):
            shape = Mesh(factor * of.vertices, of.triangles)
        else:
            shape = type(of)(*(factor * getattr(of, each.name) for each in fields(of)))
        return Placed(self.ops, shape, self._link, self._rotation, [factor * x for x in self.origin])

    def to_own(self, d: Sequence[Scalar]) -> Vector:
        """A vector of the world in axes of the shape."""
        return [dot([row[k] for row in self._rows], d) for k in range(3)]

    def to_world(self, x: Sequence[Scalar]) -> Vector:
        """A vector of the shape in axes of the world."""
        return [dot(row, x) for row in self._rows]

    def along(self, vector: Array) -> Vector:
        """The same of numbers (3,)."""
        return column(self.ops, self._link @ self.ops.constant((self._rotation @ vector)[:, None]))

    def at(self, x: Sequence[Scalar]) -> Vector:
        """Place in the world of a point of the shape."""
        return plus(self.origin, self.to_world(x))

    def support(self, d: Sequence[Scalar]) -> Vector:
        """Point of the core that lies furthest along ``d``, in the frame of the shape as ``d``."""
        ops, shape = self.ops, self.shape
        match shape:
            case Box():
                return [ops.copysign(0.5 * h, x) for h, x in zip((shape.x, shape.y, shape.z), d, strict=True)]
            case Capsule():
                return [0.0, 0.0, ops.copysign(0.5 * shape.length, d[2])]
            case Cylinder():
                across = ops.sqrt(d[0] * d[0] + d[1] * d[1])
                steep = ops.maximum(d[2], -d[2]) * 1e-12
                part = ops.select(ops.less(steep, across), shape.radius / (across + TINY), 0.0)
                return [part * d[0], part * d[1], ops.copysign(0.5 * shape.length, d[2])]
            case Ellipsoid():
                return on_ellipsoid(ops, (shape.x, shape.y, shape.z), d)
            case Mesh():
                vertices = shape.vertices.tolist()
                best, at = dot(d, vertices[0]), list[Scalar](vertices[0])
                for x in vertices[1:]:
                    reach = dot(d, x)
                    further = ops.less(best, reach)
                    best = ops.maximum(best, reach)
                    at = chosen(ops, further, x, at)
                return at
        return [0.0, 0.0, 0.0]


CORNER = 8
"""Numbers of a corner of a simplex: vector from B to A, point of A, weight, and whether it is there."""


def distance(a: Placed, b: Placed) -> tuple[Scalar, Vector, Vector]:
    """Gap of the cores (m), negative where they overlap; unit normal (3,) from B to A; nearest point of A (3,)."""
    ops, size = a.ops, a.size + b.size
    near = 2.0 * NEAR * min(a.size, b.size)  # of curved ones parted by more, normals follow one another slowly
    tolerance, cores = ROUND_OFF * size, (a.size - a.radius, b.size - b.radius)
    smaller, larger = min(x for x in cores if x) if any(cores) else 0.0, max(cores)
    middle_a, middle_b = a.at(a.middle.tolist()), b.at(b.middle.tolist())
    start = plus(minus(middle_a, middle_b), [TINY, 0.0, 0.0])
    length = ops.sqrt(dot(start, start))
    none: Vector = [0.0] * (3 * CORNER)
    sides = [axis for shape in (a, b) if not isinstance(shape.shape, Sphere) for axis in _axes(shape)]
    others = [[ops.copysign(1.0, dot(axis, start)) * x for x in axis] for axis in sides]

    def body(values: Sequence[Scalar]) -> tuple[list[Scalar], Scalar]:
        corners = [list(values[CORNER * k : CORNER * k + CORNER]) for k in range(3)]
        v, gap, normal, less, out, n, best, refines, turn, point, slow = (
            list(values[24:27]), values[27], list(values[28:31]), values[31], values[32], list(values[33:36]),
            values[36], values[37], values[38], list(values[39:42]), values[42],
        )  # fmt: skip
        fresh = 1.0 - ops.maximum(corners[0][7], ops.maximum(corners[1][7], corners[2][7]))
        length = ops.sqrt(ops.maximum(dot(v, v), TINY))
        d = [-(1.0 / length) * x for x in v]
        # where ways out are tried one by one, each pass has its own
        is_new, tries = ops.less(turn, 0.5), ops.less(0.5, turn) * ops.less(turn, len(others) + 0.5)
        for k, way in enumerate(others):
            d = chosen(ops, tries * ops.less(k + 0.5, turn), [-x for x in way], d)
        left, (of_a, of_b) = [ops.maximum(x - less, 0.0) for x in cores], [1.0 / x if x else 0.0 for x in cores]
        p = plus_scaled(middle_a, minus(a.at(a.support(a.to_own(d))), middle_a), of_a * left[0])
        q = plus_scaled(middle_b, minus(b.at(b.support(b.to_own([-x for x in d]))), middle_b), of_b * left[1])
        w = plus_scaled(minus(p, q), n, out)
        least = -dot(d, w)
        better, rises = ops.less(gap, least), ops.less(gap + tolerance, least)
        gap, normal = ops.maximum(gap, least), chosen(ops, better, [-x for x in d], normal)
        inside, nearest, following = _nearest_in_simplex(ops, corners, [*w, *p])
        # the loop for this direction ends: the origin is inside, the gap is known, or there is no way on
        overlaps = ops.maximum(ops.less(length, 10.0 * tolerance), inside) * (1.0 - fresh)
        square, before = dot(nearest, nearest), dot(v, v)
        slows = (1.0 - ops.maximum(rises, ops.less(square, before))) * (1.0 - fresh)
        stalls = slows * (1.0 - ops.less(square, before + 2.0 * tolerance * length) * ops.less(slow, MOST_SLOW - 0.5))
        known = (1.0 - ops.less(tolerance, length - least)) * (1.0 - fresh)
        ends = ops.maximum(overlaps, ops.maximum(stalls, known))
        ends = ops.select(tries, ops.less(len(others) - 0.5, turn), ends)
        overlaps = overlaps * (1.0 - refines)
        parted = gap - out * dot(normal, n)
        whole = ops.less(less, 0.5 * SHRINKAGE * smaller)
        apart = (1.0 - refines) * whole * (1.0 - ops.less(gap, near))
        settled = refines * (1.0 - tries) * (1.0 - ops.less(best + tolerance, parted))
        coincide = overlaps * (1.0 - ops.less(less, larger))
        looks = ends * is_new * ops.maximum(coincide, settled * ops.less(best, -DEEP * size)) if others else 0.0
        done = ends * (1.0 - overlaps) * (1.0 - looks) * ops.maximum(apart, settled)
        last = ends * (1.0 - overlaps) * (1.0 - looks) * ops.maximum(apart, 1.0 - done)
        found = parted - (sum(cores) - left[0] - left[1])
        taken = last * ops.maximum(1.0 - refines, ops.less(best, found))
        best, n = ops.select(taken, found, best), chosen(ops, taken, normal, n)
        out = ops.select(last, ops.maximum(near - best, 0.0), ops.select(looks, 0.0, out))
        more = ops.maximum(ops.select(ops.less(less, smaller), 2.0 * less, FASTER * less), SHRINKAGE * smaller)
        anew = ops.maximum(last, looks)
        refines = ops.maximum(refines, anew)
        less = ops.select(anew, 0.0, ops.select(ends * overlaps, more, less))
        turn = turn + ops.maximum(tries, looks)
        # the nearest point of A; a new direction begins with no corner
        there = [plus_scaled([0.0] * 3, corner[3:6], corner[6]) for corner in corners]
        point = chosen(ops, ends * (1.0 - overlaps) * (1.0 - tries), reduce(plus, there), point)
        begins = ends * (1.0 - done)
        v = chosen(ops, begins, plus_scaled(start, n, out), chosen(ops, ends, v, nearest))
        gap = ops.select(begins, -HUGE, gap)
        kept = [
            x
            for old, new in zip(corners, following, strict=True)
            for x in chosen(ops, ends, [(1.0 - begins) * y for y in old], new)
        ]
        slow = (1.0 - ends) * (slow + slows)
        return [*kept, *v, gap, *normal, less, out, *n, best, refines, turn, *point, slow], done

    towards = [(1.0 / length) * x for x in start]
    first = [*none, *start, -HUGE, *towards, 0.0, 0.0, *towards, -2.0 * size, 0.0, 0.0, *middle_a, 0.0]
    values = ops.repeat(MOST_PASSES, first, body)
    return values[36], list(values[33:36]), list(values[39:42])


def _axes(a: Placed) -> list[Vector]:
    """Axes (3,) of a shape, in the world."""
    return [a.to_world([1.0 if j == k else 0.0 for j in range(3)]) for k in range(3)]


def _nearest_in_simplex(
    ops: Ops, corners: Sequence[Sequence[Scalar]], new: Sequence[Scalar]
) -> tuple[Scalar, Vector, list[Vector]]:
    """Of a simplex of up to three corners and a new one, in which that takes part.

    Returns whether the origin is inside, the point that is nearest to it, and the corners that this is between.
    """
    d = list(new[:3])
    best, v = dot(d, d), d
    weights: Vector = [0.0, 0.0, 0.0]
    edges = [minus(corner[:3], d) for corner in corners]
    squares = [dot(e, e) for e in edges]

    def take(ok: Scalar, x: Vector, parts: Vector) -> None:
        nonlocal best, v, weights
        square = dot(x, x)
        ok = ok * ops.less(square, best)
        best, v, weights = ops.select(ok, square, best), chosen(ops, ok, x, v), chosen(ops, ok, parts, weights)

    for k in range(3):
        part = -dot(d, edges[k]) * (1.0 / ops.maximum(squares[k], TINY))
        ok = corners[k][7] * ops.less(0.0, part) * ops.less(part, 1.0)
        take(ok, plus_scaled(d, edges[k], part), [part if j == k else 0.0 for j in range(3)])
    for k, m in ((1, 0), (2, 0), (2, 1)):
        x, y = corners[k][:3], corners[m][:3]
        N = cross_entries(edges[k], edges[m])
        area = dot(N, N)
        of_x, of_y = dot(cross_entries(y, d), N), dot(cross_entries(d, x), N)
        ok = corners[k][7] * corners[m][7] * ops.less(THIN * squares[k] * squares[m], area)
        ok = ok * ops.less(0.0, of_x) * ops.less(0.0, of_y) * ops.less(of_x + of_y, area)
        over = 1.0 / ops.maximum(area, TINY)
        part = dot(d, N) * over
        take(ok, [part * c for c in N], [{k: over * of_x, m: over * of_y}.get(j, 0.0) for j in range(3)])
    x, y, z = (corner[:3] for corner in corners)
    volumes = [
        dot(d, cross_entries(y, z)),
        dot(d, cross_entries(z, x)),
        dot(d, cross_entries(x, y)),
        -dot(z, cross_entries(x, y)),
    ]
    signs = [ops.less(0.0, volume) for volume in volumes]
    negative = [ops.less(volume, 0.0) for volume in volumes]
    same = reduce(lambda s, t: s * t, signs) + reduce(lambda s, t: s * t, negative)
    inside = same * corners[0][7] * corners[1][7] * corners[2][7]
    kept = [ops.less(0.0, weight) for weight in weights]
    own = 1.0 - (weights[0] + weights[1] + weights[2])
    places = [1.0 - kept[0], kept[0] * (1.0 - kept[1]), kept[0] * kept[1]]
    following = [
        chosen(ops, place, [*new, own, 1.0], [*corner[:6], weight, keep])
        for place, corner, weight, keep in zip(places, corners, weights, kept, strict=True)
    ]
    return inside, v, following
