"""Passes: small pure functions from graph to graph that keep what it computes. `PASSES` lists them in order.

A trace shares equal nodes, folds known numbers and drops zeros as it is made: no pass does that again.

- Sharing reciprocals rounds once more, and needs the reciprocals themselves to be finite.
- Sign folding and absorption keep every rounding; ``−(x − y)`` may be a zero of the other sign.
- Fusing leaves out the rounding of a product.
- The schedule keeps every bit. It drops what no output needs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from delassus.compiler.passes.rebuild import ABSORB, FOLD, NO_RULE, SHARE, Built, Flags, Indices
from delassus.compiler.passes.scans import NO_FLAGS, NONE, REWRITE, SPREAD, nodes_of, reachable, run
from delassus.compiler.passes.schedule import reorder, schedule
from delassus.spatial.trace.graph import Graph
from delassus.spatial.trace.operations import Op
from delassus.spatial.trace.trace_ops import ADD, MULTIPLY, SUBTRACT


def rewrite(graph: Graph, rule: int = NO_RULE, uses: Indices = NONE, alive: Flags = NO_FLAGS) -> Graph:
    """The graph, built anew by a rule of `rebuild`; equal nodes are made once."""
    room = MOST_NEW * len(graph) + 64
    table = np.full(1 << room.bit_length(), -1)
    (op, a, b, c), value, new = np.empty((4, room), np.int64), np.empty(room), np.empty(len(graph), np.int64)
    built = Built(op, a, b, c, value, np.zeros(1, np.int64), table)
    run(REWRITE + rule, nodes_of(graph), built=built, flags=alive, x=new, y=uses)
    n = int(built.size[0])
    outputs = tuple(new[group] for group in graph.outputs)
    return Graph(op[:n].copy(), a[:n].copy(), b[:n].copy(), c[:n].copy(), value[:n].copy(), outputs)


MOST_NEW = 8
"""Nodes that a rule makes of one, at most: absorbing a sign, one at each depth."""


def share_reciprocals(graph: Graph) -> Graph:
    """Turn ``x / y`` into ``x · (1 / y)``: one division for all quotients by the same number, none by a constant."""
    return rewrite(graph, SHARE) if (graph.op == Op.DIVIDE).any() else graph


def fold_signs(graph: Graph) -> Graph:
    """Move negations out of products, where they cancel, and into sums, where they cost nothing."""
    return rewrite(graph, FOLD)


def absorb_signs(graph: Graph) -> Graph:
    """Move the negations left into constant factors and differences below them that serve nothing else."""
    if not (graph.op == Op.NEGATE).any():
        return graph
    alive = reachable(graph)
    uses = np.bincount(graph.flat_outputs(), minlength=len(graph))
    for operands in (graph.a, graph.b, graph.c):
        used = operands[alive & (graph.op >= Op.ADD)]
        uses += np.bincount(used[used >= 0], minlength=len(graph))
    return rewrite(graph, ABSORB, uses, alive)


MOST_USES = 4
"""Of a product that is multiplied anew in each sum."""


def fuse(graph: Graph) -> Graph:
    """Round products together with the sums that take them: decided here, once for all targets.

    A product that only one sum takes is fused with that sum; of two such products of a sum, the first one is. Then so
    are products all of whose uses are sums that fuse nothing else: they are multiplied anew in each.
    """
    kept = graph.flat_outputs()
    op, first, second = graph.op, graph.a, graph.b
    used = np.flatnonzero(reachable(graph) & (op >= ADD))
    operands = np.stack([graph.a[used], graph.b[used], graph.c[used]], axis=1).ravel()
    users = np.repeat(used, 3)[operands >= 0]  # of each operand, in order
    operands = operands[operands >= 0]
    uses = np.bincount(operands, minlength=len(graph) + 1)  # the last entry stands for "no operand"
    is_product = op == MULTIPLY
    is_product[kept] = False
    is_sum = (op == ADD) | (op == SUBTRACT)

    taken = np.full(len(graph), -1)  # of a sum the product that it takes
    is_single = np.append(is_product & (uses[:-1] == 1), False)
    own = is_single[operands] & is_sum[users]
    product, user = operands[own], users[own]
    comes_first = (first[user] == product) | ~is_single[first[user]]
    taken[user[comes_first]] = product[comes_first]

    is_repeated = is_product & (uses[:-1] > 1) & (uses[:-1] <= MOST_USES)
    own = is_repeated[operands]
    several: dict[int, list[int]] = {}
    for x, k in zip(operands[own].tolist(), users[own].tolist(), strict=True):
        several.setdefault(x, []).append(k)
    may_take = (is_sum & (first != second) & (taken < 0)).tolist()
    for x, of_x in several.items():
        if all(may_take[k] for k in of_x):
            for k in of_x:
                may_take[k], taken[k] = False, x

    sums = np.flatnonzero(taken >= 0)
    product = taken[sums]
    is_left, adds = first[sums] == product, op[sums] == ADD
    new, a, b, c = op.copy(), graph.a.copy(), graph.b.copy(), graph.c.copy()
    new[sums] = np.where(adds, Op.FMA, np.where(is_left, Op.FMS, Op.FNMA))
    a[sums], b[sums], c[sums] = first[product], second[product], np.where(is_left, second[sums], first[sums])
    made = replace(graph, op=new, a=a, b=b, c=c)
    return reorder(made, np.flatnonzero(reachable(made)))


PASSES: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
    ("shared reciprocals", share_reciprocals),
    ("sign folding", fold_signs),
    ("sign absorption", absorb_signs),
    ("fused sums", fuse),
    ("schedule", schedule),
)
"""Passes of a kernel by name, in the order in which they run."""


def optimise(graph: Graph, ordered: bool = False) -> Graph:
    """Run all passes on what outputs need; on a graph that is ``ordered`` all but the schedule."""
    graph = reorder(graph, np.flatnonzero(reachable(graph)))
    for _, apply in PASSES:
        if apply is not schedule or not ordered:
            graph = apply(graph)
    return graph


def without_calls(graph: Graph) -> tuple[Graph, Indices]:
    """The graph with what is called made for each row of operands that is read, and the place of each node in it."""
    n, columns, parts = len(graph), np.stack([graph.op, graph.a, graph.b, graph.c]), list[Indices]()
    place, column = np.full(n + 1, -1), np.full(n + 1, -1)  # the last entries stand for "no operand"
    if not graph.calls:
        return graph, np.arange(n)
    is_final, varies = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    is_final[[node for calls in graph.calls for row in calls.final for node in row]] = True
    read = np.zeros(n + 1, np.bool_)
    read[columns[1:, graph.op >= Op.ADD]] = read[graph.flat_outputs()] = True
    for some in graph.calls:
        read[np.array(some.operands)] = True
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
        if calls is None or not read[np.array(calls.final)].any():
            continue
        rows = np.flatnonzero(read[np.array(calls.final)].any(axis=1))
        first = int(np.min(calls.given))
        varies[first:end] = False
        varies[calls.given] = True
        run(SPREAD, nodes_of(graph), first, end, flags=varies)
        body = first + np.flatnonzero(varies[first:end] & (graph.op[first:end] >= Op.ADD))
        own = size + np.arange(len(rows) * len(body)).reshape(len(rows), -1)
        size += own.size
        places = np.hstack([place[np.array(calls.operands)[rows]], own])  # of each row those of what varies in it
        varying = np.append(calls.given, body)
        column[varying] = np.arange(len(varying))
        operands = [np.where(column[x] >= 0, places[:, column[x]], place[x]).ravel() for x in columns[1:, body]]
        parts.append(np.vstack([np.tile(graph.op[body], len(own)), *operands, np.tile(body, len(own))]))
        place[np.array(calls.final)[rows]] = places[:, column[calls.results]]
        column[varying] = -1
    op, a, b, c, origin = np.ascontiguousarray(np.concatenate(parts, axis=1))
    return Graph(op, a, b, c, graph.value[origin], tuple(place[group] for group in graph.outputs)), place
