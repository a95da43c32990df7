"""Methods: which one "auto" takes, and whether a named one can do what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delassus.accuracy.closed_loops import rank_when_closed
from delassus.algorithms.clusters.rnea import CLUSTER_RNEA
from delassus.algorithms.dynamics import BY_CLUSTERS, HARD_AND_SOFT, SOFT, UNCONSTRAINED
from delassus.constraints import Constraint
from delassus.errors import ConfigurationError, ConstraintError, unknown_name
from delassus.model.tree import Tree
from delassus.quantities.options import Options
from delassus.quantities.planner.elimination import is_quicker_by_factors, least_over_loops
from delassus.quantities.quantity import Quantity

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Choice:
    """Algorithm that ``method="auto"`` takes where operations are not counted, and why."""

    method: str
    reason: str

    def __str__(self) -> str:
        return f"{self.method}: {self.reason}"


def resolve_method(
    tree: Tree, constraints: Sequence[Constraint], quantity: Quantity, method: str | None, options: Options
) -> str:
    """Name of the algorithm that runs."""
    if not isinstance(method, str) or method not in (AUTO, *quantity.methods):
        raise unknown_name("method", method, (*quantity.methods, AUTO))
    if method == CLUSTER_RNEA:
        given = {"weights": options.weights, "friction": options.friction, "active": options.active or None}
        for name, value in given.items():
            if value is not None:
                wanted = f"none with the method {method!r}, whose forces follow from the motors alone"
                raise ConfigurationError(name, wanted, "some", "Use 'orthogonal'.")
    if not quantity.has_status or not quantity.methods:
        return method
    if method != AUTO:
        return _check_method(quantity, method, options.soft, options.active)
    return choose(tree, constraints, options).method


def choose(tree: Tree, constraints: Sequence[Constraint], options: Options) -> Choice:
    """Method that "auto" takes where operations of all are not counted."""
    soft, active = options.soft, options.active
    if options.motors is not None:
        return Choice("orthogonal", "motors need not determine all joints")
    if options.loops is not None:
        least = least_over_loops(tree, tuple(constraints), tuple(options.loops))
        return Choice(least, "loops close, and it takes the fewest operations")
    if not soft:
        return Choice("aba", "there are no constraints")
    if active and _are_mixed(soft):
        return Choice("proximal", "constraints that can be off are soft and hard")
    closed = rank_when_closed(tree, [c for c, is_soft in zip(constraints, soft, strict=True) if not is_soft])
    if closed is not None and closed[0] < closed[1]:
        return Choice("proximal", "of {1} rows of loops {0} are independent where they are closed".format(*closed))
    if not active and not any(soft) and is_quicker_by_factors(tree, tuple(constraints)):
        return Choice("ltl", "constraints are hard, and factors of the mass matrix take less time than elimination")
    return Choice(
        "pv-early", "constraints are " + " and ".join({True: "soft", False: "hard"}[x] for x in sorted(set(soft)))
    )


def _are_mixed(soft: Sequence[bool]) -> bool:
    return any(soft) and not all(soft)


def _check_method(quantity: Quantity, method: str, soft: Sequence[bool], active: bool) -> str:
    n = len(soft)
    if n and method in UNCONSTRAINED:
        others = ", ".join(repr(name) for name in quantity.methods if name not in UNCONSTRAINED)
        advice = f"Use {others}; constraints=() leaves out those of the robot's file."
        raise ConstraintError("constraints", f"none with the method {method!r}", f"{n}", advice)
    if method in SOFT and not all(soft):
        wanted = f"positive numbers for all constraints with the method {method!r}"
        advice = "Pass compliance=1e-6, or use 'pv-early' or 'proximal', which take hard and soft constraints."
        raise ConstraintError("compliance", wanted, f"None for {n - sum(soft)} of {n}", advice)
    if any(soft) and method not in SOFT | HARD_AND_SOFT:
        wanted = f"None with the method {method!r}, which takes hard constraints only"
        names = ", ".join(map(repr, sorted(SOFT | HARD_AND_SOFT)))
        raise ConstraintError("compliance", wanted, f"{sum(soft)} soft constraint(s)", f"Use one of {names}.")
    if active and n and method in BY_CLUSTERS:
        wanted = f"constraints that always act with the method {method!r}, whose coordinates follow from them"
        raise ConstraintError("active", wanted, "some that can be off", "Use 'pv-early' or 'proximal'.")
    if active and _are_mixed(soft) and method == "pv-early":
        wanted = "hard constraints, or soft ones, that can be off, with the method 'pv-early'"
        raise ConstraintError("compliance", wanted, f"None for {n - sum(soft)} of {n}", "Use 'proximal'.")
    return method
