"""How rows of contacts and what impulses exert change with positions, contact by contact and side by side.

With the twist ``ξ`` of a link in the axes of the world, at the contact point, ``ξ_A − ξ_B`` changes the contact as a
search on numbers with changes says (`delassus.contact.changes.collision`), and ``ξ_B`` carries it along. With the axes
``s_j = (v_j, ω_j)`` of joints there, ``j`` at or above ``k``, an impulse ``f`` on a link, and twists ``V``,

    ∂(s_kᵀ f)/∂q_j = f · (ω_j × v_k + v_j × ω_k),   ∂V_l/∂q_j = s_j × (V_l − V_p),

``p`` the parent of joint ``j``: bodies of joints with several axes carry these along.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from delassus.contact.collision.colliders import ContactArrays
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.blocks import Blocks
from delassus.spatial.rotations import Array


class Supports(NamedTuple):
    """Which degrees of freedom move which links, and which are above which: of all blocks, by places in their own.

    ``moves`` (n_links, w): whether a degree of freedom of the link's block moves it. ``at_or_above`` (n_blocks, w, w):
    whether the joint of the second is that of the first or above it.
    """

    moves: Array
    at_or_above: Array


def supports_of(blocks: Blocks) -> Supports:
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
    return Supports(moves, above)


class Sides(NamedTuple):
    """Sides of contacts on blocks that have the same number of degrees of freedom ``w``, all first or all second ones.

    They are in the order of blocks, each of which begins at one of ``starts``. ``contact`` (n,) are different ones,
    ``second`` says which side, ``sign`` is that of its velocity; ``dofs`` (n, w) of all blocks, ``G`` (n, 6, w) the
    twist of the link at the contact point, ``at_or_above`` (n, w, w).
    """

    contact: Indices
    second: int
    sign: float
    block: Indices
    starts: Indices
    dofs: Indices
    G: Array
    at_or_above: Array


def sides_of(links: Indices, points: Array, blocks: Blocks, supports: Supports, poses: Array) -> list[Sides]:
    """Sides of contacts at ``points`` on ``links`` (m, 2), at poses of links (n_links, 3, 4)."""
    bodies, of_links, out = blocks.bodies, blocks.of_links, list[Sides]()
    owner, axis = np.zeros((2, len(of_links.place)), np.int64)  # of each degree of freedom
    owner[of_links.place] = np.repeat(np.arange(len(of_links.parents)), np.diff(of_links.first_dof))
    axis[of_links.place] = of_links.axes
    axes, turning = poses[owner, :, axis % 3], axis >= 3
    pitches = np.zeros(len(of_links.place))
    pitches[of_links.place] = of_links.pitches
    for second in (0, 1):
        contact = np.flatnonzero(links[:, second] >= 0)
        block = of_links.block[links[contact, second]]
        widths = bodies.first[block + 1] - bodies.first[block]
        for w in sorted(set(widths.tolist())):
            own = np.flatnonzero(widths == w)
            own = own[np.argsort(block[own], kind="stable")]
            at, b = contact[own], block[own]
            dofs = bodies.first[b][:, None] + np.arange(w)
            e, arm, turns = axes[dofs], points[at][:, None] - poses[owner[dofs], :, 3], turning[dofs][..., None]
            turned = crossed(e, arm) + pitches[dofs][..., None] * e
            both = np.concatenate([np.where(turns, turned, e), np.where(turns, e, 0.0)], axis=2)
            G = np.swapaxes(both * supports.moves[links[at, second], :w, None], 1, 2)
            starts = np.flatnonzero(np.diff(b, prepend=-1))
            out.append(Sides(at, second, 1.0 - 2.0 * second, b, starts, dofs, G, supports.at_or_above[b, :w, :w]))
    return out


class RowParts(NamedTuple):
    """A matrix (m r, n) of ``r`` rows for each contact, by its parts (…, r, w) on sides."""

    sides: list[Sides]
    parts: list[Array]

    def pulled(self, y: Array, to: Array) -> None:
        """Add the product of the transpose and ``y`` (m, r, k) to ``to`` (n, k)."""
        for side, part in zip(self.sides, self.parts, strict=True):
            one = np.swapaxes(part, 1, 2) @ y[side.contact]
            to[side.dofs[side.starts]] += np.add.reduceat(one, side.starts, axis=0)

    def times(self, x: Array, m: int) -> Array:
        """The product (m, r, k) with ``x`` (n, k)."""
        out = np.zeros((m, self.parts[0].shape[1] if self.parts else 0, x.shape[1]))
        for side, part in zip(self.sides, self.parts, strict=True):
            out[side.contact] += part @ x[side.dofs]
        return out

    def row(self, r: int) -> RowParts:
        """One of the rows of each contact."""
        return RowParts(self.sides, [part[:, r : r + 1] for part in self.parts])

    def scaled(self, factors: Any) -> RowParts:
        """Rows of contacts by factors (m, r)."""
        both = zip(self.sides, self.parts, strict=True)
        return RowParts(self.sides, [factors[side.contact][..., None] * part for side, part in both])

    def mapped(self, maps: Array) -> RowParts:
        """Rows of contacts mapped (m, s, r)."""
        both = zip(self.sides, self.parts, strict=True)
        return RowParts(self.sides, [maps[side.contact] @ part for side, part in both])

    def plus(self, other: RowParts) -> RowParts:
        """The sum."""
        return RowParts(self.sides, [a + b for a, b in zip(self.parts, other.parts, strict=True)])


TURNS = np.array([[1, 2, 0], [2, 0, 1]])
"""Orders of three axes from the second on, and from the third on."""


def crossed(a: Array, b: Array, axis: int = -1) -> Array:
    """``a × b`` of arrays whose vectors are along an axis; `numpy.cross` takes several times as long for small ones."""
    (a1, a2), (b1, b2) = ([np.take(x, order, axis) for order in TURNS] for x in (a, b))
    return np.asarray(a1 * b2 - a2 * b1)


def cross_matrices(x: Array) -> Array:
    """``x ×`` (..., 3, 3) of vectors (..., 3)."""
    out = np.zeros((*x.shape, 3))
    for k in range(3):
        a, b = (k + 1) % 3, (k + 2) % 3
        out[..., b, a], out[..., a, b] = x[..., k], -x[..., k]
    return out


def twisted(T: Array, about: Array) -> Array:
    """Changes (n, 3, 4, 6) of poses along twists at points (n, 3)."""
    out = np.zeros((*T.shape, 6))
    out[:, :, 3, :3] = np.eye(3)
    for c in range(4):
        out[:, :, c, 3:] = -cross_matrices(T[:, :, c] - (about if c == 3 else 0.0))
    return out


class Coupling(NamedTuple):
    """Changes of contacts along the twists of A and of B at the contact point (m, 2, …, 6).

    ``gaps`` (m, 2, 6); ``points`` (m, 2, 3, 6); ``frames`` (m, 2, 3, 3, 6); ``belts`` (m, 2, 2, 6).
    """

    gaps: Array
    points: Array
    frames: Array
    belts: Array


class FoundContacts(NamedTuple):
    """Contacts of a step: their frames (m, 3, 3), their sides, and how they change with ``causes`` (…, 6, w) on sides.

    Causes are twists of poses, and, of contacts on paths, of velocities; what they cause is in the same place of
    ``couplings``. The first are those of poses. Of steps with patches ``scales`` (m, 6) are those of rows of relative
    velocities and of spins, see `delassus.contact.sparse.spins`; of others (m, 3), without spins.
    """

    frames: Array
    scales: Array
    sides: list[Sides]
    couplings: list[Coupling]
    causes: list[list[Array]]

    @property
    def has_spins(self) -> bool:
        """Whether there are rows of spins."""
        return bool(self.scales.shape[1] > 3)

    def by_velocities(self, with_twists: Coupling) -> FoundContacts:
        """The same contacts, as they change with velocities."""
        return self._replace(couplings=[with_twists], causes=[[side.G for side in self.sides]])

    def turned(self, side: Sides, twists: Array) -> Array:
        """Rows (n, r, w) of a side, without their scales, of twists (n, 6, w) of its link."""
        n, rows = len(twists), self.scales.shape[1]
        both = twists.reshape(n, 2, 3, twists.shape[2])[:, : rows // 3]
        made = side.sign * np.swapaxes(self.frames, 1, 2)[side.contact][:, None] @ both
        return np.asarray(made.reshape(n, rows, twists.shape[2]))

    def scaled(self, parts: list[Array]) -> RowParts:
        """Rows, of relative velocities and of spins one behind the other, by their scales."""
        return RowParts(self.sides, parts).scaled(self.scales) if self.has_spins else RowParts(self.sides, parts)


def pull_scales(found: ContactArrays, counts: Array) -> tuple[Array, Array, Array]:
    """What counts friction, torsional and rolling lengths (m, k), from what counts scales of spins (m, 3, k).

    Of what has no friction or no length, nothing counts that.
    """
    mu = found.friction[:, None]
    rolling, torsional = counts[:, :2].sum(axis=1), counts[:, 2]
    torsional, rolling = (
        np.where(length[:, None] > 0.0, x / np.where(mu > 0.0, mu, 1.0), 0.0)
        for length, x in ((found.torsional, torsional), (found.rolling, rolling))
    )
    lost = found.torsional[:, None] * torsional + found.rolling[:, None] * rolling
    return np.where(mu > 0.0, -lost / np.where(mu > 0.0, mu, 1.0), 0.0), torsional, rolling


def twist_changes(sides: list[Sides], velocities: Sequence[Array]) -> list[Array]:
    """Changes (n, 6, w) with positions of twists of links, at the contact point, at velocities of sides (n, w)."""
    out = list[Array]()
    for side, v in zip(sides, velocities, strict=True):
        above = np.swapaxes(side.at_or_above, 1, 2)
        below = (side.G * v[:, None]) @ (1.0 - above + above * side.at_or_above)
        linear, angular = side.G[:, :3], side.G[:, 3:]
        turn = crossed(angular, below[:, :3], 1) + crossed(linear, below[:, 3:], 1)
        out.append(np.concatenate([turn, crossed(angular, below[:, 3:], 1)], axis=1))
    return out


def along(contacts: FoundContacts) -> RowParts:
    """Jacobian of contacts: three rows of relative velocities, and of steps with patches three of spins."""
    return contacts.scaled([contacts.turned(side, side.G) for side in contacts.sides])


def gap_changes(contacts: FoundContacts) -> RowParts:
    """Changes of gaps, one row each."""
    parts = [np.zeros((len(s.contact), 1, s.G.shape[2])) for s in contacts.sides]
    for coupling, causes in zip(contacts.couplings, contacts.causes, strict=True):
        for side, part, cause in zip(contacts.sides, parts, causes, strict=True):
            part += coupling.gaps[side.contact, side.second][:, None] @ cause
    return RowParts(contacts.sides, parts)


def row_changes(contacts: FoundContacts, velocities: Sequence[Array], alone: bool = False) -> RowParts:
    """Changes with positions of what contacts measure, row by row, at velocities of sides (n, w), which are held.

    Surfaces move along. ``alone`` leaves out what links measure where contacts stay.
    """
    F, sides, rows = contacts.frames, contacts.sides, contacts.scales.shape[1]
    apart = np.zeros((len(F), 6))  # twist of A less that of B
    twists = [side.G * v[:, None] for side, v in zip(sides, velocities, strict=True)]
    for side, twist in zip(sides, twists, strict=True):
        apart[side.contact] += side.sign * twist.sum(axis=2)
    turning, out = np.swapaxes(F, 1, 2) @ cross_matrices(apart[:, 3:]), list[Array]()
    turns = [0.0 * side.G for side in sides] if alone else twist_changes(sides, velocities)
    both = apart.reshape(len(F), 2, 1, 1, 3)[:, : rows // 3]
    for k, side in enumerate(sides):
        which, contact = (side.contact, side.second), side.contact
        part = contacts.turned(side, turns[k])
        for coupling, causes in zip(contacts.couplings, contacts.causes, strict=True):
            measured = (both[contact] @ moved_first(coupling.frames[which])[:, None])[..., 0, :]
            measured[:, 0] += turning[contact] @ coupling.points[which]
            measured[:, 0, :2] += coupling.belts[which]
            part += measured.reshape(len(contact), rows, 6) @ causes[k]
        out.append(part)
    return contacts.scaled(out)


def moved_first(x: Array) -> Array:
    """Axes (n, i, j, k) as (n, j, i, k)."""
    return np.swapaxes(x, 1, 2)


class ForceChanges(NamedTuple):
    """Changes with positions of what impulses of contacts exert, which are held: of ``Jᵀ p``.

    By wrenches on A at contact points, six rows each, and within blocks (n, w, w).
    """

    twists: RowParts
    wrenches: RowParts
    within: RowParts


def force_changes(contacts: FoundContacts, impulses: Array) -> ForceChanges:
    """Of impulses (m, 3), or of these and of those of spins (m, 6)."""
    sides, r, exerted = contacts.sides, impulses.shape[1], contacts.scales[:, : impulses.shape[1]] * impulses
    pushed = cross_matrices((contacts.frames @ exerted[:, :3, None])[..., 0])
    twisted = cross_matrices((contacts.frames @ exerted[:, 3:, None])[..., 0]) if r > 3 else None
    wrenches, within = list[Array](), list[Array]()
    for k, side in enumerate(sides):
        which, P = (side.contact, side.second), pushed[side.contact]
        wrench = np.zeros((len(P), 6, side.G.shape[2]))
        for coupling, causes in zip(contacts.couplings, contacts.causes, strict=True):
            turned = (exerted[side.contact, None, None, :3] @ coupling.frames[which])[:, :, 0]
            moments = -P @ coupling.points[which]
            if r > 3:
                moments += (exerted[side.contact, None, None, 3:] @ coupling.frames[which])[:, :, 0]
            wrench += np.concatenate([turned, moments], axis=1) @ causes[k]
        wrenches.append(wrench)
        linear, angular = side.G[:, :3], side.G[:, 3:]
        H = np.swapaxes(linear, 1, 2) @ P @ angular + np.swapaxes(angular, 1, 2) @ P @ linear
        if twisted is not None:
            H += np.swapaxes(angular, 1, 2) @ twisted[side.contact] @ angular
        within.append(side.sign * side.at_or_above * H)
    twists = [side.sign * side.G for side in sides]
    return ForceChanges(RowParts(sides, twists), RowParts(sides, wrenches), RowParts(sides, within))


def pull_forces(changes: ForceChanges, weights: Array, m: int, to: Array) -> None:
    """Add what forces weigh (n, k) to what positions do."""
    changes.wrenches.pulled(changes.twists.times(weights, m), to)
    for side, part in zip(changes.within.sides, changes.within.parts, strict=True):
        one = np.add.reduceat(np.swapaxes(part, 1, 2), side.starts, axis=0)
        to[side.dofs[side.starts]] += one @ weights[side.dofs[side.starts]]
