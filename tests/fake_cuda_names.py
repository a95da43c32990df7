"""Numbers and types of `cuda.bindings.driver` that its fake has; a test compares them with those of the package."""

from __future__ import annotations

NUMBERS = {
    ("CUresult", "CUDA_"): """
        SUCCESS=0 ERROR_INVALID_VALUE=1 ERROR_OUT_OF_MEMORY=2 ERROR_NOT_INITIALIZED=3 ERROR_DEINITIALIZED=4
        ERROR_STUB_LIBRARY=34 ERROR_DEVICE_UNAVAILABLE=46 ERROR_NO_DEVICE=100 ERROR_INVALID_DEVICE=101
        ERROR_INVALID_IMAGE=200 ERROR_INVALID_CONTEXT=201 ERROR_NO_BINARY_FOR_GPU=209
        ERROR_ECC_UNCORRECTABLE=214 ERROR_INVALID_PTX=218 ERROR_JIT_COMPILER_NOT_FOUND=221
        ERROR_UNSUPPORTED_PTX_VERSION=222 ERROR_INVALID_HANDLE=400 ERROR_NOT_FOUND=500 ERROR_NOT_READY=600
        ERROR_ILLEGAL_ADDRESS=700 ERROR_LAUNCH_OUT_OF_RESOURCES=701 ERROR_LAUNCH_TIMEOUT=702
        ERROR_CONTEXT_IS_DESTROYED=709 ERROR_ASSERT=710 ERROR_HARDWARE_STACK_ERROR=714
        ERROR_ILLEGAL_INSTRUCTION=715 ERROR_MISALIGNED_ADDRESS=716 ERROR_INVALID_ADDRESS_SPACE=717
        ERROR_INVALID_PC=718 ERROR_LAUNCH_FAILED=719 ERROR_NOT_SUPPORTED=801 ERROR_SYSTEM_NOT_READY=802
        ERROR_SYSTEM_DRIVER_MISMATCH=803 ERROR_STREAM_CAPTURE_UNSUPPORTED=900
        ERROR_STREAM_CAPTURE_IMPLICIT=906 ERROR_UNKNOWN=999
    """,
    ("CUdevice_attribute", "CU_DEVICE_ATTRIBUTE_"): """
        MAX_THREADS_PER_BLOCK=1 MAX_SHARED_MEMORY_PER_BLOCK=8 WARP_SIZE=10 MAX_REGISTERS_PER_BLOCK=12
        CLOCK_RATE=13 MULTIPROCESSOR_COUNT=16 MEMORY_CLOCK_RATE=36 GLOBAL_MEMORY_BUS_WIDTH=37 L2_CACHE_SIZE=38
        MAX_THREADS_PER_MULTIPROCESSOR=39 UNIFIED_ADDRESSING=41 COMPUTE_CAPABILITY_MAJOR=75
        COMPUTE_CAPABILITY_MINOR=76 MAX_SHARED_MEMORY_PER_MULTIPROCESSOR=81
        MAX_REGISTERS_PER_MULTIPROCESSOR=82 MAX_SHARED_MEMORY_PER_BLOCK_OPTIN=97 MEMORY_POOLS_SUPPORTED=115
    """,
    ("CUjit_option", "CU_JIT_"): """
        MAX_REGISTERS=0 THREADS_PER_BLOCK=1 INFO_LOG_BUFFER=3 INFO_LOG_BUFFER_SIZE_BYTES=4
        ERROR_LOG_BUFFER=5 ERROR_LOG_BUFFER_SIZE_BYTES=6 OPTIMIZATION_LEVEL=7 TARGET_FROM_CUCONTEXT=8
        TARGET=9 LOG_VERBOSE=12 GENERATE_LINE_INFO=13 CACHE_MODE=14 MAX_THREADS_PER_BLOCK=32
    """,
    ("CUfunction_attribute", "CU_FUNC_ATTRIBUTE_"): """
        MAX_THREADS_PER_BLOCK=0 SHARED_SIZE_BYTES=1 LOCAL_SIZE_BYTES=3 NUM_REGS=4
        MAX_DYNAMIC_SHARED_SIZE_BYTES=8 PREFERRED_SHARED_MEMORY_CARVEOUT=9
    """,
    ("CUpointer_attribute", "CU_POINTER_ATTRIBUTE_"): """
        CONTEXT=1 MEMORY_TYPE=2 DEVICE_POINTER=3 IS_MANAGED=8 DEVICE_ORDINAL=9 RANGE_START_ADDR=11
        RANGE_SIZE=12 LOCALITY_DOMAIN_ORDINAL=22
    """,
    ("CUmemorytype", "CU_MEMORYTYPE_"): """
        HOST=1 DEVICE=2 ARRAY=3 UNIFIED=4
    """,
    ("CUstream_flags", "CU_STREAM_"): """
        DEFAULT=0 NON_BLOCKING=1
    """,
    ("CUevent_flags", "CU_EVENT_"): """
        DEFAULT=0 BLOCKING_SYNC=1 DISABLE_TIMING=2 INTERPROCESS=4
    """,
    ("CUstreamCaptureMode", "CU_STREAM_CAPTURE_MODE_"): """
        GLOBAL=0 THREAD_LOCAL=1 RELAXED=2
    """,
}
"""By the names of enumerations and what their members begin with."""


class Names(type):
    """Enumerations as the package has them: members are attributes, and nothing is found by ``[]``."""

    def __iter__(cls):
        return iter(cls.__members__.values())


class Number(int, metaclass=Names):
    """A member, with its name."""

    def __new__(cls, value):
        for member in cls:
            if member == value:
                return member
        raise ValueError(f"{value} is not a valid {cls.__name__}")

    def __repr__(self):
        return f"<{type(self).__name__}.{self.name}: {int(self)}>"


def enumeration(name, prefix, numbers):
    """Enumeration of members ``name=number``, all of which begin alike."""
    kind = Names(name, (Number,), {"__members__": {}})
    for x in numbers.split():
        member = int.__new__(kind, x.split("=")[1])
        member.name = prefix + x.split("=")[0]
        kind.__members__[member.name] = member
        setattr(kind, member.name, member)
    return kind


ENUMS = {name: enumeration(name, prefix, numbers) for (name, prefix), numbers in NUMBERS.items()}
CUresult = ENUMS["CUresult"]


class DynamicLibNotFoundError(RuntimeError):
    """What a call raises where no library of a driver is found."""


class Handle:
    """A number with a type: it is not equal to the number, nor can it be added to."""

    def __init__(self, number=0):
        self.number = int(number)

    def __int__(self):
        return self.number

    def __eq__(self, other):
        return type(self) is type(other) and self.number == other.number

    def __hash__(self):
        return hash((type(self), self.number))

    def __repr__(self):
        return f"<{type(self).__name__} {self.number:#x}>"


TYPES = {
    name: type(name, (Handle,), {})
    for name in ("CUdevice", "CUcontext", "CUmodule", "CUfunction", "CUdeviceptr", "CUstream", "CUevent")
}
