"""Where colliders are, how far they have moved, and which of them are near each other.

The list of near pairs is one of Verlet's: pairs whose boxes, made larger by half a margin on every side, overlap stay
the only ones that can touch until some collider has moved by more than half the margin.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from delassus.contact.collision.layout import CENTRE, CORE, HALF, HALF_SPACE, KIND, LINK, RADIUS, SPHERE
from delassus.contact.solvers.compiled import compiled
from delassus.model.rotations import Array


@compiled
def place(poses: Array, shapes: Array, local: Array, world: Array) -> None:
    """Poses ``[R p]`` of colliders in the world, from those of links."""
    for i in range(shapes.shape[0]):
        link = int(shapes[i, LINK])
        at, own, out = poses[max(link, 0)], local[i], world[i]
        for r in range(3):
            if link < 0:
                for c in range(4):
                    out[r, c] = own[r, c]
            else:
                for c in range(4):
                    out[r, c] = at[r, 0] * own[0, c] + at[r, 1] * own[1, c] + at[r, 2] * own[2, c]
                out[r, 3] += at[r, 3]


@compiled
def stays_near(shapes: Array, world: Array, before: Array, most: float) -> bool:
    """Whether no point of any collider is further than ``most`` from where it was; no also where poses are not finite.

    A turn by the angle θ moves a point at distance r from the centre by at most ``2 r sin(θ/2)``, which is
    ``r ‖ΔR‖ / √2`` in the Frobenius norm.
    """
    for i in range(shapes.shape[0]):
        if shapes[i, LINK] < 0:
            continue
        new, old = world[i], before[i]
        shift = turn = 0.0
        for r in range(3):
            step = new[r, 3] - old[r, 3]
            for c in range(3):
                difference = new[r, c] - old[r, c]
                turn += difference * difference
                step += difference * shapes[i, CENTRE + c]
            shift += step * step
        if not math.sqrt(shift) + shapes[i, CORE] * math.sqrt(0.5 * turn) <= most:
            return False
    return True


@compiled
def boxes_around(shapes: Array, world: Array, extra: float, low: Array, high: Array) -> None:
    """Boxes along the axes of the world that hold each collider and ``extra`` around it."""
    for i in range(shapes.shape[0]):
        T = world[i]
        for r in range(3):
            middle, half = T[r, 3], extra
            for c in range(3):
                middle += T[r, c] * shapes[i, CENTRE + c]
                if shapes[i, KIND] != SPHERE:
                    half += abs(T[r, c]) * shapes[i, HALF + c]
            if shapes[i, KIND] == SPHERE:
                half += shapes[i, RADIUS]
            low[i, r], high[i, r] = middle - half, middle + half


@compiled
def near_pairs(
    shapes: Array, world: Array, allowed: NDArray[np.bool_], order: NDArray[np.int64], low: Array, high: Array,
    reach: float, out: NDArray[np.int64],
) -> int:  # fmt: skip
    """Write numbers ``i n + j``, i < j, of near pairs, as many as fit; returns how many there are.

    ``order`` sorts colliders by ``low[:, 0]`` (sweep and prune); half spaces have no boxes, and are near to what is
    within ``reach`` of their planes.
    """
    n, count = shapes.shape[0], 0
    for a in range(n):
        i = order[a]
        if shapes[i, KIND] == HALF_SPACE:
            T = world[i]
            for j in range(n):
                if not allowed[i, j]:
                    continue
                height, S = 0.0, world[j]
                for r in range(3):
                    middle = S[r, 3] - T[r, 3]
                    for c in range(3):
                        middle += S[r, c] * shapes[j, CENTRE + c]
                    height += T[r, 2] * middle
                if height <= shapes[j, RADIUS] + reach:
                    if count < out.size:
                        out[count] = min(i, j) * n + max(i, j)
                    count += 1
            continue
        for b in range(a + 1, n):
            j = order[b]
            if low[j, 0] > high[i, 0]:
                break
            if not allowed[i, j] or shapes[j, KIND] == HALF_SPACE:
                continue
            if low[j, 1] > high[i, 1] or low[i, 1] > high[j, 1] or low[j, 2] > high[i, 2] or low[i, 2] > high[j, 2]:
                continue
            if count < out.size:
                out[count] = min(i, j) * n + max(i, j)
            count += 1
    return count
