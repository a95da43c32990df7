"""A fake of `cuda.bindings.driver`: memory, streams and launches of GPUs that there are not, on the host.

`install` puts it in the place of the module. Streams do nothing before something waits for them, and then only what
that has to come after: what is not ordered is not done. Launches run the assembly that PTX comes from, thread by thread
(`emulated_gpu`). What a driver answers by an error is answered so; what it would do without a word, or as it likes, is
a `Misuse`, raised at once and kept in `faults`.
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

from emulated_gpu import GUARD, SHARED, Misuse, check_guards, kernel_of, poisoned, ptx
from fake_cuda_names import ENUMS, TYPES, CUresult, DynamicLibNotFoundError
from internals import driver

POISONED = b"\xf5\xff"
REGISTERS = 65536
"""Of a multiprocessor."""


class Refused(Exception):
    """A driver's answer other than success, by its name without what all begin with."""

    def __init__(self, name):
        self.code = getattr(CUresult, f"CUDA_ERROR_{name}")


class Device:
    """A GPU, its primary context, and what is in that."""

    def __init__(self, number, capability, memory, name, pools):
        self.number, self.capability, self.total, self.name, self.pools = number, capability, memory, name, pools
        self.used, self.retained, self.context = 0, 0, 0x1000 * (number + 1)
        self.legacy = Stream(self, blocking=True)

    def attributes(self):
        """By their names without what all begin with."""
        return {
            "MAX_THREADS_PER_BLOCK": 1024, "WARP_SIZE": 32, "MAX_SHARED_MEMORY_PER_BLOCK": 48 << 10,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": SHARED, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": SHARED + 1024,
            "MAX_REGISTERS_PER_BLOCK": REGISTERS, "MAX_REGISTERS_PER_MULTIPROCESSOR": REGISTERS,
            "MULTIPROCESSOR_COUNT": 4, "CLOCK_RATE": 1_980_000, "MEMORY_CLOCK_RATE": 2_619_000,
            "GLOBAL_MEMORY_BUS_WIDTH": 6144,
            "L2_CACHE_SIZE": 50 << 20, "MAX_THREADS_PER_MULTIPROCESSOR": 2048, "UNIFIED_ADDRESSING": 1,
            "COMPUTE_CAPABILITY_MAJOR": self.capability[0], "COMPUTE_CAPABILITY_MINOR": self.capability[1],
            "MEMORY_POOLS_SUPPORTED": int(self.pools),
        }  # fmt: skip


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
            return (CUresult.CUDA_SUCCESS, *([] if not outputs else [found] if outputs == 1 else found))

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

    def __init__(self, devices=2, capability=(9, 0), memory=1 << 28, driver=13000, ptx=(9, 0), pools=True,
                 has_driver=True, registers=168, order=None):  # fmt: skip
        """``order`` draws the order in which so many threads run from wait to wait."""
        super().__init__("cuda.bindings.driver")
        self.devices = [Device(k, capability, memory, f"Fake {k}", pools) for k in range(devices)]
        self.driver, self.ptx_version, self.has_driver, self.registers = driver, ptx, has_driver, registers
        self.order, self.started, self.lock, self.own = order, False, threading.RLock(), threading.local()
        self.calls, self.failures, self.waits, self.launches, self.faults = Counter(), {}, [], [], []
        self.memory, self.addresses, self.numbers = {}, [], 0x10000
        self.streams, self.events, self.modules, self.functions, self.pinned = {}, {}, {}, {}, {}
        for name, kind in ENUMS.items() | TYPES.items():
            setattr(self, name, kind)

    # -- what a test asks ------------------------------------------------------------------------------------------

    def live(self):
        """What is neither freed nor destroyed: numbers of allocations, streams, events, modules."""
        memory = sum(not a.freed for a in self.memory.values())
        return {
            "memory": memory,
            "streams": len(self.streams),
            "events": len(self.events),
            "modules": len(self.modules),
        }

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
        if number in (0, 1):
            return self.current.legacy
        if number not in self.streams:
            raise Refused("INVALID_HANDLE")
        return self.streams[number]

    def _begin(self, stream, work, uses=(), after=()):
        """Put work on a stream, after what its kind of stream waits for."""
        if stream.device is not self.current:
            raise Refused("INVALID_HANDLE")
        device = stream.device
        if stream is device.legacy:
            of = [s for s in self.streams.values() if s.device is device and s.blocking]
        else:
            of = [device.legacy] if stream.blocking else []

        def checked():
            for a, what in uses:
                if not a.is_there:
                    raise Misuse(f"{what}: memory is used before its stream has allocated it, or after it has freed it")
                if a.device is not device:
                    raise Misuse(f"{what}: memory of device {a.device.number} is used on device {device.number}")
            work()
            for a, _ in uses:
                a.check()

        stream.queue.append(([*after, *((s, s.begun) for s in of)], checked))
        stream.begun += 1

    def _wait(self, name, *streams):
        self.waits.append(name)
        for stream in streams:
            stream.run(stream.begun)

    def _all_streams(self, device):
        return [device.legacy, *(s for s in self.streams.values() if s.device is device)]

    def _number(self):
        self.numbers += 16
        return self.numbers

    # -- start, devices, contexts ----------------------------------------------------------------------------------

    @api(started=False, context=False)
    def cuInit(self, Flags):
        if not self.has_driver:
            raise DynamicLibNotFoundError('"cuda" is an NVIDIA driver library and can only be found via system search.')
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
        return TYPES["CUdevice"](self._device(ordinal).number)

    def _device(self, given):
        if not 0 <= int(given) < len(self.devices):
            raise Refused("INVALID_DEVICE")
        return self.devices[int(given)]

    @api(1, context=False)
    def cuDeviceGetName(self, length, dev):
        return (self._device(dev).name.encode() + b"\0").ljust(length)

    @api(1, context=False)
    def cuDeviceTotalMem(self, dev):
        return self._device(dev).total

    @api(1, context=False)
    def cuDeviceGetAttribute(self, attrib, dev):
        return self._device(dev).attributes()[attrib.name.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    @api(1, context=False)
    def cuDevicePrimaryCtxRetain(self, dev):
        device = self._device(dev)
        device.retained += 1
        return TYPES["CUcontext"](device.context)

    @api(context=False)
    def cuDevicePrimaryCtxRelease(self, dev):
        device = self._device(dev)
        if not device.retained:
            raise Refused("INVALID_CONTEXT")
        device.retained -= 1
        if not device.retained and any(s.done < s.begun for s in self._all_streams(device)):
            raise Misuse("a context ends with work in its streams")

    def _of_context(self, given):
        found = [d for d in self.devices if d.context == int(given) and d.retained]
        if not found:
            raise Refused("INVALID_CONTEXT")
        return found[0]

    @api(context=False)
    def cuCtxPushCurrent(self, ctx):
        self.stack.append(self._of_context(ctx))

    @api(1)
    def cuCtxPopCurrent(self):
        return TYPES["CUcontext"](self.stack.pop().context)

    @api(context=False)
    def cuCtxSetCurrent(self, ctx):
        self.stack[-1] = self._of_context(ctx) if int(ctx) else None

    @api(1, context=False)
    def cuCtxGetCurrent(self):
        return TYPES["CUcontext"](self.current.context if self.current else 0)

    @api(1)
    def cuCtxGetDevice(self):
        return TYPES["CUdevice"](self.current.number)

    @api()
    def cuCtxSynchronize(self):
        self._wait("cuCtxSynchronize", *self._all_streams(self.current))

    @api(1, context=False)
    def cuThreadExchangeStreamCaptureMode(self, mode):
        before = getattr(self.own, "mode", ENUMS["CUstreamCaptureMode"].CU_STREAM_CAPTURE_MODE_GLOBAL)
        self.own.mode = mode
        return before

    # -- modules ---------------------------------------------------------------------------------------------------

    @api(1)
    def cuModuleLoadDataEx(self, image, numOptions, options, optionValues):
        if not numOptions == len(options) == len(optionValues):
            raise Misuse("cuModuleLoadDataEx: so many options were not given")
        if not isinstance(image, int) and not bytes(image).rstrip(b"\0").isascii():
            raise Refused("INVALID_IMAGE")
        text = ctypes.string_at(image) if isinstance(image, int) else bytes(image).split(b"\0")[0]
        if isinstance(image, (bytearray, memoryview)) and b"\0" not in bytes(image):
            raise Misuse("cuModuleLoadDataEx: PTX has no end")
        given = {kind.name: value for kind, value in zip(options, optionValues, strict=True)}
        return TYPES["CUmodule"](self._load(text.decode(), given))

    @api(1)
    def cuModuleLoadData(self, image):
        return TYPES["CUmodule"](self._load(bytes(image).split(b"\0")[0].decode(), {}))

    def _load(self, text, options):
        version, target = (
            re.search(r"^\.version (\d+)\.(\d+)", text, re.M),
            re.search(r"^\.target sm_(\d+)", text, re.M),
        )
        if not version or not target:
            self._log(options, "ptxas application ptx input, line 1; fatal : Missing .version directive\n")
            raise Refused("INVALID_PTX")
        if tuple(map(int, version.groups())) > self.ptx_version:
            self._log(options, "ptxas application ptx input, line 1; fatal : Unsupported .version\n")
            raise Refused("UNSUPPORTED_PTX_VERSION")
        if int(target[1]) > 10 * self.current.capability[0] + self.current.capability[1]:
            raise Refused("NO_BINARY_FOR_GPU")
        number = self._number()
        self.modules[number] = (self.current, kernel_of(assembly_of(text)))
        return number

    def _log(self, options, text):
        if buffer := options.get("CU_JIT_ERROR_LOG_BUFFER"):
            size = options["CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES"]
            found = (ctypes.c_char * size).from_buffer(buffer) if not isinstance(buffer, int) else None
            found = found if found is not None else (ctypes.c_char * size).from_address(buffer)
            found[: len(text) + 1] = text.encode()[: size - 1] + b"\0"

    @api(1)
    def cuModuleGetFunction(self, hmod, name):
        if int(hmod) not in self.modules:
            raise Refused("INVALID_HANDLE")
        if name != b"kernel":
            raise Refused("NOT_FOUND")
        number = self._number()
        device, kernel = self.modules[int(hmod)]
        self.functions[number] = [device, kernel, int(hmod), 48 << 10]
        return TYPES["CUfunction"](number)

    @api()
    def cuModuleUnload(self, hmod):
        if int(hmod) not in self.modules:
            raise Misuse("cuModuleUnload: no module, or one that is unloaded already")
        device, _ = self.modules.pop(int(hmod))
        if device is not self.current:
            raise Refused("INVALID_CONTEXT")

    def _function(self, given):
        found = self.functions.get(int(given))
        if found is None or found[2] not in self.modules:
            raise Refused("INVALID_HANDLE")
        return found

    @api()
    def cuFuncSetAttribute(self, hfunc, attrib, value):
        if attrib.name == "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES":
            if not 0 <= value <= SHARED:
                raise Refused("INVALID_VALUE")
            self._function(hfunc)[3] = value

    @api(1)
    def cuFuncGetAttribute(self, attrib, hfunc):
        found = {"MAX_THREADS_PER_BLOCK": 1024, "NUM_REGS": self.registers, "LOCAL_SIZE_BYTES": 0,
                 "SHARED_SIZE_BYTES": 0, "MAX_DYNAMIC_SHARED_SIZE_BYTES": self._function(hfunc)[3]}  # fmt: skip
        return found[attrib.name.removeprefix("CU_FUNC_ATTRIBUTE_")]

    @api()
    def cuLaunchKernel(self, f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream,
                       kernelParams, extra):  # fmt: skip
        device, kernel, _, most_shared = self._function(f)
        stream = self._stream(hStream)
        if device is not self.current or stream.device is not device:
            raise Refused("INVALID_HANDLE")
        threads = blockDimX * blockDimY * blockDimZ
        if min(gridDimX, gridDimY, gridDimZ, threads) < 1 or threads > 1024 or sharedMemBytes > most_shared:
            raise Refused("INVALID_VALUE")
        if threads * self.registers > REGISTERS:
            raise Refused("LAUNCH_OUT_OF_RESOURCES")
        if extra or {gridDimY, gridDimZ, blockDimY, blockDimZ} != {1}:
            raise Misuse("cuLaunchKernel: more than one dimension, or parameters in two places")
        if threads % 32:
            raise Misuse(f"cuLaunchKernel: {threads} threads are not whole warps")
        arguments = parameters(kernel.types, kernelParams)
        uses = []
        for k, (kind, value) in enumerate(zip(kernel.types, arguments, strict=True)):
            if kind.startswith("ptr") and any(value):  # arrays of no numbers may be nowhere
                uses.append((self._at(int.from_bytes(value, "little"), 1, "cuLaunchKernel"), f"parameter {k}"))
        values = [int.from_bytes(x, "little") if len(x) == 8 else x for x in arguments]
        self.launches.append((device.number, int(hStream or 0), gridDimX, threads, sharedMemBytes, values))
        self._begin(stream, lambda: kernel.launch(gridDimX, threads, sharedMemBytes, arguments, self.order), uses)

    @api(1)
    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, func, blockSize, dynamicSMemSize):
        self._function(func)
        by_memory = SHARED // (dynamicSMemSize + 1024)
        return min(REGISTERS // (self.registers * blockSize), by_memory, 2048 // blockSize, 32)

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

    def _find(self, address):
        k = bisect.bisect_right(self.addresses, address)
        found = self.memory[self.addresses[k - 1]] if k else None
        return found if found is not None and address < found.address + found.size else None

    def _at(self, address, size, what):
        """The allocation that so many bytes lie in."""
        found = self._find(int(address))
        if found is None:
            raise Misuse(f"{what}: {int(address):#x} is no address of a device")
        if found.freed:
            raise Misuse(f"{what}: memory is used after it was freed")
        if int(address) + size > found.address + found.size:
            raise Misuse(f"{what}: {size} bytes are more than there are at an address")
        return found

    def _release(self, dptr, what):
        found = self.memory.get(int(dptr))
        if found is None or found.freed:
            raise Misuse(f"{what}: no memory, or memory that is freed already")
        if found.device is not self.current:
            raise Misuse(f"{what}: memory of another device")
        found.freed = True
        found.device.used -= found.size
        return found

    @api(1)
    def cuMemAlloc(self, bytesize):
        return TYPES["CUdeviceptr"](self._new(bytesize, True).address)

    @api(1)
    def cuMemAllocAsync(self, bytesize, hStream):
        if not self.current.pools:
            raise Refused("NOT_SUPPORTED")
        stream, found = self._stream(hStream), self._new(bytesize, False)
        self._begin(stream, lambda: setattr(found, "is_there", True))
        return TYPES["CUdeviceptr"](found.address)

    @api()
    def cuMemFree(self, dptr):
        found = self._release(dptr, "cuMemFree")
        self._wait("cuMemFree", *self._all_streams(self.current))
        found.free()

    @api()
    def cuMemFreeAsync(self, dptr, hStream):
        found = self._release(dptr, "cuMemFreeAsync")
        self._begin(self._stream(hStream), found.free, [(found, "cuMemFreeAsync")])

    @api(2)
    def cuMemGetInfo(self):
        return self.current.total - self.current.used, self.current.total

    @api(1)
    def cuMemHostAlloc(self, bytesize, Flags):
        memory = np.zeros(bytesize, np.uint8)
        self.pinned[memory.ctypes.data] = memory
        return memory.ctypes.data

    @api()
    def cuMemFreeHost(self, p):
        if self.pinned.pop(int(p), None) is None:
            raise Misuse("cuMemFreeHost: no memory, or memory that is freed already")

    def _host(self, given, size, what):
        """Bytes of the host at an address, or of an object."""
        if not isinstance(given, int):
            view = memoryview(given).cast("B")
            if len(view) < size:
                raise Misuse(f"{what}: {size} bytes of {len(view)}")
            return np.frombuffer(view, np.uint8)[:size]
        if self._find(given):
            raise Misuse(f"{what}: memory of a device is given as that of the host")
        return np.frombuffer((ctypes.c_char * size).from_address(given), np.uint8)

    def _bytes(self, allocation, address, size):
        at = int(address) - allocation.address + GUARD
        return allocation.memory[at : at + size]

    def _copy(self, what, stream, size, to=None, there=None, origin=None, here=None):
        """Copy from the host or a device to the host or a device: addresses there and here, views of the host."""
        if not size:
            return
        uses, ends = [], []
        for address, view in ((there, to), (here, origin)):
            if address is not None:
                found = self._at(address, size, what)
                uses.append((found, what))
                view = self._bytes(found, address, size)
            ends.append(view)
        self._begin(stream, lambda: np.copyto(*ends), uses)

    @api()
    def cuMemcpyHtoD(self, dstDevice, srcHost, ByteCount):
        legacy = self.current.legacy
        self._copy("cuMemcpyHtoD", legacy, ByteCount, there=dstDevice, origin=self._host(srcHost, ByteCount, "HtoD"))
        self._wait("cuMemcpyHtoD", legacy)

    @api()
    def cuMemcpyHtoDAsync(self, dstDevice, srcHost, ByteCount, hStream):
        view = self._host(srcHost, ByteCount, "cuMemcpyHtoDAsync")
        if not any(a <= view.ctypes.data < a + len(m) for a, m in self.pinned.items()):
            view = view.copy()  # as drivers do with pageable memory
        self._copy("cuMemcpyHtoDAsync", self._stream(hStream), ByteCount, there=dstDevice, origin=view)

    @api()
    def cuMemcpyDtoH(self, dstHost, srcDevice, ByteCount):
        legacy = self.current.legacy
        self._copy("cuMemcpyDtoH", legacy, ByteCount, to=self._host(dstHost, ByteCount, "DtoH"), here=srcDevice)
        self._wait("cuMemcpyDtoH", legacy)

    @api()
    def cuMemcpyDtoHAsync(self, dstHost, srcDevice, ByteCount, hStream):
        view = self._host(dstHost, ByteCount, "cuMemcpyDtoHAsync")
        self._copy("cuMemcpyDtoHAsync", self._stream(hStream), ByteCount, to=view, here=srcDevice)

    @api()
    def cuMemcpyDtoD(self, dstDevice, srcDevice, ByteCount):
        self._copy("cuMemcpyDtoD", self.current.legacy, ByteCount, there=dstDevice, here=srcDevice)

    @api()
    def cuMemcpyDtoDAsync(self, dstDevice, srcDevice, ByteCount, hStream):
        self._copy("cuMemcpyDtoDAsync", self._stream(hStream), ByteCount, there=dstDevice, here=srcDevice)

    @api()
    def cuMemsetD8(self, dstDevice, uc, N):
        self._set(self.current.legacy, dstDevice, uc, N)

    @api()
    def cuMemsetD8Async(self, dstDevice, uc, N, hStream):
        self._set(self._stream(hStream), dstDevice, uc, N)

    @api()
    def cuMemsetD32Async(self, dstDevice, ui, N, hStream):
        if int(dstDevice) % 4:
            raise Refused("INVALID_VALUE")
        self._set(self._stream(hStream), dstDevice, ui, 4 * N, np.uint32)

    def _set(self, stream, address, value, size, kind=np.uint8):
        if size:
            found = self._at(address, size, "cuMemsetD8")
            view = self._bytes(found, address, size).view(kind)
            self._begin(stream, lambda: view.fill(value), [(found, "cuMemsetD8")])

    @api(1, context=False)
    def cuPointerGetAttribute(self, attribute, ptr):
        found = self._find(int(ptr))
        if found is None or found.freed:
            raise Refused("INVALID_VALUE")
        return self._attribute(attribute, found, int(ptr))

    @api(1, context=False)
    def cuPointerGetAttributes(self, numAttributes, attributes, ptr):
        found = self._find(int(ptr))
        if found is None or found.freed:
            return [0] * numAttributes
        return [self._attribute(attribute, found, int(ptr)) for attribute in attributes]

    def _attribute(self, attribute, found, address):
        known = {"CONTEXT": TYPES["CUcontext"](found.device.context), "MEMORY_TYPE": 2, "DEVICE_POINTER": address,
                 "DEVICE_ORDINAL": found.device.number, "RANGE_START_ADDR": found.address, "RANGE_SIZE": found.size,
                 "IS_MANAGED": False}  # fmt: skip
        return known[attribute.name.removeprefix("CU_POINTER_ATTRIBUTE_")]

    # -- streams and events ----------------------------------------------------------------------------------------

    @api(1)
    def cuStreamCreate(self, Flags):
        number = self._number()
        self.streams[number] = Stream(self.current, blocking=not int(Flags))
        return TYPES["CUstream"](number)

    @api()
    def cuStreamDestroy(self, hStream):
        if int(hStream) not in self.streams:
            raise Misuse("cuStreamDestroy: no stream, or one that is destroyed already")
        stream = self.streams.pop(int(hStream))
        self._begin(stream.device.legacy, lambda: stream.run(stream.begun))  # a driver still does what was begun

    @api()
    def cuStreamSynchronize(self, hStream):
        self._wait("cuStreamSynchronize", self._stream(hStream))

    def _look(self, stream, mark):
        """Whether so much is done; or do a little."""
        if stream.done < mark:
            stream.run(stream.done + 1)
            raise Refused("NOT_READY")

    @api()
    def cuStreamQuery(self, hStream):
        stream = self._stream(hStream)
        self._look(stream, stream.begun)

    @api()
    def cuStreamWaitEvent(self, hStream, hEvent, Flags):
        event = self._event(hEvent)
        self._begin(self._stream(hStream), lambda: None, after=[event["mark"]] if event["mark"] else [])

    @api(1)
    def cuStreamGetCtx(self, hStream):
        return TYPES["CUcontext"](self._stream(hStream).device.context)

    def _event(self, given):
        if int(given) not in self.events:
            raise Refused("INVALID_HANDLE")
        return self.events[int(given)]

    @api(1)
    def cuEventCreate(self, Flags):
        number = self._number()
        self.events[number] = {"device": self.current, "mark": None, "time": None, "timed": not int(Flags) & 2}
        return TYPES["CUevent"](number)

    @api()
    def cuEventRecord(self, hEvent, hStream):
        event, stream = self._event(hEvent), self._stream(hStream)
        if event["device"] is not stream.device:
            raise Refused("INVALID_HANDLE")
        self._begin(stream, lambda: event.update(time=time.perf_counter()))
        event["mark"] = (stream, stream.begun)

    @api()
    def cuEventSynchronize(self, hEvent):
        self.waits.append("cuEventSynchronize")
        if mark := self._event(hEvent)["mark"]:
            mark[0].run(mark[1])

    @api()
    def cuEventQuery(self, hEvent):
        if mark := self._event(hEvent)["mark"]:
            self._look(*mark)

    @api()
    def cuEventDestroy(self, hEvent):
        self._event(hEvent)
        del self.events[int(hEvent)]

    @api(1)
    def cuEventElapsedTime(self, hStart, hEnd):
        start, end = self._event(hStart), self._event(hEnd)
        if not (start["mark"] and end["mark"] and start["timed"] and end["timed"]):
            raise Refused("INVALID_HANDLE")
        if any(event["mark"][0].done < event["mark"][1] for event in (start, end)):
            raise Refused("NOT_READY")
        return 1e3 * (end["time"] - start["time"])

    # -- errors ----------------------------------------------------------------------------------------------------

    @api(1, started=False, context=False)
    def cuGetErrorName(self, error):
        return CUresult(int(error)).name.encode()

    @api(1, started=False, context=False)
    def cuGetErrorString(self, error):
        return CUresult(int(error)).name.removeprefix("CUDA_").replace("_", " ").lower().encode()


SIZES = {"float": 4, "i32": 4}
"""Bytes of a parameter, by its type: eight of all others."""


def parameters(kinds, given):
    """Values of a launch's parameters: an address, or a buffer, of addresses; or values and their types of C."""
    if isinstance(given, tuple):
        values, types_ = given
        if not len(values) == len(types_) == len(kinds):
            raise Misuse(f"a kernel has {len(kinds)} parameters; {len(values)} values and {len(types_)} types came")
        found = []
        for k, (value, kind, wanted) in enumerate(zip(values, types_, kinds, strict=True)):
            held = ctypes.c_uint64(int(value)) if kind is None else value if isinstance(value, kind) else kind(value)
            if ctypes.sizeof(held) != SIZES.get(wanted, 8):
                raise Misuse(f"parameter {k} has {SIZES.get(wanted, 8)} bytes; {ctypes.sizeof(held)} came")
            found.append(bytes(held))
        return found
    if not isinstance(given, int):
        if memoryview(given).nbytes != 8 * len(kinds):
            raise Misuse(f"a kernel has {len(kinds)} parameters; {memoryview(given).nbytes / 8:g} addresses came")
        addresses = np.frombuffer(memoryview(given).cast("B"), np.uint64)
    else:
        addresses = np.frombuffer((ctypes.c_char * (8 * len(kinds))).from_address(given), np.uint64)
    return [ctypes.string_at(int(a), SIZES.get(kind, 8)) for a, kind in zip(addresses, kinds, strict=True)]


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
