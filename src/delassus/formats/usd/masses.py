"""Mass, centre of mass and inertia of bodies, by ``PhysicsMassAPI`` or of their colliders."""

from __future__ import annotations

from typing import Any

import numpy as np

from delassus.formats.usd.prims import TWIN, Prims, UsdBody, authored, number, numbers, rotation
from delassus.formats.usd.shapes import physics_of, shape_of
from delassus.model.description import RawLink
from delassus.model.shapes import HalfSpace, Mesh
from delassus.spatial.rotations import Array

DENSITY = 1000.0
"""Of colliders where the stage says none, kg/m³."""

RADIUS = 0.1
"""Of the sphere whose moments of inertia a body has that has mass, no others and no colliders (m), as in OpenUSD."""

Part = tuple[float, Array, Array]
"""Mass, centre of mass (3,) and inertia about it (3, 3)."""


def body_link(prims: Prims, body: UsdBody) -> tuple[RawLink, bool]:
    """Link of a body, in its frame, and whether its moments of inertia are those of `RADIUS`.

    What the body says counts before what colliders make; the moments of these are scaled to its mass.
    """
    prim, unit = body.prim, prims.mass * prims.length**2
    mass, com = number(prim, "physics:mass", 0.0) * prims.mass, numbers(prim, "physics:centerOfMass", 3, infinite=True)
    moments = numbers(prim, "physics:diagonalInertia", 3)
    is_empty = mass == 0.0 and authored(prim, TWIN + "physics:mass") is not None
    if com is not None and not np.isfinite(com).all():
        com = None
    if moments is not None and not moments.any() and authored(prim, TWIN + "physics:diagonalInertia") is None:
        moments = None
    at = None if com is None else com * body.scale * prims.length
    own = rotation(prim, "physics:principalAxes")
    inertia = None if moments is None else own @ np.diag(moments * unit) @ own.T
    if is_empty or (mass and at is not None and inertia is not None):
        nothing = np.zeros((3, 3)) if inertia is None else inertia
        return RawLink(body.name, mass, np.zeros(3) if at is None else at, nothing), False
    total, centre, shape = _of_colliders(prims, body)
    is_point = total == 0.0 and mass != 0.0 and inertia is None
    if is_point:
        shape = 0.4 * mass * RADIUS**2 * np.eye(3)
    elif mass and total:
        shape = shape * (mass / total)
    mass = mass or total
    if at is not None:  # the moments of the colliders are moved there
        away = at - centre if total else np.zeros(3)
        shape = shape + mass * (away @ away * np.eye(3) - np.outer(away, away))
    return RawLink(body.name, mass, centre if at is None else at, shape if inertia is None else inertia), is_point


def _of_colliders(prims: Prims, body: UsdBody) -> Part:
    """Mass, centre of mass and inertia about it of the colliders of a body."""
    parts = [_part(prims, prim, body) for prim in prims.colliders.get(body.name, ())]
    mass = sum(m for m, _, _ in parts)
    if not mass:
        return 0.0, np.zeros(3), np.zeros((3, 3))
    centre = sum((m * c for m, c, _ in parts), np.zeros(3)) / mass
    inertia = np.zeros((3, 3))
    for m, c, own in parts:
        away = c - centre
        inertia = inertia + own + m * (away @ away * np.eye(3) - np.outer(away, away))
    return mass, centre, inertia


def _part(prims: Prims, prim: Any, body: UsdBody) -> Part:
    """What a collider has of the mass of a body."""
    shape, (R, p) = shape_of(prims, prim, body, True, {})
    if isinstance(shape, HalfSpace):
        return 0.0, np.zeros(3), np.zeros((3, 3))
    solid = Mesh(shape.vertices) if isinstance(shape, Mesh) else shape
    per = prims.mass / prims.length**3
    density = number(prim, "physics:density", 0.0) or number(body.prim, "physics:density", 0.0)
    density = density or physics_of(prim).get("density", 0.0)
    volume = float(solid.volume)
    mass = number(prim, "physics:mass", 0.0) * prims.mass if prim != body.prim else 0.0
    mass = mass or volume * (density * per or DENSITY)
    centre = solid.center_of_mass if isinstance(solid, Mesh) else np.zeros(3)
    moments = np.asarray(solid.inertia(mass))
    inertia = np.diag(moments) if moments.ndim == 1 else moments
    return mass, p + R @ centre, R @ inertia @ R.T
