"""PV: the solver of Popov and Vereshchagin, an articulated-body algorithm that takes the constraint rows along.

Leaves → root as in `pv_dense`, down to the floating base *b*. There ``L`` is block diagonal over the branches, whose
multipliers are eliminated one branch after the other: ``(Hᴬ + Kᵀ L⁻¹ K) a_b = u + Kᵀ L⁻¹ l``, then
``f = L⁻¹ (l − K a_b)``. Root → leaves: the roll-out of `aba`. Cost O(n + m d + m) if each branch has one end-effector,
else O(n + m² d + m³). Source: [LQR] algorithm 1, eqs. 42, 46, 49.

Deviations: as in `pv_dense`. Branches that a loop connects are one block. Blocks of ``L`` may be singular while ``G``
is regular: of constraints on the base itself, of points at the calf joints of a quadruped, which two joints move. Where
that is so at almost all states (`Ops.rank`), where no floating base holds all links, and where there is only one block,
so that there is nothing to save, `pv_dense` takes over. Where it is so at some states (a stretched limb),
``Solution.pivot`` is small: the smallest pivot of the blocks over what it is to be compared with (see `row_sizes`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from delassus.algorithms.dynamics.activation import Switches
from delassus.algorithms.dynamics.pivot_scaling import row_sizes, size_along
from delassus.algorithms.dynamics.pv_dense import BIAS, SPATIAL, RowSweep, forces_at_world
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.osim.pv import Stack, merge
from delassus.algorithms.osim.pv_fast import connected, has_base
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix, Scalar

BASE = 0


def pv(motion: DynamicsProblem) -> Solution:
    """Accelerations and constraint forces, and the smallest pivot if branches were eliminated."""
    problem, tree, sweep = motion.problem, motion.tree, RowSweep(motion)

    # leaves → root: constraint rows
    root = BASE if has_base(tree) else WORLD
    for i in tree.leaves_to_root():
        if i != root:
            sweep.through_joint(i)
    if root == BASE:
        stacks = [merge(problem, group) for group in connected(sweep.arriving[BASE])]
        if _by_branches(motion, stacks) and not sweep.arriving[WORLD]:
            return _solve_by_branches(motion, sweep, stacks)
        sweep.through_joint(BASE)
    return forces_at_world(motion, sweep)


def _by_branches(motion: DynamicsProblem, stacks: list[Stack]) -> bool:
    """Whether there are several branches, and each has a regular block at almost all states."""
    ops = motion.ops
    return len(stacks) > 1 and all(ops.rank(s.L) == ops.shape(s.L)[0] for s in stacks)


@dataclass(frozen=True, slots=True)
class _Branch:
    """Rows ``[K l]`` of a branch at the base, and its factorised block of ``L``."""

    rows: list[int]
    R: Matrix
    factor: Any


def _solve_by_branches(motion: DynamicsProblem, sweep: RowSweep, stacks: list[Stack]) -> Solution:
    ops, problem = motion.ops, motion.problem
    switches, pivot = Switches(problem), 1.0
    H, u = sweep.body.H[BASE], sweep.u[BASE]
    branches = []

    # at the base: multipliers, branch by branch
    ops.mark("constraint rows", [part for s in stacks for part in (s.K, s.L)])
    for s in stacks:
        acts = [switches.of(c) for c in s.constraints for _ in range(problem.constraints[c].size)]
        factor = ops.factor(ops.sym_add(s.L, switches.slack(ops, acts)))
        mobility = _mobility(motion, sweep, s)
        for d, act in zip(factor.pivots(), acts, strict=True):
            pivot = ops.minimum(pivot, d / mobility + switches.off(act))
        Z = factor.half_solve(s.K)
        Q = ops.sym_product(ops.transpose(factor.scale(Z)), Z)
        H, u = ops.sym_add(H, ops.take(Q, SPATIAL, SPATIAL)), u + ops.take(Q, SPATIAL, BIAS)
        rows = [r for c in s.constraints for r in range(problem.n_rows)[problem.rows[c]]]
        branches.append(_Branch(rows, s.K, factor))
    a = ops.factor(H).solve(u)
    ops.mark("base acceleration", [a])

    f = ops.zeros(problem.n_rows, 1)
    for b in branches:
        left = ops.take(b.R, None, BIAS) - ops.take(b.R, None, SPATIAL) @ a
        f = f + ops.put(b.factor.solve(left), (problem.n_rows, 1), b.rows, (0,))
    ops.mark("constraint forces", [f])
    return Solution(sweep.accelerations(f, a), f, pivot=pivot)


def _mobility(motion: DynamicsProblem, sweep: RowSweep, block: Stack) -> Scalar:
    """What the pivots of a block are to be compared with: ``Σ |K|² / D`` over the joints that move its rows."""
    ops, sizes, mobility = motion.ops, row_sizes(motion.problem), 0.0
    for i, stack in sweep.at.items():
        if set(stack.constraints) <= set(block.constraints):
            D = ops.entries(sweep.body.D[i].inverse())
            for k, s in enumerate(motion.tree.joints[i].motion_axes):
                mobility = mobility + sum((size_along(sizes[c], s) for c in stack.constraints), 0.0) * D[k][k]
    return mobility
