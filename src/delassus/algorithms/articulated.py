"""The articulated-body sweep that every recursive algorithm starts with, and the propagators it leaves behind.

``D_i = S_iᵀ Hᴬ_i S_i``, ``Hᵃ_i = Hᴬ_i − U_i D_i⁻¹ U_iᵀ``, ``Hᴬ_{p(i)} += X_iᵀ Hᵃ_i X_i`` with ``U_i = Hᴬ_i S_i``
(Featherstone's articulated-body inertia; [LQR] eq. 42a). Cost O(n).

``S_i`` picks coordinates: ``Hᴬ_i S_i`` are columns of ``Hᴬ_i``. Without armature, ``Hᵃ_i S_i = 0`` and ``A_i S_i = 0``
exactly, so those rows and columns are left out (`kept` holds the others); with armature (added to ``D_i``) they are not
zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delassus.algorithms.problem import Problem
from delassus.model.rotations import Array
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix, SymmetricFactor


class Articulated:
    """Articulated-body quantities of every link, and what they propagate.

    ``inertias`` (6 × 6) take the place of the links' own where they are given.

    Attributes
    ----------
    H : list of (6, 6) matrices
        Articulated-body inertias ``Hᴬ_i``.
    D : list of factors
        Factorised ``D_i``.
    W : list of (n_i, 6) matrices
        ``D_i⁻¹ U_iᵀ``; None for links whose parent is the world, where nothing is propagated.
    Ha : list of (6, 6) matrices
        ``Hᵃ_i``; None where ``W_i`` is.
    """

    def __init__(self, problem: Problem, inertias: Sequence[Matrix] | None = None) -> None:
        tree = problem.tree
        self._ops, self._X, self._tree = problem.ops, problem.X, tree
        self._axes = [joint.motion_axes for joint in tree.joints]
        self._kept = [_kept(joint.motion_axes, joint.armature) for joint in tree.joints]
        self.H = list(problem.inertias if inertias is None else inertias)
        self.D: dict[int, SymmetricFactor] = {}
        self.W: dict[int, Matrix] = {}
        self.Ha: dict[int, Matrix] = {}

        # leaves → root: D = Sᵀ Hᴬ S, Hᵃ = Hᴬ − U D⁻¹ Uᵀ, Hᴬ_p += Xᵀ Hᵃ X  ([LQR] eq. 42a)
        for i in tree.leaves_to_root():
            self._eliminate(i)
        problem.ops.mark("articulated inertia", [*self.H, *self.W.values()])

    def _eliminate(self, i: int) -> None:
        ops, tree, S = self._ops, self._tree, self._axes[i]
        U = ops.take(self.H[i], None, S)
        D = ops.take(U, S, None)
        if np.any(tree.joints[i].armature):
            D = ops.sym_add(D, ops.constant(np.diag(tree.joints[i].armature)))
        self.D[i] = ops.factor(D)
        p = tree.parents[i]
        if p != WORLD:
            self.W[i] = self.D[i].solve(ops.transpose(U))
            self.Ha[i] = self._without_joint(i, self.H[i], U)
            self.H[p] = ops.sym_add(self.H[p], self._X[i].inertia_to_parent(self.Ha[i]))

    def _without_joint(self, i: int, H: Matrix, U: Matrix) -> Matrix:
        """``Hᵃ = Hᴬ − U D⁻¹ Uᵀ``."""
        ops, kept = self._ops, self._kept[i]
        UW = ops.sym_product(ops.take(U, kept, None), ops.take(self.W[i], None, kept))
        return ops.put(ops.sym_subtract(ops.take(H, kept, kept), UW), (6, 6), kept, kept)

    def joint_columns(self, i: int, K: Matrix) -> Matrix:
        """``K S_i``."""
        return self._ops.take(K, None, self._axes[i])

    def rows_to_parent(self, i: int, K: Matrix) -> Matrix:
        """``K A_i = (K − K S_i D_i⁻¹ U_iᵀ) X_i``: propagate constraint rows, or forces as rows, to the parent."""
        return self._X[i].rows_to_parent(self.rows_before_joint(i, K))

    def rows_before_joint(self, i: int, K: Matrix) -> Matrix:
        """``K − K S_i D_i⁻¹ U_iᵀ``: rows on what joint i carries its link with."""
        ops, kept = self._ops, self._kept[i]
        free = ops.take(K, None, kept) - self.joint_columns(i, K) @ ops.take(self.W[i], None, kept)
        m = ops.shape(K)[0]
        return ops.put(free, (m, 6), range(m), kept)

    def bias_to_parent(self, i: int, b: Matrix, u: Matrix, tau: Matrix) -> Matrix:
        """``X_iᵀ (b + U_i D_i⁻¹ u)``, for ``u = τ − S_iᵀ b``: propagate a bias force (column) to the parent.

        Without armature its part along the joint is ``τ``.
        """
        ops, kept = self._ops, self._kept[i]
        f = ops.take(b, kept, None) + ops.transpose(ops.take(self.W[i], None, kept)) @ u
        f = ops.put(f, (6, 1), kept, (0,))
        if len(kept) < 6:
            f = f + ops.put(tau, (6, 1), self._axes[i], (0,))
        return self._X[i].forces_to_parent(f)

    def joint_acceleration(self, i: int, u: Matrix, carried: Matrix) -> Matrix:
        """``D_i⁻¹ (u − U_iᵀ a)``: acceleration of joint i under the force ``u``, its link carried with ``a``."""
        ops, S = self._ops, self._axes[i]
        if i in self.W:
            return self.D[i].solve(u) - self.W[i] @ carried
        if not self._kept[i]:  # a free joint on the world makes up for all of it
            return self.D[i].solve(u) - carried
        return self.D[i].solve(u - ops.transpose(ops.take(self.H[i], None, S)) @ carried)

    def through_joint(self, i: int, u: Matrix, carried: Matrix) -> tuple[Matrix, Matrix]:
        """Acceleration of joint i under the force ``u``, and that of its link, which is carried with ``carried``.

        Without armature, the link's acceleration along the joint does not depend on ``carried`` along the joint.
        """
        ops, S, kept = self._ops, self._axes[i], self._kept[i]
        along = ops.take(carried, S, None)
        if len(kept) == 6:
            qdd = self.joint_acceleration(i, u, carried)
            return qdd, carried + ops.put(qdd, (6, 1), S, (0,))
        across = ops.take(carried, kept, None)
        if not kept:
            total = self.D[i].solve(u)
        elif i in self.W:
            total = self.D[i].solve(u) - ops.take(self.W[i], None, kept) @ across
        else:
            total = self.D[i].solve(u - ops.transpose(ops.take(self.H[i], kept, S)) @ across)
        return total - along, ops.put(across, (6, 1), kept, (0,)) + ops.put(total, (6, 1), S, (0,))

    def motions_to_child(self, i: int, V: Matrix) -> Matrix:
        """``A_i V = (1 − S_i D_i⁻¹ U_iᵀ) X_i V``: propagate accelerations (columns) from the parent."""
        return self._through_joint(i) @ self._X[i].motions_to_child(V)

    def inverse_inertia_to_child(self, i: int, Omega: Matrix) -> Matrix:
        """``A_i Ω A_iᵀ``: propagate an inverse inertia from the parent."""
        ops, T = self._ops, self._through_joint(i)
        moved = self._X[i].inverse_inertia_to_child(Omega)
        return ops.sym_product(T @ moved, ops.transpose(T))

    def _through_joint(self, i: int) -> Matrix:
        """``1 − S_i D_i⁻¹ U_iᵀ`` with its structural zeros."""
        ops, S, kept = self._ops, self._axes[i], self._kept[i]
        eye = np.zeros((6, 6))
        eye[kept, kept] = 1.0
        return ops.constant(eye) - ops.put(ops.take(self.W[i], None, kept), (6, 6), S, kept)

    def joint_response(self, i: int, F: Matrix) -> Matrix:
        """``S_i D_i⁻¹ S_iᵀ F``: acceleration that joint i alone gives its link under forces ``F`` (columns)."""
        ops, S = self._ops, self._axes[i]
        columns = ops.shape(F)[1]
        return ops.put(self.D[i].solve(ops.take(F, S, None)), (6, columns), S, range(columns))

    def joint_inverse_inertia(self, i: int) -> Matrix:
        """``S_i D_i⁻¹ S_iᵀ`` (6 × 6)."""
        S = self._axes[i]
        return self._ops.put(self.D[i].inverse(), (6, 6), S, S)

    def joint_quadratic(self, i: int, K: Matrix) -> Matrix:
        """``K S_i D_i⁻¹ S_iᵀ Kᵀ``."""
        return self.D[i].quadratic(self.joint_columns(i, K))

    def joint_half(self, i: int, K: Matrix) -> Matrix:
        """``Z`` with ``Z Δ Z'ᵀ = K S_i D_i⁻¹ S_iᵀ K'ᵀ`` for any two stacks of rows, ``Δ`` being `joint_diagonal`."""
        ops = self._ops
        return ops.transpose(self.D[i].half_solve(ops.transpose(self.joint_columns(i, K))))

    def joint_diagonal(self, i: int) -> Matrix:
        """``Δ`` (n_i × n_i), diagonal; see `joint_half`."""
        return self.D[i].scale(self._ops.eye(len(self._axes[i])))


def _kept(axes: Sequence[int], armature: Array) -> list[int]:
    """Coordinates in which ``A_i`` and ``Hᵃ_i`` have columns that are not structurally zero."""
    return [k for k in range(6) if k not in axes or armature.any()]
