"""How contacts change with the poses of the bodies that touch: the search for them, on numbers with their changes.

Of each near pair the collider A moves along the six twists in the axes of the world, about its own origin, while B
stands still. Moved together, both carry their contacts along, so that nothing else is needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from delassus.compiler.jit.compile import compiled_for
from delassus.compiler.jit.types import DUALS
from delassus.contact.changes.contacts import Coupling, cross_matrices, twisted
from delassus.contact.collision.colliders import (
    MOST_CONTACTS,
    RADIUS,
    Colliders,
    CollisionMemory,
    ContactArrays,
    pair_memory,
)
from delassus.contact.collision.narrow_phase import find_touching, number_contacts, unpack
from delassus.contact.snapshot import Indices
from delassus.spatial.rotations import Array

SAME = 1e-5
"""Distance, over the size of both colliders, up to which a contact is one that the step has found: above the errors of
normals of what is curved, which iterations end at roots of the round-off of a gap."""


@compiled_for("derivatives of contacts")
def find_changes(
    n: int, reach: Array, gap: float, colliders: Colliders, space: CollisionMemory, out: ContactArrays
) -> int:
    """Contacts of ``n`` pairs, with changes where the poses of colliders have them; their number."""
    find_touching(0, n, reach, gap, colliders, space)
    count = number_contacts(space)
    unpack(0, n, colliders, space, out)
    return count


def contact_changes(
    pairs: Indices, reach: Array, gap: float, colliders: Colliders, space: CollisionMemory, found: ContactArrays
) -> tuple[Coupling, Any]:
    """Changes of the contacts ``found`` of near ``pairs`` (n, 2), as a search with ``reach`` and ``gap`` has them.

    And whether each was found again. ``space`` holds the poses of colliders, ``found`` the contacts of these pairs in
    their order.
    """
    out, m = searched(pairs, reach, gap, colliders, space)
    at, known = found_again(found, out, m, colliders)
    return coupling_at(out, at, space.world[found.colliders[:, 0], :, 3], found.points, found.frames), known


def coupling_at(out: Any, at: Indices, about: Array, points: Array, frames: Array) -> Coupling:
    """Changes along twists of both bodies at ``points`` of contacts ``at`` places among those that were `searched`.

    Those are along twists of A about ``about`` (n, 3), B still.
    """
    m = len(points)
    to = np.broadcast_to(np.eye(6), (m, 6, 6)).copy()
    to[:, :3, 3:] = -cross_matrices(about - points)
    every = out.depths[:, None], out.points, out.frames, out.surface_velocities
    depths, own_points, own_frames, belts = (
        x[at]["changes"][..., :6] @ (to[:, None] if x.ndim > 2 else to) for x in every
    )
    depths = depths[:, 0]
    carried, turned = np.zeros((m, 3, 6)), np.zeros((m, 3, 3, 6))
    carried[:, :, :3] = np.eye(3)
    turned[..., 3:] = np.swapaxes(cross_matrices(-np.swapaxes(frames, 1, 2)), 1, 2)
    return Coupling(
        np.stack([-depths, depths], axis=1),
        np.stack([own_points, carried - own_points], axis=1),
        np.stack([own_frames, turned - own_frames], axis=1),
        np.stack([belts, -belts], axis=1),
    )


def searched(pairs: Indices, reach: Array, gap: float, colliders: Colliders, space: CollisionMemory) -> tuple[Any, int]:
    """Contacts of near ``pairs`` in their order, with changes along twists of A, and their number; rows to spare."""
    every, memory, out = dual_memory(pairs.ravel(), colliders, space)
    first: Any = memory.world[::2]
    first["changes"][..., :6] = twisted(first["x"], first["x"][:, :, 3])
    m = find_changes(len(pairs), reach, gap, every, memory, out)
    out.colliders[:m] = pairs[out.colliders[:m, 0] // 2]
    return out, m


def dual_memory(own: Indices, colliders: Colliders, space: CollisionMemory) -> tuple[Colliders, CollisionMemory, Any]:
    """Colliders in their ``own`` order, two of each pair, and memory for contacts on numbers with changes."""
    n, world, every = len(own) // 2, duals((len(own), 3, 4)), MOST_CONTACTS * (len(own) // 2)
    world["x"] = space.world[own]
    memory = space._replace(
        world=world, centres=space.centres[own], pairs=np.arange(2 * n).reshape(-1, 2),
        work=pair_memory(space.work.rows.shape[1], duals), ends=np.zeros(n + 1, np.int64), found=duals((every, 8)),
        paths=duals((n, 5)), counts=np.array([n, 1]),
    )  # fmt: skip
    numbers, indices = np.zeros(every), np.zeros((every, 2), np.int64)
    out: Any = ContactArrays(
        indices, duals((every, 3)), duals((every, 3, 3)), duals(every), numbers, numbers.copy(), indices.copy(),
        duals((every, 2)), numbers.copy(), numbers.copy(),
    )  # fmt: skip
    of_pairs = {name: getattr(colliders, name)[own] for name in ("shapes", "local", "material")}
    return colliders._replace(**of_pairs), memory, out


def duals(shape: int | tuple[int, ...]) -> Any:
    """Zeros with changes."""
    return np.zeros(shape, DUALS)


def found_again(
    found: ContactArrays, other: Any, m: int, colliders: Colliders, same: float = SAME
) -> tuple[Indices, Any]:
    """For each contact which of ``m`` others it is, the nearest of the same colliders, and whether it is that one."""
    n, radii = len(found.points), colliders.shapes[found.colliders, RADIUS]
    sizes = np.where(np.isfinite(radii), radii, 0.0).sum(axis=1)
    if n == m and (found.colliders == other.colliders[:m]).all():
        at = np.arange(n)
        if _distances(found, other, at, sizes).max(initial=0.0) < same:
            return at, np.ones(n, bool)
    if not m:
        return np.zeros(n, np.int64), np.zeros(n, bool)
    most = 1 + max(found.colliders.max(), other.colliders[:m].max())
    pair, pairs = (x[:, 0] * most + x[:, 1] for x in (found.colliders, other.colliders[:m]))
    order = np.argsort(pairs, kind="stable")
    first, end = (np.searchsorted(pairs[order], pair, side) for side in ("left", "right"))
    nearest, at = np.full(n, np.inf), np.zeros(n, np.int64)
    for k in range(int((end - first).max())):
        one = order[np.minimum(first + k, m - 1)]
        distance = np.where(first + k < end, np.abs(other.points["x"][one] - found.points).max(axis=1), np.inf)
        closer = distance < nearest
        nearest, at = np.where(closer, distance, nearest), np.where(closer, one, at)
    return at, (nearest < np.inf) & (_distances(found, other, at, sizes) < same)


def _distances(found: ContactArrays, other: Any, at: Indices, sizes: Array) -> Array:
    """How far contacts differ from others, over the sizes (n,) of their colliders (m), and in their axes."""
    points = np.abs(other.points["x"][at] - found.points).max(axis=1, initial=0.0) / sizes
    return np.asarray(points + np.abs(other.frames["x"][at] - found.frames).max(axis=(1, 2), initial=0.0))
