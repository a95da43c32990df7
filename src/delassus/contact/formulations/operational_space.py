"""OS, operational space: [OS] section 6. Unknowns ``p_b, β̲, σ``; size n_b + n_u(n_f + 2); O(N + n_c²).

``A, B, C, W`` are the blocks of ``Λ = 𝒥 𝓜⁻¹ 𝒥ᵀ`` at loops and contacts (eqs. 50 and 53). Neither ``𝓜`` nor ``𝒥`` is
formed: compliances of links come from two sweeps over the robot by a compiled kernel, and those of pairs of constraint
nodes from their closest common ancestors (appendix, eqs. 67 to 69).

``q = (J_b v_f − U, D̲ᵀ J_u v_f)`` with ``v_f = θ̇⁻ + Δ_t θ̈_f``, the velocity without loops and contacts; then
``θ̇⁺ = v_f + 𝓜⁻¹ 𝒥ᵀ (p_b, F)``, again by two sweeps.
"""

from __future__ import annotations

import numpy as np

from delassus.contact.formulations.formulation import Formulation
from delassus.contact.formulations.setting import Setting
from delassus.model.rotations import Array


class OperationalSpace(Formulation):
    """Impulses of loops and contacts; velocities are eliminated by operational-space algorithms."""

    name = "os"
    n_velocities = 0

    def __init__(self, setting: Setting) -> None:
        self.setting, k = setting, setting.n_loops
        self.n_bilateral = k
        self.Lambda = setting.snapshot.delassus(setting.ends)
        self.A, self.B = self.Lambda[:k, :k], self.Lambda[:k, k:]
        self.C, self.W = self.Lambda[k:, :k], self.Lambda[k:, k:]

    def _free(self, v: Array, dt: float) -> Array:
        """``v_f`` (nv,)."""
        return v + dt * self.setting.snapshot.qdd

    def vector(self, v: Array, dt: float, applied: Array) -> tuple[Array, Array]:
        """``(a, b) = J v_f + Λ (0, applied) − (U, belts)``."""
        s, k = self.setting, self.n_bilateral
        u = s.snapshot.velocities(s.ends, self._free(v, dt)) + self.Lambda[:, k:] @ applied
        return u[:k] - s.loop_velocities, u[k:] - s.contact_velocities

    def recover(self, x: Array, F: Array, v: Array, dt: float) -> tuple[Array, Array]:
        """``θ̇⁺ = v_f + 𝓜⁻¹ 𝒥ᵀ (p_b, F)`` by the articulated-body algorithm; ``p_b`` are the unknowns."""
        s = self.setting
        return self._free(v, dt) + s.snapshot.response(s.ends, np.concatenate([x, F])), x
