"""Checks of what solvers are asked for."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from delassus.contact.problems import ConeProblem
from delassus.errors import ConfigurationError, shown
from delassus.model.check import real_array
from delassus.model.rotations import Array


def check_options(tolerance: float, limit: int, name: str) -> None:
    """Raise `ConfigurationError` unless the tolerance is positive and the limit a number of iterations."""
    if type(tolerance) is float and type(limit) is int and 0.0 < tolerance < math.inf and limit > 0:
        return  # as nearly always, and solvers take microseconds
    if not isinstance(tolerance, float | int | np.number) or not 0 < tolerance < math.inf:
        raise ConfigurationError("tolerance", "a positive number", shown(tolerance), "1e-8 is usual.")
    if isinstance(limit, bool) or not isinstance(limit, int | np.integer) or limit < 1:
        raise ConfigurationError(name, "a positive whole number", shown(limit), "Allow at least one.")


def check_kind(problem: object, kind: type, advice: str) -> None:
    """Raise `ConfigurationError` unless the problem is of the kind that a solver takes."""
    if not isinstance(problem, kind):
        raise ConfigurationError("problem", f"of type {kind.__name__}", type(problem).__name__, advice)


def writable(problem: ConeProblem) -> tuple[Array, Array, Array]:
    """Copies of ``W, b, mu``: numba would compile all over again for arrays that may not be written to."""
    return problem.W.copy(), problem.b.copy(), problem.mu.copy()


def starting(problem: ConeProblem, start: ArrayLike | None) -> Array:
    """Impulses to start from, flat; zero by default."""
    if start is None:
        return np.zeros(problem.b.size)
    return checked_start(start, problem.b.size, "impulses as the solvers return them")


def checked_start(start: ArrayLike, size: int, what: str) -> Array:
    """A start of a given size, flat."""
    array = real_array(start)
    if array is None or array.size != size or not np.all(np.isfinite(array)):
        raise ConfigurationError("start", f"{size} finite numbers", shown(start), f"Pass {what}.")
    return array.ravel()
