"""Shapes on half spaces.

A half space is what lies below the plane z = 0 of its frame, whose third axis **n** is the normal. Each point of the
shape that is tested has a height *h* over the plane; the contact is at ``x − n h/2`` with depth ``−h``. Which points
these are is said in `delassus.constraints.shapes.lowest_points`.
"""

from __future__ import annotations

import math

import numpy as np

from delassus.compiler.jit.compile import compiled
from delassus.constraints.shapes.convex_patch import EXACT
from delassus.constraints.shapes.lowest_points import AS_LOW, MOST_POINTS, TILT
from delassus.contact.collision.colliders import (
    BOX,
    CAPSULE,
    CYLINDER,
    ELLIPSOID,
    FIRST_VERTEX,
    HALF,
    MOST_CONTACTS,
    N_VERTICES,
    SIZE,
    SPHERE,
)  # fmt: skip
from delassus.contact.collision.vectors import (
    Vector,
    along,
    column,
    dot,
    in_frame,
    norm,
    on_ellipsoid,
    on_rim,
    point_at,
    real,
    row_of,
    scaled,
    tangents,
    write,
)
from delassus.spatial.rotations import Array

DIRECTIONS = MOST_CONTACTS - 1
"""Of more points than fit, the deepest and the furthest in so many directions are kept: all four of a rectangle."""


@compiled
def point_on_plane(out: Array, m: int, x: Vector, P: Array, most: float) -> int:
    """Write the contact of a point with the half space at ``P`` if it is no higher than ``most``."""
    n = column(P, 2)
    h = dot(along(x, -1.0, column(P, 3)), n)
    return write(out, m, along(x, -0.5 * h, n), n, -h) if h <= most else m


@compiled
def on_plane(shape: Array, T: Array, vertices: Array, P: Array, most: float, work: Array, out: Array, m: int) -> int:
    """Contacts of a shape at ``T`` with the half space at ``P``."""
    kind = int(shape[0])
    a, b, c = shape[SIZE], shape[SIZE + 1], shape[SIZE + 2]
    if kind == SPHERE:
        return point_on_plane(out, m, along(column(T, 3), -a, column(P, 2)), P, most)
    if kind == CAPSULE:
        for side in (-1.0, 1.0):
            end = along(column(T, 3), side * b, column(T, 2))
            m = point_on_plane(out, m, along(end, -a, column(P, 2)), P, most)
        return m
    if kind == BOX:
        for k in range(8):
            corner = (a * (1 - 2 * (k & 1)), b * (1 - (k & 2)), c * (1 - (k & 4) // 2))
            m = point_on_plane(out, m, point_at(T, corner), P, most)
        return m
    if kind == CYLINDER:
        return rims_on_plane(a, b, T, P, most, out, m)
    if kind == ELLIPSOID:
        lowest = on_ellipsoid((a, b, c), in_frame(T, scaled(-1.0, column(P, 2))))
        return point_on_plane(out, m, point_at(T, lowest), P, most)
    return corners_on_plane(shape, T, vertices, P, most, work, out, m)


@compiled
def rims_on_plane(radius: float, half: float, T: Array, P: Array, most: float, out: Array, m: int) -> int:
    """Four points of each rim, a quarter circle apart, the lowest one first: a cylinder lies on two, stands on four."""
    n = in_frame(T, column(P, 2))
    u, v = on_rim(radius, -n[0], -n[1])
    for side in (-half, half):
        for x, y in ((u, v), (-v, u), (-u, -v), (v, -u)):
            m = point_on_plane(out, m, point_at(T, (x, y, side)), P, most)
    return m


@compiled
def corners_on_plane(
    shape: Array, T: Array, vertices: Array, P: Array, most: float, work: Array, out: Array, m: int
) -> int:
    """Corners of a mesh: all, or the lowest one and those that are lowest over tilted planes, each once."""
    first, count = int(shape[FIRST_VERTEX]), int(shape[N_VERTICES])
    if count <= MOST_POINTS:
        for v in range(first, first + count):
            m = point_on_plane(out, m, point_at(T, row_of(vertices, v)), P, most)
        return m
    n = in_frame(T, column(P, 2))
    tangent, other = tangents(n)
    least = 2.0 * AS_LOW * norm((shape[HALF], shape[HALF + 1], shape[HALF + 2]))
    for k in range(MOST_POINTS):
        d = n
        if k > 0:
            angle = 2 * math.pi * k / (MOST_POINTS - 1)
            d = along(along(d, TILT * math.cos(angle), tangent), TILT * math.sin(angle), other)
        lowest, height = first, np.inf
        for v in range(first, first + count):
            reach = dot(d, row_of(vertices, v))
            if reach < height - least:
                lowest, height = v, reach
        work[k, 0] = lowest
        twice = False
        for j in range(k):
            twice = twice or work[j, 0] == lowest
        if not twice:
            m = point_on_plane(out, m, point_at(T, row_of(vertices, lowest)), P, most)
    return m


@compiled
def reduce_manifold(points: Array, n: int, u: Vector, v: Vector, first: float) -> int:
    """Leave of points (rows of place, depth) the deepest and the furthest in `DIRECTIONS` along a face.

    All stay if they are not more; returns how many stay. ``u`` and ``v`` span the face; ``first`` is the first
    direction's angle from ``u``, in steps. Of points as deep or as far but for round-off the first one stays, so that
    what rests keeps its points.
    """
    if n <= DIRECTIONS + 1:
        return n
    deepest, most, size = 0, -np.inf, 0.0
    for i in range(n):
        points[i, 4] = 0.0
        size = max(size, norm(real(along(row_of(points, i), -1.0, row_of(points, 0)))))
        if points[i, 3] > points[deepest, 3]:
            deepest = i
    for d in range(DIRECTIONS):
        angle = 2 * math.pi * (d + first) / DIRECTIONS
        w = along(scaled(math.cos(angle), u), math.sin(angle), v)
        furthest, best = 0, -np.inf
        for i in range(n):
            reach = dot(row_of(points, i), w)
            if reach > best + AS_LOW * size:
                furthest, best = i, reach
        points[furthest, 4] = 1.0
        most = max(most, points[furthest, 3])
    if points[deepest, 3] > most + EXACT * size:
        points[deepest, 4] = 1.0
    kept = 0
    for i in range(n):
        if points[i, 4] > 0.0:
            for c in range(4):
                points[kept, c] = points[i, c]
            kept += 1
    return kept
