"""Time steps and their derivatives: declarations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from delassus.algorithms.dynamics import METHODS
from delassus.algorithms.dynamics.derivatives.second_step import StepCurvature
from delassus.algorithms.dynamics.derivatives.step import step_derivatives as differentiated_step
from delassus.algorithms.dynamics.integrate import INTEGRATE, Flow, position_update
from delassus.algorithms.dynamics.proximal import ProximalPoint
from delassus.quantities.bound_request import BoundRequest, stacked
from delassus.quantities.declarations.dynamics import check_numbers
from delassus.quantities.options import CONSTRAINED, CONTROLLED
from delassus.quantities.quantity import Output, Quantity
from delassus.spatial.motion import column, over_sizes
from delassus.spatial.ops import Matrix, Scalar


def _step(bound: BoundRequest) -> list[Matrix]:
    forces = list[Matrix]()

    def accelerate(q: Sequence[Scalar], v: Sequence[Scalar]) -> list[Scalar]:
        solution = bound.solve(bound.motion(q, v), method)
        forces.append(solution.forces)
        return column(bound.ops, solution.qdd)

    read, integrate, method = bound.entries, INTEGRATE[bound.request.options.integrator], bound.method_of_stages
    q, v = integrate(Flow(bound.ops, bound.tree), read("q"), bound.after_impact(), read("dt")[0], accelerate)
    held = range(*bound.request.shape_of(("held",)))
    return [stacked(bound, q), stacked(bound, v), bound.ops.take(forces[0], held, None)]


def _step_derivatives(bound: BoundRequest) -> list[Matrix]:
    read, integrator, (n,) = bound.entries, bound.request.options.integrator, bound.request.shape_of(("controls",))
    q, start, by_start, problem, impact = read("q"), read("v"), None, bound.problem(), None
    of_forces, ops, nv = list[Matrix](), bound.ops, bound.tree.nv
    held, has_springs = range(*bound.request.shape_of(("held",))), not all(c.holds for c in bound.constraints)
    if bound.request.options.impacts:
        impact = bound.impact_derivatives(problem)
        start = [x + y for x, y in zip(start, column(bound.ops, impact.solution.qdd), strict=True)]
        by_start = [impact.changes["dqdd_dq"], ops.eye(nv) + impact.changes["dqdd_dv"]]

    def accelerate(at: Sequence[Scalar], v: Sequence[Scalar]) -> tuple[list[Scalar], Matrix, Matrix, Matrix]:
        ops.new_system()
        is_start = at is q
        response = impact.response if impact is not None and is_start and not has_springs else None
        motion = bound.motion(at, v, problem if is_start else None)
        found = bound.derivatives(motion, response)
        changes = bound.with_controls(found.changes, at, v)
        bound.estimate_derivatives(found.directions)
        if is_start:
            of_forces.extend([found.solution.forces, *(changes[f"df_d{by}"] for by in ("q", "v", "tau"))])
        return column(ops, found.solution.qdd), changes["dqdd_dq"], changes["dqdd_dv"], changes["dqdd_dtau"]

    state = q, start, read("dt")[0]
    q_next, v_next, A, B = differentiated_step(ops, bound.tree, integrator, *state, accelerate, n, by_start)
    forces, with_q, with_v, D = (ops.take(x, held, None) for x in of_forces)
    if by_start is not None:
        with_q, with_v = with_q + with_v @ by_start[0], with_v @ by_start[1]
    return [stacked(bound, q_next), stacked(bound, v_next), A, B, forces, ops.hstack([with_q, with_v]), D]


def _semi_implicit(bound: BoundRequest) -> tuple[list[Matrix], StepCurvature]:
    """State after a step, ``A``, ``B``, and second derivatives."""
    read, ops, tree, (n,) = bound.entries, bound.ops, bound.tree, bound.request.shape_of(("controls",))
    motion, (h,) = bound.motion(), read("dt")
    found, second = bound.second_derivatives(motion)
    by_q, by_v, by_u = (found.changes[f"dqdd_d{by}"] for by in ("q", "v", "tau"))
    state, qdd = (read("q"), read("v"), h), column(ops, found.solution.qdd)
    q_next, v_next, A, B = differentiated_step(
        ops, tree, "semi-implicit", *state, lambda q, v: (qdd, by_q, by_v, by_u), n
    )
    by = ops.hstack([ops.take(x, range(tree.nv, 2 * tree.nv), None) for x in (A, B)])
    made = [stacked(bound, q_next), stacked(bound, v_next), A, B]
    return made, StepCurvature(ops, tree, h, v_next, by, second)


def _step_hessian(bound: BoundRequest) -> list[Matrix]:
    wanted = [o for o in bound.request.quantity.outputs if o.name.startswith("d2")]
    check_numbers(sum(math.prod(bound.request.shape_of(o)) for o in wanted))
    made, curvature = _semi_implicit(bound)
    ops, nv, found = bound.ops, bound.tree.nv, curvature.tensors()
    x, u, out = range(2 * nv), range(2 * nv, 3 * nv), list[Matrix]()
    for rows, columns in ((x, x), (x, u), (u, u)):
        out.append(ops.vstack([ops.zeros(0, len(columns)), *(ops.take(H, rows, columns) for H in found)]))
    return [*made, *out]


def _step_curvature(bound: BoundRequest) -> list[Matrix]:
    _, curvature = _semi_implicit(bound)
    nv, costate = bound.tree.nv, bound.entries("costate")
    of_springs = [0.0] * sum(c.size for c in bound.constraints if not c.holds)
    weights = costate[:nv], costate[nv : 2 * nv], [*costate[2 * nv :], *of_springs]
    return [curvature.along(*(stacked(bound, x) for x in weights))]


def _step_jacobian(bound: BoundRequest) -> list[list[Matrix]]:
    _, _, A, B, _, C, D = _step_derivatives(bound)
    ops, q, v = bound.ops, range(bound.tree.nv), range(bound.tree.nv, 2 * bound.tree.nv)
    of_states = [[*(ops.take(A, rows, columns) for columns in (q, v)), ops.take(B, rows)] for rows in (q, v)]
    return [*of_states, [*(ops.take(C, None, columns) for columns in (q, v)), D]]


CLOSING_WEIGHT = 1e-6
"""``W`` of `ProximalPoint` for what takes errors of loops back: where loops gape, rows that are dependent once they are
closed are nearly so, and count for nothing. A step leaves this part of errors to the next one."""


def _closed_state(bound: BoundRequest) -> list[Matrix]:
    """One Newton step of least kinetic energy: ``δ = −M⁻¹ Jᵀ (J M⁻¹ Jᵀ + W)⁻¹ e`` of positions; so of velocities."""
    ops, read, motion = bound.ops, bound.entries, bound.unforced()
    h, part = read("dt")[0], read("correction")[0]
    loops = [(c if len(c.frames) == 2 else None, at) for c, at in motion.each_constraint()]
    sizes = [c.size for c in bound.constraints]
    zeros = [ops.zeros(m, 1) for m in sizes]
    gaps = motion.stacked([z if c is None else c.position(at) for (c, at), z in zip(loops, zeros, strict=True)])
    rates = motion.stacked([z if c is None else c.velocity(at) for (c, at), z in zip(loops, zeros, strict=True)])
    over = over_sizes(ops, [x for c, at in motion.each_constraint() for x in c.row_sizes(at, motion.problem.length)])
    of_both = zip(*(column(ops, ops.absolute(over @ x)) for x in (gaps, rates)), strict=True)
    none: Scalar = 0.0
    reach = reduce(ops.maximum, [x + h * y for x, y in of_both], none)
    point = ProximalPoint(motion, CLOSING_WEIGHT)
    shift, change = ([-part * x for x in column(ops, point.at_rest(missed).qdd)] for missed in (gaps, rates))
    v = [x + y for x, y in zip(read("v"), change, strict=True)]
    q, v = position_update(ops, motion.problem, read("q"), v, 0.0, shift)
    return [stacked(bound, q), stacked(bound, v), ops.matrix([[reach]])]


STEP = Quantity(
    "step",
    "Time step",
    ("q", "v", "tau", "dt"),
    (
        Output("q_next", ("nq",), "configuration after the step"),
        Output("v_next", ("nv",), "velocity after the step"),
        Output(
            "forces",
            ("held",),
            "forces on the first links, along the rows of all constraints, at the start of the step, in N, N m",
            on_request=True,
        ),
    ),
    _step,
    methods=tuple(METHODS),
    options=CONSTRAINED | CONTROLLED | {"integrator", "impacts"},
    has_status=True,
    is_solution=True,
    states=2,
    jacobian=_step_jacobian,
    inverts_mass=True,
    springs="forces",
)
CLOSED_STATE = Quantity(
    "closed_state",
    "State whose loops are closed",
    ("q", "v", "dt", "correction"),
    (
        Output("q_next", ("nq",), "configuration displaced to closed loops"),
        Output("v_next", ("nv",), "velocity without what opens loops"),
        Output("reach", (), "largest error of loops before, with what their velocities make of it in a step, in m"),
    ),
    _closed_state,
    inverts_mass=True,
    is_private=True,
)
STEP_CURVATURE = Quantity(
    "step_curvature",
    "Second derivatives of a semi-implicit time step along a costate",
    (*STEP.inputs, "costate"),
    (
        Output(
            "H",
            ("2 nv + controls", "2 nv + controls"),
            "second change of costate · [q; v; forces] with [q; v] before, in tangents, and joint forces or controls",
            is_derivative=True,
        ),
    ),
    _step_curvature,
    options=CONSTRAINED | CONTROLLED,
    has_status=True,
    inverts_mass=True,
    is_private=True,
    springs="forces",
)
STEP_DERIVATIVES = Quantity(
    "step_derivatives",
    "Time step and its derivatives",
    ("q", "v", "tau", "dt"),
    (
        *STEP.outputs[:2],
        Output(
            "A", ("2 nv", "2 nv"), "change of [q; v] after the step with [q; v] before, in tangents", is_derivative=True
        ),
        Output(
            "B",
            ("2 nv", "controls"),
            "change of [q; v] after the step with joint forces or controls",
            is_derivative=True,
        ),
        STEP.outputs[2],
        Output(
            "C",
            ("held", "2 nv"),
            "change of forces with [q; v] before, in tangents",
            is_derivative=True,
            on_request=True,
        ),
        Output(
            "D",
            ("held", "controls"),
            "change of forces with joint forces or controls",
            is_derivative=True,
            on_request=True,
        ),
    ),
    _step_derivatives,
    options=CONSTRAINED | CONTROLLED | {"integrator", "impacts"},
    has_status=True,
    inverts_mass=True,
    springs="forces",
    curvature=STEP_CURVATURE,
)
STEP_HESSIAN = Quantity(
    "step_hessian",
    "Semi-implicit time step, and its first and second derivatives",
    STEP.inputs,
    (
        *STEP_DERIVATIVES.outputs[:4],
        *(
            Output(name, ("2 nv", *shape), f"second change of [q; v] after the step with {meaning}", is_derivative=True)
            for name, shape, meaning in (
                ("d2x_dxdx", ("2 nv", "2 nv"), "[q; v] before, in tangents"),
                ("d2x_dxdtau", ("2 nv", "nv"), "[q; v] before and joint forces"),
                ("d2x_dtaudtau", ("nv", "nv"), "joint forces"),
            )
        ),
    ),
    _step_hessian,
    options=CONSTRAINED,
    has_status=True,
    inverts_mass=True,
    springs="forces",
)
