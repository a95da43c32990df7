"""Tendons: lengths along frames and joints that are held, follow one another by polynomials, or pull; MuJoCo's."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus.errors import ConstraintError, UnknownNameError
from random_trees import SINGLE, some_mechanism
from test_spring_forces import by_differences
from tools import AGREEMENT, SMALL_STEPS, UNPLANNED, error, random_frame, slope

pytestmark = pytest.mark.usefixtures("one_lane")

ROUND_OFF = 1e-9
"""Of accelerations and derivatives by differences; of relative errors the worst is 9e-11."""


def some_tendon(m, **numbers):
    """Through links and the world, with a pulley, on joints, and with a part that follows another length."""
    rng, (first, *_, last), middle = m.rng, m.tree.link_names, m.tree.link_names[m.tree.n_links // 2]
    a, b, c = (random_frame(rng, str(name)) for name in (last, middle, first))
    places = [ds.Frame("world", rng.normal(size=3)) for _ in range(2)]
    single = [joint.name for joint in m.tree.joints if joint.nq == joint.nv == 1]
    ratios, others = ({name: float(rng.normal()) for name in names} for names in (single[:2], single[-2:]))
    follows = ds.Tendon([c, places[1]], others)
    path = [a, b, places[0], 2.0, c, a]
    return ds.Tendon(path, ratios, length=0.4, follows=follows, polynomial=(0.3, -0.2, 0.1, 0.05), **numbers)


def some_case(seed):
    m = some_mechanism(seed, 3, ("fixed", "floating")[seed % 2], SINGLE)
    return m, m.tree.random(m.rng), m.rng.normal(size=m.tree.nv), m.rng.normal(size=m.tree.nv)


@pytest.mark.parametrize("seed", range(2))
def test_rows_are_changes_of_the_length(seed):
    """``J`` and ``J̇ v`` by differences; every method agrees; copies and prefixes are the same tendon."""
    m, q, v, tau = some_case(seed)
    tree, held = m.tree, some_tendon(m)
    assert pickle.loads(pickle.dumps(held)) == held and held.holds
    J, moved = ds.jacobian(tree, held, q), tree.integrate(q, SMALL_STEPS[:, None] * v)
    ends = [[held.error_at(tree, tree.integrate(q, h * unit)) for h in SMALL_STEPS] for unit in np.eye(tree.nv)]
    assert error(J[0], [slope(*x) for x in ends]) < ROUND_OFF
    rate = np.ravel(slope(*ds.jacobian(tree, held, moved)) @ v)
    assert error(ds.jacobian_drift(tree, held, q, v), rate) < ROUND_OFF
    G = J @ np.linalg.solve(ds.mass_matrix(tree, q), J.T)
    for method in UNPLANNED:
        assert error(ds.delassus(tree, held, q, method=method), G) < AGREEMENT, method
    found = ds.forward_dynamics(tree, q, v, tau, held)
    assert np.abs(J @ found.qdd + rate).max() < ROUND_OFF * np.abs(found.qdd).max()
    steady = ds.forward_dynamics(tree, q, v, tau, held, baumgarte=10.0).qdd
    wanted = -rate - 20.0 * J @ v - 100.0 * held.error_at(tree, q)
    assert error(J @ steady, wanted) < ROUND_OFF
    hand = ds.mechanisms.chain(1).attach("link1", tree, prefix="h_") if not seed else None
    if hand is not None:
        assert held.prefixed("h_").joints == tuple(f"h_{name}" for name in held.joints)
        held.prefixed("h_").check(hand)


@pytest.mark.parametrize("seed", range(2))
def test_as_a_spring_it_pulls_along_its_row(seed):
    """Forces, energies, first and second derivatives, and steps: kernels and scenes agree, also where it is stiff."""
    m, q, v, tau = some_case(seed)
    tree, state, n = m.tree, m.rng.bit_generator.state, m.tree.nv
    spring = some_tendon(m, stiffness=30.0, damping=0.7)
    m.rng.bit_generator.state = state
    J = ds.jacobian(tree, some_tendon(m), q)
    e = spring.error_at(tree, q)
    wanted = ds.forward_dynamics(tree, q, v, tau - J.T @ (30.0 * e + 0.7 * J @ v)).qdd
    assert error(ds.forward_dynamics(tree, q, v, tau, spring).qdd, wanted) < ROUND_OFF
    assert error(ds.potential_energy(tree, q, spring), ds.potential_energy(tree, q) + 15.0 * e * e) < ROUND_OFF
    for rows in (spring, some_tendon(m))[seed:]:
        d = ds.dynamics_derivatives(tree, q, v, tau, rows)

        def moved(x, rows=rows):
            return ds.forward_dynamics(tree, tree.integrate(q, x[..., :n]), v + x[..., n:], tau, rows).qdd

        assert error(np.hstack([d.dqdd_dq, d.dqdd_dv]), by_differences(moved, 2 * n)) < ROUND_OFF
    if not seed:
        for size in (1e6,):
            m.rng.bit_generator.state = state
            stiff = some_tendon(m, stiffness=30.0 * size, damping=0.7 * size)
            step, other = (ds.compile(tree, stiff, x, wait=False) for x in ("step", "contact_step"))
            still = other(q, 0.0 * v, [], tau, 1e-3)[1]
            assert error(step(q, 0.0 * v, tau, 1e-3)[1], still) < ROUND_OFF
            sim = ds.Simulator(ds.Scene(tree).attach(stiff), q0=q, v0=v, dt=1e-3)
            sim.step(tau)
            assert error(sim.v, other(q, v, [], tau, 1e-3)[1]) < ROUND_OFF
    else:
        u, h = m.rng.normal(size=n), np.array([1e-3, -1e-3, 2e-3, -2e-3, 0.0])[:, None]
        one, two, three, four, middle = ds.forward_dynamics(tree, tree.integrate(q, h * u), v, tau, spring).qdd
        second = ds.dynamics_hessian(tree, q, v, tau, spring).d2qdd_dqdq
        curved = (16.0 * (one + two) - (three + four) - 30.0 * middle) / 12e-6
        assert error(np.einsum("ijk,j,k", second, u, u), curved) < 1e-6


@pytest.mark.parametrize("seed", range(2))
def test_limits_only_push_back(seed):
    """Dynamics, steps of kernels and of scenes, derivatives: within, beyond, and where it comes back."""
    m, q, v, tau = some_case(seed)
    tree = m.tree
    spring = some_tendon(m, stiffness=300.0, damping=200.0)
    J, at = ds.jacobian(tree, replace(spring, stiffness=None, damping=None), q)[0], spring.error_at(tree, q) + 0.4
    for limits in ((at - 1.0, np.inf), (-np.inf, at - 0.2), (at + 0.1, at + 1.0)):
        stop = replace(spring, length=limits)
        e = stop.error_at(tree, q)
        for u in (v, -v):
            f = 300.0 * e + 200.0 * J @ u
            wanted = ds.forward_dynamics(tree, q, u, tau - J * f * (e * f > 0.0)).qdd
            assert error(ds.forward_dynamics(tree, q, u, tau, stop).qdd, wanted) < ROUND_OFF
            assert error(ds.potential_energy(tree, q, stop) - ds.potential_energy(tree, q), 150.0 * e * e) < ROUND_OFF
    if not seed:
        stop = replace(stop, length=(at + 0.1, at + 1.0))
        step, other = (ds.compile(tree, stop, x, wait=False) for x in ("step", "contact_step"))
        assert error(step(q, 0.0 * v, tau, 1e-3)[1], other(q, 0.0 * v, [], tau, 1e-3)[1]) < ROUND_OFF
        wide = replace(stop, length=(at - 1.0, at + 1.0))
        within, free = (ds.compile(tree, rows, "step", wait=False) for rows in (wide, ()))
        assert error(within(q, v, tau, 1e-3)[1], free(q, v, tau, 1e-3)[1]) < ROUND_OFF
        for u in (v, -v):
            sim = ds.Simulator(ds.Scene(tree).attach(stop), q0=q, v0=u, dt=1e-3)
            sim.step(tau)
            assert error(sim.v, other(q, u, [], tau, 1e-3)[1]) < ROUND_OFF
            found = ds.step_derivatives(tree, q, u, tau, 1e-3, stop)

            def moved(x, u=u, found=found):
                ends = [step(tree.integrate(q, y[: tree.nv]), u + y[tree.nv :], tau, 1e-3) for y in x]
                return np.stack([np.r_[tree.difference(found.q_next, a), b] for a, b in ends])

            assert error(found.A, by_differences(moved, 2 * tree.nv)) < 10.0 * ROUND_OFF


def test_a_pendulum_stays_within_the_limits_of_its_tendon():
    arm = ds.mechanisms.pendulum(2)
    first, second = arm.joint_names
    stop = ds.Tendon(ratios={first: 1.0, second: -0.5}, length=(-0.3, 0.4))
    sim, found = ds.Simulator(ds.Scene(arm).attach(stop), v0=[2.0, -1.0], dt=1e-3), []
    for _ in range(2000):
        sim.step()
        found.append(sim.q @ [1.0, -0.5])
    assert -0.305 < min(found) < -0.3 and 0.4 < max(found) < 0.405

    def stepped(x):
        sim = ds.Simulator(ds.Scene(arm).attach(stop), q0=x[:2], v0=x[2:], dt=1e-3)
        sim.step()
        return sim

    at = np.array([0.45, 0.0, 0.3, -0.2])  # beyond a limit
    ends = [[np.r_[y.q, y.v] for y in map(stepped, at + SMALL_STEPS * unit)] for unit in np.eye(4)]
    assert error(stepped(at).step_derivatives().A, np.stack([slope(*x) for x in ends], axis=1)) < ROUND_OFF


MODEL = """<mujoco><option><flag contact="disable"/></option><worldbody><site name="w" pos=".3 .1 .9"/>
<site name="w2" pos="-.3 .4 .2"/><body name="a" pos="0 0 1"><joint name="ja" axis="0 1 0" ref="0.3"/>
<geom type="capsule" size=".05" fromto="0 0 0 .3 0 -.4"/><site name="sa" pos=".1 .02 -.1"/>
<site name="sa2" pos=".1 .02 -.3"/><body name="b" pos=".3 0 -.4"><joint name="jb" axis="1 1 0" type="slide"/>
<joint name="jb2" axis="1 0 0.2" ref="-.2"/><geom type="box" size=".1 .05 .1"/><site name="sb" pos=".1 .1 0"/></body>
<body name="c" pos=".1 0 -.4"><joint name="jc" axis="0 1 1"/><geom type="box" size=".1 .05 .1" pos="0 0 .1"/>
<site name="sc" pos=".1 .1 0.2"/></body></body><body name="f" pos="1 1 1"><joint name="jf" type="slide" axis="1 2 3"/>
<joint name="jg" axis="3 1 0"/>
<geom type="box" size=".1 .2 .1"/><site name="sf" pos=".1 .1 0.1"/></body></worldbody><tendon>
<spatial name="t1" stiffness="40" damping="2" springlength=".8"><site site="w"/><site site="sa"/><site site="sa2"/>
<site site="sb"/><pulley divisor="3"/><site site="sc"/><site site="sf"/></spatial>
<spatial name="t2" damping="1.5"><site site="sb"/><site site="sf"/></spatial>
<fixed name="f1" stiffness="20" damping=".4" springlength=".1"><joint joint="ja" coef=".3"/>
<joint joint="jb2" coef="-1.2"/></fixed><fixed name="f2" stiffness="3"><joint joint="jb" coef=".5"/></fixed>
<fixed name="f3" stiffness="30" damping=".3" springlength="0 .05" limited="true" range="-9 9">
<joint joint="jc" coef="1"/></fixed><spatial name="t3"><site site="w2"/><site site="sc"/></spatial></tendon><equality>
<joint joint1="ja" joint2="jc" polycoef="0.1 .5 .3 -.2 .1"/>
<tendon tendon1="t3" tendon2="t1" polycoef="0.05 .4 .3 .1 -.1"/>
<tendon tendon1="f1" tendon2="f2" polycoef="0.01 .4 .3 .1 -.1"/>
<tendon tendon1="t2" polycoef="0.02 0 0 0 0"/></equality></mujoco>"""


def states(mujoco, model, rng):
    """MuJoCo's data at random states, and joint forces."""
    data = mujoco.MjData(model)
    for _ in range(3):
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = rng.normal(size=(3, model.nv)) * [[0.4], [1.0], [1.0]]
        mujoco.mj_forward(model, data)
        yield data, data.qpos.copy(), data.qvel.copy(), data.qfrc_applied.copy()


@pytest.mark.peer
def test_tendons_of_a_file_are_mujocos():
    """Forces of springs through sites and of joints, rows and errors of equalities; as they are read, and written."""
    mujoco = pytest.importorskip("mujoco")
    model, rng = mujoco.MjModel.from_xml_string(MODEL), np.random.default_rng(0)
    tree = ds.load(model)
    assert not tree.omitted
    held = [c for c in tree.constraints if c.holds]
    back = ds.load(tree.to_mjcf())
    for robot in (tree, back):
        own = [c for c in robot.constraints if c.holds]
        for data, q, v, _ in states(mujoco, model, rng):
            J = data.efc_J.reshape(-1, model.nv)[: len(held)]
            np.testing.assert_allclose(ds.jacobian(robot, own, q), J, atol=1e-12)
            errors = [c.error_at(robot, q) for c in own]
            np.testing.assert_allclose(errors, data.efc_pos[: len(held)], atol=1e-12)
            push = ds.bias_force(robot, q, v, passive="none") - ds.bias_force(robot, q, v)
            assert error(push, data.qfrc_passive) < 1e-12
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_EQUALITY)
    for data, q, v, tau in states(mujoco, model, rng):
        assert error(ds.forward_dynamics(tree, q, v, tau, ()).qdd, data.qacc) < ROUND_OFF


def test_values_and_bad_input():
    arm = ds.mechanisms.pendulum(2)
    first, second = arm.joint_names
    with pytest.raises(ConstraintError, match="the lower limit first"):
        ds.Tendon(ratios={first: 1.0}, length=(0.2, 0.1))
    for bad, text in (
        ((), "frames or joints"), ((["rod1"],), "two frames or more"), ((["rod1", "rod2", 0.0, "rod1"],), "above zero"),
        (("rod1",), "a sequence of frames"), ((["rod1", ds.Frame("rod2", given="position")],), "a fixed placement"),
        (((), {first: np.nan}), "a finite number"), (((), [1.0]), "a mapping"),
    ):  # fmt: skip
        with pytest.raises(ConstraintError, match=text):
            ds.Tendon(*bad)
    with pytest.raises(ConstraintError, match="a finite number, not negative"):
        ds.Tendon(ratios={first: 1.0}, stiffness=-1.0)
    with pytest.raises(ConstraintError, match="frames of one rigid body"):
        ds.jacobian(arm, ds.Tendon(["rod1", ds.Frame("rod1", (1, 0, 0))]), [0, 0])
    with pytest.raises(UnknownNameError, match="joint of a tendon"):
        ds.jacobian(arm, ds.Tendon(ratios={"none": 1.0}), [0, 0])
    curve = ds.Tendon(ratios={first: 2.0}, length=0.1, follows=ds.Tendon(ratios={second: 1.0}), polynomial=(0.0, 3.0))
    locked = curve.without(arm, arm.lock({second: 0.5}), {second: np.array([0.5])})
    assert locked == ds.Tendon(ratios={first: 2.0}, length=0.1 + 3.0 * 0.25)
    assert curve.without(arm, arm.lock({first: 0.5}), {first: np.array([0.5])}) is None
    stop = ds.Tendon(ratios={first: 2.0, second: -1.0}, length=(-1.0, 1.0))
    assert replace(arm, constraints=(stop,)).lock({second: 0.5}).constraints == (
        ds.Tendon(ratios={first: 2.0}, length=(-0.5, 1.5)),
    )
