"""Kernels on Dask arrays: lazily, block by block, each block one call of the kernel on one thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from delassus.runtime.arrays import check_dtype, check_shape, common_batch, ordered


def call(kernel: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Results of a kernel, as Dask arrays: one, or a tuple of several. Their blocks are those of the arguments."""
    import dask.array as da

    arguments, results = kernel.arguments, kernel.results
    names = [a.name for a in arguments]
    arrays = [da.asarray(x) for x in ordered(names, given, named)]
    for x, a in zip(arrays, arguments, strict=True):
        check_dtype(x.dtype, kernel.dtype, a.name)
        check_shape(x.shape, a.shape, a.name)
    common_batch(names, [x.shape[: x.ndim - len(a.shape)] for x, a in zip(arrays, arguments, strict=True)])
    axes = {x.name: [f"{x.name}_axis{k}" for k in range(len(x.shape))] for x in (*arguments, *results)}
    sides = [",".join(f"({','.join(axes[x.name])})" for x in side) for side in (arguments, results)]
    return da.apply_gufunc(
        Block(kernel),
        "->".join(sides),
        *arrays,
        output_dtypes=[kernel.dtype] * len(results) if len(results) > 1 else kernel.dtype,
        output_sizes={name: size for r in results for name, size in zip(axes[r.name], r.shape, strict=True)},
        allow_rechunk=True,
    )


class Block:
    """Call of a kernel with blocks of arrays, each on the one thread that Dask gives it."""

    def __init__(self, kernel: Any) -> None:
        self.kernel, self.__name__ = kernel, kernel.what

    def __call__(self, *blocks: Any) -> Any:
        """Results of these blocks."""
        return self.kernel(*blocks, threads=1)
