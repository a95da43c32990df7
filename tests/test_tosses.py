"""Tosses of files, simulated from their first states."""

import numpy as np
import pytest

import delassus as ds
from delassus.errors import ModelError
from delassus_studies.bench.contact.tosses import HALF, RATE, by_contact_step, by_simulator, errors, read_tosses


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
