"""Lemke's method for linear complementarity problems, O(n²) a pivot; the pivoting itself is in `pivoting`.

It ends for every problem: with a solution, or on a ray. Ties are broken lexicographically, so that it does not cycle.
For the matrices of frictional contact (copositive) a ray means that no impulses satisfy the problem, or that round-off
hid them; other starting vectors are tried before it is reported. A solution that misses the tolerance because of
round-off is computed again from its basis, with iterative refinement.

Source: Lemke 1965; Cottle, Pang, Stone, *The Linear Complementarity Problem*, 4.4 and 4.9.
"""

from __future__ import annotations

from delassus.contact.problems import LCP
from delassus.contact.results import OUTCOMES, LCPResult
from delassus.contact.solvers.options import check_kind, check_options
from delassus.contact.solvers.pivoting import lemke_kernel


def lemke(problem: LCP, *, tolerance: float = 1e-8, max_pivots: int = 10000) -> LCPResult:
    """Solve a linear complementarity problem by Lemke's method.

    Parameters
    ----------
    problem : LCP
    tolerance : float
        Of `LCPResult.residual`, in the units of ``z`` and ``w``.
    max_pivots : int

    Raises
    ------
    ConfigurationError
        Another kind of problem, or an option that makes no sense.
    MissingDependencyError
        numba is not installed.

    References
    ----------
    Cottle, Pang, Stone, algorithm 4.4.5 and section 4.9.

    Examples
    --------
    >>> from delassus.contact.problems import LCP
    >>> lemke(LCP([[2, 1], [1, 2]], [-5, -6])).z.round(6).tolist()
    [1.333333, 2.333333]
    >>> lemke(LCP([[-1]], [-1])).status.name
    'RAY_TERMINATION'
    """
    check_kind(problem, LCP, "Of a ConeProblem, pass polyhedral(); for equality rows, solve_mixed.")
    check_options(tolerance, max_pivots, "max_pivots")
    z, outcome, pivots = lemke_kernel(problem.M, problem.q, float(tolerance), int(max_pivots))
    return LCPResult(problem, z, OUTCOMES[outcome], pivots, tolerance)
