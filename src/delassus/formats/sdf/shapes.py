"""Geometries of SDF files → shapes, with their poses in the element that has them."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element

import numpy as np

from delassus.errors import ModelError, missing_dependency, shown
from delassus.formats.sdf.frames import STILL, Pose, finite_numbers, numbers_of, text_of
from delassus.formats.sdf.models import folders_of
from delassus.formats.text import check_file
from delassus.formats.urdf.colliders import Meshes
from delassus.formats.urdf.meshes import ColouredMesh, find_mesh, read_mesh, read_parts
from delassus.model.shapes import Box, Capsule, Cylinder, Ellipsoid, HalfSpace, HeightField, Mesh, Shape, Sphere
from delassus.spatial.rotations import Array, rotation_between

SHAPES = (
    "box", "sphere", "cylinder", "capsule", "ellipsoid", "cone", "plane", "polyline", "mesh", "heightmap",
    "drake:capsule", "drake:ellipsoid",
)  # fmt: skip
"""Geometries that are read."""

SIDES = 48
"""Sides of the pyramid that stands for a cone, of which its circle is the outer one."""

LARGEST_IMAGE = 4_000_000
"""Pixels above which images of height fields are refused."""

FLAT = ("L", "I;16", "I;16B", "I;16L", "I", "RGB", "RGBA", "P", "LA")
"""Modes of images that Pillow reads as whole numbers."""


def shape_of(
    element: Element, path: Path, folders: tuple[Path, ...], convex: bool, what: str, meshes: Meshes, max_bytes: float
) -> tuple[Shape, Pose]:
    """Shape of an element, and the pose of its frame in that of the element."""
    shape = geometry_of(element, what)

    def lengths(*tags: str) -> list[float]:
        numbers = [numbers_of(shape, tag, what, *([0.0] * (3 if tag in ("size", "radii") else 1))) for tag in tags]
        for tag, values in zip(tags, numbers, strict=True):
            if min(values) <= 0.0:
                raise ModelError(f"{what}, <{tag}>", "positive lengths", shown(values), "Correct it.")
        return [x for values in numbers for x in values]

    match shape.tag.removeprefix("drake:"):
        case "sphere":
            return Sphere(*lengths("radius")), STILL
        case "box":
            return Box(*lengths("size")), STILL
        case "cylinder":
            return Cylinder(*lengths("radius", "length")), STILL
        case "capsule":
            return Capsule(*lengths("radius", "length")), STILL
        case "ellipsoid":
            tags = ("radii",) if shape.tag == "ellipsoid" else ("a", "b", "c")
            return Ellipsoid(*lengths(*tags)), STILL
        case "cone":
            return _cone(*lengths("radius", "length")), STILL
        case "polyline":
            return _prism(shape, lengths("height")[0], what), STILL
        case "plane":
            normal = np.array(numbers_of(shape, "normal", what, 0.0, 0.0, 1.0))
            if not normal.any():
                raise ModelError(
                    f"{what}, <normal>", "a vector that is not zero", shown(normal.tolist()), "Correct it."
                )
            return HalfSpace(), (rotation_between(np.eye(3)[2], normal), np.zeros(3))
        case "heightmap":
            place = np.array(numbers_of(shape, "pos", what, 0.0, 0.0, 0.0))
            return _height_field(shape, path, folders, what, max_bytes), (np.eye(3), place)
    return _mesh(shape, path, folders, convex, what, meshes, max_bytes), STILL


def geometry_of(element: Element, what: str) -> Element:
    """The geometry of an element that is read."""
    geometry = element.find("geometry")
    shapes = [] if geometry is None else [x for x in geometry if x.tag in SHAPES]
    others = [] if geometry is None else [x.tag for x in geometry if not x.tag.startswith("drake:")]
    if not shapes:
        came = f"a <{others[0]}>" if others else "none"
        raise ModelError(what, f"a shape among {', '.join(SHAPES)}", came, "Use one of these.")
    if len([x for x in shapes if x.tag == "polyline"]) > 1:
        raise ModelError(what, "one <polyline>", "several", "Write one element for each; holes are not read.")
    of_drake = (x for x in shapes if x.tag.startswith("drake:"))
    return next(of_drake, shapes[0])  # Drake's own stands for the one beside it


def sheet(element: Element, what: str) -> Mesh:
    """The rectangle that a ``<plane>`` of a link that moves looks like, across z."""
    x, y = numbers_of(geometry_of(element, what), "size", what, 1.0, 1.0)
    corners = np.array([[-x, -y, 0.0], [x, -y, 0.0], [x, y, 0.0], [-x, y, 0.0]]) / 2.0
    return Mesh(corners, [[0, 1, 2], [0, 2, 3]], convex=False)


def _mesh(
    shape: Element, path: Path, folders: tuple[Path, ...], convex: bool, what: str, meshes: Meshes, max_bytes: float
) -> Mesh:
    file, scale = _mesh_file(shape, path, folders, what, max_bytes)
    key = str(file), scale.tobytes()
    if key not in meshes:
        vertices, triangles = read_mesh(file, what)
        meshes[key] = Mesh(vertices * scale, triangles[:, :: int(np.prod(np.sign(scale)))], convex=convex)
    return meshes[key]


def _mesh_file(
    shape: Element, path: Path, folders: tuple[Path, ...], what: str, max_bytes: float
) -> tuple[Path, Array]:  # fmt: skip
    """File of a mesh, and factors (3,) of its corners."""
    if shape.find("submesh") is not None:
        raise ModelError(what, "a whole mesh", "a <submesh>", "Write it to a file of its own.")
    scale = np.array(numbers_of(shape, "scale", what, 1.0, 1.0, 1.0))
    if np.any(scale == 0.0):
        raise ModelError(f"{what}, <scale>", "no zeros", shown(scale.tolist()), "Correct it.")
    file = find_mesh(text_of(shape, "uri"), path, (*folders, *folders_of(path)), what)
    check_file(file, max_bytes)
    return file, scale


def coloured_parts(
    element: Element, path: Path, folders: tuple[Path, ...], what: str, max_bytes: float
) -> list[ColouredMesh]:  # fmt: skip
    """Meshes of the colours that the file of an element's mesh has; none where it is another shape."""
    shape = geometry_of(element, what)
    if shape.tag != "mesh":
        return []
    file, scale = _mesh_file(shape, path, folders, what, max_bytes)
    return read_parts(file, what, scale, max_bytes)


def _cone(radius: float, length: float) -> Mesh:
    """A cone about z, its tip up, centred half-way."""
    angles = 2.0 * np.pi * np.arange(SIDES) / SIDES
    rim = np.stack([radius * np.cos(angles), radius * np.sin(angles), np.full(SIDES, -length / 2.0)], axis=1)
    return _with_caps(rim, np.array([[0.0, 0.0, length / 2.0]]))


def _prism(shape: Element, height: float, what: str) -> Mesh:
    """A convex polygon, moved up by a height."""
    given = [finite_numbers((x.text or "").strip()) for x in shape.findall("point")]
    points = np.array([x for x in given if x is not None and len(x) == 2]).reshape(-1, 2)
    if len(points) != len(given) or len(points) < 3:
        raise ModelError(f"{what}, <polyline>", "three <point> of two numbers at least", shown(given), "Correct it.")
    points = points[:-1] if np.array_equal(points[0], points[-1]) else points
    sides = np.roll(points, -1, axis=0) - points
    following = np.roll(sides, -1, axis=0)
    turns = sides[:, 0] * following[:, 1] - sides[:, 1] * following[:, 0]
    angles = np.arctan2(turns, np.sum(sides * following, axis=1))
    if not (np.all(turns >= 0.0) or np.all(turns <= 0.0)) or not np.isclose(abs(angles.sum()), 2.0 * np.pi):
        raise ModelError(f"{what}, <polyline>", "a convex polygon", "another", "Write several, or a mesh.")
    points = points if turns.sum() > 0.0 else points[::-1]
    low = np.column_stack([points, np.zeros(len(points))])
    return _with_caps(low, low + np.array([0.0, 0.0, height]))


def _with_caps(low: Array, high: Array) -> Mesh:
    """The solid between a polygon, counterclockwise seen from above, and the same one or a point above it."""
    n, tips = len(low), len(high)
    k = np.arange(n)
    after = (k + 1) % n
    sides = [np.stack([k, after, n + (k if tips > 1 else 0 * k)], axis=1)]
    bottom = np.stack([0 * k[1:-1], k[2:], k[1:-1]], axis=1)
    if tips > 1:
        sides += [np.stack([after, n + after, n + k], axis=1), n + bottom[:, ::-1]]
    return Mesh(np.concatenate([low, high]), np.concatenate([*sides, bottom]), convex=True)


def _height_field(shape: Element, path: Path, folders: tuple[Path, ...], what: str, max_bytes: float) -> HeightField:
    """Heights of an image, whose brightest pixel has the height of ``<size>``; rows go down from the largest y."""
    size = np.array(numbers_of(shape, "size", what, 1.0, 1.0, 1.0))
    address = text_of(shape, "uri")
    if not address or min(size) <= 0.0:
        raise ModelError(f"{what}, <heightmap>", "a <uri>, and positive lengths", shown(address), "Correct it.")
    file = find_mesh(address, path, (*folders, *folders_of(path)), what)
    check_file(file, max_bytes)
    try:
        from PIL import Image
    except ImportError as error:
        raise missing_dependency("pillow", "video", f"{what} ({file.name})") from error
    try:
        with Image.open(file) as image:
            wanted = f"an image of whole numbers, of {LARGEST_IMAGE} pixels at most"
            if image.mode not in FLAT or image.width * image.height > LARGEST_IMAGE:
                came = f"one of {image.width} by {image.height} of the kind {image.mode}"
                raise ModelError(f"{what} ({file.name})", wanted, came, "Convert it to a grey PNG file.")
            grey = np.asarray(image.convert("RGB").getchannel(0) if image.mode in FLAT[5:] else image, dtype=float)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        came = f"{type(error).__name__}: {error}"
        raise ModelError(f"{what} ({file.name})", "an image", came, "Convert it to a grey PNG file.") from error
    brightest = max(1e-300, float(grey.max()))
    return HeightField(grey[::-1].T * (size[2] / brightest), size[:2])
