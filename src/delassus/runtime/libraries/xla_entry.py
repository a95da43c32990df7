"""An entry that XLA calls directly, by its typed foreign-function interface, without Python or its lock.

``_xla(frame, record)`` is what the ``XLA_FFI_Handler`` of a kernel calls, with what is known of the kernel. It reads
the structures of ``xla/ffi/api/c_api.h``, whose version it tells XLA when that asks for it. What it does not check,
types and shapes, the caller has checked when the program was traced.

States are taken a chunk at a time by ``_work(job)``, on this thread and, from ``MANY`` states on, on those that XLA's
own pool lends, at most ``THREADS`` in all. A job is in memory of its own, which the last to leave it releases: threads
that come late find no states left, after the entry has returned. Nobody waits for a thread that has not begun; while
others end their chunks, this thread yields. Each chunk has at least as many states as a vector, or all.

A program's hidden result, its reciprocal condition, stays inside: where that of a state is below ``LEAST``, and where
the code for so many states is not compiled yet, the entry calls the function ``FALLBACK`` with the number of all states
and an array of pointers to all arrays. That does it all again and returns NULL, or the text of an error, which XLA
raises. There is no such function any more when Python ends, which ``FALLBACKS_RUNNING``, the number of its calls, makes
wait for those that have begun: threads that want Python's lock later never get it.

What is known of a kernel, and its code, stay as long as ``USES`` is not zero: the number of executables of XLA that
call it, which XLA tells when it makes one (``_instantiated``) and when it has destroyed it (``_released``), after the
last call has ended; and of jobs that threads of its pool have not left.

``_xla_launch(frame, record)`` is that of a kernel for GPUs. It launches a thread for each state on the stream that XLA
gives it, of the function that was loaded in the stream's context, and waits for nothing. XLA may record it in a graph
of CUDA's: with arrays at the same places, it launches the same.
"""

from __future__ import annotations

import numpy as np

from delassus.compiler.jit.compile import compiled, inlined
from delassus.compiler.jit.memory import call_at, compare_exchange, load, reserve, store
from delassus.compiler.targets.llvm.threads import WARP
from delassus.runtime.fastcall import ill_conditioned

API_VERSION = 0, 3
"""Major and minor version of the interface."""

EXTENSION, API, CONTEXT, STAGE, ARGUMENTS, RESULTS = 8, 16, 24, 32, 72, 112
"""Offsets in ``XLA_FFI_CallFrame``: ``extension_start``, ``api``, ``ctx``, ``stage``, ``args.args``, ``rets.rets``."""

INSTANTIATE = 0
"""``XLA_FFI_ExecutionStage_INSTANTIATE``."""

DATA, RANK, DIMENSIONS = 24, 32, 40
"""Offsets in ``XLA_FFI_Buffer``."""

EXTENSION_TYPE, METADATA, IS_METADATA = 8, 24, 1
"""Offsets in ``XLA_FFI_Metadata_Extension``, and its type."""

MAJOR, MINOR, TRAITS, STATE_TYPE = 24, 28, 32, 40
"""Offsets in ``XLA_FFI_Metadata``: both of its ``api_version``, ``traits``, ``state_type_id``."""

ERROR_CREATE, ERROR_DESTROY, STREAM_GET, STATE_SET, SCHEDULE, NUM_THREADS = 48, 64, 80, 104, 136, 144
"""Offsets in ``XLA_FFI_Api``. What these take begins with its size and an extension."""

CAPTURABLE = 1
"""``XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE``."""

CALLED = """@record{0} = global ptr null
define ptr @called{0}(ptr %frame) nounwind {{
  %record = load ptr, ptr @record{0}
  %entry = load ptr, ptr %record
  %error = tail call ptr %entry(ptr %frame, ptr %record)
  ret ptr %error
}}
"""
"""LLVM assembly of what XLA calls, by a number: the entry that is the first of a kernel's record, with that."""

TARGETS = 64
"""Functions that XLA calls that are compiled together."""

INTERNAL = 13
"""``XLA_FFI_Error_Code_INTERNAL``."""

MOST, CHUNKS = 1024, 4
"""States of a chunk at most, and chunks for each thread at least."""

ENTRY, TASK, SPANS, ALLOCATE, RELEASE, YIELD, ENDED, FULL = range(0, 64, 8)
INPUTS, ARRAYS, AXES, LANES, ITEM, HAS_RCOND, MANY, THREADS, LEAST, FALLBACK, FALLBACKS_RUNNING = range(64, 152, 8)
USES, TYPE = 152, 160
"""Offsets in what is known of a kernel: functions, its own at `MachineCode.spans`, and texts; numbers of arguments, of
these and shown results, of axes of a state of the first argument, of states of a vector; bytes of a number; whether
there are reciprocal conditions; see above; and the number by which XLA knows what it calls `_released` for."""

LAUNCH, CONTEXT_OF, TEXT_OF, DEVICES, N_DEVICES, ELSEWHERE, WARPS = range(8, 64, 8)
PER_WARP, LOWEST, ONE_STEP, NO_STEP = range(88, 120, 8)
"""Offsets in what is known of a kernel for GPUs, besides ``ENTRY``, ``INPUTS``, ``ARRAYS`` (with the reciprocal
conditions, if there are any) and ``AXES``: ``cuLaunchKernel``, ``cuStreamGetCtx`` and ``cuGetErrorString``; where what
is known of each device is, and of how many; what XLA is told of a stream of another; warps of a block at most, and
bytes that a warp shares; and operands of the kernel: ``least``, ``steps``, and the way from one step to the next."""

CONTEXT_ON, FUNCTION, PROCESSORS, OF_DEVICE = range(0, 32, 8)
"""Offsets in what is known of a device: its primary context, the kernel's function there, its number of
multiprocessors; and where the next device is."""

OPERANDS = 4096
"""Bytes of the addresses of a launch's operands at most: three, and two for each array."""

OF, USERS, NEXT, DONE, STATES, CHUNK, DOUBT, POINTERS = range(0, 64, 8)
"""Offsets in a job: the record, threads that may still read it, states that have been taken, states that are done, all
states, states of a chunk, whether one is ill-conditioned, pointers to all arrays. Reciprocal conditions are behind
these."""


@inlined
def _add(address: int, n: int) -> int:
    """Add to what threads share; what it was."""
    while True:
        before: int = load(address)
        if compare_exchange(address, before, before + n):
            return before


@inlined
def _filled(call: int, size: int, of: int) -> int:
    """What a function of XLA takes: its size, no extension, and what the call is of."""
    store(call, size)
    store(call + 8, 0)
    store(call + 16, of)
    return call


@compiled
def _forget(api: int, error: int) -> None:
    """Destroy an error, if there is one."""
    if error != 0:
        call_at(load(api + ERROR_DESTROY), _filled(reserve(24), 24, error))


@compiled
def _released(record: int) -> None:
    """Count one use of a kernel less."""
    _add(record + USES, -1)


@compiled
def _leave(job: int) -> None:
    """Release a job that no other thread is at."""
    record = load(job + OF)
    if _add(job + USERS, -1) == 1:
        call_at(load(record + RELEASE), job)
        _add(record + USES, -1)


@inlined
def _span(record: int, n: int) -> int:
    """Where the address of the code for so many states is."""
    at: int = load(record + SPANS) + 8 * (n >= load(record + LANES))
    return at


@compiled
def _work(job: int) -> None:
    """Compute states of a job until none are left."""
    record, n, chunk = load(job + OF), load(job + STATES), load(job + CHUNK)
    item, span = load(record + ITEM), load(_span(record, n))
    while True:
        first = _add(job + NEXT, chunk)
        left = n - first
        if left <= 0 or (left < chunk and first > 0):
            return
        size = chunk if left >= 2 * chunk else left  # what is left of the last chunk is its own
        call_at(span, job + POINTERS, first, size)
        if load(record + HAS_RCOND) != 0:
            rcond = load(job + POINTERS + 8 * load(record + ARRAYS))
            if ill_conditioned(rcond + first * item, size, load(record + LEAST, np.float64), item):
                store(job + DOUBT, 1)
        _add(job + DONE, size)


@compiled
def _task(job: int) -> None:
    """What threads of XLA's pool do."""
    _work(job)
    _leave(job)


@compiled
def _threads(record: int, api: int, context: int) -> int:
    """Threads of XLA's pool, if it has one, and at most those that are allowed."""
    call, n = _filled(reserve(32), 32, context), reserve(8)
    store(n, 1)
    store(call + 24, n)
    _forget(api, call_at(load(api + NUM_THREADS), call))
    lent, allowed = int(load(n)), int(load(record + THREADS))
    return max(min(lent, allowed), 1)


@inlined
def _buffer(record: int, frame: int, k: int) -> int:
    """Address of XLA's buffer of an array, of the arguments first."""
    n = load(record + INPUTS)
    at: int = load(load(frame + ARGUMENTS) + 8 * k if k < n else load(frame + RESULTS) + 8 * (k - n))
    return at


@inlined
def _states(record: int, frame: int) -> int:
    """Number of states of a call."""
    first, n = _buffer(record, frame, 0), 1
    for axis in range(load(first + RANK) - load(record + AXES)):
        n *= load(load(first + DIMENSIONS) + 8 * axis)
    return n


@inlined
def _answered(frame: int, traits: int, state: int) -> bool:
    """Whether XLA asks what the entry is, which it is told."""
    extension = load(frame + EXTENSION)
    asked: bool = extension != 0 and load(extension + EXTENSION_TYPE, np.int32) == IS_METADATA
    if asked:
        metadata = load(extension + METADATA)
        store(metadata + MAJOR, API_VERSION[0], np.int32)
        store(metadata + MINOR, API_VERSION[1], np.int32)
        store(metadata + TRAITS, traits, np.int32)
        store(metadata + STATE_TYPE, state)
    return asked


@inlined
def _error(frame: int, text: int) -> int:
    """XLA's error of a text, NULL if there is none."""
    error = 0
    if text != 0:
        call = _filled(reserve(32), 28, text)
        store(call + 24, INTERNAL, np.int32)
        error = call_at(load(load(frame + API) + ERROR_CREATE), call)
    return error


@compiled
def _solve(record: int, frame: int) -> int:
    """Compute all states; NULL or the text of an error."""
    n_arrays, lanes, n = load(record + ARRAYS), load(record + LANES), _states(record, frame)
    api, context, n_threads = load(frame + API), load(frame + CONTEXT), 1
    if n >= load(record + MANY):
        n_threads = _threads(record, api, context)
    rcond = POINTERS + 8 * n_arrays + 8
    job = call_at(load(record + ALLOCATE), rcond + n * load(record + ITEM) * load(record + HAS_RCOND))
    if job == 0:
        text: int = load(record + FULL)
        return text
    _add(record + USES, 1)
    taken = n if load(_span(record, n)) == 0 else 0  # code is not compiled yet: the fallback does that
    whole = n if n_threads == 1 else (n // (n_threads * CHUNKS * lanes) + 1) * lanes
    store(job + OF, record)
    store(job + USERS, n_threads)
    store(job + NEXT, taken)
    store(job + DONE, taken)
    store(job + STATES, n)
    store(job + CHUNK, min(whole, MOST // lanes * lanes))
    store(job + DOUBT, taken)
    for k in range(n_arrays):
        store(job + POINTERS + 8 * k, load(_buffer(record, frame, k) + DATA))
    store(job + POINTERS + 8 * n_arrays, job + rcond)
    for _ in range(1, n_threads):
        call = _filled(reserve(40), 40, context)
        store(call + 24, load(record + TASK))
        store(call + 32, job)
        refused = call_at(load(api + SCHEDULE), call)
        if refused != 0:
            _forget(api, refused)
            _leave(job)
    _work(job)
    while load(job + DONE) < n:
        call_at(load(record + YIELD))
    text = 0
    if load(job + DOUBT) != 0:
        _add(record + FALLBACKS_RUNNING, 1)
        fallback = load(record + FALLBACK)
        text = call_at(fallback, n, job + POINTERS) if fallback != 0 else load(record + ENDED)
        _add(record + FALLBACKS_RUNNING, -1)
    _leave(job)
    return text


@compiled
def _instantiated(frame: int, record: int) -> int:
    """Count one executable more that uses a kernel; NULL or an error."""
    call = _filled(reserve(48), 48, load(frame + CONTEXT))
    store(call + 24, INSTANTIATE)
    store(call + 32, record + TYPE)
    store(call + 40, record)
    _add(record + USES, 1)
    refused: int = call_at(load(load(frame + API) + STATE_SET), call)
    if refused != 0:
        _add(record + USES, -1)
    return refused


@compiled
def _gone(frame: int, record: int) -> int:
    """Answer a call of XLA by the name of a kernel that nobody holds any more: an error."""
    if _answered(frame, 0, load(record + TYPE)):
        return 0
    return _error(frame, load(record + ENDED))


@compiled
def _xla(frame: int, record: int) -> int:
    """Answer a call of XLA: NULL or an error."""
    if _answered(frame, 0, load(record + TYPE)):
        return 0
    if load(frame + STAGE, np.int32) == INSTANTIATE:
        return int(_instantiated(frame, record))
    return _error(frame, _solve(record, frame))


@compiled
def _device(record: int, stream: int) -> int:
    """What is known of the device of a stream; 0 if nothing is."""
    context, found = reserve(8), 0
    store(context, 0)
    call_at(load(record + CONTEXT_OF), stream, context)
    for k in range(load(record + N_DEVICES)):
        device = load(record + DEVICES) + OF_DEVICE * k
        if load(device + CONTEXT_ON) == load(context):
            found = device
    return found


@compiled
def _launched(record: int, frame: int, stream: int) -> int:
    """Launch a thread for each state; NULL or the text of an error."""
    n, device = _states(record, frame), _device(record, stream)
    text: int = load(record + ELSEWHERE) if device == 0 else 0
    if device == 0 or n == 0:
        return text
    states, operands = reserve(8), reserve(OPERANDS)
    store(states, n)
    store(operands, states)
    store(operands + 8, record + ONE_STEP)
    store(operands + 16, record + LOWEST)
    for k in range(load(record + ARRAYS)):
        store(operands + 24 + 16 * k, _buffer(record, frame, k) + DATA)
        store(operands + 32 + 16 * k, record + NO_STEP)
    warps = (n + WARP - 1) // WARP
    together = max(min(load(record + WARPS), warps // load(device + PROCESSORS)), 1)
    grid, shared = (warps + together - 1) // together, together * load(record + PER_WARP)
    launch, function = load(record + LAUNCH), load(device + FUNCTION)
    status = call_at(launch, function, grid, 1, 1, together * WARP, 1, 1, shared, stream, operands, 0) & 0xFFFFFFFF
    if status != 0:
        call_at(load(record + TEXT_OF), status, states)
        text = load(states)
    return text


@compiled
def _xla_launch(frame: int, record: int) -> int:
    """Answer a call of XLA on a GPU: NULL or an error."""
    if _answered(frame, CAPTURABLE, 0):
        return 0
    api = load(frame + API)
    call = _filled(reserve(32), 32, load(frame + CONTEXT))
    error: int = call_at(load(api + STREAM_GET), call)
    if error != 0:
        return error
    return _error(frame, _launched(record, frame, load(call + 24)))
