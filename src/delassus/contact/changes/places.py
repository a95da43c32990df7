"""Steps whose impacts place blocks where they strike them: `delassus.contact.sparse.hits`, backwards.

A block is struck at ``q_t``, where it is at the time ``t`` without contacts, with the velocity ``v_t`` that it has
there. After the impact it has ``w``, and ``v = w − (1/2 + t/h) g`` half a step before, ``g`` the gain of a step without
contacts from ``q_t`` and ``w``; the step ends at ``h v⁺ − t (w − t g / (2 h))`` from ``q_t``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from delassus.algorithms.contact.law import TINY
from delassus.algorithms.contact.problem import JointLaw
from delassus.contact.changes.blocks import BlockDiagonal, InertialForces, Moves, SceneChanges
from delassus.contact.changes.collision import contact_changes
from delassus.contact.changes.contacts import (
    FoundContacts,
    RowParts,
    along,
    force_changes,
    gap_changes,
    row_changes,
    sides_of,
)
from delassus.contact.changes.impacts import ImpactChanges, pull_gains
from delassus.contact.changes.loops import LoopBlock
from delassus.contact.changes.mobility import Mobilities, SpringChanges
from delassus.contact.changes.paths import contacts_on_paths, on_paths
from delassus.contact.changes.record import ProblemRecord, RecordedImpact, StepRecord
from delassus.contact.changes.response import Groups, IslandResponse, Parts, Solved, holds_of, modes_of
from delassus.contact.collision.colliders import CENTRE, HALF, LINK
from delassus.contact.sparse.blocks import MOTION_OF_BLOCKS
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array

FAR = 1e6
"""Velocity (m/s) at which what takes no part parts."""


class Situation:
    """Contacts and masses of a step in a place.

    Attributes
    ----------
    known_contacts : (m,) array of bool
        Of contacts whether their changes are known.
    J, gaps : RowParts
        Rows of contacts, and changes of gaps with positions.
    on : (m, 2) array of int
        Blocks of each contact, or −1.
    M, inverse : BlockDiagonal
        Mass matrices without springs, and inverses of those with them, under loops.
    islands : list of arrays of int
        Blocks of each.
    block_of : (m,) array of int
        A block of each contact.
    distance : float
        Of the nearest other mode of problems here (m/s).
    at_impact : Response
        Without springs.
    """

    def __init__(self, scene: SceneChanges, record: StepRecord, smoothing: float | None) -> None:
        self.scene, self.record, self.smoothing, self.distance = scene, record, smoothing, np.inf
        blocks, found, search = scene.blocks, record.contacts, record.search
        self.n, self.m, self.first = int(blocks.bodies.first[-1]), len(found.points), blocks.bodies.first
        space = scene.detector.space._replace(world=search.world, centres=search.centres)
        arrays, touching = scene.detector.arrays, scene.options.touching
        coupling, self.known_contacts = contact_changes(search.pairs, search.reach, touching, arrays, space, found)
        self.sides = sides_of(found.links, found.points, blocks, scene.supports, record.poses)
        self.contacts, self.by_velocities = contacts_on_paths(
            record, self.sides, coupling, self.known_contacts, scene.detector, scene.options
        )
        if smoothing is not None:
            self.known_contacts &= ~on_paths(record)
        self.J, self.gaps = along(self.contacts), gap_changes(self.contacts)
        self.springs = SpringChanges(scene, record, len(record.problems) > 1)
        self.M, self.inverse = (BlockDiagonal(scene.batched(x)) for x in (self.springs.mass, record.masses.inverse))
        of = blocks.of_links.block
        self.on = np.where(found.links >= 0, of[found.links], -1)
        self.loops = [LoopBlock(scene, record, k) for k in range(len(blocks.loops))]
        for loop in self.loops:
            self.inverse.kinds[loop.kind] = loop.inverse[None]
        self.mobility = Mobilities(scene, record, self.contacts, self.J, self.inverse, self.loops, self.springs)
        self._find_islands()
        self.smoothings = self._smoothings()

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
        self.response = IslandResponse(self.parts, self.record.masses.mass)
        self.at_impact = self.response
        if self.springs.mass is not self.record.masses.mass:  # springs do nothing in an instant
            self.at_impact = IslandResponse(self.parts, self.springs.mass)

    def groups(self, rows: tuple[RowParts, RowParts], units: Array, D: Array, mobility: Array) -> Groups:
        """Row groups: ``C J`` and ``Bᵀ J`` of contacts, how far joints are held, and of both ``D`` and mobilities."""
        m, joints, first, loops = self.m, self.scene.blocks.joints, self.first, self.loops
        k = rows[0].parts[0].shape[1] if rows[0].parts else 3
        at = np.zeros((m + len(joints.dofs) + len(loops), 2), np.int64)
        size, flat = 0, (list[Array](), list[Array]())
        for side, one, other in zip(self.sides, rows[0].parts, rows[1].parts, strict=True):
            at[side.contact, side.second] = size + k * one.shape[2] * np.arange(len(one))
            flat[0].append(one.ravel())
            flat[1].append(other.ravel())
            size += one.size
        a = np.concatenate([self.on[:, 0], joints.blocks, np.array([loop.block for loop in loops], np.int64)])
        b = np.concatenate([self.on[:, 1], np.full(len(a) - m, -1)])
        of_joints = list[Array]()
        for dof, block, unit in zip(joints.dofs, joints.blocks, units, strict=True):
            of_joints.append(np.zeros(first[block + 1] - first[block]))
            of_joints[-1][dof - first[block]] = unit
        for j, row in enumerate([*of_joints, *(loop.J for loop in loops)], m):
            at[j] = size
            for x in flat:
                x.append(row.ravel())
            size += row.size
        sizes = np.concatenate([np.full(m, k), np.ones(len(joints.dofs)), [len(loop.J) for loop in loops]])
        of_rows = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        D = np.concatenate([D, np.zeros(of_rows[-1] - len(D))])
        mobility = np.concatenate([mobility, np.ones(of_rows[-1] - len(mobility))])
        CJ, BJ = (np.concatenate([np.zeros(0), *x]) for x in flat)
        at_a, at_b = np.ascontiguousarray(at.T)
        return Groups(of_rows, a, b, at_a, at_b, CJ, BJ, D, D + NUMPY.epsilon**0.5 * mobility)

    def velocities(self, x: Array) -> list[Array]:
        """Those of sides, of all blocks (n,)."""
        return [x[side.dofs] for side in self.sides]

    def measured_by(self, contacts: FoundContacts, after: Array, last: bool, alone: bool = False) -> RowParts:
        """`row_changes` at the velocities ``after`` a problem; at the ``last`` one with displacements by impacts."""
        out = row_changes(contacts, self.velocities(after), alone)
        if last and self.record.correction.late.any():
            moved = row_changes(contacts, self.velocities(self.record.correction.late / self.scene.options.dt), alone)
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

    def exerted(self, impulses: Array) -> Array:
        """What impulses (m, 3) of contacts exert (n, 1)."""
        out = np.zeros((self.n, 1))
        self.J.pulled(impulses[..., None], out)
        return out

    def in_modes(
        self, problem: ProblemRecord, measured: RowParts, lost: BlockDiagonal, change: Array, later: RowParts | None,
        late: Array,
    ) -> Solved:  # fmt: skip
        """A problem in the modes of its solution, from what its rows measure and what its momenta lose."""
        found, options, joints = self.record.contacts, self.scene.options, self.scene.blocks.joints
        m, k, after, smoothing = self.m, len(joints.dofs), problem.after, self.smoothing
        u = self.J.times(after[:, None], m)[..., 0] if self.sides else np.zeros((m, 3))
        part = 1.0 * np.isfinite(problem.rates[:, 2:3, None])
        u = u + np.where(np.isfinite(problem.rates), problem.rates, FAR)
        has_tangents = self.contacts.scales[:, 0] > 0.0
        mu = np.where(has_tangents, found.friction, 1.0)
        modes: Any = modes_of(mu, problem.floors, problem.impulses, u, self.mobility.of_contacts, self.smoothings)
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
        groups = self.groups(rows, held, D, np.concatenate([of_rows, self.mobility.of_joints]))
        nearest = (float(np.min(x.distance, initial=np.inf)) for x in (modes, holds))
        self.distance = min(self.distance, *nearest)
        sliding, of_spins = self.J.mapped((has_tangents[:, None] * modes.with_friction)[:, None]), None
        if self.contacts.has_spins:
            spins = RowParts(self.sides, [self.contacts.turned(side, side.G)[:, 3:] for side in self.sides])
            turned = spins.times(after[:, None], m)[:, None, :, 0]
            of_spins = spins.scaled(problem.impulses[:, 3:]), C[:, :, 3:] * turned
        return Solved(
            problem, groups, measured.mapped(-C), force_changes(self.contacts, problem.impulses), lost, change,
            held * np.broadcast_to(holds.with_position, k), (sliding, of_spins), modes.with_floor[:, None], [],
            None if later is None else (later.mapped(-C), None if self.by_velocities is None else
                force_changes(self.by_velocities, problem.impulses).wrenches),
            None if problem.impact is not None else self.J.row(2).mapped(-over_h * part * C[:, :, 2:3]),
        )  # fmt: skip


M, POSES = (MOTION_OF_BLOCKS.index(name) for name in ("M", "poses"))


def records_of_places(scene: SceneChanges, record: StepRecord) -> list[StepRecord]:
    """A step as it is at its start, and where each of its impacts places blocks; the same where one places none."""
    out, hits = [record], [hit for hit in record.hits if hit is not None]
    contacts = [*(hit.found for hit in hits), record.contacts]
    if hits:
        ever = np.any([hit.placed for hit in hits], axis=0)
        out[0] = _placed(scene, record._replace(contacts=contacts.pop(0)), ever)
    for hit in record.hits:
        last = out[-1]
        if hit is not None:
            parts = scene.blocks.of_links.coordinates, scene.blocks.bodies.first
            q, v = (np.where(np.repeat(hit.placed, np.diff(x)), new, old)
                    for x, new, old in zip(parts, (hit.q, hit.v), (last.q, last.v), strict=True))  # fmt: skip
            last = _placed(scene, last._replace(q=q, v=v, contacts=contacts.pop(0)), hit.placed)
        out.append(last)
    out[-1] = out[-1]._replace(masses=record.masses)
    return out


def _placed(scene: SceneChanges, record: StepRecord, placed: Any) -> StepRecord:
    """A step whose poses and masses of blocks that are ``placed`` are those of its state."""
    of, arrays, search = scene.blocks.of_links, scene.detector.arrays, record.search
    poses, world, centres = record.poses.copy(), search.world.copy(), search.centres.copy()
    masses, inverses = (scene.batched(x.copy()) for x in (record.masses.mass, record.masses.inverse))
    first = link = 0
    for number, q, (v, tau) in scene.batches(record.q, record.v, record.tau):
        kind, own = scene.blocks.kinds[number], placed[first : first + len(q)]
        links = scene.blocks.links[link : link + kind.links.size].reshape(len(q), -1)
        first, link = first + len(q), link + kind.links.size
        if not own.any() or kind.loops:
            continue
        if kind.is_free:
            x, y, z, w = q[own, 3:7].T
            rows = [
                [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y), q[own, 0]],
                [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x), q[own, 1]],
                [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y), q[own, 2]],
            ]
            poses[links[own, 0]] = np.moveaxis(np.array(rows), 2, 0)
            continue
        found = scene.kernel(number, "joint_space_motion")(q, v, tau)
        poses[links[own]] = np.asarray(found[POSES]).reshape(len(q), -1, 3, 4)[own]
        masses[number][own] = np.asarray(found[M])[own]
        inverses[number][own] = np.linalg.inv(masses[number][own])
    of_link = arrays.shapes[:, LINK].astype(np.int64)
    moved = (of_link >= 0) & placed[of.block[of_link]]
    T, local = poses[of_link[moved]], arrays.local[moved]
    own, middles = T[:, :, :3] @ local, arrays.shapes[moved, CENTRE:HALF, None]
    own[:, :, 3] += T[:, :, 3]
    world[moved], centres[moved] = own, own[:, :, 3] + (own[:, :, :3] @ middles)[:, :, 0]
    mass, inverse = (np.concatenate([np.zeros(0), *(x.ravel() for x in kinds)]) for kinds in (masses, inverses))
    return record._replace(
        poses=poses, search=search._replace(world=world, centres=centres),
        masses=record.masses._replace(mass=mass, inverse=inverse),
    )  # fmt: skip


class Placing:
    """Blocks that an impact of a step places, from where they are in the situation ``before`` to that ``at`` it.

    There they are by the displacement ``late`` (n,), and since ``base`` (s) of degrees of freedom. The ``impact`` ends
    at velocities ``w`` (n,).

    Attributes
    ----------
    dofs : (n,) array of bool
        Which degrees of freedom are placed.
    lead : (n,) array
        What velocities after the impact have more than those half a step behind.
    t, late : (n,) array
        Times (s) of impacts of what is placed, and displacements by these, else zero.
    """

    def __init__(
        self, before: Situation, at: Situation, hit: RecordedImpact, impact: ImpactChanges, w: Array, late: Array,
        base: Array,
    ) -> None:  # fmt: skip
        self._at, sizes, dt = at, np.diff(at.first), at.scene.options.dt
        self._on, self.dofs, self.t = hit.placed[:, None], np.repeat(hit.placed, sizes), np.repeat(hit.times, sizes)
        self.lead, self._falls, self._w, self._base = np.where(self.dofs, hit.lead, 0.0), impact.falls, w, base
        self._later = self.lead / (0.5 + self.t / dt)  # gained from the impact on
        self.late = -self.t * (w - 0.5 * self.t / dt * self._later)
        self._kicked = impact.v + np.where(self.dofs, hit.kick, 0.0)
        shift = late + base * self._kicked - 0.5 * self.t * self.t / dt * impact.gained
        times = np.where(hit.placed, hit.times - base[at.first[:-1]], dt)
        moves = Moves(self._kicked, times, shift)
        self._moves = before.scene.block_changes(before.record, self._kicked, self._kicked, moves)

    def _of_blocks(self, x: Array) -> Array:
        """Sums over degrees of freedom (n, k) of blocks that are placed."""
        return np.where(self._on, np.add.reduceat(x, self._at.first[:-1], axis=0), 0.0)

    def pull_velocities(
        self, dv: Array, lead: Array, late: Array, times: tuple[Array, Array], mass: Array,
        inertial: list[InertialForces], to: Any,
    ) -> Array:  # fmt: skip
        """What counts velocities after the impact, from what counts those half a step behind, ``dv`` (n, k).

        ``lead`` (n, k) counts those after it, by forces, and ``late`` displacements; of what is placed they become
        zero. So does what counts when blocks were placed last, the second of ``times`` (blocks, k).
        """
        dt, on, t = self._at.scene.options.dt, self.dofs[:, None], self.t[:, None]
        behind, displaced = np.where(on, dv, 0.0), np.where(on, late, 0.0)
        out, later = dv + np.where(on, lead, 0.0) - t * displaced, self._later[:, None]
        late[self.dofs] = lead[self.dofs] = 0.0
        at, of_base = times
        at += self._of_blocks(-later / dt * behind + (t * later / dt - self._w[:, None]) * displaced)
        at += np.where(self._on, of_base, 0.0)
        of_base[self._on[:, 0]] = 0.0
        gains = self._falls[:, None] * (0.5 * t * t / dt * displaced - (0.5 + t / dt) * behind)
        if gains.any():
            own = np.where(on, self._at.inverse.times(gains), 0.0)
            out += pull_gains(self._at, self._w, self._later, own, mass, inertial, to) - np.where(on, gains, 0.0)
        return np.asarray(out)

    def pull_places(
        self, dv: Array, late: Array, times: tuple[Array, Array], to: Any
    ) -> tuple[Array, Array, Array]:  # fmt: skip
        """What counts velocities at the time of the impact in the place before, from what counts states at it.

        These are ``dv`` (n, k) and positions. And what counts displacements beside them (n, k), and when blocks were
        placed before; ``times`` as in `pull_velocities`.
        """
        on, base = self.dofs[:, None], self._base[:, None]
        q, v, shift, by_times = self._moves.pull_moves(np.where(on, to.q, 0.0), np.where(on, dv, 0.0))
        shift, by_times = np.where(on, shift, 0.0), np.where(self._on, by_times, 0.0)
        to.q[self.dofs], late[self.dofs] = q[self.dofs], shift[self.dofs]
        at, of_base = times
        at += by_times
        before = of_base + self._of_blocks(self._kicked[:, None] * shift) - by_times
        return np.where(on, v + base * shift, dv), shift, before


def bases_of(placings: Sequence[Placing | None], n: int) -> tuple[Array, Array]:
    """When (s) degrees of freedom (n,) were placed last, or zero; and what their velocities were more by after it."""
    base, lead = np.zeros(n), np.zeros(n)
    for placing in placings:
        if placing is not None:
            base, lead = np.where(placing.dofs, placing.t, base), np.where(placing.dofs, placing.lead, lead)
    return base, lead
