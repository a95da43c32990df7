"""A constraint on the whole robot: its centre of mass."""

from __future__ import annotations

from dataclasses import dataclass

from delassus.constraints.constraint import Constraint
from delassus.errors import ConstraintError
from delassus.model.tree import Tree, total_mass


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
        if not total_mass(tree) > 0:
            raise ConstraintError(repr(self), "links that have mass", f"none in {tree.name!r}", "Drop this constraint.")
