"""Derivatives of rollouts: tangents forwards, cotangents backwards in time, each in one call of compiled code.

``tangents``    ẋₜ₊₁ = (∂f/∂x) ẋₜ + (∂f/∂u) u̇ₜ                from the start to the end
``cotangents``  x̄ₜ = (∂f/∂x)ᵀ x̄ₜ₊₁ + ℓₜ,  ūₜ = (∂f/∂u)ᵀ x̄ₜ₊₁   from the end to the start, ℓₜ being given

Both run the derivative of a step at each state of a trajectory that a rollout has made. Cotangents of what is the same
at all steps are summed. Contact steps start at the impulses that solve them, where their sweeps end at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.accuracy.status import DynamicsStatus
from delassus.constraints import Argument
from delassus.errors import ConfigurationError
from delassus.runtime.any_kernel import AnyKernel, CpuKernel
from delassus.runtime.arrays import Batch, Moving, aligned_empty, arranged, checked
from delassus.runtime.fallback import solve_states
from delassus.runtime.rollouts.on_arrays import one_by_one, roll
from delassus.runtime.rollouts.on_device import STATE

Arrays = list[NDArray[Any]]


Sweep = tuple[Arrays, Arrays, Sequence[NDArray[Any] | None], Arrays]
"""Arguments, results and totals of a sweep over time, as `Kernel.roll` takes them, and what of them is returned."""


def derivative_rollout(
    kernel: AnyKernel,
    given: Mapping[str, ArrayLike],
    over_time: Mapping[str, Moving],
    shown_as: Mapping[str, str],
    threads: int | None,
) -> tuple[Arrays, NDArray[np.bool_], Counter[Any]]:
    """Tangents or cotangents of a rollout, and which steps (T, *batch) are not solved.

    ``kernel`` is the derivative of a step; ``given`` are trajectories (T + 1, …) of the state, what is the same at all
    steps, and tangents or cotangents, zero if they are not there. Last, counts of states that were not solved at once,
    as `delassus.runtime.fallback.UnsolvedStates` has them.
    """
    forwards = kernel.request.derivative == ("jvp",)
    step, n_states = replace(kernel.request, derivative=()), kernel.request.quantity.states
    moving = _trajectories(kernel, given, step.arguments[:n_states], shown_as)
    steps = len(np.asarray(moving["q"].array))
    moving |= over_time
    n, further = len(step.arguments), dict[str, ArrayLike]()
    for k, a in enumerate(kernel.arguments[n:]):
        of = step.arguments[k].name if forwards else ""
        like = over_time.get(of) if forwards else Moving((), 0)
        if like is None:
            further[a.name] = given.get(a.name, np.zeros(a.shape, kernel.dtype))
        elif a.name in given:
            moving[a.name] = like._replace(array=given[a.name])
        else:
            moving[a.name] = Moving(np.zeros((steps // like.each, *a.shape), kernel.dtype), 0, like.each)
    fixed = {name: x for name, x in given.items() if name not in moving} | further
    arrays, batch, _ = arranged(kernel.arguments, fixed, moving, kernel.dtype, shown_as)
    moves = [a.name in moving for a in kernel.arguments]
    make, how = _forwards if forwards else _backwards, (kernel, arrays, moves, batch, steps)
    read, written, totals, returned = make(*how)
    flagged = roll(kernel, read, written, batch, steps, threads, totals)
    counts = Counter[Any]({DynamicsStatus.UNFINISHED: int(np.count_nonzero(flagged))})
    if flagged.any() and not kernel.iterates and isinstance(kernel, CpuKernel):
        counts = Counter[Any]()
        read, written, totals, returned = make(*how)  # by calls: what comes after these states depends on them
        for now, found in one_by_one(kernel, read, written, batch, steps, totals):
            counts.update(solve_states(kernel, now, found, batch, threads).counts)
    if not forwards:
        flagged = flagged[::-1]
        for k, a in enumerate(step.arguments):
            if (each := moving[a.name].each if a.name in over_time else 1) > 1:
                returned[k] = returned[k].reshape(-1, each, *returned[k].shape[1:]).sum(axis=1)
    return returned, flagged, counts


def _trajectories(
    kernel: AnyKernel, given: Mapping[str, ArrayLike], states: Sequence[Argument], shown_as: Mapping[str, str]
) -> dict[str, Moving]:
    """States before each step; of impulses, those after it, which the solver starts from."""
    found, n = dict[str, Moving](), 0
    for k, a in enumerate(states):
        if a.name in given:
            name = shown_as.get(a.name, a.name)
            x = checked(given[a.name], a, kernel.dtype, name)
            times = x.shape[: x.ndim - len(a.shape)][:1]
            n = times[0] if times and not k else n
            if times != (n,) or n < 1:
                wanted = f"a trajectory, shape ({n or 'T + 1'}, ..., {a.shape[0]})"
                advice = "Pass what the rollout of the step has returned."
                raise ConfigurationError(name, wanted, f"shape {x.shape}", advice)
            found[a.name] = Moving(x[:-1] if k < STATE else x[1:], 0)
    return found


def _forwards(kernel: AnyKernel, arrays: Arrays, moves: Sequence[bool], batch: Batch, steps: int) -> Sweep:
    """Tangents from the start to the end: trajectories of those of the state, and those of what is beside it."""
    n_states, n = kernel.request.quantity.states, len(arrays) // 2
    trajectories = [aligned_empty((steps + 1, *x.shape), kernel.dtype) for x in arrays[n : n + n_states]]
    for trajectory, start in zip(trajectories, arrays[n:], strict=False):
        trajectory[0] = start
    arguments = [*arrays[:n], *(x[:-1] for x in trajectories), *arrays[n + n_states :]]
    beside = [np.empty((steps, *batch, *r.shape), kernel.dtype) for r in kernel.results[n_states:]]
    return arguments, [*(x[1:] for x in trajectories), *beside], (), [*trajectories, *beside]


def _backwards(kernel: AnyKernel, arrays: Arrays, moves: Sequence[bool], batch: Batch, steps: int) -> Sweep:
    """Cotangents from the end to the start: of the state there, and of all else, at each step or summed."""
    n_states, n = kernel.request.quantity.states, len(kernel.results)
    paths = [np.zeros((steps + 1, *batch, *r.shape), kernel.dtype) for r in kernel.results[:n_states]]
    for path, given in zip(paths, arrays[n:], strict=False):
        path[1:] = given
    arrays = [*arrays[:n], *(path[1:] for path in paths), *arrays[n + n_states :]]
    arguments = [x[::-1] if moving else x for x, moving in zip(arrays, moves, strict=True)]
    results, totals, returned = Arrays(), list[NDArray[Any] | None](), Arrays()
    for k, (r, moving) in enumerate(zip(kernel.results, moves, strict=False)):
        if moving and k >= n_states:
            returned.append(np.empty((steps, *batch, *r.shape), kernel.dtype))
            results.append(returned[-1][::-1])
            totals.append(None)
            continue
        results.append(np.empty((*batch, *r.shape), kernel.dtype))
        returned.append(paths[k][0] if k < n_states else np.zeros((*batch, *r.shape), kernel.dtype))
        totals.append(paths[k][:-1][::-1] if k < n_states else returned[-1])
    return arguments, results, totals, returned
