"""A program as arrays of whole numbers that an evaluator runs: instructions, and where arguments and results lie.

Instructions of a kind that follow one another are a run: the kind, their number, and for each the place of what it
makes and the places of its operands. Places number the rows of a workspace: arguments first, then what stages set for
others, then what a pass of a loop keeps apart, then slots that values share one after the other, then constants. Bodies
of calls are written out, row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.passes.scans import LAY_OUT, TOGETHER, nodes_of, run
from delassus.compiler.passes.schedule import reorder
from delassus.compiler.program.program import Program, Stage
from delassus.spatial.trace.graph import Graph
from delassus.spatial.trace.operations import Op


class ControlKind(IntEnum):
    """Kinds of instructions that are no operations of a graph."""

    COPY = 0
    SINCOS = 1
    """Sine to the place, cosine to that of the second operand."""
    SKIP = 18
    """Go on so many numbers behind (the place), where the first operand is not zero in all states."""
    AGAIN = 19
    """Go back by so many where the first operand is zero in some, at most as often as the second one says."""
    END = 20


WIDTH = 4
"""Numbers of an instruction."""

HEAD = 2
"""Numbers before the first instruction of a run."""

COLUMN = 1 << 40
"""Places from here on stand for columns of a row of calls."""


@dataclass(frozen=True, slots=True, eq=False)
class Instructions:
    """What an evaluator is given.

    Attributes
    ----------
    code : (n,) array of int32
        Runs of instructions.
    constants : (k,) array of float
    n_places : int
        Of the workspace, without the constants, which follow.
    results : (numbers of all results,) array of int32
        Place of each number of each result.
    """

    code: NDArray[np.int32]
    constants: NDArray[np.float64]
    n_places: int
    results: NDArray[np.int32]


def instructions(program: Program) -> Instructions:
    """Lay a program out, with as many instructions of a kind side by side as there can be."""
    return _Layout(program).made()


class _Layout:
    """``first`` is a slot for what nothing reads; constants are below zero until all slots are known."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.first_apart = program.n_inputs + program.n_values
        self.first = self.first_apart + max((len(s.targets) for s in program.before if s.is_loop), default=0)
        self.n_places = self.first + 1
        self._constants: dict[str, int] = {}
        self._values: list[float] = []

    def made(self) -> Instructions:
        """All of it."""
        code: list[NDArray[np.int64]] = []  # rows of kind and instruction
        before = self.program.before
        skips: list[tuple[int, int]] = []  # a skip, and what it skips to, as numbers in the list
        for k, stage in enumerate(before):
            flag = stage.targets[-1] if stage.is_loop else stage.unless
            begins = stage.is_loop or k == 0 or before[k - 1].is_loop or before[k - 1].unless != flag
            if flag is not None and begins:
                start = len(code)
                code.append(np.array([[ControlKind.SKIP, 0, flag, 0, 0]]))
            code += self._stage(stage)
            if stage.is_loop:
                code.append(np.array([[ControlKind.AGAIN, start, flag, stage.times, 0]]))
            ends = stage.is_loop or k + 1 == len(before) or before[k + 1].is_loop or before[k + 1].unless != flag
            if flag is not None and ends:
                skips.append((start, len(code)))
        rows, outputs = self._graph(self.program.graph, {}, keep=True)
        code += [rows, np.array([[ControlKind.END, 0, 0, 0, 0]])]
        results = np.array([outputs[k] for r in self.program.results for k in r.entries], dtype=np.int64)
        return Instructions(
            self._runs(code, skips), np.array(self._values, dtype=float), self.n_places,
            self._numbered(results).astype(np.int32),
        )  # fmt: skip

    def _numbered(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Places with constants behind the slots."""
        return np.where(places < 0, self.n_places - 1 - places, places)

    def _runs(self, code: list[NDArray[np.int64]], skips: list[tuple[int, int]]) -> NDArray[np.int32]:
        """Runs of all instructions; jumps begin runs and are followed by others."""
        lengths = np.array([len(rows) for rows in code])
        first = np.concatenate([[0], np.cumsum(lengths)])  # row of each part
        whole = np.concatenate(code)
        kinds = whole[:, 0]
        is_head = np.ones(len(kinds), dtype=bool)
        is_head[1:] = (kinds[1:] != kinds[:-1]) | (kinds[1:] >= ControlKind.SKIP)
        is_head[first[[k for pair in skips for k in (pair[0] + 1, pair[1])]]] = True
        at = WIDTH * np.arange(len(kinds) + 1) + HEAD * np.append(np.cumsum(is_head) - is_head, is_head.sum())
        whole[:, 1:] = self._numbered(whole[:, 1:])
        ends = {start: end for start, end in skips}
        for k, rows in enumerate(code):
            if rows[0, 0] == ControlKind.SKIP if len(rows) else False:
                whole[first[k], 1] = at[first[ends[k]]] - at[first[k] + 1]
            elif rows[0, 0] == ControlKind.AGAIN if len(rows) else False:
                whole[first[k], 1] = at[first[rows[0, 1] + 1]] - at[first[k] + 1]
        made = np.zeros(at[-1], dtype=np.int32)
        heads = np.flatnonzero(is_head)
        made[at[heads]] = kinds[heads]
        made[at[heads] + 1] = np.diff(np.append(heads, len(kinds)))
        body = at[:-1] + HEAD * is_head
        for k in range(WIDTH):
            made[body + k] = whole[:, 1 + k]
        return made

    def _constant(self, value: float) -> int:
        if value.hex() not in self._constants:
            self._constants[value.hex()] = -1 - len(self._values)
            self._values.append(value)
        return self._constants[value.hex()]

    def _stage(self, stage: Stage) -> Iterator[NDArray[np.int64]]:
        first = COLUMN + len(stage.calls[0]) if stage.calls else self.first_apart
        goals: dict[int, list[int]] = {}
        for position, k in enumerate(stage.graph.flat_outputs()):
            goals.setdefault(k, []).append(
                first + position if stage.calls or stage.is_loop else stage.targets[position]
            )
        rows, _ = self._graph(stage.graph, goals, inputs=COLUMN if stage.calls else 0)
        if not stage.calls:
            yield rows
            if stage.is_loop:
                yield _copies(stage.targets, first + np.arange(len(stage.targets)))
            return
        is_column = rows >= COLUMN
        columns = np.where(is_column, rows - COLUMN, 0)
        for operands, targets in stage.runs(0):
            yield np.where(is_column, np.array([*operands, *targets], dtype=np.int64)[columns], rows)

    def _graph(
        self, graph: Graph, goals: dict[int, list[int]], inputs: int = 0, keep: bool = False
    ) -> tuple[NDArray[np.int64], list[int]]:
        """Instructions of straight-line code, and places of its outputs: with goals of some, or all outputs kept."""
        order = kinds_together(graph)
        new = np.empty(len(graph), np.int64)
        new[order] = np.arange(len(graph))
        graph = reorder(graph, order)
        outputs = graph.flat_outputs()
        stays, place = graph.op < Op.ADD, np.full(len(graph), -1)  # whether the place of a node is its own
        stays[[*new[[*goals]], *(outputs if keep else ())]] = True
        is_input = graph.op == Op.INPUT
        place[is_input] = inputs + graph.a[is_input]
        constants = np.flatnonzero(graph.op == Op.CONSTANT)
        place[constants] = [self._constant(x) for x in graph.value[constants].tolist()]
        number = np.zeros(len(graph) + 1, np.int64)
        for k, some in goals.items():
            number[new[k] + 1] = len(some)
        goal_at = np.cumsum(number)
        of_each = np.empty(goal_at[-1], np.int64)
        for k, some in goals.items():
            of_each[goal_at[new[k]] : goal_at[new[k] + 1]] = some
        rows = np.empty((len(graph) + len(of_each), 1 + WIDTH), np.int64)
        n, slots = run(
            LAY_OUT, nodes_of(graph), flags=stays, x=place, y=goal_at, z=of_each, two=rows,
            number=self.first, other=self.first + 1,
        )  # fmt: skip
        wanted = np.array([*goals], dtype=np.int64)
        leaves = wanted[graph.op[new[wanted]] < Op.ADD].tolist()
        copies = [_copies(goals[k], np.full(len(goals[k]), place[new[k]])) for k in leaves]
        self.n_places = max(self.n_places, slots)
        return np.concatenate([rows[:n], *copies]), place[outputs].tolist()


def _copies(targets: Sequence[int], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Instructions that copy values."""
    made = np.zeros((len(targets), 1 + WIDTH), np.int64)
    made[:, 0], made[:, 1], made[:, 2] = ControlKind.COPY, targets, places
    return made


def kinds_together(graph: Graph) -> NDArray[np.int64]:
    """Order of the nodes in which as many as can be made at once are made of the kind of which there are most."""
    order = np.empty(len(graph), np.int64)
    run(TOGETHER, nodes_of(graph), y=order)
    return order
