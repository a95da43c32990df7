"""Passes: small pure functions from graph to graph that keep what it computes. `PASSES` lists them in order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delassus.compiler.graph import COMMUTATIVE, Graph, Op


def common_subexpressions(graph: Graph) -> Graph:
    """Compute equal expressions once; operands of sums and products count as equal in either order."""
    number: list[int] = []
    known: dict[tuple[int, int, int, float], int] = {}
    op, a, b, value = graph.op.tolist(), graph.a.tolist(), graph.b.tolist(), graph.value.tolist()
    for k, kind in enumerate(op):
        if kind == Op.INPUT:
            key = (kind, a[k], -1, 0.0)
        elif kind == Op.CONSTANT:
            key = (kind, -1, -1, value[k])
        else:
            x, y = number[a[k]], number[b[k]] if b[k] >= 0 else -1
            if kind in COMMUTATIVE and y < x:
                x, y = y, x
            key = (kind, x, y, 0.0)
        number.append(known.setdefault(key, k))
    new = np.array(number, dtype=np.int64)
    operation = graph.op >= Op.ADD
    a_new = np.where(operation, new[graph.a], graph.a) if len(new) else graph.a
    b_new = np.where(operation & (graph.b >= 0), new[graph.b], graph.b) if len(new) else graph.b
    return Graph(graph.op, a_new, b_new, graph.value, tuple(new[o] for o in graph.outputs))


def dead_code(graph: Graph) -> Graph:
    """Drop what no output depends on."""
    alive = graph.reachable(int(k) for group in graph.outputs for k in group)
    new = np.cumsum(alive) - 1
    operation = graph.op >= Op.ADD
    a = np.where(operation, new[graph.a], graph.a)[alive] if len(graph) else graph.a
    b = np.where(operation & (graph.b >= 0), new[graph.b], graph.b)[alive] if len(graph) else graph.b
    return Graph(graph.op[alive], a, b, graph.value[alive], tuple(new[o] for o in graph.outputs))


PASSES: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
    ("common subexpressions", common_subexpressions),
    ("dead code", dead_code),
)
"""All passes by name, in the order in which they run."""


def clean(graph: Graph) -> Graph:
    """Run all passes."""
    for _, run in PASSES:
        graph = run(graph)
    return graph
