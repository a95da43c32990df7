"""Alternating directions (ADMM) on the exact Coulomb cone, O(n²) an iteration, O(n³) when the penalty changes.

Minimise ``½ xᵀ W x + (b + s)ᵀ x`` over ``x = y``, ``y`` in the cones, with multipliers ``z``, and take De Saxcé's shift
``s = (0, 0, μ |z_t|)`` from the multipliers, which become the shifted velocities ``u + s``:

    x = (W + ρ)⁻¹ (ρ y + z − b − s),   y = P_K(x − z / ρ),   z = z − ρ (x − y).

The penalty ``ρ`` follows the ratio of primal to dual residual. Impulses are scaled by the root of each contact's
mobility. Where modes can be told, Newton's method on them (`modes`) is tried, and kept if it ends within the tolerance.

Source: Carpentier, Le Lidec and Montaut 2024, *From compliant to rigid contact simulation*, algorithm 1.
*Deviations*: scaling, Newton's method, and the penalty's rule, which compares residuals (Boyd et al. 2011, 3.4.1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from delassus.contact.problems import ConeProblem
from delassus.contact.results import OUTCOMES, ConeResult
from delassus.contact.solvers.compiled import compiled
from delassus.contact.solvers.contact_modes import modes_of, newton
from delassus.contact.solvers.coulomb import (
    LIMIT,
    SOLVED,
    TROUBLE,
    mobilities,
    natural_residual,
    projected,
    rounding,
)
from delassus.contact.solvers.iterative_refinement import NEAR, TRUSTED, conclude
from delassus.contact.solvers.linear import affine, assign, factor, substitute
from delassus.contact.solvers.options import check_kind, check_options, starting, writable
from delassus.model.rotations import Array

PENALTY = 0.1
"""First penalty, relative to mobilities."""
BALANCE, CHANGE = 10.0, 4.0
"""Ratio of residuals from which on the penalty changes, and by how much."""
LEAST, MOST = 1e-8, 1e4
"""Range of the penalty."""
CHECK = 8
"""Iterations between two looks at the residual and the penalty."""


@compiled
def admm_kernel(
    W: Array, b: Array, mu: Array, start: Array, tolerance: float, limit: int
) -> tuple[Array, Array, Array, float, int, int]:
    """``r``, what it lacks beyond float64, ``u``, residual, outcome and number of iterations."""
    size, contacts = b.size, mu.size
    omega, modes = np.empty(contacts), np.full(contacts, -1)
    most = mobilities(W, omega)
    scale = np.empty(size)
    for k in range(size):
        scale[k] = 1.0 / np.sqrt(omega[k // 3])
    r, u = np.copy(start), np.empty(size)
    affine(W, r, b, u)
    best_r, best_u = np.copy(r), np.copy(u)
    low = np.zeros(size)
    best = natural_residual(u, r, mu, omega)
    if best <= tolerance and rounding(W, r, b) <= TRUSTED * tolerance:
        return r, low, u, best, SOLVED, 0
    try_r, try_u = np.empty(size), np.empty(size)
    x, y, z, right = np.empty(size), np.empty(size), np.zeros(size), np.empty(size)
    for k in range(size):
        y[k] = r[k] / scale[k]
    for i in range(contacts):
        k = 3 * i
        if r[k + 2] > 0.0:  # a warm start: the multipliers that the velocities there ask for
            z[k], z[k + 1] = u[k] * scale[k], u[k + 1] * scale[k]
            z[k + 2] = max(u[k + 2], 0.0) * scale[k] + mu[i] * np.sqrt(z[k] ** 2 + z[k + 1] ** 2)
    penalty, fresh, wait, after = PENALTY, False, CHECK, CHECK
    H, order = np.empty((size, size)), np.empty(size, np.int64)
    for iteration in range(1, limit + 1):
        if not fresh:
            for i in range(size):
                for j in range(size):
                    H[i, j] = scale[i] * W[i, j] * scale[j]
                H[i, i] += penalty
            if factor(H, size, order) == 0.0:
                return best_r, low, best_u, best, TROUBLE, iteration
            fresh = True
        for i in range(contacts):
            k = 3 * i
            shift = mu[i] * np.sqrt(z[k] ** 2 + z[k + 1] ** 2)
            for j in range(3):
                right[k + j] = penalty * y[k + j] + z[k + j] - scale[k] * b[k + j]
            right[k + 2] -= shift
        substitute(H, size, order, right, x)
        primal, dual = 0.0, 0.0
        for i in range(contacts):
            k = 3 * i
            p1, p2, p3 = projected(
                x[k] - z[k] / penalty, x[k + 1] - z[k + 1] / penalty, x[k + 2] - z[k + 2] / penalty, mu[i]
            )
            dual = max(dual, abs(p1 - y[k]), abs(p2 - y[k + 1]), abs(p3 - y[k + 2]))
            y[k], y[k + 1], y[k + 2] = p1, p2, p3
            for j in range(k, k + 3):
                z[j] -= penalty * (x[j] - y[j])
                primal = max(primal, abs(x[j] - y[j]))
        if iteration % CHECK and iteration != limit:
            continue
        for k in range(size):
            r[k] = scale[k] * y[k]
        affine(W, r, b, u)
        residual = natural_residual(u, r, mu, omega)
        if residual < best:
            best = residual
            assign(best_r, r)
            assign(best_u, u)
        if best > tolerance and (iteration >= after or iteration == limit):
            wait = min(2 * wait, 16 * CHECK)
            after = iteration + wait
            for still in (1e-6, 1e-3):  # of what z and s have come to, what moves slower is taken to stick
                for k in range(size):
                    try_r[k], try_u[k] = r[k], z[k] / scale[k]
                for i in range(contacts):
                    try_u[3 * i + 2] = 0.0
                modes_of(try_r, try_u, still, modes)
                residual = newton(W, b, mu, omega, most, modes, 1e-3 * tolerance, try_r, try_u)
                if residual < best:
                    best = residual
                    assign(best_r, try_r)
                    assign(best_u, try_u)
                if best <= tolerance:
                    break
        noise = rounding(W, best_r, b)
        if best <= tolerance and noise <= TRUSTED * tolerance:
            return best_r, low, best_u, best, SOLVED, iteration
        if best <= max(tolerance, NEAR * noise):
            best, outcome = conclude(W, b, mu, omega, most, tolerance, best_r, low, best_u)
            if outcome != LIMIT:
                return best_r, low, best_u, best, outcome, iteration
        dual *= penalty
        if primal > BALANCE * dual and penalty < MOST:
            penalty *= CHANGE
            fresh = False
        elif dual > BALANCE * primal and penalty > LEAST:
            penalty /= CHANGE
            fresh = False
    return best_r, low, best_u, best, LIMIT if best < np.inf else TROUBLE, limit


def admm(
    problem: ConeProblem, start: ArrayLike | None = None, *, tolerance: float = 1e-8, max_iterations: int = 2000
) -> ConeResult:
    """Solve a contact problem with exact friction cones by alternating directions.

    Parameters
    ----------
    problem : ConeProblem
    start : (n, 3) array_like, optional
        Impulses to start from (N s), such as those of the step before.
    tolerance : float
        Of `ConeResult.residual` (m/s).
    max_iterations : int

    Raises
    ------
    ConfigurationError
        Another kind of problem, an option or ``start`` that makes no sense.
    MissingDependencyError
        numba is not installed.

    References
    ----------
    Carpentier, Le Lidec and Montaut 2024, algorithm 1.

    Examples
    --------
    >>> from delassus.contact.problems import ConeProblem
    >>> block = ConeProblem([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [3, 4, -1], mu=0.5)
    >>> admm(block).impulses.round(6).tolist()
    [[-0.3, -0.4, 1.0]]
    """
    check_kind(problem, ConeProblem, "Linear problems are for lemke and pgs; a ContactProblem has solve().")
    check_options(tolerance, max_iterations, "max_iterations")
    r, low, u, _, outcome, iterations = admm_kernel(
        *writable(problem), starting(problem, start), float(tolerance), int(max_iterations)
    )
    shape = (-1, 3)
    return ConeResult(
        problem, r.reshape(shape), u.reshape(shape), low.reshape(shape), OUTCOMES[outcome], iterations, tolerance
    )
