"""Helpers: threads that take part in calls of kernels and in steps of scenes, and stay awake for a while after each.

``_help(helper)`` is what the thread runs, for good. ``share_work(helpers, span, arrays, n, …)`` is a call of n states:
the caller takes states from the first on, helpers from the last, each a quarter of what is left at a time, in whole
units, so that all are computed as on one thread. ``span(arrays, first, n)`` computes some of them. The caller offers
its job in the ``BOX`` of each helper. Where one has not taken it by the time that no states are left, the caller takes
it back: nobody waits for a thread that has not begun. Of several callers at once, one has a helper, the others work
without it.

A helper that finds no job yields its processor and looks again, for `PATIENCE` nanoseconds; then it waits for a lock of
Python's, which the next caller releases. Where other threads want its processor, it is away for longer than `CROWDED`,
and callers that wait for it lose more than they gain. They do without it then for `PAUSE` times as long, at most
`LONGEST`, so that they lose a small part of their time.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Sequence

from delassus.compiler.jit.compile import address_of, c_function, compiled
from delassus.compiler.jit.memory import call_at, compare_exchange, exchange, load, reserve, store

UNIT = 32
"""States of a kernel that a thread takes at least: a multiple of what a block has."""

MOST = 63
"""Helpers."""

HELPED = 2_500_000
"""Operations of a call from which it pays to share it, even with a helper that has to wake up."""

PATIENCE, CROWDED, LONGEST, PAUSE = 200_000, 50_000, 256_000_000, 16
"""Nanoseconds, and how many times; see above."""

SHARE, ACQUIRE, RELEASE, YIELD, TIME, CLOCK, LOCK, BOX, BUSY, TAKEN, AWAKE, REST = FIELDS = range(0, 96, 8)
"""Offsets in a helper: functions of this file, of Python and of the system, number of a clock, lock, job that is
offered, whether the helper is at one, whether a caller has it, whether it is awake, when callers may have it again."""

ENDS, SPAN, ARRAYS, GRAIN, JOB = range(0, 40, 8)
"""Offsets in a job: the first state that is left and the end of them, 32 bits each; span; arrays; how many states a
thread takes at least; and its size."""

SIZE = 8 * len(FIELDS)

_HELPER = (ctypes.c_int64 * (MOST * len(FIELDS)))()
"""The helpers of this process, whose first fields are 0 until they are started."""

ADDRESS = ctypes.addressof(_HELPER)

_starting = threading.Lock()


@compiled
def _take(job: int, is_upward: bool) -> None:
    """Compute states of a job until none are left."""
    unit = load(job + GRAIN)
    while True:
        ends = load(job + ENDS)
        first, last = ends >> 32, ends & 0xFFFFFFFF
        if first >= last:
            return
        size, ragged = (((last - first) >> 2) + unit) & -unit, last % unit
        if not is_upward and ragged > 0:
            size = ragged + unit
        if last - first - size < unit:
            size = last - first
        begin = first if is_upward else last - size
        left = (first + size) << 32 | last if is_upward else first << 32 | begin
        if compare_exchange(job + ENDS, ends, left):
            call_at(load(job + SPAN), load(job + ARRAYS), begin, size)


@compiled
def _now(helper: int) -> int:
    """Time in nanoseconds."""
    time = reserve(16)
    call_at(load(helper + TIME), load(helper + CLOCK), time)
    seconds: int = load(time)
    return seconds * 1_000_000_000 + int(load(time + 8))


@compiled
def _withdraw(helper: int, now: int, away: int) -> None:
    """Let callers do without a helper that was away so long, and no shorter than before."""
    store(helper + REST, max(load(helper + REST), now + min(PAUSE * away, LONGEST)))


@compiled
def _help(helper: int) -> None:
    """Take part in calls, for good."""
    while True:
        call_at(load(helper + ACQUIRE), load(helper + LOCK), 1)
        last = before = _now(helper)
        is_awake = True
        while is_awake:
            job = exchange(helper + BOX, 0) if load(helper + BOX) != 0 else 0
            if job != 0:
                _take(job, False)
                store(helper + BUSY, 0)
                last = before = _now(helper)
                continue
            call_at(load(helper + YIELD))
            now = _now(helper)
            if now - before > CROWDED:
                _withdraw(helper, now, now - before)
            is_awake = now - before <= CROWDED and now - last <= PATIENCE
            before = now
        exchange(helper + AWAKE, 0)


@compiled
def share_work(helpers: int, span: int, arrays: int, n: int, unit: int, threads: int) -> None:
    """Compute n states, in units of a power of two, with those helpers of so many threads that are to be had."""
    job, mine = reserve(JOB), 0
    store(job + ENDS, n)
    store(job + SPAN, span)
    store(job + ARRAYS, arrays)
    store(job + GRAIN, unit)
    for k in range(threads - 1):
        helper = helpers + SIZE * k
        if load(helper + SHARE) == 0 or not compare_exchange(helper + TAKEN, 0, 1):
            continue
        if _now(helper) < load(helper + REST):
            store(helper + TAKEN, 0)
            continue
        mine |= 1 << k
        store(helper + BUSY, 1)
        store(helper + BOX, job)
        if exchange(helper + AWAKE, 1) == 0:  # after the offer: one that wakes and finds none may sleep again
            call_at(load(helper + RELEASE), load(helper + LOCK))
    _take(job, True)
    for k in range(threads - 1):
        helper = helpers + SIZE * k
        if (mine >> k) % 2 == 0:
            continue
        if compare_exchange(helper + BOX, job, 0):
            store(helper + BUSY, 0)
        else:
            ended = _now(helper)
            while load(helper + BUSY) != 0:
                call_at(load(helper + YIELD))
            now = _now(helper)
            if now - ended > CROWDED:
                _withdraw(helper, now, now - ended)
        store(helper + TAKEN, 0)


def _start(at: int) -> None:
    """Start the thread whose fields begin there; where the system has no more, calls do without it."""
    python, system = ctypes.pythonapi, ctypes.CDLL(None)
    allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p)(("PyThread_allocate_lock", python))
    lock = allocate()
    ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(("PyThread_acquire_lock", python))(lock, 1)
    functions = (python.PyThread_acquire_lock, python.PyThread_release_lock, system.sched_yield, system.clock_gettime)
    known = [*(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in functions), time.CLOCK_MONOTONIC, lock]
    _HELPER[at + 1 : at + len(FIELDS)] = [*known, *[0] * (len(FIELDS) - 1 - len(known))]
    for kept in (share_work, _help, _HELPER):  # for good: the thread may still run when Python ends
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    try:
        run, own = c_function(_help), (ADDRESS + 8 * at,)
        threading.Thread(target=run, args=own, daemon=True, name="delassus helper").start()
    except RuntimeError:
        _HELPER[at + TAKEN // 8] = 1
    _HELPER[at] = address_of(share_work)


def start(threads: int) -> int:
    """Start what helpers so many threads need, this one among them, and have not; address of the helpers."""
    if threads == 2 and _HELPER[0]:  # as nearly always
        return ADDRESS
    with _starting:
        for at in range(0, (threads - 1) * len(FIELDS), len(FIELDS)):
            if not _HELPER[at]:
                _start(at)
    return ADDRESS


def share(span: int, addresses: Sequence[int], n: int, threads: int = 2) -> None:
    """Compute n states of the arrays at these addresses, fewer than 2³¹, with helpers, which are started first."""
    start(threads)
    places = (ctypes.c_int64 * len(addresses))(*addresses)
    c_function(share_work)(ADDRESS, span, ctypes.addressof(places), n, UNIT, threads)


def _forget() -> None:
    """Forget threads in a forked child, which has none: the next call starts one."""
    global _starting
    _starting = threading.Lock()
    for at in range(0, len(_HELPER), len(FIELDS)):
        _HELPER[at] = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
