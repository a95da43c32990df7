"""Shapes that collide, and where on which link they sit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.errors import ConfigurationError, shown
from delassus.frozen import Frozen
from delassus.model.check import check_flag, check_number, check_rotation, check_vector, finite_array
from delassus.model.rotations import Array
from delassus.model.shapes import Box, Capsule, Cylinder, Sphere
from delassus.model.tree import Tree

__all__ = ["Box", "Capsule", "Collider", "Cylinder", "HalfSpace", "Mesh", "Shape", "Solids", "Sphere"]


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


@runtime_checkable
class Solids(Protocol):
    """What collision knows of a `delassus.Scene`."""

    @property
    def robots(self) -> Mapping[str, Tree]:
        """By their names."""

    @property
    def tree(self) -> Tree:
        """Of all robots."""

    @property
    def colliders(self) -> tuple[Collider, ...]:
        """In the order of their numbers."""

    @property
    def links(self) -> Array:
        """Of each collider its link, `WORLD` of the world."""

    @property
    def ignore(self) -> frozenset[frozenset[str]]:
        """Pairs of names that never collide."""

    @property
    def parents_collide(self) -> bool:
        """Whether links collide with those that carry them."""
