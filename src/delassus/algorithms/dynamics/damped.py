"""``(G + D)⁻¹ x`` in O(n + m), ``D`` diagonal: a robot at rest without gravity, whose constraints are soft.

Soft constraints of compliance ``D`` that ask for the accelerations ``x`` have these forces. Source: [LQR] section VI,
with the rows eliminated as in `pv_early`, so that small ``D`` lose no digits.
"""

from __future__ import annotations

from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import Problem
from delassus.constraints import Goal
from delassus.spatial.ops import Matrix


def damped_problem(problem: Problem, damping: Matrix, x: Matrix) -> DynamicsProblem:
    """Problem whose forces are ``(G + D)⁻¹ x`` (m × 1), with the positive diagonal ``damping`` (m × 1) as ``D``."""
    ops = problem.ops
    parts = [[ops.take(a, range(problem.n_rows)[rows], None) for a in (x, damping)] for rows in problem.rows]
    goals = [Goal(target=target, compliance=compliance) for target, compliance in parts]
    return DynamicsProblem(problem, None, None, gravity=ops.zeros(3, 1), goals=goals)
