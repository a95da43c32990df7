"""Shapes, solid ones with their inertia, and colliders: where on which link a shape sits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen
from delassus.model.check import check_flag, check_number, check_rotation, check_vector, finite_array
from delassus.spatial.rotations import Array


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


@dataclass(frozen=True, slots=True)
class HalfSpace(Frozen):
    """Everything below the plane z = 0 of its frame: floors and walls. Only on the world.

    Examples
    --------
    >>> ramp = [[0.8, 0, 0.6], [0, 1, 0], [-0.6, 0, 0.8]]
    >>> Collider("world", HalfSpace(), (0, 0, -1), ramp).rotation[:, 2].round(6).tolist()  # its normal, outwards
    [0.6, 0.0, 0.8]
    """


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Mesh(Frozen):
    """Convex hull of points, or, with ``convex=False``, the surface of triangles as it is.

    Parameters
    ----------
    vertices : (n, 3) array_like
        In m.
    triangles : (m, 3) array_like of int, optional
        Corners of each triangle, counterclockwise seen from outside; not needed for a convex hull.
    convex : bool

    Raises
    ------
    ConfigurationError
        Fewer than four points, entries that are not finite, indices out of range, or no triangles where they are
        needed.

    Examples
    --------
    >>> corners = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    >>> hull = Mesh(corners)
    >>> surface = Mesh(corners, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]], convex=False)
    >>> len(hull.vertices), len(surface.triangles)
    (4, 4)
    """

    vertices: Array
    triangles: NDArray[np.int64] | None
    convex: bool

    def __init__(self, vertices: ArrayLike, triangles: ArrayLike | None = None, *, convex: bool = True) -> None:
        points = finite_array(vertices, (-1, 3), "vertices of a mesh", "Check the file.")
        if len(points) < 4:
            raise ConfigurationError("vertices of a mesh", "at least four", f"{len(points)}", "Check the file.")
        corners = None if triangles is None else _corners(triangles, len(points))
        convex = check_flag("convex", convex)
        if corners is None and not convex:
            raise ConfigurationError("triangles of a mesh", "corners (m, 3)", "none", "Pass them, or convex=True.")
        points.setflags(write=False)
        for name, value in (("vertices", points), ("triangles", corners), ("convex", convex)):
            object.__setattr__(self, name, value)


Shape = Sphere | Capsule | Cylinder | Box | HalfSpace | Mesh


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Collider(Frozen):
    """A shape on a link, with its material.

    Parameters
    ----------
    link : str
        Name of a link or frame; ``"world"`` for fixed geometry.
    shape : Sphere, Capsule, Cylinder, Box, HalfSpace or Mesh
    position : (3,) array_like
        Origin of the shape in the link's frame, in m.
    rotation : (3, 3) array_like, optional
        Orientation of the shape in the link's frame.
    friction : float
        Coefficient μ; a contact has the geometric mean of its two colliders'.
    restitution : float
        Coefficient ε from 0 to 1; a contact has the geometric mean of its two colliders'.
    name : str
        For messages and logs; the link's name by default.

    Raises
    ------
    ConfigurationError
        Not a shape, friction < 0, restitution outside [0, 1], or a half space on a link.

    Examples
    --------
    >>> Collider("world", HalfSpace(), friction=0.8).name
    'world'
    """

    link: str
    shape: Shape
    position: Array
    rotation: Array
    friction: float
    restitution: float
    name: str

    def __init__(
        self,
        link: str,
        shape: Shape,
        position: ArrayLike = (0, 0, 0),
        rotation: ArrayLike | None = None,
        *,
        friction: float = 0.5,
        restitution: float = 0.0,
        name: str = "",
    ) -> None:
        for argument, text in (("link of a collider", link), ("name of a collider", name)):
            if not isinstance(text, str):
                raise ConfigurationError(argument, "a name", shown(text), "Pass such as 'foot', or 'world'.")
        label = name or link
        what = f"collider {label!r}"
        if not isinstance(shape, Shape):
            raise ConfigurationError(f"shape of {what}", "a shape", shown(shape), "Pass such as Sphere(0.1).")
        if isinstance(shape, HalfSpace) and link != "world":
            raise ConfigurationError(what, "a half space on the world", f"one on {link!r}", "Use a Box.")
        advice = "Coulomb's coefficient, such as 0.5.", "0 does not bounce, 1 loses no energy."
        mu = check_number(f"friction of {what}", friction, advice[0], above=False)
        e = check_number(f"restitution of {what}", restitution, advice[1], most=1.0, above=False)
        p, R = check_vector(position, f"position of {what}"), check_rotation(rotation)
        p.setflags(write=False)
        R.setflags(write=False)
        for attribute, value in zip(Collider.__slots__, (link, shape, p, R, mu, e, label), strict=True):
            object.__setattr__(self, attribute, value)

    def __repr__(self) -> str:
        return f"Collider({self.link!r}, {self.shape!r}, friction={self.friction}, restitution={self.restitution})"


def _corners(triangles: ArrayLike, n_points: int) -> NDArray[np.int64]:
    corners = finite_array(triangles, (-1, 3), "triangles of a mesh", "Check the file.")
    if not corners.size or np.any((corners < 0) | (corners >= n_points) | (corners != np.floor(corners))):
        wanted = f"whole numbers (m, 3) below {n_points}"
        raise ConfigurationError("triangles of a mesh", wanted, shown(triangles), "Check the file.")
    return corners.astype(np.int64)


def _positive(shape: object, *names: str) -> None:
    for name in names:
        check_number(f"{name} of a {type(shape).__name__}", getattr(shape, name), "A length in metres.")
