"""`Kernel`: compiled code that is called with NumPy arrays."""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.compiler.graph import OperationCount
from delassus.compiler.program import Argument, Program, Result
from delassus.errors import ConfigurationError
from delassus.runtime.fastcall import direct_entry
from delassus.runtime.machine import Code
from delassus.runtime.request import Request

ENOUGH_FOR_THREADS = 2_000_000
"""Operations of a whole call from which ``threads=None`` uses every core."""

CHUNKS = 4
"""Chunks of a batch for each thread: a thread that starts late then leaves more to the others."""


@cache
def _cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def _pool(threads: int) -> ThreadPoolExecutor:
    """Pool of this process (a forked child must not use its parent's)."""
    key = (os.getpid(), threads)
    if key not in _pools:
        _pools[key] = ThreadPoolExecutor(threads, thread_name_prefix="delassus")
    return _pools[key]


class Kernel:
    """Compiled function of a batch of states; made by `delassus.compile`.

    Attributes
    ----------
    arguments, results : tuple
        Names, shapes (of one state) and meanings of what goes in and comes out.
    operations : OperationCount
        Arithmetic instructions of one state's program.
    dtype : numpy.dtype
        float64 or float32.
    lanes : int
        States that one vector register holds.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> kernel = ds.compile(arm, [ds.Weld("link7")], "delassus")
    >>> kernel(arm.random(0, batch=(2, 5))).shape
    (2, 5, 6, 6)
    """

    def __init__(
        self,
        request: Request,
        arguments: tuple[Argument, ...],
        results: tuple[Result, ...],
        operations: OperationCount,
        lanes: int,
        payload: bytes,
    ) -> None:
        self._request = request
        self.arguments, self.results, self.operations, self.lanes = arguments, results, operations, lanes
        self.dtype = np.dtype(request.dtype)
        self._code = Code(payload)
        pointers = [ctypes.c_void_p] * (len(arguments) + len(results))
        self._batch = ctypes.CFUNCTYPE(None, ctypes.c_int64, *pointers)(self._code.address("batch"))
        sizes = [*(a.size for a in arguments), *(r.size for r in results)]
        self._strides = [size * self.dtype.itemsize for size in sizes]  # from one state to the next, in bytes
        self._keep: list[object] = []
        self._direct = direct_entry(self._code.address("call"), self.dtype, self._keep)

    def __repr__(self) -> str:
        r, total = self._request, self.operations.total
        return f"Kernel({r.what!r} of {r.tree.name!r}, method={r.method!r}, {self.dtype}, {total} operations)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Compile again, or load from the cache, on the other side."""
        from delassus.runtime.compile import compile_request

        return compile_request, (self._request,)

    def __call__(self, *arguments: ArrayLike, out: Any = None, threads: int | None = None) -> Any:
        """Run the kernel.

        Parameters
        ----------
        *arguments : array_like
            One array for each of `arguments`, each (..., shape of one state); leading axes are batches and broadcast.
            Contiguous arrays of the kernel's dtype are read in place; nothing is validated beyond shape and dtype:
            NaN and quaternions that are not of unit length give results to match, in their own state only.
        out : array, optional
            C-contiguous array of the result's shape and the kernel's dtype to write to.
        threads : int, optional
            1 stays on this thread; None decides by the size of the batch.

        Returns
        -------
        array
            Result (..., shape of one state); ``out`` if it was given.

        Raises
        ------
        ConfigurationError
            Wrong number, shape or dtype of arrays.
        """
        if out is not None and threads is None and self._direct is not None and len(arguments) == len(self.arguments):
            done = self._direct(*arguments, out)
            if done is out:
                return out
        return self._general(arguments, out, threads)

    def _general(self, given: tuple[ArrayLike, ...], out: Any, threads: int | None) -> NDArray[Any]:
        if len(given) != len(self.arguments):
            names = ", ".join(a.name for a in self.arguments)
            raise ConfigurationError(
                "arguments", f"{len(self.arguments)} array(s): {names}", f"{len(given)}", "Pass one array for each."
            )
        arrays = [self._checked(x, a) for x, a in zip(given, self.arguments, strict=True)]
        leading = [x.shape[: x.ndim - len(a.shape)] for x, a in zip(arrays, self.arguments, strict=True)]
        batch = leading[0]
        if any(shape != batch for shape in leading):
            batch = self._common(leading)
            arrays = [np.broadcast_to(x, (*batch, *a.shape)) for x, a in zip(arrays, self.arguments, strict=True)]
        arrays = [x if x.flags.c_contiguous else np.ascontiguousarray(x) for x in arrays]
        (result,) = self.results
        shape = (*batch, *result.shape)
        if out is None:
            out = np.empty(shape, dtype=self.dtype)
        else:
            out = self._checked_out(out, shape)
            if any(np.may_share_memory(out, x) for x in arrays):
                raise ConfigurationError("out", "memory of its own", "memory of an argument", "Pass another array.")
        self._run([*arrays, out], prod(batch), threads)
        return np.asarray(out)

    def _common(self, leading: list[tuple[int, ...]]) -> tuple[int, ...]:
        """Batch that leading axes broadcast to."""
        try:
            return np.broadcast_shapes(*leading)
        except ValueError:
            raise ConfigurationError(
                "arguments", "leading axes that fit each other", str(leading), "Make the batches of equal shape."
            ) from None

    def _checked(self, x: ArrayLike, argument: Argument) -> NDArray[Any]:
        try:
            array = np.asarray(x)
        except ValueError:
            array = np.asarray(None)
        if array.dtype != self.dtype and (array.dtype.kind not in "iu" or array.dtype.kind == "b"):
            raise ConfigurationError(
                argument.name,
                f"dtype {self.dtype}",
                f"dtype {array.dtype}",
                f"Convert it with astype({str(self.dtype)!r}).",
            )
        d = len(argument.shape)
        if array.ndim < d or array.shape[array.ndim - d :] != argument.shape:
            wanted = ", ".join(["...", *map(str, argument.shape)])
            raise ConfigurationError(
                argument.name,
                f"shape ({wanted})",
                f"shape {array.shape}",
                "The last axes hold one state; batches lead.",
            )
        return array.astype(self.dtype, copy=False)

    def _checked_out(self, out: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        good = isinstance(out, np.ndarray) and out.dtype == self.dtype and out.shape == shape
        if not good or not out.flags.c_contiguous or not out.flags.writeable:
            got = f"shape {out.shape}, dtype {out.dtype}" if isinstance(out, np.ndarray) else type(out).__name__
            raise ConfigurationError(
                "out",
                f"a writeable C-contiguous array of shape {shape}, dtype {self.dtype}",
                got,
                "Make one with np.empty.",
            )
        return np.asarray(out)

    def _run(self, arrays: list[NDArray[Any]], n: int, threads: int | None) -> None:
        if threads is None:
            threads = _cores() if n * self.operations.total >= ENOUGH_FOR_THREADS else 1
        elif isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or threads < 1:
            raise ConfigurationError("threads", "a whole number of at least 1", repr(threads), "Or leave it out.")
        starts = [x.__array_interface__["data"][0] for x in arrays]
        if threads == 1 or n <= self.lanes:
            self._batch(n, *starts)
            return
        chunk = -(-n // (threads * CHUNKS))
        chunk += -chunk % self.lanes
        pending = iter(range(0, n, chunk))  # shared: each thread takes the next one when it is ready

        def work() -> None:
            for first in pending:
                places = (start + first * size for start, size in zip(starts, self._strides, strict=True))
                self._batch(min(chunk, n - first), *places)

        others = [_pool(threads).submit(work) for _ in range(threads - 1)]
        work()
        for other in others:
            other.result()

    # -- other targets -------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> Any:
        """What ``method="auto"`` chose and why; None for a named method."""
        return self._request.plan()

    def program(self) -> Program:
        """The program before it is code (traced again)."""
        return self._request.program()

    def export_c(self, folder: str | Path) -> tuple[Path, Path]:
        """Write the kernel as C99, one ``.h`` and one ``.c`` that need only ``math.h``; returns their paths."""
        from delassus.compiler.emit.c import write_c

        return write_c(self.program(), Path(folder), "double" if self.dtype == np.float64 else "float")

    def casadi(self) -> Any:
        """The kernel as a ``casadi.Function``, for derivatives and optimisation."""
        from delassus.compiler.emit.casadi import casadi_function

        return casadi_function(self.program())
