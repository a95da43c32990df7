"""Parts of a program, which become functions, and which values stay in registers in them and which wait in memory.

A value that no register is left for is stored to a slot and loaded again where it is next used; the one to go is the
one whose next use is farthest away (Belady's rule), preferably one that is in memory already. What LLVM is given then
fits the registers that there are. Left alone, its allocator stores three times as many values of a program as long as
these.

Compile time of a function grows faster than its length. At a cut every value that is used later is in memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from delassus.spatial.trace.graph import Graph
from delassus.spatial.trace.operations import Op, arity

DIRTY = 60
"""How many operations farther away the next use of a value must be that has to be stored before it can go."""


class Act(IntEnum):
    """Kind of a step."""

    COMPUTE = 0
    """Make a node from operands that are in registers; an output is written to its place as well."""
    LOAD = 1
    """Bring a node back from its slot, or an input or output from its place (slot −1)."""
    STORE = 2
    """Leave a node in a slot."""


Step = tuple[Act, int, int]
"""Act, node, slot."""


class Allocation(NamedTuple):
    """Parts of a program as steps, and the number of slots that they share."""

    parts: list[list[Step]]
    n_slots: int


def allocate(graph: Graph, outputs: Iterable[int], registers: int, length: int) -> Allocation:
    """Lay out what ``outputs`` need, in the graph's order, for so many registers, in parts of at most ``length``.

    The length of a part counts operations. Constants take no register.
    """
    wanted = set(outputs)
    nodes = np.flatnonzero(graph.reachable(wanted) & (graph.op >= Op.ADD))
    parts = np.array_split(nodes, max(1, -(-len(nodes) // length)))
    return _Allocator(graph, nodes.tolist(), wanted, registers).run([len(part) for part in parts])


class _Allocator:
    """State of the allocation as it goes through the program."""

    def __init__(self, graph: Graph, nodes: list[int], outputs: set[int], registers: int) -> None:
        self.nodes, self.registers = nodes, registers
        every = graph.nodes()
        constants = {k for k, node in enumerate(every) if node[0] == Op.CONSTANT}
        self.operands = [
            [x for x in dict.fromkeys(every[k][1 : 1 + arity(every[k][0])]) if x not in constants] for k in nodes
        ]
        self.has_home = outputs | {k for k, node in enumerate(every) if node[0] == Op.INPUT}
        self.steps: list[Step] = []
        self.slot: dict[int, int] = {}
        self.free: list[int] = []
        self.n_slots = 0
        self.next_use: dict[int, int] = {}  # of the values in registers
        self.queue: list[tuple[int, int, int]] = []  # (−preference to go, value, next use), out of date ones included

    def run(self, lengths: list[int]) -> Allocation:
        """Go through the program, part by part."""
        uses = self._uses()
        parts: list[list[Step]] = []
        start = 0
        for length in lengths:
            self.steps = []
            for t in range(start, start + length):
                k = self.nodes[t]
                for x in self.operands[t]:
                    if x not in self.next_use:
                        self.steps.append((Act.LOAD, x, self.slot.get(x, -1)))
                    uses[x].pop()
                    self._keep(x, uses[x])
                self.steps.append((Act.COMPUTE, k, -1))
                self._keep(k, uses[k])
                self._make_room(self.registers + (self.next_use.get(k) == t + 1))
            start += length
            for x in self.next_use:
                self._store(x)
            self.next_use.clear()
            parts.append(self.steps)
        return Allocation(parts, self.n_slots)

    def _uses(self) -> dict[int, list[int]]:
        """Times at which each value is used, the last first."""
        uses: dict[int, list[int]] = {k: [] for k in self.nodes}
        for t in range(len(self.nodes) - 1, -1, -1):
            for x in self.operands[t]:
                uses.setdefault(x, []).append(t)
        return uses

    def _keep(self, x: int, uses: list[int]) -> None:
        """Hold a value in a register until its next use; if there is none, let go of it and of its slot."""
        if uses:
            self.next_use[x] = uses[-1]
            dirty = x not in self.slot and x not in self.has_home
            heappush(self.queue, (-(uses[-1] - DIRTY if dirty else uses[-1]), x, uses[-1]))
            return
        self.next_use.pop(x, None)
        if x in self.slot:
            self.free.append(self.slot.pop(x))

    def _make_room(self, registers: int) -> None:
        while len(self.next_use) > registers:
            _, x, when = heappop(self.queue)
            if self.next_use.get(x) == when:
                self._store(x)
                del self.next_use[x]

    def _store(self, x: int) -> None:
        if x in self.slot or x in self.has_home:
            return
        if not self.free:
            self.free.append(self.n_slots)
            self.n_slots += 1
        self.slot[x] = self.free.pop()
        self.steps.append((Act.STORE, x, self.slot[x]))
