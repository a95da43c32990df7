"""Riccati's equation backwards over the steps of a trajectory, as compiled code: the linear-quadratic model of `ilqr`.

Columns are changes of the n controls that vary, of the state in its tangent, and 1, for gradients and values: with
``F`` of ``[δx⁺; 1] = F [δu; δx; 1]``, whose last column has by how much a step misses the next state, and residuals
``r + J δ = [J r] [δu; δx; 1]``,

``Q = Fᵀ V⁺ F + [J r]ᵀ [J r] + H``,   ``δu = K [δx; 1]``,   ``K = −(Q_uu + damping)⁻¹ Q_ux``,
``V = Q_xx + Kᵀ (Q_uu K + Q_ux) + Q_uxᵀ K``,

which is the cost of what ``K`` does, damped or not: ``½ [δx; 1]ᵀ V [δx; 1]``. Controls that would leave their room are
held at its end, one set after the other, and then follow no state. Marquardt's damping is relative to the curvature.

Cost: O((n + nx) nx²) a step. Products are sums of rows of vector registers, `BLOCK` rows at once; registers are those
of numbers with changes (`delassus.compiler.jit.duals`), which numbers scale.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from delassus.compiler.jit.compile import compiled, inlined
from delassus.compiler.jit.types import DUALS
from delassus.runtime.threads import at_once
from delassus.spatial.rotations import Array

BLOCK = 8
"""Numbers of a register, and rows that a product makes at once."""


class QuadraticModel(NamedTuple):
    """The linear-quadratic model about a trajectory of T steps.

    Attributes
    ----------
    A, B, gaps : (T, nx, nx), (T, nx, nu) and (T, nx) arrays
        Derivatives of steps, and the states after them minus the next ones.
    J, r : (T, m, nx + nu) and (T, m) arrays
        Derivatives of residuals of steps, and these.
    J_end, r_end : (m', nx) and (m',) arrays
        Those of the end.
    varied : (n,) array
        Numbers of controls.
    room : (2, T, n) array
        Their least and largest changes.
    H, H_end : (T, nx + nu, nx + nu) and (nx, nx) arrays
        Second derivatives of costs of steps and of the end beside those of squares of linear residuals; without entries
        if there are none.
    """

    A: Array
    B: Array
    gaps: Array
    J: Array
    r: Array
    J_end: Array
    r_end: Array
    varied: Any
    room: Array
    H: Array
    H_end: Array


class StageColumns(NamedTuple):
    """Matrices of the columns above, as numbers or as registers."""

    F: Any
    VF: Any
    Q: Any
    V: Any
    K: Any
    left: Any
    right: Any
    residual: Any


def riccati(model: QuadraticModel, damping: float) -> tuple[Array, Array, Array]:
    """Laws ``K`` (T, n, nx + 1) of all steps, ``V`` (nx + 1, nx + 1) at the start, and by how much gaps change costs.

    The last is ``V_x1ᵀ`` times the gap after each step (T,).

    ``damping`` is what part of the curvature by each control is added to it.
    """
    (T, nx), n = model.gaps.shape, len(model.varied)
    rows, width, pairs = (BLOCK * (-(-k // BLOCK)) for k in (nx + 1, n + BLOCK * (-(-(nx + 1) // BLOCK)), 2 * n))
    numbers = StageColumns(*(np.zeros((k, width)) for k in (rows, rows, width, rows, n, pairs, pairs, 1)))
    laws, given = np.empty((T, n, nx + 1)), QuadraticModel(*map(np.ascontiguousarray, model))
    slopes, registers = np.zeros(T), StageColumns(*(x.view(DUALS) for x in numbers))
    some = at_once(width * width * rows)
    for end in range(T, 0, -some) or [0]:
        _backward(given, damping, laws, slopes, numbers, registers, max(end - some, 0), end)
    return laws, numbers.V[: nx + 1, n : n + nx + 1], slopes


@compiled
def _backward(
    model: QuadraticModel,
    damping: float,
    laws: Array,
    slope: Array,
    numbers: StageColumns,
    registers: StageColumns,
    first: int,
    end: int,
) -> None:
    """Steps from the one before ``end`` back to the first of some; the last ones start from the end's residuals."""
    A, B, gaps, J, r, J_end, r_end, varied, room, H, H_end = model
    F, _, Q, V, K, left, right, row = numbers
    T, nx, n, m = A.shape[0], A.shape[1], varied.size, r.shape[1]
    one, blocks, nx_blocks, L = n + nx, registers.Q.shape[1], F.shape[0] // BLOCK, np.zeros((n, n))
    held: Any = np.zeros(n, np.int64)
    if end == T:
        _at_end(V, row, J_end, r_end, H_end, n)
        F[nx, one] = 1.0
    for t in range(end - 1, first - 1, -1):
        for i in range(nx):
            for j in range(n):
                F[i, j] = B[t, i, varied[j]]
            for j in range(nx):
                F[i, n + j] = A[t, i, j]
            F[i, one] = gaps[t, i]
        for i in range(nx):
            slope[t] += V[i, one] * gaps[t, i]
        for b in range(nx_blocks):
            for j in range(blocks):
                _product(V, n + BLOCK * b, registers.F, j, nx + 1, registers.VF, BLOCK * b)
        for b in range(blocks):
            for j in range(b, blocks):
                _product(F, BLOCK * b, registers.VF, j, nx + 1, registers.Q, BLOCK * b)
        for e in range(m):
            for j in range(n):
                row[0, j] = J[t, e, nx + varied[j]]
            for j in range(nx):
                row[0, n + j] = J[t, e, j]
            row[0, one] = r[t, e]
            for i in range(one + 1):
                if row[0, i] != 0.0:
                    for j in range(i // BLOCK, blocks):
                        registers.Q[i, j] += row[0, i] * registers.residual[0, j]
        if H.shape[1] > 0:
            _curve(Q, H, t, varied, nx)
        _follow(numbers, registers.K, L, held, room, t, damping, one)
        for a in range(n):  # V = Q_xx + [K Q_ux]ᵀ [Q_uu K + Q_ux; K]; of free controls, Q_uu K + Q_ux = −damping K
            for j in range(n, one + 1):
                laws[t, a, j - n] = K[a, j]
                left[a, j], left[n + a, j], right[n + a, j] = K[a, j], Q[a, j], K[a, j]
                right[a, j] = -damping * Q[a, a] * K[a, j]
            if held[a] != 0:
                for j in range(n, one + 1):
                    right[a, j] = Q[a, j]
                    for c in range(n):
                        right[a, j] += Q[min(a, c), max(a, c)] * K[c, j]
        for b in range(nx_blocks):
            for j in range((n + BLOCK * b) // BLOCK, blocks):
                _product(left, n + BLOCK * b, registers.right, j, 2 * n, registers.V, BLOCK * b)
        for i in range(nx + 1):
            for j in range(i, nx + 1):
                V[i, n + j] += Q[n + i, n + j]
        _mirror(V, n, nx + 1)


@inlined
def _at_end(V: Array, row: Array, J_end: Array, r_end: Array, H_end: Array, n: int) -> None:
    """``V`` after the last step, that of the residuals of the end."""
    nx = J_end.shape[1]
    for e in range(r_end.size):
        for j in range(nx):
            row[0, n + j] = J_end[e, j]
        row[0, n + nx] = r_end[e]
        for i in range(n, n + nx + 1):
            if row[0, i] != 0.0:
                for j in range(i, n + nx + 1):
                    V[i - n, j] += row[0, i] * row[0, j]
    for i in range(H_end.shape[0]):
        for j in range(i, nx):
            V[i, n + j] += H_end[i, j]
    _mirror(V, n, nx + 1)


@inlined
def _curve(Q: Array, H: Array, t: int, varied: Any, nx: int) -> None:
    """Add second derivatives of a step."""
    n = varied.size
    for i in range(n + nx):
        for j in range(i, n + nx):
            Q[i, j] += H[t, nx + varied[i] if i < n else i - n, nx + varied[j] if j < n else j - n]


@compiled
def _follow(
    numbers: StageColumns, K_rows: Any, L: Array, held: Any, room: Array, t: int, damping: float, one: int
) -> None:
    """``K`` (n, …) that minimises the quadratic model, damped; what would leave its room is held at its end."""
    Q, K, n = numbers.Q, numbers.K, held.size
    for a in range(n):
        held[a] = 0
    more = True
    while more:
        for a in range(n):  # Cholesky's factor, the diagonal inverted; rows of held controls are those of an identity
            for b in range(a + 1):
                total = 0.0
                if held[a] == 0 and held[b] == 0:
                    total = Q[b, a] * (1.0 + damping) if a == b else Q[b, a]
                elif a == b:
                    total = 1.0
                for c in range(b):
                    total -= L[a, c] * L[b, c]
                L[a, b] = 1.0 / np.sqrt(total) if a == b else total * L[b, b]
        for a in range(n):
            for j in range(n, one + 1):
                K[a, j] = -Q[a, j] if held[a] == 0 else 0.0
            if held[a] != 0:
                K[a, one] = room[held[a] - 1, t, a]
            else:
                for b in range(n):
                    if held[b] != 0:
                        K[a, one] -= Q[min(a, b), max(a, b)] * room[held[b] - 1, t, b]
        for j in range(n // BLOCK, K_rows.shape[1]):
            for a in range(n):
                x = K_rows[a, j]
                for c in range(a):
                    x -= L[a, c] * K_rows[c, j]
                K_rows[a, j] = L[a, a] * x
            for a in range(n - 1, -1, -1):
                x = K_rows[a, j]
                for c in range(a + 1, n):
                    x -= L[c, a] * K_rows[c, j]
                K_rows[a, j] = L[a, a] * x
        more = False
        for a in range(n):
            if held[a] == 0 and not (room[0, t, a] <= K[a, one] <= room[1, t, a]):
                held[a], more = 1 if K[a, one] < room[0, t, a] else 2, True


@inlined
def _product(P: Array, i: int, X: Any, j: int, n: int, Y: Any, row: int) -> None:
    """``P[:n, i : i + 8]ᵀ X[:n, j]``, registers of the rows of ``Y`` from one on."""
    x = X[0, j]
    a, b, c, d = P[0, i] * x, P[0, i + 1] * x, P[0, i + 2] * x, P[0, i + 3] * x
    e, f, g, h = P[0, i + 4] * x, P[0, i + 5] * x, P[0, i + 6] * x, P[0, i + 7] * x
    for k in range(1, n):
        x = X[k, j]
        a += P[k, i] * x
        b += P[k, i + 1] * x
        c += P[k, i + 2] * x
        d += P[k, i + 3] * x
        e += P[k, i + 4] * x
        f += P[k, i + 5] * x
        g += P[k, i + 6] * x
        h += P[k, i + 7] * x
    Y[row, j] = a
    Y[row + 1, j] = b
    Y[row + 2, j] = c
    Y[row + 3, j] = d
    Y[row + 4, j] = e
    Y[row + 5, j] = f
    Y[row + 6, j] = g
    Y[row + 7, j] = h


@inlined
def _mirror(V: Array, n: int, size: int) -> None:
    """Make a matrix in the columns from n on symmetric, by its upper triangle."""
    for i in range(size):
        for j in range(i):
            V[i, n + j] = V[j, n + i]
