"""Shapes, solid ones with their inertia, and colliders: where on which link a shape sits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.errors import ConfigurationError, shown
from delassus.frozen import ByContent, Frozen
from delassus.model.check import check_flag, check_number, check_rotation, check_vector, finite_array, real_array
from delassus.model.inertia import hull_triangles, moments_of_surface
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

    def contains(self, points: ArrayLike) -> NDArray[np.bool_]:
        """Which points (..., 3) are in it."""
        points = _points(points)
        return np.asarray(np.linalg.norm(points, axis=-1) <= self.radius)

    @property
    def volume(self) -> float:
        """Volume of the ball (m³)."""
        return 4.0 / 3.0 * math.pi * self.radius**3

    def inertia(self, mass: float) -> Array:
        """Moments of inertia (3,) of a solid ball of that mass, about its centre (kg·m²)."""
        mass = check_number("mass", mass, "In kg.", above=False)
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

    def contains(self, points: ArrayLike) -> NDArray[np.bool_]:
        """Which points (..., 3) are in it."""
        points = _points(points)
        return np.asarray(np.linalg.norm(_beyond_segment(points, self.length), axis=-1) <= self.radius)

    @property
    def volume(self) -> float:
        """Volume of the capsule (m³)."""
        return math.pi * self.radius**2 * (self.length + 4.0 / 3.0 * self.radius)

    def inertia(self, mass: float) -> Array:
        """Moments of inertia (3,) of a solid capsule of that mass, about its centre (kg·m²)."""
        mass = check_number("mass", mass, "In kg.", above=False)
        r, h = self.radius, self.length
        tube = mass * h / (h + 4.0 / 3.0 * r)
        ends = mass - tube
        across = tube * (h * h / 12.0 + r * r / 4.0) + ends * (0.4 * r * r + h * h / 4.0 + 0.375 * h * r)
        return np.array([across, across, 0.5 * tube * r * r + 0.4 * ends * r * r])


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

    def contains(self, points: ArrayLike) -> NDArray[np.bool_]:
        """Which points (..., 3) are in it."""
        points = _points(points)
        across, along = np.hypot(points[..., 0], points[..., 1]), 2.0 * np.abs(points[..., 2])
        return np.asarray((across <= self.radius) & (along <= self.length))

    @property
    def volume(self) -> float:
        """Volume of the cylinder (m³)."""
        return math.pi * self.radius**2 * self.length

    def inertia(self, mass: float) -> Array:
        """Moments of inertia (3,) of a solid cylinder of that mass, about its centre (kg·m²)."""
        mass = check_number("mass", mass, "In kg.", above=False)
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

    def contains(self, points: ArrayLike) -> NDArray[np.bool_]:
        """Which points (..., 3) are in it."""
        points = _points(points)
        return np.asarray(np.all(2.0 * np.abs(points) <= [self.x, self.y, self.z], axis=-1))

    @property
    def volume(self) -> float:
        """Volume of the box (m³)."""
        return self.x * self.y * self.z

    def inertia(self, mass: float) -> Array:
        """Moments of inertia (3,) of a solid box of that mass, about its centre (kg·m²)."""
        mass = check_number("mass", mass, "In kg.", above=False)
        squares = np.array([self.x, self.y, self.z]) ** 2
        return np.asarray(mass / 12.0 * (squares.sum() - squares))


@dataclass(frozen=True, slots=True)
class Ellipsoid(Frozen):
    """Ellipsoid centred on the origin, of semi-axes ``x``, ``y``, ``z``; in m.

    Raises
    ------
    ConfigurationError
        A semi-axis is not positive.

    Examples
    --------
    >>> Ellipsoid(0.1, 0.2, 0.3).inertia(5.0).round(6).tolist()
    [0.13, 0.1, 0.05]
    """

    x: float
    y: float
    z: float

    def __post_init__(self) -> None:
        _positive(self, "x", "y", "z")

    def contains(self, points: ArrayLike) -> NDArray[np.bool_]:
        """Which points (..., 3) are in it."""
        points = _points(points)
        return np.asarray(np.linalg.norm(points / [self.x, self.y, self.z], axis=-1) <= 1.0)

    @property
    def volume(self) -> float:
        """Volume of the ellipsoid (m³)."""
        return 4.0 / 3.0 * math.pi * self.x * self.y * self.z

    def inertia(self, mass: float) -> Array:
        """Moments of inertia (3,) of a solid ellipsoid of that mass, about its centre (kg·m²)."""
        mass = check_number("mass", mass, "In kg.", above=False)
        squares = np.array([self.x, self.y, self.z]) ** 2
        return np.asarray(mass / 5.0 * (squares.sum() - squares))


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
class Mesh(ByContent):
    """Convex hull of points, or, with ``convex=False``, the surface of triangles as it is, the solid behind it.

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
    >>> round(surface.volume, 9), surface.center_of_mass.round(6).tolist()
    (0.166666667, [0.25, 0.25, 0.25])
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
        self._set_attributes(vertices=points, triangles=corners, convex=convex)

    @property
    def volume(self) -> float:
        """Volume (m³) of the hull, or of the solid that a closed surface encloses.

        Raises
        ------
        ConfigurationError
            A surface that is open, whose triangles face inwards or not all outwards, or that encloses nothing; points
            of a hull that are in one plane.
        MissingDependencyError
            The extra ``contact`` is not installed, which convex hulls need.
        """
        return self._moments[0]

    @property
    def center_of_mass(self) -> Array:
        """Centre of mass (3,) of a homogeneous solid, in the frame of the mesh (m); raises as `volume`."""
        return self._moments[1]

    def inertia(self, mass: float) -> Array:
        """Inertia matrix (3, 3) of a homogeneous solid of that mass (kg·m²).

        It is about `center_of_mass`, along the axes of the mesh, as `delassus.mechanisms.free_body` takes it.

        Raises
        ------
        ConfigurationError, MissingDependencyError
            A negative mass; as `volume`.

        Examples
        --------
        >>> cube = Mesh([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)])
        >>> cube.inertia(6.0).diagonal().round(6).tolist(), cube.center_of_mass.tolist()
        ([1.0, 1.0, 1.0], [0.5, 0.5, 0.5])
        """
        mass = check_number("mass", mass, "In kg.", above=False)
        volume, _, second = self._moments
        return np.asarray(mass / volume * (np.trace(second) * np.eye(3) - second))

    @property
    def _moments(self) -> tuple[float, Array, Array]:
        """Volume (m³), centre of volume (3,) (m), and second moments (3, 3) of volume about it (m⁵)."""
        triangles = hull_triangles(self.vertices)[0] if self.convex else self.triangles
        assert triangles is not None
        return moments_of_surface(self.vertices, triangles)


@dataclass(frozen=True, slots=True, init=False, eq=False)
class HeightField(Mesh):
    """Terrain: a surface of triangles over a grid of points, two to a cell, with the solid below.

    Cells are cut along the diagonal from the corner of least x and y, as in MuJoCo.

    Parameters
    ----------
    heights : (n_x, n_y) array_like
        Heights z (m) of points at equal distances along x and y, at least two each; ``heights[0, 0]`` is that of least
        x and y.
    size : (2,) array_like
        Lengths (m) along x and y of the rectangle that the grid covers, centred on the origin.

    Raises
    ------
    ConfigurationError
        Not a grid of finite heights, or lengths that are not positive.

    Examples
    --------
    >>> ramp = HeightField([[0.0, 0.0], [0.3, 0.3]], (0.4, 1.0))
    >>> ramp.below([0.1, 0.2]).round(6).tolist()  # height and normal
    [0.225, -0.6, 0.0, 0.8]
    """

    vertices: Array = field(init=False)
    triangles: NDArray[np.int64] = field(init=False)
    convex: bool = field(init=False)
    heights: Array
    size: Array

    def __init__(self, heights: ArrayLike, size: ArrayLike) -> None:
        z = finite_array(heights, (-1, -1), "heights of a height field", "A grid (n_x, n_y), in metres.")
        lengths = finite_array(size, (2,), "size of a height field", "Lengths along x and y, in metres.")
        if min(z.shape) < 2:
            raise ConfigurationError("heights of a height field", "at least 2 by 2", shown(z.shape), "More points.")
        for length in lengths:
            check_number("size of a height field", length, "A length in metres.")
        x, y = (np.linspace(-length / 2, length / 2, n) for length, n in zip(lengths, z.shape, strict=True))
        points = np.stack([*np.meshgrid(x, y, indexing="ij"), z], axis=-1).reshape(-1, 3)
        a = np.arange(z.size).reshape(z.shape)[:-1, :-1].ravel()
        b, c, d = a + z.shape[1], a + z.shape[1] + 1, a + 1
        Mesh.__init__(self, points, np.stack([a, b, c, a, c, d], axis=1).reshape(-1, 3), convex=False)
        self._set_attributes(heights=z, size=lengths)

    def below(self, points: ArrayLike) -> Array:
        """Height (m) and unit normal (..., 4) below or above points (..., 2) or (..., 3) in the frame of the field.

        Beside the field they are those of its nearest border.

        Raises
        ------
        ConfigurationError
            Other points.
        """
        given = real_array(points)
        if given is None or given.ndim < 1 or given.shape[-1] not in (2, 3):
            wanted = "numbers of shape (..., 2) or (..., 3)"
            raise ConfigurationError("points", wanted, shown(points), "In the frame of the field.")
        z, x = self.heights, finite_array(given, (..., given.shape[-1]), "points", "In metres.")[..., :2]
        cells = np.array(z.shape) - 1
        at = np.clip((x / self.size + 0.5) * cells, 0.0, cells)
        i, j = np.moveaxis(np.minimum(at.astype(np.int64), cells - 1), -1, 0)
        u, w = at[..., 0] - i, at[..., 1] - j
        a, c = z[i, j], z[i + 1, j + 1]
        along_x = np.where(u >= w, z[i + 1, j] - a, c - z[i, j + 1])
        along_y = np.where(u >= w, c - z[i + 1, j], z[i, j + 1] - a)
        normal = np.stack([*(0.0 - s / h for s, h in zip((along_x, along_y), self.size / cells, strict=True)),
                           np.ones_like(a)], axis=-1)  # fmt: skip
        normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
        return np.concatenate([(a + u * along_x + w * along_y)[..., None], normal], axis=-1)


Solid = Sphere | Capsule | Cylinder | Box | Ellipsoid
Shape = Sphere | Capsule | Cylinder | Box | Ellipsoid | HalfSpace | Mesh


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Collider(Frozen):
    """A shape on a link, with its material.

    Parameters
    ----------
    link : str
        Name of a link or frame; ``"world"`` for fixed geometry.
    shape : Sphere, Capsule, Cylinder, Box, Ellipsoid, HalfSpace, Mesh or HeightField
    position : (3,) array_like
        Origin of the shape in the link's frame, in m.
    rotation : (3, 3) array_like, optional
        Orientation of the shape in the link's frame.
    friction : float
        Coefficient μ; what a contact has of its two colliders' is said by ``friction_rule`` of the scene.
    restitution : float
        Coefficient ε from 0 to 1; a contact has the geometric mean of its two colliders'.
    torsional, rolling : float
        Lengths (m): a normal force N holds torques up to ``torsional N`` about the normal and ``rolling N`` across it.
    surface_velocity : (3,) array_like
        Velocity (m/s) of its surface over its link, in the frame of the shape: of a conveyor belt. Friction acts along
        what of it lies in the plane of a contact.
    name : str
        For messages and logs; the link's name by default.
    rgba : (4,) array_like, optional
        What it looks like: red, green, blue and opacity, from 0 to 1. By default pictures choose.

    Raises
    ------
    ConfigurationError
        Not a shape or colour, friction or a length < 0, restitution outside [0, 1], or a half space on a link.

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
    torsional: float
    rolling: float
    surface_velocity: Array
    name: str
    rgba: Array | None

    def __init__(
        self, link: str, shape: Shape, position: ArrayLike = (0, 0, 0), rotation: ArrayLike | None = None, *,
        friction: float = 0.5, restitution: float = 0.0, torsional: float = 0.0, rolling: float = 0.0,
        surface_velocity: ArrayLike = (0, 0, 0), name: str = "", rgba: ArrayLike | None = None,
    ) -> None:  # fmt: skip
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
        tau, rho = (check_number(f"{name} of {what}", x, "A length in m.", above=False)
                    for name, x in (("torsional", torsional), ("rolling", rolling)))  # fmt: skip
        p, R = check_vector(position, f"position of {what}"), check_rotation(rotation)
        belt = check_vector(surface_velocity, f"surface_velocity of {what}", "in m/s")
        colour = None if rgba is None else finite_array(rgba, (4,), f"rgba of {what}", "Red, green, blue, opacity.")
        if colour is not None and not (0.0 <= colour.min() and colour.max() <= 1.0):
            raise ConfigurationError(f"rgba of {what}", "numbers from 0 to 1", shown(rgba), "Divide by 255.")
        self._set_attributes(link=link, shape=shape, position=p, rotation=R, friction=mu, restitution=e,
                             torsional=tau, rolling=rho, surface_velocity=belt, name=label, rgba=colour)  # fmt: skip

    def __repr__(self) -> str:
        names = "friction", "restitution", *(name for name in ("torsional", "rolling") if getattr(self, name))
        values = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"Collider({self.link!r}, {self.shape!r}, {values})"


def _beyond_segment(points: Array, length: float) -> Array:
    """Vectors (..., 3) from the nearest points of a segment along z, centred on the origin."""
    z = points[..., 2:]
    return np.concatenate([points[..., :2], z - np.clip(z, -length / 2.0, length / 2.0)], axis=-1)


def _corners(triangles: ArrayLike, n_points: int) -> NDArray[np.int64]:
    corners = finite_array(triangles, (-1, 3), "triangles of a mesh", "Check the file.")
    if not corners.size or np.any((corners < 0) | (corners >= n_points) | (corners != np.floor(corners))):
        wanted = f"whole numbers (m, 3) below {n_points}"
        raise ConfigurationError("triangles of a mesh", wanted, shown(triangles), "Check the file.")
    return corners.astype(np.int64)


def _points(points: ArrayLike) -> Array:
    return finite_array(points, (..., 3), "points", "In metres, in the frame of the shape.")


def _positive(shape: object, *names: str) -> None:
    for name in names:
        check_number(f"{name} of a {type(shape).__name__}", getattr(shape, name), "A length in metres.")
