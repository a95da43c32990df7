"""Colliders of a scene as arrays for compiled functions; meshes as convex hulls, with flat faces as whole polygons."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.contact.collision.filters import Solids, may_collide
from delassus.errors import ConfigurationError, require
from delassus.model.shapes import Box, Capsule, Cylinder, HalfSpace, Mesh, Shape, Sphere
from delassus.spatial.rotations import Array

SPHERE, CAPSULE, BOX, CYLINDER, HULL, SURFACE, HALF_SPACE = range(7)
"""Kinds of shapes; a hull is a convex mesh, a surface any other."""

KIND, LINK, SIZE, RADIUS, CORE, CENTRE, HALF = 0, 1, 2, 5, 6, 7, 10
"""Columns of `Colliders.shapes`: kind and link; three sizes (radius and half length; or half edges); radius of a ball
that holds the shape, and of one that holds what a rotation moves, about the centre; centre and half edges of a box that
holds the shape, in its frame."""
FIRST_VERTEX, N_VERTICES, FIRST_FACE, N_FACES = 13, 14, 15, 16
"""Columns of meshes: ranges of vertices and faces."""
COLUMNS = 17

VERTICES, ENDS, CORNERS, NORMALS = range(4)
"""Parts of `Colliders.hulls`."""

MOST_POINTS = 8
"""Contacts of one pair."""

MOST_CORNERS, MOST_FACES = 128, 256
"""Of a polytope that expands: closed ones have 2 n − 4 triangles."""

FLAT = 1e-5
"""Neighbouring triangles are one face if their unit normals differ by less, and their planes by less than this part of
the size: files hold single-precision numbers."""


class Colliders(NamedTuple):
    """Colliders as arrays.

    Attributes
    ----------
    shapes : (n, 17) array
        See `KIND` and the other columns.
    local : (n, 3, 4) array
        ``[R p]`` of each collider in the body frame of its link.
    hulls : tuple
        Of all convex hulls: corners in the frames of their colliders (n_vertices, 3); where the corners of face *f* are
        in the next array, ``ends[f]`` to ``ends[f + 1]``; those corners, rows of vertices, counterclockwise seen from
        outside; outward normals (n_faces, 3). See `VERTICES` and the others.
    material : (n, 2) array
        Friction and restitution of each collider.
    allowed : (n, n) array of bool
        Which pairs may touch; symmetric.
    """

    shapes: Array
    local: Array
    hulls: tuple[Any, ...]
    material: Array
    allowed: NDArray[np.bool_]


class Workspace(NamedTuple):
    """Memory of a search for contacts, for compiled functions; what they know from one call to the next.

    Attributes
    ----------
    world, before : (n, 3, 4) arrays
        ``[R p]`` of colliders in the world, now and when near pairs were listed.
    centres : (n, 3) array
        Centres of colliders in the world.
    listed : (n,) array
        How far each collider may have moved, or be going to move, for the list of near pairs to hold (m).
    bounds : (n, 6) array
        Boxes along the world's axes around colliders: lower and upper corners.
    order : (n,) array of int
        Colliders, sorted along an axis.
    ranges : (2, n + 1) array of int
        Where pairs of each collider begin and end, while they are sorted.
    pairs : (most, 2) array of int
        Near pairs: A and B.
    left : (most,) array of int
        Rows of near pairs of which at least one is a mesh that is not convex.
    found : (8 most, 8) array
        Contacts: row of their pair, point, normal, depth.
    work : (4, rows, 7) array
        For simplices, polytopes and polygons: places of corners, and what belongs to them.
    counts : (3,) array of int
        How many near pairs, contacts, and pairs that are left there are.
    """

    world: Array
    before: Array
    centres: Array
    listed: Array
    bounds: Array
    order: NDArray[np.int64]
    ranges: NDArray[np.int64]
    pairs: NDArray[np.int64]
    left: NDArray[np.int64]
    found: Array
    work: Array
    counts: NDArray[np.int64]


class ContactArrays(NamedTuple):
    """Arrays of a `ContactSet`, with rows to spare."""

    links: NDArray[np.int64]
    points: Array
    frames: Array
    depths: Array
    friction: Array
    restitution: Array
    colliders: NDArray[np.int64]


def collider_arrays(scene: Solids) -> Colliders:
    """Arrays of a scene's colliders."""
    n = len(scene.colliders)
    shapes, local = np.zeros((n, COLUMNS)), np.zeros((n, 3, 4))
    vertices, normals, corners, ends = [np.zeros((0, 3))], [np.zeros((0, 3))], [np.zeros(0, np.int64)], [0]
    made: dict[int, Any] = {}
    for i, (collider, link) in enumerate(zip(scene.colliders, scene.links, strict=True)):
        shape, R, p = collider.shape, collider.rotation, collider.position
        if collider.link != "world":
            at = scene.tree.placement(collider.link)
            R, p = at.rotation @ R, at.rotation @ p + at.position
        local[i, :, :3], local[i, :, 3] = R, p
        shapes[i, LINK] = link
        points = np.zeros((0, 3))
        if isinstance(shape, Mesh):
            if id(shape) not in made:
                made[id(shape)] = hull_of(shape, collider.name)
            points, faces, outward = made[id(shape)]
            first = sum(map(len, vertices))
            shapes[i, FIRST_VERTEX:] = first, len(points), len(ends) - 1, len(faces)
            vertices.append(points)
            normals.append(outward)
            corners.extend(first + face for face in faces)
            ends.extend(ends[-1] + np.cumsum([len(face) for face in faces]))
        _describe(shape, points, shapes[i])
    hulls = np.concatenate(vertices), np.array(ends), np.concatenate(corners), np.concatenate(normals)
    material = np.array([(c.friction, c.restitution) for c in scene.colliders]).reshape(-1, 2)
    return Colliders(shapes, local, hulls, material, may_collide(scene))


def workspace(colliders: Colliders, most: int) -> tuple[Workspace, ContactArrays]:
    """Memory for ``most`` near pairs."""
    n, ends, rows = len(colliders.shapes), colliders.hulls[ENDS], MOST_POINTS * most
    corners = max(8, int(np.diff(ends).max(initial=0)), int(colliders.shapes[:, N_VERTICES].max(initial=0)))
    space = Workspace(
        world=np.zeros((n, 3, 4)),
        before=np.zeros((n, 3, 4)),
        centres=np.zeros((n, 3)),
        listed=np.full(n, -1.0),
        bounds=np.zeros((n, 6)),
        order=np.arange(n),
        ranges=np.zeros((2, n + 1), np.int64),
        pairs=np.zeros((most, 2), np.int64),
        left=np.zeros(most, np.int64),
        found=np.zeros((rows, 8)),
        work=np.zeros((4, max(2 * corners + 8, MOST_FACES), 7)),
        counts=np.zeros(3, np.int64),
    )
    contacts = ContactArrays(
        links=np.empty((rows, 2), np.int64),
        points=np.empty((rows, 3)),
        frames=np.empty((rows, 3, 3)),
        depths=np.empty(rows),
        friction=np.empty(rows),
        restitution=np.empty(rows),
        colliders=np.empty((rows, 2), np.int64),
    )
    return space, contacts


def _describe(shape: Shape, vertices: Array, row: Array) -> None:
    """Fill a shape's row but for its link."""
    centre, half = np.zeros(3), np.zeros(3)
    match shape:
        case HalfSpace():
            row[KIND], row[RADIUS] = HALF_SPACE, np.inf
        case Sphere(radius):
            half[:] = radius
            row[KIND], row[RADIUS], row[SIZE] = SPHERE, radius, radius
        case Capsule(radius, length):
            half[:] = radius, radius, length / 2 + radius
            row[KIND], row[RADIUS], row[CORE] = CAPSULE, half[2], length / 2
            row[SIZE : SIZE + 2] = radius, length / 2
        case Cylinder(radius, length):
            half[:] = radius, radius, length / 2
            row[KIND], row[SIZE : SIZE + 2] = CYLINDER, half[1:]
            row[RADIUS] = row[CORE] = np.hypot(radius, length / 2)
        case Box(x, y, z):
            half[:] = x / 2, y / 2, z / 2
            row[KIND], row[SIZE : SIZE + 3] = BOX, half
            row[RADIUS] = row[CORE] = np.linalg.norm(half)
        case Mesh():
            low, high = vertices.min(axis=0), vertices.max(axis=0)
            centre, half = (low + high) / 2, (high - low) / 2
            row[KIND] = HULL if shape.convex else SURFACE
            row[RADIUS] = row[CORE] = np.linalg.norm(vertices - centre, axis=1).max()
    row[CENTRE : CENTRE + 3], row[HALF : HALF + 3] = centre, half


def hull_of(mesh: Mesh, name: str) -> tuple[Array, list[NDArray[np.int64]], Array]:
    """Convex hull of a mesh's vertices: corners (n, 3), faces counterclockwise seen from outside, and their normals."""
    require("scipy", "contact", "convex hulls of meshes")
    from scipy.spatial import ConvexHull, QhullError

    try:
        found = ConvexHull(mesh.vertices)
    except QhullError as error:
        raise ConfigurationError(
            f"mesh of collider {name!r}", "points that span a volume", "points in one plane", "Give it a thickness."
        ) from error
    kept = np.sort(found.vertices)
    vertices = np.ascontiguousarray(mesh.vertices[kept])
    planes = np.array(found.equations)
    planes[:, 3] /= float(np.ptp(vertices, axis=0).max())
    faces, normals = [], []
    for members in _flat_groups(planes, found.neighbors):
        corners = np.searchsorted(kept, np.unique(found.simplices[members]))
        normal = planes[members[0], :3]
        from_centre = vertices[corners] - vertices[corners].mean(axis=0)
        first = from_centre[0] - normal * (normal @ from_centre[0])
        order = np.argsort(np.arctan2(from_centre @ np.cross(normal, first), from_centre @ first))
        faces.append(np.asarray(corners[order]))
        normals.append(normal)
    return vertices, faces, np.array(normals)


def _flat_groups(planes: Array, neighbours: NDArray[np.int32]) -> list[list[int]]:
    """Triangles that are one face, by flooding from neighbour to neighbour; the first of each is near to all others."""
    groups: list[list[int]] = []
    done = np.zeros(len(planes), dtype=bool)
    for start in range(len(planes)):
        if done[start]:
            continue
        done[start], group = True, [start]
        for member in group:
            for other in neighbours[member].tolist():
                if not done[other] and np.abs(planes[other] - planes[start]).max() < FLAT:
                    done[other] = True
                    group.append(other)
        groups.append(group)
    return groups
