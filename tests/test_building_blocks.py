"""Building blocks of algorithms: batches of rows, counts, transforms, factorisations; what the papers' code makes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import delassus as ds
from delassus.spatial.elementary_displacements import elementary_rotations
from delassus.spatial.rigid import RigidInertia
from delassus.spatial.transform import StagedTransform, before_rotation, displacement
from delassus_studies.as_published import OSIM, CasadiOps, beside_joint, casadi_count, casadi_dynamics
from delassus_studies.cases import general_rows
from delassus_studies.count_ops import CountOps
from internals import (
    OSIM_ALGORITHMS,
    Joint,
    NumpyOps,
    Problem,
    TraceOps,
    joint_displacement,
    joint_kinds,
    rotation_from_rpy,
)
from random_trees import some_mechanism
from tools import ROUND_OFF, error, evaluated, random_rotation

SAME_TEXT = 1e-12
"""The same text, but sums and products in another order, times the condition of the tree."""

TURNS = 1e-14
"""Products of elementary turns against the rotation that they factor: a few units in the last place."""


every_method = pytest.mark.parametrize("method", ds.OSIM_METHODS)

# -- batches -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dense", "pv-osimr"])
def test_rows_broadcast_against_configurations(method):
    tree = ds.mechanisms.star(3, 3)
    constraints = [ds.Rows("branch1_3", 2), ds.Weld("branch2_3"), ds.Rows("branch3_3", 7, axes="world")]
    rng = np.random.default_rng(6)
    q = tree.random(rng, batch=(5, 1))
    rows = [rng.normal(size=(4, 2, 6)), rng.normal(size=(7, 6))]
    G = ds.delassus(tree, constraints, q, method=method, rows=rows)
    J = ds.jacobian(tree, constraints, q, rows=rows)
    assert G.shape == (5, 4, 15, 15)
    assert J.shape == (5, 4, 15, tree.nv)
    for j in range(4):
        fixed = [ds.Rows("branch1_3", rows[0][j]), constraints[1], ds.Rows("branch3_3", rows[1], axes="world")]
        alone, own_J = ds.delassus(tree, fixed, q[:, 0], method=method), ds.jacobian(tree, fixed, q[:, 0])
        for i in range(5):
            assert error(G[i, j], alone[i]) < SAME_TEXT and error(J[i, j], own_J[i]) < SAME_TEXT
    one_state = ds.delassus(tree, constraints, q[0, 0], method=method, rows=rows)
    assert error(one_state, G[0]) < SAME_TEXT


def test_batched_rows_in_operators_and_inverses():
    tree = ds.mechanisms.star(3, 3)
    constraints = [ds.Rows("branch1_3", 2), ds.Weld("branch2_3")]
    rng = np.random.default_rng(7)
    q, rows = tree.random(rng, batch=(3, 1)), [rng.normal(size=(2, 2, 6))]
    G = ds.delassus(tree, constraints, q, rows=rows)
    operator = ds.delassus_operator(tree, constraints, q, rows=rows)
    x = rng.normal(size=(3, 2, 8))
    assert operator.shape == (3, 2, 8, 8)
    assert error(operator.apply(x), (G @ x[..., None])[..., 0]) < SAME_TEXT
    assert error(operator.apply(operator.solve(x)), x) < 1e-8  # condition of G
    Lambda = ds.osim(tree, constraints, q, rows=rows)
    assert error(Lambda @ G, np.broadcast_to(np.eye(8), G.shape)) < 1e-8
    J, J_bar = ds.jacobian(tree, constraints, q, rows=rows), ds.consistent_inverse(tree, constraints, q, rows=rows)
    assert error(J @ J_bar, np.broadcast_to(np.eye(8), G.shape)) < 1e-8


@every_method
def test_results_own_their_memory(method):
    """A constraint that nothing moves gives constant blocks: the batch must still be writable, state by state."""
    tree = ds.mechanisms.chain(3)
    constraints = [ds.Weld("base"), ds.Point("link3")]
    G = ds.delassus(tree, constraints, tree.random(8, batch=4), method=method)
    assert G.flags.writeable and G.flags.owndata
    assert not G[:, :6].any() and not G[:, :, :6].any()
    G[0, 0, 0] = 1.0
    assert G[1, 0, 0] == 0.0
    assert ds.delassus(tree, constraints, tree.random(8, batch=(2, 0)), method=method).shape == (2, 0, 9, 9)


@every_method
def test_no_constraints(method):
    tree = ds.mechanisms.chain(3)
    assert ds.delassus(tree, [], tree.random(9, batch=4), method=method).shape == (4, 0, 0)


# -- counting ------------------------------------------------------------------------------------------------------

COUNTED = {"pv-osim": 0.03, "pv-osimr": 0.03, "efpa": 0.06}
"""Excess of the count by pattern over the traced one on chains of 20 or more links, stems and humanoids, of the methods
that studies count so.

Tracing drops what no result needs; counting sees that of single scalars only. What is left over is constant for each
branch (the last step to the world needs few of the entries) except for the sweep from the root: EFPA forms the upper
triangle of each diagonal block.
"""

COUNTED_SMALL = dict.fromkeys(COUNTED, 0.20)


def traced_count(tree, constraints, method):
    """Operations but for signs, which fold into the addition or multiplication that uses them."""
    clean = ds.count_operations(tree, constraints, method=method).clean
    return clean.total - clean.neg


def pattern_count(tree, constraints, method):
    ops = CountOps()
    OSIM_ALGORITHMS[method](Problem(ops, tree, constraints, ops.state(tree.nq)))
    return ops.total


LARGE = {
    "chain of 30": (ds.mechanisms.chain(30), ["link30"]),
    "floating chain of 20": (ds.mechanisms.chain(20, root="floating"), ["link20"]),
    "stem": (ds.mechanisms.stem(6, 2), ["near1_7", "near2_7", "far1_7", "far2_7"]),
    "two feet": (ds.mechanisms.humanoid(), ["left_foot", "right_foot"]),
    "feet and hands": (ds.mechanisms.humanoid(), ["left_foot", "right_foot", "left_hand", "right_hand"]),
}
SMALL = {
    "chain of 7": (ds.mechanisms.chain(7), [ds.Weld("link7")]),
    "loop": (ds.mechanisms.ladder(5), [ds.Weld("left5", "right5")]),
    "points": (ds.mechanisms.star(3, 3), [ds.Point("branch1_3"), ds.Point("branch2_3", axes="world")]),
}


@pytest.mark.slow
@pytest.mark.parametrize("method", COUNTED)
@pytest.mark.parametrize("name", LARGE)
def test_patterns_count_what_tracing_counts(name, method):
    tree, links = LARGE[name]
    constraints = [ds.Weld(link) for link in links]
    traced = traced_count(tree, constraints, method)
    assert 0 <= pattern_count(tree, constraints, method) / traced - 1 < COUNTED[method]


@pytest.mark.parametrize("method", COUNTED)
@pytest.mark.parametrize("name", SMALL)
def test_patterns_count_small_mechanisms_roughly(name, method):
    tree, constraints = SMALL[name]
    traced = traced_count(tree, constraints, method)
    assert 0 <= pattern_count(tree, constraints, method) / traced - 1 < COUNTED_SMALL[method]


@pytest.mark.parametrize(("method", "most"), [("efpa", 6205), ("pv-osim", 4405), ("kjr", 3852)])
def test_the_order_of_constraints_costs_nothing(method, most):
    """EFPA takes the sparser of two equal products for each pair of ends."""
    tip, middle = ds.Weld("link12"), ds.Point("link5")
    totals = {traced_count(ds.mechanisms.chain(12), order, method) for order in ((tip, middle), (middle, tip))}
    assert len(totals) == 1 and max(totals) <= most


# -- transforms ----------------------------------------------------------------------------------------------------


def some_fixed_rotations():
    rng = np.random.default_rng(20)
    yield "identity", np.eye(3)
    for k, P in enumerate(turns_of_the_cube()):
        yield f"cube{k}", P
    for k in range(20):
        yield f"random{k}", random_rotation(rng)
    for k in range(6):
        rpy = np.zeros(3)
        rpy[k % 3] = rng.uniform(-np.pi, np.pi)
        yield f"planar{k}", rotation_from_rpy(rpy)
        rpy[(k + 1) % 3] = rng.uniform(-np.pi, np.pi)
        yield f"two turns{k}", rotation_from_rpy(rpy)
        yield f"quarter and two turns{k}", turns_of_the_cube()[3 * k + 1] @ rotation_from_rpy(rpy)
    for k, rpy in enumerate(itertools.product((0, 1.5708, -3.14159, 0.3), (1.5708, -1.57079, 0.2), (0, 1.57, -0.4))):
        yield f"rpy{k}", rotation_from_rpy(np.array(rpy))
    for k in range(3, 17):  # next to the singularity of three turns about z, y and x, and next to fewer turns
        pitched = rotation_from_rpy(np.array([0.3, np.pi / 2 - 10.0**-k, -0.9]))
        yield f"pitch{k}", pitched
        U, _, Vt = np.linalg.svd(pitched + rng.normal(scale=1e-16, size=(3, 3)))
        yield f"blurred pitch{k}", U @ Vt
        yield f"tilted{k}", rotation_from_rpy(np.array([10.0**-k, 0.0, 0.7])) @ rotation_from_rpy([0.0, 10.0**-k, 0.0])


def turns_of_the_cube():
    out = []
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1.0, -1.0), repeat=3):
            P = np.eye(3)[list(order)] * np.array(signs)
            if np.linalg.det(P) > 0:
                out.append(P)
    return out


ROTATIONS = dict(some_fixed_rotations())


@pytest.mark.parametrize("name", ROTATIONS)
def test_elementary_rotations_multiply_to_the_rotation(name):
    R = ROTATIONS[name]
    product = np.eye(3)
    planar, permutation = elementary_rotations(R)
    for turn in planar if permutation is None else (*planar, permutation):
        step = np.array(turn.rows())
        assert error(step @ step.T, np.eye(3)) < TURNS
        assert error(np.array(turn.inverse().rows()), step.T) < TURNS
        product = product @ step
    assert error(product, R) < TURNS


@pytest.mark.parametrize("axis", range(3))
def test_what_is_before_a_turn_about_an_axis(axis):
    """A rotation is what stands before the joint's own axis, and then a turn about that axis."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    for name, R in ROTATIONS.items():
        before, angle = before_rotation(R.tobytes(), axis)
        c, s, turn = np.cos(angle), np.sin(angle), np.eye(3)
        turn[i, i], turn[i, j], turn[j, i], turn[j, j] = c, -s, s, c
        assert error(before @ turn, R) < TURNS, name


def test_few_elementary_rotations_suffice():
    def sines(R):
        return len(elementary_rotations(R)[0])

    assert sines(np.eye(3)) == 0
    assert all(sines(P) == 0 for P in turns_of_the_cube())
    for name, most in (("planar", 1), ("two turns", 2), ("quarter and two turns", 2), ("random", 3)):
        assert all(sines(ROTATIONS[f"{name}{k}"]) <= most for k in range(6)), name


@pytest.mark.slow
@pytest.mark.parametrize("kind", joint_kinds.KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("axis", range(3))
def test_staged_transforms_equal_composite_ones(kind, axis):
    rng = np.random.default_rng(30)
    ops = NumpyOps()
    none, free = np.zeros(kind.nv), np.full(kind.nv, np.inf)
    symmetric = rng.normal(size=(4, 6, 6))
    H = symmetric + np.swapaxes(symmetric, -1, -2)
    K, V = rng.normal(size=(4, 3, 6)), rng.normal(size=(4, 6, 3))
    for k, R in enumerate(ROTATIONS.values()):
        position = rng.normal(size=3) * (rng.random(3) < 0.6) if k else np.zeros(3)
        position = 0.3 * R[:, axis] if k % 3 == 1 else position  # sparser in the child
        joint = Joint("j", kind, axis, R, position, none, -free, free, none, none, none, none, free, free,
                      pitch=0.7 * (kind is joint_kinds.SCREW))  # fmt: skip
        q = kind.random(rng, (4,), joint.lower, joint.upper)
        d = displacement(ops, joint, lambda k, q=q: q[..., k], 0)
        staged, (turn, shift) = StagedTransform(ops, d), joint_displacement(joint, q)
        E, p = np.swapaxes(R @ turn, -1, -2), position + shift @ R.T
        across = -E @ np.cross(np.eye(3), np.expand_dims(p, -2))
        X = np.concatenate([np.concatenate(np.broadcast_arrays(E, across), axis=-1),
                            np.concatenate(np.broadcast_arrays(np.zeros((3, 3)), E), axis=-1)], axis=-2)  # fmt: skip
        XT = np.swapaxes(X, -1, -2)
        for operation, operand, expected in (
            ("rows_to_parent", K, K @ X), ("motions_to_child", V, X @ V), ("forces_to_parent", V, XT @ V),
            ("inertia_to_parent", H, XT @ H @ X), ("inverse_inertia_to_child", H, X @ H @ XT),
            ("rotate_to_parent", V[:, :3], R @ turn @ V[:, :3]),
        ):  # fmt: skip
            assert error(getattr(staged, operation)(operand), expected) < ROUND_OFF, operation
        assert error(np.broadcast_to(staged.position(), (4, 3, 1))[..., 0], position + shift @ R.T) < ROUND_OFF


@pytest.mark.slow
@pytest.mark.parametrize("kind", joint_kinds.KINDS, ids=lambda kind: kind.name)
def test_rigid_inertias_are_ten_numbers_of_the_matrix(kind):
    rng = np.random.default_rng(40)
    ops = NumpyOps()
    none, free = np.zeros(kind.nv), np.full(kind.nv, np.inf)
    for seed, R in enumerate(itertools.islice(ROTATIONS.values(), 40)):
        tree = some_mechanism(seed, 3, "floating").tree
        H, other = tree.inertias[0], tree.inertias[-1]
        joint = Joint("j", kind, seed % 3, R, rng.normal(size=3), none, -free, free, *[none] * 4, free, free,
                      pitch=0.7 * (kind is joint_kinds.SCREW))  # fmt: skip
        d = displacement(ops, joint, kind.random(rng, (), joint.lower, joint.upper).__getitem__, 0)
        C = H[3:, 3:].tolist()
        ten = RigidInertia(ops, H[0, 0], [H[1, 5], H[2, 3], H[0, 4]], C)
        more = RigidInertia(ops, other[0, 0], [other[1, 5], other[2, 3], other[0, 4]], other[3:, 3:].tolist())
        assert error(ten.columns(range(6)), H) < ROUND_OFF
        moved, X = ten.to_parent(StagedTransform(ops, d)), StagedTransform(ops, d).motions_to_child(np.eye(6))
        expected = X.T @ H @ X
        assert error(moved.columns(range(6)), expected) < ROUND_OFF
        assert error((moved + more).columns((5, 0)), (expected + other)[:, (5, 0)]) < ROUND_OFF


# -- factorisations ------------------------------------------------------------------------------------------------


def some_definite_matrices(rng, n, batch=()):
    A = rng.normal(size=(*batch, n, n + 2))
    return A @ np.swapaxes(A, -1, -2)


@pytest.mark.parametrize("n", range(1, 9))
def test_factors_solve(n):
    rng = np.random.default_rng(n)
    D, B = some_definite_matrices(rng, n), rng.normal(size=(n, 2))
    ops = TraceOps()
    factor = ops.factor(ops.unknown(n, n))
    Z = factor.half_solve(ops.constant(B))
    outputs = [factor.solve(ops.constant(B)), factor.inverse(), factor.quadratic(ops.constant(B.T)),
               ops.transpose(factor.scale(Z)) @ Z]  # fmt: skip
    solved, inverse, *quadratics = evaluated(ops, outputs, D)
    assert error(solved, np.linalg.solve(D, B)) < SAME_TEXT
    assert error(inverse, np.linalg.inv(D)) < SAME_TEXT
    assert max(error(x, B.T @ np.linalg.solve(D, B)) for x in quadratics) < SAME_TEXT


@pytest.fixture
def casadi_ops():
    pytest.importorskip("casadi")
    return CasadiOps()


@pytest.mark.fast
def test_casadi_counts_instructions(casadi_ops):
    ops, x = casadi_ops, casadi_ops.ca.SX.sym("x", 4)
    a = ops.matrix([[x[0], x[1]], [0.0, x[2]]])
    assert ops.count(a @ a) == 5  # x0², x0 x1 + x1 x2, x2²: zeros are free
    assert ops.count(ops.sym_product(a, ops.transpose(a))) == 5  # x0² + x1², x1 x2, x2²: of one triangle
    assert ops.count(x[3] * a, x[3] * a) == 6  # three products, made twice
    assert ops.count(3.0 * a) == 4  # three products and one known number


def test_what_the_papers_code_makes_beside_the_texts():
    """Divisions for each row and joint but the first, of six rows at most in PV-OSIMr; a first link on a fixed base."""
    pytest.importorskip("casadi")
    fixed, floating = ds.mechanisms.chain(3), ds.mechanisms.chain(3, root="floating")
    welds = [ds.Weld("link2"), ds.Weld("link3")]
    for method, most in (("pv-osim", 12 + 6), ("pv-osimr", 6 + 6), ("efpa", 0), ("ltl-osim", 0)):
        ops = CasadiOps()
        of_text = ops.count(OSIM[method](Problem(ops, fixed, welds, ops.ca.SX.sym("q", 3))))
        assert casadi_count(fixed, welds, method) == of_text + most
    assert beside_joint(floating, welds) == 0
    assert 0 < beside_joint(fixed, welds) < casadi_count(fixed, welds, "pv-osim")


@pytest.mark.parametrize("method", ["pv-osim", "pv-osimr", "efpa", "ltl-osim"])
def test_casadi_graph_computes_the_delassus_matrix(casadi_ops, method):
    tree, constraints = LARGE["two feet"][0], general_rows(LARGE["two feet"][1], 6)
    q = casadi_ops.ca.SX.sym("q", tree.nq)
    G = casadi_ops.ca.Function("G", [q], [OSIM[method](Problem(casadi_ops, tree, constraints, q))])
    at = tree.random(0)
    np.testing.assert_allclose(np.array(G(at)), ds.delassus(tree, constraints, at), rtol=1e-8, atol=1e-8)


MOVING = {
    "fixed": (ds.mechanisms.chain(7), general_rows(["link7"], 6)),
    "fixed, branches": (ds.mechanisms.star(2, 5), general_rows(["branch1_5", "branch2_3"], 3)),
    "floating": (ds.mechanisms.star(3, 3), general_rows(["branch1_3", "branch2_3"], 6)),
    "free": (ds.mechanisms.star(3, 3), ()),
}
"""Robots and rows that forward dynamics as published is compared at."""


@pytest.mark.parametrize("method", ["pv", "pv-early", "pv-soft", "ltl", "ltl-soft"])
@pytest.mark.parametrize("name", MOVING)
def test_casadi_graph_computes_forward_dynamics(casadi_ops, name, method):
    (tree, constraints), rng = MOVING[name], np.random.default_rng(1)
    q, v, tau = tree.random(1, 3), rng.normal(size=(3, tree.nv)), 10 * rng.normal(size=(3, tree.nv))
    wanted = [rng.normal(size=(3, c.size)) for c in constraints]
    weight = 100.0 if method.endswith("soft") else None
    direct = ds.forward_dynamics(
        tree, q, v, tau, constraints, targets=wanted, compliance=weight and constraints and 1 / weight, method="ltl"
    )
    turns = [ds.forward_kinematics(tree, q, c.first)[:, :3, :3] for c in constraints]
    falling = [np.swapaxes(R, 1, 2) @ tree.gravity @ c.K[:, :3].T for R, c in zip(turns, constraints, strict=True)]
    rows = np.hstack([np.zeros((3, 0)), *(w - g for w, g in zip(wanted, falling, strict=True))])
    given, size = (q, v, tau, rows), np.abs(direct.qdd).max()
    qdd, missed = casadi_dynamics(tree, constraints, method).at(*given, *([np.full((3, 1), weight)] * bool(weight)))
    np.testing.assert_allclose(qdd, direct.qdd, rtol=0, atol=1e-9 * size)
    np.testing.assert_allclose(missed, direct.constraint_residual(), rtol=0, atol=1e-9 * size)
    if weight:
        qdd, _ = casadi_dynamics(tree, constraints, method, weight).at(*given)
        np.testing.assert_allclose(qdd, direct.qdd, rtol=0, atol=1e-9 * size)
