"""Mixed problems by eliminating the equality block, O(k³ + k² n), then any solver for linear ones.

With ``M = [A, B; C, D]`` and ``q = (a, c)``, ``x = −A⁺ (B z + a)`` leaves ``M' = D − C A⁺ B``, ``q' = c − C A⁺ a``.
``A`` is factorised with partial pivoting; where that shows it to be singular (redundant loops), the pseudo-inverse from
a singular value decomposition takes its place, and ``x`` has the least norm. Then ``B`` and ``a`` must be in the range
of ``A``, as they are where all come from the rows of one mechanism: if not, the status is CONFLICTING.

Source: Cottle, Pang, Stone, section 1.5.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delassus.contact.problems import LCP, MLCP
from delassus.contact.results import LCPResult, MLCPResult, SolverStatus
from delassus.contact.solvers.lemke import lemke
from delassus.contact.solvers.linear import factor_and_solve
from delassus.contact.solvers.options import check_kind, check_options
from delassus.model.rotations import Array

REGULAR = 1e-10
"""Least pivot over the largest, and least singular value over the largest one, of a regular matrix."""
CONFLICT = 1e-8
"""Part of the right sides that may be outside of the range of ``A``."""


def solve_mixed(problem: MLCP, solver: Callable[..., LCPResult] = lemke, *, tolerance: float = 1e-8) -> MLCPResult:
    """Solve a mixed linear complementarity problem.

    Parameters
    ----------
    problem : MLCP
    solver : callable
        `lemke`, or what takes an `LCP` and a tolerance in the same way; bind other options with `functools.partial`.
    tolerance : float
        Of `MLCPResult.residual`.

    Raises
    ------
    ConfigurationError
        Another kind of problem, or an option that makes no sense.
    MissingDependencyError
        numba is not installed.

    Examples
    --------
    >>> from delassus.contact.problems import MLCP
    >>> result = solve_mixed(MLCP([[2, 1], [1, 2]], [-4, -5], n_free=1))
    >>> result.x.round(9).tolist(), result.z.round(9).tolist(), result.rank
    ([1.0], [2.0], 1)
    """
    check_kind(problem, MLCP, "Without equality rows: lemke or pgs.")
    check_options(tolerance, 1, "")
    k = problem.n_free
    A, B, C, D = problem.M[:k, :k], problem.M[:k, k:], problem.M[k:, :k], problem.M[k:, k:]
    right = np.column_stack([B, problem.q[:k]])
    solution, rank, agree = eliminated(A, right)
    reduced = LCP(D - C @ solution[:, :-1], problem.q[k:] - C @ solution[:, -1])
    result = solver(reduced, tolerance=tolerance)
    x = -(solution[:, :-1] @ result.z + solution[:, -1])
    w = C @ x + D @ result.z + problem.q[k:]
    mixed = MLCPResult(problem, x, result.z, w, rank, result.status, result.iterations, tolerance)
    status = result.status
    if not agree:
        status = SolverStatus.CONFLICTING
    elif status is SolverStatus.CONVERGED and not mixed.residual() <= tolerance:
        status = SolverStatus.NUMERICAL_TROUBLE
    return MLCPResult(problem, x, result.z, w, rank, status, result.iterations, tolerance)


def eliminated(A: Array, right: Array) -> tuple[Array, int, bool]:
    """``A⁺ right``, the rank of ``A``, and whether ``A`` times that is ``right``."""
    k = len(A)
    if k == 0:
        return np.zeros(right.shape), 0, True
    scale = np.abs(A).max(axis=1)
    scale[scale == 0.0] = 1.0
    solution, least = factor_and_solve(np.ascontiguousarray(A / scale[:, None]), right / scale[:, None])
    if least > REGULAR:
        return solution, k, True
    U, s, Vt = np.linalg.svd(A)
    rank = int((s > REGULAR * s[0]).sum()) if s[0] > 0 else 0
    along, outside = U[:, :rank].T @ right, U[:, rank:].T @ right
    agree = bool(np.abs(outside).max(initial=0.0) <= CONFLICT * max(np.abs(right).max(initial=0.0), 1e-300))
    return Vt[:rank].T @ (along / s[:rank, None]), rank, agree
