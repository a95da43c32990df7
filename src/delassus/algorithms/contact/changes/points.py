"""How momentum, rows of constraints and gaps change with positions and parameters; velocities and impulses are held.

`Contact.candidates` is carried out with changes along the twists of its links, so that what holds for any shape is said
once. Changes with positions of joints follow by the axes of joints. Parameters, what comes with the call beside the
state, are numbers with their rates, at which momentum and rows are computed once more: `Varied`.

Offsets ``κ`` of contacts that turn follow from the robot at the start of a step and ahead, both with such changes, and
from velocities of links (`delassus.constraints.shapes.turning`):

    ∂κ = K G ∂q + K̃ G̃ (A ∂q + B ∂v + C ∂p) + K_V (Ψ ∂q + G ∂v) + ∂κ/∂p ∂p.

``G`` and ``G̃`` are Jacobians of links at the start and ahead, ``Ψ`` how their velocities change with positions, and
``A``, ``B``, ``C`` changes of the positions ahead, with parameters ``p`` too. Derivatives are those of the side of its
cut that a state is on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

from delassus.algorithms.contact.changes.products import Products
from delassus.algorithms.contact.changes.varied import Varied
from delassus.algorithms.contact.solution import robot_ahead
from delassus.algorithms.contact.springs import ImplicitSprings
from delassus.algorithms.contact.step import KernelStep
from delassus.algorithms.dynamics.derivatives.rates import Rates
from delassus.algorithms.dynamics.derivatives.rows import RowChanges, row_changes
from delassus.algorithms.dynamics.integrate import position_update_changes
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.problem import Problem
from delassus.constraints import At, Candidate
from delassus.constraints.contact import spins_of
from delassus.constraints.shapes.turning import ALIKE, NEVER, ROUNDING, Turning, turns
from delassus.model.tree import WORLD
from delassus.spatial.dual_ops import Dual, DualOps
from delassus.spatial.motion import (
    LINEAR,
    column,
    cross_entries,
    cross_matrix,
    dot,
    entries_by_row,
    from_entries,
    from_rows,
    plus,
    plus_scaled,
    scaled_matrix,
)
from delassus.spatial.ops import Matrix, Ops, Scalar

VELOCITY = "velocity"
"""Name of the twists that links have at the start of a step, among what contact points vary with."""

PATH = "path"
"""Name of the velocity (nv) by which links go on their paths, among parameters: contacts depend on it by themselves."""

LATER_PATH = "path from where bodies are placed"
"""The same of a step that starts where an impact has placed bodies."""


AHEAD = "ahead"
"""Name of the twists by which links are displaced at the end of their path, among what offsets vary with."""


class PositionChanges(NamedTuple):
    """Changes with positions of joint forces less those of constraints (nv × nv), and of the former with velocities.

    ``rows``: of what all constraints measure (m × nv); ``gaps``: of contact points (n × nv), by ``rows_of_gaps``.
    """

    ops: Ops
    forces: Matrix
    forces_with_v: Matrix
    rows: Matrix
    gaps: Matrix
    rows_of_gaps: list[int]

    def with_gaps(self, factors: Sequence[Scalar]) -> Matrix:
        """``rows``, those of normals with changes of their gaps, each times its factor."""
        out, gaps = self.ops.entries(self.rows), self.ops.entries(self.gaps)
        for row, factor, change in zip(self.rows_of_gaps, factors, gaps, strict=True):
            out[row] = plus_scaled(out[row], change, factor)
        return self.ops.matrix(out) if out else self.rows


def position_changes(
    motion: DynamicsProblem, M: Matrix, qdd: Sequence[Scalar], velocity: Sequence[Scalar], impulses: Sequence[Scalar],
    products: Products | None = None,
) -> PositionChanges:  # fmt: skip
    """Changes of ``ID(q̈) − Jᵀ p`` and ``J v``, of a motion with mass matrix ``M``, accelerations, ``v`` and ``p``.

    Velocity products are those of the motion, if none are given.
    """
    ops, problem, nv = motion.ops, motion.problem, motion.tree.nv
    rest = motion.at_rest(ops.zeros(nv, 1), ops.zeros(problem.n_rows, 1))
    moved = Rates(rest, rest.by_joint(velocity))
    acting, rows = list[RowChanges](), [ops.zeros(0, nv)]
    gaps, rows_of_gaps = [ops.zeros(0, nv)], list[int]()
    for index, c in enumerate(problem.constraints):
        own = problem.rows[index]
        if not c.n_impulses:
            found = row_changes(rest, moved, index, from_entries(ops, impulses[own]))
        elif c.n_points:
            gap, found = point_changes(problem, index, moved, impulses[own])
            gaps.append(gap)
            rows_of_gaps += [*range(own.start + 2, own.stop, 3)]
        elif spins := spins_of((c,)):
            _, found = point_changes(problem, spins[0].of, moved, impulses[own], spins[0].contact.lengths)
        else:  # rows on a joint
            found = RowChanges(ops.zeros(c.size, nv), ops.zeros(c.size, nv))
        acting.append(found)
        rows.append(found.with_q)
    forces = (products or Products(motion)).force_changes(qdd, M, acting)
    return PositionChanges(ops, *forces, ops.vstack(rows), ops.vstack(gaps), rows_of_gaps)


def momentum_of_lines(
    ops: Ops, springs: ImplicitSprings, J: Matrix, with_gained: Matrix, with_start: Matrix | None = None
) -> Matrix:
    """Changes (nv × nv) with positions of momenta of springs along lines, whose rows of velocities change (m × nv).

    Of velocities that are gained and, if forces count, of those of the start.
    """
    total = ops.zeros(*[ops.shape(J)[1]] * 2)
    for row, mass, ahead, stiff in springs.factors_of_lines():
        own, change = ops.take(J, (row,), None), scaled_matrix(ops, mass, ops.take(with_gained, (row,), None))
        if with_start is not None:
            change = change + scaled_matrix(ops, ahead, ops.take(with_start, (row,), None))
            change = change + scaled_matrix(ops, stiff, own)
        total = total + ops.transpose(own) @ change
    return total


def error_changes(rest: DynamicsProblem) -> Matrix:
    """Changes (m × nv) of position errors of bilateral constraints with positions; zero of other rows."""
    ops, nv, out = rest.ops, rest.tree.nv, [rest.ops.zeros(0, rest.tree.nv)]
    still = Rates(rest, rest.by_joint([0.0] * nv))
    wanting = rest.with_goals([replace(goal, position_gain=1.0) for goal in rest.goals])
    for index, c in enumerate(rest.problem.constraints):
        out.append(ops.zeros(c.size, nv) if c.n_impulses else row_changes(wanting, still, index).with_q)
    return ops.vstack(out)


def point_changes(
    problem: Problem, index: int, moved: Rates, impulses: Sequence[Scalar], spins: Sequence[tuple[int, float]] = ()
) -> tuple[Matrix, RowChanges]:
    """Changes of gaps (n × nv) of the contact ``index``, and of what its rows measure and its impulses (3 n) exert.

    ``moved``: at rest, its accelerations are velocities. With ``spins``, axes and lengths, of those rows.
    """
    ops, tree = problem.ops, problem.tree
    links = [link for link in problem.constraints[index].carriers(tree) if link != WORLD]
    to_link = {link: _to_link(ops, moved.poses[link]) for link in links}
    twists = {link: column(ops, to_link[link] @ moved.a[link]) for link in links}
    ways = _ways(problem, moved, links)
    turns = {link: moved.of_link(link, moved.xi) for link in links}
    gaps, rows = list[Matrix](), list[Matrix]()
    wrenches: dict[int, list[Any]] = {link: [Dual(0.0)] * 6 for link in links}
    robot = problem.once(_displaced)
    rotations = robot.link_rotations
    for k, (candidate, now) in enumerate(zip(robot.candidates[index], problem.candidates[index], strict=True)):
        n = len(spins) or 3
        p, belt = impulses[n * k : n * k + n], [*candidate.belt, *([Dual(0.0)] * (3 - len(candidate.belt)))]
        force = [dot(row, p) for row in candidate.axes.tolist()] if not spins else [cast(Any, Dual(0.0))] * 3
        torque = _about(candidate, spins, p)
        u: list[Any] = _spins(candidate, rotations, twists, spins)
        own = ops.zeros(n, tree.nv)
        if not spins:
            u = plus(belt, _velocity(candidate, rotations, twists))
        for sign, (link, arm) in zip((1.0, -1.0), candidate.arms.items(), strict=False):
            r, back = [row[0] for row in arm.tolist()], list(zip(*rotations[link].tolist(), strict=True))
            moment = plus(torque, cross_entries(r, force)) if spins else cross_entries(r, force)
            parts = [dot(row, [sign * f for f in x]) for x in (force, moment) for row in back]
            wrenches[link] = plus(wrenches[link], parts)
            K = _common_rows(problem, moved, link, now, spins)
            own = own + (K if sign > 0.0 else -K) @ turns[link]
        both = _along(ops, [*u, candidate.gap], ways)
        rows.append(own + ops.take(both, range(n), None))
        gaps.append(ops.take(both, (n,), None))
    at_links, changes = dict[int, Matrix](), dict[int, Matrix]()
    for link, W in wrenches.items():
        own = ops.transpose(to_link[link])
        at_links[link] = own @ from_entries(ops, [x.x for x in W])
        changes[link] = ops.zeros(6, tree.nv)
        for other, (to_other, S) in ways.items():
            by_twist = ops.matrix([[x.rate((other, k)) for k in range(6)] for x in W])
            changes[link] = changes[link] + (own @ by_twist @ to_other) @ S
    return ops.vstack(gaps), RowChanges(ops.vstack(rows), ops.zeros(len(rows), tree.nv), at_links, changes)


def mobility_changes(
    problem: Problem, index: int, moved: Sequence[Sequence[Rates]], parts: Sequence[Sequence[Scalar]],
    spins: Sequence[tuple[int, float]],
) -> list[Matrix]:  # fmt: skip
    """Changes (1 × nv) of ``Σ c_k J_k x_k`` over the rows k of each point of the contact ``index``, times ``parts``.

    Of each point ``moved``: at rest, its accelerations are ``x_k``, one for each row. ``spins``: axes and lengths.
    """
    ops, nv = problem.ops, problem.tree.nv
    links = [link for link in problem.constraints[index].carriers(problem.tree) if link != WORLD]
    to_link = {link: _to_link(ops, moved[0][0].poses[link]) for link in links}
    ways, out = _ways(problem, moved[0][0], links), list[Matrix]()
    robot = problem.once(_displaced)
    rotations = robot.link_rotations
    for k, (candidate, now) in enumerate(zip(robot.candidates[index], problem.candidates[index], strict=True)):
        total, own = Dual(0.0), ops.zeros(1, nv)
        for i, (of_row, part) in enumerate(zip(moved[k], parts[k], strict=True)):
            twists = {link: column(ops, to_link[link] @ of_row.a[link]) for link in links}
            if i < 3:
                total = total + _velocity(candidate, rotations, twists)[i] * part
            else:
                total = total + _spins(candidate, rotations, twists, spins)[i - 3] * part
            for sign, link in zip((1.0, -1.0), candidate.arms, strict=False):
                K = _common_rows(problem, of_row, link, now, () if i < 3 else spins)
                K = scaled_matrix(ops, part, ops.take(K, (i if i < 3 else i - 3,), None))
                own = own + (K if sign > 0.0 else -K) @ of_row.of_link(link, of_row.xi)
        out.append(own + _along(ops, [total], ways))
    return out


def _velocity(candidate: Any, rotations: Mapping[int, Any], twists: Mapping[int, Sequence[Scalar]]) -> list[Any]:
    """Velocity (3) along the axes of a candidate whose links have twists in their body axes."""
    u, along = [Dual(0.0)] * 3, candidate.axes.T.tolist()
    for sign, (link, arm) in zip((1.0, -1.0), candidate.arms.items(), strict=False):
        R, r, V = rotations[link].tolist(), [row[0] for row in arm.tolist()], twists[link]
        about = [[sign * dot(row, x) for row in R] for x in (V[:3], V[3:])]
        velocity = plus(about[0], cross_entries(about[1], r))
        u = [a + dot(axis, velocity) for a, axis in zip(u, along, strict=True)]
    return u


def _spins(
    candidate: Any, rotations: Mapping[int, Any], twists: Mapping[int, Sequence[Scalar]],
    spins: Sequence[tuple[int, float]],
) -> list[Any]:  # fmt: skip
    """Angular velocities about axes of a candidate, times lengths."""
    omega: list[Any] = [Dual(0.0)] * 3
    for sign, link in zip((1.0, -1.0), candidate.arms, strict=False):
        omega = plus(omega, [sign * dot(row, twists[link][3:]) for row in rotations[link].tolist()])
    along = candidate.axes.T.tolist()
    return [length * dot(along[axis], omega) for axis, length in spins]


def _about(candidate: Any, spins: Sequence[tuple[int, float]], p: Sequence[Scalar]) -> list[Any]:
    """Torque (3) of impulses of spins."""
    along, out = candidate.axes.T.tolist(), list[Any]([Dual(0.0)] * 3)
    for (axis, length), x in zip(spins, p, strict=False):
        out = plus(out, [y * (x * length) for y in along[axis]])
    return out


def _common_rows(
    problem: Problem, moved: Rates, link: int, point: Candidate, spins: Sequence[tuple[int, float]] = ()
) -> Matrix:
    """Rows (3 × 6) of a contact point on the twist of one of its links in the common frame; or those of ``spins``."""
    ops, place = problem.ops, moved.poses[link][1]
    axes, arm = point.axes, point.arms[link]
    if moved.root == WORLD:
        at = place + arm
    else:
        back = ops.transpose(problem.link_rotations[moved.root])
        axes, at = back @ axes, place + back @ arm
    along = ops.transpose(axes)
    if spins:
        turns = [scaled_matrix(ops, length, ops.take(along, (axis,), None)) for axis, length in spins]
        return ops.hstack([ops.zeros(len(turns), 3), ops.vstack(turns)])
    return ops.hstack([along, -(along @ cross_matrix(ops, at))])


def _to_link(ops: Ops, pose: tuple[Matrix, Matrix]) -> Matrix:
    """Twists of the common frame in the axes of a link with that pose (6 × 6)."""
    R, p = pose
    back = ops.transpose(R)
    return ops.vstack([ops.hstack([back, -(back @ cross_matrix(ops, p))]), ops.hstack([ops.zeros(3, 3), back])])


def _ways(problem: Problem, moved: Rates, links: Sequence[int]) -> dict[Hashable, tuple[Matrix, Matrix]]:
    """What contact points vary with: twists by which links are displaced, and those they have at the start of the step.

    Of each, twists of the common frame in the axes of the link (6 × 6), and changes there with positions (6 × nv).
    """
    out = dict[Hashable, tuple[Matrix, Matrix]]()
    for link in links if problem.path is None else _carriers(problem):
        to_link = _to_link(problem.ops, moved.poses[link])
        out[link] = to_link, moved.of_link(link, moved.S)
        if problem.path is not None:
            start = problem.once(_at_start)
            out[VELOCITY, link] = to_link, start.of_link(link, start.psi)
    return out


def _at_start(problem: Problem) -> Rates:
    """Links at the start of the step, whose velocities the paths of pairs follow from."""
    assert problem.path is not None, "asked for on paths"
    motion = cast(DynamicsProblem, problem.path.motion)
    return Rates(motion, motion.by_joint([0.0] * problem.tree.nv))


def _carriers(problem: Problem) -> list[int]:
    """Links that move and are part of any contact."""
    return sorted({link for points in problem.candidates.values() for link in points[0].arms})


def _along(ops: Ops, numbers: Sequence[Any], ways: Mapping[Hashable, tuple[Matrix, Matrix]]) -> Matrix:
    """Changes (k × nv) of k numbers that vary in these ways."""
    total = ops.zeros(len(numbers), ops.shape(next(iter(ways.values()))[1])[1])
    for key, (to_link, S) in ways.items():
        total = total + (ops.matrix([[x.rate((key, k)) for k in range(6)] for x in numbers]) @ to_link) @ S
    return total


def _displaced(problem: Problem) -> Any:
    """The robot as its contacts see it, and these, with changes along twists of links in body axes.

    ``R (1 + ω ×)``, ``o + R v``. On the paths of a step, with those along the twists that links have, too.
    """
    robot, path = _varying(problem), problem.path
    if path is not None:
        V = {link: _with_velocity(robot.ops, path.motion.V[link], link) for link in robot.origins}
        path = path._replace(h=cast(Scalar, Dual(path.h)))
        robot.candidates = path.candidates(robot, cast(Sequence[Matrix], V))
    return robot


def _with_velocity(ops: DualOps, V: Matrix, link: int) -> Any:
    """Twist (6 × 1) of a link in body axes, with its changes."""
    return ops.lifted(V, lambda k, _: {((VELOCITY, link), k): 1.0})


def _varying(problem: Problem, name_of: Callable[[int], Hashable] = lambda link: link) -> Any:
    """The robot as its contacts see it, and these, with changes along twists of links in body axes, by their names."""
    ops, links, contacts = DualOps(problem.ops), _carriers(problem), problem.candidates
    rotations, origins = dict[int, Any](), dict[int, Any]()
    for link in links:
        R, own = problem.ops.entries(problem.link_rotations[link]), name_of(link)

        turns = dict[tuple[int, int], Any]()
        for i, j in product(range(3), repeat=2):
            a, b = (j + 1) % 3, (j + 2) % 3  # column j of R ω ×
            turns[i, j] = {(own, 3 + b): R[i][a], (own, 3 + a): -R[i][b]}
        rotations[link] = ops.lifted(problem.link_rotations[link], lambda i, j, turns=turns: turns[i, j])  # type: ignore[misc]
        steps = {i: {(own, k): R[i][k] for k in LINEAR} for i in LINEAR}
        origins[link] = ops.lifted(problem.origins[link], lambda i, _, steps=steps: steps[i])  # type: ignore[misc]
    inputs = dict[str, Any]()
    for argument in (a for index in contacts for a in problem.constraints[index].arguments(index)):
        given, name = problem.inputs[argument.name], argument.name
        is_matrix = len(argument.shape) == 2
        inputs[name] = ops.lifted(given) if is_matrix else [given[k] for k in range(argument.size)]
    robot = SimpleNamespace(
        ops=ops, tree=problem.tree, link_rotations=rotations, origins=origins, inputs=inputs,
        constraints=problem.constraints,
    )  # fmt: skip
    robot.candidates = {k: problem.constraints[k].candidates(At(cast(Any, robot), k)) for k in contacts}
    return robot


def turning_changes(step: KernelStep, varied: Varied) -> tuple[Matrix, list[Scalar]]:
    """Changes of ``κ`` (3 n × (2 nv + k)) of contact points with positions, velocities of the start, and parameters.

    And velocities (n, m/s) by which points are apart from where offsets are cut, or are not. Neither is looked for
    where no contact turns.
    """
    ops, problem, path = step.ops, step.problem, step.path
    n, total = len(step.points), 2 * step.tree.nv + len(varied.parameters)
    if not n:
        return ops.zeros(0, total), []
    twists = path.twists(problem)

    def found(_: list[Scalar]) -> tuple[list[Scalar], Scalar]:
        ahead = robot_ahead(problem, step.q, step.v, step.h)
        distances = Turning(problem, ahead, twists, step.h, path.closed, _alike(step)).distances()
        return [*distances, *entries_by_row(ops, _changes(step, ahead, varied))], 1.0

    nothing = 1.0 - turns(problem, twists, path)
    made = ops.repeat(1, [NEVER] * n + [0.0] * (3 * n * total), found, nothing)
    return from_rows(ops, made[n:], total), made[:n]


def _changes(step: KernelStep, ahead: Problem, varied: Varied) -> Matrix:
    """All of them side by side (3 n × (2 nv + k))."""
    ops, problem, path, nv, k = step.ops, step.problem, step.path, step.tree.nv, len(varied.parameters)
    still = [ops.zeros(joint.nv, 1) for joint in step.tree.joints]
    start, end = Rates(step.motion, still), Rates(DynamicsProblem(ahead, None, None, gravity=ops.zeros(3, 1)), still)
    with_q, moved, _ = position_update_changes(varied.problem, list(step.v), varied.h, [0.0] * nv, varied.parameters)
    moving = ops.hstack([with_q, ops.take(moved, None, [*range(nv), *range(2 * nv, 2 * nv + k)])])
    robot, later = problem.once(_displaced), _varying(ahead, lambda link: (AHEAD, link))
    twists, by_twists = dict[int, Any](), dict[Hashable, tuple[Matrix, Matrix]]()
    none = ops.zeros(6, nv), ops.zeros(6, k)
    for link in robot.origins:
        twists[link] = _with_velocity(robot.ops, step.motion.V[link], link)
        to_link, (S, turned) = _to_link(ops, start.poses[link]), (start.of_link(link, x) for x in (start.S, start.psi))
        by_twists[link] = to_link, ops.hstack([S, *none])
        by_twists[VELOCITY, link] = to_link, ops.hstack([turned, S, none[1]])
        by_twists[AHEAD, link] = _to_link(ops, end.poses[link]), end.of_link(link, end.S) @ moving
    h = cast(Scalar, Dual(step.h))
    found = Turning(robot, later, path.twists(robot, cast(Any, twists)), h, path.closed, _alike(step)).offsets()
    total = _along(ops, [x for own in found for x in own], by_twists)

    # by parameters, places of the path and velocities being held
    dual, held = varied.ops, ahead.held(varied.ops, {**varied.problem.inputs, "q": ahead.q})
    V = {link: dual.lifted(step.motion.V[link]) for link in robot.origins}
    twists_held = path.twists(varied.problem, cast(Any, V))
    found = Turning(varied.problem, held, twists_held, varied.h, path.closed, _alike(step)).offsets()
    own = varied.rates([x for each in found for x in each])
    at = [j for j, key in enumerate(varied.parameters) if cast(Any, key)[0] != PATH]  # that is by velocities
    rows = range(3 * len(step.points))
    return total + ops.put(ops.take(own, None, at), ops.shape(total), rows, [2 * nv + j for j in at])


def _alike(step: KernelStep) -> Scalar:
    """Velocity (m/s) up to which offsets are of no matter."""
    return step.ops.maximum(ALIKE, ROUNDING * step.ops.epsilon * step.over_h)
