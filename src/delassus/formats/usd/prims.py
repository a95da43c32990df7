"""Prims of a stage: their numbers, units and poses, and the bodies that they are part of.

Lengths are in m, masses in kg, and the z axis points up: stages whose y axis does are turned by a quarter about x.
What UsdPhysics has in single precision has a twin in double precision in what `Tree.to_usd` writes; see `TWIN`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from delassus.errors import ModelError, shown
from delassus.formats.sdf.frames import STILL, Pose, inverse, times
from delassus.formats.urdf.read import SHORTEST_QUATERNION
from delassus.model.description import LARGEST
from delassus.spatial.rotations import Array, exact_quarter_turns, quaternion_to_matrix

WORLD = "world"
"""Name of what does not move."""

TWIN = "delassus:"
"""What stands before the name of an attribute in double precision: it counts where it rounds to the single one."""

SQUARE = 1e-5
"""Cosine between axes of a prim from which on it is sheared."""

SMALLEST_SCALE = 1e-12

GROUPS = ("", "Xform", "Scope")
"""Types of prims that hold others, and are no shapes."""

LARGEST_UNIT = 1e9
"""Units of a stage are below this (m, kg), and above its inverse."""

Y_UP = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
"""Turns the y axis upwards."""


class UsdBody(NamedTuple):
    """A rigid body: its prim, its name, its pose in the world, its scales (3,), and whether the user moves it."""

    prim: Any
    name: str
    pose: Pose
    scale: Array
    is_moved: bool

    @property
    def what(self) -> str:
        """What messages call it."""
        return f"body {self.name!r}"


class Prims:
    """Prims of a stage, with those of instances."""

    def __init__(self, stage: Any) -> None:
        from pxr import Usd, UsdGeom, UsdPhysics

        self.length = float(UsdGeom.GetStageMetersPerUnit(stage))
        self.mass = float(UsdPhysics.GetStageKilogramsPerUnit(stage))
        for name, unit in (("metersPerUnit", self.length), ("kilogramsPerUnit", self.mass)):
            if not 1.0 / LARGEST_UNIT < unit < LARGEST_UNIT:
                raise ModelError(f"{name} of the stage", "a positive number", shown(unit), "Correct it.")
        self.stage = stage
        self.up = Y_UP if UsdGeom.GetStageUpAxis(stage) == "Y" else np.eye(3)
        self._cache = UsdGeom.XformCache()
        self.all = [*Usd.PrimRange(stage.GetPseudoRoot(), Usd.TraverseInstanceProxies())][1:]
        given = [prim for prim in self.all if has_api(prim, "PhysicsRigidBodyAPI")]
        enabled = [prim for prim in given if flag(prim, "physics:rigidBodyEnabled", True)]
        names = names_of(enabled)
        self.bodies: dict[str, UsdBody] = {}
        for prim in enabled:
            pose, scale = self.pose(prim)
            is_moved = flag(prim, "physics:kinematicEnabled", False)
            self.bodies[str(prim.GetPath())] = UsdBody(prim, names[str(prim.GetPath())], pose, scale, is_moved)
        self.by_name = {body.name: body for body in self.bodies.values()}
        self.colliders: dict[str, list[Any]] = {}
        for prim in self.all:
            if has_api(prim, "PhysicsCollisionAPI") and str(prim.GetTypeName()) not in GROUPS:
                self.colliders.setdefault(self.on(prim), []).append(prim)

    def matrix(self, prim: Any) -> tuple[Array, Array]:
        """Images (3, 3), in columns, of the axes of a prim in the world, and that of its origin (3,), in m."""
        m = np.array(self._cache.GetLocalToWorldTransform(prim), dtype=float)
        if not np.isfinite(m).all() or np.max(np.abs(m)) >= LARGEST:
            raise ModelError(f"prim {str(prim.GetPath())!r}", "a pose of finite numbers", "another", "Correct it.")
        return self.up @ m[:3, :3].T, self.up @ m[3, :3] * self.length

    def pose(self, prim: Any) -> tuple[Pose, Array]:
        """Pose of a prim in the world, and its scales (3,) along its axes."""
        axes, position = self.matrix(prim)
        scale = np.linalg.norm(axes, axis=0)
        if scale.min() < SMALLEST_SCALE:
            raise ModelError(f"scale of prim {str(prim.GetPath())!r}", "no zeros", shown(scale.tolist()), "Correct it.")
        R = axes / scale
        if np.max(np.abs(R.T @ R - np.eye(3))) > SQUARE:
            raise ModelError(f"prim {str(prim.GetPath())!r}", "axes at right angles", "sheared ones", "Correct it.")
        if np.linalg.det(R) < 0.0:  # a mirror image: of all three axes, as Gf.Transform has it
            R, scale = -R, -scale
        u, _, v = np.linalg.svd(R) if np.max(np.abs(R.T @ R - np.eye(3))) > 1e-15 else (R, None, np.eye(3))
        return (exact_quarter_turns(u @ v), position), scale

    def body_of(self, prim: Any) -> UsdBody | None:
        """The body that a prim is part of, None where that is the world."""
        while prim and not prim.IsPseudoRoot():
            body = self.bodies.get(str(prim.GetPath()))
            if body is not None:
                return body
            if has_api(prim, "PhysicsRigidBodyAPI"):  # one that is switched off
                return None
            prim = prim.GetParent()
        return None

    def on(self, prim: Any) -> str:
        """Name of the body that a prim is part of."""
        body = self.body_of(prim)
        return WORLD if body is None else body.name

    def within(self, prim: Any, body: UsdBody | None) -> tuple[Pose, Array]:
        """Pose of a prim in a body, or in the world, and its scales."""
        if body is not None and prim == body.prim:
            return STILL, body.scale
        pose, scale = self.pose(prim)
        return (pose if body is None else times(inverse(body.pose), pose)), scale

    def local(self, prim: Any, names: tuple[str, str], owner: Any, body: UsdBody | None) -> Pose:
        """Pose in a body of a frame that attributes of a prim give in another prim, or in the world, by ``names``."""
        position = numbers(prim, names[0], 3)
        turn = rotation(prim, names[1])
        p = np.zeros(3) if position is None else position * self.length
        if owner is None:
            return exact_quarter_turns(self.up @ turn), self.up @ p
        base, scale = self.within(owner, body)
        return times(base, (turn, scale * p))


def has_api(prim: Any, schema: str) -> bool:
    """Whether a schema is applied to a prim, one that OpenUSD does not know, too."""
    return schema in schemas(prim)


def schemas(prim: Any) -> list[str]:
    """Names of the schemas that are applied to a prim."""
    given = prim.GetMetadata("apiSchemas")
    return [] if given is None else [str(x) for x in given.GetAppliedItems()]


def names_of(prims: list[Any]) -> dict[str, str]:
    """Name of each prim by its path: what `Tree.to_usd` wrote, else its own, or its path where several have that."""
    own = {str(x.GetPath()): text(x, TWIN + "name") or str(x.GetName()) for x in prims}
    count = Counter(own.values())
    return {path: name if count[name] == 1 and name != WORLD else path.strip("/") for path, name in own.items()}


def authored(prim: Any, name: str) -> Any:
    """Value of an attribute, None where the stage gives none."""
    attribute = prim.GetAttribute(name)
    return attribute.Get() if attribute and attribute.HasAuthoredValue() else None


def text(prim: Any, name: str) -> str:
    """Text or token that an attribute has, "" where there is none."""
    value = authored(prim, name)
    return value if isinstance(value, str) else ""


def flag(prim: Any, name: str, default: bool) -> bool:
    """Truth value that an attribute has, or the default."""
    value = authored(prim, name)
    if value is None:
        return default
    if not isinstance(value, bool | int):
        raise _wrong(prim, name, "true or false", value)
    return bool(value)


def numbers(prim: Any, name: str, size: int, infinite: bool = False) -> Array | None:
    """Numbers (size,) of an attribute, quaternions as x y z w; None where the stage gives none."""
    value = authored(prim, name)
    if value is None:
        return None
    array = _floats(value)
    if array.shape != (size,) or np.isnan(array).any() or not (infinite or np.max(np.abs(array)) < LARGEST):
        wanted = f"{size} number(s)" if infinite else f"{size} finite number(s)"
        raise _wrong(prim, name, wanted, value)
    twin = authored(prim, TWIN + name)
    if twin is not None:
        exact = _floats(twin)
        if exact.shape == array.shape and np.array_equal(exact.astype(np.float32), array.astype(np.float32)):
            return exact
    return array


def number(prim: Any, name: str, default: float, infinite: bool = False) -> float:
    """Number of an attribute, or the default."""
    value = numbers(prim, name, 1, infinite)
    return default if value is None else float(value[0])


def first_number(prim: Any, names: tuple[str, ...], factors: tuple[float, ...]) -> float:
    """Number of the first attribute that the stage gives, times the factor of its units; 0 where there is none."""
    for name, factor in zip(names, factors, strict=True):
        value = numbers(prim, name, 1)
        if value is not None:
            return float(value[0]) * factor
    return 0.0


def rotation(prim: Any, name: str) -> Array:
    """Rotation (3, 3) of the quaternion of an attribute; zeros, as UsdPhysics has them by default, turn nothing."""
    quaternion = numbers(prim, name, 4)
    if quaternion is None:
        return np.eye(3)
    length = float(np.linalg.norm(quaternion))
    if not length > SHORTEST_QUATERNION:
        return np.eye(3)
    return np.asarray(quaternion_to_matrix(quaternion / length))


def targets(prim: Any, name: str) -> list[str]:
    """Paths that a relationship names."""
    relationship = prim.GetRelationship(name)
    return [str(x) for x in relationship.GetTargets()] if relationship else []


def _floats(value: Any) -> Array:
    """Numbers of a value as they are, of a quaternion as x y z w; none where it is something else."""
    if hasattr(value, "imaginary") and hasattr(value, "real") and not isinstance(value, float | int):
        return np.array([*value.imaginary, value.real], dtype=float)
    if isinstance(value, bool | str):
        return np.zeros(0)
    try:
        return np.atleast_1d(np.array(value, dtype=float))
    except (TypeError, ValueError):
        return np.zeros(0)


def _wrong(prim: Any, name: str, wanted: str, came: Any) -> ModelError:
    return ModelError(f"{name} of prim {str(prim.GetPath())!r}", wanted, shown(came), "Correct the stage.")


def each(prims: Prims, *kinds: str) -> Iterator[Any]:
    """Prims whose type is one of these."""
    return (prim for prim in prims.all if str(prim.GetTypeName()) in kinds)
