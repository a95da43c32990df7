"""Scenes of ``delassus bench contact``, ``piles`` and ``terrain``: pendulums, grasps, planks, heaps, rough ground."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

import delassus as ds
from delassus.contact import Box, Capsule, Collider, Cylinder, HalfSpace, HeightField, Sphere
from delassus.model.description import RawJoint, RawLink
from delassus.model.edit.build import build_tree
from delassus.model.mechanisms import free_body
from delassus.scenes import ReadyScene, pendulum, quadruped
from delassus.spatial.joint_kinds import PRISMATIC, REVOLUTE
from delassus.spatial.rotations import Array, matrix_to_quaternion

DT, FALL, SWING = 1e-3, 3.0, 12.0
"""Time step of heaps (s), seconds until they are at rest, and seconds of a pendulum's swing."""

BUMPS = 0.06
"""Heights of rough ground (m)."""

EDGE, MASS, FRICTION, SPACING, JITTER = 0.2, 1.0, 0.6, 0.4, 0.02
"""Of boxes: edges (m), mass (kg), friction, distances in the grid they fall from and deviations from it (m)."""

ISLANDS = 4.0
"""Distance of heaps that do not touch (m)."""

STIFFNESS, DAMPING = 200.0, 5.0
"""Springs and dampers that hold the legs of the standing quadruped (N m/rad, N m s/rad)."""

GRIP, RUBBER = 200.0, 0.8
"""Stiffness of the springs that close pads and fingers (N/m), and the friction of these."""

REACHING = (0.0, 0.6, 0.0, 1.2, 0.0, 1.34, 0.0)
"""Angles (rad) of the arm at which its hand points down at a table."""

SHOVE, BALL = 5.0, 5.0
"""Speed (m/s) and mass (kg) of the ball that hits the planks."""


Solid = Box | Capsule | Cylinder | Sphere


def heap(n: int, layers: int = 2, seed: int = 0) -> ReadyScene:
    """Boxes of random attitudes that fall from a grid of so many layers onto a floor."""
    rng = np.random.default_rng(seed)
    side, k = int(np.ceil(np.sqrt(n / layers))), np.arange(n)
    grid = np.stack([k % side - (side - 1) / 2, k // side % side - (side - 1) / 2, k // side**2], axis=1)
    positions = SPACING * grid + [0.0, 0.0, 0.25] + rng.uniform(-JITTER, JITTER, (n, 3))
    quaternions = rng.normal(size=(n, 4))
    quaternions /= np.linalg.norm(quaternions, axis=1, keepdims=True)
    return _boxes(np.concatenate([positions, quaternions], axis=1))


def stack(n: int) -> ReadyScene:
    """Boxes on one another, just touching."""
    poses = np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], (n, 1))
    poses[:, 2] = EDGE * (np.arange(n) + 0.5)
    return _boxes(poses)


def heaps(k: int, n: int) -> ReadyScene:
    """So many heaps of n boxes, far from each other."""
    side, poses = int(np.ceil(np.sqrt(k))), [heap(n, seed=i).q0.reshape(n, 7).copy() for i in range(k)]
    for i, own in enumerate(poses):
        own[:, :2] += ISLANDS * np.array([i % side, i // side])
    return _boxes(np.concatenate(poses))


def _boxes(poses: Array) -> ReadyScene:
    """Boxes at poses (n, 7) over a floor."""
    n, shape = len(poses), Box(EDGE, EDGE, EDGE)
    body = free_body(MASS, shape.inertia(MASS))
    colliders = [Collider(f"box{k}/body", shape, friction=FRICTION) for k in range(n)]
    floor = Collider("world", HalfSpace(), friction=FRICTION)
    scene = ds.Scene({f"box{k}": body for k in range(n)}, [*colliders, floor])
    return ReadyScene("boxes", scene, poses.ravel(), np.zeros(6 * n), DT, None, FALL, "")


def rough_ground() -> Collider:
    """60 × 60 points, 0.1 m from each other, up to 6 cm higher or lower than their neighbours."""
    heights = np.random.default_rng(0).uniform(-0.5 * BUMPS, 0.5 * BUMPS, (60, 60))
    return Collider("world", HeightField(heights, (6.0, 6.0)), friction=FRICTION, name="ground")


def on_ground(shape: Box | Cylinder, n: int) -> ReadyScene:
    """So many bodies of a shape that fall onto rough ground side by side."""
    rng, side = np.random.default_rng(0), int(np.ceil(np.sqrt(n)))
    poses = rng.normal(size=(n, 7))
    poses[:, 3:] /= np.linalg.norm(poses[:, 3:], axis=1, keepdims=True)
    poses[:, 0], poses[:, 1], poses[:, 2] = np.arange(n) % side - side / 2, np.arange(n) // side - side / 2, 0.5
    body = free_body(MASS, shape.inertia(MASS))
    bodies = [Collider(f"body{k}/body", shape, friction=FRICTION) for k in range(n)]
    scene = ds.Scene({f"body{k}": body for k in range(n)}, [*bodies, rough_ground()])
    return ReadyScene("terrain", scene, poses.ravel(), np.zeros(6 * n), DT, None, FALL, "")


def standing_on_ground() -> ReadyScene:
    """The standing quadruped, set down on rough ground."""
    ready = standing()
    scene = replace(ready.scene, colliders=(*ready.scene.colliders[:-1], rough_ground()))
    return replace(ready, scene=scene, q0=scene.set_down(ready.q0))


def standing() -> ReadyScene:
    """Go1, or the generic quadruped where that is not installed, on four feet, its legs held by springs."""
    ready = quadruped()
    tree = ready.scene.tree
    legs = [
        replace(joint, stiffness=np.full(1, STIFFNESS), rest_position=np.array([q]), damping=np.full(1, DAMPING))
        for joint, q in zip(tree.joints[1:], ready.q0[7:], strict=True)
    ]
    held = ds.Scene(replace(tree, joints=(tree.joints[0], *legs)), ready.scene.colliders)
    return replace(ready, scene=held, controller=None, duration=FALL)


def pinch() -> ReadyScene:
    """A rod of 0.1 kg that two pads hold, each on a slide and pressed against it by a spring."""
    pad, rod = Box(0.02, 0.04, 0.04), Capsule(0.02, 0.06)
    links, joints = [RawLink("base")], list[RawJoint]()
    for name, side in (("left", -1.0), ("right", 1.0)):
        links.append(RawLink(name, 0.2, np.zeros(3), np.diag(pad.inertia(0.2))))
        at, x = np.array([0.0, 0.0, 0.5]), np.array([1.0, 0.0, 0.0])
        spring: dict[str, Any] = {"stiffness": GRIP, "rest_position": -0.02 * side, "damping": 5.0}
        joints.append(RawJoint(name, PRISMATIC, "base", name, at, axis=x, **spring))
    colliders = [Collider(f"slides/{name}", pad, friction=RUBBER) for name in ("left", "right")]
    colliders.append(Collider("rod/body", rod, friction=RUBBER))
    scene = ds.Scene(
        {"slides": build_tree("slides", links, joints), "rod": free_body(0.1, rod.inertia(0.1))}, colliders
    )
    q0 = scene.configuration(slides=[-0.03, 0.03], rod=[0.0, 0.0, 0.5, 0.0, 0.0, 0.0, 1.0])
    return ReadyScene("pinch", scene, q0, np.zeros(scene.tree.nv), DT, None, 1.0, "")


def arm_with_gripper() -> ds.Tree:
    """Seven hinges and two fingers, all held by springs: `REACHING`, and closed."""
    hand, finger, z = Box(0.06, 0.16, 0.06), Box(0.02, 0.02, 0.08), np.array([0.0, 0.0, 1.0])
    links, joints, parent = [RawLink("base")], list[RawJoint](), "base"
    for k, (angle, height) in enumerate(zip(REACHING, (0.4, 0.15, 0.25, 0.15, 0.25, 0.1, 0.1), strict=True)):
        links.append(RawLink(f"link{k + 1}", 2.5 - 0.25 * k, 0.08 * z, 0.01 * np.eye(3)))
        axis, at = np.array([0.0, 1.0, 0.0]) if k % 2 else z, height * z
        held: dict[str, Any] = {"stiffness": 400.0, "damping": 20.0, "rest_position": angle, "friction": 0.1}
        limits: dict[str, Any] = {"lower": -2.9, "upper": 2.9}
        joints.append(RawJoint(f"joint{k + 1}", REVOLUTE, parent, f"link{k + 1}", at, axis=axis, **held, **limits))
        parent = f"link{k + 1}"
    links.append(RawLink("hand", 0.5, np.zeros(3), np.diag(hand.inertia(0.5))))
    joints.append(RawJoint("wrist", None, parent, "hand", 0.13 * z))
    for name, side in (("left", 1.0), ("right", -1.0)):
        links.append(RawLink(name, 0.05, np.zeros(3), np.diag(finger.inertia(0.05))))
        held = {"stiffness": 10.0 * GRIP, "damping": 20.0, "rest_position": 0.01, "lower": 0.0, "upper": 0.06}
        axis = np.array([0.0, side, 0.0])
        joints.append(RawJoint(name, PRISMATIC, "hand", name, 0.07 * z, axis=axis, **held))
    return build_tree("arm", links, joints)


def kitchen() -> ReadyScene:
    """An arm that swings a box between its fingers over a table with a can, a ball and a rod."""
    tree, link = arm_with_gripper(), Capsule(0.05, 0.2)
    things: dict[str, tuple[Solid, float]] = {
        "box": (Box(0.05, 0.05, 0.05), 0.2),
        "can": (Cylinder(0.035, 0.12), 0.4),
        "ball": (Sphere(0.04), 0.2),
        "rod": (Capsule(0.025, 0.1), 0.3),
    }
    colliders = [Collider(f"arm/{name}", link, (0.0, 0.0, 0.05), friction=FRICTION) for name in ("link3", "link5")]
    colliders.append(Collider("arm/hand", Box(0.06, 0.16, 0.06), friction=FRICTION))
    colliders += [Collider(f"arm/{name}", Box(0.02, 0.02, 0.08), friction=RUBBER) for name in ("left", "right")]
    colliders += [Collider(f"{name}/body", shape, friction=FRICTION) for name, (shape, _) in things.items()]
    colliders.append(Collider("world", Box(0.8, 1.2, 0.1), (0.6, 0.0, -0.05), friction=FRICTION, name="table"))
    bodies = {name: free_body(mass, shape.inertia(mass)) for name, (shape, mass) in things.items()}
    scene = ds.Scene({"arm": tree, **bodies}, colliders)
    arm, upright, half = [0.3, *REACHING[1:], 0.035, 0.035], [0.0, 0.0, 0.0, 1.0], np.sqrt(0.5)
    hand = ds.compile(tree, (), "kinematics", frames=["hand"])(np.array(arm))[0]
    box = [*(hand[:3, 3] + 0.09 * hand[:3, 2]), *matrix_to_quaternion(hand[:3, :3])]
    can, ball = [0.5, 0.3, 0.06, *upright], [0.6, -0.3, 0.04, *upright]
    q0 = scene.configuration(arm=arm, box=box, can=can, ball=ball, rod=[0.75, 0.3, 0.025, 0.0, half, 0.0, half])
    return ReadyScene("kitchen", scene, q0, np.zeros(scene.tree.nv), DT, None, 1.5, "")


def planks(layers: int = 20, across: int = 4) -> ReadyScene:
    """A tower of planks, crosswise layer by layer, that a ball hits after 0.15 s."""
    plank, ball, n, half = Box(0.3, 0.07, 0.04), Sphere(0.1), layers * across, np.sqrt(0.5)
    poses = np.zeros((n + 1, 7))
    for k, pose in enumerate(poses[:-1]):
        aside, is_along = 0.075 * (k % across - 0.5 * (across - 1)), k // across % 2 == 0
        pose[2] = 0.04 * (k // across + 0.5)
        pose[1 if is_along else 0] = aside
        pose[5:] = (0.0, 1.0) if is_along else (half, half)
    poses[-1] = -1.0, 0.02, 0.55, 0.0, 0.0, 0.0, 1.0
    shapes: dict[str, tuple[Solid, float]] = {**{f"plank{k}": (plank, 0.5) for k in range(n)}, "ball": (ball, BALL)}
    bodies = {name: free_body(mass, shape.inertia(mass)) for name, (shape, mass) in shapes.items()}
    colliders = [Collider(f"{name}/body", shape, friction=0.5) for name, (shape, _) in shapes.items()]
    scene = ds.Scene(bodies, [*colliders, Collider("world", HalfSpace(), friction=0.5)])
    v0 = np.zeros(scene.tree.nv)
    v0[-6], v0[-4] = SHOVE, 0.8  # upwards, so that it comes at its height
    return ReadyScene("planks", scene, poses.ravel(), v0, DT, None, 0.5, "")


PILES: Mapping[str, Callable[[], ReadyScene]] = {
    f"pile of {n}, {layers} layers": partial(heap, n, layers) for n, layers in ((30, 4), (100, 5), (300, 7))
}

SCENES: Mapping[str, Mapping[str, Callable[[], ReadyScene]]] = {
    "contact": {
        **{f"pendulum of {n}": partial(pendulum, n) for n in (3, 12, 30)},
        "rod pinched by two slides": pinch,
        "arm, gripper, four objects": kitchen,
        "80 planks hit by a ball": planks,
        **PILES,
    },
    "piles": {
        "loose heap of 10": partial(heap, 10),
        "standing quadruped": standing,
        **{f"stack of {n}": partial(stack, n) for n in (5, 10, 20)},
        **{f"loose heap of {n}": partial(heap, n) for n in (30, 100, 300)},
        **PILES,
    },
    "terrain": {
        "box": partial(on_ground, Box(0.5, 0.3, 0.2), 1),
        "25 boxes": partial(on_ground, Box(0.5, 0.3, 0.2), 25),
        "25 cylinders": partial(on_ground, Cylinder(0.2, 0.2), 25),
        "standing quadruped": standing_on_ground,
    },
}
"""Makers by command and name. Pendulums swing down, along the floor, to the wall, and back and forth on the floor."""
