"""A program as arrays of whole numbers that an evaluator runs: instructions, and where arguments and results lie.

An instruction is a row of five numbers: kind, place of what it makes, places of its operands. Places number the rows of
a workspace: arguments first, then what stages set for others, then what a pass of a loop keeps apart, then slots that
values share one after the other, then constants. Bodies of calls are written out, row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.program.program import Program, Stage
from delassus.spatial.trace.graph import Graph
from delassus.spatial.trace.operations import Op, arity


class Control(IntEnum):
    """Kinds of instructions that are no operations of a graph."""

    COPY = 0
    SINCOS = 1
    """Sine to the place, cosine to that of the second operand."""
    SKIP = 18
    """Go on so many instructions behind (the place), where the first operand is not zero in all states."""
    AGAIN = 19
    """Go back by so many instructions (the place), at most as often as the second operand says."""
    END = 20


WIDTH = 5
"""Numbers of an instruction."""


@dataclass(frozen=True, slots=True, eq=False)
class Instructions:
    """What an evaluator is given.

    Attributes
    ----------
    code : (n, 5) array of int32
    constants : (k,) array of float
    n_places : int
        Of the workspace, constants not counted, which follow.
    sizes : (arrays,) array of int64
        Numbers of a state in each argument and result, in order.
    results : (numbers of all results,) array of int32
        Place of each number of each result.
    """

    code: NDArray[np.int32]
    constants: NDArray[np.float64]
    n_places: int
    sizes: NDArray[np.int64]
    results: NDArray[np.int32]


def instructions(program: Program) -> Instructions:
    """Lay a program out."""
    return _Layout(program).made()


class _Layout:
    """``first`` is the first slot; constants are numbered from −1 downwards until all slots are known."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.first_apart = program.n_inputs + program.n_values
        self.first = self.first_apart + max((len(s.targets) for s in program.before if s.is_loop), default=0)
        self.n_places = self.first + 1  # the first slot takes what nothing reads
        self._constants: dict[str, int] = {}
        self._values: list[float] = []

    def made(self) -> Instructions:
        """All of it."""
        code: list[NDArray[np.int64]] = []
        waiting: list[tuple[int, int, int]] = []  # where to skip from, the flag, and the pass it belongs to
        for k, stage in enumerate(self.program.before):
            flag = stage.targets[-1] if stage.is_loop else stage.unless
            is_first = stage.is_loop or k == 0 or self.program.before[k - 1].unless != flag
            if flag is not None and is_first:
                waiting.append((sum(map(len, code)), len(code), flag))
                code.append(np.zeros((1, WIDTH), np.int64))
            code += self._stage(stage)
            is_last = stage.is_loop or k + 1 == len(self.program.before) or self.program.before[k + 1].unless != flag
            if flag is not None and is_last:
                start, at, of = waiting.pop()
                behind = sum(map(len, code)) - start
                if stage.is_loop:
                    code.append(np.array([[Control.AGAIN, behind - 1, of, stage.times, 0]]))
                    behind += 1
                code[at][0] = Control.SKIP, behind, of, 0, 0
        rows, made = self._graph(self.program.graph, {}, keep=True)
        outputs = [made[k] for k in self.program.graph.flat_outputs()]
        code += [rows, np.array([[Control.END, 0, 0, 0, 0]])]
        whole = np.concatenate(code)
        whole[:, 1:][whole[:, 1:] < 0] = self.n_places - 1 - whole[:, 1:][whole[:, 1:] < 0]
        results = [outputs[k] for r in self.program.results for k in r.entries]
        return Instructions(
            whole.astype(np.int32),
            np.array(self._values, dtype=float),
            self.n_places,
            np.array([x.size for x in (*self.program.arguments, *self.program.results)], dtype=np.int64),
            np.array([k if k >= 0 else self.n_places - 1 - k for k in results], dtype=np.int32),
        )

    def _constant(self, value: float) -> int:
        if value.hex() not in self._constants:
            self._constants[value.hex()] = -1 - len(self._values)
            self._values.append(value)
        return self._constants[value.hex()]

    def _stage(self, stage: Stage) -> Iterator[NDArray[np.int64]]:
        if not stage.calls:
            first = self.first_apart if stage.is_loop else None
            goals: dict[int, list[int]] = {}
            for position, (k, target) in enumerate(zip(stage.graph.flat_outputs(), stage.targets, strict=True)):
                goals.setdefault(k, []).append(target if first is None else first + position)
            yield self._graph(stage.graph, goals)[0]
            if first is not None:
                copies = [(Control.COPY, target, first + k, 0, 0) for k, target in enumerate(stage.targets)]
                yield np.array(copies, dtype=np.int64)
            return
        # operands and results of a row stand for numbers below those of all slots, and are replaced row by row
        n_given, n_made, start = len(stage.calls[0]), len(stage.graph.flat_outputs()), 1 << 40
        goals = {}
        for position, k in enumerate(stage.graph.flat_outputs()):
            goals.setdefault(k, []).append(start + n_given + position)
        rows, _ = self._graph(stage.graph, goals, inputs=start)
        table = np.array([[*operands, *targets] for operands, targets in stage.runs(0)], dtype=np.int64)
        is_column = rows[:, 1:] >= start
        columns = np.where(is_column, rows[:, 1:] - start, 0)
        assert table.shape[1] == n_given + n_made
        for row in table:
            own = rows.copy()
            own[:, 1:] = np.where(is_column, row[columns], rows[:, 1:])
            yield own

    def _graph(
        self, graph: Graph, goals: dict[int, list[int]], inputs: int = 0, keep: bool = False
    ) -> tuple[NDArray[np.int64], dict[int, int]]:
        """Instructions of straight-line code, and places of its nodes: with goals of some, or all outputs kept."""
        nodes, values = graph.nodes(), graph.value.tolist()
        outputs = set(graph.flat_outputs())
        left = np.zeros(len(nodes) + 1, dtype=np.int64)
        for operands in (graph.a, graph.b, graph.c):
            np.add.at(left, operands[(graph.op >= Op.ADD) & (operands >= 0)], 1)
        uses: list[int] = left.tolist()
        place: dict[int, int] = {}
        free: list[int] = []
        angles: dict[tuple[int, int], int] = {}
        for k, (op, a, *_) in enumerate(nodes):
            if op in (Op.SIN, Op.COS):
                angles[op, a] = k
        rows: list[tuple[int, int, int, int, int]] = []
        slots = self.first + 1

        def room(k: int) -> int:
            nonlocal slots
            if k in goals:
                return goals[k][0]
            if free:
                return free.pop()
            slots += 1
            return slots - 1

        def done(k: int) -> None:
            uses[k] -= 1
            if not uses[k] and nodes[k][0] >= Op.ADD and k not in goals and not (keep and k in outputs):
                free.append(place[k])

        for k, (op, a, b, c) in enumerate(nodes):
            if op == Op.INPUT:
                place[k] = inputs + a
                continue
            if op == Op.CONSTANT:
                place[k] = self._constant(values[k])
                continue
            operands = (a, b, c)[: arity(op)]
            if k in place:  # with its other half
                done(a)
                continue
            if op in (Op.SIN, Op.COS):
                both = [angles.get((kind, a)) for kind in (Op.SIN, Op.COS)]
                for half in both:
                    if half is not None:
                        place[half] = room(half)
                sine, cosine = (self.first if half is None else place[half] for half in both)
                rows.append((Control.SINCOS, sine, place[a], cosine, 0))
                done(a)
                for half in both:
                    rows += [(Control.COPY, goal, place[half], 0, 0) for goal in goals.get(half, [])[1:]] if half else []
                continue
            at = [place[x] for x in operands] + [0] * (3 - len(operands))
            for x in operands:
                done(x)
            place[k] = room(k)
            rows.append((op, place[k], *at))
            rows += [(Control.COPY, goal, place[k], 0, 0) for goal in goals.get(k, [])[1:]]
        for k, some in goals.items():
            if nodes[k][0] < Op.ADD:
                rows += [(Control.COPY, goal, place[k], 0, 0) for goal in some]
        self.n_places = max(self.n_places, slots)
        return np.array(rows, dtype=np.int64).reshape(-1, WIDTH), place


def argument_starts(sizes: Sequence[int]) -> list[int]:
    """Place of the first number of each argument."""
    return [*accumulate(sizes, initial=0)][:-1]
