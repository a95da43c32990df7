"""Contacts at given poses, from poses of links to arrays of contacts, in one compiled function."""

from __future__ import annotations

import math

from delassus.compiler.jit.compile import compiled
from delassus.contact.collision.colliders import (
    CAPSULE,
    CYLINDER,
    HALF_SPACE,
    KIND,
    LINK,
    RADIUS,
    SPHERE,
    SURFACE,
    VERTICES,
    Colliders,
    ContactArrays,
    Workspace,
)  # fmt: skip
from delassus.contact.collision.convex import convex_pair
from delassus.contact.collision.half_spaces import on_plane
from delassus.contact.collision.near_pairs import collider_poses, list_is_valid, list_pairs
from delassus.contact.collision.spheres_capsules import round_pair
from delassus.contact.collision.surfaces import surface_pair
from delassus.contact.collision.vectors import along, cross, dot, in_world, norm, row_of, scaled
from delassus.spatial.rotations import Array

INVALID_POSE, BUFFER_FULL = -1, -2
"""Instead of a number of contacts: some pose is not finite; the arrays are too small."""


@compiled
def find_contacts(
    poses: Array, reach: Array, gap: float, margin: float, colliders: Colliders, space: Workspace,
    contacts: ContactArrays,
) -> int:  # fmt: skip
    """Write contacts at poses of links; returns how many, `INVALID_POSE` or `BUFFER_FULL`.

    Shapes apart touch if their gap is at most ``gap`` and the ``reach`` (n_links,) of their two links. The list of near
    pairs is made for motions of half the ``margin`` (m).
    """
    finite = 0.0
    for i in range(poses.shape[0]):
        finite += 0.0 * reach[i]
        for r in range(3):
            for c in range(4):
                finite += 0.0 * poses[i, r, c]
    if not finite == 0.0:
        return INVALID_POSE
    collider_poses(poses, colliders, space)
    if not list_is_valid(reach, gap, colliders, space):
        count = list_pairs(reach, gap, margin, colliders, space)
        space.counts[0] = count
        if count > space.pairs.shape[0]:
            space.listed[0] = -1.0
            return BUFFER_FULL
    find_touching(reach, gap, colliders, space)
    unpack(colliders, space, contacts)
    return int(space.counts[1])


@compiled
def find_touching(reach: Array, gap: float, colliders: Colliders, space: Workspace) -> None:
    """Find contacts of near pairs."""
    shapes, world, hulls, out, work = colliders.shapes, space.world, colliders.hulls, space.found, space.work
    m = 0 * space.counts[0]  # no literal: that is a type of its own
    for k in range(space.counts[0]):
        i, j, first = space.pairs[k, 0], space.pairs[k, 1], m
        most, turned = gap, shapes[i, KIND] > shapes[j, KIND]
        for c in (i, j):
            if shapes[c, LINK] >= 0:
                most += reach[int(shapes[c, LINK])]
        if turned:
            i, j = j, i
        kind, other = int(shapes[i, KIND]), int(shapes[j, KIND])
        if other == HALF_SPACE:
            m = on_plane(shapes[i], world[i], hulls[VERTICES], world[j], most, work[0], out, m)
        else:
            d, far = along(row_of(space.centres, i), -1.0, row_of(space.centres, j)), most
            far += shapes[i, RADIUS] + shapes[j, RADIUS]
            if d[0] * d[0] + d[1] * d[1] + d[2] * d[2] > far * far:
                continue
            if (kind == SPHERE and other <= CYLINDER) or (kind == CAPSULE and other == CAPSULE):
                m = round_pair(shapes[i], world[i], shapes[j], world[j], most, out, m)
            elif other == SURFACE:
                m = surface_pair(
                    shapes[i], world[i], shapes[j], world[j], hulls, colliders.surfaces, most, work, out, m
                )
            else:
                m = convex_pair(shapes[i], world[i], shapes[j], world[j], hulls, most, work, out, m)
        for r in range(first, m):
            out[r, 0] = k
            if turned:
                out[r, 4], out[r, 5], out[r, 6] = -out[r, 4], -out[r, 5], -out[r, 6]
    space.counts[1] = m


@compiled
def unpack(colliders: Colliders, space: Workspace, contacts: ContactArrays) -> None:
    """Spread contacts over the arrays of a contact set."""
    found, material = space.found, colliders.material
    for k in range(space.counts[1]):
        pair = int(found[k, 0])
        for c in range(2):
            i = space.pairs[pair, c]
            contacts.colliders[k, c], contacts.links[k, c] = i, int(colliders.shapes[i, LINK])
        i, j = space.pairs[pair, 0], space.pairs[pair, 1]
        contacts.friction[k] = math.sqrt(material[i, 3] * material[j, 3])
        contacts.restitution[k] = math.sqrt(material[i, 4] * material[j, 4])
        contacts.depths[k] = found[k, 7]
        n = (found[k, 4], found[k, 5], found[k, 6])
        # first tangent: the normal times the unit vector that is furthest from it
        if abs(n[0]) <= abs(n[1]) and abs(n[0]) <= abs(n[2]):
            t = cross(n, (1.0, 0.0, 0.0))
        elif abs(n[1]) <= abs(n[2]):
            t = cross(n, (0.0, 1.0, 0.0))
        else:
            t = cross(n, (0.0, 0.0, 1.0))
        t = scaled(1.0 / norm(t), t)
        s = cross(n, t)
        belt = in_world(space.world[i], row_of(material, i))
        belt = along(belt, -1.0, in_world(space.world[j], row_of(material, j)))
        contacts.surface_velocities[k, 0], contacts.surface_velocities[k, 1] = dot(belt, t), dot(belt, s)
        for r in range(3):
            contacts.points[k, r] = found[k, 1 + r]
            contacts.frames[k, r, 0], contacts.frames[k, r, 1], contacts.frames[k, r, 2] = t[r], s[r], n[r]
