"""Limits and Coulomb friction of joints as contacts of one degree of freedom.

Of the three rows of a contact, a limit has the normal one alone, the joint's velocity away from it, and no friction.
Friction of a joint has the first tangential row alone, and a bound of its own in place of ``μ F_n``. The other rows are
zeros. So both are in the problem of contacts, in every formulation and by every solver.

A limit at the distance φ lets the joint move up to it within the step, ``0 ≤ p ⊥ v⁺ + φ / dt ≥ 0``: it is not passed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.spatial.rotations import Array

Indices = NDArray[np.int64]

STEPS_AHEAD = 2.0
"""How many times the way of the motion without impulses is looked ahead for limits."""


class JointContacts(NamedTuple):
    """Limits that may be reached, then friction: one a degree of freedom.

    Attributes
    ----------
    dofs, signs : (n,) arrays of int
        Degree of freedom; 1 where its velocity counts upwards, −1 at upper limits.
    distances : (n_limits,) array
        ``φ`` (rad, m), negative where the limit is passed.
    forces : (n,) array
        Coulomb friction (N m, N); 0 for limits.
    dt : float
        Time step (s).
    """

    dofs: Indices
    signs: Indices
    distances: Array
    forces: Array
    dt: float

    @property
    def n_limits(self) -> int:
        """Number of limits, which come first."""
        return self.distances.size

    @property
    def velocities(self) -> Array:
        """Velocities (n_limits,) that limits allow (rad/s, m/s)."""
        return -np.maximum(self.distances, 0.0) / self.dt

    @property
    def limits(self) -> JointContacts:
        """Limits alone."""
        n = self.n_limits
        return JointContacts(self.dofs[:n], self.signs[:n], self.distances, self.forces[:n], self.dt)

    def with_limits(self, taken: NDArray[np.bool_]) -> JointContacts:
        """Some of the limits, and all friction."""
        kept = np.concatenate([np.flatnonzero(taken), np.arange(self.n_limits, self.dofs.size)])
        return JointContacts(self.dofs[kept], self.signs[kept], self.distances[taken], self.forces[kept], self.dt)

    @property
    def rows(self) -> Indices:
        """The row of each that is not zero, among three for each."""
        n = self.dofs.size
        return 3 * np.arange(n) + 2 * (1 - self._kinds)

    def impulses(self, p: Array, nv: int) -> Array:
        """Impulses (2, nv) of limits and of friction on degrees of freedom, from ``p`` (n, 3)."""
        out = np.zeros((2, nv))
        np.add.at(out, (self._kinds, self.dofs), self.signs * p.ravel()[self.rows])
        return out

    def start(self, impulses: Array) -> Array:
        """``p`` (3 n,) from impulses (2, nv) on degrees of freedom, where a solver may start."""
        p = np.zeros(3 * self.dofs.size)
        p[self.rows] = self.signs * impulses[self._kinds, self.dofs]
        p[2::3] = np.maximum(p[2::3], 0.0)
        return p

    @property
    def _kinds(self) -> Indices:
        """0 for limits, 1 for friction."""
        return (np.arange(self.dofs.size) >= self.n_limits).astype(np.int64)


NO_JOINTS = JointContacts(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0), 1.0)
