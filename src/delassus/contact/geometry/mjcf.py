"""Geoms of MuJoCo models → colliders, and the pairs of them that MuJoCo's masks and exclusions keep apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from delassus.contact.shapes import Box, Capsule, Collider, Cylinder, HalfSpace, Mesh, Shape, Sphere
from delassus.errors import ModelError, missing_dependency, unknown_name
from delassus.model.build import unique_name
from delassus.model.rotations import Array, quaternion_to_matrix
from delassus.model.tree import Tree
from delassus.model.urdf import read_xml

LARGEST_HEIGHT_FIELD = 10**8
"""Files with larger height fields are refused before MuJoCo sees them: it overflows its index and crashes."""


def read_model(path: Path) -> Any:
    """Compile an MJCF file that declares no document type, nor does any file that it includes."""
    mujoco = _mujoco()
    _check(path, path.parent, set())
    try:
        return mujoco.MjModel.from_xml_path(str(path))
    except Exception as error:  # MuJoCo's own errors, fatal ones included, share no base class
        raise ModelError(
            f"file {str(path)!r}", "an MJCF file that MuJoCo compiles",
            f"{type(error).__name__}: {' '.join(str(error).split())}", "Correct the file.",
        ) from error  # fmt: skip


def _check(path: Path, folder: Path, seen: set[Path]) -> None:
    if path in seen:
        return
    seen.add(path)
    for element in read_xml(path).iter():
        if element.tag == "hfield":
            sizes = [element.get(attribute, "0") for attribute in ("nrow", "ncol")]
            if all(s.strip().isdecimal() for s in sizes) and int(sizes[0]) * int(sizes[1]) > LARGEST_HEIGHT_FIELD:
                raise ModelError(
                    f"height field {element.get('name')!r}", f"at most {LARGEST_HEIGHT_FIELD:g} samples",
                    " x ".join(sizes), "Make it smaller.",
                )  # fmt: skip
        if element.tag in ("include", "model") and element.get("file"):
            for base in (folder, path.parent):
                included = (base / element.get("file", "")).resolve()
                if included.is_file():
                    _check(included, folder, seen)


def colliders_of_model(model: Any, tree: Tree, prefix: str, restitution: float) -> tuple[Collider, ...]:
    """Colliders of a compiled model; see `delassus.contact.geometry.load_colliders`."""
    mujoco = _checked(model)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    names, bodies = _geom_names(mujoco, model), _body_names(mujoco, model)
    colliders = []
    for g in _colliding(model):
        body = int(model.geom_bodyid[g])
        if model.body_weldid[body] == 0:  # it does not move: its place in the world is known
            link, position, rotation = "world", data.geom_xpos[g].copy(), data.geom_xmat[g].reshape(3, 3).copy()
        else:
            if bodies[body] not in tree.frames:
                raise unknown_name("body in the tree", bodies[body], tree.frames)
            link, position = prefix + bodies[body], model.geom_pos[g].copy()
            quaternion = np.roll(model.geom_quat[g], -1)
            rotation = quaternion_to_matrix(quaternion / np.linalg.norm(quaternion))
        shape = _shape(mujoco, model, g, names[g], bodies[body])
        friction = float(model.geom_friction[g, 0])
        colliders.append(
            Collider(
                link, shape, position, rotation, friction=friction, restitution=restitution, name=prefix + names[g]
            )
        )
    return tuple(colliders)


def ignored_of_model(model: Any, prefix: str) -> tuple[tuple[str, str], ...]:
    """Pairs of geoms that MuJoCo's masks and exclusions keep apart, except those of an explicit ``<pair>``."""
    mujoco = _checked(model)
    names = _geom_names(mujoco, model)
    excluded = {(int(s) >> 16, int(s) & 0xFFFF) for s in model.exclude_signature}
    wanted = {frozenset((int(a), int(b))) for a, b in zip(model.pair_geom1, model.pair_geom2, strict=True)}
    geoms = _colliding(model)
    pairs = []
    for i, g in enumerate(geoms):
        for h in geoms[i + 1 :]:
            a, b = int(model.geom_bodyid[g]), int(model.geom_bodyid[h])
            if model.body_weldid[a] == model.body_weldid[b] or frozenset((g, h)) in wanted:
                continue
            masked = not (
                model.geom_contype[g] & model.geom_conaffinity[h] or model.geom_contype[h] & model.geom_conaffinity[g]
            )
            if masked or (a, b) in excluded or (b, a) in excluded:
                pairs.append((prefix + names[g], prefix + names[h]))
    return tuple(pairs)


def _colliding(model: Any) -> list[int]:
    """Geoms whose masks or an explicit pair let them touch something."""
    paired = {int(g) for g in (*model.pair_geom1, *model.pair_geom2)}
    return [g for g in range(model.ngeom) if model.geom_contype[g] or model.geom_conaffinity[g] or g in paired]


def _shape(mujoco: Any, model: Any, g: int, name: str, body: str) -> Shape:
    kinds, size = mujoco.mjtGeom, [float(x) for x in model.geom_size[g]]
    kind = int(model.geom_type[g])
    if kind == kinds.mjGEOM_PLANE:
        return HalfSpace()
    if kind == kinds.mjGEOM_SPHERE:
        return Sphere(size[0])
    if kind == kinds.mjGEOM_CAPSULE:
        return Capsule(size[0], 2 * size[1])
    if kind == kinds.mjGEOM_CYLINDER:
        return Cylinder(size[0], 2 * size[1])
    if kind == kinds.mjGEOM_BOX:
        return Box(*(2 * x for x in size))
    if kind == kinds.mjGEOM_MESH:
        return Mesh(_mesh_vertices(model, int(model.geom_dataid[g])))
    raise ModelError(
        f"geom {name!r} of body {body!r}", "a plane, sphere, capsule, cylinder, box or mesh",
        str(kinds(kind)).removeprefix("mjtGeom.mjGEOM_").lower(),
        "Replace it in the file, or take it out of collision (contype=0, conaffinity=0).",
    )  # fmt: skip


def _mesh_vertices(model: Any, mesh: int) -> Array:
    first = int(model.mesh_vertadr[mesh])
    return np.array(model.mesh_vert[first : first + int(model.mesh_vertnum[mesh])], dtype=float)


def _geom_names(mujoco: Any, model: Any) -> list[str]:
    given = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_GEOM, g) for g in range(model.ngeom)]
    bodies = set(_body_names(mujoco, model))
    taken = {name for name in given if name} | bodies
    # the name of a body stands for all geoms on it, so that no geom may have it unless it is the only one
    return [
        (f"{name}:geom" if name in bodies else name) if name else unique_name(f"geom{g}", taken)
        for g, name in enumerate(given)
    ]


def _body_names(mujoco: Any, model: Any) -> list[str]:
    """Names of bodies as in the tree of the model."""
    given = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, b) for b in range(model.nbody)]
    taken = {name for name in given if name}
    return [name or unique_name(f"body{b}", taken) for b, name in enumerate(given)]


def _checked(model: Any) -> Any:
    mujoco = _mujoco()
    if not isinstance(model, mujoco.MjModel):
        raise ModelError(
            "robot", "a path, a name or a mujoco.MjModel",
            f"an object of type {type(model).__module__}.{type(model).__name__}", "Pass one of these.",
        )  # fmt: skip
    return mujoco


def _mujoco() -> Any:
    try:
        import mujoco
    except ImportError as error:
        raise missing_dependency("mujoco", "mjcf", "colliders of a MuJoCo model") from error
    return mujoco
