"""Two boxes: which of their 15 axes separates them most, or keeps them apart least (separating axis theorem).

The axes are three face normals of each box and the nine products of their edges. Where the boxes overlap, the least
overlap over the axes is the depth. Where they do not, the largest separation is a lower bound of the distance, and the
distance itself if a corner over the face is that far away.
"""

from __future__ import annotations

import math

import numpy as np

from delassus.compiler.jit.compile import compiled
from delassus.contact.collision.colliders import RADIUS, SIZE, Solid
from delassus.contact.collision.vectors import Vector, along, column, cross, dot, norm, scaled
from delassus.spatial.rotations import Array

CROSSING = 1e-7
"""Sine of the angle below which two edges count as parallel: their product says nothing that face normals do not."""

BIAS = 1e-10
"""By how much, as a part of the boxes' size, a face of B must be better than those of A, and an edge axis than a face:
what rests flatly keeps its normal from step to step."""


@compiled
def separation(a: Solid, b: Solid, most: float, R: Array) -> tuple[float, Vector, bool]:
    """Largest separation (m) of two boxes along their axes; negative: the least overlap. Beyond ``most``: some.

    Also the unit axis, from B to A, and whether it is the normal of a face. ``R`` is memory for (4, 4) numbers: of the
    axes of A along those of B, and of what is between the centres along all.
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
