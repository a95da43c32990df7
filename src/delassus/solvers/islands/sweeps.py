"""Sweeps over the row groups of an island, and how far impulses are from their laws.

*Sweeps* (nonsmooth Gauss–Seidel) solve one contact after the other exactly, at the newest velocities of its bodies; no
matrix couples them. Source: Jean 1999 and Moreau 1999.
"""

from __future__ import annotations

import math

from delassus.algorithms.contact.point import PointBlock, Tangents
from delassus.algorithms.contact.problem import PROXIMAL
from delassus.compiler.jit.compile import compiled, inlined
from delassus.solvers.islands.cone import (
    CHANGE,
    CONTACT,
    JOINT,
    PATCH,
    SPEEDS,
    TAKEN,
    impulse,
    patch_law,
    patch_step,
    point_block,
    solve_patch,
    solve_point,
    solve_point_beside,
)
from delassus.solvers.islands.records import Bodies, Islands, RowGroups
from delassus.spatial.rotations import Array

FARTHEST = 1e3
"""Largest ``θ`` of acceleration: farther out, impulses are so large that velocities lose their digits."""


@inlined
def velocity(bodies: Bodies, rows: RowGroups, i: int, x: Array) -> tuple[float, float, float]:
    """``J x`` of a group."""
    J, whole, u0, u1, u2 = rows.J, rows.kind[i] != JOINT, 0.0, 0.0, 0.0
    block, at = rows.a[i], rows.at_a[i]
    for side in range(2):
        if side == 1:
            block, at = rows.b[i], rows.at_b[i]
        if block < 0:
            continue
        f = bodies.first[block]
        m = bodies.first[block + 1] - f
        if whole and m == 6:
            for k in range(6):
                u0 += J[at + k] * x[f + k]
                u1 += J[at + 6 + k] * x[f + k]
                u2 += J[at + 12 + k] * x[f + k]
        elif whole:
            for k in range(m):
                u0 += J[at + k] * x[f + k]
                u1 += J[at + m + k] * x[f + k]
                u2 += J[at + 2 * m + k] * x[f + k]
        else:
            for k in range(m):
                u2 += J[at + k] * x[f + k]
    return u0, u1, u2


@inlined
def push(bodies: Bodies, rows: RowGroups, i: int, f0: float, f1: float, f2: float, v: Array) -> None:
    """``v += Y f`` of a group."""
    Y, whole = rows.Y, rows.kind[i] != JOINT
    block, at = rows.a[i], rows.at_a[i]
    for side in range(2):
        if side == 1:
            block, at = rows.b[i], rows.at_b[i]
        if block < 0:
            continue
        f = bodies.first[block]
        m = bodies.first[block + 1] - f
        if whole and m == 6:
            for k in range(6):
                v[f + k] += Y[at + k] * f0 + Y[at + 6 + k] * f1 + Y[at + 12 + k] * f2
        elif whole:
            for k in range(m):
                v[f + k] += Y[at + k] * f0 + Y[at + m + k] * f1 + Y[at + 2 * m + k] * f2
        else:
            for k in range(m):
                v[f + k] += Y[at + k] * f2


@inlined
def is_moved(bodies: Bodies, block: int) -> bool:
    """Whether the user moves a block: nothing accelerates it, as its ``M⁻¹`` and the factor ``L`` are zero."""
    return bool(bodies.L[bodies.at[block]] == 0.0)


@inlined
def work_on_moved(bodies: Bodies, rows: RowGroups, i: int, f0: float, f1: float, f2: float, v: Array) -> float:
    """Work (J) of impulses of a group on bodies that the user moves, at their velocities ``v``."""
    work, J = 0.0, rows.J
    for side in range(2):
        block, at = (rows.a[i], rows.at_a[i]) if side == 0 else (rows.b[i], rows.at_b[i])
        if block >= 0 and rows.kind[i] != JOINT and is_moved(bodies, block):
            f = bodies.first[block]
            for c in range(6):
                work += (J[at + c] * f0 + J[at + 6 + c] * f1 + J[at + 12 + c] * f2) * v[f + c]
    return work


@compiled
def add_force(bodies: Bodies, rows: RowGroups, i: int, p: Array) -> None:
    """``p += Jᵀ q`` of a group."""
    J, q, whole = rows.J, rows.memory.q, rows.kind[i] != JOINT
    for side in range(2):
        block, at = (rows.a[i], rows.at_a[i]) if side == 0 else (rows.b[i], rows.at_b[i])
        if block < 0:
            continue
        f = bodies.first[block]
        m = bodies.first[block + 1] - f
        for c in range(m):
            if whole:
                p[f + c] += J[at + c] * q[i, 0] + J[at + m + c] * q[i, 1] + J[at + 2 * m + c] * q[i, 2]
            else:
                p[f + c] += J[at + c] * q[i, 2]


@inlined
def add_compliance(rows: RowGroups, i: int, compliance: float) -> None:
    """Prepare the problem of a group alone, with a compliance over its mobility."""
    W, R, x = rows.law.W[i], compliance * rows.law.w[i], rows.law.prepared[i]
    rows.law.R[i] = R
    if rows.kind[i] == CONTACT:
        most = max(W[0, 0], max(W[1, 1], W[2, 2])) + R
        least = R + PROXIMAL * (most if most > 0.0 else 1.0)
        own = (W[0, 0], W[0, 1], W[0, 2]), (W[1, 0], W[1, 1], W[1, 2]), (W[2, 0], W[2, 1], W[2, 2])
        block = point_block(own, rows.law.mu[i], least)
        closed, opened = block.closed, block.open
        x[0], x[1], x[2], x[3], x[4], x[5] = closed.a, closed.b, closed.d, closed.det, closed.h, closed.k
        x[6], x[7] = block.normal, block.over_normal
        x[8], x[9], x[10], x[11] = opened.a, opened.b, opened.d, opened.det
    elif rows.kind[i] == PATCH:
        x[0] = R + PROXIMAL * rows.law.w[i]


@inlined
def point_of(rows: RowGroups, i: int) -> PointBlock:
    """A contact alone, as `add_compliance` has left it."""
    x = rows.law.prepared[i]
    return PointBlock(
        Tangents(x[0], x[1], x[2], x[3], x[4], x[5]), x[6], x[7], Tangents(x[8], x[9], x[10], x[11], x[4], x[5])
    )


@inlined
def read_patch(bodies: Bodies, rows: RowGroups, i: int, v: Array) -> None:
    """Velocities and impulses of a patch into its memory."""
    j, x = rows.law.partner[i], rows.law.patch[i]
    u, w = velocity(bodies, rows, i, v), velocity(bodies, rows, j, v)
    x[SPEEDS], x[SPEEDS + 1] = u[0] + rows.law.d[i, 0], u[1] + rows.law.d[i, 1]
    x[SPEEDS + 2] = u[2] + rows.law.d[i, 2]
    for c in range(3):
        x[SPEEDS + 3 + c] = w[c] + rows.law.d[j, c]
        x[TAKEN + c], x[TAKEN + 3 + c] = rows.r[i, c], rows.r[j, c]


@inlined
def push_patch(bodies: Bodies, rows: RowGroups, i: int, v: Array) -> None:
    """``v += Y f`` of the impulse ``CHANGE`` of a patch."""
    x = rows.law.patch[i]
    push(bodies, rows, i, x[CHANGE], x[CHANGE + 1], x[CHANGE + 2], v)
    push(bodies, rows, rows.law.partner[i], x[CHANGE + 3], x[CHANGE + 4], x[CHANGE + 5], v)


@inlined
def put_patch(rows: RowGroups, i: int, part: float, normal: float) -> None:
    """``CHANGE``, the normal impulse there and a part of the others, becomes the impulse of a patch."""
    j, x = rows.law.partner[i], rows.law.patch[i]
    for c in range(6):
        x[CHANGE + c] *= part
    x[CHANGE + 2] = normal
    for c in range(3):
        rows.r[i, c], rows.r[j, c] = x[CHANGE + c], x[CHANGE + 3 + c]


@compiled
def sweep_patch(bodies: Bodies, rows: RowGroups, i: int, v: Array) -> float:
    """Solve a patch at the newest velocities ``v``; the largest change as a velocity."""
    j, x, moved, largest = rows.law.partner[i], rows.law.patch[i], 0.0, 0.0
    read_patch(bodies, rows, i, v)
    for c in range(6):
        largest = max(largest, abs(x[TAKEN + c]))
        x[SPEEDS + c] += rows.law.R[i] * x[TAKEN + c]
    offset = rows.law.friction_offset[i]
    if largest == 0.0 and x[SPEEDS + 2] >= 0.0 and offset == 0.0:
        return 0.0
    rows.guess[i] = solve_patch(rows.law.mu[i], offset, rows.law.prepared[i, 0], rows.guess[i], x)
    for c in range(6):
        moved = max(moved, rows.law.w[i] * abs(x[CHANGE + c]))
    for c in range(3):
        rows.r[i, c], rows.r[j, c] = rows.r[i, c] + x[CHANGE + c], rows.r[j, c] + x[CHANGE + 3 + c]
    push_patch(bodies, rows, i, v)
    return moved


@compiled
def accelerate_patch(bodies: Bodies, rows: RowGroups, i: int, theta: float, v: Array) -> None:
    """The step of `accelerated` of a patch."""
    r, g, x, j = rows.r, rows.memory.g, rows.law.patch[i], rows.law.partner[i]
    for c in range(3):
        x[TAKEN + c], x[TAKEN + 3 + c] = r[i, c], r[j, c]
        x[CHANGE + c] = r[i, c] - theta * (r[i, c] - g[i, c])
        x[CHANGE + 3 + c] = r[j, c] - theta * (r[j, c] - g[j, c])
        g[i, c], g[j, c] = r[i, c], r[j, c]
    if theta == 0.0:
        return
    law = patch_law(rows.law.mu[i], rows.law.friction_offset[i], x, CHANGE)
    put_patch(rows, i, law[0], law[1])
    for c in range(6):
        x[CHANGE + c] -= x[TAKEN + c]
    push_patch(bodies, rows, i, v)


@compiled
def patch_residual(bodies: Bodies, rows: RowGroups, i: int, v: Array) -> float:
    """Violation of the law of a patch (m/s), as `law_residual`."""
    x, w, square = rows.law.patch[i], rows.law.w[i], 0.0
    read_patch(bodies, rows, i, v)
    patch_step(rows.law.mu[i], w * rows.law.friction_offset[i], w, x)
    for c in range(6):
        square += x[CHANGE + c] * x[CHANGE + c]
    return math.sqrt(square)


@compiled
def sweep(bodies: Bodies, rows: RowGroups, islands: Islands, k: int, v: Array) -> float:
    """Solve every group once, in order, each at the newest velocities ``v``; the largest change as a velocity."""
    moved, r, d = 0.0, rows.r, rows.law.d
    for e in range(islands.member_ends[k], islands.member_ends[k + 1]):
        i = islands.members[e]
        u = velocity(bodies, rows, i, v)
        r0, r1, r2, u2 = r[i, 0], r[i, 1], r[i, 2], u[2] + d[i, 2]
        if rows.kind[i] == CONTACT:
            if r2 == 0.0 and u2 >= 0.0 and rows.law.friction_offset[i] == 0.0:
                continue
            block, offset, guess, R = point_of(rows, i), rows.law.friction_offset[i], rows.guess[i], rows.law.R[i]
            p, velocities = (r0, r1, r2), (u[0] + d[i, 0] + R * r0, u[1] + d[i, 1] + R * r1, u2 + R * r2)
            if offset > 0.0:
                (x, y, z), rows.guess[i] = solve_point_beside(block, rows.law.mu[i], offset, p, velocities, guess)
            else:
                (x, y, z), rows.guess[i] = solve_point(block, rows.law.mu[i], p, velocities, guess)
        elif rows.kind[i] != JOINT:
            if rows.kind[i] == PATCH:
                moved = max(moved, sweep_patch(bodies, rows, i, v))
            continue
        else:
            x = y = 0.0
            own, w, offset = rows.law.w[i], rows.law.w[i] + rows.law.R[i], rows.law.friction_offset[i]
            z = impulse(rows.kind[i], 0.0, w * offset, -d[i, 0], -d[i, 1], own * r2 - u2)[2] / w
        x, y, z = x - r0, y - r1, z - r2
        if x != 0.0 or y != 0.0 or z != 0.0:
            moved = max(moved, rows.law.unit[i] * rows.law.w[i] * max(abs(x), max(abs(y), abs(z))))
            push(bodies, rows, i, x, y, z, v)
            r[i, 0], r[i, 1], r[i, 2] = r0 + x, r1 + y, r2 + z
    return moved


@compiled
def accelerated(bodies: Bodies, rows: RowGroups, islands: Islands, k: int, v: Array, before: float) -> float:
    """A sweep, and a step on from where the last two point (Anderson's acceleration of depth one).

    With ``F`` the change by a sweep, as velocities, the next starts from ``g − θ (g − g₋)``, ``θ = Fᵀ (F − F₋) /
    |F − F₋|²``, or from ``g`` where ``F`` has grown. Takes ``|F₋|²``, negative at first, and returns ``|F|²``; the
    impulses that it leaves are in their cones.
    """
    r, g, F, members = rows.r, rows.memory.g, rows.memory.F, islands.members
    begin, end = islands.member_ends[k], islands.member_ends[k + 1]
    for e in range(begin, end):
        i = members[e]
        for c in range(3):
            rows.memory.trial[i, c] = r[i, c]
    sweep(bodies, rows, islands, k, v)
    size, slope, turned = 0.0, 0.0, 0.0
    for e in range(begin, end):
        i = members[e]
        for c in range(3):
            f = rows.law.unit[i] * rows.law.w[i] * (r[i, c] - rows.memory.trial[i, c])
            change = f - F[i, c]
            size, slope, turned = size + f * f, slope + f * change, turned + change * change
            F[i, c] = f
    theta = slope / turned if size < before and abs(slope) < FARTHEST * turned else 0.0
    for e in range(begin, end):
        i = members[e]
        x, y, z = r[i, 0], r[i, 1], r[i, 2]
        if rows.kind[i] >= PATCH:
            if rows.kind[i] == PATCH:
                accelerate_patch(bodies, rows, i, theta, v)
            continue
        if theta != 0.0:
            back = x - theta * (x - g[i, 0]), y - theta * (y - g[i, 1]), z - theta * (z - g[i, 2])
            law = impulse(rows.kind[i], rows.law.mu[i], rows.law.friction_offset[i], back[0], back[1], back[2])
            r[i, 0], r[i, 1], r[i, 2] = law[0], law[1], law[2]
            push(bodies, rows, i, law[0] - x, law[1] - y, law[2] - z, v)
        g[i, 0], g[i, 1], g[i, 2] = x, y, z
    return size


@inlined
def law_residual(rows: RowGroups, i: int, u0: float, u1: float, u2: float) -> float:
    """Violation of the law of a group by its impulses and velocities: ``|ω r − P_C(ω r − u − s)|``."""
    w, mu = rows.law.w[i], rows.law.mu[i]
    x, y, z = w * rows.r[i, 0], w * rows.r[i, 1], w * rows.r[i, 2]
    shift = mu * math.sqrt(u0 * u0 + u1 * u1)
    law = impulse(rows.kind[i], mu, w * rows.law.friction_offset[i], x - u0, y - u1, z - u2 - shift)
    return math.sqrt((x - law[0]) ** 2 + (y - law[1]) ** 2 + (z - law[2]) ** 2) * float(rows.law.unit[i])


@compiled
def residual_of(bodies: Bodies, rows: RowGroups, islands: Islands, k: int, v: Array) -> float:
    """Largest violation of the law of a group at the velocities ``v`` (m/s); that of each group goes to ``wrong``."""
    worst = 0.0
    for e in range(islands.member_ends[k], islands.member_ends[k + 1]):
        i = islands.members[e]
        if rows.kind[i] >= PATCH:
            rows.wrong[i] = patch_residual(bodies, rows, i, v) if rows.kind[i] == PATCH else 0.0
            if not rows.wrong[i] <= worst:
                worst = rows.wrong[i]
            continue
        u = velocity(bodies, rows, i, v)
        own = law_residual(rows, i, u[0] + rows.law.d[i, 0], u[1] + rows.law.d[i, 1], u[2] + rows.law.d[i, 2])
        rows.wrong[i] = own
        if not own <= worst:
            worst = own
    return worst if worst < math.inf else math.inf


@compiled
def assign(bodies: Bodies, islands: Islands, k: int, x: Array, y: Array) -> None:
    """``x ← y`` on the blocks of an island."""
    for e in range(islands.node_ends[k], islands.node_ends[k + 1]):
        for c in range(bodies.first[islands.nodes[e]], bodies.first[islands.nodes[e] + 1]):
            x[c] = y[c]


@compiled
def keep(bodies: Bodies, islands: Islands, k: int, v: Array, r: Array, v_to: Array, r_to: Array) -> None:
    """Copy velocities and impulses of an island."""
    assign(bodies, islands, k, v_to, v)
    for e in range(islands.member_ends[k], islands.member_ends[k + 1]):
        i = islands.members[e]
        r_to[i, 0], r_to[i, 1], r_to[i, 2] = r[i, 0], r[i, 1], r[i, 2]
