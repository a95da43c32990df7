"""Equations of a solved problem in the modes of its rows, transposed, for what counts its velocities and impulses.

The modes are those of `delassus.algorithms.contact.modes`, in the same text. Changes of velocities ``dv`` and impulses
``x`` of row groups follow from those of momentum and rows by ``M dv − (Bᵀ J)ᵀ x = ∂ρ``, ``C J dv + D x = ∂σ``. Of what
counts ``s`` for each velocity and ``r`` for each impulse, that is ``λᵀ ∂ρ + μᵀ ∂σ`` with

    M λ + (C J)ᵀ μ = s,    −Bᵀ J λ + D μ = r.

With ``D`` raised by ``δ`` of mobilities, ``μ`` is eliminated, and what ``δ`` changes is taken back by steps of
iterative refinement on the equations without it. Rows that depend on others share impulses as if all yielded alike: the
smallest ones. The matrix of each island is factorised sparsely (`delassus.solvers.islands.factor`).
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from delassus.algorithms.contact.modes import Mode, joint_hold, point_mode
from delassus.algorithms.contact.problem import JointLaw, PointLaw
from delassus.compiler.jit.compile import compiled
from delassus.contact.changes.blocks import BlockDiagonal
from delassus.contact.changes.contacts import ForceChanges, RowParts
from delassus.contact.changes.record import ProblemRecord
from delassus.contact.snapshot import Indices
from delassus.solvers.islands.factor import BlockGraph, analyse, factorise, substitute
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array

REFINEMENTS = 2
"""Steps that take back what ``δ`` changes: each leaves ``δ`` of it."""

UNIQUE = 1e-7
"""What a row may miss of its equation, over its terms: round-off over ``δ`` is 1e-8. More is missed where redundant
contacts slide in different directions: loads that move no normal, but friction with them, are any."""


def modes_of(
    friction: Array, floors: Array, impulses: Array, velocities: Array, mobilities: Array, smoothing: Any
) -> Mode:
    """Modes of contacts at friction coefficients (m,), impulses, velocities and mobilities of rows (m, r).

    One `Mode` of arrays: ``C`` and ``B`` (m, r, r), ``D`` and ``with_friction`` (m, r), ``with_floor`` (m,). Of steps
    with patches there are six rows, in units of their laws.
    """
    (m, r), own = impulses.shape, list(mobilities.T)
    problem: Any = SimpleNamespace(
        ops=NUMPY, pyramid=False, own_mobility=own, mobility=[sum(own[:3]) / 3.0], G=[[None] * 2 + [x] for x in own]
    )
    law = PointLaw(0, friction, np.zeros_like(friction), floor=floors, spins=range(3, r))
    arrays = list(impulses.T), list(velocities.T), np.ones_like(friction)
    found: Any = point_mode(problem, law, *arrays, smoothing)
    C, B = (np.broadcast_to(x, (m, r, r)) for x in (found.C, found.B))
    D, with_friction = (
        np.stack([np.broadcast_to(x, m) for x in own], axis=-1) for own in (found.D, found.with_friction)
    )
    made: Mode = found._replace(
        C=C, B=B, D=D, with_friction=with_friction, with_floor=np.broadcast_to(found.with_floor, m)
    )
    return made


def holds_of(
    law: JointLaw, impulses: Array, velocities: Array, mobility: Array, distances: Sequence[Array], over_h: float,
    smoothing: float | None,
) -> Any:  # fmt: skip
    """Holds of joints (k,) at ``distances`` from their limits, a `Hold` of arrays."""
    problem: Any = SimpleNamespace(ops=NUMPY, own_mobility=[mobility])
    return joint_hold(problem, law, impulses, velocities, distances, over_h, smoothing)


class Groups(NamedTuple):
    """Row groups. The group *i* is on the blocks ``a[i]`` and ``b[i]``, −1 for none.

    It has the rows ``first[i]`` to ``first[i + 1]``, whose entries begin at ``at_a[i]`` and ``at_b[i]`` in ``CJ`` and
    ``BJ``, row by row. ``D`` and ``raised`` are of rows.
    """

    first: Indices
    a: Indices
    b: Indices
    at_a: Indices
    at_b: Indices
    CJ: Array
    BJ: Array
    D: Array
    raised: Array


class Parts(NamedTuple):
    """Islands. The island *q* has the blocks ``nodes[node_ends[q]:node_ends[q + 1]]``, and likewise row groups.

    Block *i* has the degrees of freedom from ``first[i]`` on, and its mass matrix begins at ``at[i]``.
    """

    nodes: Indices
    node_ends: Indices
    members: Indices
    member_ends: Indices
    first: Indices
    at: Indices


class Unknowns(NamedTuple):
    """``velocities`` (n, k), what is missed of them, and ``impulses`` (r, k) of rows with their last change."""

    velocities: Array
    missed: Array
    impulses: Array
    step: Array


@compiled
def add_product(groups: Groups, i: int, first: Indices, A: Array, transposed: bool, x: Array, to: Array) -> None:
    """``to ← to + A x``, or ``to − Aᵀ x``, of the rows of a group."""
    k = x.shape[1]
    for side in range(2):
        block, at = (groups.a[i], groups.at_a[i]) if side == 0 else (groups.b[i], groups.at_b[i])
        if block < 0:
            continue
        f, w = first[block], first[block + 1] - first[block]
        for r in range(groups.first[i], groups.first[i + 1]):
            for c in range(w):
                entry = A[at + (r - groups.first[i]) * w + c]
                if entry != 0.0 and transposed:
                    for j in range(k):
                        to[f + c, j] -= entry * x[r, j]
                elif entry != 0.0:
                    for j in range(k):
                        to[r, j] += entry * x[f + c, j]


@compiled
def add_block(groups: Groups, i: int, s: int, t: int, first: Indices, graph: BlockGraph, n: int, V: Array) -> None:
    """Add ``(C J)ᵀ D⁻¹ Bᵀ J`` of two sides of a group to the matrix."""
    a, at = (groups.a[i], groups.at_a[i]) if s == 0 else (groups.b[i], groups.at_b[i])
    b, bt = (groups.a[i], groups.at_a[i]) if t == 0 else (groups.b[i], groups.at_b[i])
    if a < 0 or b < 0:
        return
    h, w = first[a + 1] - first[a], first[b + 1] - first[b]
    to = graph.where[graph.degree[graph.local[a]] * n + graph.degree[graph.local[b]]]
    for r in range(groups.first[i + 1] - groups.first[i]):
        over = 1.0 / groups.raised[groups.first[i] + r]
        for c in range(w):
            entry = over * groups.BJ[bt + r * w + c]
            if entry != 0.0:
                for d in range(h):
                    V[to + c * h + d] += groups.CJ[at + r * h + d] * entry


@compiled
def factorised(groups: Groups, parts: Parts, q: int, mass: Array, graph: BlockGraph, V: Array) -> int:
    """Factor the matrix of an island; how much of ``V`` it takes, or would, or −1 where it is singular."""
    begin, n, first = parts.node_ends[q], parts.node_ends[q + 1] - parts.node_ends[q], parts.first
    for i in range(n * n):
        graph.near[i] = 0
    for k in range(n):
        b = parts.nodes[begin + k]
        graph.local[b], graph.sizes[k] = k, first[b + 1] - first[b]
    for e in range(parts.member_ends[q], parts.member_ends[q + 1]):
        a, b = groups.a[parts.members[e]], groups.b[parts.members[e]]
        if a >= 0 and b >= 0 and a != b:
            i, j = graph.local[a], graph.local[b]
            graph.near[i * n + j] = graph.near[j * n + i] = 1
    room = analyse(n, graph)
    if room > V.size:
        return room
    for e in range(room):
        V[e] = 0.0
    f = 0 * n
    for p in range(n):
        b = parts.nodes[begin + graph.order[p]]
        w = graph.sizes[graph.order[p]]
        graph.size[p], graph.first[p] = w, f
        f += w
        for e in range(w * w):
            V[graph.where[p * n + p] + e] = mass[parts.at[b] + e]
    for e in range(parts.member_ends[q], parts.member_ends[q + 1]):
        for s in range(2):
            for t in range(2):
                add_block(groups, parts.members[e], s, t, first, graph, n, V)
    return room if factorise(n, graph, V) else -1


@compiled
def apply_inverse(parts: Parts, q: int, graph: BlockGraph, V: Array, x: Array, own: Array) -> None:
    """``x ← A⁻¹ x`` of an island, in the memory ``own``."""
    begin, n, k = parts.node_ends[q], parts.node_ends[q + 1] - parts.node_ends[q], x.shape[1]
    for p in range(n):
        f = parts.first[parts.nodes[begin + graph.order[p]]]
        for c in range(graph.size[p]):
            for j in range(k):
                own[(graph.first[p] + c) * k + j] = x[f + c, j]
    substitute(n, graph, V, own, k)
    for p in range(n):
        f = parts.first[parts.nodes[begin + graph.order[p]]]
        for c in range(graph.size[p]):
            for j in range(k):
                x[f + c, j] = own[(graph.first[p] + c) * k + j]


@compiled
def solve_transposed(
    groups: Groups, parts: Parts, mass: Array, graph: BlockGraph, V: Array, counts: Unknowns, x: Unknowns, own: Array
) -> int:
    """``λ`` and ``μ`` from what counts; how much of ``V`` that takes, or would, or −1 where a matrix is singular."""
    most, k, first = 0 * V.size, x.velocities.shape[1], parts.first
    for q in range(parts.node_ends.size - 1):
        room = factorised(groups, parts, q, mass, graph, V)
        if room < 0 or room > V.size:
            return room
        most = max(most, room)
        begin, end = parts.member_ends[q], parts.member_ends[q + 1]
        for sweep in range(REFINEMENTS + 1):
            for e in range(begin, end):
                i = parts.members[e]
                for r in range(groups.first[i], groups.first[i + 1]):
                    over, raised = 1.0 / groups.raised[r], groups.raised[r] - groups.D[r]
                    for j in range(k):
                        x.step[r, j] = over * (counts.impulses[r, j] if sweep == 0 else raised * x.step[r, j])
                        x.impulses[r, j] = x.step[r, j] + (0.0 if sweep == 0 else x.impulses[r, j])
            for p in range(parts.node_ends[q], parts.node_ends[q + 1]):
                b = parts.nodes[p]
                f, w = first[b], first[b + 1] - first[b]
                for c in range(w):
                    for j in range(k):
                        x.missed[f + c, j] = counts.velocities[f + c, j]
                    for d in range(w if sweep > 0 else 0):
                        for j in range(k):
                            x.missed[f + c, j] -= mass[parts.at[b] + c * w + d] * x.velocities[f + d, j]
            for e in range(begin, end):
                add_product(groups, parts.members[e], first, groups.CJ, True, x.impulses, x.missed)
            apply_inverse(parts, q, graph, V, x.missed, own)
            for e in range(begin, end):
                i = parts.members[e]
                for r in range(groups.first[i], groups.first[i + 1]):
                    for j in range(k):
                        x.impulses[r, j] -= x.step[r, j]
                        x.step[r, j] *= groups.raised[r]
                add_product(groups, i, first, groups.BJ, False, x.missed, x.step)
                for r in range(groups.first[i], groups.first[i + 1]):
                    for j in range(k):
                        x.step[r, j] /= groups.raised[r]
                        x.impulses[r, j] += x.step[r, j]
            for p in range(parts.node_ends[q], parts.node_ends[q + 1]):
                for c in range(first[parts.nodes[p]], first[parts.nodes[p] + 1]):
                    for j in range(k):
                        x.velocities[c, j] = x.missed[c, j] + (0.0 if sweep == 0 else x.velocities[c, j])
    return most


@compiled
def most_missed(groups: Groups, parts: Parts, mass: Array, counts: Unknowns, x: Unknowns) -> float:
    """What equations ``−Bᵀ J λ + D μ = r`` miss, over the largest of their terms for the same island and count.

    Of rows that hold nothing, ``C J = 0``, no ``μ`` counts; ``D`` may be less than ``δ`` there, and they miss anything.
    """
    worst, first = 0.0, parts.first
    for q in range(parts.node_ends.size - 1):
        for j in range(x.velocities.shape[1]):
            missed = size = 0.0
            for e in range(parts.member_ends[q], parts.member_ends[q + 1]):
                i = parts.members[e]
                for r in range(groups.first[i], groups.first[i + 1]):
                    own, held = abs(counts.impulses[r, j]) + abs(groups.D[r] * x.impulses[r, j]), 0.0
                    for side in range(2):
                        block, at = (groups.a[i], groups.at_a[i]) if side == 0 else (groups.b[i], groups.at_b[i])
                        w = first[block + 1] - first[block] if block >= 0 else 0
                        for c in range(w):
                            inertia, f = mass[parts.at[block] + c * w + c], first[block] + c
                            free = abs(counts.velocities[f, j]) / inertia if inertia > 0.0 else 0.0
                            own += abs(groups.BJ[at + (r - groups.first[i]) * w + c]) * (abs(x.velocities[f, j]) + free)
                            held = max(held, abs(groups.CJ[at + (r - groups.first[i]) * w + c]))
                    if held > 0.0:
                        missed = max(missed, abs((groups.raised[r] - groups.D[r]) * x.step[r, j]))
                    size = max(size, own)
            if size > 0.0:
                worst = max(worst, missed / size)
    return worst


class IslandResponse:
    """Solutions of what counts, with the memory for them; ``parts`` are the islands of all problems of a step.

    ``is_regular``: whether equations have been so regular that these solutions are unique.
    """

    def __init__(self, parts: Parts, mass: Array) -> None:
        n = int(np.diff(parts.node_ends).max(initial=0))
        self._parts, self._mass, self._V, self.is_regular = parts, mass, np.zeros(64), True
        sizes = n * n, n, n, n + 1, n * n + 1, n * n, n, n, n, len(parts.at)
        self._graph = BlockGraph(*[np.zeros(x, np.int64) for x in sizes])

    def solve(self, groups: Groups, velocities: Array, impulses: Array) -> tuple[Array, Array]:
        """``λ`` (n, k) and ``μ`` (r, k) from what counts of velocities and impulses."""
        counts = Unknowns(velocities, velocities, impulses, impulses)
        x = Unknowns(*(np.zeros_like(y) for y in counts))
        own = np.zeros(velocities.size)
        while True:
            room = solve_transposed(groups, self._parts, self._mass, self._graph, self._V, counts, x, own)
            if room <= len(self._V):
                break
            self._V = np.zeros(room)
        missed = most_missed(groups, self._parts, self._mass, counts, x) if room >= 0 else np.inf
        self.is_regular = self.is_regular and missed <= UNIQUE
        return x.velocities, x.impulses


class Solved(NamedTuple):
    """A problem of a step: row groups in their modes, and what it has of positions and of parameters.

    ``by_velocities`` are what rows have of velocities of the start, of contacts on paths and of those that turn, and
    wrenches of contacts on paths, None without; ``with_late`` what rows of the step have of displacements by impacts.
    ``of_friction`` is what momenta have of friction coefficients (one row); and of scales of spins what momenta
    (three rows) and rows (m, r, 3) have, None without.
    """

    problem: ProblemRecord
    groups: Groups
    measured: RowParts
    forces: ForceChanges
    lost: BlockDiagonal
    change: Array
    held: Array
    of_friction: tuple[RowParts, tuple[RowParts, Array] | None]
    with_floor: Array
    of_loops: list[Array]
    by_velocities: tuple[RowParts, RowParts | None] | None
    with_late: RowParts | None


class SolvedCorrection(NamedTuple):
    """The position correction: rows of normals and of joints, with positions and with velocities.

    And ``with_start`` of normals that turn, with velocities of the start.
    """

    groups: Groups
    with_q: RowParts
    with_v: RowParts
    with_start: RowParts | None
    joints_with_q: Array
    joints_with_v: Array
    joints_with_mobility: Array
    forces: ForceChanges
    lost: BlockDiagonal
    mobility: RowParts
    moved: Array
    of_loops: list[Array]
