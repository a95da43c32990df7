"""Files of meshes and of pictures on them: where their addresses point, what is in them, and of what colour it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from delassus.errors import ModelError, missing_dependency, require, shown
from delassus.formats.text import check_file, folders_in
from delassus.model.shapes import Mesh
from delassus.spatial.rotations import Array

ADVICE = "Pass package_dirs=, or set ROS_PACKAGE_PATH, if its package is elsewhere."


class ColouredMesh(NamedTuple):
    """A mesh of one colour: ``rgba`` (4,) from 0 to 1, None where the file says none."""

    mesh: Mesh
    rgba: Array | None


def find_mesh(address: str, description: Path, folders: Sequence[Path], what: str) -> Path:
    """File of an address: ``package://`` or ``model://``, ``file://``, or a path from the description's folder."""
    scheme, mark, rest = address.partition("://")
    if not mark:
        candidates = iter([description.parent / address])
    elif scheme == "file":
        candidates = iter([Path(rest)])
    elif scheme in ("package", "model"):
        candidates = _in_packages(rest.lstrip("/"), description, folders)
    else:
        raise ModelError(what, "a package://, model:// or file:// address, or a path", shown(address), "Use a file.")
    tried = []
    for path in candidates:
        try:
            if path.is_file():
                return path
        except (OSError, ValueError):
            pass  # a path that cannot exist
        tried.append(str(path))
    listed = ", ".join(tried[:3]) + (", …" if len(tried) > 3 else "")
    raise ModelError(what, "a mesh file that exists", f"{shown(address)} (not at {listed})", ADVICE)


def _in_packages(rest: str, description: Path, folders: Sequence[Path]) -> Iterator[Path]:
    """Where a file of a package may be: below a folder that holds the package, or is it."""
    package, _, inside = rest.partition("/")
    for folder in (*folders, *folders_in("ROS_PACKAGE_PATH"), *description.absolute().parents):
        yield folder / rest
        if folder.name == package:
            yield folder / inside


def read_mesh(path: Path, what: str) -> tuple[Array, NDArray[np.int64]]:
    """Vertices (n, 3) and triangles (m, 3) of a mesh file, by ``trimesh``, or by ``coal`` where that cannot read it."""
    failures, lacking = [], False
    for reader in (_by_trimesh, _by_coal):
        try:
            vertices, triangles = reader(path)
        except Exception as error:  # readers of other projects: whatever they raise is a defect of the file
            failures.append(f"{type(error).__name__}: {error}")
            lacking = lacking or isinstance(error, ImportError)
            continue
        if len(vertices) and len(triangles) and np.isfinite(vertices).all():
            return vertices, triangles
        failures.append("no triangles, or corners that are not finite")
    if lacking:
        raise missing_dependency("coal", "contact", f"{what} ({path.name})")
    raise ModelError(what, f"a mesh in file {str(path)!r}", "; ".join(failures), "Check the file.")


def read_parts(path: Path, what: str, scale: Array, max_bytes: float) -> list[ColouredMesh]:
    """What is in a mesh file, a part for each colour that it says, its corners times ``scale`` (3,).

    Files that it names as materials and textures are read where they lie in its folder, or in one beside it.
    """
    found: dict[tuple[float, ...], list[tuple[Array, NDArray[np.int64]]]] = {}
    try:
        for vertices, triangles, rgba in _coloured(path, max_bytes):
            if len(triangles) and np.isfinite(vertices).all():
                found.setdefault(rgba, []).append((vertices, triangles))
    except Exception:  # what trimesh cannot read is left to the others, whose words are the error
        found.clear()
    if not found:
        found[()] = [read_mesh(path, what)]
    parts = []
    for rgba, pieces in found.items():
        starts = np.cumsum([0, *(len(vertices) for vertices, _ in pieces)])
        vertices = np.concatenate([vertices for vertices, _ in pieces]) * scale
        triangles = np.concatenate([t + start for (_, t), start in zip(pieces, starts, strict=False)])
        if np.prod(np.sign(scale)) < 0:  # a mirror image: reverse the triangles
            triangles = triangles[:, ::-1]
        parts.append(ColouredMesh(Mesh(vertices, triangles, convex=False), np.array(rgba) if rgba else None))
    return parts


def _coloured(path: Path, max_bytes: float) -> Iterator[tuple[Array, NDArray[np.int64], tuple[float, ...]]]:
    """Vertices, triangles and colour, () where there is none, of each object that trimesh finds in a file."""
    import trimesh

    file, kind = BytesIO(path.read_bytes()), path.suffix.lower().removeprefix(".")
    scene = trimesh.load_scene(file, file_type=kind, resolver=_Beside(path, max_bytes))
    for node in scene.graph.nodes_geometry:
        at, name = scene.graph[node]
        mesh = scene.geometry[name]
        if hasattr(mesh, "faces"):
            triangles = np.asarray(mesh.faces, dtype=np.int64)
            if np.linalg.det(at[:3, :3]) < 0:
                triangles = triangles[:, ::-1]
            yield np.asarray(mesh.vertices @ at[:3, :3].T + at[:3, 3], float), triangles, _colour_of(mesh.visual)


def _colour_of(visual: Any) -> tuple[float, ...]:
    """Colour of an object by trimesh, the mean of its texture where it has one; () where the file says none."""
    material = getattr(visual, "material", None)
    if material is None:  # colours of corners or faces
        return tuple(np.round(np.mean(visual.face_colors, axis=0) / 255, 4).tolist()) if visual.kind else ()
    is_simple = hasattr(material, "diffuse")
    image = material.image if is_simple else material.baseColorTexture
    if image is None and (material.name is None if is_simple else material.baseColorFactor is None):
        return ()
    rgba = np.asarray(material.main_color, float) / 255
    if image is not None:
        rgba = mean_colour(image) * (1.0 if is_simple or material.baseColorFactor is None else rgba)
    if is_simple and "d" in material.kwargs:  # of an MTL file
        rgba[3] = np.clip(float(material.kwargs["d"][0]), 0.0, 1.0)
    opacity = float(rgba[3]) or 1.0  # nobody stores a mesh that is not to be seen; exporters mean the opposite
    return (*np.round(rgba[:3], 4).tolist(), round(opacity, 4))


def mean_colour(image: Any) -> Array:
    """Mean (4,) of a picture of Pillow's, from 0 to 1; what is transparent does not count."""
    pixels = np.asarray(image.convert("RGBA").reduce(max(1, min(image.size) // 64)), float).reshape(-1, 4) / 255
    weight = pixels[:, 3:] if pixels[:, 3].any() else np.ones((len(pixels), 1))
    return np.append((pixels[:, :3] * weight).sum(axis=0) / weight.sum(), pixels[:, 3].mean())


def read_texture(path: Path, what: str, max_bytes: float) -> Array:
    """Mean colour (4,) of a picture file, from 0 to 1."""
    require("PIL", "video", f"the texture of {what}")
    from PIL import Image

    check_file(path, max_bytes)
    try:
        with Image.open(path) as image:
            return mean_colour(image)
    except Exception as error:  # of Pillow, which knows many kinds of broken files
        came = f"{type(error).__name__}: {error}"
        raise ModelError(what, f"a picture in file {str(path)!r}", came, "Check the file.") from error


class _Beside:
    """Files that a mesh file may name, as trimesh asks for them: below the folder that its own folder is in."""

    def __init__(self, path: Path, max_bytes: float) -> None:
        self._folder, self._max_bytes = path.absolute().parent, max_bytes

    def get(self, name: str) -> bytes:
        path = (self._folder / name.replace("\\", "/")).resolve()
        if not path.is_relative_to(self._folder.parent.resolve()):
            raise ValueError(f"{name} is elsewhere")
        check_file(path, self._max_bytes)
        return path.read_bytes()

    __getitem__ = get


def _by_trimesh(path: Path) -> tuple[Array, NDArray[np.int64]]:
    import trimesh

    file = BytesIO(path.read_bytes())  # without a path, so that no files are opened that this one names as materials
    mesh: Any = trimesh.load_mesh(file, file_type=path.suffix.lower().removeprefix("."))
    if not hasattr(mesh, "faces"):
        mesh = mesh.to_mesh()
    return np.array(mesh.vertices, dtype=float), np.array(mesh.faces, dtype=np.int64)


def _by_coal(path: Path) -> tuple[Array, NDArray[np.int64]]:
    import coal

    model = coal.MeshLoader().load(str(path), np.ones(3))
    triangles = [model.tri_indices(i) for i in range(model.num_tris)]
    return np.array(model.vertices()), np.array([[t[0], t[1], t[2]] for t in triangles], dtype=np.int64)
