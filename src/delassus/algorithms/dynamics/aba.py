"""Articulated-body algorithm: forward dynamics without constraints.

Leaves → root ``u_i = τ_i − S_iᵀ pᴬ_i``, ``pᴬ_p += X_iᵀ (pᴬ_i + Hᵃ_i c_i + U_i D_i⁻¹ u_i)``; root → leaves
``a'_i = X_i a_p + c_i``, ``q̈_i = D_i⁻¹ (u_i − U_iᵀ a'_i)``, ``a_i = a'_i + S_i q̈_i``. Cost O(n). Source:
Featherstone, Rigid Body Dynamics Algorithms, table 7.1; [LQR] eqs. 41, 42a, 42b.

Deviations: without armature the force that passes a joint along its own axes is ``τ_i``, not computed. The two sweeps
are functions of their own, which `pv_soft` and contact dynamics use too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix


def driving_forces(
    motion: DynamicsProblem, body: Articulated, bias: Sequence[Matrix] | None = None
) -> dict[int, Matrix]:
    """``u_i`` (n_i × 1): what is left of each joint's force to accelerate it; ``bias`` in place of ``p_i``."""
    ops, tree = motion.ops, motion.tree
    p = list(motion.p if bias is None else bias)
    u: dict[int, Matrix] = {}

    # leaves → root: u_i = τ_i − S_iᵀ pᴬ_i, pᴬ_p += X_iᵀ (pᴬ_i + Hᵃ_i c_i + U_i D_i⁻¹ u_i)  ([LQR] eq. 42b)
    for i in tree.leaves_to_root():
        parent = tree.parents[i]
        u[i] = motion.tau[i] - tree.joints[i].across(ops, p[i])
        if parent != WORLD:
            b = p[i] + body.Ha[i] @ motion.c[i]
            p[parent] = p[parent] + body.bias_to_parent(i, b, u[i], motion.tau[i])
    ops.mark("articulated bias forces", [*u.values(), *p])
    return u


def forward_pass(
    motion: DynamicsProblem, body: Articulated, u: Mapping[int, Matrix]
) -> tuple[list[Matrix], list[Matrix]]:
    """Accelerations ``q̈_i`` (n_i × 1) of the joints and ``a_i`` (6 × 1) of the links under the driving forces ``u``."""
    a: list[Matrix] = []
    qdd: list[Matrix] = []

    # root → leaves: q̈_i = D_i⁻¹ (u_i − U_iᵀ a'_i), a_i = a'_i + S_i q̈_i  ([LQR] eq. 41)
    for i in motion.tree.root_to_leaves():
        carried = motion.to_link(i, a)
        if motion.tree.parents[i] != WORLD:
            carried = carried + motion.c[i]
        own, reached = body.through_joint(i, u[i], carried)
        qdd.append(own)
        a.append(reached)
    motion.ops.mark("accelerations", qdd)
    return qdd, a


def aba(motion: DynamicsProblem) -> DynamicsSolution:
    """Accelerations of the joints; for problems without constraints."""
    body = motion.problem.once(Articulated)
    qdd, _ = forward_pass(motion, body, driving_forces(motion, body))
    return DynamicsSolution(motion.stacked(qdd), motion.ops.zeros(0, 1))
