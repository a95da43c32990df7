"""Independent coordinates: the map from their velocities to all, and the dynamics that they see.

With the columns ``J_i`` of independent and ``J_d`` of dependent coordinates of the rows ``J v = 0``,

    v = G v_i,    a = G a_i + g,    G_d = −J_d⁺ J_i,    g_d = −J_d⁺ J̇ v,

and from ``M a + c = τ + Jᵀ f``, as ``J G = 0``:

    Gᵀ M G a_i + Gᵀ (M g + c) = Gᵀ τ.

``G`` is block-diagonal, a block ``W`` for each of the `clusters` that loops tie. Rows may depend on one another, as
those of loops in a plane do: ``J_d⁺`` solves the normal equations, whose error one step of refinement takes off
(corrected seminormal equations). Cost O(m r² + r² n) for each cluster with r dependent coordinates, and O(nv² n).

Assumes that ``J_d`` has full column rank: elsewhere the independent coordinates do not hold the mechanism, which
``margin`` says. Sources: Featherstone, Rigid Body Dynamics Algorithms, 8.11; Gosselin, Angeles 1990 (singularities);
Björck 1987 (refinement).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from typing import NamedTuple

from delassus.algorithms.blocks import assembled
from delassus.algorithms.crba import mass_matrix
from delassus.algorithms.dynamics.constraint_acceleration import jacobian_drift
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian, jacobian_columns
from delassus.algorithms.loops.clusters import Cluster, clusters
from delassus.algorithms.problem import Problem
from delassus.algorithms.rnea import inverse_dynamics
from delassus.spatial.motion import LINEAR, column, diagonal, over_sizes, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar

SINGULAR = 1e-5
"""What others do not span of rows and columns is zero below this part of its usual size."""

ROUND_OFF = 1e4
"""The least such part, over round-off."""


class Transmission(NamedTuple):
    """``G`` (nv × n), ``drift`` ``g`` (nv × 1), and how far columns of ``J_d`` are from depending on others.

    ``margin`` is the smallest part of a column that those before it do not span, over the largest column or
    `Problem.length`, whichever is larger, each row being over its usual size, and displacements over that length.
    """

    G: Matrix
    drift: Matrix
    margin: Scalar


class IndependentDynamics(NamedTuple):
    """``Gᵀ M G`` (n × n), ``Gᵀ (M g + c)`` (n × 1), and the inverse of the first."""

    M: Matrix
    bias: Matrix
    delassus: Matrix


class ClusterLoops:
    """Rows of a cluster, solved for its dependent degrees of freedom.

    Attributes
    ----------
    dofs : list of int
        Its degrees of freedom.
    free, bound : list of int
        Places among these of independent ones and of others.
    W : (dofs, free) matrix
        All velocities per independent velocity.
    margin : scalar
        As of `Transmission`.
    """

    def __init__(self, problem: Problem, cluster: Cluster, independent: Sequence[int]) -> None:
        ops, slices = problem.ops, problem.tree.v_slices
        self._ops = ops
        self.dofs = [k for i in cluster.links for k in range(slices[i].start, slices[i].stop)]
        self.free = [at for at, k in enumerate(self.dofs) if k in independent]
        self.bound = [at for at, k in enumerate(self.dofs) if k not in independent]
        self.rows = [r for k in cluster.constraints for r in range(*problem.rows[k].indices(problem.n_rows))]
        self.W = ops.eye(len(self.dofs))
        self.margin: Scalar = 1.0
        if not self.bound:
            return
        # rows hold or do not, whatever their size
        columns, sizes = problem.once(jacobian_columns), [x for k in cluster.constraints for x in problem.row_sizes(k)]
        blocks = {(r, c): columns[k][i] for r, k in enumerate(cluster.constraints)
                  for c, i in enumerate(cluster.links) if i in columns[k]}  # fmt: skip
        heights = [problem.constraints[k].size for k in cluster.constraints]
        J = assembled(ops, heights, [problem.tree.joints[i].nv for i in cluster.links], blocks)
        self._over = over_sizes(ops, sizes)
        compared = units(problem)
        self._J = ops.take(J, None, self.bound)
        self._system = SeminormalEquations(ops, self._over @ self._J)
        self.margin = self._system.margin([compared[self.dofs[at]] for at in self.bound], problem.length**2)
        asked = self._system.solve(-(self._over @ ops.take(J, None, self.free)))
        self.W = self.whole(asked, ops.eye(len(self.free)))

    def whole(self, bound: Matrix, free: Matrix) -> Matrix:
        """Matrix of all degrees of freedom (dofs × k), of those of dependent and of independent ones."""
        ops, (n, k) = self._ops, (len(self.dofs), self._ops.shape(bound)[1])
        return ops.put(bound, (n, k), self.bound, range(k)) + ops.put(free, (n, k), self.free, range(k))

    def drift(self, rows: Matrix) -> Matrix:
        """Accelerations (dofs × 1) where independent ones are zero, and those of all rows (m × 1) are as wanted."""
        ops = self._ops
        if not self.bound:
            return ops.zeros(len(self.dofs), 1)
        asked = self._system.solve(self._over @ ops.take(rows, self.rows, None))
        return self.whole(asked, ops.zeros(len(self.free), 1))


def transmission(motion: DynamicsProblem, independent: Sequence[int]) -> Transmission:
    """The map from velocities of independent degrees of freedom to all, and its rate, without forces."""
    ops, drift = motion.ops, -jacobian_drift(motion)
    parts = [ClusterLoops(motion.problem, c, independent) for c in clusters(motion.tree, motion.problem.constraints)]
    back = _places([k for part in parts for k in part.dofs], range(motion.tree.nv))
    order = _places([part.dofs[at] for part in parts for at in part.free], independent)
    G = ops.take(ops.block_diagonal([part.W for part in parts]), back, order)
    g = ops.take(motion.stacked([part.drift(drift) for part in parts]), back, None)
    ops.mark("transmission", [G, g])
    margins: list[Scalar] = [part.margin for part in parts if part.bound]
    return Transmission(G, g, _least(ops, margins) if margins else 1.0)


def _places(numbers: Sequence[int], wanted: Iterable[int]) -> list[int]:
    """Place of each of some ``wanted`` numbers."""
    return [numbers.index(k) for k in wanted]


def reduced_dynamics(motion: DynamicsProblem, found: Transmission) -> IndependentDynamics:
    """Mass matrix, bias force and inverse mass matrix of independent coordinates, under the forces of a motion."""
    ops, n = motion.ops, motion.ops.shape(found.G)[1]
    transposed = ops.transpose(found.G)
    needed = inverse_dynamics(motion, motion.by_joint(column(ops, found.drift)))
    if not n:
        return IndependentDynamics(ops.zeros(0, 0), ops.zeros(0, 1), ops.zeros(0, 0))
    M = ops.sym_product(transposed, mass_matrix(motion.problem) @ found.G)
    ops.mark("reduced mass matrix", [M])
    ops.new_system()
    return IndependentDynamics(M, transposed @ needed, ops.factor(M).inverse())


def rank(problem: Problem, J: Matrix | None = None, part: float = 1.0) -> Scalar:
    """Number of constraint rows that are independent of one another.

    They are made orthogonal by Gram and Schmidt's method; those count of which as much is left as `least` of their
    usual size. That is what constraints give them at `Problem.length`; of others (m × k) in place of ``J``,
    displacements over that length, it is some ``part`` of that.
    """
    ops, rows, over = problem.ops, list[Matrix](), list[Scalar]()
    total: Scalar = 0.0
    J = jacobian(problem) @ diagonal(ops, units(problem)) if J is None else J
    for k, usual in enumerate(row_squares(problem)):
        a = ops.take(J, (k,), None)
        for row, x in zip(rows, over, strict=True):
            a = a - scaled_matrix(ops, x, a @ ops.transpose(row)) @ row
        ((left,),) = ops.entries(a @ ops.transpose(a))
        is_kept = ops.less(least(ops) ** 2 * part * usual, left)
        over.append(is_kept / ops.select(is_kept, left, 1.0))
        rows.append(a)
        total = total + is_kept
    return total


def least(ops: Ops) -> float:
    """What counts as zero, of what is usual: `SINGULAR`, or more where numbers are less exact."""
    return max(SINGULAR, ROUND_OFF * ops.epsilon)


def row_squares(problem: Problem) -> list[Scalar]:
    """Squares (m) of the sizes of rows as constraints give them, at `Problem.length`."""
    return [x * problem.length**2 for x in _sizes(problem)]


def _sizes(problem: Problem) -> list[Scalar]:
    """Squares (m) of the sizes of rows as constraints give them, rotations over `Problem.length`."""
    return [x for c in range(len(problem.constraints)) for x in problem.row_sizes(c)]


def units(problem: Problem) -> list[float]:
    """What velocities (nv) are compared in: rotations in rad/s, displacements in `Problem.length` a second."""
    axes = [axis for joint in problem.tree.joints for axis in joint.motion_axes]
    return [problem.length if axis in LINEAR else 1.0 for axis in axes]


def singular(motion: DynamicsProblem, found: Transmission) -> tuple[Scalar, Scalar]:
    """1 where dependent coordinates can move alone, else 0; and 1 where that is since rows of constraints lose rank."""
    ops, problem = motion.ops, motion.problem
    dependent = motion.tree.nv - ops.shape(found.G)[1]
    can_move = 1.0 - ops.less(least(ops), found.margin)
    return can_move, can_move * ops.less(rank(problem), dependent)


def moved_rows(problem: Problem, G: Matrix, independent: Sequence[int]) -> Matrix:
    """Velocities (m × n) of the rows of constraints per independent velocity, displacements over `Problem.length`."""
    ops, compared = problem.ops, units(problem)
    return jacobian(problem) @ G @ diagonal(ops, [compared[k] for k in independent])


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

    def margin(self, units: Sequence[float], usual: float) -> Scalar:
        """Smallest pivot over the largest square of columns, in these ``units``, or the ``usual`` one of rows."""
        ops = self._ops
        sizes = [unit * unit * x for unit, x in zip(units, self._squares, strict=True)]
        _, reciprocals = self._factor.parts()
        pivots = [size * (1.0 / r) for size, r in zip(sizes, ops.entries(reciprocals)[0], strict=True)]
        smallest = ops.maximum(_least(ops, pivots), 0.0)  # after zeros pivots are NaN
        return ops.sqrt(smallest / reduce(ops.maximum, [*sizes, usual]))


def _least(ops: Ops, numbers: Sequence[Scalar]) -> Scalar:
    """The smallest number; NaN do not count."""
    return reduce(lambda x, y: ops.select(ops.less(y, x), y, x), numbers)
