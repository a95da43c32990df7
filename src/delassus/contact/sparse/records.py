"""What compiled functions work on: arrays of a scene, of its state, of row groups, and memory."""

from __future__ import annotations

from typing import NamedTuple

from delassus.contact.collision.colliders import Colliders, CollisionMemory, ContactArrays
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.factor import MAX_PARTS, BlockGraph
from delassus.spatial.rotations import Array


class Links(NamedTuple):
    """Links of a scene.

    Of each link its parent (−1: the world), its place among the links of the blocks, its block, and its first degree of
    freedom in the scene; of each degree of freedom the axis of the body frame that it moves along, and its place among
    those of the blocks. ``coordinates`` says where those of each block begin in ``q``.
    """

    parents: Indices
    slot: Indices
    block: Indices
    first_dof: Indices
    axes: Indices
    place: Indices
    coordinates: Indices


class Bodies(NamedTuple):
    """Blocks of masses. Block *i* has the degrees of freedom ``first[i]`` to ``first[i + 1]``.

    ``turns`` says of each whether it is a rotation, ``usual`` what its inertia may be at most. The mass matrix of a
    block begins at ``at[i]`` in ``mass``. There in ``M`` is the mass matrix that contacts see, to which loops have
    added theirs, and in ``L`` the Cholesky factor of that without loops, by columns, with the reciprocals of its
    diagonal; in ``inverse`` is the inverse of that of blocks without loops. The first blocks are free bodies. Block *i*
    has ``loop_rows[i]`` rows of loops, which begin at ``loops_at[i]`` in ``Q``: Jacobians, then orthonormal rows; see
    `close_loops`. ``alone[i]`` is where coordinates begin in ``q`` of a body on its own (`Tree.is_free_body`), damped
    or not, else −1.
    """

    first: Indices
    turns: Indices
    usual: Array
    at: Indices
    mass: Array
    M: Array
    L: Array
    inverse: Array
    loop_rows: Indices
    loops_at: Indices
    Q: Array
    alone: Indices


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


class RowLaws(NamedTuple):
    """Laws of row groups: velocities without motion, friction, and what each sees alone.

    Of joints ``d[i]`` begins with the limits of velocities. ``W[i]`` is the group's own block of ``J M⁻¹ Jᵀ``, ``w[i]``
    the mean of its diagonal, ``R[i]`` a compliance, and ``prepared`` what `point_of` takes. Residuals count times
    ``unit[i]``, a length of hinges. Part of ``d`` is ``turning``; see `delassus.contact.sparse.turning`.
    ``partner`` is that of patches and spins, ``patch`` memory of the former.
    """

    W: Array
    prepared: Array
    d: Array
    turning: Array
    mu: Array
    friction_offset: Array
    w: Array
    R: Array
    unit: Array
    partner: Indices
    patch: Array


class RowMemory(NamedTuple):
    """Memory of solvers for row groups: derivatives ``D`` and steps ``q`` of Newton's method, iterates of sweeps."""

    D: Array
    q: Array
    trial: Array
    g: Array
    F: Array


class RowGroups(NamedTuple):
    """Groups of rows.

    There is one for each contact, for each joint with limits or friction, and behind these one for each contact with
    torsional or rolling friction. Group *i* has the ``kind[i]`` of `cone`, is on blocks ``a[i]`` and ``b[i]`` (−1:
    none) with Jacobians that begin at ``at_a[i]`` and ``at_b[i]`` in ``J``, row by row. ``Y = J M⁻¹`` is laid out as
    ``J`` is. Of its impulse ``r[i]``, ``guess[i]`` is where the next solution starts, and ``wrong[i]`` the residual
    (m/s).
    """

    kind: Indices
    a: Indices
    b: Indices
    at_a: Indices
    at_b: Indices
    J: Array
    Y: Array
    law: RowLaws
    r: Array
    guess: Array
    wrong: Array
    memory: RowMemory


class Islands(NamedTuple):
    """See `find_islands`; ``contact`` is that of each row group, or −1.

    Of each island, ``lost`` is the energy (J) lost in compression, ``report`` the residual (m/s) and the numbers of
    sweeps and of factorisations, ``wanted`` the displacement (m, rad) that takes back errors of loops.
    """

    root: Indices
    nodes: Indices
    node_ends: Indices
    members: Indices
    member_ends: Indices
    island: Indices
    contact: Indices
    lost: Array
    report: Array
    wanted: Array


class Work(NamedTuple):
    """Memory for one island at a time; ``part`` of it is an island of its own."""

    graph: BlockGraph
    part: Islands
    V: Array
    K: Array
    p: Array
    x: Array
    trial: Array
    start_part: Array
    direction: Array
    best: Array
    best_r: Array


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


class StepOptions(NamedTuple):
    """Options of `Simulator`; ``touching`` is the gap up to which contacts are closed; ``sleep`` 0 is none.

    ``speed`` (m/s) is what residuals are small against, of islands `SPEED` times the tolerance.
    ``asks`` is the address of what makes impulses in place of islands (0: none), ``max_parts`` the most parts to try.
    """

    dt: float
    resting: float
    penetration: float
    correction: float
    tolerance: float
    sleep: float
    max_iterations: int
    touching: float = 0.0
    asks: int = 0
    max_parts: int = MAX_PARTS
    speed: float = 1.0


class Stretches(NamedTuple):
    """How far springs are stretched.

    Of those along a line between two points, ``row[s]`` is where their ratios, which change, begin in ``Q`` (−1 of
    others), and ``error[s]`` the place of the stretch in `LoopState.errors`. Of those of joints in loops,
    ``coordinate[s]`` is that of the position in ``q`` (−1 of others), and ``rest[s]`` the position without force.
    """

    row: Indices
    error: Indices
    coordinate: Indices
    rest: Array


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
