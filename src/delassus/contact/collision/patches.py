"""Patches of contact points: the parts of two shapes that face each other, one cut to the outline of the other.

The feature of a shape in a direction is its face, side line or point that lies furthest that way. If the feature of one
shape is a face whose normal is that of the contact, the feature of the other is clipped by planes through the face's
edges (Sutherland and Hodgman), and every corner left becomes a contact, with its own depth under the face.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from delassus.contact.collision.colliders import (
    BOX,
    CAPSULE,
    CORNERS,
    CYLINDER,
    ENDS,
    FIRST_FACE,
    FIRST_VERTEX,
    HULL,
    KIND,
    N_FACES,
    N_VERTICES,
    NORMALS,
    SIZE,
    SPHERE,
    VERTICES,
)  # fmt: skip
from delassus.contact.collision.half_spaces import few
from delassus.contact.collision.vectors import (
    Vector,
    along,
    column,
    cross,
    dot,
    in_frame,
    in_world,
    norm,
    point_at,
    scaled,
    write,
)  # fmt: skip
from delassus.contact.solvers.compiled import compiled
from delassus.model.rotations import Array

ALIGNED = 5e-7
"""One minus the cosine of the angle between a contact's normal and a face's, below which the face touches flatly; the
normals of ``coal`` are good to 2e-4 where the gap is next to nothing."""

RIM = 8
"""Points on the rim of a cylinder's base."""


@compiled
def row_of(x: Array, k: int) -> Vector:
    """Row of an array as a vector."""
    return x[k, 0], x[k, 1], x[k, 2]


@compiled
def feature(shape: Array, T: Array, hulls: Any, d: Vector) -> tuple[Array, Vector]:
    """Corners (k, 3) of what lies furthest in the direction ``d``, in the world: counterclockwise, seen from outside.

    Also the face's outward normal; that of lines and points is zero.
    """
    kind, own, normal = int(shape[KIND]), in_frame(T, d), (0.0, 0.0, 0.0)
    radius, half = shape[SIZE], shape[SIZE + 1]
    if kind == BOX:
        axis = 0
        for c in range(1, 3):
            if abs(own[c]) > abs(own[axis]):
                axis = c
        side = math.copysign(1.0, own[axis])
        u, v = (axis + 1) % 3, (axis + 2) % 3
        points = np.empty((4, 3))
        for k in range(4):
            points[k, axis] = side * shape[SIZE + axis]
            points[k, u] = -side * shape[SIZE + u] * (1 - (k & 2))
            points[k, v] = shape[SIZE + v] * (1 - 2 * ((k + 1) // 2 % 2))
        normal = scaled(side, column(T, axis))
    elif kind == CYLINDER and abs(own[2]) > 0.7:
        side = math.copysign(1.0, own[2])
        points = np.empty((RIM, 3))
        for k in range(RIM):
            angle = 2 * math.pi * k / RIM
            points[k, 0], points[k, 1] = radius * math.cos(angle), side * radius * math.sin(angle)
            points[k, 2] = side * half
        normal = scaled(side, column(T, 2))
    elif kind == CYLINDER or kind == CAPSULE:
        points = np.empty((2, 3))
        x, y, z = own[0], own[1], own[2] if kind == CAPSULE else 0.0
        length = norm((x, y, z))
        for k in range(2):
            points[k, 0], points[k, 1] = radius * x / length, radius * y / length
            points[k, 2] = radius * z / length + (2 * k - 1) * half
    elif kind == HULL:
        start = int(shape[FIRST_FACE])
        best, face = -np.inf, start
        for f in range(start, start + int(shape[N_FACES])):
            cosine = dot(row_of(hulls[NORMALS], f), own)
            if cosine > best:
                best, face = cosine, f
        first = hulls[ENDS][face]
        points = np.empty((hulls[ENDS][face + 1] - first, 3))
        for k in range(points.shape[0]):
            points[k] = hulls[VERTICES][hulls[CORNERS][first + k]]
        normal = in_world(T, row_of(hulls[NORMALS], face))
    else:  # a sphere
        points = np.empty((1, 3))
        points[0, 0], points[0, 1], points[0, 2] = radius * own[0], radius * own[1], radius * own[2]
    for k in range(points.shape[0]):
        points[k, 0], points[k, 1], points[k, 2] = point_at(T, row_of(points, k))
    return points, normal


@compiled
def clip(points: Array, outline: Array, N: Vector) -> Array:
    """Cut a polygon, line or point to what lies within the edges of a face, seen along its normal."""
    n, count = outline.shape[0], points.shape[0]
    has, got = np.empty((count + n + 2, 3)), np.empty((count + n + 2, 3))
    has[:count] = points
    for k in range(n):
        p = row_of(outline, k)
        outwards = cross(along(row_of(outline, (k + 1) % n), -1.0, p), N)
        kept = 0
        segments = count if count > 2 else count - 1
        for i in range(count):
            x = row_of(has, i)
            own = dot(along(x, -1.0, p), outwards)
            if own <= 0:
                got[kept] = has[i]
                kept += 1
            if i < segments:
                y = row_of(has, (i + 1) % count)
                following = dot(along(y, -1.0, p), outwards)
                if (own < 0 < following) or (following < 0 < own):
                    cut_at = along(x, own / (own - following), along(y, -1.0, x))
                    got[kept, 0], got[kept, 1], got[kept, 2] = cut_at
                    kept += 1
        has, got = got, has
        count = kept
        if count == 0:
            break
    return has[:count]


@compiled
def patch(a: Array, A: Array, b: Array, B: Array, hulls: Any, n: Vector, most: float, out: Array, m: int) -> int:
    """Contacts between the features of A and B that face each other along ``n`` (from B to A); none if none is flat."""
    of_a, N_a = feature(a, A, hulls, scaled(-1.0, n))
    of_b, N_b = feature(b, B, hulls, n)
    flat_a, flat_b = 1 + dot(N_a, n), 1 - dot(N_b, n)
    if min(flat_a, flat_b) > ALIGNED:
        return lines(of_a, of_b, n, most, out, m)
    if flat_b <= flat_a:
        return cut(of_a, of_b, N_b, 1.0, most, out, m)
    return cut(of_b, of_a, N_a, -1.0, most, out, m)


@compiled
def cut(points: Array, face: Array, N: Vector, sign: float, most: float, out: Array, m: int) -> int:
    """Contacts of what is left of ``points`` under a face with outward normal ``N``, ``sign`` times the contacts'."""
    left = clip(points, face, N)
    depths = np.empty(left.shape[0])
    count = 0
    for i in range(left.shape[0]):
        depth = dot(along(row_of(face, 0), -1.0, row_of(left, i)), N)
        if depth >= -most:
            depths[count] = depth
            left[count] = left[i]
            count += 1
    u = along(row_of(face, 1), -1.0, row_of(face, 0))
    u = scaled(1.0 / norm(u), u)
    for k in few(left[:count], depths[:count], u, cross(N, u), 0.25):
        m = write(out, m, along(row_of(left, k), 0.5 * depths[k], N), scaled(sign, N), depths[k])
    return m


@compiled
def lines(p: Array, q: Array, n: Vector, most: float, out: Array, m: int) -> int:
    """Contacts at the two ends of the stretch that parallel lines of A and B share; none if they are no such lines."""
    if p.shape[0] != 2 or q.shape[0] != 2:
        return m
    start_a, start_b = row_of(p, 0), row_of(q, 0)
    u, w = along(row_of(p, 1), -1.0, start_a), along(row_of(q, 1), -1.0, start_b)
    length, other = norm(u), norm(w)
    u, w = scaled(1.0 / length, u), scaled(1.0 / other, w)
    cosine, tilt = dot(u, w), dot(u, n)
    if 1 - abs(cosine) > ALIGNED or tilt * tilt > ALIGNED:
        return m
    start, end = dot(along(start_b, -1.0, start_a), u), dot(along(row_of(q, 1), -1.0, start_a), u)
    first, last = max(0.0, min(start, end)), min(length, max(start, end))
    if last - first < 1e-6 * (length + other):
        return m
    for s in (first, last):
        x = along(start_a, s, u)
        y = along(start_b, min(max((s - start) * math.copysign(1.0, cosine), 0.0), other), w)
        depth = dot(along(y, -1.0, x), n)
        if depth >= -most:
            m = write(out, m, along(scaled(0.5, x), 0.5, y), n, depth)
    return m


@compiled
def extent(shape: Array, T: Array, hulls: Any, d: Vector) -> Any:
    """Largest ``d``·x over the points x of a shape, of which one is its origin's place in the world."""
    x, total = in_frame(T, d), dot(d, column(T, 3))
    kind = int(shape[KIND])
    a, b, c = shape[SIZE], shape[SIZE + 1], shape[SIZE + 2]
    if kind == BOX:
        return total + a * abs(x[0]) + b * abs(x[1]) + c * abs(x[2])
    if kind == HULL:
        best, first = -np.inf, int(shape[FIRST_VERTEX])
        for v in range(first, first + int(shape[N_VERTICES])):
            best = max(best, dot(x, row_of(hulls[VERTICES], v)))
        return total + best
    if kind == CYLINDER:
        return total + a * math.hypot(x[0], x[1]) + b * abs(x[2])
    return total + a + (0.0 if kind == SPHERE else b * abs(x[2]))


@compiled
def overlap(a: Array, A: Array, b: Array, B: Array, hulls: Any, n: Vector) -> Any:
    """How far A must move along ``n`` (from B to A) until a plane across it separates the two; negative: a gap."""
    return extent(b, B, hulls, n) + extent(a, A, hulls, scaled(-1.0, n))
