"""How far shapes reach in a direction, and so how deep two of them overlap along a given normal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.contact.collision.layout import BOX, CYLINDER, FIRST_VERTEX, HULL, KIND, N_VERTICES, SIZE, SPHERE
from delassus.contact.solvers.compiled import compiled
from delassus.model.rotations import Array


@compiled
def extent(shape: Array, T: Array, mesh: NDArray[np.int64], vertices: Array, d: Array, sign: float) -> Any:
    """Largest ``sign`` ``d``·x over the points x of a shape, of which one is its origin's place in the world."""
    reach, x = 0.0, np.empty(3)
    for c in range(3):
        x[c] = sign * (T[0, c] * d[0] + T[1, c] * d[1] + T[2, c] * d[2])
        reach += sign * d[c] * T[c, 3]
    kind = int(shape[KIND])
    if kind == BOX:
        return reach + shape[SIZE] * abs(x[0]) + shape[SIZE + 1] * abs(x[1]) + shape[SIZE + 2] * abs(x[2])
    if kind == HULL:
        best = -np.inf
        for v in range(mesh[FIRST_VERTEX], mesh[FIRST_VERTEX] + mesh[N_VERTICES]):
            best = max(best, x[0] * vertices[v, 0] + x[1] * vertices[v, 1] + x[2] * vertices[v, 2])
        return reach + best
    if kind == CYLINDER:
        return reach + shape[SIZE] * math.hypot(x[0], x[1]) + shape[SIZE + 1] * abs(x[2])
    if kind == SPHERE:
        return reach + shape[SIZE]
    return reach + shape[SIZE] + shape[SIZE + 1] * abs(x[2])


@compiled
def overlap(
    a: Array, A: Array, mesh_a: NDArray[np.int64], b: Array, B: Array, mesh_b: NDArray[np.int64], vertices: Array,
    n: Array,
) -> Any:  # fmt: skip
    """How far A must move along ``n`` (from B to A) until a plane across it separates the two; negative: a gap."""
    return extent(b, B, mesh_b, vertices, n, 1.0) + extent(a, A, mesh_a, vertices, n, -1.0)
