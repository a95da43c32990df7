"""Direct calls give what they give on NumPy where machine code runs them, at dependent rows too."""

from __future__ import annotations

import numpy as np
import pytest

import delassus as ds
from internals import direct
from tools import AGREEMENT, error

BATCH = (2, 6)
TREE, RNG = ds.mechanisms.chain(3, root="fixed"), np.random.default_rng(0)
ROWS = [ds.Rows("link3", 2), ds.JointRows({TREE.joint_names[0]: 1.0, TREE.joint_names[2]: -0.7})]
Q, V, TAU = (RNG.normal(size=(*BATCH, 3)) for _ in range(3))
TARGETS = [RNG.normal(size=2), None]
REGULAR = RNG.normal(size=(*BATCH, 2, 6))
SOME = REGULAR.copy()
SOME[0, 1, 1] = 2.0 * SOME[0, 1, 0]  # one depends on the other
SOME[0, 3, 0] = SOME[1, 4] = 0.0  # nothing moves it
ACTIVE = RNG.integers(0, 2, (*BATCH, 2)).astype(bool)


@pytest.fixture
def both(monkeypatch):
    """What a call returns on NumPy and in machine code."""

    def run(call):
        out = []
        for least in (10**9, 1):
            monkeypatch.setattr(direct, "COMPILED_FROM", least)
            out.append(call())
        return out

    return run


@pytest.mark.parametrize("function", [ds.delassus, ds.osim, ds.consistent_inverse])
def test_matrices(both, function):
    on_numpy, compiled = both(lambda: function(TREE, ROWS, Q, rows=[REGULAR]))
    assert compiled.shape == on_numpy.shape and error(compiled, on_numpy) < AGREEMENT
    if function is not ds.delassus:

        def refused():
            with pytest.raises(ds.SingularError) as raised:
                function(TREE, ROWS, Q, rows=[SOME])
            return str(raised.value)

        assert len(set(both(refused))) == 1


@pytest.mark.parametrize("damping", [None, 0.1])
def test_operator(both, damping):
    """Least-squares solutions of least norm where rows are dependent."""
    x = RNG.normal(size=(3, *BATCH, 3))

    def made():
        operator = ds.delassus_operator(TREE, ROWS, Q, rows=[SOME], damping=damping)
        return operator.solve(x), operator.apply(x), operator.dense(), operator.factorisation

    (*on_numpy, known), (*compiled, found) = both(made)
    assert all(error(a, b) < AGREEMENT for a, b in zip(compiled, on_numpy, strict=True))
    singular = [[how.name == "SINGULAR" for how in np.ravel(every)] for every in (known, found)]
    assert singular[0] == singular[1] and (damping is None) == any(singular[0])


@pytest.mark.parametrize("active", [None, ACTIVE])
def test_dynamics(both, active):
    on_numpy, compiled = both(
        lambda: ds.forward_dynamics(TREE, Q, V, TAU, ROWS, rows=[SOME], targets=TARGETS, active=active)
    )
    assert error(compiled.qdd, on_numpy.qdd) < AGREEMENT
    for found, expected in zip(compiled.forces, on_numpy.forces, strict=True):
        assert error(found, expected) < AGREEMENT
    for name in ("status", "rank", "redundant_rows"):
        assert np.array_equal(getattr(compiled, name), getattr(on_numpy, name))
    assert {"SOLVED", "REDUNDANT", "CONFLICTING"} >= {status.name for status in compiled.status.ravel()}
    assert (compiled.rank < 3).any() and compiled.error_estimate.shape == BATCH
    assert error(compiled.constraint_residual(), on_numpy.constraint_residual()) < AGREEMENT


def test_impulses_and_scalar_arguments(both):
    on_numpy, compiled = both(lambda: ds.impulse(TREE, Q, V, ROWS, 0.3, rows=[SOME]))
    assert error(compiled.v_next, on_numpy.v_next) < AGREEMENT and np.array_equal(compiled.rank, on_numpy.rank)
    on_numpy, compiled = both(lambda: ds.step_derivatives(TREE, Q, V, TAU, np.full(6, 1e-2), None))
    assert all(error(x, y) < AGREEMENT for x, y in zip(compiled, on_numpy, strict=True))


def test_loops(both):
    """Of a five-bar in a plane, one of whose rows says nothing: gaps, ranks, and singularities of every kind."""
    rods = ds.mechanisms.pendulum(2, length=0.5)
    tree = rods.attach("world", rods, (0.5, 0, 0), prefix="right_")
    tips, (left, outer, right, _) = [ds.Frame(name, (0, 0, -0.5)) for name in ("rod2", "right_rod2")], tree.joint_names
    pin, third = ds.Point(*tips), np.pi / 6
    start = np.array([[third, -1.1, -third, 1.0], [-0.3, 0.0, -0.2, 0.8]])
    in_line, stretched = (
        ds.close_loops(tree, pin, q, hold=held).q for q, held in zip(start, ([left, right], [left, outer]), strict=True)
    )
    on_numpy, compiled = both(lambda: ds.close_loops(tree, pin, [in_line, stretched + 0.2]))
    assert error(compiled.q, on_numpy.q) < 1e-7  # along the loop, by the root of round-off
    assert on_numpy.status.tolist() == compiled.status.tolist() == [ds.LoopStatus.CLOSED] * 2
    assert on_numpy.rank.tolist() == compiled.rank.tolist() == [2, 2]
    q = [on_numpy.q[1], in_line, stretched]
    on_numpy, compiled = both(
        lambda: ds.reduced_dynamics(tree, pin, q, independent=[left, right], output=ds.Point(tips[0]))
    )
    assert [x.name for x in on_numpy.singularity] == [x.name for x in compiled.singularity] == [
        "NONE", "ACTUATION", "OUTPUT",
    ]  # fmt: skip
    for name in ("transmission", "mass_matrix", "margin"):
        found, expected = getattr(compiled, name), getattr(on_numpy, name)
        assert error(found[[0, 2]], expected[[0, 2]]) < AGREEMENT
    two = ds.mechanisms.pendulum(1).attach("world", ds.mechanisms.pendulum(1), (0.6, 0, 0), prefix="right_")
    rod = ds.Distance(*(ds.Frame(name, (0, 0, -0.4)) for name in ("rod1", "right_rod1")), length=0.6)
    for found in both(lambda: ds.reduced_dynamics(two, rod, [[0.3, 0.3], [np.pi / 2, np.pi / 2]])):
        assert [x.name for x in found.singularity] == ["NONE", "CONFIGURATION"]
