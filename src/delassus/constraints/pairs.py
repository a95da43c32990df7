"""Kinematic pairs: two frames, or a frame and the world, whose relative twist has some components that are zero."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints.between_frames import Axes, FrameConstraint
from delassus.constraints.frame import Frame
from delassus.errors import ConstraintError, shown
from delassus.frozen import read_only
from delassus.model.check import check_vector
from delassus.spatial.rotations import ROUND_OFF, Array


class Weld(FrameConstraint):
    """Six rows: the two frames do not move relative to each other.

    Parameters
    ----------
    first : str or Frame
        Frame that is held; a link's name stands for the link's own frame.
    second : str or Frame, optional
        Frame of another link that it is held to (a loop); the world if not given.
    axes : {"local", "world"}
        Axes of the rows ``[linear; angular]``: those of the first frame, or the world's.

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


class Point(FrameConstraint):
    """Three rows: the origins of the two frames move together; rotation is free.

    Parameters
    ----------
    first : str or Frame
        Frame whose origin is held; a link's name stands for the link's own frame.
    second : str or Frame, optional
        Frame of another link whose origin it is held to (a loop); the world if not given.
    axes : {"local", "world"}
        Axes of the rows: those of the first frame, or the world's.

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
    axes : {"local", "world"}
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
        rows = np.zeros((5, 6))
        rows[:3, :3] = np.eye(3)
        rows[3:, 3:] = _across(axis, "axis of a hinge")
        self._set_rows(first, second, rows, axes, angular_axes="local")
        self._set_attributes(axis=read_only(axis))

    @property
    def free_axis(self) -> Array:
        """Its axis, of length one."""
        return _unit(self.axis)


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
    axes : {"local", "world"}
        Axes of the three rows: those of the first frame, or the world's. The two rows always run across ``axis``, in
        the first frame.

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
        rows = np.zeros((3, 6)) if axis is None else np.zeros((2, 6))
        rows[:, 3:] = np.eye(3) if axis is None else _across(axis, "axis of an orientation")
        self._set_rows(first, second, rows, axes, angular_axes=None if axis is None else "local")
        self._set_attributes(axis=None if axis is None else read_only(axis))

    @property
    def free_axis(self) -> Array | None:
        """Its axis, of length one; None if there is none."""
        return None if self.axis is None else _unit(self.axis)


ZERO = 1e-9
"""A direction whose entries are all below this is taken for a zero that round-off has left: it has no unit."""


def _unit(direction: Array) -> Array:
    """The direction of a vector of any length, at length one."""
    size = direction / np.max(np.abs(direction))  # squares neither overflow nor vanish
    return np.asarray(size / np.linalg.norm(size))


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
