"""A constraint on the whole robot: its centre of mass ``Σ m_i c_i / m``, whose classical acceleration vanishes."""

from __future__ import annotations

from dataclasses import dataclass

from delassus.constraints.constraint import At, Constraint
from delassus.errors import ConstraintError
from delassus.model.tree import Tree
from delassus.spatial.motion import ANGULAR, cross
from delassus.spatial.ops import Matrix
from delassus.spatial.transform import Pose


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
