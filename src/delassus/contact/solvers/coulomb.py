"""The exact Coulomb cone, for numba: projection, residual, and the problem of a single contact.

Components of a contact are tangent, tangent, normal. The problem of one contact: an impulse ``r`` in the cone
``|r_t| ≤ μ r_n``, with velocity ``u = A r + c``, such that

- it lets go: ``r = 0`` and ``u_n ≥ 0``; or
- it sticks: ``u = 0``; or
- it slips: ``u_n = 0``, ``|r_t| = μ r_n`` and ``u_t = −α r_t`` with ``α > 0``.

Eliminating ``r_n`` by ``u_n = 0`` leaves ``r_t(α) = −(Ã + α)⁻¹ c̃``, two numbers in the eigenvectors of the Schur
complement ``Ã``, and one equation ``|r_t(α)| = μ r_n(α)``. Its left side is larger at ``α = 0`` (or it would stick)
and smaller far out, so that a root is between, found by Newton's method on the difference of the reciprocals, which is
nearly straight, with bisection where that leaves the bracket. (Bonnefon and Daviet 2011 find the same roots from a
quartic.)

Instead of ``μ r_n``, friction may have a constant bound, ``|r_t| ≤ more``, where ``μ = 0`` and normal rows are zero:
that of a joint. It never lets go, and slips by the same equation.
"""

from __future__ import annotations

import numpy as np

from delassus.contact.solvers.compiled import compiled
from delassus.contact.solvers.double_double import ROUNDING
from delassus.model.rotations import Array

OPEN, STICK, SLIP = 0, 1, 2
"""Contact modes."""
PROXIMAL = 1e-9
"""Weight, relative to the largest mobility, of staying where the impulse was: some contacts cannot move every way."""


@compiled
def mobilities(W: Array) -> tuple[Array, float]:
    """Mean mobility of each contact (that of all where it has none), and the largest diagonal entry."""
    total, most, omega = 0.0, 0.0, np.empty(W.shape[0] // 3)
    for i in range(omega.size):
        omega[i] = (W[3 * i, 3 * i] + W[3 * i + 1, 3 * i + 1] + W[3 * i + 2, 3 * i + 2]) / 3.0
        total += omega[i]
        for k in range(3):
            most = max(most, W[3 * i + k, 3 * i + k])
    mean = total / omega.size if total > 0.0 else 1.0
    for i in range(omega.size):
        if omega[i] < 1e-12 * mean:
            omega[i] = mean
    return omega, most


@compiled
def projected(x: float, y: float, z: float, mu: float, more: float) -> tuple[float, float, float]:
    """The nearest point of the cone, or of the cylinder of radius ``more``."""
    t = np.sqrt(x * x + y * y)
    if more > 0.0:
        f = more / t if t > more else 1.0
        return f * x, f * y, max(z, 0.0)
    if t <= mu * z and z >= 0.0:  # without friction, t = 0 says nothing on z
        return x, y, z
    if mu * t <= -z:
        return 0.0, 0.0, 0.0
    n = (z + mu * t) / (1.0 + mu * mu)
    f = mu * n / t
    return f * x, f * y, n


@compiled
def natural_residual(u: Array, r: Array, mu: Array, more: Array, omega: Array) -> float:
    """Largest ``|ω r − P(ω r − u − s)|`` of a contact, with ``s = (0, 0, μ |u_t|)`` of De Saxcé; NaN is infinite."""
    worst = 0.0
    for i in range(mu.size):
        k = 3 * i
        x, y, z = omega[i] * r[k], omega[i] * r[k + 1], omega[i] * r[k + 2]
        shift = mu[i] * np.sqrt(u[k] * u[k] + u[k + 1] * u[k + 1])
        px, py, pz = projected(x - u[k], y - u[k + 1], z - u[k + 2] - shift, mu[i], omega[i] * more[i])
        error = np.sqrt((x - px) ** 2 + (y - py) ** 2 + (z - pz) ** 2)
        if not error <= worst:
            worst = error
        if not worst < np.inf:
            return np.inf
    return worst


@compiled
def rounding(W: Array, r: Array, b: Array) -> float:
    """Bound of the round-off of ``W r + b``: the largest of a row."""
    worst = 0.0
    for i in range(b.size):
        total = abs(b[i])
        for j in range(b.size):
            total += abs(W[i, j] * r[j])
        worst = max(worst, total)
    return ROUNDING * worst


@compiled
def prepare(W: Array, most: float) -> Array:
    """What `single` needs of each contact's own block (n, 8)."""
    prepared = np.empty((W.shape[0] // 3, 8))
    for i in range(prepared.shape[0]):
        k = 3 * i
        here = max(W[k, k], W[k + 1, k + 1], W[k + 2, k + 2])
        epsilon = PROXIMAL * (here if here > 1e-12 * most else (most if most > 0.0 else 1.0))
        nn = W[k + 2, k + 2] + epsilon
        h1, h2 = W[k, k + 2] / nn, W[k + 1, k + 2] / nn
        a = W[k, k] + epsilon - h1 * h1 * nn
        d = W[k + 1, k + 1] + epsilon - h2 * h2 * nn
        b = W[k, k + 1] - h1 * h2 * nn
        half, mean = 0.5 * (a - d), 0.5 * (a + d)
        radius = np.sqrt(half * half + b * b)
        c, s = 1.0, 0.0
        if radius > 0.0:
            c = np.sqrt(0.5 * (1.0 + abs(half) / radius))
            s = 0.5 * b / (radius * c)
            if half < 0.0:
                c, s = (s, c) if b >= 0.0 else (-s, -c)
                if c < 0.0:
                    c, s = -c, -s
        p = prepared[i]
        p[0], p[1], p[2] = epsilon, nn, mean + radius
        p[3] = max(mean - radius, 0.5 * epsilon)
        p[4], p[5] = c, s
        p[6], p[7] = c * h1 + s * h2, c * h2 - s * h1
    return prepared


@compiled
def single(
    p: Array, mu: float, more: float, c1: float, c2: float, c3: float, guess: float
) -> tuple[float, float, float, int, float]:
    """Impulse of one contact, its mode, and ``α`` where it slips."""
    if c3 >= 0.0 and more == 0.0:
        return 0.0, 0.0, 0.0, OPEN, 0.0
    alone = max(-c3, 0.0) / p[1]
    c, s = p[4], p[5]
    x0, y0 = c * c1 + s * c2 + p[6] * -c3, c * c2 - s * c1 + p[7] * -c3
    x, y = -x0 / p[2], -y0 / p[3]
    n = alone - p[6] * x - p[7] * y
    if x * x + y * y <= (mu * n + more) ** 2 and n >= 0.0:
        return c * x - s * y, s * x + c * y, n, STICK, 0.0
    if mu == 0.0 and more == 0.0:
        return 0.0, 0.0, alone, SLIP, 0.0
    size = np.sqrt(x0 * x0 + y0 * y0)
    low, high = 0.0, size * (1.0 + mu * np.sqrt(p[6] ** 2 + p[7] ** 2)) / (mu * alone + more)
    alpha = guess if low < guess < high else min(size / (mu * alone + more), 0.5 * high)
    tangential, limit = 1.0, 1.0
    for _ in range(60):
        e1, e2 = 1.0 / (p[2] + alpha), 1.0 / (p[3] + alpha)
        x, y = -x0 * e1, -y0 * e2
        tangential = np.sqrt(x * x + y * y)
        limit = more + mu * (alone - p[6] * x - p[7] * y)
        if abs(tangential - limit) <= 4e-16 * tangential:
            break
        if tangential > limit:
            low = alpha
        else:
            high = alpha
        step = np.inf
        if limit > 0.0:
            slope = (x * x * e1 + y * y * e2) / tangential**3 + mu * (p[6] * x * e1 + p[7] * y * e2) / limit**2
            step = (1.0 / limit - 1.0 / tangential) / slope if slope > 0.0 else np.inf
        following = alpha + step
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - alpha) <= 1e-16 * alpha:
            break
        alpha = following
    n = alone
    if mu > 0.0:
        n = limit / mu if limit >= 0.0 else tangential / mu
    f = (mu * n + more) / tangential
    x, y = f * x, f * y
    return c * x - s * y, s * x + c * y, n, SLIP, alpha
