"""Sensors of robots and scenes; `test_mujoco` compares their numbers with MuJoCo's."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
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
    ],
)
def test_sensors_that_are_refused(given, match):
    arm = replace(ds.mechanisms.chain(3), sensors=[ds.Sensor("imu", "gyro", "link3")])
    with pytest.raises(ds.DelassusError, match=match):
        ds.sensors(arm, np.zeros(3), np.zeros(3), np.zeros(3), **given)
