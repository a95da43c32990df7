"""Poses of links and of frames in the world; cost O(n)."""

from __future__ import annotations

from delassus.algorithms.problem import Pose, Problem, compose
from delassus.model.tree import WORLD, Placement
from delassus.spatial.ops import Matrix


def body_poses(problem: Problem) -> list[Pose]:
    """Pose of each link's body frame."""
    ops, tree, X = problem.ops, problem.tree, problem.X
    poses: list[Pose] = []

    # root → leaves: R_i = R_p R, p_i = p_p + R_p p
    for i in tree.root_to_leaves():
        own, parent = (X[i].rotate_to_parent(ops.eye(3)), X[i].position()), tree.parents[i]
        poses.append(own if parent == WORLD else compose(poses[parent], own))
    return poses


def frame_pose(problem: Problem, poses: list[Pose], at: Placement) -> Pose:
    """Pose of a frame placed on a link (or on the world), by the poses of links."""
    own = problem.ops.constant(at.rotation), problem.ops.constant(at.position[:, None])
    return own if at.link == WORLD else compose(poses[at.link], own)


def homogeneous(problem: Problem, pose: Pose) -> Matrix:
    """4 × 4 matrix of a pose."""
    ops = problem.ops
    return ops.vstack([ops.hstack([pose[0], pose[1]]), ops.constant([[0.0, 0.0, 0.0, 1.0]])])
