"""Constraints: stacks of rows on the relative motion of two links, or of a link and the world.

A row of a constraint with first frame *a* and second frame *b* measures a component of ``v_a − X_a_b v_b``, in the axes
of frame *a* (``axes="local"``) or of the world (``axes="world"``), at the origin of frame *a*; the order is
``[linear; angular]``. Welds and hinges carry the twist of *b* over rigidly to the origin of *a*; points subtract the
velocities of the two points themselves. So it matters where on its link the second frame is for points only.

A frame's placement on its link, and the rows of `Rows`, are fixed or come with each call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from delassus.errors import ConstraintError, shown
from delassus.frozen import Frozen
from delassus.model.check import check_choice, check_list, check_rotation, check_vector, finite_array
from delassus.model.rotations import Array
from delassus.model.tree import WORLD, Placement, Tree

Axes = Literal["local", "world"]
Given = Literal["position", "placement"]

MOST_ROWS = 10_000
"""Of one constraint: programs grow with the square of their number."""

ROW_LAYOUT = "Each row holds three linear and three angular components."


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Frame(Frozen):
    """A place on a link: an origin and axes that stay where they are on it.

    Parameters
    ----------
    link : str
        Name of a link (or of any frame of the tree).
    position : (3,) array_like
        Origin in that link's frame, in m.
    rotation : (3, 3) array_like, optional
        Orientation in that link's frame; the identity by default.
    given : {"position", "placement"}, optional
        What comes with each call instead, in that link's frame: the position (3,), in m, or position and unit
        quaternion (7,), ``[x y z w]``. "position" is the cheaper one, and leaves ``rotation`` as it is here.

    Raises
    ------
    ModelError
        ``position`` is not three finite numbers, or ``rotation`` is not a rotation matrix.
    ConstraintError
        ``given`` is something else, or what comes with each call is fixed here as well.

    Examples
    --------
    >>> Frame("left_foot", (0.1, 0.05, -0.08)).link
    'left_foot'
    >>> Frame("left_foot", given="position").given
    'position'
    """

    link: str
    position: Array
    rotation: Array
    given: Given | None

    def __init__(
        self,
        link: str,
        position: ArrayLike = (0, 0, 0),
        rotation: ArrayLike | None = None,
        *,
        given: Given | None = None,
    ) -> None:
        p, R = check_vector(position, f"position of a frame on {shown(link)}"), check_rotation(rotation)
        argument = f"given of a frame on {shown(link)}"
        if given is not None and (not isinstance(given, str) or given not in ("position", "placement")):
            raise ConstraintError(argument, "'position', 'placement' or nothing", shown(given), "Choose one of these.")
        if (given is not None and p.any()) or (given == "placement" and not np.array_equal(R, np.eye(3))):
            raise ConstraintError(
                argument, f"no {'position' if p.any() else 'rotation'} beside {given!r}", "one", "Leave out either."
            )
        self._set_attributes(link=link, position=p, rotation=R, given=given)
        self._make_read_only("position", "rotation")

    def __repr__(self) -> str:
        placed = f"given={self.given!r}" if self.given else f"{self.position.tolist()}"
        return f"Frame({self.link!r}, {placed})"

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of the frame."""
        return repr((self.link, self.position.tolist(), self.rotation.tolist(), self.given))

    def carrier(self, tree: Tree) -> int:
        """Index of the moving link that this frame is on, or `WORLD`; raises `UnknownNameError`."""
        return tree.placement(self.link).link

    def on(self, tree: Tree) -> Placement:
        """Placement of this frame in the body frame of its link.

        Raises
        ------
        UnknownNameError
            The tree has no such link.
        ConstraintError
            The placement is not fixed: it comes with each call.
        """
        at = tree.placement(self.link)
        if self.given is not None:
            raise ConstraintError(
                f"frame on {self.link!r}", "a fixed placement", f"given={self.given!r}", "Give it a position here."
            )
        return Placement(at.link, at.rotation @ self.rotation, at.position + at.rotation @ self.position)


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Constraint(Frozen):
    """Rows on the motion of a frame relative to another one, or to the world; made by `Weld`, `Point` and others.

    Attributes
    ----------
    first : Frame
        Frame that the rows act on, at its origin.
    second : Frame or None
        Frame that the motion is relative to; None is the world.
    rows : (m, 6) array or None
        Selection of the relative twist ``[linear; angular]``; None if it comes with each call.
    size : int
        Number of rows m.
    axes, angular_axes : {"local", "world"}
        Axes of the linear and of the angular parts of the rows: those of the first frame, or the world's.
    rigid : bool
        Whether the second frame's twist is carried over to the origin of the first (False: `Point`).
    """

    first: Frame
    second: Frame | None
    rows: Array | None
    size: int
    axes: Axes
    angular_axes: Axes
    rigid: bool

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
            first=_as_frame(first, "first frame"),
            second=None if second is None else _as_frame(second, "second frame"),
            rows=None if isinstance(rows, int) else rows,
            size=rows if isinstance(rows, int) else len(rows),
            axes=axes,
            angular_axes=angular_axes or axes,
            rigid=rigid,
        )
        if not isinstance(rows, int):
            self._make_read_only("rows")

    def __repr__(self) -> str:
        other = "" if self.second is None else f", {self.second.link!r}"
        return f"{type(self).__name__}({self.first.link!r}{other}, {self.size} rows)"

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of the constraint."""
        frames = [None if frame is None else frame.fingerprint for frame in (self.first, self.second)]
        rows = None if self.rows is None else self.rows.tolist()
        return repr([type(self).__name__, *frames, rows, self.size, self.axes, self.angular_axes, self.rigid])


class Weld(Constraint):
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


class Point(Constraint):
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
    >>> Point(Frame("left_foot", (0.1, 0.05, -0.08))).size
    3
    """

    __slots__ = ()

    def __init__(self, first: str | Frame, second: str | Frame | None = None, *, axes: Axes = "local") -> None:
        self._set_rows(first, second, np.eye(6)[:3], axes, rigid=False)


class Hinge(Constraint):
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

    __slots__ = ()

    def __init__(
        self,
        first: str | Frame,
        second: str | Frame | None = None,
        axis: ArrayLike = (0, 0, 1),
        *,
        axes: Axes = "local",
    ) -> None:
        direction = check_vector(axis, "axis of a hinge", "its direction")
        length = float(np.linalg.norm(direction))
        if length < 1e-9:
            raise ConstraintError("axis of a hinge", "a vector that is not zero", shown(axis), "Give its direction.")
        rows = np.zeros((5, 6))
        rows[:3, :3] = np.eye(3)
        rows[3:, 3:] = _across(direction / length)
        self._set_rows(first, second, rows, axes, angular_axes="local")


class Rows(Constraint):
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

    __slots__ = ()

    def __init__(self, first: str | Frame, K: ArrayLike | int, *, axes: Axes = "local") -> None:
        if isinstance(K, int | np.integer) and not isinstance(K, bool):
            self._set_rows(first, None, int(K), axes)
        else:
            self._set_rows(first, None, finite_array(K, (-1, 6), "K of Rows", ROW_LAYOUT, ConstraintError), axes)
        if not 1 <= self.size <= MOST_ROWS:
            wanted = "at least one row" if self.size < 1 else f"at most {MOST_ROWS:,} rows"
            raise ConstraintError("K of Rows", wanted, shown(K), "Pass a positive number, or rows.")


def _across(direction: Array) -> Array:
    """Two unit vectors across a unit vector: coordinate axes where the vector is one."""
    largest = int(np.argmax(np.abs(direction)))
    if np.isclose(abs(direction[largest]), 1.0, rtol=0, atol=1e-15):
        return np.delete(np.eye(3), largest, axis=0)
    first = np.cross(direction, np.eye(3)[(largest + 1) % 3])
    first /= np.linalg.norm(first)
    return np.stack([first, np.cross(direction, first)])


def _as_frame(frame: str | Frame, argument: str) -> Frame:
    if isinstance(frame, Frame):
        return frame
    if isinstance(frame, str):
        return Frame(frame)
    raise ConstraintError(argument, "a link name or a Frame", shown(frame), "Pass a name such as 'left_foot'.")


def check_constraints(tree: Tree, constraints: Iterable[Constraint] | Constraint) -> tuple[Constraint, ...]:
    """Check constraints against a tree and return them as a tuple.

    Raises
    ------
    ConstraintError
        Not a constraint, or a constraint between two frames that nothing lets move apart.
    UnknownNameError
        A link that the tree does not have.
    """
    wanted, advice = "Weld, Point, Hinge or Rows objects", "Make one of these."
    one = isinstance(constraints, Constraint)
    checked = (constraints,) if one else check_list("constraints", constraints, wanted, advice, ConstraintError)
    for c in checked:
        if not isinstance(c, Constraint):
            raise ConstraintError("constraints", wanted, shown(c), advice)
        first, second = c.first.carrier(tree), None if c.second is None else c.second.carrier(tree)
        if first == second and first != WORLD:
            raise ConstraintError(
                repr(c), "two links that can move apart", "two that are one rigid body", "Drop this constraint."
            )
    return checked


def row_slices(constraints: Sequence[Constraint]) -> tuple[slice, ...]:
    """Rows of the stacked constraints that each one has."""
    ends = accumulate((c.size for c in constraints), initial=0)
    return tuple(slice(start, stop) for start, stop in pairwise(ends))
