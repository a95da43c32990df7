"""``G y = x`` where rows may depend on one another: the least-squares solution of least norm, without branches.

At unit diagonal, ``S G S = L D Lᵀ``, where a pivot is the part of a row, of 1, that those before it do not span. The
row with the largest pivot is the next: of rows that are almost alike, one comes last, and not before others that it
would be divided from. Dependent rows have none: their entries of ``D⁺`` and their columns of ``L`` are zero. Then
``Z S G S Zᵀ = D`` with ``Z = L⁻¹``, so that forces ``S z``, ``z`` the rows of ``Z`` at these pivots, move nothing. With
``N`` their orthonormal basis and ``P = 1 − N Nᵀ``,

    ``y = P S Zᵀ D⁺ Z S P x``.

Cost 4/3 m³, and m³ selections, by which rows are exchanged. Which rows depend on others is certain where eigenvalues of
``S G S`` are far on either side of what counts as zero: of the rows kept, the least one is at least ``1 / Σ |z|² / d``,
and no other eigenvalue is above the sum of the pivots of the others. Source: Higham, "Analysis of the Cholesky
decomposition of a semi-definite matrix", 1990.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.problem import Problem
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.model.tree import WORLD
from delassus.spatial.motion import column, from_entries
from delassus.spatial.ops import Matrix, Ops, Scalar

DEPENDENT = 1e-10
"""Pivots up to this are those of dependent rows."""

ZERO = 1e-11
"""Sum of these pivots up to which they are certain."""

CONDITION = 1e9
"""Sum of the reciprocal eigenvalues of the rows that are kept, times m, up to which they are certain."""

ROUND_OFF = 1e-3
"""The same, times the round-off of the numbers."""

UNMOVED = 1e-20
"""A row counts as one that nothing moves if its mobility, relative to `mobility_bound`, is below this: the row's
round-off (1e-16) enters squared."""

JUDGED = "rows that may depend on one another"
"""Phase of the matrix whose rows are judged one by one."""


class LeastSquares:
    """Factorised positive semidefinite matrix ``G`` (m × m); rows whose diagonal is not above ``least`` move nothing.

    Attributes
    ----------
    rank : scalar
        Number of independent rows.
    is_certain : scalar
        1 where it is certain which rows depend on those before them, else 0.
    """

    def __init__(self, ops: Ops, G: Matrix, least: list[Scalar]) -> None:
        self._ops, m = ops, ops.shape(G)[0]
        ops.mark(JUDGED, [G])
        g = ops.entries(G)
        moved = [ops.less(least[i], g[i][i]) for i in range(m)]
        size = [1.0 / ops.sqrt(ops.select(moved[i], g[i][i], 1.0)) for i in range(m)]
        S = [ops.select(moved[i], size[i], 0.0) for i in range(m)]
        self._over: list[Scalar] = []  # diagonal of D⁺
        self._exchanges: list[tuple[int, int, Scalar]] = []
        L, zero = self._factorised(S, g, moved, size)
        self._S = S
        self.rank: Scalar = 0.0
        inverse: Scalar = 0.0
        self._Z: list[list[Any]] = []
        self._N: list[list[Any]] = []
        for i, over in enumerate(self._over):
            # row of Z = L⁻¹
            Z_i = [-reduce(lambda x, y: x + y, (L[i][k] * self._Z[k][j] for k in range(j, i))) for j in range(i)]
            self._Z.append([*Z_i, 1.0])
            inverse = inverse + over * (1.0 + sum(z * z for z in Z_i))
            kept = ops.less(0.0, over)
            self.rank = self.rank + kept

            # forces that move nothing, orthonormal to those before
            n = [size[j] * z for j, z in enumerate(self._Z[i])]
            for q in self._N:
                along = sum(x * y for x, y in zip(q, n, strict=False))
                n = [x - along * q[j] if j < len(q) else x for j, x in enumerate(n)]
            one = ops.select(kept, 0.0, 1.0 / ops.sqrt(sum(x * x for x in n)))
            self._N.append([x * one for x in n])
        condition = min(CONDITION, ROUND_OFF / ops.epsilon)
        self.is_certain = ops.less(zero, ZERO) * ops.less(inverse * m, condition)

    def _factorised(
        self, S: list[Scalar], g: list[list[Scalar]], moved: list[Scalar], size: list[Scalar]
    ) -> tuple[list[list[Any]], Scalar]:
        """Rows of ``L`` below its diagonal, and the sum of the pivots that count as zero.

        Rows are exchanged, those of ``S`` and of ``size`` with them.
        """
        ops, m = self._ops, len(S)
        a: list[list[Any]] = [[S[i] * g[i][j] * S[j] for j in range(i)] for i in range(m)]
        pivots, L = [ops.select(x, 1.0, 0.0) for x in moved], [list[Any]() for _ in range(m)]
        zero: Scalar = 0.0

        def at(i: int, j: int) -> tuple[list[Any], int]:
            return (a[i], j) if i > j else (a[j], i)

        for k in range(m):
            # the largest pivot comes next
            for i in range(k + 1, m):
                is_larger = ops.less(pivots[k], pivots[i])
                self._exchanges.append((k, i, is_larger))
                pairs = [((x, k), (x, i)) for x in (pivots, S, size)]
                pairs += [((L[k], j), (L[i], j)) for j in range(k)]
                pairs += [(at(k, j), at(i, j)) for j in range(k + 1, m) if j != i]
                for (x, here), (y, there) in pairs:
                    x[here], y[there] = _exchanged(ops, is_larger, x[here], y[there])

            pivot = pivots[k]
            kept = ops.less(DEPENDENT, pivot)
            over = ops.select(kept, 1.0 / ops.select(kept, pivot, 1.0), 0.0)
            self._over.append(over)
            zero = zero + ops.select(kept, 0.0, ops.maximum(pivot, -pivot))
            for i in range(k + 1, m):
                L[i].append(a[i][k] * over)
                pivots[i] = pivots[i] - a[i][k] * L[i][k]
                for j in range(k + 1, i):
                    a[i][j] = a[i][j] - L[i][k] * a[j][k]
        return L, zero

    def solve(self, x: Matrix) -> Matrix:
        """``y`` (m × 1)."""
        ops, b = self._ops, column(self._ops, x)
        self._exchange(b, self._exchanges)
        f = [s * b for s, b in zip(self._S, self._without_null(b), strict=True)]
        h = [over * sum(z * f[j] for j, z in enumerate(row)) for over, row in zip(self._over, self._Z, strict=True)]
        y = [s * sum(self._Z[k][j] * h[k] for k in range(j, len(h))) for j, s in enumerate(self._S)]
        y = self._without_null(y)
        self._exchange(y, self._exchanges[::-1])
        return from_entries(ops, y) if y else x

    def _exchange(self, x: list[Scalar], exchanges: list[tuple[int, int, Scalar]]) -> None:
        for k, i, condition in exchanges:
            x[k], x[i] = _exchanged(self._ops, condition, x[k], x[i])

    def _without_null(self, x: list[Scalar]) -> list[Scalar]:
        parts = [(q, sum(a * x[j] for j, a in enumerate(q))) for q in self._N]
        for q, along in parts:
            x = [b - along * q[j] if j < len(q) else b for j, b in enumerate(x)]
        return x


def _exchanged(ops: Ops, condition: Scalar, x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """``(y, x)`` where the condition holds, else ``(x, y)``."""
    return ops.select(condition, y, x), ops.select(condition, x, y)


def mobility_bound(problem: Problem, body: Articulated | SparseFactor) -> list[Scalar]:
    """Size (m) that the diagonal of ``G`` has where no row is badly placed.

    The squared length of the row times the largest ``S D⁻¹ Sᵀ`` of the joints that support its link, lengths being
    measured by `Problem.length`.
    """
    tree, ops, unit = problem.tree, problem.ops, [problem.length] * 3 + [1.0] * 3
    own: list[Scalar] = []
    offered: list[Scalar] = []
    for i, joint in enumerate(tree.joints):
        W, p = ops.entries(body.joint_inverse_inertia(i)), tree.parents[i]
        each = [W[k][k] * (1.0 / unit[k] ** 2) for k in joint.motion_axes]
        none: Scalar = 0.0
        own.append(reduce(ops.maximum, each, none))
        offered.append(own[i] if p == WORLD else ops.maximum(own[i], offered[p]))
    bounds: list[Scalar] = [0.0] * problem.n_rows

    def add(constraint: int, rows: Matrix, units: list[float], size: Scalar) -> None:
        for r, row in zip(range(problem.n_rows)[problem.rows[constraint]], ops.entries(rows), strict=True):
            bounds[r] = bounds[r] + size * sum(x * x * u**2 for x, u in zip(row, units, strict=True))

    for end in problem.end_effectors:
        add(end.constraint, end.K, unit, offered[end.link])
    for on_joint in problem.joint_space_rows:
        axes = tree.joints[on_joint.link].motion_axes
        add(on_joint.constraint, on_joint.C, [unit[k] for k in axes], own[on_joint.link])
    return bounds
