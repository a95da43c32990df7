"""`CudaKernel`: a kernel's code on NVIDIA's GPUs."""

from __future__ import annotations

import ctypes
import re
import struct
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from delassus.compiler.machine.ptx import ARCHITECTURE, MOST_STATES, THREADS, shared_bytes
from delassus.compiler.targets.llvm.threads import WARP
from delassus.errors import ConfigurationError, shown
from delassus.frozen import cached_property
from delassus.model.check import check_flag, check_whole, library_of
from delassus.quantities.request import Request
from delassus.runtime import libraries
from delassus.runtime.any_kernel import made_request, the_same
from delassus.runtime.code import DeviceCode, key_of_ptx
from delassus.runtime.cuda.arrays import is_on_device
from delassus.runtime.cuda.calls import LaunchedKernel, call_from_host, call_on_device
from delassus.runtime.cuda.driver import Driver, Loaded, driver

OWN_WAYS = {"JAX", "PyTorch", "Dask"}
"""Libraries whose arrays are traced, differentiated or cut into blocks."""

OF_PROCESSOR: Mapping[str, str] = {
    "lanes": "A thread has one state; leave it out.",
    "address": "Call launch, or load what ptx() returns.",
    "solve": "return_error=True estimates errors; statuses are of target='cpu'.",
}
"""What kernels for the processor have besides, and what to do."""


class CudaKernel(LaunchedKernel):
    """Compiled function of a batch of states on NVIDIA's GPUs, a state a thread; made by ``compile(target="cuda")``.

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
    has_rcond : bool
        Whether the device gets one more result: the reciprocal condition of each state.

    It is the kernel for the processor in all but its calls. It is compiled to PTX, once, without a GPU, and by the
    driver for a device at the first call there, which takes seconds and must not be captured in a graph; the driver
    keeps it. A graph that has captured calls needs the kernel as long as it is replayed.

    Examples
    --------
    >>> import delassus as ds
    >>> arm = ds.mechanisms.chain(7)
    >>> kernel = ds.compile(arm, [ds.Weld("link7")], "delassus", dtype="float32", target="cuda")
    >>> ".entry kernel" in kernel.ptx()
    True
    """

    target = "cuda"

    def __init__(self, request: Request, dtype: str, reason: str = "", error_bound: float | None = None) -> None:
        self.code = DeviceCode(made_request(request, dtype, error_bound), dtype, reason)
        super().__init__(request, dtype, error_bound, self.code)
        self.least = -np.inf if self.iterates or not self.has_rcond else self.least_rcond
        self._launches: dict[int, _Launch] = {}
        self._loading = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Compile again, or load from the cache, on the other side: once for all equal kernels."""
        return restored_for_gpus, (self.request, self.dtype.name, self.error_bound)

    def __getattr__(self, name: str) -> Any:
        """Say what kernels for the processor alone have."""
        advice = f": it is of kernels for the processor. {OF_PROCESSOR[name]}" if name in OF_PROCESSOR else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{advice}")

    def _of(self, asked: Request, reason: str) -> Self:
        return type(self)(asked, self.dtype.name, reason, self.error_bound)

    @cached_property
    def identity(self) -> str:
        """Identity of the kernel, the same in every process."""
        return f"{key_of_ptx(self.request, self.dtype.name, ARCHITECTURE)}_{self.least_rcond!r}"

    def ptx(self, architecture: str = ARCHITECTURE) -> str:
        """Text of the kernel in PTX, for loaders of your own; needs no GPU.

        Its entry is ``kernel(n, steps, least, a0, a0_step, …)``: numbers of states and of time steps (1) in 64 bits;
        the least reciprocal condition, of the kernel's type, below which a state's results are NaN; for each argument
        and each result, and the reciprocal condition if `has_rcond`, its address and the numbers (not bytes, in 64
        bits) from one time step to the next, or 0. Arrays are row-major, state after state. Blocks have a multiple of
        32 threads, together at least one a state, and 132 bytes of shared memory a thread, in float64 264.

        Parameters
        ----------
        architecture : str
            Oldest GPUs that it is for; the driver compiles it for all later ones.

        Raises
        ------
        ConfigurationError
            Another text than ``sm_75`` or one above it.
        """
        found = re.fullmatch(r"sm_(\d{2,3})", architecture) if isinstance(architecture, str) else None
        if found is None or int(found[1]) < int(ARCHITECTURE.removeprefix("sm_")):
            raise ConfigurationError("architecture", f"{ARCHITECTURE!r} or above", shown(architecture), "Leave it out.")
        return self.code.ptx(architecture)

    # -- calls -----------------------------------------------------------------------------------------------------

    def launch(
        self,
        device: int,
        stream: int,
        n: int,
        pointers: Sequence[int],
        strides: Sequence[int] | None = None,
        steps: int = 1,
        least: float | None = None,
    ) -> None:
        """Run the kernel on arrays at addresses of a device: without waiting, allocating, or any check of the arrays.

        All of them must be there until the device has run it.

        Parameters
        ----------
        device : int
            Its number among those that the process sees.
        stream : int
            Handle of a stream of the device's primary context; 0 is its default stream.
        n : int
            Number of states.
        pointers : sequence of int
            Addresses on the device of arrays (n, shape of one state), C-contiguous, of the kernel's type: those of all
            arguments, of all results and, if `has_rcond`, of the reciprocal conditions (n,).
        strides : sequence of int, optional
            For each of ``pointers`` the numbers (not bytes) from one time step to the next: 0 where all steps have the
            same. Results of a step that are arguments of the next have one array: see `delassus.rollout`.
        steps : int
            Number of time steps that a thread makes, one after the other.
        least : float, optional
            Results of states whose reciprocal condition is below it are NaN, all of them; ``-inf`` is for none. By
            default that of the kernel's ``error_bound``; of contact steps, which tell residuals, for none.

        Raises
        ------
        DeviceError, MissingDependencyError
            No driver, no such device, or one that is too old; errors of the driver.
        ConfigurationError
            Another number of pointers or strides, or more states than a launch can have.
        """
        launch = self._launches.get(device)
        if launch is None or launch.driver.is_parents:
            launch = self._launch_on(device)
        expected = launch.arrays
        if len(pointers) != expected or (strides is not None and len(strides) != expected):
            came = f"{len(pointers)} pointers" + ("" if strides is None else f" and {len(strides)} strides")
            names = [*(a.name for a in self.arguments), *(r.name for r in self.results), *["rcond"] * self.has_rcond]
            raise ConfigurationError("pointers", f"{expected}: {', '.join(names)}", came, "Pass one for each.")
        if not 0 <= n <= MOST_STATES:
            wanted = f"0 to {MOST_STATES} states"
            raise ConfigurationError("n", wanted, f"{n}", "Call with a part of the batch at a time.")
        if n and steps > 0:
            launch.run(stream, n, pointers, strides, steps, self.least if least is None else least)

    def loaded(self, device: int) -> Loaded:
        """The code on a device, loaded if it is not."""
        return (self._launches.get(device) or self._launch_on(device)).loaded

    def _launch_on(self, device: int) -> _Launch:
        """Load the code on a device."""
        started = driver()
        with self._loading:
            found = self._launches.get(device)
            if found is None or found.driver is not started:
                sizes = [*(a.size for a in self.arguments), *(r.size for r in self.results)]
                what = f"{self.request.title} of {self.request.tree.name}"
                loaded = Loaded(started.device(device), self.ptx(), what)
                found = self._launches[device] = _Launch(loaded, self.dtype, len(sizes) + self.has_rcond)
        return found

    def __call__(
        self, *arguments: Any, out: Any = None, stream: int | None = None, return_error: bool = False,
        return_status: bool = False, threads: None = None, **named: Any,
    ) -> Any:  # fmt: skip
        """Run the kernel.

        Parameters
        ----------
        *arguments : array
            One array for each of `arguments`, each (..., shape of one state), of the kernel's dtype; leading axes are
            batches and broadcast. Arrays on a GPU stay there: those of CuPy, tensors of PyTorch, arrays of JAX, and of
            whatever library has ``__cuda_array_interface__`` or DLPack, all of one library on one device; a Python
            number stands for all states. What is not contiguous, given for fewer states or of whole numbers is copied,
            by its own library where that has functions like NumPy's. Arrays of NumPy are copied over, a block of the
            batch to each device that the process sees (from 4,096 states a device on), and the results back.
        out : array or tuple of arrays, optional
            C-contiguous arrays of the results' shapes and the kernel's dtype to write to, on the same device, or of
            NumPy where the arguments are: one array if there is one result, else a tuple.
        stream : int, optional
            Handle of the stream to run on, for arrays on a device: that of CuPy, PyTorch or JAX that is current, or
            on which the first argument is written, if it is not given.
        return_error : bool
            Whether to return an estimate of each state's relative error, too, and the results as they are. Where a
            second kernel makes them, that is compiled for the first such call.
        return_status : bool
            False: statuses need states that are solved again, which is for ``target="cpu"``.
        threads : None
            Of kernels for the processor.
        **named : array
            The last arguments, by their names.

        Returns
        -------
        array or tuple of arrays
            Results (..., shape of one state), of the library of the arguments, a named tuple if there are several;
            ``out`` if it was given. A library that can neither make arrays nor take them over by DLPack gets objects
            with ``__cuda_array_interface__``. Results on a device are there when what was begun on the stream is done:
            nothing waits here, but for results of NumPy. With ``return_error`` a tuple that ends with an array (...) of
            error estimates. Without, states whose estimate is above the bound of `compile` are NaN in all results, for
            nothing solves them again; contact steps return theirs with their residuals.

        Raises
        ------
        ConfigurationError
            Wrong number, shape or dtype of arrays; arrays of several libraries or devices.
        DeviceError, MissingDependencyError
            No driver, no device, one that is too old, or not enough memory; errors of the driver, those of kernels
            before it among them.
        """
        if threads is not None:
            raise ConfigurationError("threads", "None with target='cuda'", shown(threads), "Leave it out.")
        if check_flag("return_status", return_status):
            advice = "return_error=True estimates errors; or compile with target='cpu'."
            raise ConfigurationError("return_status", "False with target='cuda'", "True", advice)
        if check_flag("return_error", return_error) and not self.has_rcond:
            raise ConfigurationError("return_error", f"False of {self!r}", "True", "It divides by nothing.")
        given = (*arguments, *named.values())
        of, on_device = {library_of(type(x)) for x in given} - {""}, any(map(is_on_device, given))
        if others := of & OWN_WAYS or (of if not on_device else set()):
            return libraries.call(self, others, arguments, named, out is None and stream is None and not return_error)
        if on_device:
            number = None if stream is None else check_whole("stream", stream, "Pass a handle.")
            return call_on_device(self, arguments, named, out, number, return_error)
        if stream is not None:
            raise ConfigurationError("stream", "None, for arrays of NumPy", shown(stream), "Leave it out.")
        return call_from_host(self, arguments, named, out, return_error)

    @cached_property
    def error_estimator(self) -> Self:
        """Kernel that estimates errors by residuals of solutions; this one if it estimates them by pivots."""
        if not self.request.solves or self.error_dtype:
            return self
        return self._of(replace(self.request, error_dtype=self.dtype.name), ", to estimate errors")


class _Launch:
    """A kernel's code on a device, and what its launches are prepared with.

    Attributes
    ----------
    driver : Driver
    arrays : int
        Number of pointers.
    """

    def __init__(self, loaded: Loaded, dtype: np.dtype[Any], arrays: int) -> None:
        self.driver: Driver = loaded.device.driver
        self.context = loaded.device.context
        self.loaded, self.device, self.arrays, self.item = loaded, loaded.device, arrays, dtype.itemsize
        loaded.allow_shared(shared_bytes(THREADS, self.item))
        self._numbers = struct.Struct(f"<qq{'d' if self.item == 8 else 'f4x'}{'Qq' * arrays}")
        self._free: deque[tuple[ctypes.Array[ctypes.c_char], ctypes.Array[ctypes.c_void_p]]] = deque()

    def _record(self) -> tuple[ctypes.Array[ctypes.c_char], ctypes.Array[ctypes.c_void_p]]:
        """Memory for a launch's numbers, and their addresses; what threads and signal handlers have is not shared."""
        try:
            return self._free.pop()
        except IndexError:
            numbers = ctypes.create_string_buffer(self._numbers.size)
            start, count = ctypes.addressof(numbers), self._numbers.size // 8
            return numbers, (ctypes.c_void_p * count)(*range(start, start + 8 * count, 8))

    def run(
        self, stream: int, n: int, pointers: Sequence[int], strides: Sequence[int] | None, steps: int, least: float
    ) -> None:
        """Launch n states."""
        record = numbers, addresses = self._record()
        pairs = [0] * (2 * self.arrays)
        pairs[::2] = pointers
        if strides is not None:
            pairs[1::2] = strides
        self._numbers.pack_into(numbers, 0, n, steps, least, *pairs)
        warps = -(-n // WARP)
        together = max(1, min(THREADS // WARP, warps // self.device.processors))  # warps of a block
        threads, grid = together * WARP, -(-warps // together)
        cu, at = self.driver.cu, ctypes.addressof(addresses)
        (code,) = cu.cuCtxPushCurrent(self.context)  # without `Device.current`, which takes a microsecond more
        if int(code):
            raise self.driver.error(code, "cuCtxPushCurrent")
        try:
            (code,) = cu.cuLaunchKernel(
                self.loaded.function, grid, 1, 1, threads, 1, 1, shared_bytes(threads, self.item), stream, at, 0
            )
        finally:
            cu.cuCtxPopCurrent()
        self._free.append(record)
        if int(code):
            raise self.driver.error(code, "cuLaunchKernel")


def restored_for_gpus(request: Request, dtype: str, error_bound: float | None) -> CudaKernel:
    """Kernel that has been pickled, the same one as long as it lives."""
    return the_same(CudaKernel, request, dtype, "", error_bound)
