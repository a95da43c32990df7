"""Motion of blocks without constraints, and their positions after a step.

Blocks are evaluated by the kernels of their kinds. Free bodies need none: with the spatial inertia ``H`` and momentum
``H v`` in the axes of the start of the step, which do not turn, ``v* = v + dt (H⁻¹ τ + g)``. At its end the centre of
mass has moved straight and the angular momentum about it is the same in the axes of the world: it is carried over to
the new axes, and not the angular velocity, so that momentum is conserved. The rotation over the step is that of the
mean of the angular velocities at its two ends (implicit midpoint rule), of second order.
"""

from __future__ import annotations

import math

from delassus.compiler.jit.compile import compiled
from delassus.compiler.jit.memory import call_at
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.factor import backward, cholesky, forward
from delassus.contact.sparse.flow import flow_loops
from delassus.contact.sparse.loops import close_loops
from delassus.contact.sparse.records import Bodies, Free, Model, Options, State
from delassus.spatial.rotations import Array

ROTATIONS = 3
"""Iterations of the mean angular velocity."""

LEAST_RCOND = 1e-13
"""Reciprocal condition of the mass matrix below which accelerations are not trusted."""


@compiled
def free_motion(model: Model, bodies: Bodies, state: State, options: Options, x: Array) -> tuple[bool, bool]:
    """Poses, twists, masses and ``target`` of all blocks; whether mass matrices are regular, and motions resolved.

    ``x`` is memory.
    """
    first, q, v, gravity, motions = bodies.first, state.q, state.v, model.gravity, model.motions
    for k in range(motions.shape[0]):
        call = motions[k]
        arrays = (call[2], call[3], call[4], call[5], call[6], call[7], call[8], call[9], call[10], call[11], call[12])
        call_at(call[0], call[1], arrays)
    n = model.free.mass.size
    for b in range(n):
        at, f, T = 7 * b, 6 * b, state.poses[b]
        rotation_of(q[at + 3], q[at + 4], q[at + 5], q[at + 6], T)
        for r in range(3):
            T[r, 3] = q[at + r]
        for c in range(6):
            state.twists[b, c] = v[f + c]
            state.qdd[f + c] = state.tau[f + c]
        forward(bodies.L, bodies.at[b], 6, state.qdd, f)
        backward(bodies.L, bodies.at[b], 6, state.qdd, f)
        for r in range(3):
            state.qdd[f + r] += T[0, r] * gravity[0] + T[1, r] * gravity[1] + T[2, r] * gravity[2]
    for c in range(v.size):
        state.target[c] = v[c] + options.dt * state.qdd[c]
    regular = True
    for k in range(state.rcond.size):
        regular = regular and state.rcond[k] >= LEAST_RCOND
    for b in range(n, bodies.at.size):
        at, m = bodies.at[b], first[b + 1] - first[b]
        for c in range(m * m):
            bodies.M[at + c] = bodies.L[at + c] = bodies.mass[at + c]
        regular = cholesky(bodies.L, at, m) and regular
    for k in range(model.loops.shape[0]):
        close_loops(bodies, state, model.loops[k], x)
    return regular, flow_loops(bodies, state, model.flow, model.loops, options.dt, options.correction)


@compiled
def rotation_of(x: float, y: float, z: float, w: float, T: Array) -> None:
    """Rotation of a quaternion into a pose."""
    T[0, 0], T[0, 1], T[0, 2] = 1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)
    T[1, 0], T[1, 1], T[1, 2] = 2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)
    T[2, 0], T[2, 1], T[2, 2] = 2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)


@compiled
def rotated(x: float, y: float, z: float, a: float, b: float, c: float) -> tuple[float, float, float]:
    """``exp(−[x y z]) (a, b, c)``: a vector in axes that have turned by a rotation vector."""
    angle = math.sqrt(x * x + y * y + z * z)
    if angle > 1e-8:
        s, t = math.sin(angle) / angle, (1.0 - math.cos(angle)) / (angle * angle)
    else:
        s, t = 1.0, 0.5
    u0, u1, u2 = b * z - c * y, c * x - a * z, a * y - b * x  # (a, b, c) × axis
    return (
        a + s * u0 + t * (u1 * z - u2 * y), b + s * u1 + t * (u2 * x - u0 * z), c + s * u2 + t * (u0 * y - u1 * x),
    )  # fmt: skip


@compiled
def multiply(A: Array, x: float, y: float, z: float) -> tuple[float, float, float]:
    """``A`` times a vector."""
    return (
        A[0, 0] * x + A[0, 1] * y + A[0, 2] * z, A[1, 0] * x + A[1, 1] * y + A[1, 2] * z,
        A[2, 0] * x + A[2, 1] * y + A[2, 2] * z,
    )  # fmt: skip


@compiled
def integrate_positions(bodies: Bodies, free: Free, state: State, updates: Indices, asleep: Indices, dt: float) -> None:
    """``q`` and ``v`` after a step with the velocities ``after``, displaced by ``shift``."""
    q, after, shift = state.q_next, state.after, state.shift
    for k in range(updates.shape[0]):
        call = updates[k]
        call_at(call[0], call[1], call[2], call[3], call[4], call[5], call[6], call[7])
    for b in range(free.mass.size):
        at, f, T, c = 7 * b, 6 * b, state.poses[b], free.centre[b]
        if asleep[b] > 0:
            for k in range(7):
                q[at + k] = state.q[at + k]
            for k in range(6):
                state.v_next[f + k] = 0.0
            continue
        w0, w1, w2 = after[f + 3], after[f + 4], after[f + 5]
        s0, s1, s2 = shift[f + 3], shift[f + 4], shift[f + 5]
        v0 = after[f] + w1 * c[2] - w2 * c[1]
        v1 = after[f + 1] + w2 * c[0] - w0 * c[2]
        v2 = after[f + 2] + w0 * c[1] - w1 * c[0]
        L = multiply(free.inertia[b], w0, w1, w2)
        t0, t1, t2, end = dt * w0, dt * w1, dt * w2, (w0, w1, w2)
        for _ in range(ROTATIONS):
            own = rotated(t0, t1, t2, L[0], L[1], L[2])
            end = multiply(free.inverse[b], own[0], own[1], own[2])
            t0, t1, t2 = 0.5 * dt * (w0 + end[0]), 0.5 * dt * (w1 + end[1]), 0.5 * dt * (w2 + end[2])
        own = rotated(t0, t1, t2, L[0], L[1], L[2])
        end = multiply(free.inverse[b], own[0], own[1], own[2])
        if s0 != 0.0 or s1 != 0.0 or s2 != 0.0:  # the displacement leaves the velocity in the world as it is
            end = rotated(-t0, -t1, -t2, end[0], end[1], end[2])
            t0, t1, t2 = t0 + s0, t1 + s1, t2 + s2
            end = rotated(t0, t1, t2, end[0], end[1], end[2])
        # centre: straight; origin: the centre less its arm after the rotation
        d0 = c[0] + dt * v0 + shift[f] + s1 * c[2] - s2 * c[1]
        d1 = c[1] + dt * v1 + shift[f + 1] + s2 * c[0] - s0 * c[2]
        d2 = c[2] + dt * v2 + shift[f + 2] + s0 * c[1] - s1 * c[0]
        arm = rotated(-t0, -t1, -t2, c[0], c[1], c[2])
        d0, d1, d2 = d0 - arm[0], d1 - arm[1], d2 - arm[2]
        for r in range(3):
            q[at + r] = T[r, 3] + T[r, 0] * d0 + T[r, 1] * d1 + T[r, 2] * d2
        angle = math.sqrt(t0 * t0 + t1 * t1 + t2 * t2)
        s = math.sin(0.5 * angle) / angle if angle > 1e-8 else 0.5
        x, y, z, w = s * t0, s * t1, s * t2, math.cos(0.5 * angle)
        x0, y0, z0, w0 = state.q[at + 3], state.q[at + 4], state.q[at + 5], state.q[at + 6]
        a, b0 = w0 * x + x0 * w + y0 * z - z0 * y, w0 * y - x0 * z + y0 * w + z0 * x
        c0, e = w0 * z + x0 * y - y0 * x + z0 * w, w0 * w - x0 * x - y0 * y - z0 * z
        scale = 1.0 / math.sqrt(a * a + b0 * b0 + c0 * c0 + e * e)
        q[at + 3], q[at + 4], q[at + 5], q[at + 6] = scale * a, scale * b0, scale * c0, scale * e
        own = rotated(t0, t1, t2, v0, v1, v2)
        v = state.v_next
        v[f + 3], v[f + 4], v[f + 5] = end
        v[f] = own[0] - end[1] * c[2] + end[2] * c[1]
        v[f + 1] = own[1] - end[2] * c[0] + end[0] * c[2]
        v[f + 2] = own[2] - end[0] * c[1] + end[1] * c[0]
