"""What every algorithm starts from: joint transforms and end-effectors at one configuration.

Each constraint is one end-effector per moving link that it touches ([r2] I-C): rows ``K`` (m × 6) on that link's body
frame. A constraint between two links has two ends; those of the second link carry the sign and the relative pose, so
that its velocity is the sum over both ends ([OS] eq. 50) and its block of ``G`` the sum over both ends' blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from delassus.constraints import Constraint, row_slices
from delassus.model.inertia import motion_transform
from delassus.model.rotations import skew
from delassus.model.tree import WORLD, Placement, Tree
from delassus.spatial.ops import Matrix, Ops, Scalar
from delassus.spatial.transform import displacement

Coordinate = tuple[int, float]
"""An entry of one tree's configuration by that of another: its index there and ±1; or −1 and a constant."""


@dataclass(frozen=True, slots=True)
class End:
    """One end-effector.

    Attributes
    ----------
    link : int
        Link that it sits on (never the world: an end there has no motion).
    K : (m, 6) matrix
        Rows on the link's twist, in the link's body frame.
    constraint : int
        Index of its constraint.
    top : int
        Joint of this link and above it the constraint's Jacobian is zero, because they move both ends of a closed loop
        alike; `WORLD` if there is no such link.
    """

    link: int
    K: Matrix
    constraint: int
    top: int


class Problem:
    """A tree, its constraints and a configuration, on one machine.

    Parameters
    ----------
    ops : Ops
        Machine that the algorithm runs on.
    tree : Tree
    constraints : sequence of Constraint
    q : state vector
        Configuration, in the form that the machine's ``entry`` reads.
    given_rows : sequence of matrices
        ``K`` of each constraint whose rows come at call time, in order.
    coordinates : sequence of Coordinate, optional
        Where each entry of the tree's configuration is in ``q``, if ``q`` is that of another tree of the same robot.
    """

    def __init__(
        self,
        ops: Ops,
        tree: Tree,
        constraints: Sequence[Constraint],
        q: Any,
        given_rows: Sequence[Matrix] = (),
        coordinates: Sequence[Coordinate] | None = None,
    ) -> None:
        self.ops, self.tree, self.constraints = ops, tree, tuple(constraints)
        self.rows = row_slices(self.constraints)
        self.n_rows = self.rows[-1].stop if self.rows else 0
        self._q = q
        self._given_rows = list(given_rows)
        self._coordinates = coordinates

    def on(self, tree: Tree, coordinates: Sequence[Coordinate] | None) -> Problem:
        """The same problem on another tree of the same robot, with the configuration of this one."""
        return Problem(self.ops, tree, self.constraints, self._q, self._given_rows, coordinates)

    @cached_property
    def X(self) -> list[Any]:
        """Motion transform of each link from its parent (built when first asked for)."""
        steps = zip(self.tree.joints, self.tree.q_slices, strict=True)
        return [self.ops.transform(displacement(self.ops, joint, self._read, sq.start)) for joint, sq in steps]

    def _read(self, index: int) -> Scalar:
        """Entry of the tree's configuration."""
        if self._coordinates is None:
            return self.ops.entry(self._q, index)
        source, sign = self._coordinates[index]
        if source < 0:
            return sign
        value = self.ops.entry(self._q, source)
        return -value if sign < 0 else value

    @cached_property
    def inertias(self) -> list[Matrix]:
        """Spatial inertia of each link."""
        return [self.ops.constant(H) for H in self.tree.inertias]

    @cached_property
    def ends(self) -> tuple[End, ...]:
        """All end-effectors, in the order of their constraints."""
        given = iter(self._given_rows)
        out: list[End] = []
        for index, c in enumerate(self.constraints):
            selection = next(given) if c.rows is None else self.ops.constant(c.rows)
            out.extend(self._ends_of(index, c, selection))
        return tuple(out)

    def ends_on(self, link: int) -> tuple[End, ...]:
        """End-effectors on a link."""
        return tuple(e for e in self.ends if e.link == link)

    def _ends_of(self, index: int, c: Constraint, N: Matrix) -> list[End]:
        a = c.first.on(self.tree)
        b = None if c.second is None else c.second.on(self.tree)
        ops = self.ops
        if c.axes == "world":
            N = self._in_frame_axes(c, N, a)
        K_first = N @ ops.constant(_motion_into(a))
        top = WORLD if b is None else self.tree.closest_common_ancestor(a.link, b.link)
        top = top if c.rigid else WORLD
        ends = []
        if a.link != WORLD:
            ends.append(End(a.link, K_first, index, top))
        if b is not None and b.link != WORLD:
            R, p = self.pose_between(a.link, b.link)  # frame of a's link in b's
            if c.rigid:
                K_second = self._rows_in(K_first, R, p)
            else:  # velocity of b's own point, in a's axes
                linear = ops.take(N, None, (0, 1, 2)) @ ops.constant(a.rotation.T) @ ops.transpose(R)
                K_second = ops.hstack([linear, linear @ ops.constant(-skew(b.position))])
            ends.append(End(b.link, -K_second, index, top))
        return ends

    def _in_frame_axes(self, c: Constraint, N: Matrix, a: Placement) -> Matrix:
        """Rows given in world axes, in the axes of the first frame."""
        ops = self.ops
        R_world_link, _ = self.pose_between(a.link, WORLD)
        R_world_frame = R_world_link @ ops.constant(a.rotation)
        linear, angular = ops.take(N, None, (0, 1, 2)), ops.take(N, None, (3, 4, 5))
        if c.axes == "world":
            linear = linear @ R_world_frame
        if c.angular_axes == "world":
            angular = angular @ R_world_frame
        return ops.hstack([linear, angular])

    def _rows_in(self, K: Matrix, R: Matrix, p: Matrix) -> Matrix:
        """Rows ``K`` on one body frame, as rows on another in which the first has the pose (R, p)."""
        ops = self.ops
        linear = ops.take(K, None, (0, 1, 2)) @ ops.transpose(R)
        angular = ops.take(K, None, (3, 4, 5)) @ ops.transpose(R)
        return ops.hstack([linear, angular - linear @ cross_matrix(ops, p)])

    def pose_between(self, link: int, other: int) -> tuple[Matrix, Matrix]:
        """Pose of the body frame of ``link`` in that of ``other`` (either may be `WORLD`), through their ancestor."""
        ops = self.ops
        meeting = self.tree.closest_common_ancestor(link, other)
        R, p = self._pose_in_ancestor(link, meeting)
        if other == meeting:
            return R, p
        R_other, p_other = self._pose_in_ancestor(other, meeting)
        back = ops.transpose(R_other)
        return back @ R, back @ (p - p_other)

    def _pose_in_ancestor(self, link: int, ancestor: int) -> tuple[Matrix, Matrix]:
        ops = self.ops
        R, p = ops.eye(3), ops.zeros(3, 1)
        while link != ancestor:
            R = self.X[link].rotate_to_parent(R)
            p = self.X[link].position() + self.X[link].rotate_to_parent(p)
            link = self.tree.parents[link]
        return R, p


def _motion_into(frame: Placement) -> Any:
    """6×6 motion transform from a body frame to a frame placed on it."""
    X = motion_transform(frame.rotation, frame.position)
    return np.where(np.abs(X) < 1e-15, 0.0, X)


def cross_matrix(ops: Ops, p: Matrix) -> Matrix:
    """Cross-product matrix of a 3×1 matrix."""
    (x,), (y,), (z,) = ops.entries(p)
    return ops.matrix([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
