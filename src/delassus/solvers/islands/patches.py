"""Patches: contacts whose friction holds relative angular velocities, too; see `delassus.solvers.islands.cone`.

Friction of a patch is that of a point, ``p_t``, and torques ``T`` over lengths ``l``, all as one vector in a cone:

    ``|p_t|² + (μ T_n / l_n)² + |μ T_t / l_t|² ≤ (μ p_n)²``,

and of all vectors in it that which takes the most energy: opposite to ``(u_t, l_t ω_t / μ, l_n ω_n / μ)`` where that is
not zero. De Saxcé's shift is ``μ`` times the length of this whole vector: with that of the tangents alone, what spins
would lift off at ``l_n |ω_n|``. Without Coulomb's friction, lengths are not over ``μ``.
Source: Howe and Cutkosky 1996, the limit surface of a soft finger as an ellipsoid. MuJoCo has the same cone.
"""

from __future__ import annotations

from delassus.algorithms.contact.problem import PROXIMAL
from delassus.compiler.jit.compile import compiled
from delassus.solvers.islands.cone import (
    ALONG,
    BESIDE,
    CHANGE,
    KEPT,
    MOBILITY,
    OF_SPIN,
    PATCH,
    SHIFTED,
    TAKEN,
    patch_law,
    patch_step,
)
from delassus.solvers.islands.records import Bodies, RowGroups
from delassus.solvers.islands.sweeps import push_patch, put_patch, read_patch, velocity
from delassus.spatial.rotations import Array


@compiled
def prepare_patch(bodies: Bodies, rows: RowGroups, i: int) -> None:
    """Mobility and mean mobility of a patch and of its spin, and what its own problem adds to it."""
    j, x, J, Y, law = rows.law.partner[i], rows.law.patch[i], rows.J, rows.Y, rows.law
    for r in range(3):
        for s in range(3):
            x[MOBILITY + 6 * r + s], x[MOBILITY + 21 + 6 * r + s] = law.W[i, r, s], law.W[j, r, s]
            x[MOBILITY + 3 + 6 * r + s] = 0.0
    for side in range(2):
        block, at, to = (
            (rows.a[i], rows.at_a[i], rows.at_a[j]) if side == 0 else (rows.b[i], rows.at_b[i], rows.at_b[j])
        )
        if block >= 0:
            m = bodies.first[block + 1] - bodies.first[block]
            for r in range(3):
                for s in range(3):
                    for c in range(m):
                        x[MOBILITY + 3 + 6 * r + s] += Y[at + r * m + c] * J[to + s * m + c]
    total = 0.0
    for r in range(6):
        total += x[MOBILITY + 7 * r]
        for s in range(r):
            x[MOBILITY + 6 * r + s] = x[MOBILITY + 6 * s + r]
    law.w[i] = law.w[j] = total / 3.0 if total > 0.0 else 1.0
    law.R[i] = law.R[j] = 0.0
    law.prepared[i, 0] = PROXIMAL * law.w[i]


@compiled
def put_derivative(rows: RowGroups, i: int, across: float, along: float, both: float, normal: float) -> None:
    """``D`` of a patch: ``R S``, ``R`` as derivatives of `patch_law` are, and ``S`` that of ``u + s``."""
    j, x, D = rows.law.partner[i], rows.law.patch[i], rows.memory.D
    for r in range(6):
        e, is_normal = x[ALONG + r], 1.0 if r == 2 else 0.0
        for s in range(6):
            one = along * e * x[ALONG + s] + (both * e + normal * is_normal) * x[SHIFTED + s]
            one += both * is_normal * x[ALONG + s] - across * e * x[ALONG + s]
            if s == 2:
                one += both * e + normal * is_normal
            elif r == s:
                one += across
            if r < 3 and s < 3:
                D[i, 3 * r + s] = one
            elif r < 3:
                x[BESIDE + 3 * r + s - 3] = one
            elif s < 3:
                x[OF_SPIN + 3 * (r - 3) + s] = one
            else:
                D[j, 3 * (r - 3) + s - 3] = one


@compiled
def respond_patch(bodies: Bodies, rows: RowGroups, i: int, v: Array, delta: float, to: Array) -> None:
    """What `delassus.solvers.islands.newton.respond` does for a patch; for its spin, nothing more."""
    if rows.kind[i] == PATCH:
        x, centre, j, R = rows.law.patch[i], rows.memory.g, rows.law.partner[i], delta * rows.law.w[i]
        read_patch(bodies, rows, i, v)
        for c in range(3):
            x[TAKEN + c], x[TAKEN + 3 + c] = centre[i, c], centre[j, c]
        across, along, both, normal, n = patch_step(rows.law.mu[i], R * rows.law.friction_offset[i], R, x)
        over = 1.0 / R
        for c in range(6):
            x[CHANGE + c] = over * x[KEPT + c]
        put_patch(rows, i, 1.0, over * n)
        push_patch(bodies, rows, i, to)
        put_derivative(rows, i, over * across, over * along, over * both, over * normal)


@compiled
def linearise_patch(bodies: Bodies, rows: RowGroups, i: int, v: Array, delta: float) -> None:
    """What `delassus.solvers.islands.newton.linearise` does for a patch; of ``Q``, the inverse along its direction."""
    if rows.kind[i] == PATCH:
        x, q, j, w, more = rows.law.patch[i], rows.memory.q, rows.law.partner[i], rows.law.w[i], 1.0 + delta
        read_patch(bodies, rows, i, v)
        across, along, both, normal, _ = patch_step(rows.law.mu[i], w * rows.law.friction_offset[i], w, x)
        over, beside = 1.0 / (w * ((more - along) * (more - normal) - both * both)), 1.0 / (w * (more - across))
        a, b, c = over * (more - normal), over * both, over * (more - along)
        e = 0.0
        for k in range(6):
            e += x[ALONG + k] * x[CHANGE + k]
        n = x[CHANGE + 2]
        for k in range(6):
            own = beside * (x[CHANGE + k] - e * x[ALONG + k]) + (a * e + b * n) * x[ALONG + k]
            own = b * e + c * n if k == 2 else own
            if k < 3:
                q[i, k] = own
            else:
                q[j, k - 3] = own
        put_derivative(rows, i, beside * across, a * along + b * both, a * both + b * normal, b * both + c * normal)


@compiled
def advance_patch(bodies: Bodies, rows: RowGroups, i: int, p: Array, v: Array) -> None:
    """What full steps of Newton's method do for a patch: its impulse by ``q − D J p``, whose velocities ``v`` gets."""
    if rows.kind[i] == PATCH:
        x, q, D, j = rows.law.patch[i], rows.memory.q, rows.memory.D, rows.law.partner[i]
        u, w = velocity(bodies, rows, i, p), velocity(bodies, rows, j, p)
        for k in range(3):
            q[i, k] -= D[i, 3 * k] * u[0] + D[i, 3 * k + 1] * u[1] + D[i, 3 * k + 2] * u[2]
            q[i, k] -= x[BESIDE + 3 * k] * w[0] + x[BESIDE + 3 * k + 1] * w[1] + x[BESIDE + 3 * k + 2] * w[2]
            q[j, k] -= x[OF_SPIN + 3 * k] * u[0] + x[OF_SPIN + 3 * k + 1] * u[1] + x[OF_SPIN + 3 * k + 2] * u[2]
            q[j, k] -= D[j, 3 * k] * w[0] + D[j, 3 * k + 1] * w[1] + D[j, 3 * k + 2] * w[2]
            x[CHANGE + k], x[CHANGE + 3 + k] = rows.r[i, k] + q[i, k], rows.r[j, k] + q[j, k]
        law = patch_law(rows.law.mu[i], rows.law.friction_offset[i], x, CHANGE)
        put_patch(rows, i, law[0], law[1])
        push_patch(bodies, rows, i, v)


@compiled
def add_partner(rows: RowGroups, i: int, is_spin: bool, side: int, m: int, K: Array) -> None:
    """``K += D J`` of the partner of a patch or spin on the block of a side, of ``m`` degrees of freedom."""
    j = rows.law.partner[i]
    at = rows.at_a[j] if side == 0 else rows.at_b[j]
    x, first = (rows.law.patch[j], OF_SPIN) if is_spin else (rows.law.patch[i], BESIDE)
    for c in range(m):
        for s in range(3):
            for k in range(3):
                K[s * m + c] += x[first + 3 * s + k] * rows.J[at + k * m + c]
