"""The thread that takes part in calls; see `delassus.compiler.targets.llvm.helper`."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Sequence
from functools import cache
from typing import Any

from delassus.compiler.machine.cpu import Code, object_code
from delassus.compiler.targets.llvm.helper import FIELDS, helper_module

_HELPER = (ctypes.c_int64 * len(FIELDS))()
"""The helper of this process, whose first field is 0 until it is started."""

ADDRESS = ctypes.addressof(_HELPER)

_starting = threading.Lock()


@cache
def _code() -> Code:
    code = Code(object_code(helper_module()))
    for function in ("share", "help"):
        code.address(function)
    for kept in (code, _HELPER):  # for good: the thread may still run when Python ends
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    return code


@cache
def _share() -> Any:
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(_code().address("share"))


def _start() -> None:
    """Start the thread; where the system has no more, calls do without it."""
    python, system = ctypes.pythonapi, ctypes.CDLL(None)
    allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThread_allocate_lock", python))
    lock = allocate()
    ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(("PyThread_acquire_lock", python))(lock, 1)
    functions = (python.PyThread_acquire_lock, python.PyThread_release_lock, system.sched_yield, system.clock_gettime)
    addresses = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_code().address("help"))
    known = [*addresses, time.CLOCK_MONOTONIC, lock]
    _HELPER[1:] = [*known, *[0] * (len(FIELDS) - 1 - len(known))]
    try:
        threading.Thread(target=run, args=(ADDRESS,), daemon=True, name="delassus helper").start()
    except RuntimeError:
        _HELPER[FIELDS.index("taken")] = 1
    _HELPER[0] = _code().address("share")


def share(span: int, addresses: Sequence[int], n: int) -> None:
    """Compute n states of the arrays at these addresses, fewer than 2³², with the helper, which is started first."""
    with _starting:
        if not _HELPER[0]:
            _start()
    _share()(ADDRESS, span, (ctypes.c_void_p * len(addresses))(*addresses), n)


def _forget() -> None:
    """In a forked child, which has no threads: the next call starts one."""
    global _starting
    _starting, _HELPER[0] = threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
