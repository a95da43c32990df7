"""Constraints that are off, by every hard method: the same as without them, whatever else is on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import delassus as ds
from delassus_studies.cases import benchmark_cases
from internals import (
    ERROR_BOUND,
    Conditions,
    Problem,
    RawJoint,
    RawLink,
    TraceOps,
    build_tree,
    check_constraints,
    joint_kinds,
    make_program,
    rcond_by_pivots,
    symbolic_request,
)
from random_trees import some_constraints, some_joint_rows, some_mechanism
from test_dynamics import state
from test_dynamics_methods import SAME, WELL_CONDITIONED
from tools import DenseDynamics, error, evaluated, random_frame, requested

pytestmark = pytest.mark.usefixtures("one_lane")

JUDGED = ("pv", "pv-early")

LEAST_RCOND = np.finfo(float).eps / ERROR_BOUND["float64"]
"""Reciprocal condition of states that a kernel solves by itself."""


class Switched:
    """A method traced with flags, as a function of numbers."""

    def __init__(self, tree, constraints, method):
        asked = requested(tree, constraints, "dynamics", method=method, active=True, passive="none")
        self.tree, self.constraints, self._ops = tree, asked.constraints, TraceOps()
        self._results = list(asked.quantity.run(symbolic_request(asked, self._ops)))
        self._results.append(rcond_by_pivots(asked, self._ops, [x.nodes() for x in self._results]).rcond)

    def __call__(self, q, v, tau, flags):
        """Accelerations, forces and reciprocal condition of each state of a batch."""
        found = evaluated(self._ops, self._results, q, v, tau, flags, batch=(len(flags),))
        return [x[:, :, 0] for x in found]

    def check(self, q, v, tau, flags):
        """Compare with the dense solution of the constraints that are on: per state, whether the estimated error
        is small, and whether the rows that are on are independent."""
        dense = DenseDynamics(self.tree, self.constraints, q, v, tau)
        found = zip(flags, *self(q, v, tau, flags), strict=True)
        return np.array([self._check_one(dense, k, *state) for k, state in enumerate(found)]).T

    def _check_one(self, dense, k, flags, qdd, forces, rcond):
        on = np.repeat(np.asarray(flags, dtype=bool), [c.size for c in self.constraints])
        independent = dense.rank(k, on) == on.sum()
        if not (rcond > LEAST_RCOND and np.isfinite(forces).all()):
            return False, independent
        assert not forces[~on].any()
        expected, own, condition = dense.solution(k, on)
        if condition <= WELL_CONDITIONED:
            assert error(qdd, expected) < SAME + np.finfo(float).eps / rcond
            assert error(forces[on], own) < SAME
        return True, independent


def subsets(n, rng, most=32):
    every = list(itertools.product((0.0, 1.0), repeat=n))
    return every if len(every) <= most else [every[0], every[-1], *(every[k] for k in rng.choice(len(every), most))]


def fit(tree, constraints, method, seed=0, most=32):
    """Part of all subsets with independent rows that the method solves itself, all of them compared."""
    rng = np.random.default_rng(seed)
    program = Switched(tree, constraints, method)
    flags = np.array(subsets(len(program.constraints), rng, most))
    states = zip(*(state(tree, rng) for _ in flags), strict=True)
    good, independent = program.check(*map(np.array, states), flags)
    assert not good[~independent].any()
    return np.mean(good[independent])


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("methods", [("kkt", "pv"), ("ltl", "pv-early")])
@pytest.mark.parametrize("case", benchmark_cases(), ids=lambda case: case.name)
def test_robots(case, methods):
    method = methods[len(case.constraints) // 2 % 2]
    assert fit(case.tree, case.constraints, method) == 1.0


def rows(link, m, seed):
    return ds.Rows(link, np.random.default_rng(seed).normal(size=(m, 6)))


MIXED = {
    "one after the other": [rows("link7", 2, 0), rows("link6", 2, 1), ds.Point(ds.Frame("link5", (0.1, 0.2, 0.3)))],
    "on one link": [rows("link7", 1, 0), rows("link7", 2, 1), rows("link7", 1, 2), rows("link7", 2, 3)],
    "two welds": [ds.Weld("link7"), ds.Weld(ds.Frame("link7", (0.1, 0, 0)))],
    "four corners": [ds.Point(ds.Frame("link7", (x, y, 0.0))) for x in (-0.1, 0.1) for y in (-0.05, 0.05)],
    "weld and points": [ds.Weld("link7"), ds.Point("link7"), ds.Point(ds.Frame("link3", (0.1, 0.2, 0.1)))],
    "twice the same": [ds.Point("link4"), ds.Weld("link7"), ds.Point("link4"), ds.Rows("link2", np.eye(6)[:1])],
}


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", MIXED)
def test_constraints_whose_rows_meet(name):
    """On a fixed chain of seven joints: sets that are redundant as a whole too, every subset but one whose estimate
    is too large."""
    assert fit(ds.mechanisms.chain(7), MIXED[name], "pv-early") >= (15 / 16 if name == "on one link" else 1.0)


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("method", JUDGED)
def test_constraints_that_meet_at_a_floating_base(method):
    """More rows than a branch has joints, on the base itself, loops within and across branches."""
    star = ds.mechanisms.star(3, 3)
    rng = np.random.default_rng(0)
    tips = [random_frame(rng, f"branch{k}_3") for k in (1, 2, 3)]
    for constraints in (
        [ds.Weld(tips[0]), ds.Point(tips[1]), ds.Point("hub")],
        [ds.Point(tips[0]), ds.Point(tips[1], tips[2]), rows("hub", 2, 0)],
        [ds.Hinge(tips[0], tips[1]), ds.Point(tips[2]), ds.Point(tips[1])],
        [ds.Point(tips[0]), rows("branch1_3", 1, 1), ds.Weld(tips[1]), ds.Point(tips[2])],
    ):
        assert fit(star, constraints, method) == 1.0, constraints


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("kind", [joint_kinds.BALL, joint_kinds.PLANAR, joint_kinds.FREE])
@pytest.mark.parametrize("armature", [0.0, 0.2])
def test_joints_of_several_degrees_of_freedom(kind, armature):
    rng = np.random.default_rng(3)
    links = [RawLink(f"l{k}", 1.0, rng.uniform(-0.2, 0.2, 3), 0.1 * np.eye(3)) for k in range(4)]
    joints = [
        RawJoint(f"j{k}", some_kind, f"l{k - 1}", f"l{k}", position=rng.normal(size=3), armature=armature)
        for k, some_kind in ((1, joint_kinds.REVOLUTE), (2, kind), (3, joint_kinds.REVOLUTE))
    ]
    tree = build_tree("arm", links, joints, root="floating")
    point, other = ds.Point(random_frame(rng, "l3")), ds.Point(random_frame(rng, "l2"))
    for constraints in (
        [point, rows("l2", 1, 0)],
        [rows("l3", 2, 0), other],
        [ds.Point(random_frame(rng, "l3"), random_frame(rng, "l0")), rows("l3", 1, 0)],
    ):
        assert fit(tree, constraints, "pv-early") == 1.0, constraints


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("method", JUDGED)
def test_random_mechanisms(method):
    """Every joint and constraint, rows of joints too, armatures, sets that are redundant as a whole."""
    solved = []
    for seed in range(16):
        m = some_mechanism(seed, int(np.random.default_rng(seed).integers(4, 10)), ("fixed", "floating")[seed % 2])
        constraints = [c for c in some_constraints(m)[0] if c.rows is not None]
        constraints += [some_joint_rows(m, 2)[0]] if constraints and seed % 3 else []
        if constraints:
            solved.append(fit(m.tree, constraints, method, seed, most=6))
    assert len(solved) > 5 and np.nanmean(solved) > 0.9


def test_a_stretched_leg_counts_only_if_its_foot_stands():
    """Estimates are those of the constraints that are on."""
    arm = ds.mechanisms.star(2, 3)
    feet = [ds.Point("branch1_3"), ds.Point("branch2_3")]
    programs = [Switched(arm, feet, name) for name in JUDGED]
    q, v, tau = state(arm, np.random.default_rng(0), (2,))
    q[:, arm.q_slices[arm.link_names.index("branch1_2")]] = 0.0
    q[:, arm.q_slices[arm.link_names.index("branch1_3")]] = 0.0
    stretched = Switched(arm, [ds.Rows("branch1_3", np.zeros((1, 6))), feet[1]], "pv")
    *_, nothing = stretched(q, v, tau, np.array([[0.0, 1.0]] * 2))
    assert nothing.min() > LEAST_RCOND
    for program in programs:
        good, _ = program.check(q, v, tau, np.array([[0.0, 1.0], [0.0, 0.0]]))
        assert good.all()


@pytest.mark.slow
def test_kernels(monkeypatch, tmp_path):
    """A redundant set with regular modes, compiled: each state has its own flags; no NaN anywhere."""
    monkeypatch.setenv("DELASSUS_CACHE", str(tmp_path))
    tree, corners = ds.mechanisms.star(2, 4), MIXED["four corners"]
    feet = [ds.Point(ds.Frame(f"branch{k}_4", c.first.position)) for k in (1, 2) for c in corners[:2]]
    forward = ds.compile(tree, feet, "dynamics", active=True)
    assert forward.method == "pv-early"
    flags = np.array(subsets(4, None))
    q, v, tau = state(tree, np.random.default_rng(1), (len(flags),))
    qdd, forces, _ = forward(q, v, tau, flags.astype(float), return_status=True)
    assert np.isfinite(qdd).all() and np.isfinite(forces).all()
    dense = DenseDynamics(tree, feet, q, v, tau)
    for k, on in enumerate(np.repeat(flags == 1.0, 3, axis=1)):
        if dense.rank(k, on) == on.sum():
            assert error(qdd[k], dense.solution(k, on)[0]) < 1e-9
        assert not forces[k, ~on].any()


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("method", ["pv", "pv-early"])
@pytest.mark.parametrize("case", benchmark_cases(), ids=lambda case: case.name)
def test_operations(case, method):
    asked = (
        requested(case.tree, case.constraints, "dynamics", method=method, active=active) for active in (False, True)
    )
    plain, switched = (make_program(one, with_rcond=False).graph.count().total for one in asked)
    print(case.name, method, plain, switched)
    assert switched < (1.1 if method == "pv-early" else 1.02) * plain


def test_conditions():
    ops, tree = TraceOps(), ds.mechanisms.chain(3)
    constraints = check_constraints(tree, [ds.Point("link3"), ds.Point("link2"), ds.Point("link1")])
    values = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
    conditions = Conditions(Problem(ops, tree, constraints, [0.0] * 3, active=ops.vector(3, [1.0] * 3)))
    a, b, c = (conditions.of[k, 0] for k in range(3))
    both, either = conditions.both(a, b), conditions.either(a, b)
    assert conditions.either(both, a) == a and conditions.both(either, a) == a
    of = [conditions.on(both), conditions.off(conditions.both(either, c))]
    on, off = (x[:, 0, 0] for x in evaluated(ops, of, values, batch=(8,)))
    assert np.array_equal(on, values[:, 0] * values[:, 1])
    assert np.array_equal(off, 1 - np.maximum(values[:, 0], values[:, 1]) * values[:, 2])
