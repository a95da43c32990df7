"""`Tree.to_urdf` and `Tree.to_mjcf`: reading back gives the same tree; Pinocchio and MuJoCo give the same dynamics."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus.errors import DelassusWarning, ModelError
from delassus.formats.text import tidy
from internals import (
    PER_DOF,
    Actuator,
    RawJoint,
    RawLink,
    build_tree,
    joint_kinds,
    rotation_from_rpy,
    rpy_from_rotation,
    tree_to_pinocchio,
)
from pinocchio_models import FILES, SIMPLE, pin, random_model
from random_trees import some_mechanism
from tools import ROUND_OFF, error, frame_pose, random_frame, random_rotation

mujoco = pytest.importorskip("mujoco")

SAME = 1e-12
"""Accelerations of a tree that was written and read: round-off times the condition of the mass matrix."""

SAME_MOTION = 1e-9
"""Mass matrices, bias and gravity of one robot in several formats."""

IN_URDF = (
    joint_kinds.REVOLUTE,
    joint_kinds.REVOLUTE,
    joint_kinds.PRISMATIC,
    joint_kinds.PLANAR,
    joint_kinds.FREE,
    None,
)
IN_MJCF = (joint_kinds.REVOLUTE, joint_kinds.REVOLUTE, joint_kinds.PRISMATIC, joint_kinds.BALL, None)


pytestmark = [pytest.mark.peer, pytest.mark.usefixtures("elsewhere")]


def read(tmp_path, text, **given):
    """The tree of a file, and the same of its text, after a byte order mark, and of a specification of MuJoCo."""
    is_urdf = text.startswith("<robot")
    path = tmp_path / ("robot.urdf" if is_urdf else "robot.xml")
    path.write_text(text)
    tree = ds.load(path, **given)
    others = [f"\ufeff \n{text}"] if is_urdf else [f"\n{text}", mujoco.MjSpec.from_string(text)]
    for other in others:
        again = ds.load(other, **given)
        assert (again.name, again.fingerprint) == (tree.name, tree.fingerprint)
        assert all(np.array_equal(again.per_dof(x), tree.per_dof(x)) for x in PER_DOF)
    return tree


def quietly(write):
    """What a writer makes, without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return write()


def assert_same(tree, back, but=()):
    """Names, layout, numbers, frames and accelerations; ``but``: attributes that the format cannot say."""
    for attribute in ("name", "link_names", "joint_names", "parents", "q_slices", "v_slices"):
        if attribute not in but:
            assert getattr(back, attribute) == getattr(tree, attribute), attribute
    for name in tree.joint_names:
        a, b = (t.joints[t.joint_names.index(name)] for t in (tree, back))
        assert a.kind is b.kind, name
        for attribute in set(PER_DOF) - set(but):
            assert np.array_equal(getattr(a, attribute), getattr(b, attribute)), (name, attribute)
    assert set(tree.frames) <= set(back.frames)
    q, v, tau = tree.random(1), np.linspace(-1, 1, tree.nv), np.linspace(2, -1, tree.nv)
    own = [reordered(tree, back, x, index) for x, index in ((q, "q_index"), (v, "v_index"), (tau, "v_index"))]
    for name in tree.frames:
        (R, p), (S, s) = frame_pose(tree, name, q), frame_pose(back, name, own[0])
        assert np.max(np.abs(R - S)) < ROUND_OFF and error(s, p) < ROUND_OFF, name
    assert error(back.world_inertia, tree.world_inertia) < ROUND_OFF
    if "gravity" not in but:
        assert np.array_equal(back.gravity, tree.gravity)
    assert sum(c.size for c in back.constraints) == sum(c.size for c in tree.constraints)
    passive = "none" if {"gravity", "stiffness", "armature"} & set(but) else "model"
    if tree.nv and "armature" not in but:
        method = "pv-early" if tree.constraints else None  # which loses the fewest digits
        expected = ds.forward_dynamics(tree, q, v, tau, passive=passive, method=method).qdd
        found = ds.forward_dynamics(back, *own, passive=passive, method=method).qdd
        assert error(found, reordered(tree, back, expected, "v_index")) < SAME


def reordered(tree, back, x, index):
    """A vector of one tree as one of another, with the same joints at other places."""
    return np.concatenate([np.zeros(0), *(x[..., getattr(tree, index)(joint)] for joint in back.joint_names)])


def as_urdf(tmp_path, tree, **given):
    """Written without a warning, and read."""
    return read(tmp_path, quietly(tree.to_urdf), **given)


def as_mjcf(tmp_path, tree, **given):
    return read(tmp_path, quietly(tree.to_mjcf), **given)


# -- URDF ----------------------------------------------------------------------------------------------------------

ROBOTS = {
    "a1_description/urdf/a1.urdf": "floating",
    "talos_data/robots/talos_reduced.urdf": "floating",
    "centauro_description/urdf/centauro.urdf": "fixed",  # children of fixed links, out of the order of their names
    "double_pendulum_description/urdf/double_pendulum_continuous.urdf": "fixed",
    "ur_description/urdf/ur5_gripper.urdf": "fixed",
}


def loaded(name, **options):
    """A robot without the configurations of its SRDF file, which are no part of URDF."""
    return replace(ds.load(FILES[name], **options), keyframes={})


@pytest.mark.parametrize("name", ROBOTS)
def test_urdf_files(tmp_path, name):
    tree = loaded(name, root=ROBOTS[name], unsupported="ignore")
    back = as_urdf(tmp_path, tree)
    assert_same(tree, back)
    if "centauro" not in name:  # for which one fixed link more is needed
        assert {*back.frames} == {*tree.frames}


@pytest.mark.parametrize("name", ROBOTS)
def test_pinocchio_reads_urdf(tmp_path, name):
    tree = loaded(name, root=ROBOTS[name], continuous="cos-sin", unsupported="ignore")
    model = pin.buildModelFromXML(quietly(tree.to_urdf))
    data, rng = model.createData(), np.random.default_rng(0)
    assert [*model.names][1:] == [*tree.joint_names]
    if "centauro" in name:  # whose wheels, without limits, are written as continuous joints
        tree = as_urdf(tmp_path, tree, continuous="cos-sin")
    q, v, a = tree.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    M = np.triu(pin.crba(model, data, q))
    assert error(M, np.triu(ds.mass_matrix(tree, q))) < ROUND_OFF
    tau = ds.inverse_dynamics(tree, q, v, a, passive="none")
    assert error(pin.rnea(model, data, q, v, a), tau) < 10 * ROUND_OFF


def sprung(tree, **attributes):
    """The same with other numbers of its joints."""
    return replace(tree, joints=tuple(replace(j, **{k: f(j) for k, f in attributes.items()}) for j in tree.joints))


@pytest.mark.parametrize("seed", range(4))
def test_random_mechanisms_as_urdf(tmp_path, seed):
    mechanism = some_mechanism(seed, 8, ["fixed", "floating"][seed % 2], IN_URDF)
    joints = [replace(j, armature=0.0, damping=0.1 * k, friction=0.2 * k) for k, j in enumerate(mechanism.joints)]
    joints = [replace(j, lower=-1.0, effort_limit=7.0) if j.kind in IN_URDF[:3] else j for j in joints]
    rng = np.random.default_rng(seed)
    beside = {
        joint_kinds.PRISMATIC: lambda j: rng.normal(size=3),
        joint_kinds.REVOLUTE: lambda j: rng.normal() * j.axis,
    }
    joints = [replace(j, child_position=beside[j.kind](j)) if j.kind in beside else j for j in joints]
    names = rng.permutation(20)  # out of their order
    joints = [replace(j, name=f"j{n}") for j, n in zip(joints, names[: len(joints)], strict=True)]
    light = [RawLink(x.name, x.mass or 1.0, x.com, x.inertia + 0.01 * np.eye(3)) for x in mechanism.links]
    tree = build_tree("a robot", light, joints, root=["fixed", "floating"][seed % 2])
    assert_same(tree, as_urdf(tmp_path, tree))


def test_kinds_of_angles(tmp_path):
    """Where one joint has a cosine and a sine, unlimited angles are not of type continuous."""
    angle, both = (
        build_tree(
            "two",
            [RawLink("base"), *(RawLink(x, 1.0, np.ones(3), np.eye(3)) for x in "ab")],
            [RawJoint("a", joint_kinds.REVOLUTE, "base", "a"), RawJoint("b", kind, "a", "b")],
        )
        for kind in (joint_kinds.REVOLUTE, joint_kinds.COS_SIN)
    )
    assert angle.to_urdf().count('"continuous"') == 2
    assert both.to_urdf().count('"continuous"') == 1
    assert_same(angle, as_urdf(tmp_path, angle))
    assert_same(both, as_urdf(tmp_path, both, continuous="cos-sin"))


def test_what_urdf_cannot_say():
    bodies = [RawLink("base"), *(RawLink(x, 1.0, np.ones(3), np.eye(3)) for x in "ab")]
    first = RawJoint("first", joint_kinds.REVOLUTE, "base", "a", armature=1.0, stiffness=2.0, child_position=np.ones(3))
    second = RawJoint("second", joint_kinds.PLANAR, "a", "b", damping=np.array([1.0, 1.0, 2.0]), effort_limit=1.0)
    tree = replace(
        build_tree("robot", bodies, [first, second]), gravity=np.zeros(3),
        actuators=(Actuator("motor", {"first": 1.0}),), keyframes={"home": np.zeros(5)},
    )  # fmt: skip
    expected = (
        r"as URDF: not represented: 1 links whose frames are not at their joints, which become frames \(a\); "
        r"1 armature of joints \(first\); 1 springs of joints \(first\); 1 effort and velocity limits of "
        r"planar and free joints \(second\); 1 armature, damping, friction or stiffness that differs between degrees "
        r"of freedom \(second\); "
        r"1 gravity \(0 0 0\); 1 keyframes \(home\); 1 actuators \(motor\)\."
    )
    with pytest.warns(DelassusWarning, match=expected):
        text = tree.to_urdf()
    assert quietly(lambda: tree.to_urdf(unsupported="ignore")) == text
    with pytest.raises(ModelError, match="expected nothing that URDF does not hold, got 1 links"):
        tree.to_urdf(unsupported="refuse")
    with pytest.raises(ModelError, match="unsupported: expected 'warn', 'refuse' or 'ignore', got 'x'"):
        tree.to_urdf(unsupported="x")


# -- MJCF ----------------------------------------------------------------------------------------------------------


def shipped(name):
    from test_mujoco import FILES as SHIPPED

    if name not in SHIPPED:
        pytest.skip("not installed")
    return SHIPPED[name]


MODELS = (
    "dm_control/suite/cheetah.xml",
    "dm_control/suite/quadruped.xml",  # couplings of three joints
    "dm_control/third_party/kinova/jaco_hand.xml",  # static bodies with mass
    "dm_control/third_party/kinova/jaco_arm.xml",
    "gymnasium/envs/mujoco/assets/humanoid.xml",
    "gymnasium_robotics/envs/assets/hand/reach.xml",
)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.filterwarnings("ignore:.*not represented:delassus.DelassusWarning")
def test_mjcf_files(tmp_path, name):
    """Reading back gives the same tree, and MuJoCo the mass matrix and the bias that it has of the file."""
    tree = ds.load(shipped(name), unsupported="ignore")
    tree = replace(tree, sensors=[sensor for sensor in tree.sensors if sensor.kind != "touch"])
    text = quietly(tree.to_mjcf)
    back = read(tmp_path, text)
    assert_same(tree, back)
    assert [(x.name, x.kind) for x in back.sensors] == [(x.name, x.kind) for x in tree.sensors]
    state = tree.random(0), *np.random.default_rng(1).normal(size=(2, tree.nv))
    for a, b in zip(*(ds.sensors(x, *state).values() for x in (tree, back)), strict=True) if tree.sensors else ():
        assert error(a, b) < 1e-9
    assert {*back.frames} == {*tree.frames} and not back.omitted
    for a, b in zip(tree.actuators, back.actuators, strict=True):
        assert a.__reduce__() == b.__reduce__()
    assert {*back.reference_configurations} == {*tree.reference_configurations}
    for key, q in tree.reference_configurations.items():
        assert error(back.reference_configurations[key], q) < ROUND_OFF
    rng = np.random.default_rng(0)
    states = [*np.split(rng.normal(size=2 * tree.nv), 2)]
    found, expected = (
        dynamics_of(model, *states)
        for model in (mujoco.MjModel.from_xml_string(text), mujoco.MjModel.from_xml_path(str(shipped(name))))
    )
    for a, b in zip(found, expected, strict=True):
        assert error(a, b) < 1e-10  # quarter turns that a file writes to eleven digits are read as exact here


def dynamics_of(model, step, v):
    """MuJoCo's mass matrix and bias force, a step away from ``qpos0``."""
    data = mujoco.MjData(model)
    mujoco.mj_integratePos(model, data.qpos, step, 1.0)
    data.qvel[:] = v
    mujoco.mj_forward(model, data)
    M = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, M)
    return M, np.array(data.qfrc_bias)


@pytest.mark.parametrize(
    "name, root", [("a1_description/urdf/a1.urdf", "floating"), ("ur_description/urdf/ur5_robot.urdf", "fixed")]
)
def test_urdf_files_as_mjcf(tmp_path, name, root):
    tree = sprung(ds.load(FILES[name], root=root), velocity_limit=lambda j: j.velocity_limit + np.inf)
    back = as_mjcf(tmp_path, tree)
    assert_same(tree, back)
    assert np.array_equal(back.reference_configurations["qpos0"], tree.neutral())  # MuJoCo always has it
    model = mujoco.MjModel.from_xml_string(tree.to_mjcf())
    q = tree.neutral() if root == "floating" else np.zeros(tree.nq)
    M, bias = dynamics_of(model, np.zeros(tree.nv), np.zeros(tree.nv))
    assert error(M, ds.mass_matrix(tree, q)) < ROUND_OFF
    assert error(bias, ds.bias_force(tree, q, np.zeros(tree.nv))) < 10 * ROUND_OFF


@pytest.mark.parametrize("seed", range(4))
def test_random_mechanisms_as_mjcf(tmp_path, seed):
    root = ["fixed", "floating"][seed % 2]
    mechanism = some_mechanism(seed, 8, root, IN_MJCF)
    rng = np.random.default_rng(seed)
    joints = [replace(j, armature=0.1, damping=0.1, friction=0.2) for j in mechanism.joints]
    joints = [
        replace(j, lower=-1.0, upper=np.inf, stiffness=3.0, rest_position=0.3, effort_limit=7.0)
        if j.kind in (joint_kinds.REVOLUTE, joint_kinds.PRISMATIC)
        else replace(j, stiffness=2.0 * (j.kind is joint_kinds.BALL))
        for j in joints
    ]  # fmt: skip
    joints = [replace(j, child_position=rng.normal(size=3)) for j in joints]
    light = [RawLink(x.name, x.mass or 1.0, x.com, x.inertia + 0.01 * np.eye(3)) for x in mechanism.links]
    tree = build_tree("a robot", light, joints, root=root)
    q0 = tree.random(rng)
    for joint, part in zip(tree.joints, tree.q_slices, strict=True):
        if joint.kind is joint_kinds.BALL:
            q0[part] = joint.kind.neutral  # which MuJoCo always starts from
    motors = [Actuator(f"m{k}", {j.name: 2.0}) for k, j in enumerate(tree.joints) if j.nv == 1]
    tree = replace(
        tree, gravity=np.array([1.0, 2.0, 3.0]), actuators=tuple(motors),
        keyframes={"qpos0": q0, "home": tree.random(rng)},
    )  # fmt: skip
    moving = replace(tree.keyframes["home"], v=rng.normal(size=tree.nv), ctrl=rng.normal(size=tree.nu))
    tree = replace(tree, keyframes={**tree.keyframes, "home": moving})
    back = as_mjcf(tmp_path, tree)
    assert_same(tree, back)
    for key in ("qpos0", "home"):
        turn = tree.difference(back.reference_configurations[key], tree.reference_configurations[key])
        assert np.max(np.abs(turn)) < ROUND_OFF
        assert error(back.keyframes[key].v, tree.keyframes[key].v) < ROUND_OFF
        assert np.array_equal(back.keyframes[key].ctrl, tree.keyframes[key].ctrl)


def test_links_without_mass(tmp_path):
    """They become joints of the body that they carry, and come back where they have the names that `load` gives."""
    text = """<mujoco model="m"><worldbody><body name="b" pos="1 2 3" quat="1 2 3 4">
        <joint name="x" type="slide" axis="1 2 3" ref="0.3"/><joint name="y" axis="0 1 1" pos=".1 .2 .3" ref="20"/>
        <joint name="z" type="ball" pos="0 .1 0"/><inertial pos="0 0 .1" mass="2" diaginertia="1 2 2.5"/>
        <site name="tip" pos="0 0 1"/></body></worldbody></mujoco>"""
    tree = read(tmp_path, text)
    assert tree.link_names == ("b:x", "b:y", "b")
    assert_same(tree, as_mjcf(tmp_path, tree))
    renamed = replace(tree, link_names=("b1", "b2", "b"), frames={
        {"b:x": "b1", "b:y": "b2"}.get(name, name): at for name, at in tree.frames.items()
    })  # fmt: skip
    with pytest.warns(DelassusWarning, match=r"2 frames of links without mass \(b1, b2\)"):
        back = read(tmp_path, renamed.to_mjcf())
    assert_same(tree, back)


def test_what_mjcf_cannot_say(tmp_path):
    bodies = [RawLink("base"), *(RawLink(x, 1.0, np.ones(3), np.eye(3)) for x in "ab")]
    first = RawJoint("first", joint_kinds.REVOLUTE, "base", "a", lower=0.0, upper=0.0, velocity_limit=3.0)
    second = RawJoint("second", joint_kinds.BALL, "a", "b", damping=np.array([1.0, 1.0, 2.0]), effort_limit=1.0)
    bodies[2] = RawLink("b", 1.0, np.ones(3), np.diag([1.0, 2.0, 3.1]))
    with pytest.warns(DelassusWarning, match="breaks the triangle inequality"):
        tree = build_tree("robot", bodies, [first, second])
    motor = Actuator("motor", {"first": 1.0}, control_range=(0.0, 0.0))
    tree = replace(tree, actuators=(motor,), keyframes={"qpos0": np.array([0.1, 0.6, 0.0, 0.0, 0.8])})
    expected = (
        r"as MJCF: not represented: 1 velocity limits of joints \(first\); 1 ranges of joints that are empty, or of "
        r"ball and free joints \(first\); 1 effort limits of zero, or of ball and free joints \(second\); 1 armature, "
        r"damping, friction or stiffness that differs between degrees of freedom \(second\); 1 turns of ball joints at "
        r"qpos0 \(second\); 1 ranges of actuators that are empty \(motor\); 1 inertias that no rigid body can have, in "
    )
    with pytest.warns(DelassusWarning, match=expected):
        text = tree.to_mjcf()
    assert mujoco.MjModel.from_xml_string(text).nq == 5


RODS = RawLink("a", 1.0, np.zeros(3), np.diag([0.0, 1.0, 1.0]))
BODY = RawLink("a", 1.0, np.zeros(3), np.eye(3))


@pytest.mark.parametrize(
    "write, link, joint, match",
    [
        ("to_urdf", BODY, RawJoint("j", joint_kinds.BALL, "base", "a"), "joint 'j': expected a joint among .* a ball"),
        ("to_urdf", BODY, RawJoint("j", joint_kinds.TRANSLATION, "base", "a"), "a translation joint"),
        ("to_urdf", BODY, RawJoint("", joint_kinds.REVOLUTE, "base", "a"), "name of a <joint>: expected text"),
        ("to_mjcf", BODY, RawJoint("j", joint_kinds.PLANAR, "base", "a"), "a planar joint"),
        ("to_mjcf", BODY, RawJoint("j", joint_kinds.COS_SIN, "base", "a"), "a cos-sin joint"),
        ("to_mjcf", BODY, RawJoint("j", joint_kinds.FREE, "base", "a", position=np.ones(3)), "free joint whose frame"),
        ("to_mjcf", RODS, RawJoint("j", joint_kinds.REVOLUTE, "base", "a", axis=np.eye(3)[1]), "link 'a': expected a"),
        ("to_mjcf", replace(BODY, name="world"), RawJoint("j", joint_kinds.REVOLUTE, "base", "world"), "frame 'world'"),
    ],
)  # fmt: skip
def test_what_is_refused(write, link, joint, match):
    tree = build_tree("robot", [RawLink("base"), link], [joint])
    with pytest.raises(ModelError, match=match):
        getattr(tree, write)()


def test_long_chains():
    chain = ds.mechanisms.chain(1001)
    assert chain.to_urdf().count("<joint") == 1001
    with pytest.raises(ModelError, match="nested less than 1000 deep"):
        chain.to_mjcf()


# -- constraints ---------------------------------------------------------------------------------------------------


def test_mimic_joints(tmp_path):
    tree = loaded("panda_description/urdf/panda.urdf")
    assert len(tree.constraints) == 1
    back = as_urdf(tmp_path, tree)
    assert_same(tree, back)
    assert [c.fingerprint for c in back.constraints] == [c.fingerprint for c in tree.constraints]
    rows = [
        ds.JointRows({"link1_joint": 2.0, "link2_joint": -1.0}, rest=0.5),
        ds.JointRows({"link1_joint": 1.0, "link3_joint": 3.0}),
    ]
    chain = replace(ds.mechanisms.chain(3), constraints=tuple(rows))
    back = as_urdf(tmp_path, chain)  # a joint follows one other at most: the second row is read as link3 = −1/3 link1
    assert_same(chain, back)
    assert [dict(row) for c in back.constraints for row in c.rows][1] == {"link3_joint": 1.0, "link1_joint": 1 / 3}
    closed = replace(chain, constraints=(ds.Point("link3"), ds.JointRows({"link1_joint": 1.0})))
    with pytest.warns(
        DelassusWarning, match=r"2 constraints \(Point\('link3', 3 rows\), JointRows\('link1_joint', 1 rows\)\)"
    ):
        closed.to_urdf()


def test_loops_as_mjcf(tmp_path):
    """Loops, closed at ``qpos0`` or not, of links and frames, to the world too; couplings of any number of joints."""
    rng = np.random.default_rng(0)
    chain, hand = ds.mechanisms.chain(5), ds.mechanisms.chain(2)
    tree = chain.attach("link5", hand, (0.1, 0, 0), prefix="x/")
    a, b, c = (ds.Frame(link, rng.normal(size=3), random_rotation(rng)) for link in ("link2", "x/link1", "world"))
    names = tree.joint_names
    rows = [{names[0]: 2.0}, {names[1]: 2.0, names[3]: -1.0}, {names[0]: 1.0, names[2]: 2.0, names[4]: -1.0}]
    sets = [
        (ds.Weld(a, b),), (ds.Point(a, b),), (ds.Weld(b, c),), (ds.Point(b),), (ds.Weld(a),), (ds.Point("link4", b),),
        (ds.JointRows(rows, rest=[0.1, 0.2, 0.3]), ds.Point(a, b)),
    ]  # fmt: skip
    start = tree.random(rng)
    for constraints in sets:
        held = replace(tree, constraints=constraints, keyframes={"qpos0": start})
        back = as_mjcf(tmp_path, held)
        assert_same(held, back)
        q = tree.random(rng)
        given = {"baumgarte": 10.0} if all(len(c.frames) == 2 or not c.frames for c in constraints) else {}
        expected, found = (ds.forward_dynamics(t, q, q, q, **given).qdd for t in (held, back))
        assert error(found, expected) < 1e-9
    other = replace(tree, constraints=(ds.Hinge("link3"), ds.Distance("link4", "link2"), ds.CenterOfMass()))
    with pytest.warns(DelassusWarning, match=r"3 constraints \(Hinge\('link3', 5 rows\), Distance"):
        other.to_mjcf()


@pytest.mark.peer
def test_springs_are_tendons_between_sites(tmp_path):
    """Of links, the world, and places that frames have: MuJoCo's forces at rest are theirs; read again, alike."""
    mujoco = pytest.importorskip("mujoco")
    rng = np.random.default_rng(0)
    tree = ds.mechanisms.star(2, 3, root="fixed").attach(
        "branch2_3", ds.mechanisms.chain(1), (0.1, 0.2, 0.0), prefix="p_"
    )
    ends = [random_frame(rng, name) for name in ("branch1_3", "world", "branch2_2")]
    springs = (
        ds.SpringDamper(ends[0], ends[1], 200.0, 3.0, length=0.4),
        ds.SpringDamper(ends[2], ends[0], 90.0, length=0.1),
        ds.SpringDamper("branch2_1", ds.Frame("p_link1", (0.1, 0, 0)), 0.0, 2.0),
    )
    tree = replace(tree, constraints=(*springs, ds.Point("branch1_3", "branch2_3")))
    model = mujoco.MjModel.from_xml_string(tree.to_mjcf())
    data, back = mujoco.MjData(model), as_mjcf(tmp_path, tree)
    numbers = [[c.along_line(robot) for c in of] for robot, of in ((back, back.constraints[1:]), (tree, springs))]
    np.testing.assert_allclose(*numbers, rtol=1e-12)
    q = tree.random(rng)
    data.qpos[:] = q
    mujoco.mj_forward(model, data)
    energy = lambda x: sum(c.energy(tree, x) for c in springs)  # noqa: E731
    at = 1e-5 * np.eye(tree.nv)
    force = [(energy(q - x) - energy(q + x)) / 2e-5 for x in at]
    np.testing.assert_allclose(data.qfrc_passive, force, atol=1e-6 * np.abs(force).max())
    again = as_mjcf(tmp_path, back)
    assert again.frames.keys() == back.frames.keys() and again.constraints == back.constraints
    with pytest.warns(DelassusWarning, match=r"1 constraints? \(Bushing"):
        replace(tree, constraints=(ds.Bushing("branch1_2", "world", np.ones(6)),)).to_mjcf()


# -- trees made of others, and names -------------------------------------------------------------------------------


SINGLE = (joint_kinds.REVOLUTE, joint_kinds.PRISMATIC)
WRITERS = {
    "to_urdf": (*SINGLE, joint_kinds.PLANAR),
    "to_sdf": (*SINGLE, joint_kinds.PLANAR, joint_kinds.BALL, joint_kinds.SCREW),
    "to_mjcf": (*SINGLE, joint_kinds.BALL),
    "to_usd": (*SINGLE, joint_kinds.PLANAR, joint_kinds.BALL),
}
"""Writers of formats that are read, and the joints that these have."""


@pytest.mark.parametrize("second", WRITERS)
@pytest.mark.parametrize("first", WRITERS)
def test_one_robot_in_every_format(first, second):
    """Written in one format, read, written in another and read: same mass matrix, bias, gravity, and coupling."""
    seed = len(WRITERS) * [*WRITERS].index(first) + [*WRITERS].index(second)
    kinds = [kind for kind in WRITERS[first] if kind in WRITERS[second]]
    m = some_mechanism(seed, 6, ("fixed", "floating")[seed % 2], (*kinds, joint_kinds.PRISMATIC, None))
    links = [RawLink(x.name, x.mass or 1.0, x.com, x.inertia + 0.01 * np.eye(3)) for x in m.links]
    joints = [replace(j, armature=0.0, damping=0.3 * (j.kind in kinds[:1])) for j in m.joints]
    tree = build_tree("r", links, joints, root=("fixed", "floating")[seed % 2])
    single = [j.name for j in tree.joints if j.nv == 1]
    row = (ds.JointRows({single[-1]: 1.0, single[0]: -2.0}, rest=0.3),) if len(single) > 1 else ()
    back = tree = replace(tree, constraints=row)
    for form in (first, second):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DelassusWarning)  # places in q and v
            back = ds.load(getattr(back, form)())
    q, v = tree.random(seed), np.linspace(-1.0, 1.0, tree.nv)
    own = [reordered(tree, back, x, index) for x, index in ((q, "q_index"), (v, "v_index"))]
    at = reordered(tree, back, np.arange(tree.nv), "v_index").astype(int)
    assert {*back.joint_names} == {*tree.joint_names} and len(back.constraints) == len(row)
    assert error(ds.mass_matrix(back, own[0]), ds.mass_matrix(tree, q)[np.ix_(at, at)]) < SAME_MOTION
    for speed in (1.0, 0.0):
        found = ds.bias_force(back, own[0], speed * own[1])
        assert error(found, ds.bias_force(tree, q, speed * v)[at]) < SAME_MOTION
    for constraint in row:
        rows = ds.jacobian(back, back.constraints, own[0]), ds.jacobian(tree, constraint, q)[:, at]
        assert np.linalg.matrix_rank(np.vstack(rows), 1e-9) == 1


@pytest.mark.parametrize("form", ["to_mjcf", "to_sdf", "to_usd"])
def test_frames_of_the_world_stay(form):
    """Where no link stands on the world, too: they do not move with the first one."""
    body = ds.mechanisms.free_body(2.0, [0.1, 0.2, 0.3])
    turned = random_rotation(np.random.default_rng(0))
    mark = replace(body.placement("world"), rotation=turned, position=np.array([1.0, 2.0, 3.0]))
    tree = replace(body, frames={**body.frames, "mark": mark})
    again, q = ds.load(getattr(tree, form)(unsupported="ignore")), tree.random(0)
    assert again.placement("mark").link == -1
    for frame in ("mark", *tree.link_names):
        poses = (ds.forward_kinematics(x, q, [frame]) for x in (tree, again))
        for own, other in zip(*poses, strict=True):
            np.testing.assert_allclose(own, other, atol=1e-12)


@pytest.mark.parametrize("form", ["to_urdf", "to_mjcf"])
def test_attached_trees(tmp_path, form):
    robot, hand = ds.mechanisms.humanoid(), ds.mechanisms.chain(3)
    at_the_end = ds.mechanisms.chain(4).attach(
        "link4", hand, (0.1, 0, 0), random_rotation(np.random.default_rng(0)), "x/"
    )
    assert_same(at_the_end, read(tmp_path, quietly(getattr(at_the_end, form))))
    amid = robot.attach("left_hand", hand, (0.1, 0, 0), prefix="x/")
    with pytest.warns(DelassusWarning, match="joints that get other places"):
        back = read(tmp_path, getattr(amid, form)())
    assert sorted(back.joint_names) == sorted(amid.joint_names)
    assert_same(amid, back, but=("joint_names", "link_names", "parents", "q_slices", "v_slices"))


@pytest.mark.parametrize("form", ["to_urdf", "to_mjcf"])
def test_other_roots(tmp_path, form):
    tree = ds.mechanisms.humanoid().reroot("left_foot")
    with pytest.warns(DelassusWarning, match="which become frames"):
        back = read(tmp_path, getattr(tree, form)())
    assert_same(tree, back, but=("link_names",))


NAMES = ("a\"b'<&>", "日本語 é", "  two  spaces ", "]]>&amp;", "-->", "\U0001f600")


@pytest.mark.parametrize("form", ["to_urdf", "to_mjcf"])
@pytest.mark.parametrize("name", NAMES)
def test_hostile_names(tmp_path, form, name):
    links = [RawLink(f"{name}0"), *(RawLink(f"{name}{k}", 1.0, np.ones(3), np.eye(3)) for k in (1, 2)), RawLink(name)]
    joints = [RawJoint(f"{name}j{k}", joint_kinds.REVOLUTE, f"{name}{k - 1}", f"{name}{k}") for k in (1, 2)]
    tree = build_tree(name, links, [*joints, RawJoint("tip", None, f"{name}2", name, np.ones(3))])
    text = getattr(tree, form)()
    assert text.isascii()
    back = read(tmp_path, text)
    assert_same(tree, back)
    assert {*back.frames} == {*tree.frames}


# -- Pinocchio's models --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_pinocchio_models(seed):
    """``pinocchio.Model`` → `Tree` → ``pinocchio.Model`` → `Tree`: joints in any order, of all types."""
    rng = np.random.default_rng(seed)
    kinds = [str(kind) for kind in rng.permutation([*SIMPLE])]
    model = random_model(rng, kinds, depth_first=seed % 2 == 0)
    model.gravity.linear = rng.normal(size=3)
    model.lowerPositionLimit[:], model.upperPositionLimit[:] = -rng.uniform(1, 2, (2, model.nq)) * [[1], [-1]]
    for values in (model.friction, model.effortLimit, model.velocityLimit):
        values[:] = rng.uniform(1, 2, model.nv)
    model.referenceConfigurations["home"] = ds.load(model).random(rng)
    tree = ds.load(model)
    if seed % 2:
        with pytest.raises(ModelError, match="joints that are not numbered depth first"):
            tree_to_pinocchio(tree, unsupported="refuse")
    back = quietly(lambda: tree_to_pinocchio(tree, unsupported="ignore" if seed % 2 else "warn"))
    assert [*back.names] == [*model.names] and [*back.parents] == [*model.parents]
    assert [*back.idx_qs] == [*model.idx_qs] and back.name == model.name
    for a, b in zip(model.jointPlacements, back.jointPlacements, strict=True):
        assert a.isApprox(b, 1e-13)
    names = ("armature", "damping", "friction", "effortLimit", "velocityLimit")
    assert all(np.array_equal(getattr(model, name), getattr(back, name)) for name in names)
    v, a = rng.normal(size=(2, model.nv))
    q = tree.random(1)
    expected, found = (pin.rnea(m, m.createData(), q, v, a) for m in (model, back))
    assert error(found, expected) < 10 * ROUND_OFF
    assert error(found, ds.inverse_dynamics(tree, q, v, a, passive="none")) < 100 * ROUND_OFF
    M = [np.triu(x) for x in (pin.crba(back, back.createData(), q), ds.mass_matrix(tree, q))]
    assert (error(*M) < 100 * ROUND_OFF) == (not seed % 2)
    again = ds.load(back)
    assert_same(tree, again)
    assert error(again.reference_configurations["home"], tree.reference_configurations["home"]) < ROUND_OFF


def test_universal_joints_go_on_as_hinges_of_massless_links(tmp_path):
    """Euler angles, too: with the same ``q``, ``v`` and motion in every format, back and forth."""
    rng = np.random.default_rng(0)
    tree = ds.load(random_model(rng, ["Universal", "RX", "SphericalZYX"], parents_of=[0, 1, 2]))
    q, v, tau = tree.random(rng), *rng.normal(size=(2, tree.nv))
    wanted, given = ds.forward_dynamics(tree, q, v, tau, passive="none").qdd, {"unsupported": "ignore"}
    for text in (tree.to_mjcf(**given), tree.to_urdf(**given), tree_to_pinocchio(tree, **given)):
        back = quietly(lambda text=text: read(tmp_path, text) if isinstance(text, str) else ds.load(text))
        assert back.joint_names == tree.joint_names
        found = ds.forward_dynamics(back, q, v, tau, passive="none").qdd
        bare = isinstance(text, str) and "<robot" in text  # URDF has no armature
        assert bare or error(found, wanted) < 10 * ROUND_OFF
        poses = (ds.forward_kinematics(x, q, "tool3") for x in (back, tree))
        assert error(*poses) < ROUND_OFF


def test_armature_along_axes_that_turn_or_do_not(tmp_path):
    """A body at 1 m/s and 2 rad/s: one format has rotors of free joints along axes of the world, one of the body."""
    inside = "<joint type='free' armature='1'/><geom type='sphere' size='.1' mass='1'/>"
    text = f"<mujoco><option gravity='0 0 0'/><worldbody><body>{inside}</body></worldbody></mujoco>"
    straight, v, none = read(tmp_path, text), np.array([1.0, 0, 0, 0, 0, 2.0]), np.zeros(6)
    same = read(tmp_path, quietly(straight.to_mjcf))
    with pytest.warns(DelassusWarning, match="1 armature of free joints along axes of the world"):
        model = tree_to_pinocchio(straight)
    turning = ds.load(model)
    with pytest.warns(DelassusWarning, match="1 armature of free joints along axes of the body"):
        turning.to_mjcf()
    assert quietly(lambda: ds.load(tree_to_pinocchio(turning))).fingerprint == turning.fingerprint
    for tree, force in ((straight, -2.0), (same, -2.0), (turning, -1.0)):
        qdd = ds.forward_dynamics(tree, tree.neutral(), v, none).qdd
        assert error(qdd, [0, force, 0, 0, 0, 0]) < ROUND_OFF
    assert error(pin.aba(model, model.createData(), turning.neutral(), v, none), qdd) < ROUND_OFF
    assert replace(straight, joints=turning.joints).fingerprint != straight.fingerprint


@pytest.mark.parametrize("name", ROBOTS)
def test_urdf_files_as_pinocchio_models(name):
    """Equal to what Pinocchio makes of the file: names, limits and dynamics."""
    tree = ds.load(FILES[name], root=ROBOTS[name], continuous="cos-sin", unsupported="ignore")
    free = [pin.JointModelFreeFlyer()] if ROBOTS[name] == "floating" else []
    model, own = pin.buildModelFromUrdf(str(FILES[name]), *free), tree_to_pinocchio(tree, unsupported="ignore")
    assert [*own.names] == [*model.names]
    assert {f.name for f in model.frames if f.type == pin.FrameType.BODY} <= {f.name for f in own.frames}
    moving = slice(6 if free else 0, None)
    given = model.effortLimit[moving]  # zero is none here
    assert np.array_equal(own.effortLimit[moving], np.where(given > 0.0, given, np.finfo(float).max))
    q, v, a = tree.random(0), *np.random.default_rng(0).normal(size=(2, tree.nv))
    expected, found = (pin.rnea(m, m.createData(), q, v, a) for m in (model, own))
    assert error(found, expected) < 1e-10  # quarter turns that a file writes to eleven digits are read as exact here


def test_what_pinocchio_models_do_not_hold():
    arm = ds.mechanisms.chain(2)
    joints = tuple(replace(j, stiffness=np.ones(1)) for j in arm.joints)
    motor = Actuator("motor", {"link1_joint": 1.0})
    arm = replace(arm, joints=joints, constraints=(ds.Point("link2"),), actuators=(motor,))
    with pytest.warns(DelassusWarning, match="2 springs of joints .* 1 constraints .* 1 actuators"):
        tree_to_pinocchio(arm)


# -- numbers -------------------------------------------------------------------------------------------------------


def test_angles_of_rotations():
    rng = np.random.default_rng(0)
    for _ in range(100):
        pitch = rng.choice([0.0, 0.5 * np.pi, -0.5 * np.pi, 1.2]) + rng.choice([0.0, 1e-12, 1e-9, 1e-5])
        R = rotation_from_rpy([rng.uniform(-3, 3), pitch, rng.uniform(-3, 3)])
        assert np.max(np.abs(rotation_from_rpy(rpy_from_rotation(R)) - R)) < 1e-15


def test_tidy_numbers():
    assert tidy([0.1 + 0.2, 1e-17, -0.25]).tolist() == [0.3, 0.0, -0.25]
    x = np.random.default_rng(0).normal(size=1000) * 10.0 ** np.random.default_rng(1).integers(-30, 30, 1000)
    for number in x:
        assert abs(tidy(number) - number) <= 1e-15 * abs(number)
    assert tidy(0.0) == 0.0 and tidy(1e-320) == 1e-320
