"""One time step with contacts that may close: velocities at its end by complementarity, then positions.

With ``v* = v + h M⁻¹ (τ − c)`` and ``M = Lᵀ L``, ``Y = J L⁻¹``: ``y = L v*``, ``u = Y y + G p``, ``G = Y Yᵀ`` and
``v⁺ = L⁻¹ (y + Yᵀ p)``; impulses ``p`` follow from the laws of `delassus.algorithms.contact.problem`.

- A gap that is open may close in the step: ``u_n + φ / h ≥ 0``. Nothing is switched; what stays open has no impulse.
  Gaps of two shapes are those on the paths that links are expected to take (`delassus.constraints.paths`).
- What touches turns (`delassus.constraints.shapes.turning`), unless impulses would bring energy by that.
- Limits of joints are gaps of the same kind on either side.
- Where something closes faster than gravity would close it in two steps and bounces, there is an impact first:
  compression and decompression (Poisson's restitution), after which forces are those of the new velocities.
- Links that bilateral constraints tie move by `smooth_motion` between contacts, whose impulses act on the whole step.
- Bilateral constraints are eliminated: ``G`` and ``b`` of the others are those under closed loops. Rows whose mobility
  these leave to round-off, as at a point that is held, are held: they have no impulse.
- Impulses that do not solve the laws are scaled so that they add no kinetic energy.
- Overlaps beyond a `penetration`, errors of loops and passed limits are taken back by a displacement of its own,
  without friction and without any change of velocity, as `Simulator` does.

Velocities are in the axes of the start of the step (see `delassus.algorithms.dynamics.integrate`). Cost that of "ltl"
and O(m²) a sweep. Source: Stewart and Trinkle 1996; Anitescu and Potra 1997; [OS] section 6.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from typing import cast

from delassus.algorithms.contact.correction import Weights, correction
from delassus.algorithms.contact.impacts import NEVER, ImpactTimes, impact_times, of_displaced
from delassus.algorithms.contact.law import CORRECTION, HELD_FRACTION
from delassus.algorithms.contact.mean_products import MeanProducts, mean_products, velocity_of
from delassus.algorithms.contact.modes import Hold, Mode, image_by_modes, joint_hold, point_mode, smoothed_laws
from delassus.algorithms.contact.problem import (
    PROXIMAL,
    JointLaw,
    LawImage,
    Outcome,
    PointLaw,
    Solver,
    StepProblem,
    along_rows,
    apart,
    maximum_of,
)
from delassus.algorithms.contact.solution import (
    Impact,
    RowsOfLaws,
    SolvedProblem,
    StepInputs,
    StepMotion,
    StepSolution,
    TiedBlock,
    blocks_with_loops,
    implied,
    offsets_of,
    patches_of,
    points_of,
)
from delassus.algorithms.contact.solvers import Exact
from delassus.algorithms.dynamics.integrate import position_update
from delassus.algorithms.dynamics.ltl import JointSpace
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.loops.impulses import LoopImpulses, LoopMotions
from delassus.algorithms.rnea import momentum
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.constraints.contact import spins_of
from delassus.constraints.joint_rows import BoundedJoint, bounded_joints_of
from delassus.constraints.paths import StepPath
from delassus.spatial.motion import column, from_entries, minus, plus
from delassus.spatial.ops import Matrix, Scalar

Solved = Callable[..., tuple[StepProblem, Outcome]]
"""From free velocities, laws, impulses to start from, an energy and joints to a problem and its outcome."""


class KernelStep:
    """The step from a state over a time, in numbers of the relative round-off ``epsilon``."""

    def __init__(self, given: StepInputs, epsilon: float) -> None:
        motion = given.motion(None, None).conserving_momentum()
        self._given, self.ops, self.tree = given, motion.ops, motion.tree
        self.h, self.over_h, self.epsilon = given.h, 1.0 / given.h, epsilon
        self.smoothing, self.moving, self.penetration = given.smoothing, given.moving, given.penetration
        self.loops, self.others = list[int](), list[int]()
        for c, rows in zip(motion.problem.constraints, motion.problem.rows, strict=True):
            if c.holds:
                (self.others if c.n_impulses else self.loops).extend(range(rows.start, rows.stop))
        self._start_at(given.q, given.v, motion)

    def _start_at(self, q: Sequence[Scalar], v: Sequence[Scalar], motion: DynamicsProblem) -> None:
        """Start from this state."""
        given, self.q, self.v, self.motion, self.problem = self._given, q, v, motion, motion.problem
        self.path = StepPath(self.motion, self.h, self.penetration, self.epsilon)
        self.problem.follow(self.path)
        self.points = points_of(self.problem, given)
        joints, spins = bounded_joints_of(self.problem.constraints), spins_of(self.problem.constraints)
        self.lengths = [length for c in spins for length in c.row_lengths()]
        self.patches = patches_of(self.problem, self.points, 3 * len(self.points) + len(joints))
        self.weights = Weights.of(self.tree, joints, len(self.points), len(self.lengths))
        self.springs, self.instant, self.bodies = given.springs_in(self.problem, v), self, given.bodies(self.problem)
        self.tied, of_link = given.blocks_with_loops(self.problem), {i: b for b, x in enumerate(self.bodies) for i in x}
        of_dof = {k: of_link[i] for i, own in enumerate(self.tree.v_slices) for k in range(own.start, own.stop)}
        on_links = (sorted({of_link[link] for link in c.arms}) for c, *_ in self.points)
        self.on = [*on_links, *([of_dof[c.dof]] for c in joints)]
        if self.springs is not None:  # in an instant they do nothing
            self.instant = copy(self)
            self.instant.springs, self.instant.instant = None, self.instant
            if any(restitution is not None for *_, restitution in self.points):
                self.instant._find_space()
        self._find_space()

    def motion_at(self, v: Sequence[Scalar]) -> DynamicsProblem:
        """Motion with velocities ``v`` (nv) in this place."""
        return self._given.motion(v, self.problem).conserving_momentum()

    def _find_space(self) -> None:
        """Joint space in which contacts act, and what loops leave of it."""
        self.added = {} if self.springs is None else self.springs.added()
        self.space = JointSpace(self.motion, self.added)
        self._close_loops()

    def law(self, point: int, rate: Scalar, turning: Sequence[Scalar] = ()) -> PointLaw:
        """Law of a contact point whose gap may close at a rate."""
        candidate, mu, _ = self.points[point]
        if point not in self.patches:
            return PointLaw(3 * point, mu, rate, candidate.belt, turning=turning)
        patch = self.patches[point]
        if turning:  # without Coulomb's friction it has no rows of tangents
            turning = [*(patch.slides * x for x in turning[:2]), turning[2]]
        return replace(patch, rate=rate, belt=candidate.belt, turning=turning)

    def solve(
        self, start: Sequence[Scalar], solver: Solver, times: int, tolerance: float, pyramid: bool
    ) -> StepSolution:
        """Configuration and velocity after the step, impulses and residuals, and what they follow from."""
        ops = self.ops
        late, joints = cast(list[Scalar], [0.0] * self.tree.nv), self._joint_laws()
        rates = [self.ops.maximum(c.gap, 0.0) * self.over_h for c, *_ in self.points]
        least = tolerance if isinstance(solver, Exact) else None
        how = (lambda problem, p: solver(problem, p, times, tolerance)), least, pyramid
        has_impact = any(restitution is not None for *_, restitution in self.points)
        y, free, taken = self.free(self.motion, not has_impact)
        ops.mark("contact problem", [ops.matrix([free]), self._held] if free else [])
        struck, motion, before, place = None, self.motion, self.v, self
        if has_impact:
            ahead = column(ops, self.space.L.solved(y))
            when = impact_times(self, rates, ahead, [e for *_, e in self.points], tolerance)
            place, when = self.placed(when)
            struck = place.instant._impact(partial(place.instant._solved, how), when, place._joint_laws())
            motion = place.motion_at(struck.v)
            struck, y = place._half_a_step_behind(struck._replace(place=place), motion)
            late, joints, before = struck.late, place._joint_laws(struck.late), struck.v
            free, taken = place.beside_loops(column(ops, place.space.along_rows(y)))
            rates = [ops.maximum(c.gap, 0.0) * self.over_h for c, *_ in place.points]
        blocks = blocks_with_loops(self._given, motion, before, self.epsilon)
        if blocks:
            y = place._ending_with(y, blocks)
            free, taken = place.beside_loops(column(ops, place.space.along_rows(y)))
        displaced, offsets = place.displaced_rows(late), offsets_of(self, struck)
        if self.moves:  # a point that is held does not turn
            offsets = [[self.moves[3 * k + c] * y for c, y in enumerate(x)] for k, x in enumerate(offsets)]
        laws = [place.law(k, x + self.over_h * displaced[3 * k + 2], offsets[k]) for k, x in enumerate(rates)]
        image: LawImage = StepProblem.image
        if self.smoothing is not None:
            of_points = self.smoothing_of_points(struck)
            gaps = [c.gap for c, *_ in place.points]
            laws = smoothed_laws(ops, laws, gaps, self.over_h, of_points, displaced)
            image = partial(place._image_by_modes, of_points, late)
        follows = image if self.loops else None  # else it does from the motion
        begin = along_rows(start, joints, self.lengths)
        last = plain = place._taken(place._solved(how, free, laws, begin, 0.0, joints, follows), y, taken)
        if not self.loops:
            missed = partial(place._momentum, motion, before, mean=place.mean_products(motion))
            of_laws = RowsOfLaws.of(place.problem, place.space, self.others)
            last = ops.differentiable(lambda: plain, lambda: implied(plain, before, missed, of_laws, image))
        found = last.outcome
        opening = [y for x in offsets for y in (0.0, 0.0, x[2])] + [0.0] * (len(found.p) - 3 * len(offsets))
        moving = [x + y + self.over_h * s for x, y, s in zip(found.velocities, opening, displaced, strict=True)]
        gaping = {k: CORRECTION * (1.0 - block.smooth.closed) for block in blocks for k in block.loops}
        corrected = correction(place, moving, times, tolerance, gaping)
        moved = StepMotion(last.velocity, corrected.shift, [], [], [], [])
        if blocks:
            moved = moved.of_blocks(place, blocks, y, place.all_impulses([0.0] * len(found.p), taken), found.p)
            moved = moved.with_smooth_motion(ops, self.h, before)
        if struck is not None:
            moved = moved._replace(shift=plus(moved.shift, late))
        shift, left = moved.shift, None
        if struck is not None and struck.when.placed:
            shift, left = moved.on_paths(self.tree, self.h, struck.when)
        q, v = position_update(ops, place.problem, list(place.q), moved.velocity, self.h, shift, left)
        impulses, residuals = apart(ops, found.p, joints, lengths=self.lengths), list(found.residuals)
        if struck is not None:
            of_impact = apart(ops, struck.p, joints, True, self.lengths)
            impulses = plus(impulses, of_impact)
            residuals = [ops.maximum(x, y) for x, y in zip(residuals, struck.residuals, strict=True)]
        out = q, v, impulses, residuals, motion, before, last, corrected, struck, moved, displaced, offsets
        return StepSolution(*out)

    def _solved(
        self, how: tuple[Callable[..., list[Scalar]], float | None, bool], free: Sequence[Scalar],
        points: Sequence[PointLaw], start: Sequence[Scalar], budget: Scalar, joints: Sequence[JointLaw],
        image: LawImage | None = StepProblem.image,
    ) -> tuple[StepProblem, Outcome]:  # fmt: skip
        """Contact problem, and what solves it: ``how`` has a solver, its tolerance if it is exact, and its cones."""
        solver, tolerance, pyramid = how
        problem = StepProblem(self.ops, self.G, free, self.size_of, points, joints, pyramid, self.on)
        p = solver(problem, start) if start else []
        energies = None
        if any(x.turning for x in points):
            problem, p, energies = problem.without_gain(p, lambda x: solver(x, start), tolerance)
        p = p if image is None else problem.implicit(p, image)
        if self.moves:
            p, energies = [self.moves.get(row, 1.0) * x for row, x in enumerate(p)], None
        return problem, problem.safe(p, budget, energies)

    def placed(self, when: ImpactTimes) -> tuple[KernelStep, ImpactTimes]:
        """The step from where bodies are that are ``placed`` by an impact, with their velocities before it."""
        ops, tree = self.ops, self.tree
        if not when.placed:
            return self, when
        late, start = [x * t for x, t in zip(when.placed, when.times, strict=True)], plus(self.v, when.kick)
        shift = [-0.5 * t * t * k / (0.5 * self.h + t) for t, k in zip(late, when.kick, strict=True)]
        firsts = [sv.start for sv in tree.v_slices]
        at, v = position_update(ops, self.problem, list(self.q), start, self.h, shift, [late[k] for k in firsts])
        q = [ops.select(when.placed[k], x, y) for k, sq in zip(firsts, tree.q_slices, strict=True)
             for x, y in zip(at[sq], self.q[sq], strict=True)]  # fmt: skip
        v = [ops.select(x, y, z) for x, y, z in zip(when.placed, v, self.v, strict=True)]
        problem, place = self.problem.at(q, range(len(self.problem.constraints))), copy(self)
        place._start_at(q, v, self._given.motion(v, problem).conserving_momentum())
        return place, when._replace(kick=[ops.select(x, 0.0, y) for x, y in zip(when.placed, when.kick, strict=True)])

    def _half_a_step_behind(self, impact: Impact, motion: DynamicsProblem) -> tuple[Impact, Matrix]:
        """The impact with velocities half a step behind of what it has placed, and ``L v*`` (nv × 1) from these.

        ``motion`` starts from velocities at its time.
        """
        ops, when, placed, y = self.ops, impact.when, impact.when.placed, self.free(motion)[0]
        if not placed:
            return impact, y
        ahead = self.without_mean(motion)
        gained = [x * (u - v) for x, u, v in zip(when.falls, ahead, impact.v, strict=True)]
        parts = [x * (0.5 + t * self.over_h) for x, t in zip(placed, when.times, strict=True)]
        behind = [x * g for x, g in zip(parts, gained, strict=True)]
        late = [-t * (v - 0.5 * t * self.over_h * g) for t, v, g in zip(when.times, impact.v, gained, strict=True)]
        late = [ops.select(x, new, old) for x, new, old in zip(placed, late, impact.late, strict=True)]
        return impact._replace(v=minus(impact.v, behind), late=late), y - self.over_factor(behind)

    def _taken(self, solved: tuple[StepProblem, Outcome], y: Matrix, taken: Matrix | None) -> SolvedProblem:
        """What impulses make of velocities ``L⁻¹ y``, with those that `beside_loops` takes."""
        impulses = self.all_impulses(solved[1].p, taken)
        v = column(self.ops, self.space.back_substitution(y, impulses))
        return SolvedProblem(*solved, v, column(self.ops, impulses))

    def free(self, motion: DynamicsProblem, with_mean: bool = True) -> tuple[Matrix, list[Scalar], Matrix | None]:
        """``L v*`` (nv × 1) without contacts, in the axes of now (``v + h ω × v``), and `beside_loops` of it."""
        y, own = self._by_first_products(motion), self.mean_products(motion) if with_mean else None
        y = y if own is None else y + self.space.solve_transpose(own.momentum)
        return y, *self.beside_loops(column(self.ops, self.space.along_rows(y)))

    def without_mean(self, motion: DynamicsProblem) -> list[Scalar]:
        """Velocities (nv) without contacts, by velocity products of the start."""
        return column(self.ops, self.space.L.solved(self._by_first_products(motion)))

    def mean_products(self, motion: DynamicsProblem) -> MeanProducts | None:
        """What velocity products of the mean velocity of the step do beside those of its start."""
        return mean_products(motion, self.h, self.space.L, self._by_first_products(motion))

    def _by_first_products(self, motion: DynamicsProblem) -> Matrix:
        """``L (v + h M⁻¹ (τ − c))`` (nv × 1): ``−L⁻ᵀ (h (c − τ) − M v)``, as if all velocity were lost."""
        v = velocity_of(motion)
        return self.space.solve_transpose(-self._momentum(motion, v, [-x for x in v], []))

    def _momentum(
        self, motion: DynamicsProblem, v: Sequence[Scalar], gained: Sequence[Scalar], p: Sequence[Scalar],
        mean: MeanProducts | None = None,
    ) -> Matrix:  # fmt: skip
        """`momentum` that is missing, with that of springs, from the velocity ``v``."""
        of_rows = dict(zip(self.others, p, strict=False))
        own = momentum(motion, self.h, gained, [of_rows.get(k, 0.0) for k in range(self.problem.n_rows)] if p else [])
        own = own if mean is None else own - mean.momentum
        return own if self.springs is None else own + from_entries(self.ops, self.springs.momentum(gained, v))

    def _ending_with(self, y: Matrix, blocks: Sequence[TiedBlock]) -> Matrix:
        """``L v`` (nv × 1), ``y`` with the velocity that blocks with loops have at the end of their smooth motion."""
        ops, reached = self.ops, {k: x for b in blocks for k, x in zip(b.dofs, b.smooth.reached, strict=True)}
        over = column(ops, self.over_factor([reached.get(k, 0.0) for k in range(self.tree.nv)]))
        return from_entries(ops, [over[k] if k in reached else x for k, x in enumerate(column(ops, y))])

    def over_factor(self, v: Sequence[Scalar]) -> Matrix:
        """``L v`` (nv × 1)."""
        return self.ops.vstack(self.space.L.multiply([self.ops.matrix([[x]]) for x in v]))

    # -- loops ---------------------------------------------------------------------------------------------------------

    def closed_loops(self, L: SparseFactor) -> LoopMotions | None:
        """Loops in the metric of ``Lᵀ L``; None without loops."""
        if not self.loops:
            return None
        return LoopMotions(self.problem, L, self.loops, self.epsilon)

    def _close_loops(self) -> None:
        """``G`` of the other rows under closed loops, and ``G_ll⁺ G_lo``, what impulses of loops are."""
        ops, G, n = self.ops, self.space.G, len(self.others)
        open_loops = ops.entries(G) if n else []
        self.size_of, self.moves = [open_loops[k][k] for k in self.others], dict[int, Scalar]()
        own = ops.take(G, self.others, self.others) if n else ops.zeros(0, 0)
        if self.loops:
            G_ll = ops.take(G, self.loops, self.loops)
            self._of_loops = LoopImpulses(self.problem, self.space.L, G_ll, self.loops, self.epsilon)
            if n:
                self._of_others = self._of_loops.solve(ops.take(G, self.loops, self.others))
                mixed = ops.take(G, self.others, self.loops)
                own = ops.sym_subtract(own, ops.sym_product(mixed, self._of_others))
        self.G, self._held = ops.entries(own) if n else [], own
        if self.loops and n:
            self._release_held_rows()

    def _release_held_rows(self) -> None:
        """Decouple the rows of ``G`` that loops hold; ``moves`` is 1 for each row that is free to move, else 0.

        Round-off of ``G_oo − G_ol G_ll⁻¹ G_lo`` is that of its terms, ``G_oo`` and what that of ``G_ll`` makes. A point
        is held that cannot move along its normal: nothing says what friction it would have.
        """
        ops, G, moves, open_loops = self.ops, self.G, self.moves, self.ops.entries(self.space.G)
        mobilities = [open_loops[k][k] for k in self.loops]
        for k, size in enumerate(self.size_of):
            impulses = column(ops, ops.take(self._of_others, None, (k,)))
            terms = [x * x * g for x, g in zip(impulses, mobilities, strict=True)]
            moves[k] = ops.less(HELD_FRACTION * self.epsilon * sum(terms, size), G[k][k])
        for row in range(0, 3 * len(self.points), 3):
            for k in (row, row + 1, *(self.patches[row // 3].spins if row // 3 in self.patches else ())):
                moves[k] = moves[k] * moves[row + 2]
        for k, size in enumerate(self.size_of):
            G[k][k] = ops.select(moves[k], G[k][k], PROXIMAL * size)
            for j in range(k):
                G[k][j] = G[j][k] = moves[k] * moves[j] * G[k][j]

    def beside_loops(self, u: Sequence[Scalar]) -> tuple[list[Scalar], Matrix | None]:
        """Velocities of the other rows once loops have taken theirs, and the impulses (negative) that do it."""
        ops, free = self.ops, [u[k] for k in self.others]
        if not self.loops:
            return free, None
        taken = self._of_loops.solve(from_entries(ops, [u[k] for k in self.loops]))
        if not free:
            return free, taken
        changes = column(ops, ops.take(self.space.G, self.others, self.loops) @ taken)
        return minus(free, changes), taken

    def all_impulses(self, p: Sequence[Scalar], taken: Matrix | None) -> Matrix:
        """Impulses of all rows (m × 1), those of loops with what `beside_loops` takes, if that is given."""
        ops = self.ops
        out: list[Scalar] = [0.0] * self.problem.n_rows
        for row, x in zip(self.others, p, strict=True):
            out[row] = x
        if self.loops:
            taken = ops.zeros(len(self.loops), 1) if taken is None else taken
            if self.others:
                taken = taken + self._of_others @ from_entries(ops, [out[k] for k in self.others])
            for row, x in zip(self.loops, column(ops, taken), strict=True):
                out[row] = -x
        return from_entries(ops, out) if out else ops.zeros(0, 1)

    def displaced_rows(self, late: Sequence[Scalar]) -> list[Scalar]:
        """How far a displacement (nv) moves points along their normals, and joints; zero of other rows."""
        ops, n, end = self.ops, 3 * len(self.points), len(self.others) - len(self.lengths)
        moved = column(ops, self.space.J @ from_entries(ops, late)) if self.others else []
        return [moved[row] if n <= k < end or (k < n and k % 3 == 2) else 0.0 for k, row in enumerate(self.others)]

    # -- derivatives ---------------------------------------------------------------------------------------------------

    @property
    def has_mean(self) -> Scalar:
        """1 where derivatives are means, over all times of impacts in their steps too."""
        return 0.0 if self.smoothing is None else self.ops.less(0.0, self.smoothing)

    def mean_by_time(self, displaced: Sequence[Scalar], gained: Sequence[Scalar]) -> list[Scalar]:
        """By what a displacement (nv) becomes less with the time of an impact; what is not displaced jumps at steps.

        By ``h`` times what the impact changes of the velocity: in the mean it moves like the rest.
        """
        return [x + self.has_mean * (y - x) for x, y in zip(displaced, gained, strict=True)]

    def smoothing_of_points(self, impact: Impact | None) -> list[Scalar | None]:
        """Smoothing (m/s) of each contact point: bounces are no contact that is held in part."""
        if self.smoothing is None or impact is None:
            return [self.smoothing] * len(self.points)
        return [self.ops.select(fast, 0.0, self.smoothing) for fast in impact.when.fast]

    def modes(
        self, problem: StepProblem, p: Sequence[Scalar], of_joints: Scalar | None = None,
        of_points: Sequence[Scalar | None] | None = None, late: Sequence[Scalar] | None = None,
    ) -> tuple[list[Mode], dict[int, Hold]]:  # fmt: skip
        """Modes of contact points, and holds of joints, by degree of freedom, at a solution; smoothing of each.

        ``late`` (nv) is how far an impact has displaced joints.
        """
        modes, u = list[Mode](), [problem.velocity(row, p) for row in range(len(p))]
        for x, own in zip(problem.points, of_points or [None] * len(problem.points), strict=True):
            modes.append(point_mode(problem, x, *problem.in_law_of(x, p, u), self.moves.get(x.row + 2, 1.0), own))
        holds = {
            c.dof: joint_hold(problem, y, p[y.row], u[y.row], self.distances(c, late), self.over_h, of_joints)
            for c, y in zip(bounded_joints_of(self.problem.constraints), problem.joints, strict=True)
        }
        return modes, holds

    def _image_by_modes(
        self, of_points: Sequence[Scalar | None], late: Sequence[Scalar], problem: StepProblem, p: Sequence[Scalar],
        u: Sequence[Scalar],
    ) -> list[Scalar]:  # fmt: skip
        """Impulses with the changes of smoothed modes."""
        modes, holds = self.modes(problem, p, self.smoothing, of_points, late)
        joints = [(holds[c.dof], self.position(c) + late[c.dof]) for c in bounded_joints_of(self.problem.constraints)]
        return image_by_modes(problem, p, u, modes, joints, self.h)

    # -- laws ----------------------------------------------------------------------------------------------------------

    def _impact(self, solved: Solved, when: ImpactTimes, joints: Sequence[JointLaw]) -> Impact:
        """Compression and decompression of what hits, where something bounces ([OS] eqs. 54 to 58): Poisson's law.

        What rests is closed as well, and leans on others. Decompression gives back ``ε`` of each normal impulse, on the
        same cones, and no more energy than compression has taken.
        """
        ops = self.ops
        start = plus(self.v, when.kick)
        y = self.over_factor(start)
        u = column(ops, self.space.along_rows(y))
        begin = [u[k] for k in self.others]  # what opens loops is left to the motion after the impact
        laws = [self.law(k, ops.select(hits, 0.0, NEVER)) for k, hits in enumerate(when.hits)]
        limits, none = list[JointLaw](), cast(list[Scalar], [0.0] * len(begin))
        for x, c in zip(joints, bounded_joints_of(self.problem.constraints), strict=True):
            sides = zip(x.bounds, (-NEVER, NEVER), strict=True)
            least, most = (None if y is None else ops.select(when.struck[c.dof], y, far) for y, far in sides)
            limits.append(replace(x, bounds=(least, most), friction=None))
        compressed = self._taken(solved(begin, laws, none, 0.0, limits), y, None)
        first, floors = compressed.outcome, list(none)
        for k, (_, _, restitution) in enumerate(self.points):
            floors[3 * k + 2] = 0.0 if restitution is None else restitution * first.p[3 * k + 2]
        laws = [replace(x, belt=(), floor=floors[x.row + 2]) for x in laws]
        between = self.over_factor(compressed.velocity)
        parted = self._taken(solved(first.velocities, laws, floors, -first.energy, limits), between, None)
        second, struck = parted.outcome, maximum_of(ops, when.bounces)
        p = [ops.select(struck, x + y, 0.0) for x, y in zip(first.p, second.p, strict=True)]
        worst = [ops.maximum(x, y) for x, y in zip(first.residuals, second.residuals, strict=True)]
        both = zip(when.struck, minus(parted.velocity, when.kick), self.v, strict=True)
        after = [ops.select(x, y, z) for x, y, z in both]
        moved = column(ops, of_displaced(self, self.problem) @ from_entries(ops, minus(parted.velocity, start)))
        late = [-t * x for t, x in zip(when.times, moved, strict=True)]
        if self.smoothing is not None:
            more = minus(self.mean_by_time(moved, minus(parted.velocity, start)), moved)
            late = [ops.derived(s, s - ops.derived(x, 0.0) * t) for s, x, t in zip(late, more, when.times, strict=True)]
        return Impact(
            after,
            p,
            [ops.select(struck, x, 0.0) for x in worst],
            struck,
            when,
            start,
            [ops.select(x, y, 0.0) for x, y in zip(when.struck, late, strict=True)],
            (compressed, parted),
            self,
        )

    def _joint_laws(self, late: Sequence[Scalar] | None = None) -> list[JointLaw]:
        """Laws of all limits and of dry friction: within the step, a joint moves up to a limit."""
        out, row = list[JointLaw](), 3 * len(self.points)
        for c in bounded_joints_of(self.problem.constraints):
            sides = zip(self.distances(c, late), (-1.0, 1.0), strict=True)
            least, most = (None if x is None else side * self.over_h * self.ops.maximum(x, 0.0) for x, side in sides)
            friction = c.friction * self.h if c.friction else None
            out.append(JointLaw(row + len(out), (least, most), friction))
        return out

    def distances(self, c: BoundedJoint, late: Sequence[Scalar] | None = None) -> list[Scalar | None]:
        """Distances of the lower and of the upper limit of a joint, negative beyond it; None is without.

        ``late`` (nv) is how far an impact has displaced joints.
        """
        if not c.has_limits:
            return [None, None]
        limits = ((c.lower, 1.0), (c.upper, -1.0))
        q = self.position(c) + (0.0 if late is None else late[c.dof])
        return [side * (q - x) if abs(x) < float("inf") else None for x, side in limits]

    def position(self, c: BoundedJoint) -> Scalar:
        """Position of a joint."""
        (name,) = c.joints
        joint = self.tree.joint_names.index(name)
        place: int = self.tree.q_slices[joint].start + c.dof - self.tree.v_slices[joint].start
        return self.q[place]
