"""Rows of no pair: any on the twist of a link or of two, which may come with each call; those of the centre of mass.

The centre of mass is ``Σ m_i c_i / m``, whose classical acceleration vanishes.
"""

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
from delassus.model.tree import Tree
from delassus.spatial.motion import ANGULAR, cross
from delassus.spatial.ops import Matrix
from delassus.spatial.rotations import Array
from delassus.spatial.transform import Pose

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


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class CenterOfMass(Constraint):
    """Three rows: the centre of mass of all moving links, payloads included, does not move; in the axes of the world.

    Stabilisation goes to the position (3,) that is passed in ``poses``.

    Raises
    ------
    ConstraintError
        With a robot that has no mass.

    Examples
    --------
    >>> CenterOfMass().size
    3
    """

    def __init__(self) -> None:
        self._set_attributes(size=3)

    def __repr__(self) -> str:
        return "CenterOfMass()"

    @property
    def pose_size(self) -> int:
        """Numbers that say where in the world it should be: 3."""
        return 3

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of the constraint."""
        return "CenterOfMass"

    def prefixed(self, prefix: str) -> CenterOfMass:
        """The constraint itself: it names nothing."""
        return self

    def carriers(self, tree: Tree) -> tuple[int, ...]:
        """All moving links."""
        return tuple(tree.root_to_leaves())

    def check(self, tree: Tree) -> None:
        """Refuse a robot without mass: raises `ConstraintError`."""
        if not tree.mass > 0:
            raise ConstraintError(repr(self), "links that have mass", f"none in {tree.name!r}", "Drop this constraint.")

    def rows_on_links(self, at: At) -> dict[int, Matrix]:
        """``R_i H_i / m`` (3 × 6), the linear rows: share of each link in the velocity of the centre of mass."""
        ops, inertias = at.ops, at.robot.inertias
        mass = sum(ops.entries(H)[0][0] for H in inertias)
        shares = [[[x * (1.0 / mass) for x in row] for row in ops.entries(H)[:3]] for H in inertias]
        rotations = at.robot.link_rotations
        return {i: rotations[i] @ ops.matrix(share) for i, share in enumerate(shares)}

    def drift(self, at: At) -> Matrix:
        """Acceleration that velocities alone cause, beside that of links: ``Σ R ω × K V``."""
        ops, drift = at.ops, at.ops.zeros(3, 1)
        for link, K in at.rows_on_links.items():
            V = at.motion.V[link]
            drift = drift + cross(ops, at.robot.link_rotations[link] @ ops.take(V, ANGULAR, None), K @ V)
        return drift

    def gravity(self, at: At) -> Matrix:
        """Acceleration by gravity."""
        return at.motion.gravity

    def position(self, at: At) -> Matrix:
        """Displacement from the wanted position; zero if there is none."""
        goal = at.goal.pose
        return at.ops.zeros(3, 1) if goal is None else at.robot.centre_of_mass - goal[1]

    def place(self, at: At) -> Pose:
        """The centre of mass."""
        return at.ops.eye(3), at.robot.centre_of_mass
