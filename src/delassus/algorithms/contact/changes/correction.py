"""Derivatives of the position correction of a step, in the modes of its solution.

Rows that are pushed move to their bounds, ``J x + D s = b``, with ``M x = Jᵀ s``; loops that gape move back with their
errors. Limits, whose rows are single joints, add ``1 / D`` to the diagonal of ``M`` instead. The compliance ``D`` is a
part of mobilities ``J_k x_k``, ``M x_k = J_kᵀ``, whose changes are ``2 ∂J_k x_k − x_kᵀ ∂M x_k``; of limits under loops,
``M x_k = J_kᵀ − J_lᵀ μ``, they are ``2 μᵀ ∂J_l x_k`` less. With momenta ``I_i V_i`` of links that move by ``x_k``,
``½ x_kᵀ ∂M x_k = ψ_jᵀ Σ I_i V_i`` over the links beyond joint j (`Rates`). Displacements that rows or joints cut off
change with the largest of these, and of what is wanted.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import reduce
from operator import add
from typing import Any, cast

from delassus.algorithms.blocks import at_joints, together
from delassus.algorithms.contact import law
from delassus.algorithms.contact.changes.points import (
    PositionChanges,
    error_changes,
    mobility_changes,
    momentum_of_lines,
    position_changes,
)
from delassus.algorithms.contact.changes.response import inverted
from delassus.algorithms.contact.changes.varied import Varied
from delassus.algorithms.contact.correction import ImpulseDisplacement, displaced
from delassus.algorithms.contact.law import COMPLIANCE, CORRECTION
from delassus.algorithms.contact.problem import Bounds, largest_of, magnitude
from delassus.algorithms.contact.solution import StepSolution
from delassus.algorithms.contact.springs import ImplicitSprings
from delassus.algorithms.contact.step import KernelStep
from delassus.algorithms.dynamics.derivatives.rates import CompositeBody, Rates
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.osim.ltl import dense_rows
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.constraints.contact import spins_of
from delassus.constraints.joint_rows import bounded_joints_of
from delassus.model.tree import WORLD
from delassus.spatial.dual_ops import Dual, rates_of, value
from delassus.spatial.motion import column, diagonal, from_entries, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar

TURNING = "turning"
"""Name of what contacts turn by along their normals."""


def bound_changes(
    step: KernelStep, found: StepSolution, J: Matrix, changes: PositionChanges, varied: Varied
) -> tuple[Matrix, Matrix, Matrix, list[Scalar]]:
    """Changes of bounds of rows that may be pushed (r × …): with positions, velocities after the step, and parameters.

    And with what contacts turn by along their normals (r).
    Velocities are with displacements by impacts over the time step.
    Those of limits are changes of where the joint is after it. ``J`` and ``changes`` are those of the step.
    """
    ops, nv, n, v = step.ops, step.tree.nv, len(step.points), found.solved.velocity
    dual, joints, moving = varied.ops, bounded_joints_of(step.problem.constraints), varied.along_rows(v)
    displaced = [] if found.impact is None else varied.along_rows(found.impact.late)

    def with_rates(x: Any, **by: Sequence[Scalar]) -> Dual:
        of_state: dict[Hashable, Scalar] = {
            (name, k): rate for name, rates in by.items() for k, rate in enumerate(rates)
        }
        return Dual(value(x), {**rates_of(x), **of_state})

    bounds, h = list[Any](), varied.h
    rows, gaps, rows_of_v = (ops.entries(a) for a in (changes.rows, changes.gaps, J))
    for row in found.correction.goals.rows:
        u = found.solved.outcome.velocities[row]
        if row >= 3 * n:
            joint = joints[row - 3 * n].dof
            bounds.append(Dual(0.0, {("q", joint): 1.0}) + h * Dual(u, {("v", joint): 1.0}))
            continue
        own = step.others[row]
        gap = with_rates(varied.points[row // 3][0].gap, q=gaps[row // 3])
        turning = Dual(found.turning[row // 3][2], {TURNING: 1.0})
        moved = h * (with_rates(Dual(u, rates_of(moving[own])), q=rows[own], v=rows_of_v[own]) + turning)
        if displaced:
            moved = moved + displaced[own]
        bounds.append(law.gap_correction(dual, gap, moved, step.penetration, CORRECTION)[1])
    states = ([(name, k) for k in range(nv)] for name in ("q", "v"))
    with_q, with_v, with_parameters = (dual.rates(bounds, keys) for keys in (*states, varied.parameters))
    with_moved = [rates_of(x).get(TURNING, 0.0) for x in bounds]
    return with_q, with_v, with_parameters, with_moved


def displacement_changes(
    step: KernelStep, found: StepSolution, M: Matrix, s: Sequence[Scalar], gaps: Matrix, varied: Varied
) -> tuple[Matrix, Scalar]:
    """Changes of the displacement by impulses ``s`` with positions, bounds held, with bounds, and with parameters.

    (nv × (nv + r + k).) And 1 where velocities change no bound, else 0. ``gaps`` (n × nv): theirs with positions.
    """
    ops, nv, problem, n = step.ops, step.tree.nv, step.problem, len(step.points)
    goals, joints = found.correction.goals, bounded_joints_of(step.problem.constraints)
    moved_by = displaced(step, goals, s)
    flags, compliance = list[Scalar](), list[Scalar]()
    for k, row in enumerate(goals.rows):
        compliance.append(goals.mobility[k] - step.G[row][row])
        flags.append(_pushes(ops, goals.bounds[k], s[k], moved_by.moves[row] + compliance[k] * s[k], goals.mobility[k]))
    points = [k for k, row in enumerate(goals.rows) if row < 3 * n]
    limits = {joints[row - 3 * n].dof: k for k, row in enumerate(goals.rows) if row >= 3 * n}

    # limits: springs of their joints
    springs = {dof: flags[k] / compliance[k] for dof, k in limits.items()}
    added = at_joints(ops, step.tree, springs)
    L = SparseFactor(problem, together(ops, step.added, added), {}) if added else step.space.L
    rest = found.motion.at_rest(ops.zeros(nv, 1), ops.zeros(problem.n_rows, 1))
    exerted = moved_by.of_rows
    if step.springs is not None:
        exerted = step.springs.with_lines(exerted, step.springs.masses_along(moved_by.whole))
    turned = position_changes(rest, M, moved_by.whole, moved_by.whole, exerted)
    of_positions = turned.forces
    if step.springs is not None and step.springs.lines:
        of_positions = of_positions + momentum_of_lines(ops, step.springs, jacobian(problem), turned.rows)
    softer = _compliance_changes(step, rest, goals.rows, goals.least, varied)

    # M dx − Jᵀ ds = −ρ, J dx + D ds = σ: columns of positions, then of bounds, then of parameters
    r = len(goals.rows)
    width = nv + r + len(varied.parameters)
    others = [*range(nv), *range(nv + r, width)]
    rho = ops.hstack([of_positions, ops.zeros(nv, r), varied.momentum(moved_by.whole, moved_by.of_rows)])
    for dof, k in limits.items():
        moved = found.solved.outcome.velocities[goals.rows[k]] * step.h + found.displaced[goals.rows[k]]
        rate = _of_limit(ops, step.distances(joints[goals.rows[k] - 3 * n]), moved, s[k], goals.beyond)
        rho = rho - ops.put(ops.matrix([[springs[dof] * rate]]), ops.shape(rho), (dof,), (nv + k,))
        rho = rho + ops.put(scaled_matrix(ops, springs[dof] * s[k], softer[k]), ops.shape(rho), (dof,), others)
    (z,) = ops.by_column(lambda x: [-ops.vstack(L.solve_transpose(x))], rho)
    turning = ops.hstack([turned.rows, varied.rows(moved_by.whole)])
    loops = step.closed_loops(L)
    if loops is not None:
        gaping = _gap_changes(found, rest, varied)
        opening = ops.put(
            -ops.take(turning + gaping, step.loops, None), (len(step.loops), width), range(len(step.loops)), others
        )
        z = loops.kept(z) + loops.moving(opening)
    rows = [step.others[goals.rows[k]] for k in points]
    if rows:
        every = diagonal(ops, [flags[k] for k in points])
        beside = [flags[k] * compliance[k] + (1.0 - flags[k]) for k in points]
        open_Y = Y = every @ ops.take(dense_rows(problem, L), rows, None)
        if loops is not None:
            Y = ops.transpose(loops.kept(ops.transpose(Y)))
        G = ops.sym_add(ops.sym_product(Y, ops.transpose(Y)), diagonal(ops, beside))
        wanted = ops.put(ops.eye(len(points)), (len(rows), width), range(len(points)), [nv + k for k in points])
        yielding = ops.vstack([scaled_matrix(ops, s[k], softer[k]) for k in points])
        held = ops.take(turning, rows, None) + yielding
        sigma = ops.put(-held, (len(rows), width), range(len(rows)), others) + wanted
        pushes = ops.product(inverted(ops, G), every @ sigma - ops.product(open_Y, z))
        z = z + ops.product(ops.transpose(Y), pushes)
    change, is_cut = _cut_off(step, found, moved_by, L, z, turning, gaps, varied)
    return change, 1.0 - _moving(step, found, flags, is_cut if limits else cast(Scalar, 0.0))


def _moving(step: KernelStep, found: StepSolution, flags: Sequence[Scalar], is_cut: Scalar) -> Scalar:
    """1 where velocities change the bound of a row that is pushed, or where ``is_cut`` is, else 0."""
    ops, n, moving = step.ops, len(step.points), is_cut
    for k, row in enumerate(found.correction.goals.rows):
        moved = step.h * found.solved.outcome.velocities[row] + found.displaced[row]
        if row < 3 * n:
            moved = moved + step.h * found.turning[row // 3][2]
        left = step.points[row // 3][0].gap + moved if row < 3 * n else 1.0
        moving = ops.maximum(moving, flags[k] * ops.less(0.0, left))
    return moving


def _cut_off(
    step: KernelStep, found: StepSolution, moved_by: ImpulseDisplacement, L: SparseFactor, z: Matrix, turning: Matrix,
    gaps: Matrix, varied: Varied,
) -> tuple[Matrix, Scalar]:  # fmt: skip
    """Changes of a displacement from those before it is cut off, ``L⁻ᵀ z``, and 1 where rows cut it off, else 0.

    What moves most moves as far as it may: of rows, then of joints. ``turning`` are changes of what rows move by it.
    """
    ops, problem, nv, r = step.ops, step.problem, step.tree.nv, len(found.correction.goals.rows)
    width = nv + r + len(varied.parameters)
    others = [*range(nv), *range(nv + r, width)]
    is_cut = [ops.less(part, 1.0) for part in (moved_by.by_rows, moved_by.by_joints)]
    of_moves, by_units = _of_moves(step, moved_by.moves, varied)
    of_joints = _of_largest(ops, moved_by.whole, step.weights.joints)
    farthest = ops.put(of_moves, (1, problem.n_rows), (0,), step.others)
    along = farthest @ jacobian(problem)
    whole = from_entries(ops, moved_by.whole)

    def taken(z: Matrix, farther: Matrix) -> list[Matrix]:
        change = L.solved(z)
        change = change - whole @ scaled_matrix(ops, is_cut[0], along @ change + farther)
        change = change - whole @ scaled_matrix(ops, is_cut[1], of_joints @ change)
        return [scaled_matrix(ops, moved_by.part, change)]

    apart = ops.put(farthest @ turning, (1, width), (0,), others) - _most_wanted(step, found, gaps, varied)
    if by_units is not None:
        apart = apart + ops.put(by_units, (1, width), (0,), range(nv + r, width))
    (change,) = ops.by_column(taken, z, apart)
    return change, is_cut[0]


def _of_moves(step: KernelStep, moves: Sequence[Scalar], varied: Varied) -> tuple[Matrix, Matrix | None]:
    """Relative changes (1 × m) of the most that a row moves, with that of each; and (1 × k) with units of patches."""
    ops, in_laws, units = step.ops, list(moves), list[Scalar]([1.0] * len(moves))
    for law_of in step.patches.values():
        for row, unit in zip(law_of.rows, law_of.units, strict=True):
            in_laws[row], units[row] = unit * moves[row], unit
    of_laws = _of_largest(ops, in_laws, step.weights.rows)
    if not step.patches:
        return of_laws, None
    changes = list[Any](in_laws)
    for patch in varied.patches.values():
        for row, unit in zip(patch.rows, patch.units, strict=True):
            changes[row] = Dual(in_laws[row], {key: moves[row] * x for key, x in rates_of(unit).items()})
    return of_laws @ diagonal(ops, units), of_laws @ varied.rates(changes)


def _compliance_changes(
    step: KernelStep, rest: DynamicsProblem, rows: Sequence[int], least: Scalar, varied: Varied
) -> list[Matrix]:
    """Changes (1 × (nv + k)) with positions and parameters of the compliance of rows that a correction may push."""
    ops, problem, n = step.ops, step.problem, 3 * len(step.points)
    Y = ops.take(dense_rows(problem, step.space.L), step.others, None)
    of_rows, mu, loops = ops.transpose(Y), ops.zeros(0, 0), step.closed_loops(step.space.L)
    end = len(step.others) - len(step.lengths)
    limits, of_points = range(n, end), [*range(n), *range(end, len(step.others))]
    if loops is not None and limits:
        closed = ops.take(of_rows, None, limits)
        mu, closed = loops.impulses(closed), loops.kept(closed)
        parts = [ops.take(of_rows, None, range(n)), closed, ops.take(of_rows, None, range(end, len(step.others)))]
        of_rows = ops.hstack(parts)
    (X,) = ops.by_column(lambda y: [step.space.L.solved(y)], of_rows)
    columns = [ops.take(X, None, (k,)) for k in range(len(step.others))]
    moved = {k: Rates(rest, rest.by_joint(column(ops, columns[k]))) for k in of_points}
    bodies = Rates(rest, rest.by_joint([0.0] * step.tree.nv)).bodies

    def kinetic(x: Matrix) -> list[Matrix]:
        return [_twice_kinetic_changes(Rates(rest, rest.by_joint(column(ops, x))), bodies)]

    changes = [
        -ops.hstack([of_positions, ops.transpose(x) @ varied.momentum(column(ops, x), [])])
        for (of_positions,), x in zip(ops.map(kinetic, [[x] for x in columns]), columns, strict=True)
    ]
    for k in limits if loops is not None else ():
        x = column(ops, columns[k])
        by_q = position_changes(rest, ops.zeros(*[step.tree.nv] * 2), x, x, [0.0] * problem.n_rows).rows
        turning = ops.take(ops.hstack([by_q, varied.rows(x)]), step.loops, None)
        taken = ops.transpose(ops.take(mu, None, (k - n,))) @ turning
        changes[k] = changes[k] - scaled_matrix(ops, 2.0, taken)
    if step.springs is not None and step.springs.lines:
        changes = _with_masses_of_springs(step, step.springs, rest, columns, changes)
    laws, turned, first = [step.law(k, 0.0) for k in range(len(step.points))], list[Matrix](), 0
    squares = [[unit * unit for unit in x.units] for x in laws]
    lengths = {c.of: c.contact.lengths for c in spins_of(problem.constraints)}
    for index, c in enumerate(problem.constraints):
        if c.n_points:
            own = slice(first, first + c.n_points)
            of_each = [[moved[k] for k in x.rows] for x in laws[own]]
            turned += mobility_changes(problem, index, of_each, squares[own], lengths.get(index, ()))
            first = own.stop
    own_rows = {k: ops.take(varied.rows(column(ops, columns[k])), (step.others[k],), None) for k in of_points}
    out = list[Matrix]()
    for row in rows:
        if row >= n:
            out.append(scaled_matrix(ops, COMPLIANCE, changes[row]))
            continue
        own_law, each = laws[row // 3], squares[row // 3]
        mean = sum(own_law.sizes(step.size_of), cast(Scalar, 0.0)) * (1.0 / 3.0)
        part = COMPLIANCE / 3.0 * ops.less(least, mean)
        inert = reduce(add, [scaled_matrix(ops, y, changes[k]) for k, y in zip(own_law.rows, each, strict=True)])
        rowwise = reduce(add, [scaled_matrix(ops, y, own_rows[k]) for k, y in zip(own_law.rows, each, strict=True)])
        own_part = ops.hstack([turned[row // 3], rowwise])
        whole = scaled_matrix(ops, 2.0, own_part) + inert
        if row // 3 in varied.patches:
            sizes = varied.patches[row // 3].sizes([Dual(y) for y in step.size_of])
            of_units = varied.rates([sum(sizes, Dual(0.0))])
            whole = whole + ops.hstack([ops.zeros(1, step.tree.nv), of_units])
        out.append(scaled_matrix(ops, part, whole))
    return out


def _with_masses_of_springs(
    step: KernelStep,
    springs: ImplicitSprings,
    rest: DynamicsProblem,
    columns: Sequence[Matrix],
    changes: Sequence[Matrix],
) -> list[Matrix]:
    """Changes of minus ``xᵀ M x`` with those of the masses that springs along lines add, with positions."""
    ops, out, none = step.ops, list[Matrix](), [cast(Scalar, 0.0)] * step.problem.n_rows
    for column_of_x, change in zip(columns, changes, strict=True):
        x = column(ops, column_of_x)
        by_q = position_changes(rest, ops.zeros(*[step.tree.nv] * 2), x, x, none).rows
        for row, mass, *_ in springs.factors_of_lines():
            along = ops.transpose(ops.take(jacobian(step.problem), (row,), None) @ column_of_x)
            part = along @ scaled_matrix(ops, 2.0 * mass, ops.take(by_q, (row,), None))
            change = change - ops.put(part, ops.shape(change), (0,), range(step.tree.nv))
        out.append(change)
    return out


def _gap_changes(found: StepSolution, rest: DynamicsProblem, varied: Varied) -> Matrix:
    """Changes (m × (nv + k)) of how far rows of loops that gape move back, with positions and parameters."""
    ops, rows = rest.ops, rest.problem.rows
    parts: list[Scalar] = [0.0] * rest.problem.n_rows
    for block in found.moved.blocks:
        for k in block.loops:
            parts[rows[k]] = [CORRECTION * (1.0 - block.smooth.closed)] * (rows[k].stop - rows[k].start)
    return diagonal(ops, parts) @ ops.hstack([error_changes(rest), varied.errors()])


def _twice_kinetic_changes(rates: Rates, bodies: Sequence[CompositeBody]) -> Matrix:
    """Changes (1 × nv) of ``xᵀ M x`` with positions, ``x`` the accelerations at rest."""
    ops, tree = rates.motion.ops, rates.motion.tree
    momenta = [body.times(ops, a) for body, a in zip(bodies, rates.a, strict=True)]
    for i in tree.leaves_to_root():
        if (p := tree.parents[i]) != WORLD:
            momenta[p] = momenta[p] + momenta[i]
    parts = [ops.transpose(H) @ xi for H, xi in zip(momenta, rates.xi, strict=True)]
    return scaled_matrix(ops, 2.0, ops.hstack(parts))


def _pushes(ops: Ops, bounds: Bounds, s: Scalar, moved: Scalar, mobility: Scalar) -> Scalar:
    """1 where a row with the impulse ``s`` moves to one of its bounds, else 0."""
    flag: Scalar = 0.0
    for bound, sign in zip(bounds, (1.0, -1.0), strict=True):
        if bound is not None:
            flag = ops.maximum(flag, ops.less(0.0, sign * (s * mobility - (moved - bound))))
    return flag


def _of_limit(ops: Ops, distances: Sequence[Scalar | None], moved: Scalar, s: Scalar, beyond: Scalar) -> Scalar:
    """Change of the bound of a limit that acts, with where the joint is after the step."""
    rate: Scalar = 0.0
    for distance, side in zip(distances, (1.0, -1.0), strict=True):
        if distance is not None:
            after = distance + side * moved
            own = -(CORRECTION * ops.less(after, -beyond) + ops.less(0.0, after))
            rate = ops.select(ops.less(0.0, side * s), own, rate)
    return rate


def _most_wanted(step: KernelStep, found: StepSolution, gaps: Matrix, varied: Varied) -> Matrix:
    """Changes (1 × (nv + r + k)) of the most that is wanted, over it, with positions, bounds and parameters."""
    ops, n, goals = step.ops, len(step.points), found.correction.goals
    joints, wanted, sides = bounded_joints_of(step.problem.constraints), list[Scalar](), list[tuple[int, float]]()
    for k, row in enumerate(goals.rows):
        moved = step.h * found.solved.outcome.velocities[row] + found.displaced[row]
        if row < 3 * n:
            gap = step.points[row // 3][0].gap
            wanted.append(law.gap_correction(ops, gap, moved, step.penetration, CORRECTION)[0])
            sides.append((k, 1.0))
            continue
        for distance, side in zip(step.distances(joints[row - 3 * n]), (1.0, -1.0), strict=True):
            if distance is not None:
                after = distance + side * moved
                wanted.append(law.limit_correction(ops, after, CORRECTION, goals.beyond)[0])
                sides.append((k, side))
    rates: list[Scalar] = [0.0] * len(goals.rows)  # of points with gaps, of limits with where the joint is
    by = [step.weights.rows[goals.rows[k]] for k, _ in sides]
    ((*parts,),) = ops.entries(_of_largest(ops, wanted, by, goals.most))
    for (k, side), part in zip(sides, parts, strict=True):
        rates[k] = rates[k] - CORRECTION * side * part
    nv, m = step.tree.nv, len(goals.rows)
    of_gaps = ops.hstack([gaps, ops.zeros(n, m), varied.rates([c.gap for c, *_ in varied.points])])
    out = ops.put(ops.matrix([[0.0] * n + rates[n:]]), (1, ops.shape(of_gaps)[1]), (0,), range(nv, nv + m))
    return out + ops.matrix([rates[:n]]) @ of_gaps if n else out


def _of_largest(ops: Ops, values: Sequence[Scalar], by: Sequence[float], largest: Scalar | None = None) -> Matrix:
    """Relative changes (1 × n) of the largest of some numbers times weights ``by``, with each number.

    Of several that are largest the mean. The largest one may be that of others, too.
    """
    sizes = [weight * magnitude(ops, x) for weight, x in zip(by, values, strict=True)]
    most = largest_of(ops, values, by) if largest is None else largest
    flags = [1.0 - ops.less(size, most) for size in sizes]
    over = 1.0 / (most * ops.maximum(sum(flags, cast(Scalar, 0.0)), 1.0))
    each = zip(flags, by, values, strict=True)
    return ops.matrix([[ops.copysign(flag * weight * over, x) for flag, weight, x in each]])
