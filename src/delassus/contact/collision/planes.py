"""Shapes on half spaces.

A half space is what lies below the plane z = 0 of its frame, whose third axis **n** is the normal. Each point of the
shape that is tested has a height *h* over the plane; the contact is at ``x − n h/2`` with depth ``−h``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from delassus.contact.collision.layout import BOX, CAPSULE, CYLINDER, MOST_POINTS, SIZE, SPHERE
from delassus.contact.solvers.compiled import compiled
from delassus.model.rotations import Array

LEVEL = 1e-4
"""Sine of the angle below which a cylinder stands on its base: its four points then stay where they are on it."""

DIRECTIONS = MOST_POINTS - 1
"""Of more points than fit, the deepest and the furthest in so many directions are kept: all four of a rectangle."""


@compiled
def write(out: Array, m: int, pair: int, x: float, y: float, z: float, n: Array, sign: float, depth: float) -> int:
    """Write one contact: pair, point, normal from B to A (``sign`` times ``n``), depth; returns how many there are."""
    row = out[m]
    row[0], row[1], row[2], row[3], row[7] = pair, x, y, z, depth
    for r in range(3):
        row[4 + r] = sign * n[r]
    return m + 1


@compiled
def write_over(
    out: Array, m: int, pair: int, x: float, y: float, z: float, P: Array, sign: float, most: float
) -> int:  # fmt: skip
    """Write the contact of a point with the half space at ``P`` if it is no higher than ``most``."""
    n = P[:, 2]
    h = (x - P[0, 3]) * n[0] + (y - P[1, 3]) * n[1] + (z - P[2, 3]) * n[2]
    if h > most:
        return m
    return write(out, m, pair, x - 0.5 * h * n[0], y - 0.5 * h * n[1], z - 0.5 * h * n[2], n, sign, -h)


@compiled
def on_plane(shape: Array, T: Array, P: Array, pair: int, sign: float, most: float, out: Array, m: int) -> int:
    """Contacts of a sphere, capsule, box or cylinder at ``T`` with the half space at ``P``."""
    kind = int(shape[0])
    n = P[:, 2]
    if kind == SPHERE or kind == CAPSULE:
        r = shape[SIZE]
        ends = 1 if kind == SPHERE else 2
        for e in range(ends):
            t = 0.0 if kind == SPHERE else (2 * e - 1) * shape[SIZE + 1]
            x, y, z = (T[0, 3] + t * T[0, 2], T[1, 3] + t * T[1, 2], T[2, 3] + t * T[2, 2])
            m = write_over(out, m, pair, x - r * n[0], y - r * n[1], z - r * n[2], P, sign, most)
    elif kind == BOX:
        for k in range(8):
            a = shape[SIZE] * (1 - 2 * (k & 1))
            b = shape[SIZE + 1] * (1 - (k & 2))
            c = shape[SIZE + 2] * (1 - (k & 4) // 2)
            x = T[0, 3] + a * T[0, 0] + b * T[0, 1] + c * T[0, 2]
            y = T[1, 3] + a * T[1, 0] + b * T[1, 1] + c * T[1, 2]
            z = T[2, 3] + a * T[2, 0] + b * T[2, 1] + c * T[2, 2]
            m = write_over(out, m, pair, x, y, z, P, sign, most)
    elif kind == CYLINDER:
        m = cylinder_on_plane(shape[SIZE], shape[SIZE + 1], T, P, pair, sign, most, out, m)
    return m


@compiled
def cylinder_on_plane(
    radius: float, half: float, T: Array, P: Array, pair: int, sign: float, most: float, out: Array, m: int
) -> int:
    """Up to four points on the rims: the lowest one, those a quarter turn from it, and the lowest that is opposite.

    The last is on the upper base or across the lower one, whichever is lower: a cylinder lies on two points and stands
    on four.
    """
    along = T[0, 2] * P[0, 2] + T[1, 2] * P[1, 2] + T[2, 2] * P[2, 2]
    first = T[0, 0] * P[0, 2] + T[1, 0] * P[1, 2] + T[2, 0] * P[2, 2]
    second = T[0, 1] * P[0, 2] + T[1, 1] * P[1, 2] + T[2, 1] * P[2, 2]
    across = math.hypot(first, second)
    u, v = (-first / across, -second / across) if across > LEVEL else (1.0, 0.0)
    low = -half if along >= 0 else half
    for k in range(4):
        a, b, c = radius * u, radius * v, low
        if k == 1 or k == 2:
            turned = 3 - 2 * k
            a, b = -turned * radius * v, turned * radius * u
        elif k == 3:
            if 2 * half * abs(along) < 2 * radius * across:
                c = -low
            else:
                a, b = -a, -b
        x = T[0, 3] + a * T[0, 0] + b * T[0, 1] + c * T[0, 2]
        y = T[1, 3] + a * T[1, 0] + b * T[1, 1] + c * T[1, 2]
        z = T[2, 3] + a * T[2, 0] + b * T[2, 1] + c * T[2, 2]
        m = write_over(out, m, pair, x, y, z, P, sign, most)
    return m


@compiled
def sort_first(numbers: NDArray[np.int64], k: int) -> None:
    """Sort the first ``k`` numbers in place."""
    for e in range(1, k):
        for f in range(e, 0, -1):
            if numbers[f - 1] > numbers[f]:
                numbers[f - 1], numbers[f] = numbers[f], numbers[f - 1]


@compiled
def corners_on_plane(
    vertices: Array, T: Array, P: Array, pair: int, sign: float, most: float, out: Array, m: int
) -> int:
    """Corners of a mesh that are below the plane: all, or the deepest and the furthest along it."""
    n = np.empty(3)  # the normal in the frame of the mesh
    height = 0.0
    for c in range(3):
        n[c] = T[0, c] * P[0, 2] + T[1, c] * P[1, 2] + T[2, c] * P[2, 2]
        height += (T[c, 3] - P[c, 3]) * P[c, 2]
    count, deepest, least = 0, 0, np.inf
    for v in range(vertices.shape[0]):
        h = height + n[0] * vertices[v, 0] + n[1] * vertices[v, 1] + n[2] * vertices[v, 2]
        if h <= most:
            count += 1
            if h < least:
                deepest, least = v, h
    if count == 0:
        return m
    chosen = np.empty(DIRECTIONS + 1, np.int64)
    few = count <= DIRECTIONS + 1
    k = 0
    if not few:
        chosen[0] = deepest
        k = 1
        for d in range(DIRECTIONS):
            angle = 2 * math.pi * d / DIRECTIONS
            s, t = math.cos(angle), math.sin(angle)
            x, y, z = (0.0, 0.0, 0.0)
            for r in range(3):
                world = s * P[r, 0] + t * P[r, 1]
                x, y, z = x + T[r, 0] * world, y + T[r, 1] * world, z + T[r, 2] * world
            furthest, best = -1, -np.inf
            for v in range(vertices.shape[0]):
                h = height + n[0] * vertices[v, 0] + n[1] * vertices[v, 1] + n[2] * vertices[v, 2]
                if h <= most:
                    along = x * vertices[v, 0] + y * vertices[v, 1] + z * vertices[v, 2]
                    if along > best:
                        furthest, best = v, along
            known = False
            for e in range(k):
                known = known or chosen[e] == furthest
            if not known:
                chosen[k] = furthest
                k += 1
        sort_first(chosen, k)
    else:
        for v in range(vertices.shape[0]):
            h = height + n[0] * vertices[v, 0] + n[1] * vertices[v, 1] + n[2] * vertices[v, 2]
            if h <= most:
                chosen[k] = v
                k += 1
    for e in range(k):
        v = vertices[chosen[e]]
        x = T[0, 3] + T[0, 0] * v[0] + T[0, 1] * v[1] + T[0, 2] * v[2]
        y = T[1, 3] + T[1, 0] * v[0] + T[1, 1] * v[1] + T[1, 2] * v[2]
        z = T[2, 3] + T[2, 0] * v[0] + T[2, 1] * v[1] + T[2, 2] * v[2]
        m = write_over(out, m, pair, x, y, z, P, sign, most)
    return m
