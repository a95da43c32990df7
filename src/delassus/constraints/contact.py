"""Contacts that may close, and joints with limits and dry friction: rows of contact steps.

Where shapes touch planes and one another is said in `delassus.constraints.shapes`. The contact point is half-way
between the surfaces; of an open contact with the world on that of the body that moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints.constraint import Argument, At, Candidate, Constraint
from delassus.constraints.frame import Frame, as_frame
from delassus.constraints.shapes.convex_distance import Placed
from delassus.constraints.shapes.lowest_points import Solid, offsets, sites, tangents
from delassus.constraints.shapes.nearest_points import PAIRS, has_formula, n_touches, touches
from delassus.errors import ConstraintError, shown
from delassus.frozen import read_only
from delassus.model.check import check_number, check_vector
from delassus.model.kinematics import heavy_links
from delassus.model.shapes import Mesh
from delassus.model.tree import WORLD, Tree
from delassus.spatial.motion import column, cross_matrix, dot, from_entries, plus_scaled, scaled, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar
from delassus.spatial.rotations import Array

Ground = Literal["plane", "input"] | Frame | tuple[str | Frame, Solid]


def surface_velocity_name(constraint: int) -> str:
    """Name of the surface velocity of a contact."""
    return f"surface_velocity{constraint}"


def ground_name(constraint: int) -> str:
    """Name of the ground below the points of a contact."""
    return f"ground{constraint}"


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Contact(Constraint):
    """A shape that may touch the ground, or a shape of another link: what `compile` takes for ``"contact_step"``.

    Parameters
    ----------
    frame : str or Frame
        Where the shape is: the link that moves, and the place of the shape's frame on it.
    shape : Sphere, Capsule, Cylinder, Box, Ellipsoid or Mesh
        A sphere or ellipsoid has one contact point, a capsule one at each end, a cylinder four on each rim, a box one
        at each of its eight corners, a convex hull at all of its vertices, or at eight that follow from the normal.
        Hulls that touch other shapes than planes have triangles, counterclockwise seen from outside.
        Between two links: spheres and ellipsoids have one, two capsules two, capsules on others up to three, all others
        up to nine.
    ground : {"plane", "input"}, Frame or tuple
        What it may touch. ``"plane"`` is the plane z = 0 of the world; a ``Frame("world", position, rotation)`` the
        plane z = 0 of that frame. With ``"input"`` the ground below each point comes with each call, ``ground{i}``
        (n_points, 4) of the i-th constraint: its height (m) along z of the world below a place, and its unit normal.
        Places are centres of spheres and ellipsoids, and of the bases of cylinders, corners, and the centre of a hull
        of more than eight. ``(frame, shape)`` is a shape on another link or the world.
    friction : float
        Coefficient μ.
    restitution : float
        Coefficient ε from 0 to 1: approach at ``V`` is followed by separation at ``ε V``.
    surface_velocity : (3,) array_like or "input"
        Velocity (m/s) of the surface of the ground, or of the other shape, over itself, as of a conveyor belt: along
        the axes of its frame, which are the world's for ``"plane"`` and ``"input"``. What of it lies in the plane of a
        contact counts. ``"input"`` makes it the argument ``surface_velocity{i}`` (3,) of the i-th constraint.
    torsional, rolling : float
        Lengths (m) of torsional and of rolling friction, as of a `Collider`: a normal force ``N`` resists turning
        about the normal by up to ``torsional N``, and rolling by up to ``rolling N``, if it resists nothing else. Such
        contacts have impulses about their axes, too.

    Raises
    ------
    ConstraintError
        Another kind of shape or ground; with a robot: a frame that does not move, or two on one link.
    ConfigurationError
        Negative friction or lengths, or restitution outside [0, 1].

    Examples
    --------
    >>> from delassus.model.shapes import Box, Sphere
    >>> Contact("left_foot", Sphere(0.02)).size, Contact("left_foot", Box(0.2, 0.1, 0.05)).size
    (3, 24)
    """

    frame: Frame
    shape: Solid
    ground: Literal["plane", "input"] | Frame | tuple[Frame, Solid]
    friction: float
    restitution: float
    surface_velocity: Array | Literal["input"]
    torsional: float
    rolling: float

    def __init__(
        self,
        frame: str | Frame,
        shape: Solid,
        ground: Ground = "plane",
        *,
        friction: float = 0.5,
        restitution: float = 0.0,
        surface_velocity: ArrayLike | Literal["input"] = (0.0, 0.0, 0.0),
        torsional: float = 0.0,
        rolling: float = 0.0,
    ) -> None:
        first = as_frame(frame, "frame of a contact")
        what = f"contact on {first.link!r}"
        if not isinstance(shape, Solid) or (isinstance(shape, Mesh) and not shape.convex):
            raise ConstraintError(f"shape of a {what}", "a convex shape", shown(shape), "Approximate it.")
        if isinstance(ground, tuple):
            if len(ground) != 2 or not isinstance(ground[1], Solid) or not n_touches(shape, ground[1]):
                raise ConstraintError(
                    f"shapes of a {what}", f"ground=(frame, shape), {PAIRS}", shown(ground), "Use these."
                )
            ground = as_frame(ground[0], f"second frame of a {what}"), ground[1]
        elif isinstance(ground, Frame):
            if ground.link != "world" or ground.given is not None:
                raise ConstraintError(f"ground of a {what}", "a Frame on 'world'", shown(ground), "Or (frame, shape).")
        elif not isinstance(ground, str) or ground not in ("plane", "input"):
            wanted = "'plane', 'input', a Frame on 'world' or (frame, shape)"
            raise ConstraintError(f"ground of a {what}", wanted, shown(ground), "Choose one of these.")
        belt: Any = surface_velocity
        if not (isinstance(belt, str) and belt == "input"):
            belt = read_only(check_vector(belt, f"surface_velocity of a {what}", "in m/s"))
        self._set_attributes(
            size=3 * (n_touches(shape, ground[1]) if isinstance(ground, tuple) else len(sites(shape))),
            frame=first,
            shape=shape,
            ground=ground,
            friction=check_number(f"friction of a {what}", friction, "Coulomb's coefficient.", above=False),
            restitution=check_number(f"restitution of a {what}", restitution, "From 0 to 1.", above=False, most=1.0),
            surface_velocity=belt,
            torsional=check_number(f"torsional of a {what}", torsional, "A length in m.", above=False),
            rolling=check_number(f"rolling of a {what}", rolling, "A length in m.", above=False),
        )
        for each in self.frames:
            if each.given is not None:
                raise ConstraintError(f"frame of a {what}", "a fixed placement", shown(each.given), "Give it here.")

    def __repr__(self) -> str:
        other = self.ground if self.second is None else f"{_shown(self.second_shape)} on {self.second.text}"
        return f"Contact({self.frame.text}, {_shown(self.shape)}, {other!s})"

    @property
    def second(self) -> Frame | None:
        """Frame of the shape on another link; None for contacts with the ground."""
        return self.ground[0] if isinstance(self.ground, tuple) else None

    @property
    def second_shape(self) -> Solid | None:
        """The shape on another link."""
        return self.ground[1] if isinstance(self.ground, tuple) else None

    @property
    def n_points(self) -> int:
        """Number of contact points."""
        return self.size // 3

    @property
    def n_impulses(self) -> int:
        """Number of impulses: three a point."""
        return self.size

    @property
    def is_loop(self) -> bool:
        """Never: what touches may part."""
        return False

    def header_lines(self) -> Iterator[str]:
        """Friction and restitution."""
        yield f"friction {self.friction:g}, restitution {self.restitution:g}"
        if self.lengths:
            yield f"torsional {self.torsional:g} m, rolling {self.rolling:g} m"

    def arguments(self, index: int) -> Iterator[Argument]:
        """The ground below its points, if it comes with each call."""
        if self.ground == "input":
            meaning = f"ground below contact {index}, a row a point: height in m, unit normal"
            yield Argument(ground_name(index), (self.n_points, 4), meaning)
        if isinstance(self.surface_velocity, str):
            meaning = f"velocity of the surface that contact {index} is on, along the axes of its frame, in m/s"
            yield Argument(surface_velocity_name(index), (3,), meaning)

    @property
    def has_derivatives(self) -> bool:
        """Whether its points follow from formulas, and not from a loop."""
        return self.second_shape is None or has_formula(self.shape, self.second_shape)

    @property
    def lengths(self) -> list[tuple[int, float]]:
        """Axes about which a point has friction, tangents and the normal, each with its length (m)."""
        each = enumerate((self.rolling, self.rolling, self.torsional))
        return [(axis, length) for axis, length in each if length]

    @property
    def spheres(self) -> list[tuple[Array, float]]:
        """Centre (3,) in the frame of the shape, and radius, of what the ground is looked for below."""
        return sites(self.shape)

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Frames that it is on."""
        return (self.frame,) if self.second is None else (self.frame, self.second)

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of the constraint."""
        ground: object = self.ground.fingerprint if isinstance(self.ground, Frame) else self.ground
        if self.second is not None:
            ground = self.second.fingerprint, _text(self.second_shape)
        belt = self.surface_velocity if isinstance(self.surface_velocity, str) else self.surface_velocity.tolist()
        of = self.frame.fingerprint, _text(self.shape), ground, self.friction, self.restitution, belt
        return repr(("Contact", *of, *((self.torsional, self.rolling) if self.lengths else ())))

    def prefixed(self, prefix: str) -> Contact:
        """The contact with a prefix on all names."""
        other: Any = self.ground if self.second is None else (self.second.prefixed(prefix), self.second_shape)
        return Contact(self.frame.prefixed(prefix), self.shape, other, friction=self.friction,
                       restitution=self.restitution, surface_velocity=self.surface_velocity,
                       torsional=self.torsional, rolling=self.rolling)  # fmt: skip

    def check(self, tree: Tree) -> None:
        """Refuse a robot that it does not fit: raises `UnknownNameError` or `ConstraintError`."""
        links = [frame.carrier(tree) for frame in self.frames]
        if links[0] == WORLD:
            raise ConstraintError(repr(self), "a frame on a link that moves", f"{self.frame.link!r}", "Swap the two.")
        if len(links) == 2 and links[0] == links[1]:
            raise ConstraintError(repr(self), "two links that move", "one link", "What is rigid cannot collide.")

    def top(self, tree: Tree) -> int:
        """Closest common ancestor of the two links: what moves it moves both alike."""
        links = [frame.carrier(tree) for frame in self.frames]
        return tree.closest_common_ancestor(*links) if len(links) == 2 else WORLD

    def rows_on_links(self, at: At) -> dict[int, Matrix]:
        """Rows of all points, one below the other."""
        ops, out = at.ops, dict[int, Matrix]()
        points = at.robot.candidates[at.index]
        for link in points[0].arms:
            R, rows = at.robot.link_rotations[link], []
            for x in points:
                axes = ops.transpose(x.axes) @ R
                rows.append(ops.hstack([axes, -(axes @ cross_matrix(ops, ops.transpose(R) @ x.arms[link]))]))
            out[link] = -ops.vstack(rows) if out else ops.vstack(rows)
        return out

    def candidates(self, at: At) -> list[Candidate]:
        """Gap and place of each point, from the poses of links in the world."""
        if self.second is not None:
            placed = self.placed(at)
            return self.between_links(at, placed, touches(*placed))
        ops, on = at.ops, self.frame.on(at.tree)
        R, origin = at.robot.link_rotations[on.link], at.robot.origins[on.link]
        axes = ops.constant(_clean(self.ground.rotation)) if isinstance(self.ground, Frame) else ops.eye(3)
        given = ops.entries(at.robot.inputs[ground_name(at.index)]) if self.ground == "input" else []
        frames = [frame_of(ops, row[1:]) for row in given] or [axes] * self.n_points
        ups = [column(ops, ops.transpose(R) @ ops.take(frame, None, (2,))) for frame in frames]
        to_shape, out = ops.constant(_clean(on.rotation.T)), []
        found = offsets(ops, self.shape, [column(ops, to_shape @ from_entries(ops, up)) for up in ups])
        for k, (p, radius) in enumerate(self.spheres):
            centre: list[Scalar] = [*(on.position + on.rotation @ p).tolist()]
            arm = R @ from_entries(ops, centre)
            place = column(ops, origin + arm)
            if isinstance(self.ground, Frame):
                axis, base = self.ground.rotation[:, 2].tolist(), self.ground.position.tolist()
                gap = sum((n * x for n, x in zip(axis, place, strict=True)), -float(np.dot(axis, base)) - radius)
            else:
                gap = given[k][3] * (place[2] - given[k][0]) - radius if given else place[2] - radius
            offset, apart = found[k], None
            if offset is not None:
                own = column(ops, ops.transpose(to_shape) @ from_entries(ops, offset.vector))
                arm, apart = arm + R @ from_entries(ops, own), offset.apart
                gap = gap + dot(ups[k], own)
            reach = 0.5 * ops.minimum(gap, 0.0) + radius
            arm = arm - scaled(ops, [reach] * 3, ops.take(frames[k], None, (2,)))
            belt = self._belt(at, frames[k], axes)
            out.append(Candidate(gap if apart is None else gap + apart, frames[k], {on.link: arm}, belt))
        return out

    def placed(self, at: At) -> tuple[Placed, Placed]:
        """The two shapes where the poses of links are."""
        ops, placed = at.ops, list[Placed]()
        assert self.second is not None and self.second_shape is not None
        for frame, shape in ((self.frame, self.shape), (self.second, self.second_shape)):
            on = frame.on(at.tree)
            if on.link == WORLD:
                R, origin = ops.eye(3), ops.zeros(3, 1)
            else:
                R, origin = at.robot.link_rotations[on.link], at.robot.origins[on.link]
            centre = column(ops, origin + R @ ops.constant(on.position[:, None]))
            placed.append(Placed(ops, shape, R, _clean(on.rotation), centre))
        return placed[0], placed[1]

    def between_links(
        self, at: At, placed: tuple[Placed, Placed], found: Iterable[tuple[Any, Any, Any, Any]]
    ) -> list[Candidate]:  # fmt: skip
        """Contacts of the two shapes, each with gap (m), normal (3,) and point (3,), and what is added to the gap."""
        ops, out = at.ops, list[Candidate]()
        links = [frame.on(at.tree).link for frame in self.frames]
        anchored = [link in (WORLD, *heavy_links(at.tree)) for link in links]
        for gap, normal, point, apart in found:
            axes = frame_of(ops, normal)
            if anchored[0] != anchored[1]:  # where it will be when the gap is closed: on the link that moves
                point = plus_scaled(point, normal, (0.5 if anchored[1] else -0.5) * ops.maximum(gap, 0.0))
            arms = {link: from_entries(ops, point) - at.robot.origins[link] for link in links if link != WORLD}
            belt = self._belt(at, axes, placed[1].axes)
            out.append(Candidate(gap if apart is None else gap + apart, axes, arms, belt))
        return out

    def surface_motion(self, at: At) -> list[Scalar] | None:
        """Velocity (3,) of the first surface over the second in the world (m/s), beside that of links; None if none."""
        axes = at.ops.constant(_clean(self.ground.rotation)) if isinstance(self.ground, Frame) else at.ops.eye(3)
        if self.second is not None:
            on = self.second.on(at.tree)
            axes = at.ops.constant(_clean(on.rotation))
            axes = axes if on.link == WORLD else at.robot.link_rotations[on.link] @ axes
        velocity = self._velocity_of_surface(at)
        return None if velocity is None else column(at.ops, -(axes @ velocity))

    def _velocity_of_surface(self, at: At) -> Matrix | None:
        """Velocity (3 × 1) of the second surface, along the axes of its frame."""
        ops, given = at.ops, self.surface_velocity
        if isinstance(given, str):
            x = at.robot.inputs[surface_velocity_name(at.index)]
            return from_entries(ops, [x[k] for k in range(3)])
        return ops.constant(given[:, None]) if given.any() else None

    def _belt(self, at: At, frame: Matrix, axes: Matrix) -> list[Scalar]:
        """Velocity of the first surface over the second along the tangents of a frame, from the axes of the second."""
        ops, velocity = at.ops, self._velocity_of_surface(at)
        if velocity is None:
            return []
        return column(ops, -(ops.transpose(ops.take(frame, None, (0, 1))) @ (axes @ velocity)))


def _shown(shape: Solid | None) -> str:
    return f"Mesh of {len(shape.vertices)} vertices" if isinstance(shape, Mesh) else repr(shape)


def _text(shape: Solid | None) -> str:
    if not isinstance(shape, Mesh):
        return repr(shape)
    return repr(("Mesh", shape.vertices.tolist(), None if shape.triangles is None else shape.triangles.tolist()))


def _clean(R: Array) -> Array:
    return np.where(np.abs(R) < 1e-15, 0.0, R)


def frame_of(ops: Ops, n: Sequence[Scalar]) -> Matrix:
    """Two tangents and the normal ``n`` (3 × 3)."""
    return ops.matrix([list(row) for row in zip(*tangents(ops, n), n, strict=True)])


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Spins(Constraint):
    """Relative angular velocities about axes of a contact's points, times lengths (m/s): rows of a contact step.

    Of each point after the other, about its tangents with rolling friction and its normal with torsional friction.

    Attributes
    ----------
    contact : Contact
    of : int
        Index of the contact among the constraints.
    """

    contact: Contact
    of: int

    def __init__(self, contact: Contact, of: int) -> None:
        self._set_attributes(size=contact.n_points * len(contact.lengths), contact=contact, of=of)

    def __repr__(self) -> str:
        return f"Spins of {self.contact!r}"

    @property
    def n_impulses(self) -> int:
        """Number of impulses: one about each axis."""
        return self.size

    @property
    def is_loop(self) -> bool:
        """Never, as its contact."""
        return False

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Those of its contact."""
        return self.contact.frames

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of the constraint."""
        return repr(("Spins", self.contact.fingerprint, self.of))

    def prefixed(self, prefix: str) -> Spins:
        """That of the contact with a prefix on all names."""
        return Spins(self.contact.prefixed(prefix), self.of)

    def top(self, tree: Tree) -> int:
        """That of its contact."""
        return self.contact.top(tree)

    def row_lengths(self) -> list[float]:
        """Length (m) of each row."""
        return [length for _ in range(self.contact.n_points) for _, length in self.contact.lengths]

    def rows_on_links(self, at: At) -> dict[int, Matrix]:
        """Rows of all points, one below the other."""
        ops, out, points = at.ops, dict[int, Matrix](), at.robot.candidates[self.of]
        for link in points[0].arms:
            R, rows = at.robot.link_rotations[link], []
            for x, (axis, length) in product(points, self.contact.lengths):
                about = ops.transpose(ops.take(x.axes, None, (axis,))) @ R
                rows.append(ops.hstack([ops.zeros(1, 3), scaled_matrix(ops, length, about)]))
            out[link] = -ops.vstack(rows) if out else ops.vstack(rows)
        return out


def spins_of(constraints: Sequence[Constraint]) -> list[Spins]:
    """Spins among constraints."""
    return [c for c in constraints if isinstance(c, Spins)]


def spins_of_contacts(constraints: Sequence[Constraint]) -> tuple[Spins, ...]:
    """Rows of the torsional and rolling friction of contacts."""
    return tuple(Spins(c, k) for k, c in enumerate(constraints) if isinstance(c, Contact) and c.lengths)


def contacts_of(constraints: Iterable[Constraint]) -> list[Contact]:
    """Contacts among constraints."""
    return [c for c in constraints if isinstance(c, Contact)]
