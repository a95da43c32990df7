"""Steps whose impact places blocks where it strikes them: `delassus.contact.sparse.hits`, backwards.

A block is struck at ``q_t``, where it is at the time ``t`` without contacts, with the velocity ``v_t`` that it has
there. After the impact it has ``w``, and ``v = w − (1/2 + t/h) g`` half a step before, ``g`` the gain of a step without
contacts from ``q_t`` and ``w``; the step ends at ``h v⁺ − t (w − t g / (2 h))`` from ``q_t``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from delassus.contact.changes.blocks import BlockDiagonal, InertialForces, Moves, SceneChanges
from delassus.contact.changes.collision import contact_changes
from delassus.contact.changes.contacts import along, coupling_of, gap_changes, sides_of
from delassus.contact.changes.impacts import ImpactChanges
from delassus.contact.changes.loops import LoopBlock
from delassus.contact.changes.paths import contacts_on_paths
from delassus.contact.changes.record import Hit, StepRecord
from delassus.contact.changes.springs import SpringChanges
from delassus.contact.collision.colliders import CENTRE, HALF, LINK
from delassus.contact.sparse.blocks import MOTION_OF_BLOCKS
from delassus.spatial.rotations import Array

M = MOTION_OF_BLOCKS.index("M")


class Situation:
    """Contacts and masses of a step, at a state.

    Attributes
    ----------
    known_contacts : (m,) array of bool
        Of contacts whether their changes are known.
    J, gaps : RowParts
        Rows of contacts, and changes of gaps with positions.
    loops : list of LoopBlock
    inverse : BlockDiagonal
        Of mass matrices, under loops.
    """

    def __init__(self, scene: SceneChanges, record: StepRecord, smoothing: float | None) -> None:
        self.scene, self.record, self.smoothing = scene, record, smoothing
        blocks, found, search = scene.blocks, record.contacts, record.search
        self.n, self.m, self.first = int(blocks.bodies.first[-1]), len(found.points), blocks.bodies.first
        space = scene.detector.space._replace(world=search.world, centres=search.centres)
        arrays, touching = scene.detector.arrays, scene.options.touching
        changes = contact_changes(search.pairs, search.reach, touching, arrays, space, found)
        self.sides = sides_of(found.links, found.points, blocks, scene.supports, record.poses)
        self.known_contacts = changes.known.copy()
        coupling = coupling_of(changes, found.points, found.frames)
        self.contacts, self.by_velocities = contacts_on_paths(
            record, self.sides, coupling, self.known_contacts, scene.detector, scene.options
        )
        self.J, self.gaps = along(self.contacts), gap_changes(self.contacts)
        self.springs = SpringChanges(scene, record, len(record.problems) > 1)
        self.inverse = BlockDiagonal(scene.batched(record.masses.inverse))
        of = blocks.of_links.block
        self.on = np.where(found.links >= 0, of[found.links], -1)
        self.loops = [LoopBlock(scene, record, k) for k in range(len(blocks.loops))]
        for loop in self.loops:
            self.inverse.kinds[loop.kind] = loop.inverse[None]


def before_and_at(scene: SceneChanges, record: StepRecord) -> tuple[StepRecord, StepRecord]:
    """A step as it is at its start, and where its impact places blocks."""
    hit = record.hit
    if hit is None:
        return record, record
    placed = np.repeat(hit.placed, np.diff(scene.blocks.bodies.first))
    coordinates = np.repeat(hit.placed, np.diff(scene.blocks.of_links.coordinates))
    links, arrays, search = hit.placed[scene.blocks.of_links.block], scene.detector.arrays, record.search
    poses, world, centres = np.where(links[:, None, None], hit.poses, record.poses), search.world.copy(), search.centres
    of_link = arrays.shapes[:, LINK].astype(np.int64)
    moved = (of_link >= 0) & links[of_link]
    T, local = poses[of_link[moved]], arrays.local[moved]
    world[moved] = T[:, :, :3] @ local
    world[moved, :, 3] += T[:, :, 3]
    centres = centres.copy()
    centres[moved] = world[moved, :, 3] + np.einsum(
        "nij,nj->ni", world[moved, :, :3], arrays.shapes[moved, CENTRE:HALF]
    )
    at = record._replace(
        q=np.where(coordinates, hit.q, record.q), v=np.where(placed, hit.v, record.v), poses=poses,
        search=search._replace(world=world, centres=centres),
    )  # fmt: skip
    found, first = scene.batched(record.masses.mass.copy()), 0
    inverses = scene.batched(record.masses.inverse.copy())
    for number, q, (v, tau) in scene.batches(record.q, record.v, record.tau):
        end = first + len(q)
        if hit.placed[first:end].any() and not scene.blocks.kinds[number].is_free:
            found[number] = np.asarray(scene.kernel(number, "joint_space_motion")(q, v, tau)[M])
            inverses[number] = np.linalg.inv(found[number])
        first = end
    mass, inverse = (np.concatenate([np.zeros(0), *(x.ravel() for x in of_kinds)]) for of_kinds in (found, inverses))
    return record._replace(contacts=hit.found, masses=record.masses._replace(mass=mass, inverse=inverse)), at


class Placing:
    """Blocks that the impact of a step places, between the ``start`` of it and where they are struck.

    ``w`` (n,) is the velocity after the ``impact``.

    Attributes
    ----------
    dofs : (n,) array of bool
        Which degrees of freedom are placed.
    behind : (n,) array
        What velocities after the impact have more than those half a step behind.
    t : (n,) array
        Times (s) of impacts of what is placed, else zero.
    """

    def __init__(self, start: Situation, at: Situation, hit: Hit, impact: ImpactChanges, w: Array) -> None:
        self._start, self._at, sizes = start, at, np.diff(start.first)
        self.blocks, self._times = np.flatnonzero(hit.placed), hit.times
        self.dofs, self.t = np.repeat(hit.placed, sizes), np.repeat(hit.times, sizes)
        dt = start.scene.options.dt
        self._falls, self._w = impact.falls, w
        self.behind = np.where(self.dofs, hit.behind, 0.0)
        self._later = self.behind / (0.5 + self.t / dt)  # gained from the impact on
        kicked = start.record.v + np.where(self.dofs, hit.kick, 0.0)
        shift = -0.5 * self.t * self.t / dt * impact.gained
        self._moves = start.scene.block_changes(start.record, start.record.v, kicked, Moves(kicked, hit.times, shift))
        self._first = start.first[:-1]

    def moves(self, after: Array) -> Moves:
        """How positions move from there, at velocities ``after`` the step."""
        correction, dt = self._at.record.correction, self._at.scene.options.dt
        return Moves(after, dt - self._times, correction.shift)

    def of_blocks(self, x: Array) -> Array:
        """Sums over degrees of freedom (n, k) of blocks."""
        return np.asarray(np.add.reduceat(x, self._first, axis=0))

    def pull_end(self, after: Array, dv: Array, shift: Array, by_times: Array, times: Array) -> None:
        """Add to ``dv`` and ``times`` what the end of the step counts beside: it is ``t v⁺`` further, by ``h − t``."""
        dv += self.t[:, None] * shift
        at_times = self.of_blocks(np.where(self.dofs, after, 0.0)[:, None] * shift) - by_times
        times[self.blocks] += at_times[self.blocks]

    def pull_behind(
        self, dv: Array, weights: Array, late: Array, times: Array, mass: Array, inertial: list[InertialForces], to: Any
    ) -> Array:
        """What counts velocities after the impact, from what counts those of the step and displacements (n, k).

        ``dv`` counts those half a step behind, and by forces of the step, whose momenta ``weights`` (n, k) weigh, those
        after the impact.
        """
        at, dt, on, t = self._at, self._at.scene.options.dt, self.dofs[:, None], self.t[:, None]
        behind = np.where(on, BlockDiagonal(at.scene.batched(at.springs.mass)).times(weights), 0.0)
        displaced, later, w = np.where(on, late, 0.0), self._later[:, None], self._w[:, None]
        late[self.dofs] = 0.0
        out = dv - t * displaced
        at_times = self.of_blocks(-later / dt * behind + (t * later / dt - w) * displaced)
        times[self.blocks] += at_times[self.blocks]
        gains = self._falls[:, None] * (0.5 * t * t / dt * displaced - (0.5 + t / dt) * behind)
        if gains.any():
            ahead = np.where(self._falls > 0.0, self._later / np.where(self._falls > 0.0, self._falls, 1.0), 0.0)
            scene, record, reached = at.scene, at.record, self._w + ahead
            own = np.where(on, at.inverse.times(gains), 0.0)
            free = scene.block_changes(record, self._w, reached)
            to.q[:] -= free.momentum_q.T.times(own)
            to.tau[:] += dt * own
            out = out - free.momentum_v.T.times(own) - np.where(on, gains, 0.0)
            mass -= dt * record.tau[:, None] * own
            turning, accelerations = scene.joint_accelerations(record, self._w, reached)
            inertial.append(InertialForces(turning, accelerations, -dt * own, True))
        return np.asarray(out)

    def pull_places(self, dv: Array, times: Array, to: Any) -> tuple[Array, Array]:
        """What counts velocities at the time of the impact where the step starts, and displacements besides (n, k).

        From what counts states where blocks are struck: ``dv`` (n, k) and positions.
        """
        on = self.dofs[:, None]
        q, v, shift, by_times = self._moves.pull_moves(np.where(on, to.q, 0.0), np.where(on, dv, 0.0))
        to.q[self.dofs] = q[self.dofs]
        times[self.blocks] += by_times[self.blocks]
        return np.where(on, v, dv), np.where(on, shift, 0.0)
