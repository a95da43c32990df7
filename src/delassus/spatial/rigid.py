"""Inertias of rigid bodies that only move rigidly: ten numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from delassus.spatial.motion import plus
from delassus.spatial.ops import Matrix, Ops, Scalar
from delassus.spatial.transform import StagedTransform


class RigidInertia:
    """Inertia of links that are rigidly connected: mass, first moment ``h`` and second moments ``C``.

    Its 6×6 form is ``[[m 1, −h×], [h×, C]]``.
    """

    def __init__(self, ops: Ops, mass: Scalar, h: list[Any], C: list[list[Any]]) -> None:
        self._ops, self._mass, self._h, self._C = ops, mass, h, C

    @classmethod
    def of_matrix(cls, ops: Ops, H: Matrix) -> RigidInertia:
        """Inertia of its 6 × 6 matrix."""
        e = ops.entries(H)
        return cls(ops, e[0][0], [e[1][5], e[2][3], e[0][4]], [row[3:] for row in e[3:]])

    @classmethod
    def of_parameters(cls, ops: Ops, x: Any) -> RigidInertia:
        """Inertia of ten parameters in Pinocchio's order: m, h, C_xx, C_xy, C_yy, C_xz, C_yz, C_zz."""
        m, hx, hy, hz, xx, xy, yy, xz, yz, zz = (x[k] for k in range(10))
        return cls(ops, m, [hx, hy, hz], [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])

    def __add__(self, other: RigidInertia) -> RigidInertia:
        h = plus(self._h, other._h)
        C: list[list[Any]] = [[0.0] * 3 for _ in range(3)]
        for i in range(3):
            for j in range(i + 1):
                C[i][j] = C[j][i] = self._C[i][j] + other._C[i][j]
        return RigidInertia(self._ops, self._mass + other._mass, h, C)

    def to_parent(self, X: StagedTransform) -> RigidInertia:
        """``Xᵀ I X``."""
        h, C = X.rigid_inertia_to_parent(self._mass, self._h, self._C)
        return RigidInertia(self._ops, self._mass, h, C)

    def columns(self, axes: Sequence[int]) -> Matrix:
        """Columns of the 6×6 form."""
        x, y, z = self._h
        rows: list[list[Any]] = [
            [self._mass, 0.0, 0.0, 0.0, z, -y],
            [0.0, self._mass, 0.0, -z, 0.0, x],
            [0.0, 0.0, self._mass, y, -x, 0.0],
            [0.0, -z, y, *self._C[0]],
            [z, 0.0, -x, *self._C[1]],
            [-y, x, 0.0, *self._C[2]],
        ]
        return self._ops.matrix([[row[a] for a in axes] for row in rows])
