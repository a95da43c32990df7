"""PV: the solver of Popov and Vereshchagin, an articulated-body algorithm that takes the constraint rows along.

Leaves → root: stacks ``[K l]`` and ``L`` with ``L f + K a = l``, ``f`` the constraint forces and ``a`` the acceleration
of the link: ``L ← L + K S D⁻¹ Sᵀ Kᵀ``, ``l ← l − K S D⁻¹ u − K' c``, ``K ← K' X`` with ``K' = K − K S D⁻¹ Uᵀ``. At the
world ``K`` has met the known acceleration there and ``G f = l`` is left. Root → leaves: the roll-out of `aba`, joints
being driven by ``u + (K S)ᵀ f``. Cost O(n + m² d + m³). Source: [LQR] algorithm 1, eqs. 42, 43, 47.

Deviations: ``l`` is minus the paper's and ``f`` minus its ``λ``. The two ends of a loop are two ends, as in `osim.pv`:
their rows add where they meet. A floating base is eliminated before the multipliers (eq. 47), as every joint is: its
free joint is one more step of the recursion. The paper's algorithm 1 takes the base last (eq. 49), which needs the
blocks of ``L`` of the branches to be invertible: at a stretched limb, or with points at the calf joints of a quadruped,
they are not while ``G`` is. Structure does not tell where, so this order is taken everywhere. `pv_early` does what eq.
49 is for, with fewer operations than that, and tells at which states it cannot.
"""

from __future__ import annotations

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.dynamics.aba import driving_forces, roll_out
from delassus.algorithms.dynamics.relative import right_hand_sides
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.osim.pv import Stack, merge, ordered
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix

SPATIAL, BIAS = range(6), (6,)
"""Columns of a stack ``[K l]``."""


def starting_stacks(motion: DynamicsProblem) -> dict[int, list[Stack]]:
    """Stacks ``[K l]`` of all ends, by link; ``k`` goes with the first end of a constraint."""
    ops, problem = motion.ops, motion.problem
    k = right_hand_sides(motion)
    out: dict[int, list[Stack]] = {i: [] for i in (WORLD, *range(motion.tree.n_links))}
    started = set()
    for end in problem.ends:
        c, m = end.constraint, ops.shape(end.K)[0]
        l = ops.zeros(m, 1) if c in started else k[c]
        started.add(c)
        out[end.link].append(Stack((c,), ops.hstack([end.K, l]), ops.zeros(m, m)))
    for c, l in enumerate(k):
        if c not in started:  # both frames on the world
            m = ops.shape(l)[0]
            out[WORLD].append(Stack((c,), ops.hstack([ops.zeros(m, 6), l]), ops.zeros(m, m)))
    return out


def pv(motion: DynamicsProblem) -> Solution:
    """Accelerations and constraint forces."""
    ops, tree, problem = motion.ops, motion.tree, motion.problem
    body = Articulated(problem)
    u = driving_forces(motion, body)
    arriving = starting_stacks(motion)
    at: dict[int, Stack] = {}

    # leaves → root: constraint rows
    for i in tree.leaves_to_root():
        if arriving[i]:
            at[i] = merge(problem, arriving[i])
            arriving[tree.parents[i]].append(_through_joint(motion, body, i, at[i], u[i]))
    ops.mark("constraint rows", [part for s in at.values() for part in (s.K, s.L)])

    # at the world: constraint forces
    f, G = ops.zeros(0, 1), ops.zeros(0, 0)
    if problem.constraints:
        whole = ordered(problem, arriving[WORLD])
        G = whole.L
        f = ops.factor(problem.relaxed(G)).solve(ops.take(whole.K, None, BIAS))
    ops.mark("constraint forces", [f])

    # root → leaves: accelerations
    for i, stack in at.items():
        rows = [r for c in stack.constraints for r in range(problem.n_rows)[problem.rows[c]]]
        KS = body.joint_columns(i, stack.K)
        u[i] = u[i] + ops.transpose(KS) @ ops.take(f, rows, None)
    return Solution(motion.stacked(roll_out(motion, body, u)), f, G)


def _through_joint(motion: DynamicsProblem, body: Articulated, i: int, stack: Stack, u: Matrix) -> Stack:
    ops, K, l = motion.ops, motion.ops.take(stack.K, None, SPATIAL), motion.ops.take(stack.K, None, BIAS)
    L = ops.sym_add(stack.L, body.joint_quadratic(i, K))
    if motion.tree.parents[i] == WORLD:
        _, reached = body.through_joint(i, u, motion.to_link(i, []))
        return Stack(stack.constraints, ops.hstack([ops.zeros(*ops.shape(K)), l - K @ reached]), L)
    before = body.rows_before_joint(i, K)
    l = l - (body.joint_columns(i, K) @ body.D[i].solve(u) + before @ motion.c[i])
    return Stack(stack.constraints, ops.hstack([motion.problem.X[i].rows_to_parent(before), l]), L)
