"""Passes: small pure functions from graph to graph that keep what it computes. `PASSES` lists them in order.

A trace shares equal nodes, folds known numbers and drops zeros as it is made: no pass does that again.

- Sharing reciprocals rounds once more, and needs the reciprocals themselves to be finite.
- Sign folding and absorption keep every rounding; ``−(x − y)`` may be a zero of the other sign.
- Fusing leaves out the rounding of a product.
- The schedule keeps every bit. It drops what no output needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from delassus.compiler.passes.schedule import reorder, schedule
from delassus.spatial.trace.graph import Builder, Graph
from delassus.spatial.trace.operations import Op
from delassus.spatial.trace.trace_ops import ADD, CONSTANT, DIVIDE, INPUT, MULTIPLY, NEGATE, SUBTRACT

Rule = Callable[[Builder, int, list[int]], int | None]
"""From the new graph, a node of the old one and the new numbers of those before it to its own; None: as it was."""


def rewrite(graph: Graph, rule: Rule, kinds: Collection[int]) -> Graph:
    """Rebuild a graph, each operation of these kinds as the rule has it; equal nodes are made once."""
    build, numbers = Builder(), graph.value.tolist()
    node = build.node
    new = [-1] * (len(graph) + 1)  # the last entry stands for "no operand"
    for k, (op, a, b, c) in enumerate(graph.nodes()):
        made: int | None
        if op == INPUT:
            made = node(op, a)
        elif op == CONSTANT:
            made = build.constant(numbers[k])
        elif op not in kinds or (made := rule(build, k, new)) is None:
            made = node(op, new[a], new[b], new[c])
        new[k] = made
    table = np.array(new, dtype=np.int64)
    return build.graph([table[group] for group in graph.outputs])


def _negated(build: Builder, x: int) -> int:
    """``−x``, where a constant changes its sign and a second negation undoes the first."""
    op, inner, *_ = build.nodes[x]
    if op == Op.CONSTANT:
        return build.constant(-build.value[x])
    return inner if op == Op.NEGATE else build.node(Op.NEGATE, x)


HAS_RECIPROCAL = 2.0**-126, 2.0**126
"""Constants within these magnitudes have a reciprocal that neither overflows nor underflows, in float32 either."""


def share_reciprocals(graph: Graph) -> Graph:
    """Turn ``x / y`` into ``x · (1 / y)``: one division for all quotients by the same number, none by a constant."""
    nodes = graph.nodes()

    def rule(build: Builder, k: int, new: list[int]) -> int | None:
        _, a, b, _ = nodes[k]
        x, y = new[a], new[b]
        if build.nodes[y][0] == Op.CONSTANT:
            if HAS_RECIPROCAL[0] <= abs(build.value[y]) <= HAS_RECIPROCAL[1]:
                return build.node(Op.MULTIPLY, x, build.constant(1.0 / build.value[y]))
            return None
        reciprocal = build.node(Op.DIVIDE, build.constant(1.0), y)
        if build.nodes[x][0] == Op.CONSTANT and abs(build.value[x]) == 1.0:
            return reciprocal if build.value[x] > 0 else _negated(build, reciprocal)
        return build.node(Op.MULTIPLY, x, reciprocal)

    return rewrite(graph, rule, {Op.DIVIDE}) if (graph.op == Op.DIVIDE).any() else graph


SIGNED, NEGATED = frozenset({NEGATE, CONSTANT}), frozenset({NEGATE})
"""Kinds of operands whose sign products, and sums, may take."""


def fold_signs(graph: Graph) -> Graph:
    """Move negations out of products, where they cancel, and into sums, where they cost nothing."""
    nodes = graph.nodes()

    def positive(build: Builder, x: int) -> tuple[int, bool]:
        """``x`` without its negation or with its constant made positive, and whether that changed its sign."""
        op, inner, *_ = build.nodes[x]
        if op == NEGATE:
            return inner, True
        if op == CONSTANT and build.value[x] < 0:
            return build.constant(-build.value[x]), True
        return x, False

    def rule(build: Builder, k: int, new: list[int]) -> int | None:
        op, a, b, _ = nodes[k]
        x, y = new[a], new[b]
        if op != NEGATE:
            signs = SIGNED if op in (MULTIPLY, DIVIDE) else NEGATED
            if build.nodes[x][0] not in signs and build.nodes[y][0] not in signs:
                return None
        if op in (MULTIPLY, DIVIDE):
            (x, first), (y, second) = positive(build, x), positive(build, y)
            product = build.node(op, x, y)
            return _negated(build, product) if first != second else product
        if op == NEGATE:
            inner, left, right, _ = build.nodes[x]
            return build.node(SUBTRACT, right, left) if inner == SUBTRACT else _negated(build, x)
        minus_y = op == SUBTRACT
        if build.nodes[y][0] == NEGATE:
            y, minus_y = build.nodes[y][1], not minus_y
        if build.nodes[x][0] == NEGATE:
            x = build.nodes[x][1]
            return build.node(NEGATE, build.node(ADD, x, y)) if minus_y else build.node(SUBTRACT, y, x)
        return build.node(SUBTRACT if minus_y else ADD, x, y)

    return rewrite(graph, rule, {ADD, SUBTRACT, MULTIPLY, DIVIDE, NEGATE})


DEPTH = 6
"""How far below a negation `absorb_signs` looks for a place that it can go to."""


def absorb_signs(graph: Graph) -> Graph:
    """Move the negations left into constant factors and differences below them that serve nothing else."""
    nodes, outputs = graph.nodes(), graph.flat_outputs()
    alive = graph.reachable(outputs)
    uses = np.bincount(outputs, minlength=len(nodes))
    for operands in (graph.a, graph.b, graph.c):
        used = operands[alive & (graph.op >= Op.ADD)]
        uses += np.bincount(used[used >= 0], minlength=len(nodes))

    def rule(build: Builder, k: int, new: list[int]) -> int | None:
        def minus(x: int, depth: int) -> int | None:
            """Node for ``−x`` that takes the place of x at no cost, if there is one."""
            op, a, b, _ = nodes[x]
            if op == Op.CONSTANT:
                return build.constant(-float(graph.value[x]))
            if uses[x] != 1 or not depth:
                return None
            if op == Op.SUBTRACT:
                return build.node(Op.SUBTRACT, new[b], new[a])
            if op in (Op.MULTIPLY, Op.DIVIDE):
                if (factor := minus(a, depth - 1)) is not None:
                    return build.node(op, factor, new[b])
                if (factor := minus(b, depth - 1)) is not None:
                    return build.node(op, new[a], factor)
            if op == Op.ADD:
                for this, other in ((a, b), (b, a)):
                    if (term := minus(this, depth - 1)) is not None:
                        return build.node(Op.SUBTRACT, term, new[other])
            return None

        return minus(nodes[k][1], DEPTH) if alive[k] else None

    return rewrite(graph, rule, {Op.NEGATE}) if (graph.op == Op.NEGATE).any() else graph


MOST_USES = 4
"""Of a product that is multiplied anew in each sum."""


def fuse(graph: Graph) -> Graph:
    """Round products together with the sums that take them: decided here, once for all targets.

    A product that only one sum takes is fused with that sum; of two such products of a sum, the first one is. Then so
    are products all of whose uses are sums that fuse nothing else: they are multiplied anew in each.
    """
    kept = graph.flat_outputs()
    op, first, second = graph.op, graph.a, graph.b
    used = np.flatnonzero(graph.reachable(kept) & (op >= ADD))
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
    return reorder(made, np.flatnonzero(made.reachable(made.flat_outputs())))


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
    graph = reorder(graph, np.flatnonzero(graph.reachable(graph.flat_outputs())))
    for _, run in PASSES:
        if run is not schedule or not ordered:
            graph = run(graph)
    return graph
