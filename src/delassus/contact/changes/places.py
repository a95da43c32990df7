"""Steps whose impacts place blocks where they strike them: `delassus.contact.sparse.hits`, backwards.

A block is struck at ``q_t``, where it is at the time ``t`` without contacts, with the velocity ``v_t`` that it has
there. After the impact it has ``w``, and ``v = w − (1/2 + t/h) g`` half a step before, ``g`` the gain of a step without
contacts from ``q_t`` and ``w``; the step ends at ``h v⁺ − t (w − t g / (2 h))`` from ``q_t``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from delassus.contact.changes.blocks import InertialForces, Moves, SceneChanges
from delassus.contact.changes.impacts import ImpactChanges, pull_gains
from delassus.contact.changes.record import Hit, StepRecord
from delassus.contact.changes.situation import Situation
from delassus.contact.collision.colliders import CENTRE, HALF, LINK
from delassus.contact.sparse.blocks import MOTION_OF_BLOCKS
from delassus.spatial.rotations import Array

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


def _placed(scene: SceneChanges, record: StepRecord, placed: Array) -> StepRecord:
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
        self, before: Situation, at: Situation, hit: Hit, impact: ImpactChanges, w: Array, late: Array, base: Array
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
            base, lead = (np.where(placing.dofs, *pair) for pair in ((placing.t, base), (placing.lead, lead)))
    return base, lead
