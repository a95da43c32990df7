"""Newton's method on given contact modes: what makes cone solvers end at round-off.

Contacts that let go have no unknown. Those that stick have three and ask for ``u = 0``. Those that slip along the unit
vector ``d`` have ``r = r_n (−μ d, 1)`` with two, ``r_n`` and the angle of ``d``, and ask for ``u_n = 0`` and for
``u_t`` along ``d``. With ``d⊥`` across ``d`` and ``y = −μ r_n δθ`` the impulse that the angle brings, the latter is

    d⊥ᵀ δu_t + (|u_t| / μ r_n) y = −d⊥ᵀ u_t,

so that the reduced matrix is ``Tᵀ W S`` plus something positive on the diagonal, where ``S`` holds the directions that
impulses may change in and ``T`` those that velocities are measured in. Where friction may exceed ``μ r_n`` by a
constant, ``|r_t|`` takes the place of ``μ r_n``; without normal impulses, what rubs has the angle alone, and what holds
two unknowns. Rows of zeros have none.

Solutions too large for float64 are found by iterative refinement: the same steps, with right sides and impulses in
double-double. Each gains the digits that the factorisation keeps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled
from delassus.contact.results import Impulses, SolverStatus
from delassus.contact.solvers.coulomb import (
    HOLD,
    OPEN,
    RUB,
    SLIP,
    STICK,
    mobilities,
    natural_residual,
    projected,
    rounding,
)
from delassus.contact.solvers.double_double import cone_distance, cone_residual, two_sum
from delassus.contact.solvers.linear import affine, assign, factor, substitute
from delassus.spatial.rotations import Array

Indices = NDArray[Any]


class Tuning(NamedTuple):
    """Numbers of Newton's method."""

    proximal: float = 1e-13
    """Added to the reduced matrix, relative to the largest mobility, so that redundant impulses stay where they are."""
    steps: int = 8
    """Most steps in float64."""
    refinements: int = 12
    """Most steps in double-double."""
    round_off_fraction: float = 1e-3
    """Fraction of the tolerance that round-off may make up before residuals are computed in double-double."""
    round_off_multiple: float = 64.0
    """Residuals up to this multiple of round-off may come from it: Newton's method makes more of it than sums do."""


TUNING = Tuning()


@compiled
def linearised(
    W: Array, mu: Array, friction_offset: Array, most: float, mode: Indices, r: Array, u: Array, S: Array, owner:
    Indices, J: Array, right: Array,
) -> int:  # fmt: skip
    """Newton's equations ``J x = right``; ``S`` (row by row) and ``owner`` say which impulse an unknown changes.

    Returns the number of unknowns.
    """
    size, m = r.size, 0
    T, across, row = np.zeros((size, 3)), np.zeros(size), np.empty(size)
    for i in range(mode.size):
        k = 3 * i
        count = 0
        if mode[i] == STICK or mode[i] == HOLD:
            for j in range(3 if mode[i] == STICK else 2):
                if W[k + j, k + j] > 0.0:
                    for c in range(3):
                        S[m + count, c] = T[m + count, c] = 1.0 if j == c else 0.0
                    count += 1
        elif mode[i] != OPEN:
            t = np.sqrt(r[k] ** 2 + r[k + 1] ** 2)
            d1, d2 = (-r[k] / t, -r[k + 1] / t) if t > 0.0 else (1.0, 0.0)
            if mode[i] == SLIP and W[k + 2, k + 2] > 0.0:
                S[m, 0], S[m, 1], S[m, 2] = -mu[i] * d1, -mu[i] * d2, 1.0
                T[m, 2] = 1.0
                count = 1
            if t > 0.0:
                a = m + count
                S[a, 0], S[a, 1], S[a, 2] = -d2, d1, 0.0
                T[a, 0], T[a, 1] = -d2, d1
                across[a] = max(u[k] * d1 + u[k + 1] * d2, 0.0) / t
                count += 1
        for j in range(m, m + count):
            owner[j] = i
        m += count
    for a in range(m):
        i = 3 * owner[a]
        right[a] = -(T[a, 0] * u[i] + T[a, 1] * u[i + 1] + T[a, 2] * u[i + 2])
        for k in range(size):
            row[k] = T[a, 0] * W[i, k] + T[a, 1] * W[i + 1, k] + T[a, 2] * W[i + 2, k]
        for c in range(m):
            j = 3 * owner[c]
            J[a, c] = row[j] * S[c, 0] + row[j + 1] * S[c, 1] + row[j + 2] * S[c, 2]
        J[a, a] += across[a] + TUNING.proximal * most
    return m


@compiled
def advance(
    mode: Indices, mu: Array, friction_offset: Array, m: int, S: Array, owner: Indices, step: Array, r: Array
) -> bool:
    """Change impulses by a step of the unknowns, within the cones; False if a contact would pull."""
    for c in range(m):
        k = 3 * owner[c]
        along_normal = mode[owner[c]] == SLIP and S[c, 2] == 1.0 and r[k] ** 2 + r[k + 1] ** 2 > 0.0
        for j in range(2 if along_normal else 0, 3):  # what slips goes back onto its cone below
            r[k + j] += S[c, j] * step[c]
    for i in range(mode.size):
        k = 3 * i
        if not r[k + 2] >= 0.0:
            return False
        if mode[i] == STICK or mode[i] == HOLD:
            r[k], r[k + 1], r[k + 2] = projected(r[k], r[k + 1], r[k + 2], mu[i], friction_offset[i])
        t = np.sqrt(r[k] ** 2 + r[k + 1] ** 2)
        if (mode[i] == SLIP or mode[i] == RUB) and t > 0.0:
            limit = mu[i] * r[k + 2] + friction_offset[i]
            r[k], r[k + 1] = r[k] * limit / t, r[k + 1] * limit / t
    return True


@compiled
def newton(
    W: Array, b: Array, mu: Array, friction_offset: Array, omega: Array, most: float, mode: Indices, goal: float, r:
    Array, u: Array,
) -> float:  # fmt: skip
    """Overwrite ``r`` and ``u`` by the best that Newton's method found; returns its residual (infinite: nothing)."""
    size = b.size
    S, J, owner, order = np.empty((size, 3)), np.empty((size, size)), np.empty(size, np.int64), np.empty(size, np.int64)
    right, step = np.empty(size), np.empty(size)
    try_r, try_u = np.copy(r), np.copy(u)
    for k in range(size):
        if mode[k // 3] == OPEN or (mode[k // 3] >= HOLD and k % 3 == 2):
            try_r[k] = 0.0
    affine(W, try_r, b, try_u)
    best, before = np.inf, np.inf
    for _ in range(TUNING.steps):
        m = linearised(W, mu, friction_offset, most, mode, try_r, try_u, S, owner, J, right)
        if factor(J, m, order) == 0.0:
            return best
        substitute(J, m, order, right, step)
        if not advance(mode, mu, friction_offset, m, S, owner, step, try_r):
            return best
        affine(W, try_r, b, try_u)
        residual = natural_residual(try_u, try_r, mu, friction_offset, omega)
        if residual < best:
            best = residual
            assign(r, try_r)
            assign(u, try_u)
        if best <= goal or not residual < before:
            return best
        before = residual
    return best


@compiled
def modes_of(r: Array, u: Array, friction_offset: Array, still: float, mode: Indices) -> None:
    """Contact modes from impulses and velocities: what moves no faster than ``still`` sticks."""
    for i in range(mode.size):
        k = 3 * i
        moves = abs(u[k]) + abs(u[k + 1]) > still
        if r[k + 2] > 0.0:
            mode[i] = SLIP if moves or abs(u[k + 2]) > still else STICK
        elif friction_offset[i] > 0.0:
            mode[i] = RUB if moves else HOLD
        else:
            mode[i] = OPEN


def concluded(
    W: Array, b: Array, mu: Array, friction_offset: Array, r: Array, residual: float, tolerance: float, iterations: int
) -> tuple[Impulses, float]:
    """Impulses with their status, by a float64 residual, and the residual that this is based on.

    Where round-off may hide the truth, the residual is computed in double-double; impulses that miss the tolerance by
    no more than round-off explains are refined.
    """
    noise = rounding(W, r, b)
    if residual > max(tolerance, TUNING.round_off_multiple * noise):
        status = SolverStatus.ITERATION_LIMIT if residual < np.inf else SolverStatus.NUMERICAL_TROUBLE
        return Impulses(r, status, iterations), residual
    if residual <= tolerance and noise <= TUNING.round_off_fraction * tolerance:
        return Impulses(r, SolverStatus.CONVERGED, iterations), residual
    omega, most = mobilities(W)
    residual, u = cone_residual(W, b, mu, friction_offset, omega, r)
    if residual <= tolerance:
        return Impulses(r, SolverStatus.CONVERGED, iterations), residual
    if residual <= TUNING.round_off_multiple * noise:
        mode = np.empty(mu.size, np.int64)
        for still in (10.0 * residual, 1e3 * residual, 0.1 * residual):
            modes_of(r, u, friction_offset, still, mode)
            found, low, left = refined(W, b, mu, friction_offset, omega, most, mode, 1e-3 * tolerance, r)
            if left <= tolerance:
                alone, _ = cone_residual(W, b, mu, friction_offset, omega, found)
                if alone <= tolerance:
                    return Impulses(found, SolverStatus.CONVERGED, iterations), alone
                return Impulses(found, SolverStatus.ROUND_OFF, iterations, low), left
    return Impulses(r, SolverStatus.ITERATION_LIMIT, iterations), residual


def refined(
    W: Array, b: Array, mu: Array, friction_offset: Array, omega: Array, most: float, mode: Indices, goal: float,
    start: Array,
) -> tuple[Array, Array, float]:  # fmt: skip
    """Impulses ``r + low`` by iterative refinement on given contact modes, and their residual: the best found."""
    size = b.size
    S, J, owner, right = np.empty((size, 3)), np.empty((size, size)), np.empty(size, np.int64), np.empty(size)
    r, low = start, np.zeros(size)
    best, before = (r, low, np.inf), np.inf
    slips = np.repeat((mode == SLIP) | (mode == RUB), 3).reshape(-1, 3) & [True, True, False]
    for _ in range(TUNING.refinements):
        residual, u = cone_residual(W, b, mu, friction_offset, omega, r, low)
        if residual < best[2]:
            best = r, low, residual
        if best[2] <= goal or not residual < 1e3 * before:
            break
        before = residual
        m = linearised(W, mu, friction_offset, most, mode, r, u, S, owner, J, right)
        try:
            step = np.linalg.solve(J[:m, :m], right[:m])
        except np.linalg.LinAlgError:
            break
        change = np.zeros((mu.size, 3))
        np.add.at(change, owner[:m], S[:m] * step[:, None])
        r, low = two_sum(r, low + change.ravel())
        if not (r[2::3] >= 0.0).all():
            break
        rows = r.reshape(-1, 3)
        t = np.hypot(rows[:, 0], rows[:, 1])
        excess = (cone_distance(rows, mu, low.reshape(-1, 3)) - friction_offset) / np.where(t > 0.0, t, 1.0)
        r, low = two_sum(r, low - np.where(slips, excess[:, None] * rows, 0.0).ravel())
    return best
