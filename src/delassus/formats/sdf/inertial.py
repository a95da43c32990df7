"""Links of SDF files: mass, centre and moments that ``<inertial>`` says, or those of collisions."""

from __future__ import annotations

from xml.etree.ElementTree import Element

import numpy as np

from delassus.errors import DelassusError, ModelError
from delassus.formats.sdf.frames import Frames, Model, numbers_of, pose_in_link, read_pose, times
from delassus.formats.sdf.shapes import geometry_of, shape_of
from delassus.formats.urdf.colliders import Meshes
from delassus.model.description import RawLink
from delassus.model.inertia import about_centre, spatial_inertia
from delassus.model.shapes import HalfSpace, HeightField, Mesh
from delassus.spatial.rotations import Array

WATER = 1000.0
"""Density (kg/m³) of collisions that say none."""


def link_of(element: Element, key: str, model: Model, frames: Frames, max_bytes: float) -> RawLink:
    """A link; without ``<inertial>`` its mass is 1 kg and its moments are 1 kg·m², as SDF has them."""
    what, inertial = f"link {key!r}", element.find("inertial")
    if inertial is None:
        return RawLink(key, 1.0, np.zeros(3), np.eye(3))
    if inertial.get("auto", "false").lower() in ("true", "1"):
        return _of_collisions(element, inertial, key, model, frames, max_bytes)
    (mass,) = numbers_of(inertial, "mass", what, 1.0)
    R, com = read_pose(inertial, f"<inertial> of {what}")
    moments = inertial.find("inertia")
    terms = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]
    own = np.zeros((3, 3))
    for i, j in terms:
        default = 1.0 if i == j else 0.0
        tag = f"i{'xyz'[i]}{'xyz'[j]}"
        (value,) = (default,) if moments is None else numbers_of(moments, tag, f"<inertia> of {what}", default)
        own[i, j] = own[j, i] = value
    return RawLink(key, mass, com, R @ own @ R.T)


def _of_collisions(
    element: Element, inertial: Element, key: str, model: Model, frames: Frames, max_bytes: float
) -> RawLink:
    """The sum of solid collisions of their densities; scaled to ``<mass>`` where the file says it."""
    (usual,) = numbers_of(inertial, "density", f"link {key!r}", WATER)
    total, meshes = np.zeros((6, 6)), Meshes()
    for k, collision in enumerate(element.findall("collision")):
        what = f"collision {k} of link {key!r} in file {str(model.path)!r}"
        if collision.find("geometry/empty") is not None:
            continue
        (density,) = numbers_of(collision, "density", what, usual)
        shape, pose = shape_of(collision, model.path, (), False, what, meshes, max_bytes)
        if isinstance(shape, (HalfSpace, HeightField)):
            raise ModelError(what, "a solid, of which <inertial auto='true'> is", f"a {type(shape).__name__}",
                             "Write mass and moments out.")  # fmt: skip
        try:
            if geometry_of(collision, what).tag == "cone":
                volume, centre, moments = _cone(*(numbers_of(geometry_of(collision, what), x, what, 0.0)[0]
                                                  for x in ("radius", "length")))  # fmt: skip
            elif isinstance(shape, Mesh):
                volume, centre, moments = shape.volume, shape.center_of_mass, shape.inertia(1.0)
            else:
                volume, centre, moments = shape.volume, np.zeros(3), np.diag(shape.inertia(1.0))
        except DelassusError as error:
            raise ModelError(
                what, "a solid, of which <inertial auto='true'> is", str(error), "Write mass out."
            ) from error
        R, p = times(pose_in_link(collision, key, model, frames, what), pose)
        mass = density * volume
        total += spatial_inertia(mass, R @ centre + p, mass * (R @ moments @ R.T))
    if not total[0, 0] > 0.0:
        wanted = "collisions that have a mass, as <inertial auto='true'> takes"
        raise ModelError(f"link {key!r}", wanted, f"{total[0, 0]:g} kg in all", "Write mass and moments out.")
    (mass,) = numbers_of(inertial, "mass", f"link {key!r}", float(total[0, 0]))
    _, com, moments = about_centre(total * (mass / total[0, 0]))
    return RawLink(key, mass, com, moments)


def _cone(radius: float, length: float) -> tuple[float, Array, Array]:
    """Volume of a cone about z centred half-way, its centre, and its moments for a mass of 1 kg."""
    across = 0.15 * radius**2 + 0.0375 * length**2
    centre = np.array([0.0, 0.0, -length / 4.0])
    return np.pi * radius**2 * length / 3.0, centre, np.diag([across, across, 0.3 * radius**2])
