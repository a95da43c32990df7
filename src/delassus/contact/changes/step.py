"""Derivatives of the last step of a scene, backwards: what numbers that count its end make of its start.

Impacts, the step itself, the correction of positions and the motion of bodies follow one another, each at its own
solution. Of each, what counts its results is pulled back to what it comes from, by one solution with a transposed
matrix (`delassus.contact.changes.response`); derivatives of all results count each of them alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from delassus.algorithms.contact.law import COMPLIANCE, gap_correction, limit_correction, part_beyond
from delassus.contact.changes.blocks import BlockDiagonal, InertialForces, MomentaOfProducts, Moves, SceneChanges
from delassus.contact.changes.contacts import (
    RowParts,
    force_changes,
    gap_changes,
    pull_forces,
    pull_scales,
    row_changes,
)
from delassus.contact.changes.impacts import ImpactChanges, distance_of_bounces
from delassus.contact.changes.loops import pull_smooth_motion, settled
from delassus.contact.changes.places import Placing, Situation, bases_of, records_of_places
from delassus.contact.changes.record import ImpactRecord, StepRecord, acting
from delassus.contact.changes.response import (
    Solved,
    SolvedCorrection,
)
from delassus.contact.changes.turning import turning_changes
from delassus.contact.filters import GEOMETRIC, PAIR_MATERIAL, friction_rates, radius_rates
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.records import COMPRESSION
from delassus.solvers.results import SolverStatus
from delassus.spatial.dual_ops import Dual, DualOps
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array

CUT = 1e-9
"""Part of a displacement by which the one that was taken differs where it was cut off."""


MATERIAL = {"friction": 3, "restitution": 4, "torsional": 5, "rolling": 6}
"""Places of what contacts have of colliders in `Colliders.material`."""


class PulledStep(NamedTuple):
    """What counts the state before a step and joint forces (n, k), and of contacts (m, k) coefficients and lengths.

    And ``mass`` of links (n_links, k) of the blocks.
    """

    q: Array
    v: Array
    tau: Array
    friction: Array
    restitution: Array
    torsional: Array
    rolling: Array
    mass: Array


class SceneStepChanges(Situation):
    """A step of a scene, to be pulled back from its end.

    Attributes
    ----------
    islands : list of arrays of int
        Blocks of each.
    links_of : (m,) array of int
        Block of each contact.
    distance : float
        Of the nearest other mode (m/s); zero, once pulled, where velocities are one of several that obey the laws.
    known : bool
        Whether all derivatives are.
    """

    def __init__(self, scene: SceneChanges, record: StepRecord, smoothing: float | None, with_mass: bool) -> None:
        *earlier, record = records_of_places(scene, record)
        super().__init__(scene, record, smoothing)
        self._with_mass, blocks, self.places, seen = with_mass, scene.blocks, [cast(Situation, self)], record
        for own in reversed(earlier):
            same = own.contacts is seen.contacts
            self.places.insert(0, self.places[0] if same else Situation(scene, own, smoothing))
            seen = own
        self.record = record = settled(record, self.loops, blocks, with_mass)
        self.known = bool(self.known_contacts[acting(record)].all()) and self._are_known()
        self.turning = None
        if record.search.turning is not None:
            self.turning = turning_changes(scene, record, record.search.turning, self.contacts, self.mobility)
            self.known = self.known and bool(self.turning.known[acting(record)].all())
            turns = (record.problems[-1].impulses[:, 2] > 0.0) & np.any(record.search.turning.taken, axis=1)
            self.distance = float(np.min(self.turning.distances[turns], initial=np.inf))
        v, late, self.impacts, self.placings = seen.v, np.zeros(self.n), list[ImpactChanges](), list[Placing | None]()
        for squeezed, last in zip(record.problems[:-1:2], record.problems[1::2], strict=True):
            assert last.impact is not None, "of decompression"
            parts, before = np.repeat(last.parts, np.diff(self.first)), squeezed.after
            w = np.where(parts == 1.0, last.after, before + parts * (last.after - before))
            v, late = self._impact(last.impact, v, w, late)
        free = self._free()
        nearest = [*(x.distance(free) for x in self.impacts), distance_of_bounces(self, v, free, late)]
        self.distance = min(self.distance, *nearest)
        after = record.problems[-1].after.copy()
        self.smooth_shift = np.zeros(self.n)
        for loop in self.loops:
            w, at = loop.reached, loop.at
            after[at] += w - loop.alone
            straight = loop.pushed * (loop.alone - 0.5 * (v[at] + w)) - w
            self.smooth_shift[at] = loop.moved + scene.options.dt * straight
        self.base, self.lead = bases_of(self.placings, self.n)
        self.struck, moving, moves = v, v + self.lead, None
        self.products = MomentaOfProducts(scene, record, moving, after - v, self.inverse)
        if self.base.any():
            moves = Moves(after, scene.options.dt - self.base[self.first[:-1]], record.correction.shift)
        self.free = self.products.of_step(scene.block_changes(record, moving, moving + after - v, moves))
        self.problems = self._solved()
        self.distance = min(x.distance for x in self.places)
        self.correction = self._correction()

    def _are_known(self) -> bool:
        """Whether changes of impacts are known: of contacts where these act, and of when they do; not with springs."""
        record, sprung, known = self.record, np.unique(self.scene.blocks.springs.block), True
        for number, hit in enumerate(record.hits):
            problems, (before, place) = record.problems[2 * number : 2 * number + 2], self.places[number : number + 2]
            known = known and all(place.known_contacts[x.impulses.any(axis=1)].all() for x in problems)
            impact = problems[0].impact
            if hit is not None and impact is not None:
                says_when = impact.first[hit.placed]
                known = known and bool(before.known_contacts[says_when[says_when >= 0]].all())
                known = known and not hit.placed[sprung].any()
        return known and not any(loop.is_struck(record) for loop in self.loops)

    def _impact(self, of: ImpactRecord, v: Array, w: Array, late: Array) -> tuple[Array, Array]:
        """Velocities half a step behind after an impact, and displacements, from before it and velocities ``w``."""
        number, (base, lead) = len(self.impacts), bases_of(self.placings, self.n)
        hit, before = self.record.hits[number], self.places[number]
        placed = np.zeros(self.n, bool) if hit is None else np.repeat(hit.placed, np.diff(self.first))
        begin = of if hit is None else of._replace(kick=np.where(placed, hit.kick, of.kick))
        self.impacts.append(own := ImpactChanges(before, begin, v, w, late, placed, lead, base > 0.0))
        self.placings.append(None)
        if hit is None:
            return w - of.kick, own.late
        self.placings[-1] = placing = Placing(before, self.places[number + 1], hit, own, w, late, base)
        return np.where(placed, w - hit.lead, w - of.kick), np.where(placed, placing.late, own.late)

    def _solved(self) -> list[Solved]:
        """Problems of the step."""
        out, record, v, dt = list[Solved](), self.record, self.places[0].record.v, self.scene.options.dt
        for number, problem in enumerate(record.problems):
            last = number + 1 == len(record.problems)
            place, after, late = self.places[-1], problem.after, self.record.correction.late
            if problem.impact is not None:
                place, late = self.places[number // 2 + 1], self.impacts[number // 2].late_before
                start = v + problem.impact.kick
                if (hit := record.hits[number // 2]) is not None:
                    placed = np.repeat(hit.placed, np.diff(self.first))
                    late, start = np.where(placed, 0.0, late), np.where(placed, hit.v, start)
                v = start if problem.phase == COMPRESSION else v
            measured, later = place.measured_by(place.contacts, after, last), None
            if place.by_velocities is not None:
                later = place.measured_by(place.by_velocities, after, last, alone=True)
            if last:
                self.measured = measured
                rates = problem.rates[:, 2]
                closing: Any = 1.0 * (-record.contacts.depths > dt * self.scene.options.tolerance)
                if self.smoothing is not None:
                    closing = part_beyond(NUMPY, -record.contacts.depths / dt, self.smoothings)
                over = np.where(np.isfinite(rates), closing / dt, 0.0)[:, None]
                lifted = self.gaps.scaled(over).parts
                parts = [x.copy() for x in measured.parts]
                for part, more in zip(parts, lifted, strict=True):
                    part[:, 2:3] += more
                if later is not None and self.by_velocities is not None:
                    lifted = gap_changes(self.by_velocities).scaled(over).parts
                    for part, more in zip(later.parts, lifted, strict=True):
                        part[:, 2:3] += more
                measured, lost = RowParts(self.sides, parts), self.free.momentum_q
                if record.search.turning is not None and self.turning is not None:
                    turns, scales = np.any(record.search.turning.taken, axis=1), self.contacts.scales
                    rows = turns[:, None, None] * np.where(np.eye(scales.shape[1], 3), scales[:, :, None], 0.0)
                    measured, own = measured.plus(self.turning.with_q.mapped(rows)), self.turning.with_v.mapped(rows)
                    later = own if later is None else later.plus(own)
            else:
                lost = self.scene.inertia_changes(place.record, after - v)
            of_loops, lost = list[Array](), BlockDiagonal([*lost.kinds])
            pushed = place.exerted(problem.impulses)[:, 0]
            pushed[self.scene.blocks.joints.dofs] += problem.joint_impulses
            for loop in self.loops:
                gained = after[loop.at] - (loop.reached if last else v[loop.at])
                measured_at = after[loop.at] if last else gained  # what opens loops before impacts is left to motion
                with_q, rows = loop.changes(gained, pushed[loop.at], measured_at)
                lost.kinds[loop.kind] = with_q[None]
                of_loops.append(rows)
            out.append(place.in_modes(problem, measured, lost, after - v, later, late)._replace(of_loops=of_loops))
            v = after
            if problem.phase != COMPRESSION:
                v = self.impacts[number // 2 + 1].v if number // 2 + 1 < len(self.impacts) else self.struck
        return out

    def _free(self) -> Array:
        """Velocities (n,) after the step without impulses, of blocks without loops."""
        last = self.record.problems[-1]
        exerted = self.exerted(last.impulses)
        np.add.at(exerted[:, 0], self.scene.blocks.joints.dofs, last.joint_impulses)
        return last.after - self.inverse.times(exerted)[:, 0]

    def _correction(self) -> SolvedCorrection | None:
        """The position correction, None where there is none."""
        record, options, joints = self.record, self.scene.options, self.scene.blocks.joints
        found, s, of_joints = record.correction, record.correction.pushes, record.correction.joint_pushes
        pushed, limited = s > 0.0, of_joints != 0.0
        if not (pushed.any() or limited.any() or any(loop.gaps.any() for loop in self.loops)):
            return None
        forced = np.zeros((self.n, 1))
        if self.sides:
            self.J.row(2).pulled(s[:, None, None], forced)
        forced[joints.dofs, 0] += of_joints
        x = self.inverse.times(forced)[:, 0]
        for loop in self.loops:
            x[loop.at] -= loop.whole_inverse @ (loop.J.T @ loop.gaps)
        taken, late = found.shift - self.smooth_shift - record.correction.late, record.correction.late
        taken = taken - self.base * record.problems[-1].after
        least = CUT * np.abs(x).max() + NUMPY.epsilon * np.abs(found.shift).max()
        self.known = self.known and bool(np.abs(x - taken).max() <= least)
        after, dt, normal, gap = record.problems[-1].after, options.dt, self.J.row(2), -record.contacts.depths
        moved = normal.times((after + late / dt)[:, None], self.m)[:, 0, 0] if self.sides else gap
        if record.search.turning is not None:
            moved = moved + record.search.turning.found[:, 2]
        ops, each = DualOps(NUMPY), 1.0 * pushed
        a, b = Dual(gap, {"gap": each}), Dual(dt * moved, {"way": each})
        bound: Any = gap_correction(ops, a, b, options.penetration, options.correction)[1]
        by_gap, by_motion = bound.rate("gap")[:, None], dt * bound.rate("way")[:, None]
        mobility = self.mobility.changes(COMPLIANCE * s)
        with_q = self.gaps.scaled(by_gap).plus(self.measured.row(2).scaled(by_motion))
        with_q = with_q.plus(row_changes(self.contacts, self.velocities(x)).row(2).scaled(-1.0 * pushed[:, None]))
        with_start = None
        if self.turning is not None:
            turned = (x.row(2).scaled(by_motion) for x in (self.turning.with_q, self.turning.with_v))
            with_q, with_start = with_q.plus(next(turned)), next(turned)
        q = record.q[joints.coordinates] + late[joints.dofs] + dt * after[joints.dofs]
        apart = np.where(of_joints > 0.0, q - joints.lower, joints.upper - q)
        limit: Any = Dual(apart, {"q": 1.0 * (limited & (apart != 0.0))})  # of what ends at a limit, 0 as its value
        _, bound = limit_correction(ops, limit, options.correction, dt * options.tolerance)
        limit = bound.rate("q")
        D = np.concatenate([np.where(pushed, found.compliances, 1.0), np.where(limited, found.joint_compliances, 1.0)])
        rows = normal.scaled(1.0 * pushed[:, None])
        mean = self.mobility.of_contacts.sum(axis=1) / 3.0
        groups = self.groups((rows, rows), 1.0 * limited, D, np.concatenate([mean, self.mobility.of_joints]))
        impulses = np.zeros((self.m, 3))
        impulses[:, 2] = s
        of_loops, lost = list[Array](), self.scene.inertia_changes(record, x)
        for loop in self.loops:
            own, measured = loop.changes(x[loop.at], forced[loop.at, 0], x[loop.at])
            lost.kinds[loop.kind] = own[None]
            of_loops.append(measured + loop.gaps_with_q)
        return SolvedCorrection(
            groups, with_q.plus(mobility[0]), normal.scaled(by_motion), with_start, limit, dt * limit,
            self.mobility.of_limits(), force_changes(self.contacts, impulses), lost, mobility[1], x, of_loops,
        )  # fmt: skip

    def pulled(self, q: Array, v: Array) -> PulledStep:
        """What counts the start of the step, from what counts its end (n, k)."""
        record, n, m, k = self.record, self.n, self.m, q.shape[1]
        free, joints, (asleep, sleeping) = self.free, self.scene.blocks.joints, record.asleep
        sizes = np.diff(self.first)
        still = np.repeat(asleep > 0, sizes)
        sizes_of_all = (n, n, n, m, m, m, m, len(self.scene.blocks.links))
        out, r = PulledStep(*(np.zeros((size, k)) for size in sizes_of_all)), self.contacts.scales.shape[1]
        scales = np.zeros((m, 3, k))
        mass, nothing, lead = np.zeros((n, k)), np.zeros(n), np.zeros((n, k))  # of free bodies by axes
        inertials = [list[InertialForces]() for _ in self.places]
        inertial = inertials[-1]
        out.q[still] = q[still]
        q = np.where(still[:, None], 0.0, q)
        v = np.where((still | np.repeat(sleeping > 0, sizes))[:, None], 0.0, v)
        by_q, dv, shift, by_times = free.pull_moves(q, v)
        out.q[:] += by_q
        floors, times = np.zeros((m, k)), np.zeros((len(sizes), k))
        smooth, c, late = (dv.copy(), shift), self.correction, shift.copy()
        if c is not None:
            self._pull_correction(c, shift, late, dv, mass, inertial, scales, out)
        dv += self.base[:, None] * shift  # it is so much further from where it is placed, in less time
        at_base = np.add.reduceat(record.problems[-1].after[:, None] * shift, self.first[:-1], axis=0) - by_times
        for number in range(len(self.problems) - 1, -1, -1):
            solved = self.problems[number]
            problem, last = solved.problem, number + 1 == len(self.problems)
            place, placing = (self, None) if last else (self.places[number // 2 + 1], self.placings[number // 2])
            of_impulses = np.zeros((len(solved.groups.D), k))
            before, count = np.zeros((n, k)), dv
            if problem.phase == COMPRESSION and not last:
                of_impulses[2 : r * m : r] = record.contacts.restitution[:, None] * floors
                out.restitution[:] += problem.impulses[:, 2:3] * floors
            elif not last:
                if placing is not None:
                    at_times = times, at_base
                    dv = placing.pull_velocities(dv, lead, late, at_times, mass, inertials[number // 2 + 1], out)
                dv = self.impacts[number // 2].start(dv, late)
                part = np.repeat(problem.parts, sizes)[:, None]
                before, count = (1.0 - part) * dv, part * dv
            response = self.response if last else place.at_impact
            weights, of_rows = response.solve(solved.groups, count, of_impulses)
            floors = self._pull_rows(solved, weights, of_rows, late, scales, out)
            if self.sides:
                mass -= place.exerted(problem.impulses) * weights
            if last:
                lead, dv = self._pull_smooth_motion(weights, problem.after, smooth, mass, inertial, out)
            else:
                inertials[number // 2 + 1].append(InertialForces(nothing, solved.change, -weights))
                dv = before + place.M.times(weights)
                for loop, own in zip(self.loops, self._of_loops(of_rows[r * m + len(joints.dofs) :]), strict=True):
                    dv[loop.at] += loop.J.T @ own
                if problem.phase == COMPRESSION:
                    shifts: Any = 0.0
                    if placing is not None:
                        dv, shifts, at_base = placing.pull_places(dv, late, (times, at_base), out)
                    impact, into = self.impacts[number // 2], inertials[number // 2]
                    dv = impact.end(dv, late, times, mass, into, out, shifts, lead)
        out.v[:] += dv
        of_friction, out.torsional[:], out.rolling[:] = pull_scales(record.contacts, scales)
        out.friction[:] += of_friction
        if self._with_mass:
            self._pull_masses(mass, inertials, out)
        if not (self.response.is_regular and all(x.at_impact.is_regular for x in self.places)):
            self.known, self.distance = False, 0.0
        return out

    def _pull_correction(
        self, c: SolvedCorrection, shift: Array, late: Array, dv: Array, mass: Array, inertial: list[InertialForces],
        scales: Array, out: PulledStep,
    ) -> None:  # fmt: skip
        """Add to what counts all else what counts the displacement ``shift`` (n, k) of the position correction."""
        record, m, k, dt = self.record, self.m, shift.shape[1], self.scene.options.dt
        joints = self.scene.blocks.joints
        weights, of_rows = self.response.solve(c.groups, shift, np.zeros((len(c.groups.D), k)))
        normals, limits = of_rows[:m, None], of_rows[m : m + len(joints.dofs)]
        self._pull_loops(c.of_loops, of_rows[m + len(joints.dofs) :], out.q)
        pull_forces(c.forces, weights, m, out.q)
        out.q[:] -= c.lost.T.times(weights)
        if self.springs.along_lines:
            out.q[:] -= self.springs.masses_with_positions(c.moved).T.times(weights)
        c.with_q.pulled(normals, out.q)
        c.with_v.pulled(normals, dv)
        if c.with_start is not None:
            c.with_start.pulled(normals, out.v)
        c.with_v.pulled(normals / dt, late)
        out.q[joints.dofs] += c.joints_with_q[:, None] * limits
        late[joints.dofs] += c.joints_with_q[:, None] * limits
        dv[joints.dofs] += c.joints_with_v[:, None] * limits
        out.q[:] += c.joints_with_mobility.T @ limits[record.correction.joint_pushes != 0.0]
        mass -= self.M.times(c.moved[:, None]) * weights
        c.mobility.pulled(normals, mass)
        inertial.append(InertialForces(np.zeros(self.n), c.moved, -weights))
        if self._with_mass:
            inertial += self.mobility.of_masses(normals[:, 0], limits)
        if self.contacts.scales.shape[1] > 3:
            scales -= self.mobility.with_scales(self.contacts.scales)[..., None] * normals

    def _pull_rows(
        self, solved: Solved, weights: Array, of_rows: Array, late: Array, scales: Array, out: PulledStep
    ) -> Array:
        """Add what counts rows of contacts, limits and loops; returns what counts the floors of contacts (m, k)."""
        m, r, k = self.m, self.contacts.scales.shape[1], weights.shape[1]
        joints = self.scene.blocks.joints
        on_contacts = of_rows[: r * m].reshape(m, r, k)
        solved.measured.pulled(on_contacts, out.q)
        pull_forces(solved.forces, weights, m, out.q)
        if solved.by_velocities is not None:
            rows, wrenches = solved.by_velocities
            rows.pulled(on_contacts, out.v)
            if wrenches is not None:
                wrenches.pulled(solved.forces.twists.times(weights, m), out.v)
        out.q[:] -= solved.lost.T.times(weights)
        of_limits = solved.held[:, None] * of_rows[r * m : r * m + len(joints.dofs)]
        out.q[joints.dofs] += of_limits
        late[joints.dofs] += of_limits
        if solved.with_late is not None:
            solved.with_late.pulled(on_contacts, late)
        self._pull_loops(solved.of_loops, of_rows[r * m + len(joints.dofs) :], out.q)
        if self.sides:
            sliding, of_spins = solved.of_friction
            out.friction[:] += sliding.times(weights, m)[:, 0]
            if of_spins is not None:
                scales += of_spins[0].times(weights, m) - np.swapaxes(of_spins[1], 1, 2) @ on_contacts
        return solved.with_floor * on_contacts[:, 2]

    def _pull_smooth_motion(
        self, weights: Array, after: Array, smooth: tuple[Array, Array], mass: Array, inertial: list[InertialForces],
        out: PulledStep,
    ) -> tuple[Array, Array]:  # fmt: skip
        """What counts velocities (n, k) that lead by half a step, and others, from ``weights`` of all at the end."""
        record, dt = self.record, self.scene.options.dt
        out.tau[:] = dt * weights
        mass -= dt * record.tau[:, None] * weights
        dv, start = -self.free.momentum_v.T.times(weights), (self.struck, record.tau)
        dv += self.springs.pull(self.struck, after - self.struck, weights, out)
        counts = *smooth, weights
        inertial += pull_smooth_motion(self.scene, self.loops, start, after, counts, dv, out, self._with_mass)
        for stage, own in self.products.earlier(weights):
            out.q[:] -= self.products.with_q[stage].T.times(own)
            out.tau[:] += dt * own
            dv += self.springs.pull(self.struck, self.products.stages[stage][0], own, out)
            dv -= self.products.with_v[stage].T.times(own) + self.springs.gained.times(own)
            inertial += self.products.inertial_forces(stage, own)
        for loop in self.loops:
            weights[loop.at] = 0.0
        inertial += self.products.inertial_forces(0, weights)
        led, behind = self.base[:, None] > 0.0, self.M.times(weights)
        return np.where(led, dv - behind, 0.0), np.where(led, behind, dv)

    def _pull_masses(self, mass: Array, inertials: list[list[InertialForces]], out: PulledStep) -> None:
        """Set what counts masses of links, from that of free bodies by axes (n, k) and of inertial forces."""
        masses = self.scene.blocks.mass
        of_bodies = mass[: 6 * len(masses)].reshape(len(masses), 6, mass.shape[1]).sum(axis=1)
        has_mass = masses > 0.0  # bodies that the user moves have none
        out.mass[: len(masses)] = np.where(has_mass, 1.0 / np.where(has_mass, masses, 1.0), 0.0)[:, None] * of_bodies
        for place, own_forces in zip(self.places, inertials, strict=True):
            self.scene.with_masses(place.record, own_forces, out.mass)

    def _of_loops(self, rows: Array) -> list[Array]:
        """Of rows of all loops those of each block."""
        return np.split(rows, np.cumsum([len(loop.J) for loop in self.loops], dtype=np.int64))[: len(self.loops)]

    def _pull_loops(self, changes: list[Array], counts: Array, to: Array) -> None:
        """Subtract what rows of loops, which change by these (r, w) with positions, count (…, k)."""
        for loop, change, own in zip(self.loops, changes, self._of_loops(counts), strict=False):
            to[loop.at] -= change.T @ own

    @property
    def status(self) -> SolverStatus:
        """How the step was solved; `NOT_DIFFERENTIABLE` where derivatives of a part of it are not known."""
        return self.record.status if self.known else SolverStatus.NOT_DIFFERENTIABLE

    def with_parameter(self, name: str, pulled: PulledStep, blocks: Indices) -> tuple[Indices, Array]:
        """Which of the scene's parameters act on some islands' blocks, and what counts them (p, k)."""
        scene = self.scene.blocks
        if name == "mass":
            own = np.flatnonzero(np.isin(scene.of_links.block[scene.links], blocks))
            return scene.links[own], pulled.mass[own]
        of_contacts, column = getattr(pulled, name), MATERIAL[name]
        own = np.flatnonzero(np.isin(self.block_of, blocks))
        colliders = self.record.contacts.colliders[own]
        which = np.unique(colliders)
        arrays = self.scene.detector.arrays
        rule, of_two = GEOMETRIC if name == "restitution" else arrays.friction_rule, arrays.material[colliders, column]
        rates = friction_rates(rule, of_two) if name in ("friction", "restitution") else radius_rates(rule, of_two)
        if len(arrays.pairs) and name in PAIR_MATERIAL:  # what pairs have of their own is of no collider
            given = arrays.pairs[colliders[:, 0], colliders[:, 1], PAIR_MATERIAL.index(name)]
            rates = np.where(given[:, None] >= 0.0, 0.0, rates)
        out = np.zeros((len(which), of_contacts.shape[1]))
        for side in range(2):
            np.add.at(out, np.searchsorted(which, colliders[:, side]), rates[:, side, None] * of_contacts[own])
        return which, out
