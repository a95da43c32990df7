"""Cut a traced graph with loops into straight-line stages: what comes before a loop, its body, what follows it.

Each node belongs to the first stage in which its operands are known, so that a loop's body holds only what changes in
it. What a later stage reads crosses in memory, as a further input of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from delassus.compiler.program import Stage
from delassus.spatial.graph import LEAVES, Builder, Graph, Loop, Op, arity


def cut(
    graph: Graph, loops: Sequence[Loop], n_inputs: int, optimise: Callable[[Graph], Graph]
) -> tuple[tuple[Stage, ...], Graph]:
    """Stages that run before the last one, and that one; ``n_inputs`` are those of the program's arguments."""
    if not loops:
        return (), optimise(graph)
    nodes, last = graph.nodes(), 2 * len(loops)
    place: dict[int, int] = {}  # of a value that crosses: its number as an input
    known: dict[int, int] = {}  # stage from which on a loop's value is there
    goals: list[list[tuple[int, int]]] = [[] for _ in range(last)]  # nodes of each stage, and where they go
    n_values = n_inputs
    for k, loop in enumerate(loops):
        for start, carried, following, final in zip(loop.start, loop.carried, loop.following, loop.final, strict=True):
            place[carried] = place[final] = n_values
            known[carried], known[final] = 2 * k + 1, 2 * k + 2
            goals[2 * k].append((start, n_values))
            goals[2 * k + 1].append((following, n_values))
            n_values += 1
    stage: list[int] = []
    for k, (op, *operands) in enumerate(nodes):
        stage.append(known.get(k, 0) if op in LEAVES else max(stage[x] for x in operands[: arity(op)]))

    def own(number: int, roots: Sequence[int]) -> Graph:
        """Graph of one stage: from its roots down to what other stages give it."""
        nonlocal n_values
        wanted, build, new = bytearray(len(nodes)), Builder(), dict[int, int]()
        for root in roots:
            wanted[root] = 1
        crossing = set[int]()
        for k in range(len(nodes) - 1, -1, -1):
            op, *operands = nodes[k]
            if not wanted[k] or op in LEAVES:
                continue
            if stage[k] != number:
                assert stage[k] < number and stage[k] % 2 == 0, "a value of the inside of a loop is read outside of it"
                crossing.add(k)
                if k not in place:
                    place[k] = n_values
                    goals[stage[k]].append((k, n_values))
                    n_values += 1
                continue
            for x in operands[: arity(op)]:
                wanted[x] = 1
        for k, (op, *operands) in enumerate(nodes):
            if not wanted[k]:
                continue
            if op == Op.CONSTANT:
                new[k] = build.constant(float(graph.value[k]))
            elif k in crossing or op == Op.INPUT:
                new[k] = build.node(Op.INPUT, place.get(k, operands[0]))
            else:
                new[k] = build.node(op, *(new[x] for x in operands[: arity(op)]))
        return optimise(build.graph([[new[x] for x in roots]]))

    final_stage = own(last, graph.flat_outputs())
    stages: list[Stage] = []
    for number in reversed(range(last)):
        made = own(number, [k for k, _ in goals[number]])
        times = loops[number // 2].times if number % 2 else 0
        stages.append(Stage(made, tuple(target for _, target in goals[number]), times))
    return tuple(reversed(stages)), final_stage
