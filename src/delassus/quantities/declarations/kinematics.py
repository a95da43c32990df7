"""Poses and motions of frames, and displacements: declarations."""

from __future__ import annotations

from collections.abc import Sequence

from delassus.algorithms import kinematics
from delassus.algorithms.dynamics.constraint_acceleration import jacobian_drift as drift_of_rows
from delassus.algorithms.dynamics.derivatives.motions import FrameChanges
from delassus.algorithms.dynamics.derivatives.step import moved_changes
from delassus.algorithms.dynamics.integrate import Flow
from delassus.algorithms.jacobian import jacobian as rows_jacobian
from delassus.algorithms.problem import Problem
from delassus.model.tree import Placement
from delassus.quantities.bound_request import BoundRequest, stacked
from delassus.quantities.quantity import Output, Quantity
from delassus.spatial.ops import Matrix


def _frame_placements(bound: BoundRequest) -> list[Placement]:
    tree, wanted = bound.tree, bound.request.options.frames
    return [tree.placement(name) for name in tree.link_names] if wanted is None else [f.on(tree) for f in wanted]


def _kinematics(bound: BoundRequest) -> list[Matrix]:
    problem = bound.problem()
    links = kinematics.body_poses(problem)
    poses = [
        kinematics.homogeneous(problem, kinematics.frame_pose(problem, links, at)) for at in _frame_placements(bound)
    ]
    return [bound.ops.vstack(poses) if poses else bound.ops.zeros(0, 4)]


def _frames(bound: BoundRequest, problem: Problem) -> kinematics.FrameMotions:
    return kinematics.FrameMotions(problem, _frame_placements(bound), bound.request.options.reference)


def _frame_jacobian(bound: BoundRequest) -> list[Matrix]:
    found = _frames(bound, bound.problem()).jacobians()
    return [bound.ops.vstack(found) if found else bound.ops.zeros(0, bound.tree.nv)]


def _frame_velocity(bound: BoundRequest) -> list[Matrix]:
    motion = bound.unforced()
    return [motion.stacked(_frames(bound, motion.problem).velocities(motion))]


def _frame_acceleration(bound: BoundRequest) -> list[Matrix]:
    motion = bound.unforced()
    qdd = motion.per_joint(bound.values["qdd"])
    return [motion.stacked(_frames(bound, motion.problem).accelerations(motion, qdd))]


def _jacobian(bound: BoundRequest) -> list[Matrix]:
    return [rows_jacobian(bound.problem())]


def _jacobian_drift(bound: BoundRequest) -> list[Matrix]:
    return [drift_of_rows(bound.unforced())]


def _frame_velocity_changes(bound: BoundRequest) -> list[list[Matrix]]:
    changes = _frame_changes(bound)
    return [_stacked_frames(bound, [changes.velocity(at) for at in _frame_placements(bound)], 2)]


def _frame_acceleration_changes(bound: BoundRequest) -> list[list[Matrix]]:
    changes = _frame_changes(bound)
    return [_stacked_frames(bound, [changes.acceleration(at) for at in _frame_placements(bound)], 3)]


def _frame_changes(bound: BoundRequest) -> FrameChanges:
    motion = bound.unforced()
    return FrameChanges(motion, motion.per_joint(bound.values.get("qdd")), bound.request.options.reference)


def _stacked_frames(bound: BoundRequest, of_frames: Sequence[Sequence[Matrix]], n: int) -> list[Matrix]:
    ops, none = bound.ops, bound.ops.zeros(0, bound.tree.nv)
    return [ops.vstack([none, *(of_one[k] for of_one in of_frames)]) for k in range(n)]


def _integrate(bound: BoundRequest) -> list[Matrix]:
    return [stacked(bound, Flow(bound.ops, bound.tree).moved(bound.entries("q"), bound.entries("shift")))]


def _integrate_changes(bound: BoundRequest) -> list[Sequence[Matrix]]:
    return [moved_changes(bound.ops, bound.tree, bound.entries("q"), bound.entries("shift"))]


def _difference(bound: BoundRequest) -> list[Matrix]:
    return [stacked(bound, Flow(bound.ops, bound.tree).difference(bound.entries("q"), bound.entries("q_end")))]


KINEMATICS = Quantity(
    "kinematics",
    "Forward kinematics",
    ("q",),
    (Output("poses", ("frames", 4, 4), "poses in the world, [R p; 0 1], positions in m"),),
    _kinematics,
    options=frozenset({"frames"}),
)
FRAME_JACOBIAN = Quantity(
    "frame_jacobian",
    "Jacobians of frames",
    ("q",),
    (Output("J", ("frames", 6, "nv"), "twists [linear; angular] of frames per unit of joint velocity"),),
    _frame_jacobian,
    options=frozenset({"frames", "reference"}),
)
FRAME_VELOCITY = Quantity(
    "frame_velocity",
    "Twists of frames",
    ("q", "v"),
    (Output("twists", ("frames", 6), "twists [linear; angular] of frames, m/s and rad/s"),),
    _frame_velocity,
    options=frozenset({"frames", "reference"}),
    jacobian=_frame_velocity_changes,
)
FRAME_ACCELERATION = Quantity(
    "frame_acceleration",
    "Accelerations of frames",
    ("q", "v", "qdd"),
    (Output("accelerations", ("frames", 6), "rates of the twists of frames, m/s^2 and rad/s^2"),),
    _frame_acceleration,
    options=frozenset({"frames", "reference"}),
    jacobian=_frame_acceleration_changes,
)
JACOBIAN = Quantity(
    "jacobian",
    "Constraint Jacobian",
    ("q",),
    (Output("J", ("m", "nv"), "constraint Jacobian, velocities along the rows"),),
    _jacobian,
)
JACOBIAN_DRIFT = Quantity(
    "jacobian_drift",
    "Rate of the constraint Jacobian times v",
    ("q", "v"),
    (Output("drift", ("m",), "accelerations along the rows that velocities alone cause, m/s^2 and rad/s^2"),),
    _jacobian_drift,
)
INTEGRATE = Quantity(
    "integrate",
    "Configuration after a displacement",
    ("q", "shift"),
    (Output("q_next", ("nq",), "configuration that the displacement leads to, as a screw"),),
    _integrate,
    jacobian=_integrate_changes,
)
DIFFERENCE = Quantity(
    "difference",
    "Displacement between configurations",
    ("q", "q_end"),
    (Output("shift", ("nv",), "displacement from one to the other, the short way round, rad and m"),),
    _difference,
)
