"""Cut a traced graph with loops and calls into straight-line stages: what comes before one, its body, what follows it.

Each node belongs to the first stage in which its operands are known, so that a body holds only what changes in it, but
for what a single pass alone reads: only some states want such a pass. What a later stage reads crosses in memory, as a
further input of the program. A single pass with calls is several stages, none of which run where no state wants it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from delassus.compiler.passes.order import SEVERAL, UNREAD
from delassus.compiler.passes.rebuild import Flags, Indices
from delassus.compiler.passes.scans import AMONG, SINK, STAGES, nodes_of, reachable, run
from delassus.compiler.program.program import Stage
from delassus.compiler.program.workspace_slots import share_slots
from delassus.spatial.trace.graph import Calls, Graph, Loop
from delassus.spatial.trace.operations import Op


def cut(
    graph: Graph, loops: Sequence[Loop | Calls], n_inputs: int, optimise: Callable[[Graph, bool], Graph]
) -> tuple[tuple[Stage, ...], Graph]:
    """Stages that run before the last one, and that one; ``n_inputs`` are those of the program's arguments."""
    if not loops:
        return (), optimise(graph, False)
    return share_slots(*_Cut(graph, loops, n_inputs, optimise).stages(), n_inputs)


class _Cut:
    """Stage ``2 k`` comes before loop or call k, whose body is stage ``2 k + 1``.

    Attributes
    ----------
    begin : dict of int to int
        Of a loop the stage before it.
    pass_of : dict of int to int
        Of a stage of a single pass with others inside, its loop.
    known : array of int
        Of a value of a loop the stage from which on it is there, else −1.
    place, copies : arrays of int
        Of a value that crosses its number as an input, else −1; of an argument or constant that calls are given, that
        of its copy.
    goals : list of list of (int, int)
        Of each stage its outputs, and their numbers as inputs of others.
    """

    def __init__(
        self, graph: Graph, loops: Sequence[Loop | Calls], n_inputs: int, optimise: Callable[[Graph, bool], Graph]
    ) -> None:
        of_loops = [x for loop in loops if isinstance(loop, Loop) for x in (*loop.start, *loop.following)]
        needed = reachable(graph, [*graph.outputs, np.array(of_loops, dtype=np.int64)])
        self._graph, self._optimise, self._last = graph, optimise, 2 * len(loops)
        self._loops = [loop.pruned(graph, needed) if isinstance(loop, Calls) else loop for loop in loops]
        self._n_values, n = n_inputs, len(graph)
        self.begin = {k: 2 * k for k, loop in enumerate(self._loops) if isinstance(loop, Loop)}
        self.pass_of: dict[int, int] = {}
        for k, loop in reversed(list(enumerate(self._loops))):
            if isinstance(loop, Loop) and loop.inside:
                self.begin[k] = 2 * (k - loop.inside - 1)
                self.pass_of |= dict.fromkeys(range(self.begin[k] + 2, 2 * k + 2), k)
        self.known = np.full(n, -1)
        numbers = np.full((2, n), -1)
        self._numbers, (self.place, self.copies) = numbers.ravel(), numbers
        self.goals: list[list[tuple[int, int]]] = [[] for _ in range(self._last)]
        self._is_final, self._wanted, self._new = np.zeros(n, np.bool_), np.zeros(n, np.bool_), np.full(n + 1, -1)
        self._is_operation = graph.op >= Op.ADD
        for calls in graph.calls:
            self._is_final[np.array(calls.final)] = True
        for k, loop in enumerate(self._loops):
            self._enter(k, loop)
        self._stage = np.maximum(self.known, 0)
        run(STAGES, nodes_of(graph), x=self._stage)
        self._sink(needed)
        operations = np.flatnonzero(self._is_operation)  # of each stage, in order
        operations = operations[np.argsort(self._stage[operations], kind="stable")]
        ends = np.searchsorted(self._stage[operations], np.arange(self._last + 1), side="right")
        self._of_stage = np.split(operations, ends[:-1])
        self._place_loops(needed)
        self._place_calls(np.concatenate(graph.outputs))

    def _sink(self, needed: Flags) -> None:
        """Move what a single pass alone reads into it: it is not computed where no state wants the pass."""
        passes = np.array([[self._first_of(stage), 0] for stage in range(self._last + 1)])
        reader = np.full(len(self._graph), UNREAD)
        reader[np.concatenate(self._graph.outputs)] = SEVERAL
        for k, loop in enumerate(self._loops):
            if isinstance(loop, Calls):
                read, made = np.array(loop.operands, dtype=np.int64).ravel(), loop.results
                only = passes[2 * k + 1, 0] if 2 * k + 1 in self.pass_of else SEVERAL
            else:
                read, made = np.array(loop.following, dtype=np.int64), loop.start
                only = passes[2 * k + 1, 0]
                passes[only, 1] |= loop.times == 1
                reader[made] = SEVERAL
            alone = (reader[read] == UNREAD) | (reader[read] == only)
            reader[read] = np.where(alone, only, SEVERAL)
            if isinstance(loop, Calls):
                reader[made] = SEVERAL
        run(SINK, nodes_of(self._graph), flags=needed, x=self._stage, y=reader, two=passes)

    def _first_of(self, stage: int) -> int:
        """First stage of the pass that a stage belongs to."""
        return self.begin[self.pass_of[stage]] + 2 if stage in self.pass_of else stage

    def _place_loops(self, needed: Flags) -> None:
        """Number what loops carry. What a loop alone reads, as a start, is made in its place; the rest is copied."""
        loops = [(k, loop) for k, loop in enumerate(self._loops) if isinstance(loop, Loop)]
        if not loops:
            return
        last_read, n_starts = self._last_reads(needed), Counter(x for _, loop in loops for x in loop.start)
        for k, loop in loops:
            of_each = zip(loop.start, loop.carried, loop.following, loop.final, strict=True)
            for start, carried, following, final in of_each:
                is_known, stage, begin = self.known[start] >= 0, int(self._stage[start]), self.begin[k]
                is_made = is_known or (stage < begin and self._is_operation[start])
                if is_made and n_starts[start] == 1 and last_read[start] <= begin:
                    if self.place[start] < 0:
                        self.place[start] = self._new_number()
                        if not is_known:
                            self.goals[stage].append((start, int(self.place[start])))
                    number = int(self.place[start])
                else:
                    number = self._new_number()
                    self.goals[begin].append((start, number))
                self.place[carried] = self.place[final] = number
                self.goals[2 * k + 1].append((following, number))

    def _last_reads(self, needed: Flags) -> Indices:
        """Of each node the last stage that reads it, 0 if none does; starts of loops apart."""
        graph, last = self._graph, np.zeros(len(self._graph), np.int64)
        last[np.concatenate(graph.outputs)] = self._last
        for k, loop in enumerate(self._loops):
            read = np.array(loop.following if isinstance(loop, Loop) else loop.operands, dtype=np.int64)
            last[read] = np.maximum(last[read], 2 * k + 1)
        users = np.flatnonzero(self._is_operation & needed)
        for column in (graph.a, graph.b, graph.c):
            some = users[column[users] >= 0]
            np.maximum.at(last, column[some], self._stage[some])
        return last

    def _place_calls(self, outputs: Indices) -> None:
        """Number results first, for they are copied together, and then what calls read, for they read it together."""
        calls = [loop for loop in self._loops if isinstance(loop, Calls)]
        none = np.zeros(0, np.int64)
        read = np.concatenate([none, *(_side_by_side(loop, loop.operands) for loop in calls)])
        results = np.concatenate([none, *(_side_by_side(loop, loop.final) for loop in calls)])
        crosses = self._is_final.copy()
        crosses[read] = True
        self._crossing(np.concatenate([outputs[crosses[outputs]], read, results]))

    def _enter(self, k: int, loop: Loop | Calls) -> None:
        after = 2 * k + 2
        if self.pass_of.get(after) == k + 1:  # the last stage of a pass
            after += 1
        if isinstance(loop, Calls):
            self.place[loop.given] = range(len(loop.given))
            self.known[loop.given] = 2 * k + 1
            self.known[np.array(loop.final, dtype=np.int64)] = after
            return
        self.known[loop.carried] = self.begin[k] + 2 if loop.inside else 2 * k + 1
        self.known[loop.final] = after

    def _new_number(self) -> int:
        self._n_values += 1
        return self._n_values - 1

    def stages(self) -> tuple[tuple[Stage, ...], Graph]:
        """All stages but the last one; and the last one."""
        final, _ = self._own(self._last, np.concatenate(self._graph.outputs))
        stages: list[Stage] = []
        for number in reversed(range(self._last)):
            loop = self._loops[number // 2]
            if number % 2 and isinstance(loop, Calls):
                stages.append(self._called(number, loop))
                continue
            roots, targets = np.array(self.goals[number], dtype=np.int64).reshape(-1, 2).T
            made, _ = self._own(number, roots)
            times = loop.times if number % 2 and isinstance(loop, Loop) else 0
            stages.append(Stage(made, tuple(targets.tolist()), times, unless=self._flag(number)))
        return tuple(reversed([stage for stage in stages if stage.targets])), final

    def _flag(self, number: int) -> int | None:
        """Input that is not zero where the pass is not wanted that a stage is inside of."""
        k = self.pass_of.get(number)
        if k is None or number == 2 * k + 1:  # the last stage of a pass ends as loops do
            return None
        loop = self._loops[k]
        assert isinstance(loop, Loop)
        return int(self.place[loop.carried[-1]])

    def _called(self, number: int, calls: Calls) -> Stage:
        """Stage of the body, whose inputs are those of a row of calls."""
        body, outside = self._own(number, np.array(calls.results, dtype=np.int64), len(calls.given))
        is_input, a = body.op == Op.INPUT, body.a.copy()
        read, a[is_input] = np.unique(body.a[is_input], return_inverse=True)
        n_rows = len(calls.operands)
        operands = np.array(calls.operands, dtype=np.int64).reshape(n_rows, len(calls.given))
        crossing = self._crossing(np.hstack([operands, np.tile(outside, (n_rows, 1))])[:, read].ravel())
        rows = tuple(map(tuple, crossing.reshape(n_rows, len(read)).tolist()))
        targets = self.place[np.array(calls.final, dtype=np.int64)].ravel().tolist()
        return Stage(replace(body, a=a), tuple(targets), calls=rows, unless=self._flag(number))

    def _crossing(self, nodes: Indices) -> Indices:
        """Numbers of values that cross, which their stages have to set."""
        n, stage = len(self._graph), self._stage[nodes]
        assert np.all((stage % 2 == 0) | self._is_final[nodes]), "a value inside of a loop is read outside"
        entries = np.where(self._is_operation[nodes] | (self.known[nodes] >= 0), nodes, n + nodes)
        made, first = np.unique(entries[self._numbers[entries] < 0], return_index=True)
        made = made[np.argsort(first)]
        self._numbers[made] = np.arange(self._n_values, self._n_values + len(made))
        self._n_values += len(made)
        made = made[~self._is_final[made % n]]
        node = made % n
        for k, of_node, number in np.stack([node, self._stage[node], self._numbers[made]], axis=1).tolist():
            self.goals[of_node].append((k, number))
        return self._numbers[entries]

    def _own(self, number: int, roots: Indices, n_given: int | None = None) -> tuple[Graph, Indices]:
        """Graph of one stage, from its roots down to what other stages give it.

        In a body of calls, ``n_given`` inputs are the operands of a row, and further ones the nodes returned beside it.
        """
        graph, wanted = self._graph, self._wanted
        wanted[roots] = True
        run(AMONG, nodes_of(graph), flags=wanted, x=self._of_stage[number])
        nodes = np.flatnonzero(wanted)
        wanted[nodes] = False
        op, is_own = graph.op[nodes], self._is_operation[nodes] & (self._stage[nodes] == number)
        is_input = ~is_own & (op != Op.CONSTANT)
        given, outside = nodes[is_input], np.zeros(0, np.int64)
        if n_given is None:
            is_leaf = ~self._is_operation[given]
            inputs = np.where(is_leaf & (self.place[given] < 0), graph.a[given], self.place[given])
            inputs[~is_leaf] = self._crossing(given[~is_leaf])
        else:
            is_outside, inputs = self.known[given] != number, self.place[given]
            outside = given[is_outside]
            inputs[is_outside] = np.arange(n_given, n_given + len(outside))

        # values of a loop, before and after it, are one input
        _, first, same = np.unique(inputs, return_index=True, return_inverse=True)
        at, kept = np.flatnonzero(is_input), np.ones(len(nodes), np.bool_)
        kept[at] = False
        kept[at[first]] = True
        new = np.cumsum(kept) - 1
        new[at] = new[at[first[same]]]
        self._new[nodes] = new
        operands = self._new[np.where(is_own, (graph.a[nodes], graph.b[nodes], graph.c[nodes]), -1)]
        operands[0, at] = inputs
        op[at] = Op.INPUT
        a, b, c = np.compress(kept, operands, axis=1)
        made = Graph(op[kept], a, b, c, graph.value[nodes[kept]], (self._new[roots],))
        return self._optimise(made, n_given is not None), outside


def _side_by_side(calls: Calls, table: list[list[int]]) -> Indices:
    """Nodes of all rows, as code for one state reads or writes them together."""
    rows = np.array(table, dtype=np.int64)
    return (rows if calls.tiles else rows.T).ravel()
