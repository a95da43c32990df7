"""A quadruped that walks over tiles, whose seams do not trip it, and up two stairs."""

from dataclasses import replace

import numpy as np

import delassus as ds
from delassus.contact import Box, Collider
from delassus.scenes.quadruped import quadruped
from delassus.scenes.ready import ReadyScene

TILE = 0.25
"""Side of a tile (m)."""

STEP = 0.04
"""Height of a step (m)."""

STAIRS = (0.5, 0.75)
"""Where steps are along x (m)."""

GOAL = 1.2
"""Where the walk ends (m)."""

COLOURS = ((0.75, 0.72, 0.68, 1.0), (0.62, 0.48, 0.40, 1.0))


def tiles(*, generic: bool = False) -> ReadyScene:
    """Go1, or the built-in quadruped (``generic``), walks 1.2 m over tiles of 25 cm, which rise twice by 4 cm.

    Examples
    --------
    >>> len(tiles(generic=True).scene.colliders)
    41
    """
    ready = quadruped(generic=generic, goal=GOAL)
    scene = ready.scene.without("floor")
    for i, x in enumerate(np.arange(-0.5, GOAL + 0.5, TILE)):
        for j, y in enumerate(np.arange(-0.5, 0.5, TILE)):
            at = (x + TILE / 2, y + TILE / 2, STEP * sum(x >= stair for stair in STAIRS) - 0.1)
            colour = COLOURS[(i + j) % 2]
            scene = scene.add(f"tile{i}_{j}", Collider("world", Box(TILE, TILE, 0.2), at, friction=0.8, rgba=colour))

    def check(sim: ds.Simulator) -> tuple[bool, str]:
        (x, y, z), up = sim.q[:3], ds.forward_kinematics(scene.tree, sim.q)[0, 2, 2]
        climbed = z - ready.q0[2]
        arrived = abs(x - GOAL) < 0.1 and abs(climbed - 2 * STEP) < 0.02 and up > 0.95
        return arrived, f"the trunk is {x:.2f} m ahead, {abs(y):.2f} m aside, and has climbed by {climbed:.3f} m"

    told = f"{scene.tree.name} walks over tiles and up two stairs"
    return replace(ready, name="tiles", scene=scene, duration=5.2, description=told, check=check, dt=2e-3)
