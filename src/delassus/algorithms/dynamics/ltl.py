"""LTL: the constrained system in joint space, by Featherstone's sparse factorisation ``M = Lᵀ L``.

``G f = γ − Y z`` with ``Y = J L⁻¹``, ``z = L⁻ᵀ (τ − c)`` and ``G = Y Yᵀ``, then ``L q̈ = z + Yᵀ f``; all loops run over
supports only. Cost O(n d² + m d² + m² d + m³). Source: [LQR] eqs. 2–8; Featherstone 2005 and 2010.

Assumes independent rows; what to do about others is in `delassus.accuracy.status`. No deviations. `derivatives`
starts from the same factors.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from delassus.algorithms.dynamics.constraint_acceleration import wanted_accelerations
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.osim.ltl import rows_over_factor, squared
from delassus.algorithms.problem import Problem
from delassus.algorithms.rnea import applied_forces
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.frozen import cached_property
from delassus.spatial.ops import Matrix


class JointSpace:
    """``L``, and ``Y`` by constraint and degree of freedom (m_c × 1); with masses ``added`` as in `SparseFactor`."""

    def __init__(self, motion: DynamicsProblem, added: Mapping[tuple[int, int], Matrix] | None = None) -> None:
        self._motion, self._ops, self._added = motion, motion.ops, added
        problem = motion.problem
        self.L = SparseFactor(problem, added) if added else problem.once(SparseFactor)
        self.Y = rows_over_factor(problem, self.L) if added else problem.once(_rows)

    @cached_property
    def z(self) -> Matrix:
        """``L⁻ᵀ (τ − c)`` (nv × 1)."""
        return self.solve_transpose(applied_forces(self._motion))

    @cached_property
    def gamma(self) -> Matrix:
        """Accelerations (m × 1) that ``J q̈`` has to be."""
        return wanted_accelerations(self._motion)

    @cached_property
    def J(self) -> Matrix:
        """Constraint Jacobian (m × nv)."""
        return self._motion.problem.once(jacobian)

    @cached_property
    def G(self) -> Matrix:
        """Delassus matrix (m × m)."""
        problem = self._motion.problem
        return squared(problem, self.Y) if self._added else problem.once(_delassus)

    @cached_property
    def row_deficit(self) -> Matrix:
        """``γ − Y z`` (m × 1): acceleration of the rows that the constraints have to add."""
        return self.gamma - self.along_rows(self.z)

    def accelerations(self, f: Matrix) -> Matrix:
        """``L⁻¹ (z + Yᵀ f)`` (nv × 1) under the constraint forces ``f``."""
        qdd = self.back_substitution(self.z, f)
        self._ops.mark("accelerations", [qdd])
        return qdd

    def solve_transpose(self, B: Matrix, kept: Collection[int] = ()) -> Matrix:
        """``L⁻ᵀ B`` (nv × k); as sparse as ``B`` where that is as sparse as ``M``. See `SparseFactor` for ``kept``."""
        return self._motion.stacked(self.L.solve_transpose(B, kept)) if self._motion.tree.nv else B

    def along_rows(self, x: Matrix) -> Matrix:
        """``Y x`` (m × k)."""
        ops, width = self._ops, self._ops.shape(x)[1]
        out = []
        for c, columns in zip(self._motion.problem.constraints, self.Y, strict=True):
            rows = ops.zeros(c.size, width)
            if columns:
                rows = ops.hstack([*columns.values()]) @ ops.take(x, list(columns), None)
            out.append(rows)
        return ops.vstack(out) if out else ops.zeros(0, width)

    def back_substitution(self, x: Matrix, f: Matrix) -> Matrix:
        """``L⁻¹ (x + Yᵀ f)`` (nv × k) under the constraint forces ``f`` (m × k)."""
        ops = self._ops
        left = [ops.take(x, (k,), None) for k in range(self._motion.tree.nv)]
        for rows, columns in zip(self._motion.problem.rows, self.Y, strict=True):
            own = ops.take(f, range(rows.start, rows.stop), None)
            for k, column in columns.items():
                left[k] = left[k] + ops.transpose(column) @ own
        return ops.vstack(self.L.solve(left)) if left else x


def _rows(problem: Problem) -> list[dict[int, Matrix]]:
    return rows_over_factor(problem, problem.once(SparseFactor))


def _delassus(problem: Problem) -> Matrix:
    return squared(problem, problem.once(_rows))


def ltl(motion: DynamicsProblem) -> DynamicsSolution:
    """Accelerations and constraint forces; ``G + R`` in the place of ``G`` where constraints are soft."""
    ops, space = motion.ops, JointSpace(motion)
    f, G = space.gamma, motion.softened(space.G)
    if motion.problem.n_rows:
        f = ops.factor(motion.problem.relaxed(G)).solve(space.row_deficit)
    ops.mark("constraint forces", [f])
    return DynamicsSolution(space.accelerations(f), f, G)
