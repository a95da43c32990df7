"""Forward dynamics and its derivatives at once."""

from __future__ import annotations

from typing import Any, Unpack

from numpy.typing import ArrayLike

from delassus.accuracy.policy import check_error_bound
from delassus.algorithms.dynamics import ITERATIVE
from delassus.api.direct import CompiledRequest, bind
from delassus.errors import ConfigurationError, shown
from delassus.model.check import check_number, check_whole
from delassus.model.tree import Tree
from delassus.quantities.declarations.dynamics import DYNAMICS, DYNAMICS_DERIVATIVES, DYNAMICS_HESSIAN
from delassus.quantities.keywords import Compliance, ConstrainedMotion, Constraints, DynamicsMethod, ForcedMotion
from delassus.quantities.planner.methods import AUTO
from delassus.quantities.results import (
    DynamicsDerivatives,
    DynamicsHessian,
    ForwardDynamics,
    differentiated,
    solved,
    twice_differentiated,
)


def forward_dynamics(
    tree: Tree,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    constraints: Constraints = None,
    *,
    method: DynamicsMethod | None = None,
    compliance: Compliance = None,
    tolerance: float | None = None,
    max_iterations: int | None = None,
    error_bound: float | None = None,
    **given: Unpack[ConstrainedMotion],
) -> ForwardDynamics:
    """Joint accelerations, and the forces of the constraints.

    Damping, springs, gravity, its compensation and constraints act as the robot's file says; ``passive="none"`` leaves
    out damping, springs and compensation, ``constraints=()`` the last; so in all functions that take these arguments,
    in `compile` and in `Simulator`. Without targets and stabilisation, constraints ask that the velocity along their
    rows stay as it is: welds and hinges that the components of the relative twist in the axes of the first frame (or
    the world, ``axes="world"``) do not change, points that their *classical* accelerations are equal.

    Parameters
    ----------
    tree : Tree
    q : (..., nq) array_like
        Configurations; leading axes of all arguments are batches and broadcast.
    v, tau : (..., nv) array_like
        Velocities (m/s, rad/s) and joint forces (N, N·m).
    constraints : Constraint or iterable of Constraint, optional
        Stacked in this order, m rows in all; ``tree.constraints`` if not given: ``[*tree.constraints, Point("foot")]``.
        A `SpringDamper` or `Bushing` is a force of the state: it has neither rows nor an entry in ``forces`` and in
        arguments with one for each constraint. Those of the robot's file act as springs of its joints do.
    control : {"tau", "actuators", "pd"}
        What ``tau`` holds. With ``"actuators"``, the controls (..., nu) of ``tree.actuators``, whose gains, biases,
        gears and ranges make joint forces of them. With ``"pd"``, target configurations (..., nq): joint forces are
        ``kp (q* − q) + kd (v* − v)`` on revolute and prismatic joints. Either is cut off at joints' effort limits.
    kp, kd, v_target : (..., nv) array_like
        Of ``"pd"``: gains (N·m/rad, N/m; N·m·s/rad, N·s/m), and velocities ``v*``, which are zero if not given.
    method : str, optional
        One of ``DYNAMICS_METHODS``. By default, as of kernels, ``"aba"`` without constraints, else ``"pv-early"``;
        ``"ltl"`` where that takes less time on loops of few links, and ``"proximal"`` where hard rows of loops are
        dependent at configurations that close these, or where constraints that can be off are some soft, some hard.
        ``"cluster-aba"`` eliminates the dependent coordinates of loops: hard constraints that always act.
    wrenches : mapping of str or Frame to (..., 6) array_like, optional
        External wrench ``[force; moment]`` (N, N·m) on a link, at the origin and in the axes of that frame.
    gravity : (..., 3) array_like, optional
        In m/s², world axes, in place of ``tree.gravity``.
    passive : {"model", "none"}
        Whether damping and springs, ``d v + k (q − r)``, and gravity compensation act as the robot's description says.
        ``"none"`` gives the equations of rigid bodies alone, as Pinocchio's ``aba`` does.
    damping : (..., nv) array_like, optional
        Viscous coefficients ``d``, in place of those of the robot's description.
    targets : list of (..., m_c) array_like or None, optional
        Acceleration along the rows of each constraint (m/s², rad/s²); None is zero.
    baumgarte : Baumgarte, float or list of these or None, optional
        Stabilisation of all constraints, or of each; a number is its frequency (1/s).
    poses : list of (..., 7) array_like or None, optional
        Where in the world the first frame of each constraint to the world should be, for stabilisation: position in m
        and unit quaternion x y z w; of a point, its position (..., 3) will do. With None, only velocities are
        stabilised. Constraints between two links need none, and ``Rows`` can have none.
    compliance : float or list of float, (..., m_c) array_like or None, optional
        Makes all constraints soft, or each: ``R`` by row, in (m/s²)/N or (rad/s²)/(N·m); its reciprocal is the weight
        of the penalty. The force is ``R⁻¹`` times the acceleration that the row falls short of what it asks for, as
        in MuJoCo (``efc_R``; its ``efc_aref`` is a target). None is hard. Methods ``"ltl-soft"`` and ``"pv-soft"``
        take soft constraints, ``"aba"`` none, ``"pv"`` hard ones, all others both. Round-off of the first two
        grows as ``1 / R``, and below about 1e-8 accelerations leave those of hard constraints again; those of the
        others do not, unless rows are redundant and ask for what cannot be.
    tolerance : float, optional
        ``"proximal"`` ends where as many iterations again change what the rows miss by less, relative to the
        accelerations asked for, each by the size of its row; 1e-9 by default.
    max_iterations : int, optional
        ``"proximal"`` ends after so many; at most 3, the default.
    error_bound : float, optional
        States whose ``error_estimate`` is above it are solved again, by the dense saddle point, then in extended
        precision, and have the status ``INACCURATE`` if it still is; 1e-6 by default.
    rows, placements, payloads, active
        What comes with each call, as in `delassus.delassus`; ``active`` (..., n_constraints): True or 1 where it acts.

    Returns
    -------
    ForwardDynamics
        ``qdd``, ``forces``, ``status``, ``error_estimate``, ``rank``, ``redundant_rows``, ``constraint_residual()``,
        ``dynamics_residual()``, ``report()``, and of ``"proximal"`` ``iterations`` and ``residual``. Where rows are
        redundant or contradict one another, the status says so, ``redundant_rows`` and ``report()`` say which, and the
        solution is the least-squares one.

    Raises
    ------
    ConfigurationError
        An argument has the wrong shape or type, NaN, a quaternion that is not of unit length, or negative damping.
    ConstraintError, UnknownNameError
        Not a constraint, one of a link that the tree does not have, or no such method; ``"aba"`` with constraints; a
        method that takes no soft, or no hard constraints; targets, poses or compliances of the wrong number or shape.

    References
    ----------
    Sathya et al., "Efficient constrained dynamics algorithms based on an equivalent LQR formulation", IEEE T-RO 2024;
    the sources in each algorithm's file.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> robot = ds.mechanisms.humanoid()
    >>> feet = [ds.Weld("left_foot"), ds.Weld("right_foot")]
    >>> solution = ds.forward_dynamics(robot, robot.random(0), np.ones(robot.nv), np.zeros(robot.nv), feet)
    >>> solution.qdd.shape == (robot.nv,), len(solution.forces)
    (True, 2)
    >>> bool(abs(solution.constraint_residual()).max() < 1e-8)
    True
    """
    states, chosen = {"q": q, "v": v, "tau": tau}, AUTO if method is None else method
    bound: Any = bind(tree, constraints, DYNAMICS, states, chosen, compliance=compliance, **given)
    if isinstance(bound, CompiledRequest) and (tolerance, max_iterations, error_bound) != (None, None, None):
        wanted = "NumPy arrays, or no tolerance, max_iterations or error_bound"
        raise ConfigurationError("arrays", wanted, "others", "Compile a kernel, which takes an error_bound.")
    for name, value in (("tolerance", tolerance), ("max_iterations", max_iterations)):
        if value is not None and bound.request.method not in ITERATIVE:
            raise ConfigurationError(
                name, f"None with the method {bound.request.method!r}", shown(value), "Only 'proximal' iterates."
            )
    if tolerance is not None:
        bound.tolerance = check_number("tolerance", tolerance, "Leave it out for the default.")
    if max_iterations is not None:
        advice = "Leave it out for the default."
        bound.max_iterations = check_whole("max_iterations", max_iterations, advice, least=1)
    if error_bound is not None:
        bound.error_bound = check_error_bound(error_bound)
    found: ForwardDynamics = bound.reported(solved)
    return found


def dynamics_derivatives(
    tree: Tree,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    constraints: Constraints = None,
    *,
    compliance: Compliance = None,
    **given: Unpack[ConstrainedMotion],
) -> DynamicsDerivatives:
    """Forward dynamics, and the derivatives of accelerations and forces with positions, velocities and joint forces.

    Takes what `forward_dynamics` takes, and raises what that raises, but for a method, as all have the same
    derivatives. Analytic: the system that the solution fulfils is differentiated.
    Positions change along the tangent of the configuration, in the sense of ``tree.integrate(q, δ)``: for free and ball
    joints ``δ`` is in the frame of their link, as ``v`` is, which is Pinocchio's convention. Wrenches stay fixed in
    their frames, targets along their rows, poses in the world. With ``control``, derivatives
    are with controls (..., nv, nu) or target configurations (..., nv, nq) in the place of joint forces; what is cut off
    does not change.

    Returns
    -------
    DynamicsDerivatives
        ``qdd``, ``forces``, ``status``, ``rank`` and ``redundant_rows`` as `forward_dynamics` returns them,
        ``dqdd_dq``, ``dqdd_dv``, ``dqdd_dtau`` (..., nv, nv) and ``df_dq``, ``df_dv``, ``df_dtau`` (..., m, nv), in SI
        units. Where rows are redundant or contradict one another, they are those of the solution that
        `forward_dynamics` returns, along changes of the state that keep the rank: all of them where rows are dependent
        everywhere (two welds and points on a foot), those that keep loops closed where they are so only there (a
        Bennett linkage). Beyond, at singular configurations, the solution jumps. NaN where the status is ``FAILED``.

    References
    ----------
    Carpentier, Mansard, "Analytical derivatives of rigid body dynamics algorithms", RSS 2018; Budhiraja et al.,
    "Differential dynamic programming for multi-phase rigid contact dynamics", Humanoids 2018.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> robot = ds.mechanisms.humanoid()
    >>> feet = [ds.Weld("left_foot"), ds.Weld("right_foot")]
    >>> found = ds.dynamics_derivatives(robot, robot.random(0), np.ones(robot.nv), np.zeros(robot.nv), feet)
    >>> found.dqdd_dq.shape == (robot.nv, robot.nv), found.df_dq.shape == (12, robot.nv)
    (True, True)
    >>> bool(abs(ds.jacobian(robot, feet, robot.random(0)) @ found.dqdd_dtau).max() < 1e-8)
    True
    """
    states = {"q": q, "v": v, "tau": tau}
    bound = bind(tree, constraints, DYNAMICS_DERIVATIVES, states, AUTO, compliance=compliance, **given)
    return bound.reported(differentiated)


def dynamics_hessian(
    tree: Tree,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    constraints: Constraints = None,
    *,
    compliance: Compliance = None,
    **given: Unpack[ForcedMotion],
) -> DynamicsHessian:
    """Forward dynamics, and the first and second derivatives of accelerations and forces.

    Takes what `dynamics_derivatives` takes, but for ``control``, and raises what that raises. Analytic: the system that
    the solution fulfils is differentiated twice. Positions change as ``tree.integrate(q, δ)``, and derivatives are
    those by ``δ`` at zero, so that they are symmetric. Those of free, ball and planar joints differ from derivatives of
    ``dqdd_dq`` along the tangent by half a bracket: ``∂_k (∂_j q̈) = ∂²q̈/∂δ_j∂δ_k + ½ Σ_l c_l ∂_l q̈`` with
    ``[s_k, s_j] = Σ_l c_l s_l``, of which Pinocchio's second derivatives of inverse dynamics hold the left side.
    Derivatives by velocity and joint force, and twice by joint forces, are zero. What needs more memory than there is,
    4 kB a number, is refused: compile ``"dynamics_hessian"`` with some ``outputs``.

    Returns
    -------
    DynamicsHessian
        What `dynamics_derivatives` returns, ``d2qdd_dqdq``, ``d2qdd_dqdv``, ``d2qdd_dvdv``, ``d2qdd_dqdtau``
        (..., nv, nv, nv), and ``d2f_dqdq``, … (..., m, nv, nv), in SI units. Where rows are dependent, as the status
        says, those of forces are NaN, and those of accelerations are right if the rows do not contradict one another
        and stay dependent.

    References
    ----------
    Singh, Wensing et al., "On second-order derivatives of rigid-body dynamics", IEEE T-RO 2024, for inverse dynamics;
    constraints by the implicit function theorem.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> robot = ds.mechanisms.star(2, 2)
    >>> feet = [ds.Point("branch1_2"), ds.Point("branch2_2")]
    >>> found = ds.dynamics_hessian(robot, robot.random(0), np.ones(robot.nv), np.zeros(robot.nv), feet)
    >>> found.d2qdd_dqdv.shape == (robot.nv, robot.nv, robot.nv), found.d2f_dqdq.shape == (6, robot.nv, robot.nv)
    (True, True)
    >>> bool(np.allclose(found.d2qdd_dqdq, found.d2qdd_dqdq.swapaxes(1, 2)))
    True
    """
    states = {"q": q, "v": v, "tau": tau}
    bound = bind(tree, constraints, DYNAMICS_HESSIAN, states, AUTO, compliance=compliance, **given)
    return bound.reported(twice_differentiated)
