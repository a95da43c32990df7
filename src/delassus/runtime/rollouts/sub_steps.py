"""Steps of rollouts that are made again: those that are not solved at once, and those that open loops, of sub-steps.

Constraints of dynamics ask for accelerations: what integration makes of the positions and velocities of loops is left
to its accuracy. Of trajectories that start with closed loops, machine code takes errors back after each step, along
displacements of least kinetic energy, ``δ = M⁻¹ Jᵀ (J M⁻¹ Jᵀ)⁺ e``, and the velocity along the rows ("closed_state").

Links of little mass in loops, such as gimbals at the ends of rods, turn much faster than what they hang on, and steps
that cannot follow throw loops apart. A step by "rk4" that opens loops is made of two of half of its time, and these of
two more, as long as they open loops or end with another kinetic energy than the one step in their place. Then machine
code goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.closed_loops import at_configurations, lose_rank_at
from delassus.accuracy.policy import check_error_bound
from delassus.accuracy.rank import DependentRows
from delassus.accuracy.status import DynamicsStatus, worst
from delassus.algorithms.dynamics import ITERATIVE
from delassus.algorithms.loops.independent import row_squares
from delassus.constraints import Constraint
from delassus.frozen import cached_property
from delassus.model.topology import characteristic_length
from delassus.quantities import find_quantity
from delassus.quantities.request import Request, request
from delassus.runtime.any_kernel import kept_by_kernel
from delassus.runtime.calls import call_of
from delassus.runtime.compile import compile, compile_at_once
from delassus.runtime.fallback import solve_states
from delassus.runtime.kernel import Kernel
from delassus.runtime.rollouts.loop import Closing, Feedback
from delassus.runtime.rollouts.on_device import STATE
from delassus.spatial.joint_kinds import FREE
from delassus.spatial.motion import from_entries
from delassus.spatial.rotations import Array, matrix_to_quaternion

DIVERGED = 1e3
"""Displacement of a joint in one step, in rad or m, from which on nothing is solved again: the trajectory is lost."""

OPEN = 1e-4
"""Errors of loops above which they are open, over the `characteristic_length` of the robot as all errors here."""


CONSISTENT = 1e-6
"""Errors that velocities of loops may make in a step at the start of a trajectory."""

GROWTH = 1e-8
"""What a step may add to errors of loops and to what their velocities make of these in a step."""

ROUND_OFF = 16.0
"""The least that counts as growth, over the relative round-off."""

ENERGY = 1e-5
"""Fraction of the kinetic energy by which two steps may differ from one in their place."""

HALVINGS = 12
"""Most times that a step is halved."""

BLOCK = 1024
"""States whose ranks are told together."""

PATIENCE = 8
"""Steps of dependent rows after which code is compiled that takes these."""


SURER = ("surer",)
"""Where kernels keep what makes flagged steps again."""

Solve = Callable[[list[Any], NDArray[np.intp]], list[Any]]
"""From arguments of a time step, of some states by their numbers, to the states after it."""


class Loops:
    """Loops of the robot of a time step, for the trajectories of one rollout."""

    def __init__(self, kernel: Kernel) -> None:
        of = kernel.request
        self._tree, self._loops, self._kernel = of.tree, loops_of(of), kernel
        self._held = [of.constraints[k].frames[0] for k, c in self._loops.items() if c.frames[-1].given]
        self._is_placed = np.repeat([bool(c.frames[-1].given) for c in self._loops.values()],
                                    [c.size for c in self._loops.values()]).astype(bool)  # fmt: skip
        self.dt = [a.name for a in kernel.arguments].index("dt")
        self._errors, self._over = errors_of_loops(kernel)
        round_off = ROUND_OFF * float(np.finfo(kernel.dtype).eps)
        self._growth, self._energy = max(GROWTH, round_off), max(ENERGY, round_off)
        self._is_resolved = of.options.integrator == "rk4"
        self._leaves = not self._is_resolved and any(x is not None for x in of.options.baumgarte)
        self._kept: NDArray[np.bool_] | None = None

    @cached_property
    def _mass_matrix(self) -> Kernel:
        return compile(self._tree, (), "mass_matrix")

    @cached_property
    def _rows(self) -> Kernel:
        wanted, rows = ("M", "J", "mobilities"), [self._kernel.request.constraints[k] for k in self._loops]
        return compile_at_once(self._tree, rows, "joint_space_motion", wait=True, outputs=wanted)

    @cached_property
    def lose_rank(self) -> bool:
        """Whether rows of frames that are held to where they are depend on one another there, and not elsewhere."""
        return bool(self._held) and lose_rank_at(self._tree, self._kernel.request.hard, self._start)

    def closing(self, q: Array, v: Array, dt: Array, steps: int) -> Closing | None:
        """What closes loops of trajectories from states (*batch, …) on after each of so many steps; None: of none.

        The first call says which: those that start with loops closed, and velocities that keep them closed. Frames that
        are held to the world without a place there are held to where they are then.
        Semi-implicit steps with Baumgarte's terms leave loops to these.
        """
        if self._kept is None:
            self._start, self._places = q.reshape(-1, q.shape[-1]).astype(float), self._places_at(q.astype(float))
            gaps, reach = self._measured((q, v), self._places, dt)
            self._starts_closed = gaps <= OPEN
            self._kept = self._starts_closed & (reach - gaps <= CONSISTENT) & (not self._leaves)
        self.closes = bool(self._kept.any())
        return self._closing(self._kept, self._places, steps) if self.closes else None

    def closing_of(self, numbers: NDArray[np.intp], steps: int) -> Closing:
        """The same of trajectories (k), from any of their states on."""
        return self._closing(self._of_numbers(numbers), self._places_of(numbers), steps)

    def _of_numbers(self, numbers: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Of which trajectories (k) loops are kept closed."""
        assert self._kept is not None, "asked before the first steps"
        return np.asarray(self._kept.reshape(-1)[numbers])

    def _places_at(self, q: Array) -> list[Array]:
        """Position and quaternion (*batch, 7) of each frame that is held, at configurations."""
        if not self._held:
            return []
        poses = compile(self._tree, (), "forward_kinematics", frames=self._held)(q)
        places = np.concatenate([poses[..., :3, 3], matrix_to_quaternion(poses[..., :3, :3])], axis=-1)
        return [np.ascontiguousarray(places[..., k, :]) for k in range(len(self._held))]

    def _places_of(self, numbers: NDArray[np.intp]) -> list[Array]:
        return [x.reshape(-1, x.shape[-1])[numbers] for x in self._places]

    def _closing(self, kept: NDArray[np.bool_], places: list[Array], steps: int) -> Closing:
        dtype, series = self._kernel.dtype, (steps, *kept.shape)
        kernel, correction = closing_kernel(self._kernel), kept.astype(dtype)
        given = [x.astype(dtype) for x in places]
        return Closing(kernel, correction, given, np.empty(series, dtype), np.ones(series, dtype))

    def opened(self, closing: Closing) -> NDArray[np.bool_]:
        """Steps (T, *batch) that have opened loops by more than is to be taken back, or where that is not known.

        How exact what is taken back is does not matter, where it is finite: the next step takes back what is left.
        """
        most = self._growth if self._is_resolved else np.inf
        bad = ~(closing.rcond >= 0.0) | ~(closing.reach < most)
        return np.asarray((closing.correction != 0.0) & bad)

    def open(self, q: Array) -> NDArray[np.bool_]:
        """States (T, ...) whose loops are open, of trajectories that started with closed ones.

        Frames that are held to where they start are no loops where velocities take them from there.
        """
        errors, _ = self._errors(q.astype(float), np.zeros((*q.shape[:-1], self._tree.nv)), *self._places)
        sizes = np.abs(self._over * errors)
        all_gaps, own = sizes.max(axis=-1, initial=0.0), sizes[..., ~self._is_placed].max(axis=-1, initial=0.0)
        gaps = own if self._kept is None else np.where(self._kept, all_gaps, own)
        return np.asarray(self._starts_closed & ~(gaps <= OPEN))

    def resolve(self, given: list[Any], found: list[Any], numbers: NDArray[np.intp], solve: Solve) -> None:
        """Make steps of trajectories (k) again: ``found`` is what the kernel made of ``given``, and becomes the result.

        By "rk4" they are made of sub-steps. Of trajectories whose loops are kept closed, errors are taken back.
        """
        at = np.flatnonzero(self._of_numbers(numbers))
        if not len(at):
            return
        some, new, places = [x[at] for x in given], [x[at] for x in found], self._places_of(numbers[at])
        if self._is_resolved:
            new = self._halved(some, places, some[self.dt], new, at, solve, 1)
        else:
            new = self._taken_back(new, places, some[self.dt])
        for x, y in zip(found, new, strict=True):
            x[at] = y

    def _halved(
        self, given: list[Any], places: list[Array], dt: Array, whole: list[Any], numbers: NDArray[np.intp],
        solve: Solve, depth: int,
    ) -> list[Any]:  # fmt: skip
        """States after steps in the place of ``whole`` ones, each of two of half of its time, or of more."""
        half = list(given)
        half[self.dt] = 0.5 * given[self.dt]
        middle = solve(half, numbers)
        end = solve([*middle, *half[STATE:]], numbers)
        bad = self._opens(given, end, places, dt) | ~self._same_energy(given, whole, end)
        gaps, _ = self._measured(given[:STATE], places, dt)
        at = np.flatnonzero(bad & (gaps <= OPEN))
        if len(at) and depth < HALVINGS:
            some, held = [x[at] for x in half], [x[at] for x in places]
            for first in (middle, None):
                ends = [x[at] for x in first] if first is not None else solve(some, numbers[at])
                some[:STATE] = self._halved(some, held, dt[at], ends, numbers[at], solve, depth + 1)
            for x, new in zip(end, some, strict=False):
                x[at] = new
        return self._taken_back(end, places, dt)

    def _measured(self, state: Sequence[Any], places: list[Array], dt: Array) -> tuple[Array, Array]:
        """Largest errors of loops at states (...), and these with what velocities make of them in a step."""
        errors, velocities = self._errors(*(x.astype(float) for x in state), *places)
        gaps = np.abs(self._over * errors).max(axis=-1, initial=0.0)
        return gaps, gaps + dt * np.abs(self._over * velocities).max(axis=-1, initial=0.0)

    def _opens(self, given: list[Any], found: list[Any], places: list[Array], dt: Array) -> NDArray[np.bool_]:
        (_, before), (_, after) = (self._measured(state[:STATE], places, dt) for state in (given, found))
        return np.asarray(~(after <= before + self._growth))

    def _same_energy(self, given: list[Any], whole: list[Any], parts: list[Any]) -> NDArray[np.bool_]:
        """Whether one step ends with the kinetic energy of several in its place."""
        M = self._mass_matrix(parts[0].astype(float))
        start, one, several = (0.5 * np.einsum("...i,...ij,...j", x[1], M, x[1]) for x in (given, whole, parts))
        return np.asarray(np.abs(one - several) <= self._energy * (start + several))

    def _taken_back(self, state: list[Any], places: list[Array], dt: Array) -> list[Any]:
        """States displaced to closed loops, without velocities that open them; those of open ones stay."""
        q, v = (x.astype(float) for x in state)
        gaps, reach = self._measured(state, places, dt)
        at = np.flatnonzero((gaps <= OPEN) & (reach > self._growth) & (reach < np.inf))
        if len(at):
            (errors, _), still = self._errors(q[at], v[at], *(x[at] for x in places)), np.zeros_like(v[at])
            M, J, mobilities = self._rows(q[at], still, still)
            velocities = np.einsum("nij,nj->ni", J, v[at])
            moved = np.linalg.solve(M, np.swapaxes(J, -1, -2))
            inverse = moved @ DependentRows(J @ moved, mobilities).of_least_norm
            q[at] = self._tree.integrate(q[at], -np.einsum("nij,nj->ni", inverse, errors))
            v[at] -= np.einsum("nij,nj->ni", inverse, velocities)
        return [q, v]


@kept_by_kernel
def errors_of_loops(kernel: Kernel) -> tuple[Kernel, Array]:
    """Errors of loops and their velocities, of any states; what they are multiplied by (m).

    That is 1 over a length of rows along unit vectors, and 1 of turns.
    """
    tree, loops = kernel.request.tree, [*loops_of(kernel.request).values()]
    still = tree.neutral()[None]
    (squares,) = at_configurations(tree, loops, still, lambda at: [from_entries(at.ops, row_squares(at))])
    sizes = np.sqrt(squares[0, :, 0])
    over = np.asarray(1.0 / np.where(sizes > 0.0, sizes, characteristic_length(tree)))
    return compile(tree, loops, "constraint_errors"), over


def rolling_kernel(kernel: Any, met: Mapping[Any, int], loops: Loops | None) -> Any:
    """The kernel of a time step, or that of any rows where many steps of a rollout have met dependent ones."""
    takes_any = kernel.method in ITERATIVE and kernel.error_dtype
    n = sum(met.get(status, 0) for status in (DynamicsStatus.REDUNDANT, DynamicsStatus.CONFLICTING))
    return kernel if takes_any or n < PATIENCE else of_any_rows(kernel, loops is not None and loops.lose_rank)


def surer_kernel(kernel: Any, is_met: bool = True) -> Kernel | None:
    """What makes flagged steps of a proximal kernel again in compiled code, once it has met some (``is_met``).

    Many pivots that are small at once, near singular positions, say less of it than what it misses.
    """
    if not isinstance(kernel, Kernel) or kernel.method not in ITERATIVE or kernel.error_dtype:
        return None
    if is_met:
        kernel.kept[SURER] = of_any_rows(kernel)
    found: Kernel | None = kernel.kept.get(SURER)
    return found


@kept_by_kernel
def of_any_rows(kernel: Kernel, gapes: bool = False) -> Kernel:
    """The time step by `proximal`, which takes dependent rows, wherever they are; what it misses says its error.

    ``gapes``: as of `Request`.
    """
    asked = replace(kernel.request, method="proximal", is_chosen=False, error_dtype=kernel.dtype.name, gapes=gapes)
    return type(kernel)(asked, kernel.dtype.name, kernel.lanes, ", for dependent rows", kernel.error_bound, False)


@kept_by_kernel
def closing_kernel(kernel: Kernel) -> Kernel:
    """The "closed_state" of the loops of a time step, beside what else holds its robot and does not come with calls."""
    of, soft, loops = kernel.request, kernel.request.options.soft, loops_of(kernel.request)
    held = [
        loops.get(k, c)
        for k, c in enumerate(of.constraints)
        if not soft[k] and (k in loops or not (c.is_loop or [*c.arguments(k)]))
    ]
    asked = request(of.tree, [c.as_loop for c in held], find_quantity("closed_state"))
    return type(kernel)(asked, kernel.dtype.name, kernel.lanes, ", to close loops", kernel.error_bound, kernel._wait)


def loops_of(of: Request) -> dict[int, Constraint]:
    """What closes loops, by its number: hard constraints that ask for no acceleration, and which errors they have.

    Those between two frames that stay where they are on their links; and those that hold a frame to the world, where
    joints join its link to the world, too, none of which is free. These become constraints to a place in the world.
    """
    found, options = dict[int, Constraint](), of.options
    for k, (c, soft, target) in enumerate(zip(of.constraints, options.soft, options.targets, strict=True)):
        if soft or target or options.active:
            continue
        if c.is_loop:
            found[k] = c
        elif (placed := c.at_place) is not None and not options.poses[k]:
            if FREE not in [of.tree.joints[i].kind for i in of.tree.support(c.frames[0].carrier(of.tree))]:
                found[k] = placed
    return found


def all_solved(ill_conditioned: NDArray[np.bool_], with_status: bool) -> NDArray[np.object_]:
    """Status of steps before those that are not solved are known; of no step if it is not asked for."""
    return np.full_like(ill_conditioned if with_status else ill_conditioned[:0], DynamicsStatus.SOLVED, dtype=object)


class StepsAgain:
    """Steps of the trajectories of a rollout that are made again, and those after them.

    A step that machine code has not solved, or that opens loops, is made again; of proximal ones by `surer_kernel`
    first. From the state after it machine code goes on: by one step, by two, by four and so on, as long as all of these
    are fine. Where many have dependent rows it is that of `of_any_rows`. Arrays here have one axis of all n
    trajectories, and that of time before it where they have one.
    """

    def __init__(
        self, kernel: Any, loops: Loops | None, with_status: bool, arrays: list[NDArray[Any]],
        beside: list[NDArray[Any]], ill_conditioned: NDArray[np.bool_], feedback: Feedback | None, *, met: Counter[Any],
    ) -> None:  # fmt: skip
        """``met`` counts statuses of steps that are made again, in the rollout until now."""
        self._kernel, self._loops, self._with_status, self._feedback = kernel, loops, with_status, feedback
        batch = ill_conditioned.shape[1:]
        self._steps, self._n = len(ill_conditioned), prod(batch)
        self._is_series = [x.ndim > len(batch) + len(a.shape) for a, x in zip(kernel.arguments, arrays, strict=True)]
        self._arrays = [
            x.reshape(*x.shape[:series], self._n, *a.shape)
            for a, x, series in zip(kernel.arguments, arrays, self._is_series, strict=True)
        ]
        self._beside = [x.reshape(self._steps, self._n, *x.shape[1 + len(batch) :]) for x in beside]
        (self._dt,) = (x for a, x in zip(kernel.arguments, self._arrays, strict=True) if a.name == "dt")
        self._met, self.status = met, all_solved(ill_conditioned, with_status)
        self._unknown = np.full((self._steps, self._n), not kernel.request.knows_rank)  # steps that have another status

    def run(self, ill_conditioned: NDArray[np.bool_]) -> None:
        """Make all steps, of which machine code has made some that are fine; its other ones are flagged."""
        bad = ill_conditioned.reshape(self._steps, self._n)
        if not self._steps:
            return
        reached = np.where(bad.any(axis=0), bad.argmax(axis=0), self._steps)  # the state that is known, of each
        tries = bool(bad.any()) and surer_kernel(self._kernel) is not None
        pace = np.full(self._n, int(tries))  # steps that machine code makes next
        while (left := reached < self._steps).any():
            if len(at := np.flatnonzero(left & (pace == 0))):
                reached[at], pace[at] = self._again(reached[at], at), 1
            if len(at := np.flatnonzero((pace > 0) & (reached < self._steps))):
                fine = self._on(reached[at], at, int(min(pace[at].max(), self._steps - reached[at].min())))
                wanted = np.minimum(pace[at], self._steps - reached[at])
                reached[at] += fine
                pace[at] = np.where(fine < wanted, 0, 2 * np.maximum(pace[at], fine))
        if self._with_status:
            self._rank()

    def _given(self, t: NDArray[np.intp], numbers: NDArray[np.intp]) -> list[NDArray[Any]]:
        """Arguments of steps t (..., k) of trajectories (k)."""
        return [
            np.ascontiguousarray(x[t, numbers] if series else x[numbers])
            for x, series in zip(self._arrays, self._is_series, strict=True)
        ]

    def _on(self, reached: NDArray[np.intp], numbers: NDArray[np.intp], steps: int) -> NDArray[np.intp]:
        """Go on by machine code from states of trajectories (k); how many steps of each are fine (k)."""
        kernel, feedback = rolling_kernel(self._kernel, self._met, self._loops), self._feedback
        t = np.minimum(reached + np.arange(steps)[:, None], self._steps - 1)
        given = self._given(t, numbers)
        states = [np.empty((steps + 1, *x.shape[1:]), x.dtype) for x in given[:STATE]]
        for x, first in zip(states, given, strict=False):
            x[0] = first[0]
        given[:STATE] = [x[:-1] for x in states]
        found = [*(x[1:] for x in states), *(np.empty((*t.shape, *x.shape[2:]), x.dtype) for x in self._beside)]
        law = None if feedback is None else feedback.at(t, numbers)
        closing = None if self._loops is None or not self._loops.closes else self._loops.closing_of(numbers, steps)
        surer = surer_kernel(kernel)
        bad = kernel.roll(given, found, numbers.shape, steps, 1, (), law, closing=closing, surer=surer)
        if self._loops is not None and closing is not None:
            bad |= self._loops.opened(closing)
        bad |= reached + np.arange(steps)[:, None] >= self._steps
        fine = np.where(bad.any(axis=0), bad.argmax(axis=0), steps)
        kept = np.arange(steps)[:, None] < fine
        at = t[kept], np.broadcast_to(numbers, t.shape)[kept]
        for x, new in zip(self._arrays[:STATE], found, strict=False):
            x[at[0] + 1, at[1]] = new[kept]
        for x, new in zip(self._beside, found[STATE:], strict=True):
            x[at] = new[kept]
        self._unknown[at] = not kernel.request.knows_rank
        if feedback is not None:
            self._arrays[feedback.control][at] = given[feedback.control][kept]
        return fine

    def _again(self, t: NDArray[np.intp], numbers: NDArray[np.intp]) -> NDArray[np.intp]:
        """Make steps t (k) of trajectories (k) again; the states that are known then (k)."""
        feedback, loops, kernel = self._feedback, self._loops, self._kernel
        (q, v), reached = self._arrays[:STATE], t + 1
        moves = np.abs(v[t, numbers]).max(axis=-1, initial=0.0) * np.abs(self._dt[numbers]) <= DIVERGED
        lost = ~(np.isfinite(q[t, numbers]).all(axis=-1) & moves)
        for first, k in zip(t[lost], numbers[lost], strict=True):
            for x in (q[1:], v[1:], *self._beside):
                x[first:, k] = np.nan
            self._note(slice(first, None), k, DynamicsStatus.FAILED)
            self._met[DynamicsStatus.FAILED] += int(self._steps - first)
        reached[lost] = self._steps
        t, numbers = t[~lost], numbers[~lost]
        if not len(numbers):
            return reached
        law = None if feedback is None else feedback.at(t[None], numbers)
        if law is not None:
            self._arrays[law.control][t, numbers] = law.applied(q[t, numbers], v[t, numbers])
        given, how = self._given(t, numbers), np.full(len(numbers), DynamicsStatus.SOLVED)

        def solve(given: list[Any], numbers: NDArray[np.intp], rank_asked: bool = False) -> list[Any]:
            found = [np.full((len(numbers), *r.shape), np.nan) for r in kernel.results]
            fine = np.isfinite(given[0]).all(axis=-1) & np.isfinite(given[1]).all(axis=-1)
            if fine.any():
                n = int(np.count_nonzero(fine))
                results = kernel.empty_results(n)
                part = [np.ascontiguousarray(x[fine], kernel.dtype) for x in given]
                solved = solve_states(kernel, part, results, (n,), 1, rank_asked)
                self._met.update(solved.counts)
                if self._with_status and solved.status.size:
                    how[numbers[fine]] = worst([how[numbers[fine]], solved.status])
                for x, new in zip(found, results, strict=True):
                    x[fine] = new
            return found

        found = solve(given, np.arange(len(numbers)), rank_asked=self._with_status)
        if loops is not None:
            loops.resolve(given, found[:STATE], numbers, lambda *given: solve(*given)[:STATE])
        if law is not None:
            law.move(1, *found[:STATE])
        for x, new in zip((q[1:], v[1:], *self._beside), found, strict=True):
            x[t, numbers] = new
        self._note(t, numbers, how)
        return reached

    def _note(self, t: Any, numbers: Any, how: Any) -> None:
        self._unknown[t, numbers] = False
        if self._with_status:
            self.status.reshape(self._steps, self._n)[t, numbers] = how

    def _rank(self) -> None:
        """Tell statuses of steps that machine code makes of any rows: those of dynamics at the states before them."""
        status, asked = self.status.reshape(self._steps, self._n), self._kernel.request
        asked = replace(asked, quantity=find_quantity("dynamics"), method="proximal")
        t, numbers = np.nonzero(self._unknown)
        for first in range(0, len(t), BLOCK):
            at = t[first : first + BLOCK], numbers[first : first + BLOCK]
            values = dict(zip((a.name for a in self._kernel.arguments), self._given(*at), strict=True))
            call = call_of(asked, {name: x.astype(float) for name, x in values.items()}, at[0].shape)
            call.error_bound = check_error_bound(self._kernel.error_bound)
            call.solved()
            found = np.array(call.resolved.status)
            found[found == DynamicsStatus.INACCURATE] = DynamicsStatus.SOLVED
            status[at] = found


def step_by_step(
    kernel: Any,
    loops: Loops | None,
    with_status: bool,
    arrays: list[NDArray[Any]],
    beside: list[NDArray[Any]],
    ill_conditioned: NDArray[np.bool_],
    feedback: Feedback | None,
    *,
    met: Counter[Any],
) -> NDArray[np.object_]:
    """Make steps again that are ill-conditioned or open loops, and those after them; statuses, which ``met`` counts."""
    again = StepsAgain(kernel, loops, with_status, arrays, beside, ill_conditioned, feedback, met=met)
    again.run(ill_conditioned)
    return again.status
