"""A request bound to the symbols of a trace: what quantities and algorithms start from."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from delassus.accuracy.policy import ERROR_BOUND
from delassus.accuracy.refinement import Change, relative_error
from delassus.algorithms.articulated import Articulated
from delassus.algorithms.contact.law import step_of_spring
from delassus.algorithms.contact.problem import Solver
from delassus.algorithms.contact.springs import Spring
from delassus.algorithms.dynamics import BY_CLUSTERS, BY_LINKS, METHODS, OF_LEAST_NORM, Method
from delassus.algorithms.dynamics.actuation import (
    Forces,
    Servos,
    actuator_forces,
    pd_forces,
    servos_of_actuators,
    servos_of_joints,
    transmission,
)
from delassus.algorithms.dynamics.derivatives.accelerations import (
    AccelerationResponse,
    Dependence,
    Derivatives,
    Direction,
    derivatives,
    impact_derivatives,
)
from delassus.algorithms.dynamics.derivatives.actuation import control_curvature, control_rates
from delassus.algorithms.dynamics.derivatives.second import Second, SecondDerivatives
from delassus.algorithms.dynamics.ltl import ltl
from delassus.algorithms.dynamics.proximal import GAPING_WEIGHT, proximal
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import DynamicsProblem, EliminationOrder
from delassus.algorithms.inputs import CONFIGURATIONS, inputs_of
from delassus.algorithms.osim.least_squares import UNMOVED, LeastSquares, mobility_bound
from delassus.algorithms.problem import Problem
from delassus.constraints import At, Goal
from delassus.constraints.spring import AnySpring, has_limits, pushes
from delassus.model.inertia import motion_transform
from delassus.model.kinematics import generic_configurations, usual_inertias
from delassus.model.topology import characteristic_length
from delassus.model.tree import WORLD
from delassus.quantities.planner.elimination import fewest_operations, order_of_hard_rows
from delassus.quantities.quantity import CONTROLS
from delassus.quantities.request import Request
from delassus.spatial.dual_ops import Dual, DualOps, Rates
from delassus.spatial.motion import column, from_entries, scaled
from delassus.spatial.ops import Matrix, Ops, Scalar
from delassus.spatial.rotations import quaternion_rows
from delassus.spatial.trace.graph import undisturbed
from delassus.spatial.trace.trace_ops import TraceOps

_FORCES: Mapping[str, Callable[..., Forces]] = {"actuators": actuator_forces, "pd": pd_forces}
_SERVOS: Mapping[str, Callable[..., Servos]] = {"actuators": servos_of_actuators, "pd": servos_of_joints}

GENERIC_PLACEMENT = (0.3, 0.5, 0.7), (0.46, 0.2, -0.58, math.sqrt(0.412))
"""Position in lengths of the robot, and unit quaternion."""

IDLE = 0.1
"""Part of `ERROR_BOUND` of the largest force up to which forces that move nothing count as none."""

IDLE_QDD = 0.01
"""The same of accelerations that these cause where loops are open by a little: errors are a hundred times that."""

IDLE_AT_STAGES = 1e3
"""The same of gaps of loops at stages of steps, which follow loops all the same."""

WORST_COLUMN = 3.0
"""By how much single columns of derivatives err more than their sums with signs at random, in which errors average."""


SLACK = 1e-9
"""Part of what limits add to masses in a step that they add where they do not act."""


class BoundRequest:
    """A request on a backend, that of a trace or of numbers with rates.

    ``values`` of arguments are by name: rows are matrices, all others sequences of scalars.
    """

    def __init__(self, request: Request, ops: Ops, values: Mapping[str, Any]) -> None:
        self.request, self.ops, self.values = request, ops, values
        self.tree, self.constraints = request.tree, request.constraints
        self.order: EliminationOrder | None = None  # of links; None: as they are numbered
        self.is_within: Scalar | None = None  # 1 where what iterates has come within its tolerance, else 0
        self.solver: Solver | None = None  # of contact steps; None: that of the request
        self.errors: list[Scalar] = []  # estimates of the relative error of each solution of dynamics

    def results(self) -> dict[str, Matrix]:
        """One matrix for each output, by name."""
        if self.request.has_formulas:
            found = self.jacobian()
            return {o.name: found[o.name] for o in self.request.outputs}
        return dict(zip((o.name for o in self.request.quantity.outputs), self.request.quantity.run(self), strict=True))

    def jacobian(self) -> dict[str, Matrix]:
        """Derivatives by formulas of each output with the first arguments, by name; none without formulas."""
        request, formulas = self.request, self.request.formulas
        if formulas is None:
            return {}
        parts = zip(request.quantity.outputs, formulas(self), strict=True)
        return {f"d{o.name}_d{a.name}": x for o, row in parts for a, x in zip(request.arguments, row, strict=False)}

    def varied(self, names: Container[str]) -> BoundRequest:
        """The request at numbers that carry their rates: entry ``k`` of an argument of those names by ``(name, k)``."""
        return self.along(lambda name, k: {(name, k): 1.0} if name in names else {})

    def along(self, rates: Callable[[str, int], Rates]) -> BoundRequest:
        """The request at numbers that carry rates, those of each entry of each argument."""
        ops, values = DualOps(self.ops), dict[str, Any]()
        for a in self.request.arguments:
            given, name = self.values[a.name], a.name
            if len(a.shape) == 2:
                width = a.shape[1]
                values[name] = ops.lifted(given, lambda i, j, name=name, width=width: rates(name, i * width + j))  # type: ignore[misc]
            else:
                values[name] = [Dual(given[k], rates(name, k)) for k in range(a.size)]
        out = BoundRequest(self.request, ops, values)
        out.tree = self.tree
        return out

    def problem(self, q: Any = None) -> Problem:
        """The problem at the configuration ``q`` (a state vector; the argument if None)."""
        request = self.request
        given = [self.values[i.name] for i in inputs_of(self.constraints, request.payloads)]
        q = self.values["q"] if q is None else q
        active = self._flags("active") if "active" in self.values else None
        return Problem(self.ops, self.tree, self.constraints, q, given, request.payloads, active=active)

    def _flags(self, name: str) -> list[Scalar | None]:
        """Flag of each constraint, that comes with each call; None of springs, which have none."""
        numbers = itertools.count()
        return [self.ops.flag(self.values[name], next(numbers)) if c.holds else None for c in self.constraints]

    def motion(self, q: Any = None, v: Any = None, problem: Problem | None = None) -> DynamicsProblem:
        """The problem in motion, with all that the options ask for, at ``q`` and ``v`` (the arguments if None).

        ``problem`` is that at ``q``, if it has been made.
        """
        options, values, forces = self.request.options, self.values, self.control_forces(q, v)
        damping = values["damping"] if options.damping == "input" else options.damping
        problem, v = self.problem(q) if problem is None else problem, values.get("v") if v is None else v
        return DynamicsProblem(
            problem,
            v,
            forces,
            gravity=self._given("gravity", options.gravity),
            wrenches=self._wrenches(),
            damping=damping,
            passive=options.passive,
            goals=[self._goal(index, problem, v) for index in range(len(self.constraints))],
            elimination=self.order,
            springs=options.springs,
        )

    def unforced(self) -> DynamicsProblem:
        """The problem in motion, without gravity and other forces."""
        return DynamicsProblem(self.problem(), self.values["v"], None, gravity=self.ops.zeros(3, 1))

    def impact(self, problem: Problem | None = None) -> DynamicsProblem:
        """The impact that rows make: ``J v⁺ = −e J v`` and targets, or rest where steps begin with ``impacts``."""
        problem = (self.problem() if problem is None else problem).without_springs()
        motion, ops, rows = self.motion(problem=problem), self.ops, list[Matrix]()
        for factor, goal, (c, at) in zip(self._struck, motion.goals, motion.each_constraint(), strict=True):
            change = scaled(ops, [-factor] * c.size, c.velocity(at))
            rows.append(change if goal.target is None or self.request.options.impacts else change + goal.target)
        return motion.at_impact(motion.stacked(rows))

    @property
    def _struck(self) -> list[Scalar]:
        """Part of the velocity along the rows of each constraint that an impact takes: ``1 + e``."""
        options, n = self.request.options, len(self.constraints)
        if options.impacts:
            return [0.0 if flag is None else flag for flag in self._flags("impacts")]
        if options.restitution == "input":
            return [1.0 + e for e in self.entries("restitution")]
        return [1.0 + (options.restitution or 0.0)] * n

    def after_impact(self) -> list[Scalar]:
        """Velocity (nv) that a step starts with: that after its impacts, if it has any."""
        v = self.entries("v")
        if not self.request.options.impacts:
            return v
        return [x + y for x, y in zip(v, column(self.ops, self.solve(self.impact()).qdd), strict=True)]

    def impact_derivatives(self, problem: Problem | None = None) -> Derivatives:
        """Derivatives of an impact; ``problem`` is that at ``q``, if it has been made."""
        self.ops.new_system()
        found = impact_derivatives(self.impact(problem), self._struck, self.resolve, self.has_dependent_rows)
        self.estimate_derivatives(found.directions)
        return found

    def derivatives(self, motion: DynamicsProblem, response: AccelerationResponse | None = None) -> Derivatives:
        """Derivatives of forward dynamics; ``response`` is that of the same robot and rows, if it has been made."""
        return derivatives(motion, self.resolve, response, is_dependent=self.has_dependent_rows)

    def control_forces(self, q: Any = None, v: Any = None) -> Any:
        """Joint forces as a state vector, at ``q`` and ``v`` (the arguments if None); None if they are zero."""
        control = self.request.options.control
        if control == "tau":
            return self.values.get("tau")
        q, v, *controls = self._controlled(q, v)
        forces = _FORCES[control](self.ops, self.tree, q, v, *controls)
        return [forces.get(dof, 0.0) for dof in range(self.tree.nv)]

    def servos(self) -> Servos:
        """What of controls pulls back, at the arguments."""
        control = self.request.options.control
        if control == "tau":
            return Servos([], [], [1.0] * self.tree.nv)
        return _SERVOS[control](self.ops, self.tree, *self._controlled(None, None))

    def springs(self) -> list[Spring]:
        """Springs and damping of joints, and what of controls pulls back, at the arguments."""
        options, tree, control = self.request.options, self.tree, self.request.options.control
        found, usual = self.servos(), usual_inertias(self.request.tree).tolist()
        d = self.entries("damping") if options.damping == "input" else options.damping or [0.0] * tree.nv
        k = [x for joint in tree.joints for x in (joint.stiffness * options.passive).tolist()]
        out = list[Spring]()
        for link, own in enumerate(tree.v_slices):
            for i in range(own.start, own.stop):
                if options.damping == "input" or k[i] or d[i]:
                    mobility = 1.0 / usual[i] if usual[i] > 0.0 else 0.0
                    out.append(Spring.of_joint(link, i, k[i], d[i], mobility, options.damping != "input"))
        pulling = list[tuple[dict[int, float], Scalar, Scalar]]()
        if control == "actuators":
            for actuator, stiffness, damping in zip(tree.actuators, found.stiffness, found.damping, strict=True):
                if any((*actuator.gain[1:], *actuator.bias[1:])):
                    pulling.append((dict(transmission(tree, actuator)), stiffness, damping))
        if control == "pd":
            dofs = [at.start for joint, at in zip(tree.joints, tree.v_slices, strict=True) if joint.nq == joint.nv == 1]
            pulling = [({i: 1.0}, found.stiffness[i], found.damping[i]) for i in dofs]
        for ratios, stiffness, damping in pulling:
            mobility = sum(x * x / usual[i] for i, x in ratios.items() if usual[i] > 0.0)
            out.append(Spring({i: x * found.acting[i] for i, x in ratios.items()}, stiffness, damping, mobility))
        return out

    def with_controls(self, found: Mapping[str, Matrix], q: Any = None, v: Any = None) -> dict[str, Matrix]:
        """Derivatives with controls in place of joint forces, where controls make these."""
        if self.request.options.control == "tau":
            return dict(found)
        with_q, with_v, with_u = self.control_rates(q, v)
        out = {}
        for what in ("dqdd", "df"):
            with_forces = found[f"{what}_dtau"]
            out[f"{what}_dq"] = found[f"{what}_dq"] + with_forces @ with_q
            out[f"{what}_dv"] = found[f"{what}_dv"] + with_forces @ with_v
            out[f"{what}_dtau"] = with_forces @ with_u
        return out

    def control_rates(self, q: Any = None, v: Any = None) -> tuple[Matrix, Matrix, Matrix]:
        """Changes of joint forces (nv) with positions and velocities (nv × nv), and with controls (nv × n)."""
        ops, nv, control = self.ops, self.tree.nv, self.request.options.control
        if control == "tau":
            return ops.zeros(nv, nv), ops.zeros(nv, nv), ops.eye(nv)
        q, v, *controls = self._controlled(q, v)
        return control_rates(ops, self.tree, _FORCES[control], q, v, controls)

    def control_curvature(self, weights: Matrix) -> Second:
        """Second derivatives of ``w·τ`` at the arguments, with weights (nv × 1) of joint forces that controls make."""
        q, v, *controls = self._controlled(None, None)
        return control_curvature(self.ops, self.tree, _FORCES[self.request.options.control], q, v, controls, weights)

    def second_derivatives(self, motion: DynamicsProblem) -> tuple[Derivatives, SecondDerivatives]:
        """First derivatives, with controls in place of joint forces if these make them, and second ones."""
        found = self.derivatives(motion)
        self.estimate_derivatives(found.directions)
        found = replace(found, changes=self.with_controls(found.changes))
        controls = None if self.request.options.control == "tau" else self.control_curvature
        return found, SecondDerivatives(motion, found, controls)

    def _controlled(self, q: Any, v: Any) -> list[Any]:
        """Numbers of the state (the arguments if None) and of the controls."""
        state = [self.entries("q") if q is None else q, self.entries("v") if v is None else v]
        options = self.request.options
        return [*state, *map(self.entries, (*CONTROLS[options.control], *(["v_target"] if options.v_target else [])))]

    def entries(self, name: str) -> list[Scalar]:
        """Numbers of a vector that comes with each call."""
        sizes = {a.name: a.size for a in self.request.arguments}
        return [self.values[name][k] for k in range(sizes[name])]

    @property
    def method(self) -> Method:
        """Forward dynamics by the request's method, by `ltl` of what has none."""
        return METHODS.get(self.request.method, ltl)

    @property
    def method_of_stages(self) -> Method | None:
        """Forward dynamics at all stages of a step, which leave loops open by a little; None: the request's method."""
        if self.request.options.integrator != "rk4" or self.request.method != "proximal" or not self.request.loses_rank:
            return None
        return partial(proximal, weight=GAPING_WEIGHT)

    def solve(self, motion: DynamicsProblem, method: Method | None = None) -> DynamicsSolution:
        """Forward dynamics by a method, the request's if None; its error is estimated."""
        self.ops.new_system()
        if self.request.is_singular and self.request.method not in OF_LEAST_NORM:
            self.ops.pivot(0.0, is_exact=True)
        found = (method or METHODS[self.request.method])(motion)
        idle = found.idle if self.request.returns_forces else found.idle_qdd
        if idle is not None:
            bound = ERROR_BOUND.get(self.request.error_dtype, ERROR_BOUND["float64"])
            is_stage = self.request.options.integrator == "rk4" and self.request.method in BY_CLUSTERS
            part = IDLE_AT_STAGES if is_stage else IDLE if self.request.returns_forces else IDLE_QDD
            if self.request.returns_forces and found.kept is not None:
                self.ops.pivot(found.kept)
            self.ops.pivot(self.ops.less(idle, part * bound), is_exact=True)
            if self.request.error_dtype and not is_stage:
                self.errors.append(idle)
        return self.with_error(motion, found, method)

    def with_error(
        self, motion: DynamicsProblem, solution: DynamicsSolution, method: Method | None = None
    ) -> DynamicsSolution:
        """The solution by a method, the request's if None; its error is estimated where errors are asked for."""
        if self.request.error_dtype:
            self.errors.append(self.error_of(motion, solution, method))
        return solution

    @property
    def has_dependent_rows(self) -> bool:
        """Whether hard rows are dependent at almost all states."""
        return self.request.has_dependent_rows

    def resolve(
        self, motion: DynamicsProblem, solution: DynamicsSolution, inverse: Matrix
    ) -> tuple[DynamicsSolution, Matrix, Dependence | None]:
        """What `Resolve` says of a solution by `ltl`: it stays as it is."""
        return self.with_error(motion, solution), inverse, None

    def estimate_derivatives(self, directions: Iterable[Direction]) -> None:
        """Estimate errors of derivatives of the last solution, by those along some directions, which are solutions."""
        for problem, solution, changed, with_velocity in directions if self.request.error_dtype else ():
            change = None if changed is None else Change(changed, with_velocity)
            self.errors.append(self.error_of(problem, solution, change=change) * WORST_COLUMN)

    def error_of(
        self,
        motion: DynamicsProblem,
        solution: DynamicsSolution,
        method: Method | None = None,
        change: Change | None = None,
    ) -> Scalar:
        """Estimate of the relative error of a solution by a method, the request's if None; of a derivative by that."""
        dtype, method = self.request.error_dtype, method or self.method
        negligible = ERROR_BOUND.get(dtype, ERROR_BOUND["float64"])
        how = motion, method, solution, float(np.finfo(dtype).eps), negligible, change
        return relative_error(*how, of_forces=self.request.returns_forces)

    def require_independent(self) -> None:
        """Say of programs of rows that are dependent everywhere that they solve nothing."""
        if self.request.is_singular:
            self.ops.pivot(0.0, is_exact=True)

    def least_squares(self, problem: Problem, G: Matrix, x: Matrix) -> tuple[Matrix, Scalar]:
        """Least-squares solution of least norm (m × 1) of ``G y = x``, and the rank of ``G``."""
        typical = mobility_bound(problem, Articulated(problem))
        found = LeastSquares(self.ops, G, [UNMOVED * x for x in typical])
        self.is_within = found.is_certain
        return found.solve(x), found.rank

    def _column(self, name: str) -> Matrix:
        return from_entries(self.ops, self.entries(name))

    def _wrenches(self) -> dict[int, Matrix]:
        out: dict[int, Matrix] = {}
        for index, frame in enumerate(self.request.options.wrenches):
            at = frame.on(self.tree)
            if at.link != WORLD:
                X = self.ops.constant(motion_transform(at.rotation, at.position).T)
                wrench = X @ self._column(f"wrench{index}")
                out[at.link] = out[at.link] + wrench if at.link in out else wrench
        return out

    def _given(self, name: str, option: Sequence[float] | str) -> Matrix:
        """Column of the numbers of an option, or of the argument that it asks for."""
        return self._column(name) if isinstance(option, str) else self.ops.constant([[x] for x in option])

    def _goal(self, index: int, problem: Problem, v: Any) -> Goal:
        options, c = self.request.options, self.constraints[index]
        if isinstance(c, AnySpring) and not c.holds and options.compliance[index] == ():
            return self._goal_of_spring(c, At(problem, index, self._moving(problem, v)))
        velocity_gain, position_gain = options.baumgarte[index] or (None, None)
        soft = options.compliance[index]
        return Goal(
            target=self._column(f"target{index}") if options.targets[index] else None,
            velocity_gain=velocity_gain,
            position_gain=position_gain or None,
            pose=self._pose(f"pose{index}") if options.poses[index] else None,
            compliance=None if soft is None else self._given(f"compliance{index}", soft),
        )

    def _moving(self, problem: Problem, v: Any) -> DynamicsProblem:
        return DynamicsProblem(problem, v, None, gravity=self.ops.zeros(3, 1))

    def _goal_of_spring(self, c: AnySpring, at: At) -> Goal:
        """That of rows with the forces ``−k x − (d + b / h) u − a u̇`` of `step_of_spring`; they yield by ``1 / a``.

        Where limits do not act, they yield to next to nothing.
        """
        ops, (h,), R, by_speed, by_length = self.ops, self.entries("dt"), *(list[Scalar]() for _ in range(3))
        for r, (k, d, mobility) in enumerate(c.springs(self.request.tree)):
            a, b = step_of_spring(ops, h, k, d, mobility)
            over = 1.0 / a
            of_speed, of_length = over * (d + b / h), over * k
            if has_limits(c):
                x, u = (column(ops, state(at))[r] for state in (c.position, c.velocity))
                acts = pushes(ops, k, d, x, u)
                over, of_speed, of_length = ops.select(acts, over, over / SLACK), acts * of_speed, acts * of_length
            R.append(over)
            by_speed.append(of_speed)
            by_length.append(of_length)
        return Goal(row_gains=(by_speed, by_length), compliance=stacked(self, R))

    def _pose(self, name: str) -> tuple[Matrix, Matrix]:
        x = self.entries(name)
        rotation = self.ops.eye(3) if len(x) == 3 else self.ops.matrix(quaternion_rows(*x[3:]))
        return rotation, from_entries(self.ops, x[:3])


def stacked(bound: BoundRequest, entries: Sequence[Scalar]) -> Matrix:
    """Column (n × 1) of scalars."""
    return from_entries(bound.ops, entries)


@lru_cache(maxsize=256)
@undisturbed
def elimination_order(request: Request) -> EliminationOrder | None:
    """Order of links in which the request's method takes the fewest operations; None where there is no choice.

    Of methods over clusters, which coordinates are independent.
    """
    if request.method in BY_CLUSTERS:
        return EliminationOrder(tuple(request.tree.leaves_to_root()), independent=request.independent)
    if request.method == "pv-early" and not (request.options.active or any(request.options.soft) or request.payloads):
        return order_of_hard_rows(request.tree, request.constraints)

    def solve(ops: TraceOps, order: EliminationOrder) -> DynamicsSolution:
        bound = symbolic_request(request, ops)
        bound.order = order
        return METHODS[request.method](bound.motion())

    return fewest_operations(request.tree, request.constraints, solve) if request.method in BY_LINKS else None


def symbolic_request(request: Request, ops: TraceOps) -> BoundRequest:
    """The request with an input of the trace for each number of its arguments, row-major.

    The generic state is one: quaternions there are of unit length.
    """
    values: dict[str, Any] = {}
    for a in request.arguments:
        at: Any = None
        if a.name in CONFIGURATIONS:
            at = generic_configurations(request.tree, CONFIGURATIONS.index(a.name))
        elif a.shape == (7,) and a.keyword in ("placements", "poses"):
            position, quaternion = GENERIC_PLACEMENT
            at = [*(characteristic_length(request.tree) * x for x in position), *quaternion]
        values[a.name] = ops.unknown(*a.shape) if len(a.shape) == 2 else ops.vector(a.size, at)
    return BoundRequest(request, ops, values)
