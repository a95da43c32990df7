"""Shapes of UsdGeom, where they are on bodies, and what their materials say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.errors import ModelError, shown
from delassus.formats.sdf.frames import Pose, times
from delassus.formats.urdf.colliders import Meshes
from delassus.formats.usd.prims import Prims, UsdBody, authored, number, numbers, text
from delassus.model.description import LARGEST
from delassus.model.shapes import Box, Capsule, Cylinder, HalfSpace, Mesh, Shape, Sphere
from delassus.spatial.rotations import Array

TYPES = ("Cube", "Sphere", "Capsule", "Cylinder", "Cone", "Plane", "Mesh")
"""Shapes that are read."""

TO_AXIS: Mapping[str, Array] = {
    "X": np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
    "Y": np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
    "Z": np.eye(3),
}
"""Rotations that take the z axis, along which shapes of the library are, to that of UsdGeom."""

SIDES = 64
"""Of the polygon that stands for the base of a cone; its area is that of the circle."""


def shape_of(prims: Prims, prim: Any, body: UsdBody | None, convex: bool, meshes: Meshes) -> tuple[Shape, Pose]:
    """Shape of a prim, and its pose on a body or in the world.

    Raises
    ------
    ModelError
        Another type of prim; lengths that are not positive; faces that have no corners.
    """
    what, kind = f"shape {str(prim.GetPath())!r}", str(prim.GetTypeName())
    pose, scale = prims.within(prim, body)
    size = np.abs(scale) * prims.length
    axis = text(prim, "axis") or "Z"
    if axis not in TO_AXIS:
        raise ModelError(f"axis of {what}", "X, Y or Z", shown(axis), "Correct it.")
    turn, along = TO_AXIS[axis], "XYZ".index(axis)
    across = float(np.max(np.delete(size, along)))

    def lengths(**defaults: float) -> list[float]:
        found = [number(prim, name, default) for name, default in defaults.items()]
        if min(found) <= 0.0:
            raise ModelError(what, f"positive numbers for {', '.join(defaults)}", shown(found), "Correct them.")
        return found

    match kind:
        case "Cube":
            (edge,) = lengths(size=2.0)
            return Box(*(edge * size).tolist()), pose
        case "Sphere":
            (radius,) = lengths(radius=1.0)
            return Sphere(radius * float(np.max(size))), pose
        case "Capsule" | "Cylinder" | "Cone":
            radius, height = lengths(radius=0.5 if kind == "Capsule" else 1.0, height=1.0 if kind == "Capsule" else 2.0)
            radius, height = radius * across, height * float(size[along])
            turned = times(pose, (turn, np.zeros(3)))
            if kind == "Cone":
                return _cone(radius, height, flip=bool(scale[along] < 0.0)), turned
            return (Capsule if kind == "Capsule" else Cylinder)(radius, height), turned
        case "Plane":
            return HalfSpace(), times(pose, (turn, np.zeros(3)))
        case "Mesh":
            return _mesh(prims, prim, scale * prims.length, what, convex, meshes), pose
    raise ModelError(what, f"a prim among {', '.join(TYPES)}", kind or "one without a type", "Use one of these.")


def _cone(radius: float, height: float, flip: bool) -> Mesh:
    """A cone about z, its base below, as a hull."""
    angles = np.arange(SIDES) * (2.0 * np.pi / SIDES)
    wide = radius * np.sqrt(2.0 * np.pi / (SIDES * np.sin(2.0 * np.pi / SIDES)))
    base = np.stack([wide * np.cos(angles), wide * np.sin(angles), np.full(SIDES, -0.5 * height)], axis=1)
    corners = np.vstack([base, [[0.0, 0.0, 0.5 * height]]])
    return Mesh(corners * [1.0, 1.0, -1.0 if flip else 1.0])


def _mesh(prims: Prims, prim: Any, scale: Array, what: str, convex: bool, meshes: Meshes) -> Mesh:
    """A mesh, its faces cut into triangles; instances share it."""
    source = prim.GetPrimInPrototype() if prim.IsInstanceProxy() else prim
    approximation = text(prim, "physics:approximation") or "none"
    hull = convex and approximation not in ("sdf", "meshSimplification")
    key = f"{source.GetPath()}:{hull}", scale.tobytes()
    if key in meshes:
        return meshes[key]
    points = _array(authored(prim, "points"), float)
    counts, corners = (_array(authored(prim, f"faceVertex{x}"), np.int64) for x in ("Counts", "Indices"))
    if points.ndim != 2 or points.shape[1:] != (3,) or not np.all(np.abs(points) < LARGEST):
        raise ModelError(f"points of {what}", "points of three finite numbers", shown(points.shape), "Correct them.")
    is_whole = counts.ndim == corners.ndim == 1 and np.all(counts >= 0) and counts.sum() == len(corners)
    if not is_whole or np.any((corners < 0) | (corners >= len(points))):
        raise ModelError(f"faces of {what}", "corners that are numbers of points", "others", "Correct the mesh.")
    triangles = _triangles(counts, corners)
    mirrored = (text(prim, "orientation") == "leftHanded") != bool(np.prod(np.sign(scale)) < 0.0)
    if approximation == "boundingCube" and len(points):
        low, high = points.min(axis=0), points.max(axis=0)
        points, hull = np.array([[low[0], low[1], low[2]], high]), True
        points = np.array([[points[i, 0], points[j, 1], points[k, 2]] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
        triangles = triangles[:0]
    if len(points) < 4 or not (hull or len(triangles)):
        raise ModelError(what, "four points and a face", f"{len(points)} and {len(triangles)}", "Correct the mesh.")
    faces = triangles[:, :: -1 if mirrored else 1] if len(triangles) else None
    meshes[key] = Mesh(points * scale, faces, convex=hull)
    return meshes[key]


def _array(value: Any, kind: type) -> NDArray[Any]:
    try:
        return np.array([] if value is None else value, dtype=kind)
    except (TypeError, ValueError):
        return np.zeros((0, 0, 0))


def _triangles(counts: NDArray[np.int64], corners: NDArray[np.int64]) -> NDArray[np.int64]:
    """Triangles (m, 3) of faces of any number of corners: fans from the first."""
    starts = np.cumsum(counts) - counts
    fans = [
        np.stack([corners[starts[counts > k + 1]], corners[starts[counts > k + 1] + k],
                  corners[starts[counts > k + 1] + k + 1]], axis=1)
        for k in range(1, int(np.max(counts, initial=0)) - 1)
    ]  # fmt: skip
    return np.concatenate([np.zeros((0, 3), dtype=np.int64), *fans])


# -- materials -------------------------------------------------------------------------------------------------------


def physics_of(prim: Any) -> dict[str, float]:
    """Density (of the stage's units), friction and restitution of the physics material of a prim, where it has one."""
    from pxr import UsdShade

    material, _ = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial("physics")
    found = dict[str, float]()
    if not material:
        return found
    for name, word in (("density", "density"), ("friction", "dynamicFriction"), ("restitution", "restitution")):
        value = numbers(material.GetPrim(), f"physics:{word}", 1)
        if value is not None:
            found[name] = float(value[0])
    return found


def colour_of(prim: Any) -> tuple[float, ...] | None:
    """Red, green, blue and opacity of a prim: of its material, else its own; None where nothing says it."""
    from pxr import Usd, UsdGeom, UsdShade

    material, _ = UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial()
    rgb, opacity = None, 1.0
    for shader in Usd.PrimRange(material.GetPrim()) if material else ():
        for name in ("inputs:diffuseColor", "inputs:diffuse_color_constant"):
            rgb = _colour(authored(shader, name)) if rgb is None else rgb
        opacity = number(shader, "inputs:opacity", opacity)
    if rgb is None:
        own = UsdGeom.PrimvarsAPI(prim)
        rgb = _colour(own.FindPrimvarWithInheritance("displayColor").Get())
        opaque = _array(own.FindPrimvarWithInheritance("displayOpacity").Get(), float)
        opacity = float(opaque.flat[0]) if opaque.size else 1.0
    return None if rgb is None else tuple(np.clip([*rgb, opacity], 0.0, 1.0).tolist())


def _colour(value: Any) -> list[float] | None:
    """Red, green and blue of a value: of several colours the mean."""
    array = _array(value, float)
    if array.shape == (3,):
        array = array[None]
    if array.ndim != 2 or not len(array) or array.shape[1] != 3 or not np.isfinite(array).all():
        return None
    return [float(x) for x in array.mean(axis=0)]
