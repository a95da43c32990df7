"""What every algorithm starts from: joint transforms and end-effectors at one configuration.

Each constraint is one end-effector per moving link that it touches ([r2] I-C): rows ``K`` (m × 6) on that link's body
frame. A constraint between two links has two ends; those of the second link carry the sign and the relative pose, so
that its velocity is the sum over both ends ([OS] eq. 50) and its block of ``G`` the sum over both ends' blocks.

Rows on the velocity of a joint are ends too: they add ``C`` (m × n_i) to ``K S`` where a sweep passes the joint, and
``K`` of its link does not hold them. What knows links only takes them as rows on the difference of two twists, see
`Problem.all_end_effectors`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from delassus.algorithms.inputs import inputs_of, payload_name
from delassus.constraints import At, Candidate, Constraint, row_slices
from delassus.constraints.paths import StepPath, pairs_of
from delassus.frozen import cached_property
from delassus.model.topology import characteristic_length
from delassus.model.tree import WORLD, Placement, Tree
from delassus.spatial.dual_ops import DualOps, HeldTransform
from delassus.spatial.motion import LINEAR, diagonal, from_entries, scaled
from delassus.spatial.ops import Matrix, MotionTransform, Ops, Scalar
from delassus.spatial.rigid import RigidInertia
from delassus.spatial.transform import Displacement, Pose, StagedTransform, displacement

T = TypeVar("T")

Coordinate = tuple[int, float]
"""An entry of one tree's configuration by that of another: its index there and ±1; or −1 and a constant."""


@dataclass(frozen=True, slots=True)
class EndEffector:
    """One end-effector: rows ``K`` (m × 6) of a constraint on the twist of a link (never the world), in its body frame.

    From the link ``top`` upwards the constraint's Jacobian is zero, because joints there move both ends of a closed
    loop alike; `WORLD` if there is no such link.
    """

    link: int
    K: Matrix
    constraint: int
    top: int


@dataclass(frozen=True, slots=True)
class JointSpaceRows:
    """Rows ``C`` (m × n_i) of a constraint on the velocity of the joint that carries a link; ``rows`` are not zero."""

    link: int
    C: Matrix
    constraint: int
    rows: tuple[int, ...]


class Problem:
    """A tree, its constraints and a configuration, on one backend; vectors are sequences of its scalars.

    Parameters
    ----------
    given : sequence of matrices and vectors
        What comes with each call: one for each of `inputs_of`, rows as matrices.
    payloads : sequence of str
        Links whose inertia gets an addition with each call.
    coordinates : sequence of Coordinate, optional
        Where each entry of the tree's configuration is in ``q``, if ``q`` is that of another tree of the same robot.
    active : sequence of scalars and None, optional
        For each constraint 1 if it acts and 0 if it is off: its rows are multiplied by that (see `relaxed`); None of
        one that always acts.
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
        active: Sequence[Scalar | None] | None = None,
    ) -> None:
        self.ops, self.tree, self.constraints = ops, tree, tuple(constraints)
        self.rows = row_slices(self.constraints)
        self.n_rows = self.rows[-1].stop if self.rows else 0
        self.q: Sequence[Scalar] = q
        self.payloads = tuple(payloads)
        self._given = list(given)
        self._coordinates = coordinates
        self._active = active
        self._poses: dict[tuple[int, int], Pose] = {}
        self._ends: dict[int, Mapping[int, Matrix]] = {}
        self._made: dict[Callable[[Problem], Any], Any] = {}
        self.path: StepPath | None = None
        self._loops: tuple[Sequence[Constraint], frozenset[int]] = ((), frozenset(range(tree.nv)))

    def once(self, make: Callable[[Problem], T]) -> T:
        """Result of ``make(problem)``, cached: factors that several systems need."""
        if make not in self._made:
            self._made[make] = make(self)
        found: T = self._made[make]
        return found

    def closed_by(self, loops: Sequence[Constraint], independent: Sequence[int]) -> Problem:
        """The problem of a robot that loops close, of which these degrees of freedom are independent."""
        out = Problem(self.ops, self.tree, self.constraints, self.q, self._given, self.payloads)
        out._loops = loops, frozenset(independent)
        return out

    @cached_property
    def closed(self) -> tuple[Problem, frozenset[int]]:
        """The same robot with what closes its loops as constraints, and which degrees of freedom are independent."""
        loops, independent = self._loops
        return self.tied_by(loops), independent

    def tied_by(self, constraints: Sequence[Constraint]) -> Problem:
        """The same robot with other constraints, which need no arguments, in place of its own."""
        other = Problem(self.ops, self.tree, constraints, self.q, coordinates=self._coordinates)
        other.X = self.X
        return other

    def on(self, tree: Tree, coordinates: Sequence[Coordinate] | None) -> Problem:
        """The same problem on another tree of the same robot, with the configuration of this one."""
        return Problem(self.ops, tree, self.constraints, self.q, self._given, self.payloads, coordinates, self._active)

    def of_loops(self) -> Problem:
        """The same problem with the rows of loops (`Constraint.as_loop`) where less of the robot moves these."""
        tree, args = self.tree, (self.q, self._given, self.payloads, self._coordinates, self._active)
        loops = [c if c.top(tree) == c.as_loop.top(tree) else c.as_loop for c in self.constraints]
        return self if loops == [*self.constraints] else Problem(self.ops, tree, loops, *args)

    def held(self, ops: DualOps, values: Mapping[str, Any]) -> Problem:
        """The problem at the same configuration, which is held, and at values with rates of what else the call has."""
        given = [values[i.name] for i in inputs_of(self.constraints, self.payloads)]
        other = Problem(ops, self.tree, self.constraints, values["q"], given, self.payloads)
        other.X = [HeldTransform(ops, X) for X in self.X]
        other.link_rotations = [ops.lifted(R) for R in self.link_rotations]
        other.origins = [ops.lifted(x) for x in self.origins]
        return other

    def at(self, q: Any, constraints: Sequence[int]) -> Problem:
        """The robot at another configuration, with the constraints of those numbers alone."""
        sizes = [len(inputs_of([c])) for c in self.constraints]
        ends = [sum(sizes[:k]) for k in range(len(sizes) + 1)]
        given = [x for k in constraints for x in self._given[ends[k] : ends[k + 1]]] + self._given[ends[-1] :]
        active = None
        if self._active is not None:
            active = [self._active[k] for k in constraints]
        held = [self.constraints[k] for k in constraints]
        return Problem(self.ops, self.tree, held, q, given, self.payloads, active=active)

    def without_springs(self) -> Problem:
        """The same problem whose springs are off."""
        springs = [not c.holds for c in self.constraints]
        if not any(springs):
            return self
        flags = [0.0 if is_off else self.flag(k) for k, is_off in enumerate(springs)]
        other = Problem(
            self.ops, self.tree, self.constraints, self.q, self._given, self.payloads, self._coordinates, flags
        )  # fmt: skip
        other.X = self.X
        return other

    @cached_property
    def inputs(self) -> dict[str, Any]:
        """Arguments of the call, by name."""
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
            return self.q[index]
        source, sign = self._coordinates[index]
        if source < 0:
            return sign
        value = self.q[source]
        return -value if sign < 0 else value

    @cached_property
    def inertias(self) -> list[Matrix]:
        """Spatial inertia of each link, with what its payloads add."""
        out = [self.ops.constant(H) for H in self.tree.inertias]
        for index, name in enumerate(self.payloads):
            at = self.tree.placement(name)
            if at.link != WORLD:
                added = self._payload(at, self.inputs[payload_name(index)])
                out[at.link] = self.ops.sym_add(out[at.link], added)
        return out

    def _payload(self, at: Placement, parameters: Any) -> Matrix:
        """Inertia of a payload, moved from the frame that it is given in to the body frame."""
        X = StagedTransform(self.ops, Displacement(at.position, at.rotation, None, None))
        return RigidInertia.of_parameters(self.ops, parameters).to_parent(X).columns(range(6))

    @cached_property
    def link_frames(self) -> list[MotionTransform]:
        """Motion transform of each link's own frame, that of the description, from its body frame."""
        places = map(self.tree.placement, self.tree.link_names)
        return [self.ops.transform(Displacement(at.position, at.rotation, None, None)) for at in places]

    @cached_property
    def end_effectors(self) -> tuple[EndEffector, ...]:
        """All end-effectors, in the order of their constraints; their rows multiplied by the constraint's flag."""
        return tuple(replace(end, K=self.switched(end.constraint, end.K)) for end in self.unswitched_end_effectors)

    @cached_property
    def unswitched_end_effectors(self) -> tuple[EndEffector, ...]:
        """All end-effectors as they are where no constraint is off."""
        tops = [c.top(self.tree) for c in self.constraints]
        return tuple(
            EndEffector(i, K, c, tops[c]) for c in range(len(tops)) for i, K in self.rows_on_links_of(c).items()
        )

    @cached_property
    def joint_space_rows(self) -> tuple[JointSpaceRows, ...]:
        """All ends on joints, in the order of their constraints; their rows multiplied by the constraint's flag."""
        return tuple(replace(end, C=self.switched(end.constraint, end.C)) for end in self.unswitched_joint_space_rows)

    @cached_property
    def unswitched_joint_space_rows(self) -> tuple[JointSpaceRows, ...]:
        """All ends on joints as they are where no constraint is off."""
        return tuple(
            JointSpaceRows(i, self.ops.constant(C), index, tuple(np.flatnonzero(C.any(axis=1)).tolist()))
            for index, c in enumerate(self.constraints)
            for i, C in c.coefficients(self.tree).items()
        )

    def rows_on_links_of(self, constraint: int) -> Mapping[int, Matrix]:
        """Rows ``K`` of one constraint by link, as they are where no constraint is off."""
        if constraint not in self._ends:
            self._ends[constraint] = self.constraints[constraint].rows_on_links(At(self, constraint))
        return self._ends[constraint]

    def rows_on_joints_of(self, constraint: int) -> Mapping[int, Matrix]:
        """Rows ``C`` of one constraint by joint, as they are where no constraint is off."""
        return {end.link: end.C for end in self.unswitched_joint_space_rows if end.constraint == constraint}

    @cached_property
    def all_end_effectors(self) -> tuple[EndEffector, ...]:
        """All ends as rows on twists: those on joints as the difference of a link's twist and its parent's."""
        out = list(self.end_effectors)
        for end in self.joint_space_rows:
            p, m = self.tree.parents[end.link], self.constraints[end.constraint].size
            K = self.ops.put(end.C, (m, 6), range(m), self.tree.joints[end.link].motion_axes)
            out.append(EndEffector(end.link, K, end.constraint, p))
            if p != WORLD:
                out.append(EndEffector(p, -self.X[end.link].rows_to_parent(K), end.constraint, p))
        return tuple(sorted(out, key=lambda end: end.constraint))

    @cached_property
    def length(self) -> float:
        """Radius of gyration of links about their parents' origins, in m: what angles and lengths are compared by."""
        return characteristic_length(self.tree)

    def row_sizes(self, constraint: int) -> list[Scalar]:
        """Square of the size of each row as it is given, ``|linear|² + |angular|² / length²``."""
        return self.constraints[constraint].row_sizes(At(self, constraint), self.length)

    @cached_property
    def candidates(self) -> Mapping[int, Sequence[Candidate]]:
        """Contacts that may close, of each constraint that has points."""
        return {i: c.candidates(At(self, i)) for i, c in enumerate(self.constraints) if c.n_points}

    def follow(self, path: StepPath) -> None:
        """Have `candidates` be those of a step, sought on the paths of links; before anything asks for rows."""
        if pairs_of(self.constraints):
            self.path, self.candidates = path, path.candidates(self)

    @cached_property
    def origins(self) -> list[Matrix]:
        """Origin (3 × 1) of each link's body frame in the world."""
        out: list[Matrix] = []

        # root → leaves: p_i = p_p + R_p p
        for i in self.tree.root_to_leaves():
            p, own = self.tree.parents[i], self.X[i].position()
            out.append(own if p == WORLD else out[p] + self.link_rotations[p] @ own)
        return out

    @cached_property
    def link_rotations(self) -> list[Matrix]:
        """Rotation of each link's body frame in the world."""
        out: list[Matrix] = []

        # root → leaves: R_i = R_p R
        for i in self.tree.root_to_leaves():
            p, R = self.tree.parents[i], self.X[i].rotate_to_parent(self.ops.eye(3))
            out.append(R if p == WORLD else out[p] @ R)
        return out

    @cached_property
    def free_bodies(self) -> frozenset[int]:
        """Free bodies (`Tree.is_free_body`) that no bilateral constraint holds."""
        held = {i for links, _ in self.blocks_with_loops for i in links}
        return frozenset(i for i in self.tree.root_to_leaves() if self.tree.is_free_body(i) and i not in held)

    @cached_property
    def blocks_with_loops(self) -> list[tuple[list[int], list[int]]]:
        """Links that joints, bilateral constraints and springs tie, and the numbers of such constraints, if any."""
        return self.tied_blocks([])

    def tied_blocks(self, ties: Sequence[Sequence[int]]) -> list[tuple[list[int], list[int]]]:
        """`blocks_with_loops` where ``ties`` hold links together, too."""
        carriers = {k: c.carriers(self.tree) for k, c in enumerate(self.constraints) if not c.n_impulses}
        blocks = [(links, [k for k, tied in carriers.items() if self.constraints[k].holds and {*links} & {*tied}])
                  for links in self.tree.blocks([*carriers.values(), *ties])]  # fmt: skip
        return [(links, loops) for links, loops in blocks if loops]

    @property
    def centre_of_mass(self) -> Matrix:
        """Centre of mass (3 × 1) of all links in the world."""
        mass, moment = mass_moments(self)
        return scaled(self.ops, [1.0 / mass] * 3, moment)

    # -- constraints that can be off ---------------------------------------------------------------------------------

    def flag(self, constraint: int) -> Scalar | None:
        """1 if a constraint acts, 0 if it is off; None if constraints cannot be switched."""
        return None if self._active is None else self._active[constraint]

    def switched(self, constraint: int, rows: Matrix) -> Matrix:
        """Rows of a constraint, multiplied by its flag."""
        flag = self.flag(constraint)
        if flag is None:
            return rows
        return self.ops.matrix([[flag * x for x in row] for row in self.ops.entries(rows)])

    def usual_mobilities(self, constraint: int) -> list[Scalar]:
        """Mobility that each row of a constraint would have on one body of the robot's mass; a row of zeros, any."""
        mass = self.tree.mass or 1.0
        sizes = self.row_sizes(constraint)
        return [(x + (1.0 - self.ops.less(0.0, x))) * (1.0 / mass) for x in sizes]

    def relaxed(self, G: Matrix) -> Matrix:
        """``G`` (m × m) with a diagonal in place of the zero blocks of constraints that are off.

        Their rows are zero, so that their forces come out as zero, whatever the rank of the whole set. The diagonal is
        of the size that rows have which act, so that pivots are as large.
        """
        if self._active is None or not self.constraints:
            return G
        ops, slack = self.ops, list[Scalar]()
        for c in range(len(self.constraints)):
            flag = self.flag(c)
            slack += [0.0 if flag is None else x * (1.0 - flag) for x in self.usual_mobilities(c)]
        return ops.sym_add(G, diagonal(ops, slack))

    # -- poses ---------------------------------------------------------------------------------------------------------

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


def mass_moments(problem: Problem, less: Mapping[int, tuple[float, Matrix]] | None = None) -> tuple[Scalar, Matrix]:
    """Mass of all moving links, and first moment of mass (3 × 1) about the origin of the world, in its axes.

    ``less``: mass and first moment (3 × 1) in the body frame, of links, that are left out.
    """
    ops, tree = problem.ops, problem.tree
    inertias = [ops.entries(H) for H in problem.inertias]
    mass = [H[0][0] for H in inertias]
    moment = [from_entries(ops, [H[5][1], H[3][2], H[4][0]]) for H in inertias]
    for i, (m, h) in (less or {}).items():
        mass[i], moment[i] = mass[i] - m, moment[i] - h
    total: Scalar = 0.0
    at_world = ops.zeros(3, 1)

    # leaves → root: mass and first moment of each link with all that it carries
    for i in tree.leaves_to_root():
        X, p = problem.X[i], tree.parents[i]
        moved = X.rotate_to_parent(moment[i]) + scaled(ops, [mass[i]] * 3, X.position())
        if p == WORLD:
            total, at_world = total + mass[i], at_world + moved
        else:
            mass[p], moment[p] = mass[p] + mass[i], moment[p] + moved
    return total, at_world
