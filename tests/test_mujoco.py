"""MuJoCo: every model file that dm_control, gymnasium and gymnasium_robotics ship, and small models that try one thing.

The oracle is MuJoCo's own kinematics, mass matrix and Jacobians at the same configuration. States are random, within
the joint limits and outside them, never zero.
"""

from __future__ import annotations

import copy
import importlib.util
import os
import sys
import zlib
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from delassus.errors import ConfigurationError, MissingDependencyError, ModelError
from internals import (
    RawJoint,
    RawLink,
    build_tree,
    configuration_from_mujoco,
    configuration_to_mujoco,
    joint_kinds,
    tree_from_mujoco,
    velocity_from_mujoco,
    velocity_map_from_mujoco,
    velocity_to_mujoco,
)
from tools import (
    direct,
    error,
    frame_pose,
    in_turns,
    leaf_frames,
    mujoco_data,
    qdd_of,
    random_frame,
    unit_diagonal,
)

mujoco = pytest.importorskip("mujoco")

pytestmark = [
    pytest.mark.peer,
    pytest.mark.filterwarnings("ignore:.*not represented:delassus.DelassusWarning"),
    pytest.mark.usefixtures("elsewhere"),
]

MASS_MATRIX = 1e-10
"""Mass matrix, each entry relative to the diagonal of its row and column: rotations of a quarter turn that a file
writes to eleven digits are read as exact here."""

DELASSUS = 1e-9
"""Jacobian and Delassus matrix: the same, and the condition of the mass matrix."""

KINEMATICS = 1e-10
"""Poses (absolute, and relative to the size of the robot): the same."""

STATE = 1e-13
"""Conversions of states: round-off."""

PACKAGES = ("dm_control", "gymnasium", "gymnasium_robotics")
FEWEST_MODELS = {"dm_control": 30, "gymnasium": 10, "gymnasium_robotics": 25}
"""Of each package, at least so many files must compile and move; else this test would pass without testing."""


def _files():
    out = {}
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is not None:
            folder = Path(spec.submodule_search_locations[0])
            out.update({f"{package}/{p.relative_to(folder)}": p for p in sorted(folder.rglob("*.xml"))})
    return out


FILES = _files()
every_file = pytest.mark.parametrize("name", FILES)


@cache
def compiled(name):
    """Model of a file; None for fragments, which MuJoCo does not compile."""
    try:
        return mujoco.MjModel.from_xml_path(str(FILES[name]))
    except ValueError:
        return None


@cache
def loaded(name):
    return ds.load(FILES[name])


def generator(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


# -- the oracle ----------------------------------------------------------------------------------------------------


class Peer:
    """MuJoCo's model at one configuration."""

    def __init__(self, model, qpos):
        self.model, self.data = model, mujoco.MjData(model)
        self.data.qpos[:] = qpos
        mujoco.mj_kinematics(model, self.data)
        mujoco.mj_comPos(model, self.data)
        mujoco.mj_tendon(model, self.data)
        if hasattr(mujoco, "mj_makeM"):
            mujoco.mj_makeM(model, self.data)
        else:
            mujoco.mj_crb(model, self.data)
        self.M = np.zeros((model.nv, model.nv))
        try:
            mujoco.mj_fullM(model, self.data, self.M)
        except TypeError:  # before MuJoCo 4
            mujoco.mj_fullM(model, self.M, self.data.qM)

    def body(self, name):
        return body_names(self.model).index(name)

    def pose(self, name):
        i = self.body(name)
        return self.data.xmat[i].reshape(3, 3), self.data.xpos[i]

    def jacobian(self, c):
        """Rows of a weld or a point between a body and the world."""
        R, p = self.pose(c.first.link)
        linear, angular = np.zeros((3, self.model.nv)), np.zeros((3, self.model.nv))
        point = p + R @ c.first.position
        mujoco.mj_jac(self.model, self.data, linear, angular, point, self.body(c.first.link))
        turn = (R @ c.first.rotation).T if c.axes == "local" else np.eye(3)
        return np.vstack([turn @ linear, turn @ angular])[: c.size]


def body_names(model):
    names = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, i) for i in range(model.nbody)]
    return [name or f"body{i}" for i, name in enumerate(names)]


def states(tree, rng):
    """One configuration within the limits of all joints, one outside."""
    inside, outside = tree.random(rng, batch=2)
    for joint, sq in zip(tree.joints, tree.q_slices, strict=True):
        if joint.kind in (joint_kinds.REVOLUTE, joint_kinds.PRISMATIC):
            sign = rng.choice([-1.0, 1.0])
            end = (joint.upper if sign > 0 else joint.lower)[0]
            outside[sq] = (end if np.isfinite(end) else 0.0) + sign * rng.uniform(0.1, 2.0)
    return np.stack([inside, outside])


def constraints_on(tree, model, rng):
    """A weld and points, in both kinds of axes, on bodies at the ends of branches and in the middle of the tree."""
    moving = [name for name in body_names(model)[1:] if tree.placement(name).link >= 0]
    ends = [name for name in leaf_frames(tree, 3) if name in moving]
    chosen = [*ends, *rng.choice(moving, 2)]
    rng.shuffle(chosen)
    out = [ds.Weld(random_frame(rng, chosen[0]))]
    for k, link in enumerate(chosen[1:]):
        out.append(ds.Point(random_frame(rng, link), axes="world" if k % 2 else "local"))
    return [*out, ds.Weld(random_frame(rng, chosen[-1]), axes="world")]


def check_against_peer(tree, model, rng):
    """Layout, poses, mass matrix, Jacobian, and Delassus matrix by some methods."""
    assert (tree.nq, tree.nv) == (model.nq, model.nv)
    assert [sq.start for sq in tree.q_slices] == list(model.jnt_qposadr)
    assert [sv.start for sv in tree.v_slices] == list(model.jnt_dofadr)
    q = states(tree, rng)
    qpos = configuration_to_mujoco(tree, q)
    M, T = ds.mass_matrix(tree, q), velocity_map_from_mujoco(tree, q)
    constraints = constraints_on(tree, model, rng) if tree.nv else [ds.Weld("world")]
    J = ds.jacobian(tree, constraints, q)
    G = {method: ds.delassus(tree, constraints, q, method=method) for method in in_turns(tree.nv)}
    size = max(1.0, float(np.max(np.abs(model.body_pos))))
    for k in range(len(q)):
        peer = Peer(model, qpos[k])
        for name in body_names(model):
            R, p = frame_pose(tree, name, q[k])
            expected_R, expected_p = peer.pose(name)
            assert np.max(np.abs(R - expected_R)) < KINEMATICS
            assert np.max(np.abs(p - expected_p)) < KINEMATICS * size
        if not tree.nv:
            continue
        assert error(unit_diagonal(T[k].T @ M[k] @ T[k]), unit_diagonal(peer.M)) < MASS_MATRIX
        expected_J = np.vstack([peer.jacobian(c) for c in constraints])
        assert error(J[k] @ T[k], expected_J) < DELASSUS
        expected = expected_J @ np.linalg.solve(peer.M, expected_J.T)
        for method, value in G.items():
            assert error(value[k], expected) < DELASSUS, method


# -- every file ----------------------------------------------------------------------------------------------------


@pytest.mark.turns(3)
@pytest.mark.parametrize(("package", "fewest"), FEWEST_MODELS.items())
def test_files_are_there(package, fewest):
    names = [name for name in FILES if name.startswith(f"{package}/")]
    assert not names or sum(bool(compiled(name) and compiled(name).nv) for name in names) >= fewest


@pytest.mark.turns(3)
@every_file
def test_file(name):
    model = compiled(name)
    if model is None:
        with pytest.raises(ModelError):
            ds.load(FILES[name])
        return
    check_against_peer(loaded(name), model, generator(name))
    if model.nv:
        check_states(loaded(name), model, generator(f"{name} states"))


NOT_FORCES = (
    "activations", "armature of tendons",
    "sensors", "skins", "mocap bodies", "limits of tendons", "limits of ball joints", "equality constraints",
    "springs, dampers and friction", "actuators", "fluid forces", "flags of contacts",
)  # fmt: skip
"""What `represented` takes out of a model, and what has no force while its constraints are disabled."""

ACCELERATION = 1e-9
"""Accelerations, relative to the largest: conditions of mass matrices, and quarter turns as above."""


def represented(model, tree):
    """The model without what `tree.report` lists, and without constraints: limits, contacts, friction, equalities."""
    assert all(what.startswith(NOT_FORCES) for what in tree.omitted), tree.omitted
    model = copy.copy(model)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    if "fluid forces" in tree.omitted:
        model.opt.density = model.opt.viscosity = 0.0
    for what, names in tree.omitted.items():
        if what.startswith("springs"):
            ids = [model.tendon(name).id for name in names]
            model.tendon_stiffness[ids] = model.tendon_damping[ids] = 0.0
        if what.startswith("actuators"):
            all_names = actuator_names(model)
            ids = [all_names.index(name) for name in names]
            model.actuator_gainprm[ids] = model.actuator_biasprm[ids] = 0.0
    return model


def actuator_names(model):
    """Names of actuators, as the tree has them."""
    return [model.actuator(a).name or f"actuator{a}" for a in range(len(model.actuator_trntype))]


def controls_of(tree, model, rng):
    """Random controls in MuJoCo's order and in ours."""
    names = actuator_names(model)
    ctrl = rng.normal(size=model.nu) * 2.0
    return ctrl, ctrl[[names.index(actuator.name) for actuator in tree.actuators]]


def drive(model, data, ctrl):
    """Give the model controls, and activations where these are controls here."""
    data.ctrl[:] = ctrl
    for a in np.flatnonzero(model.actuator_actadr >= 0):
        limits = model.actuator_actrange[a] if model.actuator_actlimited[a] else (-np.inf, np.inf)
        data.act[model.actuator_actadr[a]] = np.clip(ctrl[min(a, len(ctrl) - 1)], *limits)


def accelerations_of(model, tree, q, v, ctrl):
    """MuJoCo's accelerations, as ours."""
    data = mujoco_data(model, tree, q, v)
    drive(model, data, ctrl)
    mujoco.mj_forward(model, data)
    return qdd_of(tree, data)


@pytest.mark.turns(3)
@every_file
def test_accelerations_of_file(name):
    """Springs, damping, gravity, actuators with gears, gains and ranges: what is not listed is in the motion.

    And what sensors measure of it.
    """
    if compiled(name) is None or not compiled(name).nv:
        return
    tree = loaded(name)
    assert sum(c.holds for c in tree.constraints) == compiled(name).neq  # `test_file_constraints` tries what they do
    stops = [c for c in tree.constraints if isinstance(c, ds.Tendon) and c.band and c.stiffness is None]
    tree = replace(tree, constraints=[c for c in tree.constraints if c not in stops])  # MuJoCo's are constraints
    check_accelerations(tree, compiled(name), generator(f"{name} accelerations"))
    if tree.sensors:
        check_sensors(tree, compiled(name), generator(f"{name} sensors"))


def check_accelerations(tree, model, rng):
    model = represented(model, tree)
    q, v = states(tree, rng)[rng.integers(2)], rng.normal(size=tree.nv)
    theirs, ours = controls_of(tree, model, rng)
    qdd = accelerations_of(model, tree, q, v, theirs)
    control, given = ("actuators", ours) if tree.nu else ("tau", np.zeros(tree.nv))
    difference = ds.forward_dynamics(tree, q, v, given, (), control=control).qdd - qdd
    assert np.max(np.abs(difference)) < ACCELERATION * max(1.0, np.max(np.abs(qdd)))


def check_sensors(tree, model, rng):
    model = represented(model, tree)
    q, v = tree.random(rng), rng.normal(size=tree.nv)
    theirs, ours = controls_of(tree, model, rng)
    acts = {"control": "actuators"} if tree.nu else {}
    held = [sensor for sensor in tree.sensors if tree.nu or sensor.kind != "actuatorfrc"]
    touch = [sensor for sensor in held if sensor.kind == "touch"]  # of contacts: `test_contact_robots`
    if touch:
        with pytest.raises(ConfigurationError, match="contacts"):
            ds.sensors(tree, q, v, ours if tree.nu else np.zeros(tree.nv), (), sensors=touch, **acts)
    held = [sensor for sensor in held if sensor.kind != "touch"]
    if not held:
        return
    found = ds.sensors(tree, q, v, ours if tree.nu else np.zeros(tree.nv), (), sensors=held, **acts)
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = configuration_to_mujoco(tree, q), velocity_to_mujoco(tree, q, v)
    drive(model, data, theirs)
    mujoco.mj_forward(model, data)
    names = [model.sensor(k).name or f"sensor{k}" for k in range(model.nsensor)]
    for sensor in held:
        k = names.index(sensor.name)
        wanted = data.sensordata[model.sensor_adr[k] :][: model.sensor_dim[k]]
        if len(wanted) == 4:  # quaternions, w first, of either sign
            wanted = np.roll(wanted, -1)
            wanted = wanted * np.copysign(1.0, wanted @ found[sensor.name])
        scale = max(1.0, np.max(np.abs(wanted)))
        assert np.max(np.abs(found[sensor.name] - wanted)) < ACCELERATION * scale, sensor


SENSORS = """<mujoco><option gravity="0.3 -0.2 -9.5"/><worldbody><site name="fixed" pos=".2 .1 .3" euler="10 20 30"/>
<body name="base"><freejoint/><geom type="box" size=".2 .1 .05"/><site name="imu" pos=".05 .02 .1" euler="20 30 40"/>
<geom name="lump" type="capsule" size=".02 .1" pos=".1 0 .1" euler="0 40 0"/>
<body name="arm" pos=".2 0 0"><joint name="a" axis="0 1 0" armature=".01"/><joint name="a2" axis="1 0 0"/>
<geom size=".1" pos=".2 0 0"/><body name="wrist" pos=".3 0 0" euler="0 0 20"><geom size=".05"/><site name="listed"/>
<body name="hand" pos=".1 0 0"><joint name="b" type="ball" stiffness=".4"/><geom size=".1" pos="0 .1 .1"/>
<site name="tip" pos="0 .01 .2" euler="50 0 10"/><body name="finger" pos="0 0 .2"><joint name="s" type="slide"/>
<geom size=".1"/><site name="end" pos="0 0 .02"/></body></body></body></body></body></worldbody>
<tendon><fixed name="t"><joint joint="a" coef=".5"/><joint joint="s" coef="2"/></fixed></tendon>
<actuator><motor name="m" joint="a" gear="3"/><position name="p" joint="s" kp="10"/>
<motor name="mt" tendon="t" ctrlrange="-.5 .5" ctrllimited="true"/></actuator><sensor>{}</sensor></mujoco>"""

PLACED = (
    'site="imu"', 'site="tip"', 'site="end"', 'site="tip" cutoff="2"', 'objtype="site" objname="tip"',
    'objtype="body" objname="hand" reftype="site" refname="imu"', 'objtype="site" objname="fixed"',
    'objtype="geom" objname="lump" reftype="xbody" refname="finger"', 'objtype="xbody" objname="wrist"',
    'body="arm"', 'body="base"', 'body="finger"', 'joint="a"', 'joint="b"', 'actuator="mt"', 'actuator="p"',
)  # fmt: skip
"""What sensors are of; MuJoCo refuses what a kind is not of."""


def sensors_of_every_kind():
    """Elements of the kinds that trees hold, on all that they can be of."""
    joints = ("ballquat", "ballangvel")
    for kind in (*ds.Sensor.KINDS, *joints):
        what = "joint" if kind in joints else ds.Sensor.KINDS[kind][0]
        sites = what.endswith("frame") and not kind.startswith("frame")
        key = {"link": "body=", "joint": "joint=", "actuator": "actuator="}.get(what, "site=" if sites else "objtype=")
        for k, place in enumerate(PLACED):
            is_ball = place == 'joint="b"'
            fits = what != "joint" or kind == "jointactuatorfrc" or is_ball == (kind in joints)
            if place.startswith(key) and fits and not (kind == "jointactuatorfrc" and is_ball):
                given = place.split(" ref")[0] if kind.endswith("acc") else place
                yield f'<{kind} name="{kind}{k}" {given}/>'


def test_sensors_of_every_kind():
    """Against MuJoCo, written and read again; those that a tree does not hold are listed."""
    others = '<clock name="clock"/><force name="fixed" site="listed"/><subtreecom name="part" body="wrist"/>'
    model = mujoco.MjModel.from_xml_string(SENSORS.format("".join(sensors_of_every_kind()) + others))
    with pytest.warns(ds.DelassusWarning, match="3 sensors of other kinds"):
        tree = ds.load(model)
    assert {sensor.kind for sensor in tree.sensors} == {*ds.Sensor.KINDS} and len(tree.sensors) == model.nsensor - 3
    for seed in range(3):
        check_sensors(tree, model, generator(f"sensors {seed}"))
    with pytest.warns(ds.DelassusWarning, match="sensors of touch or free joints"):
        text = tree.to_mjcf()
    again = ds.load(mujoco.MjModel.from_xml_string(text))
    written = {sensor.fingerprint for sensor in again.sensors}
    named = [x for x in tree.sensors if not isinstance(x.of, ds.Frame) and not isinstance(x.reference, ds.Frame)]
    named = [x for x in named if x.kind != "touch"]
    assert {sensor.fingerprint for sensor in named} <= written
    assert {x.name for x in again.sensors} == {x.name for x in tree.sensors if x.kind != "touch"}
    check_sensors(again, model, generator("sensors again"))  # sites stand for geoms, of which there is one on a link


TRAJECTORIES = (
    "dm_control/suite/hopper.xml", "dm_control/suite/pendulum.xml", "dm_control/suite/walker.xml",
    "dm_control/suite/fish.xml", "gymnasium/envs/mujoco/assets/pusher_v5.xml",
)  # fmt: skip
"""Springs, damping, motors, slides and hinges; fish floats. Stiff ones leave: explicit Euler throws them about."""


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", [name for name in TRAJECTORIES if name in FILES])
def test_gravity_compensation_in_file(name):
    rng, spec = generator(f"{name} compensation"), mujoco.MjSpec.from_file(str(FILES[name]))
    for body in spec.bodies:
        body.gravcomp = rng.choice([1.0, rng.uniform(-0.5, 1.5)])
    model = spec.compile()
    tree = tree_from_mujoco(model)
    assert tree.gravity_compensation
    check_accelerations(tree, model, rng)


ONE_SECOND = 1e-8
"""Round-off that grows for a second."""

SPRUNG = 1.2e-6
"""The same where joints have springs: `Simulator` takes some of their force at the end of a step, MuJoCo none."""


PARTS = 64
"""Of a time step of what floats: MuJoCo's velocity products are those of the start of a step, and of first order."""


@pytest.mark.turns(4)
@pytest.mark.parametrize("name", [name for name in TRAJECTORIES if name in FILES])
def test_one_second(name):
    """MuJoCo's Euler steps of the same length: in rollouts, and in `Simulator` where the base is free.

    Both put a free body forward straight in the world; ``"step"`` moves it along a screw.
    """
    tree, rng = loaded(name), generator(f"{name} second")
    model = represented(compiled(name), tree)
    model.opt.integrator = int(mujoco.mjtIntegrator.mjINT_EULER)
    if not tree.is_floating:  # `"step"` is explicit, `Simulator` takes damping at the end of the step
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_EULERDAMP)
    else:
        model.opt.timestep /= PARTS
    dt, n = model.opt.timestep, round(1.0 / model.opt.timestep)
    theirs, ours = (0.1 * ctrl for ctrl in controls_of(tree, model, rng))
    data = mujoco.MjData(model)
    data.qvel[:], data.ctrl[:] = 0.1 * rng.normal(size=tree.nv), theirs
    q, v = configuration_from_mujoco(tree, data.qpos), velocity_from_mujoco(tree, data.qpos, data.qvel)
    for _ in range(n):
        mujoco.mj_step(model, data)
    if tree.is_floating:
        simulator = ds.Simulator(ds.Scene(tree, loops=()), q0=q, v0=v, dt=dt, control="actuators")
        for _ in range(n):
            simulator.step(ours)
        reached = simulator.q
    else:
        step = ds.compile(tree, (), "step", control="actuators")
        path, _ = ds.rollout(step, q, v, np.tile(ours, (n, 1)), dt)
        reached = path[-1]
    assert distance(tree, reached, q) > 0.01
    is_sprung = tree.is_floating and any(j.stiffness.any() for j in tree.joints)
    bound = SPRUNG if is_sprung else ONE_SECOND
    assert distance(tree, reached, configuration_from_mujoco(tree, data.qpos)) < bound


def check_states(tree, model, rng):
    """Round trips, body velocities, integration and difference."""
    q = states(tree, rng)
    qvel = rng.normal(size=(2, tree.nv))
    qpos = configuration_to_mujoco(tree, q)
    v = velocity_from_mujoco(tree, qpos, qvel)
    T = velocity_map_from_mujoco(tree, q)
    assert np.max(np.abs(configuration_from_mujoco(tree, qpos) - q)) < STATE
    assert error(velocity_to_mujoco(tree, q, v), qvel) < STATE
    assert error((T @ qvel[..., None])[..., 0], v) < STATE
    assert error(T @ np.swapaxes(T, -1, -2), np.broadcast_to(np.eye(tree.nv), T.shape)) < STATE

    # the velocity of every body, in its own axes
    welds = [ds.Weld(name) for name in body_names(model)]
    twists = (ds.jacobian(tree, welds, q) @ v[..., None]).reshape(2, len(welds), 6)
    for k in range(2):
        peer = Peer(model, qpos[k])
        peer.data.qvel[:] = qvel[k]
        mujoco.mj_comVel(model, peer.data)
        expected = np.zeros((len(welds), 6))  # angular first
        for i in range(model.nbody):
            mujoco.mj_objectVelocity(model, peer.data, mujoco.mjtObj.mjOBJ_XBODY, i, expected[i], 1)
        assert error(twists[k], np.roll(expected, 3, axis=-1)) < KINEMATICS

    # integration: alike where no body turns and moves in one free joint at once
    free = [sv.start for joint, sv in zip(tree.joints, tree.v_slices, strict=True) if joint.kind is joint_kinds.FREE]
    for still in (slice(0, 3), slice(3, 6)):
        part = qvel.copy()
        for start in free:
            part[:, start : start + 6][:, still] = 0.0
        for k in range(2):
            reached, back = qpos[k].copy(), np.zeros(tree.nv)
            mujoco.mj_integratePos(model, reached, part[k], 0.1)
            ours = tree.integrate(q[k], 0.1 * velocity_from_mujoco(tree, qpos[k], part[k]))
            assert distance(tree, ours, configuration_from_mujoco(tree, reached)) < STATE
            mujoco.mj_differentiatePos(model, back, 0.1, qpos[k], reached)
            difference = velocity_to_mujoco(tree, q[k], tree.difference(q[k], ours))
            assert error(difference / 0.1, back) < 1e3 * STATE  # divided by a short time

    # and to first order in any motion: MuJoCo moves along a straight line, a twist along a screw
    short = 1e-5
    reached = qpos[0].copy()
    mujoco.mj_integratePos(model, reached, qvel[0], short)
    assert distance(tree, tree.integrate(q[0], short * v[0]), configuration_from_mujoco(tree, reached)) < 100 * short**2


def distance(tree, a, b):
    """Largest difference between two configurations; quaternions may have either sign."""
    return float(np.max(np.abs(tree.difference(a, b)), initial=0.0))


# -- one thing at a time -------------------------------------------------------------------------------------------

LINK = '<inertial pos=".1 -.05 .2" quat=".9 .1 .3 -.2" mass="2" diaginertia=".03 .02 .04"/>'
MODELS = {
    "several joints on one body, with anchors": f"""
        <body name="a" pos=".1 .2 .3" quat=".8 .1 -.5 .2"><joint type="slide" axis="1 2 3" pos="1 1 1"/>
        <joint axis="0 1 .5" pos=".2 -.1 .4"/><joint axis="1 0 .1" pos="-.3 0 .2" range="-1 1" limited="true"/>{LINK}
        <body name="b" pos="0 0 .5"><joint name="x" axis="1 0 0"/><joint name="y" axis="0 1 0" pos="0 .1 0"/>
        <joint name="z" type="slide" axis="0 0 -1"/>{LINK}</body></body>""",
    "six joints on one body": f"""
        <body pos="1 0 0" quat=".5 .5 .1 0"><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>
        <joint type="slide" axis="0 0 1"/><joint axis="1 0 0"/><joint axis="0 1 0"/><joint axis="0 0 1"/>{LINK}
        </body>""",
    "three hinges across each other in one plane": f"""
        <body><joint axis="1 0 0"/><joint axis="1 1 0"/><joint axis="0 1 0"/>{LINK}</body>""",
    "ball joints": f"""
        <body name="a" pos="0 0 1" quat=".3 1 .2 .1">{LINK}
        <joint type="ball" pos=".1 .2 -.3" armature=".02" damping="3"/>
        <body name="b" pos=".4 0 0"><joint type="slide" axis="1 1 0"/><joint type="ball" pos="0 .1 0" range="0 1"
        limited="true"/>{LINK}<body name="c"><joint axis="1 0 1" pos=".1 .1 .1"/><joint type="ball"/>{LINK}</body>
        </body><body name="d"><joint type="ball"/><joint type="slide" axis="0 .3 1" pos="1 0 0"/>{LINK}</body>
        </body>""",
    "references": f"""
        <body name="a" quat=".5 .5 .5 .1"><joint ref="40" axis="1 2 -1" pos=".3 .1 .2"/>{LINK}
        <body name="b" pos="0 .3 0"><joint type="slide" ref="-.7" axis="3 1 0" pos=".5 0 0"/>
        <joint ref="-110" axis="0 0 1" pos=".2 .2 0" range="-130 -20" limited="true"/>{LINK}</body></body>""",
    "free joints with armature": f"""
        <body name="a" pos="5 6 7" quat=".1 .2 .3 .4"><freejoint/>{LINK}
        <body name="b" pos=".1 0 0"><joint axis="1 1 0" armature=".3"/>{LINK}</body></body>
        <body name="c"><joint type="free" armature=".7" damping="2"/>{LINK}</body>
        <body name="d" pos="1 0 0"><joint axis="0 1 0" ref="10"/>{LINK}</body>""",
    "nested bodies without joints": f"""
        <body name="fixed" pos="1 2 3" quat=".7 .1 .1 .7">{LINK}<body name="a" pos=".1 .2 0"><joint axis="0 2 1"/>{LINK}
        <body name="glued" pos="0 .2 .1" quat=".2 .1 1 0">{LINK}
        <body pos=".1 0 0"><joint type="slide" axis="1 0 2"/>{LINK}</body>
        <body name="glued too" pos=".1 .1 .1">{LINK}</body></body></body></body>""",
    "a mocap body": f"""
        <body name="hand" mocap="true" pos="1 2 3" quat=".5 .1 .5 .1"><geom size=".1"/></body>
        <body name="a" pos="0 0 1"><joint axis="1 0 0"/>{LINK}</body>""",
    "no names": f"""
        <body><joint/>{LINK}<body pos="1 0 0"><joint axis="0 1 0"/><joint axis="1 0 0"/>{LINK}</body>
        <body pos="0 1 0"><joint type="slide"/>{LINK}</body></body>""",
    "motors with armature": f"""
        <body name="a"><joint name="j" armature=".1"/>{LINK}<body name="b" pos=".3 0 0">
        <joint name="k" type="ball"/>{LINK}<body name="c" pos=".3 0 0">
        <joint name="l" type="slide" axis="1 0 0"/>{LINK}</body></body></body></worldbody><actuator>
        <motor joint="j" gear="3" armature=".2"/><position joint="j" gear="2"/><motor joint="j" armature=".05"/>
        <motor jointinparent="k" gear="3 1 2" armature=".04"/><motor joint="l" gear="-5"/></actuator><worldbody>""",
    "inertia from shapes": """
        <body name="a" euler="10 20 30"><joint axis="1 1 1"/><geom type="capsule" fromto="0 0 0 .3 .1 .2" size=".05"/>
        <geom type="box" size=".1 .2 .05" pos="0 .3 0" euler="30 0 10"/>
        <body name="b" pos=".3 .1 .2"><joint axis="0 1 0"/>
        <geom type="ellipsoid" size=".1 .2 .3" pos=".1 0 0" axisangle="1 2 3 40"/></body></body>""",
}


def mjcf(bodies):
    return f"<mujoco model='synthetic'><worldbody>{bodies}</worldbody></mujoco>"


def from_xml(bodies):
    return mujoco.MjModel.from_xml_string(mjcf(bodies))


def compile_case(case):
    try:
        return from_xml(MODELS[case])
    except ValueError:
        if case != "motors with armature":
            raise
        pytest.skip("actuators have no armature before MuJoCo 4")


@pytest.mark.turns(3)
@pytest.mark.parametrize("case", MODELS)
@pytest.mark.parametrize("seed", range(3))
def test_synthetic_model(case, seed):
    model = compile_case(case)
    tree = tree_from_mujoco(model)
    rng = np.random.default_rng(seed)
    check_against_peer(tree, model, rng)
    check_states(tree, model, rng)
    check_accelerations(tree, model, rng)


def test_names():
    tree = tree_from_mujoco(compile_case("no names"))
    assert tree.link_names == ("body1", "body2:joint1", "body2", "body3")
    assert tree.joint_names == ("joint0", "joint1", "joint2", "joint3")
    clash = f"""<body name="body2"><joint name="joint1"/><joint axis="0 1 0"/>{LINK}<body name="body2:joint1">{LINK}
        <body><joint/>{LINK}</body></body></body><body><joint name="body2:joint1"/>{LINK}</body>"""
    tree = tree_from_mujoco(from_xml(clash))
    assert tree.link_names == ("body2:joint1_", "body2", "body3", "body4")
    assert tree.joint_names == ("joint1", "joint1_", "joint2", "body2:joint1")
    tree = tree_from_mujoco(compile_case("several joints on one body, with anchors"))
    assert tree.link_names == ("a:joint0", "a:joint1", "a", "b:x", "b:y", "b")
    assert tree.name == "synthetic"
    tree = tree_from_mujoco(compile_case("nested bodies without joints"))
    assert tree.link_names == ("a", "body4")
    assert {"world", "fixed", "glued", "glued too"} <= set(tree.frames)
    assert tree.placement("fixed").link == tree.placement("world").link == -1


MOCAP = """<mujoco><worldbody><geom name="floor" type="plane" size="5 5 .1"/>
<body name="target" mocap="true" pos="0 0 .5" quat="1 0 0 .1"><site name="tip" pos=".1 0 0"/>
<body name="pad" pos="0 .1 0" quat="1 .2 0 0"><geom name="plate" type="box" size=".05 .05 .05" pos="0 0 -.1"/>
</body></body>
<body name="fixed" pos="0 3 0"><geom name="post" size=".1"/></body>
<body name="hand" pos="0 0 .7"><freejoint name="free"/><geom name="palm" type="box" size=".05 .05 .02" mass="1"/>
<body name="finger" pos=".05 0 0"><joint name="hinge" axis="0 1 0"/><geom size=".01" pos=".1 0 0" mass=".1"/>
</body></body>
<body name="cube" pos=".5 0 .05"><freejoint/><geom name="cube" type="box" size=".05 .05 .05" mass=".2"/></body>
<body name="other" mocap="true" pos="1 2 3"/></worldbody>
<equality><weld body1="target" body2="hand"/>
<connect body1="finger" body2="other" anchor="0 0 0" active="false"/></equality>
<keyframe><key name="up" qpos="0 0 .9 1 0 0 0 .1 .5 0 .05 1 0 0 0"
mpos="0 0 .7 0 0 0" mquat="1 0 0 .1 0 2 0 0"/></keyframe>
</mujoco>"""


def test_mocap_bodies_are_moved_in_scenes():
    """With geoms, sites and welds on them; trees have them on the world, and write them back."""
    model = mujoco.MjModel.from_xml_string(MOCAP)
    tree, scene = ds.load(MOCAP), ds.Scene.from_robot(MOCAP)
    assert tree.nq == model.nq and not [what for what in tree.omitted if what.startswith("mocap")]
    assert scene.moved == {"target", "other"} and scene.tree.link_names[-2:] == ("target", "other")
    assert {c.name: c.link for c in scene.colliders}["plate"] == "target"

    sim, data = ds.Simulator(scene, dt=2e-3), mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    relative = np.linalg.inv(pose_of(data, "target")) @ pose_of(data, "hand")
    turned = np.array([0.3, 0.5, 0.8, 0.1])  # x y z w
    for k in range(100):
        part = (k + 1) / 100
        turn = (1 - part) * np.array([0.0, 0.0, 0.1, 1.0]) + part * turned
        turn /= np.linalg.norm(turn)
        sim.move("target", [0.1 * part, -0.2 * part, 0.5 + 0.3 * part, *turn])
        sim.step()
    data.mocap_pos[0], data.mocap_quat[0] = [0.1, -0.2, 0.8], np.roll(turn, 1)
    mujoco.mj_kinematics(model, data)
    placed = {name: ds.forward_kinematics(scene.tree, sim.q, name) for name in ("target", "pad", "tip", "hand")}
    assert np.allclose(placed["target"], pose_of(data, "target")) and np.allclose(placed["pad"], pose_of(data, "pad"))
    assert np.allclose(placed["tip"][:3, 3], data.site("tip").xpos)
    assert np.allclose(placed["hand"], pose_of(data, "target") @ relative, atol=1e-8)  # loops close to 1e-10 here
    (plate,) = [c for c in scene.colliders if c.name == "plate"]
    at = placed["target"][:3, :3] @ plate.position + placed["target"][:3, 3]
    assert np.allclose(at, data.geom("plate").xpos)

    for robot in (MOCAP, model):
        up = ds.Scene.from_robot(robot, keyframe="up")
        assert np.allclose(up.start[-14:-7], [0, 0, 0.7, 0, 0, 0.1 / 1.01**0.5, 1 / 1.01**0.5])
        ds.Simulator(up).step()  # the weld is closed there
    both = ds.Scene(ds.mechanisms.pendulum(1)).add("arm", MOCAP, at=(1, 0, 0))
    assert both.moved == {"arm/target", "arm/other"} and np.allclose(both.start[-14:-11], [1, 0, 0.5])
    assert both.without("arm").moved == frozenset()

    again = mujoco.MjModel.from_xml_string(tree.to_mjcf())
    for what in ("nmocap", "key_mpos", "key_mquat"):
        assert np.allclose(getattr(again, what), getattr(model, what)), what
    for name in ("target", "other", "hand"):
        assert np.allclose(again.body(name).pos, model.body(name).pos), name
        assert np.allclose(again.body(name).quat, model.body(name).quat), name
    assert np.allclose(again.site("tip").pos, [0.1, 0, 0]) and np.allclose(again.eq_data[0][:10], model.eq_data[0][:10])
    names = [mujoco.mj_id2name(again, mujoco.mjtObj.mjOBJ_BODY, int(x[0])) for x in (again.eq_obj1id, again.eq_obj2id)]
    assert names == ["target", "hand"]
    assert "target" in tree.to_mjcf() and "bodies that users move" in str(omitted_of(tree.to_urdf))


def pose_of(data, body):
    """Pose of a body (4, 4)."""
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = data.body(body).xmat.reshape(3, 3), data.body(body).xpos
    return out


def omitted_of(write):
    """What a writer leaves out."""
    with pytest.raises(ModelError) as caught:
        write(unsupported="refuse")
    return caught.value


def test_numbers_of_joints():
    tree = tree_from_mujoco(compile_case("ball joints"))
    a, slide = tree.joints[0], tree.joints[1]
    assert a.kind is joint_kinds.BALL and np.all(a.armature == 0.02) and np.all(a.damping == 3.0)
    assert np.all(np.isinf(tree.joints[2].upper)) and np.isinf(slide.lower[0])
    tree = tree_from_mujoco(compile_case("references"))
    assert np.degrees([tree.joints[2].lower[0], tree.joints[2].upper[0]]) == pytest.approx([-130, -20])
    tree = tree_from_mujoco(compile_case("free joints with armature"))
    assert np.all(tree.joints[2].armature == 0.7) and np.all(tree.joints[0].armature == 0.0)


def test_edited_numbers_are_the_ones_used():
    model = compile_case("free joints with armature")
    rng = np.random.default_rng(0)
    model.dof_armature[3:6] = (0.1, 0.2, 0.3)  # directions of the body may differ, those of the world may not
    model.body_mass[1] = 3.0
    model.qpos0[-1] = 0.4
    check_against_peer(tree_from_mujoco(model), model, rng)
    model.dof_armature[0] = 1.0
    with pytest.raises(ModelError, match=r"joint 'joint0'.*one armature.*free joint"):
        tree_from_mujoco(model)
    model.dof_armature[0] = np.nan
    with pytest.raises(ModelError, match="joint0"):
        tree_from_mujoco(model)


def test_free_bodies_with_armature_go_straight():
    """Rotors along axes of the world do not turn the velocity of a body."""
    body = '<body><joint name="j" type="free" armature="1"/><geom type="sphere" size=".1" mass="1"/></body>'
    model = from_xml(f'</worldbody><option gravity="0 0 0"/><worldbody>{body}')
    tree, v, none = tree_from_mujoco(model), np.array([1.0, 0, 0, 0, 0, 2.0]), np.zeros(6)
    assert error(ds.forward_dynamics(tree, tree.neutral(), v, none).qdd, [0, -2, 0, 0, 0, 0]) < STATE
    x, dt = {"q_next": tree.neutral(), "v_next": v}, 0.02
    for _ in range(50):
        state = {"q": x["q_next"], "v": x["v_next"], "tau": none, "dt": dt}
        x = direct(tree, "step", state, integrator="rk4")
    assert np.abs(x["q_next"][:3] - [1, 0, 0]).max() < 50 * (2 * dt) ** 5  # steps of fourth order, at 2 rad/s
    sim = ds.Simulator(ds.Scene(tree), q0=tree.neutral(), v0=v, dt=dt)
    for _ in range(50):
        sim.step()
    assert np.abs(sim.q[:3] - [1, 0, 0]).max() < 50 * STATE


def test_intermediate_links_are_where_the_body_would_be():
    model = compile_case("references")
    tree = tree_from_mujoco(model)
    q = tree.random(0)
    q[2] = model.qpos0[2]  # the last joint of body b at its reference
    R, p = frame_pose(tree, "b", q)
    R_between, p_between = frame_pose(tree, tree.link_names[1], q)
    assert error(R_between, R) < STATE and error(p_between, p) < STATE


def test_sites_are_frames():
    rng = np.random.default_rng(0)
    model = from_xml(f"""<site name="here" pos="1 2 3"/><body name="a"><joint name="a" axis="1 1 0" pos=".1 0 0"/>{LINK}
        <site name="tip" pos=".3 .1 .2" quat=".1 .4 .3 .2"/><site pos="1 0 0"/><site name="a" pos="9 9 9"/></body>""")
    tree = tree_from_mujoco(model)
    assert set(tree.frames) == {"world", "here", "a", "tip"}
    q = tree.random(rng)
    peer = Peer(model, configuration_to_mujoco(tree, q))
    for i, name in ((0, "here"), (1, "tip")):
        R, p = frame_pose(tree, name, q)
        assert error(R, peer.data.site_xmat[i].reshape(3, 3)) < KINEMATICS
        assert error(p, peer.data.site_xpos[i]) < KINEMATICS


def test_order_is_the_models_own():
    rng = np.random.default_rng(5)

    def random_bodies(depth):
        out = ""
        for _ in range(rng.integers(1, 4)):
            joints = "".join(
                f"<joint type='{rng.choice(['hinge', 'slide'])}' axis='{x} {y} {z}' pos='{z} {x} {y}'/>"
                for x, y, z in rng.normal(size=(rng.integers(0, 3), 3))
            )
            x, y, z = rng.normal(size=3)
            inner = random_bodies(depth - 1) if depth else ""
            out += f"<body pos='{x} {y} {z}' euler='{20 * x} {y} 0'>{joints}{LINK}{inner}</body>"
        return out

    for _ in range(3):
        model = from_xml(random_bodies(3))
        check_against_peer(tree_from_mujoco(model), model, rng)


def test_tendon_armature_is_that_of_one_joint_or_listed():
    xml = f"""<mujoco><worldbody><body><joint name="j"/>{LINK}<body pos="1 0 0"><joint name="k"/>{LINK}</body></body>
        </worldbody><tendon><fixed name="t" {{}}><joint joint="j" coef="2"/>{{}}</fixed></tendon>{{}}</mujoco>"""
    coupled = '<joint joint="k" coef="1"/>'
    cases = [("", coupled, '<actuator><motor tendon="t"/></actuator>')]
    if mujoco.__version__ >= "4":
        motor = '<actuator><motor tendon="t" armature=".1" gear="2"/></actuator>'
        cases += [('armature=".1"', more, "") for more in ("", coupled)] + [("", more, motor) for more in ("", coupled)]
    for own, more, motor in cases:
        model = mujoco.MjModel.from_xml_string(xml.format(own, more, motor))
        if more and "armature" in own + motor:
            assert ds.load(model, unsupported="ignore").omitted == {
                "armature of tendons, which couples joints through the mass matrix": ("t",)
            }
        else:
            check_against_peer(tree_from_mujoco(model), model, np.random.default_rng(0))


# -- what is refused -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bodies",
    [
        "<body><joint name='twice'/><joint name='again'/>{}</body>",
        "<body><joint name='twice' type='slide' axis='1 2 3'/><joint type='slide' axis='1 2 3'/>{}</body>",
        "<body><joint name='twice' pos='0 0 1'/><joint type='ball'/>{}</body>",
    ],
)
def test_singular_mass_matrices_are_refused(bodies):
    model = from_xml(bodies.format(LINK))
    with pytest.raises(ModelError, match=r"joint 'twice'.*inertia about every degree of freedom"):
        ds.load(model, massless="error")
    tree, locked = ds.load(model), ds.load(model, massless="lock")
    assert "twice" not in locked.joint_names and locked.nv == tree.nv - 1
    with pytest.raises(ModelError, match=r"joint 'twice'.*massless='lock'"):
        ds.forward_dynamics(tree, tree.neutral(), *np.zeros((2, tree.nv)))


def test_scenes_whose_xml_is_mended(tmp_path):
    """The reader of files takes what MuJoCo takes, included files too; warnings name file and fault."""
    body = '<body name="b"><joint name="j"/><geom size="0.1"/></body>'
    (tmp_path / "part.xml").write_text(f"<mujoco>{body}</mujoco></mujoco>")
    inside = '<mujoco><!-- a -- b --><worldbody><include file="part.xml"/></worldbody></mujoco></worldbody></mujoco>'
    (tmp_path / "scene.xml").write_text(f'\n<?xml version="1.0"?>{inside}')
    with pytest.warns(ds.DelassusWarning) as caught:
        tree = ds.load(tmp_path / "scene.xml")
    assert tree.joint_names == ("j",)
    said = [str(warning.message) for warning in caught]
    assert any("part.xml" in text and "</mujoco> too many" in text for text in said)
    assert any("scene.xml" in text and "</worldbody> too many" in text and "comment" in text for text in said)


def test_what_refers_to_locked_joints():
    """Constraints hold for the joints that are left, where these follow; what only locked joints have is listed."""
    model = mujoco.MjModel.from_xml_string(f"""<mujoco><worldbody><body><joint name="j"/>{LINK}
        <body pos="0 0 1"><joint name="twice"/><joint name="again"/>{LINK}</body></body></worldbody>
        <equality><joint joint1="j" joint2="twice" polycoef="0.3 2 0 0 0"/>
        <joint joint1="twice" joint2="again"/></equality>
        <tendon><fixed name="t"><joint joint="j" coef="2"/><joint joint="twice" coef="1"/></fixed></tendon>
        <actuator><motor name="motor" tendon="t"/><motor name="lost" joint="twice"/></actuator>
        <sensor><jointpos name="angle" joint="twice"/><jointpos name="kept" joint="again"/></sensor>
        <keyframe><key name="up" qpos="0.1 0.2 0.3"/></keyframe></mujoco>""")
    whole, tree = ds.load(model), ds.load(model, massless="lock")
    assert (whole.joint_names, tree.joint_names) == (("j", "twice", "again"), ("j", "again"))
    assert [c.fingerprint for c in tree.constraints] == [ds.JointRows({"j": 1.0}, rest=0.3).fingerprint]
    assert [(a.name, dict(a.transmission)) for a in tree.actuators] == [("motor", {"j": 2.0})]
    assert [s.name for s in tree.sensors] == ["kept"] and tree.reference_configurations["up"].tolist() == [0.1, 0.3]
    gone = (repr(whole.constraints[1]), "lost", "angle")
    assert [*tree.omitted.values()] == [("twice",), gone] and [*whole.omitted.values()] == [("twice",)]


def test_what_is_no_model_is_refused():
    with pytest.raises(ModelError, match=r"model: expected a mujoco\.MjModel or .*, got an object of type mujoco"):
        ds.load(mujoco.MjData(from_xml("<body/>")))
    unstable = mujoco.MjSpec()
    unstable.worldbody.add_body(name="b").add_joint(name="j")
    with pytest.raises(ModelError, match=r"the mujoco\.MjSpec: expected one that MuJoCo compiles, got ValueError"):
        ds.load(unstable)
    with pytest.raises(ModelError, match=r"expected a mujoco\.MjModel"):
        tree_from_mujoco("humanoid.xml")


def test_unphysical_inertia():
    model = from_xml(f"<body name='a'><joint/>{LINK}</body>")
    model.body_inertia[1] = (1.0, 0.1, 0.1)
    with pytest.warns(ds.DelassusWarning, match=r"a \(breaks the triangle inequality\)"):
        tree = tree_from_mujoco(model)
    with pytest.warns(ds.DelassusWarning, match="a "):
        assert ds.load(model).fingerprint == tree.fingerprint
    with pytest.raises(ModelError, match="'a'"):
        ds.load(model, check_inertia="refuse")


def write(path, text):
    path.write_text(text)
    return path


@pytest.mark.filterwarnings("ignore:MuJoCo, case.xml. XML contains a 'NaN':delassus.DelassusWarning")
def test_files_that_are_refused(tmp_path):
    good = f"<body><joint/>{LINK}</body>"
    assert ds.load(write(tmp_path / "good.xml", mjcf(good))).nv == 1
    doctype = "<!DOCTYPE mujoco [<!ENTITY a 'b'>]>"
    bad = write(tmp_path / "doctype.xml", doctype + mjcf(good))
    with pytest.raises(ModelError, match=r"doctype\.xml.*without a document type"):
        ds.load(bad)
    write(tmp_path / "part.xml", f"{doctype}<mujocoinclude><body/></mujocoinclude>")
    inner = write(tmp_path / "inner.xml", "<mujocoinclude><include file='part.xml'/></mujocoinclude>")
    for part in ("part.xml", "inner.xml", str(inner)):
        outer = write(tmp_path / "outer.xml", mjcf(f"<include file='{part}'/>"))
        with pytest.raises(ModelError, match=r"part\.xml.*without a document type"):
            ds.load(outer)
    with pytest.raises(ModelError, match=r"missing\.xml.*Check the path"):
        ds.load(tmp_path / "missing.xml")
    cases = {
        "not closed": ("<mujoco><worldbody></mujoco>", "well-formed XML"),
        "unknown element": (mjcf("<boddy/>"), r"MuJoCo compiles, got ValueError: .*boddy.*Correct the file"),
        "includes itself": (mjcf("<include file='case.xml'/>"), "already included"),
        "missing part": (mjcf("<include file='nowhere.xml'/>"), r"nowhere\.xml"),
        "body without mass": (mjcf("<body><joint/></body>"), "mass and inertia"),
        "too much memory": (f"<mujoco><size memory='900000G'/>{mjcf(good)[26:]}", "MuJoCo compiles"),
        "not a number": (mjcf(f"<body pos='nan 0 0'><joint/>{LINK}</body>"), "joint0"),
    }
    for text, message in cases.values():
        with pytest.raises(ModelError, match=message):
            ds.load(write(tmp_path / "case.xml", text))


def test_a_file_that_crashes_mujoco_is_refused(tmp_path):
    field = "<hfield name='{}' nrow='{}' ncol='{}' size='1 1 1 1'/>"
    text = "<mujoco><asset>{}</asset><worldbody/></mujoco>"
    with pytest.raises(ModelError, match=r"huge\.xml', written out: expected at most 1e\+08 bytes"):
        ds.load(write(tmp_path / "huge.xml", text.format(field.format("huge", 2_000_000, 2_000_000))))
    with pytest.raises(ModelError, match=r"nrow of <hfield> in file .* expected finite numbers, got 'many'"):
        ds.load(write(tmp_path / "words.xml", text.format(field.format("words", "many", "more"))))
    assert ds.load(write(tmp_path / "small.xml", text.format(field.format("small", 20, 30)))).nv == 0


ATTACHING = """<mujoco><asset>{}<model name="q" file="{}"/></asset><worldbody><body name="b"><joint/><geom size="0.1"/>
{}</body></worldbody></mujoco>"""
ATTACH = "<attach model='q' body='b' prefix='x'/>"


@pytest.mark.parametrize(
    ("files", "chain"),
    [
        ({"a": ATTACHING.format("", "a.xml", ATTACH)}, "aa"),
        ({"a": ATTACHING.format("", "a.xml", "")}, "aa"),
        ({"a": ATTACHING.format("", "nowhere\\\\..\\\\a.xml", ATTACH)}, "aa"),
        ({"a": ATTACHING.format("", "b.xml", ATTACH), "b": ATTACHING.format("", "a.xml", ATTACH)}, "aba"),
        ({"a": ATTACHING.format("", "link.xml", ATTACH)}, "a."),
        (
            {f"{x}": ATTACHING.format("", f"{y}.xml", ATTACH) for x, y in ("ab", "bc", "cd", "da")},
            "abcda",
        ),
        ({"a": "<mujoco><include file='b.xml'/></mujoco>", "b": ATTACHING.format("", "a.xml", ATTACH)}, "aba"),
    ],
)  # fmt: skip
def test_files_that_attach_themselves(tmp_path, files, chain):
    for name, text in files.items():
        write(tmp_path / f"{name}.xml", text)
    (tmp_path / "link.xml").hardlink_to(tmp_path / "a.xml")
    with pytest.raises(ModelError, match="without a cycle, got " + " → ".join(rf"\S*{x}\S*\.xml" for x in chain)):
        ds.load(tmp_path / "a.xml")


def test_models_that_are_attached(tmp_path):
    """Each file relative to that which names it, and the same one twice."""
    (tmp_path / "parts").mkdir()
    twice = ATTACHING.format(
        "<model name='p' file='parts/a.xml'/>", "parts/a.xml", ATTACH + ATTACH.replace("'x'", "'y'")
    )
    write(tmp_path / "a.xml", twice)
    write(tmp_path / "parts" / "a.xml", ATTACHING.format("", "b.xml", ATTACH))
    write(tmp_path / "parts" / "b.xml", mjcf("<body name='b'><joint/><geom size='0.1'/></body>"))
    assert ds.load(tmp_path / "a.xml").nv == 5


REPLICATED = "<replicate count='{}'>{}</replicate>"
TWINS = "<model name='p' file='{0}.xml'/><model name='q' file='{0}.xml'/>"


@pytest.mark.parametrize(
    "text",
    [
        mjcf(REPLICATED.format(10**9, "<body/>")),
        mjcf(REPLICATED.format(1000, REPLICATED.format(1000, REPLICATED.format(1000, "<body/>")))),
        mjcf(REPLICATED.format(1000, "<frame><geom/></frame>" * 30)),
        mjcf("<flexcomp name='f' type='grid' dim='3' count='2000 2000 2000' spacing='1 1 1'/>"),
        mjcf("<composite type='cable' count='1000000000 1 1'/>"),
        *(f"<mujoco><size {name}='2000000000'/></mujoco>" for name in ("nkey", "nuserdata", "nuser_body")),
        *(
            f"<mujoco>{default}<asset><{element}/></asset></mujoco>"
            for default, element in (
                ("", "texture builtin='flat' width='100000' height='100000'"),
                ("<default><texture width='100000' height='100000'/></default>", "texture builtin='flat'"),
                ("", "hfield nrow='100000' ncol='100000'"),
                ("", "mesh builtin='supersphere' params='10000 1 1'"),
            )
        ),
        "<mujoco><sensor><user dim='2000000000'/><clock nsample='1000000000'/></sensor></mujoco>",
    ],
)  # fmt: skip
def test_files_of_which_mujoco_would_make_too_much(tmp_path, text):
    with pytest.raises(ModelError, match=r"written out: expected at most 1e\+08 bytes.*larger max_bytes"):
        ds.load(write(tmp_path / "case.xml", text))


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    ("joint", "more"),
    [
        ("<freejoint/>", ""),
        ("<joint type='free' stiffness='1'/>", ""),
        ("<joint type='ball' stiffness='1'/>", ""),
        ("<joint name='j'/>", "<actuator><motor joint='j' gear='1e200' armature='0.1'/></actuator>"),
        ("<joint/>", "<asset><mesh builtin='supersphere' params='1e300 1 1'/></asset>"),
    ],
)
def test_numbers_that_are_too_large(tmp_path, joint, more):
    place = "0 0 0" if more else "0 -inf 0"
    text = f"<mujoco>{more}<worldbody><body pos='{place}'>{joint}<geom size='0.1'/></body></worldbody></mujoco>"
    with pytest.raises(ModelError, match=r"expected (finite numbers|at most 1e\+08 bytes).*, got .*inf"):
        ds.load(write(tmp_path / "case.xml", text))


def test_the_limit_of_what_mujoco_makes(tmp_path):
    path = write(tmp_path / "case.xml", mjcf(REPLICATED.format(20, "<body><joint/><geom size='0.1'/></body>")))
    with pytest.raises(ModelError, match="written out: expected at most 100000 bytes"):
        ds.load(path, max_bytes=1e5)
    assert ds.load(path, max_bytes=float("inf")).nv == ds.load(path).nv == 20


@pytest.mark.parametrize("times", [1, 5_000])
def test_a_model_that_is_attached_many_times(tmp_path, times):
    """Neither the file nor the model is large, but so many copies of it are."""
    write(
        tmp_path / "part.xml", mjcf("<body name='b'><joint/><geom size='0.1'/>" + "<geom size='0.1'/>" * 20 + "</body>")
    )
    attach = REPLICATED.format(times, ATTACH.replace("'x'", "'y'"))
    path = write(tmp_path / "a.xml", ATTACHING.format("", "part.xml", attach))
    if times == 1:
        assert ds.load(path).nv == 2
    else:
        with pytest.raises(ModelError, match="written out: expected at most"):
            ds.load(path)


HUMANOID = """<mujoco><asset><texture name="t" type="2d" builtin="checker" width="512" height="512"/>
<material name="m" texture="t"/></asset><worldbody>{}</worldbody></mujoco>"""


@pytest.mark.parametrize(("prefixes", "copies"), [(1, 200), (22, 1)])
def test_assets_of_what_is_attached_count_once_each(tmp_path, prefixes, copies):
    """MuJoCo copies a texture of 1 MB once for each ``<attach>``, not once for each copy by ``<replicate>``."""
    links = "<body name='b'><freejoint/>" + "<geom size='0.1' material='m'/>" * 40 + "</body>"
    write(tmp_path / "part.xml", HUMANOID.format(links))
    attach = "".join(f"<attach model='q' body='b' prefix='{k}_'/>" for k in range(prefixes))
    models = "<model name='q' file='part.xml'/>"
    text = f"<mujoco><asset>{models}</asset><worldbody>{REPLICATED.format(copies, attach)}</worldbody></mujoco>"
    path = write(tmp_path / "a.xml", text)
    assert ds.load(path).nv == 6 * prefixes * copies
    with pytest.raises(ModelError, match="written out"):
        ds.load(path, max_bytes=prefixes * 1e6)  # the textures alone are more


def test_models_that_attach_each_other_twice_and_twice_again(tmp_path):
    """A billion bodies out of thirty files, and a chain of files that is too long for a recursion."""
    for k in range(30):
        attach = ATTACH + ATTACH.replace("'q'", "'p'").replace("'x'", "'y'")
        write(
            tmp_path / f"m{k}.xml", ATTACHING.format(f"<model name='p' file='m{k + 1}.xml'/>", f"m{k + 1}.xml", attach)
        )
        write(tmp_path / f"n{k}.xml", ATTACHING.format("", f"n{k + 1}.xml", ATTACH))
    for name in ("m30.xml", "n30.xml"):
        write(tmp_path / name, mjcf("<body name='b'><joint/><geom size='0.1'/></body>"))
    with pytest.raises(ModelError, match="written out: expected at most"):
        ds.load(tmp_path / "m15.xml")
    with pytest.raises(ModelError, match="nested at most 20 deep"):
        ds.load(tmp_path / "n0.xml")
    assert ds.load(tmp_path / "n15.xml").nv == 16


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes")
@pytest.mark.parametrize(
    "inside",
    [
        "<include file='{}'/>",
        "<asset><model file='{}'/></asset>",
        "<asset><hfield name='h' size='1 1 1 1' file='{}'/></asset>",
        "<asset><texture type='2d' file='{}'/></asset>",
        "<asset><texture type='cube' fileup='{}'/></asset>",
        "<asset><mesh file='{}'/></asset>",
        "<compiler assetdir='folder'/><asset><mesh file='../{}'/></asset>",
        "<compiler strippath='true'/><asset><mesh file='nowhere/{}'/></asset>",
        "<deformable><skin file='{}'/></deformable>",
        "<worldbody><flexcomp name='f' type='gmsh' file='{}'/></worldbody>",
    ],
)
@pytest.mark.parametrize("kind", ["pipe", "device", "sparse file"])
def test_files_that_cannot_be_read_to_their_end(tmp_path, inside, kind):
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "folder").mkdir()
    (tmp_path / "device.png").symlink_to("/dev/zero")
    with (tmp_path / "sparse.png").open("wb") as file:
        file.truncate(10**11)
    text = f"<mujoco>{inside.format(kind.split()[0] + '.png')}</mujoco>"
    expected = "at most 1e\\+08 bytes" if kind == "sparse file" else "a regular file"
    with pytest.raises(ModelError, match=f"{kind.split()[0]}.png'?: expected {expected}"):
        ds.load(write(tmp_path / "case.xml", text))


def test_a_picture_that_unpacks_to_more_than_memory(tmp_path):
    size = (10**6).to_bytes(4, "big")
    (tmp_path / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + size + size + b"\x08\6\0\0\0")
    with pytest.raises(ModelError, match="written out: expected at most"):
        ds.load(write(tmp_path / "case.xml", "<mujoco><asset><texture type='2d' file='bomb.png'/></asset></mujoco>"))


@pytest.mark.parametrize("suffix", [".xml", ".mjcf"])
def test_mujoco_writes_no_log(tmp_path, monkeypatch, suffix):
    """Its warnings become Python's; the user's own handler is left in place."""
    monkeypatch.chdir(tmp_path)
    said = []
    mujoco.set_mju_user_warning(said.append)
    try:
        with pytest.warns(UserWarning, match="MuJoCo, case.*NaN") as caught:
            ds.load(write(tmp_path / f"case{suffix}", "<mujoco><option timestep='nan'/><worldbody/></mujoco>"))
        assert len(caught) == 1 and caught[0].filename == __file__
        with pytest.raises(ModelError):
            ds.load(write(tmp_path / f"case{suffix}", "<mujoco><size memory='900000G'/><worldbody/></mujoco>"))
        assert mujoco.get_mju_user_warning() is not None and not said
    finally:
        mujoco.set_mju_user_warning(None)
    assert [path.name for path in tmp_path.iterdir()] == [f"case{suffix}"]


def test_muscles_are_not_simulated(tmp_path):
    """MuJoCo finds ranges of lengths by simulation, which here would take hours."""
    text = """<mujoco><compiler><lengthrange inttotal="1e9"/></compiler>
    <worldbody><body><joint name="j" range="-1 1" limited="true"/><geom size="0.1"/></body></worldbody>
    <actuator><muscle joint="j"/></actuator></mujoco>"""
    assert ds.load(write(tmp_path / "case.xml", text)).nv == 1


def test_without_mujoco(monkeypatch, tmp_path):
    path = write(tmp_path / "good.xml", mjcf(""))
    model = mujoco.MjModel.from_xml_path(str(path))
    monkeypatch.setitem(sys.modules, "mujoco", None)
    for call in (lambda: ds.load(path), lambda: tree_from_mujoco(model)):
        with pytest.raises(MissingDependencyError, match=r"pip install 'delassus\[mjcf\]'"):
            call()


def test_states_that_are_refused():
    tree = tree_from_mujoco(compile_case("free joints with armature"))
    qpos = configuration_to_mujoco(tree, tree.random(0))
    for bad, message in (
        (qpos[:-1], r"qpos: expected shape \(\.\.\., 16\)"),
        (np.where(np.arange(16) == 2, np.nan, qpos), "qpos: expected finite numbers"),
        (np.where((np.arange(16) > 2) & (np.arange(16) < 7), 0.0, qpos), "qpos, the quaternion of joint 'joint0'"),
        ("here", "qpos: expected an array of real numbers"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            configuration_from_mujoco(tree, bad)
    with pytest.raises(ConfigurationError, match=r"qvel: expected shape \(\.\.\., 14\)"):
        velocity_from_mujoco(tree, qpos, np.zeros(13))
    with pytest.raises(ConfigurationError, match="the quaternion of joint 'joint0'"):
        configuration_to_mujoco(tree, 2 * tree.neutral())
    with pytest.raises(ConfigurationError, match=r"v: expected shape"):
        velocity_to_mujoco(tree, tree.neutral(), np.zeros(13))


def test_quaternions_of_any_length():
    tree = tree_from_mujoco(compile_case("ball joints"))
    model, rng = compile_case("ball joints"), np.random.default_rng(0)
    qpos = rng.normal(size=model.nq)
    before = qpos.copy()
    q = configuration_from_mujoco(tree, qpos)
    assert np.array_equal(qpos, before)  # the caller's array stays as it is
    peer = Peer(model, qpos)
    for name in body_names(model):
        R, p = frame_pose(tree, name, q)
        expected_R, expected_p = peer.pose(name)
        assert error(R, expected_R) < KINEMATICS and np.max(np.abs(p - expected_p)) < KINEMATICS


def test_joints_that_mujoco_does_not_know():
    for kind in (joint_kinds.COS_SIN, joint_kinds.PLANAR, joint_kinds.TRANSLATION):
        links = [RawLink("base"), RawLink("a", 1.0, np.ones(3), np.eye(3))]
        tree = build_tree("odd", links, [RawJoint("j", kind, "base", "a")])
        q, v = tree.neutral(), np.zeros(tree.nv)
        for convert in (configuration_from_mujoco, configuration_to_mujoco, velocity_map_from_mujoco):
            with pytest.raises(ModelError, match=f"joint 'j'.*{kind.name}"):
                convert(tree, q)
        for convert in (velocity_from_mujoco, velocity_to_mujoco):
            with pytest.raises(ModelError, match=f"joint 'j'.*{kind.name}"):
                convert(tree, q, v)


def test_batches():
    tree, rng = tree_from_mujoco(compile_case("free joints with armature")), np.random.default_rng(0)
    q, qvel = tree.random(rng, batch=(3, 1)), rng.normal(size=(4, tree.nv))
    qpos = configuration_to_mujoco(tree, q)
    v = velocity_from_mujoco(tree, qpos, qvel)
    T = velocity_map_from_mujoco(tree, q)
    assert qpos.shape == q.shape and v.shape == (3, 4, tree.nv) and T.shape == (3, 1, tree.nv, tree.nv)
    for i in range(3):
        for j in range(4):
            assert error(velocity_from_mujoco(tree, qpos[i, 0], qvel[j]), v[i, j]) < STATE
    assert error(velocity_to_mujoco(tree, q, v), np.broadcast_to(qvel, v.shape)) < STATE
