"""Derivatives of the impact of a step: of when it is, where it places bodies, and of velocities after it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

from delassus.algorithms.contact.changes.response import ModeResponse
from delassus.algorithms.contact.impacts import of_displaced
from delassus.algorithms.contact.solution import Impact, StepMotion, StepSolution
from delassus.algorithms.contact.step import KernelStep
from delassus.algorithms.dynamics.integrate import position_update_changes
from delassus.spatial.dual_ops import Dual, rates_of
from delassus.spatial.motion import column, diagonal, from_entries, minus, plus, scaled_matrix
from delassus.spatial.ops import Matrix, Ops, Scalar

TIME = "time of an impact"
"""Key of what varies with it, of each joint."""


class ImpactPart:
    """The part of `StepChanges` that is of an impact."""

    _ops: Ops
    _step: KernelStep
    _found: StepSolution
    _varied: Any
    _before: Any
    _first: Any
    _controls: Any
    _beside: Any
    _at_rest: Any
    _of_motion: Any
    _answer: Any
    _are_unique: Any
    _M: Matrix
    _J: Matrix
    _dq: Matrix | None
    _at_places: Matrix
    _times: Matrix
    _places: bool

    def _struck(self, impact: Impact) -> tuple[Matrix, Matrix, Matrix]:
        """Changes of velocities after an impact (nv × k), of the state where there is none, and of its displacement.

        And of those that forces are of.
        """
        ops, step, nv, varied, when = self._ops, self._step, self._step.tree.nv, self._varied, impact.when
        unmoved = self._beside(nv, v=ops.eye(nv))
        times, kick = self._first._impact_time(impact, unmoved)
        v, floors, dv = impact.start, None, unmoved + kick
        if self._places:
            self._dq, dv = self._placed(impact, times, kick)
            self._at_places = dv
        start, bounces = dv, cast(list[Scalar], [0.0 if e is None else e for *_, e in step.points])
        compression = None
        for solved in impact.phases:
            response = ModeResponse(step.instant, solved)
            unique = response.is_unique_with(bounces, compression, self._J)
            compression = response
            self._are_unique = ops.select(impact.struck, self._are_unique * unique, self._are_unique)
            gained = minus(solved.velocity, v)
            changes, rho = self._at_rest(gained, solved.velocity, varied.impulses(response, solved.impulses), True)
            rho = rho - ops.product(self._M, dv)
            sigma = self._beside(step.problem.n_rows, q=changes.rows, given=varied.velocities(solved.velocity))
            if step.loops:
                sigma = self._keeping_loops(sigma, gained, dv)
            if floors is not None:
                rho = rho + response.momentum_of_floors(floors, self._J)
            dv, normals = self._answer(response, rho, sigma, self._M)
            v = solved.velocity
            if floors is not None:
                break
            pressed = diagonal(ops, solved.outcome.p[2 : 3 * len(bounces) : 3])
            with_restitution = pressed @ varied.rates([e for *_, e in varied.points])
            floors = diagonal(ops, bounces) @ normals + self._beside(len(bounces), given=with_restitution)
        gained, centres = minus(v, impact.start), of_displaced(step, step.problem)
        moved = varied.rates(column(varied.ops, of_displaced(step, varied.problem) @ from_entries(varied.ops, gained)))
        late = diagonal(ops, when.times) @ (centres @ (dv - start) + self._beside(nv, given=moved))
        by_time = step.mean_by_time(column(ops, centres @ from_entries(ops, gained)), gained)
        late = -(late + diagonal(ops, by_time) @ times)
        none = ops.zeros(*ops.shape(late))
        after, late = self._where(when.struck, dv - kick, unmoved), self._where(when.struck, late, none)
        if not self._places:
            return after, late, after
        behind, own = self._half_a_step_behind(impact, self._where(when.placed, dv, after), times)
        moving = self._where(when.placed, dv, after)
        return self._where(when.placed, behind, after), self._where(when.placed, own, late), moving

    def _placed(self, impact: Impact, times: Matrix, kick: Matrix) -> tuple[Matrix, Matrix]:
        """Changes (nv × k) of where an impact places bodies, and of their velocities there, before it."""
        ops, first, when, nv, h = self._ops, self._first, impact.when, self._step.tree.nv, self._step.h
        step, over_h, of_h = (
            first._step,
            self._step.over_h,
            first._beside(1, given=first._varied.rates([first._varied.h])),
        )
        late = [x * t for x, t in zip(when.placed, when.times, strict=True)]
        kicks = [x * (0.5 + t * over_h) * f * g
                 for x, t, f, g in zip(when.struck, when.times, when.falls, when.gained, strict=True)]  # fmt: skip
        over = [1.0 / (h + 2.0 * t) for t in late]
        shift = [-t * t * x * k for t, x, k in zip(late, over, kicks, strict=True)]
        with_kick = [-t * t * x for t, x in zip(late, over, strict=True)]
        with_time = [-2.0 * t * (h + t) * x * x * k for t, x, k in zip(late, over, kicks, strict=True)]
        with_h = [t * t * x * x * k for t, x, k in zip(late, over, kicks, strict=True)]
        moved = diagonal(ops, with_kick) @ kick + diagonal(ops, with_time) @ times + from_entries(ops, with_h) @ of_h
        keys, firsts = list(first._varied.parameters), [sv.start for sv in step.tree.v_slices]
        of_joints = [Dual(late[k], {(TIME, i): when.placed[k]}) for i, k in enumerate(firsts)]
        keys += [(TIME, i) for i in range(len(firsts))]
        by_q, *both = position_update_changes(
            first._varied.problem, plus(step.v, kicks), first._varied.h, shift, keys, cast(Any, of_joints)
        )
        before, out = first._beside(nv, v=ops.eye(nv)) + kick, list[Matrix]()
        still = first._beside(nv, q=ops.eye(nv)), before
        for x, with_q, own in zip(both, (by_q, ops.zeros(nv, nv)), still, strict=True):
            ends = 0, nv, 2 * nv, 2 * nv + len(first._varied.parameters), ops.shape(x)[1]
            by_v, by_shift, given, by_time = (ops.take(x, None, range(*part)) for part in pairwise(ends))
            change = first._beside(nv, q=with_q, given=given) + by_v @ before + by_shift @ moved
            out.append(self._where(when.placed, change + by_time @ ops.take(times, firsts, None), own))
        return out[0], out[1]

    def _half_a_step_behind(self, impact: Impact, dw: Matrix, times: Matrix) -> tuple[Matrix, Matrix]:
        """Changes of velocities half a step behind, of what an impact has placed, and of its displacement."""
        ops, step, found, when = self._ops, self._step, self._found, impact.when
        over_h, none = step.over_h, [cast(Scalar, 0.0)] * step.problem.n_rows
        w = [x for own in found.motion.v for x in column(ops, own)]
        ahead = step.without_mean(found.motion)
        both, controls = (dw, dw), self._controls[0]
        _, rho = self._of_motion(found.motion, minus(ahead, w), ahead, (none, none), both, self._varied, controls)
        d_ahead = -step.space.L.solved(step.space.solve_transpose(rho))
        gained = [x * (a - b) for x, a, b in zip(when.falls, ahead, w, strict=True)]
        d_gained, of_h = (
            diagonal(ops, when.falls) @ (d_ahead - dw),
            self._beside(1, given=self._varied.rates([self._varied.h])),
        )
        parts = [0.5 + t * over_h for t in when.times]
        with_time = [-over_h * g for g in gained]
        with_h = [over_h * over_h * t * g for t, g in zip(when.times, gained, strict=True)]
        behind = dw - diagonal(ops, parts) @ d_gained + diagonal(ops, with_time) @ times
        behind = behind + from_entries(ops, with_h) @ of_h
        with_gained = [0.5 * t * t * over_h for t in when.times]
        with_time = [t * over_h * g - x for t, g, x in zip(when.times, gained, w, strict=True)]
        with_h = [-0.5 * (t * over_h) * (t * over_h) * g for t, g in zip(when.times, gained, strict=True)]
        late = diagonal(ops, with_time) @ times - diagonal(ops, list(when.times)) @ dw
        late = late + diagonal(ops, with_gained) @ d_gained + from_entries(ops, with_h) @ of_h
        self._times = times
        return behind, late

    def _from_places(self, moved: StepMotion, end_velocity: Matrix) -> tuple[list[Any], list[Scalar], Matrix, Matrix]:
        """Times by which joints move from where bodies are placed, and by what (nv) beside; changes of their times.

        And changes of the latter (nv × k), but for what is displaced.
        """
        assert self._found.impact is not None, "it places bodies"
        ops, when, tree = self._ops, self._found.impact.when, self._step.tree
        late = [x * t for x, t in zip(when.placed, when.times, strict=True)]
        firsts = [sv.start for sv in tree.v_slices]
        times = list[Any]()
        for i, k in enumerate(firsts):
            times.append(Dual(self._step.h - late[k], {**rates_of(self._varied.h), (TIME, i): -when.placed[k]}))
        shift = [x + t * u for x, t, u in zip(moved.shift, late, moved.velocity, strict=True)]
        with_time = [x * u for x, u in zip(when.placed, moved.velocity, strict=True)]
        further = diagonal(ops, late) @ end_velocity + diagonal(ops, with_time) @ self._times
        return times, shift, ops.take(self._times, firsts, None), further

    def _where(self, flags: Sequence[Scalar], a: Matrix, b: Matrix) -> Matrix:
        """Rows of ``a`` where a flag is 1, else of ``b``."""
        ops = self._ops
        rows = zip(flags, ops.entries(a), ops.entries(b), strict=True)
        return ops.matrix([[ops.select(x, y, z) for y, z in zip(p, q, strict=True)] for x, p, q in rows])

    def _impact_time(self, impact: Impact, unmoved: Matrix) -> tuple[Matrix, Matrix]:
        """Changes (nv × k) of the time of an impact, of each degree of freedom, and of the velocities that it gains."""
        ops, step, when, varied = self._ops, self._step, impact.when, self._before
        n, m = len(step.points), step.problem.n_rows
        none, free = [cast(Scalar, 0.0)] * m, plus(step.v, when.gained)
        both = unmoved, unmoved
        _, rho = self._of_motion(step.motion, when.gained, free, (none, none), both, varied, self._controls[1])
        with_free = -step.space.L.solved(step.space.solve_transpose(rho))
        further = diagonal(ops, when.falls) @ (with_free - unmoved)
        gained = [x * y for x, y in zip(when.falls, when.gained, strict=True)]
        faster, path = column(ops, self._J @ from_entries(ops, gained)), plus(step.v, gained)
        over = list[Scalar]()
        shares: tuple[list[Scalar], list[Scalar]] = [], []  # of the velocities at either end of the path
        for (t, u), bounces in zip(when.at, when.bounces, strict=True):
            late = ops.less(0.0, t)
            within = bounces * ops.select(late, ops.less(t, step.h), step.has_mean)
            over.append(ops.select(within, -1.0 / ops.select(within, u, 1.0), 0.0))
            for share, sign in zip(shares, (-1.0, 1.0), strict=True):
                share.append(0.5 * over[-1] * t * (1.0 + sign * t * step.over_h))
        of_h = self._beside(1, given=varied.rates([varied.h]))
        at = ops.zeros(n, ops.shape(unmoved)[1])
        for share, v, dv in zip(shares, (step.v, path), (unmoved, unmoved + further), strict=True):
            changes, _ = self._at_rest(v, v, none)
            of_rows = self._beside(m, q=changes.rows, given=varied.rows(v)) + ops.product(self._J, dv)
            at = at + diagonal(ops, share) @ ops.take(of_rows, changes.rows_of_gaps, None)
        gaps = self._beside(n, q=changes.gaps, given=varied.rates([c.gap for c, *_ in varied.points]))
        curves = [-0.5 * (t * step.over_h) * (t * step.over_h) * faster[row]
                  for row, (t, _) in zip(changes.rows_of_gaps, when.at, strict=True)]  # fmt: skip
        at = at + diagonal(ops, over) @ (gaps + from_entries(ops, curves) @ of_h)
        times = ops.matrix(when.of_points) @ at
        over_h, parts, rates = step.over_h, list[Scalar](), list[Scalar]()
        for struck, t in zip(when.struck, when.times, strict=True):
            parts.append(struck * (0.5 + t * over_h))
            rates.append(-struck * t * over_h * over_h)
        kicked = diagonal(ops, gained) @ (scaled_matrix(ops, over_h, times) + from_entries(ops, rates) @ of_h)
        return times, diagonal(ops, parts) @ further + self._where(when.struck, kicked, ops.zeros(*ops.shape(kicked)))

    def _keeping_loops(self, sigma: Matrix, gained: Sequence[Scalar], dv: Matrix) -> Matrix:
        """Changes of rows (m × k), those of loops of ``J x`` with velocities ``x`` gained, on top of changing ones."""
        ops, step = self._ops, self._step
        changes, _ = self._at_rest(gained, gained, [0.0] * step.problem.n_rows)
        own = self._beside(step.problem.n_rows, q=changes.rows, given=self._varied.rows(gained))
        kept = ops.take(own - ops.product(self._J, dv), step.loops, None)
        n, columns = step.problem.n_rows, range(ops.shape(sigma)[1])
        others = [row for row in range(n) if row not in step.loops]
        parts = ((ops.take(sigma, others, None), others), (kept, step.loops))
        first, second = (ops.put(x, ops.shape(sigma), rows, columns) for x, rows in parts)
        return first + second
