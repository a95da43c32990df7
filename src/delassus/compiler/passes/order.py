"""Orders of a graph's nodes, and places of their values, as compiled loops."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from delassus.compiler.jit.compile import compiled, inlined
from delassus.compiler.passes.rebuild import Flags, Indices, Nodes
from delassus.spatial.trace.operations import Op
from delassus.spatial.trace.trace_ops import ADD, COS, SIN

N_KINDS = len(Op)


@inlined
def operand(nodes: Nodes, k: int, i: int) -> int:
    """Operand of an operation, −1 where there is none."""
    return int(nodes.a[k] if i == 0 else nodes.b[k] if i == 1 else nodes.c[k])


@inlined
def mark_operands(nodes: Nodes, seen: Flags, k: int) -> None:
    """Mark the operands of a marked operation."""
    if seen[k] and nodes.op[k] >= ADD:
        for i in range(3):
            if operand(nodes, k, i) >= 0:
                seen[operand(nodes, k, i)] = True


@compiled
def reach(nodes: Nodes, seen: Flags, first: int, end: int) -> None:
    """Mark what marked nodes from ``first`` to before ``end`` depend on."""
    for k in range(end - 1, first - 1, -1):  # operands stand before what uses them
        mark_operands(nodes, seen, k)


@compiled
def reach_among(nodes: Nodes, seen: Flags, some: Indices) -> None:
    """Mark operands of marked nodes among some, which are in order."""
    for at in range(some.shape[0] - 1, -1, -1):
        mark_operands(nodes, seen, some[at])


@compiled
def spread(nodes: Nodes, seen: Flags, first: int, end: int) -> None:
    """Mark the operations from ``first`` to before ``end`` that depend on marked nodes."""
    for k in range(first, end):
        if nodes.op[k] >= ADD:
            for i in range(3):
                x = operand(nodes, k, i)
                if x >= 0 and seen[x]:
                    seen[k] = True


@compiled
def enter_stages(nodes: Nodes, stage: Indices) -> None:
    """Give each operation the first stage in which its operands are known; leaves have theirs."""
    for k in range(nodes.op.shape[0]):
        if nodes.op[k] >= ADD:
            for i in range(3):
                x = operand(nodes, k, i)
                if x >= 0:
                    stage[k] = max(stage[k], stage[x])


UNREAD, SEVERAL = -2, -1
"""In place of the pass that alone reads a value: there is none, there are several."""


@compiled
def sink(nodes: Nodes, needed: Flags, stage: Indices, reader: Indices, passes: Indices) -> None:
    """Move what a single pass alone reads into it.

    ``passes``, of each stage two numbers: the first stage of its pass, and whether that is single. ``reader``: the pass
    that reads a value, by its first stage.
    """
    for k in range(nodes.op.shape[0] - 1, -1, -1):
        if nodes.op[k] < ADD or not needed[k]:
            continue
        only = reader[k]
        if only >= 0 and passes[only, 1] == 1 and stage[k] < only:
            stage[k] = only
        own = passes[stage[k], 0]
        for i in range(3):
            x = operand(nodes, k, i)
            if x >= 0:
                reader[x] = own if reader[x] == UNREAD or reader[x] == own else SEVERAL


@compiled
def schedule(nodes: Nodes, roots: Indices, order: Indices) -> int:
    """Order of what roots need, depth first from them, the operand that needs more registers first; its length."""
    n = nodes.op.shape[0]
    need, done = np.zeros(n, np.int64), np.zeros(n, np.bool_)
    for k in range(n):  # registers for each node as if the graph were a tree
        if nodes.op[k] < ADD:
            continue
        x, y, z = need[nodes.a[k]], 0, 0
        if nodes.b[k] >= 0:
            y = need[nodes.b[k]]
            if nodes.c[k] >= 0:
                z = need[nodes.c[k]]
                x, y = max(x, y), min(x, y)
                x, z = max(x, z), min(x, z)
                y, z = max(y, z), min(y, z)
                need[k] = max(1, max(x, max(y + 1, z + 2)))
            else:
                need[k] = max(1, x + 1 if x == y else max(x, y))
        else:
            need[k] = max(1, x)
    stack, made = np.empty(4 * n + 4, np.int64), 0
    for root in roots:
        stack[0], height = root, 1
        while height > 0:
            height -= 1
            k = stack[height]
            if k < 0:  # its operands are made
                k = -1 - k
            elif done[k]:
                continue
            elif nodes.op[k] >= ADD:
                begin = height + 1
                end = begin
                for i in range(3):
                    x = operand(nodes, k, i)
                    if x >= 0 and not done[x]:
                        at = end
                        while at > begin and need[stack[at - 1]] > need[x]:  # the last pushed is made first
                            stack[at] = stack[at - 1]
                            at -= 1
                        stack[at] = x
                        end += 1
                if end > begin:
                    stack[height], height = -1 - k, end
                    continue
            if not done[k]:
                done[k], order[made] = True, k
                made += 1
    return made


AHEAD = 3000
"""Operations, in the order of the graph, among which those of a kind are looked for: more make runs longer, which one
state gains from, and more values alive at a time, which batches lose by."""


class Queues(NamedTuple):
    """Of each kind a queue of nodes that are ready: first and last, length, and since when there is one (−1: none).

    ``after`` is what follows each node; ``clock`` (1,) counts queues.
    """

    first: Indices
    last: Indices
    length: Indices
    since: Indices
    after: Indices
    clock: Indices


@compiled
def queue(queues: Queues, kind: int, k: int) -> None:
    """Append a node."""
    queues.after[k] = -1
    if queues.since[kind] < 0:
        queues.since[kind], queues.length[kind], queues.first[kind] = queues.clock[0], 0, k
        queues.clock[0] += 1
    else:
        queues.after[queues.last[kind]] = k
    queues.last[kind] = k
    queues.length[kind] += 1


@compiled
def push(heap: Indices, size: int, x: int) -> int:
    """Add a number to a heap, the least first; its size."""
    at = size
    while at > 0 and heap[(at - 1) >> 1] > x:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = x
    return size + 1


@compiled
def pop(heap: Indices, size: int) -> int:
    """Remove the least number of a heap; its size."""
    x, at, below = heap[size - 1], 0, 1
    while below < size - 1:
        if below + 1 < size - 1 and heap[below + 1] < heap[below]:
            below += 1
        if heap[below] >= x:
            break
        heap[at], at = heap[below], below
        below = 2 * at + 1
    heap[at] = x
    return size - 1


@compiled
def kinds_together(nodes: Nodes, order: Indices) -> int:
    """Order in which as many as can be made at once are made of the kind of which there are most; its length.

    They are among the next `AHEAD` of the graph's own order, in which few values are alive at a time.
    """
    n = nodes.op.shape[0]
    start, waits, made = np.zeros(n + 2, np.int64), np.zeros(n, np.int64), 0
    is_made, heap, n_later = np.zeros(n + 1, np.bool_), np.empty(n + 1, np.int64), 0
    for k in range(n):
        if nodes.op[k] < ADD:
            order[made], is_made[k] = k, True
            made += 1
            continue
        for i in range(3):
            x = operand(nodes, k, i)
            if x >= 0 and nodes.op[x] >= ADD:
                start[x + 2] += 1
                waits[k] += 1
        if waits[k] == 0:
            heap[n_later] = k
            n_later += 1
    for k in range(n):
        start[k + 2] += start[k + 1]
    users = np.empty(start[n + 1] + 1, np.int64)  # of node k from start[k] to start[k + 1], once they are entered
    for k in range(n):
        if nodes.op[k] < ADD:
            continue
        for i in range(3):
            x = operand(nodes, k, i)
            if x >= 0 and nodes.op[x] >= ADD:
                users[start[x + 1]] = k
                start[x + 1] += 1
    empty, none = np.zeros(N_KINDS, np.int64), np.full(N_KINDS, -1)
    queues = Queues(empty, np.zeros(N_KINDS, np.int64), np.zeros(N_KINDS, np.int64), none, np.empty(n, np.int64),
                    np.zeros(1, np.int64))  # fmt: skip
    first = 0
    while True:
        while is_made[first]:
            first += 1
        while n_later > 0 and heap[0] < first + AHEAD:
            k = heap[0]
            n_later = pop(heap, n_later)
            queue(queues, SIN if nodes.op[k] == COS else nodes.op[k], k)
        best = -1
        for kind in range(N_KINDS):
            if queues.since[kind] >= 0:
                more = best < 0 or queues.length[kind] > queues.length[best]
                if more or (queues.length[kind] == queues.length[best] and queues.since[kind] < queues.since[best]):
                    best = kind
        if best < 0:
            return made
        k, queues.since[best] = queues.first[best], -1
        at = k
        while at >= 0:
            order[made], is_made[at] = at, True
            made += 1
            following = queues.after[at]
            at = following
        end = made
        for at in range(end - queues.length[best], end):
            k = order[at]
            for u in range(start[k], start[k + 1]):
                user = users[u]
                waits[user] -= 1
                if waits[user] == 0:
                    if user < first + AHEAD:
                        queue(queues, SIN if nodes.op[user] == COS else nodes.op[user], user)
                    else:
                        n_later = push(heap, n_later, user)


WIDTH, COPY, SINCOS = 4, 0, 1
"""Numbers of an instruction beside its kind; kinds of instructions that are no operations."""


class Layout(NamedTuple):
    """Where values lie: ``place`` of each node (leaves have one already), and where some are to be (``goals``).

    Goals of node k are from ``goal_at[k]`` to ``goal_at[k + 1]``; ``stays``: whether others may not have its place.
    """

    place: Indices
    stays: Flags
    goal_at: Indices
    goals: Indices


class Slots(NamedTuple):
    """Places that are free, how many these are, and how many there are in all (2,)."""

    free: Indices
    number: Indices


@compiled
def take_place(layout: Layout, slots: Slots, k: int) -> None:
    """Give a node its first goal or else a free place."""
    if layout.goal_at[k] < layout.goal_at[k + 1]:
        layout.place[k] = layout.goals[layout.goal_at[k]]
    elif slots.number[0] > 0:
        slots.number[0] -= 1
        layout.place[k] = slots.free[slots.number[0]]
    else:
        layout.place[k] = slots.number[1]
        slots.number[1] += 1


@compiled
def lay_out(nodes: Nodes, layout: Layout, rows: Indices, unread: int, n_slots: int) -> tuple[int, int]:
    """Instructions in the order of the nodes (rows of kind, place, operands); their number, and that of all places.

    Both halves of a sine and cosine are made at once; what nothing reads of it goes to the place ``unread``.
    """
    n = nodes.op.shape[0]
    left, sines, cosines = np.zeros(n, np.int64), np.full(n, -1), np.full(n, -1)
    for k in range(n):
        if nodes.op[k] >= ADD:
            for i in range(3):
                x = operand(nodes, k, i)
                if x >= 0:
                    left[x] += 1
            a = nodes.a[k]
            if nodes.op[k] == SIN and sines[a] < 0:
                sines[a] = k
            if nodes.op[k] == COS and cosines[a] < 0:
                cosines[a] = k
    slots, made = Slots(np.empty(n + 1, np.int64), np.zeros(2, np.int64)), 0
    slots.number[1] = n_slots
    for k in range(n):
        op, a = nodes.op[k], nodes.a[k]
        if op < ADD:
            continue
        is_angle = op == SIN or op == COS
        for i in range(3):
            x = operand(nodes, k, i)
            rows[made, 2 + i] = layout.place[x] if x >= 0 else 0
        if is_angle and layout.place[k] < 0:
            sine, cosine = k if op == SIN else -1, k if op == COS else -1
            if (op == SIN and sines[a] == k) or (op == COS and cosines[a] == k):
                sine, cosine = sines[a], cosines[a]
            if sine >= 0:
                take_place(layout, slots, sine)
            if cosine >= 0:
                take_place(layout, slots, cosine)
            rows[made, 0], rows[made, 1] = SINCOS, layout.place[sine] if sine >= 0 else unread
            rows[made, 3] = layout.place[cosine] if cosine >= 0 else unread
            made += 1
        for i in range(3):
            x = operand(nodes, k, i)
            if x >= 0:
                left[x] -= 1
                if left[x] == 0 and not layout.stays[x]:
                    slots.free[slots.number[0]] = layout.place[x]
                    slots.number[0] += 1
        if not is_angle:
            take_place(layout, slots, k)
            rows[made, 0], rows[made, 1] = op, layout.place[k]
            made += 1
        for goal in range(layout.goal_at[k] + 1, layout.goal_at[k + 1]):
            rows[made, 0], rows[made, 1], rows[made, 2] = COPY, layout.goals[goal], layout.place[k]
            rows[made, 3], rows[made, 4] = 0, 0
            made += 1
    return made, slots.number[1]
