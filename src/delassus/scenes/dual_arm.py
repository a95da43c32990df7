"""The dual-arm platform of [OS]: a sensor head and two arms with hands, which lift a box from a table."""

from __future__ import annotations

import numpy as np

from delassus import Scene, mechanisms
from delassus.contact import Box, Collider, Sphere
from delassus.scenes.grasp import Grasp
from delassus.scenes.ready import ReadyScene

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
