"""Row groups of contacts on blocks of bodies, the islands that they make, and impulses of the step before."""

from __future__ import annotations

import math

from delassus.algorithms.osim.least_squares import UNMOVED
from delassus.compiler.jit.compile import compiled, inlined
from delassus.contact.collision.colliders import ContactArrays
from delassus.contact.collision.vectors import Vector
from delassus.contact.joint_contacts import STEPS_AHEAD
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.records import BOUNCES, CONTACTS, IMPACTS, Contacts, Data, Joints, Links, SceneModel
from delassus.contact.sparse.spins import keep_turning, start_turning
from delassus.solvers.islands.cone import CONTACT, JOINT, OUT_OF_REACH
from delassus.solvers.islands.factor import backward, forward, product
from delassus.solvers.islands.records import Bodies, Islands, RowGroups, StepOptions
from delassus.solvers.islands.sweeps import add_compliance, velocity
from delassus.spatial.rotations import Array


@inlined
def is_at_rest(links: Links, island: Indices, contacts: Contacts, e: int) -> bool:
    """Whether a contact is between bodies that sleep, or between one and the world."""
    some = False
    for side in range(2):
        link = contacts.found.links[e, side]
        if link >= 0:
            if island[links.block[link]] == 0:
                return False
            some = True
    return some


@inlined
def place_contact(
    links: Links, bodies: Bodies, rows: RowGroups, i: int, at: int, contacts: ContactArrays, e: int
) -> int:
    """Blocks of group ``i`` for contact ``e``, whose Jacobians begin at ``at``; returns where they end."""
    rows.kind[i] = CONTACT
    rows.a[i] = rows.b[i] = -1
    for side in range(2):
        if contacts.links[e, side] < 0:
            continue
        block = links.block[contacts.links[e, side]]
        if rows.a[i] < 0:
            rows.a[i], rows.at_a[i] = block, at
        elif rows.a[i] != block:
            rows.b[i], rows.at_b[i] = block, at
        else:
            continue
        at += 3 * (bodies.first[block + 1] - bodies.first[block])
    return at


@inlined
def contact_rows(
    links: Links, bodies: Bodies, n_free: int, poses: Array, rows: RowGroups, i: int, contacts: ContactArrays, e: int
) -> None:
    """Fill the Jacobians of group ``i``, which has its place, with contact ``e``."""
    J, frames, points, axes, place = rows.J, contacts.frames, contacts.points, links.axes, links.place
    filled = -1
    for side in range(2):
        link = contacts.links[e, side]
        if link < 0:
            continue
        block, sign = links.block[link], 1.0 - 2.0 * side
        here = rows.at_a[i] if block == rows.a[i] else rows.at_b[i]
        if block < n_free:
            of_free_body(poses, links.slot[link], contacts, e, sign, J, here)
            continue
        f = bodies.first[block]
        m = bodies.first[block + 1] - f
        if filled != block:
            for k in range(here, here + 3 * m):
                J[k] = 0.0
        filled = block
        while link >= 0:
            T = links.slot[link]
            x = points[e, 0] - poses[T, 0, 3]
            y = points[e, 1] - poses[T, 1, 3]
            z = points[e, 2] - poses[T, 2, 3]
            for k in range(links.first_dof[link], links.first_dof[link + 1]):
                a = axes[k] % 3
                e0, e1, e2 = sign * poses[T, 0, a], sign * poses[T, 1, a], sign * poses[T, 2, a]
                if axes[k] >= 3:
                    e0, e1, e2 = turned((e0, e1, e2), (x, y, z), links.pitches[k])
                for r in range(3):
                    J[here + r * m + place[k] - f] += frames[e, 0, r] * e0 + frames[e, 1, r] * e1 + frames[e, 2, r] * e2
            link = links.parents[link]


@inlined
def turned(e: Vector, arm: Vector, pitch: float) -> Vector:
    """Velocity of a point at an ``arm`` from a joint that turns about ``e`` at 1 rad/s; a screw moves by its pitch."""
    x, y, z = e[1] * arm[2] - e[2] * arm[1], e[2] * arm[0] - e[0] * arm[2], e[0] * arm[1] - e[1] * arm[0]
    if pitch != 0.0:
        x, y, z = x + pitch * e[0], y + pitch * e[1], z + pitch * e[2]
    return x, y, z


@inlined
def of_free_body(poses: Array, T: int, contacts: ContactArrays, e: int, sign: float, J: Array, at: int) -> None:
    """Jacobian (3, 6) of a contact on a body whose velocity is its own."""
    x = contacts.points[e, 0] - poses[T, 0, 3]
    y = contacts.points[e, 1] - poses[T, 1, 3]
    z = contacts.points[e, 2] - poses[T, 2, 3]
    a, b, c = poses[T, 0, 0], poses[T, 1, 0], poses[T, 2, 0]
    p, q, r = poses[T, 0, 1], poses[T, 1, 1], poses[T, 2, 1]
    u, v, w = poses[T, 0, 2], poses[T, 1, 2], poses[T, 2, 2]
    x, y, z = a * x + b * y + c * z, p * x + q * y + r * z, u * x + v * y + w * z  # the arm in its axes
    for k in range(3):
        f, g, h = sign * contacts.frames[e, 0, k], sign * contacts.frames[e, 1, k], sign * contacts.frames[e, 2, k]
        f, g, h = a * f + b * g + c * h, p * f + q * g + r * h, u * f + v * g + w * h
        J[at], J[at + 1], J[at + 2] = f, g, h
        J[at + 3], J[at + 4], J[at + 5] = y * h - z * g, z * f - x * h, x * g - y * f
        at += 6


@inlined
def respond_six(M: Array, of: int, rows: RowGroups, i: int, at: int) -> None:
    """``Y`` of contact ``i`` on a block of six degrees of freedom, and its part of ``W``, without loops over these."""
    J, Y = rows.J, rows.Y
    for r in range(3):
        row = at + 6 * r
        a = b = c = p = q = t = 0.0
        for k in range(6):
            force, m = J[row + k], of + 6 * k
            a, b, c = a + force * M[m], b + force * M[m + 1], c + force * M[m + 2]
            p, q, t = p + force * M[m + 3], q + force * M[m + 4], t + force * M[m + 5]
        Y[row], Y[row + 1], Y[row + 2], Y[row + 3], Y[row + 4], Y[row + 5] = a, b, c, p, q, t
        for s in range(r + 1):
            x = at + 6 * s
            rows.law.W[i, r, s] += a * J[x] + b * J[x + 1] + c * J[x + 2] + p * J[x + 3] + q * J[x + 4] + t * J[x + 5]


@inlined
def multiply(M: Array, of: int, m: int, J: Array, row: int, Y: Array) -> None:
    """A row ``J`` by the symmetric ``M`` that begins at ``of``, to the same place of ``Y``; zeros cost nothing."""
    for c in range(m):
        Y[row + c] = 0.0
    for k in range(m):
        force = J[row + k]
        if force != 0.0:
            for c in range(m):
                Y[row + c] += force * M[of + k * m + c]


@compiled
def respond_with_loops(bodies: Bodies, block: int, m: int, rows: RowGroups, i: int, at: int, height: int) -> None:
    """``Y`` of group ``i`` on a block with loops, and its part of ``W``."""
    Y, L, begin = rows.Y, bodies.L, bodies.at[block]
    for k in range(at, at + height * m):
        Y[k] = rows.J[k]
    for r in range(height):
        forward(L, begin, m, Y, at + r * m)
        project_onto_loops(bodies, block, m, Y, at + r * m)
        for s in range(r + 1):
            rows.law.W[i, r, s] += product(Y, at + r * m, Y, at + s * m, m)
    for r in range(height):
        backward(L, begin, m, Y, at + r * m)


@inlined
def prepare_group(bodies: Bodies, rows: RowGroups, i: int, compliance: float) -> None:
    """``Y``, ``W`` and ``w`` of a group, and what its own problem needs, with a compliance over its mobility."""
    height, W, Y, J, M = 1 if rows.kind[i] == JOINT else 3, rows.law.W, rows.Y, rows.J, bodies.inverse
    for r in range(3):
        for s in range(3):
            W[i, r, s] = 0.0
    block, at = rows.a[i], rows.at_a[i]
    for side in range(2):
        if side == 1:
            block, at = rows.b[i], rows.at_b[i]
        if block < 0:
            continue
        m = bodies.first[block + 1] - bodies.first[block]
        if bodies.loop_rows[block] > 0:
            respond_with_loops(bodies, block, m, rows, i, at, height)
            continue
        of = bodies.at[block]
        if height == 3 and m == 6:
            respond_six(M, of, rows, i, at)
            continue
        for r in range(height):
            multiply(M, of, m, J, at + r * m, Y)
            for s in range(r + 1):
                W[i, r, s] += product(Y, at + r * m, J, at + s * m, m)
    W[i, 0, 1], W[i, 0, 2], W[i, 1, 2] = W[i, 1, 0], W[i, 2, 0], W[i, 2, 1]
    rows.law.w[i] = (W[i, 0, 0] + W[i, 1, 1] + W[i, 2, 2]) / height
    if rows.law.w[i] <= 0.0:  # it cannot move
        rows.law.w[i] = 1.0
    add_compliance(rows, i, compliance)


@inlined
def normal_velocity(links: Links, poses: Array, contacts: ContactArrays, e: int, v: Array) -> float:
    """Velocity (m/s) by which the bodies of a contact part along its normal."""
    u = 0.0
    for side in range(2):
        link, sign = contacts.links[e, side], 1.0 - 2.0 * side
        while link >= 0:
            T, R = poses[links.slot[link]], contacts.frames[e]
            x, y, z = contacts.points[e, 0] - T[0, 3], contacts.points[e, 1] - T[1, 3], contacts.points[e, 2] - T[2, 3]
            for k in range(links.first_dof[link], links.first_dof[link + 1]):
                a = links.axes[k] % 3
                e0, e1, e2 = T[0, a], T[1, a], T[2, a]
                if links.axes[k] >= 3:
                    e0, e1, e2 = turned((e0, e1, e2), (x, y, z), links.pitches[k])
                u += sign * (R[0, 2] * e0 + R[1, 2] * e1 + R[2, 2] * e2) * v[links.place[k]]
            link = links.parents[link]
    return u


@inlined
def activation_gap(model: SceneModel, options: StepOptions) -> float:
    """Gap (m) up to which contacts take part: bodies that fall together touch once something holds one of them."""
    g, dt = model.gravity, options.dt
    fall = dt * math.sqrt(g[0] * g[0] + g[1] * g[1] + g[2] * g[2])
    return options.touching + STEPS_AHEAD * dt * (fall + options.tolerance)


@inlined
def may_close(model: SceneModel, data: Data, options: StepOptions, least: float, e: int) -> bool:
    """Whether the gap of a contact is at most ``least``, or may close."""
    found, gap, closes = data.contacts.found, -data.contacts.found.depths[e], True
    if gap > least:
        u = normal_velocity(model.links, data.state.poses, found, e, data.state.target)
        closes = gap + STEPS_AHEAD * options.dt * u < 0.0
    return closes


@compiled
def choose_contacts(begin: int, end: int, model: SceneModel, data: Data, options: StepOptions) -> None:
    """Contacts of some near pairs that have row groups: ``row`` becomes 0, else −1; how large these are.

    They are those that are closed or may close, every one of blocks that are ``tunnelling`` by impulses, and none of
    bodies that sleep.
    """
    contacts, first, block, ends = data.contacts, data.bodies.first, model.links.block, data.space.ends
    margin = activation_gap(model, options)
    for pair in range(begin, end):
        count, width, least, one = 0, 0, margin, -1
        asleep = ends[pair] < ends[pair + 1] and is_at_rest(model.links, data.sleep.island, contacts, ends[pair])
        for side in range(2):
            link = contacts.found.links[ends[pair], side] if ends[pair] < ends[pair + 1] else -1
            if link >= 0:
                if block[link] != one:
                    width += 3 * (first[block[link] + 1] - first[block[link]])
                if data.links.tunnelling[block[link]] > 0:
                    least = math.inf
                one = block[link]
        for e in range(ends[pair], ends[pair + 1]):
            contacts.row[e] = -1
            if not asleep and may_close(model, data, options, least, e):
                contacts.row[e] = 0
                count += 1
        contacts.groups[pair + 1], contacts.entries[pair + 1] = count, count * width


@compiled
def place_groups(data: Data) -> tuple[int, int]:
    """Places of the row groups of near pairs, from their numbers; how many there are, and where Jacobians end."""
    groups, entries, n = data.contacts.groups, data.contacts.entries, data.space.counts[0]
    groups[0] = entries[0] = 0
    for pair in range(n):
        groups[pair + 1] += groups[pair]
        entries[pair + 1] += entries[pair]
    return groups[n], entries[n]


@compiled
def fill_groups(begin: int, end: int, model: SceneModel, data: Data, options: StepOptions) -> None:
    """Fill the row groups of contacts of some near pairs; impulses start where those of the step before were.

    `BOUNCES` becomes 1 where one comes together fast enough to bounce.
    """
    bodies, rows, contacts, found = data.bodies, data.rows, data.contacts, data.contacts.found
    closed, late = options.dt * options.tolerance, data.progress.step[IMPACTS] > 0  # what rests may be that far apart
    for pair in range(begin, end):
        i, at = contacts.groups[pair], contacts.entries[pair]
        for e in range(data.space.ends[pair], data.space.ends[pair + 1]):
            if contacts.row[e] < 0:
                continue
            gap = -found.depths[e]
            at = place_contact(model.links, bodies, rows, i, at, found, e)
            contact_rows(model.links, bodies, model.free[1], data.state.poses, rows, i, found, e)
            rows.law.d[i, 0], rows.law.d[i, 1] = found.surface_velocities[e, 0], found.surface_velocities[e, 1]
            rows.law.d[i, 2] = gap / options.dt if gap > closed else 0.0
            rows.law.mu[i], rows.law.friction_offset[i], rows.law.unit[i] = found.friction[e], 0.0, 1.0
            prepare_group(bodies, rows, i, 0.0)
            if late:
                rows.law.d[i, 2] += velocity(bodies, rows, i, data.progress.bounces.late)[2] / options.dt
            rows.guess[i] = rows.wrong[i] = 0.0
            if found.restitution[e] > 0.0 and velocity(bodies, rows, i, data.state.v)[2] < -options.resting:
                data.progress.step[BOUNCES] = 1
            for c in range(3):
                rows.r[i, c], rows.law.turning[i, c] = contacts.start[e, c], 0.0
            contacts.row[e], data.islands.contact[i] = i, e
            i += 1


@compiled
def project_onto_loops(bodies: Bodies, block: int, m: int, Y: Array, row: int) -> None:
    """Project ``L⁻¹ Jᵀ`` onto motions that the loops of a block allow; round-off becomes zero."""
    before, after, Q = 0.0, 0.0, bodies.Q
    for c in range(m):
        before += Y[row + c] * Y[row + c]
    for k in range(bodies.loop_rows[block]):
        at, u = bodies.loops_at[block] + k * m, 0.0
        for c in range(m):
            u += Q[at + c] * Y[row + c]
        for c in range(m):
            Y[row + c] -= u * Q[at + c]
    for c in range(m):
        after += Y[row + c] * Y[row + c]
    for c in range(m):
        Y[row + c] = Y[row + c] if after > UNMOVED * before else 0.0


@compiled
def find_islands(rows: RowGroups, islands: Islands, n_blocks: int, n_rows: int) -> int:
    """Blocks that row groups tie, island by island; returns how many islands there are.

    Island *k* has the blocks ``nodes[node_ends[k]:node_ends[k + 1]]`` and the groups ``members[member_ends[k]: …]``.
    Blocks that are on no group are in none. ``island[n_blocks]`` is the number of islands, too.
    """
    a, b, root, nodes, count = rows.a, rows.b, islands.root, islands.nodes, islands.island
    node_ends, members, member_ends = islands.node_ends, islands.members, islands.member_ends
    for i in range(n_blocks):
        root[i] = -1
    for e in range(n_rows):
        for block in (a[e], b[e]):
            if block >= 0 and root[block] < 0:
                root[block] = block
        if b[e] >= 0:
            i, j = a[e], b[e]
            while root[i] != i:
                root[i] = root[root[i]]
                i = root[i]
            while root[j] != j:
                root[j] = root[root[j]]
                j = root[j]
            root[max(i, j)] = min(i, j)
    total = 0
    for i in range(n_blocks):  # a root is the least of its island, so that it comes first
        if root[i] == i:
            count[i] = total
            node_ends[total + 1] = member_ends[total + 1] = 0
            total += 1
        if root[i] >= 0:
            count[i] = count[root[i]]
            node_ends[count[i] + 1] += 1
    for e in range(n_rows):
        member_ends[count[a[e]] + 1] += 1
    node_ends[0] = member_ends[0] = 0
    for k in range(total):
        node_ends[k + 1] += node_ends[k]
        member_ends[k + 1] += member_ends[k]
    for i in range(n_blocks - 1, -1, -1):
        if root[i] >= 0:
            k = count[i] + 1
            node_ends[k] -= 1
            nodes[node_ends[k]] = i
    for e in range(n_rows - 1, -1, -1):
        k = count[a[e]] + 1
        member_ends[k] -= 1
        members[member_ends[k]] = e
    # the ends have moved to the begins of their islands
    for k in range(total):
        node_ends[k], member_ends[k] = node_ends[k + 1], member_ends[k + 1]
    count[n_blocks] = total
    node_ends[total] = 0
    for i in range(n_blocks):
        if root[i] >= 0:
            node_ends[total] += 1
    member_ends[total] = n_rows
    return total


@inlined
def set_limits(rows: RowGroups, joints: Joints, i: int, e: int, q: Array, dt: float, late: float) -> None:
    """Velocities by which joint ``e`` gets to its limits in a step, of row group ``i``, ``late`` beside ``q``."""
    x = q[joints.coordinates[e]] + late
    rows.law.d[i, 0] = max(-max(x - joints.lower[e], 0.0) / dt, -OUT_OF_REACH)
    rows.law.d[i, 1], rows.law.d[i, 2] = min(max(joints.upper[e] - x, 0.0) / dt, OUT_OF_REACH), 0.0


@compiled
def warm_start_joints(data: Data) -> None:
    """Impulses of limits and of friction where a solver may start: those of the step before."""
    for e in range(data.joints.dofs.size):
        before, dof = data.joints.before, data.joints.dofs[e]
        data.rows.r[data.progress.step[CONTACTS] + e, 2] = before[0, dof] + before[1, dof]


@inlined
def is_before(i: int, j: int, low: int, high: int) -> bool:
    """Whether a pair comes before another one, whose lower number is ``low``."""
    return min(i, j) < low or (min(i, j) == low and max(i, j) < high)


@compiled
def warm_start_contacts(begin: int, end: int, contacts: Contacts) -> None:
    """``start`` of some contacts: the impulse of the nearest one of the same pair in the step before, or none.

    They are all contacts of some pairs, and nothing has acted at them yet. Contacts come in the order of their pairs:
    the first one is found by bisection, and both lists are gone through once from there.
    """
    found, before, first = contacts.found, contacts.before, 0
    count = before.number[0]
    last = count if begin < end else 0
    while first < last:
        k = (first + last) // 2
        i, j = found.colliders[begin, 0], found.colliders[begin, 1]
        if is_before(before.colliders[k, 0], before.colliders[k, 1], min(i, j), max(i, j)):
            first = k + 1
        else:
            last = k
    unused = first
    for e in range(begin, end):
        low, high = min(found.colliders[e, 0], found.colliders[e, 1]), max(found.colliders[e, 0], found.colliders[e, 1])
        for c in range(3):
            contacts.start[e, c] = contacts.impulses[e, c] = contacts.sustained[e, c] = 0.0
        while first < count and is_before(before.colliders[first, 0], before.colliders[first, 1], low, high):
            first += 1
        nearest, least, k = -1, math.inf, first
        while k < count:
            i, j = before.colliders[k, 0], before.colliders[k, 1]
            if min(i, j) != low or max(i, j) != high:
                break
            if k >= unused:
                before.used[k], unused = 0, k + 1
            if before.used[k] == 0:
                distance = 0.0
                for c in range(3):
                    distance += (before.points[k, c] - found.points[e, c]) ** 2
                if distance < least:
                    nearest, least = k, distance
            k += 1
        if nearest >= 0:
            before.used[nearest] = 1
            for a in range(3):
                p = 0.0
                for c in range(3):
                    p += before.frames[nearest, a, c] * before.impulses[nearest, c]
                for c in range(3):
                    contacts.start[e, c] += found.frames[e, a, c] * p
        if contacts.angular.shape[1] > 0:
            start_turning(contacts, e, nearest)


@inlined
def store_impulses(begin: int, end: int, links: Links, data: Data) -> None:
    """Keep some contacts and their impulses; those of bodies that sleep stay as they are."""
    contacts, found, before, r = data.contacts, data.contacts.found, data.contacts.before, data.rows.r
    for e in range(begin, end):
        i, is_asleep = contacts.row[e], is_at_rest(links, data.sleep.island, contacts, e)
        for c in range(3):
            if is_asleep:
                contacts.sustained[e, c] = contacts.impulses[e, c] = contacts.start[e, c]
            elif i >= 0:
                contacts.sustained[e, c] = r[i, c]
                contacts.impulses[e, c] += r[i, c]
        before.colliders[e, 0], before.colliders[e, 1] = found.colliders[e, 0], found.colliders[e, 1]
        for a in range(3):
            before.points[e, a], before.impulses[e, a] = found.points[e, a], contacts.sustained[e, a]
            for c in range(3):
                before.frames[e, a, c] = found.frames[e, a, c]
        if contacts.angular.shape[1] > 0:
            keep_turning(data, e, is_asleep)
