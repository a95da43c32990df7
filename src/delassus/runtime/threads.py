"""Machine code over a batch, on one thread or several."""

from __future__ import annotations

import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import Any

from numpy.typing import NDArray

from delassus.errors import ConfigurationError, shown, warn
from delassus.model.check import check_whole
from delassus.runtime import helper
from delassus.runtime.helper import HELPED, MOST, UNIT

ENOUGH_FOR_THREADS = 8_000_000
"""Operations of a whole call from which ``threads=None`` uses every core; to wake a thread takes 50 to 100 µs."""

CHUNKS = 4
"""Chunks of a batch for each thread: a thread that starts late then leaves more to the others."""

LEAST = 4096
"""States of a chunk at least, of which the helper takes its part, unless these are more than `UNINTERRUPTED`."""

UNINTERRUPTED = 50_000_000
"""Operations of a chunk at most, if it has more states than it must: 5 to 100 ms. Python sees Ctrl-C between chunks."""


def at_once(operations: int) -> int:
    """Units of work, of so many operations each, that are made at once: at most `UNINTERRUPTED`, or one."""
    return max(1, UNINTERRUPTED // max(1, operations))


PART = 0.05
"""Seconds of a part of steps, between which Python sees interrupts, too."""

GROWTH = 8
"""Times as many steps as the part before has a part at most."""


def in_parts(steps: int) -> Iterator[int]:
    """Numbers of steps, as many in all, that take about as long as `PART`; they are made between one and the next."""
    some = 1
    while steps > 0:
        some, began = min(some, steps), time.perf_counter()
        yield some
        steps, took = steps - some, time.perf_counter() - began
        some = max(1, min(GROWTH * some, int(some * PART / max(took, 1e-9))))


@cache
def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


VARIABLES = "DELASSUS_THREADS", "OMP_NUM_THREADS"
"""Environment variables that say how many threads calls have whose number is not given; the first one that is set."""


def allowed() -> int:
    """Threads of a call whose number is not given: one a processor, or as many as the environment says.

    Raises
    ------
    ConfigurationError
        ``DELASSUS_THREADS`` is no whole number from 1 on.
    """
    for name in VARIABLES:
        if (text := os.environ.get(name, "").strip()) and (number := _number(name, text)):
            return min(number, cores())
    return cores()


@cache
def _number(name: str, text: str) -> int:
    """Number of threads that a variable says; 0, and a warning, where it belongs to others and says none."""
    first, *inner = text.split(",") if name == "OMP_NUM_THREADS" else [text]  # OpenMP's are of nested levels
    if all(re.fullmatch(r"0*[1-9][0-9]{0,9}", level.strip(), re.ASCII) for level in (first, *inner)):
        return int(first)
    if name == "DELASSUS_THREADS":
        advice = "Set the environment variable to one, or unset it."
        raise ConfigurationError(name, "a whole number ≥ 1", shown(text), advice)
    warn(f"{name}={shown(text)} is no number of threads, and is ignored: set it to a whole number ≥ 1, or unset it")
    return 0


def helper_address() -> int:
    """Address of this process's helper; 0 where there is none, or one processor."""
    return helper.ADDRESS if os.name == "posix" and sys.maxsize > 2**32 and cores() > 1 else 0


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Threads for all calls of a process, one a processor; a forked child must not use its parent's."""
    return ThreadPoolExecutor(cores(), thread_name_prefix="delassus")


def number_of(threads: int | None, operations: int, is_helped: bool = False) -> int:
    """Threads for a call: those asked for, or by the operations of the whole call; at most one a processor.

    Of those that are not asked for, no more than are `allowed`.

    ``is_helped``: two may be this one and the helper.
    """
    if threads is None:
        if operations >= ENOUGH_FOR_THREADS:
            return allowed()
        return min(2, allowed()) if is_helped and operations >= HELPED and helper_address() else 1
    return min(check_whole("threads", threads, "Or leave it out.", least=1), cores())


def number_with_helpers(threads: int | None) -> int:
    """Threads that share work with helpers: two, or those asked for; at most one a processor, one without helpers."""
    wanted = min(2, allowed()) if threads is None else check_whole("threads", threads, "Or leave it out.", least=1)
    return min(wanted, cores(), 1 + MOST) if helper_address() else 1


def over_states(
    function: Callable[..., object],
    arrays: Sequence[NDArray[Any]],
    strides: Sequence[int],
    n: int,
    threads: int,
    lanes: int,
    span: int | None = None,
    operations: int = 1,
) -> None:
    """Call ``function(states, *addresses)`` for all of n states; ``strides``: bytes from one state to the next.

    Each call has at least as many states as there are ``lanes``, or all; where it has more, at most `UNINTERRUPTED`
    operations, as ``operations`` are those of one state.

    Two threads are this one and the helper, if there is the address of ``span``; else they are a pool's.

    ``function`` keeps its machine code alive. The call may be interrupted at any time, by KeyboardInterrupt: no further
    chunks are begun then, and those that other threads are at are waited for. If that is interrupted as well, the
    threads go on to the end of their chunks, in arrays that they hold.
    """
    most = at_once(operations)
    if n <= lanes or (threads == 1 and n <= most):
        function(n, *_addresses(arrays))
        return
    chunk = most if threads == 1 else min(-(-n // (threads * CHUNKS)), most)
    chunk += -chunk % lanes
    if threads == 2 and span is not None and helper_address():
        chunk = max(min(LEAST, most), chunk, 1)
        chunk += -chunk % UNIT
        for first, states in _chunks(n, chunk):
            places = (start + first * size for start, size in zip(_addresses(arrays), strides, strict=True))
            helper.share(span, list(places), states)
        return
    chunks = _chunks(n, chunk)
    pending = iter(chunks)  # shared: each thread takes the next one when it is ready

    def work() -> None:
        starts = _addresses(arrays)
        for first, states in pending:
            places = (start + first * size for start, size in zip(starts, strides, strict=True))
            function(states, *places)

    others: list[Future[None]] = []
    try:
        for _ in range(min(threads, len(chunks)) - 1):
            try:
                others.append(_pool(os.getpid()).submit(work))
            except RuntimeError:  # the system has no more threads, or the interpreter shuts down
                _pool.cache_clear()
                break
        work()
    except BaseException:
        _pool.cache_clear()  # a thread whose start was interrupted ends with its pool, and else never
        raise
    finally:
        deque(pending, maxlen=0)
        wait([other for other in others if not other.cancel()])
    for other in others:
        if not other.cancelled():
            other.result()


def _chunks(n: int, chunk: int) -> list[tuple[int, int]]:
    """First states and sizes of chunks of n states, the last of which takes what is left."""
    firsts = range(0, max(n - chunk, 0) + 1, chunk)
    return [(first, chunk if first < firsts[-1] else n - first) for first in firsts]


def _addresses(arrays: Sequence[NDArray[Any]]) -> list[int]:
    return [x.__array_interface__["data"][0] for x in arrays]
