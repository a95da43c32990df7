"""Parts of requests as programs of their own: what rank, status and refinement, which work on arrays, start from.

A quantity may solve several systems of dynamics, an impact and then each stage of an integrator. At states that its
program does not solve they are solved one after the other (`SystemStage`): a program makes the system from the
solutions of those before it, `delassus.accuracy.status` solves it, and what is left of the quantity is a program of all
solutions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.closed_loops import at_configurations
from delassus.accuracy.rank import DependentRows, mass_condition
from delassus.accuracy.status import EPSILON
from delassus.algorithms import crba
from delassus.algorithms.articulated import Articulated
from delassus.algorithms.contact.problem import StepProblem
from delassus.algorithms.contact.solvers import Exact, Unsolved
from delassus.algorithms.dynamics import Method
from delassus.algorithms.dynamics.constraint_acceleration import wanted_accelerations
from delassus.algorithms.dynamics.derivatives.accelerations import Dependence
from delassus.algorithms.dynamics.popov_vereshchagin.pv_early import pv_early
from delassus.algorithms.dynamics.proximal import ITERATIONS, ProximalPoint, missed, shift
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.osim.kjr import kjr
from delassus.algorithms.osim.least_squares import mobility_bound
from delassus.algorithms.rnea import applied_forces
from delassus.compiler.program.traced import Traced
from delassus.errors import DelassusError, warn
from delassus.model.kinematics import generic_configurations
from delassus.model.tree import Tree
from delassus.quantities.bound_request import BoundRequest, symbolic_request
from delassus.quantities.planner.methods import AUTO
from delassus.quantities.quantity import DEPENDENCES, GIVEN, SOLUTIONS, Output, Quantity
from delassus.quantities.request import Request
from delassus.spatial.motion import column, from_entries
from delassus.spatial.ops import Matrix
from delassus.spatial.rotations import Array
from delassus.spatial.trace.batched_calls import CallingTraceOps
from delassus.spatial.trace.graph import Graph, undisturbed
from delassus.spatial.trace.interpret import interpret
from delassus.spatial.trace.trace_ops import TraceOps

AT_ONCE = 256
"""States that a program is interpreted at."""


def _judged_rows(bound: BoundRequest) -> list[Matrix]:
    problem = bound.problem()
    return [kjr(problem), from_entries(bound.ops, mobility_bound(problem, Articulated(problem)))]


JUDGED_ROWS = Quantity(
    "judged_rows",
    "Delassus matrix, and the size that its diagonal has where no row is badly placed",
    ("q",),
    (Output("G", ("m", "m"), "Delassus matrix", symmetric=True), Output("typical", ("m",), "size of its diagonal")),
    _judged_rows,
    inverts_mass=True,
    is_private=True,
)
"""What says which rows are independent."""


def _mass_and_rows(bound: BoundRequest) -> list[Matrix]:
    problem = bound.problem()
    return [crba.mass_matrix(problem), jacobian(problem), bound.ops.zeros(bound.tree.nv, 1)]


MASS_AND_ROWS = Quantity(
    "mass_and_rows",
    "Mass matrix, constraint Jacobian, and no force",
    ("q",),
    (
        Output("M", ("nv", "nv"), "mass matrix", symmetric=True),
        Output("J", ("m", "nv"), "constraint Jacobian"),
        Output("force", ("nv",), "zero"),
    ),
    _mass_and_rows,
)
"""What the Delassus matrix of long chains is made of."""


class SingularError(DelassusError, ArithmeticError):
    """The constraint rows are redundant at some state, so that ``G`` has no inverse.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.pendulum(1)
    >>> try:
    ...     ds.osim(arm, ds.Point("rod1"), [0.0])
    ... except ds.SingularError as error:
    ...     print(str(error).split(".")[0])
    constraints: expected 3 independent rows, got 0
    """


# -- one solution after the other ------------------------------------------------------------------------------------


class Reached(Exception):
    """A request has come to the solution that is not given; ``results`` are made of its system."""

    def __init__(self, results: list[Matrix]) -> None:
        super().__init__("a solution that is not given")
        self.results = results


Of = Callable[["Given", DynamicsProblem, DynamicsSolution | None], list[Matrix]]
"""What is made of a system, and of a solution of it if there is one already."""


class Given(BoundRequest):
    """A request whose first systems of dynamics have solutions that are given; it ends at the next one."""

    has_dependent_rows = False

    def __init__(self, bound: BoundRequest, quantity: Quantity, number: int, of: Of) -> None:
        super().__init__(replace(bound.request, quantity=quantity), bound.ops, bound.values)
        self.order, self._number, self._of, self._next, self._outer = bound.order, number, of, 0, bound

    def solve(self, motion: DynamicsProblem, method: Method | None = None) -> DynamicsSolution:
        """The solution that is given."""
        return self._solution(motion, None)

    def resolve(
        self, motion: DynamicsProblem, solution: DynamicsSolution, inverse: Matrix
    ) -> tuple[DynamicsSolution, Matrix, Dependence | None]:
        """The solution that is given, and what is to be known of dependent rows, where they are so."""
        found, ops, m = self._solution(motion, solution), self.ops, motion.problem.n_rows
        where, *x = self._outer.entries(DEPENDENCES[self._next - 1])
        own, hard, idle = ([x[k : k + m] for k in range(i * m * m, (i + 1) * m * m, m or 1)] for i in range(3))
        if not m:
            return found, inverse, None
        pairs = zip(own, ops.entries(inverse), strict=True)
        inverse = ops.matrix([[ops.select(where, a, b) for a, b in zip(*rows, strict=True)] for rows in pairs])
        return found, inverse, Dependence(ops.matrix(hard), ops.matrix(idle), from_entries(ops, x[3 * m * m :]))

    def _solution(self, motion: DynamicsProblem, solution: DynamicsSolution | None) -> DynamicsSolution:
        self.ops.new_system()
        if self._next == self._number:
            raise Reached(self._of(self, motion, solution))
        return self.next_solution()

    def next_solution(self) -> DynamicsSolution:
        """The next one that is given."""
        self._next += 1
        x = self._outer.entries(SOLUTIONS[self._next - 1])
        return DynamicsSolution(from_entries(self.ops, x[: self.tree.nv]), from_entries(self.ops, x[self.tree.nv :]))

    def by_method(self, motion: DynamicsProblem) -> DynamicsSolution:
        """The solution by the request's method, its error estimated."""
        return super().solve(motion)


def _system(bound: BoundRequest, motion: DynamicsProblem, _: DynamicsSolution | None = None) -> list[Matrix]:
    """What `System` is made of."""
    ops, problem, n = motion.ops, motion.problem, motion.problem.n_rows
    soft = ops.block_diagonal([motion.compliance(c) for c in range(len(motion.goals))])
    slack = problem.relaxed(ops.zeros(n, n))
    compliance, slack = (from_entries(ops, [x[k] for k, x in enumerate(ops.entries(a))]) for a in (soft, slack))
    typical = from_entries(ops, mobility_bound(problem, Articulated(problem)))
    bound.errors = [0.0]  # that of the solution is estimated
    return [
        crba.mass_matrix(problem), jacobian(problem), applied_forces(motion), wanted_accelerations(motion), compliance,
        slack, typical,
    ]  # fmt: skip


def _solution(bound: Given, motion: DynamicsProblem, solution: DynamicsSolution | None) -> list[Matrix]:
    found = bound.by_method(motion) if solution is None else bound.with_error(motion, solution)
    return [found.qdd, found.forces]


def _iterations(bound: Given, motion: DynamicsProblem, _: DynamicsSolution | None) -> list[Matrix]:
    """Joint forces, what rows miss after each proximal iteration, and solutions after fewer than `ITERATIONS`."""
    ops, point = motion.ops, ProximalPoint(motion)
    b, found = missed(point, motion), list[Matrix]()
    for k in range(1, ITERATIONS):
        solution = point.without_idle(point.solve(shift(b, k)))
        found += [solution.qdd, solution.forces]
    bound.errors = [0.0]
    return [ops.vstack(motion.tau), ops.matrix([column(ops, x) for x in b]), *found]


def _judged(bound: Given, motion: DynamicsProblem, _: DynamicsSolution | None) -> list[Matrix]:
    """The solution that is given, its error estimated in O(n)."""
    found = bound.next_solution()
    bound.with_error(motion, found, pv_early)
    return [found.qdd, found.forces]


_OF: Mapping[str, Of] = {"system": _system, "solution": _solution, "iterations": _iterations, "judged": _judged}

_SYSTEM = {
    "M": ("nv", "nv"), "J": ("m", "nv"), "force": ("nv",), "gamma": ("m",), "compliance": ("m",), "slack": ("m",),
    "typical": ("m",),
}  # fmt: skip
_OUTPUTS: Mapping[str, tuple[Output, ...]] = {
    "system": tuple(Output(name, shape, "as of `System`", symmetric=name == "M") for name, shape in _SYSTEM.items()),
    "solution": (Output("qdd", ("nv",), "accelerations"), Output("forces", ("m",), "forces along the rows")),
    "judged": (Output("qdd", ("nv",), "accelerations"), Output("forces", ("m",), "forces along the rows")),
    "iterations": (
        Output("tau", ("nv",), "joint forces"),
        Output("b", (2 * ITERATIONS - 1, "m"), "what rows miss after each iteration"),
        *(Output(f"{x}{k}", (n,), "a solution") for k in range(1, ITERATIONS) for x, n in (("qdd", "nv"), ("f", "m"))),
    ),
}


@dataclass(frozen=True, slots=True)
class SystemStage:
    """What a quantity makes of its system of that number, ``of`` `_OF`; with none, its outputs from all solutions."""

    quantity: Quantity
    number: int
    of: str

    def __call__(self, bound: BoundRequest) -> list[Matrix]:
        """Run the quantity up to there."""
        given = Given(bound, self.quantity, self.number, _OF.get(self.of, _system))
        try:
            results = [*given.results().values()]
        except Reached as reached:
            results = reached.results
        bound.errors, bound.is_within = given.errors or [0.0], given.is_within
        return results


@lru_cache(maxsize=256)
def stage(asked: Request, number: int, of: str = "") -> Request:
    """Request of a `SystemStage`, by the request's method where a solution is asked for."""
    quantity = asked.quantity
    differentiates = any(o.is_derivative for o in quantity.outputs)
    given = number + (of == "judged")
    inputs = *quantity.inputs, *SOLUTIONS[:given], *(DEPENDENCES[:number] if differentiates else ())
    solves = of == "solution"
    own = Quantity(
        f"{quantity.name}, {of or 'rest'} {number}", quantity.meaning, inputs, _OUTPUTS.get(of, quantity.outputs),
        SystemStage(quantity, number, of), methods=quantity.methods, options=quantity.options, has_status=solves,
        is_solution=solves,
    )  # fmt: skip
    return replace(asked, quantity=own, method=asked.method if solves else AUTO, error_dtype="float64", derivative=())


@lru_cache(maxsize=256)
def number_of_systems(asked: Request) -> int:
    """How many systems of dynamics a request solves, one after the other."""
    options, quantity = asked.options, asked.quantity
    if "integrator" in quantity.options:
        return (4 if options.integrator == "rk4" else 1) + bool(options.impacts)
    if "sensors" not in quantity.options:
        return 1
    try:
        Given(symbolic_request(replace(asked, error_dtype=""), TraceOps()), quantity, 0, lambda *_: []).results()
    except Reached:
        return 1
    return 0


def held_rows(asked: Request) -> Request:
    """Request of the "system" of what holds while tasks are done."""
    tasks = asked.options.tasks
    assert tasks is not None, "of control only"
    m = sum(c.size for c in asked.constraints[tasks:])
    outputs = [replace(o, shape=tuple(m if s == "m" else s for s in o.shape)) for o in _OUTPUTS["system"]]
    own = Quantity("held rows", "", asked.quantity.inputs, tuple(outputs), _held, options=asked.quantity.options)
    return replace(asked, quantity=own, error_dtype="float64")


def _held(bound: BoundRequest) -> list[Matrix]:
    tasks, n = bound.request.options.tasks, len(bound.constraints)
    assert tasks is not None, "of control only"
    motion = bound.motion().at_state(bound.entries("q"), bound.entries("v"), range(tasks, n))
    return _system(bound, motion)


# -- what may be wrong -----------------------------------------------------------------------------------------------


def require_independent(G: Array, typical: Array, places: NDArray[Any]) -> None:
    """Raise `SingularError` if ``G`` (k, m, m) of ``JUDGED_ROWS`` has no inverse at one of k states at ``places``."""
    rank = DependentRows(G, typical).rank
    deficient = np.flatnonzero(rank < G.shape[-1])
    if len(deficient):
        where = [int(i) for i in places[deficient[0]]]
        found = f"{int(rank[deficient[0]])}" + (f" at state {where}" if where else "")
        advice = "Drop redundant rows, or use delassus_operator, which solves in the least-squares sense."
        raise SingularError("constraints", f"{G.shape[-1]} independent rows", found, advice)


def warn_of_errors(asked: Request, error: Array, bound: float) -> None:
    """Say how many states have a larger estimate of the error than the bound, if robot or rows let expect any."""
    above = np.count_nonzero(~(error <= bound))
    if above and (asked.quantity.needs_independent or asked.payloads or may_be_singular(asked.tree)):
        of = f"{asked.quantity.name} of {asked.tree.name!r}"
        warn(
            f"{of}: {above} of {error.size} state(s) have an estimated relative error above {bound:g}, "
            f"the largest one {np.max(error):.1g}: the mass matrix or the rows are nearly singular there. Check "
            "small inertias, give joints armature, or drop rows.",
            kind=of,
        )


CERTAIN = 1e9
"""Robots whose mass matrix has a smaller condition have no errors above the bound."""


@lru_cache(maxsize=256)
def may_be_singular(tree: Tree) -> bool:
    """Whether the mass matrix is nearly singular, at neutral or at one of a few random configurations."""
    q = np.concatenate([tree.neutral()[None], generic_configurations(tree, 0, (8,))])
    (M,) = at_configurations(tree, (), q, lambda problem: [crba.mass_matrix(problem)])
    return not bool(np.all(mass_condition(M) <= CERTAIN))


def accurate(asked: Request, given: Mapping[str, Any], where: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Accelerations, forces and their relative errors at some states, in extended precision where there is one.

    ``asked`` is a `stage` that solves.
    """
    program = traced(replace(asked, error_dtype="longdouble"))
    qdd, forces, error = interpreted(asked, program, given, where, np.longdouble)
    return qdd.astype(float), forces.astype(float), error[:, 0].astype(float) + EPSILON


@dataclass(frozen=True, slots=True)
class ExactStep:
    """A contact step to whose first problems so many impulses each are given; it raises `Unsolved` at the next one."""

    quantity: Quantity
    sizes: tuple[int, ...]

    def __call__(self, bound: BoundRequest) -> list[Matrix]:
        """Results of the step, and whether it is solved."""
        step = BoundRequest(replace(bound.request, quantity=self.quantity), bound.ops, bound.values)
        step.solver = Exact([bound.entries(name) for name in GIVEN[: len(self.sizes)]])
        results = step.results().values()
        is_within = 1.0 if step.is_within is None else step.is_within
        return [*results, bound.ops.matrix([[is_within]])]


@lru_cache(maxsize=64)
@undisturbed
def exact_step(asked: Request, sizes: tuple[int, ...]) -> tuple[Request, Traced, Unsolved | None]:
    """Request of an `ExactStep`, its program, and the problem at which it ends, of symbols, if it does.

    What the program makes are results and whether it is solved, or the numbers of the problem.
    """
    quantity, unsolved = asked.quantity, None
    own = replace(quantity, inputs=(*quantity.inputs, *GIVEN[: len(sizes)]), run=ExactStep(quantity, sizes))
    step, ops = replace(asked, quantity=own), CallingTraceOps()
    try:
        results = step.quantity.run(symbolic_request(step, ops))
    except Unsolved as found:
        numbers, unsolved = list[Any](), found
        of_numbers(found.problem, numbers.append)
        results = [from_entries(ops, numbers)]
    return step, Traced(ops, [ops.nodes(a) for a in results], sum(a.size for a in step.arguments)), unsolved


def of_numbers(problem: StepProblem, number: Callable[[Any], Any]) -> Any:
    """A problem with others in the place of its numbers."""

    def other(x: Any) -> Any:
        return None if x is None else number(x)

    points = [replace(y, friction=other(y.friction), floor=other(y.floor), over=other(y.over)) for y in problem.points]
    joints = [replace(y, bounds=tuple(map(other, y.bounds)), friction=other(y.friction)) for y in problem.joints]
    G, b = [[*map(other, row)] for row in problem.G], [*map(other, problem.b)]
    return SimpleNamespace(points=points, joints=joints, G=G, b=b)


def inputs_at(asked: Request, given: Mapping[str, Any], where: NDArray[np.bool_]) -> Array:
    """Numbers of all arguments at some states (n, numbers), zero of arguments that are not given."""
    columns, n = [], int(np.count_nonzero(where))
    for a in asked.arguments:
        x = 0.0 if given.get(a.name) is None else np.asarray(given[a.name])
        columns.append(np.broadcast_to(x, (*where.shape, *a.shape))[where].reshape(n, a.size))
    return np.concatenate([np.zeros((n, 0)), *columns], axis=1)


def interpreted(
    asked: Request, program: Graph, given: Mapping[str, Any], where: NDArray[np.bool_], dtype: Any
) -> list[Any]:
    """Run a program at some states, a few at a time: all that it computes stays in memory."""
    inputs = inputs_at(asked, given, where).astype(dtype)
    parts = [interpret(program, inputs[k : k + AT_ONCE]) for k in range(0, max(len(inputs), 1), AT_ONCE)]
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


@lru_cache(maxsize=64)
def traced(asked: Request) -> Graph:
    """Graph of the outputs of a request, and of the largest of its estimates of errors, if it has any."""
    ops = TraceOps()
    bound = symbolic_request(asked, ops)
    outputs = [ops.nodes(a) for a in asked.quantity.run(bound)]
    errors = [ops.nodes(ops.matrix([[reduce(ops.maximum, bound.errors)]]))] if bound.errors else []
    return ops.graph([*outputs, *errors])
