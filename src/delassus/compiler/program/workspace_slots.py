"""Where values that cross from stage to stage are kept: those that no later stage reads give their places to others.

Rows of calls find what they read by distances between values, which one-state code wants to be neighbours. Values that
are numbered one after the other, and that the same calls read first, are therefore moved together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.program.program import Stage
from delassus.spatial.trace.graph import Graph
from delassus.spatial.trace.operations import Op


def share_slots(stages: Sequence[Stage], last: Graph, n_inputs: int) -> tuple[tuple[Stage, ...], Graph]:
    """The same stages and last part with fewer values; numbers below ``n_inputs`` are arguments, and stay."""
    n = 1 + max((value for stage in stages for value in stage.targets), default=n_inputs - 1)
    never = len(stages)
    first_made, first_called, last_read = np.full(n, never), np.full(n, never), np.zeros(n, np.int64)
    for k, stage in enumerate(stages):
        made, read = np.array(stage.targets, dtype=np.int64), read_by(stage.graph, stage.calls)
        first_made[made] = np.minimum(first_made[made], k)
        last_read[made] = last_read[read] = k  # none else may have its place while it is set
        if stage.calls:
            first_called[read] = np.minimum(first_called[read], k)
    last_read[read_by(last, ())] = never

    # of those that calls read the first calls that do, and whether the first stage sets them, which sets many; of
    # others the stage that does
    made = np.flatnonzero(first_made < never)
    kind = np.where(first_called[made] < never, first_made[made] == 0, first_made[made])
    apart = (np.diff(first_called[made]) != 0) | (np.diff(kind) != 0)
    begin = np.append(0, 1 + np.flatnonzero(apart)) if len(made) else np.zeros(0, np.int64)
    starts, ends = np.minimum.reduceat(first_made[made], begin), np.maximum.reduceat(last_read[made], begin)
    sizes = np.diff(np.append(begin, len(made)))
    place, free_from = np.arange(n), np.zeros(len(made), np.int64)  # of each place the stage from which on it is free
    for k in np.lexsort((-sizes, starts)).tolist():
        at, size = _first_fit(free_from, starts[k], sizes[k]), sizes[k]
        free_from[at : at + size] = 1 + ends[k]
        place[made[begin[k] : begin[k] + size]] = np.arange(n_inputs + at, n_inputs + at + size)
    return tuple(stage_moved(stage, place) for stage in stages), moved(last, place)


def stage_moved(stage: Stage, place: NDArray[np.int64]) -> Stage:
    """A stage whose values have these places."""
    return replace(
        stage,
        graph=stage.graph if stage.calls else moved(stage.graph, place),
        targets=tuple(place[[*stage.targets]].tolist()),
        calls=tuple(map(tuple, place[np.array(stage.calls)].tolist())) if stage.calls else (),
        unless=None if stage.unless is None else int(place[stage.unless]),
    )


def read_by(graph: Graph, calls: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Values that a stage reads."""
    return np.array(calls, dtype=np.int64).ravel() if calls else graph.a[graph.op == Op.INPUT]


def moved(graph: Graph, place: NDArray[np.int64]) -> Graph:
    """A graph whose inputs have these numbers."""
    a, is_input = graph.a.copy(), graph.op == Op.INPUT
    a[is_input] = place[a[is_input]]
    return replace(graph, a=a)


def _first_fit(free_from: NDArray[np.int64], stage: int, n: int) -> int:
    """First of ``n`` places side by side that are free at a stage."""
    taken = np.flatnonzero(free_from > stage)
    starts = np.append(0, taken + 1)
    room = np.append(taken, len(free_from)) - starts
    return int(starts[np.argmax(room >= n)])
