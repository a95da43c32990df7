"""Servos, springs and dampers, implicit in time: closed forms, MuJoCo, random trees, scenes beside kernels."""

from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Box, Collider, HalfSpace, Sphere
from random_trees import MIXED, TURNS_OR_SLIDES, some_actuator, some_mechanism
from test_closed_loops import consistent
from tools import error, random_frame

pytestmark = pytest.mark.usefixtures("one_lane")

CREEP = 1e-9
"""Velocity (rad/s) whose products are below round-off of it."""

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
    """Damping of joints and of actuators on tendons, to round-off, of random chains that creep.

    MuJoCo takes velocity products of the start of the step, so that nothing is to move fast enough for any.
    """
    mujoco = pytest.importorskip("mujoco")
    rng = np.random.default_rng(seed)
    bodies, joints = "", [f"j{k}" for k in range(4)]
    for name in reversed(joints):
        axis, d, ends = rng.normal(size=3), 10 ** rng.uniform(-2, 2), rng.uniform(-0.3, 0.3, 3)
        bodies = f"""<body pos="{" ".join(map(str, ends))}"><joint name="{name}" axis="{" ".join(map(str, axis))}"
            damping="{d}"/><geom type="capsule" size=".02" fromto="0 0 0 {" ".join(map(str, ends))}" mass="1"/>{bodies}
            </body>"""
    text = f"""<mujoco><option timestep="{DT}" integrator="implicitfast" gravity="0 0 0"><flag contact="disable"/>
        </option><worldbody>{bodies}</worldbody>
        <tendon><fixed name="t"><joint joint="j0" coef="1"/><joint joint="j3" coef="-.5"/></fixed></tendon>
        <actuator><velocity joint="j1" kv="300"/><velocity tendon="t" kv="40"/></actuator></mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    data.qvel[:] = v0 = CREEP * rng.normal(size=4)
    data.ctrl[:] = ctrl = CREEP * rng.normal(size=2)
    sim = ds.Simulator(ds.Scene.from_robot(text), dt=DT, control="actuators", v0=v0)
    for _ in range(300):
        mujoco.mj_step(model, data)
        sim.step(ctrl)
    np.testing.assert_allclose(sim.q / CREEP, data.qpos / CREEP, atol=ROUND_OFF)
    np.testing.assert_allclose(sim.v / CREEP, data.qvel / CREEP, atol=ROUND_OFF)


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
    """Where a step of forward dynamics bears 0.1 ms; errors fall by two or more when steps are halved."""
    scene, at = governor(), []
    for dt in (4e-3, 2e-3, 1e-3, 1.25e-4):
        sim = ds.Simulator(scene, dt=dt, v0=[2.0 * np.pi, 0, 0, 0])
        sim.run(1.0)
        assert sim.statuses.total() == 0
        at.append(np.r_[sim.q[1:], sim.v])
    errors = np.array([np.abs(x - at[-1]).max() for x in at[:-1]])
    assert errors[2] < 0.02 * np.abs(at[-1]).max()
    assert (errors[:2] / errors[1:] > 1.8).all(), errors  # damping is of order 1, the rest of order 2


def governor_of_rods():
    """The same with rods that do not yield, and a spring and damper between its collars."""
    rods = [ds.Distance(ds.Frame(ball, (x, 0, -0.433)), "base", length=0.5)
            for ball, x in (("left", -0.25), ("right", 0.25))]  # fmt: skip
    spring = ds.SpringDamper(ds.Frame("axis", (0, 0, -0.1)), "base", 1e3, 50.0)
    return replace(governor(), springs=()).attach(*rods, spring)


@pytest.mark.peer
def test_a_governor_of_rods_with_a_spring_between_its_collars():
    """At a millisecond; errors fall by two with the time step, loops stay closed, and the sides alike."""
    scene, at = governor_of_rods(), []
    for dt in (4e-3, 2e-3, 1e-3, 2.5e-4):
        sim = ds.Simulator(scene, dt=dt, v0=[2.0 * np.pi, 0, 0, 0])
        sim.run(0.4)
        assert sim.statuses.total() == 0
        np.testing.assert_allclose(sim.q[1], -sim.q[2], atol=1e-9)
        at.append(np.r_[sim.q[1:], sim.v])
    errors = np.array([np.abs(x - at[-1]).max() for x in at[:-1]])
    assert errors[2] < 0.01 * np.abs(at[-1]).max()
    np.testing.assert_allclose(errors[:2] / errors[1:], 2.3, atol=0.5)


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


@pytest.mark.turns(2)
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


def differences(step, scene, q, v, u, size=STEP):
    """Derivatives ``A`` and ``B`` of a step by central differences, in tangents."""
    tree = scene.tree
    end = step(q, v, u)[0]

    def change(q, v, u):
        q_next, v_next = step(q, v, u)
        return np.r_[tree.difference(end, q_next), v_next]

    columns, n = [], tree.nv
    for k in range(2 * n + len(u)):
        unit = size * np.eye(2 * n + len(u))[k]
        ends = [
            change(tree.integrate(q, s * unit[:n]), v + s * unit[n : 2 * n], u + s * unit[2 * n :]) for s in (1.0, -1.0)
        ]
        columns.append((ends[0] - ends[1]) / (2.0 * size))
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


@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.parametrize("pressed", [False, True])
@pytest.mark.parametrize(("kp", "kd"), [(1e2, 1.0), (1e5, 1e2), (1e7, 1e4)])
def test_derivatives_of_servos_on_loops(parallelogram, kp, kd, pressed):
    """With a stiff joint beside the servo, free and at the wall."""
    joints = list(parallelogram.tree.joints)
    joints[2] = replace(joints[2], stiffness=np.full(1, 1e4), damping=np.full(1, 1e2))
    scene = beside_a_wall(ds.Scene(replace(parallelogram.tree, joints=tuple(joints)), loops=parallelogram.loops))
    turned = (np.arcsin(0.1) + 1e-4 if pressed else 0.05) * TURN
    options = {"dt": DT, "control": "pd", "kp": [kp, 0, 0], "kd": [kd, 0, 0], "tolerance": 1e-12}
    sim = ds.Simulator(scene, q0=turned, v0=0.3 * TURN, **options)
    state, target = sim.get_state(), (0.5 if pressed else 0.06) * TURN
    sim.step(target)
    found = sim.step_derivatives()
    assert found.status.name == "CONVERGED"

    def step(q, v, u):
        sim.set_state({**state, "q": q, "v": v})
        sim.step(u)
        return sim.q, sim.v

    A, B = differences(step, scene, turned, 0.3 * TURN, target)
    scale = np.abs(A).max()
    np.testing.assert_allclose(np.asarray(found.A), A, atol=STIFF * scale)
    np.testing.assert_allclose(np.asarray(found.B), B, atol=STIFF * max(scale, np.abs(B).max()))


STIFF = 1e-4
"""Errors of differences over the largest derivative where κ is up to 100; 6e-6 is the worst seen."""


TENDONS = """<mujoco><option timestep="{dt}" integrator="implicitfast"/><worldbody><site name="w" pos=".3 .2 1"/>
{bodies}
</worldbody><tendon>{tendons}</tendon></mujoco>"""


def some_tendons(seed, dt, tendons):
    """MJCF of a random chain of four links with a site on each, and one on the world."""
    rng, bodies = np.random.default_rng(seed), ""
    for k in reversed(range(4)):
        axis, end, site = (" ".join(map(str, x)) for x in (rng.normal(size=3), *rng.uniform(-0.3, 0.3, (2, 3))))
        bodies = f"""<body pos="{end if k else "0 0 0"}"><joint axis="{axis}" damping=".1"/><site name="s{k}"
            pos="{site}"/><geom type="capsule" size=".02" fromto="0 0 0 {end}" mass="1" contype="0" conaffinity="0"/>
            {bodies}</body>"""
    return TENDONS.format(dt=dt, bodies=bodies, tendons=tendons), rng


STRAIGHT = """<spatial stiffness="{}" damping="{}" springlength="{}"><site site="w"/><site site="s2"/></spatial>
<spatial stiffness="{}"><site site="s1"/><site site="s3"/></spatial>
<spatial damping="{}"><site site="s0"/><site site="s3"/></spatial>"""


@pytest.mark.peer
@pytest.mark.parametrize("seed", range(3))
def test_tendons_between_two_sites_are_mujocos(seed):
    """With a length of their own, that of qpos0, and dampers: errors are in proportion to the step, as of damping."""
    mujoco, errors = pytest.importorskip("mujoco"), []
    for dt in (2e-4, 1e-4):
        numbers = np.random.default_rng(seed).uniform([50, 1, 0.2, 50, 1], [500, 10, 0.6, 500, 10])
        text, rng = some_tendons(seed, dt, STRAIGHT.format(*numbers))
        model = mujoco.MjModel.from_xml_string(text)
        model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
        data = mujoco.MjData(model)
        data.qvel[:] = v0 = rng.normal(size=4)
        sim = ds.Simulator(ds.Scene.from_robot(text), dt=dt, v0=v0)
        sim.half_kick()
        for _ in range(round(0.1 / dt)):
            mujoco.mj_step(model, data)
            sim.step()
        errors.append(np.abs(sim.q - data.qpos).max())
    assert errors[1] < min(1e-3, 0.6 * errors[0])


@pytest.mark.peer
def test_springs_of_a_file_act_where_joint_springs_do():
    """Rows leave them out."""
    pytest.importorskip("mujoco")
    text, rng = some_tendons(0, DT, STRAIGHT.format(100, 1, 0.5, 100, 1))
    tree, q, v = ds.load(text), rng.normal(size=4), np.zeros(4)
    assert [c.holds for c in tree.constraints] == [False] * 3 and not tree.report
    for call in (
        lambda **given: ds.dynamics_derivatives(tree, q, v, v, **given).dqdd_dq,
        lambda **given: ds.inverse_dynamics_derivatives(tree, q, v, v, **given).dtau_dq,
        lambda **given: ds.step_derivatives(tree, q, v, v, DT, **given).A,
    ):
        assert error(call(), call(passive="none")) > 1e-6
    assert ds.delassus(tree, None, q).shape == (0, 0) and ds.mass_matrix(tree, q).shape == (4, 4)
    scene, kernel = ds.Scene.from_robot(text), ds.compile(tree, None, "contact_step")
    sim = ds.Simulator(scene, q0=q)
    sim.step()
    np.testing.assert_allclose(kernel(q, v, [], v, DT)[1], sim.v, atol=ROUND_OFF)


@pytest.mark.peer
def test_tendons_that_are_no_springs_between_two_points_are_listed():
    pytest.importorskip("mujoco")
    two, at = '<site site="s0"/><site site="s3"/>', "<spatial name='{}' stiffness='9' {}>{}</spatial>"
    tendons = [
        at.format(name, more, wraps)
        for name, more, wraps in (
            ("slack", 'springlength=".1 .9"', two),
            ("short", 'springlength="0"', two),
            ("bent", "", f'<site site="w"/>{two}'),
            ("pulley", "", f'{two}<pulley divisor="2"/><site site="w"/><site site="s1"/>'),
            ("rough", 'frictionloss="1"', two),
        )
    ]
    with pytest.warns(ds.DelassusWarning, match="1 springs, dampers and friction of tendons"):
        tree = ds.load(some_tendons(0, DT, "".join(tendons))[0])
    assert len(tree.constraints) == 5  # that with friction is a spring, too


# -- loops ----------------------------------------------------------------------------------------------------------

PARALLELOGRAM = """<mujoco><option gravity="0 0 0" timestep="1e-3" integrator="implicitfast"/>
<default><geom type="capsule" size=".02" contype="0" conaffinity="0"/></default><worldbody>
<body name="crank"><joint name="a" axis="0 1 0"/><geom fromto="0 0 0 0 0 -.5" mass="1"/>
<body name="rod" pos="0 0 -.5"><joint name="c" axis="0 1 0"/><geom fromto="0 0 0 1 0 0" mass="2"/></body></body>
<body name="rocker" pos="1 0 0"><joint name="b" axis="0 1 0"/><geom fromto="0 0 0 0 0 -.5" mass="1"/></body></worldbody>
<equality><connect body1="rod" body2="rocker" anchor="1 0 0" solref="1e-3 1"/></equality>
<actuator><position joint="a" kp="40" kv="3"/></actuator></mujoco>"""
TURN = np.array([1.0, -1.0, 1.0])
"""Joints of the parallelogram as its crank turns: the rod does not, so that all is one hinge with one inertia."""


@pytest.fixture(scope="module")
def parallelogram():
    pytest.importorskip("mujoco")
    return ds.Scene.from_robot(PARALLELOGRAM)


def inertia(scene):
    return TURN @ ds.mass_matrix(scene.tree, scene.neutral()) @ TURN


def on_crank(scene, k, d, turned=0.0, speed=0.0, dt=DT, **options):
    """The crank held by a spring and a damper, with κ = k dt² / I and δ = d dt / I of these for the time step `DT`."""
    kp, kd = inertia(scene) * np.array([k / DT**2, d / DT])
    gains = {"kp": kp * np.eye(3)[0], "kd": kd * np.eye(3)[0], "control": "pd"}
    return ds.Simulator(scene, q0=turned * TURN, v0=speed * TURN, dt=dt, **gains, **options)


def energy(sim):
    """Energy (J) with that of the springs that controls make."""
    return sum(sim.energy()) + 0.5 * sim.kp @ sim.q**2


@pytest.mark.peer
@pytest.mark.parametrize("d", [0.01, 0.1, 1.0, 2.0, 10.0, 100.0, 1e4])
def test_dampers_on_loops_are_those_of_the_hinge_that_a_parallelogram_is(parallelogram, d):
    """``v⁺ = v / (1 + δ)`` as in trees; forces that are held end in no number from δ = 2 on."""
    sim = on_crank(parallelogram, 0.0, d, speed=1.0)
    for k in np.arange(1.0, 101.0):
        before = energy(sim)
        sim.step(np.zeros(3))
        np.testing.assert_allclose(sim.v, TURN * (1.0 + d) ** -k, rtol=1e-9, atol=1e-14)
        assert energy(sim) <= before
    assert sim.statuses.total() == 0
    assert np.abs(sim.q - sim.q[0] * TURN).max() < LOOPS


LOOPS = 1e-12
"""Errors of loops after steps (m, rad): round-off, 2e-15 seen."""


@pytest.mark.peer
def test_springs_on_loops_are_of_second_order_and_stiff_ones_settle(parallelogram):
    """κ of 1e-4 by the closed form of an oscillation, of 1e-2 to 1e8 by the energy, which never is above the first."""
    errors = []
    for dt in (DT, 0.5 * DT, 0.25 * DT):
        sim = on_crank(parallelogram, 1e-4, 0.0, turned=0.3, dt=dt)
        sim.run(0.4, lambda sim: np.zeros(3))
        errors.append(np.abs(np.r_[sim.q[0] - 0.3 * np.cos(4.0), 0.1 * sim.v[0] + 0.3 * np.sin(4.0)]).max())
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 4.0, rtol=0.1)
    for k in (1e-2, 1.0, 1e8):
        for state in ({"turned": 0.3}, {"speed": 1.0}):
            sim = on_crank(parallelogram, k, 0.0, **state)
            for _ in range(200):
                before = energy(sim)
                sim.step(np.zeros(3))
                assert energy(sim) <= before * (1.0 + 1e-9) + 0.5 * sim.kp[0] * LOOPS**2
            assert k < 1.0 or np.abs(sim.q).max() < 1e-6
            assert sim.statuses.total() == 0


@pytest.mark.peer
def test_an_overdamped_servo_on_a_loop_creeps_as_it_should(parallelogram):
    """``δ = 100`` and ``κ = 1``: the closed form is met to 1e-3, a tenth of the creep in ten steps."""
    slow, fast = ((50.0 + side * np.sqrt(50.0**2 - 1.0)) / DT for side in (-1.0, 1.0))
    sim = on_crank(parallelogram, 1.0, 100.0, turned=0.3)
    sim.run(0.1, lambda sim: np.zeros(3))
    assert sim.q[0] / 0.3 == pytest.approx(np.exp(-0.1 * slow) * fast / (fast - slow), abs=5e-3)


@pytest.mark.peer
def test_servos_on_loops_go_as_mujocos_implicitfast(parallelogram):
    """Its loops yield, by some millimetres: the motion is alike where both halve the time step."""
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(PARALLELOGRAM)
    model.opt.timestep = 1e-4
    data = mujoco.MjData(model)
    sim = ds.Simulator(parallelogram, dt=DT, control="actuators")
    for _ in range(500):
        sim.step([0.7])
        data.ctrl[:] = 0.7
        for _ in range(10):
            mujoco.mj_step(model, data)
    np.testing.assert_allclose(sim.q, data.qpos, atol=5e-3)
    np.testing.assert_allclose(sim.v, data.qvel, atol=2e-2)


def beside_a_wall(scene):
    """The parallelogram, whose rocker touches a wall where its sine is 0.1."""
    tip = Collider("rocker", Sphere(0.05), (0.0, 0.0, -0.5), friction=0.0)
    return scene.add("wall", Box(0.1, 1, 1), at=(0.85, 0, -0.5), friction=0.0).add("tip", tip)


@pytest.mark.peer
@pytest.mark.parametrize("kp", [1e3, 1e5, 1e9])
def test_a_wall_holds_all_of_a_servos_force_through_a_loop(parallelogram, kp):
    sim = ds.Simulator(beside_a_wall(parallelogram), dt=DT, control="pd", kp=[kp, 0, 0], kd=[0.01 * kp, 0, 0])
    for _ in range(400):
        sim.step(0.5 * TURN)
    force = sim.impulses[:, 2].sum() / DT
    assert 0.5 * np.cos(sim.q[2]) * force == pytest.approx(kp * (0.5 - sim.q[0]), rel=1e-6)
    assert np.sin(sim.q[2]) == pytest.approx(0.1, abs=2e-4)
    assert np.abs(sim.v).max() < 1e-6
    assert {status.name for status in sim.statuses} == {"CONVERGED"}


def some_loop(seed, n=5):
    """A random chain of hinges and slides, some with stiff springs, held at one point; a state that keeps it there."""
    rng, mechanism = np.random.default_rng(2000 + seed), some_mechanism(seed, n, "fixed", TURNS_OR_SLIDES)
    joints = [replace(x, stiffness=10 ** rng.uniform(0, 9, 1), damping=10 ** rng.uniform(-2, 7, 1))
              if rng.random() < 0.4 else x for x in mechanism.tree.joints]  # fmt: skip
    tree = replace(mechanism.tree, joints=tuple(joints))
    q = 0.5 * rng.normal(size=tree.nv)
    frame = random_frame(rng, mechanism.moving[-1])
    place = ds.forward_kinematics(tree, q, frame)[:3, 3]
    loop = ds.Point(frame, ds.Frame("world", place))
    v = consistent(tree, [loop], q, rng.normal(size=tree.nv))
    rest = [replace(x, rest_position=q[at]) for x, at in zip(tree.joints, tree.v_slices, strict=True)]
    scene = ds.Scene(replace(tree, joints=tuple(rest)), loops=[loop], gravity=(0, 0, 0))
    return scene, q, v, (frame, place), rng


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 3, 4])
def test_any_gain_on_random_loops(seed):
    """δ of 0.01 to 1e4 beside joints with stiffness to 1e9 and damping to 1e7: loops stay closed, energy falls.

    The loop of seed 3 is locked: its energies are round-off.
    """
    scene, q, v, (frame, place), rng = some_loop(seed)
    usual = np.diagonal(ds.mass_matrix(scene.tree, q))
    for d in (0.01, 1.0, 1e2, 1e4):
        kd = d * usual / DT * (rng.random(len(v)) < 0.6)
        sim = ds.Simulator(scene, q0=q, v0=v, dt=DT, control="pd", kd=kd)
        start = sum(sim.energy())
        for _ in range(60):
            sim.step(q)
            gap = ds.forward_kinematics(scene.tree, sim.q, frame)[:3, 3] - place
            assert np.abs(gap).max() < LOOPS
            assert sum(sim.energy()) <= start * (1.0 + 1e-9)
        assert sim.statuses.total() == 0


def some_pulled_loop(seed):
    """A chain as in `some_loop` on a rod, with servos, a spring along a line and a ball that a floor may hold.

    κ is up to 100.
    """
    scene, q, _, (frame, place), rng = some_loop(seed, 4)
    tree, link = scene.tree, scene.tree.link_names[-2]
    rod = ds.Distance(frame, ds.Frame("world", place + rng.normal(size=3)))
    v, usual = consistent(tree, [rod], q, rng.normal(size=tree.nv)), np.diagonal(ds.mass_matrix(tree, q))
    kp, kd = (10 ** rng.uniform(-1, 2) * usual / DT**k * rng.uniform(0.1, 1.0, tree.nv) for k in (2, 1))
    ends, spring = (random_frame(rng, frame.link), random_frame(rng, "world")), 10 ** rng.uniform([1, -1], [6, 4])
    (*_, z), (*_, ahead) = (
        ds.forward_kinematics(tree, p, ds.Frame(link))[:3, 3] for p in (q, tree.integrate(q, DT * v))
    )
    v = v if ahead < z else -v  # towards the floor
    ball, floor = Collider(link, Sphere(0.1), friction=0.5), Collider("world", HalfSpace(), (0, 0, z - 0.1 - 1e-5))
    scene = ds.Scene(tree, [ball, floor], loops=[rod], start=q).attach(ds.SpringDamper(*ends, *spring))
    return scene, q, v, q + 0.01 * rng.normal(size=tree.nq), kp, kd


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 8])
def test_kernels_of_loops_go_as_scenes_do_and_have_derivatives(seed):
    """20 steps, the floor pushing or not; by differences with the state, with targets and parts of gains and time."""
    scene, q, v, target, kp, kd = some_pulled_loop(seed)
    kernel = scene.contact_step(control="pd", tolerance=1e-12, sweeps=5000)
    derivatives = ds.compile(
        scene.tree, scene.constraints(), "contact_step_derivatives", control="pd", tolerance=1e-12, sweeps=5000
    )
    sim, n = ds.Simulator(scene, q0=q, v0=v, dt=DT, control="pd", kp=kp, kd=kd, tolerance=1e-12), len(v)
    none, parts = np.zeros(3), np.r_[target, np.ones(2 * n + 1)]

    def step(q, v, u):
        return kernel(q, v, none, u[:n], kp * u[n : 2 * n], kd * u[2 * n : 3 * n], DT * u[-1])[:2]

    A, B = differences(step, scene, q, v, parts, 0.02 * STEP)  # gaps of stiff springs are curved: 1e-8 is left
    found = derivatives(q, v, none, target, kp, kd, DT)
    *_, by_target, by_kp, by_kd, by_dt, _ = found
    scale, by_parts = np.abs(A).max(), np.c_[by_target, by_kp * kp, by_kd * kd, by_dt * DT]
    np.testing.assert_allclose(found[4], A, atol=1e-6 * scale)
    np.testing.assert_allclose(by_parts, B, atol=1e-6 * max(scale, np.abs(B).max()))
    pushed, p = set(), none
    for _ in range(20):
        sim.step(target)
        q, v, p, _ = kernel(q, v, p, target, kp, kd, DT)
        np.testing.assert_allclose(v, sim.v, atol=1e-8 * (1.0 + np.abs(sim.v).max()))
        pushed.add(bool(p.any()))
    assert pushed == {seed == 8}


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
    held = ds.Scene(arm, loops=[ds.Distance("rod2", ds.Frame("world", (1, 0, 0)))]).attach(spring)
    sim = ds.Simulator(held)
    sim.step()
    with pytest.raises(ds.DelassusError, match=r"springs on links that loops tie, got SpringDamper"):
        sim.step_derivatives()
    sim = ds.Simulator(replace(held, springs=()), control="pd", kd=[0.0, 1.0])
    sim.step(np.zeros(2))
    with pytest.raises(ds.DelassusError, match=r"a servo or spring on joint 'rod2"):
        sim.step_derivatives(parameters=["mass"])
