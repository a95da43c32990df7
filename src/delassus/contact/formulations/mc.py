"""MC, minimal coordinates: [OS] section 4. Unknowns ``θ̇⁺, p_b, β̲, σ``; size N + n_b + n_u(n_f + 2); O(N²).

``A = [𝓜, −G_bᵀ; G_b, 0]``, ``B = [−G_uᵀ; 0]``, ``C = [G_u, 0]``, ``W = 0`` (eq. 36, whose ``q`` wants ``Δ_t`` for
both forces). The mass matrix is by the composite rigid-body algorithm, the Jacobians are dense. Joint velocities are
those of the library, also where they are no rates of coordinates (body-frame twists of free joints).
"""

from __future__ import annotations

import numpy as np

from delassus.contact.formulations.formulation import Formulation
from delassus.contact.snapshot import ConstraintRows, Snapshot
from delassus.spatial.rotations import Array


class MinimalCoordinates(Formulation):
    """Equations of motion in joint coordinates, and the constraints of loops and contacts."""

    name = "mc"

    def __init__(self, rows: ConstraintRows) -> None:
        super().__init__(rows)
        k, M, J = rows.n_loops, rows.snapshot.mass_matrix, rows.jacobian
        N, m = len(M), len(J) - k
        G_b, self.G_u = J[:k], J[k:]
        self.n_velocities, self.n_bilateral = N, k
        self.A = np.zeros((N + k, N + k))
        self.A[:N, :N], self.A[:N, N:], self.A[N:, :N] = M, -G_b.T, G_b
        self.C = np.zeros((m, N + k))
        self.C[:, :N] = self.G_u
        self.B, self.W = -self.C.T, np.zeros((m, m))

    def vector(self, motion: Snapshot, dt: float, applied: Array) -> tuple[Array, Array]:
        """``a = −(𝓜 θ̇⁻ + Δ_t (𝒯 − 𝒞) + G_uᵀ applied, U)``, ``b = 0``."""
        momentum = motion.momentum(dt) + self.G_u.T @ applied
        return -np.concatenate([momentum, self.rows.loop_velocities]), -self.rows.contact_velocities

    def recover(self, x: Array, F: Array, motion: Snapshot, dt: float) -> tuple[Array, Array]:
        """``θ̇⁺`` and ``p_b`` are the unknowns."""
        return x[: self.n_velocities], x[self.n_velocities :]
