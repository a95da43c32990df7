"""From a formulated problem to velocities: free unknowns eliminated as `solve_mixed` does, then any solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from delassus.contact.formulations.problem import ContactProblem
from delassus.contact.formulations.solution import ContactSolution
from delassus.contact.problems import ConeProblem
from delassus.contact.results import Solution, SolverStatus
from delassus.contact.solvers.registry import SOLVERS
from delassus.errors import ConfigurationError, unknown_name
from delassus.model.rotations import Array

COMPLIANCES = (1e-13, 1e-12, 1e-11, 1e-10)
"""Compliances of contacts over their mobility, tried where rigid ones have no definite impulses."""
DIGITS = 1e-4
"""Round-off of velocities that needs no second look, over the tolerance."""


def solve(
    problem: ContactProblem, solver: str = "lemke", *, tolerance: float = 1e-8, **options: Any
) -> ContactSolution:
    """Solve a contact problem.

    Parameters
    ----------
    problem : ContactProblem
    solver : {"lemke", "pgs", "nsgs", "admm", "convex"}
        The first two on pyramids of ``n_directions`` sides, the others on exact cones.
    tolerance : float
        Of the solver's residual.
    **options
        Other options of the solver, such as ``max_iterations``.

    Raises
    ------
    UnknownNameError
        No such solver.
    ConfigurationError
        An option that the solver does not have, or whose value is out of its range.
    MissingDependencyError
        A package of the extra ``contact`` is not installed.
    """
    if not isinstance(solver, str) or solver not in SOLVERS:
        raise unknown_name("solver", solver, SOLVERS)
    kind, function, *_ = SOLVERS[solver]
    if kind == "linear":
        return _on_pyramids(problem, partial(function, **options), tolerance)
    return _on_cones(problem, partial(function, **options), tolerance)


def _on_pyramids(problem: ContactProblem, solver: Callable[..., Solution[Any]], tolerance: float) -> ContactSolution:
    """By the rigid contacts first; if round-off spoils that, with a compliance that their residual does not show."""
    cone = problem.cone()
    given = problem.contacts.friction * problem.applied[:, 2]
    linear = cone.polyhedral(problem.n_directions, given)
    first, iterations = None, 0
    mobility = cone.W.diagonal().mean() if len(cone.W) else 0.0
    for compliance in (0.0, *COMPLIANCES):
        soft = linear
        if compliance:
            W = cone.W + compliance * mobility * np.eye(len(cone.W))
            soft = ConeProblem(W, cone.b, cone.mu).polyhedral(problem.n_directions, given)
        found = solver(soft, tolerance=tolerance)
        iterations += found.iterations
        status, F = found.status, linear.impulses(found.values)
        result = Solution(linear, found.values, status, iterations)
        if status is SolverStatus.CONVERGED and not result.residual() <= tolerance:
            result = replace(result, status=SolverStatus.NUMERICAL_TROUBLE)
        solution = _solution(problem, F, result, tolerance)
        definite = rounding(cone, F) <= DIGITS * tolerance
        if solution.status is SolverStatus.CONVERGED and (definite or compliance):
            return solution
        first = solution if first is None else first
    assert first is not None
    return first


def rounding(cone: ConeProblem, F: Array) -> float:
    """What round-off can do to velocities ``W F`` (m/s)."""
    return float(np.finfo(float).eps * (np.abs(cone.W) @ np.abs(F).ravel()).max(initial=0.0))


def _on_cones(problem: ContactProblem, solver: Callable[..., Any], tolerance: float) -> ContactSolution:
    if np.any(problem.contacts.friction * problem.applied[:, 2]):
        raise ConfigurationError(
            "solver", "'lemke' or 'pgs' where normal impulses are applied", "one on exact cones", "Their friction adds."
        )
    result = solver(problem.cone(), tolerance=tolerance)
    return _solution(problem, result.values, result, tolerance)


def _solution(problem: ContactProblem, F: Array, result: Solution[Any], tolerance: float) -> ContactSolution:
    """Free unknowns and velocities from the impulses ``F`` (n_u, 3) of a solver, and what that says of its status."""
    P, x_0, _, agree = problem.eliminated
    x, total = -(P @ F.ravel() + x_0), F + problem.applied
    v, p_b = problem.model.recover(x, total.ravel(), problem.v, problem.dt)
    solution = ContactSolution(problem, v, total, p_b, x, result.status, result.iterations, tolerance, result)
    if not agree:
        return replace(solution, status=SolverStatus.CONFLICTING)
    if result.status is SolverStatus.CONVERGED and not _worst(solution) <= tolerance:
        return replace(solution, status=SolverStatus.NUMERICAL_TROUBLE)
    return solution


def _worst(solution: ContactSolution) -> float:
    """Largest of the velocities that should vanish."""
    return max(solution.bilateral_residual(), solution.penetration_velocity())
