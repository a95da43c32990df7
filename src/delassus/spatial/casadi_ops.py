"""`Ops` on CasADi ``SX`` matrices: running an algorithm on them records its expression graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import casadi as ca
import numpy as np

from delassus.spatial.factor import Factor
from delassus.spatial.numpy_ops import rank_of
from delassus.spatial.ops import Matrix, Ops, Scalar
from delassus.spatial.rigid import RigidInertia
from delassus.spatial.transform import Displacement, StagedTransform


class CasadiOps(Ops):
    """The CasADi machine. `phases` holds what `mark` was told, in order."""

    def __init__(self) -> None:
        self.phases: list[tuple[str, list[Any]]] = []
        self._flags: dict[int, Any] = {}

    def constant(self, value: Any) -> Matrix:
        return ca.sparsify(ca.SX(np.asarray(value, dtype=float)))

    def entry(self, vector: Any, index: int) -> Scalar:
        return vector[index]

    def flag(self, vector: Any, index: int) -> Scalar:
        flag = vector[index]
        self._flags[flag.element_hash()] = flag
        return flag

    def entries(self, a: Matrix) -> list[list[Scalar]]:
        flat = ca.densify(a).elements()
        rows, columns = a.shape
        return [[flat[i + j * rows] for j in range(columns)] for i in range(rows)]

    def matrix(self, rows: Sequence[Sequence[Scalar]]) -> Matrix:
        flat = [ca.SX(row[j]) for j in range(len(rows[0])) for row in rows]
        return ca.sparsify(ca.reshape(ca.vertcat(*flat), len(rows), len(rows[0])))

    def take(self, a: Matrix, rows: Sequence[int] | None = None, columns: Sequence[int] | None = None) -> Matrix:
        r = slice(None) if rows is None else list(rows)
        c = slice(None) if columns is None else list(columns)
        return a[r, c]

    def put(self, a: Matrix, shape: tuple[int, int], rows: Sequence[int], columns: Sequence[int]) -> Matrix:
        out = ca.SX(*shape)
        out[list(rows), list(columns)] = a
        return ca.sparsify(out)

    def shape(self, a: Matrix) -> tuple[int, int]:
        return int(a.shape[0]), int(a.shape[1])

    def nonzero(self, a: Matrix) -> Any:
        return np.array(ca.DM(ca.sparsify(a).sparsity(), 1)) != 0

    def is_known(self, x: Scalar) -> bool:
        return super().is_known(x) or bool(x.is_constant())

    def rank(self, a: Matrix) -> int:
        symbols = ca.symvar(a)
        state = np.random.default_rng(0).uniform(0.3, 1.0, len(symbols))
        state[np.array([x.element_hash() in self._flags for x in symbols], dtype=bool)] = 1.0
        return rank_of(np.array(ca.Function("at", [ca.vertcat(*symbols)], [ca.densify(a)])(state)))

    def transpose(self, a: Matrix) -> Matrix:
        return a.T

    def vstack(self, parts: Sequence[Matrix]) -> Matrix:
        return ca.vertcat(*parts)

    def block_diagonal(self, parts: Sequence[Matrix]) -> Matrix:
        return ca.diagcat(*parts)

    def cos(self, x: Scalar) -> Scalar:
        return ca.cos(x)

    def sin(self, x: Scalar) -> Scalar:
        return ca.sin(x)

    def sqrt(self, x: Scalar) -> Scalar:
        return ca.sqrt(x)

    def copysign(self, x: Scalar, y: Scalar) -> Scalar:
        return ca.copysign(x, y)

    def minimum(self, x: Scalar, y: Scalar) -> Scalar:
        return ca.fmin(x, y)

    def sym_add(self, a: Matrix, b: Matrix) -> Matrix:
        return ca.tril2symm(_lower(a) + _lower(b))

    def sym_subtract(self, a: Matrix, b: Matrix) -> Matrix:
        return ca.tril2symm(_lower(a) - _lower(b))

    def sym_product(self, a: Matrix, b: Matrix) -> Matrix:
        return ca.tril2symm(_lower(a @ b))

    def transform(self, displacement: Displacement) -> StagedTransform:
        return StagedTransform(self, displacement)

    def factor(self, D: Matrix) -> Factor:
        return Factor(self, D)

    def rigid_inertia(self, H: Matrix) -> RigidInertia:
        return RigidInertia.of_matrix(self, H)

    def mark(self, phase: str, values: Sequence[Matrix]) -> None:
        self.phases.append((phase, list(values)))


def _lower(a: Matrix) -> Matrix:
    return ca.tril(a)
