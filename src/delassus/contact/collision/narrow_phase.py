"""Contacts of the near pairs: those of simple shapes at once, a list of all others for other files."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from delassus.contact.collision.layout import BOX, CAPSULE, FIRST_VERTEX, HALF_SPACE, HULL, KIND, N_VERTICES, SPHERE
from delassus.contact.collision.motion import place, stays_near
from delassus.contact.collision.planes import corners_on_plane, on_plane
from delassus.contact.collision.spheres_capsules import round_pair
from delassus.contact.solvers.compiled import compiled
from delassus.model.rotations import Array

FAR, WRONG = -1, -2
"""Instead of a number of contacts: the list of near pairs is out of date; some pose is not finite."""


@compiled
def touch(
    poses: Array, shapes: Array, local: Array, world: Array, before: Array, meshes: NDArray[np.int64],
    vertices: Array, pairs: NDArray[np.int64], left: NDArray[np.int64], tolerance: float, most_motion: float,
    out: Array,
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
    place(poses, shapes, local, world)
    if not stays_near(shapes, world, before, most_motion):
        return FAR
    m = waiting = 0
    for k in range(pairs.shape[0]):
        i, j, sign = pairs[k, 0], pairs[k, 1], 1.0
        if shapes[i, KIND] > shapes[j, KIND]:
            i, j, sign = j, i, -1.0
        a, b = shapes[i], shapes[j]
        kind, other = int(a[KIND]), int(b[KIND])
        if other == HALF_SPACE:
            if kind >= HULL:
                start = meshes[i, FIRST_VERTEX]
                own = vertices[start : start + meshes[i, N_VERTICES]]
                m = corners_on_plane(own, world[i], world[j], k, sign, tolerance, out, m)
            else:
                m = on_plane(a, world[i], world[j], k, sign, tolerance, out, m)
        elif (kind == SPHERE and other <= BOX) or (kind == CAPSULE and other == CAPSULE):
            m = round_pair(a, world[i], b, world[j], k, sign, tolerance, out, m)
        else:
            waiting += 1
            left[waiting] = k
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
        x, y, z = row[4], row[5], row[6]
        points[k, 0], points[k, 1], points[k, 2] = row[1], row[2], row[3]
        # first tangent: the normal times the unit vector that is furthest from it
        if abs(x) <= abs(y) and abs(x) <= abs(z):
            s, t, u = 0.0, z, -y
        elif abs(y) <= abs(z):
            s, t, u = -z, 0.0, x
        else:
            s, t, u = y, -x, 0.0
        length = math.sqrt(s * s + t * t + u * u)
        s, t, u = s / length, t / length, u / length
        F = frames[k]
        F[0, 0], F[1, 0], F[2, 0] = s, t, u
        F[0, 1], F[1, 1], F[2, 1] = y * u - z * t, z * s - x * u, x * t - y * s
        F[0, 2], F[1, 2], F[2, 2] = x, y, z
