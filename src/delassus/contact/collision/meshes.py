"""Meshes as arrays: convex hulls, with flat faces as whole polygons; surfaces, with what lies behind their edges."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.constraints.shapes.convex_patch import ALIGNED, polygons
from delassus.errors import ConfigurationError
from delassus.model.inertia import hull_triangles
from delassus.model.shapes import Mesh
from delassus.spatial.rotations import Array

CONVEX = 1e-9
"""Sine of the angle from which on an edge of a surface is convex."""


AT_ONCE = 1 << 16
"""Triangles whose neighbours are looked at together: this bounds the memory that takes."""

THIN = 1e-12
"""Twice the area of a triangle, as a part of the square of its longest edge, below which it is a line and left out."""


class Surface(NamedTuple):
    """Tables of one surface; see `delassus.contact.collision.colliders.Colliders.surfaces`."""

    neighbours: Array
    fans: NDArray[np.int64]
    rings: NDArray[np.int64]
    spokes: Array
    first_axis: NDArray[np.int64]
    axes: Array
    node_bounds: Array
    nodes: NDArray[np.int64]


class MeshTables:
    """Arrays of all meshes of a scene, one after the other; each mesh is there once."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[int, ...]] = {}
        self._vertices, self._normals = [np.zeros((0, 3))], [np.zeros((0, 3))]
        self._corners, self._ends = [np.zeros(0, np.int64)], [0]
        self._surfaces: list[Surface] = []

    def columns(self, mesh: Mesh, name: str) -> tuple[int, ...]:
        """Where a mesh is in the tables: `FIRST_VERTEX` of `colliders` and the columns after it."""
        if id(mesh) not in self._made:
            self._made[id(mesh)] = self._add(mesh, name)
        return self._made[id(mesh)]

    def _add(self, mesh: Mesh, name: str) -> tuple[int, ...]:
        faces: Any  # polygons, or triangles (n, 3)
        vertices, faces, normals = (hull_of if mesh.convex else oriented_triangles)(mesh, name)
        first, first_face, of_surface = sum(map(len, self._vertices)), len(self._ends) - 1, (0, 0, 0)
        corners = first
        self._vertices.append(vertices)
        if not mesh.convex:
            corners = first + len(vertices)
            n_corners, n_nodes = (sum(map(len, parts)) for parts in self._parts("fans", "nodes"))
            of_surface = corners, n_corners // 3, n_nodes
            self._surfaces.append(surface_of(vertices, faces, normals))
            self._vertices.append(vertices[faces].reshape(-1, 3))
            faces = np.arange(faces.size).reshape(-1, 3)
        self._normals.append(normals)
        self._corners.append(corners + np.concatenate(faces))
        self._ends.extend(self._ends[-1] + np.cumsum([len(face) for face in faces]))
        return first, len(vertices), first_face, len(faces), *of_surface

    def _parts(self, *names: str) -> list[list[Any]]:
        return [[getattr(surface, name) for surface in self._surfaces] for name in names]

    def arrays(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """``hulls`` and ``surfaces`` of `delassus.contact.collision.colliders.Colliders`."""
        hulls = (
            np.concatenate(self._vertices), np.array(self._ends), np.concatenate(self._corners),
            np.concatenate(self._normals),
        )  # fmt: skip
        neighbours, fans, rings, spokes, first_axis, axes, bounds, nodes = self._parts(*Surface._fields)
        n_rings = n_spokes = n_axes = n_nodes = 0
        for k, surface in enumerate(self._surfaces):
            fans[k] = fans[k] + n_rings
            rings[k] = rings[k][:-1] + n_spokes
            first_axis[k] = first_axis[k][:-1] + n_axes
            nodes[k] = nodes[k] + [n_nodes, 0]
            n_axes += len(surface.axes)
            n_rings, n_spokes = n_rings + len(rings[k]), n_spokes + len(surface.spokes)
            n_nodes += len(surface.nodes)
        none = np.zeros(0, np.int64)
        return hulls, (
            np.concatenate([np.zeros((0, 3)), *neighbours]),
            np.concatenate([none, *fans]),
            np.concatenate([*rings, [n_spokes]]).astype(np.int64),
            np.concatenate([np.zeros((0, 3)), *spokes]),
            np.concatenate([*first_axis, [n_axes]]).astype(np.int64),
            np.concatenate([np.zeros((0, 4)), *axes]),
            np.concatenate([np.zeros((0, 6)), *bounds]),
            np.concatenate([none.reshape(0, 2), *nodes]),
        )


def oriented_triangles(mesh: Mesh, name: str) -> tuple[Array, NDArray[np.int64], Array]:
    """Vertices (n, 3) of a surface, each place once, its triangles but for those that are lines, and their normals."""
    assert mesh.triangles is not None
    of_triangles, corners = np.unique(mesh.triangles, return_inverse=True)
    used, places = np.unique(mesh.vertices[of_triangles], axis=0, return_inverse=True)
    triangles = places.reshape(-1)[corners].reshape(-1, 3).astype(np.int64)
    edges = used[np.roll(triangles, -1, axis=1)] - used[triangles]
    areas = np.cross(edges[:, 0], edges[:, 1])
    sizes = np.linalg.norm(areas, axis=1)
    kept = sizes > THIN * (edges * edges).sum(axis=2).max(axis=1)
    if not kept.any():
        raise ConfigurationError(f"mesh of collider {name!r}", "triangles with an area", "none", "Check the file.")
    return used, triangles[kept], areas[kept] / sizes[kept, None]


def surface_of(vertices: Array, triangles: NDArray[np.int64], normals: Array) -> Surface:
    """Tables of a surface of triangles (n, 3), counterclockwise seen from outside."""
    n = len(triangles)
    starts, ends = triangles.ravel(), np.roll(triangles, -1, axis=1).ravel()
    opposite = np.roll(triangles, -2, axis=1).ravel()
    directions = vertices[ends] - vertices[starts]
    of_edge = normals.repeat(3, axis=0)
    outwards = np.cross(directions, of_edge)
    neighbours = outwards / np.linalg.norm(outwards, axis=1, keepdims=True)
    size = len(vertices)
    keys, twins = starts * size + ends, ends * size + starts
    order = np.argsort(keys, kind="stable")
    first, last = (np.searchsorted(keys[order], twins, side=side) for side in ("left", "right"))
    aligned = np.full(3 * n, -np.inf)
    for k in range(int((last - first).max(initial=0))):  # where several meet, the one that goes on straightest
        edge = np.flatnonzero(first + k < last)
        other = order[first[edge] + k]
        cosine = _dot(of_edge[edge], of_edge[other])
        better = cosine > aligned[edge]
        edge, other = edge[better], other[better]
        aligned[edge] = cosine[better]
        across = vertices[opposite[other]] - vertices[starts[edge]]
        height = _dot(across, of_edge[edge])
        convex = height < -CONVEX * np.linalg.norm(across, axis=1)
        neighbours[edge] = np.where(convex[:, None], of_edge[other], 0.0)
    pairs = np.sort(np.concatenate([keys, twins[np.isneginf(aligned)]]))
    hub, rim = np.divmod(pairs[np.diff(pairs, prepend=-1) > 0], size)
    spokes = vertices[rim] - vertices[hub]
    spokes /= np.linalg.norm(spokes, axis=1, keepdims=True)
    rings = np.searchsorted(hub, np.arange(size + 1))
    open_edges = np.flatnonzero(np.isneginf(aligned))
    axes = _axes(vertices, triangles, normals, open_edges // 3, neighbours[open_edges])
    return Surface(neighbours, starts.astype(np.int64), rings, spokes, *axes, *_tree_of_boxes(vertices[triangles]))


def _axes(
    vertices: Array, triangles: NDArray[np.int64], normals: Array, open_triangles: NDArray[np.int64], outwards: Array
) -> tuple[NDArray[np.int64], Array]:
    """Where axes of triangles (n, 3) begin, and these with the triangles' extents; see `Surface`."""
    n, around = len(triangles), np.argsort(triangles.ravel(), kind="stable") // 3  # triangles, vertex by vertex
    counts = np.bincount(triangles.ravel())
    first, parts = np.cumsum(counts) - counts, [(open_triangles, outwards)]
    lengths = np.linalg.norm(np.ptp(vertices[triangles], axis=1), axis=1)
    for begin, c in product(range(0, n, AT_ONCE), range(3)):
        part = triangles[begin : begin + AT_ONCE]
        here = counts[part[:, c]]
        own = np.arange(len(part)).repeat(here)
        other = around[np.arange(own.size) + (first[part[:, c]] - np.cumsum(here) + here)[own]]
        tilted = _dot(normals[begin + own], normals[other]) < 1.0 - ALIGNED
        own, other = own[tilted], other[tilted]
        for k, j in product(range(c), range(3)):  # at no corner before
            new = triangles[other, j] != part[own, k]
            own, other = own[new], other[new]
        heights = [_dot(vertices[part[own, k]] - vertices[triangles[other, 0]], normals[other]) for k in range(3)]
        behind = np.max(heights, axis=0) < CONVEX * lengths[begin + own]
        parts.append((begin + own[behind], normals[other[behind]]))
    own, axes = (np.concatenate(x) for x in zip(*parts, strict=True))
    order = np.argsort(own, kind="stable")
    own, axes = own[order], axes[order]
    extents = np.max([_dot(vertices[triangles[own, k]], axes) for k in range(3)], axis=0)
    return np.searchsorted(own, np.arange(n + 1)), np.column_stack([axes, extents])


def _dot(a: Array, b: Array) -> Array:
    """Products of rows (n, 3)."""
    return np.asarray(np.einsum("ij,ij->i", a, b))


def _tree_of_boxes(corners: Array) -> tuple[Array, NDArray[np.int64]]:
    """Tree of boxes around triangles (n, 3, 3), halved at the median along the longest axis; a triangle at each leaf.

    A subtree of *k* triangles has 2 k − 1 nodes, so that places in depth-first order are known beforehand.
    """
    low, high = corners.min(axis=1), corners.max(axis=1)
    n, centres = len(corners), low + high
    bounds, nodes = np.zeros((2 * n - 1, 6)), np.zeros((2 * n - 1, 2), np.int64)
    order, starts, places = np.arange(n), np.array([0]), np.array([0])
    sizes = np.array([n])
    while sizes.size:
        of_node, heads = np.arange(sizes.size).repeat(sizes), np.cumsum(sizes) - sizes
        members = np.arange(of_node.size) + (starts - heads)[of_node]
        bounds[places, :3] = np.minimum.reduceat(low[order[members]], heads)
        bounds[places, 3:] = np.maximum.reduceat(high[order[members]], heads)
        nodes[places, 0] = places + 2 * sizes - 1
        nodes[places, 1] = np.where(sizes == 1, order[starts], -1)
        axis = np.argmax(bounds[places, 3:] - bounds[places, :3], axis=1)
        along = centres[order[members], axis[of_node]]
        order[members] = order[members][np.lexsort((along, of_node))]
        inner = sizes > 1
        left = (sizes[inner] + 1) // 2
        starts = np.stack([starts[inner], starts[inner] + left], 1).ravel()
        places = np.stack([places[inner] + 1, places[inner] + 2 * left], 1).ravel()
        sizes = np.stack([left, sizes[inner] - left], 1).ravel()
    return bounds, nodes


def hull_of(mesh: Mesh, name: str) -> tuple[Array, list[NDArray[np.int64]], Array]:
    """Convex hull of a mesh's vertices: corners (n, 3), faces counterclockwise seen from outside, and their normals."""
    triangles, of_triangles = hull_triangles(mesh.vertices, f"mesh of collider {name!r}")
    kept, corners = np.unique(triangles, return_inverse=True)
    vertices = np.ascontiguousarray(mesh.vertices[kept])
    normals, faces = zip(*polygons(vertices, corners.reshape(-1, 3), of_triangles), strict=True)
    return vertices, list(faces), np.array(normals)
