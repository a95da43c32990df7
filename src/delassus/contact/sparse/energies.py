"""Energies of a scene by its blocks."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from delassus.contact.filters import moved_links
from delassus.contact.sparse.blocks import Blocks
from delassus.quantities.keywords import Passive
from delassus.spatial.rotations import Array


class Energies(NamedTuple):
    """Kinetic and potential energy (J), numbers or arrays of them."""

    kinetic: Any
    potential: Any


def energies_of(blocks: Blocks, passive: Passive, q: Array, v: Array, dt: float) -> Energies:
    """Those at states (..., nq) and (..., nv), without those of bodies that the user moves; each (...).

    Velocities of a run are those of half a step before its places: energies are those of that time, at ``q ⊖ ½ dt v``.
    Blocks with loops, whose smooth motion has both at one time, are where they are.
    """
    kinetic, potential, (q, v), tree = (
        np.zeros(q.shape[:-1]),
        np.zeros(q.shape[:-1]),
        (q.copy(), v.copy()),
        blocks.scene.tree,
    )
    for link in moved_links(blocks.scene):  # whose mass is none of the scene's
        v[..., tree.v_slices[link]] = 0.0
    for kind in blocks.kinds:
        coordinates = np.array([[c for i in links for c in _range(tree.q_slices[i])] for links in kind.links])
        dofs = np.array([[c for i in links for c in _range(tree.v_slices[i])] for links in kind.links])
        x, u = q[..., coordinates], v[..., dofs]
        if not kind.loops:
            back, inertias = kind.compile("position_update", passive), [blocks.inertias] if kind.is_free else []
            q[..., coordinates], u = x, u = back(x, u, -0.5 * dt, np.zeros(u.shape), *inertias)
        if kind.is_free:
            n = len(kind.links)
            H = blocks.bodies.mass[: 36 * n].reshape(n, 6, 6)
            kinetic += 0.5 * np.einsum("...ni,nij,...nj->...", u, H, u)
            centres = x[..., :3] + _rotated(x[..., 3:], blocks.centre)
            potential -= np.einsum("n,...ni,i->...", blocks.mass, centres, tree.gravity)
        else:
            both = kind.compile("energies", passive)(x, u)
            kinetic, potential = kinetic + both[0].sum(axis=-1), potential + both[1].sum(axis=-1)
    for spring in blocks.scene.springs:
        stretched = [spring.energy(tree, x) for x in q.reshape(-1, q.shape[-1])]
        potential = potential + np.reshape(stretched, q.shape[:-1])
    return Energies(kinetic[()], potential[()])


def _range(part: slice) -> range:
    return range(part.start, part.stop)


def _rotated(quaternions: Array, x: Array) -> Array:
    """Vectors (n, 3) in axes turned by quaternions (..., n, 4)."""
    u, w = quaternions[..., :3], quaternions[..., 3:]
    return np.asarray(x + 2.0 * np.cross(u, np.cross(u, x) + w * x))
