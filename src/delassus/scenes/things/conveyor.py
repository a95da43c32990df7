"""A conveyor belt with an arm that sends parts to two lanes."""

import numpy as np
from numpy.typing import NDArray

import delassus as ds
from delassus.contact import Box, Collider, Cylinder
from delassus.scenes.ready import ReadyScene

SPEED = 1.0
"""Speed of the belt (m/s)."""

ARM = 0.5
"""Length of the arm, from the start of the wall between lanes towards the parts (m)."""

TURN = 0.5
"""Its angle to either side (rad)."""

KP = 40.0
"""Stiffness of its joint (N m/rad); the damping is a tenth of that."""


def conveyor(n: int = 6) -> ReadyScene:
    """Belt that carries ``n`` parts, boxes and cylinders in turn, to an arm: boxes go left, cylinders right.

    Examples
    --------
    >>> ready = conveyor()
    >>> ready.scene.tree.nv
    37
    """
    names, shapes = [f"part{k + 1}" for k in range(n)], (Box(0.1, 0.1, 0.1), Cylinder(0.05, 0.1))
    robots = {name: ds.mechanisms.free_body(0.5, shapes[k % 2].inertia(0.5)) for k, name in enumerate(names)}
    colliders = [Collider(f"{x}/body", shapes[k % 2], name=x, rgba=(0.9, 0.6, 0.1, 1)) for k, x in enumerate(names)]
    long, lane, red = n + 4.0, Box(2.0, 0.02, 0.1), (0.85, 0.2, 0.2, 1)
    colliders += [
        Collider("world", Box(long, 0.9, 0.1), (2.5 - long / 2, 0, -0.05), surface_velocity=(SPEED, 0, 0), name="belt"),
        Collider("arm/rod1", Box(0.1, 0.02, ARM), (0, 0, -ARM / 2), friction=0.02, name="arm", rgba=red),
        Collider("world", Box(0.02, 0.9, 0.1), (2.5, 0, 0.05), name="stop"),
        *(Collider("world", lane, (1.5, y, 0.05), friction=0.02, name=f"wall {y}") for y in (-0.44, 0, 0.44)),
    ]
    at = 0.5, 0, 0.06, 0.5, 0.5, 0.5, 0.5  # the rod lies, its hinge is upright
    mounted = ds.Scene(robots).add("arm", ds.mechanisms.pendulum(1, length=ARM), at=at)
    scene = ds.Scene(mounted.robots, colliders, ignore=[("arm", "belt"), ("arm", "wall 0")])
    start = {name: [-k - 1.0, 0, 0.05, 0, 0, 0, 1] for k, name in enumerate(names)}

    def control(sim: ds.Simulator) -> NDArray[np.float64]:
        first = min(int((sim.q[: 7 * n : 7] > 0.6).sum()), n - 1)  # that has not passed the arm
        tau = np.zeros(scene.tree.nv)
        tau[-1] = KP * ((-TURN if first % 2 else TURN) - sim.q[-1]) - 0.1 * KP * sim.v[-1]
        return tau

    def check(sim: ds.Simulator) -> tuple[bool, str]:
        x, y = sim.q[: 7 * n].reshape(n, 7)[:, :2].T
        arrived = int(((x > 0.6) & (y * (-1.0) ** np.arange(n) > 0)).sum())
        return arrived == n, f"{arrived} of {n} parts are in their lanes"

    q0, v0 = scene.configuration(**start), np.zeros(scene.tree.nv)
    told = f"a belt carries {n} parts to an arm that sends boxes to the left and cylinders to the right"
    return ReadyScene("conveyor", scene, q0, v0, 1e-3, control, n + 1.5, told, check)
