"""Evaluate a request on NumPy, batched, in float64: direct functions, and states that kernels do not solve."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.iterate import TOLERANCE, Iterated, iterate
from delassus.accuracy.policy import ACCURATE, ERROR_BOUND
from delassus.accuracy.rank import independence, least_squares
from delassus.accuracy.refinement import Change
from delassus.accuracy.status import EPSILON, DynamicsStatus, Resolved, are_finite, resolve, system_of, warn_of, worst
from delassus.algorithms import crba
from delassus.algorithms.articulated import Articulated
from delassus.algorithms.contact.solvers import FALLBACK
from delassus.algorithms.dynamics import ITERATIVE, METHODS, UNCONSTRAINED, Method
from delassus.algorithms.dynamics.derivatives.accelerations import Direction
from delassus.algorithms.dynamics.kkt import kkt
from delassus.algorithms.dynamics.ltl import JointSpace
from delassus.algorithms.dynamics.proximal import ITERATIONS
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.osim.kjr import kjr
from delassus.algorithms.osim.least_squares import mobility_bound
from delassus.algorithms.problem import Problem
from delassus.algorithms.rnea import applied_forces
from delassus.errors import DelassusError, warn
from delassus.model.kinematics import generic_configurations
from delassus.model.tree import Tree
from delassus.quantities.bound_request import BoundRequest, symbolic_request
from delassus.quantities.estimate import is_long, rcond_by_pivots
from delassus.quantities.quantity import Output, Quantity
from delassus.quantities.request import Request, request
from delassus.spatial.motion import from_entries
from delassus.spatial.numpy_ops import Answer, NumpyOps, numbers
from delassus.spatial.ops import Matrix, Scalar
from delassus.spatial.rotations import Array
from delassus.spatial.trace.graph import Graph
from delassus.spatial.trace.interpret import interpret
from delassus.spatial.trace.trace_ops import TraceOps

AT_ONCE = 256
"""States that a program is interpreted at."""


CERTAIN = 1e9
"""Robots of smaller condition have no errors above the bound."""


def _free_motion(bound: BoundRequest) -> list[Matrix]:
    return [METHODS["aba"](bound.motion()).qdd]


FREE_MOTION = Quantity(
    "free_motion",
    "Joint accelerations without constraints",
    ("q", "v", "tau"),
    (Output("qdd", ("nv",), "joint accelerations in rad/s^2 and m/s^2"),),
    _free_motion,
    inverts_mass=True,
)
"""What the errors that come from the mass matrix are measured with."""


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
)
"""What says which rows are independent."""


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


def _saddle(motion: DynamicsProblem) -> list[Matrix]:
    """``M``, ``J`` and all else that `System` holds, by Featherstone's sparse factor."""
    ops, problem, space = motion.ops, motion.problem, JointSpace(motion)
    nv, m = motion.tree.nv, problem.n_rows
    force, soft = applied_forces(motion), ops.block_diagonal([motion.compliance(c) for c in range(len(motion.goals))])
    L, J = space.L, space.J

    def solved(B: Matrix) -> Matrix:
        return ops.vstack(L.solve(L.solve_transpose(B))) if nv else B

    caused, G = solved(ops.transpose(J)) if m else ops.zeros(nv, 0), motion.softened(space.G)
    typical = mobility_bound(problem, Articulated(problem))
    compliance = from_entries(ops, [row[k] for k, row in enumerate(ops.entries(soft))])
    outputs = [crba.mass_matrix(problem), J, caused, force, solved(force), space.gamma, compliance, G]
    return [*outputs, problem.relaxed(G), from_entries(ops, typical)]


def _of_motion(bound: BoundRequest) -> list[Matrix]:
    return _saddle(bound.motion())


def _of_impact(bound: BoundRequest) -> list[Matrix]:
    return _saddle(bound.impact())


_SADDLE = {
    "M": ("nv", "nv"), "J": ("m", "nv"), "caused": ("nv", "m"), "force": ("nv",), "free": ("nv",), "gamma": ("m",),
    "compliance": ("m",), "G": ("m", "m"), "relaxed": ("m", "m"), "typical": ("m",),
}  # fmt: skip
_OUTPUTS = tuple(
    Output(name, shape, "as of `System`", symmetric=name in ("M", "G", "relaxed")) for name, shape in _SADDLE.items()
)

SADDLE = Quantity(
    "saddle_point",
    "What constrained motion solves",
    ("q", "v", "tau"),
    _OUTPUTS,
    _of_motion,
    inverts_mass=True,
)
IMPACT = Quantity("impact", "What an impact solves", ("q", "v"), _OUTPUTS, _of_impact, inverts_mass=True)
"""What solutions are checked by, and found where rows are dependent: fields of `System`."""


def require_independent(G: Array, typical: Array, places: NDArray[Any]) -> None:
    """Raise `SingularError` if ``G`` (k, m, m) of ``JUDGED_ROWS`` has no inverse at one of k states at ``places``."""
    rank, _ = independence(G, typical, (len(G),))
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


class NumpyRequest(BoundRequest):
    """A request and a batch of states on NumPy; ``resolved`` holds the solution of each system, dependent rows too."""

    has_dependent_rows = False

    def __init__(self, request: Request, values: Mapping[str, Array], batch: tuple[int, ...]) -> None:
        self._numpy_ops = ops = NumpyOps(structure=partial(structure_of, replace(request, error_dtype="")))
        if request.quantity.has_status:
            request = replace(request, error_dtype="float64")
        scalars = {a.name for a in request.arguments if not a.shape}
        values = {name: np.asarray(x)[..., None] if name in scalars else x for name, x in values.items()}
        super().__init__(request, ops, values)
        self._asked_before = ops.asked
        self.batch = batch
        self.resolved: list[Resolved] = []
        self.tolerance, self.max_iterations, self.error_bound = TOLERANCE, ITERATIONS, ERROR_BOUND["float64"]

    @property
    def status(self) -> NDArray[np.object_]:
        """Status of each state (...), the worst of all systems."""
        return worst([s.status for s in self.resolved]) if self.resolved else np.full(self.batch, DynamicsStatus.SOLVED)

    def as_vector(self, values: Any) -> Any:
        """Array (..., n)."""
        return values if isinstance(values, np.ndarray) else self.ops.state_vector(values)

    def motion(self, q: Any = None, v: Any = None, problem: Problem | None = None) -> DynamicsProblem:
        """The problem in motion, as `BoundRequest.motion` gives it."""
        self._asked_before = self._numpy_ops.asked
        return super().motion(q, v, problem)

    def error_of(
        self,
        motion: DynamicsProblem,
        solution: Solution,
        method: Method | None = None,
        change: Change | None = None,
    ) -> Scalar:
        """The same; at rest, a system has the structure that it had in motion."""
        by = method or self.method

        def again(of: DynamicsProblem) -> Solution:
            self._numpy_ops.asked = self._asked_before
            return by(of)

        asked = self._numpy_ops.asked
        error = super().error_of(motion, solution, again, change)
        self._numpy_ops.asked = asked
        return error

    def _solved(self, motion: DynamicsProblem) -> Solution:
        """Forward dynamics by the request's method, iterated until each state has converged, resolved."""
        self._asked_before = self._numpy_ops.asked
        if self.request.method not in ITERATIVE:
            return self.with_error(motion, METHODS[self.request.method](motion))
        return self._resolved(motion, *iterate(motion, self.batch, self.tolerance, self.max_iterations))

    def with_error(self, motion: DynamicsProblem, solution: Solution, method: Method | None = None) -> Solution:
        """The solution, resolved where rows are dependent and where it is not accurate."""
        return self._resolved(motion, solution) if self.request.quantity.has_status else solution

    def estimate_derivatives(self, directions: Iterable[Direction]) -> None:
        """The same; those that are not accurate have the status `INACCURATE`."""
        last = self.resolved[-1]
        unique = (last.status == DynamicsStatus.SOLVED) | (last.status == DynamicsStatus.INACCURATE)
        errors = [np.broadcast_to(numbers(error), self.batch) for error in self.errors_along(directions)]
        error = np.where(unique, np.max([last.error, *errors], axis=0), last.error)
        status = last.status.copy()
        status[unique & ~(error <= self.error_bound)] = DynamicsStatus.INACCURATE
        self.resolved[-1] = replace(last, error=error, status=status)

    def _resolved(self, motion: DynamicsProblem, solution: Solution, iterated: Iterated | None = None) -> Solution:
        n, m, batch = self.tree.nv, motion.problem.n_rows, self.batch
        error = np.array(np.broadcast_to(numbers(self.error_of(motion, solution)), batch))
        qdd, forces = _vectors(solution.qdd, (*batch, n)), _vectors(solution.forces, (*batch, m))
        system = system_of(motion, batch)
        resolved = resolve(system, qdd, forces, error, _Solver(self, motion), iterated)
        self.resolved.append(resolved)
        self.dependent = resolved.dependent
        return replace(solution, qdd=numbers(resolved.qdd[..., None]), forces=numbers(resolved.forces[..., None]))

    def warn_of_states(
        self,
        found: Mapping[str, Array],
        conflicting: NDArray[np.bool_] | bool = False,
        known: NDArray[np.bool_] | bool = False,
    ) -> None:
        """Say how many states of outputs have errors, overflowed, or have rows in conflict; ``known`` ones aside."""
        error = self._estimated(self.request, {}, np.ones(self.batch, dtype=bool)).reshape(self.batch)
        warn_of_errors(self.request, np.where(known, 0.0, error), self.error_bound)
        status: NDArray[np.object_] = np.full(self.batch, DynamicsStatus.SOLVED, dtype=object)
        status[np.broadcast_to(conflicting, self.batch)] = DynamicsStatus.CONFLICTING
        status[~are_finite([*found.values()], self.batch) & ~np.broadcast_to(known, self.batch)] = DynamicsStatus.FAILED
        self.warn_of_status(status, "Its arrays say which.")

    def warn_of_status(self, status: NDArray[np.object_], advice: str) -> None:
        """Say how many states have which status that says that they are not solved."""
        warn_of(f"{self.request.quantity.name} of {self.tree.name!r}", Counter(status.ravel()), status.size, advice)

    def _estimated(self, asked: Request, given: Mapping[str, Any], where: NDArray[np.bool_]) -> Array:
        rcond = rcond_program(asked)
        if rcond is None:
            return np.zeros(np.count_nonzero(where))
        (found,) = interpreted(asked, rcond, {**self.values, **given}, where, np.float64)
        with np.errstate(divide="ignore"):
            return np.asarray(EPSILON / np.maximum(found[:, 0], 0.0))

    def least_squares(self, problem: Problem, G: Matrix, x: Matrix) -> tuple[Matrix, Scalar]:
        """The same; eigenvalues say which rows are dependent."""
        y, rank = least_squares(problem, G, x, self.batch)
        return numbers(y), rank

    def run(self) -> dict[str, Array]:
        """Outputs by name, each (*batch, *shape); derivatives are NaN where numbers overflowed."""
        with np.errstate(all="ignore"):  # states whose rows are dependent, or whose numbers overflow, have a status
            found = self.results()
            out = {}
            outputs = {output.name: output for output in self.request.outputs}
            for name, result in found.items():
                a, output = numbers(result), outputs[name]
                whole = np.broadcast_to(a, (*self.batch, *a.shape[-2:]))
                if output.symmetric:
                    whole = 0.5 * (whole + np.swapaxes(whole, -1, -2))
                out[output.name] = np.array(whole.reshape((*self.batch, *self.request.shape_of(output))))
            if self.resolved:
                last = self.resolved[-1]
                status = last.status.copy()
                status[~are_finite([*out.values()], self.batch)] = DynamicsStatus.FAILED
                self.resolved[-1] = replace(last, status=status)
            for name, output in outputs.items():
                if output.is_derivative:
                    out[name][self.status == DynamicsStatus.FAILED] = np.nan
        return out


class _Solver:
    """Other solutions of a system of a request on NumPy; see `delassus.accuracy.status.Solver`."""

    def __init__(self, bound: NumpyRequest, motion: DynamicsProblem) -> None:
        self._bound, self._motion, self.error_bound = bound, motion, bound.error_bound

    def other(self, where: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        """By the dense saddle point."""
        bound, found = self._bound, kkt(self._motion)
        error = np.broadcast_to(numbers(bound.error_of(self._motion, found, kkt)), where.shape)
        pair = (_vectors(found.qdd, (*where.shape, bound.tree.nv)), found.forces)
        return pair[0][where], _vectors(pair[1], (*where.shape, self._motion.problem.n_rows))[where], error[where]

    def accurate(self, where: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        """In extended precision."""
        bound, motion = self._bound, self._motion
        given = {**bound.values, **_moving(motion)}
        return accurate(bound.request, given, where, motion.before is not None, any(motion.softness))


def _vectors(column: Matrix, shape: tuple[int, ...]) -> Array:
    return np.array(np.broadcast_to(numbers(column)[..., 0], shape))


def accurate(
    asked: Request, given: Mapping[str, Any], where: NDArray[np.bool_], impact: bool, is_soft: bool
) -> tuple[Array, Array, Array]:
    """Accelerations, forces and their relative errors at some states, in extended precision where there is one."""
    method = asked.method
    if method not in UNCONSTRAINED:
        method = "kkt" if is_soft else "pv-early" if is_long(asked) else ACCURATE
    wide = replace(asked, method=method, error_dtype="longdouble")
    qdd, forces, error = interpreted(asked, solution_program(wide, impact), given, where, np.longdouble)
    return qdd.astype(float), forces.astype(float), error[:, 0].astype(float) + EPSILON


def interpreted(
    asked: Request, program: Graph, given: Mapping[str, Any], where: NDArray[np.bool_], dtype: Any
) -> list[Any]:
    """Run a program at some states, a few at a time: all that it computes stays in memory."""
    columns, n = [], int(np.count_nonzero(where))
    for a in asked.arguments:
        x = 0.0 if given.get(a.name) is None else np.asarray(given[a.name])
        columns.append(np.broadcast_to(x, (*where.shape, *(a.shape or (1,))))[where].reshape(n, a.size))
    inputs = np.concatenate([np.zeros((n, 0)), *columns], axis=1).astype(dtype)
    parts = [interpret(program, inputs[k : k + AT_ONCE]) for k in range(0, max(len(inputs), 1), AT_ONCE)]
    return [np.concatenate(part) for part in zip(*parts, strict=True)]


def _moving(motion: DynamicsProblem) -> dict[str, Any]:
    """State of a system, of which a quantity may solve several."""
    return {"q": motion.problem.q, "v": motion.velocity if motion.before is None else motion.before}


@lru_cache(maxsize=256)
def structure_of(asked: Request) -> tuple[tuple[Answer, ...], ...]:
    """Questions of a request about structure, in order, with the answers of its trace; no solver asks any.

    Estimates of errors ask again what their solution has asked: its trace is to have none.
    """
    ops = TraceOps()
    if asked.options.solver == FALLBACK:
        asked = replace(asked, options=replace(asked.options, solver="nsgs"))
    symbolic_request(asked, ops).results()
    return tuple(map(tuple, ops.answers))


@lru_cache(maxsize=256)
def may_be_singular(tree: Tree) -> bool:
    """Whether the mass matrix is nearly singular, at neutral or at one of a few random configurations."""
    q = np.concatenate([tree.neutral()[None], generic_configurations(tree, 0, (8,))])
    still, asked = np.zeros((len(q), tree.nv)), request(tree, (), FREE_MOTION)
    if (program := rcond_program(asked)) is None:
        return False
    given = {"q": q, "v": still, "tau": still}
    (rcond,) = interpreted(asked, program, given, np.ones(len(q), dtype=bool), float)
    return not bool(np.all(rcond * CERTAIN >= 1.0))


@lru_cache(maxsize=256)
def rcond_program(asked: Request) -> Graph | None:
    """Program of the reciprocal condition of a request; None if it divides by nothing."""
    ops = TraceOps()
    bound = symbolic_request(asked, ops)
    outputs = [ops.nodes(a) for a in asked.quantity.run(bound)]
    found = rcond_by_pivots(asked, ops, outputs)
    return None if found is None else ops.graph([ops.nodes(ops.matrix([[found.rcond]]))])


@lru_cache(maxsize=64)
def solution_program(asked: Request, impact: bool) -> Graph:
    """Program of the solution of forward dynamics, or of an ``impact``, by the request's method, and of its error."""
    ops = TraceOps()
    bound = symbolic_request(asked, ops)
    motion = bound.impact() if impact else bound.motion()
    found = METHODS[asked.method](motion)
    error = ops.matrix([[bound.error_of(motion, found)]])
    return ops.graph([ops.nodes(a) for a in (found.qdd, found.forces, error)])


def numpy_fallback(
    asked: Request,
    values: Mapping[str, NDArray[Any]],
    batch: tuple[int, ...],
    error_bound: float = ERROR_BOUND["float64"],
) -> NumpyRequest:
    """Request of states that a kernel has not solved, by the dense saddle point."""
    if asked.quantity.methods and asked.method not in ITERATIVE | UNCONSTRAINED:
        asked = replace(asked, method="kkt")
    bound = NumpyRequest(asked, {name: x.astype(float) for name, x in values.items()}, batch)
    bound.error_bound = error_bound
    return bound
