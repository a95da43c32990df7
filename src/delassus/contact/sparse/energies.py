"""Energies of a scene by its blocks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from delassus.contact.filters import moved_links
from delassus.contact.sparse.blocks import Blocks
from delassus.quantities.options import Passive
from delassus.spatial.rotations import Array


class Energies(NamedTuple):
    """Kinetic and potential energy (J)."""

    kinetic: float
    potential: float


def energies_of(blocks: Blocks, passive: Passive, q: Array, v: Array) -> Energies:
    """Those at a state, without those of bodies that the user moves."""
    kinetic, potential, tree, v = 0.0, 0.0, blocks.scene.tree, v.copy()
    for link in moved_links(blocks.scene):  # whose mass is none of the scene's
        v[tree.v_slices[link]] = 0.0
    for kind in blocks.kinds:
        coordinates = np.array([[c for i in links for c in _range(tree.q_slices[i])] for links in kind.links])
        dofs = np.array([[c for i in links for c in _range(tree.v_slices[i])] for links in kind.links])
        if kind.is_free:
            n = len(kind.links)
            H = blocks.bodies.mass[: 36 * n].reshape(n, 6, 6)
            kinetic += 0.5 * float(np.einsum("ni,nij,nj->", v[dofs], H, v[dofs]))
            centres = q[coordinates[:, :3]] + _rotated(q[coordinates[:, 3:]], blocks.centre)
            potential -= float(blocks.mass @ centres @ tree.gravity)
        else:
            both = kind.compile("energies", passive)(q[coordinates], v[dofs])
            kinetic, potential = kinetic + float(both[0].sum()), potential + float(both[1].sum())
    potential += sum(spring.energy(tree, q) for spring in blocks.scene.springs)
    return Energies(kinetic, potential)


def _range(part: slice) -> range:
    return range(part.start, part.stop)


def _rotated(quaternions: Array, x: Array) -> Array:
    """Vectors (n, 3) in axes turned by quaternions (n, 4)."""
    u, w = quaternions[:, :3], quaternions[:, 3:]
    return np.asarray(x + 2.0 * np.cross(u, np.cross(u, x) + w * x))
