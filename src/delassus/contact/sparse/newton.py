"""Impulses of an island of bodies: sweeps, and Newton's method on the same equations, sparse.

With masses ``M``, velocities ``v*`` without impulses and rows ``u = J v + d``, impulses ``r`` obey their laws where

    ``φ(r) = w r − P_C(w r − u − s) = 0``,    ``u = J (v* + M⁻¹ Jᵀ r) + d``,

with the mobilities ``w`` of groups and the shifts ``s`` of `cone`: Coulomb's law itself, no relaxation. The residual is
the largest ``|φ_i|``, a velocity.

*Sweeps* (nonsmooth Gauss–Seidel) solve one contact after the other exactly, at the newest velocities of its bodies; no
matrix couples them. *Newton's method* takes all at once: with the derivative ``P`` of the projection and ``S`` of
``u + s``, steps are

    ``Q Δr = −φ − P S J Δv``,    ``Q = w (1 − P + δ)``,    ``M Δv = Jᵀ Δr``,

or ``(M + Jᵀ Q⁻¹ P S J) Δv = −Jᵀ Q⁻¹ φ``: a matrix with a block for each pair of bodies that touch, factorised sparsely.
``δ`` keeps redundant impulses where they are, and grows where a step does not make the residual smaller. Sweeps say
which contacts stick, slip and let go; Newton's method carries what they do to one body through all the others.

Source: Jean 1999 and Moreau 1999 for sweeps; Alart and Curnier 1991 for Newton's method on projections.
*Deviations*: Newton's unknowns are velocities, so that masses and not contacts are factorised; ``δ``.
"""

from __future__ import annotations

import math

from delassus.contact.snapshot import Indices
from delassus.contact.solvers.coulomb import single
from delassus.contact.sparse.cone import CONTACT, impulse
from delassus.contact.sparse.factor import analyse, factorise, substitute
from delassus.contact.sparse.records import Bodies, Rows, Work
from delassus.model.rotations import Array
from delassus.runtime.loops import compiled, inlined

ALONE, BETWEEN = 150, 100
"""Sweeps before Newton's method, and between two of its attempts."""

SOFT, SOFTEST, HARDEST, HARDER = 1e-4, 1e-2, 1e-8, 0.1
"""``δ``: of later attempts, of the last ones, of the first ones and the least; over that of a step that succeeds."""

ENOUGH, AHEAD = 0.5, 6
"""Part of the residual that a step has to leave, and how many in a row need not: the way to the solution may lead over
larger residuals."""

ELSEWHERE = 300.0
"""By how much steps may change velocities, over the residual before them: Coulomb's law has solutions that are nowhere
near, such as stacks that break without a cause."""

EXACT = 1e-6
"""Part of the residual at which iterations end, above which there is one sweep at least."""

FARTHEST = 1e3
"""Largest ``θ`` of acceleration: farther out, impulses are so large that velocities lose their digits."""

STILL = 1e-14
"""Sliding (m/s) that has no direction."""

TOO_SMALL = -1
"""In place of a count: memory is too small."""


@inlined
def velocity(bodies: Bodies, rows: Rows, i: int, x: Array) -> tuple[float, float, float]:
    """``J x`` of a group."""
    J, whole, u0, u1, u2 = rows.J, rows.kind[i] == CONTACT, 0.0, 0.0, 0.0
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
def push(bodies: Bodies, rows: Rows, i: int, f0: float, f1: float, f2: float, v: Array) -> None:
    """``v += Y f`` of a group."""
    Y, whole = rows.Y, rows.kind[i] == CONTACT
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


@compiled
def sweep(bodies: Bodies, rows: Rows, members: Indices, begin: int, end: int, v: Array) -> float:
    """Solve every group once, in order, each at the newest velocities ``v``; the largest change as a velocity."""
    moved, r, d, W = 0.0, rows.r, rows.d, rows.W
    for e in range(begin, end):
        i = members[e]
        u = velocity(bodies, rows, i, v)
        r0, r1, r2, u2 = r[i, 0], r[i, 1], r[i, 2], u[2] + d[i, 2]
        if rows.kind[i] == CONTACT:
            if r2 == 0.0 and u2 >= 0.0 and rows.more[i] == 0.0:
                continue
            u0, u1, epsilon = u[0] + d[i, 0], u[1] + d[i, 1], rows.prepared[i, 0]
            c0 = u0 - (W[i, 0, 0] + epsilon) * r0 - W[i, 0, 1] * r1 - W[i, 0, 2] * r2
            c1 = u1 - W[i, 1, 0] * r0 - (W[i, 1, 1] + epsilon) * r1 - W[i, 1, 2] * r2
            c2 = u2 - W[i, 2, 0] * r0 - W[i, 2, 1] * r1 - (W[i, 2, 2] + epsilon) * r2
            x, y, z, _, rows.guess[i] = single(rows.prepared[i], rows.mu[i], rows.more[i], c0, c1, c2, rows.guess[i])
        else:
            x = y = 0.0
            w = rows.w[i] + rows.R[i]
            z = impulse(rows.kind[i], 0.0, w * rows.more[i], -d[i, 0], -d[i, 1], rows.w[i] * r2 - u2)[2] / w
        x, y, z = x - r0, y - r1, z - r2
        if x != 0.0 or y != 0.0 or z != 0.0:
            moved = max(moved, rows.w[i] * max(abs(x), max(abs(y), abs(z))))
            push(bodies, rows, i, x, y, z, v)
            r[i, 0], r[i, 1], r[i, 2] = r0 + x, r1 + y, r2 + z
    return moved


@compiled
def accelerated(bodies: Bodies, rows: Rows, members: Indices, begin: int, end: int, v: Array, before: float) -> float:
    """A sweep, and a step on from where the last two point (Anderson's acceleration of depth one).

    With ``F`` the change by a sweep, as velocities, the next starts from ``g − θ (g − g₋)``, ``θ = Fᵀ (F − F₋) /
    |F − F₋|²``, or from ``g`` where ``F`` has grown. Takes ``|F₋|²``, negative at first, and returns ``|F|²``; the
    impulses that it leaves are in their cones.
    """
    r, g, F = rows.r, rows.g, rows.F
    for e in range(begin, end):
        i = members[e]
        for c in range(3):
            rows.trial[i, c] = r[i, c]
    sweep(bodies, rows, members, begin, end, v)
    size, slope, turned = 0.0, 0.0, 0.0
    for e in range(begin, end):
        i = members[e]
        for c in range(3):
            f = rows.w[i] * (r[i, c] - rows.trial[i, c])
            change = f - F[i, c]
            size, slope, turned = size + f * f, slope + f * change, turned + change * change
            F[i, c] = f
    theta = slope / turned if size < before and abs(slope) < FARTHEST * turned else 0.0
    for e in range(begin, end):
        i = members[e]
        x, y, z = r[i, 0], r[i, 1], r[i, 2]
        if theta != 0.0:
            law = impulse(
                rows.kind[i], rows.mu[i], rows.more[i], x - theta * (x - g[i, 0]), y - theta * (y - g[i, 1]),
                z - theta * (z - g[i, 2]),
            )  # fmt: skip
            r[i, 0], r[i, 1], r[i, 2] = law[0], law[1], law[2]
            push(bodies, rows, i, law[0] - x, law[1] - y, law[2] - z, v)
        g[i, 0], g[i, 1], g[i, 2] = x, y, z
    return size


@inlined
def law_residual(rows: Rows, i: int, u0: float, u1: float, u2: float) -> float:
    """How far the impulses of a group at its velocities are from their law: ``|ω r − P_C(ω r − u − s)|``."""
    w, mu = rows.w[i], rows.mu[i]
    x, y, z = w * rows.r[i, 0], w * rows.r[i, 1], w * rows.r[i, 2]
    shift = mu * math.sqrt(u0 * u0 + u1 * u1)
    law = impulse(rows.kind[i], mu, w * rows.more[i], x - u0, y - u1, z - u2 - shift)
    return math.sqrt((x - law[0]) ** 2 + (y - law[1]) ** 2 + (z - law[2]) ** 2)


@compiled
def residual_of(bodies: Bodies, rows: Rows, members: Indices, begin: int, end: int, v: Array) -> float:
    """Largest violation of the law of a group at the velocities ``v`` (m/s)."""
    worst = 0.0
    for e in range(begin, end):
        i = members[e]
        u = velocity(bodies, rows, i, v)
        own = law_residual(rows, i, u[0] + rows.d[i, 0], u[1] + rows.d[i, 1], u[2] + rows.d[i, 2])
        if not own <= worst:
            worst = own
    return worst if worst < math.inf else math.inf


@compiled
def order_blocks(
    bodies: Bodies, rows: Rows, work: Work, nodes: Indices, n_begin: int, n: int, members: Indices, begin: int, end: int
) -> int:
    """Analyse the graph of blocks; returns what `analyse` does."""
    for k in range(n * n):
        work.near[k] = 0
    for k in range(n):
        work.local[nodes[n_begin + k]] = k
    for e in range(begin, end):
        i = members[e]
        if rows.b[i] >= 0:
            j, k = work.local[rows.a[i]], work.local[rows.b[i]]
            work.near[j * n + k] = work.near[k * n + j] = 1
    for k in range(n):
        block = nodes[n_begin + k]
        work.sizes[k] = bodies.first[block + 1] - bodies.first[block]
    entries = analyse(n, work.sizes, work.near, work.degree, work.order, work.start, work.fill, work.where)
    for k in range(n):
        work.size[k], work.first[k] = work.sizes[work.order[k]], bodies.first[nodes[n_begin + work.order[k]]]
    return entries


@compiled
def linearise(bodies: Bodies, rows: Rows, members: Indices, begin: int, end: int, v: Array, delta: float) -> None:
    """``D = Q⁻¹ P S`` and ``q = −Q⁻¹ φ`` of groups at velocities ``v``."""
    D, q, r = rows.D, rows.q, rows.r
    for e in range(begin, end):
        i = members[e]
        u, w, mu = velocity(bodies, rows, i, v), rows.w[i], rows.mu[i]
        u0, u1 = u[0] + rows.d[i, 0], u[1] + rows.d[i, 1]
        t = math.sqrt(u0 * u0 + u1 * u1)
        x, y, z = w * r[i, 0], w * r[i, 1], w * r[i, 2]
        law = impulse(rows.kind[i], mu, w * rows.more[i], x - u0, y - u1, z - u[2] - rows.d[i, 2] - mu * t)
        x, y, z = law[0] - x, law[1] - y, law[2] - z
        P0, P1, P2, P3, P4, P5 = law[3], law[4], law[5], law[6], law[7], law[8]
        if rows.kind[i] != CONTACT:
            over = 1.0 / (w * (1.0 - P5 + delta))
            for k in range(9):
                D[i, k] = 0.0
            D[i, 8], q[i, 0], q[i, 1], q[i, 2] = over * P5, 0.0, 0.0, over * z
            continue
        # the inverse of Q / w by cofactors
        a, b, c = 1.0 + delta - P0, -P1, -P3
        f, g, h = 1.0 + delta - P2, -P4, 1.0 + delta - P5
        A, B, C, F, G, H = f * h - g * g, c * g - b * h, b * g - c * f, a * h - c * c, b * c - a * g, a * f - b * b
        over = 1.0 / (w * (a * A + b * B + c * C))
        q[i, 0] = over * (A * x + B * y + C * z)
        q[i, 1] = over * (B * x + F * y + G * z)
        q[i, 2] = over * (C * x + G * y + H * z)
        s0, s1 = (mu * u0 / t, mu * u1 / t) if t > STILL else (0.0, 0.0)
        for k in range(3):  # a column of P S, then of D
            if k == 0:
                x, y, z = P0 + s0 * P3, P1 + s0 * P4, P3 + s0 * P5
            elif k == 1:
                x, y, z = P1 + s1 * P3, P2 + s1 * P4, P4 + s1 * P5
            else:
                x, y, z = P3, P4, P5
            D[i, k] = over * (A * x + B * y + C * z)
            D[i, 3 + k] = over * (B * x + F * y + G * z)
            D[i, 6 + k] = over * (C * x + G * y + H * z)


@compiled
def assemble(
    bodies: Bodies, rows: Rows, work: Work, nodes: Indices, n_begin: int, n: int, members: Indices, begin: int,
    end: int, entries: int,
) -> None:  # fmt: skip
    """``M + Jᵀ D J`` by blocks into ``work.V``, and ``Jᵀ q`` into ``work.p``."""
    V, K, J, D, p = work.V, work.K, rows.J, rows.D, work.p
    for k in range(entries):
        V[k] = 0.0
    for k in range(n):
        block = nodes[n_begin + work.order[k]]
        m, at, to = work.size[k], bodies.at[block], work.where[k * n + k]
        for c in range(m * m):
            V[to + c] = bodies.M[at + c]
        for c in range(bodies.first[block], bodies.first[block + 1]):
            p[c] = 0.0
    for e in range(begin, end):
        i = members[e]
        whole = rows.kind[i] == CONTACT
        height, q0, q1, q2 = 3 if whole else 1, rows.q[i, 0], rows.q[i, 1], rows.q[i, 2]
        if D[i, 8] == 0.0 and D[i, 0] == 0.0 and D[i, 4] == 0.0 and q0 == 0.0 and q1 == 0.0 and q2 == 0.0:
            continue
        for side in range(2):
            block, at = (rows.a[i], rows.at_a[i]) if side == 0 else (rows.b[i], rows.at_b[i])
            if block < 0:
                continue
            k = work.degree[work.local[block]]
            m, f = work.size[k], bodies.first[block]
            for c in range(m):  # K = D J and Jᵀ q
                if whole:
                    x, y, z = J[at + c], J[at + m + c], J[at + 2 * m + c]
                    p[f + c] += x * q0 + y * q1 + z * q2
                    for h in range(3):
                        K[h * m + c] = D[i, 3 * h] * x + D[i, 3 * h + 1] * y + D[i, 3 * h + 2] * z
                else:
                    p[f + c] += J[at + c] * q2
                    K[c] = D[i, 8] * J[at + c]
            for other in range(2):
                left, own = (rows.a[i], rows.at_a[i]) if other == 0 else (rows.b[i], rows.at_b[i])
                if left < 0:
                    continue
                j = work.degree[work.local[left]]
                to, tall = work.where[j * n + k], work.size[j]
                for h in range(height):
                    for c in range(m):
                        x = K[h * m + c]
                        for r in range(tall):
                            V[to + c * tall + r] += x * J[own + h * tall + r]


@compiled
def keep(
    bodies: Bodies, rows: Rows, nodes: Indices, n_begin: int, n_end: int, members: Indices, begin: int, end: int,
    v: Array, r: Array, v_to: Array, r_to: Array,
) -> None:  # fmt: skip
    """Copy velocities and impulses of an island."""
    for k in range(n_begin, n_end):
        for c in range(bodies.first[nodes[k]], bodies.first[nodes[k] + 1]):
            v_to[c] = v[c]
    for e in range(begin, end):
        i = members[e]
        r_to[i, 0], r_to[i, 1], r_to[i, 2] = r[i, 0], r[i, 1], r[i, 2]


@compiled
def newton_step(
    bodies: Bodies, rows: Rows, work: Work, nodes: Indices, n_begin: int, n_end: int, members: Indices, begin: int,
    end: int, target: Array, v: Array, entries: int, delta: float,
) -> float:  # fmt: skip
    """A step from ``r`` and ``v``, which become those after it; the residual there."""
    n, r = n_end - n_begin, rows.r
    linearise(bodies, rows, members, begin, end, v, delta)
    assemble(bodies, rows, work, nodes, n_begin, n, members, begin, end, entries)
    if not factorise(n, work.size, work.start, work.fill, work.where, work.V):
        return math.inf
    substitute(n, work.size, work.first, work.start, work.fill, work.where, work.V, work.p)
    for e in range(begin, end):  # Δr = q − D J Δv
        i = members[e]
        u = velocity(bodies, rows, i, work.p)
        for k in range(3):
            D = rows.D[i, 3 * k] * u[0] + rows.D[i, 3 * k + 1] * u[1] + rows.D[i, 3 * k + 2] * u[2]
            rows.q[i, k] -= D
    for k in range(n_begin, n_end):  # from v*, as impulses on the way may be so large that changes of v are lost
        for c in range(bodies.first[nodes[k]], bodies.first[nodes[k] + 1]):
            v[c] = target[c]
    for e in range(begin, end):
        i = members[e]
        law = impulse(
            rows.kind[i], rows.mu[i], rows.more[i], r[i, 0] + rows.q[i, 0], r[i, 1] + rows.q[i, 1],
            r[i, 2] + rows.q[i, 2],
        )  # fmt: skip
        r[i, 0], r[i, 1], r[i, 2] = law[0], law[1], law[2]
        push(bodies, rows, i, law[0], law[1], law[2], v)
    return residual_of(bodies, rows, members, begin, end, v)


@compiled
def solve_island(
    bodies: Bodies, rows: Rows, work: Work, nodes: Indices, n_begin: int, n_end: int, members: Indices, begin: int,
    end: int, target: Array, v: Array, goal: float, tolerance: float, limit: int, report: Array,
) -> float:  # fmt: skip
    """Impulses of the groups ``members[begin:end]`` on the blocks ``nodes[n_begin:n_end]``; their residual (m/s).

    ``r``, and ``v``, which holds its velocities, are where the method starts. It ends at ``goal``, or after the first
    sweeps at the ``tolerance``; after ``limit`` factorisations at the best that it has met. −1: memory is too small. To
    ``report`` it adds the numbers of sweeps and of factorisations.
    """
    residual, count, attempt, entries = residual_of(bodies, rows, members, begin, end, v), 0, 0, -1
    best, sweeps = math.inf, ALONE
    while residual > EXACT * goal:
        done, before = 0, -1.0
        while done < sweeps:
            before = accelerated(bodies, rows, members, begin, end, v, before)
            done += 1
            if done == 1 or before <= goal * goal or done % BETWEEN == 0 or done == sweeps:
                residual = residual_of(bodies, rows, members, begin, end, v)
                if residual <= goal:
                    break
        report[1] += done
        sweeps = BETWEEN
        if residual < best:
            best = residual
            keep(bodies, rows, nodes, n_begin, n_end, members, begin, end, v, rows.r, work.best, work.best_r)
        if residual <= tolerance or not residual < math.inf or count >= limit:
            break
        if entries < 0:
            entries = order_blocks(bodies, rows, work, nodes, n_begin, n_end - n_begin, members, begin, end)
            if entries < 0 or entries > work.V.size:
                return TOO_SMALL
        delta = HARDEST if attempt == 0 else (SOFT if attempt == 1 else SOFTEST)
        ahead, at_start, moved = 0, residual, 0.0  # steps in a row that have not made it smaller
        keep(bodies, rows, nodes, n_begin, n_end, members, begin, end, v, rows.r, work.x, rows.trial)
        while residual > goal and count < limit and ahead < AHEAD:
            after = newton_step(
                bodies, rows, work, nodes, n_begin, n_end, members, begin, end, target, v, entries, delta
            )
            count += 1
            if after < ENOUGH * residual:
                ahead, residual, delta = 0, after, max(HARDER * delta, HARDEST)
                keep(bodies, rows, nodes, n_begin, n_end, members, begin, end, v, rows.r, work.best, work.best_r)
            else:
                ahead = ahead + 1 if after < math.inf else AHEAD
        if residual < at_start:
            keep(bodies, rows, nodes, n_begin, n_end, members, begin, end, work.best, work.best_r, v, rows.r)
            for k in range(n_begin, n_end):
                for c in range(bodies.first[nodes[k]], bodies.first[nodes[k] + 1]):
                    moved = max(moved, abs(v[c] - work.x[c]))
        if not residual < at_start or moved > ELSEWHERE * at_start:
            residual = at_start
            keep(bodies, rows, nodes, n_begin, n_end, members, begin, end, work.x, rows.trial, v, rows.r)
        best = residual
        keep(bodies, rows, nodes, n_begin, n_end, members, begin, end, v, rows.r, work.best, work.best_r)
        attempt += 1
        if residual <= goal:
            break
    report[2] += count
    if best < residual:
        keep(bodies, rows, nodes, n_begin, n_end, members, begin, end, work.best, work.best_r, v, rows.r)
        return best
    return residual
