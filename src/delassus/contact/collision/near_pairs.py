"""Where colliders are, how far they have moved, and which of them are near each other.

The list of near pairs is one of Verlet's: each collider's box along the world's axes is made larger on every side, and
pairs whose boxes overlap stay the only ones that can touch until some collider has used up what was added. Boxes that
overlap are found by sorting their lower ends along the axis on which they are spread most.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled
from delassus.contact.collision.colliders import (
    CENTRE,
    CORE,
    HALF,
    HALF_SPACE,
    KIND,
    LINK,
    RADIUS,
    SPHERE,
    Colliders,
    CollisionMemory,
)  # fmt: skip
from delassus.contact.collision.vectors import along, column, dot, row_of
from delassus.spatial.rotations import Array


@compiled
def place_colliders(
    begin: int, end: int, poses: Array, reach: Array, gap: float, colliders: Colliders, space: CollisionMemory
) -> None:
    """Poses ``[R p]`` of some colliders in the world, from those of links, and their centres.

    Where a pair that is not in the list may have a gap of at most ``gap`` and what its two links may move, the list is
    not valid any more. A rotation by the angle θ moves a point at distance r from the centre by at most ``2 r
    sin(θ/2)``, which is ``r ‖ΔR‖ / √2`` in the Frobenius norm.
    """
    shapes, local, world, before, centres = colliders.shapes, colliders.local, space.world, space.before, space.centres
    for i in range(begin, end):
        link, moved, shift, rotated = int(shapes[i, LINK]), 0.5 * gap, 0.0, 0.0
        for r in range(3):
            for c in range(4):
                if link >= 0:
                    at = poses[link, r, 3] if c == 3 else 0.0
                    for k in range(3):
                        at += poses[link, r, k] * local[i, k, c]
                    world[i, r, c] = at
                else:
                    world[i, r, c] = local[i, r, c]
            centres[i, r] = world[i, r, 3]
            for c in range(3):
                centres[i, r] += world[i, r, c] * shapes[i, CENTRE + c]
        if link >= 0:
            for r in range(3):
                step = world[i, r, 3] - before[i, r, 3]
                for c in range(3):
                    difference = world[i, r, c] - before[i, r, c]
                    rotated += difference * difference
                    step += difference * shapes[i, CENTRE + c]
                shift += step * step
            moved += math.sqrt(shift) + shapes[i, CORE] * math.sqrt(0.5 * rotated) + reach[link]
        if not moved <= space.bounds[i, 6]:
            space.counts[1] = 0


@compiled
def list_pairs(reach: Array, gap: float, margin: float, colliders: Colliders, space: CollisionMemory) -> int:
    """List near pairs anew, for motions of half a margin; returns how many there are, also if there is no room."""
    shapes, world, bounds, order, pairs = colliders.shapes, space.world, space.bounds, space.order, space.pairs
    n, count, axis, widest = shapes.shape[0], 0, 0, -1.0
    for i in range(n):
        link = int(shapes[i, LINK])
        space.bounds[i, 6] = 0.5 * margin + gap + (2.0 * reach[link] if link >= 0 else 0.0)
        for r in range(3):
            half = shapes[i, RADIUS]
            if shapes[i, KIND] != SPHERE:
                half = 0.0
                for c in range(3):
                    half += abs(world[i, r, c]) * shapes[i, HALF + c]
            half += space.bounds[i, 6]
            bounds[i, r], bounds[i, 3 + r] = space.centres[i, r] - half, space.centres[i, r] + half
            for c in range(4):
                space.before[i, r, c] = world[i, r, c]
    for r in range(3):
        total = squares = 0.0
        for i in range(n):
            if shapes[i, LINK] >= 0:
                total += space.centres[i, r]
                squares += space.centres[i, r] * space.centres[i, r]
        if n * squares - total * total > widest:
            axis, widest = r, n * squares - total * total
    for k in range(1, n):  # nearly sorted since the last time
        i, p = order[k], k
        while p > 0 and bounds[order[p - 1], axis] > bounds[i, axis]:
            order[p] = order[p - 1]
            p -= 1
        order[p] = i
    first, second = (axis + 1) % 3, (axis + 2) % 3
    for k in range(n):
        i = order[k]
        if shapes[i, KIND] == HALF_SPACE:
            for j in range(n):
                height = dot(along(row_of(space.centres, j), -1.0, column(world[i], 3)), column(world[i], 2))
                if colliders.allowed[i, j] and height <= shapes[j, RADIUS] + 2.0 * space.bounds[j, 6]:
                    count = add(pairs, count, i, j)
            continue
        for p in range(k + 1, n):
            j = order[p]
            if bounds[j, axis] > bounds[i, 3 + axis]:
                break
            if (
                bounds[j, first] <= bounds[i, 3 + first] and bounds[i, first] <= bounds[j, 3 + first]
                and bounds[j, second] <= bounds[i, 3 + second] and bounds[i, second] <= bounds[j, 3 + second]
                and colliders.allowed[i, j] and shapes[j, KIND] != HALF_SPACE
            ):  # fmt: skip
                count = add(pairs, count, i, j)
    if count <= pairs.shape[0]:
        sort_pairs(pairs, count, n, space.ranges, space.ends)
        for k in range(count):
            if shapes[pairs[k, 0], LINK] < 0:  # the world as the second
                pairs[k, 0], pairs[k, 1] = pairs[k, 1], pairs[k, 0]
    return count


@compiled
def add(pairs: NDArray[np.int64], count: int, i: int, j: int) -> int:
    """Add a pair to a list if there is room; returns how many there are then, or would be."""
    if count < pairs.shape[0]:
        pairs[count, 0], pairs[count, 1] = min(i, j), max(i, j)
    return count + 1


@compiled
def sort_pairs(
    pairs: NDArray[np.int64], count: int, n: int, ranges: NDArray[np.int64], seconds: NDArray[np.int64]
) -> None:
    """Sort pairs of numbers below ``n``, each the lower one first; memory for (2, n + 1) and (count,) others."""
    starts, ends = ranges[0], ranges[1]
    for i in range(n + 1):
        starts[i] = 0
    for k in range(count):
        starts[pairs[k, 0] + 1] += 1
    for i in range(n):
        starts[i + 1] += starts[i]
        ends[i] = starts[i]
    for k in range(count):
        i, j = pairs[k, 0], pairs[k, 1]
        p = ends[i]
        while p > starts[i] and seconds[p - 1] > j:
            seconds[p] = seconds[p - 1]
            p -= 1
        seconds[p] = j
        ends[i] += 1
    for i in range(n):
        for k in range(starts[i], starts[i + 1]):
            pairs[k, 0], pairs[k, 1] = i, seconds[k]
