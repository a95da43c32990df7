"""Evaluate a request on NumPy, batched, in float64: direct functions, and states that kernels do not solve."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.estimate import ERROR_BOUND, rcond_by_pivots
from delassus.accuracy.iterate import TOLERANCE, Iterated, iterate
from delassus.accuracy.policy import ACCURATE, for_numpy, is_long
from delassus.accuracy.rank import diagonal_of, independence, least_eigenvalue
from delassus.accuracy.status import DynamicsStatus, Resolved, resolve, worst
from delassus.algorithms.articulated import Articulated
from delassus.algorithms.contact.solvers import FALLBACK
from delassus.algorithms.crba import composite_inertias
from delassus.algorithms.dynamics import ITERATIVE, METHODS, UNCONSTRAINED, Method
from delassus.algorithms.dynamics.derivatives.accelerations import Direction
from delassus.algorithms.dynamics.proximal import ITERATIONS
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.inputs import CONFIGURATIONS, inputs_of
from delassus.algorithms.problem import Problem
from delassus.constraints import ROW_LAYOUT, Argument, Constraint, check_constraints
from delassus.errors import ConfigurationError, ConstraintError, DelassusError, shown, unknown_name, warn
from delassus.model.check import common_batch, finite_array, library_of, normalised, real_array
from delassus.model.tree import Tree
from delassus.quantities.bound_request import BoundRequest, symbolic_request
from delassus.quantities.options import ConstrainedMotion, Constraints, check_compliance, check_damping, one_each
from delassus.quantities.quantity import Output, Quantity
from delassus.quantities.request import AUTO, Request, check_tree, request
from delassus.spatial.numpy_ops import Answer, NumpyOps, numbers
from delassus.spatial.ops import Matrix, Scalar
from delassus.spatial.rotations import Array
from delassus.spatial.trace.graph import Graph
from delassus.spatial.trace.interpret import interpret
from delassus.spatial.trace.trace_ops import TraceOps

EPSILON = float(np.finfo(float).eps)

AT_ONCE = 256
"""States that a program is interpreted at."""

CERTAIN = 1e9
"""Robots and rows of smaller condition have no errors above the bound."""

LISTS = {"rows": ("Rows(link, m) constraint(s)", "K"), "placements": ("Frame(link, given=…)", "p")}
"""Keywords that hold one array for each argument: what asks for them, and what advice calls one."""

KEYWORDS = (
    *ConstrainedMotion.__annotations__, "compliance", "frames", "reference", "hold", "independent", "integrator",
    "restitution", "impacts",
)  # fmt: skip
"""What the direct functions take beside states."""


FREE_MOTION = Quantity(
    "free_motion",
    "Joint accelerations without constraints",
    ("q", "v", "tau"),
    (Output("qdd", ("nv",), "joint accelerations in rad/s^2 and m/s^2"),),
    lambda bound: [METHODS["aba"](bound.motion()).qdd],
)
"""What the errors that come from the mass matrix are measured with."""


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


class NumpyRequest(BoundRequest):
    """A request and a batch of states on NumPy; ``resolved`` holds the solution of each system, dependent rows too."""

    def __init__(self, request: Request, values: Mapping[str, Array], batch: tuple[int, ...]) -> None:
        self._numpy_ops = ops = NumpyOps(structure=lambda: structure_of(asked))
        asked = request
        if request.quantity.has_status:
            request = replace(request, error_dtype="float64")
        scalars = {a.name for a in request.arguments if not a.shape}
        values = {name: x[..., None] if name in scalars else x for name, x in values.items()}
        super().__init__(request, ops, values)
        self._asked_before = 0
        self.batch = batch
        self.resolved: list[Resolved] = []
        self._growth: Array = np.ones(batch)
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

    def error_of(self, motion: DynamicsProblem, solution: Solution, method: Method | None = None) -> Scalar:
        """The same; at rest, a system has the structure that it had in motion."""
        by = method or self.method

        def again(of: DynamicsProblem) -> Solution:
            self._numpy_ops.asked = self._asked_before
            return by(of)

        asked = self._numpy_ops.asked
        error = super().error_of(motion, solution, again)
        self._numpy_ops.asked = asked
        return error

    def solve(self, motion: DynamicsProblem) -> Solution:
        """Forward dynamics by the request's method, iterated until each state has converged, resolved."""
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
        resolved = resolve(motion, solution, self, iterated)
        self.resolved.append(resolved)
        return replace(solution, qdd=numbers(resolved.qdd[..., None]), forces=numbers(resolved.forces[..., None]))

    def warn_of_errors(self) -> None:
        """Say how many states have a larger error estimate than the bound, if the robot or its rows let expect any."""
        if not (np.any(self._growth > CERTAIN) or self.request.payloads or may_be_singular(self.tree)):
            return
        every = np.ones(self.batch, dtype=bool)
        error = self._growth * self._free_motion_error({}, every).reshape(self.batch)
        above = np.count_nonzero(~(error <= self.error_bound))
        if above:
            of = f"{self.request.quantity.name} of {self.tree.name!r}"
            warn(
                f"{of}: {above} of {error.size} state(s) have an estimated relative error above {self.error_bound:g}, "
                f"the largest one {np.max(error):.1g}: the mass matrix or the rows are nearly singular there. Check "
                "small inertias, give joints armature, or drop rows."
            )

    def _free_motion_error(self, given: Mapping[str, Any], where: NDArray[np.bool_]) -> Array:
        return self._estimated(request(self.tree, (), FREE_MOTION, payloads=self.request.payloads), given, where)

    def _estimated(self, asked: Request, given: Mapping[str, Any], where: NDArray[np.bool_]) -> Array:
        rcond = rcond_program(asked)
        if rcond is None:
            return np.zeros(np.count_nonzero(where))
        (found,) = self._interpreted(asked, rcond, given, where, np.float64)
        with np.errstate(divide="ignore"):
            return np.asarray(EPSILON / np.maximum(found[:, 0], 0.0))

    def accurate(self, motion: DynamicsProblem, where: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        """Accelerations, forces and their relative errors at some states, in extended precision where there is one."""
        method = self.request.method
        if method not in UNCONSTRAINED:
            method = "kkt" if any(motion.softness) else "pv-early" if is_long(self.request) else ACCURATE
        asked = replace(self.request, method=method, error_dtype="longdouble")
        program = solution_program(asked, motion.before is not None)
        qdd, forces, error = self._interpreted(self.request, program, _moving(motion), where, np.longdouble)
        return qdd.astype(float), forces.astype(float), error[:, 0].astype(float) + EPSILON

    def _interpreted(
        self, asked: Request, program: Graph, given: Mapping[str, Any], where: NDArray[np.bool_], dtype: Any
    ) -> list[Any]:
        """Run a program at some states, a few at a time: all that it computes stays in memory."""
        given = {**self.values, **given}
        columns = []
        for a in asked.arguments:
            x = 0.0 if given.get(a.name) is None else np.asarray(given[a.name])
            columns.append(
                np.broadcast_to(x, (*self.batch, *(a.shape or (1,))))[where].reshape(np.count_nonzero(where), a.size)
            )
        inputs = np.concatenate([np.zeros((np.count_nonzero(where), 0)), *columns], axis=1).astype(dtype)
        parts = [interpret(program, inputs[k : k + AT_ONCE]) for k in range(0, max(len(inputs), 1), AT_ONCE)]
        return [np.concatenate(part) for part in zip(*parts, strict=True)]

    def require_independent(self, problem: Problem, G: Matrix) -> None:
        """Raise `SingularError` if ``G`` has no inverse at some state."""
        if not (size := problem.n_rows):
            return
        rank, _ = independence(problem, G, self.batch)
        deficient = np.argwhere(rank < size)
        if len(deficient):
            where = tuple(int(i) for i in deficient[0])
            found = f"{int(rank[where])} at state {list(where)}" if where else f"{int(rank)}"
            advice = "Drop redundant rows, or use delassus_operator, which solves in the least-squares sense."
            raise SingularError("constraints", f"{size} independent rows", found, advice)
        self._growth = np.broadcast_to(1.0 / least_eigenvalue(numbers(G)), self.batch)

    def run(self) -> dict[str, Array]:
        """Outputs by name, each (*batch, *shape); NaN where rows must be independent for them and are not."""
        with np.errstate(all="ignore"):  # states whose rows are dependent, or whose numbers overflow, have a status
            found = self.request.quantity.run(self)
            if self.request.quantity.methods and not self.request.quantity.has_status:
                self.warn_of_errors()
            out = {}
            for output, a in zip(self.request.quantity.outputs, found, strict=True):
                a = numbers(a)
                whole = np.broadcast_to(a, (*self.batch, *a.shape[-2:]))
                if output.symmetric:
                    whole = 0.5 * (whole + np.swapaxes(whole, -1, -2))
                out[output.name] = np.array(whole.reshape((*self.batch, *self.request.shape_of(output))))
                if output.unique:
                    exists = (self.status == DynamicsStatus.SOLVED) | (self.status == DynamicsStatus.INACCURATE)
                    out[output.name][~exists] = np.nan
        return out


def _moving(motion: DynamicsProblem) -> dict[str, Any]:
    """State of a system, of which a quantity may solve several."""
    return {"q": motion.problem.q, "v": motion.velocity if motion.before is None else motion.before}


@lru_cache(maxsize=256)
def structure_of(asked: Request) -> tuple[Answer, ...]:
    """Questions of a request about structure, in order, with the answers of its trace; no solver asks any."""
    ops = TraceOps()
    if asked.options.solver == FALLBACK:
        asked = replace(asked, options=replace(asked.options, solver="nsgs"))
    asked.quantity.run(symbolic_request(asked, ops))
    return tuple(ops.answers)


@lru_cache(maxsize=256)
def may_be_singular(tree: Tree) -> bool:
    """Whether some joint meets a small part of what it carries, at neutral or at one of a few random configurations."""
    q = np.concatenate([tree.neutral()[None], tree.random(0, batch=8)])
    still = np.zeros((len(q), tree.nv))
    bound = NumpyRequest(request(tree, (), FREE_MOTION), {"q": q, "v": still, "tau": still}, (len(q),))
    problem = bound.problem()
    body, composite = Articulated(problem), composite_inertias(problem)
    for i, joint in enumerate(tree.joints):
        axes = joint.motion_axes
        carried = diagonal_of(numbers(composite[i].columns(axes))[..., axes, :]) + joint.armature
        met = diagonal_of(numbers(body.joint_inverse_inertia(i)))[..., axes]
        if not np.all(np.abs(met * carried) < CERTAIN):
            return True
    return False


@lru_cache(maxsize=256)
def rcond_program(asked: Request) -> Graph | None:
    """Program of the reciprocal condition of a request; None if it divides by nothing."""
    ops = TraceOps()
    bound = symbolic_request(asked, ops)
    outputs = [ops.nodes(a) for a in asked.quantity.run(bound)]
    found = rcond_by_pivots(asked, ops, outputs, bound.is_within is not None)
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


KERNELS: list[Callable[[Request, str, str], Callable[..., Any]]] = []
"""What compiles requests, in numbers of that type and for that reason; the package says it when it is imported."""


class CompiledRequest:
    """A request whose arguments are arrays of JAX or PyTorch: its kernel makes the results, as arrays of the same."""

    def __init__(self, asked: Request, values: Mapping[str, Any]) -> None:
        self.request, self._values = asked, values

    def run(self) -> dict[str, Any]:
        """Outputs by name, as `NumpyRequest.run`."""
        dtypes = {str(x.dtype).rpartition(".")[2] for x in self._values.values() if library_of(type(x))}
        (make,) = KERNELS
        dtype = "float32" if dtypes == {"float32"} else "float64"
        kernel = make(self.request, dtype, ", for arrays of another library")
        for a in self.request.arguments:
            if a.name not in self._values:
                raise ConfigurationError(a.owner or a.name, f"an array of shape (..., {a.size})", "none", "Pass it.")
        found = kernel(*(self._values[a.name] for a in self.request.arguments))
        outputs = self.request.outputs
        return dict(zip((o.name for o in outputs), found if len(outputs) > 1 else (found,), strict=True))

    def solution(self) -> Any:
        """All outputs in a tuple, in the place of a solution of dynamics, whose statuses are not arrays of numbers."""
        return tuple(self.run().values())

    def refusal(self) -> ConfigurationError:
        """Error of what needs more than a kernel returns."""
        came = " and ".join(sorted({library_of(type(x)) for x in self._values.values()} - {""}))
        return ConfigurationError("arrays", "NumPy arrays here", f"arrays of {came}", "Convert them.")

    def __getattr__(self, name: str) -> Any:
        raise self.refusal()


def bind(
    tree: Tree,
    constraints: Constraints,
    quantity: Quantity,
    states: Mapping[str, Any],
    method: str | None = AUTO,
    /,
    **given: Any,
) -> NumpyRequest:
    """BoundRequest of a direct call: all of its input checked; ``given`` are its keywords.

    What stands for joint forces is ``"tau"`` in ``states``, whatever its name.
    """
    check_tree(tree)
    for name in ("constraints", "method"):
        if name in given:
            raise ConfigurationError(name, f"none with {quantity.name!r}", shown(given[name]), "Leave it out.")
    checked = check_constraints(tree, constraints)
    keywords, values = as_arguments(checked, given)
    asked = request(tree, checked, quantity, method=method, **keywords)
    states = {asked.control if name == "tau" else name: x for name, x in states.items()}
    kinds: list[Any] = [type(x) for x in (*states.values(), *values.values())]
    if any(map(library_of, kinds)):
        compiled: Any = CompiledRequest(asked, {**states, **values})
        return compiled  # type: ignore[no-any-return]
    return NumpyRequest(for_numpy(asked), *checked_values(tree, asked.arguments, {**states, **values}))


def numpy_fallback(
    asked: Request,
    values: Mapping[str, NDArray[Any]],
    batch: tuple[int, ...],
    error_bound: float = ERROR_BOUND["float64"],
) -> NumpyRequest:
    """BoundRequest of states that a kernel has not solved, by the dense saddle point."""
    if asked.quantity.methods and asked.method not in ITERATIVE | UNCONSTRAINED:
        asked = replace(asked, method="kkt")
    bound = NumpyRequest(asked, {name: x.astype(float) for name, x in values.items()}, batch)
    bound.error_bound = error_bound
    return bound


# -- what users hand over in a direct call: its arrays as arguments of the request, checked ---------------------------


def as_arguments(constraints: Sequence[Constraint], given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keywords of `request` for those of a direct call, and the values of arguments by name."""
    n, keywords, values = len(constraints), {**given}, dict[str, Any]()
    for name in keywords:
        if name not in KEYWORDS:
            raise unknown_name("keyword", name, KEYWORDS)
    loads = _mapping("payloads", keywords.pop("payloads", None), "{'gripper': x, …}")
    inputs = inputs_of(constraints, list(loads))
    values.update(zip((i.name for i in inputs if i.keyword == "payloads"), loads.values(), strict=True))
    for keyword in LISTS:
        names = [i.name for i in inputs if i.keyword == keyword]
        values.update(zip(names, _listed(keyword, keywords.pop(keyword, None), len(names)), strict=True))
    if "wrenches" in keywords:
        wrenches = _mapping("wrenches", keywords["wrenches"], "{'hand': [f, m]}")
        keywords["wrenches"] = list(wrenches)
        values.update((f"wrench{k}", wrench) for k, wrench in enumerate(wrenches.values()))
    for keyword in ("gravity", "damping"):
        x = keywords.get(keyword)
        if keyword == "gravity" and x is None:
            keywords.pop("gravity", None)  # that of the robot
        elif x is not None and not isinstance(x, str):
            keywords[keyword], values[keyword] = "input", x
    gains = [name for name in ("kp", "kd") if name in keywords]
    if gains and keywords.get("control") != "pd":
        raise ConfigurationError(gains[0], "none without control='pd'", "some", "Leave it out, or pass control='pd'.")
    values.update((name, keywords.pop(name)) for name in gains)
    for keyword in ("v_target", "active", "impacts"):
        if (x := keywords.pop(keyword, None)) is not None:
            values[keyword], keywords[keyword] = x, True
    each = real_array(keywords.get("restitution", 0.0))
    if each is not None and each.ndim:
        values["restitution"], keywords["restitution"] = keywords["restitution"], "input"
    if "targets" in keywords:
        targets = one_each("targets", keywords["targets"], n, alike=False)
        keywords["targets"] = [x is not None for x in targets]
        values.update((f"target{k}", x) for k, x in enumerate(targets) if x is not None)
    if "poses" in keywords:
        poses = one_each("poses", keywords["poses"], n, alike=False)
        poses = [x if x is None else _pose(c, x) for c, x in zip(constraints, poses, strict=True)]
        stable = one_each("baumgarte", keywords.get("baumgarte"), n)
        keywords["poses"] = [x is not None and b is not None for x, b in zip(poses, stable, strict=True)]
        values.update((f"pose{k}", x) for k, x in enumerate(poses) if keywords["poses"][k])
    if "compliance" in keywords:
        soft = one_each("compliance", keywords["compliance"], n)
        keywords["compliance"] = [None if x is None else "input" for x in soft]
        values.update((f"compliance{k}", x) for k, x in enumerate(soft) if x is not None)
    return {**keywords, "payloads": list(loads)}, values


def checked_values(
    tree: Tree, arguments: Sequence[Argument], values: Mapping[str, Any]
) -> tuple[dict[str, Array], tuple[int, ...]]:
    """Return the values of all arguments as float64, each (..., *shape), and the batch that they broadcast to."""
    out: dict[str, Array] = {}
    batch: tuple[int, ...] = ()
    for a in arguments:
        if a.name not in values:
            raise ConfigurationError(a.owner or a.name, f"an array of shape (..., {a.size})", "none", "Pass it.")
        out[a.name] = array = _checked(tree, a, values[a.name])
        others = ", ".join(name for name in out if name != a.name and out[name].ndim > 1) or "the others"
        batch = common_batch(a.owner or a.name, array.shape[: array.ndim - len(a.shape)], others, batch)
    return out, batch


def _checked(tree: Tree, a: Argument, value: Any) -> Array:
    owner, kind = a.owner or a.name, a.keyword or a.name
    if kind in CONFIGURATIONS:
        return tree.check_configuration(value, a.name)
    if kind in ("v", "tau", "qdd", "v_target"):
        return tree.check_velocity(value, a.name)
    if kind == "damping":
        return np.asarray(check_damping(tree, value))
    if kind == "compliance":
        return np.asarray(check_compliance(value, a.size, owner))
    if kind == "rows":
        return finite_array(value, (..., a.shape[0], 6), owner, ROW_LAYOUT, ConstraintError)
    if a.flags and (flags := real_array(value, flags=True)) is not None:
        value = flags
    if not a.shape and (numbers := real_array(value)) is not None:
        value = numbers[..., None]
    error = ConstraintError if kind == "targets" else ConfigurationError
    array = finite_array(value, (..., a.size), owner, f"Pass {a.meaning}.", error)
    if kind in ("placements", "poses") and a.shape == (7,):
        return normalised(array, slice(3, 7), f"quaternion of the {owner}")
    return array if a.shape else array[..., 0]


def _mapping(argument: str, value: Any, example: str) -> Mapping[Any, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise ConfigurationError(argument, "a mapping of arrays", shown(value), f"Pass {argument}={example}.")
    return value or {}


def _listed(keyword: str, arrays: Any, wanted: int) -> Sequence[Any]:
    """One array for each argument of a keyword, or `ConstraintError`."""
    owners, letter = LISTS[keyword]
    if arrays is not None and not isinstance(arrays, list | tuple):
        raise ConstraintError(keyword, "a list of arrays", type(arrays).__name__, f"Pass {keyword}=[{letter}, …].")
    given = arrays or ()
    if len(given) != wanted:
        advice = f"Pass {keyword}=[{letter}, …], in the order of the constraints."
        raise ConstraintError(keyword, f"one array for each of {wanted} {owners}", f"{len(given)}", advice)
    return given


def _pose(c: Constraint, pose: Any) -> Any:
    """Wanted pose in the world of a constraint's first frame (..., 7), or position of a point (..., 3).

    Kernels check arrays of other libraries.
    """
    name = f"pose of {c!r}"
    if not c.pose_size:
        wanted = "None for Rows, JointRows and constraints between two links"
        raise ConstraintError(name, wanted, shown(pose), "These have no place in the world.")
    if library_of(type(pose)):
        return pose[..., : c.pose_size]
    given = real_array(pose)
    if c.pose_size == 3 and given is not None and given.shape[-1:] == (3,):
        return finite_array(given, (..., 3), name, "Pass the position in m.", ConstraintError)
    array = finite_array(
        pose, (..., 7), name, "Pass the position in m and the unit quaternion x y z w.", ConstraintError
    )
    array = normalised(array, slice(3, 7), f"quaternion of the {name}")
    return array[..., : c.pose_size]
