"""Pictures of a scene by the processor alone: a depth buffer, one lamp with shadows, floors with a pattern.

A triangle with corners p₀, p₁, p₂ in axes of the camera (right, down, ahead) covers the pixel of the ray d where all
entries of ``b = [p₀ p₁ p₂]⁻¹ d`` are positive, and is seen there at ``d / Σ b``: rays have depth 1, so that ``Σ b`` is
the inverse depth, and nothing has to be clipped. The lamp is a far camera; what it does not see is in shadow.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus import Scene
from delassus.compiler.jit.compile import compiled
from delassus.contact import HalfSpace
from delassus.model.kinematics import world_poses
from delassus.pictures.surfaces import rounded, surfaces
from delassus.spatial.rotations import Array

OPENING = 0.35
"""Half of the picture's height over the distance."""

SAMPLES = 2
"""Rays along each side of a pixel."""

LAMP = (-0.45, -0.55, 1.0)
"""Direction to the lamp."""

FAR = 30.0
"""Distance of the lamp, over the size of what is seen."""

SHADOWS = 768
"""Pixels along a side of what the lamp sees."""

SKY = (0.93, 0.95, 0.98)
"""Colour of the background."""

GROUND = (0.80, 0.82, 0.85)
"""Colour of half spaces."""

LINE = (0.73, 0.75, 0.79)
"""Colour of every other square on them."""


class Camera(NamedTuple):
    """Position and direction of a camera.

    Attributes
    ----------
    position : (3,) array
        In the world (m).
    axes : (3, 3) array
        Rows: right, down and ahead in the world.
    scale : float
        Pixels for each unit of sideways over ahead.
    width, height : int
        Pixels.
    """

    position: Array
    axes: Array
    scale: float
    width: int
    height: int


def camera_at(position: Array, target: Array, opening: float, width: int, height: int) -> Camera:
    """Camera that looks at a point; half of its picture's height is ``opening`` times its distance."""
    ahead = (target - position) / np.linalg.norm(target - position)
    right = np.cross(ahead, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    return Camera(position, np.array([right, np.cross(ahead, right), ahead]), 0.5 * height / opening, width, height)


class Renderer:
    """Takes pictures of a scene.

    Parameters
    ----------
    scene : Scene
    q : (nq,) array
        Configuration that the size of rods between joints is chosen by.
    width, height : int
        Of pictures, in pixels.

    Attributes
    ----------
    corners : (n_links, 8, 3) array
        Of the box around what is on each link, in its body frame (m).
    """

    def __init__(self, scene: Scene, q: Array, width: int, height: int) -> None:
        self.scene, self.width, self.height = scene, width, height
        found = surfaces(scene, q)
        starts = np.cumsum([0, *(len(s.vertices) for s in found)])
        self._links = np.repeat(np.array([s.link for s in found], np.int64), np.diff(starts))
        self._vertices = np.concatenate([s.vertices for s in found] or [np.zeros((0, 3))])
        self._normals = np.concatenate([s.normals for s in found] or [np.zeros((0, 3))])
        self._faces = np.concatenate(
            [s.faces + a for s, a in zip(found, starts, strict=False)] or [np.zeros((0, 3), int)]
        )
        self._colours = (
            np.concatenate([np.tile(s.colour, (len(s.faces), 1)) for s in found] or [np.zeros((0, 3))]) / 255
        )
        low, high = np.zeros((scene.tree.n_links, 3)), np.zeros((scene.tree.n_links, 3))
        for s in found:
            if s.link >= 0:
                low[s.link] = np.minimum(low[s.link], s.vertices.min(axis=0))
                high[s.link] = np.maximum(high[s.link], s.vertices.max(axis=0))
        sides = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)])
        self.corners = low[:, None] + sides * (high - low)[:, None]
        planes = [c for c in scene.colliders if isinstance(c.shape, HalfSpace)]
        self._planes = np.array([[*c.rotation[:, 2], c.rotation[:, 2] @ c.position] for c in planes]).reshape(-1, 4)
        sizes = (SHADOWS, SHADOWS), (SAMPLES * height, SAMPLES * width)
        self._buffers = [(np.empty(size), np.empty(size, np.int64), np.empty((*size, 2))) for size in sizes]

    def picture(self, q: Array, target: Array, away: Array) -> NDArray[np.uint8]:
        """Pixels (height, width, 3) at a configuration (nq,), from ``target + away`` towards ``target`` (m)."""
        poses = [(np.eye(3), np.zeros(3)), *world_poses(self.scene.tree, q)]  # that of the world first
        R, p = (np.array(each) for each in zip(*poses, strict=True))
        vertices = _moved(self._vertices, self._links, R, p)
        normals = _moved(self._normals, self._links, R, np.zeros_like(p))
        distance = float(np.linalg.norm(away))
        sun = np.array(LAMP) / np.linalg.norm(LAMP)
        lamp = camera_at(target + FAR * distance * sun, target, 1.0 / FAR, SHADOWS, SHADOWS)
        eye = camera_at(target + away, target, OPENING, SAMPLES * self.width, SAMPLES * self.height)
        for camera, (inverse, face, weights) in zip((lamp, eye), self._buffers, strict=True):
            inverse.fill(0.0)
            face.fill(-1)
            local = _moved(
                vertices, np.full(len(vertices), -1), camera.axes[None], -camera.axes[None] @ camera.position
            )
            _rasterise(local, self._faces, camera.scale, inverse, face, weights)
        (dark, _, _), (inverse, face, weights) = self._buffers
        out = np.zeros((self.height, self.width, 3))
        _shade(
            inverse, face, weights, dark, normals, self._faces, self._colours, self._planes,
            np.array([SKY, GROUND, LINE]), eye.position, eye.axes, eye.scale, lamp.position, lamp.axes, lamp.scale,
            rounded(distance / 8), distance, out,
        )  # fmt: skip
        return (255 * np.sqrt(np.minimum(out, 1.0)) + 0.5).astype(np.uint8)


@compiled
def _moved(points: Array, links: NDArray[np.int64], R: Array, p: Array) -> Array:
    """Points (n, 3) on links, by the poses R (k, 3, 3), p (k, 3) of the world and of all links in turn."""
    out = np.empty((points.shape[0], 3))
    for i in range(points.shape[0]):
        k = links[i] + 1
        for c in range(3):
            out[i, c] = R[k, c, 0] * points[i, 0] + R[k, c, 1] * points[i, 1] + R[k, c, 2] * points[i, 2] + p[k, c]
    return out


@compiled
def _rasterise(
    p: Array, faces: NDArray[np.int64], scale: float, inverse: Array, face: NDArray[np.int64], weights: Array
) -> None:
    """Inverse depth, number of the face, and weights of two of its corners, for each pixel that is covered."""
    height, width = inverse.shape
    B = np.empty((3, 3))
    for f in range(faces.shape[0]):
        i, j, k = faces[f, 0], faces[f, 1], faces[f, 2]
        if p[i, 2] <= 0.0 and p[j, 2] <= 0.0 and p[k, 2] <= 0.0:
            continue
        for c in range(3):  # rows of the inverse of the matrix of corners, times its determinant
            a, b = (c + 1) % 3, (c + 2) % 3
            B[0, c] = p[j, a] * p[k, b] - p[j, b] * p[k, a]
            B[1, c] = p[k, a] * p[i, b] - p[k, b] * p[i, a]
            B[2, c] = p[i, a] * p[j, b] - p[i, b] * p[j, a]
        det = p[i, 0] * B[0, 0] + p[i, 1] * B[0, 1] + p[i, 2] * B[0, 2]
        if det == 0.0:
            continue
        left, right, top, bottom = 0, width, 0, height
        if p[i, 2] > 0.0 and p[j, 2] > 0.0 and p[k, 2] > 0.0:
            x0, x1, x2 = p[i, 0] / p[i, 2], p[j, 0] / p[j, 2], p[k, 0] / p[k, 2]
            y0, y1, y2 = p[i, 1] / p[i, 2], p[j, 1] / p[j, 2], p[k, 1] / p[k, 2]
            left = max(int(max(scale * min(x0, x1, x2) + 0.5 * width, 0.0)), 0)
            right = min(int(min(max(scale * max(x0, x1, x2) + 0.5 * width, -1.0), 1.0 * width)) + 1, width)
            top = max(int(max(scale * min(y0, y1, y2) + 0.5 * height, 0.0)), 0)
            bottom = min(int(min(max(scale * max(y0, y1, y2) + 0.5 * height, -1.0), 1.0 * height)) + 1, height)
        for y in range(top, bottom):
            v = (y + 0.5 - 0.5 * height) / scale
            for x in range(left, right):
                u = (x + 0.5 - 0.5 * width) / scale
                b0 = (B[0, 0] * u + B[0, 1] * v + B[0, 2]) / det
                b1 = (B[1, 0] * u + B[1, 1] * v + B[1, 2]) / det
                b2 = (B[2, 0] * u + B[2, 1] * v + B[2, 2]) / det
                near = b0 + b1 + b2
                if b0 >= 0.0 and b1 >= 0.0 and b2 >= 0.0 and near > inverse[y, x]:
                    inverse[y, x], face[y, x] = near, f
                    weights[y, x, 0], weights[y, x, 1] = b0 / near, b1 / near


@compiled
def _lit(dark: Array, at: Array, position: Array, axes: Array, scale: float) -> float:
    """Fraction of the lamp that a point sees, from 0 to 1; beyond the shadow map 1."""
    a, b, c = at[0] - position[0], at[1] - position[1], at[2] - position[2]
    depth = axes[2, 0] * a + axes[2, 1] * b + axes[2, 2] * c
    u = scale * (axes[0, 0] * a + axes[0, 1] * b + axes[0, 2] * c) / depth + 0.5 * dark.shape[1]
    v = scale * (axes[1, 0] * a + axes[1, 1] * b + axes[1, 2] * c) / depth + 0.5 * dark.shape[0]
    if not (2.0 <= u <= dark.shape[1] - 3.0 and 2.0 <= v <= dark.shape[0] - 3.0):  # so that NaN is beyond it
        return 1.0
    x, y, seen = int(u), int(v), 0.0
    fx, fy, limit = u - x, v - y, 1.0 / depth + 4.0 / (scale * depth)
    for i in range(-1, 3):  # a window of three pixels that slides
        along = 1.0 - fy if i == -1 else fy if i == 2 else 1.0
        for j in range(-1, 3):
            across = 1.0 - fx if j == -1 else fx if j == 2 else 1.0
            if dark[y + i, x + j] <= limit:
                seen += along * across
    return seen / 9.0


@compiled
def _shade(
    inverse: Array, face: NDArray[np.int64], weights: Array, dark: Array, normals: Array,
    faces: NDArray[np.int64], colours: Array, planes: Array, palette: Array, eye: Array, axes: Array, scale: float,
    lamp: Array, lamp_axes: Array, lamp_scale: float, cell: float, distance: float, out: Array,
) -> None:  # fmt: skip
    height, width = face.shape
    at, n, d, colour, to_lamp = np.empty(3), np.empty(3), np.empty(3), np.empty(3), np.empty(3)
    for y in range(height):
        v = (y + 0.5 - 0.5 * height) / scale
        for x in range(width):
            u = (x + 0.5 - 0.5 * width) / scale
            for c in range(3):
                d[c] = u * axes[0, c] + v * axes[1, c] + axes[2, c]
            near, f, plane = inverse[y, x], face[y, x], -1
            for k in range(planes.shape[0]):
                along = planes[k, 0] * d[0] + planes[k, 1] * d[1] + planes[k, 2] * d[2]
                above = planes[k, 0] * eye[0] + planes[k, 1] * eye[1] + planes[k, 2] * eye[2] - planes[k, 3]
                if above > 0.0 and along < 0.0 and -along / above > near:
                    near, plane = -along / above, k
            fog = 0.0
            if near <= 0.0:
                for c in range(3):
                    out[y // SAMPLES, x // SAMPLES, c] += palette[0, c] ** 2 / SAMPLES**2
                continue
            for c in range(3):
                at[c] = eye[c] + d[c] / near
            if plane >= 0:
                for c in range(3):
                    n[c] = planes[plane, c]
                grain = 1.0 / (near * scale * cell * max(-(n[0] * d[0] + n[1] * d[1] + n[2] * d[2]), 0.02))
                tone = 0.5 * (1.0 - max(0.0, 1.0 - grain)) + max(0.0, 1.0 - grain) * _square(at, n, cell)
                for c in range(3):
                    colour[c] = palette[1, c] ** 2 + tone * (palette[2, c] ** 2 - palette[1, c] ** 2)
                away = 1.0 / (near * distance)
                fog = min(max((away - 2.0) / 8.0, 0.0), 1.0)
            else:
                a, b = weights[y, x, 0], weights[y, x, 1]
                i, j, k = faces[f, 0], faces[f, 1], faces[f, 2]
                for c in range(3):
                    n[c] = a * normals[i, c] + b * normals[j, c] + (1.0 - a - b) * normals[k, c]
                    colour[c] = colours[f, c] ** 2
                facing = n[0] * d[0] + n[1] * d[1] + n[2] * d[2]
                size = math.sqrt(n[0] ** 2 + n[1] ** 2 + n[2] ** 2) * (-1.0 if facing > 0.0 else 1.0)
                for c in range(3):
                    n[c] = n[c] / (size if size != 0.0 else 1.0)
            length, reach, view = 0.0, 0.0, 0.0
            for c in range(3):
                to_lamp[c] = lamp[c] - at[c]
                length += to_lamp[c] ** 2
                reach += n[c] * to_lamp[c]
                view += d[c] ** 2
            length, view = math.sqrt(length), math.sqrt(view)
            bright, shine = max(reach / length, 0.0), 0.0
            if bright > 0.0:
                for c in range(3):
                    at[c] = at[c] + n[c] * 2.0 * length / lamp_scale
                    shine += n[c] * (to_lamp[c] / length - d[c] / view)
                bright *= _lit(dark, at, lamp, lamp_axes, lamp_scale)
            half = 0.0
            for c in range(3):
                half += (to_lamp[c] / length - d[c] / view) ** 2
            shine = max(shine / math.sqrt(max(half, 1e-12)), 0.0) ** 8
            gloss = 0.0 if plane >= 0 else 0.15 * shine**4 * (1.0 if bright > 0.0 else 0.0)
            ambient = 0.32 + 0.13 * n[2]
            for c in range(3):
                lit = colour[c] * (ambient + 0.75 * bright) + gloss
                out[y // SAMPLES, x // SAMPLES, c] += (lit + fog * (palette[0, c] ** 2 - lit)) / SAMPLES**2


@compiled
def _square(at: Array, n: Array, cell: float) -> float:
    """0 or 1 on the squares of a plane."""
    whole = 0
    for c in range(3):
        if n[c] * n[c] < 0.5:
            x = at[c] / cell + 4096.0
            whole += int(max(x, 0.0))
    return 1.0 * (whole % 2)
