"""Solvers of contact steps by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from delassus.algorithms.contact.admm import admm
from delassus.algorithms.contact.problem import Solver, StepProblem
from delassus.algorithms.contact.sweeps import sweeps
from delassus.spatial.ops import Scalar

EXACT: list[Solver] = []
"""What solves problems on NumPy to the end, state by state; the package says it when it is imported."""


def exact(problem: StepProblem, start: Sequence[Scalar], times: int, tolerance: float) -> list[Scalar]:
    """Impulses of states that sweeps do not solve."""
    (solve,) = EXACT
    return solve(problem, start, times, tolerance)


SOLVERS: Mapping[str, Solver] = MappingProxyType({"nsgs": sweeps, "pgs": sweeps, "admm": admm})
"""Sweeps over cones, sweeps over pyramids, alternating directions over cones."""

FALLBACK = "exact"
"""Name of `exact` as the solver of a request."""
