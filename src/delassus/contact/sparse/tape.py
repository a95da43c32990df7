"""What a step has solved, problem by problem, for its derivatives."""

from __future__ import annotations

from delassus.compiler.jit.compile import compiled
from delassus.contact.sparse.records import CONTACTS, ROWS, Data
from delassus.solvers.islands.cone import PATCH


@compiled
def begin_tape(data: Data) -> None:
    """Nothing is solved yet."""
    tape, state = data.progress.tape, data.state
    tape.number[0] = 0
    for c in range(state.q.size):
        tape.q[c] = state.q[c]
    for b in range(data.sleep.island.size):
        tape.asleep[b] = data.sleep.island[b]


@compiled
def record_problem(phase: int, data: Data) -> None:
    """The problem that the step is at, of a phase, and its solution."""
    tape, rows, progress = data.progress.tape, data.rows, data.progress.step
    k, m, total = tape.number[0], progress[CONTACTS], progress[ROWS]
    at = tape.ends[k]
    tape.phases[k], tape.number[0], tape.ends[k + 1] = phase, k + 1, at + total
    for i in range(total):
        tape.groups[at + i] = data.islands.contact[i] if i < m else m - i - 1
        for c in range(3):
            tape.numbers[at + i, c], tape.numbers[at + i, 3 + c] = rows.law.d[i, c], rows.r[i, c]
        tape.numbers[at + i, 6] = rows.law.friction_offset[i]
        for c in range(3 if data.contacts.angular.shape[1] > 0 else 0):
            tape.numbers[at + i, 7 + c] = rows.r[rows.law.partner[i], c] if rows.kind[i] == PATCH else 0.0
    for c in range(data.state.after.size):
        tape.after[k, c] = data.state.after[c]
        tape.impacts.kicks[k, c] = data.progress.bounces.kick[c]
        tape.impacts.leads[k, c] = data.progress.bounces.lead[c]
    for b in range(data.bodies.at.size):
        tape.parts[k, b], bounces = 1.0, data.progress.bounces
        impacts = tape.impacts
        impacts.times[k, b], impacts.falls[k, b] = bounces.times[b], bounces.falls[b]
        impacts.firsts[k, b], impacts.placed[k, b] = bounces.first[b], bounces.placed[b]


@compiled
def record_parts(data: Data) -> None:
    """The part of the decompression that islands have taken: ``work.V``."""
    tape, islands = data.progress.tape, data.islands
    for b in range(data.bodies.at.size):
        if islands.root[b] >= 0:
            tape.parts[tape.number[0] - 1, b] = data.work.V[islands.island[b]]
