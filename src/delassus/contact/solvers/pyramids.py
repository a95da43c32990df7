"""Contacts whose friction cones are pyramids, solved as linear problems, for numba: from ``W, b, mu`` to impulses.

The linear problem is that of `PolyhedralLCP`, its ``n_f`` directions the rows of ``directions`` (n_f, 2). Nothing is
checked here, and nothing compiled until the first call.

Source: [OS] eqs. 12 and 41.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from delassus.contact.solvers.compiled import compiled
from delassus.contact.solvers.linear import affine
from delassus.contact.solvers.pgs import pgs_kernel
from delassus.contact.solvers.pivoting import SOLVED, from_basis, lemke_kernel, scales
from delassus.model.rotations import Array

AT_LIMIT = 1.0 - 1e-9
"""Part of the largest friction from which on a contact of the start is taken to slip."""

NOTHING = 1e-12
"""Part of friction below which a direction has none."""


@compiled
def linear_problem(W: Array, b: Array, mu: Array, directions: Array) -> tuple[Array, Array]:
    """``M`` and ``q`` of `PolyhedralLCP`."""
    n, f = mu.size, directions.shape[0]
    size = n * (f + 1)
    D = np.zeros((f + 1, 3))
    D[0, 2] = 1.0
    for d in range(f):
        D[1 + d, 0], D[1 + d, 1] = directions[d, 0], directions[d, 1]
    M, q, row = np.zeros((size + n, size + n)), np.zeros(size + n), np.empty(3 * n)
    for i in range(n):
        for a in range(f + 1):
            here = i * (f + 1) + a
            for k in range(3 * n):  # Dᵀ W, a row
                row[k] = D[a, 0] * W[3 * i, k] + D[a, 1] * W[3 * i + 1, k] + D[a, 2] * W[3 * i + 2, k]
            q[here] = D[a, 0] * b[3 * i] + D[a, 1] * b[3 * i + 1] + D[a, 2] * b[3 * i + 2]
            for j in range(n):
                for c in range(f + 1):
                    M[here, j * (f + 1) + c] = (
                        row[3 * j] * D[c, 0] + row[3 * j + 1] * D[c, 1] + row[3 * j + 2] * D[c, 2]
                    )
            if a > 0:
                M[here, size + i], M[size + i, here] = 1.0, -1.0
        M[size + i, i * (f + 1)] = mu[i]
    return M, q


@compiled
def unknowns(W: Array, b: Array, mu: Array, directions: Array, r: Array, z: Array, active: NDArray[np.bool_]) -> bool:
    """Unknowns of the linear problem that stand for impulses, and the basis they suggest; False if there are none.

    Friction is put on two neighbouring directions. What slips or is open has its speed for ``σ``; where it has no
    friction, the direction most against its motion is in the basis all the same, which would be singular without.
    """
    n, f = mu.size, directions.shape[0]
    u, some = np.empty(b.size), False
    affine(W, r, b, u)
    for k in range(z.size):
        z[k], active[k] = 0.0, False
    for i in range(n):
        k, first, sigma = 3 * i, i * (f + 1), n * (f + 1) + i
        total, fastest, against, least = 0.0, 0.0, 0, NOTHING * (abs(r[k]) + abs(r[k + 1]))
        for d in range(f):
            speed = -(directions[d, 0] * u[k] + directions[d, 1] * u[k + 1])
            if speed > fastest:
                fastest, against = speed, d
            e = (d + 1) % f
            cross = directions[d, 0] * directions[e, 1] - directions[d, 1] * directions[e, 0]
            if cross > 0.0 and r[k + 2] > 0.0:
                along = (r[k] * directions[e, 1] - r[k + 1] * directions[e, 0]) / cross
                other = (directions[d, 0] * r[k + 1] - directions[d, 1] * r[k]) / cross
                if along > least and other >= -least:
                    z[first + 1 + d] = along
                    z[first + 1 + e] = other if other > least else 0.0
                    total = along + other
        if r[k + 2] > 0.0:
            z[first] = r[k + 2]
            some = True
        if fastest > 0.0 and total >= AT_LIMIT * mu[i] * max(r[k + 2], 0.0):
            z[sigma] = fastest
            if total == 0.0:
                active[first + 1 + against] = True
        for k in range(first, first + f + 1):
            active[k] = active[k] or z[k] > 0.0
        active[sigma] = z[sigma] > 0.0
    return some


@compiled
def impulses_of(z: Array, directions: Array, n: int) -> Array:
    """Impulses (3 n,) from the unknowns."""
    f = directions.shape[0]
    r = np.zeros(3 * n)
    for i in range(n):
        first = i * (f + 1)
        r[3 * i + 2] = z[first]
        for d in range(f):
            r[3 * i] += directions[d, 0] * z[first + 1 + d]
            r[3 * i + 1] += directions[d, 1] * z[first + 1 + d]
    return r


@compiled
def lemke_contacts(
    W: Array, b: Array, mu: Array, directions: Array, start: Array, tolerance: float, limit: int
) -> tuple[Array, int, int]:
    """Impulses (3 n,), outcome and pivots, by Lemke's method; none are needed if the modes of ``start`` still hold."""
    n = mu.size
    M, q = linear_problem(W, b, mu, directions)
    z, w, s, active = np.empty(q.size), np.empty(q.size), np.empty(q.size), np.empty(q.size, np.bool_)
    if unknowns(W, b, mu, directions, start, z, active):
        scales(M, s)
        if from_basis(M, q, s, active, z, w) <= tolerance:
            return impulses_of(z, directions, n), SOLVED, 0
    z, outcome, pivots = lemke_kernel(M, q, tolerance, limit)
    return impulses_of(z, directions, n), outcome, pivots


@compiled
def pgs_contacts(
    W: Array, b: Array, mu: Array, directions: Array, start: Array, tolerance: float, limit: int
) -> tuple[Array, int, int]:
    """Impulses (3 n,), outcome and sweeps, by projected Gauss–Seidel over contacts, from ``start``."""
    n, f = mu.size, directions.shape[0]
    M, q = linear_problem(W, b, mu, directions)
    z, members, starts = np.empty(q.size), np.empty(q.size, np.int64), np.empty(n + 1, np.int64)
    unknowns(W, b, mu, directions, start, z, np.empty(q.size, np.bool_))
    for i in range(n):
        starts[i] = i * (f + 2)
        for a in range(f + 1):
            members[i * (f + 2) + a] = i * (f + 1) + a
        members[i * (f + 2) + f + 1] = n * (f + 1) + i
    starts[n] = q.size
    z, outcome, sweeps = pgs_kernel(M, q, starts, members, z, tolerance, limit)
    return impulses_of(z, directions, n), outcome, sweeps


def regular_directions(n_directions: int) -> NDArray[np.float64]:
    """Directions at the angles ``2π j / n_f`` (n_f, 2), as `PolyhedralLCP` has them."""
    angles = 2 * np.pi * np.arange(n_directions) / n_directions
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    directions[np.abs(directions) < 1e-15] = 0.0
    return directions
