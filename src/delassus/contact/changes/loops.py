"""Blocks with loops in a step: independent rows, smooth motion between contacts, and how both change.

The momentum of a block in a step is that at rest, ``M (v_s − w) − Jᵀ p`` with the velocity ``w`` at the end of smooth
motion; the velocity after the step is ``w + v_s − v_0``, ``v_0`` what loops alone leave of ``w``: see
`delassus.algorithms.contact.changes.step`.

With ``M = L Lᵀ`` rows ``T J`` are orthonormal in ``M⁻¹``, those that depend on others left out. They measure zero, so
that ``T`` does not count where they change.

Where springs act on a block (`delassus.contact.sparse.springs`), ``M`` has what they add, and ``w`` is what they make
of the smooth motion, or the end of a second one under their forces.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from delassus.accuracy.rank import REGULAR_CONDITION
from delassus.algorithms.contact.law import step_of_spring
from delassus.algorithms.dynamics.integrate import position_rates
from delassus.algorithms.osim.least_squares import UNMOVED
from delassus.contact.changes.blocks import InertialForces, SceneChanges, by_masses
from delassus.contact.changes.record import StepRecord
from delassus.contact.sparse.blocks import Blocks
from delassus.contact.sparse.springs import part_at_once
from delassus.errors import ConfigurationError
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array


class LoopSprings(NamedTuple):
    """Springs (s) of joints and servos that act on a block with loops, in a step of the length ``h``.

    Rows ``W`` (s, w), stiffness ``k`` and damping ``d``, the mass ``added`` and the momentum ``ahead`` of
    `law.step_of_spring`; ``passive`` is 1 of those of joints, ``stretch`` (s,) by how far these are from rest, and
    ``served`` (w,) 1 where joint forces are those of servos. The part ``at_once`` acts at the start of a motion
    without impulses.
    """

    W: Array
    k: Array
    d: Array
    added: Array
    ahead: Array
    passive: Array
    stretch: Array
    served: Array
    at_once: float
    h: float

    @classmethod
    def of(cls, scene: SceneChanges, record: StepRecord, block: int) -> LoopSprings | None:
        """Those of a block in the step, None without any."""
        blocks, masses, h = scene.blocks, record.masses, scene.options.dt
        springs, first = blocks.springs, int(blocks.bodies.first[block])
        acts = (springs.block == block) & ((masses.stiffness > 0.0) | (masses.damping > 0.0))
        own = np.flatnonzero(acts & (springs.at.row < 0))
        if not own.size:
            return None
        W = np.zeros((own.size, int(blocks.bodies.first[block + 1]) - first))
        for row, s in zip(W, own, strict=True):
            at = slice(int(springs.first[s]), int(springs.first[s + 1]))
            row[springs.dofs[at] - first] = masses.ratios[at]
        k, d = masses.stiffness[own], masses.damping[own]
        passive = np.where(springs.of_controls[own] == 1, 0.0, 1.0)
        added, ahead = (np.asarray(x) for x in step_of_spring(NUMPY, h, k, d, springs.size[own]))
        at_q = springs.at.coordinate[own]
        stretch = np.where(at_q >= 0, record.q[at_q] - springs.at.rest[own], 0.0)
        served = 1.0 * (W[passive == 0.0] != 0.0).any(axis=0)
        at_once = part_at_once(springs._replace(stiffness=masses.stiffness, damping=masses.damping), block, h)
        return cls(W, k, d, added, ahead, passive, stretch, served, float(at_once), h)

    def momentum(self, v: Array, tau: Array, gained: Array, centred: float) -> Array:
        """Momentum (w,) that they bring beside the motion that gains the velocity ``gained``.

        ``centred`` is what counts of the force of the mean position, 0 for that of the start.
        """
        return self._momentum(self.stretch[:, None], v[:, None], tau[:, None], gained[:, None], centred)[:, 0]

    def momentum_rates(self, gained: Array, centred: float) -> Array:
        """Its changes (w, 3 w) with positions, velocities and joint forces, where ``gained`` changes by those."""
        by_q, by_v, by_tau = np.eye(3 * len(self.served)).reshape(3, -1, 3 * len(self.served))
        return self._momentum(self.W @ by_q, by_v, by_tau, gained, centred)

    def _momentum(self, stretch: Array, v: Array, tau: Array, gained: Array, centred: float) -> Array:
        """That of columns (…, k), in which it is linear."""
        h, speed = self.h, self.W @ v
        passive, k, d, added, ahead = (x[:, None] for x in (self.passive, self.k, self.d, self.added, self.ahead))
        along = passive * h * (k * stretch + d * speed) + ahead * speed
        along += 0.5 * centred * h * h * k * speed + added * (self.W @ gained)
        return np.asarray(h * self.served[:, None] * tau - self.W.T @ along)


class LoopBlock:
    """A block with loops.

    Attributes
    ----------
    kind, block : int
        Numbers of its kind and of the block.
    at : slice
        Its degrees of freedom (w).
    q : (nq,) array
        Configuration.
    J : (r, w) array
        Independent rows.
    M, inverse : (w, w) arrays
        Mass matrix, and its inverse under loops.
    moved, reached, alone : (w,) arrays
        Displacement and velocity ``w`` of smooth motion, and ``v_0``.
    pushed : float
        1 where impulses of contacts or joints act on it, else 0.
    gaps : (r,) array
        Position errors of loops that the correction takes back, zero of those that smooth motion does.
    springs : LoopSprings, optional
        Those that act on it.
    """

    def __init__(self, scene: SceneChanges, record: StepRecord, number: int) -> None:
        blocks, smooth = scene.blocks, record.correction.smooth
        self.block, _, _, rows = blocks.loops[number].tolist()
        self.kind = [k for k, x in enumerate(blocks.kinds) if x.loops][number]
        self.at = slice(*blocks.bodies.first[self.block : self.block + 2].tolist())
        self.q = next(q for k, q, _ in scene.batches(record.q) if k == self.kind)[0]
        self._changes, self._m = scene.kernel(self.kind, "inertia_changes"), int(blocks.loops[number, 1])
        w = self.at.stop - self.at.start
        first = blocks.bodies.at[self.block]
        self.M = record.masses.mass[first : first + w * w].reshape(w, w)
        _, _, J, with_q = self._changes(self.q, np.zeros(w), np.zeros(self._m))
        L = np.linalg.cholesky(self.M)
        over = np.linalg.inv(L)
        Y = J @ over.T
        squares = (Y * Y).sum(axis=1)
        is_moved = squares > UNMOVED * smooth.mobilities[rows : rows + self._m]
        scale = np.where(is_moved, 1.0 / np.sqrt(np.where(is_moved, squares, 1.0)), 0.0)
        U, S, V = np.linalg.svd(scale[:, None] * Y, full_matrices=False)
        kept = S > REGULAR_CONDITION**0.5
        self._mix = (U[:, kept] / S[kept]).T * scale
        self.J, Q = self._mix @ J, V[kept]
        self.whole_inverse = over.T @ over
        self.inverse = over.T @ (np.eye(w) - Q.T @ Q) @ over
        self.moved, self.reached = smooth.moved[self.at], smooth.reached[self.at]
        self.alone = self.inverse @ (self.M @ self.reached)
        self.pushed = 1.0 * smooth.pushed[number]
        self.springs = LoopSprings.of(scene, record, self.block)
        back = scene.options.correction * (1.0 - smooth.closed[number])
        self.gaps = back * (self._mix @ smooth.errors[rows : rows + self._m])
        self.gaps_with_q = back * (self._mix @ with_q)

    def is_struck(self, record: StepRecord) -> bool:
        """Whether impacts strike it where springs act: derivatives do not know the masses of an instant."""
        v = record.v[self.at]
        return self.springs is not None and any((x.after[self.at] != v).any() for x in record.problems[:-1])

    def impulses(self, momentum: Array) -> Array:
        """Impulses (m, …) of all rows that exert the part of a momentum (w, …) that loops take."""
        return np.asarray(self._mix.T @ (self.J @ (self.whole_inverse @ momentum)))

    def changes(self, gained: Array, exerted: Array, velocity: Array) -> tuple[Array, Array]:
        """Changes with positions of ``M gained`` less what loops exert (w, w), and of ``J velocity`` (r, w).

        ``exerted`` (w,) is what others exert.
        """
        f = self.impulses(self.M @ gained - exerted)
        with_q = self._changes(self.q, gained, f)[0]
        return with_q, self._mix @ self._changes(self.q, velocity, 0.0 * f)[1]

    def smooth_tangents(self, scene: SceneChanges, v: Array, tau: Array, with_mass: bool) -> tuple[Array, Array]:
        """Changes (k, w) of smooth motion: with positions, velocities and joint forces, and with masses of all links.

        A batch goes through the motion side by side.
        """
        if self.springs is not None:
            return self._with_springs(scene, self.springs, v, tau)
        return self._tangents(scene, v, tau, with_mass)

    def _with_springs(
        self, scene: SceneChanges, springs: LoopSprings, v: Array, tau: Array
    ) -> tuple[Array, Array]:  # fmt: skip
        """`smooth_tangents` of what springs make of smooth motion."""
        h, w, free = springs.h, len(self.M), (1.0 - springs.served) * tau
        given = scene.options.dt, scene.options.correction
        _, ended, _ = scene.kernel(self.kind, "smooth_motion")(self.q, v, free, *given)
        moved, reached = (x.T.copy() for x in self._tangents(scene, v, free, False))
        for x in (moved, reached):
            x[:, 2 * w :] *= 1.0 - springs.served
        gained, gained_rates = ended - v, reached.copy()
        gained_rates[:, w : 2 * w] -= np.eye(w)
        centred = (1.0 - self.pushed) * (1.0 - springs.at_once)
        momentum = springs.momentum(v, tau, gained, centred)
        rates = springs.momentum_rates(gained_rates, centred)
        brought = self.inverse @ momentum
        with_q, rows = self.changes(brought, momentum, brought)
        by = self.inverse @ rates
        by[:, :w] -= self.inverse @ with_q + self.whole_inverse @ (self.J.T @ rows)
        if self.pushed:
            return (moved + 0.5 * h * by).T, (reached + by).T
        answer = (springs.W.T * springs.added) @ springs.W
        held, at_once = (1.0 - springs.at_once) / h, springs.at_once
        forces = free + held * (momentum - answer @ brought)
        by_forces, by_start = held * (rates - answer @ by), at_once * by
        by_forces[:, 2 * w :] += np.diag(1.0 - springs.served)
        found = list[Array]()
        for x in self._tangents(scene, v + at_once * brought, forces, False):
            own = np.concatenate([x[: 2 * w].T, np.zeros((w, w))], axis=1)
            found.append((own + x[w : 2 * w].T @ by_start + x[2 * w :].T @ by_forces).T)
        return found[0], found[1]

    def _tangents(self, scene: SceneChanges, v: Array, tau: Array, with_mass: bool) -> tuple[Array, Array]:
        """`smooth_tangents` without springs."""
        tree, w = scene.blocks.kinds[self.kind].tree, len(self.M)
        inertias = by_masses(tree) if with_mass else np.zeros((0, 10))
        unit = np.eye(3 * w + len(inertias))
        by_q, *others = (unit[:, k * w : (k + 1) * w] for k in range(3))
        added = [unit[:, 3 * w + k, None] * x for k, x in enumerate(inertias)]
        kernel = scene.kernel(self.kind, "smooth_tangents_of_inertias" if with_mass else "smooth_tangents")
        at = self.q, v, tau, scene.options.dt, scene.options.correction, *np.zeros_like(inertias)
        turned: Any = position_rates(NUMPY, tree, self.q.tolist())
        moved, reached, _ = kernel(*at, by_q @ turned.T, *others, 0.0, 0.0, *added)
        return moved, reached


def settled(record: StepRecord, loops: Sequence[LoopBlock], blocks: Blocks, with_mass: bool) -> StepRecord:
    """A step whose blocks with loops and springs end, where no impulses act, with the velocity of their motion.

    Raises
    ------
    ConfigurationError
        Derivatives with masses of such blocks.
    """
    *impacts, last = record.problems
    after = last.after.copy()
    for loop in loops:
        if loop.springs is not None:
            if with_mass:
                joint = blocks.joint_of(loop.at.start + int(np.argmax(loop.springs.W[0] != 0.0)))
                wanted = "no 'mass' where servos or stiff springs act on joints in loops"
                advice = "Leave 'mass' out, or take differences of steps."
                raise ConfigurationError("parameters", wanted, f"a servo or spring on joint {joint!r}", advice)
            after[loop.at] = np.where(loop.pushed, after[loop.at], loop.alone)
    return record._replace(problems=[*impacts, last._replace(after=after)])


def pull_smooth_motion(
    scene: SceneChanges, loops: list[LoopBlock], start: tuple[Array, Array], after: Array,
    counts: tuple[Array, Array, Array], v: Array, to: Any, with_mass: bool,
) -> list[InertialForces]:  # fmt: skip
    """Put what counts velocities (n, k) before the step in ``v``, joint forces and positions to ``to``, by loops.

    ``start``: velocities before the step and joint forces. ``counts`` (n, k) are those of velocities after it and of
    shifts, and weights of momentum, at the velocities ``after`` (n,). What counts masses by momentum is returned.
    """
    dt, (gained, alone_gained), counted = scene.options.dt, np.zeros((2, len(after))), np.zeros((2, *v.shape))
    for loop in loops:
        at, (count, shift, weights) = loop.at, (x[loop.at] for x in counts)
        pushed = dt * loop.pushed * shift
        alone = pushed - count
        with_q, rows = loop.changes(loop.alone - loop.reached, np.zeros(len(loop.M)), loop.alone)
        left = loop.inverse @ alone
        to.q[at] -= with_q.T @ left + rows.T @ (loop.J @ (loop.whole_inverse @ alone))
        reached = count - dt * shift - 0.5 * pushed + loop.M @ (weights + left)
        moved, ended = loop.smooth_tangents(scene, start[0][at], start[1][at], with_mass)
        w, found = len(loop.M), moved @ shift + ended @ reached
        to.q[at] += found[:w]
        v[at] = found[w : 2 * w] - 0.5 * pushed
        to.tau[at] = found[2 * w : 3 * w]
        if with_mass:
            kinds = scene.blocks.kinds
            links = slice(sum(kind.links.size for kind in kinds[: loop.kind]), None)
            to.mass[links][: kinds[loop.kind].links.size] += found[3 * w :]
        gained[at], counted[0, at] = after[at] - loop.reached, -weights
        alone_gained[at], counted[1, at] = loop.alone - loop.reached, -left
    still = np.zeros(len(after))
    return [InertialForces(still, gained, counted[0]), InertialForces(still, alone_gained, counted[1])]
