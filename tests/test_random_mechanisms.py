"""Random trees with every kind of joint, random constraints: every method against a textbook in the world frame.

The oracle reads the raw description and shares no code with the library: poses by multiplying out the chain, Jacobians
of body twists about the origin of the world, ``M = Σ Jᵢᵀ Hᵢ Jᵢ``, ``G = J M⁻¹ Jᵀ`` by `numpy.linalg.solve`.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import delassus as ds
from delassus.errors import ModelError
from internals import WORLD, RawJoint, RawLink, build_tree, joint_kinds
from random_trees import REVERSIBLE, Mechanism, some_constraints, some_joint_rows, some_mechanism
from tools import AGREEMENT, NOTHING, ROUND_OFF, UNPLANNED, error, in_turns, random_rotation

TEXTBOOK = 1e-12
"""Jacobian and mass matrix against the oracle, whose lever arms are distances from the world's origin (some 10 m)."""

WELL_CONDITIONED = 1e6
"""Trees whose mass matrix has a larger condition number than this are left out: round-off, not algorithms, decides."""

RESIDUAL = 1e-6
"""Residual of a solve: rows within 1e-10 of redundant count as redundant, and 1e-16 is lost 1e10-fold at that edge."""

SEMIDEFINITE = 1e-11
"""How far below zero round-off may push an eigenvalue of G, relative to the largest."""

mechanisms = st.builds(
    some_mechanism,
    seed=st.integers(0, 2**32 - 1),
    n_links=st.integers(1, 9),
    root=st.sampled_from(["fixed", "floating"]),
)
reversible_mechanisms = st.builds(
    some_mechanism,
    seed=st.integers(0, 2**32 - 1),
    n_links=st.integers(2, 9),
    root=st.just("floating"),
    kinds=st.just((*REVERSIBLE, None)),
)


# -- the textbook --------------------------------------------------------------------------------------------------


def cross(a):
    x, y, z = a
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def turn_about(axis, c, s):
    K = cross(axis)
    return np.eye(3) + s * K + (1 - c) * (K @ K)


def turn_of_quaternion(q):
    return np.eye(3) + 2 * q[3] * cross(q[:3]) + 2 * cross(q[:3]) @ cross(q[:3])


def smallest_turn_from_z(axis):
    """Where a planar joint's own x and y lie: turned with z the short way; about x for a half turn."""
    sine, cosine = np.hypot(axis[0], axis[1]), axis[2]
    if sine < 1e-15:
        return np.eye(3) if cosine > 0 else np.diag([1.0, -1.0, -1.0])
    return turn_about(np.array([-axis[1], axis[0], 0]) / sine, cosine, sine)


def joint_motion(joint, q):
    """Turn and translation of the child frame in the joint frame; linear and angular velocity directions (3 × nv)."""
    kind, axis = joint.kind, np.asarray(joint.axis) / np.linalg.norm(joint.axis)
    eye, zero, none = np.eye(3), np.zeros(3), np.zeros((3, 1))
    column = axis[:, None]
    if kind is None:
        return eye, zero, np.zeros((3, 0)), np.zeros((3, 0))
    if kind is joint_kinds.REVOLUTE:
        return turn_about(axis, np.cos(q[0]), np.sin(q[0])), zero, none, column
    if kind is joint_kinds.SCREW:
        return turn_about(axis, np.cos(q[0]), np.sin(q[0])), joint.pitch * q[0] * axis, joint.pitch * column, column
    if kind is joint_kinds.COS_SIN:
        return turn_about(axis, q[0], q[1]), zero, none, column
    if kind is joint_kinds.PRISMATIC:
        return eye, axis * q[0], column, none
    if kind is joint_kinds.PLANAR:
        T = smallest_turn_from_z(axis)
        return turn_about(axis, q[2], q[3]), T[:, :2] @ q[:2], np.c_[T[:, :2], none], np.c_[none, none, column]
    if kind is joint_kinds.BALL:
        return turn_of_quaternion(q), zero, np.zeros((3, 3)), eye
    if kind is joint_kinds.TRANSLATION:
        return eye, q, eye, np.zeros((3, 3))
    return turn_of_quaternion(q[3:]), q[:3], np.c_[eye, 0 * eye], np.c_[0 * eye, eye]


class Textbook:
    """Poses, twists and mass matrix of a description at one configuration, all in the world frame."""

    def __init__(self, mechanism, q):
        tree = mechanism.tree
        nv = tree.nv
        self.R, self.p = {"world": np.eye(3)}, {"world": np.zeros(3)}
        self.twist = {"world": np.zeros((6, nv))}  # [velocity at the world's origin; angular velocity], (6 × nv)
        root = RawJoint("root_joint", joint_kinds.FREE if mechanism.floating else None, "world", "l0")
        armature = np.zeros(nv)
        for joint in [root, *mechanism.joints]:
            index = tree.joint_names.index(joint.name) if joint.kind is not None else None
            part = slice(0, 0) if index is None else tree.q_slices[index]
            turn, shift, linear, angular = joint_motion(joint, q[part])
            R = self.R[joint.parent] @ joint.rotation
            p = self.p[joint.parent] + self.R[joint.parent] @ joint.position + R @ shift
            R = R @ turn
            twist = self.twist[joint.parent].copy()
            if index is not None:
                v = tree.v_slices[index]
                twist[:, v] = np.vstack([R @ linear + cross(p) @ R @ angular, R @ angular])
                armature[v] = joint.armature
            self.R[joint.child], self.p[joint.child], self.twist[joint.child] = R, p, twist
        self.M = np.diag(armature)
        for link in mechanism.links:
            R, J = self.R[link.name], self.twist[link.name]
            c = self.p[link.name] + R @ link.com
            J_com = J[:3] - cross(c) @ J[3:]
            self.M += link.mass * J_com.T @ J_com + J[3:].T @ (R @ link.inertia @ R.T) @ J[3:]

    def frame(self, frame):
        if frame is None:
            return np.eye(3), np.zeros(3), self.twist["world"]
        R, p = self.R[frame.link], self.p[frame.link]
        return R @ frame.rotation, p + R @ frame.position, self.twist[frame.link]

    def rows(self, c, K):
        (R, a, J_a), (_, b, J_b) = self.frame(c.first), self.frame(c.second)
        angular = J_a[3:] - J_b[3:]
        if c.rigid:
            linear = J_a[:3] - J_b[:3] - cross(a) @ angular
        else:
            linear = (J_a[:3] - cross(a) @ J_a[3:]) - (J_b[:3] - cross(b) @ J_b[3:])
        linear_axes = np.eye(3) if c.axes == "world" else R.T
        angular_axes = np.eye(3) if c.angular_axes == "world" else R.T
        return K @ np.vstack([linear_axes @ linear, angular_axes @ angular])

    def jacobian(self, constraints, rows):
        rows = iter(rows)
        return np.vstack([self.rows(c, next(rows) if c.rows is None else c.rows) for c in constraints])

    def delassus(self, J):
        return J @ np.linalg.solve(self.M, J.T)


def examples(count):
    """Settings for so many examples."""
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


def posed(mechanism):
    """Random configuration, and the textbook at it; leaves out what no algorithm could compute well."""
    q = mechanism.tree.random(mechanism.rng)
    textbook = Textbook(mechanism, q)
    if mechanism.tree.nv:
        assume(np.linalg.cond(textbook.M) < WELL_CONDITIONED)
    return q, textbook


def constrained(mechanism, textbook):
    """Constraints, rows on joints last, if any moves; rows that come with the call; and all of them by the textbook."""
    constraints, rows = some_constraints(mechanism)
    J = textbook.jacobian(constraints, rows)
    if not mechanism.tree.nv:
        return constraints, rows, J
    coupling, own = some_joint_rows(mechanism, 2)
    return [*constraints, coupling], rows, np.vstack([J, own])


# -- tests ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@examples(15)
@given(mechanisms)
def test_every_method_against_the_textbook(mechanism):
    tree = mechanism.tree
    q, textbook = posed(mechanism)
    constraints, rows, J = constrained(mechanism, textbook)
    assert error(ds.mass_matrix(tree, q), textbook.M) < TEXTBOOK
    assert error(ds.jacobian(tree, constraints, q, rows=rows), J) < TEXTBOOK
    expected = textbook.delassus(J)
    for method in UNPLANNED:  # auto: test_plan
        G = ds.delassus(tree, constraints, q, method=method, rows=rows)
        assert error(G, expected) < AGREEMENT, method
        assert np.array_equal(G, G.T), method
        eigenvalues = np.linalg.eigvalsh(G)
        assert eigenvalues[0] >= -SEMIDEFINITE * max(eigenvalues[-1], 1.0), method


@pytest.mark.slow
@examples(12)
@given(st.one_of(mechanisms, reversible_mechanisms), st.integers(0, 8))
def test_any_link_may_carry_the_free_joint(mechanism, index):
    tree = mechanism.tree
    link = f"l{index % len(mechanism.links)}"
    q, _ = posed(mechanism)
    constraints, rows = some_constraints(mechanism)
    at = tree.placement(link).link
    free_base = tree.is_floating and tree.parents.count(WORLD) == 1 and not tree.joints[0].armature.any()
    path = tree.support(at)[1:]
    if not free_base or at == WORLD or any(tree.joints[i].kind not in REVERSIBLE for i in path):
        with pytest.raises(ModelError):
            tree.reroot(link)
        return
    other, q_other = tree.reroot(link), tree.reroot_configuration(link, q)
    expected = ds.delassus(tree, constraints, q, rows=rows)
    for method in in_turns(tree.nv):
        G = ds.delassus(other, constraints, q_other, method=method, rows=rows)
        assert error(G, expected) < AGREEMENT, method


@pytest.mark.slow
@examples(12)
@given(mechanisms, st.sampled_from(UNPLANNED))
def test_rows_stack_and_combine(mechanism, method):
    """Sub-blocks are the matrices of subsets; a permutation permutes; rows times A give A G Aᵀ."""
    tree, rng = mechanism.tree, mechanism.rng
    q, _ = posed(mechanism)
    constraints, given_rows = some_constraints(mechanism, least=2)
    given_rows = iter(given_rows)
    rows = [next(given_rows) if c.rows is None else None for c in constraints]
    sizes = [c.size for c in constraints]
    blocks = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])

    def matrix(chosen):
        given_later = [rows[k] for k in chosen if rows[k] is not None]
        return ds.delassus(tree, [constraints[k] for k in chosen], q, method=method, rows=given_later)

    order = rng.permutation(len(constraints))
    expected = matrix(range(len(constraints)))
    for chosen in (order, order[: len(order) // 2], order[:1]):
        index = np.concatenate([blocks[k] for k in chosen])
        assert np.max(np.abs(matrix(chosen) - expected[np.ix_(index, index)])) <= AGREEMENT * np.max(np.abs(expected))

    to_world = [k for k, c in enumerate(constraints) if c.second is None and not isinstance(c, ds.Hinge)]
    if to_world:
        combined, mixing = list(constraints), np.eye(len(expected))
        later = []
        for k, c in enumerate(constraints):
            K = rows[k] if c.rows is None else c.rows
            if k in to_world:
                A = rng.normal(size=(len(K), len(K)))
                mixing[np.ix_(blocks[k], blocks[k])] = A
                combined[k] = ds.Rows(c.first, A @ K, axes=c.axes)
            elif c.rows is None:
                later.append(K)
        G = ds.delassus(tree, combined, q, method=method, rows=later)
        assert error(G, mixing @ expected @ mixing.T) < AGREEMENT


@pytest.mark.slow
@examples(8)
@given(mechanisms)
def test_operator_and_inverses(mechanism):
    tree, rng = mechanism.tree, mechanism.rng
    q, textbook = posed(mechanism)
    constraints, rows, J = constrained(mechanism, textbook)
    G = textbook.delassus(J)
    operator = ds.delassus_operator(tree, constraints, q, rows=rows)
    x = rng.normal(size=(3, len(G)))
    assert error(operator.dense(), G) < AGREEMENT
    assert error(operator.apply(x), x @ G) < AGREEMENT
    b = x @ G  # reachable, so that solving leaves no residual even where rows are redundant
    assert error(operator.solve(b) @ G, b) < RESIDUAL

    eigenvalues = np.linalg.eigvalsh(G)
    if eigenvalues[0] > 1e-8 * max(eigenvalues[-1], NOTHING):
        Lambda = ds.osim(tree, constraints, q, rows=rows)
        assert error(Lambda @ G, np.eye(len(G))) < RESIDUAL
        J_bar = ds.consistent_inverse(tree, constraints, q, rows=rows)
        assert error(J_bar, np.linalg.solve(textbook.M, J.T) @ Lambda) < RESIDUAL
    elif eigenvalues[0] < 1e-14 * max(eigenvalues[-1], NOTHING):
        with pytest.raises(ds.SingularError):
            ds.osim(tree, constraints, q, rows=rows)


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_only_round_off_moves(seed):
    """Rows across a slider along x are zero, but for round-off where they are computed: redundant, moved by nothing."""
    Q = random_rotation(np.random.default_rng(seed))
    links = [RawLink("l0"), RawLink("l1", 2.0, np.zeros(3), 0.01 * np.eye(3))]
    tree = build_tree("slider", links, [RawJoint("j1", joint_kinds.PRISMATIC, "l0", "l1", rotation=Q, axis=Q[0])])
    across = ds.Rows("l1", np.eye(6)[1:3], axes="world")
    q = np.array([0.3])
    assert np.max(np.abs(ds.jacobian(tree, across, q))) < ROUND_OFF
    for constraint, expected in ((ds.Point("l1", axes="world"), [2.0, 0.0, 0.0]), (across, [0.0, 0.0])):
        operator = ds.delassus_operator(tree, constraint, q)
        assert operator.factorisation.item().name == "SINGULAR"
        assert error(operator.solve(np.ones(constraint.size)), np.array(expected)) < AGREEMENT
        for method in ds.OSIM_METHODS:
            with pytest.raises(ds.SingularError, match="independent rows"):
                ds.osim(tree, constraint, q, method=method)


def test_the_textbook_knows_a_pendulum():
    """A rod of length l and mass m about its end: M = m l²/3; its tip moves with l q̇."""
    inertia = 2.0 / 12 * np.diag([0.0, 0.6**2, 0.6**2])
    links = [RawLink("l0"), RawLink("l1", 2.0, np.array([0.3, 0, 0]), inertia)]
    joints = [RawJoint("j1", joint_kinds.REVOLUTE, "l0", "l1")]
    mechanism = Mechanism(links, joints, build_tree("rod", links, joints), np.random.default_rng(0), False)
    textbook = Textbook(mechanism, np.array([0.7]))
    J = textbook.jacobian([ds.Point(ds.Frame("l1", (0.6, 0, 0)))], [])
    assert error(textbook.M, np.array([[2.0 * 0.6**2 / 3]])) < ROUND_OFF
    assert error(J, np.array([[0.0], [0.6], [0.0]])) < ROUND_OFF
