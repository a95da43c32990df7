"""Checks of what comes with each call, or is built in: an entry for each constraint, damping, numbers, springs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from delassus.constraints import Constraint
from delassus.errors import ConfigurationError, ConstraintError, shown
from delassus.model.check import finite_array, real_array
from delassus.model.tree import Tree
from delassus.quantities.quantity import Quantity

COMPLIANCE = "in (m/s²)/N", "A hard constraint has the compliance None."
WEIGHTS = "for joint forces and rows", "Forces that are free have a small weight, such as 1e-6."
"""What positive numbers are, and what to pass where zeros were meant."""


def one_each(argument: str, given: Any, n: int, alike: bool = True) -> list[Any]:
    """An entry for each of n constraints: those of a list, None, or if they may be ``alike`` the same for all."""
    is_list = isinstance(given, list | tuple)
    if given is None or (alike and not is_list):
        return [given] * n
    if not is_list or len(given) != n:
        wanted = f"a list with one entry for each of {n} constraint(s)"
        raise ConstraintError(argument, wanted, f"{len(given)}" if is_list else shown(given), "None stands for none.")
    return list(given)


def check_damping(tree: Tree, damping: ArrayLike) -> Any:
    """Return damping coefficients (..., nv) that are not negative."""
    array = tree.check_velocity(damping, "damping")
    if np.any(array < 0):
        where = tuple(int(i) for i in np.argwhere(array < 0)[0])
        raise ConfigurationError(
            "damping", "coefficients that are not negative", f"{array[where]} at index {where}", "Joints resist motion."
        )
    return array


def check_positive(
    given: ArrayLike, size: int, argument: str, what: tuple[str, str] = COMPLIANCE, above: bool = True
) -> Any:
    """Return numbers (..., size), all positive, or not negative unless they are ``above``; one is that of all rows."""
    number, (unit, advice) = real_array(given), what
    if number is not None and number.shape == ():
        given = np.full(size, number)
    array = finite_array(given, (..., size), argument, f"Pass a number or one for each row, {unit}.", ConstraintError)
    if np.any(array <= 0 if above else array < 0):
        wanted = "positive numbers" if above else "numbers that are not negative"
        raise ConstraintError(argument, f"{wanted}, {unit}", f"{np.min(array):g}", advice)
    return array


def with_springs(
    tree: Tree, constraints: Sequence[Constraint], quantity: Quantity, options: Mapping[str, Any]
) -> tuple[Constraint, ...]:
    """Constraints without springs of the robot's file, of a quantity that asks for rows or positions alone.

    Where springs and damping of joints act, these would have to act, too.

    Raises
    ------
    ConstraintError
        A spring of a quantity that has none of their forces, given or of the robot's file.
    """
    if quantity.has_springs:
        return tuple(constraints)
    own = {c.fingerprint: c for c in tree.constraints if not c.holds}
    passive = options.get("passive", "model")
    of_forces = "passive" in quantity.options and isinstance(passive, str) and passive == "model"
    refused = [c for c in constraints if not c.holds and c.fingerprint not in own]
    refused += own.values() if of_forces else []
    if refused:
        advice = "Springs act in 'contact_step' and scenes."
        if own:
            advice += (
                " To leave those of the robot's file out, pass passive='none', or replace(tree, "
                "constraints=[c for c in tree.constraints if c.holds])."
            )
        raise ConstraintError("constraints", f"constraints that hold, of {quantity.name!r}", repr(refused[0]), advice)
    return tuple(c for c in constraints if c.holds)
