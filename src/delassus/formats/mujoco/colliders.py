"""Geoms of MuJoCo models → colliders, and the pairs of them that MuJoCo's masks and exclusions keep apart."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, NamedTuple

import numpy as np

from delassus.errors import ModelError
from delassus.formats.mujoco.equalities import rotation_of
from delassus.formats.mujoco.named import NamedModel
from delassus.formats.urdf.colliders import Found
from delassus.model.description import unique_name
from delassus.model.shapes import Box, Capsule, Cylinder, Ellipsoid, HalfSpace, HeightField, Mesh, Shape, Solid, Sphere
from delassus.spatial.rotations import Array

EXPECTED = "a path, the text of a description, a name, or a mujoco.MjModel or mujoco.MjSpec"

MATERIAL = ("friction", "torsional", "rolling")
"""Names of what contacts have of a material."""

TORSIONAL, ROLLING = 4, 6
"""``condim`` from which on geoms have such friction."""

UNSAID = np.array([0.5, 0.5, 0.5, 1.0])
"""Colour of geoms for which a file says none."""

SEEN = 2
"""MuJoCo shows geoms of the groups up to this one."""


def colliders_of_model(given: Any, visual: bool, moved: Collection[str] = ()) -> list[Found]:
    """Geoms of a compiled model; see `delassus.formats.colliders.load_colliders`.

    Those that ``moved`` ones of its mocap bodies carry are on these, others on the world.
    """
    model = NamedModel(given, EXPECTED)
    data = model.mujoco.MjData(model.model)
    model.mujoco.mj_kinematics(model.model, data)
    names, bodies = _names(model)
    found: list[Found] = []
    led = {body: root for body, root in model.moved_bodies().items() if bodies[root] in moved}
    for g in np.flatnonzero(model.geom_group <= SEEN).tolist() if visual else _colliding(model):
        body = int(model.geom_bodyid[g])
        if body in led:
            root, R = led[body], data.xmat[led[body]].reshape(3, 3)
            link, pose = (
                bodies[root],
                (R.T @ data.geom_xmat[g].reshape(3, 3), R.T @ (data.geom_xpos[g] - data.xpos[root])),
            )
        elif model.body_weldid[body] == 0:  # it does not move: its place in the world is known
            link, pose = "world", (data.geom_xmat[g].reshape(3, 3).copy(), data.geom_xpos[g].copy())
        else:
            link, pose = bodies[body], (rotation_of(model.geom_quat[g]), model.geom_pos[g].copy())
        shape = _shape(model, g, names[g], bodies[body], visual)
        found.append((link, names[g], shape, pose, {**_friction(model, g), **_looks(model, g)}))
    return found


class GeomSurface(NamedTuple):
    """Friction, lengths (m), ``condim`` and ``priority`` of a geom."""

    friction: float
    torsional: float
    rolling: float
    condim: int
    priority: int

    @property
    def alone(self) -> tuple[float, float, float]:
        """What of these its ``condim`` has: none of 1, no lengths of 3, the torsional one of 4, and both of 6."""
        return (
            self.friction if self.condim > 1 else 0.0,
            self.torsional if self.condim >= TORSIONAL else 0.0,
            self.rolling if self.condim >= ROLLING else 0.0,
        )


def _surface(model: NamedModel, g: int) -> GeomSurface:
    sliding, torsional, rolling = map(float, model.geom_friction[g])
    return GeomSurface(sliding, torsional, rolling, int(model.geom_condim[g]), int(model.geom_priority[g]))


def _friction(model: NamedModel, g: int) -> dict[str, Any]:
    """Friction coefficient of a geom, also with ``condim`` 1 (others may count it), and lengths of its ``condim``.

    And the velocity of its surface, if that moves.
    """
    own, belt = _surface(model, g), getattr(model, "geom_surfacevel", np.zeros((g + 1, 6)))[g, :3]
    moving = {"surface_velocity": belt.copy()} if belt.any() else {}
    return {**dict(zip(MATERIAL, own.alone, strict=True)), "friction": own.friction, **moving}


def _looks(model: NamedModel, g: int) -> dict[str, Array]:
    """``rgba`` of a geom as MuJoCo shows it, textures by their means; none where the file leaves MuJoCo's grey."""
    own, material = np.array(model.geom_rgba[g], float), int(model.geom_matid[g])
    if np.any(own != UNSAID) or material < 0:
        return {"rgba": np.clip(own, 0.0, 1.0)} if np.any(own != UNSAID) else {}
    rgba = np.array(model.mat_rgba[material], float)
    role = int(model.mujoco.mjtTextureRole.mjTEXROLE_RGB)
    if (texture := int(model.mat_texid[material, role])) >= 0:
        channels, first = int(model.tex_nchannel[texture]), int(model.tex_adr[texture])
        size = channels * int(model.tex_height[texture]) * int(model.tex_width[texture])
        mean = model.tex_data[first : first + size].reshape(-1, channels).mean(axis=0) / 255.0
        rgba[:3] *= mean[:3] if channels > 2 else mean[0]
    return {"rgba": np.clip(rgba, 0.0, 1.0)}


def surfaces_of_model(given: Any) -> tuple[dict[str, GeomSurface], dict[tuple[str, str], dict[str, float]]]:
    """Surfaces of geoms that collide, by name; and what contacts of pairs have by an explicit ``<pair>``."""
    model = NamedModel(given, EXPECTED)
    names, _ = _names(model)
    pairs = dict[tuple[str, str], dict[str, float]]()
    for k, (a, b) in enumerate(zip(model.pair_geom1, model.pair_geom2, strict=True)):
        sliding, _, torsional, rolling, _ = map(float, model.pair_friction[k])
        own = GeomSurface(sliding, torsional, rolling, int(model.pair_dim[k]), 0)
        pairs[names[int(a)], names[int(b)]] = dict(zip(MATERIAL, own.alone, strict=True))
    return {names[g]: _surface(model, g) for g in _colliding(model)}, pairs


def ignored_of_model(given: Any) -> list[tuple[str, str]]:
    """Pairs of geoms that MuJoCo's masks and exclusions keep apart, except those of an explicit ``<pair>``."""
    model = NamedModel(given, EXPECTED)
    names, _ = _names(model)
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
                pairs.append((names[g], names[h]))
    return pairs


def _colliding(model: NamedModel) -> list[int]:
    """Geoms whose masks or an explicit pair let them touch something; none where contacts are switched off."""
    if model.is_disabled("CONTACT", "CONSTRAINT"):
        return []
    paired = {int(g) for g in (*model.pair_geom1, *model.pair_geom2)}
    return [g for g in range(model.ngeom) if model.geom_contype[g] or model.geom_conaffinity[g] or g in paired]


def solid(model: NamedModel, of: Literal["geom", "site"], number: int) -> Solid | None:
    """Shape of a geom or site that its sizes say; None of another."""
    a, b, c = (float(x) for x in getattr(model, f"{of}_size")[number])
    match model.word("mjtGeom", getattr(model, f"{of}_type")[number]):
        case "sphere":
            return Sphere(a)
        case "capsule":
            return Capsule(a, 2 * b)
        case "cylinder":
            return Cylinder(a, 2 * b)
        case "box":
            return Box(2 * a, 2 * b, 2 * c)
        case "ellipsoid":
            return Ellipsoid(a, b, c)
    return None


def _shape(model: NamedModel, g: int, name: str, body: str, visual: bool) -> Shape:
    if found := solid(model, "geom", g):
        return found
    match kind := model.word("mjtGeom", model.geom_type[g]):
        case "plane":
            return HalfSpace()
        case "mesh":
            mesh = int(model.geom_dataid[g])
            first, face = int(model.mesh_vertadr[mesh]), int(model.mesh_faceadr[mesh])
            vertices = np.array(model.mesh_vert[first : first + int(model.mesh_vertnum[mesh])], dtype=float)
            faces = model.mesh_face[face : face + int(model.mesh_facenum[mesh])]
            return Mesh(vertices, faces, convex=False) if visual else Mesh(vertices)
        case "hfield":
            field = int(model.geom_dataid[g])
            shape = int(model.hfield_nrow[field]), int(model.hfield_ncol[field])  # rows along y
            first, (x, y, most, _) = int(model.hfield_adr[field]), model.hfield_size[field].tolist()
            heights = model.hfield_data[first : first + shape[0] * shape[1]].reshape(shape)
            return HeightField(most * np.array(heights.T, dtype=float), (2 * x, 2 * y))
    raise ModelError(
        f"geom {name!r} of body {body!r}", "a plane, sphere, capsule, cylinder, box, ellipsoid, mesh or hfield", kind,
        "Replace it in the file, or take it out of collision (contype=0, conaffinity=0).",
    )  # fmt: skip


def _names(model: NamedModel) -> tuple[list[str], list[str]]:
    """Names of geoms, and of bodies as in the tree of the model.

    The name of a body stands for all geoms on it, so that no geom may have it unless it is the only one.
    """
    bodies, given = model.names_of("body"), model.given_names("geom")
    taken = {name for name in given if name} | set(bodies)
    geoms = [
        (f"{name}:geom" if name in bodies else name) if name else unique_name(f"geom{g}", taken)
        for g, name in enumerate(given)
    ]
    return geoms, bodies
