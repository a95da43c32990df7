"""Contacts that jam: huge impulses, double-double, restarted paths. And the solvers by name, without checks."""

from fractions import Fraction

import numpy as np
import pytest

from delassus.contact import ConeProblem, SolverStatus, admm, lemke, nsgs
from delassus.solvers.linear import cone_distance, cone_residual, de_saxce, natural_map, velocities
from delassus.solvers.pyramids import linear_problem, regular_directions
from delassus_studies.bench.contact.solvers import law_residual, of_bodies, of_low_rank
from internals import SOLVERS

TOLERANCE = 1e-8


def exactly(W, r, low, b):
    """``W (r + low) + b`` by rational numbers, rounded once."""
    x = [Fraction(float(p)) + Fraction(float(q)) for p, q in zip(r, low, strict=True)]
    rows = [sum((Fraction(float(w)) * y for w, y in zip(row, x, strict=True)), Fraction(float(s))) for row, s in
            zip(W, b, strict=True)]  # fmt: skip
    return np.array([float(row) for row in rows])


def jammed(rng):
    """Impulses of 1e9 whose velocities are of order one, with the cone's edge hit to 1e-16."""
    problem = of_low_rank(rng, 12)
    r = np.abs(rng.standard_normal((12, 3))) * 1e9
    angle = rng.uniform(0, 2 * np.pi, 12)
    r[:, 0], r[:, 1] = 0.5 * r[:, 2] * np.cos(angle), 0.5 * r[:, 2] * np.sin(angle)
    return problem, np.ascontiguousarray(r.ravel()), 1e-8 * rng.standard_normal(36)


def test_velocities_of_huge_impulses():
    rng = np.random.default_rng(0)
    for _ in range(5):
        problem, r, low = jammed(rng)
        W, b = np.array(problem.W), -problem.W @ r + rng.standard_normal(36)  # most of it cancels
        wanted = exactly(W, r, low, b)
        assert np.abs(W @ (r + low) + b - wanted).max() > 1e-8  # which is why
        np.testing.assert_allclose(velocities(W, r, b, low), wanted, rtol=1e-15, atol=1e-20)


def test_distances_from_cones_of_huge_impulses():
    rng = np.random.default_rng(1)
    for _ in range(5):
        problem, r, low = jammed(rng)
        rows, rest = r.reshape(-1, 3), low.reshape(-1, 3)
        x, y, z = (
            [Fraction(float(a)) + Fraction(float(b)) for a, b in zip(rows[:, k], rest[:, k], strict=True)]
            for k in range(3)
        )
        ours = cone_distance(rows, problem.mu, rest)
        for i in range(12):
            p = Fraction(float(problem.mu[i])) * z[i]
            wanted = float(x[i] ** 2 + y[i] ** 2 - p * p) / (np.hypot(float(x[i]), float(y[i])) + float(p))
            np.testing.assert_allclose(ours[i], wanted, rtol=1e-7, atol=1e-15)


def test_the_residual_is_the_plain_one_where_that_is_exact():
    """In all parts of the cone."""
    rng = np.random.default_rng(2)
    for _ in range(300):
        mu, omega = rng.uniform(0, 1.5, 4), rng.uniform(0.5, 2, 4)
        mu[0] = 0.0
        r, u = rng.standard_normal((2, 4, 3))
        r[rng.random(4) < 0.3] = 0.0
        x, v = omega[:, None] * r, u.copy()
        v[:, 2] += mu * np.hypot(u[:, 0], u[:, 1])
        y = x - v
        t = np.hypot(y[:, 0], y[:, 1])
        n = (y[:, 2] + mu * t) / (1 + mu**2)
        edge = np.column_stack([y[:, :2] * (mu * n / t)[:, None], n])
        inside, polar = t <= mu * y[:, 2], mu * t <= -y[:, 2]
        projection = np.where(inside[:, None], y, np.where(polar[:, None], 0.0, edge))
        ours = natural_map(r, de_saxce(u, mu), mu, 0.0 * mu, omega)
        np.testing.assert_allclose(ours, x - projection, rtol=0, atol=1e-13)
        worst = np.linalg.norm(x - projection, axis=1).max()
        residual, _ = cone_residual(np.zeros((12, 12)), u.ravel(), mu, 0.0 * mu, omega, r.ravel())
        np.testing.assert_allclose(residual, worst, rtol=0, atol=1e-13)


def test_frictionless_contacts_that_do_not_slide():
    """Without friction the cone is a ray, which ``|t| ≤ μ n`` alone does not say."""
    lets_go = ConeProblem(np.eye(3), [0, 0, 1], 0.0)
    assert lets_go.residual([0, 0, 0]) == 0
    assert lets_go.residual([0, 0, -1]) == 1  # pulls
    for solver in (nsgs, admm):
        result = solver(lets_go)
        assert result.status is SolverStatus.CONVERGED and not result.values.any()


def test_sixteen_contacts():
    """Problems of PEERS.md. A fifth of them jam: impulses near 1e9, which float64 rounds by 1e-7."""
    rng = np.random.default_rng(0)
    statuses = []
    for _ in range(60):
        problem = of_low_rank(rng, 16)
        result = nsgs(problem)
        alone = problem.residual(result.values)
        if result.status is SolverStatus.CONVERGED:
            assert alone <= TOLERANCE and result.remainder is None
        elif result.status is SolverStatus.ROUND_OFF:
            assert result.residual() <= TOLERANCE < alone < 1e-5
            assert np.abs(result.values).max() > 1e7
            assert (np.abs(result.remainder) <= np.spacing(np.abs(result.values))).all()  # only what float64 lacks
            assert problem.penetration_velocity(result.values) < 1e-5 and "jam" in result.status.text
        else:
            assert result.residual() > TOLERANCE
        statuses.append(result.status)
    assert statuses.count(SolverStatus.CONVERGED) >= 40
    assert statuses.count(SolverStatus.CONVERGED) + statuses.count(SolverStatus.ROUND_OFF) >= 58


def test_a_jam_to_the_last_digit():
    """Velocities of a jammed problem against rational numbers: sticking and slipping contacts keep to Coulomb's law."""
    rng = np.random.default_rng(7)
    problem, result = next(
        (problem, result)
        for problem in (of_low_rank(rng, 16) for _ in range(60))
        if (result := nsgs(problem)).status is SolverStatus.ROUND_OFF
    )
    u = exactly(problem.W, result.values.ravel(), result.remainder.ravel(), problem.b).reshape(-1, 3)
    np.testing.assert_allclose(problem.velocities(result.values, result.remainder), u, rtol=0, atol=1e-12)
    closed = result.values[:, 2] > 0
    assert np.abs(u[closed, 2]).max() < TOLERANCE and u[~closed, 2].min() > -TOLERANCE
    slip = closed & (np.hypot(u[:, 0], u[:, 1]) > 1e-6)
    friction = result.values[slip, :2] / np.linalg.norm(result.values[slip, :2], axis=1)[:, None]
    direction = u[slip, :2] / np.linalg.norm(u[slip, :2], axis=1)[:, None]
    np.testing.assert_allclose(friction, -direction, rtol=0, atol=1e-7)


# -- by name ---------------------------------------------------------------------------------------------------------


def arguments(solver, problem, directions):
    extra = (directions,) if solver.kind == "linear" else ()
    return (*map(np.array, (problem.W, problem.b, problem.mu, problem.friction_offset)), *extra)


@pytest.mark.parametrize("n_directions", [2, 4, 6])
def test_the_linear_problem_is_that_of_the_paper(n_directions):
    """[OS] eq. 12, with dense matrices."""
    rng = np.random.default_rng(n_directions)
    angles = 2 * np.pi * np.arange(n_directions) / n_directions
    for _ in range(10):
        cone = of_bodies(rng, most=4)
        n = cone.n_contacts
        friction_offset, nothing = rng.random(n), np.zeros((n, n))
        D = np.kron(np.eye(n), [[0, *np.cos(angles)], [0, *np.sin(angles)], [1, *(0 * angles)]])
        E = np.kron(np.eye(n), [[0], *[[1]] * n_directions])
        W, b, mu = map(np.array, (cone.W, cone.b, cone.mu))
        M, q = linear_problem(W, b, mu, regular_directions(n_directions), friction_offset)
        friction = np.kron(np.diag(cone.mu), [[1, *(0 * angles)]]) - E.T
        np.testing.assert_allclose(M, np.block([[D.T @ cone.W @ D, E], [friction, nothing]]), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(q, [*(D.T @ cone.b), *friction_offset], rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(ConeProblem(W, b, mu, friction_offset).polyhedral(n_directions).M, M)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SOLVERS if name != "convex"])
def test_solvers_by_name(name):
    """Every result is right or says why not, and a start that is a solution needs (nearly) no iteration."""
    rng = np.random.default_rng(3)
    solver, directions = SOLVERS[name], regular_directions(4)
    at_once = solved = 0
    for _ in range(60):
        problem = of_bodies(rng)
        given = arguments(solver, problem, directions)
        r, status, iterations, _ = solver.contacts(*given, np.zeros(problem.b.size), TOLERANCE, 2000)
        assert r.shape == problem.b.shape and iterations <= 2000
        if status is not SolverStatus.CONVERGED:
            continue
        solved += 1
        if solver.kind == "cone":
            assert problem.residual(r) <= TOLERANCE * (1 + 1e-3)
        else:
            assert problem.penetration_velocity(r) < 1e-7 and problem.cone_violation(r) < 1e-7
            assert problem.dissipation(r).min() > -1e-7
        again, status, iterations, _ = solver.contacts(*given, r, TOLERANCE, 2000)
        assert status is SolverStatus.CONVERGED
        at_once += iterations == 0
        if iterations == 0:
            np.testing.assert_allclose(problem.velocities(again), problem.velocities(r), rtol=0, atol=1e-7)
    assert solved >= 55
    if name != "pgs":
        assert at_once >= 0.8 * solved


def test_lemke_starts_from_the_modes_of_the_step_before():
    """Velocities change a little from step to step; as long as modes hold, no pivots are needed."""
    rng, directions = np.random.default_rng(4), regular_directions(4)
    kept = 0
    for _ in range(40):
        problem = of_bodies(rng)
        W, b, mu, friction_offset = arguments(SOLVERS["nsgs"], problem, directions)
        r, *_ = SOLVERS["lemke"].contacts(W, b, mu, friction_offset, directions, np.zeros(b.size), TOLERANCE, 2000)
        b = b + 1e-6 * W @ rng.standard_normal(b.size)
        warm, status, pivots, _ = SOLVERS["lemke"].contacts(W, b, mu, friction_offset, directions, r, TOLERANCE, 2000)
        cold = ConeProblem(W, b, mu).polyhedral(4)
        result = lemke(cold)
        if status is SolverStatus.CONVERGED and result.status is SolverStatus.CONVERGED:
            np.testing.assert_allclose(W @ warm, W @ cold.impulses(result.values).ravel(), rtol=0, atol=1e-6)
        kept += pivots == 0
    assert kept >= 30


def test_all_solvers_on_random_contacts():
    """A slice of the benchmark's 10 000, half with cones without tips: solved, or a status that says why not."""
    rng, directions = np.random.default_rng(11), regular_directions(4)
    missed = dict.fromkeys(("nsgs", "admm"), 0)
    for i in range(200):
        problem = of_bodies(rng, tips=bool(i % 2))
        linear = problem.polyhedral(4)
        for result in (nsgs(problem), admm(problem), lemke(linear)):
            solved = result.status is SolverStatus.CONVERGED
            assert (result.residual() <= TOLERANCE * (1 + 1e-3)) is solved
            if solved and result.problem is problem:
                assert law_residual(problem, result.values) <= 4 * TOLERANCE
        for name in missed:
            found = SOLVERS[name].contacts(*arguments(SOLVERS[name], problem, directions), 0 * problem.b, 1e-8, 10000)
            missed[name] += found.status is not SolverStatus.CONVERGED
    assert missed["nsgs"] <= 1 and missed["admm"] <= 4
