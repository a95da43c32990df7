"""Two origins whose distance stays as it is.

With ``r = p_a − p_b`` and ``n = r / ‖r‖`` the row asks that the second derivative of ``‖r‖``,
``nᵀ r̈ + (ṙᵀ ṙ − (nᵀ ṙ)²) / ‖r‖``, vanishes. Its position error is ``‖r‖ − length``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from delassus.constraints.between_frames import Axes, FrameConstraint
from delassus.constraints.constraint import At
from delassus.constraints.frame import ENDS, Frame, as_frame
from delassus.errors import ConstraintError, shown
from delassus.model.check import real_array
from delassus.model.topology import characteristic_length
from delassus.model.tree import WORLD, Tree
from delassus.spatial.motion import column, from_entries, linear_at
from delassus.spatial.ops import Matrix, Scalar
from delassus.spatial.rotations import Array

ROUND_OFF = 64.0
"""Origins coincide where their distance is below this times the relative round-off of what it is made of (m)."""


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Distance(FrameConstraint):
    """One row: the distance between the origins of two frames stays as it is; a rod between two ball joints.

    The row runs along the line between them. Where they coincide, but for round-off, there is no such line:
    results are NaN, and their status is FAILED.

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

    @property
    def joint(self) -> tuple[str, tuple[Array, ...]]:
        """One that holds a distance, if its length is known."""
        return "distance" if self.holds and self.length is not None else "", ()

    def line(self, at: At) -> tuple[Matrix, Scalar]:
        """Direction (3 × 1) from the second origin to the first, in the axes of the first frame; and the distance."""
        ops, (a, b) = at.ops, self.links(at.tree)
        assert self.second is not None
        (R1, p1), (_, p2) = at.pose(self.first), at.pose(self.second, "second")
        R, p = at.robot.pose_between(b, a)
        p2 = R @ p2
        r = column(ops, ops.transpose(R1) @ (p1 - (p2 + p)))
        length = ops.sqrt(sum(x * x for x in r))
        one_over = self._one_over(at, length, p1, p2, p)
        return from_entries(ops, [x * one_over for x in r]), length

    @staticmethod
    def _one_over(at: At, length: Scalar, *parts: Matrix) -> Scalar:
        """1 over the distance, which is made of vectors and lengths of the robot (m); NaN where that is round-off."""
        ops, own = at.ops, characteristic_length(at.tree)
        made_of = own * own + sum(x * x for part in parts for x in column(ops, part))
        least = ROUND_OFF * ops.epsilon
        is_apart = ops.less(least * least * made_of, length * length)
        return is_apart / ops.select(is_apart, length, 0.0)

    def selection(self, at: At) -> Matrix:
        """The row ``[nᵀ 0]`` (1 × 6)."""
        return at.ops.hstack([at.ops.transpose(self.line(at)[0]), at.ops.zeros(1, 3)])

    def row_sizes(self, at: At, length: float) -> list[Scalar]:
        """Square of the size of the row: 1."""
        return [1.0]

    @property
    def as_loop(self) -> Distance:
        """The same: what carries both ends keeps the distance."""
        return self

    def top(self, tree: Tree) -> int:
        """Closest common ancestor of the two links: what moves it keeps the distance."""
        return tree.closest_common_ancestor(*self.links(tree))

    def drift(self, at: At) -> Matrix:
        """``nᵀ`` of what velocities alone cause, and ``(ṙᵀ ṙ − (nᵀ ṙ)²) / ‖r‖``."""
        ops, (_, length) = at.ops, self.line(at)  # where it is round-off, the velocity along it is NaN
        r = self._rate_of_way(at)
        ((square,),), ((along,),) = ops.entries(ops.transpose(r) @ r), ops.entries(self.velocity(at))
        beyond = ops.matrix([[(square - along * along) * (1.0 / length)]])
        return FrameConstraint.drift(self, at) + beyond

    def velocity_drift(self, at: At) -> Matrix:
        """The drift: the row measures a scalar."""
        return self.drift(at)

    def position(self, at: At) -> Matrix:
        """``‖r‖ − length``; zero without a length."""
        if self.length is None:
            return at.ops.zeros(1, 1)
        return at.ops.matrix([[self.line(at)[1] - self.length]])

    def _rate_of_way(self, at: At) -> Matrix:
        """``ṙ`` (3 × 1), in the axes of the carrier but for the sign."""
        ops, out, carrier = at.ops, at.ops.zeros(3, 1), self.carrier(at)[0]
        for link, frame, end in zip(self.links(at.tree), self.frames, ENDS, strict=True):
            if link != WORLD:
                velocity = linear_at(ops, at.motion.V[link], at.pose(frame, end)[1])
                if link != carrier:
                    velocity = -(at.robot.pose_between(link, carrier)[0] @ velocity)
                out = out + velocity
        return out
