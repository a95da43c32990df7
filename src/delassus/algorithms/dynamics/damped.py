"""``(G + D)⁻¹ x`` in O(n + m), ``D`` diagonal: a robot at rest without gravity, whose constraints are soft.

Soft constraints of compliance ``D`` that ask for the accelerations ``x`` have these forces (`pv_soft`). They are
differences over ``D``, which loses as many digits as ``D`` is smaller than ``G``; a second solution, of what
``(G + D) f`` still misses of ``x``, finds as many again. Source: [LQR] section VI; Wilkinson, Rounding Errors in
Algebraic Processes, 1963.
"""

from __future__ import annotations

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.dynamics.pv_soft import pv_soft
from delassus.algorithms.dynamics.state import DynamicsProblem, Goal
from delassus.algorithms.osim.product import delassus_product
from delassus.algorithms.problem import Problem
from delassus.spatial.motion import column, scaled
from delassus.spatial.ops import Matrix, Scalar

LARGEST = 1e-3
"""Largest part of the forces that the second solution may change: its square is what is then still wrong."""

SMALLEST = 1e-30
"""What makes a solution of zeros one."""


def damped_product(problem: Problem, body: Articulated, damping: Matrix, x: Matrix) -> Matrix:
    """``(G + D) x`` (m × 1)."""
    return delassus_product(problem, body, x) + scaled(problem.ops, column(problem.ops, damping), x)


def damped_solution(problem: Problem, damping: Matrix, x: Matrix) -> tuple[Matrix, Scalar]:
    """``(G + D)⁻¹ x`` (m × 1) for the positive diagonal ``damping`` (m × 1), and whether it is solved."""
    ops, body = problem.ops, Articulated(problem)
    if not problem.n_rows:
        return x, 1.0
    ops.mark("Delassus product", [delassus_product(problem, body, x)])
    first = _solved(problem, damping, x)
    change = _solved(problem, damping, x - damped_product(problem, body, damping, first))
    change_squared, squared = (sum(y * y for y in column(ops, f)) for f in (change, first))
    return first + change, ops.less(change_squared, LARGEST * LARGEST * squared + SMALLEST)


def _solved(problem: Problem, damping: Matrix, x: Matrix) -> Matrix:
    """Forces of soft constraints that ask for ``x``."""
    ops = problem.ops
    parts = [[ops.take(a, range(problem.n_rows)[rows], None) for a in (x, damping)] for rows in problem.rows]
    goals = [Goal(target=target, compliance=compliance) for target, compliance in parts]
    return pv_soft(DynamicsProblem(problem, None, None, gravity=ops.zeros(3, 1), goals=goals)).forces
