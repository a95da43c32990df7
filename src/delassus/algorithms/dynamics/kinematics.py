"""Poses of links and of frames in the world; cost O(n)."""

from __future__ import annotations

from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD, Placement
from delassus.spatial.ops import Matrix

Pose = tuple[Matrix, Matrix]
"""Rotation (3 × 3) and origin (3 × 1) of a frame in the world."""


def body_poses(problem: Problem) -> list[Pose]:
    """Pose of each link's body frame."""
    ops, tree, X = problem.ops, problem.tree, problem.X
    poses: list[Pose] = []
    for i in tree.root_to_leaves():
        R, p = X[i].rotate_to_parent(ops.eye(3)), X[i].position()
        if tree.parents[i] != WORLD:
            R0, p0 = poses[tree.parents[i]]
            R, p = R0 @ R, p0 + R0 @ p
        poses.append((R, p))
    return poses


def frame_pose(problem: Problem, poses: list[Pose], at: Placement) -> Pose:
    """Pose of a frame placed on a link (or on the world), by the poses of links."""
    ops = problem.ops
    R, p = ops.constant(at.rotation), ops.constant(at.position[:, None])
    if at.link == WORLD:
        return R, p
    R0, p0 = poses[at.link]
    return R0 @ R, p0 + R0 @ p


def homogeneous(problem: Problem, pose: Pose) -> Matrix:
    """4 × 4 matrix of a pose."""
    ops = problem.ops
    return ops.vstack([ops.hstack([pose[0], pose[1]]), ops.constant([[0.0, 0.0, 0.0, 1.0]])])
