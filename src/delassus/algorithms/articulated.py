"""The articulated-body sweep that every recursive algorithm starts with, and the propagators it leaves behind.

``D_i = S_iᵀ Hᴬ_i S_i``, ``Hᵃ_i = Hᴬ_i − U_i D_i⁻¹ U_iᵀ``, ``Hᴬ_{p(i)} += X_iᵀ Hᵃ_i X_i`` with ``U_i = Hᴬ_i S_i``
(Featherstone's articulated-body inertia; [LQR] eq. 42a). Cost O(n).

``S_i`` picks coordinates: ``Hᴬ_i S_i`` are columns of ``Hᴬ_i``. Without armature, ``Hᵃ_i S_i = 0`` and ``A_i S_i = 0``
exactly, so those rows and columns are left out (`kept` holds the others); with armature (added to ``D_i``) they are not
zero. A screw's ``S_i`` is no coordinate: all are kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Factor, Matrix


class Articulated:
    """Articulated-body quantities of every link, and what they propagate.

    ``inertias`` (6 × 6) take the place of the links' own where they are given.

    Attributes
    ----------
    H : list of (6, 6) matrices
        Articulated-body inertias ``Hᴬ_i``.
    D : dict of factors
        Factorised ``D_i``.
    W : dict of (n_i, k) matrices
        ``D_i⁻¹ U_iᵀ``, columns that are kept; not of links on the world, where nothing is propagated.
    Ha : dict of (6, 6) matrices
        ``Hᵃ_i``, of the same links.
    """

    def __init__(self, problem: Problem, inertias: Sequence[Matrix] | None = None) -> None:
        tree, ops = problem.tree, problem.ops
        self._ops, self._X, self._tree = ops, problem.X, tree
        self._joints = tree.joints
        self._kept = [
            [k for k in range(6) if k not in j.motion_axes or j.armature.any() or not j.subspace_is_axes]
            for j in tree.joints
        ]
        self.H = list(problem.inertias if inertias is None else inertias)
        self.D: dict[int, Factor] = {}
        self.W: dict[int, Matrix] = {}
        self.Ha: dict[int, Matrix] = {}
        self._sweep()
        ops.mark("articulated inertia", [*self.H, *self.W.values()])

    def _sweep(self) -> None:
        """Eliminate all joints, leaves → root."""
        for i in self._tree.leaves_to_root():
            self._eliminate(i)

    def _eliminate(self, i: int) -> None:
        """``D = Sᵀ Hᴬ S``, ``Hᵃ = Hᴬ − U D⁻¹ Uᵀ``, ``Hᴬ_p += Xᵀ Hᵃ X`` ([LQR] eq. 42a)."""
        ops, joint, kept, p = self._ops, self._tree.joints[i], self._kept[i], self._tree.parents[i]
        D = joint.within(ops, self.H[i])
        if joint.armature.any():
            D = ops.sym_add(D, ops.constant(np.diag(joint.armature)))
        self.D[i] = ops.factor(D)
        if p != WORLD:
            U = ops.take(joint.columns(ops, self.H[i]), kept, None)
            self.W[i] = self.D[i].solve(ops.transpose(U))
            Ha = ops.sym_subtract(ops.take(self.H[i], kept, kept), ops.sym_product(U, self.W[i]))
            self.Ha[i] = ops.put(Ha, (6, 6), kept, kept)
            self.H[p] = ops.sym_add(self.H[p], self._X[i].inertia_to_parent(self.Ha[i]))

    # -- towards the root ----------------------------------------------------------------------------------------------

    def at_joint(self, i: int, K: Matrix, C: Matrix | None = None) -> Matrix:
        """``K S_i`` (m × n_i) of rows on a link, and what rows on its joint add to that."""
        KS = self._joints[i].columns(self._ops, K)
        return KS if C is None else KS + C

    def rows_to_parent(self, i: int, K: Matrix, C: Matrix | None = None) -> Matrix:
        """``K A_i = (K − K S_i D_i⁻¹ U_iᵀ) X_i``: propagate constraint rows, or forces as rows, to the parent.

        Rows ``C`` on the joint take part in ``K S``. Without armature they leave ``−C`` along the joint.
        """
        ops, kept, m = self._ops, self._kept[i], self._ops.shape(K)[0]
        free = ops.take(K, None, kept) - self.at_joint(i, K, C) @ self.W[i]
        rows = ops.put(free, (m, 6), range(m), kept)
        if C is not None and len(kept) < 6:
            rows = rows + ops.put(-C, (m, 6), range(m), self._joints[i].motion_axes)
        return self._X[i].rows_to_parent(rows)

    def bias_to_parent(self, i: int, b: Matrix, u: Matrix, tau: Matrix) -> Matrix:
        """``X_iᵀ (b + U_i D_i⁻¹ u)``, for ``u = τ − S_iᵀ b``: propagate a bias force (column) to the parent.

        Without armature its part along the joint is ``τ``.
        """
        ops, kept = self._ops, self._kept[i]
        f = ops.put(ops.take(b, kept, None) + ops.transpose(self.W[i]) @ u, (6, 1), kept, (0,))
        if len(kept) < 6:
            f = f + ops.put(tau, (6, 1), self._joints[i].motion_axes, (0,))
        return self._X[i].forces_to_parent(f)

    # -- towards the leaves --------------------------------------------------------------------------------------------

    def through_joint(self, i: int, u: Matrix, carried: Matrix) -> tuple[Matrix, Matrix]:
        """``q̈_i = D_i⁻¹ (u − U_iᵀ a')`` under the force ``u``, and ``a_i``; the link is carried with ``a'``.

        Without armature, the link's acceleration along the joint does not depend on ``a'`` along the joint.
        """
        ops, joint, kept = self._ops, self._joints[i], self._kept[i]
        across = ops.take(carried, kept, None)
        if not kept:
            a = self.D[i].solve(u)
        elif i in self.W:
            a = self.D[i].solve(u) - self.W[i] @ across
        else:
            U = ops.take(joint.columns(ops, self.H[i]), kept, None)
            a = self.D[i].solve(u - ops.transpose(U) @ across)
        link = ops.put(across, (6, 1), kept, (0,)) + joint.along(ops, a)
        return a if len(kept) == 6 else a - ops.take(carried, joint.motion_axes, None), link

    def motions_to_child(self, i: int, V: Matrix) -> Matrix:
        """``A_i V = (1 − S_i D_i⁻¹ U_iᵀ) X_i V``: propagate accelerations (columns) from the parent."""
        return self._before_joint(i) @ self._X[i].motions_to_child(V)

    def inverse_inertia_to_child(self, i: int, Omega: Matrix) -> Matrix:
        """``A_i Ω A_iᵀ``: propagate an inverse inertia from the parent."""
        T = self._before_joint(i)
        return self._ops.sym_product(T @ self._X[i].inverse_inertia_to_child(Omega), self._ops.transpose(T))

    def _before_joint(self, i: int) -> Matrix:
        """``1 − S_i D_i⁻¹ U_iᵀ`` with its structural zeros."""
        kept = self._kept[i]
        eye = np.zeros((6, 6))
        eye[kept, kept] = 1.0
        W = self._ops.put(self.W[i], (self._joints[i].nv, 6), range(self._joints[i].nv), kept)
        return self._ops.constant(eye) - self._joints[i].along(self._ops, W)

    # -- what joint i alone does -------------------------------------------------------------------------------------

    def joint_response(self, i: int, F: Matrix) -> Matrix:
        """``S_i D_i⁻¹ S_iᵀ F``: acceleration that joint i alone gives its link under forces ``F`` (columns)."""
        ops, joint = self._ops, self._joints[i]
        return joint.along(ops, self.D[i].solve(joint.across(ops, F)))

    def joint_inverse_inertia(self, i: int) -> Matrix:
        """``S_i D_i⁻¹ S_iᵀ`` (6 × 6)."""
        return self._joints[i].spread(self._ops, self.D[i].inverse())

    def joint_quadratic(self, i: int, K: Matrix, C: Matrix | None = None) -> Matrix:
        """``K S_i D_i⁻¹ S_iᵀ Kᵀ``."""
        return self.D[i].quadratic(self.at_joint(i, K, C))

    def joint_half(self, i: int, K: Matrix) -> Matrix:
        """``Z`` with ``Z Δ Z'ᵀ = K S_i D_i⁻¹ S_iᵀ K'ᵀ`` for any two stacks of rows, ``Δ`` being `joint_diagonal`."""
        ops = self._ops
        return ops.transpose(self.D[i].half_solve(ops.transpose(self._joints[i].columns(ops, K))))

    def joint_diagonal(self, i: int) -> Matrix:
        """``Δ`` (n_i × n_i), diagonal; see `joint_half`."""
        return self.D[i].scale(self._ops.eye(self._joints[i].nv))
