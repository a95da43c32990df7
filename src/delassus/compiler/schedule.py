"""Scheduling: an evaluation order in which few values are alive at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.passes import reorder
from delassus.spatial.graph import Graph, Op


def schedule(graph: Graph) -> Graph:
    """Reorder the nodes depth first from the outputs, the operand that needs more registers first (Sethi–Ullman).

    A value is then made shortly before it is first used. Constants are left where they are first used.
    """
    order = depth_first(graph)
    return reorder(graph, order)


def depth_first(graph: Graph) -> NDArray[np.int64]:
    """Order of all nodes that the outputs need: operands before users, the more demanding operand first."""
    op = graph.op.tolist()
    operands = list(zip(graph.a.tolist(), graph.b.tolist(), graph.c.tolist(), strict=True))
    need = registers(graph)
    done = [False] * len(graph)
    order: list[int] = []
    for root in (int(k) for group in graph.outputs for k in group):
        stack = [(root, False)]
        while stack:
            k, ready = stack.pop()
            if done[k]:
                continue
            if ready or op[k] < Op.ADD:
                done[k] = True
                order.append(k)
                continue
            stack.append((k, True))
            waiting = [x for x in operands[k] if x >= 0 and not done[x]]
            waiting.sort(key=need.__getitem__)  # the last pushed is made first
            stack.extend((x, False) for x in waiting)
    return np.array(order, dtype=np.int64)


def registers(graph: Graph) -> list[int]:
    """Sethi–Ullman number of each node, as if the graph were a tree; leaves need none."""
    need: list[int] = []
    for kind, a, b, c in zip(graph.op.tolist(), graph.a.tolist(), graph.b.tolist(), graph.c.tolist(), strict=True):
        if kind < Op.ADD:
            need.append(0)
            continue
        below = sorted((need[x] for x in (a, b, c) if x >= 0), reverse=True)
        need.append(max(1, *(n + i for i, n in enumerate(below))))
    return need


def peak_alive(graph: Graph) -> int:
    """Largest number of operation results that are alive at once in the graph's order (no inputs, no constants)."""
    last = np.full(len(graph), -1)
    for operands in (graph.a, graph.b, graph.c):
        for k, x in enumerate(operands.tolist()):
            if x >= 0 and graph.op[k] >= Op.ADD:
                last[x] = k
    made = (graph.op >= Op.ADD) & (last >= 0)
    change = np.zeros(len(graph) + 1, dtype=int)
    change[np.flatnonzero(made)] += 1
    np.subtract.at(change, last[made], 1)
    return int(np.cumsum(change).max(initial=0))
