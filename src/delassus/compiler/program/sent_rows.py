"""Results that calls make row by row, such as those of a tensor: each row is sent off as soon as it is made.

A slice of a result along its first axis that holds nothing but constants and values which one row of calls sets, and
which nothing else reads, need not wait for the others. The rows of a stage then set the same places, one row after the
other, in place of as many as there are numbers in the results.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.program.program import Program
from delassus.compiler.program.workspace_slots import moved, read_by, stage_moved
from delassus.spatial.trace.operations import Op

LEAST = 4_096
"""Numbers that are sent, at least: fewer may wait."""


NEVER = 1 << 62
"""Length of slices that no result has."""


class Slice(NamedTuple):
    """Part of a result that a row sends: of which result, from which number on, and what its numbers are.

    They are numbers of values, or ``-1 - k`` of a constant that is node k of the last part.
    """

    result: int
    first: int
    values: tuple[int, ...]


class Sending(NamedTuple):
    """A program whose rows of calls set the same places; of each of these stages the slices that each row sends."""

    program: Program
    slices: dict[int, list[list[Slice]]]

    def waits(self, result: int) -> NDArray[np.bool_]:
        """Which numbers of a result are not sent."""
        found = np.ones(self.program.results[result].size, np.bool_)
        for part in (part for rows in self.slices.values() for row in rows for part in row if part.result == result):
            found[part.first : part.first + len(part.values)] = False
        return found


def sending(program: Program, shortest: int) -> Sending:
    """What can be sent, in slices of so many numbers at least."""
    graph, n, before = program.graph, program.n_inputs + program.n_values, list(program.before)
    flat = np.array(graph.flat_outputs(), dtype=np.int64)

    # what a row of calls sets for results alone has a number of its own
    row_of = np.full((2, n), -1)  # stage and row
    for k, stage in enumerate(before):
        row_of[:, read_by(stage.graph, stage.calls)] = -1
        targets = np.array(stage.targets, dtype=np.int64)
        row_of[:, targets] = -1
        if stage.calls and stage.unless is None and len(targets) >= LEAST:
            row_of[0, targets], row_of[1, targets] = k, np.arange(len(targets)) * len(stage.calls) // len(targets)
    operands = np.concatenate([x[graph.op >= Op.ADD] for x in (graph.a, graph.b, graph.c)])
    operands = operands[operands >= 0]
    row_of[:, graph.a[operands[graph.op[operands] == Op.INPUT]]] = -1
    parts, waiting = list[tuple[int, int, Slice]](), np.zeros(n, np.bool_)
    for r, result in enumerate(program.results):
        nodes = flat[np.array(result.entries, dtype=np.int64)]
        is_value, is_constant = graph.op[nodes] == Op.INPUT, graph.op[nodes] == Op.CONSTANT
        numbers = np.where(is_value, graph.a[nodes], -1 - nodes)
        size = result.size // result.shape[0] if result.size and result.shape else 1
        for first in range(0, result.size, size):
            own, varies = numbers[first : first + size], ~is_constant[first : first + size]
            rows = np.unique(np.where(own >= 0, row_of[:, np.maximum(own, 0)], -1)[:, varies], axis=1)
            if size >= shortest and rows.shape[1] == 1 and rows[0, 0] >= 0:
                parts.append((*rows[:, 0].tolist(), Slice(r, first, tuple(own.tolist()))))
            else:
                waiting[own[own >= 0]] = True
    if sum(len(part.values) for *_, part in parts) < LEAST:
        return Sending(program, {})

    # rows set the same places
    row_of[:, waiting] = -1
    kept, own_of = np.zeros(n, np.bool_), np.arange(n)
    kept[: program.n_inputs] = True
    sent = dict[int, list[list[Slice]]]()
    n_places = n
    for k, stage in enumerate(before):
        targets = np.array(stage.targets, dtype=np.int64)
        goes = row_of[0, targets] == k
        if goes.any():
            table = goes.reshape(len(stage.calls), -1)
            place = np.where(table, n_places + np.cumsum(table.any(axis=0)) - 1, -1).ravel()
            n_places += int(table.any(axis=0).sum())
            own_of[targets[goes]] = place[goes]
            before[k] = replace(stage, targets=tuple(np.where(goes, place, targets).tolist()))
            sent[k] = [[] for _ in stage.calls]
        kept[targets[~goes]] = True
    kept = np.append(kept, np.ones(n_places - n, np.bool_))
    new = np.cumsum(kept) - 1
    for k, row, part in parts:
        values = np.array(part.values, dtype=np.int64)
        sent[k][row].append(
            part._replace(values=tuple(np.where(values < 0, values, new[own_of[np.maximum(values, 0)]]).tolist()))
        )
    made = replace(
        program,
        before=tuple(stage_moved(stage, new) for stage in before),
        graph=moved(graph, new[own_of]),
    )
    return Sending(made, sent)
