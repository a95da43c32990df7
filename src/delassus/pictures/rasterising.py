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
    """

    scale: float
    local: Array
    seen: Array
    inverse: NDArray[Any]
    face: NDArray[np.int64]


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
    """Find what rays in a box meet, by where `project` has put corners."""
    p, seen, inverse, face = rays.local, rays.seen, rays.inverse, rays.face
    height, width = inverse.shape
    for y in range(box[0], box[1]):
        for x in range(box[2], box[3]):
            inverse[y, x] = 0.0
    for f in range(geometry.faces.shape[0]):
        i, j, k = geometry.faces[f, 0], geometry.faces[f, 1], geometry.faces[f, 2]
        left, right, top, bottom = 0, width, 0, height
        if p[i, 2] > 0.0 and p[j, 2] > 0.0 and p[k, 2] > 0.0:
            left = int(min(max(min(seen[i, 0], seen[j, 0], seen[k, 0]) + 0.5, 0.0), 1.0 * width))
            right = int(min(max(max(seen[i, 0], seen[j, 0], seen[k, 0]) + 0.5, 0.0), 1.0 * width))
            top = int(min(max(min(seen[i, 1], seen[j, 1], seen[k, 1]) + 0.5, 0.0), 1.0 * height))
            bottom = int(min(max(max(seen[i, 1], seen[j, 1], seen[k, 1]) + 0.5, 0.0), 1.0 * height))
        elif p[i, 2] <= 0.0 and p[j, 2] <= 0.0 and p[k, 2] <= 0.0:
            continue
        if left >= right or top >= bottom:
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
                    if near > old or (near > old * (1.0 - TIE) and geometry.pieces[face[y, x]] != piece):
                        if opacity >= 1.0 or opacity > ways[(y + piece // 4) % 4, (x + piece) % 4]:
                            inverse[y, x], face[y, x] = near, f


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
