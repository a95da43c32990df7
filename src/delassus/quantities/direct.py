"""Direct calls: what users hand over, checked, and what runs it.

An evaluator runs the program of what is asked for, which is kept for the next call (`DirectCall`). Solutions with a
status, and what iterates or judges rows, are still on NumPy (`DirectRequest`): batches of few states; machine code runs
those of `COMPILED_FROM` states and more, or of fewer that iterate. Machine code runs all arrays of other libraries.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from delassus.accuracy.policy import for_numpy
from delassus.accuracy.status import DynamicsStatus, Resolved
from delassus.algorithms.inputs import CONFIGURATIONS, inputs_of
from delassus.constraints import ROW_LAYOUT, Argument, Constraint, Frame, check_constraints
from delassus.errors import ConfigurationError, ConstraintError, shown, unknown_name
from delassus.frozen import named_tuple
from delassus.model.check import common_batch, finite_array, library_of, normalised, real_array
from delassus.model.topology import check_tree
from delassus.model.tree import Tree
from delassus.quantities.checks import WEIGHTS, check_damping, check_positive, one_each, with_springs
from delassus.quantities.evaluate import EPSILON, NumpyRequest
from delassus.quantities.gains import check_gain
from delassus.quantities.options import ConstrainedMotion, Constraints
from delassus.quantities.quantity import Quantity
from delassus.quantities.request import AUTO, Request, request
from delassus.spatial.rotations import Array

T = TypeVar("T")

NONE: Mapping[str, Any] = MappingProxyType({})

LISTS = {"rows": ("Rows(link, m) constraint(s)", "K"), "placements": ("Frame(link, given=…)", "p")}
"""Keywords that hold one array for each argument: what asks for them, and what advice calls one."""

KEYWORDS = (
    *ConstrainedMotion.__annotations__, "compliance", "frames", "reference", "hold", "independent", "output",
    "sensors", "integrator", "restitution", "impacts", "motors", "weights", "friction", "contacts", "impedance",
    "posture", "posture_kp", "posture_kd", "limits",
)  # fmt: skip
"""What the direct functions take beside states."""


KERNELS: list[Callable[..., Any]] = []
"""What compiles requests, in numbers of that type and for that reason, and what makes kernels of requests that the
evaluator runs; the package says them when it is imported."""


COMPILED_FROM = 20_000
"""States of a batch from which machine code runs it.

As many take NumPy as long as compiling takes: 5 to 10 ns for an operation of a state against 50 to 100 µs for an
operation of the program, whatever robot and quantity are; see ``delassus bench direct``.
"""

PASSES = 20
"""How often a batch runs the operations of iterations, about: as long as its slowest states take."""


class DirectRequest(NumpyRequest):
    """A request and a batch of states, large ones of which machine code runs, but for the states that it flags."""

    @property
    def is_compiled(self) -> bool:
        """Whether machine code runs it; iterations that are watched, and what has a rank, are on NumPy."""
        passes = PASSES if self.request.iterates else 1
        return prod(self.batch) * passes >= COMPILED_FROM and self.request.knows_rank

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
        rest = NumpyRequest(self.request, some, (int(np.count_nonzero(flagged)),))
        rest.error_bound, rest.places = self.error_bound, np.argwhere(flagged)
        if flagged.any():
            for result, x in zip(results, rest.run().values(), strict=True):
                result[flagged] = x
        if self.request.has_status:
            self.resolved.append(self._all_resolved(results, error, flagged, rest))
        return dict(zip((o.name for o in self.request.outputs), results, strict=True))

    def reported(self, make: Callable[[Any, dict[str, Array]], T]) -> T:
        """What users get: what ``make`` makes of the request and of its outputs, and that has statuses."""
        return make(self, self._run())

    def _all_resolved(
        self, results: Sequence[Array], error: Array, flagged: NDArray[np.bool_], rest: NumpyRequest
    ) -> Resolved:
        """How all states were solved: by machine code, whose rows are independent, or by the ``rest``."""
        sizes = np.array([c.size for c in self.constraints], dtype=int)
        acts = np.broadcast_to(self.values.get("active", 1.0), (*self.batch, len(sizes))) != 0.0
        status = np.full(self.batch, DynamicsStatus.SOLVED, dtype=object)
        redundant = np.zeros((*self.batch, sizes.sum()), dtype=bool)
        rank, error = acts @ sizes, np.maximum(error, np.finfo(float).eps)
        if flagged.any():
            status[flagged], last = rest.status, rest.resolved[-1]
            rank[flagged], redundant[flagged], error[flagged] = last.rank, last.redundant, last.error
        return Resolved(results[0], results[min(1, len(results) - 1)], status, rank, redundant, error)


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
        found = kernel(*(_each_row(a, self._values[a.name]) for a in self.request.arguments))
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
) -> Any:
    """A direct call, or one of a ``derivative`` by formulas: all of its input checked.

    ``given`` are its keywords. What stands for joint forces is ``"tau"`` in ``states``, whatever its name.
    """
    key = _key(tree, constraints, quantity, method, derivative, given)
    if (kept := _KEPT.find(key)) is not None:
        named = {kept.control if name == "tau" else name: x for name, x in states.items()}
        if not any([library_of(type(x)) for x in named.values()]):
            return DirectCall(kept, *checked_values(tree, kept.arguments, named, kept.values))
    asked, values = _asked(tree, constraints, quantity, method, derivative, given)
    states = {asked.control if name == "tau" else name: x for name, x in states.items()}
    kinds: list[Any] = [type(x) for x in (*states.values(), *values.values())]
    if any(map(library_of, kinds)):
        return CompiledRequest(asked, {**states, **values})
    if not is_evaluated(asked):
        return DirectRequest(for_numpy(asked), *checked_values(tree, asked.arguments, {**states, **values}))
    arrays, batch = checked_values(tree, asked.arguments, {**states, **values})
    kept = Kept(asked, quantity, {name: arrays[name] for name in values})
    _KEPT.keep(key, kept)
    return DirectCall(kept, arrays, batch)


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


def is_evaluated(asked: Request) -> bool:
    """Whether the evaluator runs it; what has a status, iterates or judges rows is on NumPy."""
    quantity = asked.quantity
    return not (quantity.inverts_mass or quantity.has_status or asked.iterates or asked.options.motors is not None)


class Kept:
    """A program that direct calls run, with all that is known before their states are."""

    __slots__ = ("arguments", "control", "entry", "kernel", "outputs", "quantity", "request", "shapes", "size", "values")

    def __init__(self, asked: Request, quantity: Quantity, values: dict[str, Array]) -> None:
        """``values``: those of arguments that are the same in all of these calls."""
        self.request, self.quantity, self.values = asked, quantity, values
        self.arguments, self.control = asked.arguments, asked.control
        self.outputs = [o.name for o in asked.outputs]
        self.kernel = KERNELS[1](replace(asked, error_dtype=""))
        self.entry, self.size = self.kernel.entry, self.kernel.operations.total + len(values)


class _Cache:
    """Programs of the direct calls of late, by what was asked for."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Any, Kept] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, key: Any) -> Kept | None:
        """What is kept, or None."""
        try:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
        except (KeyError, TypeError):  # taken away meanwhile; a key that has no hash
            return None
        return found

    def keep(self, key: Any, kept: Kept) -> None:
        """Keep it, and as few others as are too many with it."""
        with self._lock, suppress(TypeError):
            if key is not None:
                self._kept[key] = kept
            sizes = [x.size for x in self._kept.values()]
            while self._kept and (len(sizes) > MOST_KEPT or sum(sizes) > MOST_OPERATIONS):
                self._kept.popitem(last=False)
                del sizes[0]


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
        if found is NotImplemented:  # its first call, or one of several axes
            found, _ = self.computed()
        names = self.kept.outputs
        return {names[0]: found} if len(names) == 1 else dict(zip(names, found, strict=True))

    def computed(self) -> tuple[Any, Array]:
        """Results of a call of any batch, as kernels return them, and estimates of their relative errors (*batch)."""
        kernel, batch, arrays = self.kept.kernel, self.batch, []
        for a, x in zip(self.kept.arguments, self.values.values(), strict=True):
            arrays.append(np.ascontiguousarray(np.broadcast_to(x, (*batch, *a.shape))))
        found = kernel.empty_results(batch)
        rcond = kernel.compute(arrays, found if isinstance(found, tuple) else (found,), batch, None)
        with np.errstate(divide="ignore"):
            return found, EPSILON / np.maximum(rcond[0], 0.0) if rcond else np.zeros(batch)

    def reported(self, make: Callable[[Any, dict[str, Array]], T]) -> T:
        """What users get: what ``make`` makes of the request and of its outputs."""
        return make(self, self.run())


# -- what users hand over in a direct call: its arrays as arguments of the request, checked ---------------------------


def as_arguments(
    constraints: Sequence[Constraint], given: Mapping[str, Any], held: Sequence[Constraint], are_tasks: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Keywords of `request` for those of a direct call, and the values of arguments by name.

    Where constraints ``are_tasks``, those that are ``held`` come after them.
    """
    n, keywords, values = len(constraints), {**given}, dict[str, Any]()
    for name in keywords:
        if name not in KEYWORDS:
            raise unknown_name("keyword", name, KEYWORDS)
    loads = _mapping("payloads", keywords.pop("payloads", None), "{'gripper': x, …}")
    inputs = inputs_of((*constraints, *held), list(loads))
    values.update(zip((i.name for i in inputs if i.keyword == "payloads"), loads.values(), strict=True))
    for keyword in LISTS:
        names = [i.name for i in inputs if i.keyword == keyword]
        values.update(zip(names, _listed(keyword, keywords.pop(keyword, None), len(names)), strict=True))
    if "wrenches" in keywords:
        wrenches = _mapping("wrenches", keywords["wrenches"], "{'hand': [f, m]}")
        keywords["wrenches"] = list(wrenches)
        values.update((f"wrench{k}", wrench) for k, wrench in enumerate(wrenches.values()))
    for keyword in ("gravity", "damping", "weights"):
        x = keywords.get(keyword)
        if keyword != "damping" and x is None:
            keywords.pop(keyword, None)  # gravity is that of the robot
        elif x is not None and not isinstance(x, str):
            keywords[keyword], values[keyword] = "input", x
    gains = [name for name in ("kp", "kd") if name in keywords]
    if are_tasks:
        _gains_of_tasks(keywords, values, n)
    elif gains and not (isinstance(control := keywords.get("control"), str) and control == "pd"):
        raise ConfigurationError(gains[0], "none without control='pd'", "some", "Leave it out, or pass control='pd'.")
    else:
        values.update((name, keywords.pop(name)) for name in gains)
    for keyword in ("v_target", "active", "impacts", "posture"):
        if (x := keywords.pop(keyword, None)) is not None:
            values[keyword], keywords[keyword] = x, True
    for keyword in ("restitution", "friction"):
        each = real_array(keywords.get(keyword, 0.0))
        if each is not None and each.ndim:
            values[keyword], keywords[keyword] = keywords[keyword], "input"
    if "targets" in keywords:
        targets = one_each("targets", keywords["targets"], n, alike=False)
        keywords["targets"] = [x is not None for x in targets]
        values.update((f"target{k}", x) for k, x in enumerate(targets) if x is not None)
    if "poses" in keywords:
        poses = one_each("poses", keywords["poses"], n, alike=False)
        poses = [x if x is None else _pose(c, x) for c, x in zip(constraints, poses, strict=True)]
        stable = one_each("baumgarte", keywords.get("baumgarte"), n)
        keywords["poses"] = [x is not None and (are_tasks or b is not None) for x, b in zip(poses, stable, strict=True)]
        values.update((f"pose{k}", x) for k, x in enumerate(poses) if keywords["poses"][k])
    if "compliance" in keywords:
        soft = one_each("compliance", keywords["compliance"], n)
        keywords["compliance"] = [None if x is None else "input" for x in soft]
        values.update((f"compliance{k}", x) for k, x in enumerate(soft) if x is not None)
    return {**keywords, "payloads": list(loads)}, values


def _gains_of_tasks(keywords: dict[str, Any], values: dict[str, Any], n: int) -> None:
    """Gains that are given as arguments, of tasks one each."""
    for name in ("kp", "kd"):
        each = one_each(name, keywords.pop(name, None), n)
        keywords[name] = [None if x is None else "input" for x in each]
        values.update((f"{name}{k}", x) for k, x in enumerate(each) if x is not None)
    for name in ("posture_kp", "posture_kd"):
        if (x := keywords.pop(name, None)) is not None:
            values[name], keywords[name] = x, "input"


def checked_values(
    tree: Tree, arguments: Sequence[Argument], values: Mapping[str, Any], known: Mapping[str, Array] = NONE
) -> tuple[dict[str, Array], tuple[int, ...]]:
    """Return the values of all arguments as float64, each (..., *shape), and the batch that they broadcast to.

    Those that are ``known`` have been checked.
    """
    out: dict[str, Array] = {}
    batch: tuple[int, ...] = ()
    for a in arguments:
        if a.name in known:
            out[a.name] = array = known[a.name]
        elif a.name in values:
            out[a.name] = array = _checked(tree, a, values[a.name])
        else:
            raise ConfigurationError(a.owner or a.name, f"an array of shape (..., {a.size})", "none", "Pass it.")
        if array.ndim == len(a.shape):
            continue
        others = ", ".join(name for name in out if name != a.name and out[name].ndim > 1) or "the others"
        batch = common_batch(a.owner or a.name, array.shape[: array.ndim - len(a.shape)], others, batch)
    return out, batch


def _checked(tree: Tree, a: Argument, value: Any) -> Array:
    owner, kind = a.owner or a.name, a.keyword or a.name
    if kind in CONFIGURATIONS:
        return tree.check_configuration(value, a.name)
    if kind in ("v", "tau", "qdd", "v_target"):
        return tree.check_velocity(value, a.name)
    if kind == "damping":
        return np.asarray(check_damping(tree, value))
    if kind == "compliance":
        return np.asarray(check_positive(value, a.size, owner))
    if kind == "gains":
        return np.asarray(check_gain(value, a.size, owner))
    if kind == "weights":
        return np.asarray(check_positive(value, a.size, owner, WEIGHTS))
    if kind == "rows":
        return finite_array(value, (..., a.shape[0], 6), owner, ROW_LAYOUT, ConstraintError)
    if a.flags and (flags := real_array(value, flags=True)) is not None:
        value = flags
    if not a.shape and (numbers := real_array(value)) is not None:
        value = numbers[..., None]
    error = ConstraintError if kind == "targets" else ConfigurationError
    array = finite_array(value, (..., a.size), owner, f"Pass {a.meaning}.", error)
    if kind in ("placements", "poses") and a.shape == (7,):
        return normalised(array, slice(3, 7), f"quaternion of the {owner}")
    return array if a.shape else array[..., 0]


def _each_row(a: Argument, value: Any) -> Any:
    """A number that is that of all rows, as an array; all else as it is."""
    one_for_all = a.keyword in ("compliance", "gains") or a.name == "weights"
    return np.full(a.shape, value) if one_for_all and np.shape(value) == () else value


def _mapping(argument: str, value: Any, example: str) -> Mapping[Any, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise ConfigurationError(argument, "a mapping of arrays", shown(value), f"Pass {argument}={example}.")
    return value or {}


def _listed(keyword: str, arrays: Any, wanted: int) -> Sequence[Any]:
    """One array for each argument of a keyword, or `ConstraintError`."""
    owners, letter = LISTS[keyword]
    if arrays is not None and not isinstance(arrays, list | tuple):
        raise ConstraintError(keyword, "a list of arrays", type(arrays).__name__, f"Pass {keyword}=[{letter}, …].")
    given = arrays or ()
    if len(given) != wanted:
        advice = f"Pass {keyword}=[{letter}, …], in the order of the constraints."
        raise ConstraintError(keyword, f"one array for each of {wanted} {owners}", f"{len(given)}", advice)
    return given


def _pose(c: Constraint, pose: Any) -> Any:
    """Wanted pose in the world of a constraint's first frame (..., 7), or position of a point (..., 3).

    Kernels check arrays of other libraries.
    """
    name = f"pose of {c!r}"
    if not c.pose_size:
        wanted = "None for Rows, JointRows and constraints between two links"
        raise ConstraintError(name, wanted, shown(pose), "These have no place in the world.")
    if library_of(type(pose)):
        return pose[..., : c.pose_size]
    given = real_array(pose)
    if c.pose_size == 3 and given is not None and given.shape[-1:] == (3,):
        return finite_array(given, (..., 3), name, "Pass the position in m.", ConstraintError)
    array = finite_array(
        pose, (..., 7), name, "Pass the position in m and the unit quaternion x y z w.", ConstraintError
    )
    array = normalised(array, slice(3, 7), f"quaternion of the {name}")
    return array[..., : c.pose_size]
