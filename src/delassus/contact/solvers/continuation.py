"""Continuation in compliance, for numba: solve ``W + δ D`` from soft to hard, each stage from where the last two point.

Impulses are taken to go on as ``x + y / δ``, which covers those that grow without bound. A stage that fails is tried
again with a smaller step of ``δ``. Where paths turn back (solutions of friction problems come and go in pairs), another
path may go on: the next attempts have random weights ``D`` near the turn, which become equal behind it. Between them,
other ways are tried: alternating directions once, and more sweeps without compliance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.contact.solvers.admm import admm_kernel
from delassus.contact.solvers.compiled import compiled
from delassus.contact.solvers.contact_modes import modes_of, newton
from delassus.contact.solvers.coulomb import LIMIT, ROUND_OFF, SOLVED, natural_residual, prepare, rounding, sweep
from delassus.contact.solvers.iterative_refinement import NEAR, conclude
from delassus.contact.solvers.linear import affine, assign, clear
from delassus.model.rotations import Array

RATIO, SMALLEST_RATIO = 10.0**0.5, 1.05
"""Largest and smallest ratio of the compliance of one stage to that of the next."""
SOFTEST, HARDEST = 1.0, 1e-10
"""First and last compliance, relative to the largest mobility."""
SPREADS = (1.5, 0.4)
"""Decades by which weights differ from one, either way, in turn."""
FIRST_EQUAL, LAST_EQUAL = 0.3, 1e-3
"""Compliances, relative to where the first path turned, between which weights become equal."""
STAGE = 60
"""Most sweeps of one stage."""
BETWEEN = 200
"""Sweeps without compliance between two paths."""
ALTERNATING = 1500
"""Iterations of `admm` after the first path."""


@compiled
def relax(
    W: Array,
    b: Array,
    mu: Array,
    omega: Array,
    most: float,
    prepared: Array,
    modes: NDArray[Any],
    r: Array,
    u: Array,
    tolerance: float,
    limit: int,
) -> tuple[float, int]:
    """Sweep, with Newton's method now and then, until the residual is small; overwrites ``r`` by the best found.

    Newton's method is tried when modes have not changed for two sweeps, and then after ever longer waits.
    """
    alphas = np.zeros(mu.size)
    best_r, best_u, try_r, try_u = np.copy(r), np.empty(b.size), np.empty(b.size), np.empty(b.size)
    affine(W, r, b, u)
    assign(best_u, u)
    best = natural_residual(u, r, mu, omega)
    steady, after, wait, sweeps = 0, 4, 2, 0
    while best > tolerance and sweeps < limit:
        moved, changed = sweep(W, mu, omega, prepared, r, u, modes, alphas)
        sweeps += 1
        steady = 0 if changed else steady + 1
        if (steady >= 2 and sweeps >= after) or sweeps >= 4 * after or moved <= tolerance or sweeps == limit:
            affine(W, r, b, u)
            residual = natural_residual(u, r, mu, omega)
            if residual < best:
                best = residual
                assign(best_r, r)
                assign(best_u, u)
            assign(try_r, r)
            assign(try_u, u)
            residual = newton(W, b, mu, omega, most, modes, 1e-3 * tolerance, try_r, try_u)
            if residual < best:
                best = residual
                assign(best_r, try_r)
                assign(best_u, try_u)
                if residual < 0.1 * moved:
                    assign(r, try_r)
                    assign(u, try_u)
            wait = min(wait * 2, 64)
            after = sweeps + wait
    assign(r, best_r)
    assign(u, best_u)
    return best, sweeps


@compiled
def harden(
    W: Array,
    b: Array,
    mu: Array,
    omega: Array,
    most: float,
    weights: Array,
    turn: float,
    r: Array,
    low: Array,
    u: Array,
    tolerance: float,
    limit: int,
) -> tuple[float, int, int, float]:
    """One path; overwrites ``r + low`` and ``u`` by the best found.

    ``turn`` is the compliance that the first path came to, behind which weights become equal. Where this path ends
    early, some sweeps without compliance are tried. Returns residual, outcome, number of sweeps, and the last
    compliance that was solved (0: none).
    """
    size = b.size
    soft, prepared, modes = np.copy(W), np.empty((mu.size, 8)), np.full(mu.size, -1)
    x, v, found, before = np.zeros(size), np.empty(size), np.zeros(size), np.zeros(size)
    try_r, try_low, try_u = np.empty(size), np.zeros(size), np.empty(size)
    best, sweeps, delta, ratio, last, older = np.inf, 0, SOFTEST, RATIO, 0.0, 0.0
    while delta > HARDEST and ratio > SMALLEST_RATIO and sweeps < limit:
        part = min(max(np.log(delta / (LAST_EQUAL * turn)) / np.log(FIRST_EQUAL / LAST_EQUAL), 0.0), 1.0)
        for i in range(size):
            soft[i, i] = W[i, i] + delta * most * weights[i // 3] ** part
        prepare(soft, most, prepared)
        ahead = (1.0 / delta - 1.0 / last) / (1.0 / last - 1.0 / older) if older > 0.0 else 0.0
        for i in range(size):
            x[i] = found[i] + ahead * (found[i] - before[i])
        left, more = relax(soft, b, mu, omega, most, prepared, modes, x, v, tolerance, min(STAGE, limit - sweeps))
        sweeps += more
        if left > max(tolerance, rounding(W, x, b)):
            if last == 0.0:
                break
            ratio = np.sqrt(ratio)
            delta = last / ratio
            continue
        assign(before, found)
        assign(found, x)
        older, last = last, delta
        delta /= ratio
        ratio = min(ratio**1.5, RATIO)
        modes_of(x, v, 10.0 * tolerance, modes)
        assign(try_r, x)
        assign(try_u, v)
        residual = newton(W, b, mu, omega, most, modes, 1e-3 * tolerance, try_r, try_u)
        if residual < best:
            best = residual
            assign(r, try_r)
            assign(u, try_u)
            clear(low)
        if residual <= max(tolerance, NEAR * rounding(W, try_r, b)):
            residual, outcome = conclude(W, b, mu, omega, most, tolerance, try_r, try_low, try_u)
            if outcome != LIMIT:
                assign(r, try_r)
                assign(low, try_low)
                assign(u, try_u)
                return residual, outcome, sweeps, last
    prepare(W, most, prepared)
    left, more = relax(W, b, mu, omega, most, prepared, modes, found, v, tolerance, min(STAGE, max(limit - sweeps, 0)))
    sweeps += more
    if left <= max(tolerance, NEAR * rounding(W, found, b)) or left < best:
        assign(r, found)
        best, outcome = conclude(W, b, mu, omega, most, tolerance, r, low, u)
        return best, outcome, sweeps, last
    return best, LIMIT, sweeps, last


@compiled
def attempts(
    W: Array,
    b: Array,
    mu: Array,
    omega: Array,
    most: float,
    r: Array,
    low: Array,
    u: Array,
    tolerance: float,
    limit: int,
) -> tuple[float, int, int]:
    """Paths, one after the other, until one arrives; overwrites ``r + low`` and ``u`` by the best found.

    Sweeps without compliance go on from ``r`` between them. Returns residual, outcome and number of sweeps.
    """
    weights, prepared, modes = np.ones(mu.size), np.empty((mu.size, 8)), np.full(mu.size, -1)
    prepare(W, most, prepared)
    slow, v = np.copy(r), np.empty(b.size)
    try_r, try_low, try_u = np.empty(b.size), np.zeros(b.size), np.empty(b.size)
    best, outcome, sweeps, turn, random, spread = np.inf, LIMIT, 0, SOFTEST, 1, SPREADS[1]
    while outcome == LIMIT and sweeps < limit:
        residual, outcome, more, last = harden(
            W, b, mu, omega, most, weights, turn, try_r, try_low, try_u, tolerance, limit - sweeps
        )
        first = sweeps == 0
        sweeps += max(more, 1)
        if outcome != LIMIT or residual < best:
            best = residual
            assign(r, try_r)
            assign(low, try_low)
            assign(u, try_u)
        if first:
            turn = max(last, HARDEST / LAST_EQUAL)
            if outcome == LIMIT and sweeps < limit:
                clear(v)
                other_r, other_low, other_u, residual, outcome, more = admm_kernel(
                    W, b, mu, v, tolerance, min(ALTERNATING, limit - sweeps)
                )
                sweeps += more
                if outcome == SOLVED or outcome == ROUND_OFF or residual < best:
                    best = residual
                    assign(r, other_r)
                    assign(low, other_low)
                    assign(u, other_u)
                if outcome != SOLVED and outcome != ROUND_OFF:
                    outcome = LIMIT
        if outcome == LIMIT and sweeps < limit:
            residual, more = relax(
                W, b, mu, omega, most, prepared, modes, slow, v, tolerance, min(BETWEEN, limit - sweeps)
            )
            sweeps += more
            if residual <= max(tolerance, NEAR * rounding(W, slow, b)) or residual < best:
                assign(r, slow)
                best, outcome = conclude(W, b, mu, omega, most, tolerance, r, low, u)
        spread = SPREADS[0] if spread == SPREADS[1] else SPREADS[1]
        for i in range(mu.size):  # a generator of Lehmer's
            random = random * 48271 % 2147483647
            weights[i] = 10.0 ** (spread * (2.0 * random / 2147483647.0 - 1.0))
    return best, outcome, sweeps
