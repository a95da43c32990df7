"""Velocities and residuals of huge impulses, in twice the precision of float64, for numba.

Where contacts jam, impulses of 1e9 hold one another in balance, and float64 leaves 1e-7 of their sum. Here impulses
are unevaluated sums ``r + low`` of two numbers each, ``W r + b`` is summed with all that its operations round away
(*Dot2*), and the residual is computed from small differences only: with ``y = x − v``, the distance
``g(y) = |y_t| − μ y_n`` from the cone is that of ``x`` and a difference, and the projection of ``y`` is ``y`` less a
multiple of ``g``. `delassus.contact.precise` does the same in NumPy, by other means.

Source: Ogita, Rump and Oishi 2005, *Accurate sum and dot product*; Dekker 1971 for the product.
"""

from __future__ import annotations

import numpy as np

from delassus.contact.solvers.compiled import literal
from delassus.model.rotations import Array

SPLIT = 134217729.0
"""2²⁷ + 1: cuts a float64 in two halves whose products are exact."""


@literal
def two_sum(a: float, b: float) -> tuple[float, float]:
    """``a + b`` as a rounded sum and what rounding left."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@literal
def two_product(a: float, b: float) -> tuple[float, float]:
    """``a b`` as a rounded product and what rounding left."""
    product = a * b
    c, d = SPLIT * a, SPLIT * b
    a1, b1 = c - (c - a), d - (d - b)
    a2, b2 = a - a1, b - b1
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


@literal
def velocities(W: Array, r: Array, low: Array, b: Array, u: Array) -> None:
    """``u = W (r + low) + b``."""
    for i in range(b.size):
        total, left = b[i], 0.0
        for j in range(b.size):
            product, error = two_product(W[i, j], r[j])
            total, more = two_sum(total, product)
            left += (error + more) + W[i, j] * low[j]
        u[i] = total + left


@literal
def beyond(r: Array, low: Array, k: int, mu: float) -> float:
    """``|r_t| − μ r_n`` of the contact whose components begin at ``k``."""
    p, e = two_product(mu, r[k + 2])
    a, a_left = two_product(r[k], r[k])
    b, b_left = two_product(r[k + 1], r[k + 1])
    c, c_left = two_product(p, p)
    total, more = two_sum(a, b)
    total, rest = two_sum(total, -c)
    left = more + rest + a_left + b_left - c_left - 2.0 * p * e
    left += 2.0 * (r[k] * low[k] + r[k + 1] * low[k + 1] - p * mu * low[k + 2])
    t = np.sqrt(a + b)
    return float((total + left) / (t + p) if p > 0.0 else t - p)


@literal
def extended_residual(u: Array, r: Array, low: Array, mu: Array, omega: Array) -> float:
    """`coulomb.natural_residual` at ``r + low``."""
    worst = 0.0
    for i in range(mu.size):
        k, m, w = 3 * i, mu[i], omega[i]
        v1, v2 = u[k], u[k + 1]
        v3 = u[k + 2] + m * np.sqrt(v1 * v1 + v2 * v2)
        x1, x2, x3 = w * r[k], w * r[k + 1], w * r[k + 2]
        y1, y2, y3 = x1 - v1, x2 - v2, x3 - v3
        t = np.sqrt(y1 * y1 + y2 * y2)
        sizes = t + np.sqrt(x1 * x1 + x2 * x2)
        change = (v1 * v1 + v2 * v2 - 2.0 * (x1 * v1 + x2 * v2)) / sizes if sizes > 0.0 else 0.0
        gap = w * beyond(r, low, k, m) + change + m * v3
        if gap > 0.0 or y3 < 0.0:
            if m * t <= -y3:
                v1, v2, v3 = x1, x2, x3
            else:
                f = gap / (1.0 + m * m)
                v1, v2, v3 = v1 + f * y1 / t, v2 + f * y2 / t, v3 - f * m
        error = np.sqrt(v1 * v1 + v2 * v2 + v3 * v3)
        if not error <= worst:
            worst = error
        if not worst < np.inf:
            return np.inf
    return worst
