"""Two frames, or a frame and the world, that do not rotate relative to each other, or about one axis only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints.between_frames import Axes, FrameConstraint, across, unit
from delassus.constraints.frame import Frame
from delassus.frozen import read_only
from delassus.spatial.rotations import Array


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
        rows[:, 3:] = np.eye(3) if axis is None else across(unit(axis, "axis of an orientation"))
        self._set_rows(first, second, rows, axes, angular_axes=None if axis is None else "local")
        self._set_attributes(axis=None if axis is None else read_only(axis))
