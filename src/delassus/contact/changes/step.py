"""Derivatives of the last step of a scene, backwards: what numbers that count its end make of its start.

Impacts, the step itself, the correction of positions and the motion of bodies follow one another, each at its own
solution. Of each, what counts its results is pulled back to what it comes from, by one solution with a transposed
matrix (`delassus.contact.changes.response`); derivatives of all results count each of them alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from delassus.algorithms.contact.law import TINY, part_beyond
from delassus.algorithms.contact.law import TUNING as STEP
from delassus.algorithms.contact.problem import JointLaw
from delassus.contact.changes.blocks import BlockDiagonal, InertialForces, MomentaOfProducts, SceneChanges
from delassus.contact.changes.contacts import (
    Contacts,
    RowParts,
    force_changes,
    gap_changes,
    pull_forces,
    pull_scales,
    row_changes,
    spins_of,
)
from delassus.contact.changes.impacts import ImpactChanges, distance_of_bounces
from delassus.contact.changes.loops import SmoothCounts, settled
from delassus.contact.changes.mobility import Mobilities
from delassus.contact.changes.paths import on_paths
from delassus.contact.changes.places import Placing, Situation, before_and_at
from delassus.contact.changes.record import ImpactRecord, Problem, StepRecord, acting
from delassus.contact.changes.response import (
    OfFriction,
    Parts,
    Response,
    Solved,
    SolvedCorrection,
    Ties,
    holds_of,
    modes_of,
)
from delassus.contact.changes.turning import turning_changes
from delassus.contact.filters import GEOMETRIC, PAIR_MATERIAL, friction_rates, radius_rates
from delassus.contact.results import SolverStatus
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.records import COMPRESSION
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array

FAR = 1e6
"""Velocity (m/s) at which what takes no part parts."""

CUT = 1e-9
"""Part of a displacement by which the one that was taken differs where it was cut off."""


MATERIAL = {"friction": 3, "restitution": 4, "torsional": 5, "rolling": 6}
"""Places of what contacts have of colliders in `Colliders.material`."""


class Pulled(NamedTuple):
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


class StepChanges(Situation):
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
        before, record = before_and_at(scene, record)
        super().__init__(scene, record, smoothing)
        self.start = self if record.hit is None else Situation(scene, before, smoothing)
        self._with_mass, self.distance, blocks = with_mass, np.inf, scene.blocks
        if smoothing is not None:
            self.known_contacts &= ~on_paths(record)
        self.known = bool(self.known_contacts[acting(record)].all())
        self.M = BlockDiagonal(scene.batched(self.springs.mass))
        self.record = record = settled(record, self.loops, blocks, with_mass)
        self.known = self.known and not any(loop.is_struck(record) for loop in self.loops)
        self.mobility = Mobilities(scene, record, self.contacts, self.J, self.inverse, self.loops, self.springs)
        self.turning = None
        if record.search.turning is not None:
            self.turning = turning_changes(scene, record, record.search.turning, self.contacts, self.mobility)
            self.known = self.known and bool(self.turning.known[acting(record)].all())
            turns = (record.problems[-1].impulses[:, 2] > 0.0) & np.any(record.search.turning.taken, axis=1)
            self.distance = float(np.min(self.turning.distances[turns], initial=np.inf))
        self.ties = Ties(self.sides, self.on, blocks.joints, self.loops, self.first)
        self._find_islands()
        v, late, self.impacts, self.placing = before.v, np.zeros(self.n), list[ImpactChanges](), cast(Any, None)
        for squeezed, last in zip(record.problems[:-1:2], record.problems[1::2], strict=True):
            assert last.impact is not None, "of decompression"
            parts, before = np.repeat(last.parts, np.diff(self.first)), squeezed.after
            w = np.where(parts == 1.0, last.after, before + parts * (last.after - before))
            v, late = self._impact(last.impact, v, w, late)
        free = self._free()
        nearest = [*(x.distance(free) for x in self.impacts), distance_of_bounces(self, v, free, late)]
        self.distance = min(self.distance, *nearest)
        self.smoothings = self._smoothings()
        after = record.problems[-1].after.copy()
        self.smooth_shift = np.zeros(self.n)
        for loop in self.loops:
            w, at = loop.reached, loop.at
            after[at] += w - loop.alone
            straight = loop.pushed * (loop.alone - 0.5 * (v[at] + w)) - w
            self.smooth_shift[at] = loop.moved + scene.options.dt * straight
        self.struck, moving = v, v if self.placing is None else v + self.placing.behind
        self.products = MomentaOfProducts(scene, record, moving, after - v, self.inverse)
        moves = None if self.placing is None else self.placing.moves(after)
        self.free = self.products.of_step(scene.block_changes(record, moving, moving + after - v, moves))
        self.problems = self._solved()
        self.correction = self._correction()

    def _impact(self, of: ImpactRecord, v: Array, w: Array, late: Array) -> tuple[Array, Array]:
        """Velocities half a step behind after an impact, and displacements, from before it and velocities ``w``."""
        hit = self.record.hit
        placed = np.zeros(self.n, bool) if hit is None else np.repeat(hit.placed, np.diff(self.first))
        begin = of if hit is None else of._replace(kick=np.where(placed, hit.kick, of.kick))
        self.impacts.append(own := ImpactChanges(self.start, begin, v, w, late, placed))
        if hit is None:
            return w - of.kick, own.late
        self.placing = Placing(self.start, self, hit, own, w)
        says_when = np.unique(of.first[hit.placed])
        sprung = np.unique(self.scene.blocks.springs.block)
        self.known = self.known and hit.alone and bool(self.start.known_contacts[says_when].all())
        self.known = self.known and not hit.placed[sprung].any()
        return np.where(placed, w - self.placing.behind, w - of.kick), own.late

    def _find_islands(self) -> None:
        self.islands = self.scene.islands(self.record)
        bodies, joints = self.scene.blocks.bodies, self.scene.blocks.joints
        of_block = np.zeros(len(bodies.at), np.int64)
        for q, blocks in enumerate(self.islands):
            of_block[blocks] = q
        self.block_of = self.on.max(axis=1, initial=-1)
        of_loops = np.array([loop.block for loop in self.loops], np.int64)
        of_groups = of_block[np.concatenate([self.block_of, joints.blocks, of_loops])]
        ends = np.cumsum([0, *map(len, self.islands)])
        counts = np.bincount(of_groups, minlength=len(self.islands))
        members, member_ends = np.argsort(of_groups, kind="stable"), np.concatenate([[0], np.cumsum(counts)])
        nodes = np.concatenate([np.zeros(0, np.int64), *self.islands])
        self.parts = Parts(nodes, ends, members, member_ends, bodies.first, bodies.at)
        self.response = Response(self.parts, self.record.masses.mass)
        self.at_impact = self.response
        if self.springs.mass is not self.record.masses.mass:  # springs do nothing in an instant
            self.at_impact = Response(self.parts, self.springs.mass)

    def _velocities(self, x: Array) -> list[Array]:
        return [x[side.dofs] for side in self.sides]

    def _solved(self) -> list[Solved]:
        """Problems of the step."""
        out, record, v, dt = list[Solved](), self.record, self.record.v, self.scene.options.dt
        for number, problem in enumerate(record.problems):
            last = number + 1 == len(record.problems)
            after, late = problem.after, self.record.correction.late if last else self.impacts[number // 2].late_before
            if problem.phase == COMPRESSION and problem.impact is not None:
                v = v + problem.impact.kick
            measured, later = self._measured(self.contacts, after, last), None
            if self.by_velocities is not None:
                later = self._measured(self.by_velocities, after, last, alone=True)
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
                lost = self.scene.inertia_changes(record, after - v)
            of_loops, lost = list[Array](), BlockDiagonal([*lost.kinds])
            pushed = self._exerted(problem.impulses)[:, 0]
            pushed[self.scene.blocks.joints.dofs] += problem.joint_impulses
            for loop in self.loops:
                gained = after[loop.at] - (loop.reached if last else v[loop.at])
                measured_at = after[loop.at] if last else gained  # what opens loops before impacts is left to motion
                with_q, rows = loop.changes(gained, pushed[loop.at], measured_at)
                lost.kinds[loop.kind] = with_q[None]
                of_loops.append(rows)
            out.append(self._in_modes(problem, measured, lost, after - v, later, late)._replace(of_loops=of_loops))
            v = after
            if problem.phase != COMPRESSION:
                v = self.impacts[number // 2 + 1].v if number // 2 + 1 < len(self.impacts) else self.struck
        return out

    def _measured(self, contacts: Contacts, after: Array, last: bool, alone: bool = False) -> RowParts:
        """`row_changes` at the velocities ``after`` a problem; at the ``last`` one with displacements by impacts."""
        out = row_changes(contacts, self._velocities(after), alone)
        if last and self.record.correction.late.any():
            moved = row_changes(contacts, self._velocities(self.record.correction.late / self.scene.options.dt), alone)
            for part, more in zip(out.parts, moved.parts, strict=True):
                part[:, 2] += more[:, 2]
        return out

    def _smoothings(self) -> Any:
        """Of contacts (m,), None without; zero of those that close fast enough to bounce: nothing is uncertain."""
        if self.smoothing is None:
            return None
        approach = self.J.times(self.record.v[:, None], self.m)[:, 2:3, 0].sum(axis=1)
        fast = (self.record.contacts.restitution > 0.0) & (approach < -self.scene.options.resting)
        return np.where(fast, 0.0, self.smoothing)

    def _free(self) -> Array:
        """Velocities (n,) after the step without impulses, of blocks without loops."""
        last = self.record.problems[-1]
        exerted = self._exerted(last.impulses)
        np.add.at(exerted[:, 0], self.scene.blocks.joints.dofs, last.joint_impulses)
        return last.after - self.inverse.times(exerted)[:, 0]

    def _exerted(self, impulses: Array) -> Array:
        """What impulses (m, 3) of contacts exert (n, 1)."""
        out = np.zeros((self.n, 1))
        self.J.pulled(impulses[..., None], out)
        return out

    def _in_modes(
        self, problem: Problem, measured: RowParts, lost: BlockDiagonal, change: Array, later: RowParts | None,
        late: Array,
    ) -> Solved:  # fmt: skip
        found, options, joints = self.record.contacts, self.scene.options, self.scene.blocks.joints
        m, k, after, smoothing = self.m, len(joints.dofs), problem.after, self.smoothing
        u = self.J.times(after[:, None], m)[..., 0] if self.sides else np.zeros((m, 3))
        part = 1.0 * np.isfinite(problem.rates[:, 2:3, None])
        u = u + np.where(np.isfinite(problem.rates), problem.rates, FAR)
        has_tangents = self.contacts.scales[:, 0] > 0.0
        mu = np.where(has_tangents, found.friction, 1.0)
        modes = modes_of(mu, problem.floors, problem.impulses, u, self.mobility.of_contacts, self.smoothings)
        law = JointLaw(0, (problem.limits[:, 0], problem.limits[:, 1]), problem.joint_friction)
        q = self.record.q[joints.coordinates] + late[joints.dofs]
        distances, over_h = (q - joints.lower, joints.upper - q), 1.0 / options.dt
        velocities = after[joints.dofs]
        holds = holds_of(law, problem.joint_impulses, velocities, self.mobility.of_joints, distances, over_h, smoothing)
        held = np.broadcast_to(holds.held, k).astype(float)
        beside = (1.0 - held) * self.mobility.of_joints
        if holds.added is not None:  # held in part: 1 / D is what it adds to the inertia
            added = np.broadcast_to(holds.added, k)
            held = np.where(added > 0.0, 1.0, held)
            beside = np.where(added > 0.0, 1.0 / np.maximum(added, TINY), beside)
        C, r = modes.C, modes.D.shape[1]
        rows = self.J.mapped(C), self.J.mapped(np.swapaxes(modes.B, 1, 2))
        D = np.concatenate([modes.D.reshape(-1), beside])
        of_contacts = self.mobility.of_contacts.max(axis=1, initial=0.0)  # rows are turned, and some may move nothing
        of_rows = np.repeat(np.where(of_contacts > 0.0, of_contacts, 1.0), r)
        groups = self.ties.groups(rows, held, D, np.concatenate([of_rows, self.mobility.of_joints]))
        self.distance = min(self.distance, modes.distance, float(np.min(holds.distance, initial=np.inf)))
        of_friction = OfFriction(self.J.mapped((has_tangents[:, None] * modes.with_friction)[:, None]), None, None)
        if self.contacts.has_spins:
            spins = spins_of(self.contacts)
            turned = spins.times(after[:, None], m)[:, None, :, 0]
            of_friction = of_friction._replace(spun=spins.scaled(problem.impulses[:, 3:]), slips=C[:, :, 3:] * turned)
        return Solved(
            problem, groups, measured.mapped(-C), force_changes(self.contacts, problem.impulses), lost, change,
            held * np.broadcast_to(holds.with_position, k), of_friction, modes.with_floor[:, None], [],
            None if later is None else (later.mapped(-C), None if self.by_velocities is None else
                force_changes(self.by_velocities, problem.impulses).wrenches),
            None if problem.impact is not None else self.J.row(2).mapped(-over_h * part * C[:, :, 2:3]),
        )  # fmt: skip

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
        if self.placing is not None:
            taken = taken - self.placing.t * record.problems[-1].after
        least = CUT * np.abs(x).max() + NUMPY.epsilon * np.abs(found.shift).max()
        self.known = self.known and bool(np.abs(x - taken).max() <= least)
        after, dt, normal, gap = record.problems[-1].after, options.dt, self.J.row(2), -record.contacts.depths
        moved = normal.times((after + late / dt)[:, None], self.m)[:, 0, 0] if self.sides else gap
        if record.search.turning is not None:
            moved = moved + record.search.turning.found[:, 2]
        left = 1.0 * (gap + dt * moved > 0.0) * pushed
        back = options.correction * (-gap - options.penetration > 0.0) * pushed
        mobility = self.mobility.changes(STEP.compliance * s)
        with_q = self.gaps.scaled(-(back + left)[:, None]).plus(self.measured.row(2).scaled(-(left * dt)[:, None]))
        with_q = with_q.plus(row_changes(self.contacts, self._velocities(x)).row(2).scaled(-1.0 * pushed[:, None]))
        with_start = None
        if self.turning is not None:
            turned = (x.row(2).scaled(-(left * dt)[:, None]) for x in (self.turning.with_q, self.turning.with_v))
            with_q, with_start = with_q.plus(next(turned)), next(turned)
        q = record.q[joints.coordinates] + late[joints.dofs] + dt * after[joints.dofs]
        apart = np.where(of_joints > 0.0, q - joints.lower, joints.upper - q)
        factor = (options.correction * (apart < -dt * options.tolerance) + (apart > 0.0)) * limited
        D = np.concatenate([np.where(pushed, found.compliances, 1.0), np.where(limited, found.joint_compliances, 1.0)])
        rows = normal.scaled(1.0 * pushed[:, None])
        mean = self.mobility.of_contacts.sum(axis=1) / 3.0
        groups = self.ties.groups((rows, rows), 1.0 * limited, D, np.concatenate([mean, self.mobility.of_joints]))
        impulses = np.zeros((self.m, 3))
        impulses[:, 2] = s
        of_loops, lost = list[Array](), self.scene.inertia_changes(record, x)
        for loop in self.loops:
            own, measured = loop.changes(x[loop.at], forced[loop.at, 0], x[loop.at])
            lost.kinds[loop.kind] = own[None]
            of_loops.append(measured + loop.gaps_with_q)
        return SolvedCorrection(
            groups, with_q.plus(mobility[0]), normal.scaled(-(left * dt)[:, None]), with_start, -factor, -dt * factor,
            self.mobility.of_limits(), force_changes(self.contacts, impulses), lost, mobility[1], x, of_loops,
        )  # fmt: skip

    def pulled(self, q: Array, v: Array) -> Pulled:
        """What counts the start of the step, from what counts its end (n, k)."""
        record, n, m, k, dt = self.record, self.n, self.m, q.shape[1], self.scene.options.dt
        free, joints, (asleep, sleeping) = self.free, self.scene.blocks.joints, record.asleep
        sizes = np.diff(self.first)
        still = np.repeat(asleep > 0, sizes)
        sizes_of_all = (n, n, n, m, m, m, m, len(self.scene.blocks.links))
        out, r = Pulled(*(np.zeros((size, k)) for size in sizes_of_all)), self.contacts.scales.shape[1]
        scales = np.zeros((m, 3, k))
        mass, inertial, nothing = np.zeros((n, k)), list[InertialForces](), np.zeros(n)  # of free bodies by axes
        out.q[still] = q[still]
        q = np.where(still[:, None], 0.0, q)
        v = np.where((still | np.repeat(sleeping > 0, sizes))[:, None], 0.0, v)
        by_q, dv, shift, by_times = free.pull_moves(q, v)
        out.q[:] += by_q
        floors, times = np.zeros((m, k)), np.zeros((len(sizes), k))
        smooth, c, late = SmoothCounts(self.loops, dt, dv, shift), self.correction, shift.copy()
        if c is not None:
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
            inertial.append(InertialForces(nothing, c.moved, -weights))
            if self._with_mass:
                inertial += self.mobility.of_masses(normals[:, 0], limits)
            if r > 3:
                scales -= self.mobility.with_scales(self.contacts.scales)[..., None] * normals
        before_hit = list[InertialForces]()
        if self.placing is not None:
            self.placing.pull_end(record.problems[-1].after, dv, shift, by_times, times)
        for number in range(len(self.problems) - 1, -1, -1):
            solved = self.problems[number]
            problem, last = solved.problem, number + 1 == len(self.problems)
            of_impulses = np.zeros((len(solved.groups.D), k))
            before, count = np.zeros((n, k)), dv
            if problem.phase == COMPRESSION and not last:
                of_impulses[2 : r * m : r] = record.contacts.restitution[:, None] * floors
                out.restitution[:] += problem.impulses[:, 2:3] * floors
            elif not last:
                dv = self.impacts[number // 2].start(dv, late)
                part = np.repeat(problem.parts, sizes)[:, None]
                before, count = (1.0 - part) * dv, part * dv
            response = self.response if last else self.at_impact
            weights, of_rows = response.solve(solved.groups, count, of_impulses)
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
            floors = solved.with_floor * on_contacts[:, 2]
            solved.of_friction.pull(weights, on_contacts, out.friction, scales)
            if self.sides:
                mass -= self._exerted(problem.impulses) * weights
            if last:
                out.tau[:] = dt * weights
                mass -= dt * record.tau[:, None] * weights
                dv, start = -free.momentum_v.T.times(weights), (self.struck, record.tau)
                dv += self.springs.pull(self.struck, problem.after - self.struck, weights, out)
                inertial += smooth.pull(self.scene, start, problem.after, weights, dv, out, self._with_mass)
                for stage, own in self.products.earlier(weights):
                    out.q[:] -= self.products.with_q[stage].T.times(own)
                    out.tau[:] += dt * own
                    dv += self.springs.pull(self.struck, self.products.stages[stage][0], own, out)
                    dv -= self.products.with_v[stage].T.times(own) + self.springs.gained.times(own)
                    inertial += self.products.inertial_forces(stage, own)
                for loop in self.loops:
                    weights[loop.at] = 0.0
                inertial += self.products.inertial_forces(0, weights)
                if self.placing is not None:
                    dv = self.placing.pull_behind(dv, weights, late, times, mass, inertial, out)
            else:
                inertial.append(InertialForces(nothing, solved.change, -weights))
                dv = before + self.M.times(weights)
                for loop, own in zip(self.loops, self._of_loops(of_rows[r * m + len(joints.dofs) :]), strict=True):
                    dv[loop.at] += loop.J.T @ own
                if problem.phase == COMPRESSION:
                    counted: tuple[Array, Any] = dv, 0.0
                    if self.placing is not None:
                        counted = self.placing.pull_places(dv, times, out)
                    dv = self.impacts[number // 2].end(counted[0], late, times, mass, before_hit, out, counted[1])
        out.v[:] += dv
        of_friction, out.torsional[:], out.rolling[:] = pull_scales(record.contacts, scales)
        out.friction[:] += of_friction
        if self._with_mass:
            masses = self.scene.blocks.mass
            of_bodies = mass[: 6 * len(masses)].reshape(len(masses), 6, k).sum(axis=1)
            has_mass = masses > 0.0  # bodies that the user moves have none
            out.mass[: len(masses)] = (
                np.where(has_mass, 1.0 / np.where(has_mass, masses, 1.0), 0.0)[:, None] * of_bodies
            )
            self.scene.with_masses(record, inertial, out.mass)
            self.scene.with_masses(self.start.record, before_hit, out.mass)
        if not (self.response.is_regular and self.at_impact.is_regular):
            self.known, self.distance = False, 0.0
        return out

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

    def with_parameter(self, name: str, pulled: Pulled, blocks: Indices) -> tuple[Indices, Array]:
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
