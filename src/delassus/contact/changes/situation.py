"""Contacts and masses of a step in the place where an impact, or the rest of the step, acts; and its problems there."""

from __future__ import annotations

from typing import Any

import numpy as np

from delassus.algorithms.contact.law import TINY
from delassus.algorithms.contact.problem import JointLaw
from delassus.contact.changes.blocks import BlockDiagonal, SceneChanges
from delassus.contact.changes.collision import contact_changes
from delassus.contact.changes.contacts import (
    Contacts,
    RowParts,
    along,
    coupling_of,
    force_changes,
    gap_changes,
    row_changes,
    sides_of,
    spins_of,
)
from delassus.contact.changes.loops import LoopBlock
from delassus.contact.changes.mobility import Mobilities
from delassus.contact.changes.paths import contacts_on_paths, on_paths
from delassus.contact.changes.record import Problem, StepRecord
from delassus.contact.changes.response import OfFriction, Parts, Response, Solved, Ties, holds_of, modes_of
from delassus.contact.changes.springs import SpringChanges
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
        changes = contact_changes(search.pairs, search.reach, touching, arrays, space, found)
        self.sides = sides_of(found.links, found.points, blocks, scene.supports, record.poses)
        self.known_contacts = changes.known.copy()
        coupling = coupling_of(changes, found.points, found.frames)
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
        self.ties = Ties(self.sides, self.on, blocks.joints, self.loops, self.first)
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
        self.response = Response(self.parts, self.record.masses.mass)
        self.at_impact = self.response
        if self.springs.mass is not self.record.masses.mass:  # springs do nothing in an instant
            self.at_impact = Response(self.parts, self.springs.mass)

    def velocities(self, x: Array) -> list[Array]:
        """Those of sides, of all blocks (n,)."""
        return [x[side.dofs] for side in self.sides]

    def measured_by(self, contacts: Contacts, after: Array, last: bool, alone: bool = False) -> RowParts:
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
        self, problem: Problem, measured: RowParts, lost: BlockDiagonal, change: Array, later: RowParts | None,
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
