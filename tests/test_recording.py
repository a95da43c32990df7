"""Recordings and checkpoints: what goes into a file comes out of it, and a run that stops goes on to the last bit."""

from __future__ import annotations

import json
from dataclasses import fields

import numpy as np
import pytest

import delassus as ds
from delassus.contact.scene import Scene
from delassus.contact.shapes import Collider, HalfSpace, Sphere
from delassus.simulate import storage
from delassus.simulate.checkpoint import load_checkpoint, save_checkpoint
from delassus.simulate.recording import ARRAYS, Recorder, Recording
from delassus.simulate.scenes import boxes, pendulum

SUFFIXES = (".npz", ".h5")


def bouncing(restitution=0.5, gravity=9.81):
    """Two balls that bounce on a floor, one beside the other."""
    ball = ds.mechanisms.free_body(1.0, Sphere(0.1).inertia(1.0))
    on = [Collider(f"{name}/body", Sphere(0.1), restitution=restitution) for name in ("left", "right")]
    scene = Scene({"left": ball, "right": ball}, [*on, Collider("world", HalfSpace(), restitution=restitution)],
                  gravity=(0, 0, -gravity))  # fmt: skip
    q0 = scene.configuration(left=[0, 0, 0.11, 0, 0, 0, 1], right=[1, 0, 0.13, 0, 0, 0, 1])
    return scene, q0


def kicked(sim):
    """Controller that draws random numbers: they must go on as well."""
    return sim.rng.normal(scale=0.5, size=sim.scene.tree.nv)


@pytest.fixture(scope="module")
def run():
    scene, q0 = bouncing()
    sim = ds.Simulator(scene, q0=q0, dt=1e-3, seed=4)
    return sim, sim.run(0.7, kicked, record=Recorder())


def same(a, b):
    for name in ARRAYS:
        x, y = getattr(a, name), getattr(b, name)
        assert x.dtype == y.dtype and x.shape == y.shape and np.array_equal(x, y), name
    assert a.origin == b.origin


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_recording_comes_back_as_it_was(run, tmp_path, suffix):
    _, recording = run
    assert recording.contact_counts.max() == 2
    read = Recording.load(recording.save(tmp_path / "deep" / f"run{suffix}"))
    same(recording, read)
    assert read.scene is None
    assert list((tmp_path / "deep").iterdir()) == [tmp_path / "deep" / f"run{suffix}"]  # nothing else is left there


def test_what_is_recorded_is_what_happened(run):
    sim, recording = run
    scene, q0 = bouncing()
    again = ds.Simulator(scene, q0=q0, dt=1e-3, seed=4)
    contacts = 0
    for k in range(len(recording)):
        assert recording.time[k] == again.time
        assert np.array_equal(recording.q[k], again.q) and np.array_equal(recording.v[k], again.v)
        kinetic, potential = again.energy()
        # The recording computes all energies at once, in other registers: equal up to rounding.
        assert np.isclose(recording.kinetic[k], kinetic, rtol=1e-13, atol=1e-13)
        assert np.isclose(recording.potential[k], potential, rtol=1e-13)
        touching = recording.contacts(k)
        n = recording.contact_counts[k]
        assert n == len(touching["times"]) == len(again.impulses)
        if n:
            frames = again.contacts.frames
            assert np.array_equal(touching["links"], again.contacts.links)
            assert np.array_equal(touching["points"], again.contacts.points)
            assert np.array_equal(touching["depths"], again.contacts.depths)
            assert np.array_equal(touching["normals"], again.contacts.normals)
            in_frame = np.einsum("nij,ni->nj", frames, touching["impulses"])
            assert np.allclose(in_frame, again.impulses, rtol=0, atol=1e-15)
            assert np.all(touching["times"] == again.time)
        contacts += n
        again.step(kicked(again))
    assert contacts == len(recording.contact_times) > 100
    assert sum(recording.origin.statuses.values()) == sum(sim.statuses.values())
    assert recording.origin.seed == 4 and recording.origin.dt == 1e-3
    with pytest.raises(ValueError, match="read-only"):
        recording.q[0] = 0.0


def test_fewer_samples_lose_no_impact(run):
    _, every = run
    scene, q0 = bouncing()
    sim = ds.Simulator(scene, q0=q0, dt=1e-3, seed=4)
    few = sim.run(0.7, kicked, record=Recorder(every=10, energy=False))
    n = (len(every) - 1) // 10
    assert np.array_equal(few.q, every.q[: 10 * n + 1 : 10])
    assert len(few.kinetic) == 0
    until = few.contact_times <= few.time[-1] + 1e-9
    assert np.array_equal(
        few.contact_impulses[until], every.contact_impulses[every.contact_times <= few.time[-1] + 1e-9]
    )
    k = int(np.argmax(np.diff(few.contact_offsets)))
    times = few.contacts(k)["times"]
    assert few.time[k - 1] < times.min() and times.max() <= few.time[k]


def test_momentum_of_a_ball_is_its_weight_and_the_recorded_impulses(run):
    """Momentum balance over the whole run, from nothing but the recording."""
    _, r = run
    scene, q0 = bouncing()
    sim = ds.Simulator(scene, q0=q0, dt=1e-3)
    r = sim.run(0.5, record=Recorder())
    on_left = r.contact_impulses[r.contact_links[:, 0] == 0, 2].sum()
    gained = r.v[-1, 2] - r.v[0, 2]  # it does not turn, so its axes are the world's
    assert np.isclose(gained, on_left - 9.81 * r.time[-1], atol=1e-10)


def test_a_recorder_goes_on_and_is_not_shared():
    ready = pendulum(3)
    whole = ready.simulator().run(0.02, record=Recorder())
    sim, recorder = ready.simulator(), Recorder()
    sim.run(0.01, record=recorder)
    same(whole, sim.run(0.01, record=recorder))
    with pytest.raises(ds.DelassusError, match="Make a Recorder for each run"):
        ready.simulator().run(0.01, record=recorder)
    sim.run(0.001)
    with pytest.raises(ds.DelassusError, match="Make a Recorder for each run"):
        sim.run(0.01, record=recorder)  # steps are missing between
    with pytest.raises(ds.DelassusError, match="start"):
        Recorder().finish(sim)


def test_without_contacts():
    ready = boxes(1)
    recording = ready.simulator().run(0.15, record=Recorder(contacts=False))
    assert len(recording.contact_times) == 0 and recording.contact_counts[-1] == 4
    assert len(recording.contacts(-1)["points"]) == 0


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_checkpoint_goes_on_to_the_last_bit(tmp_path, suffix):
    scene, q0 = bouncing()
    options = {"q0": q0, "dt": 1e-3, "seed": 11, "n_directions": 6, "resting": 0.05, "tolerance": 1e-9}
    whole, half = ds.Simulator(scene, **options), ds.Simulator(scene, **options)
    whole.run(0.2, kicked)
    half.run(0.1, kicked)
    path = save_checkpoint(half, tmp_path / f"half{suffix}")
    other = load_checkpoint(bouncing()[0], path)
    assert other.options == whole.options
    other.run(0.1, kicked)
    assert other.time == whole.time and other.steps == whole.steps == 200
    assert np.array_equal(other.q, whole.q) and np.array_equal(other.v, whole.v)
    assert other.statuses == whole.statuses
    assert np.array_equal(other.impulses, whole.impulses)
    assert other.rng.random() == whole.rng.random()


@pytest.mark.parametrize(
    ("scene", "message"),
    [
        (lambda: pendulum(3).scene, "other links, joints or masses"),
        (lambda: bouncing(restitution=0.6)[0], "other colliders, loops or gravity"),
        (lambda: bouncing(gravity=1.6)[0], "other colliders, loops or gravity"),
    ],
)
def test_a_checkpoint_of_another_scene_is_refused(tmp_path, scene, message):
    own, q0 = bouncing()
    path = save_checkpoint(ds.Simulator(own, q0=q0), tmp_path / "c.npz")
    with pytest.raises(ds.DelassusError, match=message):
        load_checkpoint(scene(), path)


def test_a_recording_of_another_scene_is_refused(run, tmp_path):
    path = run[1].save(tmp_path / "r.npz")
    assert Recording.load(path, scene=bouncing()[0]).scene is not None
    with pytest.raises(ds.DelassusError, match="scene that was recorded"):
        Recording.load(path, scene=pendulum(3).scene)


@pytest.mark.parametrize("name", ["r.txt", "r", "r.parquet", "r.npz.zip"])
def test_other_formats_are_refused(run, tmp_path, name):
    for act in (run[1].save, Recording.load):
        with pytest.raises(ds.DelassusError, match=r"ends in \.npz or \.h5"):
            act(tmp_path / name)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_that_are_no_recordings_are_refused(run, tmp_path, suffix):
    sim, recording = run
    with pytest.raises(ds.DelassusError, match="Check the path"):
        Recording.load(tmp_path / f"none{suffix}")
    (tmp_path / f"text{suffix}").write_text("hello")
    with pytest.raises(ds.DelassusError, match="damaged, or another one"):
        Recording.load(tmp_path / f"text{suffix}")
    whole = recording.save(tmp_path / f"whole{suffix}").read_bytes()
    (tmp_path / f"part{suffix}").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ds.DelassusError, match="damaged, or another one"):
        Recording.load(tmp_path / f"part{suffix}")
    with pytest.raises(ds.DelassusError, match="saved as a recording"):
        Recording.load(save_checkpoint(sim, tmp_path / f"check{suffix}"))
    with pytest.raises(ds.DelassusError, match="saved as a checkpoint"):
        load_checkpoint(sim.scene, tmp_path / f"whole{suffix}")
    some = storage.write(tmp_path / f"some{suffix}", "recording", {"time": np.zeros(3)}, {})
    with pytest.raises(ds.DelassusError, match="all arrays of a recording"):
        Recording.load(some)


def test_no_file_can_run_code(run, tmp_path):
    """Arrays of objects, which NumPy would unpickle, are refused."""
    arrays = {name: getattr(run[1], name) for name in ARRAYS}
    arrays["q"] = np.array([{"a": 1}], dtype=object)
    np.savez(tmp_path / "bad.npz", **arrays, description=np.array(json.dumps({"kind": "recording"})))
    with pytest.raises(ds.DelassusError, match="damaged, or another one"):
        Recording.load(tmp_path / "bad.npz")


def test_a_folder_that_cannot_be_written(run, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ds.DelassusError, match="can be written"):
        run[1].save(tmp_path / "file" / "r.npz")


@pytest.mark.parametrize("every", [0, -1, 1.5, True, "2"])
def test_bad_intervals(every):
    with pytest.raises(ds.DelassusError, match="every"):
        Recorder(every)


def test_all_arrays_are_named():
    assert {*ARRAYS, "origin", "scene"} == {f.name for f in fields(Recording)}
