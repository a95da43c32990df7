"""Derivatives of a step with contacts: of the state after it with the state before, and with controls.

Impacts, the step itself and the correction of positions follow one another, each with the modes of its own solution;
see `delassus.algorithms.contact.response`. Nothing here is from a source.
"""

from __future__ import annotations

from collections.abc import Sequence

from delassus.algorithms.contact.correction_changes import bound_changes, displacement_changes
from delassus.algorithms.contact.law import part_beyond
from delassus.algorithms.contact.point_changes import PositionChanges, position_changes
from delassus.algorithms.contact.response import FARTHEST, Response
from delassus.algorithms.contact.solution import Impact, StepSolution
from delassus.algorithms.contact.step import ContactStep
from delassus.algorithms.crba import mass_matrix
from delassus.algorithms.dynamics.integrate import position_update_changes
from delassus.algorithms.jacobian import jacobian
from delassus.spatial.dual_ops import Dual
from delassus.spatial.motion import column, diagonal, from_entries, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar


class StepChanges:
    """Derivatives of a step that has been solved; ``controls`` are those of joint forces (`control_rates`).

    ``contacts`` say which contact each point is of, and ``varying`` which of their parameters vary: "friction",
    "restitution". ``smoothing`` is that of modes (m/s), None for none.
    """

    def __init__(
        self,
        step: ContactStep,
        found: StepSolution,
        controls: tuple[Matrix, Matrix, Matrix],
        contacts: Sequence[int],
        varying: Sequence[str],
        smoothing: Scalar | None = None,
    ) -> None:
        self._ops, self._step, self._found, self._controls = step.ops, step, found, controls
        self._M, self._J = mass_matrix(step.problem), jacobian(step.problem)
        self._last, self._contacts = Response(step, found.solved, smoothing), contacts
        self._smoothing = smoothing
        nv, n = step.tree.nv, len(set(contacts))
        n_controls = step.ops.shape(controls[2])[1]
        self._widths = {"q": nv, "v": nv, "u": n_controls, "dt": 1}
        self._widths |= {name: n if name in varying else 0 for name in ("friction", "restitution")}

    def distance(self) -> Matrix:
        """Distance (m/s, rad/s) of the nearest other mode (1 × 1)."""
        distance: Scalar = FARTHEST
        distances = [mode.distance for mode in self._last.modes] + [x.distance for x in self._last.holds.values()]
        for x in distances:
            distance = self._ops.minimum(distance, x)
        return self._ops.matrix([[distance]])

    def _beside(self, height: int, **parts: Matrix) -> Matrix:
        """Columns of what varies, side by side; those that are not given are zero."""
        ops = self._ops
        return ops.hstack([parts.get(name, ops.zeros(height, width)) for name, width in self._widths.items()])

    def all(self) -> tuple[dict[str, Matrix], Scalar]:
        """Changes of the state after the step (2 nv × k) with what varies, by name; and 1 where they are known."""
        ops, step, found, last, M = self._ops, self._step, self._found, self._last, self._M
        nv, h, over_h, solved = step.tree.nv, step.h, step.over_h, found.solved
        product, with_product = self._velocity_products()
        gained = [a - b for a, b in zip(solved.velocity, found.start, strict=True)]
        qdd = [over_h * a - c for a, c in zip(gained, product, strict=True)]
        impulses = [over_h * x for x in solved.impulses]
        changes = position_changes(found.motion, M, qdd, solved.velocity, impulses)
        with_q, with_v, with_u = self._controls
        rho_v = scaled_matrix(ops, h, changes.forces_with_v - with_v)
        rho_v = rho_v - M @ (ops.eye(nv) + scaled_matrix(ops, h, with_product))
        slips = [last.holds[k].slip * over_h if k in last.holds else 0.0 for k in range(nv)]
        with_time = ops.transpose(self._J) @ from_entries(ops, impulses) if impulses else ops.zeros(nv, 1)
        with_time = with_time - scaled_matrix(ops, over_h, M @ from_entries(ops, gained)) - from_entries(ops, slips)
        rho = self._beside(
            nv, q=scaled_matrix(ops, h, changes.forces - with_q), u=-scaled_matrix(ops, h, with_u), dt=with_time,
            friction=-(ops.transpose(self._J) @ self._with_friction(last)),
        )  # fmt: skip
        closing = [part_beyond(ops, over_h * c.gap, self._smoothing) * over_h for c, *_ in step.points]
        rates = [-(over_h * over_h) * ops.maximum(candidate.gap, 0.0) for candidate, *_ in step.points]
        closed = self._at_normals(from_entries(ops, rates) if rates else ops.zeros(0, 1))
        sigma = self._beside(step.problem.n_rows, q=changes.with_gaps(closing), dt=closed)
        start = self._beside(nv, v=ops.eye(nv)) if found.impact is None else self._struck(found.impact)
        dv, _ = self._answer(last, rho + ops.product(rho_v, start), sigma)
        return self._after(changes, dv)

    def _answer(self, response: Response, rho: Matrix, sigma: Matrix) -> tuple[Matrix, Matrix]:
        """Changes of velocities (nv × k), those of joints that are held too, and of normal impulses (n × k)."""
        ops, nv = self._ops, self._step.tree.nv
        held = self._beside(nv, q=response.with_positions(), dt=response.with_time())
        rho = rho + ops.product(self._M, held)
        sigma = ops.take(sigma + ops.product(self._J, held), response.rows, None)
        normals = response.normal_impulses(rho, sigma) if response.modes else ops.zeros(0, ops.shape(rho)[1])
        return response.velocities(rho, sigma) + held, normals

    def _at_normals(self, a: Matrix) -> Matrix:
        """Rows of points (n × k) at their normals among all rows (m × k)."""
        others, (n, width) = self._step.others, self._ops.shape(a)
        rows = [others[3 * k + 2] for k in range(n)]
        return self._ops.put(a, (self._step.problem.n_rows, width), rows, range(width))

    def _with_friction(self, response: Response) -> Matrix:
        """Changes of impulses (m × n) with friction coefficients of contacts, of points that slide."""
        ops, step, n = self._ops, self._step, self._widths["friction"]
        out = ops.zeros(step.problem.n_rows, n)
        if not n:
            return out
        for k, (mode, contact) in enumerate(zip(response.modes, self._contacts, strict=True)):
            rows = step.others[3 * k : 3 * k + 2]
            out = out + ops.put(from_entries(ops, mode.with_friction), (step.problem.n_rows, n), rows, (contact,))
        return out

    def _struck(self, impact: Impact) -> Matrix:
        """Change of velocities after an impact (nv × k) with what varies; where there is none, that of the state."""
        ops, step, nv, n = self._ops, self._step, self._step.tree.nv, len(self._step.points)
        unmoved = self._beside(nv, v=ops.eye(nv))
        v, dv, floors = step.v, unmoved, None
        for solved in impact.phases:
            response = Response(step, solved, self._smoothing)
            change = [a - b for a, b in zip(solved.velocity, v, strict=True)]
            rest = step.motion.at_rest(ops.zeros(nv, 1), ops.zeros(step.problem.n_rows, 1))
            changes = position_changes(rest, self._M, change, solved.velocity, solved.impulses)
            sliding = -(ops.transpose(self._J) @ self._with_friction(response))
            rho = self._beside(nv, q=changes.forces, friction=sliding) - ops.product(self._M, dv)
            dv, normals = self._answer(response, rho, self._beside(step.problem.n_rows, q=changes.rows))
            v = solved.velocity
            if floors is not None:
                dv = dv + response.of_floors(floors)
                break
            bounces: list[Scalar] = [0.0 if e is None else e for *_, e in step.points]
            floors = diagonal(ops, bounces) @ normals
            if m := self._widths["restitution"]:
                pressed = (ops.matrix([[solved.outcome.p[3 * k + 2]]]) for k in range(n))
                given = [ops.put(p, (1, m), (0,), (c,)) for p, c in zip(pressed, self._contacts, strict=True)]
                floors = floors + self._beside(n, restitution=ops.vstack(given))
        pairs = (zip(*rows, strict=True) for rows in zip(ops.entries(dv), ops.entries(unmoved), strict=True))
        return ops.matrix([[ops.select(impact.struck, x, y) for x, y in row] for row in pairs])

    def _after(self, changes: PositionChanges, dv: Matrix) -> tuple[dict[str, Matrix], Scalar]:
        """Changes of the state after the step (2 nv × k), by name, from those of ``v⁺``; and 1 where they are known."""
        ops, step, found, nv = self._ops, self._step, self._found, self._step.tree.nv
        n = ops.shape(dv)[1]
        correction = found.correction
        by_q, by_v, by_shift, by_h, v_by_v, v_by_shift, v_by_h = position_update_changes(
            ops, step.problem, found.solved.velocity, step.h, correction.shift
        )
        q, v = self._beside(nv, q=by_q, dt=by_h) + by_v @ dv, self._beside(nv, dt=v_by_h) + v_by_v @ dv
        known: Scalar = 1.0
        m = len(correction.goals.rows)
        if m:
            turning = [k for j, sv in zip(step.tree.joints, step.tree.v_slices, strict=True) if j.nv > 1
                       for k in range(sv.start, sv.stop)]  # fmt: skip
            moving = ops.vstack([by_shift, ops.take(v_by_shift, turning, None)])  # of what a displacement changes
            with_q, with_v, with_h = bound_changes(step, found, self._J, changes)
            height = nv + len(turning)
            start = ops.vstack([q, ops.take(v, turning, None)])
            with_positions, others = ops.take(start, None, range(nv)), ops.take(start, None, range(nv, n))

            def displaced(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
                by_position, by_bounds, *flags = displacement_changes(step, found, self._M, values[:m])
                end = _matrix(ops, values[-height * nv :], nv) + moving @ (by_position + by_bounds @ with_q)
                return [*values[:m], *flags, *_entries(ops, moving @ by_bounds), *_entries(ops, end)], 1.0

            none: list[Scalar] = [0.0] * (height * m)
            carried = [*correction.impulses, known, 1.0, *none, *_entries(ops, with_positions)]
            known, at_rest, *both = ops.repeat(1, carried, displaced, correction.nothing)[m:]
            end = ops.hstack([_matrix(ops, both[height * m :], nv), others])

            def moved(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
                ends = _matrix(ops, values[: height * m], m)
                further = _entries(ops, ends @ (with_v @ dv + self._beside(m, dt=with_h)))
                pairs = zip(values[height * m :], further, strict=True)
                return [*values[: height * m], *(x + y for x, y in pairs)], 1.0

            whole = ops.repeat(1, [*both[: height * m], *_entries(ops, end)], moved, at_rest)[height * m :]
            end, straight, columns = _matrix(ops, whole, n), [k for k in range(nv) if k not in turning], range(n)
            q, turned = ops.take(end, range(nv), None), ops.take(end, range(nv, height), None)
            v = ops.put(turned, (nv, n), turning, columns) + ops.put(
                ops.take(v, straight, None), (nv, n), straight, columns
            )
        out, first = dict[str, Matrix](), 0
        for name, width in self._widths.items():
            out[name] = ops.take(ops.vstack([q, v]), None, range(first, first + width))
            first += width
        return out, known

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


def _matrix(ops: Ops, entries: Sequence[Scalar], width: int) -> Matrix:
    """Matrix of so many columns from its entries, row by row."""
    return ops.matrix([entries[k : k + width] for k in range(0, len(entries), width)])
