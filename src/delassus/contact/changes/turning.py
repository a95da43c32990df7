"""How the offsets of contacts that turn change with positions, and with the velocities of the start.

They are ``κ = H − u``, cut where they would bring energy (`delassus.contact.sparse.turning`). ``u`` is what rows
measure at the start, and ``H`` follows from the poses ``T`` of both links there, and from those ``T̃`` ahead:

    ∂H = ∂H/∂T G ∂q + ∂H/∂T̃ G̃ (A ∂q + B ∂v),

``A`` and ``B`` the changes of positions ahead. Those of ``H`` are of the searches for contacts at both poses, and of
the slip between these, on numbers with their changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from delassus.compiler.jit.compile import compiled
from delassus.compiler.jit.types import DUALS
from delassus.constraints.shapes.turning import ALIKE, HELD, OF_FACE
from delassus.contact.changes.blocks import BlockDiagonal, SceneChanges
from delassus.contact.changes.collision import SAME, changes_at, searched
from delassus.contact.changes.contacts import (
    Coupling,
    FoundContacts,
    RowParts,
    coupling_of,
    cross_matrices,
    row_changes,
    sides_of,
)
from delassus.contact.changes.contacts import along as along_rows
from delassus.contact.changes.mobility import Mobilities
from delassus.contact.changes.record import StepRecord, TurningRecord
from delassus.contact.collision.colliders import CENTRE, HALF, LINK, RADIUS, ContactArrays
from delassus.contact.collision.vectors import Vector, along, column, dot, in_frame, in_world, norm, row_of, scaled
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.turning import (
    NONE,
    carried,
    midway,
    turned_halfway,
    velocity_between,
)
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array

FLOOR = 1e-150
"""Velocity (m/s) that none is below but zero."""

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


class Ends(NamedTuple):
    """Of some contacts those that they are ahead: points, normals, depths, and how these change with poses.

    ``known`` says of each whether there is one.
    """

    points: Array
    normals: Array
    depths: Array
    coupling: Coupling
    known: Any


class Chords(NamedTuple):
    """What offsets follow from: of contacts (n) frames, points and depths at the start, and normals and these ahead.

    Their ``marks`` (n, 3): which side moves, whether they lie on faces, and whether these hold; the middles of those.
    And of sides (2 n) poses and velocities of surfaces at the start, and poses ahead.
    """

    frames: Any
    starts: Any
    depths: Any
    normals: Any
    ends: Any
    end_depths: Any
    marks: Any
    middles: Any
    before: Any
    after: Any
    belts: Any


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


@compiled
def find_chords(n: int, dt: float, chords: Chords, out: Array) -> None:
    """``H`` of contacts: slips along both tangents halfway, and what gaps change by (m/s)."""
    for k in range(n):
        frame, normal, a, b = chords.frames[k], row_of(chords.normals, k), 2 * k, 2 * k + 1
        start = midway(row_of(chords.starts, k), column(frame, 2), -chords.depths[k], chords.marks[k, 0])
        end = midway(row_of(chords.ends, k), normal, -chords.end_depths[k], chords.marks[k, 0])
        change = chords.depths[k] - chords.end_depths[k]
        if chords.marks[k, 1] > 0.0:
            to_a = carried(start, chords.before[a], chords.after[a])
            to_b = carried(start, chords.before[b], chords.after[b])
            end, change = scaled(0.5, along(to_a, 1.0, to_b)), dot(normal, along(to_a, -1.0, to_b))
        x, half = scaled(0.5, along(start, 1.0, end)), along(column(frame, 2), 1.0, normal)
        half = scaled(1.0 / norm(half), half)
        if chords.marks[k, 2] > 0.0:
            middle = row_of(chords.middles, k)
            later = carried(middle, chords.before[a], chords.after[a])
            later = along(later, 1.0, carried(middle, chords.before[b], chords.after[b]))
            arm = turned_halfway(along(start, -1.0, middle), column(frame, 2), half)
            x = along(along(scaled(0.5, middle), 0.25, later), 1.0, arm)
        u = along(side_velocity(a, x, dt, chords), -1.0, side_velocity(b, x, dt, chords))
        for c in range(2):
            out[k, c] = dot(turned_halfway(column(frame, c), column(frame, 2), half), u)
        out[k, 2] = (1.0 / dt) * change


@compiled
def side_velocity(k: int, x: Vector, dt: float, chords: Chords) -> Vector:
    """Velocity of the surface of a side that is at ``x`` halfway."""
    T, E, belt = chords.before[k], chords.after[k], row_of(chords.belts, k)
    later = in_world(E, in_frame(T, belt))
    return along(velocity_between(T, E, x, dt), 0.5, along(belt, 1.0, later))


def turning_changes(
    scene: SceneChanges, record: StepRecord, turning: TurningRecord, contacts: FoundContacts, mobility: Mobilities
) -> TurningChanges:
    """Those of all contacts that turn, zero of others."""
    found, v, dt, start = record.contacts, record.v, scene.options.dt, contacts.couplings[0]
    contacts = contacts._replace(scales=np.ones((len(found.points), 3)))
    J = along_rows(contacts)
    m, at = len(found.points), np.flatnonzero(turning.later != NONE)
    ends = _found_ahead(scene, record, turning, at)
    H, by_T, by_E = np.zeros((m, 3)), np.zeros((m, 2, 3, 6)), np.zeros((m, 2, 3, 6))
    points, turns = found.points.copy(), np.zeros((m, 1, 1))
    points[at], turns[at] = ends.points, 1.0
    now = J.times(v[:, None], m)[..., 0]
    now[:, :2] += found.surface_velocities
    faces = Faces.of(found, turns[:, 0, 0])
    H[at], by_T[at], by_E[at] = _chords(scene, record, turning, start, ends, at, faces)
    faces = faces.held_at(H, now)
    if faces.held.any():
        H[at], by_T[at], by_E[at] = _chords(scene, record, turning, start, ends, at, faces)
    alike = np.maximum(ALIKE, ROUNDING / dt * scene.detector.arrays.shapes[found.colliders, RADIUS].min(axis=1))
    kept, cut, shared, offsets, distances = _cuts(H, now, alike, faces)
    near = alike + SAME * (np.abs(H) + np.abs(now)).max(axis=1)
    known = np.ones(m, bool)
    known[at] = ends.known & (np.abs(offsets - turning.found).max(axis=1) < near)[at]
    kept, cut, shared = turns * kept, turns * (cut - kept), [turns[:, :, 0] * x for x in shared]
    sides, with_q, with_v = sides_of(found.links, points, scene.blocks, scene.supports, turning.ahead), [], []
    moves = zip(*map(mobility.of_sides, _moves(scene, record)), strict=True)
    for side, ahead, (A, B) in zip(contacts.sides, sides, moves, strict=True):
        which = side.contact, side.second
        of_end = by_E[which] @ ahead.G
        with_q.append(by_T[which] @ side.G + of_end @ A)
        with_v.append(of_end @ B)
    of_start = row_changes(contacts, [v[side.dofs] for side in contacts.sides])

    def changes(of_chords: RowParts, of_start: RowParts) -> RowParts:
        cuts = of_chords.mapped(shared[0][:, None]).plus(of_start.mapped((shared[1] - shared[0])[:, None]))
        cuts = faces.summed(cuts).mapped(shared[2][:, :, None])
        return of_chords.mapped(kept).plus(of_start.mapped(cut)).plus(cuts)

    return TurningChanges(
        changes(RowParts(contacts.sides, with_q), of_start),
        changes(RowParts(contacts.sides, with_v), J),
        known,
        np.where(turns[:, 0, 0] > 0.0, distances, np.inf),
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


def _found_ahead(scene: SceneChanges, record: StepRecord, turning: TurningRecord, at: Indices) -> Ends:
    """What contacts ``at`` some places are ahead."""
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
    points, depths = out.points["x"][chosen], out.depths["x"][chosen]
    changes = changes_at(out, chosen, known, world[found.colliders[at, 0], :, 3])
    frames = out.frames["x"][chosen]
    return Ends(points, frames[:, :, 2], depths, coupling_of(changes, points, frames), known)


def _chords(
    scene: SceneChanges,
    record: StepRecord,
    turning: TurningRecord,
    start: Coupling,
    ends: Ends,
    at: Indices,
    faces: Faces,
) -> tuple[Array, Array, Array]:
    """``H`` (n, 3), and changes (n, 2, 3, 6) along twists of both links at the contact, and at that ahead."""
    found, n, colliders = record.contacts, len(at), record.contacts.colliders[at]
    frames, x, material = found.frames[at], found.points[at], scene.detector.arrays.material[colliders, :3]
    before, after = (T[colliders] for T in (record.search.world, _world_ahead(scene, record, turning)))
    belts = (before[..., :3] @ material[..., None])[..., 0]
    own = frames, x, found.depths[at], ends.normals, ends.points, ends.depths
    on_faces, middles = 1.0 * (turning.later[at] < NONE), faces.middles[at]
    moving = np.where(found.links[at, 1] < 0, 1.0, np.where(found.links[at, 0] < 0, -1.0, 0.0))
    marks = np.stack([moving, on_faces, faces.held[at]], axis=1)
    numbers = *own, marks, middles, before, after, belts
    chords = Chords(*[np.zeros((n, 4, *part.shape[1:]), DUALS) for part in numbers])
    for dual, part in zip(chords, numbers, strict=True):
        dual["x"] = part[:, None]
    for side in range(2):
        chords.frames["changes"][:, side, ..., :6] = start.frames[at, side]
        chords.starts["changes"][:, side, ..., :6] = start.points[at, side]
        chords.depths["changes"][:, side, ..., :6] = -start.gaps[at, side]
        chords.normals["changes"][:, 2 + side, ..., :6] = ends.coupling.frames[:, side, :, 2]
        chords.ends["changes"][:, 2 + side, ..., :6] = ends.coupling.points[:, side]
        chords.end_depths["changes"][:, 2 + side, ..., :6] = -ends.coupling.gaps[:, side]
        chords.before["changes"][:, side, side, ..., :6] = _twisted(before[:, side], x)
        chords.after["changes"][:, 2 + side, side, ..., :6] = _twisted(after[:, side], ends.points)
        chords.belts["changes"][:, side, side, :, 3:6] = -cross_matrices(belts[:, side])
    chords.middles["changes"][:, 0, ..., :6] = np.concatenate(
        [np.broadcast_to(np.eye(3), (n, 3, 3)), -cross_matrices(middles - x)], axis=2
    )
    flat = [part.reshape(-1, *part.shape[2:]) for part in chords[:8]]
    flat += [part.reshape(-1, *part.shape[3:]) for part in chords[8:]]
    out: Any = np.zeros((4 * n, 3), DUALS)
    find_chords(4 * n, scene.options.dt, Chords(*flat), out)
    changes = np.swapaxes(out["changes"][..., :6].reshape(n, 2, 2, 3, 6), 0, 1)
    return out["x"][::4], changes[0], changes[1]


def _twisted(T: Array, about: Array) -> Array:
    """Changes (n, 3, 4, 6) of poses along twists at points (n, 3)."""
    out = np.zeros((*T.shape, 6))
    out[:, :, 3, :3] = np.eye(3)
    for c in range(4):
        out[:, :, c, 3:] = -cross_matrices(T[:, :, c] - (about if c == 3 else 0.0))
    return out


def _cuts(H: Array, now: Array, alike: Array, faces: Faces) -> tuple[Array, Array, list[Array], Array, Array]:
    """How ``κ`` changes with ``H − u`` and with ``u`` (m, 3, 3 each), ``κ``, and distances (m,) of where it is cut.

    Of faces that are held, which are cut by one factor, it changes with sums over contacts of a pair, too: with what
    the first two of the third (m, 3 each) make of ``H − u`` and of ``u``, as its last one says.
    """
    m, raw = len(H), H - now
    kept, cut, out, shared = np.zeros((m, 3, 3)), np.zeros((m, 3, 3)), raw.copy(), [np.zeros((m, 3)) for _ in range(3)]
    squares = [(x[:, :2] ** 2).sum(axis=1) for x in (raw, now)]
    size, most = (np.sqrt(np.where(faces.held > 0.0, faces.sums(x), x)) for x in squares)
    kept[:, [0, 1, 2], [0, 1, 2]] = 1.0
    larger = size > most + alike
    k = np.flatnonzero(larger & (faces.held == 0.0))
    unit, along_now = raw[k, :2] / size[k, None], now[k, :2] / np.where(most > 0.0, most, 1.0)[k, None]
    out[k, :2] = most[k, None] * unit
    kept[k, :2, :2] = (most[k] / size[k])[:, None, None] * (np.eye(2) - unit[:, :, None] * unit[:, None])
    cut[k, :2, :2] = unit[:, :, None] * along_now[:, None]
    k = np.flatnonzero(larger & (faces.held > 0.0))
    part = (most[k] / size[k])[:, None]
    out[k, :2] = part * raw[k, :2]
    kept[k, :2, :2] = part[:, None] * np.eye(2)
    shared[0][k, :2], shared[1][k, :2] = (
        -raw[k, :2] / size[k, None] ** 2,
        now[k, :2] / np.maximum(most[k, None], FLOOR) ** 2,
    )
    shared[2][k, :2] = out[k, :2]
    opens, u = raw[:, 2], now[:, 2]
    least = np.minimum(u, 0.0)
    slides = np.where(size > alike, np.abs(size - most), np.inf)
    presses = np.where(opens < 0.0, np.minimum(np.abs(opens - least), np.abs(u)), opens)
    presses = np.where(np.abs(opens) > alike, presses, np.inf)
    below = opens < least - alike
    out[below, 2], kept[below, 2, 2], cut[below, 2, 2] = least[below], 0.0, 1.0 * (u[below] < 0.0)
    return kept, cut, shared, out, np.minimum(slides, presses)


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
