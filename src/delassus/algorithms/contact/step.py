"""One time step with contacts that may close: velocities at its end by complementarity, then positions.

With ``v* = v + h M⁻¹ (τ − c)`` and ``M = Lᵀ L``, ``Y = J L⁻¹``: ``y = L v*``, ``u = Y y + G p``, ``G = Y Yᵀ`` and
``v⁺ = L⁻¹ (y + Yᵀ p)``; impulses ``p`` follow from the laws of `delassus.algorithms.contact.laws`.

- A gap that is open may close in the step: ``u_n + φ / h ≥ 0``. Nothing is switched; what stays open has no impulse.
- Limits of joints are gaps of the same kind on either side.
- What closes faster than gravity would close it in two steps bounces: ``u_n ≥ ε |u_n⁻|`` (Newton's restitution).
- Bilateral constraints are eliminated: ``G`` and ``b`` of the others are those under closed loops. Rows whose mobility
  these leave to round-off, as at a point that is held, are held: they have no impulse.
- Impulses that do not solve the laws are scaled so that they add no kinetic energy.
- Overlaps beyond `TUNING.penetration`, errors of loops and passed limits are taken back by a displacement of its own,
  without friction and without any change of velocity, as `Simulator` does.

Velocities are in the axes of the start of the step (see `delassus.algorithms.dynamics.integrate`). Cost that of "ltl"
and O(m²) a sweep. Source: Stewart and Trinkle 1996; Anitescu and Potra 1997; [OS] section 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from delassus.algorithms.contact.laws import (
    PROXIMAL,
    Bounds,
    JointLaw,
    PointLaw,
    Solver,
    StepProblem,
    magnitude,
    maximum_of,
    within,
)
from delassus.algorithms.contact.point import SQUARE_FLOOR
from delassus.algorithms.dynamics.integrate import position_update
from delassus.algorithms.dynamics.ltl import JointSpace
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.constraints import BoundedJoint
from delassus.constraints.contact import bounded_joints_of
from delassus.spatial.motion import column, from_entries
from delassus.spatial.ops import Matrix, Scalar


class Tuning(NamedTuple):
    """Numbers of the step, in kernels and in `delassus.Simulator`."""

    penetration: float = 1e-4
    """Overlap (m) that is left alone."""
    correction: float = 0.2
    """Fraction of the rest of it, and of loop errors, that a step takes back."""
    compliance: float = 1e-2
    """Compliance of contacts in the position correction, over their mean mobility."""
    least_mobility: float = 1e-12
    """The least of these mobilities (1/kg)."""
    most_displacement: float = 10.0
    """How far rows may move in the position correction, over the largest displacement wanted."""
    most_joint_displacement: float = 0.02
    """How far joints may move in it (rad, m)."""
    correction_tolerance: float = 1e-6
    """Accuracy of the position correction, over the largest displacement wanted."""
    held_fraction: float = 16.0
    """Mobility of a row under closed loops, over its round-off, up to which these hold it."""
    limit_tolerance: float = 1e-9
    """How far beyond a limit (rad, m) a joint is left alone."""
    resting: float = 2.0
    """Contacts bounce that approach faster than gravity makes them in so many steps."""


TUNING = Tuning()

LOOP_ROUNDING = 16.0
"""Least weight of the proximal point method for loops, over the relative round-off."""


@dataclass(frozen=True, slots=True)
class Materials:
    """Friction and restitution of each contact constraint; None is no restitution."""

    friction: Sequence[Scalar]
    restitution: Sequence[Scalar | None]


class ContactStep:
    """The step from a state ``q``, ``v`` over the time ``h``, in numbers of the relative round-off ``epsilon``."""

    def __init__(
        self,
        motion: DynamicsProblem,
        q: Sequence[Scalar],
        v: Sequence[Scalar],
        h: Scalar,
        materials: Materials,
        epsilon: float,
    ) -> None:
        self.motion, self.ops, self.tree, self.problem = motion, motion.ops, motion.tree, motion.problem
        self.q, self.v, self.h, self.over_h, self.materials = q, v, h, 1.0 / h, materials
        self.loops: list[int] = []
        self.others: list[int] = []
        for c, rows in zip(self.problem.constraints, self.problem.rows, strict=True):
            (self.others if c.n_impulses else self.loops).extend(range(rows.start, rows.stop))
        self.space, self.epsilon = JointSpace(motion), epsilon

    def solve(
        self, start: Sequence[Scalar], solver: Solver, times: int, tolerance: float, pyramid: bool
    ) -> tuple[list[Scalar], list[Scalar], list[Scalar], list[Scalar]]:
        """Configuration and velocity after the step, impulses and residuals."""
        ops, space = self.ops, self.space
        y = ops.vstack(space.L.multiply([ops.matrix([[x]]) for x in self._free_velocity_start()]))
        y = y + ops.matrix([[self.h * x] for x in column(ops, space.z)])
        free = column(ops, space.along_rows(y))
        open_loops = ops.entries(space.G) if self.others else []
        self.size_of = [open_loops[k][k] for k in self.others]
        G, of_loops = self._without_loops(free)
        free = [free[k] - x for k, x in zip(self.others, self._velocity_from_loops(of_loops, 0), strict=True)]
        points, joints = self._point_laws(), self._joint_laws()
        ops.mark("contact problem", [ops.matrix([free]), ops.matrix(G)] if free else [])
        moves = {} if of_loops is None else self._release_held_rows(G, of_loops, points)
        problem = StepProblem(ops, G, free, self.size_of, points, joints, pyramid)
        p = solver(problem, start, times, tolerance) if problem.size else []
        p = problem.implicit(p)
        p, u = problem.safe([moves.get(row, 1.0) * x for row, x in zip(problem.rows, p, strict=True)])
        whole = self._all_impulses(problem.totals(p), of_loops, 0)
        v = column(ops, space.back_substitution(y, whole))
        shift = self._displacement(problem, of_loops, u, times)
        q, v = position_update(ops, self.tree, list(self.q), v, self.h, shift)
        return q, v, p, list(problem.residuals(p, u))

    def _free_velocity_start(self) -> list[Scalar]:
        """``v + h ω × v``: free and planar joints in the axes of now."""
        out = list(self.v)
        for joint, sv in zip(self.tree.joints, self.tree.v_slices, strict=True):
            product = joint.kind.velocity_product(self.v[sv])
            out[sv] = [x + self.h * d for x, d in zip(self.v[sv], product, strict=True)]
        return out

    # -- loops ---------------------------------------------------------------------------------------------------------

    def _without_loops(self, free: Sequence[Scalar]) -> tuple[list[list[Scalar]], Matrix | None]:
        """``G`` of the other rows under closed loops; and ``G_ll⁻¹ [G_lo, u_l, e_l]``, what impulses of loops are.

        ``e_l`` is the part of position errors that is taken back. Rows of loops may depend on one another, as if a
        point closes a planar loop: two steps of the proximal point method give impulses, which are not unique then.
        """
        ops, G, n = self.ops, self.space.G, len(self.others)
        own = ops.take(G, self.others, self.others) if n else ops.zeros(0, 0)
        if not self.loops:
            return ops.entries(own) if n else [], None
        errors = [x for c, at in self.motion.each_constraint() if not c.n_impulses for x in column(ops, c.position(at))]
        known = ops.matrix([[free[k], TUNING.correction * e] for k, e in zip(self.loops, errors, strict=True)])
        right = ops.hstack([ops.take(G, self.loops, self.others), known]) if n else known
        own_loops = ops.take(G, self.loops, self.loops)
        entries, weight = ops.entries(own_loops), max(PROXIMAL, LOOP_ROUNDING * self.epsilon)
        least = weight * maximum_of(ops, [row[k] for k, row in enumerate(entries)]) + SQUARE_FLOOR
        damped = [[x + least if i == j else x for j, x in enumerate(row)] for i, row in enumerate(entries)]
        ops.new_system()
        factor = ops.factor(ops.matrix(damped))
        response = factor.solve(right)
        response = response + factor.solve(right - own_loops @ response)
        if not n:
            return [], response
        mixed = ops.take(G, self.others, self.loops)
        own = ops.sym_subtract(own, ops.sym_product(mixed, ops.take(response, None, range(n))))
        return ops.entries(own), response

    def _release_held_rows(
        self, G: list[list[Scalar]], response: Matrix, points: Sequence[PointLaw]
    ) -> dict[int, Scalar]:
        """Decouple the rows of ``G`` that loops hold; returns 1 for each row that is free to move, else 0.

        Round-off of ``G_oo − G_ol G_ll⁻¹ G_lo`` is that of its terms, ``G_oo`` and what that of ``G_ll`` makes. A point
        is held that cannot move along its normal: nothing says what friction it would have.
        """
        ops, moves, open_loops = self.ops, dict[int, Scalar](), self.ops.entries(self.space.G)
        mobilities = [open_loops[k][k] for k in self.loops]
        for k, size in enumerate(self.size_of):
            terms = [x * x * g for x, g in zip(column(ops, ops.take(response, None, (k,))), mobilities, strict=True)]
            moves[k] = ops.less(TUNING.held_fraction * self.epsilon * sum(terms, size), G[k][k])
        for x in points:
            for k in range(2):
                moves[x.row + k] = moves[x.row + k] * moves[x.row + 2]
        for k, size in enumerate(self.size_of):
            G[k][k] = ops.select(moves[k], G[k][k], PROXIMAL * size)
            for j in range(k):
                G[k][j] = G[j][k] = moves[k] * moves[j] * G[k][j]
        return moves

    def _velocity_from_loops(self, response: Matrix | None, which: int) -> list[Scalar]:
        """``G_ol G_ll⁻¹ u_l``, or ``e_l`` in place of ``u_l``: what loops make the other rows do."""
        if response is None or not self.others:
            return [0.0] * len(self.others)
        ops, n = self.ops, len(self.others)
        return column(ops, ops.take(self.space.G, self.others, self.loops) @ ops.take(response, None, (n + which,)))

    def _all_impulses(self, impulses: dict[int, Scalar], response: Matrix | None, which: int) -> Matrix:
        """Impulses of all rows (m × 1), those of loops for ``u_l`` or for ``e_l``."""
        ops = self.ops
        out: list[Scalar] = [0.0] * self.problem.n_rows
        for k, row in enumerate(self.others):
            out[row] = impulses.get(k, 0.0)
        if response is not None:
            p = from_entries(ops, [*(out[k] for k in self.others), 1.0 - which, float(which)])
            for row, x in zip(self.loops, column(ops, response @ p), strict=True):
                out[row] = -x
        return from_entries(ops, out) if out else ops.zeros(0, 1)

    # -- laws ----------------------------------------------------------------------------------------------------------

    def _point_laws(self) -> list[PointLaw]:
        """Laws of all contact points."""
        ops, out, approach = self.ops, list[PointLaw](), None
        contacts = zip(
            self.problem.candidates.items(), self.materials.friction, self.materials.restitution, strict=True
        )
        for (index, candidates), friction, restitution in contacts:
            for k, candidate in enumerate(candidates):
                rate = ops.maximum(candidate.gap, 0.0) * self.over_h
                if restitution is not None:
                    if approach is None:
                        approach = self._approach()
                    closing = approach[self.problem.rows[index].start + 3 * k + 2]
                    rate = self._bounce(candidate.gap, rate, closing, restitution)
                out.append(PointLaw(3 * len(out), friction, rate, candidate.belt))
        return out

    def _approach(self) -> list[Scalar]:
        """Velocities of all rows before the step."""
        ops = self.ops
        y = ops.vstack(self.space.L.multiply([ops.matrix([[x]]) for x in self.v]))
        return column(ops, self.space.along_rows(y))

    def _bounce(self, gap: Scalar, term: Scalar, closing: Scalar, restitution: Scalar) -> Scalar:
        """Restitution term of a contact's normal velocity: ``ε u_n⁻`` where it hits in this step, and fast."""
        ops = self.ops
        gravity = column(ops, self.motion.gravity)
        fall = TUNING.resting * self.h * ops.sqrt(sum(g * g for g in gravity) + SQUARE_FLOOR)
        hits = ops.less(gap + self.h * closing, 0.0)
        fast = ops.less(closing, -fall)
        return ops.select(hits * fast, restitution * closing, term)

    def _joint_laws(self) -> list[JointLaw]:
        """Laws of all limits and of dry friction: within the step, a joint moves up to a limit."""
        out, row = list[JointLaw](), sum(len(points) for points in self.problem.candidates.values()) * 3
        for c in bounded_joints_of(self.problem.constraints):
            sides = zip(self._distances(c), (-1.0, 1.0), strict=True)
            bounds = [None if x is None else side * self.over_h * self.ops.maximum(x, 0.0) for x, side in sides]
            friction = c.friction * self.h if c.friction else None
            out.append(JointLaw(row + len(out), (bounds[0], bounds[1]) if c.has_limits else None, friction))
        return out

    def _distances(self, c: BoundedJoint) -> list[Scalar | None]:
        """Distances of the lower and of the upper limit of a joint, negative beyond it; None is without."""
        (name,) = c.joints
        joint = self.tree.joint_names.index(name)
        if not c.has_limits:
            return [None, None]
        position = self.q[self.tree.q_slices[joint].start + c.dof - self.tree.v_slices[joint].start]
        limits = ((c.lower, 1.0), (c.upper, -1.0))
        return [side * (position - x) if abs(x) < float("inf") else None for x, side in limits]

    # -- displacement --------------------------------------------------------------------------------------------------

    def _displacement(
        self, problem: StepProblem, of_loops: Matrix | None, u: Sequence[Scalar], times: int
    ) -> list[Scalar]:
        """Displacement of joints (nv) that takes back overlaps, errors of loops and passed limits.

        It closes no gap that velocities ``u`` leave after the step, and passes no limit.
        """
        ops, tree, G = self.ops, self.tree, problem.G
        gaps = [c.gap for points in self.problem.candidates.values() for c in points]
        limited = [x for x in bounded_joints_of(self.problem.constraints) if x.has_limits]
        if not gaps and not limited and of_loops is None:
            return [0.0] * tree.nv
        by_loops, wanted, own = self._velocity_from_loops(of_loops, 1), list[Scalar](), list[Scalar]()
        bounds: dict[int, Bounds] = {}
        for x, gap in zip(problem.points, gaps, strict=True):
            wanted.append(TUNING.correction * ops.maximum(-gap - TUNING.penetration, 0.0))
            after = ops.maximum(gap + self.h * (u[x.row + 2] - x.rate), 0.0)
            bounds[x.row + 2] = wanted[-1] - after, None
            mean = sum(self.size_of[x.row : x.row + 3]) * (1.0 / 3.0)
            own.append(G[x.row + 2][x.row + 2] + TUNING.compliance * ops.maximum(mean, TUNING.least_mobility))
        for c, row in zip(limited, (x.row for x in problem.joints if x.bounds), strict=True):
            sides: list[Scalar | None] = [None, None]
            for k, distance in enumerate(self._distances(c)):
                if distance is not None:
                    side = 1.0 - 2.0 * k
                    after = distance + side * self.h * u[row]
                    back = ops.select(ops.less(after, -TUNING.limit_tolerance), -TUNING.correction * after, 0.0)
                    wanted.append(back)
                    sides[k] = side * (back - ops.maximum(after, 0.0))
            bounds[row] = sides[0], sides[1]
            own.append((1.0 + TUNING.compliance) * G[row][row] + TUNING.least_mobility)
        rows, over = list(bounds), [1.0 / x for x in own]
        most = maximum_of(ops, [*wanted, *(magnitude(ops, x) for x in by_loops), SQUARE_FLOOR])

        def image(s: Sequence[Scalar], i: int) -> Scalar:
            u = own[i] * s[i] - by_loops[rows[i]]
            for j, other in enumerate(rows):
                if j != i:
                    u = u + G[rows[i]][other] * s[j]
            return within(ops, bounds[rows[i]], s[i], u, over[i])

        def sweep(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
            s = list(values)
            moved: Scalar = 0.0
            for i in range(len(rows)):
                new = image(s, i)
                moved = ops.maximum(moved, magnitude(ops, new - s[i]) * own[i])
                s[i] = new
            return s, ops.less(moved, TUNING.correction_tolerance * most)

        s = ops.repeat(times, [0.0] * len(rows), sweep) if rows else []
        s = ops.implicit(s, lambda values: [image(values, i) for i in range(len(rows))])
        impulses = dict(zip(rows, s, strict=True))
        shift = column(
            ops, self.space.back_substitution(ops.zeros(tree.nv, 1), self._all_impulses(impulses, of_loops, 1))
        )
        moves = [sum((G[k][j] * x for j, x in impulses.items()), -by_loops[k]) for k in range(len(G))]
        moved = maximum_of(ops, [SQUARE_FLOOR, *(magnitude(ops, x) for x in moves)])
        turned = maximum_of(ops, [SQUARE_FLOOR, *(magnitude(ops, x) for x in shift)])
        part = ops.minimum(TUNING.most_displacement * most / moved, 1.0)
        part = part * ops.minimum(TUNING.most_joint_displacement / (part * turned), 1.0)
        return [part * x for x in shift]
