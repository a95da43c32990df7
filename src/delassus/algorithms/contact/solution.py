"""Records of a step with contacts: what it starts from and ends with, and what that follows from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from delassus.algorithms.contact.correction import PositionCorrection
from delassus.algorithms.contact.impacts import ImpactTimes
from delassus.algorithms.contact.law import CORRECTION
from delassus.algorithms.contact.problem import (
    LawImage,
    Outcome,
    PointLaw,
    StepProblem,
    magnitude,
    maximum_of,
)
from delassus.algorithms.contact.springs import ImplicitSprings, PulledMotion, Spring, springs_in_step, stiff_joints
from delassus.algorithms.dynamics.integrate import position_update
from delassus.algorithms.dynamics.ltl import JointSpace
from delassus.algorithms.dynamics.smooth_motion import (
    MotionChanges,
    SmoothMotion,
    Start,
    motion_changes,
    smooth_motion,
)
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.loops.motion_stages import SubSteps
from delassus.algorithms.problem import Problem
from delassus.constraints import Candidate
from delassus.constraints.contact import spins_of
from delassus.constraints.shapes.turning import turning
from delassus.model.tree import Tree
from delassus.spatial.dual_ops import Dual, Rates
from delassus.spatial.motion import column, from_entries, minus
from delassus.spatial.ops import Image, Matrix, Ops, Scalar


@dataclass(frozen=True, slots=True)
class StepInputs:
    """What a step starts from: the state ``q``, ``v``, the time ``h``, and forces.

    ``motion`` makes the problem in motion at velocities, those of the state if None. Friction and restitution are those
    of each contact constraint; None is no restitution. ``smoothing`` (m/s) is that of derivatives, None for none, and
    ``penetration`` the overlap (m) that is left alone.
    ``moving`` are the numbers that motion without contacts follows from, velocities apart, by argument and place there;
    ``along`` makes that motion, the time and springs of joints, of rates of these and of velocities with their own.
    ``springs`` of joints are those at the state, and ``described`` is the robot with the inertias that it was given.
    """

    motion: Callable[[Sequence[Scalar] | None, Problem | None], DynamicsProblem]
    q: Sequence[Scalar]
    v: Sequence[Scalar]
    h: Scalar
    friction: Sequence[Scalar]
    restitution: Sequence[Scalar | None]
    smoothing: Scalar | None
    penetration: float
    moving: Mapping[tuple[str, int], Scalar]
    along: Callable[[Sequence[Rates], Sequence[Any]], tuple[DynamicsProblem, Any, list[Spring]]]
    springs: Sequence[Spring]
    described: Tree

    def springs_in(self, problem: Problem, v: Sequence[Scalar]) -> ImplicitSprings | None:
        """Those in the step from the velocity ``v``, and along lines; None without any."""
        tied = {i for links, _ in self.blocks_with_loops(problem) for i in links}
        own = springs_in_step(problem, self.springs, self.described, tied, self.h, v)
        return ImplicitSprings(problem.ops, problem.tree, own, self.h) if own else None

    def bodies(self, problem: Problem) -> list[list[int]]:
        """Links that joints, loops, springs or servos tie to one another."""
        ties = [c.carriers(problem.tree) for c in problem.constraints if not c.n_impulses]
        return problem.tree.blocks([*ties, *self._pulled(problem.tree)])

    def blocks_with_loops(self, problem: Problem) -> list[tuple[list[int], list[int]]]:
        """`Problem.blocks_with_loops`, with links that servos tie to them."""
        return problem.tied_blocks(self._pulled(problem.tree)) if problem.blocks_with_loops else []

    def _pulled(self, tree: Tree) -> list[list[int]]:
        """Links that springs of joints act on."""
        return [
            [i for i, own in enumerate(tree.v_slices) if {*range(own.start, own.stop)} & {*x.ratios}]
            for x in self.springs
        ]


def points_of(problem: Problem, given: StepInputs) -> list[tuple[Candidate, Scalar, Scalar | None]]:
    """Contact points, with their friction and restitution."""
    of_each = zip(problem.candidates.values(), given.friction, given.restitution, strict=True)
    return [(candidate, mu, e) for candidates, mu, e in of_each for candidate in candidates]


def robot_ahead(problem: Problem, q: Sequence[Scalar], v: Sequence[Scalar], h: Scalar) -> Problem:
    """The problem where it would be after a step with the velocity of its start."""
    ahead, _ = position_update(problem.ops, problem, list(q), list(v), h, [0.0] * problem.tree.nv)
    return problem.at(ahead, range(len(problem.constraints)))


def patches_of(
    problem: Problem, points: Sequence[tuple[Candidate, Scalar, Scalar | None]], row: int
) -> dict[int, PointLaw]:
    """Laws of those contact points that have spins, whose rows begin at ``row``, by number."""
    ops, out, first, count = problem.ops, dict[int, PointLaw](), dict[int, int](), 0
    for index, candidates in problem.candidates.items():
        first[index], count = count, count + len(candidates)
    for c in spins_of(problem.constraints):
        for k in range(first[c.of], first[c.of] + c.contact.n_points):
            slides, rows = ops.less(0.0, points[k][1]), range(row, row + len(c.contact.lengths))
            mu = ops.select(slides, points[k][1], 1.0)
            out[k], row = PointLaw(3 * k, mu, 0.0, spins=rows, over=1.0 / mu, slides=slides), rows.stop
    return out


class SolvedProblem(NamedTuple):
    """A problem of a step, its outcome, velocities (nv) after it in the axes of the start, and impulses (m) of rows."""

    problem: StepProblem
    outcome: Outcome
    velocity: list[Scalar]
    impulses: list[Scalar]


class RowsOfLaws:
    """`JointSpace` of some rows of a problem alone: springs along lines have none of the laws."""

    def __init__(self, ops: Ops, space: JointSpace, rows: Sequence[int]) -> None:
        self._ops, self._space, self._rows = ops, space, list(rows)
        self.solve_transpose, self.J = space.solve_transpose, ops.take(space.J, self._rows, None)
        self.G = ops.take(space.G, self._rows, self._rows)

    @classmethod
    def of(cls, problem: Problem, space: JointSpace, rows: Sequence[int]) -> JointSpace | RowsOfLaws:
        """The space itself where these are all."""
        return space if len(rows) == problem.n_rows else cls(problem.ops, space, rows)

    def along_rows(self, x: Matrix) -> Matrix:
        """``Y x``."""
        return self._ops.take(self._space.along_rows(x), self._rows, None)

    def back_substitution(self, x: Matrix, f: Matrix) -> Matrix:
        """``L⁻¹ (x + Yᵀ f)``."""
        ops, n = self._ops, self._ops.shape(self._space.G)[0]
        width = self._ops.shape(x)[1]
        return self._space.back_substitution(x, ops.put(f, (n, width), self._rows, range(width)))


def implied(
    found: SolvedProblem, start: Sequence[Scalar], momentum: Callable[..., Matrix], space: JointSpace | RowsOfLaws,
    image: LawImage,
) -> SolvedProblem:  # fmt: skip
    """The same as what follows from laws and momentum, where steps are differentiated; residuals are just numbers.

    ``momentum(Δv, p)`` (nv × 1) is zero; ``start`` are velocities before the step. There are no rows but those of laws.
    """
    problem, plain, ops = found.problem, found.outcome, found.problem.ops

    def along_rows(v: Sequence[Scalar]) -> list[Scalar]:
        moved = column(ops, space.J @ from_entries(ops, v)) if problem.b else []
        for x in problem.points:
            for k, belt in enumerate(x.belt):
                moved[x.row + k] = moved[x.row + k] + belt
        return moved

    def equations(v: list[Scalar], p: list[Scalar]) -> tuple[Sequence[Scalar], Sequence[Scalar], Image]:
        u, gained = along_rows(v), minus(v, start)
        for x in problem.points:
            u[x.row + 2] = u[x.row + 2] + x.rate
            for k, offset in enumerate(x.turning):
                u[x.row + k] = u[x.row + k] + offset
        return column(ops, momentum(gained, p)), u, lambda u: image(problem, p, u)

    v, p = ops.implicit_motion(found.velocity, plain.p, equations, space)
    velocities = [ops.derived(x, y) for x, y in zip(plain.velocities, along_rows(v), strict=True)]
    energy, *worst = (ops.derived(x, 0.0) for x in (plain.energy, *plain.residuals))
    return SolvedProblem(problem, Outcome(p, velocities, energy, (worst[0], worst[1], worst[2])), v, p)


class TiedBlock(NamedTuple):
    """Degrees of freedom that loops tie, the numbers of these constraints, and their smooth motion over the step.

    ``changes`` are `motion_changes` with `StepInputs.moving` and the velocity (nv) that it begins with.
    """

    dofs: list[int]
    loops: list[int]
    smooth: SmoothMotion
    changes: MotionChanges


def pushes(problem: Problem, space: JointSpace, block: TiedBlock, impulses: Mapping[int, Scalar]) -> Scalar:
    """1 where impulses of other rows, by their numbers, act on a block."""
    ops = problem.ops
    acting = [
        magnitude(ops, impulses[row])
        for c, rows, columns in zip(problem.constraints, problem.rows, space.Y, strict=True)
        if c.n_impulses and {*columns} & {*block.dofs}
        for row in range(rows.start, rows.stop)
    ]
    return ops.less(0.0, maximum_of(ops, [0.0, *acting]))


class StepMotion(NamedTuple):
    """Velocity (nv) after a step and displacement (nv) beside ``h`` times that, in the axes of the start.

    Of blocks with loops, if there are any: the velocity ``alone`` (nv) that loops leave of the one at the end of smooth
    motion, without contacts, limits and friction of joints; impulses (m) that do that; and for each block 1 where
    impulses of other rows act on it.
    """

    velocity: list[Scalar]
    shift: list[Scalar]
    blocks: list[TiedBlock]
    alone: list[Scalar]
    impulses: list[Scalar]
    pushed: list[Scalar]

    def of_blocks(
        self, place: Any, blocks: Sequence[TiedBlock], y: Matrix, alone: Matrix, p: Sequence[Scalar]
    ) -> StepMotion:
        """The same with blocks of the step at a ``place`` that contacts, limits and friction push by impulses ``p``.

        ``y`` (nv × 1) are free velocities in the joint space and ``alone`` (m × 1) impulses without these.
        """
        acting = dict(zip(place.others, p, strict=True))
        pushed = [pushes(place.problem, place.space, block, acting) for block in blocks]
        target, impulses = (column(place.ops, x) for x in (place.space.back_substitution(y, alone), alone))
        return StepMotion(self.velocity, self.shift, [*blocks], target, impulses, pushed)

    def on_paths(self, tree: Tree, h: Scalar, when: ImpactTimes) -> tuple[list[Scalar], list[Scalar]]:
        """Displacement (nv) beside that by the velocity over what is left of the step, and what is, of each joint (s).

        Of bodies that an impact has placed where they were at its time.
        """
        parts = [x * t for x, t in zip(when.placed, when.times, strict=True)]
        shift = [x + t * u for x, t, u in zip(self.shift, parts, self.velocity, strict=True)]
        left = [h - parts[sv.start] if joint.nv else h
                for joint, sv in zip(tree.joints, tree.v_slices, strict=True)]  # fmt: skip
        return shift, left

    def with_smooth_motion(self, ops: Ops, h: Scalar, start: Sequence[Scalar]) -> StepMotion:
        """The same with what smooth motion from the velocity ``start`` changes over the step.

        Where there are no impulses, the step ends where the smooth motion does. Impulses act on the whole step: what
        they change of the velocity changes the displacement by ``h`` times that, beside that by which contacts are
        found.
        """
        v, shift, alone = list(self.velocity), list(self.shift), self.alone
        for block, pushed in zip(self.blocks, self.pushed, strict=True):
            for k, displacement, reached in zip(block.dofs, *block.smooth.ending(ops, pushed), strict=True):
                v[k] = reached + (v[k] - alone[k])
                straight = ops.select(pushed, h * (alone[k] - 0.5 * (start[k] + reached)), 0.0)
                shift[k] = shift[k] + (displacement - h * reached) + straight
        return self._replace(velocity=v, shift=shift)


def blocks_with_loops(
    given: StepInputs, motion: DynamicsProblem, v: Sequence[Scalar], epsilon: float
) -> list[TiedBlock]:  # fmt: skip
    """Blocks with loops, and their smooth motion from the velocity ``v``."""
    out, numbers = list[TiedBlock](), [*given.moving.values(), *v]
    for links, loops in given.blocks_with_loops(motion.problem):

        def started(
            motion: DynamicsProblem, v: Sequence[Any], h: Any, springs: Sequence[Spring],
            links: Sequence[int] = links, loops: list[int] = loops,
        ) -> Start:  # fmt: skip
            ops, tree = motion.ops, motion.tree
            motion = motion.relieved(stiff_joints(ops, tree, springs, links, h))
            steps, pulling = SubSteps(motion, links, loops, epsilon), None
            implicit = springs_in_step(motion.problem, springs, given.described, links, h, v)
            own = ImplicitSprings(ops, tree, implicit, h).of_links(steps.dofs)
            if own is not None:
                pulling = PulledMotion(ops, own, steps.dofs, v, column(ops, motion.applied))
            return Start(steps, [v[k] for k in steps.dofs], h, CORRECTION, pulling)

        def varied(rates: Sequence[Rates], started: Callable[..., Start] = started) -> Start:
            own = [Dual(x, rate) for x, rate in zip(v, rates[-len(v) :], strict=True)]
            motion, h, springs = given.along(rates[: -len(v)], own)
            return started(motion, own, h, springs)

        start = started(motion, v, given.h, given.springs)
        changes = partial(motion_changes, motion.ops, varied)
        out.append(TiedBlock(start.steps.dofs, loops, smooth_motion(start, numbers, changes), changes))
    return out


class Impact(NamedTuple):
    """Velocities (nv) after an impact, half a step behind, its impulses along rows, and residuals.

    And 1 where anything is ``struck``; ``when`` it is, velocities (nv) that it starts from, the displacement (nv) as it
    is not at the start of the step, its ``phases``, compression and decompression, and the step from the
    ``place`` where it has placed bodies.
    """

    v: list[Scalar]
    p: list[Scalar]
    residuals: list[Scalar]
    struck: Scalar
    when: ImpactTimes
    start: list[Scalar]
    late: list[Scalar]
    phases: tuple[SolvedProblem, SolvedProblem]
    place: Any

    def struck_points(self, step: Any) -> list[Scalar]:
        """1 for each contact point of a step of which it has struck a link, else 0."""
        at, of_dofs = step.tree.v_slices, self.when.struck
        return [maximum_of(step.ops, [of_dofs[at[link].start] for link in c.arms]) for c, *_ in step.points]


def offsets_of(step: Any, impact: Impact | None) -> list[list[Scalar]]:
    """What contact points of a step turn by (3 each, m/s): none of what an impact has struck."""
    out = turning(step.problem, partial(robot_ahead, step.problem, step.q, step.v, step.h), step.path)
    if impact is None:
        return out
    each = zip(out, impact.struck_points(step), strict=True)
    return [[step.ops.select(struck, 0.0, x) for x in own] for own, struck in each]


class StepSolution(NamedTuple):
    """``q``, ``v``, impulses and residuals after a step, and what they follow from.

    That is the motion that forces are of, at its velocity (nv), the problem that says what contacts do to it, the
    correction of positions, the impact before it, if anything bounces, how the step moves, and how far it moves rows of
    points and joints besides as the impact is not at its start (m, rad). ``turning`` is what points turn by (3 each).
    """

    q: list[Scalar]
    v: list[Scalar]
    impulses: list[Scalar]
    residuals: list[Scalar]
    motion: DynamicsProblem
    start: Sequence[Scalar]
    solved: SolvedProblem
    correction: PositionCorrection
    impact: Impact | None
    moved: StepMotion
    displaced: list[Scalar]
    turning: list[list[Scalar]]

    def place(self, step: Any) -> Any:
        """The step from where an impact has placed bodies; ``step`` itself where none does."""
        return step if self.impact is None else self.impact.place

    @property
    def resolved(self) -> Scalar:
        """1 where sub-steps resolved the motion of loops, and sweeps the correction of positions."""
        flag = self.correction.converged
        for block in self.moved.blocks:
            flag = flag * block.smooth.resolved
        return flag
