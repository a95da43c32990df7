"""Constraints on the relative motion of two frames, or of a frame and the world.

A row of a constraint with first frame *a* and second frame *b* measures a component of ``v_a − X_a_b v_b``, in the axes
of frame *a* (``axes="local"``) or of the world (``axes="world"``), at the origin of frame *a*; the order is
``[linear; angular]``. Welds and hinges carry the twist of *b* over rigidly to the origin of *a*; points subtract the
velocities of the two points themselves. So it matters where on its link the second frame is for points only.

A frame's placement on its link, and the rows of `Rows`, are fixed or come with each call.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints.constraint import MOST_ROWS, Constraint
from delassus.constraints.frame import Frame, as_frame
from delassus.errors import ConstraintError, shown
from delassus.frozen import read_only
from delassus.model.check import check_choice, check_vector, finite_array, real_array
from delassus.model.rotations import ROUND_OFF, Array
from delassus.model.tree import WORLD, Tree

Axes = Literal["local", "world"]

ROW_LAYOUT = "Each row holds three linear and three angular components."


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class FrameConstraint(Constraint):
    """Rows on the motion of a frame relative to another one, or to the world; made by `Weld`, `Point` and others.

    Attributes
    ----------
    first : Frame
        Frame that the rows act on, at its origin.
    second : Frame or None
        Frame that the motion is relative to; None is the world.
    rows : (m, 6) array or None
        Selection of the relative twist ``[linear; angular]``; None if it comes with each call.
    axes, angular_axes : {"local", "world"}
        Axes of the linear and of the angular parts of the rows: those of the first frame, or the world's.
    rigid : bool
        Whether the second frame's twist is carried over to the origin of the first (False: `Point`).
    """

    first: Frame
    second: Frame | None
    rows: Array | None = field(init=False)
    axes: Axes
    angular_axes: Axes = field(init=False)
    rigid: bool = field(init=False)

    def _set_rows(
        self,
        first: str | Frame,
        second: str | Frame | None,
        rows: Array | int,
        axes: Axes,
        *,
        angular_axes: Axes | None = None,
        rigid: bool = True,
    ) -> None:
        check_choice("axes", axes, ("local", "world"), ConstraintError)
        self._set_attributes(
            first=as_frame(first, "first frame"),
            second=None if second is None else as_frame(second, "second frame"),
            rows=None if isinstance(rows, int) else rows,
            size=rows if isinstance(rows, int) else len(rows),
            axes=axes,
            angular_axes=angular_axes or axes,
            rigid=rigid,
        )
        if not isinstance(rows, int):
            self._make_read_only("rows")

    def __repr__(self) -> str:
        ends = [frame.text for frame in self.frames]
        axes = [] if self.axes == "local" else [f"axes={self.axes!r}"]
        return f"{type(self).__name__}({', '.join([*ends, *axes, f'{self.size} rows'])})"

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of the constraint."""
        return repr(self._defining())

    def _defining(self) -> list[object]:
        """What tells it from others."""
        frames = [None if frame is None else frame.fingerprint for frame in (self.first, self.second)]
        rows = None if self.rows is None else self.rows.tolist()
        return [type(self).__name__, *frames, rows, self.size, self.axes, self.angular_axes, self.rigid]

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Frames that it is on: the first, and the second if there is one."""
        return (self.first,) if self.second is None else (self.first, self.second)

    @property
    def pose_size(self) -> int:
        """Numbers that say where in the world its first frame should be: 7, of a point 3; 0 if it has no place."""
        return 0 if self.second is not None else 7 if self.rigid else 3

    def prefixed(self, prefix: str) -> FrameConstraint:
        """The same constraint of a robot whose names have a prefix."""
        other = copy(self)
        second = None if self.second is None else self.second.prefixed(prefix)
        other._set_attributes(first=self.first.prefixed(prefix), second=second)
        return other

    def carriers(self, tree: Tree) -> tuple[int, ...]:
        """Links of its frames, the world left out."""
        return tuple(link for link in (frame.carrier(tree) for frame in self.frames) if link != WORLD)

    def check(self, tree: Tree) -> None:
        """Refuse a robot that it does not fit: raises `UnknownNameError` or `ConstraintError`."""
        first, second = self.first.carrier(tree), None if self.second is None else self.second.carrier(tree)
        if first == second and first != WORLD:
            raise ConstraintError(
                repr(self), "two links that can move apart", "two that are one rigid body", "Drop this constraint."
            )


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
        rows[3:, 3:] = _across(_unit(axis, "axis of a hinge"))
        self._set_rows(first, second, rows, axes, angular_axes="local")
        self._set_attributes(axis=read_only(axis))


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
        rows[:, 3:] = np.eye(3) if axis is None else _across(_unit(axis, "axis of an orientation"))
        self._set_rows(first, second, rows, axes, angular_axes=None if axis is None else "local")
        self._set_attributes(axis=None if axis is None else read_only(axis))


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Distance(FrameConstraint):
    """One row: the distance between the origins of two frames stays as it is; a rod between two ball joints.

    The row runs along the line between them. Where they coincide, there is no such line, and results are NaN.

    Parameters
    ----------
    first, second : str or Frame
        The frames; ``Frame("world", position)`` is a place in the world.
    length : float, optional
        Distance in m that stabilisation goes to; without it, only the velocity along the line is stabilised.

    Raises
    ------
    ConstraintError
        A frame that is neither a name nor a `Frame`, or a ``length`` that is not positive.

    Examples
    --------
    >>> Distance("left_hand", "right_hand", length=0.4).size
    1
    """

    axes: Axes = field(init=False)
    length: float | None

    def __init__(self, first: str | Frame, second: str | Frame, *, length: float | None = None) -> None:
        self._set_rows(first, as_frame(second, "second frame"), 1, "local", rigid=False)
        if length is not None:
            number = real_array(length)
            if number is None or number.shape != () or not (np.isfinite(number) and number > 0):
                raise ConstraintError(
                    "length of a distance", "a positive number in m", shown(length), "Leave it out for none."
                )
            length = float(number)
        self._set_attributes(length=length)

    def _defining(self) -> list[object]:
        return [*FrameConstraint._defining(self), self.length]


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Rows(FrameConstraint):
    """Any rows on the twist of one link.

    Parameters
    ----------
    first : str or Frame
        Frame whose twist, at its origin, the rows act on.
    K : (m, 6) array_like or int
        The rows, ``[linear; angular]``; a number says how many rows come with each call.
    axes : {"local", "world"}
        Axes that the twist is expressed in: those of the frame, or the world's.

    Raises
    ------
    ConstraintError
        ``K`` is neither finite numbers of shape (m, 6) nor a positive number of rows; a frame that is neither a name
        nor a `Frame`, or other ``axes``.

    Examples
    --------
    >>> Rows("left_foot", [[0, 0, 1, 0, 0, 0]]).size
    1
    """

    second: None = field(init=False)
    K: Array | int

    def __init__(self, first: str | Frame, K: ArrayLike | int, *, axes: Axes = "local") -> None:
        if isinstance(K, int | np.integer) and not isinstance(K, bool):
            self._set_rows(first, None, int(K), axes)
        else:
            self._set_rows(first, None, finite_array(K, (-1, 6), "K of Rows", ROW_LAYOUT, ConstraintError), axes)
        self._set_attributes(K=self.size if self.rows is None else self.rows)
        if not 1 <= self.size <= MOST_ROWS:
            wanted = "at least one row" if self.size < 1 else f"at most {MOST_ROWS:,} rows"
            raise ConstraintError("K of Rows", wanted, shown(K), "Pass a positive number, or rows.")

    @property
    def pose_size(self) -> int:
        """None: rows have no place in the world."""
        return 0


def _unit(axis: ArrayLike, argument: str) -> Array:
    """Direction of an axis."""
    direction = check_vector(axis, argument, "its direction")
    length = float(np.linalg.norm(direction))
    if length < 1e-9:
        raise ConstraintError(argument, "a vector that is not zero", shown(axis), "Give its direction.")
    return np.asarray(direction / length)


def _across(direction: Array) -> Array:
    """Two unit vectors across a unit vector: coordinate axes where the vector is one."""
    largest = int(np.argmax(np.abs(direction)))
    if np.max(np.abs(np.delete(direction, largest))) <= ROUND_OFF:
        return np.delete(np.eye(3), largest, axis=0)
    first = np.cross(direction, np.eye(3)[(largest + 1) % 3])
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(direction, first)])
