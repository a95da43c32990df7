"""Loops of pictures: which triangle each ray meets first.

A triangle with corners p₀, p₁, p₂ in axes of the camera (right, down, ahead) covers the ray d where all entries of
``b = [p₀ p₁ p₂]⁻¹ d`` are positive, and is met there at ``d / Σ b``: rays have depth 1, so that ``Σ b`` is the inverse
depth, and nothing has to be clipped. Each pixel has `SAMPLES`² rays.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled
from delassus.spatial.rotations import Array

SAMPLES = 2
"""Rays along each side of a pixel."""

TIE = 2e-5
"""Relative difference of depths up to which surfaces are the same; the later one is seen, and half spaces are not."""

TILE = 8
"""Rays along a side of a square of which the farthest thing is known."""

WIDE = 6
"""Rays in a row of triangles, of which only those between their edges are looked at."""

EDGE = 6
"""Rays around what may be met that are looked at."""

WAYS = np.array([[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]]) / 16 + 1 / 32
"""Opacity from which on a ray meets a surface that is translucent, for squares of 4 × 4 rays."""


class Geometry(NamedTuple):
    """Triangles on links, in pieces of one colour each.

    Attributes
    ----------
    vertices, normals : (n, 3) arrays
        In the frames of ``links`` (n,), −1 for the world.
    faces : (m, 3) array of int
        Corners.
    pieces : (m,) array of int
        In ascending order.
    colours, opacities : (k, 3) and (k,) arrays
        Of pieces; colours as light, from 0 to 1.
    """

    vertices: Array
    normals: Array
    links: NDArray[np.int64]
    faces: NDArray[np.int64]
    pieces: NDArray[np.int64]
    colours: Array
    opacities: Array


class Rays(NamedTuple):
    """What the rays of a camera meet.

    Attributes
    ----------
    scale : float
        Rays for each unit of sideways over ahead.
    local, seen : (n, 3) and (n, 2) arrays
        Corners in axes of the camera, and where it sees them, in rays.
    inverse, face : (height, width) arrays
        Inverse depth, 0 where there is nothing, and the number of the face that is met.
    least : (height / TILE, width / TILE) array
        Least inverse depth of squares of rays, rounded up.
    """

    scale: float
    local: Array
    seen: Array
    inverse: NDArray[Any]
    face: NDArray[np.int64]
    least: NDArray[Any]


Box = tuple[int, int, int, int]
"""First and last rows and columns of rays, the last not included, that may meet anything."""


@compiled
def project(geometry: Geometry, R: Array, p: Array, rays: Rays) -> Box:
    """Where a camera sees corners: into ``rays``; poses of the world and of all links in turn are in its axes."""
    height, width = rays.inverse.shape
    points, local = geometry.vertices, rays.local
    behind, left, right, top, bottom = False, 1.0 * width, 0.0, 1.0 * height, 0.0
    for i in range(points.shape[0]):
        k = geometry.links[i] + 1
        for c in range(3):
            local[i, c] = R[k, c, 0] * points[i, 0] + R[k, c, 1] * points[i, 1] + R[k, c, 2] * points[i, 2] + p[k, c]
        if local[i, 2] > 0.0:
            far = rays.scale / local[i, 2]
            x, y = far * local[i, 0] + 0.5 * width, far * local[i, 1] + 0.5 * height
            rays.seen[i, 0], rays.seen[i, 1] = x, y
            left, right, top, bottom = min(left, x), max(right, x), min(top, y), max(bottom, y)
        else:
            behind = True
    if behind:
        return 0, height, 0, width
    return (
        int(max(min(top, 1.0 * height) - EDGE, 0.0)) // SAMPLES * SAMPLES,
        int(min(max(bottom, 0.0) + EDGE, 1.0 * height)) // SAMPLES * SAMPLES,
        int(max(min(left, 1.0 * width) - EDGE, 0.0)) // SAMPLES * SAMPLES,
        int(min(max(right, 0.0) + EDGE, 1.0 * width)) // SAMPLES * SAMPLES,
    )


@compiled
def rasterise(geometry: Geometry, opacities: Array, ways: Array, rays: Rays, box: Box) -> None:
    """Find what rays in a box meet, by where `project` has put corners.

    Triangles that are seen from their back come last: nearly all of them are hidden.
    """
    for y in range(box[0], box[1]):
        for x in range(box[2], box[3]):
            rays.inverse[y, x] = 0.0
    _meet(geometry, opacities, ways, rays, False)
    for y in range(box[0] // TILE, (box[1] - 1) // TILE + 1):
        for x in range(box[2] // TILE, (box[3] - 1) // TILE + 1):
            rays.least[y, x] = _least(rays.inverse, box, x, y)
    _meet(geometry, opacities, ways, rays, True)


@compiled
def _least(inverse: NDArray[Any], box: Box, x: int, y: int) -> float:
    """Least inverse depth of a square of rays; 0 where a part of it is outside of the box."""
    if TILE * y < box[0] or TILE * (y + 1) > box[1] or TILE * x < box[2] or TILE * (x + 1) > box[3]:
        return 0.0
    least: float = inverse[TILE * y, TILE * x]
    for i in range(TILE * y, TILE * (y + 1)):
        for j in range(TILE * x, TILE * (x + 1)):
            least = min(least, inverse[i, j])
    return least


@compiled
def _is_hidden(rays: Rays, near: float, left: int, right: int, top: int, bottom: int) -> bool:
    """Whether all rays in a box meet something nearer than an inverse depth."""
    for y in range(top // TILE, (bottom - 1) // TILE + 1):
        for x in range(left // TILE, (right - 1) // TILE + 1):
            if near >= rays.least[y, x] * (1.0 - TIE):
                return False
    return True


@compiled
def _meet(geometry: Geometry, opacities: Array, ways: Array, rays: Rays, is_back: bool) -> None:
    """Triangles that are seen from their front, or from their back; of equal depths, the later piece is seen."""
    p, seen, inverse, face = rays.local, rays.seen, rays.inverse, rays.face
    height, width = inverse.shape
    for f in range(geometry.faces.shape[0]):
        i, j, k = geometry.faces[f, 0], geometry.faces[f, 1], geometry.faces[f, 2]
        left, right, top, bottom = 0, width, 0, height
        if p[i, 2] > 0.0 and p[j, 2] > 0.0 and p[k, 2] > 0.0:
            x0, y0, x1, y1, x2, y2 = seen[i, 0], seen[i, 1], seen[j, 0], seen[j, 1], seen[k, 0], seen[k, 1]
            if ((x1 - x0) * (y2 - y0) > (x2 - x0) * (y1 - y0)) != is_back:
                continue
            left = int(min(max(min(x0, x1, x2) + 0.5, 0.0), 1.0 * width))
            right = int(min(max(max(x0, x1, x2) + 0.5, 0.0), 1.0 * width))
            top = int(min(max(min(y0, y1, y2) + 0.5, 0.0), 1.0 * height))
            bottom = int(min(max(max(y0, y1, y2) + 0.5, 0.0), 1.0 * height))
            if left >= right or top >= bottom:
                continue
            if is_back and _is_hidden(rays, 1.0 / min(p[i, 2], p[j, 2], p[k, 2]), left, right, top, bottom):
                continue
        elif is_back or (p[i, 2] <= 0.0 and p[j, 2] <= 0.0 and p[k, 2] <= 0.0):
            continue
        det, piece = _determinant(p, i, j, k), geometry.pieces[f]
        if det == 0.0:
            continue
        over, opacity, is_wide = 1.0 / det, opacities[piece], right - left > WIDE
        a0, a1, a2 = _edge(p, j, k, over, rays.scale, inverse)
        b0, b1, b2 = _edge(p, k, i, over, rays.scale, inverse)
        c0, c1, c2 = _edge(p, i, j, over, rays.scale, inverse)
        a3, b3, c3 = 0.0, 0.0, 0.0
        if is_wide:
            a3, b3, c3 = _inverse(a0), _inverse(b0), _inverse(c0)
        for y in range(top, bottom):
            a, b, c = a1 * y + a2, b1 * y + b2, c1 * y + c2
            first, last = left, right
            if is_wide:  # between where its edges cross the row, and a little more
                low, high = _within(a, a3, 1.0 * left, 1.0 * right)
                low, high = _within(b, b3, low, high)
                low, high = _within(c, c3, low, high)
                first, last = max(left, int(max(low - 0.5, 0.0))), min(right, int(max(high + 1.5, 0.0)))
            for x in range(first, last):
                one, two, three = a + a0 * x, b + b0 * x, c + c0 * x
                if one >= 0.0 and two >= 0.0 and three >= 0.0:
                    near, old = one + two + three, inverse[y, x]
                    if near > old * (1.0 - TIE) and (old == 0.0 or _is_first(geometry, near, f, old, face[y, x])):
                        if opacity >= 1.0 or opacity > ways[(y + piece // 4) % 4, (x + piece) % 4]:
                            inverse[y, x], face[y, x] = near, f


@compiled
def _is_first(geometry: Geometry, near: float, f: int, old: float, g: int) -> bool:
    """Whether face f at an inverse depth is seen in place of face g, which is about as near or farther."""
    later = geometry.pieces[f] - geometry.pieces[g]
    return later > 0 or near > (old if later == 0 else old * (1.0 + TIE))


@compiled
def _determinant(p: Array, i: int, j: int, k: int) -> float:
    """Determinant of three corners."""
    x: float = p[j, 1] * p[k, 2] - p[j, 2] * p[k, 1]
    y: float = p[j, 2] * p[k, 0] - p[j, 0] * p[k, 2]
    z: float = p[j, 0] * p[k, 1] - p[j, 1] * p[k, 0]
    determinant: float = x * p[i, 0] + y * p[i, 1] + z * p[i, 2]
    return determinant


@compiled
def _edge(p: Array, j: int, k: int, over: float, scale: float, inverse: NDArray[Any]) -> tuple[float, float, float]:
    """Determinant of two corners and a ray, times ``over``: its change from ray to ray, from row to row; the first."""
    x, y = p[j, 1] * p[k, 2] - p[j, 2] * p[k, 1], p[j, 2] * p[k, 0] - p[j, 0] * p[k, 2]
    z, per = p[j, 0] * p[k, 1] - p[j, 1] * p[k, 0], over / scale
    u, v = (0.5 - 0.5 * inverse.shape[1]) / scale, (0.5 - 0.5 * inverse.shape[0]) / scale
    return x * per, y * per, (x * u + y * v + z) * over


@compiled
def _inverse(x: float) -> float:
    return 1.0 / x if x != 0.0 else 0.0


@compiled
def _within(value: float, over: float, low: float, high: float) -> tuple[float, float]:
    """Part of low to high where ``value + x / over`` is positive."""
    at = -value * over
    return max(low, at) if over > 0.0 else low, min(high, at) if over < 0.0 else high
