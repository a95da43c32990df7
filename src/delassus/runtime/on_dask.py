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
from typing import Any

import numpy as np

from delassus.algorithms.inputs import Argument
from delassus.compiler.program import Result
from delassus.errors import ConfigurationError
from delassus.model.check import library_of
from delassus.quantities.quantity import CONTROLS
from delassus.runtime.arrays import check_dtype, check_shape, checked, common_batch, ordered


def call(kernel: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Results of a kernel, as Dask arrays: one, or a tuple of several. Their blocks are those of the arguments."""
    arrays = _checked(kernel, ordered([a.name for a in kernel.arguments], given, named))
    return _mapped(kernel, _called, arrays, _axes(kernel.arguments), _axes(kernel.results), {})


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
    if arrays[at].ndim < 2:
        wanted = ", ".join(["T", "...", *map(str, kernel.arguments[at].shape)])
        advice = "Pass the controls of each step."
        raise ConfigurationError("controls", f"shape ({wanted})", f"shape {arrays[at].shape}", advice)
    time = (time_axis or 0) if arrays[at].ndim > 2 else 0
    arrays[at] = da.moveaxis(arrays[at], time, -2)  # blocks have their batch first
    given, made = _axes(kernel.arguments), _axes(kernel.results)
    given[at].insert(0, "time")
    for axes in made[:n_states]:
        axes.insert(0, "times")
    run = partial(_rolled, roll, names, control, decimation, n_states)
    found = _mapped(kernel, run, arrays, given, made, {"times": arrays[at].shape[-2] * decimation + 1})
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
    """Results of a function of a kernel and blocks, those of arguments that are not empty."""
    with _one_at_a_time:
        kernel = _kernel(pickled)
    left = iter(blocks)
    return function(kernel, *(next(left) if a.size else np.empty(a.shape, kernel.dtype) for a in kernel.arguments))


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
    given: Sequence[Sequence[str]],
    made: Sequence[Sequence[str]],
    sizes: Mapping[str, int],
) -> Any:
    """Function of a kernel on all blocks; ``given`` and ``made`` name the axes of one state, ``sizes`` are of time."""
    import dask.array as da

    names = [a.name for a in kernel.arguments]
    common_batch(names, [x.shape[: x.ndim - len(axes)] for x, axes in zip(arrays, given, strict=True)])
    full = [k for k, a in enumerate(kernel.arguments) if a.size]  # Dask divides by the sizes of axes
    known = {f"{r.name}_axis{k}": size for r in kernel.results for k, size in enumerate(r.shape)}
    return da.apply_gufunc(
        partial(_on_blocks, function, zlib.compress(pickle.dumps(kernel))),
        "->".join(",".join(f"({','.join(axes)})" for axes in side) for side in ([given[k] for k in full], made)),
        *(arrays[k] for k in full),
        output_dtypes=[kernel.dtype] * len(made) if len(made) > 1 else kernel.dtype,
        output_sizes={**known, **sizes},
        allow_rechunk=True,
    )


def _axes(arrays: Sequence[Argument | Result]) -> list[list[str]]:
    """Names of the axes of one state."""
    return [[f"{x.name}_axis{k}" for k in range(len(x.shape))] for x in arrays]


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
