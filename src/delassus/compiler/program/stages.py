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
from numpy.typing import NDArray

from delassus.compiler.program.program import Stage
from delassus.compiler.program.workspace_slots import share_slots
from delassus.spatial.trace.graph import Builder, Calls, Graph, Loop
from delassus.spatial.trace.operations import LEAVES, Op, arity


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
    place : dict of int to int
        Of a value that crosses: its number as an input.
    goals : list of list of (int, int)
        Of each stage its outputs, and their numbers as inputs of others.
    """

    def __init__(
        self, graph: Graph, loops: Sequence[Loop | Calls], n_inputs: int, optimise: Callable[[Graph, bool], Graph]
    ) -> None:
        of_loops = [x for loop in loops if isinstance(loop, Loop) for x in (*loop.start, *loop.following)]
        needed = graph.reachable([*graph.flat_outputs(), *of_loops])
        self._graph, self._optimise = graph, optimise
        self._nodes, self._last = graph.nodes(), 2 * len(loops)
        self._loops = [loop.pruned(self._nodes, needed) if isinstance(loop, Calls) else loop for loop in loops]
        self._n_values = n_inputs
        self.begin = {k: 2 * k for k, loop in enumerate(self._loops) if isinstance(loop, Loop)}
        self.pass_of: dict[int, int] = {}
        for k, loop in reversed(list(enumerate(self._loops))):
            if isinstance(loop, Loop) and loop.inside:
                self.begin[k] = 2 * (k - loop.inside - 1)
                self.pass_of |= dict.fromkeys(range(self.begin[k] + 2, 2 * k + 2), k)
        self._known: dict[int, int] = {}  # stage from which on a value of a loop is there
        self.place: dict[int, int] = {}
        self._copies: dict[int, int] = {}  # of arguments and constants that calls are given
        self.goals: list[list[tuple[int, int]]] = [[] for _ in range(self._last)]
        self._finals = {node for calls in graph.calls for row in calls.final for node in row}
        for k, loop in enumerate(self._loops):
            self._enter(k, loop)
        self._stage: list[int] = []
        for k, (op, *operands) in enumerate(self._nodes):
            below = (self._stage[x] for x in operands[: arity(op)])
            self._stage.append(self._known.get(k, 0) if op in LEAVES else max(below))
        self._sink(needed)
        self._of_stage: list[list[int]] = [[] for _ in range(self._last + 1)]  # operations, in order
        for k, (op, *_) in enumerate(self._nodes):
            if op not in LEAVES:
                self._of_stage[self._stage[k]].append(k)
        self._place_loops(needed)
        self._place_calls(graph.flat_outputs())

    def _sink(self, needed: NDArray[np.bool_]) -> None:
        """Move what a single pass alone reads into it: it is not computed where no state wants the pass."""
        loops = [(k, loop) for k, loop in enumerate(self._loops) if isinstance(loop, Loop)]
        single, several = {self._first_of(2 * k + 1) for k, loop in loops if loop.times == 1}, -1
        reader = dict.fromkeys(self._graph.flat_outputs(), several)

        def read(nodes: Sequence[int], stage: int) -> None:
            first = self._first_of(stage)
            for x in nodes:
                reader[x] = first if reader.get(x, first) == first else several

        for k, loop in enumerate(self._loops):
            if isinstance(loop, Calls):
                stage = 2 * k + 1 if 2 * k + 1 in self.pass_of else several
                read([x for row in loop.operands for x in row], stage)
                reader |= dict.fromkeys(loop.results, several)
            else:
                reader |= dict.fromkeys(loop.start, several)
                read(loop.following, 2 * k + 1)
        for k in reversed(range(len(self._nodes))):
            op, *operands = self._nodes[k]
            if op in LEAVES or not needed[k]:
                continue
            if (only := reader.get(k, several)) in single and self._stage[k] < only:
                self._stage[k] = only
            read(operands[: arity(op)], self._stage[k])

    def _first_of(self, stage: int) -> int:
        """First stage of the pass that a stage belongs to."""
        return self.begin[self.pass_of[stage]] + 2 if stage in self.pass_of else stage

    def _place_loops(self, needed: NDArray[np.bool_]) -> None:
        """Number what loops carry. What a loop alone reads, as a start, is made in its place; the rest is copied."""
        loops = [(k, loop) for k, loop in enumerate(self._loops) if isinstance(loop, Loop)]
        last_read, n_starts = self._last_reads(needed), Counter(x for _, loop in loops for x in loop.start)
        for k, loop in loops:
            of_each = zip(loop.start, loop.carried, loop.following, loop.final, strict=True)
            for start, carried, following, final in of_each:
                is_known, stage, begin = start in self._known, self._stage[start], self.begin[k]
                is_made = is_known or (stage < begin and self._nodes[start][0] not in LEAVES)
                if is_made and n_starts[start] == 1 and last_read.get(start, 0) <= begin:
                    if start not in self.place:
                        self.place[start] = self._new()
                        if not is_known:
                            self.goals[stage].append((start, self.place[start]))
                    number = self.place[start]
                else:
                    number = self._new()
                    self.goals[begin].append((start, number))
                self.place[carried] = self.place[final] = number
                self.goals[2 * k + 1].append((following, number))

    def _last_reads(self, needed: NDArray[np.bool_]) -> dict[int, int]:
        """Of nodes that are read the last stage that does, starts of loops apart."""
        last = dict.fromkeys(self._graph.flat_outputs(), self._last)
        for k, loop in enumerate(self._loops):
            read = loop.following if isinstance(loop, Loop) else [x for row in loop.operands for x in row]
            last |= {x: max(2 * k + 1, last.get(x, 0)) for x in read}
        for k, (op, *operands) in enumerate(self._nodes):
            if op not in LEAVES and needed[k]:
                last |= {x: max(self._stage[k], last.get(x, 0)) for x in operands[: arity(op)]}
        return last

    def _place_calls(self, outputs: Sequence[int]) -> None:
        """Number results first, for they are copied together, and then what calls read, for they read it together."""
        calls = [loop for loop in self._loops if isinstance(loop, Calls)]
        read = [node for loop in calls for some in loop.side_by_side(loop.operands) for node in some]
        crossing = self._finals.union(read)
        results = [node for loop in calls for some in loop.side_by_side(loop.final) for node in some]
        for node in [*(k for k in outputs if k in crossing), *read, *results]:
            self._crossing(node)

    def _enter(self, k: int, loop: Loop | Calls) -> None:
        after = 2 * k + 2
        if self.pass_of.get(after) == k + 1:  # the last stage of a pass
            after += 1
        if isinstance(loop, Calls):
            self.place |= {node: number for number, node in enumerate(loop.given)}
            self._known |= dict.fromkeys(loop.given, 2 * k + 1)
            self._known |= dict.fromkeys((node for row in loop.final for node in row), after)
            return
        first = self.begin[k] + 2 if loop.inside else 2 * k + 1
        self._known |= dict.fromkeys(loop.carried, first) | dict.fromkeys(loop.final, after)

    def _new(self) -> int:
        self._n_values += 1
        return self._n_values - 1

    def stages(self) -> tuple[tuple[Stage, ...], Graph]:
        """All stages but the last one; and the last one."""
        final, _ = self._own(self._last, self._graph.flat_outputs())
        stages: list[Stage] = []
        for number in reversed(range(self._last)):
            loop = self._loops[number // 2]
            if number % 2 and isinstance(loop, Calls):
                stages.append(self._called(number, loop))
                continue
            made, _ = self._own(number, [k for k, _ in self.goals[number]])
            times = loop.times if number % 2 and isinstance(loop, Loop) else 0
            stages.append(
                Stage(made, tuple(target for _, target in self.goals[number]), times, unless=self._flag(number))
            )
        return tuple(reversed([stage for stage in stages if stage.targets])), final

    def _flag(self, number: int) -> int | None:
        """Input that is not zero where the pass is not wanted that a stage is inside of."""
        k = self.pass_of.get(number)
        if k is None or number == 2 * k + 1:  # the last stage of a pass ends as loops do
            return None
        loop = self._loops[k]
        assert isinstance(loop, Loop)
        return self.place[loop.carried[-1]]

    def _called(self, number: int, calls: Calls) -> Stage:
        """Stage of the body, whose inputs are those of a row of calls."""
        body, outside = self._own(number, calls.results, len(calls.given))
        read = sorted({a for op, a, *_ in body.nodes() if op == Op.INPUT})
        place = dict(zip(read, range(len(read)), strict=True))
        body = replace(
            body, a=np.array([place[a] if op == Op.INPUT else a for op, a, *_ in body.nodes()], dtype=np.int64)
        )
        rows = tuple(tuple(self._crossing([*row, *outside][x]) for x in read) for row in calls.operands)
        targets = tuple(self.place[x] for row in calls.final for x in row)
        return Stage(body, targets, calls=rows, unless=self._flag(number))

    def _crossing(self, node: int) -> int:
        """Number of a value that crosses, which its stage has to set."""
        op, stage = self._nodes[node][0], self._stage[node]
        places = self._copies if op in LEAVES and node not in self._known else self.place
        assert stage % 2 == 0 or node in self._finals, "a value inside of a loop is read outside"
        if node not in places:
            places[node] = self._new()
            if node not in self._finals:
                self.goals[stage].append((node, places[node]))
        return places[node]

    def _own(self, number: int, roots: Sequence[int], n_given: int | None = None) -> tuple[Graph, list[int]]:
        """Graph of one stage, from its roots down to what other stages give it.

        In a body of calls, ``n_given`` inputs are the operands of a row, and further ones the nodes returned beside it.
        """
        nodes, wanted, build, new = self._nodes, set(roots), Builder(), dict[int, int]()
        for k in reversed(self._of_stage[number]):
            if k in wanted:
                op, *operands = nodes[k]
                wanted.update(operands[: arity(op)])
        outside: list[int] = []
        for k in sorted(wanted):
            op, *operands = nodes[k]
            is_leaf = op in LEAVES
            if op == Op.CONSTANT:
                new[k] = build.constant(float(self._graph.value[k]))
            elif not is_leaf and self._stage[k] == number:
                new[k] = build.node(op, *(new[x] for x in operands[: arity(op)]))
            elif n_given is None:
                new[k] = build.node(Op.INPUT, self.place.get(k, operands[0]) if is_leaf else self._crossing(k))
            elif self._known.get(k) == number:
                new[k] = build.node(Op.INPUT, self.place[k])
            else:
                new[k] = build.node(Op.INPUT, n_given + len(outside))
                outside.append(k)
        graph = build.graph([[new[x] for x in roots]])
        return self._optimise(graph, n_given is not None), outside
