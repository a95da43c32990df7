"""Poses of links and of frames in the world, and motions of frames; cost O(n), of a Jacobian O(d).

Twists, accelerations and Jacobians ``[linear; angular]`` of a frame are in one of the `REFERENCES`. Accelerations are
the rates of the twists as they are there: spatial ones in "local" and "world", in "local-world-aligned" the classical
one, ``ω × ṗ`` more. Joint axes are carried to the reference, ``J_j = X_reference_j S_j``, by its pose in each link.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from delassus.algorithms.blocks import assembled
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import Problem
from delassus.algorithms.rnea import accelerations
from delassus.model.tree import WORLD, Placement
from delassus.spatial.motion import ANGULAR, LINEAR, cross, cross_matrix
from delassus.spatial.ops import Matrix, Ops
from delassus.spatial.transform import Pose, compose

REFERENCES: Mapping[str, str] = MappingProxyType(
    {
        "local": "at the origin of the frame, along its axes",
        "world": "at the origin of the world, along its axes",
        "local-world-aligned": "at the origin of the frame, along the axes of the world",
    }
)
"""Where the motion of a frame is measured, and along which axes."""


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


class FrameMotions:
    """Frames placed on links (or on the world), and their motions (6 × k) in one of the `REFERENCES`."""

    def __init__(self, problem: Problem, frames: Sequence[Placement], reference: str) -> None:
        self._problem, self._ops, self._frames = problem, problem.ops, frames
        self._is_aligned = reference == "local-world-aligned"
        poses = [] if reference == "local" else body_poses(problem)
        self._references = [self._reference(at, poses, reference) for at in frames]

    def _reference(self, at: Placement, poses: list[Pose], reference: str) -> Pose:
        """Pose of the reference in the body frame of a frame's link."""
        position = self._ops.constant(at.position[:, None])
        if reference == "local" or at.link == WORLD:
            return self._ops.constant(at.rotation), position
        R, p = poses[at.link]
        back = self._ops.transpose(R)
        return back, position if self._is_aligned else -(back @ p)

    def jacobians(self) -> list[Matrix]:
        """``J`` (6 × nv) of each frame."""
        ops, tree, X = self._ops, self._problem.tree, self._problem.X
        out = []
        for at, (R, p) in zip(self._frames, self._references, strict=True):
            columns: dict[tuple[int, int], Matrix] = {}

            # leaf → root: J_j = X_reference_j S_j
            for j in reversed(tree.support(at.link)):
                columns[0, j] = seen_from(ops, (R, p), tree.joints[j].columns(ops, ops.eye(6)))
                R, p = X[j].rotate_to_parent(R), X[j].position() + X[j].rotate_to_parent(p)
            out.append(assembled(ops, [6], [joint.nv for joint in tree.joints], columns))
        return out

    def velocities(self, motion: DynamicsProblem) -> list[Matrix]:
        """Twist (6 × 1) of each frame."""
        return self._of_links(motion.V)

    def accelerations(self, motion: DynamicsProblem, qdd: Sequence[Matrix] | None = None) -> list[Matrix]:
        """Acceleration (6 × 1) of each frame less gravity; ``qdd`` holds a column a joint, None is zero."""
        a = self._of_links(accelerations(motion, qdd))
        if not self._is_aligned:
            return a
        return [x + self._velocity_product(V) for x, V in zip(a, self.velocities(motion), strict=True)]

    def _velocity_product(self, V: Matrix) -> Matrix:
        """``[ω × ṗ; 0]``."""
        ops = self._ops
        return ops.put(cross(ops, ops.take(V, ANGULAR, None), ops.take(V, LINEAR, None)), (6, 1), LINEAR, (0,))

    def _of_links(self, motions: Sequence[Matrix]) -> list[Matrix]:
        ops, frames = self._ops, zip(self._frames, self._references, strict=True)
        return [ops.zeros(6, 1) if at.link == WORLD else seen_from(ops, pose, motions[at.link]) for at, pose in frames]


def seen_from(ops: Ops, pose: Pose, motions: Matrix) -> Matrix:
    """Motions (6 × k) of a body at the origin and along the axes of what has that pose in it."""
    R, p = pose
    back, w = ops.transpose(R), ops.take(motions, ANGULAR, None)
    return ops.vstack([back @ (ops.take(motions, LINEAR, None) - cross_matrix(ops, p) @ w), back @ w])
