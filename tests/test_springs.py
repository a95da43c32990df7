"""Servos, springs and dampers, implicit in time: closed forms, MuJoCo, random trees, scenes beside kernels."""

from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Collider, HalfSpace, Sphere
from random_trees import MIXED, some_actuator, some_mechanism
from tools import random_frame

pytestmark = pytest.mark.usefixtures("one_lane")

DT = 1e-3
ROUND_OFF = 1e-10
"""Of what two programs make of the same equations (m/s), whose masses differ by up to 1e10; the worst seen is 2e-12."""

SLIDER = """<mujoco><option gravity="0 0 0"/><worldbody><geom name="wall" type="box" size=".1 1 1" pos="{} 0 0"/>
<body name="cart"><joint name="x" type="slide" axis="1 0 0"/><geom name="tip" type="sphere" size=".05" mass="1"/></body>
</worldbody><actuator>{}</actuator></mujoco>"""
FAR, AT_REACH = 9.0, 0.25  # the cart touches the wall at x = 0.1


def cart(actuator, wall=FAR, **options):
    """A simulator of a cart of 1 kg, whose servo is 0.3 or 0.2 m away from where it wants to be."""
    return ds.Simulator(ds.Scene.from_robot(SLIDER.format(wall, actuator)), dt=DT, control="actuators", **options)


def position(kp, kv, more=""):
    return f'<position joint="x" kp="{kp}" kv="{kv}" {more}/>'


# -- servos ---------------------------------------------------------------------------------------------------------


@pytest.mark.peer
@pytest.mark.parametrize(("kp", "kv"), [(1e8, 0.0), (1e8, 1e3), (1e12, 0.0), (1e5, 1e3), (0.0, 1e9)])
def test_stiff_servos_settle(kp, kv):
    """``κ = kp dt² / m`` of 0.1 to 1e6, ``kv dt / m`` of 0 to 1e6: explicit steps end in no number."""
    sim = cart(position(kp, kv)) if kp else cart(f'<velocity joint="x" kv="{kv}"/>')
    for _ in range(200):
        sim.step([0.3])
        assert abs(sim.q[0]) < 0.4
    at, wanted = (sim.q[0], 0.3) if kp else (sim.v[0], 0.3)
    assert at == pytest.approx(wanted, abs=1e-6)


@pytest.mark.peer
@pytest.mark.parametrize(("kp", "kv"), [(1e8, 0.0), (1e6, 1e4), (1e3, 1.0)])
def test_a_wall_holds_all_of_a_servos_force(kp, kv):
    """At rest that of its position, whatever its gains are: it does not depend on the time step."""
    sim = cart(position(kp, kv), AT_REACH)
    for _ in range(600):
        sim.step([0.2])
    assert abs(sim.v[0]) < 1e-9
    assert sim.impulses[:, 2].sum() / DT == pytest.approx(kp * (0.2 - sim.q[0]), rel=1e-9)
    assert sim.q[0] == pytest.approx(0.1, abs=2e-4)


@pytest.mark.peer
def test_soft_servos_keep_their_energy_and_stiff_ones_follow_a_ramp():
    """Ten seconds of an oscillation of 10 rad/s; a ramp is followed at the lag of damping, ``kv v / kp``."""
    sim = cart(position(100.0, 0.0), q0=[1.0])
    found = np.empty(10_000)
    for k in range(found.size):
        sim.step([0.0])
        found[k] = sim.q[0]
    assert found[-700:].max() == pytest.approx(1.0, abs=4e-4)  # κ² of each radian: 1e-6 in 100 rad, and the period
    assert np.abs(found - np.cos(10.0 * DT * np.arange(1, found.size + 1))).max() < 0.02  # 5e-5 of the frequency
    sim = cart(position(1e9, 1e7))
    for k in range(3000):
        sim.step([0.1 * k * DT])
    assert sim.v[0] == pytest.approx(0.1, rel=1e-6)
    assert sim.q[0] == pytest.approx(0.1 * sim.time - 0.1 * (1e7 / 1e9 + DT), abs=1e-5)


@pytest.mark.peer
def test_what_is_cut_off_is_a_force_and_no_spring():
    """A saturated servo accelerates as its limit says, however stiff it would be."""
    sim = cart(position(1e8, 1e5, 'forcerange="-3 3"'))
    for _ in range(100):
        sim.step([5.0])
    assert sim.v[0] == pytest.approx(3.0 * 0.1, rel=1e-12)


@pytest.mark.peer
@pytest.mark.parametrize("kv", [0.0, 1e6])
def test_impacts_are_those_of_the_masses_alone(kv):
    """A damper does nothing in an instant: the ball that hits the cart gives it ``(1 + e) m M / (m + M) v``."""
    scene = ds.Scene.from_robot(SLIDER.format(FAR, f'<velocity joint="x" kv="{kv}"/>')).with_material(restitution=0.8)
    ball = Collider("ball/body", Sphere(0.05), restitution=0.8)
    scene = scene.add("ball", ds.mechanisms.free_body(0.25, Sphere(0.05).inertia(0.25)), at=(-0.2, 0, 0)).add("b", ball)
    sim = ds.Simulator(scene, dt=DT, control="actuators", v0=np.r_[0.0, 2.0, np.zeros(5)])
    total = 0.0
    for _ in range(80):
        sim.step([0.0])
        total += sim.impulses[:, 2].sum()
    assert total == pytest.approx(1.8 * 0.2 * 2.0, rel=1e-6)


@pytest.mark.peer
@pytest.mark.parametrize("seed", range(3))
def test_dampers_are_those_of_mujocos_implicitfast(seed):
    """Damping of joints and of actuators on tendons, to round-off, of random chains."""
    mujoco = pytest.importorskip("mujoco")
    rng = np.random.default_rng(seed)
    bodies, joints = "", [f"j{k}" for k in range(4)]
    for name in reversed(joints):
        axis, d, ends = rng.normal(size=3), 10 ** rng.uniform(-2, 2), rng.uniform(-0.3, 0.3, 3)
        bodies = f"""<body pos="{" ".join(map(str, ends))}"><joint name="{name}" axis="{" ".join(map(str, axis))}"
            damping="{d}"/><geom type="capsule" size=".02" fromto="0 0 0 {" ".join(map(str, ends))}" mass="1"/>{bodies}
            </body>"""
    text = f"""<mujoco><option timestep="{DT}" integrator="implicitfast"><flag contact="disable"/></option><worldbody>
        {bodies}</worldbody><tendon><fixed name="t"><joint joint="j0" coef="1"/><joint joint="j3" coef="-.5"/></fixed>
        </tendon><actuator><velocity joint="j1" kv="300"/><velocity tendon="t" kv="40"/></actuator></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qvel[:] = v0 = rng.normal(size=4)
    data.ctrl[:] = ctrl = rng.normal(size=2)
    sim = ds.Simulator(ds.Scene.from_robot(text), dt=DT, control="actuators", v0=v0)
    for _ in range(300):
        mujoco.mj_step(model, data)
        sim.step(ctrl)
    np.testing.assert_allclose(sim.q, data.qpos, atol=ROUND_OFF)
    np.testing.assert_allclose(sim.v, data.qvel, atol=ROUND_OFF)


def test_stiff_gains_of_pd_control_hold():
    arm, wanted = ds.mechanisms.pendulum(2), np.array([0.4, -0.7])
    sim = ds.Simulator(ds.Scene(arm), control="pd", kp=[1e9, 1e7], kd=[1e6, 0.0], dt=1e-2)
    for _ in range(1000):
        sim.step(wanted)
    load = ds.inverse_dynamics(arm, sim.q, np.zeros(2), np.zeros(2))
    np.testing.assert_allclose(wanted - sim.q, load / [1e9, 1e7], atol=1e-9)


# -- springs along lines --------------------------------------------------------------------------------------------


def hanging(stiffness, damping, dt=DT, **options):
    ball = ds.mechanisms.free_body(2.0, 0.01 * np.eye(3), name="ball")
    spring = ds.SpringDamper("ball", ds.Frame("world", (0, 0, 1.0)), stiffness, damping, length=0.9)
    return ds.Simulator(ds.Scene(ball).attach(spring), dt=dt, **options)


@pytest.mark.parametrize("damping", [0.0, 40.0, 1e7])
@pytest.mark.parametrize("stiffness", [200.0, 1e10])
def test_a_ball_hangs_on_a_spring(stiffness, damping):
    """It comes to rest where the spring bears it, where something damps or nothing resolves it; no energy comes up."""
    sim = hanging(stiffness, damping, q0=[0, 0, 0.1, 0, 0, 0, 1])
    start, swing = sum(sim.energy()), 2.0 * 9.81 * 0.2
    for _ in range(20):
        sim.run(0.1)
        assert sum(sim.energy()) < start + 0.02 * swing  # that of semi-implicit steps swings by ω dt
    if damping == 40.0 or stiffness > 200.0:
        assert sim.q[2] == pytest.approx(0.1 - 2.0 * 9.81 / stiffness, abs=1e-5)  # exp(−10) of 0.1 m


def test_springs_of_no_length_have_that_of_the_start():
    bodies = {name: ds.mechanisms.free_body(1.0, 0.01 * np.eye(3)) for name in ("a", "b")}
    start = np.r_[0, 0, 0, 0, 0, 0, 1.0, 0.3, 0.4, 0, 0, 0, 0, 1]
    scene = ds.Scene(bodies, gravity=(0, 0, 0), start=start).attach(ds.SpringDamper("a/body", "b/body", 50.0))
    assert scene.springs[0].length == pytest.approx(0.5)
    sim = ds.Simulator(scene, v0=np.r_[np.zeros(6), 1.0, 0.2, -0.3, 0.5, 0.1, 0])
    for _ in range(500):
        sim.step()
    momentum = sim.v[:3] + sim.v[6:9]  # they do not turn by a force at their centres: axes of b turn by its own spin
    R = ds.forward_kinematics(scene.tree, sim.q, ds.Frame("b/body"))[:3, :3]
    np.testing.assert_allclose(sim.v[:3] + R @ sim.v[6:9], [1.0, 0.2, -0.3], atol=1e-12)
    assert not np.allclose(momentum, [1.0, 0.2, -0.3], atol=1e-3)


GOVERNOR = """<mujoco><compiler angle="radian"/><worldbody><body name="axis">
<joint name="spin" axis="0 0 1"/><geom type="cylinder" size=".02 .5" pos="0 0 -.5" mass="1"/>
<body name="left"><joint name="l" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 -.5 0 -.866" size=".01" mass="1"/>
<geom type="sphere" size=".05" pos="-.5 0 -.866" mass="5"/></body>
<body name="right"><joint name="r" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .5 0 -.866" size=".01" mass="1"/>
<geom type="sphere" size=".05" pos=".5 0 -.866" mass="5"/></body>
<body name="base" pos="0 0 -.866"><joint name="slide" type="slide" axis="0 0 1"/>
<geom type="cylinder" size=".1 .05" mass="3"/></body></body></worldbody></mujoco>"""


def governor():
    """The flyball governor of IFToMM's benchmark: rods are springs of 8e5 N/m and dampers of 4e4 N s/m."""
    rods = [ds.SpringDamper(ds.Frame(ball, (x, 0, -0.433)), "base", 8e5, 4e4, length=0.5)
            for ball, x in (("left", -0.25), ("right", 0.25))]  # fmt: skip
    scene = ds.Scene.from_robot(GOVERNOR)
    pairs = [("left", "base"), ("right", "base"), ("left", "right"), ("axis", "base")]
    return replace(scene, ignore=pairs).attach(*rods)


@pytest.mark.peer
def test_the_flyball_governor_at_a_millisecond():
    """Where a step of forward dynamics bears 0.1 ms; errors fall by two when steps are halved, to a fine reference."""
    scene, at = governor(), []
    for dt in (4e-3, 2e-3, 1e-3, 1.25e-4):
        sim = ds.Simulator(scene, dt=dt, v0=[2.0 * np.pi, 0, 0, 0])
        sim.run(1.0)
        assert sim.statuses.total() == 0
        at.append(np.r_[sim.q[1:], sim.v])
    errors = np.array([np.abs(x - at[-1]).max() for x in at[:-1]])
    assert errors[2] < 0.02 * np.abs(at[-1]).max()
    np.testing.assert_allclose(errors[:2] / errors[1:], 2.2, atol=0.4)


# -- random trees ---------------------------------------------------------------------------------------------------


def some_scene(seed):
    """A random tree with stiff joints, servos and springs, a ball of which is on the floor; state and controls."""
    rng = np.random.default_rng(1000 + seed)
    mechanism = some_mechanism(seed, int(rng.integers(3, 5)), ("fixed", "floating")[seed % 2], MIXED)
    tree, moving = mechanism.tree, mechanism.moving
    joints = []
    for joint in tree.joints:
        k, d = (10 ** rng.uniform(*x, joint.nv) * (rng.random(joint.nv) < 0.5) for x in ((-1, 6), (-2, 4)))
        joints.append(replace(joint, damping=d, **({"stiffness": k} if joint.nq == joint.nv else {})))
    single = [name for name, joint in zip(tree.joint_names, tree.joints, strict=True) if joint.nq == joint.nv == 1]
    servos = [some_actuator(rng, f"a{k}", single) for k in range(2 if single else 0)]
    stiff = [replace(x, bias=(0.0, 10 ** rng.uniform(1, 5) * x.bias[1], 100.0 * x.bias[2]), force_range=(-1e9, 1e9))
             for x in servos]  # fmt: skip
    tree = replace(tree, joints=tuple(joints), actuators=tuple(stiff))
    q = tree.integrate(tree.neutral(), 0.3 * rng.normal(size=tree.nv))
    ends = random_frame(rng, moving[-1]), random_frame(rng, "world", 1.0)
    spring = ds.SpringDamper(*ends, 10 ** rng.uniform(1, 6), 10 ** rng.uniform(-1, 4))
    z = ds.forward_kinematics(tree, q, ds.Frame(moving[-1]))[2, 3]
    ball = Collider(moving[-1], Sphere(0.1), friction=0.5, restitution=0.5)
    floor = Collider("world", HalfSpace(), (0, 0, z - 0.1 + 1e-3 * rng.uniform(-0.2, 0.2)), restitution=0.5)
    scene = ds.Scene(tree, [ball, floor], start=q).attach(spring)
    control = "actuators" if tree.nu else "tau"
    return scene, q, 0.3 * rng.normal(size=tree.nv), 0.2 * rng.normal(size=tree.nu or tree.nv), control


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_kernels_and_formulations_go_as_scenes_do(seed):
    """30 steps of what is stiff, and bounces; all formulations see the masses that springs add."""
    scene, q, v, ctrl, control = some_scene(seed)
    kernel = scene.contact_step(control=control, tolerance=1e-12, sweeps=5000)
    sim = ds.Simulator(scene, q0=q, v0=v, dt=DT, control=control, tolerance=1e-12)
    formulation = ("os", "mc", "nmc", "rmc", "nmc-os")[seed % 5]
    other = ds.Simulator(
        scene,
        q0=q,
        v0=v,
        dt=DT,
        control=control,
        tolerance=1e-12,
        solver="nsgs",
        formulation=formulation,
    )
    q, v, p = sim.q, sim.v, np.zeros(kernel.arguments[2].shape)
    for _ in range(30):
        sim.step(ctrl)
        other.step(ctrl)
        q, v, p, _ = kernel(q, v, p, ctrl, DT)
        scale = 1.0 + np.abs(sim.v).max()
        np.testing.assert_allclose(v, sim.v, atol=1e-8 * scale)
        np.testing.assert_allclose(other.v, sim.v, atol=1e-8 * scale)
    assert np.isfinite(sim.v).all()


STEP = 1e-6
"""Of central differences, whose errors over the largest derivative are 1e-6 at most; 4e-8 is the worst seen."""


def differences(step, scene, q, v, u):
    """Derivatives ``A`` and ``B`` of a step by central differences, in tangents."""
    tree = scene.tree
    end = step(q, v, u)[0]

    def change(q, v, u):
        q_next, v_next = step(q, v, u)
        return np.r_[tree.difference(end, q_next), v_next]

    columns, n = [], tree.nv
    for k in range(2 * n + len(u)):
        unit = STEP * np.eye(2 * n + len(u))[k]
        ends = [
            change(tree.integrate(q, s * unit[:n]), v + s * unit[n : 2 * n], u + s * unit[2 * n :]) for s in (1.0, -1.0)
        ]
        columns.append((ends[0] - ends[1]) / (2.0 * STEP))
    found = np.array(columns).T
    return found[:, : 2 * n], found[:, 2 * n :]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 5])
def test_derivatives_of_scenes_and_kernels(seed):
    """By differences, with a bounce or sustained contact beside springs of all kinds."""
    scene, q, v, ctrl, control = some_scene(seed)
    tree, options = scene.tree, {"control": control}
    kernel = scene.contact_step(**options, tolerance=1e-12, sweeps=5000)
    derivatives = ds.compile(tree, scene.constraints(), "contact_step_derivatives", **options, tolerance=1e-12)
    none = np.zeros(kernel.arguments[2].shape)
    A, B = differences(lambda q, v, u: kernel(q, v, none, u, DT)[:2], scene, q, v, ctrl)
    found = derivatives(q, v, none, ctrl, DT)
    scale = np.abs(A).max()
    np.testing.assert_allclose(found[4], A, atol=1e-6 * scale)
    np.testing.assert_allclose(found[5], B, atol=1e-6 * scale)
    sim = ds.Simulator(scene, q0=q, v0=v, dt=DT, control=control, tolerance=1e-12)
    sim.step(ctrl)
    of_scene = sim.step_derivatives()
    assert of_scene.status.name == "CONVERGED"
    np.testing.assert_allclose(np.asarray(of_scene.A), A, atol=1e-6 * scale)
    np.testing.assert_allclose(np.asarray(of_scene.B), B, atol=1e-6 * scale)


def test_errors_name_springs():
    arm = ds.mechanisms.pendulum(2)
    for given, text in (
        (("rod1", "rod2", -1.0), "stiffness of a spring"),
        (("rod1", "rod2", 1.0, np.nan), "damping of a spring"),
        (("rod1", "rod1", 1.0), "one rigid body"),
        (("world", ds.Frame("world", (0, 0, 1)), 1.0), "a link that moves"),
    ):
        with pytest.raises(ds.DelassusError, match=text):
            ds.Scene(arm).attach(ds.SpringDamper(*given))
    spring = ds.SpringDamper("rod2", ds.Frame("world", (1, 0, 0)), 10.0)
    with pytest.raises(ds.DelassusError, match=r"constraints that hold, of 'dynamics'"):
        ds.forward_dynamics(arm, np.zeros(2), np.zeros(2), np.zeros(2), spring)
    with pytest.raises(ds.DelassusError, match="links that no loop ties"):
        ds.Simulator(ds.Scene(arm, loops=[ds.Distance("rod2", ds.Frame("world", (1, 0, 0))), spring]))
