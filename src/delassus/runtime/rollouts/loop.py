"""The loop over time steps, as compiled code: each block of states goes through all of them, under feedback or not.

Under feedback, a step takes ``u = u_nominal + K [q ⊖ q_nominal; v − v_nominal]``, no less and no more than bounds. The
difference of configurations is on their manifold, in the tangent at the nominal one. States may be moved by defects
after it, as in forward passes of multiple shooting.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled, inlined
from delassus.compiler.jit.memory import call_at, load, reserve, store
from delassus.constraints import Argument
from delassus.errors import ConfigurationError, shown
from delassus.model.check import real_array
from delassus.runtime.arrays import checked
from delassus.runtime.rollouts.on_device import STATE


class Feedback(NamedTuple):
    """Feedback about a nominal trajectory of T steps, of the argument number ``control`` of n controls.

    ``q``, ``v`` and ``controls`` are (T, *batch, …); ``gains`` are (T, *batch, n, 2 nv), of axes of one where they are
    the same for the batch; ``bounds`` (2, n) are the least and largest controls, ``difference`` and ``integrate`` the
    compiled quantities. ``defects`` of q and v (T + 1, *batch, nv each), none or two, are added to states.
    """

    difference: Any
    control: int
    q: NDArray[Any]
    v: NDArray[Any]
    controls: NDArray[Any]
    gains: NDArray[Any]
    bounds: NDArray[Any]
    defects: tuple[NDArray[Any], ...]
    integrate: Any

    @property
    def is_shared(self) -> bool:
        """Whether gains are the same for the batch."""
        return self.gains.shape[1:-2] != self.q.shape[1:-1]

    def record(self, after: int, first: int) -> tuple[list[tuple[NDArray[Any], tuple[int, ...]]], list[int]]:
        """Arrays with their shapes of one state, and numbers that `run_steps` reads.

        ``after`` and ``first`` are the numbers of the arrays of states after steps, and of the first of these arrays.
        """
        own = [(x, x.shape[self.q.ndim - 1 :]) for x in (self.q, self.v, self.controls)]
        shift = np.empty(self.v.shape[1:], self.v.dtype)
        shared = 0, 0  # no further on at the next state
        of_gains = shared if self.is_shared else self.gains.shape[-2:]
        arrays = [*own, (self.gains, of_gains), (self.bounds, shared), (shift, shift.shape[-1:])]
        arrays += [(x[1:], x.shape[-1:]) for x in self.defects]
        nv, n, states = self.v.shape[-1], self.controls.shape[-1], max(1, prod(shift.shape[:-1]))
        if self.defects:
            moved = np.empty(self.q.shape[1:], self.q.dtype)
            arrays.append((moved, moved.shape[-1:]))
        return arrays, [
            self.difference.code.of(states).address("span"),
            first,
            self.control,
            n,
            nv,
            0 if self.is_shared else 2 * n * nv,
            self.integrate.code.of(states).address("span") if self.defects else 0,
            self.q.shape[-1],
            after,
        ]

    def move(self, t: int, q: NDArray[Any], v: NDArray[Any]) -> None:
        """Add defects to states (*batch, …) before step t in place."""
        if self.defects:
            of_q, of_v = (x[t] for x in self.defects)
            q[:], v[:] = self.integrate(q, of_q), v + of_v

    def at(self, t: NDArray[np.intp], numbers: NDArray[np.intp]) -> Feedback:
        """Feedback of steps t (T, k) of trajectories (k), by their numbers in the batch."""

        def some(x: NDArray[Any], axes: int, t: NDArray[np.intp] = t) -> NDArray[Any]:
            own = x.shape[-axes:]
            every = np.broadcast_to(x, (len(x), *self.q.shape[1:-1], *own)).reshape(len(x), -1, *own)
            return np.ascontiguousarray(every[t, numbers])

        after = np.concatenate([t, t[-1:] + 1])
        return self._replace(
            q=some(self.q, 1), v=some(self.v, 1), controls=some(self.controls, 1), gains=some(self.gains, 2),
            defects=tuple(some(x, 1, after) for x in self.defects),
        )  # fmt: skip

    def applied(self, q: NDArray[Any], v: NDArray[Any]) -> NDArray[Any]:
        """Controls (*batch, n) of the first step at states."""
        away = np.concatenate([self.difference(self.q[0], q), v - self.v[0]], axis=-1)
        found: NDArray[Any] = np.clip(self.controls[0] + (self.gains[0] @ away[..., None])[..., 0], *self.bounds)
        return found


class Closing(NamedTuple):
    """What takes errors of loops back after each step: the compiled "closed_state".

    Of trajectories (*batch) whose ``correction`` is 1; those with 0 stay. ``places`` (*batch, 7) in the world are those
    that frames are held to. ``reach`` and ``rcond`` (T, *batch) are what it says of each step.
    """

    kernel: Any
    correction: NDArray[Any]
    places: list[NDArray[Any]]
    reach: NDArray[Any]
    rcond: NDArray[Any]

    def record(
        self, q: NDArray[Any], v: NDArray[Any], dt: NDArray[Any], first: int
    ) -> tuple[list[tuple[NDArray[Any], tuple[int, ...]]], list[int]]:
        """Arrays with their shapes of one state, and numbers that `run_steps` reads.

        ``q`` and ``v`` are states after steps; ``first`` is the number of the first of these arrays.
        """
        batch, dtype = self.correction.shape, self.correction.dtype
        states = [(x, x.shape[-1:]) for x in (q, v)]
        given = [*states, (dt, ()), (self.correction, ()), *((x, x.shape[-1:]) for x in self.places)]
        moved = [(np.empty((*batch, *shape), dtype), shape) for _, shape in states]
        span = self.kernel.code.of(max(1, prod(batch))).address("span")
        numbers = [span, first, len(given), q.shape[-1], v.shape[-1]]
        return [*given, *moved, (self.reach, ()), (self.rcond, ())], numbers


def check_feedback(kernel: Any, controls: Any, feedback: Any, *others: Any) -> None:
    """Check that there is feedback only about arrays of controls of a time step, and with it what else it needs."""
    if feedback is None and any(x is not None for x in others):
        wanted = "gains where there are nominal, bounds or defects"
        raise ConfigurationError("feedback", wanted, "None", "Pass feedback=K.")
    if feedback is not None and (callable(controls) or kernel.request.derivative):
        came = "a derivative" if kernel.request.derivative else "a policy"
        raise ConfigurationError("feedback", "arrays of controls of a time step", came, "Leave feedback out.")


def law_of(kernel: Any, feedback: Any, nominal: Any, bounds: Any, defects: Any) -> tuple[Any, ...] | None:
    """Gains, nominal states, bounds (2, n) and defects of feedback; None without."""
    if feedback is None:
        return None
    if not isinstance(nominal, list | tuple) or len(nominal) != STATE:
        wanted, advice = "a pair of trajectories, q and v", "Pass what a rollout has returned."
        raise ConfigurationError("nominal", wanted, shown(nominal), advice)
    (argument,) = (a for a in kernel.arguments if a.name == kernel.request.control)
    return feedback, *nominal, check_bounds(bounds, argument.size), defects


def check_bounds(bounds: Any, n: int) -> NDArray[Any]:
    """Return least and largest controls (2, n), infinite where there are none."""
    pair = (-np.inf, np.inf) if bounds is None else bounds
    given = [real_array(x) for x in (pair if isinstance(pair, list | tuple) else ())]
    found = [x for x in given if x is not None and x.shape in ((), (n,))]
    if len(given) == len(found) == 2:
        both = np.array([np.broadcast_to(x, n) for x in found])
        if np.all(both[0] <= both[1]):
            return both
    raise ConfigurationError("bounds", f"a pair of least and largest controls, shape ({n},)", shown(bounds), "Or None.")


def feedback_of(
    kernel: Any, arrays: list[NDArray[Any]], law: tuple[Any, ...], batch: tuple[int, ...], steps: int
) -> Feedback:
    """Feedback by gains and bounds; ``arrays`` end with nominal states, and get room for controls in their place."""
    names, tree = [a.name for a in kernel.arguments], kernel.request.tree
    control = names.index(kernel.request.control)
    (n,) = kernel.arguments[control].shape
    K = checked(law[0], Argument("feedback", (n, 2 * tree.nv), "gains"), kernel.dtype, "feedback")
    if K.ndim < 3 or len(K) != steps or K.shape[1:-2] not in ((), batch):
        wanted = f"shape ({steps}, ..., {n}, {2 * tree.nv})"
        raise ConfigurationError("feedback", wanted, f"shape {K.shape}", "Time is the first axis, then the batch.")
    K = np.ascontiguousarray(K.reshape(steps, *(K.shape[1:-2] or (1,) * len(batch)), n, 2 * tree.nv))
    nominal, arrays[control] = arrays[control], np.empty_like(arrays[control])
    q, v = arrays[len(names) :]
    bounds, defects = np.array(law[3], kernel.dtype), tuple[NDArray[Any], ...]()
    if law[4] is not None:
        given = checked(law[4], Argument("defects", (2 * tree.nv,), "changes"), kernel.dtype, "defects")
        if given.shape[:-1] not in ((steps + 1,), (steps + 1, *batch)):
            wanted = f"shape ({steps + 1}, ..., {2 * tree.nv})"
            raise ConfigurationError(
                "defects", wanted, f"shape {given.shape}", "Time is the first axis, then the batch."
            )
        given = given.reshape(steps + 1, *(given.shape[1:-1] or (1,) * len(batch)), 2 * tree.nv)
        given = np.broadcast_to(given, (steps + 1, *batch, 2 * tree.nv))
        defects = tuple(map(np.ascontiguousarray, np.split(given, 2, axis=-1)))
    return Feedback(kernel.difference, control, q, v, nominal, K, bounds, defects, kernel.integrate)


@compiled
def run_steps(span: int, places: int, record: int, n: int, steps: int, lanes: int, item: int) -> None:
    """Run n states of a time step, as many as there are lanes at a time, through all steps.

    ``places`` is the address of those of the arrays, and of how many bytes further on each is at the next step;
    ``record`` that of their number, how many of the last ones are sums, and how many numbers `Feedback.record` and
    `Closing.record` have. Then come the ``span`` of a surer time step or zero, the number of the array of reciprocal
    conditions, and the least of them: a block with a state below it is made again by that step. To each of the sums
    another array is added after each step: its number, and how many numbers it has a state, follow, then those of
    feedback and of what closes loops. The last block of states overlaps the one before it, and is added where that has
    ended.
    """
    n_arrays, n_sums, sums = load(record), load(record + 8), record + 56
    surer, least = load(record + 32), load(record + 48, np.float64)
    law = sums + 16 * n_sums if load(record + 16) > 0 else 0
    closing = sums + 16 * n_sums + 8 * load(record + 16) if load(record + 24) > 0 else 0
    first, size = 0, min(lanes, n)
    while first < n:
        begin = first
        first = min(first, n - size)
        for _ in range(steps):
            if law != 0:
                _feed_back(law, places, first, size, item)
            call_at(span, places, first, size)
            if surer != 0 and _is_flagged(load(places + 8 * load(record + 40)), least, first, size, item):
                call_at(surer, places, first, size)
            if closing != 0:
                _close(closing, places, first, size, item)
            if law != 0 and load(law + 48) != 0:
                _move(law, places, first, size, item)
            for k in range(n_sums):
                width = load(sums + 16 * k + 8)
                total = load(places + 8 * (n_arrays - n_sums + k)) + begin * width * item
                part = load(places + 8 * load(sums + 16 * k)) + begin * width * item
                for j in range((first + size - begin) * width):
                    at = total + item * j
                    _write(at, _number(at, item) + _number(part + item * j, item), item)
            for k in range(n_arrays):
                store(places + 8 * k, load(places + 8 * k) + load(places + 8 * (k + n_arrays)))
        for k in range(n_arrays):
            store(places + 8 * k, load(places + 8 * k) - steps * load(places + 8 * (k + n_arrays)))
        first += size


@compiled
def _is_flagged(rcond: int, least: float, first: int, size: int, item: int) -> bool:
    """Whether the reciprocal condition of some state is small, or not a number."""
    for s in range(first, first + size):
        if not _number(rcond + item * s, item) >= least:
            return True
    return False


@compiled
def _feed_back(law: int, places: int, first: int, size: int, item: int) -> None:
    """Write the controls of some states."""
    own = places + 8 * load(law + 8)
    nominal, v_nominal, u_nominal = load(own), load(own + 8), load(own + 16)
    gains, bounds, shift = load(own + 24), load(own + 32), load(own + 40)
    q, v, u = load(places), load(places + 8), load(places + 8 * load(law + 16))
    n, nv, width = load(law + 24), load(law + 32), load(law + 40)
    between = reserve(64)
    store(between, nominal)
    store(between + 8, q)
    store(between + 16, shift)
    call_at(load(law), between, first, size)
    for s in range(first, first + size):
        for j in range(n):
            row, at = gains + item * (s * width + j * 2 * nv), item * (s * n + j)
            found = _number(u_nominal + at, item)
            found += _dot(row, shift + item * s * nv, nv, item)
            found += _dot(row + item * nv, v + item * s * nv, nv, item)
            found -= _dot(row + item * nv, v_nominal + item * s * nv, nv, item)
            found = max(found, _number(bounds + item * j, item))
            found = min(found, _number(bounds + item * (n + j), item))
            _write(u + at, found, item)


@compiled
def _close(closing: int, places: int, first: int, size: int, item: int) -> None:
    """Take errors of loops of some states back after a step."""
    own = places + 8 * load(closing + 8)
    moved, nq, nv = own + 8 * load(closing + 16), load(closing + 24), load(closing + 32)
    q, v, correction, q_moved, v_moved = load(own), load(own + 8), load(own + 24), load(moved), load(moved + 8)
    call_at(load(closing), own, first, size)
    for s in range(first, first + size):
        if _number(correction + item * s, item) != 0.0:
            for k in range(s * nq, (s + 1) * nq):
                _write(q + item * k, _number(q_moved + item * k, item), item)
            for k in range(s * nv, (s + 1) * nv):
                _write(v + item * k, _number(v_moved + item * k, item), item)


@compiled
def _move(law: int, places: int, first: int, size: int, item: int) -> None:
    """Add defects to some states after a step."""
    own, after = places + 8 * load(law + 8), places + 8 * load(law + 64)
    q, v, of_q, of_v, moved = load(after), load(after + 8), load(own + 48), load(own + 56), load(own + 64)
    between, nv, nq = reserve(64), load(law + 32), load(law + 56)
    store(between, q)
    store(between + 8, of_q)
    store(between + 16, moved)
    call_at(load(law + 48), between, first, size)
    for k in range(first * nq, (first + size) * nq):
        _write(q + item * k, _number(moved + item * k, item), item)
    for k in range(first * nv, (first + size) * nv):
        _write(v + item * k, _number(v + item * k, item) + _number(of_v + item * k, item), item)


@inlined
def _write(address: int, number: float, item: int) -> None:
    if item == 8:
        store(address, number, np.float64)
    else:
        store(address, number, np.float32)


@inlined
def _number(address: int, item: int) -> float:
    found: float = load(address, np.float64) if item == 8 else load(address, np.float32)
    return found


@compiled
def _dot(a: int, b: int, n: int, item: int) -> float:
    """Sum of products of n numbers each."""
    found = 0.0
    if item == 8:
        for k in range(n):
            found += load(a + 8 * k, np.float64) * load(b + 8 * k, np.float64)
    else:
        for k in range(n):
            found += load(a + 4 * k, np.float32) * load(b + 4 * k, np.float32)
    return found
