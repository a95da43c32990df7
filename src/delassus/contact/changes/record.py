"""What derivatives of a step need of it, apart from the simulator that has made it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from delassus.contact.collision.colliders import ContactArrays
from delassus.contact.contacts import scales_of
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.records import COMPRESSION, CONTACTS, DECOMPRESSION, ROWS
from delassus.contact.sparse.stepper import BlockSteps
from delassus.contact.sparse.turning import NONE
from delassus.solvers.results import SolverStatus
from delassus.spatial.rotations import Array


class RecordedImpact(NamedTuple):
    """Blocks that an impact of a step has ``placed``, and its ``times`` (s) of these.

    The state before it where they are placed; ``kick`` (n,) is what velocities have had more than ``v`` there, ``lead``
    (n,) what those after it have more than half a step before. ``found`` are contacts before.
    """

    placed: Array
    times: Array
    q: Array
    v: Array
    kick: Array
    lead: Array
    found: ContactArrays


class ImpactRecord(NamedTuple):
    """When an impact of a step is: `delassus.contact.sparse.records.Bounces` of it, ``first`` among the contacts (m).

    ``kick`` (n,), the others of blocks; ``hit`` is None where it places none.
    """

    kick: Array
    times: Array
    falls: Array
    first: Indices
    hit: RecordedImpact | None


class ProblemRecord(NamedTuple):
    """A problem of a step: of contacts (m) and joints (k) what moves without motion, impulses, and free friction.

    Rows of contacts are those of `delassus.contact.changes.contacts.along`, and these are (m, 3) or (m, 6).
    ``phase`` is one of `COMPRESSION` and those after it; contacts that take no part have the rate infinity. ``impact``
    is that of compression and decompression, None of the step.
    """

    phase: int
    rates: Array
    impulses: Array
    floors: Array
    limits: Array
    joint_impulses: Array
    joint_friction: Array
    after: Array
    parts: Array
    impact: ImpactRecord | None


class Smooth(NamedTuple):
    """Smooth motion of blocks with loops: displacements and velocities at its end, of all degrees of freedom.

    Of each of these blocks whether impulses act on it, and whether its loops were closed; position errors of loops, and
    mobilities of their rows where none is badly placed.
    """

    moved: Array
    reached: Array
    pushed: Indices
    closed: Array
    errors: Array
    mobilities: Array


class CorrectionRecord(NamedTuple):
    """The position correction: of contacts (m) and joints (k) pushes, and compliances, zero where there is none.

    ``shift`` is the displacement of all degrees of freedom beside that by velocities, with the one that ``smooth``
    motion has, and with ``late``, that by impacts that are not at the start.
    """

    pushes: Array
    compliances: Array
    joint_pushes: Array
    joint_compliances: Array
    shift: Array
    late: Array
    smooth: Smooth


class TurningRecord(NamedTuple):
    """Offsets ``κ`` of contacts that turn (m, 3): as ``found``, and as the last problem has ``taken`` them.

    ``later`` (m,) are numbers of contacts at the end of the path, see `delassus.contact.sparse.turning`; ``ahead`` are
    poses of links where the velocities of the start lead.
    """

    found: Array
    taken: Array
    later: Indices
    ahead: Array


class SearchRecord(NamedTuple):
    """How contacts were found: near pairs of colliders that have some, reach of links (m), poses of colliders.

    And centres of balls that hold these. ``followed`` says of each pair whether its contacts are those of its path, see
    `delassus.contact.collision.paths`; ``overlaps`` are those of links at the start; ``turning`` is None where no
    contact turns.
    """

    pairs: Indices
    reach: Array
    world: Array
    centres: Array
    followed: Array
    overlaps: Array
    turning: TurningRecord | None


class Masses(NamedTuple):
    """Masses that contacts see in the step, with those of springs, and inverses; what springs were."""

    mass: Array
    inverse: Array
    ratios: Array
    stiffness: Array
    damping: Array


class StepRecord(NamedTuple):
    """A step: state, joint forces and masses before it, its contacts, problems and position correction.

    ``gains`` (2, n) are those of `delassus.contact.sparse.records.NextState`. Masses and contacts are those of the end.
    All in the order of the blocks (`delassus.contact.sparse.blocks.Blocks`).
    """

    q: Array
    v: Array
    tau: Array
    asleep: tuple[Indices, Indices]
    poses: Array
    masses: Masses
    contacts: ContactArrays
    search: SearchRecord
    problems: list[ProblemRecord]
    correction: CorrectionRecord
    status: SolverStatus
    gains: Array

    @property
    def hits(self) -> list[RecordedImpact | None]:
        """Of each impact, None where it places no blocks."""
        return [x.impact.hit if x.impact is not None else None for x in self.problems[:-1:2]]


def record_of(steps: BlockSteps) -> StepRecord | None:
    """The last step, None before there is one."""
    data, tape = steps.data, steps.data.progress.tape
    m, total = int(data.progress.step[CONTACTS]), int(data.progress.step[ROWS])
    n, k = int(tape.number[0]), len(data.joints.dofs)
    if n == 0:
        return None
    ends = tape.ends[: n + 1]
    groups = tape.groups[: ends[-1]]
    used = np.unique(groups[groups >= 0])
    place = np.zeros(used[-1] + 1 if len(used) else 0, np.int64)
    place[used] = np.arange(len(used))
    found = ContactArrays(*[x[used] for x in list[Any](data.contacts.found)])
    problems, given, r = list[ProblemRecord](), np.zeros(len(used)), scales_of(found).shape[1]
    for index in range(n):
        own, numbers = groups[ends[index] : ends[index + 1]], tape.numbers[ends[index] : ends[index + 1]]
        of_contacts = own >= 0
        at, on = place[own[of_contacts]], numbers[of_contacts]
        rates, impulses = np.full((len(used), r), np.inf), np.zeros((len(used), r))
        rates[at, :3], rates[at, 3:], impulses[at, :3], impulses[at, 3:] = on[:, :3], 0.0, on[:, 3:6], on[:, 7 : r + 4]
        phase, floors, impact = int(tape.phases[index]), np.zeros(len(used)), None
        if phase in (COMPRESSION, DECOMPRESSION):
            first = np.array([place[e] if e >= 0 else e for e in tape.impacts.firsts[index]], np.int64)
            kicks, times, falls = (x[index].copy() for x in tape.impacts[:3])
            impact = ImpactRecord(kicks, times, falls, first, _hit(steps, used, index // 2))
        if phase == COMPRESSION:
            given = data.contacts.found.restitution[used] * impulses[:, 2]
        elif phase == DECOMPRESSION:
            floors = given
            impulses[:, 2] += given
        others = numbers[~of_contacts]
        parts = tape.after[index].copy(), tape.parts[index].copy(), impact
        problems.append(
            ProblemRecord(phase, rates, impulses, floors, others[:, :2], others[:, 5], others[:, 6], *parts)
        )
    pushes, compliances = np.zeros(len(used)), np.zeros(len(used))
    at, rows = place[data.islands.contact[:m]], data.rows
    corrected = rows.law.R[:total] > 0.0
    pushes[at], compliances[at] = np.where(corrected, rows.r[:total, 2], 0.0)[:m], rows.law.R[:m]
    on_joints = np.where(corrected, rows.r[:total, 2], 0.0)[m:]
    counts = np.diff(data.space.ends[: int(data.space.counts[0]) + 1])
    touching = np.flatnonzero(np.isin(np.arange(len(counts)), np.repeat(np.arange(len(counts)), counts)[used]))
    later, turning = data.contacts.later[used], None
    if (later != NONE).any():
        taken = np.zeros((len(used), 3))
        taken[at] = rows.law.turning[:m]
        turning = TurningRecord(data.contacts.turning[used], taken, later, data.links.ahead.copy())
    state, bodies, asleep = data.state, data.bodies, (tape.asleep.copy(), data.sleep.island.copy())
    assert len(on_joints) == k
    space, springs = data.space, steps.blocks.springs
    search = SearchRecord(
        space.pairs[touching], data.links.reach.copy(), space.world.copy(), space.centres.copy(),
        space.paths[touching, 0].copy(), data.links.overlaps.copy(), turning,
    )  # fmt: skip
    loops, motion = state.loops, steps.model.loop_motion
    closed, errors = motion.flags[:, 0].copy(), loops.errors.copy()
    moved = loops.moved.copy(), loops.reached.copy(), motion.pushed.copy()
    late = data.progress.bounces.late.copy()
    smooth = Smooth(*moved, closed, errors, loops.mobilities.copy())
    correction = CorrectionRecord(
        pushes, compliances, on_joints, rows.law.R[m:total].copy(), state.shift.copy(), late, smooth
    )
    mass = bodies.mass.copy()
    for b in steps.blocks.moved:
        mass[36 * b : 36 * b + 36] = bodies.M[36 * b : 36 * b + 36]
    masses = mass, bodies.inverse, springs.ratios, springs.stiffness, springs.damping
    return StepRecord(
        tape.q.copy(), data.progress.start.copy(), state.tau.copy(), asleep, data.links.poses.copy(),
        Masses(*(x.copy() for x in masses)), found, search, problems, correction, steps.status,
        state.next.gains.copy(),
    )  # fmt: skip


def _hit(steps: BlockSteps, used: Indices, index: int) -> RecordedImpact | None:
    """That of an impact of the last step, with contacts that are ``used``."""
    tape, (*found,) = steps.data.progress.tape, list[Any](steps.data.contacts.found)
    hit, placed = tape.hit, tape.impacts.placed[2 * index] == 1
    if not placed.any():
        return None
    for name in ("points", "frames", "depths", "surface_velocities"):
        found[ContactArrays._fields.index(name)] = getattr(hit, name)[index]
    times, lead = np.where(placed, tape.impacts.times[2 * index], 0.0), tape.impacts.leads[2 * index + 2].copy()
    state = hit.q[index].copy(), hit.v[index].copy(), hit.kick[index].copy()
    return RecordedImpact(placed, times, *state, lead, ContactArrays(*[x[used] for x in found]))


def acting(record: StepRecord) -> Any:
    """Whether a contact has an impulse after impacts or is pushed apart (m,)."""
    return (record.correction.pushes > 0.0) | record.problems[-1].impulses.any(axis=1)
