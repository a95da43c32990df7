"""Delassus matrix, impulses and what goes with them at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack, get_args

from numpy.typing import ArrayLike

from delassus.accuracy.operator import DelassusOperator
from delassus.accuracy.policy import ERROR_BOUND
from delassus.algorithms.osim import OVER_LOOPS
from delassus.api.direct import bind
from delassus.model.tree import Tree
from delassus.quantities import evaluate
from delassus.quantities.declarations.osim import (
    BRANCH_SOLUTION,
    CONSISTENT_INVERSE,
    CORIOLIS_MATRIX,
    DAMPED_SOLUTION,
    DELASSUS,
    DELASSUS_PRODUCT,
    IMPULSE,
    MASS_MATRIX,
    OSIM,
)
from delassus.quantities.keywords import ConstraintArguments, Constraints, DynamicsMethod, OsimMethod, Payloads
from delassus.quantities.planner.methods import AUTO
from delassus.quantities.results import ImpulseDynamics, impulses_found
from delassus.spatial.rotations import Array

OSIM_METHODS: tuple[OsimMethod, ...] = get_args(OsimMethod)
"""Names that ``method=`` accepts."""


def delassus(
    tree: Tree,
    constraints: Constraints,
    q: ArrayLike,
    *,
    method: OsimMethod | None = None,
    loops: Constraints = None,
    **given: Unpack[ConstraintArguments],
) -> Array:
    """Delassus matrix ``G = J M⁻¹ Jᵀ``, the inverse operational-space inertia.

    Parameters
    ----------
    tree : Tree
    constraints : Constraint or iterable of Constraint
        Stacked in this order; m rows in all. None stands for ``tree.constraints``.
    q : (..., nq) array_like
        Configurations; leading axes are batches.
    method : str, optional
        One of ``OSIM_METHODS``; ``"pv-osimr"`` if not given, with loops ``"cluster-pv-osimr"``, which takes
        them, as do ``"cluster-efpa"`` and ``"dense"``.
    loops : Constraint or iterable of Constraint, optional
        What closes the loops of the robot. With the map ``Γ`` from independent velocities to all (`reduced_dynamics`),
        the matrix is ``J Γ (Γᵀ M Γ)⁻¹ Γᵀ Jᵀ``, at configurations at which the loops hold.
    rows : sequence of (..., m_i, 6) array_like, optional
        Rows of each ``Rows(link, m_i)`` constraint, in order.
    placements : sequence of (..., 3) or (..., 7) array_like, optional
        Placement of each ``Frame(link, given=…)``, in the order of the constraints, a first frame before a second one.
    payloads : mapping of str to (..., 10) array_like, optional
        For each link named, what is added to its inertia: ``[m, m c, Ixx, Ixy, Iyy, Ixz, Iyz, Izz]`` (kg, kg·m, kg·m²;
        inertia about the origin of that link's own frame, in its axes), which are Pinocchio's dynamic parameters.

    Returns
    -------
    (..., m, m) array
        Symmetric positive semidefinite. Entry (r, s) is the acceleration along row r that a unit force along row s
        causes (SI units; axes of the constraints).

    Raises
    ------
    ConfigurationError
        ``q``, a placement or a payload has the wrong shape or type, NaN, or a quaternion that is not of unit length.
    ConstraintError, UnknownNameError
        Not a constraint, one of a link that the tree does not have, or no such method; the nearest name is offered.

    References
    ----------
    Sathya et al., "Efficient constrained dynamics algorithms based on an equivalent LQR formulation", IEEE T-RO 2024;
    Sathya, Decré, Swevers, "PV-OSIMr", IEEE RA-L 2024; and the sources in each algorithm's file.

    Examples
    --------
    >>> import delassus as ds
    >>> robot = ds.mechanisms.humanoid()
    >>> feet = [ds.Weld("left_foot"), ds.Weld("right_foot")]
    >>> ds.delassus(robot, feet, robot.neutral()).shape
    (12, 12)
    """
    by = method if method is not None else ("pv-osimr" if loops is None else OVER_LOOPS)
    return bind(tree, constraints, DELASSUS, {"q": q}, by, loops=loops, **given).run()["G"]


def osim(
    tree: Tree,
    constraints: Constraints,
    q: ArrayLike,
    *,
    method: OsimMethod = "pv-osimr",
    **given: Unpack[ConstraintArguments],
) -> Array:
    """Operational-space inertia matrix ``Λ = (J M⁻¹ Jᵀ)⁻¹``, as ``pinocchio``'s operational-space inertia.

    Takes what `delassus` takes, and raises what that raises.

    Returns
    -------
    (..., m, m) array
        Symmetric positive definite. Entry (r, s) is the constraint force along row r that a unit acceleration along
        row s takes (SI units; axes of the constraints).

    Raises
    ------
    SingularError
        The rows are linearly dependent at some state; names it.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.osim(arm, ds.Point("link7"), arm.random(0)).shape
    (3, 3)
    """
    return bind(tree, constraints, OSIM, {"q": q}, method, **given).run()["Lambda"]


def consistent_inverse(
    tree: Tree,
    constraints: Constraints,
    q: ArrayLike,
    *,
    method: OsimMethod = "pv-osimr",
    **given: Unpack[ConstraintArguments],
) -> Array:
    """Dynamically consistent inverse ``J̄ = M⁻¹ Jᵀ Λ`` (..., nv, m) of the constraint Jacobian.

    ``J J̄ = 1``, and torques ``(1 − Jᵀ J̄ᵀ) τ`` cause no acceleration along the constraint rows. Takes what `delassus`
    takes, and raises what `osim` raises.

    References
    ----------
    Khatib, "A unified approach for motion and force control of robot manipulators", IEEE J. Robotics and Automation
    1987.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.consistent_inverse(arm, ds.Point("link7"), arm.random(0)).shape
    (7, 3)
    """
    return bind(tree, constraints, CONSISTENT_INVERSE, {"q": q}, method, **given).run()["Jbar"]


def delassus_operator(
    tree: Tree,
    constraints: Constraints,
    q: ArrayLike,
    *,
    damping: ArrayLike | None = None,
    **given: Unpack[ConstraintArguments],
) -> DelassusOperator:
    """Delassus matrix factorised without being formed (PV-OSIM-fast): ``solve``, ``apply``, ``dense``.

    Where a branch block is singular, ``G`` itself is factorised, and the result's ``factorisation`` says so for each
    state.

    Parameters
    ----------
    tree, constraints, q, rows, placements, payloads
        As `delassus` takes them; raises what that raises.
    damping : float, (m,) or (..., m) array_like, optional
        Positive numbers, in (m/s²)/N and (rad/s²)/(N·m), that are added to the diagonal of ``G``, which is then never
        singular: what iterations such as ADMM solve with. `solve` takes O(n + m) operations. For such iterations on
        many states compile ``"delassus_product"`` (``q``, ``x``) and ``"damped_solution"`` (``q``, ``x``, and ``d``,
        the damping of each row); ``"delassus_solution"`` (``q``, ``x``) is that without damping.

    Returns
    -------
    DelassusOperator
        ``solve(x)`` and ``apply(x)`` with vectors (..., m), and ``dense()`` (..., m, m).

    References
    ----------
    Sathya et al., IEEE T-RO 2024, section VII-B.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> robot = ds.mechanisms.humanoid()
    >>> op = ds.delassus_operator(robot, [ds.Weld("left_foot"), ds.Weld("right_foot")], robot.random(0))
    >>> x = np.ones(12)
    >>> bool(np.allclose(op.apply(op.solve(x)), x))
    True
    """
    bound = bind(tree, constraints, DELASSUS, {"q": q}, "pv-osimr", **given)
    bound.run()  # warns where matrices are nearly singular
    known = {of.name: of for of in (evaluate.JUDGED_ROWS, BRANCH_SOLUTION, DELASSUS_PRODUCT, DAMPED_SOLUTION)}

    def run(name: str, **arguments: Array) -> list[Array]:
        call = bind(tree, constraints, known[name], {"q": q, **arguments}, AUTO, **given) if name in known else bound
        if name != "branch_solution":
            return [*call.run().values()]
        y, error = call.computed()
        return [y, error <= ERROR_BOUND["float64"]]

    return DelassusOperator(bound.batch, bound.request.shape_of(("m",))[0], damping, run)


def mass_matrix(tree: Tree, q: ArrayLike, *, payloads: Payloads = None) -> Array:
    """Joint-space mass matrix ``M``, by the composite-rigid-body algorithm: all of ``pinocchio.crba``, not a triangle.

    Takes ``tree``, ``q`` and ``payloads`` as `delassus` does, and raises what that raises for them.

    Returns
    -------
    (..., nv, nv) array
        Symmetric positive definite, armature included (kg, kg·m, kg·m²); rows and columns in the layout of ``v``.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.mass_matrix(arm, arm.random(0)).shape
    (7, 7)
    """
    return bind(tree, (), MASS_MATRIX, {"q": q}, payloads=payloads).run()["M"]


def coriolis_matrix(tree: Tree, q: ArrayLike, v: ArrayLike, *, payloads: Payloads = None) -> Array:
    """Coriolis matrix ``C``: joint forces ``C v`` keep ``q̈ = 0`` without gravity, and ``Ṁ − 2 C`` is skew.

    Takes ``tree``, ``q``, ``v`` and ``payloads`` as `forward_dynamics` does, and raises what that raises for them.

    Returns
    -------
    (..., nv, nv) array
        Pinocchio's ``computeCoriolisMatrix``; rows and columns in the layout of ``v``.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(7)
    >>> q, v = arm.random(0), np.ones(7)
    >>> bool(np.allclose(ds.coriolis_matrix(arm, q, v) @ v, ds.bias_force(arm, q, v, gravity=[0, 0, 0])))
    True
    """
    return bind(tree, (), CORIOLIS_MATRIX, {"q": q, "v": v}, payloads=payloads).run()["C"]


def impulse(
    tree: Tree,
    q: ArrayLike,
    v: ArrayLike,
    constraints: Constraints = None,
    restitution: ArrayLike = 0.0,
    *,
    method: DynamicsMethod | None = None,
    targets: Sequence[ArrayLike | None] | None = None,
    active: ArrayLike | None = None,
    **given: Unpack[ConstraintArguments],
) -> ImpulseDynamics:
    """Velocities after an impact, and its impulses: constraints close in no time, at the same configuration.

    ``M (v⁺ − v) = Jᵀ p``, ``J v⁺ = −e J v``. Constraints of the robot's file take impulses with the others; those that
    hold already have ``J v = 0``, and stay so whatever ``e`` is. All rows are bilateral: of a foot that may lift off or
    slide see `Contact`.

    Parameters
    ----------
    tree : Tree
    q, v : (..., nq) and (..., nv) array_like
        Configurations, and velocities before the impact (m/s, rad/s); leading axes of all arguments are batches.
    constraints : Constraint or iterable of Constraint, optional
        Stacked in this order, m rows in all; ``tree.constraints`` if not given.
    restitution : float or (..., n_constraints) array_like
        ``e`` of all constraints, or of each, from 0, where rows come to rest, to 1.
    method : str, optional
        One of ``DYNAMICS_METHODS`` that takes hard constraints; as in `forward_dynamics`.
    targets : list of (..., m_c) array_like or None, optional
        Velocities that are added to ``−e J v`` along the rows of each constraint (m/s, rad/s); None is zero.
    active : (..., n_constraints) array_like, optional
        True (or 1) where a constraint acts, else False.
    rows, placements, payloads : optional
        As `delassus` takes them.

    Returns
    -------
    ImpulseDynamics
        Where rows are redundant or contradict one another, the status says so, and the solution is the least-squares
        one, as of `forward_dynamics`.

    Raises
    ------
    ConfigurationError, ConstraintError, UnknownNameError
        As `forward_dynamics`; restitution outside [0, 1].

    References
    ----------
    Featherstone, Rigid Body Dynamics Algorithms, 11.7.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> robot, foot = ds.mechanisms.humanoid(), ds.Point("left_foot")
    >>> q, v = robot.random(0), np.ones(robot.nv)
    >>> found = ds.impulse(robot, q, v, foot)
    >>> bool(abs(ds.jacobian(robot, foot, q) @ found.v_next).max() < 1e-12), found.impulses[0].shape
    (True, (3,))
    >>> bool(ds.kinetic_energy(robot, q, found.v_next) < ds.kinetic_energy(robot, q, v))
    True
    """
    states, chosen = {"q": q, "v": v}, AUTO if method is None else method
    options = {"restitution": restitution, "targets": targets, "active": active, **given}
    return bind(tree, constraints, IMPULSE, states, chosen, **options).reported(impulses_found)
