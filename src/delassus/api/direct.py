"""Direct calls: what users hand over, checked, and the program of it; machine code runs arrays of other libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from delassus.constraints import Constraint, Frame, check_constraints
from delassus.errors import ConfigurationError, shown
from delassus.frozen import named_tuple
from delassus.model.check import library_of
from delassus.model.topology import check_tree
from delassus.model.tree import Tree
from delassus.quantities.arguments import as_arguments, checked_values, each_row
from delassus.quantities.checks import split_springs
from delassus.quantities.keywords import Constraints
from delassus.quantities.planner.methods import AUTO
from delassus.quantities.quantity import Quantity
from delassus.quantities.request import Request, request
from delassus.runtime import calls

T = TypeVar("T")


class CompiledRequest:
    """A request whose arguments are arrays of JAX or PyTorch: its kernel makes the results, as arrays of the same."""

    def __init__(self, asked: Request, values: Mapping[str, Any]) -> None:
        self.request, self._values = asked, values

    def run(self) -> dict[str, Any]:
        """Outputs by name."""
        from delassus.runtime.compile import kernel_of

        dtypes = {str(x.dtype).rpartition(".")[2] for x in self._values.values() if library_of(type(x))}
        dtype = "float32" if dtypes == {"float32"} else "float64"
        kernel = kernel_of(self.request, dtype, ", for arrays of another library")
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

    def __getattr__(self, name: str) -> Any:  # what needs more than a kernel returns
        came = " and ".join(sorted({library_of(type(x)) for x in self._values.values()} - {""}))
        raise ConfigurationError("arrays", "NumPy arrays here", f"arrays of {came}", "Convert them.")


def bind(
    tree: Tree,
    constraints: Constraints,
    quantity: Quantity,
    states: Mapping[str, Any],
    method: str | None = AUTO,
    derivative: str = "",
    /,
    **given: Any,
) -> calls.DirectCall:
    """A direct call, or one of a ``derivative`` by formulas: all of its input checked.

    ``given`` are its keywords. What stands for joint forces is ``"tau"`` in ``states``, whatever its name.
    """
    key = _key(tree, constraints, quantity, method, derivative, given)
    if (kept := calls.KEPT.find(key)) is not None:
        named = states
        if kept.control != "tau" and "tau" in states:
            named = {kept.control if name == "tau" else name: x for name, x in states.items()}
        if not any(map(library_of, map(type, named.values()))):
            return calls.DirectCall(kept, *checked_values(tree, kept.arguments, named, kept.values))
    asked, values = _asked(tree, constraints, quantity, method, derivative, given)
    states = {asked.control if name == "tau" else name: x for name, x in states.items()}
    kinds: list[Any] = [type(x) for x in (*states.values(), *values.values())]
    if any(map(library_of, kinds)):
        compiled: Any = CompiledRequest(asked, {**states, **values})
        return compiled  # type: ignore[no-any-return]
    arrays, batch = checked_values(tree, asked.arguments, {**states, **values})
    if key is None:
        return calls.DirectCall(calls.kept_for(asked), arrays, batch)
    kept = calls.Kept(asked, quantity, {name: arrays[name] for name in values})
    calls.KEPT.keep(key, kept)
    return calls.DirectCall(kept, arrays, batch)


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
    checked, springs = split_springs(tree, check_constraints(tree, constraints), quantity, given)
    held = given.get("contacts")
    held = () if held is None else check_constraints(tree, held)
    keywords, values = as_arguments(checked, given, held, "posture" in quantity.options)
    asked = request(tree, (*checked, *springs), quantity, method=method, **keywords)
    return (asked.differentiated(derivative, by=quantity.inputs) if derivative else asked), values


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
