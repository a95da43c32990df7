"""Timing that can be compared: everything of one table in one run, interleaved, median of repeats."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np


def time_per_state(calls: Mapping[str, Callable[[], object]], states: int, repeats: int = 7) -> dict[str, float]:
    """Median seconds per state of each call, which computes ``states`` states; the calls take turns."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            samples[name].append((time.perf_counter() - start) / states)
    return {name: float(np.median(values)) for name, values in samples.items()}
