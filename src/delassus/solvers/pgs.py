"""Projected Gauss–Seidel for linear complementarity problems, by blocks, O(n²) a sweep.

A block of one unknown is projected: ``z_i = max(0, z_i − w_i / M_ii)``. A larger block is a small problem of the same
kind, solved by Lemke's method: friction needs that, as the rows of ``σ`` have nothing on the diagonal. Now and then the
unknowns that are positive are taken for a basis, whose solution is kept if it is within the tolerance.

Source: Cottle, Pang, Stone, section 5.2. *Deviation*: the last step.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from delassus.compiler.jit.compile import compiled
from delassus.errors import ConfigurationError
from delassus.solvers.lemke import LIMIT, SOLVED, TROUBLE, from_basis, gap, lemke_kernel, scales
from delassus.solvers.linear import affine, assign
from delassus.solvers.problems import LCP
from delassus.solvers.pyramids import contact_blocks, impulses_of, linear_problem, unknowns
from delassus.solvers.results import STATUSES, Solution, check_request, starting
from delassus.spatial.rotations import Array

L = TypeVar("L", bound=LCP)

CHECK = 8
"""Sweeps between two looks at the residual."""
PIVOTS = 1000
"""Most pivots of Lemke's method on a block."""


@compiled
def pgs_kernel(
    M: Array, q: Array, blocks: NDArray[np.int64], start: Array, tolerance: float, limit: int
) -> tuple[Array, int, int]:
    """``z``, outcome and number of sweeps; rows of ``blocks`` end with −1 where they are shorter than the longest."""
    n, size = q.size, 0
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
        for block in blocks:
            size = 0
            while size < block.size and block[size] >= 0:
                size += 1
            own, left = np.empty((size, size)), np.empty(size)
            for a in range(size):
                i = block[a]
                left[a] = q[i]
                for j in range(n):
                    left[a] += M[i, j] * z[j]
                for c in range(size):
                    own[a, c] = M[i, block[c]]
                    left[a] -= own[a, c] * z[block[c]]
            if size == 1:
                z[block[0]] = max(0.0, -left[0] / own[0, 0])
                continue
            solution, outcome, _ = lemke_kernel(own, left, 0.1 * tolerance, PIVOTS)
            if outcome == SOLVED:
                for a in range(size):
                    z[block[a]] = solution[a]
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


@compiled
def pgs_impulses(
    W: Array, b: Array, mu: Array, friction_offset: Array, directions: Array, start: Array, tolerance: float, limit: int
) -> tuple[Array, int, int]:
    """Impulses on pyramids by sweeps over contacts, from those of a step before."""
    M, q = linear_problem(W, b, mu, directions, friction_offset)
    z, _, _ = unknowns(W, b, mu, directions, start, friction_offset)
    blocks = contact_blocks(mu.size, directions.shape[0])
    z, outcome, sweeps = pgs_kernel(M, q, blocks, z, tolerance, limit)
    return impulses_of(z, directions, mu.size), outcome, sweeps


def pgs(
    problem: L, start: ArrayLike | None = None, *, tolerance: float = 1e-8, max_iterations: int = 10000
) -> Solution[L]:
    """Solve a linear complementarity problem by projected Gauss–Seidel, over its blocks.

    Parameters
    ----------
    problem : LCP
        Its blocks of one unknown have a positive diagonal; those of a `PolyhedralLCP` are its contacts.
    start : (n,) array_like, optional
        Unknowns to start from.
    tolerance : float
        Of `LCP.residual`, in the units of ``z`` and ``w``.
    max_iterations : int
        Sweeps.

    Raises
    ------
    ConfigurationError
        Another kind of problem, or such a diagonal that is not positive; a tolerance or limit that is not positive; a
        start of another size.

    Examples
    --------
    >>> from delassus.contact import LCP
    >>> pgs(LCP([[2, 1], [1, 2]], [-5, -6])).values.round(6).tolist()
    [1.333333, 2.333333]
    """
    advice = "Of a ConeProblem, pass polyhedral(); for equality rows, solve_mixed."
    check_request(problem, LCP, advice, tolerance, max_iterations)
    for block in problem.blocks:
        if len(block) == 1 and not problem.M[block[0], block[0]] > 0:
            raise ConfigurationError(
                f"row {block[0]} of an LCP", "a positive number on the diagonal",
                f"{problem.M[block[0], block[0]]:g}", "Put it in a block with others (blocks=…), or use lemke.",
            )  # fmt: skip
    blocks = np.full((len(problem.blocks), max(map(len, problem.blocks), default=0)), -1)
    for row, block in zip(blocks, problem.blocks, strict=True):
        row[: len(block)] = block
    z, outcome, sweeps = pgs_kernel(
        problem.M.copy(), problem.q.copy(), blocks, starting(problem.size, start), float(tolerance), int(max_iterations)
    )
    return Solution(problem, z, STATUSES[outcome], sweeps)
