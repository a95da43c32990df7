"""How contacts that are sought later in a step change with the poses and velocities of the bodies that touch.

Such contacts (`delassus.contact.collision.paths`) are found anew on poses and twists with changes of either body.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from delassus.compiler.jit.compile import compiled_for
from delassus.constraints.paths import SLOP
from delassus.contact.changes.collision import dual_memory, duals, found_again
from delassus.contact.changes.contacts import Coupling, FoundContacts, Sides, cross_matrices, twist_changes, twisted
from delassus.contact.changes.record import StepRecord
from delassus.contact.collision import CollisionDetector
from delassus.contact.collision.colliders import LINK, ContactArrays
from delassus.contact.collision.narrow_phase import find_touching, number_contacts, unpack
from delassus.contact.collision.paths import CALM, FOLLOWED, LOOK, StepPaths, follow_paths
from delassus.contact.contacts import scales_of
from delassus.contact.snapshot import Indices
from delassus.solvers.islands.records import StepOptions
from delassus.spatial.rotations import Array

SAME = 1e-9
"""Distance, over the size of both colliders, up to which a contact is the one that the step has found."""

WAYS = 4
"""What each pair changes by: the pose of A, that of B, and the velocities of either."""


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


def path_changes(
    record: StepRecord, twists: Array, detector: CollisionDetector, options: StepOptions
) -> tuple[Indices, Coupling, Coupling]:
    """Numbers of all contacts that the step has found on paths, and that are found again so; and their changes.

    These are along twists at the contact point: of poses, and of velocities. ``twists`` (m, 2, 6) are those of the two
    links of each contact, at its point, in the axes of the world.
    """
    search, found, arrays = record.search, record.contacts, detector.arrays
    each = [np.flatnonzero((found.colliders == x).all(axis=1)) for x in search.pairs[search.followed == FOLLOWED]]
    first = np.array([x[0] for x in each if len(x)], np.int64)
    n, pairs, links = len(first), found.colliders[first], found.links[first]
    own = np.repeat(pairs, WAYS, axis=0).ravel()
    space = detector.space._replace(world=search.world, centres=search.centres)
    every, space, out = dual_memory(own, arrays, space)
    every.shapes[:, LINK] = np.where(every.shapes[:, LINK] >= 0, np.arange(len(own)), -1)
    poses, moving = _varied(record, links, found.points[first], twists[first], space.world)
    of_links = (np.append(x, 0.0)[links] for x in (search.reach, search.overlaps))
    reach, deepest = (np.repeat(x, WAYS, axis=0).ravel() for x in of_links)
    paths = StepPaths(
        options.dt, options.dt * options.tolerance, SLOP * options.penetration, options.touching, reach, poses, moving,
        deepest, np.zeros(len(own)), every, space,
    )  # fmt: skip
    m = find_on_paths(WAYS * n, paths, out)
    starts, counts = (x.reshape(n, WAYS) for x in (space.ends[: WAYS * n], np.diff(space.ends[: WAYS * n + 1])))
    pair, way = np.divmod(out.colliders[:m, 0] // 2, WAYS)
    out.colliders[:m] = np.where(way[:, None] == 0, pairs[pair], -1)
    row, known = found_again(found, out, m, arrays, SAME)
    at = np.flatnonzero(known)
    at = at[(counts == counts[:, :1]).all(axis=1)[pair[row[at]]]]
    pair = pair[row[at]]
    rows, to = row[at, None] + starts[pair] - starts[pair, :1], np.tile(np.eye(6), (len(at), 1, 1, 1))
    to[:, 0, :3, 3:] = -cross_matrices(found.points[first][pair] - found.points[at])  # from twists at the first contact
    changed = out.depths[:, None], out.points, out.frames, out.surface_velocities
    depths, *others = (x["changes"][rows][..., :6] @ (to[:, None] if x.ndim > 2 else to) for x in changed)
    parts = -depths[:, :, 0], *others
    with_poses, with_twists = (Coupling(*(x[:, k : k + 2] for x in parts)) for k in (0, 2))
    return at, with_poses, with_twists


def _varied(record: StepRecord, links: Indices, centres: Array, twists: Array, world: Any) -> tuple[Any, Any]:
    """Poses and twists of links of n pairs, each in `WAYS`; those of their colliders in ``world`` get their changes.

    They change along twists at ``centres`` (n, 3), where the twists of links (n, 2, 6) are held.
    """
    n, still = len(links), np.broadcast_to(np.eye(3, 4), (1, 3, 4))
    now = np.concatenate([record.poses, still])[links]
    arms = now[..., 3] - centres[:, None]
    poses, moving, worlds = duals((n, WAYS, 2, 3, 4)), duals((n, WAYS, 2, 6)), world.reshape(n, WAYS, 2, 3, 4)
    poses["x"], moving["x"] = now[:, None], twists[:, None]
    moving["x"][..., :3] += np.cross(twists[..., 3:], arms)[:, None]  # at origins of links
    for side in range(2):
        for x in (poses, worlds):
            x["changes"][:, side, side, ..., :6] = twisted(x["x"][:, side, side], centres)
        origins = twisted(now[:, side], centres)[:, :, 3]
        moving["changes"][:, side, side, :3, :6] = cross_matrices(twists[:, side, 3:]) @ origins
        moving["changes"][:, 2 + side, side, :, :6] = np.eye(6)
        moving["changes"][:, 2 + side, side, :3, 3:6] = origins[:, :, 3:]
    return poses.reshape(-1, 3, 4), moving.reshape(-1, 6)


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
    at, *with_each = path_changes(record, twists, detector, options)
    known[late] = False
    known[at] = True
    known &= ~(late & (record.correction.pushes > 0.0))
    with_twists = Coupling(*(np.zeros_like(x) for x in coupling))
    for x, y, of_poses, of_twists in zip(coupling, with_twists, *with_each, strict=True):
        x[at], y[at] = of_poses, of_twists
    both = plain._replace(couplings=[coupling, with_twists], causes=[*causes, twist_changes(sides, v)])
    return both, plain.by_velocities(with_twists)
