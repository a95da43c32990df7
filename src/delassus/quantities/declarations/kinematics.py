"""Poses and motions of frames, and displacements: declarations, and the functions that compute them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from numpy.typing import ArrayLike

from delassus.algorithms import kinematics
from delassus.algorithms.dynamics.constraint_acceleration import jacobian_drift as drift_of_rows
from delassus.algorithms.dynamics.derivatives.motions import FrameChanges
from delassus.algorithms.dynamics.derivatives.step import moved_changes
from delassus.algorithms.dynamics.integrate import Flow, difference_changes
from delassus.algorithms.jacobian import jacobian as rows_jacobian
from delassus.algorithms.problem import Problem
from delassus.model.tree import Placement, Tree
from delassus.quantities.bound_request import BoundRequest, stacked
from delassus.quantities.direct import bind
from delassus.quantities.keywords import Arrays, Constraints, Frames, Reference
from delassus.quantities.quantity import Output, Quantity
from delassus.quantities.request import AUTO
from delassus.spatial.ops import Matrix
from delassus.spatial.rotations import Array


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


def _difference_changes(bound: BoundRequest) -> list[Sequence[Matrix]]:
    return [difference_changes(bound.ops, bound.tree, bound.entries("q"), bound.entries("q_end"))]


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
    jacobian=_difference_changes,
)


def forward_kinematics(tree: Tree, q: ArrayLike, frames: Frames = None) -> Array:
    """Poses of links or frames in the world, as 4 × 4 matrices ``[[R, p], [0, 1]]``.

    Parameters
    ----------
    tree : Tree
    q : (..., nq) array_like
        Configurations; leading axes are batches.
    frames : str, Frame or sequence of these, optional
        By default the frame of each moving link, in the order of ``tree.link_names``.

    Returns
    -------
    (..., k, 4, 4) array
        One for each frame; (..., 4, 4) if ``frames`` is one. Positions in m.

    Raises
    ------
    ConfigurationError, UnknownNameError
        As `forward_dynamics` raises them.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.forward_kinematics(arm, arm.random(0, batch=100), "link7").shape
    (100, 4, 4)
    """
    return bind(tree, (), KINEMATICS, {"q": q}, frames=frames).run()["poses"]


def frame_jacobian(tree: Tree, q: ArrayLike, frames: Frames = None, *, reference: Reference = "local") -> Array:
    """Jacobians of links or frames: ``J v`` is what `frame_velocity` gives.

    Takes ``tree``, ``q``, ``frames`` and ``reference`` as `frame_velocity` does, and raises what that raises.

    Returns
    -------
    (..., k, 6, nv) array
        One for each frame; (..., 6, nv) if ``frames`` is one. Rows ``[linear; angular]``. Pinocchio's
        ``getFrameJacobian``.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.frame_jacobian(arm, arm.random(0, batch=100), "link7", reference="local-world-aligned").shape
    (100, 6, 7)
    """
    return bind(tree, (), FRAME_JACOBIAN, {"q": q}, frames=frames, reference=reference).run()["J"]


def frame_velocity(
    tree: Tree, q: ArrayLike, v: ArrayLike, frames: Frames = None, *, reference: Reference = "local"
) -> Array:
    """Twists ``[linear; angular]`` of links or frames relative to the world.

    Parameters
    ----------
    tree : Tree
    q, v : (..., nq) and (..., nv) array_like
        Configurations and velocities; leading axes are batches and broadcast.
    frames : str, Frame or sequence of these, optional
        By default the frame of each moving link, in the order of ``tree.link_names``.
    reference : {"local", "world", "local-world-aligned"}
        Where twists are measured, and along which axes: at the origin of the frame along its axes; at the origin of the
        world along its axes; at the origin of the frame along the axes of the world. These are Pinocchio's reference
        frames; constraints call the last one ``axes="world"``.

    Returns
    -------
    (..., k, 6) array
        One for each frame; (..., 6) if ``frames`` is one. In m/s and rad/s.

    Raises
    ------
    ConfigurationError, UnknownNameError
        As `forward_dynamics` raises them; no such reference.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> q, v = arm.random(0), np.ones(7)
    >>> bool(np.allclose(ds.frame_velocity(arm, q, v, "link7"), ds.frame_jacobian(arm, q, "link7") @ v))
    True
    """
    return bind(tree, (), FRAME_VELOCITY, {"q": q, "v": v}, frames=frames, reference=reference).run()["twists"]


def frame_acceleration(
    tree: Tree,
    q: ArrayLike,
    v: ArrayLike,
    qdd: ArrayLike,
    frames: Frames = None,
    *,
    reference: Reference = "local",
) -> Array:
    """Accelerations ``[linear; angular]`` of links or frames: the rates of the numbers that `frame_velocity` gives.

    They are ``J q̈ + J̇ v``, so that ``qdd = 0`` gives ``J̇ v``: in "local" and "world" the *spatial* acceleration, in
    "local-world-aligned" the *classical* one, the second derivative of the origin's position. The classical one along
    the axes of the frame is ``Rᵀ`` times that. Gravity is no part of it.

    Parameters
    ----------
    tree : Tree
    q, v, qdd : (..., nq), (..., nv) and (..., nv) array_like
        Configurations, velocities and joint accelerations (m/s², rad/s²); leading axes are batches and broadcast.
    frames, reference
        As in `frame_velocity`, which raises the same errors.

    Returns
    -------
    (..., k, 6) array
        One for each frame; (..., 6) if ``frames`` is one. In m/s² and rad/s².

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> q, v, qdd = arm.random(0), np.ones(7), np.ones(7)
    >>> a, drift = (ds.frame_acceleration(arm, q, v, x, "link7") for x in (qdd, 0 * qdd))
    >>> bool(np.allclose(a, ds.frame_jacobian(arm, q, "link7") @ qdd + drift))
    True
    """
    bound = bind(tree, (), FRAME_ACCELERATION, {"q": q, "v": v, "qdd": qdd}, frames=frames, reference=reference)
    return bound.run()["accelerations"]


def jacobian(tree: Tree, constraints: Constraints, q: ArrayLike, **given: Unpack[Arrays]) -> Array:
    """Constraint Jacobian ``J``: ``J v`` are the velocities along the constraint rows (m/s, rad/s).

    Takes what `delassus` takes, without ``method``, and raises what that raises; payloads change nothing.

    Returns
    -------
    (..., m, nv) array
        Of a `Weld` of one link it is ``pinocchio.getFrameJacobian`` in the frame's local axes.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.jacobian(arm, ds.Weld("link7"), arm.random(0)).shape
    (6, 7)
    """
    return bind(tree, constraints, JACOBIAN, {"q": q}, AUTO, **given).run()["J"]


def jacobian_drift(tree: Tree, constraints: Constraints, q: ArrayLike, v: ArrayLike, **given: Unpack[Arrays]) -> Array:
    """Bias ``J̇ v`` of constraints: the rate of ``J v`` is ``J q̈ + J̇ v``.

    Takes ``tree``, ``q``, ``v``, ``constraints``, ``rows`` and ``placements`` as `forward_dynamics` does, and raises
    what that raises for them. Rows and placements that come with the call stay as they are. `forward_dynamics` asks
    that ``J q̈ + J̇ v`` be zero; of points in local axes whose origins move relative to each other, that the *classical*
    accelerations be equal, which is ``ω × e`` more, ``e`` being that motion.

    Returns
    -------
    (..., m) array
        In m/s² and rad/s².

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> robot, feet = ds.mechanisms.humanoid(), [ds.Weld("left_foot"), ds.Weld("right_foot")]
    >>> q, v = robot.random(0), np.ones(robot.nv)
    >>> qdd = ds.forward_dynamics(robot, q, v, np.zeros(robot.nv), feet).qdd
    >>> bool(abs(ds.jacobian(robot, feet, q) @ qdd + ds.jacobian_drift(robot, feet, q, v)).max() < 1e-8)
    True
    """
    return bind(tree, constraints, JACOBIAN_DRIFT, {"q": q, "v": v}, **given).run()["drift"]
