"""Loops eliminated in other orders than that of links, with blocks between links: results, counts and accuracy."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import delassus as ds
from delassus.quantities.planner.elimination import (
    FEW_FORCES,
    MANY_FORCES,
    MARGIN,
    fewest_operations,
    least_degree,
    loops,
)
from delassus_studies.bench.errors import BELOW
from delassus_studies.cases import Case, random_states
from delassus_studies.loop_mechanisms import cassie_legs, four_bars, grid, rungs, stewart_platform, welded_ladder
from internals import (
    DYNAMICS_ALGORITHMS,
    NEVER,
    CallingTraceOps,
    EliminationOrder,
    TraceOps,
    calls,
    elimination_order,
    interpret,
    rcond_by_pivots,
    symbolic_request,
)
from tools import requested

CLOSE = 1e-9
"""Relative error at random states: ``G`` of these mechanisms has conditions up to 1e5."""


def mixed() -> Case:
    """A ladder with a coupled joint, a weld and a distance; one loop is on one branch."""
    case = rungs(3)
    more = (
        ds.JointRows({"left1_joint": 1.0, "right2_joint": -0.5}),
        ds.Distance(ds.Frame("left2", (0.1, 0, 0)), ds.Frame("right0", (0.1, 0, 0))),
        ds.Point(ds.Frame("rung2", (0.2, 0.1, 0.0)), ds.Frame("left0", (0.0, 0.1, 0.0))),
    )
    return replace(case, name="mixed", constraints=(*case.constraints[1:], *more))


def held() -> Case:
    """Two branches joined, one of them held in the world: rows of the world meet a loop on their way to the hub."""
    tree = ds.mechanisms.star(2, 6)
    constraints = (
        ds.Point(ds.Frame("branch2_2", (0.4, 0.05, 0.0)), ds.Frame("branch1_5", (0.3, 0.2, -0.1))),
        ds.Distance(ds.Frame("branch1_3", (0.1, 0.1, -0.3)), ds.Frame("hub", (0.4, -0.1, 0.0))),
        ds.Point(ds.Frame("branch2_1", (-0.3, 0.4, 0.0))),
    )
    return replace(four_bars(1), name="held", tree=tree, constraints=constraints)


CASES = [
    four_bars(2),
    stewart_platform(),
    cassie_legs(True),
    rungs(2, ring=True),
    welded_ladder(2),
    grid(3),
    mixed(),
    held(),
]


def solved(case, order, states, active=None, method="pv-early", dtype=float, **options):
    """Accelerations, forces and reciprocal condition by a method in an order."""
    options["active"] = active is not None
    asked = requested(case.tree, case.constraints, "dynamics", method=method, passive="none", **options)
    ops = TraceOps()
    traced = symbolic_request(asked, ops)
    traced.order = order
    found = DYNAMICS_ALGORITHMS[method](traced.motion())
    outputs = [ops.nodes(found.qdd), ops.nodes(found.forces)]
    outputs.append(ops.nodes(ops.matrix([[rcond_by_pivots(asked, ops, outputs).rcond]])))
    given = [states.q, states.v, states.tau] + ([] if active is None else [active.astype(float)])
    qdd, f, rcond = interpret(ops.graph(outputs), np.concatenate(given, axis=1).astype(dtype))
    return qdd, f, rcond[:, 0]


def orders(case):
    """That of links and that of least degree, in turns, with blocks from none to all."""
    least = least_degree(case.tree, loops(case.tree, case.constraints))
    both = (tuple(case.tree.leaves_to_root()), least)
    for links in both:
        assert sorted(links) == list(range(case.tree.n_links))
        assert all(links.index(i) < links.index(p) for i, p in enumerate(case.tree.parents) if p >= 0)
    for turn, block in enumerate((NEVER, MANY_FORCES, FEW_FORCES, 0.0), start=len(case.name)):
        yield EliminationOrder(both[turn % 2], block)


def worst(found, wanted):
    """Median over the states: of their matrices some are near singular."""
    return float(np.median(np.abs(found - wanted).max(axis=-1) / np.abs(wanted).max(axis=-1)))


def dense(case, states, method="kkt", **options):
    found = ds.forward_dynamics(
        case.tree, states.q, states.v, states.tau, case.constraints, method=method, passive="none", **options
    )
    return found.qdd, np.concatenate(found.forces, axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_order_gives_the_dense_solution(case):
    states = random_states(case, 9)
    wanted = dense(case, states)
    exact = solved(case, None, states, method="ltl", dtype=np.longdouble)[0]  # LAPACK's errors are as large as these
    for order in orders(case):
        qdd, f, rcond = solved(case, order, states)
        assert worst(qdd, wanted[0]) < CLOSE and worst(f, wanted[1]) < CLOSE
        error = np.abs(qdd - exact).max(axis=-1) / np.abs(exact).max(axis=-1)
        assert np.all(error < BELOW * np.finfo(float).eps / rcond)  # worst seen: 0.7 estimates


@pytest.mark.slow
@pytest.mark.parametrize("case", [rungs(2, ring=True), mixed()], ids=lambda case: case.name)
def test_soft_loops(case):
    states = random_states(case, 9)
    wanted = dense(case, states, "ltl-soft", compliance=1e-3)
    for order in orders(case):
        qdd, f, _ = solved(case, order, states, method="pv-soft", compliance=1e-3)
        assert worst(qdd, wanted[0]) < CLOSE and worst(f, wanted[1]) < CLOSE


@pytest.mark.slow
def test_loops_that_can_be_off():
    case = rungs(3)
    states, rng = random_states(case, 3), np.random.default_rng(1)
    active = rng.random((3, 3)) < 0.5
    for order in orders(case):
        qdd, f, _ = solved(case, order, states, active=active)
        for k, on in enumerate(active):
            few = replace(case, constraints=tuple(c for c, acts in zip(case.constraints, on, strict=True) if acts))
            one = replace(states, **{x: getattr(states, x)[k : k + 1] for x in ("q", "v", "tau")})
            wanted = ds.forward_dynamics(case.tree, one.q, one.v, one.tau, few.constraints, passive="none").qdd
            assert worst(qdd[k : k + 1], wanted) < CLOSE
            assert not f[k].reshape(3, 3)[~on].any()


def planned(case):
    return elimination_order(requested(case.tree, case.constraints, "dynamics", method="pv-early", passive="none"))


def operations(case, order, method="pv-early"):
    ops = TraceOps()
    traced = symbolic_request(requested(case.tree, case.constraints, "dynamics", method=method, passive="none"), ops)
    traced.order = order
    found = DYNAMICS_ALGORITHMS[method](traced.motion())
    return ops.count([*ops.nodes(found.qdd), *ops.nodes(found.forces)])


def test_counts_are_of_the_operations_that_a_result_needs():
    """Each once, however many need it; not what nothing needs, nor what is given."""
    rng = np.random.default_rng(0)
    for n in range(1, 30):
        ops = TraceOps()
        start, *given = ops.vector(n + 1)
        made, counts = [start], [0]
        for x in given:
            y, kind = made[-1], rng.integers(7)
            made.append((x + y, x - y, x * y, x / y, ops.select(x, 2.0, y), ops.sqrt(y) - x, (x + y) * (x + y))[kind])
            counts.append(counts[-1] + (1, 1, 1, 1, 1, 2, 2)[kind])
        for y, count in zip(made, counts, strict=True):
            assert ops.count(ops.nodes(ops.matrix([[y]]))) == count
        assert ops.count(ops.nodes(ops.matrix([made]))) == counts[-1]


def test_of_orders_that_with_the_fewest_operations_is_chosen():
    """Whichever of them are too long to be traced to their end."""
    rng, case = np.random.default_rng(0), stewart_platform()
    for _ in range(30):
        counts, tried = 10 ** rng.uniform(1.0, 3.5, 4), []

        def solve(ops, order, counts=counts, tried=tried):
            tried.append(order)
            (x,) = ops.vector(1)
            for _ in range(int(counts[len(tried) - 1])):
                x = ops.sqrt(x)
            return SimpleNamespace(qdd=ops.matrix([[x]]), forces=ops.matrix([[x]]))

        chosen = fewest_operations(case.tree, case.constraints, solve)
        assert len(tried) == 4
        assert counts[tried.index(chosen)] < (1.0 + MARGIN) * counts.min() + 2.0


@pytest.mark.slow
def test_long_ladders_cost_in_proportion_to_their_length():
    counts = [operations(rungs(n), planned(rungs(n))) for n in (6, 8, 10)]
    assert counts[2] - counts[1] < 1.1 * (counts[1] - counts[0])
    assert planned(rungs(10)).block == FEW_FORCES


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_choice_is_worse_than_waiting(case):
    waiting = EliminationOrder(tuple(case.tree.leaves_to_root()))
    chosen = planned(case)
    assert chosen == waiting or operations(case, chosen) < operations(case, waiting)
    assert case.name != "Stewart platform" or operations(case, chosen) < 0.8 * operations(case, waiting)


def test_without_loops_nothing_is_chosen():
    robot = ds.mechanisms.humanoid()
    assert planned(Case("standing", robot, (ds.Weld("left_foot"), ds.Weld("world", "right_foot")))) is None


def test_least_degree_goes_up_both_rails_at_once():
    tree = ds.mechanisms.ladder(3)
    order = least_degree(tree, [(0, 3), (1, 4), (2, 5)])
    assert [sorted(order[k : k + 2]) for k in (0, 2, 4)] == [[2, 5], [1, 4], [0, 3]]


@pytest.mark.slow
def test_flagged_states_of_many_loops_are_solved_without_ltl(monkeypatch):
    case = rungs(2)
    states = random_states(case, 9)
    monkeypatch.setattr("delassus.quantities.estimate.LONGEST", 0)
    kernel = ds.compile(
        case.tree, case.constraints, "dynamics", method="pv-early", passive="none", dtype="float32", error_bound=1e-6
    )
    single = [x.astype(np.float32) for x in (states.q, states.v, states.tau)]
    qdd, f, status = kernel(*single, return_status=True)
    q, v, tau = (x.astype(float) for x in single)
    wanted = dense(case, replace(states, q=q, v=v, tau=tau))
    assert np.all(status == ds.DynamicsStatus.SOLVED)
    assert worst(qdd, wanted[0]) < 1e-6 and worst(f, wanted[1]) < 1e-6


@pytest.mark.slow
def test_many_loops_in_extended_precision(monkeypatch):
    """`ltl` is too long there: `pv-early` takes its place."""
    monkeypatch.setattr("delassus.quantities.estimate.LONGEST", 10_000)
    case = welded_ladder(3)
    states = random_states(case, 3)
    asked = requested(case.tree, case.constraints, "dynamics", method="pv-early", passive="none")
    assert calls.is_long(asked)
    assert not calls.is_long(replace(asked, constraints=asked.constraints[:2]))
    doubtful = calls.call_of(asked, {"q": states.q, "v": states.v, "tau": states.tau}, (3,))
    doubtful.error_bound = 1e-13
    found = list(doubtful.run().values())
    wanted = dense(case, states)
    assert np.all(doubtful.resolved.status == ds.DynamicsStatus.SOLVED) and np.all(doubtful.resolved.error < 1e-13)
    assert worst(found[0], wanted[0]) < CLOSE and worst(found[1], wanted[1]) < CLOSE


def test_structure_is_found_in_long_mechanisms():
    """Bounds on errors that do not know of one another would call the rows of the last rungs dependent."""
    asked_of = []

    class Recording(TraceOps):
        def rank(self, a, least=0.0):
            asked_of.append(a.shape[0])
            return super().rank(a, least)

    ops, case = Recording(), rungs(20)
    asked = requested(case.tree, case.constraints, "dynamics", method="pv-early", passive="none")
    traced = symbolic_request(asked, ops)
    traced.order = EliminationOrder(least_degree(case.tree, loops(case.tree, case.constraints)), MANY_FORCES)
    DYNAMICS_ALGORITHMS["pv-early"](traced.motion())
    assert max(asked_of) <= 12


@pytest.mark.parametrize("has_calls", [False, True])
def test_pivots_that_meet_in_a_product_are_a_chain(has_calls):
    """Pivots that are called, too: the worse one of two apart counts, both of a chain."""
    asked, found = requested(ds.mechanisms.pendulum(4), (), "mass_matrix"), []
    for meet in (False, True):
        ops = CallingTraceOps()
        q = symbolic_request(asked, ops).entries("q")
        first, second = q[0] * q[0], q[1] * q[1]
        if has_calls:
            made = ops.map(lambda a: (a @ a,), [(ops.matrix([[x]]),) for x in q])
            first, second = (ops.entries(a)[0][0] for (a,) in made[:2])
            assert ops.graph([]).calls
        x, y = q[2] / first, q[3] / second
        for pivot in (first, second, x * y if meet else x + y):
            ops.pivot(pivot)
        outputs = [ops.nodes(ops.matrix([[1.0 / (x * y if meet else x + y)]]))]
        made = rcond_by_pivots(asked, ops, outputs)
        (rcond,) = interpret(ops.graph([[made.rcond.node]]), np.array([[1e-2, 1e-2, 1.0, 1.0], [1e-2, 1.0, 1.0, 1.0]]))
        found.append(rcond[0, 0] / rcond[1, 0])
    apart, chain = found
    assert chain < 0.1 * apart
