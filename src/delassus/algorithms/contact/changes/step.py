"""Derivatives of a step with contacts: of the state after it with that before, and with what else the call takes.

Impacts, the step itself and the correction of positions follow one another, each with the modes of its own solution;
see `delassus.algorithms.contact.changes.response`. Nothing here is from a source.

Where loops tie links, the momentum of the step is at rest, ``ρ = M (v_s − w) − Jᵀ p`` with the velocity ``w`` at the
end of smooth motion; that after the step is ``w + v_s − v_0``, ``v_0`` what loops alone leave of ``w``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from itertools import chain, islice, pairwise
from typing import Any, cast

from delassus.algorithms.contact.changes.correction import bound_changes, displacement_changes
from delassus.algorithms.contact.changes.impacts import TIME, ImpactPart
from delassus.algorithms.contact.changes.points import (
    LATER_PATH,
    PATH,
    PositionChanges,
    momentum_of_lines,
    position_changes,
    turning_changes,
)
from delassus.algorithms.contact.changes.products import Products, over_masses
from delassus.algorithms.contact.changes.response import ModeResponse
from delassus.algorithms.contact.changes.varied import Varied
from delassus.algorithms.contact.impacts import nearest_of_impact
from delassus.algorithms.contact.law import part_beyond
from delassus.algorithms.contact.modes import nearest_mode
from delassus.algorithms.contact.problem import maximum_of
from delassus.algorithms.contact.solution import StepInputs, StepSolution
from delassus.algorithms.contact.step import KernelStep
from delassus.algorithms.crba import mass_matrix
from delassus.algorithms.dynamics.integrate import position_rates, position_update_changes
from delassus.algorithms.dynamics.state import DynamicsProblem
from delassus.algorithms.jacobian import jacobian
from delassus.algorithms.problem import Problem
from delassus.spatial.dual_ops import Dual, DualOps, Rates, value
from delassus.spatial.motion import column, diagonal, entries_by_row, from_entries, from_rows, minus, scaled_matrix
from delassus.spatial.ops import Matrix, Scalar


class KernelStepChanges(ImpactPart):
    """Derivatives of a step that has been solved.

    ``controls`` are changes of joint forces with positions and velocities (`control_rates`), after an impact and before
    it; ``inputs`` and ``problem`` are those of `Varied`, and ``varying`` the names and sizes of arguments that vary.
    Where impacts place bodies, ``step`` and ``problem`` are those of `StepSolution.place`, and ``first`` are the
    derivatives of the step that starts before them.
    """

    def __init__(
        self,
        step: KernelStep,
        found: StepSolution,
        controls: Sequence[tuple[Matrix, Matrix]],
        inputs: StepInputs,
        problem: Problem,
        varying: Mapping[str, int],
        first: KernelStepChanges | None = None,
    ) -> None:
        self._ops, self._step, self._found, self._controls = step.ops, step, found, controls
        self._first, self._places, self._dq = self if first is None else first, first is not None, None
        self._motion = found.motion if found.motion.problem is step.problem else step.motion
        self._M, self._J = mass_matrix(step.problem), jacobian(step.problem)
        self._in_step = self._M  # what contacts see
        if step.springs is not None:
            self._in_step = self._M + step.springs.matrices()[0]
        self._of_points, nv = step.smoothing_of_points(found.impact), step.tree.nv
        late = None if found.impact is None else found.impact.late
        self._last = ModeResponse(step, found.solved, step.smoothing, self._of_points, late)
        self._are_unique = self._last.is_unique
        self._varying, parameters = varying, [(name, k) for name, size in varying.items() for k in range(size)]
        self._widths = {"q": nv, "v": nv, "given": len(parameters)}
        moving = [x for own in self._motion.v for x in column(self._ops, own)]
        self._varied = Varied(step, inputs, problem, moving, parameters)
        turned = turning_changes(step, self._varied) if first is None else first._turned
        self._turned: tuple[Matrix, list[Scalar]] = turned
        self._before = self._varied if found.impact is None else Varied(step, inputs, problem, step.v, parameters)

    def distance(self) -> Matrix:
        """Distance (m/s, rad/s) of the nearest other mode (1 × 1), of the step and of its impacts, after `all`.

        Zero where several velocities obey the laws, and where an impact has placed bodies with springs: derivatives are
        not known.
        """
        ops, solved, impact = self._ops, self._found.solved, self._found.impact
        ((x,),) = ops.entries(nearest_mode(ops, self._last.modes, self._last.holds))
        x = self._are_unique * x
        for k, (y, turns) in enumerate(zip(self._turned[1], self._turns(), strict=True)):
            acts = turns * solved.problem.turns[k] * ops.less(0.0, solved.outcome.p[3 * k + 2])
            x = ops.select(acts, ops.minimum(x, y), x)
        if impact is not None:
            x = nearest_of_impact(self._step, impact, x)
            if self._places and self._step.springs is not None:
                x = ops.select(maximum_of(ops, impact.when.placed), 0.0, x)
        return ops.matrix([[x]])

    def _beside(self, height: int, **parts: Matrix) -> Matrix:
        """Columns of what varies, side by side; those that are not given are zero.

        Positions are those where an impact has placed bodies, which vary with all.
        """
        ops, placed = self._ops, None
        if self._dq is not None and "q" in parts:
            placed = ops.product(parts.pop("q"), self._dq)
        out = ops.hstack([parts.get(name, ops.zeros(height, width)) for name, width in self._widths.items()])
        return out if placed is None else placed + out

    def all(self) -> dict[str, Matrix]:
        """Changes of the state after the step (2 nv × k) with what varies, by name."""
        ops, step, found, last, varied = self._ops, self._step, self._found, self._last, self._varied
        nv, over_h, solved = step.tree.nv, step.over_h, found.solved
        start, late = self._beside(nv, v=ops.eye(nv)), None
        moving = start
        if found.impact is not None:
            start, late, moving = self._struck(found.impact)
        reached, ending = self._smooth_motion(start)
        changes, rho = self._in_motion(start, moving)
        impact, beside = found.impact, ops.zeros(step.problem.n_rows, ops.shape(start)[1])
        if found.moved.blocks:
            gained = self._beyond_smooth_motion(solved.velocity)
            changes, at_rest = self._in_step_at_rest(gained, solved.velocity, varied.impulses(last, solved.impulses))
            rho = self._of_blocks(at_rest - ops.product(self._in_step, reached), rho)
        closing = [
            part_beyond(ops, over_h * c.gap, own) * over_h
            for (c, *_), own in zip(step.points, self._of_points, strict=True)
        ]
        if impact is not None and late is not None:
            changes, beside = self._displaced(changes, impact.late, late)
        given = varied.velocities(solved.velocity, closing, None if impact is None else impact.late)
        sigma = beside + self._beside(step.problem.n_rows, q=changes.with_gaps(closing), given=given)
        turning, shape = self._turning(), ops.shape(sigma)
        parts = [x for x in solved.problem.turns for _ in range(3)]
        taken = diagonal(ops, parts) @ turning if parts else turning
        sigma = sigma + ops.put(taken, shape, step.others[: ops.shape(turning)[0]], range(shape[1]))
        dv, _ = self._answer(last, rho, sigma, self._in_step, late)
        end, shift = dv, late
        if found.moved.blocks:
            end, shift = self._with_smooth_motion(start, ending, reached, dv)
            shift = shift if late is None else shift + late
        if late is not None:
            dv = dv + scaled_matrix(ops, over_h, late)
        return self._after(changes, dv, end, shift, turning)

    def _turning(self) -> Matrix:
        """Changes (3 n × k) of what contacts turn by, of those that no impact has struck and no loop holds."""
        ops, step, (out, _) = self._ops, self._step, self._turned
        parts = [x * step.moves.get(3 * k + c, 1.0) for k, x in enumerate(self._turns()) for c in range(3)]
        return diagonal(ops, parts) @ out if parts else out

    def _turns(self) -> list[Scalar]:
        """0 for each contact point that an impact has struck, else 1."""
        step, impact = self._step, self._found.impact
        return [1.0] * len(step.points) if impact is None else [1.0 - x for x in impact.struck_points(step)]

    def _displaced(
        self, changes: PositionChanges, late: Sequence[Scalar], with_late: Matrix
    ) -> tuple[PositionChanges, Matrix]:
        """``changes`` with those of what normals have by a displacement ``late`` (nv); those of rows by it (m × k)."""
        ops, step, over_h = self._ops, self._step, self._step.over_h
        still: list[Scalar] = [0.0] * step.problem.n_rows
        turned, _ = self._at_rest(late, [over_h * x for x in late], still)
        normals, shape = changes.rows_of_gaps, ops.shape(changes.rows)
        by_late = scaled_matrix(ops, over_h, ops.take(self._J, normals, None) @ with_late)
        own = ops.put(ops.take(turned.rows, normals, None), shape, normals, range(shape[1]))
        wide = len(still), ops.shape(with_late)[1]
        return changes._replace(rows=changes.rows + own), ops.put(by_late, wide, normals, range(wide[1]))

    def _in_motion(self, start: Matrix, moving: Matrix) -> tuple[PositionChanges, Matrix]:
        """Changes with positions, and of momentum (nv × k) at velocities ``v⁺`` and impulses that are held."""
        found, solved = self._found, self._found.solved
        gained, varied = minus(solved.velocity, found.start), self._varied
        impulses = solved.impulses, varied.impulses(self._last, solved.impulses)
        both = start, moving
        stage = partial(self._of_motion, found.motion, start=both, varied=varied, controls=self._controls[0])
        mean, ops, step = self._step.mean_products(found.motion), self._ops, self._step
        if mean is None:
            return stage(gained, solved.velocity, impulses)
        none: list[Scalar] = [0.0] * step.problem.n_rows
        plain = Products(found.motion, acted=step.springs is not None and bool(step.springs.lines))
        of_first, of_second = (Products(found.motion, y, plain) for y in (mean.first, mean.second))
        at_start, first = stage(mean.first, mean.first, (none, none), products=plain, of_end=False)
        _, second = stage(mean.second, mean.second, (none, none), products=of_first, of_end=False)
        changes, rho = stage(gained, solved.velocity, impulses, products=of_second)
        Z = over_masses(found.motion, step.space.L, plain.matrix(step.h, self._M, at_start.forces_with_v))
        return changes, rho - ops.product(Z, second - ops.product(Z, first))

    def _of_motion(
        self, motion: DynamicsProblem, gained: Sequence[Scalar], velocity: Sequence[Scalar],
        impulses: tuple[Sequence[Scalar], Sequence[Any]], start: tuple[Matrix, Matrix], varied: Varied,
        controls: tuple[Matrix, Matrix], *, products: Products | None = None, of_end: bool = True,
    ) -> tuple[PositionChanges, Matrix]:  # fmt: skip
        """The same of a motion that gains velocities (nv); impulses are those of rows, also as they vary.

        ``start`` are changes of the velocities that it starts from, and of those that its forces are of. Its
        ``products`` are those of its start, if not given. Held is the velocity ``of_end``, or what is gained.
        """
        ops, step, over_h = self._ops, self._step, self._step.over_h
        nv, h = step.tree.nv, step.h
        products = products or Products(motion)
        qdd = [over_h * a - c for a, c in zip(gained, products.axes, strict=True)]
        v, pushing = [x for own in motion.v for x in column(ops, own)], impulses[0]
        if step.springs is not None:
            pushing = step.springs.with_lines(pushing, step.springs.impulses(gained, v))
        forces = [over_h * x for x in pushing]
        changes = position_changes(motion, self._M, qdd, velocity, forces, products)
        with_q, with_v = controls
        rho_v = scaled_matrix(ops, h, changes.forces_with_v - with_v)
        rho_v, lost = rho_v - self._M @ scaled_matrix(ops, h, products.with_axes), self._M
        if step.springs is not None:
            with_gained, with_start = step.springs.matrices()
            rho_v, lost = rho_v + with_start, lost + with_gained
        of_parameters = varied.momentum(gained, impulses[1], with_forces=True, further=products.y)
        with_positions = scaled_matrix(ops, h, changes.forces)
        if step.springs is not None and step.springs.lines:
            turning = [self._rows_moved(x) for x in (gained, v)]
            with_positions = with_positions + momentum_of_lines(ops, step.springs, self._J, *turning)
        rho = self._beside(nv, q=with_positions, given=of_parameters)
        rho = rho - self._first._beside(nv, q=scaled_matrix(ops, h, with_q))  # controls are of the first positions
        rho = rho + ops.product(rho_v, start[1])
        return changes, rho - ops.product(lost, start[0]) if of_end else rho

    def _rows_moved(self, x: Sequence[Scalar]) -> Matrix:
        """Changes (m × nv) of ``J x`` with positions."""
        return self._at_rest(x, x, [0.0] * self._step.problem.n_rows)[0].rows

    def _at_rest(
        self, gained: Sequence[Scalar], velocity: Sequence[Scalar], impulses: Sequence[Any], in_instant: bool = False
    ) -> tuple[PositionChanges, Matrix]:
        """Changes with positions, and of ``M x − Jᵀ p`` (nv × k) of velocities ``x`` that are gained; rows of ``v``."""
        ops, step, nv = self._ops, self._step, self._step.tree.nv
        rest = self._motion.at_rest(ops.zeros(nv, 1), ops.zeros(step.problem.n_rows, 1))
        changes = position_changes(rest, self._M, gained, velocity, [value(p) for p in impulses])
        return changes, self._beside(
            nv, q=changes.forces, given=self._varied.momentum(gained, impulses, in_instant=in_instant)
        )

    def _in_step_at_rest(
        self, gained: Sequence[Scalar], velocity: Sequence[Scalar], impulses: Sequence[Any]
    ) -> tuple[PositionChanges, Matrix]:
        """`_at_rest`, with the masses that springs add in the step."""
        step = self._step
        if step.springs is None or not step.springs.lines:
            return self._at_rest(gained, velocity, impulses)
        exerted = step.springs.with_lines([value(p) for p in impulses], step.springs.masses_along(gained))
        changes, turned = self._at_rest(gained, velocity, exerted)[0], self._rows_moved(gained)
        with_q = changes.forces + momentum_of_lines(self._ops, step.springs, self._J, turned)
        return changes, self._beside(step.tree.nv, q=with_q, given=self._varied.momentum(gained, impulses))

    # -- loops ---------------------------------------------------------------------------------------------------------

    def _of_blocks(self, own: Matrix, others: Matrix) -> Matrix:
        """Rows (nv × k) of degrees of freedom that loops tie, and others."""
        ops, dofs = self._ops, [k for block in self._found.moved.blocks for k in block.dofs]
        free = [k for k in range(self._step.tree.nv) if k not in dofs]
        columns = range(ops.shape(own)[1])
        parts = [ops.put(ops.take(x, rows, None), ops.shape(own), rows, columns)
                 for rows, x in ((dofs, own), (free, others)) if rows]  # fmt: skip
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]

    def _beyond_smooth_motion(self, v: Sequence[Scalar]) -> list[Scalar]:
        """Velocities (nv) less those at the end of the smooth motion of blocks with loops."""
        out = list(v)
        for block in self._found.moved.blocks:
            for k, reached in zip(block.dofs, block.smooth.reached, strict=True):
                out[k] = out[k] - reached
        return out

    def _smooth_motion(self, start: Matrix) -> tuple[Matrix, list[Matrix]]:
        """Changes (nv × k) of the velocity that smooth motion reaches, by which contacts are found.

        And of where that of the step goes, and of its velocity there; with those of its first velocity.
        """
        ops, step, blocks = self._ops, self._step, self._found.moved.blocks
        nv, n = step.tree.nv, ops.shape(start)[1]
        reached, *ending = [ops.zeros(nv, n)] * 3
        if not blocks:
            return reached, ending
        with_q = ops.entries(position_rates(ops, step.tree, step.q))
        parameters: dict[Hashable, dict[int, Scalar]] = {
            key: {2 * nv + k: 1.0} for k, key in enumerate(self._varied.parameters)
        }
        joint_of = [
            sv for sq, sv in zip(step.tree.q_slices, step.tree.v_slices, strict=True) for _ in range(sq.start, sq.stop)
        ]
        rates: list[dict[int, Scalar]] = [
            {c: with_q[k][c] for c in range(nv)[joint_of[k]]} if name == "q" else parameters.get((name, k), {})
            for name, k in step.moving
        ]
        if self._found.impact is None:
            rates += [{nv + k: 1.0} for k in range(nv)]
        else:
            rates += [dict(enumerate(row)) for row in ops.entries(start)]
        columns = sorted({c for of_each in rates for c in of_each})
        by_column: list[Rates] = [{columns.index(c): x for c, x in of_each.items()} for of_each in rates]
        for block, pushed in zip(blocks, self._found.moved.pushed, strict=True):
            made, size = block.changes(by_column, len(columns)), len(block.dofs)
            parts = [ops.take(made, range(k, k + size), None) for k in range(0, ops.shape(made)[0], size)]
            ends = parts if block.smooth.unpushed is None else [
                self._where([pushed] * size, *pair) for pair in zip(parts[:2], parts[2:], strict=True)
            ]  # fmt: skip
            reached = reached + ops.put(parts[1], (nv, n), block.dofs, columns)
            ending = [x + ops.put(y, (nv, n), block.dofs, columns) for x, y in zip(ending, ends, strict=True)]
        return reached, ending

    def _with_smooth_motion(
        self, start: Matrix, ending: Sequence[Matrix], reached: Matrix, dv: Matrix
    ) -> tuple[Matrix, Matrix]:  # fmt: skip
        """Changes (nv × k) of the velocity after the step and of its displacement beside ``h`` times that.

        From those of the smooth motion of the step, ``ending``, and of the velocity ``reached`` by which contacts are
        found.
        """
        ops, step, nv, h = self._ops, self._step, self._step.tree.nv, self._step.h
        _, _, blocks, v, impulses, acting = self._found.moved
        changes, rho = self._in_step_at_rest(self._beyond_smooth_motion(v), v, impulses)
        sigma = self._beside(step.problem.n_rows, q=changes.rows, given=self._varied.rows(v))
        L, loops = step.space.L, step.closed_loops(step.space.L)
        assert loops is not None, "there are blocks"
        over = loops.kept(step.space.solve_transpose(rho - ops.product(self._in_step, reached)))
        alone = -L.solved(over + loops.moving(ops.take(sigma, step.loops, None)))
        pushed, straight = ([cast(Scalar, 0.0)] * nv for _ in range(2))
        for block, acts in zip(blocks, acting, strict=True):
            for k, w in zip(block.dofs, block.smooth.ending(ops, acts)[1], strict=True):
                pushed[k] = acts
                straight[k] = acts * (v[k] - 0.5 * (self._found.start[k] + w)) - w
        (moved, reached), mean = ending, scaled_matrix(ops, 0.5, start + reached)
        shift = moved + scaled_matrix(ops, h, diagonal(ops, pushed) @ (alone - mean) - reached)
        shift = shift + from_entries(ops, straight) @ self._beside(1, given=self._varied.rates([self._varied.h]))
        return self._of_blocks(reached + dv - alone, dv), self._of_blocks(shift, ops.zeros(*ops.shape(shift)))

    # -- contacts and joints -------------------------------------------------------------------------------------------

    def _answer(
        self, response: ModeResponse, rho: Matrix, sigma: Matrix, M: Matrix, late: Matrix | None = None
    ) -> tuple[Matrix, Matrix]:
        """Changes of velocities (nv × k), those of joints that are held too, and of normal impulses (n × k).

        ``late`` (nv × k) are changes of what an impact displaces.
        """
        ops, nv = self._ops, self._step.tree.nv
        with_time = response.with_time() @ self._varied.rates([self._varied.h])
        held = self._beside(nv, q=response.with_positions(), given=with_time)
        if late is not None:
            held = held + response.with_positions() @ late
        rho = rho + ops.product(M, held)
        sigma = sigma + ops.product(self._J, held)
        if self._step.loops:
            tied = response.of_loops(ops.take(sigma, self._step.loops, None))
            sigma, held = sigma + ops.product(self._J, tied), held + tied
        sigma = ops.take(sigma, response.rows, None)
        normals = response.normal_impulses(rho, sigma) if response.modes else ops.zeros(0, ops.shape(rho)[1])
        return response.velocities(rho, sigma) + held, normals

    def _after(
        self, changes: PositionChanges, dv: Matrix, end_velocity: Matrix, shift: Matrix | None, offsets: Matrix
    ) -> dict[str, Matrix]:
        """Changes of the state after the step (2 nv × k), by name.

        From those of velocities by which contacts are found, of ``v⁺``, and of the displacement beside ``h v⁺``.
        """
        ops, found, nv = self._ops, self._found, self._step.tree.nv
        correction = found.correction
        moved_by, keys = found.moved.shift, list(self._varied.parameters)
        times, late, further = None, None, end_velocity
        if self._places:
            times, moved_by, late, further = self._from_places(found.moved, end_velocity)
            keys += [(TIME, i) for i in range(len(times))]
        by_q, place, end = position_update_changes(
            self._varied.problem, found.moved.velocity, self._varied.h, moved_by, keys, times
        )
        ends = 0, nv, 2 * nv, 2 * nv + len(self._varied.parameters), ops.shape(place)[1]
        (by_v, by_shift, given, by_time), (v_by_v, v_by_shift, v_given, v_by_time) = (
            [ops.take(x, None, range(*part)) for part in pairwise(ends)] for x in (place, end)
        )
        q = self._beside(nv, q=by_q, given=given) + by_v @ end_velocity
        v = self._beside(nv, given=v_given) + v_by_v @ end_velocity
        if shift is not None:
            shift = shift if late is None else shift + further
            q, v = q + by_shift @ shift, v + v_by_shift @ shift
        if late is not None:
            q, v = q + by_time @ late, v + v_by_time @ late
        if correction.goals.rows:
            q, v = self._corrected(changes, dv, offsets, (by_shift, v_by_shift), (q, v))
        out, first = dict[str, Matrix](), 0
        whole_end = ops.vstack([q, v])
        if LATER_PATH in self._varying:
            begin = 2 * nv + sum(width for name, width in self._varying.items() if name != LATER_PATH)
            whole_end = whole_end + ops.take(whole_end, None, range(begin, begin + nv)) @ self._at_places
        for name, width in {"q": nv, "v": nv, **self._varying}.items():
            out[name] = ops.take(whole_end, None, range(first, first + width))
            first += width
        return out

    def _corrected(
        self, changes: PositionChanges, dv: Matrix, offsets: Matrix, by_shifts: tuple[Matrix, Matrix],
        state: tuple[Matrix, Matrix],
    ) -> tuple[Matrix, Matrix]:  # fmt: skip
        """Changes of the state (2 × (nv × k)) with those of displacements by which positions are corrected."""
        ops, step, found, nv, (q, v) = self._ops, self._step, self._found, self._step.tree.nv, state
        correction, (by_shift, v_by_shift), n = found.correction, by_shifts, ops.shape(dv)[1]
        m = len(correction.goals.rows)
        turning = [k for j, sv in zip(step.tree.joints, step.tree.v_slices, strict=True) if j.nv > 1
                   for k in range(sv.start, sv.stop)]  # fmt: skip
        moving = ops.vstack([by_shift, ops.take(v_by_shift, turning, None)])  # of what a displacement changes
        with_q, with_v, with_parameters, with_moved = bound_changes(step, found, self._J, changes, self._varied)
        normals = [row // 3 for row in correction.goals.rows if row < 3 * len(step.points)]
        turned = ops.take(offsets, [3 * k + 2 for k in normals], None)
        turned = ops.put(turned, (m, n), range(len(normals)), range(n))
        along = ops.product(with_v, dv) + diagonal(ops, with_moved) @ turned
        acting = self._varied.acting  # parameters that change displacements at velocities that are held
        own, varying = [*range(nv), *(2 * nv + k for k in acting)], None
        if self._dq is not None:
            units = ops.put(ops.eye(len(acting)), (len(acting), n), range(len(acting)), own[nv:])
            own, varying = [*range(n)], ops.vstack([self._dq, units])
        others = [k for k in range(n) if k not in own]
        with_own = ops.hstack([with_q, ops.take(with_parameters, None, acting)])
        height = nv + len(turning)
        start = ops.vstack([q, ops.take(v, turning, None)])

        def displaced(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
            change, at_rest = displacement_changes(step, found, self._M, values[:m], changes.gaps, self._varied)
            by_own = ops.take(change, None, [*range(nv), *(nv + m + k for k in acting)])
            by_bounds = ops.take(change, None, range(nv, nv + m))
            further = by_own + ops.product(by_bounds, with_own)
            further = ops.product(moving, further if varying is None else ops.product(further, varying))
            end = from_rows(ops, values[-height * len(own) :], len(own)) + further
            made = (entries_by_row(ops, x) for x in (ops.product(moving, by_bounds), end))
            return [*values[:m], at_rest, *chain(*made)], 1.0

        none: list[Scalar] = [0.0] * (height * m)
        carried = [*correction.impulses, 1.0, *none, *entries_by_row(ops, ops.take(start, None, own))]
        at_rest, *both = ops.repeat(1, carried, displaced, correction.nothing)[m:]
        end = from_rows(ops, both[height * m :], len(own))
        if others:
            end = ops.hstack([end, ops.take(start, None, others)])
            end = ops.take(end, None, [[*own, *others].index(k) for k in range(n)])

        def moved(values: list[Scalar]) -> tuple[list[Scalar], Scalar]:
            by_bounds = from_rows(ops, values[: height * m], m)
            further = entries_by_row(ops, ops.product(by_bounds, along))
            pairs = zip(values[height * m :], further, strict=True)
            return [*values[: height * m], *(x + y for x, y in pairs)], 1.0

        whole = ops.repeat(1, [*both[: height * m], *entries_by_row(ops, end)], moved, at_rest)[height * m :]
        end, straight, columns = from_rows(ops, whole, n), [k for k in range(nv) if k not in turning], range(n)
        q, turned = ops.take(end, range(nv), None), ops.take(end, range(nv, height), None)
        v = ops.put(ops.take(v, straight, None), (nv, n), straight, columns)
        v = v + ops.put(turned, (nv, n), turning, columns)
        return q, v


def step_changes(
    step: KernelStep, found: StepSolution, controls: Sequence[tuple[Matrix, Matrix]], inputs: StepInputs, varied: Any,
    varying: Mapping[str, int],
) -> tuple[dict[str, Matrix], Matrix]:  # fmt: skip
    """Changes by `KernelStepChanges.all` and distance of a step, with numbers of the call that are ``varied``.

    Where an impact places bodies they are dense, and take several times as long: a pass that is left out elsewhere.
    """
    ops, place = step.ops, found.place(step)

    def changes(places: Mapping[str, KernelStep], found: StepSolution) -> tuple[dict[str, Matrix], Matrix]:
        made: KernelStepChanges | None = None
        of_paths = dict.fromkeys(places, step.tree.nv) if step.problem.path is not None else {}
        for name, at in places.items():
            problem = at.problem.held(cast(DualOps, varied.ops), varied.values)
            if at.problem.path is not None:
                v = [Dual(x, {(name, k): 1.0}) for k, x in enumerate(at.v)]
                problem.follow(at.problem.path._replace(motion=inputs.motion(v, problem), h=inputs.h))
            made = KernelStepChanges(at, found, controls, inputs, problem, {**varying, **of_paths}, made)
        out, distance = cast(KernelStepChanges, made).all(), cast(KernelStepChanges, made).distance()
        if of_paths:
            out["v"] = out["v"] + out[PATH]
        return {name: out[name] for name in ("q", "v", *varying)}, distance

    if place is step or found.impact is None:
        return changes({PATH: step}, found)
    v = [x for own in found.motion.v for x in column(ops, own)]
    plain = changes({PATH: step}, found._replace(motion=step.motion_at(v)))

    def entries(made: dict[str, Matrix], distance: Matrix) -> list[Scalar]:
        return [x for a in (*made.values(), distance) for x in entries_by_row(ops, a)]

    pair, stays = {PATH: step, LATER_PATH: place}, 1.0 - maximum_of(ops, found.impact.when.placed)
    values = ops.repeat(1, entries(*plain), lambda _: (entries(*changes(pair, found)), 1.0), stays)
    out, rest = dict[str, Matrix](), iter(values)
    for name, a in plain[0].items():
        rows, columns = ops.shape(a)
        out[name] = from_rows(ops, list(islice(rest, rows * columns)), columns) if columns else a
    return out, from_rows(ops, list(rest), 1)
