"""Loops of a block: their rows made orthonormal, velocities that they leave, and gaps that are taken back.

With ``M = L Lᵀ``, the rows ``Q`` of `orthonormalise` are those of ``J L⁻ᵀ``: what loops leave of a velocity ``v`` or an
acceleration is ``L⁻ᵀ (1 − Qᵀ Q) Lᵀ v``, and dependent rows are none.
"""

from __future__ import annotations

import math

from delassus.compiler.jit.compile import compiled, inlined
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.factor import backward, forward
from delassus.contact.sparse.records import Bodies, State
from delassus.contact.sparse.rows import UNMOVED
from delassus.spatial.rotations import Array

YIELDING = 1e-8
"""Compliance of loops over their mobility, in Newton's method alone."""

REGULAR_CONDITION = 1e-10
"""Squares of the lengths of rows below which one depends on others, as in `delassus.accuracy.status`."""


@compiled
def orthonormalise(L: Array, at: int, m: int, Q: Array, start: int, n: int, gaps: Array, rates: Array, k0: int) -> None:
    """Rows ``Q`` (n, m) at ``start`` become orthonormal rows ``q = L⁻¹ Jᵀ``, and right sides those along them.

    Those first that differ most from the ones before. What depends on others (`REGULAR_CONDITION`) becomes zero. Right
    sides ``gaps`` and ``rates`` begin at ``k0``.
    """
    most = 0.0
    for k in range(n):
        forward(L, at, m, Q, start + k * m)
        most = max(most, product(Q, start + k * m, Q, start + k * m, m))
    for k in range(n):
        row = start + k * m
        size = product(Q, row, Q, row, m)
        scale(Q, row, m, gaps, rates, k0 + k, 1.0 / math.sqrt(size) if size > UNMOVED * most else 0.0)
    for k in range(n):
        row, best, largest = start + k * m, k, 0.0
        for other in range(k, n):
            size = product(Q, start + other * m, Q, start + other * m, m)
            if size > largest:
                best, largest = other, size
        for c in range(m):
            to = start + best * m + c
            Q[row + c], Q[to] = Q[to], Q[row + c]
        gaps[k0 + k], gaps[k0 + best] = gaps[k0 + best], gaps[k0 + k]
        rates[k0 + k], rates[k0 + best] = rates[k0 + best], rates[k0 + k]
        for other in range(k):  # once more, for round-off
            subtract(Q, row, start + other * m, m, gaps, rates, k0 + k, k0 + other)
        scale(Q, row, m, gaps, rates, k0 + k, 1.0 / math.sqrt(largest) if largest > REGULAR_CONDITION else 0.0)
        size = product(Q, row, Q, row, m)
        scale(Q, row, m, gaps, rates, k0 + k, 1.0 / math.sqrt(size) if size > 0.0 else 0.0)
        for other in range(k + 1, n):
            subtract(Q, start + other * m, row, m, gaps, rates, k0 + other, k0 + k)


@compiled
def multiply_by_transpose(L: Array, at: int, m: int, v: Array, i: int, x: Array) -> None:
    """``x = Lᵀ v`` of the part of ``v`` at ``i``."""
    for c in range(m):
        total = v[i + c] / L[at + c * m + c]
        for r in range(c + 1, m):
            total += L[at + c * m + r] * v[i + r]
        x[c] = total


@compiled
def remove_loop_rows(Q: Array, start: int, n: int, m: int, rates: Array, k0: int, part: float, x: Array) -> None:
    """``x ← x − Qᵀ (Q x + part · rates)``: what loops leave of ``x = Lᵀ v``, or of an acceleration."""
    for k in range(n):
        row = start + k * m
        u = product(Q, row, x, 0, m) + part * rates[k0 + k]
        for c in range(m):
            x[c] -= u * Q[row + c]


@compiled
def close_loops(bodies: Bodies, state: State, loop: Indices, x: Array) -> None:
    """Orthonormal rows of a block's loops in place of their Jacobian.

    ``loop`` is the block, the number of rows, and where they begin in ``bodies.Q`` and ``errors``; ``x`` is memory.
    Errors along the rows become ``gaps``. Newton's method sees loops as springs that hardly yield:
    ``M ← L (1 + Qᵀ Q / YIELDING) Lᵀ``.
    """
    b, n, Q, first = loop[0], loop[1], bodies.Q, loop[3]
    at = bodies.at[b]
    m = bodies.first[b + 1] - bodies.first[b]
    for k in range(n):
        state.gaps[first + k] = state.errors[first + k]
    orthonormalise(bodies.L, at, m, Q, loop[2], n, state.gaps, state.rates, first)
    for k in range(n):
        row = loop[2] + k * m
        for r in range(m):  # L q
            x[r] = Q[row + r] / bodies.L[at + r * m + r]
            for c in range(r):
                x[r] += bodies.L[at + c * m + r] * Q[row + c]
        for c in range(m):
            for r in range(m):
                bodies.M[at + c * m + r] += x[c] * x[r] / YIELDING


@compiled
def close_gaps(bodies: Bodies, state: State, loop: Indices, part: float, x: Array) -> float:
    """Displacement of a block, added to ``shift``, that takes back a part of its loops' errors; the largest part.

    It is that of least kinetic energy. ``x`` is memory.
    """
    b, n, first = loop[0], loop[1], loop[3]
    f, most = bodies.first[b], 0.0
    m = bodies.first[b + 1] - f
    for c in range(m):
        x[c] = 0.0
    for k in range(n):
        most = max(most, abs(part * state.errors[first + k]))
    remove_loop_rows(bodies.Q, loop[2], n, m, state.gaps, first, part, x)
    backward(bodies.L, bodies.at[b], m, x, 0)
    for c in range(m):
        state.shift[f + c] += x[c]
    return most


@inlined
def product(a: Array, i: int, b: Array, j: int, m: int) -> float:
    """Scalar product of ``m`` entries from ``a[i]`` and ``b[j]`` on."""
    total = 0.0
    for c in range(m):
        total += a[i + c] * b[j + c]
    return total


@inlined
def scale(Q: Array, row: int, m: int, gaps: Array, rates: Array, k: int, factor: float) -> None:
    """A row and its right sides by a factor."""
    gaps[k] *= factor
    rates[k] *= factor
    for c in range(m):
        Q[row + c] *= factor


@inlined
def subtract(Q: Array, row: int, other: int, m: int, gaps: Array, rates: Array, k: int, j: int) -> None:
    """Subtract from a row and its right sides the part along another row, of unit length."""
    u = product(Q, row, Q, other, m)
    gaps[k] -= u * gaps[j]
    rates[k] -= u * rates[j]
    for c in range(m):
        Q[row + c] -= u * Q[other + c]
