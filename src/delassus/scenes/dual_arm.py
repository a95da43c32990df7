"""The dual-arm platform of [OS]: a sensor head and two arms with hands, which lift a box from a table.

Finger tips follow straight lines to the sides of the box, press, and lift it, by operational-space control: tips get
accelerations that take them to their lines, the rest of the motion stays near the posture at the start, and inverse
dynamics says which joint forces that takes. The tips' forces on the box are added through ``Jᵀ``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delassus import Point, Scene, Simulator, compile, mechanisms
from delassus.contact import Box, Collider, Sphere
from delassus.scenes.ready import ReadyScene
from delassus.spatial.rotations import Array

TIP_RADIUS = 0.015
"""Radius of the finger tips (m)."""

FRICTION = 0.9
"""Friction between the tips, the box and the table."""

BOX = (0.2, 0.24, 0.2)
"""Edges of what is lifted (m)."""

BOX_MASS = 1.0
"""Its mass (kg)."""

BOX_PLACE = (0.56, 0.0, 0.8)
"""Its centre at the start (m)."""

TABLE = (0.4, 1.0, 0.04)
"""Edges of the table's top (m)."""

TABLE_PLACE = (0.6, 0.0, 0.68)
"""Its centre (m)."""

PRESSING = tuple(f"robot/{side}_{finger}_tip" for side in ("left", "right") for finger in ("finger1", "finger2"))
"""Finger tips that hold the box; the thumbs stay away."""

ARRIVE = 0.8
"""Time at which the tips are beside the box (s)."""

TOUCH = 1.3
"""Time at which they are at its sides (s)."""

PRESSED = 1.7
"""Time from which they press in full (s)."""

LIFT = 1.8
"""Start of lifting (s)."""

TOP = 3.0
"""End of lifting (s)."""

AWAY = 0.05
"""Distance of the tips from the box before they close (m)."""

HIGH = 0.2
"""How far the box is lifted (m)."""

FORCE = 12.0
"""With which each tip presses (N)."""

STIFFNESS = 400.0
"""Stiffness of tips and joints, as accelerations (1/s²)."""

DAMPING = 40.0
"""Damping of tips and joints, as accelerations (1/s)."""

EASE = 0.05
"""By which joints of fingers move less than those of arms where both could."""


def dual_arm() -> ReadyScene:
    """Robot of 26 links and 26 degrees of freedom that presses a box between its hands and lifts it by 0.2 m.

    Two fingers of each hand touch a side of the box, four contacts in all. The robot's links are called ``robot/…``,
    the box is ``box/body``.

    References
    ----------
    [OS] Figure 1 and section 8: the numbers of links and joints; sizes and masses are plausible ones.

    Examples
    --------
    >>> ready = dual_arm()
    >>> robot = ready.scene.robots["robot"]
    >>> robot.n_links, robot.nv
    (26, 26)
    """
    shape = Box(*BOX)
    robot = mechanisms.dual_arm()
    tips = [name for name in robot.frames if name.endswith("_tip")]
    colliders = [
        *(Collider(f"robot/{tip}", Sphere(TIP_RADIUS), friction=FRICTION) for tip in tips),
        Collider("box/body", shape, friction=FRICTION, name="box"),
        Collider("world", Box(*TABLE), TABLE_PLACE, friction=FRICTION, name="table"),
    ]
    scene = Scene({"robot": robot, "box": mechanisms.free_body(BOX_MASS, shape.inertia(BOX_MASS))}, colliders)
    ready = robot.neutral()
    for side in ("left", "right"):
        ready[robot.joint_names.index(f"{side}_arm4_joint")] = -np.pi / 2  # forearms point ahead
    q0 = scene.configuration(robot=ready, box=[*BOX_PLACE, 0.0, 0.0, 0.0, 1.0])
    controller = Grasp(scene, q0, PRESSING, np.array(BOX_PLACE), np.array(BOX), BOX_MASS, TIP_RADIUS)
    told = "two arms press a box between their fingers and lift it from a table"
    return ReadyScene("dual-arm", scene, q0, np.zeros(scene.tree.nv), 1e-3, controller, 3.5, told)


class Grasp:
    """Controller that lifts a box (edges in m, mass in kg) with finger tips of a radius (m), half of them at each side.

    The scene has the robots ``"robot"``, which stays near its posture in ``q0``, and ``"box"``, with its ``centre`` in
    the world; ``tips`` are frames.
    """

    def __init__(
        self, scene: Scene, q0: Array, tips: Sequence[str], centre: Array, edges: Array, mass: float, radius: float
    ) -> None:
        tree = scene.tree
        self._jacobian = compile(tree, [Point(tip, axes="world") for tip in tips], "jacobian", wait=False)
        self._places = compile(tree, (), "kinematics", frames=list(tips), wait=False)
        self._inverse = compile(tree, (), "inverse_dynamics", passive="none", wait=False)
        self._robot, self._q = scene.v_slice("robot"), scene.q_slice("robot")
        self._posture, self._mass, self._gravity = np.array(q0[self._q]), mass, scene.gravity
        fingers = ["finger" in name or "thumb" in name for name in scene.robots["robot"].link_names]
        self._ease = np.where(fingers, EASE, 1.0)
        start = self._places(q0)[:, :3, 3]
        left = np.where(start[:, 1] > centre[1], 1.0, -1.0)
        self._inwards = np.outer(-left, [0.0, 1.0, 0.0])
        side = start.copy()
        side[:, 0] = centre[0]
        side[:, 1] = centre[1] + left * (edges[1] / 2 + radius)
        side[:, 2] += centre[2] - start[:, 2].mean()
        beside, lifted = side - AWAY * self._inwards, side + np.array([0.0, 0.0, HIGH])
        self._stations = ((0.0, ARRIVE, start, beside), (ARRIVE, TOUCH, beside, side), (LIFT, TOP, side, lifted))

    def __call__(self, sim: Simulator) -> Array:
        """Joint forces (nv,) at the state of a simulator; none on the box."""
        at, q, v = self._robot, sim.q, sim.v
        wanted, rate, acceleration = self._reference(sim.time)
        J = self._jacobian(q)[:, at]
        tips = self._places(q)[:, :3, 3]
        a = STIFFNESS * (wanted - tips).ravel() + DAMPING * (rate.ravel() - J @ v[at]) + acceleration.ravel()
        qdd = np.zeros_like(v)
        free = STIFFNESS / 8 * (self._posture - q[self._q]) - DAMPING / 2 * v[at]
        weighted = self._ease[:, None] * J.T
        qdd[at] = free + weighted @ np.linalg.solve(J @ weighted + 1e-4 * np.eye(len(a)), a - J @ free)
        tau: Array = self._inverse(q, v, qdd)
        tau[at] += J.T @ self._forces(sim.time, acceleration).ravel()
        tau[at.stop :] = 0.0
        return tau

    def _reference(self, time: float) -> tuple[Array, Array, Array]:
        """Places, velocities and accelerations of the tips."""
        place = self._stations[0][2]
        rate = acceleration = np.zeros_like(place)
        for start, stop, first, last in self._stations:
            if time >= start:
                s, ds, dds = _blend((time - start) / (stop - start))
                span, way = stop - start, last - first
                place, rate, acceleration = first + s * way, ds / span * way, dds / span**2 * way
        return place, rate, acceleration

    def _forces(self, time: float, acceleration: Array) -> Array:
        """Forces of the tips on the box: pressure, and from the start of lifting its weight."""
        pressure, *_ = _blend((time - TOUCH) / (PRESSED - TOUCH))
        carried, *_ = _blend((time - PRESSED) / (LIFT - PRESSED))
        lift = carried * self._mass * (acceleration[0] - self._gravity) / len(self._inwards)
        return np.asarray(pressure * FORCE * self._inwards + lift)


def _blend(s: float) -> tuple[float, float, float]:
    """Polynomial of the fifth degree from 0 to 1 that starts and ends at rest: value and derivatives."""
    s = min(max(s, 0.0), 1.0)
    return s**3 * (10 - 15 * s + 6 * s * s), 30 * s * s * (1 - s) ** 2, 60 * s * (1 - s) * (1 - 2 * s)
