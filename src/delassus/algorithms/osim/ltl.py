"""LTL-OSIM: ``M = Lᵀ L`` without fill-in, ``Y = J L⁻¹``, ``G = Y Yᵀ``, all loops over supports only.

Cost O(n d² + m d² + m² d). Source: Featherstone 2005 and 2010; [LQR] eqs. 6–8; [r1] eqs. 4–6.

Deviations: none in the arithmetic. The expanded parent array gives the sparsity for joints of several degrees of
freedom, and the Jacobian's own sparsity that of constraints between two links (nothing above the closest common
ancestor of a closed loop).
"""

from __future__ import annotations

from delassus.algorithms.blocks import ConstraintBlocks
from delassus.algorithms.jacobian import jacobian_columns
from delassus.algorithms.problem import Problem
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.spatial.ops import Matrix


def rows_over_factor(problem: Problem, L: SparseFactor) -> list[dict[int, Matrix]]:
    """``Y = J L⁻¹`` of each constraint: its columns (m_c × 1) at the degrees of freedom of the constraint's support."""
    ops, tree = problem.ops, problem.tree

    # leaves → root for each constraint: y_k = j_k / L_kk, j_i −= y_k L_ki  ([LQR] eq. 7)
    Y: list[dict[int, Matrix]] = []
    for columns in problem.once(jacobian_columns):
        pending: dict[int, Matrix] = {}
        for i, block in columns.items():
            for a in range(tree.joints[i].nv):
                pending[tree.v_slices[i].start + a] = ops.take(block, None, (a,))
        done: dict[int, Matrix] = {}
        while pending:
            k = max(pending)
            done[k] = y = pending.pop(k) @ L.reciprocal[k]
            for position, i in enumerate(L.ancestors[k]):
                step = y @ ops.take(L.rows[k], None, (position,))
                pending[i] = pending[i] - step if i in pending else -step
        Y.append(done)
    ops.mark("Y = J L⁻¹", [y for done in Y for y in done.values()])
    return Y


def dense_rows(problem: Problem, L: SparseFactor) -> Matrix:
    """``Y = J L⁻¹`` (m × nv)."""
    ops, nv = problem.ops, problem.tree.nv
    return ops.vstack([
        ops.zeros(0, nv),
        *(ops.hstack([ops.zeros(c.size, 0), *(own.get(k, ops.zeros(c.size, 1)) for k in range(nv))])
          for own, c in zip(rows_over_factor(problem, L), problem.constraints, strict=True)),
    ])  # fmt: skip


def squared(problem: Problem, Y: list[dict[int, Matrix]]) -> Matrix:
    """``G = Y Yᵀ`` over common supports."""
    ops, G = problem.ops, ConstraintBlocks(problem)

    # blocks of pairs of constraints, over the degrees of freedom that both have  ([LQR] eq. 8)
    for c in range(len(Y)):
        for d in range(c + 1):
            common = sorted(Y[c].keys() & Y[d].keys())
            if not common:
                continue
            left = ops.hstack([Y[c][k] for k in common])
            right = ops.vstack([ops.transpose(Y[d][k]) for k in common])
            if c == d:
                G.add_own(c, ops.sym_product(left, right))
            else:
                G.add(c, d, left @ right)
    return G.delassus()


def ltl_osim(problem: Problem) -> Matrix:
    """Delassus matrix (m × m)."""
    return squared(problem, rows_over_factor(problem, SparseFactor(problem)))
