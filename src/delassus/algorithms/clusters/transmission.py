"""Transmission of a cluster: the map ``W`` from velocities of its independent coordinates to those of all its joints.

With the columns ``J_i`` of independent and ``J_d`` of dependent coordinates of its rows, ``q̇ = W ẏ`` and
``q̈ = W ÿ + g``, ``W_d = −J_d⁺ J_i``, ``g_d = J_d⁺ γ`` where rows are to have the accelerations ``γ``. Forces along the
rows that give ``r`` at the joints, ``Jᵀ f = r``, are those of least norm, ``f = J_d (J_dᵀ J_d)⁻¹ r_d``. Rows may depend
on one another, as those of loops in a plane do: ``J_d⁺`` solves the normal equations, whose error one step of
refinement takes off (corrected seminormal equations). Cost O(m r² + r² n) for r dependent coordinates.

Assumes that ``J_d`` has full column rank. Sources: Jain 2012; Björck 1987 (refinement).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce

from delassus.algorithms.blocks import assembled
from delassus.algorithms.clusters.grouping import Cluster
from delassus.algorithms.jacobian import jacobian_columns
from delassus.algorithms.problem import Problem
from delassus.spatial.motion import LINEAR, column, diagonal, over_sizes
from delassus.spatial.ops import Matrix, Ops, Scalar


class ClusterLoops:
    """Rows of a cluster, solved for its dependent degrees of freedom.

    Attributes
    ----------
    cluster : Cluster
    dofs : list of int
        Its degrees of freedom.
    free, bound : list of int
        Places among these of independent ones and of others.
    W : (dofs, free) matrix
        All velocities per independent velocity.
    margin : scalar
        As of `Transmission`.
    """

    def __init__(
        self, problem: Problem, cluster: Cluster, independent: Collection[int], by_size: bool = False
    ) -> None:  # fmt: skip
        """``by_size``: rows that cannot all hold miss less the larger they are, so that sizes do not matter."""
        ops, slices = problem.ops, problem.tree.v_slices
        self._ops, self.cluster = ops, cluster
        self.dofs = [k for i in cluster.links for k in range(slices[i].start, slices[i].stop)]
        self.free = [at for at, k in enumerate(self.dofs) if k in independent]
        self.bound = [at for at, k in enumerate(self.dofs) if k not in independent]
        self.rows = [r for k in cluster.constraints for r in range(*problem.rows[k].indices(problem.n_rows))]
        self.W = ops.eye(len(self.dofs))
        self.margin: Scalar = 1.0
        if not self.rows:
            return
        columns, sizes = problem.once(jacobian_columns), [x for k in cluster.constraints for x in problem.row_sizes(k)]
        blocks = {(r, c): columns[k][i] for r, k in enumerate(cluster.constraints)
                  for c, i in enumerate(cluster.links) if i in columns[k]}  # fmt: skip
        heights = [problem.constraints[k].size for k in cluster.constraints]
        J = assembled(ops, heights, [problem.tree.joints[i].nv for i in cluster.links], blocks)
        self._over = over_sizes(ops, sizes if by_size or len(sizes) == len(self.bound) else [1.0] * len(sizes))
        self._sizes, self._asked = sizes, -(self._over @ ops.take(J, None, self.free))
        compared = [units(problem)[k] for k in self.dofs]
        self._lengths = [problem.length / compared[at] for at in self.free]
        if not self.bound:
            return
        self._system = SeminormalEquations(ops, self._over @ ops.take(J, None, self.bound))
        self.margin = self._system.margin([compared[at] for at in self.bound], problem.length**2)
        self.W = self.whole(self._system.solve(self._asked), ops.eye(len(self.free)))

    def whole(self, bound: Matrix, free: Matrix) -> Matrix:
        """Matrix of all degrees of freedom (dofs × k), of those of dependent and of independent ones."""
        ops, (n, k) = self._ops, (len(self.dofs), self._ops.shape(bound)[1])
        return ops.put(bound, (n, k), self.bound, range(k)) + ops.put(free, (n, k), self.free, range(k))

    def drift(self, rows: Matrix) -> Matrix:
        """Accelerations (dofs × 1) where independent ones are zero, and those of all rows (m × 1) as wanted."""
        ops = self._ops
        if not self.bound:
            return ops.zeros(len(self.dofs), 1)
        asked = self._system.solve(self._over @ ops.take(rows, self.rows, None))
        return self.whole(asked, ops.zeros(len(self.free), 1))

    def gaps(self) -> list[Scalar]:
        """Velocities along rows that ``W`` leaves, of length one, where independent coordinates move at 1 m/s.

        Rows miss them that are more than dependent coordinates, where loops gape: they have another rank there.
        """
        if len(self.rows) <= len(self.bound):
            return []
        left = self._left(self._asked) @ diagonal(self._ops, [1.0 / x for x in self._lengths])
        return [x for row in self._ops.entries(left) for x in row]

    def missed(self, rows: Matrix) -> list[Scalar]:
        """Accelerations that rows, of length one, miss of those that `drift` is asked for: they contradict others."""
        if len(self.rows) <= len(self.bound):
            return []
        return column(self._ops, self._left(self._over @ self._ops.take(rows, self.rows, None)))

    def _left(self, asked: Matrix) -> Matrix:
        """What dependent coordinates cannot give of velocities of rows, which are made as long as one."""
        return over_sizes(self._ops, self._sizes) @ (self._system.left(asked) if self.bound else asked)

    def forces(self, r: Matrix) -> Matrix:
        """Forces of least norm along its rows (m_c × 1) that give ``r`` (dofs × 1) at dependent coordinates."""
        if not self.bound:
            return self._ops.zeros(len(self.rows), 1)
        return self._over @ self._system.solve_transpose(self._ops.take(r, self.bound, None))


def units(problem: Problem) -> list[float]:
    """What velocities (nv) are compared in: rotations in rad/s, displacements in `Problem.length` a second."""
    axes = [axis for joint in problem.tree.joints for axis in joint.motion_axes]
    return [problem.length if axis in LINEAR else 1.0 for axis in axes]


class SeminormalEquations:
    """Solutions ``A⁺ B`` of full column rank, columns of ``A`` scaled to length one."""

    def __init__(self, ops: Ops, A: Matrix) -> None:
        products = ops.entries(ops.sym_product(ops.transpose(A), A))
        self._ops, self._squares = ops, [row[k] for k, row in enumerate(products)]
        self._scale = over_sizes(ops, self._squares)  # columns of zeros stay
        self._A = A @ self._scale
        ops.new_system()
        self._factor = ops.factor(ops.sym_product(ops.transpose(self._A), self._A))

    def solve(self, B: Matrix) -> Matrix:
        """``A⁺ B``."""
        transposed = self._ops.transpose(self._A)
        x = self._factor.solve(transposed @ B)
        return self._scale @ (x + self._factor.solve(transposed @ (B - self._A @ x)))

    def left(self, B: Matrix) -> Matrix:
        """``B − A A⁺ B``, before refinement."""
        return B - self._A @ self._factor.solve(self._ops.transpose(self._A) @ B)

    def solve_transpose(self, b: Matrix) -> Matrix:
        """``(Aᵀ)⁺ b``."""
        transposed, b = self._ops.transpose(self._A), self._scale @ b
        x = self._A @ self._factor.solve(b)
        return x + self._A @ self._factor.solve(b - transposed @ x)

    def margin(self, units: Sequence[float], usual: float) -> Scalar:
        """Smallest pivot over the largest square of columns, in these ``units``, or the ``usual`` one of rows."""
        ops = self._ops
        sizes = [unit * unit * x for unit, x in zip(units, self._squares, strict=True)]
        _, reciprocals = self._factor.parts()
        pivots = [size * (1.0 / r) for size, r in zip(sizes, ops.entries(reciprocals)[0], strict=True)]
        least = ops.maximum(smallest(ops, pivots), 0.0)  # after zeros pivots are NaN
        return ops.sqrt(least / reduce(ops.maximum, [*sizes, usual]))


def smallest(ops: Ops, numbers: Sequence[Scalar]) -> Scalar:
    """The smallest number; NaN do not count."""
    return reduce(lambda x, y: ops.select(ops.less(y, x), y, x), numbers)
