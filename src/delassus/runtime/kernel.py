"""`Kernel`: compiled code that is called with NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.algorithms.dynamics import ITERATIVE
from delassus.algorithms.dynamics.choose import pivot_limit, solve_again
from delassus.algorithms.dynamics.result import ForwardDynamics
from delassus.compiler.emit.python_entry import watched_result
from delassus.compiler.graph import OperationCount
from delassus.compiler.program import Argument, Program, Result
from delassus.compiler.tasks import find_task
from delassus.errors import ConfigurationError
from delassus.runtime.arrays import gathered, in_order, result_arrays
from delassus.runtime.cpu_target import Code, host
from delassus.runtime.fastcall import direct_entry
from delassus.runtime.request import Request
from delassus.runtime.solve import with_status
from delassus.runtime.threads import number_of, over_states


class Kernel:
    """Compiled function of a batch of states; made by `delassus.compile`.

    Attributes
    ----------
    arguments, results : tuple
        Names, shapes (of one state) and meanings of what goes in and comes out.
    method : str
        Algorithm that runs.
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
        self._request, self.method = request, request.taken
        self.arguments, self.operations, self.lanes = arguments, operations, lanes
        self.results = tuple(r for r in results if not r.hidden)
        self._single, self._is_judged = len(self.results) == 1, len(self.results) < len(results)
        self._least_pivot = pivot_limit(self.method, request.dtype)
        self.dtype = np.dtype(request.dtype)
        self._code = Code(payload)
        pointers = [ctypes.c_void_p] * (len(arguments) + len(results))
        self._batch = ctypes.CFUNCTYPE(None, ctypes.c_int64, *pointers)(self._code.address("batch"))
        sizes = [*(a.size for a in arguments), *(r.size for r in results)]
        self._strides = [size * self.dtype.itemsize for size in sizes]  # from one state to the next, in bytes
        self._keep: list[object] = []
        self._direct = direct_entry(self._code.address("call"), self.dtype, self._least_pivot, self._keep)

    def __repr__(self) -> str:
        r, total = self._request, self.operations.total
        method = f"method={self.method!r}, " if find_task(r.what).methods else ""
        return f"Kernel({r.what!r} of {r.tree.name!r}, {method}{self.dtype}, {total} operations)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Compile again, or load from the cache, on the other side."""
        from delassus.runtime.compile import compile_request

        return compile_request, (self._request,)

    def __call__(self, *arguments: ArrayLike, out: Any = None, threads: int | None = None, **named: ArrayLike) -> Any:
        """Run the kernel.

        Parameters
        ----------
        *arguments : array_like
            One array for each of `arguments`, each (..., shape of one state); leading axes are batches and broadcast.
            Contiguous arrays of the kernel's dtype are read in place; nothing is validated beyond shape and dtype:
            NaN and quaternions that are not of unit length give results to match, in their own state only.
        out : array or tuple of arrays, optional
            C-contiguous arrays of the results' shapes and the kernel's dtype to write to: one array if there is one
            result, else a tuple.
        threads : int, optional
            1 stays on this thread; None decides by the size of the batch.
        **named : array_like
            The last arguments, by their names.

        Returns
        -------
        array or tuple of arrays
            Results (..., shape of one state), a tuple if there are several; ``out`` if it was given. States at which
            the rows of hard constraints are dependent, or do not fit the method's order of elimination, are solved by
            another method within the call; `solve` says which are dependent.

        Raises
        ------
        ConfigurationError
            Wrong number, shape or dtype of arrays.
        """
        if out is not None and threads is None and self._direct is not None and len(arguments) == len(self.arguments):
            if self._single:
                if self._direct(*arguments, out) is out and out is not arguments[0]:
                    return out
            elif type(out) is tuple and out and self._direct(*arguments, *out) is out[-1] is not arguments[0]:
                return out
        return self._general(in_order(self.arguments, arguments, named), out, threads)

    def _general(self, given: tuple[ArrayLike, ...], out: Any, threads: int | None) -> Any:
        arrays, batch = gathered(self.arguments, given, self.dtype)
        results = result_arrays(out, self.results, batch, self.dtype, arrays)
        for pivot in self._run(arrays, results, batch, threads):
            self._settle(arrays, results, pivot)
        if out is not None:
            return out
        return results[0] if self._single else tuple(results)

    def _run(
        self,
        arrays: Sequence[NDArray[Any]],
        results: Sequence[NDArray[Any]],
        batch: tuple[int, ...],
        threads: int | None,
    ) -> list[NDArray[Any]]:
        """Run the machine code; returns the smallest pivots, if it makes any."""
        pivots = [np.empty(batch, dtype=self.dtype)] if self._is_judged else []
        n = prod(batch)
        number = number_of(threads, n * self.operations.total)
        over_states(self._batch, [*arrays, *results, *pivots], self._strides, n, number, self.lanes)
        return pivots

    def solve(self, *arguments: ArrayLike, threads: int | None = None, **named: ArrayLike) -> ForwardDynamics:
        """Run compiled "dynamics", and say how each state was solved.

        Takes the arguments of a call, and checks them as `delassus.forward_dynamics` does. States whose rows are
        dependent, or nearly so, are solved by that function, with its status, rank and redundant rows; and all states
        of kernels by ``"proximal"``, whose fixed number of iterations do not watch convergence.

        Returns
        -------
        ForwardDynamics
            As `delassus.forward_dynamics` returns it: ``qdd``, ``forces`` (one array for each constraint), ``status``,
            ``rank``, ``redundant_rows`` and residuals, in float64.

        Raises
        ------
        ConfigurationError
            The kernel computes something else, or has the argument ``active``; or an argument makes no sense.
        """
        if self.what != "dynamics" or self._request.setting.active:
            raise ConfigurationError("kernel", "compiled 'dynamics' without `active`", repr(self), "Call it instead.")
        arrays, batch = gathered(self.arguments, in_order(self.arguments, arguments, named), self.dtype)
        qdd, forces = results = result_arrays(None, self.results, batch, self.dtype, arrays)
        pivots = self._run(arrays, results, batch, threads)
        doubtful = ~np.isfinite(qdd.sum(axis=-1)) | (self.method in ITERATIVE)
        for pivot in pivots:
            doubtful |= self._is_doubtful(results, pivot)
        by_name = {a.name: x for a, x in zip(self.arguments, arrays, strict=True)}
        return with_status(self._request, self.method, by_name, qdd, forces, np.asarray(doubtful))

    def _is_doubtful(self, results: Sequence[NDArray[Any]], pivot: NDArray[Any]) -> NDArray[np.bool_]:
        """States whose pivots are too small or whose results are no numbers."""
        watched = results[watched_result(len(results))]
        good: NDArray[np.bool_] = (pivot >= self._least_pivot) & np.isfinite(watched.sum(axis=-1))
        return np.asarray(~good)

    def _settle(self, arrays: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]], pivot: NDArray[Any]) -> None:
        """Solve doubtful states again, by another method."""
        again = self._is_doubtful(results, pivot)
        if self.what == "dynamics_derivatives":  # there are none where rows are dependent
            for result in results:
                result[again] = np.nan
        elif again.any() and self._other is not None:
            better = self._other(*(x[again].astype(self._other.dtype, copy=False) for x in arrays))
            for result, values in zip(results, better, strict=True):
                result[again] = values

    @cached_property
    def _other(self) -> Kernel | None:
        """The same in float64 by the method for the states that this one cannot solve; compiled when first needed."""
        from delassus.runtime.compile import compile_request

        method = solve_again(self.method, self._request.dtype)
        if method is None:
            return None
        return compile_request(replace(self._request, method=method, dtype="float64", lanes=host().lanes("float64")))

    def roll(self, arrays: Sequence[NDArray[Any]], batch: tuple[int, ...], steps: int, threads: int | None) -> None:
        """Run the rollout of a time step in place; see `delassus.rollout`, which makes the arrays.

        Parameters
        ----------
        arrays : sequence of arrays
            One for each argument: trajectories (steps + 1, *batch, …), their first rows set, for the state; (steps,
            *batch, …) for what moves; (*batch, …) for the others. C-contiguous, of the kernel's dtype.
        batch : tuple of int
        steps : int
        threads : int or None
        """
        n, trajectories = prod(batch), arrays[: len(self.results)]
        operations = n * steps * self.operations.total
        judged = [np.empty((steps, *batch), dtype=self.dtype)] if self._is_judged else []

        def run(states: int, *addresses: int) -> None:
            self._roll(states, n, steps, *addresses)

        everything = [*arrays, *(trajectory[1:] for trajectory in trajectories), *judged]
        over_states(run, everything, self._strides, n, number_of(threads, operations), self.lanes)
        for pivot in judged:
            again = ~(np.all(pivot >= self._least_pivot, axis=0) & np.isfinite(trajectories[-1][-1].sum(axis=-1)))
            if again.any() and self._other is not None:
                leading = [x.ndim - len(a.shape) - len(batch) for x, a in zip(arrays, self.arguments, strict=True)]
                some = [x[(slice(None),) * k + (again,)] for x, k in zip(arrays, leading, strict=True)]
                some = [np.ascontiguousarray(x, dtype=self._other.dtype) for x in some]
                self._other.roll(some, (int(again.sum()),), steps, threads)
                for trajectory, better in zip(trajectories, some, strict=False):
                    trajectory[:, again] = better

    @cached_property
    def _roll(self) -> Any:
        """Machine code of a rollout: number of states, states side by side, steps, pointers."""
        counts, pointers = [ctypes.c_int64] * 3, [ctypes.c_void_p] * len(self._strides)
        return ctypes.CFUNCTYPE(None, *counts, *pointers)(self._code.address("roll"))

    # -- other targets -------------------------------------------------------------------------------------------------

    @property
    def what(self) -> str:
        """What it computes, as `compile` was asked."""
        return self._request.what

    @property
    def plan(self) -> Any:
        """What ``method="auto"`` chose and why; None for a named method, and where there is no choice."""
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
