"""What goes through a graph node by node, as compiled loops: passes, layouts, values at many states.

`scan` leads to all of them, so that they are one piece of machine code, which every robot uses.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple, cast

import numpy as np

from delassus.compiler.jit.compile import CHECKED, Compiled, compiled, compiled_for
from delassus.compiler.jit.types import type_of
from delassus.compiler.passes.order import (
    Layout,
    enter_stages,
    kinds_together,
    lay_out,
    operand,
    reach,
    reach_among,
    schedule,
    sink,
    spread,
)
from delassus.compiler.passes.rebuild import Array, Built, Flags, Indices, Nodes, rewrite
from delassus.spatial.trace.graph import Graph
from delassus.spatial.trace.trace_ops import (
    ADD,
    COPYSIGN,
    COS,
    DIVIDE,
    LESS,
    MAX,
    MIN,
    MULTIPLY,
    NEGATE,
    SELECT,
    SIN,
    SQRT,
    SUBTRACT,
)

REACH, AMONG, SPREAD, STAGES, SINK, SCHEDULE, TOGETHER, LAY_OUT, SLOTS, EVALUATE, MEET, REWRITE = range(12)
"""What `scan` does; rules of `rebuild` follow the last number."""


@compiled
def number_slots(nodes: Nodes, last: Indices, needed: Flags, slot: Indices) -> int:
    """Rows for values of what is needed, each free again after its last use (−1: never); their number."""
    free, n_free, made = np.empty(nodes.op.shape[0] + 1, np.int64), 0, 0
    for k in range(nodes.op.shape[0]):  # leaves, which have values from the beginning
        if needed[k] and nodes.op[k] < ADD:
            slot[k] = made
            made += 1
    for k in range(nodes.op.shape[0]):
        if not needed[k] or nodes.op[k] < ADD:
            continue
        if n_free > 0:
            n_free -= 1
            slot[k] = free[n_free]
        else:
            slot[k] = made
            made += 1
        a, b, c = nodes.a[k], nodes.b[k], nodes.c[k]
        if last[a] == k:
            free[n_free] = slot[a]
            n_free += 1
        if b >= 0 and b != a and last[b] == k:
            free[n_free] = slot[b]
            n_free += 1
        if c >= 0 and c != a and c != b and last[c] == k:
            free[n_free] = slot[c]
            n_free += 1
    return made


@compiled
def evaluate(
    nodes: Nodes, needed: Flags, slot: Indices, noise_of: Indices, values: Array, noise: Array, of_sizes: bool
) -> None:
    """Values of all nodes, each in its row.

    What a node makes is multiplied by a row of noise, if it has one. ``of_sizes``: what operations make of the sizes of
    their operands if nothing cancels.
    """
    for k in range(nodes.op.shape[0]):
        op = nodes.op[k]
        if op < ADD or not needed[k]:
            continue
        out, one, x = values[slot[k]], values[slot[nodes.a[k]]], 0.0
        two = values[slot[nodes.b[k]]] if nodes.b[k] >= 0 else one
        three = values[slot[nodes.c[k]]] if nodes.c[k] >= 0 else one
        for s in range(out.shape[0]):
            if op == MULTIPLY:
                x = one[s] * two[s]
            elif op == ADD or (of_sizes and op == SUBTRACT):
                x = one[s] + two[s]
            elif op == SUBTRACT:
                x = one[s] - two[s]
            elif op == DIVIDE:
                x = one[s] / two[s]
            elif op == NEGATE:
                x = abs(one[s]) if of_sizes else -one[s]
            elif op == SQRT:
                x = math.sqrt(one[s])
            elif of_sizes:
                x = size_of(op, one[s], two[s], three[s])
            else:
                x = other_of(op, one[s], two[s], three[s])
            out[s] = x
        if noise_of[k] >= 0:
            factors = noise[noise_of[k]]
            for s in range(out.shape[0]):
                out[s] = out[s] * factors[s]


@compiled
def meetings(nodes: Nodes, needed: Flags, index: Indices, met: Indices, meet: Indices) -> None:
    """Pivots that each pivot inherits errors of, as rows of bits; see `delassus.compiler.passes.values.meetings`.

    ``index``: number of a node as a pivot, or −1; ``met``: pivots that each node depends on.
    """
    words = met.shape[1]
    for k in range(nodes.op.shape[0]):
        if needed[k] and nodes.op[k] >= ADD:
            for i in range(3):
                x = operand(nodes, k, i)
                if x >= 0:
                    for w in range(words):
                        met[k, w] = met[k, w] | met[x, w]
            if nodes.op[k] == MULTIPLY or nodes.op[k] == DIVIDE:
                meet_across(met[nodes.a[k]], met[nodes.b[k]], meet)
                meet_across(met[nodes.b[k]], met[nodes.a[k]], meet)
        if index[k] >= 0:
            p = index[k]
            for w in range(words):
                meet[p, w] = meet[p, w] | met[k, w]
            met[k, p >> 6] = met[k, p >> 6] | (1 << (p & 63))


@compiled
def meet_across(one: Indices, other: Indices, meet: Indices) -> None:
    """Let the pivots of one set that the other has not inherit those that the other alone has."""
    apart = False
    for w in range(one.shape[0]):
        apart = apart or (other[w] & (one[w] ^ -1)) != 0
    if not apart:
        return
    for w in range(one.shape[0]):
        left = one[w] & (other[w] ^ -1)
        for bit in range(64):
            if left == 0:
                break
            if (left >> bit) & 1 != 0:
                left = left ^ (1 << bit)
                for v in range(one.shape[0]):
                    meet[64 * w + bit, v] = meet[64 * w + bit, v] | (other[v] & (one[v] ^ -1))


@compiled
def other_of(op: int, x: float, y: float, z: float) -> float:
    """Other operations; see `delassus.spatial.trace.operations`."""
    if op == SIN:
        return math.sin(x)
    if op == COS:
        return math.cos(x)
    if op == SELECT:
        return y if x != 0.0 else z
    if op == LESS:
        return 1.0 if x < y else 0.0
    if op == MIN:
        return y if y < x or x != x else x
    if op == MAX:
        return y if y > x or x != x else x
    return math.copysign(x, 1.0 if y != y else y)


@compiled
def size_of(op: int, x: float, y: float, z: float) -> float:
    """Sizes of the same."""
    if op == LESS or op == COS:
        return 1.0
    if op == SIN:
        return 1.0 if x > 1.0 else x
    if op == COPYSIGN:
        return x
    if op == SELECT:
        return y if y != y or y > z else z
    return y if x != x or y > x else x


NONE, NO_FLAGS, NO_NUMBERS = np.zeros(0, np.int64), np.zeros(0, np.bool_), np.zeros((0, 0))
NO_ROWS = np.zeros((0, 0), np.int64)
NOTHING = Built(NONE, NONE, NONE, NONE, np.zeros(0), NONE, NONE)
"""In place of arrays that are not needed."""


class Arrays(NamedTuple):
    """Arrays that `scan` reads and writes, by their types."""

    built: Built = NOTHING
    flags: Flags = NO_FLAGS
    x: Indices = NONE
    y: Indices = NONE
    z: Indices = NONE
    values: Array = NO_NUMBERS
    noise: Array = NO_NUMBERS
    two: Indices = NO_ROWS
    three: Indices = NO_ROWS


@compiled_for("passes of programs", is_quick=True)
def scan(what: int, nodes: Nodes, given: Arrays, number: int, other: int) -> tuple[int, int]:
    """Any of these, by its number."""
    built, flags, x, y, z, values, noise, two, three = given
    if what == REACH:
        reach(nodes, flags, number, other)
    elif what == AMONG:
        reach_among(nodes, flags, x)
    elif what == SPREAD:
        spread(nodes, flags, number, other)
    elif what == STAGES:
        enter_stages(nodes, x)
    elif what == SINK:
        sink(nodes, flags, x, y, two)
    elif what == SCHEDULE:
        return schedule(nodes, x, y), 0
    elif what == TOGETHER:
        return kinds_together(nodes, y), 0
    elif what == LAY_OUT:
        return lay_out(nodes, Layout(x, flags, y, z), two, number, other)
    elif what == SLOTS:
        return number_slots(nodes, x, flags, y), 0
    elif what == EVALUATE:
        evaluate(nodes, flags, x, y, values, noise, other != 0)
    elif what == MEET:
        meetings(nodes, flags, x, two, three)
    else:
        rewrite(what - REWRITE, nodes, built, x, y, flags)
    return 0, 0


def nodes_of(graph: Graph) -> Nodes:
    """Arrays of a graph."""
    return Nodes(graph.op, graph.a, graph.b, graph.c, graph.value)


def run(what: int, nodes: Nodes, number: int = 0, other: int = 0, **arrays: Any) -> Any:
    """Call `scan`, in a third of the time that its own call takes, which looks at the types of all arguments."""
    given, words = Arrays(**arrays), [what]
    if CHECKED:
        return scan(what, nodes, given, number, other)
    for array in (*nodes, *given.built, *given[1:]):
        assert array.flags.c_contiguous and array.itemsize == (1 if array is given.flags else 8), array.dtype
        words += (array.ctypes.data, *array.shape)
    machine, record = _machine(), (ctypes.c_int64 * (len(words) + 2))(*words, number, other)
    out = machine.out()
    machine.entry(ctypes.addressof(record), ctypes.addressof(out))
    return out[1], out[2]


@cache
def _machine() -> Any:
    """Machine code of `scan`."""
    return cast(Compiled, scan).machine(tuple(map(type_of, (0, Nodes(*NOTHING[:5]), Arrays(), 0, 0))))


def reachable(graph: Graph, roots: Sequence[Indices] | None = None) -> Flags:
    """Mask of the nodes that roots, its outputs if none are given, depend on."""
    seen, nodes, end = np.zeros(len(graph), np.bool_), nodes_of(graph), len(graph)
    for group in graph.outputs if roots is None else roots:
        seen[group] = True
    for calls in reversed(graph.calls):
        final, operands = np.array(calls.final), np.array(calls.operands)
        run(REACH, nodes, int(final.min()), end, flags=seen)
        rows = seen[final]
        seen[np.array(calls.results)[rows.any(axis=0)]] = True
        seen[operands[rows.any(axis=1)]] = True
        end = int(final.min())
    run(REACH, nodes, 0, end, flags=seen)
    return seen
