"""Convex shapes of any kind: the normal along which they are nearest, or leave each other soonest, and their contacts.

A shape is a core (point, segment, box, cylinder, hull) with a radius around it. Of the cores A and B, the vectors from
points of B to points of A fill a convex set; its point nearest to the origin is the gap (Gilbert, Johnson, Keerthi
1988). Where the cores overlap, the origin is inside, and an expanding polytope (van den Bergen 2001) says which way out
is the shortest, roughly. Of shapes that overlap, or nearly touch, the normal is made exact from outside: A is moved out
along it, until a gap is left, and the normal there is the next one. Each is a way out that is no longer than the last.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from delassus.compiler.jit.compile import compiled
from delassus.constraints.shapes.convex_distance import NEAR, ROUND_OFF, THIN
from delassus.constraints.shapes.convex_patch import EXACT
from delassus.contact.collision.colliders import (
    BOX,
    CAPSULE,
    ELLIPSOID,
    KIND,
    MOST_CONTACTS,
    MOST_CORNERS,
    MOST_FACES,
    RADIUS,
    SIZE,
    SPHERE,
    VERTICES,
    Solid,
)  # fmt: skip
from delassus.contact.collision.patches import patch
from delassus.contact.collision.support import is_curved, stationary, support_point
from delassus.contact.collision.vectors import (
    Vector,
    along,
    column,
    cross,
    dot,
    norm,
    real,
    row_of,
    scaled,
    write,
)  # fmt: skip
from delassus.spatial.rotations import Array

MOST_STEPS = 64
"""Of the iterations for a gap, and of those for a normal from outside."""

CROSSING = 1e-7
"""Sine of the angle below which two edges count as parallel: their product says nothing that face normals do not."""

BIAS = 1e-10
"""By how much, as a part of the boxes' size, a face of B must be better than those of A, and an edge axis than a face:
what rests flatly keeps its normal from step to step."""


@compiled
def support_vertex(a: Solid, b: Solid, vertices: Array, push: Vector, d: Vector, W: Array, k: int) -> float:
    """Furthest vector along ``d`` from B to A, moved by ``push``: to row ``k`` of ``W``, beside its point of A."""
    p, q = support_point(a, vertices, d), support_point(b, vertices, scaled(-1.0, d))
    w = along(along(p, 1.0, push), -1.0, q)
    for r in range(3):
        W[k, r], W[k, 3 + r] = w[r], p[r]
    return dot(d, w)


@compiled
def copy_vertex(W: Array, source: int, k: int, weight: float) -> None:
    """Move a corner of a simplex to row ``k``, with its weight."""
    for r in range(6):
        W[k, r] = W[source, r]
    W[k, 6] = weight


@compiled
def nearest_in_simplex(W: Array, n: int) -> tuple[int, Vector]:
    """Point nearest to the origin of the simplex of ``n`` corners, in which the last takes part.

    The corners whose simplex it is inside, and their weights, become the first rows; returns how many, and the point.
    """
    last = n - 1
    v = d = row_of(W, last)
    best, count, i, j, s, t = dot(d, d), 1, 0, 0, 0.0, 0.0
    for k in range(last):
        a = row_of(W, k)
        e = along(a, -1.0, d)
        part = -dot(d, e) / max(dot(e, e), 1e-300)
        x = along(d, part, e)
        if 0.0 < part < 1.0 and dot(x, x) < best:
            best, count, i, s, t, v = dot(x, x), 2, k, part, 0.0, x
        for m in range(k):
            b = row_of(W, m)
            f = along(b, -1.0, d)
            N = cross(e, f)
            area = dot(N, N)
            of_a, of_b = dot(cross(b, d), N), dot(cross(d, a), N)
            if area > THIN * dot(e, e) * dot(f, f) and of_a > 0.0 and of_b > 0.0 and of_a + of_b < area:
                x = scaled(dot(d, N) / area, N)
                if dot(x, x) < best:
                    best, count, i, j, s, t, v = dot(x, x), 3, k, m, of_a / area, of_b / area, x
    if n == 4:
        a, b, c = row_of(W, 0), row_of(W, 1), row_of(W, 2)
        ab, bc, ca = cross(a, b), cross(b, c), cross(c, a)
        of_a, of_b, of_c, of_d = dot(d, bc), dot(d, ca), dot(d, ab), -dot(c, ab)
        # volumes with the origin in place of each corner: of one sign if it is inside
        if (of_a > 0) == (of_b > 0) == (of_c > 0) == (of_d > 0) and of_a * of_d != 0.0:
            return 4, (0.0, 0.0, 0.0)
    if count == 3:  # j < i < last
        copy_vertex(W, j, 0, t)
        copy_vertex(W, i, 1, s)
    elif count == 2:
        copy_vertex(W, i, 0, s)
    copy_vertex(W, last, count - 1, 1.0 - s - t)
    return count, v


@compiled
def gap_of_cores(a: Solid, b: Solid, vertices: Array, push: Vector, most: float, W: Array) -> tuple[float, Vector, int]:
    """Gap (m) between the cores of A, moved by ``push``, and of B, if it is at most ``most``, else less than it.

    Also the unit normal from B to A along which it is measured, and how many rows of ``W`` are the corners that it
    comes from, with points of A that they belong to, and weights; four where the cores overlap.
    """
    d = along(along(column(a.pose, 3), 1.0, push), -1.0, column(b.pose, 3))
    length = norm(d)
    d = scaled(-1.0 / length, d) if length > 0.0 else (0.0, 0.0, 1.0)
    support_vertex(a, b, vertices, push, d, W, 0)
    W[0, 6] = 1.0
    v, n, gap, normal = row_of(W, 0), 1, -np.inf, d
    tolerance = ROUND_OFF * (a.shape[RADIUS] + b.shape[RADIUS])
    for _ in range(MOST_STEPS):
        length = norm(v)
        if length <= 10.0 * tolerance:
            return 0.0, normal, n
        d = scaled(-1.0 / length, v)
        least = -support_vertex(a, b, vertices, push, d, W, n)
        if least > gap:
            gap, normal = least, scaled(-1.0, d)
        if gap > most or length - least <= tolerance:
            break
        n, closer = nearest_in_simplex(W, n + 1)
        if n == 4 or not norm(closer) < length:
            break
        v = closer
    return gap, normal, n


@compiled
def new_face(V: Array, faces: Array, f: int, i: int, j: int, k: int) -> None:
    """Triangle ``f`` of a polytope, counterclockwise seen from outside: normal, distance from the origin, corners."""
    x = row_of(V, i)
    n = cross(along(row_of(V, j), -1.0, x), along(row_of(V, k), -1.0, x))
    area = norm(n)
    n = scaled(1.0 / area if area > 0.0 else 0.0, n)
    faces[f, 0], faces[f, 1], faces[f, 2] = n
    faces[f, 3] = dot(n, x) if area > 0.0 else np.inf
    faces[f, 4], faces[f, 5], faces[f, 6] = i, j, k


@compiled
def initial_tetrahedron(a: Solid, b: Solid, vertices: Array, n: int, V: Array) -> None:
    """Make a tetrahedron of a simplex of ``n`` corners that touches the origin."""
    for k in range(n, 4):
        x = row_of(V, 0)
        d, e = (1.0, 0.0, 0.0), along(row_of(V, 1), -1.0, x)
        if k == 2:
            d = cross(e, d if abs(e[0]) < 0.6 * norm(e) else (0.0, 1.0, 0.0))
        elif k == 3:
            d = cross(e, along(row_of(V, 2), -1.0, x))
        d = scaled(1.0 / norm(d), d)
        one = support_vertex(a, b, vertices, (0.0, 0.0, 0.0), d, V, k) - dot(d, x)
        other = support_vertex(a, b, vertices, (0.0, 0.0, 0.0), scaled(-1.0, d), V, k + 1) + dot(d, x)
        if other > one:
            copy_vertex(V, k + 1, k, 0.0)


@compiled
def penetration_direction(a: Solid, b: Solid, vertices: Array, work: Array) -> tuple[Vector, float]:
    """Direction in which A has the shortest way out of B, and the gap along it, from a simplex that holds the origin.

    A polytope grows from it: where its face that is nearest to the origin is not on the outside, by a corner beyond.
    """
    size, V, faces, rim = a.shape[RADIUS] + b.shape[RADIUS], work[0], work[1], work[2]
    d = row_of(V, 0)
    turned = dot(along(row_of(V, 3), -1.0, d), cross(along(row_of(V, 1), -1.0, d), along(row_of(V, 2), -1.0, d)))
    one, two = (2, 1) if turned > 0.0 else (1, 2)
    new_face(V, faces, 0, 0, one, two)
    new_face(V, faces, 1, 0, two, 3)
    new_face(V, faces, 2, 0, 3, one)
    new_face(V, faces, 3, one, 3, two)
    n_faces, best, normal = 4, np.inf, d
    for n in range(4, MOST_CORNERS):
        nearest = 0
        for f in range(1, n_faces):
            if faces[f, 3] < faces[nearest, 3]:
                nearest = f
        d, inside = row_of(faces, nearest), faces[nearest, 3]
        depth = support_vertex(a, b, vertices, (0.0, 0.0, 0.0), d, V, n)
        if depth < best:
            best, normal = depth, d
        if not best - inside > 1e-10 * size:
            break
        x, f, edges = row_of(V, n), 0, 0
        while f < n_faces:  # faces that are seen from the new corner give way
            if not dot(row_of(faces, f), along(x, -1.0, row_of(V, int(faces[f, 4])))) > 1e-12 * size:
                f += 1
                continue
            for e in range(3):
                i, j, r = faces[f, 4 + e], faces[f, 4 + (e + 1) % 3], 0
                while r < edges and not (rim[r, 0] == j and rim[r, 1] == i):
                    r += 1
                if r < edges:  # between two such faces
                    edges -= 1
                    rim[r, 0], rim[r, 1] = rim[edges, 0], rim[edges, 1]
                else:
                    rim[edges, 0], rim[edges, 1] = i, j
                    edges += 1
            n_faces -= 1
            for c in range(7):
                faces[f, c] = faces[n_faces, c]
        if n_faces + edges > MOST_FACES or edges == 0:
            break
        for r in range(edges):
            new_face(V, faces, n_faces, int(rim[r, 0]), int(rim[r, 1]), n)
            n_faces += 1
    return scaled(-1.0, normal), -best


@compiled
def core_distance(
    a: Solid, b: Solid, vertices: Array, gap: float, n: Vector, most: float, work: Array
) -> tuple[float, Vector, Vector]:
    """Gap (m) of two cores, negative if they overlap, if it is at most ``most``; the normal; the nearest point of A.

    ``gap`` is that along ``n`` where a direction out of an overlap is known, else NaN.
    """
    size, count, W = a.shape[RADIUS] + b.shape[RADIUS], 0, work[0]
    if not gap <= 0.0:
        gap, n, count = gap_of_cores(a, b, vertices, (0.0, 0.0, 0.0), most, W)
        if gap > most:
            return gap, n, n
        if gap <= 0.0:
            initial_tetrahedron(a, b, vertices, count, W)
            n, gap = penetration_direction(a, b, vertices, work)
        if gap < NEAR * size:
            gap = -support_vertex(a, b, vertices, (0.0, 0.0, 0.0), scaled(-1.0, n), W, 5)
    return refined_distance(a, b, vertices, gap, n, count, W)


@compiled
def refined_distance(
    a: Solid, b: Solid, vertices: Array, gap: float, n: Vector, count: int, W: Array
) -> tuple[float, Vector, Vector]:
    """Gap (m), normal and nearest point of A, from those along ``n`` or of a simplex in ``W``."""
    size = a.shape[RADIUS] + b.shape[RADIUS]
    if gap < NEAR * size:
        for _ in range(MOST_STEPS):
            out = max(NEAR * size - gap, 0.0)  # not into one another: the gap may turn out to be larger
            parted, new, count = gap_of_cores(a, b, vertices, scaled(out, n), np.inf, W)
            longer = parted - out * dot(new, n)
            if longer <= gap + ROUND_OFF * size:
                break
            gap, n = longer, new
    p = (0.0, 0.0, 0.0)
    for k in range(min(count, 3)):  # shapes that are parted have a fourth by round-off only, without a weight
        p = along(p, W[k, 6], (W[k, 3], W[k, 4], W[k, 5]))
    if is_curved(a) or is_curved(b) or not np.isrealobj(gap):
        return stationary(a, b, vertices, np.real(gap), real(n), real(p))
    return gap, n, p


@compiled
def separation(a: Solid, b: Solid, most: float, R: Array) -> tuple[float, Vector, bool]:
    """Largest separation (m) of two boxes along their 15 axes; negative: the least overlap. Beyond ``most``: some.

    The axes are three face normals of each box and the nine products of their edges. Where the boxes do not overlap,
    the largest separation is a lower bound of the distance, and the distance itself if a corner over the face is that
    far away. Also the unit axis, from B to A, and whether it is the normal of a face. ``R`` is memory for (4, 4)
    numbers: of the axes of A along those of B, and of what is between the centres along all.
    """
    d = along(column(a.pose, 3), -1.0, column(b.pose, 3))
    best, which = -np.inf, 0
    for i in range(3):
        R[i, 3] = a.pose[0, i] * d[0] + a.pose[1, i] * d[1] + a.pose[2, i] * d[2]
        R[3, i] = b.pose[0, i] * d[0] + b.pose[1, i] * d[1] + b.pose[2, i] * d[2]
        apart = abs(R[i, 3]) - a.shape[SIZE + i]
        for j in range(3):
            R[i, j] = a.pose[0, i] * b.pose[0, j] + a.pose[1, i] * b.pose[1, j] + a.pose[2, i] * b.pose[2, j]
            apart -= b.shape[SIZE + j] * abs(R[i, j])
        if apart > best:
            best, which = apart, i
            if best > most:
                return best, d, True
    bias = BIAS * (a.shape[RADIUS] + b.shape[RADIUS])
    for j in range(3):
        apart = abs(R[3, j]) - b.shape[SIZE + j]
        for i in range(3):
            apart -= a.shape[SIZE + i] * abs(R[i, j])
        if apart > best + bias:
            best, which, bias = apart, 3 + j, 0.0
            if best > most:
                return best, d, True
    bias = BIAS * (a.shape[RADIUS] + b.shape[RADIUS])
    for i in range(3):
        i1, i2 = (i + 1) % 3, (i + 2) % 3
        for j in range(3):
            sine = math.sqrt(R[i1, j] * R[i1, j] + R[i2, j] * R[i2, j])
            if sine < CROSSING:
                continue
            j1, j2 = (j + 1) % 3, (j + 2) % 3
            reach = a.shape[SIZE + i1] * abs(R[i2, j]) + a.shape[SIZE + i2] * abs(R[i1, j])
            reach += b.shape[SIZE + j1] * abs(R[i, j2]) + b.shape[SIZE + j2] * abs(R[i, j1])
            apart = abs(R[i2, 3] * R[i1, j] - R[i1, 3] * R[i2, j]) - reach
            if apart > (best + bias) * sine:
                best, which, bias = apart / sine, 6 + 3 * i + j, 0.0
    if which < 6:
        n = column(a.pose, which) if which < 3 else column(b.pose, which - 3)
    else:
        n = cross(column(a.pose, (which - 6) // 3), column(b.pose, (which - 6) % 3))
        n = scaled(1.0 / norm(n), n)
    return best, n if dot(n, d) >= 0 else scaled(-1.0, n), which < 6


@compiled
def max_depth(out: Array, m: int, end: int) -> float:
    """Largest depth of some contacts."""
    most = -np.inf
    for k in range(m, end):
        most = max(most, out[k, 7])
    return most


@compiled
def convex_pair(a: Solid, b: Solid, hulls: Any, most: float, work: Array, out: Array, m: int) -> int:
    """Contacts of two convex shapes: the points of the patch in which they face each other, the deepest among them."""
    rounded = (a.shape[SIZE] if a.shape[KIND] <= CAPSULE else 0.0) + (
        b.shape[SIZE] if b.shape[KIND] <= CAPSULE else 0.0
    )
    size, gap, n = a.shape[RADIUS] + b.shape[RADIUS], np.nan, (0.0, 0.0, 0.0)
    if a.shape[KIND] == BOX and b.shape[KIND] == BOX:
        gap, n, face = separation(a, b, most, work[0])
        if gap > most:
            return m
        if face:
            end = patch(a, b, hulls, (n, -gap), most, work, out, m)
            if max_depth(out, m, end) >= -gap - EXACT * size:
                return end
    nearest = core_distance(a, b, hulls[VERTICES], gap, n, most + rounded, work)
    return manifold(a, b, hulls, nearest, most, work, out, m)


@compiled
def manifold(
    a: Solid, b: Solid, hulls: Any, nearest: tuple[float, Vector, Vector], most: float, work: Array, out: Array, m: int
) -> int:
    """Contacts along the normal of shapes from the gap of their cores, normal and nearest point of the core of A."""
    gap, n, p = nearest
    radius = a.shape[SIZE] if a.shape[KIND] <= CAPSULE else 0.0
    size, depth = a.shape[RADIUS] + b.shape[RADIUS], radius + (b.shape[SIZE] if b.shape[KIND] <= CAPSULE else 0.0) - gap
    if depth < -most:
        return m
    kind = a.shape[KIND]
    is_curved = kind == SPHERE or kind == ELLIPSOID or b.shape[KIND] == ELLIPSOID  # it has no flat parts
    end = m if is_curved else patch(a, b, hulls, (n, depth), most, work, out, m)
    if end == m or max_depth(out, m, end) < depth - EXACT * size:
        if end == m + MOST_CONTACTS:  # the shallowest gives way
            end -= 1
            least = m
            for k in range(m, end + 1):
                if out[k, 7] < out[least, 7]:
                    least = k
            for c in range(1, 8):
                out[least, c] = out[end, c]
        end = write(out, end, along(p, 0.5 * depth - radius, n), n, depth)
    return end
