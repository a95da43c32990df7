"""`export`: a recording as a file of MCAP, for Foxglove, or of Rerun; extras ``[mcap]`` and ``[rerun]``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from delassus import Scene, Tree
from delassus.errors import ConfigurationError, require, shown
from delassus.model.check import check_path, written
from delassus.model.kinematics import world_poses
from delassus.pictures.annotations import FORCE_COLOUR, force_arrows, planes, weight
from delassus.pictures.players import Instant, sample
from delassus.pictures.surfaces import Triangles, extent, surfaces
from delassus.simulate import Recording
from delassus.spatial.rotations import Array, matrix_to_quaternion, rotation_between

EXPORTS = {".mcap": ("mcap", "mcap", "MCAP files"), ".rrd": ("rerun", "rerun", "files of Rerun")}
"""Package, extra and purpose of each kind of file, by its suffix."""

TIMELINE = "time"
"""Name of the time line in Rerun."""


def check_export(path: Path) -> Path:
    """Refuse a name of another kind of file, or one that needs a package that is not installed."""
    if path.suffix not in EXPORTS:
        raise ConfigurationError("export", f"a name that ends in {' or '.join(EXPORTS)}", shown(path), "Use .mcap.")
    require(*EXPORTS[path.suffix])
    return path


def export(recording: Recording, path: str | Path) -> Path:
    """Write a recording for Foxglove or Rerun: what is seen, poses of links, joints, contact forces.

    Parameters
    ----------
    recording : Recording
        One that knows its scene.
    path : str or Path
        ``.mcap``: messages in JSON with Foxglove's schemas. ``/scene`` has what is seen (``SceneUpdate``), ``/tf``
        poses of links in the frame ``world`` (``FrameTransforms``), ``/joints`` joints of one coordinate
        (``JointStates``), ``/contact_forces`` arrows. ``.rrd``: entities ``world/LINK`` with a transform,
        ``joints/NAME/position``, ``…/velocity`` and ``…/effort``, ``world/contact_forces``, by the time line ``time``.
        Lengths are in m, angles in rad, efforts in N m or N; arrows are as long as in `view`.

    Returns
    -------
    Path
        That of the file.

    Raises
    ------
    ConfigurationError
        A recording without its scene, another suffix, or a file that cannot be written.
    MissingDependencyError
        The extra ``mcap`` or ``rerun`` is not installed.

    Examples
    --------
    >>> from delassus.scenes import boxes
    >>> from delassus.simulate import Recorder
    >>> recording = boxes(2).simulator().run(0.1, record=Recorder(every=10))
    >>> export(recording, "boxes.mcap")  # doctest: +SKIP
    PosixPath('boxes.mcap')
    """
    if not isinstance(recording, Recording):
        raise ConfigurationError("recording", "a Recording", shown(recording), "Record with Recorder().")
    path = check_export(check_path("path", path))
    recording.require_scene()
    with written(path, "recording") as part:
        (_write_mcap if path.suffix == ".mcap" else _write_rrd)(recording, part)
    return path


def seen(scene: Scene, q: Array) -> list[Triangles]:
    """Everything that is seen of a scene, half spaces too."""
    return [*surfaces(scene, q), *planes(scene, extent(scene, q)[1])]


def coordinates(tree: Tree) -> Iterator[tuple[str, int, int]]:
    """Names of joints of one coordinate, and where they are in ``q`` and ``v``."""
    for joint, of_q, of_v in zip(tree.joints, tree.q_slices, tree.v_slices, strict=True):
        if joint.nq == joint.nv == 1:
            yield joint.name, of_q.start, of_v.start


# MCAP


def _object(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


def _array(item: Any) -> dict[str, Any]:
    return {"type": "array", "items": item}


NUMBER, TEXT, FLAG = {"type": "number"}, {"type": "string"}, {"type": "boolean"}
SPAN = _object(sec={"type": "integer"}, nsec={"type": "integer"})
VECTOR = _object(x=NUMBER, y=NUMBER, z=NUMBER)
QUATERNION = _object(x=NUMBER, y=NUMBER, z=NUMBER, w=NUMBER)
COLOUR = _object(r=NUMBER, g=NUMBER, b=NUMBER, a=NUMBER)
POSE = _object(position=VECTOR, orientation=QUATERNION)
ARROW_SHAPE = _object(
    pose=POSE, shaft_length=NUMBER, shaft_diameter=NUMBER, head_length=NUMBER, head_diameter=NUMBER, color=COLOUR
)
TRIANGLES_SHAPE = _object(
    pose=POSE, points=_array(VECTOR), color=COLOUR, colors=_array(COLOUR), indices=_array({"type": "integer"})
)
ENTITY = _object(
    timestamp=SPAN, frame_id=TEXT, id=TEXT, lifetime=SPAN, frame_locked=FLAG, arrows=_array(ARROW_SHAPE),
    triangles=_array(TRIANGLES_SHAPE),
)  # fmt: skip
TRANSFORM = _object(timestamp=SPAN, parent_frame_id=TEXT, child_frame_id=TEXT, translation=VECTOR, rotation=QUATERNION)
JOINT = _object(name=TEXT, position=NUMBER, velocity=NUMBER, effort=NUMBER)
SCHEMAS = {
    "SceneUpdate": _object(entities=_array(ENTITY)),
    "FrameTransforms": _object(transforms=_array(TRANSFORM)),
    "JointStates": _object(timestamp=SPAN, joints=_array(JOINT)),
}
"""Those of Foxglove, with the fields that are written here (https://docs.foxglove.dev/docs/sdk/schemas)."""

TOPICS = {
    "/scene": "SceneUpdate", "/tf": "FrameTransforms", "/joints": "JointStates", "/contact_forces": "SceneUpdate"
}  # fmt: skip


def _write_mcap(recording: Recording, part: Path) -> None:
    from mcap.writer import Writer

    scene, tree = recording.require_scene(), recording.require_scene().tree
    size, load = extent(scene, recording.q[0])[1], weight(scene)
    with part.open("wb") as file:
        writer = Writer(file)
        writer.start(library="delassus")
        schemas = {
            name: writer.register_schema(f"foxglove.{name}", "jsonschema", json.dumps(schema).encode())
            for name, schema in SCHEMAS.items()
        }
        topics = {topic: writer.register_channel(topic, "json", schemas[name]) for topic, name in TOPICS.items()}

        def write(topic: str, at: int, message: dict[str, Any]) -> None:
            writer.add_message(topics[topic], at, json.dumps(message, separators=(",", ":")).encode(), at)

        start = _nanoseconds(recording.time[0])
        write("/scene", start, {"entities": _entities(tree, seen(scene, recording.q[0]), _stamp(start))})
        poses = [(matrix_to_quaternion(R), p) for R, p in world_poses(tree, recording.q)]
        for k in range(len(recording)):
            at = _nanoseconds(recording.time[k])
            stamp = _stamp(at)
            write("/tf", at, {"transforms": [
                {"timestamp": stamp, "parent_frame_id": "world", "child_frame_id": name,
                 "translation": _named(p[k]), "rotation": _named(r[k])}
                for name, (r, p) in zip(tree.link_names, poses, strict=True)
            ]})  # fmt: skip
            write("/joints", at, {"timestamp": stamp, "joints": [
                {"name": name, "position": recording.q[k, i], "velocity": recording.v[k, j],
                 "effort": recording.tau[k, j]}
                for name, i, j in coordinates(tree)
            ]})  # fmt: skip
            instant = sample(recording, k)
            arrows = _arrows(force_arrows(instant.points, instant.forces, load, size), size)
            write("/contact_forces", at, {"entities": [_entity("contact_forces", "world", stamp, arrows=arrows)]})
        writer.finish()


def _entities(tree: Tree, shapes: Iterable[Triangles], stamp: dict[str, int]) -> list[dict[str, Any]]:
    by_link: dict[str, list[dict[str, Any]]] = {}
    for shape in shapes:
        frame = "world" if shape.link < 0 else tree.link_names[shape.link]
        by_link.setdefault(frame, []).append(
            {
                "pose": _pose(np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])),
                "points": [_named(x) for x in shape.vertices.astype(np.float32).astype(float).round(6)],
                "color": _colour(shape.colour),
                "colors": [],
                "indices": shape.faces.reshape(-1).tolist(),
            }
        )
    return [_entity(frame, frame, stamp, triangles=parts) for frame, parts in by_link.items()]


def _entity(name: str, frame: str, stamp: dict[str, int], **primitives: Any) -> dict[str, Any]:
    """An entity that stays until there is another of its name."""
    told = {"timestamp": stamp, "frame_id": frame, "id": name, "lifetime": _stamp(0), "frame_locked": True}
    return told | primitives


def _arrows(ends: Array, size: float) -> list[dict[str, Any]]:
    """Arrows along the x axes of their poses."""
    starts, arrows = ends[:, 0], ends[:, 1] - ends[:, 0]
    lengths = np.linalg.norm(arrows, axis=1)
    turns = matrix_to_quaternion(rotation_between(np.array([1.0, 0.0, 0.0]), arrows / lengths[:, None]))
    look = {"shaft_diameter": 0.008 * size, "head_diameter": 0.02 * size, "color": _colour(FORCE_COLOUR)}
    heads = np.minimum(0.025 * size, 0.5 * lengths)
    return [
        {"pose": _pose(p, r), "shaft_length": float(length - head), "head_length": float(head), **look}
        for p, r, length, head in zip(starts, turns, lengths, heads, strict=True)
    ]


def _nanoseconds(time: float) -> int:
    return round(float(time) * 1e9)


def _stamp(nanoseconds: int) -> dict[str, int]:
    return dict(zip(("sec", "nsec"), divmod(nanoseconds, 10**9), strict=True))


def _named(numbers: Array) -> dict[str, float]:
    return dict(zip("xyzw", numbers.tolist(), strict=False))


def _pose(p: Array, quaternion: Array) -> dict[str, Any]:
    return {"position": _named(p), "orientation": _named(quaternion)}


def _colour(colour: Iterable[int]) -> dict[str, float]:
    return {name: x / 255 for name, x in zip("rgba", (*tuple(colour)[:3], 255), strict=True)}


# Rerun


class RerunDrawing:
    """What Rerun shows of a scene: shapes once, and the rest by time."""

    def __init__(self, stream: Any, scene: Scene, q: Array, root: str = "world") -> None:
        import rerun

        self._rerun, self._stream, self._scene = rerun, stream, scene
        self._size, self._weight, self._root = extent(scene, q)[1], weight(scene), root
        stream.log(root, rerun.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        for number, shape in enumerate(seen(scene, q)):
            place = root if shape.link < 0 else self._link(scene.tree.link_names[shape.link])
            mesh = rerun.Mesh3D(
                vertex_positions=shape.vertices,
                triangle_indices=shape.faces,
                vertex_normals=shape.normals,
                albedo_factor=(*shape.colour[:3], 255),
            )
            stream.log(f"{place}/shape{number}", mesh, static=True)

    def _link(self, name: str) -> str:
        return f"{self._root}/{self._rerun.escape_entity_path_part(name)}"

    def show(self, instant: Instant) -> None:
        """Add the present."""
        self._stream.set_time(TIMELINE, duration=instant.time)
        poses = world_poses(self._scene.tree, instant.q)
        for name, (R, p) in zip(self._scene.tree.link_names, poses, strict=True):
            at = self._rerun.Transform3D(translation=p, quaternion=matrix_to_quaternion(R))
            self._stream.log(self._link(name), at)
        self._forces(instant)

    def _forces(self, instant: Instant) -> None:
        ends = force_arrows(instant.points, instant.forces, self._weight, self._size)
        arrows = self._rerun.Arrows3D(
            origins=ends[:, 0], vectors=ends[:, 1] - ends[:, 0], colors=[FORCE_COLOUR], radii=0.004 * self._size
        )
        self._stream.log(f"{self._root}/contact_forces", arrows)

    def show_all(self, recording: Recording) -> None:
        """Add a recording, by columns, with joints."""
        rerun, tree = self._rerun, self._scene.tree

        def send(path: str, columns: Any) -> None:
            times = [rerun.TimeColumn(TIMELINE, duration=recording.time)]
            rerun.send_columns(path, indexes=times, columns=columns, recording=self._stream)

        for name, (R, p) in zip(tree.link_names, world_poses(tree, recording.q), strict=True):
            send(self._link(name), rerun.Transform3D.columns(translation=p, quaternion=matrix_to_quaternion(R)))
        for name, i, j in coordinates(tree):
            path = f"joints/{rerun.escape_entity_path_part(name)}"
            of_joint = {"position": recording.q[:, i], "velocity": recording.v[:, j], "effort": recording.tau[:, j]}
            for what, values in of_joint.items():
                send(f"{path}/{what}", rerun.Scalars.columns(scalars=values))
        for k in range(len(recording)) if len(recording.contact_times) else ():
            self._stream.set_time(TIMELINE, duration=float(recording.time[k]))
            self._forces(sample(recording, k))


def _write_rrd(recording: Recording, part: Path) -> None:
    import rerun

    stream = rerun.RecordingStream("delassus")
    stream.save(part)
    RerunDrawing(stream, recording.require_scene(), recording.q[0]).show_all(recording)
    stream.flush()
    stream.disconnect()
