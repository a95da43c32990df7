"""What springs and dampers of blocks do to derivatives of a step; see `delassus.contact.sparse.springs`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from delassus.algorithms.contact.springs import step_of_spring
from delassus.contact.changes.blocks import BlockDiagonal, SceneChanges
from delassus.contact.changes.record import StepRecord
from delassus.contact.sparse.blocks import MOTION_OF_BLOCKS
from delassus.spatial.rotations import Array

M = MOTION_OF_BLOCKS.index("M")


class SpringChanges:
    """Of a step from ``v``: momenta change by ``gained (v⁺ − v) + start v + controls (v − v₀)``, ``v₀`` before impacts.

    Attributes
    ----------
    gained, start, controls : BlockDiagonal
    mass : (n,) array
        Mass matrices of blocks without springs, as `Bodies.mass` is laid out.
    """

    def __init__(self, scene: SceneChanges, record: StepRecord, has_impacts: bool) -> None:
        springs, (ratios, stiffness, damping) = scene.blocks.springs, record.springs
        dt = scene.options.dt
        acts = (scene.blocks.bodies.loop_rows[springs.block] == 0) & ((stiffness > 0.0) | (damping > 0.0))
        self._ratios, self._acting, self.mass = ratios, np.flatnonzero(acts), record.mass
        with_gained, with_start = step_of_spring(dt, stiffness, damping, springs.size)
        values = with_gained, with_start, np.where(springs.of_controls, dt * damping, 0.0)
        self.gained, self.start, self.controls = (self._matrix(scene, x) for x in values)
        if has_impacts and acts.any():
            self.mass = np.concatenate([x.ravel() for x in self._masses(scene, record)])

    def momentum(self, v: Array, before: Array) -> Array:
        """What momenta (n,) of free motion miss, of the velocity ``v`` after an impact."""
        return np.asarray((self.start.times(v[:, None]) + self.controls.times((v - before)[:, None]))[:, 0])

    def _matrix(self, scene: SceneChanges, values: Array) -> BlockDiagonal:
        springs, bodies, out = scene.blocks.springs, scene.blocks.bodies, np.zeros_like(scene.blocks.bodies.mass)
        for s in self._acting.tolist():
            own, b = slice(int(springs.first[s]), int(springs.first[s + 1])), int(springs.block[s])
            dofs, ratios = springs.dofs[own] - bodies.first[b], self._ratios[own]
            m = int(bodies.first[b + 1] - bodies.first[b])
            out[bodies.at[b] + dofs[:, None] * m + dofs] += values[s] * np.outer(ratios, ratios)
        return BlockDiagonal(scene.batched(out))

    def _masses(self, scene: SceneChanges, record: StepRecord) -> Sequence[Array]:
        found = scene.batched(record.mass)
        stiff = {int(b) for b in scene.blocks.springs.block[self._acting]}
        first = 0
        for number, q, (v, tau) in scene.batches(record.q, record.v, record.tau):
            end = first + len(found[number])
            if stiff & {*range(first, end)}:
                found[number] = np.asarray(scene.kernel(number, "joint_space_motion")(q, v, tau)[M])
            first = end
        return found
