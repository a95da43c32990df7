"""`Kernel`: compiled code that is called with NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from inspect import signature
from math import prod
from operator import is_not
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.accuracy.status import HARMLESS, DynamicsStatus, Resolved, warn_of
from delassus.compiler.jit.compile import c_function
from delassus.compiler.machine.cpu import host
from delassus.errors import ConfigurationError, warn
from delassus.frozen import cached_property
from delassus.model.check import check_flag, check_whole, library_of
from delassus.quantities import find_quantity
from delassus.quantities.request import Request, request
from delassus.quantities.results import ForwardDynamics
from delassus.runtime import libraries
from delassus.runtime.any_kernel import CpuKernel, the_same
from delassus.runtime.arrays import Arrays, Batch, gathered, result_arrays
from delassus.runtime.calls import call_of
from delassus.runtime.fallback import solve_states
from delassus.runtime.fastcall import direct_entry
from delassus.runtime.rollouts.loop import Closing, Feedback, run_steps
from delassus.runtime.threads import CHUNKS, at_once, number_of, over_states


class Kernel(CpuKernel):
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

    The code for fewer states than `lanes` and the code for more are compiled apart, each at the first call with so
    many: what must answer in time later calls it once before, or asks for its `address`.

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
        dtype: str,
        lanes: int,
        reason: str = "",
        error_bound: float | None = None,
        wait: bool | None = True,
    ) -> None:
        """``wait``: as of `MachineCode`."""
        super().__init__(request, dtype, lanes, reason, error_bound, wait)
        self._roll: Any = c_function(run_steps) if request.is_rolled else None
        self._solved_again = False  # some states of the last call, which the entry then does not find out anew
        self.__call__: Callable[..., Any] = direct_entry(self, self._call, is_helped=True)

    def __reduce__(self) -> tuple[Any, ...]:
        """Compile again, or load from the cache, on the other side: once for all equal kernels."""
        lanes = self.lanes if self.lanes != host().lanes(self.dtype.name) else None
        return restored, (self.request, self.dtype.name, lanes, "", self.error_bound, self._wait)

    def address(self, states: int) -> int:
        """Address of the machine code for so many states: of their number, a pointer for each argument and result.

        Where results divide, one more pointer is for the reciprocal condition of each state. The code is for all
        numbers of states that are below `lanes`, or for all others: it is compiled when it is first asked for.
        """
        return self.code.compiled(check_whole("states", states, "", least=1)).address("batch")

    def _call(
        self, *arguments: ArrayLike, out: Any = None, threads: int | None = None, return_status: bool = False,
        return_error: bool = False, **named: ArrayLike,
    ) -> Any:  # fmt: skip
        """Run the kernel.

        Parameters
        ----------
        *arguments : array_like
            One array for each of `arguments`, each (..., shape of one state); leading axes are batches and broadcast.
            Contiguous arrays of the kernel's dtype are read in place; nothing is validated beyond shape and dtype:
            NaN and quaternions that are not of unit length give results to match, in their own state only; where ranges
            and effort limits cut controls off, a NaN becomes a limit.
        out : array or tuple of arrays, optional
            C-contiguous arrays of the results' shapes and the kernel's dtype to write to: one array if there is one
            result, else a tuple. `empty_results` makes them at cache lines, as a call without ``out`` does; elsewhere,
            vector stores take up to twice as long.
        threads : int, optional
            1 stays on this thread; None decides by the size of the batch, up to the environment variable
            ``DELASSUS_THREADS``. Two are this one and a helper that is kept.
        return_status : bool
            Whether to return how each state was solved, too: of dynamics, its derivatives and time steps.
        return_error : bool
            Whether to return an estimate of each state's relative error, too; see `ForwardDynamics.error_estimate`.
            Of dynamics and time steps, and of their derivatives where loops are, a second kernel makes them, compiled
            for the first such call.
        **named : array_like
            The last arguments, by their names.

        Returns
        -------
        array or named tuple of arrays
            Results (..., shape of one state), if there are several a tuple whose fields have the names of `results`;
            ``out`` if it was given. With ``return_status`` a tuple that ends with ``status``, an array (...) of
            `DynamicsStatus`, with ``return_error`` one that ends with ``error``, an array (...) of estimates.
            States whose estimate is above the bound of `compile` are solved again, as direct calls solve them.
            Calls that meet any of these warn, unless they return statuses or errors: of each status by itself, and of
            states that are fine when solved again. Python's filters show each of these once a line, or as they are set.
            Batches of 64 and more do not warn of states that the program by which direct calls begin solves: another
            process compiles it once a call has met some.

        Raises
        ------
        ConfigurationError
            Wrong number, shape or dtype of arrays.
        """
        asked = (return_status is not False or return_error is not False) and self._asked(return_status, return_error)
        is_plain = not (asked or named) and len(arguments) == len(self.arguments) and type(arguments[0]) is np.ndarray
        tries = not self._solved_again
        if tries and is_plain and type(threads) is int and threads == 1:  # without threads=, the entry has declined it
            found = self.entry(*arguments) if out is None else self.entry(*arguments, out=out)
            if found is not NotImplemented:
                return found
        if others := {library_of(type(x)) for x in (*arguments, *named.values())} - {""}:
            return libraries.call(self, others, arguments, named, out is None and threads is None and not asked)
        arrays, batch = gathered(self.arguments, arguments, named, self.dtype)
        is_alone = threads is None or number_of(threads, 0) == 1 or prod(batch) <= self.lanes
        is_new = named or threads is not None or any(map(is_not, arrays, arguments))  # to the entry
        if tries and is_alone and is_new and not asked:
            found = self.entry(*arrays) if out is None else self.entry(*arrays, out=out)
            if found is not NotImplemented:
                return found
        results = result_arrays(out, self.results, batch, self.dtype, arrays)
        if asked:
            return self._with_status(arrays, results, batch, threads, is_alone, return_status, return_error)
        run = solve_states(self, arrays, results, batch, threads)
        self._solved_again = bool(run.again.any())
        if self._solved_again:
            self.warn_once(run.counts, run.again.size)
        return out if out is not None else self.returned(results)

    def _with_status(
        self, arrays: Arrays, results: Arrays, batch: Batch, threads: int | None, is_alone: bool, *asked: bool
    ) -> Any:
        """Results with status, error or both; is_alone: on this thread, or a number of them that nobody has asked."""
        status, error = asked
        if is_alone and not error and self.has_rcond and self.request.knows_rank:
            if self.entry(*arrays, out=tuple(results) if len(results) > 1 else results[0]) is not NotImplemented:
                return self.returned([*results, np.full(batch, DynamicsStatus.SOLVED, dtype=object)], "status")
        run = solve_states(self, arrays, results, batch, threads, status, error)
        given = {**({"status": run.status} if status else {}), **({"error": run.error} if error else {})}
        return self.returned([*results, *given.values()], *given)

    def _asked(self, return_status: bool, return_error: bool) -> bool:
        """Whether status or error are asked for, which not every kernel has."""
        if check_flag("return_status", return_status) and not (self.request.has_status or self.iterates):
            raise ConfigurationError("return_status", f"False of {self!r}", "True", "Dynamics have a status.")
        if check_flag("return_error", return_error) and not self.has_rcond:
            raise ConfigurationError("return_error", f"False of {self!r}", "True", "It divides by nothing.")
        return return_status or return_error

    # calls go to machine code at once, and from there, if need be, to `_call`
    __slots__ = {"__call__": _call.__doc__}
    __signature__ = property(lambda self: signature(self._call))
    # `torch.compile` traces what is behind objects that say so, and knows no slots
    _torchdynamo_orig_callable, _torchdynamo_wrapper_id = property(lambda self: self._call), property(id)

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
        if report is None or self.request.derivative or self.request.options.active:
            wanted = "compiled 'dynamics' without `active`, with all outputs"
            raise ConfigurationError("kernel", wanted, repr(self), "Call it instead.")
        arrays, batch = gathered(self.arguments, arguments, named, self.dtype)
        results = result_arrays(None, self.results, batch, self.dtype)
        run = solve_states(self, arrays, results, batch, threads, True, True)
        qdd, forces = (x.astype(float) for x in results)
        rank, redundant = np.full(batch, forces.shape[-1]), np.zeros(forces.shape, dtype=bool)
        if run.call is not None:
            rank[run.again], redundant[run.again] = run.call.resolved.rank, run.call.resolved.redundant
        values = {a.name: x.astype(float) for a, x in zip(self.arguments, arrays, strict=True)}
        call = call_of(self.request, values, batch)
        call.resolved = Resolved(qdd, forces, run.status, rank, redundant, run.error)
        solution: ForwardDynamics = report(call, {})
        return solution

    # -- states ----------------------------------------------------------------------------------------------------

    @property
    def fallback(self) -> None:
        """None: states that this kernel does not solve are solved as direct calls, by no other kernel."""

    @cached_property
    def error_estimator(self) -> Kernel:
        """Kernel that estimates errors by residuals of solutions; this one if it estimates them by pivots."""
        if not self.request.solves or self.error_dtype:
            return self
        asked = replace(self.request, error_dtype=self.dtype.name)
        return Kernel(asked, self.dtype.name, self.lanes, ", to estimate errors", self.error_bound, self._wait)

    @cached_property
    def judge(self) -> CpuKernel | None:
        """As of `CpuKernel`, of what has a status; another process compiles it, and nobody waits for that."""
        asked = replace(self.request, error_dtype="float64")
        if not asked.has_status or asked.derivative or (self.error_dtype and self.dtype == np.float64):
            return None
        return the_same(Kernel, asked, "float64", host().lanes("float64"), ", to judge states", self.error_bound, False)

    @cached_property
    def difference(self) -> Kernel:
        """Kernel of the "difference" of configurations, of as many lanes."""
        return Kernel(request(self.request.tree, (), find_quantity("difference")), self.dtype.name, self.lanes)

    @cached_property
    def integrate(self) -> Kernel:
        """Kernel of the configuration after a displacement, of as many lanes."""
        return Kernel(request(self.request.tree, (), find_quantity("integrate")), self.dtype.name, self.lanes)

    def roll(
        self,
        arrays: Arrays,
        results: Arrays,
        batch: Batch,
        steps: int,
        threads: int | None,
        totals: Sequence[NDArray[Any] | None] = (),
        feedback: Feedback | None = None,
        *,
        closing: Closing | None = None,
        surer: Kernel | None = None,
    ) -> NDArray[np.bool_]:
        """Run a time step, or a derivative of one, ``steps`` times in place; see `delassus.rollout`.

        What is read or written anew at each step has time as its first axis, ``(steps, *batch, …)``, in the order of
        the steps; the others are ``(*batch, …)``. After each step, its results are added to ``totals``, those that are
        given. With ``feedback``, controls are written before each; with ``closing``, loops are closed after each. What
        is not solved is made again by the ``surer`` kernel of the same step.
        Returns the mask ``(steps, *batch)`` of the steps that are not solved.
        """
        n, shapes = prod(batch), [*(a.shape for a in self.arguments), *(r.shape for r in self.results)]
        rcond = [np.empty((steps, *batch), dtype=self.dtype)] if self.has_rcond else []
        added = [(k, x) for k, x in enumerate(totals, len(arrays)) if x is not None]
        of_feedback, law = ([], []) if feedback is None else feedback.record(len(arrays), len(shapes) + len(rcond))
        of_loops, closes = list[Any](), list[int]()
        if closing is not None:
            (dt,) = (x for a, x in zip(self.arguments, arrays, strict=True) if a.name == "dt")
            of_loops, closes = closing.record(results[0], results[1], dt, len(shapes) + len(rcond) + len(of_feedback))
        beside = [*of_feedback, *of_loops]
        every = [*arrays, *results, *rcond, *(x for x, _ in beside), *(x for _, x in added)]
        shapes += [() for _ in rcond] + [shape for _, shape in beside] + [shapes[k] for k, _ in added]
        depths = [len(batch) + len(shape) for shape in shapes]
        times = [x.strides[0] if x.size and x.ndim > depth else 0 for x, depth in zip(every, depths, strict=True)]
        sums = [number for k, _ in added for number in (k, prod(shapes[k]))]
        of_surer = surer.code.of(n).address("span") if surer is not None and n and rcond else 0
        again = [of_surer, len(arrays) + len(results), int(np.float64(self.least_rcond).view(np.int64))]
        numbers = [len(every), len(added), len(law), len(closes), *again, *sums, *law, *closes]
        record, item = (ctypes.c_int64 * len(numbers))(*numbers), self.dtype.itemsize

        def run(states: int, *addresses: int, first: int = 0, some: int = steps) -> None:
            places, span = (ctypes.c_int64 * (2 * len(every)))(*addresses, *times), code.address("span")
            for k, of_step in enumerate(times):
                places[k] += first * of_step
            self._roll(span, ctypes.addressof(places), ctypes.addressof(record), states, some, self.lanes, item)

        if n:
            code, several = self.code.of(n), number_of(threads, n * steps * self.operations.total)
            strides = [prod(shape) * item for shape in shapes]
            states = max(min(n, self.lanes), n // (several * CHUNKS))  # of a chunk; memory is in the order of steps
            together = at_once(states * self.operations.total)
            for first in range(0, steps, together):
                some = min(together, steps - first)
                part = partial(run, first=first, some=some)
                over_states(part, every, strides, n, several, self.lanes, None, some * self.operations.total)
        return self.ill_conditioned(rcond, (steps, *batch))

    def warn_once(self, counts: Mapping[Any, int], total: int) -> None:
        """Warn of states that the machine code has not solved by itself, ``counts`` as `Run` has them.

        Each kind is a warning of its own, which Python's filters show once a line of the caller, or as they are set.
        """
        which = "return_status" if self.iterates or self.request.has_status else "return_error"
        silence, whose = f"{which}=True says which, and silences this.", repr(self)
        what = "step" if self.iterates else "state"
        warn_of(whose, counts, total, silence, what)
        fine = sum(counts.get(status, 0) for status in HARMLESS)
        if not fine:
            return
        said = f"{whose}: {fine} of {total} {what}(s) "
        if self.iterates:
            said += "have residuals above the tolerance after the kernel's sweeps, and were made again with more"
            silence += " Compile with more sweeps, or a shorter time step."
        else:
            said += (
                "have an estimated error above the bound and were solved again, as by a direct call, which is slow. "
                "Drop redundant rows, or compile with method='proximal', which solves dependent ones"
            )
        warn(f"{said}. {silence}", kind=f"{whose}: solved again")


def restored(
    request: Request, dtype: str, lanes: int | None, reason: str, error_bound: float | None, wait: bool = True
) -> Kernel:
    """Kernel that has been pickled, the same one while it lives; without ``lanes`` with those of this processor."""
    return the_same(Kernel, request, dtype, lanes or host().lanes(dtype), reason, error_bound, wait)
