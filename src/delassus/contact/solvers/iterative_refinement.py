"""How a solution stands, for numba: within the tolerance, within it but for float64, or not; and the way there.

Newton's equations of `modes`, solved in float64, with right sides in extended precision (iterative refinement): each
step gains the digits that the factorisation keeps, also where impulses are so large that float64 holds none of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.contact.solvers.compiled import compiled
from delassus.contact.solvers.contact_modes import linearised, modes_of
from delassus.contact.solvers.coulomb import LIMIT, OPEN, ROUND_OFF, SLIP, SOLVED, rounding
from delassus.contact.solvers.double_double import beyond, extended_residual, two_sum, velocities
from delassus.contact.solvers.linear import assign, clear, factor, substitute
from delassus.model.rotations import Array

STEPS = 12
TRUSTED = 1e-3
"""Part of the tolerance that round-off may make up before residuals are computed in extended precision."""

NEAR = 64.0
"""Residuals up to this multiple of round-off may come from it: Newton's method makes more of it than sums do."""


@compiled
def move(modes: NDArray[Any], mu: Array, S: Array, step: Array, r: Array, low: Array) -> bool:
    """Change impulses ``r + low`` by a step of the unknowns; what slips goes back onto its cone. False: they pull."""
    m = 0
    for i in range(mu.size):
        k = 3 * i
        if modes[i] == OPEN:
            continue
        unknowns = 3
        if modes[i] == SLIP:
            unknowns = 2 if r[k] != 0.0 or r[k + 1] != 0.0 else 1
        for c in range(m, m + unknowns):
            for j in range(3):
                low[k + j] += S[c, j] * step[c]
        m += unknowns
        for j in range(k, k + 3):
            r[j], low[j] = two_sum(r[j], low[j])
        if not r[k + 2] >= 0.0:
            return False
        t = np.sqrt(r[k] ** 2 + r[k + 1] ** 2)
        if modes[i] == SLIP and t > 0.0:
            gap = beyond(r, low, k, mu[i])
            for j in (k, k + 1):
                r[j], low[j] = two_sum(r[j], low[j] - gap * r[j] / t)
    return True


@compiled
def refine(
    W: Array,
    b: Array,
    mu: Array,
    omega: Array,
    most: float,
    modes: NDArray[Any],
    goal: float,
    r: Array,
    low: Array,
    u: Array,
) -> float:
    """Overwrite ``r``, ``low`` and ``u`` by the best found on given modes; returns its residual."""
    size = b.size
    S, J, order = np.empty((size, 3)), np.empty((size, size)), np.empty(size, np.int64)
    right, step = np.empty(size), np.empty(size)
    try_r, try_low, try_u = np.copy(r), np.copy(low), np.empty(size)
    best, before = np.inf, np.inf
    for _ in range(STEPS):
        velocities(W, try_r, try_low, b, try_u)
        residual = extended_residual(try_u, try_r, try_low, mu, omega)
        if residual < best:
            best = residual
            assign(r, try_r)
            assign(low, try_low)
            assign(u, try_u)
        if best <= goal or not residual < 1e3 * before:
            return best
        before = residual
        m = linearised(W, mu, most, modes, try_r, try_u, S, J, right)
        if factor(J, m, order) == 0.0:
            return best
        substitute(J, m, order, right, step)
        if not move(modes, mu, S, step, try_r, try_low):
            return best
    return best


@compiled
def conclude(
    W: Array, b: Array, mu: Array, omega: Array, most: float, tolerance: float, r: Array, low: Array, u: Array
) -> tuple[float, int]:
    """Residual in extended precision, and SOLVED, ROUND_OFF (solved with ``low`` only) or LIMIT; sets all three.

    Impulses that miss the tolerance by no more than what round-off explains are refined.
    """
    size = b.size
    clear(low)
    velocities(W, r, low, b, u)
    best = extended_residual(u, r, low, mu, omega)
    if best <= tolerance:
        return best, SOLVED
    if best > NEAR * rounding(W, r, b):
        return best, LIMIT
    modes = np.empty(mu.size, np.int64)
    try_r, try_low, try_u = np.empty(size), np.zeros(size), np.empty(size)
    for still in (10.0 * best, 1e3 * best, 0.1 * best):
        assign(try_r, r)
        assign(try_u, u)
        clear(try_low)
        modes_of(try_r, try_u, still, modes)
        left = refine(W, b, mu, omega, most, modes, 1e-3 * tolerance, try_r, try_low, try_u)
        if left <= tolerance:
            assign(r, try_r)
            assign(low, try_low)
            assign(u, try_u)
            clear(try_low)
            velocities(W, r, try_low, b, try_u)
            alone = extended_residual(try_u, r, try_low, mu, omega)
            if alone <= tolerance:
                assign(low, try_low)
                assign(u, try_u)
                return alone, SOLVED
            return left, ROUND_OFF
    return best, LIMIT
