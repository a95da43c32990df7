"""Sensors of robots and scenes; `test_mujoco` compares their numbers with MuJoCo's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Box, Capsule, Cylinder, Ellipsoid, Sphere
from random_trees import some_mechanism
from tools import error, random_rotation


def test_sensors_of_mounted_robots():
    """What is mounted keeps its sensors, under its prefix."""
    arm, rng = ds.mechanisms.chain(3), np.random.default_rng(1)
    imu = ds.Sensor("imu", "accelerometer", ds.Frame("link3", (0.1, 0.2, 0.3)), cutoff=20.0)
    arm = replace(arm, sensors=[imu, ds.Sensor("angle", "jointpos", "link2_joint")])
    both = arm.attach("world", arm, prefix="other_")
    q, v, tau = both.random(rng, 5), rng.normal(size=(5, 6)), rng.normal(size=(5, 6))
    found, alone = ds.sensors(both, q, v, tau), ds.sensors(arm, q[:, 3:], v[:, 3:], tau[:, 3:])
    assert list(found) == ["imu", "angle", "other_imu", "other_angle"]
    for name, x in alone.items():
        assert error(found[f"other_{name}"], x) < 1e-12
    assert np.array_equal(found["angle"], q[:, 1:2]) and both.sensor_index("other_imu") == slice(4, 7)


def test_cutoffs_limit_numbers_and_leave_directions_alone():
    """As in MuJoCo: attitudes and axes have none."""
    arm, rng = ds.mechanisms.chain(3), np.random.default_rng(4)
    q, v, tau = arm.random(rng, 20), rng.normal(size=(20, 3)), rng.normal(size=(20, 3))
    for kind in ("framepos", "gyro", "framequat", "framexaxis", "frameyaxis", "framezaxis"):
        free, cut = (ds.sensors(arm, q, v, tau, sensors=[ds.Sensor("s", kind, "link3", cutoff=x)])["s"]
                     for x in (np.inf, 0.1))  # fmt: skip
        has_limit = not kind.startswith("frame") or kind == "framepos"
        assert np.array_equal(cut, np.clip(free, -0.1, 0.1) if has_limit else free) and np.abs(free).max() > 0.1, kind


def test_headers_say_where_sensors_are(tmp_path):
    arm = replace(
        ds.mechanisms.chain(2), sensors=[ds.Sensor("imu", "gyro", "link2"), ds.Sensor("q1", "jointpos", "link1_joint")]
    )
    text = "".join(path.read_text() for path in ds.compile(arm, None, "sensors").export_c(tmp_path))
    assert "imu: gyro of 'link2', sensors[0:3], angular velocity" in text
    assert "q1: jointpos of 'link1_joint', sensors[3]," in text


def test_sensors_read_forces_of_constraints():
    """Those that hold a link act on it as wrenches do, whatever the axes of their rows."""
    arm, rng = ds.mechanisms.chain(7), np.random.default_rng(2)
    end, held = ds.Frame("link7", (0.1, 0.0, 0.2)), [ds.Sensor(kind, kind, "link3") for kind in ("force", "torque")]
    q, v, tau = arm.random(rng, 5), rng.normal(size=(5, 7)), rng.normal(size=(5, 7))
    point = ds.Point(end, axes="world")
    forces = ds.forward_dynamics(arm, q, v, tau, point).forces[0]
    R = ds.forward_kinematics(arm, q, end)[:, :3, :3]
    wrench = np.concatenate([(R.mT @ forces[..., None])[..., 0], np.zeros((5, 3))], axis=-1)
    found = ds.sensors(arm, q, v, tau, point, sensors=held)
    pulled = ds.sensors(arm, q, v, tau, sensors=held, wrenches={end: wrench})
    assert all(error(found[name], pulled[name]) < 1e-9 for name in found)


@pytest.mark.parametrize(
    "given, match",
    [
        ({"sensors": "imo"}, "sensor: expected one of 1 names .imu., got 'imo'"),
        ({"sensors": [ds.Sensor("m", "actuatorfrc", "motor")]}, "actuator of sensor 'm': expected"),
        ({"sensors": [ds.Sensor("f", "force", "world")]}, "moving frame of sensor 'f': expected one on a link that"),
        ({"sensors": [ds.Sensor("c", "subtreecom", "nowhere")]}, "link of sensor 'c': expected one of"),
        ({"sensors": []}, "sensors: expected some of"),
        ({"sensors": ["imu", "imu"]}, "sensors: expected one of each name, got two of 'imu'"),
        ({"sensors": ds.Sensor("toe", "touch", "link3")}, "sensor 'toe': expected contacts, got motion in which noth"),
    ],
)
def test_sensors_that_are_refused(given, match):
    arm = replace(ds.mechanisms.chain(3), sensors=[ds.Sensor("imu", "gyro", "link3")])
    with pytest.raises(ds.DelassusError, match=match):
        ds.sensors(arm, np.zeros(3), np.zeros(3), np.zeros(3), **given)


WITH_SENSORS = ("q_next", "v_next", "impulses_next", "residuals", "sensors")


def test_sensors_of_touch_are_never_zero_in_silence():
    """Of a robot that has some, kernels of all its sensors are refused where contacts are not known."""
    toe = ds.Sensor("toe", "touch", "link2")
    arm = replace(ds.mechanisms.chain(2), sensors=[ds.Sensor("imu", "gyro", "link2"), toe])
    for what in ("sensors", "motion_sensors"):
        with pytest.raises(ds.DelassusError, match=r"sensor 'toe': .* Compile 'contact_step' with outputs=\(…, 'sen"):
            ds.compile(arm, (), what).operations  # noqa: B018
    ball, loop = ds.Contact("link2", Sphere(0.1)), ds.Point("link1", "link2")
    with pytest.raises(ds.DelassusError, match=r"sensors: expected none of 'contact_step' without an output of them"):
        ds.compile(arm, ball, "contact_step", sensors="toe")
    load = ds.Sensor("load", "force", "link2")
    with pytest.raises(ds.DelassusError, match=r"sensors load: expected no loops between links, got 1 loop"):
        ds.compile(arm, [ball, loop], "contact_step", outputs=WITH_SENSORS, sensors=[load]).operations  # noqa: B018


@pytest.mark.usefixtures("one_lane")
def test_sensors_of_contact_steps():
    """Of random mechanisms on a floor: all touch sensors feel what changes momentum, in rollouts as in steps."""
    rng = np.random.default_rng(3)
    for seed in (1, 4):
        tree = some_mechanism(seed, 3, "floating").tree
        links = tree.link_names
        touching = [ds.Contact(ds.Frame(x, rng.normal(size=3)), Sphere(0.1)) for x in links]
        sensors = [ds.Sensor(f"touch {x}", "touch", x) for x in links] + [ds.Sensor("imu", "accelerometer", links[-1])]
        step = ds.compile(tree, touching, "contact_step", outputs=WITH_SENSORS, sensors=sensors, tolerance=1e-9)
        q0, v0, tau = tree.random(rng), 0.1 * rng.normal(size=tree.nv), np.zeros((40, tree.nv))
        q0[2] += 0.1005 - ds.forward_kinematics(tree, q0, [c.frame for c in touching])[:, 2, 3].min()
        q, v, p, worst, numbers = ds.rollout(step, q0, v0, tau, dt=1e-3)
        assert numbers.shape == (40, len(links) + 3) and worst.shape == (3,) and np.all(numbers[:, : len(links)] >= 0.0)
        assert error(numbers[:, : len(links)].sum(axis=1), p[1:, 2::3][:, : len(links)].sum(axis=1) / 1e-3) < 1e-12
        assert numbers[:, : len(links)].any() and not numbers[0, : len(links)].any()
        *_, again = step(q[20], v[20], p[20], tau[20], 1e-3)
        assert error(numbers[20], again) < 1e-12
        # momentum: what touches changes it, beside gravity, up to errors of steps of 1 ms
        h = [ds.momentum(tree, *x)[:3] for x in zip(q, v, strict=True)]
        mass = sum(H[0, 0] for H in tree.inertias)
        pressed = (np.diff(h, axis=0)[:, 2] / 1e-3 + 9.81 * mass)[:, None]
        assert error(numbers[:, : len(links)].sum(axis=1, keepdims=True), pressed) < 2e-3


def test_changes_of_sensors_of_contact_steps():
    """Of a ball in a corner of a volume: derivatives by differences."""
    ball = ds.mechanisms.free_body(1.0, Sphere(0.1).inertia(1.0))
    sensors = [ds.Sensor("touch", "touch", "body", within=Sphere(0.11)), ds.Sensor("imu", "accelerometer", "body")]
    step = ds.compile(
        ball, ds.Contact("body", Sphere(0.1)), "contact_step", outputs=WITH_SENSORS, sensors=sensors, tolerance=1e-12
    )
    at = {"q": np.array([0.1, 0.2, 0.0999, 0, 0, 0, 1]), "v": np.array([0.1, 0.2, -0.3, 1.0, 2.0, 0.5])}
    at |= {"tau": np.array([0.3, -0.2, 5.0, 0.0, 0.0, 0.1]), "dt": 1e-3, "impulses": np.zeros(3)}
    tangent = {"tau": np.array([0.0, 0.1, -1.0, 0.0, 0.2, 0.0]), "v": np.array([0.0, 0.1, 0.3, -0.2, 0.1, 0.4])}
    dots = {f"{k}_dot": tangent.get(k, np.zeros(np.shape(x))) for k, x in at.items()}
    found = step.derivative("jvp")(**at, **dots)[-1]
    ends = [step(**{k: x + e * tangent.get(k, 0.0) for k, x in at.items()})[-1] for e in (1e-6, -1e-6)]
    assert error(found, (ends[0] - ends[1]) / 2e-6) < 1e-6 and found[0] < -100.0


RESTING = """<mujoco><worldbody><geom type="plane" size="5 5 .1"/><body pos="0 0 .1"><freejoint/>
<geom type="box" size=".2 .2 .1" mass="2"/><site name="imu" pos=".1 .05 .02" euler="10 20 30"/>
<site name="left" type="box" size=".05 .3 .2" pos=".2 0 0"/><site name="all" size="1"/>
<body name="arm" pos="0 0 .1"><joint name="a" axis="0 1 0" damping="1" stiffness="30"/>
<geom type="capsule" size=".03" fromto="0 0 .1 .3 0 .1" mass=".5"/><site name="s" pos=".3 0 .1"/></body></body>
</worldbody><actuator><motor name="m" joint="a" gear="2"/></actuator><sensor><touch name="left" site="left"/>
<accelerometer name="acc" site="imu"/><gyro name="gyro" site="imu"/>
<force name="f" site="s"/><torque name="t" site="s"/><force name="base" site="imu"/><touch name="all" site="all"/>
<framepos name="p" objtype="site" objname="s"/>
<actuatorfrc name="motor" actuator="m"/><jointactuatorfrc name="joint" joint="a"/></sensor></mujoco>"""


@pytest.fixture(scope="module")
def resting(tmp_path_factory):
    """A box on a floor with an arm on a spring, when it has come to rest, under a constant control."""
    pytest.importorskip("mujoco")
    path = tmp_path_factory.mktemp("sensors") / "box.xml"
    path.write_text(RESTING)
    sim = ds.Simulator(ds.Scene.from_robot(path), control="actuators", dt=2e-3)
    sim.run(1.5, lambda sim: [0.2])
    return sim


@pytest.mark.peer
def test_sensors_of_a_scene(resting):
    """As MuJoCo shows them where all is at rest: contacts there are soft."""
    mujoco = pytest.importorskip("mujoco")
    model = mujoco.MjModel.from_xml_string(RESTING)
    data = mujoco.MjData(model)
    data.ctrl[:] = 0.2
    mujoco.mj_step(model, data, 1000)
    scene, tree = resting.scene, resting.scene.tree
    step = scene.contact_step(control="actuators", outputs=WITH_SENSORS)
    *_, numbers = step(resting.q, resting.v, np.zeros(step.arguments[2].shape), [0.2], 2e-3)
    for name, x in resting.sensors().items():
        k = model.sensor(name).id
        wanted = data.sensordata[model.sensor_adr[k] :][: model.sensor_dim[k]]
        for found in (x, numbers[tree.sensor_index(name)]):
            assert np.max(np.abs(found - wanted)) < 5e-3 * max(1.0, np.max(np.abs(wanted))), name


@pytest.mark.peer
def test_sensors_of_a_scene_balance(resting):
    """Contacts carry the weight of all, the free joint nothing, and the arm's joint that of the arm."""
    found, g = resting.sensors(), 9.81
    assert abs(found["all"][0] - 2.5 * g) < 1e-6 and np.max(np.abs(found["base"])) < 1e-6
    assert abs(np.linalg.norm(found["f"]) - 0.5 * g) < 1e-6 and abs(np.linalg.norm(found["acc"]) - g) < 1e-6
    assert found["motor"] == 0.2 and found["joint"] == 0.4 and 0.0 < found["left"][0] < found["all"][0]
    start = ds.Simulator(resting.scene)
    assert [*start.sensors(["gyro", "p"])] == ["gyro", "p"]
    with pytest.raises(ds.DelassusError, match="sensors acc: expected a step since the start"):
        start.sensors(["acc", "p"])
    state = resting.get_state()
    resting.set_state(state)
    with pytest.raises(ds.DelassusError, match="a step since the start"):
        resting.sensors("f")
    resting.run(0.01, lambda sim: [0.2])


@pytest.mark.peer
@pytest.mark.parametrize("control, size, other", [("tau", 1, "actuators"), ("actuators", 7, "tau"), ("pd", 7, "tau")])
def test_controls_of_another_size_are_those_of_another_control(resting, control, size, other):
    sim = ds.Simulator(resting.scene, control=control)
    with pytest.raises(
        ds.DelassusError, match=rf"got shape \({size},\). Make the simulator with .*control='{other}' \("
    ):
        sim.step(np.zeros(size))
    with pytest.raises(ds.DelassusError, match=r"got shape .3,.. Pass one number for each"):
        sim.step(np.zeros(3))


def test_sensors_while_a_body_falls():
    """An accelerometer shows nothing in flight, and the impulse of an impact by its time."""
    ball = ds.mechanisms.free_body(1.0, Sphere(0.1).inertia(1.0))
    touching = [ds.contact.Collider("body", Sphere(0.1)), ds.contact.Collider("world", ds.contact.HalfSpace())]
    sim = ds.Simulator(ds.Scene(ball, touching), q0=[0, 0, 1.1, 0, 0, 0, 1], v0=[0, 0, 0, 1, 2, 3], dt=1e-3)
    held = [ds.Sensor("imu", "accelerometer", "body"), ds.Sensor("touch", "touch", "body")]
    sim.run(0.2)
    assert all(np.max(np.abs(x)) < 1e-9 for x in sim.sensors(held).values())
    while not sim.impulses.any():
        speed = sim.v[2]
        sim.step()
    found = sim.sensors(held)
    R = ds.forward_kinematics(ball, sim.q, "body")[:3, :3]
    assert error(found["touch"], sim.impulses[:, 2] / 1e-3) < 1e-12 and found["touch"][0] > 1e3 > abs(speed)
    assert abs((R @ found["imu"])[2] - found["touch"][0]) < 0.02 * found["touch"][0]  # axes turn within the step


@pytest.mark.parametrize(
    "shape, inside, outside",
    [
        (Sphere(0.5), [0.3, 0.3, 0.2], [0.4, 0.4, 0.0]),
        (Capsule(0.1, 1.0), [0.0, 0.05, 0.58], [0.05, 0.05, 0.595]),
        (Cylinder(0.1, 1.0), [0.06, 0.06, -0.49], [0.08, 0.08, 0.0]),
        (Box(0.2, 0.4, 0.6), [0.09, -0.19, 0.29], [0.11, 0.0, 0.0]),
        (Ellipsoid(0.1, 0.2, 0.3), [0.0, 0.0, 0.29], [0.09, 0.18, 0.0]),
    ],
)
def test_shapes_contain_points(shape, inside, outside):
    assert shape.contains(np.array([inside, outside])).tolist() == [True, False]


@pytest.mark.peer
@pytest.mark.usefixtures("one_lane")
def test_volumes_of_touch_sensors():
    """A contact counts where MuJoCo's ray from it, out of the body, meets the volume: in scenes and kernels."""
    mujoco = pytest.importorskip("mujoco")
    rng, ball = np.random.default_rng(5), ds.mechanisms.free_body(1.0, Sphere(0.1).inertia(1.0))
    shapes = {
        "SPHERE": (Sphere(0.05), [0.05, 0.0, 0.0]),
        "CAPSULE": (Capsule(0.03, 0.08), [0.03, 0.04, 0.0]),
        "CYLINDER": (Cylinder(0.04, 0.1), [0.04, 0.05, 0.0]),
        "BOX": (Box(0.04, 0.08, 0.12), [0.02, 0.04, 0.06]),
        "ELLIPSOID": (Ellipsoid(0.03, 0.06, 0.09), [0.03, 0.06, 0.09]),
    }
    sensors, wanted, down = [], [], np.array([0.0, 0.0, -1.0])
    for name, (shape, size) in shapes.items():
        for k in range(40):
            place, R = 0.06 * rng.normal(size=3) - [0.0, 0.0, 0.1], np.eye(3) if k % 4 == 0 else random_rotation(rng)
            frame = ds.Frame("body", place, R)
            sensors.append(ds.Sensor(f"{name} {k}", "touch", frame, within=shape))
            start, kind = R.T @ ([0.0, 0.0, -0.1] - place), int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}"))
            met = mujoco.mju_rayGeom(np.zeros(3), np.eye(3).ravel(), np.array(size), start, R.T @ down, kind) >= 0.0
            assert met or not shape.contains(start)
            wanted.append(9.81 * met)
    touching = [ds.contact.Collider("body", Sphere(0.1)), ds.contact.Collider("world", ds.contact.HalfSpace())]
    scene = ds.Scene(ball, touching)
    sim = ds.Simulator(scene, q0=[0, 0, 0.1, 0, 0, 0, 1], dt=1e-3)
    step = scene.contact_step(outputs=WITH_SENSORS, sensors=sensors, tolerance=1e-11)
    *_, numbers = step(sim.q, sim.v, np.zeros(3), np.zeros(6), 1e-3)
    sim.step()
    for found in (np.concatenate([*sim.sensors(sensors).values()]), numbers):
        assert error(found, np.array(wanted)) < 1e-6  # tolerance of the simulator's solver, over a step
    assert 20 < np.count_nonzero(wanted) < 100
