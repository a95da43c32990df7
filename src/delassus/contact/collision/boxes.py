"""Two boxes: which of their 15 axes separates them most, or keeps them apart least (separating axis theorem).

The axes are three face normals of each box and the nine products of their edges. Where the boxes overlap, the least
overlap over the axes is the depth. Where they do not, the largest separation is a lower bound of the distance, and the
distance itself if a corner over the face is that far away.
"""

from __future__ import annotations

import math

import numpy as np

from delassus.compiler.jit.compile import compiled
from delassus.contact.collision.colliders import RADIUS, SIZE
from delassus.contact.collision.vectors import Vector, along, column, cross, dot, norm, scaled
from delassus.spatial.rotations import Array

CROSSING = 1e-7
"""Sine of the angle below which two edges count as parallel: their product says nothing that face normals do not."""

BIAS = 1e-10
"""By how much, as a part of the boxes' size, a face of B must be better than those of A, and an edge axis than a face:
what rests flatly keeps its normal from step to step."""


@compiled
def separation(a: Array, A: Array, b: Array, B: Array, most: float, R: Array) -> tuple[float, Vector, bool]:
    """Largest separation (m) of two boxes along their axes; negative: the least overlap. Beyond ``most``: some.

    Also the unit axis, from B to A, and whether it is the normal of a face. ``R`` is memory for (4, 4) numbers: of the
    axes of A along those of B, and of what is between the centres along all.
    """
    d = along(column(A, 3), -1.0, column(B, 3))
    best, which = -np.inf, 0
    for i in range(3):
        R[i, 3] = A[0, i] * d[0] + A[1, i] * d[1] + A[2, i] * d[2]
        R[3, i] = B[0, i] * d[0] + B[1, i] * d[1] + B[2, i] * d[2]
        apart = abs(R[i, 3]) - a[SIZE + i]
        for j in range(3):
            R[i, j] = A[0, i] * B[0, j] + A[1, i] * B[1, j] + A[2, i] * B[2, j]
            apart -= b[SIZE + j] * abs(R[i, j])
        if apart > best:
            best, which = apart, i
            if best > most:
                return best, d, True
    bias = BIAS * (a[RADIUS] + b[RADIUS])
    for j in range(3):
        apart = abs(R[3, j]) - b[SIZE + j]
        for i in range(3):
            apart -= a[SIZE + i] * abs(R[i, j])
        if apart > best + bias:
            best, which, bias = apart, 3 + j, 0.0
            if best > most:
                return best, d, True
    bias = BIAS * (a[RADIUS] + b[RADIUS])
    for i in range(3):
        i1, i2 = (i + 1) % 3, (i + 2) % 3
        for j in range(3):
            sine = math.sqrt(R[i1, j] * R[i1, j] + R[i2, j] * R[i2, j])
            if sine < CROSSING:
                continue
            j1, j2 = (j + 1) % 3, (j + 2) % 3
            reach = a[SIZE + i1] * abs(R[i2, j]) + a[SIZE + i2] * abs(R[i1, j])
            reach += b[SIZE + j1] * abs(R[i, j2]) + b[SIZE + j2] * abs(R[i, j1])
            apart = abs(R[i2, 3] * R[i1, j] - R[i1, 3] * R[i2, j]) - reach
            if apart > (best + bias) * sine:
                best, which, bias = apart / sine, 6 + 3 * i + j, 0.0
    if which < 6:
        n = column(A, which) if which < 3 else column(B, which - 3)
    else:
        n = cross(column(A, (which - 6) // 3), column(B, (which - 6) % 3))
        n = scaled(1.0 / norm(n), n)
    return best, n if dot(n, d) >= 0 else scaled(-1.0, n), which < 6
