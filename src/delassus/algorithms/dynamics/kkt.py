"""The dense saddle-point system ``M q̈ − Jᵀ f = τ − c``, ``J q̈ = γ``: the oracle of the other methods.

Solved by its Schur complement ``G = J M⁻¹ Jᵀ``: ``G f = γ − J M⁻¹ (τ − c)``. ``γ = k − Σ K a°``, ``a°`` the
accelerations of links that velocities and gravity cause while ``q̈ = 0`` ([LQR] eqs. 2–5). Cost O(n³ + m n² + m³).
Assumes independent rows; what to do about others is in `delassus.accuracy.status`.
"""

from __future__ import annotations

from delassus.algorithms.crba import mass_matrix
from delassus.algorithms.dynamics.constraint_acceleration import wanted_accelerations
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.rnea import applied_forces
from delassus.frozen import cached_property
from delassus.spatial.ops import Matrix


class SaddlePoint:
    """``M``, ``J``, ``G``, the ``force`` ``τ − c``, and ``gamma``, what ``J q̈`` has to be."""

    def __init__(self, motion: DynamicsProblem) -> None:
        self._motion = motion
        ops, m, nv = motion.ops, motion.problem.n_rows, motion.tree.nv
        self.M, self.J = mass_matrix(motion.problem), jacobian(motion.problem)
        self.force, self.gamma = applied_forces(motion), wanted_accelerations(motion)
        self._factor = ops.factor(self.M) if nv else None
        self.G = ops.zeros(m, m) if self._factor is None or not m else self._factor.quadratic(self.J)
        self.G = motion.softened(self.G)
        ops.mark("Delassus matrix", [self.G])

    def solve_mass_matrix(self, force: Matrix) -> Matrix:
        """``M⁻¹ force`` (nv × k)."""
        return force if self._factor is None else self._factor.solve(force)

    @cached_property
    def free(self) -> Matrix:
        """Accelerations (nv × 1) without the constraints."""
        return self.solve_mass_matrix(self.force)

    @cached_property
    def row_deficit(self) -> Matrix:
        """``γ − J M⁻¹ (τ − c)`` (m × 1): acceleration of the rows that the constraints have to add."""
        return self.gamma - self.J @ self.free

    def solve(self) -> DynamicsSolution:
        """Forces that add it, and the accelerations with them."""
        ops = self._motion.ops
        if not ops.shape(self.gamma)[0]:
            return DynamicsSolution(self.free, self.gamma, self.G)
        f = ops.factor(self._motion.problem.relaxed(self.G)).solve(self.row_deficit)
        qdd = self.free + self.solve_mass_matrix(ops.transpose(self.J) @ f)
        ops.mark("saddle point", [qdd, f])
        return DynamicsSolution(qdd, f, self.G)


def kkt(motion: DynamicsProblem) -> DynamicsSolution:
    """Accelerations and constraint forces."""
    return SaddlePoint(motion).solve()
