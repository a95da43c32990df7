"""Motion transforms between a link and its parent, and what they do to rows, motions and inertias.

A joint displaces its link by a constant translation and rotation, then by its own translation and rotation, in this
order from the parent. `Displacement` says which; `StagedTransform` applies them one after the other (fewest operations:
a rotation about a coordinate axis touches two coordinates, a constant one by 90° none).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from delassus.spatial.elementary_displacements import (
    ElementaryDisplacement,
    Entries,
    Rotation,
    Translation,
    blocks,
    elementary_rotations,
    join,
)
from delassus.spatial.joint_kinds import REVOLUTE
from delassus.spatial.joints import Joint
from delassus.spatial.rotations import Array

if TYPE_CHECKING:
    from delassus.spatial.ops import Matrix, Ops, Scalar

Pose = tuple["Matrix", "Matrix"]
"""Rotation (3 × 3) and origin (3 × 1) of a frame in another one."""


def compose(outer: Pose, inner: Pose) -> Pose:
    """Pose of a frame in the world of ``outer``: ``inner`` is in the frame of ``outer``."""
    return outer[0] @ inner[0], outer[1] + outer[0] @ inner[1]


@dataclass(frozen=True, slots=True)
class Displacement:
    """Pose of a link in its parent: the constant pose of the joint frame, then what the joint moves.

    Attributes
    ----------
    position : (3,) array
        Constant origin of the joint frame in the parent.
    rotation : (3, 3) array
        Constant orientation of the joint frame in the parent.
    joint_position : list of three scalars, or None
        Origin of the child in the joint frame.
    joint_rotation : Rotation or None
        Orientation of the child in the joint frame.
    """

    position: Array
    rotation: Array
    joint_position: list[Any] | None
    joint_rotation: Rotation | None


def displacement(ops: Ops, joint: Joint, read: Callable[[int], Scalar], start: int) -> Displacement:
    """Displacement of a joint whose coordinates ``read`` gives from index ``start`` on."""
    q, constant = [read(start + k) for k in range(joint.nq)], joint.rotation
    advance = [joint.pitch * q[0] if k == joint.axis else 0.0 for k in range(3)] if joint.pitch else None
    if joint.kind.motion_axes == REVOLUTE.motion_axes:
        constant, offset = before_rotation(constant.tobytes(), joint.axis)
        q = joint.kind.moved(ops, q, [offset]) if offset else q
    position, rotation = joint.kind.displacement(ops, joint.motion_axes, q)
    return Displacement(joint.position, constant, advance or position, rotation)


class StagedTransform:
    """One elementary displacement after the other."""

    def __init__(self, ops: Ops, d: Displacement) -> None:
        self._ops = ops
        # from the parent to the child
        stages = [*_constant_displacements(d.rotation.tobytes(), d.position.tobytes())]
        if d.joint_position is not None:
            stages.append(Translation(d.joint_position))
        if d.joint_rotation is not None:
            stages.append(d.joint_rotation)
        self._stages = stages
        self._matrices: list[Any] | None = None

    def _stage_matrices(self) -> list[Any]:
        if self._matrices is None:
            self._matrices = [self._ops.matrix(stage.motion_rows()) for stage in self._stages]
        return self._matrices

    def rows_to_parent(self, K: Matrix) -> Matrix:
        for X in reversed(self._stage_matrices()):
            K = K @ X
        return K

    def motions_to_child(self, V: Matrix) -> Matrix:
        for X in self._stage_matrices():
            V = X @ V
        return V

    def forces_to_parent(self, F: Matrix) -> Matrix:
        return self._ops.transpose(self.rows_to_parent(self._ops.transpose(F)))

    def inertia_to_parent(self, H: Matrix) -> Matrix:
        A, B, C = blocks(self._ops.entries(H))
        for stage in reversed(self._stages):
            A, B, C = stage.congruence(A, B, C)
        return join(self._ops, A, B, C)

    def inverse_inertia_to_child(self, W: Matrix) -> Matrix:
        # the congruence of an inertia, with angular and linear exchanged and each stage inverted
        L, M, A = blocks(self._ops.entries(W))
        B = [list(column) for column in zip(*M, strict=True)]
        for stage in self._stages:
            A, B, L = stage.inverse().congruence(A, B, L)
        return join(self._ops, L, [list(column) for column in zip(*B, strict=True)], A)

    def rotate_to_parent(self, V: Matrix) -> Matrix:
        for stage in reversed(self._stages):
            V = stage.rotate(self._ops, V)
        return V

    def position(self) -> Matrix:
        p = self._ops.zeros(3, 1)
        for stage in reversed(self._stages):
            p = stage.move(self._ops, p)
        return p

    def rigid_inertia_to_parent(self, m: Scalar, h: list[Any], C: Entries) -> tuple[list[Any], Entries]:
        for stage in reversed(self._stages):
            h, C = stage.rigid_congruence(m, h, C)
        return h, C


@cache
def before_rotation(rotation: bytes, axis: int) -> tuple[Array, float]:
    """A constant rotation without its part about the joint's own axis at its end, and the angle of that.

    The angle joins the joint's own, which is cheaper than a constant rotation; it is zero where none is saved.
    """
    R = np.frombuffer(rotation).reshape(3, 3)
    a = R[:, axis]
    zero = [k for k in range(3) if abs(a[k]) < 1e-15]
    if len(elementary_rotations(R)[0]) <= 2 - len(zero):
        return R, 0.0
    i, j = (axis + 1) % 3, (axis + 2) % 3
    first = np.zeros(3)  # where the axis after the joint's goes: a coordinate axis, or one across the joint's
    if len(zero) == 2:
        first[(int(np.argmax(np.abs(a))) + 1) % 3] = 1.0
    elif len(zero) == 1:
        first[zero[0]] = 1.0
    else:
        first = np.array([-a[1], a[0], 0.0]) / np.hypot(a[0], a[1])
    out = np.zeros((3, 3))
    out[:, axis], out[:, i], out[:, j] = a, first, np.cross(a, first)
    return out, float(np.arctan2(out[:, j] @ R[:, i], first @ R[:, i]))


@cache
def _constant_displacements(rotation: bytes, position: bytes) -> tuple[ElementaryDisplacement, ...]:
    """Displacement of the joint frame in the parent, in parent → child order; the translation where it is sparser."""
    R = np.frombuffer(rotation).reshape(3, 3)
    p = np.frombuffer(position)
    planar, permutation = elementary_rotations(R)
    rotations: tuple[ElementaryDisplacement, ...] = planar if permutation is None else (*planar, permutation)
    size = float(np.max(np.abs(p), initial=0.0))
    if size < 1e-15:
        return rotations
    in_child = R.T @ p
    in_child = np.where(np.abs(in_child) < 1e-14 * size, 0.0, in_child)
    if np.count_nonzero(in_child) < np.count_nonzero(p):
        return (*rotations, Translation(in_child.tolist()))
    return (Translation(p.tolist()), *rotations)
