"""Where bodies are when an impact strikes them: impulses act there, with the masses and rows of that time.

A block that an impact of the time ``t`` strikes is placed at ``q_t``, where it is then without contacts, with the
velocity ``w₀`` in the axes that it has there. It stays there: the rest of the step starts from ``q_t`` and the velocity
``w`` after the impact, with forces of ``q_t``. Over the step it is displaced by ``h v⁺ − t w + t² a / 2``: where the
step would end that started where ``w`` leads back to. Bodies on their own turn by their momentum over ``h − t``, so
that no turn changes their energy.
"""

from __future__ import annotations

import math

from delassus.compiler.jit.compile import compiled, inlined
from delassus.constraints.shapes.turning import SAME_SIDE
from delassus.contact.collision.colliders import LINK, ContactArrays, Solid
from delassus.contact.collision.narrow_phase import most_gap, touch, write_frame
from delassus.contact.collision.vectors import (
    Vector,
    along,
    column,
    dot,
    in_frame,
    in_world,
    point_at,
    row_of,
    scaled,
)
from delassus.contact.sparse.motion import (
    free_motion_of_links,
    free_motion_of_robots,
    integrate_positions,
    update_positions,
)
from delassus.contact.sparse.records import CONTACTS, IMPACTS, SPINS, Data, HitTape, SceneModel
from delassus.contact.sparse.rows import contact_rows, normal_velocity, prepare_group, set_limits
from delassus.contact.sparse.spins import spin_rows
from delassus.solvers.islands.cone import PATCH, SPIN
from delassus.solvers.islands.patches import prepare_patch
from delassus.solvers.islands.records import Bodies, RowGroups, StepOptions


@inlined
def is_placed(data: Data, b: int) -> bool:
    """Whether the impact of now strikes a block where it is then; −1 is the world."""
    return b >= 0 and data.progress.bounces.placed[b] == 1


@compiled
def leave_springs_out(model: SceneModel, data: Data, options: StepOptions) -> None:
    """Masses of an instant, in which springs do nothing, and row groups with these."""
    free_motion_of_robots(model, data, options, False)
    for i in range(data.progress.step[SPINS]):
        prepare_group(data.bodies, data.rows, i, 0.0)
    for i in range(data.progress.step[CONTACTS]):
        if data.rows.kind[i] == PATCH:
            prepare_patch(data.bodies, data.rows, i)


@compiled
def place_struck(model: SceneModel, data: Data, options: StepOptions) -> None:
    """Place blocks where the impact strikes them; ``target`` and ``v`` are velocities before it then.

    Their contacts are those of these places.
    """
    bodies, state, bounces, dt, some, robots = data.bodies, data.state, data.progress.bounces, options.dt, False, False
    hit, number = data.progress.tape.hit, data.progress.step[IMPACTS] - 1
    for b in range(bodies.at.size):
        t, placed, before = bounces.times[b], is_placed(data, b), bounces.base[b]
        some, robots = some or placed, robots or (placed and b >= model.free[1])
        for c in range(bodies.first[b], bodies.first[b + 1]):
            state.after[c], state.shift[c] = state.target[c], 0.0
            if placed:
                acceleration = bounces.kick[c] / (0.5 * dt + t)
                state.shift[c] = bounces.late[c] + before * state.target[c] - 0.5 * t * t * acceleration
    if not some:
        return
    for b in range(bodies.at.size):
        bounces.spans[b] = bounces.times[b] - bounces.base[b] if is_placed(data, b) else 0.0
    if robots:
        update_positions(model.updates)
    if model.free[1] > 0:
        integrate_positions(0, model.free[1], state, model.free, data.sleep.island)
    for b in range(bodies.at.size):
        t, placed = bounces.times[b], is_placed(data, b)
        for c in range(model.links.coordinates[b], model.links.coordinates[b + 1] if placed else 0):
            state.q[c] = hit.q[number, c] = state.next.q[c]
        for c in range(bodies.first[b], bodies.first[b + 1]):
            if placed:
                state.v[c] = hit.v[number, c] = state.next.v[c]
                hit.kick[number, c] = bounces.kick[c]
                state.shift[c] = bounces.late[c] + t * state.v[c] - 0.5 * t * t * bounces.kick[c] / (0.5 * dt + t)
                bounces.kick[c] = bounces.late[c] = 0.0
        if placed:
            bounces.base[b] = t
        bounces.spans[b] = dt
    if robots:
        free_motion_of_robots(model, data, options, False)
    for link in range(model.links.parents.size):
        b = model.links.block[link]
        if is_placed(data, b) and b < model.free[1]:
            free_motion_of_links(link, link + 1, model, data, options)
    for c in range(state.v.size):
        state.target[c] = state.v[c] + bounces.kick[c]
    keep_contacts(data.contacts.found, hit, number, data.space.ends[data.space.counts[0]])
    for pair in range(data.space.counts[0]):
        place_contacts(pair, model, data, options)
    rows = data.rows
    for i in range(data.progress.step[CONTACTS], data.progress.step[SPINS]):
        if is_placed(data, rows.a[i]) or is_placed(data, rows.b[i]):
            if rows.kind[i] == SPIN:
                clear_rows(bodies, rows, i)
                spin_rows(model.links, bodies, state.poses, rows, i, data.contacts.found, data.islands.contact[i])
            else:
                set_limits(rows, data.joints, i, i - data.progress.step[CONTACTS], state.q, dt, 0.0)
            prepare_group(bodies, rows, i, 0.0)
    for i in range(data.progress.step[CONTACTS]):
        if rows.kind[i] == PATCH:
            prepare_patch(bodies, rows, i)


@inlined
def keep_contacts(found: ContactArrays, to: HitTape, i: int, n: int) -> None:
    """Where the first ``n`` contacts are before impact ``i`` places blocks."""
    for e in range(n):
        to.depths[i, e] = found.depths[e]
        for r in range(2):
            to.surface_velocities[i, e, r] = found.surface_velocities[e, r]
        for r in range(3):
            to.points[i, e, r] = found.points[e, r]
            for c in range(3):
                to.frames[i, e, r, c] = found.frames[e, r, c]


@compiled
def stop_tangents(bodies: Bodies, rows: RowGroups, i: int) -> None:
    """No rows of tangents for a contact without Coulomb's friction; the cone of its spin has ``μ = 1``."""
    rows.law.mu[i], rows.law.d[i, 0], rows.law.d[i, 1] = 1.0, 0.0, 0.0
    rows.r[i, 0] = rows.r[i, 1] = 0.0
    for side in range(2):
        block, at = (rows.a[i], rows.at_a[i]) if side == 0 else (rows.b[i], rows.at_b[i])
        if block >= 0:
            for k in range(at, at + 2 * (bodies.first[block + 1] - bodies.first[block])):
                rows.J[k] = 0.0
    prepare_group(bodies, rows, i, 0.0)


@compiled
def clear_rows(bodies: Bodies, rows: RowGroups, i: int) -> None:
    """No Jacobian of a group of three rows."""
    for side in range(2):
        block, at = (rows.a[i], rows.at_a[i]) if side == 0 else (rows.b[i], rows.at_b[i])
        if block >= 0:
            for k in range(at, at + 3 * (bodies.first[block + 1] - bodies.first[block])):
                rows.J[k] = 0.0


@compiled
def place_contacts(pair: int, model: SceneModel, data: Data, options: StepOptions) -> None:
    """Contacts of a near pair where their blocks are placed; those that hit are found again."""
    space, rows, contacts, found, poses = data.space, data.rows, data.contacts, data.contacts.found, data.state.poses
    first, count, placed = space.ends[pair], -1, False
    for side in range(2 if first < space.ends[pair + 1] else 0):
        link = found.links[first, side]
        placed = placed or (link >= 0 and is_placed(data, model.links.block[link]))
    for e in range(first, space.ends[pair + 1] if placed else 0):
        i, nearest, x = contacts.row[e], -1, carried_point(e, model, data)
        hits = i >= 0 and rows.wrong[i] > 0.0
        if hits:
            count = touch_at_impact(pair, model, data, options) if count < 0 else count
            nearest = same_at_impact(e, count, x, data)
        if nearest >= 0:
            own = space.work.later[nearest]
            belt = along(scaled(found.surface_velocities[e, 0], column(found.frames[e], 0)),
                         found.surface_velocities[e, 1], column(found.frames[e], 1))  # fmt: skip
            write_frame(found, e, (own[4], own[5], own[6]), belt)
            x = own[1], own[2], own[3]
        found.points[e, 0], found.points[e, 1], found.points[e, 2] = x
        if nearest >= 0:
            found.depths[e] = space.work.later[nearest, 7]
        else:
            found.depths[e] -= normal_velocity(model.links, poses, found, e, data.state.shift)
        if hits:
            rows.law.d[i, 0], rows.law.d[i, 1] = found.surface_velocities[e, 0], found.surface_velocities[e, 1]
            contact_rows(model.links, data.bodies, model.free[1], poses, rows, i, found, e)
            if rows.kind[i] == PATCH and found.friction[e] == 0.0:
                stop_tangents(data.bodies, rows, i)
            else:
                prepare_group(data.bodies, rows, i, 0.0)


@compiled
def carried_point(e: int, model: SceneModel, data: Data) -> Vector:
    """Midway between where both bodies of a contact carry its point, from the start of the step."""
    found, x = data.contacts.found, (0.0, 0.0, 0.0)
    for side in range(2):
        link, own = found.links[e, side], row_of(found.points, e)
        if link >= 0:
            T = data.links.poses[link]
            own = point_at(data.state.poses[model.links.slot[link]], in_frame(T, along(own, -1.0, column(T, 3))))
        x = along(x, 0.5, own)
    return x


@compiled
def touch_at_impact(pair: int, model: SceneModel, data: Data, options: StepOptions) -> int:
    """Contacts of a pair at the impact, in ``later``; returns how many."""
    space, colliders = data.space, model.colliders
    for side in range(2):
        c = space.pairs[pair, side]
        link, pose = int(colliders.shapes[c, LINK]), space.work.poses[side]
        for axis in range(4):
            x = column(space.world[c], axis)
            if link >= 0:
                T = data.state.poses[model.links.slot[link]]
                x = in_world(T, column(colliders.local[c], axis))
                if axis == 3:
                    x = along(x, 1.0, column(T, 3))
            pose[0, axis], pose[1, axis], pose[2, axis] = x
    i, j = space.pairs[pair, 0], space.pairs[pair, 1]
    most = most_gap(i, j, data.links.reach, options.touching, colliders)
    a, b = Solid(colliders.shapes[i], space.work.poses[0]), Solid(colliders.shapes[j], space.work.poses[1])
    return int(touch(a, b, most, colliders, space.work, space.work.later, 0))


@compiled
def same_at_impact(e: int, count: int, x: Vector, data: Data) -> int:
    """Which of ``count`` contacts at the impact is contact ``e``: the nearest to where it is carried; −1 is none."""
    later, n, nearest, least = data.space.work.later, column(data.contacts.found.frames[e], 2), -1, math.inf
    for r in range(count):
        d, to = along((later[r, 1], later[r, 2], later[r, 3]), -1.0, x), (later[r, 4], later[r, 5], later[r, 6])
        if dot(n, to) > SAME_SIDE and dot(d, d) < least:
            nearest, least = r, dot(d, d)
    return nearest


@compiled
def start_behind(data: Data, options: StepOptions) -> None:
    """Velocities ``v`` and ``target`` of blocks that were placed, from those after the impact to half a step behind.

    ``lead`` is what they lose: velocity products are those of the velocity after the impact.
    """
    bodies, state, bounces, dt = data.bodies, data.state, data.progress.bounces, options.dt
    for b in range(bodies.at.size):
        if is_placed(data, b):
            t = bounces.times[b]
            for c in range(bodies.first[b], bodies.first[b + 1]):
                gained = bounces.falls[b] * (state.target[c] - state.v[c])
                bounces.late[c] = -t * (state.v[c] - 0.5 * t * gained / dt)
                bounces.lead[c] = (0.5 + t / dt) * gained
                state.v[c] -= bounces.lead[c]
                state.target[c] -= bounces.lead[c]
            bounces.placed[b] = 0


@compiled
def end_placed(data: Data, dt: float) -> None:
    """Times and displacements by which blocks are moved from where impacts have placed them."""
    bodies, state, bounces = data.bodies, data.state, data.progress.bounces
    for b in range(bodies.at.size):
        bounces.spans[b] = dt - bounces.base[b]
        for c in range(bodies.first[b], bodies.first[b + 1]):
            state.shift[c] += bounces.late[c] + bounces.base[b] * state.after[c]
