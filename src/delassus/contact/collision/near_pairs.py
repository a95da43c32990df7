"""Where colliders are, how far they have moved, and which of them are near each other.

The list of near pairs is one of Verlet's: pairs whose boxes, made larger by half a margin on every side, overlap stay
the only ones that can touch until some collider has moved by more than half the margin.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from delassus.contact.collision.colliders import CENTRE, CORE, HALF, HALF_SPACE, KIND, LINK, RADIUS, SPHERE
from delassus.contact.solvers.compiled import compiled
from delassus.model.rotations import Array


@compiled
def collider_poses(poses: Array, shapes: Array, local: Array, world: Array) -> None:
    """Poses ``[R p]`` of colliders in the world, from those of links."""
    for i in range(shapes.shape[0]):
        link = int(shapes[i, LINK])
        at, own, out = poses[max(link, 0)], local[i], world[i]
        for r in range(3):
            for c in range(4):
                moved = at[r, 0] * own[0, c] + at[r, 1] * own[1, c] + at[r, 2] * own[2, c]
                out[r, c] = moved if link >= 0 else own[r, c]
            if link >= 0:
                out[r, 3] += at[r, 3]


@compiled
def stays_near(shapes: Array, world: Array, before: Array, most: float) -> bool:
    """Whether no point of any collider is further than ``most`` from where it was; no also where poses are not finite.

    A rotation by the angle θ moves a point at distance r from the centre by at most ``2 r sin(θ/2)``, which is
    ``r ‖ΔR‖ / √2`` in the Frobenius norm.
    """
    for i in range(shapes.shape[0]):
        if shapes[i, LINK] < 0:
            continue
        new, old = world[i], before[i]
        shift = rotated = 0.0
        for r in range(3):
            step = new[r, 3] - old[r, 3]
            for c in range(3):
                difference = new[r, c] - old[r, c]
                rotated += difference * difference
                step += difference * shapes[i, CENTRE + c]
            shift += step * step
        if not math.sqrt(shift) + shapes[i, CORE] * math.sqrt(0.5 * rotated) <= most:
            return False
    return True


def near_pairs(shapes: Array, world: Array, pairs: NDArray[np.int64], reach: float) -> NDArray[np.int64]:
    """Those of the pairs whose boxes along the world's axes have a gap of at most ``reach``.

    Half spaces have no boxes, and are near to what is within ``reach`` of their planes.
    """
    R, kind, (i, j) = world[:, :, :3], shapes[:, KIND], pairs.T
    centres = np.einsum("nij,nj->ni", R, shapes[:, CENTRE : CENTRE + 3]) + world[:, :, 3]
    half = np.einsum("nij,nj->ni", np.abs(R), shapes[:, HALF : HALF + 3])
    half[kind == SPHERE] = shapes[kind == SPHERE, RADIUS, None]
    gap = (np.abs(centres[i] - centres[j]) - half[i] - half[j]).max(axis=1, initial=-np.inf)
    for plane in np.flatnonzero(kind == HALF_SPACE):
        heights = (centres - world[plane, :, 3]) @ world[plane, :, 2] - shapes[:, RADIUS]
        of_plane = (i == plane) | (j == plane)
        gap[of_plane] = heights[(i + j - plane)[of_plane]]
    return np.ascontiguousarray(pairs[gap <= reach])
