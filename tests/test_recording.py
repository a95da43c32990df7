"""Recordings and checkpoints: what goes into a file comes out of it, and a run that stops goes on to the last bit."""

from __future__ import annotations

import hashlib
import json
import os
import random
import tracemalloc
import zipfile
from dataclasses import fields, replace
from functools import partial
from pathlib import Path

import h5py
import numpy as np
import pytest

import delassus as ds
from delassus.contact import Collider, HalfSpace, HeightField, Mesh, Scene, Sphere
from delassus.errors import ConfigurationError
from internals import ARRAYS, Recorder, Recording, boxes, load_checkpoint, pendulum, save_checkpoint, scene_fingerprint
from tools import on_a_full_disk

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
        (lambda: pendulum(3).scene, "other links, joints, masses, actuators or gravity"),
        (lambda: bouncing(restitution=0.6)[0], "other colliders, loops, limits or friction"),
        (lambda: bouncing(gravity=1.6)[0], "other links, joints, masses, actuators or gravity"),
    ],
)
def test_a_checkpoint_of_another_scene_is_refused(tmp_path, scene, message):
    own, q0 = bouncing()
    path = save_checkpoint(ds.Simulator(own, q0=q0), tmp_path / "c.npz")
    with pytest.raises(ds.DelassusError, match=message):
        load_checkpoint(scene(), path)


def test_whatever_moves_a_scene_tells_it_apart():
    """A run does not go on in a scene with other limits, friction, colliders or terrain."""
    arm, field = ds.mechanisms.chain(2), HeightField(np.zeros((3, 3)), (1.0, 1.0))
    collider, mesh = Collider("link2", Sphere(0.1)), Mesh(field.vertices, field.triangles, convex=False)

    def prints(on=collider, terrain=field, options=None, **of_joint):
        joints = (replace(arm.joints[0], **of_joint), arm.joints[1])
        scene = Scene(replace(arm, joints=joints), [on, Collider("world", terrain)], **(options or {}))
        return scene.tree.fingerprint, scene_fingerprint(scene)

    changed = [
        prints(), prints(terrain=mesh),
        *(prints(**{name: [0.3]}) for name in ("lower", "upper", "friction", "damping")),
        *(prints(options={"friction_rule": rule}) for rule in ("max", "harmonic-mean")),
        *(prints(replace(collider, **{name: 0.3})) for name in ("friction", "restitution")),
        prints(options={"parents_collide": True}), prints(options={"ignore": [("link1", "link2")]}),
        prints(options={"loops": ds.Point("link2")}), prints(options={"gravity": (0, 0, -1)}),
    ]  # fmt: skip
    assert len(set(changed)) == len(changed)


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
    some = tmp_path / f"some{suffix}"
    forge(some, {"time": np.zeros(3)}, {"kind": "recording"})
    with pytest.raises(ds.DelassusError, match="all arrays of a recording"):
        Recording.load(some)


# -- damaged and forged files ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(run, tmp_path_factory):
    """A short recording and a checkpoint in each format, and what loads and compares them."""
    scene, q0 = bouncing()
    sim = ds.Simulator(scene, q0=q0, dt=1e-3, seed=4)
    recording = sim.run(0.06, kicked, record=Recorder())
    folder = tmp_path_factory.mktemp("saved")

    def load(path):
        if path.name.startswith("recording"):
            return Recording.load(path, scene=scene)
        return load_checkpoint(scene, path)

    def unchanged(read):
        if isinstance(read, Recording):
            return same(recording, read)
        ours, theirs = sim.get_state(), read.get_state()
        assert all(np.array_equal(ours[name], theirs[name]) for name in ours) and read.options == sim.options

    for suffix in SUFFIXES:
        recording.save(folder / f"recording{suffix}")
        save_checkpoint(sim, folder / f"checkpoint{suffix}")
    return sorted(folder.iterdir()), load, unchanged


def refused(load, path):
    """Whether a file is refused as it must be: by the one error, which names it."""
    try:
        load(path)
    except ds.DelassusError as error:
        assert type(error) is ConfigurationError and path.name in str(error)
        assert len(str(error)) < 2000 and str(error).isprintable()
        return True
    return False


def contents(path):
    """Arrays of a file, and its description."""
    if path.suffix == ".npz":
        with np.load(path) as file:
            arrays = dict(file)
    else:
        with h5py.File(path) as file:
            arrays = {name: file[name][()] for name in file}
    return arrays, json.loads(arrays.pop("description").tobytes())


def forge(path, arrays, description):
    """Write a file whose checksums are right, whatever it holds."""
    text = description if isinstance(description, bytes) else json.dumps(description).encode()
    arrays = {**arrays, "description": np.frombuffer(text, np.uint8)}
    if path.suffix == ".npz":
        np.savez(path, **arrays)
    else:
        with h5py.File(path, "w") as file:
            for name, array in arrays.items():
                file[name] = array
        signed(path)


def signed(path):
    """Append the checksum that HDF5 files of this library end with."""
    path.write_bytes(path.read_bytes() + hashlib.sha256(path.read_bytes()).digest())


def damages(rng, whole):
    """What happens to files on disks and on networks."""
    at, size = rng.randrange(len(whole)), rng.randrange(1, 600)
    other = rng.randrange(len(whole))
    yield whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :]
    yield whole[:at]
    yield whole[:at] + bytes(size) + whole[at + size :]
    yield whole[:at] + whole[at + size :]
    yield whole[:at] + whole[other:][:size] + whole[at:]
    yield whole[at:] + whole[:at]
    yield whole + whole[at:]


@pytest.mark.parametrize("k", range(4))
def test_damaged_files_are_refused(saved, tmp_path, k):
    """Seventy of each kind and format: none loads other numbers, raises another error, or takes memory."""
    paths, load, unchanged = saved
    rng, whole, path = random.Random(k), paths[k].read_bytes(), tmp_path / paths[k].name
    path.write_bytes(whole)
    unchanged(load(path))
    tracemalloc.start()
    for _ in range(10):
        for damaged in damages(rng, whole):
            path.write_bytes(damaged)
            if not refused(load, path):  # dates of an archive, say
                unchanged(load(path))
    assert tracemalloc.get_traced_memory()[1] < 10 * len(whole) + 4e6
    tracemalloc.stop()


HOSTILE = (
    -5, 10**13, 2**63, 2**64, 10**400, 1e300, float("nan"), float("inf"), None, True, "", "O", "|S8", "\u202e[/]",
    "nsgs", [], [10**13], [-1, -1], [[[]]], {}, {"a": {}}, 10**9, 0, 0.0, "q", [10**9, 0], [2**62, 4],
)  # fmt: skip


def places_in(value):
    """Every list or mapping in a description, with every key or index of it."""
    if isinstance(value, dict | list | tuple):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places_in(value[key])


ARRAYS_OF_OTHERS = (
    np.zeros(0), np.zeros((2, 3)), np.zeros((0, 3, 3)), np.full(61, np.nan), np.zeros(61, int), np.array([b"a"] * 61),
    np.float64(1.0), np.zeros(61, np.float32), np.zeros(61, ">f8"), np.zeros(61, [("a", "f8")]), np.zeros((1,) * 20),
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("k", range(4))
def test_forged_contents_load_or_are_refused(saved, tmp_path, k):
    """The checksums are right, what they cover is not: any part missing, or replaced by something else."""
    paths, load, _ = saved
    rng, size, path = random.Random(10 + k), paths[k].stat().st_size, tmp_path / paths[k].name
    n = len([*places_in(contents(paths[k]))])
    tracemalloc.start()
    refusals = 0
    places = range(rng.randrange(3), n, 3)
    for at in places:
        parts = list(contents(paths[k]))
        holder, key = [*places_in(parts)][at]
        if holder is parts:
            continue
        if rng.random() < 0.3:
            del holder[key]
        else:
            holder[key] = rng.choice(ARRAYS_OF_OTHERS if holder is parts[0] else HOSTILE)
        forge(path, *parts)
        refusals += refused(load, path)
    assert refusals > 0.7 * len(places)
    assert tracemalloc.get_traced_memory()[1] < 10 * size + 4e6
    tracemalloc.stop()


def put(*keys):
    """Change of a description or of arrays: the last of ``keys`` in place of what is under the others, or nothing."""
    *holders, last, value = keys

    def change(arrays, description):
        at = description
        for key in holders:
            at = arrays if key == "arrays" else at[key]
        if value is None:
            del at[last]
        else:
            at[last] = value(at[last]) if callable(value) else value

    return change


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("recording", put("arrays", "q", None), "not all arrays of a recording: 'q'"),
        ("recording", put("arrays", "time", lambda x: x[:1]), "q of type|tau of type"),
        ("recording", put("arrays", "time", lambda x: x[:, None]), "time of type 'f8' and shape .61, 1."),
        ("recording", put("arrays", "q", lambda x: x[:, 1:]), "states of other length"),
        ("recording", put("arrays", "q", lambda x: x.astype("S8")), "q of type 'S8'"),
        ("recording", put("arrays", "time", np.zeros_like), "times that do not increase"),
        ("recording", put("colliders", []), "contact_colliders that do not exist"),
        ("recording", put("link_names", []), "contact_links that do not exist"),
        ("recording", put("dt", 0.0), "steps of 0.0 s"),
        ("recording", put("every", -1), "every -1"),
        ("recording", put("gravity", [0.0]), "gravity"),
        ("recording", put("statuses", {"a": "b"}), "statuses.a': 'b'"),
        ("checkpoint", put("arrays", "islands", None), "'islands'.*of another version"),
        ("checkpoint", put("arrays", "rested", lambda x: x[:0]), "rested of type"),
        ("checkpoint", put("arrays", "sustained", np.zeros((1, 3))), "contacts_links of type|sustained of type"),
        ("checkpoint", put("options", None), "'description': "),
        ("checkpoint", put("options", "solver", "best"), "solver"),
        ("checkpoint", put("options", "max_overlap", 1.0), "options': "),
        ("checkpoint", put("state", "steps", -5), "steps of the state"),
        ("checkpoint", put("state", "rng", "state", {"state": -1, "inc": 1}), "a generator and statuses"),
        ("checkpoint", put("scene", 3), "scene': 3"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(saved, tmp_path, kind, change, message):
    paths, load, _ = saved
    whole = next(p for p in paths if p.name == f"{kind}.npz")
    path, parts = tmp_path / whole.name, contents(whole)
    change(*parts)
    forge(path, *parts)
    with pytest.raises(ConfigurationError, match=message):
        load(path)
    assert refused(load, path)


@pytest.mark.parametrize(
    "text", [b"", b"\xff", b"{", b"[" * 10**5, b"3", b"[]", b'{"kind": "recording"}', b"1" * 10**5]
)
def test_descriptions_that_are_none(saved, tmp_path, text):
    paths, load, _ = saved
    path = tmp_path / "recording.npz"
    forge(path, contents(paths[3])[0], text)
    assert refused(load, path)


def crafted_hdf5(path, secret, whole):
    """HDF5 recordings one array of which leads elsewhere or claims to be huge, by name."""
    arrays, description = contents(whole)
    arrays["description"] = np.frombuffer(json.dumps(description).encode(), np.uint8)
    own = arrays.pop("kinetic")
    with h5py.File(secret, "w") as file:
        file["kinetic"] = own
    layout = h5py.VirtualLayout(own.shape, float)
    layout[:] = h5py.VirtualSource(secret, "kinetic", own.shape)
    crafts = {
        "external link": lambda f: f.__setitem__("kinetic", h5py.ExternalLink(secret, "kinetic")),
        "soft link": lambda f: f.__setitem__("kinetic", h5py.SoftLink("/potential")),
        "soft link to itself": lambda f: f.__setitem__("kinetic", h5py.SoftLink("/kinetic")),
        "external storage": lambda f: f.create_dataset(
            "kinetic", own.shape, float, external=[(secret, 0, 8 * own.size)]
        ),
        "virtual dataset": lambda f: f.create_virtual_dataset("kinetic", layout),
        "80 TB": lambda f: f.create_dataset("kinetic", (10**13,), float, chunks=(2**20,)),
        "compressed": lambda f: f.create_dataset("kinetic", data=np.zeros(10**6), compression="gzip"),
        "chunks": lambda f: f.create_dataset("kinetic", data=own, chunks=(1,)),
        "reference": lambda f: f.create_dataset("kinetic", data=[f.ref] * len(own), dtype=h5py.ref_dtype),
        "text": lambda f: f.create_dataset("kinetic", data=["a"] * len(own), dtype=h5py.string_dtype()),
        "group": lambda f: f.create_group("kinetic/kinetic/kinetic"),
    }
    for name, craft in crafts.items():
        with h5py.File(path, "w") as file:
            for each, array in arrays.items():
                file[each] = array
            craft(file)
        signed(path)
        yield name


class Runs:
    """What makes a folder when it is unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def crafted_npz(path, secret, whole):
    """NPZ archives that run code, claim to be huge, or are packed in ways that this library does not write."""
    import io

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)})
    gigabyte = header.getvalue().replace(b"(10000000000000,)", b"(100000000,)     ")
    deep = np.lib.format.magic(1, 0) + (20000).to_bytes(2, "little") + b"(" * 20000
    torn = np.lib.format.magic(1, 0) + (20).to_bytes(2, "little") + b"{'descr': (" + b"\n" * 9
    made = {"80 TB": header.getvalue(), "1 GB": gigabyte, "deep header": deep, "torn header": torn}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for name, entry in {**made, "bomb": bytes(10**7 if method else 10), "\u202e": b""}.items():
            with zipfile.ZipFile(path, "w", method) as file:
                file.writestr("time.npy", entry)
                file.writestr("description.npy", b"")
            yield f"{name}, {method}"
    with zipfile.ZipFile(path, "w") as file:  # a hundred names of one entry
        file.writestr("time.npy", bytes(10**5))
        file.filelist += [file.filelist[0]] * 100
    yield "overlap"
    description = np.array(json.dumps({"kind": "recording"}))
    np.savez(path, time=np.array([Runs(secret)], dtype=object), description=description)
    yield "pickle"
    np.savez(path, time=np.zeros(3), description=description)
    yield "version 0.2"
    np.savez_compressed(path, time=np.zeros(3), description=description)
    yield "compressed"
    encrypted = bytearray(path.read_bytes())
    encrypted[encrypted.index(b"PK\1\2") + 8] |= 1
    path.write_bytes(encrypted)
    yield "encrypted"


@pytest.mark.parametrize(("suffix", "craft"), [(".npz", crafted_npz), (".h5", crafted_hdf5)])
def test_crafted_files_are_refused(saved, tmp_path, suffix, craft):
    """No file leads to another one, runs code, or takes more memory than it is long."""
    paths, load, _ = saved
    path, secret = tmp_path / f"recording{suffix}", str(tmp_path / "secret.h5")
    tracemalloc.start()
    for name in craft(path, secret, next(p for p in paths if p.name == path.name)):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        assert refused(load, path), name
        assert tracemalloc.get_traced_memory()[1] - before < 10 * path.stat().st_size + 4e6, name
    tracemalloc.stop()
    assert not Path(secret).is_dir()


def sealed(path, arrays, description):
    """Write a file as version 1.0 did: the description says where arrays are, and a seal ends the file."""
    forge(path, arrays, {**description, "arrays": {name: ["f8", list(x.shape), 0] for name, x in arrays.items()}})
    content = path.read_bytes()
    seal = b"delassus data 1\n" + bytes(48)
    if path.suffix == ".npz":
        path.write_bytes(content[:-2] + len(seal).to_bytes(2, "little") + seal)
    else:
        path.write_bytes(content[: -hashlib.sha256().digest_size] + seal)


@pytest.mark.parametrize("k", range(4))
def test_files_of_version_1_0(saved, tmp_path, k):
    """NPZ is read as ever; HDF5 is refused by its version."""
    paths, load, unchanged = saved
    path = tmp_path / paths[k].name
    sealed(path, *contents(paths[k]))
    if path.suffix == ".npz":
        unchanged(load(path))
    else:
        with pytest.raises(ConfigurationError, match=r"an HDF5 file of version 1\.0: h5py reads its arrays"):
            load(path)


def test_what_is_no_file_is_refused(saved, tmp_path):
    """A named pipe, which would wait for ever, a folder, an endless device, a name that no file can have."""
    load = saved[1]
    pipe, folder, endless = (tmp_path / f"recording {name}.npz" for name in ("pipe", "folder", "endless"))
    os.mkfifo(pipe)
    folder.mkdir()
    endless.symlink_to("/dev/zero")
    for path in (pipe, folder, endless):
        assert refused(load, path)
    for name in ("a\0.npz", "a" * 300 + ".npz", "a/" * 3000 + ".npz", "\udc80.npz", None, 3, b"r.npz"):
        for act in (Recording.load, load_checkpoint.__get__(bouncing()[0])):
            with pytest.raises(ConfigurationError):
                act(name)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_save_that_is_interrupted_loses_nothing(run, tmp_path, suffix, monkeypatch):
    recording = run[1]
    path = recording.save(tmp_path / f"r{suffix}")

    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "fsync", interrupted)
        recording.save(path)
    assert list(tmp_path.iterdir()) == [path]
    same(recording, Recording.load(path))


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("steps", -5, "steps of the state"),
        ("steps", 1.5, "steps of the state"),
        ("q", np.zeros(3), "q of the state"),
        ("v", np.full(12, np.nan), "v of the state"),
        ("impulses", np.zeros((7, 3)), "impulses of the state"),
        ("sustained", np.full((2, 3), np.nan), "sustained of the state"),
        ("contacts_links", [[5, -1], [1, -1]], "links of the state"),
        ("contacts_colliders", [[9, 2], [1, 2]], "colliders of the state"),
        ("contacts_frames", np.zeros((2, 3, 3)), "frames of contacts"),
        ("rng", None, "a generator and statuses"),
        ("statuses", {"CONVERGED": 1.5}, "a generator and statuses"),
    ],
)
def test_a_state_that_is_none_changes_nothing(run, part, value, message):
    scene, q0 = bouncing()
    sim = ds.Simulator(scene, q0=q0, dt=1e-3)
    sim.run(0.06)
    while len(sim.contacts) < 2:
        sim.step()
    state = sim.get_state()
    with pytest.raises(ConfigurationError, match=message):
        sim.set_state({**state, part: value})
    assert all(np.array_equal(state[name], sim.get_state()[name]) for name in state)


def test_a_folder_that_cannot_be_written(run, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ds.DelassusError, match="can be written"):
        run[1].save(tmp_path / "file" / "r.npz")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".npz", ".h5"])
@pytest.mark.skipif(os.name == "nt", reason="limits of a process")
def test_a_file_that_does_not_fit_leaves_nothing(run, tmp_path, suffix):
    if suffix == ".h5":
        pytest.importorskip("h5py")
    path = tmp_path / f"r{suffix}"
    path.write_bytes(b"of before")
    assert f"r{suffix}': expected a file that can be written" in on_a_full_disk(partial(run[1].save, path))
    assert list(tmp_path.iterdir()) == [path] and path.read_bytes() == b"of before"


@pytest.mark.parametrize("every", [0, -1, 1.5, True, "2"])
def test_bad_intervals(every):
    with pytest.raises(ds.DelassusError, match="every"):
        Recorder(every)


def test_all_arrays_are_named():
    assert {*ARRAYS, "origin", "scene"} == {f.name for f in fields(Recording)}
