"""NMC, non-minimal coordinates: [OS] section 3. Unknowns ``V⁺, p_b, β̲, σ``; size 6n + n_b + n_u(n_f + 2); O(n).

``A = [M, −G_bᵀ; G_b, 0]``, ``B = [−G_uᵀ; 0]``, ``C = [G_u, 0]``, ``W = 0`` (eq. 27, whose upper right Ē is an Ê). The
matrix is built as triplets, each a constant number of times for a link, a loop or a contact.

Deviations: those of `bodies`; and rotors that are felt at joints (armature ``a``) add ``Tᵀ a T`` to the block-diagonal
``M``, where ``T V = v`` are joint velocities, so that their energy ``½ a v²`` is that of the minimal coordinates.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from delassus.contact.formulations import links
from delassus.contact.formulations.bodies import hinges_first, joint_velocities, smooth_impulses
from delassus.contact.formulations.formulation import Formulation
from delassus.contact.formulations.setting import Setting
from delassus.model.rotations import Array

Triplets = tuple[NDArray[np.int64], NDArray[np.int64], Array]
"""Rows, columns and entries of a sparse matrix; those at the same place add up."""


class NonMinimalCoordinates(Formulation):
    """Equations of motion of all links and all constraints, unreduced."""

    name = "nmc"

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.ends, self.n_hinges = hinges_first(setting, rotors=False)
        self.n_velocities = 6 * setting.n_links
        self.n_bilateral = self.ends.n_loops
        self.M = _mass_triplets(setting)
        self.G = _row_triplets(self.ends.links, self.ends.sizes, self.ends.rows, self.ends.K)

    @property
    def free(self) -> Triplets:
        """Triplets of ``A``."""
        n, (row, column, value) = self.n_velocities, self.G
        bilateral = row < self.n_bilateral
        i, j, x = row[bilateral], column[bilateral], value[bilateral]
        M_row, M_column, M_value = self.M
        return (
            np.concatenate([M_row, j, n + i]),
            np.concatenate([M_column, n + i, j]),
            np.concatenate([M_value, -x, x]),
        )

    @property
    def contact(self) -> Triplets:
        """Triplets of ``C``; those of ``B`` are their opposites, transposed."""
        row, column, value = self.G
        unilateral = row >= self.n_bilateral
        return row[unilateral] - self.n_bilateral, column[unilateral], value[unilateral]

    @cached_property
    def A(self) -> Array:  # type: ignore[override]
        """Dense, (6n + n_b, 6n + n_b)."""
        return _dense(self.free, (self.n_free, self.n_free))

    @cached_property
    def C(self) -> Array:  # type: ignore[override]
        """Dense, (3 n_u, 6n + n_b)."""
        return _dense(self.contact, (3 * self.ends.n_contacts, self.n_free))

    @property
    def B(self) -> Array:  # type: ignore[override]
        """Dense, (6n + n_b, 3 n_u)."""
        return -self.C.T

    @property
    def W(self) -> Array:  # type: ignore[override]
        """Zero, (3 n_u, 3 n_u)."""
        m = 3 * self.ends.n_contacts
        return np.zeros((m, m))

    def vector(self, v: Array, dt: float, applied: Array) -> tuple[Array, Array]:
        """``a = −(M V⁻ + dt (C − M J̇ v) + G_uᵀ applied, U)``, ``b = 0``."""
        s, e = self.setting, self.ends
        h = smooth_impulses(s, dt) + np.einsum("iab,ib->ia", s.inertias, s.twists(v))
        links.add_joint_wrenches(s.parents, s.first_dof, s.axes, s.X, s.armature * (v + dt * s.turning), h)
        p = np.concatenate([np.zeros(e.n_loops), applied])
        links.wrenches_of_ends(e.links, e.sizes, e.rows, e.K, p, h)
        a = -np.concatenate([h.ravel(), np.zeros(self.n_hinges), s.loop_velocities])
        return a, -s.contact_velocities

    def recover(self, x: Array, F: Array, v: Array, dt: float) -> tuple[Array, Array]:
        """``V⁺`` and ``p_b`` are among the unknowns; hinges before loops."""
        V = x[: self.n_velocities].reshape(-1, 6)
        return joint_velocities(self.setting, V), x[self.n_velocities :]


def _row_triplets(of: NDArray[np.int64], sizes: NDArray[np.int64], first: NDArray[np.int64], K: Array) -> Triplets:
    """``[G_b; G_u]`` (n_b + 3 n_u, 6n) of stacks of rows ``K`` on links."""
    before = np.repeat(np.cumsum(sizes) - sizes, sizes)
    row = np.repeat(first, sizes) + np.arange(len(K)) - before
    column = 6 * np.repeat(of, sizes)[:, None] + np.arange(6)
    return np.repeat(row, 6), column.ravel(), K.ravel()


def _mass_triplets(setting: Setting) -> Triplets:
    """Spatial inertias on the diagonal, and ``Tᵀ a T`` of rotors between links and their parents."""
    s, six = setting, np.arange(6)
    place = 6 * np.arange(s.n_links)[:, None] + six
    turning = np.flatnonzero(s.armature)
    own = np.searchsorted(s.first_dof, turning, side="right") - 1
    T = np.zeros((turning.size, 12))
    T[np.arange(turning.size), s.axes[turning]] = 1.0
    T[:, 6:] = -s.X[own, s.axes[turning]]
    columns = np.concatenate([place[own], place[np.maximum(s.parents[own], 0)]], axis=1)  # T is zero on the world
    value = s.armature[turning, None, None] * T[:, :, None] * T[:, None, :]
    rows = [np.repeat(place, 6, axis=1).ravel(), np.repeat(columns, 12, axis=1).ravel()]
    return (
        np.concatenate(rows),
        np.concatenate([np.tile(place, (1, 6)).ravel(), np.tile(columns, (1, 12)).ravel()]),
        np.concatenate([s.inertias.ravel(), value.ravel()]),
    )


def _dense(triplets: Triplets, shape: tuple[int, int]) -> Array:
    row, column, value = triplets
    flat = np.bincount(row * shape[1] + column, weights=value, minlength=shape[0] * shape[1])
    return np.asarray(flat, dtype=float).reshape(shape)
