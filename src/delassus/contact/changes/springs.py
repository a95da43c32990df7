"""What springs and dampers of blocks do to derivatives of a step; see `delassus.contact.sparse.springs`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from delassus.algorithms.contact.law import step_of_spring
from delassus.contact.changes.blocks import BlockDiagonal, SceneChanges
from delassus.contact.changes.record import StepRecord
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.blocks import MOTION_OF_BLOCKS
from delassus.contact.sparse.springs import added_masses
from delassus.spatial.numpy_ops import NUMPY
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
        bodies, dt, masses = scene.blocks.bodies, scene.options.dt, record.masses
        self._scene, self._record, self._dt, self.mass = scene, record, dt, masses.mass
        self._springs = springs = scene.blocks.springs._replace(
            ratios=masses.ratios, stiffness=masses.stiffness, damping=masses.damping
        )
        found = step_of_spring(NUMPY, dt, springs.stiffness, springs.damping, springs.size)
        self._added, self._ahead = (np.asarray(x) for x in found)
        self._ahead = self._ahead + np.where(springs.at.row >= 0, dt * springs.damping, 0.0)
        alone = bodies.loop_rows[springs.block] == 0  # others are `LoopSprings`
        values = self._added, self._ahead, np.where(springs.of_controls == 1, dt * springs.damping, 0.0)
        self.gained, self.start, self.controls = (
            BlockDiagonal(scene.batched(added_masses(springs, bodies, np.where(alone, x, 0.0)))) for x in values
        )
        self._acting = alone & (self._added > 0.0)
        if has_impacts and self._acting.any():
            self.mass = np.concatenate([x.ravel() for x in self._masses()])

    @property
    def along_lines(self) -> bool:
        """Whether there are any along lines, whose rows change with positions."""
        return bool((self._springs.at.row >= 0).any())

    def with_positions(self, v: Array, gained: Array) -> BlockDiagonal:
        """Changes of momenta of the step by springs along lines, with positions."""
        errors, out = self._record.correction.smooth.errors, self._none()
        for number, q, (own_v, own_gained), at, W in self._lines(v, gained):
            k, a, b = self._springs.stiffness[at], self._added[at], self._ahead[at]
            p = self._dt * k * errors[self._springs.at.error[at]] + a * (W @ own_gained) + b * (W @ own_v)
            turning = a[:, None] * self._rows(number, q, own_gained) + b[:, None] * self._rows(number, q, own_v)
            own = turning + self._dt * k[:, None] * W
            out.kinds[number] = (self._forces(number, q, -p) + W.T @ own)[None]
        return out

    def pull(self, v: Array, gained: Array, weights: Array, to: Any) -> Array:
        """What counts the velocities ``v`` (n, k), from what counts momenta, beside changes of free motion."""
        of_controls = self.controls.times(weights)
        if self.along_lines:
            to.q[:] -= self.with_positions(v, gained).T.times(weights)
        to.v[:] += of_controls
        return np.asarray(self.gained.times(weights) - self.start.times(weights) - of_controls)

    def masses_with_positions(self, x: Array) -> BlockDiagonal:
        """Changes of ``A x`` of the masses ``A`` that these add, with positions."""
        out = self._none()
        for number, q, (own,), at, W in self._lines(x):
            a = self._added[at]
            turning = a[:, None] * self._rows(number, q, own)
            out.kinds[number] = (self._forces(number, q, -a * (W @ own)) + W.T @ turning)[None]
        return out

    def energies_with_positions(self, kind: int, y: Array) -> Array:
        """Changes (n, w) of ``yᵀ A y`` with positions, of vectors (n, w) of the one block of a kind."""
        total = np.zeros_like(y)
        for number, q, _, at, W in self._lines():
            if number == kind:
                for out, own in zip(total, y, strict=True):
                    out += 2.0 * (self._added[at] * (W @ own)) @ self._rows(number, q, own)
        return total

    def _none(self) -> BlockDiagonal:
        return BlockDiagonal([np.zeros_like(x) for x in self.gained.kinds])

    def _lines(self, *of_dofs: Array) -> Iterator[tuple[int, Array, list[Array], Indices, Array]]:
        """Of kinds with such springs number, configuration, parts of arrays, numbers of springs, and their rows."""
        blocks, springs, b = self._scene.blocks, self._springs, 0
        for number, q, parts in self._scene.batches(self._record.q, *of_dofs):
            kind = blocks.kinds[number]
            if kind.springs:
                at = np.flatnonzero((springs.at.row >= 0) & (springs.block == b))
                W = np.array([springs.ratios[springs.first[s] : springs.first[s + 1]] for s in at])
                yield number, q[0], [x[0] for x in parts], at, W
            b += len(kind.links)

    def _rows(self, number: int, q: Array, x: Array) -> Array:
        """Changes of ``W x`` with positions."""
        return np.asarray(self._changes(number, q, x, np.zeros(len(self._scene.blocks.kinds[number].springs)))[1])

    def _forces(self, number: int, q: Array, p: Array) -> Array:
        """Changes of ``−Wᵀ p`` with positions."""
        return np.asarray(self._changes(number, q, np.zeros(self._scene.blocks.kinds[number].tree.nv), p)[0])

    def _changes(self, number: int, q: Array, x: Array, p: Array) -> Sequence[Array]:
        found: Sequence[Array] = self._scene.kernel(number, "spring_changes")(q, x, p)
        return found

    def _masses(self) -> Sequence[Array]:
        scene, record, first = self._scene, self._record, 0
        found, stiff = scene.batched(self.mass), {int(b) for b in scene.blocks.springs.block[self._acting]}
        for number, q, (v, tau) in scene.batches(record.q, record.v, record.tau):
            end = first + len(found[number])
            if stiff & {*range(first, end)}:
                found[number] = np.asarray(scene.kernel(number, "joint_space_motion")(q, v, tau)[M])
            first = end
        return found
