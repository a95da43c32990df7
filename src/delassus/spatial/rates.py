"""Vectors with their changes along the joints of a robot, by the rules of sums and products; in one inertial frame."""

from __future__ import annotations

from dataclasses import dataclass

from delassus.spatial.motion import ANGULAR, LINEAR, cross_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar


def motion_matrix(ops: Ops, V: Matrix) -> Matrix:
    """``V ×`` (6 × 6) on motions; ``V ×* = −(V ×)ᵀ`` on forces."""
    v, w = cross_matrix(ops, ops.take(V, LINEAR, None)), cross_matrix(ops, ops.take(V, ANGULAR, None))
    return ops.vstack([ops.hstack([w, v]), ops.hstack([ops.zeros(3, 3), w])])


def force_matrix(ops: Ops, F: Matrix) -> Matrix:
    """Matrix (6 × 6) of ``s ↦ s ×* F``."""
    f, m = cross_matrix(ops, ops.take(F, LINEAR, None)), cross_matrix(ops, ops.take(F, ANGULAR, None))
    return -ops.vstack([ops.hstack([ops.zeros(3, 3), f]), ops.hstack([f, m])])


@dataclass(frozen=True, slots=True, eq=False)
class Vector:
    """A vector (3 × 1) in the common frame, and its changes (3 × nv)."""

    ops: Ops
    value: Matrix
    change: Matrix

    def __add__(self, other: Vector) -> Vector:
        return Vector(self.ops, self.value + other.value, self.change + other.change)

    def __sub__(self, other: Vector) -> Vector:
        return Vector(self.ops, self.value - other.value, self.change - other.change)

    def __neg__(self) -> Vector:
        return Vector(self.ops, -self.value, -self.change)

    def cross(self, other: Vector) -> Vector:
        """``a × b``, ``a × ∂b − b × ∂a``."""
        a, b = cross_matrix(self.ops, self.value), cross_matrix(self.ops, other.value)
        return Vector(self.ops, a @ other.value, a @ other.change - b @ self.change)

    def dot(self, other: Vector) -> tuple[Matrix, Matrix]:
        """``aᵀ b`` (1 × 1), and its changes (1 × nv)."""
        at, bt = self.ops.transpose(self.value), self.ops.transpose(other.value)
        return at @ other.value, at @ other.change + bt @ self.change

    def times(self, factor: Scalar) -> Vector:
        """The vector scaled."""
        by = self.ops.matrix([[factor if i == j else 0.0 for j in range(3)] for i in range(3)])
        return Vector(self.ops, by @ self.value, by @ self.change)


def rotating_vector(ops: Ops, value: Matrix, rotation: Matrix) -> Vector:
    """A vector (3 × 1) fixed in axes that rotate (3 × nv)."""
    return Vector(ops, value, -cross_matrix(ops, value) @ rotation)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """A link, or the world: its twist, its acceleration, a point ``p`` of it, and its rotation (3 × nv)."""

    v: Vector
    w: Vector
    a: Vector
    alpha: Vector
    p: Vector
    rotation: Matrix

    def fixed(self, value: Matrix) -> Vector:
        """A vector (3 × 1) that is fixed in the link."""
        return rotating_vector(self.p.ops, value, self.rotation)

    def velocity(self) -> Vector:
        """``ṗ``."""
        return self.v + self.w.cross(self.p)

    def acceleration(self) -> Vector:
        """``p̈``."""
        return self.a + self.alpha.cross(self.p) + self.w.cross(self.velocity())
