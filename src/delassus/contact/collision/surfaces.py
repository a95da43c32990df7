"""Shapes on surfaces of triangles, of which the solid lies behind: terrain, and meshes that are not convex.

A triangle is a hull with one face. A contact's normal lies in the normal cone of the corner, edge or face of the
surface that is touched (its Voronoi region): between the normals of the two triangles of a convex edge, and nowhere
else. What lies over several triangles of a plane, or of a valley, is thus pushed along normals of faces only, and the
edges between them are not felt. Where the nearest way off one triangle leads through its neighbour, the triangle pushes
along its own normal what is over it, unless the neighbour's is the shorter way out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from delassus.compiler.jit.compile import compiled
from delassus.constraints.shapes.convex_distance import NEAR
from delassus.constraints.shapes.convex_patch import ALIGNED, BESIDE
from delassus.contact.collision.colliders import (
    AXES,
    BOX,
    CAPSULE,
    CENTRE,
    CYLINDER,
    ELLIPSOID,
    FANS,
    FIRST_AXIS,
    FIRST_CORNER,
    FIRST_FACE,
    FIRST_NODE,
    FIRST_TRIANGLE,
    FIRST_VERTEX,
    HALF,
    HULL,
    KIND,
    MOST_CONTACTS,
    N_FACES,
    N_VERTICES,
    NEIGHBOURS,
    NODE_BOUNDS,
    NODES,
    NORMALS,
    RADIUS,
    RINGS,
    SIZE,
    SPHERE,
    SPOKES,
    SURFACE,
    VERTICES,
    Colliders,
    PairMemory,
    Solid,
)  # fmt: skip
from delassus.contact.collision.convex import gap_of_cores, manifold, refined_distance
from delassus.contact.collision.half_spaces import reduce_manifold
from delassus.contact.collision.patches import patch
from delassus.contact.collision.support import support_point
from delassus.contact.collision.vectors import (
    Vector,
    across_motion,
    along,
    column,
    cross,
    dot,
    in_frame,
    in_world,
    norm,
    point_at,
    row_of,
    scaled,
    write,
)  # fmt: skip
from delassus.spatial.rotations import Array

IN_CONE = 1e-6
"""Sine of the angle by which a normal may be outside of the cone of a corner, edge or face."""

SAME = 4e-6
"""Part of the size by which contacts may differ, in place or normal, and are one: more than `BESIDE`."""

STEEP = 3.0
"""How much further away a point must be to be chosen, for how much wider its gap is: points over a whole slope, but not
all around a ball."""


@compiled
def is_in_cone(t: Solid, hulls: Any, surfaces: Any, k: int, n: Vector) -> bool:
    """Whether ``n`` is in the normal cone of the part of triangle ``k`` that lies furthest along it."""
    own, size, first = in_frame(t.pose, n), IN_CONE * t.shape[RADIUS], int(t.shape[FIRST_VERTEX])
    a, b, c = row_of(hulls[VERTICES], first), row_of(hulls[VERTICES], first + 1), row_of(hulls[VERTICES], first + 2)
    u, v, w = dot(own, a), dot(own, b), dot(own, c)
    most, corner, others = u, 0, 0
    if v > most:
        most, corner = v, 1
    if w > most:
        most, corner = w, 2
    edge = -1
    if corner != 0 and u > most - size:
        others += 1
        edge = 0 if corner == 1 else 2
    if corner != 1 and v > most - size:
        others += 1
        edge = 0 if corner == 0 else 1
    if corner != 2 and w > most - size:
        others += 1
        edge = 1 if corner == 1 else 2
    if others == 2:
        return dot(own, row_of(hulls[NORMALS], int(t.shape[FIRST_FACE]))) > 0.0
    if others == 1:
        beyond = row_of(surfaces[NEIGHBOURS], 3 * k + edge)
        d = along(b, -1.0, a) if edge == 0 else along(c, -1.0, b) if edge == 1 else along(a, -1.0, c)
        away = cross(d, beyond)
        return dot(beyond, beyond) > 0.0 and dot(own, away) <= IN_CONE * norm(d)
    ring = surfaces[FANS][3 * k + corner]
    for r in range(surfaces[RINGS][ring], surfaces[RINGS][ring + 1]):
        if dot(own, row_of(surfaces[SPOKES], r)) > IN_CONE:
            return False
    return True


@compiled
def is_over(t: Solid, hulls: Any, x: Vector, N: Vector) -> bool:
    """Whether a point is over or under a triangle, along its normal."""
    first, inside = int(t.shape[FIRST_VERTEX]), True
    for e in range(3):
        p = point_at(t.pose, row_of(hulls[VERTICES], first + e))
        d = along(point_at(t.pose, row_of(hulls[VERTICES], first + (e + 1) % 3)), -1.0, p)
        inside = inside and dot(along(x, -1.0, p), cross(d, N)) <= BESIDE * dot(d, d)
    return inside


@compiled
def triangle_pair(
    a: Solid, t: Solid, colliders: Colliders, k: int, most: float, work: Array, out: Array, m: int
) -> int:
    """Contacts of a convex shape with triangle ``k``, which is ``t`` as a hull."""
    hulls, surfaces = colliders.hulls, colliders.surfaces
    vertices, first, origin = hulls[VERTICES], int(t.shape[FIRST_VERTEX]), (0.0, 0.0, 0.0)
    radius = a.shape[SIZE] if a.shape[KIND] <= CAPSULE else 0.0
    N, x = in_world(t.pose, row_of(hulls[NORMALS], int(t.shape[FIRST_FACE]))), point_at(t.pose, row_of(vertices, first))
    lowest = support_point(a, vertices, scaled(-1.0, N))
    level = dot(along(lowest, -1.0, x), N)
    if level > most + radius or dot(along(support_point(a, vertices, N), -1.0, x), N) + radius <= 0.0:
        return m
    gap, n, has_edges, is_hidden = level, N, False, False  # hidden: a neighbour's is the shorter way out
    for e in range(3):
        beyond = row_of(surfaces[NEIGHBOURS], 3 * k + e)
        has_edges = has_edges or dot(beyond, beyond) > 0.0
    for r in range(surfaces[FIRST_AXIS][k], surfaces[FIRST_AXIS][k + 1]):
        d = in_world(t.pose, row_of(surfaces[AXES], r))
        y = along(support_point(a, vertices, scaled(-1.0, d)), -1.0, (t.pose[0, 3], t.pose[1, 3], t.pose[2, 3]))
        height = dot(y, d) - surfaces[AXES][r, 3]
        if height > most + radius:
            return m
        if height > gap:
            gap, n, is_hidden = height, d, True
    limit = radius - level
    if has_edges or limit > NEAR * a.shape[RADIUS]:
        apart, u, count = gap_of_cores(a, t, vertices, origin, most + radius, work[0])
        is_apart = apart > 0.0 and dot(u, N) > 0.0
        if apart > most + radius or (apart > 0.0 and not is_apart and (apart >= radius or gap > 0.0)):
            return m  # far from it, behind it, or beside
        if is_apart:
            gap, n, limit = apart, u, radius - apart
        nearest = refined_distance(a, t, vertices, gap, n, count, work[0])
        gap, n = nearest[0], nearest[1]
        if is_in_cone(t, hulls, surfaces, k, n):
            m = manifold(a, t, hulls, nearest, most, work, out, m)
            if 1.0 - dot(n, N) <= ALIGNED:
                return m
            limit = min(limit, radius - gap)
        elif is_hidden and not is_apart:
            return m
    return over_triangle(a, t, hulls, (N, lowest, limit), most, work, out, m)


@compiled
def over_triangle(
    a: Solid, t: Solid, hulls: Any, over: tuple[Vector, Vector, float], most: float, work: Array, out: Array, m: int
) -> int:
    """Contacts along the normal of a triangle, of points over it; also given: the lowest one, and the largest depth."""
    N, lowest, limit = over
    x, radius = point_at(t.pose, row_of(hulls[VERTICES], int(t.shape[FIRST_VERTEX]))), 0.0
    if a.shape[KIND] <= CAPSULE:
        radius = a.shape[SIZE]
    end, limit = m, limit + SAME * a.shape[RADIUS]
    is_curved = a.shape[KIND] == SPHERE or a.shape[KIND] == ELLIPSOID
    found = m if is_curved else patch(a, t, hulls, (N, np.inf), most, work, out, m)
    for i in range(m, found):
        if out[i, 7] <= limit:
            for c in range(1, 8):
                out[end, c] = out[i, c]
            end += 1
    for k in range(n_corners(a.shape)):
        y = lowest if a.shape[KIND] != BOX and a.shape[KIND] != HULL else corner(a, hulls[VERTICES], k)
        depth = radius - dot(along(y, -1.0, x), N)
        if -most <= depth <= limit and is_over(t, hulls, y, N):
            end = write(out, end, along(y, 0.5 * depth - radius, N), N, depth)
    return end


@compiled
def n_corners(a: Array) -> int:
    """How many points of a shape are tested for being over a triangle: all corners, or the lowest point."""
    return 8 if a[KIND] == BOX else int(a[N_VERTICES]) if a[KIND] == HULL else 1


@compiled
def corner(a: Solid, vertices: Array, k: int) -> Vector:
    """Corner of a box or hull, in the world."""
    if a.shape[KIND] == HULL:
        return point_at(a.pose, row_of(vertices, int(a.shape[FIRST_VERTEX]) + k))
    x, y, z = a.shape[SIZE], a.shape[SIZE + 1], a.shape[SIZE + 2]
    return point_at(a.pose, (x * (1 - 2 * (k & 1)), y * (1 - (k & 2)), z * (1 - (k & 4) // 2)))


@compiled
def bounds_of(a: Solid, B: Array, most: float) -> tuple[Vector, Vector]:
    """Lower and upper corner, in the frame at ``B``, of a box around a shape at ``A`` and what is ``most`` from it."""
    centre = point_at(a.pose, (a.shape[CENTRE], a.shape[CENTRE + 1], a.shape[CENTRE + 2]))
    c = in_frame(B, along(centre, -1.0, (B[0, 3], B[1, 3], B[2, 3])))
    half = a.shape[RADIUS] + most, a.shape[RADIUS] + most, a.shape[RADIUS] + most
    if a.shape[KIND] != SPHERE:
        half = most, most, most
        for k in range(3):
            d = in_frame(B, (a.pose[0, k], a.pose[1, k], a.pose[2, k]))
            half = along(half, a.shape[HALF + k], (abs(d[0]), abs(d[1]), abs(d[2])))
    return along(c, -1.0, half), along(c, 1.0, half)


@compiled
def next_triangle(b: Array, surfaces: Any, node: int, low: Vector, high: Vector) -> tuple[int, int]:
    """The next triangle whose box meets another, from a node of the tree of boxes; and the node to go on from.

    After the last one the triangle is −1.
    """
    bounds, nodes = surfaces[NODE_BOUNDS], surfaces[NODES]
    end = int(b[FIRST_NODE]) + 2 * int(b[N_FACES]) - 1
    while node < end:
        if (
            bounds[node, 0] <= high[0] and bounds[node, 1] <= high[1] and bounds[node, 2] <= high[2]
            and bounds[node, 3] >= low[0] and bounds[node, 4] >= low[1] and bounds[node, 5] >= low[2]
        ):  # fmt: skip
            if nodes[node, 1] >= 0:
                return nodes[node, 1], node + 1
            node += 1
        else:
            node = nodes[node, 0]
    return -1, node


@compiled
def set_triangle(b: Array, k: int, bounds: Array, node: int, t: Array) -> None:
    """Row of a triangle of a surface as a hull, from its number and the node that holds it."""
    t[KIND], t[N_VERTICES], t[N_FACES] = HULL, 3, 1
    t[FIRST_VERTEX], t[FIRST_FACE] = b[FIRST_CORNER] + 3 * k, b[FIRST_FACE] + k
    squares = 0.0
    for c in range(3):
        t[CENTRE + c] = 0.5 * (bounds[node, c] + bounds[node, 3 + c])
        t[HALF + c] = 0.5 * (bounds[node, 3 + c] - bounds[node, c])
        squares += t[HALF + c] * t[HALF + c]
    t[RADIUS] = math.sqrt(squares)


@compiled
def convex_on_surface(
    a: Solid, own: int, b: Solid, colliders: Colliders, most: float, memory: PairMemory, m: int
) -> int:
    """Contacts of a convex shape with the triangles of a surface, as rows 4 of the memory from ``m``.

    Triangles that face away from the shape's centre belong to the other side of what is thin, and count only where no
    others do. If the shape is triangle ``own`` ≥ 0 of another surface, only contacts along normals in its cones do.
    """
    work, t, hulls, surfaces = memory.rows, Solid(memory.triangles[0], b.pose), colliders.hulls, colliders.surfaces
    low, high = bounds_of(a, b.pose, most)
    start, centre = m, point_at(a.pose, (a.shape[CENTRE], a.shape[CENTRE + 1], a.shape[CENTRE + 2]))
    for attempt in range(2):
        is_skipped = False
        k, node = next_triangle(b.shape, surfaces, int(b.shape[FIRST_NODE]), low, high)
        while k >= 0:
            set_triangle(b.shape, k, surfaces[NODE_BOUNDS], node - 1, t.shape)
            if attempt == 0 and own < 0 and height_over(t, hulls, centre) < 0.0:
                is_skipped = True
            else:
                end = triangle_pair(a, t, colliders, int(b.shape[FIRST_TRIANGLE]) + k, most, work, work[4], m)
                for i in range(m, end):
                    n = (-work[4, i, 4], -work[4, i, 5], -work[4, i, 6])
                    if own < 0 or is_in_cone(a, hulls, surfaces, own, n):
                        for c in range(1, 8):
                            work[4, m, c] = work[4, i, c]
                        m += 1
                if m + 3 * MOST_CONTACTS + n_corners(a.shape) > work.shape[1]:
                    m = reduce_contacts(work, m, a.shape[RADIUS])
            k, node = next_triangle(b.shape, surfaces, node, low, high)
        if m > start or not is_skipped:
            break
    return m


@compiled
def height_over(t: Solid, hulls: Any, x: Vector) -> float:
    """Height of a point over the plane of a triangle."""
    first = point_at(t.pose, row_of(hulls[VERTICES], int(t.shape[FIRST_VERTEX])))
    return dot(along(x, -1.0, first), in_world(t.pose, row_of(hulls[NORMALS], int(t.shape[FIRST_FACE]))))


@compiled
def surface_pair(a: Solid, b: Solid, colliders: Colliders, most: float, memory: PairMemory, out: Array, m: int) -> int:
    """Contacts of a shape with a surface."""
    work, own, surfaces, count = memory.rows, Solid(memory.triangles[1], a.pose), colliders.surfaces, 0 * m
    if a.shape[KIND] == SURFACE:
        low, high = bounds_of(b, a.pose, most)
        k, node = next_triangle(a.shape, surfaces, int(a.shape[FIRST_NODE]), low, high)
        while k >= 0:
            set_triangle(a.shape, k, surfaces[NODE_BOUNDS], node - 1, own.shape)
            of_a = int(a.shape[FIRST_TRIANGLE]) + k
            count = convex_on_surface(own, of_a, b, colliders, most, memory, count)
            k, node = next_triangle(a.shape, surfaces, node, low, high)
    else:
        count = convex_on_surface(a, -1 - count, b, colliders, most, memory, count)
    count = reduce_contacts(work, count, a.shape[RADIUS])
    for i in range(count):
        for c in range(1, 8):
            out[m + i, c] = work[4, i, c]
    return m + count


@compiled
def reduce_contacts(work: Array, n: int, size: float) -> int:
    """Leave of contacts in ``work[4]`` at most `MOST_CONTACTS`; returns how many.

    Of those of one normal, the corners of what they span and the deepest; of all, the deepest, and those that are
    furthest from the others chosen in place and normal, less `STEEP` their gaps.
    """
    points, plane, chosen, kept = work[4], work[1], work[2], 0 * n
    for i in range(n):
        points[i, 0] = 0.0  # until it is in a plane
    for i in range(n):
        if points[i, 0] > 0.0:
            continue
        N, count = (points[i, 4], points[i, 5], points[i, 6]), 0 * n
        for j in range(i, n):
            if points[j, 0] == 0.0 and norm(along(N, -1.0, (points[j, 4], points[j, 5], points[j, 6]))) <= SAME:
                points[j, 0] = 1.0
                for c in range(3):
                    plane[count, c] = points[j, 1 + c]
                plane[count, 3] = points[j, 7]
                count += 1
        for j in range(outline(plane, count, N, SAME * size, work[3])):
            kept = write(chosen, kept, row_of(plane, j), N, plane[j, 3])
    return spread(chosen, kept, size, points)


@compiled
def outline(points: Array, n: int, N: Vector, same: float, spare: Array) -> int:
    """Leave of points in a plane (rows of place, depth) the corners of what they span, and the deepest.

    They are found one after the other, counterclockwise about the normal ``N`` (Jarvis); places differ by more than
    ``same`` (m).
    """
    at, furthest, deepest = 0 * n, -1.0, 0 * n
    for i in range(n):
        points[i, 4] = 0.0
        d = along(row_of(points, i), -1.0, row_of(points, 0))
        if dot(d, d) > furthest:
            at, furthest = i, dot(d, d)
        if points[i, 3] > points[deepest, 3]:
            deepest = i
    kept, most, following = 0 * n, -np.inf, at
    while points[following, 4] == 0.0:
        at = following
        points[at, 4] = 1.0
        for c in range(4):
            spare[kept, c] = points[at, c]
        kept, most = kept + 1, max(most, points[at, 3])
        x, d, length = row_of(points, at), (0.0, 0.0, 0.0), 0.0
        for i in range(n):
            e = along(row_of(points, i), -1.0, x)
            other = norm(e)
            if other > same:
                right = dot(cross(d, e), N)
                if right < -same * length or (right <= same * length and other > length):
                    following, d, length = i, e, other
            else:
                points[i, 4] = 1.0  # where the outline begins, it ends
    if points[deepest, 3] > most + same:
        for c in range(4):
            spare[kept, c] = points[deepest, c]
        kept += 1
    for i in range(kept):
        for c in range(4):
            points[i, c] = spare[i, c]
    u = cross(N, (1.0, 0.0, 0.0)) if abs(N[0]) < 0.6 else cross(N, (0.0, 1.0, 0.0))
    return reduce_manifold(points, kept, u, cross(N, u), 0.25)


@compiled
def spread(chosen: Array, n: int, size: float, out: Array) -> int:
    """Copy contacts, or of more than `MOST_CONTACTS` the deepest and the furthest from those before."""
    deepest, kept = 0 * n, 0 * n
    for i in range(n):
        chosen[i, 0] = np.inf
        if chosen[i, 7] > chosen[deepest, 7]:
            deepest = i
    best = deepest
    while kept < min(n, MOST_CONTACTS):
        for c in range(1, 8):
            out[kept, c] = chosen[best, c]
        chosen[best, 0] = -np.inf
        worth, x, N = -np.inf, (out[kept, 1], out[kept, 2], out[kept, 3]), (out[kept, 4], out[kept, 5], out[kept, 6])
        for i in range(n):
            d = along((chosen[i, 1], chosen[i, 2], chosen[i, 3]), -1.0, x)
            e = along((chosen[i, 4], chosen[i, 5], chosen[i, 6]), -1.0, N)
            chosen[i, 0] = min(chosen[i, 0], math.sqrt(dot(d, d) + size * size * dot(e, e)))
            if chosen[i, 0] - STEEP * (chosen[deepest, 7] - chosen[i, 7]) > worth:
                best, worth = i, chosen[i, 0] - STEEP * (chosen[deepest, 7] - chosen[i, 7])
        kept += 1
    return kept


@compiled
def pass_edge(row: Array, motion: Vector, solid: Solid, side: float, slop: float, vertices: Array) -> bool:
    """Turn a contact of a shape that rolls and another to what of its normal is across the motion of A beside B.

    That is done where its point of the other one is no obstacle: an edge that is higher by no more than twice the slop
    than what the shape moves on. The shape is A if ``side`` is 1, B if it is −1. Returns whether it is.
    """
    n, x, depth = (row[4], row[5], row[6]), (row[1], row[2], row[3]), row[7]
    there, d = across_motion(n, motion)
    if depth <= 0.0 or not there:
        return False
    up, radius, kind = scaled(side, d), solid.shape[SIZE], solid.shape[KIND]  # to the round shape
    if kind == SPHERE or kind == CAPSULE:
        p = along(x, side * (radius - 0.5 * depth), n)
    else:
        p, radius = support_point(solid, vertices, scaled(-1.0, up)), 0.0
    if kind == CYLINDER:
        axis = column(solid.pose, 2)
        if abs(dot(axis, up)) > ALIGNED:  # it does not roll that way
            return False
        p = along(p, dot(along(x, -1.0, p), axis), axis)
    gap = dot(along(p, -1.0, along(x, 0.5 * side * depth, n)), up) - radius
    if gap <= -2.0 * slop:
        return False
    x = along(p, -0.5 * gap - radius, up)
    for c in range(3):
        row[1 + c], row[4 + c] = x[c], d[c]
    row[7] = -gap
    return True
