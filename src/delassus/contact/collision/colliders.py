"""Colliders of a scene as arrays for compiled functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.contact.collision.meshes import MeshTables
from delassus.contact.filters import Solids, may_collide, pair_numbers, rule_number
from delassus.model.kinematics import heavy_links
from delassus.model.shapes import Box, Capsule, Cylinder, Ellipsoid, HalfSpace, Mesh, Shape, Sphere
from delassus.spatial.rotations import Array

SPHERE, CAPSULE, BOX, CYLINDER, ELLIPSOID, HULL, SURFACE, HALF_SPACE = range(8)
"""Kinds of shapes; a hull is a convex mesh, a surface any other."""

KIND, LINK, SIZE, RADIUS, CORE, CENTRE, HALF = 0, 1, 2, 5, 6, 7, 10
"""Columns of `Colliders.shapes`: kind and link; three sizes (radius and half length, half edges or semi-axes); radius
of a ball that holds the shape, and of one that holds what a rotation moves, about the centre; centre and half edges of
a box that holds the shape, in its frame."""
ANCHORED = 13
"""Column that is 1 of what contacts do not move: the world, and bodies that the user moves."""
FIRST_VERTEX, N_VERTICES, FIRST_FACE, N_FACES = 14, 15, 16, 17
"""Columns of meshes: ranges of vertices and faces."""
FIRST_CORNER, FIRST_TRIANGLE, FIRST_NODE = 18, 19, 20
"""Columns of surfaces: the first corner of their triangles among vertices; their first triangle and node in
`Colliders.surfaces`."""
COLUMNS = 21

VERTICES, ENDS, CORNERS, NORMALS = range(4)
"""Parts of `Colliders.hulls`."""

NEIGHBOURS, FANS, RINGS, SPOKES, FIRST_AXIS, AXES, NODE_BOUNDS, NODES = range(8)
"""Parts of `Colliders.surfaces`."""

MOST_CONTACTS = 12
"""Contacts of a pair: all corners of what the base of a cylinder and a rectangle share, of 8 points and of 4."""

MOST_CORNERS, MOST_FACES = 128, 256
"""Of a polytope that expands: closed ones have 2 n − 4 triangles."""


class Colliders(NamedTuple):
    """Colliders as arrays.

    Attributes
    ----------
    shapes : (n, `COLUMNS`) array
        See `KIND` and the other columns.
    local : (n, 3, 4) array
        ``[R p]`` of each collider in the body frame of its link.
    hulls : tuple
        Of all convex hulls: corners in the frames of their colliders (n_vertices, 3); where the corners of face *f* are
        in the next array, ``ends[f]`` to ``ends[f + 1]``; those corners, rows of vertices, counterclockwise seen from
        outside; outward normals (n_faces, 3). See `VERTICES` and the others. Of surfaces: vertices, then the three
        corners of each triangle once more, as of a hull with one face.
    surfaces : tuple
        Of all surfaces, in the frames of their colliders. Behind each edge of a triangle (3 n_triangles, 3): the unit
        normal of the neighbour where the edge is convex, a unit vector outwards where there is none, else zero. The
        vertex at each corner (3 n_triangles,), where its spokes begin (n_vertices + 1,), and these, unit vectors along
        the edges from it (n_spokes, 3). Where the axes of each triangle begin (n_triangles + 1,), and these: unit
        normals, far from parallel, of other triangles at its corners behind which it lies, and outwards of edges
        without neighbour, with its furthest extent along them (n_axes, 4). Boxes, lower and upper corners, of a tree of
        triangles in depth-first order (n_nodes, 6); and the node after a subtree, and the triangle in its surface that
        a leaf holds, else −1 (n_nodes, 2). See `NEIGHBOURS` and the others.
    material : (n, 7) array
        Velocity of each collider's surface in its frame (m/s), friction and restitution, torsional and rolling length.
    allowed : (n, n) array of bool
        Which pairs may touch; symmetric.
    friction_rule : int
        Number of the rule by which two coefficients make one.
    pairs : (n, n, 3) or (0, 0, 3) array
        Friction, torsional and rolling length that pairs have in place of that, else −1.
    """

    shapes: Array
    local: Array
    hulls: tuple[Any, ...]
    surfaces: tuple[Any, ...]
    material: Array
    allowed: NDArray[np.bool_]
    friction_rule: int
    pairs: Array


class Solid(NamedTuple):
    """A shape in the world: its row of `Colliders.shapes`, and the pose of its frame."""

    shape: Array
    pose: Array


class PairMemory(NamedTuple):
    """Memory for one pair at a time.

    Attributes
    ----------
    rows : (5, most, 8) array
        For simplices, polytopes and polygons: places of corners, and what belongs to them; contacts of surfaces.
    triangles : (2, `COLUMNS`) array
        Triangles of surfaces as shapes.
    later : (8, 8) array
        Contacts of the pair at a later time, in the rows of `CollisionMemory.found`.
    poses : (2, 3, 4) array
        Those of the pair then.
    """

    rows: Array
    triangles: Array
    later: Array
    poses: Array


class CollisionMemory(NamedTuple):
    """Memory of a search for contacts, for compiled functions; what they know from one call to the next.

    Attributes
    ----------
    world, before : (n, 3, 4) arrays
        ``[R p]`` of colliders in the world, now and when near pairs were listed.
    centres : (n, 3) array
        Centres of colliders in the world.
    bounds : (n, 7) array
        Boxes along the world's axes around colliders, lower and upper corners; and how far each may have moved, or be
        going to move, for the list of near pairs to hold (m).
    order : (n,) array of int
        Colliders, sorted along an axis.
    ranges : (2, n + 1) array of int
        Where pairs of each collider begin and end, while they are sorted.
    pairs : (most, 2) array of int
        Near pairs: A and B.
    ends : (most + 1,) array of int
        Where contacts of each near pair begin and end; memory while pairs are sorted.
    found : (8 most, 8) array
        Contacts of near pairs, 8 rows for each: a spare place, point, normal, depth.
    paths : (most, 5) array
        Whether a near pair is to be looked at on its path; when it hits, as a part of the step (infinity: it does
        not), and the normal there; see `delassus.contact.collision.paths`.
    work : PairMemory
        Of one thread.
    counts : (2,) array of int
        How many near pairs there are; whether their list is valid.
    """

    world: Array
    before: Array
    centres: Array
    bounds: Array
    order: NDArray[np.int64]
    ranges: NDArray[np.int64]
    pairs: NDArray[np.int64]
    ends: NDArray[np.int64]
    found: Array
    paths: Array
    work: PairMemory
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
    surface_velocities: Array
    torsional: Array
    rolling: Array


def collider_arrays(scene: Solids) -> Colliders:
    """Arrays of a scene's colliders."""
    n, led = len(scene.colliders), heavy_links(scene.tree)
    shapes, local = np.zeros((n, COLUMNS)), np.zeros((n, 3, 4))
    tables = MeshTables()
    for i, (collider, link) in enumerate(zip(scene.colliders, scene.links, strict=True)):
        shape, R, p = collider.shape, collider.rotation, collider.position
        if collider.link != "world":
            at = scene.tree.placement(collider.link)
            R, p = at.rotation @ R, at.rotation @ p + at.position
        local[i, :, :3], local[i, :, 3] = R, p
        shapes[i, LINK], shapes[i, ANCHORED] = link, link < 0 or link in led
        if isinstance(shape, Mesh):
            shapes[i, FIRST_VERTEX:] = tables.columns(shape, collider.name)
        _describe(shape, shapes[i])
    hulls, surfaces = tables.arrays()
    material = np.array(
        [(*c.surface_velocity, c.friction, c.restitution, c.torsional, c.rolling) for c in scene.colliders]
    ).reshape(-1, 7)
    rule = rule_number(scene.friction_rule)
    return Colliders(shapes, local, hulls, surfaces, material, may_collide(scene), rule, pair_numbers(scene))


def workspace(colliders: Colliders, most: int) -> tuple[CollisionMemory, ContactArrays]:
    """Memory for ``most`` near pairs."""
    n, ends, rows = len(colliders.shapes), colliders.hulls[ENDS], MOST_CONTACTS * most
    on_links = colliders.shapes[(colliders.shapes[:, LINK] >= 0) | (colliders.shapes[:, KIND] == HULL)]
    corners = max(8, int(np.diff(ends).max(initial=0)), int(on_links[:, N_VERTICES].max(initial=0)))
    space = CollisionMemory(
        world=np.zeros((n, 3, 4)),
        before=np.zeros((n, 3, 4)),
        centres=np.zeros((n, 3)),
        bounds=np.full((n, 7), -1.0),
        order=np.arange(n),
        ranges=np.zeros((2, n + 1), np.int64),
        pairs=np.zeros((most, 2), np.int64),
        ends=np.zeros(most + 1, np.int64),
        found=np.zeros((rows, 8)),
        paths=np.zeros((most, 5)),
        work=pair_memory(max(2 * corners + 8, MOST_FACES)),
        counts=np.zeros(2, np.int64),
    )
    contacts = ContactArrays(
        links=np.empty((rows, 2), np.int64),
        points=np.empty((rows, 3)),
        frames=np.empty((rows, 3, 3)),
        depths=np.empty(rows),
        friction=np.empty(rows),
        restitution=np.empty(rows),
        colliders=np.empty((rows, 2), np.int64),
        surface_velocities=np.empty((rows, 2)),
        torsional=np.empty(rows),
        rolling=np.empty(rows),
    )
    return space, contacts


def pair_memory(most: int, zeros: Callable[..., Any] = np.zeros) -> PairMemory:
    """Memory for one pair whose polygons and polytopes have at most so many corners."""
    return PairMemory(zeros((5, most, 8)), zeros((2, COLUMNS)), zeros((MOST_CONTACTS, 8)), zeros((2, 3, 4)))


def _describe(shape: Shape, row: Array) -> None:
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
        case Ellipsoid(x, y, z):
            half[:] = x, y, z
            row[KIND], row[SIZE : SIZE + 3] = ELLIPSOID, half
            row[RADIUS] = row[CORE] = half.max()
        case Mesh():
            low, high = shape.vertices.min(axis=0), shape.vertices.max(axis=0)
            centre, half = (low + high) / 2, (high - low) / 2
            row[KIND] = HULL if shape.convex else SURFACE
            row[RADIUS] = row[CORE] = np.linalg.norm(shape.vertices - centre, axis=1).max()
    row[CENTRE : CENTRE + 3], row[HALF : HALF + 3] = centre, half
