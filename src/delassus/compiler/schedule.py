"""Scheduling: an evaluation order in which few values are alive at a time."""

from __future__ import annotations

import numpy as np

from delassus.spatial.graph import Graph, Op, arity


def schedule(graph: Graph) -> Graph:
    """Order what the outputs need depth first from them, the operand that needs more registers first (Sethi–Ullman).

    A value is then made shortly before it is first used.
    """
    operands = [(a, b, c)[: arity(op)] for op, a, b, c in graph.nodes()]
    need: list[int] = []  # registers for each node as if the graph were a tree
    for of_node in operands:
        below = sorted((need[x] for x in of_node), reverse=True)
        need.append(max(1, *(n + i for i, n in enumerate(below))) if below else 0)
    done = [False] * len(graph)
    order: list[int] = []
    for root in graph.flat_outputs():
        stack = [(root, False)]
        while stack:
            k, ready = stack.pop()
            if done[k]:
                continue
            if ready or not operands[k]:
                done[k] = True
                order.append(k)
                continue
            stack.append((k, True))
            waiting = [x for x in operands[k] if not done[x]]
            waiting.sort(key=need.__getitem__)  # the last pushed is made first
            stack.extend((x, False) for x in waiting)
    return reorder(graph, order)


def reorder(graph: Graph, order: list[int]) -> Graph:
    """The nodes ``order``, in that order, renumbered."""
    new = np.full(len(graph) + 1, -1, dtype=np.int64)  # the last entry stands for "no operand"
    new[order] = np.arange(len(order))
    op = graph.op[order]
    a = np.where(op == Op.INPUT, graph.a[order], new[np.where(op == Op.INPUT, -1, graph.a[order])])
    outputs = tuple(new[group] for group in graph.outputs)
    return Graph(op, a, new[graph.b[order]], new[graph.c[order]], graph.value[order], outputs)
