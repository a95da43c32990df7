"""Which method: the checks of a name against the constraints, and what is taken where none is named."""

from __future__ import annotations

from collections.abc import Sequence

from delassus.algorithms.dynamics import DYNAMICS_METHODS, EARLY, ITERATIVE, METHODS, SOFT, UNCONSTRAINED
from delassus.algorithms.dynamics.solution import least_pivot
from delassus.algorithms.operator import REGULAR_CONDITION
from delassus.errors import ConstraintError, unknown_name

SINGLE_DIGITS = 7 / 16
"""Digits of float32 by those of float64."""


def solve_again(method: str, dtype: str) -> str | None:
    """Method in float64 for the states whose pivots are too small for this one; None if nothing else does better."""
    if method in SOFT | UNCONSTRAINED or (method in ITERATIVE and dtype == "float64"):
        return None
    return "pv-dense" if method in EARLY else "proximal"


def pivot_limit(method: str, dtype: str) -> float:
    """What the smallest pivot of a method has to exceed in this number type, else `solve_again`.

    Where ``G`` may be regular all the same, that is `least_pivot`; pivots of ``G``, by its diagonal, say where rows
    count as dependent.
    """
    if method in EARLY:
        return least_pivot(dtype)
    if method in ITERATIVE and dtype == "float64":
        return 0.0
    return REGULAR_CONDITION if dtype == "float64" else float(REGULAR_CONDITION**SINGLE_DIGITS)


def default_method(soft: Sequence[bool], hard: Sequence[str]) -> str:
    """Method for constraints of which ``soft`` says which are; ``hard``: those for hard ones, the best first."""
    if not soft:
        return "aba"
    if any(soft):
        return "pv-soft" if all(soft) else "proximal"
    return first_of(hard)


def first_of(methods: Sequence[str]) -> str:
    """The first of these methods that there is."""
    return next(method for method in methods if method in METHODS)


def check_method(method: str, soft: Sequence[bool]) -> str:
    """Return the method; ``soft`` says of each constraint whether it is.

    Raises
    ------
    UnknownNameError
        There is no such method.
    ConstraintError
        It does not take these constraints.
    """
    n = len(soft)
    if not isinstance(method, str) or method not in METHODS:
        raise unknown_name("method", method, DYNAMICS_METHODS)
    if n and method in UNCONSTRAINED:
        others = ", ".join(repr(name) for name in DYNAMICS_METHODS if name not in UNCONSTRAINED)
        raise ConstraintError("constraints", f"none with the method {method!r}", f"{n}", f"Use {others}.")
    if method in SOFT and not all(soft):
        raise ConstraintError(
            "compliance",
            f"positive numbers for all constraints with the method {method!r}",
            f"None for {n - sum(soft)} of {n}",
            "Pass compliance=1e-6, or use 'proximal', which takes hard and soft constraints.",
        )
    if any(soft) and method not in SOFT | ITERATIVE:
        raise ConstraintError(
            "compliance",
            f"None with the method {method!r}, which takes hard constraints only",
            f"{sum(soft)} soft constraint(s)",
            "Use 'ltl-soft', 'pv-soft' or 'proximal'.",
        )
    return method
