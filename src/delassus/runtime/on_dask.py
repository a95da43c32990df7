"""Kernels on Dask arrays: lazily, block by block, each block one call on the one thread that Dask gives it.

Tasks carry a kernel as bytes. The process that runs the first of them makes it, for its own processor: from its cache,
or by compiling. Schedulers, which take graphs apart, only hand the bytes on.
"""

from __future__ import annotations

import pickle
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from itertools import count, islice
from operator import itemgetter
from typing import Any

import numpy as np

from delassus.errors import ConfigurationError
from delassus.model.check import library_of
from delassus.quantities.quantity import CONTROLS
from delassus.runtime.arrays import check_dtype, check_shape, checked, common_batch, ordered


def call(kernel: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Results of a kernel, as Dask arrays: one, or a tuple of several. Their blocks are those of the arguments."""
    arrays = _checked(kernel, ordered([a.name for a in kernel.arguments], given, named))
    return _mapped(kernel, _called, arrays, [len(a.shape) for a in kernel.arguments], [r.shape for r in kernel.results])


def rollout(
    roll: Callable[..., tuple[Any, ...]],
    kernel: Any,
    start: Mapping[str, Any],
    controls: Any,
    time_axis: int | None,
    decimation: int,
    fixed: Mapping[str, Any],
) -> tuple[Any, ...]:
    """Trajectories of a compiled time step, of each block those that ``roll``, `delassus.rollout`, returns."""
    import dask.array as da

    names, n_states = [a.name for a in kernel.arguments], len(start)
    control, *_ = CONTROLS[kernel.request.options.control]
    arrays = _checked(kernel, ordered(names, (), {**start, **fixed, control: controls}))
    at = names.index(control)
    held = arrays[at]
    if held.ndim < 2:
        wanted, advice = f"shape (T, ..., {held.shape[-1]})", "Pass the controls of each step."
        raise ConfigurationError("controls", wanted, f"shape {held.shape}", advice)
    arrays[at] = da.moveaxis(held, (time_axis or 0) if held.ndim > 2 else 0, -2)  # the batch leads in blocks
    steps = arrays[at].shape[-2] * decimation
    axes = [len(a.shape) + (a.name == control) for a in kernel.arguments]
    shapes = [(steps + 1, *r.shape) if k < n_states else r.shape for k, r in enumerate(kernel.results)]
    found = _mapped(kernel, partial(_rolled, roll, names, control, decimation, n_states), arrays, axes, shapes)
    return (*(da.moveaxis(x, -2, 0) for x in found[:n_states]), *found[n_states:])


# -- blocks --------------------------------------------------------------------------------------------------------


def _called(kernel: Any, *blocks: Any) -> Any:
    return kernel(*blocks, threads=1)


def _rolled(
    roll: Callable[..., tuple[Any, ...]],
    names: Sequence[str],
    control: str,
    decimation: int,
    n_states: int,
    kernel: Any,
    *blocks: Any,
) -> tuple[Any, ...]:
    given = dict(zip(names, blocks, strict=True))
    q, v, controls = given.pop("q"), given.pop("v"), np.moveaxis(given.pop(control), -2, 0)
    found = roll(kernel, q, v, controls, decimation=decimation, time_axis=0, threads=1, **given)
    return (*(np.moveaxis(x, 0, -2) for x in found[:n_states]), *found[n_states:])


def _on_blocks(function: Callable[..., Any], pickled: bytes, *blocks: Any) -> Any:
    """Results of a function of a kernel and blocks."""
    with _one_at_a_time:
        kernel = _kernel(pickled)
    return function(kernel, *blocks)


_one_at_a_time = threading.Lock()


@lru_cache(maxsize=256)
def _kernel(pickled: bytes) -> Any:
    """Kernel of a task's bytes, made once a process."""
    return pickle.loads(zlib.decompress(pickled))


# -- arrays --------------------------------------------------------------------------------------------------------


def _mapped(
    kernel: Any,
    function: Callable[..., Any],
    arrays: Sequence[Any],
    axes: Sequence[int],
    shapes: Sequence[tuple[int, ...]],
) -> Any:
    """Results of a function of a kernel and blocks, whose last ``axes`` are whole; ``shapes`` are those without batch.

    All is `dask.array.blockwise`, which Dask sends to schedulers as one description of all blocks, and fuses with what
    comes before and after.
    """
    import dask.array as da

    leading = [x.shape[: x.ndim - n] for x, n in zip(arrays, axes, strict=True)]
    batch = len(common_batch([a.name for a in kernel.arguments], leading))
    names = count(batch)  # of axes; those of the batch are 0, 1, …

    def made(function: Callable[..., Any], shape: tuple[int, ...], *pairs: Any) -> Any:
        new = {next(names): size for size in shape}
        meta = np.empty((0,) * (batch + len(shape)), kernel.dtype)
        how = {"new_axes": new, "concatenate": True, "meta": meta, "token": kernel.what}
        return da.blockwise(function, (*range(batch), *new), *pairs, **how)

    pairs: list[Any] = []
    for x, own, n in zip(arrays, leading, axes, strict=True):
        pairs += [x, (*range(batch - len(own), batch), *islice(names, n))]
    run = partial(_on_blocks, function, zlib.compress(pickle.dumps(kernel)))
    if len(shapes) == 1:
        return made(run, shapes[0], *pairs)
    together = made(run, (), *pairs)  # its blocks are tuples
    return tuple(made(itemgetter(k), shape, together, range(batch)) for k, shape in enumerate(shapes))


def _checked(kernel: Any, arrays: Sequence[Any]) -> list[Any]:
    """Dask arrays of the kernel's type and of its arguments' shapes."""
    import dask.array as da

    out = []
    for x, a in zip(arrays, kernel.arguments, strict=True):
        if library_of(type(x)):
            check_dtype(x.dtype, kernel.dtype, a.name)
            check_shape(x.shape, a.shape, a.name)
        out.append(da.asarray(x if library_of(type(x)) else checked(x, a, kernel.dtype, a.name)))
    return out
