"""Solvers beside those of Siconos, where a Python has it (Debian: python3-siconos)."""

import numpy as np
import pytest

from delassus.contact import LCP, SolverStatus, admm, lemke, nsgs, pgs
from delassus_studies.bench.contact.solvers import of_bodies, of_low_rank
from delassus_studies.peers import siconos

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(siconos.python() is None, reason="no Python here can import siconos"),
]

SAME = 1e-9
"""Both solve to 1e-10 or better, on matrices whose condition is below 1e3 in the directions that matter."""


def test_lemke_agrees_on_problems_with_one_solution():
    """Positive definite matrices, not symmetric: `LEMKE` and `PIVOT` of Siconos find the one solution, and so do we."""
    rng = np.random.default_rng(0)
    problems = []
    for n in range(3, 23):
        a, skew = rng.standard_normal((2, n, n))
        problems.append(LCP(a @ a.T / n + 0.1 * np.eye(n) + skew - skew.T, rng.standard_normal(n)))
    theirs = siconos.solved(problems)
    for problem, by_lemke, by_pivot in zip(problems, theirs["LEMKE"].solutions, theirs["PIVOT"].solutions, strict=True):
        ours = lemke(problem).values
        np.testing.assert_allclose(ours, by_lemke, rtol=0, atol=SAME)
        np.testing.assert_allclose(ours, by_pivot, rtol=0, atol=SAME)


def test_linear_solvers_agree_on_contacts():
    """Impulses are compared where Siconos' answer is one: its residual, computed here, says so."""
    rng = np.random.default_rng(0)
    problems = [of_low_rank(rng, 4).polyhedral(4) for _ in range(20)]
    theirs = siconos.solved(problems)
    compared = 0
    for name in ("LEMKE", "PIVOT"):
        for problem, z in zip(problems, theirs[name].solutions, strict=True):
            if np.abs(np.minimum(z, problem.M @ z + problem.q)).max() > 1e-10:
                continue
            compared += 1
            for result in (lemke(problem), pgs(problem)):
                assert result.status is SolverStatus.CONVERGED
                np.testing.assert_allclose(problem.impulses(result.values), problem.impulses(z), rtol=0, atol=1e-7)
    assert compared >= 30


def test_cone_solvers_agree():
    """Their NSGS passes our residual; where a problem has several solutions, not all need to find the same one."""
    rng = np.random.default_rng(1)
    problems = [of_low_rank(rng, 3 + k % 3) for k in range(12)] + [of_bodies(rng, most=5) for _ in range(12)]
    theirs = siconos.solved(cones=problems)["NSGS"].solutions
    for solver in (nsgs, admm):
        same = 0
        for problem, r in zip(problems, theirs, strict=True):
            assert problem.residual(r) < 1e-9
            result = solver(problem)
            assert result.status is SolverStatus.CONVERGED and result.residual() < 1e-8
            same += np.allclose(problem.velocities(result.values), problem.velocities(r), rtol=0, atol=1e-6)
        assert same >= 22
