"""When impacts within a step are, as it changes: `delassus.contact.sparse.impact`, backwards.

An impact of the time ``t`` starts from ``w₀ = v + k``, ``k = (h / 2 + t) a``, with the acceleration ``a`` of what
nothing holds; it ends at ``w``, ``v ← w − k``, and centres of mass of free bodies are displaced by ``−t (w − w₀)``.
With the gap ``φ`` of the contact that says when, all earlier displacements ``s``, and the velocity ``x = v + h a`` that
a step without contacts reaches,

    φ + J (s + y) = 0,   y = t (1 − t / h) v / 2 + t (1 + t / h) x / 2,   dt = −(dφ + d(J (s + y))) / (J w₀).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from delassus.algorithms.contact.law import FARTHEST, impact, impact_margins, impact_time, turns_alike
from delassus.contact.changes.blocks import InertialForces
from delassus.contact.changes.contacts import cross_matrices, gap_changes, row_changes
from delassus.contact.changes.record import ImpactRecord
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.rotations import Array


def _closing(step: Any, v: Array, reached: Array, late: Array) -> tuple[Array, Array, Array]:
    """Rates at which gaps of contacts (m,) close, and their normal velocities at both ends of a step without them."""
    options, normal, gaps = step.scene.options, step.J.row(2), -step.record.contacts.depths
    approach, ahead, moved = (normal.times(x[:, None], step.m)[:, 0, 0] for x in (v, reached, late / options.dt))
    return np.where(gaps > options.dt * options.tolerance, gaps / options.dt, 0.0) + moved, approach, ahead


def _nearest(step: Any, rates: Array, approach: Array, reached: Array, struck: Array) -> float:
    """Change of a velocity (m/s) at which another contact bounces, or hits blocks that are ``struck``."""
    options, on = step.scene.options, step.on
    margins: Any = impact_margins(
        NUMPY, rates, approach, reached, step.record.contacts.restitution, options.tolerance, options.resting
    )
    of_hit, of_bounce = margins
    is_struck = ((on >= 0) & struck[on]).any(axis=1)
    nearest = float(np.min(np.minimum(of_bounce, np.where(is_struck, of_hit, FARTHEST)), initial=FARTHEST))
    return np.inf if nearest == FARTHEST else nearest


def distance_of_bounces(step: Any, v: Array, free: Array, late: Array) -> float:
    """Change of a velocity (m/s) at which an impact is left to be made, from velocities ``v`` to ``free`` (n,).

    By the displacements ``late`` of impacts that were.
    """
    found, options, joints = step.record.contacts, step.scene.options, step.scene.blocks.joints
    if not (found.restitution > 0.0).any():
        return np.inf
    falls, of_block = np.ones(len(step.first) - 1), np.repeat(np.arange(len(step.first) - 1), np.diff(step.first))
    falls[[loop.block for loop in step.loops]] = falls[step.scene.blocks.moved] = 0.0
    q, tolerance = step.record.q[joints.coordinates] + late[joints.dofs], options.tolerance
    while True:  # what rests on something that rests
        path = v + falls[of_block] * (free - v)
        rates, approach, reached = _closing(step, v, path, late)
        fast = (found.restitution > 0.0) & (approach < -options.resting)
        holds = (-found.depths <= options.dt * tolerance) & (reached < -tolerance) & ~fast
        at_limits = ((q <= joints.lower) & (path[joints.dofs] < -tolerance)) | (
            (q >= joints.upper) & (path[joints.dofs] > tolerance)
        )
        resting = np.concatenate([step.on[holds].ravel(), joints.blocks[at_limits]])
        resting = resting[resting >= 0]
        if not falls[resting].any():
            return _nearest(step, rates, approach, reached, np.zeros(len(falls), bool))
        falls[resting] = 0.0


def pull_gains(
    at: Any, v: Array, gained: Array, weights: Array, mass: Array, inertial: list[InertialForces], to: Any
) -> Array:
    """What counts the velocities ``v`` (n, k) of steps without contacts and what they gain, by weights of momentum.

    In the situation ``at``; joint forces, positions and masses are counted in place.
    """
    scene, record, dt = at.scene, at.record, at.scene.options.dt
    free = scene.block_changes(record, v, v + gained)
    to.q[:] -= free.momentum_q.T.times(weights)
    to.tau[:] += dt * weights
    mass -= dt * record.tau[:, None] * weights
    turning, accelerations = scene.joint_accelerations(record, v, v + gained)
    inertial.append(InertialForces(turning, accelerations, -dt * weights, True))
    return np.asarray(-free.momentum_v.T.times(weights))


class ImpactChanges:
    """An impact, of velocities (n,) ``before`` and ``after`` it at its time, and the displacement ``late`` before it.

    Of degrees of freedom that it has ``placed`` (n,), ``after`` and what comes of it are not looked at. Forces before
    it are those of the velocities ``v + lead``, of what is ``led`` (n,).

    Attributes
    ----------
    v : (n,) array
        Velocities before it, half a step behind.
    late_before, late : (n,) array
        Displacements by impacts before it, and with it.
    gained, falls : (n,) array
        What the step would gain without contacts, and 1 where nothing holds a body.
    """

    def __init__(
        self, step: Any, of: ImpactRecord, v: Array, after: Array, late: Array, placed: Any, lead: Array,
        led: Any,
    ) -> None:  # fmt: skip
        self._step, self.late_before, self.v, self._placed = step, late, v, placed
        self._lead, self._led = lead, led[:, None]
        self._of_block = np.repeat(np.arange(len(of.times)), np.diff(step.first))
        struck, times = np.isfinite(of.times), np.where(np.isfinite(of.times), of.times, 0.0)
        dt = step.scene.options.dt
        self._first, self._times, self.falls = of.first, times[self._of_block], of.falls[self._of_block]
        self._part = np.where(struck, 0.5 + times / dt, 0.0)[self._of_block]
        self._begin = v + of.kick
        self.gained = of.kick / np.where(self._part > 0.0, self._part, 1.0)
        self._changed = np.where((self._part > 0.0) & ~self._placed, after - self._begin, 0.0)
        bodies = step.scene.blocks.bodies
        alone = np.flatnonzero(bodies.alone >= 0)  # of mass matrices: m, m c, inertia
        m, *H = step.springs.mass[bodies.at[alone][:, None] + [0, 11, 15, 4, 21, 28, 35, 22, 23, 29]].T
        centres = [x / m for x in H[:3]]
        alike: Any = turns_alike(NUMPY, m, centres, H[3:])
        self._alike = np.asarray(alike)[:, None, None]
        self._free = bodies.first[alone][:, None] + np.arange(6)
        self._centres = (1.0 - self._alike) * cross_matrices(np.stack(centres, axis=-1))
        self.late = late - self._times * self._displaced(self._changed[:, None])[:, 0]
        within = struck & np.where(times > 0.0, times < dt, bool(step.smoothing))
        self._struck, self._own = struck, np.flatnonzero(within & (of.first >= 0))
        self._earlier = np.flatnonzero(within & (of.first < 0))

    def distance(self, free: Array) -> float:
        """Change of a velocity (m/s) at which other contacts hit or bounce, or another one is the first that does.

        That one says when the impact is. Velocities ``free`` (n,) are those of the step without contacts.
        """
        step, dt = self._step, self._step.scene.options.dt
        found, m = step.record.contacts, step.m
        path = np.where(self._part > 0.0, self.gained, self.falls * (free - self.v))
        rates, approach, reached = _closing(step, self.v, self.v + path, self.late_before)
        nearest = _nearest(step, rates, approach, reached, self._struck)
        if not len(self._own):
            return nearest
        at: Any = impact_time(NUMPY, rates, approach, reached, dt)
        bounces: Any
        _, bounces = impact(NUMPY, rates, approach, reached, found.restitution, step.scene.options.tolerance,
                            step.scene.options.resting)  # fmt: skip
        closing = approach + (0.5 + at / dt) * (reached - approach)
        body, times = step.on[:, 0], self._times[step.first[:-1]]
        others = np.isin(body, self._own) & (times[body] > 0.0) & (bounces > 0.0) & (self._first[body] != np.arange(m))
        return min(nearest, float(np.min(np.abs((at - times[body]) * closing)[others] / dt, initial=np.inf)))

    def _displaced(self, x: Array) -> Array:
        """Velocities (n, k) by which impacts displace, of those of all blocks: see `end_impact`."""
        out, own = np.zeros_like(x), x[self._free]
        out[self._free[:, :3]] = own[:, :3] - self._centres @ own[:, 3:]
        out[self._free[:, 3:]] = self._alike * own[:, 3:]
        return out

    def _of_displacements(self, x: Array) -> Array:
        """What counts velocities (n, k) from what counts those of displacements."""
        out, own = np.zeros_like(x), x[self._free]
        linear = own[:, :3]
        out[self._free] = np.concatenate([linear, self._centres @ linear + self._alike * own[:, 3:]], axis=1)
        return out

    def start(self, dv: Array, late: Array) -> Array:
        """What counts the end of the impact, from what counts velocities after it and displacements (n, k)."""
        self._dv, self._dlate = np.where(self._placed[:, None], 0.0, dv), late.copy()
        return dv - self._of_displacements(self._times[:, None] * late)

    def end(
        self, counts: Array, late: Array, times: Array, mass: Array, inertial: list[InertialForces], to: Any,
        shift: Any, lead: Array,
    ) -> Array:  # fmt: skip
        """What counts velocities before it, from what counts those that it starts from; added to the rest.

        ``times`` (blocks, k) are what later impacts count of times of these blocks, ``shift`` (n, k) what counts
        displacements of what it has placed; ``lead`` (n, k) counts velocities of which forces are.
        """
        step, part, dt = self._step, self._part[:, None], self._step.scene.options.dt
        counts = counts + self._of_displacements(self._times[:, None] * self._dlate)
        kicked = np.where(part > 0.0, counts - self._dv, 0.0)
        t, gained = self._times[:, None], self.gained[:, None]
        path = part * kicked - 0.5 * t * t / dt * shift
        at_times = gained * kicked / dt - t / dt * gained * shift
        moved = self._changed[:, None]
        at_times -= (moved if step.smoothing else self._displaced(moved)) * self._dlate
        dv = counts - path
        of_blocks = np.add.reduceat(at_times, step.first[:-1], axis=0)
        of_blocks[self._struck] += times[self._struck]
        times[self._struck] = 0.0
        np.add.at(times, -1 - self._first[self._earlier], of_blocks[self._earlier])
        if len(self._own):
            of_times = self._pull_times(of_blocks[self._own], late, to)
            dv, path = dv + of_times[0], path + of_times[1]
        dv += (1.0 - self.falls[:, None]) * path
        falls = self.falls[:, None] * path
        if falls.any():
            weights, led = step.inverse.times(falls), self._led
            own = pull_gains(step, self.v + self._lead, self.gained, weights, mass, inertial, to)
            own = own + step.springs.pull(self.v, self.gained, weights, to)
            dv += np.where(led, falls, own)
            lead += np.where(led, own - falls, 0.0)
        return np.asarray(dv)

    def _pull_times(self, counts: Array, late: Array, to: Any) -> tuple[Array, Array]:
        """What counts velocities before and without the impact (n, k), from what counts its times (blocks, k)."""
        step, own, m, k = self._step, self._own, self._step.m, counts.shape[1]
        normal, dt, ends = step.J.row(2), step.scene.options.dt, list[tuple[Array, Array]]()
        times, of_gaps = np.zeros(m), np.zeros((m, 1, k))
        contacts = self._first[own]
        u = normal.times(self._begin[:, None], m)[contacts, 0, 0]
        np.add.at(of_gaps[:, 0], contacts, -counts / u[:, None])
        times[contacts] = self._times[step.first[own]]
        for velocities, sign in ((self.v, -1.0), (self.v + self.gained, 1.0)):
            ends.append((velocities, (0.5 * times * (1.0 + sign * times / dt))[:, None, None] * of_gaps))
        v, path = np.zeros((step.n, k)), np.zeros((step.n, k))
        step.gaps.pulled(of_gaps, to.q)
        for (_, of_rows), counted in zip([*ends, (None, of_gaps)], (v, path, late), strict=True):
            normal.pulled(of_rows, counted)
        for found, alone, counted in ((step.contacts, False, to.q), (step.by_velocities, True, to.v)):
            if found is None:
                continue
            if alone:
                gap_changes(found).pulled(of_gaps, counted)
            for velocities, of_each in (*ends, (self.late_before, of_gaps)):
                x: Any = [velocities[side.dofs] for side in step.sides]
                row_changes(found, x, alone=alone).row(2).pulled(of_each, counted)
        return v, path
