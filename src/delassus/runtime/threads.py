"""Machine code over a batch, on one thread or several."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.errors import ConfigurationError

ENOUGH_FOR_THREADS = 2_000_000
"""Operations of a whole call from which ``threads=None`` uses every core."""

CHUNKS = 4
"""Chunks of a batch for each thread: a thread that starts late then leaves more to the others."""


_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}
"""By process (a forked child must not use its parent's) and number of threads."""


@cache
def _cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def number_of(threads: int | None, operations: int) -> int:
    """Threads for a call: those asked for, or by the operations of the whole call."""
    if threads is None:
        return _cores() if operations >= ENOUGH_FOR_THREADS else 1
    if isinstance(threads, bool) or not isinstance(threads, (int, np.integer)) or threads < 1:
        raise ConfigurationError("threads", "a whole number of at least 1", repr(threads), "Or leave it out.")
    return int(threads)


def over_states(
    function: Callable[..., object],
    arrays: Sequence[NDArray[Any]],
    strides: Sequence[int],
    n: int,
    threads: int,
    lanes: int,
) -> None:
    """Call ``function(states, *addresses)`` for all of n states; ``strides``: bytes from one state to the next."""
    starts = [x.__array_interface__["data"][0] for x in arrays]
    if threads == 1 or n <= lanes:
        function(n, *starts)
        return
    chunk = -(-n // (threads * CHUNKS))
    chunk += -chunk % lanes
    pending = iter(range(0, n, chunk))  # shared: each thread takes the next one when it is ready

    def work() -> None:
        for first in pending:
            places = (start + first * size for start, size in zip(starts, strides, strict=True))
            function(min(chunk, n - first), *places)

    key = os.getpid(), threads
    if key not in _pools:
        _pools[key] = ThreadPoolExecutor(threads, thread_name_prefix="delassus")
    others = [_pools[key].submit(work) for _ in range(threads - 1)]
    work()
    for other in others:
        other.result()
