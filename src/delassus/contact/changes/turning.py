"""How the offsets of contacts that turn change with positions, and with the velocities of the start.

They are ``κ = H − u``, cut where they would bring energy (`delassus.contact.sparse.turning`). ``u`` is what rows
measure at the start, and ``H`` follows from the poses ``T`` of both links there, and from those ``T̃`` ahead:

    ∂H = ∂H/∂T G ∂q + ∂H/∂T̃ G̃ (A ∂q + B ∂v),

``A`` and ``B`` the changes of positions ahead. Those of ``H`` are of the searches for contacts at both poses, and of
the slip between these, on numbers with their changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from delassus.constraints.paths import Twist
from delassus.constraints.shapes.turning import (
    ALIKE,
    HELD,
    NEVER,
    OF_FACE,
    Chord,
    ContactMotion,
    FaceCentre,
    Spot,
    chord_of,
    cut,
    midway,
    motion_of,
)
from delassus.contact.changes.blocks import BlockDiagonal, SceneChanges
from delassus.contact.changes.collision import SAME, coupling_at, searched
from delassus.contact.changes.contacts import (
    Coupling,
    FoundContacts,
    RowParts,
    along,
    cross_matrices,
    row_changes,
    sides_of,
    twisted,
)
from delassus.contact.changes.mobility import Mobilities
from delassus.contact.changes.record import StepRecord, TurningRecord
from delassus.contact.collision.colliders import CENTRE, HALF, LINK, RADIUS, ContactArrays
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.turning import NONE
from delassus.spatial.dual_ops import Dual, DualOps, rates_of, value
from delassus.spatial.motion import column, dot, from_entries, minus
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array

TWISTS = "twists"
"""Name of what contacts change with: twists of both links at the contact, then of both ahead, and others."""

ROUNDING = 1e-12
"""Over the time step, the part of the size of the smaller collider by which velocities differ and are alike."""


class TurningChanges(NamedTuple):
    """Changes of ``κ`` with positions and with velocities of the start, three rows each; which are known (m,).

    ``distances`` (m,) are velocities (m/s) by which contacts are apart from where offsets are cut, or are not.
    """

    with_q: RowParts
    with_v: RowParts
    known: Any
    distances: Array


class Faces(NamedTuple):
    """Pairs of contacts (m,), those that turn, those ``held`` with all of their pair, and middles of these (m, 3)."""

    pairs: Indices
    turns: Array
    held: Array
    middles: Array
    links: Indices

    @staticmethod
    def of(found: ContactArrays, turns: Array) -> Faces:
        """None is held."""
        pairs = np.unique(found.colliders, axis=0, return_inverse=True)[1].ravel()
        faces = Faces(pairs, turns, np.zeros(len(pairs)), np.zeros((len(pairs), 3)), found.links)
        n = np.maximum(faces.sums(np.ones(len(pairs))), 1.0)
        return faces._replace(middles=np.stack([faces.sums(x) / n for x in found.points.T], axis=1))

    def sums(self, x: Array) -> Array:
        """Sums (m,) over those of the pair that turn."""
        return np.asarray(np.bincount(self.pairs, self.turns * x, len(x))[self.pairs], float)

    def middles_with_twists(self, points: Array, changes: Array) -> Array:
        """Changes (m, 2, 3, 6) of middles along twists at contacts, from those of the points of all (m, 3)."""
        arms, total = cross_matrices(points)[:, None], np.zeros(changes.shape)
        linear, angular = changes[..., :3], changes[..., 3:]
        at_origin = np.concatenate([linear, angular - linear @ arms], axis=3)  # along twists there
        np.add.at(total, self.pairs, self.turns[:, None, None, None] * at_origin)
        n = np.maximum(self.sums(np.ones(len(points))), 1.0)
        mean = total[self.pairs] / n[:, None, None, None]
        mean[..., 3:] += mean[..., :3] @ arms
        return mean

    def held_at(self, H: Array, now: Array) -> Faces:
        """Those held at slips ``H`` over the step, and ``now``."""
        slips, turned = (self.sums((x[:, :2] ** 2).sum(axis=1)) for x in (H, H - now))
        held = (slips <= HELD * HELD * turned) & (self.sums(np.ones(len(H))) >= OF_FACE)
        return self._replace(held=self.turns * held * (self.links >= 0).all(axis=1))

    def summed(self, rows: RowParts) -> RowParts:
        """Sums of rows over those of the pair."""
        parts = list[Array]()
        for side, part in zip(rows.sides, rows.parts, strict=True):
            total = np.zeros((len(self.pairs), *part.shape[1:]))
            np.add.at(total, self.pairs[side.contact], part)
            parts.append(total[self.pairs[side.contact]])
        return RowParts(rows.sides, parts)


def turning_changes(
    scene: SceneChanges, record: StepRecord, turning: TurningRecord, contacts: FoundContacts, mobility: Mobilities
) -> TurningChanges:
    """Those of all contacts that turn, zero of others."""
    found, v, dt, start = record.contacts, record.v, scene.options.dt, contacts.couplings[0]
    contacts = contacts._replace(scales=np.ones((len(found.points), 3)))
    J = along(contacts)
    m, at = len(found.points), np.flatnonzero(turning.later != NONE)
    end, points_ahead, is_known = _found_ahead(scene, record, turning, at)
    H, by_T, by_E = np.zeros((m, 3)), np.zeros((m, 2, 3, 6)), np.zeros((m, 2, 3, 6))
    points, turns = found.points.copy(), np.zeros((m, 1, 1))
    points[at], turns[at] = points_ahead, 1.0
    now = J.times(v[:, None], m)[..., 0]
    now[:, :2] += found.surface_velocities
    faces = Faces.of(found, turns[:, 0, 0])
    H[at], by_T[at], by_E[at] = _chords(scene, record, turning, start, end, points_ahead, at, faces)
    faces = faces.held_at(H, now)
    if faces.held.any():
        H[at], by_T[at], by_E[at] = _chords(scene, record, turning, start, end, points_ahead, at, faces)
    alike = np.maximum(ALIKE, ROUNDING / dt * scene.detector.arrays.shapes[found.colliders, RADIUS].min(axis=1))
    offsets, rates, distances = _cuts(H, now, alike, faces)
    near = alike + SAME * (np.abs(H) + np.abs(now)).max(axis=1)
    known = np.ones(m, bool)
    known[at] = is_known & (np.abs(offsets - turning.found).max(axis=1) < near)[at]
    raw, slips = (turns[:, :, 0] * np.array([2.0, 2.0, 0.0]) * x for x in (H - now, now))
    rates, with_H, with_u = turns * rates, np.stack([raw, 0.0 * raw], axis=1), np.stack([-raw, slips], axis=1)
    sides, with_q, with_v = sides_of(found.links, points, scene.blocks, scene.supports, turning.ahead), [], []
    moves = zip(*map(mobility.of_sides, _moves(scene, record)), strict=True)
    for side, ahead, (A, B) in zip(contacts.sides, sides, moves, strict=True):
        which = side.contact, side.second
        of_end = by_E[which] @ ahead.G
        with_q.append(by_T[which] @ side.G + of_end @ A)
        with_v.append(of_end @ B)
    of_start = row_changes(contacts, [v[side.dofs] for side in contacts.sides])

    def changes(of_chords: RowParts, of_start: RowParts) -> RowParts:
        squares = faces.summed(of_chords.mapped(with_H).plus(of_start.mapped(with_u)))
        alone = of_chords.mapped(rates[:, :, :3]).plus(of_start.mapped(rates[:, :, 3:6]))
        return alone.plus(squares.mapped(rates[:, :, 6:]))

    return TurningChanges(
        changes(RowParts(contacts.sides, with_q), of_start),
        changes(RowParts(contacts.sides, with_v), J),
        known,
        np.where((turns[:, 0, 0] > 0.0) & (distances < NEVER), distances, np.inf),
    )


def _world_ahead(scene: SceneChanges, record: StepRecord, turning: TurningRecord) -> Array:
    """Poses of all colliders ahead."""
    arrays, world = scene.detector.arrays, record.search.world.copy()
    links = arrays.shapes[:, LINK].astype(np.int64)
    on = links >= 0
    T = turning.ahead[links[on]]
    world[on] = T[:, :, :3] @ arrays.local[on]
    world[on, :, 3] += T[:, :, 3]
    return world


def _found_ahead(
    scene: SceneChanges, record: StepRecord, turning: TurningRecord, at: Indices
) -> tuple[Spot, Array, Any]:
    """What contacts ``at`` some places are ahead, their points, and whether there is one."""
    found, arrays, options = record.contacts, scene.detector.arrays, scene.options
    world = _world_ahead(scene, record, turning)
    centres = world[:, :, 3] + np.einsum("nij,nj->ni", world[:, :, :3], arrays.shapes[:, CENTRE:HALF])
    space = scene.detector.space._replace(world=world, centres=centres)
    pairs, of_pair = np.unique(found.colliders[at], axis=0, return_inverse=True)
    out, m = searched(pairs, record.search.reach, options.touching, arrays, space)
    most, later = 1 + pairs.max(), turning.later[at]
    ends = [np.searchsorted(out.colliders[:m] @ [most, 1], pairs @ [most, 1], side) for side in ("left", "right")]
    first, end = (x[of_pair.ravel()] for x in ends)
    chosen = first + np.where(later >= 0, later, -2 - later)
    known, chosen = chosen < end, np.minimum(chosen, len(out.points) - 1)
    points, frames = out.points["x"][chosen], out.frames["x"][chosen]
    by = coupling_at(out, chosen, world[found.colliders[at, 0], :, 3], points, frames)
    gap, normal = _numbers(-out.depths["x"][chosen], end=by.gaps), _numbers(frames[:, :, 2], end=by.frames[:, :, :, 2])
    return Spot(gap.item(), [], normal.tolist(), _numbers(points, end=by.points).tolist()), points, known


def _numbers(x: Array, start: Array | None = None, end: Array | None = None) -> Any:
    """Numbers (n, …) with their changes (n, 2, …, 6) along twists of both links at the contact, and ahead."""
    out, none = np.empty(x.shape[1:], object), np.zeros((len(x), 12))
    for k in np.ndindex(out.shape):
        by = [none if c is None else c[:, :, *k].reshape(-1, 12) for c in (start, end)]
        out[k] = Dual(x[:, *k, None], {TWISTS: np.concatenate(by, axis=1)})
    return out


def _columns(numbers: Sequence[Any], m: int, n: int) -> tuple[Array, Array]:
    """Numbers (m, k), and their ``n`` rates (m, k, n)."""
    every: list[Any] = [rates_of(x).get(TWISTS, 0.0) for x in numbers]
    columns = np.concatenate([np.asarray(value(x)) for x in numbers], axis=1)
    return columns, np.stack([np.broadcast_to(x, (m, n)) for x in every], axis=1)


def _chords(
    scene: SceneChanges, record: StepRecord, turning: TurningRecord, start: Coupling, end: Spot,
    points_ahead: Array, at: Indices, faces: Faces,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """``H`` (n, 3), and changes (n, 2, 3, 6) along twists of both links at the contact, and at that ahead."""
    found, material, colliders = record.contacts, scene.detector.arrays.material, record.contacts.colliders[at]
    ops, n, x, still, h = DualOps(NUMPY), len(at), found.points[at], Twist([0.0] * 3, [0.0] * 3), scene.options.dt
    chords, belts = list[Chord](), list[list[Any]]()
    worlds = record.search.world, _world_ahead(scene, record, turning)
    for k, own in enumerate(colliders.T):
        T, E = (world[own] for world in worlds)
        changes = np.zeros((2, n, 2, *T.shape[1:], 6))
        changes[:, :, k] = twisted(T, x), twisted(E, points_ahead)
        before, after = _numbers(T, changes[0]), _numbers(E, end=changes[1])
        chords.append(chord_of(ops, before[:, :3], before[:, 3:], after[:, :3], after[:, 3:], still))
        if not material[colliders, :3].any():
            continue
        belt, turned = (T[..., :3] @ material[own, :3, None])[..., 0], np.zeros((n, 2, 3, 6))
        turned[:, k, :, 3:] = -cross_matrices(belt)
        now = _numbers(belt, turned).tolist()
        carried = chords[k].R_end @ (ops.transpose(chords[k].R) @ from_entries(ops, now))
        belts.append([0.5 * (a + b) for a, b in zip(now, column(ops, carried), strict=True)])
    links, (first, second) = found.links[at], chords
    side = np.where(links[:, 1:] < 0, 1.0, np.where(links[:, :1] < 0, -1.0, 0.0))
    frame, points = _numbers(found.frames[at], start.frames[at]), _numbers(x, start.points[at]).tolist()
    spot = Spot(_numbers(-found.depths[at], start.gaps[at]).item(), frame[:, :2].T.tolist(), frame[:, 2].tolist(), [])
    spot = spot._replace(point=midway(ops, points, spot.normal, spot.gap, side))
    end = end._replace(point=midway(ops, end.point, end.normal, end.gap, side))
    held, is_same = faces.held[at, None], 1.0 * (turning.later[at, None] >= NONE)
    centre = None
    if held.any():
        middles = _numbers(faces.middles[at], faces.middles_with_twists(found.points, start.points)[at]).tolist()
        centre = FaceCentre.of(ops, held, middles, first, second)
    of_belts: Any = ([0.0] * 3, minus(*belts)) if belts else None
    motion = motion_of(ops, h, spot, end, is_same, (first, second), of_belts, centre)
    H, rates = _columns([*motion.turned, motion.opened], n, 24)
    by_twists = np.moveaxis(rates.reshape(n, 3, 4, 6), 2, 1)
    return H, by_twists[:, :2], by_twists[:, 2:]


def _cuts(H: Array, now: Array, alike: Array, faces: Faces) -> tuple[Array, Array, Array]:
    """``κ`` (m, 3), its changes (m, 3, 8), and distances (m,) of where it is cut.

    It changes with ``H`` and ``u`` (3 each); of faces that are held, which are cut by one factor, also with sums of
    squares of ``H − u`` and of ``u`` along tangents, over contacts of a pair.
    """
    ops, m, units = DualOps(NUMPY), len(H), np.eye(8)[:, None]
    numbers: list[Any] = [Dual(x[:, None], {TWISTS: unit}) for x, unit in zip([*H.T, *now.T], units[:6], strict=True)]
    turned, slips, squares = minus(numbers[:2], numbers[3:5]), numbers[3:5], list[Any]()
    for x, unit in ((turned, units[6]), (slips, units[7])):
        own = dot(x, x)
        whole = Dual(faces.sums(value(own)[:, 0])[:, None], {TWISTS: unit})
        squares.append(ops.select(faces.held[:, None], whole, own))
    motion = ContactMotion(turned, slips, numbers[2], numbers[5], 1.0)
    kappa, distance = cut(ops, motion, alike[:, None], (squares[0], squares[1]))
    return *_columns(kappa, m, 8), np.asarray(value(distance))[:, 0]


def _moves(scene: SceneChanges, record: StepRecord) -> tuple[BlockDiagonal, BlockDiagonal]:
    """Changes of positions ahead with positions and velocities at the start."""
    by_q, by_v, dt = list[Array](), list[Array](), scene.options.dt
    for number, q, (v,) in scene.batches(record.q, record.v):
        kind, n = scene.blocks.kinds[number], len(q)
        if kind.is_free or (not kind.loops and kind.tree.n_links == 1 and kind.tree.is_free_body(0)):
            inertias = [scene.blocks.inertias] if kind.is_free else []
            found = scene.kernel(number, "free_step_changes")(q, v, v, dt, 0.0 * v, *inertias)
            by_q.append(found[2])
            by_v.append(found[3])
            continue
        A, B = np.zeros((n, v.shape[1], v.shape[1])), np.zeros((n, v.shape[1], v.shape[1]))
        for joint, at in zip(kind.tree.joints, kind.tree.v_slices, strict=True):
            own: Any = list(v[:, at].T)
            with_q, with_step, *_ = joint.kind.position_update_changes(NUMPY, own, [dt * x for x in own])
            A[:, at, at], B[:, at, at] = np.asarray(with_q), dt * np.asarray(with_step)
        by_q.append(A)
        by_v.append(B)
    return BlockDiagonal(by_q), BlockDiagonal(by_v)
