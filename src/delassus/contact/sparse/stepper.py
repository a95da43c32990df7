"""`BlockSteps`: time steps of a scene by its blocks, with the memory that compiled functions work in."""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NoReturn, cast

import numpy as np

from delassus.compiler.jit.compile import Compiled, address_of
from delassus.contact.collision import CollisionDetector
from delassus.contact.collision.colliders import PairMemory
from delassus.contact.collision.narrow_phase import INVALID_POSE
from delassus.contact.contacts import ContactSet
from delassus.contact.filters import has_lengths
from delassus.contact.scene import Scene
from delassus.contact.snapshot import Indices
from delassus.contact.sparse.blocks import Blocks
from delassus.contact.sparse.energies import Energies, energies_of
from delassus.contact.sparse.impact import DONE, SINGULAR
from delassus.contact.sparse.parts import ADDRESS, HELPER, LEAST, PLACE, PLACES, SPAN, STEPS, THREADS, run_part
from delassus.contact.sparse.records import (
    STATUS,
    BlockStates,
    Bounces,
    Contacts,
    ContactsBefore,
    Data,
    HitTape,
    ImpactTape,
    LinkMotion,
    LoopMotion,
    LoopState,
    NextState,
    Progress,
    SceneModel,
    Sleep,
    Tape,
)
from delassus.contact.sparse.spins import SUSTAINED, TOTAL
from delassus.contact.sparse.springs import Pull
from delassus.contact.sparse.step import MAX_ATTEMPTS, NO_ANSWER, NO_FACTOR, NO_ROOM, NOT_FINITE, run
from delassus.errors import ConfigurationError
from delassus.model.topology import characteristic_length
from delassus.quantities.keywords import Passive
from delassus.runtime.helper import start
from delassus.runtime.kernel import Kernel
from delassus.runtime.threads import number_with_helpers
from delassus.solvers.islands.cone import SIZE, SPEED
from delassus.solvers.islands.factor import BlockGraph
from delassus.solvers.islands.records import Islands, RowGroups, RowLaws, RowMemory, StepOptions, Work
from delassus.solvers.results import STATUSES, SolverStatus, worst_of
from delassus.spatial.rotations import Array

ENOUGH_PAIRS = 256
"""Near pairs from which two threads share a step where their number is not given."""

ASK = ctypes.CFUNCTYPE(None, ctypes.c_int64)
"""How machine code asks for impulses of a phase."""

ImpulsesOf = Callable[[int, Blocks, Data, float], None]
"""From the phase of a step, its blocks, data and time; writes impulses ``r``, velocities ``after``, and `STATUS`."""

IMPULSES = "impulses", "sustained", "angular_impulses", "sustained_angular"
"""Names of what acts at contacts (n, 3) over a step (N s, N m s): in all phases, and without impacts."""

SLEEP = {"islands": "i8 links", "rested": "f8 links", "last_q": "f8 nq", "last_v": "f8 nv", "last_tau": "f8 nv"}
"""Arrays that say which bodies sleep: the island of each link's body (0: it is awake), and how long it has been at
rest (s); and the state and the joint forces that the last step left, for bodies wake where others are set."""


class BlockSteps:
    """Time steps of a scene, its bodies as blocks that contacts couple sparsely.

    Parameters
    ----------
    scene : Scene
    passive, limits, options, threads
        As in `Simulator`.
    impulses_of : callable, optional
        What makes impulses; compiled code by default.
    servos : sequence of Pull
        Springs that controls make; `set_servos` says how stiff they are.

    Attributes
    ----------
    report : (3,) array
        Of the last step: largest residual (m/s), and numbers of sweeps and of factorisations.
    """

    def __init__(
        self, scene: Scene, passive: Passive, limits: bool, options: StepOptions, impulses_of: ImpulsesOf | None = None,
        threads: int | None = None, servos: Sequence[Pull] = (),
    ) -> None:  # fmt: skip
        self.threads = threads
        self._threads, self._least = number_with_helpers(threads), ENOUGH_PAIRS if threads is None else 0
        self.blocks = blocks = Blocks(scene, passive, limits, options.dt, servos)
        self.detector = CollisionDetector(scene)
        self._sleeps = options.sleep > 0.0
        self._of_scene = np.argsort(blocks.coordinates), np.argsort(blocks.dofs)
        self._raised, asks = list[BaseException](), 0
        if impulses_of is not None:
            answers = self._answers(impulses_of)
            next(answers)
            self._ask = ASK(answers.send)  # kept
            asks = cast(int, ctypes.cast(self._ask, ctypes.c_void_p).value)
        self.options = options._replace(touching=self.detector.tolerance, asks=asks, speed=SPEED * options.tolerance)
        self._joints, tree = blocks.joints, scene.tree
        self._ratios = np.array([ratio for pull in servos for ratio in pull.ratios.values()])
        nv, n, rows = tree.nv, len(blocks.bodies.at), blocks.n_rows
        moving = (tree.nq, nv, nv, (tree.n_links, 3, 4), (tree.n_links, 6), nv, n - len(blocks.mass), nv, nv, nv)
        ends = LoopState(*_zeros(rows, rows, rows, nv, nv)), NextState(*_zeros(tree.nq, nv, (2, nv)))
        self.state = BlockStates(*[*_zeros(*moving), *ends])
        bounces = Bounces(*_zeros(n, n, n), *_indices(n, n, n, n), *_zeros(n, nv, nv, n, nv))
        bounces.early[(blocks.bodies.loop_rows > 0) | np.isin(np.arange(n), blocks.springs.block)] = 1
        self._dt, self._spans, bounces.spans[:] = np.full(1, options.dt), bounces.spans, options.dt
        self._correction = np.array([options.correction])
        motions, updates, free, loop_motion = self._calls(passive)
        self.model = SceneModel(
            blocks.of_links, motions, updates, free, blocks.loops, loop_motion, np.array(scene.gravity),
            self.detector.arrays, self.detector.size, self.detector.margin, characteristic_length(tree), blocks.springs,
        )  # fmt: skip
        self._sleep = Sleep(np.zeros(n, np.int64), np.zeros(n))
        poses = tree.n_links, 3, 4
        of_links = _zeros(poses, tree.n_links, (tree.n_links, 6), tree.n_links, tree.n_links, poses)
        self._links = LinkMotion(*of_links, *_indices(n))
        counts = _indices(8, len(STATUSES), len(STATUSES))
        self._progress = Progress(*[*counts, *_zeros(3, nv, nv), self._tape(0, 0), bounces])
        self.report = self._progress.report
        self._make_room(64, 64, 4096)
        self._contact_set: ContactSet | None = None
        self._impulses: dict[str, Array] | None = None
        self._passive = passive
        self.set_warm_start(ContactSet.empty(), np.zeros((2, nv)))

    def _calls(self, passive: Passive) -> tuple[Indices, Indices, Indices, LoopMotion]:
        """Calls of kernels, see `SceneModel`."""
        s, bodies, blocks, correction = self.state, self.blocks.bodies, self.blocks, self._correction
        self._kernels, self._arguments = dict[tuple[int, str], Kernel](), list[Indices]()
        widest, flags, energies = blocks.loops[:, 1].max(initial=0), np.zeros((len(blocks.loops), 2)), np.zeros(2)
        (errors, rates), (start, forces) = np.zeros((2, widest)), np.zeros((2, len(blocks.dofs)))
        motions, updates, free, loops = list[list[int]](), list[list[int]](), [0] * 3, list[list[int]]()
        b = link = q = rows = J = 0

        def call(what: str, n: int, *arrays: Array) -> list[int]:
            self._arguments.append(np.array([x.ctypes.data for x in arrays], np.int64))
            kernel = self._kernels.get((b, what)) or kind.compile(what, passive)
            self._kernels[b, what] = kernel
            return [kernel.code.place(n), n, self._arguments[-1].ctypes.data]

        for kind in blocks.kinds:
            k, tree, v, m = len(kind.links), kind.tree, int(bodies.first[b]), sum(c.size for c in kind.loops)
            state, after = (s.q[q:], s.v[v:], s.tau[v:]), (s.next.q[q:], s.next.v[v:])
            moves = s.q[q:], s.after[v:], self._spans[b:], s.shift[v:]
            if kind.is_free:
                free = call("position_update", k, *moves, blocks.inertias, *after)
            else:
                found = s.poses[link:], s.twists[link:], bodies.mass[int(bodies.at[b]) :], s.qdd[v:]
                of_loops = bodies.Q[J:], s.loops.errors[rows:], s.loops.mobilities[rows:]
                least = s.pivots[b - len(blocks.mass) :]
                motions.append(call("joint_space_motion", k, *state, *found, *of_loops, least))
                updates.append(call("position_update", k, *moves, *after))
                products = ("bias_force_change", k, s.q[q:], s.v[v:], s.shift[v:], s.next.v[v:])
                motions[-1] += call(*products) if kind.has_products else [0] * 3
            if m:
                reached, at_start = (s.loops.moved[v:], s.loops.reached[v:], flags[len(loops) :]), (s.q[q:], start[v:])
                loops.append(
                    call("smooth_motion", 1, *at_start, forces[v:], self._dt, correction, *reached)
                    + call("constraint_errors", 1, *after, errors, rates)
                    + call("smooth_energies", 1, *at_start, energies, energies[1:])
                    + call("smooth_energies", 1, *after, energies, energies[1:])
                )
            m += sum(c.size for c in kind.springs)
            b, link, q, rows, J = b + k, link + k * tree.n_links, q + k * tree.nq, rows + m, J + m * tree.nv
        calls = _table(loops, 12), np.zeros(len(loops), np.int64)
        loop_motion = LoopMotion(*calls, flags, errors, rates, energies, start, forces)
        return _table(motions, 6), _table(updates, 3), np.array(free, np.int64), loop_motion

    def _make_room(self, n: int, fill: int, entries: int) -> None:
        """Memory for so many contacts, and for a factor of that size."""
        blocks, sizes = len(self.blocks.bodies.at), np.diff(self.blocks.bodies.first)
        widest, nv = int(sizes.max(initial=0)), int(sizes.sum())
        joints, spins = len(self._joints.dofs), n if has_lengths(self.blocks.scene) else 0
        g, J = n + joints + spins, 6 * widest * (n + spins) + widest * joints
        of_laws = _zeros((g, 3, 3), (g, 12), (g, 3), (g, 3), g, g, g, g, g)
        law = RowLaws(*[*of_laws, *_indices(g), *_zeros((spins, SIZE))])
        memory = RowMemory(*_zeros((g, 9), *[(g, 3)] * 4))
        self.rows = RowGroups(*[*_indices(g, g, g, g, g), *_zeros(J, J), law, *_zeros((g, 3), g, g), memory])
        works = list[Work]()
        for _ in range(self._threads):
            part = Islands(*_indices(0, blocks, 2, g, 2, 0, 0), *_zeros(0, (0, 3), 0))
            tied = _indices(blocks**2, blocks, blocks, blocks + 1, fill, blocks**2, blocks, blocks, blocks, blocks)
            own = _zeros(max(entries, blocks), 3 * widest + 6, *[nv] * 6, (g, 3))
            works.append(Work(*[BlockGraph(*tied), part, *own]))
        self._progress = self._progress._replace(tape=self._tape(g, nv))
        of_islands = _zeros(blocks, (blocks, 3), blocks)
        islands = Islands(*_indices(blocks, blocks, blocks + 2, g, blocks + 2, blocks + 1, g), *of_islands)
        before = getattr(self, "_contacts", None)
        pairs = len(self.detector.space.pairs) + 1
        kept = ContactsBefore(
            *_indices(1, (n, 2)), *_zeros((n, 3), (n, 3, 3), (n, 3)), *_indices(n), *_zeros((spins, 3))
        )
        of_step = [*_indices(n), *_zeros((n, 3), (n, 3), (n, 3), (n, 3)), *_indices(n, pairs, pairs)]
        self._contacts = Contacts(*[self.detector.found, *of_step, kept, *_zeros((3, spins, 3))])
        if before is not None:
            for to, x in zip(self._contacts.before, before.before, strict=True):
                to[: len(x)] = x
        self.data = Data(
            self.blocks.bodies, self.state, self.rows, self._contacts, self._joints, islands, self._sleep, self._links,
            self.detector.space, works[0], self._progress, *_indices(PLACES + self._threads * PLACE // 8),
        )  # fmt: skip
        self._steps, self._asked = cast(Compiled, run).bound(STEPS, 0, 0, self.model, self.data, self.options), 0
        self._make_team(works)

    def _tape(self, groups: int, nv: int) -> Tape:
        """Memory for all problems of a step that has so many row groups."""
        each, blocks, q, found = MAX_ATTEMPTS, len(self.blocks.bodies.at), len(self.state.q), self.detector.found
        most, of_blocks = 2 * each + 1, (2 * each + 1, blocks)
        problems, of_each = (
            _indices(1, most, most + 1, most * groups),
            _zeros((most * groups, 10), (most, nv), of_blocks),
        )
        numbers = [*_zeros((most, nv), of_blocks, of_blocks), *_indices(of_blocks, of_blocks), *_zeros((most, nv))]
        kept = [(each, *x.shape) for x in (found.points, found.frames, found.depths, found.surface_velocities)]
        impacts, hit = ImpactTape(*numbers), HitTape(*_zeros((each, q), (each, nv), (each, nv), *kept))
        return Tape(*[*problems, *of_each, impacts, hit, *_zeros(q), *_indices(blocks)])

    def _make_team(self, works: list[Work]) -> None:
        """Places for threads, each with its own memory; see `delassus.contact.sparse.parts`."""
        team, space = self.data.team, self.data.space
        team[THREADS], team[LEAST], team[ADDRESS], self._places = len(works), self._least, team.ctypes.data, []
        if len(works) > 1:
            team[HELPER], team[SPAN] = start(self._threads), address_of(run_part)
            for k, work in enumerate(works):
                data = self.data._replace(
                    work=work, space=space._replace(work=PairMemory(*map(np.zeros_like, space.work)))
                )
                call, results = cast(Compiled, run).bound(STEPS, 0, 0, self.model, data, self.options), *_indices(4)
                team[PLACES + k * PLACE // 8 :][: PLACE // 8] = 0, *call.addresses, results.ctypes.data
                self._places.append((call, results))

    def set_warm_start(
        self, contacts: ContactSet, joint_impulses: Array, impulses: Mapping[str, Array] | None = None
    ) -> None:
        """Take contacts of a step before and their `contact_impulses`; solvers start from those that are sustained."""
        n = len(contacts)
        found = {name: np.zeros((n, 3)) for name in IMPULSES} if impulses is None else impulses
        while n > len(self._contacts.row):
            self._make_room(2 * n, self.data.work.graph.fill.size, self.data.work.V.size)
        c = self._contacts.before
        self._sleep.island[:] = self._sleep.time[:] = 0
        c.number[0], c.colliders[:n], c.points[:n] = n, contacts.colliders, contacts.points
        c.frames[:n], c.impulses[:n] = contacts.frames, found["sustained"]
        if len(c.angular):
            c.angular[:n] = np.einsum("nij,nj->ni", contacts.frames, found["sustained_angular"])
        self._joints.before[:] = self._joints.impulses[:] = joint_impulses[:, self.blocks.dofs]
        self._contact_set, self._impulses = contacts, dict(found)

    def sleep_state(self) -> dict[str, Any]:
        """State of sleep, by the names of `SLEEP`."""
        blocks, s, sleep, tree = self.blocks, self.state, self._sleep, self.blocks.scene.tree
        last = {name: np.empty(n) for name, n in (("last_q", tree.nq), ("last_v", tree.nv), ("last_tau", tree.nv))}
        last["last_q"][blocks.coordinates] = s.q
        last["last_v"][blocks.dofs], last["last_tau"][blocks.dofs] = s.v, s.tau
        of = blocks.of_links.block
        return {"islands": sleep.island[of], "rested": sleep.time[of], **last}

    def set_sleep_state(self, islands: Array, rested: Array, last_q: Array, last_v: Array, last_tau: Array) -> None:
        """Let bodies sleep as `sleep_state` says."""
        blocks, s, of = self.blocks, self.state, self.blocks.of_links.block
        self._sleep.island[of], self._sleep.time[of] = islands, rested
        self._sleeps = self._sleeps or bool(np.any(islands))
        self._sleep.island[len(blocks.mass) :] = 0  # free bodies alone sleep
        s.q[:], s.v[:], s.tau[:] = last_q[blocks.coordinates], last_v[blocks.dofs], last_tau[blocks.dofs]

    def set_servos(self, stiffness: Array, damping: Array, acting: Array) -> None:
        """Stiffness and damping of servos, and of each degree of freedom (nv,) 1 where its force is not cut off."""
        springs = self.blocks.springs
        begin = len(springs.block) - len(stiffness)
        springs.stiffness[begin:], springs.damping[begin:] = stiffness, damping
        entries = slice(int(springs.first[begin]), None)
        springs.ratios[entries] = self._ratios * acting[self.blocks.dofs[springs.dofs[entries]]]

    def _set(self, q: Array, v: Array, tau: Array) -> None:
        b, s = self.blocks, self.state
        if self._sleeps and self._sleep.island.any():
            moved = (s.v != v[b.dofs]) | (s.tau != tau[b.dofs])
            touched = np.add.reduceat(moved, b.bodies.first[:-1]) > 0
            touched[: len(b.mass)] |= (s.q != q[b.coordinates])[: 7 * len(b.mass)].reshape(-1, 7).any(axis=1)
            woken = np.isin(self._sleep.island, self._sleep.island[touched]) & (self._sleep.island > 0)
            self._sleep.island[woken] = self._sleep.time[woken] = 0
        q.take(b.coordinates, out=s.q, mode="clip")  # which needs no memory in between
        v.take(b.dofs, out=s.v, mode="clip")
        tau.take(b.dofs, out=s.tau, mode="clip")
        self._progress.step.fill(0)
        self._links.tunnelling.fill(0)

    def inspect(self, q: Array, v: Array) -> tuple[ContactSet, list[Array], int | None]:
        """Contacts at a state, errors of each loop, and the first link that has no inertia along its joint."""
        blocks, s = self.blocks, self.state
        self._set(q, v, np.zeros(v.size))
        n = self._run(0)
        errors = dict(zip(blocks.order_of_loops, np.split(s.loops.errors, blocks.ends_of_loops), strict=False))
        in_order = [errors[k] for k in range(len(blocks.scene.loops))]
        if (singular := self._without_inertia()) is not None:
            return ContactSet.empty(), in_order, singular
        found = ContactSet.trusted(*(array[:n].copy() for array in self.detector.found))
        return found.some(found.depths >= -self.options.touching), in_order, None

    def kicked(self, q: Array, v: Array, tau: Array) -> Array:
        """Velocity (nv,) after a step without contacts."""
        self._set(q, v, tau)
        self._run(0)
        out = np.empty_like(v)
        out[self.blocks.dofs] = self.state.target
        return out

    def _without_inertia(self) -> int | None:
        """Link whose joint moves most where the worst mass matrix has least inertia; None if none is, or NaN."""
        blocks = self.blocks
        if not self._progress.statuses[SINGULAR] or not np.isfinite(blocks.bodies.mass).all():
            return None
        b = len(blocks.mass) + int(np.argmin(np.nan_to_num(self.state.pivots)))
        first, at, n = blocks.bodies.first[b], blocks.bodies.at[b], int(np.diff(blocks.bodies.first)[b])
        M = blocks.bodies.mass[at : at + n * n].reshape(n, n)
        units = np.sqrt(np.maximum(np.diagonal(M), np.finfo(float).tiny))
        return blocks.link_of(first + int(np.argmax(np.abs(np.linalg.eigh(M / units / units[:, None])[1][:, 0]))))

    def advance(self, q: Array, v: Array, tau: Array, steps: int) -> tuple[Array, Array]:
        """State (nq,), (nv,) after so many steps under joint forces (nv,).

        Raises
        ------
        ConfigurationError
            The state is not finite any more, or a mass matrix is singular; names a link.
        """
        self._set(q, v, tau)
        self._run(steps)
        self._contact_set = self._impulses = None
        return self.state.q[self._of_scene[0]], self.state.v[self._of_scene[1]]

    def _run(self, steps: int) -> int:
        """Make steps, and room where compiled code lacks it; with no steps, returns the number of contacts found."""
        if self._threads > 1:
            start(self._threads)  # again in a forked child
        while True:
            if steps != self._asked:
                self._steps.set(2, steps)
                self._asked = steps
            done, code = self._steps()
            if code == DONE:
                return int(done)
            if code == NOT_FINITE:
                self._refuse()
            if code == NO_ANSWER:
                raise self._raised.pop() if self._raised else KeyboardInterrupt
            steps -= done
            fill, entries, n = self.data.work.graph.fill.size, self.data.work.V.size, len(self._contacts.row)
            if code == NO_FACTOR:
                self._make_room(n, 2 * fill, 2 * entries)
            elif code == NO_ROOM:
                self._make_room(2 * n, fill, entries)
            else:  # more near pairs than there is room for
                if self.detector.find(self._links.poses, self._links.reach, self.options.touching) == INVALID_POSE:
                    self.detector.refuse(self._links.poses, self._links.reach)
                self._make_room(n, fill, entries)

    def _answers(self, of_phase: ImpulsesOf) -> Generator[None, int, None]:
        """Answer machine code, which cannot raise: interrupts come where this goes on, in ``try``, and are kept."""
        while True:
            try:
                while True:
                    of_phase((yield), self.blocks, self.data, self.options.dt)
            except GeneratorExit:
                return
            except BaseException as error:
                self.data.progress.step[STATUS] = NO_ANSWER  # what came late, too: the answer may stand there by then
                self._raised.append(error)

    def _refuse(self) -> NoReturn:
        """Raise `ConfigurationError` for a step that ends in velocities that are not finite."""
        names, singular = self.blocks.scene.tree.link_names, self._without_inertia()
        if singular is not None:
            raise ConfigurationError(
                f"configuration at link {names[singular]!r}", "inertia along its joint",
                "none: the mass matrix is singular there", "Give it mass, or its joint armature.",
            )  # fmt: skip
        link = self.blocks.link_of(int(np.argmin(np.isfinite(self.state.next.v))))
        raise ConfigurationError(
            f"velocity of link {names[link]!r}", "finite numbers", "others, after a step",
            "The state has left what can be computed: look at the steps before this one.",
        )  # fmt: skip

    @property
    def contacts(self) -> ContactSet:
        """Contacts of the last step."""
        if self._contact_set is None:
            n = int(self._contacts.before.number[0])
            self._contact_set = ContactSet.trusted(*(array[:n].copy() for array in self.detector.found))
        return self._contact_set

    @property
    def contact_impulses(self) -> dict[str, Array]:
        """Impulses and angular impulses (n, 3) at these contacts; see `IMPULSES`."""
        if self._impulses is None:
            n, c = int(self._contacts.before.number[0]), self._contacts
            turning = c.angular[:, :n].copy() if c.angular.shape[1] else np.zeros((3, n, 3))
            every = c.impulses[:n].copy(), c.sustained[:n].copy(), turning[TOTAL], turning[SUSTAINED]
            self._impulses = dict(zip(IMPULSES, every, strict=True))
        return self._impulses

    @property
    def turning(self) -> Array:
        """Offsets (n, 3) of these contacts as they turn (m/s), see `delassus.contact.sparse.turning`."""
        return self._contacts.turning[: int(self._contacts.before.number[0])].copy()

    @property
    def asleep(self) -> Array:
        """Whether each link's body sleeps (n_links,)."""
        return np.asarray(self._sleep.island[self.blocks.of_links.block] > 0)

    @property
    def joint_impulses(self) -> Array:
        """Impulses (2, nv) of limits and of friction over the last step, in the order of the scene."""
        out = np.empty_like(self._joints.impulses)
        out[:, self.blocks.dofs] = self._joints.impulses
        return out

    @property
    def status(self) -> SolverStatus:
        """Worst status of the problems of the last step."""
        counts = self._progress.statuses.tolist()
        if not any(counts[1:]):
            return STATUSES[0]
        return worst_of(s for s, n in zip(STATUSES, counts, strict=True) if n)

    @property
    def totals(self) -> Counter[SolverStatus]:
        """Number of problems of all steps by status."""
        return Counter({status: n for status, n in zip(STATUSES, self._progress.totals.tolist(), strict=True) if n})

    def energy(self, q: Array, v: Array) -> Energies:
        """Kinetic and potential energy (J), without those of bodies that the user moves: `energies_of`."""
        return energies_of(self.blocks, self._passive, q, v, self.options.dt)


def _table(rows: list[list[int]], width: int) -> Indices:
    return np.array(rows, np.int64).reshape(-1, width)


def _zeros(*shapes: Any) -> list[Any]:
    return [np.zeros(shape) for shape in shapes]


def _indices(*shapes: Any) -> list[Any]:
    return [np.zeros(shape, np.int64) for shape in shapes]
