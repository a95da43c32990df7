"""Operational-space and whole-body control against textbook formulas on dense matrices, and near singularities."""

from __future__ import annotations

import numpy as np
import pytest

import delassus as ds
from random_trees import some_mechanism
from tools import AGREEMENT, error

PASSES = 3


def some_tasks(m):
    """A weld, a point and a joint of a random mechanism, and the place of the joint's coordinate, if there is one."""
    tree, end = m.tree, ds.Frame(m.tree.link_names[-1], m.rng.normal(size=3))
    width = {name: len(range(tree.nq)[tree.q_index(name)]) for name in tree.joint_names}
    single = [name for name in tree.joint_names if width[name] == 1][:1]
    tasks = [
        ds.Weld(end, axes="world"),
        ds.Point(tree.link_names[0], axes="world"),
        *(ds.JointRows({n: 1.0}) for n in single),
    ]
    return tasks, [tree.q_index(name).start for name in single]


def dense(tree, tasks, state, wanted, posture, R, force=0.0):
    """``τ`` and what is missed, by the formulas: accelerations of damped least squares in passes, then ``M q̈ + c``."""
    q, v = state
    M, J, drift = ds.mass_matrix(tree, q), ds.jacobian(tree, tasks, q), ds.jacobian_drift(tree, tasks, q, v)
    G, left, F = J @ np.linalg.solve(M, J.T), wanted - J @ posture - drift, 0.0
    for _ in range(PASSES):
        x = np.linalg.solve(G + np.diag(R), left)
        F, left = F + x, left - G @ x
    return ds.inverse_dynamics(tree, q, v, posture) + J.T @ (F + force), left


@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", range(8))
def test_random_mechanisms(seed):
    """Redundant, over-determined and floating ones, gains by row and state, posture along tangents."""
    m = some_mechanism(seed, 3 + seed, ("fixed", "floating")[seed % 2])
    tree, (tasks, joint) = m.tree, some_tasks(m)
    sizes = [c.size for c in tasks]
    q, v, posture = tree.random(m.rng, 3), m.rng.normal(size=(3, tree.nv)), tree.random(m.rng, 3)
    kp, kd, targets = ([m.rng.uniform(0.1, 30.0, (3, n)) for n in sizes] for _ in range(3))
    R = [10.0 ** m.rng.uniform(-4.0, 0.0, (3, n)) for n in sizes]
    gains = m.rng.uniform(1.0, 10.0, (2, tree.nv))
    given = {"kp": kp, "kd": kd, "posture_kp": gains[0], "posture_kd": gains[1], "compliance": R, "limits": False}
    place = m.rng.normal(size=3)
    poses = [[*place, 0.0, 0.0, 0.0, 1.0], *[None] * (len(tasks) - 1)]
    found = ds.control(tree, tasks, q, v, targets=targets, poses=poses, posture=posture, **given)
    at = ds.forward_kinematics(tree, q, tasks[0].first)
    for k in range(3):
        a, b, c, d = (np.concatenate([x[k] for x in each]) for each in (targets, kp, kd, R))
        sine = 0.5 * sum(np.cross(np.eye(3)[i], at[k, :3, i]) for i in range(3))
        half = np.sqrt(max(0.5 * (1.0 + 0.5 * (np.trace(at[k, :3, :3]) - 1.0)), 1e-30))  # cos ½ θ
        e = np.concatenate([at[k, :3, 3] - place, sine / half, np.zeros(3), q[k, joint]])
        wanted = a - b * e - c * (ds.jacobian(tree, tasks, q[k]) @ v[k])
        free = gains[0] * tree.difference(q[k], posture[k]) - gains[1] * v[k]
        tau, missed = dense(tree, tasks, (q[k], v[k]), wanted, free, d)
        assert error(found.tau[k], tau) < 100 * AGREEMENT
        assert np.abs(found.missed[k] - missed).max() < 100 * AGREEMENT * np.abs(wanted).max()


@pytest.fixture(scope="module")
def arm():
    """An arm of seven joints, and its tip."""
    return ds.mechanisms.chain(7), ds.Point(ds.Frame("link7", (0.3, 0.0, 0.0)), axes="world")


def test_what_is_asked_for_is_done_and_the_posture_does_not_disturb_it(arm):
    """By forward dynamics: what is not in `missed` happens, whatever the posture asks for."""
    tree, tip = arm
    rng = np.random.default_rng(0)
    q, v, wanted = tree.random(rng, 20), rng.normal(size=(20, 7)), rng.normal(size=(20, 3))
    alone = ds.control(tree, (), q, v, posture=tree.neutral(), posture_kd=0.0)
    assert error(alone.tau, ds.inverse_dynamics(tree, q, v, -10.0 * q)) < AGREEMENT
    for posture in (None, tree.neutral(), tree.random(rng, 20)):
        found = ds.control(tree, tip, q, v, targets=[wanted], kd=0.0, posture=posture)
        qdd = ds.forward_dynamics(tree, q, v, found.tau).qdd
        got = np.einsum("nij,nj->ni", ds.jacobian(tree, tip, q), qdd) + ds.jacobian_drift(tree, tip, q, v)
        assert error(got + found.missed, wanted) < 1e3 * AGREEMENT
        assert np.median(np.abs(found.missed)) < 1e-6


def test_bounds_hold_as_the_arm_stretches(arm):
    """Forces, accelerations and errors stay within what the docstring says, from a bent arm to a stretched one."""
    tree, tip = arm
    bend = np.array([0.0, *10.0 ** np.arange(-9.0, 0.0)])
    q = bend[:, None] * np.array([0.0, 1.0, -1.0, 0.5, 1.0, -0.5, 1.0])
    still, wanted, R = np.zeros(7), np.array([5.0, 0.0, 1.0]), 1e-2
    M, J = ds.mass_matrix(tree, q), ds.jacobian(tree, tip, q)
    found = ds.control(tree, tip, q, still, targets=[wanted], compliance=R)
    size = np.linalg.norm(wanted - ds.jacobian_drift(tree, tip, q, still), axis=-1)
    assert np.all(np.linalg.norm(found.forces[0], axis=-1) <= PASSES * size / R)
    moved = np.linalg.solve(M, np.swapaxes(J, -1, -2) @ found.forces[0][..., None])
    assert np.all((np.swapaxes(moved, -1, -2) @ M @ moved)[:, 0, 0] <= 0.96 * size**2 / R)
    for G, missed in zip(J @ np.linalg.solve(M, np.swapaxes(J, -1, -2)), found.missed, strict=True):
        g, U = np.linalg.eigh(G)
        assert np.allclose(U.T @ missed, (1.0 + g / R) ** -PASSES * (U.T @ wanted), atol=1e-9)
    assert np.allclose(found.missed[0], [5.0, 0.0, 0.0], atol=1e-6)  # stretched: nothing moves it along itself
    exact = np.linalg.solve((J @ np.linalg.solve(M, np.swapaxes(J, -1, -2)))[1], wanted)
    assert np.linalg.norm(exact) > 1e6 * np.linalg.norm(found.forces[0][1])


def test_impedance_is_a_force_on_the_inertia_as_it_is(arm):
    """Rows of a stiffness, or of a force on a wall, add ``Jᵀ f``; others of the same task still accelerate."""
    tree, tip = arm
    rng = np.random.default_rng(1)
    q, v = tree.random(rng), rng.normal(size=7)
    J, x = ds.jacobian(tree, tip, q), ds.forward_kinematics(tree, q, tip.first)[:3, 3]
    place, target = x + np.array([0.1, -0.2, 0.3]), np.array([1.0, 2.0, -3.0])
    spring = ds.control(tree, tip, q, v, impedance=True, poses=[place], targets=[target], kp=200.0, kd=30.0)
    force = target - 30.0 * (J @ v) + 200.0 * (place - x)
    qdd = ds.forward_dynamics(tree, q, v, spring.tau).qdd
    Lambda = ds.osim(tree, tip, q)
    assert np.allclose(Lambda @ (J @ qdd + ds.jacobian_drift(tree, tip, q, v)), force, rtol=1e-5)
    wall = ds.control(tree, tip, q, v, impedance=[(0, 0, 1)], targets=[target], kp=0.0, kd=0.0)
    motion = ds.control(tree, tip, q, v, targets=[[1.0, 2.0, 0.0]], kp=0.0, kd=0.0)
    assert np.allclose(wall.tau - motion.tau, -3.0 * J[2]) and np.allclose(wall.missed, motion.missed)


def test_joint_forces_stay_within_limits(tmp_path):
    """And what is missed then is in `missed`."""
    inertia = "<inertial><mass value='1'/><inertia ixx='.1' iyy='.1' izz='.1' ixy='0' ixz='0' iyz='0'/></inertial>"
    links = "".join(f"<link name='l{k}'>{inertia}</link>" for k in range(4))
    joints = "".join(
        f"<joint name='j{k}' type='revolute'><parent link='l{k - 1}'/><child link='l{k}'/><axis xyz='0 1 0'/>"
        f"<origin xyz='1 0 0'/><limit lower='-3' upper='3' effort='{4 + k}' velocity='9'/></joint>"
        for k in (1, 2, 3)
    )
    (tmp_path / "arm.urdf").write_text(f"<robot name='arm'>{links}{joints}</robot>")
    tree = ds.load(tmp_path / "arm.urdf")
    tip, rng = ds.Rows("l3", [[1, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]], axes="world"), np.random.default_rng(0)
    q, v, wanted = tree.random(rng, 30), rng.normal(size=(30, 3)), rng.normal(size=(30, 2))
    found = ds.control(tree, tip, q, v, targets=[wanted], kd=0.0, gravity=(0, 0, 0))
    cut = np.abs(found.tau) == tree.effort_limit
    assert np.all(np.abs(found.tau) <= tree.effort_limit) and 5 < cut.any(axis=-1).sum() < 25
    qdd = ds.forward_dynamics(tree, q, v, found.tau, gravity=(0, 0, 0)).qdd
    got = np.einsum("nij,nj->ni", ds.jacobian(tree, tip, q), qdd) + ds.jacobian_drift(tree, tip, q, v)
    assert np.abs(got + found.missed - wanted).max() < 1e3 * AGREEMENT * np.abs(got).max()
    free = ds.control(tree, tip, q, v, targets=[wanted], kd=0.0, limits=False, gravity=(0, 0, 0))
    assert np.array_equal(free.tau[~cut], found.tau[~cut]) and np.abs(free.tau).max() > 7.0


def test_whole_body():
    """A floating robot on three legs moves its hub: motors and feet cause what is asked for, feet stay."""
    robot, rng = ds.mechanisms.star(3, 3), np.random.default_rng(2)
    feet, hub = [ds.Point(f"branch{k}_3", axes="world") for k in (1, 2, 3)], ds.Weld("hub", axes="world")
    q, v = robot.random(rng, 4), rng.normal(size=(4, robot.nv))
    J, wanted = ds.jacobian(robot, feet, q), rng.normal(size=(4, 6))
    v = v - (np.linalg.pinv(J) @ (J @ v[..., None]))[..., 0]
    found = ds.control(robot, hub, q, v, contacts=feet, targets=[wanted], kd=0.0)
    assert isinstance(found, ds.Control) and not found.tau.flags.writeable and len(found.forces) == 4
    assert not found.tau[:, robot.v_index("root_joint")].any()
    moved = ds.forward_dynamics(robot, q, v, found.tau, feet)
    got = np.einsum("nij,nj->ni", ds.jacobian(robot, hub, q), moved.qdd) + ds.jacobian_drift(robot, hub, q, v)
    missed = np.abs(found.missed).max()
    size = np.abs(np.concatenate(found.forces[1:])).max()
    assert np.abs(got - wanted).max() < 1e-6 + 10 * missed and np.abs(found.force_residual).max() < 1e-8 * size
    off = ds.control(robot, hub, q, v, contacts=feet, active=[1, 1, 1, 0], kd=0.0)
    two = ds.control(robot, hub, q, v, contacts=feet[:2], kd=0.0)
    assert error(off.tau, two.tau) < 1e3 * AGREEMENT and not off.forces[3].any()


@pytest.mark.slow
def test_errors_of_forces_within_friction_are_known():
    """They are judged by what iterations begin with: numbers inside of these say nothing of the usual states."""
    tree, foot = ds.mechanisms.star(2, 2), ds.Point("branch1_2", axes="world")
    kernel = ds.compile(tree, ds.Orientation("hub"), "control", contacts=foot, friction=0.7)
    state = {a.name: np.ones(a.shape) for a in kernel.arguments}
    *found, known = kernel(**{**state, "q": tree.random(0)}, return_error=True)
    assert known < 1e-9 and all(np.isfinite(x).all() for x in found)


def test_errors_name_tasks(arm):
    tree, tip = arm
    q = np.zeros(7)
    for given, text in (
        ({"kp": -1.0}, "kp of Point.*not negative"),
        ({"kd": [1.0, 2.0]}, "kd: expected a list with one entry for each of 1"),
        ({"impedance": [(1, 0)]}, "impedance of Point.*3 row"),
        ({"posture": np.zeros(6)}, "posture"),
        ({"compliance": 0.0}, "compliance.*positive"),
        ({"motors": ["link1_joint"]}, "motors"),
        ({"friction": 0.5}, "friction"),
    ):
        with pytest.raises(ds.DelassusError, match=text):
            ds.control(tree, tip, q, q, **given)
    with pytest.raises(ds.DelassusError, match=r"contacts: expected .* with 'dynamics'"):
        ds.compile(tree, tip, "dynamics", contacts=tip)
