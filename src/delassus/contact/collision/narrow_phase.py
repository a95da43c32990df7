"""Contacts of the near pairs: those of simple shapes at once, a list of all others for other files."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from delassus.contact.collision.colliders import BOX, CAPSULE, HALF_SPACE, KIND, SPHERE
from delassus.contact.collision.half_spaces import on_plane
from delassus.contact.collision.near_pairs import collider_poses, stays_near
from delassus.contact.collision.spheres_capsules import round_pair
from delassus.contact.collision.vectors import cross, norm, scaled
from delassus.contact.solvers.compiled import compiled
from delassus.model.rotations import Array

FAR, WRONG = -1, -2
"""Instead of a number of contacts: the list of near pairs is out of date; some pose is not finite."""


@compiled
def touch(
    poses: Array, shapes: Array, local: Array, world: Array, before: Array, vertices: Array,
    pairs: NDArray[np.int64], left: NDArray[np.int64], tolerance: float, most_motion: float, out: Array,
) -> int:  # fmt: skip
    """Place colliders and write contacts of simple pairs; returns how many, `FAR` or `WRONG`.

    Rows of ``pairs`` that are not simple are counted in ``left[0]`` and listed from ``left[1]`` on.
    """
    finite = 0.0
    for i in range(poses.shape[0]):
        for r in range(3):
            for c in range(4):
                finite += 0.0 * poses[i, r, c]
    if not finite == 0.0:
        return WRONG
    collider_poses(poses, shapes, local, world)
    if not stays_near(shapes, world, before, most_motion):
        return FAR
    m = waiting = 0
    for k in range(pairs.shape[0]):
        i, j, first = pairs[k, 0], pairs[k, 1], m
        if shapes[i, KIND] > shapes[j, KIND]:
            i, j = j, i
        a, b = shapes[i], shapes[j]
        kind, other = int(a[KIND]), int(b[KIND])
        if other == HALF_SPACE:
            m = on_plane(a, world[i], vertices, world[j], tolerance, out, m)
        elif (kind == SPHERE and other <= BOX) or (kind == CAPSULE and other == CAPSULE):
            m = round_pair(a, world[i], b, world[j], tolerance, out, m)
        else:
            waiting += 1
            left[waiting] = k
        for row in out[first:m]:
            row[0] = k
            if i != pairs[k, 0]:
                row[4], row[5], row[6] = -row[4], -row[5], -row[6]
    left[0] = waiting
    return m


@compiled
def unpack(
    found: Array, pairs: NDArray[np.int64], shapes: Array, material: Array, links: NDArray[np.int64], points: Array,
    frames: Array, depths: Array, friction: Array, restitution: Array, colliders: NDArray[np.int64],
) -> None:  # fmt: skip
    """Spread contacts over the arrays of a contact set; ``material`` has μ and ε of each collider."""
    for k in range(depths.size):
        row, pair = found[k], pairs[int(found[k, 0])]
        i, j = pair[0], pair[1]
        colliders[k, 0], colliders[k, 1] = i, j
        links[k, 0], links[k, 1] = int(shapes[i, 1]), int(shapes[j, 1])
        depths[k] = row[7]
        friction[k] = math.sqrt(material[i, 0] * material[j, 0])
        restitution[k] = math.sqrt(material[i, 1] * material[j, 1])
        points[k, 0], points[k, 1], points[k, 2] = row[1], row[2], row[3]
        n = (row[4], row[5], row[6])
        # first tangent: the normal times the unit vector that is furthest from it
        if abs(n[0]) <= abs(n[1]) and abs(n[0]) <= abs(n[2]):
            t = cross(n, (1.0, 0.0, 0.0))
        elif abs(n[1]) <= abs(n[2]):
            t = cross(n, (0.0, 1.0, 0.0))
        else:
            t = cross(n, (0.0, 0.0, 1.0))
        t = scaled(1.0 / norm(t), t)
        s, F = cross(n, t), frames[k]
        for r in range(3):
            F[r, 0], F[r, 1], F[r, 2] = t[r], s[r], n[r]
