"""Linear algebra of Delassus matrices: LU factors with partial pivoting, by rows; velocities of huge impulses.

Where contacts jam, impulses of 1e9 N s hold one another in balance, and float64 leaves 1e-6 m/s of their sums. Here
impulses are unevaluated sums ``r + low`` of two numbers each, products are split into two numbers, and `math.fsum`
rounds sums once, at the end.

Source: Dekker 1971 for the product; Knuth for the sum of two numbers; Shewchuk 1997 for that of many.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled
from delassus.spatial.rotations import Array
from delassus.spatial.trace.fused import product_error

Indices = NDArray[np.int64]

ROUNDING = 16 * 2.0**-53
"""Bound of the error of a sum of products, relative to the sum of their sizes."""
PLAIN = 1e-11
"""Round-off, relative to the size of ``b``, up to which the plain sum will do."""


def _sum(terms: Iterable[float]) -> float:
    """Sum that is rounded once; NaN of numbers whose sum is not finite."""
    try:
        return math.fsum(terms)
    except (OverflowError, ValueError):  # beyond float64, or infinities of both signs
        return math.nan


def velocities(W: Array, r: Array, b: Array, low: Array | None = None) -> Array:
    """``W (r + low) + b``, with all digits of float64 correct where impulses are huge."""
    noise = ROUNDING * float((np.abs(W) @ np.abs(r) + np.abs(b)).max(initial=0.0))
    if low is None and noise <= PLAIN * float(np.abs(b).max(initial=0.0)):
        return np.asarray(W @ r + b)
    product = W * r
    left = product_error(W, r, product)
    rest = left if low is None else left + W * low
    return np.array([_sum((b[i], *product[i], *rest[i])) for i in range(b.size)])


def cone_distance(r: Array, mu: Array, low: Array | None = None) -> Array:
    """``|r_t| − μ r_n`` of each row of ``r + low`` (n, 3), from differences of squares."""
    p = mu * r[:, 2]
    x, y, z = ((part * part, product_error(part, part, part * part)) for part in (r[:, 0], r[:, 1], p))
    terms = [*x, *y, -z[0], -z[1], -2.0 * p * product_error(mu, r[:, 2], p)]
    if low is not None:
        terms += [2.0 * r[:, 0] * low[:, 0], 2.0 * r[:, 1] * low[:, 1], -2.0 * p * mu * low[:, 2]]
    t = np.hypot(r[:, 0], r[:, 1])
    above = np.array([_sum(row) for row in zip(*terms, strict=True)])
    return np.where(p > 0.0, above / np.where(p > 0.0, t + p, 1.0), t - p)


def natural_map(r: Array, v: Array, mu: Array, friction_offset: Array, omega: Array, low: Array | None = None) -> Array:
    """``x − P_K(x − v)`` (n, 3) at ``x = ω (r + low)``, with the projection ``P_K`` on friction cones.

    Computed from small differences: with ``y = x − v`` the distance ``|y_t| − μ y_n − ω friction_offset`` from the cone
    is that of ``x`` and a change, and the projection of ``y`` is ``y`` less a multiple of that distance, or has
    ``y_n = 0``.
    """
    x = omega[:, None] * r
    y = x - v
    t = np.hypot(y[:, 0], y[:, 1])
    sizes = t + np.hypot(x[:, 0], x[:, 1])
    change = ((v[:, :2] - 2.0 * x[:, :2]) * v[:, :2]).sum(axis=1) / np.where(sizes > 0.0, sizes, 1.0)
    beyond = t - omega * friction_offset
    gap = omega * (cone_distance(r, mu, low) - friction_offset) + change + mu * v[:, 2]
    inside, below = (gap <= 0.0) & (y[:, 2] >= 0.0), mu * beyond <= -y[:, 2]
    f = gap / (1.0 + mu**2)
    onto = np.column_stack([y[:, :2] * (f / np.where(t > 0.0, t, 1.0))[:, None], -f * mu])
    lost = np.maximum(beyond, 0.0) / np.where(t > 0.0, t, 1.0)
    flat = np.column_stack([v[:, :2] + lost[:, None] * y[:, :2], x[:, 2]])
    return np.where(inside[:, None], v, np.where(below[:, None], flat, v + onto))


def de_saxce(u: Array, mu: Array) -> Array:
    """``u + (0, 0, μ |u_t|)`` (n, 3): what is complementary to impulses under Coulomb's law."""
    return u + np.outer(mu * np.hypot(u[:, 0], u[:, 1]), [0.0, 0.0, 1.0])


def cone_residual(
    W: Array, b: Array, mu: Array, friction_offset: Array, omega: Array, r: Array, low: Array | None = None
) -> tuple[float, Array]:
    """``max_i |ω r − P_K(ω r − u − s)|`` with De Saxcé's ``s``, and the velocities ``u`` (3n,)."""
    u = velocities(W, r, b, low)
    parts = None if low is None else low.reshape(-1, 3)
    v = de_saxce(u.reshape(-1, 3), mu)
    worst = np.linalg.norm(natural_map(r.reshape(-1, 3), v, mu, friction_offset, omega, parts), axis=1).max(initial=0.0)
    return (float(worst) if worst == worst else np.inf), u


@compiled
def factor(A: Array, n: int, order: NDArray[Any]) -> float:
    """Overwrite the leading n × n part of ``A`` by ``L`` and ``U`` and ``order`` by the order of its rows.

    Returns the smallest pivot's size over the largest one's: 0 where ``A`` is singular.
    """
    least, most = np.inf, 0.0
    for k in range(n):
        order[k] = k
    for k in range(n):
        p = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[p, k]):
                p = i
        if p != k:
            order[k], order[p] = order[p], order[k]
            for j in range(n):
                A[k, j], A[p, j] = A[p, j], A[k, j]
        pivot = A[k, k]
        least, most = min(least, abs(pivot)), max(most, abs(pivot))
        if pivot == 0.0:
            return 0.0
        inverse = 1.0 / pivot
        for i in range(k + 1, n):
            if A[i, k] != 0.0:
                L = A[i, k] * inverse
                A[i, k] = L
                for j in range(k + 1, n):
                    A[i, j] -= L * A[k, j]
    return least / most if n else 1.0


@compiled
def substitute(A: Array, n: int, order: NDArray[Any], b: Array, x: Array) -> None:
    """``x = A⁻¹ b`` from what `factor` left; ``x`` must not be ``b``."""
    for i in range(n):
        total = b[order[i]]
        for j in range(i):
            total -= A[i, j] * x[j]
        x[i] = total
    for i in range(n - 1, -1, -1):
        total = x[i]
        for j in range(i + 1, n):
            total -= A[i, j] * x[j]
        x[i] = total / A[i, i]


@compiled
def affine(W: Array, x: Array, b: Array, out: Array) -> None:
    """``out = W x + b``."""
    for i in range(b.size):
        total = 0.0
        for j in range(x.size):
            total += W[i, j] * x[j]
        out[i] = total + b[i]


@compiled
def assign(to: Array, what: Array) -> None:
    """Copy a vector into another."""
    for i in range(to.size):
        to[i] = what[i]


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
def rounding(W: Array, r: Array, b: Array) -> float:
    """Bound of the round-off of ``W r + b``: the largest of a row."""
    worst = 0.0
    for i in range(b.size):
        total = abs(b[i])
        for j in range(b.size):
            total += abs(W[i, j] * r[j])
        worst = max(worst, total)
    return ROUNDING * worst
