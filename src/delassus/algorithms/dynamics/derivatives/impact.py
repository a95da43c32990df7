"""Derivatives of impacts ``M Δv = Jᵀ p``, ``J Δv = −s J v``: those of a robot at rest, whose rows ask for more.

With ``x = −G⁻¹ s ∂(J v)``, what the rows ask for changes ``p`` by ``x`` and ``Δv`` by ``M⁻¹ Jᵀ x``; the rest is in
`accelerations`.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.algorithms.dynamics.derivatives.accelerations import Direction, Resolve, derivatives, row_changes
from delassus.algorithms.dynamics.ltl import JointSpace
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.spatial.motion import scaled_matrix
from delassus.spatial.ops import Matrix, Scalar


def impact_derivatives(
    impact: DynamicsProblem, struck: Sequence[Scalar], resolve: Resolve
) -> tuple[Solution, list[list[Matrix]], list[Direction]]:
    """``Δv`` and ``p``; changes of ``v + Δv`` (nv × nv) and of ``p`` (m × nv) with positions, with velocities.

    ``struck``: ``s`` of each constraint. Last what the derivatives can be judged by.
    """
    ops, problem, nv, m = impact.ops, impact.problem, impact.tree.nv, impact.problem.n_rows
    solution, found, directions, inverse = derivatives(impact, resolve)
    with_q, with_v = [found["dqdd_dq"], found["df_dq"]], [ops.eye(nv), ops.zeros(m, nv)]
    if m:
        system = JointSpace(impact)
        v = impact.stacked(impact.per_joint(impact.before))
        straight = [ops.take(system.J, range(rows.start, rows.stop), None) for rows in problem.rows]
        each = [*zip(struck, row_changes(impact, v), straight, strict=True)]
        turned = ops.vstack([scaled_matrix(ops, s, change) for s, change, _ in each])
        asked = -ops.hstack([turned, ops.vstack([scaled_matrix(ops, s, rows) for s, _, rows in each])])
        x = ops.product(inverse, asked)
        dv = system.back_substitution(ops.zeros(nv, 2 * nv), x)
        for part, changes in ((range(nv), with_q), (range(nv, 2 * nv), with_v)):
            changes[0] = changes[0] + ops.take(dv, None, part)
            changes[1] = changes[1] + ops.take(x, None, part)
    return solution, [[with_q[0], with_v[0]], [with_q[1], with_v[1]]], directions
