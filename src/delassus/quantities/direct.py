"""Direct calls: what users hand over, checked, and what runs it.

An evaluator runs the program of what is asked for, which is kept for the next call (`DirectCall`). Derivatives of
dynamics, sensors, controllers, "proximal" and the mass matrix's factors of long chains are still on NumPy
(`DirectRequest`): batches of few states; machine code runs those of `COMPILED_FROM` states and more. Machine code runs
all arrays of other libraries.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.policy import ERROR_BOUND
from delassus.accuracy.status import EPSILON, DynamicsStatus, Resolved, System, are_finite, resolve, warn_of
from delassus.algorithms.dynamics import ITERATIVE
from delassus.constraints import Constraint, Frame, check_constraints
from delassus.errors import ConfigurationError, shown
from delassus.frozen import named_tuple
from delassus.model.check import library_of
from delassus.model.topology import check_tree
from delassus.model.tree import Tree
from delassus.quantities.arguments import as_arguments, checked_values, each_row
from delassus.quantities.checks import with_springs
from delassus.quantities.estimate import for_numpy, is_long
from delassus.quantities.evaluate import (
    IMPACT,
    JUDGED_ROWS,
    SADDLE,
    NumpyRequest,
    accurate,
    require_independent,
    warn_of_errors,
)
from delassus.quantities.keywords import Constraints
from delassus.quantities.quantity import Quantity
from delassus.quantities.request import AUTO, Request, request
from delassus.spatial.rotations import Array

T = TypeVar("T")


KERNELS: list[Callable[..., Any]] = []
"""What compiles requests, in numbers of that type and for that reason, and what makes kernels of requests that the
evaluator runs; the package says them when it is imported."""


COMPILED_FROM = 20_000
"""States of a batch from which machine code runs it.

As many take NumPy as long as compiling takes: 5 to 10 ns for an operation of a state against 50 to 100 µs for an
operation of the program, whatever robot and quantity are; see ``delassus bench direct``.
"""


class DirectRequest(NumpyRequest):
    """A request and a batch of states, large ones of which machine code runs, but for the states that it flags."""

    @property
    def is_compiled(self) -> bool:
        """Whether machine code runs it; iterations that are watched, and what has a rank, are on NumPy."""
        return prod(self.batch) >= COMPILED_FROM and self.request.knows_rank

    def run(self) -> dict[str, Array]:
        """Outputs by name, as `NumpyRequest.run`; a warning for each status that says that states are not solved."""
        found = self._run()
        if self.request.has_status:
            what = f'compile(tree, constraints, "{self.request.quantity.name}")'
            self.warn_of_status(self.status, f"{what} says which with return_status=True.")
        return found

    def _run(self) -> dict[str, Array]:
        if not self.is_compiled:
            return super().run()
        make, arrays = KERNELS[0], dict[str, Array]()
        asked = self.request if self.request.solves else replace(self.request, error_dtype="")
        kernel = make(asked, "float64", ", for large batches")
        for a in self.request.arguments:
            x = self.values[a.name] if a.shape else self.values[a.name][..., 0]
            arrays[a.name] = np.ascontiguousarray(np.broadcast_to(x, (*self.batch, *a.shape)))
        results = kernel.empty_results(self.batch)
        results = results if isinstance(results, tuple) else (results,)
        rcond = kernel.compute([*arrays.values()], results, self.batch, None)
        with np.errstate(divide="ignore"):
            error = np.finfo(float).eps / np.maximum(rcond[0], 0.0) if rcond else np.zeros(self.batch)
        flagged = ~(error <= self.error_bound)
        some = {name: x[flagged] for name, x in arrays.items()}
        rest = None
        if flagged.any():
            rest = NumpyRequest(self.request, some, (int(np.count_nonzero(flagged)),))
            rest.error_bound = self.error_bound
            for result, x in zip(results, rest.run().values(), strict=True):
                result[flagged] = x
        if self.request.has_status:
            last = None if rest is None else replace(rest.resolved[-1], status=rest.status)
            self.resolved.append(_all_resolved(self, results, error, flagged, last))
        return dict(zip((o.name for o in self.request.outputs), results, strict=True))

    def reported(self, make: Callable[[Any, dict[str, Array]], T]) -> T:
        """What users get: what ``make`` makes of the request and of its outputs, and that has statuses."""
        return make(self, self._run())


def _all_resolved(
    call: Any, results: Sequence[Array], error: Array, flagged: NDArray[np.bool_], last: Resolved | None
) -> Resolved:
    """How all states of a call were solved: by a program, whose rows are independent, or those flagged by the rest."""
    sizes = np.array([c.size for c in call.request.constraints], dtype=int)
    acts = np.broadcast_to(call.values.get("active", 1.0), (*call.batch, len(sizes))) != 0.0
    status = np.full(call.batch, DynamicsStatus.SOLVED, dtype=object)
    redundant = np.zeros((*call.batch, sizes.sum()), dtype=bool)
    rank, error = np.array(acts @ sizes), np.array(np.maximum(error, EPSILON))
    if last is not None:
        status[flagged] = last.status
        rank[flagged], redundant[flagged], error[flagged] = last.rank, last.redundant, last.error
    return Resolved(results[0], results[min(1, len(results) - 1)], status, rank, redundant, error)


def evaluated(asked: Request, call: DirectCall, where: NDArray[np.bool_]) -> Any:
    """Results of a request of the robot and rows of a call at some of its states, (k, *shape), and error estimates."""
    kept = _kept(asked)
    some = {a.name: np.broadcast_to(call.values[a.name], (*call.batch, *a.shape))[where] for a in kept.arguments}
    return DirectCall(kept, some, (int(np.count_nonzero(where)),)).computed()


class CompiledRequest:
    """A request whose arguments are arrays of JAX or PyTorch: its kernel makes the results, as arrays of the same."""

    def __init__(self, asked: Request, values: Mapping[str, Any]) -> None:
        self.request, self._values = asked, values

    def run(self) -> dict[str, Any]:
        """Outputs by name, as `NumpyRequest.run`."""
        dtypes = {str(x.dtype).rpartition(".")[2] for x in self._values.values() if library_of(type(x))}
        make = KERNELS[0]
        dtype = "float32" if dtypes == {"float32"} else "float64"
        kernel = make(self.request, dtype, ", for arrays of another library")
        for a in self.request.arguments:
            if a.name not in self._values:
                raise ConfigurationError(a.owner or a.name, f"an array of shape (..., {a.size})", "none", "Pass it.")
        found = kernel(*(each_row(a, self._values[a.name]) for a in self.request.arguments))
        outputs = self.request.outputs
        return dict(zip((o.name for o in outputs), found if len(outputs) > 1 else (found,), strict=True))

    def reported(self, make: object) -> Any:
        """All outputs in a named tuple, in the place of what ``make`` makes, as statuses are not arrays of numbers."""
        found = self.run()
        return named_tuple(*found)(*found.values())

    def refusal(self) -> ConfigurationError:
        """Error of what needs more than a kernel returns."""
        came = " and ".join(sorted({library_of(type(x)) for x in self._values.values()} - {""}))
        return ConfigurationError("arrays", "NumPy arrays here", f"arrays of {came}", "Convert them.")

    def __getattr__(self, name: str) -> Any:
        raise self.refusal()


def bind(
    tree: Tree,
    constraints: Constraints,
    quantity: Quantity,
    states: Mapping[str, Any],
    method: str | None = AUTO,
    derivative: str = "",
    /,
    **given: Any,
) -> DirectCall:
    """A direct call, or one of a ``derivative`` by formulas: all of its input checked.

    ``given`` are its keywords. What stands for joint forces is ``"tau"`` in ``states``, whatever its name.
    """
    key = _key(tree, constraints, quantity, method, derivative, given)
    if (kept := _KEPT.find(key)) is not None:
        named = states
        if kept.control != "tau" and "tau" in states:
            named = {kept.control if name == "tau" else name: x for name, x in states.items()}
        if not any(map(library_of, map(type, named.values()))):
            return kept.call(*checked_values(tree, kept.arguments, named, kept.values))
    asked, values = _asked(tree, constraints, quantity, method, derivative, given)
    asked = for_numpy(asked) if quantity.has_status else asked
    states = {asked.control if name == "tau" else name: x for name, x in states.items()}
    kinds: list[Any] = [type(x) for x in (*states.values(), *values.values())]
    if any(map(library_of, kinds)):
        compiled: Any = CompiledRequest(asked, {**states, **values})
        return compiled  # type: ignore[no-any-return]
    if not is_evaluated(asked):
        on_numpy: Any = DirectRequest(asked, *checked_values(tree, asked.arguments, {**states, **values}))
        return on_numpy  # type: ignore[no-any-return]
    arrays, batch = checked_values(tree, asked.arguments, {**states, **values})
    if key is None:
        return _kept(asked).call(arrays, batch)
    kept = Kept(asked, quantity, {name: arrays[name] for name in values})
    _KEPT.keep(key, kept)
    return kept.call(arrays, batch)


def _kept(asked: Request) -> Kept:
    """The program of a request, kept by what that is."""
    if (found := _KEPT.find(asked)) is None:
        _KEPT.keep(asked, found := Kept(asked, asked.quantity, {}))
    return found


def _asked(
    tree: Tree,
    constraints: Constraints,
    quantity: Quantity,
    method: str | None,
    derivative: str,
    given: dict[str, Any],
) -> tuple[Request, dict[str, Any]]:
    """Request of a direct call, and the values of arguments that its keywords are."""
    check_tree(tree)
    for name in ("constraints", "method"):
        if name in given:
            raise ConfigurationError(name, f"none with {quantity.name!r}", shown(given[name]), "Leave it out.")
    checked = with_springs(tree, check_constraints(tree, constraints), quantity, given)
    held = given.get("contacts")
    held = () if held is None else check_constraints(tree, held)
    keywords, values = as_arguments(checked, given, held, "posture" in quantity.options)
    asked = request(tree, checked, quantity, method=method, **keywords)
    return (asked.differentiated(derivative, by=quantity.inputs) if derivative else asked), values


FACTORISED = frozenset({"dense", "ltl-osim", "kkt", "ltl", "ltl-soft"})
"""Methods that factorise the mass matrix: programs of those of long chains take up to minutes to make."""


def is_evaluated(asked: Request) -> bool:
    """Whether the evaluator runs it; `DirectRequest` says what is on NumPy."""
    quantity = asked.quantity
    if asked.method in FACTORISED and is_long(asked):
        return False
    if quantity.has_status:
        return quantity.name in ("dynamics", "impulse") and asked.method not in ITERATIVE
    return not quantity.judges_rows and asked.options.tasks is None and "sweeps" not in quantity.options


class Kept:
    """A program that direct calls run, with all that is known before their states are."""

    __slots__ = (
        "arguments",
        "control",
        "entry",
        "is_dependent",
        "kernel",
        "outputs",
        "quantity",
        "request",
        "shapes",
        "size",
        "used",
        "values",
    )

    def __init__(self, asked: Request, quantity: Quantity, values: dict[str, Array]) -> None:
        """``values``: those of arguments that are the same in all of these calls."""
        self.request, self.quantity, self.values = asked, quantity, values
        self.arguments, self.control = asked.arguments, asked.control
        self.outputs, self.shapes = [o.name for o in asked.outputs], [asked.shape_of(o) for o in asked.outputs]
        self.kernel = KERNELS[1](replace(asked, error_dtype="float64" if quantity.has_status else ""))
        self.entry, self.size = self.kernel.entry, self.kernel.operations.total + len(values)
        self.used = 0
        self.is_dependent = quantity.has_status and not asked.knows_rank  # rows at almost all states

    def call(self, values: dict[str, Array], batch: tuple[int, ...]) -> DirectCall:
        """A call at these values of arguments."""
        return (SolvedCall if self.quantity.has_status else DirectCall)(self, values, batch)


class _Cache:
    """Programs of the direct calls of late, by what was asked for."""

    def __init__(self) -> None:
        self._kept: dict[Any, Kept] = {}
        self._lock, self._time = threading.Lock(), itertools.count()

    def find(self, key: Any) -> Kept | None:
        """What is kept, or None."""
        try:
            found = self._kept.get(key)
        except TypeError:  # a key that has no hash
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


_KEPT = _Cache()

MOST_KEPT, MOST_OPERATIONS = 512, 8_000_000
"""Programs that direct calls keep, and operations in all of these, at most; an operation takes 16 bytes."""

_PLAIN = frozenset({type(None), str, bool, int, float, Frame})
"""Types of what is the same wherever it is equal to something of its type."""


def _key(
    tree: Tree, constraints: Constraints, quantity: Quantity, method: Any, derivative: str, given: Mapping[str, Any]
) -> Any:
    """Key of what is kept for a call; None of one with arrays that its program takes beside its states."""
    plain = []
    for name, x in given.items():
        kind = type(x)
        if kind is list or kind is tuple:
            if not _PLAIN.issuperset(map(type, x)):
                return None
            plain += [name, *map(type, x), *x]
        elif kind in _PLAIN:
            plain += [name, kind, x]
        else:
            return None
    kind = type(constraints)
    if kind is list or kind is tuple:
        constraints = tuple(constraints)  # type: ignore[arg-type]
    elif constraints is not None and not isinstance(constraints, Constraint):
        return None
    return id(quantity), method, derivative, tree, constraints, kind is tuple, *plain


class DirectCall:
    """A direct call: the program of its request, and its arguments."""

    __slots__ = ("batch", "kept", "values")

    def __init__(self, kept: Kept, values: dict[str, Array], batch: tuple[int, ...]) -> None:
        self.kept, self.values, self.batch = kept, values, batch

    @property
    def request(self) -> Request:
        """What is asked for."""
        return self.kept.request

    def run(self) -> dict[str, Array]:
        """Outputs by name, each (*batch, *shape)."""
        found = self.kept.entry(*self.values.values())
        if found is NotImplemented:  # its first call, one of several axes, or large errors
            found, error = self.computed()
            if self.request.quantity.methods:
                self._judge(error)
        names = self.kept.outputs
        return {names[0]: found} if len(names) == 1 else dict(zip(names, found, strict=True))

    def computed(self) -> tuple[Any, Array]:
        """Results of a call of any batch, the one or a list, and estimates of their relative errors (*batch)."""
        kernel, batch, arrays = self.kept.kernel, self.batch, []
        for a, x in zip(self.kept.arguments, self.values.values(), strict=True):
            arrays.append(np.ascontiguousarray(np.broadcast_to(x, (*batch, *a.shape))))
        found = [np.empty((*batch, *shape)) for shape in self.kept.shapes]
        rcond = kernel.compute(arrays, found, batch, None)
        with np.errstate(divide="ignore"):
            error = EPSILON / np.maximum(rcond[0], 0.0) if rcond else np.zeros(batch)
        return found[0] if len(found) == 1 else found, error

    def warn_of_states(self, found: Mapping[str, Array], known: NDArray[np.bool_]) -> None:
        """Say how many states of outputs have large errors or overflowed; those that are ``known`` aside."""
        _, error = self.computed()
        warn_of_errors(self.request, np.where(known, 0.0, error), ERROR_BOUND["float64"])
        failed = int(np.count_nonzero(~are_finite([*found.values()], self.batch) & ~known))
        whose = f"{self.request.quantity.name} of {self.request.tree.name!r}"
        warn_of(whose, {DynamicsStatus.FAILED: failed}, error.size, "Its arrays say which.")

    def _judge(self, error: Array) -> None:
        """Warn of states whose estimated error (*batch) is large; refuse dependent rows of what needs others."""
        flagged = ~(error <= ERROR_BOUND["float64"])
        if not flagged.any():
            return
        asked = self.request
        if asked.quantity.needs_independent and asked.constraints:
            (G, typical), _ = evaluated(replace(asked, quantity=JUDGED_ROWS, method=AUTO), self, flagged)
            require_independent(G, typical, np.argwhere(flagged))
        warn_of_errors(asked, error, ERROR_BOUND["float64"])

    def reported(self, make: Callable[[Any, dict[str, Array]], T]) -> T:
        """What users get: what ``make`` makes of the request and of its outputs."""
        return make(self, self.run())


class SolvedCall(DirectCall):
    """A direct call whose states have a status; those that its program does not solve are solved in other ways."""

    __slots__ = ("error_bound", "resolved")

    def __init__(self, kept: Kept, values: dict[str, Array], batch: tuple[int, ...]) -> None:
        super().__init__(kept, values, batch)
        self.error_bound, self.resolved = ERROR_BOUND["float64"], list[Resolved]()

    def __reduce__(self) -> tuple[Any, ...]:
        return solved_call, (self.request, self.values, self.batch)

    def run(self) -> dict[str, Array]:
        """Outputs by name; a warning for each status that says that states are not solved."""
        found = self.solved()
        asked, status = self.request, self.resolved[-1].status
        advice = f'compile(tree, constraints, "{asked.quantity.name}") says which with return_status=True.'
        warn_of(f"{asked.quantity.name} of {asked.tree.name!r}", Counter(status.ravel()), status.size, advice)
        return found

    def solved(self) -> dict[str, Array]:
        """Outputs by name."""
        (first, forces), error = self.computed()
        flagged, rest = np.asarray(~(error <= self.error_bound) | self.kept.is_dependent), None
        if flagged.any():
            with np.errstate(all="ignore"):
                rest = self._rest(flagged, first, forces, error)
            first[flagged], forces[flagged] = rest.qdd + self._start(flagged), rest.forces
        self.resolved.append(_all_resolved(self, (first, forces), error, flagged, rest))
        return dict(zip(self.kept.outputs, (first, forces), strict=True))

    @property
    def status(self) -> NDArray[np.object_]:
        """Of each state (*batch), once it is solved."""
        return self.resolved[-1].status

    def _start(self, where: NDArray[np.bool_]) -> Array | float:
        """What the first result of states is more than a change: velocities before an impact."""
        if not self._is_impact:
            return 0.0
        return np.asarray(np.broadcast_to(self.values["v"], (*self.batch, self.request.tree.nv))[where])

    @property
    def _is_impact(self) -> bool:
        return self.request.quantity.name == "impulse"

    def _rest(self, where: NDArray[np.bool_], first: Array, forces: Array, error: Array) -> Resolved:
        """Solutions of some states (k)."""
        some = {name: x[where] for name, x in whole(self).items()}
        call = SolvedCall(self.kept, some, (int(np.count_nonzero(where)),))
        call.error_bound = self.error_bound
        change = np.array(first[where] - self._start(where))
        return resolve(system_at(call), change, np.array(forces[where]), np.array(error[where]), call)

    def other(self, where: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        """Accelerations, forces and their relative error at the states chosen (k), by the dense saddle point."""
        (first, forces), error = evaluated(replace(self.request, method="kkt"), self, where)
        return first - self._start(where), forces, error

    def accurate(self, where: NDArray[np.bool_]) -> tuple[Array, Array, Array]:
        """The same in extended precision."""
        return accurate(self.request, self.values, where, self._is_impact, any(self.request.options.soft))

    def reported(self, make: Callable[[Any, dict[str, Array]], T]) -> T:
        """What users get: what ``make`` makes of the request and of its outputs, and that has statuses."""
        return make(self, self.solved())


def whole(call: Any) -> dict[str, Array]:
    """Values of arguments of a call, or of a request on NumPy, at all states (*batch, *shape)."""
    given = ((a.name, call.values[a.name], (*call.batch, *a.shape)) for a in call.request.arguments)
    return {name: np.broadcast_to(x, shape) for name, x, shape in given}


def system_at(call: Any) -> System:
    """What forward dynamics or an impact solves, at the states of a call, or of a request on NumPy."""
    asked, batch = call.request, call.batch
    quantity = IMPACT if asked.quantity.name == "impulse" else SADDLE
    kept = _kept(replace(asked, quantity=quantity, method=AUTO, error_dtype="", derivative=()))
    found, _ = DirectCall(kept, {name: x for name, x in whole(call).items()}, batch).computed()
    sizes, active = [c.size for c in asked.constraints], call.values.get("active")
    flags = [None if active is None else np.broadcast_to(active[..., k], batch) for k in range(len(sizes))]
    arrays = dict(zip(kept.outputs, found, strict=True))
    return System(**arrays, sizes=sizes, softness=asked.options.soft, flags=flags)


def solved_call(
    asked: Request, values: dict[str, Array], batch: tuple[int, ...], error_bound: float = ERROR_BOUND["float64"]
) -> SolvedCall:
    """A call in another process, or of states that a kernel has not solved."""
    call = SolvedCall(_kept(asked), values, batch)
    call.error_bound = error_bound
    return call
