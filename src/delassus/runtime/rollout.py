"""`rollout`: many time steps of many states, in one call of compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

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
    threads : int, optional
        As in a call of the kernel.
    **others : array_like
        The kernel's further arguments by their names (payloads, gravity, ``active``, …), the same at all steps.

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
    """
    if not isinstance(kernel, Kernel) or kernel.what != "step":
        raise ConfigurationError(
            "kernel", "a compiled time step", shown(kernel), "Make one with compile(tree, constraints, 'step')."
        )
    names = [a.name for a in kernel.arguments]
    at = {name: names.index(name) for name in ("q", "v", "tau")}
    forces = checked(controls, kernel.arguments[at["tau"]], kernel.dtype)
    if forces.ndim < 2:
        raise ConfigurationError(
            "controls", "shape (T, ..., nv)", f"shape {forces.shape}", "The first axis is time, one entry a step."
        )
    steps, one = len(forces), np.empty(forces.shape[1:], dtype=kernel.dtype)
    given = in_order(kernel.arguments, (), {**others, "q": q0, "v": v0, "tau": one, "dt": dt})
    arrays, batch = gathered(kernel.arguments, given, kernel.dtype)
    forces = forces.reshape(steps, *(1,) * (len(batch) - (forces.ndim - 2)), *forces.shape[1:])
    arrays[at["tau"]] = np.ascontiguousarray(np.broadcast_to(forces, (steps, *batch, forces.shape[-1])))
    for name in ("q", "v"):
        start = arrays[at[name]]
        arrays[at[name]] = np.empty((steps + 1, *start.shape), dtype=kernel.dtype)
        arrays[at[name]][0] = start
    kernel.roll(arrays, batch, steps, threads)
    return arrays[at["q"]], arrays[at["v"]]
