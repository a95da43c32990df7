"""What identification compares: results of a kernel with measurements, and the tangents of these by parameters.

`Samples` are calls of a kernel, each by itself. `Windows` are stretches of trajectories of a time step, each from a
start of its own; derivatives go along them step by step. Where `step_tangents` has derivatives of steps, these are
computed at all states at once, else along one direction after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.accuracy.status import DynamicsStatus
from delassus.errors import ConfigurationError, shown, unknown_name
from delassus.model.check import real_array
from delassus.runtime.arrays import gathered, ordered, result_arrays
from delassus.runtime.kernel import Kernel
from delassus.runtime.rollouts.on_device import STATE
from delassus.runtime.rollouts.rollout import rollout
from delassus.runtime.rollouts.step_tangents import (
    Mask,
    StepJacobians,
    Values,
    are_payloads,
    carry,
    derivatives_of_steps,
    forces_of_changes,
    regressor_kernel,
    results_of,
    span,
)
from delassus.spatial.rotations import Array

CHART = 1e-6
"""Length along charts of configurations (rad, m) by which these, not steps, are differentiated."""

CHUNK = 2**21
"""Numbers in derivatives of steps that are computed at a time."""

Starts = tuple[Array, Array]
"""Configurations (n, nq) and velocities (n, nv)."""


class Measured(Protocol):
    """Measurements of n units, samples or windows, that a kernel should make at the right parameters.

    Attributes
    ----------
    size : int
        Number of units.
    starts : Starts or None
        Where they start, if that is estimated, too.
    known : (n, m) array
        Of which residuals there are measurements.
    clusters : (n,) array
        Trajectory that each is of, whose errors may have something in common; none of samples.
    """

    size: int
    starts: Starts | None
    known: Mask
    clusters: NDArray[np.intp]

    def run(self, values: Values, starts: Starts | None) -> tuple[list[Array], Array, Mask]:
        """Results, their residuals (n, m) over the scale, and which units were solved; those of others are finite."""

    def tangents(self, values: Values, changes: Values, results: list[Array]) -> tuple[Array, Array, Mask]:
        """Derivatives (n, m, k) by coordinates and (n, m, 2 nv or 0) by starts, and which units were solved."""


def _measurement(name: str, x: ArrayLike, shape: tuple[int, ...], lead: str) -> Array:
    array = real_array(x)
    if array is None or not array.size or array.ndim < len(shape) or array.shape[array.ndim - len(shape) :] != shape:
        wanted = ", ".join([lead, *map(str, shape)])
        raise ConfigurationError(f"measured {name}", f"shape ({wanted})", shown(x), "NaN is what was not measured.")
    return array


def deviations(name: str, x: Any, shape: tuple[int, ...]) -> Array:
    """Standard deviations: positive numbers, which may be infinite, of one shape."""
    array = real_array(x)
    try:
        array = np.zeros(1) if array is None else np.broadcast_to(array, shape)
    except ValueError:
        array = np.zeros(1)
    if not (array > 0.0).all():
        wanted = f"positive numbers that broadcast to {shape}"
        raise ConfigurationError(name, wanted, shown(x), "Pass standard deviations.")
    return np.asarray(array)


def _scale(name: str, scale: Any, shape: tuple[int, ...]) -> Array:
    """Standard deviations of the entries of one measurement."""
    return deviations(f"scale of {name}", scale.get(name) if isinstance(scale, Mapping) else scale, shape)


def _changes(kernel: Kernel, changes: Values, k: int) -> list[Array]:
    """Change (k, 1, …) of each argument."""
    return [changes[a.name][:, None] if a.name in changes else np.zeros((k, 1, *a.shape)) for a in kernel.arguments]


class Samples:
    """Calls of any kernel: a sample is one state."""

    starts: Starts | None = None

    def __init__(
        self, kernel: Kernel, measured: Mapping[str, ArrayLike], scale: Any, inputs: Mapping[str, Any]
    ) -> None:
        self.kernel, self.inputs, self.names = kernel, dict(inputs), tuple(measured)
        shapes = {r.name: r.shape for r in kernel.results}
        for name in measured:
            if name not in shapes:
                raise unknown_name(f"results of {kernel!r}", name, shapes)
        arrays = [_measurement(name, x, shapes[name], "...") for name, x in measured.items()]
        batches = [x.shape[: x.ndim - len(shapes[name])] for name, x in zip(measured, arrays, strict=True)]
        if any(b != batches[0] for b in batches):
            raise ConfigurationError("measured", "arrays of one batch", f"batches {batches}", "One entry a sample.")
        self.batch, self.size = batches[0], int(np.prod(batches[0]))
        self.scale = np.concatenate([_scale(name, scale, shapes[name]).ravel() for name in measured])
        self.wanted = np.concatenate([x.reshape(self.size, -1) for x in arrays], axis=1)
        self.known: Mask = np.isfinite(self.wanted) & np.isfinite(self.scale)
        self.clusters = np.zeros(self.size, dtype=np.intp)

    def _arguments(self, values: Values) -> list[Array]:
        """Each argument (n, …)."""
        given = ordered([a.name for a in self.kernel.arguments], (), {**self.inputs, **values})
        arrays, batch = gathered(self.kernel.arguments, given, {}, self.kernel.dtype)
        if batch not in ((), self.batch):
            wanted = f"batch {self.batch}, that of what was measured"
            raise ConfigurationError("inputs", wanted, f"batch {batch}", "One entry a sample.")
        shapes = [a.shape for a in self.kernel.arguments]
        whole = [np.broadcast_to(x, (*self.batch, *s)) for x, s in zip(arrays, shapes, strict=True)]
        return [np.ascontiguousarray(x).reshape(self.size, *s) for x, s in zip(whole, shapes, strict=True)]

    def _flat(self, results: Sequence[Array], lead: tuple[int, ...]) -> Array:
        by_name = {r.name: x.reshape(*lead, -1) for r, x in zip(self.kernel.results, results, strict=True)}
        return np.concatenate([by_name[name] for name in self.names], axis=-1)

    def run(self, values: Values, starts: Starts | None) -> tuple[list[Array], Array, Mask]:
        """Results, residuals, and which samples were solved."""
        results = result_arrays(None, self.kernel.results, (self.size,), self.kernel.dtype)
        rcond = self.kernel.compute(self._arguments(values), results, (self.size,), None)
        solved = ~self.kernel.ill_conditioned(rcond, (self.size,))
        found = np.where(solved[:, None], self._flat(results, (self.size,)), 0.0)
        apart = (found - self.wanted) / self.scale
        return list(results), np.where(self.known, apart, 0.0), solved

    def tangents(self, values: Values, changes: Values, results: list[Array]) -> tuple[Array, Array, Mask]:
        """Derivatives, and which samples were solved; of inverse dynamics by payloads they are regressors."""
        k, asked, arguments = len(next(iter(changes.values()))), self.kernel.request, self._arguments(values)
        if (
            asked.quantity.name == "inverse_dynamics"
            and not asked.options.motors
            and are_payloads(self.kernel, changes)
        ):
            given = {a.name: x for a, x in zip(self.kernel.arguments, arguments, strict=True)}
            regressor = regressor_kernel(self.kernel)
            (Y,), right = results_of(regressor, [given[a.name] for a in regressor.arguments])
            J = forces_of_changes(self.kernel, Y, changes) / self.scale[:, None]
            return np.where(self.known[..., None], J, 0.0), np.zeros((*self.known.shape, 0)), right
        found, solved = results_of(self.kernel.derivative("jvp"), [*arguments, *_changes(self.kernel, changes, k)])
        J = np.moveaxis(self._flat(found, (k, self.size)), 0, -1) / self.scale[:, None]
        return np.where(self.known[..., None], J, 0.0), np.zeros((*self.known.shape, 0)), np.asarray(solved.all(axis=0))


class Windows:
    """Stretches of measured trajectories of a time step; without ``window`` each trajectory is one."""

    def __init__(
        self, kernel: Kernel, measured: Mapping[str, ArrayLike], scale: Any, inputs: Mapping[str, Any],
        every: int, window: int | None, estimated: bool,
    ) -> None:  # fmt: skip
        self.kernel, self.tree, self.every = kernel, kernel.request.tree, every
        if unknown := set(measured) - {"q", "v"}:
            raise unknown_name("measured states of a time step", min(unknown), ("q", "v"))
        if "q" not in measured or not (estimated or "v" in measured):
            wanted = "q" if estimated else "q and v, unless starts are estimated"
            raise ConfigurationError("measured", wanted, ", ".join(measured) or "none", "Pass {'q': q, 'v': v}.")
        nq, nv = self.tree.nq, self.tree.nv
        sizes = {name: size for name, size in (("q", nq), ("v", nv)) if name in measured}
        arrays = {name: _measurement(name, measured[name], (size,), "N + 1, ...") for name, size in sizes.items()}
        shape = arrays["q"].shape[:-1]
        if len(shape) not in (1, 2) or any(x.shape[:-1] != shape for x in arrays.values()):
            came = ", ".join(f"{name} {x.shape}" for name, x in arrays.items())
            raise ConfigurationError("measured", "(N + 1, ...) or (N + 1, n, ...)", came, "Time is the first axis.")
        self.scale = np.concatenate([_scale(name, scale, (nv,)) for name in sizes])
        arrays = {name: x.reshape(len(x), -1, x.shape[-1]) for name, x in arrays.items()}
        end, n, length = shape[0], arrays["q"].shape[1], shape[0] if window is None else min(window, shape[0])
        begin, trajectory = (x.ravel() for x in np.meshgrid(np.arange(0, end, length), np.arange(n), indexing="ij"))
        time = np.arange(length)[:, None] + begin
        cut = {
            name: np.where((time < end)[..., None], x[np.minimum(time, end - 1), trajectory], np.nan)
            for name, x in arrays.items()
        }
        known: dict[str, Mask] = {name: np.asarray(np.isfinite(x).all(axis=-1)) for name, x in cut.items()}
        starts_known = known["q"][0] & (known["v"][0] if "v" in known else known["q"][min(1, length - 1)])
        keep = starts_known & np.logical_or.reduce([x[1:].any(axis=0) for x in known.values()])
        if not keep.any():
            wanted = "windows that start with a state, or two configurations, and go on"
            raise ConfigurationError("measured", wanted, "none", "NaN is what was not measured.")
        self.q = cut["q"][:, keep]
        self.v = cut["v"][:, keep] if "v" in cut else None
        self._known = [x[:, keep] for x in known.values()]
        trajectory, begin, self.size = trajectory[keep], begin[keep], int(np.count_nonzero(keep))
        self.clusters = trajectory
        self._take_inputs(inputs, (end - 1) * every, n, trajectory, every * begin, (length - 1) * every)
        measured_at = np.logical_or.reduce(self._known)
        last = length - 1 - np.argmax(measured_at[::-1], axis=0)
        self._needed = np.arange((length - 1) * every)[:, None] < every * last
        self._begin = self.q[0], self.v[0] if self.v is not None else self._first_velocities()
        self.starts: Starts | None = self._begin if estimated else None
        rows = np.concatenate([np.repeat(x[..., None], nv, axis=-1) for x in self._known], axis=-1)
        rows &= np.isfinite(self.scale)
        if not estimated:
            rows[0] = False
        self.known: Mask = np.swapaxes(rows, 0, 1).reshape(self.size, -1)

    def _take_inputs(
        self, inputs: Mapping[str, Any], steps: int, n: int, of: NDArray[np.intp], begin: NDArray[np.intp], length: int
    ) -> None:
        """Controls (T, n, …) of windows ``of`` trajectories, and the other arguments."""
        shapes = {a.name: a.shape for a in self.kernel.arguments}
        given = {}
        for name in dict.fromkeys(("controls", "dt", *inputs)):
            x = real_array(inputs.get(name))
            if x is None or not np.isfinite(x).all():
                wanted = "a finite array, as of a rollout"
                raise ConfigurationError(name, wanted, shown(inputs.get(name)), f"Pass {name}=….")
            shape = shapes.get(name, x.shape)
            if name != "controls" and x.shape not in (shape, (n, *shape)):
                wanted = f"shape {shape}, or with {n} trajectories as first axis"
                raise ConfigurationError(name, wanted, f"shape {x.shape}", "The same at all steps.")
            given[name] = x
        controls, own = given.pop("controls"), shapes[self.kernel.request.control]
        lead = controls.shape[: controls.ndim - len(own)]
        if controls.shape[len(lead) :] != own or lead not in ((steps,), (steps, n)):
            wanted = f"shape ({steps}, {', '.join(map(str, own))}), or with {n} trajectories as second axis"
            raise ConfigurationError("controls", wanted, f"shape {controls.shape}", "One for each step, time first.")
        time = np.minimum(np.arange(length)[:, None] + begin, steps - 1)
        self.controls = controls[time, of] if len(lead) > 1 else controls[time]
        self.inputs = {name: x[of] if x.ndim > len(shapes.get(name, x.shape)) else x for name, x in given.items()}

    def _first_velocities(self) -> Array:
        """Mean velocities from the first measurement to the second."""
        dt = np.asarray(self.inputs["dt"])[..., None]
        return np.asarray(self.tree.difference(self.q[0], self.q[1]) / (self.every * dt))

    def _apart(self, q: Array) -> Array:
        """From measured configurations to ``q`` (L, n, nq); zero where none is measured."""
        known = self._known[0][..., None]
        return np.where(known, self.tree.difference(np.where(known, self.q, q), q), 0.0)

    def run(self, values: Values, starts: Starts | None) -> tuple[list[Array], Array, Mask]:
        """Trajectories of states after each step (T + 1, n, …), residuals, and which windows were solved."""
        q0, v0 = starts or self._begin
        given: dict[str, Any] = {**self.inputs, **values}
        found = rollout(self.kernel, q0, v0, self.controls, time_axis=0, return_status=True, **given)
        states, status = [np.array(x) for x in found[: self.kernel.request.states]], found[-1]
        if self.kernel.iterates:
            self._solve_again(values, states, status)
        solved = (self._are_good(status) | ~self._needed).all(axis=0)
        q, v = (np.where(solved[:, None], x[:: self.every], x[:1]) for x in states[:STATE])
        parts = [self._apart(q)]
        if self.v is not None:
            parts.append(np.where(self._known[1][..., None], v - self.v, 0.0))
        residuals = np.concatenate(parts, axis=-1) / self.scale
        return states, np.swapaxes(residuals, 0, 1).reshape(self.size, -1) * self.known, solved

    @staticmethod
    def _are_good(status: NDArray[np.object_]) -> Mask:
        return np.asarray((status == DynamicsStatus.SOLVED) | (status == DynamicsStatus.REDUNDANT))

    def _solve_again(self, values: Values, states: list[Array], status: NDArray[np.object_]) -> None:
        """Take steps of contact, from the first on that a rollout has not solved, as calls of the kernel do."""
        late = np.logical_or.accumulate(~self._are_good(status), axis=0) & self._needed
        for t in np.flatnonzero(late.any(axis=1)):
            at = np.flatnonzero(late[t] & np.isfinite(states[0][t]).all(axis=-1))
            rest = [x[at] if x.ndim > axes else x for axes, x in self._further(int(t), values)]
            *after, status[t, at] = self.kernel(*(x[t, at] for x in states), *rest, return_status=True)
            for x, new in zip(states, after, strict=False):
                x[t + 1, at] = new

    def _further(self, t: int, values: Values) -> list[tuple[int, Array]]:
        """Number of axes, and value at a step, of each argument after the state."""
        given = {**self.inputs, **values, self.kernel.request.control: self.controls[t]}
        return [(len(a.shape), np.asarray(given[a.name])) for a in self.kernel.arguments[self.kernel.request.states :]]

    def tangents(self, values: Values, changes: Values, results: list[Array]) -> tuple[Array, Array, Mask]:
        """Derivatives, and which windows were solved."""
        k = len(next(iter(changes.values())))
        derivatives = derivatives_of_steps(self.kernel, tuple(changes), self.starts is not None)
        given = values, changes, results
        dq, dv, solved = (
            self._by_columns(derivatives, *given) if derivatives else self._by_tangents(*given)
        )  # (L, n, nv, k + 2 nv or 0), of `_apart` and of velocities
        J = np.where(self._known[0][..., None, None] & solved[:, None, None], dq, 0.0)
        if self.v is not None:
            dv = np.where(self._known[1][..., None, None] & solved[:, None, None], dv, 0.0)
            J = np.concatenate([J, dv], axis=-2)
        J = np.moveaxis(J / self.scale[:, None], 0, 1).reshape(self.size, -1, J.shape[-1]) * self.known[..., None]
        return J[..., :k], J[..., k:], solved

    def _by_columns(
        self, derivatives: StepJacobians, values: Values, changes: Values, results: list[Array]
    ) -> tuple[Array, Array, Mask]:
        """By ``S ← A S + ∂`` with derivatives of each step, which are known at all states at once."""
        (q, v, *_), n, nv = results, self.size, self.tree.nv
        turns = derivatives.along(changes)  # coordinates × numbers
        m, free = sum(x.shape[1] for x in turns), 0 if self.starts is None else 2 * nv
        S = np.zeros((n, 2 * nv, m + free))
        S[..., m:] = np.eye(2 * nv)[:, :free]
        kept, solved = np.zeros((len(self.q), *S.shape)), np.ones(n, dtype=bool)
        kept[0], moved = S, np.empty(S.shape[1:])
        length = max(1, CHUNK // (n * 2 * nv * (2 * nv + m)))
        for first in range(0, len(self.controls), length):
            now = slice(first, first + length)
            after = [x[1:][now] for x in results]
            given = {**self.inputs, **values, self.kernel.request.control: self.controls[now]}
            given |= {"q": q[:-1][now], "v": v[:-1][now]}
            if made := tuple(derivatives.at(given, after, self._needed[now])):
                carry(made, first, self.every, S, moved, kept, solved)
        found, at = np.zeros((*kept.shape[:-1], len(turns[0]) + free)), 0
        found[..., len(turns[0]) :] = kept[..., m:]
        rows, flat = found.reshape(-1, found.shape[-1]), kept.reshape(-1, kept.shape[-1])
        for turn in turns:
            some, at = span(turn), at + turn.shape[1]
            rows[:, some] += flat[:, at - turn.shape[1] : at] @ turn[some].T
        charts = self.kernel.difference.derivative("tangent_jacobian", by="q_end")
        ends = q[:: self.every]
        chart = np.asarray(charts(np.where(self._known[0][..., None], self.q, ends), ends))
        return chart @ found[..., :nv, :], found[..., nv:, :], solved

    def _by_tangents(self, values: Values, changes: Values, results: list[Array]) -> tuple[Array, Array, Mask]:
        """By tangents of the step, one direction after the other."""
        kernel, tree, n_states = self.kernel, self.tree, self.kernel.request.states
        k, free = len(next(iter(changes.values()))), 2 * tree.nv if self.starts is not None else 0
        moved = [np.zeros((k + free, self.size, *a.shape)) for a in kernel.arguments[:n_states]]
        if free:
            units = CHART * np.eye(tree.nv)[:, None]
            q0 = results[0][0]
            ends = tree.integrate(q0, units), tree.integrate(q0, -units)
            moved[0][k : k + tree.nv] = (ends[0] - ends[1]) / (2 * CHART)
            moved[1][k + tree.nv :] = np.eye(tree.nv)[:, None]
        whole = {name: np.concatenate([x, np.zeros((free, *x.shape[1:]))]) for name, x in changes.items()}
        later = _changes(kernel, whole, k + free)[n_states:]
        out, solved = [[x] for x in moved[:STATE]], np.ones(self.size, dtype=bool)
        for t in range(len(self.controls)):
            # impulses after the step solve it: sweeps end at once
            now = [results[0][t], results[1][t], *(p[t + 1] for p in results[STATE:])]
            rest = [x for _, x in self._further(t, values)]
            found, right = results_of(kernel.derivative("jvp"), [*now, *rest, *moved, *later])
            moved[:STATE] = found[:STATE]
            solved &= right.all(axis=0) | ~self._needed[t]
            if not (t + 1) % self.every:
                for kept, x in zip(out, found, strict=False):
                    kept.append(x)
        dq, dv = (np.moveaxis(np.array(x), 1, 0) for x in out)
        q = results[0][:: self.every]
        dq = np.where(self._known[0][..., None] & solved[:, None], dq, 0.0)
        step = CHART / max(1.0, float(np.abs(dq).max(initial=0.0)))
        columns = [(self._apart(q + step * x) - self._apart(q - step * x)) / (2 * step) for x in dq]
        return np.stack(columns, axis=-1), np.moveaxis(dv, 0, -1), solved
