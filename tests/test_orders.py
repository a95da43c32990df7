"""Contacts that turn, and robots that move fast: errors of a step fall by four when the time step is halved."""

from functools import partial

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Box, Capsule, Collider, Cylinder, HalfSpace, Scene, SolverStatus, Sphere
from random_trees import ARM as ARM_JOINTS
from random_trees import some_mechanism

G, COIN, BOX = 9.81, Cylinder(0.03, 0.02), Box(0.05, 0.04, 0.02)

TOLERANCE = 1e-12
"""Residuals (m/s) of steps: contacts that stick and turn do not contradict one another."""

SAME = 1e-11
"""Of velocities, over the largest: residuals of kernels and of scenes are below 1e-12 m/s."""

SAME_BESIDE = 1e-9
"""The same of an arm with light links: their mobility multiplies residuals. It was 2e-13."""

NEAR, AGREES = 1e-6, 1e-6
"""Difference of a state, and errors of differences of steps: squares of it, and residuals of 1e-13 m/s over it."""

LEAST_FALL = 3.5
"""Of an error of second order that falls by four at half of the time step; one of first order falls by two."""

TURNTABLE = """<mujoco><worldbody><body name="table"><joint type="hinge" axis="0 0 1"/>
<inertial pos="0 0 0" mass="1" diaginertia="1e9 1e9 1e9"/></body></worldbody></mujoco>"""

ARM = """<mujoco><worldbody>
<body name="yaw"><joint type="hinge" axis="0 0 1"/><inertial pos="0 0 0" mass="1e6" diaginertia="1e6 1e6 1e6"/>
<body name="boom" pos=".3 0 0"><joint type="slide" axis="1 0 0"/>
<inertial pos="0 0 0" mass="1e6" diaginertia="1e6 1e6 1e6"/>
<body name="plate" pos=".1 .05 .02"><joint type="hinge" axis="0 .6 .8"/>
<inertial pos="0 0 0" mass="1e6" diaginertia="1e6 1e6 1e6"/></body></body></body></worldbody></mujoco>"""


def on_robot(xml, link, top, shape, mass, friction, dt):
    """A body on the top of a robot's link; friction of both."""
    body = ds.mechanisms.free_body(mass, shape.inertia(mass), name="body")
    colliders = [Collider("body/body", shape, friction=friction), Collider(f"robot/{link}", *top, friction=friction)]
    scene = Scene({"body": body, "robot": ds.load(xml)}, colliders)
    return ds.Simulator(scene, dt=dt, max_overlap=1.0, tolerance=TOLERANCE)


def path(sim, steps, compiled, tolerance=TOLERANCE):
    """Configurations (n, nq) at the end of each step, all solved, of a simulator or of the kernel of its scene."""
    if not compiled:
        q = np.array([(sim.step(), sim.q)[1] for _ in range(steps)])
        assert set(sim.statuses) == {SolverStatus.CONVERGED}
        return q
    if sim.scene not in KERNELS:
        KERNELS[sim.scene] = sim.scene.contact_step(tolerance=tolerance, sweeps=1000)
    found = ds.rollout(KERNELS[sim.scene], sim.q, sim.v, np.zeros((steps, sim.scene.tree.nv)), sim.dt)
    assert found.residuals.max() <= tolerance
    return found.q[1:]


KERNELS = {}
"""Of scenes whose steps have been compiled."""


def coin_on_a_turntable(dt, compiled=False, shape=COIN, rate=3.13):
    """Way (m) outwards in a second."""
    sim = on_robot(TURNTABLE, "table", (Box(4, 4, 0.2), (0, 0, -0.1)), shape, 0.1, 1.0, dt)
    sim.q, sim.v = np.array([0.5, 0, 0.01, 0, 0, 0, 1, 0]), np.array([0, 0.5 * rate, 0, 0, 0, rate, rate])
    return np.hypot(*path(sim, round(1.0 / dt), compiled)[-1, :2]) - 0.5


def ball_on_a_turntable(dt, compiled=False, rate=3.0, radius=0.05):
    """Distance (m) from its start after one turn: it goes in a circle at 2/7 of the rate of the table."""
    n = round(2 * np.pi / (2 / 7 * rate) / dt)
    sim = on_robot(TURNTABLE, "table", (Box(4, 4, 0.2), (0, 0, -0.1)), Sphere(radius), 1.0, 2.0, 7 * np.pi / rate / n)
    place, v = np.array([0.2, 0, radius]), np.array([0.3, 0, 0])
    slip = v - np.cross([0, 0, rate], place)
    sim.q, sim.v = np.array([*place, 0, 0, 0, 1, 0]), np.array([*v, -slip[1] / radius, slip[0] / radius, 0, rate])
    return np.linalg.norm(path(sim, n, compiled)[-1, :3] - place)


def held_by_a_plate(dt, place, shape=BOX):
    """A body at a place on the plate of a robot that turns, slides and turns about a tilted axis."""
    sim = on_robot(ARM, "plate", (Box(1, 1, 0.02), (0, 0, -0.01)), shape, 0.1, 2.0, dt)
    q, v = sim.q.copy(), np.zeros(9)
    pose = ds.forward_kinematics(sim.scene.tree, q, ["robot/plate"])[0]
    q[:7] = *(pose[:3, :3] @ place + pose[:3, 3]), 0, 0, 0, 1
    v[6:] = 2.0, 0.1, 0.8
    sim.q, sim.v = q, v
    twist = sim.twist("robot/plate", reference="world")
    v[:3], v[3:6] = twist[:3] + np.cross(twist[3:], q[:3]), twist[3:]
    sim.v = v
    return sim


def box_on_a_plate(dt, compiled=False, shape=BOX):
    """Way (m) on the plate that holds it."""
    place = np.array([0.07, -0.05, 0.01])
    sim = held_by_a_plate(dt, place, shape)
    q = path(sim, round(0.24 / dt), compiled)[-1]
    pose = ds.forward_kinematics(sim.scene.tree, q, ["robot/plate"])[0]
    return np.linalg.norm(pose[:3, :3].T @ (q[:3] - pose[:3, 3]) - place)


def euler_disk(dt, compiled=False, tilt=0.3, radius=0.05):
    """Largest error (rad) of the tilt in a third of a second: a thin disk rolls about its standing centre of mass."""
    rate = 2.0 * np.sqrt(G / (radius * np.sin(tilt)))
    body = ds.mechanisms.free_body(1.0, radius**2 * np.array([0.25, 0.25, 0.5]), name="disk")
    colliders = [Collider("disk", Cylinder(radius, 1e-6), friction=2.0), Collider("world", HalfSpace(), friction=2.0)]
    height, sine, cosine = radius * np.sin(tilt), np.sin(tilt / 2), np.cos(tilt / 2)
    q0, v0 = [0, 0, height + 5e-7 * np.cos(tilt), 0, sine, 0, cosine], [0, 0, 0, -rate * np.sin(tilt), 0, 0]
    sim = ds.Simulator(Scene(body, colliders), q0=q0, v0=v0, dt=dt)
    sim.half_kick()
    x, y = path(sim, round(0.33 / dt), compiled, 1e-6)[:, 3:5].T  # sweeps of two rims in one place go on for long
    return np.abs(np.arccos(1.0 - 2.0 * (x * x + y * y)) - tilt).max()


CASES = {
    "coin on a turntable": (coin_on_a_turntable, 4e-3, 1e-3),
    "box on a turntable": (partial(coin_on_a_turntable, shape=BOX), 4e-3, 1e-3),
    "ball on a turntable": (ball_on_a_turntable, 8e-3, 1e-3),
    "box on a plate": (box_on_a_plate, 4e-3, 1e-3),
    "coin on a plate": (partial(box_on_a_plate, shape=COIN), 4e-3, 1e-3),
    "Euler's disk": (euler_disk, 1e-3, 1e-2),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "compiled"),
    [*((x, False) for x in CASES), *((x, True) for x in ("ball on a turntable", "box on a plate", "Euler's disk"))],
)
def test_what_turns_is_second_order(case, compiled):
    error, dt, most = CASES[case]
    coarse, fine = abs(error(dt, compiled)), abs(error(dt / 2, compiled))
    assert coarse < most
    assert coarse > LEAST_FALL * fine


@pytest.mark.slow
def test_what_turns_brings_no_energy_to_one_of_several_robots():
    """An arm that falls on a floor, beside a ball that rests far away: what this takes hides no gain of the arm.

    Kernels then let contacts of the arm turn that do not in scenes: velocities differed by 0.03 m/s.
    """
    arm, ball, rng = some_mechanism(0, 3, "floating", ARM_JOINTS).tree, Sphere(0.1), np.random.default_rng(0)
    robots = {"ball": ds.mechanisms.free_body(1.0, ball.inertia(1.0)), "arm": arm}
    tip = Collider(f"arm/{arm.link_names[-1]}", Capsule(0.04, 0.14), friction=0)
    scene = Scene(robots, [Collider("world", HalfSpace()), Collider("ball/body", ball, friction=0.5), tip])
    q0, v0 = scene.neutral(), rng.normal(size=scene.tree.nv)
    q0[[0, 2, 9]], v0[:6] = (3.0, 0.1, 0.8), 0.0
    sim = ds.Simulator(scene, q0=q0, v0=v0, dt=2e-3, tolerance=TOLERANCE)
    kernel = scene.contact_step(tolerance=TOLERANCE, sweeps=500, between_links=False)
    p, tau, touches = np.zeros(kernel.arguments[2].shape), np.zeros(scene.tree.nv), 0
    for _ in range(400):
        q, v = sim.q, sim.v
        sim.step()
        _, found, p, residuals = kernel(q, v, p, tau, sim.dt)
        assert residuals.max() <= TOLERANCE and sim.status is SolverStatus.CONVERGED
        touches += len(sim.contacts) > 1
        assert np.abs(found - sim.v).max() < SAME_BESIDE * np.abs(v).max()
    assert touches > 100


WHIP = 0.02
"""Part by which the impulse of a whip on a floor may be off. It is 0.0007; 0.05 with velocity products of the start."""


@pytest.mark.slow
def test_a_whip_strikes_a_floor_as_hard_at_half_a_millisecond():
    """Twenty links of 5 cm, held at one end, swing down from rest; impulse of the tip in 0.6 s, beside 0.1 ms."""
    links = "".join(
        f"""<body name="link{k}" pos="{"0 0 .4" if k == 0 else ".05 0 0"}"><joint type="hinge" axis="0 1 0"/>
        <inertial pos=".025 0 0" mass=".02" diaginertia="2e-6 5e-6 5e-6"/>"""
        for k in range(20)
    )
    whip = ds.load(f"<mujoco><worldbody>{links}{20 * '</body>'}</worldbody></mujoco>")
    tip = Collider("link19", Sphere(0.01), (0.05, 0, 0), friction=0.3)
    scene, impulses = Scene(whip, [tip, Collider("world", HalfSpace(), friction=0.3)]), list[float]()
    for dt in (5e-4, 1e-4):
        sim = ds.Simulator(scene, dt=dt)
        sim.half_kick()
        impulses.append(0.0)
        for _ in range(round(0.6 / dt)):
            sim.step()
            impulses[-1] += sim.impulses[:, 2].sum()
    assert impulses[1] > 0.5
    assert impulses[0] == pytest.approx(impulses[1], rel=WHIP)


def test_derivatives_of_a_box_that_a_plate_holds():
    """Which its contacts share a cut of: those of velocities after a step, by velocities before it."""
    sim, near = held_by_a_plate(4e-3, np.array([0.07, -0.05, 0.01])), 1e-7
    for _ in range(5):  # slower and slower: what turns is more than what slips
        sim.step([*np.zeros(6), -3e6, -1e6, -1e6])
    state, directions, v = sim.get_state(), np.random.default_rng(2).normal(size=(4, 9)), []
    sim.step()
    found = sim.step_derivatives()
    for d in np.concatenate([directions, -directions]):
        sim.set_state({**state, "v": state["v"] + near * d})
        sim.step()
        v.append(sim.v)
    wanted = (np.array(v[:4]) - v[4:]) / (2.0 * near)
    made = found.A @ np.concatenate([np.zeros((9, 4)), directions.T])
    assert made[9:].T == pytest.approx(wanted, rel=0, abs=2.0 * TOLERANCE / near)


def test_what_falls_is_second_order_after_half_a_kick():
    """Exactly where it should be; without, ``½ g t dt`` too low."""
    body, fallen = ds.mechanisms.free_body(1.0, [1, 1, 1]), []
    for kicked in (True, False):
        sim = ds.Simulator(Scene(body), dt=0.01)
        if kicked:
            sim.half_kick()
        for _ in range(100):
            sim.step()
        fallen.append(-sim.q[2])
    assert fallen == pytest.approx([0.5 * G, 0.5 * G * 1.01], rel=1e-12)


BOUNCY, PHASE, STEPS = {"friction": 0.3, "restitution": 0.8}, 0.7, 5
"""Material of what hits; the part of a step at which it does, after so many whole steps."""


def ball_on_an_arm():
    """A scene, its state when they hit, and velocities of the robot before: a ball beside an arm at rest."""
    arm, ball = (
        ds.mechanisms.pendulum(2, length=0.5),
        ds.mechanisms.free_body(0.5, Sphere(0.1).inertia(0.5), name="ball"),
    )
    rod = Collider("arm/rod2", Capsule(0.05, 0.4), (0, 0, -0.25), **BOUNCY)
    scene = Scene({"arm": arm, "ball": ball}, [rod, Collider("ball/ball", Sphere(0.1), **BOUNCY)], gravity=(0, 0, 0))
    q = scene.configuration(arm=[0.4, -0.7])
    T = ds.forward_kinematics(scene.tree, q, ["arm/rod2"])[0]
    out = T[:3, :3] @ [np.cos(0.3), 0, -np.sin(0.3)]  # from its end
    place = T[:3, :3] @ [0, 0, -0.45] + T[:3, 3] + (0.15 - 1e-12) * out
    return scene, scene.configuration(arm=[0.4, -0.7], ball=[*place, 0, 0, 0, 1]), [0, 0, -3.0, 0, 0.4, 0, 4.0, 0]


def two_balls():
    """Both spin, and meet off their centres."""
    bodies = {x: ds.mechanisms.free_body(m, Sphere(0.1).inertia(m), name="ball") for x, m in (("a", 1.0), ("b", 0.4))}
    scene = Scene(bodies, [Collider(f"{name}/ball", Sphere(0.1), **BOUNCY) for name in "ab"], gravity=(0, 0, 0))
    q = [0, 0, 0, 0, 0, 0, 1, *(0.2 * np.array([0.8, 0.36, 0.48])), 0, 0, 0, 1]
    return scene, q, [0.5, 0.2, 0, 1, 2, 3, -3, 0.3, 0.2, 3, -2, 1]


def two_boxes():
    """The corner of one that spins meets a side of the other, which spins about the same axis."""
    bodies = {name: ds.mechanisms.free_body(m, BOX.inertia(m), name="box") for name, m in (("a", 1.0), ("b", 0.4))}
    scene = Scene(bodies, [Collider(f"{name}/box", BOX, **BOUNCY) for name in "ab"], gravity=(0, 0, 0))
    turn = np.array([np.sin(0.2), 0, 0, np.cos(0.2)])
    corner = np.array([-0.025, -0.02 * np.cos(0.4) + 0.01 * np.sin(0.4), -0.02 * np.sin(0.4) - 0.01 * np.cos(0.4)])
    place = np.array([0.01, 0.002, 0.01]) - corner
    return scene, [0, 0, 0, 0, 0, 0, 1, *place, *turn], [0.1, 0, 0, 2, 0, 0, 0.2, -0.5, -1.0, -5, 0, 0]


def chain_on_a_floor(gravity=(0, 0, 0), v=(-3.0, 0, 0)):
    """The tip of a straight chain that turns about its pivot."""
    n, angle = 3, 0.9
    height = -(n - 0.05) * np.cos(angle) - 0.05
    tip = Collider(f"chain/rod{n}", Sphere(0.05), (0, 0, -0.95), **BOUNCY)
    floor = Collider("world", HalfSpace(), (0, 0, height), **BOUNCY)
    scene = Scene({"chain": ds.mechanisms.pendulum(n, length=1.0)}, [tip, floor], gravity=gravity)
    return scene, [angle, 0, 0], list(v)


def whip_on_a_floor():
    """The same chain, falling and bending: velocity products count."""
    return chain_on_a_floor((0, 0, -G), (-3.0, 1.0, 2.0))


HITS = (ball_on_an_arm, two_balls, two_boxes, chain_on_a_floor)


def just_after(scene, q, v, dt):
    """A simulator after the step with the hit, its impulse (N s) in the world, and joints and centres at the hit."""
    tree, v = scene.tree, np.asarray(v, float)
    rest, steps = np.zeros(tree.nv), [(STEPS + PHASE) * dt, (1.0 - PHASE) * dt]
    moved = ds.compile(tree, [], "position_update")
    place = moved(q, v, -steps[0], rest)
    sim = ds.Simulator(scene, q0=place.q_next, v0=place.v_next, dt=dt, tolerance=1e-11)
    for _ in range(STEPS + 1):
        assert not (sim.impulses[:, 2] > 0.0).any()
        sim.step()
    assert (sim.impulses[:, 2] > 0.0).any()
    back = moved(sim.q, sim.v, -steps[1], rest).q_next
    return sim, np.einsum("nij,nj->i", sim.contacts.frames, sim.impulses), back


@pytest.mark.parametrize("case", HITS)
def test_what_hits_is_second_order(case):
    """Impulse, and place of the hit to which the velocity after it leads back, of robots and of two bodies."""
    scene, q, v = case()
    _, exact, _ = just_after(scene, q, v, 1e-6)
    errors = []
    for dt in (4e-3, 2e-3):
        _, impulse, back = just_after(scene, q, v, dt)
        errors.append([np.linalg.norm(impulse - exact) / np.linalg.norm(exact), np.abs(back - q).max()])
    coarse, fine = np.array(errors)
    assert coarse.max() < 1e-3
    assert (coarse > LEAST_FALL * fine).all()


@pytest.mark.slow
@pytest.mark.parametrize("case", [ball_on_an_arm, two_balls, whip_on_a_floor])
def test_hits_within_a_step_in_scenes_and_kernels_and_their_derivatives(case):
    """Kernels step as scenes do. Derivatives are differences by state and joint forces, along random directions."""
    scene, q, v = case()
    tree, nv, dt, rng = scene.tree, scene.tree.nv, 4e-3, np.random.default_rng(0)
    moved, rest = ds.compile(tree, [], "position_update"), np.zeros(scene.tree.nv)
    start, tau = moved(np.asarray(q, float), np.asarray(v, float), -PHASE * dt, rest), rng.normal(size=nv)

    def after(x):
        place = moved(start.q_next, x[:nv], 1.0, rest).q_next
        sim = ds.Simulator(scene, q0=place, v0=start.v_next + x[nv : 2 * nv], dt=dt, tolerance=1e-13)
        sim.step(tau + x[2 * nv :])
        return sim

    sim = after(np.zeros(3 * nv))
    assert (sim.impulses[:, 2] > 0.1).any()
    kernel = scene.contact_step(tolerance=1e-12, sweeps=1000)
    end = kernel(start.q_next, start.v_next, np.zeros(kernel.arguments[2].shape), tau, dt)
    assert np.abs(np.r_[sim.q - end.q_next, sim.v - end.v_next]).max() < SAME * np.abs(sim.v).max()
    found = sim.step_derivatives()
    assert found.status is SolverStatus.CONVERGED and found.distance > 1e-2
    for x in rng.normal(size=(4, 3 * nv)):
        a, b = after(NEAR * x), after(-NEAR * x)
        wanted = np.r_[tree.difference(b.q, a.q), a.v - b.v] / (2.0 * NEAR)
        made = found.A @ x[: 2 * nv] + found.B @ x[2 * nv :]
        assert np.abs(made - wanted).max() < AGREES * np.abs(wanted).max()
