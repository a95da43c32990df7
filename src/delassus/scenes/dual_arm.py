"""The dual-arm platform of [OS]: a sensor head and two arms with hands, which lift a box from a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delassus.contact.scene import Scene
from delassus.model.description import RawJoint, RawLink
from delassus.model.edit.build import build_tree
from delassus.model.mechanisms import free_body
from delassus.model.shapes import Box, Collider, Sphere
from delassus.model.tree import Tree
from delassus.scenes.grasp import Grasp
from delassus.scenes.ready import ReadyScene
from delassus.spatial.joint_kinds import REVOLUTE

TIP_RADIUS, FRICTION = 0.015, 0.9
"""Of the finger tips (m), and between them, the box and the table."""

BOX, BOX_MASS, BOX_PLACE = (0.2, 0.24, 0.2), 1.0, (0.56, 0.0, 0.8)
"""Edges (m), mass (kg) and centre (m) of what is lifted."""

TABLE, TABLE_PLACE = (0.4, 1.0, 0.04), (0.6, 0.0, 0.68)
"""Edges and centre of the table's top (m)."""

HEAD = "zyxy"
ARM = (
    ("y", 0.0, 1.2),
    ("x", 0.0, 1.0),
    ("z", 0.0, 2.0),
    ("y", -0.3, 1.2),
    ("z", 0.0, 0.8),
    ("y", -0.28, 0.4),
    ("x", 0.0, 0.6),
)
"""Axis, place below the joint before (m) and mass of the link (kg) of each joint of an arm, from the shoulder on."""

FINGERS = (("finger1", (0.04, 0.0, -0.1), 1), ("finger2", (-0.04, 0.0, -0.1), 1), ("thumb", (-0.06, 0.0, -0.02), 2))
"""Name, place on the palm (m) and number of joints."""

PHALANX, MOTOR = 0.08, 0.01
"""Length of a finger's link (m), and inertia of its motor behind the gear (kg m²)."""

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
    robot = dual_arm_robot()
    tips = [name for name in robot.frames if name.endswith("_tip")]
    colliders = [
        *(Collider(f"robot/{tip}", Sphere(TIP_RADIUS), friction=FRICTION) for tip in tips),
        Collider("box/body", shape, friction=FRICTION, name="box"),
        Collider("world", Box(*TABLE), TABLE_PLACE, friction=FRICTION, name="table"),
    ]
    scene = Scene({"robot": robot, "box": free_body(BOX_MASS, shape.inertia(BOX_MASS))}, colliders)
    ready = robot.neutral()
    for side in ("left", "right"):
        ready[robot.joint_names.index(f"{side}_arm4_joint")] = -np.pi / 2  # forearms point ahead
    q0 = scene.configuration(robot=ready, box=[*BOX_PLACE, 0.0, 0.0, 0.0, 1.0])
    controller = Grasp(scene, q0, PRESSING, np.array(BOX_PLACE), np.array(BOX), BOX_MASS, TIP_RADIUS)
    told = "two arms press a box between their fingers and lift it from a table"
    return ReadyScene("dual-arm", scene, q0, np.zeros(scene.tree.nv), 1e-3, controller, 3.5, told)


def dual_arm_robot() -> Tree:
    """The robot alone; its frames ``left_finger1_tip`` … ``right_thumb_tip`` are finger tips."""
    links = [RawLink("torso", 20.0, np.array([0.0, 0.0, 0.8]), np.eye(3))]
    joints: list[RawJoint] = []

    def add(parent: str, name: str, axis: str, place: Sequence[float], mass: float, down: float, motor: float) -> str:
        """Link that reaches ``down`` below its joint; its centre of mass is half-way."""
        across = mass * (0.05**2 + down**2 / 12)
        moments = np.diag([across, across, mass * 0.04**2])
        links.append(RawLink(name, mass, np.array([0.0, 0.0, -down / 2]), moments))
        direction = np.eye(3)["xyz".index(axis)]
        joints.append(
            RawJoint(f"{name}_joint", REVOLUTE, parent, name, np.array(place), axis=direction, armature=motor)
        )
        return name

    last = "torso"
    for k, axis in enumerate(HEAD):
        last = add(last, f"head{k + 1}", axis, (0, 0, 0.05 if k else 1.25), 0.5, -0.05, 0.0)
    for side, left in (("left", 1.0), ("right", -1.0)):
        last = "torso"
        for k, (axis, below, mass) in enumerate(ARM):
            place = (0.0, 0.0, below) if k else (0.0, 0.25 * left, 1.1)
            reach = -ARM[k + 1][1] if k + 1 < len(ARM) else 0.1
            last = add(last, f"{side}_arm{k + 1}", axis, place, mass, reach, MOTOR)
        for finger, place, n in FINGERS:
            tip, at = last, place
            for k in range(n):
                name = f"{side}_{finger}" if n == 1 else f"{side}_{finger}{k + 1}"
                tip = add(tip, name, "x", at, 0.05, PHALANX / n, MOTOR)
                at = (0.0, 0.0, -PHALANX / n)
            links.append(RawLink(f"{side}_{finger}_tip"))
            joints.append(RawJoint(f"{side}_{finger}_tip_fixed", None, tip, f"{side}_{finger}_tip", np.array(at)))
    return build_tree("dual_arm", links, joints)
