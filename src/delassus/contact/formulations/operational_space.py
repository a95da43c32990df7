"""OS, operational space: [OS] section 6. Unknowns ``p_b, β̲, σ``; size n_b + n_u(n_f + 2); O(N + n_c²).

``A, B, C, W`` are the blocks of ``Λ = 𝒥 𝓜⁻¹ 𝒥ᵀ`` at loops and contacts (eqs. 50 and 53), computed without ``𝓜`` and
``𝒥``: compliances of links come from two sweeps over the robot by a compiled kernel, and those of pairs of constraint
nodes from their closest common ancestors (appendix, eqs. 67 to 69).

``q = (J_b v_f − U, D̲ᵀ J_u v_f)`` with ``v_f = θ̇⁻ + Δ_t θ̈_f``, the velocity without loops and contacts; then
``θ̇⁺ = v_f + 𝓜⁻¹ 𝒥ᵀ (p_b, F)``, by the articulated-body algorithm.
"""

from __future__ import annotations

import numpy as np

from delassus.contact.formulations.formulation import Formulation
from delassus.contact.snapshot import ConstraintRows, Snapshot
from delassus.spatial.rotations import Array


class OperationalSpace(Formulation):
    """Impulses of loops and contacts; velocities are eliminated by operational-space algorithms."""

    name = "os"

    def __init__(self, rows: ConstraintRows) -> None:
        super().__init__(rows)
        self.n_bilateral, self.Lambda = rows.n_loops, rows.delassus
        self._divide(self.Lambda)

    def vector(self, motion: Snapshot, dt: float, applied: Array) -> tuple[Array, Array]:
        """``(a, b) = J v_f + Λ (0, applied) − (U, belts)``."""
        rows, k = self.rows, self.n_bilateral
        u = rows.jacobian @ (motion.v + dt * motion.qdd) + self.Lambda[:, k:] @ applied
        return u[:k] - rows.loop_velocities, u[k:] - rows.contact_velocities

    def recover(self, x: Array, F: Array, motion: Snapshot, dt: float) -> tuple[Array, Array]:
        """``θ̇⁺ = v_f + 𝓜⁻¹ 𝒥ᵀ (p_b, F)``; ``p_b`` are the unknowns."""
        return motion.v + dt * motion.qdd + self.rows.response(np.concatenate([x, F])), x
