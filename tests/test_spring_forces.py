"""Springs and bushings without contacts: forces, energies, and semi-implicit steps, also where they are stiff."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import delassus as ds
from delassus_studies import mechanisms
from test_bushings import displacement, rows_of, some_case, some_matrix
from test_springs import STRAIGHT, some_tendons
from tools import SMALL_STEPS, error, random_frame, slope

pytestmark = pytest.mark.usefixtures("one_lane")

ROUND_OFF = 1e-9
"""Of accelerations beside those of forces that are differences of energies: of relative errors the worst is 4e-11."""

CREEP = 1e-3
"""Part of a velocity whose products are negligible beside it."""


def some_springs(seed, size=3.0, damping=0.1, root="floating"):
    """A random robot with a bushing and a spring along a line, on links or the world; forces (nv,) at a state."""
    tree, ends, q, v, rng = some_case(seed, root)
    mount = ds.Bushing(*ends, some_matrix(rng, size), some_matrix(rng, damping, 3))
    a, b = random_frame(rng, tree.link_names[-1]), random_frame(rng, "world" if seed % 2 else tree.link_names[1])
    line = ds.SpringDamper(a, b, 40.0 * size, 5.0 * damping, length=0.1)

    def forces(q, v):
        J, K, D = rows_of(tree, mount, q), mount.stiffness, mount.damping
        p, r = (ds.forward_kinematics(tree, q, x)[..., :3, 3] for x in (a, b))
        moved = tree.integrate(q, SMALL_STEPS[:, None] * np.eye(tree.nv))
        ends = (ds.forward_kinematics(tree, moved, x)[..., :3, 3] for x in (a, b))
        w = slope(*np.linalg.norm(np.subtract(*ends), axis=-1)[..., None]).T[0]
        pull = line.stiffness * (np.linalg.norm(p - r) - line.length) + line.damping * w @ v
        return -J.T @ (K @ displacement(tree, mount, q) + D @ (J @ v)) - w * pull

    return tree, [mount, line], forces, q, v, rng


@pytest.mark.parametrize("seed", range(4))
def test_forces_are_gradients_of_energies_and_damp(seed):
    """In forward and inverse dynamics, at one state and many, of kernels, and beside a constraint that holds."""
    tree, springs, forces, q, v, rng = some_springs(seed)
    tau, plain = rng.normal(size=tree.nv), {"constraints": ()}
    push, held = forces(q, v), ds.Point(tree.link_names[-1])
    wanted = ds.forward_dynamics(tree, q, v, tau + push, **plain).qdd
    found = ds.forward_dynamics(tree, q, v, tau, springs)
    assert error(found.qdd, wanted) < ROUND_OFF and found.forces == () and found.method == "aba"
    assert np.abs(found.dynamics_residual()).max() < ROUND_OFF * np.abs(push).max()
    back = ds.inverse_dynamics(tree, q, v, wanted, springs)
    assert error(back, tau) < ROUND_OFF * max(1.0, np.abs(push).max())
    driven = ds.inverse_dynamics(tree, q, v, wanted, [held, *springs], motors=tree.joint_names)
    least = ds.inverse_dynamics(tree, q, v, wanted, held, motors=tree.joint_names)
    of_both = [x.tau + (ds.jacobian(tree, held, q).T @ x.forces[0]) for x in (driven, least)]
    assert error(of_both[0] + push, of_both[1]) < ROUND_OFF
    bias = ds.compile(tree, springs, "bias_force")(q, v)
    assert error(bias, ds.bias_force(tree, q, v) - push) < ROUND_OFF
    np.testing.assert_allclose(
        ds.potential_energy(tree, q, springs), ds.potential_energy(tree, q) + sum(s.energy(tree, q) for s in springs)
    )
    qs, vs = tree.random(rng, batch=5), rng.normal(size=(5, tree.nv))
    kernel, small = (ds.compile(tree, springs, "dynamics", dtype=x) for x in ("float64", "float32"))
    for a, x, y in zip(kernel(qs, vs, tau)[0], qs, vs, strict=True):
        one = ds.forward_dynamics(tree, x, y, tau + forces(x, y), **plain).qdd
        assert error(a, one) < 10.0 * ROUND_OFF and error(kernel(x, y, tau)[0], a) < 1e-12
        assert error(small(*(np.float32(z) for z in (x, y, tau)))[0], one) < 1e-3
    both = ds.forward_dynamics(tree, q, v, tau, [springs[0], held, springs[1]])
    alone = ds.forward_dynamics(tree, q, v, tau + push, held)
    assert error(both.qdd, alone.qdd) < ROUND_OFF and [x.shape for x in both.forces] == [(3,)]
    assert error(both.forces[0], alone.forces[0]) < ROUND_OFF


def some_motion(seed, held):
    """A robot, springs among constraints if ``held``; state and joint forces by tangents (k, 3 nv) from one of them."""
    tree, springs, _, q, v, rng = some_springs(seed)
    n, tau = tree.nv, rng.normal(size=tree.nv)
    rows = [ds.Point(tree.link_names[-1]), springs[0], ds.Point(tree.link_names[0]), springs[1]] if held else springs

    def at(x):
        return tree.integrate(q, x[..., :n]), v + x[..., n : 2 * n], tau + x[..., 2 * n :]

    return tree, rows, at, at(np.zeros(3 * n)), rng


def by_differences(f, n):
    """Derivative (k, n) of a function at zero."""
    return np.stack([slope(*f(SMALL_STEPS * unit)) for unit in np.eye(n)], axis=-1)


@pytest.mark.parametrize("seed", range(4))
def test_first_derivatives_of_dynamics(seed):
    """Of accelerations and forces; of energies, twice; in batch, in both widths, and by tangents of kernels."""
    tree, rows, at, state, rng = some_motion(seed, held=seed % 2)
    n, springs = tree.nv, [c for c in rows if not c.holds]

    def answers(x):
        found = ds.forward_dynamics(tree, *at(x), rows)
        return np.concatenate([found.qdd, *found.forces], axis=-1)

    wanted, d = by_differences(answers, 3 * n), ds.dynamics_derivatives(tree, *state, rows)
    found = np.block([[d.dqdd_dq, d.dqdd_dv, d.dqdd_dtau], [d.df_dq, d.df_dv, d.df_dtau]])
    assert error(found[:n], wanted[:n]) < ROUND_OFF and error(found[n:], wanted[n:]) < ROUND_OFF
    kernel, small = (ds.compile(tree, rows, "dynamics_derivatives", dtype=x) for x in ("float64", "float32"))
    for a, b in zip(kernel(*(np.stack([x, x]) for x in state)), kernel(*state), strict=True):
        np.testing.assert_array_equal(a[1], b)
    assert error(kernel(*state)[2], d.dqdd_dq) < 1e-12
    assert error(small(*(np.float32(x) for x in state))[2], d.dqdd_dq) < 1e-3
    if tree.nq == n:
        jacobian = ds.compile(tree, rows, "dynamics").derivative("jacobian")(*state)
        assert error(jacobian[0], d.dqdd_dq) < 1e-12
    back = ds.compile(tree, springs, "inverse_dynamics_derivatives", wait=False)
    q, still, u = state[0], np.zeros(n), rng.normal(size=n)
    stiffness = back(q, still, still)[0] - ds.inverse_dynamics_derivatives(tree, q, still, still).dtau_dq
    energies = [sum(s.energy(tree, tree.integrate(q, h * u)) for s in springs) for h in (1e-3, 0.0, -1e-3)]
    assert u @ stiffness @ u == pytest.approx(np.diff(energies, 2)[0] / 1e-6, rel=1e-4)
    gain = back(q, *state[1:])[1] - ds.inverse_dynamics_derivatives(tree, q, *state[1:]).dtau_dv
    assert error(gain, gain.T) < ROUND_OFF and u @ gain @ u > 0.0


@pytest.mark.parametrize(("seed", "integrator"), [(0, "semi-implicit"), (1, "rk4"), (2, "semi-implicit")])
def test_first_derivatives_of_steps(seed, integrator):
    """Of the step as it is computed; with impacts, with rows that are off, and with dependent ones, too."""
    tree, rows, at, state, _ = some_motion(seed, held=seed > 0)
    n, h = tree.nv, 1e-2
    kernels = {how: ds.compile(tree, rows, "step", integrator=integrator, wait=False, **{how: True} if how else {})
               for how in ("", *(("impacts", "active") if seed > 1 else ()))}  # fmt: skip
    for how, kernel in kernels.items():
        given, end = {how: [1, 0]} if how else {}, kernel(*state, h, *([[1, 0]] if how else ()))

        def moved(x, kernel=kernel, given=given, end=end):
            q, v = kernel(*at(x), h, **given)
            return np.concatenate([tree.difference(end[0], q), v], axis=-1)

        found = ds.step_derivatives(tree, *state, h, rows, integrator=integrator, **given)
        assert error(found.v_next, end[1]) < 1e-12
        assert error(np.hstack([found.A, found.B]), by_differences(moved, 3 * n)) < 10.0 * ROUND_OFF
        if how == "active":
            alone = ds.step_derivatives(tree, *state, h, [rows[k] for k in (0, 1, 3)])
            assert error(found.A, alone.A) < ROUND_OFF
    if seed == 2:
        (q, v, tau), held = state, [rows[0], rows[2]]
        J, M = ds.jacobian(tree, held, q), ds.mass_matrix(tree, q)
        caused = np.linalg.solve(M, J.T)  # by impulses, which springs do not take
        struck = v - caused @ np.linalg.solve(J @ caused, np.repeat([1, 0], 3) * (J @ v))
        assert error(kernels["impacts"](*state, h, [1, 0])[1], kernels[""](q, struck, tau, h)[1]) < ROUND_OFF
        twice = ds.step_derivatives(tree, *state, h, [rows[0], *rows])
        plain = ds.step_derivatives(tree, *state, h, rows)
        assert error(twice.A, plain.A) < ROUND_OFF
        outputs = {"outputs": ("forces", "C")}
        f, C = ds.compile(tree, rows, "step_derivatives", wait=False, **outputs)(*state, h)
        step = ds.compile(tree, rows, "step", outputs=("q_next", "v_next", "forces"), wait=False)
        assert f.shape == (6,) and error(f, step(*state, h)[2]) < ROUND_OFF
        assert error(C, by_differences(lambda x: step(*at(x), h)[2], 3 * n)[:, : 2 * n]) < 10.0 * ROUND_OFF


@pytest.mark.parametrize("held", [False, True])
def test_second_derivatives(held):
    """Along a direction of everything, by differences."""
    tree, rows, at, state, rng = some_motion(held + 0, held)
    n, u, h, parts = tree.nv, rng.normal(size=3 * tree.nv), 1e-2, np.array([1e-3, -1e-3, 2e-3, -2e-3, 0.0])[:, None]
    q, v, t = u[:n], u[n : 2 * n], u[2 * n :]

    def along(f):
        one, two, three, four, middle = f(parts * u)
        return (16.0 * (one + two) - (three + four) - 30.0 * middle) / 12e-6

    d = ds.dynamics_hessian(tree, *state, rows)
    found = np.einsum("ijk,j,k", d.d2qdd_dqdq, q, q) + np.einsum("ijk,j,k", d.d2qdd_dvdv, v, v)
    found = found + 2.0 * np.einsum("ijk,j,k", d.d2qdd_dqdv, q, v) + 2.0 * np.einsum("ijk,j,k", d.d2qdd_dqdtau, q, t)
    assert error(found, along(lambda x: ds.forward_dynamics(tree, *at(x), rows).qdd)) < 1e-6
    s = ds.step_hessian(tree, *state, h, rows)
    x = u[: 2 * n]
    found = np.einsum("ijk,j,k", s.d2x_dxdx, x, x) + np.einsum("ijk,j,k", s.d2x_dtaudtau, t, t)
    found = found + 2.0 * np.einsum("ijk,j,k", s.d2x_dxdtau, x, t)
    step = ds.compile(tree, rows, "step", wait=False)

    def moved(x):
        q_next, v_next = step(*at(x), h)
        return np.concatenate([tree.difference(s.q_next, q_next), v_next], axis=-1)

    assert error(found, along(moved)) < 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_steps_follow_the_law_of_steps_with_contacts(seed):
    """From rest to round-off, however stiff springs are; in motion terms of second order in the step differ."""
    for size, damping in ((3.0, 0.1), (1e7, 1e3)):
        tree, springs, _, q, v, rng = some_springs(seed, size, damping, "fixed")  # axes of free bodies turn
        tau, still, apart = rng.normal(size=tree.nv), 0.0 * v, []
        step, other = ds.compile(tree, springs, "step"), ds.compile(tree, springs, "contact_step", limits=False)
        assert error(step(q, still, tau, 1e-3)[1], other(q, still, [], tau, 1e-3)[1]) < ROUND_OFF
        if size < 1e6:
            for h in (1e-3, 5e-4):
                ours, theirs = step(q, v, tau, h), other(q, v, [], tau, h)
                apart.append(np.abs(ours[1] - theirs[1]).max())
            assert apart[1] < 0.3 * apart[0] < 1e-3
    first, second = springs[1].frames
    now = np.linalg.norm(np.subtract(*(ds.forward_kinematics(tree, q, x)[:3, 3] for x in (first, second))))
    taut = ds.SpringDamper(first, second, 1e8, 1e2, length=now)  # not stretched: that pulls back what moves
    step, other = (ds.compile(tree, taut, x) for x in ("step", "contact_step"))
    ours, theirs = step(q, CREEP * v, still, 1e-3)[1], other(q, CREEP * v, [], still, 1e-3)[1]
    assert error(ours, theirs) < CREEP


@pytest.mark.parametrize("hard", [False, True])
def test_methods_agree_on_steps(hard):
    """Soft rows of springs beside those of constraints, hard and soft; forces are those of constraints alone."""
    tree, springs, _, q, v, rng = some_springs(1)
    tau, h = rng.normal(size=tree.nv), 1e-3
    held = [springs[0], ds.Point(tree.link_names[-1]), springs[1]] if hard else springs
    methods = ("pv-early", "proximal", "kkt", *(() if hard else ("pv-soft", "ltl-soft")))
    wanted = {"outputs": ("q_next", "v_next", "forces")}
    found = [ds.compile(tree, held, "step", method=x, **wanted)(q, v, tau, h) for x in methods]
    for one in found[1:]:
        assert error(one[1], found[0][1]) < 1e-8 and one[2].shape == (3 * hard,)
        assert not hard or error(one[2], found[0][2]) < 1e-7
    soft = ds.compile(tree, held, "step", compliance=1e-6)(q, v, tau, h)
    assert not hard or 1e-9 < error(soft[1], found[0][1]) < 1e-2


def test_steps_of_rk4_take_forces_at_their_stages():
    """Errors of a trajectory fall by sixteen with half the step."""
    tree, springs, _, q, v, rng = some_springs(2)
    tau, ends = rng.normal(size=tree.nv), []
    step = ds.compile(tree, springs, "step", integrator="rk4")
    for n in (20, 40, 320):
        qs, vs, *_ = ds.rollout(step, q, v, np.tile(tau, (n, 1)), 0.1 / n)
        ends.append(np.r_[tree.difference(q, qs[-1]), vs[-1]])
    assert 12.0 < np.abs(ends[0] - ends[2]).max() / np.abs(ends[1] - ends[2]).max() < 20.0


def test_a_stiff_governor_steps_at_a_millisecond():
    """IFToMM's A05, 8e5 N/m and 4e4 N s/m: of order one, in batch and rolled out, where explicit steps overflow."""
    governor = mechanisms.governor()
    tree, springs, (q, v, tau) = governor.tree, governor.constraints, governor.start
    step, exact, ends = ds.compile(tree, springs, "step"), ds.compile(tree, springs, "step", integrator="rk4"), []
    for kernel, n in ((step, 500), (step, 1000), (exact, 50_000)):
        qs, *_ = ds.rollout(kernel, q, v, np.tile(tau, (n, 1)), 0.5 / n)
        ends.append(qs[-1])
    off = [np.abs(x - ends[2]).max() for x in ends[:2]]
    assert 1.8 < off[0] / off[1] < 2.2 and off[0] < 1e-3
    explicit = ds.rollout(exact, q, v, np.tile(tau, (500, 1)), 1e-3, return_status=True)
    assert explicit.status[-1].name == "FAILED"
    many = step(np.tile(q, (3, 1)), np.tile(v, (3, 1)), tau, 1e-3)[1]
    np.testing.assert_array_equal(many[1], step(q, v, tau, 1e-3)[1])


def test_stiff_and_stretched_springs_in_motion_have_one_limit():
    """8e5 N/m, 4e4 N s/m and 0.3 m too long at 5 m/s: errors of all steps beside Radau's fall by two, to order one."""
    arm = ds.mechanisms.pendulum(2)
    ends = ds.Frame("rod2", (0, 0, -0.8)), ds.Frame("world", (0.9, 0.3, -0.7))
    spring, still = ds.SpringDamper(*ends, 8e5, 4e4, length=1.5), np.zeros(2)
    q, v, end = np.array([0.4, 0.7]), np.array([1.0, -2.0]), 0.08
    dynamics, step, other = (ds.compile(arm, spring, x, wait=False) for x in ("dynamics", "step", "contact_step"))

    def rate(t, x):
        return np.r_[x[2:], dynamics(x[:2], x[2:], still)[0]]

    exact = solve_ivp(rate, (0.0, end), np.r_[q, v], method="Radau", rtol=1e-8, atol=1e-10).y[:, -1]
    for one in (lambda q, v, h: step(q, v, still, h), lambda q, v, h: other(q, v, [], still, h)):
        ends = []
        for n in (320, 640):
            state = q, v
            for _ in range(n):
                state = one(*state, end / n)[:2]
            ends.append(np.concatenate(state))
        off = [np.abs(x - exact).max() for x in (*ends, 2.0 * ends[1] - ends[0])]
        assert 1.7 < off[0] / off[1] < 2.4 and off[1] < 0.02 and off[2] < 0.3 * off[1]
    sim, state = ds.Simulator(ds.Scene(arm).attach(spring), q0=q, v0=v, dt=1e-3), (q, v)
    for _ in range(20):
        sim.step()
        state = other(*state, [], still, 1e-3)[:2]
    np.testing.assert_allclose(np.r_[sim.q, sim.v], np.concatenate(state), atol=1e-9)


@pytest.mark.peer
@pytest.mark.parametrize("seed", range(3))
def test_springs_of_a_file_are_mujocos(seed):
    """Spatial tendons: accelerations, and potential energies beside that without springs."""
    mujoco = pytest.importorskip("mujoco")
    numbers = np.random.default_rng(seed).uniform([50, 1, 0.2, 50, 1], [500, 10, 0.6, 500, 10])
    text, rng = some_tendons(seed, 1e-3, STRAIGHT.format(*numbers))
    model, tree = mujoco.MjModel.from_xml_string(text), ds.load(text)
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:], data.qfrc_applied[:] = q, v, tau = rng.normal(size=(3, 4))
    mujoco.mj_forward(model, data)
    assert error(ds.forward_dynamics(tree, q, v, tau).qdd, data.qacc) < ROUND_OFF
    assert error(ds.forward_dynamics(tree, q, v, tau, tree.constraints).qdd, data.qacc) < ROUND_OFF
    assert error(ds.inverse_dynamics(tree, q, v, data.qacc), tau) < 1e-7
    assert error(ds.bias_force(tree, q, v), data.qfrc_bias - data.qfrc_passive) < ROUND_OFF
    assert error(ds.potential_energy(tree, q), data.energy[0]) < ROUND_OFF
    np.testing.assert_allclose(ds.compile(tree, None, "energies")(q, v), (data.energy[1], data.energy[0]))
    without = ds.forward_dynamics(tree, q, v, tau, passive="none").qdd
    assert error(without, data.qacc) > 1e-3


def test_what_has_no_springs_names_them():
    arm = ds.mechanisms.pendulum(2)
    spring = ds.SpringDamper("rod2", ds.Frame("world", (1, 0, 0)), 10.0)
    for what in ("jacobian", "delassus", "momentum_rate", "close_loops"):
        with pytest.raises(ds.DelassusError, match=f"hold, of '{what}', got SpringDamper.*Springs act in dynamics"):
            ds.compile(arm, spring, what)
    none = ds.SpringDamper("rod2", ds.Frame("world", (1, 0, 0)), 0.0)
    assert ds.compile(arm, none, "step").method == "aba" != ds.compile(arm, spring, "step").method
