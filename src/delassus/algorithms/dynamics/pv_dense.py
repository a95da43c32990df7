"""PV with the multipliers last: the floating base is one more joint of the sweep, and ``G`` is formed and factorised.

Leaves → root: stacks ``[K l]`` and ``L`` with ``L f + K a = l``, ``f`` the constraint forces and ``a`` the acceleration
of the link: ``L ← L + K S D⁻¹ Sᵀ Kᵀ``, ``l ← l − K S D⁻¹ u − K' c``, ``K ← K' X`` with ``K' = K − K S D⁻¹ Uᵀ``. At the
world ``K`` has met the known acceleration there and ``G f = l`` is left. Root → leaves: the roll-out of `aba`, joints
being driven by ``u + (K S)ᵀ f``. Cost O(n + m² d + m³). Source: [LQR] eqs. 42, 43, 47.

Deviations: ``l`` is minus the paper's and ``f`` minus its ``λ``. The two ends of a loop are two ends, as in `osim.pv`:
their rows add where they meet.

Divides by nothing that is singular while ``G`` is regular: what `pv` and `pv_early` leave to others is solved by this.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.dynamics.aba import driving_forces, roll_out
from delassus.algorithms.dynamics.constraint_acceleration import right_hand_sides
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.osim.pv import Stack, merge, ordered
from delassus.algorithms.problem import End
from delassus.model.tree import WORLD
from delassus.spatial.ops import Matrix

SPATIAL, BIAS = range(6), (6,)
"""Columns of a stack ``[K l]``."""


def starting_stacks(motion: DynamicsProblem, ends: Sequence[End], k: Sequence[Matrix]) -> dict[int, list[Stack]]:
    """Stacks ``[K l]`` of ends, by link; ``k`` goes with the first end of a constraint."""
    ops = motion.ops
    out: dict[int, list[Stack]] = {i: [] for i in (WORLD, *range(motion.tree.n_links))}
    started = set()
    for end in ends:
        c, m = end.constraint, ops.shape(end.K)[0]
        l = ops.zeros(m, 1) if c in started else k[c]
        started.add(c)
        out[end.link].append(Stack((c,), ops.hstack([end.K, l]), ops.zeros(m, m)))
    for c, l in enumerate(k):
        if c not in started:  # both frames on the world
            m = ops.shape(l)[0]
            out[WORLD].append(Stack((c,), ops.hstack([ops.zeros(m, 6), l]), ops.zeros(m, m)))
    return out


class RowSweep:
    """Leaves → root: articulated inertias and bias forces, and constraint rows as far as asked for.

    Attributes
    ----------
    body : Articulated
    u : list of (n_i, 1) matrices
        What is left of each joint's force to accelerate it.
    arriving : dict of int to list of Stack
        By link, those that its children have handed on, and its own.
    at : dict of int to Stack
        By link, those that its joint has moved.
    """

    def __init__(self, motion: DynamicsProblem) -> None:
        self._motion = motion
        self.body = Articulated(motion.problem)
        self.u = driving_forces(motion, self.body)
        self.arriving = starting_stacks(motion, motion.problem.ends, right_hand_sides(motion))
        self.at: dict[int, Stack] = {}

    def through_joint(self, i: int) -> None:
        """Hand the rows of link i on to its parent."""
        motion, ops, problem = self._motion, self._motion.ops, self._motion.problem
        if not self.arriving[i]:
            return
        self.at[i] = stack = merge(problem, self.arriving[i])
        K, l = ops.take(stack.K, None, SPATIAL), ops.take(stack.K, None, BIAS)
        L = ops.sym_add(stack.L, self.body.joint_quadratic(i, K))
        if motion.tree.parents[i] == WORLD:
            _, reached = self.body.through_joint(i, self.u[i], motion.to_link(i, []))
            R = ops.hstack([ops.zeros(*ops.shape(K)), l - K @ reached])
        else:
            before = self.body.rows_before_joint(i, K)
            l = l - (self.body.joint_columns(i, K) @ self.body.D[i].solve(self.u[i]) + before @ motion.c[i])
            R = ops.hstack([problem.X[i].rows_to_parent(before), l])
        self.arriving[motion.tree.parents[i]].append(Stack(stack.constraints, R, L))

    def accelerations(self, f: Matrix, base: Matrix | None = None) -> Matrix:
        """Root → leaves: ``q̈`` (nv × 1) under the constraint forces ``f``; ``base`` as in `roll_out`."""
        motion, ops, problem = self._motion, self._motion.ops, self._motion.problem
        u = list(self.u)
        for i, stack in self.at.items():
            rows = [r for c in stack.constraints for r in range(problem.n_rows)[problem.rows[c]]]
            KS = self.body.joint_columns(i, stack.K)
            u[i] = u[i] + ops.transpose(KS) @ ops.take(f, rows, None)
        return motion.stacked(roll_out(motion, self.body, u, base))


def pv_dense(motion: DynamicsProblem) -> Solution:
    """Accelerations and constraint forces."""
    sweep = RowSweep(motion)
    for i in motion.tree.leaves_to_root():
        sweep.through_joint(i)
    return forces_at_world(motion, sweep)


def forces_at_world(motion: DynamicsProblem, sweep: RowSweep) -> Solution:
    """Solve ``G f = l`` once the rows of all constraints have arrived at the world, and roll out."""
    ops, problem = motion.ops, motion.problem
    ops.mark("constraint rows", [part for s in sweep.at.values() for part in (s.K, s.L)])
    f, G = ops.zeros(0, 1), ops.zeros(0, 0)
    if problem.constraints:
        whole = ordered(problem, sweep.arriving[WORLD])
        G = whole.L
        f = ops.factor(problem.relaxed(G)).solve(ops.take(whole.K, None, BIAS))
    ops.mark("constraint forces", [f])
    return Solution(sweep.accelerations(f), f, G)
