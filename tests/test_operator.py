"""`DelassusOperator` against the dense Delassus matrix and NumPy's solvers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import delassus as ds
from delassus import Tree
from delassus.accuracy.rank import REGULAR_CONDITION
from internals import RawJoint, RawLink, build_tree, joint_kinds
from tools import AGREEMENT, error

pytestmark = pytest.mark.usefixtures("one_lane")

SOLVE = 1e-6
"""Residual and solution of a solve: `AGREEMENT` times the condition number that the tests let through."""

LEAST_SQUARES = 1e-6
"""Solutions of rows of sizes that differ by 1e3 and of condition 1e4, both of which are squared: the worst is 3e-8."""

CONDITION = 1e9
"""States whose G, scaled to unit diagonal, is conditioned worse than this are compared by residual only."""


@dataclass
class Case:
    tree: Tree
    constraints: list
    factorisation: str
    seed: int = 0

    def q(self, batch=()):
        return self.tree.random(self.seed, batch)

    @property
    def m(self):
        return sum(c.size for c in self.constraints)


def feet(*sizes):
    return [kind(f"{side}_foot") for kind in sizes for side in ("left", "right")]


def quadruped():
    """Go1 in outline: four legs of three joints, the last two parallel; contact points are the feet's centres."""
    box = np.diag([0.01, 0.02, 0.02])
    links, joints = [RawLink("trunk", 5.0, np.zeros(3), np.diag([0.02, 0.06, 0.07]))], []
    for name, x, y in (("FL", 1, 1), ("FR", 1, -1), ("RL", -1, 1), ("RR", -1, -1)):
        parent, at = "trunk", np.array([0.19 * x, 0.05 * y, 0.0])
        steps = (
            ("hip", [1.0, 0, 0], [0, 0.08 * y, 0]), ("thigh", [0, 1.0, 0], [0, 0, -0.213]),
            ("calf", [0, 1.0, 0], [0, 0, -0.213]),
        )  # fmt: skip
        for part, axis, step in steps:
            links.append(RawLink(f"{name}_{part}", 0.6, np.array([0, 0, -0.05]), 0.05 * box))
            joints.append(
                RawJoint(f"{name}_{part}_j", joint_kinds.REVOLUTE, parent, links[-1].name, at, axis=np.array(axis))
            )
            parent, at = links[-1].name, np.array(step, dtype=float)
        links.append(RawLink(f"{name}_foot"))
        joints.append(RawJoint(f"{name}_foot_j", None, parent, f"{name}_foot", at))
    return build_tree("quadruped", links, joints, root="floating")


LEGS = ("FL", "FR", "RL", "RR")
HUMANOID, GO, ARM = ds.mechanisms.humanoid(), quadruped(), ds.mechanisms.chain(7)
STAR, LADDER = ds.mechanisms.star(3, 7), ds.mechanisms.ladder(6)
FAST, DENSE, SINGULAR = "BRANCHES", "DENSE", "SINGULAR"
SQUARE = [ds.Frame("left_foot", (x, y, -0.02)) for x in (-0.1, 0.1) for y in (-0.05, 0.05)]

CASES = {
    # floating bases
    "feet": Case(HUMANOID, feet(ds.Weld), FAST),
    "feet, in world axes": Case(HUMANOID, [ds.Weld(f"{s}_foot", axes="world") for s in ("left", "right")], FAST),
    "feet and hands": Case(
        HUMANOID, [ds.Weld("left_foot"), ds.Point("right_foot"), ds.Hinge("left_hand"), ds.Weld("right_hand")], FAST
    ),
    "two on one limb": Case(HUMANOID, [ds.Point("left_foot"), ds.Rows("left_leg3", np.eye(6)[4:5])], FAST),
    "quadruped": Case(GO, [ds.Point(f"{leg}_foot") for leg in LEGS], FAST),
    "star": Case(STAR, [ds.Weld(f"branch{b}_7") for b in (1, 2, 3)], FAST),
    "one constraint": Case(HUMANOID, [ds.Weld("head")], DENSE),  # two neck joints and two of the torso
    # loops
    "loop through the base": Case(HUMANOID, [ds.Weld("left_foot", "right_foot")], FAST),
    "loop of points through the base": Case(
        HUMANOID, [ds.Point("left_hand", "right_foot"), ds.Weld("right_hand")], FAST
    ),
    "loops that share branches": Case(
        STAR, [ds.Weld("branch1_7", "branch2_7"), ds.Point("branch2_5", "branch3_7"), ds.Point("branch3_4")], FAST
    ),
    "loop within a limb": Case(STAR, [ds.Point("branch1_7", "branch1_3"), ds.Weld("branch2_7")], FAST),
    "a link and the base": Case(HUMANOID, [ds.Weld("left_hand", "pelvis")], FAST),
    # on the base
    "the base": Case(HUMANOID, [ds.Weld("pelvis")], DENSE),
    "the base and a foot": Case(HUMANOID, [ds.Weld("pelvis"), ds.Weld("left_foot")], DENSE),
    # singular branches, regular G: the foot's two last axes are parallel, the points lie on axes
    "points on knee axes": Case(GO, [ds.Point(f"{leg}_calf") for leg in LEGS], DENSE),
    "points on thigh axes": Case(GO, [ds.Point(f"{leg}_thigh") for leg in LEGS[:2]], DENSE),
    # fixed bases
    "arm": Case(ARM, [ds.Weld("link7")], FAST),
    "arm, two": Case(ARM, [ds.Point(ds.Frame(f"link{k}", (0.2, 0.1, 0.1))) for k in (7, 3)], FAST),
    "ladder, a rung": Case(LADDER, [ds.Weld("left6", "right6"), ds.Point("left4")], FAST),
    "ladder, one side": Case(LADDER, [ds.Weld("left6")], FAST),
    "humanoid on a stand": Case(ds.mechanisms.humanoid(root="fixed"), feet(ds.Weld), FAST),
    # redundant
    "four points on one foot": Case(HUMANOID, [ds.Point(f) for f in SQUARE], SINGULAR),
    "four points on one foot, and a hand": Case(
        HUMANOID, [*(ds.Point(f) for f in SQUARE), ds.Weld("right_hand")], SINGULAR
    ),
    "the same twice": Case(ARM, [ds.Point("link7"), ds.Point("link7")], SINGULAR),
    "more rows than joints": Case(ds.mechanisms.chain(4), [ds.Weld("link4")], SINGULAR),
    "the fixed base": Case(ARM, [ds.Weld("base"), ds.Point("link7")], SINGULAR),
    "the world itself": Case(HUMANOID, [ds.Weld("world"), ds.Weld("left_foot")], SINGULAR),
    "nothing moves at all": Case(ARM, [ds.Weld("base")], SINGULAR),
}


def cases(*names):
    return pytest.mark.parametrize("case", [pytest.param(CASES[name], id=name) for name in names or CASES])


def names(operator):
    return {how.name for how in np.ravel(operator.factorisation)}


def scaled(G):
    d = 1 / np.sqrt(np.maximum(np.diagonal(G, axis1=-2, axis2=-1), 1e-30))
    return d[..., :, None] * G * d[..., None, :]


@cases()
@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_against_the_dense_method(case, batch):
    """The matrix, its products and solutions; of redundant rows, least squares of least norm."""
    q, rng = case.q(batch), np.random.default_rng(1)
    operator = ds.delassus_operator(case.tree, case.constraints, q)
    G = ds.delassus(case.tree, case.constraints, q, method="dense")
    assert operator.shape == G.shape == (*batch, case.m, case.m) and f"{operator.shape}" in repr(operator)
    assert operator.factorisation.shape == batch and names(operator) == {case.factorisation}
    assert error(operator.dense(), G) < AGREEMENT
    assert np.array_equal(operator.dense(), np.swapaxes(operator.dense(), -1, -2))
    f, x = rng.normal(size=(2, *batch, case.m))
    product = (G @ f[..., None])[..., 0]
    assert error(operator.apply(f), product) < AGREEMENT
    assert error(operator.apply(operator.solve(product)), product) < SOLVE
    if case.factorisation != SINGULAR:
        assert np.max(np.linalg.cond(scaled(G))) < CONDITION
        assert error(operator.solve(product), f) < SOLVE
        columns = np.eye(case.m).reshape(case.m, *([1] * len(batch)), case.m)
        inverse = np.moveaxis(operator.solve(columns), 0, -1)
        assert inverse.shape == G.shape and error(inverse, np.swapaxes(inverse, -1, -2)) < SOLVE
        return
    expected = (np.linalg.pinv(G, rcond=REGULAR_CONDITION, hermitian=True) @ x[..., None])[..., 0]
    solved = operator.solve(x)  # inconsistent accelerations too
    assert error(solved, expected) < SOLVE
    assert error(operator.apply(operator.apply(solved) - x), np.zeros_like(x)) < SOLVE * max(np.max(np.abs(G)), 1)
    values, vectors = np.linalg.eigh(G)
    idle = np.where(values[..., None, :] < REGULAR_CONDITION * values[..., None, -1:], vectors, 0.0)
    assert error((np.swapaxes(idle, -1, -2) @ solved[..., None])[..., 0], np.zeros_like(x)) < SOLVE


# -- damping -------------------------------------------------------------------------------------------------------


@pytest.mark.turns(2)
@pytest.mark.slow
@cases()
def test_damped(case):
    batch = (4,)
    q, random = case.q(batch), np.random.default_rng(5)
    G = ds.delassus(case.tree, case.constraints, q, method="dense")
    of_rows, of_states = random.uniform(-6.0, 2.0, case.m), random.uniform(-9.0, -7.0, (*batch, case.m))
    for damping in (0.3, 10.0**of_rows, 10.0**of_states):
        damped = G + np.broadcast_to(damping, (*batch, case.m))[..., None] * np.eye(case.m)
        operator = ds.delassus_operator(case.tree, case.constraints, q, damping=damping)
        assert names(operator) == {"DAMPED"}
        assert error(operator.dense(), damped) < AGREEMENT
        f = random.normal(size=(*batch, case.m))
        x = operator.apply(f)
        assert error(x, (damped @ f[..., None])[..., 0]) < AGREEMENT
        wanted = np.linalg.solve(damped, x[..., None])[..., 0]
        lost = np.finfo(float).eps * np.max(np.abs(G)) / np.min(damping)
        bound = AGREEMENT + lost * lost + 10.0 * np.finfo(float).eps * np.max(np.linalg.cond(damped))
        assert error(operator.solve(x), wanted) < bound


@pytest.mark.slow
def test_damped_kernels():
    tree, feet = HUMANOID, [ds.Weld("left_foot"), ds.Weld("right_foot")]
    q, x = tree.random(0, 20), np.random.default_rng(0).normal(size=(20, 12))
    G = ds.delassus(tree, feet, q)
    product, solution = (ds.compile(tree, feet, what) for what in ("delassus_product", "damped_solution"))
    assert error(product(q, x), (G @ x[..., None])[..., 0]) < AGREEMENT
    d = 10.0 ** np.random.default_rng(1).uniform(-7.0, 1.0, (20, 12))
    wanted = np.linalg.solve(G + d[..., None] * np.eye(12), x[..., None])[..., 0]
    assert error(solution(q, x, d), wanted) < 1e-11
    wanted = np.linalg.solve(G, x[..., None])[..., 0]  # a damping that is lost beside G
    assert error(solution(q, x, np.full((20, 12), 1e-17)), wanted) < SOLVE
    assert error(ds.delassus_operator(tree, feet, q, damping=1e-17).solve(x), wanted) < SOLVE


def test_damped_without_constraints():
    arm, nothing = ds.mechanisms.chain(3), np.zeros((2, 0))
    q = arm.random(0, 2)
    operator = ds.delassus_operator(arm, [], q, damping=1.0)
    assert operator.solve(nothing).shape == operator.apply(nothing).shape == (2, 0)
    assert ds.compile(arm, [], "damped_solution")(q, nothing, nothing).shape == (2, 0)


@pytest.mark.parametrize("damping", [0.0, -1.0, np.nan, "much", np.ones(5), [1.0, 0.0, 1.0]])
def test_bad_damping(damping):
    arm = ds.mechanisms.chain(4)
    with pytest.raises(ds.DelassusError, match="damping"):
        ds.delassus_operator(arm, ds.Point("link4"), arm.random(0), damping=damping)


# -- batches -------------------------------------------------------------------------------------------------------


def test_states_of_a_batch_are_independent():
    """Only some states are singular, in each way; every state's answer is that of the state alone."""
    tree = ds.mechanisms.chain(6, root="floating")
    constraints = [ds.Rows("link6", 3), ds.Point("base")]
    q = tree.random(0, batch=6)
    generic, twice = np.random.default_rng(0).normal(size=(2, 3, 6))
    twice[2] = twice[0] + twice[1]
    K = np.stack([generic, twice, generic, np.zeros((3, 6)), generic, twice])
    fixed = [ds.Rows("link6", 3)]
    operator = ds.delassus_operator(tree, fixed, q, rows=[K])
    assert [how.name for how in operator.factorisation] == [FAST, SINGULAR, FAST, SINGULAR, FAST, SINGULAR]
    for chosen in (fixed, constraints):
        operator = ds.delassus_operator(tree, chosen, q, rows=[K])
        x = np.random.default_rng(1).normal(size=(6, operator.shape[-1]))
        solved, applied, dense = operator.solve(x), operator.apply(x), operator.dense()
        assert np.all(np.isfinite(solved))
        for k in range(6):
            alone = ds.delassus_operator(tree, chosen, q[k], rows=[K[k]])
            assert alone.factorisation.item() is operator.factorisation[k]
            assert error(solved[k], alone.solve(x[k])) < AGREEMENT
            assert error(applied[k], alone.apply(x[k])) < AGREEMENT
            assert error(dense[k], alone.dense()) < AGREEMENT


def test_a_stretched_limb():
    """Hip, knee and ankle in line: the branch loses a row there, the floating robot does not."""
    q = GO.random(0, batch=3)
    q[1, 7:] = 0.0  # all legs straight: the feet cannot move along them relative to the trunk
    constraints = [ds.Point(f"{leg}_foot") for leg in LEGS]
    operator = ds.delassus_operator(GO, constraints, q)
    G = ds.delassus(GO, constraints, q, method="dense")
    assert [how.name for how in operator.factorisation] == [FAST, DENSE, FAST]
    x = np.random.default_rng(0).normal(size=(3, 12))
    assert error(operator.solve(x), np.linalg.solve(G, x[..., None])[..., 0]) < SOLVE


def test_least_squares_of_kernels():
    """Of any rows, dependent ones in any order, almost alike, of sizes up to 1e3 times as large: what ``J⁺`` says."""
    body, rng, m, states = ds.mechanisms.free_body(1.0, np.eye(3)), np.random.default_rng(0), 7, 150
    kernel = ds.compile(body, ds.Rows("body", m), "delassus_solution")
    for r in (2, 4, 6):
        J = rng.normal(size=(states, m, r)) @ rng.normal(size=(states, r, 6))
        near = rng.choice([1.0, 1e-2, 1e-4], states)[:, None]
        J[:, 1] = rng.normal(size=(states, 1)) * J[:, 0] + near * J[:, 2]  # almost along the first one
        J *= 10.0 ** rng.uniform(-1.5, 1.5, (states, m, 1))
        J[: states // 4, 3] = 0.0
        J = np.take_along_axis(J, rng.permuted(np.tile(np.arange(m), (states, 1)), axis=1)[..., None], axis=1)
        x = rng.normal(size=(states, m))
        y, rank, estimate = kernel(body.neutral(), x, J, return_error=True)
        S = 1.0 / np.maximum(np.linalg.norm(J, axis=-1), 1e-9)[..., None]
        values = np.linalg.svd(S * J, compute_uv=False) ** 2
        expected = np.count_nonzero(values > REGULAR_CONDITION * values[:, :1], axis=-1)
        assert np.array_equal(rank, expected) and np.mean(estimate < 1e-3) > 0.99  # the machine code is certain
        U, s, _ = np.linalg.svd(J, full_matrices=False)
        s = np.where(np.arange(6) < expected[:, None], 1.0 / np.maximum(s, 1e-300), 0.0)[..., None]
        wanted = U @ (s**2 * (np.swapaxes(U, -1, -2) @ x[..., None]))
        assert all(error(*pair) < LEAST_SQUARES for pair in zip(y, wanted[..., 0], strict=True))


@pytest.mark.parametrize("near", [1e-4, 2e-5])
def test_kernels_solve_as_the_operator_does(near):
    """Two rows are almost alike, and a third one is their difference; at 2e-5 NumPy judges what is independent."""
    tree, rng = ds.mechanisms.chain(4), np.random.default_rng(0)
    K, q, x = rng.normal(size=(2, 6)), tree.random(rng, batch=30), rng.normal(size=(30, 3))
    rows = ds.Rows("link4", [K[0], K[0] + near * K[1], K[1]])
    operator = ds.delassus_operator(tree, rows, q)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ds.DelassusWarning)
        y, rank = ds.compile(tree, rows, "delassus_solution")(q, x)
    assert np.all(rank == 2) and names(operator) == {SINGULAR}
    assert error(y, operator.solve(x)) < AGREEMENT


def test_no_warnings_and_no_nan_where_some_states_are_singular():
    q = GO.random(0, batch=3)
    K = np.random.default_rng(0).normal(size=(3, 2, 6))
    K[1, 0] = 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        operator = ds.delassus_operator(GO, [ds.Rows("FL_calf", 2), ds.Point("RR_foot")], q, rows=[K])
        assert np.all(np.isfinite(operator.solve(np.ones(5))))
        assert np.all(np.isfinite(operator.apply(np.ones(5))))


def test_broadcasting():
    """Leading axes of x broadcast against the batch of states."""
    q = HUMANOID.random(0, batch=3)
    constraints = feet(ds.Weld)
    operator = ds.delassus_operator(HUMANOID, constraints, q)
    G = operator.dense()
    rng = np.random.default_rng(0)
    for shape in ((12,), (3, 12), (1, 12), (4, 1, 12), (5, 3, 12), (2, 1, 1, 12)):
        x = rng.normal(size=shape)
        expected = np.broadcast_shapes(shape, (3, 12))
        assert operator.solve(x).shape == operator.apply(x).shape == expected
        whole = np.broadcast_to(x, expected)
        assert error(operator.apply(x), np.einsum("bij,...bj->...bi", G, whole)) < AGREEMENT
        assert error(operator.solve(x), np.linalg.solve(G, whole[..., None])[..., 0]) < SOLVE
    single = ds.delassus_operator(HUMANOID, constraints, q[0])
    x = rng.normal(size=(7, 12))
    assert error(single.apply(x), x @ G[0].T) < AGREEMENT
    assert error(single.solve(x), np.linalg.solve(G[0], x.T).T) < SOLVE


def test_what_is_asked_with_is_not_changed():
    operator = ds.delassus_operator(HUMANOID, feet(ds.Weld), HUMANOID.random(0))
    x = np.arange(12)
    first = operator.solve(x)
    first[...] = 0.0
    operator.dense()[...] = 0.0
    operator.apply(x)[...] = 0.0
    assert np.array_equal(x, np.arange(12))
    assert operator.solve(x).any() and operator.apply(x).any() and operator.dense().any()
    x.setflags(write=False)
    operator.solve(x)
    assert error(operator.solve(list(range(12))), operator.solve(x)) == 0


@pytest.mark.parametrize("tree", [HUMANOID, ARM], ids=["floating", "fixed"])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_no_constraints(tree, batch):
    operator = ds.delassus_operator(tree, [], tree.random(0, batch))
    assert operator.shape == operator.dense().shape == (*batch, 0, 0)
    assert operator.factorisation.shape == batch
    assert operator.solve(np.zeros(0)).shape == (*batch, 0)


@pytest.mark.parametrize(
    ("tree", "constraints"), [(ARM, []), (HUMANOID, []), (ARM, [ds.Weld("base")]), (HUMANOID, [ds.Weld("world")])]
)
def test_apply_has_the_batch_where_nothing_moves(tree, constraints):
    operator = ds.delassus_operator(tree, constraints, tree.random(0, 3))
    m = operator.shape[-1]
    assert operator.apply(np.ones(m)).shape == operator.solve(np.ones(m)).shape == (3, m)


@cases("feet", "arm", "the base", "four points on one foot", "the fixed base")
def test_an_empty_batch(case):
    for batch in ((0,), (0, 3), (3, 0)):
        operator = ds.delassus_operator(case.tree, case.constraints, case.q(batch))
        assert operator.shape == operator.dense().shape == (*batch, case.m, case.m)
        assert operator.factorisation.shape == batch
        assert operator.solve(np.zeros((*batch, case.m))).shape == (*batch, case.m)
        assert operator.apply(np.zeros((*batch, case.m))).shape == (*batch, case.m)


# -- what the numbers are like -------------------------------------------------------------------------------------


def test_units_do_not_decide():
    """A gram of finger and a tonne of base: badly scaled, not singular."""
    light, heavy = 1e-9 * np.eye(3), 400.0 * np.eye(3)
    links = [RawLink("base", 1000.0, np.zeros(3), heavy)]
    joints = []
    rng = np.random.default_rng(0)
    for k in range(6):
        parent = links[-1].name
        links.append(RawLink(f"l{k}", 1e-3, rng.normal(size=3) * 1e-3, light))
        axis = np.eye(3)[k % 3]
        joints.append(RawJoint(f"j{k}", joint_kinds.REVOLUTE, parent, f"l{k}", rng.normal(size=3) * 1e-2, axis=axis))
    tree = build_tree("fly on an elephant", links, joints, root="floating")
    constraints = [ds.Weld("l5"), ds.Weld("base")]
    q = tree.random(0)
    operator = ds.delassus_operator(tree, constraints, q)
    G = ds.delassus(tree, constraints, q, method="dense")
    assert np.linalg.cond(G) > 1e10 and np.linalg.cond(scaled(G)) < CONDITION
    assert operator.factorisation.item() is not SINGULAR
    f = np.random.default_rng(1).normal(size=12)
    assert error(operator.solve(G @ f), f) < SOLVE


def test_what_a_factorisation_means_is_said():
    operator = ds.delassus_operator(ARM, [ds.Weld("base")], ARM.random(0))
    for member in type(operator.factorisation.item()):
        assert member.text and len(member.text) < 120
    assert "redundant" in operator.factorisation.item().text
