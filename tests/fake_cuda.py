"""A fake of `cuda.bindings.driver`: memory, streams and launches of GPUs that there are not, on the host.

`install` puts it in the place of the module. Streams do nothing before something waits for them, and then only what
that has to come after: what is not ordered is not done. Launches run the assembly that PTX comes from, thread by thread
(`emulated_gpu`). What a driver answers by an error is answered so; what it would do without a word, or as it likes, is
a `Misuse`, raised at once and kept in `faults`. Numbers and types are those of the package.
"""

from __future__ import annotations

import base64
import bisect
import ctypes
import functools
import re
import sys
import threading
import time
import types
import zlib
from collections import Counter, deque

import numpy as np
import pytest

from emulated_gpu import GUARD, SHARED, Misuse, check_guards, kernel_of, poisoned, ptx
from internals import driver

real = pytest.importorskip("cuda.bindings.driver")

POISONED = b"\xf5\xff"


class Refused(Exception):
    """A driver's answer other than success, by its name without what all begin with."""

    def __init__(self, name):
        self.code = getattr(real.CUresult, f"CUDA_ERROR_{name}")


class Device:
    """A GPU, its primary context, and what is in that."""

    def __init__(self, number, capability, memory, name):
        self.number, self.capability, self.total, self.name = number, capability, memory, name
        self.used, self.context, self.legacy = 0, 0x1000 * (number + 1), Stream(self, blocking=True)

    def attributes(self):
        """By their names without what all begin with."""
        return {"MULTIPROCESSOR_COUNT": 4, "CLOCK_RATE": 1_980_000, "MEMORY_CLOCK_RATE": 2_619_000,
                "GLOBAL_MEMORY_BUS_WIDTH": 6144, "L2_CACHE_SIZE": 50 << 20, "MEMORY_POOLS_SUPPORTED": 1,
                "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536, "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
                "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": SHARED + 1024, "WARP_SIZE": 32,
                "COMPUTE_CAPABILITY_MAJOR": self.capability[0],
                "COMPUTE_CAPABILITY_MINOR": self.capability[1]}  # fmt: skip


class Stream:
    """Work in order, each with what it comes after: pairs of a stream and how much of that."""

    def __init__(self, device, blocking):
        self.device, self.blocking = device, blocking
        self.queue, self.begun, self.done = deque(), 0, 0

    def run(self, until):
        """Do so much of what was ever begun on it, and what that comes after."""
        while self.done < until:
            after, work = self.queue.popleft()
            for stream, mark in after:
                stream.run(mark)
            self.done += 1
            work()


class Allocation:
    """Memory of a device. ``is_there``: its stream has come to its allocation, and not to its end."""

    def __init__(self, device, size, is_there):
        self.device, self.size, self.memory, self.is_there = device, size, poisoned(size), is_there
        self.address, self.freed = self.memory.ctypes.data + GUARD, False

    def free(self):
        self.check()
        self.memory[:] = np.frombuffer(POISONED * (len(self.memory) // 2 + 1), np.uint8)[: len(self.memory)]
        self.is_there = False

    def check(self):
        check_guards(self.memory, self.size, f"memory of {self.size} bytes")


def api(outputs=0, context=True, started=True):
    """A function of the driver: a tuple of its result and of so many outputs, which are None where it fails."""

    def wrap(function):
        @functools.wraps(function)
        def call(self, *arguments):
            name = function.__name__
            with self.lock:
                self.calls[name] += 1
                try:
                    if name in self.failures:
                        raise Refused(self.failures[name])
                    if started and not self.started:
                        raise Refused("NOT_INITIALIZED")
                    if context and self.current is None:
                        raise Refused("INVALID_CONTEXT")
                    found = function(self, *arguments)
                except Refused as refused:
                    return (refused.code, *[None] * outputs)
                except Misuse as misuse:
                    self.faults.append(str(misuse))
                    raise
            return (real.CUresult.CUDA_SUCCESS, *([] if not outputs else [found] if outputs == 1 else found))

        return call

    return wrap


class FakeCuda(types.ModuleType):
    """The module.

    Attributes
    ----------
    devices : list of Device
    calls : Counter
        Of functions by their names.
    failures : dict
        Functions that fail, and with what: ``{"cuMemAllocAsync": "OUT_OF_MEMORY"}``.
    waits : list of str
        Functions that waited for a device.
    launches : list of tuple
        Device, stream, blocks, threads of a block, bytes of shared memory, and the values of parameters.
    faults : list of str
        What was misused.
    """

    def __init__(self, devices=2, capability=(9, 0), memory=1 << 28, driver=13000, ptx=(9, 0), has_driver=True,
                 order=None):  # fmt: skip
        """``order`` draws the order in which so many threads run from wait to wait."""
        super().__init__("cuda.bindings.driver")
        self.devices = [Device(k, capability, memory, f"Fake {k}") for k in range(devices)]
        self.driver, self.ptx_version, self.has_driver, self.order = driver, ptx, has_driver, order
        self.started, self.lock, self.own = False, threading.RLock(), threading.local()
        self.calls, self.failures, self.waits, self.launches, self.faults = Counter(), {}, [], [], []
        self.memory, self.addresses, self.numbers = {}, [], 0x10000
        self.streams, self.events, self.modules, self.functions = {}, {}, {}, {}

    def __getattr__(self, name):
        if name.startswith("CU"):
            return getattr(real, name)
        raise AttributeError(name)

    # -- what a test asks ------------------------------------------------------------------------------------------

    def live(self):
        """What is neither freed nor destroyed: numbers of allocations, streams, events, modules."""
        memory = sum(not a.freed for a in self.memory.values())
        counts = {name: len(getattr(self, name)) for name in ("streams", "events", "modules")}
        return {"memory": memory, **counts}

    def check(self):
        """Nothing was misused, nor written outside of what was allocated."""
        for a in self.memory.values():
            a.check()
        assert not self.faults, self.faults

    # -- streams ---------------------------------------------------------------------------------------------------

    @property
    def stack(self):
        """Devices whose contexts were made current in this thread, one over the other."""
        if not hasattr(self.own, "stack"):
            self.own.stack = [None]
        return self.own.stack

    @property
    def current(self):
        return self.stack[-1]

    def _stream(self, given):
        number = int(given or 0)
        return self.current.legacy if number in (0, 1) else self._known(self.streams, number)

    def _known(self, kind, given):
        if int(given) not in kind:
            raise Refused("INVALID_HANDLE")
        return kind[int(given)]

    def _begin(self, stream, work, uses=(), after=()):
        """Put work on a stream, after what its kind of stream waits for."""
        device = stream.device
        if device is not self.current:
            raise Refused("INVALID_HANDLE")
        if stream is device.legacy:
            of = [s for s in self.streams.values() if s.device is device and s.blocking]
        else:
            of = [device.legacy] if stream.blocking else []

        def checked():
            for a in uses:
                if not a.is_there:
                    raise Misuse("memory is used before its stream has allocated it, or after it has freed it")
                if a.device is not device:
                    raise Misuse(f"memory of device {a.device.number} is used on device {device.number}")
            work()
            for a in uses:
                a.check()

        stream.queue.append(([*after, *((s, s.begun) for s in of)], checked))
        stream.begun += 1

    def _wait(self, name, *streams):
        self.waits.append(name)
        for stream in streams:
            stream.run(stream.begun)

    def _kept(self, kind, what):
        """Handle of something."""
        self.numbers += 16
        kind[self.numbers] = what
        return self.numbers

    # -- start, devices, contexts ----------------------------------------------------------------------------------

    @api(started=False, context=False)
    def cuInit(self, Flags):
        if not self.has_driver:
            raise RuntimeError('"cuda" is an NVIDIA driver library and can only be found via system search.')
        if not self.devices:
            raise Refused("NO_DEVICE")
        self.started = True

    @api(1, started=False, context=False)
    def cuDriverGetVersion(self):
        return self.driver

    @api(1, context=False)
    def cuDeviceGetCount(self):
        return len(self.devices)

    @api(1, context=False)
    def cuDeviceGet(self, ordinal):
        return real.CUdevice(ordinal)

    @api(1, context=False)
    def cuDeviceGetName(self, length, dev):
        return (self.devices[int(dev)].name.encode() + b"\0").ljust(length)

    @api(1, context=False)
    def cuDeviceGetAttribute(self, attrib, dev):
        return self.devices[int(dev)].attributes()[attrib.name.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    @api(1, context=False)
    def cuDevicePrimaryCtxRetain(self, dev):
        return real.CUcontext(self.devices[int(dev)].context)

    @api(context=False)
    def cuCtxPushCurrent(self, ctx):
        self.stack.append(next(d for d in self.devices if d.context == int(ctx)))

    @api(1)
    def cuCtxPopCurrent(self):
        return real.CUcontext(self.stack.pop().context)

    @api(1, context=False)
    def cuThreadExchangeStreamCaptureMode(self, mode):
        before = getattr(self.own, "mode", real.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
        self.own.mode = mode
        return before

    # -- modules ---------------------------------------------------------------------------------------------------

    @api(1)
    def cuModuleLoadDataEx(self, image, numOptions, options, optionValues):
        if not numOptions == len(options) == len(optionValues) or b"\0" not in bytes(image):
            raise Misuse("cuModuleLoadDataEx: so many options were not given, or PTX has no end")
        text = bytes(image).split(b"\0")[0].decode()
        version = re.search(r"^\.version (\d+)\.(\d+)", text, re.M)
        if tuple(map(int, version.groups())) > self.ptx_version:
            raise Refused("UNSUPPORTED_PTX_VERSION")
        return real.CUmodule(self._kept(self.modules, (self.current, kernel_of(assembly_of(text)))))

    @api(1)
    def cuModuleGetFunction(self, hmod, name):
        device, kernel = self._known(self.modules, hmod)
        if name != b"kernel":
            raise Refused("NOT_FOUND")
        return real.CUfunction(self._kept(self.functions, [device, kernel, int(hmod), 48 << 10]))

    @api()
    def cuModuleUnload(self, hmod):
        device, _ = self._known(self.modules, hmod)
        if device is not self.current:
            raise Refused("INVALID_CONTEXT")
        del self.modules[int(hmod)]

    @api()
    def cuFuncSetAttribute(self, hfunc, attrib, value):
        if attrib.name == "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES":
            if not 0 <= value <= SHARED:
                raise Refused("INVALID_VALUE")
            self._known(self.functions, hfunc)[3] = value

    @api()
    def cuLaunchKernel(self, f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
                       kernelParams, extra):  # fmt: skip
        device, kernel, module, most_shared = self._known(self.functions, f)
        stream, threads = self._stream(hStream), blockDimX * blockDimY * blockDimZ
        if module not in self.modules or device is not self.current or stream.device is not device:
            raise Refused("INVALID_HANDLE")
        if min(gridDimX, gridDimY, gridDimZ, threads) < 1 or threads > 1024 or sharedMemBytes > most_shared:
            raise Refused("INVALID_VALUE")
        if extra or {gridDimY, gridDimZ, blockDimY, blockDimZ} != {1} or threads % 32:
            raise Misuse("cuLaunchKernel: more than one dimension, parameters in two places, or no whole warps")
        arguments, uses = parameters(kernel.types, kernelParams), []
        for kind, value in zip(kernel.types, arguments, strict=True):
            if kind.startswith("ptr") and any(value):  # arrays of no numbers may be nowhere
                uses.append(self._at(int.from_bytes(value, "little"), 1, "cuLaunchKernel"))
        values = [int.from_bytes(x, "little") if len(x) == 8 else x for x in arguments]
        self.launches.append((device.number, int(hStream or 0), gridDimX, threads, sharedMemBytes, values))
        self._begin(stream, lambda: kernel.launch(gridDimX, threads, sharedMemBytes, arguments, self.order), uses)

    # -- memory ----------------------------------------------------------------------------------------------------

    def _new(self, size, is_there):
        if size == 0:
            raise Refused("INVALID_VALUE")
        if self.current.used + size > self.current.total:
            raise Refused("OUT_OF_MEMORY")
        self.current.used += size
        allocation = Allocation(self.current, size, is_there)
        self.memory[allocation.address] = allocation
        bisect.insort(self.addresses, allocation.address)
        return allocation

    def _at(self, address, size, what):
        """The allocation that so many bytes lie in."""
        k = bisect.bisect_right(self.addresses, int(address))
        found = self.memory[self.addresses[k - 1]] if k else None
        if found is None or found.freed or int(address) + size > found.address + found.size:
            raise Misuse(f"{what}: {size} bytes at {int(address):#x} are not, or no longer, a device's")
        return found

    def _release(self, dptr, what):
        found = self.memory.get(int(dptr))
        if found is None or found.freed or found.device is not self.current:
            raise Misuse(f"{what}: no memory of this device, or memory that is freed already")
        found.freed = True
        found.device.used -= found.size
        return found

    @api(1)
    def cuMemAlloc(self, bytesize):
        return real.CUdeviceptr(self._new(bytesize, True).address)

    @api(1)
    def cuMemAllocAsync(self, bytesize, hStream):
        stream, found = self._stream(hStream), self._new(bytesize, False)
        self._begin(stream, lambda: setattr(found, "is_there", True))
        return real.CUdeviceptr(found.address)

    @api()
    def cuMemFree(self, dptr):
        found = self._release(dptr, "cuMemFree")
        device = self.current
        self._wait("cuMemFree", device.legacy, *(s for s in self.streams.values() if s.device is device))
        found.free()

    @api()
    def cuMemFreeAsync(self, dptr, hStream):
        found = self._release(dptr, "cuMemFreeAsync")
        self._begin(self._stream(hStream), found.free, [found])

    @api(2)
    def cuMemGetInfo(self):
        return self.current.total - self.current.used, self.current.total

    def _copy(self, what, stream, size, to, origin):
        """Copy between addresses: those of a device are known."""
        uses, ends = [], []
        for address in (to, origin) if size else ():
            if isinstance(address, int):
                view = np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8)
                if address is origin:
                    view = view.copy()  # as drivers do with pageable memory
            else:
                uses.append(self._at(address, size, what))
                at = int(address) - uses[-1].address + GUARD
                view = uses[-1].memory[at : at + size]
            ends.append(view)
        if size:
            self._begin(stream, lambda: np.copyto(*ends), uses)

    @api()
    def cuMemcpyHtoD(self, dstDevice, srcHost, ByteCount):
        self._copy("cuMemcpyHtoD", self.current.legacy, ByteCount, real.CUdeviceptr(int(dstDevice)), srcHost)
        self._wait("cuMemcpyHtoD", self.current.legacy)

    @api()
    def cuMemcpyHtoDAsync(self, dstDevice, srcHost, ByteCount, hStream):
        there = real.CUdeviceptr(int(dstDevice))
        self._copy("cuMemcpyHtoDAsync", self._stream(hStream), ByteCount, there, srcHost)

    @api()
    def cuMemcpyDtoH(self, dstHost, srcDevice, ByteCount):
        self._copy("cuMemcpyDtoH", self.current.legacy, ByteCount, dstHost, real.CUdeviceptr(int(srcDevice)))
        self._wait("cuMemcpyDtoH", self.current.legacy)

    @api()
    def cuMemcpyDtoHAsync(self, dstHost, srcDevice, ByteCount, hStream):
        there = real.CUdeviceptr(int(srcDevice))
        self._copy("cuMemcpyDtoHAsync", self._stream(hStream), ByteCount, dstHost, there)

    @api()
    def cuMemcpyDtoDAsync(self, dstDevice, srcDevice, ByteCount, hStream):
        ends = (real.CUdeviceptr(int(x)) for x in (dstDevice, srcDevice))
        self._copy("cuMemcpyDtoDAsync", self._stream(hStream), ByteCount, *ends)

    @api()
    def cuMemsetD32Async(self, dstDevice, ui, N, hStream):
        found = self._at(dstDevice, 4 * N, "cuMemsetD32Async")
        at = int(dstDevice) - found.address + GUARD
        view = found.memory[at : at + 4 * N].view(np.uint32)
        self._begin(self._stream(hStream), lambda: view.fill(ui), [found])

    @api(1, context=False)
    def cuPointerGetAttribute(self, attribute, ptr):
        try:
            found = self._at(ptr, 1, "")
        except Misuse:
            raise Refused("INVALID_VALUE") from None
        known = {"CONTEXT": real.CUcontext(found.device.context), "DEVICE_ORDINAL": found.device.number}
        return known[attribute.name.removeprefix("CU_POINTER_ATTRIBUTE_")]

    # -- streams and events ----------------------------------------------------------------------------------------

    @api(1)
    def cuStreamCreate(self, Flags):
        return real.CUstream(self._kept(self.streams, Stream(self.current, blocking=not int(Flags))))

    @api()
    def cuStreamDestroy(self, hStream):
        stream = self._known(self.streams, hStream)
        del self.streams[int(hStream)]
        self._begin(stream.device.legacy, lambda: stream.run(stream.begun))  # a driver still does what was begun

    @api()
    def cuStreamSynchronize(self, hStream):
        self._wait("cuStreamSynchronize", self._stream(hStream))

    @api()
    def cuStreamWaitEvent(self, hStream, hEvent, Flags):
        mark = self._known(self.events, hEvent)["mark"]
        self._begin(self._stream(hStream), lambda: None, after=[mark] if mark else [])

    @api(1)
    def cuStreamGetCtx(self, hStream):
        return real.CUcontext(self._stream(hStream).device.context)

    @api(1)
    def cuEventCreate(self, Flags):
        return real.CUevent(self._kept(self.events, {"device": self.current, "mark": None, "time": None}))

    @api()
    def cuEventRecord(self, hEvent, hStream):
        event, stream = self._known(self.events, hEvent), self._stream(hStream)
        if event["device"] is not stream.device:
            raise Refused("INVALID_HANDLE")
        self._begin(stream, lambda: event.update(time=time.perf_counter()))
        event["mark"] = (stream, stream.begun)

    @api()
    def cuEventSynchronize(self, hEvent):
        self.waits.append("cuEventSynchronize")
        stream, mark = self._known(self.events, hEvent)["mark"]
        stream.run(mark)

    @api()
    def cuEventDestroy(self, hEvent):
        self._known(self.events, hEvent)
        del self.events[int(hEvent)]

    @api(1)
    def cuEventElapsedTime(self, hStart, hEnd):
        start, end = (self._known(self.events, event)["time"] for event in (hStart, hEnd))
        if start is None or end is None:
            raise Refused("NOT_READY")
        return 1e3 * (end - start)


def parameters(kinds, given):
    """Values of a launch's parameters: addresses at an address; or values and their types of C."""
    if isinstance(given, tuple):
        values, types_ = given
        found = [bytes(kind(int(x) if kind is ctypes.c_void_p else x)) for x, kind in zip(values, types_, strict=True)]
        if [len(x) for x in found] != [4 if kind in ("float", "i32") else 8 for kind in kinds]:
            raise Misuse(f"a kernel has {kinds}; values of {types_} came")
        return found
    addresses = np.frombuffer((ctypes.c_char * (8 * len(kinds))).from_address(given), np.uint64)
    sizes = {"float": 4, "i32": 4}
    return [ctypes.string_at(int(a), sizes.get(kind, 8)) for a, kind in zip(addresses, kinds, strict=True)]


MARK = "// assembly: "


def with_assembly(make):
    """PTX that a function makes of assembly, with that at its end: caches keep both."""

    @functools.wraps(make)
    def made(assembly, *others, **named):
        text = make(assembly, *others, **named)
        return f"{text}\n{MARK}{base64.b64encode(zlib.compress(assembly.encode(), 1)).decode()}\n"

    return made


def assembly_of(ptx):
    """Assembly of PTX that comes from `with_assembly`."""
    if MARK not in ptx:
        raise Misuse("PTX that was made before the fake was installed")
    return zlib.decompress(base64.b64decode(ptx.split(MARK)[1].split()[0])).decode()


def install(monkeypatch, **options):
    """Put a fake, with some options, in the place of the driver; what is known of another is forgotten."""
    fake, parent, package = FakeCuda(**options), types.ModuleType("cuda"), types.ModuleType("cuda.bindings")
    parent.bindings, package.driver = package, fake
    for module in (parent, package, fake):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(driver, "_driver", None)
    made = with_assembly(ptx)
    for name, module in list(sys.modules.items()):
        if name.startswith("delassus"):
            for k, value in list(vars(module).items()):
                if value is ptx:
                    monkeypatch.setattr(module, k, made)
    return fake
