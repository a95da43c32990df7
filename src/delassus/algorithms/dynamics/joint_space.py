"""The constrained system in joint space by Featherstone's sparse factorisation ``M = Lᵀ L``.

``z = L⁻ᵀ (τ − c)``, ``Y = J L⁻¹``, ``G = Y Yᵀ``: forces ``f`` solve ``G f = γ − Y z``, and ``q̈ = L⁻¹ (z + Yᵀ f)``.
All loops run over supports only. Cost O(n d² + m d² + m² d). Source: [LQR] eqs. 6–8; Featherstone 2005 and 2010.
"""

from __future__ import annotations

from functools import cached_property

from delassus.algorithms.dynamics.kkt import row_accelerations
from delassus.algorithms.dynamics.relative import right_hand_sides
from delassus.algorithms.dynamics.rnea import accelerations, joint_forces
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.osim.ltl import SparseFactor, rows_over_factor, squared
from delassus.spatial.ops import Matrix


class JointSpace:
    """Factors of the system, and what is left to solve.

    Attributes
    ----------
    L : SparseFactor
        ``M = Lᵀ L``.
    Y : list of dict of int to (m_c, 1) matrix
        ``J L⁻¹``: columns of each constraint, by degree of freedom.
    z : list of (1, 1) matrices
        ``L⁻ᵀ (τ − c)``.
    gamma : (m, 1) matrix
        What ``J q̈`` has to be.
    """

    def __init__(self, motion: DynamicsProblem) -> None:
        self._motion, self._ops = motion, motion.ops
        problem = motion.problem
        self.L = SparseFactor(problem)
        self.Y = rows_over_factor(problem, self.L)
        bias = joint_forces(motion)
        force = motion.stacked([t - c for t, c in zip(motion.tau, bias, strict=True)])
        self.z = self._over_transpose(force)
        self.gamma = motion.stacked(right_hand_sides(motion)) - row_accelerations(motion, accelerations(motion))

    @cached_property
    def G(self) -> Matrix:
        """Delassus matrix (m × m)."""
        return squared(self._motion.problem, self.Y)

    @cached_property
    def missing(self) -> Matrix:
        """``γ − Y z`` (m × 1): acceleration of the rows that the constraints have to add."""
        ops = self._ops
        free = []
        for c, columns in zip(self._motion.problem.constraints, self.Y, strict=True):
            row = ops.zeros(c.size, 1)
            if columns:
                row = ops.hstack([*columns.values()]) @ ops.vstack([self.z[k] for k in columns])
            free.append(row)
        return self.gamma - self._motion.stacked(free)

    def accelerations(self, f: Matrix) -> Matrix:
        """``L⁻¹ (z + Yᵀ f)`` (nv × 1) under the constraint forces ``f``."""
        ops = self._ops
        x = list(self.z)
        for rows, columns in zip(self._motion.problem.rows, self.Y, strict=True):
            own = ops.take(f, range(rows.start, rows.stop), None)
            for k, column in columns.items():
                x[k] = x[k] + ops.transpose(column) @ own

        # root → leaves: L q̈ = x
        qdd: list[Matrix] = []
        for k, above in enumerate(self.L.ancestors):
            if above:
                x[k] = x[k] - self.L.rows[k] @ ops.vstack([qdd[i] for i in above])
            qdd.append(self.L.reciprocal[k] @ x[k])
        ops.mark("accelerations", qdd)
        return self._motion.stacked(qdd)

    def _over_transpose(self, force: Matrix) -> list[Matrix]:
        """``L⁻ᵀ force``, by degree of freedom."""
        ops = self._ops
        x = [ops.take(force, (k,), None) for k in range(self._motion.tree.nv)]

        # leaves → root
        for k in reversed(range(len(x))):
            x[k] = self.L.reciprocal[k] @ x[k]
            for position, i in enumerate(self.L.ancestors[k]):
                x[i] = x[i] - ops.take(self.L.rows[k], None, (position,)) @ x[k]
        return x
