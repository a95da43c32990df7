"""PV-soft: soft constraints in O(n + m), an articulated-body algorithm with other inertias and forces.

Minimises ``Σ_i ½ (a_i − H_i⁻¹ f_i)ᵀ H_i (a_i − H_i⁻¹ f_i) + Σ_c ½ (Σ K a − k)ᵀ R⁻¹ (Σ K a − k)`` ([LQR] eq. 50,
MuJoCo's soft Gauss principle). A constraint to the world is absorbed by its link (eq. 52); its force is
``R⁻¹ (k − K a)``. Source: [LQR] section VI.

Deviations: ``p`` is minus the paper's ``f``, whose update is ``Kᵀ R⁻¹ k`` (a misprint there). Constraints that have not
one end on a link (loops, rows on joints) couple links: with these, the method is `pv_early`.
"""

from __future__ import annotations

from delassus.algorithms.articulated import Articulated
from delassus.algorithms.dynamics.aba import driving_forces, forward_pass
from delassus.algorithms.dynamics.constraint_acceleration import right_hand_sides
from delassus.algorithms.dynamics.popov_vereshchagin.pv_early import pv_early
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import DynamicsProblem


def pv_soft(motion: DynamicsProblem) -> DynamicsSolution:
    """Accelerations and forces, every constraint being soft."""
    ops, problem, constraints = motion.ops, motion.problem, range(len(motion.problem.constraints))
    ends = {end.constraint: end for end in problem.end_effectors}
    if len(ends) < max(len(problem.end_effectors), len(problem.constraints)):
        return pv_early(motion)
    R = [ops.factor(motion.compliance(c)) for c in constraints]
    k = right_hand_sides(motion)

    # links: H += Kᵀ R⁻¹ K, p −= Kᵀ R⁻¹ k (eq. 52)
    H, p = list(problem.inertias), list(motion.p)
    for c, end in ends.items():
        i, Kt = end.link, ops.transpose(end.K)
        H[i] = ops.sym_add(H[i], R[c].quadratic(Kt))
        p[i] = p[i] - Kt @ R[c].solve(k[c])

    # the articulated-body algorithm
    body = Articulated(problem, H)
    qdd, a = forward_pass(motion, body, driving_forces(motion, body, p))

    # forces: R⁻¹ (k − K a)
    f = [R[c].solve(k[c] - ends[c].K @ a[ends[c].link]) for c in constraints]
    return DynamicsSolution(motion.stacked(qdd), motion.stacked(f))
