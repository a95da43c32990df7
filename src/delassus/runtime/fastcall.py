"""The direct entry from Python into a kernel: a built-in function object around machine code, and what that does.

`_called` follows CPython's convention for calls with keywords (``METH_FASTCALL | METH_KEYWORDS``): arguments by
position, results as ``out``. It reads the fields of array objects at the offsets that NumPy's C interface fixes, checks
the arrays and runs the kernel, with no wrapper between. Without ``out``, it makes arrays by NumPy's C interface, at
cache lines, and returns the one or a named tuple. In place of an array of one number a state, a float, of Python or
NumPy, stands for all states. The offsets are checked on live objects, once; where they do not hold (another
interpreter, another build), there is no direct entry.

All other calls go to the general path as they came: with what is not a C-contiguous, aligned array of the right type
and shape, with results that share memory with another array, with batches above a limit. A program's hidden result, the
reciprocal condition, stays inside: where that of a state is below the least, the judge, if it has been compiled, solves
that state as direct calls begin to; where it does not, the general path does it all again.
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
from math import prod
from typing import Any

import numpy as np

from delassus.compiler.jit.compile import address_of, compiled
from delassus.compiler.jit.memory import call_at, load, reserve, store
from delassus.frozen import named_tuple
from delassus.runtime.code import LINE
from delassus.runtime.helper import HELPED, UNIT
from delassus.runtime.threads import ENOUGH_FOR_THREADS, allowed, helper_address

OBJECT_TYPE, DATA, DIMENSIONS_COUNT, DIMENSIONS, BASE, DESCRIPTOR, FLAGS = 8, 16, 24, 32, 48, 56, 64
"""Offsets in an array object (64-bit): type, data, nd, dimensions, base, descr, flags."""

CONTENTS = 32
"""Offset of the contents in a bytes object, such as the record."""

VALUE, LENGTH, ITEMS = 16, 16, 24
"""Offsets of the number in a float object, and of the length and the items of a tuple."""

GENERAL, OUT, TUPLE_TYPE, VECTORCALL, ARRAY_TYPE, DESCR, FLOAT_TYPE, DOUBLE_TYPE, BYTES_DESCR = range(0, 72, 8)
NEW_ARRAY, NEW_TUPLE, DROP, SPANS, SCRATCH, HELPER, SHARED, MOST_STATES, PART = range(72, 144, 8)
LANES, INPUTS, RESULTS, HAS_RCOND, ITEM, LEAST, NAMED, JUDGE, SHAPES = range(144, 216, 8)
"""Offsets in a kernel's record: the general path, the name "out", types and descriptors; functions of NumPy and of
Python; where the kernel's are (`MachineCode.spans`); memory for reciprocal conditions and repeated numbers; the helper
(`delassus.runtime.helper`) and the states from which it takes part; states at most, those that are run before some of
them may be ill-conditioned, and those from which on there is code for lanes; numbers of arguments and results; whether
there are reciprocal conditions; bytes of a number; the least of the conditions; the class of named tuples that results
are; where the judge is (`MachineCode.judging`). Last, of each array, the bytes of a state, its number of axes and their
lengths."""

READABLE, WRITEABLE = 0x1 | 0x100, 0x1 | 0x100 | 0x400
"""C-contiguous and aligned; the same and writeable."""

FEWEST, MOST = 64, 4096
"""States up to which a call comes here: `FEWEST`, and up to `MOST` if they need fewer operations than pay for threads.
The general path, which releases the interpreter lock and may use more threads, takes 20 µs more."""

MOST_ALONE, HELD = 1024, 20_000_000
"""States, and operations of them all, up to which a call without a helper comes here: other threads wait for the lock,
a millisecond at most."""

LEAST_PART = 128
"""States that are run before the entry looks whether some of them are ill-conditioned."""

MOST_ARRAYS, SCALARS, ROOM = 64, 8, 8 * 65
"""Arrays of a kernel that has an entry at most, and axes of these; arguments of one number a state; bytes for as many
pointers and one more."""

DECLINED = 1
"""In place of an object: the call is left to the general path."""


def limit(operations: int, most: int = MOST, enough: int = ENOUGH_FOR_THREADS) -> int:
    """States above which the general path takes over, by the operations of one: at most ``most``, or of ``enough``."""
    return min(most, max(FEWEST, enough // max(1, operations)))


@compiled
def ill_conditioned(rcond: int, n: int, least: float, item: int) -> bool:
    """Whether a reciprocal condition is below the least or not a number."""
    for s in range(n):
        at = rcond + s * item
        if not (load(at, np.float64) if item == 8 else load(at, np.float32)) >= least:
            return True
    return False


@compiled
def _hold(x: int) -> None:
    """Count one more reference to an object."""
    store(x, load(x) + 1)


@compiled
def _data(record: int, x: int, shape: int, flags: int, is_batch: bool, n: int) -> int:
    """Address of the data of an array of n states of a shape; 0 of anything else."""
    if load(x + OBJECT_TYPE) != load(record + ARRAY_TYPE) or load(x + DESCRIPTOR) != load(record + DESCR):
        return 0
    n_axes, dimensions = load(shape + 8), load(x + DIMENSIONS)
    if (load(x + FLAGS, np.int32) & flags) != flags or load(x + DIMENSIONS_COUNT, np.int32) != n_axes + is_batch:
        return 0
    if is_batch:
        if load(dimensions) != n:
            return 0
        dimensions += 8
    for d in range(n_axes):
        if load(dimensions + 8 * d) != load(shape + 16 + 8 * d):
            return 0
    data: int = load(x + DATA)
    return data


@compiled
def _repeated(record: int, x: int, n: int, k: int) -> int:
    """Address of n times the number that a float is, the k-th of a call; 0 of anything else."""
    kind = load(x + OBJECT_TYPE)
    if kind != load(record + FLOAT_TYPE) and kind != load(record + DOUBLE_TYPE):
        return 0
    number, data = load(x + VALUE, np.float64), int(load(record + SCRATCH)) + 8 * MOST * k
    for s in range(n):
        if load(record + ITEM) == 8:
            store(data + 8 * s, number, np.float64)
        else:
            store(data + 4 * s, number, np.float32)
    return data


@compiled
def _new(record: int, shape: int, is_batch: bool, n: int) -> int:
    """New array of n states, a view of memory of its own that begins at a cache line; NULL where there is none."""
    axes, n_axes, kind = reserve(ROOM), load(shape + 8), load(record + ARRAY_TYPE)
    store(axes, n * load(shape) + LINE)
    _hold(load(record + BYTES_DESCR))
    memory = call_at(load(record + NEW_ARRAY), kind, load(record + BYTES_DESCR), 1, axes, 0, 0, 0, 0)
    if memory == 0:
        return 0
    store(axes, n)
    for d in range(n_axes):
        store(axes + 8 * (d + is_batch), load(shape + 16 + 8 * d))
    _hold(load(record + DESCR))
    start = (load(memory + DATA) + LINE - 1) & -LINE
    made = call_at(
        load(record + NEW_ARRAY), kind, load(record + DESCR), n_axes + is_batch, axes, 0, start, WRITEABLE, 0
    )
    if made == 0:
        call_at(load(record + DROP), memory)
    else:
        store(made + BASE, memory)
    return made


@compiled
def _are_judged(record: int, arrays: int, n: int) -> bool:
    """Whether the judge solves all of n states that are ill-conditioned, whose results are then its own.

    It computes blocks of states in which they are, beside the results, and knows each by itself.
    """
    judge, lanes, least = load(record + JUDGE), load(record + LANES), load(record + LEAST, np.float64)
    n_inputs, n_arrays, table = load(record + INPUTS), load(record + INPUTS) + load(record + RESULTS), reserve(ROOM)
    if load(judge) == 0 or n < lanes:
        return False
    for s in range(n):
        if load(load(record + SCRATCH) + 8 * s, np.float64) >= least:
            continue
        first = s if s + lanes <= n else n - lanes
        shape, place = record + SHAPES, load(judge + 8)
        for k in range(n_arrays):
            at = place if k >= n_inputs else load(arrays + 8 * k) + first * load(shape)
            store(table + 8 * k, at)
            place += lanes * load(shape) if k >= n_inputs else 0
            shape += 16 + 8 * load(shape + 8)
        store(table + 8 * n_arrays, place)
        call_at(load(judge), table, 0, lanes)
        if not load(place + 8 * (s - first), np.float64) >= least:
            return False
        shape = record + SHAPES
        for k in range(n_arrays):
            size = load(shape) if k >= n_inputs else 0
            for b in range(0, size, 8):
                new = load(load(table + 8 * k) + (s - first) * size + b)
                store(load(arrays + 8 * k) + s * size + b, new)
            shape += 16 + 8 * load(shape + 8)
    return True


@compiled
def _run(record: int, arrays: int, n: int) -> bool:
    """Compute n states; False where one is not solved, or the general path has to compile or start the helper.

    Without the helper, by parts, so that little is lost where the general path has to do all again.
    """
    share, part, span = 0, load(record + PART), load(load(record + SPANS) + 8 * (n >= load(record + LANES)))
    if span == 0:
        return False
    if n >= load(record + SHARED):
        share, part = load(load(record + HELPER)), n
        if share == 0:
            return False
    first, rcond, item, is_judged = 0, load(record + SCRATCH), load(record + ITEM), False
    while first < n:
        size = part if n - first >= 2 * part else n - first
        if share != 0:
            call_at(share, load(record + HELPER), span, arrays, n, UNIT, 2)
        else:
            call_at(span, arrays, first, size)
        if load(record + HAS_RCOND) != 0 and ill_conditioned(
            rcond + first * item, size, load(record + LEAST, np.float64), item
        ):
            if load(load(record + JUDGE)) == 0:
                return False
            is_judged = True
        first += size
    return not is_judged or _are_judged(record, arrays, n)


@compiled
def _are_apart(arrays: int, ends: int, n_inputs: int, n_arrays: int) -> bool:
    """Whether results share no memory with one another and with arguments."""
    for k in range(n_inputs, n_arrays):
        for j in range(k):
            if load(ends + 8 * k) > load(arrays + 8 * j) and load(ends + 8 * j) > load(arrays + 8 * k):
                return False
    return True


@compiled
def _results(record: int, arguments: int, out: int) -> int:
    """Results of a call: those at the addresses in ``out``, or new ones, a new reference; NULL where that fails."""
    n_inputs, n_results, first = load(record + INPUTS), load(record + RESULTS), load(arguments)
    arrays, ends, shape = reserve(ROOM), reserve(ROOM), record + SHAPES
    n_arrays, is_batch, n = n_inputs + n_results, False, 1
    if load(first + OBJECT_TYPE) == load(record + ARRAY_TYPE):
        is_batch = load(first + DIMENSIONS_COUNT, np.int32) > load(shape + 8)
        n = load(load(first + DIMENSIONS)) if is_batch else 1
    if n > load(record + MOST_STATES):
        return DECLINED
    n_scalars, n_made, flags, last = 0, 0, READABLE, n_arrays if out != 0 else n_inputs
    for k in range(last):
        if k == n_inputs:
            arguments, flags = out - 8 * n_inputs, WRITEABLE
        x = load(arguments + 8 * k)
        data = _data(record, x, shape, flags, is_batch, n)
        if data == 0:
            n_scalars += 1
            data = _repeated(record, x, n, n_scalars) if 0 < k < n_inputs and load(shape + 8) == 0 else 0
            if data == 0:
                return DECLINED
        store(arrays + 8 * k, data)
        store(ends + 8 * k, data + n * load(shape))
        shape += 16 + 8 * load(shape + 8)
    if out != 0 and not _are_apart(arrays, ends, n_inputs, n_arrays):
        return DECLINED
    for k in range(last, n_arrays):
        x = _new(record, shape, is_batch, n)
        if x == 0:
            break
        store(ends + 8 * n_made, x)
        store(arrays + 8 * k, load(x + DATA))
        n_made += 1
        shape += 16 + 8 * load(shape + 8)
    store(arrays + 8 * n_arrays, load(record + SCRATCH))
    found = 0
    if last + n_made == n_arrays:
        found = DECLINED
        if _run(record, arrays, n):
            if out != 0:
                return 0
            if n_results == 1:
                return int(load(ends))
            found = call_at(load(record + NEW_TUPLE), load(record + NAMED), n_results)
            if found != 0:
                for k in range(n_results):
                    store(found + ITEMS + 8 * k, load(ends + 8 * k))
                return found
    for k in range(n_made):
        call_at(load(record + DROP), load(ends + 8 * k))
    return found


@compiled
def _called(owner: int, arguments: int, count: int, names: int) -> int:
    """Call of a kernel: a new reference to its results; NULL with an error set."""
    record: int = load(owner + ITEMS) + CONTENTS
    n_inputs, n_results, out = load(record + INPUTS), load(record + RESULTS), 0
    is_known = count == n_inputs
    if is_known and names != 0:
        out = arguments + 8 * n_inputs
        is_known = load(names + LENGTH) == 1 and load(names + ITEMS) == load(record + OUT)
        if is_known and n_results > 1:
            results = load(out)
            kind = load(results + OBJECT_TYPE)
            is_tuple = kind == load(record + TUPLE_TYPE) or kind == load(record + NAMED)
            is_known = is_tuple and load(results + LENGTH) == n_results
            out = results + ITEMS
    found = _results(record, arguments, out) if is_known else DECLINED
    if found == DECLINED:
        return call_at(load(record + VECTORCALL), load(record + GENERAL), arguments, count, names)
    if out != 0:
        found = load(arguments + 8 * n_inputs)
        _hold(found)
    return found


_FASTCALL, _KEYWORDS = 0x80, 0x02


_NAME, _METHOD = b"kernel", "PPiP"
"""Name of the function that Python is told of, and a ``PyMethodDef``: its name, address, flags and docstring."""


NEW_FROM_DESCR = 94
"""Where NumPy's C interface has ``PyArray_NewFromDescr``."""


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


_SCRATCH = ctypes.create_string_buffer(8 * MOST * (SCALARS + 1))
"""For all calls: one at a time uses it, under Python's lock, and runs no code of Python meanwhile."""


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
    dimensions = read(probe, DIMENSIONS, pointer)
    content, number, several = b"\x01\x02layout", 0.1, named_tuple("first", "second")(probe, None)
    return (
        read(probe, OBJECT_TYPE, pointer) == id(np.ndarray)
        and read(probe, DATA, pointer) == probe.ctypes.data
        and read(probe, DIMENSIONS_COUNT, ctypes.c_int) == 2
        and [ctypes.c_int64.from_address(dimensions + 8 * k).value for k in (0, 1)] == [2, 3]
        and read(probe, DESCRIPTOR, pointer) == id(probe.dtype)
        and read(probe, FLAGS, ctypes.c_int) & WRITEABLE == WRITEABLE
        and ctypes.string_at(id(content) + CONTENTS, len(content)) == content
        and all(read(x, VALUE, ctypes.c_double) == number for x in (number, np.float64(number)))
        and read(several, LENGTH, ctypes.c_int64) == len(several)
        and read(several, ITEMS, pointer) == id(probe)
        and read(several, ITEMS + 8, pointer) == id(None)
        and read(probe, BASE, pointer) == id(probe.base)
        and _numpy_functions() is not None
    )


def direct_entry(kernel: Any, general: Callable[..., object], is_helped: bool = False) -> Callable[..., object]:
    """Built-in function that runs a kernel; calls that it declines go to ``general``.

    With ``is_helped``, the process's helper takes part.
    """
    shapes = [x.shape for x in (*kernel.arguments, *kernel.results)]
    n_scalars = sum(not a.shape for a in kernel.arguments)
    if not supported() or n_scalars > SCALARS or max(len(shapes), *map(len, shapes)) > MOST_ARRAYS:
        return general
    out, dtype, operations, python = sys.intern("out"), kernel.dtype, max(1, kernel.operations.total), ctypes.pythonapi
    needed = python.PyObject_Vectorcall, python.PyType_GenericAlloc, python.Py_DecRef
    vectorcall, new_tuple, drop = (ctypes.cast(function, ctypes.c_void_p).value for function in needed)
    named = named_tuple(*(r.name for r in kernel.results))
    helper = helper_address() if is_helped and allowed() > 1 else 0
    most = limit(operations) if helper else limit(operations, MOST_ALONE, HELD)
    record = struct.pack(
        f"23qdqq{sum(2 + len(shape) for shape in shapes)}q",
        *(id(general), id(out), id(tuple), vectorcall, id(np.ndarray), id(dtype), id(float), id(np.float64)),
        *(id(np.dtype(np.uint8)), _numpy_functions()[NEW_FROM_DESCR], new_tuple, drop),  # like ``dtype`` there for good
        *(ctypes.addressof(kernel.code.spans), ctypes.addressof(_SCRATCH), helper),
        *(-(-HELPED // operations) if helper else MOST + 1, most),
        *(LEAST_PART if kernel.has_rcond else MOST, kernel.lanes, len(kernel.arguments), len(kernel.results)),
        *(kernel.has_rcond, dtype.itemsize, dtype.type(kernel.least_rcond), id(named)),
        ctypes.addressof(kernel.code.judging),
        *(x for shape in shapes for x in (prod(shape) * dtype.itemsize, len(shape), *shape)),
    )
    record += struct.pack(_METHOD, id(_NAME) + CONTENTS, address_of(_called), _FASTCALL | _KEYWORDS, 0)
    return _function(record, (record, general, out, kernel.code, named))


def _function(record: bytes, owner: object) -> Callable[..., object]:
    """Built-in function of the method at the end of ``record``, with ``owner`` as first argument.

    Python reads the method when it frees the function. ``owner`` is what keeps it until then, even where the garbage
    collector takes cycles apart: it has the record.
    """
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.argtypes, make.restype = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p), ctypes.py_object
    method = id(record) + CONTENTS + len(record) - struct.calcsize(_METHOD)
    function: Callable[..., object] = make(method, owner, None)
    return function
