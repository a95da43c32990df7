"""Direct calls run kept programs: numbers at dependent rows too, what a call enters, and what is kept."""

from __future__ import annotations

import gc
import pickle
import sys
import threading

import numpy as np
import pytest

import delassus as ds
from internals import calls
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


def dense(rows):
    """``J``, ``M⁻¹`` and ``G`` of the chain."""
    J, inverse = ds.jacobian(TREE, ROWS, Q, rows=[rows]), np.linalg.inv(ds.mass_matrix(TREE, Q))
    return J, inverse, J @ inverse @ np.swapaxes(J, -1, -2)


def test_matrices():
    J, inverse, G = dense(REGULAR)
    given = {"rows": [REGULAR]}
    assert error(ds.delassus(TREE, ROWS, Q, **given), G) < AGREEMENT
    assert error(ds.osim(TREE, ROWS, Q, **given), np.linalg.inv(G)) < AGREEMENT
    assert (
        error(ds.consistent_inverse(TREE, ROWS, Q, **given), inverse @ np.swapaxes(J, -1, -2) @ np.linalg.inv(G))
        < AGREEMENT
    )
    for function in (ds.osim, ds.consistent_inverse):
        with pytest.raises(ds.SingularError, match=r"expected 3 independent rows, got 2 at state \[0, 1\]"):
            function(TREE, ROWS, Q, rows=[SOME])
        with pytest.raises(ds.SingularError, match=r"got 2\. Drop"):
            function(TREE, ROWS, Q[0, 1], rows=[SOME[0, 1]])


@pytest.mark.parametrize("damping", [None, 0.1])
def test_operator(damping):
    """Least-squares solutions of least norm where rows are dependent."""
    x = RNG.normal(size=(3, *BATCH, 3))
    operator, (*_, G) = ds.delassus_operator(TREE, ROWS, Q, rows=[SOME], damping=damping), dense(SOME)
    G = G + (damping or 0.0) * np.eye(3)
    assert error(operator.dense(), G) < AGREEMENT
    assert error(operator.apply(x), (G @ x[..., None])[..., 0]) < AGREEMENT
    inverse = np.linalg.pinv(G, rcond=1e-10, hermitian=True)
    assert error(operator.solve(x), (inverse @ x[..., None])[..., 0]) < 1e3 * AGREEMENT
    singular = [how.name == "SINGULAR" for how in np.ravel(operator.factorisation)]
    assert singular == np.ravel(np.linalg.matrix_rank(G, hermitian=True) < 3).tolist()
    assert (damping is None) == any(singular)


@pytest.mark.parametrize("active", [None, ACTIVE])
def test_dynamics(active):
    """Beside the pseudo-inverse, at states of every rank and of several axes."""
    given = {"rows": [SOME], "targets": TARGETS, "active": active}
    found = ds.forward_dynamics(TREE, Q, V, TAU, ROWS, **given)
    J, inverse, _ = dense(SOME)
    acts = np.repeat(np.ones((*BATCH, 2)) if active is None else active, [2, 1], axis=-1)[..., None]
    free = ds.forward_dynamics(TREE, Q, V, TAU, ()).qdd[..., None]
    asked = np.concatenate([TARGETS[0], [0.0]])[:, None] - ds.jacobian_drift(TREE, ROWS, Q, V, rows=[SOME])[..., None]
    J, asked = J * acts, asked * acts
    f = np.linalg.pinv(J @ inverse @ np.swapaxes(J, -1, -2), rcond=1e-10, hermitian=True) @ (asked - J @ free)
    assert error(np.concatenate(found.forces, axis=-1), f[..., 0]) < 1e3 * AGREEMENT
    assert error(found.qdd, (free + inverse @ np.swapaxes(J, -1, -2) @ f)[..., 0]) < 1e3 * AGREEMENT
    assert np.array_equal(found.rank, np.linalg.matrix_rank(J))
    assert {"SOLVED", "REDUNDANT", "CONFLICTING"} >= {status.name for status in found.status.ravel()}
    assert (found.rank < 3).any() and found.error_estimate.shape == BATCH
    one = ds.forward_dynamics(TREE, Q[0, 0], V[0, 0], TAU[0, 0], ROWS, rows=[SOME[0, 0]], targets=TARGETS,
                              active=None if active is None else active[0, 0])  # fmt: skip
    assert np.array_equal(one.qdd, found.qdd[0, 0]) and one.rank == found.rank[0, 0]
    again = pickle.loads(pickle.dumps(found))
    assert np.array_equal(again.constraint_residual(), found.constraint_residual()) and again.report() == found.report()


def test_impulses():
    """Beside the pseudo-inverse, with a restitution of 0.3."""
    found, (J, inverse, G) = ds.impulse(TREE, Q, V, ROWS, 0.3, rows=[SOME]), dense(SOME)
    p = np.linalg.pinv(G, rcond=1e-10, hermitian=True) @ (-1.3 * J @ V[..., None])
    assert error(found.v_next, V + (inverse @ np.swapaxes(J, -1, -2) @ p)[..., 0]) < 1e3 * AGREEMENT
    assert np.array_equal(found.rank, np.linalg.matrix_rank(J))


def test_loops():
    """Of a five-bar in a plane, one of whose rows says nothing: gaps, ranks, and singularities of every kind."""
    rods = ds.mechanisms.pendulum(2, length=0.5)
    tree = rods.attach("world", rods, (0.5, 0, 0), prefix="right_")
    tips, (left, outer, right, _) = [ds.Frame(name, (0, 0, -0.5)) for name in ("rod2", "right_rod2")], tree.joint_names
    pin, third = ds.Point(*tips), np.pi / 6
    start = np.array([[third, -1.1, -third, 1.0], [-0.3, 0.0, -0.2, 0.8]])
    in_line, stretched = (
        ds.close_loops(tree, pin, q, hold=held).q for q, held in zip(start, ([left, right], [left, outer]), strict=True)
    )
    closed = ds.close_loops(tree, pin, [in_line, stretched + 0.2])
    assert closed.status.tolist() == [ds.LoopStatus.CLOSED] * 2 and closed.rank.tolist() == [2, 2]
    q = [closed.q[1], in_line, stretched]
    found = ds.reduced_dynamics(tree, pin, q, independent=[left, right], output=ds.Point(tips[0]))
    assert [x.name for x in found.singularity] == ["NONE", "ACTUATION", "OUTPUT"]
    G, M = found.transmission[[0, 2]], ds.mass_matrix(tree, np.array(q))[[0, 2]]
    assert np.abs(ds.jacobian(tree, pin, np.array(q))[[0, 2]] @ G).max() < AGREEMENT
    assert error(found.mass_matrix[[0, 2]], np.swapaxes(G, -1, -2) @ M @ G) < AGREEMENT
    two = ds.mechanisms.pendulum(1).attach("world", ds.mechanisms.pendulum(1), (0.6, 0, 0), prefix="right_")
    rod = ds.Distance(*(ds.Frame(name, (0, 0, -0.4)) for name in ("rod1", "right_rod1")), length=0.6)
    found = ds.reduced_dynamics(two, rod, [[0.3, 0.3], [np.pi / 2, np.pi / 2]])
    assert [x.name for x in found.singularity] == ["NONE", "CONFIGURATION"]


# -- what is kept ----------------------------------------------------------------------------------------------------

ROBOT = ds.mechanisms.star(2, 2)
POSE, STILL = ROBOT.random(0), np.zeros(ROBOT.nv)


def tips():
    """Constraints, made anew."""
    return [ds.Point("branch1_2"), ds.Point("branch2_2")]


WARM = {
    "mass_matrix": lambda: ds.mass_matrix(ROBOT, POSE),
    "frame_jacobian": lambda: ds.frame_jacobian(ROBOT, POSE, ["hub", "branch1_2"], reference="world"),
    "inverse_dynamics": lambda: ds.inverse_dynamics(ROBOT, POSE, STILL, STILL),
    "delassus": lambda: ds.delassus(ROBOT, FEET, POSE),
    "forward_dynamics": lambda: ds.forward_dynamics(ROBOT, POSE, STILL, STILL, FEET),
}
FEET = tips()


@pytest.mark.parametrize("name", WARM)
def test_what_a_warm_call_enters(name):
    """Fewer than 30 functions and 50 calls, with all that is made of the numbers."""
    entered = []

    def note(frame, event, _):
        if event == "call" and "/delassus/" in frame.f_code.co_filename:
            entered.append(frame.f_code)

    WARM[name]()
    sys.setprofile(note)
    try:
        WARM[name]()
    finally:
        sys.setprofile(None)
    assert 0 < len(entered) < 50 and len(set(entered)) < 30


def test_equal_calls_share_a_program(monkeypatch):
    """Robots, constraints and options that are equal; others do not, and what was long ago goes."""
    monkeypatch.setattr(calls, "KEPT", type(calls.KEPT)())
    kept = calls.KEPT._kept
    G = ds.delassus(ROBOT, FEET, POSE)
    programs = {id(x.kernel) for x in kept.values()}
    assert np.array_equal(ds.delassus(pickle.loads(pickle.dumps(ROBOT)), tuple(tips()), POSE), G)
    assert {id(x.kernel) for x in kept.values()} == programs
    assert not np.array_equal(ds.delassus(ROBOT, FEET[::-1], POSE), G)
    for given, same in (({"gravity": [0, 0, -1.0]}, [0, 0, -1.0]), ({"gravity": (0, 0, -2.0)}, np.array([0, 0, -2.0]))):
        c = ds.bias_force(ROBOT, POSE, STILL, **given)
        assert np.array_equal(c, ds.bias_force(ROBOT, POSE, STILL, gravity=same))
        assert np.array_equal(c, ds.bias_force(ROBOT, POSE, STILL, gravity=[[*same]])[0])
    with pytest.raises(ds.DelassusError):
        ds.bias_force(ROBOT, POSE, STILL, gravity=True)
    monkeypatch.setattr(calls, "MOST_KEPT", 2)
    for length in (2, 3, 4):
        arm = ds.mechanisms.chain(length)
        assert ds.mass_matrix(arm, arm.neutral()).shape == (length, length)
    assert len(kept) == 2


def test_dependent_rows_make_one_program(monkeypatch):
    """Where rows depend on one another at all states, that of a method, and estimates, would serve nobody."""
    monkeypatch.setattr(calls, "KEPT", type(calls.KEPT)())
    arm = ds.mechanisms.pendulum(2)
    found = ds.forward_dynamics(arm, [0.3, 0.4], [1.0, 2.0], [0.5, 0.6], ds.Weld("rod2"))
    made = [kept.kernel.request.quantity.name for kept in calls.KEPT._kept.values() if "kernel" in vars(kept)]
    assert found.rank == 2 and made == ["dynamics, system 0"]


def test_programs_on_disk_are_all_that_a_call_needs(tmp_path, monkeypatch):
    """Nothing is traced, and nobody asks whether rows depend on one another: what is known of that is stored, too."""
    monkeypatch.setenv("DELASSUS_CACHE", str(tmp_path))
    arm = ds.mechanisms.pendulum(2)
    for constraints, rank in ((ds.Weld("rod2"), 2), (ds.JointRows({arm.joint_names[1]: 1.0}), 1)):
        with monkeypatch.context() as its:
            found = []
            for _ in range(2):
                its.setattr(calls, "KEPT", type(calls.KEPT)())
                gc.collect()  # no kernel lives
                found.append(ds.forward_dynamics(arm, [0.3, 0.4], [1.0, 2.0], [0.5, 0.6], constraints))
                (kept, *_) = calls.KEPT._kept.values()
                its.setattr(type(kept.request), "is_singular", property(lambda asked: pytest.fail(asked.title)))
        assert [x.rank for x in found] == [rank] * 2 and np.array_equal(found[0].qdd, found[1].qdd)


def test_calls_on_several_threads():
    """The first call of a program, too, on all of them at once."""
    arm, found = ds.mechanisms.chain(5), []
    q, start = arm.random(0, batch=(8, 40)), threading.Barrier(8)

    def work(k):
        start.wait()
        found.append((k, ds.mass_matrix(arm, q[k]), ds.delassus(arm, ds.Point("link5"), q[k])))

    workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 8
    for k, M, G in found:
        assert np.array_equal(M, ds.mass_matrix(arm, q[k])) and np.array_equal(
            G, ds.delassus(arm, ds.Point("link5"), q[k])
        )


def test_a_state_is_a_batch_of_one():
    """To the bit, also where a quaternion is a little off unit length."""
    q = ROBOT.random(1, batch=200)
    q[:, 3:7] *= 1.0 + 1e-7 * RNG.normal(size=(200, 1))
    v = RNG.normal(size=(200, ROBOT.nv))
    for call in (lambda q, v: ds.mass_matrix(ROBOT, q), lambda q, v: ds.forward_dynamics(ROBOT, q, v, v, FEET).qdd):
        every = call(q, v)
        for one, of_one, like in zip(q, v, every, strict=True):
            assert np.array_equal(call(one, of_one), like)
            assert np.array_equal(call(one[None], of_one[None])[0], like)
