"""Rows on the velocities of joints: against the textbook with M and J, reduced models, and finite differences."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import delassus as ds
from delassus import contact
from delassus.errors import ConstraintError, UnknownNameError
from internals import check_constraints, wanted_accelerations
from random_trees import some_constraints, some_joint_rows, some_mechanism
from test_dynamics_derivatives import check
from test_formulations import check_physics, solved, some_contacts, some_state
from test_random_mechanisms import Textbook
from tools import AGREEMENT, by_method, error, make_motion, traced, tree_of_urdf, urdf_joint

pytestmark = pytest.mark.usefixtures("one_lane")

HARD = ("kkt", "ltl", "pv", "pv-early", "proximal")
SOFT = ("ltl-soft", "pv-soft", "pv-early", "proximal")

WELL_CONDITIONED = 1e7
"""Of ``G`` at unit diagonal, where solutions are compared."""

SOLUTION = 1e-7
"""Accelerations and forces of two methods: round-off (1e-16) by the conditions of ``M`` and ``G``."""


def some_case(seed, frames=True):
    """A random mechanism with rows on joints, perhaps frames; state, ``J``, ``γ`` and all constraints."""
    m = some_mechanism(seed, 4 + seed % 9, ("fixed", "floating")[seed % 2])
    tree, rng = m.tree, m.rng
    q, v, tau = tree.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    others, given = some_constraints(m, 1, 2) if frames else ([], [])
    couplings = [some_joint_rows(m) for _ in range(2)]
    J = np.vstack([Textbook(m, q).jacobian(others, given), *(C for _, C in couplings)]) if others else couplings[0][1]
    made = [*others, *(c for c, _ in couplings)] if others else [couplings[0][0]]
    gamma = np.zeros(len(J))
    if others:
        motion, _ = make_motion(tree, q, v, tau, others, rows=given)
        (wanted,) = motion.made(lambda _, problem: [wanted_accelerations(problem)])
        wanted = wanted[:, 0]
        gamma[: len(wanted)] = wanted
    return tree, made, {"rows": given}, (q, v, tau), J, gamma


def is_regular(G):
    d = np.sqrt(np.maximum(np.diagonal(G), 0.0))
    return d.min() > 1e-6 and np.linalg.cond(G / np.outer(d, d)) < WELL_CONDITIONED


def saddle_point(tree, q, v, tau, J, gamma, R=0.0):
    """Accelerations and forces by the textbook."""
    M, c, m = ds.mass_matrix(tree, q), ds.bias_force(tree, q, v), len(J)
    A = np.block([[M, -J.T], [J, R * np.eye(m)]])
    x = np.linalg.solve(A, np.concatenate([tau - c, gamma]))
    return x[: tree.nv], x[tree.nv :]


@pytest.mark.turns(4)
@pytest.mark.slow
@pytest.mark.parametrize("seed", (9, 12, 13, 19))
def test_every_dynamics_method_against_the_textbook(seed):
    tree, made, given, (q, v, tau), J, gamma = some_case(seed, frames=seed % 3 > 0)
    R = 0.1
    qdd, f = saddle_point(tree, q, v, tau, J, gamma, R)
    for method in SOFT:
        found = ds.forward_dynamics(tree, q, v, tau, made, method=method, compliance=R, **given)
        assert error(found.qdd, qdd) < SOLUTION and error(np.concatenate(found.forces), f) < SOLUTION, method
        assert error(found.compliance_residual() + 1.0, np.ones(len(J))) < SOLUTION
    assert is_regular(J @ np.linalg.solve(ds.mass_matrix(tree, q), J.T))
    qdd, f = saddle_point(tree, q, v, tau, J, gamma)
    motion, _ = make_motion(tree, q, v, tau, made, **given)
    for method in HARD:
        raw = by_method(motion, method)
        if method != "proximal":  # a fixed number of iterations
            assert error(np.asarray(raw.qdd)[:, 0], qdd) < SOLUTION, method
            assert error(np.asarray(raw.forces)[:, 0], f) < SOLUTION, method
        found = ds.forward_dynamics(tree, q, v, tau, made, method=method, **given)
        assert found.status == ds.DynamicsStatus.SOLVED and error(found.qdd, qdd) < SOLUTION, method
        assert error(found.constraint_residual() + 1.0, np.ones(len(J))) < SOLUTION
        assert error(found.dynamics_residual() + 1.0, np.ones(tree.nv)) < SOLUTION


# -- mimic joints --------------------------------------------------------------------------------------------------


def gripper():
    """An arm whose last three joints follow the fourth: ``q_k = ratio q_4 + offset``."""
    tree = ds.mechanisms.chain(7)
    names, ratios = tree.joint_names, {4: 0.7, 5: -1.3, 6: 0.4}
    rows = [{names[k]: 1.0, names[3]: -ratio} for k, ratio in ratios.items()]
    N = np.eye(7)[:, :4]
    for k, ratio in ratios.items():
        N[k, 3] = ratio
    return tree, rows, N


@pytest.mark.parametrize("method", HARD)
def test_mimic_joints_against_the_reduced_model(method):
    """``Nᵀ M N ÿ = Nᵀ (τ − c)``, solved by hand; one constraint for all, and one for each, are the same."""
    tree, rows, N = gripper()
    rng = np.random.default_rng(0)
    q, v, tau = tree.random(rng), rng.normal(size=7), rng.normal(size=7)
    M, c = ds.mass_matrix(tree, q), ds.bias_force(tree, q, v)
    qdd = N @ np.linalg.solve(N.T @ M @ N, N.T @ (tau - c))
    for made in ([ds.JointRows(rows)], [ds.JointRows(row) for row in rows]):
        found = ds.forward_dynamics(tree, q, v, tau, made, method=method)
        assert error(found.qdd, qdd) < AGREEMENT
        assert error(N.T @ ds.jacobian(tree, made, q).T + 1.0, np.ones((4, 3))) < AGREEMENT  # forces do no work


def test_stabilised_rollouts_go_to_rest():
    """A mimic joint that starts off its position comes to it, and stays there."""
    tree, rows, N = gripper()
    offset = np.array([0.1, -0.2, 0.3])
    step = ds.compile(tree, ds.JointRows(rows, rest=offset), "step", baumgarte=40.0)
    q = np.zeros(7)
    path, _ = ds.rollout(step, q, np.zeros(7), np.zeros((400, 7)), 1e-3)
    gaps = path[..., 4:] - path[..., 3:4] * N[4:, 3] - offset
    assert np.abs(gaps[0]).max() > 0.1 and np.abs(gaps[-1]).max() < 1e-4


# -- redundant, switched, compiled ---------------------------------------------------------------------------------


def walker():
    """A robot with four limbs, on one of them: couplings of neighbours, across limbs, and of the base; and a loop."""
    robot = ds.mechanisms.star(4, 3)
    made = [
        ds.Point("branch1_3"),
        ds.JointRows({"branch2_2_joint": 1.0, "branch2_3_joint": -2.0}),
        ds.JointRows(
            [{"branch2_2_joint": 1.0, "branch3_1_joint": 0.5}, {"branch4_1_joint": 1.0, "branch4_3_joint": 1.0}]
        ),
        ds.JointRows({"root_joint": (0, 0, 1, 0, 0.2, 0), "branch1_1_joint": 1.0}),
        ds.Point("branch3_3", "branch4_3"),
    ]
    rng = np.random.default_rng(2)
    return robot, made, (robot.random(rng, 3), rng.normal(size=(3, robot.nv)), rng.normal(size=(3, robot.nv)))


MASS = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
ROUND = "<axis xyz='0 0 1'/><limit lower='-30' upper='30' effort='9' velocity='9'/>"


def mimic(first, second, ratio, offset=0.3):
    """Two joints of these types about one axis, the second one a mimic joint."""
    follows = f'<mimic joint="x" multiplier="{ratio}" offset="{offset}"/>'
    links = "".join(f'<link name="{name}">{MASS}</link>' for name in "abc")
    joints = urdf_joint("x", "a", "b", first, ROUND) + urdf_joint("y", "b", "c", second, ROUND + follows)
    return tree_of_urdf(f'<robot name="two">{links}{joints}</robot>', "fixed", continuous="cos-sin")


def gap_of(tree, q, ratio, offset=0.3):
    """``y − ratio x − offset`` (n,), the least at any number of turns of joints that are a cosine and a sine."""
    parts = [q[..., tree.q_index(name)] for name in "xy"]
    x, y = (part[..., 0] if part.shape[-1] == 1 else np.arctan2(part[..., 1], part[..., 0]) for part in parts)
    turns = [2 * np.pi * np.arange(-20, 21) if part.shape[-1] == 2 else np.zeros(1) for part in parts]
    every = (y - ratio * x - offset)[..., None] + (turns[1][:, None] - ratio * turns[0]).ravel()
    return np.take_along_axis(every, np.argmin(np.abs(every), axis=-1)[..., None], axis=-1)[..., 0]


ROUNDED = 2e-4
"""What a third to six digits is off by after twenty turns (rad), four times."""


@pytest.mark.parametrize("kinds", [["continuous"] * 2, ["revolute", "continuous"], ["continuous", "revolute"]])
@pytest.mark.parametrize("ratio", [1.0, -1.0, 2.0, -0.5, 0.333333])
def test_mimic_joints_that_turn_without_end(kinds, ratio):
    """Closed where the angles say so, whatever the turns; stabilised, with derivatives."""
    tree, rng = mimic(*kinds, ratio), np.random.default_rng(0)
    q, row = tree.random(rng, 30), np.zeros(2)
    row[tree.v_index("x").start], row[tree.v_index("y").start] = -ratio, 1.0
    gap = gap_of(tree, q, ratio)
    assert np.abs(gap).max() > 0.1
    held = ds.close_loops(tree, None, q, hold=tree.joint_names)
    of_unit_rows = np.abs(gap) / np.hypot(1.0, ratio)
    length = held.residual[np.argmax(of_unit_rows)] / of_unit_rows.max()  # of the robot, at which turns are lengths
    assert 1.0 < length < 2.0 and np.abs(held.residual - length * of_unit_rows).max() < 2.0 * length * ROUNDED
    assert {status.name for status in held.status} == {"OPEN"}
    random = ds.random_configurations(tree, None, rng, 30)
    for closed in (ds.close_loops(tree, None, q).q, random):
        assert np.abs(gap_of(tree, closed, ratio)).max() < ROUNDED
    assert np.abs(np.sin(0.5 * missed(tree, random, ratio))).max() < ROUNDED  # as where joints have one angle
    v, tau = rng.normal(size=(2, 30, 2))
    found = ds.forward_dynamics(tree, q, v, tau, tree.constraints, baumgarte=ds.Baumgarte(3.0))
    assert np.abs(found.qdd @ row + 6.0 * v @ row + 9.0 * gap).max() < 9.0 * ROUNDED
    near = int(np.argmin(np.abs(gap)))
    assert check(tree, q[near], v[near], tau[near], tree.constraints, baumgarte=ds.Baumgarte(3.0))


def test_errors_are_of_the_nearest_turns_up_to_twelve_of_them():
    """Of joints of any ratio of whole numbers up to twelve."""
    rng = np.random.default_rng(0)
    for k in range(1, 13):
        n = rng.choice([n for n in range(1, k + 1) if np.gcd(k, n) == 1])
        ratio = rng.choice([-1.0, 1.0]) * rng.choice([n / k, k / n])
        tree = mimic("continuous", "continuous", ratio)
        q = tree.random(rng, 8)
        gap = np.abs(gap_of(tree, q, ratio)) / np.hypot(1.0, ratio)
        residual = ds.close_loops(tree, None, q, hold=tree.joint_names).residual
        length = residual.max() / gap.max()
        assert 0.5 < length < 2.0 and np.abs(residual - length * gap).max() < 2.0 * length * ROUNDED, ratio


def missed(tree, q, ratio, offset=0.3):
    """The same (n,) of angles within half a turn of zero."""
    x, y = tree.difference(tree.neutral(), q).T[[tree.v_index(name).start for name in "xy"]]
    return y - ratio * x - offset


def test_turns_that_never_fit():
    """Angles within half a turn of zero count where no number of turns brings both joints back."""
    ratio, rng = np.sqrt(2), np.random.default_rng(0)
    tree = mimic("continuous", "continuous", ratio)
    for q in (ds.close_loops(tree, None, tree.random(rng, 30)).q, ds.random_configurations(tree, None, rng, 30)):
        assert np.abs(np.sin(0.5 * missed(tree, q, ratio))).max() < AGREEMENT


@pytest.mark.slow
def test_redundant_rows_are_found():
    robot, made, (q, v, tau) = walker()
    again = ds.JointRows({"branch2_2_joint": -2.0, "branch2_3_joint": 4.0})
    twice = [*made, again]
    found = ds.forward_dynamics(robot, q, v, tau, twice)
    expected = ds.forward_dynamics(robot, q, v, tau, made)
    assert np.all(found.status == ds.DynamicsStatus.REDUNDANT) and np.all(found.rank == 10)
    assert np.all(np.flatnonzero(found.redundant_rows.all(axis=0)) == [found.redundant_rows.shape[-1] - 1])
    assert error(found.qdd, expected.qdd) < SOLUTION
    assert "JointRows('branch2_2_joint', 'branch2_3_joint', 1 rows)" in found.report()
    derivatives = ds.dynamics_derivatives(robot, q, v, tau, twice)
    assert error(derivatives.dqdd_dq, ds.dynamics_derivatives(robot, q, v, tau, made).dqdd_dq) < SOLUTION


@pytest.mark.slow
def test_the_planner_keeps_the_root_where_rows_need_it():
    """Rows on joints of one degree of freedom leave the choice of the root link free; others do not."""
    robot, made, (q, *_) = walker()
    for chosen in (made[:3], made):
        J = ds.jacobian(robot, chosen, q)
        expected = J @ np.linalg.solve(ds.mass_matrix(robot, q), J.mT)
        assert error(ds.delassus(robot, chosen, q, method="auto"), expected) < AGREEMENT


# -- derivatives ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_derivatives(seed):
    """Finite differences, stabilised, targets that are not zero; also of rows on a floating base."""
    m = some_mechanism(100 + seed, 6 + seed, ("fixed", "floating")[seed % 2])
    tree, rng = m.tree, m.rng
    q, v, tau = tree.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    row = {tree.joint_names[i]: rng.normal(size=tree.joints[i].nv) for i in (0, tree.n_links - 1)}
    made = [ds.JointRows(row, rest=0.3), ds.Point(ds.Frame(tree.link_names[-1], (0.1, 0.2, 0.3)))]
    made = made if tree.nv > 4 else made[:1]
    options = {"baumgarte": [ds.Baumgarte(2.0, 0.8)] * len(made), "targets": [rng.normal(size=c.size) for c in made]}
    assert check(tree, q, v, tau, made, **options)


# -- operations ----------------------------------------------------------------------------------------------------


def operations(tree, constraints, what, method):
    return traced(tree, constraints, what, method=method).graph.count().total


@pytest.mark.slow
def test_a_coupling_of_neighbours_is_cheap():
    """Couplings of the arms of a standing robot: as a joint of its own, not as a loop."""
    robot = ds.mechanisms.humanoid()
    feet = [ds.Weld("left_foot"), ds.Weld("right_foot")]
    before = operations(robot, feet, "dynamics", "pv-early")
    for a, b in (("left_arm3_joint", "left_arm4_joint"), ("left_arm6_joint", "left_arm7_joint")):
        more = operations(robot, [*feet, ds.JointRows({a: 1.0, b: -0.7})], "dynamics", "pv-early") - before
        assert more <= COUPLING, (a, b, more)


COUPLING = 65
"""Operations that a coupling of two neighbouring joints may take, one of which looks whether its force is finite."""

COUPLING_ON_HELD_LIMB = 260
"""The same where all joints of the limb move as other rows say: a row more goes on to the base."""


def test_a_coupling_on_a_held_limb():
    robot = ds.mechanisms.star(4, 3)
    feet = [ds.Point(f"branch{k}_3") for k in (1, 2, 3, 4)]
    before = operations(robot, feet, "dynamics", "pv-early")
    for a, b in (("branch1_1_joint", "branch1_2_joint"), ("branch1_2_joint", "branch1_3_joint")):
        more = operations(robot, [*feet, ds.JointRows({a: 1.0, b: -0.7})], "dynamics", "pv-early") - before
        assert more <= COUPLING_ON_HELD_LIMB, (a, b, more)


# -- contact -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_loops_of_scenes():
    """A scene's couplings hold after a step with contacts; all formulations give the same velocities."""
    tree, rows, _ = gripper()
    rng = np.random.default_rng(5)
    scene = contact.Scene({"a": tree, "b": ds.mechanisms.star(2, 2)}, loops=[
        ds.JointRows([{f"a/{name}": x for name, x in row.items()} for row in rows]),
        ds.JointRows({f"a/{tree.joint_names[0]}": 1.0, "b/branch1_2_joint": 2.0, "b/root_joint": (1, 0, 0, 0, 0, 1)}),
    ])  # fmt: skip
    state = some_state(rng, scene.tree)
    found = solved(scene, contact.ContactDynamics(scene), state, some_contacts(rng, scene.tree.n_links, 3))
    assert len(found) == 5
    for solution in found.values():
        assert error(solution.velocity, found["os"].velocity) < SOLUTION
        assert np.abs(ds.jacobian(scene.tree, scene.loops, state.q) @ solution.velocity).max() < SOLUTION
        check_physics(solution)


# -- what is refused -----------------------------------------------------------------------------------------------


def test_bad_input():
    tree = ds.mechanisms.humanoid()
    for rows, rest in (
        ({}, 0.0), ([], 0.0), ([{}], 0.0), ({"a": 0.0}, 0.0), ({"a": np.nan}, 0.0), ({"a": [[1.0]]}, 0.0),
        ({"a": "b"}, 0.0), ({1: 1.0}, 0.0), ("a", 0.0), (3, 0.0), ({"a": []}, 0.0), ({"a": 1.0}, [1.0, 2.0]),
        ({"a": 1.0}, np.inf), ({"a": 1.0}, "x"),
    ):  # fmt: skip
        with pytest.raises(ConstraintError):
            ds.JointRows(rows, rest)
    with pytest.raises(UnknownNameError, match="neck1_joint"):
        check_constraints(tree, ds.JointRows({"neck1_join": 1.0}))
    with pytest.raises(ConstraintError, match="6, one for each degree of freedom"):
        check_constraints(tree, ds.JointRows({"root_joint": 1.0}))
    with pytest.raises(ConstraintError, match="no place in the world"):
        q = tree.neutral()
        ds.forward_dynamics(
            tree, q, np.zeros(tree.nv), np.zeros(tree.nv), ds.JointRows({"neck1_joint": 1.0}), baumgarte=1.0,
            poses=[np.zeros(7)],
        )  # fmt: skip


def test_values():
    """Pickles, prints, and tells by its fingerprint what differs."""
    c = ds.JointRows([{"a": 1.0, "b": [1.0, 2.0]}, {"c": 2}], rest=[0.0, 1.0])
    again = pickle.loads(pickle.dumps(c))
    assert again.fingerprint == c.fingerprint and repr(again) == "JointRows('a', 'b', 'c', 2 rows)"
    others = [ds.JointRows({"a": 1.0}), ds.JointRows({"a": 2.0}), ds.JointRows({"a": 1.0}, rest=1.0), c]
    assert len({x.fingerprint for x in others}) == 4
    with pytest.raises(ValueError):
        c.rest[0] = 3.0
