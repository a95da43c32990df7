"""Support points of cores, and how normals and nearest points change with poses, whatever iterations have found them.

The implicit function theorem: one step of Newton's method from a solution, on numbers with their changes. Across the
normal ``n``, the vector ``w`` between the points that lie furthest towards each other is zero, but for directions ``e``
in which a core is flat there (edges, faces, sides of cylinders), to which ``n`` is normal. With the curvatures ``K`` of
support points, ``∂x = K ∂d``, ``w`` changes by ``−(K_A + K_B) ∂n``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from delassus.compiler.jit.compile import compiled
from delassus.constraints.shapes.convex_distance import ROUND_OFF
from delassus.contact.collision.colliders import (
    BOX,
    CAPSULE,
    CYLINDER,
    ELLIPSOID,
    FIRST_FACE,
    FIRST_VERTEX,
    HULL,
    KIND,
    N_FACES,
    N_VERTICES,
    NORMALS,
    RADIUS,
    SIZE,
    Solid,
)  # fmt: skip
from delassus.contact.collision.vectors import (
    Vector,
    along,
    column,
    cross,
    dot,
    in_frame,
    in_world,
    norm,
    on_ellipsoid,
    point_at,
    real,
    row_of,
    scaled,
    tangents,
)  # fmt: skip
from delassus.spatial.rotations import Array

FLAT = 1e-5
"""Sine of the angle between a direction and the normal of what is flat, up to which all of that lies furthest along it:
above the errors of normals that iterations find, multiples of the root of the round-off of a gap."""

NEWTON_STEPS = 4
"""Most steps from a normal that iterations have found, up to 1e-3 off where they stall, to round-off."""

UNDECIDED = 1e-10
"""Part of the curvatures and the gap, which cancel where shapes of revolution have one axis, below which all normals
about it are as good."""

SOLVED = 1e-8
"""Angle of a step behind which the error, its square, is round-off."""


@compiled
def support_point(a: Solid, vertices: Array, d: Vector) -> Vector:
    """Point of a core that lies furthest along ``d``, in the world."""
    kind, own = int(a.shape[KIND]), in_frame(a.pose, d)
    x = (0.0, 0.0, 0.0)
    if kind == BOX:
        x = (
            math.copysign(a.shape[SIZE], own[0]),
            math.copysign(a.shape[SIZE + 1], own[1]),
            math.copysign(a.shape[SIZE + 2], own[2]),
        )
    elif kind == HULL:
        first, most = int(a.shape[FIRST_VERTEX]), -np.inf
        best = first
        for v in range(first, first + int(a.shape[N_VERTICES])):
            reach = own[0] * vertices[v, 0] + own[1] * vertices[v, 1] + own[2] * vertices[v, 2]
            if reach > most:
                best, most = v, reach
        x = row_of(vertices, best)
    elif kind == ELLIPSOID:
        x = on_ellipsoid((a.shape[SIZE], a.shape[SIZE + 1], a.shape[SIZE + 2]), own)
    elif kind == CYLINDER:
        across = math.sqrt(own[0] * own[0] + own[1] * own[1])
        part = a.shape[SIZE] / across if across > 1e-12 * abs(own[2]) else 0.0
        x = part * own[0], part * own[1], math.copysign(a.shape[SIZE + 1], own[2])
    elif kind == CAPSULE:
        x = 0.0, 0.0, math.copysign(a.shape[SIZE + 1], own[2])
    return point_at(a.pose, x)


@compiled
def is_curved(a: Solid) -> bool:
    """Whether iterations find the normals of a core as limits."""
    return bool(a.shape[KIND] == CYLINDER or a.shape[KIND] == ELLIPSOID)


@compiled
def flat_directions(a: Solid, vertices: Array, d: Vector) -> tuple[int, Vector, Vector]:
    """Unit vectors, at most two, along which a core is flat where it lies furthest along ``d``; and their number."""
    kind, own = int(a.shape[KIND]), real(in_frame(a.pose, d))
    x, y, z = column(a.pose, 0), column(a.pose, 1), column(a.pose, 2)
    across = math.sqrt(own[0] * own[0] + own[1] * own[1])
    if kind == BOX:
        if abs(own[0]) < FLAT:
            return (2, x, y) if abs(own[1]) < FLAT else (2, x, z) if abs(own[2]) < FLAT else (1, x, x)
        if abs(own[1]) < FLAT:
            return (2, y, z) if abs(own[2]) < FLAT else (1, y, y)
        return 1 if abs(own[2]) < FLAT else 0, z, z
    if kind == CYLINDER and across < FLAT:
        return 2, x, y
    if kind != HULL:
        return 1 if (kind == CYLINDER or kind == CAPSULE) and abs(own[2]) < FLAT else 0, z, z
    first, end = int(a.shape[FIRST_VERTEX]), int(a.shape[FIRST_VERTEX]) + int(a.shape[N_VERTICES])
    most, best, longest, widest, count = -np.inf, first, 0.0, FLAT, 0
    for v in range(first, end):
        reach = dot(own, row_of(vertices, v))
        if reach > most:
            most, best = reach, v
    e = f = (0.0, 0.0, 0.0)
    for v in range(first, end):
        edge = along(row_of(vertices, v), -1.0, row_of(vertices, best))
        if norm(edge) > longest and -dot(own, edge) < FLAT * norm(edge):
            longest, e, count = norm(edge), edge, 1
    for v in range(first, end):
        edge = along(row_of(vertices, v), -1.0, row_of(vertices, best))
        if count > 0 and norm(cross(e, edge)) > widest * longest * norm(edge) and -dot(own, edge) < FLAT * norm(edge):
            widest, f, count = norm(cross(e, edge)) / (longest * norm(edge)), edge, 2
    e = scaled(1.0 / longest if count > 0 else 0.0, e)
    return count, in_world(a.pose, e), in_world(a.pose, scaled(1.0 / norm(f), f) if count == 2 else e)


@compiled
def curvature(a: Solid, d: Vector, s: Vector, t: Vector) -> float:
    """``s · K t`` of the support point along ``d``."""
    kind, own = int(a.shape[KIND]), real(in_frame(a.pose, d))
    s, t = real(in_frame(a.pose, s)), real(in_frame(a.pose, t))
    if kind == ELLIPSOID:
        half = a.shape[SIZE], a.shape[SIZE + 1], a.shape[SIZE + 2]
        x = half[0] * own[0], half[1] * own[1], half[2] * own[2]
        y = half[0] * s[0], half[1] * s[1], half[2] * s[2]
        z = half[0] * t[0], half[1] * t[1], half[2] * t[2]
        over = 1.0 / norm(x)
        return over * dot(y, z) - over * over * over * dot(x, y) * dot(x, z)
    if kind == CYLINDER:
        across = own[0] * own[0] + own[1] * own[1]
        of_s, of_t = own[0] * s[1] - own[1] * s[0], own[0] * t[1] - own[1] * t[0]
        return float(a.shape[SIZE] * of_s * of_t / (across * math.sqrt(across)))
    return 0.0


@compiled
def between(a: Solid, b: Solid, vertices: Array, n: Vector) -> Vector:
    """``w``: from the point of B that lies furthest along ``n`` to that of A that lies furthest against it."""
    return along(support_point(a, vertices, scaled(-1.0, n)), -1.0, support_point(b, vertices, n))


@compiled
def newton_step(a: Solid, b: Solid, vertices: Array, gap: float, n: Vector, flat: tuple[int, Vector, Vector]) -> Vector:
    """The unit normal after a step from ``n``; ``flat`` are directions of both cores."""
    count, e, f = flat
    if count == 2:
        m = cross(e, f)
        return scaled(math.copysign(1.0, np.real(dot(m, n))) / norm(m), m)
    back = scaled(-1.0, n)
    if count == 1:
        m = along(n, -dot(e, n), e)
        s = real(cross(m, e))
        of_a, of_b = curvature(a, back, s, s), curvature(b, n, s, s)
        yields = of_a + of_b + gap
        if abs(yields) <= UNDECIDED * (of_a + of_b + abs(gap)):
            return n
        m = along(m, dot(between(a, b, vertices, m), cross(m, e)) / yields, s)
    else:
        s, t = tangents(n)
        w = between(a, b, vertices, n)
        x, y = dot(w, s), dot(w, t)
        ss = curvature(a, back, s, s) + curvature(b, n, s, s) + gap
        st = curvature(a, back, s, t) + curvature(b, n, s, t)
        tt = curvature(a, back, t, t) + curvature(b, n, t, t) + gap
        det, largest = ss * tt - st * st, abs(ss) + abs(tt) + 2.0 * abs(gap)
        if abs(det) <= UNDECIDED * largest * largest:
            return n
        over = 1.0 / det
        m = along(along(n, over * (tt * x - st * y), s), over * (ss * y - st * x), t)
    return scaled(1.0 / norm(m), m)


@compiled
def stationary(a: Solid, b: Solid, vertices: Array, gap: float, n: Vector, p: Vector) -> tuple[float, Vector, Vector]:
    """Gap (m) of two cores, unit normal and nearest point of A, from good ones, with their changes.

    Of normals that are no better, which lead out by a longer way, the changes alone are taken.
    """
    least = ROUND_OFF * (a.shape[RADIUS] + b.shape[RADIUS])
    m, g, x = column(a.pose, 3), a.pose[0, 3], column(a.pose, 3)
    for _ in range(NEWTON_STEPS):
        of_a, of_b = flat_directions(a, vertices, scaled(-1.0, n)), flat_directions(b, vertices, n)
        count, e, f = of_a if of_a[0] > 0 else of_b
        if of_a[0] == 1 and of_b[0] > 0:
            one, two = norm(cross(e, of_b[1])), norm(cross(e, of_b[2]))
            f = of_b[1] if one >= two else of_b[2]
            count = 2 if max(one, two) > FLAT else 1
        m = newton_step(a, b, vertices, gap, n, (count, e, f))
        w = between(a, b, vertices, m)
        g = dot(w, m)
        ends = not g >= gap - least
        if ends and of_a[0] == 2 and of_b[0] == 2:  # the normal is that of the face of B
            m = newton_step(a, b, vertices, gap, n, of_b)
            g = dot(between(a, b, vertices, m), m)
        if ends:
            m, g = along(n, 1.0, along(m, -1.0, real(m))), gap + (g - np.real(g))
            w = between(a, b, vertices, m)  # of the same ends of what is flat as the point below
        x = support_point(a, vertices, scaled(-1.0, m))
        if of_a[0] > 0 and of_b[0] == 0:
            x = along(along(x, -1.0, w), g, m)
        elif of_a[0] == 1 and of_b[0] == 1 and count == 2:  # edges that cross
            x = along(x, -dot(cross(w, of_b[1]), m) / dot(cross(e, of_b[1]), m), e)
        elif of_a[0] > 0:  # it stays where it is on A
            x = point_at(a.pose, real(in_frame(a.pose, along(p, -1.0, column(a.pose, 3)))))
        ends = ends or norm(along(real(m), -1.0, n)) < SOLVED
        gap, n = np.real(g), real(m)
        if ends:
            break
    return g, m, x


@compiled
def core_gap(a: Solid, b: Solid, vertices: Array, n: Vector) -> float:
    """Gap (m) of two convex shapes along a unit normal from B to A."""
    w = along(support_point(a, vertices, scaled(-1.0, n)), -1.0, support_point(b, vertices, n))
    gap = dot(w, n)
    if a.shape[KIND] <= CAPSULE:
        gap -= a.shape[SIZE]
    if b.shape[KIND] <= CAPSULE:
        gap -= b.shape[SIZE]
    return gap


@compiled
def number_of_faces(shape: Array) -> int:
    """How many normals of faces a shape has, opposite ones of boxes and cylinders counted once."""
    kind = int(shape[KIND])
    return 3 if kind == BOX else 1 if kind == CYLINDER else int(shape[N_FACES]) if kind == HULL else 0


@compiled
def face_normal(shape: Array, f: int, pose: Array, hulls: Any) -> Vector:
    """One of these normals, in the world."""
    if shape[KIND] == HULL:
        return in_world(pose, row_of(hulls[NORMALS], int(shape[FIRST_FACE]) + f))
    return column(pose, 2 if shape[KIND] == CYLINDER else f)


@compiled
def is_round(shape: Array) -> bool:
    """Whether a shape rolls."""
    kind = shape[KIND]
    return bool(kind <= CAPSULE or kind == CYLINDER or kind == ELLIPSOID)
