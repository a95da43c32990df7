"""Every link on its own: the fully augmented model of [OS] section 3, whose hinges are bilateral constraints.

Unknown velocities are the twists ``V`` (6n) of links in their body frames. Deviations from the paper, which takes
coordinates of absolute positions and attitudes: links are where joints put them, as positions are integrated in joint
coordinates, so that hinges do not gape and need no stabilisation; and as body frames rotate, the rate of ``V = J v`` at
given accelerations holds the velocity products ``J̇ v``, which go to the known wrenches:

    ``M V⁺ − G_bᵀ p_b − G_uᵀ D̲ β̲ = M V⁻ + dt (C − M J̇ v)``.

``Jᵀ`` times that is eq. 33 of the minimal coordinates, as ``G_b J = 0`` for the rows of hinges. Forces on joints are
wrenches ``S_i τ_i`` on links and their opposites on parents.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from delassus.contact.assembly import EndEffectors
from delassus.contact.formulations.formulation import Formulation
from delassus.contact.snapshot import ConstraintRows, ContactDynamics, Indices, Snapshot
from delassus.errors import ModelError
from delassus.spatial.rotations import Array

REGULAR = 1e-14
"""Least singular value over the largest one of the inertia of a rigid body, in units in which its size is one."""


class AugmentedFormulation(Formulation):
    """Formulation whose links are bodies of their own; bilateral rows are those of hinges, then of loops.

    Attributes
    ----------
    end_effectors : EndEffectors
        Rows of hinges, loops and contacts on the twists of links.
    n_hinges : int
        Number of rows of hinges, ``N_i (V_i − X_i V_{p(i)})`` with ``N_i`` the unit vectors across ``S_i``; with
        ``geared`` rotors, those of degrees of freedom with armature, ``S_iᵀ (V_i − X_i V_{p(i)})``, follow and count.
    """

    has_hinges = True

    def __init__(self, rows: ConstraintRows, *, geared: bool) -> None:
        super().__init__(rows)
        d, e = rows.snapshot.dynamics, rows.end_effectors
        self.dynamics, self.n_links = d, d.parents.size
        self.X, self.owner = rows.snapshot.transforms, d.owner
        self.S_parent = -self.X[self.owner, d.axes]  # row of S_iᵀ (V_i − X_i V_p) on the parent; that on the link is 1
        links, sizes, first, row_links, row_axes = _hinges(d, geared)
        self.n_hinges = len(row_links)
        own, on_parents = np.eye(6)[row_axes], -self.X[row_links, row_axes]
        for k in np.flatnonzero(d.pitches):  # a screw's way along its axis is its pitch times its angle
            at = (row_links == self.owner[k]) & (row_axes == d.axes[k] - 3)
            own[at] -= d.pitches[k] * np.eye(6)[d.axes[k]]
            on_parents[at] += d.pitches[k] * self.X[self.owner[k], d.axes[k]]
        carried, across = d.parents[links] >= 0, d.parents[row_links] >= 0
        self.end_effectors = EndEffectors(
            np.concatenate([links, d.parents[links][carried], e.links]),
            np.concatenate([sizes, sizes[carried], e.sizes]),
            np.concatenate([first, first[carried], e.rows + self.n_hinges]),
            np.concatenate([own, on_parents[across], e.K]),
        )
        self.n_rows, self.n_bilateral = self.n_hinges + rows.n_rows, self.n_hinges + rows.n_loops

    def smooth_impulses(self, motion: Snapshot, dt: float) -> Array:
        """Impulses (n, 6) of all known forces on links over a time ``dt``."""
        w = dt * motion.wrenches
        if dt:
            self.add_joint_impulses(w, dt * motion.joint_forces)
        return w

    def add_joint_impulses(self, w: Array, f: Array) -> None:
        """Add impulses ``f`` (nv,) of joints to those on links (n, 6): on each link, and the opposite on its parent."""
        w[self.owner, self.dynamics.axes] += f
        np.add.at(w, self.dynamics.parents[self.owner], self.S_parent * f[:, None])

    def joint_velocities(self, V: Array) -> Array:
        """Velocities ``S_iᵀ (V_i − X_i V_{p(i)})`` (nv,) of joints from the twists (n, 6) of links."""
        below = V[self.dynamics.parents[self.owner]]  # S_parent is zero where the parent is the world
        return np.asarray(V[self.owner, self.dynamics.axes] + (self.S_parent * below).sum(axis=1))


@lru_cache(maxsize=8)
def _hinges(dynamics: ContactDynamics, geared: bool) -> tuple[Indices, Indices, Indices, Indices, Indices]:
    """Link, size and first row of each hinge and geared rotor; link and axis of each of their rows."""
    n, own = dynamics.parents.size, dynamics.owner
    across = np.ones((n, 6), dtype=bool)
    across[own, dynamics.axes] = False
    rotors = np.flatnonzero(dynamics.armature) if geared else np.zeros(0, np.int64)
    sizes = np.concatenate([across.sum(axis=1), np.ones(rotors.size, np.int64)])
    links = np.concatenate([np.arange(n), own[rotors]])
    row_links, row_axes = np.nonzero(across)
    kept = sizes > 0
    return (
        links[kept],
        sizes[kept],
        (np.cumsum(sizes) - sizes)[kept],
        np.concatenate([row_links, own[rotors]]),
        np.concatenate([row_axes, dynamics.axes[rotors]]),
    )


@lru_cache(maxsize=8)
def inverse_inertias(dynamics: ContactDynamics) -> Array:
    """``H_i⁻¹`` (n, 6, 6), which do not change; raises `ModelError` for links that are not bodies with volume."""
    tree = dynamics.tree
    size = np.sqrt(tree.inertias.diagonal(axis1=1, axis2=2))
    size[size == 0.0] = 1.0
    scaled = tree.inertias / size[:, :, None] / size[:, None, :]
    least = np.linalg.svd(scaled, compute_uv=False)[:, -1]
    if np.any(least <= REGULAR):
        link = tree.link_names[int(np.argmax(least <= REGULAR))]
        raise ModelError(
            f"link {link!r}",
            "mass and rotational inertia, without which it cannot be a body of its own",
            "a point mass, or no mass",
            "Use the formulation 'os', 'mc' or 'rmc', or give the link inertia.",
        )
    return np.ascontiguousarray(np.linalg.inv(scaled) / size[:, :, None] / size[:, None, :])
