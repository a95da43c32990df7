"""Pairs of shapes that have no file of their own: the normal and the depth by ``coal``, the points by `patches`."""

from __future__ import annotations

from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.contact.collision.boxes import separation, sort_out
from delassus.contact.collision.colliders import FIRST_VERTEX, KIND, MOST_POINTS, RADIUS, SURFACE, Colliders
from delassus.contact.collision.patches import overlap, patch
from delassus.contact.collision.vectors import Vector
from delassus.contact.scene import Scene
from delassus.contact.shapes import Box, Capsule, Cylinder, HalfSpace, Mesh, Shape, Sphere
from delassus.errors import missing_dependency
from delassus.model.rotations import Array

MOST_TRIANGLES = 128
"""Contacts of triangles that ``coal`` reports of one pair; a patch is made of these."""

GJK, EPA, MOST_ITERATIONS = 1e-10, 1e-6, 255
"""Tolerances (m) of the iterations in ``coal`` for shapes apart, and for shapes that overlap. Of the second, smaller
ones make it fail, unnoticed, on some pairs of round shapes."""

DOUBTFUL = 1e-4
"""Part of the smaller shape's radius by which the depth that ``coal`` finds may differ from the overlap along its own
normal: what is further off is no answer."""

MISSED = 1e-5
"""Part of the smaller shape's radius by which the deepest point of a patch may be less deep than ``coal`` says; beyond
that the patch is short of a point: the corners that stand for a rim, or for a face that is not quite flat to the other,
need not hold the deepest."""


class CoalPairs:
    """Contacts of boxes, and of everything that ``coal`` is asked about."""

    def __init__(self, scene: Scene, arrays: Colliders, tolerance: float) -> None:
        self._arrays, self._tolerance = arrays, tolerance
        self._geometry = cache(lambda i: _to_coal(scene.colliders[i].shape, i, arrays))

    @cached_property
    def _request(self) -> Any:
        coal = _coal()
        request = coal.CollisionRequest(coal.CollisionRequestFlag.CONTACT, MOST_TRIANGLES)
        request.security_margin, request.gjk_tolerance = self._tolerance, GJK
        request.epa_max_iterations = MOST_ITERATIONS
        return request

    def touch(
        self, world: Array, pairs: NDArray[np.int64], left: NDArray[np.int64], found: Array, count: int
    ) -> tuple[Array, int]:
        """Add contacts of the pairs listed in ``left`` to ``count`` of them; returns all in the order of pairs."""
        simple, a = count, self._arrays
        count = sort_out(a.shapes, world, pairs, left, self._tolerance, a.hulls, found, count)
        for pair in left[1 : left[0] + 1].tolist():
            i, j = pairs[pair].tolist()
            end = self._ask(world, i, j, found, count)
            found[count:end, 0] = pair
            count = end
        if count > simple:
            found = found[np.argsort(found[:count, 0], kind="stable")]
        return found, count

    def _ask(self, world: Array, i: int, j: int, found: Array, count: int) -> int:
        a, A, B = self._arrays, world[i], world[j]
        result = self._collide(i, A, j, B, EPA)
        if not result.numContacts():
            return count
        if SURFACE in (a.shapes[i, KIND], a.shapes[j, KIND]):
            return _triangles(result, self._tolerance, found, count)
        x, n, depth = _deepest(result)
        both = a.shapes[i], A, a.shapes[j], B, a.hulls
        size = float(min(a.shapes[i, RADIUS], a.shapes[j, RADIUS]))
        if not abs(overlap(*both, n) - depth) < DOUBTFUL * size:  # iterations that went astray
            result = self._collide(i, A, j, B, 100 * EPA)
            x, n, depth = _deepest(result) if result.numContacts() else (x, n, np.inf)
            if not abs(overlap(*both, n) - depth) < 100 * DOUBTFUL * size:
                _, n, _ = separation(a.shapes[i], A, a.shapes[j], B)
                x, depth = 0.5 * (A[:, 3] + B[:, 3]), float(overlap(*both, n))
        end = int(patch(*both, n, self._tolerance, found, count))
        if end == count or found[count:end, 7].max() < depth - MISSED * size:
            if end == count + MOST_POINTS:  # the shallowest gives way
                end -= 1
                found[count + int(np.argmin(found[count : end + 1, 7]))] = found[end]
            found[end, 1:] = *x, *n, depth
            end += 1
        return end

    def _collide(self, i: int, A: Array, j: int, B: Array, tolerance: float) -> Any:
        coal, self._request.epa_tolerance = _coal(), tolerance
        result = coal.CollisionResult()
        first, second = coal.Transform3s(A[:, :3], A[:, 3]), coal.Transform3s(B[:, :3], B[:, 3])
        coal.collide(self._geometry(i), first, self._geometry(j), second, self._request, result)
        return result


def _deepest(result: Any) -> tuple[Any, Vector, float]:
    """Point, normal from B to A (coal's points from the first to the second), and depth."""
    contact = result.getContact(0)
    x, y, z = contact.normal.tolist()
    return contact.pos, (-x, -y, -z), -float(contact.penetration_depth)


def _triangles(result: Any, tolerance: float, found: Array, count: int) -> int:
    """The deepest contact of triangles, and those that are furthest from the others chosen."""
    rows = np.array([(*c.pos, *c.normal, c.penetration_depth) for c in result.getContacts()])
    rows[:, 3:] *= -1.0
    rows = rows[np.lexsort(rows.T[::-1])]
    rows = rows[rows[:, 6] >= -tolerance]
    if not len(rows):
        return count
    chosen = [int(np.argmax(rows[:, 6]))]
    distance = np.linalg.norm(rows[:, :3] - rows[chosen[0], :3], axis=1)
    apart = 1e-6 * (1e-300 + float(np.ptp(rows[:, :3], axis=0).max()))
    while len(chosen) < MOST_POINTS and distance.max() > apart:
        chosen.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.linalg.norm(rows[:, :3] - rows[chosen[-1], :3], axis=1))
    for k in sorted(chosen):
        found[count, 1:] = rows[k]
        count += 1
    return count


def _coal() -> Any:
    try:
        import coal
    except ImportError as error:
        raise missing_dependency("coal", "contact", "collision of these shapes") from error
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
