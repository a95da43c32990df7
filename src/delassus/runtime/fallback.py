"""States that a kernel does not solve: solved again, as direct calls are, in float64 and by the evaluator.

Dynamics and time steps, whose states have a status, are direct calls (`DirectCall`). Contact steps are made with more
sweeps, and then with impulses of each state by the solvers of scenes; their derivatives with more sweeps alone. What
has no status is evaluated in float64, errors estimated by what solutions miss where that is possible.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.policy import check_error_bound
from delassus.accuracy.status import DynamicsStatus, are_finite
from delassus.algorithms.clusters.rnea import CLUSTER_RNEA
from delassus.algorithms.contact.problem import StepProblem
from delassus.quantities.evaluate import exact_step, inputs_at, of_numbers
from delassus.quantities.quantity import GIVEN
from delassus.quantities.request import Request
from delassus.runtime.any_kernel import CpuKernel
from delassus.runtime.arrays import Arrays, Batch, result_arrays
from delassus.runtime.calls import DirectCall, call_of, kept_for
from delassus.spatial.rotations import Array

PATIENCE = 1_000
"""Sweeps of contact steps that few do not solve."""

PASSES = 2000
"""Most iterations of `nsgs` for a state of a contact step."""

MANY = 64
"""States of a batch from which on those that are flagged are worth machine code of their own."""

STRICTER = 0.1
"""Part of the tolerance that its impulses are held to."""


class UnsolvedStates(NamedTuple):
    """States (*batch) that the machine code has not solved, ``again``; the ``call`` that has, if one has.

    ``status`` is that of the numbers that are returned, empty where nobody asks and all are solved, ``error`` the
    estimate of each state.
    """

    again: NDArray[np.bool_]
    status: NDArray[np.object_]
    error: NDArray[Any]
    call: DirectCall | None = None

    @property
    def counts(self) -> Counter[Any]:
        """Numbers of states that the machine code has not solved, by status."""
        return Counter[Any](self.status[self.again] if self.again.any() else ())


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
    error = _error(kernel, rcond, arrays, batch, threads) if with_error and rcond else np.zeros(batch)
    flagged = kernel.ill_conditioned(rcond, batch)
    if flagged.any():
        flagged = _judged(kernel, arrays, results, flagged, error)
    chosen = flagged | (with_status and not asked.knows_rank)
    is_any = bool(chosen.any())
    status = np.full(batch if is_any or with_status else 0, DynamicsStatus.SOLVED, dtype=object)
    if is_any:
        where = np.nonzero(chosen) if batch else chosen
        left, some = np.atleast_1d(flagged[where]), [x[where].astype(float) for x in arrays]
        values, n = dict(zip((a.name for a in kernel.arguments), some, strict=True)), len(left)
        bound = check_error_bound(kernel.error_bound)
        if asked.has_status:
            call = call_of(asked, values, (n,))
            call.error_bound, call.wants_rank = bound, with_status
            outputs, found = [*call.solved().values()], np.array(call.resolved.status)
            taken = left | ((found != DynamicsStatus.SOLVED) & (found != DynamicsStatus.INACCURATE))
            found[~taken] = DynamicsStatus.SOLVED
            errors = call.resolved.error
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
    looked = chosen if rcond else np.full(batch, with_status)  # reciprocal conditions are of finite results
    if looked.any():
        where = np.nonzero(looked) if batch else looked
        said = status[where]
        of_outputs = [(x[where], not o.needs_independent) for x, o in zip(results, asked.outputs, strict=True)]
        with_rank = are_finite([x for x, has_rank in of_outputs if has_rank], said.shape)
        finite = np.where(said == DynamicsStatus.SOLVED, are_finite([x for x, _ in of_outputs], said.shape), with_rank)
        said[~finite & (said != DynamicsStatus.UNFINISHED)] = DynamicsStatus.FAILED
        status[where] = said
    return UnsolvedStates(chosen, status, error, call)


def _judged(
    kernel: CpuKernel, arrays: Arrays, results: Arrays, flagged: NDArray[np.bool_], error: NDArray[Any]
) -> NDArray[np.bool_]:
    """Which flagged states (*batch) are left when machine code judges solutions by what they miss.

    That is the program which direct calls run first, to the bit. Results and errors of the others are those of it.
    """
    judge = kernel.judge
    if judge is None or flagged.size < max(MANY, judge.lanes) or kept_for(kernel.request).is_left:
        return flagged
    where = np.nonzero(flagged)
    n = len(where[0])
    some = tuple(np.resize(x, max(n, judge.lanes)) for x in where)  # batches, for which there is code
    found = result_arrays(None, judge.results, (len(some[0]),), judge.dtype)
    (rcond,) = judge.compute([np.ascontiguousarray(x[some], dtype=float) for x in arrays], found, (len(some[0]),), 1)
    good = rcond[:n] >= judge.least_rcond
    if kernel.dtype == judge.dtype and kernel.lanes == judge.lanes:
        kernel.code.take_judge(judge.code, 8 + sum(x.nbytes // len(x) for x in found))
    taken, left = tuple(x[good] for x in where), flagged.copy()
    with np.errstate(over="ignore"):  # numbers beyond float32
        for result, x in zip(results, found, strict=True):
            result[taken] = x[:n][good]
    error[taken] = np.finfo(float).eps / rcond[:n][good]
    left[taken] = False
    return left


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
    elif asked.options.motors is not None and asked.method_of_motors == CLUSTER_RNEA:  # near singular configurations
        asked = replace(asked, method="orthogonal")
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
        impulses = np.stack(_exact_impulses(problem, unsolved.tolerance), axis=1)
        given[GIVEN[len(sizes)]], sizes = impulses, (*sizes, impulses.shape[1])


def _exact_impulses(problem: StepProblem, tolerance: float) -> list[Any]:
    """Impulses (one array a row) of the states of a batch, by `nsgs`, which ends where sweeps do not.

    The problem becomes that of `ConeProblem`: each side of a limit is a contact without friction, dry friction one
    without a normal (`delassus.contact.joint_contacts`), and a least normal impulse an offset of friction. Rows of
    spins of patches are further groups of three.
    """
    from delassus.solvers.registry import ImpulseSolver

    bounds: list[Any] = [x for y in problem.joints for x in (*y.bounds, y.friction) if x is not None]
    given = [x for y in problem.points for x in (y.friction, y.floor) if x is not None]
    entries = [x for row in problem.G for x in row]
    shape = np.broadcast_shapes(*(np.shape(x) for x in (*problem.b, *bounds, *given, *entries)))

    def states(x: Any) -> Array:
        return np.broadcast_to(np.asarray(x, float), shape).reshape(-1)

    floors = [0.0 if point.floor is None else point.floor for point in problem.points]
    raised = [(point.row + 2, floor) for point, floor in zip(problem.points, floors, strict=True)]
    free = [sum((row[k] * floor for k, floor in raised), x) for row, x in zip(problem.G, problem.b, strict=True)]
    rows, signs, right, mu, offsets = list[int](), list[Any](), list[Any](), list[Any](), list[Any]()
    patches = dict[int, int]()

    def add(own: Sequence[int], sides: Sequence[Any], bound: Any, friction: Any, offset: Any) -> None:
        rows.extend(own)
        signs.extend(sides)
        right.extend(side * (free[row] - bound) for row, side in zip(own, sides, strict=True))
        mu.append(friction)
        offsets.append(offset)

    for point, floor in zip(problem.points, floors, strict=True):
        add(range(point.row, point.row + 3), (1.0, 1.0, 1.0), 0.0, point.friction, point.friction * floor)
    for joint in problem.joints:
        for bound, side in zip(joint.bounds, (1.0, -1.0), strict=True):
            if bound is not None:
                add([joint.row] * 3, (0.0, 0.0, side), bound, 0.0, 0.0)
        if joint.friction is not None:
            add([joint.row] * 3, (1.0, 0.0, 0.0), 0.0, 0.0, joint.friction)
    for k, point in enumerate(problem.points):
        if point.spins:
            patches[k], own = len(mu), list(point.spins)
            missing = 3 - len(own)
            add([*own, *own[:1] * missing], [point.over] * len(own) + [0.0] * missing, 0.0, 0.0, 0.0)
    S = np.stack([states(x) for x in signs])
    G = np.stack([np.stack([states(problem.G[i][j]) for j in rows]) for i in rows]) * S[:, None] * S
    partner = np.full(len(mu), -1)
    for i, j in patches.items():
        partner[i] = j
    b, *of_each = (np.stack([states(x) for x in values]) for values in (right, mu, offsets))
    out, solver = np.zeros((len(problem.G), b.shape[1])), ImpulseSolver("nsgs", 4, STRICTER * tolerance, PASSES)
    for k in range(b.shape[1]):
        W = np.ascontiguousarray(0.5 * (G[:, :, k] + G[:, :, k].T))
        free_of, friction, offset = (np.ascontiguousarray(x[:, k]) for x in (b, *of_each))
        np.add.at(out[:, k], rows, S[:, k] * solver(W, free_of, friction, offset, partner=partner).p)
    for point, floor in zip(problem.points, floors, strict=True):
        out[point.row + 2] += states(floor)
    return [x.reshape(shape) for x in out]
