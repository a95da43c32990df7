"""Operational-space and whole-body control at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.accuracy.status import contradict
from delassus.api.direct import bind
from delassus.frozen import Frozen
from delassus.model.tree import Tree
from delassus.quantities.declarations.control import CONTROL
from delassus.quantities.evaluate import held_rows
from delassus.quantities.keywords import ConstraintArguments, Constraints, Surroundings
from delassus.quantities.planner.methods import AUTO
from delassus.runtime.calls import DirectCall, system_of
from delassus.spatial.rotations import Array


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Control(Frozen):
    """Joint forces that do tasks, as `control` returns them; all arrays are read-only.

    Attributes
    ----------
    tau : (..., nv) array
        Joint forces of motors (N, N·m).
    forces : tuple of (..., m_i) arrays
        Forces along the rows of each task that motors exert (N, N·m), then those of each contact on its first link.
    missed : (..., m) array
        Accelerations along the rows of all tasks, then of contacts, that are asked for and not reached (m/s², rad/s²):
        damping takes them where a direction is weak, and without contacts limits of joint forces do.
    force_residual : (..., nv) array
        Joint forces that neither motors nor contacts give (N, N·m): zero without contacts, and where they do.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> found = ds.control(arm, ds.Weld("link7", axes="world"), arm.random(0, batch=100), np.zeros(7))
    >>> found.tau.shape, found.missed.shape
    ((100, 7), (100, 6))
    """

    tau: Array
    forces: tuple[Array, ...]
    missed: Array
    force_residual: Array

    def __repr__(self) -> str:
        return f"{type(self).__name__}(tau={self.tau.shape}, forces={[f.shape for f in self.forces]})"


class _Tasks(ConstraintArguments, Surroundings, total=False):
    """Further keywords of `control`."""

    active: ArrayLike
    weights: ArrayLike | None
    friction: ArrayLike | None


def control(
    tree: Tree,
    tasks: Constraints,
    q: ArrayLike,
    v: ArrayLike,
    *,
    poses: Sequence[ArrayLike | None] | None = None,
    targets: Sequence[ArrayLike | None] | None = None,
    kp: ArrayLike | Sequence[ArrayLike | None] | None = None,
    kd: ArrayLike | Sequence[ArrayLike | None] | None = None,
    impedance: Any = False,
    posture: ArrayLike | None = None,
    posture_kp: ArrayLike | None = None,
    posture_kd: ArrayLike | None = None,
    compliance: Any = None,
    limits: bool = True,
    contacts: Constraints = None,
    motors: Iterable[str] | Literal["actuated"] | None = None,
    **given: Unpack[_Tasks],
) -> Control:
    """Joint forces that do tasks: operational-space control, and with contacts whole-body control.

    Along its rows each task is to accelerate by ``target − kd (velocity) − kp (pose − wanted pose)``. What tasks leave
    open goes by ``posture_kp (posture − q) − posture_kd v``: of all accelerations that do the tasks those are taken
    that are nearest to these in the metric of the mass matrix, so that the posture does not disturb the tasks (the
    dynamically consistent null space). Gravity, velocity products, damping and springs are compensated.

    Along directions in which joints hardly move the tasks, near singularities or where tasks are in conflict, less is
    done, so that forces are bounded at every configuration. Of what is asked for along a direction of mobility ``g``
    (an eigenvalue of the Delassus matrix, in (m/s²)/N) ``(1 + g / compliance)⁻³`` is missed: a millionth where ``g`` is
    100 times the compliance, an eighth where it is equal to it. Forces along the rows are at most ``3 / compliance``
    times what is asked for. All that is missed is in ``missed``.

    Parameters
    ----------
    tree : Tree
    tasks : Constraint or iterable of Constraint
        What is to move: m rows, such as ``ds.Weld("hand", axes="world")``, six in axes of the world,
        ``ds.Point(ds.Frame("hand", tip), axes="world")``, ``ds.Orientation``, ``ds.CenterOfMass``, ``ds.JointRows``.
    q : (..., nq) array_like
        Configurations; leading axes of all arguments are batches and broadcast.
    v : (..., nv) array_like
        Velocities (m/s, rad/s).
    poses : sequence of (..., 7) or (..., 3) array_like or None, optional
        Where in the world each task wants its frame: position in m and unit quaternion ``[x y z w]``, of points the
        position. Errors of orientation are rotation vectors of size ``2 sin ½ θ``. None: ``kp`` has no effect.
    targets : sequence of (..., m_i) array_like or None, optional
        Acceleration along the rows of each task (m/s², rad/s²); with a velocity to follow, ``a + kd u``. Of rows of
        impedance forces (N, N·m).
    kp, kd : float, (..., m_i) array_like or sequence of these, optional
        Gains of all tasks, or of each, by row: 1/s² and 1/s, by default 100 and 20. The damping ratio ``ζ`` is
        ``kd = 2 ζ √kp``.
    impedance : bool, or sequence of bool or (m_i,) array_like
        Of which tasks, or which of their rows, gains and targets are forces (N/m, N·s/m, N): a stiffness and a damping
        that act on the inertia as it is, and with gains of zero a force, as on a wall.
    posture : (..., nq) array_like, optional
        Configuration that joints are drawn to. Without one their velocities are damped.
    posture_kp, posture_kd : float or (..., nv) array_like, optional
        Gains of that (1/s², 1/s), by default 10 and 6.3.
    compliance : float or sequence of float, (..., m_i) array_like or None, optional
        Mobility that is weak, of all tasks or of each, in (m/s²)/N and (rad/s²)/(N·m). By default a hundredth of that
        of a body as heavy as the robot: no direction is as heavy as a hundred robots.
    limits : bool
        Whether joint forces are cut off at ``tree.effort_limit``.
    contacts : Constraint or iterable of Constraint, optional
        What holds while tasks are done: feet on the ground, loops. Accelerations keep them; `inverse_dynamics` with
        constraints then gives forces of motors and contacts.
    motors, weights, friction
        With contacts as in `inverse_dynamics`: weights are (..., nv + rows of contacts), coefficients of friction those
        of contacts. Without contacts all joints have motors.
    wrenches, gravity, passive, damping, payloads, active, rows, placements
        As in `forward_dynamics`, which raises the same errors; wrenches of the surroundings are compensated, ``active``
        is of tasks and contacts.

    Returns
    -------
    Control
        With arrays of JAX or PyTorch a tuple: joint forces, forces along all rows, what is missed and with contacts the
        residual.

    Warns
    -----
    DelassusWarning
        Of states at which rows of contacts contradict one another, numbers overflow, or errors are large because the
        mass matrix is nearly singular.

    Raises
    ------
    ConstraintError, ConfigurationError
        A gain or compliance that is negative, of the wrong shape, or not a number; a list without an entry for each
        task.

    References
    ----------
    Khatib, "A unified approach for motion and force control of robot manipulators", IEEE J. Robotics and Automation
    1987; Nakamura, Hanafusa, "Inverse kinematic solutions with singularity robustness for robot manipulator control",
    J. Dynamic Systems, Measurement, and Control 1986; Sentis, Khatib, "Synthesis of whole-body behaviors through
    hierarchical control of behavioral primitives", IJHR 2005.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm, tip = ds.mechanisms.chain(7), ds.Point("link7", axes="world")
    >>> q = arm.random(0, batch=1000)
    >>> found = ds.control(arm, tip, q, np.zeros(7), poses=[[1.0, 0.2, 0.5]], posture=arm.neutral())
    >>> found.tau.shape, found.forces[0].shape
    ((1000, 7), (1000, 3))
    """
    options = {
        "poses": poses, "targets": targets, "kp": kp, "kd": kd, "posture": posture, "posture_kp": posture_kp,
        "posture_kd": posture_kd, "compliance": compliance, "contacts": contacts, "motors": motors,
    }  # fmt: skip
    asked = {name: x for name, x in options.items() if x is not None}
    bound = bind(tree, tasks, CONTROL, {"q": q, "v": v}, AUTO, impedance=impedance, limits=limits, **asked, **given)

    def by_constraint(bound: DirectCall, found: dict[str, Array]) -> Control:
        bound.warn_of_states(found, conflicting=_contradict(bound))
        ends = np.cumsum([c.size for c in bound.request.constraints])
        forces = tuple(np.array(x) for x in np.split(found["forces"], ends[:-1], axis=-1)) if len(ends) else ()
        return Control(found["tau"], forces, found["missed"], found.get("force_residual", np.zeros_like(found["tau"])))

    return bound.reported(by_constraint)


def _contradict(bound: DirectCall) -> NDArray[np.bool_] | bool:
    """States (...) at which rows of contacts contradict one another."""
    tasks, held = bound.request.options.tasks, bound.request.constraints
    assert tasks is not None, "of control only"
    if tasks == len(held):
        return False
    found, _ = bound.evaluated(held_rows(bound.request))
    with np.errstate(all="ignore"):
        return contradict(system_of(bound.request, bound.values, found, bound.batch, tasks), bound.batch)
