"""Kernels for the processor as XLA calls them: names that it knows for good, and code that goes when nobody uses it.

An executable of JAX holds a `Used` of each of its kernels, and XLA counts its own executables in the record, which may
live for a while after that: until the last of their calls has ended. Names stay, of which XLA forgets none. What it
calls by one is a function that goes on to the record of the kernel that has the name, if one has.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import struct
import threading
import time
from functools import cache, partial
from typing import Any
from weakref import WeakValueDictionary, finalize, ref

import numpy as np

from delassus.compiler.jit.compile import address_of
from delassus.compiler.machine.cpu import ObjectCode, object_code
from delassus.runtime.fallback import solve_states
from delassus.runtime.libraries.xla_entry import (
    CALLED,
    FALLBACK,
    FALLBACKS_RUNNING,
    TARGETS,
    TYPE,
    USES,
    _gone,
    _released,
    _task,
    _xla,
)
from delassus.runtime.libraries.xla_entry import ENDED as AT_ENDED
from delassus.runtime.threads import ENOUGH_FOR_THREADS, number_of

ENOUGH = 2_000_000
"""Operations of a call from which XLA's threads take part, which wake sooner than those of `threads`."""

Fallback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p))


_places: dict[str, Any] = {}
"""Of what XLA knows by name of kernels for the processor, where the address of the record is; names stay for good."""

_free: list[tuple[Any, int]] = []
"""Where further ones can be, and what XLA calls them by."""


class Used:
    """What executables of JAX hold of a kernel; there is one of a name at a time."""


_used: WeakValueDictionary[str, Used] = WeakValueDictionary()
"""What is held now, by name."""

_records: dict[str, list[Any]] = {}
"""By name, the record and what it needs: as long as somebody holds it, and as XLA uses it, whose threads end later."""


_one_at_a_time = threading.RLock()
"""What a thread holds that changes these; garbage may be collected meanwhile."""


def _end_fallbacks() -> None:
    """Wait for calls back into Python, then let there be no more: XLA may still be at what nobody reads."""
    import jax

    jax.effects_barrier()
    records = [record for record, *_ in _records.values()]
    for record in records:
        ctypes.c_void_p.from_buffer(record, FALLBACK).value = None
    time.sleep(1e-3)  # as long as threads may need to see that
    while any(ctypes.c_int64.from_buffer(record, FALLBACKS_RUNNING).value for record in records):
        time.sleep(1e-3)


def _kernel32() -> Any:
    return getattr(ctypes, "windll").kernel32  # noqa: B009  of Windows


def used_by_xla(kernel: Any, name: str) -> Used:
    """What is to be held as long as XLA may call a kernel by a name."""
    with _one_at_a_time:
        _forget_unused()
        used = _used.get(name)
        if used is None:
            used = _used[name] = Used()
            finalize(used, _forget_unused).atexit = False
        if name not in _records:
            made = _record(kernel)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))  # at exit it stays: threads of XLA may run
            _records[name] = made
            if name in _places:
                _places[name].value = ctypes.addressof(made[0])
            else:
                _register(name, made[0])
    return used


def _register(name: str, record: Any) -> None:
    """Tell XLA of a kernel for the processor, for good; its record may be another one later."""
    import jax

    if not _free:
        code = ObjectCode(object_code("".join(map(CALLED.format, range(TARGETS)))))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(code))
        for k in range(TARGETS):
            place = ctypes.c_void_p.from_address(code.address_of_data(f"record{k}"))
            _free.append((place, code.address(f"called{k}")))
    place, called = _free.pop()
    place.value, _places[name] = ctypes.addressof(record), place
    stages = dict.fromkeys(("instantiate", "execute"), jax.ffi.pycapsule(ctypes.c_void_p(called)))
    jax.ffi.register_ffi_target(name, stages, platform="cpu")


def _forget_unused() -> None:
    """Let go of the code of kernels that nobody holds and XLA uses no more; at another time where a thread is at it."""
    if not _one_at_a_time.acquire(blocking=False):
        return
    try:
        for name, made in [*_records.items()]:
            is_used = name in _used or ctypes.c_int64.from_buffer(made[0], USES).value
            if not is_used and _records.pop(name, None) is not None:
                _places[name].value = ctypes.addressof(_no_record())
                ctypes.pythonapi.Py_DecRef(ctypes.py_object(made))
    finally:
        _one_at_a_time.release()


@cache
def _no_record() -> ctypes.Array[ctypes.c_char]:
    """Record of a kernel that has gone."""
    record = ctypes.create_string_buffer(TYPE + 8)
    struct.pack_into("q", record, 0, address_of(_gone))
    struct.pack_into("q", record, AT_ENDED, ctypes.addressof(GONE))
    struct.pack_into("q", record, TYPE, _type().value)
    for x in (record, _gone):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))
    return record


GONE = ctypes.create_string_buffer(b"The kernel has gone: trace and lower what calls it again")
"""What XLA is told of what was kept in another way than by JAX."""


@cache
def _type() -> ctypes.c_int64:
    """Number by which XLA knows what it calls `_released` for, when it destroys an executable."""
    import jax

    number, about = ctypes.c_int64(0), (ctypes.c_int64 * 3)(24, 0, address_of(_released))
    for x in (number, about, _released):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))
    known = {"type_id": number, "type_info": about}
    capsules: Any = {name: jax.ffi.pycapsule(ctypes.c_void_p(ctypes.addressof(x))) for name, x in known.items()}
    jax.ffi.register_ffi_type("delassus_kernel", capsules, platform="cpu")
    return number


def counts_of(kernel: Any, further: int = 0) -> tuple[int, int, int]:
    """Numbers of arguments, of all arrays, and of axes of one state of the first argument."""
    n = len(kernel.arguments)
    return n, n + len(kernel.results) + further, len(kernel.arguments[0].shape)


def _record(kernel: Any) -> list[Any]:
    """What ``_xla`` takes of a kernel, and what that needs; the kernel itself may go."""
    again, code = Again(kernel), kernel.code
    fallback = Fallback(lambda n, addresses: _fall_back(again, n, addresses))
    many, threads = -(-ENOUGH // max(kernel.operations.total, 1)), number_of(None, ENOUGH_FOR_THREADS)
    functions = (
        ctypes.pythonapi.PyMem_RawMalloc,  # of threads with and without Python
        ctypes.pythonapi.PyMem_RawFree,
        ctypes.CDLL(None).sched_yield if os.name == "posix" else _kernel32().SwitchToThread,
        *(ENDED, FULL, fallback),
    )
    *others, ended, full, fallback_address = (ctypes.cast(function, ctypes.c_void_p).value for function in functions)
    record = ctypes.create_string_buffer(struct.pack(
        "16qd4q",
        *(address_of(_xla), address_of(_task), ctypes.addressof(code.spans), *others, ended, full),
        *(*counts_of(kernel), kernel.lanes, kernel.dtype.itemsize, kernel.has_rcond, many, threads),
        *(kernel.dtype.type(kernel.least_rcond), fallback_address, 0, 0, _type().value),
    ))  # fmt: skip
    atexit.unregister(_end_fallbacks)
    atexit.register(_end_fallbacks)
    return [record, code, fallback, _xla, _task]


class Again:
    """A kernel for states that its code does not solve: itself, or after it has gone one of the same code."""

    def __init__(self, kernel: Any) -> None:
        self._kernel: Any = ref(kernel)
        self._code, self._kept = kernel.code, None
        how = kernel.request, kernel.dtype.name, kernel.lanes, "", kernel.error_bound
        kind: Any = type(kernel)
        self._make = partial(kind, *how)

    @property
    def kernel(self) -> Any:
        """The kernel."""
        found = self._kernel() or self._kept
        if found is None:
            found = self._kept = self._make()
            found.code = self._code
        return found


ENDED = ctypes.create_string_buffer(b"Python has ended before all states were solved")
"""What XLA is told then; nobody is left to read it."""

FULL = ctypes.create_string_buffer(b"There is no memory for the call")

_failures: list[ctypes.Array[ctypes.c_char]] = []
"""Texts that XLA may still read."""


def _fall_back(again: Again, n: int, addresses: Any) -> int | None:
    """Solve the states of a batch that the machine code has not; address of the text of what went wrong, if it did."""
    try:
        kernel = again.kernel
        number = ctypes.c_double if kernel.dtype == np.float64 else ctypes.c_float
        arrays = []
        for k, a in enumerate((*kernel.arguments, *kernel.results)):
            buffer = (number * (n * a.size)).from_address(addresses[k] or 0)
            arrays.append(np.frombuffer(buffer, kernel.dtype).reshape((n, *a.shape)))
        n_arguments = len(kernel.arguments)
        run = solve_states(kernel, arrays[:n_arguments], arrays[n_arguments:], (n,), None)
        if run.again.any():
            kernel.warn_once(run.counts, n)
    except BaseException as error:  # nothing may leave a function that C calls
        text = ctypes.create_string_buffer(f"{type(error).__name__}: {error}".encode())
        _failures[:] = [*_failures[-15:], text]
        return ctypes.addressof(text)
    return None
