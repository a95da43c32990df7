"""One time step of a scene by its blocks: impact, contact, position correction, as `delassus.simulate.step` has them.

All limits of joints take part in every step, ``u + φ / dt ≥ 0``: those that are far away have no impulses.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from delassus.algorithms.contact.step import TUNING as STEP
from delassus.compiler.jit.compile import compiled
from delassus.contact.collision.narrow_phase import find_contacts
from delassus.contact.joint_contacts import LIMIT_TOLERANCE, STEPS_AHEAD
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.cone import CONTACT, JOINT, OUT_OF_REACH
from delassus.contact.sparse.flow import add_smooth_motion, gains_energy, is_pushed, loops_open
from delassus.contact.sparse.impact import (
    COARSE_STEP,
    DONE,
    LOOPS_OPEN,
    SINGULAR,
    add_joint_impulses,
    has_impact,
    impact,
    solve_all,
)
from delassus.contact.sparse.loops import close_gaps
from delassus.contact.sparse.motion import free_motion, integrate_positions
from delassus.contact.sparse.newton import TOO_SMALL
from delassus.contact.sparse.records import (
    Bodies,
    Contacts,
    Flow,
    Islands,
    Joints,
    Model,
    Options,
    Rows,
    Scratch,
    State,
    Work,
)
from delassus.contact.sparse.rows import add_compliance, contact_rows, prepare_group
from delassus.contact.sparse.sleep import fall_asleep, is_at_rest, stop_sleeping, wake_touched
from delassus.contact.sparse.sweeps import sweep, velocity
from delassus.spatial.rotations import Array


class Tuning(NamedTuple):
    """Numbers of `contact_step`."""

    correction_sweeps: int = 20
    """Most sweeps of the position correction."""
    correction_accuracy: float = 1e-2
    """Accuracy of the position correction, over the largest displacement wanted."""
    max_attempts: int = 8
    """Most times that a step is made, and most impacts in it, one after the other."""
    closed_fraction: float = 0.005
    """Contacts are closed whose gaps are below this fraction of what gravity may close in a step."""


TUNING = Tuning()


REPEAT_STEP = -10
"""The step is to be made again, with contacts farther away."""


NO_ROOM, NO_FACTOR, NOT_FINITE = -11, -12, -13
"""Memory is too small for that many contacts; for the factor; velocities after the step are not finite."""


@compiled
def activation_gap(model: Model, options: Options) -> float:
    """Gap (m) up to which contacts take part: bodies that fall together touch once something holds one of them."""
    g, dt = model.gravity, options.dt
    fall = dt * math.sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2])
    return options.touching + STEPS_AHEAD * dt * (fall + options.tolerance)


@compiled
def add_contact_groups(
    model: Model, bodies: Bodies, state: State, rows: Rows, contacts: Contacts, islands: Islands,
    scratch: Scratch, options: Options, n: int,
) -> tuple[int, int]:  # fmt: skip
    """Row groups of the contacts that are closed, and of those that may close: how many, and where Jacobians end.

    Every contact is taken of blocks that are ``tunnelling`` by impulses, none of bodies that sleep.
    """
    count, at, dt, tunnelling, margin = 0, 0, options.dt, scratch.tunnelling, activation_gap(model, options)
    closed = options.touching + TUNING.closed_fraction * (margin - options.touching)
    for e in range(n):
        contacts.row[e] = -1
        if is_at_rest(model.links, scratch.sleep.island, contacts, e):
            continue
        end = contact_rows(model.links, bodies, state.poses, rows, count, at, contacts.found, e)
        gap = -contacts.found.depths[e]
        free = tunnelling[rows.a[count]] == 0 and (rows.b[count] < 0 or tunnelling[rows.b[count]] == 0) and gap > margin
        if free and gap + STEPS_AHEAD * dt * velocity(bodies, rows, count, state.target)[2] >= 0.0:
            continue
        rows.d[count, 0] = contacts.found.surface_velocities[e, 0]
        rows.d[count, 1] = contacts.found.surface_velocities[e, 1]
        rows.d[count, 2] = gap / dt if gap > closed else 0.0
        rows.mu[count], rows.friction_offset[count] = contacts.found.friction[e], 0.0
        prepare_group(bodies, rows, count, 0.0)
        contacts.row[e], islands.contact[count] = count, e
        count += 1
        at = end
    return count, at


@compiled
def add_joint_groups(
    bodies: Bodies, state: State, rows: Rows, joints: Joints, islands: Islands, dt: float, count: int, at: int
) -> int:
    """Row groups of limits and friction behind the others, whose Jacobians end at ``at``; returns how many."""
    for e in range(joints.dofs.size):
        dof, block, q = joints.dofs[e], joints.blocks[e], state.q[joints.coordinates[e]]
        m = bodies.first[block + 1] - bodies.first[block]
        rows.a[count], rows.b[count], rows.at_a[count] = block, -1, at
        islands.contact[count] = -1
        rows.kind[count], rows.mu[count], rows.friction_offset[count] = JOINT, 0.0, dt * joints.forces[e]
        rows.d[count, 0] = max(-max(q - joints.lower[e], 0.0) / dt, -OUT_OF_REACH)
        rows.d[count, 1], rows.d[count, 2] = min(max(joints.multiply_by_transpose[e] - q, 0.0) / dt, OUT_OF_REACH), 0.0
        for k in range(m):
            rows.J[at + k] = 0.0
        rows.J[at + dof - bodies.first[block]] = 1.0
        prepare_group(bodies, rows, count, 0.0)
        at += m
        count += 1
    return count


@compiled
def correct_positions(
    bodies: Bodies, state: State, rows: Rows, contacts: Contacts, joints: Joints, islands: Islands, loops: Indices,
    flow: Flow, work: Work, options: Options, n_contacts: int, n: int,
) -> None:  # fmt: skip
    """Displacement ``shift`` that takes back overlaps, loop errors and passed limits; see `delassus.simulate.step`.

    Island by island, by sweeps over normals alone, which yield a little.
    """
    dt, shift, wanted = options.dt, state.shift, work.V
    for b in range(bodies.at.size):
        wanted[b] = 0.0  # of islands
    for k in range(loops.shape[0]):
        b = loops[k, 0]
        if flow.found[k, 0] == 1 and not is_pushed(bodies, state, b):
            continue  # the smooth motion has taken them back
        most = close_gaps(bodies, state, loops[k], options.correction, work.K)
        if islands.root[b] >= 0:
            wanted[islands.island[b]] = max(wanted[islands.island[b]], most)
        else:
            work.sizes[0] = b
            limit_displacement(bodies, work.sizes, 0, 1, shift, 1.0)
    for i in range(n):
        e, moved = islands.contact[i], dt * velocity(bodies, rows, i, state.after)[2]
        back, k = 0.0, islands.island[rows.a[i]]
        if rows.kind[i] == CONTACT:
            back = options.correction * min(options.penetration - contacts.found.depths[e], 0.0)
            rows.d[i, 2] = back + max(moved - contacts.found.depths[e], 0.0)
        else:
            q = state.q[joints.coordinates[i - n_contacts]] + moved
            below, above = joints.lower[i - n_contacts] - q, q - joints.multiply_by_transpose[i - n_contacts]
            back = options.correction * max(below, above) if max(below, above) > LIMIT_TOLERANCE else 0.0
            rows.d[i, 0] = back if below > LIMIT_TOLERANCE else max(min(below, 0.0), -OUT_OF_REACH)
            rows.d[i, 1] = -back if above > LIMIT_TOLERANCE else min(max(-above, 0.0), OUT_OF_REACH)
        wanted[k] = max(wanted[k], abs(back))
    for k in range(islands.island[bodies.at.size]):
        if wanted[k] == 0.0:
            continue
        begin, end, farthest = islands.member_ends[k], islands.member_ends[k + 1], 0.0
        for e in range(begin, end):
            i = islands.members[e]
            rows.friction_offset[i] = rows.mu[i] = rows.r[i, 0] = rows.r[i, 1] = rows.r[i, 2] = 0.0
            add_compliance(rows, i, STEP.compliance)
        for _ in range(TUNING.correction_sweeps):
            if sweep(bodies, rows, islands.members, begin, end, shift) <= TUNING.correction_accuracy * wanted[k]:
                break
        for e in range(begin, end):
            u = velocity(bodies, rows, islands.members[e], shift)
            farthest = max(farthest, max(abs(u[0]), max(abs(u[1]), abs(u[2]))))
        scale = min(1.0, STEP.most_displacement * wanted[k] / farthest) if farthest > 0.0 else 1.0
        limit_displacement(bodies, islands.nodes, islands.node_ends[k], islands.node_ends[k + 1], shift, scale)


@compiled
def limit_displacement(bodies: Bodies, nodes: Indices, begin: int, end: int, shift: Array, scale: float) -> None:
    """Scale the displacement of some blocks, and further where it is more than a step may move a joint."""
    most = 0.0
    for k in range(begin, end):
        for c in range(bodies.first[nodes[k]], bodies.first[nodes[k] + 1]):
            most = max(most, abs(scale * shift[c]))
    if most > STEP.most_joint_displacement:
        scale *= STEP.most_joint_displacement / most
    for k in range(begin, end):
        for c in range(bodies.first[nodes[k]], bodies.first[nodes[k] + 1]):
            shift[c] *= scale


@compiled
def find_tunnelling(model: Model, state: State, contacts: Contacts, scratch: Scratch, options: Options, n: int) -> bool:
    """Whether impulses make bodies pass others, by more than `penetration`, or may do so with others out of reach.

    Then these are ``tunnelling``, and ``reach`` is that of the velocities after the step.
    """
    links, poses, V, v, dt, found = model.links, scratch.poses, scratch.moves, state.after, options.dt, False
    tunnelling = scratch.tunnelling
    for link in range(scratch.reach.size):  # twists in the axes of the world
        parent, T, speed, turning = links.parents[link], poses[link], 0.0, 0.0
        for c in range(6):
            V[link, c] = V[parent, c] if parent >= 0 else 0.0
        if parent >= 0:
            x, y, z = T[0, 3] - poses[parent, 0, 3], T[1, 3] - poses[parent, 1, 3], T[2, 3] - poses[parent, 2, 3]
            V[link, 0] += V[link, 4] * z - V[link, 5] * y
            V[link, 1] += V[link, 5] * x - V[link, 3] * z
            V[link, 2] += V[link, 3] * y - V[link, 4] * x
        for k in range(links.first_dof[link], links.first_dof[link + 1]):
            a = links.axes[k]
            for c in range(3):
                V[link, c + 3 * (a // 3)] += T[c, a % 3] * v[links.place[k]]
        for c in range(3):
            speed += V[link, c] * V[link, c]
            turning += V[link, 3 + c] * V[link, 3 + c]
        farthest = dt * (math.sqrt(speed) + model.size * math.sqrt(turning))
        if farthest > scratch.reach[link] + options.penetration:
            scratch.reach[link], tunnelling[links.block[link]], found = STEPS_AHEAD * farthest, 1, True
    for e in range(n):
        if contacts.row[e] >= 0 or is_at_rest(model.links, scratch.sleep.island, contacts, e):
            continue
        gap, moved = -contacts.found.depths[e], 0.0
        for side in range(2):
            link = contacts.found.links[e, side]
            if link < 0:
                continue
            point, frame, T = contacts.found.points[e], contacts.found.frames[e], poses[link]
            x, y, z = point[0] - T[0, 3], point[1] - T[1, 3], point[2] - T[2, 3]
            u = frame[0, 2] * (V[link, 0] + V[link, 4] * z - V[link, 5] * y)
            u += frame[1, 2] * (V[link, 1] + V[link, 5] * x - V[link, 3] * z)
            u += frame[2, 2] * (V[link, 2] + V[link, 3] * y - V[link, 4] * x)
            moved += (1.0 - 2.0 * side) * dt * u
        if gap + moved < -options.penetration:
            found = True
            for side in range(2):
                if contacts.found.links[e, side] >= 0:
                    tunnelling[links.block[contacts.found.links[e, side]]] = 1
    return found


@compiled
def contact_step(
    model: Model, bodies: Bodies, state: State, rows: Rows, contacts: Contacts, joints: Joints, scratch: Scratch,
    options: Options, n: int,
) -> int:  # fmt: skip
    """Compute the state after the step from the result of `free_motion` and ``n`` contacts.

    `TOO_SMALL`, `REPEAT_STEP`: nothing is done.
    """
    work, islands, statuses, report = scratch.work, scratch.islands, scratch.statuses, scratch.report
    for c in range(SINGULAR):
        statuses[c] = 0
    for c in range(report.size):
        report[c] = 0.0
    for e in range(n):
        for c in range(3):
            contacts.impulses[e, c] = contacts.sustained[e, c] = 0.0
    for c in range(state.v.size):
        joints.impulses[0, c] = joints.impulses[1, c] = 0.0
        work.start_v[c] = state.v[c]
    m, at = add_contact_groups(model, bodies, state, rows, contacts, islands, scratch, options, n)
    total = add_joint_groups(bodies, state, rows, joints, islands, options.dt, m, at)
    impacts = 0
    while impacts < TUNING.max_attempts and has_impact(bodies, state, rows, contacts, islands, options, m):
        impacts += 1
        if impact(bodies, state, rows, contacts, joints, scratch, options, m, total) == TOO_SMALL:
            for c in range(state.v.size):
                state.v[c] = work.start_v[c]
            return TOO_SMALL
        smooth_motion(model, bodies, state, scratch, options)
        stop_sleeping(bodies, state, scratch.sleep)
        for e in range(n):
            contacts.sustained[e, 2] = 0.0
        m, at = add_contact_groups(model, bodies, state, rows, contacts, islands, scratch, options, n)
        total = add_joint_groups(bodies, state, rows, joints, islands, options.dt, m, at)
    for i in range(m):
        e, rows.guess[i] = islands.contact[i], 0.0
        for c in range(3):
            rows.r[i, c] = contacts.start[e, c]
    warm_start_joints(rows, joints, m, total)
    status = solve_all(bodies, rows, islands, work, total, state.target, state.after, options, report)
    again = status != TOO_SMALL and scratch.attempt[0] < TUNING.max_attempts - 1
    if again and find_tunnelling(model, state, contacts, scratch, options, n):
        scratch.attempt[0] += 1
        status = REPEAT_STEP
    if status == TOO_SMALL or status == REPEAT_STEP:
        for c in range(state.v.size):
            state.v[c] = work.start_v[c]
        return status
    acts = status != DONE
    for i in range(total):
        acts = acts or rows.r[i, 0] != 0.0 or rows.r[i, 2] != 0.0
    if acts:
        statuses[status] += 1
    for i in range(m):
        e = islands.contact[i]
        for c in range(3):
            contacts.sustained[e, c] = rows.r[i, c]
            contacts.impulses[e, c] += rows.r[i, c]
    for e in range(n):
        if is_at_rest(model.links, scratch.sleep.island, contacts, e):
            for c in range(3):
                contacts.sustained[e, c] = contacts.impulses[e, c] = contacts.start[e, c]
    add_joint_impulses(rows, joints, m, total)
    for c in range(state.shift.size):
        state.shift[c] = 0.0
    correct_positions(bodies, state, rows, contacts, joints, islands, model.loops, model.flow, work, options, m, total)
    add_smooth_motion(bodies, state, model.flow, model.loops, options.dt)
    integrate_positions(bodies, model.free, state, model.updates, scratch.sleep.island, options.dt)
    statuses[LOOPS_OPEN] = 1 if loops_open(state, model.flow, model.loops) else 0
    if gains_energy(bodies, state, model.flow, model.loops, options.dt):
        statuses[COARSE_STEP] = 1
    return DONE


@compiled
def warm_start_joints(rows: Rows, joints: Joints, begin: int, end: int) -> None:
    """Impulses of limits and of friction where a solver may start: those of the step before."""
    for i in range(begin, end):
        dof = joints.dofs[i - begin]
        rows.r[i, 2] = joints.before[0, dof] + joints.before[1, dof]


@compiled
def warm_start_contacts(contacts: Contacts, n: int) -> None:
    """``start`` of each contact: the impulse of the nearest one of the same pair in the step before, or none.

    Contacts come in the order of their pairs, so that two lists are gone through once.
    """
    found, begin, count = contacts.found, 0, contacts.number[0]
    for k in range(count):
        contacts.used[k] = 0
    for e in range(n):
        low, high = min(found.colliders[e, 0], found.colliders[e, 1]), max(found.colliders[e, 0], found.colliders[e, 1])
        for c in range(3):
            contacts.start[e, c] = 0.0
        while begin < count:
            i, j = contacts.colliders[begin, 0], contacts.colliders[begin, 1]
            if min(i, j) < low or (min(i, j) == low and max(i, j) < high):
                begin += 1
            else:
                break
        nearest, least, k = -1, math.inf, begin
        while k < count:
            i, j = contacts.colliders[k, 0], contacts.colliders[k, 1]
            if min(i, j) != low or max(i, j) != high:
                break
            if contacts.used[k] == 0:
                distance = 0.0
                for c in range(3):
                    distance += (contacts.points[k, c] - found.points[e, c]) ** 2
                if distance < least:
                    nearest, least = k, distance
            k += 1
        if nearest >= 0:
            contacts.used[nearest] = 1
            for a in range(3):
                p = 0.0
                for c in range(3):
                    p += contacts.frames[nearest, a, c] * contacts.before[nearest, c]
                for c in range(3):
                    contacts.start[e, c] += found.frames[e, a, c] * p


@compiled
def store_warm_start(contacts: Contacts, joints: Joints, n: int) -> None:
    """Keep contacts and impulses for the next step."""
    found = contacts.found
    contacts.number[0] = n
    for e in range(n):
        contacts.colliders[e, 0], contacts.colliders[e, 1] = found.colliders[e, 0], found.colliders[e, 1]
        for a in range(3):
            contacts.points[e, a], contacts.before[e, a] = found.points[e, a], contacts.sustained[e, a]
            for c in range(3):
                contacts.frames[e, a, c] = found.frames[e, a, c]
    for c in range(joints.before.shape[1]):
        joints.before[0, c], joints.before[1, c] = joints.impulses[0, c], joints.impulses[1, c]


@compiled
def smooth_motion(model: Model, bodies: Bodies, state: State, scratch: Scratch, options: Options) -> None:
    """Motion without contacts; sets the statuses `SINGULAR` (masses) and `COARSE_STEP` (time step)."""
    regular, resolved = free_motion(
        bodies, model.free, state, model.motions, model.loops, model.flow, model.gravity, options.dt,
        options.correction, scratch.work.K,
    )  # fmt: skip
    scratch.statuses[SINGULAR] = 0 if regular else 1
    scratch.statuses[COARSE_STEP] = 0 if resolved else 1


@compiled
def evaluate(model: Model, bodies: Bodies, state: State, scratch: Scratch, options: Options) -> None:
    """Motion without contacts; in the order of the scene, poses of links and how far contacts are looked for."""
    smooth_motion(model, bodies, state, scratch, options)
    stop_sleeping(bodies, state, scratch.sleep)
    falls = options.dt * math.sqrt(model.gravity[0] ** 2 + model.gravity[1] ** 2 + model.gravity[2] ** 2)
    for link in range(scratch.reach.size):
        slot = model.links.slot[link]
        V, linear, angular = state.twists, 0.0, 0.0
        for c in range(3):
            linear += V[slot, c] * V[slot, c]
            angular += V[slot, 3 + c] * V[slot, 3 + c]
            for d in range(4):
                scratch.poses[link, c, d] = state.poses[slot, c, d]
        speed = math.sqrt(linear) + model.size * math.sqrt(angular) + falls
        reach = STEPS_AHEAD * options.dt * speed
        scratch.reach[link] = max(reach, scratch.reach[link]) if scratch.attempt[0] > 0 else reach


@compiled
def advance(
    steps: int,
    given: int,
    model: Model,
    bodies: Bodies,
    state: State,
    rows: Rows,
    contacts: Contacts,
    joints: Joints,
    scratch: Scratch,
    options: Options,
) -> tuple[int, int]:
    """Make steps until one needs help from Python: returns their number, and `DONE` or the code of what is needed.

    Of the first step, ``given`` contacts are found already; −1: none are. No steps: contacts are found, and how many
    they are is returned.
    """
    n, done = given, 0 * given
    while True:
        if n < 0:
            evaluate(model, bodies, state, scratch, options)
            n = find_contacts(
                scratch.poses, scratch.reach, options.touching, model.margin, model.colliders, scratch.space,
                contacts.found,
            )  # fmt: skip
            if n < 0:
                return done, n
        if n > contacts.row.size:
            return done, NO_ROOM
        if steps == 0:
            return n, DONE
        if options.sleep > 0.0:
            near = activation_gap(model, options)
            wake_touched(model, bodies, state, rows, contacts, scratch.sleep, options, near, n)
        warm_start_contacts(contacts, n)
        code = contact_step(model, bodies, state, rows, contacts, joints, scratch, options, n)
        if code == TOO_SMALL:
            return done, NO_FACTOR
        if code == REPEAT_STEP:
            n = -1
            continue
        for c in range(state.v.size):
            if not abs(state.v_next[c]) < math.inf:
                return done, NOT_FINITE
        if options.sleep > 0.0:
            n_free, size, memory = model.free.mass.size, model.size, scratch.work.V
            fall_asleep(bodies, state, scratch.islands, scratch.sleep, n_free, size, options, memory)
        store_warm_start(contacts, joints, n)
        if scratch.attempt[0] > 0:
            scratch.attempt[0] = 0
            for c in range(scratch.tunnelling.size):
                scratch.tunnelling[c] = 0
        for c in range(scratch.statuses.size):
            scratch.totals[c] += scratch.statuses[c]
        for c in range(state.q.size):
            state.q[c] = state.q_next[c]
        for c in range(state.v.size):
            state.v[c] = state.v_next[c]
        n = -1
        done += 1
        if done == steps:
            return done, DONE
