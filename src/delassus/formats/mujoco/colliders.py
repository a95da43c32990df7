"""Geoms of MuJoCo models → colliders, and the pairs of them that MuJoCo's masks and exclusions keep apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from delassus.errors import ModelError, missing_dependency, unknown_name
from delassus.formats.mujoco.actuators import element_names, is_disabled
from delassus.model.description import unique_name
from delassus.model.rotations import quaternion_to_matrix
from delassus.model.shapes import Box, Capsule, Collider, Cylinder, HalfSpace, Mesh, Shape, Sphere
from delassus.model.tree import Tree

SEEN = 2
"""MuJoCo shows geoms of the groups up to this one."""


def colliders_of_model(model: Any, tree: Tree, prefix: str, restitution: float, visual: bool) -> tuple[Collider, ...]:
    """Colliders of a compiled model; see `delassus.formats.colliders.load_colliders`."""
    mujoco = _checked(model)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    names, bodies = _names(mujoco, model)
    colliders = []
    for g in np.flatnonzero(model.geom_group <= SEEN).tolist() if visual else _colliding(mujoco, model):
        body = int(model.geom_bodyid[g])
        if model.body_weldid[body] == 0:  # it does not move: its place in the world is known
            link, position, rotation = "world", data.geom_xpos[g].copy(), data.geom_xmat[g].reshape(3, 3).copy()
        else:
            if bodies[body] not in tree.frames:
                raise unknown_name("body in the tree", bodies[body], tree.frames)
            link, position = prefix + bodies[body], model.geom_pos[g].copy()
            quaternion = np.roll(model.geom_quat[g], -1)
            rotation = quaternion_to_matrix(quaternion / np.linalg.norm(quaternion))
        shape = _shape(mujoco, model, g, names[g], bodies[body], visual)
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
    names, _ = _names(mujoco, model)
    excluded = {(int(s) >> 16, int(s) & 0xFFFF) for s in model.exclude_signature}
    wanted = {frozenset((int(a), int(b))) for a, b in zip(model.pair_geom1, model.pair_geom2, strict=True)}
    geoms = _colliding(mujoco, model)
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


def _colliding(mujoco: Any, model: Any) -> list[int]:
    """Geoms whose masks or an explicit pair let them touch something; none where contacts are switched off."""
    if is_disabled(mujoco, model, "CONTACT", "CONSTRAINT"):
        return []
    paired = {int(g) for g in (*model.pair_geom1, *model.pair_geom2)}
    return [g for g in range(model.ngeom) if model.geom_contype[g] or model.geom_conaffinity[g] or g in paired]


def _shape(mujoco: Any, model: Any, g: int, name: str, body: str, visual: bool) -> Shape:
    kind = str(mujoco.mjtGeom(int(model.geom_type[g]))).removeprefix("mjtGeom.mjGEOM_").lower()
    a, b, c = (float(x) for x in model.geom_size[g])
    match kind:
        case "plane":
            return HalfSpace()
        case "sphere":
            return Sphere(a)
        case "capsule":
            return Capsule(a, 2 * b)
        case "cylinder":
            return Cylinder(a, 2 * b)
        case "box":
            return Box(2 * a, 2 * b, 2 * c)
        case "mesh":
            mesh = int(model.geom_dataid[g])
            first, face = int(model.mesh_vertadr[mesh]), int(model.mesh_faceadr[mesh])
            vertices = np.array(model.mesh_vert[first : first + int(model.mesh_vertnum[mesh])], dtype=float)
            faces = model.mesh_face[face : face + int(model.mesh_facenum[mesh])]
            return Mesh(vertices, faces, convex=False) if visual else Mesh(vertices)
    raise ModelError(
        f"geom {name!r} of body {body!r}", "a plane, sphere, capsule, cylinder, box or mesh", kind,
        "Replace it in the file, or take it out of collision (contype=0, conaffinity=0).",
    )  # fmt: skip


def _names(mujoco: Any, model: Any) -> tuple[list[str], list[str]]:
    """Names of geoms, and of bodies as in the tree of the model.

    The name of a body stands for all geoms on it, so that no geom may have it unless it is the only one.
    """
    bodies = element_names(mujoco, model, mujoco.mjtObj.mjOBJ_BODY, model.nbody, "body")
    given = [mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_GEOM, g) for g in range(model.ngeom)]
    taken = {name for name in given if name} | set(bodies)
    geoms = [
        (f"{name}:geom" if name in bodies else name) if name else unique_name(f"geom{g}", taken)
        for g, name in enumerate(given)
    ]
    return geoms, bodies


def _checked(model: Any) -> Any:
    """The module ``mujoco``, if that is one of its models."""
    try:
        import mujoco
    except ImportError as error:
        raise missing_dependency("mujoco", "mjcf", "colliders of a MuJoCo model") from error
    if not isinstance(model, mujoco.MjModel):
        came = f"an object of type {type(model).__module__}.{type(model).__name__}"
        raise ModelError("robot", "a path, a name or a mujoco.MjModel", came, "Pass one of these.")
    return mujoco
