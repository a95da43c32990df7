"""A library of arrays on the devices of `fake_cuda`, as CuPy is one, or as libraries are that only lend and borrow.

What the library does itself is done on its stream, which is the one that its arrays tell. Functions that are none of
CUDA's driver, such as broadcasting, take numbers to the host and back in the order of that stream.
"""

from __future__ import annotations

import ctypes
import types
from contextlib import contextmanager

import numpy as np

from fake_cuda import driver

UNUSED, USED = b"dltensor", b"used_dltensor"
"""Names of capsules of DLPack."""

PYTHON, VOID, OBJECT, TEXT = ctypes.pythonapi, ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p
GET = ctypes.PYFUNCTYPE(VOID, OBJECT, TEXT)(("PyCapsule_GetPointer", PYTHON))
SET_NAME = ctypes.PYFUNCTYPE(ctypes.c_int, OBJECT, TEXT)(("PyCapsule_SetName", PYTHON))
NEW = ctypes.PYFUNCTYPE(OBJECT, VOID, TEXT, VOID)(("PyCapsule_New", PYTHON))


class Tensor(ctypes.Structure):
    """``DLTensor``."""

    _fields_ = (
        ("data", VOID), ("device_type", ctypes.c_int), ("device", ctypes.c_int), ("ndim", ctypes.c_int),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    )  # fmt: skip


class Managed(ctypes.Structure):
    """``DLManagedTensor``."""

    _fields_ = (("tensor", Tensor), ("context", VOID), ("deleter", VOID))


class Library(types.ModuleType):
    """Arrays of a library of some name.

    ``says``: whether arrays have ``__cuda_array_interface__``; ``lends``: whether they have DLPack; ``borrows``:
    whether the library takes arrays of others over; ``computes``: whether it has functions like NumPy's.
    """

    def __init__(self, name, says=True, lends=True, borrows=True, computes=True):
        super().__init__(name)
        self.stream, self.device, self.told = 1, 0, []
        members = {"__module__": name, "library": self}
        if says:
            members["__cuda_array_interface__"] = property(_said)
        if lends:
            members |= {"__dlpack__": _lent, "__dlpack_device__": lambda x: (2, x.memory.device.number)}
        self.kind = type("Array", (_Array,), members)
        self.cuda = types.SimpleNamespace(Device=self._on_device, ExternalStream=self._on_stream)
        if borrows:
            self.from_dlpack = self._from_dlpack
        if computes:
            for function in ("ascontiguousarray", "broadcast_to", "maximum"):
                setattr(self, function, self._on_host(getattr(np, function)))

    @contextmanager
    def _on_device(self, number):
        self.device, before = number, self.device
        yield
        self.device = before

    @contextmanager
    def _on_stream(self, handle):
        self.stream, before = handle, self.stream
        yield
        self.stream = before

    def _on_host(self, function):
        def made(*arguments):
            where = next(x for x in arguments if isinstance(x, _Array)).memory.device.number
            numbers = [x.numpy() if isinstance(x, _Array) else x for x in arguments]
            with self._on_device(where):
                return self.array(function(*numbers), contiguous=function is not np.broadcast_to)

        return made

    def empty(self, shape, dtype):
        return self.kind(driver.driver().device(self.device), shape, np.dtype(dtype), self.stream)

    def array(self, x, contiguous=True):
        x = np.ascontiguousarray(x)
        made = self.empty(x.shape, x.dtype)
        with made.memory.device.current() as call:
            if x.nbytes:
                call("cuMemcpyHtoDAsync", made.memory.address, x.ctypes.data, x.nbytes, self.stream)
        made.has_gaps = not contiguous
        return made

    def _from_dlpack(self, x):
        """Take memory over, as consumers do."""
        capsule = x.__dlpack__(stream=self.stream, max_version=(1, 1))
        of = Managed.from_address(GET(capsule, UNUSED))
        SET_NAME(capsule, USED)
        tensor, release = of.tensor, ctypes.CFUNCTYPE(None, ctypes.c_void_p)(of.deleter)
        made = self.kind.__new__(self.kind)
        made.shape, made.dtype = tuple(tensor.shape[: tensor.ndim]), np.dtype(f"f{tensor.bits // 8}")
        made.has_gaps, made.is_read_only, made.stream = False, False, self.stream
        made.first, made.strides = 0, None
        address = ctypes.addressof(of)
        made.memory = types.SimpleNamespace(
            device=driver.driver().device(tensor.device), address=tensor.data or 0, lender=Lender(release, address)
        )
        return made


class Lender:
    """Gives borrowed memory back when it goes."""

    def __init__(self, release, address):
        self.release, self.address = release, address

    def __del__(self):
        self.release(self.address)


class _Array:
    """An array, row-major without gaps, unless it ``has_gaps``: then a number lies between every two rows.

    Or it lies as it says, from the number ``first`` of its memory on, with strides in numbers; see `view`.
    """

    def __init__(self, device, shape, dtype, stream):
        self.shape, self.dtype, self.stream = tuple(np.atleast_1d(shape).tolist()) if shape != () else (), dtype, stream
        self.has_gaps, self.is_read_only, self.first, self.strides = False, False, 0, None
        self.memory = driver.Memory(device, int(np.prod(self.shape)) * dtype.itemsize, stream)

    def view(self, shape, strides=None, first=0):
        """An array in the same memory."""
        made = self.library.kind.__new__(self.library.kind)
        made.__dict__.update(self.__dict__, shape=shape, strides=strides, first=first)
        return made

    def numpy(self):
        """Numbers on the host, after what was begun on the library's stream."""
        out = np.empty(self.shape, self.dtype)
        with self.memory.device.current() as call:
            if out.nbytes:
                address = self.memory.address + self.first * self.dtype.itemsize
                call("cuMemcpyDtoHAsync", out.ctypes.data, address, out.nbytes, self.library.stream)
            call("cuStreamSynchronize", self.library.stream)
        return out

    def astype(self, dtype):
        return self.library._on_host(lambda x: x.astype(dtype))(self)

    def __rtruediv__(self, number):
        with np.errstate(divide="ignore"):
            return self.library._on_host(lambda x: number / x)(self)


def _strides(x):
    if x.strides is not None:
        return tuple(s * x.dtype.itemsize for s in x.strides)
    strides = [int(x.dtype.itemsize * np.prod(x.shape[k + 1 :])) for k in range(len(x.shape))]
    return tuple(2 * s for s in strides) if x.has_gaps else None


def _said(x):
    """``__cuda_array_interface__``, with the library's stream of now, as CuPy has it."""
    data = x.memory.address + x.first * x.dtype.itemsize, x.is_read_only
    return {"shape": x.shape, "typestr": x.dtype.str, "data": data, "strides": _strides(x), "version": 3,
            "stream": x.library.stream}  # fmt: skip


def _lent(x, *, stream=None, **_):
    """``__dlpack__``, for a consumer on a stream, which waits for the library's."""
    x.library.told.append(stream)
    x.memory.device.follow(stream, [x.library.stream])
    shape, of = (ctypes.c_int64 * len(x.shape))(*x.shape), Managed()
    strides = [s // x.dtype.itemsize for s in _strides(x) or ()]
    held = (ctypes.c_int64 * len(strides))(*strides)
    tensor = of.tensor
    tensor.offset = x.first * x.dtype.itemsize
    tensor.data, tensor.device_type, tensor.device, tensor.ndim = (
        x.memory.address,
        2,
        x.memory.device.number,
        len(shape),
    )
    tensor.code, tensor.bits, tensor.lanes = {"i": 0, "f": 2}[x.dtype.kind], 8 * x.dtype.itemsize, 1
    tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    if strides:
        tensor.strides = ctypes.cast(held, ctypes.POINTER(ctypes.c_int64))
    capsule = NEW(ctypes.addressof(of), UNUSED, None)
    x.library.held = [*getattr(x.library, "held", []), (of, shape, held, x.memory)]
    return capsule
