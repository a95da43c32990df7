"""What an SDF file says of surfaces: friction and restitution of collisions, colours of visuals."""

from __future__ import annotations

from math import pi
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from delassus.errors import ModelError, shown
from delassus.formats.sdf.frames import finite_numbers, flag_of, numbers_of, text_of
from delassus.formats.sdf.models import folders_of
from delassus.formats.urdf.meshes import find_mesh, read_texture
from delassus.spatial.rotations import Array

PLACES = {
    "surface/friction/bullet/friction": "friction", "surface/friction/ode/mu": "friction",
    "surface/bounce/restitution_coefficient": "restitution",
    "drake:proximity_properties/drake:mu_static": "friction",
    "drake:proximity_properties/drake:mu_dynamic": "friction",
}  # fmt: skip
"""Where a collision says what of its material; a later place counts before an earlier one."""

TORQUE_OF_PATCH = 3.0 * pi / 16.0
"""Torque about the normal that a round patch holds, over its radius, friction and force: of Hertz's pressure."""

COLOURS = {
    "Grey": (0.7, 0.7, 0.7), "DarkGrey": (0.175, 0.175, 0.175), "White": (1, 1, 1), "FlatBlack": (0.1, 0.1, 0.1),
    "Black": (0, 0, 0), "Red": (1, 0, 0), "RedBright": (0.87, 0.26, 0.07), "Green": (0, 1, 0), "Blue": (0, 0, 1),
    "SkyBlue": (0.13, 0.44, 0.7), "Yellow": (1, 1, 0), "ZincYellow": (0.9725, 0.9529, 0.2078),
    "DarkYellow": (0.7, 0.7, 0), "Purple": (1, 0, 1), "Turquoise": (0, 1, 1), "Orange": (1, 0.5088, 0.0468),
    "Indigo": (0.33, 0, 0.5), "Gold": (0.8, 0.65, 0.12), "Wood": (0.6, 0.4, 0.2), "WoodFloor": (0.6, 0.4, 0.2),
    "WoodPallet": (0.6, 0.4, 0.2), "Bricks": (0.6, 0.3, 0.2), "Road": (0.25, 0.25, 0.25),
}  # fmt: skip
"""Red, green and blue of materials that Gazebo's files name ``Gazebo/…``; of those with a texture about its mean."""


def surface_of(element: Element, what: str) -> dict[str, Any]:
    """Friction, torsional friction (m) and restitution that a collision says."""
    found = dict[str, Any]()
    for place, name in PLACES.items():
        outer, _, tag = place.rpartition("/")
        part = element.find(outer)
        if part is not None and part.find(tag) is not None:
            (found[name],) = numbers_of(part, tag, what, 0.0)
    torsional = element.find("surface/friction/torsional")
    if torsional is not None and flag_of(torsional, "use_patch_radius", what, True):
        coefficient, radius = (numbers_of(torsional, *x)[0] for x in (
            ("coefficient", what, 1.0), ("patch_radius", what, 0.0)))  # fmt: skip
        found["torsional"] = TORQUE_OF_PATCH * coefficient * radius
    return found


def colour_of(
    element: Element, path: Path, folders: tuple[Path, ...], what: str, max_bytes: float
) -> dict[str, Any]:  # fmt: skip
    """``rgba`` of a visual, where its file says a colour; that of a texture is its mean."""
    material = element.find("material")
    if material is None:
        return {}
    rgba = None
    for tag in ("ambient", "diffuse"):
        rgba = rgba if material.find(tag) is None else _rgba(text_of(material, tag), f"{what}, <{tag}>")
    script = material.find("script")
    rgba = rgba if rgba is not None or script is None else _named(text_of(script, "name"))
    address = text_of(material, "drake:diffuse_map") or _albedo(material)
    if address:
        texture = read_texture(find_mesh(address, path, (*folders, *folders_of(path)), what), what, max_bytes)
        rgba = texture if rgba is None else texture * rgba
    if rgba is None:
        return {}
    (transparency,) = numbers_of(element, "transparency", what, 0.0)
    rgba = np.clip(rgba * [1.0, 1.0, 1.0, 1.0 - transparency], 0.0, 1.0)
    return {"rgba": tuple(rgba.tolist())}


def _rgba(text: str, what: str) -> Array:
    numbers = finite_numbers(text) if text else ()
    if numbers is None or len(numbers) not in (3, 4):
        raise ModelError(what, "three or four finite numbers", shown(text), "Red, green, blue and opacity.")
    return np.array([*numbers, 1.0][:4])


def _named(name: str) -> Array | None:
    """Colour of a material of Gazebo; those that glow or let light through are like the others, but for opacity."""
    own, opacity = name.removeprefix("Gazebo/"), 1.0
    for ending, factor in (("Overlay", 1.0), ("Transparent", 0.5), ("Glow", 1.0)):
        if own.endswith(ending):
            own, opacity = own.removesuffix(ending), opacity * factor
    return np.array([*COLOURS[own], opacity]) if own in COLOURS else None


def _albedo(material: Element) -> str:
    maps = (text_of(workflow, "albedo_map") for workflow in material.findall("pbr/*"))
    return next(filter(None, maps), "")
