"""Constraint Jacobian ``J`` (m × nv): row r, column k is the velocity along row r that joint velocity k gives.

Rows travel rigidly from their link to the root, ``K ← K X_i``, and meet each joint on the way: ``J_i = K S_i``. Cost
O(m d); a link that carries more than six rows sends the identity instead and multiplies its rows afterwards. For a
closed loop of a rigid constraint the columns at and above the closest common ancestor are structurally zero. Rows on a
joint are columns as they are. Of contact points, whose place and axes are known in the world, a column is what the
joint moves the point by: its axis, or its axis times the arm from the joint to the point.
"""

from __future__ import annotations

from delassus.algorithms.blocks import assembled
from delassus.algorithms.problem import EndEffector, Problem
from delassus.model.tree import WORLD
from delassus.spatial.motion import LINEAR, cross, scaled_matrix
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
    for c in problem.candidates:
        out[c] = _columns_of_points(problem, c)
    for end in (end for end in problem.end_effectors if end.constraint not in {*spread, *problem.candidates}):
        groups.setdefault((end.link, end.top), []).append(end)
    for (link, top), ends in groups.items():
        sizes = [ops.shape(end.K)[0] for end in ends]
        thin = sum(sizes) <= 6
        columns = columns_of_rows(problem, link, top, ops.vstack([end.K for end in ends]) if thin else ops.eye(6))
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


def columns_of_rows(problem: Problem, link: int, top: int, K: Matrix) -> Columns:
    """Columns of rows ``K`` (m × 6) on the body twist of a link, below the link ``top``."""
    ops, tree = problem.ops, problem.tree
    columns: Columns = {}
    above = set(tree.support(top))
    path = [i for i in tree.support(link) if i not in above]

    # leaves → root: J_i = K S_i, K ← K X_i
    for i in reversed(path):
        columns[i] = tree.joints[i].columns(ops, K)
        if i != path[0]:
            K = problem.X[i].rows_to_parent(K)
    return columns


def _columns_of_many(problem: Problem, ends: list[EndEffector]) -> Columns:
    """Columns of a constraint on many links: rows of all links that a joint moves add up."""
    columns, rows = Columns(), {end.link: end.K for end in ends}

    # leaves → root: J_i = K S_i, K_p += K X_i
    for i in problem.tree.leaves_to_root():
        if i in rows:
            columns[i], p = problem.tree.joints[i].columns(problem.ops, rows[i]), problem.tree.parents[i]
            if p != WORLD:
                moved = problem.X[i].rows_to_parent(rows[i])
                rows[p] = rows[p] + moved if p in rows else moved
    return columns


def _columns_of_points(problem: Problem, constraint: int) -> Columns:
    """Columns of contact points: velocity along their axes of the first link less that of the second."""
    ops, tree = problem.ops, problem.tree
    columns: Columns = {}
    above = {WORLD, *tree.support(problem.constraints[constraint].top(tree))}
    points = problem.candidates[constraint]
    for sign, link in zip((1.0, -1.0), points[0].arms, strict=False):
        i, arms = link, [x.arms[link] for x in points]

        # leaf → root: J_i = axesᵀ (a_i, or a_i × arm), arm += R_p p
        while i not in above:
            p, moved = tree.parents[i], []
            for x, arm in zip(points, arms, strict=True):
                velocity = ops.transpose(x.axes) @ _point_velocity(problem, i, arm)
                moved.append(velocity if sign > 0.0 else -velocity)
            columns[i] = problem.switched(constraint, ops.vstack(moved))
            if p != WORLD:
                step = problem.link_rotations[p] @ problem.X[i].position()
                arms = [arm + step for arm in arms]
            i = p
    return columns


def _point_velocity(problem: Problem, i: int, arm: Matrix) -> Matrix:
    """Velocity (3 × n_i), in axes of the world, of a point of link i, by the velocity of its joint."""
    ops, R, out, joint = problem.ops, problem.link_rotations[i], [], problem.tree.joints[i]
    for axis in joint.motion_axes:
        along = ops.take(R, None, (axis % 3,))
        out.append(along if axis in LINEAR else cross(ops, along, arm))
        if joint.pitch:
            out[-1] = out[-1] + scaled_matrix(ops, joint.pitch, along)
    return ops.hstack(out)


def jacobian(problem: Problem) -> Matrix:
    """Constraint Jacobian ``J`` (m × nv)."""
    ops, tree = problem.ops, problem.tree
    blocks = {(c, i): block for c, columns in enumerate(problem.once(jacobian_columns)) for i, block in columns.items()}
    return assembled(ops, [c.size for c in problem.constraints], [joint.nv for joint in tree.joints], blocks)
