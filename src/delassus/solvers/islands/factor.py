"""LU factorisation of a matrix of blocks whose pattern is symmetric, sparse; and Cholesky of dense blocks.

Rows and columns of blocks are nodes of a graph; `analyse` eliminates the one of least degree first and records the
fill. `factorise` works on the entries in place, node by node (right-looking), without pivoting: diagonal blocks hold
mass matrices, so that pivots are large enough. A block (i, j) of positions is held by columns: entry (r, c) at
``c n_i + r``.

Source: George and Liu 1981; Davis 2006.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from delassus.compiler.jit.compile import compiled, inlined
from delassus.solvers.linear import Indices
from delassus.spatial.rotations import Array

MAX_PARTS = 20
"""Parts of an island that Newton's method tries at most."""


class BlockGraph(NamedTuple):
    """Blocks of a part that row groups tie, and the factor of its matrix; see `analyse` for the first six."""

    near: Indices
    degree: Indices
    order: Indices
    start: Indices
    fill: Indices
    where: Indices
    sizes: Indices
    size: Indices
    first: Indices
    local: Indices


@compiled
def analyse(n: int, graph: BlockGraph) -> int:
    """Order nodes by least degree; returns how many entries the factor has, or −1 where ``fill`` is too short.

    ``near`` (n n) is the graph, 1 where two nodes are neighbours; fill is added. The node at position k is
    ``order[k]``, the positions behind it that it meets are ``fill[start[k]:start[k + 1]]``, and block (i, j) of
    positions begins at ``where[i n + j]``. ``sizes`` are those of nodes.
    """
    near, degree, order, start, rows = graph.near, graph.degree, graph.order, graph.start, graph.fill
    where, sizes = graph.where, graph.sizes
    for i in range(n):
        total = 0
        for j in range(n):
            total += near[i * n + j]
        degree[i] = total
    count = 0
    start[0] = 0
    for k in range(n):
        best, least = 0, n + 1
        for i in range(n):
            if 0 <= degree[i] < least:
                best, least = i, degree[i]
        order[k] = best
        degree[best] = -1
        if count + least > rows.size:
            return -1
        for i in range(n):
            if near[best * n + i] == 1 and degree[i] >= 0:
                rows[count] = i
                count += 1
        start[k + 1] = count
        for a in range(start[k], count):
            i = rows[a]
            degree[i] -= 1
            for b in range(start[k], a):
                j = rows[b]
                if near[i * n + j] == 0:
                    near[i * n + j] = near[j * n + i] = 1
                    degree[i] += 1
                    degree[j] += 1
    for k in range(n):
        degree[order[k]] = k  # now the position of each node
    entries = 0
    for k in range(n):
        size = sizes[order[k]]
        where[k * n + k] = entries
        entries += size * size
        for a in range(start[k], start[k + 1]):
            i = degree[rows[a]]
            rows[a] = i
            where[i * n + k] = entries
            entries += size * sizes[order[i]]
            where[k * n + i] = entries
            entries += size * sizes[order[i]]
    return entries


@compiled
def factorise(n: int, graph: BlockGraph, V: Array) -> bool:
    """``A = L U`` in place, ``U`` with a unit diagonal, that of ``L`` as reciprocals. False where a pivot vanishes."""
    size, start, rows, where = graph.size, graph.start, graph.fill, graph.where
    for k in range(n):
        m, D = size[k], where[k * n + k]
        if not (factorise_six(V, D) if m == 6 else factorise_block(V, D, m)):
            return False
        for a in range(start[k], start[k + 1]):
            i = rows[a]
            h, X, Z = size[i], where[i * n + k], where[k * n + i]
            if m == 6 and h == 6:
                divide_six(V, D, X, Z)
                continue
            for c in range(m):
                for d in range(c):  # X ← X U⁻¹, a column at a time
                    x = V[D + c * m + d]
                    for r in range(h):
                        V[X + c * h + r] -= x * V[X + d * h + r]
            for c in range(h):  # Z ← L⁻¹ Z
                for d in range(m):
                    V[Z + c * m + d] *= V[D + d * m + d]
                    x = V[Z + c * m + d]
                    for r in range(d + 1, m):
                        V[Z + c * m + r] -= x * V[D + d * m + r]
        for a in range(start[k], start[k + 1]):
            i = rows[a]
            A = where[i * n + k]
            for b in range(start[k], start[k + 1]):
                j = rows[b]
                if m == 6 and size[i] == 6 and size[j] == 6:
                    minus_six(V, where[i * n + j], A, where[k * n + j])
                else:
                    minus(V, where[i * n + j], A, where[k * n + j], m, size[i], size[j])
    return True


@compiled
def factorise_block(V: Array, D: int, m: int) -> bool:
    """`factorise` of the m × m block at ``D``."""
    for c in range(m):
        pivot = V[D + c * m + c]
        if not abs(pivot) > 0.0:
            return False
        pivot = 1.0 / pivot
        V[D + c * m + c] = pivot
        for d in range(c + 1, m):
            V[D + d * m + c] *= pivot
            x = V[D + d * m + c]
            for r in range(c + 1, m):
                V[D + d * m + r] -= x * V[D + c * m + r]
    return True


@inlined
def factorise_six(V: Array, D: int) -> bool:
    """`factorise` of the 6 × 6 block at ``D``, a column at a time."""
    for c in range(6):
        forward_six(V, D, V, D + 6 * c, c)
        if not abs(V[D + 7 * c]) > 0.0:
            return False
        V[D + 7 * c] = 1.0 / V[D + 7 * c]
    return True


@compiled
def cholesky(V: Array, at: int, m: int) -> bool:
    """Factor the m × m block at ``at``, whose lower triangle counts, in place; the diagonal becomes reciprocals."""
    for c in range(m):
        pivot = V[at + c * m + c]
        if not pivot > 0.0:
            return False
        pivot = 1.0 / math.sqrt(pivot)
        V[at + c * m + c] = pivot
        for r in range(c + 1, m):
            V[at + c * m + r] *= pivot
        for d in range(c + 1, m):
            x = V[at + c * m + d]
            for r in range(d, m):
                V[at + d * m + r] -= x * V[at + c * m + r]
    return True


@compiled
def minus(V: Array, T: int, A: int, B: int, m: int, height: int, width: int) -> None:
    """``T −= A B`` of blocks (height, m) and (m, width)."""
    for c in range(width):
        for k in range(m):
            x = V[B + c * m + k]
            for r in range(height):
                V[T + c * height + r] -= x * V[A + k * height + r]


@inlined
def minus_six(V: Array, T: int, A: int, B: int) -> None:
    """`minus` of 6 × 6 blocks."""
    for c in range(6):
        t = T + 6 * c
        s0, s1, s2, s3, s4, s5 = V[t], V[t + 1], V[t + 2], V[t + 3], V[t + 4], V[t + 5]
        for k in range(6):
            x, a = V[B + 6 * c + k], A + 6 * k
            s0 -= x * V[a]
            s1 -= x * V[a + 1]
            s2 -= x * V[a + 2]
            s3 -= x * V[a + 3]
            s4 -= x * V[a + 4]
            s5 -= x * V[a + 5]
        V[t], V[t + 1], V[t + 2], V[t + 3], V[t + 4], V[t + 5] = s0, s1, s2, s3, s4, s5


@inlined
def multiply_six(D: Array, i: int, J: Array, at: int, K: Array) -> None:
    """``K = D J`` of a contact and a block of six degrees of freedom."""
    for c in range(6):
        a, b, h = J[at + c], J[at + 6 + c], J[at + 12 + c]
        x, y = D[i, 0] * a + D[i, 1] * b + D[i, 2] * h, D[i, 3] * a + D[i, 4] * b + D[i, 5] * h
        K[c], K[6 + c], K[12 + c] = x, y, D[i, 6] * a + D[i, 7] * b + D[i, 8] * h


@inlined
def add_six(V: Array, to: int, K: Array, J: Array, at: int) -> None:
    """``V += Jᵀ K`` of a contact and two blocks of six degrees of freedom."""
    a0, a1, a2, a3, a4, a5 = J[at], J[at + 1], J[at + 2], J[at + 3], J[at + 4], J[at + 5]
    b0, b1, b2, b3, b4, b5 = J[at + 6], J[at + 7], J[at + 8], J[at + 9], J[at + 10], J[at + 11]
    c0, c1, c2, c3, c4, c5 = J[at + 12], J[at + 13], J[at + 14], J[at + 15], J[at + 16], J[at + 17]
    for c in range(6):
        t, x, y, z = to + 6 * c, K[c], K[6 + c], K[12 + c]
        s0, s1, s2 = (
            V[t] + x * a0 + y * b0 + z * c0,
            V[t + 1] + x * a1 + y * b1 + z * c1,
            V[t + 2] + x * a2 + y * b2 + z * c2,
        )
        s3, s4, s5 = (
            V[t + 3] + x * a3 + y * b3 + z * c3,
            V[t + 4] + x * a4 + y * b4 + z * c4,
            V[t + 5] + x * a5 + y * b5 + z * c5,
        )
        V[t], V[t + 1], V[t + 2], V[t + 3], V[t + 4], V[t + 5] = s0, s1, s2, s3, s4, s5


@inlined
def divide_six(V: Array, D: int, X: int, Z: int) -> None:
    """``X ← X U⁻¹`` and ``Z ← L⁻¹ Z`` of 6 × 6 blocks, with the factors of the diagonal block at ``D``."""
    for c in range(1, 6):
        t = X + 6 * c
        s0, s1, s2, s3, s4, s5 = V[t], V[t + 1], V[t + 2], V[t + 3], V[t + 4], V[t + 5]
        for d in range(c):
            x, a = V[D + 6 * c + d], X + 6 * d
            s0 -= x * V[a]
            s1 -= x * V[a + 1]
            s2 -= x * V[a + 2]
            s3 -= x * V[a + 3]
            s4 -= x * V[a + 4]
            s5 -= x * V[a + 5]
        V[t], V[t + 1], V[t + 2], V[t + 3], V[t + 4], V[t + 5] = s0, s1, s2, s3, s4, s5
    for c in range(6):
        forward_six(V, D, V, Z + 6 * c, 6)


@inlined
def forward_six(V: Array, D: int, x: Array, t: int, c: int) -> None:
    """First ``c`` steps of ``L⁻¹`` times six numbers, in place."""
    s0, s1, s2, s3, s4, s5 = x[t], x[t + 1], x[t + 2], x[t + 3], x[t + 4], x[t + 5]
    if c > 0:
        s0 *= V[D]
        s1, s2, s3 = s1 - s0 * V[D + 1], s2 - s0 * V[D + 2], s3 - s0 * V[D + 3]
        s4, s5 = s4 - s0 * V[D + 4], s5 - s0 * V[D + 5]
    if c > 1:
        s1 *= V[D + 7]
        s2, s3, s4, s5 = s2 - s1 * V[D + 8], s3 - s1 * V[D + 9], s4 - s1 * V[D + 10], s5 - s1 * V[D + 11]
    if c > 2:
        s2 *= V[D + 14]
        s3, s4, s5 = s3 - s2 * V[D + 15], s4 - s2 * V[D + 16], s5 - s2 * V[D + 17]
    if c > 3:
        s3 *= V[D + 21]
        s4, s5 = s4 - s3 * V[D + 22], s5 - s3 * V[D + 23]
    if c > 4:
        s4 *= V[D + 28]
        s5 -= s4 * V[D + 29]
    if c > 5:
        s5 *= V[D + 35]
    x[t], x[t + 1], x[t + 2], x[t + 3], x[t + 4], x[t + 5] = s0, s1, s2, s3, s4, s5


@inlined
def subtract_six(V: Array, A: int, x: Array, t: int, f: int) -> None:
    """``x_t −= A x_f`` of a 6 × 6 block."""
    s0, s1, s2, s3, s4, s5 = x[t], x[t + 1], x[t + 2], x[t + 3], x[t + 4], x[t + 5]
    for c in range(6):
        y, a = x[f + c], A + 6 * c
        s0 -= V[a] * y
        s1 -= V[a + 1] * y
        s2 -= V[a + 2] * y
        s3 -= V[a + 3] * y
        s4 -= V[a + 4] * y
        s5 -= V[a + 5] * y
    x[t], x[t + 1], x[t + 2], x[t + 3], x[t + 4], x[t + 5] = s0, s1, s2, s3, s4, s5


@inlined
def substitute(n: int, graph: BlockGraph, V: Array, x: Array, k: int) -> None:
    """``x ← A⁻¹ x`` of k columns, row by row; the rows of the position p begin at ``first[p]``."""
    size, first, start, rows, where = graph.size, graph.first, graph.start, graph.fill, graph.where
    for p in range(n):
        m, D, f = size[p], where[p * n + p], first[p]
        for c in range(m):
            for j in range(k):
                x[(f + c) * k + j] *= V[D + c * m + c]
            for r in range(c + 1, m):
                for j in range(k):
                    x[(f + r) * k + j] -= V[D + c * m + r] * x[(f + c) * k + j]
        for a in range(start[p], start[p + 1]):
            X, h, g = where[rows[a] * n + p], size[rows[a]], first[rows[a]]
            if k == 1 and m == 6 and h == 6:
                subtract_six(V, X, x, g, f)
                continue
            for c in range(m):
                for r in range(h):
                    for j in range(k):
                        x[(g + r) * k + j] -= V[X + c * h + r] * x[(f + c) * k + j]
    for p in range(n - 1, -1, -1):
        m, D, f = size[p], where[p * n + p], first[p]
        for a in range(start[p], start[p + 1]):
            Z, h, g = where[p * n + rows[a]], size[rows[a]], first[rows[a]]
            if k == 1 and m == 6 and h == 6:
                subtract_six(V, Z, x, f, g)
                continue
            for c in range(h):
                for r in range(m):
                    for j in range(k):
                        x[(f + r) * k + j] -= V[Z + c * m + r] * x[(g + c) * k + j]
        for c in range(m - 1, -1, -1):
            for r in range(c):
                for j in range(k):
                    x[(f + r) * k + j] -= V[D + c * m + r] * x[(f + c) * k + j]


@compiled
def forward(V: Array, at: int, m: int, x: Array, to: int) -> None:
    """``x ← L⁻¹ x`` of the part of ``x`` at ``to`` and the block at ``at``; zeros at its beginning stay."""
    first = 0
    while first < m and x[to + first] == 0.0:
        first += 1
    for c in range(first, m):
        x[to + c] *= V[at + c * m + c]
        for r in range(c + 1, m):
            x[to + r] -= V[at + c * m + r] * x[to + c]


@compiled
def backward(V: Array, at: int, m: int, x: Array, to: int) -> None:
    """``x ← L⁻ᵀ x``."""
    for c in range(m - 1, -1, -1):
        total = x[to + c]
        for r in range(c + 1, m):
            total -= V[at + c * m + r] * x[to + r]
        x[to + c] = total * V[at + c * m + c]


@compiled
def invert(V: Array, at: int, m: int, Z: Array) -> None:
    """``(L Lᵀ)⁻¹`` of the block at ``at``, to the same place of ``Z``: there ``L⁻¹`` by rows, then ``L⁻ᵀ L⁻¹``."""
    for r in range(m):
        row, scale = at + r * m, V[at + r * m + r]
        for k in range(r):
            Z[row + k] = 0.0
        for c in range(r):
            entry = V[at + c * m + r]
            for k in range(c + 1):
                Z[row + k] -= entry * Z[at + c * m + k]
        for k in range(r):
            Z[row + k] *= scale
        Z[row + r] = scale
    for r in range(m):
        row, scale = at + r * m, Z[at + r * m + r]
        for k in range(r + 1):
            Z[row + k] *= scale
        for c in range(r + 1, m):
            entry = Z[at + c * m + r]
            for k in range(r + 1):
                Z[row + k] += entry * Z[at + c * m + k]
    for r in range(m):
        for k in range(r):
            Z[at + k * m + r] = Z[at + r * m + k]


@inlined
def product(a: Array, i: int, b: Array, j: int, m: int) -> float:
    """Scalar product of ``m`` entries from ``a[i]`` and ``b[j]`` on."""
    total = 0.0
    for c in range(m):
        total += a[i + c] * b[j + c]
    return total
