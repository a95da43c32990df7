"""Meshes that are not convex: what ``coal`` finds of their triangles."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from delassus.contact.collision.colliders import FIRST_VERTEX, LINK, MOST_POINTS, Colliders, Workspace
from delassus.contact.collision.filters import Solids
from delassus.errors import require
from delassus.frozen import cached_property
from delassus.model.shapes import Box, Capsule, Cylinder, HalfSpace, Mesh, Shape, Sphere
from delassus.spatial.rotations import Array

MOST_TRIANGLES = 1 << 14
"""Contacts of triangles that ``coal`` reports of one pair; `MOST_POINTS` of them are chosen."""

STEEP = 3.0
"""How much further away a point must be to be chosen, for how much wider its gap is: points over a whole slope, but not
all around a ball."""

GJK, EPA, MOST_ITERATIONS = 1e-10, 1e-6, 255
"""Tolerances (m) of the iterations in ``coal`` for shapes apart, and for shapes that overlap. Of the second, smaller
ones make it fail, unnoticed, on some pairs of round shapes."""


class Surfaces:
    """Contacts of meshes that are not convex."""

    def __init__(self, scene: Solids, arrays: Colliders) -> None:
        self._shapes = arrays.shapes
        self._geometry = cache(lambda i: _to_coal(scene.colliders[i].shape, i, arrays))

    @cached_property
    def _request(self) -> Any:
        coal = _coal()
        request = coal.CollisionRequest(coal.CollisionRequestFlag.CONTACT, MOST_TRIANGLES)
        request.gjk_tolerance, request.epa_tolerance, request.epa_max_iterations = GJK, EPA, MOST_ITERATIONS
        return request

    def find_touching(self, reach: Array, gap: float, space: Workspace) -> None:
        """Add contacts of the pairs that `find_touching` of `narrow_phase` has left, and sort all by their pairs."""
        coal, found, count = _coal(), space.found, int(space.counts[1])
        for pair in space.left[: space.counts[2]].tolist():
            i, j = space.pairs[pair].tolist()
            links = self._shapes[[i, j], LINK].astype(np.int64)
            most = gap + float(reach[links[links >= 0]].sum())
            self._request.security_margin, result = most, coal.CollisionResult()
            first, second = (coal.Transform3s(T[:, :3], T[:, 3]) for T in (space.world[i], space.world[j]))
            coal.collide(self._geometry(i), first, self._geometry(j), second, self._request, result)
            end = _triangles(result, most, found, count)
            found[count:end, 0] = pair
            count = end
        found[:count] = found[np.argsort(found[:count, 0], kind="stable")]
        space.counts[1] = count


def _triangles(result: Any, most: float, found: Array, count: int) -> int:
    """The deepest contact of triangles, and those that are furthest from the others chosen, less `STEEP` their gaps."""
    rows = np.array([(*c.pos, *c.normal, c.penetration_depth) for c in result.getContacts()]).reshape(-1, 7)
    rows[:, 3:] *= -1.0
    rows = rows[np.lexsort(rows.T[::-1])]
    rows = rows[rows[:, 6] >= -most]
    if not len(rows):
        return count
    chosen = [int(np.argmax(rows[:, 6]))]
    apart = 1e-6 * (1e-300 + float(np.ptp(rows[:, :3], axis=0).max()))
    distance = np.full(len(rows), np.inf)
    while len(chosen) < MOST_POINTS:
        distance = np.minimum(distance, np.linalg.norm(rows[:, :3] - rows[chosen[-1], :3], axis=1))
        worth = distance - STEEP * (rows[chosen[0], 6] - rows[:, 6])
        if worth.max() <= apart:
            break
        chosen.append(int(np.argmax(worth)))
    found[count : count + len(chosen), 1:] = rows[sorted(chosen)]
    return count + len(chosen)


def _coal() -> Any:
    require("coal", "contact", "collision of these shapes")
    import coal

    return coal


def _to_coal(shape: Shape, i: int, arrays: Colliders) -> Any:
    coal = _coal()
    match shape:
        case Sphere():
            return coal.Sphere(shape.radius)
        case Capsule():
            return coal.Capsule(shape.radius, shape.length)
        case Cylinder():
            return coal.Cylinder(shape.radius, shape.length)
        case Box():
            return coal.Box(shape.x, shape.y, shape.z)
        case Mesh() if shape.convex:
            vertices, ends, corners, _ = arrays.hulls
            first, size, first_face, n_faces = map(int, arrays.shapes[i, FIRST_VERTEX:])
            points, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
            for vertex in vertices[first : first + size]:
                points.append(vertex)
            for f in range(first_face, first_face + n_faces):
                face = (corners[ends[f] : ends[f + 1]] - first).tolist()
                for a, b in pairwise(face[1:]):
                    triangles.append(coal.Triangle(face[0], a, b))
            return coal.Convex(points, triangles)
        case Mesh():
            assert shape.triangles is not None
            model = coal.BVHModelOBBRSS()
            model.beginModel(len(shape.triangles), len(shape.vertices))
            model.addVertices(np.array(shape.vertices))
            model.addTriangles(np.array(shape.triangles, dtype=np.int64))
            model.endModel()
            return model
        case HalfSpace():
            raise AssertionError("half spaces have a file of their own")
