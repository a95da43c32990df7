"""Spheres and capsules with each other, and spheres with boxes: distances of points and segments, less radii.

Of shapes A and B, ``n`` points from the core of B to that of A; the contact is midway between the two surfaces.
"""

from __future__ import annotations

import math

import numpy as np

from delassus.contact.collision.layout import BOX, CAPSULE, SIZE
from delassus.contact.collision.planes import write
from delassus.contact.solvers.compiled import compiled
from delassus.model.rotations import Array

PARALLEL = 1e-4
"""Sine of the angle between capsules below which they touch along a line, at its two ends."""


@compiled
def balls(
    ax: float, ay: float, az: float, ra: float, bx: float, by: float, bz: float, rb: float, spare: Array,
    pair: int, sign: float, most: float, out: Array, m: int,
) -> int:  # fmt: skip
    """Contact of two balls; where they have one centre, the normal is the unit vector ``spare``."""
    x, y, z = ax - bx, ay - by, az - bz
    squared = x * x + y * y + z * z
    reach = ra + rb + most
    if squared > reach * reach:
        return m
    distance = math.sqrt(squared)
    n = np.empty(3)
    if distance > 1e-12 * (ra + rb):
        n[0], n[1], n[2] = x / distance, y / distance, z / distance
    else:
        n[:] = spare
    t = 0.5 * (distance + rb - ra)
    return write(out, m, pair, bx + t * n[0], by + t * n[1], bz + t * n[2], n, sign, ra + rb - distance)


@compiled
def across(T: Array) -> Array:
    """Unit vector across the axis of a shape at ``T``, of our choice."""
    return np.array((T[0, 0], T[1, 0], T[2, 0]))


@compiled
def round_pair(a: Array, A: Array, b: Array, B: Array, pair: int, sign: float, most: float, out: Array, m: int) -> int:
    """Contacts of a sphere with a sphere, capsule or box, or of two capsules: ``a`` at ``A`` and ``b`` at ``B``."""
    if a[0] == CAPSULE:
        return capsules(a[SIZE], a[SIZE + 1], A, b[SIZE], b[SIZE + 1], B, pair, sign, most, out, m)
    if b[0] == BOX:
        return ball_on_box(a[SIZE], A, b, B, pair, sign, most, out, m)
    t = 0.0
    if b[0] == CAPSULE:
        t = B[0, 2] * (A[0, 3] - B[0, 3]) + B[1, 2] * (A[1, 3] - B[1, 3]) + B[2, 2] * (A[2, 3] - B[2, 3])
        t = min(max(t, -b[SIZE + 1]), b[SIZE + 1])
    x, y, z = B[0, 3] + t * B[0, 2], B[1, 3] + t * B[1, 2], B[2, 3] + t * B[2, 2]
    return balls(A[0, 3], A[1, 3], A[2, 3], a[SIZE], x, y, z, b[SIZE], across(B), pair, sign, most, out, m)


@compiled
def ball_on_box(
    radius: float, A: Array, b: Array, B: Array, pair: int, sign: float, most: float, out: Array, m: int
) -> int:
    """Contact of a sphere with the nearest point of a box; from inside, through the nearest face."""
    near, inside, slack, face = np.empty(3), True, np.inf, 0
    for c in range(3):
        own = B[0, c] * (A[0, 3] - B[0, 3]) + B[1, c] * (A[1, 3] - B[1, 3]) + B[2, c] * (A[2, 3] - B[2, 3])
        half = b[SIZE + c]
        near[c] = min(max(own, -half), half)
        inside = inside and abs(own) < half
        if half - abs(own) < slack:
            slack, face = half - abs(own), c
    n = np.empty(3)
    if inside:
        side = 1.0 if near[face] >= 0 else -1.0
        gap = -slack
        for r in range(3):
            n[r] = side * B[r, face]
    else:
        gap = 0.0
        for r in range(3):
            n[r] = A[r, 3] - B[r, 3] - B[r, 0] * near[0] - B[r, 1] * near[1] - B[r, 2] * near[2]
            gap += n[r] * n[r]
        gap = math.sqrt(gap)
        if gap > 1e-12 * radius:
            n /= gap
        else:
            side = 1.0 if near[face] >= 0 else -1.0
            for r in range(3):
                n[r] = side * B[r, face]
    if gap - radius > most:
        return m
    t = 0.5 * (gap + radius)  # back from the centre to the middle between the two surfaces
    return write(out, m, pair, A[0, 3] - t * n[0], A[1, 3] - t * n[1], A[2, 3] - t * n[2], n, sign, radius - gap)


@compiled
def capsules(
    ra: float, ha: float, A: Array, rb: float, hb: float, B: Array, pair: int, sign: float, most: float,
    out: Array, m: int,
) -> int:  # fmt: skip
    """Contact of two capsules at the nearest points of their segments; two contacts where they are parallel."""
    dot = a_to = b_to = 0.0
    for r in range(3):
        d = A[r, 3] - B[r, 3]
        dot += A[r, 2] * B[r, 2]
        a_to += A[r, 2] * d
        b_to += B[r, 2] * d
    sine = 1 - dot * dot
    if sine < PARALLEL * PARALLEL:
        side = 1.0 if dot >= 0 else -1.0
        first, last = max(-ha, -a_to - hb), min(ha, -a_to + hb)  # shared stretch, along A
        if last - first > 1e-9 * (ha + hb):
            count = 2
        else:
            count = 1
            first = min(max(0.5 * (first + last), -ha), ha)
        for e in range(count):
            s = first if e == 0 else last
            t = min(max(side * (s + a_to), -hb), hb)
            m = at_points(A, s, ra, B, t, rb, pair, sign, most, out, m)
        return m
    s = min(max((dot * b_to - a_to) / sine, -ha), ha)
    t = b_to + dot * s
    if t > hb or t < -hb:
        t = min(max(t, -hb), hb)
        s = min(max(dot * t - a_to, -ha), ha)
    return at_points(A, s, ra, B, t, rb, pair, sign, most, out, m)


@compiled
def at_points(
    A: Array, s: float, ra: float, B: Array, t: float, rb: float, pair: int, sign: float, most: float,
    out: Array, m: int,
) -> int:  # fmt: skip
    """Contact of two balls at ``s`` and ``t`` along the axes of two capsules."""
    spare = np.empty(3)
    for r in range(3):
        spare[r] = A[(r + 1) % 3, 2] * B[(r + 2) % 3, 2] - A[(r + 2) % 3, 2] * B[(r + 1) % 3, 2]
    length = math.sqrt(spare[0] * spare[0] + spare[1] * spare[1] + spare[2] * spare[2])
    if length > PARALLEL:
        spare /= length
    else:
        spare[:] = across(B)
    return balls(
        A[0, 3] + s * A[0, 2], A[1, 3] + s * A[1, 2], A[2, 3] + s * A[2, 2], ra,
        B[0, 3] + t * B[0, 2], B[1, 3] + t * B[1, 2], B[2, 3] + t * B[2, 2], rb,
        spare, pair, sign, most, out, m,
    )  # fmt: skip
