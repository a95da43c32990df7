"""Robots, each described once: compiled contact steps and `Simulator` go the same way."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Box, Capsule, Collider, CollisionDetector, Cylinder, Ellipsoid, HalfSpace, Sphere
from delassus_studies.cases import quiet_load
from tools import random_rotation

pytestmark = [
    pytest.mark.usefixtures("one_lane"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::delassus.errors.DelassusWarning"),  # sweeps that go on for long
]

DT, STEPS, FRICTION, FEET = 1e-3, 60, 0.6, 2
NEAR = 1e-8
"""Largest difference of configurations (m, rad) and velocities (m/s, rad/s) on the way."""

IMPACT = 2
"""Problems of an impact, compression and decompression, beside that of the step. Kernels have one impact a step."""

SHAPES = [Sphere(0.03), Capsule(0.02, 0.08), Ellipsoid(0.03, 0.05, 0.02), Box(0.06, 0.04, 0.05), Cylinder(0.03, 0.05)]

PATCHES = {
    "stem": {"torsional": 0.02},
    "pendulum": {"torsional": 0.02, "rolling": 0.004},
    "chain": {"torsional": 0.02, "rolling": 0.004},
    "go1": {"rolling": 0.004},
}
"""Lengths of torsional and rolling friction (m) of the feet of some robots: ``condim`` 4, rolling alone, and 6."""

made = ds.mechanisms
ROBOTS = {
    "star": (0, lambda: made.star(4, 2)),
    "stem": (1, lambda: made.stem(2, 2, 2)),
    "chain": (2, lambda: made.chain(5, root="floating")),
    "dual_arm": (4, made.dual_arm),
    "ladder": (0, lambda: made.ladder(3, root="floating")),
    "pendulum": (3, lambda: made.pendulum(3)),
    "go1": (0, lambda: quiet_load("go1", root="floating")),
    "ur5": (4, lambda: quiet_load("ur5_robot", root="fixed")),
}
"""Of each the shape of its first foot, and what makes it."""


def bounded(tree, q, rng):
    """The tree, with limits on either side of a configuration, and dry friction."""
    joints = [
        replace(
            joint, lower=q[sq] - rng.uniform(0.005, 0.1, joint.nv), upper=q[sq] + rng.uniform(0.005, 0.1, joint.nv),
            friction=rng.uniform(0.0, 0.3, joint.nv),
        ) if joint.nq == joint.nv else joint
        for joint, sq in zip(tree.joints, tree.q_slices, strict=True)
    ]  # fmt: skip
    return replace(tree, joints=tuple(joints))


def with_feet(tree, first, rng, **lengths):
    """A scene of the robot: shapes at its ends, from that one on, which touch a floor and not one another."""
    ends = [tree.link_names[i] for i in range(tree.n_links) if not tree.children[i]][:FEET]
    ends += [tree.link_names[0]] if len(ends) < 2 else []
    feet = [
        Collider(
            link, SHAPES[(first + k) % 5], rng.uniform(-0.05, 0.05, 3), random_rotation(rng), friction=FRICTION,
            **lengths,
        )
        for k, link in enumerate(ends)
    ]  # fmt: skip
    return ds.Scene(
        tree, [*feet, Collider("world", HalfSpace(), friction=FRICTION)], ignore=list(combinations(ends, 2))
    )


def over_the_floor(scene, q, gap):
    """The scene with its floor that far (m) below the lowest foot, and that."""
    found = CollisionDetector(scene).contacts(ds.forward_kinematics(scene.tree, q, scene.tree.link_names)[:, :3], 10.0)
    floor = replace(scene.colliders[-1], position=(0.0, 0.0, -found.depths.max() - gap))
    lowest = scene.colliders[found.colliders[np.argmax(found.depths), 0]]
    return ds.Scene(scene.tree, [*scene.colliders[:-1], floor], ignore=scene.ignore), lowest


def with_sensors(tree, feet, rng):
    """The tree with sensors of what forces cause: touch in a volume at each foot and of all of it, an IMU, a load."""
    at = [ds.Frame(foot.link, foot.position + rng.uniform(-0.02, 0.02, 3), random_rotation(rng)) for foot in feet]
    near = [ds.Sensor(f"near {k}", "touch", x, within=SHAPES[(k + tree.nv) % 5]) for k, x in enumerate(at)]
    of_all = [ds.Sensor(f"touch {k}", "touch", x, cutoff=200.0) for k, x in enumerate(at)]
    others = [ds.Sensor(kind, kind, at[0]) for kind in ("accelerometer", "force", "torque", "framelinvel")]
    return replace(tree, sensors=[*near, *of_all, *others])


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", ROBOTS)
def test_kernel_and_simulator_go_the_same_way(name):
    """From a fall, with and without restitution, with limits and dry friction: to 1e-8 at each step; sensors, too."""
    rng, struck, stopped, felt, turned = np.random.default_rng(0), 0, 0, set(), 0.0
    shape, make = ROBOTS[name]
    try:
        tree = make()
    except ds.DelassusError:
        pytest.skip(f"{name} is not installed")
    q0 = tree.random(rng)
    tree = bounded(tree, q0, rng)
    scene, lowest = over_the_floor(with_feet(tree, shape, rng, **PATCHES.get(name, {})), q0, 0.003)
    tree = with_sensors(tree, scene.colliders[:-1], np.random.default_rng(1))
    scene = ds.Scene(tree, scene.colliders, ignore=scene.ignore)
    outputs = ("q_next", "v_next", "impulses_next", "residuals", "sensors")
    kernel = scene.contact_step(restitution="input", tolerance=1e-11, sweeps=3000, outputs=outputs)
    feet, (n,) = scene.colliders, kernel.arguments[-1].shape
    v0, tau = 0.3 * rng.normal(size=tree.nv), 0.2 * rng.normal(size=tree.nv)
    J = ds.frame_jacobian(tree, q0, ds.Frame(lowest.link, lowest.position), reference="local-world-aligned")[2]
    v0 -= J * (1.0 + J @ v0) / (J @ J)  # down at 1 m/s
    for restitution in (0.6,) if name == "go1" else (0.0, 0.6):  # the longest of all
        bouncing = [replace(c, restitution=restitution) for c in feet]
        sim = ds.Simulator(
            ds.Scene(tree, bouncing, ignore=scene.ignore), solver=None if name in PATCHES else "nsgs", tolerance=1e-11,
            dt=DT, q0=q0, v0=v0, max_overlap=9.0,
        )  # fmt: skip
        q, v, p, solved = sim.q, sim.v, np.zeros(kernel.arguments[2].shape), 0
        for _ in range(STEPS):
            sim.step(tau)
            problems, solved = sim.statuses.total() - solved, sim.statuses.total()
            if problems > IMPACT + 1:
                break
            q, v, p, _, numbers = kernel(q, v, p, tau, DT, restitution=np.full(n, restitution))
            np.testing.assert_allclose(q, sim.q, atol=NEAR)
            np.testing.assert_allclose(v, sim.v, atol=NEAR)
            for sensor, x in sim.sensors().items():
                np.testing.assert_allclose(numbers[tree.sensor_index(sensor)], x, rtol=1e-5, atol=NEAR / DT)
                felt |= {sensor} if np.any(x) else set()
            struck += problems >= IMPACT
            stopped += bool(np.abs(sim.joint_impulses[0]).max() > 0)
            if name in PATCHES:
                turned = max(turned, np.abs(sim.angular_impulses).max(initial=0.0))
    assert struck and stopped and felt & {"touch 0", "touch 1"} and (turned > 1e-5) == (name in PATCHES)
