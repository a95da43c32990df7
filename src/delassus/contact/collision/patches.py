"""Patches of contact points: the parts of two shapes that face each other, one cut to the outline of the other.

The feature of a shape in a direction is its face, side line or point that lies furthest that way. If a face of one
shape is all but normal to the contact, the feature of the other is clipped by planes through the face's edges
(Sutherland and Hodgman), seen along the contact's normal, and every corner left becomes a contact, with its own depth
under the face. Where edges cross, that is a corner: the deepest point of two polyhedra is always among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from delassus.compiler.jit.compile import compiled
from delassus.compiler.jit.loop_ops import emitted
from delassus.constraints.shapes import convex_patch
from delassus.constraints.shapes.convex_patch import ALIGNED, BASE, BESIDE, EXACT, RIM
from delassus.contact.collision.colliders import (
    BOX,
    CAPSULE,
    CORNERS,
    CYLINDER,
    ELLIPSOID,
    ENDS,
    FIRST_FACE,
    HULL,
    KIND,
    N_FACES,
    NORMALS,
    RADIUS,
    SIZE,
    SPHERE,
    VERTICES,
    PairMemory,
    Solid,
)  # fmt: skip
from delassus.contact.collision.half_spaces import reduce_manifold
from delassus.contact.collision.support import support_point
from delassus.contact.collision.vectors import (
    Vector,
    along,
    column,
    cross,
    dot,
    in_frame,
    in_world,
    norm,
    on_rim,
    point_at,
    row_of,
    scaled,
    write,
)  # fmt: skip
from delassus.spatial.rotations import Array

at_most: Callable[[float, float, float], float] = emitted(convex_patch.at_most)
stretch: Callable[..., tuple[float, tuple[Vector, float], tuple[Vector, float]]] = emitted(convex_patch.stretch)


@compiled
def put(points: Array, k: int, x: Vector) -> None:
    """Write a point to a row."""
    points[k, 0], points[k, 1], points[k, 2] = x


@compiled
def support_feature(a: Solid, hulls: Any, d: Vector, points: Array) -> tuple[int, Vector]:
    """Corners of what lies furthest in the direction ``d``, in the world: counterclockwise, seen from outside.

    Returns their number, and the face's outward normal; that of lines is zero.
    """
    kind, own, normal, count = int(a.shape[KIND]), in_frame(a.pose, d), (0.0, 0.0, 0.0), 2
    radius, half = a.shape[SIZE], a.shape[SIZE + 1]
    across = math.sqrt(own[0] * own[0] + own[1] * own[1])
    if kind == BOX:
        axis, most, count = 0, abs(own[0]), 4
        for k in range(1, 3):
            if abs(own[k]) > most:
                axis, most = k, abs(own[k])
        u, v = (axis + 1) % 3, (axis + 2) % 3
        side = math.copysign(1.0, own[axis])
        for k in range(4):
            points[k, axis] = side * a.shape[SIZE + axis]
            points[k, u] = -side * a.shape[SIZE + u] * (1 - (k & 2))
            points[k, v] = a.shape[SIZE + v] * (1 - 2 * ((k + 1) // 2 % 2))
        normal = scaled(side, column(a.pose, axis))
    elif kind == CYLINDER and abs(own[2]) > BASE:
        count, side = RIM, math.copysign(1.0, own[2])
        cosine, sine = on_rim(radius, own[0], own[1])
        for k in range(RIM):
            c, s = math.cos(2 * math.pi * k / RIM), side * math.sin(2 * math.pi * k / RIM)
            put(points, k, (cosine * c - sine * s, sine * c + cosine * s, side * half))
        normal = scaled(side, column(a.pose, 2))
    elif kind == HULL:
        start = int(a.shape[FIRST_FACE])
        best, face = -np.inf, start
        for f in range(start, start + int(a.shape[N_FACES])):
            cosine = dot(row_of(hulls[NORMALS], f), own)
            if cosine > best:
                best, face = cosine, f
        first = hulls[ENDS][face]
        count = hulls[ENDS][face + 1] - first
        for k in range(count):
            put(points, k, row_of(hulls[VERTICES], hulls[CORNERS][first + k]))
        normal = in_world(a.pose, row_of(hulls[NORMALS], face))
    else:  # a side of a cylinder or capsule
        length = across if kind == CYLINDER else 1.0
        up = radius * own[2] if kind == CAPSULE else 0.0
        for k in range(2):
            put(points, k, (radius * own[0] / length, radius * own[1] / length, up + (2 * k - 1) * half))
    for k in range(count):
        put(points, k, point_at(a.pose, row_of(points, k)))
    return count, normal


@compiled
def support_edge(points: Array, count: int, d: Vector) -> None:
    """Leave of a face the edge that lies furthest along ``d``, as a line."""
    best, k = -np.inf, 0
    for i in range(count):
        reach = dot(d, row_of(points, i)) + dot(d, row_of(points, (i + 1) % count))
        if reach > best:
            best, k = reach, i
    p, q = row_of(points, k), row_of(points, (k + 1) % count)
    put(points, 0, p)
    put(points, 1, q)


@compiled
def clip(points: Array, count: int, face: Array, corners: int, n: Vector, spare: Array) -> tuple[int, bool]:
    """Cut a polygon or line to what lies within the edges of a face, seen along ``n`` (out of the face).

    Returns how many corners are left, and whether these are in ``spare``.
    """
    turned = False
    for k in range(corners):
        p = row_of(face, k)
        outwards = cross(along(row_of(face, (k + 1) % corners), -1.0, p), n)
        has, got = (spare, points) if turned else (points, spare)
        turned, beside = not turned, BESIDE * dot(outwards, outwards)
        kept, segments = 0, count if count > 2 else count - 1
        x = row_of(has, 0)
        first = own = dot(along(x, -1.0, p), outwards)
        for i in range(count):
            if own <= beside:
                put(got, kept, x)
                kept += 1
            if i == segments:
                break
            last = i + 1 == count
            y = row_of(has, 0 if last else i + 1)
            following = first if last else dot(along(y, -1.0, p), outwards)
            if (own < 0 and following > beside) or (following < 0 and own > beside):
                put(got, kept, along(x, own / (own - following), along(y, -1.0, x)))
                kept += 1
            x, own = y, following
        count = kept
        if count == 0:
            break
    return count, turned


@compiled
def patch(
    a: Solid, b: Solid, hulls: Any, face: tuple[Vector, float], most: float, work: Array, out: Array, m: int
) -> int:
    """Contacts between the features of A and B that face each other along a normal from B to A, none below a depth."""
    n, depth = face
    of_a, of_b, exact = work[1], work[2], EXACT * (a.shape[RADIUS] + b.shape[RADIUS])
    back = scaled(-1.0, n)
    count_a, N_a = support_feature(a, hulls, back, of_a)
    count_b, N_b = support_feature(b, hulls, n, of_b)
    flat_a, flat_b = 1 + dot(N_a, n), 1 - dot(N_b, n)
    if min(flat_a, flat_b) > ALIGNED:
        if count_a > 2:
            support_edge(of_a, count_a, back)
        if count_b > 2:
            support_edge(of_b, count_b, n)
        return lines(of_a, of_b, n, depth, most, exact, out, m)
    if flat_b <= ALIGNED:  # either would do: what they share, seen along the normal, is the same
        points, count, of_face, corners, N, up = of_a, count_a, of_b, count_b, N_b, n
    else:
        points, count, of_face, corners, N, up = of_b, count_b, of_a, count_a, N_a, back
    origin, u = row_of(of_face, 0), along(row_of(of_face, 1), -1.0, row_of(of_face, 0))
    count, turned = clip(points, count, of_face, corners, up, work[3])
    left = work[3] if turned else points
    kept, slope = 0, dot(N, up)
    for i in range(count):
        x = row_of(left, i)
        under = at_most(dot(along(origin, -1.0, x), N) / slope, depth, exact)
        if under >= -most:
            put(left, kept, x)
            left[kept, 3] = under
            kept += 1
    u = scaled(1.0 / norm(u), u)
    for k in range(reduce_manifold(left, kept, u, cross(N, u), 0.25)):
        m = write(out, m, along(row_of(left, k), 0.5 * left[k, 3], up), n, left[k, 3])
    return m


@compiled
def lines(p: Array, q: Array, n: Vector, most_depth: float, most: float, exact: float, out: Array, m: int) -> int:
    """Contacts at the two ends of the stretch that parallel lines of A and B share; none if they are no such lines."""
    of_a, of_b = (row_of(p, 0), row_of(p, 1)), (row_of(q, 0), row_of(q, 1))
    there, first, last = stretch(of_a, of_b, n)
    for x, overlap in (first, last):
        depth = at_most(overlap, most_depth, exact)
        if there > 0.0 and depth >= -most:
            m = write(out, m, x, n, depth)
    return m


@compiled
def patch_along(a: Solid, b: Solid, hulls: Any, n: Vector, depth: float, most: float, memory: PairMemory) -> int:
    """Contacts of two convex shapes along a normal of a face, in ``memory.later``; how many."""
    for solid, side in ((a, -1.0), (b, 1.0)):
        if solid.shape[KIND] == SPHERE or solid.shape[KIND] == ELLIPSOID:
            inwards = 0.5 * depth - (solid.shape[SIZE] if solid.shape[KIND] == SPHERE else 0.0)
            x = support_point(solid, hulls[VERTICES], scaled(side, n))
            return write(memory.later, 0, along(x, -side * inwards, n), n, depth)
    return patch(a, b, hulls, (n, depth), most, memory.rows, memory.later, 0)
