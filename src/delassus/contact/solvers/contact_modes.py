"""Newton's method on given contact modes, for numba: what makes cone solvers end at round-off.

Contacts that let go have no unknown. Those that stick have three and ask for ``u = 0``. Those that slip along the unit
vector ``d`` have ``r = r_n (−μ d, 1)`` with two, ``r_n`` and the turn of ``d``, and ask for ``u_n = 0`` and for ``u_t``
along ``d``. With ``d⊥`` across ``d`` and ``y = −μ r_n δθ`` the impulse that the turn brings, the second condition is

    d⊥ᵀ δu_t + (|u_t| / μ r_n) y = −d⊥ᵀ u_t,

so that the reduced matrix is ``Tᵀ W S`` plus something positive on the diagonal, where ``S`` holds the directions that
impulses may change in and ``T`` those that velocities are measured in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.contact.solvers.compiled import compiled
from delassus.contact.solvers.coulomb import OPEN, SLIP, STICK, natural_residual, projected
from delassus.contact.solvers.linear import affine, assign, factor, substitute
from delassus.model.rotations import Array

PROXIMAL = 1e-13
"""Added to the reduced matrix, relative to the largest mobility, so that redundant impulses stay where they are."""
STEPS = 8


@compiled
def directions(modes: NDArray[Any], mu: Array, r: Array, u: Array, S: Array, T: Array, across: Array) -> int:
    """Fill ``S`` and ``T`` (rows of unknowns, three entries each) and the diagonal; returns the number of unknowns."""
    m = 0
    for i in range(mu.size):
        k = 3 * i
        if modes[i] == STICK:
            for j in range(3):
                S[m + j], T[m + j] = 0.0, 0.0
                S[m + j, j], T[m + j, j] = 1.0, 1.0
                across[m + j] = 0.0
            m += 3
        elif modes[i] == SLIP:
            t = np.sqrt(r[k] ** 2 + r[k + 1] ** 2)
            d1, d2 = (-r[k] / t, -r[k + 1] / t) if t > 0.0 else (1.0, 0.0)
            S[m, 0], S[m, 1], S[m, 2] = -mu[i] * d1, -mu[i] * d2, 1.0
            T[m, 0], T[m, 1], T[m, 2] = 0.0, 0.0, 1.0
            across[m] = 0.0
            m += 1
            if t > 0.0:
                S[m, 0], S[m, 1], S[m, 2] = -d2, d1, 0.0
                T[m, 0], T[m, 1], T[m, 2] = -d2, d1, 0.0
                across[m] = max(u[k] * d1 + u[k + 1] * d2, 0.0) / t
                m += 1
    return m


@compiled
def advance(modes: NDArray[Any], mu: Array, step: Array, r: Array) -> bool:
    """Change impulses by a step of the unknowns, within the cones; False if a normal impulse would change its sign."""
    m = 0
    for i in range(mu.size):
        k = 3 * i
        if modes[i] == STICK:
            for j in range(3):
                r[k + j] += step[m + j]
            m += 3
        elif modes[i] == SLIP:
            t = np.sqrt(r[k] ** 2 + r[k + 1] ** 2)
            n = r[k + 2] + step[m]
            m += 1
            if t > 0.0:
                x, y = r[k] - step[m] * r[k + 1] / -t, r[k + 1] + step[m] * r[k] / -t
                m += 1
                f = mu[i] * n / np.sqrt(x * x + y * y)
                r[k], r[k + 1] = f * x, f * y
            r[k + 2] = n
        if modes[i] != OPEN and not r[k + 2] >= 0.0:
            return False
        if modes[i] == STICK:
            r[k], r[k + 1], r[k + 2] = projected(r[k], r[k + 1], r[k + 2], mu[i])
    return True


@compiled
def linearised(
    W: Array,
    mu: Array,
    most: float,
    modes: NDArray[Any],
    r: Array,
    u: Array,
    S: Array,
    J: Array,
    right: Array,
) -> int:
    """Fill ``J`` and ``right`` of Newton's equations and ``S``; returns the number of unknowns."""
    size = mu.size
    T, across = np.empty((3 * size, 3)), np.empty(3 * size)
    first, count = np.empty(size, np.int64), np.empty(size, np.int64)
    m = directions(modes, mu, r, u, S, T, across)
    place = 0
    for i in range(size):
        first[i] = place
        count[i] = 0 if modes[i] == OPEN else (3 if modes[i] == STICK else 1)
        if modes[i] == SLIP and (r[3 * i] != 0.0 or r[3 * i + 1] != 0.0):
            count[i] = 2
        place += count[i]
    for i in range(size):
        for a in range(first[i], first[i] + count[i]):
            t1, t2, t3 = T[a, 0], T[a, 1], T[a, 2]
            right[a] = -(t1 * u[3 * i] + t2 * u[3 * i + 1] + t3 * u[3 * i + 2])
            for j in range(size):
                if count[j] > 0:
                    k = 3 * j
                    v1 = t1 * W[3 * i, k] + t2 * W[3 * i + 1, k] + t3 * W[3 * i + 2, k]
                    v2 = t1 * W[3 * i, k + 1] + t2 * W[3 * i + 1, k + 1] + t3 * W[3 * i + 2, k + 1]
                    v3 = t1 * W[3 * i, k + 2] + t2 * W[3 * i + 1, k + 2] + t3 * W[3 * i + 2, k + 2]
                    for c in range(first[j], first[j] + count[j]):
                        J[a, c] = v1 * S[c, 0] + v2 * S[c, 1] + v3 * S[c, 2]
            J[a, a] += across[a] + PROXIMAL * most
    return m


@compiled
def newton(
    W: Array, b: Array, mu: Array, omega: Array, most: float, modes: NDArray[Any], goal: float, r: Array, u: Array
) -> float:
    """Overwrite ``r`` and ``u`` by the best that Newton's method found; returns its residual (infinite: nothing)."""
    size = b.size
    S, J, order = np.empty((size, 3)), np.empty((size, size)), np.empty(size, np.int64)
    right, step = np.empty(size), np.empty(size)
    try_r, try_u = np.copy(r), np.copy(u)
    for i in range(mu.size):
        if modes[i] == OPEN:
            try_r[3 * i], try_r[3 * i + 1], try_r[3 * i + 2] = 0.0, 0.0, 0.0
    affine(W, try_r, b, try_u)
    best, before = np.inf, np.inf
    for _ in range(STEPS):
        m = linearised(W, mu, most, modes, try_r, try_u, S, J, right)
        if factor(J, m, order) == 0.0:
            return best
        substitute(J, m, order, right, step)
        if not advance(modes, mu, step, try_r):
            return best
        affine(W, try_r, b, try_u)
        residual = natural_residual(try_u, try_r, mu, omega)
        if residual < best:
            best = residual
            assign(r, try_r)
            assign(u, try_u)
        if best <= goal or not residual < before:
            return best
        before = residual
    return best


@compiled
def modes_of(x: Array, v: Array, still: float, modes: NDArray[Any]) -> None:
    """Modes from impulses and velocities: what moves no faster than ``still`` sticks."""
    for i in range(modes.size):
        k = 3 * i
        if x[k + 2] == 0.0:
            modes[i] = OPEN
        else:
            modes[i] = STICK if abs(v[k]) + abs(v[k + 1]) + abs(v[k + 2]) <= still else SLIP
