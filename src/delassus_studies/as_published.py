"""Vocabularies of `Ops` that count as the papers do, under the algorithm texts of `delassus.algorithms`.

`CasadiOps`: how [LQR], [r1] and [r2] count. They name their code, https://github.com/AjSat/spatial_V2, which builds
CasADi's SX graph of the algorithms in local frames. Where the texts part from that code:

- `rows_to_parent` is ``K − (K S)(D⁻¹ Uᵀ)``; theirs divides ``K S`` by ``D`` once more for each row and joint.
- `efpa` starts with the articulated sweep of all methods; theirs multiplies ``P H`` out, see `efpa_excess`.
- `pv_osimr` starts an identity at a link with several points; theirs has one stack of rows on it. Products ``K Ω`` at
  the base, which the text scales by a diagonal, are 6×6 products here.
- `ltl_osim` propagates columns; theirs lets CasADi differentiate velocities.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.jacobian import jacobian_columns
from delassus.algorithms.problem import Problem
from delassus.constraints import Constraint
from delassus.errors import require
from delassus.frozen import cached_property
from delassus.model.tree import WORLD, Tree
from delassus.spatial.ops import Matrix, Ops
from delassus.spatial.rigid import DenseRigidInertia
from delassus.spatial.trace.trace_ops import TraceOps
from delassus.spatial.transform import DenseTransform, Displacement


class CasadiOps(Ops):
    """CasADi's scalar expressions (SX): zeros, units and signs are simplified, nothing is shared that is made twice.

    Transforms are one 6×6 matrix. Of a symmetric result the upper triangle is made.
    """

    def __init__(self) -> None:
        require("casadi", "casadi", "to count as the papers do")
        import casadi

        self.ca: Any = casadi

    def constant(self, value: Any) -> Any:
        return self.ca.sparsify(self.ca.SX(self.ca.DM(np.asarray(value, dtype=float))))

    def zeros(self, rows: int, columns: int) -> Any:
        return self.ca.SX(rows, columns)

    def entry(self, vector: Any, index: int) -> Any:
        return vector[index]

    def entries(self, a: Any) -> list[list[Any]]:
        return [[a[i, j] for j in range(a.shape[1])] for i in range(a.shape[0])]

    def matrix(self, rows: Sequence[Sequence[Any]]) -> Any:
        return self.ca.sparsify(self.ca.vertcat(*(self.ca.horzcat(*row) for row in rows)))

    def take(self, a: Any, rows: Sequence[int] | None = None, columns: Sequence[int] | None = None) -> Any:
        return a[slice(None) if rows is None else list(rows), slice(None) if columns is None else list(columns)]

    def put(self, a: Any, shape: tuple[int, int], rows: Sequence[int], columns: Sequence[int]) -> Any:
        out = self.ca.SX(*shape)
        if len(rows) and len(columns):
            out[list(rows), list(columns)] = a
        return out

    def shape(self, a: Any) -> tuple[int, int]:
        return a.shape[0], a.shape[1]

    def nonzero(self, a: Any) -> Any:
        return np.array([[not x.is_zero() for x in row] for row in self.entries(a)]).reshape(a.shape)

    def transpose(self, a: Any) -> Any:
        return a.T

    def vstack(self, parts: Sequence[Any]) -> Any:
        return self.ca.vertcat(*parts)

    def cos(self, x: Any) -> Any:
        return self.ca.cos(x)

    def sin(self, x: Any) -> Any:
        return self.ca.sin(x)

    def sqrt(self, x: Any) -> Any:
        return self.ca.sqrt(x)

    def _not_asked(self, *_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError("methods for the Delassus matrix do not ask for this")

    rank = known = copysign = minimum = maximum = less = select = repeat = _not_asked

    def symmetric(self, a: Any) -> Any:
        """The matrix with its upper triangle copied to the lower."""
        return self.ca.triu2symm(self.ca.triu(a))

    def sym_add(self, a: Any, b: Any) -> Any:
        return self.symmetric(a + b)

    def sym_subtract(self, a: Any, b: Any) -> Any:
        return self.symmetric(a - b)

    def sym_product(self, a: Any, b: Any) -> Any:
        return self.symmetric(a @ b)

    def transform(self, displacement: Displacement) -> ComposedTransform:
        return ComposedTransform(self, displacement)

    def factor(self, D: Any) -> DenseFactor:
        return DenseFactor(self, D)

    def rigid_inertia(self, H: Any) -> DenseRigidInertia:
        return DenseRigidInertia(self, H)

    def count(self, *outputs: Any) -> int:
        """Instructions of CasADi's function of these outputs, without its inputs and outputs, as the papers count them.

        Each known number is an instruction too.
        """
        inputs = self.ca.symvar(self.ca.veccat(*outputs))
        function = self.ca.Function("counted", inputs, list(outputs))
        return int(function.n_instructions() - function.nnz_in() - function.nnz_out())


class ComposedTransform:
    """``X = X_J X_tree``, the joint's motion times the constant one, as one 6×6 matrix."""

    def __init__(self, ops: CasadiOps, d: Displacement) -> None:
        self._ops = ops
        R, p = ops.constant(d.rotation), ops.constant(d.position[:, None])
        own_R = ops.eye(3) if d.joint_rotation is None else ops.matrix(d.joint_rotation.rows())
        own_p = ops.zeros(3, 1) if d.joint_position is None else ops.matrix([[x] for x in d.joint_position])
        self._X = self._motion(own_R, own_p) @ self._motion(R, p)
        self._R, self._p = R @ own_R, p + R @ own_p

    def _motion(self, R: Any, p: Any) -> Any:
        ca, E = self._ops.ca, R.T
        return self._ops.vstack([ca.horzcat(E, -(E @ ca.sparsify(ca.skew(p)))), ca.horzcat(ca.SX(3, 3), E)])

    def rows_to_parent(self, K: Any) -> Any:
        return K @ self._X

    def motions_to_child(self, V: Any) -> Any:
        return self._X @ V

    def forces_to_parent(self, F: Any) -> Any:
        return self._X.T @ F

    def inertia_to_parent(self, H: Any) -> Any:
        return self._ops.sym_product(self._X.T @ H, self._X)

    def inverse_inertia_to_child(self, W: Any) -> Any:
        return self._ops.sym_product(self._X @ W, self._X.T)

    def rotate_to_parent(self, V: Any) -> Any:
        return self._R @ V

    def position(self) -> Any:
        return self._p


class DenseFactor:
    """A division by one number; else CasADi's inverse for quadratic forms, and Cholesky's factor for systems."""

    def __init__(self, ops: CasadiOps, D: Any) -> None:
        self._ops, self._D, self._is_scalar = ops, D, D.shape[0] == 1

    @cached_property
    def _inverse(self) -> Any:
        return self._ops.symmetric(self._ops.ca.inv(self._D))

    @cached_property
    def _cholesky(self) -> Any:
        ops, A, n = self._ops, self._D, self._D.shape[0]
        L = ops.zeros(n, n)
        for j in range(n):
            L[j, j] = ops.sqrt(A[0, 0])
            if j + 1 < n:
                L[j + 1 :, j] = A[1:, 0] / L[j, j]
                A = A[1:, 1:] - L[j + 1 :, j] @ L[j + 1 :, j].T
        return L

    def half_solve(self, B: Any) -> Any:
        return B

    def scale(self, Z: Any) -> Any:
        return Z / self._D if self._is_scalar else self._inverse @ Z

    def solve(self, B: Any) -> Any:
        solve, L = self._ops.ca.solve, self._D if self._is_scalar else self._cholesky
        return B / L if self._is_scalar else solve(L.T, solve(L, B))

    def inverse(self) -> Any:
        return 1 / self._D if self._is_scalar else self._inverse

    def quadratic(self, B: Any) -> Any:
        return self._ops.sym_product(B / self._D if self._is_scalar else B @ self._inverse, B.T)

    def parts(self) -> list[Any]:
        return [self._cholesky]


class CompositeTraceOps(TraceOps):
    """Tracing with transforms and inertias multiplied out to one 6×6 matrix."""

    def transform(self, displacement: Displacement) -> DenseTransform:  # type: ignore[override]
        return DenseTransform(self, displacement)

    def rigid_inertia(self, H: Any) -> DenseRigidInertia:  # type: ignore[override]
        return DenseRigidInertia(self, H)


def casadi_count(tree: Tree, constraints: Sequence[Constraint], algorithm: Callable[[Problem], Matrix]) -> int:
    """Operations of an algorithm for the Delassus matrix, as [LQR], [r1] and [r2] count them."""
    ops = CasadiOps()
    q = ops.ca.SX.sym("q", tree.nq)
    return ops.count(algorithm(Problem(ops, tree, constraints, q)))


def jacobian_count(tree: Tree, constraints: Sequence[Constraint]) -> int:
    """Operations of the Jacobian's columns alone."""
    ops = CasadiOps()
    columns = jacobian_columns(Problem(ops, tree, constraints, ops.ca.SX.sym("q", tree.nq)))
    return ops.count(*(block for own in columns for block in own.values()))


def efpa_excess(tree: Tree) -> int:
    """Operations by which ``Hᴬ_p += ((Xᵀ P) H) X``, ``P = 1 − U D⁻¹ Sᵀ``, exceeds the articulated sweep of the texts.

    The papers' code multiplies the propagator out ([r1] Algorithm 2, lines 4, 5) in EFPA alone, though [LQR] IX-B says
    that this sweep needs the same operations in all methods.
    """
    ops = CasadiOps()
    q = ops.ca.SX.sym("q", tree.nq)
    problem = Problem(ops, tree, (), q)
    H = list(problem.inertias)
    for i in tree.leaves_to_root():
        p, axes = tree.parents[i], tree.joints[i].motion_axes
        if p != WORLD:
            X: Any = problem.X[i].motions_to_child(ops.eye(6))
            U = ops.take(H[i], None, axes)
            P = ops.eye(6) - ops.put(U / ops.take(U, axes, None), (6, 6), range(6), axes)
            H[p] = ops.sym_add(H[p], X.T @ P @ H[i] @ X)
    ends = [i for i in tree.root_to_leaves() if tree.parents[i] == WORLD]
    of_texts = Articulated(problem).H
    return ops.count(*(H[i] for i in ends)) - ops.count(*(of_texts[i] for i in ends))
