"""What every dynamics algorithm starts from: a problem in motion, with all forces but those of the constraints.

All quantities of link i are columns in its own body frame, ``[linear; angular]``. Velocities and velocity-product
accelerations come from one sweep root → leaves; gravity is an acceleration of the base, ``a_0 = −g`` ([LQR] section
III-B2), so that the accelerations of algorithms are true ones less gravity; the right-hand sides of constraints (see
`constraint_acceleration`) are shifted alike. Each is computed when first asked for, and what is not given (a wrench, a
target, damping, a spring) takes no operation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any

from delassus.algorithms.problem import Problem
from delassus.constraints import At, Constraint, Goal
from delassus.constraints.spring import AnySpring, acting
from delassus.frozen import cached_property
from delassus.model.inertia import about_centre
from delassus.model.tree import WORLD
from delassus.spatial.dual_ops import Dual, DualOps
from delassus.spatial.motion import (
    LINEAR,
    bias_force,
    bias_force_about_centre,
    column,
    cross,
    diagonal,
    from_entries,
    motion_cross,
    scaled,
)
from delassus.spatial.ops import Matrix, Scalar

NEVER = math.inf


@dataclass(frozen=True, slots=True)
class EliminationOrder:
    """Order of elimination of links, children before parents; see `loop_rows`.

    Forces of loops are eliminated before their ends meet where each 6 × 6 block between two links takes the place of
    ``block`` of them. Methods over clusters eliminate degrees of freedom that are not ``independent``.
    """

    links: tuple[int, ...]
    block: float = NEVER
    independent: tuple[int, ...] = ()


class DynamicsProblem:
    """A problem with velocities, torques, wrenches, gravity, passive forces and what its constraints ask for.

    ``v``, ``tau`` and ``damping`` (joints resist with ``d v``) are sequences of scalars; None is zero. ``passive`` says
    whether springs of joints, ``k (q − r)``, and the compensation of weights act. ``gravity`` (3, 1) is in world axes,
    ``wrenches`` (6, 1) are ``[force; moment]`` in body frames. ``springs`` are constraints whose forces are known.
    """

    def __init__(
        self,
        problem: Problem,
        v: Any,
        tau: Any,
        *,
        gravity: Matrix,
        wrenches: Mapping[int, Matrix] | None = None,
        damping: Any = None,
        passive: bool = False,
        goals: Sequence[Goal] | None = None,
        elimination: EliminationOrder | None = None,
        springs: Sequence[AnySpring] = (),
    ) -> None:
        self.problem, self.ops, self.tree = problem, problem.ops, problem.tree
        self.gravity = gravity
        self.wrenches = dict(wrenches or {})
        self.springs = tuple(springs)
        self.goals = [Goal() for _ in problem.constraints] if goals is None else list(goals)
        self.velocity, self._tau, self._damping, self._is_passive = v, tau, damping, passive
        self.elimination = elimination or EliminationOrder(tuple(problem.tree.leaves_to_root()))
        self._conserved: frozenset[int] = frozenset()
        self._relieved: Mapping[int, Scalar] = {}
        self.before: Any = None  # of an impact: the velocity before it, a state vector

    def with_goals(self, goals: Sequence[Goal]) -> DynamicsProblem:
        """The problem with other goals of the constraints."""
        other = copy(self)
        other.goals = list(goals)
        return other

    def of_loops(self) -> DynamicsProblem:
        """The problem with the rows of `Problem.of_loops`."""
        other = copy(self)
        other.problem = self.problem.of_loops()
        return other

    def at_state(self, q: Any, v: Any, constraints: Sequence[int], tau: Any = None) -> DynamicsProblem:
        """The robot at another state and under other joint forces, if any, tied by the constraints of those numbers."""
        other = DynamicsProblem(
            self.problem.at(q, constraints), v, self._tau if tau is None else tau,
            gravity=self.gravity, wrenches=self.wrenches, damping=self._damping, passive=self._is_passive,
            elimination=self.elimination, springs=self.springs,
        )  # fmt: skip
        other._relieved = self._relieved
        return other

    def relieved(self, parts: Mapping[int, Scalar]) -> DynamicsProblem:
        """The problem without parts (1 is all) of the springs and damping of joints, by their links."""
        other = copy(self)
        other._relieved = parts
        return other

    def conserving_momentum(self) -> DynamicsProblem:
        """The problem without velocity products of free bodies: `position_update` turns them by their momentum."""
        other = copy(self)
        other._conserved = self.problem.free_bodies
        return other

    def without_forces(self, v: Any) -> DynamicsProblem:
        """The same robot at velocities ``v`` (a state vector), on which no force acts."""
        other = DynamicsProblem(self.problem, v, None, gravity=self.ops.zeros(3, 1))
        other._conserved = self._conserved
        return other

    def at_rest(self, force: Matrix, rows: Matrix) -> DynamicsProblem:
        """The same robot at rest, without gravity, wrenches and passive forces, under joint forces (nv × 1).

        Its rows ask for accelerations (m × 1).
        """
        ops, steps = self.ops, zip(self.goals, self.problem.rows, strict=True)
        goals = [
            Goal(ops.take(rows, range(at.start, at.stop), None), pose=goal.pose, compliance=goal.compliance)
            for goal, at in steps
        ]
        weightless = ops.zeros(3, 1)
        rest = DynamicsProblem(self.problem, None, None, gravity=weightless, goals=goals, elimination=self.elimination)
        rest.tau = [ops.take(force, range(sv.start, sv.stop), None) for sv in self.tree.v_slices]
        return rest

    def at_impact(self, changes: Matrix) -> DynamicsProblem:
        """The impact that changes velocities along rows by these (m × 1): ``M Δv = Jᵀ p``, ``J Δv``.

        It is a problem at rest: its accelerations are changes of velocities, its forces impulses.
        """
        impact = self.at_rest(self.ops.zeros(self.tree.nv, 1), changes)
        impact.before = self.velocity
        return impact

    def per_joint(self, vector: Any) -> list[Matrix]:
        """Entries of a state vector, one column (n_i × 1) a joint; zeros for None."""
        ops, joints = self.ops, self.tree.joints
        if vector is None:
            return [ops.zeros(joint.nv, 1) for joint in joints]
        steps = zip(joints, self.tree.v_slices, strict=True)
        return [from_entries(ops, [vector[sv.start + k] for k in range(j.nv)]) for j, sv in steps]

    def by_joint(self, numbers: Sequence[Scalar]) -> list[Matrix]:
        """Numbers of all degrees of freedom, one column (n_i × 1) a joint."""
        return [from_entries(self.ops, numbers[sv]) for sv in self.tree.v_slices]

    @cached_property
    def v(self) -> list[Matrix]:
        """Velocity of each joint (n_i × 1)."""
        return self.per_joint(self.velocity)

    def each_constraint(self) -> Iterator[tuple[Constraint, At]]:
        """Constraints, and what their rows are computed from."""
        for index, c in enumerate(self.problem.constraints):
            yield c, At(self.problem, index, self)

    @property
    def applied(self) -> Matrix:
        """Forces (nv × 1) of motors."""
        return self.stacked(self.per_joint(self._tau))

    @cached_property
    def resistance(self) -> list[Matrix] | None:
        """Force (n_i × 1) that each joint takes beside ``a q̈`` of its armature ``a``; None without any.

        ``d v + k (q − r)`` of damping and springs, and ``a (ω × v)`` of rotors along axes that do not turn.
        """
        ops, out = self.ops, None
        if self._damping is not None:
            factors = [column(ops, d) for d in self.per_joint(self._damping)]
            for i, part in self._relieved.items():
                factors[i] = [(1.0 - part) * d for d in factors[i]]
            out = [scaled(ops, d, v) for d, v in zip(factors, self.v, strict=True)]
        for i, deflection in self.spring_deflections.items():
            out = out or self.per_joint(None)
            stiffness: list[Scalar] = list(self.tree.joints[i].stiffness)
            if i in self._relieved:
                stiffness = [(1.0 - self._relieved[i]) * k for k in stiffness]
            out[i] = out[i] + scaled(ops, stiffness, deflection)
        for i, a in self.straight_armature.items():
            out = out or self.per_joint(None)
            out[i] = out[i] + scaled(ops, a, self.velocity_product(i))
        return out

    @property
    def straight_armature(self) -> dict[int, list[float]]:
        """Armature (n_i) of each joint in motion that has some along axes that do not turn with its velocity."""
        joints = enumerate(self.tree.joints) if self.velocity is not None else ()
        return {i: joint.straight_armature.tolist() for i, joint in joints if joint.straight_armature.any()}

    def velocity_product_changes(self, i: int) -> Matrix:
        """Change (n_i × n_i) of the `velocity_product` of a joint with its velocity."""
        dual = DualOps(self.ops)
        v: list[Any] = [Dual(x, {k: 1.0}) for k, x in enumerate(column(self.ops, self.bias_velocity(i)))]
        return dual.rates(self.tree.joints[i].kind.velocity_product(v), range(len(v)))

    @cached_property
    def spring_deflections(self) -> dict[int, Matrix]:
        """``q − r`` (n_i × 1) of each joint with a spring that acts."""
        out = {}
        for i, (joint, sq) in enumerate(zip(self.tree.joints, self.tree.q_slices, strict=True)):
            if self._is_passive and joint.stiffness.any():
                rest = joint.rest_position.tolist()
                x = joint.kind.spring_deflection(self.ops, self._coordinates(sq), rest)
                out[i] = from_entries(self.ops, x)
        return out

    def spring_changes(self) -> dict[int, Matrix]:
        """Changes (n_i × n_i) of the force of each spring with the joint's position."""
        ops, out = self.ops, {}
        for i in self.spring_deflections:
            joint = self.tree.joints[i]
            q = self._coordinates(self.tree.q_slices[i])
            changes = joint.kind.spring_deflection_changes(ops, q, joint.rest_position.tolist())
            out[i] = diagonal(ops, joint.stiffness.tolist()) @ changes
        return out

    def _coordinates(self, part: slice) -> list[Scalar]:
        return [self.problem.q[k] for k in range(part.start, part.stop)]

    @property
    def damping(self) -> list[Scalar] | None:
        """Coefficient of each degree of freedom; None without damping."""
        return None if self._damping is None else [self._damping[k] for k in range(self.tree.nv)]

    @cached_property
    def tau(self) -> list[Matrix]:
        """Force on each joint (n_i × 1): that of its motor less `resistance`."""
        given = self.per_joint(self._tau)
        if self.resistance is None:
            return given
        return [t - r for t, r in zip(given, self.resistance, strict=True)]

    @cached_property
    def _velocities(self) -> tuple[list[Matrix], list[Matrix]]:
        ops, tree = self.ops, self.tree
        V: list[Matrix] = []
        c: list[Matrix] = []
        if self.velocity is None:
            still = [ops.zeros(6, 1)] * tree.n_links
            return still, still

        # root → leaves: V = X V_p + S v, c = V × S v
        for i in tree.root_to_leaves():
            own = self.along_joint(i, self.v[i])
            if tree.parents[i] == WORLD:
                V.append(own)
                c.append(ops.zeros(6, 1))
            else:
                carried = self.problem.X[i].motions_to_child(V[tree.parents[i]])
                V.append(carried + own)
                c.append(motion_cross(ops, carried, own))  # S v × S v = 0
        ops.mark("velocities", [*V, *c])
        return V, c

    @property
    def V(self) -> list[Matrix]:
        """Twist ``V_i`` of each link."""
        return self._velocities[0]

    @property
    def c(self) -> list[Matrix]:
        """Velocity-product acceleration ``c_i = V_i × S_i v_i`` of each joint."""
        return self._velocities[1]

    @cached_property
    def p(self) -> list[Matrix]:
        """Bias force ``V_i ×* H_i V_i − f_i`` of each link, ``f_i`` its external wrench and what balances weight."""
        ops = self.ops
        p = [*self.V]
        if self.velocity is not None:
            still = ops.zeros(6, 1)
            p = [still if i in self._conserved else self._bias_force(i, V) for i, V in enumerate(self.V)]
        for i, wrench in (*self.wrenches.items(), *self._pulls()):
            p[i] = p[i] - wrench
        for i, weight in self._compensated_weights().items():
            p[i] = p[i] + weight
        ops.mark("bias forces", p)
        return p

    @cached_property
    def pulling(self) -> DynamicsProblem:
        """The same motion without forces; its constraints are the springs."""
        return DynamicsProblem(
            self.problem.tied_by(self.springs), self.velocity, None, gravity=self.ops.zeros(3, 1)
        )  # fmt: skip

    @cached_property
    def stretched(self) -> list[tuple[Mapping[int, Matrix], list[tuple[float, float, Scalar, Scalar]]]]:
        """Rows of each spring; stiffness, damping, length beyond that at rest, and its rate, of each row."""
        ops, out = self.ops, []
        for k, (c, at) in enumerate(self.pulling.each_constraint()):
            both = (column(ops, x) for x in (c.position(at), c.velocity(at)))
            steps = zip(self.springs[k].springs(self.tree), *both, strict=True)
            own = [(stiffness, d, x, u) for (stiffness, d, _), x, u in steps]
            out.append((self.pulling.problem.rows_on_links_of(k), own))
        return out

    def _pulls(self) -> Iterator[tuple[int, Matrix]]:
        """Links that springs act on, and wrenches ``−Kᵀ (k x + d ẋ)`` in their body frames."""
        for c, (rows, each) in zip(self.springs, self.stretched, strict=True):
            acts = [(*acting(c, self.ops, *own), *own[2:]) for own in each]
            force = from_entries(self.ops, [-(k * x + d * u) for k, d, x, u in acts])
            yield from ((i, self.ops.transpose(K) @ force) for i, K in rows.items())

    @cached_property
    def compensated(self) -> dict[int, tuple[float, Matrix]]:
        """Mass of each link whose weight is compensated, and its first moment (3 × 1) in the body frame."""
        found = self.tree.compensated if self._is_passive else {}
        return {i: (m, self.ops.constant(h[:, None])) for i, (m, h) in found.items() if i != WORLD}

    def _compensated_weights(self) -> dict[int, Matrix]:
        """``[m g; h × g]`` of each link whose weight is compensated."""
        ops, g = self.ops, {WORLD: self.ops.put(self.gravity, (6, 1), LINEAR, (0,))}

        # root → leaves: gravity in the axes of links
        for i in sorted(self.tree.supporting_links(self.compensated)):
            g[i] = self.problem.X[i].motions_to_child(g[self.tree.parents[i]])
        linear = {i: ops.take(g[i], LINEAR, None) for i in self.compensated}
        forces = {i: scaled(ops, [m] * 3, linear[i]) for i, (m, _) in self.compensated.items()}
        return {i: ops.vstack([f, cross(ops, self.compensated[i][1], linear[i])]) for i, f in forces.items()}

    def _bias_force(self, i: int, V: Matrix) -> Matrix:
        H = self.tree.inertias[i]
        if not H[0, 0] or any(self.tree.placement(name).link == i for name in self.problem.payloads):
            return bias_force(self.ops, self.problem.inertias[i], V)
        return bias_force_about_centre(self.ops, *about_centre(H), V)

    def moments(self, i: int) -> tuple[Scalar, list[Scalar], list[list[Scalar]]]:
        """Mass, first moment (3) and moments of inertia (3 × 3) of a link about its origin."""
        e = self.ops.entries(self.problem.inertias[i])
        return e[0][0], [e[5][1], e[3][2], e[4][0]], [row[3:] for row in e[3:]]

    @cached_property
    def a0(self) -> Matrix:
        """Acceleration (6 × 1) of the world that stands for gravity, in world axes."""
        return self.ops.put(-self.gravity, (6, 1), LINEAR, (0,))

    def bias_velocity(self, i: int) -> Matrix:
        """Velocity (n_i × 1) of a joint whose products are in bias forces; zero of bodies that conserve momentum."""
        return self.ops.zeros(self.tree.joints[i].nv, 1) if i in self._conserved else self.v[i]

    def velocity_product(self, i: int) -> Matrix:
        """``ω × v`` (n_i × 1) of free and planar joints, whose axes turn; zero for others."""
        joint = self.tree.joints[i]
        if i in self._conserved:
            return self.ops.zeros(joint.nv, 1)
        return from_entries(self.ops, joint.kind.velocity_product(column(self.ops, self.v[i])))

    def gravity_in(self, link: int) -> Matrix:
        """Gravity (3 × 1) in the axes of a link."""
        g = self.ops.put(self.gravity, (6, 1), LINEAR, (0,))
        for i in self.tree.support(link):
            g = self.problem.X[i].motions_to_child(g)
        return self.ops.take(g, LINEAR, None)

    def along_joint(self, i: int, x: Matrix) -> Matrix:
        """``S_i x`` (6 × 1)."""
        return self.tree.joints[i].along(self.ops, x)

    def to_link(self, i: int, a: Sequence[Matrix] | Mapping[int, Matrix]) -> Matrix:
        """``X_i a_p``: acceleration of a link's parent, where ``a`` holds those of links and the world has `a0`."""
        p = self.tree.parents[i]
        return self.problem.X[i].motions_to_child(self.a0 if p == WORLD else a[p])

    def compliance(self, constraint: int) -> Matrix:
        """``R`` (m_c × m_c) of a constraint, diagonal; zero for a hard one."""
        ops, given, size = self.ops, self.goals[constraint].compliance, self.problem.constraints[constraint].size
        return ops.zeros(size, size) if given is None else diagonal(ops, column(ops, given))

    def softened(self, G: Matrix) -> Matrix:
        """``G + R`` (m × m)."""
        R = [self.compliance(c) for c in range(len(self.goals))]
        return self.ops.sym_add(G, self.ops.block_diagonal(R)) if any(self.softness) else G

    @property
    def softness(self) -> list[bool]:
        """Whether each constraint is soft."""
        return [goal.compliance is not None for goal in self.goals]

    def stacked(self, parts: Sequence[Matrix]) -> Matrix:
        """Columns of joints or of constraints as one; none give a matrix of no rows."""
        return self.ops.vstack(parts) if parts else self.ops.zeros(0, 1)
