"""Factorisation of symmetric positive definite matrices, ``D = L diag(d) Lᵀ`` with unit lower triangular ``L``.

Free of square roots, one reciprocal a column; the same text on every backend. One-by-one matrices (revolute and
prismatic joints) reduce to a reciprocal.
"""

from __future__ import annotations

from typing import Any

from delassus.spatial.ops import Matrix, Ops


class Factor:
    """Factorised symmetric positive definite matrix ``D`` (n × n).

    Nothing is checked here: a matrix that is not positive definite gives infinities, NaN or negative pivots.
    """

    def __init__(self, ops: Ops, D: Matrix, is_judged: bool = True) -> None:
        self._ops = ops
        n = ops.shape(D)[0]
        a = ops.entries(D)
        L: list[list[Any]] = [[0.0] * n for _ in range(n)]
        self._reciprocals: list[Any] = []
        for j in range(n):
            scaled = [L[j][k] for k in range(j)]  # L_jk d_k, from the column updates below
            pivot = a[j][j]
            for k in range(j):
                L[j][k] = scaled[k] * self._reciprocals[k]
                pivot = pivot - L[j][k] * scaled[k]
            if is_judged:
                ops.pivot(pivot)
            self._reciprocals.append(1.0 / pivot)
            for i in range(j + 1, n):
                value = a[i][j]
                for k in range(j):
                    value = value - L[i][k] * L[j][k]
                L[i][j] = value
        self._L = L

    def half_solve(self, B: Matrix) -> Matrix:
        ops = self._ops
        rows: list[Matrix] = []
        for i in range(len(self._L)):
            row = ops.take(B, (i,), None)
            if i:
                row = row - ops.matrix([self._L[i][:i]]) @ ops.vstack(rows)
            rows.append(row)
        return ops.vstack(rows)

    def scale(self, Z: Matrix) -> Matrix:
        n = len(self._L)
        diagonal = [[self._reciprocals[i] if i == j else 0.0 for j in range(n)] for i in range(n)]
        return self._ops.matrix(diagonal) @ Z

    def solve(self, B: Matrix) -> Matrix:
        ops, n = self._ops, len(self._L)
        if not n:
            return B
        Z = self.scale(self.half_solve(B))
        rows: list[Matrix] = []
        for i in reversed(range(n)):
            row = ops.take(Z, (i,), None)
            if rows:
                row = row - ops.matrix([[self._L[k][i] for k in range(i + 1, n)]]) @ ops.vstack(rows)
            rows.insert(0, row)
        return ops.vstack(rows)

    def inverse(self) -> Matrix:
        ops, n = self._ops, len(self._L)
        if n == 1:
            return ops.matrix([[self._reciprocals[0]]])
        Z = self.half_solve(ops.eye(n))  # D⁻¹ = Zᵀ diag(d)⁻¹ Z
        return ops.sym_product(ops.transpose(Z), self.scale(Z))

    def quadratic(self, B: Matrix) -> Matrix:
        ops = self._ops
        Z = self.half_solve(ops.transpose(B))
        return ops.sym_product(ops.transpose(self.scale(Z)), Z)

    def parts(self) -> list[Matrix]:
        return [self._ops.matrix(self._L), self._ops.matrix([self._reciprocals])]
