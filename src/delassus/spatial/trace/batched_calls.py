"""Traces whose parts that run for several rows of operands are traced once, and called for each row.

What a trace knows of a number that differs from row to row is only whether it is a structural zero: rows that differ in
that have code of their own, and so have those that are few.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from delassus.spatial.ops import Function
from delassus.spatial.trace.graph import Calls
from delassus.spatial.trace.interpret import SEMANTICS
from delassus.spatial.trace.nodes import Table
from delassus.spatial.trace.operations import arity
from delassus.spatial.trace.trace_ops import TraceOps

T = TypeVar("T")

FEWEST = 3
"""Rows that share code; fewer have their own."""

TILE = 4
"""Largest number of rows and of columns of a tile: its sums are in registers while it is computed."""

SMALLEST = 64
"""Multiplications of a dense block that is worth tiles."""

MANY = 96
"""Entries of a result of calls, at least, that these sum up themselves for the sum of all results, which reads them."""


class CallingTraceOps(TraceOps):
    """The backend that records, calls as calls, but for those in passes that are repeated."""

    def map(self, body: Function, rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
        """Results of ``body`` for each row of operands."""
        if self.is_repeated:
            return super().map(body, rows)
        out: list[Sequence[Table]] = [()] * len(rows)
        for numbers in _grouped(range(len(rows)), lambda r: tuple((a.shape, *map(bool, a.nodes())) for a in rows[r])):
            group = [rows[r] for r in numbers]
            made = called(self, body, group) if len(group) >= FEWEST else [body(*row) for row in group]
            for r, results in zip(numbers, made, strict=True):
                out[r] = results
        return out

    def by_column(self, body: Function, *matrices: Any) -> Sequence[Any]:
        """Results of ``body`` for each column."""
        if self.is_repeated:
            return super().by_column(body, *matrices)
        rows = [[self.take(a, None, (k,)) for a in matrices] for k in range(matrices[0].columns)]
        return [self.hstack(parts) for parts in zip(*self.map(body, rows), strict=True)]

    def product(self, a: Any, b: Any, symmetric: bool = False) -> Any:
        """``a @ b``, dense blocks of it by tiles; of what is ``symmetric``, the lower triangle."""
        if self.is_repeated:
            return super().product(a, b, symmetric)
        out = [[0] * b.columns for _ in a.rows]
        tiles, places = list[tuple[Table, Table]](), list[tuple[list[int], list[int]]]()
        columns, sparse = [[row[j] for row in b.rows] for j in range(b.columns)], b.sparse_columns()
        for rows in _grouped(range(len(out)), lambda i: tuple(map(bool, a.rows[i]))):
            for across in _grouped(range(b.columns), lambda j: tuple(map(bool, columns[j]))):
                met = [k for k, (x, y) in enumerate(zip(a.rows[rows[0]], columns[across[0]], strict=True)) if x and y]
                if len(rows) * len(across) * len(met) < SMALLEST:
                    for i in rows:
                        for j in across:
                            out[i][j] = self.dot(a.rows[i], sparse[j]) if not symmetric or i >= j else 0
                    continue
                for some in _split(rows):
                    for of_them in _split(across):
                        if not symmetric or some[-1] >= of_them[0]:
                            places.append((some, of_them))
                            tiles.append((self.take(a, some, met), self.take(b, met, of_them)))
        for (rows, across), (tile, totals) in zip(places, self.map(_tile, tiles), strict=True):
            self.totals += zip(map(list, zip(*tile.rows, strict=True)), totals.rows[0], strict=True)
            for i, row in zip(rows, tile.rows, strict=True):
                for j, x in zip(across, row, strict=True):
                    out[i][j] = x
        for i in range(b.columns if symmetric else 0):
            for j in range(i):
                out[j][i] = out[i][j]
        return Table(self, out, b.columns)


def called(ops: TraceOps, body: Function, rows: Sequence[Sequence[Table]]) -> list[Sequence[Table]]:
    """Results of rows whose zeros are at the same places."""
    columns = list(zip(*([x for a in row for x in a.nodes()] for row in rows), strict=True))
    varying = [column for column in dict.fromkeys(columns) if len(set(column)) > 1]
    start = len(ops.at)
    given = [x.node for x in ops.vector(len(varying), [ops.at[column[0]] for column in varying])]
    inside = dict(zip(varying, given, strict=True))
    entries = iter([inside.get(column, column[0]) for column in columns])
    is_repeated, ops.is_repeated = ops.is_repeated, True
    made = body(*(_table(ops, a.shape, entries) for a in rows[0]))
    parts, taken = list[list[int]](), {0}
    for a in made:
        parts.append([x for x in dict.fromkeys(a.nodes()) if x >= start and x not in taken])
        taken.update(parts[-1])
    parts = [part for part in parts if len(part) >= MANY]
    total_of = [ops.total(part) for part in parts]
    ops.is_repeated = is_repeated

    # what depends on what is given, at the generic values of each row
    at = {x: np.array([ops.at[k] for k in column]) for column, x in inside.items()}
    with np.errstate(all="ignore"):
        for k, (op, *below) in enumerate(ops.since(start), start):
            used = below[: arity(op)]
            if any(x in at for x in used):
                at[k] = SEMANTICS[op](*(at.get(x, np.float64(ops.at[x])) for x in used))
    own = set(given)
    of_made = dict.fromkeys([*(x for a in made for x in a.nodes()), *total_of])
    results = [x for x in of_made if x in at and x not in own]
    operands = [[column[r] for column in varying] for r in range(len(rows))]
    final, out = list[list[int]](), list[Sequence[Table]]()
    for r, row in enumerate(operands):
        final.append([x.node for x in ops.vector(len(results), [float(at[k][r]) for k in results])])
        outside = dict(zip([*given, *results], [*row, *final[r]], strict=True))
        out.append([_table(ops, a.shape, iter([outside.get(x, x) for x in a.nodes()])) for a in made])
        for part, total in zip(parts, total_of, strict=True):
            ops.totals.append(([outside.get(x, x) for x in part], outside.get(total, total)))
    if results:
        ops.loops.append(Calls(given, operands, results, final, body is _tile))
    return out


def _tile(a: Table, b: Table) -> tuple[Table, Table]:
    """``a @ b`` as a sum of outer products, for all sums grow together; and the totals of its columns (1 × n)."""
    ops, sums = a.ops, [[0] * b.columns for _ in a.rows]
    for k, row in enumerate(b.rows):
        for i, own in enumerate(a.rows):
            for j, y in enumerate(row):
                sums[i][j] = ops.add(sums[i][j], ops.multiply(own[k], y))
    return Table(ops, sums, b.columns), Table(ops, [[ops.total(x) for x in zip(*sums, strict=True)]], b.columns)


def _split(indices: list[int]) -> list[list[int]]:
    """Parts of nearly equal length, none longer than a tile."""
    parts = -(-len(indices) // TILE)
    return [part.tolist() for part in np.array_split(indices, parts)]


def _grouped(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def _table(ops: TraceOps, shape: tuple[int, int], entries: Iterable[int]) -> Table:
    """Matrix of the next entries."""
    nodes = iter(entries)
    return Table(ops, [[next(nodes) for _ in range(shape[1])] for _ in range(shape[0])], shape[1])
