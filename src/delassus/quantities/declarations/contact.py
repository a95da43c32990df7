"""Time steps with contacts, and what contact dynamics needs of a robot: their declarations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, cast

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.contact.changes.points import error_changes, position_changes
from delassus.algorithms.contact.changes.products import Products
from delassus.algorithms.contact.changes.step import step_changes
from delassus.algorithms.contact.impacts import is_struck
from delassus.algorithms.contact.problem import magnitude, maximum_of
from delassus.algorithms.contact.solution import StepInputs, StepSolution
from delassus.algorithms.contact.solvers import SOLVERS
from delassus.algorithms.contact.springs import Spring
from delassus.algorithms.contact.step import KernelStep
from delassus.algorithms.crba import mass_matrix
from delassus.algorithms.dynamics.aba import driving_forces, forward_pass
from delassus.algorithms.dynamics.constraint_acceleration import position_errors, row_velocities
from delassus.algorithms.dynamics.integrate import (
    position_update,
    position_update_changes,
)
from delassus.algorithms.dynamics.smooth_motion import Start, Varied, motion_changes, smooth_motion
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.kinematics import body_poses
from delassus.algorithms.loops.motion_stages import SubSteps
from delassus.algorithms.operational_space_compliance import (
    link_wrenches,
    operational_space_compliance,
    straight_accelerations,
    straight_drift,
)
from delassus.algorithms.osim.least_squares import mobility_bound
from delassus.algorithms.rnea import bias_change
from delassus.constraints import Argument
from delassus.constraints.contact import contacts_of, ground_name
from delassus.model.tree import Tree
from delassus.quantities.bound_request import BoundRequest, stacked
from delassus.quantities.declarations.sensors import NUMBERS, stepped_sensors
from delassus.quantities.options import CONTROLLED, MOTION
from delassus.quantities.planner.frame_placement import frame_placement
from delassus.quantities.planner.regrouped_inertias import regrouped_inertias
from delassus.quantities.quantity import Output, Quantity
from delassus.quantities.request import Request, check_derivatives, check_first
from delassus.spatial.dual_ops import Dual, DualOps, Rates
from delassus.spatial.motion import column, from_entries, scaled_matrix
from delassus.spatial.ops import SQUARE_FLOOR, Matrix, Scalar

UNIT_NORMAL = 1e-5
"""By how much the squared length of a unit normal may differ from one."""


def _inputs(bound: BoundRequest) -> StepInputs:
    """What a step starts from."""
    options, read, contacts = bound.request.options, bound.entries, contacts_of(bound.constraints)

    def of_each(name: str, given: Any, own: Sequence[float]) -> list[Any]:
        return read(name) if given == "input" else list(own) if given is None else [given] * len(own)

    friction = of_each("friction", options.friction, [c.friction for c in contacts])
    restitution = of_each("restitution", options.restitution, [c.restitution for c in contacts])
    if options.restitution != "input":  # none costs nothing
        restitution = [e or None for e in restitution]
    at = read("q"), read("v"), read("dt")[0]
    smoothing = read("smoothing")[0] if options.smoothing == "input" else options.smoothing
    moving = [(a.name, k) for a in _moving(bound.request) for k in range(a.size)]

    def along(rates: Sequence[Rates], v: Sequence[Any]) -> tuple[DynamicsProblem, Any, list[Spring]]:
        of_each = dict(zip(moving, rates, strict=True))
        varied = bound.along(lambda name, k: of_each.get((name, k), {}))
        return varied.motion(v=v), varied.entries("dt")[0], varied.springs()

    return StepInputs(
        lambda v, problem: bound.motion(v=v, problem=problem), *at, friction, restitution, smoothing,
        options.penetration, {(name, k): _number(bound, name, k) for name, k in moving}, along, bound.springs(),
        bound.request.tree,
    )  # fmt: skip


def _moving(request: Request) -> list[Argument]:
    """Arguments that motion without contacts follows from, velocities apart."""
    of_contacts = [a for k, c in enumerate(request.constraints) if c.n_impulses for a in c.arguments(k)]
    others = {"v", "impulses", "friction", "restitution", "smoothing", *(a.name for a in of_contacts)}
    return [a for a in replace(request, derivative=()).arguments if a.name not in others]


def _number(bound: BoundRequest, name: str, k: int) -> Scalar:
    """Entry of an argument."""
    (shape,) = (a.shape for a in bound.request.arguments if a.name == name)
    return (
        bound.ops.entries(bound.values[name])[k // shape[1]][k % shape[1]]
        if len(shape) == 2
        else bound.entries(name)[k]
    )


def _solved(bound: BoundRequest) -> tuple[KernelStep, StepSolution]:
    """A step, and its solution."""
    options = bound.request.options
    bound.tree = _of_few_operations(bound.request)
    bound.ops.new_system()
    step = KernelStep(_inputs(bound), bound.ops.epsilon)
    solver = SOLVERS[options.solver] if bound.solver is None else bound.solver
    how = solver, options.sweeps, options.tolerance, options.solver == "pgs"
    found = step.solve(bound.entries("impulses"), *how)
    is_within = bound.ops.less(maximum_of(bound.ops, found.residuals), options.tolerance) * found.resolved
    for x in _broken_rules(bound):
        is_within = is_within * bound.ops.less(x, SQUARE_FLOOR)
    bound.is_within = is_within
    return step, found


def _contact_step(bound: BoundRequest) -> list[Any]:
    step, found = _solved(bound)
    out: list[Any] = [stacked(bound, x) for x in (found.q, found.v, found.impulses, found.residuals)]
    is_asked = any(output.name == "sensors" for output in bound.request.quantity.outputs)
    return [*out, stepped_sensors(bound, step, found)] if is_asked else out


def _solved_without_bounces(bound: BoundRequest) -> tuple[KernelStep, StepSolution]:
    """A step whose contacts have no restitution, and its solution; none where a contact is fast enough to bounce."""
    step, found = _solved(bound)
    bound.is_within = bound.is_within * (1.0 - is_struck(step, bound.request.options.tolerance))
    return step, found


def _contact_step_derivatives(
    bound: BoundRequest, solved: Callable[[BoundRequest], tuple[KernelStep, StepSolution]] = _solved
) -> list[Any]:
    check_derivatives(bound.constraints)
    check_first(bound.request.derivative)
    (step, found), ops, request, control = solved(bound), bound.ops, bound.request, bound.request.control
    columns = {**{a.name: f"dx_d{a.name}" for a in request.parameters}, control: "B"}
    asked = {output.name for output in request.quantity.outputs}
    varying = {a.name: a.size for a in request.arguments if columns.get(a.name) in asked}
    varied = bound.varied(varying)
    moving = [x for own in found.motion.v for x in column(ops, own)]
    controls = [bound.control_rates(v=None if found.impact is None else moving)[:2], bound.control_rates()[:2]]
    made, distance = step_changes(step, found, controls, _inputs(varied), varied, varying)
    state = [stacked(bound, x) for x in (found.q, found.v, found.impulses, found.residuals)]
    none = ops.zeros(2 * step.tree.nv, 1)  # of what is not asked for
    with_inputs = [made.get(name, none) for name in (control, *(a.name for a in request.parameters))]
    return [*state, ops.hstack([made["q"], made["v"]]), *with_inputs, distance]


def derivatives_without_bounces() -> Quantity:
    """Derivatives of contact steps that are none where a contact is fast enough to bounce."""
    run = partial(_contact_step_derivatives, solved=_solved_without_bounces)
    return replace(CONTACT_STEP_DERIVATIVES, name="contact_step_derivatives_without_bounces", run=run)


@lru_cache(maxsize=256)
def _of_few_operations(request: Request) -> Tree:
    """The same robot, with the same coordinates, its body frames and inertias placed for few operations."""
    return regrouped_inertias(frame_placement(request.tree, [f.link for c in request.constraints for f in c.frames]))


def _broken_rules(bound: BoundRequest) -> Iterator[Scalar]:
    """Of what comes with each call: numbers above zero where it has no meaning."""
    options, read = bound.request.options, bound.entries
    yield SQUARE_FLOOR - read("dt")[0]
    if options.friction == "input":
        yield from (-x for x in read("friction"))
    if options.smoothing == "input":
        yield -read("smoothing")[0]
    if options.restitution == "input":
        for x in read("restitution"):
            yield bound.ops.maximum(-x, x - 1.0)
    for name in map(ground_name, range(len(bound.constraints))):
        if name in bound.values:
            for _, *n in bound.ops.entries(bound.values[name]):
                excess = n[0] * n[0] + n[1] * n[1] + n[2] * n[2] - 1.0
                yield magnitude(bound.ops, excess) - UNIT_NORMAL


def _operational_space_compliance(bound: BoundRequest) -> list[Matrix]:
    found = operational_space_compliance(bound.motion())
    return [found[output.name] for output in OPERATIONAL_SPACE_COMPLIANCE.outputs]


def _link_wrenches(bound: BoundRequest) -> list[Matrix]:
    return [link_wrenches(bound.motion())]


def _position_update(bound: BoundRequest) -> list[Matrix]:
    read = bound.entries
    q, v = position_update(bound.ops, bound.problem(), read("q"), read("v"), read("dt")[0], read("shift"))
    return [stacked(bound, q), stacked(bound, v)]


def _smoothly(bound: BoundRequest) -> tuple[Start, list[tuple[str, int]], Varied]:
    """Start of the motion of loops, the numbers that it follows from, and the start at their rates."""
    ops = bound.ops
    names = [(a.name, k) for a in replace(bound.request, derivative=()).arguments for k in range(a.size)]

    def started(bound: BoundRequest) -> Start:
        links, read = list(bound.tree.root_to_leaves()), bound.entries
        steps = SubSteps(bound.motion(), links, range(len(bound.constraints)), ops.epsilon)
        return Start(steps, read("v"), read("dt")[0], read("correction")[0])

    def varied(rates: Sequence[Rates]) -> Start:
        of_each = dict(zip(names, rates, strict=True))
        return started(bound.along(lambda name, k: of_each.get((name, k), {})))

    return started(bound), names, varied


def _smooth_motion(bound: BoundRequest) -> list[Matrix]:
    start, names, varied = _smoothly(bound)
    numbers = [_number(bound, name, k) for name, k in names]
    found = smooth_motion(start, numbers, partial(motion_changes, bound.ops, varied))
    flags = bound.ops.matrix([[found.closed, found.resolved]])
    return [stacked(bound, found.moved), stacked(bound, found.reached), flags]


def _joint_space_motion(bound: BoundRequest) -> list[Matrix]:
    motion = bound.motion().conserving_momentum()
    ops, problem = motion.ops, motion.problem
    body = problem.once(Articulated)
    qdd, _ = forward_pass(motion, body, driving_forces(motion, body))
    return [
        ops.vstack([ops.zeros(0, 4), *(ops.hstack([R, p]) for R, p in body_poses(problem))]),
        ops.vstack([ops.zeros(0, 6), *(ops.transpose(V) for V in motion.V)]),
        mass_matrix(problem),
        straight_accelerations(motion, qdd),
        jacobian(problem),
        position_errors(motion),
        straight_drift(motion),
        from_entries(ops, mobility_bound(problem, body)),
    ]


def _bias_force_change(bound: BoundRequest) -> list[Matrix]:
    return [bias_change(bound.unforced().conserving_momentum(), bound.entries("qdd"))]


def _product_changes(bound: BoundRequest) -> list[Matrix]:
    ops, motion = bound.ops, bound.motion().conserving_momentum()
    M, h = mass_matrix(motion.problem), bound.entries("dt")[0]
    products = Products(motion, bound.entries("further"), Products(motion))
    qdd = [x / h - c for x, c in zip(bound.entries("gained"), products.axes, strict=True)]
    with_q, with_v = products.force_changes(qdd, M)
    with_start = scaled_matrix(ops, h, with_v - M @ products.with_axes)
    return [scaled_matrix(ops, h, with_q), with_start, products.matrix(h, M, with_v)]


def _constraint_errors(bound: BoundRequest) -> list[Matrix]:
    motion = bound.unforced()
    return [position_errors(motion), row_velocities(motion)]


def _free_step_changes(bound: BoundRequest) -> list[Matrix]:
    read, ops, motion = bound.entries, bound.ops, bound.motion().conserving_momentum()
    v, after, h, nv = read("v"), read("after"), read("dt")[0], motion.tree.nv
    M, products = mass_matrix(motion.problem), Products(motion)
    qdd = [(a - b) / h - c for a, b, c in zip(after, v, products.axes, strict=True)]
    changes = position_changes(motion, M, qdd, after, [0.0] * motion.problem.n_rows)
    with_v = scaled_matrix(ops, h, changes.forces_with_v - M @ products.with_axes) - M
    varied = bound.varied({})
    problem = motion.problem.held(cast(DualOps, varied.ops), varied.values)
    time: Any = Dual(h, {"time": 1.0})
    by_q, place, end = position_update_changes(problem, after, time, read("shift"), ("time",))
    columns = range(nv), range(nv, 2 * nv), (2 * nv,)
    parts = [ops.take(x, None, part) for x in (place, end) for part in columns]
    return [scaled_matrix(ops, h, changes.forces), with_v, by_q, *parts]


def _inertia_changes(bound: BoundRequest) -> list[Matrix]:
    ops, problem, qdd = bound.ops, bound.problem(), bound.entries("qdd")
    rest = DynamicsProblem(problem, None, None, gravity=ops.zeros(3, 1))
    found = position_changes(rest, mass_matrix(problem), qdd, qdd, bound.entries("x"))
    return [found.forces, found.rows, jacobian(problem), error_changes(rest)]


CONTACT_STEP = Quantity(
    "contact_step",
    "Time step with contacts",
    ("q", "v", "impulses", "tau", "dt"),
    (
        Output("q_next", ("nq",), "configuration after the step"),
        Output("v_next", ("nv",), "velocity after the step"),
        Output("impulses_next", ("impulses",), "impulses of the step: of each contact point tangent, tangent, normal "
               "on the first link, then of limits, then of dry friction of joints, then of torsional and rolling "
               "friction about the axes that contacts have it about, N s and N m s"),
        Output("residuals", (3,), "violation of complementarity and of friction, and velocity of penetration, m/s"),
        replace(NUMBERS, on_request=True),
    ),
    _contact_step,
    closes_loops=True,
    options=MOTION | CONTROLLED | {"friction", "restitution", "limits", "solver", "sweeps", "tolerance", "smoothing",
                                   "penetration", "sensors"},
    states=3,
    inverts_mass=True,
    springs="rows",
)  # fmt: skip
CONTACT_STEP_DERIVATIVES = Quantity(
    "contact_step_derivatives",
    "Time step with contacts and its derivatives",
    CONTACT_STEP.inputs,
    (
        *CONTACT_STEP.outputs[:-1],
        Output("A", ("2 nv", "2 nv"), "change of [q; v] after the step with [q; v] before, in tangents"),
        Output("B", ("2 nv", "controls"), "change of [q; v] after the step with joint forces or controls"),
        Output("dx_d", ("2 nv",), "change of [q; v] after the step with", each=True),
        Output("distance", (), "change of a velocity, m/s or rad/s, at which a contact or joint is in another mode"),
    ),
    _contact_step_derivatives,
    closes_loops=True,
    options=CONTACT_STEP.options - {"sensors"},
    inverts_mass=True,
    springs="rows",
)  # fmt: skip
OPERATIONAL_SPACE_COMPLIANCE = Quantity(
    "operational_space_compliance",
    "Free motion and compliance of all links",
    ("q", "v", "tau"),
    (
        Output("poses", ("n", 3, 4), "poses [R p] of body frames in the world, positions in m"),
        Output("twists", ("n", 6), "twists [linear; angular] in body frames, m/s and rad/s"),
        Output("propagators", ("n", 6, 6), "what a change of the parent's twist does to a link's"),
        Output("compliances", ("n", 6, 6), "inverse inertia that each link shows, in its body frame"),
        Output("qdd", ("nv",), "joint accelerations without constraints in rad/s^2 and m/s^2"),
        Output("rows", ("ends", 6), "rows of the ends of constraints, on twists in body frames"),
        Output("errors", ("m",), "position errors of constraints along their rows in m and rad"),
    ),
    _operational_space_compliance,
    options=MOTION,
    inverts_mass=True,
    is_private=True,
)
JOINT_SPACE_MOTION = Quantity(
    "joint_space_motion",
    "Free motion and mass matrix",
    ("q", "v", "tau"),
    (
        *OPERATIONAL_SPACE_COMPLIANCE.outputs[:2],
        Output("M", ("nv", "nv"), "mass matrix in kg m^2, kg m and kg"),
        OPERATIONAL_SPACE_COMPLIANCE.outputs[4],
        Output("J", ("m", "nv"), "Jacobian of constraints"),
        OPERATIONAL_SPACE_COMPLIANCE.outputs[6],
        Output("rates", ("m",), "rates of velocities along the rows of constraints at qdd = 0 in rad/s^2 and m/s^2"),
        Output("mobilities", ("m",), "mobilities of such rows where none is badly placed, 1/kg and 1/(kg m^2)"),
    ),
    _joint_space_motion,
    closes_loops=True,
    options=MOTION,
    inverts_mass=True,
    springs="rows",
    is_private=True,
)
BIAS_FORCE_CHANGE = Quantity(
    "bias_force_change",
    "Change of velocity products",
    ("q", "v", "qdd"),
    (
        Output("change", ("nv",), "rate of the bias force at zero accelerations in axes that do not turn, by velocity "
               "products that change with qdd; none of bodies that conserve momentum"),
    ),
    _bias_force_change,
    is_private=True,
)  # fmt: skip
PRODUCT_CHANGES = Quantity(
    "product_changes",
    "Derivatives of a momentum with velocity products of two velocities",
    ("q", "v", "gained", "further", "dt"),
    (
        Output("momentum_q", ("nv", "nv"), "change of M gained + dt c with positions; c: joint forces that keep the "
               "velocity, with products of v and v + further"),
        Output("momentum_v", ("nv", "nv"), "the same with velocities v"),
        Output("products", ("nv", "nv"), "half the change of dt c with v + further / 2, without damping"),
    ),
    _product_changes,
    options=MOTION,
    is_private=True,
)  # fmt: skip
CONSTRAINT_ERRORS = Quantity(
    "constraint_errors",
    "Errors of constraints",
    ("q", "v"),
    (
        Output("errors", ("m",), "position errors along the rows in m and rad, zero of constraints without a goal"),
        Output("velocities", ("m",), "velocities along the rows in m/s and rad/s"),
    ),
    _constraint_errors,
    springs="rows",
)
LINK_WRENCHES = Quantity(
    "link_wrenches",
    "Gravity and velocity products on all links",
    ("q", "v"),
    (Output("wrenches", ("n", 6), "wrenches [force; moment] on links in body frames, N and N m"),),
    _link_wrenches,
    options=frozenset({"gravity", "passive"}),
    is_private=True,
)
SMOOTH_MOTION = Quantity(
    "smooth_motion",
    "Motion of loops over a time",
    ("q", "v", "tau", "dt", "correction"),
    (
        Output("moved", ("nv",), "displacement, that of free joints in the axes of the start, rad and m"),
        Output("reached", ("nv",), "velocity at the end, in these axes too, rad/s and m/s"),
        Output("flags", (2,), "1 where loops are closed at the start; 1 where sub-steps resolve the motion"),
    ),
    _smooth_motion,
    closes_loops=True,
    options=MOTION,
    inverts_mass=True,
    is_private=True,
)
POSITION_UPDATE = Quantity(
    "position_update",
    "Configuration after a time",
    ("q", "v", "dt", "shift"),
    (
        Output("q_next", ("nq",), "configuration displaced by dt v + shift, straight in the world"),
        Output(
            "v_next",
            ("nv",),
            "the velocity, that of free and planar joints in the axes of that time, and of free "
            "bodies that of their momentum",
        ),
    ),
    _position_update,
    is_private=True,
)
FREE_STEP_CHANGES = Quantity(
    "free_step_changes",
    "Derivatives of a time step without constraints",
    ("q", "v", "after", "dt", "shift"),
    (
        Output(
            "momentum_q",
            ("nv", "nv"),
            "change of M (after - v) + dt c(q, v) with positions; c: joint forces that keep the velocity",
        ),
        Output("momentum_v", ("nv", "nv"), "the same with velocities"),
        Output("q_by_q", ("nv", "nv"), "change of the configuration displaced by dt after + shift with positions"),
        Output("q_by_v", ("nv", "nv"), "the same with after"),
        Output("q_by_shift", ("nv", "nv"), "the same with shift"),
        Output("q_by_time", ("nv",), "the same with dt"),
        Output("v_by_v", ("nv", "nv"), "change of the velocity at the end, in the axes of that time, with after"),
        Output("v_by_shift", ("nv", "nv"), "the same with shift"),
        Output("v_by_time", ("nv",), "the same with dt"),
    ),
    _free_step_changes,
    options=MOTION,
    is_private=True,
)
INERTIA_CHANGES = Quantity(
    "inertia_changes",
    "Derivatives of inertial forces",
    ("q", "qdd", "x"),
    (
        Output(
            "with_q", ("nv", "nv"), "change of M qdd - J^T x with positions, along the tangent of the configuration"
        ),
        Output("rows", ("m", "nv"), "the same of J qdd"),
        Output("J", ("m", "nv"), "Jacobian of constraints"),
        Output("errors", ("m", "nv"), "change of position errors with positions"),
    ),
    _inertia_changes,
    closes_loops=True,
    springs="rows",
    is_private=True,
)
