"""Timing that can be compared: everything of one table in one run, on one core, in turns; median and spread."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from delassus.runtime.cpu_target import host

Call = Callable[[], object]


@contextmanager
def pinned() -> Iterator[int | None]:
    """Keep this thread, and those it starts, on one core: the last that it may use; None if the system has no say."""
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


def cores() -> int:
    """Cores that this thread may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def nothing_kept() -> Iterator[None]:
    """Compile as for the first time: no cache on disk, no plan in memory."""
    from delassus.algorithms.osim import plan

    before = os.environ.get("DELASSUS_CACHE")
    os.environ["DELASSUS_CACHE"] = "off"
    plan._plan.cache_clear()
    try:
        yield
    finally:
        del os.environ["DELASSUS_CACHE"]
        if before is not None:
            os.environ["DELASSUS_CACHE"] = before


def seconds(call: Call) -> float:
    """Seconds that one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def interleaved(calls: Mapping[str, tuple[Call, int]], rounds: int, repeats: int = 1) -> dict[str, list[float]]:
    """Seconds per state of each call (call, states), one number a round; the calls take turns.

    A round times ``repeats`` calls one after the other, after one that is not timed: a loop, as users run it. The
    first round warms up and does not count.
    """
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, (call, states) in calls.items():
            if repeats > 1:
                call()
            start = time.perf_counter()
            for _ in range(repeats):
                call()
            if number:
                samples[name].append((time.perf_counter() - start) / (repeats * states))
    return samples


def microseconds(samples: Sequence[float]) -> dict[str, object]:
    """Median, lowest and quartiles of samples in seconds, in µs."""
    low, middle, high = (float(x) * 1e6 for x in np.percentile(samples, (25, 50, 75)))
    return {"median": middle, "lowest": min(samples) * 1e6, "quartiles": [low, high]}


def time_per_state(calls: Mapping[str, Call], states: int, repeats: int = 7) -> dict[str, float]:
    """Median seconds per state of each call, which computes ``states`` states; the calls take turns."""
    samples = interleaved({name: (call, states) for name, call in calls.items()}, repeats)
    return {name: float(np.median(values)) for name, values in samples.items()}


def fitted_slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Exponent of the power law fitted to the upper half of the points, but at least two, in log–log coordinates."""
    half = max(2, (len(x) + 1) // 2)
    return float(np.polyfit(np.log(x[-half:]), np.log(y[-half:]), 1)[0])


def setting() -> dict[str, object]:
    """Processor and versions, for tables and records."""
    this = host()
    versions = {}
    for package in ("delassus", "numpy", "casadi", "llvmlite", "pin", "jax", "frax"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return {"processor": f"{platform.machine()}, {this.cpu}, {this.vector_bits} bits", "versions": versions}
