"""Scalars and matrices of a trace: nodes of its graph, which the `TraceOps` make that they belong to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Expression:
    """A scalar: a node of the graph."""

    __slots__ = ("node", "ops")

    def __init__(self, ops: Any, node: int) -> None:
        self.ops, self.node = ops, node

    def __add__(self, other: Any) -> Expression:
        ops = self.ops
        return Expression(ops, ops.add(self.node, other.node if type(other) is Expression else ops.number(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Expression:
        ops = self.ops
        return Expression(ops, ops.subtract(self.node, other.node if type(other) is Expression else ops.number(other)))

    def __rsub__(self, other: Any) -> Expression:
        return Expression(self.ops, self.ops.subtract(self.ops.number(other), self.node))

    def __mul__(self, other: Any) -> Expression:
        ops = self.ops
        return Expression(ops, ops.multiply(self.node, other.node if type(other) is Expression else ops.number(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Expression:
        return Expression(self.ops, self.ops.divide(self.node, self.ops.number(other)))

    def __rtruediv__(self, other: Any) -> Expression:
        return Expression(self.ops, self.ops.divide(self.ops.number(other), self.node))

    def __neg__(self) -> Expression:
        return Expression(self.ops, self.ops.negate(self.node))


class Table:
    """A matrix: node numbers, row by row."""

    __array_ufunc__ = None
    __slots__ = ("columns", "ops", "rows")

    def __init__(self, ops: Any, rows: list[list[int]], columns: int) -> None:
        self.ops, self.rows, self.columns = ops, rows, columns

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.rows), self.columns

    def _zip(self, other: Table, operation: Callable[[int, int], int]) -> Table:
        assert self.shape == other.shape, (self.shape, other.shape)
        rows = [[*map(operation, r, s)] for r, s in zip(self.rows, other.rows, strict=True)]
        return Table(self.ops, rows, self.columns)

    def __add__(self, other: Table) -> Table:
        return self._zip(other, self.ops.add)

    def __sub__(self, other: Table) -> Table:
        return self._zip(other, self.ops.subtract)

    def __neg__(self) -> Table:
        return Table(self.ops, [[*map(self.ops.negate, row)] for row in self.rows], self.columns)

    def __matmul__(self, other: Table) -> Table:
        assert self.columns == len(other.rows), (self.columns, len(other.rows))
        columns, dot = other.sparse_columns(), self.ops.dot
        rows = [[dot(row, column) for column in columns] for row in self.rows]
        return Table(self.ops, rows, other.columns)

    def sparse_columns(self) -> list[list[tuple[int, int]]]:
        """Entries of each column that are not zero, with their rows."""
        out: list[list[tuple[int, int]]] = [[] for _ in range(self.columns)]
        for i, row in enumerate(self.rows):
            for j, x in enumerate(row):
                if x:
                    out[j].append((i, x))
        return out

    def nodes(self, lower: bool = False) -> list[int]:
        """Nodes row by row; ``lower``: of the lower triangle."""
        return [x for i, row in enumerate(self.rows) for x in (row[: i + 1] if lower else row)]
