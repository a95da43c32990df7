"""Steps of rollouts that are made again: those that are not solved at once, and those that open loops, of sub-steps.

Constraints of dynamics ask for accelerations: what integration makes of the positions and velocities of loops is left
to its accuracy. Links of little mass in loops, such as gimbals at the ends of rods, turn much faster than what they
hang on, and steps that cannot follow throw loops apart. Of trajectories that start with closed loops, from the first
step by "rk4" on that opens them, each step is made of two of half of its time, and these of two more, as long as they
open loops or end with another kinetic energy than the one step in their place. What is left is taken back along
displacements of least kinetic energy, ``δ = M⁻¹ Jᵀ (J M⁻¹ Jᵀ)⁺ e``, and so is the velocity along the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.closed_loops import at_configurations
from delassus.accuracy.policy import check_error_bound
from delassus.accuracy.rank import DependentRows
from delassus.accuracy.status import DynamicsStatus, worst
from delassus.algorithms.loops.independent import row_squares
from delassus.constraints import Argument, Constraint
from delassus.frozen import cached_property
from delassus.model.topology import characteristic_length
from delassus.quantities.request import Request
from delassus.runtime.calls import call_of
from delassus.runtime.compile import compile, compile_at_once
from delassus.runtime.fallback import solve_states
from delassus.runtime.kernel import Kernel
from delassus.runtime.rollouts.loop import Feedback
from delassus.runtime.rollouts.on_device import STATE
from delassus.spatial.motion import from_entries
from delassus.spatial.rotations import Array

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

CREEPING = 1e-5
"""Errors of loops that are taken back however small the steps are that made them."""

ENERGY = 1e-5
"""Fraction of the kinetic energy by which two steps may differ from one in their place."""

HALVINGS = 12
"""Most times that a step is halved."""

BLOCK = 1024
"""States whose ranks are told together."""


Solve = Callable[[list[Any], NDArray[np.intp]], list[Any]]
"""From arguments of a time step, of some states by their numbers, to the states after it."""


class Loops:
    """Loops of the robot of a time step, for the trajectories of one rollout."""

    def __init__(self, of: Request, arguments: tuple[Argument, ...], dtype: np.dtype[Any]) -> None:
        tree, self.constraints = of.tree, loops_of(of)
        self._tree, self._dt = tree, [a.name for a in arguments].index("dt")
        self._errors = compile(tree, self.constraints, "constraint_errors")
        self._over = self._units()
        round_off = ROUND_OFF * float(np.finfo(dtype).eps)
        self._growth, self._energy = max(GROWTH, round_off), max(ENERGY, round_off)
        self._is_resolved = of.options.integrator == "rk4"
        self._start: Array | None = None

    @cached_property
    def _mass_matrix(self) -> Kernel:
        return compile(self._tree, (), "mass_matrix")

    @cached_property
    def _rows(self) -> Kernel:
        wanted = ("M", "J", "mobilities")
        return compile_at_once(self._tree, self.constraints, "joint_space_motion", wait=True, outputs=wanted)

    def opened(self, q: Array, v: Array, dt: Array, numbers: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Steps (T, k) that open loops, of states (T + 1, k, nq) of trajectories (k); the first call is of all."""
        gaps, reach = self._measured((q, v), dt)
        if self._start is None:
            self._start = gaps[0]
            self.closed = gaps[0] <= OPEN
            self.kept = self.closed & (reach[0] - gaps[0] <= CONSISTENT) & self._is_resolved
        found = ~(reach[1:] <= reach[:-1] + self._growth) | (gaps[1:] > self._start[numbers] + CREEPING)
        return np.asarray(self.kept[numbers] & found)

    def open(self, q: Array) -> NDArray[np.bool_]:
        """States (T, ...) whose loops are open, of trajectories that started with closed ones."""
        gaps, _ = self._measured((q, np.zeros((*q.shape[:-1], self._tree.nv))), np.zeros(()))
        return np.asarray(self.closed.reshape(q.shape[1:-1]) & ~(gaps <= OPEN))

    def resolve(self, given: list[Any], found: list[Any], kept: NDArray[np.bool_], solve: Solve) -> None:
        """Make steps again of sub-steps: ``found`` is what the kernel made of ``given``, and becomes what these make.

        ``kept`` says of which states (n,) loops are looked at.
        """
        at = np.flatnonzero(kept)
        if len(at):
            some = [x[at] for x in given]
            halved = self._halved(some, some[self._dt], [x[at] for x in found], at, solve, 1)
            for x, new in zip(found, halved, strict=True):
                x[at] = new

    def _halved(
        self, given: list[Any], dt: Array, whole: list[Any], numbers: NDArray[np.intp], solve: Solve, depth: int
    ) -> list[Any]:
        """States after steps in the place of ``whole`` ones, each of two of half of its time, or of more."""
        half = list(given)
        half[self._dt] = 0.5 * given[self._dt]
        middle = solve(half, numbers)
        end = solve([*middle, *half[STATE:]], numbers)
        bad = self._opens(given, end, dt) | ~self._same_energy(given, whole, end)
        gaps, _ = self._measured(given[:STATE], dt)
        at = np.flatnonzero(bad & (gaps <= OPEN))
        if len(at) and depth < HALVINGS:
            some = [x[at] for x in half]
            for first in (middle, None):
                ends = [x[at] for x in first] if first is not None else solve(some, numbers[at])
                some[:STATE] = self._halved(some, dt[at], ends, numbers[at], solve, depth + 1)
            for x, new in zip(end, some, strict=False):
                x[at] = new
        return self._taken_back(end, dt)

    def _units(self) -> Array:
        """What errors of rows are multiplied by (m): of rows along unit vectors 1 over a length, of turns 1."""
        still = self._tree.neutral()[None]
        (squares,) = at_configurations(
            self._tree, self.constraints, still, lambda at: [from_entries(at.ops, row_squares(at))]
        )
        sizes = np.sqrt(squares[0, :, 0])
        return np.asarray(1.0 / np.where(sizes > 0.0, sizes, characteristic_length(self._tree)))

    def _measured(self, state: Sequence[Any], dt: Array) -> tuple[Array, Array]:
        """Largest errors of loops at states (...), and these with what velocities make of them in a step."""
        errors, velocities = self._errors(*(x.astype(float) for x in state))
        gaps = np.abs(self._over * errors).max(axis=-1, initial=0.0)
        return gaps, gaps + dt * np.abs(self._over * velocities).max(axis=-1, initial=0.0)

    def _opens(self, given: list[Any], found: list[Any], dt: Array) -> NDArray[np.bool_]:
        (_, before), (_, after) = (self._measured(state[:STATE], dt) for state in (given, found))
        return np.asarray(~(after <= before + self._growth))

    def _same_energy(self, given: list[Any], whole: list[Any], parts: list[Any]) -> NDArray[np.bool_]:
        """Whether one step ends with the kinetic energy of several in its place."""
        M = self._mass_matrix(parts[0].astype(float))
        start, one, several = (0.5 * np.einsum("...i,...ij,...j", x[1], M, x[1]) for x in (given, whole, parts))
        return np.asarray(np.abs(one - several) <= self._energy * (start + several))

    def _taken_back(self, state: list[Any], dt: Array) -> list[Any]:
        """States displaced to closed loops, without velocities that open them; those of open ones stay."""
        q, v = (x.astype(float) for x in state)
        gaps, reach = self._measured(state, dt)
        at = np.flatnonzero((gaps <= OPEN) & (reach > self._growth) & (reach < np.inf))
        if len(at):
            (errors, _), still = self._errors(q[at], v[at]), np.zeros_like(v[at])
            M, J, mobilities = self._rows(q[at], still, still)
            velocities = np.einsum("nij,nj->ni", J, v[at])
            moved = np.linalg.solve(M, np.swapaxes(J, -1, -2))
            inverse = moved @ DependentRows(J @ moved, mobilities).of_least_norm
            q[at] = self._tree.integrate(q[at], -np.einsum("nij,nj->ni", inverse, errors))
            v[at] -= np.einsum("nij,nj->ni", inverse, velocities)
        return [q, v]


def loops_of(request: Request) -> tuple[Constraint, ...]:
    """Hard constraints between two frames that stay where they are on their links, and ask for no acceleration."""
    options = request.options
    return tuple(
        c
        for c, soft, target in zip(request.constraints, options.soft, options.targets, strict=True)
        if c.is_loop and not (soft or target or options.active)
    )


def all_solved(ill_conditioned: NDArray[np.bool_], with_status: bool) -> NDArray[np.object_]:
    """Status of steps before those that are not solved are known; of no step if it is not asked for."""
    return np.full_like(ill_conditioned if with_status else ill_conditioned[:0], DynamicsStatus.SOLVED, dtype=object)


class StepsAgain:
    """Steps of the trajectories of a rollout that are made again, and those after them.

    A step that machine code has not solved, or that opens loops, is made again. From the state after it machine code
    goes on: by one step, by two, by four and so on, as long as all of these are fine. Arrays here have one axis of all
    n trajectories, and that of time before it where they have one.
    """

    def __init__(
        self, kernel: Any, loops: Loops | None, with_status: bool, arrays: list[NDArray[Any]],
        beside: list[NDArray[Any]], ill_conditioned: NDArray[np.bool_], feedback: Feedback | None,
    ) -> None:  # fmt: skip
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
        self.met = Counter[Any]()
        self.status = all_solved(ill_conditioned, with_status)
        self._known = np.zeros((self._steps, self._n), dtype=bool)  # steps whose status is known

    def run(self, ill_conditioned: NDArray[np.bool_]) -> None:
        """Make all steps, of which machine code has made some that are fine; its other ones are flagged."""
        (q, v), every = self._arrays[:STATE], np.arange(self._n)
        bad = ill_conditioned.reshape(self._steps, self._n) | self._opened(q, v, every)
        reached = np.where(bad.any(axis=0), bad.argmax(axis=0), self._steps)  # the state that is known, of each
        pace = np.zeros(self._n, dtype=int)  # steps that machine code makes next
        while (left := reached < self._steps).any():
            if len(at := np.flatnonzero(left & (pace == 0))):
                reached[at], pace[at] = self._again(reached[at], at), 1
            if len(at := np.flatnonzero((pace > 0) & (reached < self._steps))):
                fine = self._on(reached[at], at, int(min(pace[at].max(), self._steps - reached[at].min())))
                wanted = np.minimum(pace[at], self._steps - reached[at])
                reached[at] += fine
                pace[at] = np.where(fine < wanted, 0, 2 * np.maximum(pace[at], fine))
        if self._with_status and not self._kernel.request.knows_rank:
            self._rank()

    def _opened(self, q: Array, v: Array, numbers: NDArray[np.intp]) -> NDArray[np.bool_]:
        if self._loops is None:
            return np.zeros((len(q) - 1, len(numbers)), dtype=bool)
        return self._loops.opened(q, v, self._dt[numbers], numbers)

    def _given(self, t: NDArray[np.intp], numbers: NDArray[np.intp]) -> list[NDArray[Any]]:
        """Arguments of steps t (..., k) of trajectories (k)."""
        return [
            np.ascontiguousarray(x[t, numbers] if series else x[numbers])
            for x, series in zip(self._arrays, self._is_series, strict=True)
        ]

    def _on(self, reached: NDArray[np.intp], numbers: NDArray[np.intp], steps: int) -> NDArray[np.intp]:
        """Go on by machine code from states of trajectories (k); how many steps of each are fine (k)."""
        kernel, feedback = self._kernel, self._feedback
        t = np.minimum(reached + np.arange(steps)[:, None], self._steps - 1)
        given = self._given(t, numbers)
        states = [np.empty((steps + 1, *x.shape[1:]), x.dtype) for x in given[:STATE]]
        for x, first in zip(states, given, strict=False):
            x[0] = first[0]
        given[:STATE] = [x[:-1] for x in states]
        found = [*(x[1:] for x in states), *(np.empty((*t.shape, *x.shape[2:]), x.dtype) for x in self._beside)]
        law = None if feedback is None else feedback.at(t, numbers)
        bad = kernel.roll(given, found, numbers.shape, steps, 1, (), law)
        bad |= self._opened(*states, numbers) | (reached + np.arange(steps)[:, None] >= self._steps)
        fine = np.where(bad.any(axis=0), bad.argmax(axis=0), steps)
        kept = np.arange(steps)[:, None] < fine
        at = t[kept], np.broadcast_to(numbers, t.shape)[kept]
        for x, new in zip(self._arrays[:STATE], found, strict=False):
            x[at[0] + 1, at[1]] = new[kept]
        for x, new in zip(self._beside, found[STATE:], strict=True):
            x[at] = new[kept]
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
            self.met[DynamicsStatus.FAILED] += int(self._steps - first)
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
                self.met.update(solved.counts)
                if self._with_status:
                    how[numbers[fine]] = worst([how[numbers[fine]], solved.status])
                for x, new in zip(found, results, strict=True):
                    x[fine] = new
            return found

        found = solve(given, np.arange(len(numbers)), rank_asked=self._with_status)
        if loops is not None:
            loops.resolve(given, found[:STATE], loops.kept[numbers], lambda *given: solve(*given)[:STATE])
        if law is not None:
            law.move(1, *found[:STATE])
        for x, new in zip((q[1:], v[1:], *self._beside), found, strict=True):
            x[t, numbers] = new
        self._note(t, numbers, how)
        return reached

    def _note(self, t: Any, numbers: Any, how: Any) -> None:
        self._known[t, numbers] = True
        if self._with_status:
            self.status.reshape(self._steps, self._n)[t, numbers] = how

    def _rank(self) -> None:
        """Statuses of steps of machine code, by the rank of rows at each: it takes any, and does not say which."""
        status, asked = self.status.reshape(self._steps, self._n), self._kernel.request
        t, numbers = np.nonzero(~self._known)
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
) -> tuple[NDArray[np.object_], Counter[Any]]:
    """Make steps again that are ill-conditioned or open loops, and those after them; statuses, and counts of these."""
    again = StepsAgain(kernel, loops, with_status, arrays, beside, ill_conditioned, feedback)
    again.run(ill_conditioned)
    return again.status, again.met
