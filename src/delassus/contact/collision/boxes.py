"""Two boxes: which of their 15 axes separates them most, or keeps them apart least (separating axis theorem).

The axes are three face normals of each box and the nine products of their edges. Where the boxes overlap, the least
overlap over the axes is the depth. Where they do not, the largest separation is a lower bound of the distance, and the
distance itself if a corner over the face, or crossing edges, are that far apart.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from delassus.contact.collision.features import patch
from delassus.contact.collision.layout import BOX, CENTRE, HALF, KIND, SIZE
from delassus.contact.collision.planes import write
from delassus.contact.solvers.compiled import compiled
from delassus.model.rotations import Array

CROSSING = 1e-4
"""Sine of the angle below which two edges count as parallel: their product says nothing that face normals do not."""

EDGE_BIAS = 1e-6
"""By how much, as a part of the boxes' size, an edge axis must be better than a face: patches do not come and go."""

EXACT = 1e-9
"""Part of the boxes' size by which the gap of a patch may differ from the separation along its axis."""


@compiled
def separation(a: Array, A: Array, b: Array, B: Array, n: Array) -> tuple[float, int]:
    """Largest separation (m) of the boxes around shapes ``a`` at ``A`` and ``b`` at ``B``; negative: the least overlap.

    Writes the unit axis to ``n``, from B to A, and also returns its number: 0–2 faces of A, 3–5 faces of B, 6–14 edges.
    """
    d = np.empty(3)
    for r in range(3):
        d[r] = A[r, 3] - B[r, 3]
        for c in range(3):
            d[r] += A[r, c] * a[CENTRE + c] - B[r, c] * b[CENTRE + c]
    dots = np.empty((3, 3))
    for i in range(3):
        for j in range(3):
            dots[i, j] = A[0, i] * B[0, j] + A[1, i] * B[1, j] + A[2, i] * B[2, j]
    best, which, size = -np.inf, 0, 0.0
    for k in range(6):
        i, own = k % 3, k < 3
        along, reach = 0.0, a[HALF + i] if own else b[HALF + i]
        for r in range(3):
            along += d[r] * (A[r, i] if own else B[r, i])
            reach += b[HALF + r] * abs(dots[i, r]) if own else a[HALF + r] * abs(dots[r, i])
        size = max(size, reach)
        if abs(along) - reach > best:
            best, which = abs(along) - reach, k
    bias = EDGE_BIAS * size
    for k in range(9):
        i, j = k // 3, k % 3
        x, y, z = (
            A[1, i] * B[2, j] - A[2, i] * B[1, j],
            A[2, i] * B[0, j] - A[0, i] * B[2, j],
            A[0, i] * B[1, j] - A[1, i] * B[0, j],
        )
        length = math.sqrt(x * x + y * y + z * z)
        if length < CROSSING:
            continue
        reach = 0.0
        for r in range(3):
            reach += a[HALF + r] * abs(A[0, r] * x + A[1, r] * y + A[2, r] * z)
            reach += b[HALF + r] * abs(B[0, r] * x + B[1, r] * y + B[2, r] * z)
        apart = (abs(d[0] * x + d[1] * y + d[2] * z) - reach) / length
        if apart > best + bias:
            best, which, bias = apart, 6 + k, 0.0
            n[0], n[1], n[2] = x / length, y / length, z / length
    if which < 6:
        for r in range(3):
            n[r] = A[r, which] if which < 3 else B[r, which - 3]
    if n[0] * d[0] + n[1] * d[1] + n[2] * d[2] < 0:
        for r in range(3):
            n[r] = -n[r]
    return best, which


@compiled
def box_pair(
    a: Array, A: Array, b: Array, B: Array, pair: int, most: float, empty: Array, none: NDArray[np.int64],
    out: Array, m: int,
) -> int:  # fmt: skip
    """Contacts of two boxes; −1 if their distance is not known to be the separation along an axis."""
    n = np.empty(3)
    apart, which = separation(a, A, b, B, n)
    if apart > most:
        return m
    slack = EXACT * (a[SIZE] + a[SIZE + 1] + a[SIZE + 2] + b[SIZE] + b[SIZE + 1] + b[SIZE + 2])
    if which >= 6:
        end = crossing_edges(a, A, b, B, (which - 6) // 3, (which - 6) % 3, n, apart, pair, out, m)
    else:
        end = patch(a, A, none, b, B, none, empty, none, none, empty, n, pair, most, out, m)
    if apart <= 0 and end > m:
        return end
    deepest = -np.inf
    for e in range(m, end):
        deepest = max(deepest, out[e, 7])
    return end if deepest >= -apart - slack and end > m else -1


@compiled
def crossing_edges(
    a: Array, A: Array, b: Array, B: Array, i: int, j: int, n: Array, apart: float, pair: int, out: Array, m: int
) -> int:
    """Contact midway between the edges along axis ``i`` of A and ``j`` of B that are nearest along ``n``."""
    p, q = np.empty(3), np.empty(3)
    for r in range(3):
        p[r], q[r] = A[r, 3], B[r, 3]
    for c in range(3):
        toward = side = 0.0
        for r in range(3):
            toward -= A[r, c] * n[r]
            side += B[r, c] * n[r]
        for r in range(3):
            if c != i:
                p[r] += math.copysign(a[SIZE + c], toward) * A[r, c]
            if c != j:
                q[r] += math.copysign(b[SIZE + c], side) * B[r, c]
    dot = to_a = to_b = 0.0
    for r in range(3):
        dot += A[r, i] * B[r, j]
        to_a += A[r, i] * (q[r] - p[r])
        to_b += B[r, j] * (q[r] - p[r])
    s = (to_a - dot * to_b) / (1 - dot * dot)
    t = dot * s - to_b
    slack = EXACT * (a[SIZE + i] + b[SIZE + j])
    if apart > 0 and (abs(s) > a[SIZE + i] + slack or abs(t) > b[SIZE + j] + slack):
        return m
    s, t = min(max(s, -a[SIZE + i]), a[SIZE + i]), min(max(t, -b[SIZE + j]), b[SIZE + j])
    x = 0.5 * (p[0] + s * A[0, i] + q[0] + t * B[0, j])
    y = 0.5 * (p[1] + s * A[1, i] + q[1] + t * B[1, j])
    z = 0.5 * (p[2] + s * A[2, i] + q[2] + t * B[2, j])
    return write(out, m, pair, x, y, z, n, 1.0, -apart)


@compiled
def sort_out(
    shapes: Array, world: Array, pairs: NDArray[np.int64], left: NDArray[np.int64], most: float,
    empty: Array, none: NDArray[np.int64], out: Array, m: int,
) -> int:  # fmt: skip
    """Contacts of the boxes among the pairs listed in ``left``; keeps there what others have to look at."""
    n, kept = np.empty(3), 0
    for k in range(1, left[0] + 1):
        pair = left[k]
        i, j = pairs[pair, 0], pairs[pair, 1]
        if shapes[i, KIND] == BOX and shapes[j, KIND] == BOX:
            end = box_pair(shapes[i], world[i], shapes[j], world[j], pair, most, empty, none, out, m)
            if end >= 0:
                m = end
                continue
        elif separation(shapes[i], world[i], shapes[j], world[j], n)[0] > most:
            continue
        kept += 1
        left[kept] = pair
    left[0] = kept
    return m
