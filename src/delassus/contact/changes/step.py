"""Derivatives of the last step of a scene: of the state after it with the state before and with joint forces.

Impacts, the step itself, the correction of positions and the motion of bodies follow one another, each at its own
solution; bodies that contacts tie are an island here, those that others tie have nothing to do with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from delassus.algorithms.contact.law import TINY, part_beyond
from delassus.algorithms.contact.law import TUNING as STEP
from delassus.algorithms.contact.problem import PROXIMAL, JointLaw
from delassus.contact.changes.collision import contact_changes
from delassus.contact.changes.contacts import (
    Contacts,
    along,
    coupling_of,
    force_changes,
    gap_changes,
    row_changes,
    sides_of,
    tree_of,
)
from delassus.contact.changes.record import Problem, StepRecord, record_of
from delassus.contact.changes.response import Response, Rows, holds_of, modes_of
from delassus.contact.collision import CollisionDetector
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.blocks import Blocks
from delassus.contact.sparse.records import COMPRESSION, Options
from delassus.contact.sparse.stepper import BlockSteps
from delassus.errors import ConfigurationError
from delassus.quantities.options import Passive
from delassus.spatial.numpy_ops import NUMPY
from delassus.spatial.ops import SQUARE_FLOOR
from delassus.spatial.rotations import Array

FAR = 1e6
"""Velocity (m/s) at which what takes no part parts."""

PARAMETERS = ("friction", "restitution", "mass")
"""What derivatives may be taken with: friction and restitution of colliders, and masses of free bodies."""

CUT = 1e-9
"""Part of a displacement by which the one that was taken differs where it was cut off."""


class BlockChanges(NamedTuple):
    """Of a block of ``w`` degrees of freedom: outputs of `free_step_changes`, and its mass matrix (w, w)."""

    momentum_q: Array
    momentum_v: Array
    q_by_q: Array
    q_by_v: Array
    q_by_shift: Array
    v_by_v: Array
    v_by_shift: Array


class IslandChanges(NamedTuple):
    """Derivatives of an island: ``dofs`` (n,) of the blocks, of ``[q; v]`` after the step (2n, …) with q, v and τ.

    ``given``: with parameters, by name which of the scene, and the derivatives.
    """

    dofs: Indices
    with_q: Array
    with_v: Array
    with_tau: Array
    given: dict[str, tuple[Indices, Array]]


class Varied(NamedTuple):
    """Parameters that vary, by name which of the scene, and what they do in all columns (…, w).

    Friction and restitution of contacts (m, w), and for each degree of freedom of a free body one over its mass (n, w):
    its radii of inertia stay.
    """

    names: dict[str, Indices]
    friction: Array
    restitution: Array
    mass: Array


class SceneChanges:
    """Derivatives of a recorded step of a scene, island by island."""

    def __init__(self, blocks: Blocks, detector: CollisionDetector, options: Options, passive: Passive) -> None:
        self.blocks, self.detector, self.options, self._passive = blocks, detector, options, passive
        self._tree = tree_of(blocks)
        self._kernels: dict[tuple[int, str], Any] = {}

    def _kernel(self, kind: int, what: str) -> Any:
        key = kind, what
        if key not in self._kernels:
            self._kernels[key] = self.blocks.kinds[kind].compile(what, self._passive)
        return self._kernels[key]

    def recorded(self, steps: BlockSteps) -> StepRecord:
        """The last step.

        Raises
        ------
        ConfigurationError
            There is none, or the scene has loops.
        """
        loops, record = self.blocks.scene.loops, record_of(steps)
        if loops:
            advice = "Compile 'contact_step', and take its derivative('jvp')."
            raise ConfigurationError("scene", "no loops", f"{len(loops)}", advice)
        if record is None:
            raise ConfigurationError("simulator", "a step to differentiate", "none yet", "Call step first.")
        return record

    def contacts(self, record: StepRecord) -> tuple[Contacts, Array]:
        """Contacts of a step and how they change; which of them are known."""
        found = record.contacts
        search = record.search
        space = self.detector.space._replace(world=search.world)
        changes = contact_changes(search.pairs, search.reach, self.options.touching, self.detector.arrays, space, found)
        sides = sides_of(found.links, found.points, self.blocks, self._tree, record.poses)
        return Contacts(found.frames, sides, coupling_of(changes, found.points, found.frames)), changes.known

    def block_changes(self, record: StepRecord, v: Array) -> list[BlockChanges]:
        """Changes of all blocks alone, from the velocities ``v`` after impacts on."""
        blocks, out = self.blocks, list[BlockChanges]()
        after, shift, dof, at = record.problems[-1].after, record.correction.shift, 0, 0
        for number, kind in enumerate(blocks.kinds):
            k, tree = len(kind.links), kind.tree
            q = record.q[at : at + k * tree.nq].reshape(k, -1)
            state = [x[dof : dof + k * tree.nv].reshape(k, -1) for x in (v, after, shift)]
            given = [blocks.inertias] if kind.is_free else []
            found = self._kernel(number, "free_step_changes")(q, state[0], state[1], self.options.dt, state[2], *given)
            out += [BlockChanges(*(x[b] for x in found)) for b in range(k)]
            at, dof = at + k * tree.nq, dof + k * tree.nv
        return out

    def inertia_changes(self, record: StepRecord, dofs: Sequence[int], blocks_of: Indices, x: Array) -> Array:
        """Changes (n, n) of ``M x`` of some blocks; those of free bodies have none."""
        out, first = np.zeros((len(dofs), len(dofs))), 0
        sizes, b, at = np.diff(self.blocks.bodies.first), 0, 0
        begins = {}
        for number, kind in enumerate(self.blocks.kinds):
            for _ in kind.links:
                begins[b] = number, at
                b, at = b + 1, at + kind.tree.nq
        for block in blocks_of:
            w, (number, q) = int(sizes[block]), begins[int(block)]
            kind = self.blocks.kinds[number]
            if not kind.is_free and x[first : first + w].any():
                own = self._kernel(number, "inertia_changes")(record.q[q : q + kind.tree.nq], x[first : first + w])
                out[first : first + w, first : first + w] = own
            first += w
        return out

    def islands(self, record: StepRecord) -> list[Indices]:
        """Blocks of each island."""
        n = len(self.blocks.bodies.at)
        root = list(range(n))

        def find(i: int) -> int:
            while root[i] != i:
                root[i] = root[root[i]]
                i = root[i]
            return i

        of = self.blocks.of_links.block
        for a, b in record.contacts.links.tolist():
            if a >= 0 and b >= 0:
                i, j = find(int(of[a])), find(int(of[b]))
                root[max(i, j)] = min(i, j)
        members: dict[int, list[int]] = {}
        for i in range(n):
            members.setdefault(find(i), []).append(i)
        return [np.array(x) for x in members.values()]

    def all(
        self, record: StepRecord, smoothing: float | None, parameters: Sequence[str]
    ) -> tuple[list[IslandChanges], float, bool]:
        """Derivatives of all islands, distance (m/s) of the nearest other mode, and whether they are known.

        Modes are smoothed over ``smoothing`` (m/s).
        """
        contacts, known = self.contacts(record)
        own = self.blocks.of_links.block
        v = record.v.copy()
        if len(record.problems) > 1:
            last = record.problems[-2]
            before = record.problems[-3].after
            first = self.blocks.bodies.first
            parts = np.repeat(last.parts, np.diff(first))
            v = np.where(parts == 1.0, last.after, before + parts * (last.after - before))
        changes = self.block_changes(record, v)
        links = np.where(record.contacts.links[:, 0] >= 0, record.contacts.links[:, 0], record.contacts.links[:, 1])
        block_of = own[links]
        out, distance, fine = list[IslandChanges](), np.inf, bool(known[_acting(record)].all())
        for blocks_of in self.islands(record):
            island = _Island(
                self, record, contacts, blocks_of, np.flatnonzero(np.isin(block_of, blocks_of)), smoothing, parameters
            )
            made, near, good = island.all([changes[b] for b in blocks_of])
            out.append(made)
            distance, fine = min(distance, near), fine and good
        return out, distance, fine


def _acting(record: StepRecord) -> Any:
    """Whether a contact has an impulse or is pushed apart (m,)."""
    acts = record.correction.pushes > 0.0
    for problem in record.problems:
        acts = acts | problem.impulses.any(axis=1)
    return acts


class _Island:
    """One island of a step."""

    def __init__(
        self, scene: SceneChanges, record: StepRecord, contacts: Contacts, blocks_of: Indices, own: Indices,
        smoothing: float | None, parameters: Sequence[str],
    ) -> None:  # fmt: skip
        blocks = scene.blocks
        bodies, joints = blocks.bodies, blocks.joints
        self.scene, self.record, self.contacts, self.blocks_of, self.own = scene, record, contacts, blocks_of, own
        first = bodies.first
        self.dofs = np.concatenate([np.arange(first[b], first[b + 1]) for b in blocks_of])
        self.n = len(self.dofs)
        self.place = np.full(first[-1], -1)
        self.place[self.dofs] = np.arange(self.n)
        self.M, inverse = np.zeros((self.n, self.n)), np.zeros((self.n, self.n))
        for b in blocks_of:
            w, at = int(first[b + 1] - first[b]), int(bodies.at[b])
            i = self.place[first[b]]
            self.M[i : i + w, i : i + w] = record.mass[at : at + w * w].reshape(w, w)
            inverse[i : i + w, i : i + w] = record.inverse[at : at + w * w].reshape(w, w)
        self.J = along(contacts, own, self.place, self.n)
        self.Y = self.J @ inverse
        squares = np.einsum("mij,mij->mi", self.Y, self.J)
        self.mobilities = squares + PROXIMAL * squares.max(axis=1, initial=0.0)[:, None] + SQUARE_FLOOR
        self.mobility = self.mobilities.sum(axis=1) / 3.0
        self.joints = np.flatnonzero(np.isin(joints.blocks, blocks_of))
        self.joint_dofs = self.place[joints.dofs[self.joints]]
        self.joint_mobility = inverse[self.joint_dofs, self.joint_dofs]
        self.distance, self.smoothing, self.sizes = np.inf, smoothing, np.diff(first)[blocks_of]
        self.varied = self._varied(parameters)
        self.width = self.varied.mass.shape[1]

    def _varied(self, parameters: Sequence[str]) -> Varied:
        found, blocks, m, n = self.record.contacts, self.scene.blocks, len(self.own), self.n
        colliders = found.colliders[self.own]
        touching = np.unique(colliders)
        bodies = self.blocks_of[self.blocks_of < len(blocks.mass)]
        every = {"friction": touching, "restitution": touching, "mass": blocks.links[bodies]}
        names = {name: every[name] for name in PARAMETERS if name in parameters}
        width = 3 * n + sum(map(len, names.values()))
        out = Varied(names, np.zeros((m, width)), np.zeros((m, width)), np.zeros((n, width)))
        at, own = 3 * n, self.scene.detector.arrays.material
        for name, which in names.items():
            if name == "mass":
                for k, b in enumerate(bodies):
                    first = blocks.bodies.first[b]
                    out.mass[self.place[first : first + 6], at + k] = 1.0 / blocks.mass[b]
            else:  # of a contact it is the geometric mean
                to, mean, column = (out.friction, found.friction, 3) if name == "friction" else (
                    out.restitution, found.restitution, 4)  # fmt: skip
                for side in range(2):
                    given = own[colliders[:, side], column]
                    rate = np.where(given > 0.0, 0.5 * mean[self.own] / np.where(given > 0.0, given, 1.0), 0.0)
                    np.add.at(to, (np.arange(m), at + np.searchsorted(which, colliders[:, side])), rate)
            at += len(which)
        return out

    def response(self, problem: Problem) -> tuple[Response, Any, Array]:
        """Answers in the modes of a problem; these; and what held joints have of positions (k,)."""
        found, options, all_joints = self.record.contacts, self.scene.options, self.scene.blocks.joints
        rates, p, after = problem.rates[self.own], problem.impulses[self.own], problem.after[self.dofs]
        u = self.J @ after + np.where(np.isfinite(rates), rates, FAR)
        smoothing = self.smoothing
        modes = modes_of(found.friction[self.own], problem.floors[self.own], p, u, self.mobilities, smoothing)
        m, k, joints, at = len(self.own), len(self.joints), self.joints, self.joint_dofs
        limits, friction = problem.limits[joints], problem.joint_friction[joints]
        law, q = JointLaw(0, (limits[:, 0], limits[:, 1]), friction), self.record.q[all_joints.coordinates[joints]]
        distances = q - all_joints.lower[joints], all_joints.upper[joints] - q
        over_h, impulses = 1.0 / options.dt, problem.joint_impulses[joints]
        holds = holds_of(law, impulses, after[at], self.joint_mobility, distances, over_h, smoothing)
        part = np.broadcast_to(holds.held, k).astype(float)
        beside = (1.0 - part) * self.joint_mobility
        if holds.added is not None:  # held in part: 1 / D is what it adds to the inertia
            added = np.broadcast_to(holds.added, k)
            part = np.where(added > 0.0, 1.0, part)
            beside = np.where(added > 0.0, 1.0 / np.maximum(added, TINY), beside)
        units = np.zeros((k, self.n))
        units[np.arange(k), at] = part
        C, B = np.broadcast_to(modes.C, (m, 3, 3)), np.broadcast_to(modes.B, (m, 3, 3))
        D = _columns(modes.D, m).reshape(-1)
        rows = Rows(
            C,
            np.concatenate([(C @ self.J).reshape(-1, self.n), units]),
            np.concatenate([(np.swapaxes(B, 1, 2) @ self.J).reshape(-1, self.n), units]),
            np.concatenate([D, beside]),
            np.concatenate([self.mobilities.reshape(-1), self.joint_mobility]),
        )
        of_contacts, of_joints = (np.min(x.distance, initial=np.inf) for x in (modes, holds))
        self.distance = min(self.distance, float(of_contacts), float(of_joints))
        return Response(self.M, rows), modes, part * np.broadcast_to(holds.with_position, k)

    def velocities(self, changes: BlockChanges) -> Array:
        """Changes (n, w) of the velocities after the step with all that varies."""
        n, options, record, w = self.n, self.scene.options, self.record, self.width
        dv, v = np.zeros((n, w)), record.v[self.dofs]
        dv[:, n : 2 * n] = np.eye(n)
        floors, before = np.zeros((len(self.own), w)), dv
        for problem in record.problems[:-1]:
            after, p = problem.after[self.dofs], problem.impulses[self.own]
            lost = self.scene.inertia_changes(record, self.dofs.tolist(), self.blocks_of, after - v)
            momentum = self.M @ dv
            momentum[:, :n] -= lost
            measured = row_changes(self.contacts, self.own, self.place, after)
            new, x = self.answer(problem, momentum, measured, floors)
            parts = np.repeat(problem.parts[self.blocks_of], self.sizes)
            if problem.phase == COMPRESSION:
                floors = record.contacts.restitution[self.own][:, None] * x[2 : 3 * len(self.own) : 3]
                floors += p[:, 2:] * self.varied.restitution
                before = dv = new
                v = after
            else:
                dv = (1.0 - parts[:, None]) * before + parts[:, None] * new
                v = np.where(parts == 1.0, after, v + parts * (after - v))
                floors = np.zeros((len(self.own), w))
        problem, dt = record.problems[-1], options.dt
        self.measured = row_changes(self.contacts, self.own, self.place, problem.after[self.dofs])
        self.gaps = gap_changes(self.contacts, self.own, self.place, n)
        rates, smoothing = problem.rates[self.own, 2], self.smoothing
        closing = rates > 0.0
        if smoothing is not None:
            closing = part_beyond(NUMPY, -record.contacts.depths[self.own] / dt, smoothing)
        measured = self.measured.copy()
        measured[:, 2] += np.where(np.isfinite(rates), closing / dt, 0.0)[:, None] * self.gaps
        momentum = -changes.momentum_v @ dv - dt * record.tau[self.dofs][:, None] * self.varied.mass
        momentum[:, :n] -= changes.momentum_q
        momentum[:, 2 * n : 3 * n] += dt * np.eye(n)
        return self.answer(problem, momentum, measured, floors)[0]

    def answer(self, problem: Problem, momentum: Array, measured: Array, floors: Array) -> tuple[Array, Array]:
        """Changes of velocities (n, w) and of impulses ``x`` of a problem.

        They are from changes of momentum (n, w), of rows of contacts with positions (m, 3, n), and of the least normal
        impulses (m, w).
        """
        n, m, p = self.n, 3 * len(self.own), problem.impulses[self.own]
        response, modes, held = self.response(problem)
        momentum[:, :n] += force_changes(self.contacts, self.own, self.place, n, p)
        sliding = np.einsum("mtn,mt->mn", self.J[:, :2], _columns(modes.with_friction, len(self.own)))
        momentum += sliding.T @ self.varied.friction
        momentum -= np.einsum("mrn,mr->n", self.J, p)[:, None] * self.varied.mass
        rows = np.zeros((len(response.rows.D), self.width))
        rows[:m, :n] = -(response.rows.C @ measured).reshape(-1, n)
        rows[m + np.arange(len(held)), self.joint_dofs] = held
        rows[2:m:3] += np.broadcast_to(modes.with_floor, len(self.own))[:, None] * floors
        return response.solve(momentum, rows)

    def displacement(self, dv: Array) -> tuple[Array, bool]:
        """Changes (n, w) of the displacement, ``dv`` those of velocities; whether they are known."""
        n, record, options, found = self.n, self.record, self.scene.options, self.record.correction
        pushing = np.flatnonzero(found.pushes[self.own] > 0.0)
        limited = np.flatnonzero(found.joint_pushes[self.joints] != 0.0)
        if not len(pushing) + len(limited):
            return np.zeros_like(dv), True
        own, joints = self.own[pushing], self.joints[limited]
        s, of_joints = found.pushes[own], found.joint_pushes[joints]
        J = np.concatenate([self.J[pushing, 2], np.eye(n)[self.joint_dofs[limited]]])
        x = self._inverse_times(J.T @ np.concatenate([s, of_joints]))
        known = bool(np.abs(x - found.shift[self.dofs]).max() <= CUT * np.abs(x).max())
        after = record.problems[-1].after[self.dofs]
        impulses = np.zeros((len(own), 3))
        impulses[:, 2] = s
        momentum = -(self.M @ x)[:, None] * self.varied.mass
        momentum[:, :n] += force_changes(self.contacts, own, self.place, n, impulses)
        momentum[:, :n] -= self.scene.inertia_changes(record, self.dofs.tolist(), self.blocks_of, x)
        gap = -record.contacts.depths[own]
        left = 1.0 * (gap + options.dt * self.J[pushing, 2] @ after > 0.0)
        back = options.correction * (-gap - options.penetration > 0.0)
        rows = np.zeros((len(J), self.width))
        k = len(own)
        rows[:k] = -(left * options.dt)[:, None] * (self.J[pushing, 2] @ dv)
        rows[:k, :n] -= (back + left)[:, None] * self.gaps[pushing] + (left * options.dt)[:, None] * self.measured[
            pushing, 2
        ]
        rows[:k, :n] -= row_changes(self.contacts, own, self.place, x)[:, 2]
        rows[:k] -= (STEP.compliance * s)[:, None] * self.mobility_changes(pushing)
        all_joints = self.scene.blocks.joints
        at = self.joint_dofs[limited]
        q = record.q[all_joints.coordinates[joints]] + options.dt * after[at]
        apart = np.where(of_joints > 0.0, q - all_joints.lower[joints], all_joints.upper[joints] - q)
        factor = options.correction * (apart < -STEP.limit_tolerance) + (apart > 0.0)
        rows[k:] = -(factor * options.dt)[:, None] * dv[at]
        rows[k + np.arange(len(at)), at] -= factor
        rows[k:, :n] -= (STEP.compliance * of_joints)[:, None] * self.joint_mobility_changes(at)
        compliances = np.concatenate([found.compliances[own], found.joint_compliances[joints]])
        mobility = np.concatenate([self.mobility[pushing], self.joint_mobility[limited]])
        response = Response(self.M, Rows(None, J, J, compliances, mobility))
        return response.solve(momentum, rows)[0], known

    def _inverse_times(self, x: Array) -> Array:
        return np.asarray(np.linalg.solve(self.M, x), float)

    def mobility_changes(self, which: Indices) -> Array:
        """Changes (m, w) of mean mobilities of some contacts."""
        total = -np.einsum("mrn,mrn->mn", self.Y[which], self.J[which]) @ self.varied.mass
        for r in range(3):
            y = self.Y[which, r]
            total[:, : self.n] += 2.0 * row_changes(self.contacts, self.own[which], self.place, y)[:, r]
            total[:, : self.n] -= self._of_masses(y)
        return np.asarray(total / 3.0)

    def joint_mobility_changes(self, at: Indices) -> Array:
        """The same of joints."""
        return -self._of_masses(self._inverse_times(np.eye(self.n)[:, at]).T)

    def _of_masses(self, y: Array) -> Array:
        """``yᵀ ∂M y`` of each ``y`` (m, n)."""
        out = np.zeros_like(y)
        for k, x in enumerate(y):
            out[k] = x @ self.scene.inertia_changes(self.record, self.dofs.tolist(), self.blocks_of, x)
        return out

    def all(self, changes: list[BlockChanges]) -> tuple[IslandChanges, float, bool]:
        """Derivatives of the island; distance of the nearest other mode; whether they are known."""
        n, (asleep, sleeping) = self.n, self.record.asleep
        every = BlockChanges(
            *(_block_diagonal([getattr(c, name) for c in changes], n) for name in BlockChanges._fields)
        )
        dv = self.velocities(every)
        shift, known = self.displacement(dv)
        q, v = every.q_by_v @ dv + every.q_by_shift @ shift, every.v_by_v @ dv + every.v_by_shift @ shift
        q[:, :n] += every.q_by_q
        still = np.repeat(asleep[self.blocks_of] > 0, self.sizes)
        q[still] = 0.0
        q[still, np.flatnonzero(still)] = 1.0
        v[still | np.repeat(sleeping[self.blocks_of] > 0, self.sizes)] = 0.0
        both, given, at = np.vstack([q, v]), dict[str, tuple[Indices, Array]](), 3 * n
        for name, which in self.varied.names.items():
            given[name] = which, both[:, at : at + len(which)]
            at += len(which)
        changes_of = both[:, :n], both[:, n : 2 * n], both[:, 2 * n : 3 * n]
        return IslandChanges(self.dofs, *changes_of, given), self.distance, known


def _columns(entries: Sequence[Any], m: int) -> Array:
    """Array (m, k) of k columns, numbers among them."""
    return np.asarray(np.stack([np.broadcast_to(x, m) for x in entries], axis=-1))


def _block_diagonal(parts: Sequence[Array], n: int) -> Array:
    out, at = np.zeros((n, n)), 0
    for part in parts:
        w = len(part)
        out[at : at + w, at : at + w] = part
        at += w
    return out
