"""The exact Coulomb cone: projection, residual, and the problem of a single contact.

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

Friction may exceed ``μ r_n`` by a constant: ``|r_t| ≤ μ r_n + friction_offset``, ``r_n ≥ 0`` is a cone without its tip.
So is that of decompression, where normal impulses are given beforehand, and, with ``μ = 0`` and normal rows of zeros,
that of joints. There is friction then also where ``r_n = 0``: the contact *holds* (``u_t = 0``) or *rubs*
(``|r_t| = friction_offset``), with ``u_n ≥ 0``, by the same equation with ``Ã`` the tangential block and ``μ = 0``.
That is tried first. Where it brings ``u_n < 0``, ``r_n(α)`` is positive at its ``α``, and where ``r_n(α)`` is not, the
root is on the side of that.
"""

from __future__ import annotations

import numpy as np

from delassus.compiler.jit.compile import compiled
from delassus.contact.solvers.double_double import ROUNDING
from delassus.spatial.rotations import Array

OPEN, STICK, SLIP, HOLD, RUB = 0, 1, 2, 3, 4
"""Contact modes; without normal impulses, the last two stick and slip."""
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
def projected(x: float, y: float, z: float, mu: float, friction_offset: float) -> tuple[float, float, float]:
    """The nearest point of the cone ``|r_t| ≤ μ r_n + friction_offset``, ``r_n ≥ 0``."""
    t = np.sqrt(x * x + y * y)
    if t <= mu * z + friction_offset and z >= 0.0:
        return x, y, z
    n = max((z + mu * (t - friction_offset)) / (1.0 + mu * mu), 0.0)
    limit = mu * n + friction_offset
    f = limit / t if t > limit else 1.0
    return f * x, f * y, n


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
def principal(a: float, b: float, d: float, p: Array, first: int) -> None:
    """Eigenvalues of ``[a, b; b, d]``, the larger one first, and cosine and sine of its axis, from ``p[first]`` on."""
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
    p[first], p[first + 1], p[first + 2], p[first + 3] = mean + radius, mean - radius, c, s


@compiled
def prepare(W: Array, most: float) -> Array:
    """Data (n, 12) of each contact's own block for `single`."""
    prepared = np.empty((W.shape[0] // 3, 12))
    for i in range(prepared.shape[0]):
        prepare_one(W, 3 * i, most, prepared[i])
    return prepared


@compiled
def prepare_one(W: Array, k: int, most: float, p: Array) -> None:
    """Data of the contact whose block of ``W`` begins at ``k``."""
    here = max(W[k, k], W[k + 1, k + 1], W[k + 2, k + 2])
    epsilon = PROXIMAL * (here if here > 1e-12 * most else (most if most > 0.0 else 1.0))
    nn = W[k + 2, k + 2] + epsilon
    h1, h2 = W[k, k + 2] / nn, W[k + 1, k + 2] / nn
    p[0], p[1] = epsilon, nn
    a, b, d = W[k, k] + epsilon, W[k, k + 1], W[k + 1, k + 1] + epsilon
    principal(a, b, d, p, 8)
    p[9] = max(p[9], 0.5 * epsilon)
    principal(a - h1 * h1 * nn, b - h1 * h2 * nn, d - h2 * h2 * nn, p, 2)
    p[3] = max(p[3], 0.5 * epsilon)
    p[6], p[7] = p[4] * h1 + p[5] * h2, p[4] * h2 - p[5] * h1


@compiled
def single(
    p: Array, mu: float, friction_offset: float, c1: float, c2: float, c3: float, guess: float
) -> tuple[float, float, float, int, float]:
    """Impulse of one contact, its mode, and ``α`` where it slips."""
    within = 0.0
    if friction_offset > 0.0:
        c, s = p[10], p[11]
        flat = p[8], p[9], 0.0, 0.0
        x, y, _, within = friction(flat, c * c1 + s * c2, c * c2 - s * c1, 0.0, 0.0, friction_offset, 0.0, guess)
        x, y = c * x - s * y, s * x + c * y
        c, s = p[4], p[5]
        if c3 + p[1] * (p[6] * (c * x + s * y) + p[7] * (c * y - s * x)) >= 0.0:
            return x, y, 0.0, RUB if within > 0.0 else HOLD, within
    elif c3 >= 0.0:
        return 0.0, 0.0, 0.0, OPEN, 0.0
    c, s, alone = p[4], p[5], -c3 / p[1]
    x0, y0 = c * c1 + s * c2 + p[6] * -c3, c * c2 - s * c1 + p[7] * -c3
    x, y, n, alpha = friction((p[2], p[3], p[6], p[7]), x0, y0, alone, mu, friction_offset, within, guess)
    return c * x - s * y, s * x + c * y, n, SLIP if alpha > 0.0 else STICK, alpha


@compiled
def friction(
    along: tuple[float, float, float, float], x0: float, y0: float, alone: float, mu: float, friction_offset: float,
    within: float, guess: float,
) -> tuple[float, float, float, float]:  # fmt: skip
    """``r_t(α) = −(x0 / (a + α), y0 / (d + α))``, ``r_n(α) = alone − h · r_t(α)``, and ``α``: 0 where it sticks.

    Given are ``a``, ``d`` and ``h`` along the principal axes. Where ``r_n(α) < 0``, the root is larger if ``α <
    within``, and else smaller.
    """
    a, d, h1, h2 = along
    x, y = -x0 / a, -y0 / d
    n = alone - h1 * x - h2 * y
    if x * x + y * y <= (mu * n + friction_offset) ** 2 and n >= 0.0:
        return x, y, n, 0.0
    size, h = np.sqrt(x0 * x0 + y0 * y0), np.sqrt(h1 * h1 + h2 * h2)
    if mu == 0.0 and friction_offset == 0.0:
        return 0.0, 0.0, alone, size
    least = mu * alone + friction_offset
    low, high = 0.0, max(size * (1.0 + mu * h) / least if least > 0.0 else size * h / -alone, 2.0 * within)
    alpha = guess if low < guess < high else (min(size / least, 0.5 * high) if least > 0.0 else 0.5 * high)
    tangential, limit = 1.0, 1.0
    for _ in range(60):
        e1, e2 = 1.0 / (a + alpha), 1.0 / (d + alpha)
        x, y = -x0 * e1, -y0 * e2
        tangential, n = np.sqrt(x * x + y * y), alone - h1 * x - h2 * y
        limit = friction_offset + mu * n
        if abs(tangential - limit) <= 4e-16 * tangential and n >= 0.0:
            break
        if tangential > limit if n >= 0.0 or friction_offset == 0.0 else alpha < within:
            low = alpha
        else:
            high = alpha
        step = np.inf
        if limit > 0.0:
            slope = (x * x * e1 + y * y * e2) / tangential**3 + mu * (h1 * x * e1 + h2 * y * e2) / limit**2
            step = (1.0 / limit - 1.0 / tangential) / slope if slope > 0.0 else np.inf
        following = alpha + step
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - alpha) <= 1e-16 * alpha:
            break
        alpha = following
    if n < 0.0:
        n = max(tangential - friction_offset, 0.0) / mu if mu > 0.0 else 0.0
    f = (mu * n + friction_offset) / tangential
    return f * x, f * y, n, alpha
