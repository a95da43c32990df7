"""A hanging bridge, and a barrel that rolls over it."""

from dataclasses import replace

import numpy as np

import delassus as ds
from delassus.contact import Box, Collider, Cylinder
from delassus.scenes.ready import ReadyScene

PITCH = 0.28
"""From a hinge between planks to the next one, along their z (m)."""

PLANK = Box(0.04, 0.8, 0.22)
"""Edges of a plank (m)."""

BARREL = Cylinder(0.2, 0.6)
"""The barrel, of 20 kg (m)."""

SLACK = 1.03
"""Length of the bridge over the distance of the banks."""

SPEED = 2.5
"""Speed of the barrel at the start (m/s)."""


def rope_bridge(n: int = 15) -> ReadyScene:
    """Bridge of ``n`` planks on hinges that hangs between two banks; a barrel rolls from one to the other.

    The last hinge, at the far bank, is a loop constraint.

    Examples
    --------
    >>> ready = rope_bridge()
    >>> ready.scene.tree.nv, len(ready.scene.loops)
    (21, 1)
    """
    shore, low, wood = 0.5 * n * PITCH / SLACK, -PLANK.x / 2, (0.6, 0.4, 0.2, 1)
    planks = ds.mechanisms.pendulum(n, length=PITCH, mass=4.0)
    planks = replace(planks, joints=tuple(replace(joint, damping=np.array([2.0])) for joint in planks.joints))
    colliders = [Collider(f"bridge/rod{k + 1}", PLANK, (0, 0, -PITCH / 2), rgba=wood) for k in range(n)]
    colliders.append(Collider("barrel/body", BARREL, rotation=[[1, 0, 0], [0, 0, 1], [0, -1, 0]]))
    colliders += [Collider("world", Box(4, 1.2, 1), (s * (shore + 2), 0, -0.5), name=f"bank {s}") for s in (-1, 1)]
    barrel = ds.mechanisms.free_body(20.0, BARREL.inertia(20.0)[[0, 2, 1]])
    mounted = ds.Scene({"barrel": barrel}).add("bridge", planks, at=(-shore, 0, low))
    end, far = ds.Frame(f"bridge/rod{n}", (0, 0, -PITCH)), ds.Frame("world", (shore, 0, low))
    scene = ds.Scene(mounted.robots, colliders, loops=[ds.Hinge(end, far, axis=(0, 1, 0))])
    arc = np.r_[0.05 * n / 2 - np.pi / 2, np.full(n - 1, -0.05)]  # rad, from which loops are closed
    start = scene.configuration(barrel=[-shore - 1, 0, BARREL.radius, 0, 0, 0, 1], bridge=arc)
    q0 = ds.close_loops(scene.tree, scene.loops, start).q
    v0 = scene.velocity(barrel=[SPEED, 0, 0, 0, SPEED / BARREL.radius, 0])

    def check(sim: ds.Simulator) -> tuple[bool, str]:
        gap = np.abs(ds.forward_kinematics(scene.tree, sim.q, end)[:3, 3] - far.position).max()
        beyond, high = sim.q[0] - shore, sim.q[2] - BARREL.radius
        told = f"the barrel is {beyond:.2f} m beyond the edge of the far bank; the loop is open by {gap:.0e} m"
        return bool(beyond > 0 and abs(high) < 1e-3 and gap < 1e-6), told

    told = f"a barrel rolls over a bridge of {n} planks that hang between two banks"
    return ReadyScene("rope-bridge", scene, q0, v0, 1e-3, None, 1 + 0.12 * n, told, check)
