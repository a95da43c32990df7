"""A car with springs at its four wheels that drives over hills and stops where it is to."""

import numpy as np
from numpy.typing import NDArray

import delassus as ds
from delassus.contact import HeightField
from delassus.scenes.ready import ReadyScene, urdf_of

CHASSIS = "chassis | | | box 0.9 0.4 0.14 | 0 0 0.06 | 30 | .80 .20 .15\n"
CORNER = """
{c}hub   chassis  | prismatic z -0.1 0.1 | {x} {y} 0 | seen box 0.05 0.05 0.05    | 0 0 0        | 1 | .30 .30 .32
{c}steer {c}hub   | {turns}              | 0 0 0     | seen box 0.04 0.08 0.04    | 0 0 0        | 1 | .30 .30 .32
{c}wheel {c}steer | continuous y         | 0 {out} 0 | cylinder 0.13 0.08         | 0 0 0 1.57 0 0 | 2 | .15 .15 .16
"""
WHEELS = {"FL": (0.34, 0.24), "FR": (0.34, -0.24), "RL": (-0.34, 0.24), "RR": (-0.34, -0.24)}
SPEED = 2.5
"""Wanted speed (m/s)."""
GOAL = 8.0
"""Way along x (m)."""


def car() -> ReadyScene:
    """Car of 46 kg with four driven wheels, of which two are steered, on springs of 3 kN/m.

    Examples
    --------
    >>> car().scene.tree.nv
    16
    """
    x, y = np.meshgrid(np.linspace(-2, 12, 71), np.linspace(-2, 2, 21), indexing="ij")
    hills = 0.08 * np.sin(2.2 * x) * np.cos(1.5 * y + 0.4 * x) + 0.03 * np.sin(5 * x + 3 * y) + 0.05 * np.sin(0.8 * x)
    text, springs = CHASSIS, []
    for c, (ahead, left) in WHEELS.items():
        turns = "revolute z -0.6 0.6" if c[0] == "F" else "fixed"
        text += CORNER.strip().format(c=c, x=ahead, y=left, turns=turns, out=np.copysign(0.08, left)) + "\n"
        above = ds.Frame("chassis", (ahead, left, 0.3))
        springs.append(ds.SpringDamper(f"{c}hub", above, stiffness=3000, damping=200, length=0.34))
    scene = ds.Scene.from_robot(urdf_of("car", text), friction=0.9)
    scene = scene.add("ground", HeightField(hills, (14, 4)), at=(5, 0, 0), friction=0.9).attach(*springs)
    tree, q0 = scene.tree, scene.set_down(scene.start)
    wheels = [tree.v_index(f"{c}wheel").start for c in WHEELS]
    steers = [tree.v_index(f"{c}steer").start for c in ("FL", "FR")]

    def controller(sim: ds.Simulator) -> NDArray[np.float64]:
        (x, y), heading, tau = sim.q[:2], 2 * sim.q[5] * np.sign(sim.q[6]), np.zeros(tree.nv)
        speed = np.clip(1.5 * (GOAL - x), -SPEED, SPEED)
        tau[wheels] = np.clip(3 * (speed / 0.13 - sim.v[wheels]), -25, 25)
        tau[steers] = 60 * (np.clip(-0.8 * y - 1.5 * heading, -0.5, 0.5) - sim.q[np.add(steers, 1)]) - 3 * sim.v[steers]
        return tau

    def check(sim: ds.Simulator) -> tuple[bool, str]:
        off = np.hypot(sim.q[0] - GOAL, sim.q[1])
        up = ds.forward_kinematics(tree, sim.q)[0, 2, 2]
        leans = np.degrees(np.arccos(min(up, 1.0)))
        return off < 0.3 and leans < 20, f"the car is {off:.2f} m from its goal, and leans by {leans:.0f}°"

    told = "a car on springs drives 8 m over hills and stops"
    return ReadyScene("car", scene, q0, np.zeros(tree.nv), 5e-3, controller, 4.5, told, check)
