"""Impulses of an island of bodies: sweeps, and Newton's method on the same equations, sparse.

With masses ``M``, velocities ``v*`` without impulses and rows ``u = J v + d``, impulses ``r`` obey their laws where

    ``φ(r) = w r − P_C(w r − u − s) = 0``,    ``u = J (v* + M⁻¹ Jᵀ r) + d``,

with the mobilities ``w`` of groups and the shifts ``s`` of `cone`: Coulomb's law itself, no relaxation. The residual is
the largest ``|φ_i|``, a velocity. `sweeps` find which contacts stick, slip and let go. What takes them long is in few
places of an island: stacks, and contacts that share their load arbitrarily. Newton's method solves these *parts*, the
bodies of the groups with the largest residuals and all that touches them, and larger ones from round to round.

*Compliant steps* (`solve_part`), the proximal point algorithm: with a compliance ``R = δ w`` about impulses ``c``,

    ``r(v) = P_C(c − (u + s) / R)``,    ``F(v) = M (v − v*) − Jᵀ r(v) = 0``

is regular, and solved by Newton's method with a line search on ``|F|²``. Its solution is the next ``c``, with less
compliance if it came quickly and more if it did not come: contacts that are redundant keep impulses near those before.

*Full steps* (`step_fully`) are those of Newton's method on ``φ``, with the derivative ``P`` of the projection and ``S``
of ``u + s``:

    ``Q Δr = −φ − P S J Δv``,    ``Q = w (1 − P + δ)``,    ``M Δv = Jᵀ Δr``.

They may lead over larger residuals, and out of where the others stay. Either method factorises ``M + Jᵀ D J``, a matrix
with a block for each pair of bodies that touch.

Source: Rockafellar 1976; Alart and Curnier 1991. *Deviations*: Newton's unknowns are velocities, parts, and ``δ``.
"""

from __future__ import annotations

import math

from delassus.compiler.jit.compile import compiled
from delassus.solvers.islands.cone import CONTACT, JOINT, PATCH, impulse
from delassus.solvers.islands.factor import add_six, analyse, factorise, multiply_six, substitute
from delassus.solvers.islands.patches import add_partner, advance_patch, linearise_patch, respond_patch
from delassus.solvers.islands.records import Bodies, Islands, RowGroups, StepOptions, Work
from delassus.solvers.islands.sweeps import accelerated, add_force, assign, is_moved, keep, push, residual_of, velocity
from delassus.spatial.rotations import Array

SWEEPS_A_CHECK = 10
"""Sweeps between two computations of the residual."""
SWEEPS_BEFORE_NEWTON = 60
"""Most sweeps before Newton's method."""
RESIDUAL_FOR_NEWTON = 1e-4
"""Residual over `StepOptions.speed` below which Newton's method begins earlier, where sweeps are slow."""
SLOW_SWEEPS = 0.3
"""Ratio of a residual to that of the check before from which on sweeps are slow."""
SWEEPS_AFTER_PART = 10
"""Sweeps between two parts that Newton's method solves, the first ones."""
SWEEPS_AFTER_LATE_PART = 100
"""The same of later parts."""
MAX_FACTORISATIONS = 40
"""Most factorisations of a part."""
ISLAND_GOAL = 0.01
"""Part of the tolerance at which iterations end: what rests stays."""
MAX_PARTS_WITHIN_TOLERANCE = 3
"""The same of an island within its tolerance."""
COMPLIANT_ROUNDS = 14
"""Rounds of compliant steps; full steps follow."""
PART_THRESHOLD = 0.3
"""Residual from which on contacts are in a part, over the largest one; each round has this fraction of the last."""
MOVING_THRESHOLD = 1000.0
"""Velocity over the tolerance from which on an island is not at rest."""
MOVING_GOAL = 0.5
"""Goal of parts of islands that move, over the tolerance."""
RESTING_GOAL = 1e-3
"""Goal of parts of islands at rest, over their goal: what rests in one step needs no work in the next."""
FIRST_DELTA = 0.3
"""First ``δ`` over the root of the residual over `StepOptions.speed`."""
LEAST_DELTA = 1e-7
"""Least ``δ``."""
LARGEST_DELTA = 0.3
"""Largest ``δ``."""
DELTA_RATIO = 3.0
"""Ratio of one ``δ`` to the next."""
MAX_STEPS_A_CENTRE = 10
"""Most compliant steps at one ``c``."""
CENTRE_ACCURACY = 0.1
"""Fraction of the residual at which compliant steps at one ``c`` end."""
SHORTEST_STEP = 1.0 / 64.0
"""Shortest step of the line search."""
FULL_DELTAS = (1e-8, 1e-4, 1e-2)
"""``δ`` of full steps, in turn; the first is the least."""
DECREASE = 0.5
"""Fraction of the residual that a full step has to reach."""
STEPS_WITHOUT_DECREASE = 6
"""How many full steps in a row need not."""
EXACT_FRACTION = 1e-6
"""Fraction of the residual at which iterations end, above which there is one sweep at least."""

TOO_SMALL = -1
"""In place of a count: memory is too small."""


@compiled
def order_blocks(bodies: Bodies, rows: RowGroups, work: Work) -> int:
    """Analyse the graph of the part's blocks; returns what `analyse` does."""
    graph, nodes, n, members = work.graph, work.part.nodes, work.part.node_ends[1], work.part.members
    for k in range(n * n):
        graph.near[k] = 0
    for k in range(n):
        graph.local[nodes[k]] = k
    for e in range(work.part.member_ends[1]):
        i = members[e]
        if rows.b[i] >= 0:
            j, k = graph.local[rows.a[i]], graph.local[rows.b[i]]
            graph.near[j * n + k] = graph.near[k * n + j] = 1
    for k in range(n):
        block = nodes[k]
        graph.sizes[k] = bodies.first[block + 1] - bodies.first[block]
    entries = analyse(n, graph)
    for k in range(n):
        graph.size[k], graph.first[k] = graph.sizes[graph.order[k]], bodies.first[nodes[graph.order[k]]]
    return entries


@compiled
def respond(bodies: Bodies, rows: RowGroups, work: Work, v: Array, delta: float) -> float:
    """``|F|²`` of the part in the metric of ``M⁻¹`` at velocities ``v``.

    Also impulses ``r`` of compliant groups, their derivatives ``D``, the velocities ``trial`` that these impulses make
    of ``x``, and ``p = F = M (v − trial)``.
    """
    D, r, centre, x, p = rows.memory.D, rows.r, rows.memory.g, work.trial, work.p
    nodes, members = work.part.nodes, work.part.members
    assign(bodies, work.part, 0, x, work.x)
    for e in range(work.part.member_ends[1]):
        i = members[e]
        if rows.kind[i] >= PATCH:
            respond_patch(bodies, rows, i, v, delta, x)
            continue
        u, mu, R = velocity(bodies, rows, i, v), rows.law.mu[i], delta * rows.law.w[i]
        u0, u1, over = u[0] + rows.law.d[i, 0], u[1] + rows.law.d[i, 1], 1.0 / R
        t = math.sqrt(u0 * u0 + u1 * u1)
        law = impulse(
            rows.kind[i], mu, R * rows.law.friction_offset[i], R * centre[i, 0] - u0, R * centre[i, 1] - u1,
            R * centre[i, 2] - u[2] - rows.law.d[i, 2] - mu * t,
        )  # fmt: skip
        r[i, 0], r[i, 1], r[i, 2] = over * law[0], over * law[1], over * law[2]
        push(bodies, rows, i, r[i, 0], r[i, 1], r[i, 2], x)
        P0, P1, P2 = over * law[3], over * law[4], over * law[5]
        P3, P4, P5 = over * law[6], over * law[7], over * law[8]
        s0, s1 = (mu * u0 / t, mu * u1 / t) if t > 0.0 else (0.0, 0.0)
        D[i, 0], D[i, 1], D[i, 2] = P0 + s0 * P3, P1 + s1 * P3, P3
        D[i, 3], D[i, 4], D[i, 5] = P1 + s0 * P4, P2 + s1 * P4, P4
        D[i, 6], D[i, 7], D[i, 8] = P3 + s0 * P5, P4 + s1 * P5, P5
    size = 0.0
    for k in range(work.part.node_ends[1]):
        f, at = bodies.first[nodes[k]], bodies.at[nodes[k]]
        h = bodies.first[nodes[k] + 1] - f
        fixed = is_moved(bodies, nodes[k])  # whose velocities differ by round-off alone
        for c in range(h):
            p[f + c] = 0.0
            for d in range(0 if fixed else h):
                p[f + c] += bodies.M[at + c * h + d] * (v[f + d] - x[f + d])
            size += p[f + c] * (v[f + c] - x[f + c])
    return size


@compiled
def linearise(bodies: Bodies, rows: RowGroups, part: Islands, v: Array, delta: float) -> None:
    """``D = Q⁻¹ P S`` and ``q = −Q⁻¹ φ`` of groups at velocities ``v``."""
    D, q, r = rows.memory.D, rows.memory.q, rows.r
    for e in range(part.member_ends[1]):
        i = part.members[e]
        if rows.kind[i] >= PATCH:
            linearise_patch(bodies, rows, i, v, delta)
            continue
        u, w, mu = velocity(bodies, rows, i, v), rows.law.w[i], rows.law.mu[i]
        u0, u1 = u[0] + rows.law.d[i, 0], u[1] + rows.law.d[i, 1]
        t = math.sqrt(u0 * u0 + u1 * u1)
        x, y, z = w * r[i, 0], w * r[i, 1], w * r[i, 2]
        offset, u2 = rows.law.friction_offset[i], u[2] + rows.law.d[i, 2]
        law = impulse(rows.kind[i], mu, w * offset, x - u0, y - u1, z - u2 - mu * t)
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
        s0, s1 = (mu * u0 / t, mu * u1 / t) if t > 0.0 else (0.0, 0.0)
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
def assemble(bodies: Bodies, rows: RowGroups, work: Work, entries: int) -> None:
    """``M + Jᵀ D J`` of the part by blocks into ``work.V``."""
    V, K, J, D, graph = work.V, work.K, rows.J, rows.memory.D, work.graph
    nodes, n = work.part.nodes, work.part.node_ends[1]
    for k in range(entries):
        V[k] = 0.0
    for k in range(n):
        block = nodes[graph.order[k]]
        m, at, to = graph.size[k], bodies.at[block], graph.where[k * n + k]
        for c in range(m * m):
            V[to + c] = bodies.M[at + c]
    for e in range(work.part.member_ends[1]):
        i = work.part.members[e]
        whole, patch = rows.kind[i] != JOINT, rows.kind[i] - PATCH  # below 0: none
        height = 3 if whole else 1
        if D[i, 8] == 0.0 and D[i, 0] == 0.0 and D[i, 4] == 0.0:
            continue
        for side in range(2):
            block, at = (rows.a[i], rows.at_a[i]) if side == 0 else (rows.b[i], rows.at_b[i])
            if block < 0:
                continue
            k = graph.degree[graph.local[block]]
            m = graph.size[k]
            if whole and m == 6:
                multiply_six(D, i, J, at, K)
            for c in range(0 if whole and m == 6 else m):  # K = D J
                if whole:
                    a, b, h = J[at + c], J[at + m + c], J[at + 2 * m + c]
                    for s in range(3):
                        K[s * m + c] = D[i, 3 * s] * a + D[i, 3 * s + 1] * b + D[i, 3 * s + 2] * h
                else:
                    K[c] = D[i, 8] * J[at + c]
            if patch >= 0:
                add_partner(rows, i, patch == 1, side, m, K)
            for other in range(2):
                left, own = (rows.a[i], rows.at_a[i]) if other == 0 else (rows.b[i], rows.at_b[i])
                if left < 0:
                    continue
                j = graph.degree[graph.local[left]]
                to, tall = graph.where[j * n + k], graph.size[j]
                if whole and m == 6 and tall == 6:
                    add_six(V, to, K, J, own)
                    continue
                for s in range(height):
                    for c in range(m):
                        y = K[s * m + c]
                        for r in range(tall):
                            V[to + c * tall + r] += y * J[own + s * tall + r]


@compiled
def choose_part(rows: RowGroups, work: Work, islands: Islands, k: int, worst: float) -> None:
    """Part of an island: groups on bodies whose groups are above ``worst``, and all blocks that these are on."""
    begin, end = islands.member_ends[k], islands.member_ends[k + 1]
    members, part, local = islands.members, work.part, work.graph.local
    for e in range(begin, end):
        i = members[e]
        local[rows.a[i]] = 0
        if rows.b[i] >= 0:
            local[rows.b[i]] = 0
    for e in range(begin, end):
        i = members[e]
        if rows.wrong[i] > worst:
            local[rows.a[i]] = 1
            if rows.b[i] >= 0:
                local[rows.b[i]] = 1
    m = n = 0
    for e in range(begin, end):
        i = members[e]
        if local[rows.a[i]] == 1 or (rows.b[i] >= 0 and local[rows.b[i]] == 1):
            part.members[m] = i
            m += 1
    for e in range(m):
        i = part.members[e]
        local[rows.a[i]] = 2
        if rows.b[i] >= 0:
            local[rows.b[i]] = 2
    for e in range(islands.node_ends[k], islands.node_ends[k + 1]):
        if local[islands.nodes[e]] == 2:
            part.nodes[n] = islands.nodes[e]
            n += 1
    part.node_ends[1], part.member_ends[1] = n, m


@compiled
def restore_centre(bodies: Bodies, rows: RowGroups, part: Islands, v: Array) -> None:
    """Impulses ``r`` as ``centre`` has them, whose velocities are added to ``v``."""
    r, centre = rows.r, rows.memory.g
    for e in range(part.member_ends[1]):
        i = part.members[e]
        r[i, 0], r[i, 1], r[i, 2] = centre[i, 0], centre[i, 1], centre[i, 2]
        push(bodies, rows, i, r[i, 0], r[i, 1], r[i, 2], v)


@compiled
def set_centre(rows: RowGroups, part: Islands) -> None:
    """``centre ← r``."""
    r, centre = rows.r, rows.memory.g
    for e in range(part.member_ends[1]):
        i = part.members[e]
        centre[i, 0], centre[i, 1], centre[i, 2] = r[i, 0], r[i, 1], r[i, 2]


@compiled
def begin_part(bodies: Bodies, rows: RowGroups, work: Work, v: Array) -> int:
    """Velocities without the impulses of the part into ``work.x``; returns how many entries its matrix has, or −1."""
    assign(bodies, work.part, 0, work.x, v)
    for e in range(work.part.member_ends[1]):
        i = work.part.members[e]
        push(bodies, rows, i, -rows.r[i, 0], -rows.r[i, 1], -rows.r[i, 2], work.x)
    entries = order_blocks(bodies, rows, work)
    return -1 if entries > work.V.size else entries


@compiled
def solve_part(
    bodies: Bodies, rows: RowGroups, work: Work, v: Array, residual: float, goal: float, entries: int, speed: float
) -> int:  # fmt: skip
    """Compliant steps for the part, to a residual of ``goal``; their number."""
    part, n, x, p = work.part, work.part.node_ends[1], work.trial, work.p
    delta, count = min(max(FIRST_DELTA * math.sqrt(residual / speed), LEAST_DELTA), 0.1), 0
    while residual > goal and count < MAX_FACTORISATIONS and delta <= LARGEST_DELTA:
        set_centre(rows, part)
        size = respond(bodies, rows, work, v, delta)
        good, inner, after = False, 0, math.inf
        while not good and inner < MAX_STEPS_A_CENTRE and count < MAX_FACTORISATIONS:
            assemble(bodies, rows, work, entries)
            inner += 1
            count += 1
            if not factorise(n, work.graph, work.V):
                break
            substitute(n, work.graph, work.V, p, 1)
            assign(bodies, part, 0, work.start_part, v)
            assign(bodies, part, 0, work.direction, p)
            step, new = 1.0, math.inf
            while True:
                for k in range(n):
                    for c in range(bodies.first[part.nodes[k]], bodies.first[part.nodes[k] + 1]):
                        v[c] = work.start_part[c] - step * work.direction[c]
                new = respond(bodies, rows, work, v, delta)
                if step <= SHORTEST_STEP or new < (1.0 - 0.02 * step) * size:
                    break
                step *= 0.5
            size, error = new, 0.0
            for k in range(n):
                for c in range(bodies.first[part.nodes[k]], bodies.first[part.nodes[k] + 1]):
                    error = max(error, abs(v[c] - x[c]))
            after = residual_of(bodies, rows, part, 0, x)
            good = after <= goal or error <= CENTRE_ACCURACY * after or after <= CENTRE_ACCURACY * residual
        if good or after < residual:
            residual = after
        else:
            assign(bodies, part, 0, x, work.x)
            restore_centre(bodies, rows, part, x)
        assign(bodies, part, 0, v, x)
        if not good:
            delta *= DELTA_RATIO
        elif inner <= MAX_STEPS_A_CENTRE // 2:
            delta = max(delta / DELTA_RATIO, LEAST_DELTA)
    return count


@compiled
def step_fully(
    bodies: Bodies, rows: RowGroups, work: Work, v: Array, residual: float, goal: float, entries: int, delta: float
) -> int:
    """Full steps for the part, from ``δ`` on; their number."""
    part, p, r, q, D = work.part, work.p, rows.r, rows.memory.q, rows.memory.D
    n, m = part.node_ends[1], part.member_ends[1]
    count, ahead = 0, 0  # steps, and those in a row that have not made the residual smaller
    set_centre(rows, part)
    while residual > goal and count < MAX_FACTORISATIONS and ahead < STEPS_WITHOUT_DECREASE:
        linearise(bodies, rows, part, v, delta)
        assemble(bodies, rows, work, entries)
        count += 1
        if not factorise(n, work.graph, work.V):
            break
        for k in range(n):
            for c in range(bodies.first[part.nodes[k]], bodies.first[part.nodes[k] + 1]):
                p[c] = 0.0
        for e in range(m):
            add_force(bodies, rows, part.members[e], p)
        substitute(n, work.graph, work.V, p, 1)
        # from v*, as impulses on the way may be so large that changes of v are lost
        assign(bodies, part, 0, v, work.x)
        for e in range(m):
            i = part.members[e]
            if rows.kind[i] >= PATCH:
                advance_patch(bodies, rows, i, p, v)
                continue
            u = velocity(bodies, rows, i, p)
            for k in range(3):  # Δr = q − D J Δv
                q[i, k] -= D[i, 3 * k] * u[0] + D[i, 3 * k + 1] * u[1] + D[i, 3 * k + 2] * u[2]
            x, y, z = r[i, 0] + q[i, 0], r[i, 1] + q[i, 1], r[i, 2] + q[i, 2]
            law = impulse(rows.kind[i], rows.law.mu[i], rows.law.friction_offset[i], x, y, z)
            r[i, 0], r[i, 1], r[i, 2] = law[0], law[1], law[2]
            push(bodies, rows, i, law[0], law[1], law[2], v)
        after = residual_of(bodies, rows, part, 0, v)
        if after < DECREASE * residual:
            ahead, residual, delta = 0, after, max(delta / DELTA_RATIO, FULL_DELTAS[0])
            set_centre(rows, part)
        else:
            ahead = ahead + 1 if after < math.inf else STEPS_WITHOUT_DECREASE
    assign(bodies, part, 0, v, work.x)
    restore_centre(bodies, rows, part, v)
    return count


@compiled
def is_moving(bodies: Bodies, islands: Islands, k: int, v: Array, least: float) -> bool:
    """Whether a velocity of an island is above ``least``."""
    for e in range(islands.node_ends[k], islands.node_ends[k + 1]):
        for c in range(bodies.first[islands.nodes[e]], bodies.first[islands.nodes[e] + 1]):
            if abs(v[c]) > least:
                return True
    return False


@compiled
def solve_island(
    bodies: Bodies, rows: RowGroups, work: Work, islands: Islands, k: int, v: Array, options: StepOptions, report: Array
) -> float:
    """Impulses of the groups on an island; their residual (m/s).

    ``r``, and ``v``, which holds its velocities, are where the method starts. It ends at a part of the tolerance where
    an island is at rest, at the tolerance where it moves, and after ``max_iterations`` sweeps or ``max_parts``. What is
    returned is the best that it has met. −1: memory is too small. To ``report`` it adds the numbers of sweeps and
    factorisations.
    """
    tolerance, goal = options.tolerance, ISLAND_GOAL * options.tolerance
    size = islands.member_ends[k + 1] - islands.member_ends[k]
    residual = residual_of(bodies, rows, islands, k, v)
    best, count, done, most, share, enough = math.inf, 0, 0, SWEEPS_BEFORE_NEWTON, PART_THRESHOLD, goal
    while residual > EXACT_FRACTION * goal:
        before, begun = -1.0, done
        while done - begun < most and done < options.max_iterations:
            before = accelerated(bodies, rows, islands, k, v, before)
            done += 1
            if done == 1 or before <= goal * goal or (done - begun) % SWEEPS_A_CHECK == 0:
                last, residual = residual, residual_of(bodies, rows, islands, k, v)
                if goal < residual <= tolerance:
                    moving = is_moving(bodies, islands, k, v, MOVING_THRESHOLD * tolerance)
                    enough = tolerance if moving else goal
                slow = done > 1 and (residual > SLOW_SWEEPS * last or residual <= tolerance)  # or at rest
                if residual <= enough or (slow and residual < RESIDUAL_FOR_NEWTON * options.speed):
                    break
        most = SWEEPS_AFTER_PART if count < COMPLIANT_ROUNDS else SWEEPS_AFTER_LATE_PART
        if residual < best:
            best = residual
            keep(bodies, islands, k, v, rows.r, work.best, work.best_r)
        if residual <= enough or not best < math.inf or count >= options.max_parts or done >= options.max_iterations:
            break
        if not residual < math.inf:  # a step has gone astray
            residual = best
            keep(bodies, islands, k, work.best, work.best_r, v, rows.r)
        if best <= tolerance and count >= MAX_PARTS_WITHIN_TOLERANCE:
            break
        at_rest = not is_moving(bodies, islands, k, v, MOVING_THRESHOLD * tolerance)
        part_goal = RESTING_GOAL * goal if at_rest else MOVING_GOAL * tolerance
        choose_part(rows, work, islands, k, max(share * residual, 0.1 * enough))
        entries = begin_part(bodies, rows, work, v)
        if entries < 0:
            return TOO_SMALL
        if count >= COMPLIANT_ROUNDS:
            delta = FULL_DELTAS[min(count - COMPLIANT_ROUNDS, 2)]
            report[2] += step_fully(bodies, rows, work, v, residual, part_goal, entries, delta)
        else:
            report[2] += solve_part(bodies, rows, work, v, residual, part_goal, entries, options.speed)
        count += 1
        share *= PART_THRESHOLD
        if work.part.member_ends[1] == size:
            residual = residual_of(bodies, rows, islands, k, v)
            if residual < best:
                best = residual
                keep(bodies, islands, k, v, rows.r, work.best, work.best_r)
            if residual <= goal:
                break
    report[1] += done
    if best < residual:
        keep(bodies, islands, k, work.best, work.best_r, v, rows.r)
        return best
    return residual
