"""Derivatives of time steps at once."""

from __future__ import annotations

from typing import NamedTuple, Unpack

from numpy.typing import ArrayLike

from delassus.api.direct import bind
from delassus.model.tree import Tree
from delassus.quantities.declarations.steps import STEP_DERIVATIVES, STEP_HESSIAN
from delassus.quantities.keywords import Compliance, ConstrainedMotion, Constraints, ForcedMotion, Integrator
from delassus.spatial.rotations import Array


class DifferentiatedStep(NamedTuple):
    """What `step_derivatives` returns."""

    q_next: Array
    v_next: Array
    A: Array
    B: Array


def step_derivatives(
    tree: Tree,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    dt: ArrayLike,
    constraints: Constraints = None,
    *,
    integrator: Integrator = "semi-implicit",
    impacts: ArrayLike | None = None,
    compliance: Compliance = None,
    **given: Unpack[ConstrainedMotion],
) -> DifferentiatedStep:
    """State after one time step, and its derivatives ``A`` and ``B``, on the configuration manifold.

    ``[δq⁺; δv⁺] = A [δq; δv] + B δτ``, where changes of configurations are in the tangent that `Tree.integrate` moves
    on, at the configuration itself: ``q⁺`` becomes ``tree.integrate(q⁺, δq⁺)``. Joint forces are held over the step.

    Parameters
    ----------
    tree : Tree
    q, v, tau : (..., nq), (..., nv) and (..., nv) array_like
        Configurations, velocities (m/s, rad/s) and joint forces (N, N·m); leading axes are batches and broadcast.
    dt : (...) array_like
        Time step in s. Derivatives of free, ball and planar joints are exact up to one turn in it.
    constraints : Constraint or iterable of Constraint, optional
        Hard unless there is a ``compliance``; they default to those of the robot's file, as in `forward_dynamics`.
    integrator : {"semi-implicit", "rk4"}
        ``v⁺ = v + dt q̈``, ``q⁺ = q ⊕ dt v⁺``; or Runge-Kutta of order 4, at many times the operations.
    impacts : (..., n_constraints) array_like, optional
        True (or 1) of constraints whose rows come to rest by impulses before the step, as of feet that touch down.
    control, kp, kd, v_target, wrenches, gravity, passive, damping
    targets, baumgarte, poses, compliance, rows, placements, payloads, active
        As in `forward_dynamics`, which raises the same errors.

    Returns
    -------
    A tuple whose fields have these names:

    q_next, v_next : (..., nq) and (..., nv) arrays
        What a compiled "step" gives.
    A : (..., 2 nv, 2 nv) array
    B : (..., 2 nv, nv) array
        In SI units; where rows are dependent, as in `dynamics_derivatives`. With ``control`` of width nu or nq.

    Warns
    -----
    DelassusWarning
        Of states with a status of `DynamicsStatus` that says that they are not solved, of each status by itself.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> robot, foot = ds.mechanisms.humanoid(), ds.Point("left_foot")
    >>> q, v, tau = robot.random(0), np.ones(robot.nv), np.zeros(robot.nv)
    >>> found = ds.step_derivatives(robot, q, v, tau, 1e-3, foot)
    >>> found.A.shape == (2 * robot.nv, 2 * robot.nv), found.B.shape == (2 * robot.nv, robot.nv)
    (True, True)
    >>> q_next, v_next, A, B = found
    """
    states, options = {"q": q, "v": v, "tau": tau, "dt": dt}, {"integrator": integrator, "impacts": impacts}
    found = bind(tree, constraints, STEP_DERIVATIVES, states, compliance=compliance, **options, **given).run()
    return DifferentiatedStep(*(found[name] for name in DifferentiatedStep._fields))


class TwiceDifferentiatedStep(NamedTuple):
    """What `step_hessian` returns."""

    q_next: Array
    v_next: Array
    A: Array
    B: Array
    d2x_dxdx: Array
    d2x_dxdtau: Array
    d2x_dtaudtau: Array


def step_hessian(
    tree: Tree,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    dt: ArrayLike,
    constraints: Constraints = None,
    *,
    compliance: Compliance = None,
    **given: Unpack[ForcedMotion],
) -> TwiceDifferentiatedStep:
    """State after one semi-implicit time step, and its first and second derivatives.

    Takes what `step_derivatives` takes, but for ``integrator``, ``impacts`` and ``control``, and raises what that
    raises. With ``x = [δq; δv]``, the state after the step is ``A x + B δτ + ½ x·X x + x·Y δτ + ½ δτ·Z δτ`` and terms
    of higher order, where ``δq`` before and after are tangents: ``q`` becomes ``tree.integrate(q, δq)``.

    Returns
    -------
    A tuple whose fields have these names:

    q_next, v_next, A, B
        As of `step_derivatives`.
    d2x_dxdx : (..., 2 nv, 2 nv, 2 nv) array
        ``X``; entry (i, j, k) is of number i of the state after the step.
    d2x_dxdtau : (..., 2 nv, 2 nv, nv) array
        ``Y``.
    d2x_dtaudtau : (..., 2 nv, nv, nv) array
        ``Z``, zero but for positions of free, ball and planar joints.

    Warns
    -----
    DelassusWarning
        As of `step_derivatives`.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> robot, foot = ds.mechanisms.star(2, 2), ds.Point("branch1_2")
    >>> q, v, tau = robot.random(0), np.ones(robot.nv), np.zeros(robot.nv)
    >>> found = ds.step_hessian(robot, q, v, tau, 1e-3, foot)
    >>> found.d2x_dxdtau.shape == (2 * robot.nv, 2 * robot.nv, robot.nv)
    True
    """
    states = {"q": q, "v": v, "tau": tau, "dt": dt}
    found = bind(tree, constraints, STEP_HESSIAN, states, compliance=compliance, **given).run()
    return TwiceDifferentiatedStep(*(found[name] for name in TwiceDifferentiatedStep._fields))
