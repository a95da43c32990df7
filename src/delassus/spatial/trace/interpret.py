"""The meaning of a graph: a NumPy interpreter that every target is compared with, operation by operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from delassus.spatial.trace.graph import Graph, Loop
from delassus.spatial.trace.operations import OPERATIONS, Op

if TYPE_CHECKING:
    from delassus.spatial.trace.trace_ops import TraceOps

INPUT, CONSTANT = int(Op.INPUT), int(Op.CONSTANT)

SEMANTICS = {op: operation.values for op, operation in OPERATIONS.items()}


def interpret(graph: Graph, x: NDArray[Any]) -> list[NDArray[Any]]:
    """Run a graph on floating-point inputs (..., n_inputs); returns one array (..., k) for each group of outputs."""
    assert np.issubdtype(x.dtype, np.floating), x.dtype
    batch = x.shape[:-1]
    with np.errstate(all="ignore"):
        values = evaluate(graph, list(np.moveaxis(x, -1, 0)), lambda c: np.full(batch, c, x.dtype), SEMANTICS)
    empty = np.zeros((*batch, 0), dtype=x.dtype)
    return [np.stack([values[k] for k in group], axis=-1) if len(group) else empty for group in graph.outputs]


def interpret_trace(ops: TraceOps, outputs: Sequence[Sequence[int]], x: NDArray[Any]) -> list[NDArray[Any]]:
    """Run what has been traced, loops and all, on inputs (k, n); one array (k, m) for each group of ``outputs``."""
    nodes = ops.since(0)
    n_inputs = sum(op == INPUT for op, *_ in nodes)
    inputs = np.concatenate([x, np.zeros((len(x), n_inputs - x.shape[1]))], axis=1)
    every = ops.loops
    for k, loop in enumerate(every):
        assert isinstance(loop, Loop), "calls are the compiler's"
        if not loop.times:  # here begins the single pass that has what follows inside
            loop = next(x for i, x in enumerate(every) if isinstance(x, Loop) and i - x.inside == k + 1 and x.inside)
            (inputs[:, [nodes[i][1] for i in loop.carried]],) = interpret(ops.graph([loop.start]), inputs)
            continue
        carried, final = ([nodes[i][1] for i in which] for which in (loop.carried, loop.final))
        values, body = inputs[:, carried], ops.graph([loop.following])
        if not loop.inside:
            (values,) = interpret(ops.graph([loop.start]), inputs)
        for _ in range(loop.times):
            if values[:, -1].all():
                break
            inputs[:, carried] = values
            (values,) = interpret(body, inputs)
        inputs[:, final] = values
    return interpret(ops.graph(outputs), inputs)


def evaluate(
    graph: Graph, inputs: Sequence[Any], constant: Callable[[float], Any], operations: Mapping[int, Callable[..., Any]]
) -> list[Any]:
    """Values of outputs, and None of most other nodes, on any type of number that operations take; calls on arrays."""
    values: list[Any] = []
    needed = graph.reachable(graph.flat_outputs())
    of_calls: dict[int, Callable[[], Any]] = {}
    nodes = graph.nodes()
    last = last_uses(graph, needed)  # values are forgotten then: those of long programs take gigabytes
    for calls in (every.pruned(graph, needed) for every in graph.calls):
        for given, column in zip(calls.given, zip(*calls.operands, strict=True), strict=True):
            of_calls[given] = partial(lambda column: np.stack([values[x] for x in column]), column)
        for row, final in enumerate(calls.final):
            for node, result in zip(final, calls.results, strict=True):
                of_calls[node] = partial(lambda result, row: values[result][row], result, row)
    for k, ((op, a, b, c), number, live) in enumerate(zip(nodes, graph.value.tolist(), needed.tolist(), strict=True)):
        if not live:
            values.append(None)
        elif k in of_calls:
            values.append(of_calls[k]())
        elif op == INPUT:
            values.append(inputs[a])
        elif op == CONSTANT:
            values.append(constant(number))
        elif b < 0:
            values.append(operations[op](values[a]))
            if last[a] == k:
                values[a] = None
        elif c < 0:
            values.append(operations[op](values[a], values[b]))
            if last[a] == k:
                values[a] = None
            if last[b] == k:
                values[b] = None
        else:
            values.append(operations[op](values[a], values[b], values[c]))
            for x in (a, b, c):
                if last[x] == k:
                    values[x] = None
    return values


def last_uses(graph: Graph, needed: NDArray[np.bool_]) -> list[int]:
    """The last of the nodes that use each, −1 of leaves, outputs and what calls read."""
    last = np.full(len(graph), -1)
    used = np.flatnonzero(needed & (graph.op >= Op.ADD))
    for column in (graph.a, graph.b, graph.c):
        operands = column[used]
        np.maximum.at(last, operands[operands >= 0], used[operands >= 0])
    last[graph.op < Op.ADD] = -1
    last[graph.flat_outputs()] = -1
    last[[x for calls in graph.calls for _, below in calls.below() for x in below]] = -1
    out: list[int] = last.tolist()
    return out
