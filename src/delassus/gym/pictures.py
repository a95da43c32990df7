"""Pictures of a world by a camera that follows its robot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from delassus import Scene
from delassus.model.kinematics import world_poses
from delassus.pictures.rendering import OPENING, Renderer
from delassus.pictures.surfaces import extent
from delassus.pictures.video import AWAY, MARGIN
from delassus.spatial.rotations import Array

Pictures = Callable[[Array], NDArray[np.uint8]]
"""From a configuration (nq,) to pixels (height, width, 3)."""


def pictures_of(scene: Scene, size: tuple[int, int]) -> Pictures:
    """Camera that follows a robot; its distance suits the robot's size in the neutral configuration."""
    q0 = scene.tree.neutral()
    renderer, away = Renderer(scene, q0, *size), np.array(AWAY)
    away *= extent(scene, q0)[1] * MARGIN / OPENING / np.linalg.norm(away)

    def picture(q: Array) -> NDArray[np.uint8]:
        middle: Array = np.mean([p for _, p in world_poses(scene.tree, q)], axis=0)
        return renderer.picture(q, middle, away)

    return picture
