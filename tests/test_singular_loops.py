"""Loops at singular configurations, and methods beside one another, in extended precision."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus_studies.bench.loop_methods import accelerations, exact_accelerations, measure_methods, methods
from delassus_studies.cases import Case, States, random_states
from delassus_studies.counters import operations
from delassus_studies.loop_mechanisms import closed_states, four_bars, parallel_humanoid
from random_trees import some_mechanism

EPSILON = float(np.finfo(float).eps)
PARTS = {"float64": 1e-9, "float32": 2e-3}
"""Relative errors of accelerations."""


def parallelograms(n, length=0.5, width=0.25):
    """A tower of ``n`` parallelograms in a plane, each on the coupler of the one before, flat at zero."""
    tree, loops, on, step = ds.mechanisms.pendulum(1, length=length), [], "world", (0, 0, -width)
    for k in range(n):
        right, coupler = (ds.mechanisms.pendulum(1, length=x, mass=1.3) for x in (length, width))
        if k:
            tree = tree.attach(on, ds.mechanisms.pendulum(1, length=length), prefix=f"left{k}_")
        left = f"left{k}_rod1" if k else "rod1"
        tree = tree.attach(on, right, step, prefix=f"right{k}_")
        tree = tree.attach(left, coupler, (0, 0, -length), prefix=f"coupler{k}_")
        on = f"coupler{k}_rod1"
        loops.append(ds.Point(ds.Frame(on, step), ds.Frame(f"right{k}_rod1", (0, 0, -length))))
    return tree, loops


def of(states):
    """Arguments of forward dynamics."""
    return states.q, states.v, states.tau


def turned(angle):
    """Rotation about y."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


def tower(rng, n):
    """Parallelograms at closed configurations, each flat or not."""
    tree, loops = parallelograms(n)
    poses = {}
    for k in range(n):
        angle = rng.choice([0.0, rng.uniform(0.5, 1.2)]) if k else 0.0
        left = f"left{k}_rod1_joint" if k else "rod1_joint"
        poses |= {left: angle, f"right{k}_rod1_joint": angle, f"coupler{k}_rod1_joint": -angle}
    return Case("tower", tree, tuple(loops)), tree.configuration(poses)


def five_bar(*_):
    """Both limbs stretched along one line."""
    rods = ds.mechanisms.pendulum(2, length=0.5)
    tree = rods.attach("world", rods, (0, 0, -2.0), np.diag([-1.0, 1.0, -1.0]), prefix="right_")
    tips = [ds.Frame(name, (0, 0, -0.5)) for name in ("rod2", "right_rod2")]
    return Case("five-bar", tree, (ds.Point(*tips),)), np.zeros(4)


def delta(*_):
    """Rods of a Delta robot in one plane: the platform as high as the elbows."""
    tree, loops = ds.mechanisms.free_body(0.5, 1e-3 * np.eye(3), name="platform"), []
    for k, angle in enumerate((0.0, 2.1, 4.2)):
        R = np.array([[np.cos(angle), -np.sin(angle), 0], [np.sin(angle), np.cos(angle), 0], [0, 0, 1]])
        tree = tree.attach("world", ds.mechanisms.pendulum(1, length=0.25), R @ (0.2, 0, 0), R, prefix=f"arm{k}_")
        for y in (-0.05, 0.05):
            elbow, corner = ds.Frame(f"arm{k}_rod1", (0, y, -0.25)), ds.Frame("platform", R @ (0.05, y, 0))
            loops.append(ds.Distance(elbow, corner))
    arms = {f"arm{k}_rod1_joint": 0.0 for k in range(3)}
    q = tree.configuration({"root_joint": (0, 0, -0.25, 0, 0, 0, 1), **arms})
    return Case("delta", tree, tuple(loops)), q


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("make", [tower, five_bar, delta])
def test_rows_that_lose_rank_at_the_very_state(make, dtype):
    """Default dynamics and `proximal` have the least-squares accelerations there, batches and one state alike."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        case, q = make(rng, 1 + seed)
        q = np.tile(q, (3, 1)).astype(dtype).astype(float)  # what kernels of either type are given
        states = States(q, np.zeros((3, case.tree.nv)), rng.normal(size=(3, case.tree.nv)).astype(dtype).astype(float))
        exact, rank = exact_accelerations(case, states)
        size = np.abs(exact).max(axis=1)
        assert (rank < sum(c.size for c in case.constraints)).all()
        for method in ("auto", "proximal"):
            given = case.tree, case.constraints
            kernel = ds.compile(*given, "dynamics", method=method, passive="none", dtype=dtype, wait=False)
            qdd, _, status = kernel(*(x.astype(dtype) for x in of(states)), return_status=True)
            assert (np.abs(qdd - exact).max(axis=1) < PARTS[dtype] * size).all(), (case.name, seed, method)
            one = kernel(*(x[0].astype(dtype) for x in of(states)), return_status=True)[0]
            np.testing.assert_allclose(one, qdd[0], atol=PARTS[dtype] * float(size[0]))
            assert {s.name for s in status} == {"REDUNDANT"}
            found = ds.forward_dynamics(given[0], *of(states), given[1], method=method, passive="none")
            assert (np.abs(found.qdd - exact).max(axis=1) < 1e-9 * size).all()


def test_a_flat_parallelogram_goes_on_as_it_moves():
    """It may go on as a parallelogram or crossed; accelerations at the velocity of the one keep the loop closed."""
    tree, loops = parallelograms(1)
    rates = {"rod1_joint": 2.0, "coupler0_rod1_joint": -2.0, "right0_rod1_joint": 2.0}
    q, v = np.zeros(3), tree.configuration(rates)  # of hinges alone
    found = ds.forward_dynamics(tree, q, v, np.ones(3), loops, passive="none")
    assert np.abs(ds.jacobian(tree, loops, q) @ v).max() < 1e-15
    assert found.status.item().name == "REDUNDANT" and found.rank == 1
    assert np.abs(found.constraint_residual()).max() < 1e-13


def gimbal(near, light):
    """A crank, a rod on a gimbal whose links have ``light`` of their mass, and a rocker; ``near`` the lock."""
    tree, quarter = ds.mechanisms.pendulum(1, length=0.3), np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]])
    for name, on, at, R in (("a", "rod1", -0.3, np.eye(3)), ("b", "a_rod1", 0, quarter), ("c", "b_rod1", 0, quarter.T)):
        tree = tree.attach(on, ds.mechanisms.pendulum(1, length=0.2), (0, 0, at), R, prefix=f"{name}_")
    tree = tree.attach("world", ds.mechanisms.pendulum(1, length=0.4), (0.5, 0.1, 0), prefix="far_")
    shares = {"a_rod1": light, "b_rod1": light}
    inertias = tuple(shares.get(name, 1.0) * x for name, x in zip(tree.link_names, tree.inertias, strict=True))
    tree = replace(tree, inertias=inertias)
    rod, rocker = ds.Frame("c_rod1", (0.3, 0.1, -0.2)), ds.Frame("far_rod1", (0, 0, -0.4))
    q = tree.configuration({"rod1_joint": 0.3, "a_rod1_joint": 0.2, "b_rod1_joint": near})
    return Case("gimbal", tree, (ds.Distance(rod, rocker),)), q


@pytest.mark.parametrize("light", [1e-3, 1e-9, 0.0])
def test_gimbals_near_their_lock(light):
    """Where links of gimbals have little mass: accurate, or said not to be; without any, nothing is unique there."""
    for near in (1e-1, 1e-3, 1e-5, 1e-7, 0.0):
        case, q = gimbal(near, light)
        states = random_states(case, 4)
        states = States(np.tile(q, (4, 1)), states.v, states.tau)
        found = ds.forward_dynamics(case.tree, *of(states), case.constraints, passive="none", method="ltl")
        lost = np.array([s.name in ("INACCURATE", "FAILED") for s in found.status])
        if near == light == 0.0:
            assert lost.all()
            continue
        exact, _ = exact_accelerations(case, states)
        error = np.abs(found.qdd - exact).max(axis=1) / np.abs(exact).max(axis=1)
        rounded = EPSILON / max(light, near * near)  # numbers of a robot are, when it is traced
        assert (lost | (error <= np.maximum(10.0 * found.error_estimate, rounded))).all(), (near, error, found.status)
        assert not lost.any() or rounded > 1e-9


def test_towers_of_four_bars_cost_in_proportion():
    """Operations grow with the number of loops, between links of mass."""
    for method in ("pv-early", "pv-soft", "proximal"):
        few, some, more = (operations(four_bars(n), method) for n in (3, 5, 7))
        assert abs((more - some) - (some - few)) < 0.02 * (some - few)


def test_factors_are_taken_where_they_take_less_time():
    """Of hard loops on few links; not of many local ones, of soft ones, and of such as can be off."""
    few, more = four_bars(1), four_bars(4)
    for case, options, method in (
        (few, {}, "ltl"), (more, {}, "pv-early"), (few, {"compliance": 1e-3}, "pv-early"),
        (few, {"active": True}, "pv-early"),
    ):  # fmt: skip
        kernel = ds.compile(case.tree, case.constraints, "dynamics", wait=False, **options)
        assert kernel.method == kernel.plan.method == method
    count = {method: operations(few, method) for method in ("ltl", "pv-early")}
    assert count["ltl"] < 1.25 * count["pv-early"]


@pytest.mark.parametrize("case", [four_bars(1), four_bars(2)], ids=lambda case: case.name)
def test_every_method_is_that_of_extended_precision(case):
    """At closed states; where rows are dependent programs say so, and `proximal` solves them."""
    states = closed_states(case, 6)
    exact, rank = exact_accelerations(case, states)
    assert (rank == sum(c.size for c in case.constraints)).all()
    for method in methods():
        qdd = accelerations(case, states, method)
        assert (np.abs(qdd - exact).max(axis=1) < 1e-10 * np.abs(exact).max(axis=1)).all(), method
    found = measure_methods(case, 2)
    assert all(found[method]["solved"] == 1.0 and found[method]["error"] < 1e-10 for method in methods())


def test_dependent_rows_beside_one_another():
    """A flat four-bar in a plane, closed by a point: one row too many."""
    tree, loops = parallelograms(1)
    case = Case("parallelogram", tree, tuple(loops))
    states = closed_states(case, 4)
    exact, rank = exact_accelerations(case, states)
    assert (rank == 2).all()
    assert np.isnan(accelerations(case, states, "pv-early")).all()
    qdd = accelerations(case, states, "proximal")
    assert (np.abs(qdd - exact).max(axis=1) < 1e-10 * np.abs(exact).max(axis=1)).all()


def test_the_humanoid_with_parallel_legs():
    """Its loops are closed at zero; rotors turn ten times as fast as the torso's joints together."""
    case = parallel_humanoid()
    tree, still = case.tree, np.zeros(case.tree.nv)
    assert tree.nv == 64 and sum(c.size for c in case.constraints) == 20
    errors = ds.compile(tree, case.constraints, "constraint_errors", outputs="errors", wait=False)
    assert np.abs(errors(tree.neutral(), still)).max() < 1e-15
    q = ds.random_configurations(tree, case.constraints, rng=0)
    G = ds.reduced_dynamics(tree, case.constraints, q).transmission
    rotor, yaw, pitch = (G[tree.v_index(f"{x}_joint").start] for x in ("sum_rod1", "torso1", "torso2"))
    np.testing.assert_allclose(rotor, 10.0 * (yaw + pitch), atol=1e-9)
    states = random_states(case, 2)
    found = ds.forward_dynamics(tree, *of(states), case.constraints, passive="none")
    assert np.abs(found.constraint_residual()).max() < 1e-8


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")
@pytest.mark.parametrize("seed", range(3))
def test_machine_code_judges_flagged_states(seed, monkeypatch):
    """Results of flagged states are those of few such states to the bit, by the general path and by the entry.

    Few are solved again as direct calls are. Others stay as they are. True errors, beside extended precision, are below
    ten times the bound.
    """
    monkeypatch.setenv("DELASSUS_COMPILE", "wait")
    made = ds.compile(ds.mechanisms.chain(1), (), "dynamics").__class__.__base__.__init__.__globals__
    monkeypatch.setitem(made, "made_request", lambda asked, *_: asked)  # by pivots, though bounds are strict
    rng = np.random.default_rng(seed)
    mechanism = some_mechanism(seed, 6, ("fixed", "floating")[seed % 2])
    tree, (first, last) = mechanism.tree, mechanism.tree.link_names[-2:]
    rows = [ds.Point(last), ds.Distance(first, ds.Frame("world", rng.normal(size=3) + 2.0))]
    every = random_states(Case("", tree, rows), 200)
    asked = {"method": ("ltl", "pv-early", "pv")[seed], "passive": "none"}
    alone = ds.compile(tree, rows, "dynamics", error_bound=1e300, **asked)
    assert not alone.error_dtype
    by_pivots, judged = (EPSILON / rcond_of(kernel, every) for kernel in (alone, alone.error_estimator))
    bound = float(np.sort(by_pivots)[-40])
    kernel = ds.compile(tree, rows, "dynamics", error_bound=bound, **asked)
    for kept in ((by_pivots <= bound) | (judged <= bound), np.ones(200, dtype=bool)):  # the judge solves all, or some
        states, flagged = States(*(x[kept] for x in of(every))), by_pivots[kept] > bound
        assert 5 < flagged.sum() < 40
        *expected, said = kernel(*(x[flagged] for x in of(states)), return_status=True)
        assert (said == ds.DynamicsStatus.SOLVED).all() or kept.all()
        raw, with_status = alone(*of(states)), kernel(*of(states), return_status=True)
        assert np.array_equal(with_status[-1][flagged], said)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            plain = kernel(*of(states))
        assert bool(warned) == ((by_pivots > bound) & (judged > bound))[kept].any()
        for found in (with_status[:-1], plain):
            for x, again, left in zip(found, expected, raw, strict=True):
                assert np.array_equal(x[flagged], again) and np.array_equal(x[~flagged], left[~flagged])
    assert kernel.code.judging[0]  # by which the entry called
    exact, _ = exact_accelerations(Case("", tree, rows), every)
    true = np.abs(found[0] - exact).max(axis=1) / np.abs(exact).max(axis=1)
    assert (true < 10.0 * bound).all()


def rcond_of(kernel, states):
    """Reciprocal conditions that machine code makes of states."""
    results = [np.empty((len(states.q), *r.shape)) for r in kernel.results]
    return kernel.compute(list(of(states)), results, (len(states.q),), 1)[0]
