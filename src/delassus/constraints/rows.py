"""Any rows on the twist of a link, relative to the world or to another link; they may come with each call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints.between_frames import Axes, FrameConstraint
from delassus.constraints.constraint import MOST_ROWS, Argument, At, Constraint
from delassus.constraints.frame import Frame
from delassus.errors import ConstraintError, shown
from delassus.model.check import finite_array
from delassus.spatial.ops import Matrix
from delassus.spatial.rotations import Array

ROW_LAYOUT = "Each row holds three linear and three angular components."


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Rows(FrameConstraint):
    """Any rows on the twist of a link, ``Rows(first, K)``, or on that of two, ``Rows(first, second, K)``.

    Between two links the rows are on ``v_first − X v_second``, the second twist carried over rigidly to the origin of
    the first frame. Rows have no position error. `Weld`, `Hinge`, `Prismatic`, `Cylindrical`, `Universal` and `Planar`
    state rows of pairs that have one.

    Parameters
    ----------
    first : str or Frame
        Frame whose twist, at its origin, the rows act on.
    second : str or Frame, optional
        Frame of another link that the twist is relative to; the world if not given.
    K : (m, 6) array_like or int
        The rows, ``[linear; angular]``; a number says how many rows come with each call.
    axes : {"local", "world", "local-world-aligned"}
        Axes that the twist is expressed in: those of the first frame, or the world's, by either name.

    Raises
    ------
    ConstraintError
        ``K`` is neither finite numbers of shape (m, 6) nor a positive number of rows; a frame that is neither a name
        nor a `Frame`, or other ``axes``.

    Examples
    --------
    >>> Rows("left_foot", [[0, 0, 1, 0, 0, 0]]).size
    1
    >>> Rows("gripper", "rail", [[0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]]).size
    2
    """

    K: Array | int

    @overload
    def __init__(self, first: str | Frame, K: ArrayLike | int, /, *, axes: Axes = "local") -> None: ...

    @overload
    def __init__(
        self, first: str | Frame, second: str | Frame | None = None, K: ArrayLike | int = ..., *, axes: Axes = "local"
    ) -> None: ...  # fmt: skip

    def __init__(
        self, first: str | Frame, second: Any = None, K: ArrayLike | int | None = None, *, axes: Axes = "local"
    ) -> None:  # fmt: skip
        if K is None:  # of one link
            second, K = None, second
        if isinstance(K, int | np.integer) and not isinstance(K, bool):
            self._set_rows(first, second, int(K), axes)
        else:
            self._set_rows(first, second, finite_array(K, (-1, 6), "K of Rows", ROW_LAYOUT, ConstraintError), axes)
        self._set_attributes(K=self.size if self.rows is None else self.rows)
        if not 1 <= self.size <= MOST_ROWS:
            wanted = "at least one row" if self.size < 1 else f"at most {MOST_ROWS:,} rows"
            raise ConstraintError("K of Rows", wanted, shown(K), "Pass a positive number, or rows.")

    @property
    def pose_size(self) -> int:
        """Zero: rows have no pose in the world."""
        return 0

    @property
    def has_position_error(self) -> bool:
        """False: positions of rows are not known."""
        return False

    def position(self, at: At) -> Matrix:
        """Zero."""
        return at.ops.zeros(self.size, 1)

    def arguments(self, index: int) -> Iterator[Argument]:
        """The rows that come with each call, then the placement of the frame."""
        if self.rows is None:
            meaning = f"rows of constraint {index} on {self.first.link}, [linear; angular]"
            yield Argument(_rows_name(index), (self.size, 6), meaning, "rows", f"rows of {self!r}")
        yield from Constraint.arguments(self, index)

    def selection(self, at: At) -> Matrix:
        """The rows (m × 6), as they are given."""
        return at.robot.inputs[_rows_name(at.index)] if self.rows is None else at.ops.constant(self.rows)


def _rows_name(constraint: int) -> str:
    return f"K{constraint}"
