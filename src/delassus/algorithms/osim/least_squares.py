"""``G y = x`` where rows may depend on one another: the least-squares solution of least norm, without branches.

At unit diagonal, ``S G S = L D Lᵀ`` in the order of the rows, where a pivot is the part of a row, of 1, that those
before it do not span. Dependent rows have none: their entries of ``D⁺`` and their columns of ``L`` are zero. Then
``Z S G S Zᵀ = D`` with ``Z = L⁻¹``, so that forces ``S z``, ``z`` the rows of ``Z`` at these pivots, move nothing. With
``N`` their orthonormal basis and ``P = 1 − N Nᵀ``,

    ``y = P S Zᵀ D⁺ Z S P x``.

Cost 4/3 m³. Which rows depend on others is certain where eigenvalues of ``S G S`` are far on either side of what counts
as zero: of the rows kept, the least one is at least ``1 / Σ |z|² / d``, and no other eigenvalue is above the sum of the
pivots of the others. Source: Higham, "Analysis of the Cholesky decomposition of a semi-definite matrix", 1990.
Deviation: rows are not exchanged, as programs without branches cannot; states at which that matters are not certain.
"""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.problem import Problem
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.model.tree import WORLD
from delassus.spatial.motion import column, from_entries
from delassus.spatial.ops import Matrix, Ops, Scalar


class Tuning(NamedTuple):
    """Numbers of `LeastSquares`, of matrices at unit diagonal."""

    dependent: float = 1e-10
    """Pivots up to this are those of dependent rows."""
    zero: float = 1e-11
    """Sum of these pivots up to which they are certain."""
    condition: float = 1e9
    """Sum of the reciprocal eigenvalues of the rows that are kept, times m, up to which they are certain."""
    round_off: float = 1e-3
    """The same, times the round-off of the numbers."""


TUNING = Tuning()

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
        self._ops, a, m = ops, ops.entries(G), ops.shape(G)[0]
        ops.mark(JUDGED, [G])
        moved = [ops.less(least[i], a[i][i]) for i in range(m)]
        size = [1.0 / ops.sqrt(ops.select(moved[i], a[i][i], 1.0)) for i in range(m)]
        self._S = S = [ops.select(moved[i], size[i], 0.0) for i in range(m)]
        self._over: list[Scalar] = []  # diagonal of D⁺
        self._Z: list[list[Any]] = []
        self._N: list[list[Any]] = []
        L: list[list[Any]] = []
        self.rank: Scalar = 0.0
        zero: Scalar = 0.0
        inverse: Scalar = 0.0
        for i in range(m):
            # row of S G S = L D Lᵀ
            scaled, L_i, pivot = list[Any](), list[Any](), ops.select(moved[i], 1.0, 0.0)
            for j in range(i):
                x = S[i] * a[i][j] * S[j]
                for k in range(j):
                    x = x - scaled[k] * L[j][k]
                scaled.append(x)
                L_i.append(x * self._over[j])
                pivot = pivot - x * L_i[j]
            kept = ops.less(TUNING.dependent, pivot)
            over = ops.select(kept, 1.0 / ops.select(kept, pivot, 1.0), 0.0)
            L.append(L_i)
            self._over.append(over)

            # row of Z = L⁻¹
            Z_i = [-reduce(lambda x, y: x + y, (L_i[k] * self._Z[k][j] for k in range(j, i))) for j in range(i)]
            self._Z.append([*Z_i, 1.0])
            inverse = inverse + over * (1.0 + sum(z * z for z in Z_i))
            zero = zero + ops.select(kept, 0.0, ops.maximum(pivot, -pivot))
            self.rank = self.rank + ops.select(kept, 1.0, 0.0)

            # forces that move nothing, orthonormal to those before
            n = [size[j] * z for j, z in enumerate(self._Z[i])]
            for q in self._N:
                along = sum(x * y for x, y in zip(q, n, strict=False))
                n = [x - along * q[j] if j < len(q) else x for j, x in enumerate(n)]
            one = ops.select(kept, 0.0, 1.0 / ops.sqrt(sum(x * x for x in n)))
            self._N.append([x * one for x in n])
        condition = min(TUNING.condition, TUNING.round_off / ops.epsilon)
        self.is_certain = ops.less(zero, TUNING.zero) * ops.less(inverse * m, condition)

    def solve(self, x: Matrix) -> Matrix:
        """``y`` (m × 1)."""
        ops = self._ops
        f = [s * b for s, b in zip(self._S, self._without_null(column(ops, x)), strict=True)]
        h = [over * sum(z * f[j] for j, z in enumerate(row)) for over, row in zip(self._over, self._Z, strict=True)]
        y = [s * sum(self._Z[k][j] * h[k] for k in range(j, len(h))) for j, s in enumerate(self._S)]
        return from_entries(ops, self._without_null(y)) if y else x

    def _without_null(self, x: list[Scalar]) -> list[Scalar]:
        parts = [(q, sum(a * x[j] for j, a in enumerate(q))) for q in self._N]
        for q, along in parts:
            x = [b - along * q[j] if j < len(q) else b for j, b in enumerate(x)]
        return x


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
