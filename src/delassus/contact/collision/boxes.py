"""Two boxes: which of their 15 axes separates them most, or keeps them apart least (separating axis theorem).

The axes are three face normals of each box and the nine products of their edges. Where the boxes overlap, the least
overlap over the axes is the depth. Where they do not, the largest separation is a lower bound of the distance, and the
distance itself if a corner over the face, or crossing edges, are that far apart.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.contact.collision.colliders import BOX, CENTRE, HALF, KIND, SIZE
from delassus.contact.collision.patches import patch
from delassus.contact.collision.vectors import Vector, along, column, cross, dot, norm, point_at, scaled, write
from delassus.contact.solvers.compiled import compiled
from delassus.model.rotations import Array

CROSSING = 1e-4
"""Sine of the angle below which two edges count as parallel: their product says nothing that face normals do not."""

EDGE_BIAS = 1e-6
"""By how much, as a part of the boxes' size, an edge axis must be better than a face: patches do not come and go."""

EXACT = 1e-9
"""Part of the boxes' size by which the gap of a patch may differ from the separation along its axis."""


@compiled
def reach(half: Array, T: Array, n: Vector) -> Any:
    """How far a box of given half edges reaches from its centre along ``n``."""
    return (
        half[0] * abs(dot(column(T, 0), n)) + half[1] * abs(dot(column(T, 1), n)) + half[2] * abs(dot(column(T, 2), n))
    )


@compiled
def separation(a: Array, A: Array, b: Array, B: Array) -> tuple[float, Vector, int]:
    """Largest separation (m) of the boxes around shapes ``a`` at ``A`` and ``b`` at ``B``; negative: the least overlap.

    Also the unit axis, from B to A, and its number: 0–2 faces of A, 3–5 faces of B, 6–14 edges.
    """
    d = point_at(A, (a[CENTRE], a[CENTRE + 1], a[CENTRE + 2]))
    d = along(d, -1.0, point_at(B, (b[CENTRE], b[CENTRE + 1], b[CENTRE + 2])))
    half_a, half_b = a[HALF : HALF + 3], b[HALF : HALF + 3]
    best, which, axis, bias = -np.inf, 0, d, 0.0
    for k in range(15):
        if k < 6:
            n, length = column(A, k) if k < 3 else column(B, k - 3), 1.0
        else:
            n = cross(column(A, (k - 6) // 3), column(B, (k - 6) % 3))
            length = norm(n)
            if length < CROSSING:
                continue
        total = reach(half_a, A, n) + reach(half_b, B, n)
        apart = (abs(dot(d, n)) - total) / length
        if apart > best + (bias if k >= 6 else 0.0):
            best, which, axis = apart, k, scaled(1.0 / length, n)
            if k >= 6:
                bias = 0.0
        if k < 6:
            bias = max(bias, EDGE_BIAS * total)
    return best, axis if dot(axis, d) >= 0 else scaled(-1.0, axis), which


@compiled
def box_pair(a: Array, A: Array, b: Array, B: Array, most: float, hulls: Any, out: Array, m: int) -> int:
    """Contacts of two boxes; −1 if their distance is not known to be the separation along an axis."""
    apart, n, which = separation(a, A, b, B)
    if apart > most:
        return m
    if which >= 6:
        end = crossing_edges(a, A, b, B, (which - 6) // 3, (which - 6) % 3, n, apart, out, m)
    else:
        end = patch(a, A, b, B, hulls, n, most, out, m)
    if end == m:
        return -1
    size = a[SIZE] + a[SIZE + 1] + a[SIZE + 2] + b[SIZE] + b[SIZE + 1] + b[SIZE + 2]
    return end if apart <= 0 or out[m:end, 7].max() >= -apart - EXACT * size else -1


@compiled
def crossing_edges(
    a: Array, A: Array, b: Array, B: Array, i: int, j: int, n: Vector, apart: float, out: Array, m: int
) -> int:
    """Contact midway between the edges along axis ``i`` of A and ``j`` of B that are nearest along ``n``."""
    p, q = column(A, 3), column(B, 3)
    for c in range(3):
        if c != i:
            p = along(p, math.copysign(a[SIZE + c], -dot(column(A, c), n)), column(A, c))
        if c != j:
            q = along(q, math.copysign(b[SIZE + c], dot(column(B, c), n)), column(B, c))
    edge_a, edge_b, d = column(A, i), column(B, j), along(q, -1.0, p)
    cosine, to_a, to_b = dot(edge_a, edge_b), dot(edge_a, d), dot(edge_b, d)
    s = (to_a - cosine * to_b) / (1 - cosine * cosine)
    t = cosine * s - to_b
    slack = EXACT * (a[SIZE + i] + b[SIZE + j])
    if apart > 0 and (abs(s) > a[SIZE + i] + slack or abs(t) > b[SIZE + j] + slack):
        return m
    s, t = min(max(s, -a[SIZE + i]), a[SIZE + i]), min(max(t, -b[SIZE + j]), b[SIZE + j])
    x, y = along(p, s, edge_a), along(q, t, edge_b)
    return write(out, m, along(scaled(0.5, x), 0.5, y), n, -apart)


@compiled
def sort_out(
    shapes: Array, world: Array, pairs: NDArray[np.int64], left: NDArray[np.int64], most: float, hulls: Any,
    out: Array, m: int,
) -> int:  # fmt: skip
    """Contacts of the boxes among the pairs listed in ``left``; keeps there what ``coal`` has to be asked about."""
    kept = 0
    for k in range(1, left[0] + 1):
        pair = left[k]
        i, j = pairs[pair, 0], pairs[pair, 1]
        if shapes[i, KIND] == BOX and shapes[j, KIND] == BOX:
            end = box_pair(shapes[i], world[i], shapes[j], world[j], most, hulls, out, m)
            if end >= 0:
                out[m:end, 0] = pair
                m = end
                continue
        elif separation(shapes[i], world[i], shapes[j], world[j])[0] > most:
            continue
        kept += 1
        left[kept] = pair
    left[0] = kept
    return m
