"""A dense problem ``u = W r + b`` as an island of one block.

With ``W = Y Yᵀ`` of rank k, found by Cholesky's method with pivoting, ``W`` is the Delassus matrix of a body with unit
mass and k degrees of freedom on which contacts have the Jacobian ``Y``, and ``b`` what contacts move at without it.
Source: Higham 2002, section 10.3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from delassus.compiler.jit.compile import compiled, compiled_for
from delassus.contact.snapshot import Indices
from delassus.contact.solvers.linear import mobilities, rounding
from delassus.contact.sparse.cone import CONTACT, PATCH, SIZE, SPIN, cone_law
from delassus.contact.sparse.factor import Graph
from delassus.contact.sparse.newton import TUNING as ISLANDS
from delassus.contact.sparse.newton import begin_part, choose_part, solve_island, step_fully
from delassus.contact.sparse.records import Bodies, Islands, Options, RowLaws, RowMemory, Rows, Work
from delassus.contact.sparse.rows import add_compliance
from delassus.contact.sparse.spins import prepare_patch
from delassus.contact.sparse.sweeps import push, residual_of
from delassus.spatial.rotations import Array

PIVOT = 1e-15
"""Smallest pivot over the largest one: below it, a diagonal entry is round-off."""

GOAL = 1e-5
"""Residual over the tolerance at which iterations end, if that is above round-off."""


class ConeLaws(NamedTuple):
    """Of groups of rows friction coefficients (n,), what friction may exceed their limits by (N s), and a ``partner``.

    What has one (−1: none) is a patch, and that is its spin; see `delassus.contact.sparse.spins`.
    """

    mu: Array
    friction_offset: Array
    partner: Indices


@compiled
def root_of(W: Array, Y: Array, order: Indices) -> int:
    """Columns ``Y`` (n, n) with ``Y Yᵀ = W``; their number, the others are zero."""
    n = W.shape[0]
    left, least = np.empty(n), 0.0
    for i in range(n):
        left[i], order[i] = W[i, i], i
        least = max(least, PIVOT * W[i, i])
    for k in range(n):
        best = k
        for i in range(k + 1, n):
            if left[order[i]] > left[order[best]]:
                best = i
        order[k], order[best] = order[best], order[k]
        row = order[k]
        if not left[row] > least:
            return k
        Y[row, k] = np.sqrt(left[row])
        over = 1.0 / Y[row, k]
        for i in range(k + 1, n):
            r = order[i]
            total = W[r, row]
            for c in range(k):
                total -= Y[r, c] * Y[row, c]
            Y[r, k] = total * over
            left[r] -= Y[r, k] * Y[r, k]
    return int(n)


@compiled_for("impulses of contact problems")
def block_impulses(
    W: Array, b: Array, laws: ConeLaws, p: Array, tolerance: float, limit: int, parts: int
) -> tuple[float, int]:
    """Impulses ``p`` (3n,) as `solve_island` finds them with so many sweeps and parts, to round-off by Newton's method.

    Returns their residual (m/s) and the number of sweeps; a start within the tolerance is left as it is.
    """
    mu, friction_offset, partner = laws.mu, laws.friction_offset, laws.partner
    n, size, omega, speed = mu.size, b.size, mobilities(W)[0], 0.0
    for i in range(size):
        speed = max(speed, abs(b[i]))
    residual = violation(W, b, laws, omega, p)
    if residual <= tolerance:
        return residual, 0
    Y, order = np.zeros((size, size)), np.empty(size, np.int64)
    m = max(root_of(W, Y, order), 1)
    J, unit, blocks, r, d = np.empty(size * m), np.zeros(m * m), np.empty((n, 3, 3)), np.empty((n, 3)), np.empty((n, 3))
    at, none, zero = np.empty(n, np.int64), np.full(n, -1), np.zeros(1, np.int64)
    for c in range(m):
        unit[c * m + c] = 1.0
    for i in range(size):
        for c in range(m):
            J[i * m + c] = Y[i, c]
    for i in range(n):
        at[i] = 3 * i * m
        for c in range(3):
            r[i, c], d[i, c] = p[3 * i + c], b[3 * i + c]
            for e in range(3):
                blocks[i, c, e] = W[3 * i + c, 3 * i + e]
    kind, tied, n_patches = np.full(n, CONTACT), np.full(n, -1), 0
    for i in range(n):
        if partner[i] >= 0:
            kind[i], kind[partner[i]], tied[i], tied[partner[i]], n_patches = PATCH, SPIN, partner[i], i, n
    first, ends = np.full(2, 0), np.full(3, n)
    first[1], ends[0] = m, 0
    bodies = Bodies(first, zero, unit, zero, unit, unit, unit, np.empty(0), zero, zero, np.empty(0), zero)
    law = RowLaws(
        blocks, np.empty((n, 12)), d, np.zeros((n, 3)), mu, friction_offset, omega, np.empty(n), np.ones(n), tied,
        np.zeros((n_patches, SIZE)),
    )  # fmt: skip
    memory = RowMemory(np.empty((n, 9)), np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3)), np.zeros((n, 3)))
    rows = Rows(
        kind, np.zeros(n, np.int64), none, at, at, J, J, law, r, np.zeros(n), np.empty(n), memory
    )  # fmt: skip
    of_none = np.empty(0), np.empty((0, 3)), np.empty(0)
    islands = Islands(zero, zero, np.arange(2), np.arange(n), ends, zero, zero, of_none[0], of_none[1], of_none[2])
    part = Islands(
        zero, np.zeros(1, np.int64), np.zeros(2, np.int64), np.empty(n, np.int64), np.zeros(2, np.int64), zero, zero,
        of_none[0], of_none[1], of_none[2],
    )  # fmt: skip
    graph = Graph(
        np.empty(1, np.int64), np.empty(1, np.int64), np.empty(1, np.int64), np.empty(2, np.int64),
        np.empty(1, np.int64), np.empty(1, np.int64), np.empty(1, np.int64), np.empty(1, np.int64),
        np.empty(1, np.int64), np.empty(1, np.int64),
    )  # fmt: skip
    work = Work(
        graph, part, np.empty(m * m), np.empty(3 * m), np.empty(m), np.empty(m), np.empty(m), np.empty(m), np.empty(m),
        np.empty(m), np.empty((n, 3)),
    )  # fmt: skip
    options = Options(0.0, 0.0, 0.0, 0.0, GOAL / ISLANDS.goal * tolerance, 0.0, limit, 0.0, 0, parts, speed)
    v, report = np.zeros(m), np.zeros(3)
    for i in range(n):
        add_compliance(rows, i, 0.0)
        if kind[i] == PATCH:
            prepare_patch(bodies, rows, i)
        push(bodies, rows, i, r[i, 0], r[i, 1], r[i, 2], v)
    solve_island(bodies, rows, work, islands, 0, v, options, report)
    copy(r, p)
    residual, goal = residual_of(bodies, rows, islands, 0, v), max(GOAL * tolerance, rounding(W, p, b))
    if goal < residual < ISLANDS.residual_for_newton * speed:
        choose_part(rows, work, islands, 0, -1.0)
        entries = begin_part(bodies, rows, work, v)
        step_fully(bodies, rows, work, v, residual, goal, entries, ISLANDS.full_deltas[0])
        copy(r, p)
    return violation(W, b, laws, omega, p), int(report[1])


def alone(n: int) -> Indices:
    """No partners of ``n`` groups."""
    return np.full(n, -1)


@compiled
def copy(r: Array, p: Array) -> None:
    """``p`` (3n,) from ``r`` (n, 3)."""
    for i in range(p.size):
        p[i] = r[i // 3, i % 3]


@compiled
def velocity_of(W: Array, b: Array, p: Array, k: int) -> tuple[float, float, float]:
    """Three rows of ``W p + b``, from row ``k`` on."""
    u0, u1, u2 = b[k], b[k + 1], b[k + 2]
    for j in range(p.size):
        u0 += W[k, j] * p[j]
        u1 += W[k + 1, j] * p[j]
        u2 += W[k + 2, j] * p[j]
    return u0, u1, u2


@compiled
def patch_violation(W: Array, b: Array, mu: float, friction_offset: float, i: int, j: int, p: Array) -> float:
    """The same of a patch and its spin, groups ``i`` and ``j``."""
    u, s, w, speed, size, square = velocity_of(W, b, p, 3 * i), velocity_of(W, b, p, 3 * j), 0.0, 0.0, 0.0, 0.0
    for c in range(3):
        w += (W[3 * i + c, 3 * i + c] + W[3 * j + c, 3 * j + c]) / 3.0
        speed += s[c] * s[c]
    speed = np.sqrt(speed + u[0] * u[0] + u[1] * u[1])
    for c in range(3):
        size += (w * p[3 * j + c] - s[c]) ** 2
    size = np.sqrt(size + (w * p[3 * i] - u[0]) ** 2 + (w * p[3 * i + 1] - u[1]) ** 2)
    law = cone_law(mu, w * friction_offset, size, 0.0, w * p[3 * i + 2] - u[2] - mu * speed)
    part = law[0] / size if size > 0.0 else 1.0
    for c in range(3):
        square += (w * p[3 * j + c] - part * (w * p[3 * j + c] - s[c])) ** 2
        own = w * p[3 * i + c]
        square += (own - (law[2] if c == 2 else part * (own - u[c]))) ** 2
    return float(np.sqrt(square))


@compiled
def violation(W: Array, b: Array, laws: ConeLaws, omega: Array, p: Array) -> float:
    """Residual ``max |ω p − P_K(ω p − u − s)|`` (m/s) at ``u = W p + b``."""
    mu, friction_offset, partner = laws.mu, laws.friction_offset, laws.partner
    worst, is_spin = 0.0, np.zeros(mu.size, np.int64)
    for i in range(mu.size):
        if partner[i] >= 0:
            is_spin[partner[i]] = 1
    for i in range(mu.size):
        k = 3 * i
        if is_spin[i] == 1:
            continue
        if partner[i] >= 0:
            own = patch_violation(W, b, mu[i], friction_offset[i], i, partner[i], p)
            if not own <= worst:
                worst = own
            continue
        u, w = velocity_of(W, b, p, k), omega[i]
        u0, u1, u2 = u[0], u[1], u[2] + mu[i] * np.sqrt(u[0] * u[0] + u[1] * u[1])
        x, y, z = w * p[k], w * p[k + 1], w * p[k + 2]
        law = cone_law(mu[i], w * friction_offset[i], x - u0, y - u1, z - u2)
        own = np.sqrt((x - law[0]) ** 2 + (y - law[1]) ** 2 + (z - law[2]) ** 2)
        if not own <= worst:
            worst = own
    return worst if worst < np.inf else np.inf
