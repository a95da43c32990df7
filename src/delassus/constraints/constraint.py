"""What a kind of constraint states, in one class, and what it computes that from.

A kind is a subclass of `Constraint` in a file of its own; all else asks it by the methods here, never which kind it is.
Rows measure a velocity ``e = Σ K V + Σ C v``: rows ``K`` on twists of links, ``C`` on velocities of joints. Algorithms
know these, and the right-hand side ``k`` of ``Σ K a + Σ C q̈ = k``, with the gains of Baumgarte:

    k = target − drift − gravity − β velocity − α position

A kind is written in the vocabulary of `Ops`, on which traces are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import accumulate, pairwise, starmap
from math import prod
from typing import Any, Protocol

import numpy as np

from delassus.constraints.frame import ENDS, End, Frame, placement_name
from delassus.errors import ConstraintError, shown
from delassus.frozen import ByContent, cached_property
from delassus.model.check import check_list
from delassus.model.tree import WORLD, Placement, Tree
from delassus.spatial.motion import LINEAR, from_entries
from delassus.spatial.ops import Matrix, Ops, Scalar
from delassus.spatial.rotations import Array, quaternion_rows
from delassus.spatial.transform import Pose, compose

MOST_ROWS = 10_000
"""Of one constraint: programs grow with the square of their number."""

POSITION = "position in m"
PLACEMENT = "position in m, unit quaternion x y z w"


@dataclass(frozen=True, slots=True)
class Argument:
    """An array that comes with each call: C identifier, shape of one state, units and layout.

    ``keyword`` is that of the direct functions that it comes in, "" for its own name; ``owner`` says whose it is, for
    messages; ``flags``: it holds 1 or 0, or booleans.
    """

    name: str
    shape: tuple[int, ...]
    meaning: str = ""
    keyword: str = ""
    owner: str = ""
    flags: bool = False

    @property
    def size(self) -> int:
        """Numbers in one state."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """Acceleration that a constraint asks for along its rows: ``target − β (velocity error) − α (position error)``.

    Gains ``β = 2 ζ ω`` (1/s) and ``α = ω²`` (1/s²), or ``row_gains``, both of each row. ``pose`` is where in the world
    the first frame of a constraint to the world should be; without it there is no position error. ``compliance``
    (m, 1) is the diagonal of ``R`` of a soft constraint ((m/s²)/N, (rad/s²)/(N·m)), whose force is ``R⁻¹ (k − Σ K a)``.
    """

    target: Matrix | None = None
    velocity_gain: Scalar | None = None
    position_gain: Scalar | None = None
    row_gains: tuple[list[Scalar], list[Scalar]] | None = None
    pose: Pose | None = None
    compliance: Matrix | None = None

    def gains(self, size: int) -> tuple[list[Scalar] | None, list[Scalar] | None]:
        """Gains of the velocity and of the position error of each row; None without."""
        if self.row_gains is not None:
            return self.row_gains
        beta, alpha = self.velocity_gain, self.position_gain
        return None if beta is None else [beta] * size, None if alpha is None else [alpha] * size


@dataclass(frozen=True, slots=True)
class Candidate:
    """A contact that may close.

    ``gap`` is its signed distance (m). Rows are the velocity of the first link over the second at the contact point,
    along ``axes`` (3 × 3), two tangents and the normal, which points to the first. ``arms`` (3 × 1) go from the origin
    of each link that moves to the point; both in axes of the world. ``belt`` is the velocity of the first's surface
    over the second's along the tangents (m/s), beside that of the links; empty if there is none. ``on_path`` is 1 where
    it was sought on the path of the step (`delassus.constraints.paths`).
    """

    gap: Scalar
    axes: Matrix
    arms: dict[int, Matrix]
    belt: Sequence[Scalar] = ()
    on_path: Scalar = 0.0


class Configuration(Protocol):
    """A robot at a configuration, as constraints see it (`delassus.algorithms.problem.Problem`)."""

    @property
    def ops(self) -> Ops:
        """Operations of its backend."""

    @property
    def tree(self) -> Tree:
        """Tree of the robot."""

    @property
    def constraints(self) -> Sequence[Constraint]:
        """All constraints."""

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Arguments of the call, by the name of their `Argument`."""

    @property
    def inertias(self) -> Sequence[Matrix]:
        """Spatial inertia (6 × 6) of each link, with its payloads."""

    @property
    def origins(self) -> Sequence[Matrix]:
        """Origin (3 × 1) of each link's body frame in the world."""

    @property
    def link_rotations(self) -> Sequence[Matrix]:
        """Rotation (3 × 3) of each link's body frame in the world."""

    @property
    def centre_of_mass(self) -> Matrix:
        """Centre of mass (3 × 1) of all links in the world."""

    @property
    def candidates(self) -> Mapping[int, Sequence[Candidate]]:
        """`Constraint.candidates` of each contact, by its index."""

    def coordinate(self, index: int) -> Scalar:
        """Entry of the configuration."""

    def pose_between(self, link: int, other: int) -> Pose:
        """Pose of the body frame of ``link`` in that of ``other``; either may be `WORLD`."""

    def rows_on_links_of(self, constraint: int) -> Mapping[int, Matrix]:
        """`Constraint.rows_on_links`, computed once."""

    def rows_on_joints_of(self, constraint: int) -> Mapping[int, Matrix]:
        """`Constraint.coefficients`, on the backend."""


class RobotMotion(Protocol):
    """Interface of a robot in motion (`delassus.algorithms.dynamics.state.DynamicsProblem`)."""

    @property
    def problem(self) -> Configuration:
        """Problem at the configuration."""

    @property
    def v(self) -> Sequence[Matrix]:
        """Velocity (n_i × 1) of each joint."""

    @property
    def V(self) -> Sequence[Matrix]:
        """Twist (6 × 1) of each link in its body frame."""

    @property
    def gravity(self) -> Matrix:
        """Gravity (3 × 1) in world axes."""

    @property
    def goals(self) -> Sequence[Goal]:
        """Goals of the constraints."""

    def gravity_in(self, link: int) -> Matrix:
        """Gravity (3 × 1) in the axes of a link."""


class At:
    """A constraint of a robot at a configuration and, where that is asked for, in motion."""

    def __init__(self, robot: Configuration, index: int, motion: RobotMotion | None = None) -> None:
        self.robot, self.ops, self.tree, self.index, self._motion = robot, robot.ops, robot.tree, index, motion

    @property
    def motion(self) -> RobotMotion:
        """The robot in motion."""
        assert self._motion is not None, "asked for at rest"
        return self._motion

    @property
    def goal(self) -> Goal:
        """Goal along the rows."""
        return self.motion.goals[self.index]

    def fixed(self, frame: Frame) -> Placement | None:
        """Where a frame is in the body frame of its link; None where that is no matter of numbers."""
        return None if frame.given else frame.on(self.tree)

    def pose(self, frame: Frame, end: End = "first") -> Pose:
        """Pose of a frame of the constraint, its first or its second one, in the body frame of its link."""
        ops, fixed = self.ops, self.fixed(frame)
        if fixed is not None:
            return ops.constant(fixed.rotation), ops.constant(fixed.position[:, None])
        on, x = self.tree.placement(frame.link), self.robot.inputs[placement_name(self.index, end)]
        position = from_entries(ops, [x[k] for k in range(3)])
        if frame.given == "position":
            rotation = ops.constant(frame.rotation)
        else:
            rotation = ops.matrix(quaternion_rows(*(x[k] for k in range(3, 7))))
        return compose((ops.constant(on.rotation), ops.constant(on.position[:, None])), (rotation, position))

    @cached_property
    def rows_on_links(self) -> Mapping[int, Matrix]:
        """`Constraint.rows_on_links`."""
        return self.robot.rows_on_links_of(self.index)

    @cached_property
    def rows_on_joints(self) -> Mapping[int, Matrix]:
        """`Constraint.coefficients`, as matrices of the backend."""
        return self.robot.rows_on_joints_of(self.index)

    def part(self, constraint: Constraint) -> At:
        """The same of a part of the constraint, which is on links alone."""
        other = copy(self)
        other.rows_on_links, other.rows_on_joints = constraint.rows_on_links(other), {}
        return other

    def row_of_joint(self, joint: int) -> Matrix:
        """Row (1 × 6) that is the rate of a joint's one coordinate, on its link's twist relative to its parent's."""
        return self.ops.put(self.ops.eye(1), (1, 6), (0,), self.tree.joints[joint].motion_axes)

    def position_of(self, joint: int) -> Scalar:
        """The one coordinate of a joint."""
        return self.robot.coordinate(self.tree.q_slices[joint].start)


@dataclass(frozen=True, slots=True, eq=False, init=False, repr=False)
class Constraint(ByContent):
    """Rows on the velocity of a robot: what `Weld`, `Point`, `JointRows` and others have in common.

    A kind states `fingerprint`, `prefixed`, `drift`, and `rows_on_links` or `coefficients`; the rest has
    defaults.

    Attributes
    ----------
    size : int
        Number of rows m.
    """

    size: int = field(init=False)  # what follows from others is not for `dataclasses.replace`

    # -- what it is ------------------------------------------------------------------------------------------------

    @property
    def fingerprint(self) -> str:
        """Unambiguous text of the constraint."""
        raise NotImplementedError

    def prefixed(self, prefix: str) -> Constraint:
        """The constraint with a prefix on all names."""
        raise NotImplementedError

    def check(self, tree: Tree) -> None:
        """Refuse a robot that it does not fit: raises `UnknownNameError` or `ConstraintError`."""
        self.carriers(tree)

    @property
    def frames(self) -> tuple[Frame, ...]:
        """Frames that it is on, two at most."""
        return ()

    @property
    def joints(self) -> tuple[str, ...]:
        """Names of the joints that its rows meet."""
        return ()

    def carriers(self, tree: Tree) -> tuple[int, ...]:
        """Moving links whose twists the rows meet, one for each end."""
        return tuple(link for link in (frame.carrier(tree) for frame in self.frames) if link != WORLD)

    def without(self, tree: Tree, other: Tree, values: Mapping[str, Array]) -> Constraint | None:
        """The constraint on the ``other`` tree, without joints that stay at ``values``; None if nothing moves its ends.

        ``values`` (nv_j,) of each joint, by name, are those of ``tree`` from its neutral configuration (rad, m).
        """
        ends = [other.placement(frame.link).link for frame in self.frames]
        first, second = (*ends, WORLD)[:2] if ends else (WORLD, None)
        return None if first == second else self

    def within_a_turn(self, tree: Tree, q: Array) -> Array:
        """Configurations (..., nq) nearer to where it holds; see `JointRows`."""
        return q

    @property
    def pose_size(self) -> int:
        """Numbers that say where in the world its first frame should be: 7, of a point 3; 0 if it has no place."""
        return 0

    @property
    def has_position_error(self) -> bool:
        """Whether the rows are those of a position that stabilisation can go to."""
        return True

    @property
    def is_loop(self) -> bool:
        """Whether it always holds two frames to each other that stay where they are on their links."""
        return self.holds and len(self.frames) == 2 and not any(frame.given for frame in self.frames)

    @property
    def holds(self) -> bool:
        """Whether its rows are held: not those of a force along them, which is one of steps with contacts alone."""
        return True

    @property
    def constant_rows(self) -> Array | None:
        """Rows (m, 6) on the relative twist of its frames, in their axes, that are numbers; None of other rows."""
        return None

    def as_tendon(self, tree: Tree) -> Any:
        """The `Tendon` that it is; None of others."""
        return None

    @property
    def joint(self) -> tuple[str, tuple[Array, ...]]:
        """Kind of the joint between its frames that has these rows; its axis in the first frame, then in the second.

        "fixed", "spherical", "revolute", "prismatic", "universal" or "distance"; "" where there is none.
        """
        return "", ()

    def couplings(self) -> list[tuple[dict[str, float], float]] | None:
        """Coefficients of positions by joint, and their sum, of rows on joints of one degree of freedom; else None."""
        return None

    def is_internal(self, tree: Tree) -> bool:
        """Whether the rows depend neither on where in the world the robot is, nor on which link is its root."""
        return False

    @property
    def has_derivatives(self) -> bool:
        """Whether what it computes at a configuration follows from formulas, and not from a loop."""
        return True

    def header_lines(self) -> Iterator[str]:
        """Numbers that its `repr` does not say, for headers of generated files."""
        yield from ()

    def arguments(self, index: int) -> Iterator[Argument]:
        """Arguments of each call for the constraint of that index: placements of frames."""
        for end, frame in zip(ENDS, self.frames, strict=False):
            if frame.given:
                size, layout = (3, POSITION) if frame.given == "position" else (7, PLACEMENT)
                meaning, owner = f"{end} frame of constraint {index}", f"placement of the {end} frame of {self!r}"
                meaning = f"{meaning} in the frame of {frame.link}: {layout}"
                yield Argument(placement_name(index, end), (size,), meaning, "placements", owner)

    @property
    def n_points(self) -> int:
        """Number of points that may touch; 0 of rows that are no contact."""
        return 0

    @property
    def n_impulses(self) -> int:
        """Number of impulses of a contact step that laws say; 0 of rows that always act."""
        return 0

    # -- what its rows are -----------------------------------------------------------------------------------------

    def rows_on_links(self, at: At) -> Mapping[int, Matrix]:
        """Rows ``K`` (m × 6) by moving link, on its twist in its body frame."""
        return {}

    def coefficients(self, tree: Tree) -> dict[int, Array]:
        """Rows ``C`` (m, nv_j) by joint, on its velocity; joints in the order of the robot's."""
        return {}

    def position_coefficients(self, tree: Tree) -> dict[int, Array]:
        """Changes (m, nv_j) of `position` with positions of joints, by joint, beside those with poses of links."""
        return {}

    def candidates(self, at: At) -> Sequence[Candidate]:
        """Contacts that may close, one for each of ``n_points``."""
        return ()

    def top(self, tree: Tree) -> int:
        """Link from which on upwards joints move all ends alike, so that the rows are zero there; `WORLD` if none."""
        return WORLD

    @property
    def as_loop(self) -> Constraint:
        """The constraint with rows that only joints between its two links move, also where it does not hold.

        Forces along them are internal: they leave the momentum of a robot as it is. Where it holds, rows are the same.
        """
        return self

    @property
    def at_place(self) -> Constraint | None:
        """The same to a placement in the world that comes with each call; None of what has no place there."""
        return None

    def row_sizes(self, at: At, length: float) -> list[Scalar]:
        """Square of the size of each row, ``|linear|² + |angular|² / length²``; 1 of a row along a unit vector."""
        return [1.0] * self.size

    # -- how they move ---------------------------------------------------------------------------------------------

    def velocity(self, at: At) -> Matrix:
        """``e`` (m × 1)."""
        e, motion = at.ops.zeros(self.size, 1), at.motion
        for link, K in at.rows_on_links.items():
            e = e + K @ motion.V[link]
        for joint, C in at.rows_on_joints.items():
            e = e + C @ motion.v[joint]
        return e

    def position(self, at: At) -> Matrix:
        """Position error (m × 1), whose rate is ``e`` to first order, and zero only where the constraint holds.

        It is zero, too, where nothing says where errors are from.
        """
        return at.ops.zeros(self.size, 1)

    def place(self, at: At) -> Pose | None:
        """Where it is in the world, as `Goal.pose` says where that should be; None of what has no place there."""
        return None

    def drift(self, at: At) -> Matrix:
        """Part (m × 1) of the acceleration that the rows ask for that velocities alone cause, beside ``Σ K a``."""
        raise NotImplementedError

    def velocity_drift(self, at: At) -> Matrix:
        """Part of the rate of `velocity` that velocities alone cause, beside ``Σ K a``; by default `drift`."""
        return self.drift(at)

    def gravity(self, at: At) -> Matrix:
        """Acceleration of the rows by gravity, as ``a`` are accelerations less gravity."""
        out = at.ops.zeros(self.size, 1)
        for link, K in at.rows_on_links.items():
            out = out + at.ops.take(K, None, LINEAR) @ at.motion.gravity_in(link)
        return out


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


def exact(values: object) -> str:
    """Numbers as they are, to the last digit; one of them alone without brackets."""
    numbers = [repr(float(x)) for x in np.ravel(np.asarray(values, dtype=float))]
    numbers = [x.removesuffix(".0") for x in numbers]
    return numbers[0] if len(numbers) == 1 else f"({', '.join(numbers)})"


def row_slices(constraints: Sequence[Constraint]) -> tuple[slice, ...]:
    """Rows of the stacked constraints that each one has."""
    ends = accumulate([c.size for c in constraints], initial=0)
    return tuple(starmap(slice, pairwise(ends)))
