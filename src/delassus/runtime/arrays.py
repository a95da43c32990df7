"""Arrays that users hand over to kernels: in order, of the right dtype and shape, batches broadcast."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.compiler.program.program import Result
from delassus.constraints import Argument
from delassus.errors import ConfigurationError, shown, unknown_name
from delassus.model.check import UNMASKED, common_batch, is_masked

Arrays = Sequence[NDArray[Any]]
Batch = tuple[int, ...]

LINE = 64
"""Bytes of a cache line: vector stores that straddle two lines take up to twice as long."""


BATCHES = "Make the batches of equal shape."
TIME_FIRST = "In controls and in what is in per_step, time is the first axis; for another order pass time_axis=1."


def aligned_empty(shape: Batch, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Array as of `numpy.empty` that starts at a cache line; `numpy.empty` itself starts 16 to 48 bytes after one."""
    buffer = np.empty(prod(shape) * dtype.itemsize + LINE, dtype=np.uint8)
    return np.ndarray(shape, dtype, buffer, -buffer.__array_interface__["data"][0] % LINE)


def gathered(
    arguments: Sequence[Argument],
    given: Sequence[ArrayLike],
    named: Mapping[str, ArrayLike],
    dtype: np.dtype[Any],
    shown_as: Mapping[str, str] | None = None,
    advice: str = BATCHES,
    anew: Sequence[bool] = (),
) -> tuple[list[NDArray[Any]], Batch]:
    """All arguments, those by position and the rest by name, C-contiguous and with one batch; and that batch.

    ``shown_as``: names in messages; ``advice``, ``anew``: as in `of_one_batch`.
    """
    names = [a.name for a in arguments]
    complete = ordered(names, given, named)
    if shown_as:
        names = [shown_as.get(name, name) for name in names]
    arrays = [checked(x, a, dtype, name) for x, a, name in zip(complete, arguments, names, strict=True)]
    batch: Batch = ()
    if anew or any(x.shape != a.shape for x, a in zip(arrays, arguments, strict=True)):
        arrays, batch = of_one_batch(arrays, arguments, np.broadcast_to, names, advice, anew)
    return [x if x.flags.c_contiguous else np.ascontiguousarray(x) for x in arrays], batch


def leading(array: Any, argument: Argument) -> Batch:
    """Axes of an array, of any library, before those of one state."""
    return tuple(array.shape[: array.ndim - len(argument.shape)])


def of_one_batch(
    arrays: Sequence[Any],
    arguments: Sequence[Argument],
    broadcast: Callable[[Any, Batch], Any],
    names: Sequence[str] | None = None,
    advice: str = BATCHES,
    anew: Sequence[bool] = (),
) -> tuple[list[Any], Batch]:
    """Arrays of any library, ``broadcast`` to the shape that all have with their batches; and that batch.

    ``advice``: what to do about batches that do not fit; ``anew``: which arrays have an axis of time before the batch.
    """
    times = [tuple(x.shape[:k]) for x, k in zip(arrays, anew or (0,) * len(arrays), strict=True)]
    own = [leading(x, a)[len(t) :] for x, a, t in zip(arrays, arguments, times, strict=True)]
    batch, out = batch_of_all(names or [a.name for a in arguments], own, advice), []
    for x, a, t, o in zip(arrays, arguments, times, own, strict=True):
        if t and len(o) < len(batch):
            x = x.reshape((*t, *(1,) * (len(batch) - len(o)), *o, *a.shape))
        out.append(x if o == batch else broadcast(x, (*t, *batch, *a.shape)))
    return out, batch


def ordered(names: Sequence[str], given: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """Values of the arguments of these names, in order, some given by position and the rest by name."""
    complete = list(given)
    if named:
        for name in named:
            if name not in names:
                raise unknown_name("argument", name, names)
            if name in names[: len(given)]:
                raise ConfigurationError(name, "each argument once", "it twice", "Drop one of the two.")
        complete += [named[name] for name in names[len(given) :] if name in named]
    if len(complete) != len(names):
        wanted = f"{len(names)} array(s): {', '.join(names)}"
        raise ConfigurationError("arguments", wanted, f"{len(complete)}", "Pass one array for each.")
    return complete


def batch_of_all(names: Sequence[str], leading: Sequence[Batch], advice: str = BATCHES) -> Batch:
    """Batch that those of all arguments broadcast to."""
    batch = leading[0]
    for name, shape in zip(names, leading, strict=True):
        if shape != batch:
            batch = common_batch(name, shape, "the arguments before it", batch, advice)
    return batch


def checked(x: ArrayLike, argument: Argument, dtype: np.dtype[Any], name: str) -> NDArray[Any]:
    """Array (..., shape of one state) of the kernel's dtype; whole numbers and Python's own are converted."""
    if type(x) is np.ndarray and x.dtype == dtype:
        check_shape(x.shape, argument.shape, name)
        return x
    if is_masked(x):
        raise ConfigurationError(name, "numbers none of which is masked", shown(x), UNMASKED)
    try:
        array = np.asarray(x, dtype=dtype if type(x) in (float, int) else None)
    except Exception:  # an object's own conversion may raise anything, and all of it means: no array of numbers
        array = np.asarray(None)
    if array.dtype != dtype:
        check_dtype(array.dtype, dtype, name, argument)
        array = array.astype(dtype)
    check_shape(array.shape, argument.shape, name)
    return array


def over_time(
    space: Any, arrays: Mapping[str, Any], arguments: Mapping[str, Argument], axis: int | None, held: Mapping[str, int]
) -> dict[str, Any]:
    """Arrays (T, ..., shape of one state) of what is given anew at each step, by name, of the library ``space``.

    Their time is the first axis, or if ``axis`` is 1 the second of a batch; ``held``: steps that one entry is for.
    """
    out = {}
    for name, x in arrays.items():
        axes = x.ndim - len(arguments[name].shape)
        if axes < 1:
            wanted = ", ".join(["T", "...", *map(str, arguments[name].shape)])
            raise ConfigurationError(name, f"shape ({wanted})", f"shape {tuple(x.shape)}", "Time is an axis.")
        out[name] = space.moveaxis(x, 1, 0) if axis and axes > 1 else x
        if held.get(name, 1) > 1:
            repeat = getattr(space, "repeat_interleave", None) or space.repeat
            out[name] = repeat(out[name], held[name], 0)
    return out


class Rollout(NamedTuple):
    """What `delassus.rollout`, ``roll``, is asked for with arrays of another library.

    ``start``: the state by name; ``fixed``: further arguments by name, of which those ``per_step`` are given anew at
    each step; ``steps``: their number, of a policy.
    """

    roll: Callable[..., tuple[Any, ...]]
    kernel: Any
    start: Mapping[str, Any]
    controls: Any
    fixed: Mapping[str, Any]
    time_axis: int | None
    decimation: int
    per_step: Sequence[str]
    steps: int | None


class Moving(NamedTuple):
    """What is given anew at each step: an array with time as the first axis, or as ``axis`` of a batch.

    ``each``: steps that one entry is held for.
    """

    array: ArrayLike
    axis: int | None
    each: int = 1


def arranged(
    arguments: Sequence[Argument],
    fixed: Mapping[str, ArrayLike],
    moving: Mapping[str, Moving],
    dtype: np.dtype[Any],
    shown_as: Mapping[str, str],
) -> tuple[list[NDArray[Any]], Batch, int]:
    """All arguments of time steps, (*batch, …) or of so many steps (T, *batch, …); the batch; T."""
    by_name, over_time = {a.name: a for a in arguments}, dict[str, NDArray[Any]]()
    steps: int | None = None
    batches = [
        leading(checked(x, by_name[name], dtype, shown_as.get(name, name)), by_name[name])
        for name, x in fixed.items()
        if name in by_name
    ]
    for name, (x, axis, each) in moving.items():
        entries = None if steps is None else steps // each
        array = _time_first(x, by_name[name], dtype, shown_as.get(name, name), axis, entries, batches)
        over_time[name] = np.repeat(array, each, axis=0) if each > 1 else array
        steps = len(over_time[name])
    anew = [a.name in over_time for a in arguments]
    arrays, batch = gathered(arguments, (), {**fixed, **over_time}, dtype, shown_as, TIME_FIRST, anew)
    return arrays, batch, steps or 0


def _time_first(
    x: ArrayLike,
    argument: Argument,
    dtype: np.dtype[Any],
    name: str,
    axis: int | None,
    steps: int | None,
    batches: list[Batch],
) -> NDArray[Any]:
    """Array (T, ..., shape of one state), T the number of steps if that is known.

    ``axis``: which one of a batch is time, where it is given; ``batches``: those of other arguments.
    """
    array = checked(x, argument, dtype, name)
    own = leading(array, argument)
    if len(own) > 1:
        if axis is None and max(own[:2]) > 1:
            readings = ((own[0], own[1:]), (own[1], (own[0], *own[2:])))
            fits = all(steps in (None, T) and _broadcast([*batches, batch]) for T, batch in readings)
            if fits and [batch == np.broadcast_shapes(*batches) for _, batch in readings] != [True, False]:
                raise ConfigurationError(
                    name,
                    "time first, (T, batch, …)",
                    f"shape {array.shape}, which may as well be batch first",
                    "Say which axis is time: time_axis=0, or 1 for batch first.",
                )
        array = np.moveaxis(array, axis or 0, 0)
    if not own or (steps is not None and len(array) != steps):
        wanted = ", ".join(["T" if steps is None else str(steps), "...", *map(str, argument.shape)])
        raise ConfigurationError(name, f"shape ({wanted})", f"shape {np.shape(x)}", TIME_FIRST)
    return array


def _broadcast(shapes: list[Batch]) -> bool:
    """Whether they broadcast."""
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def check_dtype(came: np.dtype[Any], dtype: np.dtype[Any], name: str, argument: Argument) -> None:
    """Raise `ConfigurationError` unless an array is of the kernel's type, of whole numbers, or flags."""
    if came != dtype and came.kind not in ("iub" if argument.flags else "iu"):
        raise ConfigurationError(name, f"dtype {dtype}", f"dtype {came}", f"Convert it with astype({str(dtype)!r}).")


def check_shape(shape: tuple[int, ...], state: tuple[int, ...], name: str) -> None:
    """Raise `ConfigurationError` unless a shape ends with that of one state."""
    if len(shape) < len(state) or shape[len(shape) - len(state) :] != state:
        wanted = ", ".join(["...", *map(str, state)])
        raise ConfigurationError(
            name, f"shape ({wanted})", f"shape {shape}", "The last axes hold one state; batches lead."
        )


def result_arrays(
    out: Any, results: Sequence[Result], batch: Batch, dtype: np.dtype[Any], arrays: Arrays = ()
) -> list[NDArray[Any]]:
    """Arrays for the results: new ones, or those given, which must share no memory with one another or ``arrays``."""
    shapes = [(*batch, *r.shape) for r in results]
    if out is None:
        return [aligned_empty(shape, dtype) for shape in shapes]
    outs = [_checked_out(x, shape, dtype) for x, shape in zip(each_out(out, results), shapes, strict=True)]
    for k, result in enumerate(outs):
        if any(np.may_share_memory(result, x) for x in (*arrays, *outs[:k])):
            owner = "an argument" if any(np.may_share_memory(result, x) for x in arrays) else "another result"
            raise ConfigurationError("out", "memory of its own", f"memory of {owner}", "Pass another array.")
    return outs


def each_out(out: Any, results: Sequence[Result]) -> tuple[Any, ...]:
    """What is given as ``out``, one thing for each result."""
    given = (out,) if len(results) == 1 else out
    if not isinstance(given, tuple) or len(given) != len(results):
        names = ", ".join(r.name for r in results)
        came = f"a tuple of {len(given)}" if isinstance(given, tuple) else type(given).__name__
        raise ConfigurationError("out", f"a tuple of {len(results)} arrays: {names}", came, "Pass one for each.")
    return given


def _checked_out(out: Any, shape: Batch, dtype: np.dtype[Any]) -> NDArray[Any]:
    if is_masked(out):
        raise ConfigurationError("out", "numbers none of which is masked", shown(out), "Make it with empty_results.")
    good = isinstance(out, np.ndarray) and out.dtype == dtype and out.shape == shape
    if not good or not out.flags.c_contiguous or not out.flags.writeable:
        got = f"shape {out.shape}, dtype {out.dtype}" if isinstance(out, np.ndarray) else type(out).__name__
        raise ConfigurationError(
            "out",
            f"a writeable C-contiguous array of shape {shape}, dtype {dtype}",
            got,
            "Make it with the kernel's empty_results.",
        )
    return np.asarray(out)
