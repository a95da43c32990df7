"""Cutting a long program into functions: compile time of one function grows faster than its length.

Values that cross from one part to a later one go through a workspace array whose slots are used again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

import numpy as np

from delassus.spatial.graph import Graph, Op, arity


def operands_of(graph: Graph, k: int) -> tuple[int, ...]:
    """Operands of a node."""
    return tuple(int(x[k]) for x in (graph.a, graph.b, graph.c)[: arity(int(graph.op[k]))])


@dataclass(frozen=True, slots=True)
class Part:
    """Operations of one function; slots of the values that earlier functions left and of those that it leaves."""

    nodes: list[int]
    loads: dict[int, int]
    stores: dict[int, int]


def cut(graph: Graph, wanted: Iterable[int], uncut: int, length: int) -> tuple[list[Part], int]:
    """Cut what ``wanted`` needs into parts of about ``length`` operations, unless there are at most ``uncut``.

    Returns the parts in order and the number of slots that they share.
    """
    nodes = np.flatnonzero(graph.reachable(wanted) & (graph.op >= Op.ADD))
    n_parts = 1 if len(nodes) <= uncut else -(-len(nodes) // length)
    groups = [group.tolist() for group in np.array_split(nodes, n_parts)]
    last = {k: part for part, group in enumerate(groups) for k in group}  # the last part that reads a value
    for part, group in enumerate(groups):
        for x in chain.from_iterable(operands_of(graph, k) for k in group):
            if x in last:
                last[x] = part
    parts: list[Part] = []
    slot: dict[int, int] = {}
    free: list[int] = []
    n_slots = 0
    for part, group in enumerate(groups):
        loads = {x: slot[x] for k in group for x in operands_of(graph, k) if x in slot}
        stores = {}
        for k in group:
            if last[k] > part:
                if not free:
                    free.append(n_slots)
                    n_slots += 1
                stores[k] = free.pop()
        parts.append(Part(group, loads, stores))
        slot |= stores
        free.extend(slot.pop(k) for k in list(slot) if last[k] == part)
    return parts, n_slots
