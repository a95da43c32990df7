"""Independent coordinates: the map from their velocities to all, and the dynamics that they see.

With the columns ``J_i`` of independent and ``J_d`` of dependent coordinates of the rows ``J v = 0``,

    v = G v_i,    a = G a_i + g,    G_d = −J_d⁺ J_i,    g_d = −J_d⁺ J̇ v,

and from ``M a + c = τ + Jᵀ f``, as ``J G = 0``:

    Gᵀ M G a_i + Gᵀ (M g + c) = Gᵀ τ.

Rows may depend on one another, as those of loops in a plane do: ``J_d⁺`` solves the normal equations, whose error one
step of refinement takes off (corrected seminormal equations). Cost O(m r² + r² n + nv² n), for r dependent coordinates.

Assumes that ``J_d`` has full column rank: elsewhere the independent coordinates do not hold the mechanism, which
``margin`` says. Sources: Featherstone, Rigid Body Dynamics Algorithms, 8.11; Gosselin, Angeles 1990 (singularities);
Björck 1987 (refinement).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

from delassus.algorithms.crba import mass_matrix
from delassus.algorithms.dynamics.constraint_acceleration import jacobian_drift
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.rnea import inverse_dynamics
from delassus.spatial.factor import Factor
from delassus.spatial.motion import LINEAR, column, diagonal
from delassus.spatial.ops import SQUARE_FLOOR, Matrix, Scalar


class Transmission(NamedTuple):
    """``G`` (nv × n), ``drift`` ``g`` (nv × 1), and how far columns of ``J_d`` are from depending on others.

    ``margin`` is the smallest part of a column that those before it do not span, over the length of the largest column,
    displacements being measured by `Problem.length`.
    """

    G: Matrix
    drift: Matrix
    margin: Scalar


class ReducedDynamics(NamedTuple):
    """``Gᵀ M G`` (n × n), ``Gᵀ (M g + c)`` (n × 1), and the inverse of the first."""

    M: Matrix
    bias: Matrix
    delassus: Matrix


def transmission(motion: DynamicsProblem, independent: Sequence[int]) -> Transmission:
    """The map from velocities of independent degrees of freedom to all, and its rate, without forces."""
    ops, nv, n = motion.ops, motion.tree.nv, len(independent)
    dependent = [k for k in range(nv) if k not in set(independent)]
    asked: Matrix = ops.zeros(0, n + 1)
    margin: Scalar = 1.0
    if dependent:
        J = jacobian(motion.problem)
        J_d, J_i = ops.take(J, None, dependent), ops.take(J, None, independent)
        length = motion.problem.length
        units = [length if axis in LINEAR else 1.0 for joint in motion.tree.joints for axis in joint.motion_axes]
        wanted = -ops.hstack([J_i, jacobian_drift(motion)])
        asked, margin = _least_squares(motion, J_d, wanted, [units[k] for k in dependent])
    order = [*independent, *dependent]
    back = [order.index(k) for k in range(nv)]
    whole = ops.vstack([ops.hstack([ops.eye(n), ops.zeros(n, 1)]), asked])
    whole = ops.take(whole, back, None)
    ops.mark("transmission", [whole])
    return Transmission(ops.take(whole, None, range(n)), ops.take(whole, None, (n,)), margin)


def reduced_dynamics(motion: DynamicsProblem, found: Transmission) -> ReducedDynamics:
    """Mass matrix, bias force and inverse mass matrix of independent coordinates, under the forces of a motion."""
    ops, n = motion.ops, motion.ops.shape(found.G)[1]
    transposed = ops.transpose(found.G)
    needed = inverse_dynamics(motion, motion.by_joint(column(ops, found.drift)))
    if not n:
        return ReducedDynamics(ops.zeros(0, 0), ops.zeros(0, 1), ops.zeros(0, 0))
    M = ops.sym_product(transposed, mass_matrix(motion.problem) @ found.G)
    ops.mark("reduced mass matrix", [M])
    ops.new_system()
    return ReducedDynamics(M, transposed @ needed, ops.factor(M).inverse())


def _least_squares(motion: DynamicsProblem, A: Matrix, B: Matrix, units: Sequence[float]) -> tuple[Matrix, Scalar]:
    """``A⁺ B`` of full column rank, columns of ``A`` scaled to length one; the smallest pivot over the largest column.

    ``units`` of the columns are what these are compared in.
    """
    ops = motion.ops
    square = ops.entries(ops.sym_product(ops.transpose(A), A))
    scale = diagonal(ops, [1.0 / ops.sqrt(row[k] + SQUARE_FLOOR) for k, row in enumerate(square)])
    sizes = [unit * unit * row[k] for k, (unit, row) in enumerate(zip(units, square, strict=True))]
    A = A @ scale
    transposed = ops.transpose(A)
    ops.new_system()
    factor = Factor(ops, ops.sym_product(transposed, A))
    x = factor.solve(transposed @ B)
    x = x + factor.solve(transposed @ (B - A @ x))
    _, reciprocals = factor.parts()
    pivots = [size * (1.0 / r) for size, r in zip(sizes, ops.entries(reciprocals)[0], strict=True)]
    smallest = ops.maximum(reduce(ops.minimum, pivots), 0.0)
    return scale @ x, ops.sqrt(smallest / (reduce(ops.maximum, sizes) + SQUARE_FLOOR))
