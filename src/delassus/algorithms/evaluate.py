"""Evaluate an algorithm at once, on NumPy, for one configuration or a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.algorithms import crba
from delassus.algorithms import jacobian as jacobian_algorithm
from delassus.algorithms.articulated import Articulated
from delassus.algorithms.inputs import check_inputs, check_payloads, inputs_of
from delassus.algorithms.operator import DelassusOperator, mobility_bound
from delassus.algorithms.osim import METHODS
from delassus.algorithms.problem import Problem
from delassus.constraints import Constraint, check_constraints
from delassus.errors import DelassusError, ModelError, unknown_name
from delassus.model.rotations import Array
from delassus.model.tree import Tree
from delassus.spatial.numpy_ops import NumpyOps

Constraints = Iterable[Constraint] | Constraint
Arrays = Sequence[ArrayLike] | None
Payloads = Mapping[str, ArrayLike] | None

UNMOVED = 1e-13
"""A row counts as one that nothing moves if its mobility, relative to `mobility_bound`, is below this: some methods
get it as a difference of numbers of that size."""


class SingularError(DelassusError, ArithmeticError):
    """The constraint rows are redundant at some state, so that ``G`` has no inverse."""


def make_problem(
    tree: Tree,
    constraints: Constraints,
    q: ArrayLike,
    rows: Arrays = None,
    placements: Arrays = None,
    payloads: Payloads = None,
) -> tuple[Problem, tuple[int, ...]]:
    """Check all input; returns the problem on NumPy and the batch shape."""
    if not isinstance(tree, Tree):
        raise ModelError("tree", "a delassus.Tree", type(tree).__name__, "Load one with delassus.load.")
    checked = check_constraints(tree, constraints)
    array = tree.check_configuration(q)
    names = check_payloads(tree, () if payloads is None else payloads)
    given, batch = check_inputs(inputs_of(checked, names), rows, placements, payloads, array.shape[:-1])
    return Problem(NumpyOps(), tree, checked, array, given, names), batch


def neutral_mobility(tree: Tree, constraints: Sequence[Constraint]) -> Array:
    """`mobility_bound` of all rows at the neutral configuration; rows that come with each call as if of unit length."""
    given = []
    for i in inputs_of(constraints):
        if i.kind == "rows":
            given.append(np.zeros(i.shape) + np.eye(1, 6))
        else:
            given.append(np.zeros(i.shape) if i.shape == (3,) else np.eye(7)[6])
    problem = Problem(NumpyOps(), tree, constraints, tree.neutral(), given)
    with np.errstate(all="ignore"):  # links without inertia
        return mobility_bound(problem, Articulated(problem))


def find_method(method: str) -> Any:
    """Algorithm of that name, or `UnknownNameError` with the nearest match."""
    try:
        return METHODS[method]
    except (KeyError, TypeError):
        raise unknown_name("method", method, METHODS) from None


def delassus(
    tree: Tree,
    constraints: Constraints,
    q: ArrayLike,
    *,
    method: str = "pv-osimr",
    rows: Arrays = None,
    placements: Arrays = None,
    payloads: Payloads = None,
) -> Array:
    """Delassus matrix ``G = J M⁻¹ Jᵀ``, the inverse operational-space inertia.

    Parameters
    ----------
    tree : Tree
    constraints : Constraint or iterable of Constraint
        Stacked in this order; m rows in all.
    q : (..., nq) array_like
        Configurations; leading axes are batches.
    method : str
        One of ``OSIM_METHODS``.
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
        A constraint or method makes no sense; the nearest name is offered.

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
    algorithm = find_method(method)
    problem, batch = make_problem(tree, constraints, q, rows, placements, payloads)
    return _symmetric(algorithm(problem), batch)


def osim(
    tree: Tree,
    constraints: Constraints,
    q: ArrayLike,
    *,
    method: str = "pv-osimr",
    rows: Arrays = None,
    placements: Arrays = None,
    payloads: Payloads = None,
) -> Array:
    """Operational-space inertia matrix ``Λ = (J M⁻¹ Jᵀ)⁻¹`` (..., m, m).

    Takes what `delassus` takes and raises what it raises.

    Raises
    ------
    SingularError
        The rows are redundant at some state; names it.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.osim(arm, ds.Point("link7"), arm.random(0)).shape
    (3, 3)
    """
    algorithm = find_method(method)
    problem, batch = make_problem(tree, constraints, q, rows, placements, payloads)
    G = _symmetric(algorithm(problem), batch)
    size = G.shape[-1]
    moved = np.diagonal(G, axis1=-2, axis2=-1) > UNMOVED * mobility_bound(problem, Articulated(problem))
    G = np.where(moved[..., :, None] & moved[..., None, :], G, 0.0)
    rank = np.linalg.matrix_rank(G, rtol=1e-12, hermitian=True) if size else np.zeros(G.shape[:-2])
    deficient = np.argwhere(rank < size)
    if len(deficient):
        where = tuple(int(i) for i in deficient[0])
        raise SingularError(
            "constraints",
            f"{size} independent rows",
            f"{int(rank[where])} at state {list(where)}" if where else f"{int(rank)}",
            "Drop redundant rows, or use delassus_operator, which solves in the least-squares sense.",
        )
    L = np.linalg.inv(np.linalg.cholesky(G))
    return np.asarray(np.swapaxes(L, -1, -2) @ L)


def consistent_inverse(
    tree: Tree,
    constraints: Constraints,
    q: ArrayLike,
    *,
    method: str = "pv-osimr",
    rows: Arrays = None,
    placements: Arrays = None,
    payloads: Payloads = None,
) -> Array:
    """Dynamically consistent inverse ``J̄ = M⁻¹ Jᵀ Λ`` (..., nv, m) of the constraint Jacobian.

    ``J J̄ = 1``, and torques ``(1 − Jᵀ J̄ᵀ) τ`` cause no acceleration along the constraint rows. Takes what `delassus`
    takes and raises what `osim` raises.

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
    Lambda = osim(tree, constraints, q, method=method, rows=rows, placements=placements, payloads=payloads)
    J = jacobian(tree, constraints, q, rows=rows, placements=placements)
    return np.asarray(np.linalg.solve(mass_matrix(tree, q, payloads=payloads), np.swapaxes(J, -1, -2) @ Lambda))


def delassus_operator(
    tree: Tree,
    constraints: Constraints,
    q: ArrayLike,
    *,
    rows: Arrays = None,
    placements: Arrays = None,
    payloads: Payloads = None,
) -> DelassusOperator:
    """Delassus matrix factorised without being formed (PV-OSIM-fast): ``solve``, ``apply``, ``dense``.

    Takes what `delassus` takes and raises what it raises. Where a branch block is singular, ``G`` itself is factorised,
    and the result's ``factorisation`` says so for each state.

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
    problem, batch = make_problem(tree, constraints, q, rows, placements, payloads)
    return DelassusOperator(problem, batch)


def mass_matrix(tree: Tree, q: ArrayLike, *, payloads: Payloads = None) -> Array:
    """Joint-space mass matrix ``M`` (..., nv, nv), by the composite-rigid-body algorithm.

    Takes ``tree``, ``q`` and ``payloads`` as `delassus` does, and raises what that raises for them.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.mass_matrix(arm, arm.random(0)).shape
    (7, 7)
    """
    problem, batch = make_problem(tree, (), q, payloads=payloads)
    return _whole(crba.mass_matrix(problem), batch)


def jacobian(
    tree: Tree, constraints: Constraints, q: ArrayLike, *, rows: Arrays = None, placements: Arrays = None
) -> Array:
    """Constraint Jacobian ``J`` (..., m, nv): ``J v`` are the velocities along the constraint rows (m/s, rad/s).

    Takes what `delassus` takes and raises what it raises.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> ds.jacobian(arm, ds.Weld("link7"), arm.random(0)).shape
    (6, 7)
    """
    problem, batch = make_problem(tree, constraints, q, rows, placements)
    return _whole(jacobian_algorithm.jacobian(problem), batch)


def _symmetric(G: Array, batch: tuple[int, ...]) -> Array:
    return _whole(0.5 * (G + np.swapaxes(G, -1, -2)), batch)


def _whole(a: Array, batch: tuple[int, ...]) -> Array:
    return np.array(np.broadcast_to(a, (*batch, *a.shape[-2:])))
