"""Derivatives of the position correction of a step, in the modes of its solution.

Rows that are pushed move to their bounds, ``J x + D s = b``, with ``M x = Jᵀ s``. Limits,
whose rows are single joints, add ``1 / D`` to the diagonal of ``M`` instead. The compliance ``D`` is a part of
mobilities ``J_k x_k``, ``M x_k = J_kᵀ``, whose changes are ``2 ∂J_k x_k − x_kᵀ ∂M x_k``; with momenta ``I_i V_i`` of
links that move by ``x_k``, ``½ x_kᵀ ∂M x_k = ψ_jᵀ Σ I_i V_i`` over the links beyond joint j (`Rates`). Steps whose
displacement contacts cut off have no derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from delassus.algorithms.contact.point_changes import PositionChanges, mobility_changes, position_changes
from delassus.algorithms.contact.problem import Bounds, magnitude, maximum_of
from delassus.algorithms.contact.response import at_joints, dense_rows, inverted
from delassus.algorithms.contact.solution import Displacement, StepSolution
from delassus.algorithms.contact.step import TUNING, ContactStep
from delassus.algorithms.dynamics.derivatives.rates import Rates
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.sparse_factor import SparseFactor
from delassus.constraints.contact import bounded_joints_of
from delassus.model.tree import WORLD
from delassus.spatial.motion import column, diagonal, from_entries, scaled_matrix
from delassus.spatial.ops import SQUARE_FLOOR, Matrix, Ops, Scalar


def bound_changes(
    step: ContactStep, found: StepSolution, J: Matrix, velocities: PositionChanges
) -> tuple[Matrix, Matrix, Matrix]:
    """Changes of bounds of rows that may be pushed (r × …): with positions, velocities after the step, and ``h``.

    Those of limits are changes of where the joint is after it. ``J`` and ``velocities`` are those of the step.
    """
    ops, nv, h, n = step.ops, step.tree.nv, step.h, len(step.points)
    joints = bounded_joints_of(step.problem.constraints)
    with_q, with_v, with_h = [ops.zeros(0, nv)], [ops.zeros(0, nv)], [ops.zeros(0, 1)]
    for row in found.correction.goals.rows:
        if row >= 3 * n:
            unit = ops.put(ops.eye(1), (1, nv), (0,), (joints[row - 3 * n].dof,))
            with_q.append(unit)
            with_v.append(scaled_matrix(ops, h, unit))
            with_h.append(ops.matrix([[found.solved.outcome.velocities[row]]]))
            continue
        gap, own = step.points[row // 3][0].gap, (step.others[row],)
        left = ops.less(0.0, gap + h * found.solved.outcome.velocities[row])
        back = TUNING.correction * ops.less(TUNING.penetration, -gap)
        rising = scaled_matrix(ops, left * h, ops.take(velocities.rows, own, None))
        with_q.append(scaled_matrix(ops, -(back + left), ops.take(velocities.gaps, (row // 3,), None)) - rising)
        with_v.append(scaled_matrix(ops, -(left * h), ops.take(J, own, None)))
        with_h.append(ops.matrix([[-(left * found.solved.outcome.velocities[row])]]))
    return ops.vstack(with_q), ops.vstack(with_v), ops.vstack(with_h)


def displacement_changes(
    step: ContactStep, found: StepSolution, M: Matrix, s: Sequence[Scalar]
) -> tuple[Matrix, Matrix, Scalar, Scalar]:
    """Changes of the displacement by impulses ``s`` with positions, bounds held (nv × nv), and with bounds (nv × r).

    And 1 where they are known, else 0; and 1 where velocities change no bound, else 0.
    """
    ops, nv, problem, n = step.ops, step.tree.nv, step.problem, len(step.points)
    goals, joints = found.correction.goals, bounded_joints_of(step.problem.constraints)
    displaced = step.displaced(goals, s)
    flags, compliance = list[Scalar](), list[Scalar]()
    for k, row in enumerate(goals.rows):
        compliance.append(goals.mobility[k] - step.G[row][row])
        flags.append(_pushes(ops, goals.bounds[k], s[k], displaced.moves[k] + compliance[k] * s[k], goals.mobility[k]))
    points = [k for k, row in enumerate(goals.rows) if row < 3 * n]
    limits = {joints[row - 3 * n].dof: k for k, row in enumerate(goals.rows) if row >= 3 * n}

    # limits: springs of their joints
    springs = {dof: flags[k] / compliance[k] for dof, k in limits.items()}
    added = at_joints(ops, step.tree, springs)
    L = SparseFactor(problem, added, {}) if added else step.space.L
    rest = found.motion.at_rest(ops.zeros(nv, 1), ops.zeros(problem.n_rows, 1))
    turned = position_changes(rest, M, displaced.whole, displaced.whole, displaced.of_rows)
    softer = _compliance_changes(step, rest, goals.rows)

    # M dx − Jᵀ ds = −ρ, J dx + D ds = σ: columns of positions, then of bounds
    r = len(goals.rows)
    rho = ops.hstack([turned.forces, ops.zeros(nv, r)])
    for dof, k in limits.items():
        moved = found.solved.outcome.velocities[goals.rows[k]] * step.h
        rate = _of_limit(ops, step.distances(joints[goals.rows[k] - 3 * n]), moved, s[k])
        rho = rho - ops.put(ops.matrix([[springs[dof] * rate]]), (nv, nv + r), (dof,), (nv + k,))
        rho = rho + ops.put(scaled_matrix(ops, springs[dof] * s[k], softer[k]), (nv, nv + r), (dof,), range(nv))
    z = -ops.vstack(L.solve_transpose(rho))
    rows = [step.others[goals.rows[k]] for k in points]
    if rows:
        every = diagonal(ops, [flags[k] for k in points])
        beside = [flags[k] * compliance[k] + (1.0 - flags[k]) for k in points]
        Y = every @ ops.take(dense_rows(problem, L), rows, None)
        G = ops.sym_add(ops.sym_product(Y, ops.transpose(Y)), diagonal(ops, beside))
        wanted = ops.put(ops.eye(len(points)), (len(rows), r), range(len(points)), points)
        yielding = ops.vstack([scaled_matrix(ops, s[k], softer[k]) for k in points])
        sigma = ops.hstack([-(ops.take(turned.rows, rows, None) + yielding), wanted])
        pushes = inverted(ops, G) @ (every @ sigma - Y @ z)
        z = z + ops.transpose(Y) @ pushes
    change = _taken(ops, displaced, ops.vstack(L.solve([ops.take(z, (k,), None) for k in range(nv)])))
    moving = cast(Scalar, 0.0)
    for k, row in enumerate(goals.rows):
        left = step.points[row // 3][0].gap + step.h * found.solved.outcome.velocities[row] if row < 3 * n else 1.0
        moving = ops.maximum(moving, flags[k] * ops.less(0.0, left))
    known = 1.0 - ops.less(displaced.by_rows, 1.0)
    return ops.take(change, None, range(nv)), ops.take(change, None, range(nv, nv + r)), known, 1.0 - moving


def _compliance_changes(step: ContactStep, rest: DynamicsProblem, rows: Sequence[int]) -> list[Matrix]:
    """Changes (1 × nv) with positions of the compliance of rows that a position correction may push."""
    ops, problem, n = step.ops, step.problem, 3 * len(step.points)
    Y = ops.take(dense_rows(problem, step.space.L), step.others, None)
    X = ops.vstack(step.space.L.solve([ops.transpose(ops.take(Y, None, (k,))) for k in range(step.tree.nv)]))
    moved = [Rates(rest, rest.by_joint(column(ops, ops.take(X, None, (k,))))) for k in range(len(step.others))]
    changes = [-_twice_kinetic_changes(rates, moved[0]) for rates in moved]
    of_points, first = list[Matrix](), 0
    for index, c in enumerate(problem.constraints):
        if c.n_points:
            of_points += mobility_changes(problem, index, moved[first : first + 3 * c.n_points])
            first += 3 * c.n_points
    out = list[Matrix]()
    for row in rows:
        if row >= n:
            out.append(scaled_matrix(ops, TUNING.compliance, changes[row]))
            continue
        mean = sum(step.size_of[row - 2 : row + 1], cast(Scalar, 0.0)) * (1.0 / 3.0)
        part = TUNING.compliance / 3.0 * ops.less(TUNING.least_mobility, mean)
        inert = changes[row - 2] + changes[row - 1] + changes[row]
        out.append(scaled_matrix(ops, part, scaled_matrix(ops, 2.0, of_points[row // 3]) + inert))
    return out


def _twice_kinetic_changes(rates: Rates, first: Rates) -> Matrix:
    """Changes (1 × nv) of ``xᵀ M x`` with positions, ``x`` the accelerations at rest; ``first`` has the same bodies."""
    ops, tree = rates.motion.ops, rates.motion.tree
    momenta = [body.times(ops, a) for body, a in zip(first.bodies, rates.a, strict=True)]
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


def _of_limit(ops: Ops, distances: Sequence[Scalar | None], moved: Scalar, s: Scalar) -> Scalar:
    """Change of the bound of a limit that acts, with where the joint is after the step."""
    rate: Scalar = 0.0
    for distance, side in zip(distances, (1.0, -1.0), strict=True):
        if distance is not None:
            after = distance + side * moved
            own = -(TUNING.correction * ops.less(after, -TUNING.limit_tolerance) + ops.less(0.0, after))
            rate = ops.select(ops.less(0.0, side * s), own, rate)
    return rate


def _taken(ops: Ops, displaced: Displacement, change: Matrix) -> Matrix:
    """Changes (nv × k) of the part that is taken, from those of the whole displacement.

    Where joints cut it off, the one that moves most moves as far as it may: ``1 − x sᵀ / |x_k|``, ``s_k`` its sign.
    """
    whole, part = displaced.whole, displaced.part
    sizes = [magnitude(ops, x) for x in whole]
    most = maximum_of(ops, [SQUARE_FLOOR, *sizes])
    is_cut = ops.less(displaced.by_joints, 1.0)
    of_joint = [is_cut * (1.0 - ops.less(size, most)) for size in sizes]
    signs = [[flag * ops.copysign(1.0, x) / most for flag, x in zip(of_joint, whole, strict=True)]]
    return scaled_matrix(ops, part, change - from_entries(ops, whole) @ (ops.matrix(signs) @ change))
