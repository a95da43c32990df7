"""Row groups of contacts on blocks of bodies, the islands that they make, and impulses of the step before."""

from __future__ import annotations

import math

from delassus.compiler.jit.compile import compiled, inlined
from delassus.contact.collision.colliders import ContactArrays
from delassus.contact.solvers.coulomb import prepare_one
from delassus.contact.sparse.cone import CONTACT
from delassus.contact.sparse.factor import backward, forward
from delassus.contact.sparse.records import Bodies, Contacts, Islands, Joints, Links, Rows
from delassus.spatial.rotations import Array

UNMOVED = 1e-20
"""Squares of the lengths of rows, over those of all, below which one moves nothing, as in
`delassus.accuracy.status`."""


@inlined
def contact_rows(
    links: Links, bodies: Bodies, poses: Array, rows: Rows, i: int, at: int, contacts: ContactArrays, e: int
) -> int:
    """Fill group ``i`` with contact ``e``; its Jacobians begin at ``at``. Returns where they end."""
    rows.kind[i] = CONTACT
    rows.a[i] = rows.b[i] = -1
    J, frames, points, axes, place = rows.J, contacts.frames, contacts.points, links.axes, links.place
    for side in range(2):
        link = contacts.links[e, side]
        if link < 0:
            continue
        block, sign = links.block[link], 1.0 - 2.0 * side
        f = bodies.first[block]
        m = bodies.first[block + 1] - f
        if rows.a[i] < 0:
            rows.a[i], rows.at_a[i], here = block, at, at
        elif rows.a[i] != block:
            rows.b[i], rows.at_b[i], here = block, at, at
        else:
            here = rows.at_a[i]
        if 36 * block < bodies.inverse.size:
            of_free_body(poses, links.slot[link], contacts, e, sign, J, at)
            at += 18
            continue
        if here == at:
            at += 3 * m
            for k in range(here, at):
                J[k] = 0.0
        while link >= 0:
            T = links.slot[link]
            x = points[e, 0] - poses[T, 0, 3]
            y = points[e, 1] - poses[T, 1, 3]
            z = points[e, 2] - poses[T, 2, 3]
            for k in range(links.first_dof[link], links.first_dof[link + 1]):
                a = axes[k] % 3
                e0, e1, e2 = sign * poses[T, 0, a], sign * poses[T, 1, a], sign * poses[T, 2, a]
                if axes[k] >= 3:
                    e0, e1, e2 = e1 * z - e2 * y, e2 * x - e0 * z, e0 * y - e1 * x
                for r in range(3):
                    J[here + r * m + place[k] - f] += frames[e, 0, r] * e0 + frames[e, 1, r] * e1 + frames[e, 2, r] * e2
            link = links.parents[link]
    return at


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
def prepare_group(bodies: Bodies, rows: Rows, i: int, compliance: float) -> None:
    """``Y``, ``W`` and ``w`` of a group, and what its own problem needs, with a compliance over its mobility."""
    height, W, Y, J, M = 3 if rows.kind[i] == CONTACT else 1, rows.W, rows.Y, rows.J, bodies.inverse
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
        if 36 * block < M.size:
            for r in range(3):
                for c in range(6):
                    total = 0.0
                    for k in range(6):
                        total += J[at + 6 * r + k] * M[36 * block + 6 * c + k]
                    Y[at + 6 * r + c] = total
                for s in range(r + 1):
                    total = 0.0
                    for k in range(6):
                        total += Y[at + 6 * r + k] * J[at + 6 * s + k]
                    W[i, r, s] += total
            continue
        for k in range(height * m):
            Y[at + k] = J[at + k]
        for r in range(height):
            forward(bodies.L, bodies.at[block], m, Y, at + r * m)
            if bodies.loop_rows[block] > 0:
                project_onto_loops(bodies, block, m, Y, at + r * m)
            for s in range(r + 1):
                total = 0.0
                for k in range(m):
                    total += Y[at + r * m + k] * Y[at + s * m + k]
                W[i, r, s] += total
        for r in range(height):
            backward(bodies.L, bodies.at[block], m, Y, at + r * m)
    W[i, 0, 1], W[i, 0, 2], W[i, 1, 2] = W[i, 1, 0], W[i, 2, 0], W[i, 2, 1]
    rows.w[i] = (W[i, 0, 0] + W[i, 1, 1] + W[i, 2, 2]) / height
    if rows.w[i] <= 0.0:  # it cannot move
        rows.w[i] = 1.0
    add_compliance(rows, i, compliance)


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


@inlined
def add_compliance(rows: Rows, i: int, compliance: float) -> None:
    """Prepare the problem of a group alone, with a compliance over its mobility."""
    W, R = rows.W[i], compliance * rows.w[i]
    rows.R[i] = R
    if rows.kind[i] == CONTACT:
        for r in range(3):
            W[r, r] += R
        prepare_one(W, 0, max(W[0, 0], W[1, 1], W[2, 2]), rows.prepared[i])
        for r in range(3):
            W[r, r] -= R


@compiled
def find_islands(rows: Rows, islands: Islands, n_blocks: int, n_rows: int) -> int:
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


@compiled
def warm_start_rows(rows: Rows, contacts: Contacts, joints: Joints, islands: Islands, m: int, n: int) -> None:
    """Impulses where a solver may start: those of the step before, of contacts, then of limits and of friction."""
    for i in range(m):
        rows.guess[i] = 0.0
        for c in range(3):
            rows.r[i, c] = contacts.start[islands.contact[i], c]
    for i in range(m, n):
        dof = joints.dofs[i - m]
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
