"""Values of a graph at many states, and which of its pivots meet, by compiled loops; both without calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from delassus.compiler.passes.rebuild import Array
from delassus.compiler.passes.scans import EVALUATE, MEET, SLOTS, nodes_of, reachable, run
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
