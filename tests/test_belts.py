"""Surfaces that move over their links: closed forms of boxes and balls on conveyor belts."""

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Box, Collider, HalfSpace, Scene, Sphere
from delassus.errors import ModelError
from tools import random_rotation

G, MU, MASS, DT = 9.81, 0.3, 2.0, 1e-3
BOX = Box(0.2, 0.2, 0.1)
BODY = ds.mechanisms.free_body(MASS, BOX.inertia(MASS), name="body")

CLOSE = 1e-8
"""Of velocities (m/s): the tolerance of the solver, 1e-10 m/s a step, over hundreds of steps."""


def belt_of(shape, speed, **options):
    return Collider("world", shape, friction=MU, surface_velocity=speed, name="belt", **options)


@pytest.mark.parametrize("shape", [HalfSpace(), Box(40, 40, 1)], ids=["plane", "box"])
def test_a_box_accelerates_until_it_moves_with_the_belt(shape):
    """At μ g along the belt, whichever way it lies; then no friction is left."""
    local = np.random.default_rng(0)
    for _ in range(3):
        W, speed = random_rotation(local), np.array([*local.normal(size=2), 0.7])  # 0.7 m/s out of the plane do nothing
        place = W @ [0, 0, -0.5 if isinstance(shape, Box) else 0.0]
        belt = belt_of(shape, speed, position=place, rotation=W)
        scene = Scene(BODY, [Collider("body", BOX, rotation=W, friction=MU), belt], gravity=W @ [0, 0, -G])
        simulator = ds.Simulator(scene, q0=[*(W @ [0, 0, 0.05]), 0, 0, 0, 1], dt=DT, tolerance=1e-10)
        V = np.linalg.norm(speed[:2])
        for k in range(1, int(1.2 * V / (MU * G * DT))):
            simulator.step()
            v = W.T @ simulator.v[:3]
            assert v[:2] == pytest.approx(min(MU * G * k * DT, V) * speed[:2] / V, abs=CLOSE)
            assert abs(v[2]) < CLOSE
        assert np.abs(simulator.impulses[:, :2].sum(axis=0)).max() < MASS * CLOSE  # all have the same tangents


@pytest.mark.parametrize("solver", ["nsgs", "admm"])
def test_formulations_have_belts(solver):
    """As steps by blocks, in every formulation."""
    scene = Scene(BODY, [Collider("body", BOX, friction=MU), belt_of(HalfSpace(), [1.0, 0.5, 0])])
    for formulation in ("os", "mc", "rmc", "nmc", "nmc-os"):
        options = {"formulation": formulation, "solver": solver, "dt": 1e-2, "tolerance": 1e-8}
        simulator = ds.Simulator(scene, q0=[0, 0, 0.05, 0, 0, 0, 1], **options)
        for _ in range(10):
            simulator.step()
        assert np.hypot(*simulator.v[:2]) == pytest.approx(MU * G * 0.1, abs=1e-6)
        assert simulator.v[1] == pytest.approx(0.5 * simulator.v[0], abs=1e-6)


def test_a_ball_on_a_belt_ends_at_two_sevenths_of_its_speed():
    ball, V = Sphere(0.1), 1.4
    body = ds.mechanisms.free_body(MASS, ball.inertia(MASS), name="body")
    speed = [V, 0, 0.7]  # out of the plane does nothing
    scene = Scene(body, [Collider("body", ball, friction=MU), belt_of(HalfSpace(), speed)])
    simulator = ds.Simulator(scene, q0=[0, 0, 0.1, 0, 0, 0, 1], dt=DT, tolerance=1e-10)
    while simulator.time < 2 / 7 * V / (MU * G) + 10 * DT:
        simulator.step()
    assert np.linalg.norm(simulator.v[:3]) == pytest.approx(2 / 7 * V, abs=CLOSE)
    assert 0.1 * np.linalg.norm(simulator.v[3:]) == pytest.approx(5 / 7 * V, abs=CLOSE)


def test_a_wall_holds_what_a_belt_drives():
    """Against it, friction is μ m g a second, and the wall gives back as much."""
    wall = Collider("world", Box(0.1, 2, 2), (0.15, 0, 1), friction=0.0, name="wall")
    scene = Scene(BODY, [Collider("body", BOX, friction=MU), belt_of(HalfSpace(), [1.0, 0, 0]), wall])
    simulator = ds.Simulator(scene, q0=[0, 0, 0.05, 0, 0, 0, 1], dt=DT, tolerance=1e-10)
    for _ in range(100):
        simulator.step()
    walls = np.asarray(simulator.contacts.colliders)[:, 1] == 2
    assert simulator.impulses[walls, 2].sum() == pytest.approx(MU * MASS * G * DT, rel=1e-6)
    assert np.abs(simulator.v).max() < CLOSE


def test_a_belt_on_a_cart_pushes_the_cart_back():
    """Momentum stays what it is; in the end the box moves with the belt, over the cart."""
    cart_shape, heavy = Box(4, 1, 0.2), 5.0
    cart = ds.mechanisms.free_body(heavy, cart_shape.inertia(heavy), name="cart")
    belt = Collider("cart/cart", cart_shape, friction=MU, surface_velocity=[0.8, 0, 0], name="belt")
    floor = Collider("world", HalfSpace(), friction=0.0)
    scene = Scene({"cart": cart, "box": BODY}, [belt, Collider("box/body", BOX, friction=MU), floor])
    q = scene.configuration(cart=[0, 0, 0.1, 0, 0, 0, 1], box=[0, 0, 0.25, 0, 0, 0, 1])
    simulator = ds.Simulator(scene, q0=q, dt=DT, tolerance=1e-10)
    for _ in range(400):
        simulator.step()
        of_cart, of_box = simulator.v[scene.v_slice("cart")], simulator.v[scene.v_slice("box")]
        assert heavy * of_cart[0] + MASS * of_box[0] == pytest.approx(0.0, abs=100 * CLOSE)
    assert of_box[0] - of_cart[0] == pytest.approx(0.8, abs=100 * CLOSE)


def test_belts_are_kept_in_checkpoints_and_checked(tmp_path):
    scene = Scene(BODY, [Collider("body", BOX, friction=MU), belt_of(HalfSpace(), [1.0, 0, 0])])
    simulator = ds.Simulator(scene, q0=[0, 0, 0.05, 0, 0, 0, 1], dt=DT)
    for _ in range(20):
        simulator.step()
    state = simulator.get_state()
    assert np.linalg.norm(state["contacts_surface_velocities"], axis=1) == pytest.approx(np.ones(4))
    for wrong in (np.nan, [1.0, 0.0], "fast"):
        with pytest.raises(ModelError, match="surface_velocity of collider 'belt'"):
            belt_of(HalfSpace(), wrong)


@pytest.mark.parametrize("ground", ["plane", "input", "frame"])
def test_contact_steps_have_belts(ground):
    """A box accelerates at μ g until it moves with the ground, of a fixed velocity or one that comes with each call."""
    local = np.random.default_rng(1)
    W = random_rotation(local) if ground == "frame" else np.eye(3)
    where = ds.Frame("world", rotation=W) if ground == "frame" else ground
    speed = np.array([*local.normal(size=2), 0.0])
    V, own = np.linalg.norm(speed), ds.Frame("body", rotation=W)
    options = {"friction": MU, "ground": where}
    fixed = ds.compile(
        BODY, ds.Contact(own, BOX, surface_velocity=speed, **options), "contact_step", gravity=W @ [0, 0, -G]
    )
    given = ds.compile(
        BODY, ds.Contact(own, BOX, surface_velocity="input", **options), "contact_step", gravity=W @ [0, 0, -G]
    )
    flat = {"ground0": np.tile([0, 0, 0, 1.0], (8, 1))} if ground == "input" else {}
    for step, more in ((fixed, flat), (given, {"surface_velocity0": speed, **flat})):
        q, v, p = np.array([*(W @ [0, 0, 0.05]), 0, 0, 0, 1.0]), np.zeros(6), np.zeros(24)
        for k in range(1, int(1.2 * V / (MU * G * DT))):
            q, v, p, _ = step(q, v, p, np.zeros(6), DT, **more)
            assert (W.T @ v[:3])[:2] == pytest.approx(min(MU * G * k * DT, V) * speed[:2] / V, abs=1e-4)


def test_contact_steps_of_two_links_have_belts_as_scenes_do():
    """Two balls that meet, one with a belt around it: velocities after it are those of a scene."""
    local = np.random.default_rng(2)
    ball = Sphere(0.1)
    body = ds.mechanisms.free_body(MASS, ball.inertia(MASS), name="body")
    for _ in range(5):
        belt, v, n = local.normal(size=3), np.zeros(12), local.normal(size=3)
        n /= np.linalg.norm(n)
        shapes = Collider("a/body", ball, friction=MU), Collider("b/body", ball, friction=MU, surface_velocity=belt)
        scene = Scene({"a": body, "b": body}, shapes, gravity=(0, 0, 0))
        contact = ds.Contact("a/body", ball, ("b/body", ball), friction=MU, surface_velocity=belt)
        step = ds.compile(scene.tree, contact, "contact_step")
        q = scene.neutral()
        q[:3], v[:3], v[6:9] = 0.2 * n, -0.5 * n, local.normal(size=3) * 0.1
        simulator = ds.Simulator(scene, q0=q, v0=v, dt=DT, tolerance=1e-10)
        simulator.step()
        _, found, _, _ = step(q, v, np.zeros(3), np.zeros(12), DT)
        assert np.abs(found[3:6]).max() > 1e-3  # it was spun
        assert simulator.v == pytest.approx(found, abs=1e-5)


@pytest.mark.peer
def test_surfaces_that_move_in_mjcf_are_belts():
    """A box reaches their velocity in the turned frame of the geom, as MuJoCo's does."""
    mujoco = pytest.importorskip("mujoco")
    if mujoco.__version__ < "4":
        pytest.skip("surfaces do not move before MuJoCo 4")
    text = """<mujoco><worldbody><geom name="belt" type="box" size="9 9 .1" pos="0 0 -.1" euler="0 0 40"
        surfacevel=".3 .1 0"/><body pos="0 0 .05"><freejoint/><geom type="box" size=".1 .1 .05" friction=".5"/></body>
        </worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data, scene = mujoco.MjData(model), Scene.from_robot(text)
    mujoco.mj_step(model, data, 200)
    simulator = ds.Simulator(scene, dt=DT)
    simulator.run(0.4)
    turn = np.radians(40.0)
    wanted = [0.3 * np.cos(turn) - 0.1 * np.sin(turn), 0.3 * np.sin(turn) + 0.1 * np.cos(turn)]
    assert simulator.v[:2] == pytest.approx(wanted, abs=1e-6) and data.qvel[:2] == pytest.approx(wanted, abs=1e-2)
