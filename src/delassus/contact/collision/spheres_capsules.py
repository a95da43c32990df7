"""Spheres and capsules with each other, spheres with boxes and cylinders: distances of points and segments, less radii.

Of shapes A and B, ``n`` points from the core of B to that of A; the contact is midway between the two surfaces.
"""

from __future__ import annotations

from collections.abc import Callable

from delassus.compiler.jit.compile import compiled
from delassus.compiler.jit.loop_ops import emitted
from delassus.constraints.shapes import nearest_points
from delassus.contact.collision.colliders import BOX, CAPSULE, CYLINDER, SIZE, Solid
from delassus.contact.collision.vectors import (
    Vector,
    along,
    column,
    cross,
    dot,
    in_frame,
    in_world,
    norm,
    scaled,
    write,
)
from delassus.spatial.rotations import Array

from_block: Callable[[Vector, Vector, float], tuple[float, Vector]] = emitted(nearest_points.from_block)
from_cylinder: Callable[[Vector, float, float, float], tuple[float, Vector]] = emitted(nearest_points.from_cylinder)

PARALLEL = 1e-4
"""Sine of the angle between capsules below which they touch along a line, at its two ends."""


@compiled
def sphere_sphere(x: Vector, ra: float, y: Vector, rb: float, spare: Vector, most: float, out: Array, m: int) -> int:
    """Contact of two balls; where they have one centre, the normal is the unit vector ``spare``."""
    d = along(x, -1.0, y)
    distance = norm(d)
    if distance > ra + rb + most:
        return m
    n = scaled(1.0 / distance, d) if distance > 1e-12 * (ra + rb) else spare
    return write(out, m, along(y, 0.5 * (distance + rb - ra), n), n, ra + rb - distance)


@compiled
def round_pair(a: Solid, b: Solid, most: float, out: Array, m: int) -> int:
    """Contacts of a sphere with a sphere, capsule, box or cylinder, or of two capsules."""
    if a.shape[0] == CAPSULE:
        return capsule_capsule(a, b, most, out, m)
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
    return sphere_sphere(x, radius, y, b.shape[SIZE], column(b.pose, 0), most, out, m)


@compiled
def capsule_capsule(first: Solid, second: Solid, most: float, out: Array, m: int) -> int:
    """Contact of two capsules at the nearest points of their segments; two contacts where they are parallel."""
    A, ra, ha = first.pose, first.shape[SIZE], first.shape[SIZE + 1]
    B, rb, hb = second.pose, second.shape[SIZE], second.shape[SIZE + 1]
    a, b = column(A, 2), column(B, 2)
    d = along(column(A, 3), -1.0, column(B, 3))
    cosine, a_to, b_to = dot(a, b), dot(a, d), dot(b, d)
    sine = 1 - cosine * cosine  # squared
    spare = cross(a, b)
    spare = scaled(1.0 / norm(spare), spare) if norm(spare) > PARALLEL else column(B, 0)
    if sine < PARALLEL * PARALLEL:
        begin, end = max(-ha, -a_to - hb), min(ha, -a_to + hb)  # shared stretch, along A
        if end - begin <= 1e-9 * (ha + hb):
            begin = end = min(max(0.5 * (begin + end), -ha), ha)
        for e in range(2 if end > begin else 1):
            s = begin if e == 0 else end
            t = min(max(b_to + cosine * s, -hb), hb)
            s = min(max(cosine * t - a_to, -ha), ha)
            m = sphere_sphere(along(column(A, 3), s, a), ra, along(column(B, 3), t, b), rb, spare, most, out, m)
        return m
    s = min(max((cosine * b_to - a_to) / sine, -ha), ha)
    t = b_to + cosine * s
    if t > hb or t < -hb:
        t = min(max(t, -hb), hb)
        s = min(max(cosine * t - a_to, -ha), ha)
    return sphere_sphere(along(column(A, 3), s, a), ra, along(column(B, 3), t, b), rb, spare, most, out, m)
