"""Passes: small pure functions from graph to graph that keep what it computes. `PASSES` lists them in order.

Each but the last two rewrites the nodes in order through a `Builder`, which makes equal nodes once; a rule sees a
node's kind and its operands as they are in the new graph. Running one of these again changes nothing. What they keep:

- Common subexpressions and dead code keep every bit (but for which NaN a NaN is).
- Constant and sign folding keep every rounding. They take a constant zero for a structural one, as the tracing machine
  does: ``0 · x`` is zero even if x is not finite, and ``x + 0``, ``0 − x`` and ``−(x − y)`` may be a zero of the other
  sign.
- Sharing reciprocals rounds once more, and needs the reciprocals themselves to be finite.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.interpret import SEMANTICS
from delassus.spatial.graph import Builder, Graph, Op, arity

KINDS = frozenset(int(op) for op in Op)
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


def _negated(build: Builder, x: int) -> int:
    """``−x``, where a constant changes its sign and a second negation undoes the first."""
    if build.op[x] == Op.CONSTANT:
        return build.constant(-build.value[x])
    return build.a[x] if build.op[x] == Op.NEGATE else build.node(Op.NEGATE, x)


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

        if kind == Op.NEGATE:
            return _negated(build, operands[0])
        if kind == Op.SELECT and known[0]:
            return operands[1] if values[0] != 0 else operands[2]
        if kind in (Op.ADD, Op.MULTIPLY):
            for this, other in ((0, 1), (1, 0)):
                if (kind == Op.ADD and is_constant(this, 0.0)) or (kind == Op.MULTIPLY and is_constant(this, 1.0)):
                    return operands[other]
                if kind == Op.MULTIPLY and is_constant(this, -1.0):
                    return _negated(build, operands[other])
                if kind == Op.MULTIPLY and is_constant(this, 0.0):
                    return build.constant(0.0)
        if (kind == Op.SUBTRACT and is_constant(1, 0.0)) or (kind == Op.DIVIDE and is_constant(1, 1.0)):
            return operands[0]
        if kind == Op.SUBTRACT and is_constant(0, 0.0):
            return _negated(build, operands[1])
        return build.node(kind, *operands)

    return rewrite(graph, rule)


HAS_RECIPROCAL = 2.0**-126, 2.0**126
"""Constants within these magnitudes have a reciprocal that neither overflows nor underflows, in float32 either."""


def share_reciprocals(graph: Graph) -> Graph:
    """Turn ``x / y`` into ``x · (1 / y)``: one division for all quotients by the same number, none by a constant."""

    def rule(build: Builder, kind: int, operands: tuple[int, ...]) -> int:
        if kind != Op.DIVIDE:
            return build.node(kind, *operands)
        x, y = operands
        if build.op[y] == Op.CONSTANT:
            if HAS_RECIPROCAL[0] <= abs(build.value[y]) <= HAS_RECIPROCAL[1]:
                return build.node(Op.MULTIPLY, x, build.constant(1.0 / build.value[y]))
            return build.node(Op.DIVIDE, x, y)
        reciprocal = build.node(Op.DIVIDE, build.constant(1.0), y)
        if build.op[x] == Op.CONSTANT and abs(build.value[x]) == 1.0:
            return reciprocal if build.value[x] > 0 else _negated(build, reciprocal)
        return build.node(Op.MULTIPLY, x, reciprocal)

    return rewrite(graph, rule)


def fold_signs(graph: Graph) -> Graph:
    """Move negations out of products, where they cancel, and into sums, where they cost nothing."""

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
            if build.op[x] == Op.SUBTRACT:
                return build.node(Op.SUBTRACT, build.b[x], build.a[x])
            return _negated(build, x)
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
            return _negated(build, product) if first != second else product
        return build.node(kind, *operands)

    return rewrite(graph, rule)


DEPTH = 6
"""How far below a negation `absorb_signs` looks for a place that it can go to."""


def absorb_signs(graph: Graph) -> Graph:
    """Move the negations left into constant factors and differences below them that serve nothing else."""
    alive = graph.reachable(int(k) for group in graph.outputs for k in group)
    op, a, b = graph.op.tolist(), graph.a.tolist(), graph.b.tolist()
    uses = np.zeros(len(graph) + 1, dtype=np.int64)  # the last entry counts "no operand"
    for operands in (graph.a, graph.b, graph.c):
        np.add.at(uses, operands[alive & (graph.op >= Op.ADD)], 1)
    for group in graph.outputs:
        np.add.at(uses, group, 1)
    build = Builder()
    new: list[int] = []

    def minus(x: int, depth: int = DEPTH) -> int | None:
        """Node for ``−x`` that takes the place of x at no cost, if there is one."""
        if op[x] == Op.CONSTANT:
            return build.constant(-graph.value[x])
        if uses[x] != 1 or not depth:
            return None
        if op[x] == Op.SUBTRACT:
            return build.node(Op.SUBTRACT, new[b[x]], new[a[x]])
        if op[x] in (Op.MULTIPLY, Op.DIVIDE):
            if (factor := minus(a[x], depth - 1)) is not None:
                return build.node(op[x], factor, new[b[x]])
            if (factor := minus(b[x], depth - 1)) is not None:
                return build.node(op[x], new[a[x]], factor)
        if op[x] == Op.ADD:
            for this, other in ((a[x], b[x]), (b[x], a[x])):
                if (term := minus(this, depth - 1)) is not None:
                    return build.node(Op.SUBTRACT, term, new[other])
        return None

    for k, kind in enumerate(op):
        absorbed = minus(a[k]) if kind == Op.NEGATE and alive[k] else None
        if absorbed is not None:
            new.append(absorbed)
        elif kind == Op.INPUT:
            new.append(build.node(Op.INPUT, a[k]))
        elif kind == Op.CONSTANT:
            new.append(build.constant(graph.value[k]))
        else:
            new.append(build.node(kind, *(new[x] for x in (a[k], b[k], int(graph.c[k]))[: arity(kind)])))
    table = np.array(new, dtype=np.int64)
    return build.graph([table[group] for group in graph.outputs])


def dead_code(graph: Graph) -> Graph:
    """Drop what no output depends on."""
    alive = graph.reachable(int(k) for group in graph.outputs for k in group)
    return reorder(graph, np.flatnonzero(alive))


def reorder(graph: Graph, order: NDArray[np.int64]) -> Graph:
    """Keep the nodes ``order``, in that order, renumbered."""
    new = np.full(len(graph) + 1, -1, dtype=np.int64)  # the last entry stands for "no operand"
    new[order] = np.arange(len(order))
    is_input = graph.op[order] == Op.INPUT
    a = np.where(is_input, graph.a[order], new[np.where(is_input, -1, graph.a[order])])
    outputs = tuple(new[group] for group in graph.outputs)
    return Graph(graph.op[order], a, new[graph.b[order]], new[graph.c[order]], graph.value[order], outputs)


PASSES: tuple[tuple[str, Callable[[Graph], Graph]], ...] = (
    ("common subexpressions", common_subexpressions),
    ("constant folding", fold_constants),
    ("shared reciprocals", share_reciprocals),
    ("sign folding", fold_signs),
    ("sign absorption", absorb_signs),
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
        assert op in KINDS, f"node {k} has no kind"
        operands = [int(x[k]) for x in (graph.a, graph.b, graph.c)]
        used = arity(op)
        if op == Op.INPUT:
            assert operands[0] >= 0 and operands[1:] == [-1, -1], f"input node {k}"
            continue
        assert all(0 <= x < k for x in operands[:used]), f"node {k} uses a node that is not before it"
        assert all(x == -1 for x in operands[used:]), f"node {k} has too many operands"
    assert all(0 <= int(x) < n for group in graph.outputs for x in group), "an output is no node"
