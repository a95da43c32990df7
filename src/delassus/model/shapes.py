"""Solids: spheres, capsules, cylinders and boxes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from delassus.frozen import Frozen
from delassus.model.check import check_number
from delassus.model.rotations import Array


@dataclass(frozen=True, slots=True)
class Sphere(Frozen):
    """Ball about the origin of its frame; ``radius`` in m.

    Raises
    ------
    ConfigurationError
        ``radius`` is not positive.

    Examples
    --------
    >>> import delassus as ds
    >>> ds.contact.Sphere(0.1).inertia(2.0).round(6).tolist()
    [0.008, 0.008, 0.008]
    """

    radius: float

    def __post_init__(self) -> None:
        _positive(self, "radius")

    def inertia(self, mass: float) -> Array:
        """Moments of inertia (3,) of a solid ball of that mass, about its centre (kg·m²)."""
        return np.full(3, 0.4 * mass * self.radius**2)


@dataclass(frozen=True, slots=True)
class Capsule(Frozen):
    """All points within ``radius`` of a segment of ``length`` along z, centred on the origin; in m.

    Raises
    ------
    ConfigurationError
        ``radius`` or ``length`` is not positive.

    Examples
    --------
    >>> capsule = Capsule(radius=0.25, length=0.5)
    >>> capsule.length + 2 * capsule.radius  # from tip to tip
    1.0
    """

    radius: float
    length: float

    def __post_init__(self) -> None:
        _positive(self, "radius", "length")


@dataclass(frozen=True, slots=True)
class Cylinder(Frozen):
    """Cylinder of ``radius`` about z and ``length`` along it, centred on the origin; in m.

    Raises
    ------
    ConfigurationError
        ``radius`` or ``length`` is not positive.

    Examples
    --------
    >>> Cylinder(radius=0.1, length=0.6).inertia(2.0).round(6).tolist()
    [0.065, 0.065, 0.01]
    """

    radius: float
    length: float

    def __post_init__(self) -> None:
        _positive(self, "radius", "length")

    def inertia(self, mass: float) -> Array:
        """Moments of inertia (3,) of a solid cylinder of that mass, about its centre (kg·m²)."""
        across = mass * (self.radius**2 / 4.0 + self.length**2 / 12.0)
        return np.array([across, across, mass * self.radius**2 / 2.0])


@dataclass(frozen=True, slots=True)
class Box(Frozen):
    """Box centred on the origin, its edges of lengths ``x``, ``y``, ``z`` along the axes; in m.

    Raises
    ------
    ConfigurationError
        An edge is not positive.

    Examples
    --------
    >>> Box(0.1, 0.2, 0.3).inertia(12.0).round(6).tolist()
    [0.13, 0.1, 0.05]
    """

    x: float
    y: float
    z: float

    def __post_init__(self) -> None:
        _positive(self, "x", "y", "z")

    def inertia(self, mass: float) -> Array:
        """Moments of inertia (3,) of a solid box of that mass, about its centre (kg·m²)."""
        squares = np.array([self.x, self.y, self.z]) ** 2
        return np.asarray(mass / 12.0 * (squares.sum() - squares))


def _positive(shape: object, *names: str) -> None:
    for name in names:
        check_number(f"{name} of a {type(shape).__name__}", getattr(shape, name), "A length in metres.")
