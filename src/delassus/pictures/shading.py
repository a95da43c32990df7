"""Loops of pictures: how bright what rays meet is.

A pixel is shaded once for each surface that its rays meet, and once for a floor, of whose pattern it has the mean.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.compiler.jit.compile import compiled
from delassus.pictures.rasterising import SAMPLES, TIE, Box, Geometry, Rays
from delassus.spatial.rotations import Array

AMBIENT = 0.32
"""Light from everywhere."""

SKYLIGHT = 0.13
"""More of it from above, and less from below."""

LAMPLIGHT = 0.75
"""Light of the lamp."""

GLOSS = 0.15
"""Light of it that surfaces mirror at most."""

BLOCK = 8
"""Pixels in a row that are shaded together where there are none but those of one plane, in the light."""

SMOOTH = 0.97
"""Cosine of the angle of normals up to which rays of a pixel share their light."""

PATTERN = 0.035
"""How much brighter or darker than the mean squares of planes are."""

POOL = 8
"""Pixels of the shadow map along a side of a square of which the nearest depth is known."""


class Lamp(NamedTuple):
    """The far camera whose rays are light; x, in axes of the picture's camera, is at ``start + axes x`` from it.

    Attributes
    ----------
    dark, nearest : arrays
        Inverse depths that it sees, and the largest ones of squares of `POOL` rays.
    box : tuple of int
    scale, texel : float
        Rays for each unit of sideways over ahead; and m, by which points are lifted from their surface.
    axes, start, direction : arrays
        The last from all points to the lamp, in axes of the picture's camera.
    """

    dark: NDArray[Any]
    nearest: NDArray[Any]
    box: Box
    scale: float
    texel: float
    axes: Array
    start: Array
    direction: Array


class Around(NamedTuple):
    """What is around the robots, in axes of the camera.

    Attributes
    ----------
    planes : (k, 16) array
        Half spaces: three numbers that are the inverse depth when times a ray; for two axes their directions, and where
        the camera is along them; colour; brightness in shadow, and what light adds.
    sky, up : (3,) arrays
        Its colour, and the direction.
    cell, distance : float
        Edge of squares on planes, and distance from the camera to what it looks at (m).
    """

    planes: Array
    sky: Array
    up: Array
    cell: float
    distance: float


@compiled
def pool(lamp: Lamp) -> None:
    """Largest inverse depth, in its box, of squares of the lamp's map and of two rays around each: ``nearest``."""
    for y in range(lamp.nearest.shape[0]):
        for x in range(lamp.nearest.shape[1]):
            most = 0.0
            for i in range(max(y * POOL - 2, lamp.box[0]), min((y + 1) * POOL + 2, lamp.box[1])):
                for j in range(max(x * POOL - 2, lamp.box[2]), min((x + 1) * POOL + 2, lamp.box[3])):
                    most = max(most, lamp.dark[i, j])
            lamp.nearest[y, x] = most


@compiled
def shade(geometry: Geometry, rays: Rays, box: Box, lamp: Lamp, around: Around, R: Array, out: NDArray[Any]) -> None:
    """Colours (height, width, 3), up to 255, of pixels; poses are in axes of the camera."""
    height, width, planes = out.shape[0], out.shape[1], around.planes
    scratch, steps = np.empty((3, 3)), SAMPLES / rays.scale
    for y in range(height):
        v, plain, is_near = (y + 0.5 - 0.5 * height) * steps, 0, box[0] <= SAMPLES * y and SAMPLES * y < box[1]
        for x in range(width):
            if x % BLOCK == 0 and x + BLOCK <= width:
                if _is_bare(rays, box, x, y) and _plain(rays.scale, lamp, around, x, y, out):
                    plain = x + BLOCK
            if x < plain:
                continue
            u = (x + 0.5 - 0.5 * width) * steps
            plane, near = _nearest_plane(planes, u, v)
            bare, red, green, blue = SAMPLES * SAMPLES, 0.0, 0.0, 0.0
            if is_near and box[2] <= SAMPLES * x and SAMPLES * x < box[3]:
                across, down = 0.0, 0.0
                if plane >= 0:
                    across, down = planes[plane, 0] / rays.scale, planes[plane, 1] / rays.scale
                bare, red, green, blue = _of_surfaces(
                    geometry, rays, lamp, around.up, R, (x, y), (near, across, down), scratch
                )
            if bare > 0:
                r, g, b = around.sky[0], around.sky[1], around.sky[2]
                if plane >= 0:
                    r, g, b = _of_plane(lamp, around, plane, u, v, 1.0 / near, steps)
                red, green, blue = red + bare * r, green + bare * g, blue + bare * b
            out[y, x, 0] = 255.0 * math.sqrt(min(red / (SAMPLES * SAMPLES), 1.0)) + 0.5
            out[y, x, 1] = 255.0 * math.sqrt(min(green / (SAMPLES * SAMPLES), 1.0)) + 0.5
            out[y, x, 2] = 255.0 * math.sqrt(min(blue / (SAMPLES * SAMPLES), 1.0)) + 0.5


@compiled
def _of_surfaces(
    geometry: Geometry, rays: Rays, lamp: Lamp, up: Array, R: Array, pixel: tuple[int, int],
    plane: tuple[float, float, float], scratch: Array,
) -> tuple[int, float, float, float]:  # fmt: skip
    """How many rays of a pixel meet no surface, and the sum of the light of the others.

    ``plane``: inverse depth of what is behind, in the middle of the pixel, and its changes from ray to ray.
    """
    p, normals, pieces = rays.local, geometry.normals, geometry.pieces
    height, width = rays.inverse.shape
    bare, last, red, green, blue = 0, -1, 0.0, 0.0, 0.0
    for s in range(SAMPLES * SAMPLES):
        across, down = s % SAMPLES, s // SAMPLES
        i, j = SAMPLES * pixel[1] + down, SAMPLES * pixel[0] + across
        behind = plane[0] + plane[1] * (across - 0.5 * (SAMPLES - 1)) + plane[2] * (down - 0.5 * (SAMPLES - 1))
        if rays.inverse[i, j] <= max(behind * (1.0 - TIE), 0.0):
            bare += 1
            continue
        f = rays.face[i, j]
        if f != last:
            first, second, third = geometry.faces[f, 0], geometry.faces[f, 1], geometry.faces[f, 2]
            u, v = (j + 0.5 - 0.5 * width) / rays.scale, (i + 0.5 - 0.5 * height) / rays.scale
            a, b, same = _weight(p, second, third, u, v), _weight(p, third, first, u, v), 0.0
            over = 1.0 / (a + b + _weight(p, first, second, u, v))
            a, b, c = a * over, b * over, 1.0 - (a + b) * over
            for e in range(3):
                scratch[0, e] = a * normals[first, e] + b * normals[second, e] + c * normals[third, e]
                same += scratch[0, e] * scratch[1, e]
            if last < 0 or pieces[f] != pieces[last] or same < SMOOTH:
                _turn(scratch, R, geometry.links[first] + 1)
                light, gloss = _light(scratch, u, v, 1.0 / rays.inverse[i, j], lamp, up)
                for e in range(3):
                    scratch[2, e] = geometry.colours[pieces[f], e] * light + gloss
            last = f
        red, green, blue = red + scratch[2, 0], green + scratch[2, 1], blue + scratch[2, 2]
    return bare, red, green, blue


@compiled
def _weight(p: Array, j: int, k: int, u: float, v: float) -> float:
    """Determinant of two corners and the ray (u, v, 1)."""
    x: float = p[j, 1] * p[k, 2] - p[j, 2] * p[k, 1]
    y: float = p[j, 2] * p[k, 0] - p[j, 0] * p[k, 2]
    z: float = p[j, 0] * p[k, 1] - p[j, 1] * p[k, 0]
    return x * u + y * v + z


@compiled
def _turn(scratch: Array, R: Array, k: int) -> None:
    """Row 0, of any length, becomes row 1, of unit length; row 0 is that in axes of the camera."""
    size = math.sqrt(scratch[0, 0] ** 2 + scratch[0, 1] ** 2 + scratch[0, 2] ** 2)
    for e in range(3):
        scratch[1, e] = scratch[0, e] / max(size, 1e-30)
    for e in range(3):
        scratch[0, e] = R[k, e, 0] * scratch[1, 0] + R[k, e, 1] * scratch[1, 1] + R[k, e, 2] * scratch[1, 2]


@compiled
def _light(scratch: Array, u: float, v: float, far: float, lamp: Lamp, up: Array) -> tuple[float, float]:
    """How bright a surface is where the ray (u, v, 1) meets it, and its gloss; row 0 is its normal, to either side."""
    x, y, z = scratch[0, 0], scratch[0, 1], scratch[0, 2]
    if x * u + y * v + z > 0.0:
        x, y, z = -x, -y, -z
    to = lamp.direction
    bright, gloss = max(x * to[0] + y * to[1] + z * to[2], 0.0), 0.0
    if bright > 0.0:
        view = 1.0 / math.sqrt(u * u + v * v + 1.0)
        a, b, c = to[0] - u * view, to[1] - v * view, to[2] - view
        shine = max(x * a + y * b + z * c, 0.0) / math.sqrt(max(a * a + b * b + c * c, 1e-12))
        seen = _lit(lamp, u * far + lamp.texel * x, v * far + lamp.texel * y, far + lamp.texel * z)
        bright, gloss = bright * seen, GLOSS * seen * (shine**8) ** 4
    return AMBIENT + SKYLIGHT * (x * up[0] + y * up[1] + z * up[2]) + LAMPLIGHT * bright, gloss


@compiled
def _lit(lamp: Lamp, x: float, y: float, z: float) -> float:
    """Fraction of the lamp that a point sees, from 0 to 1; beyond its map 1."""
    depth = lamp.start[2] + _times(lamp.axes, 2, 0, x, y, z)
    far = lamp.scale / depth
    u = far * (lamp.start[0] + _times(lamp.axes, 0, 0, x, y, z)) + 0.5 * lamp.dark.shape[1]
    v, box, seen = far * (lamp.start[1] + _times(lamp.axes, 1, 0, x, y, z)) + 0.5 * lamp.dark.shape[0], lamp.box, 9.0
    if box[2] + 2.0 <= u and u <= box[3] - 3.0 and box[0] + 2.0 <= v and v <= box[1] - 3.0:  # so that NaN is beyond it
        i, j, limit = int(v), int(u), 1.0 / depth + 4.0 / (lamp.scale * depth)
        if lamp.nearest[i // POOL, j // POOL] > limit:
            fx, fy, seen = u - j, v - i, 0.0
            for row in range(-1, 3):  # a window of three pixels that slides
                along = 1.0 - fy if row == -1 else fy if row == 2 else 1.0
                for column in range(-1, 3):
                    across = 1.0 - fx if column == -1 else fx if column == 2 else 1.0
                    if lamp.dark[i + row, j + column] <= limit:
                        seen += along * across
    return seen / 9.0


@compiled
def _times(M: Array, k: int, e: int, x: float, y: float, z: float) -> float:
    """Three numbers of row k of a matrix, from e on, times a vector."""
    total: float = M[k, e] * x + M[k, e + 1] * y + M[k, e + 2] * z
    return total


@compiled
def _nearest_plane(planes: Array, u: float, v: float) -> tuple[int, float]:
    """Number of the plane that a ray meets first, −1 if it meets none, and the inverse depth there."""
    plane, near = -1, 0.0
    for k in range(planes.shape[0]):
        at = _times(planes, k, 0, u, v, 1.0)
        if at > near * (1.0 - TIE):
            plane, near = k, at
    return plane, near


@compiled
def _of_plane(
    lamp: Lamp, around: Around, k: int, u: float, v: float, far: float, steps: float
) -> tuple[float, float, float]:
    """Light of plane k where the ray (u, v, 1) meets it."""
    planes, sky, cell = around.planes, around.sky, around.cell
    fog, tone, bright = _fog(far / around.distance), 1.0, planes[k, 15]
    if fog >= 1.0:
        return sky[0], sky[1], sky[2]
    for e in (3, 7):
        way, wide = _times(planes, k, e, u, v, 1.0) * far, _width(planes, k, e, u, v, far) * steps / cell
        tone *= _square((way + planes[k, e + 3]) / cell, wide, _fade(wide))
    if bright > 0.0:
        x, y, z = around.up[0], around.up[1], around.up[2]
        bright *= _lit(lamp, u * far + lamp.texel * x, v * far + lamp.texel * y, far + lamp.texel * z)
    light = (planes[k, 14] + bright) * (1.0 - PATTERN + PATTERN * tone) ** 2
    return (
        _fogged(planes[k, 11] * light, sky[0], fog), _fogged(planes[k, 12] * light, sky[1], fog),
        _fogged(planes[k, 13] * light, sky[2], fog),
    )  # fmt: skip


@compiled
def _width(planes: Array, k: int, e: int, u: float, v: float, far: float) -> float:
    """Width along an axis of plane k of what the ray (u, v, 1) covers if it is one wide."""
    way = _times(planes, k, e, u, v, 1.0) * far
    total: float = abs(planes[k, e] - way * planes[k, 0]) + abs(planes[k, e + 1] - way * planes[k, 1])
    return total * far


@compiled
def _square(t: float, width: float, fade: float) -> float:
    """Mean, over a window about t, of a wave that is 1 from 0 to 1, −1 from 1 to 2, and so on."""
    half = min(max(0.5 * t + 4096.25, 0.0), 1e15)
    edge = 1.0 - 4.0 * abs(half - int(half) - 0.5)  # twice the distance to where it changes
    return max(min(edge, width), -width) * fade


@compiled
def _fade(width: float) -> float:
    """Inverse of the width of a window, but less from 1 on, and 0 from 2 on."""
    return min(max(2.0 - width, 0.0), 1.0) / max(width, 1e-9)


@compiled
def _fog(far: float) -> float:
    """How much of a plane is hidden, at a distance in those from camera to target."""
    return min(max((far - 2.0) / 8.0, 0.0), 1.0)


@compiled
def _fogged(light: float, sky: float, fog: float) -> float:
    """Light in fog, mixed as pictures store it, by square roots."""
    return (math.sqrt(light) * (1.0 - fog) + math.sqrt(sky) * fog) ** 2 if fog > 0.0 else light


@compiled
def _is_bare(rays: Rays, box: Box, x: int, y: int) -> bool:
    """Whether rays of a block of pixels meet no surface."""
    if SAMPLES * y < box[0] or SAMPLES * y >= box[1]:
        return True
    for i in range(SAMPLES * y, SAMPLES * y + SAMPLES):
        for j in range(max(SAMPLES * x, box[2]), min(SAMPLES * (x + BLOCK), box[3])):
            if rays.inverse[i, j] > 0.0:
                return False
    return True


@compiled
def _plain(scale: float, lamp: Lamp, around: Around, x: int, y: int, out: NDArray[Any]) -> bool:
    """Shade a bare block of pixels if all are of the sky, or of one plane in the light; return whether."""
    planes, cell, steps = around.planes, around.cell, SAMPLES / scale
    u, v = (x + 0.5 - 0.5 * out.shape[1]) * steps, (y + 0.5 - 0.5 * out.shape[0]) * steps
    end, middle, brightest = u + (BLOCK - 1) * steps, u + 0.5 * (BLOCK - 1) * steps, 255.0 * 255.0
    (k, near), (other, last) = _nearest_plane(planes, u, v), _nearest_plane(planes, end, v)
    if k != other:
        return False
    sky_red, sky_green, sky_blue = (
        math.sqrt(brightest * around.sky[0]), math.sqrt(brightest * around.sky[1]),
        math.sqrt(brightest * around.sky[2]),
    )  # fmt: skip
    if k < 0:
        for i in range(BLOCK):
            out[y, x + i, 0], out[y, x + i, 1], out[y, x + i, 2] = sky_red + 0.5, sky_green + 0.5, sky_blue + 0.5
        return True
    side = _beside(lamp, u, v, 1.0 / near)
    if planes[k, 15] > 0.0 and (side == 0 or side != _beside(lamp, end, v, 1.0 / last)):
        return False
    fog, slope = _fog(1.0 / (near * around.distance)), planes[k, 0] * steps
    less = (fog - _fog(1.0 / (last * around.distance))) / (BLOCK - 1)
    far = 1.0 / _times(planes, k, 0, middle, v, 1.0)
    wide, high = _width(planes, k, 3, middle, v, far), _width(planes, k, 7, middle, v, far)
    wide, high = wide * steps / cell, high * steps / cell
    fade, other_fade, first, second = _fade(wide), _fade(high), planes[k, 6] / cell, planes[k, 10] / cell
    a, b = _times(planes, k, 3, u, v, 1.0) / cell, _times(planes, k, 7, u, v, 1.0) / cell
    right, down, light = planes[k, 3] * steps / cell, planes[k, 7] * steps / cell, planes[k, 14] + planes[k, 15]
    red, green, blue = (
        math.sqrt(brightest * planes[k, 11] * light), math.sqrt(brightest * planes[k, 12] * light),
        math.sqrt(brightest * planes[k, 13] * light),
    )  # fmt: skip
    for i in range(BLOCK):
        far, clear = 1.0 / (near + slope * i), 1.0 - fog + less * i
        tone = _square((a + right * i) * far + first, wide, fade)
        tone *= _square((b + down * i) * far + second, high, other_fade)
        tone = clear * (1.0 - PATTERN + PATTERN * tone)
        out[y, x + i, 0] = min(red * tone + (1.0 - clear) * sky_red, 255.0) + 0.5
        out[y, x + i, 1] = min(green * tone + (1.0 - clear) * sky_green, 255.0) + 0.5
        out[y, x + i, 2] = min(blue * tone + (1.0 - clear) * sky_blue, 255.0) + 0.5
    return True


@compiled
def _beside(lamp: Lamp, u: float, v: float, far: float) -> int:
    """Which side of what casts shadows a point of the ray (u, v, 1) is on, from the lamp; 0 if it is on none."""
    size, box = lamp.dark.shape[0], lamp.box
    over = lamp.scale / (lamp.start[2] + _times(lamp.axes, 2, 0, u, v, 1.0) * far)
    x = (lamp.start[0] + _times(lamp.axes, 0, 0, u, v, 1.0) * far) * over + 0.5 * size
    y = (lamp.start[1] + _times(lamp.axes, 1, 0, u, v, 1.0) * far) * over + 0.5 * size
    side = 4 if y > box[1] else 0
    side = 3 if y < box[0] else side
    side = 2 if x > box[3] else side
    return 1 if x < box[2] else side
