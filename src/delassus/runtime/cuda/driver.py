"""NVIDIA's driver, by `cuda.bindings.driver`: devices with their primary contexts, modules, launches, memory, streams.

Primary contexts are those that PyTorch, JAX and CuPy use, so that their arrays and streams are known here. A context is
current only during a call of the driver: what was current before is so afterwards.

Nothing here waits for a device but `Stream.wait`, and what says so.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from delassus.errors import DeviceError, MissingDependencyError, announced, missing_dependency
from delassus.frozen import cached_property

LEGACY_STREAM = 1
"""Handle of the default stream that all blocking streams wait for, and that waits for them."""

ABI = 12000
"""Version of CUDA by which functions are called at their addresses."""

LOG = 8192
"""Bytes of what the driver says of PTX that it refuses."""

USUAL_SHARED = 48 * 1024
"""Bytes of shared memory that a block may have without being asked for."""

TOOL = "compute-sanitizer names the kernel and the address."
LOST = f"The process must start anew. Look for an array that was freed or is too short for the call: {TOOL}"
FORKED = "a child that was forked from a process that uses the GPU"

ADVICE = {
    "ILLEGAL_ADDRESS": LOST,
    "MISALIGNED_ADDRESS": LOST,
    "INVALID_ADDRESS_SPACE": LOST,
    "INVALID_PC": LOST,
    "LAUNCH_FAILED": LOST,
    "ILLEGAL_INSTRUCTION": LOST,
    "HARDWARE_STACK_ERROR": LOST,
    "ASSERT": LOST,
    "ECC_UNCORRECTABLE": "The device's memory has a fault: nvidia-smi -q -d ECC shows it. Use another device.",
    "LAUNCH_TIMEOUT": "A device with a display ends long kernels: call with fewer states or steps.",
    "LAUNCH_OUT_OF_RESOURCES": "Another library may have limited what a kernel may use; tell us of the device.",
    "CONTEXT_IS_DESTROYED": "Somebody has reset the device: start the process anew.",
    "INVALID_CONTEXT": "Somebody has reset the device: start the process anew.",
    "DEVICE_UNAVAILABLE": "Another process has the device for itself: nvidia-smi -q -d COMPUTE shows the mode.",
    "STREAM_CAPTURE_UNSUPPORTED": "Call the kernel once before the stream is captured.",
    "STREAM_CAPTURE_IMPLICIT": "Call the kernel once before the stream is captured.",
    "INVALID_HANDLE": "Pass a stream of this device that is not destroyed.",
    "SYSTEM_DRIVER_MISMATCH": "The library and the driver of the system differ: restart the system.",
    "SYSTEM_NOT_READY": "The fabric manager does not run: systemctl start nvidia-fabricmanager.",
    "STUB_LIBRARY": "Take CUDA's stubs out of LD_LIBRARY_PATH.",
}
"""What to do about errors of the driver, by their names without ``CUDA_ERROR_``."""


class Driver:
    """The driver, as this process has started it.

    Attributes
    ----------
    cu : module
        `cuda.bindings.driver`.
    version : tuple of two integers
        CUDA that the driver is for.
    devices : list of Device
        Those that the process sees (``CUDA_VISIBLE_DEVICES``), by their numbers.
    is_parents : bool
        Whether this process has been forked since.
    """

    def __init__(self) -> None:
        try:
            from cuda.bindings import driver as cu
        except ImportError as cause:
            raise missing_dependency("cuda-python", "cuda", "kernels on a GPU") from cause
        self.cu, self.is_parents = cu, False
        try:
            code = int(cu.cuInit(0)[0])
        except Exception as cause:  # what it raises where there is no library of the driver has changed over time
            raise _no_driver(f"none: {str(cause).rstrip('.')}") from cause
        if code:
            self._raise_of_start(cu.CUresult(code).name.removeprefix("CUDA_ERROR_"))
        version = self.call("cuDriverGetVersion")
        self.version = version // 1000, version % 1000 // 10
        self.devices = [Device(self, k) for k in range(self.call("cuDeviceGetCount"))]
        if not self.devices:
            raise _no_device()

    def _raise_of_start(self, name: str) -> None:
        if name == "NO_DEVICE":
            raise _no_device()
        if name == "NOT_INITIALIZED":  # another library has started it before the fork
            raise _forked()
        raise _no_driver(name, ADVICE.get(name))

    def call(self, function: str, *arguments: Any) -> Any:
        """What a function of the driver returns: nothing, one thing, or a tuple; or `DeviceError`."""
        code, *found = getattr(self.cu, function)(*arguments)
        if int(code):
            raise self.error(code, function)
        return (found[0] if len(found) == 1 else tuple(found)) if found else None

    def address_of(self, function: str) -> int:
        """Address of a function of the driver, for machine code that calls it."""
        return int(self.call("cuGetProcAddress", function.encode(), ABI, 0)[0])

    def error(self, code: Any, function: str) -> DeviceError:
        """Error for a code that a function of the driver has returned."""
        name = self.cu.CUresult(int(code)).name.removeprefix("CUDA_ERROR_")
        advice = ADVICE.get(name, "The driver's documentation says what it means.")
        return DeviceError(f"{function} of CUDA's driver", "success", name, advice)

    def device(self, number: int) -> Device:
        """The device of a number."""
        if not 0 <= number < len(self.devices):
            wanted = f"one of the {len(self.devices)} devices that this process sees"
            raise DeviceError("device", wanted, f"{number}", "CUDA_VISIBLE_DEVICES says which ones are seen.")
        return self.devices[number]


_driver: Driver | None = None
_starting = threading.Lock()


def driver() -> Driver:
    """The driver, started when it is first asked for; or `DeviceError`."""
    global _driver
    if _driver is None:
        with _starting:
            if _driver is None:
                _driver = Driver()
    if _driver.is_parents:
        raise _forked()
    return _driver


def _after_fork() -> None:
    """In a child: the parent's contexts are none here, and nobody releases its lock."""
    global _starting
    _starting = threading.Lock()
    if _driver is not None:
        _driver.is_parents = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _forked() -> DeviceError:
    advice = "Start processes by multiprocessing's 'spawn' or 'forkserver', or call kernels only after the fork."
    return DeviceError("CUDA", "a process that starts it itself", FORKED, advice)


def _no_driver(came: str, advice: str | None = None) -> MissingDependencyError:
    advice = advice or "Install NVIDIA's driver (nvidia-smi shows it), or compile with target='cpu'."
    return MissingDependencyError("kernels on a GPU", "NVIDIA's driver", came, advice)


def _no_device() -> DeviceError:
    advice = "nvidia-smi lists devices, CUDA_VISIBLE_DEVICES hides them; or compile with target='cpu'."
    return DeviceError("kernels on a GPU", "a device", "a driver that sees none", advice)


class Device:
    """A device, by its number among those that the process sees.

    Attributes
    ----------
    name : str
    capability : tuple of two integers
        Its compute capability.
    processors : int
        Number of streaming multiprocessors.
    """

    def __init__(self, driver: Driver, number: int) -> None:
        self.driver, self.number = driver, number
        self.handle = driver.call("cuDeviceGet", number)
        self.name = driver.call("cuDeviceGetName", 256, self.handle).split(b"\0")[0].decode()
        self.capability = self._known("COMPUTE_CAPABILITY_MAJOR"), self._known("COMPUTE_CAPABILITY_MINOR")
        self.processors = self._known("MULTIPROCESSOR_COUNT")

    def __repr__(self) -> str:
        return f"device {self.number} ({self.name})"

    def _known(self, attribute: str) -> int:
        kind = getattr(self.driver.cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{attribute}")
        return int(self.driver.call("cuDeviceGetAttribute", kind, self.handle))

    @cached_property
    def context(self) -> Any:
        """The primary context, which stays until the process ends."""
        return self.driver.call("cuDevicePrimaryCtxRetain", self.handle)

    @cached_property
    def has_pools(self) -> bool:
        """Whether memory is allocated and freed in the order of a stream."""
        return bool(self._known("MEMORY_POOLS_SUPPORTED"))

    @contextmanager
    def current(self) -> Iterator[Callable[..., Any]]:
        """The driver's calls, `Driver.call`, with the context of this device."""
        self.driver.call("cuCtxPushCurrent", self.context)
        try:
            yield self.driver.call
        finally:
            with suppress(DeviceError):  # of an error that stays, what is raised inside says more
                self.driver.call("cuCtxPopCurrent")

    @contextmanager
    def beside_captures(self) -> Iterator[Callable[..., Any]]:
        """`current`, for calls that wait or allocate: streams that are being captured are not disturbed."""
        modes = self.driver.cu.CUstreamCaptureMode
        with self.current() as call:
            before = call("cuThreadExchangeStreamCaptureMode", modes.CU_STREAM_CAPTURE_MODE_RELAXED)
            try:
                yield call
            finally:
                call("cuThreadExchangeStreamCaptureMode", before)

    def follow(self, stream: int, others: Iterable[int]) -> None:
        """Let what comes next on a stream wait for what is on others now."""
        stream = stream or LEGACY_STREAM
        if left := {other or LEGACY_STREAM for other in others} - {stream}:
            flags = self.driver.cu.CUevent_flags.CU_EVENT_DISABLE_TIMING
            with self.current() as call:
                event = call("cuEventCreate", flags)
                try:
                    for other in left:
                        call("cuEventRecord", event, other)
                        call("cuStreamWaitEvent", stream, event, 0)
                finally:
                    call("cuEventDestroy", event)  # which the driver does when it is done with it


class Loaded:
    """A kernel's code on a device, compiled by the driver from PTX; unloaded with the last reference.

    Attributes
    ----------
    function : CUfunction
    """

    def __init__(self, device: Device, text: str, what: str) -> None:
        self.device, driver = device, device.driver
        kinds, errors = driver.cu.CUjit_option, bytearray(LOG)
        options = [kinds.CU_JIT_ERROR_LOG_BUFFER, kinds.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
        _check_architecture(device, text)
        image = text.encode() + b"\0"
        with announced(f"the driver compiling {what}", "compiled in"), device.beside_captures() as call:
            code, module = driver.cu.cuModuleLoadDataEx(image, len(options), options, [errors, LOG])
            if int(code):
                raise _not_loaded(driver, text, code, bytes(errors).split(b"\0")[0].decode(errors="replace"))
            self._unload = weakref.finalize(self, _unload, device, module)
            self._unload.atexit = False  # the driver does so
            self.function = call("cuModuleGetFunction", module, b"kernel")

    def allow_shared(self, size: int) -> None:
        """Let blocks have so many bytes of shared memory."""
        if size > USUAL_SHARED:
            kind = self.device.driver.cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            with self.device.current() as call:
                call("cuFuncSetAttribute", self.function, kind, size)


def _unload(device: Device, module: Any) -> None:
    """Unload a module, which the driver does after what runs on it."""
    if not device.driver.is_parents:
        with suppress(DeviceError), device.beside_captures() as call:
            call("cuModuleUnload", module)


def _check_architecture(device: Device, text: str) -> None:
    """Refuse a device that is older than what PTX is for."""
    found = re.search(r"^\.target sm_(\d+)(\d)", text, re.M)
    assert found is not None
    oldest = int(found[1]), int(found[2])
    if device.capability < oldest:
        wanted = "a device of compute capability {}.{} or above".format(*oldest)
        came = f"{device!r} of {'{}.{}'.format(*device.capability)}"
        raise DeviceError("kernels on a GPU", wanted, came, "Use a later device, or compile with target='cpu'.")


def _not_loaded(driver: Driver, text: str, code: Any, log: str) -> DeviceError:
    """Error for PTX that the driver refuses."""
    error = driver.error(code, "cuModuleLoadDataEx")
    found = re.search(r"^\.version (\d+)\.(\d+)", text, re.M)
    assert found is not None
    if error.got == "UNSUPPORTED_PTX_VERSION":
        wanted = f"a driver that knows PTX {found[1]}.{found[2]}"
        came = "one for CUDA {}.{}".format(*driver.version)
        advice = f"Install a driver for CUDA {needed(int(found[1]), int(found[2]))} or later."
        return DeviceError("kernels on a GPU", wanted, came, advice)
    if error.got == "OUT_OF_MEMORY":
        return out_of_memory(driver, "the code of a kernel and the memory of its threads", None)
    if log:
        return DeviceError("cuModuleLoadDataEx of CUDA's driver", "success", f"{error.got}: {log}", "Report it to us.")
    return error


def needed(major: int, minor: int) -> str:
    """Version of CUDA that PTX of a version came with, or one that is little later."""
    return f"{major + 4}.{minor}" if major >= 7 else "11.0"


def out_of_memory(driver: Driver, what: str, size: int | None) -> DeviceError:
    """Error for memory that the current device does not have; ``size`` in bytes."""
    free, total = driver.call("cuMemGetInfo")
    wanted = f"{what}{'' if size is None else f', {size / 2**20:,.1f} MiB,'} on the device"
    came = f"{free / 2**20:,.1f} MiB free of {total / 2**20:,.1f}"
    advice = "Call with a part of the batch at a time, or free what other libraries keep for themselves."
    return DeviceError("memory", wanted, came, advice)


class Memory:
    """Memory on a device, allocated and freed in the order of a stream; freed with the last reference.

    Attributes
    ----------
    device : Device
    address, size : int
        In bytes.
    stream : int
        Stream on which it is written.
    """

    def __init__(self, device: Device, size: int, of: int | Stream) -> None:
        """``of``: the stream; one of our own stays as long as the memory does."""
        stream = of if isinstance(of, int) else of.handle
        self.device, self.size, self.stream, self.address = device, size, stream, 0
        if not size:
            return
        with device.current():
            cu = device.driver.cu
            code, found = cu.cuMemAllocAsync(size, stream) if device.has_pools else cu.cuMemAlloc(size)
            if int(code):
                error = device.driver.error(code, "cuMemAlloc")
                raise out_of_memory(device.driver, "arrays", size) if error.got == "OUT_OF_MEMORY" else error
            self.address = int(found)
            self._free = weakref.finalize(self, _free, device, self.address, of)
            self._free.atexit = False  # the driver does so


def _free(device: Device, address: int, of: int | Stream) -> None:
    """Free memory, after what has been begun on its stream; without pools this waits for the device."""
    stream = of if isinstance(of, int) else of.handle
    if not device.driver.is_parents:
        with suppress(DeviceError), device.current() as call:
            if device.has_pools:
                call("cuMemFreeAsync", address, stream)
            else:
                call("cuMemFree", address)


class Stream:
    """A stream of our own, which no other waits for; destroyed with the last reference.

    Attributes
    ----------
    handle : int
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        with device.current() as call:
            made = call("cuStreamCreate", device.driver.cu.CUstream_flags.CU_STREAM_NON_BLOCKING)
            self.handle = int(made)
        self._destroy = weakref.finalize(self, _destroy, device, self.handle)
        self._destroy.atexit = False  # the driver does so

    def wait(self) -> None:
        """Wait until all that was begun on it is done."""
        with self.device.current() as call:
            call("cuStreamSynchronize", self.handle)


def _destroy(device: Device, stream: int) -> None:
    if not device.driver.is_parents:
        with suppress(DeviceError), device.current() as call:
            call("cuStreamDestroy", stream)
