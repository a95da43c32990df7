"""Sensors of robots and scenes; `test_mujoco` compares their numbers with MuJoCo's."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Box, Capsule, Cylinder, Ellipsoid, Sphere
from tools import error


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
    again = pickle.loads(pickle.dumps(both))
    assert [x.fingerprint for x in again.sensors] == [x.fingerprint for x in both.sensors]


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
    ],
)
def test_sensors_that_are_refused(given, match):
    arm = replace(ds.mechanisms.chain(3), sensors=[ds.Sensor("imu", "gyro", "link3")])
    with pytest.raises(ds.DelassusError, match=match):
        ds.sensors(arm, np.zeros(3), np.zeros(3), np.zeros(3), **given)


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
    for name, x in resting.sensors().items():
        k = model.sensor(name).id
        wanted = data.sensordata[model.sensor_adr[k] :][: model.sensor_dim[k]]
        assert np.max(np.abs(x - wanted)) < 5e-3 * max(1.0, np.max(np.abs(wanted))), name


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
