"""Calls as a loop over the rows of a table, which say where operands and results are.

In one-state code, bodies that do the same for columns side by side become one operation for all, on vectors.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import numpy as np

from delassus.compiler.passes.schedule import reorder
from delassus.compiler.program.program import Stage
from delassus.spatial.trace.graph import Builder, Graph
from delassus.spatial.trace.operations import LEAVES, Op, arity

SIMD_COLUMNS = 4
"""Columns side by side."""


class Rows:
    """Rows of calls of a stage: columns of operands, then of results.

    Columns that are equally far from one another in all rows share a base.

    Attributes
    ----------
    n_given : int
        Operands of a row.
    places : list of (int, int)
        Of each column its base, and the distance from it.
    bases : (rows, bases) array of int
        Numbers of the values that are the bases.
    """

    def __init__(self, stage: Stage) -> None:
        self.n_given = len(stage.calls[0])
        rows = np.array([[*operands, *targets] for operands, targets in stage.runs(0)])
        leaders: dict[bytes, int] = {}
        self.places: list[tuple[int, int]] = []
        for k, column in enumerate(rows.T):
            leader = leaders.setdefault((column - column[0]).tobytes(), k)
            self.places.append((list(leaders.values()).index(leader), int(column[0] - rows[0, leader])))
        self.bases = rows[:, list(leaders.values())]

    def c_place(self, column: int) -> str:
        """Operand or result of the row that is at hand, behind a pointer; see `c_pointers`."""
        base, distance = self.places[column]
        return f"p{base}[{distance}]"

    def c_pointers(self, scalar: str) -> list[str]:
        """Pointers to the bases in the array ``s`` of values that stages set."""
        return [f"{scalar} *const p{base} = s + row[{base}];" for base in range(self.bases.shape[1])]

    def c_table(self, name: str, first: int) -> list[str]:
        """Table of the bases, where ``first`` is the number of the first value in ``s``."""
        return c_table(name, " * ".join(map(str, self.bases.shape)), (self.bases.ravel() - first).tolist())

    def c_loop(self, name: str, calls: Sequence[str]) -> list[str]:
        """Loop over the rows."""
        n, width = self.bases.shape
        lines = [f"for (k = 0; k < {n}; ++k) {{", f"    const int *row = {name} + {width} * k;"]
        return [*lines, *(f"    {line}" for line in calls), "}"]


def c_table(name: str, size: str, entries: Iterable[int]) -> list[str]:
    """Static table of whole numbers."""
    shown = ", ".join(map(str, entries))
    return [f"static const int {name}[{size}] = {{", *textwrap.wrap(shown, 116, initial_indent="    "), "};"]


SimdColumns = tuple[Graph, list[tuple[int, bool]], list[int]]
"""Body for columns side by side: operations on vectors; of each input the (first) column of the table of calls that it
is, and whether it is as many as there are lanes; of each output its first column."""


def as_simd_columns(stage: Stage, rows: Rows) -> SimdColumns | None:
    """The body of calls for `SIMD_COLUMNS` columns at once, if it does the same for neighbours in memory; else None."""
    packer = _Packer(stage, rows)
    outputs, first = stage.graph.flat_outputs(), rows.n_given
    starts = range(0, len(outputs), SIMD_COLUMNS)
    if len(outputs) % SIMD_COLUMNS or not all(
        packer.are_neighbours(range(first + k, first + k + SIMD_COLUMNS)) for k in starts
    ):
        return None
    try:
        made = [packer.pack(tuple(outputs[k : k + SIMD_COLUMNS])) for k in starts]
    except _DifferentError:
        return None
    graph = packer.build.graph([made])
    order = sorted(range(len(graph)), key=packer.last.__getitem__)
    return reorder(graph, order), packer.inputs, [first + k for k in starts]


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
