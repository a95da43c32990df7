"""Parts of several shapes that fall into a bin."""

from itertools import islice, product

import numpy as np

import delassus as ds
from delassus.contact import Box, Collider, Cylinder, HalfSpace
from delassus.scenes.ready import ReadyScene

SHAPES = (Box(0.06, 0.04, 0.03), Box(0.05, 0.05, 0.02), Box(0.07, 0.02, 0.02), Cylinder(0.03, 0.015))
"""Bricks, tiles, bars and discs (m)."""

SIDE = 0.5
"""Inner edges of the bin (m)."""

WALL = 0.3
"""Height of its walls (m)."""

SPACE = 0.08
"""Distance between parts at the start (m)."""


def bin_of_parts(n: int = 200) -> ReadyScene:
    """Bin into which ``n`` parts fall in layers of 36: bricks, tiles, bars and discs.

    Examples
    --------
    >>> ready = bin_of_parts(10)
    >>> ready.scene.tree.nv
    60
    """
    names, rng = [f"part{k + 1}" for k in range(n)], np.random.default_rng(0)
    parts = dict(zip(names, SHAPES * n, strict=False))
    masses = {name: 1000.0 * shape.volume for name, shape in parts.items()}  # kg
    robots = {name: ds.mechanisms.free_body(masses[name], shape.inertia(masses[name])) for name, shape in parts.items()}
    rgba = (0.8, 0.3, 0.2, 1), (0.3, 0.55, 0.8, 1), (0.9, 0.7, 0.2, 1), (0.4, 0.65, 0.35, 1)
    colours = dict(zip(SHAPES, rgba, strict=True))
    colliders = [Collider(f"{name}/body", shape, name=name, rgba=colours[shape]) for name, shape in parts.items()]
    colliders.append(Collider("world", HalfSpace(), name="floor"))
    for k, (x, y) in enumerate([(1, 0), (-1, 0), (0, 1), (0, -1)]):
        wall = Box(SIDE * (x == 0) + 0.02, SIDE * (y == 0) + 0.02, WALL)
        colliders.append(
            Collider("world", wall, ((SIDE / 2 + 0.01) * x, (SIDE / 2 + 0.01) * y, WALL / 2), name=f"wall{k + 1}")
        )
    scene, grid = ds.Scene(robots, colliders), islice(product(range(n), range(6), range(6)), n)
    places = SPACE * np.array([[x - 2.5, y - 2.5, z + 1] for z, y, x in grid])
    turns = rng.normal(size=(n, 4))
    q0 = np.hstack([places, turns / np.linalg.norm(turns, axis=1, keepdims=True)]).ravel()

    def check(sim: ds.Simulator) -> tuple[bool, str]:
        x, speeds = np.abs(sim.q.reshape(n, 7)[:, :3]), np.linalg.norm(sim.v.reshape(n, 6)[:, :3], axis=1)
        inside, resting = int((x < [SIDE / 2, SIDE / 2, WALL]).all(axis=1).sum()), int((speeds < 1e-2).sum())
        told = f"{inside} of {n} parts are in the bin, {resting} at rest; others at {1e3 * speeds.max():.0f} mm/s"
        return inside == n and resting >= 0.95 * n, told

    told = f"{n} parts of four shapes fall into a bin and come to rest"
    return ReadyScene("bin", scene, q0, np.zeros(scene.tree.nv), 2e-3, None, 2.0, told, check)
