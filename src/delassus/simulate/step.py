"""Time steps by the formulations of [OS]: impact, contact, position correction.

1. *Impact* ([OS] section 7), where a contact with restitution closes faster than gravity would close it in two steps:
   a compression phase that stops all approach, and a decompression phase that returns ``ε`` of each normal impulse.
2. *Contact* ([OS] sections 3 to 6, 8): smooth forces and contact impulses over the step, without restitution. Gaps
   ``φ`` that may close in the step are contacts as well, ``u_n + φ / dt ≥ 0``: nothing passes into another body first.
3. *Drift*: what bodies overlap beyond a tolerance, loops gape, and joints are beyond their limits is taken back by a
   displacement of its own, without friction and without any change of velocity, so that it brings no kinetic energy.

Limits of joints take part where the motion without impulses comes near them. Where the step ends beyond others, as
impulses may drive joints there, it is made again with these, so that no limit is passed.

`delassus.contact.formulations.formulation` says where this parts from [OS].
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from delassus.algorithms.contact.step import TUNING as STEP
from delassus.constraints import row_slices
from delassus.contact.collision import CollisionDetector
from delassus.contact.contacts import ContactSet
from delassus.contact.formulations import FORMULATIONS
from delassus.contact.formulations.problem import ContactProblem, ContactSolution, collide
from delassus.contact.joint_contacts import LIMIT_MARGIN, LIMIT_TOLERANCE, STEPS_AHEAD, JointContacts
from delassus.contact.results import SOLVED, SolverStatus, worst_of
from delassus.contact.scene import Scene
from delassus.contact.snapshot import ConstraintRows, ContactDynamics, Snapshot
from delassus.contact.solvers.mixed import eliminated
from delassus.contact.solvers.registry import LIMIT, ImpulseSolver
from delassus.contact.sparse.step import TUNING
from delassus.contact.sparse.stepper import SLEEP
from delassus.quantities.options import Passive
from delassus.runtime.compile import compile as compile_kernel
from delassus.runtime.sub_steps import OPEN
from delassus.spatial.rotations import Array

NO_IMPULSES = np.zeros((0, 3))

MAX_IMPACTS = 8
"""Most impacts of a step, one after the other, where one drives bodies into others."""


@dataclass(frozen=True, slots=True)
class StepOptions:
    """Options of a time step; `Simulator` says what they are."""

    formulation: str
    dt: float
    resting: float
    penetration: float
    correction: float
    sleep: float = 0.0
    max_iterations: int = LIMIT


class StepResult(NamedTuple):
    """Outcome of a time step.

    Attributes
    ----------
    v : (nv,) array
        Velocities at its end, free and planar joints in their axes of the start.
    position_correction : (nv,) array or None
        Displacement that takes back overlaps, loop errors and passed limits; None if there are none.
    impulses, sustained : (n, 3) arrays
        Of all phases, and of the contact phase alone: tangent, tangent, normal, on the first link (N s).
    on_joints : (2, nv) array
        Impulses of limits, and of friction, on joints, of all phases (N s, N m s).
    statuses : tuple of SolverStatus
        Of every problem that was solved.
    """

    v: Array
    position_correction: Array | None
    impulses: Array
    sustained: Array
    on_joints: Array
    statuses: tuple[SolverStatus, ...]


class FormulatedSteps:
    """Steps of a scene whose contact problems are those of a formulation, dense; see `BlockSteps` for what is here."""

    def __init__(
        self, scene: Scene, passive: Passive, limits: bool, options: StepOptions, solver: ImpulseSolver
    ) -> None:
        tree = scene.tree
        self._dynamics = ContactDynamics(scene, passive=passive, limits=limits)
        self._detector, self._options, self._solver = CollisionDetector(scene), options, solver
        self._position_update = compile_kernel(tree, (), "position_update")
        self._energies = compile_kernel(tree, (), "energies", passive=passive)
        self._h, self._no_shift = np.array(options.dt), np.zeros(tree.nv)
        self.set_warm_start(ContactSet.empty(), NO_IMPULSES, np.zeros((2, tree.nv)))
        self.status = SolverStatus.CONVERGED
        self.totals: Counter[SolverStatus] = Counter()

    def set_warm_start(
        self, contacts: ContactSet, sustained: Array, joint_impulses: Array, impulses: Array | None = None
    ) -> None:
        """Take contacts and impulses of a step before; solvers start from those that are ``sustained``."""
        self.contacts, self.sustained, self.joint_impulses = contacts, sustained, joint_impulses
        self.impulses = sustained if impulses is None else impulses

    def sleep_state(self) -> dict[str, Any]:
        """Nothing sleeps."""
        tree = self._dynamics.scene.tree
        sizes = {"links": tree.n_links, "nq": tree.nq, "nv": tree.nv}
        return {name: np.zeros(sizes[axis], kind) for name, (kind, axis) in ((k, x.split()) for k, x in SLEEP.items())}

    def set_sleep_state(self, *_: Array) -> None:
        """Nothing sleeps."""

    def inspect(self, q: Array, v: Array) -> tuple[ContactSet, list[Array], int | None]:
        """Contacts at a state, errors of each loop, and the first link that has no inertia along its joint."""
        snapshot = self._dynamics.at(q, v, np.zeros(v.size))
        bad = ~np.isfinite(snapshot.compliances).all(axis=(1, 2))
        errors = [snapshot.loop_errors[rows] for rows in row_slices(self._dynamics.scene.loops)]
        if bad.any():
            return ContactSet.empty(), errors, int(np.argmax(bad))
        return self._detector.contacts(snapshot.poses), errors, None

    def advance(self, q: Array, v: Array, tau: Array, steps: int) -> tuple[Array, Array]:
        """State (nq,), (nv,) after so many steps under joint forces (nv,)."""
        for _ in range(steps):
            q, v = self._advance(q, v, tau)
        return q, v

    def _advance(self, q: Array, v: Array, tau: Array) -> tuple[Array, Array]:
        snapshot, dt = self._dynamics.at(q, v, tau), self._options.dt
        found = self._detector.contacts(snapshot.poses, search_distance(snapshot, dt, self._detector.size))
        fall = dt * float(np.linalg.norm(snapshot.dynamics.scene.gravity))
        # bodies that fall together touch once something holds one of them
        margin = self._detector.tolerance + STEPS_AHEAD * dt * (fall + self._solver.tolerance)
        for contacts in (active_contacts(snapshot, found, dt, margin), found):
            same = np.array_equal(contacts.colliders, self.contacts.colliders)
            start = self.sustained.ravel() if same else None
            done = step(snapshot, contacts, self._solver, self._options, start, self.joint_impulses)
            # impulses may have closed others
            if (
                len(contacts) == len(found)
                or gaps_after(snapshot, found, done.v, dt).min() >= -self._options.penetration
            ):
                break
        following = np.empty_like(q), np.empty_like(v)
        shift = self._no_shift if done.position_correction is None else done.position_correction
        self._position_update(q, done.v, self._h, shift, out=following)
        self.contacts, self.impulses, self.sustained = contacts, done.impulses, done.sustained
        self.joint_impulses = done.on_joints
        statuses = [*done.statuses, *self._opened_loops(snapshot, *following)]
        self.status = worst_of(statuses)
        self.totals.update(statuses)
        return following

    def _opened_loops(self, before: Snapshot, q: Array, v: Array) -> list[SolverStatus]:
        """A status where loops gape after a step, and more so than before it."""
        if not self._dynamics.n_loops:
            return []
        after = self._dynamics.at(q, v, before.tau)
        gaps = [float(np.abs(s.loop_errors).max()) for s in (before, after)]
        return [] if gaps[1] <= max(gaps[0], OPEN) else [SolverStatus.LOOPS_OPEN]

    def energy(self, q: Array, v: Array) -> tuple[float, float]:
        """Kinetic and potential energy (J)."""
        kinetic, potential = self._energies(q, v)
        return float(kinetic), float(potential)


def search_distance(snapshot: Snapshot, dt: float, size: float) -> float:
    """Gap (m) that no two links can close in `STEPS_AHEAD` steps if they move as now; ``size`` (m) is that of links."""
    linear, angular = np.abs(snapshot.twists).reshape(-1, 2, 3).max(axis=(0, 2)).tolist()
    falls = dt * float(np.linalg.norm(snapshot.dynamics.scene.gravity))
    return 2.0 * STEPS_AHEAD * dt * float(np.sqrt(3.0) * (linear + size * angular) + falls)


def active_contacts(snapshot: Snapshot, contacts: ContactSet, dt: float, tolerance: float) -> ContactSet:
    """Contacts that are closed (gaps of at most ``tolerance``, m), and those that may close in the step."""
    gaps = -contacts.depths
    if not np.any(gaps > tolerance):
        return contacts
    left = gaps_after(snapshot, contacts, snapshot.v + dt * snapshot.qdd, STEPS_AHEAD * dt)
    return contacts.some((gaps <= tolerance) | (left < 0.0))


def gaps_after(snapshot: Snapshot, contacts: ContactSet, v: Array, time: float) -> Array:
    """Gaps of contacts (m) after some time (s) at velocities ``v`` (nv,), by the geometry of its start."""
    rows = snapshot.rows(contacts)
    return np.asarray(time * (rows.jacobian[rows.n_loops + 2 :: 3] @ v) - contacts.depths)


def step(
    snapshot: Snapshot,
    contacts: ContactSet,
    solver: ImpulseSolver,
    options: StepOptions,
    start: Array | None,
    joints_start: Array,
) -> StepResult:
    """Advance velocities by one step, from impulses of contacts (3 n,) and on joints (2, nv) where solvers start."""
    laws, dt = snapshot.dynamics.joints, options.dt
    distances = laws.distances(snapshot.q)
    moves = STEPS_AHEAD * dt * laws.steps(snapshot.v + dt * snapshot.qdd)
    active = distances + np.minimum(moves, 0.0) <= LIMIT_MARGIN
    while True:
        joints = laws.contacts(active, distances, dt)
        done = _advance(snapshot, contacts, joints, solver, options, start, joints_start)
        moved = laws.steps(dt * done.v if done.position_correction is None else dt * done.v + done.position_correction)
        passed = (distances + moved < -LIMIT_TOLERANCE) & ~active
        if not passed.any():
            return done
        active |= passed


def _advance(
    snapshot: Snapshot,
    contacts: ContactSet,
    joints: JointContacts,
    solver: ImpulseSolver,
    options: StepOptions,
    start: Array | None,
    joints_start: Array,
) -> StepResult:
    """The step with given limits."""
    n, k, dt = len(contacts), snapshot.dynamics.n_loops, options.dt
    m, nv = joints.dofs.size, snapshot.v.size
    formulation = FORMULATIONS[options.formulation]
    if not n and not k and not m and not formulation.has_hinges:
        return StepResult(snapshot.v + dt * snapshot.qdd, None, NO_IMPULSES, NO_IMPULSES, np.zeros((2, nv)), ())
    gaps = np.maximum(-contacts.depths, 0.0)
    fall = dt * float(np.linalg.norm(snapshot.dynamics.scene.gravity))
    closed = TUNING.closed_fraction * STEPS_AHEAD * dt * (fall + solver.tolerance)
    left = np.zeros((n, 3))
    left[:, 2] = -gaps / dt  # what is open may close
    rows = snapshot.rows(contacts, joints=joints, contact_velocities=left.ravel())
    model, normals = formulation(rows), rows.jacobian[k + 2 : k + 3 * n : 3]
    none = np.zeros(3 * (n + m)), np.zeros(n + m)
    statuses: list[SolverStatus] = []
    solutions: list[ContactSolution] = []

    on_contacts = np.zeros((n, 3))
    for _ in range(MAX_IMPACTS):
        approach = normals @ snapshot.v
        # what rests is closed, and leans on others
        hit = (gaps <= closed) | (gaps + dt * np.minimum(approach, 0.0) <= dt * solver.tolerance)
        if not np.any(hit & (approach < -options.resting) & (contacts.restitution > 0.0)):
            break
        of_impact = formulation(snapshot.rows(contacts.some(hit), joints=joints))
        n_hit = int(hit.sum()) + m
        none_hit = np.zeros(3 * n_hit), np.zeros(n_hit)
        phases = collide(ContactProblem(of_impact, snapshot, 0.0, solver.n_directions, *none_hit), solver)
        statuses += [phase.status for phase in phases]
        solutions.append(phases[-1])
        on_contacts[hit] += phases[-1].impulses
        # forces that depend on velocities are others now
        snapshot = snapshot.dynamics.at(snapshot.q, phases[-1].velocity, snapshot.tau)

    begin = np.concatenate([np.zeros(3 * n) if start is None else start, joints.start(joints_start)])
    found = ContactProblem(model, snapshot, dt, solver.n_directions, *none).solve(solver, start=begin)
    statuses.append(found.status)
    solutions.append(found)
    shift = position_correction(rows, dt * found.velocity, solver, options, statuses)
    on_contacts += found.impulses
    on_joints = sum((s.joint_impulses for s in solutions), np.zeros((2, nv)))
    return StepResult(found.velocity, shift, on_contacts, found.impulses, on_joints, tuple(statuses))


def position_correction(
    rows: ConstraintRows, moved: Array, solver: ImpulseSolver, options: StepOptions, statuses: list[SolverStatus]
) -> Array | None:
    """Displacement of joints that reduces overlaps and loop errors; None where there is nothing to do.

    ``moved`` (nv,) is that of the step before it: limits and gaps are those that it leaves, and none is passed on the
    way.

    Contacts yield a little: one that can hardly move along its normal, such as of two neighbouring links that the joint
    between them cannot part, would otherwise throw the robot about. No contact point moves by more than
    `most_displacement` times the largest displacement wanted, and no joint by more than
    `most_joint_displacement`. Where the problem cannot be solved there is no displacement, and the status
    is added to ``statuses``.
    """
    k, n, overlap = rows.n_loops, len(rows.contacts), rows.contacts.depths - options.penetration
    joints = rows.joints
    left = joints.distances + (joints.signs * moved[joints.dofs])[: joints.n_limits]
    gaps_left = rows.jacobian[k + 2 : k + 3 * n : 3] @ moved - rows.contacts.depths
    if not k and not np.any(overlap > 0.0) and not np.any(left < -LIMIT_TOLERANCE):
        return None
    m = k + 3 * (n + joints.n_limits)  # friction of joints does not hold a displacement
    G = rows.delassus[:m, :m]
    overlaps, passed = np.minimum(-overlap, 0.0), np.minimum(left, 0.0)
    wanted = options.correction * np.concatenate([rows.snapshot.loop_errors, overlaps, passed])
    farthest = STEP.most_displacement * float(np.abs(wanted).max())
    wanted[k : k + n] += np.maximum(gaps_left, 0.0)
    wanted[k + n :] += np.maximum(left, 0.0)
    kept = np.concatenate([np.arange(k), np.arange(k + 2, m, 3)])
    W = G[np.ix_(kept, kept)]
    normals = np.arange(k, kept.size)
    mobilities = np.maximum(G.diagonal()[k:].reshape(-1, 3).mean(axis=1), STEP.least_mobility)
    W[normals, normals] += STEP.compliance * mobilities
    if k:  # impulses of loops follow from those of contacts
        loops, _, _ = eliminated(W[:k, :k], np.column_stack([W[:k, k:], wanted[:k]]))
        of_normals, b = W[k:, k:] - W[k:, :k] @ loops[:, :-1], wanted[k:] - W[k:, :k] @ loops[:, -1]
        found = solver.frictionless(0.5 * (of_normals + of_normals.T), b)
        impulses = np.concatenate([-(loops[:, :-1] @ found.p + loops[:, -1]), found.p])
    else:
        found = solver.frictionless(W, wanted)
        impulses = found.p
    if found.status not in SOLVED:
        statuses.append(found.status)
        return None
    p = np.zeros(rows.n_rows)
    p[kept] = impulses
    most = float(np.abs(G @ p[:m]).max())
    shift = rows.response(p if most <= farthest else p * (farthest / most))
    turned = float(np.abs(shift).max())
    return shift if turned <= STEP.most_joint_displacement else shift * (STEP.most_joint_displacement / turned)
