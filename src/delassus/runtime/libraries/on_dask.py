"""Kernels on Dask arrays: lazily, block by block, each block one call on the one thread that Dask gives it.

Kernels for GPUs take blocks of NumPy or CuPy, on what GPUs a worker sees: results are of the same library. Tasks carry
a kernel as bytes. The process that runs the first of them makes it, for its own processor: from its cache, or by
compiling. Schedulers, which take graphs apart, only hand the bytes on.
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

from delassus.model.check import library_of
from delassus.runtime.arrays import Rollout, batch_of_all, check_dtype, check_shape, checked, ordered, over_time


def call(kernel: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Results of a kernel, as Dask arrays: one, or a tuple of several. Their blocks are those of the arguments."""
    arguments = {a.name: a.shape for a in kernel.arguments}
    arrays = _checked(kernel, dict(zip(arguments, ordered(list(arguments), given, named), strict=True)))
    found = _mapped(kernel, _called, arrays, list(map(len, arguments.values())), [r.shape for r in kernel.results])
    return kernel.returned(found) if isinstance(found, tuple) else found


def rollout(asked: Rollout) -> tuple[Any, ...]:
    """Trajectories of a compiled time step, of each block those that `delassus.rollout` returns."""
    import dask.array as da

    kernel, control, steps = asked.kernel, asked.kernel.request.control, asked.steps
    policy = asked.controls if callable(asked.controls) else None
    given = {**asked.start, **asked.fixed, **({} if policy else {control: asked.controls})}
    needed = [a for a in kernel.arguments if not policy or a.name != control]
    names = [a.name for a in needed]
    arrays = _checked(kernel, dict(zip(names, ordered(names, (), given), strict=True)))
    how = {"decimation": asked.decimation, "per_step": asked.per_step, "steps": steps}
    by_name = {a.name: a for a in needed}
    moving = {name: x for name, x in arrays.items() if name in (control, *asked.per_step)}
    for name, x in over_time(da, moving, by_name, asked.time_axis, {}).items():
        arrays[name] = da.moveaxis(x, 0, -1 - len(by_name[name].shape))  # the batch leads in blocks
        steps = x.shape[0] * asked.decimation if name == control else steps
    assert steps is not None  # of a policy they are given
    axes = [len(a.shape) + (a.name in moving) for a in needed]
    n_states = len(asked.start)
    shapes = [(steps + 1, *r.shape) if k < n_states else r.shape for k, r in enumerate(kernel.results)]
    found = _mapped(kernel, partial(_rolled, asked.roll, policy, how), arrays, axes, shapes)
    return (*(da.moveaxis(x, -2, 0) for x in found[:n_states]), *found[n_states:])


# -- blocks --------------------------------------------------------------------------------------------------------


def _how(kernel: Any) -> dict[str, int]:
    """Keywords of a call on one thread."""
    return {"threads": 1} if kernel.target == "cpu" else {}


def _called(kernel: Any, given: Mapping[str, Any]) -> Any:
    return kernel(**given, **_how(kernel))


def _rolled(
    roll: Callable[..., tuple[Any, ...]], policy: Any, how: Mapping[str, Any], kernel: Any, given: dict[str, Any]
) -> tuple[Any, ...]:
    control = kernel.request.control
    for a in kernel.arguments:
        if a.name in given and a.name in (control, *how["per_step"]):
            given[a.name] = np.moveaxis(given[a.name], -1 - len(a.shape), 0)
    first = (given.pop(name) for name in ("q", "v"))
    found = roll(kernel, *first, given.pop(control, policy), time_axis=0, **_how(kernel), **how, **given)
    n_states = kernel.request.states
    return (*(np.moveaxis(x, 0, -2) for x in found[:n_states]), *found[n_states:])


def _on_blocks(function: Callable[..., Any], pickled: bytes, names: Sequence[str], *blocks: Any) -> Any:
    """Results of a function of a kernel and blocks, by their names.

    Where some blocks are on a GPU, those of NumPy, which hold what was no Dask array, are moved there.
    """
    with _one_at_a_time:
        kernel = _kernel(pickled)
    host = [isinstance(x, np.ndarray | np.generic) for x in blocks]
    if kernel.target == "cuda" and any(host) and not all(host):
        like = blocks[host.index(False)]
        blocks = tuple(np.asarray(x, like=like) if is_host else x for x, is_host in zip(blocks, host, strict=True))
    return function(kernel, dict(zip(names, blocks, strict=True)))


_one_at_a_time = threading.Lock()


@lru_cache(maxsize=256)
def _kernel(pickled: bytes) -> Any:
    """Kernel of a task's bytes, made once a process."""
    return pickle.loads(zlib.decompress(pickled))


# -- arrays --------------------------------------------------------------------------------------------------------


def _mapped(
    kernel: Any,
    function: Callable[..., Any],
    arrays: Mapping[str, Any],
    axes: Sequence[int],
    shapes: Sequence[tuple[int, ...]],
) -> Any:
    """Results of a function of a kernel and blocks, whose last ``axes`` are whole; ``shapes``: those without batch.

    All is `dask.array.blockwise`, which Dask sends to schedulers as one description of all blocks, and fuses with what
    comes before and after.
    """
    import dask.array as da

    leading = [x.shape[: x.ndim - n] for x, n in zip(arrays.values(), axes, strict=True)]
    batch = len(batch_of_all(list(arrays), leading))
    names = count(batch)  # of axes; those of the batch are 0, 1, …
    kinds = [x._meta for x in arrays.values() if not isinstance(x._meta, np.ndarray)]

    def made(function: Callable[..., Any], shape: tuple[int, ...], *pairs: Any) -> Any:
        new = {next(names): size for size in shape}
        meta = np.empty((0,) * (batch + len(shape)), kernel.dtype, like=kinds[0] if kinds else None)
        how = {"new_axes": new, "concatenate": True, "meta": meta, "token": kernel.what}
        return da.blockwise(function, (*range(batch), *new), *pairs, **how)

    pairs: list[Any] = []
    for x, own, n in zip(arrays.values(), leading, axes, strict=True):
        pairs += [x, (*range(batch - len(own), batch), *islice(names, n))]
    run = partial(_on_blocks, function, zlib.compress(pickle.dumps(kernel)), list(arrays))
    if len(shapes) == 1:
        return made(run, shapes[0], *pairs)
    together = made(run, (), *pairs)  # its blocks are tuples
    return tuple(made(itemgetter(k), shape, together, range(batch)) for k, shape in enumerate(shapes))


def _checked(kernel: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """Dask arrays of the kernel's type and of its arguments' shapes, by name."""
    import dask.array as da

    arguments, out = {a.name: a for a in kernel.arguments}, {}
    for name, x in given.items():
        if library_of(type(x)):
            check_dtype(x.dtype, kernel.dtype, name, arguments[name])
            check_shape(x.shape, arguments[name].shape, name)
        out[name] = da.asarray(x if library_of(type(x)) else checked(x, arguments[name], kernel.dtype, name))
    return out
