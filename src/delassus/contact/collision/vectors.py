"""Vectors of three numbers as tuples, and poses ``[R p]`` (3, 4), in loops; no memory is allocated."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from delassus.compiler.jit.compile import compiled
from delassus.compiler.jit.loop_ops import emitted
from delassus.constraints.shapes import lowest_points
from delassus.spatial.rotations import Array

Vector = tuple[float, float, float]

tangents: Callable[[Vector], tuple[Vector, Vector]] = emitted(lowest_points.tangents)
on_ellipsoid: Callable[[Vector, Vector], Vector] = emitted(lowest_points.on_ellipsoid)
on_rim: Callable[[float, float, float], tuple[float, float]] = emitted(lowest_points.on_rim)

LEAST_ACROSS = 1e-3
"""Part of a normal that is across a motion from which on it has a direction."""


@compiled
def column(T: Array, k: int) -> Vector:
    """Axis ``k`` of a pose, or, for 3, its origin."""
    return T[0, k], T[1, k], T[2, k]


@compiled
def dot(a: Vector, b: Vector) -> float:
    """``a · b``."""
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled
def cross(a: Vector, b: Vector) -> Vector:
    """``a × b``."""
    return a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]


@compiled
def along(a: Vector, s: float, b: Vector) -> Vector:
    """``a + s b``."""
    return a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]


@compiled
def scaled(s: float, a: Vector) -> Vector:
    """``s a``."""
    return s * a[0], s * a[1], s * a[2]


@compiled
def norm(a: Vector) -> float:
    """``|a|``."""
    return math.sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2])


@compiled
def in_world(T: Array, d: Vector) -> Vector:
    """``R d``."""
    return (
        T[0, 0] * d[0] + T[0, 1] * d[1] + T[0, 2] * d[2],
        T[1, 0] * d[0] + T[1, 1] * d[1] + T[1, 2] * d[2],
        T[2, 0] * d[0] + T[2, 1] * d[1] + T[2, 2] * d[2],
    )


@compiled
def in_frame(T: Array, d: Vector) -> Vector:
    """``Rᵀ d``."""
    return dot(column(T, 0), d), dot(column(T, 1), d), dot(column(T, 2), d)


@compiled
def point_at(T: Array, x: Vector) -> Vector:
    """``R x + p``."""
    return along(in_world(T, x), 1.0, column(T, 3))


@compiled
def real(a: Vector) -> Vector:
    """A vector without its changes."""
    return np.real(a[0]), np.real(a[1]), np.real(a[2])


@compiled
def row_of(x: Array, k: int) -> Vector:
    """Row of an array as a vector."""
    return x[k, 0], x[k, 1], x[k, 2]


@compiled
def write(out: Array, m: int, x: Vector, n: Vector, depth: float) -> int:
    """Write one contact as row ``m`` (its pair is written by the caller): point, normal from B to A, depth."""
    out[m, 1], out[m, 2], out[m, 3] = x
    out[m, 4], out[m, 5], out[m, 6] = n
    out[m, 7] = depth
    return m + 1


@compiled
def across_motion(n: Vector, motion: Vector) -> tuple[bool, Vector]:
    """What of a normal is across a motion that runs into it, as a unit vector; whether there is any."""
    into = dot(n, motion)
    d = along(n, -into / dot(motion, motion), motion) if into < 0.0 else (0.0, 0.0, 0.0)
    length = norm(d)
    return (False, n) if length < LEAST_ACROSS else (True, scaled(1.0 / length, d))
