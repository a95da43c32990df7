"""Precision: every method on a chain of 200 links against 50-digit numbers; float32 kernels against float64.

The reference is the same algorithm text on 50-digit numbers.

Two texts that have little in common (KJR and PV-OSIMr) must agree to 40 digits before they count as a reference. On 50
digits, round-off hides no slip: all methods must agree on every kind of joint as well.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import delassus as ds
from delassus.algorithms.osim import METHODS
from delassus_studies.bench.speed import float32_error
from delassus_studies.cases import benchmark_cases
from internals import Problem
from random_trees import some_constraints, some_mechanism
from tools import UNPLANNED, LongOps, error, exactly, random_frame

DIGITS = 50
REFERENCE = 1e-40
"""Two texts at 50 digits, relative to the largest entry; the condition of M at 200 links (some 1e6) takes its share."""

PRECISION = dict.fromkeys(ds.OSIM_METHODS, 1e-13) | {"dense": 1e-10, "ltl-osim": 1e-10}
"""float64 at 200 links, relative to the largest entry: those that factorise M feel its condition, the others do not.
All are far within the 1e-8 that the library promises."""

FLOAT32 = 1e-4
"""float32 kernels relative to float64 ones, largest of 10⁴ random states; seen: 1e-5 or less."""

ROBOTS = ("humanoid", "Go1", "G1")


@pytest.fixture(scope="module")
def case():
    tree = ds.mechanisms.chain(200)
    rng = np.random.default_rng(200)
    constraints = [ds.Weld(random_frame(rng, "link200")), ds.Weld(random_frame(rng, "link100"))]
    return tree, constraints, tree.random(rng)


@pytest.fixture(scope="module")
def reference(case):
    tree, constraints, q = case
    with mpmath.workdps(DIGITS):
        one, other = (
            METHODS[method](Problem(LongOps(), tree, constraints, exactly(q))) for method in ("kjr", "pv-osimr")
        )
        largest = np.max(np.abs(one))
        assert all(isinstance(x, mpmath.mpf) for x in one.flat)
        assert np.max(np.abs(one - other)) < REFERENCE * largest
    return one.astype(float)


def test_numbers_enter_exactly():
    with mpmath.workdps(DIGITS):
        ops = LongOps()
        assert ops.constant([[0.1]])[0, 0] == mpmath.mpf(0.1)
        assert ops.constant([[0.1]])[0, 0] != mpmath.mpf("0.1")
        assert abs(ops.cos(mpmath.mpf(1)) ** 2 + ops.sin(mpmath.mpf(1)) ** 2 - 1) < mpmath.mpf(10) ** (2 - DIGITS)


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("method", UNPLANNED)
def test_a_chain_of_200_links(case, reference, method):
    tree, constraints, q = case
    assert error(ds.delassus(tree, constraints, q, method=method), reference) < PRECISION[method]


def test_the_operator_on_a_chain_of_200_links(case, reference):
    tree, constraints, q = case
    operator = ds.delassus_operator(tree, constraints, q)
    x = np.random.default_rng(0).normal(size=12)
    assert error(operator.dense(), reference) < PRECISION["pv-osim"]
    assert error(operator.apply(x), reference @ x) < PRECISION["pv-osim"]


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_all_methods_agree_to_40_digits(seed):
    """Constraints to the world: those of loops skip joints that move both ends, exact only for exact rotations.

    Not `auto`: body frames are placed in float64, which is another robot in the sixteenth digit.
    """
    mechanism = some_mechanism(seed, 12, ("fixed", "floating")[seed % 2])
    tree, to_world = mechanism.tree, []
    while not to_world:
        constraints, rows = some_constraints(mechanism, most=5)
        to_world = [c for c in constraints if c.second is None]
    q = tree.random(mechanism.rng)
    with mpmath.workdps(DIGITS):
        problem = Problem(LongOps(), tree, to_world, exactly(q), [exactly(K) for K in rows])
        G = {method: METHODS[method](problem) for method in ds.OSIM_METHODS if method != "auto"}
        largest = np.max(np.abs(G["dense"]))
        for method, value in G.items():
            assert np.max(np.abs(value - G["dense"])) <= REFERENCE * largest, method


@pytest.mark.slow
@pytest.mark.parametrize("robot", ROBOTS[:2])
def test_float32_kernels_at_ten_thousand_states(robot):
    case = next((c for c in benchmark_cases() if c.name.startswith(robot)), None)
    if case is None:
        pytest.skip("example-robot-data is not installed")
    found = float32_error(case, 10_000)
    assert found["percentile_99_9"] <= found["largest"] < FLOAT32
    assert found["largest"] > 1e-8  # two types, not one
