"""Rules by which graphs are built anew, as compiled loops: equal nodes are made once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled, inlined
from delassus.compiler.jit.memory import load, reserve, store
from delassus.spatial.trace.trace_ops import ADD, CONSTANT, DIVIDE, INPUT, MULTIPLY, NEGATE, SUBTRACT

Indices = NDArray[np.int64]
Flags = NDArray[np.bool_]
Array = NDArray[np.float64]

NO_RULE, SHARE, FOLD, ABSORB = range(4)
"""Rules: none, shared reciprocals, folded signs, absorbed signs."""


class Nodes(NamedTuple):
    """Those of a graph: kinds, operands (−1: none), numbers of constants."""

    op: Indices
    a: Indices
    b: Indices
    c: Indices
    value: Array


class Built(NamedTuple):
    """A graph under construction: its nodes, their number (1,), and a table of them by what they are."""

    op: Indices
    a: Indices
    b: Indices
    c: Indices
    value: Array
    size: Indices
    table: Indices


@inlined
def bits_of(x: float) -> int:
    """A number's bits."""
    place = reserve(8)
    store(place, x, np.float64)
    return int(load(place))


@compiled
def node(built: Built, op: int, a: int, b: int, c: int, value: float) -> int:
    """Node of that kind, made if there is none yet; see `delassus.spatial.trace.graph.Builder`."""
    if (op == ADD or op == MULTIPLY) and b < a:
        a, b = b, a
    bits = bits_of(value)
    spread = bits ^ (bits >> 20) ^ (bits >> 40) if op == CONSTANT else a * 1000003 + b * 10007 + c * 101 + op
    mask = built.table.shape[0] - 1
    at = (spread ^ (spread >> 9) ^ (spread >> 17)) & mask
    found = built.table[at]
    while found >= 0:
        if built.op[found] == op and built.a[found] == a and built.b[found] == b and built.c[found] == c:
            if op != CONSTANT or bits_of(built.value[found]) == bits:
                return int(found)
        at = (at + 1) & mask
        found = built.table[at]
    made = built.size[0]
    built.op[made], built.a[made], built.b[made], built.c[made], built.value[made] = op, a, b, c, value
    built.size[0], built.table[at] = made + 1, made
    return int(made)


@inlined
def constant(built: Built, value: float) -> int:
    """Node of a number."""
    return node(built, CONSTANT, -1, -1, -1, value)


@inlined
def new_of(new: Indices, k: int) -> int:
    """New number of an operand."""
    return -1 if k < 0 else new[k]


@compiled
def negated(built: Built, x: int) -> int:
    """``−x``, where a constant changes its sign and a second negation undoes the first."""
    if built.op[x] == CONSTANT:
        return constant(built, -built.value[x])
    return built.a[x] if built.op[x] == NEGATE else node(built, NEGATE, x, -1, -1, 0.0)


HAS_RECIPROCAL = 2.0**-126, 2.0**126
"""Constants within these magnitudes have a reciprocal that neither overflows nor underflows, in float32 either."""


@compiled
def shared(built: Built, x: int, y: int) -> int:
    """``x / y`` as ``x · (1 / y)``."""
    if built.op[y] == CONSTANT:
        size = abs(built.value[y])
        if HAS_RECIPROCAL[0] <= size and size <= HAS_RECIPROCAL[1]:
            return node(built, MULTIPLY, x, constant(built, 1.0 / built.value[y]), -1, 0.0)
        return node(built, DIVIDE, x, y, -1, 0.0)
    reciprocal = node(built, DIVIDE, constant(built, 1.0), y, -1, 0.0)
    if built.op[x] == CONSTANT and abs(built.value[x]) == 1.0:
        return reciprocal if built.value[x] > 0.0 else negated(built, reciprocal)
    return node(built, MULTIPLY, x, reciprocal, -1, 0.0)


@compiled
def without_sign(built: Built, x: int) -> tuple[int, bool]:
    """``x`` without its negation or with its constant made positive, and whether that changed its sign."""
    if built.op[x] == NEGATE:
        return built.a[x], True
    if built.op[x] == CONSTANT and built.value[x] < 0.0:
        return constant(built, -built.value[x]), True
    return x, False


@compiled
def folded(built: Built, op: int, x: int, y: int) -> int:
    """A sum, product, quotient or negation, with negations moved out of products and into sums."""
    if op == NEGATE:
        if built.op[x] == SUBTRACT:
            return node(built, SUBTRACT, built.b[x], built.a[x], -1, 0.0)
        return negated(built, x)
    if op == MULTIPLY or op == DIVIDE:
        x, first = without_sign(built, x)
        y, second = without_sign(built, y)
        product = node(built, op, x, y, -1, 0.0)
        return negated(built, product) if first != second else product
    minus_y = op == SUBTRACT
    if built.op[y] == NEGATE:
        y, minus_y = built.a[y], not minus_y
    if built.op[x] == NEGATE:
        x = built.a[x]
        if minus_y:
            return node(built, NEGATE, node(built, ADD, x, y, -1, 0.0), -1, -1, 0.0)
        return node(built, SUBTRACT, y, x, -1, 0.0)
    return node(built, SUBTRACT if minus_y else ADD, x, y, -1, 0.0)


DEPTH = 6
"""How far below a negation `absorbed` looks for a place that it can go to."""


@compiled
def absorbed(nodes: Nodes, built: Built, new: Indices, uses: Indices, x: int, path: Indices, side: Indices) -> int:
    """Node for ``−x`` that takes the place of x at no cost: −1 if there is none.

    It goes down from x, operand by operand (``path``, and which one of each, ``side``), to the first place.
    """
    level, made = 0, -1
    path[0], side[0] = x, 0
    while level >= 0 and made < 0:
        k = path[level]
        op = nodes.op[k]
        if side[level] == 0 and op == CONSTANT:
            made = constant(built, -nodes.value[k])
        elif side[level] == 0 and (uses[k] != 1 or level == DEPTH):
            level -= 1
        elif side[level] == 0 and op == SUBTRACT:
            made = node(built, SUBTRACT, new[nodes.b[k]], new[nodes.a[k]], -1, 0.0)
        elif side[level] < 2 and (op == MULTIPLY or op == DIVIDE or op == ADD):
            side[level] += 1
            path[level + 1], side[level + 1] = nodes.a[k] if side[level] == 1 else nodes.b[k], 0
            level += 1
        else:
            level -= 1
    while level > 0:
        level -= 1
        k = path[level]
        other = new[nodes.b[k]] if side[level] == 1 else new[nodes.a[k]]
        if nodes.op[k] == ADD:
            made = node(built, SUBTRACT, made, other, -1, 0.0)
        elif side[level] == 1:
            made = node(built, nodes.op[k], made, other, -1, 0.0)
        else:
            made = node(built, nodes.op[k], other, made, -1, 0.0)
    return made


@compiled
def rewrite(what: int, nodes: Nodes, built: Built, new: Indices, uses: Indices, alive: Flags) -> None:
    """Build a graph anew by a rule; equal nodes are made once."""
    path, side = np.empty(DEPTH + 2, np.int64), np.empty(DEPTH + 2, np.int64)
    for k in range(nodes.op.shape[0]):
        op, a, b, made = nodes.op[k], nodes.a[k], nodes.b[k], -1
        if op == INPUT:
            made = node(built, INPUT, a, -1, -1, 0.0)
        elif op == CONSTANT:
            made = constant(built, nodes.value[k])
        elif what == SHARE and op == DIVIDE:
            made = shared(built, new[a], new[b])
        elif what == FOLD and ADD <= op and op <= NEGATE:
            made = folded(built, op, new[a], new_of(new, b))
        elif what == ABSORB and op == NEGATE and alive[k]:
            made = absorbed(nodes, built, new, uses, a, path, side)
        if made < 0:
            made = node(built, op, new[a], new_of(new, b), new_of(new, nodes.c[k]), 0.0)
        new[k] = made
