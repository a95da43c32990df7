"""Contacts that may close, and joints with limits and dry friction: rows of contact steps."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints.constraint import Constraint
from delassus.constraints.frame import Frame, as_frame
from delassus.constraints.joint_rows import JointRows
from delassus.errors import ConstraintError, shown
from delassus.model.check import check_number
from delassus.model.rotations import Array
from delassus.model.shapes import Box, Capsule, Sphere
from delassus.model.tree import WORLD, Tree

Ground = Literal["plane", "input"] | Frame | tuple[str | Frame, Sphere | Capsule]


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Contact(Constraint):
    """A shape that may touch the ground, or a shape of another link: what `compile` takes for ``"contact_step"``.

    Parameters
    ----------
    frame : str or Frame
        Where the shape is: the link that moves, and the place of the shape's frame on it.
    shape : Sphere, Capsule or Box
        A sphere has one contact point, a capsule one at each end, a box one at each of its eight corners. Between two
        links: spheres and capsules, which have one.
    ground : {"plane", "input"}, Frame or tuple
        What it may touch. ``"plane"`` is the plane z = 0 of the world; a ``Frame("world", position, rotation)`` the
        plane z = 0 of that frame. With ``"input"`` the ground below each point comes with each call, ``ground{i}``
        (n_points, 4) of the i-th constraint: its height (m) along z of the world below the centre of the sphere or
        corner, and its unit normal. ``(frame, shape)`` is a sphere or capsule on another link.
    friction : float
        Coefficient μ.
    restitution : float
        Coefficient ε from 0 to 1: approach at ``V`` is followed by separation at ``ε V``.

    Raises
    ------
    ConstraintError
        Another kind of shape or ground; with a robot: a frame that does not move, or two on one link.
    ConfigurationError
        Negative friction, or restitution outside [0, 1].

    Examples
    --------
    >>> from delassus.model.shapes import Box, Sphere
    >>> Contact("left_foot", Sphere(0.02)).size, Contact("left_foot", Box(0.2, 0.1, 0.05)).size
    (3, 24)
    """

    frame: Frame
    shape: Sphere | Capsule | Box
    ground: Literal["plane", "input"] | Frame | tuple[Frame, Sphere | Capsule]
    friction: float
    restitution: float

    def __init__(
        self,
        frame: str | Frame,
        shape: Sphere | Capsule | Box,
        ground: Ground = "plane",
        *,
        friction: float = 0.5,
        restitution: float = 0.0,
    ) -> None:
        first = as_frame(frame, "frame of a contact")
        what = f"contact on {first.link!r}"
        if not isinstance(shape, Sphere | Capsule | Box):
            raise ConstraintError(f"shape of a {what}", "a Sphere, Capsule or Box", shown(shape), "Approximate it.")
        if isinstance(ground, tuple):
            if len(ground) != 2 or not isinstance(ground[1], Sphere | Capsule) or isinstance(shape, Box):
                wanted = "spheres and capsules between two links, ground=(frame, shape)"
                raise ConstraintError(f"shapes of a {what}", wanted, shown(ground), "Use capsules for boxes.")
            ground = as_frame(ground[0], f"second frame of a {what}"), ground[1]
        elif isinstance(ground, Frame):
            if ground.link != "world" or ground.given is not None:
                raise ConstraintError(f"ground of a {what}", "a Frame on 'world'", shown(ground), "Or (frame, shape).")
        elif not isinstance(ground, str) or ground not in ("plane", "input"):
            wanted = "'plane', 'input', a Frame on 'world' or (frame, shape)"
            raise ConstraintError(f"ground of a {what}", wanted, shown(ground), "Choose one of these.")
        points = 1 if isinstance(ground, tuple) or isinstance(shape, Sphere) else 2 if isinstance(shape, Capsule) else 8
        self._set_attributes(
            size=3 * points,
            frame=first,
            shape=shape,
            ground=ground,
            friction=check_number(f"friction of a {what}", friction, "Coulomb's coefficient.", above=False),
            restitution=check_number(f"restitution of a {what}", restitution, "From 0 to 1.", above=False, most=1.0),
        )
        for each in self.frames:
            if each.given is not None:
                raise ConstraintError(f"frame of a {what}", "a fixed placement", shown(each.given), "Give it here.")

    def __repr__(self) -> str:
        other = self.ground if self.second is None else f"{self.second_shape!r} on {self.second.text}"
        return f"Contact({self.frame.text}, {self.shape!r}, {other!s})"

    @property
    def second(self) -> Frame | None:
        """Where the shape on another link is; None of a contact with the ground."""
        return self.ground[0] if isinstance(self.ground, tuple) else None

    @property
    def second_shape(self) -> Sphere | Capsule | None:
        """The shape on another link."""
        return self.ground[1] if isinstance(self.ground, tuple) else None

    @property
    def n_points(self) -> int:
        """Number of contact points."""
        return self.size // 3

    @property
    def spheres(self) -> list[tuple[Array, float]]:
        """Centre (3,) in the frame of the shape, and radius, of what may touch a plane."""
        shape = self.shape
        if isinstance(shape, Box):
            half = 0.5 * np.array([shape.x, shape.y, shape.z])
            return [(half * np.array(signs), 0.0) for signs in product((-1.0, 1.0), repeat=3)]
        ends = (0.0,) if isinstance(shape, Sphere) else (-0.5 * shape.length, 0.5 * shape.length)
        return [(np.array([0.0, 0.0, z]), shape.radius) for z in ends]

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Frames that it is on."""
        return (self.frame,) if self.second is None else (self.frame, self.second)

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of the constraint."""
        ground: object = self.ground.fingerprint if isinstance(self.ground, Frame) else self.ground
        if self.second is not None:
            ground = self.second.fingerprint, repr(self.second_shape)
        of = self.frame.fingerprint, repr(self.shape), ground, self.friction, self.restitution
        return repr(("Contact", *of))

    def prefixed(self, prefix: str) -> Contact:
        """The same contact of a robot whose names have a prefix."""
        other: Any = self.ground if self.second is None else (self.second.prefixed(prefix), self.second_shape)
        return Contact(self.frame.prefixed(prefix), self.shape, other, friction=self.friction,
                       restitution=self.restitution)  # fmt: skip

    def carriers(self, tree: Tree) -> tuple[int, ...]:
        """Moving links whose twists the rows meet."""
        return tuple(link for link in (frame.carrier(tree) for frame in self.frames) if link != WORLD)

    def check(self, tree: Tree) -> None:
        """Refuse a robot that it does not fit: raises `UnknownNameError` or `ConstraintError`."""
        links = [frame.carrier(tree) for frame in self.frames]
        if links[0] == WORLD:
            raise ConstraintError(repr(self), "a frame on a link that moves", f"{self.frame.link!r}", "Swap the two.")
        if len(links) == 2 and links[0] == links[1]:
            raise ConstraintError(repr(self), "two links that move", "one link", "What is rigid cannot collide.")


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class BoundedJoint(JointRows):
    """The velocity of one degree of freedom, with its limits and its dry friction; one row of a contact step.

    Attributes
    ----------
    dof : int
        Index of the degree of freedom.
    lower, upper : float
        Limits of its position (rad, m); infinite where there are none.
    friction : float
        Largest force of dry friction (N·m, N).
    """

    dof: int
    lower: float
    upper: float
    friction: float

    def __init__(self, joint: str, axis: ArrayLike, dof: int, lower: float, upper: float, friction: float) -> None:
        JointRows.__init__(self, {joint: axis})
        self._set_attributes(dof=dof, lower=lower, upper=upper, friction=friction)

    def __repr__(self) -> str:
        return f"BoundedJoint({self.joints[0]!r}, {self.lower:g}, {self.upper:g}, {self.friction:g})"

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:  # type: ignore[override]
        ((joint, axis),) = self.rows[0].items()
        return BoundedJoint, (joint, axis, self.dof, self.lower, self.upper, self.friction)

    @property
    def has_limits(self) -> bool:
        """Whether there is a limit on either side."""
        return bool(np.isfinite(self.lower) or np.isfinite(self.upper))

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of the constraint."""
        return repr((*self.joints, self.dof, self.lower, self.upper, self.friction))


def bounded_joints(tree: Tree, limits: bool, friction: bool) -> tuple[BoundedJoint, ...]:
    """All degrees of freedom of a robot that have limits, or dry friction, if these are to act."""
    out = []
    for joint, sv in zip(tree.joints, tree.v_slices, strict=True):
        for k in range(joint.nv):
            # positions of joints of one coordinate per degree of freedom are what limits are for
            stops = limits and joint.nq == joint.nv
            lower, upper = (joint.lower[k], joint.upper[k]) if stops else (-np.inf, np.inf)
            force = float(joint.friction[k]) if friction else 0.0
            row = BoundedJoint(joint.name, np.eye(joint.nv)[k], sv.start + k, float(lower), float(upper), force)
            if row.has_limits or row.friction:
                out.append(row)
    return tuple(out)
