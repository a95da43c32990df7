"""A row of dominoes along a bend, which a ball topples."""

import numpy as np

import delassus as ds
from delassus.contact import Box, Collider, HalfSpace, Sphere
from delassus.scenes.ready import ReadyScene

DOMINO = Box(0.0075, 0.024, 0.048)
"""Edges of a domino (m)."""

MASS = 0.01
"""Mass of a domino, and of the ball (kg)."""

SPACING = 0.02
"""Distance from one domino to the next along the bend (m)."""

RADIUS = 0.25
"""Radius of the bend (m)."""

SPEED = 0.5
"""Speed of the ball (m/s)."""


def dominoes(n: int = 30) -> ReadyScene:
    """Row of ``n`` dominoes along a bend; a ball rolls against the first one, and the last one falls.

    Examples
    --------
    >>> ready = dominoes(10)
    >>> ready.scene.tree.nv
    66
    """
    names, ball = [f"domino{k + 1}" for k in range(n)], Sphere(0.015)
    robots = {name: ds.mechanisms.free_body(MASS, DOMINO.inertia(MASS)) for name in names}
    robots["ball"] = ds.mechanisms.free_body(MASS, ball.inertia(MASS))
    shades = {x: (0.1 + 0.85 * k / n, 0.25 + 0.4 * k / n, 0.8 - 0.7 * k / n, 1) for k, x in enumerate(names)}
    colliders = [Collider(f"{x}/body", DOMINO, friction=0.3, name=x, rgba=shade) for x, shade in shades.items()]
    colliders += [Collider("ball/body", ball), Collider("world", HalfSpace(), friction=0.6, name="floor")]
    scene, start = ds.Scene(robots, colliders), {}
    for name, angle in zip(names, np.arange(n) * SPACING / RADIUS, strict=True):
        place = [RADIUS * np.sin(angle), RADIUS * (1 - np.cos(angle)), DOMINO.z / 2]
        start[name] = [*place, 0, 0, np.sin(angle / 2), np.cos(angle / 2)]
    start["ball"] = [-0.05, 0, ball.radius, 0, 0, 0, 1]
    v0 = scene.velocity(ball=[SPEED, 0, 0, 0, SPEED / ball.radius, 0])

    def check(sim: ds.Simulator) -> tuple[bool, str]:
        up = ds.forward_kinematics(scene.tree, sim.q)[:n, 2, 2]  # cosine of what each leans by
        fallen = int((up < 0.7).sum())
        return fallen == n, f"{fallen} of {n} dominoes have fallen"

    told = f"a ball topples the first of {n} dominoes, and these topple each other"
    return ReadyScene("dominoes", scene, scene.configuration(**start), v0, 1e-3, None, 1.0 + 0.03 * n, told, check)
