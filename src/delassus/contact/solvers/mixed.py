"""Mixed problems by eliminating the equality block, O(k³ + k² n), then any solver for linear ones.

With ``M = [A, B; C, D]`` and ``q = (a, c)``, ``x = −A⁺ (B z + a)`` leaves ``M' = D − C A⁺ B``, ``q' = c − C A⁺ a``.
``A`` is factorised with partial pivoting; where that shows it to be singular (redundant loops), the pseudo-inverse from
a singular value decomposition is used instead, and ``x`` has the least norm. Then ``B`` and ``a`` must be in the range
of ``A``, as they are where all come from the rows of one mechanism: if not, the status is CONFLICTING.

Source: Cottle, Pang, Stone, section 1.5.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delassus.contact.problems import LCP, MLCP
from delassus.contact.results import Solution, SolverStatus, check_request
from delassus.contact.solvers.compiled import compiled
from delassus.contact.solvers.lemke import lemke
from delassus.contact.solvers.linear import factor, substitute
from delassus.model.rotations import Array

REGULAR = 1e-10
"""Least pivot over the largest, and least singular value over the largest one, of a regular matrix."""
CONFLICT = 1e-8
"""Part of the right sides that may be outside of the range of ``A``."""


def solve_mixed(
    problem: MLCP, solver: Callable[..., Solution[LCP]] = lemke, *, tolerance: float = 1e-8
) -> Solution[MLCP]:
    """Solve a mixed linear complementarity problem.

    Parameters
    ----------
    problem : MLCP
    solver : callable
        `lemke`, or what takes an `LCP` and a tolerance in the same way; bind other options with `functools.partial`.
    tolerance : float
        Of `MLCP.residual`.

    Raises
    ------
    ConfigurationError
        Another kind of problem, or a tolerance that is not positive.
    MissingDependencyError
        numba is not installed.

    Examples
    --------
    >>> from delassus.contact.problems import MLCP
    >>> solve_mixed(MLCP([[2, 1], [1, 2]], [-4, -5], n_free=1)).values.round(9).tolist()
    [1.0, 2.0]
    """
    check_request(problem, MLCP, "Without equality rows: lemke or pgs.", tolerance, 1)
    k = problem.n_free
    A, B, C, D = problem.M[:k, :k], problem.M[:k, k:], problem.M[k:, :k], problem.M[k:, k:]
    inverse, _, agree = eliminated(A, np.column_stack([B, problem.q[:k]]))
    found = solver(LCP(D - C @ inverse[:, :-1], problem.q[k:] - C @ inverse[:, -1]), tolerance=tolerance)
    x = -(inverse[:, :-1] @ found.values + inverse[:, -1])
    values, status = np.concatenate([x, found.values]), found.status
    if not agree:
        status = SolverStatus.CONFLICTING
    elif status is SolverStatus.CONVERGED and not problem.residual(values) <= tolerance:
        status = SolverStatus.NUMERICAL_TROUBLE
    return Solution(problem, values, status, found.iterations)


@compiled
def factor_and_solve(A: Array, right: Array) -> tuple[Array, float]:
    """``A⁻¹ right``, column by column, and what `factor` returns; ``A`` is overwritten."""
    n, columns = right.shape
    order, b, x, solution = np.empty(n, np.int64), np.empty(n), np.empty(n), np.zeros((n, columns))
    least = factor(A, n, order)
    if least > 0.0:
        for j in range(columns):
            b[:] = right[:, j]
            substitute(A, n, order, b, x)
            solution[:, j] = x
    return solution, least


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
