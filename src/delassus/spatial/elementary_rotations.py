"""Constant rotations as the fewest rotations about coordinate axes, times a signed permutation if it helps."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np

from delassus.model.rotations import Array
from delassus.spatial.elementary_displacements import PlanarRotation, SignedPermutation


def elementary_rotations(R: Array) -> tuple[tuple[PlanarRotation, ...], SignedPermutation | None]:
    """Factors of a rotation ``R`` (3 × 3, child axes → parent axes), whose product, left to right, it is.

    A signed permutation costs a sign for each −1 at most, far less than a rotation about an axis.
    """
    best: tuple[tuple[PlanarRotation, ...], SignedPermutation | None] = (), None
    least = np.inf
    for P in _signed_permutations():
        planar = _planar_factors(R @ P.T)
        if planar is None:
            continue
        permutation, cost = None, float(len(planar))
        if not np.array_equal(P, np.eye(3)):
            source = tuple(int(np.argmax(np.abs(P[i]))) for i in range(3))
            sign = tuple(float(P[i, source[i]]) for i in range(3))
            permutation = SignedPermutation((source[0], source[1], source[2]), (sign[0], sign[1], sign[2]))
            cost += 0.1 * (1 + sign.count(-1.0))
        if cost < least:
            best, least = (planar, permutation), cost
    return best


@cache
def _signed_permutations() -> tuple[Array, ...]:
    out = []
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1.0, -1.0), repeat=3):
            P = np.zeros((3, 3))
            P[range(3), order] = signs
            if np.linalg.det(P) > 0:
                out.append(P)
    out.sort(key=lambda P: -np.trace(P))
    return tuple(out)


def _planar_factors(R: Array) -> tuple[PlanarRotation, ...] | None:
    """``R`` as a product of 0, 1, 2 or 3 planar rotations; None only where another permutation does better."""
    tiny = 1e-15
    if np.max(np.abs(R - np.eye(3))) < tiny:
        return ()
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        rotation = PlanarRotation(k, float(R[i, i]), float(R[j, i]))
        if np.max(np.abs(np.array(rotation.rows()) - R)) < 4 * tiny:
            return (rotation,)
    for a, b in itertools.permutations(range(3), 2):  # R = R_a R_b leaves (R e_b)·e_a = 0
        if abs(R[a, b]) < tiny:
            i, j = (a + 1) % 3, (a + 2) % 3
            sine, cosine = (R[j, b], R[i, b]) if i == b else (-R[i, b], R[j, b])
            first = PlanarRotation(a, float(cosine), float(sine))
            rest = np.array(first.rows()).T @ R
            i, j = (b + 1) % 3, (b + 2) % 3
            second = PlanarRotation(b, float(rest[i, i]), float(rest[j, i]))
            if np.max(np.abs(np.array(first.rows()) @ np.array(second.rows()) - R)) < 4 * tiny:
                return first, second
    cosine = float(np.hypot(R[0, 0], R[1, 0]))  # R = R_z R_y R_x
    if cosine < 1e-6:
        return None
    z = PlanarRotation(2, float(R[0, 0] / cosine), float(R[1, 0] / cosine))
    rest = np.array(z.rows()).T @ R  # takes up what z lost in the division
    y = PlanarRotation(1, float(rest[0, 0]), float(-rest[2, 0]))
    x = PlanarRotation(0, float(rest[1, 1]), float(-rest[1, 2]))
    return z, y, x
