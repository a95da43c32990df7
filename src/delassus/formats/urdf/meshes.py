"""Mesh files: where their addresses point, and what is in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.errors import ModelError, missing_dependency, shown
from delassus.formats.text import folders_in
from delassus.spatial.rotations import Array

ADVICE = "Pass package_dirs=, or set ROS_PACKAGE_PATH, if its package is elsewhere."


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
