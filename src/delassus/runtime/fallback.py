"""States that a kernel does not solve: solved again, as direct calls are, in float64 and by the evaluator.

Dynamics and time steps, whose states have a status, are direct calls (`SolvedCall`). Contact steps are made with more
sweeps, and then with impulses of each state by the solvers of scenes; their derivatives with more sweeps alone. What
has no status is evaluated in float64, errors estimated by what solutions miss where that is possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.policy import check_error_bound
from delassus.accuracy.status import DynamicsStatus, are_finite
from delassus.algorithms.contact.solvers import EXACT
from delassus.quantities.evaluate import exact_step, inputs_at, of_numbers
from delassus.quantities.quantity import GIVEN
from delassus.quantities.request import Request
from delassus.runtime.any_kernel import CpuKernel
from delassus.runtime.arrays import Arrays, Batch, result_arrays
from delassus.runtime.calls import SolvedCall, call_of
from delassus.spatial.rotations import Array

PATIENCE = 1_000
"""Sweeps of contact steps that few do not solve."""


class UnsolvedStates(NamedTuple):
    """States (*batch) that the machine code has not solved, ``again``; the ``call`` that has, if one has.

    ``status`` is that of the numbers that are returned, ``error`` the estimate of each state.
    """

    again: NDArray[np.bool_]
    status: NDArray[np.object_]
    error: NDArray[Any]
    call: SolvedCall | None = None

    @property
    def counts(self) -> Counter[Any]:
        """Numbers of states that the machine code has not solved, by status."""
        return Counter[Any](self.status[self.again])


def solve_states(
    kernel: CpuKernel,
    arrays: Arrays,
    results: Arrays,
    batch: Batch,
    threads: int | None,
    with_status: bool = False,
    with_error: bool = False,
) -> UnsolvedStates:
    """Run the machine code, whose results are in the type of the kernel; solve what it has not solved in other ways."""
    rcond, asked, call = kernel.compute(arrays, results, batch, threads), kernel.request, None
    status, error = np.full(batch, DynamicsStatus.SOLVED, dtype=object), np.zeros(batch)
    if with_error and rcond:
        error = _error(kernel, rcond, arrays, batch, threads)
    flagged = kernel.ill_conditioned(rcond, batch)
    chosen = flagged | (with_status and not asked.knows_rank)
    if chosen.any():
        where = np.nonzero(chosen) if batch else chosen
        left, some = np.atleast_1d(flagged[where]), [x[where].astype(float) for x in arrays]
        values, n = dict(zip((a.name for a in kernel.arguments), some, strict=True)), len(left)
        bound = check_error_bound(kernel.error_bound)
        if asked.has_status:
            call = call_of(asked, values, (n,))
            call.error_bound = bound
            outputs, found = [*call.solved().values()], np.array(call.status)
            taken = left | ((found != DynamicsStatus.SOLVED) & (found != DynamicsStatus.INACCURATE))
            found[~taken] = DynamicsStatus.SOLVED
            errors = np.max([np.zeros(n), *(x.error for x in call.resolved)], axis=0)  # sensors may measure no forces
        else:
            outputs, errors = _evaluated_again(kernel, values, [x[where] for x in results], bound)
            taken, found = are_finite(outputs, (n,)), np.full(n, DynamicsStatus.SOLVED, dtype=object)
            found[~(errors <= bound)] = DynamicsStatus.UNFINISHED if kernel.iterates else DynamicsStatus.INACCURATE
        status[where] = found
        error[where] = np.where(taken & ~np.isnan(errors), errors, error[where])
        with np.errstate(over="ignore"):  # numbers beyond float32
            for result, x in zip(results, outputs, strict=True):
                result[where] = _where(taken, x, result[where])
        error = np.maximum(error, np.finfo(kernel.dtype).eps)
    if chosen.any() or (with_status and not rcond):
        status[~are_finite(results, batch) & (status != DynamicsStatus.UNFINISHED)] = DynamicsStatus.FAILED
    return UnsolvedStates(chosen, status, error, call)


def _evaluated_again(
    kernel: CpuKernel, values: dict[str, Array], results: list[NDArray[Any]], bound: float
) -> tuple[list[NDArray[Any]], Array]:
    """Outputs of some states of what has no status in the place of ``results``, and their errors, NaN if as before."""
    asked, n = kernel.request, len(results[0])
    if asked.quantity.judges_rows and not asked.derivative:
        outputs = [*call_of(asked, values, (n,)).run().values()]
        return outputs, np.where(are_finite(outputs, (n,)), 0.0, np.inf)
    if kernel.iterates:
        asked = replace(asked, options=replace(asked.options, sweeps=max(asked.options.sweeps, PATIENCE)))
    elif kernel.dtype == np.float64 and (asked.error_dtype or not asked.solves):
        return results, np.full(n, np.nan)
    elif asked.solves:
        asked = replace(asked, error_dtype="float64")
    found, errors = call_of(asked, values, (n,)).computed()
    outputs, left = found if isinstance(found, list) else [found], ~(errors <= bound)
    if left.any() and kernel.iterates and not asked.derivative and asked.options.solver != "pgs":
        # pyramids have no other solver, derivatives are made of programs alone
        exact, solved = exact_steps(asked, {name: x[left] for name, x in values.items()}, np.count_nonzero(left))
        solved &= are_finite(exact, solved.shape)
        for x, new in zip(outputs, exact, strict=True):
            x[left] = _where(solved, new, x[left])
        errors[left] = np.where(solved, 0.0, np.inf)
    return outputs, errors


def _where(chosen: NDArray[np.bool_], outputs: NDArray[Any], results: NDArray[Any]) -> NDArray[Any]:
    """Outputs of the states (n) that are chosen, results of the others."""
    return np.where(chosen.reshape(-1, *(1,) * (outputs.ndim - 1)), outputs, results)


def _error(kernel: CpuKernel, rcond: Arrays, arrays: Arrays, batch: Batch, threads: int | None) -> NDArray[Any]:
    """Estimates of relative errors, of solutions by what they miss."""
    estimator = kernel.error_estimator
    if estimator is not None and estimator is not kernel:
        rcond = estimator.compute(arrays, result_arrays(None, kernel.results, batch, kernel.dtype), batch, threads)
    with np.errstate(divide="ignore"):
        return np.asarray(np.finfo(kernel.dtype).eps / np.maximum(rcond[0].astype(float), 0.0))


def exact_steps(asked: Request, values: Mapping[str, Any], n: Any) -> tuple[list[Array], NDArray[np.bool_]]:
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
