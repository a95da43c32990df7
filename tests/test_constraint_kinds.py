"""Centres of mass, distances and orientations as constraints: their rows, accelerations, methods and derivatives."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus import contact
from delassus.errors import ConfigurationError, ConstraintError, ModelError
from internals import check_constraints
from random_trees import SINGLE, some_mechanism
from test_dynamics_derivatives import check
from test_formulations import check_physics, solved, some_contacts, some_state
from tools import AGREEMENT, UNPLANNED, by_method, error, make_motion, random_frame

pytestmark = pytest.mark.usefixtures("one_lane")

STEP = 1e-5
DIFFERENCE = 1e-8
"""Of a Jacobian along the motion, by differences of order four."""

SOLUTION = 1e-8
"""Accelerations of two methods."""


def kinds(tree, rng):
    """One of each, by name: to the world, between links, with rows of others."""
    a, b = tree.link_names[-1], tree.link_names[tree.n_links // 2]
    frame, other, place = random_frame(rng, a), random_frame(rng, b), ds.Frame("world", rng.normal(size=3))
    return {
        "centre": [ds.CenterOfMass()],
        "distance": [ds.Distance(frame, other, length=0.4)],
        "to the world": [ds.Distance(frame, place, length=0.7)],
        "from the world": [ds.Distance(place, frame)],
        "orientation": [ds.Orientation(frame)],
        "one to another": [ds.Orientation(frame, other, axes="world")],
        "axis": [ds.Orientation(frame, axis=(1, 2, 3)), ds.CenterOfMass()],
        "all": [ds.Distance(frame, other), ds.CenterOfMass(), ds.JointRows({tree.joint_names[-1]: np.ones(1)})],
    }


NAMES = tuple(kinds(ds.mechanisms.star(2, 3), np.random.default_rng(0)))
ROBOTS = {"floating": lambda: ds.mechanisms.star(2, 2), "fixed": lambda: ds.mechanisms.star(2, 4, root="fixed")}


def some_case(name, robot, seed=3):
    tree, rng = ROBOTS[robot](), np.random.default_rng(seed)
    made = kinds(tree, rng)[name]
    return tree, made, (tree.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)), rng


@pytest.mark.slow
@pytest.mark.parametrize("to_world", [True, False])
def test_a_distance_whose_ends_coincide_has_failed(to_world):
    """But for round-off, of a random tree: direct calls, kernels and simulators say so, and nothing else."""
    m = some_mechanism(3 + to_world, 4, "fixed", SINGLE)
    tree, rng, (*_, a) = m.tree, m.rng, m.tree.link_names
    q, v, tau = tree.random(rng, 9), rng.normal(size=(9, tree.nv)), rng.normal(size=(9, tree.nv))
    q[3] = q[0]
    coincide, frame, b = np.isin(range(9), (0, 3)), random_frame(rng, a), "world" if to_world else tree.link_names[0]
    at, of_b = ds.forward_kinematics(tree, q[0], [frame, b])
    rod = ds.Distance(frame, ds.Frame(b, (np.linalg.inv(of_b) @ at)[:3, 3]))
    rows, failed = ds.compile(tree, rod, "jacobian"), ds.DynamicsStatus.FAILED
    assert np.array_equal(np.isfinite(rows(q)).all(axis=(1, 2)), ~coincide) and not np.isfinite(rows(q[0])).all()
    direct = [ds.forward_dynamics(tree, q, v, tau, rod)]
    for found in direct if to_world else [*direct, ds.compile(tree, rod, "dynamics", method="kkt").solve(q, v, tau)]:
        assert np.array_equal(found.status == failed, coincide) and "Distance" in failed.text
        assert np.array_equal(np.isfinite(found.qdd).all(axis=-1), ~coincide)
    with pytest.raises(ConfigurationError, match=r"q0: expected a Distance whose ends are apart"):
        ds.Simulator(ds.Scene(tree, loops=[rod]), q0=q[0])


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("robot", ROBOTS)
@pytest.mark.parametrize("name", NAMES)
def test_rows_and_their_accelerations(name, robot):
    """``J`` of every method, and ``J̇ v`` by differences: of a distance that is its exact second derivative."""
    tree, made, (q, v, tau), _ = some_case(name, robot)
    J = ds.jacobian(tree, made, q)
    expected = J @ np.linalg.solve(ds.mass_matrix(tree, q), J.T)
    for method in UNPLANNED:
        assert error(ds.delassus(tree, made, q, method=method), expected) < AGREEMENT, method
    op, x = ds.delassus_operator(tree, made, q), np.ones(len(J))
    assert error(op.apply(x), expected @ x) < AGREEMENT and error(op.dense(), expected) < AGREEMENT

    at = np.array([1.0, -1.0, 2.0, -2.0]) * STEP
    one, two, three, four = ds.jacobian(tree, made, tree.integrate(np.tile(q, (4, 1)), at[:, None] * v))
    rate = (8 * (one - two) - (three - four)) / (12 * STEP) @ v
    assert error(ds.jacobian_drift(tree, made, q, v), rate) < DIFFERENCE
    found = ds.forward_dynamics(tree, q, v, tau, made, method="kkt")
    assert np.abs(J @ found.qdd + rate).max() < 1e-6
    assert np.abs(found.constraint_residual()).max() < SOLUTION and np.abs(found.dynamics_residual()).max() < SOLUTION


@pytest.mark.parametrize("axes", ["local", "world"])
def test_rates_of_velocities_between_moving_points(axes):
    """By differences of ``J v``, also where the points part and their axes turn: of two links, and with the world."""
    mechanism = some_mechanism(5, 5, "floating", SINGLE)
    tree, rng, (*_, a, b) = mechanism.tree, mechanism.rng, mechanism.tree.link_names
    q, v, at = tree.random(rng), rng.normal(size=tree.nv), np.array([1.0, -1.0, 2.0, -2.0]) * STEP
    one, other = random_frame(rng, a), random_frame(rng, b)
    for pair in ((one, other), (one,), (one, ds.Frame("world", (0.1, 0.2, 0.3))), (ds.Frame("world"), one)):
        point = ds.Point(*pair, axes=axes)
        moved = tree.integrate(np.tile(q, (4, 1)), at[:, None] * v)
        first, second, third, fourth = ds.jacobian(tree, point, moved) @ v
        rate = (8 * (first - second) - (third - fourth)) / (12 * STEP)
        assert error(ds.jacobian_drift(tree, point, q, v), rate) < DIFFERENCE, pair


@pytest.mark.slow
@pytest.mark.parametrize("name", ["distance", "all"])
def test_every_dynamics_method(name):
    tree, made, (q, v, tau), _ = some_case(name, "floating")
    expected = ds.forward_dynamics(tree, q, v, tau, made, method="kkt")
    motion, _ = make_motion(tree, q, v, tau, made)
    for method in ("ltl", "pv", "pv-early"):
        raw = by_method(motion, method)
        assert error(np.asarray(raw.qdd)[:, 0], expected.qdd) < SOLUTION, method
        assert error(np.asarray(raw.forces)[:, 0], np.concatenate(expected.forces)) < SOLUTION, method
    assert error(ds.forward_dynamics(tree, q, v, tau, made, method="proximal").qdd, expected.qdd) < SOLUTION
    ltl, pv = (
        ds.forward_dynamics(tree, q, v, tau, made, method=m, compliance=0.1).qdd for m in ("ltl-soft", "pv-soft")
    )
    assert error(ltl, pv) < SOLUTION


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", NAMES)
def test_derivatives(name):
    """Finite differences, stabilised, with targets; a floating and a fixed base."""
    tree, made, (q, v, tau), rng = some_case(name, ("floating", "fixed")[len(name) % 2])
    pose = [rng.normal(size=3) if c.pose_size == 3 else None for c in made]
    options = {"baumgarte": 2.0, "targets": [rng.normal(size=c.size) for c in made], "poses": pose}
    assert check(tree, q, v, tau, made, **options)


def test_the_centre_of_mass():
    """Its velocity; held, it stays where gravity alone would move it; payloads count."""
    m = some_mechanism(4, 9, "floating")
    tree, rng = m.tree, m.rng
    q, v, held = tree.random(rng), rng.normal(size=tree.nv), ds.CenterOfMass()
    assert error(ds.jacobian(tree, held, q), ds.centre_of_mass_jacobian(tree, q)) < AGREEMENT
    found = ds.forward_dynamics(tree, q, v, np.zeros(tree.nv), held)
    mass = ds.mass_matrix(tree, q)[0, 0]
    assert error(found.forces[0], mass * np.array([0, 0, 9.81])) < SOLUTION  # no other force acts from outside
    load = {m.names[-1]: np.array([2.0, 0.2, 0.1, -0.3, 0.5, 0.0, 0.5, 0.0, 0.0, 0.5])}
    moved = [ds.centre_of_mass(tree, tree.integrate(q, h * v), payloads=load) for h in (STEP, -STEP)]
    along = ds.jacobian(tree, held, q, payloads=load) @ v
    assert error(along, (moved[0] - moved[1]) / (2 * STEP)) < 1e-7
    goal = ds.centre_of_mass(tree, q) + np.array([0.1, 0.2, 0.3])
    pulled = ds.forward_dynamics(tree, q, 0 * v, np.zeros(tree.nv), held, baumgarte=3.0, poses=[goal])
    assert error(ds.jacobian(tree, held, q) @ pulled.qdd, 9.0 * np.array([0.1, 0.2, 0.3])) < SOLUTION


def test_a_rod_keeps_its_length():
    """A rollout with a distance to the world comes to the length that it should have, and keeps it."""
    arm, tip, hook = ds.mechanisms.chain(3), ds.Frame("link3", (0.1, 0.0, 0.0)), ds.Frame("world", (0.3, 0.5, 0.8))
    q = arm.random(1)

    def lengths(q):
        return np.linalg.norm(ds.forward_kinematics(arm, q, tip)[..., :3, 3] - hook.position, axis=-1)

    wanted = lengths(q) + 0.02
    step = ds.compile(arm, ds.Distance(tip, hook, length=wanted), "step", integrator="rk4", baumgarte=50.0)
    path, _ = ds.rollout(step, q, np.zeros(3), np.zeros((500, 3)), 1e-3)
    assert np.abs(lengths(path[-100:]) - wanted).max() < 1e-7


def test_orientation_is_its_rows():
    tree, frame = ds.mechanisms.star(2, 3), ds.Frame("branch1_3", (0.1, 0.2, 0.3))
    q, eye = tree.random(0), np.eye(6)
    for axes in ("local", "world"):
        rows = ds.Rows(frame, eye[3:], axes=axes)
        assert error(ds.jacobian(tree, ds.Orientation(frame, axes=axes), q), ds.jacobian(tree, rows, q)) < AGREEMENT
    hinge = ds.jacobian(tree, ds.Hinge(frame, axis=(1, 2, 3)), q)
    assert error(ds.jacobian(tree, ds.Orientation(frame, axis=(1, 2, 3)), q), hinge[3:]) < AGREEMENT


@pytest.mark.parametrize("length", [1e-6, 1e6, 1e200])
def test_axes_may_have_any_length(length):
    body, axis = ds.mechanisms.free_body(1.0, np.eye(3)), np.array([1.0, -2.0, 3.0])
    q, v = body.neutral(), np.r_[np.zeros(3), axis]
    hinge = ds.Hinge("body", axis=length * axis)
    J = ds.jacobian(body, hinge, q)
    assert error(J @ J.T, np.eye(5)) < AGREEMENT and np.abs(J @ v).max() < AGREEMENT
    assert error(hinge.free_axis, axis / np.linalg.norm(axis)) < AGREEMENT


@pytest.mark.parametrize("tilt", [0.0, 1e-15, 1e-13, 1e-9, 3e-8, 1e-3])
@pytest.mark.parametrize("largest", range(3))
def test_axes_next_to_those_of_coordinates(largest, tilt):
    """The rows of a hinge run across its axis, however near that is to an axis of coordinates."""
    tree, axis = ds.mechanisms.free_body(1.0, np.eye(3)), np.roll([-2.0, 3.0 * tilt, tilt], largest)
    q = tree.neutral()
    for constraint in (ds.Hinge("body", axis=axis), ds.Orientation("body", axis=axis)):
        rows = ds.jacobian(tree, constraint, q)[-2:, 3:]
        assert np.abs(rows @ axis).max() < 1e-14 and error(rows @ rows.T, np.eye(2)) < 1e-14


@pytest.mark.parametrize("angle", [0.1, 2.0, np.pi - 0.01, np.pi])
@pytest.mark.parametrize("kind", [ds.Weld, ds.Hinge, ds.Orientation])
def test_errors_grow_up_to_a_half_turn(kind, angle):
    """Stabilised at rest, rows accelerate by the axis of the turn times ``−2 sin ½ θ``."""
    rng, body = np.random.default_rng(1), ds.mechanisms.free_body(2.0, np.diag([0.1, 0.2, 0.25]))
    frame, axis = random_frame(rng, "body"), rng.normal(size=3)
    R, free = frame.rotation, {} if kind is ds.Weld else {"axis": axis}
    n = np.cross(rng.normal(size=3), axis)  # in the frame, across the axis that it may turn about
    turn = np.r_[np.zeros(3), R @ n / np.linalg.norm(n)]
    made = kind(frame, ds.Frame("world", frame.position, R), **free)  # they coincide in the neutral configuration
    q = body.integrate(body.neutral(), angle * turn)
    found = ds.forward_dynamics(body, q, np.zeros(6), np.zeros(6), made, baumgarte=1.0, gravity=np.zeros(3))
    J = ds.jacobian(body, made, q)[-3 if kind is ds.Weld else -2 :]  # its angular rows
    e = -J @ found.qdd
    if angle == np.pi:  # any direction will do there
        assert np.linalg.norm(e) > 1.0
    else:
        assert error(e, 2.0 * np.sin(0.5 * angle) * (J @ turn)) < max(1e-15 / np.cos(0.5 * angle) ** 2, 1e-13)


def test_a_weld_that_is_half_a_turn_open_closes():
    rng, body = np.random.default_rng(2), ds.mechanisms.free_body(2.0, np.diag([0.1, 0.2, 0.25]))
    frame, n = random_frame(rng, "body"), rng.normal(size=3)
    loop = ds.Weld(frame, ds.Frame("world", frame.position, frame.rotation))
    for angle in np.deg2rad([179.0, 180.0]):
        q = body.integrate(body.neutral(), np.r_[np.zeros(3), angle * n / np.linalg.norm(n)])
        sim = ds.Simulator(ds.Scene(body, loops=[loop]), q0=q, dt=1e-3, max_overlap=10.0)
        for _ in range(200):
            sim.step()
        assert np.linalg.norm(body.difference(body.neutral(), sim.q)) < 1e-2


@pytest.mark.slow
def test_flags_and_scenes():
    tree, made, (q, v, tau), rng = some_case("all", "floating")
    kernel = ds.compile(tree, made, "dynamics", active=True)
    for off in (0, 1):
        flags = np.ones(3)
        flags[off] = 0.0
        kept = [c for k, c in enumerate(made) if k != off]
        assert error(kernel(q, v, tau, active=flags)[0], ds.forward_dynamics(tree, q, v, tau, kept).qdd) < SOLUTION
    scene = contact.Scene(tree, loops=made)
    state = some_state(rng, scene.tree)
    found = solved(scene, contact.ContactDynamics(scene), state, some_contacts(rng, scene.tree.n_links, 2))
    for solution in found.values():
        assert error(solution.velocity, found["os"].velocity) < 1e-6
        check_physics(solution)


def every_kind():
    """One of each class that states a constraint, no parameter at its default, and something else for each of them."""
    a, b = ds.Frame("a", (0.1, 0.2, 0.3)), ds.Frame("b", (0.0, 0.0, 0.5))
    ends = {"first": "c", "second": ds.Frame("d", (1.0, 0.0, 0.0)), "axes": "local"}
    plain, turned = (0.1, 0.7, -2.0), {"axis": (0.0, 0.0, 3.0)}
    ball, rod, rough = contact.Sphere(0.1), contact.Capsule(0.1, 0.4), {"friction": 0.2, "restitution": 0.1}
    yield ds.Weld(a, b, axes="world"), ends
    yield ds.Point(a, b, axes="world"), ends
    yield ds.Hinge(a, b, plain, axes="world"), {**ends, **turned}
    yield ds.Orientation(a, b, axis=plain, axes="world"), {**ends, **turned}
    yield ds.Distance(a, b, length=0.4), {"first": "c", "second": "d", "length": 0.5}
    yield ds.Rows(a, [[1, 2, 3, 4, 5, 6]], axes="world"), {"first": "c", "K": 3, "axes": "local"}
    yield ds.Rows(a, 2, axes="world"), {"first": "c", "K": np.eye(6)}
    yield ds.JointRows([{"a": 1.0, "b": -2.0}], rest=0.1), {"rows": {"b": 1.0}, "rest": 0.2}
    yield ds.CenterOfMass(), {}
    other, numbers = ds.Tendon(ratios={"a": 1.0}), {"length": 0.4, "stiffness": 2.0, "damping": 3.0}
    tendon = ds.Tendon([a, b], {"a": 2.0}, follows=other, polynomial=(2.0, 1.0), **numbers)
    others = {"path": ("c", "d"), "ratios": {"b": 1.0}, "follows": ds.Tendon(["c", "d"]), "polynomial": (1.0,)}
    yield tendon, {**others, "length": 0.5, "stiffness": 1.0, "damping": 1.0}
    yield ds.Contact(a, ball, (b, rod), friction=0.7, restitution=0.4), {"frame": "c", "shape": rod, **rough}
    yield ds.Contact(a, ball, (b, rod)), {"ground": ("c", rod)}
    yield ds.Contact(a, ball, ds.Frame("world", (0.0, 0.0, 1.0))), {"ground": "input"}
    yield ds.Baumgarte(20.0, 0.7), {"frequency": 10.0, "damping": 1.0}
    yield ds.Frame("a", (0.1, 0.2, 0.3)), {"link": "b", "position": (1, 2, 3), "rotation": np.diag([1, -1, -1])}


@pytest.mark.parametrize(("made", "others"), [*every_kind()], ids=lambda x: type(x).__name__)
def test_replacing_parts_of_a_constraint(made, others):
    """Nothing, or one of them: the others stay as they are."""

    def text(x):
        return getattr(x, "fingerprint", repr(x))

    assert text(replace(made)) == text(pickle.loads(pickle.dumps(made))) == text(made)
    found = set()
    for name, value in others.items():
        changed = replace(made, **{name: value})
        found.add(text(changed))
        assert text(replace(changed, **{name: getattr(made, name)})) == text(made) != text(changed)
    assert len(found) == len(others)


def test_values_and_bad_input():
    tree = ds.mechanisms.star(2, 3)
    assert ds.Distance("a", "b").fingerprint != ds.Distance("a", "b", length=1.0).fingerprint
    for length in (0.0, -1.0, np.nan, "x", [1.0]):
        with pytest.raises(ConstraintError, match="a positive number in m"):
            ds.Distance("a", "b", length=length)
    with pytest.raises(ConstraintError, match="two links that can move apart"):
        check_constraints(tree, ds.Distance("hub", ds.Frame("hub", (1, 0, 0))))
    with pytest.raises(ConstraintError, match="a vector that is not zero"):
        ds.Orientation("hub", axis=(0, 0, 0))
    with pytest.raises(ModelError):
        ds.Orientation("hub", axis="x")
    with pytest.raises(ConstraintError, match="links that have mass"):
        check_constraints(replace(tree, inertias=np.zeros_like(tree.inertias)), ds.CenterOfMass())
