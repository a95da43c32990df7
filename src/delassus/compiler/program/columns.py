"""Bodies of calls that do the same for columns side by side: one operation for all, on vectors, in one-state code."""

from __future__ import annotations

from typing import NamedTuple

from delassus.compiler.passes.schedule import reorder
from delassus.compiler.program.calls import Rows
from delassus.compiler.program.program import Stage
from delassus.spatial.trace.graph import Builder, Graph
from delassus.spatial.trace.operations import LEAVES, Op, arity

WIDTH = 4
"""Columns side by side."""


class Columns(NamedTuple):
    """Body for columns side by side.

    Attributes
    ----------
    graph : Graph
        Operations on vectors.
    inputs : list of (int, bool)
        Of each input the (first) column of the table of calls that it is, and whether it is as many as there are lanes.
    outputs : list of int
        Of each output the first column of the table.
    """

    graph: Graph
    inputs: list[tuple[int, bool]]
    outputs: list[int]


def side_by_side(stage: Stage, rows: Rows) -> Columns | None:
    """The body of calls for `WIDTH` columns at once, if it does the same for neighbours in memory; else None."""
    packer = _Packer(stage, rows)
    outputs, first = stage.graph.flat_outputs(), rows.n_given
    starts = range(0, len(outputs), WIDTH)
    if len(outputs) % WIDTH or not all(packer.are_neighbours(range(first + k, first + k + WIDTH)) for k in starts):
        return None
    try:
        made = [packer.pack(tuple(outputs[k : k + WIDTH])) for k in starts]
    except _DifferentError:
        return None
    graph = packer.build.graph([made])
    order = sorted(range(len(graph)), key=packer.last.__getitem__)
    return Columns(reorder(graph, order), packer.inputs, [first + k for k in starts])


class _DifferentError(Exception):
    """Columns that are not treated alike."""


class _Packer:
    """Makes one node of as many as there are columns; ``last`` is the last of those, by node."""

    def __init__(self, stage: Stage, rows: Rows) -> None:
        self._nodes, self._numbers, self._rows = stage.graph.nodes(), stage.graph.value, rows
        self.build = Builder()
        self.inputs: list[tuple[int, bool]] = []
        self.last: list[int] = []
        self._made: dict[tuple[int, ...], int] = {}

    def are_neighbours(self, columns: range | list[int]) -> bool:
        """Whether columns of the table of calls lie side by side in all rows."""
        base, start = self._rows.places[columns[0]]
        return all(self._rows.places[c] == (base, start + k) for k, c in enumerate(columns))

    def pack(self, group: tuple[int, ...]) -> int:
        """Node for these nodes."""
        if group not in self._made:
            node = self._made[group] = self._packed(group)
            if node == len(self.last):
                self.last.append(max(group))
        return self._made[group]

    def _packed(self, group: tuple[int, ...]) -> int:
        op, first, *_ = self._nodes[group[0]]
        is_one = len(set(group)) == 1
        if any(self._nodes[k][0] != op for k in group) or (
            is_one if op not in LEAVES else op != Op.INPUT and not is_one
        ):
            raise _DifferentError
        if op == Op.CONSTANT:
            return self.build.constant(float(self._numbers[group[0]]))
        if op == Op.INPUT:
            if not is_one and not self.are_neighbours([self._nodes[k][1] for k in group]):
                raise _DifferentError
            self.inputs.append((first, not is_one))
            return self.build.node(op, len(self.inputs) - 1)
        below = (tuple(self._nodes[k][1 + n] for k in group) for n in range(arity(op)))
        return self.build.node(op, *[self.pack(operands) for operands in below])
