"""`Kernel`: compiled code that is called with NumPy arrays."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.algorithms.dynamics import EARLY, ITERATIVE
from delassus.compiler.emit.python_entry import watched_result
from delassus.compiler.pipeline import make_program
from delassus.compiler.program import Program, Result
from delassus.errors import ConfigurationError, warn
from delassus.model.check import check_batch, check_flag, check_path
from delassus.quantities.evaluate import NumpyCase, solve_doubtful
from delassus.quantities.pivots import pivot_limit
from delassus.quantities.redundancy import DynamicsStatus, Resolved
from delassus.quantities.request import Request
from delassus.quantities.results import ForwardDynamics
from delassus.runtime.arrays import Arrays, Batch, gathered, result_arrays
from delassus.runtime.code import machine_code
from delassus.runtime.cpu_target import Code, host
from delassus.runtime.fastcall import direct_entry
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

    def __init__(self, request: Request, dtype: str, lanes: int, reason: str = "") -> None:
        objects, self.operations, self._is_judged = machine_code(request, dtype, lanes, reason)
        self.request, self.method, self.lanes = request, request.method, lanes
        self.dtype, self.arguments = np.dtype(dtype), request.arguments
        self.results = tuple(Result(o.name, request.shape_of(o), (), o.meaning) for o in request.quantity.outputs)
        self._has_warned, self._least_pivot = False, pivot_limit(self.method, dtype)
        sizes = [*(a.size for a in self.arguments), *(r.size for r in self.results), *([1] if self._is_judged else [])]
        self._strides = [size * self.dtype.itemsize for size in sizes]  # from one state to the next, in bytes
        self._code = Code(objects)
        self._batch = self._function("batch", 1)
        self._keep: list[object] = []
        self._direct = direct_entry(self._code.address("call"), self.dtype, self._least_pivot, self._keep)

    def __repr__(self) -> str:
        method = f"method={self.method!r}, " if self.request.quantity.methods else ""
        of = f"{self.what!r} of {self.request.tree.name!r}"
        return f"Kernel({of}, {method}{self.dtype}, {self.operations.total} operations)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Compile again, or load from the cache, on the other side."""
        return Kernel, (self.request, self.dtype.name, self.lanes)

    @property
    def what(self) -> str:
        """What it computes, as `compile` was asked."""
        return self.request.quantity.name

    @property
    def plan(self) -> Any:
        """What ``method="auto"`` chose and why; None for a named method, and where there is no choice."""
        return self.request.plan

    def __call__(
        self,
        *arguments: ArrayLike,
        out: Any = None,
        threads: int | None = None,
        return_status: bool = False,
        **named: ArrayLike,
    ) -> Any:
        """Run the kernel.

        Parameters
        ----------
        *arguments : array_like
            One array for each of `arguments`, each (..., shape of one state); leading axes are batches and broadcast.
            Contiguous arrays of the kernel's dtype are read in place; nothing is validated beyond shape and dtype:
            NaN and quaternions that are not of unit length give results to match, in their own state only.
        out : array or tuple of arrays, optional
            C-contiguous arrays of the results' shapes and the kernel's dtype to write to: one array if there is one
            result, else a tuple. `empty_results` makes them at cache lines, as a call without ``out`` does; elsewhere,
            vector stores take up to twice as long.
        threads : int, optional
            1 stays on this thread; None decides by the size of the batch.
        return_status : bool
            Whether to return how each state was solved, too: of dynamics, its derivatives and time steps.
        **named : array_like
            The last arguments, by their names.

        Returns
        -------
        array or tuple of arrays
            Results (..., shape of one state), a tuple if there are several; ``out`` if it was given. With
            ``return_status`` a tuple, the last of which is an array (...) of `DynamicsStatus`. States at which
            rows do not fit the method's order of elimination, or float32, are solved in float64 by ``"ltl"``, which is
            compiled when it is first needed. Those at which rows are dependent are solved on NumPy, as
            `delassus.forward_dynamics` does; the first call that meets some warns, unless it returns statuses.

        Raises
        ------
        ConfigurationError
            Wrong number, shape or dtype of arrays.
        """
        if return_status is not False and check_flag("return_status", return_status):
            if not self.request.quantity.has_status:
                raise ConfigurationError("return_status", f"False of {self!r}", "True", "Dynamics have a status.")
        elif out is not None and threads is None and self._direct is not None and len(arguments) == len(self.arguments):
            if len(self.results) == 1:
                if self._direct(*arguments, out) is out and out is not arguments[0]:
                    return out
            elif type(out) is tuple and out and self._direct(*arguments, *out) is out[-1] is not arguments[0]:
                return out
        arrays, batch = gathered(self.arguments, arguments, named, self.dtype)
        results = result_arrays(out, self.results, batch, self.dtype, arrays)
        doubtful, case = self.run(arrays, results, batch, threads, return_status)
        if return_status:
            return *results, statuses(doubtful, case)
        if case is not None:
            self.warn_once(case.batch[0], doubtful.size)
        return out if out is not None else results[0] if len(results) == 1 else tuple(results)

    def solve(self, *arguments: ArrayLike, threads: int | None = None, **named: ArrayLike) -> ForwardDynamics:
        """Run compiled "dynamics", and say how each state was solved.

        Takes the arguments of a call, which it does not check further.

        Returns
        -------
        ForwardDynamics
            As `delassus.forward_dynamics` returns it: ``qdd``, ``forces`` (one array for each constraint), ``status``,
            ``rank``, ``redundant_rows`` and residuals, in float64. Of ``"proximal"``, whose fixed number of iterations
            does not watch convergence, that function solves all states.

        Raises
        ------
        ConfigurationError
            The kernel computes something else, or has the argument ``active``; or wrong arrays, as in a call.
        """
        report = self.request.quantity.report
        if report is None or self.request.options.active:
            raise ConfigurationError("kernel", "compiled 'dynamics' without `active`", repr(self), "Call it instead.")
        arrays, batch = gathered(self.arguments, arguments, named, self.dtype)
        results = result_arrays(None, self.results, batch, self.dtype)
        doubtful, case = self.run(arrays, results, batch, threads, True)
        qdd, forces = (x.astype(float) for x in results)
        rank, redundant = np.full(batch, forces.shape[-1]), np.zeros(forces.shape, dtype=bool)
        if case is not None:
            (again,) = case.resolved
            qdd[doubtful], forces[doubtful] = again.qdd, again.forces
            rank[doubtful], redundant[doubtful] = again.rank, again.redundant
        values = {a.name: x.astype(float) for a, x in zip(self.arguments, arrays, strict=True)}
        resolved = Resolved(qdd, forces, statuses(doubtful, case), rank, redundant)
        found: ForwardDynamics = report(NumpyCase(self.request, values, batch), resolved, self.method)
        return found

    def empty_results(self, batch: int | tuple[int, ...] = ()) -> Any:
        """Arrays to pass as ``out``: one, or a tuple if there are several results, each at a cache line.

        Parameters
        ----------
        batch : int or tuple of int
            Leading axes of the results.

        Examples
        --------
        >>> import delassus as ds
        >>> arm = ds.mechanisms.chain(7)
        >>> kernel = ds.compile(arm, [ds.Weld("link7")], "delassus")
        >>> G, q = kernel.empty_results(100), arm.random(0, batch=100)
        >>> kernel(q, out=G) is G
        True
        """
        made = result_arrays(None, self.results, check_batch(batch), self.dtype)
        return made[0] if len(made) == 1 else tuple(made)

    # -- other targets ---------------------------------------------------------------------------------------------

    def program(self) -> Program:
        """The program before it is code (traced again)."""
        return make_program(self.request)

    def export_c(self, folder: str | Path) -> tuple[Path, Path]:
        """Write the kernel as C99, one ``.h`` and one ``.c`` that need only ``math.h``; returns their paths."""
        from delassus.compiler.emit.c import write_c

        return write_c(self.program(), check_path("folder", folder), "double" if self.dtype == np.float64 else "float")

    def casadi(self) -> Any:
        """The kernel as a ``casadi.Function``, for derivatives and optimisation; needs the extra ``casadi``."""
        from delassus.compiler.emit.casadi import casadi_function

        return casadi_function(self.program())

    # -- states ----------------------------------------------------------------------------------------------------

    def run(
        self, arrays: Arrays, results: Arrays, batch: Batch, threads: int | None, with_status: bool = False
    ) -> tuple[NDArray[np.bool_], NumpyCase | None]:
        """Run the machine code; solve the states that it has not solved by `_fallback`, and those left on NumPy.

        Returns the mask (*batch) of the states that were solved on NumPy, and what has solved them.
        """
        pivots = self._run(arrays, results, batch, threads)
        left = np.zeros(batch, dtype=bool)
        if not pivots and not with_status:
            return left, None
        has_no_status = with_status and self.method in ITERATIVE  # a fixed number of iterations
        chosen = self._doubtful(results, pivots, with_status) | has_no_status
        if not chosen.any():
            return left, None
        where = np.nonzero(chosen) if batch else chosen
        some = [x[where] for x in arrays]
        n = len(some[0])
        case: NumpyCase | None
        if has_no_status or not pivots or self._fallback is None:
            values = dict(zip((a.name for a in self.arguments), some, strict=True))
            case = on_numpy = solve_doubtful(self.request, values, (n,))
            found, again = list(on_numpy.run().values()), np.ones(n, dtype=bool)
        else:
            some = [x.astype(self._fallback.dtype) for x in some]
            found = [np.empty((n, *r.shape)) for r in self.results]
            again, case = self._fallback.run(some, found, (n,), threads, with_status)
        with np.errstate(over="ignore"):  # numbers beyond float32
            for result, x in zip(results, found, strict=True):
                result[where] = x
        left[where] = again
        return left, case

    @cached_property
    def _fallback(self) -> Kernel | None:
        """The same in float64, by a method that eliminates no rows early; None if this is it."""
        method = "ltl" if self.method in EARLY else self.method
        if method == self.method and self.dtype == np.float64:
            return None
        reason = f", for states that {self.method!r} in {self.dtype} does not solve"
        return Kernel(replace(self.request, method=method), "float64", host().lanes("float64"), reason)

    def _run(self, arrays: Arrays, results: Arrays, batch: Batch, threads: int | None) -> list[NDArray[Any]]:
        """Run the machine code; returns the smallest pivots, if it makes any."""
        n = prod(batch)
        pivots = [np.empty(batch, dtype=self.dtype)] if self._is_judged else []
        number = number_of(threads, n * self.operations.total)
        over_states(self._batch, [*arrays, *results, *pivots], self._strides, n, number, self.lanes)
        return pivots

    def roll(self, arrays: Arrays, batch: Batch, steps: int, threads: int | None) -> NDArray[np.bool_]:
        """Run the rollout of a time step in place; see `delassus.rollout`, which makes the arrays.

        Of the state they are trajectories (steps + 1, *batch, …) whose first rows are set, of what moves (steps,
        *batch, …), of the others (*batch, …). Returns the mask (steps, *batch) of the steps that are not solved.
        """
        n, after = prod(batch), [trajectory[1:] for trajectory in arrays[: len(self.results)]]
        pivots = [np.empty((steps, *batch), dtype=self.dtype)] if self._is_judged else []

        def run(states: int, *addresses: int) -> None:
            self._roll(states, n, steps, *addresses)

        number = number_of(threads, n * steps * self.operations.total)
        over_states(run, [*arrays, *after, *pivots], self._strides, n, number, self.lanes)
        return self._doubtful(after, pivots)

    @cached_property
    def _roll(self) -> Any:
        """Machine code of a rollout: number of states, states side by side, steps, pointers."""
        return self._function("roll", 3)

    def _function(self, name: str, counts: int) -> Any:
        """Machine code that takes so many counts and a pointer for each array."""
        types = [ctypes.c_int64] * counts + [ctypes.c_void_p] * len(self._strides)
        function: Any = ctypes.CFUNCTYPE(None, *types)(self._code.address(name))
        function.code = self._code  # which must stay while it runs, on whatever thread
        return function

    def _doubtful(self, results: Arrays, pivots: Arrays, watch_all: bool = False) -> NDArray[np.bool_]:
        """States whose pivots are too small or whose results are not finite."""
        out = np.logical_or.reduce([~(pivot >= self._least_pivot) for pivot in pivots])
        for k in range(len(results)) if watch_all else (watched_result(len(results)),):
            entries = list(range(len(self.results[k].shape)))
            total = np.einsum(results[k], [Ellipsis, *entries], [Ellipsis])  # thrice as fast as sum(axis=…)
            out = out | ~np.isfinite(total)
        return np.asarray(out)

    def warn_once(self, count: int, total: int) -> None:
        """Say that states were solved on NumPy, the first time that it happens."""
        if not self._has_warned:
            self._has_warned = True
            warn(
                f"{self!r}: {count} of {total} state(s) were solved again on NumPy, which is slow: rows are dependent "
                f"there, or numbers are not finite. return_status=True says which, and silences this. Drop redundant "
                f"rows, or compile with method='proximal', which solves dependent ones."
            )


def statuses(doubtful: NDArray[np.bool_], case: NumpyCase | None) -> NDArray[np.object_]:
    """How each state was solved: those that are not doubtful by the machine code, the others by ``case``."""
    out = np.full(doubtful.shape, DynamicsStatus.SOLVED, dtype=object)
    if case is not None:
        out[doubtful] = case.status
    return out
