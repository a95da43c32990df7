"""Derivatives of dynamics: central differences on the manifold, Pinocchio, identities, dependent rows, kernels."""

from __future__ import annotations

import zlib
from dataclasses import fields
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

import delassus as ds
from delassus.algorithms.dynamics.derivatives.accelerations import DERIVATIVES
from delassus.errors import ConfigurationError, UnknownNameError
from delassus_studies.cases import benchmark_cases
from delassus_studies.peers.pinocchio import pinocchio_contacts
from internals import (
    NumpyOps,
    Problem,
    RawJoint,
    RawLink,
    SparseFactor,
    build_tree,
    joint_kinds,
    make_program,
    matrix_to_quaternion,
    tree_to_pinocchio,
)
from random_trees import some_constraints, some_mechanism, with_rotors
from test_dynamics import as_pose, everything, pairs, planar_arm, state, two_branches
from tools import AGREEMENT, direct, error, random_frame, random_rotation, requested

STEP = 1e-4
"""Step of differences of fourth order, in rad or m: the fifth derivative times its fourth power, and 1e-16 over it."""

DIFFERENCE = 1e-6
"""Differences, relative to the largest entry."""

WELL_CONDITIONED = 1e4
"""Condition of G at unit diagonal: its round-off is in the differences, its rates in their truncation."""

SOLVED = ds.DynamicsStatus.SOLVED
PAYLOAD = np.array([2.0, 0.1, 0.2, 0.3, 2, 0, 2, 0, 0, 2])


def stacked(solution):
    """Accelerations and forces in one vector."""
    return np.concatenate([solution.qdd, *solution.forces], axis=-1)


def differences(tree, q, v, tau, constraints, options):
    """Derivatives of accelerations and forces with q, v and tau, each ((nv + m) × nv), by differences: one batch."""
    nv = tree.nv
    at = np.zeros((3, 4, nv, nv))  # changes of q, v and tau, near and far, up and down, along each axis
    steps = STEP * np.array([1.0, -1.0, 2.0, -2.0])[:, None, None] * np.eye(nv)

    def changed(which):
        return np.stack([steps if k == which else at[0] for k in range(3)])

    values = ds.forward_dynamics(
        tree, tree.integrate(np.broadcast_to(q, (*at.shape[:-1], tree.nq)), changed(0)), v + changed(1),
        tau + changed(2), constraints, method="kkt", **options,
    )  # fmt: skip
    up, down, up_far, down_far = np.moveaxis(stacked(values), 1, 0)
    return ((8 * (up - down) - (up_far - down_far)) / (12 * STEP)).mT


def is_regular(tree, constraints, q, given):
    if not constraints:
        return True
    G = ds.delassus(tree, constraints, q, **given)
    d = np.sqrt(np.maximum(np.diagonal(G), 0.0))
    return d.min() > 1e-6 and np.linalg.cond(G / np.outer(d, d)) < WELL_CONDITIONED


def check(tree, q, v, tau, constraints, **options):
    """Compare with differences, and with the solution; returns whether the rows are well conditioned here."""
    given = {name: options[name] for name in ("rows", "placements", "payloads") if name in options}
    if not is_regular(tree, constraints, q, given):
        return False
    found = ds.dynamics_derivatives(tree, q, v, tau, constraints, **options)
    assert found.status == SOLVED
    solution = ds.forward_dynamics(tree, q, v, tau, constraints, method="kkt", **options)
    assert error(stacked(found), stacked(solution)) < AGREEMENT
    for with_what, expected in zip(
        ("dq", "dv", "dtau"), differences(tree, q, v, tau, constraints, options), strict=True
    ):
        for name, part in ((f"dqdd_{with_what}", expected[: tree.nv]), (f"df_{with_what}", expected[tree.nv :])):
            assert error(getattr(found, name), part) < DIFFERENCE, (name, constraints)
    return True


# -- differences ---------------------------------------------------------------------------------------------------


def as_regular(m, candidates, q, **given):
    """As many of the constraints as stay well conditioned together, each with its rows if they come with the call."""
    kept, rows = [], []
    for c, K in candidates:
        more = [] if K is None else [K]
        if is_regular(m.tree, [*kept, c], q, {"rows": [*rows, *more], **given}):
            kept.append(c)
            rows.extend(more)
    return kept, rows


def goals(m, constraints):
    """Targets, stabilisation and poses of constraints, where they can have them."""
    rng, n = m.rng, len(constraints)
    targets = [None if rng.random() < 0.3 else rng.normal(size=c.size) for c in constraints]
    stable = [(None, 2.0, ds.Baumgarte(3.0, 0.7))[rng.integers(3)] for _ in range(n)]
    poses = [None] * n
    for k, c in enumerate(constraints):
        if c.second is None and not isinstance(c, ds.Rows) and rng.random() < 0.7:
            pose = np.concatenate([rng.normal(size=3), matrix_to_quaternion(random_rotation(rng))])
            poses[k] = pose if c.rigid or rng.random() < 0.5 else pose[:3]
    return {"targets": targets, "baumgarte": stable, "poses": poses}


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(14))
def test_random_mechanisms(seed):
    """Every kind of joint and constraint, all inputs, velocities that violate the constraints."""
    rng = np.random.default_rng(seed)
    m = some_mechanism(seed, int(rng.integers(4, 8)), ("fixed", "floating")[seed % 2])
    q, v, tau, rest = everything(m)
    made, rows = some_constraints(m)
    rest_of = iter(rows)
    payloads = {str(m.rng.choice(m.names)): PAYLOAD}
    kept, rows = as_regular(m, [(c, next(rest_of) if c.rows is None else None) for c in made], q, payloads=payloads)
    assert check(m.tree, q, v, tau, kept, rows=rows, payloads=payloads, **rest, **goals(m, kept))


def test_random_mechanisms_have_constraints():
    """The sample above is of some worth."""
    kept = 0
    for seed in range(14):
        rng = np.random.default_rng(seed)
        m = some_mechanism(seed, int(rng.integers(4, 8)), ("fixed", "floating")[seed % 2])
        q, *_ = everything(m)
        kept += len(as_regular(m, [(c, None) for c in some_constraints(m)[0] if c.rows is not None], q)[0])
    assert kept >= 14


@pytest.mark.turns(4)
@pytest.mark.slow
@pytest.mark.parametrize("kind", joint_kinds.KINDS, ids=lambda kind: kind.name)
def test_joint_kinds(kind):
    """A tree of one kind of joint and revolute ones: alone, held at one end, and closed to a loop; with armature."""
    tree, rng = kinds_in_turn(kind)
    tree = with_rotors(tree, rng)
    q, v, tau = state(tree, rng)
    a, b = random_frame(rng, "l3"), random_frame(rng, "l7")
    done = [
        check(tree, q, v, tau, constraints, damping=rng.uniform(0, 1, tree.nv))
        for constraints in ([], [ds.Rows(a, rng.normal(size=(2, 6)))], [ds.Weld(a, b)])
    ]
    assert done[0] and sum(done) >= 2


def kinds_in_turn(kind, n=7):
    """A tree of one kind of joint and revolute ones, of seven joints or the first of these, and a source of numbers."""
    root = ("fixed", "floating")[joint_kinds.KINDS.index(kind) % 2]
    rng = np.random.default_rng(zlib.crc32(f"{kind.name} {root}".encode()))
    links = [RawLink(f"l{k}", 1.0 + k, rng.uniform(-0.2, 0.2, 3), 0.1 * np.diag([1.0, 1.2, 1.5])) for k in range(n + 1)]
    kinds = [kind, joint_kinds.REVOLUTE, joint_kinds.REVOLUTE, kind, joint_kinds.REVOLUTE, kind, joint_kinds.REVOLUTE]
    parents = [0, 1, 2, 0, 4, 5, 6]
    joints = [
        RawJoint(
            f"j{k}", one, f"l{p}", f"l{k}", position=rng.normal(size=3) * 0.3, rotation=random_rotation(rng),
            axis=rng.normal(size=3), pitch=0.6 * (one is joint_kinds.SCREW),
        )
        for k, (one, p) in enumerate(zip(kinds[:n], parents, strict=False), start=1)
    ]  # fmt: skip
    return build_tree("tree", links, joints, root=root), rng


@cache
def places(where):
    """A mechanism and two of its links."""
    if where == "fixed":
        tree = ds.mechanisms.star(2, 5, root="fixed")
        return tree, ("branch1_5", "branch2_5"), np.random.default_rng(0)
    m, leaves = two_branches()
    if where == "two branches":
        return m.tree, leaves, m.rng
    tree = m.tree if where == "above one another" else ds.mechanisms.chain(6, root="floating")
    last = leaves[0] if where == "above one another" else tree.link_names[-1]
    above = tree.link_names[tree.support(tree.link_names.index(last))[0 if where == "base and tip" else 1]]
    return tree, ((last, above) if where == "above one another" else (above, last)), m.rng


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "axes"),
    [
        ("fixed", "world"),
        ("two branches", "local"),
        ("above one another", "local"),
        ("base and tip", "world"),
    ],
)  # fmt: skip
def test_every_constraint(where, axes):
    """To the world, from the world, across the base, both frames on one branch; frames turned; with stabilisation."""
    tree, names, rng = places(where)
    q, v, tau = state(tree, rng)
    T = np.eye(4)
    T[:3, :3], T[:3, 3] = random_rotation(rng), rng.normal(size=3)
    done = 0
    for c in (c for c in pairs(tree, names, rng) if c.axes == axes):
        options = {"baumgarte": ds.Baumgarte(3.0, 0.7), "targets": [rng.normal(size=c.size)]}
        if c.second is None and not isinstance(c, ds.Rows):
            options["poses"] = [as_pose(T)]
        done += check(tree, q, v, tau, c, **options)
    point = ds.Point(random_frame(rng, names[1]), axes=axes)
    done += check(tree, q, v, tau, [ds.Hinge(random_frame(rng, names[0]), axes=axes), point])
    assert done >= 9


@pytest.mark.slow
def test_what_comes_with_each_call():
    """Placements of both frames and rows; each state of a batch alone; what is given for all states."""
    m, (first, second) = two_branches()
    tree, rng = m.tree, m.rng
    q, v, tau = state(tree, rng, (3,))
    K, p = rng.normal(size=(2, 6)), rng.normal(size=(3, 3))
    pose = np.concatenate([rng.normal(size=3), matrix_to_quaternion(random_rotation(rng))])
    for kind, axes in ((ds.Weld, "local"), (ds.Point, "world"), (ds.Hinge, "world")):
        later = [
            kind(ds.Frame(first, given="placement"), ds.Frame(second, given="position"), axes=axes), ds.Rows(second, 2),
        ]  # fmt: skip
        more = {"baumgarte": 2.0, "payloads": {first: PAYLOAD}, "rows": [K]}
        found = ds.dynamics_derivatives(tree, q, v, tau, later, placements=[pose, p], **more)
        for k in range(3):
            alone = ds.dynamics_derivatives(tree, q[k], v[k], tau[k], later, placements=[pose, p[k]], **more)
            for name in DERIVATIVES:
                assert error(getattr(found, name)[k], getattr(alone, name)) < AGREEMENT
        assert check(tree, q[0], v[0], tau[0], later, placements=[pose, p[0]], **more)


def test_nothing_moves():
    """A robot without degrees of freedom has derivatives of no columns; constraints on it are dependent."""
    tree = build_tree("stone", [RawLink("stone", 1.0, np.zeros(3), np.eye(3))], [])
    none = np.zeros(0)
    found = ds.dynamics_derivatives(tree, none, none, none)
    assert found.dqdd_dq.shape == (0, 0) and found.df_dv.shape == (0, 0) and found.status == SOLVED
    held = ds.dynamics_derivatives(tree, none, none, none, ds.Weld("stone"))
    assert held.df_dq.shape == (6, 0) and held.status != SOLVED and held.rank == 0


# -- identities ----------------------------------------------------------------------------------------------------


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("seed", (5, 6, 7, 8, 10, 11))
def test_identities(seed):
    """Constraints hold whatever changes; joint forces respond symmetrically and do not act along the rows."""
    m, names = two_branches(seed)
    tree, rng = m.tree, m.rng
    q, v, tau = state(tree, rng, (2,))
    constraints = [
        ds.Point(random_frame(rng, names[0])),
        ds.Point(random_frame(rng, names[0]), random_frame(rng, names[1])),
    ]
    if not all(is_regular(tree, constraints, x, {}) for x in q):
        pytest.skip("dependent rows")
    found = ds.dynamics_derivatives(tree, q, v, tau, constraints)
    M, J = ds.mass_matrix(tree, q), ds.jacobian(tree, constraints, q)
    A = found.dqdd_dtau
    scale = np.abs(J).max() * np.abs(A).max()
    assert np.abs(J @ A).max() < AGREEMENT * scale
    assert error(A, A.mT) < AGREEMENT
    assert np.linalg.eigvalsh(A).min() > -AGREEMENT * np.abs(A).max()
    assert (
        error(M @ A - J.mT @ found.df_dtau, np.broadcast_to(np.eye(tree.nv), A.shape))
        < AGREEMENT * np.linalg.cond(M).max()
    )
    assert error(A @ M @ A, A) < AGREEMENT * np.linalg.cond(M).max()  # projection

    # the solution is homogeneous in τ, g and the products of velocities
    still = ds.dynamics_derivatives(tree, q, 0 * v, tau, constraints)
    assert np.abs(still.dqdd_dv).max() == 0 and np.abs(still.df_dv).max() == 0
    parts = (found.qdd - still.qdd)[..., None]
    assert error((found.dqdd_dv @ v[..., None]), 2 * parts) < 1e-8
    fallen = ds.dynamics_derivatives(tree, q, 0 * v, tau, constraints, gravity=np.zeros(3))
    assert error((A @ tau[..., None])[..., 0], fallen.qdd) < 1e-8


@pytest.mark.slow
def test_unconstrained_dynamics():
    """``∂q̈/∂τ`` is the inverse mass matrix; moving all of a floating robot changes nothing."""
    robot = ds.mechanisms.star(3, 2)
    q, v, tau = state(robot, np.random.default_rng(0), (3,))
    found = ds.dynamics_derivatives(robot, q, v, tau)
    assert error(found.dqdd_dtau, np.linalg.inv(ds.mass_matrix(robot, q))) < AGREEMENT
    assert found.df_dq.shape == (3, 0, robot.nv) and found.forces == ()
    assert np.abs(found.dqdd_dq[..., :3]).max() == 0 and np.all(found.rank == 0)
    weightless = ds.dynamics_derivatives(robot, q, v, tau, gravity=np.zeros(3))
    assert np.abs(weightless.dqdd_dq[..., :6]).max() < 1e-9 * np.abs(weightless.dqdd_dq).max()


# -- dependent rows ------------------------------------------------------------------------------------------------


def feet_of_points():
    """A robot on two flat feet, each held by a weld and four points."""
    robot = ds.mechanisms.star(3, 2)
    feet = [
        [ds.Weld(name), *(ds.Point(ds.Frame(name, (x, y, -0.1))) for x in (-0.1, 0.1) for y in (-0.05, 0.05))]
        for name in ("branch1_2", "branch2_2")
    ]
    return robot, feet


def test_dependent_rows():
    """Accelerations of the least squares, forces of the least norm: differences of forward dynamics, which has both."""
    robot, (left, right) = feet_of_points()
    rng = np.random.default_rng(0)
    points, R = [*left[1:], *right[1:]], 10.0 ** rng.uniform(-4.0, 0.0, 6)
    for k, (status, moves, constraints, options) in enumerate(
        [
            ("REDUNDANT", 0.0, points, {}),
            ("REDUNDANT", 1.0, [left[0], left[0], ds.Point("world")], {}),
            ("REDUNDANT", 1.0, [left[0]] * 3, {"compliance": [R, None, None], "targets": [R, None, None]}),
            ("CONFLICTING", 1.0, [*left[:3], *right[1:]], {"compliance": [None, 1e-2, *[None] * 5], "baumgarte": 2.0}),
            ("SOLVED", 1.0, [left[0], points[0]], {"compliance": 1e-3}),
        ]
    ):
        q, v, tau = state(robot, np.random.default_rng(k))
        found = ds.dynamics_derivatives(robot, q, moves * v, tau, constraints, **options)
        expected = ds.forward_dynamics(robot, q, moves * v, tau, constraints, method="kkt", **options)
        assert found.status.item().name == status and np.array_equal(found.rank, expected.rank)
        assert error(stacked(found), stacked(expected)) < AGREEMENT
        parts = differences(robot, q, moves * v, tau, constraints, options)
        for with_what, part in zip(("dq", "dv", "dtau"), parts, strict=True):
            assert error(getattr(found, f"dqdd_{with_what}"), part[: robot.nv]) < DIFFERENCE, (k, with_what)
            assert error(getattr(found, f"df_{with_what}"), part[robot.nv :]) < DIFFERENCE, (k, with_what)
    far = ds.dynamics_derivatives(robot, q, 1e200 * v, tau, left[0])
    assert far.status == ds.DynamicsStatus.FAILED and np.all(np.isnan(far.dqdd_dtau))


def test_rows_that_are_dependent_where_loops_are_closed():
    """A Bennett linkage: derivatives along its motion, on which its loop, five rows of rank two, stays closed."""
    twists = np.array([0.9, 0.5, 0.9, 0.5])
    lengths, cos, sin = np.sin(twists) / np.sin(0.9), np.cos(twists), np.sin(twists)
    turns = [np.array([[1, 0, 0], [0, c, -s], [0, s, c]]) for c, s in zip(cos, sin, strict=True)]
    links = [RawLink("base", 1.0)] + [
        RawLink(f"link{k}", 1.0 + k, np.array([0.3, 0.1, 0.2]), np.diag([0.1, 0.2, 0.25])) for k in range(3)
    ]
    names = [link.name for link in links]
    joints = [RawJoint("joint0", joint_kinds.REVOLUTE, "base", "link0")] + [
        RawJoint(b, joint_kinds.REVOLUTE, a, b, position=np.array([lengths[k], 0, 0]), rotation=turns[k])
        for k, (a, b) in enumerate(pairwise(names[1:]))
    ]
    tree = build_tree("bennett", links, joints)
    tip = ds.Frame("link2", (lengths[2], 0, 0), rotation=turns[2])
    loop = [ds.Hinge(tip, ds.Frame("base", (-lengths[3], 0, 0), rotation=turns[3].T), axis=(0, 0, 1))]
    q = ds.close_loops(tree, loop, np.array([1.0, -0.5, 2.0])).q
    random, step = np.random.default_rng(0), 1e-3
    push, with_v, with_tau = random.normal(size=(3, 3))

    def along(q, x):
        J = ds.jacobian(tree, loop, q)
        return x - np.linalg.pinv(J, rcond=1e-9) @ (J @ x)

    moved, v = along(q, np.ones(3)), along(q, push)
    ends = [ds.close_loops(tree, loop, q + s * step * moved).q for s in (-2, -1, 1, 2)]
    speeds = [along(end, push + s * step * with_v) for end, s in zip(ends, (-2, -1, 1, 2), strict=True)]
    values = [
        stacked(ds.forward_dynamics(tree, end, speed, push + s * step * with_tau, loop, method="kkt"))
        for end, speed, s in zip(ends, speeds, (-2, -1, 1, 2), strict=True)
    ]
    dq, dv, expected = ((x[0] - 8 * x[1] + 8 * x[2] - x[3]) / (12 * step) for x in (ends, speeds, values))
    found = ds.dynamics_derivatives(tree, q, v, push, loop)
    assert found.status == ds.DynamicsStatus.REDUNDANT and found.rank == 2
    for what, part in (("dqdd", expected[:3]), ("df", expected[3:])):
        with_q, with_v_, with_tau_ = (getattr(found, f"{what}_{x}") for x in ("dq", "dv", "dtau"))
        assert error(with_q @ dq + with_v_ @ dv + with_tau_ @ with_tau, part) < DIFFERENCE


def test_status_of_each_state():
    arm, tip, q, v, tau = planar_arm()
    found = ds.dynamics_derivatives(arm, q, v, tau, tip, gravity=(1.0, -9.81, 0))
    assert [s.name for s in found.status] == ["REDUNDANT", "SOLVED", "CONFLICTING"]
    alone = ds.dynamics_derivatives(arm, q[1], v[1], tau[1], tip, gravity=(1.0, -9.81, 0))
    for name in DERIVATIVES:
        value = getattr(found, name)
        assert np.all(np.isfinite(value)) and error(value[1], getattr(alone, name)) < AGREEMENT
    assert np.all(np.isfinite(found.qdd))


def test_results_are_read_only():
    arm, tip, q, v, tau = planar_arm()
    found = ds.dynamics_derivatives(arm, q, v, tau, tip)
    assert isinstance(found, ds.DynamicsDerivatives)
    for field in fields(found):
        value = getattr(found, field.name)
        for array in value if isinstance(value, tuple) else (value,):
            assert not (isinstance(array, np.ndarray) and array.flags.writeable)


# -- constraints that can be off -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_one_call_for_all_contact_modes():
    """A floating robot with a point, a row and a loop: each state as with the constraints that act alone."""
    tree = ds.mechanisms.star(2, 2)
    constraints = [
        ds.Point("branch1_2"),
        ds.Rows("branch2_2", [[1, 0, 0, 0, 1, 0]]),
        ds.Point("branch1_2", "branch2_1"),
    ]
    modes = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    rng, compared = np.random.default_rng(3), 0
    q, v = tree.random(rng, len(modes)), rng.normal(size=(len(modes), tree.nv))
    tau, options = 3.0 * v[::-1], {"baumgarte": 5.0}
    found = ds.dynamics_derivatives(tree, q, v, tau, constraints, active=modes, **options)
    steps = ds.step_derivatives(tree, q, v, tau, 1e-2, constraints, active=modes, **options)
    solution = ds.forward_dynamics(tree, q, v, tau, constraints, active=modes, **options)
    for k, mode in enumerate(modes):
        on = [c for c, is_on in zip(constraints, mode, strict=True) if is_on]
        rows = np.repeat(mode, [c.size for c in constraints]).astype(bool)
        assert not stacked(solution)[k, tree.nv :][~rows].any() and not found.df_dq[k][~rows].any()
        if not is_regular(tree, on, q[k], {}):
            continue
        compared += 1
        expected = ds.dynamics_derivatives(tree, q[k], v[k], tau[k], on, **options)
        assert error(stacked(solution)[k, [*range(tree.nv), *tree.nv + np.flatnonzero(rows)]], stacked(expected)) < PEER
        for name in ("qdd", *DERIVATIVES):
            part = getattr(found, name)[k]
            if name.startswith("df"):
                assert not part[~rows].any()
                part = part[rows]
            assert error(part, getattr(expected, name)) < PEER, (name, mode)
        for x, known in zip(steps, ds.step_derivatives(tree, q[k], v[k], tau[k], 1e-2, on, **options), strict=True):
            assert error(x[k], known) < PEER
    assert compared >= 3


def test_a_kernel_whose_constraint_is_off():
    tree, tip = ds.mechanisms.chain(2), ds.Rows("link2", [[0, 1, 0, 0, 0, 0]])
    kernel = ds.compile(tree, [tip, tip], "step_derivatives", active=True)
    q, v, tau = tree.random(0), np.ones(2), np.array([0.3, -0.2])
    *found, status = kernel(
        q, v, tau, 1e-2, active=[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], return_status=True
    )
    assert list(status) == [SOLVED] * 3 + [ds.DynamicsStatus.REDUNDANT]
    for k, held in enumerate([(), tip, tip]):
        for x, known in zip(found, ds.step_derivatives(tree, q, v, tau, 1e-2, held), strict=True):
            assert error(x[k], known) < PEER
    for x, known in zip(found, ds.step_derivatives(tree, q, v, tau, 1e-2, tip), strict=True):
        assert error(x[3], known) < PEER
    for x, known in zip(kernel(q, v, tau, 1e-2, active=[1.0, 1.0]), found, strict=True):  # in machine code: no warning
        assert error(x, known[3]) < AGREEMENT


# -- time steps ------------------------------------------------------------------------------------------------------


def stepped(tree, q, v, tau, dt, constraints, options):
    """State after a step, by the dense saddle point."""
    states, method = {"q": q, "v": v, "tau": tau, "dt": dt}, "kkt" if constraints else "aba"
    found = direct(tree, "step", states, constraints, method, **options)
    return found["q_next"], found["v_next"]


def step_differences(tree, q, v, tau, dt, constraints, options):
    """``[A, B]`` by differences on the manifold."""
    nv, columns = tree.nv, []
    steps = STEP * np.array([1.0, -1.0, 2.0, -2.0])[:, None, None] * np.eye(nv)
    q_next, _ = stepped(tree, q, v, tau, dt, constraints, options)
    for which in range(3):
        dq, dv, dtau = (steps if k == which else 0 * steps for k in range(3))
        moved = tree.integrate(np.broadcast_to(q, (4, nv, tree.nq)), dq)
        at_q, at_v = stepped(tree, moved, v + dv, tau + dtau, dt, constraints, options)
        up, down, up_far, down_far = np.concatenate([tree.difference(q_next, at_q), at_v], axis=-1)
        columns.append(((8 * (up - down) - (up_far - down_far)) / (12 * STEP)).T)
    return np.concatenate(columns, axis=1)


@pytest.mark.turns(2)
@pytest.mark.parametrize(("seed", "integrator"), [(1, "rk4"), *((seed, "semi-implicit") for seed in range(2, 8))])
def test_time_steps_of_random_mechanisms(seed, integrator):
    m = some_mechanism(seed, 2 if integrator == "rk4" else 3, ("fixed", "floating")[seed % 2])
    tree, rng, dt = m.tree, m.rng, 0.04
    q, v, tau = state(tree, rng)
    made, given = some_constraints(m)
    rest_of = iter(given)
    constraints, rows = as_regular(m, [(c, next(rest_of) if c.rows is None else None) for c in made], q)
    options = {"integrator": integrator, "damping": rng.uniform(0, 1, tree.nv), "baumgarte": 5.0, "rows": rows}
    q_next, v_next, A, B = ds.step_derivatives(tree, q, v, tau, dt, constraints, **options)
    for found, known in zip((q_next, v_next), stepped(tree, q, v, tau, dt, constraints, options), strict=True):
        assert error(found, known) < AGREEMENT
    expected = step_differences(tree, q, v, tau, dt, constraints, options)
    assert error(np.hstack([A, B]), expected) < DIFFERENCE


def test_a_long_step_of_joints_that_turn():
    """Every term of the rates along rotations: the step turns by half a radian."""
    rng, dt = np.random.default_rng(0), 0.4
    parts = [RawLink(name, 1.0 + k, rng.normal(size=3) * 0.2, np.diag([0.5, 0.7, 0.9])) for k, name in enumerate("ab")]
    joints = [RawJoint("float", joint_kinds.FREE, "world", "a"), RawJoint("ball", joint_kinds.BALL, "a", "b")]
    tree = build_tree("two", [RawLink("world"), *parts], joints)
    q, v, tau = state(tree, rng)
    *_, A, B = ds.step_derivatives(tree, q, v, tau, dt, (), integrator="rk4")
    expected = step_differences(tree, q, v, tau, dt, (), {"integrator": "rk4"})
    assert error(np.hstack([A, B]), expected) < 1e-9


@pytest.mark.parametrize("kind", [joint_kinds.BALL, joint_kinds.FREE, joint_kinds.PLANAR])
@pytest.mark.parametrize("angle", [0.0, 1e-18, 1e-9, 1e-4, 0.3, 0.99, 1.01, 3.0, 6.0, 12.0])
def test_changes_of_a_joint_that_moves(kind, angle):
    """Against the power series of the motion cross product, in extended precision."""
    tree = build_tree("one", [RawLink("a"), RawLink("b", 1.0, np.zeros(3), np.eye(3))], [RawJoint("j", kind, "a", "b")])
    (joint,), rng = tree.joints, np.random.default_rng(0)
    u = np.zeros(6)
    u[list(joint.motion_axes)] = rng.normal(size=joint.nv)
    u[3:] *= angle / np.linalg.norm(u[3:])
    u = u[list(joint.motion_axes)]
    found = kind.integrate_changes(NumpyOps(), list(u))
    U = np.zeros(6)
    U[list(joint.motion_axes)] = u
    v, w = (np.cross(np.eye(3), x).T for x in (U[:3], U[3:]))  # of - U
    ad = -np.block([[w, v], [np.zeros((3, 3)), w]]).astype(np.longdouble)
    term, exponential, integral = np.eye(6, dtype=np.longdouble), np.zeros((6, 6)), np.zeros((6, 6))
    for n in range(1, 120):
        exponential, integral = exponential + term, integral + term / n
        term = -ad @ term / n
    for x, known in zip(found, (exponential, integral), strict=True):
        known = known[np.ix_(joint.motion_axes, joint.motion_axes)].astype(float)
        assert error(x, known) < 1e-12


@pytest.mark.slow
def test_a_rollout_by_its_derivatives():
    """``A`` and ``B`` of each step, multiplied along a compiled trajectory, are the derivative of its end."""
    tree, dt, n = ds.mechanisms.chain(2), 1e-2, 20
    tip = ds.Rows("link2", [[0, 1, 0, 0, 0, 0]])
    step, linear = (ds.compile(tree, tip, what, integrator="rk4") for what in ("step", "step_derivatives"))
    rng = np.random.default_rng(0)
    q, v, tau = tree.random(rng), rng.normal(size=2), rng.normal(size=(n, 2))
    qs, vs = ds.rollout(step, q, v, tau, dt)
    q_next, v_next, A, B = linear(qs[:-1], vs[:-1], tau, dt)
    assert error(q_next, qs[1:]) < AGREEMENT and error(v_next, vs[1:]) < AGREEMENT
    x, du = rng.normal(size=4), rng.normal(size=(n, 2))
    ends = [
        np.concatenate([part[-1] for part in ds.rollout(step, q + h * x[:2], v + h * x[2:], tau + h * du, dt)])
        for h in (1e-5, -1e-5)
    ]
    for k in range(n):
        x = A[k] @ x + B[k] @ du[k]
    assert error(x, (ends[0] - ends[1]) / 2e-5) < DIFFERENCE


# -- what is refused -----------------------------------------------------------------------------------------------


def test_refusals():
    arm, tip, q, v, tau = planar_arm()
    with pytest.raises(UnknownNameError, match="dampning"):
        ds.forward_dynamics(arm, q, v, tau, tip, dampning=None)
    with pytest.raises((TypeError, ConfigurationError), match="method"):
        ds.dynamics_derivatives(arm, q, v, tau, tip, method="ltl")
    with pytest.raises(ConfigurationError, match="tau"):
        ds.dynamics_derivatives(arm, q, v, tau[..., :1], tip)
    with pytest.raises(ConfigurationError, match="integrator"):
        ds.compile(arm, tip, "dynamics_derivatives", integrator="rk4")
    with pytest.raises(UnknownNameError, match="pv"):
        ds.compile(arm, tip, "dynamics_derivatives", method="pv")


# -- Pinocchio -----------------------------------------------------------------------------------------------------

PEER = 1e-8
"""Derivatives by other formulas: round-off, and the condition of M and of G."""


def peer_model(pin, kind, rng):
    from pinocchio_models import random_model

    kinds = ["FreeFlyer", kind, "RX", kind, "FreeFlyer", "PY", kind, "RevoluteUnaligned"]
    return random_model(rng, kinds, parents_of=[0, 1, 2, 3, 0, 5, 6, 7])


@pytest.mark.turns(4)
@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["RX", "RUBY", "PZ", "RevoluteUnaligned", "FreeFlyer", "Spherical", "Planar", "Translation"]
)
def test_pinocchio(kind):
    """`computeABADerivatives` with wrenches, and `computeConstraintDynamicsDerivatives` with contacts."""
    pin = pytest.importorskip("pinocchio")
    from pinocchio_models import anchor, rigid_contacts

    rng = np.random.default_rng(zlib.crc32(kind.encode()))
    model = peer_model(pin, kind, rng)
    tree = ds.load(model)
    q, v, tau = state(tree, rng)
    data = model.createData()
    frame, wrench = ds.Frame("tool4", rng.normal(size=3), random_rotation(rng)), rng.normal(size=6)
    outside = pin.StdVec_Force([pin.Force.Zero() for _ in range(model.njoints)])
    joint, place = anchor(model, frame)
    outside[joint] = place.act(pin.Force(wrench))
    pin.computeABADerivatives(model, data, q, v, tau, outside)
    found = ds.dynamics_derivatives(tree, q, v, tau, wrenches={frame: wrench}, passive="none")
    Minv = np.triu(data.Minv) + np.triu(data.Minv, 1).T
    for name, expected in (("dqdd_dq", data.ddq_dq), ("dqdd_dv", data.ddq_dv), ("dqdd_dtau", Minv)):
        assert error(getattr(found, name), expected) < PEER, name

    a, b = (ds.Frame(t, rng.uniform(-0.3, 0.3, 3), random_rotation(rng)) for t in ("tool4", "tool8"))
    constraints = [ds.Weld(a), ds.Point(b)]
    check_contacts(pin, model, tree, constraints, rigid_contacts(model, constraints), (q, v, tau))


def check_contacts(pin, model, tree, constraints, contacts, given):
    settings = pin.ProximalSettings(1e-12, 0.0, 1)
    pin.initConstraintDynamics(model, data := model.createData(), *contacts)
    qdd = pin.constraintDynamics(model, data, *given, *contacts, settings)
    pin.computeConstraintDynamicsDerivatives(model, data, *contacts, settings)
    found = ds.dynamics_derivatives(tree, *given, constraints, passive="none")
    assert found.status == SOLVED and error(found.qdd, qdd) < PEER
    for name, expected in (
        ("dqdd_dq", data.ddq_dq), ("dqdd_dv", data.ddq_dv), ("dqdd_dtau", data.ddq_dtau),
        ("df_dq", data.dlambda_dq), ("df_dv", data.dlambda_dv), ("df_dtau", data.dlambda_dtau),
    ):  # fmt: skip
        assert error(getattr(found, name), expected) < PEER, (name, constraints)

    # impacts: their derivatives are those of a step that takes no time
    q, v, tau = given
    v_next = pin.impulseDynamics(model, data, q, v, *contacts, 0.3, settings)
    p = np.concatenate([x.contact_force.vector[: c.size] for x, c in zip(contacts[1], constraints, strict=True)])
    struck = ds.impulse(tree, q, v, constraints, 0.3)
    assert error(struck.v_next, v_next) < PEER and error(np.concatenate(struck.impulses), p) < PEER
    pin.impulseDynamics(model, data, q, v, *contacts, 0.0, settings)
    pin.computeImpulseDynamicsDerivatives(model, data, *contacts, 0.0, settings)
    impacts, nv = np.ones(len(constraints), dtype=bool), tree.nv
    *_, A, _ = ds.step_derivatives(tree, q, v, tau, 0.0, constraints, impacts=impacts, passive="none")
    assert error(A[nv:, :nv], data.ddq_dq) < PEER and error(A[nv:, nv:] - np.eye(nv), data.ddq_dv) < PEER


@pytest.mark.peer
def test_pinocchio_on_a_robot():
    """Of a file, on four feet; others have the same kinds of joints, and are read in `test_pinocchio`."""
    pin = pytest.importorskip("pinocchio")
    case = next((case for case in benchmark_cases() if case.name.startswith("Go1")), None)
    if case is None:
        pytest.skip("example-robot-data is not installed")
    model = tree_to_pinocchio(case.tree, unsupported="ignore")
    given = state(case.tree, np.random.default_rng(0))
    check_contacts(pin, model, case.tree, case.constraints, pinocchio_contacts(pin, model, case), given)


# -- compiled ------------------------------------------------------------------------------------------------------

DOUBLE = 1e-9
"""One algorithm by two machines, through the condition of M and of G."""

NAMES = ["qdd", "forces", *DERIVATIVES]


def results(found, batch):
    """What a kernel returns, from what the direct function does."""
    forces = np.concatenate([np.zeros((*batch, 0)), *found.forces], axis=-1)
    return [found.qdd, forces, *(getattr(found, name) for name in DERIVATIVES)]


@pytest.mark.parametrize("lanes", [1, 8])
def test_kernels_where_rows_are_dependent(lanes):
    arm, tip, q, v, tau = planar_arm()
    kernel = ds.compile(arm, tip, "dynamics_derivatives", lanes=lanes)
    expected = results(ds.dynamics_derivatives(arm, q, v, tau, tip), (3,))
    out = tuple(np.empty_like(x) for x in expected)
    *found, status = kernel(q, v, tau, return_status=True)
    assert [s.name for s in status] == ["REDUNDANT", "SOLVED", "CONFLICTING"]
    with pytest.warns(match=r"1 of 3 state\(s\) are CONFLICTING"), pytest.warns(match=r"1 of 3 .* solved again"):
        kernel(q, v, tau, out=out)
    for results_ in (found, out):
        for one, known, name in zip(results_, expected, NAMES, strict=True):
            assert error(one, known) < DOUBLE, name


@pytest.mark.slow
def test_operation_counts():
    """About forty operations an entry, all else included; a limb's rates reach the others by way of the trunk: solved
    in full, they take 222,000."""
    robot = ds.mechanisms.humanoid()
    feet = tuple(ds.Weld(name) for name in ("left_foot", "right_foot"))
    program = make_program(requested(robot, feet, "dynamics_derivatives"), with_rcond=False)
    entries = sum(np.prod(result.shape, dtype=int) for result in program.results)
    total = program.count().total
    print(total, entries)
    assert total < min(40 * entries, 160_000)


def test_parts_of_the_factor_solve_for_trunk_and_followers():
    """Rows that are kept hold what the others leave to solve; followers are what the leaders make of them."""
    tree = ds.mechanisms.humanoid()
    L = SparseFactor(Problem(NumpyOps(), tree, (), tree.random(1)))
    dense = np.zeros((tree.nv, tree.nv))
    for k, above in enumerate(L.ancestors):
        dense[k, above], dense[k, k] = L.rows[k][0], 1 / L.reciprocal[k][0, 0]
    r, trunk = np.random.default_rng(2).normal(size=(tree.nv, 3)), range(6)
    left = np.concatenate(L.solve_transpose(r, trunk))
    W = left[6:]
    assert np.allclose(dense[6:, 6:].T @ W, r[6:])
    assert np.allclose(left[:6], r[:6] - dense[6:, :6].T @ W)
    T = L.followers(trunk)
    assert np.array_equal(T[:6], np.eye(6))
    assert np.allclose((dense @ T)[6:], 0)
