"""Rollouts by kernels for GPUs: of arrays of CuPy, which stay on their device, and of NumPy, a block a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.constraints import Argument
from delassus.errors import ConfigurationError, shown, unknown_name
from delassus.runtime.arrays import Batch, Rollout, check_dtype, check_shape, checked, of_one_batch, over_time
from delassus.runtime.cuda.driver import Device, Memory, Stream, driver
from delassus.runtime.kernel import Kernel
from delassus.runtime.rollouts.loop import Closing, Feedback
from delassus.runtime.rollouts.on_device import DeviceSeries, OnDevice, check_times, run_on_device, under_policy

LEAST_BLOCK = 4096
"""Trajectories of NumPy's arrays that a further device is worth."""

Arrays = Sequence[NDArray[Any]]

REFUSED = {
    "threads": "Leave it out.",
    "return_status": "States that are not solved are NaN from there on; statuses are of kernels with target='cpu'.",
    "feedback": "Pass a policy, which computes controls on the device, or compile with target='cpu'.",
}
"""Arguments of rollouts that kernels for GPUs lack, and what to do."""


def check_for_gpus(**given: Any) -> None:
    """Refuse arguments that kernels for GPUs lack; ``given`` are None where they are not."""
    for name, x in given.items():
        if x is not None:
            raise ConfigurationError(name, "none with target='cuda'", shown(x), REFUSED[name])


def roll(
    kernel: Any,
    arrays: Arrays,
    results: Arrays,
    batch: Batch,
    steps: int,
    threads: int | None = None,
    totals: Sequence[NDArray[Any] | None] = (),
    feedback: Feedback | None = None,
    *,
    closing: Closing | None = None,
    surer: Kernel | None = None,
) -> NDArray[np.bool_]:
    """What `Kernel.roll` does, by kernels of all targets; on a GPU results that are not solved are NaN, not flagged."""
    if isinstance(kernel, Kernel):
        given, found = list(arrays), list(results)
        return kernel.roll(given, found, batch, steps, threads, totals, feedback, closing=closing, surer=surer)
    _from_host(kernel, arrays, results, batch, steps, totals)
    return np.zeros((steps, *batch), dtype=bool)


# -- CuPy ----------------------------------------------------------------------------------------------------------


def of_cupy(x: Any) -> bool:
    """Whether something is an array of CuPy."""
    return type(x).__module__.partition(".")[0] == "cupy"


def rollout_of_cupy(asked: Rollout) -> tuple[Any, ...]:
    """What a rollout returns, of a time step or of its tangents or cotangents, of arrays of CuPy on one device.

    All is on CuPy's current stream of that device.
    """
    import cupy

    numbers = {int(x.device.id) for x in (*asked.start.values(), *asked.fixed.values(), asked.controls) if of_cupy(x)}
    if len(numbers) > 1:
        came = f"some on each of {sorted(numbers)}"
        raise ConfigurationError(
            "rollout", "arrays on one device", came, "Move them: cupy.asarray, within cupy.cuda.Device."
        )
    (number,) = numbers
    with cupy.cuda.Device(number):
        if callable(asked.controls):
            return under_policy(cupy, asked, lambda part: _rolled(cupy, part, number))
        return _rolled(cupy, asked, number)


def _rolled(cupy: Any, asked: Rollout, number: int) -> tuple[Any, ...]:
    """Rollout under given controls, on the current device, which has a number."""
    kernel, control = asked.kernel, asked.kernel.request.control
    step, modes = replace(kernel.request, derivative=()).arguments, kernel.request.derivative
    given = {**asked.fixed, **asked.start, control: asked.controls}
    arguments, n, n_states = {a.name: a for a in kernel.arguments}, len(step), kernel.request.quantity.states
    held = {control: asked.decimation}
    moving = [a.name in (control, *asked.per_step) for a in step]
    if modes == ("jvp",):
        moving += moving
        held[kernel.arguments[[a.name for a in step].index(control) + n].name] = asked.decimation
    moving += [True] * (len(arguments) - len(moving))
    arrays, anew = dict[str, Any](), list[bool]()
    for name in given:
        if name not in arguments:
            raise unknown_name("argument", name, list(arguments))
    for k, (name, a) in enumerate(arguments.items()):
        if name not in given and k < n:
            raise ConfigurationError(name, "an array", "none", f"Pass {name}=….")
        is_path = k < n_states and bool(modes)
        arrays[name] = _on_device(cupy, given[name], a, kernel) if name in given else cupy.zeros(a.shape, kernel.dtype)
        anew.append(name in given and (moving[k] or is_path))
        if anew[-1]:
            axis = None if is_path or (modes == ("vjp",) and k >= n) else asked.time_axis
            arrays |= over_time(cupy, {name: arrays[name]}, arguments, axis, held)
    steps = len(arrays[control])
    paths = list(arguments)[:n_states] if modes else []
    check_times(paths, [arrays[name] for name in paths], steps + 1)
    others = [name for name, moves in zip(arguments, anew, strict=True) if moves and name not in paths]
    check_times(others, [arrays[name] for name in others], steps)
    whole, batch = of_one_batch([*arrays.values()], kernel.arguments, cupy.broadcast_to, anew=anew)
    found = run_on_device(
        kernel, _on_cupy(cupy, kernel, number), [*map(cupy.ascontiguousarray, whole)], anew, batch, steps
    )
    if modes == ("vjp",) and asked.decimation > 1:
        k = list(arguments).index(control)
        found[k] = found[k].reshape(-1, asked.decimation, *found[k].shape[1:]).sum(1)
    return tuple(found)


def _on_device(cupy: Any, x: Any, argument: Argument, kernel: Any) -> Any:
    """Array of CuPy of the kernel's type, (..., shape of one state); what is on the host is copied over."""
    if not of_cupy(x):
        return cupy.asarray(checked(x, argument, kernel.dtype, argument.name))
    check_dtype(x.dtype, kernel.dtype, argument.name, argument)
    check_shape(x.shape, argument.shape, argument.name)
    return x.astype(kernel.dtype, copy=False)


def _on_cupy(cupy: Any, kernel: Any, number: int) -> OnDevice:
    stream = int(cupy.cuda.get_current_stream().ptr)

    def launch(n: int, places: Sequence[DeviceSeries], steps: int) -> None:
        kernel.launch(number, stream, n, [p.address for p in places], [p.step for p in places], steps)

    return OnDevice(
        lambda shape: cupy.empty(shape, kernel.dtype), lambda x: int(x.data.ptr), launch, lambda x: cupy.amax(x, 0)
    )


# -- NumPy ---------------------------------------------------------------------------------------------------------


def _from_host(
    kernel: Any, arrays: Arrays, results: Arrays, batch: Batch, steps: int, totals: Sequence[NDArray[Any] | None] = ()
) -> None:
    """Roll on the devices that there are: a block of the batch each, which is waited for."""
    if any(total is not None for total in totals):
        for now, found in one_by_one(kernel, arrays, results, batch, steps, totals):
            _from_host(kernel, now, found, batch, 1)
        return
    n = prod(batch)
    if not (n and steps):
        return
    sizes = [*(a.shape for a in kernel.arguments), *(r.shape for r in kernel.results)]
    every, moves = list[NDArray[Any]](), list[bool]()
    for x, shape in zip((*arrays, *results), sizes, strict=True):
        moves.append(x.ndim > len(batch) + len(shape))
        every.append(x.reshape(steps if moves[-1] else 1, n, *shape))
    devices = driver().devices[: max(1, n // LEAST_BLOCK)]
    ends = [n * k // len(devices) for k in range(len(devices) + 1)]

    def run(device: Device, first: int, end: int) -> None:
        _block(kernel, device, [x[:, first:end] for x in every], moves, steps)

    if len(devices) == 1:
        run(devices[0], 0, n)
        return
    with ThreadPoolExecutor(len(devices), thread_name_prefix="delassus") as pool:
        list(pool.map(run, devices, ends, ends[1:]))


def one_by_one(
    kernel: Any, arrays: Arrays, results: Arrays, batch: Batch, steps: int, totals: Sequence[NDArray[Any] | None]
) -> Iterator[tuple[list[NDArray[Any]], list[NDArray[Any]]]]:
    """Arguments of one step after the other, and results to write; these are then copied, or added to totals."""

    def at(x: NDArray[Any], shape: tuple[int, ...], t: int) -> NDArray[Any]:
        return x[t, ...] if x.ndim > len(batch) + len(shape) else x

    for t in range(steps):
        given = [at(x, a.shape, t) for x, a in zip(arrays, kernel.arguments, strict=True)]
        found = [np.empty((*batch, *r.shape), kernel.dtype) for r in kernel.results]
        yield [np.ascontiguousarray(x).reshape(x.shape) for x in given], found
        for k, (x, r) in enumerate(zip(found, kernel.results, strict=True)):
            if k < len(totals) and (total := totals[k]) is not None:
                at(total, r.shape, t)[...] += x
            else:
                at(results[k], r.shape, t)[...] = x


def _block(kernel: Any, device: Device, arrays: Arrays, moves: Sequence[bool], steps: int) -> None:
    """Run some states through all steps on a device; arrays are (steps or 1, n, shape of one state).

    Where a result is the row after an argument's, as those of trajectories are, both are one array on the device.
    """
    n_given, item, n = len(kernel.arguments), kernel.dtype.itemsize, arrays[0].shape[1]
    given, results, stream, there = arrays[:n_given], arrays[n_given:], Stream(device), list[Memory]()
    follows = {r: k for r, y in enumerate(results) for k, x in enumerate(given) if moves[k] and _is_next(x, y)}
    widths = [x[0].size for x in arrays]

    def room(rows: int, width: int) -> Memory:
        there.append(Memory(device, rows * width * item, stream.handle))
        return there[-1]

    try:
        with device.current() as call:
            places = list[DeviceSeries]()
            for k, (x, width) in enumerate(zip(given, widths, strict=False)):
                is_path = k in follows.values()
                memory, rows = (
                    room(steps + is_path if moves[k] else 1, width),
                    np.ascontiguousarray(x[:1] if is_path else x),
                )
                if rows.nbytes:
                    call("cuMemcpyHtoDAsync", memory.address, rows.ctypes.data, rows.nbytes, stream.handle)
                places.append(DeviceSeries(memory.address, width if moves[k] else 0))
            for r, width in enumerate(widths[n_given:]):
                moving = moves[n_given + r]
                first = (
                    places[follows[r]].address + width * item
                    if r in follows
                    else room(steps if moving else 1, width).address
                )
                places.append(DeviceSeries(first, width if moving else 0))
            shown = places[n_given:]
            if kernel.has_rcond:
                places.append(DeviceSeries(room(1, n).address, 0))
            kernel.launch(device.number, stream.handle, n, [p.address for p in places], [p.step for p in places], steps)
            found = [np.empty(y.shape, kernel.dtype) for y in results]
            for x, place in zip(found, shown, strict=True):
                if x.nbytes:
                    call("cuMemcpyDtoHAsync", x.ctypes.data, place.address, x.nbytes, stream.handle)
        stream.wait()
    finally:
        there.clear()  # in the order of the stream, as long as that is there
    for y, x in zip(results, found, strict=True):
        y[...] = x


def _is_next(x: NDArray[Any], y: NDArray[Any]) -> bool:
    """Whether rows of y are those after x in one array."""
    return x.shape == y.shape and x.strides == y.strides and y.ctypes.data - x.ctypes.data == x.strides[0]
