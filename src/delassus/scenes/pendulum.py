"""The pendulum of [OS] section 8: a chain of balls that swings over a floor and against a wall."""

from __future__ import annotations

from functools import partial

import numpy as np

from delassus import Scene, load
from delassus.contact import Collider, HalfSpace, Sphere
from delassus.model.check import check_whole
from delassus.scenes.ready import ReadyScene, urdf_link

LENGTH = 12.0
"""Length of the pendulum (m)."""

HEIGHT = 10.0
"""Height of its base above the floor (m)."""

WALL = 4.0
"""Distance from the base to the wall (m)."""

FRICTION = 0.5
"""Friction of the tip on floor and wall."""

RESTITUTION = 0.7
"""Restitution of the tip."""

GRAVITY = 9.8
"""Acceleration of gravity (m/s²)."""

START_ANGLE = np.pi / 4
"""Angle at the start (rad)."""

START_RATE = 1.0
"""Its rate at the start (rad/s)."""

TIME_STEP = 1e-4
"""Time step (s)."""


def pendulum(n: int = 12) -> ReadyScene:
    """Pendulum of ``n`` balls of 1 kg, 12 m long, from a base at 10 m, with the floor below and a wall 4 m away.

    Balls are solid and touch their neighbours; pin hinges along y are where they touch, the first one on the base. It
    starts straight, at π/4 to the left of the vertical, and turns towards the right at 1 rad/s. Its end strikes the
    floor, bounces, and then the wall at the right.

    Parameters
    ----------
    n : int
        Number of balls, from 3 to 30 in the paper; they are ``ball1`` … ``ball<n>``, the higher the smaller.

    Raises
    ------
    ConfigurationError
        ``n`` is not a positive whole number.

    References
    ----------
    [OS] section 8. The paper does not say what balls weigh inside, on which side the hinges are, nor which way the
    pendulum turns at first: solid balls, hinges between them, and towards the wall are our reading.

    Examples
    --------
    >>> ready = pendulum(3)
    >>> ready.scene.tree.nv, ready.scene.colliders[0].shape.radius
    (3, 2.0)
    """
    n = check_whole("n", n, "The paper has 3 to 30.", least=1)
    radius = LENGTH / (2 * n)
    ball, centre, parts = Sphere(radius), (0.0, 0.0, -radius), '<link name="base"/>'
    for k in range(n):
        parts += urdf_link(f"ball{k + 1}", 1.0, f"0 0 {-radius}", ball.inertia(1.0))
        parts += f"""<joint name="hinge{k + 1}" type="continuous"><axis xyz="0 1 0"/>
            <parent link="{f"ball{k}" if k else "base"}"/><child link="ball{k + 1}"/>
            <origin xyz="0 0 {-2.0 * radius if k else HEIGHT}"/></joint>"""
    surface = partial(Collider, friction=FRICTION, restitution=RESTITUTION)
    to_the_left = [[0, 0, -1], [0, 1, 0], [1, 0, 0]]  # the wall's normal points to −x
    colliders = [
        *(surface(f"ball{k + 1}", ball, centre) for k in range(n)),
        surface("world", HalfSpace(), name="floor"),
        surface("world", HalfSpace(), (WALL, 0.0, 0.0), to_the_left, name="wall"),
    ]
    scene = Scene(load(f'<robot name="pendulum{n}">{parts}</robot>'), colliders, gravity=(0.0, 0.0, -GRAVITY))
    q0, v0 = np.zeros(n), np.zeros(n)
    q0[0], v0[0] = START_ANGLE, -START_RATE
    told = f"{n} balls on a string of hinges swing, strike the floor, bounce, and strike the wall"
    return ReadyScene("pendulum", scene, q0, v0, TIME_STEP, None, 3.0, told)
