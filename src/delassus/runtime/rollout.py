"""`rollout`: many time steps of many states, in one call of compiled code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.compiler.pipeline import moving_arguments
from delassus.compiler.program import Argument
from delassus.compiler.tasks import find_task
from delassus.errors import ConfigurationError, shown
from delassus.runtime.arrays import checked, gathered, in_order
from delassus.runtime.kernel import Kernel


def rollout(
    kernel: Kernel,
    q0: ArrayLike,
    v0: ArrayLike,
    controls: ArrayLike,
    dt: ArrayLike,
    *,
    per_step: Iterable[str] = (),
    threads: int | None = None,
    **others: ArrayLike,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Trajectories of a compiled time step, ``delassus.compile(tree, constraints, "step", …)``.

    The loop over time is machine code: one loop for each block of as many states as a vector register holds.

    Parameters
    ----------
    kernel : Kernel
        Compiled "step".
    q0, v0 : (..., nq) and (..., nv) array_like
        Where the trajectories start; batches are leading axes and broadcast.
    controls : (T, ..., nv) array_like
        Joint forces ``tau`` (N, N·m) of each of T steps.
    dt : (...) array_like
        Time step in s.
    per_step : iterable of str
        Names of further arguments that have an axis of T steps in front, as the controls have.
    threads : int, optional
        As in a call of the kernel.
    **others : array_like
        The kernel's further arguments by their names (payloads, gravity, ``active``, ``target0``, …): the same at all
        steps, (..., shape of one state), or if they are among ``per_step`` (T, ..., shape of one state).

    Returns
    -------
    q : (T + 1, ..., nq) array
        Configurations from the start to the end.
    v : (T + 1, ..., nv) array
        Velocities.

    Raises
    ------
    ConfigurationError, UnknownNameError
        A kernel that is not a time step, or an array that it does not take.

    Examples
    --------
    >>> import delassus as ds, numpy as np
    >>> arm = ds.mechanisms.chain(4)
    >>> step = ds.compile(arm, [], "step", integrator="rk4")
    >>> start = arm.random(0, batch=50)
    >>> q, v = ds.rollout(step, start, np.zeros(4), np.zeros((100, 4)), dt=1e-3)
    >>> q.shape, v.shape
    ((101, 50, 4), (101, 50, 4))

    The tip is held for 60 steps, then let go:

    >>> arm, zero = ds.mechanisms.chain(3), np.zeros((100, 3))
    >>> step = ds.compile(arm, ds.Point(ds.Frame("link3", (0.1, 0.2, 0.0))), "step", active=True)
    >>> held = np.repeat([[1.0], [0.0]], [60, 40], axis=0)
    >>> q, v = ds.rollout(step, arm.random(0), np.zeros(3), zero, dt=1e-3, active=held, per_step=["active"])
    >>> bool(abs(v[60]).max() < 1e-9), bool(abs(v[100]).max() > 1e-3)
    (True, True)
    """
    if not isinstance(kernel, Kernel) or kernel.what != "step":
        raise ConfigurationError(
            "kernel", "a compiled time step", shown(kernel), "Make one with compile(tree, constraints, 'step')."
        )
    by_name = {a.name: a for a in kernel.arguments}
    stepped = {"tau": _over_time("controls", controls, by_name["tau"], kernel.dtype)}
    steps = len(stepped["tau"])
    moving = moving_arguments(find_task(kernel.what), kernel.arguments)
    for name in _names(per_step):
        if name not in moving or name not in others:
            known = ", ".join(sorted(moving & set(others))) or "none"
            raise ConfigurationError("per_step", f"further arguments that are given: {known}", repr(name), "Drop it.")
        stepped[name] = _over_time(name, others[name], by_name[name], kernel.dtype, steps)
    ones = {name: np.empty(x.shape[1:], dtype=kernel.dtype) for name, x in stepped.items()}
    given = in_order(kernel.arguments, (), {**others, "q": q0, "v": v0, "dt": dt, **ones})
    arrays, batch = gathered(kernel.arguments, given, kernel.dtype)
    for k, argument in enumerate(kernel.arguments):
        if argument.name in ("q", "v"):
            start = arrays[k]
            arrays[k] = np.empty((steps + 1, *start.shape), dtype=kernel.dtype)
            arrays[k][0] = start
        elif argument.name in moving:
            x = stepped.get(argument.name, arrays[k][None])
            missing = len(batch) + len(argument.shape) - (x.ndim - 1)
            x = x.reshape(len(x), *(1,) * missing, *x.shape[1:])
            arrays[k] = np.ascontiguousarray(np.broadcast_to(x, (steps, *batch, *argument.shape)))
    kernel.roll(arrays, batch, steps, threads)
    return arrays[0], arrays[1]


def _names(per_step: object) -> tuple[str, ...]:
    if isinstance(per_step, str) or not isinstance(per_step, Iterable):
        raise ConfigurationError("per_step", "a list of names", shown(per_step), "Pass per_step=['active'].")
    return tuple(per_step)


def _over_time(
    name: str, x: ArrayLike, argument: Argument, dtype: np.dtype[Any], steps: int | None = None
) -> NDArray[Any]:
    """Array (T, ..., shape of one state), T the number of steps if that is known."""
    array = checked(x, argument, dtype)
    if array.ndim <= len(argument.shape) or (steps is not None and len(array) != steps):
        wanted = ", ".join(["T" if steps is None else str(steps), "...", *map(str, argument.shape)])
        raise ConfigurationError(
            name, f"shape ({wanted})", f"shape {array.shape}", "The first axis is time, one entry a step."
        )
    return array
