"""Motion of blocks without constraints, and their positions after a step.

Blocks are evaluated by the kernels of their kinds. The motion of free bodies needs none: with the spatial inertia ``H``
and momentum ``H v`` in the axes of the start of the step, which do not turn, ``v* = v + dt (H⁻¹ τ + g)``. All positions
are those of `delassus.algorithms.dynamics.integrate.position_update`.
"""

from __future__ import annotations

import math

import numpy as np

from delassus.algorithms.contact.law import COMPLIANCE, CORRECTION_TOLERANCE, MOST_DISPLACEMENT, MOST_SLIDE, MOST_TURN
from delassus.compiler.jit.compile import compiled, inlined
from delassus.compiler.jit.memory import call_at, load
from delassus.contact.joint_contacts import STEPS_AHEAD
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.loops import aim_loop, call_kernel, close_gaps, close_loops, move_loop
from delassus.contact.sparse.records import ATTEMPT, CONTACTS, IMPACTS, BlockStates, Data, SceneModel
from delassus.contact.sparse.springs import add_springs, force_loops, pull_loops, push_stiff
from delassus.solvers.islands.cone import CONTACT, JOINT, OUT_OF_REACH, SPIN, gap_correction, limit_correction
from delassus.solvers.islands.factor import backward, cholesky, forward, invert
from delassus.solvers.islands.records import Bodies, StepOptions
from delassus.solvers.islands.sweeps import add_compliance, is_moved, sweep, velocity
from delassus.spatial.rotations import Array

SWEEPS = 1000
"""Most sweeps."""

LEAST_PIVOT = 1e-13
"""Pivot of a mass matrix over the usual inertia of its joint below which accelerations are not trusted."""


@inlined
def free_motion_of_links(begin: int, end: int, model: SceneModel, data: Data, options: StepOptions) -> None:
    """Poses, twists and ``target`` of free bodies among some links.

    At the start of a step also, in the order of the scene, poses of links and how far contacts are looked for.
    """
    bodies, state, gravity, dt = data.bodies, data.state, model.gravity, options.dt
    falls = dt * math.sqrt(gravity[0] * gravity[0] + gravity[1] * gravity[1] + gravity[2] * gravity[2])
    for link in range(begin, end):
        b, q, v, V, T = model.links.slot[link], state.q, state.v, state.twists, state.poses[model.links.slot[link]]
        if b < model.free[1]:
            at, f = 7 * b, 6 * b
            rotation_of(q[at + 3], q[at + 4], q[at + 5], q[at + 6], T)
            for r in range(3):
                T[r, 3] = q[at + r]
            for c in range(6):
                V[b, c] = v[f + c]
                state.qdd[f + c] = state.tau[f + c]
            forward(bodies.L, bodies.at[b], 6, state.qdd, f)
            backward(bodies.L, bodies.at[b], 6, state.qdd, f)
            for r in range(0 if is_moved(bodies, b) else 3):
                state.qdd[f + r] += T[0, r] * gravity[0] + T[1, r] * gravity[1] + T[2, r] * gravity[2]
            for c in range(f, f + 6):
                state.target[c] = v[c] + dt * state.qdd[c]
        if data.progress.step[IMPACTS] > 0:
            continue
        linear, angular = 0.0, 0.0
        for r in range(3):
            linear += V[b, r] * V[b, r]
            angular += V[b, 3 + r] * V[b, 3 + r]
            for c in range(4):
                data.links.poses[link, r, c] = T[r, c]
        ahead = STEPS_AHEAD * dt * (math.sqrt(linear) + model.size * math.sqrt(angular) + falls)
        before = data.links.reach[link] if data.progress.step[ATTEMPT] > 0 else 0.0
        data.links.reach[link] = max(ahead, before)


@compiled
def free_motion_of_robots(model: SceneModel, data: Data, options: StepOptions, with_springs: bool) -> tuple[bool, bool]:
    """Poses, twists, masses and ``target`` of robots; whether mass matrices are regular, and motions resolved.

    Masses are those that contacts see in a step, ``with_springs``, or in an instant.
    """
    bodies, state, motions, n = data.bodies, data.state, model.motions, model.free[1]
    for k in range(motions.shape[0]):
        call_kernel(motions[k], 0)
    if with_springs:
        add_springs(model.springs, data, options.dt)
    regular = True
    for b in range(n, bodies.at.size):
        at, m = bodies.at[b], bodies.first[b + 1] - bodies.first[b]
        for c in range(m * m):
            bodies.M[at + c] = bodies.L[at + c] = bodies.mass[at + c]
        pivot = 1.0 if cholesky(bodies.L, at, m) else 0.0
        for c in range(bodies.first[b], bodies.first[b + 1]):  # round-off of a singular mass moves nothing
            state.target[c] = state.v[c] + options.dt * state.qdd[c] if pivot > 0.0 else np.nan
        for c in range(m if pivot > 0.0 else 0):
            root = bodies.L[at + c * m + c]
            pivot = min(pivot, 1.0 / (root * root * bodies.usual[bodies.first[b] + c]))
        state.pivots[b - n], regular = pivot, regular and pivot >= LEAST_PIVOT
        if bodies.loop_rows[b] == 0:
            invert(bodies.L, at, m, bodies.inverse)
    if with_springs:
        push_stiff(model.springs, data)
    resolved, loops, motion, x = True, model.loops, model.loop_motion, data.work.K
    force_loops(model.springs, data, loops, motion)
    for k in range(loops.shape[0]):
        close_loops(bodies, state, loops[k], x)
        resolved = move_loop(motion, k) and resolved
        if with_springs and model.springs.block.size > 0 and model.springs.memory.stiff[loops[k, 0]] == 1:
            pull_loops(model.springs, data, loops[k], motion, options.dt, x)
        aim_loop(bodies, state, loops[k], x)
    return regular, resolved


@compiled
def take_mean_products(model: SceneModel, data: Data, options: StepOptions) -> None:
    """Let velocity products of the mean velocity of the step act on the ``target`` of robots.

    See `delassus.algorithms.contact.mean_products`. To those of the start they add ``−h/2 (∂c/∂v) y``, by two
    iterations for what velocities gain; nothing where nothing moves. Until the step ends, ``shift`` is free for gains,
    and ``next.v`` for those forces.
    """
    bodies, state, gains, begin = data.bodies, data.state, data.state.next.gains, data.bodies.first[model.free[1]]
    moves = False
    for c in range(begin, state.v.size):
        gains[0, c] = gains[1, c] = state.shift[c] = state.target[c] - state.v[c]
        state.next.v[c] = 0.0
        moves = moves or state.v[c] != 0.0
    lead_placed(data, 1.0)
    for turn in range(2 if moves else 0):
        for k in range(model.motions.shape[0]):
            if model.motions[k, 3] != 0:
                call_kernel(model.motions[k], 3)
        for b in range(model.free[1], bodies.at.size):
            f, m = bodies.first[b], bodies.first[b + 1] - bodies.first[b]
            for c in range(m if bodies.loop_rows[b] == 0 else 0):
                further, row = 0.0, bodies.at[b] + c * m
                for r in range(m):
                    further -= 0.5 * options.dt * bodies.inverse[row + r] * state.next.v[f + r]
                if turn == 0:
                    gains[1, f + c] = state.shift[f + c] = gains[0, f + c] + further
                else:
                    state.target[f + c] += further
    lead_placed(data, -1.0)


@inlined
def lead_placed(data: Data, sign: float) -> None:
    """Velocities of blocks that an impact has placed, from half a step behind to those after it, or back."""
    for c in range(data.state.v.size if data.progress.step[IMPACTS] > 0 else 0):
        data.state.v[c] += sign * data.progress.bounces.lead[c]


@compiled
def rotation_of(x: float, y: float, z: float, w: float, T: Array) -> None:
    """Rotation of a quaternion into a pose."""
    T[0, 0], T[0, 1], T[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)
    T[1, 0], T[1, 1], T[1, 2] = 2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)
    T[2, 0], T[2, 1], T[2, 2] = 2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)


@compiled
def start_correction(model: SceneModel, data: Data, options: StepOptions) -> None:
    """Displacement ``shift`` that takes back errors of loops, and how far each island is to be displaced."""
    bodies, state, islands, loops = data.bodies, data.state, data.islands, model.loops
    for c in range(state.shift.size):
        state.shift[c] = 0.0
    for k in range(islands.island[bodies.at.size]):
        islands.wanted[k] = 0.0
    for k in range(loops.shape[0]):
        b = loops[k, 0]
        if model.loop_motion.flags[k, 0] == 1.0:
            continue  # the smooth motion has taken them back
        most = close_gaps(bodies, state, loops[k], options.correction, data.work.K)
        if islands.root[b] >= 0:
            islands.wanted[islands.island[b]] = max(islands.wanted[islands.island[b]], most)
        else:
            data.work.graph.sizes[0] = b
            limit_displacement(bodies, data.work.graph.sizes, 0, 1, state.shift, 1.0, model.length)


@compiled
def correct_positions(k: int, model: SceneModel, data: Data, options: StepOptions) -> None:
    """Add to ``shift`` what takes back overlaps and passed limits of an island.

    It is found by sweeps over normals alone, which yield a little: a contact that can hardly move along its normal,
    such as of two neighbouring links that the joint between them cannot part, would otherwise throw the robot about. No
    contact point moves by more than `most_displacement` times the largest displacement wanted, and no joint by more
    than `most_turn` or `most_slide`. Turns of hinges count as far as they move what is at a length.
    """
    bodies, state, rows, contacts, joints = data.bodies, data.state, data.rows, data.contacts, data.joints
    dt, shift, islands, n_contacts = options.dt, data.state.shift, data.islands, data.progress.step[CONTACTS]
    begin, end, wanted = islands.member_ends[k], islands.member_ends[k + 1], islands.wanted[k]
    closed, accuracy = dt * options.tolerance, CORRECTION_TOLERANCE * dt * options.tolerance
    for m in range(begin, end):
        i = islands.members[m]
        e, moved, back = islands.contact[i], dt * velocity(bodies, rows, i, state.after)[2], 0.0
        if rows.kind[i] == SPIN:
            continue
        if data.progress.step[IMPACTS] > 0:
            moved += velocity(bodies, rows, i, data.progress.bounces.late)[2]
        if rows.kind[i] != JOINT:
            rows.kind[i] = CONTACT  # without friction
            moved += dt * contacts.turning[e, 2]
            back, least = gap_correction(-contacts.found.depths[e], moved, options.penetration, options.correction)
            rows.law.d[i, 2] = -least
        else:
            q = state.q[joints.coordinates[i - n_contacts]] + moved
            low = limit_correction(q - joints.lower[i - n_contacts], options.correction, closed)
            high = limit_correction(joints.upper[i - n_contacts] - q, options.correction, closed)
            rows.law.d[i, 0], rows.law.d[i, 1] = max(low[1], -OUT_OF_REACH), min(-high[1], OUT_OF_REACH)
            back = rows.law.unit[i] * max(low[0], high[0])
        wanted = max(wanted, abs(back))
    if wanted <= accuracy:
        return
    for m in range(begin, end):
        i = islands.members[m]
        rows.law.friction_offset[i] = rows.law.mu[i] = rows.r[i, 0] = rows.r[i, 1] = rows.r[i, 2] = 0.0
        if rows.kind[i] != SPIN:
            add_compliance(rows, i, COMPLIANCE)
    for _ in range(SWEEPS):
        if sweep(bodies, rows, islands, k, shift) <= accuracy:
            break
    farthest = 0.0
    for m in range(begin, end):
        i = islands.members[m]
        u = velocity(bodies, rows, i, shift)
        farthest = max(farthest, rows.law.unit[i] * max(abs(u[0]), max(abs(u[1]), abs(u[2]))))
    scale = min(1.0, MOST_DISPLACEMENT * wanted / farthest) if farthest > 0.0 else 1.0
    first, last = islands.node_ends[k], islands.node_ends[k + 1]
    limit_displacement(bodies, islands.nodes, first, last, shift, scale, model.length)


@compiled
def limit_displacement(
    bodies: Bodies, nodes: Indices, begin: int, end: int, shift: Array, scale: float, length: float
) -> None:
    """Scale the displacement of some blocks, and further where it is more than a step may move a joint."""
    most = 0.0
    for k in range(begin, end):
        for c in range(bodies.first[nodes[k]], bodies.first[nodes[k] + 1]):
            limit = MOST_TURN if bodies.turns[c] == 1 else MOST_SLIDE * length
            most = max(most, abs(scale * shift[c]) / limit)
    if most > 1.0:
        scale /= most
    for k in range(begin, end):
        for c in range(bodies.first[nodes[k]], bodies.first[nodes[k] + 1]):
            shift[c] *= scale


@compiled
def update_positions(updates: Indices) -> None:
    """``q`` and ``v`` of robots after a step with the velocities ``after``, displaced by ``shift``."""
    for k in range(updates.shape[0]):
        call_kernel(updates[k], 0)


@compiled
def integrate_positions(begin: int, end: int, state: BlockStates, free: Indices, asleep: Indices) -> None:
    """The same of some free bodies; what sleeps stays."""
    call_at(load(free[0]), free[2], begin, end - begin)
    for b in range(begin, end):
        if asleep[b] > 0:
            for k in range(7 * b, 7 * b + 7):
                state.next.q[k] = state.q[k]
            for k in range(6 * b, 6 * b + 6):
                state.next.v[k] = 0.0
