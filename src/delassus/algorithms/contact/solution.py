"""Records of a step with contacts: what it starts from and ends with, and what that follows from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

from delassus.algorithms.contact import law
from delassus.algorithms.contact.law import TUNING
from delassus.algorithms.contact.problem import Bounds, LawImage, Outcome, StepProblem
from delassus.algorithms.dynamics.ltl import JointSpace
from delassus.algorithms.dynamics.smooth_motion import (
    MotionChanges,
    SmoothMotion,
    Start,
    SubSteps,
    motion_changes,
    smooth_motion,
)
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import Problem
from delassus.constraints import Candidate
from delassus.constraints.contact import BoundedJoint, bounded_joints_of
from delassus.model.topology import characteristic_length
from delassus.model.tree import Tree
from delassus.spatial.dual_ops import Dual, Rates
from delassus.spatial.motion import column, cross_matrix, from_entries, minus
from delassus.spatial.ops import Image, Matrix, Scalar


@dataclass(frozen=True, slots=True)
class StepInputs:
    """What a step starts from: the state ``q``, ``v``, the time ``h``, and forces.

    ``motion`` makes the problem in motion at velocities, those of the state if None. Friction and restitution are those
    of each contact constraint; None is no restitution. ``smoothing`` (m/s) is that of derivatives, None for none, and
    ``penetration`` the overlap (m) that is left alone.
    ``moving`` are the numbers that motion without contacts follows from, velocities apart, by argument and place there;
    ``along`` makes that motion, and the time, of rates of these and of velocities with their own.
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
    along: Callable[[Sequence[Rates], Sequence[Any]], tuple[DynamicsProblem, Any]]


def points_of(problem: Problem, given: StepInputs) -> list[tuple[Candidate, Scalar, Scalar | None]]:
    """Contact points, with their friction and restitution."""
    of_each = zip(problem.candidates.values(), given.friction, given.restitution, strict=True)
    return [(candidate, mu, e) for candidates, mu, e in of_each for candidate in candidates]


class SolvedProblem(NamedTuple):
    """A problem of a step, its outcome, velocities (nv) after it in the axes of the start, and impulses (m) of rows."""

    problem: StepProblem
    outcome: Outcome
    velocity: list[Scalar]
    impulses: list[Scalar]


def implied(
    found: SolvedProblem, start: Sequence[Scalar], momentum: Callable[..., Matrix], space: JointSpace,
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
        return column(ops, momentum(gained, p)), u, lambda u: image(problem, p, u)

    v, p = ops.implicit_motion(found.velocity, plain.p, equations, space)
    velocities = [ops.derived(x, y) for x, y in zip(plain.velocities, along_rows(v), strict=True)]
    energy, *worst = (ops.derived(x, 0.0) for x in (plain.energy, *plain.residuals))
    return SolvedProblem(problem, Outcome(p, velocities, energy, (worst[0], worst[1], worst[2])), v, p)


class Block(NamedTuple):
    """Degrees of freedom that loops tie, the numbers of these constraints, and their smooth motion over the step.

    ``changes`` are `motion_changes` with `StepInputs.moving` and the velocity (nv) that it begins with.
    """

    dofs: list[int]
    loops: list[int]
    smooth: SmoothMotion
    changes: MotionChanges


class StepMotion(NamedTuple):
    """Velocity (nv) after a step and displacement (nv) beside ``h`` times that, in the axes of the start.

    Of blocks with loops, if there are any: the velocity ``alone`` (nv) that loops leave of the one at the end of smooth
    motion, without contacts, limits and friction of joints; impulses (m) that do that; and for each block 1 where
    impulses of other rows act on it.
    """

    velocity: list[Scalar]
    shift: list[Scalar]
    blocks: list[Block]
    alone: list[Scalar]
    impulses: list[Scalar]
    pushed: list[Scalar]


def blocks_with_loops(
    given: StepInputs, motion: DynamicsProblem, v: Sequence[Scalar], epsilon: float
) -> list[Block]:  # fmt: skip
    """Blocks with loops, and their smooth motion from the velocity ``v``."""
    out, numbers = list[Block](), [*given.moving.values(), *v]
    for links, loops in motion.problem.blocks_with_loops:

        def started(
            motion: DynamicsProblem, v: Sequence[Any], h: Any, links: Sequence[int] = links, loops: list[int] = loops
        ) -> Start:
            steps = SubSteps(motion, links, loops, epsilon)
            return Start(steps, [v[k] for k in steps.dofs], h, TUNING.correction)

        def varied(rates: Sequence[Rates], started: Callable[..., Start] = started) -> Start:
            own = [Dual(x, rate) for x, rate in zip(v, rates[-len(v) :], strict=True)]
            motion, h = given.along(rates[: -len(v)], own)
            return started(motion, own, h)

        start = started(motion, v, given.h)
        changes = partial(motion_changes, motion.ops, varied)
        out.append(Block(start.steps.dofs, loops, smooth_motion(start, numbers, changes), changes))
    return out


class CorrectionGoals(NamedTuple):
    """Rows of `StepProblem` that a position correction may push, bounds of how far they move, and mobilities.

    These are with compliance. ``by_loops`` is how far rows (m) move by loops, which take ``taken`` (`_beside_loops`);
    ``most`` is the largest displacement wanted, of hinges times a length, ``beyond`` how far a limit is passed that is
    left alone (m, rad), and ``least`` a mobility (1/kg) that counts as none.
    """

    rows: list[int]
    bounds: list[Bounds]
    mobility: list[Scalar]
    by_loops: list[Scalar]
    taken: Matrix | None
    most: Scalar
    beyond: Scalar = 0.0
    least: Scalar = 0.0


class Weights(NamedTuple):
    """By what displacements compare: of rows to lengths (m), of degrees of freedom to how far these may move (1)."""

    rows: list[float]
    joints: list[float]

    @classmethod
    def of(cls, tree: Tree, joints: Sequence[BoundedJoint], n_points: int) -> Weights:
        """Those of contact points, then joints; a turn counts as far as it moves what is at a length."""
        length, turns = characteristic_length(tree), [axis >= 3 for joint in tree.joints for axis in joint.motion_axes]
        rows = [1.0] * (3 * n_points) + [length if turns[c.dof] else 1.0 for c in joints]
        return cls(rows, [1.0 / (TUNING.most_turn if turn else TUNING.most_slide * length) for turn in turns])


class Correction(NamedTuple):
    """A position correction: its goals, impulses of its rows, 1 where there is ``nothing`` to do, and its ``shift``.

    ``converged`` is 1 where a last sweep has moved rows by less than the tolerance of velocities makes in a step.
    """

    goals: CorrectionGoals
    impulses: list[Scalar]
    nothing: Scalar
    shift: list[Scalar]
    converged: Scalar


class Displacement(NamedTuple):
    """Displacement (nv) by impulses ``of_rows`` (m), parts of it that rows and joints allow, how far rows (m) move."""

    whole: list[Scalar]
    by_rows: Scalar
    by_joints: Scalar
    of_rows: list[Scalar]
    moves: list[Scalar]

    @property
    def part(self) -> Scalar:
        """Part of it that is taken."""
        return self.by_rows * self.by_joints


NEVER = 1e15
"""Time (s) of what is not struck, and velocity (m/s) at which nothing closes: float32 holds its square."""


class ImpactTimes(NamedTuple):
    """Impact of a step.

    Of each point (n): 1 where it ``hits`` and takes part, where it ``bounces``, and where it is ``fast`` enough to do
    so if it were closed; when it is closed (s), ``at``, and its velocity along the normal then, ``closing``.
    Of each degree of freedom (nv): 1 where the impact has ``struck`` it and where it ``falls``, its ``times`` (s) and
    of which points (n) they are, ``of_points``; the velocity ``gained`` over the step, and ``kick``.
    """

    hits: list[Scalar]
    bounces: list[Scalar]
    fast: list[Scalar]
    closing: list[Scalar]
    at: list[Scalar]
    struck: list[Scalar]
    falls: list[Scalar]
    times: list[Scalar]
    of_points: list[list[Scalar]]
    gained: list[Scalar]
    kick: list[Scalar]


class Impact(NamedTuple):
    """Velocities (nv) after an impact, half a step behind, its impulses along rows, and residuals.

    And 1 where anything is ``struck``; ``when`` it is, velocities (nv) that it starts from, the displacement (nv) as it
    is not at the start of the step, and its ``phases``, compression and decompression.
    """

    v: list[Scalar]
    p: list[Scalar]
    residuals: list[Scalar]
    struck: Scalar
    when: ImpactTimes
    start: list[Scalar]
    late: list[Scalar]
    phases: tuple[SolvedProblem, SolvedProblem]


class StepSolution(NamedTuple):
    """``q``, ``v``, impulses and residuals after a step, and what they follow from.

    That is the motion that forces are of, at its velocity (nv), the problem that says what contacts do to it, the
    correction of positions, the impact before it, if anything bounces, how the step moves, and how far it moves rows of
    points and joints besides as the impact is not at its start (m, rad).
    """

    q: list[Scalar]
    v: list[Scalar]
    impulses: list[Scalar]
    residuals: list[Scalar]
    motion: DynamicsProblem
    start: Sequence[Scalar]
    solved: SolvedProblem
    correction: Correction
    impact: Impact | None
    moved: StepMotion
    displaced: list[Scalar]

    @property
    def resolved(self) -> Scalar:
        """1 where sub-steps resolved the motion of loops, and sweeps the correction of positions."""
        flag = self.correction.converged
        for block in self.moved.blocks:
            flag = flag * block.smooth.resolved
        return flag


def impact_times(
    step: Any, rates: Sequence[Scalar], free: Sequence[Scalar], restitution: Sequence[Scalar | None],
    tolerance: Scalar,
) -> ImpactTimes:  # fmt: skip
    """The impact of a step that without contacts ends at velocities ``free`` (nv). Cost O(n b) for b bodies.

    An impact of the time ``t`` starts from ``w₀ = v + k``, ``k = (h / 2 + t) a``: velocities are half a step behind.
    It ends at ``w``; the step goes on from ``w − k``, and displaces by ``−t (w − w₀)`` besides: what moves by the
    velocity after the impact from the start of the step on is where the two parts of its path end. ``a`` is the
    acceleration without contacts; zero of links that rest on something, or are tied by loops. The time is that at which
    the first point that bounces is closed, for all that points tie that hit, of a free body on the world, else that of
    the start of the step: impulses on two bodies, or on joints, would act where these are not. Free bodies turn by
    their momentum, so that their centres of mass alone are displaced. Momentum and energy stay as they are.
    """
    ops, tree, n = step.ops, step.tree, len(step.points)
    ties = [c.carriers(tree) for c in step.problem.constraints if not c.n_impulses]
    bodies, tied = tree.blocks(ties), {link for tie in ties for link in tie}
    body_of = {link: b for b, links in enumerate(bodies) for link in links}
    dofs = [[k for i in links for k in range(tree.v_slices[i].start, tree.v_slices[i].stop)] for links in bodies]
    falls = [cast(Scalar, 0.0 if tied & {*links} else 1.0) for links in bodies]
    falling = [links[0] in step.problem.free_bodies for links in bodies]
    gained, e = minus(free, step.v), [cast(Scalar, 0.0 if x is None else x) for x in restitution]
    fall = law.bouncing_speed(ops, column(ops, step.motion.gravity), step.h)
    J, own, approach, more = ops.entries(step.space.J), list[list[int]](), list[Scalar](), list[dict[int, Scalar]]()
    for k, (candidate, *_) in enumerate(step.points):
        row = J[step.others[3 * k + 2]]
        own.append(sorted({body_of[link] for link in candidate.arms}))
        approach.append(sum((row[c] * step.v[c] for b in own[k] for c in dofs[b]), cast(Scalar, 0.0)))
        more.append({b: sum((row[c] * gained[c] for c in dofs[b]), cast(Scalar, 0.0)) for b in own[k]})

    def along_path(k: int) -> Scalar:
        return sum((falls[b] * x for b, x in more[k].items()), approach[k])

    fast = [law.impact(ops, 0.0, u, u, x, tolerance, fall)[1] for u, x in zip(approach, e, strict=True)]
    for _ in bodies:  # what rests on something that rests
        for k, (candidate, *_) in enumerate(step.points):
            into = ops.less(along_path(k), -tolerance) * (1.0 - ops.less(step.h * tolerance, candidate.gap))
            holds = into * (1.0 - fast[k])
            for b in own[k]:
                falls[b] = falls[b] * (1.0 - holds)
        for c in bounded_joints_of(step.problem.constraints):
            (b,) = (b for b, of_body in enumerate(dofs) if c.dof in of_body)
            u = step.v[c.dof] + falls[b] * gained[c.dof]
            for distance, side in zip(step.distances(c), (1.0, -1.0), strict=True):
                if distance is not None:
                    beyond = 1.0 - ops.less(0.0, distance)
                    falls[b] = falls[b] * (1.0 - beyond * ops.less(side * u, -tolerance))
    reached, hits, bounces, at = [along_path(k) for k in range(n)], list[Scalar](), list[Scalar](), list[Scalar]()
    for rate, before, u, x in zip(rates, approach, reached, e, strict=True):
        both = law.impact(ops, rate, before, u, x, tolerance, fall)
        hits.append(both[0])
        bounces.append(both[1])
        (body, *others), t = own[len(at)], law.impact_time(ops, rate, before, u, step.h)
        at.append(t if falling[body] and not others else 0.0)
    closing = [u + (0.5 + t * step.over_h) * (x - u) for u, x, t in zip(approach, reached, at, strict=True)]
    times, of = [cast(Scalar, NEVER)] * len(bodies), [[cast(Scalar, 0.0)] * n for _ in bodies]
    for k in range(n):
        for b in own[k]:
            first = bounces[k] * ops.less(at[k], times[b])
            times[b] = ops.select(first, at[k], times[b])
            of[b] = [ops.select(first, float(j == k), x) for j, x in enumerate(of[b])]
    for _ in bodies[1:]:
        for k in range(n):
            if len(own[k]) == 2:
                for a, b in (own[k], own[k][::-1]):
                    earlier = hits[k] * ops.less(times[a], times[b])
                    times[b] = ops.select(earlier, times[a], times[b])
                    of[b] = [ops.select(earlier, x, y) for x, y in zip(of[a], of[b], strict=True)]
    struck = [ops.less(t, NEVER) for t in times]
    body_of_dof = [b for k in range(tree.nv) for b, of_body in enumerate(dofs) if k in of_body]
    kick, late = list[Scalar](), [ops.select(x, t, 0.0) for x, t in zip(struck, times, strict=True)]
    for b, x in zip(body_of_dof, gained, strict=True):
        kick.append(ops.select(struck[b] * falls[b], (0.5 + late[b] * step.over_h) * x, 0.0))
    return ImpactTimes(
        [x * struck[own[k][0]] for k, x in enumerate(hits)], bounces, fast, closing, at,
        [struck[b] for b in body_of_dof], [falls[b] for b in body_of_dof], [late[b] for b in body_of_dof],
        [of[b] for b in body_of_dof], gained, kick,
    )  # fmt: skip


def of_centres(problem: Problem) -> Matrix:
    """Velocities of centres of mass of free bodies, in their axes, from those of all links (nv × nv); 0 of others."""
    ops, parts = problem.ops, [problem.ops.zeros(0, 0)]
    for i, joint in enumerate(problem.tree.joints):
        if i not in problem.free_bodies:
            parts.append(ops.zeros(joint.nv, joint.nv))
            continue
        H = ops.entries(problem.inertias[i])
        centre = from_entries(ops, [x / H[0][0] for x in (H[1][5], H[2][3], H[0][4])])
        parts.append(ops.vstack([ops.hstack([ops.eye(3), -cross_matrix(ops, centre)]), ops.zeros(3, 6)]))
    return ops.block_diagonal(parts)
