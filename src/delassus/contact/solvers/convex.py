"""The convex relaxation of Coulomb friction, by the interior-point solver clarabel: a reference, not for speed.

Without De Saxcé's shift, ``K ∋ r ⊥ W r + b ∈ K*`` are the optimality conditions of

    minimise ½ rᵀ W r + bᵀ r   over   |r_t| ≤ μ r_n.

Contacts that slip separate at ``μ |u_t|``; where nothing slips, or without friction, its solutions are the exact ones
(MuJoCo, Drake's and Anitescu's models start here).
"""

from __future__ import annotations

import numpy as np

from delassus.contact.problems import ConeProblem, RelaxedProblem
from delassus.contact.results import Impulses, Solution, SolverStatus, solved_cones
from delassus.contact.solvers.coulomb import mobilities
from delassus.contact.solvers.double_double import natural_map
from delassus.errors import require
from delassus.spatial.rotations import Array

POLISH = 30
"""Most steps of Newton's method after the interior points."""


def convex_contacts(
    W: Array, b: Array, mu: Array, friction_offset: Array, start: Array, tolerance: float, limit: int
) -> Impulses:
    """Impulses of the relaxation by clarabel, which takes no start; see `delassus.contact.solvers.registry`."""
    require("clarabel", "contact", "the convex reference")
    import clarabel
    from scipy import sparse

    n, size = mu.size, b.size
    if n == 0:
        return Impulses(np.zeros(0), SolverStatus.CONVERGED, 0)
    fastest = float(np.abs(b).max()) or 1.0
    scale = np.repeat(1.0 / np.sqrt(mobilities(W)[0]), 3)  # impulses are fastest · scale · unknowns
    rows, bound = np.zeros((size, size)), np.zeros(size + n)  # bound − rows · r = (μ r_n + more, r_t) in the cone
    bound[:size:3] = friction_offset / (scale[::3] * fastest)
    for i in range(n):
        k = 3 * i
        rows[k, k + 2], rows[k + 1, k], rows[k + 2, k + 1] = -mu[i], -1.0, -1.0
    normal = np.zeros((n, size))  # r_n ≥ 0 also where μ = 0
    normal[np.arange(n), 3 * np.arange(n) + 2] = -1.0
    cones = [clarabel.SecondOrderConeT(3)] * n + [clarabel.NonnegativeConeT(n)]
    H = scale[:, None] * W * scale
    H += np.diag(W.diagonal() == 0.0)  # rows of zeros get no impulses
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_iter = False, limit
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    upper, constraints = sparse.csc_matrix(np.triu(H)), sparse.csc_matrix(np.vstack([rows, normal]))
    answer = clarabel.DefaultSolver(upper, scale * b / fastest, constraints, bound, cones, settings).solve()
    r = (fastest * scale * np.nan_to_num(np.asarray(answer.x), posinf=0.0, neginf=0.0)).reshape(-1, 3)
    r, residual = polished(W, b, mu, friction_offset, r, 1e-3 * tolerance)
    status = SolverStatus.ITERATION_LIMIT if "Max" in str(answer.status) else SolverStatus.NUMERICAL_TROUBLE
    if residual <= tolerance:
        status = SolverStatus.CONVERGED
    return Impulses(r.ravel(), status, int(answer.iterations))


def polished(W: Array, b: Array, mu: Array, friction_offset: Array, r: Array, goal: float) -> tuple[Array, float]:
    """Impulses (n, 3) in the cones and their residual, by Newton's method on ``ω r − P_K(ω r − W r − b) = 0``.

    Interior points are off by the root of their gap, and not in the cones.
    """
    n, omega, _ = mu.size, *mobilities(W)
    best, least = r, np.inf
    for _ in range(POLISH):
        r = r - natural_map(r, np.zeros((n, 3)), mu, friction_offset, np.ones(n))  # the nearest point of the cones
        u = (W @ r.ravel() + b).reshape(n, 3)
        steps = natural_map(r, u, mu, friction_offset, omega)
        residual = float(np.linalg.norm(steps, axis=1).max())
        if residual < least:
            best, least = r, residual
        if least <= goal or not residual < np.inf:
            break
        D = np.zeros((n, 3, n, 3))
        D[np.arange(n), :, np.arange(n)] = slopes(omega[:, None] * r - u, mu, omega * friction_offset)
        weight = np.diag(np.repeat(omega, 3))
        change = np.linalg.lstsq(weight - D.reshape(3 * n, -1) @ (weight - W), steps.ravel(), rcond=1e-13)[0]
        r = r - change.reshape(n, 3)
    return best, least


def slopes(y: Array, mu: Array, friction_offset: Array) -> Array:
    """Derivatives (n, 3, 3) of the projection on the cones at ``y`` (n, 3)."""
    t = np.hypot(y[:, 0], y[:, 1])
    d = y[:, :2] / np.where(t > 0.0, t, 1.0)[:, None]
    normal = np.maximum((y[:, 2] + mu * (t - friction_offset)) / (1.0 + mu**2), 0.0)
    inside, above = (t <= mu * y[:, 2] + friction_offset) & (y[:, 2] >= 0.0), normal > 0.0
    kept = np.minimum((mu * normal + friction_offset) / np.where(t > 0.0, t, 1.0), 1.0)
    out = np.zeros((len(y), 3, 3))
    radial = d[:, :, None] * d[:, None, :]
    out[:, :2, :2] = kept[:, None, None] * (np.eye(2) - radial * (kept < 1.0)[:, None, None])
    edge = np.column_stack([mu[:, None] * d, np.ones(len(y))])
    out += (above / (1.0 + mu**2))[:, None, None] * edge[:, :, None] * edge[:, None, :]
    out[inside] = np.eye(3)
    return out


def convex(problem: ConeProblem, *, tolerance: float = 1e-6, max_iterations: int = 200) -> Solution[RelaxedProblem]:
    """Solve the convex relaxation of a contact problem with clarabel.

    The solution's problem is a `RelaxedProblem`, whose residual leaves De Saxcé's shift out.

    Parameters
    ----------
    problem : ConeProblem
    tolerance : float
        Of `RelaxedProblem.residual` (m/s).
    max_iterations : int
        Iterations of clarabel.

    Raises
    ------
    ConfigurationError
        Another kind of problem; a tolerance or limit that is not positive.
    MissingDependencyError
        clarabel or scipy is not installed.

    Examples
    --------
    >>> from delassus.contact.problems import ConeProblem
    >>> ball = ConeProblem([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0.1, 0, -1], mu=0.5)
    >>> convex(ball).values.round(6).tolist()
    [[-0.1, 0.0, 1.0]]
    """
    found = solved_cones(convex_contacts, problem, None, tolerance, max_iterations)
    relaxed = RelaxedProblem(problem.W, problem.b, problem.mu, problem.friction_offset)
    return Solution(relaxed, found.values, found.status, found.iterations)
