"""Arrays on a device, of any library that says where they are: by ``__cuda_array_interface__`` or by DLPack.

The first says on which stream an array is written, and that is the stream to run on; by DLPack a library is told which
one that is, and lets it wait. Streams wait for one another on the device; nobody does here.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from delassus.errors import ConfigurationError
from delassus.runtime.arrays import Batch
from delassus.runtime.cuda.driver import LEGACY_STREAM, Device, Memory, driver

ON_DEVICES = (2, 13)
"""Types of devices of DLPack: CUDA's, and its managed memory."""

KINDS = {0: "i", 1: "u", 2: "f", 5: "c", 6: "b"}
"""Kinds of numbers of NumPy, by DLPack's."""

NO_WAIT = -1
"""Stream of DLPack for a consumer that takes care of the order itself."""


class Array:
    """What is known of an array on a device.

    Attributes
    ----------
    address : int
    shape : tuple of int
    dtype : numpy.dtype
    is_contiguous, is_writeable : bool
    device : int
        Number of the device.
    stream : int or None
        On which it is written, if something is to wait for that.
    owner : object
        The array of its own library.
    lender : object
        Capsule of DLPack by which the memory is lent.
    """

    def __init__(
        self, address: int, shape: Batch, dtype: Any, device: int, owner: Any, stream: int | None = None
    ) -> None:
        self.address, self.shape, self.dtype, self.device = address, shape, np.dtype(dtype), device
        self.owner, self.stream, self.is_contiguous, self.is_writeable = owner, stream, True, True
        self.lender: Any = None

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * int(self.dtype.itemsize)

    def overlaps(self, other: Array) -> bool:
        """Whether two contiguous arrays share memory."""
        return self.address < other.address + other.size and other.address < self.address + self.size


def is_on_device(x: Any) -> bool:
    """Whether something is an array on a GPU, by what it says of itself."""
    if hasattr(x, "__cuda_array_interface__"):
        return True
    return hasattr(x, "__dlpack_device__") and int(x.__dlpack_device__()[0]) in ON_DEVICES


def module_of(x: Any) -> Any:
    """The library of an array: what has functions of such arrays, or None."""
    if hasattr(x, "__array_namespace__"):
        return x.__array_namespace__()
    return sys.modules.get(type(x).__module__.partition(".")[0])


def device_of(x: Any, name: str) -> int:
    """Number of the device that an array is on."""
    if hasattr(x, "__dlpack_device__"):
        return int(x.__dlpack_device__()[1])
    address = x.__cuda_array_interface__["data"][0]
    if not address:  # of an empty array
        return 0
    started = driver()
    kind = started.cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    code, number = started.cu.cuPointerGetAttribute(kind, address)
    if int(code):
        wanted, came = "memory of a device", f"the address {address:#x}, which is none"
        raise ConfigurationError(name, wanted, came, "Is the array of this process, and not freed?")
    return int(number)


def stream_of(x: Any) -> int | None:
    """Stream on which an array is written, if it says so."""
    said: dict[str, Any] = getattr(x, "__cuda_array_interface__", {})
    return said.get("stream")


def known(x: Any, name: str, device: int, stream: int) -> Array:
    """What is known of an array on a device; by DLPack, its library has the stream wait for what writes it."""
    if hasattr(x, "__cuda_array_interface__"):
        return _by_interface(x, name, device)
    return _by_dlpack(x, name, device, stream or LEGACY_STREAM)


def _by_interface(x: Any, name: str, device: int) -> Array:
    said = x.__cuda_array_interface__
    if said.get("mask") is not None:
        raise ConfigurationError(name, "an array without a mask", "one with a mask", "Fill what is masked.")
    (address, is_read_only), shape, dtype = said["data"], tuple(said["shape"]), np.dtype(said["typestr"])
    found = Array(address or 0, shape, dtype, device, x, said.get("stream"))
    found.is_writeable = not is_read_only
    strides = said.get("strides")
    found.is_contiguous = strides is None or _is_contiguous(shape, [s / dtype.itemsize for s in strides])
    return found


def _is_contiguous(shape: Sequence[int], strides: Sequence[float]) -> bool:
    """Whether an array is row-major without gaps; strides in numbers."""
    expected = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size != 1 and stride != expected:
            return math.prod(shape) == 0
        expected *= size
    return True


# -- DLPack --------------------------------------------------------------------------------------------------------


class DLTensor(ctypes.Structure):
    """``DLTensor`` of ``dlpack.h``."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class DLManagedTensor(ctypes.Structure):
    """``DLManagedTensor`` of ``dlpack.h``."""

    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


NAME = b"dltensor"
"""Of capsules that nobody has taken over yet."""

_python = ctypes.pythonapi
_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", _python))
_pointer_at = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", _python))
_capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
    ("PyCapsule_New", _python)
)

_lent: dict[int, tuple[Any, ...]] = {}
"""What DLPack has lent to other libraries, by the addresses of its descriptions."""


def _give_back(description: int) -> None:
    """Called by who has taken an array over, when it is done with it."""
    _lent.pop(description, None)


def _drop(capsule: int) -> None:
    """Called when a capsule goes, which somebody may have taken over."""
    if _is_valid(capsule, NAME):
        _lent.pop(_pointer_at(capsule, NAME), None)


_deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_give_back)
_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_drop)


def _by_dlpack(x: Any, name: str, device: int, stream: int) -> Array:
    capsule = x.__dlpack__(stream=stream)
    of = DLManagedTensor.from_address(_pointer_of(capsule, NAME)).tensor
    if of.lanes != 1 or of.code not in KINDS:
        came = f"type {of.code} of {of.bits} bits in {of.lanes} lanes"
        raise ConfigurationError(name, "real numbers", came, "Convert it.")
    shape, dtype = tuple(of.shape[: of.ndim]), np.dtype(f"{KINDS[of.code]}{of.bits // 8}")
    found = Array((of.data or 0) + of.byte_offset, shape, dtype, device, x)
    found.lender = capsule
    found.is_contiguous = not of.strides or _is_contiguous(shape, of.strides[: of.ndim])
    return found


class DeviceArray:
    """Results on a device, for libraries whose own arrays cannot be made: others take it over without a copy.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    """

    def __init__(self, device: Device, shape: Batch, dtype: np.dtype[Any], stream: int) -> None:
        self.shape, self.dtype = shape, dtype
        self._memory = Memory(device, math.prod(shape) * dtype.itemsize, stream)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, {self._memory.device!r})"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Where it is, and the stream on which it is written."""
        data, stream = (self._memory.address, False), self._memory.stream or LEGACY_STREAM
        return {"shape": self.shape, "typestr": self.dtype.str, "data": data, "stream": stream, "version": 3}

    def __dlpack_device__(self) -> tuple[int, int]:
        return ON_DEVICES[0], self._memory.device.number

    def __dlpack__(self, *, stream: int | None = None, **_: Any) -> Any:
        """Capsule, for a library that uses the array on a stream, which waits for what writes it."""
        memory = self._memory
        if stream != NO_WAIT:
            memory.device.follow(stream or LEGACY_STREAM, [memory.stream])
        shape, of = (ctypes.c_int64 * len(self.shape))(*self.shape), DLManagedTensor()
        of.deleter = ctypes.cast(_deleter, ctypes.c_void_p)
        tensor = of.tensor
        tensor.data, (tensor.device_type, tensor.device) = memory.address, self.__dlpack_device__()
        tensor.ndim, tensor.code, tensor.bits, tensor.lanes = len(shape), 2, 8 * self.dtype.itemsize, 1
        tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        address = ctypes.addressof(of)
        _lent[address] = of, shape, memory
        return _capsule(address, NAME, ctypes.cast(_destructor, ctypes.c_void_p))


# -- arrays that are made ------------------------------------------------------------------------------------------


def made(shape: Batch, dtype: np.dtype[Any], device: Device, stream: int) -> Array:
    """A new array of our own."""
    owner = DeviceArray(device, shape, dtype, stream)
    return Array(owner._memory.address, shape, dtype, device.number, owner, stream)


def number(x: np.ndarray[Any, Any], device: Device, stream: int) -> Array:
    """One number of the host on a device: by setting words, which graphs can capture."""
    found = made((), x.dtype, device, stream)
    with device.current() as call:
        for k, word in enumerate(np.atleast_1d(x).view(np.uint32).tolist()):
            call("cuMemsetD32Async", found.address + 4 * k, word, 1, stream)
    return found


def repeated(x: Array, times: int, device: Device, stream: int) -> Array:
    """An array so many times, one after the other, on a stream: by copies of what is there, which double."""
    found, size = made((times, *x.shape), x.dtype, device, stream), x.size
    with device.current() as call:
        done, total, origin = 0, times * size, x.address
        while done < total:
            more = min(done or size, total - done)
            call("cuMemcpyDtoDAsync", found.address + done, origin, more, stream)
            done, origin = done + more, found.address
    return found
