"""Impacts of a scene by its blocks, and the solution of a contact problem island by island."""

from __future__ import annotations

import math

from delassus.compiler.jit.compile import compiled, inlined
from delassus.contact.sparse.records import CONTACTS, ROWS, SPINS, BlockStates, Data, Joints
from delassus.contact.sparse.spins import add_spin_impulses
from delassus.solvers.islands.cone import (
    CONTACT,
    JOINT,
    OUT_OF_REACH,
    PATCH,
    impact,
    impact_time,
    passive_part,
    turns_alike,
)
from delassus.solvers.islands.newton import TOO_SMALL, solve_island
from delassus.solvers.islands.records import Bodies, Islands, RowGroups, StepOptions
from delassus.solvers.islands.sweeps import add_compliance, is_moved, push, velocity, work_on_moved
from delassus.spatial.rotations import Array

DONE, UNSOLVED, ROUND_OFF, REDUCED, SINGULAR, COARSE_STEP, LOOPS_OPEN = 0, 2, 4, 5, 6, 7, 8
"""Solved, or nothing to solve; not to the tolerance; solved but for rounding; solved, with less restitution than asked
for; a mass matrix is singular; the smooth motion is too fast for the step; loops gape: numbers of `STATUSES`."""

FREE = 6
"""Degrees of freedom of a free body."""

CROWD = 8
"""Bodies that touch one free body from which on they share its load."""

PROXIMAL_TERM = 1.0
"""Compliance of these about their last impulses in sweeps, over their mobility."""

MOST_GAIN = 0.1
"""Of the energy that impulses bring to what rests, the part up to which a gain is an error of the step."""

GAPE_TIME = 10.0
"""Time (s) in which velocities that are wrong by the tolerance open a contact by so much that it bears no more."""


@inlined
def solve_some(begin: int, end: int, data: Data, options: StepOptions) -> None:
    """Add to velocities ``after`` what impulses of some islands make; their reports: see `solve_islands`."""
    bodies, rows, islands, v = data.bodies, data.rows, data.islands, data.state.after
    for k in range(begin, end):
        report = islands.report[k]
        for e in range(islands.member_ends[k], islands.member_ends[k + 1]):
            i = islands.members[e]
            push(bodies, rows, i, rows.r[i, 0], rows.r[i, 1], rows.r[i, 2], v)
        report[1] = report[2] = 0.0
        if islands.member_ends[k + 1] - islands.member_ends[k] >= CROWD:
            share_loads(data, k, GAPE_TIME * options.tolerance / options.dt)
        report[0] = solve_island(bodies, rows, data.work, islands, k, v, options, report)
        if report[0] != TOO_SMALL and gains_by_turning(bodies, rows, islands, k, data.state):
            report[0] = solve_island(bodies, rows, data.work, islands, k, v, options, report)
        if report[0] != TOO_SMALL and not report[0] <= options.tolerance:
            make_safe(bodies, rows, islands, k, data.state)


@compiled
def gains_by_turning(bodies: Bodies, rows: RowGroups, islands: Islands, k: int, state: BlockStates) -> bool:
    """Whether impulses bring energy to an island because its contacts turn; then these do not turn any more.

    Impulses are zero, and velocities ``after`` those without, where that is so. What turns steadily gains none: from
    ``J v = κ`` to ``J v = −κ``.
    """
    turns, before, after = False, 0.0, 0.0
    for e in range(islands.member_ends[k], islands.member_ends[k + 1]):
        for c in range(3):
            turns = turns or rows.law.turning[islands.members[e], c] != 0.0
    if not turns:
        return False
    for e in range(islands.member_ends[k], islands.member_ends[k + 1]):
        i = islands.members[e]
        u, w = velocity(bodies, rows, i, state.target), velocity(bodies, rows, i, state.after)
        for c in range(3):
            belt = rows.law.d[i, c] - rows.law.turning[i, c] if rows.kind[i] != JOINT and c < 2 else 0.0
            before += 0.5 * rows.r[i, c] * (u[c] + belt)
            after += 0.5 * rows.r[i, c] * (w[c] + belt)
    if before + after <= MOST_GAIN * (after - before):
        return False
    for e in range(islands.member_ends[k], islands.member_ends[k + 1]):
        i = islands.members[e]
        for c in range(3):
            rows.law.d[i, c] -= rows.law.turning[i, c]
            rows.law.turning[i, c] = rows.r[i, c] = 0.0
    move(bodies, islands, k, 0.0, state.target, state.after)
    return True


@compiled
def share_loads(data: Data, k: int, gape: float) -> None:
    """Keep redundant loads where they are, in an island where a free body touches many others.

    Gaps of contacts that start with an impulse stay closed up to ``gape`` (m/s over the step): what opens within the
    tolerance would lose its load for good, as others bear it. In sweeps contacts of such a body have a proximal term, a
    compliance about their last impulses: else the first ones take most of a change, and over many steps all load of
    others.
    """
    first, rows, islands, count = data.bodies.first, data.rows, data.islands, data.work.graph.local
    begin, end, crowded = islands.member_ends[k], islands.member_ends[k + 1], False
    a = b = -1
    for e in range(islands.node_ends[k], islands.node_ends[k + 1]):
        count[islands.nodes[e]] = 0
    for e in range(begin, end):
        i = islands.members[e]
        if rows.kind[i] == CONTACT or rows.kind[i] == PATCH:
            for block in (rows.a[i], rows.b[i]):
                if block >= 0 and first[block + 1] - first[block] == FREE and (rows.a[i] != a or rows.b[i] != b):
                    count[block] += 1
                    crowded = crowded or count[block] >= CROWD
            a, b = rows.a[i], rows.b[i]  # contacts of two bodies follow each other
    for e in range(begin, end if crowded else begin):
        i, most = islands.members[e], 0
        if rows.kind[i] == CONTACT or rows.kind[i] == PATCH:
            for block in (rows.a[i], rows.b[i]):
                if block >= 0:
                    most = max(most, count[block])
            if rows.r[i, 2] > 0.0:
                turning = rows.law.turning[i, 2]
                rows.law.d[i, 2] = max(rows.law.d[i, 2] - turning - gape, 0.0) + turning
        if most >= CROWD:
            add_compliance(rows, i, PROXIMAL_TERM)
            rows.law.R[i] = 0.0


@compiled
def energy_terms(bodies: Bodies, rows: RowGroups, islands: Islands, k: int, v: Array, w: Array) -> tuple[float, float]:
    """Coefficients of ``s`` and ``s²`` in the kinetic energy that an island gains from ``v`` to ``v + s (w − v)``.

    What impulses take from moving surfaces and bodies that the user moves, or give to them, is not counted: it is
    energy relative to these.
    """
    linear, square = 0.0, 0.0
    for e in range(islands.member_ends[k], islands.member_ends[k + 1]):
        i = islands.members[e]
        for c in range(2):
            linear += rows.r[i, c] * (rows.law.d[i, c] - rows.law.turning[i, c])
        linear += work_on_moved(bodies, rows, i, rows.r[i, 0], rows.r[i, 1], rows.r[i, 2], v)
    for e in range(islands.node_ends[k], islands.node_ends[k + 1]):
        f, at = bodies.first[islands.nodes[e]], bodies.at[islands.nodes[e]]
        m = bodies.first[islands.nodes[e] + 1] - f
        for c in range(m):
            momentum = 0.0
            for r in range(m):
                momentum += bodies.mass[at + c * m + r] * (w[f + r] - v[f + r])
            linear += momentum * v[f + c]
            square += 0.5 * momentum * (w[f + c] - v[f + c])
    return linear, square


@compiled
def move(bodies: Bodies, islands: Islands, k: int, s: float, v: Array, w: Array) -> float:
    """``w ← v + s (w − v)`` on an island; the largest change of a velocity."""
    most = 0.0
    if s == 1.0:
        return most
    for e in range(islands.node_ends[k], islands.node_ends[k + 1]):
        for c in range(bodies.first[islands.nodes[e]], bodies.first[islands.nodes[e] + 1]):
            most = max(most, abs((1.0 - s) * (w[c] - v[c])))
            w[c] = v[c] + s * (w[c] - v[c]) if s > 0.0 else v[c]
    return most


@compiled
def make_safe(bodies: Bodies, rows: RowGroups, islands: Islands, k: int, state: BlockStates) -> None:
    """Scale the impulses of an island that is not solved, so that they add no kinetic energy to that of ``target``.

    They stay in their cones, which are convex and hold zero. Of a solution, all is left: it takes energy.
    """
    linear, square = energy_terms(bodies, rows, islands, k, state.target, state.after)
    s = passive_part(linear, square, 0.0)
    move(bodies, islands, k, s, state.target, state.after)
    for e in range(islands.member_ends[k], islands.member_ends[k + 1]):
        i = islands.members[e]
        for c in range(3):
            rows.r[i, c] = s * rows.r[i, c] if s > 0.0 else 0.0


@compiled
def find_falling(data: Data, options: StepOptions) -> None:
    """Find the blocks that nothing holds; ``after`` becomes the velocity by which the step moves them without contacts.

    It is that of now of blocks with loops, of bodies that the user moves, and of those that would move into what they
    touch: they rest on it.
    """
    bodies, state, rows, contacts, falls = (
        data.bodies, data.state, data.rows, data.contacts, data.progress.bounces.falls,
    )  # fmt: skip
    closed, n_contacts = options.dt * options.tolerance, data.progress.step[CONTACTS]
    changed = True
    for b in range(bodies.at.size):
        falls[b] = 1.0 if bodies.loop_rows[b] == 0 and not is_moved(bodies, b) else 0.0
        for c in range(bodies.first[b], bodies.first[b + 1]):
            state.after[c] = state.target[c] if falls[b] == 1.0 else state.v[c]
    while changed:
        changed = False
        for i in range(data.progress.step[ROWS]):
            e, d = data.islands.contact[i], rows.law.d[i]
            u = velocity(bodies, rows, i, state.after)[2]
            holds = (d[0] >= 0.0 and u < -options.tolerance) or (d[1] <= 0.0 and u > options.tolerance)
            if i < n_contacts:
                holds = -contacts.found.depths[e] <= closed and u < -options.tolerance
                if holds and contacts.found.restitution[e] > 0.0:
                    holds = velocity(bodies, rows, i, state.v)[2] >= -options.resting
            for b in (rows.a[i], rows.b[i]):
                if holds and b >= 0 and falls[b] == 1.0:
                    falls[b], changed = 0.0, True
                    for c in range(bodies.first[b], bodies.first[b + 1]):
                        state.after[c] = state.v[c]


@compiled
def find_bounces(data: Data, options: StepOptions) -> bool:
    """Whether anything bounces; if so, blocks that this strikes, and when.

    ``wrong`` becomes 1 where a contact hits, 2 where it bounces. All that contacts tie that hit is struck at one time,
    when the first of them bounces, and not before an earlier impact; with blocks with loops, the start of the step.
    Blocks are ``placed`` where they are then (`delassus.contact.sparse.hits`), but for a free body and the world.
    """
    bodies, state, rows, found, b = data.bodies, data.state, data.rows, data.contacts.found, data.progress.bounces
    n_contacts, any_bounces, changed = data.progress.step[CONTACTS], False, True
    find_falling(data, options)
    for k in range(bodies.at.size):
        b.times[k], b.first[k] = math.inf, -1
    for i in range(n_contacts):
        e, rate = data.islands.contact[i], rows.law.d[i, 2]
        approach, reached = velocity(bodies, rows, i, state.v)[2], velocity(bodies, rows, i, state.after)[2]
        hits, bounces = impact(rate, approach, reached, found.restitution[e], options.tolerance, options.resting)
        rows.wrong[i] = hits + bounces
        if bounces > 0.0:
            t, any_bounces = impact_time(rate, approach, reached, options.dt), True
            for block in (rows.a[i], rows.b[i]):
                if block >= 0 and t < b.times[block]:
                    b.times[block], b.first[block] = t, e
    while any_bounces and changed:
        changed = False
        for i in range(n_contacts):
            k, j = rows.a[i], rows.b[i]
            if rows.wrong[i] > 0.0 and (b.early[k] == 1 or (j >= 0 and b.early[j] == 1)):
                for block in (k, j):
                    if block >= 0 and 0.0 < b.times[block] < math.inf:
                        b.times[block], changed = 0.0, True
            if rows.wrong[i] > 0.0 and j >= 0 and b.times[k] != b.times[j]:
                if b.times[j] < b.times[k]:
                    k, j = j, k
                b.times[j], b.first[j], changed = b.times[k], b.first[k], True
            if rows.wrong[i] > 0.0 and j >= 0 and b.last[k] != b.last[j]:
                if b.last[j] < b.last[k]:
                    k, j = j, k
                b.last[k], b.source[k], changed = b.last[j], b.source[j], True
    for k in range(bodies.at.size):
        b.placed[k] = 0
        if b.times[k] < b.last[k]:
            b.times[k], b.first[k] = b.last[k], -1 - b.source[k]
    for i in range(n_contacts if any_bounces else 0):
        if rows.wrong[i] > 0.0 and (rows.b[i] >= 0 or bodies.alone[rows.a[i]] < 0):
            for block in (rows.a[i], rows.b[i]):
                if block >= 0 and 0.0 < b.times[block] < math.inf:
                    b.placed[block] = 1
    return any_bounces


@compiled
def compress(data: Data, dt: float) -> None:
    """Problem of compression, at the time of the impact: contacts that hit stop approaching.

    Velocities are half a step behind, so that those at the time ``t`` have ``dt / 2 + t`` of the acceleration more.
    What is not struck is left alone.
    """
    rows, bounces, state, first = data.rows, data.progress.bounces, data.state, data.bodies.first
    n_contacts, n = data.progress.step[CONTACTS], data.progress.step[ROWS]
    for b in range(data.bodies.at.size):
        part = 0.5 + bounces.times[b] / dt if bounces.times[b] < math.inf else 0.0
        for c in range(first[b], first[b + 1]):
            bounces.kick[c] = part * (state.after[c] - state.v[c])
            state.target[c] = state.v[c] + bounces.kick[c]
    for i in range(n):
        if not bounces.times[rows.a[i]] < math.inf:
            rows.law.d[i, 0], rows.law.d[i, 1] = -OUT_OF_REACH, OUT_OF_REACH
            rows.law.d[i, 2] = OUT_OF_REACH if i < n_contacts else 0.0
        elif i < n_contacts:
            rows.law.d[i, 2] = 0.0 if rows.wrong[i] > 0.0 else OUT_OF_REACH
        rows.law.friction_offset[i] = 0.0
    for i in range(data.progress.step[SPINS]):
        rows.r[i, 0] = rows.r[i, 1] = rows.r[i, 2] = 0.0


@compiled
def decompress(data: Data) -> None:
    """Problem of decompression, from the solution of that of compression, on the same cones.

    ``ϑ = ε r_n`` of each normal impulse is given back ([OS] eqs. 54 to 58), and friction is up to ``μ (r_n + ϑ)``.
    """
    bodies, state, rows, contacts, islands = data.bodies, data.state, data.rows, data.contacts, data.islands
    squeezed, n_contacts, n = data.progress.squeezed, data.progress.step[CONTACTS], data.progress.step[ROWS]
    add_joint_impulses(rows, data.joints, n_contacts, n)
    for k in range(islands.island[bodies.at.size]):
        linear, square = energy_terms(bodies, rows, islands, k, state.target, state.after)
        islands.lost[k] = max(-(linear + square), 0.0)
    for c in range(squeezed.size):
        squeezed[c] = state.target[c] = state.after[c]
    for i in range(n):
        if i < n_contacts:
            e = islands.contact[i]
            given_back = contacts.found.restitution[e] * rows.r[i, 2]
            for c in range(3):
                contacts.impulses[e, c] += rows.r[i, c]
            contacts.sustained[e, 2] = given_back
            rows.law.friction_offset[i] = rows.law.mu[i] * given_back
            push(bodies, rows, i, 0.0, 0.0, given_back, state.target)
    add_spin_impulses(data, n)
    for i in range(data.progress.step[SPINS]):
        rows.r[i, 0] = rows.r[i, 1] = rows.r[i, 2] = 0.0


@inlined
def gain(data: Data, c: int) -> float:
    """Velocity that an impact has given to a degree of freedom."""
    return float(data.state.after[c] - (data.state.v[c] + data.progress.bounces.kick[c]))


@inlined
def has_one_inertia(H: Array, at: int) -> bool:
    """Whether a free body with the mass matrix at that place has the same inertia about all axes (`turns_alike`)."""
    c = H[at + 11] / H[at], H[at + 15] / H[at], H[at + 4] / H[at]
    about = H[at + 21], H[at + 28], H[at + 35], H[at + 22], H[at + 23], H[at + 29]
    return turns_alike(H[at], c, about) == 1.0


@compiled
def end_impact(data: Data, options: StepOptions) -> bool:
    """Velocities ``v`` after decompression, of which the part is taken that brings no more energy than there was.

    They are half a step behind again, but those of blocks that are ``placed``. Free bodies move in this step by the
    velocity after the impact, from the start on: they are displaced by as much as it is later, those whose energy
    depends on how they are turned with their centres of mass alone. Returns whether what is left out changes a velocity
    by more than the tolerance.
    """
    bodies, state, rows, contacts, islands = data.bodies, data.state, data.rows, data.contacts, data.islands
    work, reduced, n_contacts, n = data.work, False, data.progress.step[CONTACTS], data.progress.step[ROWS]
    for k in range(islands.island[bodies.at.size]):
        linear, square = energy_terms(bodies, rows, islands, k, data.progress.squeezed, state.after)
        for j in range(islands.member_ends[k], islands.member_ends[k + 1]):
            i = islands.members[j]
            if i < n_contacts:  # what is given back, too
                back = contacts.sustained[islands.contact[i], 2]
                linear += work_on_moved(bodies, rows, i, 0.0, 0.0, back, data.progress.squeezed)
        s = passive_part(linear, square, islands.lost[k])
        reduced = move(bodies, islands, k, s, data.progress.squeezed, state.after) > options.tolerance or reduced
        work.V[k] = s
    bounces = data.progress.bounces
    for b in range(bodies.at.size):
        t = bounces.times[b]
        if t < math.inf:
            bounces.last[b], bounces.source[b], f, H, at = t, b, bodies.first[b], bodies.mass, bodies.at[b]
            placed = bounces.placed[b] == 1
            is_late = bodies.alone[b] >= 0 and t > 0.0 and not placed and not is_moved(bodies, b)
            alike = is_late and has_one_inertia(H, at)
            for i in range(6 if alike else 3 if is_late else 0):
                j, k = (i + 1) % 3, (i + 2) % 3
                moved = H[at] * gain(data, f + i)
                if not alike:  # that of the centre of mass
                    moved += (
                        gain(data, f + 3 + j) * H[at + 6 * i + 3 + j] - gain(data, f + 3 + k) * H[at + 6 * k + 3 + i]
                    )
                bounces.late[f + i] -= t * moved / H[at]
            for c in range(f, bodies.first[b + 1]):
                state.v[c] = state.after[c] - bounces.kick[c]
    for i in range(n):
        e, s = islands.contact[i], work.V[islands.island[rows.a[i]]]
        for c in range(3):
            rows.r[i, c] *= s
            if i < n_contacts:
                contacts.impulses[e, c] += rows.r[i, c]
        if i < n_contacts:
            contacts.impulses[e, 2] += s * contacts.sustained[e, 2]
            contacts.sustained[e, 2] = 0.0
    for j in range(n, data.progress.step[SPINS]):
        for c in range(3):
            rows.r[j, c] *= work.V[islands.island[rows.a[j]]]
    add_spin_impulses(data, n)
    add_joint_impulses(rows, data.joints, n_contacts, n)
    return reduced


@compiled
def add_joint_impulses(rows: RowGroups, joints: Joints, begin: int, end: int) -> None:
    """Add impulses of limits and of friction to those on degrees of freedom."""
    for i in range(begin, end):
        dof, of_friction = (
            joints.dofs[i - begin],
            min(max(rows.r[i, 2], -rows.law.friction_offset[i]), rows.law.friction_offset[i]),
        )
        joints.impulses[0, dof] += rows.r[i, 2] - of_friction
        joints.impulses[1, dof] += of_friction
