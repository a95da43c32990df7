"""Random contact problems: of low rank, and of several bodies with everything that makes them hard."""

from __future__ import annotations

import numpy as np

from delassus.contact import ConeProblem
from delassus.model.rotations import Array


def of_low_rank(rng: np.random.Generator, n_contacts: int, rank: int = 18, mu: float = 0.5) -> ConeProblem:
    """Problem with ``W`` of that rank plus 1e-9: from seven contacts on, ``b`` is not in its range without 1e-9."""
    a = rng.standard_normal((3 * n_contacts, rank))
    b = rng.standard_normal(3 * n_contacts)
    b[2::3] -= 1.0
    return ConeProblem(a @ a.T / rank + 1e-9 * np.eye(3 * n_contacts), b, mu)


def of_bodies(rng: np.random.Generator, most: int = 12, tips: bool = True) -> ConeProblem:
    """1 to ``most`` contacts of 1 to 6 free bodies: masses over four decades, repeated contacts, friction 0 to 1.5.

    Without ``tips``, friction may exceed ``μ r_n`` by 0.01 to 10 N s, as in decompression.
    """
    n, bodies = int(rng.integers(1, most + 1)), int(rng.integers(1, 7))
    mu = rng.uniform(0, 1.5, n)
    if rng.random() < 0.15:
        mu[rng.random(n) < 0.3] = 0.0
    mass = 10 ** rng.uniform(-2, 2, bodies)
    J = np.zeros((3 * n, 6 * bodies))
    for i in range(n):
        rows = slice(3 * i, 3 * i + 3)
        if i and rng.random() < 0.2:
            J[rows] = J[3 * i - 3 : 3 * i]
            continue
        first = rng.integers(bodies)
        axes, _ = np.linalg.qr(rng.standard_normal((3, 3)))
        J[rows, 6 * first : 6 * first + 6] = axes @ _point(rng)
        if bodies > 1 and rng.random() < 0.5:
            second = (first + 1 + rng.integers(bodies - 1)) % bodies
            J[rows, 6 * second : 6 * second + 6] = -axes @ _point(rng)
    inverse = np.repeat(1 / mass, 6) * np.tile([1, 1, 1, 10, 10, 10], bodies)
    more = 0.0 if tips else 10 ** rng.uniform(-2, 1, n)
    return ConeProblem((J * inverse) @ J.T, J @ rng.standard_normal(6 * bodies), mu, more)


def law_residual(problem: ConeProblem, r: Array, remainder: Array | None = None) -> float:
    """How far impulses (n, 3) are from Coulomb's law (m/s), in 80-bit numbers and without De Saxcé's shift.

    ``max |min(ω r_n, u_n)|`` and ``max |ω r_t − P(ω r_t − u_t)|``, ``P`` on the disc of radius ``ω (μ r_n + more)``.
    """
    p = np.asarray(r, np.longdouble) + (0.0 if remainder is None else remainder)
    u = (problem.W.astype(np.longdouble) @ p.ravel() + problem.b).reshape(-1, 3)
    omega = problem.W.diagonal().reshape(-1, 3).mean(axis=1)
    y = omega[:, None] * p[:, :2] - u[:, :2]
    limit = omega * np.maximum(problem.mu * p[:, 2] + problem.more, 0.0)
    kept = np.minimum(1.0, limit / np.maximum(np.hypot(y[:, 0], y[:, 1]), 1e-300))
    tangential = omega[:, None] * p[:, :2] - kept[:, None] * y
    return float(max(np.abs(np.minimum(omega * p[:, 2], u[:, 2])).max(), np.abs(tangential).max()))


def _point(rng: np.random.Generator) -> Array:
    """Velocity (3, 6) of a random point of a body, of its twist."""
    x, y, z = rng.uniform(-0.5, 0.5, 3)
    return np.hstack([np.eye(3), [[0, z, -y], [-z, 0, x], [y, -x, 0]]])
