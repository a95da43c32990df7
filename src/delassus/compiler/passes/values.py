"""Values of a graph at many states, and which of its pivots meet, by compiled loops; both without calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from delassus.compiler.passes.rebuild import Array, Indices
from delassus.compiler.passes.scans import EVALUATE, MEET, SLOTS, SPREAD, nodes_of, reachable, run
from delassus.spatial.trace.graph import Graph
from delassus.spatial.trace.interpret import last_uses
from delassus.spatial.trace.operations import OPERATIONS, Op

IS_EXACT = np.array([op not in OPERATIONS or OPERATIONS[op].is_exact for op in Op])
"""Of each kind of operation."""


def values(
    graph: Graph,
    x: Array,
    noise: Array | None = None,
    rounding: Callable[[float], float] | None = None,
    of_sizes: bool = False,
) -> list[Array]:
    """Values (outputs, states) of each group of outputs at inputs (states, inputs).

    What each operation and known number makes is multiplied by the next row of ``noise`` (k, states), as ``rounding``
    says of numbers. ``of_sizes``: what operations make of the sizes of their operands, if nothing cancels.
    """
    needed, n, nodes = reachable(graph), len(graph), nodes_of(graph)
    row = np.full(n, -1)
    n_rows, _ = run(SLOTS, nodes, flags=needed, x=np.array(last_uses(graph, needed)), y=row)
    at = np.empty((n_rows, len(x)))
    constants, inputs = (np.flatnonzero(needed & (graph.op == op)) for op in (Op.CONSTANT, Op.INPUT))
    numbers = graph.value[constants]
    at[row[constants]] = (np.abs(numbers) if of_sizes else numbers)[:, None]
    given = list(np.ascontiguousarray(x.T))
    for k in inputs.tolist():
        at[row[k]] = given[graph.a[k]]
    takes = np.full(n, -1)
    if noise is not None:
        is_noisy = needed & ~IS_EXACT[graph.op]
        parts = np.array([0.0 if rounding is None else rounding(c) for c in numbers.tolist()])
        is_noisy[constants[parts != 0.0]] = True
        turns = np.cumsum(is_noisy) - 1
        takes[is_noisy] = turns[is_noisy] % len(noise)
        at[row[constants]] *= 1.0 + parts[:, None] * (noise[takes[constants]] - 1.0)
    noise = at if noise is None else noise
    run(EVALUATE, nodes, flags=needed, x=row, y=takes, values=at, noise=noise, other=int(of_sizes))
    return [at[row[group]] for group in graph.outputs]


def meetings(graph: Graph, of_pivots: Sequence[int]) -> list[int]:
    """Pivots that each pivot inherits errors of, as bits of a number.

    Errors meet where a pivot depends on another, and where what depends on one is multiplied by what depends on the
    other, on the way to a further pivot.
    """
    n, words = len(of_pivots), (len(of_pivots) + 63) // 64
    index = np.full(len(graph), -1)
    index[[*of_pivots]] = range(n)
    met, meet = np.zeros((len(graph), words), np.int64), np.zeros((64 * words, words), np.int64)
    needed = reachable(graph, [np.array(of_pivots, dtype=np.int64)])
    run(MEET, nodes_of(graph), flags=needed, x=index, two=met, three=meet)
    return [int.from_bytes(row.astype("<i8").tobytes(), "little") for row in meet[:n]]


def without_calls(graph: Graph) -> tuple[Graph, Indices]:
    """The graph with what is called made for each row of operands, and the place of each node in it."""
    n, columns, parts = len(graph), np.stack([graph.op, graph.a, graph.b, graph.c]), list[Indices]()
    place, column = np.full(n + 1, -1), np.full(n + 1, -1)  # the last entries stand for "no operand"
    if not graph.calls:
        return graph, np.arange(n)
    is_final, varies = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    is_final[[node for calls in graph.calls for row in calls.final for node in row]] = True
    starts = [0, *(int(np.min(calls.final)) for calls in graph.calls)]
    size = 0
    for start, end, calls in zip(starts, [*starts[1:], n], [*graph.calls, None], strict=True):
        kept = start + np.flatnonzero(~is_final[start:end])
        place[kept] = np.arange(size, size + len(kept))
        size += len(kept)
        made = columns[:, kept]
        is_operation = made[0] >= Op.ADD
        made[1:, is_operation] = place[made[1:, is_operation]]
        parts.append(np.vstack([made, kept]))
        if calls is None:
            continue
        first = int(np.min(calls.given))
        varies[first:end] = False
        varies[calls.given] = True
        run(SPREAD, nodes_of(graph), first, end, flags=varies)
        body = first + np.flatnonzero(varies[first:end] & (graph.op[first:end] >= Op.ADD))
        own = size + np.arange(len(calls.operands) * len(body)).reshape(len(calls.operands), -1)
        size += own.size
        places = np.hstack([place[np.array(calls.operands)], own])  # of each row those of what varies in it
        varying = np.append(calls.given, body)
        column[varying] = np.arange(len(varying))
        operands = [np.where(column[x] >= 0, places[:, column[x]], place[x]).ravel() for x in columns[1:, body]]
        op, origin = (np.tile(x, len(own)) for x in (graph.op[body], body))
        parts.append(np.vstack([op, *operands, origin]))
        place[np.array(calls.final)] = places[:, column[calls.results]]
        column[varying] = -1
    *made, origin = np.ascontiguousarray(np.concatenate(parts, axis=1))
    return Graph(*made, graph.value[origin], tuple(place[group] for group in graph.outputs)), place
