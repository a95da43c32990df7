"""What all constraints have in common, and their check against a robot."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from delassus.constraints.frame import Frame
from delassus.errors import ConstraintError, shown
from delassus.frozen import Frozen
from delassus.model.check import check_list
from delassus.model.tree import Tree

MOST_ROWS = 10_000
"""Of one constraint: programs grow with the square of their number."""


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Constraint(Frozen):
    """Rows on the velocity of a robot: what `Weld`, `Point`, `JointRows` and others have in common.

    Attributes
    ----------
    size : int
        Number of rows m.
    """

    size: int = field(init=False)  # what follows from others is not for `dataclasses.replace`

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Frames that it is on."""
        return ()

    @property
    def pose_size(self) -> int:
        """Numbers that say where in the world its first frame should be: 7, of a point 3; 0 if it has no place."""
        return 0

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of the constraint."""
        raise NotImplementedError

    def prefixed(self, prefix: str) -> Constraint:
        """The same constraint of a robot whose names have a prefix."""
        raise NotImplementedError

    def carriers(self, tree: Tree) -> tuple[int, ...]:
        """Moving links whose twists the rows meet, one for each end."""
        raise NotImplementedError

    def check(self, tree: Tree) -> None:
        """Refuse a robot that it does not fit: raises `UnknownNameError` or `ConstraintError`."""
        raise NotImplementedError


def check_constraints(tree: Tree, constraints: Iterable[Constraint] | Constraint | None) -> tuple[Constraint, ...]:
    """Check constraints against a tree and return them as a tuple; None stands for those of its description.

    Raises
    ------
    ConstraintError
        Not a constraint, or one that does not fit the robot.
    UnknownNameError
        A link or joint that the tree does not have.
    """
    wanted, advice = "Weld, Point, JointRows or other constraints", "Make one of these."
    constraints = tree.constraints if constraints is None else constraints
    one = isinstance(constraints, Constraint)
    checked = (constraints,) if one else check_list("constraints", constraints, wanted, advice, ConstraintError)
    for c in checked:
        if not isinstance(c, Constraint):
            raise ConstraintError("constraints", wanted, shown(c), advice)
        c.check(tree)
    return checked


def row_slices(constraints: Sequence[Constraint]) -> tuple[slice, ...]:
    """Rows of the stacked constraints that each one has."""
    ends = accumulate((c.size for c in constraints), initial=0)
    return tuple(slice(start, stop) for start, stop in pairwise(ends))
