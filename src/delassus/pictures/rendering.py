"""Pictures of a scene by the processor alone: a depth buffer, one lamp with shadows, floors with a pattern.

The lamp is a far camera; what it does not see is in shadow. What is translucent covers some rays of each pixel, and
casts a shadow if it covers half of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus import Scene
from delassus.contact import Collider, HalfSpace
from delassus.model.kinematics import world_poses
from delassus.pictures.rasterising import SAMPLES, TILE, WAYS, Geometry, Rays, project, rasterise
from delassus.pictures.shading import AMBIENT, LAMPLIGHT, POOL, SKYLIGHT, Around, Lamp, pool, shade
from delassus.pictures.surfaces import rounded, surfaces
from delassus.spatial.rotations import Array

OPENING = 0.35
"""Half of the picture's height over the distance."""

LAMP = (-0.45, -0.55, 1.0)
"""Direction to the lamp."""

FAR = 30.0
"""Distance of the lamp, over the size of what is seen."""

SHADOWS = 1024
"""Pixels along a side of what the lamp sees."""

SKY = (0.93, 0.95, 0.98)
"""Colour of the background."""

GROUND = (0.80, 0.82, 0.85)
"""Colour of half spaces that say none."""


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
        sizes = [len(s.vertices) for s in found]
        starts = np.cumsum([0, *sizes])[:-1]
        faces = [s.faces + start for s, start in zip(found, starts, strict=True)]
        self._geometry = Geometry(
            np.concatenate([np.zeros((0, 3)), *(s.vertices for s in found)]),
            np.concatenate([np.zeros((0, 3)), *(s.normals for s in found)]),
            np.repeat(np.array([s.link for s in found], np.int64), sizes),
            np.concatenate([np.zeros((0, 3), np.int64), *faces]),
            np.repeat(np.arange(len(found)), [len(each) for each in faces]),
            (np.array([s.colour for s in found], float).reshape(-1, 3) / 255) ** 2,
            np.array([s.opacity for s in found], float),
        )
        low, high = np.zeros((scene.tree.n_links, 3)), np.zeros((scene.tree.n_links, 3))
        for s in found:
            if s.link >= 0:
                low[s.link] = np.minimum(low[s.link], s.vertices.min(axis=0))
                high[s.link] = np.maximum(high[s.link], s.vertices.max(axis=0))
        sides = np.array([(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)])
        self.corners = low[:, None] + sides * (high - low)[:, None]
        is_seen = [isinstance(c.shape, HalfSpace) and (c.rgba is None or c.rgba[3] > 0) for c in scene.colliders]
        self._planes = [c for c, seen in zip(scene.colliders, is_seen, strict=True) if seen]
        self._free: list[tuple[Rays, Rays, NDArray[Any], NDArray[Any]]] = []

    def picture(self, q: Array, target: Array, away: Array) -> NDArray[np.uint8]:
        """Pixels (height, width, 3) at a configuration (nq,), from ``target + away`` towards ``target`` (m).

        Several threads may take pictures at once.
        """
        poses = [(np.eye(3), np.zeros(3)), *world_poses(self.scene.tree, q)]  # that of the world first
        R, p = (np.array(each) for each in zip(*poses, strict=True))
        distance = float(np.linalg.norm(away))
        sun, texel = np.array(LAMP) / np.linalg.norm(LAMP), 2.0 * distance / SHADOWS
        lamp = camera_at(FAR * distance * sun, np.zeros(3), 1.0 / FAR, SHADOWS, SHADOWS)
        whole = lamp.axes.T @ np.round(lamp.axes @ target / texel) * texel  # so that edges of shadows stay in place
        lamp = lamp._replace(position=lamp.position + whole)
        eye = camera_at(target + away, target, OPENING, SAMPLES * self.width, SAMPLES * self.height)
        dark, seen, nearest, out = buffers = self._free.pop() if self._free else self._new_buffers()
        dark, seen = dark._replace(scale=lamp.scale), seen._replace(scale=eye.scale)
        boxes, opacities = [], self._geometry.opacities
        for camera, rays, opaque in ((lamp, dark, np.round(opacities + 1e-9)), (eye, seen, opacities)):
            turned = camera.axes @ R
            boxes.append(project(self._geometry, turned, (p - camera.position) @ camera.axes.T, rays))
            rasterise(self._geometry, opaque, WAYS, rays, boxes[-1])
        light = Lamp(
            dark.inverse, nearest, boxes[0], lamp.scale, 2.0 * texel, lamp.axes @ eye.axes.T,
            lamp.axes @ (eye.position - lamp.position), eye.axes @ sun,
        )  # fmt: skip
        pool(light)
        planes = [row for c in self._planes if (row := _plane(c, eye, sun)) is not None]
        around = Around(
            np.array(planes).reshape(-1, 16), np.square(SKY), eye.axes[:, 2].copy(), rounded(distance / 8), distance
        )
        shade(self._geometry, seen, boxes[1], light, around, turned, out)
        picture = out.astype(np.uint8)
        self._free.append(buffers)
        return picture

    def _new_buffers(self) -> tuple[Rays, Rays, NDArray[Any], NDArray[Any]]:
        """Rays of the lamp and of the camera; squares of the lamp's; and pixels."""
        n = len(self._geometry.vertices)
        sizes = (SHADOWS, SHADOWS), (SAMPLES * self.height, SAMPLES * self.width)
        dark, seen = (
            Rays(
                0.0,
                np.empty((n, 3)),
                np.empty((n, 2)),
                np.empty((height, width), np.float32),
                np.empty((height, width), np.int64),
                np.empty((-(-height // TILE), -(-width // TILE)), np.float32),
            )
            for height, width in sizes
        )
        squares, pixels = (SHADOWS // POOL, SHADOWS // POOL), (self.height, self.width, 3)
        return dark, seen, np.empty(squares, np.float32), np.empty(pixels, np.float32)


def _plane(collider: Collider, eye: Camera, sun: Array) -> Array | None:
    """Row of a half space in `Around`; None if the camera is in it."""
    x, y, z = collider.rotation.T
    from_origin = eye.position - collider.position
    if (above := float(z @ from_origin)) <= 0.0:
        return None
    colour = np.square(GROUND if collider.rgba is None else collider.rgba[:3])
    axes = [w for axis in (x, y) for w in (*(eye.axes @ axis), axis @ from_origin)]
    light = AMBIENT + SKYLIGHT * z[2], LAMPLIGHT * max(float(z @ sun), 0.0)
    return np.array([*(eye.axes @ z / -above), *axes, *colour, *light])
