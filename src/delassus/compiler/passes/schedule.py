"""Scheduling: an evaluation order in which few values are alive at a time, and operations seldom wait for others."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.passes.scans import NONE, SCHEDULE, nodes_of, run
from delassus.spatial.trace.graph import Graph
from delassus.spatial.trace.operations import OPERATIONS, Op, arity

AT_ONCE = 2
"""Multiplications, fused ones among them, that a processor begins in a cycle, and additions besides."""

AHEAD = 300
"""Operations among which the next is looked for. A processor looks at about 100; more than 300 need more memory."""


def schedule(graph: Graph) -> Graph:
    """Order what the outputs need depth first from them, the operand that needs more registers first (Sethi–Ullman).

    A value is then made shortly before it is first used.
    """
    order = np.empty(len(graph), np.int64)
    roots = np.concatenate([NONE, *graph.outputs])
    n, _ = run(SCHEDULE, nodes_of(graph), x=roots, y=order)
    return reorder(graph, order[:n])


def reorder(graph: Graph, order: list[int] | NDArray[np.intp]) -> Graph:
    """The nodes ``order``, in that order, renumbered."""
    new = np.full(len(graph) + 1, -1, dtype=np.int64)  # the last entry stands for "no operand"
    new[order] = np.arange(len(order))
    op = graph.op[order]
    a = np.where(op == Op.INPUT, graph.a[order], new[np.where(op == Op.INPUT, -1, graph.a[order])])
    outputs = tuple(new[group] for group in graph.outputs)
    return Graph(op, a, new[graph.b[order]], new[graph.c[order]], graph.value[order], outputs)


def overlap(graph: Graph, registers: int) -> Graph:
    """Order the operations as an imaginary processor begins them that has so many registers.

    Cycle by cycle it begins what is ready among the next `AHEAD` of the graph's order: while registers are free, what
    the longest chain of operations depends on; else what comes first in the graph's order.
    """
    return reorder(graph, _Processor(graph, registers).run())


class _Processor:
    """State of `overlap`."""

    def __init__(self, graph: Graph, registers: int) -> None:
        self.registers, every = registers, graph.nodes()
        self.leaves = [k for k, node in enumerate(every) if node[0] < Op.ADD]
        constants = {k for k in self.leaves if every[k][0] == Op.CONSTANT}
        operands = [[x for x in dict.fromkeys(node[1 : 1 + arity(node[0])]) if x not in constants] for node in every]
        self.uses = np.bincount([x for of_node in operands for x in of_node], minlength=len(every)).tolist()
        self.nodes = [k for k, node in enumerate(every) if node[0] >= Op.ADD]
        unit = {k: u for u, k in enumerate(self.nodes)}
        self.takes = [operands[k] for k in self.nodes]
        self.is_sum = [every[k][0] in (Op.ADD, Op.SUBTRACT) for k in self.nodes]
        self.latency = [OPERATIONS[every[k][0]].latency for k in self.nodes]
        self.users: list[list[int]] = [[] for _ in self.nodes]
        self.waits = [0] * len(self.nodes)
        for u, taken in enumerate(self.takes):
            makers = {unit[x] for x in taken if x in unit}
            self.waits[u] = len(makers)
            for maker in makers:
                self.users[maker].append(u)
        self.chain = list(self.latency)  # cycles from its begin to the end of the longest chain of what depends on it
        for u in reversed(range(len(self.nodes))):
            self.chain[u] += max((self.chain[v] for v in self.users[u]), default=0)
        self.ready_at = [0] * len(self.nodes)
        self.in_registers: set[int] = set()

    def run(self) -> list[int]:
        """The nodes in their new order."""
        order = list(self.leaves)
        n, cycle, seen, left = len(self.nodes), 0, 0, len(self.nodes)
        coming, urgent, first = list[tuple[int, int]](), list[tuple[int, int]](), list[int]()
        begun = [False] * n
        while left:
            while seen < n and seen - (n - left) < AHEAD:
                if not self.waits[seen]:
                    heappush(coming, (self.ready_at[seen], seen))
                seen += 1
            while coming and coming[0][0] <= cycle:
                unit = heappop(coming)[1]
                heappush(urgent, (-self.chain[unit], unit))
                heappush(first, unit)
            free, late = [AT_ONCE, AT_ONCE], list[int]()
            while any(free) and len(late) < 2 * AT_ONCE:
                while urgent and begun[urgent[0][1]]:
                    heappop(urgent)
                while first and begun[first[0]]:
                    heappop(first)
                if not first:
                    break
                unit = heappop(urgent)[1] if len(self.in_registers) < self.registers else heappop(first)
                begun[unit] = True
                if not free[self.is_sum[unit]]:
                    late.append(unit)
                    continue
                free[self.is_sum[unit]] -= 1
                left -= 1
                order.append(self.nodes[unit])
                self._begin(unit, cycle)
                for user in self.users[unit]:
                    if not self.waits[user] and user < seen:
                        heappush(coming, (self.ready_at[user], user))
            for unit in late:
                begun[unit] = False
                heappush(urgent, (-self.chain[unit], unit))
                heappush(first, unit)
            cycle += 1
        return order

    def _begin(self, unit: int, cycle: int) -> None:
        for user in self.users[unit]:
            self.waits[user] -= 1
            self.ready_at[user] = max(self.ready_at[user], cycle + self.latency[unit])
        for x in self.takes[unit]:
            self.uses[x] -= 1
            (self.in_registers.add if self.uses[x] else self.in_registers.discard)(x)
        if self.uses[self.nodes[unit]]:
            self.in_registers.add(self.nodes[unit])
