"""Contacts whose friction cones are pyramids as linear problems: from ``W, b, mu`` to ``M, q`` and back.

Unknowns are ``β̲ = (F_n, β_1 … β_nf)`` of each contact (N s), then ``σ`` of each contact (m/s); the ``n_f`` directions
are the rows of ``directions`` (n_f, 2).

Source: [OS] eqs. 12 and 41.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled
from delassus.solvers.linear import affine
from delassus.spatial.rotations import Array

AT_LIMIT = 1.0 - 1e-9
"""Part of the largest friction from which on a contact of the start is taken to slip."""
NOTHING = 1e-12
"""Part of friction below which a direction has none."""


def regular_directions(n_directions: int) -> NDArray[np.float64]:
    """Directions at the angles ``2π j / n_f`` (n_f, 2)."""
    angles = 2 * np.pi * np.arange(n_directions) / n_directions
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    directions[np.abs(directions) < 1e-15] = 0.0
    return directions


def impulse_directions(n_contacts: int, directions: Array) -> Array:
    """``D̲`` (3 n_u, n_u (n_f + 1)), [OS] eq. 15: impulses of contacts are ``D̲ β̲``."""
    D = np.zeros((3, len(directions) + 1))
    D[2, 0], D[:2, 1:] = 1.0, directions.T
    return np.asarray(np.kron(np.eye(n_contacts), D), dtype=float)


@compiled
def linear_problem(W: Array, b: Array, mu: Array, directions: Array, friction_offset: Array) -> tuple[Array, Array]:
    """``M = [D̲ᵀ W D̲, Ê; Ē, 0]`` and ``q = (D̲ᵀ b, friction_offset)``."""
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
            for j in range(size):
                k, c = 3 * (j // (f + 1)), j % (f + 1)
                M[here, j] = row[k] * D[c, 0] + row[k + 1] * D[c, 1] + row[k + 2] * D[c, 2]
            if a > 0:
                M[here, size + i], M[size + i, here] = 1.0, -1.0
        M[size + i, i * (f + 1)] = mu[i]
        q[size + i] = friction_offset[i]
    return M, q


@compiled
def contact_blocks(n: int, n_directions: int) -> NDArray[np.int64]:
    """Unknowns of each contact (n, n_f + 2): what `pgs` solves for together."""
    blocks = np.empty((n, n_directions + 2), np.int64)
    for i in range(n):
        for a in range(n_directions + 1):
            blocks[i, a] = i * (n_directions + 1) + a
        blocks[i, n_directions + 1] = n * (n_directions + 1) + i
    return blocks


@compiled
def unknowns(
    W: Array, b: Array, mu: Array, directions: Array, r: Array, friction_offset: Array
) -> tuple[Array, NDArray[np.bool_], bool]:
    """Unknowns of the linear problem that stand for impulses, the basis they suggest, and whether there are any.

    Friction is put on two neighbouring directions. What slips or is open has its speed for ``σ``; where it has no
    friction, the direction most against its motion is in the basis all the same, which would be singular without.
    """
    n, f = mu.size, directions.shape[0]
    u, some = np.empty(b.size), False
    affine(W, r, b, u)
    z, active = np.zeros(n * (f + 2)), np.zeros(n * (f + 2), np.bool_)
    for i in range(n):
        k, first, sigma = 3 * i, i * (f + 1), n * (f + 1) + i
        total, fastest, against, least = 0.0, 0.0, 0, NOTHING * (abs(r[k]) + abs(r[k + 1]))
        limit = mu[i] * max(r[k + 2], 0.0) + friction_offset[i]
        for d in range(f):
            speed = -(directions[d, 0] * u[k] + directions[d, 1] * u[k + 1])
            if speed > fastest:
                fastest, against = speed, d
            e = (d + 1) % f
            cross = directions[d, 0] * directions[e, 1] - directions[d, 1] * directions[e, 0]
            if cross > 0.0 and limit > 0.0:
                along = (r[k] * directions[e, 1] - r[k + 1] * directions[e, 0]) / cross
                other = (directions[d, 0] * r[k + 1] - directions[d, 1] * r[k]) / cross
                if along > least and other >= -least:
                    z[first + 1 + d] = along
                    z[first + 1 + e] = other if other > least else 0.0
                    total = along + other
        if r[k + 2] > 0.0:
            z[first] = r[k + 2]
        some = some or r[k + 2] > 0.0 or total > 0.0
        if fastest > 0.0 and total >= AT_LIMIT * limit:
            z[sigma] = fastest
            if total == 0.0:
                active[first + 1 + against] = True
        for k in range(first, first + f + 1):
            active[k] = active[k] or z[k] > 0.0
        active[sigma] = z[sigma] > 0.0
    return z, active, some


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
