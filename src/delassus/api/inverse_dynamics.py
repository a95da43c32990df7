"""Inverse dynamics at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.accuracy.status import CONFLICT, LEAST_SIZE
from delassus.api.direct import bind
from delassus.api.kinematics import jacobian
from delassus.constraints import Bushing, Constraint, SpringDamper, check_constraints, row_slices
from delassus.errors import ConstraintError
from delassus.frozen import Explained, Frozen
from delassus.model.tree import Tree
from delassus.quantities.declarations.inverse_dynamics import (
    BIAS_FORCE,
    INVERSE_DYNAMICS,
    INVERSE_DYNAMICS_DERIVATIVES,
    INVERSE_DYNAMICS_HESSIAN,
)
from delassus.quantities.keywords import (
    ConstraintArguments,
    Constraints,
    InverseDynamicsMethod,
    Payloads,
    Surroundings,
)
from delassus.quantities.planner.methods import AUTO
from delassus.spatial.rotations import Array


class InverseDynamicsStatus(Explained):
    """Whether motors and constraints cause a motion; the text says what that means for the user.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.InverseDynamicsStatus.UNIQUE.text
    'motors and constraints cause the motion, in one way only'
    """

    UNIQUE = "motors and constraints cause the motion, in one way only"
    LEAST = "motors and constraints cause the motion in many ways; this one has the least sum of weighted squares"
    UNREACHED = (
        "no forces of these motors and constraints, within friction if there is any, cause the motion: "
        "`force_residual` says what is missing at joints without motors; add motors or constraints, or ask for another "
        "motion"
    )
    BROKEN = (
        "the motion breaks constraints: `row_residual` says by how much; take accelerations that keep them, "
        "of forward_dynamics or of reduced_dynamics, say"
    )
    FAILED = (
        "numbers overflowed here, or iterations of friction did not end: nothing is known; make positions, velocities "
        "and accelerations smaller, or coefficients of friction larger"
    )


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InverseDynamics(Frozen):
    """Forces that cause a motion, as `inverse_dynamics` with constraints returns them; all arrays are read-only.

    Attributes
    ----------
    tau : (..., nv) array
        Joint forces of motors (N, N·m), zero at joints without: ``M q̈ + c = τ + Jᵀ f``.
    forces : tuple of (..., m_c) arrays
        Force of each constraint on its first link, along its rows (N, N·m), as of `ForwardDynamics`.
    status : (...) array of InverseDynamicsStatus
        Whether they cause the motion; the member's ``text`` is the advice.
    force_residual : (..., nv) array
        ``M q̈ + c − τ − Jᵀ f`` (N, N·m): what no motor and no constraint gives, zero at motors. Its norm is least.
    row_residual : (..., m) array
        ``J q̈ + J̇ v`` (m/s², rad/s²): accelerations along rows that should be none.
    rank : (...) array of int
        Number of independent ones among the forces of constraints at joints without motors: all others are open.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> robot = ds.mechanisms.humanoid()
    >>> feet = [ds.Weld("left_foot"), ds.Weld("right_foot")]
    >>> q, still = robot.neutral(), np.zeros((3, robot.nv))
    >>> found = ds.inverse_dynamics(robot, q, still, still, feet)
    >>> found.tau.shape, [f.shape for f in found.forces], found.status[0].name, found.rank.tolist()
    ((3, 38), [(3, 6), (3, 6)], 'LEAST', [6, 6, 6])
    """

    tau: Array
    forces: tuple[Array, ...]
    status: NDArray[np.object_]
    force_residual: Array
    row_residual: Array
    rank: NDArray[np.int_]

    def __repr__(self) -> str:
        statuses = [status.name for status in InverseDynamicsStatus if np.any(self.status == status)]
        return f"{type(self).__name__}(tau={self.tau.shape}, status={', '.join(statuses)})"


class _Constrained(ConstraintArguments, Surroundings, total=False):
    """Keywords of inverse dynamics with constraints."""

    weights: ArrayLike | None
    active: ArrayLike
    friction: ArrayLike | None


OnlySprings = tuple[()] | SpringDamper | Bushing | list[SpringDamper | Bushing]


@overload
def inverse_dynamics(
    tree: Tree, q: ArrayLike, v: ArrayLike, qdd: ArrayLike, constraints: OnlySprings = (), *, motors: None = None,
    payloads: Payloads = None, **given: Unpack[Surroundings],
) -> Array: ...  # fmt: skip
@overload
def inverse_dynamics(
    tree: Tree, q: ArrayLike, v: ArrayLike, qdd: ArrayLike, constraints: Constraints = (), *,
    motors: Iterable[str] | Literal["actuated"] | None = None, method: InverseDynamicsMethod = "auto",
    **given: Unpack[_Constrained],
) -> InverseDynamics: ...  # fmt: skip
def inverse_dynamics(
    tree: Tree,
    q: ArrayLike,
    v: ArrayLike,
    qdd: ArrayLike,
    constraints: Constraints = (),
    *,
    motors: Iterable[str] | Literal["actuated"] | None = None,
    method: InverseDynamicsMethod = "auto",
    **given: Unpack[_Constrained],
) -> Array | InverseDynamics:
    """Joint forces that cause given accelerations; with constraints those of motors, and the forces of constraints.

    Without constraints and motors, ``τ = M q̈ + c + d v + k (q − r)``, by the Newton-Euler recursion. With either,
    ``τ + Jᵀ f`` is equal to that, and ``τ`` zero at joints without motors. Where several ``τ`` and ``f`` are, the sum
    of their weighted squares is least; where none are, what is missing is least. Weights of one, the default, give the
    least-norm solution, ``np.linalg.lstsq(np.hstack([S.T, J.T]), …)``: without weights of your own, neither motors nor
    constraints are spared, and no unit is hidden. Small weights of forces spare motors, small ones of joint forces give
    the forces of least norm, which feet on the ground hold most easily.

    Parameters
    ----------
    tree : Tree
    q : (..., nq) array_like
        Configurations; leading axes of all arguments are batches and broadcast.
    v, qdd : (..., nv) array_like
        Velocities (m/s, rad/s) and accelerations (m/s², rad/s²).
    constraints : Constraint or iterable of Constraint, optional
        What holds, feet on the ground and loops, m rows; rows may depend on one another. None stands for
        ``tree.constraints``; by default there are none. A `SpringDamper` or `Bushing` is a force; with these alone,
        as without constraints, the result is ``τ``.
    motors : iterable of str or "actuated", optional
        Joints that motors drive, by name; "actuated", the default with constraints, those of ``tree.actuated``.
    method : {"auto", "orthogonal", "cluster-rnea"}
        With constraints: ``"orthogonal"``, which "auto" takes, finds which equations are independent state by state;
        ``"cluster-rnea"`` is for motors whose joints determine all others, takes far fewer operations, and neither
        weights nor friction. "auto" of kernels takes it where it needs fewer operations and results are the same.
    weights : (..., nv + m) array_like, optional
        Of the squares of joint forces (those of joints without motors do not matter), then of the forces along the rows
        of all constraints; positive.
    friction : float or (..., n_constraints) array_like, optional
        Coefficients of the points of ``constraints`` that are held to the world: forces stay within ``|f_t| ≤ μ f_n``,
        ``f_n`` being along the third row, such as the vertical of ``ds.Point(…, axes="world")``. Other constraints are
        loops, without friction; a flat foot is four points. By interior points: within cones to round-off, and the
        forces of least squares to some 1e-6 of the largest, where some are on their cones.
    wrenches, gravity, passive, damping, payloads, active, rows, placements
        As in `forward_dynamics`, which raises the same errors; the last three with constraints.

    Returns
    -------
    (..., nv) array or InverseDynamics
        Without constraints and motors, ``τ`` in N and N·m: of all motors together; controls do not enter. With either,
        the result with constraint forces, a status, residuals and rank; of arrays of JAX or PyTorch, the results of the
        kernel ``ds.compile(tree, constraints, "inverse_dynamics", motors="actuated")``.

    Raises
    ------
    UnknownNameError, ConstraintError
        A motor that is no joint, whose name is in the message; weights that are not positive.

    References
    ----------
    Featherstone, Rigid Body Dynamics Algorithms, table 5.1; Righetti et al., "Optimal distribution of contact forces
    with inverse-dynamics control", IJRR 2013.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> q, v, qdd = arm.random(0), np.ones(7), np.ones(7)
    >>> tau = ds.inverse_dynamics(arm, q, v, qdd)
    >>> bool(np.allclose(ds.forward_dynamics(arm, q, v, tau).qdd, qdd))
    True
    >>> arms = ds.mechanisms.star(2, 3, root="fixed")
    >>> tips = [ds.Frame(f"branch{k}_3", (0.1, 0.2, 0.3)) for k in (1, 2)]
    >>> loop, motors = ds.Point(*tips), ["branch1_1_joint", "branch1_2_joint", "branch2_1_joint"]
    >>> q = ds.random_configurations(arms, loop, 0)
    >>> found = ds.inverse_dynamics(arms, q, np.zeros(6), np.zeros(6), loop, motors=motors)
    >>> found.status.item().name, np.flatnonzero(found.tau).tolist(), found.forces[0].shape
    ('UNIQUE', [0, 1, 3], (3,))
    """
    states: dict[str, Any] = {"q": q, "v": v, "qdd": qdd}
    is_plain = isinstance(constraints, tuple) and not constraints
    constraints = None if constraints is None else check_constraints(tree, constraints)
    if motors is None and (is_plain or (constraints and not any(c.holds for c in constraints))):
        refused = {} if isinstance(method, str) and method == AUTO else {"method": method}
        return bind(tree, constraints, INVERSE_DYNAMICS, states, AUTO, **given, **refused).run()["tau"]
    motors = "actuated" if motors is None else motors
    taken = "orthogonal" if isinstance(method, str) and method == AUTO else method
    bound = bind(tree, constraints, INVERSE_DYNAMICS, states, taken, motors=motors, **given)

    def with_status(bound: Any, found: dict[str, Array]) -> InverseDynamics:
        rank, f = found["rank"].astype(int), found["forces"]
        forces = tuple(np.array(f[..., rows]) for rows in row_slices(bound.request.constraints))
        J = jacobian(tree, bound.request.constraints, q, rows=given.get("rows"), placements=given.get("placements"))
        status = _status(bound, found, rank, np.abs(J))
        return InverseDynamics(found["tau"], forces, status, found["force_residual"], found["row_residual"], rank)

    return bound.reported(with_status)


def _status(bound: Any, found: dict[str, Array], rank: NDArray[np.int_], J: Array) -> NDArray[np.object_]:
    """Status of each state; residuals are compared with what they are made of, as in `delassus.accuracy.status`.

    ``J`` (..., m, nv) holds the sizes of the entries of the rows.
    """
    f, missing, missed = (np.abs(found[name]) for name in _SIZES)
    v, qdd = (np.abs(bound.values[name]) for name in ("v", "qdd"))
    forces = np.abs(found["tau"]) + missing + (np.swapaxes(J, -1, -2) @ f[..., None])[..., 0]
    products = v * np.max(v, axis=-1, keepdims=True, initial=0.0)
    accelerations = missed + (J @ (qdd + products)[..., None])[..., 0]
    sizes = np.array([c.size for c in bound.request.constraints], dtype=float)
    acting = np.broadcast_to(bound.values.get("active", 1.0), (*bound.batch, len(sizes))) @ sizes
    status = np.full(bound.batch, InverseDynamicsStatus.UNIQUE, dtype=object)
    status[rank < acting] = InverseDynamicsStatus.LEAST
    rounding = CONFLICT if bound.request.options.friction is None else WITHIN_FRICTION
    status[_exceeds(missing, forces, rounding)] = InverseDynamicsStatus.UNREACHED
    status[_exceeds(missed, accelerations, CONFLICT)] = InverseDynamicsStatus.BROKEN
    status[~np.all([np.isfinite(found["tau"]).all(axis=-1), np.isfinite(f).all(axis=-1)], axis=0)] = (
        InverseDynamicsStatus.FAILED
    )
    return status


WITHIN_FRICTION = 1e-6
"""The same of forces within friction cones, whose iterations end there."""

_SIZES = "forces", "force_residual", "row_residual"


def _exceeds(residual: Array, made_of: Array, rounding: float) -> NDArray[np.bool_]:
    """Whether a residual (..., k) is more than round-off of what it is made of, at each state."""
    least = LEAST_SIZE * np.linalg.norm(made_of, axis=-1, keepdims=True)
    return np.asarray(np.any(residual > rounding * (made_of + least), axis=-1))


def _springs(tree: Tree, constraints: OnlySprings) -> tuple[Constraint, ...]:
    """Springs, checked."""
    given = check_constraints(tree, constraints)
    for c in given:
        if c.holds:
            wanted = "springs alone, without motors"
            raise ConstraintError("constraints", wanted, repr(c), "Compile 'inverse_dynamics' with motors=.")
    return given


class InverseDynamicsDerivatives(NamedTuple):
    """What `inverse_dynamics_derivatives` returns."""

    dtau_dq: Array
    dtau_dv: Array
    dtau_dqdd: Array


def inverse_dynamics_derivatives(
    tree: Tree, q: ArrayLike, v: ArrayLike, qdd: ArrayLike, constraints: OnlySprings = (), *,
    payloads: Payloads = None, **given: Unpack[Surroundings],
) -> InverseDynamicsDerivatives:  # fmt: skip
    """Derivatives of the joint forces of `inverse_dynamics` with positions, velocities and accelerations.

    Takes what `inverse_dynamics` takes without ``motors``, springs alone as ``constraints``, and raises what that
    raises, `ConstraintError` for constraints that hold, too. Analytic, at O(n d). Positions change along the
    tangent of the configuration, in the sense of ``tree.integrate(q, δ)``: for free and ball joints ``δ`` is in the
    frame of their link, as ``v`` is, which is Pinocchio's convention. Wrenches stay fixed in their frames. With
    ``v = qdd = 0`` the first are those of generalised gravity, and with wrenches of static torques. Derivatives of all
    other quantities: `Kernel.derivative` with ``"tangent_jacobian"``.

    Returns
    -------
    A tuple whose fields have these names:

    dtau_dq, dtau_dv, dtau_dqdd : (..., nv, nv) arrays
        In SI units; the last one is the mass matrix.

    References
    ----------
    Carpentier, Mansard, "Analytical derivatives of rigid body dynamics algorithms", RSS 2018.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> q, v, qdd = arm.random(0), np.ones(7), np.ones(7)
    >>> dtau_dq, dtau_dv, M = ds.inverse_dynamics_derivatives(arm, q, v, qdd)
    >>> bool(np.allclose(M, ds.mass_matrix(arm, q)))
    True
    """
    states = {"q": q, "v": v, "qdd": qdd}
    springs = _springs(tree, constraints)
    found = bind(tree, springs, INVERSE_DYNAMICS_DERIVATIVES, states, AUTO, payloads=payloads, **given).run()
    return InverseDynamicsDerivatives(*(found[name] for name in InverseDynamicsDerivatives._fields))


class InverseDynamicsHessian(NamedTuple):
    """What `inverse_dynamics_hessian` returns."""

    d2tau_dqdq: Array
    d2tau_dqdv: Array
    d2tau_dvdv: Array
    d2tau_dqdqdd: Array


def inverse_dynamics_hessian(
    tree: Tree, q: ArrayLike, v: ArrayLike, qdd: ArrayLike, constraints: OnlySprings = (), *,
    payloads: Payloads = None, **given: Unpack[Surroundings],
) -> InverseDynamicsHessian:  # fmt: skip
    """Second derivatives of the joint forces of `inverse_dynamics`.

    Takes what `inverse_dynamics_derivatives` takes, and raises the same. Analytic, at O(n d²). Positions change as
    ``tree.integrate(q, δ)``, and derivatives are those by ``δ`` at zero, as of `dynamics_hessian`: between hinges and
    slides these are ``pinocchio.ComputeRNEASecondOrderDerivatives``. Other pairs have none.

    Returns
    -------
    A tuple whose fields have these names:

    d2tau_dqdq, d2tau_dqdv, d2tau_dvdv, d2tau_dqdqdd : (..., nv, nv, nv) arrays
        In SI units; entry (i, j, k) of the second is of joint force i, by position j and velocity k. The last one is
        the derivative of the mass matrix, ``∂M_ik/∂q_j``.

    References
    ----------
    Singh, Russell, Wensing, "Efficient analytical derivatives of rigid-body dynamics using spatial vector algebra",
    RA-L 2022; "On second-order derivatives of rigid-body dynamics: theory & implementation", T-RO 2024.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> found = ds.inverse_dynamics_hessian(arm, arm.random(0), np.ones(7), np.ones(7))
    >>> found.d2tau_dqdv.shape, bool(np.allclose(found.d2tau_dvdv, found.d2tau_dvdv.swapaxes(1, 2)))
    ((7, 7, 7), True)
    """
    states = {"q": q, "v": v, "qdd": qdd}
    springs = _springs(tree, constraints)
    found = bind(tree, springs, INVERSE_DYNAMICS_HESSIAN, states, AUTO, payloads=payloads, **given).run()
    return InverseDynamicsHessian(*(found[name] for name in InverseDynamicsHessian._fields))


def bias_force(
    tree: Tree, q: ArrayLike, v: ArrayLike, *, payloads: Payloads = None, **given: Unpack[Surroundings]
) -> Array:
    """Joint forces ``c`` that keep ``q̈ = 0``: Coriolis, centrifugal, gravity, wrenches, passive forces.

    Takes what `inverse_dynamics` takes, without ``qdd``, and raises what that raises.

    Returns
    -------
    (..., nv) array
        In N and N·m, as ``pinocchio.nonLinearEffects`` with ``passive="none"`` and without wrenches.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.bias_force(arm, arm.random(0), np.ones(7)).shape
    (7,)
    """
    return bind(tree, (), BIAS_FORCE, {"q": q, "v": v}, AUTO, payloads=payloads, **given).run()["c"]
