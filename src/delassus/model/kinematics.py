"""Numeric kinematics of the model itself (batched NumPy): used to check, edit and convert trees.

Algorithms do not use this file; they run on `delassus.spatial`.
"""

from __future__ import annotations

import numpy as np

from delassus.model.inertia import motion_transform
from delassus.model.joints import Joint, JointKind
from delassus.model.rotations import Array, quaternion_to_matrix
from delassus.model.tree import WORLD, Tree


def joint_displacement(joint: Joint, q: Array) -> tuple[Array, Array]:
    """Pose of the child frame in the joint frame at ``q`` (..., nq): rotation (..., 3, 3), position (..., 3)."""
    batch = q.shape[:-1]
    eye, zero = np.broadcast_to(np.eye(3), (*batch, 3, 3)), np.zeros((*batch, 3))
    kind = joint.kind
    if kind is JointKind.REVOLUTE:
        return _planar(joint.axis, np.cos(q[..., 0]), np.sin(q[..., 0])), zero
    if kind is JointKind.COS_SIN:
        return _planar(joint.axis, q[..., 0], q[..., 1]), zero
    if kind is JointKind.PRISMATIC:
        return eye, q * np.eye(3)[joint.axis]
    if kind is JointKind.PLANAR:
        return _planar(2, q[..., 2], q[..., 3]), np.concatenate([q[..., :2], zero[..., :1]], axis=-1)
    if kind is JointKind.BALL:
        return quaternion_to_matrix(q), zero
    if kind is JointKind.TRANSLATION:
        return eye, q
    return quaternion_to_matrix(q[..., 3:]), q[..., :3]


def _planar(axis: int, c: Array, s: Array) -> Array:
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R = np.zeros((*np.shape(c), 3, 3))
    R[..., axis, axis] = 1.0
    R[..., i, i] = R[..., j, j] = c
    R[..., i, j], R[..., j, i] = -s, s
    return R


def relative_poses(tree: Tree, q: Array) -> list[tuple[Array, Array]]:
    """Pose of each body frame in its parent's at ``q`` (..., nq)."""
    out = []
    for joint, sq in zip(tree.joints, tree.q_slices, strict=True):
        R, p = joint_displacement(joint, q[..., sq])
        out.append((joint.rotation @ R, joint.position + p @ joint.rotation.T))
    return out


def relative_transforms(tree: Tree, q: Array) -> list[Array]:
    """Motion transform ``X_child_parent`` (..., 6, 6) of each link at ``q`` (..., nq)."""
    return [motion_transform(R, p) for R, p in relative_poses(tree, q)]


def world_poses(tree: Tree, q: Array) -> list[tuple[Array, Array]]:
    """Pose of each body frame in the world at ``q`` (..., nq)."""
    poses: list[tuple[Array, Array]] = []
    for i, (R, p) in enumerate(relative_poses(tree, q)):
        if tree.parents[i] == WORLD:
            poses.append((R, p))
        else:
            R0, p0 = poses[tree.parents[i]]
            poses.append((R0 @ R, p0 + (R0 @ p[..., None])[..., 0]))
    return poses


def frame_pose(tree: Tree, frame: str, q: Array) -> tuple[Array, Array]:
    """Pose of a named frame in the world at ``q`` (..., nq): rotation (..., 3, 3), position (..., 3) in m."""
    at = tree.placement(frame)
    if at.link == WORLD:
        batch = q.shape[:-1]
        return np.broadcast_to(at.rotation, (*batch, 3, 3)), np.broadcast_to(at.position, (*batch, 3))
    R, p = world_poses(tree, q)[at.link]
    return R @ at.rotation, p + (R @ at.position[..., None])[..., 0]
