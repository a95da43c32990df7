"""LTL-soft: soft constraints in joint space, ``(M + Jᵀ R⁻¹ J) q̈ = τ − c + Jᵀ R⁻¹ γ`` by sparse factorisation.

What the soft Gauss principle of `pv_soft` asks for, written in joint accelerations (MuJoCo's form of it, [LQR] IX-C),
with Featherstone's ``M + Jᵀ R⁻¹ J = Lᵀ L``. A constraint to the world has columns at its support only, and of any two
links there one is above the other: ``L`` fills in nowhere. A loop also couples its two branches; what that fills in is
found before (see `SparseFactor`). Forces are ``f = R⁻¹ (γ − J q̈)``. Cost O(n d² + m d²), loops apart.

Source: [LQR] VI and IX-C, which has no formulas for LTL-s; Table II and Fig. 3 say which form it is: it costs far less
than LTL, which has to make ``G``, and its accelerations leave the hard ones for weights ``1 / R`` above about 1e8. The
condition of ``M + Jᵀ R⁻¹ J`` grows with the weight: errors of ``q̈`` are round-off times ``‖M⁻¹ Jᵀ R⁻¹ J‖``. For
stiffer constraints there is `proximal`, which takes ``R`` as it is, down to zero.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.algorithms.dynamics.constraint_acceleration import wanted_accelerations
from delassus.algorithms.dynamics.solution import DynamicsSolution
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import Columns, jacobian_columns
from delassus.algorithms.rnea import applied_forces
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.spatial.motion import column, diagonal
from delassus.spatial.ops import Matrix


def ltl_soft(motion: DynamicsProblem) -> DynamicsSolution:
    """Accelerations and forces, every constraint being soft."""
    ops, slices = motion.ops, motion.tree.v_slices
    wanted, force = wanted_accelerations(motion), applied_forces(motion)
    gamma = [ops.take(wanted, range(rows.start, rows.stop), None) for rows in motion.problem.rows]
    J, weights = motion.problem.once(jacobian_columns), _weights(motion)
    L = SparseFactor(motion.problem, _added(motion, J, weights))

    b = [ops.take(force, range(sv.start, sv.stop), None) for sv in slices]
    for columns, W, g in zip(J, weights, gamma, strict=True):
        asked = W @ g
        for i, block in columns.items():
            b[i] = b[i] + ops.transpose(block) @ asked
    qdd = L.solve(L.solve_transpose(motion.stacked(b)))
    ops.mark("accelerations", qdd)

    f = []
    for columns, W, missing in zip(J, weights, gamma, strict=True):
        for i, block in columns.items():
            missing = missing - block @ ops.vstack(qdd[slices[i]])
        f.append(W @ missing)
    ops.mark("constraint forces", f)
    return DynamicsSolution(motion.stacked(qdd), motion.stacked(f))


def _weights(motion: DynamicsProblem) -> list[Matrix]:
    """``R⁻¹`` of each constraint, diagonal."""
    ops, out = motion.ops, []
    for goal in motion.goals:
        assert goal.compliance is not None, "every constraint is soft"
        out.append(diagonal(ops, [1.0 / r for r in column(ops, goal.compliance)]))
    return out


def _added(motion: DynamicsProblem, J: Sequence[Columns], weights: Sequence[Matrix]) -> dict[tuple[int, int], Matrix]:
    """Blocks of ``Jᵀ R⁻¹ J`` at links i ≥ j."""
    ops = motion.ops
    out: dict[tuple[int, int], Matrix] = {}
    for columns, W in zip(J, weights, strict=True):
        for i, block in columns.items():
            weighed = ops.transpose(block) @ W
            for j, other in columns.items():
                if j < i:
                    product = weighed @ other
                    out[i, j] = out[i, j] + product if (i, j) in out else product
            own = ops.sym_product(weighed, block)
            out[i, i] = ops.sym_add(out[i, i], own) if (i, i) in out else own
    ops.mark("Jᵀ R⁻¹ J", [*out.values()])
    return out
