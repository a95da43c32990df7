"""How rows of contacts and what impulses exert change with positions, contact by contact and side by side.

With the twist ``ξ`` of a link in the axes of the world, at the contact point, ``ξ_A − ξ_B`` changes the contact as a
search on numbers with changes says (`delassus.contact.changes.collision`), and ``ξ_B`` carries it along. With the axes
``s_j = (v_j, ω_j)`` of joints there, ``j`` at or above ``k``, an impulse ``f`` on a link, and twists ``V``,

    ∂(s_kᵀ f)/∂q_j = f · (ω_j × v_k + v_j × ω_k),   ∂V_l/∂q_j = s_j × (V_l − V_p),

``p`` the parent of joint ``j``: bodies of joints with several axes carry these along.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from delassus.contact.changes.collision import ContactChanges
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.blocks import Blocks
from delassus.spatial.rotations import Array


class Tree(NamedTuple):
    """Which degrees of freedom move which links, and which are above which: of all blocks, by places in their own.

    ``moves`` (n_links, w): whether a degree of freedom of the link's block moves it. ``at_or_above`` (n_blocks, w, w):
    whether the joint of the second is that of the first or above it.
    """

    moves: Array
    at_or_above: Array


def tree_of(blocks: Blocks) -> Tree:
    """The two tables of a scene's blocks."""
    links, bodies = blocks.of_links, blocks.bodies
    n, w = len(links.parents), int(np.diff(bodies.first).max(initial=0))
    moves, above = np.zeros((n, w)), np.zeros((len(bodies.at), w, w))
    for link in range(n):
        block, parent = links.block[link], links.parents[link]
        own = links.place[links.first_dof[link] : links.first_dof[link + 1]] - bodies.first[block]
        if parent >= 0:
            moves[link] = moves[parent]
        moves[link, own] = 1.0
        above[block, own] = moves[link]
    return Tree(moves, above)


class Sides(NamedTuple):
    """Sides of contacts whose blocks have the same number of degrees of freedom, ``w``.

    ``contact`` and ``sign`` (n,), ``dofs`` (n, w) of all blocks, ``G`` (n, 6, w): twist of the link at the contact
    point, ``at_or_above`` (n, w, w).
    """

    contact: Indices
    sign: Array
    block: Indices
    dofs: Indices
    G: Array
    at_or_above: Array


def sides_of(links: Indices, points: Array, blocks: Blocks, tree: Tree, poses: Array) -> list[Sides]:
    """Sides of contacts at ``points`` on ``links`` (m, 2), at poses of links (n_links, 3, 4)."""
    bodies, of_links, out = blocks.bodies, blocks.of_links, list[Sides]()
    contact, side = np.nonzero(links >= 0)
    link = links[contact, side]
    block = of_links.block[link]
    widths = np.diff(bodies.first)[block]
    axes, owner = axes_of(blocks, poses), owners_of(blocks)
    for w in np.unique(widths).tolist():
        own = np.flatnonzero(widths == w)
        dofs = bodies.first[block[own]][:, None] + np.arange(w)
        e, arm = axes[dofs], points[contact[own]][:, None] - poses[owner[dofs], :, 3]
        turning = of_links_axes(blocks)[dofs] >= 3
        linear = np.where(turning[..., None], np.cross(e, arm), e)
        both = np.concatenate([linear, np.where(turning[..., None], e, 0.0)], axis=2)
        G = np.swapaxes(both * tree.moves[link[own], :w, None], 1, 2)
        signs = np.where(side[own] == 0, 1.0, -1.0)
        out.append(Sides(contact[own], signs, block[own], dofs, G, tree.at_or_above[block[own], :w, :w]))
    return out


def owners_of(blocks: Blocks) -> Indices:
    """Link of each degree of freedom of the blocks."""
    of = blocks.of_links
    owner = np.zeros(len(of.place), np.int64)
    owner[of.place] = np.repeat(np.arange(len(of.parents)), np.diff(of.first_dof))
    return owner


def of_links_axes(blocks: Blocks) -> Indices:
    """Axis of the body frame that each degree of freedom of the blocks moves along."""
    axes = np.zeros(len(blocks.of_links.place), np.int64)
    axes[blocks.of_links.place] = blocks.of_links.axes
    return axes


def axes_of(blocks: Blocks, poses: Array) -> Array:
    """The same in the world (nv, 3)."""
    own = of_links_axes(blocks)
    return poses[owners_of(blocks), :, own % 3]


def cross_matrices(x: Array) -> Array:
    """``x ×`` (..., 3, 3) of vectors (..., 3)."""
    out = np.zeros((*x.shape, 3))
    for k in range(3):
        a, b = (k + 1) % 3, (k + 2) % 3
        out[..., b, a], out[..., a, b] = x[..., k], -x[..., k]
    return out


class Coupling(NamedTuple):
    """Changes of contacts along the twists of A and of B at the contact point (m, 2, …, 6).

    ``gaps`` (m, 2, 6); ``points`` (m, 2, 3, 6); ``frames`` (m, 2, 3, 3, 6); ``belts`` (m, 2, 2, 6).
    """

    gaps: Array
    points: Array
    frames: Array
    belts: Array


def coupling_of(changes: ContactChanges, points: Array, frames: Array) -> Coupling:
    """Changes along twists of both bodies, from those along that of A alone."""
    m = len(points)
    to = np.broadcast_to(np.eye(6), (m, 6, 6)).copy()
    to[:, :3, 3:] = -cross_matrices(changes.about - points)
    own_points, own_frames = changes.points @ to, changes.frames @ to[:, None]
    carried, turned = np.zeros((m, 3, 6)), np.zeros((m, 3, 3, 6))
    carried[:, :, :3] = np.eye(3)
    turned[..., 3:] = np.swapaxes(cross_matrices(-np.swapaxes(frames, 1, 2)), 1, 2)
    depths, belts = (changes.depths[:, None] @ to)[:, 0], changes.surface_velocities @ to
    return Coupling(
        np.stack([-depths, depths], axis=1),
        np.stack([own_points, carried - own_points], axis=1),
        np.stack([own_frames, turned - own_frames], axis=1),
        np.stack([belts, -belts], axis=1),
    )


class Contacts(NamedTuple):
    """Contacts of a step: their frames (m, 3, 3), their sides, and how they change."""

    frames: Array
    sides: list[Sides]
    coupling: Coupling


def along(contacts: Contacts, own: Indices, place: Indices, n: int) -> Array:
    """Jacobian (m, 3, n) of some contacts on ``n`` degrees of freedom, ``place`` of each of all."""
    out = np.zeros((len(own), 3, n))
    for contact, side in _of(contacts, own):
        J = side.sign[:, None, None] * np.swapaxes(contacts.frames[side.contact], 1, 2) @ side.G[:, :3]
        _add(out, contact, place[side.dofs], J)
    return out


def gap_changes(contacts: Contacts, own: Indices, place: Indices, n: int) -> Array:
    """Changes of gaps (m, n)."""
    out = np.zeros((len(own), 1, n))
    for contact, side in _of(contacts, own):
        _add(out, contact, place[side.dofs], contacts.coupling.gaps[side.contact, _second(side)][:, None] @ side.G)
    return out[:, 0]


def row_changes(contacts: Contacts, own: Indices, place: Indices, velocity: Array) -> Array:
    """Changes (m, 3, n) with positions of what contacts measure at velocities, which are held: (n,), or of each (m, n).

    Surfaces move along.
    """
    m, n = len(own), velocity.shape[-1]
    F, every = contacts.frames[own], np.broadcast_to(velocity, (m, n))
    apart, sides = np.zeros((m, 6)), _of(contacts, own)  # twist of A less that of B
    twists = [side.G * every[contact[:, None], place[side.dofs]][:, None] for contact, side in sides]
    for (contact, side), twist in zip(sides, twists, strict=True):
        np.add.at(apart, contact, side.sign[:, None] * twist.sum(axis=2))
    turning, out = np.swapaxes(F, 1, 2) @ cross_matrices(apart[:, 3:]), np.zeros((m, 3, n))
    for (contact, side), twist in zip(sides, twists, strict=True):
        which = side.contact, _second(side)
        measured = np.einsum("nijk,ni->njk", contacts.coupling.frames[which], apart[contact, :3])
        measured += turning[contact] @ contacts.coupling.points[which]
        measured[:, :2] += contacts.coupling.belts[which]
        above = np.swapaxes(side.at_or_above, 1, 2)
        below, linear, angular = twist @ (1.0 - above + above * side.at_or_above), side.G[:, :3], side.G[:, 3:]
        turn = np.cross(angular, below[:, :3], axis=1) + np.cross(linear, below[:, 3:], axis=1)
        turn = side.sign[:, None, None] * np.swapaxes(F[contact], 1, 2) @ turn
        _add(out, contact, place[side.dofs], measured @ side.G + turn)
    return out


def force_changes(contacts: Contacts, own: Indices, place: Indices, n: int, impulses: Array) -> Array:
    """Changes (n, n) with positions of what impulses (m, 3) of contacts exert, which are held: of ``Jᵀ p``."""
    pushed = cross_matrices(np.einsum("mij,mj->mi", contacts.frames[own], impulses))
    wrenches, out, sides = np.zeros((len(own), 6, n)), np.zeros((n, n)), _of(contacts, own)
    for contact, side in sides:
        which, at, P = (side.contact, _second(side)), place[side.dofs], pushed[contact]
        points, frames = contacts.coupling.points[which], contacts.coupling.frames[which]
        turned = np.einsum("nijk,nj->nik", frames, impulses[contact])
        _add(wrenches, contact, at, np.concatenate([turned, -P @ points], axis=1) @ side.G)
        linear, angular = side.G[:, :3], side.G[:, 3:]
        H = np.swapaxes(linear, 1, 2) @ P @ angular + np.swapaxes(angular, 1, 2) @ P @ linear
        np.add.at(out, (at[:, :, None], at[:, None, :]), side.sign[:, None, None] * side.at_or_above * H)
    for contact, side in sides:
        G = side.sign[:, None, None] * side.G
        for block in np.unique(side.block):
            of = np.flatnonzero(side.block == block)
            out[place[side.dofs[of[0]]]] += G[of].reshape(-1, G.shape[2]).T @ wrenches[contact[of]].reshape(-1, n)
    return out


def _second(side: Sides) -> Indices:
    """0 of sides on A, 1 on B."""
    return np.asarray(side.sign < 0.0, np.int64)


def _of(contacts: Contacts, own: Indices) -> list[tuple[Indices, Sides]]:
    """Sides of some contacts, and which of these each belongs to."""
    out, number = list[tuple[Indices, Sides]](), np.full(len(contacts.frames), -1)
    number[own] = np.arange(len(own))
    for side in contacts.sides:
        among = number[side.contact] >= 0
        if among.any():
            out.append((number[side.contact[among]], Sides(*[x[among] for x in list[Any](side)])))
    return out


def _add(to: Array, contact: Indices, columns: Indices, what: Array) -> None:
    """Add parts (k, r, w) to rows of contacts at their columns (k, w)."""
    np.add.at(to, (contact[:, None, None], np.arange(what.shape[1])[:, None], columns[:, None, :]), what)
