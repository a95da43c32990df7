"""What a robot's file says of its joints and surroundings: kept by every tree made of it, and acting at every entry."""

from __future__ import annotations

import pickle
import re
import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from delassus.contact import ContactDynamics
from delassus.errors import ModelError
from internals import (
    PER_DOF,
    configuration_from_mujoco,
    features,
    joint_kinds,
    tree_to_pinocchio,
)
from tools import direct, error, mujoco_data, qdd_of, traced

pytestmark = pytest.mark.usefixtures("one_lane")

ROOT = Path(__file__).parent.parent

ROUND_OFF = 1e-12
FINITE_DIFFERENCES = 1e-6

URDF = """<robot name="arm"><link name="base"/>
<link name="a"><inertial><mass value="2"/><origin xyz="0 0 -1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
iyz="0"/></inertial></link>
<joint name="j" type="{kind}"><parent link="base"/><child link="a"/><axis xyz="0 1 0"/>
<limit lower="-4" upper="4" effort="7" velocity="3"/><dynamics damping="2" friction="0.5"/></joint></robot>"""


@pytest.fixture
def pendulum(tmp_path):
    path = tmp_path / "pendulum.urdf"
    path.write_text(URDF.format(kind="revolute"))
    return ds.load(path)


def sprung(tree, rng):
    """The tree with springs, damping and friction on all joints that can have them, and gravity of its own."""
    joints = []
    for j in tree.joints:
        own = {"damping": rng.uniform(0.1, 1.0, j.nv), "friction": rng.uniform(0.1, 1.0, j.nv)}
        if j.kind in (joint_kinds.REVOLUTE, joint_kinds.PRISMATIC, joint_kinds.TRANSLATION):
            own |= {"stiffness": rng.uniform(1.0, 9.0, j.nv), "rest_position": rng.uniform(-1.0, 1.0, j.nv)}
        own |= {"effort_limit": rng.uniform(1.0, 9.0, j.nv), "velocity_limit": rng.uniform(1.0, 9.0, j.nv)}
        joints.append(j if j.kind is joint_kinds.FREE else replace(j, **own))
    named = {"home": tree.random(rng), "rest": tree.random(rng)}
    return replace(tree, joints=tuple(joints), gravity=[1.0, 2.0, -3.0], keyframes=named)


def values(tree, name):
    return {j.name: getattr(j, name).tolist() for j in tree.joints}


# -- what is kept --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["revolute", "continuous", "prismatic"])
def test_urdf(tmp_path, kind):
    path = tmp_path / "arm.urdf"
    path.write_text(URDF.format(kind=kind))
    (joint,) = ds.load(path).joints
    assert (joint.effort_limit, joint.velocity_limit, joint.damping, joint.friction) == (7, 3, 2, 0.5)
    assert (joint.stiffness, joint.rest_position) == (0, 0)


@pytest.mark.peer
def test_mjcf_and_models():
    mujoco = pytest.importorskip("mujoco")
    text = """<mujoco><option gravity="0 1 -3"/><worldbody><body name="a"><joint name="j" axis="0 1 0" stiffness="2"
    springref="20" ref="10" frictionloss=".2" damping=".3" armature=".4" actuatorfrcrange="-3 3"/>
    <geom size=".1" pos="1 0 0"/><body><joint name="b" type="ball"/><geom size=".1" pos="1 0 0"/></body></body>
    </worldbody><keyframe><key name="up" qpos="1 2 0 0 0"/><key qpos="2 1 0 0 0"/></keyframe></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    tree = ds.load(model)
    joint = tree.joints[0]
    assert (joint.stiffness, joint.friction, joint.damping, joint.armature) == (2, 0.2, 0.3, 0.4)
    assert joint.rest_position == np.deg2rad(20) and joint.effort_limit == 3
    assert np.isinf(tree.joints[1].effort_limit).all()
    assert tree.gravity.tolist() == [0, 1, -3]
    named = {name: q.tolist() for name, q in tree.reference_configurations.items()}
    assert named == {"qpos0": [np.deg2rad(10), 0, 0, 0, 1], "up": [1, 0, 0, 0, 1], "key1": [2, 0, 0, 0, 1]}
    for flag, changed in (("GRAVITY", tree.gravity), ("SPRING", joint.stiffness), ("DAMPER", joint.damping)):
        model.opt.disableflags = int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{flag}"))
        other = ds.load(model)
        found = {"GRAVITY": other.gravity, "SPRING": other.joints[0].stiffness, "DAMPER": other.joints[0].damping}
        assert changed.any() and not found.pop(flag).any() and all(x.any() for x in found.values())


@pytest.mark.peer
def test_pinocchio_models():
    pin = pytest.importorskip("pinocchio")
    model = pin.buildSampleModelHumanoid()
    model.friction = model.upperDryFrictionLimit = np.linspace(0.0, 1.0, model.nv)
    model.gravity.linear = np.array([0.0, 0.0, -1.62])
    model.referenceConfigurations["half_sitting"] = q = pin.randomConfiguration(model, *2 * [np.full(model.nq, 1.0)])
    tree = ds.load(model)
    assert np.array_equal(tree.per_dof("friction"), model.friction)
    assert np.array_equal(tree.per_dof("effort_limit")[6:], model.effortLimit[6:])
    assert np.array_equal(tree.per_dof("velocity_limit")[6:], model.velocityLimit[6:])
    assert np.isinf(tree.per_dof("effort_limit")[:6]).all() and tree.gravity.tolist() == [0, 0, -1.62]
    assert error(tree.reference_configurations["half_sitting"], q) < ROUND_OFF
    tau = np.ones(model.nv)
    expected = pin.aba(model, model.createData(), q, tau, tau)
    assert error(ds.forward_dynamics(tree, q, tau, tau, passive="none").qdd, expected) < 1e-8


def test_trees_made_of_others_keep_it():
    rng = np.random.default_rng(0)
    robot = sprung(ds.mechanisms.humanoid(), rng)
    hand = sprung(ds.mechanisms.chain(3), rng)
    twin = pickle.loads(pickle.dumps(robot))
    for other in (twin, robot.reroot("left_foot")):
        assert all(values(other, name) == values(robot, name) for name in PER_DOF)
        assert np.array_equal(other.gravity, robot.gravity)
        assert set(other.reference_configurations) == {"home", "rest"}
    rerooted = robot.reroot("left_foot")
    for name, q in robot.reference_configurations.items():
        poses = (
            ds.forward_kinematics(t, c, "right_foot")
            for t, c in ((robot, q), (rerooted, rerooted.reference_configurations[name]))
        )
        assert error(*poses) < 1e-10
    both = robot.attach("right_foot", hand, prefix="r_").attach("left_foot", hand, prefix="l_")
    assert all(values(both, name).items() >= values(robot, name).items() for name in PER_DOF)
    assert both.gravity.tolist() == robot.gravity.tolist()
    assert set(both.reference_configurations) == {"home", "rest", "r_home", "r_rest", "l_home", "l_rest"}
    q = both.reference_configurations["r_home"]
    assert np.array_equal(q[robot.nq :], [*hand.reference_configurations["home"], 0, 0, 0])
    joined = robot.attach(
        "right_foot", replace(hand, joints=tuple(replace(j, name=f"r{j.name}") for j in hand.joints), frames={})
    )
    expected = [*robot.reference_configurations["home"], *hand.reference_configurations["home"]]
    assert joined.reference_configurations["home"].tolist() == expected


def test_fingerprints_know_it():
    tree = sprung(ds.mechanisms.chain(3), np.random.default_rng(0))
    prints = {tree.fingerprint, replace(tree, gravity=[0, 0, 1]).fingerprint}
    for name in ("stiffness", "rest_position", "effort_limit"):
        changed = replace(tree.joints[1], **{name: getattr(tree.joints[1], name) + 1e-9})
        prints.add(replace(tree, joints=(tree.joints[0], changed, tree.joints[2])).fingerprint)
    assert len(prints) == 5


def test_springs_that_are_refused():
    (joint,) = ds.mechanisms.free_body(1.0, np.eye(3)).joints
    with pytest.raises(ModelError, match=r"joint 'root_joint': expected one stiffness in all directions"):
        replace(joint, stiffness=np.arange(6.0))
    planar = replace(joint, kind=joint_kinds.PLANAR, **{name: getattr(joint, name)[:3] for name in PER_DOF})
    with pytest.raises(ModelError, match=r"joint 'root_joint'.*a spring on a planar joint"):
        replace(planar, stiffness=np.ones(3))


# -- what acts -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_physics_at_every_entry():
    """Springs, damping and gravity are in every function and every kernel; ``passive="none"`` in none."""
    rng = np.random.default_rng(1)
    tree = sprung(ds.mechanisms.chain(3, root="floating"), rng)
    q, v, tau = tree.random(rng, batch=3), rng.normal(size=(3, tree.nv)), rng.normal(size=(3, tree.nv))
    feet = [ds.Point(ds.Frame(tree.link_names[-1], (0.1, 0.2, 0.3)))]
    k, r, d = (tree.per_dof(name) for name in ("stiffness", "rest_position", "damping"))
    stretch = q[:, 1:] - r  # one coordinate more than degrees of freedom, all in the free joint
    force = -d * v - np.where(k, k * stretch, 0.0)
    assert error(tree.passive_forces(q, v), force) < ROUND_OFF
    for passive, acts in (("model", tau + force), ("none", tau)):
        bare = {"passive": "none", "gravity": (1.0, 2.0, -3.0)}
        expected = ds.forward_dynamics(tree, q, v, acts, feet, **bare).qdd
        found = ds.forward_dynamics(tree, q, v, tau, feet, passive=passive)
        assert error(found.qdd, expected) < 1e-9
        assert (
            error(ds.inverse_dynamics(tree, q, v, found.qdd, passive=passive), tau + tree_forces(tree, feet, q, found))
            < 1e-8
        )
        rest = np.zeros(tree.nv)
        bias = ds.inverse_dynamics(tree, q, v, rest, **bare) + tau - acts
        assert error(ds.bias_force(tree, q, v, passive=passive), bias) < 1e-9
    for method in ("kkt", "ltl"):
        assert (
            error(
                ds.forward_dynamics(tree, q, v, tau, feet, method=method).qdd,
                ds.forward_dynamics(tree, q, v, tau, feet).qdd,
            )
            < 1e-8
        )
    qdd = ds.forward_dynamics(tree, q, v, tau, feet).qdd
    assert error(ds.compile(tree, feet, "dynamics")(q, v, tau)[0], qdd) < 1e-9
    assert error(ds.compile(tree, feet, "step")(q, v, tau, 1e-2)[1], v + 1e-2 * qdd) < 1e-9


def tree_forces(tree, constraints, q, solution):
    J = ds.jacobian(tree, constraints, q)
    return np.einsum("...mn,...m->...n", J, np.concatenate(solution.forces, axis=-1))


def test_derivatives():
    rng = np.random.default_rng(2)
    tree = sprung(ds.mechanisms.chain(3), rng)
    tip = ds.Rows("link3", [[0.1, 0.2, 0.3, 1.0, 0.5, 0.2]])
    q, v, tau = tree.random(rng), rng.normal(size=3), rng.normal(size=3)
    found, h = ds.dynamics_derivatives(tree, q, v, tau, tip), 1e-6
    compiled = ds.compile(tree, tip, "dynamics_derivatives")(q, v, tau)
    for k, (name, column) in enumerate({"dqdd_dq": 0, "dqdd_dv": 1}.items(), start=2):
        ends = []
        for sign in (h, -h):
            at = [np.repeat(x[None], 3, axis=0) for x in (q, v)]
            at[column] = at[column] + sign * np.eye(3)
            ends.append(ds.forward_dynamics(tree, *at, tau, tip).qdd)
        expected = (ends[0] - ends[1]).T / (2 * h)
        assert error(getattr(found, name), expected) < FINITE_DIFFERENCES
        assert error(compiled[k], getattr(found, name)) < 1e-9


def test_energy_of_springs():
    """Without damping, their energy is conserved with the rest of it; forces are minus its slope."""
    rng = np.random.default_rng(3)
    tree = sprung(ds.mechanisms.chain(3), rng)
    tree = replace(tree, joints=tuple(replace(j, damping=[0.0]) for j in tree.joints))
    q, n = tree.random(rng), 200
    qs, vs = ds.rollout(ds.compile(tree, [], "step", integrator="rk4"), q, np.zeros(3), np.zeros((n, 3)), dt=1e-3)
    energy = ds.kinetic_energy(tree, qs, vs) + ds.potential_energy(tree, qs)
    assert np.ptp(energy) < 1e-7 * np.abs(energy).max()
    slope = [(ds.potential_energy(tree, q + e) - ds.potential_energy(tree, q - e)) / 2e-6 for e in 1e-6 * np.eye(3)]
    assert error(ds.bias_force(tree, q, np.zeros(3)), np.array(slope)) < FINITE_DIFFERENCES
    bare = ds.potential_energy(tree, q, passive="none")
    k, r = tree.per_dof("stiffness"), tree.per_dof("rest_position")
    assert np.isclose(ds.potential_energy(tree, q) - bare, 0.5 * k @ (q - r) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("passive", ["model", "none"])
def test_simulator_step_and_rollout_are_one(pendulum, passive):
    tree = replace(sprung(pendulum, np.random.default_rng(4)), joints=pendulum.joints)
    own = {
        "stiffness": [3.0],
        "rest_position": [0.4],
        "friction": [0.0],
    }  # friction acts in Simulator
    tree = replace(tree, joints=tuple(replace(j, **own) for j in tree.joints))
    q, v, n, dt = np.array([0.3]), np.array([0.1]), 100, 1e-2
    sim = ds.Simulator(ds.Scene(tree), q0=q, v0=v, dt=dt, passive=passive)
    sim.run(n * dt)
    step = ds.compile(tree, [], "contact_step", passive=passive)  # springs and damping are implicit in both
    qs, vs, *_ = ds.rollout(step, q, v, np.zeros((n, 1)), dt)
    for _ in range(n):
        q, v, *_ = step(q, v, np.zeros(step.arguments[2].shape), np.zeros(1), dt)
    assert error(sim.q, q) < 1e-10 and error(sim.v, v) < 1e-10
    assert error(qs[-1], q) < ROUND_OFF and error(vs[-1], v) < ROUND_OFF


def test_what_a_robot_does_not_have_costs_nothing():
    tree = ds.mechanisms.chain(6, root="floating")
    dofs = tree.nv - 6

    def operations(robot, **options):
        return traced(robot, [ds.Point("link6")], "dynamics", **options).graph.count().total

    def having(**values):
        return replace(tree, joints=(tree.joints[0], *(replace(j, **values) for j in tree.joints[1:])))

    plain = operations(tree)
    assert operations(tree, passive="none") == plain == operations(having(friction=[1.0], effort_limit=[3.0]))
    assert operations(having(damping=[0.5])) <= plain + 3 * dofs
    assert operations(having(stiffness=[0.5], rest_position=[0.2])) <= plain + 3 * dofs
    assert operations(having(stiffness=[0.5])) <= plain + 2 * dofs


def test_gravity_of_scenes():
    moon, earth = (replace(ds.mechanisms.pendulum(1), gravity=[0, 0, g]) for g in (-1.62, -9.81))
    assert ds.Scene(moon).gravity[2] == -1.62 and ds.Scene(moon, gravity=(0, 0, -2)).tree.gravity[2] == -2
    with pytest.raises(ModelError, match="gravity: expected robots of one gravity"):
        ds.Scene({"a": moon, "b": earth})
    assert ds.Scene({"a": moon, "b": earth}, gravity=(0, 0, -1)).tree.gravity[2] == -1


# -- springs of ball and free joints -------------------------------------------------------------------------------

BALLS = """<mujoco><option timestep="1e-3" integrator="RK4"><flag constraint="disable"/></option><worldbody>
<body name="free" pos=".1 .2 .3" euler="10 20 30"><joint name="free" type="free" stiffness="30"/>
<geom size=".1 .2 .3" type="box" pos=".1 .2 0"/>
<body name="a" pos="0 .2 .1"><joint name="a" type="ball" stiffness="4"/><geom size=".1 .2 .1" type="box" pos="0 .1 .3"/>
<body name="b" pos="0 .3 0" euler="0 40 0"><joint name="b" type="ball" stiffness="7" damping="0"/>
<geom size=".1 .2 .1" type="box" pos="0 .1 .3"/></body></body></body></worldbody></mujoco>"""


def balls(rests=((1.0, 2, 3, 0.1, 0.2, 0.3, -1), (0.5, 0.5, 0.5, 0.5), (1, 0.2, 0.3, -0.4))):
    """Model and tree; ``rests`` are those of its springs as MuJoCo has them."""
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(BALLS)
    if rests:
        model.qpos_spring[:] = np.concatenate(rests)
    return mujoco, model, ds.load(model, unsupported="refuse")


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("turn", [0.0, 1e-9, 1e-3, 3.0, None])
def test_springs_of_ball_and_free_joints_are_those_of_mujoco(turn):
    """At any state, and where turns from the rest position are nothing, small and nearly half a turn."""
    mujoco, model, tree = balls()
    rng = np.random.default_rng(40)
    q, v, zero = tree.random(rng), rng.normal(size=tree.nv), np.zeros(tree.nv)
    if turn is not None:
        q = configuration_from_mujoco(tree, model.qpos_spring)
        q = tree.integrate(q, np.tile([0.6, 0.0, 0.8], 4) * turn)
        q[-4:] *= -1.0  # the same rotation
    expected = qacc(mujoco, model, tree, q, v)
    assert error(ds.forward_dynamics(tree, q, v, zero).qdd, expected) < 1e-9
    assert error(ds.compile(tree, (), "dynamics")(q, v, zero)[0], expected) < 1e-9
    lifted = ds.bias_force(tree, q, v, passive="none") - ds.bias_force(tree, q, v)
    assert np.max(np.abs(lifted - tree.passive_forces(q, v))) < 1e-11
    found = ds.dynamics_derivatives(tree, q, v, zero).dqdd_dq
    h, n = 1e-6, tree.nv
    ends = [ds.forward_dynamics(tree, tree.integrate(q, s * h * np.eye(n)), v, zero).qdd for s in (1, -1)]
    assert error(found, (ends[0] - ends[1]).T / (2 * h)) < FINITE_DIFFERENCES
    assert error(ds.compile(tree, (), "dynamics_derivatives")(q, v, zero)[2], found) < 1e-9


@pytest.mark.peer
@pytest.mark.slow
def test_energy_and_trees_of_such_springs():
    mujoco, _, tree = balls()
    rng = np.random.default_rng(41)
    q, v, n = tree.random(rng), rng.normal(size=tree.nv), 300
    step = ds.compile(tree, [], "step", integrator="rk4")
    qs, vs = ds.rollout(step, q, v, np.zeros((n, tree.nv)), dt=1e-3)
    energy = ds.kinetic_energy(tree, qs, vs) + ds.potential_energy(tree, qs)
    assert np.ptp(energy) < 1e-7 * np.abs(energy).max()
    with pytest.raises(ModelError, match="a free joint without armature, damping, friction and spring"):
        tree.reroot("b")
    loose = replace(tree, joints=(replace(tree.joints[0], stiffness=np.zeros(6)), *tree.joints[1:]))
    other, moved = loose.reroot("b"), loose.reroot_configuration("b", q)
    assert np.isclose(*(ds.potential_energy(t, x) for t, x in ((loose, q), (other, moved))))
    with pytest.raises(ModelError, match=r"2 springs of ball joints .*|3 springs of ball joints"):
        tree.to_mjcf(unsupported="refuse")
    as_written = balls(rests=())[2]
    back = ds.load(mujoco.MjModel.from_xml_string(as_written.to_mjcf(unsupported="refuse")))
    assert error(*(ds.forward_dynamics(t, q, v, 0 * v).qdd for t in (as_written, back))) < 1e-9


# -- gravity compensation ------------------------------------------------------------------------------------------

LIFTED = """<mujoco><compiler autolimits="true"/><option gravity="1 2 -9" timestep="1e-3" integrator="RK4">
<flag constraint="disable"/></option><worldbody>
<body name="base" gravcomp="1" pos="1 0 0"><geom size=".1"/>
<body name="a" pos="0 .1 .2" euler="20 30 40" gravcomp=".5"><joint name="a" axis="1 1 0" stiffness="2"/>
<geom size=".1 .2 .3" type="box" pos=".3 .2 .1"/>
<body name="fixed" pos=".1 .2 0" euler="0 50 0" gravcomp="1.7"><geom size=".1" pos=".2 0 0"/></body>
<body name="b" pos=".4 0 0" euler="10 0 70"><joint name="b" type="ball"/>
<geom size=".1 .3" type="capsule" pos="0 .1 .2"/><body name="c" pos="0 .3 0" gravcomp="-.3">
<joint name="c" type="slide" axis="0 1 1"/>
<joint name="d" axis="1 0 0" pos=".1 0 0"/><geom size=".1 .2 .1" type="box" pos="0 .1 .3"/></body></body></body></body>
<body name="free" gravcomp=".8"><freejoint/><geom size=".1 .2 .3" type="box" pos=".1 .2 0"/>
<body name="leg" pos="0 0 -.3" gravcomp="1"><joint name="leg" axis="0 1 0"/><geom size=".1" pos="0 .1 -.3"/></body>
</body></worldbody></mujoco>"""


@pytest.fixture
def lifted():
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(LIFTED)
    return mujoco, model, ds.load(model, unsupported="refuse")


def floating_lifted():
    """A floating robot with compensated weights, in part and more than whole, and no springs."""
    tree = ds.mechanisms.chain(4, root="floating")
    given = {tree.link_names[k]: [0.5 + k, 0.1, -0.2 * k, 0.3] for k in (0, 2, 3)}
    return replace(tree, gravity_compensation=given)


@pytest.mark.peer
def test_gravity_compensation_is_that_of_mujoco(lifted):
    mujoco, model, tree = lifted
    rng = np.random.default_rng(30)
    q, v = tree.random(rng), rng.normal(size=tree.nv)
    expected, zero = qacc(mujoco, model, tree, q, v), np.zeros(tree.nv)
    assert error(ds.forward_dynamics(tree, q, v, zero).qdd, expected) < 1e-9
    assert error(ds.compile(tree, (), "dynamics")(q, v, zero)[0], expected) < 1e-9
    with pytest.raises(ModelError, match="1 gravity compensation of a part of a link"):
        tree.to_mjcf(unsupported="refuse")
    whole = ds.load(mujoco.MjModel.from_xml_string(LIFTED.replace("1.7", ".5")))
    back = ds.load(mujoco.MjModel.from_xml_string(whole.to_mjcf(unsupported="refuse")))
    assert error(*(ds.forward_dynamics(t, q, v, zero).qdd for t in (whole, back))) < 1e-9
    assert {i: m for i, (m, _) in back.compensated.items()} == pytest.approx(
        {i: m for i, (m, _) in whole.compensated.items()}
    )
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_GRAVITY)
    expected = qacc(mujoco, model, tree, q, v)
    assert error(ds.forward_dynamics(ds.load(model), q, v, np.zeros(tree.nv)).qdd, expected) < 1e-9


def qacc(mujoco, model, tree, q, v):
    """MuJoCo's accelerations, as ours."""
    data = mujoco_data(model, tree, q, v)
    mujoco.mj_forward(model, data)
    return qdd_of(tree, data)


@pytest.mark.slow
def test_gravity_compensation_at_every_entry():
    """All that acts on links, as a wrench along the world's axes; with ``passive="none"`` none."""
    tree, rng = floating_lifted(), np.random.default_rng(31)
    q, v, tau = tree.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    bare, feet = replace(tree, gravity_compensation={}), [ds.Point("link4")]
    wrenches = {}
    for name, (mass, *centre) in tree.gravity_compensation.items():
        R = ds.forward_kinematics(tree, q, name)[:3, :3]
        force = -mass * R.T @ tree.gravity
        wrenches[name] = [*force, *np.cross(centre, force)]
    expected = ds.forward_dynamics(bare, q, v, tau, feet, wrenches=wrenches)
    for method in ("kkt", "ltl", "pv", "pv-early", "proximal"):
        found = ds.forward_dynamics(tree, q, v, tau, feet, method=method)
        assert error(found.qdd, expected.qdd) < 1e-8
    none = ds.forward_dynamics(tree, q, v, tau, feet, passive="none").qdd
    assert np.array_equal(none, ds.forward_dynamics(bare, q, v, tau, feet).qdd) and error(none, expected.qdd) > 1e-3
    c = ds.inverse_dynamics(bare, q, v, expected.qdd, wrenches=wrenches)
    assert error(ds.inverse_dynamics(tree, q, v, expected.qdd), c) < 1e-9
    assert error(ds.bias_force(tree, q, v), ds.bias_force(bare, q, v, wrenches=wrenches)) < 1e-9
    assert error(ds.compile(tree, feet, "dynamics")(q, v, tau)[0], expected.qdd) < 1e-8
    assert error(ds.compile(tree, feet, "step")(q, v, tau, 1e-2)[1], v + 1e-2 * expected.qdd) < 1e-8

    zero, rerooted = np.zeros(tree.nv), tree.reroot("link3")
    qdd = ds.forward_dynamics(tree, q, zero, zero).qdd
    moved = ds.forward_dynamics(rerooted, tree.reroot_configuration("link3", q), zero, zero).qdd
    for joint in tree.joint_names[1:]:
        assert error(moved[rerooted.v_index(joint)], qdd[tree.v_index(joint)]) < 1e-9
    twin = pickle.loads(pickle.dumps(tree))
    assert twin.fingerprint == tree.fingerprint != bare.fingerprint
    hand = replace(ds.mechanisms.chain(1), gravity_compensation={"world": [2.0, 0.1, 0.2, 0.3]})
    assert np.array_equal(ds.bias_force(hand, [1.0], [0.0]), ds.bias_force(hand, [1.0], [0.0], passive="none"))
    both = bare.attach("link2", hand, prefix="h_")
    assert list(both.gravity_compensation) == ["h_world"]
    assert both.compensated[2][0] == 2.0
    for write, form in ((tree.to_urdf, "URDF"), (lambda **given: tree_to_pinocchio(tree, **given), "pinocchio")):
        with pytest.raises(ModelError, match=f"{form}.* does not hold, got .*3 gravity compensation"):
            write(unsupported="refuse")


@pytest.mark.peer
@pytest.mark.slow
def test_derivatives_of_gravity_compensation(lifted):
    held = ds.Distance("c", ds.Frame("world", (3.0, 3.0, 3.0)))
    for tree, constraints in (
        (floating_lifted(), [ds.Point("link4")]),
        (lifted[2], [held]),
    ):
        rng = np.random.default_rng(32)
        q, v, tau = tree.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
        found, h, n = ds.dynamics_derivatives(tree, q, v, tau, constraints), 1e-6, tree.nv
        ends = [
            ds.forward_dynamics(tree, tree.integrate(q, h * sign * np.eye(n)), v, tau, constraints).qdd
            for sign in (1, -1)
        ]
        assert error(found.dqdd_dq, (ends[0] - ends[1]).T / (2 * h)) < FINITE_DIFFERENCES
        assert error(ds.compile(tree, constraints, "dynamics_derivatives")(q, v, tau)[2], found.dqdd_dq) < 1e-8


@pytest.mark.peer
@pytest.mark.slow
def test_energy_of_gravity_compensation(lifted):
    tree, rng = lifted[2], np.random.default_rng(33)
    q, v, n = tree.random(rng), rng.normal(size=tree.nv), 200
    step = ds.compile(tree, [], "step", integrator="rk4")
    qs, vs = ds.rollout(step, q, v, np.zeros((n, tree.nv)), dt=1e-3)
    energy = ds.kinetic_energy(tree, qs, vs) + ds.potential_energy(tree, qs)
    assert np.ptp(energy) < 1e-7 * np.abs(energy).max()
    bare = ds.kinetic_energy(tree, qs, vs) + ds.potential_energy(tree, qs, passive="none")
    assert np.ptp(bare) > 0.1


@pytest.mark.slow
@pytest.mark.parametrize("passive", ["model", "none"])
def test_gravity_compensation_in_contact(passive):
    """The formulations that see links as bodies and those that see joints agree, and with dynamics without contacts."""
    tree = floating_lifted()
    q, v = tree.random(34), np.linspace(-1, 1, tree.nv)
    expected = ds.forward_dynamics(tree, q, v, np.zeros(tree.nv), passive=passive).qdd
    dynamics = ContactDynamics(ds.Scene(tree), passive=passive)
    snapshot = dynamics.at(q, v, np.zeros(tree.nv))
    straight = expected + np.array([*np.cross(v[3:6], v[:3]), *np.zeros(tree.nv - 3)])
    assert error(snapshot.qdd, straight) < 1e-9
    bare = ContactDynamics(ds.Scene(replace(tree, gravity_compensation={})), passive=passive)
    lift = snapshot.wrenches - bare.at(q, v, np.zeros(tree.nv)).wrenches
    assert error(lift[:, :3].any(axis=1).sum(), 3 if passive == "model" else 0) == 0


# -- actuators and control -----------------------------------------------------------------------------------------

ACTUATED = """<mujoco><option gravity="0 1 -1.62" timestep="1e-3" integrator="RK4"><flag constraint="disable"/></option>
<worldbody><body><joint name="a" axis="0 1 0" stiffness="2" springref="20" ref="10" damping=".3"/>
<geom size=".1" pos="1 0 0"/><body pos="1 0 0"><joint name="b" axis="1 1 0" actuatorfrcrange="-1 1"/>
<geom size=".1" pos=".5 0 0"/><body pos="1 0 0"><joint name="c" type="slide" axis="1 0 0" damping="4"/>
<geom size=".1" pos=".5 0 .3"/></body></body></body></worldbody>
<tendon><fixed name="t"><joint joint="b" coef="2"/><joint joint="c" coef="-.5"/></fixed></tendon>
<actuator><motor name="m" joint="a" gear="3" ctrlrange="-1 1"/><position name="p" joint="b" kp="20" kv="2" gear="2"
forcerange="-4 4"/><velocity name="v" tendon="t" kv="3" gear="1.5"/>
<general name="g" joint="c" gaintype="affine" gainprm="1 2 3" biastype="affine" biasprm=".4 .5 .6"/></actuator>
</mujoco>"""


@pytest.fixture
def actuated():
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(ACTUATED)
    return mujoco, model, ds.load(model)


def accelerations(mujoco, model, q, v, ctrl):
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.ctrl[:] = q, v, ctrl
    mujoco.mj_forward(model, data)
    return data.qacc


@pytest.mark.peer
def test_actuators_are_those_of_mujoco(actuated):
    """With gains, gears, tendons and all ranges: directly, compiled, in steps; then a second of motion."""
    mujoco, model, tree = actuated
    rng = np.random.default_rng(0)
    assert [a.name for a in tree.actuators] == ["m", "p", "v", "g"] and tree.nu == 4 and not tree.omitted
    q, v, ctrl = (2.0 * rng.normal(size=(30, n)) for n in (3, 3, 4))
    expected = np.array([accelerations(mujoco, model, *state) for state in zip(q, v, ctrl, strict=True)])
    assert error(ds.forward_dynamics(tree, q, v, ctrl, control="actuators").qdd, expected) < 1e-9
    assert error(ds.compile(tree, [], "dynamics", control="actuators")(q, v, ctrl)[0], expected) < 1e-9
    _, v_next = ds.compile(tree, [], "step", control="actuators")(q, v, ctrl, 1e-2)
    assert error(v_next, v + 1e-2 * expected) < 1e-9
    data, n = mujoco.MjData(model), 1000
    data.qpos[:], ctrl = q[0], 0.3 * np.sin(np.arange(4 * n).reshape(n, 4) / 90.0)
    step = ds.compile(tree, [], "step", control="actuators", integrator="rk4")
    qs, _ = ds.rollout(step, q[0], np.zeros(3), ctrl, 1e-3)
    for u in ctrl:
        data.ctrl[:] = u
        mujoco.mj_step(model, data)
    assert error(qs[-1], data.qpos) < 1e-8


def differences(f, tree, q, v, u, h=1e-6):
    """Central differences of a function of a state and controls, with positions along the tangent."""
    columns = []
    for k in range(2 * tree.nv + u.shape[-1]):
        ends = []
        for sign in (h, -h):
            d = np.zeros(2 * tree.nv + u.shape[-1])
            d[k] = sign
            dq, dv, du = np.split(d, [tree.nv, 2 * tree.nv])
            ends.append(f(tree.integrate(q, dq), v + dv, u + du))
        columns.append((ends[0] - ends[1]) / (2 * h))
    return np.split(np.stack(columns, axis=-1), [tree.nv, 2 * tree.nv], axis=-1)


def controlled(tree, control, rng, n):
    """States and controls, and the gains of ``"pd"``; the joints of one degree of freedom have an effort limit of 9."""
    limit = np.full(1, 9.0)
    tree = replace(tree, joints=tuple(replace(j, effort_limit=limit) if j.nv == 1 else j for j in tree.joints))
    q, v = tree.random(rng, batch=n), rng.normal(size=(n, tree.nv))
    if control == "actuators":
        return tree, (q, v, 2.0 * rng.normal(size=(n, tree.nu))), {}
    return tree, (q, v, tree.random(rng, batch=n)), {"kp": rng.uniform(1, 9, tree.nv), "kd": rng.uniform(0, 1, tree.nv)}


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("control", ["actuators", "pd"])
def test_derivatives_with_controls(actuated, control):
    """A free base that is held; states at which something is cut off, and others."""
    base = ds.mechanisms.chain(1, root="floating")
    tree, state, gains = controlled(base.attach("link1", actuated[2]), control, np.random.default_rng(0), 12)
    held, given = ds.Point(ds.Frame("link1", (0.1, 0.2, 0.3))), {"control": control, **gains}
    (tau,) = direct(tree, "control_forces", dict(zip(("q", "v", "tau"), state, strict=True)), **given).values()
    assert 5 < np.sum(np.abs(tau) == 9.0) < tau.size / 2  # cut off at the effort limit
    found = ds.dynamics_derivatives(tree, *state, held, **given)
    f = (
        (lambda *s: ds.forward_dynamics(tree, *s, held, **given).qdd),
        (lambda *s: ds.forward_dynamics(tree, *s, held, **given).forces[0]),
    )
    for what, of in zip(("dqdd", "df"), f, strict=True):
        for name, expected in zip(("dq", "dv", "dtau"), differences(of, tree, *state), strict=True):
            assert error(getattr(found, f"{what}_{name}"), expected) < FINITE_DIFFERENCES


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("control, integrator", [("actuators", "rk4"), ("pd", "semi-implicit")])
def test_kernels_and_steps_with_controls(actuated, control, integrator):
    """Compiled derivatives are those of direct calls; ``A`` and ``B`` those of the compiled step."""
    arm, state, gains = controlled(actuated[2], control, np.random.default_rng(1), 12)
    given = {"control": control, **gains}
    found = ds.dynamics_derivatives(arm, *state, **given)
    kernel = ds.compile(arm, [], "dynamics_derivatives", control=control, outputs=("dqdd_dq", "dqdd_dtau"))
    for x, name in zip(kernel(*state, *gains.values()), ("dqdd_dq", "dqdd_dtau"), strict=True):
        assert error(x, getattr(found, name)) < 1e-9
    assert found.dqdd_dtau.shape == (12, 3, 4 if control == "actuators" else 3)
    q_here, v_here, A, B = ds.step_derivatives(arm, *state, 1e-2, integrator=integrator, **given)
    step = ds.compile(arm, [], "step", control=control, integrator=integrator)
    q_next, v_next = step(*state, *gains.values(), 1e-2)
    assert error(q_next, q_here) < 1e-9 and error(v_next, v_here) < 1e-9

    def moved(*s):
        q_next, v_next = step(*s, *gains.values(), 1e-2)
        return np.concatenate([arm.difference(q_here, q_next), v_next], axis=-1)

    with_q, with_v, with_u = differences(moved, arm, *state)
    assert error(A, np.concatenate([with_q, with_v], axis=-1)) < FINITE_DIFFERENCES
    assert error(B, with_u) < FINITE_DIFFERENCES


@pytest.mark.peer
def test_simulators_take_controls(actuated):
    _, _, tree = actuated
    q, v, n, dt = np.array([0.3, 0.2, 0.1]), np.zeros(3), 50, 1e-3
    ctrl, target, gains = np.full(4, 0.2), np.array([0.5, 0.1, 0.0]), {"kp": [9.0, 50.0, 4.0], "kd": [1.0, 1.0, 1.0]}
    for control, given, more in (("actuators", ctrl, {}), ("pd", target, gains)):
        sim = ds.Simulator(ds.Scene(tree), q0=q, dt=dt, control=control, **more)
        sim.run(n * dt, lambda _, given=given: given)
        step = ds.compile(tree, [], "contact_step", control=control)
        qs, vs, *_ = ds.rollout(step, q, v, np.tile(given, (n, 1)), dt, **more)
        assert error(sim.q, qs[-1]) < 1e-10 and error(sim.v, vs[-1]) < 1e-10
    with pytest.raises(ds.DelassusError, match="q_target"):
        sim.step(np.zeros(2))
    v_target = np.array([0.3, -0.2, 0.1])
    sim, other = (ds.Simulator(ds.Scene(tree), q0=q, dt=dt, control="pd", **gains) for _ in range(2))
    sim.run(n * dt, lambda _: (target, v_target))
    for _ in range(n):
        other.step(target, v_target=v_target)
    step = ds.compile(tree, [], "contact_step", control="pd", v_target=True)
    qs, vs, *_ = ds.rollout(step, q, v, np.tile(target, (n, 1)), dt, v_target=v_target, **gains)
    assert error(sim.q, qs[-1]) < 1e-10 and error(sim.v, vs[-1]) < 1e-10 and (sim.q == other.q).all()
    with pytest.raises(ds.DelassusError, match="v_target: expected none without control='pd'"):
        ds.Simulator(ds.Scene(tree)).step(None, v_target)
    with pytest.raises(ds.DelassusError, match="v_target"):
        sim.step(target, v_target[:2])


def test_pd_control():
    """As from joint forces by hand, cut off at the effort limits; the free joint is not driven."""
    rng = np.random.default_rng(5)
    tree = sprung(ds.mechanisms.chain(5, root="floating"), rng)
    feet = [ds.Point("link5")]
    q, v, target = tree.random(rng, batch=4), rng.normal(size=(4, tree.nv)), tree.random(rng)
    kp, kd = rng.uniform(1.0, 20.0, (2, tree.nv))
    tau, limit = np.zeros(v.shape), tree.effort_limit[6:]
    tau[:, 6:] = np.clip(kp[6:] * (target[7:] - q[:, 7:]) - kd[6:] * v[:, 6:], -limit, limit)
    assert (np.abs(tau[:, 6:]) == limit).any() and (np.abs(tau[:, 6:]) < limit).any()
    expected = ds.forward_dynamics(tree, q, v, tau, feet).qdd
    found = ds.forward_dynamics(tree, q, v, target, feet, control="pd", kp=kp, kd=kd)
    assert error(found.qdd, expected) < 1e-9 and np.abs(found.dynamics_residual()).max() < 1e-8
    kernel = ds.compile(tree, feet, "dynamics", control="pd")
    assert [a.name for a in kernel.arguments][2:] == ["q_target", "kp", "kd"]
    assert error(kernel(q, v, target, kp, kd)[0], expected) < 1e-9


@pytest.mark.peer
def test_velocity_targets(actuated):
    """Joints are damped towards them: at once, compiled, over rollouts, in derivatives."""
    arm, (q, v, target), gains = controlled(actuated[2], "pd", np.random.default_rng(2), 5)
    v_target = np.random.default_rng(3).normal(size=(5, 3))
    moving = ds.forward_dynamics(arm, q, v, target, control="pd", **gains, v_target=v_target).qdd
    tau = np.clip(gains["kp"] * (target - q) + gains["kd"] * (v_target - v), -9.0, 9.0)
    assert error(moving, ds.forward_dynamics(arm, q, v, tau).qdd) < ROUND_OFF
    kernel = ds.compile(arm, [], "step", control="pd", v_target=True)
    _, v_next = kernel(q, v, target, *gains.values(), 1e-3, v_target)
    assert error(v_next, v + 1e-3 * moving) < 1e-9
    ends, _ = ds.rollout(kernel, q[0], v[0], target, 1e-3, v_target=v_target, per_step=["v_target"], **gains)
    assert ends.shape == (6, 3)
    given = {"control": "pd", **gains, "v_target": v_target}
    found = ds.dynamics_derivatives(arm, q, v, target, **given)
    expected = differences(lambda *s: ds.forward_dynamics(arm, *s, **given).qdd, arm, q, v, target)
    for name, x in zip(("dqdd_dq", "dqdd_dv", "dqdd_dtau"), expected, strict=True):
        assert error(getattr(found, name), x) < FINITE_DIFFERENCES
    with pytest.raises(ds.DelassusError, match="v_target: expected none without control='pd'"):
        ds.forward_dynamics(arm, q, v, tau, v_target=v_target)


@pytest.mark.peer
def test_actuators_of_trees_made_of_others(actuated):
    _, _, tree = actuated
    both = ds.mechanisms.humanoid().attach("left_foot", tree, prefix="l_").attach("right_foot", tree, prefix="r_")
    assert [a.name for a in both.actuators][3:5] == ["l_g", "r_m"]
    assert dict(both.actuators[6].transmission) == {"r_b": 3.0, "r_c": -0.75}
    twin = pickle.loads(pickle.dumps(both))
    assert twin.actuators == both.actuators and twin.fingerprint == both.fingerprint
    weaker = replace(both, actuators=(*both.actuators[:-1], replace(both.actuators[-1], gain=(0.0, 0.0, 0.0))))
    assert weaker.fingerprint != both.fingerprint


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"control": "actuators"}, "control: expected 'tau' or 'pd', as .* has no actuators"),
        ({"control": "pd"}, "kp: expected an array"),
        ({"control": "position"}, r"control: expected one of 3 names \(tau, actuators, pd\)"),
        ({"kp": np.ones(3)}, "kp: expected none without control='pd'"),
    ],
)
def test_controls_that_are_refused(given, match):
    arm, zero = ds.mechanisms.chain(3), np.zeros(3)
    with pytest.raises(ds.DelassusError, match=match):
        ds.forward_dynamics(arm, zero, zero, zero, **given)


# -- what is listed ------------------------------------------------------------------------------------------------

UNSUPPORTED = """<mujoco><option density="1"/><worldbody><body name="a" gravcomp="1"><joint name="a" range="-1 1"
frictionloss="1" actuatorgravcomp="true" actuatorfrcrange="-1 2" stiffness="1 2"/>
<geom size=".1" pos="1 0 0"/><site name="s"/>
<site name="u" pos="1 0 0"/>
<body name="b"><joint name="b" type="ball" stiffness="1" range="0 1"/><geom size=".1" pos="1 0 0"/></body></body>
<body name="m" mocap="true"><body name="n"><joint name="n"/><geom size=".1"/></body></body></worldbody><equality>
<connect name="loop" body1="b" anchor="0 0 0" active="false"/></equality>
<tendon><spatial name="t" stiffness="2" range="0 1"><site site="s"/><site site="u"/></spatial></tendon>
<sensor><jointpos name="angle" joint="a"/><clock name="clock"/></sensor>
<actuator><motor name="plain" joint="a"/><muscle name="muscle"
joint="a"/><motor name="cable" tendon="t"/><general name="slow" joint="a" dyntype="filter" dynprm="1"/></actuator>
<keyframe><key name="fast" qvel="1 0 0 0 0"/><key name="lost" act=".5 0"/></keyframe></mujoco>"""


@pytest.mark.peer
def test_what_a_tree_does_not_hold_is_listed(tmp_path):
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "case.xml"
    text = UNSUPPORTED if mujoco.__version__ >= "4" else UNSUPPORTED.replace('stiffness="1 2"', "")
    path.write_text(text.replace("/><geom", ' limited="true"/><geom', 1))
    expected = r"not represented: 1 equality constraints that are switched off \(loop\); 2 actuators"
    with pytest.warns(ds.DelassusWarning, match=expected) as caught:
        tree = ds.load(path)
    assert len(caught) == 1 and [x.name for x in (*tree.actuators, *tree.sensors)] == ["plain", "slow", "angle"]
    names = {name for listed in tree.omitted.values() for name in listed}
    assert {
        "loop",
        "muscle",
        "cable",
        "slow",
        "clock",
        "density",
        "t",
        "a",
        "b",
        "m",
        "lost",
    } <= names and "fast" not in names
    assert tree.report["limits of joints, which act in Simulator and contact steps"] == ("a",)
    assert tree.report["Coulomb friction of joints, which acts in Simulator and contact steps"] == ("a",)
    for what in (
        "gravity compensation within",
        "force ranges",
        "mocap",
        "springs, dampers and",
    ):
        assert any(key.startswith(what) for key in tree.omitted), what
    ds.load(path, unsupported="ignore")
    with pytest.raises(ModelError, match="expected nothing that a tree does not hold, got 1 equality"):
        ds.load(path, unsupported="refuse")
    with pytest.raises(ModelError, match="unsupported: expected 'warn', 'refuse' or 'ignore'"):
        ds.load(path, unsupported="drop")
    model = mujoco.MjModel.from_xml_path(str(path))
    assert ds.load(model, unsupported="ignore").omitted == tree.omitted
    hand = ds.mechanisms.chain(1).attach("link1", tree, prefix="h_")
    assert hand.omitted["equality constraints that are switched off"] == ("h_loop",)
    assert pickle.loads(pickle.dumps(hand)).report == hand.report


@pytest.mark.peer
def test_the_table_has_every_element_of_mjcf():
    """`docs/mjcf.md` says of each element of MuJoCo's schema whether it is in, listed or irrelevant."""
    mujoco = pytest.importorskip("mujoco")
    lines = re.findall(r"^( *)\(?(\w+)\)?(\w*) \(.\)", mujoco.mj_printSchema(False, False), re.M)
    section, wanted = "", set()
    for indent, name, rest in lines:
        if len(indent) <= 3:
            section = name if not rest else "body"
        if section not in ("default", "visual"):  # what defaults stand for, and what is only seen
            wanted.add(f"{section}/{name}" if len(indent) > 3 else section)
    documented = set()
    for row in (Path(__file__).parents[1] / "docs" / "mjcf.md").read_text().splitlines():
        cells = row.split("|")
        if len(cells) == 5 and cells[2].strip() in ("in", "listed", "irrelevant"):
            documented |= set(re.findall(r"`([\w/]+)`", cells[1]))
    assert len(wanted) > 100 and wanted <= documented, sorted(wanted - documented)


def test_the_table_of_what_is_not_written():
    """`docs/mjcf.md` says of each feature of a tree which formats do not hold it."""
    forms = (features.URDF, features.MJCF, features.SDF, features.USD, features.PINOCCHIO)
    rows = "".join(
        f"| {what} |{''.join(' listed |' if form in missing else ' |' for form in forms)}\n"
        for missing, what, _ in features.FEATURES
        if missing & {*forms}
    )
    assert rows in (Path(__file__).parents[1] / "docs" / "mjcf.md").read_text()


SAMPLE = (
    "suite/acrobot.xml", "suite/ball_in_cup.xml", "suite/fish.xml", "suite/manipulator.xml", "suite/quadruped.xml",
    "envs/mujoco/assets/swimmer.xml", "envs/assets/fetch/reach.xml", "envs/assets/fetch/shared.xml",
    "panda_description/urdf/panda.urdf", "alex_description/urdf/alex_psyonic_hands.urdf",
    "ur_description/urdf/ur3.urdf",
)  # fmt: skip


@pytest.mark.peer
def test_the_page_of_public_models(tmp_path, monkeypatch):
    """`docs/models.md` says of a sample of files what `load` says."""
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes its warnings
    script = runpy.run_path(str(ROOT / "benchmarks" / "models.py"))
    text = (ROOT / "docs" / "models.md").read_text()
    part, refused = text.split("## In part")[1].split("## Refused")
    for (package, name), path in script["files"]().items():
        if name in SAMPLE:
            kind, what = script["judged"](path)
            row = f"| {package} | .*`{re.escape(name)}`.* | {re.escape(what)} |".replace("|", "[|]")
            assert bool(re.search(row, part)) == (kind == "in part"), name
            assert bool(re.search(row, refused)) == (kind == "refused"), name
