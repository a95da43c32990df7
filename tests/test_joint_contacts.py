"""Limits and Coulomb friction of joints in `Simulator`: closed forms, all formulations and solvers, MuJoCo."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from delassus.contact import (
    Collider,
    ContactDynamics,
    ContactSet,
    HalfSpace,
    SolverStatus,
    Sphere,
    frames_of,
    load_colliders,
)
from delassus.contact.formulations.impulses import FormulatedImpulses, JointContacts
from delassus.errors import ConfigurationError
from delassus_studies.bench.contact.problems import turned_momentum
from internals import (
    FORMULATIONS,
    ImpulseSolver,
    RawJoint,
    RawLink,
    Recorder,
    Recording,
    build_tree,
    characteristic_length,
    joint_kinds,
    load_checkpoint,
    save_checkpoint,
)
from random_trees import some_constraints, some_mechanism
from tools import beside_simulator

pytestmark = pytest.mark.usefixtures("one_lane")

SOLVERS = ("lemke", "pgs", "nsgs", "admm", "convex")

RESTS = 1e-8
"""How far a joint may be beyond its limit where nothing drives it there but the step itself (rad, m)."""

G = 9.81


def with_joints(tree, **attributes):
    """The tree with attributes of its joints of one number set, each to a number or an array (nv,)."""
    numbers = {name: np.broadcast_to(value, tree.nv) for name, value in attributes.items()}
    joints = [
        replace(j, **{name: x[at] for name, x in numbers.items()}) if j.nq == 1 else j
        for j, at in zip(tree.joints, tree.v_slices, strict=True)
    ]
    return replace(tree, joints=tuple(joints))


def pendulum(n=1, **attributes):
    return with_joints(ds.mechanisms.pendulum(n), **attributes)


def slide(**attributes):
    """One kilogram that slides along x without gravity."""
    links = [RawLink("world_link"), RawLink("body", 1.0, np.zeros(3), 0.01 * np.eye(3))]
    joint = RawJoint("slide", joint_kinds.PRISMATIC, "world_link", "body", axis=np.array([1.0, 0.0, 0.0]))
    return with_joints(build_tree("slide", links, [joint]), **attributes)


def beyond(tree, q):
    """How far joints are beyond their limits; negative where none is."""
    lower, upper = tree.lower, tree.upper
    at = [sq.start for j, sq in zip(tree.joints, tree.q_slices, strict=True) if j.nq == 1]
    dofs = [sv.start for j, sv in zip(tree.joints, tree.v_slices, strict=True) if j.nq == 1]
    return float(np.maximum(lower[dofs] - q[at], q[at] - upper[dofs]).max(initial=-np.inf))


def gains(sim):
    """A function that makes a step and returns the kinetic energy that limits and friction bring in it."""
    tree, q, v = sim.scene.tree, sim.q, sim.v

    def gain(tau=None):
        qdd, M = ds.forward_dynamics(tree, q, v, np.zeros(tree.nv) if tau is None else tau).qdd, ds.mass_matrix(tree, q)
        free = v + sim.dt * qdd + np.linalg.solve(M, turned_momentum(tree, q, v, sim.dt, -M @ qdd))
        sim.step(tau)
        return 0.5 * float(sim.v @ M @ sim.v - free @ M @ free)

    return gain


# -- limits --------------------------------------------------------------------------------------------------------


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_a_pendulum_comes_to_rest_at_its_limit(formulation, solver):
    """It arrives within one step, without bouncing, and stays; the limit carries its weight."""
    tree = pendulum(lower=-0.3, upper=0.5)
    sim = ds.Simulator(ds.Scene(tree), q0=[0.45], v0=[2.0], formulation=formulation, solver=solver, tolerance=1e-10)
    sim.run(0.03, lambda sim: [20.0])
    assert sim.q[0] == pytest.approx(0.5, abs=RESTS) and abs(sim.v[0]) <= 1e-9
    sim.step([20.0])
    weight = ds.inverse_dynamics(tree, sim.q, [0.0], [0.0])
    assert sim.joint_impulses[0] == pytest.approx((weight - 20.0) * sim.dt, abs=1e-10)
    assert set(sim.statuses) == {SolverStatus.CONVERGED}


@pytest.mark.slow
def test_no_limit_is_passed_by_what_others_do():
    """A chain that is thrown about: limits that only impulses drive joints to are held too."""
    tree = pendulum(6, lower=-0.4, upper=0.6)
    sim = ds.Simulator(ds.Scene(tree), v0=np.linspace(-9.0, 12.0, 6), dt=1e-2, tolerance=1e-8)
    for _ in range(100):
        gain = gains(sim)
        assert gain() <= 1e-9 and beyond(tree, sim.q) <= RESTS
    assert set(sim.statuses) == {SolverStatus.CONVERGED}


@pytest.mark.parametrize("kind", ["revolute", "prismatic"])
def test_a_joint_that_starts_beyond_its_limit_is_taken_back(kind):
    tree = pendulum(lower=-0.3, upper=0.5) if kind == "revolute" else slide(lower=-0.3, upper=0.5)
    most = 0.02 if kind == "revolute" else 0.2 * characteristic_length(tree)
    sim = ds.Simulator(ds.Scene(tree), q0=[1.5])
    for _ in range(150):
        before = sim.q[0]
        sim.step([20.0])
        assert -1e-9 <= before - sim.q[0] <= most + 1e-9 and abs(sim.v[0]) <= 1e-9
    assert sim.q[0] == pytest.approx(0.5, abs=RESTS)


def test_limits_can_be_left_out():
    tree = pendulum(lower=-0.3, upper=0.5)
    sim = ds.Simulator(ds.Scene(tree), q0=[0.49], v0=[2.0], limits=False)
    free = ds.Simulator(ds.Scene(ds.mechanisms.pendulum(1)), q0=[0.49], v0=[2.0])
    for each in (sim, free):
        each.run(0.05)
    assert sim.q[0] > 0.55 and (sim.q == free.q).all() and not sim.statuses
    with pytest.raises(ConfigurationError, match="limits"):
        ds.Simulator(ds.Scene(tree), limits="on")


def test_what_is_far_from_limits_costs_nothing():
    tree = pendulum(6, lower=-2.0, upper=2.0)
    sim = ds.Simulator(ds.Scene(tree), v0=np.ones(6))
    sim.run(0.05)
    assert not sim.statuses


@pytest.mark.slow
def test_a_locked_joint_does_not_move():
    """Both limits at the same place."""
    for solver in SOLVERS:
        tree = pendulum(2, lower=[0.2, -1.0], upper=[0.2, 1.0])
        sim = ds.Simulator(ds.Scene(tree), q0=[0.2, 0.5], solver=solver)
        sim.run(0.05)
        assert sim.q[0] == pytest.approx(0.2, abs=RESTS) and set(sim.statuses) == {SolverStatus.CONVERGED}


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")
def test_a_humanoid_that_falls_stays_within_its_limits():
    path = Path(pytest.importorskip("dm_control").__file__).parent / "suite" / "humanoid.xml"
    pytest.importorskip("mujoco")
    tree = ds.load(path)
    scene = ds.Scene(tree, load_colliders(path, tree))
    q = tree.neutral()
    q[2] = 1.6
    sim = ds.Simulator(scene, q0=q, v0=2.0 * np.ones(tree.nv), dt=4e-3, solver="nsgs", max_overlap=1.0)
    reached = 0
    for _ in range(100):
        sim.step()
        assert beyond(tree, sim.q) <= 1e-4
        reached = max(reached, np.count_nonzero(sim.joint_impulses[0]))
    assert reached >= 2 and set(sim.statuses) == {SolverStatus.CONVERGED}


def test_a_bounce_drives_joints_against_their_limits():
    """In decompression, a limit that compression has loaded may let go."""
    tree = pendulum(4, lower=-0.6, upper=0.5, friction=0.2)
    tips = [Collider(f"rod{k}", Sphere(0.1), (0, 0, -1.0), restitution=0.6) for k in (1, 2, 3, 4)]
    scene = ds.Scene(tree, [*tips, Collider("world", HalfSpace(), (0, 0, -3.0), restitution=0.6)])
    sim = ds.Simulator(scene, q0=[0.5, 0.5, 0.5, 0.3], dt=5e-3)
    for _ in range(300):
        sim.step()
        assert beyond(tree, sim.q) <= 1e-4
    assert set(sim.statuses) == {SolverStatus.CONVERGED}


# -- friction ------------------------------------------------------------------------------------------------------


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("formulation", FORMULATIONS)
def test_a_mass_that_slides_under_a_force(formulation, solver):
    """It stands still while friction can hold the force, and gains ``(F − f) dt / m`` in each step from then on."""
    near, tolerance = (1e-5, 1e-6) if solver == "convex" else (1e-12, 1e-8)  # an interior-point method, and others
    scene = ds.Scene(slide(friction=2.0))
    sim = ds.Simulator(scene, formulation=formulation, solver=solver, tolerance=tolerance, dt=1e-2)
    for force in (0.5, -1.999, 1.0):
        sim.step([force])
        assert sim.v[0] == pytest.approx(0.0, abs=near)
        assert sim.joint_impulses[1] == pytest.approx(-force * sim.dt, abs=near)
    for k in range(5):
        sim.step([-3.0])
        assert sim.v[0] == pytest.approx(-(k + 1) * sim.dt, abs=near)
        assert sim.joint_impulses[1] == pytest.approx(2.0 * sim.dt, abs=near)
    for v in (-0.035, -0.02, -0.005, 0.0, 0.0):  # it stops within a step, and does not turn round
        sim.step([-0.5])
        assert sim.v[0] == pytest.approx(v, abs=near)
    assert set(sim.statuses) == {SolverStatus.CONVERGED}


def test_a_spring_with_dry_friction_loses_four_f_over_k_in_a_period():
    """Amplitudes fall by ``2 f / k`` in each half-period, until the spring cannot overcome friction."""
    k, f = 400.0, 3.0
    sim = ds.Simulator(ds.Scene(slide(friction=f, stiffness=k)), q0=[0.1], dt=1e-3)
    turns, before = [], -1.0
    while len(turns) < 6 and sim.v[0] * before >= 0.0:
        before = sim.v[0] or before
        sim.step()
        if sim.v[0] * before <= 0.0 and sim.steps > 1:
            turns.append(sim.q[0])
            before = -before
    assert turns == pytest.approx([-0.085, 0.07, -0.055, 0.04, -0.025, 0.01], abs=1e-3)
    sim.run(0.2)
    rests = sim.q[0]
    sim.run(0.1)
    assert sim.q[0] == pytest.approx(rests, abs=1e-12) and abs(k * rests) <= f


def test_friction_is_the_files_unless_passive_is_none():
    scene = ds.Scene(pendulum(2, friction=100.0))
    held, free = (ds.Simulator(scene, q0=[1.0, 0.5], passive=passive) for passive in ("model", "none"))
    for sim in (held, free):
        sim.run(0.05)
    assert (abs(held.q - [1.0, 0.5]) <= 1e-12).all() and abs(free.v).min() > 0.1 and not free.statuses


def test_joints_of_several_degrees_of_freedom_rub():
    """A free body is none of them; a ball joint's three are held one by one."""
    rng = np.random.default_rng(0)
    mechanism = some_mechanism(3, 5, "fixed", (joint_kinds.BALL, joint_kinds.TRANSLATION, joint_kinds.PLANAR))
    tree = mechanism.tree
    joints = tuple(replace(j, friction=np.full(j.nv, 1e4)) for j in tree.joints)
    q, v = tree.random(rng), 0.01 * rng.normal(size=tree.nv)
    sim = ds.Simulator(ds.Scene(replace(tree, joints=joints)), q0=q, v0=v, tolerance=1e-12)
    sim.run(0.01)
    assert np.abs(sim.v).max() <= 1e-12 and set(sim.statuses) == {SolverStatus.CONVERGED}


@pytest.mark.slow
def test_friction_acts_along_its_own_axis():
    """Of a joint with several: a mass that slides in all directions at once, in the simulator and in a kernel."""
    tree, force = some_mechanism(3, 2, "fixed", (joint_kinds.TRANSLATION,)).tree, np.array([0.5, 1.0, 2.0])
    joints = (*tree.joints[:-1], replace(tree.joints[-1], friction=force))
    tree = replace(tree, joints=joints, gravity=np.zeros(3))
    _, sim = beside_simulator(ds.Scene(tree), tree.neutral(), np.ones(3), np.zeros(3), 5, 1e-3)
    expected = np.ones(3) - 5e-3 * np.linalg.solve(ds.mass_matrix(tree, tree.neutral()), force)
    np.testing.assert_allclose(sim.v, expected, atol=1e-9)


@pytest.mark.peer
@pytest.mark.parametrize("frictionloss", [0.0, 0.5, 8.0])
def test_an_actuated_pendulum_ends_where_mujocos_does(frictionloss):
    """A position actuator, damping, friction and the gravity of the moon; MuJoCo's friction as hard as it gets."""
    mujoco = pytest.importorskip("mujoco")
    hard = 'solreffriction="0.002 1" solimpfriction="0.9999 0.9999 0.001 0.5 2"'
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><option gravity="0 0 -1.62" timestep="0.001"/><worldbody><body>
        <joint name="j" axis="0 1 0" damping="0.5" frictionloss="{frictionloss}" {hard}/>
        <geom type="capsule" fromto="0 0 0 1 0 0" size=".05" mass="2"/></body></worldbody>
        <actuator><position joint="j" kp="100"/></actuator></mujoco>"""
    )
    data, sim = mujoco.MjData(model), ds.Simulator(ds.Scene(ds.load(model)), control="actuators")
    for _ in range(1000):
        data.ctrl[0] = 0.3
        mujoco.mj_step(model, data)
        sim.step([0.3])
    assert sim.q == pytest.approx(data.qpos, abs=1e-3) and sim.v == pytest.approx(data.qvel, abs=2e-2)


@pytest.mark.peer
def test_a_chain_rests_at_its_limits_where_mujocos_does():
    mujoco = pytest.importorskip("mujoco")
    joint = '<joint axis="0 1 0" range="-20 12" damping="1" solreflimit="0.004 1" limited="true"/>'
    body = f'<body pos="{{}} 0 0">{joint}<geom type="capsule" fromto="0 0 0 .4 0 0" size=".03" mass="1" contype="0"/>'
    text = "".join(body.format(x) for x in (0, 0.4, 0.4)) + 3 * "</body>"
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="0.002"><flag contact="disable"/></option><worldbody>{text}</worldbody></mujoco>'
    )
    data, sim = mujoco.MjData(model), ds.Simulator(ds.Scene(ds.load(model)), dt=2e-3)
    for _ in range(1000):
        mujoco.mj_step(model, data)
        sim.step()
    assert sim.q == pytest.approx(np.deg2rad([12.0, 12.0, 12.0]), abs=RESTS)
    assert data.qpos == pytest.approx(sim.q, abs=5e-3) and np.abs(sim.v).max() <= 1e-9


# -- all of it together --------------------------------------------------------------------------------------------


def some_scene(seed):
    """A random mechanism, some of whose joints have limits, some friction; with a loop in every third."""
    mechanism = some_mechanism(seed, 3 + seed % 6, "floating" if seed % 2 else "fixed")
    rng, tree = mechanism.rng, mechanism.tree
    constraints, rows = some_constraints(mechanism, 1, 2) if seed % 3 == 0 else ([], [])
    joints = []
    for joint in tree.joints:
        own = {"friction": rng.choice([0.0, 0.3, 3.0], joint.nv)} if joint.kind is not joint_kinds.FREE else {}
        if joint.nq == 1 and rng.random() < 0.8:
            own |= {"lower": [-0.5], "upper": rng.choice([[np.inf], [-0.499], [0.3]])}
        joints.append(replace(joint, **own))
    return ds.Scene(replace(tree, joints=tuple(joints)), loops=() if rows else constraints), rng


def some_moment(scene, rng):
    """A state whose joints are near their limits, most of them, and contacts with the world."""
    tree = scene.tree
    q, n = tree.random(rng), int(rng.integers(0, 4))
    for joint, at in zip(tree.joints, tree.q_slices, strict=True):
        if joint.nq == 1:
            limit, inwards = (joint.lower, 1.0) if rng.random() < 0.5 else (joint.upper, -1.0)
            limit = limit if np.isfinite(limit).all() else joint.lower
            distance = rng.choice([0.0, 10 ** rng.uniform(-6.0, -1.0)])
            q[at] = np.where(np.isfinite(limit), np.clip(limit + inwards * distance, joint.lower, joint.upper), q[at])
    normals = rng.normal(size=(n, 3))
    frames = frames_of(normals / np.linalg.norm(normals, axis=1)[:, None])
    links = [(rng.integers(tree.n_links), -1) for _ in range(n)]
    contacts = ContactSet(links, rng.normal(size=(n, 3)), frames) if n else ContactSet.empty()
    return q, rng.normal(size=tree.nv), rng.normal(size=tree.nv), contacts


@pytest.mark.slow
def test_random_mechanisms_obey_the_laws_of_limits_friction_contacts_and_loops():
    """200 states: momentum, limits, friction by dense matrices of the robot, apart from the rows that solvers get."""
    dt, solved, counts = 1e-2, Counter(), np.zeros(3, int)
    for seed in range(6):
        scene, rng = some_scene(seed)
        dynamics = ContactDynamics(scene)
        for _ in range(34):
            q, v, tau, contacts = some_moment(scene, rng)
            snapshot = dynamics.at(q, v, tau)
            M, J = ds.mass_matrix(scene.tree, q), snapshot.rows(contacts).jacobian
            free = v + dt * np.linalg.solve(M, tau - ds.inverse_dynamics(scene.tree, q, v, -snapshot.axes_rate))
            found = {}
            still, start = np.zeros((len(contacts), 3)), np.zeros((2, scene.tree.nv))
            problem = q, free, contacts, still, still[:, 0], joints_of(scene.tree, q, dt), (still, still[:0], start)
            for solver in SOLVERS[:4]:
                done = FormulatedImpulses(dynamics, "os", ImpulseSolver(solver, tolerance=1e-8)).solve(*problem)
                if done is not None and done.status is SolverStatus.CONVERGED:
                    assert done.joint_residual() <= 1e-8
                    check_momentum(M, J, dynamics.n_loops, M @ (done.velocity - free), done)
                    counts += check_joints(scene.tree, q, dt, done)
                    found[solver] = done.velocity
            solved.update(found.keys())
            for other in found if not len(contacts) else ():  # contact may have several solutions
                np.testing.assert_allclose(found["lemke"], found[other], rtol=0, atol=1e-6)
    assert min(solved.values()) >= 195 and min(counts) >= 100


def joints_of(tree, q, dt):
    """All limits and all friction of a tree at ``q``."""
    place = {v.start: q.start for j, q, v in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True) if j.nq == 1}
    limits = [(k, 1, q[i] - tree.lower[k]) for k, i in place.items() if np.isfinite(tree.lower[k])]
    limits += [(k, -1, tree.upper[k] - q[i]) for k, i in place.items() if np.isfinite(tree.upper[k])]
    forces = tree.per_dof("friction")
    rubbing = np.flatnonzero(forces)
    dofs, signs, distances = np.array(limits).reshape(-1, 3).T
    return JointContacts(
        np.concatenate([dofs.astype(int), rubbing]), np.concatenate([signs.astype(int), np.ones(rubbing.size, int)]),
        distances, np.concatenate([np.zeros(dofs.size), forces[rubbing]]), dt,
    )  # fmt: skip


def check_momentum(M, J, n_loops, gained, done):
    """What joints and contacts do not give, loops do; and they hold."""
    left = gained - done.joint_impulses.sum(axis=0) - J[n_loops:].T @ done.impulses.ravel()
    loops = J[:n_loops].T
    left = left - loops @ np.linalg.lstsq(loops, left, rcond=None)[0]
    assert np.abs(left).max() <= 1e-8 * (1.0 + np.abs(M).max())
    assert np.abs(loops.T @ done.velocity).max(initial=0.0) <= 1e-7


def check_joints(tree, q, dt, done):
    """Limits and friction, one by one; returns how many limits act and how much friction slips and sticks."""
    (limits, friction), f = done.joint_impulses, dt * tree.per_dof("friction")
    sticks = np.abs(friction) < f * (1.0 - 1e-6)
    assert (np.abs(friction) <= f * (1.0 + 1e-8)).all()  # solved to 1e-8 m/s
    assert (np.abs(done.velocity[sticks]) <= 1e-7).all()
    assert (friction * done.velocity <= 1e-7 * f).all()
    place = {v.start: q.start for j, q, v in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True) if j.nq == 1}
    for k, i in place.items():
        below, above = q[i] - tree.lower[k] + dt * done.velocity[k], tree.upper[k] - q[i] - dt * done.velocity[k]
        assert min(below, above) >= -1e-8
        assert limits[k] <= 1e-9 or below <= 1e-8
        assert limits[k] >= -1e-9 or above <= 1e-8
    assert not np.delete(limits, list(place)).any()
    return np.count_nonzero(limits), np.count_nonzero(~sticks & (f > 0)), np.count_nonzero(sticks)


def test_recordings_and_checkpoints_hold_impulses_on_joints(tmp_path):
    tree = pendulum(3, lower=-0.3, upper=0.5)
    scene = ds.Scene(tree, [Collider("rod3", Sphere(0.1), (0, 0, -1.0)), Collider("world", HalfSpace(), (0, 0, -3.2))])
    sim = ds.Simulator(scene, v0=[2.0, 0.0, 0.0], dt=1e-2)
    while not sim.joint_impulses.any():
        sim.step()
    assert sim.joint_impulses.any()
    recording = sim.run(0.05, record=Recorder())
    recording.save(tmp_path / "run.npz")
    kept = Recording.load(tmp_path / "run.npz").joint_impulses
    assert kept.shape == (6, 2, 3) and (kept[-1] == sim.joint_impulses).all()
    again = load_checkpoint(scene, save_checkpoint(sim, tmp_path / "half.npz"))
    for each in (sim, again):
        each.run(0.2)
    assert (sim.q == again.q).all() and (sim.joint_impulses == again.joint_impulses).all()


def test_what_bounces_elsewhere_does_not_touch_joints_however_fast():
    """A slide between limits far away, in units in which its velocity is a large number, and a ball that bounces."""
    ball, shape = ds.mechanisms.free_body(1.0, 0.1 * np.eye(3)), Sphere(0.1)
    law = {"restitution": 0.9}
    robots = {"slide": slide(lower=-1e6, upper=1e6), "ball": ball}
    scene = ds.Scene(robots, [Collider("ball/body", shape, **law), Collider("world", HalfSpace(), **law)])
    sim = ds.Simulator(scene, dt=1e-4, q0=scene.configuration(ball=[0, 0, 0.1, 0, 0, 0, 1]),
                       v0=scene.velocity(slide=[3e5], ball=[0, 0, -2, 0, 0, 0]))  # fmt: skip
    alone = ds.Simulator(ds.Scene(robots["slide"]), dt=1e-4, v0=[3e5])
    for each in (sim, alone):
        each.step()
    assert sim.v[scene.v_slice("ball")][2] > 1.7 and np.array_equal(sim.v[:1], alone.v)
