"""Pictures of a world by a camera that follows its robot."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from delassus import Scene
from delassus.errors import ConfigurationError, shown
from delassus.model.check import check_list, check_whole
from delassus.model.kinematics import world_poses
from delassus.pictures.rendering import OPENING, Renderer
from delassus.pictures.surfaces import extent
from delassus.pictures.video import AWAY, MARGIN
from delassus.spatial.rotations import Array


class Pictures:
    """Camera that follows a robot. Its distance suits the robot's size in the neutral configuration."""

    def __init__(self, scene: Scene, size: tuple[int, int]) -> None:
        q = scene.tree.neutral()
        self._renderer = Renderer(scene, q, *size)
        self._away = np.array(AWAY) / np.linalg.norm(AWAY) * extent(scene, q)[1] * MARGIN / OPENING

    def of(self, q: Array) -> NDArray[np.uint8]:
        """Pixels (height, width, 3) of a configuration (nq,)."""
        middle: Array = np.mean([p for _, p in world_poses(self._renderer.scene.tree, q)], axis=0)
        return self._renderer.picture(q, middle, self._away)


def check_size(size: tuple[int, int]) -> tuple[int, int]:
    """Return a width and a height in pixels; or `ConfigurationError`."""
    several = check_list("size", size, "a width and a height", "Such as (480, 320).")
    if len(several) != 2:
        raise ConfigurationError("size", "a width and a height", shown(size), "Such as (480, 320).")
    width, height = (check_whole("size", n, "In pixels.", least=16, most=4096) for n in several)
    return width, height
