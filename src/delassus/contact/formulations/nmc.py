"""NMC, non-minimal coordinates: [OS] section 3. Unknowns ``V⁺, p_b, β̲, σ``; size 6n + n_b + n_u(n_f + 2); O(n).

``A = [M, −G_bᵀ; G_b, 0]``, ``B = [−G_uᵀ; 0]``, ``C = [G_u, 0]``, ``W = 0`` (eq. 27, whose upper right Ē is an Ê). ``A``
is built as triplets, each a constant number of times for a link, a loop or a contact.

Deviations: those of `bodies`; and rotors that are felt at joints (armature ``a``) add ``Tᵀ a T`` to the block-diagonal
``M``, where ``T V = v`` are joint velocities, so that their energy ``½ a v²`` is that of the minimal coordinates.
"""

from __future__ import annotations

import numpy as np

from delassus.contact.formulations.bodies import AugmentedFormulation
from delassus.contact.snapshot import ConstraintRows, Indices, Snapshot
from delassus.frozen import cached_property
from delassus.spatial.rotations import Array


class NonMinimalCoordinates(AugmentedFormulation):
    """Equations of motion of all links and all constraints, unreduced."""

    name = "nmc"

    def __init__(self, rows: ConstraintRows) -> None:
        super().__init__(rows, geared=False)
        n, m = 6 * self.n_links, self.n_rows - self.n_bilateral
        self.n_velocities = n
        M_row, M_column, M_value = self._mass_triplets()
        link, row = self.end_effectors.placed
        i, j, x = np.repeat(row, 6), (6 * link[:, None] + np.arange(6)).ravel(), self.end_effectors.K.ravel()
        b = i < self.n_bilateral
        self.triplets = (
            np.concatenate([M_row, j[b], n + i[b]]),
            np.concatenate([M_column, n + i[b], j[b]]),
            np.concatenate([M_value, -x[b], x[b]]),
        )
        self.C = _dense((i[~b] - self.n_bilateral, j[~b], x[~b]), (m, self.n_free))
        self.B, self.W = -self.C.T, np.zeros((m, m))

    def _mass_triplets(self) -> tuple[Indices, Indices, Array]:
        """Spatial inertias on the diagonal, and ``Tᵀ a T`` of rotors between links and their parents."""
        d, six = self.dynamics, np.arange(6)
        place = 6 * np.arange(self.n_links)[:, None] + six
        rotors = np.flatnonzero(d.armature)
        own = self.owner[rotors]
        T = np.concatenate([np.eye(6)[d.axes[rotors]], self.S_parent[rotors]], axis=1)
        columns = np.concatenate([place[own], place[np.maximum(d.parents[own], 0)]], axis=1)  # T is zero on the world
        value = d.armature[rotors, None, None] * T[:, :, None] * T[:, None, :]
        return (
            np.concatenate([np.repeat(place, 6, axis=1).ravel(), np.repeat(columns, 12, axis=1).ravel()]),
            np.concatenate([np.tile(place, (1, 6)).ravel(), np.tile(columns, (1, 12)).ravel()]),
            np.concatenate([d.tree.inertias.ravel(), value.ravel()]),
        )

    @cached_property
    def A(self) -> Array:
        """Dense, (6n + n_b, 6n + n_b)."""
        assert self.triplets is not None
        return _dense(self.triplets, (self.n_free, self.n_free))

    def vector(self, motion: Snapshot, dt: float, applied: Array) -> tuple[Array, Array]:
        """``a = −(M V⁻ + dt (C − M J̇ v) + G_uᵀ applied, U)``, ``b = 0``."""
        rows, e, d = self.rows, self.end_effectors, self.dynamics
        h = self.smooth_impulses(motion, dt) + np.einsum("iab,ib->ia", d.tree.inertias, motion.twists)
        h += e.wrenches(np.concatenate([np.zeros(self.n_bilateral), applied]), self.n_links)
        self.add_joint_impulses(h, d.armature * motion.rotor_velocities(dt))
        known = np.concatenate([h.ravel(), np.zeros(self.n_hinges), rows.loop_velocities])
        return -known, -rows.contact_velocities

    def recover(self, x: Array, F: Array, motion: Snapshot, dt: float) -> tuple[Array, Array]:
        """Joint velocities from twists; ``p_b`` are the unknowns: hinges, loops."""
        V = x[: self.n_velocities].reshape(-1, 6)
        return self.joint_velocities(V), x[self.n_velocities :]


def _dense(triplets: tuple[Indices, Indices, Array], shape: tuple[int, int]) -> Array:
    row, column, value = triplets
    flat = np.bincount(row * shape[1] + column, weights=value, minlength=shape[0] * shape[1])
    return np.asarray(flat, dtype=float).reshape(shape)
