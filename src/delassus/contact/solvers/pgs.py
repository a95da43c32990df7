"""Projected Gauss–Seidel for linear complementarity problems, by blocks, O(n²) a sweep.

A block of one unknown is projected: ``z_i = max(0, z_i − w_i / M_ii)``. A larger block is a small problem of the same
kind, solved by Lemke's method: friction needs that, as the rows of ``σ`` have nothing on the diagonal. Now and then the
unknowns that are positive are taken for a basis, whose solution is kept if it is within the tolerance.

Source: Cottle, Pang, Stone, section 5.2. *Deviation*: the last step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.contact.problems import LCP
from delassus.contact.results import OUTCOMES, LCPResult
from delassus.contact.solvers.compiled import compiled
from delassus.contact.solvers.linear import affine, assign
from delassus.contact.solvers.options import check_kind, check_options, checked_start
from delassus.contact.solvers.pivoting import LIMIT, SOLVED, TROUBLE, from_basis, gap, lemke_kernel, scales
from delassus.errors import ConfigurationError
from delassus.model.rotations import Array

CHECK = 8
"""Sweeps between two looks at the residual."""
PIVOTS = 1000
"""Most pivots of Lemke's method on a block."""


@compiled
def pgs_kernel(
    M: Array,
    q: Array,
    starts: NDArray[np.int64],
    members: NDArray[np.int64],
    start: Array,
    tolerance: float,
    limit: int,
) -> tuple[Array, int, int]:
    """``z``, outcome and number of sweeps."""
    n = q.size
    z, w, s = np.copy(start), np.empty(n), np.empty(n)
    best_z, try_z, try_w, active = np.copy(z), np.empty(n), np.empty(n), np.empty(n, np.bool_)
    for i in range(n):
        z[i] = max(z[i], 0.0)
    affine(M, z, q, w)
    best = gap(z, w)
    assign(best_z, z)
    if best <= tolerance:
        return z, SOLVED, 0
    scales(M, s)
    for sweeps in range(1, limit + 1):
        for block in range(starts.size - 1):
            first, size = starts[block], starts[block + 1] - starts[block]
            if size == 1:
                i = members[first]
                total = q[i]
                for j in range(n):
                    total += M[i, j] * z[j]
                z[i] = max(0.0, z[i] - total / M[i, i])
                continue
            own, left = np.empty((size, size)), np.empty(size)
            for a in range(size):
                i = members[first + a]
                total = q[i]
                for j in range(n):
                    total += M[i, j] * z[j]
                for c in range(size):
                    own[a, c] = M[i, members[first + c]]
                    total -= own[a, c] * z[members[first + c]]
                left[a] = total
            solution, outcome, _ = lemke_kernel(own, left, 0.1 * tolerance, PIVOTS)
            if outcome == SOLVED:
                for a in range(size):
                    z[members[first + a]] = solution[a]
        if sweeps % CHECK and sweeps != limit:
            continue
        affine(M, z, q, w)
        residual = gap(z, w)
        if residual < best:
            best = residual
            assign(best_z, z)
        if best <= tolerance:
            return best_z, SOLVED, sweeps
        for i in range(n):
            active[i] = z[i] > 0.0
        residual = from_basis(M, q, s, active, try_z, try_w)
        if residual <= tolerance:
            return try_z, SOLVED, sweeps
        if not residual < np.inf and not best < np.inf:
            return best_z, TROUBLE, sweeps
    return best_z, LIMIT, limit


def pgs(problem: LCP, start: ArrayLike | None = None, *, tolerance: float = 1e-8, max_sweeps: int = 10000) -> LCPResult:
    """Solve a linear complementarity problem by projected Gauss–Seidel, over its blocks.

    Parameters
    ----------
    problem : LCP
        Blocks of one unknown need a positive diagonal; those of a `PolyhedralLCP` are its contacts.
    start : (n,) array_like, optional
        Unknowns to start from.
    tolerance : float
        Of `LCPResult.residual`, in the units of ``z`` and ``w``.
    max_sweeps : int

    Raises
    ------
    ConfigurationError
        Another kind of problem, an option or ``start`` that makes no sense, or a diagonal that is not positive.
    MissingDependencyError
        numba is not installed.

    Examples
    --------
    >>> from delassus.contact.problems import LCP
    >>> pgs(LCP([[2, 1], [1, 2]], [-5, -6])).z.round(6).tolist()
    [1.333333, 2.333333]
    """
    check_kind(problem, LCP, "Of a ConeProblem, pass polyhedral(); for equality rows, solve_mixed.")
    check_options(tolerance, max_sweeps, "max_sweeps")
    sizes = [len(block) for block in problem.blocks]
    for block in problem.blocks:
        if len(block) == 1 and not problem.M[block[0], block[0]] > 0:
            raise ConfigurationError(
                f"row {block[0]} of an LCP",
                "a positive number on the diagonal",
                f"{problem.M[block[0], block[0]]:g}",
                "Put it in a block with others (blocks=…), or use lemke.",
            )
    first = (
        np.zeros(problem.size) if start is None else checked_start(start, problem.size, "z as the solvers return it")
    )
    members = np.concatenate([np.zeros(0, np.int64), *problem.blocks])
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    z, outcome, sweeps = pgs_kernel(
        problem.M.copy(), problem.q.copy(), starts, members, first, float(tolerance), int(max_sweeps)
    )
    return LCPResult(problem, z, OUTCOMES[outcome], sweeps, tolerance)
