"""A dense problem ``u = W r + b`` as an island of one block.

With ``W = Y Yᵀ`` of rank k, found by Cholesky's method with pivoting, ``W`` is the Delassus matrix of a body with unit
mass and k degrees of freedom on which contacts have the Jacobian ``Y``, and ``b`` what contacts move at without it.
Source: Higham 2002, section 10.3.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from delassus.compiler.jit.compile import compiled, compiled_for, inlined
from delassus.solvers.islands.cone import CONTACT, PATCH, SIZE, SPIN
from delassus.solvers.islands.factor import BlockGraph
from delassus.solvers.islands.newton import (
    FULL_DELTAS,
    ISLAND_GOAL,
    RESIDUAL_FOR_NEWTON,
    begin_part,
    choose_part,
    solve_island,
    step_fully,
)
from delassus.solvers.islands.patches import prepare_patch
from delassus.solvers.islands.records import Bodies, Islands, RowGroups, RowLaws, RowMemory, StepOptions, Work
from delassus.solvers.islands.sweeps import add_compliance, push, residual_of
from delassus.solvers.linear import Indices, affine, mobilities, rounding
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


@inlined
def block_island(W: Array, b: Array, laws: ConeLaws) -> tuple[Bodies, RowGroups, Islands]:
    """One block, all groups of rows on it, and the island that they are."""
    n, size = laws.mu.size, b.size
    blocks, d, kind, tied, n_patches = np.empty((n, 3, 3)), np.empty((n, 3)), np.full(n, CONTACT), np.full(n, -1), 0
    for i in range(n):
        for c in range(3):
            d[i, c] = b[3 * i + c]
            for e in range(3):
                blocks[i, c, e] = W[3 * i + c, 3 * i + e]
        if laws.partner[i] >= 0:
            j, n_patches = laws.partner[i], n
            kind[i], kind[j], tied[i], tied[j] = PATCH, SPIN, j, i
    at, none, zero, unit = np.empty(n, np.int64), np.full(n, -1), np.zeros(1, np.int64), np.zeros(size * size)
    bodies = Bodies(np.zeros(2, np.int64), zero, unit, zero, unit, unit, unit, np.empty(0), zero, zero, unit, zero)
    law = RowLaws(
        blocks, np.empty((n, 12)), d, np.zeros((n, 3)), laws.mu, laws.friction_offset, mobilities(W)[0], np.empty(n),
        np.ones(n), tied, np.zeros((n_patches, SIZE)),
    )  # fmt: skip
    memory = RowMemory(np.empty((n, 9)), np.empty((n, 3)), np.empty((n, 3)), np.empty((n, 3)), np.zeros((n, 3)))
    J, Y, r = np.zeros(size * size), np.zeros(size * size), np.empty((n, 3))
    rows = RowGroups(kind, np.zeros(n, np.int64), none, at, at, J, Y, law, r, np.zeros(n), np.empty(n), memory)
    ends, lost, report, wanted = np.full(3, n), np.empty(0), np.empty((0, 3)), np.empty(0)
    ends[0] = 0
    islands = Islands(zero, zero, np.arange(2), np.arange(n), ends, zero, zero, lost, report, wanted)
    return bodies, rows, islands


@inlined
def block_work(n: int, size: int) -> Work:
    """Memory for an island of one block, of that size, and n groups of rows."""
    zero, lost, report, wanted = np.zeros(1, np.int64), np.empty(0), np.empty((0, 3)), np.empty(0)
    g, x = np.zeros((13, 2), np.int64), np.empty((6, size))
    part = Islands(zero, g[10], g[11], np.empty(n, np.int64), g[12], zero, zero, lost, report, wanted)
    graph = BlockGraph(g[0], g[1], g[2], g[3], g[4], g[5], g[6], g[7], g[8], g[9])
    V, K = np.empty(size * size), np.empty(3 * size)
    return Work(graph, part, V, K, x[0], x[1], x[2], x[3], x[4], x[5], np.empty((n, 3)))


@compiled_for("impulses of contact problems")
def block_impulses(
    W: Array, b: Array, laws: ConeLaws, p: Array, tolerance: float, limit: int, parts: int
) -> tuple[float, int]:
    """Impulses ``p`` (3n,) as `solve_island` finds them with so many sweeps and parts, to round-off by Newton's method.

    Returns their residual (m/s) and the number of sweeps; a start within the tolerance is left as it is.
    """
    size, speed = b.size, 0.0
    for i in range(size):
        speed = max(speed, abs(b[i]))
    bodies, rows, islands = block_island(W, b, laws)
    v, own, units, work = np.zeros(size), np.zeros((size, size)), np.zeros((size, size)), block_work(laws.mu.size, size)
    for i in range(size):
        units[i, i] = 1.0
    options = StepOptions(0.0, 0.0, 0.0, 0.0, GOAL / ISLAND_GOAL * tolerance, 0.0, limit, 0.0, 0, parts, speed)
    lay_out(bodies, rows, units, W, size)
    for i in range(laws.mu.size):
        add_compliance(rows, i, 0.0)
        if rows.kind[i] == PATCH:
            prepare_patch(bodies, rows, i)
    residual = violation(bodies, rows, islands, W, p, v)
    if residual <= tolerance:
        return residual, 0
    m, report = max(root_of(W, own, np.empty(size, np.int64)), 1), np.zeros(3)
    lay_out(bodies, rows, own, own, m)
    for c in range(m):
        bodies.L[c * m + c], v[c] = 1.0, 0.0
    for i in range(laws.mu.size):
        push(bodies, rows, i, rows.r[i, 0], rows.r[i, 1], rows.r[i, 2], v)
    solve_island(bodies, rows, work, islands, 0, v, options, report)
    copy(rows.r, p)
    residual, goal = residual_of(bodies, rows, islands, 0, v), max(GOAL * tolerance, rounding(W, p, b))
    if goal < residual < RESIDUAL_FOR_NEWTON * speed:
        choose_part(rows, work, islands, 0, -1.0)
        entries = begin_part(bodies, rows, work, v)
        step_fully(bodies, rows, work, v, residual, goal, entries, FULL_DELTAS[0])
        copy(rows.r, p)
    lay_out(bodies, rows, units, W, size)
    return violation(bodies, rows, islands, W, p, v), int(report[1])


@inlined
def lay_out(bodies: Bodies, rows: RowGroups, J: Array, Y: Array, m: int) -> None:
    """Jacobians of all groups on a body with m degrees of freedom, and ``Y``."""
    bodies.first[1] = m
    for i in range(J.shape[0]):
        rows.at_a[i // 3] = 3 * (i // 3) * m
        for c in range(m):
            rows.J[i * m + c], rows.Y[i * m + c] = J[i, c], Y[i, c]


@compiled
def violation(bodies: Bodies, rows: RowGroups, islands: Islands, W: Array, p: Array, v: Array) -> float:
    """Residual ``max |ω p − P_K(ω p − u − s)|`` (m/s) at ``u = W p + b``, of rows that are degrees of freedom.

    ``r`` is ``p`` then, and ``v`` is ``W p``.
    """
    for i in range(p.size):
        rows.r[i // 3, i % 3], v[i] = p[i], 0.0
    affine(W, p, v, v)
    return float(residual_of(bodies, rows, islands, 0, v))


def alone(n: int) -> Indices:
    """No partners of ``n`` groups."""
    return np.full(n, -1)


@compiled
def copy(r: Array, p: Array) -> None:
    """``p`` (3n,) from ``r`` (n, 3)."""
    for i in range(p.size):
        p[i] = r[i // 3, i % 3]
