"""Calls as a loop over the rows of a table, which say where operands and results are.

In one-state code a body runs on vectors: of columns of a row that it does the same for, or of several rows.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from delassus.compiler.passes.schedule import reorder
from delassus.compiler.program.program import Stage
from delassus.spatial.trace.graph import Builder, Graph
from delassus.spatial.trace.operations import LEAVES, Op, arity

SIMD_LANES = 4
"""Numbers of one state in a vector, at most."""

LEAST_COLUMNS = 3
"""Columns side by side, at least: of fewer, as many operations are saved as there are more loads of numbers."""


class CallRows:
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

    def are_neighbours(self, columns: Sequence[int]) -> bool:
        """Whether columns are one after the other in all rows."""
        base, distance = self.places[columns[0]]
        return [self.places[k] for k in columns] == [(base, distance + k) for k in range(len(columns))]

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


@dataclass(frozen=True, slots=True, eq=False)
class SimdBody:
    """Body of calls, of operations on so many ``lanes``: columns of a row side by side, or rows.

    ``inputs`` are the columns of the table of calls that each input is, one for all lanes or one for each; ``outputs``
    those that each output is. Of scalars, lanes are one.
    """

    graph: Graph
    lanes: int
    inputs: list[tuple[int, ...]]
    outputs: list[tuple[int, ...]]


def as_scalars(stage: Stage) -> tuple[CallRows, SimdBody]:
    """The body of calls as it is."""
    rows = CallRows(stage)
    columns: list[tuple[int, ...]] = [(k,) for k in range(len(rows.places))]
    return rows, SimdBody(stage.graph, 1, columns[: rows.n_given], columns[rows.n_given :])


def as_vectors(stage: Stage) -> tuple[CallRows, SimdBody]:
    """The body of calls for columns of a row side by side, else for rows side by side, else as it is."""
    return _by_columns(stage) or _by_rows(stage) or as_scalars(stage)


def _by_rows(stage: Stage) -> tuple[CallRows, SimdBody] | None:
    """The body for as many rows at once, at most `SIMD_LANES`: a row of the table has theirs one after the other.

    The last rows overlap those before them. None if it takes more instructions, one a lane, to gather and scatter what
    does not lie side by side than operations are saved.
    """
    calls, n_given, n_made = [*stage.runs(0)], len(stage.calls[0]), len(stage.graph.flat_outputs())
    n, lanes = len(calls), min(SIMD_LANES, len(calls))
    together = [calls[k : k + lanes] for k in (*range(0, n - lanes + 1, lanes), *([n - lanes] if n % lanes else []))]
    operands = tuple(tuple(x for row, _ in some for x in row) for some in together)
    targets = tuple(x for some in together for _, row in some for x in row)
    rows = CallRows(replace(stage, calls=operands, targets=targets))
    groups = [tuple(range(k, rows.n_given, n_given)) for k in range(n_given)]
    inputs = [columns[:1] if len({rows.places[k] for k in columns}) == 1 else columns for columns in groups]
    outputs = [tuple(range(rows.n_given + k, len(rows.places), n_made)) for k in range(n_made)]
    apart = sum(not rows.are_neighbours(columns) for columns in (*inputs, *outputs))
    if lanes * apart > (lanes - 1) * stage.graph.count().total:
        return None
    return rows, SimdBody(stage.graph, lanes, inputs, outputs)


def _by_columns(stage: Stage) -> tuple[CallRows, SimdBody] | None:
    """The body for as many columns at once as it does the same for, at most `SIMD_LANES`; None if it does not."""
    outputs, first = stage.graph.flat_outputs(), len(stage.calls[0])
    for lanes in range(SIMD_LANES, LEAST_COLUMNS - 1, -1):
        packer, starts = _Packer(stage), range(0, len(outputs), lanes)
        if len(outputs) % lanes:
            continue
        try:
            made = [packer.pack(tuple(outputs[k : k + lanes])) for k in starts]
        except _DifferentError:
            continue
        graph = packer.build.graph([made])
        order = sorted(range(len(graph)), key=packer.last.__getitem__)
        columns = [tuple(range(first + k, first + k + lanes)) for k in starts]
        return CallRows(stage), SimdBody(reorder(graph, order), lanes, packer.inputs, columns)
    return None


class _DifferentError(Exception):
    """Columns that are not treated alike."""


class _Packer:
    """Makes one node of as many as there are columns; ``last`` is the last of those, by node."""

    def __init__(self, stage: Stage) -> None:
        self._nodes, self._numbers = stage.graph.nodes(), stage.graph.value
        self.build = Builder()
        self.inputs: list[tuple[int, ...]] = []
        self.last: list[int] = []
        self._made: dict[tuple[int, ...], int] = {}

    def pack(self, group: tuple[int, ...]) -> int:
        """Node for these nodes."""
        if group not in self._made:
            node = self._made[group] = self._packed(group)
            if node == len(self.last):
                self.last.append(max(group))
        return self._made[group]

    def _packed(self, group: tuple[int, ...]) -> int:
        op = self._nodes[group[0]][0]
        is_one = len(set(group)) == 1
        if any(self._nodes[k][0] != op for k in group) or (
            is_one if op not in LEAVES else op != Op.INPUT and not is_one
        ):
            raise _DifferentError
        if op == Op.CONSTANT:
            return self.build.constant(float(self._numbers[group[0]]))
        if op == Op.INPUT:
            columns = tuple(self._nodes[k][1] for k in group)
            self.inputs.append(columns[:1] if is_one else columns)
            return self.build.node(op, len(self.inputs) - 1)
        below = (tuple(self._nodes[k][1 + n] for k in group) for n in range(arity(op)))
        return self.build.node(op, *[self.pack(operands) for operands in below])
