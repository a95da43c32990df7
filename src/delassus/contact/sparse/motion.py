"""Motion of blocks without constraints, and their positions after a step.

Blocks are evaluated by the kernels of their kinds. The motion of free bodies needs none: with the spatial inertia ``H``
and momentum ``H v`` in the axes of the start of the step, which do not turn, ``v* = v + dt (H⁻¹ τ + g)``. All positions
are those of `delassus.algorithms.dynamics.integrate.position_update`.
"""

from __future__ import annotations

from delassus.compiler.jit.compile import compiled
from delassus.compiler.jit.memory import call_at
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.factor import backward, cholesky, forward
from delassus.contact.sparse.flow import flow_loops
from delassus.contact.sparse.loops import close_loops
from delassus.contact.sparse.records import Bodies, Model, Options, State
from delassus.spatial.rotations import Array

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
    n = model.free[1]
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
def integrate_positions(state: State, updates: Indices, free: Indices, asleep: Indices) -> None:
    """``q`` and ``v`` after a step with the velocities ``after``, displaced by ``shift``; what sleeps stays."""
    for k in range(updates.shape[0]):
        call = updates[k]
        call_at(call[0], call[1], call[2], call[3], call[4], call[5], call[6], call[7])
    if free[1] > 0:
        call_at(free[0], free[1], free[2], free[3], free[4], free[5], free[6], free[7], free[8])
    for b in range(free[1]):
        if asleep[b] > 0:
            for k in range(7 * b, 7 * b + 7):
                state.q_next[k] = state.q[k]
            for k in range(6 * b, 6 * b + 6):
                state.v_next[k] = 0.0
