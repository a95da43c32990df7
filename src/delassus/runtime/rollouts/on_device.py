"""Rollouts on a GPU: all time steps in one launch, for which nobody waits.

A step reads its state where the step before it has written it, one row of a trajectory on. What is read anew at each
step is one row on at the next, what is the same at all of them stays where it is. Cotangents take one launch a step,
because what a cost adds to those of states, and sums over steps, are added in between. A step that is not solved is
NaN, and so is all that comes after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from delassus.compiler.program.program import Result
from delassus.errors import ConfigurationError
from delassus.runtime.arrays import TIME_FIRST, Batch, Rollout

STATE = 2
"""Arrays of a state proper, configuration and velocity."""

Arrays = list[Any]


class DeviceSeries(NamedTuple):
    """Address of an array at the first of some steps, and how many numbers further on it is at the next."""

    address: int
    step: int


class OnDevice(NamedTuple):
    """What rollouts need of a library: contiguous arrays of a kernel's dtype on one GPU, in the order of one stream.

    ``empty`` makes an array of a shape, ``address`` is where one starts; ``launch`` runs a kernel for a number of
    states, from places of all arguments and results, through a number of steps; ``largest`` is over the first axis.
    """

    empty: Callable[[Batch], Any]
    address: Callable[[Any], int]
    launch: Callable[[int, Sequence[DeviceSeries], int], None]
    largest: Callable[[Any], Any]


def run_on_device(kernel: Any, on: OnDevice, arrays: Arrays, anew: Sequence[bool], batch: Batch, steps: int) -> Arrays:
    """What a rollout returns, of a time step or of its tangents or cotangents, as `delassus.rollout` says.

    All arguments are (*batch, …), or those that come ``anew`` at each step (steps, *batch, …). The states of
    derivatives are trajectories (steps + 1, *batch, …), cotangents are of the states after each step. Last ones that
    are not there are zero.
    """
    arrays, anew = list(arrays), list(anew)
    run = _DeviceRun(kernel, on, batch, steps)
    for a in kernel.arguments[len(arrays) :]:
        arrays.append(run.zeros(a.shape))
        anew.append(False)
    return {(): _states, ("jvp",): _tangents, ("vjp",): _cotangents}[kernel.request.derivative](run, arrays, anew)


def is_largest(result: Result) -> bool:
    """Whether rollouts return the largest of a trajectory, as of residuals, in place of one for each step."""
    return result.name == "residuals"


class _DeviceRun(NamedTuple):
    """A rollout: its kernel, arrays of a library, batch, and number of steps."""

    kernel: Any
    on: OnDevice
    batch: Batch
    steps: int

    @property
    def n_states(self) -> int:
        """Arrays of a state."""
        return int(self.kernel.request.quantity.states)

    def place(self, x: Any, moves: bool, first: int = 0) -> DeviceSeries:
        """Where an array is at step 0, which reads its row of number ``first`` if it ``moves``."""
        step = prod(x.shape[1:]) if moves else 0
        return DeviceSeries(self.on.address(x) + first * step * self.kernel.dtype.itemsize, step)

    def places(self, arrays: Sequence[Any], moves: Sequence[bool]) -> list[DeviceSeries]:
        """Where arguments are at step 0."""
        return [self.place(x, moving) for x, moving in zip(arrays, moves, strict=True)]

    def at_trajectories(self, trajectories: Sequence[Any]) -> list[DeviceSeries]:
        """Where derivatives read states: impulses after the step, which its solver starts from."""
        return [self.place(x, True, 0 if k < STATE else 1) for k, x in enumerate(trajectories)]

    def made(self, leading: int, results: Sequence[Any]) -> Arrays:
        """Arrays for results, of so many steps."""
        return [self.on.empty((leading, *self.batch, *r.shape)) for r in results]

    def zeros(self, shape: Batch) -> Any:
        """Array (*batch, …) of zeros."""
        made = self.on.empty((*self.batch, *shape))
        made[...] = 0.0
        return made

    def trajectories(self, starts: Sequence[Any]) -> Arrays:
        """Arrays (steps + 1, *batch, …), whose first rows are given."""
        made = []
        for start in starts:
            made.append(self.on.empty((self.steps + 1, *start.shape)))
            made[-1][0, ...] = start
        return made

    def launch(self, places: Sequence[DeviceSeries], steps: int) -> None:
        """Run the kernel; reciprocal conditions, which nobody reads, have room for one step."""
        n = prod(self.batch)
        if n and steps:
            rcond = [self.on.empty(self.batch)] if self.kernel.has_rcond else []
            self.on.launch(n, [*places, *(self.place(x, False) for x in rcond)], steps)


def _states(run: _DeviceRun, arrays: Arrays, anew: Sequence[bool]) -> Arrays:
    n = run.n_states
    paths, beside = run.trajectories(arrays[:n]), run.made(run.steps, run.kernel.results[n:])
    before = [run.place(x, True) for x in paths]
    after = [run.place(x, True, 1) for x in paths]
    others = run.places(arrays[n:], anew[n:])
    run.launch([*before, *others, *after, *run.places(beside, [True] * len(beside))], run.steps)
    for k, r in enumerate(run.kernel.results[n:]):
        if is_largest(r):
            beside[k] = run.on.largest(beside[k]) if run.steps else run.zeros(r.shape)
    return [*paths, *beside]


def _tangents(run: _DeviceRun, arrays: Arrays, anew: Sequence[bool]) -> Arrays:
    n, half = run.n_states, len(arrays) // 2
    paths, beside = run.trajectories(arrays[half : half + n]), run.made(run.steps, run.kernel.results[n:])
    given = [
        *run.at_trajectories(arrays[:n]),
        *run.places(arrays[n:half], anew[n:half]),
        *(run.place(x, True) for x in paths),
        *run.places(arrays[half + n :], anew[half + n :]),
    ]
    after = [run.place(x, True, 1) for x in paths]
    run.launch([*given, *after, *run.places(beside, [True] * len(beside))], run.steps)
    return [*paths, *beside]


def _cotangents(run: _DeviceRun, arrays: Arrays, anew: Sequence[bool]) -> Arrays:
    n, results, item = run.n_states, run.kernel.results, run.kernel.dtype.itemsize
    half = len(results)
    paths, others = run.made(run.steps + 1, results[:n]), list[Any]()
    for path, given in zip(paths, arrays[half:], strict=False):
        path[0, ...], path[1:, ...] = 0.0, given
    for r, moving in zip(results[n:], anew[n:half], strict=True):
        others += run.made(run.steps if moving else 1, [r])
        if not moving:
            others[-1][0, ...] = 0.0
    summed = [k for k in range(half) if k < n or not anew[k]]
    parts = {k: run.on.empty((*run.batch, *results[k].shape)) for k in summed}
    places = [
        *run.at_trajectories(arrays[:n]),
        *run.places(arrays[n:half], anew[n:half]),
        *(run.place(x, True, 1) for x in paths),
        *run.places(arrays[half + n :], anew[half + n :]),
        *(run.place(parts[k], False) if k in parts else run.place(others[k - n], True) for k in range(half)),
    ]
    for t in reversed(range(run.steps)):
        run.launch([DeviceSeries(at.address + t * at.step * item, 0) for at in places], 1)
        for k, part in parts.items():
            total = paths[k][t, ...] if k < n else others[k - n][0, ...]
            total += part
    return [*(x[0, ...] for x in paths), *(x if m else x[0, ...] for x, m in zip(others, anew[n:half], strict=True))]


def check_times(names: Sequence[str], arrays: Sequence[Any], steps: int) -> None:
    """Refuse arrays over another number of steps."""
    for name, x in zip(names, arrays, strict=True):
        if len(x) != steps:
            raise ConfigurationError(name, f"{steps} steps", f"{len(x)}", TIME_FIRST)


def under_policy(space: Any, asked: Rollout, rolled: Callable[[Rollout], Sequence[Any]]) -> tuple[Any, ...]:
    """Trajectories under what a policy says, with functions ``space`` of a library; ``rolled`` is a rollout of a part.

    The policy gets arrays of the library, and nothing waits for those on a device. Where time steps are such an array,
    so is time. A rollout may return more after the kernel's results, an entry for each step.
    """
    kernel, state, dt = asked.kernel, dict(asked.start), asked.fixed["dt"]
    assert asked.steps is not None  # as a policy has
    longest, parts = float(dt) if not hasattr(dt, "max") else 0.0 if 0 in dt.shape else dt.max(), list[Sequence[Any]]()
    for first in range(0, asked.steps, asked.decimation):
        given = asked.controls(longest * first, state["q"], state["v"])
        held = min(asked.decimation, asked.steps - first)
        part = asked._replace(start=state, controls=given[None], time_axis=0, decimation=held, steps=None)
        parts.append(rolled(part))
        state = {name: x[-1] for name, x in zip(state, parts[-1], strict=False)}
    together = [*zip(*parts, strict=True)]
    n = len(state)
    paths = [space.concatenate([xs[0][:1], *(x[1:] for x in xs)]) for xs in together[:n]]
    largest = map(is_largest, kernel.results[n:])
    for xs in together[n:]:
        paths.append(space.amax(space.stack(xs), 0) if next(largest, False) else space.concatenate(xs))
    return tuple(paths)
