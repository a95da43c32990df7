"""``<collision>`` elements of URDF files → colliders."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from delassus.contact.geometry.meshes import find_mesh, read_mesh
from delassus.contact.shapes import Box, Capsule, Collider, Cylinder, Mesh, Shape, Sphere
from delassus.errors import ModelError, shown, unknown_name
from delassus.model.rotations import Array, exact_quarter_turns, rotation_from_rpy
from delassus.model.tree import Tree


def colliders_of_urdf(
    robot: ElementTree.Element,
    path: Path,
    tree: Tree,
    prefix: str,
    friction: float,
    restitution: float,
    convex: bool,
    folders: tuple[Path, ...],
) -> tuple[Collider, ...]:
    """Colliders of a parsed ``<robot>`` element; see `delassus.contact.geometry.load_colliders`."""
    colliders = []
    read: dict[tuple[str, bytes, bool], Mesh] = {}
    for link in robot.findall("link"):
        name = link.get("name", "")
        elements = link.findall("collision")
        if elements and name not in tree.frames:
            raise unknown_name(f"link of {str(path)!r} in the tree", name, tree.frames)
        for k, element in enumerate(elements):
            what = f"collision {k} of link {name!r} in file {str(path)!r}"
            label = element.get("name") or (name if len(elements) == 1 else f"{name}:{k}")
            position, rotation = _origin(element, what)
            colliders.append(
                Collider(
                    "world" if name == "world" else prefix + name,
                    _shape(element, path, folders, convex, what, read),
                    position,
                    rotation,
                    friction=friction,
                    restitution=restitution,
                    name=prefix + label,
                )
            )
    return tuple(colliders)


def _origin(element: ElementTree.Element, what: str) -> tuple[Array, Array]:
    origin = element.find("origin")
    if origin is None:
        return np.zeros(3), np.eye(3)
    rpy = _numbers(origin, "rpy", 3, what, "0 0 0")
    return _numbers(origin, "xyz", 3, what, "0 0 0"), exact_quarter_turns(rotation_from_rpy(rpy))


def _shape(
    element: ElementTree.Element,
    path: Path,
    folders: tuple[Path, ...],
    convex: bool,
    what: str,
    read: dict[tuple[str, bytes, bool], Mesh],
) -> Shape:
    shapes = list(element.iterfind("geometry/*"))
    if len(shapes) != 1:
        raise ModelError(what, "one shape in its <geometry>", f"{len(shapes)}", "Write one <collision> for each shape.")
    shape = shapes[0]
    if shape.tag == "sphere":
        return Sphere(_length(shape, "radius", what))
    if shape.tag == "box":
        size = _numbers(shape, "size", 3, what)
        if np.any(size <= 0):
            raise ModelError(f"{what}, size of its box", "positive lengths", shown(shape.get("size")), "Correct it.")
        return Box(*(float(x) for x in size))
    if shape.tag in ("cylinder", "capsule"):
        kind = Cylinder if shape.tag == "cylinder" else Capsule
        return kind(_length(shape, "radius", what), _length(shape, "length", what))
    if shape.tag == "mesh":
        scale = _numbers(shape, "scale", 3, what, "1 1 1")
        if np.any(scale == 0):
            raise ModelError(f"{what}, scale of its mesh", "no zeros", shown(shape.get("scale")), "Correct it.")
        address = shape.get("filename", "")
        if not address:
            raise ModelError(what, "a filename of its mesh", "none", "Name the file.")
        key = address, scale.tobytes(), convex
        if key not in read:
            vertices, triangles = read_mesh(find_mesh(address, path, folders, what), what)
            if np.prod(scale) < 0:  # a mirror image: turn the triangles around
                triangles = triangles[:, ::-1]
            read[key] = Mesh(vertices * scale, triangles, convex=convex)
        return read[key]
    raise ModelError(what, "a sphere, box, cylinder, capsule or mesh", f"a <{shape.tag}>", "Use one of these.")


def _length(shape: ElementTree.Element, attribute: str, what: str) -> float:
    value = float(_numbers(shape, attribute, 1, what)[0])
    if value <= 0:
        raise ModelError(
            f"{what}, {attribute} of its {shape.tag}", "a positive length", shown(shape.get(attribute)), "Correct it."
        )
    return value


def _numbers(element: ElementTree.Element, attribute: str, size: int, what: str, otherwise: str = "") -> Array:
    text = element.get(attribute, otherwise)
    try:
        numbers = np.array([float(word) for word in text.split()])
    except ValueError:
        numbers = np.zeros(0)
    if len(numbers) != size or not np.isfinite(numbers).all():
        raise ModelError(
            f"{what}, {attribute} of <{element.tag}>", f"{size} finite number(s)", shown(text), "Correct the text."
        )
    return numbers
