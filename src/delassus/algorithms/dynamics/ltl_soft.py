"""LTL-soft: soft constraints in joint space, by the inversion lemma.

``(M + Jᵀ R⁻¹ J) q̈ = τ − c + Jᵀ R⁻¹ γ`` is solved as ``f = (R + J M⁻¹ Jᵀ)⁻¹ (γ − J M⁻¹ (τ − c))`` and ``q̈ = M⁻¹ (τ −
c + Jᵀ f)``, with the sparse factorisation of ``M`` (see `joint_space`): what MuJoCo minimises, as [LQR] VI-A
describes it. Cost O(n d² + m d² + m² d + m³). No deviations.
"""

from __future__ import annotations

from delassus.algorithms.dynamics.joint_space import JointSpace
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.spatial.ops import Matrix


def softened(motion: DynamicsProblem, G: Matrix) -> Matrix:
    """``G + R``."""
    ops = motion.ops
    blocks = [motion.compliance(c) for c in range(len(motion.problem.constraints))]
    return ops.sym_add(G, ops.block_diagonal(blocks)) if blocks else G


def ltl_soft(motion: DynamicsProblem) -> Solution:
    """Accelerations and forces, every constraint being soft."""
    ops, space = motion.ops, JointSpace(motion)
    f = space.gamma
    if motion.problem.n_rows:
        f = ops.factor(softened(motion, space.G)).solve(space.missing)
    ops.mark("constraint forces", [f])
    return Solution(space.accelerations(f), f)
