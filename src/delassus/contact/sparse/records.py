"""What compiled functions work on: arrays of a scene and of its state, and memory."""

from __future__ import annotations

from typing import NamedTuple

from delassus.contact.collision.colliders import Colliders, CollisionMemory, ContactArrays
from delassus.contact.snapshot import Indices
from delassus.solvers.islands.records import Bodies, Islands, RowGroups, Work
from delassus.spatial.rotations import Array


class Links(NamedTuple):
    """Links of a scene.

    Of each link its parent (−1: the world), its place among the links of the blocks, its block, and its first degree of
    freedom in the scene; of each degree of freedom the axis of the body frame that it moves along, the pitch of a screw
    about it (m/rad), and its place among those of the blocks. ``coordinates`` says where those of each block begin in
    ``q``.
    """

    parents: Indices
    slot: Indices
    block: Indices
    first_dof: Indices
    axes: Indices
    pitches: Array
    place: Indices
    coordinates: Indices


class LoopState(NamedTuple):
    """Of loops ``errors``, and ``gaps``: the same along their orthonormal rows; see `delassus.contact.sparse.loops`.

    ``mobilities`` are those of their rows where none is badly placed (`mobility_bound`). Of blocks with loops ``moved``
    and ``reached`` are the displacement and the velocity of the smooth motion.
    """

    errors: Array
    gaps: Array
    mobilities: Array
    moved: Array
    reached: Array


class NextState(NamedTuple):
    """State at the end of the step; and ``gains`` (2, n), what velocities of robots gain in it without contacts.

    By velocity products of the start, then of a first mean velocity.
    """

    q: Array
    v: Array
    gains: Array


NOT_STRUCK = -1.0
"""Time (s) of the last impact of a block that none has struck in this step."""


class Bounces(NamedTuple):
    """Impacts within a step, each of which has one time for all blocks that it strikes.

    Of blocks: ``falls`` is 1 where nothing holds them, so that they accelerate as without contacts; ``times`` (s) when
    this impact is, infinite where it does not strike, and ``last`` when the one before was, of the block ``source``, or
    `NOT_STRUCK`; ``first`` the contact whose gap says so, or −1 − the block whose impact before does. Of degrees of
    freedom: ``kick`` is what velocities at the time of the impact have more than ``v``, ``late`` how far bodies are
    displaced by impacts that are not at the start. ``placed`` are those that this impact moves to where they are then,
    ``base`` (s) when, ``spans`` (s) times by which blocks are moved, ``lead`` what velocities after it had more than
    ``v``; ``early`` ones are struck at the start. See `delassus.contact.sparse.hits`.
    """

    falls: Array
    times: Array
    last: Array
    first: Indices
    source: Indices
    placed: Indices
    early: Indices
    base: Array
    kick: Array
    late: Array
    spans: Array
    lead: Array


class BlockStates(NamedTuple):
    """State of all blocks, in their order.

    ``pivots`` are the least ones of mass matrices over usual inertias, ``target`` is the velocity at the end of the
    step without contacts, ``after`` that with them, ``shift`` a displacement.
    """

    q: Array
    v: Array
    tau: Array
    poses: Array
    twists: Array
    qdd: Array
    pivots: Array
    target: Array
    after: Array
    shift: Array
    loops: LoopState
    next: NextState


class LoopMotion(NamedTuple):
    """Calls for the motion of blocks with loops, and what they write; a row for each of these blocks.

    ``calls`` are those of `smooth_motion`, of `constraint_errors` after the step, and of `energies` before and after
    it, as in `SceneModel`. ``flags`` are those of `smooth_motion`, ``pushed`` whether impulses acted. ``errors``,
    ``rates`` and ``energies`` (J, kinetic and potential) are of one block at a time. Smooth motion begins
    with the velocity ``start`` (nv), under joint ``forces`` (nv): those of now, or with what springs do to them.
    """

    calls: Indices
    pushed: Indices
    flags: Array
    errors: Array
    rates: Array
    energies: Array
    start: Array
    forces: Array


class Joints(NamedTuple):
    """Joints with limits or friction: degree of freedom, its coordinate and block, limits (or infinite), and force.

    Degrees of freedom and coordinates are those of the blocks. ``impulses`` (2, nv) are those of limits and of friction
    over a step, ``before`` those of the step before.
    """

    dofs: Indices
    coordinates: Indices
    blocks: Indices
    lower: Array
    upper: Array
    forces: Array
    impulses: Array
    before: Array


class ContactsBefore(NamedTuple):
    """Contacts of the step before, ``number[0]`` of them, and their sustained impulses.

    ``used`` says which of them a contact of this step has taken, ``angular`` are angular impulses in the world.
    """

    number: Indices
    colliders: Indices
    points: Array
    frames: Array
    impulses: Array
    used: Indices
    angular: Array


class Contacts(NamedTuple):
    """Contacts of a step, ``row`` the row group of each, or −1, and their impulses, of all phases and ``sustained``.

    ``start`` is where solvers start, ``turning`` what `turn_contacts` finds, from which contacts of pairs ``later``.
    ``angular`` (3, n, 3) are angular impulses (N m s) about the same axes, as `delassus.contact.sparse.spins` has them,
    (3, 0, 3) in scenes that have none. Of near pairs, ``groups`` and ``entries`` say where their row groups begin and
    end, and where the Jacobians of these do.
    """

    found: ContactArrays
    row: Indices
    impulses: Array
    sustained: Array
    start: Array
    turning: Array
    later: Indices
    groups: Indices
    entries: Indices
    before: ContactsBefore
    angular: Array


class Sleep(NamedTuple):
    """Sleep of blocks: the island that each sleeps in (0: none, it is awake), and how long it has been at rest (s)."""

    island: Indices
    time: Array


class Stretches(NamedTuple):
    """How far springs are stretched.

    Of those along a line between two points, ``row[s]`` is where their ratios, which change, begin in ``Q`` (−1 of
    others), and ``error[s]`` the place of the stretch in `LoopState.errors`. Of those of joints in loops,
    ``coordinate[s]`` is that of the position in ``q`` (−1 of others), and ``rest[s]`` the position without force.
    ``beyond[s]`` are stiffness and damping of one with limits where these push back, else zero.
    """

    row: Indices
    error: Indices
    coordinate: Indices
    rest: Array
    beyond: Array


class SpringMemory(NamedTuple):
    """Of a step ``stiff`` blocks, those that springs act on, and what momenta gain without impulses, then velocities.

    In blocks with loops, ``push`` is what springs add to momenta in steps with impulses, and ``pull`` in those without.
    """

    stiff: Indices
    push: Array
    pull: Array


class SpringTable(NamedTuple):
    """Springs and dampers of blocks, see `delassus.contact.sparse.springs`.

    Spring *s* of ``block[s]`` acts on the degrees of freedom ``dofs[first[s]:first[s + 1]]`` with as many ``ratios``,
    which are zero where forces are cut off, with its ``stiffness`` and ``damping`` (of what is stretched by 1 in ratios
    of 1); ``size`` is the mobility along it, of usual inertias, and ``of_controls`` says whether controls make it.
    """

    first: Indices
    dofs: Indices
    ratios: Array
    block: Indices
    size: Array
    stiffness: Array
    damping: Array
    of_controls: Indices
    at: Stretches
    memory: SpringMemory


class SceneModel(NamedTuple):
    """Constant data: links, calls of kernels, loops of blocks, gravity, colliders.

    Calls are three numbers: where the address of what runs a kernel is, the number of blocks, and the address of those
    of its arrays. Each kind of blocks has one of `joint_space_motion` and of `position_update`, free bodies of this.
    ``motions`` end with the call of `bias_force_change`, zero of what has no velocity products, or loops.
    ``size`` is the largest distance (m) of a point of a collider from the origin of its link, ``margin`` that of
    `find_contacts`, ``length`` (m) what turns and slides of joints compare by. ``springs`` change with controls.
    """

    links: Links
    motions: Indices
    updates: Indices
    free: Indices
    loops: Indices
    loop_motion: LoopMotion
    gravity: Array
    colliders: Colliders
    size: float
    margin: float
    length: float
    springs: SpringTable


class LinkMotion(NamedTuple):
    """Links in the order of the scene: poses, how far each may move until its next step (m), twists.

    These are in the axes of the world, of the step that is expected, then of that which is found. ``overlaps`` are
    the deepest (m) at the start of the step, ``hits`` the times of the first. ``ahead`` are poses where the velocities
    of the start lead to. ``tunnelling`` are blocks that impulses drive into others.
    """

    poses: Array
    reach: Array
    twists: Array
    overlaps: Array
    hits: Array
    ahead: Array
    tunnelling: Indices


ATTEMPT, FOUND, CONTACTS, ROWS, BOUNCES, IMPACTS, SPINS, STATUS = range(8)
"""Places in `Progress.step`: how often the step has been made again, how many contacts are found, how many row groups
are those of contacts, how many there are, whether one bounces, how many impacts there were, how many row groups there
are with those of spins, and how the last problem ended that was asked for."""


COMPRESSION, DECOMPRESSION, STEP_FORWARD = range(3)
"""Phases of a step, a problem each: of an impact the two, then the impulses of the step."""


class ImpactTape(NamedTuple):
    """`Bounces` of each problem of a step."""

    kicks: Array
    times: Array
    falls: Array
    firsts: Indices
    placed: Indices
    leads: Array


class HitTape(NamedTuple):
    """Of each impact the state before it of blocks that it has placed, what ``kick`` they had, and contacts before."""

    q: Array
    v: Array
    kick: Array
    points: Array
    frames: Array
    depths: Array
    surface_velocities: Array


class Tape(NamedTuple):
    """What a step has solved: ``number[0]`` problems in their order, for its derivatives.

    Problem *k* was of ``phases[k]`` (`COMPRESSION` and those after it) and has the row groups ``ends[k]`` to
    ``ends[k + 1]``: of contact ``groups[i]``, or of joint ``−1 − groups[i]``, with what moves without motion, the
    impulse, the friction without pressure and the impulse of its spin in ``numbers[i]`` (3, 3, 1, 3). It ended at the
    velocities ``after[k]``, of which each block took the part ``parts[k]``; the impact of compression is in
    ``impacts``. ``q`` and ``asleep`` are from before the step.
    """

    number: Indices
    phases: Indices
    ends: Indices
    groups: Indices
    numbers: Array
    after: Array
    parts: Array
    impacts: ImpactTape
    hit: HitTape
    q: Array
    asleep: Indices


class Progress(NamedTuple):
    """How far a step is, and how it went; velocities at its ``start``, and those after the compression of an impact.

    Of the step, ``statuses`` counts how its problems ended, ``report`` has the largest residual and the numbers of
    sweeps and of factorisations; ``totals`` counts over all steps.
    """

    step: Indices
    statuses: Indices
    totals: Indices
    report: Array
    start: Array
    squeezed: Array
    tape: Tape
    bounces: Bounces


class Data(NamedTuple):
    """What steps change: state, row groups, contacts, and the memory that they are computed in.

    ``space`` and ``work`` are of one thread; ``team`` are those that share a step, see `parts`.
    """

    bodies: Bodies
    state: BlockStates
    rows: RowGroups
    contacts: Contacts
    joints: Joints
    islands: Islands
    sleep: Sleep
    links: LinkMotion
    space: CollisionMemory
    work: Work
    progress: Progress
    team: Indices
