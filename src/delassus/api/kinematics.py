"""Poses and motions of frames at once."""

from __future__ import annotations

from typing import Unpack

from numpy.typing import ArrayLike

from delassus.api.direct import bind
from delassus.model.tree import Tree
from delassus.quantities.declarations.kinematics import (
    FRAME_ACCELERATION,
    FRAME_JACOBIAN,
    FRAME_VELOCITY,
    JACOBIAN,
    JACOBIAN_DRIFT,
    KINEMATICS,
)
from delassus.quantities.keywords import ConstraintArguments, Constraints, Frames, Reference
from delassus.quantities.planner.methods import AUTO
from delassus.spatial.rotations import Array


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


def jacobian(tree: Tree, constraints: Constraints, q: ArrayLike, **given: Unpack[ConstraintArguments]) -> Array:
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


def jacobian_drift(
    tree: Tree, constraints: Constraints, q: ArrayLike, v: ArrayLike, **given: Unpack[ConstraintArguments]
) -> Array:
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
