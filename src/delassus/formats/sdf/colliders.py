"""``<collision>`` and ``<visual>`` elements of SDF files → colliders."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from delassus.errors import ModelError, shown
from delassus.formats.sdf.frames import Frames, Model, Pose, flag_of, numbers_of, read_pose, relative_to, text_of, times
from delassus.formats.sdf.models import folders_of, models_of
from delassus.formats.text import check_file
from delassus.formats.urdf.colliders import Found, Meshes
from delassus.formats.urdf.meshes import find_mesh, read_mesh
from delassus.model.shapes import Box, Capsule, Cylinder, Ellipsoid, HalfSpace, Mesh, Shape, Sphere
from delassus.spatial.rotations import Array, rotation_between

SHAPES = ("box", "sphere", "cylinder", "capsule", "ellipsoid", "plane", "mesh", "drake:capsule", "drake:ellipsoid")
"""Geometries that are read."""

MATERIALS = {
    "surface/friction/ode/mu": "friction", "surface/bounce/restitution_coefficient": "restitution",
    "drake:proximity_properties/drake:mu_dynamic": "friction",
}  # fmt: skip
"""Where an element says what of its material; a later place counts before an earlier one."""


def colliders_of_sdf(
    root: Element, path: Path, kind: str, convex: bool, folders: tuple[Path, ...], max_bytes: float
) -> list[Found]:
    """Those of a parsed ``<sdf>`` from elements ``kind``; see `delassus.formats.colliders.load_colliders`."""
    models = models_of(root, path, max_bytes)
    frames, found, meshes = Frames(models), list[Found](), Meshes()
    for model in models[1:]:
        for link, key in model.children("link"):
            elements = link.findall(kind)
            for k, element in enumerate(elements):
                what = f"{kind} {k} of link {key!r} in file {str(model.path)!r}"
                if element.find("geometry/empty") is not None:
                    continue
                name = _name(key, element, k, len(elements))
                pose = _pose(element, key, model, frames, what)
                shape, turn = _shape(element, model.path, folders, convex, what, meshes, max_bytes)
                pose = times(pose, (turn, np.zeros(3)))
                at = ("world", times(frames.pose(key), pose)) if model.is_static else (key, pose)
                found.append((at[0], name, shape, at[1], _material(element, what)))
    return found


def ignored_of_sdf(root: Element, path: Path, max_bytes: float) -> list[tuple[str, str]]:
    """Pairs of colliders that never meet: those of one model, but of links that ``self_collide`` and share no joint."""
    models, pairs = models_of(root, path, max_bytes), list[tuple[str, str]]()
    frames = Frames(models)
    joined = {
        frozenset(frames.link(frames.key(text_of(x, role), model, f"joint {key!r}")) for role in ("parent", "child"))
        for model in models for x, key in model.children("joint")
    }  # fmt: skip
    links: dict[str, list[tuple[str, bool, list[str]]]] = {}
    for model in models[1:]:
        outermost = model
        while outermost.around is not models[0]:
            outermost = outermost.around or outermost
        meets = flag_of(outermost.element, "self_collide", outermost.what)
        for x, key in model.children("link"):
            elements = x.findall("collision")
            names = [_name(key, element, k, len(elements)) for k, element in enumerate(elements)]
            links.setdefault(outermost.key, []).append((key, flag_of(x, "self_collide", f"link {key!r}", meets), names))
    for own in links.values():
        for k, (a, a_meets, first) in enumerate(own):
            for b, b_meets, second in own[k + 1 :]:
                if not (a_meets and b_meets) or frozenset((a, b)) in joined:
                    pairs += [(x, y) for x in first for y in second]
    return pairs


def _name(link: str, element: Element, k: int, n: int) -> str:
    """Name of collider k of n on a link."""
    return link if n == 1 else f"{link}:{element.get('name') or k}"


def _pose(element: Element, link: str, model: Model, frames: Frames, what: str) -> Pose:
    """Pose of an element in the frame of its link."""
    base, pose = relative_to(element), read_pose(element, what)
    return times(frames.within(frames.key(base, model, what), link), pose) if base else pose


def _shape(
    element: Element, path: Path, folders: tuple[Path, ...], convex: bool, what: str, meshes: Meshes, max_bytes: float
) -> tuple[Shape, Array]:
    """Shape of an element, and the rotation of its frame in that of the element."""
    geometry = element.find("geometry")
    shapes = [] if geometry is None else [x for x in geometry if x.tag in SHAPES]
    others = [] if geometry is None else [x.tag for x in geometry if not x.tag.startswith("drake:")]
    if not shapes:
        came = f"a <{others[0]}>" if others else "none"
        raise ModelError(what, f"a shape among {', '.join(SHAPES)}", came, "Use one of these.")
    of_drake = (x for x in shapes if x.tag.startswith("drake:"))
    shape, straight = next(of_drake, shapes[0]), np.eye(3)  # Drake's own stands for the one beside it

    def lengths(*tags: str) -> list[float]:
        numbers = [numbers_of(shape, tag, what, *([0.0] * (3 if tag in ("size", "radii") else 1))) for tag in tags]
        for tag, values in zip(tags, numbers, strict=True):
            if min(values) <= 0.0:
                raise ModelError(f"{what}, <{tag}>", "positive lengths", shown(values), "Correct it.")
        return [x for values in numbers for x in values]

    match shape.tag.removeprefix("drake:"):
        case "sphere":
            return Sphere(*lengths("radius")), straight
        case "box":
            return Box(*lengths("size")), straight
        case "cylinder":
            return Cylinder(*lengths("radius", "length")), straight
        case "capsule":
            return Capsule(*lengths("radius", "length")), straight
        case "ellipsoid":
            tags = ("radii",) if shape.tag == "ellipsoid" else ("a", "b", "c")
            return Ellipsoid(*lengths(*tags)), straight
        case "plane":
            normal = np.array(numbers_of(shape, "normal", what, 0.0, 0.0, 1.0))
            if not normal.any():
                raise ModelError(
                    f"{what}, <normal>", "a vector that is not zero", shown(normal.tolist()), "Correct it."
                )
            return HalfSpace(), rotation_between(np.eye(3)[2], normal)
    return _mesh(shape, path, folders, convex, what, meshes, max_bytes), straight


def _mesh(
    shape: Element, path: Path, folders: tuple[Path, ...], convex: bool, what: str, meshes: Meshes, max_bytes: float
) -> Mesh:
    if shape.find("submesh") is not None:
        raise ModelError(what, "a whole mesh", "a <submesh>", "Write it to a file of its own.")
    scale, address = np.array(numbers_of(shape, "scale", what, 1.0, 1.0, 1.0)), text_of(shape, "uri")
    if np.any(scale == 0.0):
        raise ModelError(f"{what}, <scale>", "no zeros", shown(scale.tolist()), "Correct it.")
    key = f"{path}:{address}", scale.tobytes()
    if key not in meshes:
        file = find_mesh(address, path, (*folders, *folders_of(path)), what)
        check_file(file, max_bytes)
        vertices, triangles = read_mesh(file, what)
        meshes[key] = Mesh(vertices * scale, triangles[:, :: int(np.prod(np.sign(scale)))], convex=convex)
    return meshes[key]


def _material(element: Element, what: str) -> dict[str, float]:
    """Friction and restitution that an element says."""
    found = dict[str, float]()
    for place, name in MATERIALS.items():
        *outer, tag = place.split("/")
        part = element.find("/".join(outer))
        if part is not None and part.find(tag) is not None:
            (found[name],) = numbers_of(part, tag, what, 0.0)
    return found
