"""Calls as a loop over the rows of a table, which say where operands and results are: in LLVM assembly and in C."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.program.program import Stage


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

    def llvm_loop(self, name: str, table: str, calls: Sequence[str], before: str) -> list[str]:
        """Loop over the rows that goes on at ``name.done``; ``before`` is the block that it is entered from."""
        n, width = self.bases.shape
        return [
            f"br label %{name}",
            f"{name}:",
            f"%{name}.k = phi i64 [ 0, %{before} ], [ %{name}.next, %{name} ]",
            f"%{name}.at = mul i64 %{name}.k, {width}",
            f"%{name}.row = getelementptr i32, ptr @{table}, i64 %{name}.at",
            *calls,
            f"%{name}.next = add i64 %{name}.k, 1",
            f"%{name}.last = icmp eq i64 %{name}.next, {n}",
            f"br i1 %{name}.last, label %{name}.done, label %{name}",
            f"{name}.done:",
        ]

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


def llvm_table(name: str, entries: NDArray[np.int64]) -> str:
    """Global table of whole numbers."""
    shown = ", ".join(f"i32 {x}" for x in entries.ravel().tolist())
    return f"@{name} = private unnamed_addr constant [{entries.size} x i32] [{shown}]"
