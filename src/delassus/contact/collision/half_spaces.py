"""Shapes on half spaces.

A half space is what lies below the plane z = 0 of its frame, whose third axis **n** is the normal. Each point of the
shape that is tested has a height *h* over the plane; the contact is at ``x − n h/2`` with depth ``−h``.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from delassus.contact.collision.colliders import (
    BOX,
    CAPSULE,
    CYLINDER,
    FIRST_VERTEX,
    MOST_POINTS,
    N_VERTICES,
    SIZE,
    SPHERE,
)  # fmt: skip
from delassus.contact.collision.vectors import Vector, along, column, dot, in_frame, point_at, write
from delassus.contact.solvers.compiled import compiled
from delassus.model.rotations import Array

LEVEL = 1e-4
"""Sine of the angle below which a cylinder stands on its base: its four points then stay where they are on it."""

DIRECTIONS = MOST_POINTS - 1
"""Of more points than fit, the deepest and the furthest in so many directions are kept: all four of a rectangle."""


@compiled
def over_plane(out: Array, m: int, x: Vector, P: Array, most: float) -> int:
    """Write the contact of a point with the half space at ``P`` if it is no higher than ``most``."""
    n = column(P, 2)
    h = dot(along(x, -1.0, column(P, 3)), n)
    return write(out, m, along(x, -0.5 * h, n), n, -h) if h <= most else m


@compiled
def on_plane(shape: Array, T: Array, vertices: Array, P: Array, most: float, out: Array, m: int) -> int:
    """Contacts of a shape at ``T`` with the half space at ``P``."""
    kind = int(shape[0])
    a, b, c = shape[SIZE], shape[SIZE + 1], shape[SIZE + 2]
    if kind == SPHERE:
        return over_plane(out, m, along(column(T, 3), -a, column(P, 2)), P, most)
    if kind == CAPSULE:
        for side in (-1.0, 1.0):
            end = along(column(T, 3), side * b, column(T, 2))
            m = over_plane(out, m, along(end, -a, column(P, 2)), P, most)
        return m
    if kind == BOX:
        for k in range(8):
            corner = (a * (1 - 2 * (k & 1)), b * (1 - (k & 2)), c * (1 - (k & 4) // 2))
            m = over_plane(out, m, point_at(T, corner), P, most)
        return m
    if kind == CYLINDER:
        return cylinder_on_plane(a, b, T, P, most, out, m)
    first = int(shape[FIRST_VERTEX])
    return corners_on_plane(vertices[first : first + int(shape[N_VERTICES])], T, P, most, out, m)


@compiled
def cylinder_on_plane(radius: float, half: float, T: Array, P: Array, most: float, out: Array, m: int) -> int:
    """Up to four points on the rims: the lowest one, those a quarter circle from it, and the lowest that is opposite.

    The last is on the upper base or across the lower one, whichever is lower: a cylinder lies on two points and stands
    on four.
    """
    n = in_frame(T, column(P, 2))
    level = math.hypot(n[0], n[1])
    u, v = (-n[0] / level, -n[1] / level) if level > LEVEL else (1.0, 0.0)
    low = -half if n[2] >= 0 else half
    m = over_plane(out, m, point_at(T, (radius * u, radius * v, low)), P, most)
    m = over_plane(out, m, point_at(T, (-radius * v, radius * u, low)), P, most)
    m = over_plane(out, m, point_at(T, (radius * v, -radius * u, low)), P, most)
    lies = half * abs(n[2]) < radius * level
    opposite = (radius * u, radius * v, -low) if lies else (-radius * u, -radius * v, low)
    return over_plane(out, m, point_at(T, opposite), P, most)


@compiled
def corners_on_plane(vertices: Array, T: Array, P: Array, most: float, out: Array, m: int) -> int:
    """Corners of a mesh that are below the plane: all, or the deepest and the furthest along it."""
    points, depths, count = np.empty_like(vertices), np.empty(len(vertices)), 0
    for v in range(len(vertices)):
        x = point_at(T, (vertices[v, 0], vertices[v, 1], vertices[v, 2]))
        depth = dot(along(column(P, 3), -1.0, x), column(P, 2))
        if depth >= -most:
            points[count, 0], points[count, 1], points[count, 2] = x
            depths[count] = depth
            count += 1
    for k in few(points[:count], depths[:count], column(P, 0), column(P, 1), 0.0):
        m = over_plane(out, m, (points[k, 0], points[k, 1], points[k, 2]), P, most)
    return m


@compiled
def few(points: Array, depths: Array, u: Vector, v: Vector, first: float) -> NDArray[np.int64]:
    """Indices of the deepest point and the furthest ones in `DIRECTIONS` along a face; all if they are not more.

    ``u`` and ``v`` span the face; ``first`` is the first direction's angle from ``u``, in steps.
    """
    n = points.shape[0]
    if n <= DIRECTIONS + 1:
        return np.arange(n)
    kept = np.zeros(n, np.bool_)
    kept[np.argmax(depths)] = True
    for d in range(DIRECTIONS):
        angle = 2 * math.pi * (d + first) / DIRECTIONS
        w = along((0.0, 0.0, 0.0), math.cos(angle), u)
        w = along(w, math.sin(angle), v)
        furthest, best = 0, -np.inf
        for i in range(n):
            reach = points[i, 0] * w[0] + points[i, 1] * w[1] + points[i, 2] * w[2]
            if reach > best:
                furthest, best = i, reach
        kept[furthest] = True
    return np.flatnonzero(kept)
