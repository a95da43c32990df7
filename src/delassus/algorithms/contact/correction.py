"""Position corrections of a step: overlaps, errors of loops and passed limits are taken back by a displacement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from delassus.algorithms.contact import law
from delassus.algorithms.contact.law import (
    COMPLIANCE,
    CORRECTION,
    CORRECTION_TOLERANCE,
    LEAST_MOBILITY,
    MOST_DISPLACEMENT,
    MOST_SLIDE,
    MOST_TURN,
)
from delassus.algorithms.contact.problem import Bounds, largest_of, magnitude, maximum_of
from delassus.algorithms.contact.solvers import fixed_point
from delassus.constraints.joint_rows import BoundedJoint, bounded_joints_of
from delassus.model.topology import characteristic_length
from delassus.model.tree import Tree
from delassus.spatial.motion import column
from delassus.spatial.ops import SQUARE_FLOOR, Matrix, Ops, Scalar


class CorrectionGoals(NamedTuple):
    """Rows of `StepProblem` that a position correction may push, bounds of how far they move, and mobilities.

    These are with compliance. ``by_loops`` is how far rows (m) move by loops, which take ``taken``
    (`KernelStep.beside_loops`); ``most`` is the largest displacement wanted, of hinges times a length, ``beyond`` how
    far a limit is passed that is left alone (m, rad), and ``least`` a mobility (1/kg) that counts as none.
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
    def of(cls, tree: Tree, joints: Sequence[BoundedJoint], n_points: int, n_spins: int = 0) -> Weights:
        """Those of contact points, joints, then spins; a turn counts as far as it moves what is at a length."""
        length, turns = characteristic_length(tree), [axis >= 3 for joint in tree.joints for axis in joint.motion_axes]
        rows = [1.0] * (3 * n_points) + [length if turns[c.dof] else 1.0 for c in joints] + [1.0] * n_spins
        return cls(rows, [1.0 / (MOST_TURN if turn else MOST_SLIDE * length) for turn in turns])


class PositionCorrection(NamedTuple):
    """A position correction: its goals, impulses of its rows, 1 where there is ``nothing`` to do, and its ``shift``.

    ``converged`` is 1 where a last sweep has moved rows by less than the tolerance of velocities makes in a step.
    """

    goals: CorrectionGoals
    impulses: list[Scalar]
    nothing: Scalar
    shift: list[Scalar]
    converged: Scalar


class ImpulseDisplacement(NamedTuple):
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


def correction(
    step: Any, velocities: Sequence[Scalar], times: int, tolerance: float, gaping: Mapping[int, Scalar]
) -> PositionCorrection:
    """Displacement of joints (nv) that takes back overlaps, errors of loops that gape and passed limits.

    It closes no gap that velocities of the other rows leave after the step, and passes no limit. ``gaping`` are parts
    of errors of loops, by constraint, that it takes back.
    """
    ops: Ops = step.ops
    tree, G = step.tree, step.G
    joints = bounded_joints_of(step.problem.constraints)
    limited = [(c, 3 * len(step.points) + k) for k, c in enumerate(joints) if c.has_limits]
    if not step.points and not limited and not step.loops:
        return PositionCorrection(CorrectionGoals([], [], [], [], None, 0.0), [], 1.0, [0.0] * tree.nv, 1.0)
    errors: list[Scalar] = [0.0] * step.problem.n_rows
    for k, (c, at) in enumerate(step.motion.each_constraint()):
        if k in gaping:
            errors[step.problem.rows[k]] = [gaping[k] * x for x in column(ops, c.position(at))]
    by_loops, taken = step.beside_loops(errors)
    wanted, own, beyond = list[Scalar](), list[Scalar](), step.h * tolerance
    immobile = LEAST_MOBILITY * maximum_of(ops, [SQUARE_FLOOR, *step.size_of[: 3 * len(step.points)]])
    bounds: dict[int, Bounds] = {}
    for row, (candidate, _, _) in enumerate(step.points):
        row = 3 * row + 2
        moved = step.h * velocities[row]
        back, least = law.gap_correction(ops, candidate.gap, moved, step.penetration, CORRECTION)
        wanted.append(back)
        bounds[row] = least, None
        mean = sum(step.law(row // 3, 0.0).sizes(step.size_of)) * (1.0 / 3.0)
        own.append(G[row][row] + COMPLIANCE * ops.maximum(mean, immobile))
    for bounded, row in limited:
        sides: list[Scalar | None] = [None, None]
        for k, distance in enumerate(step.distances(bounded)):
            if distance is not None:
                side = 1.0 - 2.0 * k
                after = distance + side * step.h * velocities[row]
                back, least = law.limit_correction(ops, after, CORRECTION, beyond)
                wanted.append(step.weights.rows[row] * back)
                sides[k] = side * least
        bounds[row] = sides[0], sides[1]
        own.append((1.0 + COMPLIANCE) * G[row][row] + SQUARE_FLOOR)
    rows, over = list(bounds), [1.0 / x for x in own]
    most = maximum_of(ops, [*wanted, *(magnitude(ops, x) for x in by_loops), SQUARE_FLOOR])

    def image(s: Sequence[Scalar], i: int) -> Scalar:
        u = own[i] * s[i] + by_loops[rows[i]]
        for j, other in enumerate(rows):
            if j != i:
                u = u + G[rows[i]][other] * s[j]
        return law.joint(ops, None, *bounds[rows[i]], own[i] * s[i] - u)[0] * over[i]

    goals = CorrectionGoals(rows, list(bounds.values()), own, by_loops, taken, most, beyond, immobile)

    def shift(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
        s = values[: len(rows)]
        found = displaced(step, goals, ops.implicit(s, lambda s: [image(s, i) for i in range(len(s))], mobility))
        return [*s, *(found.part * x for x in found.whole)], 1.0

    nothing = ops.less(most, 2.0 * SQUARE_FLOOR)
    accuracy = ops.maximum(CORRECTION_TOLERANCE * beyond, step.epsilon * most)
    s, last = fixed_point(ops, image, own, times, accuracy, nothing)
    mobility = [[own[i] if j == i else G[row][other] for j, other in enumerate(rows)] for i, row in enumerate(rows)]
    converged = ops.less(last, ops.maximum(beyond, step.epsilon * most))
    taken_back = ops.repeat(1, [*s, *([0.0] * tree.nv)], shift, nothing)[len(rows) :]
    return PositionCorrection(goals, s, nothing, taken_back, converged)


def displaced(step: Any, goals: CorrectionGoals, s: Sequence[Scalar]) -> ImpulseDisplacement:
    """Displacement by impulses of the rows that a position correction may push."""
    ops: Ops = step.ops
    G = step.G
    impulses: list[Scalar] = [0.0] * len(G)
    for row, x in zip(goals.rows, s, strict=True):
        impulses[row] = x
    of_rows = step.all_impulses(impulses, goals.taken)
    whole = column(ops, step.space.back_substitution(ops.zeros(step.tree.nv, 1), of_rows))
    moves = [sum((g * x for g, x in zip(G[k], impulses, strict=True)), goals.by_loops[k]) for k in range(len(G))]
    in_laws = list(moves)
    for law_of in step.patches.values():
        for k, y in zip(law_of.rows, law_of.in_law([moves[k] for k in law_of.rows]), strict=True):
            in_laws[k] = y
    moved, turned = largest_of(ops, in_laws, step.weights.rows), largest_of(ops, whole, step.weights.joints)
    by_rows = ops.minimum(MOST_DISPLACEMENT * goals.most / moved, 1.0)
    return ImpulseDisplacement(whole, by_rows, ops.minimum(1.0 / (by_rows * turned), 1.0), column(ops, of_rows), moves)
