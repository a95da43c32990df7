"""Compiled dynamics: constraints switched off, states solved again, statuses, rollouts; options: `test_generated`."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from itertools import pairwise, product
from types import MappingProxyType

import numpy as np
import pytest

import delassus as ds
from internals import (
    DYNAMICS,
    SOFT,
    UNCONSTRAINED,
    RawJoint,
    RawLink,
    bound_request,
    build_tree,
    dynamics,
    fastcall,
    find_quantity,
    joint_kinds,
    key_of,
    quantities,
)
from random_trees import TURNS_OR_SLIDES, points_on_an_arm, some_dependent_rows, some_mechanism
from tools import AGREEMENT, error, make_motion, requested, run_program, traced

DOUBLE = 1e-9
"""One algorithm by two machines, through the condition of M and of G."""

Solution, TERMS = bound_request.DynamicsSolution, bound_request.relative_error.__globals__["Terms"]


ROBOTS = {
    "arm": (lambda: ds.mechanisms.chain(6), lambda: [ds.Point(ds.Frame("link6", (0.1, 0.0, 0.05)))]),
    "floating": (
        lambda: ds.mechanisms.star(2, 3),
        lambda: [ds.Point("branch1_3", axes="world"), ds.Point("branch2_3", "branch1_1")],
    ),
    "loop": (
        lambda: ds.mechanisms.star(2, 4, root="fixed"),
        lambda: [ds.Point("branch1_4", "branch2_4"), ds.Point(ds.Frame("branch1_3", (0.1, 0.2, 0.1)))],
    ),
}


@cache
def case(robot):
    tree, constraints = ROBOTS[robot][0](), ROBOTS[robot][1]()
    rng = np.random.default_rng(7)
    q, v, tau = tree.random(rng, 17), rng.normal(size=(17, tree.nv)), rng.normal(size=(17, tree.nv))
    return tree, constraints, q, v, tau


def stacked(solution):
    return solution.qdd, np.concatenate([np.zeros((*solution.qdd.shape[:-1], 0)), *solution.forces], axis=-1)


# -- every task --------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
def test_what_auto_takes():
    tree, constraints, *_ = case("arm")
    free, hard, soft = (
        ds.compile(tree, c, "dynamics", **options)
        for c, options in (([], {}), (constraints, {}), (constraints, {"compliance": 1e-3}))
    )
    assert (free.method, soft.method) == ("aba", "pv-early")
    assert hard.method == "pv-early"
    for kernel in (free, hard, soft):
        assert (
            kernel.plan.method == kernel.method and kernel.method in repr(kernel) and kernel.method in str(kernel.plan)
        )
    assert ds.compile(tree, [], "mass_matrix").plan is None
    assert "method" not in repr(ds.compile(tree, [], "mass_matrix"))
    assert not any("Method" in line for line in ds.compile(tree, [], "mass_matrix").program().comment)
    assert ds.compile(tree, constraints, "dynamics", method="kkt").plan is None


# -- options -----------------------------------------------------------------------------------------------------------


def test_the_key_tells_options_apart():
    tree, constraints, *_ = case("loop")
    options = [
        {}, {"gravity": (0, 0, -1)}, {"gravity": "input"}, {"damping": "input"}, {"damping": np.ones(tree.nv)},
        {"wrenches": ["branch1_1"]}, {"wrenches": [ds.Frame("branch1_1", (0, 0, 1e-9))]}, {"targets": True},
        {"targets": [True, False]}, {"baumgarte": 1.0}, {"baumgarte": 2.0}, {"baumgarte": [None, 1.0]},
        {"baumgarte": [None, 1.0], "poses": True}, {"compliance": 1e-3}, {"active": True},
        {"compliance": "input"}, {"integrator": "rk4"},
    ]  # fmt: skip
    keys = [key_of(requested(tree, constraints, "step", **choice), "float64", 8) for choice in options]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("what", "options", "match"),
    [
        ("dynamics", {"gravty": 1}, "Did you mean 'gravity'"),
        ("dynamics", {"gravity": "down"}, "gravity: expected"),
        ("dynamics", {"gravity": np.zeros((4, 3))}, "gravity='input'"),
        ("dynamics", {"damping": -np.ones(6)}, "not negative"),
        ("dynamics", {"wrenches": "link6"}, "wrenches=\\['hand'\\]"),
        ("dynamics", {"wrenches": ["link66"]}, "Did you mean 'link6'"),
        ("dynamics", {"targets": 1}, "targets: expected"),
        ("dynamics", {"poses": [True]}, r"poses\[0\]"),
        ("dynamics", {"active": "yes"}, "active: expected True or False"),
        ("dynamics", {"method": "pv-osim"}, "method: expected one of"),
        ("dynamics", {"method": "aba"}, "none with the method 'aba'"),
        ("dynamics", {"method": "pv-soft"}, "positive numbers for all constraints"),
        ("dynamics", {"compliance": -1.0}, "positive numbers"),
        ("mass_matrix", {"gravity": (0, 0, 1)}, "no options with 'mass_matrix'"),
        ("mass_matrix", {"method": "kkt"}, "method: expected"),
        ("jacobian", {"active": True}, "no options with 'jacobian'"),
        ("step", {"integrator": "rk5"}, "Did you mean 'rk4'"),
        ("dynamics", {"integrator": "rk4"}, "integrator: expected"),
    ],
)
def test_bad_requests(what, options, match):
    tree, constraints, *_ = case("arm")
    with pytest.raises(ds.DelassusError, match=match):
        ds.compile(tree, constraints, what, **options)


# -- states that are solved again -------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*solved again:delassus.DelassusWarning")
@pytest.mark.slow
def test_states_of_small_pivots_are_solved_by_another_method(monkeypatch):
    """A method that is wrong where it says so: the kernel solves these states again, within the call."""

    def fragile(motion):
        ops, good, x = motion.ops, dynamics.METHODS["kkt"](motion), motion.problem.q[0]
        ops.pivot(x, squared=True)
        is_right = ops.matrix([[ops.select(ops.less(x * x, 1e-12), 0.0, 1.0)]])
        return Solution(good.qdd @ is_right, good.forces)

    methods = MappingProxyType({**dynamics.METHODS, "fragile": fragile})
    monkeypatch.setattr(bound_request, "METHODS", methods)
    changed = {
        quantity.name: replace(quantity, methods=tuple(methods)) for quantity in (DYNAMICS, find_quantity("step"))
    }
    monkeypatch.setattr(quantities, "QUANTITIES", MappingProxyType({**quantities.QUANTITIES, **changed}))
    monkeypatch.setenv("DELASSUS_CACHE", "off")
    tree, constraints, q, v, tau = case("arm")
    q = q.copy()
    q[[2, 5, 16], 0] = 0.0
    forward = ds.compile(tree, constraints, "dynamics", method="fragile")
    assert [r.name for r in forward.results] == ["qdd", "forces"]
    with pytest.warns(ds.DelassusWarning, match=r"3 of 17 state\(s\) .* solved again, as by a direct call"):
        forward(q, v, tau)
    expected = stacked(ds.forward_dynamics(tree, q, v, tau, constraints))
    out = np.empty((17, 6)), np.empty((17, 3))
    for qdd, forces in (forward(q, v, tau), forward(q, v, tau, out=out)):
        assert error(qdd, expected[0]) < DOUBLE and error(forces, expected[1]) < DOUBLE
    one = np.empty(6), np.empty(3)
    for k in (1, 2):
        assert forward(q[k], v[k], tau[k], out=one) is one
        assert error(one[0], expected[0][k]) < DOUBLE
    step = ds.compile(tree, constraints, "step", method="fragile")
    still = np.zeros((3, 17, 6))
    qs, vs, status = ds.rollout(step, q, v, still, 1e-2, return_status=True)  # the first step of three is solved again
    assert np.all(status == ds.DynamicsStatus.SOLVED) and status.shape == (3, 17)
    good = ds.rollout(ds.compile(tree, constraints, "step", method="kkt"), q, v, still, 1e-2)
    assert error(qs, good[0]) < DOUBLE and error(vs, good[1]) < DOUBLE


@pytest.mark.parametrize("turns", [True, False])
def test_usual_accelerations_are_those_of_terms_that_do_not_cancel(turns):
    """Of points of mass on an arm that their weight moves: what its mass matrix says."""
    tree = points_on_an_arm(np.random.default_rng(0), 4, turns)
    motion, still = make_motion(tree, *[np.zeros(tree.nv)] * 3)[0], np.zeros(tree.nv)
    (usual,) = motion.made(lambda _, problem: [TERMS(problem, dynamics.METHODS["aba"](problem)).usual[0][0]])
    expected = abs(ds.bias_force(tree, still, still)[0]) / ds.mass_matrix(tree, still)[0, 0]
    assert error(np.squeeze(usual), expected) < 1e-14


def all_terms(ops, problem, solution):
    """Residuals of a solution of numbers, sizes of their terms, what is usual, and that along rows."""
    terms = TERMS(problem, Solution(*map(ops.constant, solution)))
    usual = (ops.matrix([[x] for x in part]) for part in terms.usual)
    return [*terms.missed, *terms.sizes, *usual, terms.usual_rows]


def in_units(mechanism, mass, length):
    """The same mechanism, in units of so many kg and m: what is 1 there is ``mass`` and ``length`` here."""
    inertia = mass * length**2
    links = [replace(x, mass=mass * x.mass, com=length * x.com, inertia=inertia * x.inertia) for x in mechanism.links]
    joints = [
        replace(
            x,
            position=length * x.position,
            armature=x.armature * (mass if x.kind is joint_kinds.PRISMATIC else inertia),
            pitch=length * x.pitch,
        )
        for x in mechanism.joints
    ]
    return build_tree("units", links, joints)


@pytest.mark.parametrize(("mass", "length", "time"), [(1024.0, 1.0, 1.0), (1.0, 0.125, 1.0), (1.0, 1.0, 32.0)])
@pytest.mark.parametrize("kinds", [TURNS_OR_SLIDES, TURNS_OR_SLIDES[:1]], ids=["mixed", "hinges"])
def test_terms_of_estimates_have_units(kinds, mass, length, time):
    """Powers of two of them, which change no digit: residuals, sizes of their terms, and what is usual."""
    mechanism, rng = some_mechanism(3, 6, "fixed", kinds), np.random.default_rng(0)
    names, own = mechanism.moving, mechanism.tree
    straight = np.array([axis < 3 for j in own.joints for axis in j.motion_axes])
    q, v, tau, qdd, forces = (rng.normal(size=(n, 1)) for n in (*[own.nv] * 4, 6))
    frames = [(name, rng.normal(size=3)) for name in (names[-1], names[-1], names[1])]
    found = []
    for kg, m, s in ((1.0, 1.0, 1.0), (mass, length, time)):
        tree, meant = in_units(mechanism, kg, m), np.where(straight, m, 1.0)[:, None]
        first, *ends = (ds.Frame(name, m * at) for name, at in frames)
        motion = make_motion(
            tree, (q * meant)[:, 0], (v * meant / s)[:, 0], (tau * kg * m**2 / s**2 / meant)[:, 0],
            [ds.Point(first), ds.Point(*ends)], gravity=m / s**2 * np.array([1.0, 2.0, -9.0]),
        )[0]  # fmt: skip
        solution = qdd * meant / s**2, forces * kg * m / s**2
        numbers = motion.made(lambda bound, problem, x=solution: all_terms(bound.ops, problem, x))
        of_joints, of_rows = kg * m**2 / s**2 / meant, m / s**2
        units = [of_joints, of_rows, of_joints, of_rows, meant / s**2, kg * m / s**2]
        if length == 1.0 or kinds == TURNS_OR_SLIDES[:1]:  # accelerations of slides and hinges are compared
            units = [*units, of_rows]
        found.append([x / unit for x, unit in zip(numbers, units, strict=False)])
    for one, other in zip(*found, strict=True):
        assert np.any(one) and error(other, one) < 1e-14


@pytest.mark.parametrize(
    ("parent", "ends", "branches"), [("base", ("l0", "l1"), 2), ("base", ("l0",), 0), ("trunk", ("l0", "l1"), 0)]
)
def test_where_a_loop_stands_its_rows_lose_digits(parent, ends, branches):
    """Where two arms of the base are moved, by what that adds to each of them; not where one trunk carries both."""
    far, qdd, still = np.array([3.0, -2.0, 5.0]), np.array([[0.7], [-2.0], [0.4]]), np.zeros(3)
    links = [RawLink("base"), *(RawLink(name, 1.0, np.ones(3), np.eye(3)) for name in ("trunk", "l0", "l1"))]
    found = []
    for shift in (np.zeros(3), far):
        arm = np.sign(far) + shift * (parent == "base")
        joints = [
            RawJoint("trunk", joint_kinds.REVOLUTE, "base", "trunk", position=np.sign(far) + shift),
            RawJoint("j0", joint_kinds.REVOLUTE, parent, "l0", position=arm),
            RawJoint("j1", joint_kinds.REVOLUTE, parent, "l1", position=arm),
        ]
        motion = make_motion(build_tree("arms", links, joints), still, still, still, ds.Weld(*ends))[0]
        (*_, usual) = motion.made(lambda bound, problem: all_terms(bound.ops, problem, (qdd, np.zeros((6, 1)))))
        found.append(np.squeeze(usual))
    tree = motion.asked.tree
    moved = [qdd[tree.v_slices[tree.placement(name).link]] for name in ends]
    assert error(found[1], found[0] + branches * np.abs(far).sum() * np.abs(moved).sum()) < 1e-14


@pytest.mark.slow
def test_a_method_that_loses_digits_without_a_word(monkeypatch):
    """No pivot says so: noise does, and all states are solved again."""

    def lossy(motion):
        ops, good = motion.ops, dynamics.METHODS["kkt"](motion)
        ops.pivot(motion.problem.q[0], squared=True)
        three, third = ops.constant([[3.0]]), ops.constant([[1.0 / 3.0]])
        large = good.qdd @ ops.constant([[1e12]])
        return Solution(((good.qdd + large) @ three - large @ three) @ third, good.forces)

    methods = MappingProxyType({**dynamics.METHODS, "lossy": lossy})
    monkeypatch.setattr(bound_request, "METHODS", methods)
    changed = {"dynamics": replace(DYNAMICS, methods=tuple(methods))}
    monkeypatch.setattr(quantities, "QUANTITIES", MappingProxyType({**quantities.QUANTITIES, **changed}))
    monkeypatch.setenv("DELASSUS_CACHE", "off")
    tree, constraints, q, v, tau = case("arm")
    forward = ds.compile(tree, constraints, "dynamics", method="lossy")
    with pytest.warns(ds.DelassusWarning, match=r"17 of 17 state\(s\) .* solved again, as by a direct call"):
        qdd, forces = forward(q, v, tau)
    expected = stacked(ds.forward_dynamics(tree, q, v, tau, constraints))
    assert error(qdd, expected[0]) < DOUBLE and error(forces, expected[1]) < DOUBLE


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "dtype"), [("pv", "float32"), ("pv-early", "float64"), ("ltl", "float64"), ("kkt", "float32")]
)
@pytest.mark.filterwarnings("ignore:.*solved again:delassus.DelassusWarning")
def test_the_direct_entry_judges(method, dtype):
    """It leaves to the general path where a pivot is too small or a force is no number."""
    if not fastcall.supported():
        pytest.skip("this interpreter has no direct entry")
    tree, constraints, *states = case("arm")
    q, v, tau = (x.astype(dtype) for x in states)
    forward = ds.compile(tree, constraints, "dynamics", method=method, dtype=dtype)
    out = np.empty((17, 6), dtype=dtype), np.empty((17, 3), dtype=dtype)
    bad = v.copy()
    bad[16, 2] = np.nan
    doubtful = forward.ill_conditioned(forward.compute((q, bad, tau), out, (17,), 1), (17,))
    assert doubtful[16] and np.count_nonzero(doubtful) < 9
    forward.address(1)  # which compiles the code for one state
    for k in range(17):
        one = out[0][k], out[1][k]
        result = forward.entry(q[k], bad[k], tau[k], out=one)
        assert result is (NotImplemented if doubtful[k] else one)
        assert (forward.entry(q[k], bad[k], tau[k]) is NotImplemented) == doubtful[k]
    assert forward.entry(q, bad, tau, out=out) is NotImplemented
    few = [x[~doubtful] for x in (q, bad, tau, *out)]
    found = tuple(few[3:])
    assert forward.entry(*few[:3], out=found) is found
    many = [np.resize(x, (300, *x.shape[1:])) for x in few]  # more than are run before it looks
    found = tuple(many[3:])
    assert forward.entry(*many[:3], out=found) is found
    for x, expected in zip(many[3:], few[3:], strict=True):
        assert np.array_equal(x, np.resize(expected, x.shape))
    for k in (100, 128, 299):
        at = many[1].copy()
        at[k, 2] = np.nan
        assert forward.entry(many[0], at, many[2], out=found) is NotImplemented
    twice = ds.compile(tree, [*constraints, *constraints], "dynamics", method=method, dtype=dtype)
    out = np.empty((17, 6), dtype=dtype), np.empty((17, 6), dtype=dtype)
    twice.address(17)
    assert twice.entry(q, v, tau, out=out) is NotImplemented
    with pytest.warns(ds.DelassusWarning, match=r"17 of 17 state\(s\)"):
        assert twice(q, v, tau, out=out) is out
    for result, expected in zip(out, twice(q, v, tau), strict=True):
        assert np.array_equal(result, expected)


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
def test_status_and_forces_are_of_one_solution():
    """Two ends held to the world and to one another: forces of least norm, whether the status is asked for or not."""
    tree, rng = ds.mechanisms.star(2, 2), np.random.default_rng(0)
    constraints = [ds.Point("branch1_2"), ds.Point("branch2_2"), ds.Point("branch1_2", "branch2_2")]
    q, v, tau = tree.random(rng, 9), rng.normal(size=(9, tree.nv)), rng.normal(size=(9, tree.nv))
    flags = np.array([[1.0, 1.0, 1.0]] * 6 + [[1.0, 0.0, 1.0]] * 3)
    dynamics, impact = ds.compile(tree, constraints, "dynamics"), ds.compile(tree, constraints, "impulse", active=True)
    expected = ds.forward_dynamics(tree, q, 0 * v, tau, constraints)
    struck = ds.impulse(tree, q, v, constraints, active=flags)
    for kernel, given, wanted, forces in (
        (dynamics, (q, 0 * v, tau), expected, stacked(expected)[1]),
        (impact, (q, v, flags), struck, np.concatenate(struck.impulses, axis=-1)),
    ):
        *found, status = kernel(*given, return_status=True)
        assert np.array_equal(status, wanted.status) and ds.DynamicsStatus.REDUNDANT in status
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ds.DelassusWarning)
            plain = kernel(*given)
        assert max(error(x[1], forces) for x in (found, plain)) < 1e-6
    solution = dynamics.solve(q, 0 * v, tau)
    assert np.array_equal(solution.status, expected.status) and error(stacked(solution)[1], stacked(expected)[1]) < 1e-6


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "options", "large"),
    [
        ("contact_step", {"control": "pd"}, {"q_target": -1e38, "kp": 100.0}),
        ("contact_step", {"control": "pd"}, {"q_target": -np.inf}),
        ("dynamics", {}, {"tau": 3e38}),
        ("step", {}, {"tau": 1e30, "dt": 1e20}),
    ],
)
def test_what_is_not_finite_has_no_good_status(what, options, large):
    """Also where float64 has it, and float32 has not; one state, and a batch beside states that are fine."""
    kernel = ds.compile(ds.mechanisms.chain(2), (), what, dtype="float32", **options)
    for batch in ((), (9,)):
        given = {a.name: np.full((*batch, *a.shape), 0.1, np.float32) for a in kernel.arguments}
        for name, x in large.items():
            given[name][0 if batch else ...] = np.float32(x)
        *results, status = kernel(*given.values(), return_status=True)
        finite = np.all([np.isfinite(x).all(axis=-1) for x in results if x.shape[-1:] != (0,)], axis=0)
        good = np.isin(status, [ds.DynamicsStatus.SOLVED, ds.DynamicsStatus.REDUNDANT])
        assert np.array_equal(good, finite) and np.count_nonzero(~finite) == 1


@pytest.mark.parametrize("output", ["df_dq", "df_dtau", "dqdd_dq"])
def test_sums_of_blocks_say_whether_results_are_finite(output):
    """Of results in blocks, whose totals stand for their entries: each argument infinite, or large."""
    tree = ds.mechanisms.chain(9)
    program = traced(tree, [ds.Weld("link9"), ds.Point("link5")], "dynamics_derivatives", outputs=[output])
    rng, sizes = np.random.default_rng(0), 10.0 ** np.arange(0, 306, 9)
    x = np.tile(np.concatenate([tree.random(0), rng.normal(size=2 * tree.nv)]), (3 * tree.nv + len(sizes), 1))
    x[np.arange(3 * tree.nv), np.arange(3 * tree.nv)] = np.inf
    x[3 * tree.nv :, tree.nv : 2 * tree.nv] *= sizes[:, None]
    with np.errstate(all="ignore"):
        found, rcond = run_program(program, x)
    finite = np.isfinite(found).reshape(len(x), -1).all(axis=1)
    assert np.array_equal(rcond[:, 0] > 0.0, finite) and 0 < np.count_nonzero(finite) < len(x)


def turned_planar_chain(n):
    """All joints turn about one direction; link frames are turned at random, so that this is not seen structurally.

    Returns the tree and that direction in the last link's frame.
    """
    rng = np.random.default_rng(1)
    turns = [np.eye(3)]
    for _ in range(n):
        Q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        turns.append(Q * np.sign(np.linalg.det(Q)))
    axis = np.array([0.3, -0.5, 0.8]) / np.linalg.norm([0.3, -0.5, 0.8])
    links = [RawLink("base", 1.0, np.zeros(3), np.eye(3))]
    joints = []
    for i in range(n):
        links.append(RawLink(f"link{i}", 1.0, turns[i + 1].T @ [0.2, 0.1, 0.0], 0.1 * np.eye(3)))
        joints.append(
            RawJoint(
                f"joint{i}",
                joint_kinds.REVOLUTE,
                links[i].name,
                links[i + 1].name,
                position=turns[i].T @ [0.5, 0.3, -0.1],
                rotation=turns[i].T @ turns[i + 1],
                axis=turns[i + 1].T @ axis,
            )
        )
    return build_tree("planar", links, joints), turns[n].T @ axis


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "dtype", "sets"),
    [
        ("kkt", "float64", (0, 1)), ("ltl", "float64", (0, 2)), ("pv", "float64", (0, 3)),
        ("pv-early", "float64", (0, 1, 2, 3)), ("pv-early", "float32", (0, 2)),
    ],
)  # fmt: skip
def test_rows_that_nothing_moves(method, dtype, sets):
    """Their mobility is round-off: every method flags them, and gives what the direct function does.

    In float32, round-off of rows that are given lets the joints move them.
    """
    tree, axis = turned_planar_chain(3)
    K, rng = np.zeros((1, 6)), np.random.default_rng(2)
    K[0, :3] = axis
    batch = [x.astype(dtype) for x in (tree.random(rng, 9), rng.normal(size=(9, 3)), rng.normal(size=(9, 3)))]
    small = np.full((9, 1, 1), 1e-3)
    unmoved = [
        (ds.Rows("link2", K), [], {}),
        ([ds.Rows("link0", np.eye(6)[:1]), ds.Rows("link2", 1)], [small * K], {"rows": [small * K]}),
        ([ds.Weld("world"), ds.Rows("link2", np.eye(6)[:1])], [], {}),
        (
            ds.Point(ds.Frame("link2", given="position")),
            [np.array([0.1, 0.2, 0.3])],
            {"placements": [[0.1, 0.2, 0.3]]},
        ),
    ]
    for constraints, given, keywords in (unmoved[k] for k in sets):
        forward = ds.compile(tree, constraints, "dynamics", method=method, dtype=dtype)
        given = [x.astype(dtype) for x in given]
        qdd, forces, status = forward(*batch, *given, return_status=True)
        expected = ds.forward_dynamics(tree, *batch, constraints, **keywords)
        assert np.array_equal(status, expected.status)
        assert np.all(expected.rank < forces.shape[-1])
        tolerance = DOUBLE if dtype == "float64" else 1e-4
        assert error(qdd, expected.qdd) < tolerance
        solution = forward.solve(*batch, *given)
        assert np.array_equal(solution.status, expected.status) and np.array_equal(solution.rank, expected.rank)
        assert np.array_equal(solution.redundant_rows, expected.redundant_rows)
    moved = ds.Rows("link2", np.cross(axis, np.eye(3))[:1] @ np.eye(3, 6))
    forward = ds.compile(tree, moved, "dynamics", method="kkt", dtype=dtype)
    assert np.all(forward.solve(*batch).status == ds.DynamicsStatus.SOLVED)


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
def test_solve_knows_the_stabilisation_of_rows():
    """These have no position errors, so that their gain of those says nothing about that of velocities."""
    tree, rng = ds.mechanisms.chain(3), np.random.default_rng(0)
    rows = ds.Rows("link3", rng.normal(size=(2, 6)))
    q, v, tau = tree.random(rng, 5), rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    stable = {"baumgarte": ds.Baumgarte(5.0, 0.7)}
    for constraints in ([rows], [rows, rows]):
        expected = ds.forward_dynamics(tree, q, v, tau, constraints, **stable)
        solution = ds.compile(tree, constraints, "dynamics", **stable).solve(q, v, tau)
        assert error(solution.qdd, expected.qdd) < 1e-9
        assert np.max(np.abs(solution.constraint_residual())) < 1e-9


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
@pytest.mark.parametrize("method", ["aba", *sorted(SOFT), "proximal", "pv-early"])
def test_solve_where_numbers_overflow(method):
    tree = ds.mechanisms.chain(3)
    constraints = [] if method in UNCONSTRAINED else [ds.Point(ds.Frame("link3", (0.1, 0.2, 0.1)))]
    soft = {"compliance": 1e-3} if method in SOFT else {}
    forward = ds.compile(tree, constraints, "dynamics", method=method, **soft)
    v = np.array([[1.0], [1e200]]) * np.ones(3)
    status = forward.solve(tree.random(0), v, np.zeros(3)).status
    assert status.tolist() == [ds.DynamicsStatus.SOLVED, ds.DynamicsStatus.FAILED]


# -- several results ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda k, q, v, o: k(q, v), r"3 array\(s\): q, v, tau"),
        (lambda k, q, v, o: k(q, v, taus=v), "Did you mean 'tau'"),
        (lambda k, q, v, o: k(q, v, v, v=v), "each argument once"),
        (lambda k, q, v, o: k(q, v, v, out=o[0]), "a tuple of 2 arrays: qdd, forces"),
        (lambda k, q, v, o: k(q, v, v, out=o[:1]), "a tuple of 1"),
        (lambda k, q, v, o: k(q, v, v, out=(o[0], o[0])), "out: expected a writeable"),
        (lambda k, q, v, o: k(v, v, v, out=(v, o[1])), "memory of an argument"),
        (lambda k, q, v, o: k(q, o[0], v, out=(o[0], o[1])), "memory of an argument"),
        (lambda k, q, v, o: ds.rollout(k, q, v, v[None], 0.1), "a compiled time step"),
        (lambda k, q, v, o: ds.compile(k.request.tree, [], "bias_force").solve(q, v), "compiled 'dynamics'"),
        (lambda k, q, v, o: ds.compile(k.request.tree, [], "mass_matrix")(q, return_status=True), "return_status"),
    ],
)
def test_bad_calls(call, match):
    tree, constraints, q, v, _ = case("arm")
    kernel = ds.compile(tree, constraints, "dynamics", method="kkt")
    with pytest.raises(ds.DelassusError, match=match):
        call(kernel, q, v, (np.empty((17, 6)), np.empty((17, 3))))


# -- time steps --------------------------------------------------------------------------------------------------------


def rolled(tree, q, v, tau, dt, steps, **options):
    step = ds.compile(tree, [], "step", **options)
    return ds.rollout(step, q, v, np.broadcast_to(tau, (steps, *np.shape(tau))), dt)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_semi_implicit_steps(seed):
    """The same as the manifold's own rule, for all kinds of joints and for batches of any size."""
    m = some_mechanism(seed, 5, ("floating", "fixed")[seed % 2])
    tree, rng = m.tree, m.rng
    step = ds.compile(tree, [], "step")
    q, v, tau = tree.random(rng, 13), rng.normal(size=(13, tree.nv)), rng.normal(size=(4, 13, tree.nv))
    qs, vs = ds.rollout(step, q, v, tau, 0.01)
    assert qs.shape == (5, 13, tree.nq) and np.array_equal(qs[0], q) and np.array_equal(vs[0], v)
    at_q, at_v = q, v
    for k in range(4):
        at_v = at_v + 0.01 * ds.forward_dynamics(tree, at_q, at_v, tau[k]).qdd
        at_q = tree.integrate(at_q, 0.01 * at_v)
        assert error(vs[k + 1], at_v) < AGREEMENT and error(qs[k + 1], at_q) < AGREEMENT
        one = step(qs[k], vs[k], tau[k], 0.01)
        assert error(one[0], qs[k + 1]) < 1e-14 and error(one[1], vs[k + 1]) < 1e-14
    for size in (0, 1, 7, 9):
        some = ds.rollout(step, q[:size], v[:size], tau[:, :size], 0.01, threads=2)
        assert error(some[0], qs[:, :size]) < 1e-14 and error(some[1], vs[:, :size]) < 1e-14


def test_quaternions_stay_of_unit_length():
    """Round-off of thousands of float32 steps does not add up."""
    tree = ds.mechanisms.free_body(1.0, np.diag([0.1, 0.2, 0.3]))
    q, v, tau = (np.asarray(x, np.float32) for x in (tree.neutral(), [0, 0, 0, 1, 2, 3], np.zeros(6)))
    qs, _ = rolled(tree, q, v, tau, np.float32(1e-3), 3000, dtype="float32")
    assert (
        np.abs(np.linalg.norm(qs[:, 3:].astype(float), axis=1) - 1.0).max() < 4 * np.finfo(np.float32).eps
    )  # 0.8 of four


@pytest.mark.slow
def test_statuses_of_rollouts_are_those_of_their_states():
    """Of a method that solves dependent rows and does not say so, on a random tree: of batches, and of one state."""
    m = some_mechanism(5, 4, "fixed")
    rows = next(rows for name, rows in some_dependent_rows(m).items() if name.startswith("twice"))
    step, forward = (ds.compile(m.tree, rows, what, method="proximal") for what in ("step", "dynamics"))
    q, v, tau = m.tree.random(m.rng, 9), np.zeros((9, m.tree.nv)), m.rng.normal(size=(3, 9, m.tree.nv))
    for some in (slice(None), 0):
        qs, vs, status = ds.rollout(step, q[some], v[some], tau[:, some], 1e-3, return_status=True, time_axis=0)
        wanted = forward.solve(qs[:-1], vs[:-1], tau[:, some])
        assert np.array_equal(status, wanted.status) and np.all(status == ds.DynamicsStatus.REDUNDANT)
        assert error(vs[1:], vs[:-1] + 1e-3 * wanted.qdd) < DOUBLE


BODY = ds.mechanisms.free_body(1.0, np.diag([0.1, 0.2, 0.3]))
"""A robot with more coordinates than velocities."""


def test_rollouts_of_every_batch():
    """Whatever broadcasts, what is held for two steps or given anew, on and back in time: the steps one by one."""
    step, T, rng = ds.compile(BODY, (), "step", gravity="input"), 4, np.random.default_rng(0)
    for some in product([(), (3,), (2, 1)], repeat=4):
        q, v = BODY.random(rng, some[0]), rng.normal(size=(*some[1], 6))
        tau, g = rng.normal(size=(T // 2, *some[2], 6)), rng.normal(size=(T, *some[3], 3))
        given = {"gravity": g, "per_step": ["gravity"], "decimation": 2, "time_axis": 0}
        dt = rng.choice([0.01, 0.0, -0.01])
        qs, vs = ds.rollout(step, q, v, tau, dt, **given)
        assert qs.shape == (T + 1, *np.broadcast_shapes(*some), 7)
        for k in range(T):
            after = step(qs[k], vs[k], tau[k // 2], dt, gravity=g[k])
            assert error(qs[k + 1], after[0]) < 1e-14 and error(vs[k + 1], after[1]) < 1e-14, some
    with pytest.raises(ds.DelassusError, match="batch first"):  # one step of five states, or five of each
        ds.rollout(step, BODY.random(rng, 5), np.zeros(6), np.zeros((5, 1, 6)), 0.01, gravity=np.zeros(3))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_feedback_in_every_batch(dtype):
    """Gains for all states or for each, bounds, and defects: the steps one by one, in blocks that overlap."""
    step, T, rng = ds.compile(BODY, (), "step", dtype=dtype), 3, np.random.default_rng(0)
    allowed = 1e-12 if dtype == "float64" else 1e-4
    for batch, own_gains, moves in product([(), (1,), (3,), (17,), (2, 9)], (False, True), (False, True)):
        q_nominal, v_nominal = BODY.random(rng, (T + 1, *batch)), rng.normal(size=(T + 1, *batch, 6))
        nominal, start = rng.normal(size=(T, *batch, 6)), (BODY.random(rng, batch), rng.normal(size=(*batch, 6)))
        K = rng.normal(size=(T, *(batch if own_gains else ()), 6, 12))
        jumps = 0.1 * rng.normal(size=(T + 1, *batch, 12)) * moves
        bounds = (
            np.append(0.5, -rng.uniform(1.0, 3.0, 5)),
            np.append(0.5, rng.uniform(1.0, 3.0, 5)),
        )  # the first is held
        cast = (x.astype(dtype) for x in (*start, nominal, K, q_nominal, v_nominal, jumps))
        q, v, nominal, K, q_nominal, v_nominal, jumps = cast
        given = {"feedback": K, "nominal": (q_nominal, v_nominal), "bounds": bounds, "time_axis": 0}
        given["defects"] = jumps if moves else None
        qs, vs, applied = ds.rollout(step, q, v, nominal, np.dtype(dtype).type(0.01), **given)
        for k in range(T + 1):
            q, v = (BODY.integrate(q.astype(float), jumps[k, ..., :6].astype(float)), v + jumps[k, ..., 6:])
            assert error(qs[k], q) < allowed and error(vs[k], v) < allowed, (batch, own_gains, moves, k)
            if k < T:
                away = np.concatenate([BODY.difference(q_nominal[k].astype(float), q), v - v_nominal[k]], axis=-1)
                wanted = nominal[k] + (K[k] @ away[..., None])[..., 0]
                assert error(applied[k], np.clip(wanted, *bounds)) < allowed
                q, v = step(qs[k], vs[k], applied[k], np.dtype(dtype).type(0.01))


@pytest.mark.parametrize("mode", ["jvp", "vjp"])
def test_derivatives_of_rollouts_in_every_batch(mode):
    """As those of each state alone, in blocks that overlap: the last adds nothing twice."""
    step, T, rng = ds.compile(BODY, (), "step"), 3, np.random.default_rng(0)
    q, v, tau = BODY.random(rng, 19), rng.normal(size=(19, 6)), rng.normal(size=(T, 19, 6))
    qs, vs = ds.rollout(step, q, v, tau, 0.01, time_axis=0)
    names = ("q_dot", "v_dot") if mode == "jvp" else ("q_next_bar", "v_next_bar")
    sizes = [(7,), (6,)] if mode == "jvp" else [(T, 7), (T, 6)]
    changes = {x: rng.normal(size=(19, *size)) for x, size in zip(names, sizes, strict=True)}
    if mode == "vjp":
        changes = {name: np.moveaxis(x, 0, 1) for name, x in changes.items()}
    kernel = step.derivative(mode)

    def made(some):
        of = {name: x[:, some] if mode == "vjp" else x[some] for name, x in changes.items()}
        return ds.rollout(kernel, qs[:, some], vs[:, some], tau[:, some], 0.01, time_axis=0, **of)

    for n in (1, 5, 8, 17, 19):  # no numbers of steps
        whole = made(slice(n))
        for k in {0, n // 2, n - 2, n - 1} - {-1}:
            for x, y in zip(whole, made(k), strict=True):
                of_state = x[k] if x.ndim == y.ndim + 1 and x.shape[0] == n else x[:, k]
                assert error(of_state, y) < 1e-12, (n, k)


@pytest.mark.slow
def test_rollouts_with_inputs_per_step():
    """Flags, targets and payloads that change from step to step, in one batch and broadcast to it."""
    tree, constraints, q, v, _ = case("loop")
    step = ds.compile(tree, constraints, "step", active=True, targets=True, gravity="input", payloads=["branch1_4"])
    rng, T = np.random.default_rng(3), 6
    others = {
        "payload0": np.array([0.3, 0, 0, 0, 0.1, 0, 0.1, 0, 0, 0.1]),
        "target0": rng.normal(size=(T, 3)),
        "target1": rng.normal(size=(17, 3)),
        "active": (rng.uniform(size=(T, 17, 2)) < 0.5).astype(float),
        "gravity": rng.normal(size=(T, 1, 3)),
    }
    per_step = ["active", "target0", "gravity"]
    tau = rng.normal(size=(T, tree.nv))
    qs, vs = ds.rollout(step, q, v, tau, 1e-3, per_step=per_step, **others)
    for k in range(T):
        now = {name: x[k] if name in per_step else x for name, x in others.items()}
        after = step(qs[k], vs[k], tau[k], 1e-3, **now)
        assert error(qs[k + 1], after[0]) < 1e-13 and error(vs[k + 1], after[1]) < 1e-11
    alone = {name: x[:, 0] if name in ("active", "gravity") else x for name, x in others.items()}
    alone["target1"] = others["target1"][0]
    one = ds.rollout(step, q[0], v[0], tau, 1e-3, per_step=per_step, **alone)
    assert error(one[0], qs[:, 0]) < 1e-13 and error(one[1], vs[:, 0]) < 1e-11
    for names, match in (
        ("active", "a list of names"),
        (["payload0"], r"shape \(6, ..., 10\)"),
        (["target1"], "shape"),
        (["dt"], "further arguments that are given: active, gravity"),
        (["activ"], "per_step"),
    ):
        with pytest.raises(ds.DelassusError, match=match):
            ds.rollout(step, q, v, tau, 1e-3, per_step=names, **others)


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
def test_a_step_of_nothing_and_of_very_little():
    m = some_mechanism(5, 6, "floating")
    q, v = m.tree.random(m.rng, 9), m.rng.normal(size=(9, m.tree.nv))
    fastest = np.abs(ds.forward_dynamics(m.tree, q, v, 0 * v, []).qdd).max() / np.abs(v).max()
    for dtype, allowed in (("float64", 1e-13), ("float32", 1e-5)):
        step = ds.compile(m.tree, [], "step", integrator="rk4", dtype=dtype)
        for dt in (0.0, 1e-30, 1e-12):
            after_q, after_v = step(q.astype(dtype), v.astype(dtype), np.zeros(m.tree.nv, dtype), dt)
            assert error(after_q, q) < allowed + 4 * dt * np.abs(v).max()
            assert error(after_v, v) < allowed + 4 * dt * fastest


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
def test_the_order_of_rk4():
    """Halving the step divides the error by sixteen, with every kind of joint."""
    m = some_mechanism(2, 5, "floating")
    q, v, still = m.tree.random(m.rng, 8), m.rng.normal(size=(8, m.tree.nv)), np.zeros((8, m.tree.nv))
    ends = [rolled(m.tree, q, v, still, 0.08 / n, n, integrator="rk4") for n in (16, 32, 64)]
    coarse, fine = (np.linalg.norm(m.tree.difference(a[0][-1], b[0][-1])) for a, b in pairwise(ends))
    assert 13 < coarse / fine < 19


def test_energy_of_a_pendulum_drifts_with_the_fourth_power_of_the_step():
    tree = ds.mechanisms.pendulum(2)
    q, v = np.array([1.0, 0.5]), np.zeros(2)

    def drift(n):
        qs, vs = rolled(tree, q, v, np.zeros(2), 1.0 / n, n, integrator="rk4")
        energy = ds.kinetic_energy(tree, qs, vs) + ds.potential_energy(tree, qs)
        return np.max(np.abs(energy - energy[0]))

    drifts = np.array([drift(n) for n in (200, 400, 800)])
    slopes = np.log2(drifts[:-1] / drifts[1:])
    assert np.all(slopes > 3.8) and drifts[-1] < 1e-7


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
def test_free_flight_keeps_momentum():
    tree = ds.mechanisms.star(2, 2)
    rng = np.random.default_rng(0)
    q, v = tree.random(rng, 4), rng.normal(size=(4, tree.nv))
    qs, vs = rolled(tree, q, v, np.zeros((4, tree.nv)), 2e-4, 500, integrator="rk4", gravity=(0, 0, 0))
    before, after = ds.momentum(tree, q, v), ds.momentum(tree, qs[-1], vs[-1])
    assert error(after, before) < 1e-12
    assert error(qs[-1], q) > 1e-2


@pytest.mark.slow
def test_stabilised_constraints_hold():
    """A point, and a loop that starts a little open, of a mechanism that moves for a second."""
    tree = ds.mechanisms.star(2, 5, root="fixed")
    elbow = ds.Frame("branch1_3", (0.1, 0.2, 0.1))
    constraints = [ds.Point("branch1_5", "branch2_5"), ds.Point(elbow)]
    q, steps = tree.random(3), 1000
    tips = ds.forward_kinematics(tree, q, ["branch1_5", "branch2_5"])
    apart = tips[1, :3, :3].T @ (tips[0, :3, 3] - tips[1, :3, 3])  # the loop closes here, almost
    constraints[0] = ds.Point("branch1_5", ds.Frame("branch2_5", apart + 1e-3))
    step = ds.compile(
        tree, constraints, "step", integrator="rk4", method="kkt", baumgarte=30.0, poses=True, lanes=1
    )  # fmt: skip
    place = ds.forward_kinematics(tree, q, elbow)[:3, 3]
    qs, vs = ds.rollout(step, q, np.zeros(tree.nv), np.zeros((steps, tree.nv)), 1e-3, pose1=place)
    found = ds.forward_kinematics(tree, qs, [elbow, "branch1_5", constraints[0].second])[..., :3, 3]
    assert np.max(np.abs(found[:, 0] - place)) < 1e-5 and np.max(np.abs(found[-1, 0] - place)) < 1e-7
    gap = np.linalg.norm(found[:, 1] - found[:, 2], axis=-1)
    assert gap[0] > 1e-4 and gap[-1] < 1e-6
    assert np.max(np.abs(vs)) > 1e-2


# -- statuses, time axes, cache lines ----------------------------------------------------------------------------------


def two_points():
    """An arm that stands on two points of one link, redundant at all states unless one of them is off."""
    tree = ds.mechanisms.chain(4)
    return tree, [ds.Point("link4"), ds.Point(ds.Frame("link4", (0.1, 0, 0)))]


def two_rows():
    """The same along the line through both points, which kernels solve, all."""
    along = np.eye(6)[:1]
    return ds.mechanisms.chain(3), [ds.Rows("link3", along), ds.Rows(ds.Frame("link3", (0.1, 0, 0)), along)]


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("integrator", "stand", "kind"),
    [("semi-implicit", two_points, "are CONFLICTING"), ("rk4", two_rows, ".* solved again")],
    ids=["semi-implicit", "rk4"],
)
def test_rollouts_where_rows_are_dependent(integrator, stand, kind):
    """From the first such step on, each is that of a call, which is that of the direct function."""
    tree, rows = stand()
    step = ds.compile(tree, rows, "step", active=True, integrator=integrator)
    rng, dt = np.random.default_rng(0), 1e-3
    q, v, tau = tree.random(rng, 5), rng.normal(size=(5, tree.nv)), rng.normal(size=(4, tree.nv))
    flags = np.ones((4, 5, 2))
    flags[:, 0, 1] = flags[:2, 1, 0] = 0.0  # never dependent, and from the third step on
    qs, vs, status = ds.rollout(step, q, v, tau, dt, active=flags, per_step=["active"], return_status=True)
    assert status.shape == (4, 5)
    solved = status == ds.DynamicsStatus.SOLVED
    assert solved[:, 0].all() and solved[:2, 1].all() and not solved[2:, 1].any() and not solved[:, 2:].any()
    for k in range(4):
        after_q, after_v, same = step(qs[k], vs[k], tau[k], dt, active=flags[k], return_status=True)
        assert error(qs[k + 1], after_q) < DOUBLE and error(vs[k + 1], after_v) < DOUBLE
        assert np.array_equal(same, status[k])
    if integrator == "semi-implicit":
        expected = ds.forward_dynamics(tree, qs[2, 2], vs[2, 2], tau[2], rows)
        assert error(vs[3, 2], vs[2, 2] + dt * expected.qdd) < DOUBLE and status[2, 2] == expected.status
        K, about = rng.normal(size=(4, tree.nv, 2 * tree.nv)), (qs[:, :1], vs[:, :1])
        how = {"per_step": ["active"], "feedback": K, "nominal": about, "return_status": True}
        near, fast, applied, _ = ds.rollout(step, q, v, tau, dt, active=flags, **how)
        for k in range(4):
            away = np.concatenate([tree.difference(about[0][k], near[k]), fast[k] - about[1][k]], axis=-1)
            assert error(applied[k], tau[k] + away @ K[k].T) < 1e-12
            after = step(near[k], fast[k], applied[k], dt, active=flags[k], return_status=True)
            assert error(near[k + 1], after[0]) < DOUBLE and error(fast[k + 1], after[1]) < DOUBLE
    with pytest.warns(ds.DelassusWarning, match=rf"7 of 10 state\(s\) {kind}"):
        ds.rollout(step, q, v, tau[:2], dt, active=flags[1:3], per_step=["active"])


@pytest.mark.usefixtures("one_lane")
@pytest.mark.slow
def test_rollouts_whose_numbers_overflow():
    tree, rows = two_rows()
    step = ds.compile(tree, rows[0], "step")
    v = np.array([1.0, 1e200])[:, None] * np.ones(3)
    qs, _, status = ds.rollout(step, tree.random(0), v, np.zeros((3, 3)), 1e-3, return_status=True)
    assert np.isfinite(qs[:, 0]).all() and np.isnan(qs[1:, 1]).all()
    assert np.all(status[:, 1] == ds.DynamicsStatus.FAILED) and np.all(status[:, 0] == ds.DynamicsStatus.SOLVED)
    # steps that are not solved at once, on dependent rows: nothing is solved again where joints turn by 2,000 rad
    step = ds.compile(tree, [*rows, *rows], "step", method="pv-early")
    v = np.array([1.0, 2e6])[:, None] * np.ones(3)
    qs, vs, status = ds.rollout(step, tree.random(0), v, np.zeros((3, 3)), 1e-3, return_status=True)
    slow, _, same = ds.rollout(step, tree.random(0), v[0], np.zeros((3, 3)), 1e-3, return_status=True)
    assert np.isnan(qs[1:, 1]).all() and np.isnan(vs[1:, 1]).all() and np.all(status[:, 1] == ds.DynamicsStatus.FAILED)
    assert np.array_equal(qs[:, 0], slow) and np.array_equal(status[:, 0], same) and np.isfinite(slow).all()


@pytest.mark.usefixtures("one_lane")
def test_time_and_batch_are_not_confused():
    tree, _, q, v, tau = case("arm")
    step = ds.compile(tree, [], "step")
    batch_first = np.random.default_rng(0).normal(size=(17, 5, 6))
    qs, vs = ds.rollout(step, q, v, np.moveaxis(batch_first, 1, 0), 1e-3)
    for one, other in zip((qs, vs), ds.rollout(step, q, v, batch_first, 1e-3, time_axis=1), strict=True):
        assert np.array_equal(one, other)
    with pytest.raises(ds.DelassusError, match=r"controls: .*axes .*\(17,\), got \(5,\).*time_axis=1"):
        ds.rollout(step, q, v, batch_first, 1e-3)
    square = np.broadcast_to(tau, (17, 17, 6))
    with pytest.raises(ds.DelassusError, match=r"controls: .*shape \(17, 17, 6\), which may as well.*time_axis=0"):
        ds.rollout(step, q, v, square, 1e-3)
    assert np.array_equal(
        ds.rollout(step, q, v, square, 1e-3, time_axis=0)[0],
        ds.rollout(step, q, v, np.swapaxes(square, 0, 1), 1e-3, time_axis=1)[0],
    )
    for q0, v0 in ((q[0], v[0]), (q[:1], v[0])):  # one start does not say which axis is the batch
        with pytest.raises(ds.DelassusError, match=r"controls: .*shape \(17, 5, 6\), which may as well.*time_axis=0"):
            ds.rollout(step, q0, v0, batch_first, 1e-3)
        assert ds.rollout(step, q0, v0, batch_first, 1e-3, time_axis=1)[0].shape == (6, 17, 6)
        assert ds.rollout(step, q0, v0, batch_first, 1e-3, time_axis=0)[0].shape == (18, 5, 6)
    switched = ds.compile(tree, ds.Point("link6"), "step", active=True)
    given = {"active": np.ones((17, 5, 1)), "per_step": ["active"]}
    with pytest.raises(ds.DelassusError, match=r"active: expected shape \(5, \.\.\., 1\).*time_axis=1"):
        ds.rollout(switched, q[0], v[0], tau[:5], 1e-3, **given)
    given["active"] = np.ones((5, 17, 1))  # the number of steps says which axis is time
    assert ds.rollout(switched, q[0], v[0], np.zeros((5, 6)), 1e-3, **given)[0].shape == (6, 17, 6)
    with pytest.raises(ds.DelassusError, match=r"v0: .*axes"):
        ds.rollout(step, q, v[:3], tau[:5], 1e-3)
    with pytest.raises(ds.DelassusError, match="q0: expected shape"):
        ds.rollout(step, q[:, :3], v, tau[:5], 1e-3)
    with pytest.raises(ds.DelassusError, match="time_axis: expected 0 or 1"):
        ds.rollout(step, q, v, tau[:5], 1e-3, time_axis=2)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_results_start_at_cache_lines(dtype):
    tree, constraints, *states = case("arm")
    q, v, tau = (x.astype(dtype) for x in states)
    forward, step = (ds.compile(tree, constraints, what, dtype=dtype, error_bound=1.0) for what in ("dynamics", "step"))
    made = [*forward(q, v, tau), *forward.empty_results(17), *forward.empty_results((2, 3)), *forward.empty_results()]
    made.extend(ds.rollout(step, q, v, tau[:5], np.array(1e-3, dtype)))
    for x in made:
        assert x.ctypes.data % 64 == 0 and x.flags.c_contiguous and x.flags.writeable and x.dtype == dtype
    out = forward.empty_results(17)
    assert forward(q, v, tau, out=out) is out and np.array_equal(out[0], made[0])
    assert ds.compile(tree, [], "mass_matrix").empty_results((2, 3)).shape == (2, 3, 6, 6)
