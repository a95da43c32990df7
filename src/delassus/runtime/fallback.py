"""States that a kernel does not solve: solved again in float64, by other methods, and as direct calls in the end.

States whose estimated error is above the bound go to "ltl" in float64, which eliminates no rows early, and to
"proximal", which solves dependent ones (those of "proximal" the other way round), with errors estimated by what
solutions miss (`delassus.accuracy.refinement`); these are compiled when first needed, and announced. What is left
then is solved as `delassus.forward_dynamics` does.

Contact steps are made again with more sweeps, and then with impulses of each state by the solvers of scenes; their
derivatives with more sweeps, and are flagged then.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.policy import check_error_bound
from delassus.accuracy.status import HARMLESS, DynamicsStatus, are_finite
from delassus.algorithms.contact.solvers import EXACT
from delassus.quantities.estimate import next_method
from delassus.quantities.evaluate import exact_step, inputs_at, of_numbers
from delassus.quantities.quantity import GIVEN
from delassus.quantities.request import Request
from delassus.runtime.any_kernel import AnyKernel
from delassus.runtime.arrays import Arrays, Batch, result_arrays
from delassus.runtime.calls import SolvedCall, call_of, solved_call
from delassus.spatial.rotations import Array


class SolvedKernel(AnyKernel):
    """A kernel whose states that it does not solve are solved again; those ``tried`` before it are methods."""

    tried: tuple[str, ...]

    @property
    @abstractmethod
    def fallback(self) -> Self | None:
        """Kernel for states that this one does not solve, or None."""

    @abstractmethod
    def compute(self, arrays: Arrays, results: Arrays, batch: Batch, threads: int | None) -> list[NDArray[Any]]:
        """Run it; returns the reciprocal conditions, if it makes any."""

    def ill_conditioned(self, rcond: Arrays, batch: Batch) -> NDArray[np.bool_]:
        """States whose reciprocal condition is too small; it is negative where results are not finite."""
        return ~(rcond[0] >= self.least_rcond) if rcond else np.zeros(batch, dtype=bool)


PATIENCE = 1_000
"""Sweeps of contact steps that few do not solve."""


def next_request(kernel: SolvedKernel) -> tuple[Request, str, str] | None:
    """Request, type and reason of what solves states that a kernel does not; None where nothing compiled does."""
    asked, is_wide = kernel.request, kernel.dtype == np.float64
    if kernel.iterates or not asked.solves:
        sweeps = max(asked.options.sweeps, PATIENCE) if kernel.iterates else asked.options.sweeps
        if is_wide and sweeps == asked.options.sweeps:
            return None
        how = f"{asked.options.sweeps} sweeps" if kernel.iterates else f"{kernel.dtype}"
        asked = replace(asked, options=replace(asked.options, sweeps=sweeps))
        return asked, "float64", f", for states that {how} do not solve"
    method = next_method(asked, kernel.tried)
    if method is None:
        return None
    how = f", for states that {kernel.method!r} in {kernel.dtype} does not solve"
    return replace(asked, method=method, error_dtype="float64"), "float64", how


DIRECTLY = "directly"
"""What `Run.counts` calls states that are solved as by direct calls."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """States (*batch) that the machine code has not solved, ``again``, and those solved ``directly``, by a ``call``.

    ``inaccurate`` are those that nothing has solved to the bound, with the status ``unsolved`` where the call says no
    other; ``error`` is the estimate of each state. ``results`` are what is returned, in the type of the kernel.
    """

    again: NDArray[np.bool_]
    directly: NDArray[np.bool_]
    inaccurate: NDArray[np.bool_]
    call: SolvedCall | None
    error: NDArray[Any]
    results: Arrays
    unsolved: DynamicsStatus

    @property
    def status(self) -> NDArray[np.object_]:
        """Status of each state: that of the numbers that are returned, which have failed where one is not finite."""
        out = np.full(self.again.shape, DynamicsStatus.SOLVED, dtype=object)
        if self.call is not None:
            out[self.directly] = self.call.status
            accepted = self.directly & ~self.inaccurate & (out == DynamicsStatus.INACCURATE)
            out[accepted] = DynamicsStatus.SOLVED
        out[self.inaccurate & ~self.directly] = self.unsolved
        out[~are_finite(self.results, out.shape) & (out != DynamicsStatus.UNFINISHED)] = DynamicsStatus.FAILED
        return out

    @property
    def counts(self) -> Counter[Any]:
        """Numbers of states that the machine code has not solved, by status, and of fine ones solved `DIRECTLY`."""
        found = list(zip(self.status[self.again], self.directly[self.again], strict=True))
        met = Counter[Any](status for status, _ in found)
        return met + Counter({DIRECTLY: sum(status in HARMLESS for status, directly in found if directly)})


def solve_states(
    kernel: SolvedKernel,
    arrays: Arrays,
    results: Arrays,
    batch: Batch,
    threads: int | None,
    with_status: bool = False,
    with_error: bool = False,
    method: str = "",
) -> Run:
    """Run the machine code; solve the states that it has not solved by its `fallback`, those left as direct calls.

    ``method`` is that of the first of these kernels, if not this.
    """
    method = method or kernel.request.method
    rcond = kernel.compute(arrays, results, batch, threads)
    none, error = np.zeros(batch, dtype=bool), np.zeros(batch)
    unsolved = DynamicsStatus.UNFINISHED if kernel.iterates else DynamicsStatus.INACCURATE
    if with_error and rcond:
        error = _error(kernel, rcond, arrays, batch, threads)
    if not rcond and not with_status:
        return Run(none, none, none, None, error, results, unsolved)
    ill_conditioned = kernel.ill_conditioned(rcond, batch)
    chosen = ill_conditioned | (with_status and not kernel.request.knows_rank)
    directly, inaccurate, call = none.copy(), np.array(ill_conditioned), None
    if not chosen.any():
        return Run(chosen, directly, inaccurate, None, error, results, unsolved)
    where = np.nonzero(chosen) if batch else chosen
    some, left = [x[where] for x in arrays], np.atleast_1d(ill_conditioned[where])
    n = len(some[0])
    if left.all() and (fallback := kernel.fallback) is not None:
        some = [x.astype(fallback.dtype) for x in some]
        found = [np.empty((n, *r.shape)) for r in kernel.results]
        again = solve_states(fallback, some, found, (n,), threads, with_status, with_error, method)
        directly[where], inaccurate[where], error[where] = again.directly, again.inaccurate, again.error
        call = again.call
    elif kernel.request.has_status:
        values = dict(zip((a.name for a in kernel.arguments), some, strict=True))
        call, outputs = _solved_otherwise(kernel, method, values, n)
        status = call.status
        taken = left | ((status != DynamicsStatus.SOLVED) & (status != DynamicsStatus.INACCURATE))
        found = _where(taken, outputs, results, where)
        directly[where], inaccurate[where] = True, left & (status == DynamicsStatus.INACCURATE)
        errors = [np.zeros(n), *(x.error for x in call.resolved)]  # none of sensors that measure no forces
        error[where] = np.where(taken, np.max(errors, axis=0), error[where])
    elif kernel.request.quantity.judges_rows and not kernel.request.derivative:
        values = dict(zip((a.name for a in kernel.arguments), some, strict=True))
        outputs = call_of(kernel.request, values, (n,)).run().values()
        found, directly[where] = _where(are_finite([*outputs], (n,)), outputs, results, where), True
        inaccurate[where] = ~are_finite(found, (n,))
    elif kernel.iterates and not kernel.request.derivative and kernel.request.options.solver != "pgs":
        # pyramids have no other solver, derivatives are made of machine code alone
        values = dict(zip((a.name for a in kernel.arguments), some, strict=True))
        outputs, solved = exact_steps(kernel.request, values, n)
        solved &= are_finite(outputs, (n,))
        found = _where(solved, outputs, results, where)
        inaccurate[where] = ~solved
    else:
        found = [x[where] for x in results]
    with np.errstate(over="ignore"):  # numbers beyond float32
        for result, x in zip(results, found, strict=True):
            result[where] = x
    error = np.maximum(error, np.finfo(kernel.dtype).eps)
    return Run(chosen, directly, inaccurate, call, error, results, unsolved)


def _solved_otherwise(kernel: SolvedKernel, method: str, values: dict[str, NDArray[Any]], n: int) -> tuple[Any, Any]:
    """Solutions of some states (n) as direct calls make them by a method, and outputs."""
    asked, bound = replace(kernel.request, method=method), check_error_bound(kernel.error_bound)
    call = solved_call(asked, {name: x.astype(float) for name, x in values.items()}, (n,), bound)
    return call, call.solved().values()


def _where(chosen: NDArray[np.bool_], outputs: Iterable[Any], results: Arrays, where: Any) -> list[NDArray[Any]]:
    """Outputs of the states (n,) that are chosen; of the others, their results at ``where``."""
    pairs = zip(outputs, results, strict=True)
    return [np.where(chosen.reshape(-1, *(1,) * (x.ndim - 1)), x, own[where]) for x, own in pairs]


def _error(kernel: SolvedKernel, rcond: Arrays, arrays: Arrays, batch: Batch, threads: int | None) -> NDArray[Any]:
    """Estimates of relative errors, of solutions by what they miss."""
    estimator = kernel.error_estimator
    if estimator is not None and estimator is not kernel:
        rcond = estimator.compute(arrays, result_arrays(None, kernel.results, batch, kernel.dtype), batch, threads)
    with np.errstate(divide="ignore"):
        return np.asarray(np.finfo(kernel.dtype).eps / np.maximum(rcond[0].astype(float), 0.0))


def exact_steps(asked: Request, values: Mapping[str, Any], n: int) -> tuple[list[Array], NDArray[np.bool_]]:
    """Outputs of contact steps at n states, and which of them are solved, impulses by the solvers of scenes."""
    given, sizes = {name: np.asarray(x, dtype=float) for name, x in values.items()}, tuple[int, ...]()
    while True:
        step, program, unsolved = exact_step(asked, sizes)
        found = program(inputs_at(step, given, np.ones(n, dtype=bool)))
        if unsolved is None:
            *results, solved = found
            shapes = map(asked.shape_of, asked.outputs)
            return [x.reshape(n, *shape) for x, shape in zip(results, shapes, strict=True)], solved[:, 0] > 0.0
        numbers = iter(found[0].T)
        problem = of_numbers(unsolved.problem, lambda _, left=numbers: next(left))  # type: ignore[misc]
        impulses = np.stack(EXACT[0](problem, unsolved.tolerance), axis=1)
        given[GIVEN[len(sizes)]], sizes = impulses, (*sizes, impulses.shape[1])
