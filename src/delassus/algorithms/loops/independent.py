"""Independent coordinates: the map from their velocities to all, and the dynamics that they see.

With the columns ``J_i`` of independent and ``J_d`` of dependent coordinates of the rows ``J v = 0``,

    v = G v_i,    a = G a_i + g,    G_d = −J_d⁺ J_i,    g_d = −J_d⁺ J̇ v,

and from ``M a + c = τ + Jᵀ f``, as ``J G = 0``:

    Gᵀ M G a_i + Gᵀ (M g + c) = Gᵀ τ.

``G`` is block-diagonal, a block ``W`` for each cluster of links that loops tie. Rows may depend on one another, as
those of loops in a plane do. Cost O(m r² + r² n) for each cluster with r dependent coordinates, and O(nv² n).

Assumes that ``J_d`` has full column rank: elsewhere the independent coordinates do not hold the mechanism, which
``margin`` says. Sources: Featherstone, Rigid Body Dynamics Algorithms, 8.11; Gosselin, Angeles 1990 (singularities).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from delassus.algorithms.clusters.crba import reduced_mass_matrix
from delassus.algorithms.clusters.grouping import clusters
from delassus.algorithms.clusters.transmission import ClusterLoops, smallest, units
from delassus.algorithms.dynamics.constraint_acceleration import jacobian_drift
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.problem import Problem
from delassus.algorithms.rnea import inverse_dynamics
from delassus.spatial.motion import column, diagonal, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar

SINGULAR = 1e-5
"""What others do not span of rows and columns is zero below this part of its usual size."""

ROUND_OFF = 1e4
"""The least such part, over round-off."""


class Transmission(NamedTuple):
    """``G`` (nv × n), ``drift`` ``g`` (nv × 1), and how far columns of ``J_d`` are from depending on others.

    ``parts`` are those of clusters, ``order`` says where each independent coordinate is in these.

    ``margin`` is the smallest part of a column that those before it do not span, over the largest column or
    `Problem.length`, whichever is larger, each row being over its usual size, and displacements over that length.
    """

    G: Matrix
    drift: Matrix
    margin: Scalar
    parts: Sequence[ClusterLoops]
    order: Sequence[int]


class IndependentDynamics(NamedTuple):
    """``Gᵀ M G`` (n × n), ``Gᵀ (M g + c)`` (n × 1), and the inverse of the first."""

    M: Matrix
    bias: Matrix
    delassus: Matrix


def transmission(motion: DynamicsProblem, independent: Sequence[int]) -> Transmission:
    """The map from velocities of independent degrees of freedom to all, and its rate, without forces."""
    ops, drift = motion.ops, -jacobian_drift(motion)
    tied = clusters(motion.tree, motion.problem.constraints)
    parts = [ClusterLoops(motion.problem, cluster, independent, by_size=True) for cluster in tied]
    back = _places([k for part in parts for k in part.dofs], range(motion.tree.nv))
    order = _places([part.dofs[at] for part in parts for at in part.free], independent)
    G = ops.take(ops.block_diagonal([part.W for part in parts]), back, order)
    g = ops.take(motion.stacked([part.drift(drift) for part in parts]), back, None)
    ops.mark("transmission", [G, g])
    margins: list[Scalar] = [part.margin for part in parts if part.bound]
    return Transmission(G, g, smallest(ops, margins) if margins else 1.0, parts, order)


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
    M = ops.take(reduced_mass_matrix(motion.problem, found.parts), found.order, found.order)
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
