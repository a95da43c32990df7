"""Articulated-body algorithm: forward dynamics without constraints.

Leaves → root ``b_i = pᴬ_i + Hᴬ_i c_i``, ``u_i = τ_i − S_iᵀ b_i``, ``pᴬ_p += X_iᵀ (b_i + U_i D_i⁻¹ u_i)``; root → leaves
``q̈_i = D_i⁻¹ (u_i − U_iᵀ X_i a_p)``, ``a_i = X_i a_p + c_i + S_i q̈_i``. Cost O(n). Source: Featherstone, Rigid Body
Dynamics Algorithms, table 7.1; [LQR] eqs. 42a, 42b, 44.

Deviations: ``c_i`` is taken into ``u_i``, so that ``Hᵃ_i`` is not needed, and without armature the force that passes a
joint along its own axes is ``τ_i``, not computed. The two sweeps are functions of their own: with constraint forces
added to ``u``, the second one is the roll-out of the constrained algorithms.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix


def driving_forces(motion: DynamicsProblem, body: Articulated) -> list[Matrix]:
    """``u_i`` (n_i × 1): what is left of each joint's force to accelerate it."""
    ops, tree = motion.ops, motion.tree
    p = list(motion.p)
    u: list[Matrix] = [None] * tree.n_links

    # leaves → root: articulated bias forces
    for i in tree.leaves_to_root():
        parent = tree.parents[i]
        b = p[i] if parent == WORLD else p[i] + body.H[i] @ motion.c[i]
        u[i] = motion.tau[i] - ops.take(b, tree.joints[i].motion_axes, None)
        if parent != WORLD:
            p[parent] = p[parent] + body.bias_to_parent(i, b, u[i], motion.tau[i])
    ops.mark("articulated bias forces", [*u, *p])
    return u


def roll_out(motion: DynamicsProblem, body: Articulated, u: Sequence[Matrix]) -> list[Matrix]:
    """Accelerations ``q̈_i`` (n_i × 1) of the joints under the driving forces ``u``."""
    a: list[Matrix] = []
    qdd: list[Matrix] = []

    # root → leaves: accelerations
    for i in motion.tree.root_to_leaves():
        carried = motion.to_link(i, a)
        qdd.append(body.joint_acceleration(i, u[i], carried))
        if motion.tree.parents[i] != WORLD:
            carried = carried + motion.c[i]
        a.append(carried + motion.along_joint(i, qdd[i]))
    motion.ops.mark("accelerations", qdd)
    return qdd


def aba(motion: DynamicsProblem) -> Solution:
    """Accelerations of the joints; for problems without constraints."""
    body = Articulated(motion.problem)
    qdd = roll_out(motion, body, driving_forces(motion, body))
    return Solution(motion.stacked(qdd), motion.ops.zeros(0, 1))
