"""Forward and inverse dynamics: identities that hold for any mechanism, finite differences, redundancy, bad input.

Peers are in `test_dynamics_pinocchio`.
"""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

import delassus as ds
from delassus.errors import ConfigurationError, ConstraintError, ModelError, UnknownNameError
from internals import (
    DYNAMICS_ALGORITHMS,
    SOFT,
    UNCONSTRAINED,
    DynamicsProblem,
    Goal,
    Problem,
    RawJoint,
    RawLink,
    TraceOps,
    build_tree,
    joint_kinds,
    matrix_to_quaternion,
)
from random_trees import some_constraints, some_mechanism
from tools import (
    AGREEMENT,
    ELIMINATION,
    by_method,
    error,
    error_estimates,
    make_motion,
    random_frame,
    random_rotation,
)

STEP = 1e-5
"""Time step of central differences, in s."""

DIFFERENCE = 1e-6
"""Central differences: 1e-16 / step, and the third derivative times the step squared; motions are of order ten."""

LEAST_SQUARES = 1e-9
"""Proximal iterations against the pseudo-inverse, of well-conditioned sets."""

SEEDS = range(4)
REGULAR = 1e8
"""Condition of a mass matrix: digits are left for differences."""
CONSTRAINED = [name for name in ds.DYNAMICS_METHODS if name not in UNCONSTRAINED | SOFT]


def state(tree, rng, batch=()):
    q = tree.random(rng, batch)
    return q, rng.normal(size=(*batch, tree.nv)), 5.0 * rng.normal(size=(*batch, tree.nv))


def mechanism(seed, least=1, most=14):
    rng = np.random.default_rng(seed)
    return some_mechanism(seed, int(rng.integers(least, most)), ("fixed", "floating")[seed % 2])


def some_wrenches(mechanism):
    names = mechanism.rng.choice(mechanism.names, 3)
    return {random_frame(mechanism.rng, str(name)): mechanism.rng.normal(size=6) for name in names}


def everything(m, batch=()):
    """A state and all other inputs of the unconstrained functions."""
    rng = m.rng
    q, v, tau = state(m.tree, rng, batch)
    rest = {
        "gravity": rng.normal(size=3) * 5,
        "damping": rng.uniform(0, 1, m.tree.nv),
        "wrenches": some_wrenches(m),
    }
    return q, v, tau, rest


def moved(tree, q, v, qdd, t):
    """State after the time t of a motion that starts with these rates."""
    return tree.integrate(q, v * t + 0.5 * qdd * t * t), v + qdd * t


def rate(function, tree, q, v, qdd):
    """Derivative of a function of q and v along a motion."""
    after, before = (function(*moved(tree, q, v, qdd, t)) for t in (STEP, -STEP))
    return (after - before) / (2 * STEP)


# -- without constraints -------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_forward_and_inverse_dynamics_agree(seed):
    m = mechanism(seed)
    tree = m.tree
    q, v, tau, rest = everything(m, (2,))
    by_recursion, dense = (ds.forward_dynamics(tree, q, v, tau, method=name, **rest) for name in ("aba", "kkt"))
    assert error(by_recursion.qdd, dense.qdd) < AGREEMENT
    assert error(ds.inverse_dynamics(tree, q, v, by_recursion.qdd, **rest), tau) < AGREEMENT
    M, c = ds.mass_matrix(tree, q), ds.bias_force(tree, q, v, **rest)
    assert error((M @ dense.qdd[..., None])[..., 0] + c, tau) < AGREEMENT
    assert np.max(np.abs(by_recursion.dynamics_residual()), initial=0) < AGREEMENT * max(1, np.abs(c).max(initial=0))
    assert by_recursion.forces == () and np.all(by_recursion.status == ds.DynamicsStatus.SOLVED)
    still = ds.forward_dynamics(tree, q, v, tau)
    assert still.method == "aba"
    none = ds.forward_dynamics(tree, q, v, tau, damping=np.zeros(tree.nv), wrenches={})
    assert np.array_equal(still.qdd, none.qdd)


@pytest.mark.parametrize("seed", SEEDS)
def test_power(seed):
    """Energy changes by the power of torques, wrenches and damping."""
    m = mechanism(seed)
    tree = m.tree
    q, v, tau, rest = everything(m)
    qdd = ds.forward_dynamics(tree, q, v, tau, **rest).qdd

    def total(q, v):
        return ds.kinetic_energy(tree, q, v) + ds.potential_energy(tree, q, gravity=rest["gravity"])

    power = v @ (tau - rest["damping"] * v)
    for frame, wrench in rest["wrenches"].items():
        power += wrench @ (ds.jacobian(tree, ds.Rows(frame, np.eye(6)), q) @ v)
    assert rate(total, tree, q, v, qdd) == pytest.approx(power, abs=DIFFERENCE * (1 + np.abs(qdd).max(initial=0) ** 2))
    assert ds.kinetic_energy(tree, q, v) == pytest.approx(0.5 * v @ ds.mass_matrix(tree, q) @ v)


def without_armature(tree):
    joints = tuple(dataclasses.replace(joint, armature=0 * joint.armature) for joint in tree.joints)
    parts = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree) if field.init}
    return ds.Tree(**parts | {"joints": joints})


@pytest.mark.parametrize("seed", SEEDS)
def test_momentum(seed):
    """Momentum changes by external wrenches and gravity alone if the base is free; its linear part is ``m ṙ``."""
    for other in itertools.count(seed, len(SEEDS)):  # a link without mass may need its rotor
        m = some_mechanism(other, 8, "floating")
        m.tree = tree = without_armature(m.tree)  # rotors carry momentum that is not in that of the links
        if np.linalg.cond(ds.mass_matrix(tree, tree.random(0))) < REGULAR:
            break
    q, v, tau, rest = everything(m)
    tau[:6] = rest["damping"][:6] = 0
    qdd = ds.forward_dynamics(tree, q, v, tau, **rest).qdd
    mass = sum(H[0, 0] for H in tree.inertias)
    h = ds.momentum(tree, q, v)
    speed = rate(lambda q, v: ds.centre_of_mass(tree, q), tree, q, v, qdd)
    assert h[:3] == pytest.approx(mass * speed, abs=DIFFERENCE * (1 + np.abs(qdd).max()))
    expected = np.concatenate([mass * rest["gravity"], np.zeros(3)])
    centre = ds.centre_of_mass(tree, q)
    for frame, wrench in rest["wrenches"].items():
        if tree.placement(frame.link).link != -1:
            T = ds.forward_kinematics(tree, q, frame)
            force, moment = T[:3, :3] @ wrench[:3], T[:3, :3] @ wrench[3:]
            expected += np.concatenate([force, moment + np.cross(T[:3, 3] - centre, force)])
    change = rate(lambda q, v: ds.momentum(tree, q, v), tree, q, v, qdd)
    assert change == pytest.approx(expected, abs=DIFFERENCE * (1 + np.abs(qdd).max() ** 2))


@pytest.mark.parametrize("seed", SEEDS)
def test_motions_of_frames_and_centroids(seed):
    """Jacobians times v are rates of poses and momenta, and accelerations are their rates, at any q̈."""
    m = mechanism(seed)
    tree, rng = m.tree, m.rng
    q, v, _ = state(tree, rng)
    qdd = rng.normal(size=tree.nv)
    size = DIFFERENCE * (1 + np.abs(np.concatenate([v, qdd])).max(initial=0) ** 2)
    frames = [random_frame(rng, name) for name in rng.choice(m.names, 3)]
    T, dT = ds.forward_kinematics(tree, q, frames), rate(
        lambda q, v: ds.forward_kinematics(tree, q, frames), tree, q, v, qdd
    )  # fmt: skip
    R, p, turn = T[:, :3, :3], T[:, :3, 3], dT[:, :3, :3] @ np.swapaxes(T[:, :3, :3], 1, 2)
    w = np.stack([turn[:, 2, 1], turn[:, 0, 2], turn[:, 1, 0]], axis=-1)
    into = (R.swapaxes(1, 2) @ dT[:, :3, 3:])[..., 0], (R.swapaxes(1, 2) @ w[..., None])[..., 0]
    expected = {
        "local": np.concatenate(into, axis=-1),
        "world": np.concatenate([dT[:, :3, 3] + np.cross(p, w), w], axis=-1),
        "local-world-aligned": np.concatenate([dT[:, :3, 3], w], axis=-1),
    }
    for reference, twists in expected.items():
        given = {"frames": frames, "reference": reference}
        V = ds.frame_velocity(tree, q, v, **given)
        assert V == pytest.approx(twists, abs=size), reference
        assert ds.frame_jacobian(tree, q, **given) @ v == pytest.approx(V, abs=AGREEMENT * (1 + np.abs(V).max()))
        a = rate(lambda q, v, given=given: ds.frame_velocity(tree, q, v, **given), tree, q, v, qdd)
        assert ds.frame_acceleration(tree, q, v, qdd, **given) == pytest.approx(a, abs=size), reference
    A, J = ds.momentum_jacobian(tree, q), ds.centre_of_mass_jacobian(tree, q)
    h = ds.momentum(tree, q, v)
    assert A @ v == pytest.approx(h, abs=AGREEMENT * (1 + np.abs(h).max()))
    change = rate(lambda q, v: ds.momentum(tree, q, v), tree, q, v, qdd)
    assert A @ qdd + ds.momentum_drift(tree, q, v) == pytest.approx(change, abs=size * (1 + np.abs(h).max()))
    speed = rate(lambda q, v: ds.centre_of_mass(tree, q), tree, q, v, qdd)
    assert J @ v == pytest.approx(speed, abs=size)
    change = rate(lambda q, v: ds.centre_of_mass_jacobian(tree, q) @ v, tree, q, v, qdd)
    assert J @ qdd + ds.centre_of_mass_drift(tree, q, v) == pytest.approx(change, abs=size)


@pytest.mark.parametrize("seed", SEEDS)
def test_coriolis_matrix(seed):
    """``Ṁ − 2 C`` is skew, and ``C v`` is the bias force without gravity."""
    m = mechanism(seed)
    tree, (q, v, _) = m.tree, state(m.tree, m.rng)
    C, c = ds.coriolis_matrix(tree, q, v), ds.bias_force(tree, q, v, gravity=[0, 0, 0], passive="none")
    assert C @ v == pytest.approx(c, abs=AGREEMENT * (1 + np.abs(c).max(initial=0)))
    change = rate(lambda q, v: ds.mass_matrix(tree, q), tree, q, v, 0 * v)
    assert C + C.T == pytest.approx(change, abs=DIFFERENCE * (1 + np.abs(C).max(initial=0)))


@pytest.mark.parametrize("seed", SEEDS)
def test_drift_of_constraints(seed):
    """``J q̈ + J̇ v`` is the rate of ``J v``; at solutions of forward dynamics it is zero."""
    m = mechanism(seed)
    tree = m.tree
    constraints, rows = some_constraints(m)
    q, v, _ = state(tree, m.rng)
    qdd = m.rng.normal(size=tree.nv)

    def velocity(q, v):
        return ds.jacobian(tree, constraints, q, rows=rows) @ v

    found = ds.jacobian(tree, constraints, q, rows=rows) @ qdd + ds.jacobian_drift(tree, constraints, q, v, rows=rows)
    scale = 1 + np.abs(np.concatenate([v, qdd])).max(initial=0) ** 2
    scale *= 1 + max((np.abs(c.rows).max() for c in constraints if c.rows is not None), default=0)
    assert found == pytest.approx(rate(velocity, tree, q, v, qdd), abs=DIFFERENCE * scale)


def test_poses():
    m = some_mechanism(3, 8, "floating")
    q = m.tree.random(0, batch=(2, 3))
    own = ds.forward_kinematics(m.tree, q)
    assert own.shape == (2, 3, m.tree.n_links, 4, 4)
    for k, name in enumerate(m.tree.link_names):
        assert np.array_equal(ds.forward_kinematics(m.tree, q, name), own[..., k, :, :])
    frame = random_frame(m.rng, m.tree.link_names[-1])
    shift = np.eye(4)
    shift[:3, :3], shift[:3, 3] = frame.rotation, frame.position
    assert error(ds.forward_kinematics(m.tree, q, [frame])[..., 0, :, :], own[..., -1, :, :] @ shift) < 1e-14
    assert ds.forward_kinematics(m.tree, q[0, 0], "world").tolist() == np.eye(4).tolist()


# -- constraints ---------------------------------------------------------------------------------------------------


def independent(m, candidates, q):
    """As many of the constraints as are independent at q."""
    kept = []
    for c in candidates:
        if c.rows is None:
            continue
        still = np.zeros(m.tree.nv)
        solution = ds.forward_dynamics(m.tree, q, still, still, [*kept, c], method="kkt")
        if np.all(solution.rank == sum(k.size for k in [*kept, c])):
            kept.append(c)
    return kept


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("method", ["kkt", "proximal"])
@pytest.mark.parametrize("seed", SEEDS)
def test_constrained(seed, method):
    """The others are held to the first in `test_dynamics_methods`, with all inputs."""
    m = mechanism(seed, 4, 8)
    tree = m.tree
    q, v, tau, rest = everything(m, (2,))
    kept = []
    while not kept:
        kept = independent(m, some_constraints(m)[0], q)
    targets = [m.rng.normal(size=c.size) for c in kept]
    solution = ds.forward_dynamics(tree, q, v, tau, kept, method=method, targets=targets, **rest)
    M, c, J = ds.mass_matrix(tree, q), ds.bias_force(tree, q, v, **rest), ds.jacobian(tree, kept, q)
    f = np.concatenate(solution.forces, axis=-1)
    scale = np.abs(f).max() + np.abs(tau).max()
    assert np.abs(M @ solution.qdd[..., None] + (c - tau)[..., None] - J.mT @ f[..., None]).max() < AGREEMENT * scale
    assert np.abs(solution.dynamics_residual()).max() < AGREEMENT * scale
    assert np.abs(solution.constraint_residual()).max() < AGREEMENT * (1 + np.abs(solution.qdd).max())
    assert np.all(solution.status == ds.DynamicsStatus.SOLVED) and np.all(solution.rank == J.shape[-2])
    expected = ds.forward_dynamics(tree, q, v, tau, kept, method="kkt", targets=targets, **rest)
    assert error(solution.qdd, expected.qdd) < ELIMINATION

    # one state of the batch alone; torques that do what the constraints did
    alone = ds.forward_dynamics(tree, q[1], v[1], tau[1], kept, method=method, targets=targets, **rest)
    assert error(alone.qdd, solution.qdd[1]) < AGREEMENT
    instead = tau + (J.mT @ f[..., None])[..., 0]
    assert error(ds.forward_dynamics(tree, q, v, instead, **rest).qdd, solution.qdd) < ELIMINATION


def pairs(tree, names, rng):
    """Constraints of every type, axes and pair of ends on a tree with these links."""
    a, b = (random_frame(rng, name) for name in names)
    ground = random_frame(rng, "world")
    K = rng.normal(size=(4, 6))
    out = []
    for axes in ("local", "world"):
        for ends in ((a, None), (a, b), (a, ground), (ground, b)):
            out.append(ds.Weld(*ends, axes=axes))
            out.append(ds.Point(*ends, axes=axes))
            out.append(ds.Hinge(*ends, rng.normal(size=3), axes=axes))
        out.append(ds.Rows(a, K, axes=axes))
    return out


def two_branches(seed=11):
    """Floating tree with two branches, of joints of five kinds where no other is asked for."""
    leaves = list[int]()
    while len(leaves) < 2:
        m = some_mechanism(seed, 6, "floating")
        leaves, seed = [i for i in range(m.tree.n_links) if not m.tree.children[i] and i], seed + 100
    return m, [m.tree.link_names[i] for i in (leaves[0], leaves[-1])]


CASES = range(len(pairs(None, ("a", "b"), np.random.default_rng(0))))


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_rows_keep_their_velocity(case):
    """Derivative of the rows' velocity along the motion, at velocities that violate the constraint: the target.

    Points in their own frame's axes: the derivative of their components in axes that stand still.
    """
    m, names = two_branches()
    tree, rng = m.tree, m.rng
    c = pairs(tree, names, rng)[case]
    q, v, tau = state(tree, rng)
    target = rng.normal(size=c.size)
    solution = ds.forward_dynamics(tree, q, v, tau, c, targets=[target])
    assert solution.status == ds.DynamicsStatus.SOLVED
    turn = np.eye(c.size)
    if isinstance(c, ds.Point) and c.axes == "local":
        turn = ds.forward_kinematics(tree, q, c.first)[:3, :3].T
        c = ds.Point(c.first, c.second, axes="world")
    change = rate(lambda q, v: ds.jacobian(tree, c, q) @ v, tree, q, v, solution.qdd)
    assert turn @ change == pytest.approx(target, abs=DIFFERENCE * (1 + np.abs(solution.qdd).max() ** 2))


def vee(A):
    return np.array([A[2, 1], A[0, 2], A[1, 0]])


def position_error(tree, c, q, pose):
    """By the definition in `relative`, from poses: in the axes of the first frame, then along the rows."""
    A = ds.forward_kinematics(tree, q, c.first)
    B = pose if c.second is None else ds.forward_kinematics(tree, q, c.second)
    R = A[:3, :3].T @ B[:3, :3]
    n = c.free_axis
    sine, cosine = (0.5 * vee(R.T - R), 0.5 * (np.trace(R) - 1)) if n is None else (np.cross(R @ n, n), n @ R @ n)
    turned = sine / np.sqrt(0.5 * (1 + cosine))  # 2 sin ½ θ
    e = np.concatenate([A[:3, :3].T @ (A[:3, 3] - B[:3, 3]), turned])
    if c.axes == "world":
        e[:3] = A[:3, :3] @ e[:3]
    if c.angular_axes == "world":
        e[3:] = A[:3, :3] @ e[3:]
    return c.rows @ e


def as_pose(T):
    return np.concatenate([T[:3, 3], matrix_to_quaternion(T[:3, :3])])


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_stabilisation(case):
    m, names = two_branches()
    tree, rng = m.tree, m.rng
    c = pairs(tree, names, rng)[case]
    q, v, tau = state(tree, rng)
    stable = ds.Baumgarte(3.0, 0.7)
    target = rng.normal(size=c.size)
    solution = ds.forward_dynamics(tree, q, v, tau, c, targets=[target], baumgarte=stable)
    error_rate = 2 * 0.7 * 3.0 * (ds.jacobian(tree, c, q) @ v)
    asked = target - error_rate
    if c.second is not None:
        asked = asked - 9.0 * position_error(tree, c, q, None)
    assert error(solution.qdd, ds.forward_dynamics(tree, q, v, tau, c, targets=[asked]).qdd) < AGREEMENT

    # to the world, with a pose; and where the frames coincide, the error's rate is the velocity along the rows
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = random_rotation(rng), rng.normal(size=3)
    there = ds.forward_kinematics(tree, q, c.first)
    if isinstance(c, ds.Rows):
        return
    if c.second is None:
        solution = ds.forward_dynamics(tree, q, v, tau, c, baumgarte=[stable], poses=[as_pose(T)])
        asked = -error_rate - 9.0 * position_error(tree, c, q, T)
        assert error(solution.qdd, ds.forward_dynamics(tree, q, v, tau, c, targets=[asked]).qdd) < AGREEMENT
        here = there
    else:
        at = np.linalg.inv(ds.forward_kinematics(tree, q, c.second.link)) @ there
        c = type(c)(c.first, ds.Frame(c.second.link, at[:3, 3], at[:3, :3]), axes=c.axes)
        here = None

    def own(q, v):
        def errors(bound, problem):
            pose = None if here is None else tuple(map(bound.ops.constant, (here[:3, :3], here[:3, 3:])))
            ((own, at),) = problem.with_goals([Goal(pose=pose)]).each_constraint()
            return [own.position(at)]

        return make_motion(tree, q, v, None, c)[0].made(errors)[0][:, 0]

    assert np.abs(own(q, v)).max() < 1e-14
    change = rate(own, tree, q, v, np.zeros(tree.nv))
    assert change == pytest.approx(ds.jacobian(tree, c, q) @ v, abs=DIFFERENCE * 10)


@pytest.mark.slow
def test_stabilised_pendulum():
    """An arm whose tip is pulled to a place in the world goes there."""
    arm = ds.mechanisms.chain(6)
    goal = ds.forward_kinematics(arm, arm.random(1), "link6")
    q, v = arm.random(0), np.zeros(6)
    for _ in range(200):
        solution = ds.forward_dynamics(arm, q, v, -v, ds.Point("link6"), baumgarte=10.0, poses=[goal[:3, 3]])
        v = v + 0.02 * solution.qdd
        q = arm.integrate(q, 0.02 * v)
    # what is left falls with exp(−10 t); steps of h of an arm of 1 m that still moves add h v² / 10
    left = 1e-6 + 0.02 * np.abs(v).max() ** 2 / 10.0
    assert ds.forward_kinematics(arm, q, "link6")[:3, 3] == pytest.approx(goal[:3, 3], abs=left)


@pytest.mark.slow
def test_what_comes_with_each_call():
    m, (first, second) = two_branches()
    tree, rng = m.tree, m.rng
    q, v, tau = state(tree, rng, (3,))
    K, p, x = rng.normal(size=(2, 6)), rng.normal(size=(3, 3)), np.array([2.0, 0.1, 0.2, 0.3, 2, 0, 2, 0, 0, 2])
    R = random_rotation(rng)
    later = [ds.Point(ds.Frame(first, given="position"), ds.Frame(second, given="placement")), ds.Rows(second, 2)]
    placements = [p, np.concatenate([p[0], matrix_to_quaternion(R)])]
    more = {"baumgarte": 2.0, "payloads": {first: x}}
    solution = ds.forward_dynamics(tree, q, v, tau, later, rows=[K], placements=placements, **more)
    for k in range(3):
        now = [ds.Point(ds.Frame(first, p[k]), ds.Frame(second, p[0], R)), ds.Rows(second, K)]
        alone = ds.forward_dynamics(tree, q[k], v[k], tau[k], now, **more)
        assert error(solution.qdd[k], alone.qdd) < AGREEMENT
    assert np.abs(solution.dynamics_residual()).max() < 1e-9
    heavy = ds.kinetic_energy(tree, q, v, payloads={first: x})
    M = ds.mass_matrix(tree, q, payloads={first: x})
    assert heavy == pytest.approx(0.5 * np.einsum("ki,kij,kj->k", v, M, v))
    assert np.all(ds.potential_energy(tree, q, gravity=(0, 0, -1), payloads={"world": x}) == ds.potential_energy(
        tree, q, gravity=(0, 0, -1)
    ))  # fmt: skip


# -- dependent rows ------------------------------------------------------------------------------------------------


def least_squares(tree, constraints, q, v, tau, asked):
    """Reference: pseudo-inverse of G; ``asked`` is γ."""
    M, J = ds.mass_matrix(tree, q), ds.jacobian(tree, constraints, q)
    free = np.linalg.solve(M, tau - ds.bias_force(tree, q, v))
    f = np.linalg.pinv(J @ np.linalg.solve(M, J.T), rcond=1e-10, hermitian=True) @ (asked - J @ free)
    return free + np.linalg.solve(M, J.T @ f), f


FOOT = [(x, y, 0.0) for x in (-0.1, 0.1) for y in (-0.05, 0.05)]


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("method", CONSTRAINED)
def test_redundant_rows(method):
    """At rest, and where targets contradict one another: least squares, by forces of least norm."""
    legs, arm = ds.mechanisms.star(2, 4), ds.mechanisms.chain(4)
    rng = np.random.default_rng(0)
    near = LEAST_SQUARES if method == "proximal" else ELIMINATION
    four = [ds.Point(ds.Frame("branch1_4", p)) for p in FOOT]
    door = [ds.Hinge("branch1_4", "branch2_4"), ds.Hinge(ds.Frame("branch1_4", (0, 0, 0.2)), ds.Frame("branch2_4"))]
    for robot, constraints, rank in (
        (legs, four, 6), (legs, [ds.Weld("branch1_4"), ds.Rows("branch1_4", rng.normal(size=(8, 6)))], 6),
        (legs, door, 5), (legs, [ds.Weld("world"), ds.Point("branch2_4")], 3), (arm, [ds.Weld("link4")], 4),
    ):  # fmt: skip
        q, v, tau = state(robot, rng, (2,))
        if method == "cluster-aba" and constraints is door:  # the second hinge is open wherever the first is closed
            with pytest.raises(ds.errors.ConstraintError, match="got none that do for 'star2x4'"):
                ds.forward_dynamics(robot, q, v, tau, constraints, method=method)
            continue
        J, still = ds.jacobian(robot, constraints, q), ds.DynamicsStatus.REDUNDANT
        for kind in (still, ds.DynamicsStatus.CONFLICTING):
            targets = [rng.normal(size=c.size) * (kind is not still) for c in constraints]
            found = ds.forward_dynamics(robot, q, 0 * v, tau, constraints, method=method, targets=targets)
            assert np.all(found.status == kind) and np.all(found.rank == rank)
            assert np.abs(found.dynamics_residual()).max() < 1e-8
            left = (J @ found.qdd[..., None])[..., 0] - np.concatenate(targets)
            assert error(found.constraint_residual(), left) < near
            if method == "proximal":
                assert error(found.residual, np.linalg.norm(left, axis=-1)) < near
                assert found.iterations.shape == (2,) and 0 < found.iterations.max() < 30
            for k in range(2):
                qdd, f = least_squares(robot, constraints, q[k], 0 * v[k], tau[k], np.concatenate(targets))
                assert error(found.qdd[k], qdd) < near
                assert error(np.concatenate([part[k] for part in found.forces]), f) < near


def dependent_on_earlier(J):
    """For each row, whether it depends on those before it, by ranks of the rows so far."""
    ranks = [np.linalg.matrix_rank(J[:k], tol=1e-6) for k in range(len(J) + 1)]
    return np.diff(ranks) == 0


FOUR_POINTS = [ds.Point(ds.Frame("branch1_3", p)) for p in FOOT]
DOOR = [ds.Hinge(ds.Frame("branch1_3", (0, 0, z)), ds.Frame("branch2_3")) for z in (0.0, 0.2)]
EIGHT_ROWS = [ds.Rows("branch1_3", np.random.default_rng(5).normal(size=(8, 6)))]
NAILED = [ds.Weld("world"), ds.Point("branch2_3"), ds.Point("branch2_3")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("constraints", "method"),
    [
        (FOUR_POINTS, "pv-early"), (FOUR_POINTS, "kkt"), (DOOR, "ltl"), (DOOR, "proximal"), (EIGHT_ROWS, "pv-early"),
        (EIGHT_ROWS, "ltl"), (NAILED, "kkt"), (NAILED, "proximal"),
    ],
    ids=[f"{rows}-{n}" for rows in ("foot", "door", "rows", "nailed") for n in range(2)],
)  # fmt: skip
def test_which_rows_are_redundant(constraints, method):
    """The rows that depend on those before them; without them the others are independent and give the same motion."""
    robot = ds.mechanisms.star(2, 3)
    q, v, tau = state(robot, np.random.default_rng(0), (2, 3))
    solution = ds.forward_dynamics(robot, q, 0 * v, tau, constraints, method=method)
    J = ds.jacobian(robot, constraints, q)
    assert solution.redundant_rows.shape == J.shape[:-1] and solution.redundant_rows.dtype == bool
    assert np.array_equal(np.count_nonzero(~solution.redundant_rows, axis=-1), solution.rank)
    for k in np.ndindex(2, 3):
        assert np.array_equal(solution.redundant_rows[k], dependent_on_earlier(J[k])), k
    if constraints is EIGHT_ROWS:
        assert solution.redundant_rows[0, 0].tolist() == [False] * 6 + [True] * 2
        kept = ds.forward_dynamics(robot, q, 0 * v, tau, ds.Rows("branch1_3", constraints[0].rows[:6]))
        assert error(kept.qdd, solution.qdd) < ELIMINATION
        assert "constraint 0, Rows('branch1_3', 8 rows)" in solution.report()
        assert "dependent on rows before them: 6 (at 6), 7 (at 6)" in solution.report()
    if constraints is NAILED:
        assert solution.redundant_rows[1, 2].tolist() == [True] * 6 + [False] * 3 + [True] * 3


def test_report():
    """Of a batch, of one state, of none, without constraints; where numbers overflow, no rows are named."""
    arm = ds.mechanisms.chain(3)
    q, v = arm.random(np.random.default_rng(0), 3), np.zeros((3, 3))
    twice = [ds.Point("link3"), ds.Point("link3")]
    solution = ds.forward_dynamics(arm, q, v, v, twice)
    assert isinstance(solution, ds.ForwardDynamics)
    assert solution.report().startswith("REDUNDANT at 3 of 3 state(s): rows are redundant here")
    assert "\nconstraint 1, Point('link3', 3 rows): dependent on rows before them: 0 (at 3)" in solution.report()
    assert not solution.redundant_rows.flags.writeable
    one = ds.forward_dynamics(arm, q[0], v[0], v[0], twice)
    assert "them: 0, 1, 2" in one.report() and one.redundant_rows.shape == (6,)
    assert ds.forward_dynamics(arm, q, v, v).report().startswith("SOLVED at 3 of 3 state(s): every constraint holds")
    assert ds.forward_dynamics(arm, q[:0], v[:0], v[:0], twice).report() == ""
    with np.errstate(all="ignore"):
        failed = ds.forward_dynamics(arm, q, 1e200 + v, v, twice)
    assert failed.report().startswith("FAILED at 3") and not failed.redundant_rows.any()
    found = ds.dynamics_derivatives(arm, q, v, v, twice)
    assert np.array_equal(found.redundant_rows, solution.redundant_rows)


@pytest.mark.slow
def test_proximal_iterations_find_least_squares_where_rows_conflict():
    """What no force can give is taken off, and iterations start again."""
    tree, rng = ds.mechanisms.chain(7), np.random.default_rng(0)
    x = tree.random(rng, 3), rng.normal(size=(3, 7)), rng.normal(size=(3, 7))
    for constraints in (
        [ds.Weld("link7"), ds.Point("link7")],
        [ds.Weld("link7"), ds.Weld("link6")],
        [ds.Weld("link3")],
    ):
        found, known = (ds.forward_dynamics(tree, *x, constraints, method=m) for m in ("proximal", "ltl"))
        assert found.status.tolist() == known.status.tolist() == [ds.DynamicsStatus.CONFLICTING] * 3
        assert error(found.qdd, known.qdd) < 1e-10


@pytest.mark.slow
def test_a_fixed_number_of_proximal_iterations():
    """What is compiled: least squares too where rows are dependent and contradict, without forces that do nothing."""
    robot = ds.mechanisms.star(2, 4)
    q, v, tau = state(robot, np.random.default_rng(0))
    four = [ds.Point(ds.Frame("branch1_4", p)) for p in FOOT]
    for targets in ([np.zeros(3)] * 4, [np.ones(3), -np.ones(3), np.arange(3.0), np.zeros(3)]):
        motion, _ = make_motion(robot, q, 0 * v, tau, four, targets=targets)
        found = by_method(motion, "proximal")
        qdd, f = least_squares(robot, four, q, 0 * v, tau, np.concatenate(targets))
        assert error(found.qdd[:, 0], qdd) < AGREEMENT and error(found.forces[:, 0], f) < ELIMINATION


@pytest.mark.slow
@pytest.mark.parametrize("s", [1.0, 100.0, 1e4])
def test_proximal_programs_take_rows_of_any_size(s):
    """Independent and redundant ones: accelerations are those of direct calls."""
    arm = ds.mechanisms.chain(7)
    states = state(arm, np.random.default_rng(0))
    for rows in (
        np.diag([1, s, 1 / s, s, 1 / s, 1]),
        [[1 / s, 0, 0, 0, 0, 0], [0, s, 0, 0, 0, 0], [1 / s, s, 0, 0, 0, 0]],
    ):
        motion, _ = make_motion(arm, *states, ds.Rows("link7", rows))
        found = by_method(motion, "proximal")
        expected = ds.forward_dynamics(arm, *states, ds.Rows("link7", rows), method="kkt")
        assert error(found.qdd[:, 0], expected.qdd) < ELIMINATION


@pytest.mark.parametrize("bend", [1e-2, 1e-3, 1e-4, 3e-5, 1e-5, 1e-6])
def test_proximal_programs_of_a_leg_that_is_almost_straight(bend):
    """The solution is right, or says that it is not; direct calls are right."""
    leg = ds.mechanisms.pendulum(2)
    given = leg, np.array([0.3, bend]), np.zeros(2), np.ones(2)
    foot, targets = ds.Rows(ds.Frame("rod2", (0, 0, -0.5)), [[1, 0, 1, 0, 0, 0], [1, 0, -1, 0, 0, 0]]), [[1.0, -2.0]]
    expected = ds.forward_dynamics(*given, foot, targets=targets, method="kkt")
    direct = ds.forward_dynamics(*given, foot, targets=targets, method="proximal")
    assert direct.status == expected.status and error(direct.qdd, expected.qdd) < 1e-6
    motion, _ = make_motion(*given, [foot], targets=[np.array(targets[0])])
    found, estimate = by_method(motion, "proximal"), error_estimates(motion, "proximal")
    assert error(found.qdd[:, 0], expected.qdd) < 1e-6 or estimate > 1e-6
    if bend >= 1e-3:
        assert estimate < 1e-6


def test_conflicting_rows():
    robot = ds.mechanisms.star(2, 4)
    q, v, tau = state(robot, np.random.default_rng(0))
    twice = [ds.Weld("branch1_4"), ds.Weld("branch1_4")]
    solution = ds.forward_dynamics(robot, q, 0 * v, tau, twice, targets=[np.ones(6), -np.ones(6)])
    assert solution.status == ds.DynamicsStatus.CONFLICTING and "contradict" in solution.status[()].text
    assert solution.constraint_residual() == pytest.approx([-1] * 6 + [1] * 6)
    qdd, _ = least_squares(robot, twice, q, 0 * v, tau, np.repeat([1.0, -1.0], 6))
    assert error(solution.qdd, qdd) < ELIMINATION
    nailed = ds.forward_dynamics(robot, q, v, tau, ds.Weld("world"), targets=[np.ones(6)])
    assert nailed.status == ds.DynamicsStatus.CONFLICTING and nailed.rank == 0
    assert np.array_equal(nailed.forces[0], np.zeros(6))
    assert "CONFLICTING" in repr(nailed)


ROW = 1e-9
"""Part of what a row is made of that it may be violated by where every constraint is said to hold."""


def violation(tree, constraints, states, solution):
    """Residual of each row relative to the size of its terms, and to that of all rows, which has round-off."""
    J, left = ds.jacobian(tree, constraints, states[0]), np.abs(solution.constraint_residual())
    gamma = (J @ solution.qdd[..., None])[..., 0] - solution.constraint_residual()
    moving = np.abs(solution.qdd) + np.abs(ds.forward_dynamics(tree, *states).qdd)
    size = np.abs(gamma) + (np.abs(J) @ moving[..., None])[..., 0]
    length = np.linalg.norm(J, axis=-1)
    return left / (size + 1e-4 * length * np.linalg.norm(moving, axis=-1)[..., None])


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("s", [1.0, 10.0, 100.0, 1e3, 1e4, 1e6])
@pytest.mark.parametrize("method", CONSTRAINED)
def test_redundant_rows_of_different_size(method, s):
    """The third row is the sum of the others; forces along (1, 1, -1) do nothing."""
    arm = ds.mechanisms.chain(7)
    states = state(arm, np.random.default_rng(0), (5,))
    rows = ds.Rows("link7", [[1 / s, 0, 0, 0, 0, 0], [0, s, 0, 0, 0, 0], [1 / s, s, 0, 0, 0, 0]])
    solution = ds.forward_dynamics(arm, *states, rows, method=method)
    assert np.all(solution.status == ds.DynamicsStatus.REDUNDANT) and np.all(solution.rank == 2)
    assert violation(arm, rows, states, solution).max() < ROW
    f = solution.forces[0]
    if s <= 1e3:  # beyond, forces of least norm have no digits left
        assert np.abs(f @ [1, 1, -1]).max() < ELIMINATION * np.abs(f).max()
        assert np.abs(solution.dynamics_residual()).max() < ELIMINATION * s


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "method"), [(0, "proximal"), (1, "proximal"), (2, "kkt"), (3, "kkt")])
def test_sizes_of_rows_decide_nothing(seed, method):
    """Accelerations, status and redundant rows are those of rows of one size, if the rows do not contradict."""
    rng = np.random.default_rng(seed)
    tree = some_mechanism(seed, 6, ("fixed", "floating")[seed % 2]).tree
    K = rng.normal(size=(4, 6))
    K = np.concatenate([K, rng.normal(size=(3, 4)) @ K])[rng.permutation(7)]
    states = state(tree, rng, (3,))
    found = []
    for sizes in (np.ones((7, 1)), 10.0 ** rng.uniform(-4, 4, (7, 1))):
        rows = [ds.Rows("l5", sizes * K), ds.Rows("l3", sizes[::-1] * K)]
        found.append(ds.forward_dynamics(tree, *states, rows, method=method))
        held = found[-1].status == ds.DynamicsStatus.REDUNDANT
        assert violation(tree, rows, states, found[-1])[held].max(initial=0.0) < ROW
    alike, unlike = found
    assert np.array_equal(alike.status, unlike.status) and np.array_equal(alike.redundant_rows, unlike.redundant_rows)
    assert error(alike.qdd * held[:, None], unlike.qdd * held[:, None]) < ELIMINATION


def test_a_small_row_that_is_contradicted():
    arm = ds.mechanisms.chain(7)
    q, v, tau = state(arm, np.random.default_rng(0))
    rows = ds.Rows("link7", [[1e-4, 0, 0, 0, 0, 0], [1e-4, 0, 0, 0, 0, 0], [0, 1e4, 0, 0, 0, 0]])
    for asked, status in (([1e-4, 1e-4, 0], "REDUNDANT"), ([1e-4, 1.1e-4, 0], "CONFLICTING")):
        assert ds.forward_dynamics(arm, q, v, tau, rows, targets=[asked], method="kkt").status[()].name == status


def planar_arm():
    """An arm whose tip cannot be moved along itself where it is stretched; states of which the second one is bent."""
    links = [RawLink(name, 1.0, np.array([0.5, 0, 0]), 0.1 * np.eye(3)) for name in ("base", "upper", "lower")]
    joints = [
        RawJoint("shoulder", joint_kinds.REVOLUTE, "base", "upper"),
        RawJoint("elbow", joint_kinds.REVOLUTE, "upper", "lower", position=np.array([1.0, 0, 0])),
    ]
    tip = ds.Rows(ds.Frame("lower", (1.0, 0, 0)), np.eye(6)[:2], axes="world")
    q = np.array([[0.3, 0.0], [0.3, 0.5], [0.1, 0.0]])
    return build_tree("arm", links, joints), [tip], q, np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 0.0]]), np.ones((3, 2))


def test_status_of_each_state():
    """A stretched planar arm cannot move its tip along itself: the row for that holds only while the arm rests."""
    arm, (tip,), q, v, _ = planar_arm()
    solution = ds.forward_dynamics(arm, q, v, np.ones(2), tip, gravity=(1.0, -9.81, 0))
    assert [s.name for s in solution.status] == ["REDUNDANT", "SOLVED", "CONFLICTING"]
    assert solution.rank.tolist() == [1, 2, 1]
    assert solution.redundant_rows.tolist() == [[False, True], [False, False], [False, True]]
    held = np.abs(solution.constraint_residual()).max(axis=-1)
    assert held[0] < 1e-12 and held[1] < 1e-12 and held[2] > 0.1
    assert np.abs(solution.dynamics_residual()).max() < 1e-12
    for k in (0, 2):
        asked = -rate(lambda q, v: ds.jacobian(arm, tip, q) @ v, arm, q[k], v[k], np.zeros(2))
        free = np.linalg.solve(ds.mass_matrix(arm, q[k]), 1.0 - ds.bias_force(arm, q[k], v[k], gravity=(1.0, -9.81, 0)))
        J = ds.jacobian(arm, tip, q[k])
        best = np.linalg.lstsq(J, asked - J @ free, rcond=1e-8)[0]
        assert J @ (solution.qdd[k] - free) == pytest.approx(J @ best, abs=1e-6)


def test_overflow_is_reported():
    arm = ds.mechanisms.chain(6)
    v = np.zeros((2, 6))
    v[1] = 1e200
    for method in ("auto", *ds.DYNAMICS_METHODS):
        constraints = () if method in UNCONSTRAINED else ds.Point("link6")
        how = {"method": method, **({"compliance": 0.1} if method in SOFT else {})}
        solution = ds.forward_dynamics(arm, arm.random(0), v, np.zeros(6), constraints, **how)
        assert [s.name for s in solution.status] == ["SOLVED", "FAILED"]
        assert np.all(np.isfinite(solution.qdd[0]))


# -- what is absent ----------------------------------------------------------------------------------------------------


def operations(motion, method="aba"):
    qdd = DYNAMICS_ALGORITHMS[method](motion).qdd
    return motion.ops.count(qdd.nodes())


def test_what_is_absent_costs_nothing():
    tree = ds.mechanisms.humanoid()
    ops = TraceOps()
    q, v, tau, d = (ops.vector(n) for n in (tree.nq, tree.nv, tree.nv, tree.nv))

    def motion(v=v, tau=tau, gravity=(0, 0, -9.81), **more):
        return DynamicsProblem(
            Problem(ops, tree, (), q), v, tau, gravity=ops.constant(np.array(gravity)[:, None]), **more
        )

    still = motion(v=None)
    assert not any(ops.nonzero(p).any() for p in [*still.p, *still.c, *still.V])
    assert not ops.nonzero(motion().c[0]).any()  # no velocity product at the base
    usual = operations(motion())
    assert operations(motion(gravity=(0, 0, 0))) < usual
    assert operations(still) < operations(motion(tau=None)) < usual < operations(motion(damping=d))
    assert operations(motion(damping=np.zeros(tree.nv))) == usual


# -- bad input -----------------------------------------------------------------------------------------------------

NAN = np.array([0.0, np.nan, 0.0])


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"q": NAN}, ConfigurationError, "q: expected finite numbers, got nan"),
        ({"v": NAN}, ConfigurationError, "v: expected finite numbers, got nan"),
        ({"tau": NAN}, ConfigurationError, "tau: expected finite numbers, got nan"),
        ({"v": np.zeros(4)}, ConfigurationError, r"v: expected shape \(\.\.\., 3\)"),
        ({"tau": np.zeros((2, 3)), "v": np.zeros((3, 3))}, ConfigurationError, "tau: expected leading axes"),
        ({"tau": "none"}, ConfigurationError, "tau: expected an array of real numbers"),
        ({"gravity": -9.81}, ConfigurationError, r"gravity: expected finite numbers of shape \(\.\.\., 3\)"),
        ({"gravity": (0, 0, np.inf)}, ConfigurationError, "gravity: .*inf at index 2"),
        ({"damping": [-1, 0, 0]}, ConfigurationError, "damping: expected coefficients that are not negative"),
        ({"damping": "some"}, ConfigurationError, "damping: expected numbers or 'input'"),
        ({"damping": None}, ConfigurationError, "damping: expected numbers or 'input', got None.*passive='none'"),
        ({"passive": None}, UnknownNameError, r"passive: expected one of 2 names \(model, none\), got None"),
        ({"damping": [1, 2]}, ConfigurationError, "damping: expected shape"),
        ({"wrenches": np.zeros(6)}, ConfigurationError, "wrenches: expected a mapping"),
        ({"wrenches": {"link9": np.zeros(6)}}, UnknownNameError, "Did you mean"),
        ({"wrenches": {"link3": np.zeros(3)}}, ConfigurationError, "wrench on 'link3': .*shape"),
        ({"method": "abba"}, UnknownNameError, "method.*Did you mean 'aba'"),
        ({"method": "pv-earliest"}, UnknownNameError, "method"),
        ({"method": 3}, UnknownNameError, "method"),
        ({"method": "aba", "constraints": ds.Point("link3")}, ConstraintError, "none with the method 'aba'.*Use 'kkt'"),
        ({"constraints": ds.Point("link3"), "targets": [NAN]}, ConstraintError, "target of Point.*nan at index"),
        ({"constraints": ds.Point("link3"), "targets": [np.zeros(6)]}, ConstraintError, r"shape \(\.\.\., 3\)"),
        ({"constraints": ds.Point("link3"), "targets": np.zeros(3)}, ConstraintError, "targets: expected a list"),
        ({"constraints": ds.Point("link3"), "targets": []}, ConstraintError, "targets: .*each of 1 .*got 0"),
        ({"constraints": ds.Point("link3"), "baumgarte": -1.0}, ConfigurationError, "frequency of Baumgarte"),
        ({"constraints": ds.Point("link3"), "baumgarte": [1, 2]}, ConstraintError, "baumgarte: .*each of 1"),
        ({"constraints": ds.Weld("link3"), "poses": [np.zeros(3)]}, ConstraintError, "pose of Weld.*, 7"),
        ({"constraints": ds.Weld("link3"), "poses": [np.zeros(7)]}, ConfigurationError, "quaternion of the pose"),
        ({"constraints": ds.Point("link3", "link1"), "poses": [np.zeros(3)]}, ConstraintError, "between two links"),
        ({"constraints": ds.Rows("link3", np.eye(6)), "poses": [np.zeros(7)]}, ConstraintError, "None for Rows"),
    ],
)
def test_bad_input(change, kind, message):
    arm = ds.mechanisms.chain(3)
    given = {"q": np.zeros(3), "v": np.zeros(3), "tau": np.zeros(3), **change}
    with pytest.raises(kind, match=message):
        ds.forward_dynamics(arm, **given)


def test_bad_input_elsewhere():
    arm = ds.mechanisms.chain(3)
    zero = np.zeros(3)
    with pytest.raises(ConfigurationError, match="qdd: expected finite"):
        ds.inverse_dynamics(arm, zero, zero, NAN)
    with pytest.raises(ConfigurationError, match="v: expected finite"):
        ds.kinetic_energy(arm, zero, NAN)
    with pytest.raises(ModelError, match=r"delassus\.Tree"):
        ds.centre_of_mass("talos", zero)
    with pytest.raises(UnknownNameError, match="Did you mean"):
        ds.forward_kinematics(arm, zero, "link33")
    with pytest.raises(ConfigurationError, match="names or Frames"):
        ds.forward_kinematics(arm, zero, 3)
    with pytest.raises(ConfigurationError, match="damping of Baumgarte"):
        ds.Baumgarte(10.0, np.nan)
    solution = ds.forward_dynamics(arm, zero, zero, zero)
    with pytest.raises(ValueError, match="read-only"):
        solution.qdd[0] = 1
