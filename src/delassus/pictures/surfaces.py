"""What is seen of a scene: triangles on links, for the viewer and for videos."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus import Scene
from delassus.contact import Box, Capsule, Collider, Cylinder, Ellipsoid, HalfSpace, Mesh, Sphere, load_colliders
from delassus.errors import DelassusError, DelassusWarning
from delassus.model.kinematics import world_poses
from delassus.model.shapes import Shape
from delassus.spatial.rotations import Array, rotation_between

COLOURS = ((66, 133, 244), (244, 160, 0), (52, 168, 83), (171, 71, 188), (0, 172, 193), (219, 68, 55))
"""Of links, in turn."""

FIXED_COLOUR, BONE_COLOUR, SKIN_COLOUR = (170, 170, 175), (90, 95, 105), (112, 146, 204)
"""Of what does not move, of rods between joints, and of shapes that a description shows."""

BONE = 0.008
"""Radius of bones as a part of the scene's size."""

SECTORS = 32
"""Of round shapes."""

GRAIN = 1 / 400
"""Details of meshes that are smaller than this part of the scene's size are left out."""

CREASE = 0.8
"""Cosine of the angle between a face and the mean of its neighbours beyond which an edge is sharp."""


class Triangles(NamedTuple):
    """Triangles on a link.

    Attributes
    ----------
    link : int
        −1 for the world.
    vertices, normals : (n, 3) arrays
        In the body frame of the link (m), and of unit length; edges that are sharp have a vertex for each side.
    faces : (m, 3) array of int
        Corners, counterclockwise from outside.
    colour : (3,) tuple of int
        Red, green, blue, up to 255.
    opacity : float
        Above 0, and 1 if nothing is seen through it.
    """

    link: int
    vertices: Array
    normals: Array
    faces: NDArray[np.int64]
    colour: tuple[int, int, int]
    opacity: float = 1.0


def surfaces(scene: Scene, q: Array) -> list[Triangles]:
    """What is to be seen, but for half spaces: robots by their descriptions, or else by colliders and bones.

    Colliders of robots whose descriptions show them are left out; those of the world too where these show them. Bones
    are rods from each joint to those on its link, and to its colliders where it is no free joint, of a radius that
    suits the scene's size at ``q`` (nq,). What has opacity 0 is left out.
    """
    tree, found, size = scene.tree, [], extent(scene, q)[1]
    made: dict[int, tuple[Array, Array, NDArray[np.int64]]] = {}  # many links share a mesh

    def add(collider: Collider, link: int, colour: tuple[int, int, int]) -> None:
        R, p = collider_pose(scene, collider)
        if collider.rgba is not None and collider.rgba[3] == 0.0:
            return
        if (key := id(collider.shape)) not in made:
            made[key] = thinned(*creased(*triangles_of(collider.shape)), GRAIN * size)
        vertices, normals, faces = made[key]
        r, g, b, opacity = (*np.divide(colour, 255), 1.0) if collider.rgba is None else collider.rgba.tolist()
        colour = round(255 * r), round(255 * g), round(255 * b)
        found.append(Triangles(link, vertices @ R.T + p, normals @ R.T, faces, colour, opacity))

    shown = [x for name, source in scene.descriptions.items() for x in _visuals(scene, name, source)]
    skinned = {tree.support(link)[0] for _, link in shown if link >= 0}
    fixed = {_stem(visual) for visual, link in shown if link < 0}

    def is_shown(c: Collider, link: int) -> bool:
        if link < 0:
            return _stem(c) in fixed
        return tree.support(link)[0] in skinned

    colliders = [
        (c, link)
        for c, link in zip(scene.colliders, scene.links.tolist(), strict=True)
        if not (isinstance(c.shape, HalfSpace) or is_shown(c, link))
    ]
    for collider, link in shown:
        add(collider, link, FIXED_COLOUR if link < 0 else SKIN_COLOUR)
    for collider, link in colliders:
        add(collider, link, FIXED_COLOUR if link < 0 else COLOURS[link % len(COLOURS)])
    for i in range(tree.n_links):
        if tree.support(i)[0] not in skinned:
            ends = [tree.joints[child].position for child in tree.children[i]]
            if tree.joints[i].nv < 6:
                ends += [collider_pose(scene, c)[1] for c, link in colliders if link == i]
            found += _bones(i, np.zeros(3), ends, BONE * size)
    return found


def _stem(fixed: Collider) -> str:
    """What colliders and visuals of one fixed part of a description have in common."""
    return fixed.name.partition(":")[0] if fixed.link == "world" else fixed.link


def _visuals(scene: Scene, name: str, source: object) -> list[tuple[Collider, int]]:
    """Shapes that the description of a robot shows, and their links, −1 for the world; half spaces are left out.

    None, with a warning, where they cannot be read.
    """
    tree, prefix = scene.robots[name], f"{name}/" if name else ""
    try:
        found = load_colliders(source, tree, prefix=prefix, visual=True)
    except (DelassusError, ImportError) as error:
        what = f"robot {name!r} is" if name else "the robot is"
        warnings.warn(f"{what} drawn by its colliders: {error}", DelassusWarning, stacklevel=2)
        return []
    return [
        (c, -1 if c.link == "world" else scene.tree.placement(c.link).link)
        for c in found
        if not isinstance(c.shape, HalfSpace)
    ]


def collider_pose(scene: Scene, collider: Collider) -> tuple[Array, Array]:
    """Pose of a collider in the body frame of its link, or in the world."""
    if collider.link == "world":
        return collider.rotation, collider.position
    at = scene.tree.placement(collider.link)
    return at.rotation @ collider.rotation, at.position + at.rotation @ collider.position


def extent(scene: Scene, q: Array) -> tuple[Array, float]:
    """Middle (3,) and size (m) of what moves, at a configuration (nq,)."""
    poses = world_poses(scene.tree, q)
    places = [p for _, p in poses]
    for collider, link in zip(scene.colliders, scene.links.tolist(), strict=True):
        if link >= 0:
            R, p = poses[link]
            places.append(p + R @ collider_pose(scene, collider)[1])
    low, high = np.min(places, axis=0), np.max(places, axis=0)
    return (low + high) / 2, max(float(np.linalg.norm(high - low)), 0.5)


def rounded(length: float) -> float:
    """Nearest of 1, 2 and 5 times a power of ten."""
    decade = 10.0 ** np.floor(np.log10(length))
    return float(min((1.0, 2.0, 5.0, 10.0), key=lambda k: abs(k * decade - length)) * decade)


def _bones(link: int, start: Array, ends: list[Array], radius: float) -> list[Triangles]:
    """Rods from one point to others, all in the frame of ``link``."""
    found = []
    for end in ends:
        length = float(np.linalg.norm(end - start))
        if length > radius:
            vertices, normals, faces = creased(*triangles_of(Cylinder(radius, length)))
            R = rotation_between(np.array([0.0, 0.0, 1.0]), (end - start) / length)
            found.append(Triangles(link, vertices @ R.T + (start + end) / 2, normals @ R.T, faces, BONE_COLOUR))
    return found


def triangles_of(shape: Shape) -> tuple[Array, NDArray[np.int64]]:
    """Vertices (n, 3) and triangles (m, 3) of a shape in its own frame."""
    half = np.linspace(-np.pi / 2, np.pi / 2, SECTORS // 2 + 1)
    match shape:
        case Sphere():
            return _revolved(shape.radius * np.column_stack([np.cos(half), np.sin(half)]))
        case Capsule():
            below, above = half[: half.size // 2 + 1], half[half.size // 2 :]
            angle, ends = np.r_[below, above], np.r_[-np.ones(below.size), np.ones(above.size)]
            z = shape.radius * np.sin(angle) + 0.5 * shape.length * ends
            return _revolved(np.column_stack([shape.radius * np.cos(angle), z]))
        case Cylinder():
            r, z = shape.radius, 0.5 * shape.length
            return _revolved(np.array([(0, -z), (r, -z), (r, z), (0, z)]))
        case Ellipsoid():
            vertices, faces = triangles_of(Sphere(1.0))
            return vertices * [shape.x, shape.y, shape.z], faces
        case Box():
            corners = np.array([(x, y, z) for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
            sides = [(0, 1, 3, 2), (4, 6, 7, 5), (0, 4, 5, 1), (2, 3, 7, 6), (0, 2, 6, 4), (1, 5, 7, 3)]
            return corners * [shape.x, shape.y, shape.z], np.array(
                [c for a, b, d, e in sides for c in ((a, b, d), (a, d, e))]
            )
        case Mesh(vertices=vertices, triangles=faces) if faces is not None:
            return vertices, faces
        case Mesh():
            import trimesh

            hull = trimesh.convex.convex_hull(shape.vertices)
            return np.asarray(hull.vertices), np.asarray(hull.faces)
    raise AssertionError(f"a {type(shape).__name__} has no end")


def _revolved(profile: Array) -> tuple[Array, NDArray[np.int64]]:
    """Surface of revolution about z: ``profile`` (k, 2) has distances and heights, from below."""
    angle = 2 * np.pi * np.arange(SECTORS) / SECTORS
    x, y = (profile[:, :1] * trig(angle) for trig in (np.cos, np.sin))
    vertices = np.stack([x, y, np.broadcast_to(profile[:, 1:], x.shape)], axis=-1).reshape(-1, 3)
    ring = np.arange(SECTORS)
    a, b = ring, np.roll(ring, -1)
    first = SECTORS * np.arange(len(profile) - 1)[:, None]
    lower = np.stack([first + a, first + b, first + SECTORS + b], axis=-1)
    upper = np.stack([first + a, first + SECTORS + b, first + SECTORS + a], axis=-1)
    return vertices, np.concatenate([lower, upper]).reshape(-1, 3)


def creased(vertices: Array, faces: NDArray[np.int64]) -> tuple[Array, Array, NDArray[np.int64]]:
    """Vertices, their unit normals, and faces, with a vertex for each face that meets a sharp edge there."""
    same, number = _cells(vertices, 1e-6 * float(np.ptp(vertices, axis=0).max()))
    vertices, faces = _means(vertices, same, number), same[faces]
    corners = vertices[faces]
    area = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    size = np.linalg.norm(area, axis=1)
    faces, area, corners = faces[size > 0], area[size > 0], corners[size > 0]
    flat = area / np.linalg.norm(area, axis=1, keepdims=True)
    edges = corners[:, [1, 2, 0]] - corners, corners[:, [2, 0, 1]] - corners
    angle = np.arctan2(np.linalg.norm(np.cross(*edges), axis=-1), np.einsum("fci,fci->fc", *edges))
    each = (angle[..., None] * flat[:, None]).reshape(-1, 3)  # faces count at a vertex by their angles there
    smooth = _unit(_means(each, faces.reshape(-1), np.ones(len(vertices))))[faces]
    sharp = np.einsum("fci,fi->fc", smooth, flat) < CREASE
    normals = np.where(sharp[..., None], flat[:, None], smooth)
    keys = np.where(sharp, len(vertices) + np.arange(faces.size).reshape(-1, 3), faces).reshape(-1)
    _, kept, corner = np.unique(keys, return_index=True, return_inverse=True)
    return corners.reshape(-1, 3)[kept], normals.reshape(-1, 3)[kept], corner.reshape(-1, 3)


def thinned(
    vertices: Array, normals: Array, faces: NDArray[np.int64], cell: float
) -> tuple[Array, Array, NDArray[np.int64]]:
    """A surface whose vertices in each cube of edges ``cell`` (m) are one, their mean, if they face the same way."""
    same, number = _cells(np.column_stack([vertices, 1.5 * cell * np.round(normals)]), cell)
    faces = same[faces]
    kept = (faces != np.roll(faces, 1, axis=1)).all(axis=1)
    return _means(vertices, same, number), _unit(_means(normals, same, number)), faces[kept]


def _cells(points: Array, cell: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers (n,) of the cubes that points (n, k) are in, and how many are in each."""
    keys = np.zeros(len(points), np.int64)
    for x in np.floor((points - points.min(axis=0)) / cell).astype(np.int64).T:
        _, keys = np.unique(keys * (x.max() + 1) + x, return_inverse=True)
    return keys, np.bincount(keys)


def _means(values: Array, same: NDArray[np.int64], number: NDArray[Any]) -> Array:
    """Sums of values (n, 3) with the same number, divided by others."""
    return np.asarray(np.column_stack([np.bincount(same, x, len(number)) for x in values.T]) / number[:, None])


def _unit(vectors: Array) -> Array:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-300))
