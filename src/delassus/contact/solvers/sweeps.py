"""Sweeps of nonsmooth Gauss–Seidel over all contacts, and Newton's method once contact modes stand still."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.contact.solvers.compiled import compiled
from delassus.contact.solvers.coulomb import mobilities, natural_residual, prepare, single
from delassus.contact.solvers.linear import affine, assign
from delassus.contact.solvers.newton import newton
from delassus.model.rotations import Array


@compiled
def sweep(
    W: Array, mu: Array, omega: Array, prepared: Array, r: Array, u: Array, mode: NDArray[Any], alphas: Array
) -> tuple[float, int]:
    """Solve every contact once, in order, each with the newest velocities ``u = W r + b``.

    Returns the largest change, as a velocity, and the number of contacts whose mode changed.
    """
    moved, changed = 0.0, 0
    size = r.size
    for i in range(mu.size):
        k = 3 * i
        p = prepared[i]
        r1, r2, r3 = r[k], r[k + 1], r[k + 2]
        A, B, C = W[k], W[k + 1], W[k + 2]
        c1 = u[k] - A[k] * r1 - A[k + 1] * r2 - A[k + 2] * r3 - p[0] * r1
        c2 = u[k + 1] - B[k] * r1 - B[k + 1] * r2 - B[k + 2] * r3 - p[0] * r2
        c3 = u[k + 2] - C[k] * r1 - C[k + 1] * r2 - C[k + 2] * r3 - p[0] * r3
        x, y, z, now, alphas[i] = single(p, mu[i], c1, c2, c3, alphas[i])
        changed += now != mode[i]
        mode[i] = now
        d1, d2, d3 = x - r1, y - r2, z - r3
        if d1 != 0.0 or d2 != 0.0 or d3 != 0.0:
            moved = max(moved, omega[i] * max(abs(d1), abs(d2), abs(d3)))
            for j in range(size):
                u[j] += A[j] * d1 + B[j] * d2 + C[j] * d3
            r[k], r[k + 1], r[k + 2] = x, y, z
    return moved, changed


@compiled
def relax(W: Array, b: Array, mu: Array, start: Array, tolerance: float, limit: int) -> tuple[Array, Array, float, int]:
    """Sweep until the residual is small; returns the best impulses, their velocities and residual, and sweeps.

    Newton's method is tried when contact modes have not changed for two sweeps, and then after ever longer waits.
    """
    omega, most = mobilities(W)
    prepared = prepare(W, most)
    mode, alphas = np.full(mu.size, -1), np.zeros(mu.size)
    r, u, try_r, try_u = np.copy(start), np.empty(b.size), np.empty(b.size), np.empty(b.size)
    affine(W, r, b, u)
    best_r, best_u, best = np.copy(r), np.copy(u), natural_residual(u, r, mu, omega)
    steady, after, wait, sweeps = 0, 4, 2, 0
    while best > tolerance and sweeps < limit:
        moved, changed = sweep(W, mu, omega, prepared, r, u, mode, alphas)
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
            residual = newton(W, b, mu, omega, most, mode, 1e-3 * tolerance, try_r, try_u)
            if residual < best:
                best = residual
                assign(best_r, try_r)
                assign(best_u, try_u)
                if residual < 0.1 * moved:
                    assign(r, try_r)
                    assign(u, try_u)
            wait = min(wait * 2, 64)
            after = sweeps + wait
    return best_r, best_u, best, sweeps
