"""Smooth motion of a block with loops over a step, its velocity products and loops resolved in time.

Links of little mass in loops, such as gimbals at the ends of rods, turn much faster than what they hang on. A step that
is explicit in their velocity products throws them apart, so the motion without contacts is integrated by sub-steps of
the Runge-Kutta pair of Bogacki and Shampine (orders 3 and 2), as long as an estimate of their error allows:

    u̇ = dexp⁻¹(u) w,    ẇ = L⁻ᵀ ((1 − Qᵀ Q) Lᵀ q̈ − Qᵀ ρ),    q = q₀ ⊕ u,

with ``q̈`` the acceleration without loops, ``ρ`` the rate ``J̇ v`` along the orthonormal rows ``Q`` of the loops, and
the velocity ``w`` in the axes of the start of the step, which do not turn. After each sub-step the error of the loops'
positions and velocities is taken back, along displacements of least kinetic energy. The errors that count are those of
the energy, ``vᵀ M δw + q̈ᵀ M δu``, and the gap of the loops before it is taken back.

Contacts, limits and friction of joints act on the whole step, by the geometry of its start: `add_smooth_motion` adds
what their impulses change to what the smooth motion does.

Sources: Bogacki and Shampine 1989; Hairer, Lubich, Wanner, Geometric Numerical Integration, IV.4 (projection) and
IV.8 (``dexp``).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from delassus.compiler.jit.compile import compiled
from delassus.compiler.jit.memory import call_at
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.factor import backward, cholesky
from delassus.contact.sparse.loops import multiply_by_transpose, orthonormalise, product, remove_loop_rows
from delassus.contact.sparse.records import Bodies, Flow, State
from delassus.runtime.sub_steps import OPEN
from delassus.spatial.rotations import Array


class Tuning(NamedTuple):
    """Numbers of `flow_block` and of its statuses."""

    energy_tolerance: float = 1e-5
    """Error of the energy over a step that sub-steps may make, over the kinetic energy."""
    gap_tolerance: float = 1e-5
    """Gap of loops (m, rad) that a sub-step may leave before it is taken back."""
    closed: float = 1e-2
    """Errors of loops (m, rad) up to which these are closed: there, the rows of loops are the rates of their errors."""
    held_fraction: float = 1e-6
    """Fraction of the kinetic energy without loops that counts as kinetic energy: loops may hold all motion."""
    energy_gain: float = 0.02
    """Fraction of the kinetic energy that a step may gain beyond the work of joint forces."""
    gain_checked_below: float = 1e-8
    """Errors of loops (m, rad) at the start up to which that is checked: to take back larger ones takes work."""
    opening_fraction: float = 1e-8
    """Fraction of the kinetic energy in velocities that open loops, up to which these are left out of accelerations."""
    smallest_sub_step: float = 1.0 / 4096.0
    """Length of the smallest sub-steps over that of the step."""
    most_shrinking: float = 0.2
    """Least length of a sub-step over that of the one before."""
    most_growth: float = 5.0
    """Largest length of a sub-step over that of the one before."""
    safety: float = 0.9
    """Length of a sub-step over what the estimate of its error allows."""
    least_error: float = 1e-9
    """Estimate below which sub-steps grow no more."""
    stretch_to_end: float = 1.01
    """How far a sub-step may be lengthened to the end of the step."""


TUNING = Tuning()


@compiled
def flow_loops(bodies: Bodies, state: State, flow: Flow, loops: Indices, dt: float, correction: float) -> bool:
    """Smooth motion of all blocks with loops, and their ``target``; whether all of it is resolved."""
    resolved = True
    for k in range(loops.shape[0]):
        resolved = flow_block(bodies, state, flow, k, loops[k], dt, correction) and resolved
    return resolved


@compiled
def flow_block(
    bodies: Bodies, state: State, flow: Flow, k: int, loop: Indices, dt: float, correction: float
) -> bool:  # fmt: skip
    """Displacement ``moved`` and velocity ``reached`` of the smooth motion of block ``loop[0]``, in the axes of now.

    ``target`` is that velocity, without what loops by their rows of now hold. Of the errors of closed loops the step
    takes back the part ``correction``.
    """
    b, n, first, x, most = loop[0], loop[1], loop[3], flow.x, 0.0
    f, at = bodies.first[b], bodies.at[b]
    m = bodies.first[b + 1] - f
    for r in range(n):
        flow.before[r] = state.errors[first + r]
        flow.wanted[r] = (1.0 - correction) * state.errors[first + r]
        most = max(most, abs(state.errors[first + r]))
    closed = most <= TUNING.closed
    flow.found[k, 0] = 1 if closed else 0
    multiply_by_transpose(bodies.L, at, m, state.v, f, x)
    given = product(x, 0, x, 0, m)
    remove_loop_rows(bodies.Q, loop[2], n, m, state.rates, first, 0.0, x)
    kept = product(x, 0, x, 0, m)
    backward(bodies.L, at, m, x, 0)
    for c in range(m):
        flow.u0[c], flow.w0[c] = 0.0, x[c]
    multiply_by_transpose(bodies.L, at, m, state.qdd, f, x)
    remove_loop_rows(bodies.Q, loop[2], n, m, state.rates, first, 1.0, x)
    backward(bodies.L, at, m, x, 0)
    for c in range(m):
        flow.w_rates[c] = x[c]
    chart_rate(flow, k, m, flow.u0, flow.w0, 0)
    if given - kept > TUNING.opening_fraction * given:  # velocity products are those of another velocity
        stage(flow, k, m, n, 0, 0.0, 0.0, 0.0)
    left, h, tried, resolved = dt, dt, 0, True
    while left > 0.0:
        tried += 1
        stage(flow, k, m, n, 1, 0.5 * h, 0.0, 0.0)
        stage(flow, k, m, n, 2, 0.0, 0.75 * h, 0.0)
        stage(flow, k, m, n, 3, 2.0 / 9.0 * h, 3.0 / 9.0 * h, 4.0 / 9.0 * h)
        error = sub_step_error(flow, m, n, h, dt, closed)
        good = error <= 1.0
        if not good and h > TUNING.smallest_sub_step * dt:
            h = max(h * max(TUNING.most_shrinking, TUNING.safety / math.sqrt(error)), TUNING.smallest_sub_step * dt)
            continue
        resolved = resolved and good
        project_onto_loops(flow, k, m, n, closed)
        for r in range(n):
            flow.before[r] = flow.wanted[r]
        for c in range(m):
            flow.u0[c], flow.w0[c] = flow.u[c], flow.w[c]
            flow.u_rates[c], flow.w_rates[c] = flow.u_rates[3 * m + c], flow.w_rates[3 * m + c]
        left -= h
        h *= (
            min(TUNING.most_growth, TUNING.safety / math.sqrt(math.sqrt(max(error, TUNING.least_error))))
            if good
            else 1.0
        )
        h = left if TUNING.stretch_to_end * h > left else h
    multiply_by_transpose(bodies.L, at, m, flow.w0, 0, x)
    remove_loop_rows(bodies.Q, loop[2], n, m, state.rates, first, 0.0, x)
    backward(bodies.L, at, m, x, 0)
    for c in range(m):
        state.moved[f + c], state.reached[f + c], state.target[f + c] = flow.u0[c], flow.w0[c], x[c]
    flow.found[k, 1] = tried
    return resolved


@compiled
def stage(flow: Flow, k: int, m: int, n: int, i: int, a: float, b: float, c: float) -> None:
    """State ``u``, ``w`` of stage ``i`` from the rates of those before, and its rates; rows of loops there."""
    call, x, ku, kw = flow.calls[k], flow.x, flow.u_rates, flow.w_rates
    for d in range(m):
        flow.u[d], flow.w[d] = flow.u0[d], flow.w0[d]
    for j in range(i):  # rates of later stages need not be finite
        part = a if j == 0 else b if j == 1 else c
        for d in range(m):
            flow.u[d] += part * ku[j * m + d]
            flow.w[d] += part * kw[j * m + d]
    for d in range(m):
        flow.back[d] = -flow.u[d]
    call_at(call[0], 1, call[2], call[3], call[4], call[5], call[6], call[7])
    call_at(
        call[1], 1, call[8], call[9], call[10], call[11], call[12], call[13], call[14], call[15], call[16],
        call[17], call[18],
    )  # fmt: skip
    for r in range(n):
        flow.gaps[r] = flow.errors[r] - flow.wanted[r]
    if not cholesky(flow.L, 0, m):
        flow.L[0] = math.nan
    orthonormalise(flow.L, 0, m, flow.Q, 0, n, flow.gaps, flow.rates, 0)
    multiply_by_transpose(flow.L, 0, m, flow.qdd, 0, x)
    flow.free[0] = product(x, 0, x, 0, m)
    remove_loop_rows(flow.Q, 0, n, m, flow.rates, 0, 1.0, x)
    to_start_axes(flow, k, m)
    for d in range(m):
        flow.w_rates[i * m + d] = flow.turned[d]
    chart_rate(flow, k, m, flow.u, flow.w, i * m)


@compiled
def to_start_axes(flow: Flow, k: int, m: int) -> None:
    """``turned``: ``L⁻ᵀ x`` in the axes of the start of the step."""
    call = flow.calls[k]
    backward(flow.L, 0, m, flow.x, 0)
    for d in range(m):
        flow.qdd[d] = flow.x[d]
    call_at(call[0], 1, call[8], call[14], call[4], call[19], call[20], call[21])


@compiled
def chart_rate(flow: Flow, k: int, m: int, u: Array, w: Array, at: int) -> None:
    """``u̇ = dexp⁻¹(u) w`` to ``u_rates`` at ``at``: displacements of free and ball joints turn."""
    out = flow.u_rates
    for c in range(m):
        out[at + c] = w[c]
    for j in range(flow.turns.shape[0]):
        if flow.turns[j, 0] != k:
            continue
        i = flow.turns[j, 1]
        x, y, z, a, b, c0 = u[i], u[i + 1], u[i + 2], w[i], w[i + 1], w[i + 2]
        square = x * x + y * y + z * z
        half = 0.5 * math.sqrt(square)
        factor = 1.0 / 12.0 + square / 720.0
        if half > 0.05:
            factor = (1.0 - half * math.cos(half) / math.sin(half)) / square
        p, q, r = y * c0 - z * b, z * a - x * c0, x * b - y * a
        out[at + i] += factor * (y * r - z * q) - 0.5 * p
        out[at + i + 1] += factor * (z * p - x * r) - 0.5 * q
        out[at + i + 2] += factor * (x * q - y * p) - 0.5 * r


@compiled
def sub_step_error(flow: Flow, m: int, n: int, h: float, dt: float, closed: bool) -> float:
    """Estimate of the error of a sub-step, 1 where it is as large as may be; infinite where it is not finite."""
    ku, kw, gap = flow.u_rates, flow.w_rates, 0.0
    if closed:
        for r in range(n):
            gap = max(gap, abs(flow.errors[r] - flow.before[r]))
    for d in range(m):
        flow.qdd[d] = h * (kw[m + d] / 12.0 + kw[2 * m + d] / 9.0 - 5.0 / 72.0 * kw[d] - kw[3 * m + d] / 8.0)
        flow.turned[d] = h * (ku[m + d] / 12.0 + ku[2 * m + d] / 9.0 - 5.0 / 72.0 * ku[d] - ku[3 * m + d] / 8.0)
    of_w, of_u = length(flow, m, flow.qdd, 0), length(flow, m, flow.turned, 0)
    v, a = length(flow, m, flow.w, 0), length(flow, m, kw, 3 * m)
    kinetic = 0.5 * (v * v + dt * dt * (a * a + TUNING.held_fraction * flow.free[0]))
    error = max(
        dt / h * (v * of_w + a * of_u) / (TUNING.energy_tolerance * kinetic + 1e-300), gap / TUNING.gap_tolerance
    )
    return error if error < math.inf else math.inf


@compiled
def length(flow: Flow, m: int, v: Array, at: int) -> float:
    """Length ``(vᵀ M v)^½`` of a velocity, or of a difference of two."""
    multiply_by_transpose(flow.L, 0, m, v, at, flow.x)
    return math.sqrt(product(flow.x, 0, flow.x, 0, m))


@compiled
def project_onto_loops(flow: Flow, k: int, m: int, n: int, closed: bool) -> None:
    """Gaps of loops after a sub-step, and velocities that open them."""
    x, _call = flow.x, flow.calls[k]
    if closed:
        for d in range(m):
            x[d] = 0.0
        remove_loop_rows(flow.Q, 0, n, m, flow.gaps, 0, 1.0, x)
        to_start_axes(flow, k, m)
        chart_rate(flow, k, m, flow.u, flow.turned, 0)
        for d in range(m):
            flow.u[d] += flow.u_rates[d]
    multiply_by_transpose(flow.L, 0, m, flow.v, 0, x)
    remove_loop_rows(flow.Q, 0, n, m, flow.rates, 0, 0.0, x)
    to_start_axes(flow, k, m)
    for d in range(m):
        flow.w[d] = flow.turned[d]


@compiled
def add_smooth_motion(bodies: Bodies, state: State, flow: Flow, loops: Indices, dt: float) -> None:
    """Add the change by smooth motion over the step to the velocities ``after`` impulses and to ``shift``.

    Where there are no impulses, the step ends where the smooth motion does. Impulses act on the whole step: what they
    change of the velocity changes the displacement by ``dt`` times that.
    """
    for k in range(loops.shape[0]):
        b = loops[k, 0]
        begin, end = bodies.first[b], bodies.first[b + 1]
        flow.found[k, 2] = 1 if is_pushed(bodies, state, b) else 0
        if flow.found[k, 2] == 1:
            for c in range(begin, end):
                state.shift[c] += state.moved[c] - 0.5 * dt * (state.v[c] + state.reached[c])
                state.shift[c] -= dt * (state.reached[c] - state.target[c])
                state.after[c] += state.reached[c] - state.target[c]
        else:
            for c in range(begin, end):
                state.shift[c] += state.moved[c] - dt * state.reached[c]
                state.after[c] = state.reached[c]


@compiled
def loops_open(state: State, flow: Flow, loops: Indices) -> bool:
    """Whether loops gape at the end of a step, and more so than at its start."""
    for k in range(loops.shape[0]):
        call, n, first, before, after = flow.calls[k], loops[k, 1], loops[k, 3], 0.0, 0.0
        call_at(
            call[1], 1, call[22], call[23], call[10], call[11], call[12], call[13], call[14], call[15],
            call[16], call[17], call[18],
        )  # fmt: skip
        for r in range(n):
            before, after = max(before, abs(state.errors[first + r])), max(after, abs(flow.errors[r]))
            if not after < math.inf:
                return True
        if after > max(before, OPEN):
            return True
    return False


@compiled
def gains_energy(bodies: Bodies, state: State, flow: Flow, loops: Indices, dt: float) -> bool:
    """Whether a block with loops on which no impulses act has gained energy in a step, beyond the work of ``tau``.

    What it gains counts beside its kinetic energy, or what its accelerations make of that in a step.
    """
    for k in range(loops.shape[0]):
        call, b, opened, x = flow.calls[k], loops[k, 0], 0.0, flow.x
        f = bodies.first[b]
        m = bodies.first[b + 1] - f
        for r in range(loops[k, 1]):
            opened = max(opened, abs(state.errors[loops[k, 3] + r]))
        if opened > TUNING.gain_checked_below or flow.found[k, 2] == 1:
            continue
        call_at(call[24], 1, call[2], call[25], call[26], call[27])
        kinetic, gained = flow.kinetic[0], -flow.kinetic[0] - flow.potential[0]
        call_at(call[24], 1, call[22], call[23], call[26], call[27])
        kinetic, gained = max(kinetic, flow.kinetic[0]), gained + flow.kinetic[0] + flow.potential[0]
        for c in range(f, f + m):
            gained -= state.tau[c] * state.moved[c]
        multiply_by_transpose(bodies.L, bodies.at[b], m, state.qdd, f, x)
        if gained > TUNING.energy_gain * (kinetic + 0.5 * dt * dt * product(x, 0, x, 0, m)):
            return True
    return False


@compiled
def is_pushed(bodies: Bodies, state: State, b: int) -> bool:
    """Whether impulses act on a block."""
    for c in range(bodies.first[b], bodies.first[b + 1]):
        if state.after[c] != state.target[c]:
            return True
    return False
