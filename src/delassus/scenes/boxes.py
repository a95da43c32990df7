"""Boxes that fall onto one another and come to rest as a stack."""

from __future__ import annotations

import numpy as np

from delassus import Scene, mechanisms
from delassus.contact import Box, Collider, HalfSpace
from delassus.model.check import check_whole
from delassus.scenes.ready import ReadyScene

EDGES = (0.4, 0.4, 0.2)
"""Of a box along its axes (m)."""

MASS = 1.0
"""Mass of a box (kg)."""

GAP = 0.05
"""Space between boxes at the start (m)."""

OFFSET = 0.02
"""How far boxes are off the middle (m)."""

TURN = 0.2
"""How far boxes are turned (rad)."""


def boxes(n: int = 5) -> ReadyScene:
    """Stack of ``n`` boxes ``box1`` … ``box<n>``, each 5 cm above the next, that falls on the floor and stays.

    Boxes are off the middle and turned about the vertical by rule, so that faces meet at angles, as in a stack made by
    hand.

    Raises
    ------
    ConfigurationError
        ``n`` is not a positive whole number.

    Examples
    --------
    >>> ready = boxes(3)
    >>> ready.scene.tree.nv
    18
    """
    n = check_whole("n", n, "Five make a stack.", least=1)
    shape = Box(*EDGES)
    names = [f"box{k + 1}" for k in range(n)]
    robots = {name: mechanisms.free_body(MASS, shape.inertia(MASS)) for name in names}
    colliders = [Collider(f"{name}/body", shape, friction=0.6, name=name) for name in names]
    scene = Scene(robots, [*colliders, Collider("world", HalfSpace(), friction=0.6, name="floor")])
    start = {}
    for k, name in enumerate(names):
        angle = TURN * np.sin(2.0 * k)
        height = EDGES[2] / 2 + GAP + k * (EDGES[2] + GAP)
        place = [OFFSET * np.cos(3.0 * k), OFFSET * np.sin(3.0 * k), height]
        start[name] = [*place, 0.0, 0.0, np.sin(angle / 2), np.cos(angle / 2)]
    told = f"{n} boxes fall onto one another and come to rest as a stack"
    return ReadyScene(
        "boxes", scene, scene.configuration(**start), np.zeros(scene.tree.nv), 1e-3, None, 1.0 + 0.1 * n, told
    )
