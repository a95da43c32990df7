"""Inverse dynamics under constraints: forces of motors and constraints, against least squares of the whole system."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from random_trees import some_constraints, some_mechanism
from tools import error

Status = ds.InverseDynamicsStatus

DEPENDENT = 1e-9
"""Singular values below this part of the largest count as zero; the library has 6e-6, at random states none is near."""

ACCURATE = 1e-7
"""Against least squares: rounding, times the square of the condition of random rows for the least of many solutions."""


def least_squares(tree, q, v, qdd, constraints, driven, weights, rows=()):
    """Joint forces, constraint forces and what is missing, of one state."""
    b, J = ds.inverse_dynamics(tree, q, v, qdd), ds.jacobian(tree, constraints, q, rows=rows)
    scale = 1.0 / np.sqrt(np.concatenate([weights[driven], weights[tree.nv :]]))
    B = np.hstack([np.eye(tree.nv)[:, driven], J.T])
    x = scale * np.linalg.lstsq(B * scale, b, rcond=DEPENDENT)[0]
    tau = np.zeros(tree.nv)
    tau[driven] = x[: len(driven)]
    return tau, x[len(driven) :], b - B @ x


@pytest.mark.turns(3)
@pytest.mark.parametrize("seed", range(16))
def test_random_mechanisms(seed):
    """Over- and under-actuated, rows that depend on one another or move nothing, any weights."""
    m = some_mechanism(seed, 3 + seed % 6, ("fixed", "floating")[seed % 2])
    tree, (constraints, rows) = m.tree, some_constraints(m)
    if not tree.nv:
        return
    names = [name for name in tree.joint_names if m.rng.random() < 0.6]
    driven = np.concatenate([np.zeros(0, dtype=int), *(np.r_[tree.v_index(name)] for name in names)])
    states = tree.random(m.rng, 3), *m.rng.normal(size=(2, 3, tree.nv))
    size = tree.nv + sum(c.size for c in constraints)
    for weights in (None, 10.0 ** m.rng.uniform(-1, 1, (3, size))):
        given = {"motors": names, "rows": rows, "weights": weights}
        found = ds.inverse_dynamics(tree, *states, constraints, **given)
        for k in range(3):
            w = np.ones(size) if weights is None else weights[k]
            state = [x[k] for x in states]
            tau, f, missing = least_squares(tree, *state, constraints, np.sort(driven), w, rows)
            every = np.concatenate([tau, f, missing])
            ours = np.concatenate([found.tau[k], *(x[k] for x in found.forces), found.force_residual[k]])
            assert error(ours, every) < ACCURATE
            others = np.delete(ds.jacobian(tree, constraints, state[0], rows=rows), driven, axis=1)
            assert found.rank[k] == np.linalg.matrix_rank(others, tol=DEPENDENT * np.abs(others).max(initial=1.0))
            is_missing = np.abs(missing).max() > 1e-7 * np.abs(every).max()
            assert (found.status[k] in (Status.UNREACHED, Status.BROKEN)) >= is_missing

    # weights choose among forces that miss least, however far apart they are
    far = 10.0 ** m.rng.uniform(-7, 7, (3, size))
    one, spread = (ds.inverse_dynamics(tree, *states, constraints, **{**given, "weights": w}) for w in (None, far))
    size_of = np.abs(one.tau).max() + np.abs(one.force_residual).max()
    assert np.abs(spread.force_residual - one.force_residual).max() < ACCURATE * size_of
    assert np.array_equal(spread.rank, one.rank)
    costs = [np.sum(far * np.hstack([x.tau, *x.forces]) ** 2, axis=-1) for x in (spread, one)]
    assert np.all(costs[0] <= costs[1] * (1 + ACCURATE))


@pytest.fixture(scope="module")
def robot():
    """A floating robot with three legs of three joints."""
    return ds.mechanisms.star(3, 3)


def test_a_rod_in_line_with_what_it_holds():
    """It passes through the axes of both joints but for round-off: it has no force, not one over round-off."""
    rng = np.random.default_rng(0)
    R, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    R, at = R * np.linalg.det(R), rng.normal(size=3)
    tree, arm = ds.mechanisms.pendulum(1), ds.mechanisms.pendulum(1)
    tree = tree.attach("rod1", arm, at, R, prefix="a_").attach("rod1", arm, at + 0.6 * R[:, 0], R, prefix="b_")
    rod = ds.Distance(*(ds.Frame(name, (0, 0, -0.4)) for name in ("a_rod1", "b_rod1")))
    q = tree.configuration({"rod1_joint": 0.3, "a_rod1_joint": np.pi / 2, "b_rod1_joint": np.pi / 2})
    assert 0.0 < np.abs(ds.jacobian(tree, rod, q)).max() < 1e-15
    found = ds.inverse_dynamics(tree, q, np.zeros(3), np.zeros(3), rod, motors=["rod1_joint"])
    assert found.status == Status.UNREACHED and found.rank == 0 and not found.forces[0].any()
    assert np.allclose(found.tau + found.force_residual, ds.inverse_dynamics(tree, q, np.zeros(3), np.zeros(3)))


TIP = (0.1, 0.2, 0.3)
FEET = [ds.Point(ds.Frame(f"branch{k}_3", TIP), axes="world") for k in (1, 2, 3)]
LOOP = ds.Point(ds.Frame("branch1_3", TIP), ds.Frame("branch2_3", TIP))


@pytest.mark.parametrize("n_feet, rank, status", [(1, 3, "UNREACHED"), (2, 5, "UNREACHED"), (3, 6, "LEAST")])
def test_feet(robot, n_feet, rank, status):
    """Two points leave a turn about the line through both; the motion of all forces of the feet goes there and back."""
    rng, feet = np.random.default_rng(n_feet), FEET[:n_feet]
    q, v, tau = robot.random(rng, 4), *rng.normal(size=(2, 4, robot.nv))
    moved = ds.forward_dynamics(robot, q, v, tau, feet)
    found = ds.inverse_dynamics(robot, q, v, moved.qdd, feet)
    assert {s.name for s in found.status} == {status} and np.all(found.rank == rank)
    assert np.all(found.tau[:, :6] == 0) and np.all(found.force_residual[:, 6:] == 0)
    assert np.abs(found.row_residual).max() < 1e-10
    again = ds.forward_dynamics(robot, q, v, found.tau + found.force_residual, feet)
    assert error(again.qdd, moved.qdd) < 1e-9
    assert error(np.hstack(again.forces), np.hstack(found.forces)) < 1e-9
    assert Status.BROKEN in ds.inverse_dynamics(robot, q, v, moved.qdd + 1e-3, feet).status

    # legs without motors, that of the base apart: three feet hold them all, in one way
    held = ds.inverse_dynamics(robot, q, v, moved.qdd, feet, motors=["root_joint"])
    assert {s.name for s in held.status} == {"UNREACHED" if n_feet < 3 else "UNIQUE"}
    assert np.all(held.tau[:, 6:] == 0) and np.all(held.rank == 3 * n_feet)


def test_loops():
    """Three motors of six joints: one way; a motor at each joint: many, and the least joint forces."""
    tree, loop = ds.mechanisms.star(2, 3, root="fixed"), LOOP
    rng = np.random.default_rng(0)
    q, v, tau = tree.random(rng, 5), *rng.normal(size=(2, 5, 6))
    qdd = ds.forward_dynamics(tree, q, v, tau, loop).qdd
    motors = ["branch2_1_joint", "branch1_1_joint", "branch1_2_joint"]
    found = ds.inverse_dynamics(tree, q, v, qdd, loop, motors=motors)
    assert set(found.status) == {Status.UNIQUE} and np.all(found.tau[:, [2, 4, 5]] == 0)
    assert error(ds.forward_dynamics(tree, q, v, found.tau, loop).qdd, qdd) < 1e-9
    every = ds.inverse_dynamics(tree, q, v, qdd, loop)
    assert set(every.status) == {Status.LEAST} and np.all(every.rank == 0)
    cheap = ds.inverse_dynamics(tree, q, v, qdd, loop, weights=np.repeat([1.0, 1e-8], [6, 3]))
    assert np.all(np.linalg.norm(cheap.tau, axis=-1) <= np.linalg.norm(tau, axis=-1) * (1 + 1e-9))
    few = ds.inverse_dynamics(tree, q, v, qdd, loop, motors=motors[:2])
    assert set(few.status) == {Status.UNREACHED}
    # the constraints of a robot's file act if they are asked for, and only then
    closed = replace(tree, constraints=(loop,))
    assert np.array_equal(ds.inverse_dynamics(closed, q, v, qdd), ds.inverse_dynamics(tree, q, v, qdd))
    assert np.array_equal(ds.inverse_dynamics(closed, q, v, qdd, None, motors=motors).tau, found.tau)


def test_joints_that_nearly_depend_on_one_another():
    """Two hinges whose axes are next to each other, and a third one; a rod that nothing drives, held at its end."""
    tree, rod = ds.mechanisms.pendulum(1, length=0.5), ds.mechanisms.pendulum(1, length=0.4)
    tree = tree.attach("rod1", rod, (0, 0, -1e-6), prefix="near_").attach("near_rod1", rod, (0, 0, -0.4), prefix="end_")
    held, rng = ds.Point(ds.Frame("end_rod1", (0, 0, -0.4))), np.random.default_rng(0)
    q, v, tau = tree.random(rng, 20), *rng.normal(size=(2, 20, 3)) * [[[1.0]], [[0.0]]]
    moved = ds.forward_dynamics(tree, q, v, tau, held)
    found = ds.inverse_dynamics(tree, q, v, moved.qdd, held, motors=[])
    assert np.all(found.rank == 2) and np.all(found.tau == 0)
    assert np.abs(found.force_residual).max() < 1e-9 and error(found.forces[0], moved.forces[0]) < 1e-7


def test_feet_that_are_off_push_nothing(robot):
    rng = np.random.default_rng(5)
    q, v, qdd = robot.random(rng, 3), *rng.normal(size=(2, 3, robot.nv))
    found = ds.inverse_dynamics(robot, q, v, qdd, FEET, active=[True, False, True])
    fewer = ds.inverse_dynamics(robot, q, v, qdd, FEET[::2])
    assert error(found.tau, fewer.tau) < 1e-10 and np.all(found.forces[1] == 0)
    assert np.array_equal(found.status, fewer.status) and np.array_equal(found.rank, fewer.rank)


def test_friction(robot):
    """Three feet on tilted ground: those of the least norm where these are within cones, others where they slip."""
    rng, mu = np.random.default_rng(7), 0.3
    q = np.tile(robot.neutral(), (40, 1))
    q[:, 7:] += 0.3 * rng.normal(size=(40, robot.nq - 7))
    v, qdd, gravity = np.zeros((40, robot.nv)), np.zeros((40, robot.nv)), np.array([2.0, 1.0, -9.0])
    free = ds.inverse_dynamics(robot, q, v, qdd, FEET, gravity=gravity)
    found = ds.inverse_dynamics(robot, q, v, qdd, FEET, gravity=gravity, friction=mu)
    weight = 9.3 * sum(H[0, 0] for H in robot.inertias)
    f, open_forces = np.stack(found.forces, axis=1), np.stack(free.forces, axis=1)
    assert np.all(np.hypot(f[..., 0], f[..., 1]) <= mu * f[..., 2] + 1e-7 * weight)
    is_free = np.all(np.hypot(open_forces[..., 0], open_forces[..., 1]) < 0.99 * mu * open_forces[..., 2], axis=-1)
    for k in range(40):
        if is_free[k]:
            assert np.abs(f[k] - open_forces[k]).max() < 1e-6 * weight and found.status[k] is Status.LEAST
        cost = [np.sum(x.tau[k] ** 2) + sum(np.sum(y[k] ** 2) for y in x.forces) for x in (free, found)]
        assert cost[0] <= cost[1] * (1 + 1e-9)
    assert 0 < np.count_nonzero(is_free) < 40 and {Status.LEAST} == set(found.status)


def test_derivatives_within_friction():
    """Where a force is inside of its cone and where it is on it, with weights and friction, too, by differences."""
    rng, tree, held = np.random.default_rng(9), ds.mechanisms.chain(2), ds.Point(ds.Frame("link2", TIP), axes="world")
    given = {
        "motors": ["link1_joint"],
        "weights": "input",
        "friction": "input",
        "outputs": ("forces", "force_residual"),
    }
    kernel = ds.compile(tree, held, "inverse_dynamics", **given)
    at = tree.random(rng, 60), *rng.normal(size=(2, 60, 2)), rng.uniform(0.5, 2.0, (60, 5)), np.full((60, 1), 0.7)
    f, missing = kernel(*at)
    is_held = np.abs(missing).max(axis=-1) < 1e-6
    slides = np.hypot(f[:, 0], f[:, 1]) > 0.7 * f[:, 2] - 1e-5
    along, h = [rng.normal(size=x.shape) for x in at], 1e-4
    ahead, behind = (kernel(*(x + s * h * y for x, y in zip(at, along, strict=True)))[0] for s in (1, -1))
    off = np.abs(kernel.derivative("jvp")(*at, *along)[0] - (ahead - behind) / (2 * h)).max(axis=-1)
    off = off / (1.0 + np.abs(ahead - behind).max(axis=-1) / (2 * h))
    for where in (is_held & slides, is_held & ~slides):  # one in ten comes or goes between the two, or is near that
        assert np.count_nonzero(where) > 3 and np.quantile(off[where], 0.8) < 1e-2


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_iterations_end_within_friction(dtype):
    """A foot and one motor for any motion, which no forces cause: some in a hundred went round in circles."""
    tree, rng = ds.mechanisms.chain(3), np.random.default_rng(0)
    foot = ds.Point(ds.Frame("link3", (0.1, 0.05, 0.2)), axes="world")
    kernel = ds.compile(tree, foot, "inverse_dynamics", motors=["link3_joint"], friction=0.7, dtype=dtype)
    states = [x.astype(dtype) for x in (tree.random(rng, 4000), *rng.normal(size=(2, 4000, 3)))]
    with warnings.catch_warnings():
        warnings.simplefilter("error", ds.DelassusWarning)
        assert all(np.isfinite(x).all() for x in kernel(*states))


@pytest.mark.parametrize("given", [{}, {"friction": 0.7}])
def test_numbers_that_are_not_finite_are_said(given):
    tree = ds.mechanisms.chain(2)
    foot = ds.Point(ds.Frame("link2", (0.1, 0.05, 0.2)), axes="world")
    kernel = ds.compile(tree, foot, "inverse_dynamics", motors=["link2_joint"], **given)
    states = np.ones((2, 2)), np.array([[1.0, 1.0], [1e200, 1e200]]), np.ones((2, 2))
    *found, error = kernel(*states, return_error=True)
    assert not all(np.isfinite(x).all() for x in found)
    assert error[0] < 1e-6 and error[1] == np.inf
    with pytest.warns(ds.DelassusWarning, match="1 of 2 state"):
        kernel(*states)


@pytest.mark.peer
def test_friction_by_clarabel(robot):
    """The same optimum, where there is one; where there is none, the least that is missing."""
    clarabel, sparse = pytest.importorskip("clarabel"), pytest.importorskip("scipy.sparse")
    rng, nv, m = np.random.default_rng(8), robot.nv, 9
    q = np.tile(robot.neutral(), (12, 1))
    q[:, 7:] += 0.4 * rng.normal(size=(12, robot.nq - 7))
    v, qdd, w = *np.zeros((2, 12, nv)), 10.0 ** rng.uniform(-1, 1, (12, nv + m))
    mu, gravity = rng.uniform(0.2, 0.9, (12, 3)), rng.normal(size=(12, 3)) * 3 - [0, 0, 9]
    found = ds.inverse_dynamics(robot, q, v, qdd, FEET, weights=w, friction=mu, gravity=gravity)
    b, J = ds.inverse_dynamics(robot, q, v, qdd, gravity=gravity), ds.jacobian(robot, FEET, q)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas"):
        setattr(settings, name, 1e-12)
    zero = clarabel.ZeroConeT(6)
    for k in range(12):
        cones = np.zeros((9, m))
        for i in range(3):
            cones[3 * i, 3 * i + 2], cones[[3 * i + 1, 3 * i + 2], [3 * i, 3 * i + 1]] = -mu[k, i], -1.0
        cone = [clarabel.SecondOrderConeT(3)] * 3

        def solved(P, g, rows, right, several):
            parts = sparse.triu(sparse.csc_matrix(P)).tocsc(), g, sparse.csc_matrix(rows), right, several, settings
            return clarabel.DefaultSolver(*parts).solve()

        A, a = J[k][:, :6].T, J[k][:, 6:]
        H = np.diag(w[k, nv:]) + (a * w[k, 6:nv]) @ a.T
        g = (a * w[k, 6:nv]) @ b[k, 6:]
        f, scale = np.hstack([x[k] for x in found.forces]), np.abs(b[k]).max()
        right = np.concatenate([b[k, :6], np.zeros(9)])
        best = solved(H, -g, np.vstack([A, cones]), right, [zero, *cone])
        if "Solved" in str(best.status):
            x, cost = np.array(best.x), lambda f, H=H, g=g: 0.5 * f @ H @ f - g @ f
            assert found.status[k] is Status.LEAST
            assert abs(cost(f) - cost(x)) < 1e-6 * abs(cost(x)) and np.abs(f - x).max() < 1e-3 * np.abs(x).max()
        else:
            assert found.status[k] is Status.UNREACHED
            nearest = solved(A.T @ A + 1e-12 * np.eye(m), -A.T @ b[k, :6], cones, np.zeros(9), cone)
            left = np.linalg.norm(b[k, :6] - A @ np.array(nearest.x))
            assert abs(np.linalg.norm(found.force_residual[k]) - left) < 1e-5 * scale
    assert {Status.LEAST, Status.UNREACHED} == set(found.status)


def test_motors_and_weights_that_are_none(robot):
    state = robot.neutral(), np.zeros(robot.nv), np.zeros(robot.nv)
    with pytest.raises(ds.errors.UnknownNameError, match="'branch1_1_joint'"):
        ds.inverse_dynamics(robot, *state, FEET, motors=["branch1_1_join"])
    with pytest.raises(ds.errors.ConfigurationError, match="motors"):
        ds.inverse_dynamics(robot, *state, FEET, motors="branch1_1_joint")
    for weights in (np.zeros(24), np.ones(23), np.full(24, np.nan)):
        with pytest.raises(ds.errors.ConstraintError, match="weights"):
            ds.inverse_dynamics(robot, *state, FEET, weights=weights)
    with pytest.raises(ds.DelassusError, match=r"weights: .*'inverse_dynamics'"):
        ds.inverse_dynamics(robot, *state, weights=np.ones(24))
    for feet, friction in ((FEET, 0.0), ([ds.Weld("branch1_3")], 0.5), ([LOOP], 0.5)):
        with pytest.raises(ds.errors.ConstraintError, match="friction"):
            ds.inverse_dynamics(robot, *state, feet, friction=friction)
    assert isinstance(ds.inverse_dynamics(robot, *state), np.ndarray)
    assert isinstance(ds.inverse_dynamics(robot, *state, []), ds.InverseDynamics)
