"""Calls of kernels on GPUs: with arrays on a device, which stay there, and with arrays of NumPy, a block a device."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.constraints import Argument
from delassus.errors import ConfigurationError, shown
from delassus.runtime.any_kernel import AnyKernel
from delassus.runtime.arrays import (
    Batch,
    batch_of_all,
    check_dtype,
    check_shape,
    checked,
    each_out,
    gathered,
    leading,
    ordered,
    result_arrays,
)
from delassus.runtime.cuda.arrays import (
    Array,
    device_of,
    is_on_device,
    known,
    made,
    module_of,
    number,
    repeated,
    stream_of,
)
from delassus.runtime.cuda.driver import LEGACY_STREAM, Device, Memory, Stream, driver

LEAST_BLOCK = 4096
"""States of NumPy's arrays that a further device is worth."""

NUMBERS = (int, float, np.number, np.bool_)
"""Types of what may come from the host beside arrays on a device, and stands for all states."""


class LaunchedKernel(AnyKernel):
    """A kernel that a device runs."""

    @abstractmethod
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
        """Run it on arrays at addresses of a device."""


# -- arrays on a device --------------------------------------------------------------------------------------------


class _Library:
    """Arrays of one library on one device, in the order of one stream: what calls need of them.

    CuPy makes results itself, from its own memory; other libraries take over ours.
    """

    def __init__(self, first: Any, name: str, stream: int | None) -> None:
        """``first``: an array that says of which library and where; ``stream``: another one than it is written on."""
        self.module, own = module_of(first), stream_of(first)
        self.device: Device = driver().device(device_of(first, name))
        self.stream: int = stream if stream is not None else LEGACY_STREAM if own is None else own
        self.is_other = stream is not None and stream != own
        self.is_cupy = getattr(self.module, "__name__", "") == "cupy"
        self.copied_on = set[int]()

    @contextmanager
    def current(self) -> Iterator[None]:
        """What the library does itself is on the device and, of CuPy, on the stream."""
        if not self.is_cupy:
            yield
            for stream in self.copied_on:  # where its copies are freed
                self.device.follow(stream, [self.stream])
            return
        cuda = self.module.cuda
        with cuda.Device(self.device.number):
            if self.is_other:
                with cuda.ExternalStream(self.stream):
                    yield
            else:
                yield

    def empty(self, shape: Batch, dtype: np.dtype[Any]) -> Array:
        """Array for results, or for what stays inside."""
        if self.is_cupy:
            return self._known(self.module.empty(shape, dtype), "")
        return made(shape, dtype, self.device, self.stream)

    def given_back(self, x: Array) -> Any:
        """A result, as an array of the library where that can be."""
        take: Callable[[Any], Any] | None = getattr(self.module, "from_dlpack", None)
        return x.owner if self.is_cupy or take is None else take(x.owner)

    def _known(self, x: Any, name: str) -> Array:
        """What is known of an array, after whose stream ours goes on."""
        found = known(x, name, self.device.number, self.stream)
        if found.stream is not None:
            self.device.follow(self.stream, [found.stream])
        return found

    def argument(self, x: Any, argument: Argument, dtype: np.dtype[Any]) -> Array:
        """What is known of an argument, (..., shape of one state), contiguous and of the kernel's type."""
        name = argument.name
        if isinstance(x, NUMBERS):
            return number(checked(x, argument, dtype, name), self.device, self.stream)
        if not is_on_device(x):
            advice = "Move it there, or pass all arrays as NumPy's."
            raise ConfigurationError(name, f"an array on {self.device!r}, as another is", shown(x), advice)
        if module_of(x) is not self.module:
            came = " and ".join(sorted({str(getattr(m, "__name__", None)) for m in (self.module, module_of(x))}))
            raise ConfigurationError("kernel", "arrays of one library", f"some of {came}", "Convert them.")
        if (there := device_of(x, name)) != self.device.number:
            wanted, came = f"an array on {self.device!r}, as another is", f"one on device {there}"
            raise ConfigurationError(name, wanted, came, "Move it there.")
        found = self._known(x, name)
        check_dtype(found.dtype, dtype, name, argument)
        check_shape(found.shape, argument.shape, name)
        if found.dtype != dtype:
            found = self._copy(name, f"dtype {dtype}", f"dtype {found.dtype}", lambda _: x.astype(str(dtype)))
        if not found.is_contiguous:
            origin = found.owner
            found = self._copy(name, "a C-contiguous array", "one that is not", lambda m: m.ascontiguousarray(origin))
        return found

    def whole(self, x: Array, argument: Argument, batch: Batch) -> Array:
        """An argument for all states: a copy, where it is not given for each."""
        own, shape = leading(x, argument), (*batch, *argument.shape)
        if own == batch:
            return x
        if prod(own) == 1:
            found = repeated(x, prod(batch), self.device, self.stream)
            found.shape = shape
            return found
        return self._copy(
            argument.name,
            f"an array of shape {shape}",
            f"one of shape {x.shape}",
            lambda m: m.ascontiguousarray(m.broadcast_to(x.owner, shape)),
        )

    def _copy(self, name: str, wanted: str, came: str, copy: Callable[[Any], Any]) -> Array:
        """A copy that functions like NumPy's make of an argument, if the library has such: if not, an error."""
        if not hasattr(self.module, "ascontiguousarray"):
            raise ConfigurationError(name, wanted, came, "Make a copy of it that is so.")
        found = self._known(copy(self.module), name)
        if found.stream is not None:
            self.copied_on.add(found.stream)
        return found

    def results(self, out: Any, kernel: LaunchedKernel, batch: Batch, arrays: Sequence[Array]) -> list[Array]:
        """Arrays for the results: new ones, or those given."""
        shapes = [(*batch, *r.shape) for r in kernel.results]
        if out is None:
            return [self.empty(shape, kernel.dtype) for shape in shapes]
        found = [self._out(x, s, kernel.dtype) for x, s in zip(each_out(out, kernel.results), shapes, strict=True)]
        for k, x in enumerate(found):
            if any(x.overlaps(other) for other in (*arrays, *found[:k])):
                owner = "an argument" if any(x.overlaps(other) for other in arrays) else "another result"
                raise ConfigurationError("out", "memory of its own", f"memory of {owner}", "Pass another array.")
        return found

    def _out(self, out: Any, shape: Batch, dtype: np.dtype[Any]) -> Array:
        wanted = f"a writeable C-contiguous array of shape {shape}, dtype {dtype}, on {self.device!r}"
        came = shown(out)
        if is_on_device(out):
            there = device_of(out, "out")
            x = known(out, "out", there, self.stream)
            is_right = x.shape == shape and x.dtype == dtype and there == self.device.number
            if is_right and x.is_contiguous and x.is_writeable:
                return self._known(out, "out")
            how = f"{'' if x.is_contiguous else ', with gaps'}{'' if x.is_writeable else ', read-only'}"
            came = f"shape {x.shape}, dtype {x.dtype}, on device {there}{how}"
        raise ConfigurationError("out", wanted, came, "Make it with the library of the arguments.")

    def check_arithmetic(self) -> None:
        """Refuse to estimate errors for a library without arithmetic."""
        if not (hasattr(self.module, "maximum") and (self.is_cupy or hasattr(self.module, "from_dlpack"))):
            wanted = "arrays of a library with arithmetic"
            raise ConfigurationError("return_error", wanted, "others", "Pass those of CuPy, or of NumPy.")

    def estimates(self, rcond: Array) -> Any:
        """Estimates of relative errors, in float64."""
        eps, x = float(np.finfo(rcond.dtype).eps), self.given_back(rcond).astype("float64")
        return self.module.maximum(eps / self.module.maximum(x, 0.0), eps)


def call_on_device(
    kernel: LaunchedKernel,
    given: Sequence[Any],
    named: Mapping[str, Any],
    out: Any,
    stream: int | None,
    return_error: bool,
) -> Any:
    """Results of a kernel on the device of its arguments; with estimates of errors, if they are asked for."""
    arguments, dtype = kernel.arguments, kernel.dtype
    names = [a.name for a in arguments]
    complete = ordered(names, given, named)
    first = next(k for k, x in enumerate(complete) if is_on_device(x))
    library = _Library(complete[first], names[first], stream)
    if return_error:
        library.check_arithmetic()
    with library.current():
        arrays = [library.argument(x, a, dtype) for x, a in zip(complete, arguments, strict=True)]
        batch = batch_of_all(names, [leading(x, a) for x, a in zip(arrays, arguments, strict=True)])
        arrays = [library.whole(x, a, batch) for x, a in zip(arrays, arguments, strict=True)]
        results = library.results(out, kernel, batch, arrays)

        def run(made: LaunchedKernel, results: Sequence[Array]) -> Array | None:
            rcond = library.empty(batch, dtype) if made.has_rcond else None
            every = [*arrays, *results, *([] if rcond is None else [rcond])]
            least = -inf if return_error else None
            made.launch(library.device.number, library.stream, prod(batch), [x.address for x in every], least=least)
            return rcond

        rcond = run(kernel, results)
        estimator = kernel.error_estimator
        if return_error and estimator is not None and estimator is not kernel:
            rcond = run(estimator, [library.empty(x.shape, dtype) for x in results])
        found = [library.given_back(x) for x in results] if out is None else each_out(out, kernel.results)
        if return_error and rcond is not None:
            return kernel.returned([*found, library.estimates(rcond)], "error")
        return out if out is not None else kernel.returned(found)


# -- arrays of NumPy -----------------------------------------------------------------------------------------------


def call_from_host(
    kernel: LaunchedKernel, given: Sequence[Any], named: Mapping[str, Any], out: Any, return_error: bool
) -> Any:
    """Results of a kernel, of arrays of NumPy: a block of the batch on each device, which is waited for."""
    arrays, batch = gathered(kernel.arguments, given, named, kernel.dtype)
    results = result_arrays(out, kernel.results, batch, kernel.dtype, arrays)
    rcond, n = np.empty(batch, kernel.dtype), prod(batch)
    if n:
        devices = driver().devices[: max(1, n // LEAST_BLOCK)]
        ends = [n * k // len(devices) for k in range(len(devices) + 1)]

        def run(device: Device, first: int, end: int) -> None:
            _block(kernel, device, [*arrays, *results, rcond], first, end - first, return_error)

        if len(devices) == 1:
            run(devices[0], 0, n)
        else:
            with ThreadPoolExecutor(len(devices), thread_name_prefix="delassus") as pool:
                list(pool.map(run, devices, ends, ends[1:]))
    if not return_error:
        return out if out is not None else kernel.returned(results)
    eps = np.finfo(kernel.dtype).eps
    with np.errstate(divide="ignore"):
        return kernel.returned([*results, np.maximum(eps / np.maximum(rcond.astype(float), 0.0), eps)], "error")


def _block(
    kernel: LaunchedKernel, device: Device, arrays: Sequence[NDArray[Any]], first: int, n: int, return_error: bool
) -> None:
    """Compute n states from ``first`` on, on a device; the last of the arrays is for reciprocal conditions."""
    stream = Stream(device)
    numbers = [*(a.size for a in kernel.arguments), *(r.size for r in kernel.results), 1]
    sizes = [size * kernel.dtype.itemsize for size in numbers]
    places = [(x.ctypes.data + first * size, n * size) for x, size in zip(arrays, sizes, strict=True)]
    inputs = len(kernel.arguments)
    there = [Memory(device, size, stream) for _, size in places]
    with device.current() as call:
        for memory, (address, size) in zip(there[:inputs], places[:inputs], strict=True):
            if size:
                call("cuMemcpyHtoDAsync", memory.address, address, size, stream.handle)
        least = -inf if return_error else None

        def run(made: LaunchedKernel, there: Sequence[Memory]) -> None:
            pointers = [memory.address for memory in (there if made.has_rcond else there[:-1])]
            made.launch(device.number, stream.handle, n, pointers, least=least)

        run(kernel, there)
        for memory, (address, size) in zip(there[inputs:-1], places[inputs:-1], strict=True):
            if size:
                call("cuMemcpyDtoHAsync", address, memory.address, size, stream.handle)
        if return_error:
            estimator = kernel.error_estimator
            if estimator is not None and estimator is not kernel:
                run(estimator, there)
            (address, size), memory = places[-1], there[-1]
            call("cuMemcpyDtoHAsync", address, memory.address, size, stream.handle)
    stream.wait()
