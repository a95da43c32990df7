"""Recordings for Foxglove and Rerun: their own readers read back poses, joints and forces."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import delassus as ds
from delassus.contact import Box, HalfSpace
from delassus.pictures import export
from delassus.simulate import Recorder


@pytest.fixture(scope="module")
def recording():
    """A box that hits the floor and an arm: 9 samples."""
    scene = ds.Scene({"arm": ds.mechanisms.chain(3)}).add("floor", HalfSpace(), at=(0, 0, -3))
    scene = scene.add("box", Box(0.2, 0.3, 0.1), mass=1.0, at=(1, 2, -2.85, *np.array([1, 2, 3, 4]) / 30**0.5))
    start = {"q0": [0.3, -0.4, 0.5, *scene.start[3:]], "v0": [1.0, -2.0, 3.0, *np.zeros(6)]}
    return ds.Simulator(scene, **start, dt=2e-3, max_overlap=0.1).run(0.32, record=Recorder(every=20))


def check(recording, poses, joints, forces):
    """Compare poses by (sample, link), joints by (sample, name) and numbers of arrows by sample."""
    tree = recording.scene.tree
    for k in (0, 3, len(recording) - 1):
        for name, pose in zip(tree.link_names, ds.forward_kinematics(tree, recording.q[k]), strict=True):
            q, x = poses[k, name]
            assert np.allclose(x, pose[:3, 3], atol=1e-6, rtol=0)
            assert np.allclose(Rotation.from_quat(q).as_matrix(), pose[:3, :3], atol=1e-6, rtol=0)
        hinges = [(j, a, b) for j, a, b in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True) if j.nv == 1]
        assert len(hinges) == 3
        for joint, at_q, at_v in hinges:
            told = recording.q[k, at_q], recording.v[k, at_v], recording.tau[k, at_v]
            assert np.allclose(joints[k, joint.name], np.concatenate(told), rtol=0, atol=1e-12)
    pushes = recording.contact_impulses.any(axis=1)
    acts = [sum(pushes & (recording.contact_times == t)) for t in recording.time]
    assert [forces[k] for k in range(len(acts))] == acts
    assert max(forces.values()) > 2


def test_mcap_holds_poses_joints_and_forces(recording, tmp_path):
    reader = pytest.importorskip("mcap.reader")
    sample = {round(t * 1e9): k for k, t in enumerate(recording.time)}
    poses, joints, forces, scenes = {}, {}, {}, []
    with export(recording, tmp_path / "run.mcap").open("rb") as file:
        for schema, channel, message in reader.make_reader(file).iter_messages():
            told, k = json.loads(message.data), sample[message.log_time]
            assert set(told) <= set(json.loads(schema.data)["properties"]) and schema.encoding == "jsonschema"
            match channel.topic, schema.name:
                case "/tf", "foxglove.FrameTransforms":
                    for x in told["transforms"]:
                        assert x["parent_frame_id"] == "world"
                        assert x["timestamp"]["sec"] * 10**9 + x["timestamp"]["nsec"] == message.log_time
                        values = tuple([*x[name].values()] for name in ("rotation", "translation"))
                        assert [*x["rotation"]] == [*"xyzw"]
                        poses[k, x["child_frame_id"]] = values
                case "/joints", "foxglove.JointStates":
                    for x in told["joints"]:
                        joints[k, x["name"]] = x["position"], x["velocity"], x["effort"]
                case "/contact_forces", "foxglove.SceneUpdate":
                    forces[k] = len(told["entities"][0]["arrows"])
                case "/scene", "foxglove.SceneUpdate":
                    scenes += told["entities"]
    check(recording, poses, joints, forces)
    names = {entity["frame_id"] for entity in scenes}
    assert names >= {"world", "box/body", "arm/link1"} and len(scenes) == len(names)
    for entity in scenes:
        for part in entity["triangles"]:
            assert max(part["indices"]) < len(part["points"]) and len(part["indices"]) % 3 == 0


def test_rerun_holds_poses_joints_and_forces(recording, tmp_path):
    pytest.importorskip("rerun")
    from rerun.chunk import RrdReader

    poses, joints, forces = {}, {}, {}
    meshes = set()
    times = np.round(recording.time * 1e9).astype(int)
    for chunk in RrdReader(export(recording, tmp_path / "run.rrd")).stream().to_chunks():
        path, table = chunk.entity_path.strip("/"), chunk.to_record_batch()
        table = {name: table[name].to_pylist() for name in table.schema.names if name != "log_time"}
        if chunk.is_static:
            meshes |= {path} if any("Mesh3D" in name for name in table) else set()
            continue
        if "time" not in table:
            continue
        at = [int(np.flatnonzero(times == np.timedelta64(t).astype("m8[ns]").astype(int))[0]) for t in table["time"]]
        values = {name.split(":")[-1]: x for name, x in table.items() if ":" in name}
        for row, k in enumerate(at):
            if "quaternion" in values:
                name = path.removeprefix("world/").replace("\\", "")
                poses[k, name] = values["quaternion"][row][0], values["translation"][row][0]
            elif "scalars" in values:
                joint, what = path.removeprefix("joints/").rsplit("/", 1)
                joints.setdefault((k, joint.replace("\\", "")), {})[what] = values["scalars"][row][0]
            elif "vectors" in values:
                forces[k] = len(values["vectors"][row])
    order = ("position", "velocity", "effort")
    check(recording, poses, {key: [x[what] for what in order] for key, x in joints.items()}, forces)
    assert {m.replace("\\", "").rsplit("/", 1)[0] for m in meshes} >= {"world", "world/box/body", "world/arm/link1"}


def test_what_cannot_be_exported_is_refused(recording, tmp_path):
    read = type(recording).load(recording.save(tmp_path / "r.npz"))
    for given, path, message in (
        (recording, "r.bag", "ends in .mcap or .rrd"),
        (3, "r.mcap", "a Recording"),
        (read, "r.mcap", "knows its scene"),
    ):
        with pytest.raises(ds.DelassusError, match=message):
            export(given, tmp_path / path)
    with pytest.raises(ds.DelassusError, match=r"ends in .npz or .h5.*export"):
        recording.save(tmp_path / "r.mcap")
