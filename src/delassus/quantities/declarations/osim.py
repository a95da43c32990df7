"""Delassus matrix, impulses and what goes with them: declarations."""

from __future__ import annotations

from dataclasses import replace

from delassus.algorithms import crba, rnea
from delassus.algorithms import jacobian as jacobian_algorithm
from delassus.algorithms.articulated import Articulated
from delassus.algorithms.dynamics import METHODS as DYNAMICS
from delassus.algorithms.dynamics import SOFT
from delassus.algorithms.dynamics.damped import damped_problem
from delassus.algorithms.dynamics.popov_vereshchagin.pv_early import pv_early
from delassus.algorithms.osim import METHODS as NAMED
from delassus.algorithms.osim import OF_LOOPS
from delassus.algorithms.osim.product import delassus_product
from delassus.algorithms.osim.pv_fast import branch_solution
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.quantities.bound_request import BoundRequest, stacked
from delassus.quantities.planner.elimination import least_over_loops
from delassus.quantities.planner.methods import AUTO
from delassus.quantities.planner.plan import auto
from delassus.quantities.quantity import Output, Quantity
from delassus.spatial.ops import Matrix

METHODS = {**NAMED, AUTO: auto}
"""Every algorithm of the Delassus matrix by its name."""


def _delassus(bound: BoundRequest) -> list[Matrix]:
    return [METHODS[bound.request.method](bound.problem())]


def _delassus_of_loops(bound: BoundRequest) -> list[Matrix]:
    asked, loops = bound.request, bound.request.options.loops or ()
    method = least_over_loops(asked.tree, asked.constraints, loops) if asked.method == AUTO else asked.method
    return [OF_LOOPS[method](bound.problem().closed_by(loops, bound.request.free))]


def _osim(bound: BoundRequest) -> list[Matrix]:
    problem = bound.problem()
    G = METHODS[bound.request.method](problem)
    bound.require_independent()
    return [bound.ops.factor(G).inverse() if problem.n_rows else G]


def _consistent_inverse(bound: BoundRequest) -> list[Matrix]:
    problem, ops = bound.problem(), bound.ops
    (Lambda,), L = _osim(bound), SparseFactor(problem)
    moved = L.solve(L.solve_transpose(ops.transpose(jacobian_algorithm.jacobian(problem))))
    return [(ops.vstack(moved) if moved else ops.zeros(0, problem.n_rows)) @ Lambda]


def _product(bound: BoundRequest) -> list[Matrix]:
    problem = bound.problem()
    return [delassus_product(problem, Articulated(problem), stacked(bound, bound.entries("x")))]


def _solution(bound: BoundRequest) -> list[Matrix]:
    problem = bound.problem()
    G, x = auto(problem), stacked(bound, bound.entries("x"))
    y, rank = bound.least_squares(problem, G, x)
    return [y, bound.ops.matrix([[rank]])]


def _branch_solution(bound: BoundRequest) -> list[Matrix]:
    y, bound.is_within = branch_solution(bound.problem(), stacked(bound, bound.entries("x")))
    return [y]


def _damped_solution(bound: BoundRequest) -> list[Matrix]:
    damping, x = (stacked(bound, bound.entries(name)) for name in ("d", "x"))
    motion = damped_problem(bound.problem(), damping, x)
    return [bound.with_error(motion, pv_early(motion), pv_early).forces]


def _impulse(bound: BoundRequest) -> list[Matrix]:
    found = bound.solve(bound.impact())
    return [stacked(bound, bound.entries("v")) + found.qdd, found.forces]


def _impulse_jacobian(bound: BoundRequest) -> list[list[Matrix]]:
    found, unit = bound.impact_derivatives().changes, bound.ops.eye(bound.tree.nv)
    return [[found["dqdd_dq"], found["dqdd_dv"] + unit], [found["df_dq"], found["df_dv"]]]


def _mass_matrix(bound: BoundRequest) -> list[Matrix]:
    return [crba.mass_matrix(bound.problem())]


def _coriolis_matrix(bound: BoundRequest) -> list[Matrix]:
    return [rnea.coriolis_matrix(bound.unforced())]


DELASSUS = Quantity(
    "delassus",
    "Delassus matrix",
    ("q",),
    (Output("G", ("m", "m"), "Delassus matrix J M^-1 J', accelerations per unit of constraint force", symmetric=True),),
    _delassus,
    methods=tuple(NAMED),
    options=frozenset({"loops"}),
    inverts_mass=True,
)
DELASSUS = replace(DELASSUS, by_option={"loops": replace(DELASSUS, run=_delassus_of_loops, methods=tuple(OF_LOOPS))})
OSIM = Quantity(
    "osim",
    "Operational-space inertia matrix",
    ("q",),
    (Output("Lambda", ("m", "m"), "operational-space inertia matrix (J M^-1 J')^-1", symmetric=True),),
    _osim,
    methods=tuple(NAMED),
    needs_independent=True,
    inverts_mass=True,
)
CONSISTENT_INVERSE = Quantity(
    "consistent_inverse",
    "Dynamically consistent inverse of the constraint Jacobian",
    ("q",),
    (Output("Jbar", ("nv", "m"), "dynamically consistent inverse M^-1 J' Lambda of the constraint Jacobian"),),
    _consistent_inverse,
    methods=tuple(NAMED),
    needs_independent=True,
    inverts_mass=True,
)
DELASSUS_PRODUCT = Quantity(
    "delassus_product",
    "Delassus matrix times a vector",
    ("q", "x"),
    (Output("y", ("m",), "accelerations G x along the rows, of the constraint forces x"),),
    _product,
    inverts_mass=True,
)
DELASSUS_SOLUTION = Quantity(
    "delassus_solution",
    "Solution with the Delassus matrix",
    ("q", "x"),
    (
        Output("y", ("m",), "constraint forces G^-1 x of accelerations x along rows; least squares, least norm"),
        Output("rank", (), "number of independent rows"),
    ),
    _solution,
    judges_rows=True,
    inverts_mass=True,
)
BRANCH_SOLUTION = replace(
    DELASSUS_PRODUCT,
    name="branch_solution",
    meaning="Solution with the Delassus matrix, factorised branch by branch",
    run=_branch_solution,
    is_private=True,
)
DAMPED_SOLUTION = Quantity(
    "damped_solution",
    "Solution with the damped Delassus matrix",
    ("q", "x", "d"),
    (Output("y", ("m",), "constraint forces (G + diag(d))^-1 x of the accelerations x along the rows"),),
    _damped_solution,
    is_solution=True,
    inverts_mass=True,
)
MASS_MATRIX = Quantity(
    "mass_matrix",
    "Joint-space mass matrix",
    ("q",),
    (Output("M", ("nv", "nv"), "joint-space mass matrix", symmetric=True),),
    _mass_matrix,
)
CORIOLIS_MATRIX = Quantity(
    "coriolis_matrix",
    "Coriolis matrix",
    ("q", "v"),
    (Output("C", ("nv", "nv"), "joint forces C v keep the velocity where there is no gravity"),),
    _coriolis_matrix,
)
IMPULSE = Quantity(
    "impulse",
    "Impact of constraints that close",
    ("q", "v"),
    (
        Output("v_next", ("nv",), "velocity after the impact"),
        Output("impulses", ("m",), "impulses on the first links, along the rows of all constraints in N s, N m s"),
    ),
    _impulse,
    methods=tuple(name for name in DYNAMICS if name not in SOFT),
    options=frozenset({"targets", "active", "restitution"}),
    has_status=True,
    is_solution=True,
    jacobian=_impulse_jacobian,
    inverts_mass=True,
)
