"""Alternating directions (ADMM) on the exact Coulomb cone, O(n²) an iteration, O(n³) when the penalty changes.

Minimise ``½ xᵀ W x + (b + s)ᵀ x`` over ``x = y``, ``y`` in the cones, with multipliers ``z``, and take De Saxcé's shift
``s = (0, 0, μ |z_t|)`` from the multipliers, which become the shifted velocities ``u + s``:

    x = (W + ρ)⁻¹ (ρ y + z − b − s),   y = P_K(x − z / ρ),   z = z − ρ (x − y).

The penalty ``ρ`` follows the ratio of primal to dual residual. Impulses are scaled by the root of each contact's
mobility. Where contact modes can be told, `newton` is tried on them, and kept if it ends within the tolerance.

Source: Carpentier, Le Lidec and Montaut 2024, *From compliant to rigid contact simulation*, algorithm 1.
*Deviations*: scaling, Newton's method, and the penalty's rule, which compares residuals (Boyd et al. 2011, 3.4.1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from delassus.compiler.jit.compile import compiled
from delassus.contact.problems import ConeProblem
from delassus.contact.results import Impulses, Solution, solved_cones
from delassus.contact.solvers.coulomb import mobilities, natural_residual, projected, rounding
from delassus.contact.solvers.linear import affine, assign, factor, substitute
from delassus.contact.solvers.newton import TUNING as NEWTON
from delassus.contact.solvers.newton import concluded, modes_of, newton
from delassus.spatial.rotations import Array


class Tuning(NamedTuple):
    """Numbers of `admm`; penalties are relative to mobilities."""

    first_penalty: float = 0.1
    """First penalty."""
    residual_ratio: float = 10.0
    """Ratio of residuals from which on the penalty changes."""
    penalty_ratio: float = 4.0
    """Ratio of one penalty to the next."""
    least_penalty: float = 1e-8
    """Least penalty."""
    largest_penalty: float = 1e4
    """Largest penalty."""
    iterations_a_check: int = 8
    """Iterations between two looks at the residual and the penalty."""


TUNING = Tuning()


@compiled
def admm_loop(
    W: Array, b: Array, mu: Array, friction_offset: Array, start: Array, tolerance: float, limit: int
) -> tuple[Array, float, int]:
    """The best impulses, their residual and the number of iterations; ends where only round-off may be left."""
    size, contacts = b.size, mu.size
    mode = np.full(contacts, -1)
    omega, most = mobilities(W)
    scale = np.empty(size)
    for k in range(size):
        scale[k] = 1.0 / np.sqrt(omega[k // 3])
    r, u = np.copy(start), np.empty(size)
    affine(W, r, b, u)
    best_r, best = np.copy(r), natural_residual(u, r, mu, friction_offset, omega)
    try_r, try_u = np.empty(size), np.empty(size)
    x, y, z, right = np.empty(size), np.empty(size), np.zeros(size), np.empty(size)
    for k in range(size):
        y[k] = r[k] / scale[k]
    for i in range(contacts):
        k = 3 * i
        if r[k + 2] > 0.0 or friction_offset[i] > 0.0:  # warm start: multipliers of the velocities there
            z[k], z[k + 1] = u[k] * scale[k], u[k + 1] * scale[k]
            z[k + 2] = max(u[k + 2], 0.0) * scale[k] + mu[i] * np.sqrt(z[k] ** 2 + z[k + 1] ** 2)
    penalty, factorised, iteration = TUNING.first_penalty, False, 0
    wait = after = TUNING.iterations_a_check
    H, order = np.empty((size, size)), np.empty(size, np.int64)
    enough = max(tolerance, NEWTON.round_off_multiple * rounding(W, best_r, b))
    while iteration < limit and best > enough:
        iteration += 1
        if not factorised:
            for i in range(size):
                for j in range(size):
                    H[i, j] = scale[i] * W[i, j] * scale[j]
                H[i, i] += penalty
            if factor(H, size, order) == 0.0:
                return best_r, np.inf, iteration
            factorised = True
        for i in range(contacts):
            k = 3 * i
            for j in range(k, k + 3):
                right[j] = penalty * y[j] + z[j] - scale[j] * b[j]
            right[k + 2] -= mu[i] * np.sqrt(z[k] ** 2 + z[k + 1] ** 2)
        substitute(H, size, order, right, x)
        primal, dual = 0.0, 0.0
        for i in range(contacts):
            k = 3 * i
            p1, p2, p3 = projected(
                x[k] - z[k] / penalty,
                x[k + 1] - z[k + 1] / penalty,
                x[k + 2] - z[k + 2] / penalty,
                mu[i],
                friction_offset[i] / scale[k],
            )
            dual = max(dual, abs(p1 - y[k]), abs(p2 - y[k + 1]), abs(p3 - y[k + 2]))
            y[k], y[k + 1], y[k + 2] = p1, p2, p3
            for j in range(k, k + 3):
                z[j] -= penalty * (x[j] - y[j])
                primal = max(primal, abs(x[j] - y[j]))
        if iteration % TUNING.iterations_a_check and iteration != limit:
            continue
        for k in range(size):
            r[k] = scale[k] * y[k]
        affine(W, r, b, u)
        residual = natural_residual(u, r, mu, friction_offset, omega)
        if residual < best:
            best = residual
            assign(best_r, r)
        if best > tolerance and (iteration >= after or iteration == limit):
            wait = min(2 * wait, 16 * TUNING.iterations_a_check)
            after = iteration + wait
            for still in (1e-6, 1e-3):  # contacts with a smaller velocity z − s are taken to stick
                for k in range(size):
                    try_r[k], try_u[k] = r[k], z[k] / scale[k] if k % 3 < 2 else 0.0
                modes_of(try_r, try_u, friction_offset, still, mode)
                residual = newton(W, b, mu, friction_offset, omega, most, mode, 1e-3 * tolerance, try_r, try_u)
                if residual < best:
                    best = residual
                    assign(best_r, try_r)
                if best <= tolerance:
                    break
        enough = max(tolerance, NEWTON.round_off_multiple * rounding(W, best_r, b))
        dual *= penalty
        if primal > TUNING.residual_ratio * dual and penalty < TUNING.largest_penalty:
            penalty *= TUNING.penalty_ratio
            factorised = False
        elif dual > TUNING.residual_ratio * primal and penalty > TUNING.least_penalty:
            penalty /= TUNING.penalty_ratio
            factorised = False
    return best_r, best, iteration


def admm_contacts(
    W: Array, b: Array, mu: Array, friction_offset: Array, start: Array, tolerance: float, limit: int
) -> Impulses:
    """Impulses by alternating directions; see `delassus.contact.solvers.registry`."""
    r, residual, iterations = admm_loop(W, b, mu, friction_offset, start, tolerance, limit)
    return concluded(W, b, mu, friction_offset, r, residual, tolerance, iterations)[0]


def admm(
    problem: ConeProblem, start: ArrayLike | None = None, *, tolerance: float = 1e-8, max_iterations: int = 2000
) -> Solution[ConeProblem]:
    """Solve a contact problem with exact friction cones by alternating directions.

    Parameters
    ----------
    problem : ConeProblem
    start : (n, 3) array_like, optional
        Impulses to start from (N s), such as those of the step before.
    tolerance : float
        Of `ConeProblem.residual` (m/s).
    max_iterations : int
        Steps of alternating directions.

    Raises
    ------
    ConfigurationError
        Another kind of problem; a tolerance or limit that is not positive; a start of another size.

    References
    ----------
    Carpentier, Le Lidec and Montaut 2024, algorithm 1.

    Examples
    --------
    >>> from delassus.contact.problems import ConeProblem
    >>> block = ConeProblem([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [3, 4, -1], mu=0.5)
    >>> admm(block).values.round(6).tolist()
    [[-0.3, -0.4, 1.0]]
    """
    return solved_cones(admm_contacts, problem, start, tolerance, max_iterations)
