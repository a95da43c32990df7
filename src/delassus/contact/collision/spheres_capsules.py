"""Spheres and capsules with each other, spheres with boxes and cylinders: distances of points and segments, less radii.

Of shapes A and B, ``n`` points from the core of B to that of A; the contact is midway between the two surfaces.
"""

from __future__ import annotations

import math

import numpy as np

from delassus.compiler.jit.compile import compiled
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
    if b.shape[0] == BOX:
        half = (b.shape[SIZE], b.shape[SIZE + 1], b.shape[SIZE + 2])
        return sphere_box(a.shape[SIZE], a.pose, half, b.pose, most, out, m)
    if b.shape[0] == CYLINDER:
        return sphere_cylinder(a.shape[SIZE], a.pose, b.shape[SIZE], b.shape[SIZE + 1], b.pose, most, out, m)
    y = column(b.pose, 3)
    if b.shape[0] == CAPSULE:
        t = dot(column(b.pose, 2), along(column(a.pose, 3), -1.0, y))
        y = along(y, min(max(t, -b.shape[SIZE + 1]), b.shape[SIZE + 1]), column(b.pose, 2))
    return sphere_sphere(column(a.pose, 3), a.shape[SIZE], y, b.shape[SIZE], column(b.pose, 0), most, out, m)


@compiled
def sphere_box(radius: float, A: Array, half: Vector, B: Array, most: float, out: Array, m: int) -> int:
    """Contact of a sphere with the nearest point of a box; from inside, through the nearest face."""
    own = in_frame(B, along(column(A, 3), -1.0, column(B, 3)))
    near = (
        min(max(own[0], -half[0]), half[0]), min(max(own[1], -half[1]), half[1]), min(max(own[2], -half[2]), half[2]),
    )  # fmt: skip
    slack, face = np.inf, 0
    for c in range(3):
        if half[c] - abs(own[c]) < slack:
            slack, face = half[c] - abs(own[c]), c
    away = along(own, -1.0, near)
    gap = norm(away) if slack <= 0 else -slack
    if gap > 1e-12 * radius:
        n = in_world(B, scaled(1.0 / gap, away))
    else:
        n = scaled(1.0 if near[face] >= 0 else -1.0, column(B, face))
    if gap - radius > most:
        return m
    # back from the centre to the middle between the two surfaces
    return write(out, m, along(column(A, 3), -0.5 * (gap + radius), n), n, radius - gap)


@compiled
def sphere_cylinder(
    radius: float, A: Array, round: float, half: float, B: Array, most: float, out: Array, m: int
) -> int:
    """Contact of a sphere with the nearest point of a cylinder; from inside, through the nearer of base and side."""
    own = in_frame(B, along(column(A, 3), -1.0, column(B, 3)))
    across = math.sqrt(own[0] * own[0] + own[1] * own[1])
    side, up = across - round, abs(own[2]) - half
    u = (own[0] / across, own[1] / across) if across > 1e-12 * round else (1.0, 0.0)
    gap = max(side, up)
    if gap - radius > most:
        return m
    if side > 0 and up > 0:  # the rim
        gap = math.sqrt(side * side + up * up)
        if gap - radius > most:
            return m
        r, z = side / gap, up / gap
    else:
        r, z = (1.0, 0.0) if side > up else (0.0, 1.0)
    n = in_world(B, (r * u[0], r * u[1], math.copysign(z, own[2])))
    return write(out, m, along(column(A, 3), -0.5 * (gap + radius), n), n, radius - gap)


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
