"""LTL: the constrained system in joint space, by Featherstone's sparse factorisation ``M = Lᵀ L``.

``G f = γ − Y z`` with ``Y = J L⁻¹``, ``z = L⁻ᵀ (τ − c)`` and ``G = Y Yᵀ``, then ``L q̈ = z + Yᵀ f``; all loops run over
supports only (see `joint_space`). Cost O(n d² + m d² + m² d + m³). Source: [LQR] eqs. 2–8; Featherstone 2005 and 2010.

Assumes independent rows; what to do about others is in `quantities.redundancy`. No deviations.
"""

from __future__ import annotations

from delassus.algorithms.dynamics.joint_space import JointSpace
from delassus.algorithms.dynamics.solution import Solution
from delassus.algorithms.dynamics.state import DynamicsProblem


def ltl(motion: DynamicsProblem) -> Solution:
    """Accelerations and constraint forces."""
    ops, space = motion.ops, JointSpace(motion)
    f = space.gamma
    if motion.problem.n_rows:
        f = ops.factor(motion.problem.relaxed(space.G)).solve(space.missing)
    ops.mark("constraint forces", [f])
    return Solution(space.accelerations(f), f, space.G)
