"""How contacts that are sought later in a step change with the poses and velocities of the bodies that touch.

Such contacts (`delassus.contact.collision.paths`) are found anew for poses and twists of either body that differ by a
little, side by side: central differences, whose errors are the round-off of a contact over the difference.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from delassus.compiler.jit.compile import compiled_for
from delassus.constraints.paths import SLOP
from delassus.contact.changes.contacts import Coupling, FoundContacts, Sides, cross_matrices, twist_changes
from delassus.contact.changes.record import StepRecord
from delassus.contact.collision import CollisionDetector
from delassus.contact.collision.colliders import CENTRE, HALF, LINK, RADIUS, ContactArrays, workspace
from delassus.contact.collision.narrow_phase import find_touching, number_contacts, unpack
from delassus.contact.collision.paths import CALM, FOLLOWED, LOOK, StepPaths, follow_paths
from delassus.contact.contacts import scales_of
from delassus.contact.snapshot import Indices
from delassus.solvers.islands.records import StepOptions
from delassus.spatial.rotations import Array

STEP = 1e-6
"""Difference: an angle, and a length over the size of both colliders."""

SAME = 1e-9
"""Distance, over that size, up to which a contact is the one that the step has found."""


class PathChanges(NamedTuple):
    """Of some contacts their numbers, and changes along twists at the contact point: of poses, and of velocities."""

    contacts: Indices
    with_poses: Coupling
    with_twists: Coupling


@compiled_for("derivatives of contacts on paths")
def find_on_paths(n: int, paths: StepPaths, out: ContactArrays) -> int:
    """Contacts of ``n`` pairs on their paths; their number."""
    space = paths.space
    find_touching(0, n, paths.reach, paths.gap, paths.colliders, space)
    for k in range(n):
        space.paths[k, 0], space.paths[k, 1] = LOOK, np.inf
    follow_paths(0, n, paths)
    count = number_contacts(space)
    unpack(0, n, paths.colliders, space, out)
    return count


def path_changes(record: StepRecord, twists: Array, detector: CollisionDetector, options: StepOptions) -> PathChanges:
    """Changes of all contacts that the step has found on paths, and that are found again so.

    ``twists`` (m, 2, 6) are those of the two links of each contact, at its point, in the axes of the world.
    """
    search, found = record.search, record.contacts
    first = _first_of_pairs(search.pairs[search.followed == FOLLOWED], found)
    if not len(first):
        return PathChanges(first, *(_empty(0), _empty(0)))
    arrays, pairs, centres = detector.arrays, found.colliders[first], found.points[first]
    n, N = len(first), 49
    sizes = np.minimum(arrays.shapes[pairs, RADIUS], 1e3).sum(axis=1)
    worlds, poses, moving = _varied(record, pairs, found.links[first], centres, twists[first], sizes, options.dt)
    shapes = np.repeat(arrays.shapes[pairs], N, axis=0).reshape(-1, arrays.shapes.shape[1])
    links = np.arange(2 * n * N)
    reached = np.append(search.reach, 0.0)[found.links[first]]
    deepest = np.append(search.overlaps, 0.0)[found.links[first]]
    shapes[:, LINK] = np.where(shapes[:, LINK] >= 0, links, -1)
    own = np.repeat(pairs, N, axis=0).ravel()
    every = arrays._replace(shapes=shapes, local=arrays.local[own], material=arrays.material[own])
    space, out = workspace(every, n * N)
    space.pairs[:] = links.reshape(-1, 2)
    space.world[:] = worlds
    space.centres[:] = worlds[:, :, 3] + np.einsum("nij,nj->ni", worlds[:, :, :3], shapes[:, CENTRE:HALF])
    space.counts[:] = n * N, 1
    of_links = [np.repeat(x, N, axis=0).ravel() for x in (reached, deepest)]
    paths = StepPaths(
        options.dt, options.dt * options.tolerance, SLOP * options.penetration, options.touching, of_links[0], poses,
        moving, of_links[1], np.zeros(len(links)), every, space,
    )  # fmt: skip
    find_on_paths(n * N, paths, out)
    return _differences(out, space.ends[: n * N + 1], N, found, first, sizes, options.dt)


def _first_of_pairs(pairs: Indices, found: ContactArrays) -> Indices:
    """The first contact of each pair that has one."""
    out = [np.flatnonzero((found.colliders == pair).all(axis=1)) for pair in pairs]
    return np.array([x[0] for x in out if len(x)], np.int64)


def _varied(
    record: StepRecord, pairs: Indices, links: Indices, centres: Array, twists: Array, sizes: Array, dt: float
) -> tuple[Array, Array, Array]:
    """Poses of colliders and of links, and twists of these: of each pair as it is, and with 24 differences either way.

    These are twists at ``centres`` (n, 3).
    """
    n, N = len(pairs), 49
    world = np.tile(record.search.world[pairs][:, None], (1, N, 1, 1, 1))  # (n, N, 2, 3, 4)
    still = np.broadcast_to(np.eye(3, 4), (1, 3, 4))
    poses = np.tile(np.concatenate([record.poses, still])[links][:, None], (1, N, 1, 1, 1))
    moving = np.tile(twists[:, None], (1, N, 1, 1))
    for c in range(24):
        side, axis = c // 6 % 2, c % 6
        for sign, at in ((1.0, 1 + 2 * c), (-1.0, 2 + 2 * c)):
            slide, turn = np.zeros((n, 3)), np.zeros(3)
            if axis < 3:
                slide[:, axis] = sign * STEP * sizes
            else:
                turn[axis - 3] = sign * STEP
            if c >= 12:
                moving[:, at, side, :3] += slide / dt
                moving[:, at, side, 3:] += turn / dt
                continue
            R = _rotation(turn)
            for x in (world, poses):
                moved = x[:, at, side]
                moved[:, :, :3] = R @ moved[:, :, :3]
                moved[:, :, 3] = (moved[:, :, 3] - centres) @ R.T + centres + slide
    arms = poses[..., 3] - centres[:, None, None]
    moving[..., :3] += np.cross(moving[..., 3:], arms)  # at origins of links
    return world.reshape(-1, 3, 4), poses.reshape(-1, 3, 4), moving.reshape(-1, 6)


def _rotation(w: Array) -> Array:
    """Rotation by a small vector, to third order."""
    K = np.array([[0.0, -w[2], w[1]], [w[2], 0.0, -w[0]], [-w[1], w[0], 0.0]])
    return np.asarray(np.eye(3) + K + 0.5 * K @ K + K @ K @ K / 6.0)


def _differences(
    out: ContactArrays, ends: Indices, N: int, found: ContactArrays, first: Indices, sizes: Array, dt: float
) -> PathChanges:
    """Those of contacts that are found again, in the same order, in all of the ``N`` variants of their pair."""
    at, places = list[int](), list[Indices]()
    scales, firsts = list[float](), list[int]()
    for k, begin in enumerate(first.tolist()):
        of_pair = np.flatnonzero((found.colliders == found.colliders[begin]).all(axis=1))
        starts = ends[N * k : N * k + N]
        counts = np.diff(ends[N * k : N * k + N + 1])
        if not (counts == counts[0]).all():
            continue
        for i in of_pair.tolist():
            own = starts[0] + np.arange(counts[0])
            apart = np.abs(out.points[own] - found.points[i]).max(axis=1) / sizes[k]
            apart += np.abs(out.frames[own] - found.frames[i]).max(axis=(1, 2))
            apart += np.abs(out.depths[own] - found.depths[i]) / sizes[k]
            if len(own) and apart.min() < SAME:
                at.append(i)
                places.append(starts + int(np.argmin(apart)))
                scales.append(sizes[k])
                firsts.append(begin)
    if not at:
        return PathChanges(np.zeros(0, np.int64), _empty(0), _empty(0))
    rows, length = np.array(places), np.array(scales)
    step = np.tile(np.repeat([1.0, 0.0], 3), (len(at), 4, 1))
    step = np.where(step > 0.0, STEP * length[:, None, None], STEP) / np.array([1.0, 1.0, dt, dt])[:, None]

    to = np.tile(np.eye(6), (len(at), 1, 1))  # from twists at the first contact of the pair to those at its own point
    to[:, :3, 3:] = -cross_matrices(found.points[firsts] - found.points[at])

    def changes(x: Array) -> Any:
        """(m, 4, …, 6): of poses of A and of B, of velocities of A and of B."""
        apart = 0.5 * (x[rows[:, 1::2]] - x[rows[:, 2::2]])
        apart = np.moveaxis(apart.reshape(len(at), 4, 6, *x.shape[1:]), 2, -1)
        apart = apart / step.reshape(len(at), 4, *(1,) * (x.ndim - 1), 6)
        return np.einsum("mk...i,mij->mk...j", apart, to)

    parts = -changes(out.depths), changes(out.points), changes(out.frames), changes(out.surface_velocities)
    return PathChanges(np.array(at), *(Coupling(*(x[:, k : k + 2] for x in parts)) for k in (0, 2)))


def _empty(m: int) -> Coupling:
    return Coupling(np.zeros((m, 2, 6)), np.zeros((m, 2, 3, 6)), np.zeros((m, 2, 3, 3, 6)), np.zeros((m, 2, 2, 6)))


def on_paths(record: StepRecord) -> Any:
    """Which contacts of a step are those of a path (m,)."""
    search = record.search
    return (record.contacts.colliders[:, None] == search.pairs[search.followed != CALM]).all(axis=2).any(axis=1)


def contacts_on_paths(
    record: StepRecord, sides: list[Sides], coupling: Coupling, known: Any, detector: CollisionDetector,
    options: StepOptions,
) -> tuple[FoundContacts, FoundContacts | None]:  # fmt: skip
    """Contacts as they change with positions, and with velocities where some are on paths.

    In place: which of them are known. Of those on paths that are pushed apart, the changes are not.
    """
    late, causes = on_paths(record), [[side.G for side in sides]]
    found, v = record.contacts, [record.v[side.dofs] for side in sides]
    plain = FoundContacts(found.frames, scales_of(found), sides, [coupling], causes)
    if not late.any():
        return plain, None
    twists = np.zeros((len(late), 2, 6))
    for side, own in zip(sides, v, strict=True):
        twists[side.contact, side.second] = (side.G @ own[..., None])[..., 0]
    changes = path_changes(record, twists, detector, options)
    known[late] = False
    known[changes.contacts] = True
    known &= ~(late & (record.correction.pushes > 0.0))
    with_twists = Coupling(*(np.zeros_like(x) for x in coupling))
    for x, y, of_poses, of_twists in zip(coupling, with_twists, changes.with_poses, changes.with_twists, strict=True):
        x[changes.contacts], y[changes.contacts] = of_poses, of_twists
    both = plain._replace(couplings=[coupling, with_twists], causes=[*causes, twist_changes(sides, v)])
    return both, plain.by_velocities(with_twists)
