"""RMC, reduced minimal coordinates: [OS] section 5. Unknowns ``β̲, σ``; size n_u(n_f + 2); O(N³).

No free unknowns: ``W = G_u Y G_uᵀ``, ``b = G_u X`` (eq. 41), with eq. 39

    ``Y = 𝓜⁻¹ − 𝓜⁻¹ G_bᵀ (G_b 𝓜⁻¹ G_bᵀ)⁻¹ G_b 𝓜⁻¹``,    ``X = Y (𝓜 θ̇⁻ + Δ_t (𝒯 − 𝒞)) + 𝓜⁻¹ G_bᵀ (G_b 𝓜⁻¹ G_bᵀ)⁻¹ U``.

``𝓜⁻¹`` is computed densely, as the paper does. Deviations: velocities of loops are prescribed, not their change, so
that ``X`` holds ``Y 𝓜 θ̇⁻`` in place of ``θ̇⁻``; and redundant loops are allowed, with a pseudo-inverse.
"""

from __future__ import annotations

import numpy as np

from delassus.contact.formulations.formulation import Formulation
from delassus.contact.snapshot import ConstraintRows, Snapshot
from delassus.solvers.mixed import eliminated
from delassus.spatial.rotations import Array


class ReducedMinimalCoordinates(Formulation):
    """Contact impulses alone: velocities and loops are eliminated beforehand."""

    name = "rmc"

    def __init__(self, rows: ConstraintRows) -> None:
        super().__init__(rows)
        k, J = rows.n_loops, rows.jacobian
        G_b, self.G_u = J[:k], J[k:]
        M_inverse = np.linalg.inv(rows.snapshot.mass_matrix)
        P = M_inverse @ G_b.T
        right = np.column_stack([P.T, rows.loop_velocities])
        solution, _, self.consistent = eliminated(G_b @ P, right)
        self.to_loops, self.impulses = solution[:, :-1], solution[:, -1]  # (G_b 𝓜⁻¹ G_bᵀ)⁻¹ times G_b 𝓜⁻¹ and U
        self.Y = M_inverse - P @ self.to_loops
        self.from_loops = P @ self.impulses
        W = self.G_u @ self.Y @ self.G_u.T
        if k:
            self.mobility = np.einsum("ij,jk,ik->i", self.G_u, M_inverse, self.G_u)
        m = len(W)
        self.A, self.B, self.C, self.W = np.zeros((0, 0)), np.zeros((0, m)), np.zeros((m, 0)), 0.5 * (W + W.T)

    def vector(self, motion: Snapshot, dt: float, applied: Array) -> tuple[Array, Array]:
        """``b = G_u X``; applied impulses go where known ones are."""
        momentum = motion.momentum(dt) + self.G_u.T @ applied
        b = self.G_u @ (self.Y @ momentum + self.from_loops) - self.rows.contact_velocities
        return np.zeros(0), b

    def recover(self, x: Array, F: Array, motion: Snapshot, dt: float) -> tuple[Array, Array]:
        """``θ̇⁺ = Y (… + G_uᵀ F) + …`` (eq. 38); ``p_b`` by eq. 37b."""
        momentum = motion.momentum(dt) + self.G_u.T @ F
        return self.Y @ momentum + self.from_loops, self.impulses - self.to_loops @ momentum
