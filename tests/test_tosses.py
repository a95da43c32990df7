"""Tosses of files, simulated from their first states, and parameters of time steps from measured trajectories."""

import numpy as np
import pytest

import delassus as ds
from delassus.errors import ModelError
from delassus_studies.bench.contact.tosses import HALF, RATE, by_contact_step, by_simulator, errors, read_tosses
from delassus_studies.identify import identify


def flights(rng, lengths):
    """States of cubes that turn about their centres, which fall: velocities are differences to the state before."""
    out, body = [], ds.mechanisms.free_body(1.0, np.eye(3))
    for n in lengths:
        t = np.arange(-1, n)[:, None] / RATE
        start, v, w = rng.uniform([-1, -1, 3], [1, 1, 4]), rng.uniform(-1, 1, 3), rng.normal(size=3)
        position = start + v * t - 0.5 * 9.81 * np.array([0, 0, 1]) * t**2
        turned = np.concatenate([np.zeros((n + 1, 3)), w * t], axis=1)
        quaternions = body.integrate(body.random(rng), turned)[1:, 3:]
        velocities = np.diff(position, axis=0) * RATE
        parts = position[1:] / HALF, quaternions[:, [3, 0, 1, 2]], velocities / HALF, np.tile(w, (n, 1))
        out.append(np.concatenate(parts, axis=1))
    return out


def test_free_flight_is_met(tmp_path):
    tosses = flights(np.random.default_rng(2), (30, 50))
    path = tmp_path / "tosses.npz"
    np.savez(path, states=np.concatenate(tosses), lengths=[30, 50])
    read = read_tosses(path)
    assert [len(x) for x in read.poses] == [30, 50]
    for simulate in (by_simulator, by_contact_step):
        found = errors(simulate(read), read)
        assert found.shape == (2, 4)
        np.testing.assert_allclose(found, 0, atol=1e-5)  # arccos at 1 has half the digits
    np.savez(path, states=np.concatenate(tosses), lengths=[30, 49])
    with pytest.raises(ModelError, match=r"tosses\.npz: expected tosses of a cube"):
        read_tosses(path)


def test_parameters_are_found_back():
    """A ball that slides and bounces once, and the payload of an arm: within four of their standard errors."""
    rng, dt, every, noise = np.random.default_rng(4), 2e-3, 5, 1e-3
    ball = ds.mechanisms.free_body(0.5, 0.002 * np.eye(3), name="ball")
    contact = ds.Contact("ball", ds.contact.Sphere(0.1))
    step = ds.compile(ball, contact, "contact_step", friction="input", restitution="input", tolerance=1e-8)
    n, T = 12, 100
    q0 = np.tile([0, 0, 0.15, 0, 0, 0, 1.0], (n, 1))
    v0 = rng.normal([5, 0, -1, 0, 0, 0], [0.3, 0.3, 0.1, 3, 3, 3], (n, 6))
    true = {"friction": np.array([0.25]), "restitution": np.array([0.6])}
    q = ds.rollout(step, q0, v0, np.zeros((T, 6)), dt, **true)[0][::every]
    measured = ball.integrate(q, noise * rng.normal(size=(*q.shape[:2], 6)))
    measured[0], measured[-3:, 2] = q0, np.nan
    bounds = {"friction": (0, 1), "restitution": (0, 1)}
    start = {"friction": 0.15, "restitution": 0.5}
    found = identify(step, measured, v0, np.zeros((T, 6)), dt, start, bounds=bounds, every=every, scale=noise)
    for name, value in true.items():
        assert 0 < found.errors[name] < 0.02 and abs(found.values[name] - value) < 4 * found.errors[name]
    assert 0.9 < found.residual < 1.1

    arm = ds.mechanisms.chain(3)
    step = ds.compile(arm, (), "step", payloads=["link3"])
    inertia, com = (
        np.array([[0.011, 0.001, 0], [0.001, 0.014, 0.0003], [0, 0.0003, 0.009]]),
        np.array([0.05, 0.02, -0.03]),
    )
    about = inertia + 0.8 * (com @ com * np.eye(3) - np.outer(com, com))
    payload = np.r_[0.8, 0.8 * com, about[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]]
    tau, q0 = 2 * rng.normal(size=(T, 4, 3)), arm.random(rng, batch=4)
    q = ds.rollout(step, q0, np.zeros(3), tau, dt, payload0=payload, time_axis=0)[0][::every]
    measured = q + noise * rng.normal(size=q.shape)
    measured[0] = q0
    start = {"payload0": [0.3, 0, 0, 0, 0.01, 0, 0.01, 0, 0, 0.01]}
    found = identify(step, measured, np.zeros(3), tau, dt, start, every=every, scale=noise)
    assert (np.abs(found.values["payload0"] - payload) < 4 * found.errors["payload0"]).all()
    assert found.errors["payload0"][0] < 0.05
    with pytest.raises(ds.DelassusError, match="mass and inertia of a body"):
        identify(step, measured, np.zeros(3), tau, dt, {"payload0": np.zeros(10)}, every=every)
