"""Methods: which one "auto" takes, and whether a named one can do what is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from delassus.accuracy.closed_loops import are_rows_of_loops, independent_coordinates, rank_when_closed
from delassus.algorithms.clusters.rnea import CLUSTER_RNEA
from delassus.algorithms.dynamics import BY_CLUSTERS, HARD_AND_SOFT, SOFT, UNCONSTRAINED
from delassus.algorithms.inputs import inputs_of
from delassus.constraints import Constraint
from delassus.errors import ConfigurationError, ConstraintError, unknown_name
from delassus.model.tree import Tree
from delassus.quantities.options import Options
from delassus.quantities.planner.elimination import (
    is_quicker_by_clusters,
    is_quicker_by_factors,
    least_by_motors,
    least_over_loops,
)
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
    return choose(tree, constraints, options, quantity.states > 0).method


def choose(tree: Tree, constraints: Sequence[Constraint], options: Options, is_step: bool = False) -> Choice:
    """Method that "auto" takes where operations of all are not counted.

    Steps run through configurations that are singular for independent coordinates alone, and have other methods.
    """
    soft, active = options.soft, options.active
    if options.motors is not None:
        return _of_motors(tree, tuple(constraints), options)
    if options.loops is not None:
        least = least_over_loops(tree, tuple(constraints), tuple(options.loops))
        return Choice(least, "loops close, and it takes the fewest operations")
    if not soft:
        return Choice("aba", "there are no constraints")
    if active and _are_mixed(soft):
        return Choice("proximal", "constraints that can be off are soft and hard")
    given, is_hard = tuple(constraints), not (active or any(soft))
    closed = rank_when_closed(tree, [c for c, is_soft in zip(constraints, soft, strict=True) if not is_soft])
    if closed is not None and closed[0] < closed[1]:
        chosen = Choice("proximal", "of {1} rows of loops {0} are independent where they are closed".format(*closed))
    elif is_hard and is_quicker_by_factors(tree, given):
        chosen = Choice("ltl", "constraints are hard, and factors of the mass matrix take less time than elimination")
    else:
        kinds = " and ".join({True: "soft", False: "hard"}[x] for x in sorted(set(soft)))
        chosen = Choice("pv-early", f"constraints are {kinds}")
    if is_hard and not is_step and is_quicker_by_clusters(tree, given, chosen.method):
        return Choice(
            "cluster-aba", f"loops are closed and hard, and over clusters take less time than {chosen.method!r}"
        )
    return chosen


def _of_motors(tree: Tree, constraints: tuple[Constraint, ...], options: Options) -> Choice:
    """Method of forces of motors."""
    others = options.weights is not None or options.friction is not None or options.active
    if not constraints or others or inputs_of(constraints) or not are_rows_of_loops(tree, constraints):
        return Choice("orthogonal", "it takes any motors, weights and states")
    try:
        driven = independent_coordinates(tree, constraints, options.motors)
    except ConstraintError:
        return Choice("orthogonal", "motors need not determine all joints")
    least = least_by_motors(tree, constraints, driven)
    return Choice(least, "motors determine all joints, and it takes the fewest operations")


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
