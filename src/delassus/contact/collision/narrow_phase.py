"""Contacts at given poses, from poses of links to arrays of contacts, in one compiled function.

Those of spheres and capsules with each other, of spheres with boxes and cylinders are distances of points and segments,
less radii. Of shapes A and B, ``n`` points from the core of B to that of A; the contact is midway between the
surfaces, of an open one with the world on that of the body that moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from delassus.compiler.jit.compile import compiled, compiled_for
from delassus.compiler.jit.loop_ops import emitted
from delassus.constraints.shapes import nearest_points
from delassus.contact.collision.colliders import (
    ANCHORED,
    BOX,
    CAPSULE,
    CYLINDER,
    HALF_SPACE,
    KIND,
    LINK,
    MOST_CONTACTS,
    RADIUS,
    SIZE,
    SPHERE,
    SURFACE,
    VERTICES,
    Colliders,
    CollisionMemory,
    ContactArrays,
    PairMemory,
    Solid,
)  # fmt: skip
from delassus.contact.collision.convex import convex_pair
from delassus.contact.collision.half_spaces import on_plane
from delassus.contact.collision.near_pairs import list_pairs, place_colliders
from delassus.contact.collision.surfaces import surface_pair
from delassus.contact.collision.vectors import (
    Vector,
    along,
    column,
    cross,
    dot,
    in_frame,
    in_world,
    norm,
    row_of,
    scaled,
    write,
)
from delassus.contact.filters import friction_of, given_or, radius_of
from delassus.spatial.rotations import Array

from_block: Callable[[Vector, Vector, float], tuple[float, Vector]] = emitted(nearest_points.from_block)
from_cylinder: Callable[[Vector, float, float, float], tuple[float, Vector]] = emitted(nearest_points.from_cylinder)
of_round_pair: Callable[..., Any] = emitted(nearest_points.round_pair)

INVALID_POSE, BUFFER_FULL = -1, -2
"""Instead of a number of contacts: some pose is not finite; the arrays are too small."""


@compiled_for("collision detection")
def find_contacts(
    poses: Array, reach: Array, gap: float, margin: float, colliders: Colliders, space: CollisionMemory,
    contacts: ContactArrays,
) -> int:  # fmt: skip
    """Write contacts at poses of links; returns how many, `INVALID_POSE` or `BUFFER_FULL`."""
    if not are_finite(poses, reach):
        return INVALID_POSE
    space.counts[1] = 1
    place_colliders(0, colliders.shapes.shape[0], poses, reach, gap, colliders, space)
    pairs = find_near_pairs(poses, reach, gap, margin, colliders, space)
    if pairs < 0:
        return pairs
    find_touching(0, pairs, reach, gap, colliders, space)
    count = number_contacts(space)
    unpack(0, pairs, colliders, space, contacts)
    return count


@compiled
def are_finite(poses: Array, reach: Array) -> bool:
    """Whether all poses, and what links may move, are finite numbers."""
    finite = 0.0
    for i in range(poses.shape[0]):
        finite += 0.0 * reach[i]
        for r in range(3):
            for c in range(4):
                finite += 0.0 * poses[i, r, c]
    return finite == 0.0


@compiled
def find_near_pairs(
    poses: Array, reach: Array, gap: float, margin: float, colliders: Colliders, space: CollisionMemory
) -> int:
    """List near pairs, if their list is not valid; returns how many they are, `INVALID_POSE` or `BUFFER_FULL`.

    Shapes apart touch if their gap is at most ``gap`` and the ``reach`` (n_links,) of their two links. The list is made
    for motions of half the ``margin`` (m); it is not valid where colliders' poses are not finite.
    """
    if space.counts[1] == 0:
        if not are_finite(poses, reach):
            return INVALID_POSE
        count = list_pairs(reach, gap, margin, colliders, space)
        space.counts[0] = count
        if count > space.pairs.shape[0]:
            space.bounds[0, 6] = -1.0
            return BUFFER_FULL
    return int(space.counts[0])


@compiled
def find_touching(begin: int, end: int, reach: Array, gap: float, colliders: Colliders, space: CollisionMemory) -> None:
    """Find contacts of some near pairs, and how many each has."""
    shapes = colliders.shapes
    for k in range(begin, end):
        i, j, first = space.pairs[k, 0], space.pairs[k, 1], MOST_CONTACTS * k
        space.ends[k + 1] = 0
        most = most_gap(i, j, reach, gap, colliders)
        if shapes[i, KIND] != HALF_SPACE and shapes[j, KIND] != HALF_SPACE:
            d, far = along(row_of(space.centres, i), -1.0, row_of(space.centres, j)), most
            far += shapes[i, RADIUS] + shapes[j, RADIUS]
            if d[0] * d[0] + d[1] * d[1] + d[2] * d[2] > far * far:
                continue
        a, b = Solid(shapes[i], space.world[i]), Solid(shapes[j], space.world[j])
        space.ends[k + 1] = touch(a, b, most, colliders, space.work, space.found, first)


@compiled
def most_gap(i: int, j: int, reach: Array, gap: float, colliders: Colliders) -> float:
    """Gap (m) up to which two colliders touch."""
    most = gap
    for c in (i, j):
        if colliders.shapes[c, LINK] >= 0:
            most += reach[int(colliders.shapes[c, LINK])]
    return most


@compiled
def touch(a: Solid, b: Solid, most: float, colliders: Colliders, memory: PairMemory, out: Array, first: int) -> int:
    """Contacts of two colliders as rows of ``out`` from ``first``; returns how many."""
    hulls, work, m, turned = colliders.hulls, memory.rows, first, a.shape[KIND] > b.shape[KIND]
    if turned:
        a, b = Solid(b.shape, b.pose), Solid(a.shape, a.pose)
    kind, other = int(a.shape[KIND]), int(b.shape[KIND])
    if other == HALF_SPACE:
        m = on_plane(a.shape, a.pose, hulls[VERTICES], b.pose, most, work[0], out, m)
    elif (kind == SPHERE and other <= CYLINDER) or (kind == CAPSULE and other == CAPSULE):
        m = round_pair(a, b, most, out, m)
    elif other == SURFACE:
        m = surface_pair(a, b, colliders, most, memory, out, m)
    else:
        m = convex_pair(a, b, hulls, most, work, out, m)
    on_what_moves(a, b, out, first, m)
    if turned:
        for r in range(first, m):
            out[r, 4], out[r, 5], out[r, 6] = -out[r, 4], -out[r, 5], -out[r, 6]
    return m - first


@compiled
def on_what_moves(a: Solid, b: Solid, out: Array, begin: int, end: int) -> None:
    """Move open contacts with what is anchored, midway between the surfaces, onto the body that moves.

    There they are when their gap is closed, so that impulses have the arms of then.
    """
    side = 0.5 * (b.shape[ANCHORED] - a.shape[ANCHORED])
    for r in range(begin, end):
        for c in range(3):
            out[r, 1 + c] += side * max(-out[r, 7], 0.0) * out[r, 4 + c]


@compiled
def number_contacts(space: CollisionMemory) -> int:
    """Turn numbers of contacts of near pairs into where those of each end; returns how many there are."""
    space.ends[0] = 0
    for k in range(space.counts[0]):
        space.ends[k + 1] += space.ends[k]
    return int(space.ends[space.counts[0]])


@compiled
def unpack(begin: int, end: int, colliders: Colliders, space: CollisionMemory, contacts: ContactArrays) -> None:
    """Spread contacts of some near pairs over the arrays of a contact set."""
    material = colliders.material
    for pair in range(begin, end):
        i, j = space.pairs[pair, 0], space.pairs[pair, 1]
        friction = friction_of(colliders.friction_rule, material[i, 3], material[j, 3])
        restitution = math.sqrt(material[i, 4] * material[j, 4])
        torsional = radius_of(colliders.friction_rule, material[i, 5], material[j, 5])
        rolling = radius_of(colliders.friction_rule, material[i, 6], material[j, 6])
        if colliders.pairs.shape[0] > 0:
            friction = given_or(colliders.pairs[i, j, 0], friction)
            torsional = given_or(colliders.pairs[i, j, 1], torsional)
            rolling = given_or(colliders.pairs[i, j, 2], rolling)
        for k in range(space.ends[pair], space.ends[pair + 1]):
            found = space.found[MOST_CONTACTS * pair + k - space.ends[pair]]
            contacts.colliders[k, 0], contacts.links[k, 0] = i, int(colliders.shapes[i, LINK])
            contacts.colliders[k, 1], contacts.links[k, 1] = j, int(colliders.shapes[j, LINK])
            contacts.friction[k], contacts.restitution[k], contacts.depths[k] = friction, restitution, found[7]
            contacts.torsional[k], contacts.rolling[k] = torsional, rolling
            belt = in_world(space.world[i], row_of(material, i))
            belt = along(belt, -1.0, in_world(space.world[j], row_of(material, j)))
            write_frame(contacts, k, (found[4], found[5], found[6]), belt)
            for r in range(3):
                contacts.points[k, r] = found[1 + r]


@compiled
def write_frame(contacts: ContactArrays, k: int, n: Vector, belt: Vector) -> None:
    """Axes of a contact with the normal ``n``, and velocities along them of surfaces that move by ``belt``."""
    # first tangent: the normal times the unit vector that is furthest from it
    if abs(n[0]) <= abs(n[1]) and abs(n[0]) <= abs(n[2]):
        t = cross(n, (1.0, 0.0, 0.0))
    elif abs(n[1]) <= abs(n[2]):
        t = cross(n, (0.0, 1.0, 0.0))
    else:
        t = cross(n, (0.0, 0.0, 1.0))
    t = scaled(1.0 / norm(t), t)
    s = cross(n, t)
    contacts.surface_velocities[k, 0], contacts.surface_velocities[k, 1] = dot(belt, t), dot(belt, s)
    for r in range(3):
        contacts.frames[k, r, 0], contacts.frames[k, r, 1], contacts.frames[k, r, 2] = t[r], s[r], n[r]


@compiled
def round_pair(a: Solid, b: Solid, most: float, out: Array, m: int) -> int:
    """Contacts of a sphere with a box or cylinder, or of spheres and capsules: two of capsules side by side."""
    radius, x, y = a.shape[SIZE], column(a.pose, 3), column(b.pose, 3)
    if b.shape[KIND] == BOX or b.shape[KIND] == CYLINDER:
        own, half = in_frame(b.pose, along(x, -1.0, y)), (b.shape[SIZE], b.shape[SIZE + 1], b.shape[SIZE + 2])
        gap, n = from_block(own, half, radius) if b.shape[KIND] == BOX else from_cylinder(own, half[0], half[1], radius)
        if gap - radius > most:
            return m
        n = in_world(b.pose, n)
        return write(out, m, along(x, -0.5 * (gap + radius), n), n, radius - gap)
    axis = column((b if a.shape[KIND] == SPHERE else a).pose, 2)
    of_a, of_b = (x, axis, a.shape[SIZE + 1], radius), (y, column(b.pose, 2), b.shape[SIZE + 1], b.shape[SIZE])
    (first, last), twice = of_round_pair(of_a, of_b, column(b.pose, 0), a.shape[RADIUS] + b.shape[RADIUS])
    if first[0] <= most:
        m = write(out, m, first[2], first[1], -first[0])
    if twice > 0.0 and last[0] <= most:
        m = write(out, m, last[2], last[1], -last[0])
    return m
