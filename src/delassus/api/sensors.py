"""Sensors at once."""

from __future__ import annotations

from typing import Any, Unpack

from numpy.typing import ArrayLike

from delassus.accuracy.policy import check_error_bound
from delassus.api.direct import bind
from delassus.constraints.sensors import Sensors
from delassus.model.tree import Tree
from delassus.quantities.declarations.sensors import SENSORS
from delassus.quantities.keywords import Compliance, ConstrainedMotion, Constraints, DynamicsMethod
from delassus.quantities.planner.methods import AUTO
from delassus.spatial.rotations import Array


def sensors(
    tree: Tree,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    constraints: Constraints = None,
    *,
    sensors: Sensors = None,
    method: DynamicsMethod | None = None,
    compliance: Compliance = None,
    error_bound: float | None = None,
    **given: Unpack[ConstrainedMotion],
) -> dict[str, Array]:
    """What sensors of a robot measure: IMUs, poses and motions of frames, forces through joints, joints, actuators.

    `Sensor` says which kinds there are. Accelerations and forces are those that `forward_dynamics` gives, which takes
    the same arguments and raises the same errors: constraints act, and no contact does. Sensors of touch are refused:
    `Simulator.sensors` has them, and compiled contact steps (``outputs=(…, "sensors")``).

    Parameters
    ----------
    tree : Tree
    q, v, tau : (..., nq), (..., nv) and (..., nv) array_like
        Configurations, velocities (m/s, rad/s) and joint forces (N, N·m); leading axes are batches and broadcast.
    constraints : Constraint or iterable of Constraint, optional
        As in `forward_dynamics`.
    sensors : str, Sensor or sequence of these, optional
        Sensors of the tree by name, or others; all of ``tree.sensors`` by default.
    method, compliance, error_bound, control, kp, kd, v_target, wrenches, gravity, passive, damping
    targets, baumgarte, poses, rows, placements, payloads, active
        As in `forward_dynamics`. Forces of actuators need ``control="actuators"``.

    Returns
    -------
    dict of str to (..., n) array
        Numbers of each sensor by its name, in SI units. The kernel ``ds.compile(tree, constraints, "sensors")`` returns
        them one after the other, ``tree.sensor_index(name)`` says where.
        Sensors that measure neither accelerations nor forces need no solution: their states are all `SOLVED`.

    Warns
    -----
    DelassusWarning
        Of states with a status of `DynamicsStatus` that says that they are not solved, of each status by itself.

    Raises
    ------
    UnknownNameError, ConfigurationError
        No sensor of that name; a frame, link, joint or actuator that the tree does not have; no sensors at all; some of
        touch.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> tip = [ds.Sensor("acceleration", "accelerometer", "link7"), ds.Sensor("load", "force", "link7")]
    >>> found = ds.sensors(arm, arm.random(0, batch=100), np.zeros(7), np.zeros(7), sensors=tip)
    >>> found["acceleration"].shape, found["load"].shape
    ((100, 3), (100, 3))
    """
    states, chosen = {"q": q, "v": v, "tau": tau}, AUTO if method is None else method
    bound: Any = bind(tree, constraints, SENSORS, states, chosen, compliance=compliance, sensors=sensors, **given)
    if error_bound is not None:
        bound.error_bound = check_error_bound(error_bound)
    found, at, out = bound.run()["sensors"], 0, dict[str, Array]()
    for sensor in bound.request.options.sensors:
        start, at = at, at + sensor.size(tree)
        out[sensor.name] = found[..., start:at]
    return out
