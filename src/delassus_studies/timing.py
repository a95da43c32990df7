"""One way to measure: everything of one table in one run, on one core, calls in turns; median and spread."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import numpy as np

from delassus.cli.tables import Record
from delassus.compiler.machine.background import waiting
from delassus.quantities.planner import plan
from delassus.spatial.rotations import Array

T = TypeVar("T")
Named = TypeVar("Named", bound=Any)
"""Anything with a ``name``, or a name."""

Calls = dict[str, tuple[Callable[[], object], int]]
"""What is timed, by name: a call, and the number of states that it computes."""


@contextmanager
def pinned() -> Iterator[int | None]:
    """Keep this thread, and those it starts, on the last core that it may use; None where the system cannot."""
    if not hasattr(os, "sched_setaffinity"):
        yield None
        return
    before = os.sched_getaffinity(0)
    core = max(before)
    os.sched_setaffinity(0, {core})
    try:
        yield core
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def uncached() -> Iterator[None]:
    """Compile as for the first time: no cache on disk, no plan in memory."""
    before = os.environ.get("DELASSUS_CACHE")
    os.environ["DELASSUS_CACHE"] = "off"
    plan._plan.cache_clear()
    try:
        yield
    finally:
        del os.environ["DELASSUS_CACHE"]
        if before is not None:
            os.environ["DELASSUS_CACHE"] = before


def best(call: Callable[[], T], tries: int = 1) -> tuple[float, T]:
    """Seconds of the fastest of several calls, and the result of the last."""
    least = np.inf
    for _ in range(tries):
        start = time.perf_counter()
        result = call()
        least = min(least, time.perf_counter() - start)
    return least, result


def interleaved(
    calls: Calls, rounds: int, repeats: int = 1, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Record]:
    """Time calls in turns: median, lowest and quartiles over the rounds, in µs per state.

    A round times ``repeats`` calls one after the other, after one that is not timed: a loop, as users run it. A first
    round warms up and does not count. ``clock`` in seconds: `time.thread_time` leaves out what others run in between.
    """
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, (call, states) in calls.items():
            if repeats > 1:
                call()
            start = clock()
            for _ in range(repeats):
                call()
            if number:
                samples[name].append(1e6 * (clock() - start) / (repeats * states))
    return {name: statistics(values) for name, values in samples.items()}


def statistics(samples: Sequence[float]) -> Record:
    """Median, lowest and quartiles of times."""
    low, median, high = (float(x) for x in np.percentile(samples, (25, 50, 75)))
    return {"median": median, "lowest": min(samples), "quartiles": [low, high]}


def _name(case: Any) -> str:
    return str(getattr(case, "name", case))


def in_turn(cases: Sequence[Named]) -> Iterator[Named]:
    """The cases one after the other; says on stderr which is measured, and about how long the rest will take."""
    began = time.perf_counter()
    with waiting():
        for number, case in enumerate(cases):
            left = (time.perf_counter() - began) / max(1, number) * (len(cases) - number)
            rest = f"about {left:.0f} s left" if number else "the time of the first tells how long all take"
            _say(f"measuring {_name(case)} ({number + 1} of {len(cases)}, {rest})")
            yield case
    _say(f"measured in {time.perf_counter() - began:.0f} s")


def _say(message: str) -> None:
    with suppress(OSError, ValueError):  # nobody reads it any more
        print(f"delassus: {message}", file=sys.stderr, flush=True)


def each(record: Record, key: str, cases: Sequence[Named], measure: Callable[[Any], Any]) -> Iterator[Record]:
    """Measure the cases in turn, by name into a part of the record; the record before the first and after each."""
    found = record[key] = {}
    yield record
    for case in in_turn(cases):
        found[_name(case)] = measure(case)
        yield record


def relative_error(found: Array, wanted: Array) -> Array:
    """Largest difference of each state's result (k, …) from what is wanted, over the largest entry of that: (k,)."""
    axes = tuple(range(1, wanted.ndim))
    return np.asarray(np.abs(found - wanted).max(axis=axes) / np.abs(wanted).max(axis=axes))


def slope(x: Sequence[float], y: Sequence[float], points: int = 2) -> float:
    """Exponent of the power law fitted to the last points in log–log coordinates."""
    return float(np.polyfit(np.log(x[-points:]), np.log(y[-points:]), 1)[0])


def fitted_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The same of the upper half of the points, but at least two."""
    return slope(x, y, max(2, (len(x) + 1) // 2))
