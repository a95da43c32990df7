"""Calls of programs that the evaluator runs, which are kept for the next call.

States that a program does not solve, and rows that depend on one another, are dealt with on arrays that programs return
(`DirectCall.solved`).
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.policy import ACCURATE, ERROR_BOUND
from delassus.accuracy.rank import by_mass, least_squares, mass_condition
from delassus.accuracy.status import (
    EPSILON,
    TOLERANCE,
    DynamicsStatus,
    Iterated,
    Resolved,
    System,
    are_finite,
    iterations_of,
    resolve,
    warn_of,
    worst,
)
from delassus.algorithms.dynamics import ITERATIVE, OF_LEAST_NORM, UNCONSTRAINED
from delassus.algorithms.dynamics.proximal import ITERATIONS
from delassus.constraints import row_slices
from delassus.frozen import cached_property
from delassus.quantities.estimate import is_long
from delassus.quantities.evaluate import (
    JUDGED_ROWS,
    MASS_AND_ROWS,
    SystemStage,
    accurate,
    number_of_systems,
    require_independent,
    stage,
    warn_of_errors,
)
from delassus.quantities.planner.methods import AUTO
from delassus.quantities.quantity import DEPENDENCES, SOLUTIONS, Quantity
from delassus.quantities.request import Request
from delassus.runtime.any_kernel import evaluated_kernel
from delassus.runtime.code import is_known
from delassus.spatial.rotations import Array

T = TypeVar("T")


FACTORISED = frozenset({"dense", "ltl-osim", "kkt", "ltl", "ltl-soft"})
"""Methods that factorise the mass matrix: of long chains arrays are factorised, not those of a program."""


class Kept:
    """A program that direct calls run, with all that is known before their states are."""

    def __init__(self, asked: Request, quantity: Quantity, values: dict[str, Array]) -> None:
        """``values``: those of arguments that are the same in all of these calls."""
        self.request, self.quantity, self.values = asked, quantity, values
        self.arguments, self.control = asked.arguments, asked.control
        self.outputs, self.shapes = [o.name for o in asked.outputs], [asked.shape_of(o) for o in asked.outputs]
        self.sizes, self.rows = np.array([c.size for c in asked.constraints], dtype=int), row_slices(asked.constraints)
        is_whole = not isinstance(quantity.run, SystemStage)
        solves = is_whole and quantity.has_status
        self.is_dependent = solves and is_known(asked, "dependent", self._is_dependent)
        self.is_dense = is_whole and asked.method in FACTORISED and is_long(asked)
        self.is_dense &= not solves or number_of_systems(asked) > 0
        self.is_staged = self.is_dense or (self.is_dependent and quantity.name not in ("dynamics", "impulse"))
        self.is_left = self.is_staged or (self.is_dependent and asked.method not in OF_LEAST_NORM)  # its program
        self.size, self.used = len(values), 0

    def _is_dependent(self) -> bool:
        """Whether there are rows, and these depend on one another at almost all states."""
        asked = self.request
        return (asked.is_singular or not asked.knows_rank) and number_of_systems(asked) > 0

    @cached_property
    def kernel(self) -> Any:
        """What runs the program, made when it is first asked for: where rows depend on others, few states need it."""
        program = system_request(self.request) if self.is_staged else self.request
        kernel = evaluated_kernel(replace(program, error_dtype="float64") if self.quantity.has_status else program)
        self.size += kernel.operations.total
        return kernel

    @cached_property
    def entry(self) -> Any:
        """What calls the program, as machine code is called; `NotImplemented` where it leaves that to `computed`."""
        return self.kernel.entry


class _Cache:
    """Programs of the direct calls of late, by what was asked for."""

    def __init__(self) -> None:
        self._kept: dict[Any, Kept] = {}
        self._lock, self._time = threading.Lock(), itertools.count()

    def find(self, key: Any) -> Kept | None:
        """What is kept, or None."""
        try:
            found = self._kept.get(key)
        except Exception:  # a key that has no hash, or of users' classes that compare nothing
            return None
        if found is not None:
            found.used = next(self._time)
        return found

    def keep(self, key: Any, kept: Kept) -> None:
        """Keep it, and as few others as are too many with it: those that were used last stay."""
        if key is None:
            return
        with self._lock, suppress(TypeError):
            kept.used = next(self._time)
            self._kept[key] = kept
            room, number = MOST_OPERATIONS, 0
            for one, some in sorted(self._kept.items(), key=lambda pair: -pair[1].used):
                room, number = room - some.size, number + 1
                if number > MOST_KEPT or (room < 0 and number > 1):
                    del self._kept[one]


KEPT = _Cache()

MOST_KEPT, MOST_OPERATIONS = 512, 8_000_000
"""Programs that direct calls keep, and operations in all of these, at most; an operation takes 16 bytes."""


def kept_for(asked: Request) -> Kept:
    """The program of a request, kept by what that is."""
    if (found := KEPT.find(asked)) is None:
        KEPT.keep(asked, found := Kept(asked, asked.quantity, {}))
    return found


_ACCELERATIONS, _VELOCITIES = ["qdd", "forces"], ["v_next", "impulses"]
"""Outputs that are solutions of one system themselves, of an impact but for the velocities before it."""


class DirectCall:
    """A direct call: the program of its request, and its arguments.

    States of some quantities have a status: those that the program does not solve are solved in other ways, and
    ``resolved`` says how all were.
    """

    error_bound = ERROR_BOUND["float64"]
    tolerance, max_iterations = TOLERANCE, ITERATIONS
    wants_rank = True
    """Whether it matters which rows depend on others where the program's solution has all digits."""
    resolved: Resolved

    def __init__(self, kept: Kept, values: dict[str, Array], batch: tuple[int, ...]) -> None:
        self.kept, self.request, self.values, self.batch = kept, kept.request, values, batch

    def __reduce__(self) -> tuple[Any, ...]:
        return call_of, (self.request, self.values, self.batch)

    def run(self) -> dict[str, Array]:
        """Outputs by name, each (*batch, *shape); a warning where states are not solved, or have large errors."""
        if self.kept.quantity.has_status:
            solved, status, asked = self.solved(), self.resolved.status, self.request
            advice = f'compile(tree, constraints, "{asked.quantity.name}") says which with return_status=True.'
            warn_of(f"{asked.quantity.name} of {asked.tree.name!r}", Counter(status.ravel()), status.size, advice)
            return solved
        found = NotImplemented if self.kept.is_dense else self.kept.entry(*self.values.values())
        if found is NotImplemented:  # its first call, one of several axes, or large errors
            found, error = self.computed()
            if self.request.quantity.judges_rows:
                self._solve_by_least_squares(found, error)
            elif self.request.quantity.methods:
                self._judge(error)
        names = self.kept.outputs
        return {names[0]: found} if len(names) == 1 else dict(zip(names, found, strict=True))

    def computed(self) -> tuple[Any, Array]:
        """Results of a call of any batch, the one or a list, and estimates of their relative errors (*batch)."""
        kernel, batch, arrays = self.kept.kernel, self.batch, []
        for a, x in zip(self.kept.arguments, self.values.values(), strict=True):
            arrays.append(np.ascontiguousarray(np.broadcast_to(x, (*batch, *a.shape))))
        if self.kept.is_dense:
            return self._of_factors(arrays)
        found = [np.empty((*batch, *shape)) for shape in self.kept.shapes]
        rcond = kernel.compute(arrays, found, batch, None)
        with np.errstate(divide="ignore"):
            error = EPSILON / np.maximum(rcond[0], 0.0) if rcond else np.zeros(batch)
        return found[0] if len(found) == 1 else found, error

    def _of_factors(self, arrays: Sequence[Array]) -> tuple[Array, Array]:
        """Delassus matrix, or what is made of it, by the factor of the mass matrix of a long chain, and its errors."""
        kernel, batch = self.kept.kernel, self.batch
        found = [np.empty((*batch, *r.shape)) for r in kernel.results]
        kernel.compute(arrays, found, batch, None)
        M, J = found[:2]
        with np.errstate(all="ignore"):
            caused, _, G = by_mass(M, J, found[2])
            error = EPSILON * mass_condition(M)
            if self.request.quantity.needs_independent:
                error = error * mass_condition(G)
                G = np.linalg.inv(np.where(np.isfinite(error)[..., None, None], G, np.eye(G.shape[-1])))
        return (caused @ G if self.request.quantity.name == "consistent_inverse" else G), error

    def warn_of_states(
        self,
        found: Mapping[str, Array],
        known: NDArray[np.bool_] | bool = False,
        conflicting: NDArray[np.bool_] | bool = False,
    ) -> None:
        """Say how many states of outputs have errors, overflowed, or have rows in conflict; ``known`` ones aside."""
        _, error = self.computed()
        warn_of_errors(self.request, np.where(known, 0.0, error), ERROR_BOUND["float64"])
        failed = ~are_finite([*found.values()], self.batch) & ~np.asarray(known)
        counts = {DynamicsStatus.FAILED: failed, DynamicsStatus.CONFLICTING: conflicting & ~failed}
        numbers = {status: int(np.count_nonzero(x)) for status, x in counts.items()}
        whose = f"{self.request.quantity.name} of {self.request.tree.name!r}"
        warn_of(whose, numbers, error.size, "Its arrays say which.")

    def _solve_by_least_squares(self, found: Sequence[Array], error: Array) -> None:
        """Put solutions (*batch, m) and ranks (*batch) in the places of those of which the program is not certain."""
        flagged = ~(error <= ERROR_BOUND["float64"])
        if flagged.any():
            (G, typical), _ = self.evaluated(replace(self.request, quantity=JUDGED_ROWS, method=AUTO), flagged)
            x = np.broadcast_to(self.values["x"], found[0].shape)[flagged]
            with np.errstate(all="ignore"):
                found[0][flagged], found[1][flagged] = least_squares(G, typical, x)

    def _judge(self, error: Array) -> None:
        """Warn of states whose estimated error (*batch) is large; refuse dependent rows of what needs others."""
        flagged = ~(error <= ERROR_BOUND["float64"])
        if not flagged.any():
            return
        asked = self.request
        if asked.quantity.needs_independent and asked.constraints:
            (G, typical), _ = self.evaluated(replace(asked, quantity=JUDGED_ROWS, method=AUTO), flagged)
            require_independent(G, typical, np.argwhere(flagged))
        warn_of_errors(asked, error, ERROR_BOUND["float64"])

    def reported(self, make: Callable[[Any, dict[str, Array]], T]) -> T:
        """What users get: what ``make`` makes of the call and of its outputs, and that has the statuses if any."""
        return make(self, self.solved() if self.kept.quantity.has_status else self.run())

    def at(self, where: NDArray[np.bool_]) -> DirectCall:
        """The call at some of its states, (k,)."""
        shapes = {a.name: a.shape for a in self.kept.arguments}
        every = ((name, x, shapes.get(name, x.shape[1:])) for name, x in self.values.items())
        some = {name: np.broadcast_to(x, (*self.batch, *shape))[where] for name, x, shape in every}
        return DirectCall(self.kept, some, (int(np.count_nonzero(where)),))

    def evaluated(self, asked: Request, where: NDArray[np.bool_] | None = None) -> Any:
        """Results of a request of its robot and rows at some of its states, (k, *shape), and estimates of errors."""
        kept, at = kept_for(asked), self if where is None else self.at(where)
        return DirectCall(kept, {a.name: at.values[a.name] for a in kept.arguments}, at.batch).computed()

    def system(self, number: int = 0) -> System:
        """What forward dynamics or an impact solves at its states; the system of that number."""
        found, _ = self.evaluated(stage(self.request, number, "system"))
        return system_of(self.request, self.values, found, self.batch)

    def solved(self) -> dict[str, Array]:
        """Outputs by name, of states that have a status."""
        kept, batch = self.kept, self.batch
        if kept.is_left:
            results = [np.full((*batch, *shape), np.nan) for shape in kept.shapes]
            error = np.full(batch, np.inf)
        else:
            results, error = self.computed()
        found, iterated = results if isinstance(results, list) else [results], None
        flagged = np.asarray(~(error <= self.error_bound) | (kept.is_dependent and self.wants_rank))
        if flagged.any() and self._may_go_by_links:
            flagged = self._by_links(found, error, flagged)
        acts = np.ones((len(kept.sizes), *batch), dtype=bool)
        if "active" in self.values:
            for k, x in enumerate(flags_of(self.request, self.values, batch)):
                acts[k] = True if x is None else x != 0.0
        status = np.full(batch, DynamicsStatus.SOLVED, dtype=object)
        redundant = np.zeros((*batch, kept.sizes.sum()), dtype=bool)
        rank, errors = np.tensordot(kept.sizes, acts, 1), np.array(np.maximum(error, EPSILON))
        if flagged.any():
            with np.errstate(all="ignore"):
                outputs, last = self._rest(flagged, [x[flagged] for x in found], error[flagged])
            for x, y in zip(found, outputs, strict=True):
                x[flagged] = y
            status[flagged] = last.status
            rank[flagged], redundant[flagged], errors[flagged] = last.rank, last.redundant, last.error
            if last.iterated is not None:  # of all states
                iterated = Iterated._make(np.reshape(x, batch) for x in last.iterated)
        self.resolved = Resolved(found[0], found[min(1, len(found) - 1)], status, rank, redundant, errors, iterated)
        return dict(zip(kept.outputs, found, strict=True))

    @property
    def _may_go_by_links(self) -> bool:
        """Whether `pv-early` solves what `ltl` has not: hard rows that always act and are independent elsewhere."""
        asked, kept = self.request, self.kept
        return asked.method == "ltl" and not (
            kept.is_dependent or kept.is_dense or asked.options.active or any(asked.options.soft)
        )

    def _by_links(self, found: Sequence[Array], error: Array, flagged: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Solutions by `pv-early` in the places of those that are flagged; which states still are.

        Near the lock of gimbals on light links the mass matrix is almost singular, and its factors lose more digits.
        """
        with np.errstate(all="ignore"):
            outputs, wrong = self.evaluated(replace(self.request, method="pv-early"), flagged)
        is_good, good = wrong <= self.error_bound, flagged.copy()
        good[flagged] = is_good
        for x, y in zip(found, outputs if isinstance(outputs, list) else [outputs], strict=True):
            x[good] = y[is_good]
        error[good] = wrong[is_good]
        return flagged & ~good

    def _rest(self, where: NDArray[np.bool_], found: Sequence[Array], error: Array) -> tuple[Sequence[Array], Resolved]:
        """Outputs of some states (k), of which the program has ``found`` some, and how their systems were solved."""
        asked, at = self.request, self.at(where)
        (n,) = at.batch
        outputs, every = asked.outputs, list[Resolved]()
        differentiates, names = any(o.is_derivative for o in outputs), [o.name for o in outputs]
        for k in range(number_of_systems(asked)):
            system = at.system(k)
            if self.kept.is_dense:
                qdd, forces, wrong = _by_factors(system, at, k)
            elif names in (_ACCELERATIONS, _VELOCITIES):
                if self.kept.is_left and np.any(system.rank == found[1].shape[-1]):
                    found, error = at.computed()
                change = found[0] - at.values["v"] if names == _VELOCITIES else found[0]
                qdd, forces, wrong = np.array(change), np.array(found[1]), np.array(error)
            elif asked.has_dependent_rows:  # what programs solve does not count
                m = sum(system.sizes)
                qdd, forces, wrong = np.full((n, asked.tree.nv), np.nan), np.full((n, m), np.nan), np.full(n, np.inf)
            else:
                (qdd, forces), wrong = at.evaluated(stage(asked, k, "solution"))
            iterated = self._iterated(system, at, k, qdd, forces)
            others = [partial(_accurate, at, k)]
            if not all(asked.options.soft):  # another order of elimination errs at other states, and takes little
                others.insert(0, partial(_dense, at, k))
            every.append(resolve(system, qdd, forces, wrong, others, self.error_bound, iterated))
            at.values[SOLUTIONS[k]] = np.concatenate([every[k].qdd, every[k].forces], axis=-1)
            if differentiates:
                m, dependent = every[k].forces.shape[-1], every[k].dependent
                at.values[DEPENDENCES[k]] = np.zeros((n, 1 + 3 * m * m + m)) if dependent is None else dependent
        if names == _ACCELERATIONS:
            return (every[0].qdd, every[0].forces), every[0]
        results, wrong = at.evaluated(stage(asked, len(every)))
        results = results if isinstance(results, list) else [results]
        status = worst([x.status for x in every]) if every else np.full(n, DynamicsStatus.SOLVED, dtype=object)
        status[~are_finite(results, (n,))] = DynamicsStatus.FAILED
        wrong = np.max([np.where(differentiates, wrong, 0.0), *(x.error for x in every)], axis=0)
        unique = (status == DynamicsStatus.SOLVED) | (status == DynamicsStatus.INACCURATE)
        status[unique & ~(wrong <= self.error_bound)] = DynamicsStatus.INACCURATE
        for x, output in zip(results, outputs, strict=True):
            if output.is_derivative:
                x[status == DynamicsStatus.FAILED] = np.nan
            if output.needs_independent:
                x[~unique] = np.nan
        if not every:
            none = np.zeros((n, 0))
            return results, Resolved(none, none, status, np.zeros(n, dtype=int), none != 0.0, wrong)
        last = every[-1]
        return results, replace(last, status=status, error=np.where(unique, wrong, last.error))

    def _iterated(self, system: System, at: DirectCall, k: int, qdd: Array, forces: Array) -> Iterated | None:
        """Report of proximal iterations; solutions after fewer of them take the places of those that need more."""
        asked = self.request
        if asked.method not in ITERATIVE or not system.sizes:
            return None
        (tau, b, *fewer), _ = at.evaluated(stage(asked, k, "iterations"))
        by_joints = (np.swapaxes(system.caused, -1, -2) @ tau[..., None])[..., 0]
        asked_for = system.G, system.deficit, system.gamma, by_joints
        iterated = iterations_of(*asked_for, b, self.tolerance, self.max_iterations)
        if self.max_iterations < ITERATIONS:
            left = ~iterated.converged
            qdd[left], forces[left] = (x[left] for x in fewer[2 * self.max_iterations - 2 :][:2])
        missed = system.deficit - (system.G @ forces[..., None])[..., 0]
        iterated.residual[:] = np.linalg.norm(missed, axis=-1)
        return iterated


def _dense(at: DirectCall, number: int, where: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """Solutions of one of the systems of a request at some states by the dense saddle point, and their errors."""
    if is_long(at.request):
        some = at.at(where)
        return _by_factors(some.system(number), some, number)
    (qdd, forces), error = at.evaluated(stage(replace(at.request, method="kkt"), number, "solution"), where)
    return qdd, forces, error


def _accurate(at: DirectCall, number: int, where: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
    """The same in extended precision."""
    asked = at.request
    if asked.method not in UNCONSTRAINED:
        method = "kkt" if any(asked.options.soft) else "pv-early" if is_long(asked) else ACCURATE
        asked = replace(asked, method=method)
    return accurate(stage(asked, number, "solution"), at.values, where)


def _by_factors(system: System, at: DirectCall, number: int) -> tuple[Array, Array, Array]:
    """Accelerations, forces and their errors, by Cholesky's factors of ``M`` and ``G`` of long chains."""
    n, m = len(system.M), len(system.relaxed[0])
    forces = by_mass(system.relaxed, np.zeros((n, 0, m)), system.deficit)[1]
    qdd = system.free + (system.caused @ forces[..., None])[..., 0]
    at = DirectCall(at.kept, {**at.values, SOLUTIONS[number]: np.concatenate([qdd, forces], axis=-1)}, at.batch)
    return qdd, forces, at.evaluated(stage(at.request, number, "judged"))[1]


def system_request(asked: Request) -> Request:
    """Request of what the factor of the mass matrix, and all else that a long chain's is used for, are made of."""
    if asked.quantity.has_status:
        return stage(asked, 0, "system")
    return replace(asked, quantity=MASS_AND_ROWS, method=AUTO)


def system_of(
    asked: Request, values: Mapping[str, Array], found: Sequence[Array], batch: tuple[int, ...], first: int = 0
) -> System:
    """That of the arrays of a "system", of constraints of a request from the ``first`` one on."""
    sizes, flags = [c.size for c in asked.constraints], flags_of(asked, values, batch)
    return System(*found, sizes=sizes[first:], softness=asked.options.soft[first:], flags=flags[first:])


def flags_of(asked: Request, values: Mapping[str, Array], batch: tuple[int, ...]) -> list[Array | None]:
    """Flags (*batch) of each constraint; None of one that always acts."""
    if "active" not in values:
        return [None] * len(asked.constraints)
    each = iter(np.moveaxis(np.asarray(values["active"]), -1, 0))
    return [np.broadcast_to(next(each), batch) if c.holds else None for c in asked.constraints]


def call_of(asked: Request, values: Mapping[str, NDArray[Any]], batch: tuple[int, ...]) -> DirectCall:
    """A call in another process, or of states that a kernel has not solved."""
    kept = kept_for(asked)
    return DirectCall(kept, {a.name: np.asarray(values[a.name], dtype=float) for a in kept.arguments}, batch)
