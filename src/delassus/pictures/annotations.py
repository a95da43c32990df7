"""What pictures show beside bodies: forces, inertias, centres of mass, loops, colliders, planes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delassus import Scene, Tree
from delassus.contact import Box, Ellipsoid, HalfSpace
from delassus.model.shapes import Shape
from delassus.pictures.surfaces import Triangles, collider_pose, creased, triangles_of
from delassus.spatial.rotations import Array

Poses = Sequence[tuple[Array, Array]]
"""Rotation (3, 3) and position (3,) of each link in the world."""

ARROW = 0.2
"""Length of the arrow of a force of one weight, as a part of the scene's size."""

LONGEST = 2.5
"""Longest arrow, in weights."""

PLANE = 20.0
"""Side of what is drawn of a half space, in sizes of the scene."""

THINNEST = 1e-4
"""Least semi-axis (m) of ellipsoids of inertia: a thin rod has none across."""

FORCE_COLOUR, PATH_COLOUR, LOOP_COLOUR, PULL_COLOUR = (220, 30, 30), (30, 30, 200), (200, 0, 160), (20, 170, 60)
"""Of contact forces, what a controller plans, loops, and the line to what is pulled."""

INERTIA_COLOUR, COLLIDER_COLOUR, CENTRE_COLOUR, WHOLE_COLOUR = (90, 160, 90), (0, 150, 170), (250, 170, 0), (230, 60, 0)
"""Of ellipsoids of inertia, colliders, and centres of mass: of links, and of the whole."""

PLANE_COLOUR = (205, 210, 216)


def weight(scene: Scene) -> float:
    """Weight (N) of the lightest robot that moves freely; of everything, if none does."""
    tree, masses = scene.tree, dict[int, float]()
    for i in range(tree.n_links):
        root = tree.support(i)[0]
        if tree.joints[root].nv == 6:
            masses[root] = masses.get(root, 0.0) + float(tree.inertias[i][0, 0])
    mass = min(masses.values(), default=float(tree.inertias[:, 0, 0].sum()))
    return max(mass * float(np.linalg.norm(scene.gravity)), 1e-9)


def force_arrows(points: Array, forces: Array, weight: float, size: float) -> Array:
    """Starts and ends (k, 2, 3) of the arrows of forces (n, 3) at points (n, 3) but those of zero, by a weight (N)."""
    points, forces = (x[forces.any(axis=1)] for x in (points, forces))
    strength = np.linalg.norm(forces, axis=1, keepdims=True) / weight
    arrows = forces / weight * np.minimum(1.0, LONGEST / np.maximum(strength, 1e-12))
    return np.stack([points, points + ARROW * size * arrows], axis=1)


def ellipsoids(tree: Tree) -> list[Triangles]:
    """Homogeneous ellipsoids that have mass and inertia of each link.

    Semi-axes are ``a² = 5 λ / m``, of the eigenvalues λ of ``∫ x xᵀ dm = ½ tr(I) 1 − I`` about the centre of mass.
    """
    found = []
    for link, H in enumerate(tree.inertias):
        if H[0, 0] > 0:
            mass, centre = H[0, 0], centre_of(H)
            spread = 0.5 * np.trace(H[3:, 3:]) * np.eye(3) - H[3:, 3:] - mass * np.outer(centre, centre)
            squares, axes = np.linalg.eigh(spread)
            lengths = np.sqrt(np.maximum(5.0 / mass * squares, THINNEST**2))
            axes = axes * np.sign(np.linalg.det(axes))
            found.append(_placed(link, Ellipsoid(*lengths), axes, centre, INERTIA_COLOUR))
    return found


def centre_of(H: Array) -> Array:
    """Centre of mass (3,) of a 6×6 inertia."""
    return np.array([H[5, 1], H[3, 2], H[4, 0]]) / float(H[0, 0])


def collider_surfaces(scene: Scene) -> list[Triangles]:
    """All colliders but half spaces, whatever else links show."""
    return [
        _placed(link, collider.shape, *collider_pose(scene, collider), COLLIDER_COLOUR)
        for collider, link in zip(scene.colliders, scene.links.tolist(), strict=True)
        if not isinstance(collider.shape, HalfSpace)
    ]


def planes(scene: Scene, size: float) -> list[Triangles]:
    """Flat boxes for half spaces, which have no end."""
    thin = 1e-3 * size
    flat = Box(PLANE * size, PLANE * size, thin)
    return [
        _placed(-1, flat, c.rotation, c.position - thin / 2 * c.rotation[:, 2], PLANE_COLOUR)
        for c in scene.colliders
        if isinstance(c.shape, HalfSpace)
    ]


def centres(tree: Tree, poses: Poses) -> Array:
    """Centres of mass (n, 3) of links that have some in the world, and of all of them (last)."""
    masses = tree.inertias[:, 0, 0]
    at = [(m, p + R @ centre_of(H)) for m, H, (R, p) in zip(masses, tree.inertias, poses, strict=True) if m > 0]
    if not at:
        return np.zeros((0, 3))
    points = np.array([p for _, p in at])
    return np.vstack([points, np.average(points, axis=0, weights=[m for m, _ in at])])


def loop_lines(scene: Scene, poses: Poses) -> Array:
    """Lines (k, 2, 3) between the frames of loops and springs in the world."""
    found = []
    for loop in (*scene.loops, *scene.springs):
        if len(loop.frames) == 2:
            ends = []
            for frame in loop.frames:
                at = scene.tree.placement(frame.link)
                point = at.position + at.rotation @ (np.zeros(3) if frame.position is None else frame.position)
                R, p = (np.eye(3), np.zeros(3)) if at.link < 0 else poses[at.link]
                ends.append(p + R @ point)
            found.append(ends)
    return np.array(found).reshape(-1, 2, 3)


def _placed(link: int, shape: Shape, R: Array, p: Array, colour: tuple[int, int, int]) -> Triangles:
    vertices, normals, faces = creased(*triangles_of(shape))
    return Triangles(link, vertices @ R.T + p, normals @ R.T, faces, colour)
