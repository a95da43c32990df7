"""One time step of a scene by its blocks, whatever makes impulses of rows.

1. *Impacts* ([OS] section 7), where a contact with restitution closes faster than gravity would close it in two steps:
   compression stops all approach, decompression gives back ``ε`` of each normal impulse.
2. *Contact*: impulses over the step, without restitution. Gaps ``φ`` that may close in the step are contacts as well,
   ``u_n + φ / dt ≥ 0``: nothing passes into another body first. So are all limits of joints: those that are far away
   have no impulses.
3. *Drift*: what bodies overlap beyond a tolerance, loops gape, and joints are beyond their limits is taken back by a
   displacement of its own, without friction and without any change of velocity, so that it brings no kinetic energy.
"""

from __future__ import annotations

import math

from delassus.compiler.jit.compile import compiled, compiled_for, inlined
from delassus.compiler.jit.memory import call_at
from delassus.contact.collision.narrow_phase import find_near_pairs, number_contacts
from delassus.contact.collision.paths import CALM, bend_paths, find_overlaps
from delassus.contact.joint_contacts import STEPS_AHEAD
from delassus.contact.sparse.hits import end_placed, leave_springs_out, place_struck, start_behind, stop_tangents
from delassus.contact.sparse.impact import (
    COARSE_STEP,
    DONE,
    LOOPS_OPEN,
    REDUCED,
    ROUND_OFF,
    SINGULAR,
    UNSOLVED,
    add_joint_impulses,
    compress,
    decompress,
    end_impact,
    find_bounces,
    make_safe,
)
from delassus.contact.sparse.loops import add_smooth_motion, find_pushed, gains_energy, loops_open
from delassus.contact.sparse.motion import free_motion_of_robots, start_correction, take_mean_products, update_positions
from delassus.contact.sparse.parts import (
    CHOICE,
    CORRECTION,
    FILLING,
    FOLLOWING,
    FREE_MOTION,
    INTEGRATION,
    PLACING,
    SOLUTION,
    STEPS,
    STORING,
    TOUCHING,
    TURNING,
    UNPACKING,
    compute_part,
    paths_of,
    share,
)
from delassus.contact.sparse.records import (
    ATTEMPT,
    BOUNCES,
    COMPRESSION,
    CONTACTS,
    DECOMPRESSION,
    FOUND,
    IMPACTS,
    NOT_STRUCK,
    ROWS,
    SPINS,
    STATUS,
    STEP_FORWARD,
    Data,
    SceneModel,
)
from delassus.contact.sparse.rows import (
    find_islands,
    is_at_rest,
    normal_velocity,
    place_groups,
    prepare_group,
    set_limits,
    warm_start_joints,
)
from delassus.contact.sparse.sleep import fall_asleep, stop_sleeping, wake_touched
from delassus.contact.sparse.spins import START, lever, spin_rows
from delassus.contact.sparse.springs import move_stiff_loops
from delassus.contact.sparse.tape import begin_tape, record_parts, record_problem
from delassus.contact.sparse.turning import add_turning, any_turning, place_ahead
from delassus.solvers.islands.cone import JOINT, PATCH, SPIN
from delassus.solvers.islands.newton import TOO_SMALL
from delassus.solvers.islands.patches import prepare_patch
from delassus.solvers.islands.records import StepOptions
from delassus.solvers.linear import assign
from delassus.spatial.rotations import Array

MAX_ATTEMPTS = 8
"""Most times that a step is made, and most impacts in it, one after the other."""


REPEAT_STEP = -10
"""The step is to be made again, with contacts farther away."""


NO_ROOM, NO_FACTOR, NOT_FINITE, NO_ANSWER = -11, -12, -13, -14
"""Memory is too small for that many contacts; for the factor; velocities after the step are not finite; what is asked
for impulses in place of islands has failed."""


@compiled
def add_joint_groups(data: Data, dt: float, length: float, count: int, at: int) -> tuple[int, int]:
    """Row groups of limits and friction behind the others, whose Jacobians end at ``at``; how many, and where, then."""
    bodies, state, rows, joints, islands = data.bodies, data.state, data.rows, data.joints, data.islands
    for e in range(joints.dofs.size):
        dof, block = joints.dofs[e], joints.blocks[e]
        m = bodies.first[block + 1] - bodies.first[block]
        rows.a[count], rows.b[count], rows.at_a[count] = block, -1, at
        islands.contact[count] = -1
        rows.kind[count], rows.law.mu[count], rows.law.friction_offset[count] = JOINT, 0.0, dt * joints.forces[e]
        rows.law.unit[count] = length if bodies.turns[dof] == 1 else 1.0
        set_limits(rows, joints, count, e, state.q, dt, data.progress.bounces.late[dof])
        rows.law.turning[count, 0] = rows.law.turning[count, 1] = rows.law.turning[count, 2] = 0.0
        for k in range(m):
            rows.J[at + k] = 0.0
        rows.J[at + dof - bodies.first[block]] = 1.0
        prepare_group(bodies, rows, count, 0.0)
        at += m
        count += 1
    return count, at


@compiled
def add_spins(model: SceneModel, data: Data, count: int, at: int) -> int:
    """Row groups of spins behind the others, whose Jacobians end at ``at``; returns how many groups there are."""
    bodies, rows, contacts, found = data.bodies, data.rows, data.contacts, data.contacts.found
    for i in range(data.progress.step[CONTACTS]):
        e, j = data.islands.contact[i], count
        if found.torsional[e] == 0.0 and found.rolling[e] == 0.0:
            continue
        rows.kind[j], rows.a[j], rows.b[j], data.islands.contact[j] = SPIN, rows.a[i], rows.b[i], e
        rows.law.partner[i], rows.law.partner[j], count = j, i, count + 1
        for side in range(2):
            block = rows.a[i] if side == 0 else rows.b[i]
            if side == 0:
                rows.at_a[j] = at
            else:
                rows.at_b[j] = at
            if block >= 0:
                m = 3 * (bodies.first[block + 1] - bodies.first[block])
                for k in range(at, at + m):
                    rows.J[k] = 0.0
                at += m
        spin_rows(model.links, bodies, data.state.poses, rows, j, found, e)
        for c in range(3):
            rows.law.d[j, c] = rows.law.turning[j, c] = 0.0
        rows.law.mu[j], rows.law.friction_offset[j], rows.law.unit[j] = 0.0, 0.0, 1.0
        rows.guess[j] = rows.wrong[j] = 0.0
        prepare_group(bodies, rows, j, 0.0)
        if found.friction[e] == 0.0:
            stop_tangents(bodies, rows, i)
        rows.kind[i] = PATCH
        prepare_patch(bodies, rows, i)
        for c in range(3):
            length = lever(found, e, c)
            rows.r[j, c] = contacts.angular[START, e, c] / length if length > 0.0 else 0.0
    return count


@compiled
def find_twists(model: SceneModel, data: Data, v: Array, driven: Array) -> None:
    """Twists of links in the axes of the world, at the origins of their frames, from velocities of all blocks.

    Blocks that are ``tunnelling`` have the velocities that they are ``driven`` to.
    """
    links, poses, V = model.links, data.links.poses, data.links.twists
    for link in range(links.parents.size):
        parent, T = links.parents[link], poses[link]
        for c in range(6):
            V[link, c] = V[parent, c] if parent >= 0 else 0.0
        if parent >= 0:
            x, y, z = T[0, 3] - poses[parent, 0, 3], T[1, 3] - poses[parent, 1, 3], T[2, 3] - poses[parent, 2, 3]
            V[link, 0] += V[link, 4] * z - V[link, 5] * y
            V[link, 1] += V[link, 5] * x - V[link, 3] * z
            V[link, 2] += V[link, 3] * y - V[link, 4] * x
        is_driven = data.links.tunnelling[links.block[link]] > 0
        for k in range(links.first_dof[link], links.first_dof[link + 1]):
            a, speed = links.axes[k], driven[links.place[k]] if is_driven else v[links.place[k]]
            for c in range(3):
                V[link, c + 3 * (a // 3)] += T[c, a % 3] * speed
                if links.pitches[k] != 0.0:
                    V[link, c] += links.pitches[k] * T[c, a % 3] * speed


@compiled
def find_tunnelling(model: SceneModel, data: Data, options: StepOptions) -> bool:
    """Whether impulses make bodies pass others, beyond the tolerance, or may do so with others out of reach.

    Then these are ``tunnelling``, ``reach`` is that of the velocities after the step, and another attempt is made; not
    more than `MAX_ATTEMPTS` allows.
    """
    if data.progress.step[ATTEMPT] >= MAX_ATTEMPTS - 1:
        return False
    contacts, v, dt, found = data.contacts, data.state.after, options.dt, False
    links, V, reach, tunnelling = model.links, data.links.twists, data.links.reach, data.links.tunnelling
    find_twists(model, data, v, v)
    for link in range(reach.size):
        speed, turning = 0.0, 0.0
        for c in range(3):
            speed += V[link, c] * V[link, c]
            turning += V[link, 3 + c] * V[link, 3 + c]
        farthest = dt * (math.sqrt(speed) + model.size * math.sqrt(turning))
        if farthest > reach[link] + dt * options.tolerance:
            reach[link], tunnelling[links.block[link]], found = STEPS_AHEAD * farthest, 1, True
    for e in range(data.progress.step[FOUND]):
        if contacts.row[e] >= 0 or is_at_rest(model.links, data.sleep.island, contacts, e):
            continue
        moved = dt * normal_velocity(links, data.state.poses, contacts.found, e, v)
        if data.progress.step[IMPACTS] > 0:
            moved += normal_velocity(links, data.state.poses, contacts.found, e, data.progress.bounces.late)
        if moved - contacts.found.depths[e] < -dt * options.tolerance:
            found = True
            for side in range(2):
                if contacts.found.links[e, side] >= 0:
                    tunnelling[links.block[contacts.found.links[e, side]]] = 1
    if found:
        data.progress.step[ATTEMPT] += 1
    return found


@compiled
def begin_step(data: Data, n: int) -> None:
    """Nothing has acted yet; ``n`` contacts are found."""
    state, joints, bounces = data.state, data.joints, data.progress.bounces
    progress, statuses, report = data.progress.step, data.progress.statuses, data.progress.report
    progress[FOUND] = n
    for c in range(statuses.size):
        if c != SINGULAR and c != COARSE_STEP:
            statuses[c] = 0
    for c in range(report.size):
        report[c] = 0.0
    for c in range(state.v.size):
        joints.impulses[0, c] = joints.impulses[1, c] = bounces.late[c] = bounces.kick[c] = 0.0
        bounces.lead[c] = 0.0
    for b in range(data.bodies.at.size):
        bounces.last[b], bounces.source[b], bounces.base[b] = NOT_STRUCK, b, 0.0
    assign(data.progress.start, state.v)
    begin_tape(data)


@compiled
def contact_step(model: SceneModel, data: Data, options: StepOptions) -> int:
    """Make a step with the contacts that are found; returns `DONE`, or below 0 why there is no state after it."""
    pose_problem(model, data, options)
    while is_struck(data, options):
        status = strike(model, data, options)
        if status < DONE:
            return status
        pose_problem(model, data, options)
    take_mean_products(model, data, options)
    add_turning(data)
    warm_start_joints(data)
    status = solve(STEP_FORWARD, model, data, options)
    if status < DONE:
        return status
    if find_tunnelling(model, data, options):
        return REPEAT_STEP
    keep_impulses(status, model, data, options)
    start_correction(model, data, options)
    share(CORRECTION, data.islands.island[data.bodies.at.size], model, data, options)
    end_step(model, data, options)
    return DONE


@compiled
def pose_problem(model: SceneModel, data: Data, options: StepOptions) -> None:
    """Row groups of contacts and joints, and the islands that they make."""
    pairs, progress = data.space.counts[0], data.progress.step
    progress[BOUNCES] = 0
    share(CHOICE, pairs, model, data, options)
    m, at = place_groups(data)
    share(FILLING, pairs, model, data, options)
    total, end = add_joint_groups(data, options.dt, model.length, m, at)
    progress[CONTACTS], progress[ROWS] = m, total
    progress[SPINS] = add_spins(model, data, total, end) if data.contacts.angular.shape[1] > 0 else total
    find_islands(data.rows, data.islands, data.bodies.at.size, progress[SPINS])


@inlined
def is_struck(data: Data, options: StepOptions) -> bool:
    """Whether another impact follows."""
    progress = data.progress.step
    return progress[BOUNCES] == 1 and progress[IMPACTS] < MAX_ATTEMPTS and find_bounces(data, options)


@compiled
def strike(model: SceneModel, data: Data, options: StepOptions) -> int:
    """Make an impact, and the smooth motion after it: compression, decompression."""
    data.progress.step[IMPACTS] += 1
    if model.springs.block.size > 0:
        leave_springs_out(model, data, options)
    compress(data, options.dt)
    place_struck(model, data, options)
    squeezed = solve(COMPRESSION, model, data, options)
    if squeezed < DONE:
        return squeezed
    decompress(data)
    status = solve(DECOMPRESSION, model, data, options)
    if status < DONE:
        return status
    reduced = end_impact(data, options)
    record_parts(data)
    data.progress.statuses[squeezed] += 1
    data.progress.statuses[REDUCED if reduced and status == DONE else status] += 1
    smooth_motion(model, data, options)
    start_behind(data, options)
    return DONE


@compiled
def solve(phase: int, model: SceneModel, data: Data, options: StepOptions) -> int:
    """Impulses of row groups, and velocities ``after`` them; their status."""
    if options.asks == 0:
        status = solve_islands(model, data, options)
    else:
        data.progress.step[STATUS] = NO_ANSWER
        call_at(options.asks, phase)
        status = data.progress.step[STATUS]
        for k in range(data.islands.island[data.bodies.at.size] if status > DONE and status != ROUND_OFF else 0):
            make_safe(data.bodies, data.rows, data.islands, k, data.state)
    record_problem(phase, data)
    return status


@compiled
def find_contacts(model: SceneModel, data: Data, options: StepOptions) -> int:
    """As `narrow_phase.find_contacts`, with the impulses that they start from; `NO_ROOM` for too many."""
    links, data.space.counts[1] = data.links, 1
    find_twists(model, data, data.state.v, data.state.after)
    share(PLACING, model.colliders.shapes.shape[0], model, data, options)
    pairs = find_near_pairs(links.poses, links.reach, options.touching, model.margin, model.colliders, data.space)
    if pairs < 0:
        return pairs
    share(TOUCHING, pairs, model, data, options)
    walls = False
    for k in range(pairs):
        walls = walls or data.space.paths[k, 0] != CALM
    if walls:
        paths = paths_of(model, data, options)
        find_overlaps(pairs, paths)
        share(FOLLOWING, pairs, model, data, options)
        if bend_paths(pairs, paths):
            share(FOLLOWING, pairs, model, data, options)
    n = number_contacts(data.space)
    if n > data.contacts.row.size:
        return NO_ROOM
    share(UNPACKING, pairs, model, data, options)
    if any_turning(pairs, data):
        state = data.state
        for c in range(state.v.size):
            state.after[c], state.shift[c] = state.v[c], 0.0
        find_twists(model, data, state.v, state.v)  # not those of bent paths
        share(INTEGRATION, model.free[1], model, data, options)
        damped = False
        for b in range(model.free[1], data.bodies.at.size):
            damped = damped or data.bodies.alone[b] >= 0
        if damped:
            update_positions(model.updates)
        place_ahead(model, data, options.dt)
        share(TURNING, pairs, model, data, options)
    return n


@compiled
def solve_islands(model: SceneModel, data: Data, options: StepOptions) -> int:
    """Velocities ``after`` that impulses of row groups make of ``target``, island by island; the worst status.

    Impulses ``r`` are where the method starts. To ``report`` goes the largest residual, and the numbers of sweeps and
    factorisations are added.
    """
    worst, state, report, of_islands = DONE, data.state, data.progress.report, data.islands.report
    assign(state.after, state.target)
    n = data.islands.island[data.bodies.at.size]
    share(SOLUTION, n, model, data, options)
    for k in range(n):
        if of_islands[k, 0] == TOO_SMALL:
            return NO_FACTOR
        report[0] = max(report[0], of_islands[k, 0])
        report[1] += of_islands[k, 1]
        report[2] += of_islands[k, 2]
        if not of_islands[k, 0] <= options.tolerance:
            worst = UNSOLVED
    return worst


@compiled
def undo(data: Data) -> None:
    """Go back to the state of the start."""
    assign(data.state.q, data.progress.tape.q)
    assign(data.state.v, data.progress.start)


@compiled
def keep_impulses(status: int, model: SceneModel, data: Data, options: StepOptions) -> None:
    """Impulses of the step at contacts and joints, and its status, which counts where impulses act."""
    rows, joints, progress = data.rows, data.joints, data.progress.step
    acts = status != DONE
    for i in range(progress[ROWS]):
        acts = acts or rows.r[i, 0] != 0.0 or rows.r[i, 2] != 0.0
    if acts:
        data.progress.statuses[status] += 1
    share(STORING, progress[FOUND], model, data, options)
    data.contacts.before.number[0] = progress[FOUND]
    add_joint_impulses(rows, joints, progress[CONTACTS], progress[ROWS])
    for c in range(data.state.v.size):
        joints.before[0, c], joints.before[1, c] = joints.impulses[0, c], joints.impulses[1, c]
    find_pushed(rows, progress[ROWS], model.loops, model.loop_motion)


@compiled
def end_step(model: SceneModel, data: Data, options: StepOptions) -> None:
    """State after the step, from the velocities ``after`` its impulses and displacements."""
    bodies, state, statuses, hit = data.bodies, data.state, data.progress.statuses, data.progress.step[IMPACTS] > 0
    if hit:
        end_placed(data, options.dt)
    if not move_stiff_loops(model.springs, model.loops, model.loop_motion):
        statuses[COARSE_STEP] = 1
    add_smooth_motion(bodies, state, model.loops, model.loop_motion, options.dt)
    update_positions(model.updates)
    share(INTEGRATION, model.free[1], model, data, options)
    for b in range(bodies.at.size if hit else 0):
        data.progress.bounces.spans[b] = options.dt
    statuses[LOOPS_OPEN] = 1 if loops_open(state, model.loops, model.loop_motion) else 0
    if gains_energy(bodies, state, model.loops, model.loop_motion, options.dt, data.work.K, data.progress.bounces.last):
        statuses[COARSE_STEP] = 1


@compiled
def smooth_motion(model: SceneModel, data: Data, options: StepOptions) -> None:
    """Motion without contacts, none of what sleeps; statuses `SINGULAR` (masses) and `COARSE_STEP` (time step)."""
    regular, resolved = free_motion_of_robots(model, data, options, True)
    share(FREE_MOTION, model.links.slot.size, model, data, options)
    data.progress.statuses[SINGULAR] = 0 if regular else 1
    data.progress.statuses[COARSE_STEP] = 0 if resolved else 1
    stop_sleeping(data.bodies, data.state, data.sleep)


@compiled_for("time steps of scenes")
def run(part: int, begin: int, end: int, model: SceneModel, data: Data, options: StepOptions) -> tuple[int, int]:
    """`advance` by ``end`` steps, or a range of a part of one, see `parts`."""
    if part == STEPS:
        return advance(end, model, data, options)
    compute_part(part, begin, end, model, data, options)
    return end, DONE


@compiled
def advance(steps: int, model: SceneModel, data: Data, options: StepOptions) -> tuple[int, int]:
    """Make steps until one needs help from Python: returns their number, and `DONE` or the code of what is needed.

    No steps: contacts are found, and how many they are is returned.
    """
    done, state, tunnelling, progress = 0 * steps, data.state, data.links.tunnelling, data.progress
    while True:
        progress.step[IMPACTS] = 0
        smooth_motion(model, data, options)
        n = find_contacts(model, data, options)
        if n < 0:
            return done, n
        if steps == 0:
            return n, DONE
        if options.sleep > 0.0:
            wake_touched(model, data, options, n)
        begin_step(data, n)
        code = contact_step(model, data, options)
        if code < DONE:
            undo(data)
        if code == REPEAT_STEP:
            continue
        if code < DONE:
            return done, code
        for c in range(state.v.size):
            if not abs(state.next.v[c]) < math.inf:
                return done, NOT_FINITE
        if options.sleep > 0.0:
            fall_asleep(model, data, options)
        progress.step[ATTEMPT] = 0
        for b in range(tunnelling.size):
            tunnelling[b] = 0
        for c in range(progress.statuses.size):
            progress.totals[c] += progress.statuses[c]
        assign(state.q, state.next.q)
        assign(state.v, state.next.v)
        done += 1
        if done == steps:
            return done, DONE
