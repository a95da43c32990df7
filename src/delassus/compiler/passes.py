"""Passes: small pure functions from graph to graph that keep what it computes. `PASSES` lists them in order.

Each but the last two rewrites the nodes in order through a `Builder`, which makes equal nodes once; a rule sees a node's
kind and its operands as they are in the new graph. What is rewritten is exact in real arithmetic, and in floating point
up to rounding; `0 · x` is zero only where the zero is structural (the tracing machine has left those out before).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delassus.compiler.graph import Builder, Graph, Op, arity
from delassus.compiler.interpret import SEMANTICS

Rule = Callable[[Builder, int, tuple[int, ...]], int]


def rewrite(graph: Graph, rule: Rule) -> Graph:
    """Rebuild a graph; ``rule`` makes each operation from its kind and its new operands."""
    build = Builder()
    new: list[int] = []
    op, a, b, c = graph.op.tolist(), graph.a.tolist(), graph.b.tolist(), graph.c.tolist()
    for k, kind in enumerate(op):
        if kind == Op.INPUT:
            new.append(build.node(Op.INPUT, a[k]))
        elif kind == Op.CONSTANT:
            new.append(build.constant(graph.value[k]))
        else:
            operands = tuple(new[x] for x in (a[k], b[k], c[k])[: arity(kind)])
            new.append(rule(build, kind, operands))
    table = np.array(new, dtype=np.int64)
    return build.graph([table[group] for group in graph.outputs])


def _plain(build: Builder, kind: int, operands: tuple[int, ...]) -> int:
    return build.node(kind, *operands)


def common_subexpressions(graph: Graph) -> Graph:
    """Compute equal expressions once; operands of sums and products count as equal in either order."""
    return rewrite(graph, _plain)


def fold_constants(graph: Graph) -> Graph:
    """Compute what is known before any state is, and drop ``x + 0``, ``x · 1``, ``x / 1``, ``−(−x)`` and ``0 · x``."""

    def rule(build: Builder, kind: int, operands: tuple[int, ...]) -> int:
        known = [build.op[x] == Op.CONSTANT for x in operands]
        values = [build.value[x] for x in operands]
        if all(known):
            with np.errstate(all="ignore"):
                return build.constant(float(SEMANTICS[kind](*(np.array(v) for v in values))))

        def is_constant(position: int, value: float) -> bool:
            return known[position] and values[position] == value

        if kind == Op.NEGATE and build.op[operands[0]] == Op.NEGATE:
            return build.a[operands[0]]
        if kind == Op.SELECT and known[0]:
            return operands[1] if values[0] != 0 else operands[2]
        if kind in (Op.ADD, Op.MULTIPLY):
            for this, other in ((0, 1), (1, 0)):
                if kind == Op.ADD and is_constant(this, 0.0) or kind == Op.MULTIPLY and is_constant(this, 1.0):
                    return operands[other]
                if kind == Op.MULTIPLY and is_constant(this, -1.0):
                    return build.node(Op.NEGATE, operands[other])
                if kind == Op.MULTIPLY and is_constant(this, 0.0):
                    return build.constant(0.0)
        if kind == Op.SUBTRACT and is_constant(1, 0.0) or kind == Op.DIVIDE and is_constant(1, 1.0):
            return operands[0]
        if kind == Op.SUBTRACT and is_constant(0, 0.0):
            return build.node(Op.NEGATE, operands[1])
        return build.node(kind, *operands)

    return rewrite(graph, rule)


def share_reciprocals(graph: Graph) -> Graph:
    """Turn ``x / y`` into ``x · (1 / y)``: one division for all quotients by the same number."""

    def rule(build: Builder, kind: int, operands: tuple[int, ...]) -> int:
        if kind != Op.DIVIDE:
            return build.node(kind, *operands)
        x, y = operands
        if build.op[y] == Op.CONSTANT:
            return build.node(Op.MULTIPLY, x, build.constant(1.0 / build.value[y])) if build.value[y] else _plain(
                build, kind, operands
            )
        reciprocal = build.node(Op.DIVIDE, build.constant(1.0), y)
        if build.op[x] == Op.CONSTANT and build.value[x] == 1.0:
            return reciprocal
        return build.node(Op.MULTIPLY, x, reciprocal)

    return rewrite(graph, rule)


def fold_signs(graph: Graph) -> Graph:
    """Move negations into additions and subtractions, and out of products, where they cost nothing or cancel."""

    def positive(build: Builder, x: int) -> tuple[int, bool]:
        """``x`` without its negation or with its constant made positive, and whether that changed its sign."""
        if build.op[x] == Op.NEGATE:
            return build.a[x], True
        if build.op[x] == Op.CONSTANT and build.value[x] < 0:
            return build.constant(-build.value[x]), True
        return x, False

    def rule(build: Builder, kind: int, operands: tuple[int, ...]) -> int:
        if kind == Op.NEGATE:
            x = operands[0]
            if build.op[x] == Op.NEGATE:
                return build.a[x]
            if build.op[x] == Op.SUBTRACT:
                return build.node(Op.SUBTRACT, build.b[x], build.a[x])
        if kind in (Op.ADD, Op.SUBTRACT):
            x, y = operands
            minus_y = kind == Op.SUBTRACT
            if build.op[y] == Op.NEGATE:
                y, minus_y = build.a[y], not minus_y
            if build.op[x] == Op.NEGATE:
                x = build.a[x]
                if not minus_y:
                    return build.node(Op.SUBTRACT, y, x)
                return build.node(Op.NEGATE, build.node(Op.ADD, x, y))
            return build.node(Op.SUBTRACT if minus_y else Op.ADD, x, y)
        if kind in (Op.MULTIPLY, Op.DIVIDE):
            (x, first), (y, second) = positive(build, operands[0]), positive(build, operands[1])
            product = build.node(kind, x, y)
            return build.node(Op.NEGATE, product) if first != second else product
        return build.node(kind, *operands)

    return rewrite(graph, rule)


def dead_code(graph: Graph) -> Graph:
    """Drop what no output depends on."""
    alive = graph.reachable(int(k) for group in graph.outputs for k in group)
    return _kept(graph, np.flatnonzero(alive))


def _kept(graph: Graph, order: np.ndarray) -> Graph:  # type: ignore[type-arg]
    """The nodes ``order``, in that order, renumbered."""
    new = np.full(len(graph) + 1, -1, dtype=np.int64)  # the last entry stands for "no operand"
    new[order] = np.arange(len(order))
    is_input = graph.op[order] == Op.INPUT
    a = np.where(is_input, graph.a[order], new[graph.a[order]])
    outputs = tuple(new[group] for group in graph.outputs)
    return Graph(graph.op[order], a, new[graph.b[order]], new[graph.c[order]], graph.value[order], outputs)


PASSES: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
    ("common subexpressions", common_subexpressions),
    ("constant folding", fold_constants),
    ("shared reciprocals", share_reciprocals),
    ("sign folding", fold_signs),
    ("sign folding again", fold_signs),
    ("dead code", dead_code),
)
"""Passes of a kernel by name, in the order in which they run."""


def clean(graph: Graph) -> Graph:
    """Common subexpressions and dead code only: the graph as the papers count it."""
    return dead_code(common_subexpressions(graph))


def optimise(graph: Graph) -> Graph:
    """Run all passes."""
    for _, run in PASSES:
        graph = run(graph)
    return graph


def verify(graph: Graph) -> None:
    """Check the invariants of a graph; raises `AssertionError` naming the node."""
    n = len(graph)
    for k in range(n):
        op = int(graph.op[k])
        operands = [int(x[k]) for x in (graph.a, graph.b, graph.c)]
        used = arity(op)
        if op == Op.INPUT:
            assert operands[0] >= 0 and operands[1:] == [-1, -1], f"input node {k}"
            continue
        assert all(0 <= x < k for x in operands[:used]), f"node {k} uses a node that is not before it"
        assert all(x == -1 for x in operands[used:]), f"node {k} has too many operands"
    assert all(0 <= int(x) < n for group in graph.outputs for x in group), "an output is no node"
