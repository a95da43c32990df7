"""The direct entry from Python into a kernel: a built-in function object around machine code.

See `delassus.compiler.targets.llvm.python_entry` for what the machine code checks. The offsets that it relies on are
checked here on live objects, once; where they do not hold (another interpreter, another build), there is no direct
entry and every call takes the general path.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sys
import sysconfig
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from delassus.compiler.targets.llvm import python_entry
from delassus.runtime.threads import helper_address

_FASTCALL, _KEYWORDS = 0x80, 0x02


_NAME, _METHOD = b"kernel", "PPiP"
"""Name of the function that Python is told of, and a ``PyMethodDef``: its name, address, flags and docstring."""


NEW_ARRAY, SET_BASE = 94, 282
"""Where NumPy's C interface has ``PyArray_NewFromDescr`` and ``PyArray_SetBaseObject``."""


def _numpy_functions() -> Any:
    """Addresses of the functions of NumPy's C interface; None where it is not as it is known."""
    try:
        capsule = import_module("numpy._core._multiarray_umath")._ARRAY_API
    except (ImportError, AttributeError):
        return None
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.argtypes, address.restype = (ctypes.py_object, ctypes.c_char_p), ctypes.c_void_p
    functions = ctypes.cast(address(capsule, None) or 0, ctypes.POINTER(ctypes.c_void_p))
    major = ctypes.CFUNCTYPE(ctypes.c_uint)(functions[0] or 0)() >> 24
    return functions if major in (1, 2) else None


@cache
def supported() -> bool:
    """Whether Python's and NumPy's objects are laid out as the machine code expects."""
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    if platform.python_implementation() != "CPython" or free_threaded or struct.calcsize("P") != 8:
        return False
    probe = np.arange(6.0).reshape(2, 3)

    def read(of: object, offset: int, kind: Any) -> Any:
        return kind.from_address(id(of) + offset).value or 0

    pointer = ctypes.c_void_p
    dimensions = read(probe, python_entry.DIMENSIONS, pointer)
    content, number, several = b"\x01\x02layout", 0.1, (probe, None)
    return (
        read(probe, python_entry.OBJECT_TYPE, pointer) == id(np.ndarray)
        and read(probe, python_entry.DATA, pointer) == probe.ctypes.data
        and read(probe, python_entry.DIMENSIONS_COUNT, ctypes.c_int) == 2
        and [ctypes.c_int64.from_address(dimensions + 8 * k).value for k in (0, 1)] == [2, 3]
        and read(probe, python_entry.DESCRIPTOR, pointer) == id(probe.dtype)
        and read(probe, python_entry.FLAGS, ctypes.c_int) & python_entry.WRITEABLE == python_entry.WRITEABLE
        and ctypes.string_at(id(content) + python_entry.CONTENTS, len(content)) == content
        and all(read(x, python_entry.VALUE, ctypes.c_double) == number for x in (number, np.float64(number)))
        and read(several, python_entry.LENGTH, ctypes.c_int64) == len(several)
        and read(several, python_entry.ITEMS, pointer) == id(probe)
        and read(several, python_entry.ITEMS + 8, pointer) == id(None)
        and _numpy_functions() is not None
    )


def direct_entry(
    address: int, dtype: np.dtype[Any], least_pivot: float, is_helped: bool = False
) -> tuple[Callable[..., object], object]:
    """Built-in function around the code at ``address``, and what it returns where it leaves a call to the general path.

    With ``is_helped``, the process's helper takes part.
    """
    if not supported():
        return lambda *_: None, None
    numbers, bytewise = _numpy_functions(), np.dtype(np.uint8)  # like ``dtype`` there for good
    made = [ctypes.cast(f, ctypes.c_void_p).value for f in (ctypes.pythonapi.PyTuple_New, ctypes.pythonapi.Py_DecRef)]
    objects = id(np.ndarray), id(dtype), least_pivot, id(float), id(bytewise)
    functions, helper = (numbers[NEW_ARRAY], numbers[SET_BASE], *made), helper_address() if is_helped else 0
    fields = struct.pack(f"PP{dtype.char}8P", *objects, *functions, helper, id(np.float64))
    table = fields + _method(address, _FASTCALL)
    return _function(table, table), table


def called_entry(address: int, general: Callable[..., object], table: object) -> Callable[..., object]:
    """Built-in function around ``called`` at an address: what the entry with that table declines goes to ``general``.

    It keeps ``general`` alive.
    """
    vectorcall = ctypes.cast(ctypes.pythonapi.PyObject_Vectorcall, ctypes.c_void_p).value
    out = sys.intern("out")
    fields = struct.pack("5P", id(general), id(table), id(out), id(tuple), vectorcall)
    record = fields + _method(address, _FASTCALL | _KEYWORDS)
    return _function(record, (record, general, table, out))


def _method(address: int, flags: int) -> bytes:
    return struct.pack(_METHOD, id(_NAME) + python_entry.CONTENTS, address, flags, 0)


def _function(record: bytes, owner: object) -> Callable[..., object]:
    """Built-in function of the method at the end of ``record``, with ``owner`` as first argument.

    Python reads the method when it frees the function. ``owner`` is what keeps it until then, even where the garbage
    collector takes cycles apart: it is the record or has it.
    """
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.argtypes, make.restype = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p), ctypes.py_object
    method = id(record) + python_entry.CONTENTS + len(record) - struct.calcsize(_METHOD)
    function: Callable[..., object] = make(method, owner, None)
    return function
