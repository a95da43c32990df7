"""Constraint Jacobian ``J`` (m × nv): row r, column k is the velocity along row r that joint velocity k gives.

Rows travel rigidly from their link to the root, ``K ← K X_i``, and meet each joint on the way: ``J_i = K S_i``. Cost
O(m d); a link that carries more than six rows sends the identity instead and multiplies its rows afterwards. For a
closed loop of a rigid constraint the columns at and above the closest common ancestor are structurally zero. Rows on a
joint are columns as they are.
"""

from __future__ import annotations

from delassus.algorithms.blocks import assembled
from delassus.algorithms.problem import EndEffector, Problem
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix

Columns = dict[int, Matrix]


def jacobian_columns(problem: Problem) -> list[Columns]:
    """Columns (m_c × n_i) of each constraint at every link i where they are not structurally zero."""
    ops = problem.ops
    out: list[Columns] = [{} for _ in problem.constraints]
    groups: dict[tuple[int, int], list[EndEffector]] = {}
    spread = {c for c in range(len(out)) if sum(end.constraint == c for end in problem.end_effectors) > 2}
    for c in spread:
        out[c] = _columns_of_many(problem, [end for end in problem.end_effectors if end.constraint == c])
    for end in (end for end in problem.end_effectors if end.constraint not in spread):
        groups.setdefault((end.link, end.top), []).append(end)
    for (link, top), ends in groups.items():
        sizes = [ops.shape(end.K)[0] for end in ends]
        thin = sum(sizes) <= 6
        columns = _columns_of(problem, link, top, ops.vstack([end.K for end in ends]) if thin else ops.eye(6))
        start = 0
        for end, size in zip(ends, sizes, strict=True):
            mine = out[end.constraint]
            for i, block in columns.items():
                part = ops.take(block, range(start, start + size), None) if thin else end.K @ block
                mine[i] = mine[i] + part if i in mine else part
            start += size
    for on_joint in problem.joint_space_rows:
        mine, i = out[on_joint.constraint], on_joint.link
        mine[i] = mine[i] + on_joint.C if i in mine else on_joint.C
    ops.mark("Jacobian", [block for columns in out for block in columns.values()])
    return out


def _columns_of(problem: Problem, link: int, top: int, K: Matrix) -> Columns:
    ops, tree = problem.ops, problem.tree
    columns: Columns = {}
    above = set(tree.support(top))
    path = [i for i in tree.support(link) if i not in above]

    # leaves → root: J_i = K S_i, K ← K X_i
    for i in reversed(path):
        columns[i] = ops.take(K, None, tree.joints[i].motion_axes)
        if i != path[0]:
            K = problem.X[i].rows_to_parent(K)
    return columns


def _columns_of_many(problem: Problem, ends: list[EndEffector]) -> Columns:
    """Columns of a constraint on many links: rows of all links that a joint moves add up."""
    columns, rows = Columns(), {end.link: end.K for end in ends}

    # leaves → root: J_i = K S_i, K_p += K X_i
    for i in problem.tree.leaves_to_root():
        if i in rows:
            columns[i], p = problem.ops.take(rows[i], None, problem.tree.joints[i].motion_axes), problem.tree.parents[i]
            if p != WORLD:
                moved = problem.X[i].rows_to_parent(rows[i])
                rows[p] = rows[p] + moved if p in rows else moved
    return columns


def jacobian(problem: Problem) -> Matrix:
    """Constraint Jacobian ``J`` (m × nv)."""
    ops, tree = problem.ops, problem.tree
    blocks = {(c, i): block for c, columns in enumerate(jacobian_columns(problem)) for i, block in columns.items()}
    return assembled(ops, [c.size for c in problem.constraints], [joint.nv for joint in tree.joints], blocks)
