"""Kinematic pairs: two frames, or a frame and the world, whose relative twist has some components that are zero."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints.between_frames import Axes, FrameConstraint
from delassus.constraints.constraint import At, exact
from delassus.constraints.frame import Frame, as_frame
from delassus.errors import ConstraintError, shown
from delassus.frozen import read_only
from delassus.model.check import check_vector
from delassus.model.tree import WORLD
from delassus.spatial.motion import ANGULAR, cross
from delassus.spatial.ops import Matrix
from delassus.spatial.rotations import ROUND_OFF, Array


class Weld(FrameConstraint):
    """Six rows: the two frames do not move relative to each other.

    Parameters
    ----------
    first : str or Frame
        Frame that is held; a link's name stands for the link's own frame.
    second : str or Frame, optional
        Frame of another link that it is held to (a loop); the world if not given.
    axes : {"local", "world", "local-world-aligned"}
        Axes of the rows ``[linear; angular]``: those of the first frame, or the world's, by either name.

    Raises
    ------
    ConstraintError
        A frame that is neither a name nor a `Frame`, or other ``axes``.

    Examples
    --------
    >>> Weld("left_foot").size
    6
    """

    __slots__ = ()

    def __init__(self, first: str | Frame, second: str | Frame | None = None, *, axes: Axes = "local") -> None:
        self._set_rows(first, second, np.eye(6), axes)

    @property
    def joint(self) -> tuple[str, tuple[Array, ...]]:
        """A fixed one."""
        return "fixed", ()


class Point(FrameConstraint):
    """Three rows: the origins of the two frames move together; rotation is free.

    Parameters
    ----------
    first : str or Frame
        Frame whose origin is held; a link's name stands for the link's own frame.
    second : str or Frame, optional
        Frame of another link whose origin it is held to (a loop); the world if not given.
    axes : {"local", "world", "local-world-aligned"}
        Axes of the rows: those of the first frame, or the world's, by either name.

    Raises
    ------
    ConstraintError
        A frame that is neither a name nor a `Frame`, or other ``axes``.

    Examples
    --------
    >>> Point(Frame("left_foot", (0.1, 0.05, -0.08)), axes="world")
    Point(Frame('left_foot', [0.1, 0.05, -0.08]), axes='world', 3 rows)
    """

    __slots__ = ()

    def __init__(self, first: str | Frame, second: str | Frame | None = None, *, axes: Axes = "local") -> None:
        self._set_rows(first, second, np.eye(6)[:3], axes, rigid=False)

    @property
    def joint(self) -> tuple[str, tuple[Array, ...]]:
        """A spherical one."""
        return "spherical", ()


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Hinge(FrameConstraint):
    """Five rows: the two frames only rotate relative to each other, about ``axis`` through the first origin.

    Parameters
    ----------
    first : str or Frame
        Frame that the hinge is in; a link's name stands for the link's own frame.
    second : str or Frame, optional
        Frame of another link; the world if not given.
    axis : (3,) array_like
        Direction of the hinge in the first frame, of any length.
    axes : {"local", "world", "local-world-aligned"}
        Axes of the three linear rows. The two angular rows always run across the hinge, in the first frame.

    Raises
    ------
    ModelError
        ``axis`` is not three finite numbers.
    ConstraintError
        ``axis`` is zero; a frame that is neither a name nor a `Frame`, or other ``axes``.

    Examples
    --------
    >>> Hinge("gripper", "door", axis=(0, 0, 1)).size
    5
    """

    axis: Array

    def __init__(
        self,
        first: str | Frame,
        second: str | Frame | None = None,
        axis: ArrayLike = (0, 0, 1),
        *,
        axes: Axes = "local",
    ) -> None:
        rows = _rows(np.eye(3), _across(axis, "axis of a hinge"))
        self._set_rows(first, second, rows, axes, angular_axes="local")
        self._set_attributes(axis=read_only(axis))

    @property
    def free_axis(self) -> Array:
        """Its axis, of length one."""
        return _unit(self.axis)

    @property
    def joint(self) -> tuple[str, tuple[Array, ...]]:
        """A revolute one."""
        return "revolute", (self.free_axis,)


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Orientation(FrameConstraint):
    """Three rows: the two frames do not rotate relative to each other; or two: one axis keeps its direction.

    Position and the direction of one axis together are a `Hinge`, position and orientation a `Weld`.

    Parameters
    ----------
    first : str or Frame
        Frame whose orientation is held; a link's name stands for the link's own frame.
    second : str or Frame, optional
        Frame of another link that it is held to; the world if not given.
    axis : (3,) array_like, optional
        Axis in the first frame, of any length: the frames may rotate about it, and only about it.
    axes : {"local", "world", "local-world-aligned"}
        Axes of the three rows: those of the first frame, or the world's, by either name. The two rows always run
        across ``axis``, in the first frame.

    Raises
    ------
    ModelError
        ``axis`` is not three finite numbers.
    ConstraintError
        ``axis`` is zero; a frame that is neither a name nor a `Frame`, or other ``axes``.

    Examples
    --------
    >>> Orientation("torso").size, Orientation("tool", axis=(0, 0, 1)).size
    (3, 2)
    """

    axis: Array | None

    def __init__(
        self,
        first: str | Frame,
        second: str | Frame | None = None,
        *,
        axis: ArrayLike | None = None,
        axes: Axes = "local",
    ) -> None:
        rows = _rows(NONE, np.eye(3) if axis is None else _across(axis, "axis of an orientation"))
        self._set_rows(first, second, rows, axes, angular_axes=None if axis is None else "local")
        self._set_attributes(axis=None if axis is None else read_only(axis))

    @property
    def free_axis(self) -> Array | None:
        """Its axis, of length one; None if there is none."""
        return None if self.axis is None else _unit(self.axis)


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class _Pair(FrameConstraint):
    """Rows of a pair with an axis, in the axes of the first frame."""

    axes: Axes = field(init=False)
    axis: Array

    def __init__(self, first: str | Frame, second: str | Frame | None = None, axis: ArrayLike = (0, 0, 1)) -> None:
        across = _across(axis, f"axis of a {type(self).__name__.lower()} pair")
        self._set_attributes(axis=read_only(axis))
        self._set_rows(first, second, self._held(_unit(self.axis), across), "local")

    def _held(self, along: Array, across: Array) -> Array:
        """Rows (m, 6) by the unit vector ``along`` the axis and two (2, 3) ``across`` it."""
        raise NotImplementedError

    @property
    def free_axis(self) -> Array | None:
        """Its axis, of length one; None where frames do not turn."""
        assert self.rows is not None
        turning = np.count_nonzero(self.rows[:, ANGULAR].any(axis=1)) < 3
        return _unit(self.axis) if turning else None


class Prismatic(_Pair):
    """Five rows: the two frames only slide relative to each other, along ``axis``; they do not rotate.

    Parameters
    ----------
    first : str or Frame
        Frame that the rows are in; a link's name stands for the link's own frame.
    second : str or Frame, optional
        Frame of another link; the world if not given.
    axis : (3,) array_like
        Direction of the slide in the first frame, of any length.

    Raises
    ------
    ModelError
        ``axis`` is not three finite numbers.
    ConstraintError
        ``axis`` is zero, or a frame is neither a name nor a `Frame`.

    Examples
    --------
    >>> Prismatic("piston", "cylinder", axis=(0, 0, 1)).size
    5
    """

    __slots__ = ()

    def _held(self, along: Array, across: Array) -> Array:
        return _rows(across, np.eye(3))

    @property
    def joint(self) -> tuple[str, tuple[Array, ...]]:
        """A prismatic one."""
        return "prismatic", (_unit(self.axis),)


class Cylindrical(_Pair):
    """Four rows: the two frames slide along ``axis`` and rotate about it, and move in no other way.

    Parameters
    ----------
    first : str or Frame
        Frame that the rows are in; a link's name stands for the link's own frame.
    second : str or Frame, optional
        Frame of another link; the world if not given.
    axis : (3,) array_like
        Direction of the common axis through both origins in the first frame, of any length; the same in both frames.

    Raises
    ------
    ModelError
        ``axis`` is not three finite numbers.
    ConstraintError
        ``axis`` is zero, or a frame is neither a name nor a `Frame`.

    Examples
    --------
    >>> Cylindrical("rod", "sleeve", axis=(0, 0, 1)).size
    4
    """

    __slots__ = ()

    def _held(self, along: Array, across: Array) -> Array:
        return _rows(across, across)


class Planar(_Pair):
    """Three rows: the first origin stays in the plane across ``axis`` through the second one; frames turn about it.

    Parameters
    ----------
    first : str or Frame
        Frame that the rows are in; a link's name stands for the link's own frame.
    second : str or Frame, optional
        Frame of another link; the world if not given.
    axis : (3,) array_like
        Normal of the plane in the first frame, of any length; the same in both frames.

    Raises
    ------
    ModelError
        ``axis`` is not three finite numbers.
    ConstraintError
        ``axis`` is zero, or a frame is neither a name nor a `Frame`.

    Examples
    --------
    >>> Planar("puck", "table", axis=(0, 0, 1)).size
    3
    """

    __slots__ = ()

    def _held(self, along: Array, across: Array) -> Array:
        return _rows(along[None], across)


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Universal(FrameConstraint):
    """Four rows: the origins of two frames move together, and an axis of each stays across the other's.

    With unit axes ``a`` of the first frame and ``b`` of the second, the last row is ``(a × b)ᵀ`` on the relative
    angular velocity. Its position error is ``a · b``.

    Parameters
    ----------
    first : str or Frame
        Frame that the rows are in; a link's name stands for the link's own frame.
    second : str or Frame
        The other frame; ``Frame("world", position)`` is a place in the world.
    axis : (3,) array_like
        Axis of the cross in the first frame, of any length.
    second_axis : (3,) array_like
        Other axis of the cross, in the second frame.

    Raises
    ------
    ModelError
        An axis is not three finite numbers.
    ConstraintError
        An axis is zero, or a frame is neither a name nor a `Frame`.

    Examples
    --------
    >>> Universal("shaft", "wheel", axis=(1, 0, 0), second_axis=(0, 1, 0)).size
    4
    """

    axes: Axes = field(init=False)
    axis: Array
    second_axis: Array

    def __init__(
        self, first: str | Frame, second: str | Frame, axis: ArrayLike = (1, 0, 0), second_axis: ArrayLike = (0, 1, 0)
    ) -> None:  # fmt: skip
        for given in (axis, second_axis):
            _across(given, "axis of a universal joint")
        self._set_rows(first, as_frame(second, "second frame"), 4, "local")
        self._set_attributes(axis=read_only(axis), second_axis=read_only(second_axis))

    @property
    def joint(self) -> tuple[str, tuple[Array, ...]]:
        """A universal one."""
        return "universal", (_unit(self.axis), _unit(self.second_axis))

    def _defining(self) -> list[object]:
        return [*FrameConstraint._defining(self), self.axis.tolist(), self.second_axis.tolist()]

    def header_lines(self) -> Iterator[str]:
        """Its axes."""
        yield f"axes {exact(self.axis)} of the first frame, {exact(self.second_axis)} of the second"

    def selection(self, at: At) -> Matrix:
        """The rows (4 × 6), in the axes of the first frame."""
        ops, (a, b) = at.ops, self._cross(at)
        return ops.vstack([ops.constant(np.eye(6)[:3]), ops.hstack([ops.zeros(1, 3), ops.transpose(cross(ops, a, b))])])

    def _cross(self, at: At) -> tuple[Matrix, Matrix]:
        """Unit axes (3 × 1) of the first and of the second frame, in the axes of the first one."""
        ops, (first, second) = at.ops, self.links(at.tree)
        assert self.second is not None
        into, turned = ops.transpose(at.pose(self.first)[0]), at.pose(self.second, "second")[0]
        a, b = (ops.constant(_unit(x)[:, None]) for x in (self.axis, self.second_axis))
        return a, into @ (at.robot.pose_between(second, first)[0] @ (turned @ b))

    def drift(self, at: At) -> Matrix:
        """That of rows that are constant, and ``(a · w) (b · w) − (a · b) w²`` of a relative angular velocity ``w``."""
        ops, (first, second) = at.ops, self.links(at.tree)
        a, b = self._cross(at)
        w = ops.zeros(3, 1)
        if first != WORLD:
            w = w + ops.take(at.motion.V[first], ANGULAR, None)
        if second != WORLD:
            w = w - at.robot.pose_between(second, first)[0] @ ops.take(at.motion.V[second], ANGULAR, None)
        w = ops.transpose(at.pose(self.first)[0]) @ w
        along, own, other, square = (ops.transpose(x) @ y for x, y in ((a, b), (a, w), (b, w), (w, w)))
        return FrameConstraint.drift(self, at) + ops.vstack([ops.zeros(3, 1), own @ other - along @ square])

    def position(self, at: At) -> Matrix:
        """What the origins are apart (m), in the axes of the first frame, and ``a · b``."""
        ops, (first, second) = at.ops, self.links(at.tree)
        if first == second:  # both are the world
            return ops.zeros(4, 1)
        assert self.second is not None
        (R1, p1), (_, p2) = at.pose(self.first), at.pose(self.second, "second")
        R, p = at.robot.pose_between(second, first)
        a, b = self._cross(at)
        return ops.vstack([ops.transpose(R1) @ (p1 - (R @ p2 + p)), ops.transpose(a) @ b])


NONE = np.zeros((0, 3))
"""No directions."""

ZERO = 1e-9
"""A direction whose entries are all below this is taken for a zero that round-off has left: it has no unit."""


def _unit(direction: Array) -> Array:
    """The direction of a vector of any length, at length one."""
    size = direction / np.max(np.abs(direction))  # squares neither overflow nor vanish
    return np.asarray(size / np.linalg.norm(size))


def _rows(linear: Array, angular: Array) -> Array:
    """Rows (m, 6) along directions (k, 3) of linear and of angular velocity."""
    return np.block([[linear, np.zeros_like(linear)], [np.zeros_like(angular), angular]])


def _across(axis: ArrayLike, argument: str) -> Array:
    """Two unit vectors across an axis: coordinate axes where it is one."""
    direction = check_vector(axis, argument, "its direction")
    if np.max(np.abs(direction)) < ZERO:
        raise ConstraintError(argument, "a vector that is not zero", shown(axis), "Give its direction.")
    direction = _unit(direction)
    largest = int(np.argmax(np.abs(direction)))
    if np.max(np.abs(np.delete(direction, largest))) <= ROUND_OFF:
        return np.delete(np.eye(3), largest, axis=0)
    first = np.cross(direction, np.eye(3)[(largest + 1) % 3])
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(direction, first)])
