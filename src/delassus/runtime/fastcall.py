"""The direct entry from Python into a kernel: a built-in function object around machine code.

See `delassus.compiler.emit.python_entry` for what the machine code checks. The offsets that it relies on are checked
here on a live array, once; where they do not hold (another interpreter, another build), there is no direct entry and
every call takes the general path.
"""

from __future__ import annotations

import ctypes
import platform
import struct
import sysconfig
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from delassus.compiler.emit import python_entry

_FASTCALL = 0x80


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@cache
def supported() -> bool:
    """Whether array and bytes objects are laid out as the machine code expects."""
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    if platform.python_implementation() != "CPython" or free_threaded or struct.calcsize("P") != 8:
        return False
    probe = np.arange(6.0).reshape(2, 3)
    at = id(probe)

    def read(offset: int, kind: Any) -> int:
        return int(kind.from_address(at + offset).value or 0)

    pointer = ctypes.c_void_p
    dimensions = read(python_entry.DIMENSIONS, pointer)
    content = b"\x01\x02layout"
    return (
        read(python_entry.OBJECT_TYPE, pointer) == id(np.ndarray)
        and read(python_entry.DATA, pointer) == probe.ctypes.data
        and read(python_entry.DIMENSIONS_COUNT, ctypes.c_int) == 2
        and [ctypes.c_int64.from_address(dimensions + 8 * k).value for k in (0, 1)] == [2, 3]
        and read(python_entry.DESCRIPTOR, pointer) == id(probe.dtype)
        and read(python_entry.FLAGS, ctypes.c_int) & python_entry.WRITEABLE == python_entry.WRITEABLE
        and ctypes.string_at(id(content) + python_entry.TABLE, len(content)) == content
    )


def direct_entry(
    address: int, dtype: np.dtype[Any], least_pivot: float, keep: list[object]
) -> Callable[..., object] | None:
    """Built-in function around the code at ``address``; what it needs to stay alive is added to ``keep``."""
    if not supported():
        return None
    table = struct.pack(f"PP{dtype.char}", id(np.ndarray), id(dtype), least_pivot)
    method = _MethodDef(b"kernel", address, _FASTCALL, None)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.argtypes, make.restype = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p), ctypes.py_object
    function: Callable[..., object] = make(ctypes.addressof(method), table, None)
    keep += [method, table, dtype]
    return function
