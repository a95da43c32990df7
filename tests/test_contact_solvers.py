"""Complementarity solvers: against enumeration, known answers, Pinocchio and clarabel; never a false "solved"."""

import itertools
import os
import subprocess
import sys
from collections import Counter
from functools import partial

import numpy as np
import pytest

from delassus.contact import (
    LCP,
    MLCP,
    ConeProblem,
    RelaxedProblem,
    SolverStatus,
    admm,
    convex,
    interior,
    lemke,
    nsgs,
    pgs,
    solve_mixed,
)
from delassus.errors import ConfigurationError
from delassus.solvers import lemke as pivoting
from delassus.solvers.mixed import eliminated
from delassus_studies.bench.contact.solvers import of_bodies, of_low_rank
from internals import SOLVED, SOLVERS, ImpulseSolver

TOLERANCE = 1e-8
"""What solvers are asked for."""
ROUND_OFF = 1e-9
"""Two sums of the same numbers, in other orders, differ by less."""
CONE_SOLVERS = [nsgs, admm, interior]


def agrees(result):
    """Whether the status says what the residual, computed here, says."""
    if result.status is SolverStatus.ROUND_OFF:  # impulses rounded to float64 miss it, all of them does not
        return result.residual() <= TOLERANCE < result.problem.residual(result.values)
    solved = result.status is SolverStatus.CONVERGED
    return result.residual() <= TOLERANCE * (1 + 1e-3) if solved else result.residual() > TOLERANCE * (1 - 1e-3)


# -- linear problems -------------------------------------------------------------------------------------------------


def enumerated(M, q):
    """All solutions at regular bases."""
    n, solutions = len(q), []
    for basis in itertools.product([False, True], repeat=n):
        active = np.flatnonzero(basis)
        z = np.zeros(n)
        try:
            z[active] = np.linalg.solve(M[np.ix_(active, active)], -q[active])
        except np.linalg.LinAlgError:
            continue
        if z.min(initial=0) >= -1e-10 and (M @ z + q).min(initial=0) >= -1e-9:
            solutions.append(z)
    return solutions


@pytest.mark.parametrize("n", range(1, 9))
def test_lemke_finds_a_solution_that_enumeration_finds(n):
    rng = np.random.default_rng(n)
    for _ in range(12):
        a, skew = rng.standard_normal((2, n, n))
        M, q = a @ a.T + skew - skew.T, rng.standard_normal(n)  # positive definite: one solution
        result = lemke(LCP(M, q))
        assert result.status is SolverStatus.CONVERGED
        np.testing.assert_allclose(result.values, enumerated(M, q)[0], atol=1e-7)


def test_lemke_does_not_cycle_where_all_is_tied():
    """Ties at every pivot; the lexicographic rule decides, also where round-off stands for zero."""
    rng, kernel = np.random.default_rng(0), pivoting.pivot
    for _ in range(3000):
        n = int(rng.integers(3, 7))
        M = rng.integers(0, 3, (n, n)).astype(float)
        np.fill_diagonal(M, 1.0)
        outcome, _ = kernel(M, -np.ones(n), np.ones(n), np.ones(n), 200, np.zeros(n, bool), np.zeros(n))
        assert outcome != pivoting.LIMIT, M.tolist()


def test_a_basis_gives_its_solution():
    rng = np.random.default_rng(0)
    for n in range(1, 9):
        a = rng.standard_normal((n, n))
        M, active, expected = a @ a.T + np.eye(n), rng.random(n) < 0.6, rng.uniform(1, 2, n)
        expected[~active] = 0.0
        q = np.where(active, 0.0, 1.0) - M @ expected
        z, s = np.zeros(n), 1.0 / np.sqrt(np.diagonal(M))
        assert pivoting.from_basis(M, q, s, active, z, np.zeros(n)) < 1e-13
        np.testing.assert_allclose(z, expected, atol=1e-12)


@pytest.mark.parametrize("n", [2, 4, 6, 8])
def test_lemke_on_degenerate_problems(n):
    """Repeated rows, zeros in q, ties everywhere: as contacts of a block on the floor."""
    rng = np.random.default_rng(n)
    for _ in range(25):
        a = rng.integers(-1, 2, (n, max(1, n // 2))).astype(float)
        a[n // 2 :] = a[: n - n // 2]
        M = a @ a.T
        q = a @ rng.integers(-1, 2, a.shape[1]) + 1.0 * (rng.random(n) < 0.3)  # feasible, by construction
        result = lemke(LCP(M, q))
        assert result.status is SolverStatus.CONVERGED
        assert result.residual() <= TOLERANCE and result.complementarity() <= TOLERANCE


def test_lemke_on_any_matrix():
    """It may end on a ray where there is a solution, but never says that a wrong one is right."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(300):
        n = int(rng.integers(1, 7))
        M, q = rng.standard_normal((n, n)), rng.standard_normal(n)
        result = lemke(LCP(M, q))
        assert agrees(result)
        assert result.status in (SolverStatus.CONVERGED, SolverStatus.RAY_TERMINATION)
        if result.status is SolverStatus.CONVERGED:
            assert any(np.allclose(result.values, z, atol=1e-6) for z in enumerated(M, q))
            found += 1
    assert found > 100


@pytest.mark.parametrize(
    ("M", "q", "z"),
    [
        ([[1, 2, 0], [0, 1, 2], [2, 0, 1]], [-1, -1, -1], [1 / 3, 1 / 3, 1 / 3]),  # Kostreva 1979
        ([[1, 0, 0], [2, 1, 0], [2, 2, 1]], [-8, -12, -14], [8, 0, 0]),  # Murty's exponential path, n = 3
        ([[0, 1], [1, 0]], [0, 0], [0, 0]),
        ([[2, 1], [1, 2]], [1, 0], [0, 0]),
    ],
)
def test_lemke_does_not_cycle(M, q, z):
    result = lemke(LCP(M, q))
    assert result.status is SolverStatus.CONVERGED
    np.testing.assert_allclose(result.values, z, atol=1e-12)


@pytest.mark.parametrize(
    ("M", "q"), [([[-1.0]], [-1.0]), ([[0.0]], [-1.0]), ([[1, -1], [-1, 1]], [-1, -1]), ([[0, 1], [-1, 0]], [0, -1])]
)
def test_problems_without_solution_end_on_a_ray(M, q):
    result = lemke(LCP(M, q))
    assert result.status is SolverStatus.RAY_TERMINATION
    assert result.residual() > TOLERANCE and "no solution" in result.status.text


def test_lemke_stops_at_its_limit():
    problem = of_low_rank(np.random.default_rng(0), 4).polyhedral()
    result = lemke(problem, max_iterations=3)
    assert (result.status, result.iterations) == (SolverStatus.ITERATION_LIMIT, 3)


def test_lemke_on_four_contacts():
    rng = np.random.default_rng(0)
    for _ in range(100):
        assert lemke(of_low_rank(rng, 4).polyhedral()).residual() < 1e-10


@pytest.mark.parametrize("n_directions", [2, 4, 6, 8])
def test_polyhedral_problems(n_directions):
    """Sizes and blocks of [OS], and the physics of the solution; PGS by blocks solves the same problems."""
    rng = np.random.default_rng(n_directions)
    for _ in range(10):
        cone = of_bodies(rng, most=4)
        n = cone.n_contacts
        problem = cone.polyhedral(n_directions)
        assert problem.size == n * (n_directions + 2)
        for result in (lemke(problem), pgs(problem)):
            assert result.status is SolverStatus.CONVERGED and agrees(result)
            r = problem.impulses(result.values)
            assert cone.penetration_velocity(r) < 1e-7
            assert cone.dissipation(r).sum() > -1e-7
            assert cone.cone_violation(r) < 1e-7  # pyramids with corners on the cone
    np.testing.assert_array_equal(problem.M[-n:, -n:], 0)
    np.testing.assert_array_equal(problem.M[:-n, -n:].sum(axis=0), n_directions)


def test_many_directions_come_near_the_cone():
    cone = of_low_rank(np.random.default_rng(3), 3)
    problem = cone.polyhedral(64)
    np.testing.assert_allclose(problem.impulses(lemke(problem).values), nsgs(cone).values, atol=0.05)


def test_pgs_needs_a_diagonal_or_blocks():
    problem = of_low_rank(np.random.default_rng(0), 2).polyhedral()
    with pytest.raises(ConfigurationError, match="row 10 of an LCP: expected a positive number on the diagonal"):
        pgs(LCP(problem.M, problem.q))
    again = pgs(problem, pgs(problem).values)
    assert again.iterations == 0


# -- mixed problems --------------------------------------------------------------------------------------------------


def mixed_problem(rng, redundant, conflicting=False):
    """Loops and normal contacts of one mechanism."""
    G_b, G_u = rng.standard_normal((4, 12)), rng.standard_normal((5, 12))
    if redundant:
        G_b[2:] = rng.standard_normal((2, 2)) @ G_b[:2]
    G, v = np.vstack([G_b, G_u]), rng.standard_normal(12)
    q = G @ v
    q[3] += conflicting
    return MLCP(G @ G.T, q, n_free=4)


@pytest.mark.parametrize("redundant", [False, True])
def test_mixed_problems(redundant):
    rng = np.random.default_rng(0)
    for solver in (lemke, partial(pgs, max_iterations=5000)):
        for _ in range(20):
            problem = mixed_problem(rng, redundant)
            result = solve_mixed(problem, solver)
            assert result.status is SolverStatus.CONVERGED and agrees(result)
            assert eliminated(problem.M[:4, :4], problem.M[:4])[1] == (2 if redundant else 4)
            assert result.problem.equality_residual(result.values) < 1e-10 and result.complementarity() < 1e-8


def test_mixed_problems_that_contradict_themselves():
    result = solve_mixed(mixed_problem(np.random.default_rng(0), redundant=True, conflicting=True))
    assert result.status is SolverStatus.CONFLICTING and result.problem.equality_residual(result.values) > 1e-3


def test_mixed_problems_without_one_of_the_kinds():
    only_free = solve_mixed(MLCP([[2.0]], [4.0], n_free=1))
    assert only_free.values == -2 and only_free.status is SolverStatus.CONVERGED
    no_free = solve_mixed(MLCP([[2.0]], [-4.0], n_free=0))
    assert no_free.values == 2 and no_free.status is SolverStatus.CONVERGED


# -- contacts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", CONE_SOLVERS)
@pytest.mark.parametrize(
    ("b", "mu", "r"),
    [
        ([3, 4, 0.5], 0.5, [0, 0, 0]),  # lets go
        ([0.3, 0.4, 0], 0.5, [0, 0, 0]),  # touches
        ([0.3, 0, -1], 0.5, [-0.3, 0, 1]),  # sticks
        ([3, 4, -1], 0.5, [-0.3, -0.4, 1]),  # slips
        ([3, 4, -1], 0, [0, 0, 1]),  # no friction
        ([0.3, 0.4, -1], 0.5, [-0.3, -0.4, 1]),  # between sticking and slipping
        ([0, 0, -1], 0.5, [0, 0, 1]),
    ],
)
def test_a_ball(solver, b, mu, r):
    result = solver(ConeProblem(np.eye(3), b, mu))
    assert result.status is SolverStatus.CONVERGED
    np.testing.assert_allclose(result.values, [r], atol=1e-7)
    assert (
        result.problem.penetration_velocity(result.values) < TOLERANCE
        and result.problem.cone_violation(result.values) < 1e-12
    )
    assert result.complementarity() < TOLERANCE and result.problem.dissipation(result.values).min() > -1e-12


@pytest.mark.slow
def test_one_contact_is_solved_exactly():
    """Every mode, any coupling of its components: a sweep or two, and Coulomb's law is obeyed to round-off."""
    rng = np.random.default_rng(0)
    modes, sweeps = Counter(), []
    for _ in range(4000):
        a = rng.standard_normal((3, 3)) * 10 ** rng.uniform(-2, 2, (3, 1))
        W, c, mu = a @ a.T, rng.standard_normal(3), float(rng.uniform(0, 1.5))
        friction_offset = 10 ** rng.uniform(-2, 2) * float(rng.random() < 0.5)
        found = nsgs(ConeProblem(W, c, mu, friction_offset))
        r, moves = found.values[0], np.abs(found.problem.velocities(found.values)[0, :2]).max() > 1e-6
        modes[r[2] > 0.0, friction_offset > 0.0, bool(moves)] += 1
        scale = np.abs(W).sum() * np.abs(r).max() + 1
        sweeps.append(found.iterations)
        assert found.residual() < 1e-10 * scale
    assert len(modes) == 7 and min(modes.values()) > 50 and np.median(sweeps) <= 8


@pytest.mark.parametrize("seed", range(4))
def test_units_of_mass_do_not_matter(seed):
    """By powers of two not one digit changes, from masses of a molecule to those of a moon."""
    rng, n = np.random.default_rng(seed), 1 + seed % 2
    A, b, more = (
        rng.normal(size=(3 * n, 3 * n)),
        rng.normal(size=3 * n) - np.tile([0.0, 0.0, 1.0], n),
        0.2 * rng.random(n),
    )
    every = [nsgs(ConeProblem(s * (A @ A.T), b, 0.4, more / s)).values * s for s in 2.0 ** np.array([0, -60, -40, 60])]
    assert np.any(every[0]) and all(np.array_equal(every[0], x) for x in every[1:])


def test_the_relaxation_holds_its_own_tolerance():
    """Interior points alone are off by the root of their gap."""
    for seed in range(60):
        solution = convex(of_bodies(np.random.default_rng(seed)))
        assert solution.status is SolverStatus.CONVERGED and solution.residual() <= 1e-6
        assert solution.problem.cone_violation(solution.values) < 1e-12 * max(1.0, np.abs(solution.values).max())


def test_a_block_that_slides_on_a_slope_of_contacts():
    """Four contacts, one body, redundant: impulses are not unique, its motion is."""
    corners = [(x, y, -0.1) for x in (-1, 1) for y in (-1, 1)]
    J = np.vstack([np.hstack([np.eye(3), [[0, z, -y], [-z, 0, x], [y, -x, 0]]]) for x, y, z in corners])
    W = J @ np.diag([1, 1, 1, 2, 2, 2]) @ J.T
    for mu, after in ((0.2, 0.8), (0.5, 0.5), (2.0, 0.0)):
        problem = ConeProblem(W, J @ [1, 0, -1, 0, 0, 0], mu)
        for solver in CONE_SOLVERS:
            result = solver(problem)
            assert result.status is SolverStatus.CONVERGED
            np.testing.assert_allclose(result.problem.velocities(result.values), [[after, 0, 0]] * 4, atol=1e-7)
            np.testing.assert_allclose(result.values[:, 2].sum(), 1, atol=1e-7)


def test_no_contacts_and_contacts_that_cannot_move():
    nothing = ConeProblem(np.zeros((0, 0)), [], 0.5)
    planar = ConeProblem(np.diag([1.0, 0, 1]), [3, 0, -1], 0.5)  # no motion across the plane
    stuck = ConeProblem(np.zeros((3, 3)), [0, 0, -1], 0.5)
    for solver in CONE_SOLVERS:
        assert solver(nothing).status is SolverStatus.CONVERGED and solver(nothing).values.shape == (0, 3)
        np.testing.assert_allclose(solver(planar).values, [[-0.5, 0, 1]], atol=1e-7)
        assert solver(stuck).status not in (SolverStatus.CONVERGED, SolverStatus.ROUND_OFF)
    pulled = np.array([[0.3, -0.4, -2.0], [0.0, 0.0, -1.0]])  # out of the cone, whatever moves
    assert ConeProblem(np.zeros((6, 6)), np.zeros(6), 0.5).residual(pulled) == pytest.approx(np.linalg.norm(pulled[0]))
    assert lemke(LCP(np.zeros((0, 0)), [])).status is SolverStatus.CONVERGED


@pytest.mark.slow
@pytest.mark.parametrize("solver", CONE_SOLVERS)
def test_random_contacts_end_solved_or_say_why_not(solver):
    rng = np.random.default_rng(1)
    missed = 0
    for _ in range(200):
        problem = of_bodies(rng)
        result = solver(problem)
        assert agrees(result), result.status
        missed += result.status is not SolverStatus.CONVERGED
        if result.status is SolverStatus.CONVERGED:
            assert problem.cone_violation(result.values) <= 1e-12 * (1 + np.abs(result.values).max())
            assert problem.penetration_velocity(result.values) <= 2 * TOLERANCE
            assert problem.dissipation(result.values).min() > -1e-7
            assert (
                result.values * (problem.velocities(result.values) + problem.b.reshape(-1, 3))
            ).sum() < 1e-7  # no energy gained
    assert missed <= {nsgs: 0, admm: 2, interior: 6}[solver]


def test_random_linear_problems_end_solved_or_say_why_not():
    rng = np.random.default_rng(2)
    missed = 0
    for _ in range(300):
        result = lemke(of_bodies(rng).polyhedral(4))
        assert agrees(result)
        missed += result.status is not SolverStatus.CONVERGED
    assert missed <= 15


@pytest.mark.parametrize("solver", CONE_SOLVERS)
def test_warm_starts(solver):
    problem = of_low_rank(np.random.default_rng(5), 8)
    first = solver(problem)
    assert solver(problem, first.values).iterations == 0
    nearby = ConeProblem(problem.W, problem.b + 1e-4, problem.mu)
    assert solver(nearby, first.values).iterations <= max(first.iterations, 16)


def test_limits_are_reported():
    problem = of_low_rank(np.random.default_rng(5), 16)
    for result in (nsgs(problem, max_iterations=1), admm(problem, max_iterations=1)):
        assert (result.status, result.iterations) == (SolverStatus.ITERATION_LIMIT, 1)
        assert result.residual() > TOLERANCE


def test_of_two_solvers_that_fail_the_better_one_counts():
    """After some iterations or sweeps each; the second solver comes nearer in some problems, the first in others."""
    rng, better = np.random.default_rng(0), []
    for k in range(200):
        limit = 1 + k % 16
        problem = of_bodies(rng, tips=k % 3 > 0)
        solve = ImpulseSolver(["interior", "admm"][k % 2], tolerance=1e-12, max_iterations=limit)
        given = problem.W, problem.b, problem.mu, problem.friction_offset
        first, second = (
            SOLVERS[name].contacts(*given, np.zeros(problem.size), 1e-12, limit)
            for name in (solve.name, SOLVERS[solve.name].then)
        )
        if {first.status, second.status} & set(SOLVED):
            continue
        residuals = [problem.residual(way.p, way.remainder) for way in (first, second)]
        better.append(residuals[1] < residuals[0])
        found = solve(*given)
        assert problem.residual(found.p, found.remainder) == min(residuals)
        assert found.status in (first.status, second.status)
    assert True in better and False in better


@pytest.mark.peer
def test_solvers_against_pinocchio():
    pin = pytest.importorskip("pinocchio")
    if not hasattr(pin, "ADMMConstraintSolver"):
        pytest.skip("this Pinocchio has no ADMMConstraintSolver")
    rng = np.random.default_rng(0)
    for _ in range(10):
        problem = of_low_rank(rng, 4)
        theirs = pinocchio_admm(pin, problem)
        assert problem.residual(theirs) < 1e-9  # our residual of their solution
        for solver in CONE_SOLVERS:
            np.testing.assert_allclose(solver(problem).values.ravel(), theirs, atol=1e-6)


def pinocchio_admm(pin, problem):
    model = pin.Model()
    model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "body")
    data = model.createData()
    pin.forwardKinematics(model, data, pin.neutral(model))
    models, datas = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData()
    for mu in problem.mu:
        contact = pin.PointContactConstraintModel(model, 1, pin.SE3.Identity())
        contact.set = pin.CoulombFrictionCone(float(mu))
        models.append(pin.ConstraintModel(contact))
        datas.append(models[len(models) - 1].createData())
    for c, d in zip(models, datas, strict=True):
        c.calc(model, data, d)
    settings, result = pin.ADMMSolverSettings(), pin.ADMMSolverResult()
    settings.max_iterations, settings.solve_ncp = 5000, True
    settings.absolute_feasibility_tol = settings.absolute_complementarity_tol = 1e-11
    settings.relative_feasibility_tol = settings.relative_complementarity_tol = 1e-12
    solver, matrix = pin.ADMMConstraintSolver(problem.b.size), pin.DelassusOperatorDense(np.array(problem.W))
    assert solver.solve(matrix, np.array(problem.b), models, datas, settings, result)
    return np.array(result.retrieveConstraintImpulses())


@pytest.mark.peer
def test_solvers_against_clarabel():
    """With the shift of the exact solution fixed, the exact problem is the convex one."""
    pytest.importorskip("clarabel")
    rng = np.random.default_rng(4)
    for _ in range(20):
        problem = of_bodies(rng, most=6)
        exact = nsgs(problem)
        shift = np.zeros((problem.n_contacts, 3))
        shift[:, 2] = problem.mu * np.linalg.norm(problem.velocities(exact.values)[:, :2], axis=1)
        shifted = ConeProblem(problem.W, problem.b + shift.ravel(), problem.mu)
        assert RelaxedProblem(shifted.W, shifted.b, shifted.mu).residual(exact.values) < 2 * TOLERANCE
        result, (theirs, gap) = convex(shifted), by_clarabel(shifted)
        assert result.status is SolverStatus.CONVERGED
        of_exact = problem.velocities(exact.values) + shift  # velocities are unique in the metric of W
        np.testing.assert_allclose(shifted.velocities(result.values), of_exact, atol=1e-5)
        near = 4 * np.sqrt(2 * gap * problem.W.trace())  # the gap bounds ½ Δrᵀ W Δr, and |W Δr|² ≤ |W| Δrᵀ W Δr
        np.testing.assert_allclose(shifted.velocities(theirs), of_exact, atol=near)


def by_clarabel(problem):
    """Impulses (n, 3) of the convex relaxation, and the gap that Clarabel ended with."""
    import clarabel
    from scipy import sparse

    n = problem.n_contacts
    rows = np.kron(np.eye(n), -np.eye(3)[[2, 0, 1]])
    rows[::3] *= problem.mu[:, None]
    normal = np.kron(np.eye(n), [0.0, 0.0, -1.0])
    cones = [clarabel.SecondOrderConeT(3)] * n + [clarabel.NonnegativeConeT(n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    gaps = {clarabel.SolverStatus.Solved: 1e-12, clarabel.SolverStatus.AlmostSolved: settings.reduced_tol_gap_abs}
    H, A = sparse.csc_matrix(np.triu(problem.W)), sparse.csc_matrix(np.vstack([rows, normal]))
    answer = clarabel.DefaultSolver(H, np.array(problem.b), A, np.zeros(4 * n), cones, settings).solve()
    return np.array(answer.x).reshape(-1, 3), gaps[answer.status] * (1.0 + abs(answer.obj_val))


def test_the_relaxation_without_friction_is_exact():
    problem = ConeProblem(of_low_rank(np.random.default_rng(1), 4).W, -np.ones(12), 0.0)
    result = convex(problem)
    assert result.status is SolverStatus.CONVERGED
    assert problem.residual(result.values) < 1e-6 and result.problem.cone_violation(result.values) == 0
    np.testing.assert_allclose(result.values, nsgs(problem).values, atol=1e-5)


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LCP([[1, 2]], [1]), r"M of an LCP: expected finite numbers of shape \(1, 1\), got shape \(1, 2\)"),
        (lambda: LCP([[np.nan]], [1]), "got nan at index"),
        (lambda: LCP(np.eye(2), [1, 1], blocks=[[0], [0]]), "each of 0 … 1 once"),
        (lambda: MLCP(np.eye(2), [1, 1], n_free=3), "n_free: expected a whole number ≥ 0 and ≤ 2, got 3"),
        (lambda: ConeProblem(np.eye(2), [1, 1], 0.5), "three components a contact"),
        (lambda: ConeProblem(np.eye(3), [1, 1, np.inf], 0.5), "got inf at index 2"),
        (lambda: ConeProblem(np.eye(3), [1, 1, 1], -0.5), "mu: expected a number ≥ 0"),
        (lambda: ConeProblem(np.eye(3), [1, 1, 1], [0.5, 0.5]), "or 1 of them"),
        (lambda: ConeProblem(-np.eye(3), [1, 1, 1], 0.5), "positive semidefinite"),
        (lambda: ConeProblem(np.triu(np.ones((3, 3))), [1, 1, 1], 0.5), "asymmetry 1.0e"),
        (
            lambda: ConeProblem(np.eye(3), [1, 1, 1], 0.5).polyhedral(0),
            "expected a whole number ≥ 2 and ≤ 1000, got 0",
        ),
        (lambda: ConeProblem(np.eye(3), [1, 1, 1], 0.5).polyhedral(3), "an even number from 2 on, got 3"),
        (
            lambda: nsgs(ConeProblem(np.eye(3), [1, 1, 1], 0.5), [1, 2]),
            r"start: .* numbers of shape \(3,\)",
        ),
        (lambda: admm(ConeProblem(np.eye(3), [1, 1, 1], 0.5), tolerance=0), "tolerance: expected a number > 0"),
        (lambda: lemke(LCP(np.eye(1), [1]), max_iterations=0), "max_iterations: expected a whole number ≥ 1"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_statuses_carry_advice_and_arrays_are_read_only():
    assert all(len(status.text) > 30 for status in SolverStatus)
    problem = ConeProblem(np.eye(3), [1, 1, 1], 0.5)
    for array in (problem.W, problem.b, problem.mu, problem.polyhedral().M):
        assert not array.flags.writeable


@pytest.mark.slow
def test_compiled_code_works_without_a_cache():
    script = "from delassus.contact import LCP, lemke; print(lemke(LCP([[2]], [-1])).values[0])"
    setting = os.environ | {"DELASSUS_CACHE": "off"}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=setting, timeout=120)
    assert run.stdout.strip() == "0.5", run.stderr
