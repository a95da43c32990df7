"""Where values that cross from stage to stage are kept: those that no later stage reads give their places to others.

Rows of calls find what they read by distances between values, which one-state code wants to be neighbours. Values that
are numbered one after the other, and that the same calls read first, are therefore moved together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.program.program import Stage
from delassus.spatial.trace.graph import Graph
from delassus.spatial.trace.operations import Op


def share_slots(stages: Sequence[Stage], last: Graph, n_inputs: int) -> tuple[tuple[Stage, ...], Graph]:
    """The same stages and last part with fewer values; numbers below ``n_inputs`` are arguments, and stay."""
    first_made, last_read, called = dict[int, int](), dict[int, int](), dict[int, int]()
    for k, stage in enumerate(stages):
        for value in stage.targets:
            first_made.setdefault(value, k)
            last_read[value] = k  # none else may have its place while it is set
        for value in _read(stage.graph, stage.calls):
            last_read[value] = k
            if stage.calls:
                called.setdefault(value, k)
    last_read |= dict.fromkeys(_read(last, ()), len(stages))

    def lifetime(value: int) -> tuple[int, int]:
        """Calls that read it first, and whether the first stage sets it, which sets many; else the stage that does."""
        made = first_made[value]
        return (called[value], made == 0) if value in called else (len(stages), made)

    runs = [list(run) for _, run in groupby(sorted(first_made), key=lifetime)]
    starts = [min(first_made[value] for value in run) for run in runs]
    place = {k: k for k in range(n_inputs)}
    free_from = np.zeros(len(first_made), dtype=np.int64)  # of each place the stage from which on it is free
    for k in sorted(range(len(runs)), key=lambda k: (starts[k], -len(runs[k]))):
        n = len(runs[k])
        at = _first_fit(free_from, starts[k], n)
        free_from[at : at + n] = 1 + max(last_read[value] for value in runs[k])
        place.update(zip(runs[k], range(n_inputs + at, n_inputs + at + n), strict=True))
    moved = [
        replace(
            stage,
            graph=stage.graph if stage.calls else _moved(stage.graph, place),
            targets=tuple(place[value] for value in stage.targets),
            calls=tuple(tuple(place[value] for value in row) for row in stage.calls),
            unless=None if stage.unless is None else place[stage.unless],
        )
        for stage in stages
    ]
    return tuple(moved), _moved(last, place)


def _read(graph: Graph, calls: Sequence[Sequence[int]]) -> set[int]:
    """Values that a stage reads."""
    return {value for row in calls for value in row} if calls else {a for op, a, *_ in graph.nodes() if op == Op.INPUT}


def _moved(graph: Graph, place: dict[int, int]) -> Graph:
    return replace(
        graph, a=np.array([place[a] if op == Op.INPUT else a for op, a, *_ in graph.nodes()], dtype=np.int64)
    )


def _first_fit(free_from: NDArray[np.int64], stage: int, n: int) -> int:
    """First of ``n`` places side by side that are free at a stage."""
    taken = np.flatnonzero(free_from > stage)
    starts = np.append(0, taken + 1)
    room = np.append(taken, len(free_from)) - starts
    return int(starts[np.argmax(room >= n)])
