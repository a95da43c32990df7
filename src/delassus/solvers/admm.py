"""Alternating directions (ADMM) on the exact Coulomb cone, O(n²) an iteration, O(n³) when the penalty changes.

Minimise ``½ xᵀ W x + (b + s)ᵀ x`` over ``x = y``, ``y`` in the cones, with multipliers ``z``, and take De Saxcé's shift
``s = (0, 0, μ |z_t|)`` from the multipliers, which become the shifted velocities ``u + s``:

    x = (W + ρ)⁻¹ (ρ y + z − b − s),   y = P_K(x − z / ρ),   z = z − ρ (x − y).

The penalty ``ρ`` follows the ratio of primal to dual residual. Impulses are scaled by the root of each contact's
mobility. `newton` is tried now and then, and kept if it ends within the tolerance.

Source: Carpentier, Le Lidec and Montaut 2024, *From compliant to rigid contact simulation*, algorithm 1.
*Deviations*: scaling, Newton's method, and the penalty's rule, which compares residuals (Boyd et al. 2011, 3.4.1).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from delassus.compiler.jit.compile import compiled
from delassus.solvers.islands.cone import cone_law
from delassus.solvers.islands.dense import ConeLaws, alone, block_impulses
from delassus.solvers.linear import factor, mobilities, substitute
from delassus.solvers.newton import concluded, newton
from delassus.solvers.problems import ConeProblem
from delassus.solvers.results import Impulses, Solution, solved_cones
from delassus.spatial.rotations import Array

FIRST_PENALTY = 0.1
"""First penalty."""

RESIDUAL_RATIO = 10.0
"""Ratio of residuals from which on the penalty changes."""

PENALTY_RATIO = 4.0
"""Ratio of one penalty to the next."""

LEAST_PENALTY = 1e-8
"""Least penalty."""

LARGEST_PENALTY = 1e4
"""Largest penalty."""

ITERATIONS_A_PENALTY = 8
"""Iterations between two looks at the penalty."""

FIRST_CHECK = 16
"""Iterations before Newton's method is first tried where sweeps are near, and each time twice as many."""

FAR_CHECK = 128
"""Iterations from which on it is tried wherever they are."""


@compiled
def iterate(
    W: Array, b: Array, mu: Array, friction_offset: Array, y: Array, z: Array, penalty: float, count: int
) -> float:
    """Make so many iterations from impulses ``y`` and multipliers ``z``; the next penalty, 0 where there is none."""
    size, contacts, primal, dual, before = b.size, mu.size, 0.0, 0.0, 0.0
    H, order, x, right = np.empty((size, size)), np.empty(size, np.int64), np.empty(size), np.empty(size)
    for iteration in range(count):
        if penalty != before:
            before = penalty
            for i in range(size):
                for j in range(size):
                    H[i, j] = W[i, j]
                H[i, i] += penalty
            if factor(H, size, order) == 0.0:
                return 0.0
        for i in range(contacts):
            k = 3 * i
            for j in range(k, k + 3):
                right[j] = penalty * y[j] + z[j] - b[j]
            right[k + 2] -= mu[i] * np.sqrt(z[k] ** 2 + z[k + 1] ** 2)
        substitute(H, size, order, right, x)
        primal, dual = 0.0, 0.0
        for i in range(contacts):
            k, over = 3 * i, 1.0 / penalty
            nearest = cone_law(
                mu[i], friction_offset[i], x[k] - over * z[k], x[k + 1] - over * z[k + 1], x[k + 2] - over * z[k + 2]
            )
            for j in range(3):
                new = nearest[0] if j == 0 else nearest[1] if j == 1 else nearest[2]
                dual = max(dual, penalty * abs(new - y[k + j]))
                y[k + j] = new
                z[k + j] -= penalty * (x[k + j] - new)
                primal = max(primal, abs(x[k + j] - new))
        if (iteration + 1) % ITERATIONS_A_PENALTY == 0:
            if primal > RESIDUAL_RATIO * dual and penalty < LARGEST_PENALTY:
                penalty *= PENALTY_RATIO
            elif dual > RESIDUAL_RATIO * primal and penalty > LEAST_PENALTY:
                penalty /= PENALTY_RATIO
    return penalty


def admm_contacts(
    W: Array, b: Array, mu: Array, friction_offset: Array, start: Array, tolerance: float, limit: int
) -> Impulses:
    """Impulses by alternating directions; see `delassus.solvers.registry`."""
    scale = np.repeat(1.0 / np.sqrt(mobilities(W)[0]), 3)
    scaled = scale[:, None] * W * scale, scale * b, mu, friction_offset / scale[::3]
    y, u = start / scale, (scale * (W @ start + b)).reshape(-1, 3)
    u[(start[2::3] == 0.0) & (friction_offset == 0.0)] = 0.0
    u[:, 2] = np.maximum(u[:, 2], 0.0) + mu * np.hypot(u[:, 0], u[:, 1])
    z, penalty, iteration, check = u.ravel(), FIRST_PENALTY, 0, FIRST_CHECK
    best, laws = (start, np.inf), ConeLaws(mu, friction_offset, alone(mu.size))
    while True:
        found = scale * y
        residual, _ = block_impulses(W, b, laws, found, tolerance, 1, 0)
        if residual > tolerance and iteration >= min(FAR_CHECK, limit):
            found, _, residual = newton(W, b, mu, friction_offset, found, tolerance)
        best = min(best, (found, residual), key=lambda way: way[1])
        if best[1] <= tolerance or iteration >= limit or not penalty > 0.0:
            break
        count = min(check, limit) - iteration
        penalty = iterate(*scaled, y, z, penalty, count)
        iteration, check = iteration + count, 2 * check
    return concluded(W, b, mu, friction_offset, *best, tolerance, iteration)[0]


def admm(
    problem: ConeProblem, start: ArrayLike | None = None, *, tolerance: float = 1e-8, max_iterations: int = 2000
) -> Solution[ConeProblem]:
    """Solve a contact problem with exact friction cones by alternating directions.

    Takes what `nsgs` takes, and raises what that raises; iterations are steps of alternating directions.

    References
    ----------
    Carpentier, Le Lidec and Montaut 2024, algorithm 1.

    Examples
    --------
    >>> from delassus.contact import ConeProblem
    >>> block = ConeProblem([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [3, 4, -1], mu=0.5)
    >>> admm(block).values.round(6).tolist()
    [[-0.3, -0.4, 1.0]]
    """
    return solved_cones(admm_contacts, problem, start, tolerance, max_iterations)
