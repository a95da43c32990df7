"""Every link on its own: the fully augmented model of [OS] section 3, whose hinges are bilateral constraints.

Unknown velocities are the twists ``V`` (6n) of links in their body frames. Deviations from the paper, which takes
coordinates of absolute positions and attitudes: links are where joints put them, as positions are integrated in joint
coordinates, so that hinges do not gape and need no stabilisation; and as body frames turn, the rate of ``V = J v`` at
given accelerations holds the velocity products ``J̇ v``, which go to the known wrenches:

    ``M V⁺ − G_bᵀ p_b − G_uᵀ D̲ β̲ = M V⁻ + dt (C − M J̇ v)``.

``Jᵀ`` times that is eq. 33 of the minimal coordinates, as ``G_b J = 0`` for the rows of hinges. Forces on joints are
wrenches ``S_i τ_i`` on links and their opposites on parents.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from delassus.contact.formulations import links
from delassus.contact.formulations.setting import Setting
from delassus.contact.snapshot import ContactDynamics, Ends
from delassus.errors import ModelError
from delassus.model.rotations import Array

REGULAR = 1e-14
"""Least singular value over the largest one of the inertia of a rigid body, in units in which its size is one."""


def hinges_first(setting: Setting, rotors: bool) -> tuple[Ends, int]:
    """Rows of hinges, then of loops and contacts, on the twists of links; and how many are of hinges.

    With ``rotors``, the rows of degrees of freedom with armature follow those of hinges and count as such.
    """
    s = setting
    turning = np.flatnonzero(s.armature) if rotors else np.zeros(0, np.int64)
    most = 2 * (s.n_links + turning.size)
    of, sizes, rows = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    K = np.empty((2 * (6 * s.n_links + turning.size), 6))
    e, at = links.hinge_ends(s.parents, s.first_dof, s.axes, s.X, turning, of, sizes, rows, K)
    n_hinges = 6 * s.n_links - s.n_dofs + turning.size
    others = s.ends
    ends = Ends(
        np.concatenate([of[:e], others.links]),
        np.concatenate([sizes[:e], others.sizes]),
        np.concatenate([rows[:e], others.rows + n_hinges]),
        np.concatenate([K[:at], others.K]),
        n_hinges + others.n_loops,
        others.n_contacts,
    )
    return ends, n_hinges


def smooth_impulses(setting: Setting, dt: float) -> Array:
    """Impulses (n, 6) of all known forces on links over a time ``dt``."""
    s, w = setting, np.zeros((setting.n_links, 6))
    if dt:
        w += dt * s.known_wrenches
        links.add_joint_wrenches(s.parents, s.first_dof, s.axes, s.X, dt * s.joint_forces, w)
    return w


def joint_velocities(setting: Setting, V: Array) -> Array:
    """Velocities (nv,) of joints from the twists (n, 6) of links."""
    s, v = setting, np.empty(setting.n_dofs)
    links.joint_velocities(s.parents, s.first_dof, s.axes, s.X, V, v)
    return v


@lru_cache(maxsize=8)
def inverse_inertias(dynamics: ContactDynamics) -> Array:
    """``H_i⁻¹`` (n, 6, 6), which do not change; raises `ModelError` for links that are not bodies with volume."""
    tree = dynamics.scene.tree
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
