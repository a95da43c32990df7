"""Mixed problems by eliminating the equality block, O(k³ + k² n), then any solver for linear ones.

With ``M = [A, B; C, D]`` and ``q = (a, c)``, ``x = −A⁺ (B z + a)`` leaves ``M' = D − C A⁺ B``, ``q' = c − C A⁺ a``.
``A`` is factorised with partial pivoting. Where pivots show it to be singular (redundant loops), dependent rows are
dealt with as everywhere (`delassus.accuracy.status`): the rank is that of the matrix with rows of like sizes,
which is the unit diagonal of a Delassus matrix, ``x`` is the least-squares solution of least norm, and rows that
contradict one another are reported, by the same thresholds.

Source: Cottle, Pang, Stone, section 1.5; Ruiz 2001 for the scaling.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from delassus.accuracy.rank import REGULAR_CONDITION
from delassus.accuracy.status import CONFLICT
from delassus.compiler.jit.compile import compiled
from delassus.errors import ConfigurationError, shown
from delassus.solvers.lemke import lemke
from delassus.solvers.linear import factor, substitute
from delassus.solvers.problems import LCP, MLCP
from delassus.solvers.results import Solution, SolverStatus, check_request
from delassus.spatial.rotations import Array
from delassus.spatial.trace.fused import SPLIT

EMPTY = 1e-12
"""Largest entry of a row that is empty, over the largest one of the matrix."""

ROUNDS = 2
"""Corrections of a least-squares solution by its remainder."""


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

    Examples
    --------
    >>> from delassus.contact import MLCP
    >>> solve_mixed(MLCP([[2, 1], [1, 2]], [-4, -5], n_free=1)).values.round(9).tolist()
    [1.0, 2.0]
    """
    check_request(problem, MLCP, "Without equality rows: lemke or pgs.", tolerance, 1)
    if not callable(solver):
        raise ConfigurationError("solver", "a function of an LCP", shown(solver), "Such as lemke.")
    k = problem.n_free
    A, B, C, D = problem.M[:k, :k], problem.M[:k, k:], problem.M[k:, :k], problem.M[k:, k:]
    inverse, _, agree = eliminated(A, np.column_stack([B, problem.q[:k]]))
    found = solver(LCP(D - C @ inverse[:, :-1], problem.q[k:] - C @ inverse[:, -1]), tolerance=tolerance)
    if not isinstance(found, Solution):
        raise ConfigurationError("solver", "one that returns a Solution", shown(found), "Such as lemke.")
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
            for i in range(n):
                b[i] = right[i, j]
            substitute(A, n, order, b, x)
            for i in range(n):
                solution[i, j] = x[i]
    return solution, least


@compiled
def remainder(A: Array, X: Array, right: Array) -> Array:
    """``right − A X`` in twice the precision of float64, rounded at the end."""
    n, columns = right.shape
    out = np.empty((n, columns))
    for i in range(n):
        for j in range(columns):
            total, rest = right[i, j], 0.0
            for k in range(n):
                a, x = A[i, k], X[k, j]
                if a != 0.0:
                    c, d, product = SPLIT * a, SPLIT * x, a * x
                    a1, x1 = c - (c - a), d - (d - x)
                    a2, x2 = a - a1, x - x1
                    left = ((a1 * x1 - product) + a1 * x2 + a2 * x1) + a2 * x2
                    after = total - product
                    part = after - total
                    rest += ((total - (after - part)) - (product + part)) - left
                    total = after
            out[i, j] = total + rest
    return out


def eliminated(A: Array, right: Array) -> tuple[Array, int, bool]:
    """``A⁺ right``, the rank of ``A``, and whether ``A`` times that is ``right``.

    Where ``A`` is singular, the solution is corrected by its remainder: hinges and loops that hold a robot many times
    over leave matrices whose condition is 1e7 beside what is dependent.
    """
    scaled, s = balanced(A)
    right = np.ascontiguousarray(right)
    solution, least = factor_and_solve(scaled.copy(), s[:, None] * right)
    if least > REGULAR_CONDITION:
        return s[:, None] * solution, len(A), True
    U, d, Vt = np.linalg.svd(scaled)
    rank = int((d > REGULAR_CONDITION * d[0]).sum()) if d[0] > 0 else 0
    missing, null = (np.linalg.qr(s[:, None] * part)[0] for part in (U[:, rank:], Vt[rank:].T))
    outside = missing.T @ right
    held = bool(np.abs(outside).max(initial=0.0) <= CONFLICT * np.abs(right).max(initial=0.0))

    def met(left: Array) -> Array:
        return np.asarray(s[:, None] * (Vt[:rank].T @ ((U[:, :rank].T @ (s[:, None] * left)) / d[:rank, None])))

    wanted, whole = right - missing @ outside, np.ascontiguousarray(A)
    x = met(wanted)
    x -= null @ (null.T @ x)  # of least norm; the round-off of that is corrected, too
    for _ in range(ROUNDS):
        x += met(remainder(whole, x, right if held else wanted))
    return x, rank, held


def balanced(A: Array) -> tuple[Array, Array]:
    """``diag(s) A diag(s)`` with rows and columns of like sizes, and ``s``.

    The free block holds masses from grams to tonnes beside lengths and ones; what is singular shows only after that.
    Rows that only round-off keeps from being zero, as those of a loop within a rigid part, become zero.
    """
    size, s = np.abs(A), np.ones(len(A))
    empty = size.max(axis=1, initial=0.0) <= EMPTY * size.max(initial=0.0)
    for _ in range(3):
        step = 1.0 / np.sqrt(np.where(empty, 1.0, size.max(axis=1, initial=0.0)))
        s *= step
        size *= step[:, None] * step
    scaled = s[:, None] * A * s
    scaled[empty] = 0.0
    scaled[:, empty] = 0.0
    return scaled, s
