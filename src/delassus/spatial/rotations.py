"""Rotations and quaternions on plain NumPy arrays, batched over leading axes.

Quaternions are ``[x y z w]``; a rotation matrix maps the coordinates of the rotated frame to those of the frame
that it is rotated in. Model data use these; algorithms are written in `delassus.spatial.ops`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

QUARTER_TURN_TOLERANCE = 1e-11
"""Entries of a fixed rotation closer than this to 0 or ±1 are read as exact: 1.57079632679 is meant as π/2."""

ROUND_OFF = 1e-15
"""Of entries of a rotation."""


def skew(a: Array) -> Array:
    """Cross-product matrix: ``skew(a) @ b == cross(a, b)``; (..., 3) → (..., 3, 3)."""
    out = np.zeros((*a.shape[:-1], 3, 3))
    out[..., 0, 1], out[..., 0, 2], out[..., 1, 2] = -a[..., 2], a[..., 1], -a[..., 0]
    out[..., 1, 0], out[..., 2, 0], out[..., 2, 1] = a[..., 2], -a[..., 1], a[..., 0]
    return out


def rotation_about(axis: Array, angle: float | Array) -> Array:
    """Rotation matrices (..., 3, 3) about unit axes (..., 3) by angles (...) in radians (Rodrigues)."""
    K, angle = skew(np.asarray(axis, dtype=float)), np.asarray(angle)[..., None, None]
    return np.asarray(np.eye(3) + np.sin(angle) * K + (1.0 - np.cos(angle)) * (K @ K))


def rotation_from_rpy(rpy: Sequence[float] | Array) -> Array:
    """URDF's fixed-axis roll, pitch, yaw in radians → rotation matrix ``Rot_z(yaw) Rot_y(pitch) Rot_x(roll)``."""
    (sx, sy, sz), (cx, cy, cz) = map(math.sin, rpy), map(math.cos, rpy)
    return np.array(
        [
            [cy * cz, sy * (sx * cz) - cx * sz, sy * (cx * cz) + sx * sz],
            [cy * sz, sy * (sx * sz) + cx * cz, sy * (cx * sz) - sx * cz],
            [-sy, cy * sx, cy * cx],
        ]
    )


def rpy_from_rotation(R: Array) -> Array:
    """Roll, pitch and yaw in radians of a rotation matrix (3, 3); roll is from what the other two leave of it."""
    pitch, yaw = math.atan2(-R[2, 0], math.hypot(R[0, 0], R[1, 0])), math.atan2(R[1, 0], R[0, 0])
    s, c = math.sin(yaw), math.cos(yaw)
    return np.array([math.atan2(s * R[0, 2] - c * R[1, 2], c * R[1, 1] - s * R[0, 1]), pitch, yaw])


def rotation_between(start: Array, end: Array) -> Array:
    """Smallest rotations (..., 3, 3) that take unit vectors ``start`` to unit vectors ``end``, both (..., 3)."""
    normal, cosine = np.cross(start, end), np.sum(start * end, axis=-1)
    sine = np.linalg.norm(normal, axis=-1)
    parallel = sine < ROUND_OFF
    across = np.eye(3)[(np.argmax(np.abs(start), axis=-1) + 1) % 3]
    normal = np.where(parallel[..., None], across, normal)
    normal = normal - np.sum(normal * start, axis=-1, keepdims=True) * start  # round-off of near parallel ones
    angle = np.where(parallel, np.where(cosine > 0, 0.0, np.pi), np.arctan2(sine, cosine))
    return rotation_about(normal / np.linalg.norm(normal, axis=-1, keepdims=True), angle)


def exact_quarter_turns(R: Array) -> Array:
    """Rotations (..., 3, 3) with entries within `QUARTER_TURN_TOLERANCE` of 0 or ±1 replaced by those numbers.

    Where that leaves no rotation, as of an angle of 1.5708, whose sine is nearer to 1 than its cosine to 0, the nearest
    one is taken.
    """
    exact = np.rint(R) + 0.0  # no negative zeros
    R = np.where(np.abs(R - exact) < QUARTER_TURN_TOLERANCE, exact, R)
    R = 1.5 * R - 0.5 * R @ np.swapaxes(R, -1, -2) @ R  # Newton's iteration; what is off enters squared
    exact = np.rint(R) + 0.0
    return np.where(np.abs(R - exact) < ROUND_OFF, exact, R)


def quaternion_to_matrix(q: Array) -> Array:
    """Unit quaternion [x y z w] (..., 4) → rotation matrix (..., 3, 3)."""
    rows = quaternion_rows(*np.moveaxis(q, -1, 0))
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def quaternion_rows(x: Any, y: Any, z: Any, w: Any) -> list[list[Any]]:
    """Rotation matrix of a unit quaternion, from scalars of any backend."""
    x2, y2, z2 = x + x, y + y, z + z
    xx, yy, zz = x * x2, y * y2, z * z2
    xy, xz, yz = x * y2, x * z2, y * z2
    wx, wy, wz = w * x2, w * y2, w * z2
    return [
        [1.0 - (yy + zz), xy - wz, xz + wy],
        [xy + wz, 1.0 - (xx + zz), yz - wx],
        [xz - wy, yz + wx, 1.0 - (xx + yy)],
    ]


def matrix_to_quaternion(R: Array) -> Array:
    """Rotation matrix (..., 3, 3) → unit quaternion [x y z w] (..., 4) with w ≥ 0, by the largest component."""
    m = [[R[..., i, j] for j in range(3)] for i in range(3)]
    four_squares = np.stack(  # 4x², 4y², 4z², 4w²
        [
            1 + m[0][0] - m[1][1] - m[2][2],
            1 - m[0][0] + m[1][1] - m[2][2],
            1 - m[0][0] - m[1][1] + m[2][2],
            1 + m[0][0] + m[1][1] + m[2][2],
        ],
        axis=-1,
    )
    products = np.empty((*R.shape[:-2], 4, 4))  # 4 q qᵀ
    for i in range(4):
        products[..., i, i] = four_squares[..., i]
    for i, j, value in (
        (0, 1, m[0][1] + m[1][0]), (0, 2, m[0][2] + m[2][0]), (1, 2, m[1][2] + m[2][1]),
        (0, 3, m[2][1] - m[1][2]), (1, 3, m[0][2] - m[2][0]), (2, 3, m[1][0] - m[0][1]),
    ):  # fmt: skip
        products[..., i, j] = products[..., j, i] = value
    largest = np.argmax(four_squares, axis=-1)
    q = np.take_along_axis(products, largest[..., None, None], axis=-2)[..., 0, :]
    q = q / np.linalg.norm(q, axis=-1, keepdims=True)
    return np.asarray(np.where(q[..., 3:] < 0, -q, q))
