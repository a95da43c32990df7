"""Spheres and capsules with each other, spheres with boxes and cylinders: distances of points and segments, less radii.

Of shapes A and B, ``n`` points from the core of B to that of A; the contact is midway between the two surfaces.
"""

from __future__ import annotations

from collections.abc import Callable

from delassus.compiler.jit.compile import compiled
from delassus.compiler.jit.loop_ops import emitted
from delassus.constraints.shapes import nearest_points
from delassus.contact.collision.colliders import BOX, CAPSULE, CYLINDER, RADIUS, SIZE, Solid
from delassus.contact.collision.vectors import (
    Vector,
    along,
    column,
    dot,
    in_frame,
    in_world,
    write,
)
from delassus.spatial.rotations import Array

from_block: Callable[[Vector, Vector, float], tuple[float, Vector]] = emitted(nearest_points.from_block)
from_cylinder: Callable[[Vector, float, float, float], tuple[float, Vector]] = emitted(nearest_points.from_cylinder)
from_point: Callable[[Vector, Vector, float], tuple[float, Vector]] = emitted(nearest_points.from_point)
across: Callable[[Vector, Vector, Vector], Vector] = emitted(nearest_points.across)
side_by_side: Callable[..., tuple[tuple[float, float], tuple[float, float], float]] = emitted(
    nearest_points.side_by_side
)


@compiled
def ball_pair(
    x: Vector, y: Vector, radii: tuple[float, float], spare: Vector, size: float, most: float, out: Array, m: int
) -> int:
    """Contact of two balls on axes of shapes of a size; where they have one centre, along the unit vector ``spare``."""
    distance, n = from_point(along(x, -1.0, y), spare, size)
    gap = distance - (radii[0] + radii[1])
    return m if gap > most else write(out, m, along(y, 0.5 * gap + radii[1], n), n, -gap)


@compiled
def round_pair(a: Solid, b: Solid, most: float, out: Array, m: int) -> int:
    """Contacts of a sphere with a sphere, capsule, box or cylinder, or of two capsules."""
    if a.shape[0] == CAPSULE:
        return capsule_pair(a, b, most, out, m)
    radius, x, y = a.shape[SIZE], column(a.pose, 3), column(b.pose, 3)
    if b.shape[0] == BOX or b.shape[0] == CYLINDER:
        own, half = in_frame(b.pose, along(x, -1.0, y)), (b.shape[SIZE], b.shape[SIZE + 1], b.shape[SIZE + 2])
        gap, n = from_block(own, half, radius) if b.shape[0] == BOX else from_cylinder(own, half[0], half[1], radius)
        if gap - radius > most:
            return m
        n = in_world(b.pose, n)
        return write(out, m, along(x, -0.5 * (gap + radius), n), n, radius - gap)
    if b.shape[0] == CAPSULE:
        t = dot(column(b.pose, 2), along(x, -1.0, y))
        y = along(y, min(max(t, -b.shape[SIZE + 1]), b.shape[SIZE + 1]), column(b.pose, 2))
    size = a.shape[RADIUS] + b.shape[RADIUS]
    return ball_pair(x, y, (radius, b.shape[SIZE]), column(b.pose, 0), size, most, out, m)


@compiled
def capsule_pair(a: Solid, b: Solid, most: float, out: Array, m: int) -> int:
    """Contact of two capsules at the nearest points of their segments; two contacts where they are side by side."""
    size, radii = a.shape[RADIUS] + b.shape[RADIUS], (a.shape[SIZE], b.shape[SIZE])
    x, y, of_a, of_b = column(a.pose, 3), column(b.pose, 3), column(a.pose, 2), column(b.pose, 2)
    spare = across(of_a, of_b, column(b.pose, 0))
    first, last, twice = side_by_side(along(x, -1.0, y), of_a, a.shape[SIZE + 1], of_b, b.shape[SIZE + 1])
    m = ball_pair(along(x, first[0], of_a), along(y, first[1], of_b), radii, spare, size, most, out, m)
    if twice > 0.0:
        m = ball_pair(along(x, last[0], of_a), along(y, last[1], of_b), radii, spare, size, most, out, m)
    return m
