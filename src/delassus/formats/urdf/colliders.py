"""``<collision>`` elements of URDF files → colliders; pairs of links that an SRDF file says not to collide."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from delassus.errors import ModelError, shown
from delassus.formats.text import check_file
from delassus.formats.urdf.extensions import apply_version
from delassus.formats.urdf.meshes import ColouredMesh, find_mesh, read_mesh, read_parts, read_texture
from delassus.formats.urdf.read import ZERO, read_numbers, read_pose, refuse_macros
from delassus.model.shapes import Box, Capsule, Cylinder, Mesh, Shape, Sphere
from delassus.model.tree import Tree
from delassus.spatial.rotations import Array, exact_quarter_turns

UNKNOWN = ("disable_default_collisions", "enable_collisions")
"""Rules of SRDF files that reverse the meaning of the others; they are refused."""

Found = tuple[str, str, Shape, tuple[Array, Array], dict[str, Any]]
"""Link, name, shape, rotation and position in the frame of the link, friction and ``rgba`` that the file says."""

Meshes = dict[tuple[str, bytes], Mesh]


def colliders_of_urdf(
    robot: Element, path: Path, kind: str, convex: bool, folders: tuple[Path, ...], max_bytes: float
) -> list[Found]:
    """Those of a parsed ``<robot>`` from elements ``kind``; see `delassus.formats.colliders.load_colliders`."""
    refuse_macros(robot, robot.get("name", path.stem))
    apply_version(robot, f"file {str(path)!r}")
    found: list[Found] = []
    meshes, parts = Meshes(), dict[tuple[str, bytes], list[ColouredMesh]]()
    colours = dict[str, Array]()  # of materials, whose first definition counts
    if kind == "visual":
        for material in (*robot.findall("material"), *robot.iterfind("link/visual/material")):
            name = material.get("name", "")
            looks = _looks(material, {}, path, folders, f"material {name!r} in file {str(path)!r}", max_bytes)
            if looks:
                colours.setdefault(name, looks["rgba"])
    for link in robot.findall("link"):
        name, elements = link.get("name", ""), link.findall(kind)
        for k, element in enumerate(elements):
            what = f"{kind} {k} of link {name!r} in file {str(path)!r}"
            label = element.get("name") or (name if len(elements) == 1 else f"{name}:{k}")
            rotation, position = read_pose(element, what)
            pose = exact_quarter_turns(rotation), position
            own = _looks(element.find("material"), colours, path, folders, what, max_bytes)
            if kind == "visual" and [x.tag for x in element.iterfind("geometry/*")] == ["mesh"]:
                file, scale = _mesh_file(element, path, folders, what, max_bytes)
                key = str(file), scale.tobytes()
                if key not in parts:
                    parts[key] = read_parts(file, what, scale, max_bytes)
                for number, part in enumerate(parts[key]):
                    looks = own if part.rgba is None else {"rgba": part.rgba}
                    found.append((name, f"{label}:{number}" if number else label, part.mesh, pose, looks))
            else:
                found.append((name, label, _shape(element, path, folders, convex, what, meshes, max_bytes), pose, own))
    return found


def _looks(
    material: Element | None, named: dict[str, Array], path: Path, folders: tuple[Path, ...], what: str,
    max_bytes: float,
) -> dict[str, Any]:  # fmt: skip
    """``rgba`` of a material: the mean of a texture, a colour, or what others of its name have."""
    if material is None:
        return {}
    texture, rgba = material.find("texture"), named.get(material.get("name", ""))
    if texture is not None and texture.get("filename"):
        rgba = read_texture(find_mesh(texture.get("filename", ""), path, folders, what), what, max_bytes)
    elif material.find("color") is not None:
        rgba = np.clip(read_numbers(material, "color", what, rgba=(1.0, 1.0, 1.0, 1.0))[0], 0.0, 1.0)
    return {} if rgba is None else {"rgba": rgba}


def _shape(
    element: Element, path: Path, folders: tuple[Path, ...], convex: bool, what: str, meshes: Meshes, max_bytes: float
) -> Shape:
    geometry = element.find("geometry")
    shapes = [] if geometry is None else list(geometry)
    if geometry is None or len(shapes) != 1:
        raise ModelError(
            what, "one shape in its <geometry>", f"{len(shapes)}", f"Write one <{element.tag}> for each shape."
        )
    shape = shapes[0]

    def lengths(**defaults: tuple[float, ...]) -> list[float]:
        numbers = read_numbers(geometry, shape.tag, what, **defaults)
        for attribute, values in zip(defaults, numbers, strict=True):
            if min(values) <= 0:
                wanted = "a positive length" if len(values) == 1 else "positive lengths"
                raise ModelError(
                    f"{what}, {attribute} of its {shape.tag}", wanted, shown(shape.get(attribute)), "Correct it."
                )
        return [value for values in numbers for value in values]

    match shape.tag:
        case "sphere":
            return Sphere(*lengths(radius=ZERO))
        case "box":
            return Box(*lengths(size=3 * ZERO))
        case "cylinder":
            return Cylinder(*lengths(radius=ZERO, length=ZERO))
        case "capsule":
            return Capsule(*lengths(radius=ZERO, length=ZERO))
        case "mesh":
            file, scale = _mesh_file(element, path, folders, what, max_bytes)
            key = str(file), scale.tobytes()
            if key not in meshes:
                vertices, triangles = read_mesh(file, what)
                if np.prod(np.sign(scale)) < 0:  # a mirror image: reverse the triangles
                    triangles = triangles[:, ::-1]
                meshes[key] = Mesh(vertices * scale, triangles, convex=convex)
            return meshes[key]
    raise ModelError(what, "a sphere, box, cylinder, capsule or mesh", f"a <{shape.tag}>", "Use one of these.")


def _mesh_file(
    element: Element, path: Path, folders: tuple[Path, ...], what: str, max_bytes: float
) -> tuple[Path, Array]:
    """File and scale (3,) of the mesh of an element."""
    geometry = element.find("geometry")
    assert geometry is not None
    mesh, scale = geometry[0], np.array(read_numbers(geometry, "mesh", what, scale=(1.0, 1.0, 1.0))[0])
    if np.any(scale == 0):
        raise ModelError(f"{what}, scale of its mesh", "no zeros", shown(mesh.get("scale")), "Correct it.")
    if not mesh.get("filename"):
        raise ModelError(what, "a filename of its mesh", "none", "Name the file.")
    file = find_mesh(mesh.get("filename", ""), path, folders, what)
    check_file(file, max_bytes)
    return file, scale


def ignored_of_srdf(robot: Element, path: str, tree: Tree | None) -> dict[tuple[str, str], None]:
    """Pairs of a parsed SRDF file; see `delassus.formats.colliders.load_ignored`."""
    what, pairs = f"file {path!r}", dict[tuple[str, str], None]()
    for element in robot:
        if element.tag in UNKNOWN:
            raise ModelError(what, "<disable_collisions>", f"<{element.tag}>", "Write out the pairs that it means.")
        if element.tag != "disable_collisions":
            continue
        first, second = element.get("link1"), element.get("link2")
        if not first or not second:
            came = shown(element.attrib)
            raise ModelError(what, "link1 and link2 on every <disable_collisions>", came, "Name both links.")
        if tree is None or (first in tree.frames and second in tree.frames):
            pairs[first, second] = None
    return pairs
