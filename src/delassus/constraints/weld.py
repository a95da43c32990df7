"""Two frames, or a frame and the world, that do not move relative to each other."""

from __future__ import annotations

import numpy as np

from delassus.constraints.between_frames import Axes, FrameConstraint
from delassus.constraints.frame import Frame


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
