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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.closed_loops import at_configurations
from delassus.accuracy.rank import DependentRows
from delassus.accuracy.status import DynamicsStatus, worst
from delassus.algorithms.loops.independent import row_squares
from delassus.constraints import Argument, Constraint
from delassus.frozen import cached_property
from delassus.model.topology import characteristic_length
from delassus.quantities.request import Request
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

    def opened(self, q: Array, v: Array, dt: Array) -> NDArray[np.bool_]:
        """Steps (T, ...) that open loops, of states (T + 1, ..., nq), (T + 1, ..., nv)."""
        gaps, reach = self._measured((q, v), dt)
        if self._start is None:
            self._start = gaps[0]
            self.closed = gaps[0] <= OPEN
            self.kept = self.closed & (reach[0] - gaps[0] <= CONSISTENT) & self._is_resolved
        found = ~(reach[1:] <= reach[:-1] + self._growth) | (gaps[1:] > self._start + CREEPING)
        return np.asarray(self.kept & found)

    def open(self, q: Array) -> NDArray[np.bool_]:
        """States (T, ...) whose loops are open, of trajectories that started with closed ones."""
        gaps, _ = self._measured((q, np.zeros((*q.shape[:-1], self._tree.nv))), np.zeros(()))
        return np.asarray(self.closed & ~(gaps <= OPEN))

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


def step_by_step(
    kernel: Any,
    loops: Loops | None,
    with_status: bool,
    arrays: list[NDArray[Any]],
    beside: list[NDArray[Any]],
    ill_conditioned: NDArray[np.bool_],
    feedback: Feedback | None,
) -> tuple[NDArray[np.object_], Counter[Any]]:
    """Take steps of each trajectory again from its first ill-conditioned one on, or all to know their status."""
    q, v = arrays[:STATE]
    (dt,) = (x for a, x in zip(kernel.arguments, arrays, strict=True) if a.name == "dt")
    status, met = all_solved(ill_conditioned, with_status), Counter[Any]()
    opened = (
        np.zeros_like(ill_conditioned) if loops is None else np.logical_or.accumulate(loops.opened(q, v, dt), axis=0)
    )
    late = np.logical_or.accumulate(ill_conditioned, axis=0) | opened
    again = late | (with_status and not kernel.request.knows_rank)
    for t in np.flatnonzero(again.any(axis=tuple(range(1, late.ndim)))):
        moves = np.abs(v[t]).max(axis=-1, initial=0.0) * np.abs(dt) <= DIVERGED
        now = again[t] & np.isfinite(q[t]).all(axis=-1) & (moves | ~late[t])
        lost = again[t] & ~now
        for x in (q[t + 1], v[t + 1], *(y[t] for y in beside)):
            x[lost] = np.nan
        met[DynamicsStatus.FAILED] += int(np.count_nonzero(lost))
        if with_status:
            status[t, lost] = DynamicsStatus.FAILED
        if not now.any():
            continue
        if feedback is not None:
            arrays[feedback.control][t][now] = feedback.controls_at(int(t), q[t][now], v[t][now], now)
        some = [
            np.ascontiguousarray((x[t] if x.ndim > now.ndim + len(a.shape) else x)[now])
            for a, x in zip(kernel.arguments, arrays, strict=True)
        ]
        how = np.full(len(some[0]), DynamicsStatus.SOLVED)

        def solve(
            given: list[Any], numbers: NDArray[np.intp], how: NDArray[Any] = how, rank_asked: bool = False
        ) -> list[Any]:
            found = [np.full((len(numbers), *r.shape), np.nan) for r in kernel.results]
            fine = np.isfinite(given[0]).all(axis=-1) & np.isfinite(given[1]).all(axis=-1)
            if fine.any():
                n = int(np.count_nonzero(fine))
                results = kernel.empty_results(n)
                part = [np.ascontiguousarray(x[fine], kernel.dtype) for x in given]
                solved = solve_states(kernel, part, results, (n,), 1, rank_asked)
                met.update(solved.counts)
                if with_status:
                    how[numbers[fine]] = worst([how[numbers[fine]], solved.status])
                for x, new in zip(found, results, strict=True):
                    x[fine] = new
            return found

        found = solve(some, np.arange(len(some[0])), rank_asked=with_status)
        if loops is not None:
            loops.resolve(some, found[:STATE], loops.kept[now], lambda *given, solve=solve: solve(*given)[:STATE])
        for x, new in zip((q[t + 1], v[t + 1], *(y[t] for y in beside)), found, strict=True):
            x[now] = new
        if feedback is not None:
            feedback.move(int(t) + 1, q[t + 1], v[t + 1], now)
        if with_status:
            status[t, now] = how
    return status, met
