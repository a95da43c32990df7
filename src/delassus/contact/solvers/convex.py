"""The convex relaxation of Coulomb friction, by the interior-point solver clarabel: a reference, not for speed.

Without De Saxcé's shift, ``K ∋ r ⊥ W r + b ∈ K*`` are the optimality conditions of

    minimise ½ rᵀ W r + bᵀ r   over   |r_t| ≤ μ r_n.

Contacts that slip separate at ``μ |u_t|``; where nothing slips, or without friction, its solutions are the exact ones
(MuJoCo, Drake's and Anitescu's models start here). `ConvexResult.residual` therefore leaves the shift out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from delassus.contact.problems import ConeProblem, project
from delassus.contact.results import SolverStatus
from delassus.contact.solvers.options import check_kind, check_options
from delassus.errors import missing_dependency
from delassus.model.rotations import Array


@dataclass(frozen=True, slots=True, eq=False)
class ConvexResult:
    """Solution of the convex relaxation of a `ConeProblem`.

    Attributes
    ----------
    problem : ConeProblem
    impulses, velocities : (n, 3) arrays
        ``r`` (N s) and ``u = W r + b`` (m/s), in the order tangent, tangent, normal.
    status : SolverStatus
    iterations : int
    tolerance : float
        What `residual` was held to (m/s).
    """

    problem: ConeProblem
    impulses: Array
    velocities: Array
    status: SolverStatus
    iterations: int
    tolerance: float

    def residual(self) -> float:
        """``max_i |ω r − P_K(ω r − u)|`` (m/s), with the mean mobility ``ω`` of each contact."""
        return relaxed_residual(self.problem, self.impulses)

    def complementarity(self) -> float:
        """``max_i |rᵀ u|`` (J)."""
        return float(np.abs((self.impulses * self.velocities).sum(axis=1)).max(initial=0.0))

    def cone_violation(self) -> float:
        """By how much impulses are outside of their cones (N s)."""
        return self.problem.cone_violation(self.impulses)


def relaxed_residual(problem: ConeProblem, r: Array) -> float:
    """Residual of the relaxation: that of the exact problem, without the shift."""
    if not len(r):
        return 0.0
    omega = problem.W.diagonal().reshape(-1, 3).mean(axis=1)
    mean = float(omega.mean()) or 1.0
    x = np.where(omega < 1e-12 * mean, mean, omega)[:, None] * r
    return float(np.linalg.norm(x - project(x - problem.velocities(r), problem.mu), axis=1).max())


def convex(problem: ConeProblem, *, tolerance: float = 1e-6, max_iterations: int = 200) -> ConvexResult:
    """Solve the convex relaxation of a contact problem with clarabel.

    Parameters
    ----------
    problem : ConeProblem
    tolerance : float
        Of `ConvexResult.residual` (m/s).
    max_iterations : int

    Raises
    ------
    ConfigurationError
        Another kind of problem, or an option that makes no sense.
    MissingDependencyError
        clarabel is not installed.

    Examples
    --------
    >>> from delassus.contact.problems import ConeProblem
    >>> ball = ConeProblem([[1, 0, 0], [0, 1, 0], [0, 0, 1]], [0.1, 0, -1], mu=0.5)
    >>> convex(ball).impulses.round(6).tolist()
    [[-0.1, 0.0, 1.0]]
    """
    check_kind(problem, ConeProblem, "Linear problems are for lemke and pgs; a ContactProblem has solve().")
    check_options(tolerance, max_iterations, "max_iterations")
    try:
        import clarabel
        from scipy import sparse
    except ImportError as error:
        raise missing_dependency("clarabel", "contact", "the convex reference") from error
    n, size = problem.n_contacts, problem.b.size
    if n == 0:
        return ConvexResult(problem, np.zeros((0, 3)), np.zeros((0, 3)), SolverStatus.CONVERGED, 0, tolerance)
    rows = np.zeros((size, size))  # s = −rows · r = (μ r_n, r_t) in the standard cone
    for i in range(n):
        k = 3 * i
        rows[k, k + 2], rows[k + 1, k], rows[k + 2, k + 1] = -problem.mu[i], -1.0, -1.0
    normal = np.zeros((n, size))  # which says nothing on r_n where μ = 0
    normal[np.arange(n), 3 * np.arange(n) + 2] = -1.0
    cones = [clarabel.SecondOrderConeT(3)] * n + [clarabel.NonnegativeConeT(n)]
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_iter = False, int(max_iterations)
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = min(1e-10, 1e-2 * tolerance)
    answer = clarabel.DefaultSolver(
        sparse.csc_matrix(np.triu(problem.W)),
        problem.b,
        sparse.csc_matrix(np.vstack([rows, normal])),
        np.zeros(size + n),
        cones,
        settings,
    ).solve()
    r = project(np.asarray(answer.x).reshape(-1, 3), problem.mu)
    if not np.all(np.isfinite(r)):
        r = np.zeros((n, 3))
    stopped = "Max" in str(answer.status)
    unsolved = SolverStatus.ITERATION_LIMIT if stopped else SolverStatus.NUMERICAL_TROUBLE
    status = SolverStatus.CONVERGED if relaxed_residual(problem, r) <= tolerance else unsolved
    return ConvexResult(problem, r, problem.velocities(r), status, int(answer.iterations), tolerance)
