"""Loops of a block: their rows made orthonormal, velocities that they leave, gaps that are taken back, their motion.

With ``M = L Lᵀ``, the rows ``Q`` of `orthonormalise` are those of ``J L⁻ᵀ``: what loops leave of a velocity ``v`` or an
impulse is ``L⁻ᵀ (1 − Qᵀ Q) Lᵀ v``, and dependent rows are none.

Between contacts a block with loops moves by `delassus.algorithms.dynamics.smooth_motion`. Contacts, limits and friction
of joints act on the whole step, by the geometry of its start: `add_smooth_motion` adds what their impulses change to
what the smooth motion does.
"""

from __future__ import annotations

import math

from delassus.accuracy.rank import REGULAR_CONDITION
from delassus.algorithms.osim.least_squares import UNMOVED
from delassus.compiler.jit.compile import compiled, inlined
from delassus.compiler.jit.memory import call_at, load
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.records import BlockStates, LoopMotion, LoopState
from delassus.runtime.rollouts.sub_steps import OPEN
from delassus.solvers.islands.factor import backward, forward, product
from delassus.solvers.islands.records import Bodies, RowGroups
from delassus.spatial.rotations import Array

ENERGY_GAIN = 0.02
"""Fraction of the kinetic energy that a step may gain beyond the work of joint forces."""

GAIN_CHECKED_BELOW = 1e-8
"""Errors of loops (m, rad) at the start up to which that is checked: to take back larger ones takes work."""

ROUND_OFF = 1e-14
"""Displacement (m, rad) of joints that is round-off of closed loops: the work along it counts as none.

So does the energy of springs, ``½ k δ²``: those that sub-steps follow have ``k dt²`` below the inertias of joints.
"""

YIELDING = 1e-8
"""Compliance of loops over their mobility, in Newton's method alone."""


@compiled
def orthonormalise(L: Array, at: int, m: int, Q: Array, start: int, n: int, loops: LoopState, k0: int) -> None:
    """Rows ``Q`` (n, m) at ``start`` become orthonormal rows ``q = L⁻¹ Jᵀ``, and right sides those along them.

    Those first that differ most from the ones before. What depends on others (`REGULAR_CONDITION`) becomes zero, and so
    does what nothing moves (`UNMOVED`, of usual ``mobilities``). These and right sides, ``gaps``, begin at ``k0``.
    """
    gaps = loops.gaps
    for k in range(n):
        row = start + k * m
        forward(L, at, m, Q, row)
        size = product(Q, row, Q, row, m)
        scale(Q, row, m, gaps, k0 + k, 1.0 / math.sqrt(size) if size > UNMOVED * loops.mobilities[k0 + k] else 0.0)
    for k in range(n):
        row, best, largest = start + k * m, k, 0.0
        for other in range(k, n):
            size = product(Q, start + other * m, Q, start + other * m, m)
            if size > largest:
                best, largest = other, size
        for c in range(m):
            to = start + best * m + c
            Q[row + c], Q[to] = Q[to], Q[row + c]
        gaps[k0 + k], gaps[k0 + best] = gaps[k0 + best], gaps[k0 + k]
        for other in range(k):  # once more, for round-off
            subtract(Q, row, start + other * m, m, gaps, k0 + k, k0 + other)
        scale(Q, row, m, gaps, k0 + k, 1.0 / math.sqrt(largest) if largest > REGULAR_CONDITION else 0.0)
        size = product(Q, row, Q, row, m)
        scale(Q, row, m, gaps, k0 + k, 1.0 / math.sqrt(size) if size > 0.0 else 0.0)
        for other in range(k + 1, n):
            subtract(Q, start + other * m, row, m, gaps, k0 + other, k0 + k)


@compiled
def multiply_by_transpose(L: Array, at: int, m: int, v: Array, i: int, x: Array) -> None:
    """``x = Lᵀ v`` of the part of ``v`` at ``i``."""
    for c in range(m):
        total = v[i + c] / L[at + c * m + c]
        for r in range(c + 1, m):
            total += L[at + c * m + r] * v[i + r]
        x[c] = total


@compiled
def remove_loop_rows(Q: Array, start: int, n: int, m: int, x: Array) -> None:
    """``x ← x − Qᵀ Q x``: what loops leave of ``x = Lᵀ v``."""
    for k in range(n):
        row = start + k * m
        u = product(Q, row, x, 0, m)
        for c in range(m):
            x[c] -= u * Q[row + c]


@compiled
def close_loops(bodies: Bodies, state: BlockStates, loop: Indices, x: Array) -> None:
    """Orthonormal rows of a block's loops in place of their Jacobian.

    ``loop`` is the block, the number of rows, and where they begin in ``bodies.Q`` and ``errors``; ``x`` is memory.
    Errors along the rows become ``gaps``. Newton's method sees loops as springs that hardly yield:
    ``M ← L (1 + Qᵀ Q / YIELDING) Lᵀ``.
    """
    b, n, Q, first = loop[0], loop[1], bodies.Q, loop[3]
    at = bodies.at[b]
    m = bodies.first[b + 1] - bodies.first[b]
    for k in range(n):
        state.loops.gaps[first + k] = state.loops.errors[first + k]
    orthonormalise(bodies.L, at, m, Q, loop[2], n, state.loops, first)
    for k in range(n):
        row = loop[2] + k * m
        for r in range(m):  # L q
            x[r] = Q[row + r] / bodies.L[at + r * m + r]
            for c in range(r):
                x[r] += bodies.L[at + c * m + r] * Q[row + c]
        for c in range(m):
            for r in range(m):
                bodies.M[at + c * m + r] += x[c] * x[r] / YIELDING


@compiled
def close_gaps(bodies: Bodies, state: BlockStates, loop: Indices, part: float, x: Array) -> float:
    """Displacement of a block, added to ``shift``, that takes back a part of its loops' errors; the largest part.

    It is that of least kinetic energy. ``x`` is memory.
    """
    b, n, first = loop[0], loop[1], loop[3]
    f, most = bodies.first[b], 0.0
    m = bodies.first[b + 1] - f
    for c in range(m):
        x[c] = 0.0
    for k in range(n):
        most = max(most, abs(part * state.loops.errors[first + k]))
        for c in range(m):
            x[c] -= part * state.loops.gaps[first + k] * bodies.Q[loop[2] + k * m + c]
    backward(bodies.L, bodies.at[b], m, x, 0)
    for c in range(m):
        state.shift[f + c] += x[c]
    return most


@inlined
def call_kernel(calls: Indices, at: int) -> None:
    """Call a kernel for all blocks of a kind, by what now runs it: the evaluator, then machine code."""
    call_at(load(calls[at]), calls[at + 2], 0, calls[at + 1])


@inlined
def move_loop(motion: LoopMotion, k: int) -> bool:
    """Smooth motion of the block with loops of a number, under ``forces``; whether it is resolved."""
    call_kernel(motion.calls[k], 0)
    resolved: bool = motion.flags[k, 1] == 1.0
    return resolved


@compiled
def aim_loop(bodies: Bodies, state: BlockStates, loop: Indices, x: Array) -> None:
    """``target`` of a block with loops: the velocity at the end of its smooth motion that its rows of now leave.

    ``x`` is memory.
    """
    b = loop[0]
    f = bodies.first[b]
    m = bodies.first[b + 1] - f
    multiply_by_transpose(bodies.L, bodies.at[b], m, state.loops.reached, f, x)
    remove_loop_rows(bodies.Q, loop[2], loop[1], m, x)
    backward(bodies.L, bodies.at[b], m, x, 0)
    for c in range(m):
        state.target[f + c] = x[c]


@compiled
def find_pushed(rows: RowGroups, total: int, loops: Indices, motion: LoopMotion) -> None:
    """Find the blocks with loops that impulses of the first row groups act on."""
    for k in range(loops.shape[0]):
        b, pushed = loops[k, 0], False
        for i in range(total):
            is_own = rows.a[i] == b or rows.b[i] == b
            pushed = pushed or (is_own and (rows.r[i, 0] != 0.0 or rows.r[i, 1] != 0.0 or rows.r[i, 2] != 0.0))
        motion.pushed[k] = 1 if pushed else 0


@compiled
def add_smooth_motion(bodies: Bodies, state: BlockStates, loops: Indices, motion: LoopMotion, dt: float) -> None:
    """Add the change by smooth motion over the step to the velocities ``after`` impulses and to ``shift``.

    Where there are no impulses, the step ends where the smooth motion does. Impulses act on the whole step: what they
    change of the velocity changes the displacement by ``dt`` times that.
    """
    for k in range(loops.shape[0]):
        b = loops[k, 0]
        begin, end = bodies.first[b], bodies.first[b + 1]
        if motion.pushed[k] == 1:
            for c in range(begin, end):
                state.shift[c] += state.loops.moved[c] - 0.5 * dt * (state.v[c] + state.loops.reached[c])
                state.shift[c] -= dt * (state.loops.reached[c] - state.target[c])
                state.after[c] += state.loops.reached[c] - state.target[c]
        else:
            for c in range(begin, end):
                state.shift[c] += state.loops.moved[c] - dt * state.loops.reached[c]
                state.after[c] = state.loops.reached[c]


@compiled
def loops_open(state: BlockStates, loops: Indices, motion: LoopMotion) -> bool:
    """Whether loops gape at the end of a step, and more so than at its start."""
    for k in range(loops.shape[0]):
        n, first, before, after = loops[k, 1], loops[k, 3], 0.0, 0.0
        call_kernel(motion.calls[k], 3)
        for r in range(n):
            before, after = max(before, abs(state.loops.errors[first + r])), max(after, abs(motion.errors[r]))
            if not after < math.inf:
                return True
        if after > max(before, OPEN):
            return True
    return False


@compiled
def gains_energy(
    bodies: Bodies, state: BlockStates, loops: Indices, motion: LoopMotion, dt: float, x: Array, last: Array
) -> bool:
    """Whether a block with loops on which no impulses act has gained energy in a step, beyond the work of ``tau``.

    What it gains counts beside its kinetic energy, or what its accelerations make of that in a step. ``x`` is memory,
    ``last`` that of `Bounces`.
    """
    for k in range(loops.shape[0]):
        b, opened, energy, none = loops[k, 0], 0.0, motion.energies, 0.0
        f = bodies.first[b]
        m = bodies.first[b + 1] - f
        for r in range(loops[k, 1]):
            opened = max(opened, abs(state.loops.errors[loops[k, 3] + r]))
        if opened > GAIN_CHECKED_BELOW or motion.pushed[k] == 1 or last[b] > 0.0:
            continue
        call_kernel(motion.calls[k], 6)  # of the velocity that it started with
        kinetic, gained = energy[0], -energy[0] - energy[1]
        call_kernel(motion.calls[k], 9)
        kinetic, gained = max(kinetic, energy[0]), gained + energy[0] + energy[1]
        for c in range(f, f + m):
            gained -= motion.forces[c] * state.loops.moved[c]
            none += ROUND_OFF * abs(motion.forces[c]) + 0.5 * bodies.usual[c] * (ROUND_OFF / dt) ** 2
        multiply_by_transpose(bodies.L, bodies.at[b], m, state.qdd, f, x)
        if gained > ENERGY_GAIN * (kinetic + 0.5 * dt * dt * product(x, 0, x, 0, m)) + none:
            return True
    return False


@inlined
def scale(Q: Array, row: int, m: int, gaps: Array, k: int, factor: float) -> None:
    """A row and its right side by a factor."""
    gaps[k] *= factor
    for c in range(m):
        Q[row + c] *= factor


@inlined
def subtract(Q: Array, row: int, other: int, m: int, gaps: Array, k: int, j: int) -> None:
    """Subtract from a row and its right side the part along another row, of unit length."""
    u = product(Q, row, Q, other, m)
    gaps[k] -= u * gaps[j]
    for c in range(m):
        Q[row + c] -= u * Q[other + c]
