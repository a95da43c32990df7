"""NMC/OS, operational space of non-minimal coordinates: [OS] section 8.

Links are bodies of their own, and hinges are among the bilateral constraints. Unknowns ``p_b, β̲, σ`` with ``n_b`` the
``6n − N`` rows of hinges and those of loops; size n_b + n_u(n_f + 2).

``Λ = 𝒥 M⁻¹ 𝒥ᵀ`` with the constant, block-diagonal ``M``: only nodes on the same link have to do with one another. That
is the operational space of a forest whose links all hang on the world, and computed as such.

Deviations: those of `bodies`; and a rotor that is felt at a joint (armature ``a``) is a body of its own with one degree
of freedom, geared to the joint by one more bilateral row ``T V − r = 0``, so that ``M`` stays block-diagonal. Such rows
follow those of hinges.
"""

from __future__ import annotations

import numpy as np

from delassus.contact import propagate
from delassus.contact.formulations import links
from delassus.contact.formulations.bodies import hinges_first, inverse_inertias, joint_velocities, smooth_impulses
from delassus.contact.formulations.formulation import Formulation
from delassus.contact.formulations.setting import Setting
from delassus.model.rotations import Array
from delassus.model.tree import WORLD


class NonMinimalOperationalSpace(Formulation):
    """Impulses of hinges, loops and contacts; the velocities of links are eliminated body by body."""

    name = "nmc-os"
    n_velocities = 0

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.ends, self.n_hinges = hinges_first(setting, rotors=True)
        self.rotors = np.flatnonzero(setting.armature)
        e, n = self.ends, setting.n_links
        k = self.n_bilateral = e.n_loops
        self.inverse = inverse_inertias(setting.dynamics)
        alone, at_root = np.full(n, WORLD, np.int64), np.zeros(n, np.int64)
        self.Lambda = np.empty((e.n_rows, e.n_rows))
        propagate.delassus_of_ends(
            alone, at_root, self.inverse, self.inverse, e.links, e.sizes, e.rows, e.K, self.Lambda
        )
        geared = np.arange(self.n_hinges - self.rotors.size, self.n_hinges)
        self.Lambda[geared, geared] += 1.0 / setting.armature[self.rotors]
        self.A, self.B = self.Lambda[:k, :k], self.Lambda[:k, k:]
        self.C, self.W = self.Lambda[k:, :k], self.Lambda[k:, k:]

    def _after(self, wrenches: Array, v: Array) -> Array:
        """Twists (n, 6) of links that move with ``v`` at first, after impulses (n, 6)."""
        return np.asarray(self.setting.twists(v) + np.einsum("iab,ib->ia", self.inverse, wrenches))

    def vector(self, v: Array, dt: float, applied: Array) -> tuple[Array, Array]:
        """``(a, b) = G V_f + Λ (0, applied) − (rotors, U, belts)``."""
        s, e, k = self.setting, self.ends, self.n_bilateral
        u = np.empty(e.n_rows)
        V = self._after(smooth_impulses(s, dt), v)
        propagate.end_velocities(e.links, e.sizes, e.rows, e.K, V, u)
        u += self.Lambda[:, k:] @ applied
        u[self.n_hinges - self.rotors.size : self.n_hinges] -= (v + dt * s.turning)[self.rotors]
        return u[:k] - np.concatenate([np.zeros(self.n_hinges), s.loop_velocities]), u[k:] - s.contact_velocities

    def recover(self, x: Array, F: Array, v: Array, dt: float) -> tuple[Array, Array]:
        """``V⁺ = V⁻ + M⁻¹ (all impulses)``; ``p_b`` are the unknowns: hinges, rotors, loops."""
        s, e = self.setting, self.ends
        w = smooth_impulses(s, dt)
        links.wrenches_of_ends(e.links, e.sizes, e.rows, e.K, np.concatenate([x, F]), w)
        return joint_velocities(s, self._after(w, v)), x
