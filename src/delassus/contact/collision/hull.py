"""Convex hulls of meshes, with flat faces as whole polygons."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from delassus.contact.shapes import Mesh
from delassus.errors import ConfigurationError, missing_dependency
from delassus.model.rotations import Array

FLAT = 1e-5
"""Neighbouring triangles are one face if their unit normals differ by less, and their planes by less than this part of
the size: files hold single-precision numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Hull:
    """Corners (n, 3), faces as corners counterclockwise seen from outside, and outward normals (n_faces, 3)."""

    vertices: Array
    faces: tuple[NDArray[np.int64], ...]
    normals: Array

    def triangles(self) -> NDArray[np.int64]:
        """Faces as fans of triangles (m, 3)."""
        return np.array([(f[0], a, b) for f in self.faces for a, b in pairwise(f[1:])])


def hull_of(mesh: Mesh, name: str) -> Hull:
    """Convex hull of a mesh's vertices; of a mesh that is not convex too.

    Raises
    ------
    ConfigurationError
        The vertices lie in a plane; names the collider.
    MissingDependencyError
        scipy is not installed.
    """
    try:
        from scipy.spatial import ConvexHull, QhullError
    except ImportError as error:
        raise missing_dependency("scipy", "contact", "convex hulls of meshes") from error
    try:
        found = ConvexHull(mesh.vertices)
    except QhullError as error:
        raise ConfigurationError(
            f"mesh of collider {name!r}", "points that span a volume", "points in one plane", "Give it a thickness."
        ) from error
    kept = np.sort(found.vertices)
    vertices = np.ascontiguousarray(mesh.vertices[kept])
    rows = np.full(len(mesh.vertices), -1)
    rows[kept] = np.arange(len(kept))
    planes = np.array(found.equations)
    planes[:, 3] /= float(np.ptp(vertices, axis=0).max())
    faces, normals = [], []
    for members in _flat_groups(planes, found.neighbors):
        corners = np.unique(rows[found.simplices[members]])
        faces.append(_counterclockwise(vertices, corners, planes[members[0], :3]))
        normals.append(planes[members[0], :3])
    return Hull(vertices, tuple(faces), np.array(normals))


def _flat_groups(planes: Array, neighbours: NDArray[np.int32]) -> list[list[int]]:
    """Triangles that are one face, by flooding from neighbour to neighbour; the first of each is near to all others."""
    groups: list[list[int]] = []
    done = np.zeros(len(planes), dtype=bool)
    for start in range(len(planes)):
        if done[start]:
            continue
        done[start], group, front = True, [start], [start]
        while front:
            for other in neighbours[front.pop()].tolist():
                if not done[other] and np.abs(planes[other] - planes[start]).max() < FLAT:
                    done[other] = True
                    group.append(other)
                    front.append(other)
        groups.append(group)
    return groups


def _counterclockwise(vertices: Array, corners: NDArray[np.int64], normal: Array) -> NDArray[np.int64]:
    from_centre = vertices[corners] - vertices[corners].mean(axis=0)
    first = from_centre[0] - normal * (normal @ from_centre[0])
    second = np.cross(normal, first)
    return np.asarray(corners[np.argsort(np.arctan2(from_centre @ second, from_centre @ first))])
