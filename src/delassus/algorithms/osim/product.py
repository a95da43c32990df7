"""``G x`` without ``G``: one sweep leaves → root, one root → leaves.

Cost O(n + m) a vector, after the articulated-body sweep. Source: the articulated-body algorithm with constraint forces
as the only forces ([LQR] eqs. 41, 42b). Assumes nothing.
"""

from __future__ import annotations

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.problem import Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix


def delassus_product(problem: Problem, body: Articulated, x: Matrix) -> Matrix:
    """``G x`` for ``x`` (m × k)."""
    ops, tree = problem.ops, problem.tree
    k = ops.shape(x)[1]
    force: dict[int, Matrix] = {}  # as rows (k × 6)

    # leaves → root: forces of the constraints, carried through the joints
    for end in problem.all_end_effectors:
        f = ops.transpose(ops.take(x, range(problem.n_rows)[problem.rows[end.constraint]], None)) @ end.K
        force[end.link] = force[end.link] + f if end.link in force else f
    for i in tree.leaves_to_root():
        p = tree.parents[i]
        if i in force and p != WORLD:
            f = body.rows_to_parent(i, force[i])
            force[p] = force[p] + f if p in force else f

    # root → leaves: accelerations that they cause
    acceleration: dict[int, Matrix] = {}
    for i in sorted(tree.supporting_links(force)):
        p = tree.parents[i]
        acceleration[i] = body.joint_response(i, ops.transpose(force[i]))
        if p != WORLD:
            acceleration[i] = acceleration[i] + body.motions_to_child(i, acceleration[p])

    parts = [ops.zeros(c.size, k) for c in problem.constraints]
    for end in problem.all_end_effectors:
        parts[end.constraint] = parts[end.constraint] + end.K @ acceleration[end.link]
    return ops.vstack(parts) if parts else ops.zeros(0, k)
