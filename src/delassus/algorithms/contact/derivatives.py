"""Derivatives of a step with contacts: of the state after it with the state before, and with controls.

Impacts, the step itself and the correction of positions follow one another, each with the modes of its own solution;
see `delassus.algorithms.contact.response`. Nothing here is from a source.
"""

from __future__ import annotations

from delassus.algorithms.contact.correction_changes import bound_changes, displacement_changes
from delassus.algorithms.contact.point_changes import PositionChanges, position_changes
from delassus.algorithms.contact.response import FARTHEST, Response
from delassus.algorithms.contact.solution import Impact, StepSolution
from delassus.algorithms.contact.step import ContactStep
from delassus.algorithms.crba import mass_matrix
from delassus.algorithms.dynamics.integrate import position_update_changes
from delassus.algorithms.jacobian import jacobian
from delassus.spatial.dual_ops import Dual
from delassus.spatial.motion import column, diagonal, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar


class StepChanges:
    """Derivatives of a step that has been solved; ``controls`` are those of joint forces (`control_rates`)."""

    def __init__(self, step: ContactStep, found: StepSolution, controls: tuple[Matrix, Matrix, Matrix]) -> None:
        self._ops, self._step, self._found, self._controls = step.ops, step, found, controls
        self._M, self._J = mass_matrix(step.problem), jacobian(step.problem)
        self._last = Response(step, found.solved)

    def distance(self) -> Matrix:
        """Distance (m/s, rad/s) of the nearest other mode (1 × 1)."""
        distance: Scalar = FARTHEST
        distances = [mode.distance for mode in self._last.modes] + [x.distance for x in self._last.holds.values()]
        for x in distances:
            distance = self._ops.minimum(distance, x)
        return self._ops.matrix([[distance]])

    def state_and_controls(self) -> tuple[Matrix, Matrix, Scalar]:
        """``A`` (2 nv × 2 nv), ``B`` (2 nv × n), and 1 where they are known, else 0."""
        ops, step, found, last = self._ops, self._step, self._found, self._last
        nv, h, solved = step.tree.nv, step.h, found.solved
        product, with_product = self._velocity_products()
        pairs = zip(solved.velocity, found.start, product, strict=True)
        qdd = [(a - b) * step.over_h - c for a, b, c in pairs]
        impulses = [step.over_h * x for x in solved.impulses]
        changes = position_changes(found.motion, self._M, qdd, solved.velocity, impulses)
        with_q, with_v, with_u = self._controls
        holds = last.with_positions()
        rho_q = scaled_matrix(ops, h, changes.forces - with_q) + self._M @ holds
        rho_v = scaled_matrix(ops, h, changes.forces_with_v - with_v)
        rho_v = rho_v - self._M @ (ops.eye(nv) + scaled_matrix(ops, h, with_product))
        closing = [ops.less(0.0, candidate.gap) * step.over_h for candidate, *_ in step.points]
        sigma = ops.take(changes.with_gaps(closing) + self._J @ holds, last.rows, None)
        rho = ops.hstack([rho_q, rho_v])
        if found.impact is not None:
            rho = ops.hstack([rho_q, ops.zeros(nv, nv)]) + ops.product(rho_v, self._struck(found.impact))
        dv = last.velocities(rho, ops.hstack([sigma, ops.zeros(len(last.rows), nv)]))
        dv = dv + ops.hstack([holds, ops.zeros(nv, nv)])
        dv_u = scaled_matrix(ops, h, ops.product(last.Phi, with_u))
        return self._after(changes, ops.hstack([dv, dv_u]))

    def _struck(self, impact: Impact) -> Matrix:
        """Change of velocities after an impact (nv × 2 nv) with the state; where there is none, that of the state."""
        ops, step, nv = self._ops, self._step, self._step.tree.nv
        unmoved = ops.hstack([ops.zeros(nv, nv), ops.eye(nv)])
        v, dv, floors = step.v, unmoved, None
        for solved in impact.phases:
            response = Response(step, solved)
            change = [a - b for a, b in zip(solved.velocity, v, strict=True)]
            rest = step.motion.at_rest(ops.zeros(nv, 1), ops.zeros(step.problem.n_rows, 1))
            changes = position_changes(rest, self._M, change, solved.velocity, solved.impulses)
            holds = response.with_positions()
            rho = ops.hstack([changes.forces + self._M @ holds, ops.zeros(nv, nv)]) - ops.product(self._M, dv)
            sigma = ops.take(changes.rows + self._J @ holds, response.rows, None)
            sigma = ops.hstack([sigma, ops.zeros(len(response.rows), nv)])
            v, dv = solved.velocity, response.velocities(rho, sigma) + ops.hstack([holds, ops.zeros(nv, nv)])
            if floors is None:
                bounces = diagonal(ops, [0.0 if e is None else e for *_, e in step.points])
                floors = bounces @ response.normal_impulses(rho, sigma)
            else:
                dv = dv + response.of_floors(floors)
        pairs = (zip(*rows, strict=True) for rows in zip(ops.entries(dv), ops.entries(unmoved), strict=True))
        return ops.matrix([[ops.select(impact.struck, x, y) for x, y in row] for row in pairs])

    def _after(self, changes: PositionChanges, dv: Matrix) -> tuple[Matrix, Matrix, Scalar]:
        """``A``, ``B``, and 1 where they are known, from changes of ``v⁺`` with positions, velocities and controls."""
        ops, step, found, nv = self._ops, self._step, self._found, self._step.tree.nv
        n = ops.shape(dv)[1]
        correction = found.correction
        by_q, by_v, by_shift, v_by_v, v_by_shift = position_update_changes(
            ops, step.problem, found.solved.velocity, step.h, correction.shift
        )
        q, v = ops.put(by_q, (nv, n), range(nv), range(nv)) + by_v @ dv, v_by_v @ dv
        known: Scalar = 1.0
        m = len(correction.goals.rows)
        if m or step.loops:
            with_q, with_v = bound_changes(step, found, self._J, changes)

            def displaced(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
                *made, known = displacement_changes(step, found, self._M, self._J, values[:m])
                return [*values[:m], known, *_entries(ops, ops.hstack(made))], 1.0

            none: list[Scalar] = [0.0] * (nv * (nv + m))
            carried = [*correction.impulses, known, *none]
            known, *entries = ops.repeat(1, carried, displaced, correction.nothing)[m:]
            made = ops.matrix([entries[k : k + nv + m] for k in range(0, len(entries), nv + m)])
            bounds = ops.put(with_q, (m, n), range(m), range(nv)) + ops.product(with_v, dv)
            shift = ops.product(ops.take(made, None, range(nv, nv + m)), bounds)
            shift = shift + ops.put(ops.take(made, None, range(nv)), (nv, n), range(nv), range(nv))
            q, v = q + by_shift @ shift, v + v_by_shift @ shift
        both = ops.vstack([q, v])
        return ops.take(both, None, range(2 * nv)), ops.take(both, None, range(2 * nv, n)), known

    def _velocity_products(self) -> tuple[list[Scalar], Matrix]:
        """``ω × v`` (nv) and its change with velocities (nv × nv)."""
        ops, tree, motion = self._ops, self._step.tree, self._found.motion
        products = list[Scalar]()
        rows = list[list[Scalar]]()
        for i, (joint, sv) in enumerate(zip(tree.joints, tree.v_slices, strict=True)):
            v = column(ops, motion.bias_velocity(i))
            for x in joint.kind.velocity_product([Dual(x, {k: 1.0}) for k, x in enumerate(v, sv.start)]):
                number = x if isinstance(x, Dual) else Dual(x)
                products.append(number.x)
                rows.append([number.rate(k) for k in range(tree.nv)])
        return products, ops.matrix(rows) if rows else ops.zeros(0, 0)


def _entries(ops: Ops, a: Matrix) -> list[Scalar]:
    """All entries, row by row."""
    return [x for row in ops.entries(a) for x in row]
