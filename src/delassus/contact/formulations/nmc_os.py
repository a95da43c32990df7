"""NMC/OS, operational space of non-minimal coordinates: [OS] section 8.

Links are bodies of their own, and hinges are among the bilateral constraints. Unknowns ``p_b, β̲, σ`` with ``n_b`` the
``6n − N`` rows of hinges and those of loops; size n_b + n_u(n_f + 2).

``Λ = 𝒥 M⁻¹ 𝒥ᵀ`` with the constant, block-diagonal ``M``: only nodes on the same link have to do with one another. That
is the operational space of links that all hang on the world, and computed as such.

Deviations: those of `bodies`; and a rotor that is felt at a joint (armature ``a``) is a body of its own with one degree
of freedom, geared to the joint by one more bilateral row ``T V − r = 0``, so that ``M`` stays block-diagonal. Such rows
follow those of hinges.
"""

from __future__ import annotations

import numpy as np

from delassus.contact import assembly
from delassus.contact.formulations.bodies import AugmentedFormulation, inverse_inertias
from delassus.contact.snapshot import ConstraintRows, Snapshot
from delassus.model.tree import WORLD
from delassus.spatial.rotations import Array


class NonMinimalOperationalSpace(AugmentedFormulation):
    """Impulses of hinges, loops and contacts; the velocities of links are eliminated body by body."""

    name = "nmc-os"

    def __init__(self, rows: ConstraintRows) -> None:
        super().__init__(rows, geared=True)
        self.inverse, armature = inverse_inertias(self.dynamics), self.dynamics.armature
        self.rotors = np.flatnonzero(armature)
        self.rotor_rows = slice(self.n_hinges - self.rotors.size, self.n_hinges)
        alone, at_root = np.full(self.n_links, WORLD), np.zeros(self.n_links, np.int64)
        self.Lambda = np.empty((self.n_rows, self.n_rows))
        assembly.delassus(alone, at_root, self.inverse, self.inverse, self.end_effectors, self.Lambda)
        at = np.arange(self.n_hinges)[self.rotor_rows]
        self.Lambda[at, at] += 1.0 / armature[self.rotors]
        self._divide(self.Lambda)

    def _after(self, impulses: Array, motion: Snapshot) -> Array:
        """Twists (n, 6) of links after impulses (n, 6)."""
        return np.asarray(motion.twists + np.einsum("iab,ib->ia", self.inverse, impulses))

    def vector(self, motion: Snapshot, dt: float, applied: Array) -> tuple[Array, Array]:
        """``(a, b) = G V_f + Λ (0, applied) − (rotors, U, belts)``."""
        rows, k = self.rows, self.n_bilateral
        u = self.end_effectors.velocities(self._after(self.smooth_impulses(motion, dt), motion), self.n_rows)
        u += self.Lambda[:, k:] @ applied
        u[self.rotor_rows] -= motion.rotor_velocities(dt)[self.rotors]
        u[self.n_hinges : k] -= rows.loop_velocities
        return u[:k], u[k:] - rows.contact_velocities

    def recover(self, x: Array, F: Array, motion: Snapshot, dt: float) -> tuple[Array, Array]:
        """``V⁺ = V⁻ + M⁻¹ (all impulses)``; ``p_b`` are the unknowns: hinges, rotors, loops."""
        w = self.smooth_impulses(motion, dt) + self.end_effectors.wrenches(np.concatenate([x, F]), self.n_links)
        return self.joint_velocities(self._after(w, motion)), x
