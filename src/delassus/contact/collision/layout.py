"""Colliders of a scene as arrays for compiled functions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from delassus.contact.collision.hull import Hull, hull_of
from delassus.contact.scene import Scene
from delassus.contact.shapes import Box, Capsule, Cylinder, HalfSpace, Mesh, Shape, Sphere
from delassus.model.rotations import Array

SPHERE, CAPSULE, BOX, CYLINDER, HULL, SURFACE, HALF_SPACE = range(7)
"""Kinds of shapes; a hull is a convex mesh, a surface any other."""

KIND, LINK, SIZE, RADIUS, CORE, CENTRE, HALF = 0, 1, 2, 5, 6, 7, 10
"""Columns of `Layout.shapes`: kind and link; three sizes (radius and half length; or half edges); radius of a ball that
holds the shape, and of one that holds what turns with it, about the centre; centre and half edges of a box that holds
the shape, in its frame."""
COLUMNS = 13

FIRST_VERTEX, N_VERTICES, FIRST_FACE, N_FACES = range(4)
"""Columns of `Layout.meshes`."""

MOST_POINTS = 8
"""Contacts of one pair."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Colliders as arrays; those that are no meshes have no vertices and faces.

    Attributes
    ----------
    shapes : (n, 13) array
        See `KIND` and the other columns.
    local : (n, 3, 4) array
        ``[R p]`` of each collider in the body frame of its link.
    meshes : (n, 4) array of int
        See `FIRST_VERTEX` and the other columns.
    vertices : (n_vertices, 3) array
        Corners of all convex hulls, in the frames of their colliders.
    face_ends : (n_faces + 1,) array of int
        Corners of face *f* are entries ``face_ends[f]`` to ``face_ends[f + 1]`` of ``corners``.
    corners : array of int
        Rows of ``vertices``, counterclockwise seen from outside.
    face_normals : (n_faces, 3) array
        Outwards.
    hulls : tuple
        `Hull` of each mesh, None for other shapes.
    """

    shapes: Array
    local: Array
    meshes: NDArray[np.int64]
    vertices: Array
    face_ends: NDArray[np.int64]
    corners: NDArray[np.int64]
    face_normals: Array
    hulls: tuple[Hull | None, ...]


def layout(scene: Scene) -> Layout:
    """Arrays of a scene's colliders."""
    n = len(scene.colliders)
    shapes, local, meshes = np.zeros((n, COLUMNS)), np.zeros((n, 3, 4)), np.zeros((n, 4), np.int64)
    vertices: list[Array] = [np.zeros((0, 3))]
    normals: list[Array] = [np.zeros((0, 3))]
    corners: list[int] = []
    ends = [0]
    made: dict[int, Hull] = {}
    hulls: list[Hull | None] = []
    for i, (collider, link) in enumerate(zip(scene.colliders, scene.links, strict=True)):
        R, p = collider.rotation, collider.position
        if collider.link != "world":
            at = scene.tree.placement(collider.link)
            R, p = at.rotation @ R, at.rotation @ p + at.position
        local[i, :, :3], local[i, :, 3] = R, p
        shapes[i, LINK] = link
        hull = None
        if isinstance(collider.shape, Mesh):
            hull = made.get(id(collider.shape)) or hull_of(collider.shape, collider.name)
            made[id(collider.shape)] = hull
        hulls.append(hull)
        _describe(collider.shape, hull, shapes[i])
        if hull is not None:
            first = sum(len(v) for v in vertices)
            meshes[i] = first, len(hull.vertices), len(ends) - 1, len(hull.faces)
            vertices.append(hull.vertices)
            normals.append(hull.normals)
            for face in hull.faces:
                corners.extend(first + int(v) for v in face)
                ends.append(len(corners))
    return Layout(
        shapes,
        local,
        meshes,
        np.concatenate(vertices),
        np.array(ends, dtype=np.int64),
        np.array(corners, dtype=np.int64),
        np.concatenate(normals),
        tuple(hulls),
    )


def _describe(shape: Shape, hull: Hull | None, row: Array) -> None:
    if isinstance(shape, HalfSpace):
        row[KIND], row[RADIUS] = HALF_SPACE, np.inf
        return
    if isinstance(shape, Sphere):
        row[KIND], row[SIZE], row[HALF : HALF + 3] = SPHERE, shape.radius, shape.radius
        row[RADIUS] = shape.radius
        return
    if isinstance(shape, (Capsule, Cylinder)):
        round_ends = isinstance(shape, Capsule)
        r, h = shape.radius, shape.length / 2
        row[KIND] = CAPSULE if round_ends else CYLINDER
        row[SIZE : SIZE + 2] = r, h
        row[HALF : HALF + 3] = r, r, h + r if round_ends else h
        row[RADIUS], row[CORE] = (h + r, h) if round_ends else (np.hypot(r, h), np.hypot(r, h))
        return
    if isinstance(shape, Box):
        half = np.array([shape.x, shape.y, shape.z]) / 2
        row[KIND], row[SIZE : SIZE + 3], row[HALF : HALF + 3] = BOX, half, half
        row[RADIUS] = row[CORE] = np.linalg.norm(half)
        return
    assert hull is not None
    low, high = hull.vertices.min(axis=0), hull.vertices.max(axis=0)
    centre = (low + high) / 2
    row[KIND] = HULL if shape.convex else SURFACE
    row[CENTRE : CENTRE + 3], row[HALF : HALF + 3] = centre, (high - low) / 2
    row[RADIUS] = row[CORE] = np.linalg.norm(hull.vertices - centre, axis=1).max()
