"""Masses that contacts see in a step: what springs and dampers do to derivatives of it, and mobilities of rows.

See `delassus.contact.sparse.springs`. Modes and compliances are of mobilities, which change as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from delassus.algorithms.contact.law import COMPLIANCE, step_of_spring
from delassus.algorithms.contact.problem import PROXIMAL
from delassus.contact.changes.blocks import BlockDiagonal, InertialForces, SceneChanges
from delassus.contact.changes.contacts import FoundContacts, RowParts, row_changes
from delassus.contact.changes.loops import LoopBlock
from delassus.contact.changes.record import StepRecord
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.blocks import MOTION_OF_BLOCKS
from delassus.contact.sparse.springs import added_masses
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.ops import SQUARE_FLOOR
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
        return np.asarray(
            self._changes(number, q, x, np.zeros(sum(c.size for c in self._scene.blocks.kinds[number].springs)))[1]
        )

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


class Mobilities:
    """``J M⁻¹ Jᵀ`` of rows alone, under loops; from the inverses and the Jacobian ``J`` of contacts.

    Attributes
    ----------
    of_contacts : (m, r) array
    of_joints : (k,) array
    """

    def __init__(
        self, scene: SceneChanges, record: StepRecord, contacts: FoundContacts, J: RowParts, inverse: BlockDiagonal,
        loops: list[LoopBlock], springs: SpringChanges,
    ) -> None:  # fmt: skip
        self._scene, self._record, self._contacts, self._inverse = scene, record, contacts, inverse
        self._springs = springs
        self._loops = {loop.kind: loop for loop in loops}
        links, of = record.contacts.links, scene.blocks.of_links.block
        m, on = len(links), np.where(links >= 0, of[links], -1)
        both, self._sides = (on[:, 0] == on[:, 1]) & (on[:, 0] >= 0), contacts.sides
        self._shares = np.where(both, 0.5, 1.0)
        whole = [x.copy() for x in J.parts]  # where both sides are of one block that of both together
        if both.any():
            for side, part in zip(self._sides, whole, strict=True):
                for other, added in zip(self._sides, J.parts, strict=True):
                    if other.second != side.second and added.shape == (len(added), *part.shape[1:]):
                        place = np.full(m, -1)
                        place[other.contact] = np.arange(len(other.contact))
                        at = np.flatnonzero(both[side.contact] & (place[side.contact] >= 0))
                        part[at] += added[place[side.contact[at]]]
        self._whole = RowParts(self._sides, whole)
        self._Y = [part @ own for part, own in zip(whole, self.of_sides(inverse), strict=True)]
        squares = np.zeros((m, contacts.scales.shape[1]))
        for side, part, y in zip(self._sides, whole, self._Y, strict=True):
            squares[side.contact] += self._shares[side.contact, None] * (y * part).sum(axis=2)
        self.of_contacts = squares + PROXIMAL * squares.max(axis=1, initial=0.0)[:, None] + SQUARE_FLOOR
        diagonal = np.concatenate([np.diagonal(x, axis1=1, axis2=2).ravel() for x in inverse.kinds])
        self.of_joints = diagonal[scene.blocks.joints.dofs]

    def of_sides(self, x: BlockDiagonal) -> list[Array]:
        """Blocks (n, w, w) of sides."""
        kinds = self._scene.blocks.kinds
        ends = np.cumsum([0, *(len(kind.links) for kind in kinds)])
        out = list[Array]()
        for side in self._sides:
            kind = np.searchsorted(ends, side.block, side="right") - 1
            own = np.empty((len(side.block), *side.at_or_above.shape[1:]))
            for k in np.unique(kind):
                own[kind == k] = x.kinds[k][side.block[kind == k] - ends[k]]
            out.append(own)
        return out

    def changes(self, weights: Array) -> tuple[RowParts, RowParts]:
        """Of minus mean mobilities of contacts times ``weights`` with positions, and with masses of dofs."""
        kinds = self._scene.blocks.kinds
        by_q, by_mass = [np.zeros((len(s.block), 1, s.G.shape[2])) for s in self._sides], list[Array]()
        ends = np.cumsum([0, *(len(kind.links) for kind in kinds)])
        begins = np.cumsum([0, *(len(kind.links) * kind.tree.nq for kind in kinds)])
        for r in range(self._contacts.scales.shape[1]):
            own = [y[:, r] for y in self._Y]
            for part, one in zip(by_q, row_changes(self._contacts, own).row(r).parts, strict=True):
                part += 2.0 * one
            for side, part, whole, y in zip(self._sides, by_q, self._whole.parts, own, strict=True):
                for k, kind in enumerate(kinds):
                    at = np.flatnonzero(
                        (side.block >= ends[k]) & (side.block < ends[k + 1]) & (weights[side.contact] > 0.0)
                    )
                    if kind.is_free or not len(at):
                        continue
                    q = self._record.q[begins[k] : begins[k + 1]].reshape(len(kind.links), -1)[side.block[at] - ends[k]]
                    found = self._inertial(k, q, y[at], whole[at, r])
                    part[at] -= self._shares[side.contact[at], None, None] * found[:, None]
        for side, whole, y in zip(self._sides, self._whole.parts, self._Y, strict=True):
            by_mass.append(-self._shares[side.contact, None, None] * (y * whole).sum(axis=1, keepdims=True))
        factors = (-weights / 3.0)[:, None]
        return RowParts(self._sides, by_q).scaled(factors), RowParts(self._sides, by_mass).scaled(factors)

    def with_scales(self, scales: Array) -> Array:
        """Changes (m, 3) of compliances of the correction, times pushes, with scales of spins."""
        pushes, own = self._record.correction.pushes, scales[:, 3:]
        over = np.divide(1.0, own, out=np.zeros_like(own), where=own > 0.0)
        return np.asarray(2.0 / 3.0 * COMPLIANCE * pushes[:, None] * self.of_contacts[:, 3:] * over)

    def _inertial(self, kind: int, q: Array, y: Array, row: Array) -> Array:
        """Changes (n, w) of ``yᵀ M y``, ``y = M⁻¹ row``; under loops, ``M y = row − Jᵀ μ``, ``2 μᵀ ∂J y`` more."""
        if kind not in self._loops:
            found = (y[:, None] @ self._scene.kernel(kind, "inertia_changes")(q, y, y[:, :0])[0])[:, 0]
            return np.asarray(found + self._springs.energies_with_positions(kind, y))
        mu = self._loops[kind].impulses(row.T).T
        with_q, rows, *_ = self._scene.kernel(kind, "inertia_changes")(q, y, -mu)
        return np.asarray((y[:, None] @ with_q + mu[:, None] @ rows)[:, 0])

    def of_limits(self) -> Array:
        """Changes (j, n) of mobilities of joints that a correction pushes, times compliance and impulses."""
        record, blocks, out = self._record, self._scene.blocks, list[Array]()
        pushes, n = record.correction.joint_pushes, len(blocks.dofs)
        ends = np.cumsum([0, *(len(kind.links) for kind in blocks.kinds)])
        for j in np.flatnonzero(pushes):
            unit, block = np.zeros((n, 1)), blocks.joints.blocks[j]
            unit[blocks.joints.dofs[j]] = 1.0
            y, kind = self._inverse.times(unit), int(np.searchsorted(ends, block, side="right")) - 1
            begin, end = blocks.bodies.first[block : block + 2]
            q = next(x for number, x, _ in self._scene.batches(record.q) if number == kind)[block - ends[kind]]
            row = np.zeros(n)
            row[begin:end] = self._inertial(kind, q[None], y[None, begin:end, 0], unit[None, begin:end, 0])[0]
            out.append(row * COMPLIANCE * pushes[j])
        return np.reshape(out, (len(out), n))

    def of_masses(self, normals: Array, limits: Array) -> list[InertialForces]:
        """What mobilities, which compliances of the correction are multiples of, have of inertias of robots."""
        blocks, found, widest = self._scene.blocks, self._record.correction, self._scene.supports.moves.shape[1]
        joints, first, n = blocks.joints, blocks.bodies.first, len(blocks.dofs)
        squares = np.zeros((len(first) - 1, widest, widest, normals.shape[1]))  # sums of y yᵀ
        factors = (COMPLIANCE / 3.0 * found.pushes * self._shares)[:, None] * normals
        for side, y in zip(self._sides, self._Y, strict=True):
            w = y.shape[2]
            one = (np.swapaxes(y, 1, 2) @ y)[..., None] * factors[side.contact, None, None]
            np.add.at(squares, (side.block[:, None, None], np.arange(w)[:, None], np.arange(w)), one)
        units = np.zeros((n, len(joints.dofs)))
        units[joints.dofs, np.arange(len(joints.dofs))] = 1.0
        columns = self._inverse.times(units)
        for j in np.flatnonzero(found.joint_pushes):
            block = joints.blocks[j]
            y = columns[first[block] : first[block + 1], j]
            more = np.outer(y, y)[..., None] * (COMPLIANCE * found.joint_pushes[j] * limits[j])
            squares[block, : len(y), : len(y)] += more
        out, nothing = list[InertialForces](), np.zeros(n)
        place = np.arange(n) - np.repeat(first[:-1], np.diff(first))
        block = np.repeat(np.arange(len(first) - 1), np.diff(first))
        for i in range(widest):
            unit = 1.0 * (place == i)
            out.append(InertialForces(nothing, unit, squares[block, i, place]))
        return out
