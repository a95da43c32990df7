"""Patches of contact points: the parts of two shapes that face each other, one cut to the outline of the other.

The feature of a shape in a direction is its face, side line or point that lies furthest that way. If the feature of one
shape is a face whose normal is that of the contact, the feature of the other is clipped by planes through the face's
edges (Sutherland and Hodgman), and every corner left becomes a contact, with its own depth under the face.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.contact.collision.layout import BOX, CAPSULE, CYLINDER, FIRST_FACE, HULL, KIND, N_FACES, SIZE
from delassus.contact.collision.planes import DIRECTIONS, sort_first, write
from delassus.contact.solvers.compiled import compiled
from delassus.model.rotations import Array

ALIGNED = 5e-7
"""One minus the cosine of the angle between a contact's normal and a face's, below which the face touches flatly; the
normals of ``coal`` are good to 2e-4 where the gap is next to nothing."""

RIM = 8
"""Points on the rim of a cylinder's base."""


@compiled
def feature(
    shape: Array, T: Array, mesh: NDArray[np.int64], vertices: Array, ends: NDArray[np.int64],
    corners: NDArray[np.int64], normals: Array, d: Array, normal: Array,
) -> Array:  # fmt: skip
    """Corners (k, 3) of what lies furthest in the direction ``d``, in the world: counterclockwise, seen from outside.

    Writes the face's outward normal; that of lines and points is zero.
    """
    kind = int(shape[KIND])
    own = np.empty(3)
    for c in range(3):
        own[c] = T[0, c] * d[0] + T[1, c] * d[1] + T[2, c] * d[2]
    flat = np.zeros(3)
    if kind == BOX:
        axis = 0
        for c in range(1, 3):
            if abs(own[c]) > abs(own[axis]):
                axis = c
        side = math.copysign(1.0, own[axis])
        u, v = (axis + 1) % 3, (axis + 2) % 3
        local = np.empty((4, 3))
        for k in range(4):
            local[k, axis] = side * shape[SIZE + axis]
            local[k, u] = -side * shape[SIZE + u] * (1 - (k & 2))
            local[k, v] = shape[SIZE + v] * (1 - 2 * ((k + 1) // 2 % 2))
        flat[axis] = side
    elif kind == CYLINDER and abs(own[2]) > 0.7:
        side = math.copysign(1.0, own[2])
        local = np.empty((RIM, 3))
        for k in range(RIM):
            angle = 2 * math.pi * k / RIM
            local[k, 0], local[k, 1] = shape[SIZE] * math.cos(angle), side * shape[SIZE] * math.sin(angle)
            local[k, 2] = side * shape[SIZE + 1]
        flat[2] = side
    elif kind == CYLINDER or kind == CAPSULE:
        local = np.empty((2, 3))
        x, y, z = own[0], own[1], own[2] if kind == CAPSULE else 0.0
        length = math.sqrt(x * x + y * y + z * z)
        for k in range(2):
            local[k, 0], local[k, 1] = shape[SIZE] * x / length, shape[SIZE] * y / length
            local[k, 2] = shape[SIZE] * z / length + (2 * k - 1) * shape[SIZE + 1]
    elif kind == HULL:
        best, face = -np.inf, mesh[FIRST_FACE]
        for f in range(mesh[FIRST_FACE], mesh[FIRST_FACE] + mesh[N_FACES]):
            along = normals[f, 0] * own[0] + normals[f, 1] * own[1] + normals[f, 2] * own[2]
            if along > best:
                best, face = along, f
        first = ends[face]
        local = np.empty((ends[face + 1] - first, 3))
        for k in range(local.shape[0]):
            local[k] = vertices[corners[first + k]]
        flat[:] = normals[face]
    else:  # a sphere
        local = np.empty((1, 3))
        local[0] = shape[SIZE] * own
    points = np.empty_like(local)
    for r in range(3):
        normal[r] = T[r, 0] * flat[0] + T[r, 1] * flat[1] + T[r, 2] * flat[2]
        for k in range(local.shape[0]):
            points[k, r] = T[r, 0] * local[k, 0] + T[r, 1] * local[k, 1] + T[r, 2] * local[k, 2] + T[r, 3]
    return points


@compiled
def clip(points: Array, outline: Array, N: Array) -> Array:
    """Cut a polygon, line or point to what lies within the edges of a face, seen along its normal."""
    n = outline.shape[0]
    has, got = np.empty((points.shape[0] + n + 2, 3)), np.empty((points.shape[0] + n + 2, 3))
    count = points.shape[0]
    has[:count] = points
    s, e = np.empty(3), np.empty(3)
    for k in range(n):
        p, q = outline[k], outline[(k + 1) % n]
        for r in range(3):
            e[r] = q[r] - p[r]
        # outwards of the edge
        s[0], s[1], s[2] = e[1] * N[2] - e[2] * N[1], e[2] * N[0] - e[0] * N[2], e[0] * N[1] - e[1] * N[0]
        kept = 0
        segments = count if count > 2 else count - 1
        for i in range(count):
            own = within(has[i], p, s)
            if own <= 0:
                got[kept] = has[i]
                kept += 1
            if i < segments:
                following = has[(i + 1) % count]
                next_one = within(following, p, s)
                if (own < 0 < next_one) or (next_one < 0 < own):
                    t = own / (own - next_one)
                    for r in range(3):
                        got[kept, r] = has[i, r] + t * (following[r] - has[i, r])
                    kept += 1
        has, got = got, has
        count = kept
        if count == 0:
            break
    return has[:count]


@compiled
def within(x: Array, p: Array, s: Array) -> Any:
    """Distance beyond the line through ``p`` whose outward normal is ``s``, times the length of ``s``."""
    return s[0] * (x[0] - p[0]) + s[1] * (x[1] - p[1]) + s[2] * (x[2] - p[2])


@compiled
def patch(
    a: Array, A: Array, mesh_a: NDArray[np.int64], b: Array, B: Array, mesh_b: NDArray[np.int64], vertices: Array,
    ends: NDArray[np.int64], corners: NDArray[np.int64], normals: Array, n: Array, pair: int, most: float,
    out: Array, m: int,
) -> int:  # fmt: skip
    """Contacts between the features of A and B that face each other along ``n`` (from B to A); none if none is flat."""
    N_a, N_b, back = np.empty(3), np.empty(3), -n
    of_a = feature(a, A, mesh_a, vertices, ends, corners, normals, back, N_a)
    of_b = feature(b, B, mesh_b, vertices, ends, corners, normals, n, N_b)
    flat_a = 1 - (N_a[0] * back[0] + N_a[1] * back[1] + N_a[2] * back[2])
    flat_b = 1 - (N_b[0] * n[0] + N_b[1] * n[1] + N_b[2] * n[2])
    if min(flat_a, flat_b) > ALIGNED:
        return lines(of_a, of_b, n, pair, most, out, m)
    if flat_b <= flat_a:
        return cut(of_a, of_b, N_b, 1.0, pair, most, out, m)
    return cut(of_b, of_a, N_a, -1.0, pair, most, out, m)


@compiled
def cut(points: Array, face: Array, N: Array, sign: float, pair: int, most: float, out: Array, m: int) -> int:
    """Contacts of what is left of ``points`` under a face with outward normal ``N``."""
    left = clip(points, face, N)
    depths = np.empty(left.shape[0])
    count = 0
    for i in range(left.shape[0]):
        depth = -within(left[i], face[0], N)
        if depth >= -most:
            depths[count] = depth
            left[count] = left[i]
            count += 1
    chosen = few(left[:count], depths[:count], face, N)
    for e in range(chosen.size):
        x, depth = left[chosen[e]], depths[chosen[e]]
        h = 0.5 * depth
        m = write(out, m, pair, x[0] + h * N[0], x[1] + h * N[1], x[2] + h * N[2], N, sign, depth)
    return m


@compiled
def few(points: Array, depths: Array, face: Array, N: Array) -> NDArray[np.int64]:
    """Indices of the deepest point and the furthest ones in `DIRECTIONS` along the face; all if they are not more."""
    n = points.shape[0]
    if n <= DIRECTIONS + 1:
        return np.arange(n)
    chosen = np.empty(DIRECTIONS + 1, np.int64)
    chosen[0], k = 0, 1
    for i in range(1, n):
        if depths[i] > depths[chosen[0]]:
            chosen[0] = i
    u, v = face[1] - face[0], np.empty(3)
    u = u / math.sqrt(u[0] * u[0] + u[1] * u[1] + u[2] * u[2])
    v[0], v[1], v[2] = N[1] * u[2] - N[2] * u[1], N[2] * u[0] - N[0] * u[2], N[0] * u[1] - N[1] * u[0]
    for d in range(DIRECTIONS):
        angle = 2 * math.pi * (d + 0.25) / DIRECTIONS
        w = math.cos(angle) * u + math.sin(angle) * v
        furthest, best = 0, -np.inf
        for i in range(n):
            along = within(points[i], face[0], w)
            if along > best:
                furthest, best = i, along
        known = False
        for e in range(k):
            known = known or chosen[e] == furthest
        if not known:
            chosen[k] = furthest
            k += 1
    sort_first(chosen, k)
    return chosen[:k]


@compiled
def lines(p: Array, q: Array, n: Array, pair: int, most: float, out: Array, m: int) -> int:
    """Contacts at the two ends of the stretch that parallel lines of A and B share; none if they are no such lines."""
    if p.shape[0] != 2 or q.shape[0] != 2:
        return m
    u, w = p[1] - p[0], q[1] - q[0]
    length = math.sqrt(u[0] * u[0] + u[1] * u[1] + u[2] * u[2])
    other = math.sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2])
    u, w = u / length, w / other
    dot = u[0] * w[0] + u[1] * w[1] + u[2] * w[2]
    tilt = u[0] * n[0] + u[1] * n[1] + u[2] * n[2]
    if 1 - abs(dot) > ALIGNED or tilt * tilt > ALIGNED:
        return m
    start, end = within(q[0], p[0], u), within(q[1], p[0], u)
    first, last = max(0.0, min(start, end)), min(length, max(start, end))
    if last - first < 1e-6 * (length + other):
        return m
    for e in range(2):
        s = first if e == 0 else last
        t = min(max((s - start) * math.copysign(1.0, dot), 0.0), other)
        x, y = p[0] + s * u, q[0] + t * w
        depth = -within(x, y, n)
        if depth >= -most:
            x = 0.5 * (x + y)
            m = write(out, m, pair, x[0], x[1], x[2], n, 1.0, depth)
    return m
