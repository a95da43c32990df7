"""Two frames that only rotate relative to each other, about one axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints.between_frames import Axes, FrameConstraint, across, unit
from delassus.constraints.frame import Frame
from delassus.frozen import read_only
from delassus.spatial.rotations import Array


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
        rows[3:, 3:] = across(unit(axis, "axis of a hinge"))
        self._set_rows(first, second, rows, axes, angular_axes="local")
        self._set_attributes(axis=read_only(axis))
