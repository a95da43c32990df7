"""Any rows on the twist of one link; they may come with each call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

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
        """Zero: rows have no pose in the world."""
        return 0

    @property
    def has_position_error(self) -> bool:
        """False: positions of rows are not known."""
        return False

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
