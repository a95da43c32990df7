"""Constraints of descriptions: equalities of MJCF against MuJoCo's own rows, mimic joints against the reduced model."""

from __future__ import annotations

import pickle
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import delassus as ds
from delassus import jacobian
from delassus.errors import ConstraintError, ModelError
from internals import (
    OPERATIONAL_SPACE_COMPLIANCE,
    acceleration_from_mujoco,
    bind,
    example_robot_files,
    velocity_map_from_mujoco,
)
from tools import error, mujoco_data

ACCELERATION = 1e-7
"""Finite differences of MuJoCo's rows, and the conditions of ``M`` and ``G``."""

ROWS = 1e-9
"""Row spaces of two Jacobians; errors where the other side's vanish."""


pytestmark = pytest.mark.usefixtures("elsewhere")


def joint_errors(tree, q):
    """Position errors of the tree's own constraints."""
    states = {"q": q, "v": np.zeros(tree.nv), "tau": np.zeros(tree.nv)}
    return bind(tree, None, OPERATIONAL_SPACE_COMPLIANCE, states).run()["errors"]


def closed(tree, q):
    """Configuration near ``q`` at which the tree's own constraints have no error."""
    for _ in range(100):
        gap = joint_errors(tree, q)
        if np.abs(gap).max() < 1e-13:
            break
        step = np.linalg.lstsq(jacobian(tree, None, q), -gap, rcond=1e-9)[0]
        q = tree.integrate(q, step * min(1.0, 0.5 / max(np.abs(step).max(), 1e-9)))
    assert np.abs(joint_errors(tree, q)).max() < 1e-12
    return q


def tangent(J, v):
    """The part of ``v`` that the rows leave free."""
    return v - np.linalg.pinv(J, rcond=1e-9) @ (J @ v)


def within(A, B):
    """How far the rows of ``A`` are out of the space that those of ``B`` span."""
    scaled = B / np.maximum(np.linalg.norm(B, axis=1, keepdims=True), 1e-12)
    basis = np.linalg.svd(scaled, full_matrices=False)
    kept = basis.Vh[basis.S > 1e-9]
    return np.abs(A - A @ kept.T @ kept).max() / max(1.0, np.abs(A).max())


# -- MuJoCo --------------------------------------------------------------------------------------------------------


class Equalities:
    """MuJoCo's rows of the active equality constraints, its mass matrix and bias force."""

    def __init__(self, model):
        mujoco = pytest.importorskip("mujoco")
        self.mujoco, self.model, self.data = mujoco, model, mujoco.MjData(model)
        self.model.opt.jacobian = int(mujoco.mjtJacobian.mjJAC_DENSE)
        for what in ("CONTACT", "LIMIT", "FRICTIONLOSS", "ACTUATION", "SPRING", "DAMPER", "PASSIVE"):
            self.model.opt.disableflags |= int(getattr(mujoco.mjtDisableBit, f"mjDSBL_{what}", 0))
        self.model.opt.density = self.model.opt.viscosity = 0.0

    def at(self, qpos, qvel):
        """Rows, their errors, mass matrix and bias force."""
        mujoco, model, data = self.mujoco, self.model, self.data
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_forward(model, data)
        rows = data.efc_type == int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)
        J = np.reshape(data.efc_J, (-1, model.nv))[rows]
        M = np.zeros((model.nv, model.nv))
        try:
            mujoco.mj_fullM(model, data, M)
        except TypeError:  # before MuJoCo 4
            mujoco.mj_fullM(model, M, data.qM)
        return J.copy(), data.efc_pos[rows].copy(), M, data.qfrc_bias - data.qfrc_passive

    def accelerations(self, qpos, qvel):
        """``M q̈ + c = Jᵀ f`` with ``J q̈ = −J̇ q̇``, the derivative of the rows by differences."""
        J, _, M, c = self.at(qpos, qvel)
        h, sides = 1e-5, []
        for sign in (h, -h):
            moved = np.array(qpos)
            self.mujoco.mj_integratePos(self.model, moved, qvel, sign)
            sides.append(self.at(moved, qvel)[0])
        wanted = -(sides[0] - sides[1]) @ qvel / (2 * h)
        free = np.linalg.solve(M, -c)
        f = np.linalg.lstsq(J @ np.linalg.solve(M, J.T), wanted - J @ free, rcond=1e-11)[0]
        return free + np.linalg.solve(M, J.T @ f)


def check_against_mujoco(model, tree, rng, near=None):
    """Rows, errors and accelerations at a closed configuration, which both sides hold."""

    peer = Equalities(model)
    q = closed(tree, tree.random(rng) if near is None else near)
    J = jacobian(tree, None, q)
    v = tangent(J, rng.normal(size=tree.nv))
    T = velocity_map_from_mujoco(tree, q)
    data = mujoco_data(model, tree, q, v)
    qpos, qvel = data.qpos, data.qvel
    theirs, gap, *_ = peer.at(qpos, qvel)
    assert np.abs(gap).max() < ROWS
    assert within(J @ T, theirs) < ROWS and within(theirs, J @ T) < ROWS
    qdd = acceleration_from_mujoco(tree, qpos, qvel, peer.accelerations(qpos, qvel))
    found = ds.forward_dynamics(tree, q, v, np.zeros(tree.nv), passive="none")
    assert error(found.qdd, qdd) < ACCELERATION
    away = tree.random(rng)
    assert np.abs(peer.at(mujoco_data(model, tree, away, v).qpos, qvel)[1]).max() > 1e-3  # else nothing is tried
    return q, v, found


LINK = '<inertial pos=".1 -.05 .2" quat=".9 .1 .3 -.2" mass="2" diaginertia=".03 .02 .04"/>'

ARMS = f"""<mujoco><compiler angle="radian"/><worldbody><site name="here" pos=".4 .1 .6" quat=".5 .5 .1 -.3"/>
<body name="a" pos=".1 .2 .3" quat=".8 .1 -.5 .2"><joint name="a" type="ball"/>{LINK}
<body name="b" pos=".3 .1 .2" euler=".3 .2 .9"><joint name="b" axis="1 .2 .3" pos=".1 0 .1" ref=".4"/>{LINK}
<body name="c" pos=".2 .3 0"><joint name="c" axis="0 1 .3" ref="-.2"/>{LINK}
<site name="sc" pos=".1 .2 .3" quat=".3 .1 .8 .2"/>
<body name="d" pos=".1 0 .4"><joint name="d" type="slide" axis="1 0 .2" ref=".1"/>{LINK}</body></body></body></body>
<body name="e" pos="-.3 .2 .1" quat=".3 .3 .8 -.1"><freejoint/>{LINK}
<body name="f" pos=".1 .3 .2"><joint name="f" axis=".3 1 0" ref=".3"/>{LINK}
<site name="sf" pos="0 .2 .1" quat=".6 .1 -.4 .3"/></body></body></worldbody>
<tendon><fixed name="t"><joint joint="b" coef="2"/><joint joint="f" coef="-.5"/></fixed>
<fixed name="u"><joint joint="c" coef=".7"/><joint joint="d" coef="3"/></fixed></tendon>
<equality>{{}}</equality></mujoco>"""

EQUALITIES = {
    "connect": '<connect body1="c" body2="f" anchor=".1 .2 -.3"/>',
    "connect to the world": '<connect body1="d" anchor=".1 .2 -.3"/>',
    "connect of the world": '<connect body1="world" body2="f" anchor=".1 .2 -.3"/>',
    "connect of sites": '<connect site1="sc" site2="sf"/>',
    "weld": '<weld body1="c" body2="f" anchor=".2 .1 .3"/>',
    "weld with a pose": '<weld body1="f" body2="c" anchor=".2 .1 .3" relpose=".2 .1 .4 .5 .1 .6 .3"/>',
    "weld to the world": '<weld body1="e" relpose=".2 .1 .4 .5 .1 .6 .3" torquescale=".3"/>',
    "weld of sites": '<weld site1="sf" site2="here"/>',
    "weld that does not turn": '<weld body1="c" body2="f" anchor=".2 .1 .3" torquescale="0"/>',
    "joints": '<joint joint1="b" joint2="f" polycoef=".2 -1.5"/>',
    "one joint": '<joint joint1="c" polycoef=".3 4 5"/>',
    "tendons": '<tendon tendon1="t" tendon2="u" polycoef=".2 -1.5"/>',
    "one tendon": '<tendon tendon1="u" polycoef=".1"/>',
    "several": """<weld body1="c" body2="f" relpose=".2 .1 .4 .5 .1 .6 .3"/>
        <joint joint1="b" joint2="c" polycoef="0 .5"/>""",
}


def loaded(text):
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(text)
    return model, ds.load(model)


@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.parametrize("case", EQUALITIES)
def test_equalities_of_bodies_that_are_turned(case):
    model, tree = loaded(ARMS.format(EQUALITIES[case]))
    assert not tree.omitted and len(tree.constraints) == EQUALITIES[case].count("<")
    check_against_mujoco(model, tree, np.random.default_rng(0))


SHIPPED = (
    "dm_control/suite/manipulator.xml", "dm_control/suite/quadruped.xml",
    "gymnasium_robotics/envs/assets/fetch/reach.xml",
    "gymnasium_robotics/envs/assets/kitchen_franka/kitchen_assets/kitchen_env_model.xml",
)  # fmt: skip
"""Models that have equality constraints, of each kind that there is in the three packages."""


@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.parametrize("name", SHIPPED)
@pytest.mark.filterwarnings("ignore:.*not represented:delassus.DelassusWarning")
def test_equalities_of_shipped_models(name):
    mujoco = pytest.importorskip("mujoco")
    package, _, path = name.partition("/")
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    model = mujoco.MjModel.from_xml_path(str(Path(find_spec(package).submodule_search_locations[0]) / path))
    tree = ds.load(model)
    assert len(tree.constraints) == model.neq
    check_against_mujoco(model, tree, np.random.default_rng(0), tree.reference_configurations["qpos0"])


@pytest.mark.peer
def test_equalities_that_do_not_act():
    """Those that are switched off, and those that no row holds, are listed by name."""
    body = '<connect name="x" body1="a" body2="b" anchor="0 0 0"/>'
    off = body.replace("<connect", '<connect active="false"')
    for text, what in (
        (off, "equality constraints that are switched off"),
        ('<weld name="x" body1="s" body2="f"/>', "equality constraints of flexes"),
    ):
        with pytest.warns(ds.DelassusWarning, match=rf"1 {what}.* \(x\)"):
            _, tree = loaded(ARMS.replace('<site name="sf"', '<body name="s"/><site name="sf"').format(text))
        assert tree.constraints == ()
    for flag in ("equality", "constraint"):
        disabled = ARMS.replace("<compiler", f'<option><flag {flag}="disable"/></option><compiler').format(body)
        with pytest.warns(ds.DelassusWarning, match="switched off"):
            assert loaded(disabled)[1].constraints == ()


# -- mimic joints --------------------------------------------------------------------------------------------------


def reduced(path, tree):
    """``N`` and ``r`` of ``q = N y + r``: the mimic joints of a URDF file, read here once more."""
    rules = {}
    for joint in ElementTree.parse(path).getroot().findall("joint"):
        mimic = joint.find("mimic")
        if mimic is not None and joint.get("name") in tree.joint_names:
            ratio, offset = float(mimic.get("multiplier", 1)), float(mimic.get("offset", 0))
            rules[joint.get("name")] = mimic.get("joint"), ratio, offset

    def followed(name):
        if name not in rules:
            return name, 1.0, 0.0
        leader, ratio, offset = rules[name]
        first, outer, moved = followed(leader)
        return first, ratio * outer, ratio * moved + offset

    leaders = [name for name in tree.joint_names if name not in rules]
    N, r = np.zeros((tree.nv, len(leaders))), np.zeros(tree.nv)
    for k, name in enumerate(tree.joint_names):
        leader, ratio, r[k] = followed(name)
        N[k, leaders.index(leader)] = ratio
    return N, r


GRIPPERS = ("panda", "baxter", "pr2")


@pytest.mark.slow
@pytest.mark.parametrize("name", GRIPPERS)
@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")
def test_mimic_joints_of_shipped_robots(name):
    """``Nᵀ M N ÿ = Nᵀ (τ − c)``, solved by hand; the tree holds them without being told."""

    files = example_robot_files()
    if name not in files:
        pytest.skip("example-robot-data is not installed")
    tree = ds.load(name, root="fixed", continuous="angle")
    N, r = reduced(files[name], tree)
    assert len(tree.constraints) == tree.nv - N.shape[1] > 0
    rng = np.random.default_rng(0)
    q, v, tau = N @ rng.normal(size=N.shape[1]) + r, N @ rng.normal(size=N.shape[1]), rng.normal(size=tree.nv)
    assert np.abs(joint_errors(tree, q)).max(initial=0.0) < 1e-12
    M, c = ds.mass_matrix(tree, q), ds.bias_force(tree, q, v)
    expected = N @ np.linalg.solve(N.T @ M @ N, N.T @ (tau - c))
    found = ds.forward_dynamics(tree, q, v, tau)
    assert found.status == ds.DynamicsStatus.SOLVED and error(found.qdd, expected) < ACCELERATION
    free = ds.forward_dynamics(tree, q, v, tau, ())
    assert len(free.forces) == 0 and error(free.qdd, np.linalg.solve(M, tau - c)) < ACCELERATION


# -- acting --------------------------------------------------------------------------------------------------------

FOUR_BAR = """<mujoco model="four-bar"><compiler angle="radian"/><worldbody>
<body name="crank"><joint name="crank" axis="0 1 0" damping=".1"/>
<geom type="capsule" fromto="0 0 0 0 0 .3" size=".02"/>
<body name="coupler" pos="0 0 .3"><joint name="coupler" type="ball"/>
<geom type="capsule" fromto="0 0 0 .5 0 0" size=".02"/></body></body>
<body name="rocker" pos=".5 0 0"><joint name="rocker" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0 0 .3" size=".02"/></body></worldbody>
<equality><connect body1="coupler" body2="rocker" anchor=".5 0 0"/></equality></mujoco>"""


@pytest.mark.peer
def test_constraints_act_at_every_entry():
    """Direct functions, kernels, rollouts: the file's by default, none with ``()``, those of a list that is given."""
    _, tree = loaded(FOUR_BAR)
    (loop,) = tree.constraints
    rng = np.random.default_rng(0)
    q = closed(tree, tree.configuration({"crank": 0.3, "rocker": 0.25}))
    v, tau = tangent(jacobian(tree, loop, q), rng.normal(size=5)), rng.normal(size=5)
    held, free = ds.forward_dynamics(tree, q, v, tau, [loop]), ds.forward_dynamics(tree, q, v, tau, ())
    assert np.abs(held.qdd - free.qdd).max() > 0.1
    assert np.all(ds.forward_dynamics(tree, q, v, tau).qdd == held.qdd)
    for given, expected in ((None, held), ((), free), ([*tree.constraints], held)):
        qdd, _ = ds.compile(tree, given, "dynamics")(q, v, tau)
        assert error(qdd, expected.qdd) < ACCELERATION
    assert error(ds.compile(tree, what="dynamics")(q, v, tau)[0], held.qdd) < ACCELERATION
    with pytest.raises(ConstraintError, match=r"aba.*constraints=\(\) leaves out those of the robot's file"):
        ds.forward_dynamics(tree, q, v, tau, method="aba")
    coupling = ds.JointRows({"crank": 1.0, "rocker": -1.0})
    assert [len(f) for f in ds.forward_dynamics(tree, q, v, tau, [*tree.constraints, coupling]).forces] == [3, 1]
    step = ds.compile(tree, what="step", baumgarte=50.0)
    path, _ = ds.rollout(step, q, v, np.zeros((500, 5)), 1e-3)
    assert np.abs(path[-1] - q).max() > 0.1
    assert max(np.abs(joint_errors(tree, x)).max() for x in path[::100]) < 1e-3


@pytest.mark.peer
def test_simulators_hold_what_the_file_holds():
    _, tree = loaded(FOUR_BAR)
    q = closed(tree, tree.configuration({"crank": 0.3, "rocker": 0.25}))
    scene = ds.Scene({"a": tree, "b": tree})
    assert [c.first.link for c in scene.loops] == ["a/coupler", "b/coupler"]
    simulator = ds.Simulator(scene, q0=np.concatenate([q, q]), v0=np.tile([0.5, 0.0, -0.5, 0.0, 0.5], 2), dt=1e-3)
    simulator.run(0.3)
    assert np.abs(simulator.q[:6] - q).max() > 0.05
    assert max(np.abs(joint_errors(tree, part)).max() for part in (simulator.q[:6], simulator.q[6:])) < 1e-3
    assert ds.Scene(tree, loops=()).loops == ()


@pytest.mark.peer
def test_constraints_of_trees_made_of_others():
    """Mounted, side by side, pickled, and with another root: the same rows under their new names."""
    _, tree = loaded(ARMS.format(EQUALITIES["weld to the world"] + EQUALITIES["joints"]))
    rng = np.random.default_rng(0)
    arm = ds.mechanisms.chain(2)
    whole = arm.attach("link2", tree, (0.1, 0.2, 0.3), prefix="hand/")
    assert [f.link for f in whole.constraints[0].frames] == ["hand/e", "hand/world"]
    q = tree.random(rng)
    assert error(joint_errors(whole, np.concatenate([arm.random(rng), q])), joint_errors(tree, q)) < 1e-12
    with pytest.raises(ModelError, match=r"Weld\(.*'e'.*Give a prefix"):
        arm.attach("link2", tree)
    for other in (pickle.loads(pickle.dumps(whole)), whole):
        assert [c.fingerprint for c in other.constraints] == [c.fingerprint for c in whole.constraints]
    assert tree.fingerprint != loaded(ARMS.format(EQUALITIES["joints"]))[1].fingerprint

    base = ds.mechanisms.free_body(3.0, np.eye(3) * 0.1)
    walker = base.attach("body", loaded(FOUR_BAR)[1], prefix="leg/")
    q, v = walker.random(rng), rng.normal(size=walker.nv)
    turned = walker.reroot("leg/coupler")
    moved = walker.reroot_configuration("leg/coupler", q)
    assert error(joint_errors(turned, moved), joint_errors(walker, q)) < 1e-12
    G, H = (ds.delassus(t, t.constraints, x) for t, x in ((walker, q), (turned, moved)))
    assert error(H, G) < 1e-10 and v.size == turned.nv
