"""What every algorithm starts from: joint transforms and end-effectors at one configuration.

Each constraint is one end-effector per moving link that it touches ([r2] I-C): rows ``K`` (m × 6) on that link's body
frame. A constraint between two links has two ends; those of the second link carry the sign and the relative pose, so
that its velocity is the sum over both ends ([OS] eq. 50) and its block of ``G`` the sum over both ends' blocks.

Rows on the velocity of a joint are ends too: they add ``C`` (m × n_i) to ``K S`` where a sweep passes the joint, and
``K`` of its link does not hold them. What knows links only takes them as rows on the difference of two twists, see
`Problem.link_ends`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np

from delassus.algorithms.contact.candidates import Candidate, candidates
from delassus.algorithms.inputs import ground_name, inputs_of, payload_name, placement_name, rows_name
from delassus.constraints import CenterOfMass, Constraint, Contact, Distance, FrameConstraint, JointRows, row_slices
from delassus.frozen import cached_property
from delassus.model.inertia import motion_transform
from delassus.model.tree import WORLD, Placement, Tree, total_mass
from delassus.spatial.motion import ANGULAR, LINEAR, column, cross_matrix, diagonal, from_entries
from delassus.spatial.ops import Matrix, MotionTransform, Ops, Scalar
from delassus.spatial.rigid import RigidInertia
from delassus.spatial.transform import Displacement, StagedTransform, displacement, quaternion_rows

T = TypeVar("T")

Coordinate = tuple[int, float]
"""An entry of one tree's configuration by that of another: its index there and ±1; or −1 and a constant."""

Pose = tuple[Matrix, Matrix]
"""Rotation (3 × 3) and origin (3 × 1) of a frame in another one."""


@dataclass(frozen=True, slots=True)
class End:
    """One end-effector: rows ``K`` (m × 6) of a constraint on the twist of a link (never the world), in its body frame.

    From the link ``top`` upwards the constraint's Jacobian is zero, because joints there move both ends of a closed
    loop alike; `WORLD` if there is no such link.
    """

    link: int
    K: Matrix
    constraint: int
    top: int


@dataclass(frozen=True, slots=True)
class JointEnd:
    """Rows ``C`` (m × n_i) of a constraint on the velocity of the joint that carries a link; ``rows`` are not zero."""

    link: int
    C: Matrix
    constraint: int
    rows: tuple[int, ...]


class Problem:
    """A tree, its constraints and a configuration, on one backend; vectors are in the form that its ``entry`` reads.

    Parameters
    ----------
    given : sequence of matrices and vectors
        What comes with each call: one for each of `inputs_of`, rows as matrices.
    payloads : sequence of str
        Links whose inertia gets an addition with each call.
    coordinates : sequence of Coordinate, optional
        Where each entry of the tree's configuration is in ``q``, if ``q`` is that of another tree of the same robot.
    active : state vector, optional
        For each constraint 1 if it acts and 0 if it is off: its rows are multiplied by that (see `relaxed`).
    """

    def __init__(
        self,
        ops: Ops,
        tree: Tree,
        constraints: Sequence[Constraint],
        q: Any,
        given: Sequence[Any] = (),
        payloads: Sequence[str] = (),
        coordinates: Sequence[Coordinate] | None = None,
        active: Any = None,
    ) -> None:
        self.ops, self.tree, self.constraints = ops, tree, tuple(constraints)
        self.rows = row_slices(self.constraints)
        self.n_rows = self.rows[-1].stop if self.rows else 0
        self.q = q
        self.payloads = tuple(payloads)
        self._given = list(given)
        self._coordinates = coordinates
        self._active = active
        self._poses: dict[tuple[int, int], Pose] = {}
        self._made: dict[Callable[[Problem], Any], Any] = {}

    def once(self, make: Callable[[Problem], T]) -> T:
        """What ``make`` makes of the problem, made once: factors that several systems need."""
        if make not in self._made:
            self._made[make] = make(self)
        found: T = self._made[make]
        return found

    def on(self, tree: Tree, coordinates: Sequence[Coordinate] | None) -> Problem:
        """The same problem on another tree of the same robot, with the configuration of this one."""
        return Problem(self.ops, tree, self.constraints, self.q, self._given, self.payloads, coordinates, self._active)

    @cached_property
    def _inputs(self) -> dict[str, Any]:
        """What came with the call, by name."""
        names = [i.name for i in inputs_of(self.constraints, self.payloads)]
        return dict(zip(names, self._given, strict=True))

    @cached_property
    def X(self) -> list[MotionTransform]:
        """Motion transform of each link from its parent (built when first asked for)."""
        steps = zip(self.tree.joints, self.tree.q_slices, strict=True)
        return [self.ops.transform(displacement(self.ops, joint, self.coordinate, sq.start)) for joint, sq in steps]

    def coordinate(self, index: int) -> Scalar:
        """Entry of the tree's configuration."""
        if self._coordinates is None:
            return self.ops.entry(self.q, index)
        source, sign = self._coordinates[index]
        if source < 0:
            return sign
        value = self.ops.entry(self.q, source)
        return -value if sign < 0 else value

    @cached_property
    def inertias(self) -> list[Matrix]:
        """Spatial inertia of each link, with what its payloads add."""
        out = [self.ops.constant(H) for H in self.tree.inertias]
        for index, name in enumerate(self.payloads):
            at = self.tree.placement(name)
            if at.link != WORLD:
                added = self._payload(at, self._inputs[payload_name(index)])
                out[at.link] = self.ops.sym_add(out[at.link], added)
        return out

    def _payload(self, at: Placement, parameters: Any) -> Matrix:
        """Inertia of a payload, moved from the frame that it is given in to the body frame."""
        X = StagedTransform(self.ops, Displacement(at.position, at.rotation, None, None))
        return RigidInertia.of_parameters(self.ops, parameters).to_parent(X).columns(range(6))

    @cached_property
    def ends(self) -> tuple[End, ...]:
        """All end-effectors, in the order of their constraints; their rows multiplied by the constraint's flag."""
        return tuple(replace(end, K=self.switched(end.constraint, end.K)) for end in self.unswitched_ends)

    @cached_property
    def unswitched_ends(self) -> tuple[End, ...]:
        """All end-effectors as they are where no constraint is off."""
        return tuple(end for index in range(len(self.constraints)) for end in self._ends_of(index))

    @cached_property
    def joint_ends(self) -> tuple[JointEnd, ...]:
        """All ends on joints, in the order of their constraints; their rows multiplied by the constraint's flag."""
        return tuple(replace(end, C=self.switched(end.constraint, end.C)) for end in self.unswitched_joint_ends)

    @cached_property
    def unswitched_joint_ends(self) -> tuple[JointEnd, ...]:
        """All ends on joints as they are where no constraint is off."""
        return tuple(
            JointEnd(i, self.ops.constant(C), index, tuple(np.flatnonzero(C.any(axis=1)).tolist()))
            for index, c in enumerate(self.constraints)
            if isinstance(c, JointRows)
            for i, C in c.coefficients(self.tree).items()
        )

    @cached_property
    def link_ends(self) -> tuple[End, ...]:
        """All ends as rows on twists: those on joints as the difference of a link's twist and its parent's."""
        out = list(self.ends)
        for end in self.joint_ends:
            p, m = self.tree.parents[end.link], self.constraints[end.constraint].size
            K = self.ops.put(end.C, (m, 6), range(m), self.tree.joints[end.link].motion_axes)
            out.append(End(end.link, K, end.constraint, p))
            if p != WORLD:
                out.append(End(p, -self.X[end.link].rows_to_parent(K), end.constraint, p))
        return tuple(sorted(out, key=lambda end: end.constraint))

    def selection(self, constraint: int) -> Matrix:
        """Rows (m_c × 6) of a constraint as they are given: in its axes, on the relative twist at its first frame."""
        c = self.frame_constraint(constraint)
        if isinstance(c, Distance):
            return self.ops.hstack([self.ops.transpose(self.line(constraint)[0]), self.ops.zeros(1, 3)])
        rows = c.rows
        return self._inputs[rows_name(constraint)] if rows is None else self.ops.constant(rows)

    @cached_property
    def length(self) -> float:
        """Radius of gyration of links about their parents' origins, in m: what angles and lengths are compared by."""
        tree, square = self.tree, 0.0
        for p, joint, H in zip(tree.parents, tree.joints, tree.inertias, strict=True):
            carried = 0.0 if p == WORLD else float(joint.position @ joint.position)
            square += float(np.trace(H[3:, 3:])) / 2.0 + float(H[0, 0]) * carried
        mass = total_mass(tree)
        return math.sqrt(square / mass) if mass > 0.0 and square > 0.0 else 1.0

    def row_sizes(self, constraint: int) -> list[Scalar]:
        """Square of the size of each row as it is given, ``|linear|² + |angular|² / length²``."""
        c, length = self.constraints[constraint], self.length
        if isinstance(c, JointRows):
            coefficients, axes = c.coefficients(self.tree), [joint.motion_axes for joint in self.tree.joints]
            parts = [C**2 / [1.0 if k in LINEAR else length**2 for k in axes[i]] for i, C in coefficients.items()]
            return [*map(float, np.concatenate(parts, axis=1).sum(axis=1))]
        if isinstance(c, CenterOfMass | Distance):
            return [1.0] * c.size
        rows, units = self.ops.entries(self.selection(constraint)), [1.0] * 3 + [length**-2] * 3
        return [sum(x * x * unit for x, unit in zip(row, units, strict=True)) for row in rows]

    def frame_constraint(self, index: int) -> FrameConstraint:
        """A constraint that is one on frames."""
        c = self.constraints[index]
        assert isinstance(c, FrameConstraint), c
        return c

    def joint_rows(self, index: int) -> JointRows:
        """A constraint that is one on joints."""
        c = self.constraints[index]
        assert isinstance(c, JointRows), c
        return c

    def _ends_of(self, index: int) -> list[End]:
        if isinstance(self.constraints[index], CenterOfMass):
            return [End(i, K, index, WORLD) for i, K in enumerate(self._rows_of_mass)]
        if index in self.candidates:
            points = self.candidates[index]
            return [End(i, self.ops.vstack([x.rows[i] for x in points]), index, WORLD) for i in points[0].rows]
        if not isinstance(self.constraints[index], FrameConstraint):
            return []
        ops, c, N = self.ops, self.frame_constraint(index), self.selection(index)
        a, b = c.first.carrier(self.tree), WORLD if c.second is None else c.second.carrier(self.tree)
        R_first, p_first = self.frame_pose(index, "first")
        if c.axes == "world":
            R_world_first = self.pose_between(a, WORLD)[0] @ R_first
            linear, angular = ops.take(N, None, LINEAR), ops.take(N, None, ANGULAR)
            N = ops.hstack([linear @ R_world_first, angular @ R_world_first if c.angular_axes == "world" else angular])
        if c.first.given is None:
            K_first = N @ ops.constant(_motion_into(c.first.on(self.tree)))
        else:
            K_first = self._rows_in(N, R_first, p_first)
        together = c.second is not None and (c.rigid or isinstance(c, Distance))  # their ancestors do not move the rows
        top = self.tree.closest_common_ancestor(a, b) if together else WORLD
        ends = [End(a, K_first, index, top)] if a != WORLD else []
        if b != WORLD:
            R, p = self.pose_between(a, b)  # frame of a's link in b's
            if c.rigid:
                K_second = self._rows_in(K_first, R, p)
            else:  # velocity of b's own point, in a's axes
                linear = ops.take(N, None, LINEAR) @ ops.transpose(R_first) @ ops.transpose(R)
                K_second = ops.hstack([linear, linear @ -cross_matrix(ops, self.frame_pose(index, "second")[1])])
            ends.append(End(b, -K_second, index, top))
        return ends

    def line(self, index: int) -> tuple[Matrix, Scalar]:
        """Direction (3 × 1) from the second origin to the first, in the axes of the first frame; and the distance."""
        ops, c = self.ops, self.frame_constraint(index)
        assert c.second is not None, c
        (R1, p1), (_, p2) = self.frame_pose(index, "first"), self.frame_pose(index, "second")
        R, p = self.pose_between(c.second.carrier(self.tree), c.first.carrier(self.tree))
        r = column(ops, ops.transpose(R1) @ (p1 - (R @ p2 + p)))
        length = ops.sqrt(sum(x * x for x in r))
        return from_entries(ops, [x * (1.0 / length) for x in r]), length

    @cached_property
    def _rows_of_mass(self) -> list[Matrix]:
        """``R_i H_i / m`` (3 × 6), the linear rows: share of each link in the velocity of the centre of mass."""
        ops, mass = self.ops, sum(self.ops.entries(H)[0][0] for H in self.inertias)
        shares = [[[x * (1.0 / mass) for x in row] for row in ops.entries(H)[:3]] for H in self.inertias]
        return [R @ ops.matrix(share) for R, share in zip(self.turns, shares, strict=True)]

    @cached_property
    def candidates(self) -> dict[int, list[Candidate]]:
        """Contact points of each constraint that is a `Contact`."""
        return {
            i: candidates(self.ops, self.tree, c, self.turns, self.origins, self._inputs.get(ground_name(i)))
            for i, c in enumerate(self.constraints)
            if isinstance(c, Contact)
        }

    @cached_property
    def origins(self) -> list[Matrix]:
        """Origin (3 × 1) of each link's body frame in the world."""
        out: list[Matrix] = []

        # root → leaves: p_i = p_p + R_p p
        for i in self.tree.root_to_leaves():
            p, own = self.tree.parents[i], self.X[i].position()
            out.append(own if p == WORLD else out[p] + self.turns[p] @ own)
        return out

    @cached_property
    def turns(self) -> list[Matrix]:
        """Rotation of each link's body frame in the world."""
        out: list[Matrix] = []

        # root → leaves: R_i = R_p R
        for i in self.tree.root_to_leaves():
            p, R = self.tree.parents[i], self.X[i].rotate_to_parent(self.ops.eye(3))
            out.append(R if p == WORLD else out[p] @ R)
        return out

    def _rows_in(self, K: Matrix, R: Matrix, p: Matrix) -> Matrix:
        """Rows ``K`` on one body frame, as rows on another in which the first has the pose (R, p)."""
        ops = self.ops
        linear = ops.take(K, None, LINEAR) @ ops.transpose(R)
        angular = ops.take(K, None, ANGULAR) @ ops.transpose(R)
        return ops.hstack([linear, angular - linear @ cross_matrix(ops, p)])

    # -- constraints that can be off ---------------------------------------------------------------------------------

    def flag(self, constraint: int) -> Scalar | None:
        """1 if a constraint acts, 0 if it is off; None if constraints cannot be switched."""
        return None if self._active is None else self.ops.flag(self._active, constraint)

    def switched(self, constraint: int, rows: Matrix) -> Matrix:
        """Rows of a constraint, multiplied by its flag."""
        flag = self.flag(constraint)
        if flag is None:
            return rows
        return self.ops.matrix([[flag * x for x in row] for row in self.ops.entries(rows)])

    def relaxed(self, G: Matrix) -> Matrix:
        """``G`` (m × m) with an identity in place of the zero blocks of constraints that are off.

        Their rows are zero, so that their forces come out as zero, whatever the rank of the whole set.
        """
        flags = [self.flag(index) for index, c in enumerate(self.constraints) for _ in range(c.size)]
        slack = [0.0 if flag is None else 1.0 - flag for flag in flags]
        if self._active is None or not slack:
            return G
        return self.ops.sym_add(G, diagonal(self.ops, slack))

    # -- poses ---------------------------------------------------------------------------------------------------------

    def frame_pose(self, constraint: int, end: Literal["first", "second"]) -> Pose:
        """Pose of a frame of a constraint in the body frame of its link."""
        ops, c = self.ops, self.frame_constraint(constraint)
        frame = c.first if end == "first" else c.second
        assert frame is not None, "the constraint has a second frame"
        if frame.given is None:
            fixed = frame.on(self.tree)
            return ops.constant(fixed.rotation), ops.constant(fixed.position[:, None])
        at, x = self.tree.placement(frame.link), self._inputs[placement_name(constraint, end)]
        position = from_entries(ops, [ops.entry(x, k) for k in range(3)])
        if frame.given == "position":
            rotation = ops.constant(frame.rotation)
        else:
            rotation = ops.matrix(quaternion_rows(*(ops.entry(x, k) for k in range(3, 7))))
        return compose((ops.constant(at.rotation), ops.constant(at.position[:, None])), (rotation, position))

    def pose_between(self, link: int, other: int) -> Pose:
        """Pose of the body frame of ``link`` in that of ``other`` (either may be `WORLD`), through their ancestor."""
        meeting = self.tree.closest_common_ancestor(link, other)
        R, p = self._pose_in_ancestor(link, meeting)
        if other == meeting:
            return R, p
        R_other, p_other = self._pose_in_ancestor(other, meeting)
        back = self.ops.transpose(R_other)
        return back @ R, back @ (p - p_other)

    def _pose_in_ancestor(self, link: int, ancestor: int) -> Pose:
        """From the ancestor outwards; poses of links on the way are kept, for those beyond them."""
        ops, path = self.ops, self.tree.support(link)
        R, p = ops.eye(3), ops.zeros(3, 1)
        for i in path[path.index(ancestor) + 1 if ancestor != WORLD else 0 :]:
            if (i, ancestor) not in self._poses:
                turned = self.X[i].motions_to_child(ops.put(ops.transpose(R), (6, 3), LINEAR, range(3)))
                self._poses[i, ancestor] = ops.transpose(ops.take(turned, LINEAR, None)), p + R @ self.X[i].position()
            R, p = self._poses[i, ancestor]
        return R, p


def compose(outer: Pose, inner: Pose) -> Pose:
    """Pose of a frame in the world of ``outer``: ``inner`` is in the frame of ``outer``."""
    return outer[0] @ inner[0], outer[1] + outer[0] @ inner[1]


def _motion_into(frame: Placement) -> Any:
    """6×6 motion transform from a body frame to a frame placed on it."""
    X = motion_transform(frame.rotation, frame.position)
    return np.where(np.abs(X) < 1e-15, 0.0, X)
