"""Soft constraints and proximal iterations: dense formulas, limits, MuJoCo, dependent rows, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import delassus as ds
from delassus.errors import ConfigurationError, ConstraintError
from delassus_studies.bench.errors import usual_and_near_singular
from delassus_studies.cases import Case
from internals import (
    HARD_AND_SOFT,
    SOFT,
    NumpyOps,
    Problem,
    SparseFactor,
    configuration_from_mujoco,
    configuration_to_mujoco,
    jacobian_columns,
    tree_from_mujoco,
    velocity_map_from_mujoco,
)
from random_trees import some_constraints, some_mechanism
from tools import AGREEMENT, by_method, error, make_motion, random_frame

CONDITION = 1e-8
"""Two orders of elimination: round-off, and the condition of ``M + Jᵀ R⁻¹ J`` for compliances down to 1e-4."""

LEAST_SQUARES = 1e-9
"""Proximal iterations against the pseudo-inverse, of well-conditioned sets."""

PEER = 1e-8
"""MuJoCo's accelerations: its file formats' digits, through the condition of M."""

ANY = sorted(SOFT | HARD_AND_SOFT)
SEEDS = range(4)


def some_problem(seed, batch=(2,)):
    """Any mechanism, any constraints (loops, redundant rows, rows that come with the call), a state and the rest."""
    rng = np.random.default_rng(seed)
    m = some_mechanism(seed, int(rng.integers(4, 7)), ("fixed", "floating")[seed % 2])
    constraints, rows = some_constraints(m)
    tree, rng = m.tree, m.rng
    state = tree.random(rng, batch), rng.normal(size=(*batch, tree.nv)), 5 * rng.normal(size=(*batch, tree.nv))
    frame = random_frame(rng, m.names[-1])
    more = {
        "targets": [rng.normal(size=c.size) if k % 3 else None for k, c in enumerate(constraints)],
        "rows": rows or None,
        "wrenches": {frame: rng.normal(size=6)},
        "gravity": 5 * rng.normal(size=3),
        "damping": rng.uniform(0, 1, tree.nv),
        "baumgarte": 2.0,
    }
    compliance = [10 ** rng.uniform(-4, -1, c.size) if k % 3 else 0.01 for k, c in enumerate(constraints)]
    return tree, state, constraints, compliance, more


def system(tree, state, constraints, more):
    """``M``, ``τ − c``, ``J``, ``γ`` of ``M q̈ = τ − c + Jᵀ f`` and ``J q̈ = γ``, by other functions of the library."""
    q, v, tau = state
    own = {name: more[name] for name in ("wrenches", "gravity", "damping") if name in more}
    M, force = ds.mass_matrix(tree, q), tau - ds.bias_force(tree, q, v, **own)
    J = ds.jacobian(tree, constraints, q, rows=more.get("rows"))
    any_solution = ds.forward_dynamics(tree, *state, constraints, method="ltl-soft", compliance=1.0, **more)
    gamma = (J @ any_solution.qdd[..., None])[..., 0] - any_solution.constraint_residual()
    return M, force[..., None], J, gamma[..., None]


def saddle_point(M, force, J, gamma, R):
    """``q̈`` and ``f`` for the diagonal ``R``, whose entries may be zero."""
    nv, m = J.shape[-1], J.shape[-2]
    A = np.zeros((*J.shape[:-2], nv + m, nv + m))
    A[..., :nv, :nv], A[..., :nv, nv:], A[..., nv:, :nv] = M, -J.mT, J
    A[..., range(nv, nv + m), range(nv, nv + m)] = R
    b = np.concatenate([force, gamma], axis=-2)
    x = np.linalg.solve(A, b)
    for _ in range(3):  # residuals in extended precision: small compliances of redundant rows are badly conditioned
        x = x + np.linalg.solve(A, (b - A.astype(np.longdouble) @ x).astype(float))
    x = x[..., 0]
    return x[..., :nv], x[..., nv:]


def diagonal(constraints, compliance):
    return np.concatenate([np.broadcast_to(r, c.size) for c, r in zip(constraints, compliance, strict=True)])


def stacked(solution):
    return np.concatenate(solution.forces, axis=-1)


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("method", ANY)
@pytest.mark.parametrize("seed", SEEDS)
def test_soft_constraints(seed, method):
    tree, state, constraints, compliance, more = some_problem(seed)
    solution = ds.forward_dynamics(tree, *state, constraints, method=method, compliance=compliance, **more)
    M, force, J, gamma = system(tree, state, constraints, more)
    R = diagonal(constraints, compliance)
    qdd = np.linalg.solve(M + J.mT @ (J / R[:, None]), force + J.mT @ (gamma / R[:, None]))[..., 0]
    assert error(solution.qdd, qdd) < CONDITION
    assert error(stacked(solution), ((gamma - J @ qdd[..., None])[..., 0] / R)) < 1e2 * CONDITION
    assert np.all(solution.status == ds.DynamicsStatus.SOLVED)
    assert np.all(solution.rank == len(R))
    scale = 1 + np.abs(solution.qdd).max()
    assert np.abs(solution.compliance_residual()).max() < 1e2 * AGREEMENT * scale
    assert np.abs(solution.dynamics_residual()).max() < 1e2 * AGREEMENT * (scale + np.abs(stacked(solution)).max())


@pytest.mark.slow
def test_what_there_is_to_absorb():
    """Nothing, a constraint of the world alone, loops through the world, through one link, and inside one another."""
    fixed, floating = ds.mechanisms.ladder(2), ds.mechanisms.star(3, 2)
    loops = [
        ds.Point("branch1_2", "branch2_2"),
        ds.Point("branch1_1", "branch2_1", axes="world"),
        ds.Hinge("branch1_2", "hub", axis=(0, 1, 1)),
        ds.Point("branch1_1", "branch1_2"),
        ds.Point(ds.Frame("branch3_2", (0.1, 0.2, 0.3)), "branch3_1"),
        ds.Point("hub"),
        ds.Point("world"),
        ds.Rows("hub", np.eye(6)[[0, 0, 1, 1, 2, 3, 4, 5]]),
    ]
    rungs = [ds.Weld(f"left{k}", f"right{k}") for k in (1, 2)]
    for tree, constraints in ((fixed, rungs), (floating, loops), (fixed, [ds.Weld("world")]), (fixed, [])):
        rng = np.random.default_rng(0)
        state = tree.random(rng, (3,)), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
        found = [ds.forward_dynamics(tree, *state, constraints, method=name, compliance=1e-3) for name in ANY]
        for solution in found:
            assert error(solution.qdd, found[0].qdd) < CONDITION
            for f, expected in zip(solution.forces, found[0].forces, strict=True):
                assert error(f, expected) < CONDITION


def test_where_the_factor_of_joint_space_fills_in():
    """Nowhere for constraints to the world; a loop fills in, and the factor is that of dense elimination."""
    star = ds.mechanisms.star(3, 3)
    world = [ds.Weld("branch1_3"), ds.Point("branch2_2"), ds.Weld("hub")]
    loop = [*world, ds.Weld("branch1_2", "branch3_3")]
    meeting = [*loop, ds.Point("branch2_2", "branch3_1")]  # eliminating the third branch joins the others
    for constraints in (world, loop, meeting):
        problem = Problem(NumpyOps(), star, constraints, star.random(0))
        columns = jacobian_columns(problem)
        pairs = {(i, j) for c in columns for i in c for j in c if j <= i}
        E = {(i, j): sum(c[i].T @ c[j] for c in columns if i in c and j in c) for i, j in pairs}
        L = SparseFactor(problem, E)
        dense = np.zeros((star.nv, star.nv))
        for k, above in enumerate(L.ancestors):
            dense[k, above], dense[k, k] = L.rows[k][0], 1.0 / L.reciprocal[k][0, 0]
        J = ds.jacobian(star, constraints, star.random(0))
        A = ds.mass_matrix(star, star.random(0)) + J.T @ J
        assert error(dense.T @ dense, A) < AGREEMENT
        assert error(dense, np.linalg.cholesky(A[::-1, ::-1])[::-1, ::-1].T) < AGREEMENT
        filled = sum(map(len, L.ancestors)) - sum(map(len, SparseFactor(problem).ancestors))
        assert (filled == 0) == (constraints is world)


@pytest.mark.slow
def test_compliance_of_each_state():
    tree, state, constraints, _, more = some_problem(3, (2,))
    R = [10 ** np.random.default_rng(0).uniform(-3, 0, (2, c.size)) for c in constraints]
    for method in ANY:
        together = ds.forward_dynamics(tree, *state, constraints, method=method, compliance=R, **more)
        for k in range(2):
            alone = ds.forward_dynamics(
                tree, *(x[k] for x in state), constraints, method=method, compliance=[r[k] for r in R], **more
            )
            assert error(together.qdd[k], alone.qdd) < AGREEMENT


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(SOFT))
def test_the_stiffer_the_closer_to_hard_constraints(method):
    robot = ds.mechanisms.star(3, 4)
    rng = np.random.default_rng(0)
    state = robot.random(rng), rng.normal(size=robot.nv), rng.normal(size=robot.nv)
    feet = [ds.Weld("branch1_4"), ds.Point("branch2_4", "branch3_4")]
    hard = ds.forward_dynamics(robot, *state, feet, method="kkt")
    distances = []
    for compliance in (1e-4, 1e-5, 1e-6):
        soft = ds.forward_dynamics(robot, *state, feet, method=method, compliance=compliance)
        distances.append(error(soft.qdd, hard.qdd))
        # what rows fall short of is R f, and f that of hard rows up to O(R): a tenth of it, not round-off
        assert np.abs(soft.constraint_residual()).max() < 1.1 * compliance * np.abs(stacked(hard)).max()
    assert distances[0] < 1e-2
    assert distances[1] / distances[0] == pytest.approx(0.1, rel=0.02)
    assert distances[2] / distances[1] == pytest.approx(0.1, rel=0.02)


# -- MuJoCo --------------------------------------------------------------------------------------------------------

LINK = '<inertial pos=".1 -.05 .2" quat=".9 .1 .3 -.2" mass="2" diaginertia=".03 .02 .04"/>'
CLOSED = f"""
<mujoco><option jacobian="dense" tolerance="0"><flag contact="disable" limit="disable"/></option><worldbody>
  <body name="torso" pos="0 0 1"><freejoint/>{LINK}
    <body name="a1" pos=".3 0 0"><joint type="ball" armature=".02" damping=".3"/>{LINK}
      <body name="a2" pos=".3 0 .1"><joint axis="0 1 0" damping=".4" armature=".1"/>{LINK}</body></body>
    <body name="b1" pos="-.3 0 0"><joint axis="1 0 .2"/>{LINK}
      <body name="b2" pos="0 .3 0"><joint axis="0 0 1" stiffness="3"/><joint type="slide" axis="1 1 0"/>{LINK}
        <body name="b3" pos="0 .2 0"><joint axis="0 1 1"/>{LINK}</body></body></body></body>
</worldbody><equality>
  <connect body1="a2" body2="b3" anchor=".1 .2 .3" solref=".05 .8" solimp=".8 .95 .01"/>
  <connect body1="b2" anchor=".2 0 .1"/>
  <weld body1="a1" relpose=".1 .2 .3 .9 .1 .2 .3" torquescale=".7" solref=".04 1.2"/>
  <connect body1="torso" body2="b3" anchor="0 .1 0"/>
</equality><actuator><motor joint="slider" gear="2"/></actuator></mujoco>"""


@pytest.mark.turns(3)
@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_mujoco(seed, tmp_path, monkeypatch):
    """``qacc`` for MuJoCo's own rows, ``efc_R`` and ``efc_aref``; it leaves out ``J̇ v``."""
    mujoco = pytest.importorskip("mujoco")

    monkeypatch.chdir(tmp_path)
    model = mujoco.MjModel.from_xml_string(CLOSED.replace('type="slide"', 'name="slider" type="slide"'))
    data, rng = mujoco.MjData(model), np.random.default_rng(seed)
    tree = tree_from_mujoco(model)
    q = tree.random(rng)
    data.qpos[:], data.qvel[:] = configuration_to_mujoco(tree, q), rng.normal(size=model.nv)
    data.qfrc_applied[:], data.ctrl[:] = rng.normal(size=model.nv), rng.normal(size=1)
    mujoco.mj_forward(model, data)
    assert data.nefc == 15 and set(data.efc_type) == {int(mujoco.mjtConstraint.mjCNSTR_EQUALITY)}
    rows = data.efc_J.reshape(15, model.nv)

    # constraints with these rows; those of the weld turn with its error
    q = configuration_from_mujoco(tree, data.qpos)
    T = velocity_map_from_mujoco(tree, q)
    places = model.eq_data[:, :6].reshape(-1, 2, 3)
    frame = ds.Frame("a1", model.eq_data[2, 3:6])
    turn = rows[6:12] @ np.linalg.pinv(ds.jacobian(tree, ds.Weld(frame, axes="world"), q) @ T)
    constraints = [
        ds.Point(ds.Frame("a2", places[0, 0]), ds.Frame("b3", places[0, 1]), axes="world"),
        ds.Point(ds.Frame("b2", places[1, 0]), axes="world"),
        ds.Rows(frame, turn, axes="world"),
        ds.Point(ds.Frame("torso", places[3, 0]), ds.Frame("b3", places[3, 1]), axes="world"),
    ]
    J = ds.jacobian(tree, constraints, q)
    assert error(J @ T, rows) < PEER

    # MuJoCo's linear velocity of a free joint is in the world's axes: v̇ = T qacc + shift
    v = T @ data.qvel
    shift = np.zeros(tree.nv)
    shift[:3] = -np.cross(v[3:6], v[:3])
    tau = T @ (data.qfrc_passive + data.qfrc_applied + data.qfrc_actuator)
    passive = {"passive": "none"}  # MuJoCo's passive forces are in tau
    free = ds.forward_dynamics(tree, q, v, tau, constraints, method="ltl-soft", compliance=1.0, **passive)
    drift = free.constraint_residual() - J @ free.qdd
    split = np.cumsum([c.size for c in constraints])[:-1]
    asked, compliance = np.split(data.efc_aref + drift + J @ shift, split), np.split(data.efc_R, split)
    for method in ANY:
        solution = ds.forward_dynamics(
            tree, q, v, tau, constraints, method=method, targets=asked, compliance=compliance, **passive
        )
        assert error(T.T @ (solution.qdd - shift), data.qacc) < PEER
        assert error(stacked(solution), data.efc_force) < PEER


# -- proximal iterations -------------------------------------------------------------------------------------------


def two_legs():
    """A floating hub with two branches of four links."""
    return ds.mechanisms.star(2, 4)


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(HARD_AND_SOFT))
@pytest.mark.parametrize("seed", SEEDS)
def test_soft_and_hard_together(seed, method):
    """Hard rows between soft ones; the hard ones independent."""
    robot = (lambda: ds.mechanisms.star(3, 3), lambda: ds.mechanisms.ladder(6))[seed % 2]()
    ends = ("branch1_3", "branch2_3", "branch3_3") if seed % 2 == 0 else ("left4", "right6", "left6")
    constraints = [ds.Weld(ends[0]), ds.Point(ends[1], axes="world"), ds.Hinge(ends[2], ends[1]), ds.Weld(ends[0])]
    compliance = [0.01, None, np.geomspace(1e-5, 1, 5), 0.1]
    rng = np.random.default_rng(seed)
    state = robot.random(rng, (2,)), rng.normal(size=robot.nv), rng.normal(size=(2, robot.nv))
    solution = ds.forward_dynamics(robot, *state, constraints, method=method, compliance=compliance)
    assert np.all(solution.status == ds.DynamicsStatus.SOLVED)
    R = diagonal(constraints, [0.0 if r is None else r for r in compliance])
    qdd, f = saddle_point(*system(robot, state, constraints, {}), R)
    assert error(solution.qdd, qdd) < CONDITION and error(stacked(solution), f) < CONDITION
    assert np.abs(solution.compliance_residual()).max() < 1e-9 * (1 + np.abs(f).max())
    assert np.abs(solution.constraint_residual()[..., 6:9]).max() < 1e-9 * (1 + np.abs(f).max())


SETS = {
    "welds and points on branches": (
        lambda: ds.mechanisms.star(3, 5),
        [ds.Weld("branch1_5"), ds.Point(ds.Frame("branch2_5", (0.1, 0.0, -0.05))), ds.Hinge("branch3_5")],
    ),
    "seven rows on one link": (
        lambda: ds.mechanisms.chain(7),
        [ds.Rows("link7", np.eye(7, 6) + 0.3 * np.eye(7, 6, 1))],
    ),
    "rows on the base": (lambda: ds.mechanisms.star(3, 3), [ds.Point("hub"), ds.Weld("branch1_3"), ds.Point("hub")]),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "compliance", "hard"),
    [
        (name, compliance, hard)  # all pairs
        for k, name in enumerate(SETS)
        for j, compliance in enumerate((1e-3, 1e-6, 1e-9))
        for hard in ([(), (1,)] if k == j else [[(), (1,)][(k + j) % 2]])
    ],
)
def test_early_elimination_loses_no_digits(name, compliance, hard):
    """Beyond the condition ``G / R``: where compliances differ by row, where all joints are straight or not."""
    tree, constraints = SETS[name][0](), SETS[name][1]
    rng = np.random.default_rng(0)
    q = np.stack([tree.random(rng), tree.neutral(), tree.random(rng)])
    state = q, rng.normal(size=(3, tree.nv)), rng.normal(size=(3, tree.nv))
    for spread in (0.0, 2.0):
        R = [
            None if k in hard else compliance * 10 ** rng.uniform(0, spread, c.size) for k, c in enumerate(constraints)
        ]
        found = ds.forward_dynamics(tree, *state, constraints, method="pv-early", compliance=R)
        entries = diagonal(constraints, [0.0 if r is None else r for r in R])
        M, force, J, gamma = system(tree, state, constraints, {})
        qdd, f = saddle_point(M, force, J, gamma, entries)
        condition = np.abs(J @ np.linalg.solve(M, J.mT)).max() / entries[entries > 0].min()
        digits = np.finfo(float).eps * condition  # worst of the kernels of two processors, four seeds: a thousandth
        assert error(found.qdd, qdd) < digits and error(stacked(found), f) < digits
        assert np.all((found.status == ds.DynamicsStatus.SOLVED) | (found.error_estimate > 1e-6))


@pytest.mark.parametrize("compliance", [1e-3, 1.0])
def test_soft_rows_that_depend_on_one_another_near_singular_states(compliance):
    """Nine rows on a hand, six of which say all, where some joints are all but straight."""
    tree, constraints = (
        ds.mechanisms.humanoid(),
        [ds.Weld("left_hand"), ds.Point(ds.Frame("left_hand", (0.1, 0.2, 0.3)))],
    )
    states = usual_and_near_singular(tree, np.random.default_rng(0), 100)
    state = states[:, : tree.nq], states[:, tree.nq : -tree.nv], states[:, -tree.nv :]
    motion, _ = make_motion(tree, *state, constraints, compliance=[compliance] * 2)
    found = by_method(motion, "pv-early")
    qdd, f = saddle_point(*system(tree, state, constraints, {}), np.full(9, compliance))
    assert error(found.qdd[..., 0], qdd) < CONDITION and error(found.forces[..., 0], f) < CONDITION


@pytest.mark.slow
def test_soft_constraints_that_can_be_off():
    robot = ds.mechanisms.star(4, 2)
    feet = [ds.Weld("branch1_2"), ds.Point("branch2_2"), ds.Hinge("branch3_2", "branch4_2")]
    rng = np.random.default_rng(0)
    state = robot.random(rng, (2,)), rng.normal(size=(2, robot.nv)), rng.normal(size=(2, robot.nv))
    for compliance in (1e-5, [1e-5, 1e-3, 1e-2]):
        each = [compliance] * 3 if isinstance(compliance, float) else compliance
        for active in ([1, 1, 1], [1, 0, 1], [0, 1, 0], [0, 0, 0]):
            found = ds.forward_dynamics(robot, *state, feet, method="pv-early", compliance=compliance, active=active)
            left = [k for k in range(3) if active[k]]
            some = {"compliance": [each[k] for k in left]} if left else {}
            expected = ds.forward_dynamics(robot, *state, [feet[k] for k in left], **some)
            assert error(found.qdd, expected.qdd) < CONDITION
            for k, f in enumerate(found.forces):
                assert error(f, expected.forces[left.index(k)]) < CONDITION if active[k] else not f.any()
    with pytest.raises(ConstraintError, match=r"can be off.*Use 'proximal'"):
        ds.forward_dynamics(robot, *state, feet, method="pv-early", compliance=[1.0, None, 1.0], active=[1, 1, 1])


@pytest.mark.parametrize("compliance", [1e-2, 1e-4, 1e-6, 1e-8])
def test_soft_rows_may_be_redundant(compliance):
    """Soft constraints cannot conflict: six rows on three joints, moving, by iterations and by what is compiled."""
    arm = ds.mechanisms.chain(3)
    rng = np.random.default_rng(0)
    state = arm.random(rng), rng.normal(size=3), rng.normal(size=3)
    expected = ds.forward_dynamics(arm, *state, ds.Weld("link3"), method="pv-soft", compliance=compliance)
    found = ds.forward_dynamics(arm, *state, ds.Weld("link3"), method="proximal", compliance=compliance)
    assert found.status == ds.DynamicsStatus.SOLVED and found.rank == 6 and found.iterations <= 3
    motion, _ = make_motion(arm, *state, [ds.Weld("link3")], compliance=[compliance])
    program = by_method(motion, "proximal")
    digits = 1e-10 + 1e-15 / compliance  # forces on what no joint moves are what is asked for over the compliance
    for qdd, f in ((found.qdd, stacked(found)), (program.qdd[:, 0], program.forces[:, 0])):
        assert error(qdd, expected.qdd) < digits and error(f, stacked(expected)) < digits


@pytest.mark.slow
@pytest.mark.parametrize("method", sorted(HARD_AND_SOFT))
def test_redundant_hard_rows_between_soft_ones(method):
    """Rank and status are those of the hard rows; soft ones that contradict one another share the force."""
    robot = two_legs()
    rng = np.random.default_rng(0)
    state = robot.random(rng), np.zeros(robot.nv), rng.normal(size=robot.nv)
    hand, foot = ds.Weld("branch2_4"), ds.Weld("branch1_4")
    more = {"compliance": [1e-5, None, None, 1e-5], "targets": [np.ones(6), None, None, -np.ones(6)]}
    both = ds.forward_dynamics(robot, *state, [hand, foot, foot, hand], method=method, **more)
    assert both.status == ds.DynamicsStatus.REDUNDANT and both.rank == 18
    assert np.flatnonzero(both.redundant_rows).tolist() == [*range(12, 18)]
    one = ds.forward_dynamics(robot, *state, [hand, foot], compliance=[5e-6, None])  # the targets' mean is zero
    assert error(both.qdd, one.qdd) < LEAST_SQUARES
    assert error(both.forces[1], both.forces[2]) < LEAST_SQUARES
    assert error(both.forces[1] + both.forces[2], one.forces[1]) < LEAST_SQUARES


@pytest.mark.slow
def test_iterations_that_end_early():
    robot = two_legs()
    state = robot.random(0), np.ones(robot.nv), np.ones(robot.nv)
    feet = [ds.Weld("branch1_4"), ds.Weld("branch2_4")]
    short = ds.forward_dynamics(robot, *state, feet, method="proximal", max_iterations=1)
    assert short.status == ds.DynamicsStatus.UNFINISHED and short.iterations == 1
    assert "max_iterations" in short.status[()].text and "UNFINISHED" in repr(short)
    long = ds.forward_dynamics(robot, *state, feet, method="proximal")
    loose = ds.forward_dynamics(robot, *state, feet, method="proximal", tolerance=1e-3)
    assert long.status == loose.status == ds.DynamicsStatus.SOLVED
    assert loose.iterations <= long.iterations and long.residual < 1e-10
    assert ds.forward_dynamics(robot, *state, feet, method="kkt").iterations is None
    assert ds.forward_dynamics(robot, *state, method="proximal").iterations is None
    with pytest.raises(ValueError, match="read-only"):
        long.iterations[...] = 1


# -- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"compliance": -1.0}, ConstraintError, "compliance of Point.*positive numbers.*got -1"),
        ({"compliance": 0.0}, ConstraintError, "positive numbers.*hard constraint has the compliance None"),
        ({"compliance": [[1, 1, 0]]}, ConstraintError, "positive numbers"),
        ({"compliance": [np.ones(4)]}, ConstraintError, r"compliance of Point.*shape \(\.\.\., 3\).*got shape \(4,\)"),
        ({"compliance": [1.0, 1.0]}, ConstraintError, "compliance: .*each of 1 constraint"),
        ({"compliance": np.nan}, ConstraintError, "nan at index"),
        ({"compliance": "soft"}, ConstraintError, "compliance of Point"),
        (
            {"compliance": [np.ones((2, 3))], "tau": np.zeros((3, 3))},
            ConfigurationError,
            "compliance of Point.*leading axes",
        ),
        ({"method": "pv-soft"}, ConstraintError, "compliance: .*for all constraints.*'pv-soft'.*None for 1 of 1"),
        ({"method": "ltl-soft", "compliance": [None]}, ConstraintError, "Pass compliance=1e-6, or use 'pv-early'"),
        ({"method": "pv", "compliance": 1.0}, ConstraintError, "None with the method 'pv'.*Use one of 'kkt', 'ltl'"),
        ({"method": "kkt", "tolerance": 1e-3}, ConfigurationError, "tolerance: expected None with the method 'kkt'"),
        ({"method": "proximal", "tolerance": 0.0}, ConfigurationError, "tolerance: expected a number > 0"),
        ({"method": "proximal", "max_iterations": 2.5}, ConfigurationError, "max_iterations: .*whole number"),
        ({"method": "proximal", "max_iterations": 0}, ConfigurationError, "max_iterations: .*whole number"),
    ],
)
def test_bad_input(change, kind, message):
    arm = ds.mechanisms.chain(3)
    given = {"q": np.zeros(3), "v": np.zeros(3), "tau": np.zeros(3), "constraints": ds.Point("link3"), **change}
    with pytest.raises(kind, match=message):
        ds.forward_dynamics(arm, **given)


def test_defaults():
    arm = ds.mechanisms.chain(6)
    state = arm.random(0), np.zeros(6), np.zeros(6)
    two = [ds.Point("link6"), ds.Point("link3")]
    for compliance in (1.0, [1.0, None], None):
        assert ds.forward_dynamics(arm, *state, two, compliance=compliance).method == "pv-early"
        assert ds.compile(arm, two, "dynamics", compliance=compliance).method == "pv-early"
    assert ds.forward_dynamics(arm, *state, compliance=1.0).method == "aba"


# -- delassus reproduce dynamics -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_claims_of_accuracy():
    from delassus_studies.claims.dynamics import accuracy, judge_accuracy

    weights = (1e2, 1e5, 1e8, 1e12)
    feet = [ds.Weld("left_foot"), ds.Weld("right_foot")]
    found = accuracy(ds.mechanisms.humanoid(), feet, 5, weights)
    for name in SOFT:
        assert found.residual[name].shape == (4, 5)
        assert np.all(np.diff(np.median(found.residual[name], axis=-1)) < 0)
        distance = np.median(found.distance[name], axis=-1)
        assert distance[0] > distance[1] > distance[2] < distance[3]  # the largest weight is too much for both
    finding = judge_accuracy(found, weights)
    assert finding.verdict in ("holds", "in part") and len(finding.panels) == 2


def test_claims_of_scaling():
    from delassus_studies.counters import operations

    tree, constraints = ds.mechanisms.comb(2), [ds.Weld("rung1_7"), ds.Weld("rung2_7")]
    held, loose = Case("rungs", tree, constraints), Case("free", tree, ())
    assert min(operations(held, method) for method in SOFT) > 1000
    soft, free = operations(held, "pv-soft"), operations(loose, "aba")
    assert free < soft < 1.2 * free  # nearly independent of the constraints
