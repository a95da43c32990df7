"""Two origins, or an origin and a place in the world, that move together."""

from __future__ import annotations

import numpy as np

from delassus.constraints.between_frames import Axes, FrameConstraint
from delassus.constraints.frame import Frame


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
