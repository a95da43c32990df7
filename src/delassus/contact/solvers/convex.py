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
from delassus.contact.solvers.double_double import natural_map
from delassus.errors import missing_dependency
from delassus.model.rotations import Array


def convex_contacts(W: Array, b: Array, mu: Array, more: Array, start: Array, tolerance: float, limit: int) -> Impulses:
    """Impulses of the relaxation by clarabel, which takes no start; see `delassus.contact.solvers.registry`."""
    try:
        import clarabel
        from scipy import sparse
    except ImportError as error:
        raise missing_dependency("clarabel", "contact", "the convex reference") from error
    n, size = mu.size, b.size
    if n == 0:
        return Impulses(np.zeros(0), SolverStatus.CONVERGED, 0)
    rows, bound = np.zeros((size, size)), np.zeros(size + n)  # bound − rows · r = (μ r_n + more, r_t) in the cone
    bound[:size:3] = more
    for i in range(n):
        k = 3 * i
        rows[k, k + 2], rows[k + 1, k], rows[k + 2, k + 1] = -mu[i], -1.0, -1.0
    normal = np.zeros((n, size))  # r_n ≥ 0 also where μ = 0
    normal[np.arange(n), 3 * np.arange(n) + 2] = -1.0
    cones = [clarabel.SecondOrderConeT(3)] * n + [clarabel.NonnegativeConeT(n)]
    definite = W + np.diag(W.diagonal() == 0.0)  # rows of zeros get no impulses
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_iter = False, limit
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = min(1e-10, 1e-2 * tolerance)
    answer = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(definite)), b, sparse.csc_matrix(np.vstack([rows, normal])), bound, cones, settings,
    ).solve()  # fmt: skip
    r = np.nan_to_num(np.asarray(answer.x), posinf=0.0, neginf=0.0).reshape(-1, 3)
    r = r - natural_map(r, np.zeros((n, 3)), mu, more, np.ones(n))  # the nearest point of the cones
    status = SolverStatus.ITERATION_LIMIT if "Max" in str(answer.status) else SolverStatus.NUMERICAL_TROUBLE
    if RelaxedProblem(W, b, mu, more).residual(r) <= tolerance:
        status = SolverStatus.CONVERGED
    return Impulses(r.ravel(), status, int(answer.iterations))


def convex(problem: ConeProblem, *, tolerance: float = 1e-6, max_iterations: int = 200) -> Solution[RelaxedProblem]:
    """Solve the convex relaxation of a contact problem with clarabel.

    Parameters and errors are those of `nsgs`, without a start. The solution's problem is a `RelaxedProblem`, whose
    residual leaves De Saxcé's shift out.

    Examples
    --------
    >>> from delassus.contact.problems import ConeProblem
    >>> ball = ConeProblem([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0.1, 0, -1], mu=0.5)
    >>> convex(ball).values.round(6).tolist()
    [[-0.1, 0.0, 1.0]]
    """
    found = solved_cones(convex_contacts, problem, None, tolerance, max_iterations)
    relaxed = RelaxedProblem(problem.W, problem.b, problem.mu, problem.more)
    return Solution(relaxed, found.values, found.status, found.iterations)
