"""Evaluate a request on NumPy, batched, in float64: what the direct functions and the states that kernels doubt run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.algorithms.dynamics import ITERATIVE, METHODS, SOFT, UNCONSTRAINED
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import Problem
from delassus.constraints import Constraint, check_constraints
from delassus.errors import DelassusError, ModelError
from delassus.model.rotations import Array
from delassus.model.tree import Tree
from delassus.quantities.arguments import as_arguments, checked_values
from delassus.quantities.case import Case, symbolic_case
from delassus.quantities.iterate import MAX_ITERATIONS, TOLERANCE, iterate
from delassus.quantities.quantity import Quantity
from delassus.quantities.redundancy import DynamicsStatus, Resolved, independence, resolve, worst
from delassus.quantities.request import AUTO, Request, request
from delassus.spatial.numpy_ops import Answer, NumpyOps, numbers
from delassus.spatial.ops import Matrix
from delassus.spatial.trace_ops import TraceOps


class SingularError(DelassusError, ArithmeticError):
    """The constraint rows are redundant at some state, so that ``G`` has no inverse."""


class NumpyCase(Case):
    """A request and a batch of states on NumPy; ``resolved`` holds the solution of each system, dependent rows too."""

    def __init__(self, request: Request, values: Mapping[str, Array], batch: tuple[int, ...]) -> None:
        scalars = {a.name for a in request.arguments if not a.shape}
        values = {name: x[..., None] if name in scalars else x for name, x in values.items()}
        super().__init__(request, NumpyOps(structure=lambda: structure_of(request)), values)
        self.batch = batch
        self.resolved: list[Resolved] = []
        self.tolerance, self.max_iterations = TOLERANCE, MAX_ITERATIONS

    @property
    def status(self) -> NDArray[np.object_]:
        """How each state (...) was solved; the worst of all systems."""
        return worst([s.status for s in self.resolved]) if self.resolved else np.full(self.batch, DynamicsStatus.SOLVED)

    def as_vector(self, values: Any) -> Any:
        """Array (..., n)."""
        if isinstance(values, np.ndarray):
            return values
        return np.stack(np.broadcast_arrays(*values), axis=-1) if len(values) else np.zeros(0)

    def solve(self, motion: DynamicsProblem) -> Solution:
        """Forward dynamics by the request's method, iterated until each state has converged, resolved."""
        if self.request.method not in ITERATIVE:
            return self.judged(motion, METHODS[self.request.method](motion))
        solution, iterated = iterate(motion, self.batch, self.tolerance, self.max_iterations)
        self.resolved.append(resolve(motion, solution, self.batch, iterated))
        return self._solution(solution)

    def judged(self, motion: DynamicsProblem, solution: Solution) -> Solution:
        """The solution, resolved where rows are dependent."""
        self.resolved.append(resolve(motion, solution, self.batch))
        return self._solution(solution)

    def _solution(self, solution: Solution) -> Solution:
        last = self.resolved[-1]
        return replace(solution, qdd=numbers(last.qdd[..., None]), forces=numbers(last.forces[..., None]))

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

    def run(self) -> dict[str, Array]:
        """Outputs by name, each (*batch, *shape); NaN where rows must be independent for them and are not."""
        with np.errstate(all="ignore"):  # states whose rows are dependent, or whose numbers overflow, have a status
            found = self.request.quantity.run(self)
            out = {}
            for output, a in zip(self.request.quantity.outputs, found, strict=True):
                a = numbers(a)
                whole = np.broadcast_to(a, (*self.batch, *a.shape[-2:]))
                if output.symmetric:
                    whole = 0.5 * (whole + np.swapaxes(whole, -1, -2))
                out[output.name] = np.array(whole.reshape((*self.batch, *self.request.shape_of(output))))
                if output.unique:
                    out[output.name][self.status != DynamicsStatus.SOLVED] = np.nan
        return out


@lru_cache(maxsize=256)
def structure_of(asked: Request) -> tuple[Answer, ...]:
    """What a request asks about structure, in order, and the answers: those of its trace."""
    ops = TraceOps()
    asked.quantity.run(symbolic_case(asked, ops))
    return tuple(ops.answers)


def case_of(
    tree: Tree,
    constraints: Iterable[Constraint] | Constraint,
    quantity: Quantity,
    states: Mapping[str, Any],
    method: str | None = AUTO,
    **given: Any,
) -> NumpyCase:
    """Case of a direct call: all of its input checked; ``given`` are its keywords."""
    if not isinstance(tree, Tree):
        raise ModelError("tree", "a delassus.Tree", type(tree).__name__, "Load one with delassus.load.")
    checked = check_constraints(tree, constraints)
    keywords, values = as_arguments(checked, given)
    asked = request(tree, checked, quantity, method=method, **keywords)
    return NumpyCase(asked, *checked_values(tree, asked.arguments, {**states, **values}))


def solve_doubtful(asked: Request, values: Mapping[str, NDArray[Any]], batch: tuple[int, ...]) -> NumpyCase:
    """Case of states that a kernel has not solved; hard constraints by the dense saddle point."""
    if asked.quantity.methods and asked.method not in SOFT | ITERATIVE | UNCONSTRAINED:
        asked = replace(asked, method="kkt")
    return NumpyCase(asked, {name: x.astype(float) for name, x in values.items()}, batch)
