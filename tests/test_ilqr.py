"""`ilqr`: plans of smooth steps and of contact steps, and what it refuses."""

import pickle
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Collider, HalfSpace, Sphere

DT, STEPS = 0.02, 40

GAINS = 1e-11
"""Relative error of gains: products of tens of steps, each with the rounding of a condition of some 1e4."""


@pytest.fixture(scope="module")
def rolling():
    """Where a ball lies on a floor, and kernels of its step and of the derivatives of that."""
    ball = ds.mechanisms.free_body(1.0, Sphere(0.1).inertia(1.0), name="ball")
    colliders = Collider("ball", Sphere(0.1), friction=0.5), Collider("world", HalfSpace(), friction=0.5)
    scene = ds.Scene(ball, colliders)
    made = ("contact_step", {}), ("contact_step_derivatives", {"outputs": ("A", "B")})
    q0 = ball.neutral()
    q0[2] = 0.1
    return q0, [ds.compile(ball, scene.constraints(), what, **options) for what, options in made]


def smooth(rod):
    """Kernels of its step without gravity, and of the derivatives of that."""
    return [ds.compile(rod, (), what, gravity=(0.0, 0.0, 0.0)) for what in ("step", "step_derivatives")]


def effort(t, q, v, u):
    assert np.broadcast_shapes(np.shape(t), q.shape[:-1]) == q.shape[:-1]
    return u


def to_goal(q, v):
    return 100.0 * np.concatenate([q[..., :2] - [0.2, -0.1], 0.2 * v], axis=-1)


@pytest.mark.slow
def test_a_ball_rolls_to_its_goal_by_friction_alone(rolling):
    """Torques move it through the contact only; a rollout of its controls goes the same way."""
    q0, kernels = rolling
    torques = 0.01 * np.random.default_rng(0).normal(size=(STEPS, 6)) * [0, 0, 0, 1, 1, 1]
    found = ds.ilqr(*kernels, q0, np.zeros(6), torques, DT, effort, to_goal, varied=[3, 4, 5])
    plans = list(islice(found, 12))
    costs = [plan.cost for plan in plans]
    assert costs == sorted(costs, reverse=True)
    assert costs[-1] < 0.01 * costs[0]
    plan = plans[-1]
    assert np.abs(plan.q[-1, :2] - [0.2, -0.1]).max() < 0.01
    assert not plan.controls[:, :3].any()
    q, *_ = ds.rollout(kernels[0], q0, np.zeros(6), plan.controls, DT)
    assert np.abs(q - plan.q).max() < 1e-6
    r = effort(0.0, plan.q[:-1], plan.v[:-1], plan.controls)
    assert np.isclose(plan.cost, 0.5 * (np.sum(r**2) + np.sum(to_goal(plan.q[-1], plan.v[-1]) ** 2)))


def test_a_linear_problem_is_solved_as_by_least_squares():
    """Of a rod without weight, whose optimum is a linear least-squares problem."""
    rod = ds.mechanisms.pendulum(1)
    kernels = smooth(rod)
    free = np.zeros((30, 1))

    def last(q, v):
        return 9.0 * np.concatenate([q - 0.2, v], axis=-1)

    found = ds.ilqr(*kernels, [0.0], [0.0], free, DT, lambda t, q, v, u: 0.3 * u, last)
    plan = list(islice(found, 40))[-1]
    assert isinstance(plan, ds.Plan)
    assert plan.gains.shape == (30, 1, 2)
    ends = []
    for tau in np.eye(30)[:, :, None]:
        q, v = ds.rollout(kernels[0], [0.0], [0.0], tau, DT)
        ends.append(9.0 * np.r_[q[-1], v[-1]])
    J = np.vstack([np.transpose(ends), 0.3 * np.eye(30)])
    best = np.linalg.lstsq(J, np.r_[1.8, np.zeros(31)], rcond=None)[0]
    assert np.abs(plan.controls[:, 0] - best).max() < 1e-5 * np.abs(best).max()


@pytest.mark.slow
def test_units_of_mass_do_not_matter():
    """A body of a gram and one of a million tons, with forces in proportion, have plans of the same cost."""
    costs = []
    for mass in (2.0**-10, 2.0**30):
        body = ds.mechanisms.free_body(mass, mass * np.array([0.1, 0.2, 0.25]))
        found = ds.ilqr(
            *smooth(body), body.neutral(), np.zeros(6), mass * np.ones((5, 6)), DT,
            lambda t, q, v, u, mass=mass: u / mass, lambda q, v: np.concatenate([9.0 * np.sin(q[..., :3]), v], axis=-1),
            varied=[0, 1, 2],
        )  # fmt: skip
        costs.append([plan.cost for plan in islice(found, 4)])
    np.testing.assert_allclose(*costs, rtol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_gains_are_those_of_riccati_and_plans_end_at_the_optimum(seed):
    """Of random costs of a rod without weight, whose steps are linear, from random starts, plans and shifted plans."""
    rod, rng = ds.mechanisms.pendulum(1), np.random.default_rng(seed)
    kernels, T, R = smooth(rod), int(rng.integers(2, 60)), 10.0 ** rng.uniform(-2, 0)
    by_state, by_end = rng.normal(size=(2, 2, 2)) * [[[1.0]], [[9.0]]]
    away, (q0, v0) = rng.normal(size=2), rng.normal(size=(2, 1))

    def along(t, q, v, u):
        return np.concatenate([R * u, np.concatenate([q, v], axis=-1) @ by_state.T], axis=-1)

    def last(q, v):
        return (np.concatenate([q, v], axis=-1) - away) @ by_end.T

    def along_by(t, q, v, u):
        J = np.concatenate([[[0.0, 0.0, R]], np.concatenate([by_state, np.zeros((2, 1))], axis=1)])
        return np.broadcast_to(J, (*q.shape[:-1], 3, 3))

    _, _, A, B = ds.step_derivatives(rod, q0, v0, [0.0], DT, gravity=(0, 0, 0))
    P, K = by_end.T @ by_end, np.empty((T, 1, 2))
    for t in reversed(range(T)):
        K[t] = -np.linalg.solve(R**2 + B.T @ P @ B, B.T @ P @ A)
        P = by_state.T @ by_state + A.T @ P @ (A + B @ K[t])

    def plans(start):
        how = {"jacobians": (along_by, lambda q, v: by_end)}
        return list(islice(ds.ilqr(*kernels, q0, v0, start, DT, along, last, **how), 60))

    first, *found = plans(rng.normal(size=(T, 1)))
    assert len(found) < 20 and not first.gains.any()
    best = found[-1]
    for plan in (*found, *plans(best)[1:], *plans(best.controls)[1:], *plans(replace(best, regularisation=1.0))[1:]):
        assert np.abs(plan.gains - K).max() < GAINS * np.abs(K).max()
    assert [len(plans(start)) for start in (best, best.controls)] == [2, 2]
    assert all(plan.cost <= best.cost * (1.0 + GAINS) for plan in plans(best))


def test_rollouts_under_feedback_are_loops_of_calls(rolling):
    """Of a batch about one trajectory, by gains of its own or shared ones, with bounds that act; q is on a manifold."""
    q0, (step, _) = rolling
    rng, T, batch = np.random.default_rng(0), 6, 11
    u = rng.normal(size=(T, 6))
    nominal = ds.rollout(step, q0, rng.normal(size=6), u, DT)[:2]
    tree, still = step.request.tree, np.zeros((batch, step.arguments[2].size))
    starts, v0 = tree.integrate(q0, 0.3 * rng.normal(size=(batch, 6))), rng.normal(size=(batch, 6))
    defects, none = 0.1 * rng.normal(size=(T + 1, batch, 12)), np.zeros((T + 1, batch, 12))
    for K, moved in ((rng.normal(size=(T, 6, 12)), none), (rng.normal(size=(T, batch, 6, 12)), defects)):
        how = {"feedback": K, "nominal": nominal, "bounds": (-2.0, np.full(6, 3.0)), "time_axis": 0}
        how |= {"defects": moved} if moved is defects else {}
        q, v, _, _, controls = ds.rollout(step, starts, v0, u, DT, **how)
        state = [tree.integrate(starts, moved[0, :, :6]), v0 + moved[0, :, 6:], still]
        for t in range(T):
            away = np.concatenate([tree.difference(nominal[0][t], state[0]), state[1] - nominal[1][t]], axis=-1)
            applied = np.clip(u[t] + (K[t] @ away[..., None])[..., 0], -2.0, 3.0)
            assert np.abs(controls[t] - applied).max() < 1e-12
            state = step(*state, applied, DT)[:3]
            state = [tree.integrate(state[0], moved[t + 1, :, :6]), state[1] + moved[t + 1, :, 6:], state[2]]
            assert max(np.abs(q[t + 1] - state[0]).max(), np.abs(v[t + 1] - state[1]).max()) < 1e-12
        assert (controls == 3.0).any() and (controls == -2.0).any()
    for change, match in (
        ({"feedback": K[1:]}, r"feedback: expected shape \(6, ..., 6, 12\)"),
        ({"feedback": None}, "feedback: expected gains where"),
        ({"nominal": nominal[0]}, "nominal: expected a pair"),
        ({"bounds": (1.0, -1.0)}, "bounds: expected a pair of least"),
        ({"defects": defects[1:]}, r"defects: expected shape \(7, ..., 12\)"),
    ):
        with pytest.raises(ds.DelassusError, match=match):
            ds.rollout(step, starts, v0, u, DT, **{**how, **change})
    with pytest.raises(ds.DelassusError, match="feedback: expected arrays of controls"):
        ds.rollout(step, starts, v0, lambda t, q, v: v, DT, steps=T, feedback=K, nominal=nominal)


def test_a_plan_starts_from_states_where_rollouts_diverge(landing):
    """Gaps are closed by steps of full length, and the optimum of a linear problem does not depend on the start."""
    rod, rng = ds.mechanisms.pendulum(1), np.random.default_rng(0)
    kernels = smooth(rod)

    def last(q, v):
        return 9.0 * np.concatenate([q - 0.2, v], axis=-1)

    given = rng.normal(size=(31, 1))
    guess = ds.Plan(given, rng.normal(size=(31, 1)), np.zeros((30, 1)))
    assert given.flags.writeable and not guess.q.flags.writeable
    first, *_, plan = islice(ds.ilqr(*kernels, [0.0], [0.0], guess, DT, lambda t, q, v, u: 0.3 * u, last), 40)
    straight = list(islice(ds.ilqr(*kernels, [0.0], [0.0], guess.controls, DT, lambda t, q, v, u: 0.3 * u, last), 40))[
        -1
    ]
    q, v = ds.rollout(kernels[0], guess.q[:-1], guess.v[:-1], guess.controls[None], DT, time_axis=0)
    ends = np.concatenate([q[1], v[1]], axis=-1) - np.concatenate([guess.q, guess.v], axis=-1)[1:]
    assert np.abs(first.gaps[1:] - ends).max() < 1e-12 and np.array_equal(first.gaps[0], -np.r_[guess.q[0], guess.v[0]])
    assert not plan.gaps.any() and np.abs(plan.controls - straight.controls).max() < 1e-5 * np.abs(plan.controls).max()
    q, v = ds.rollout(kernels[0], [0.0], [0.0], plan.controls, DT)
    assert np.abs(q - plan.q).max() < 1e-9
    arm, _, plans, *_ = landing
    guess = ds.Plan(np.repeat(arm.random(0)[None], 21, axis=0), np.zeros((21, 3)), 0.1 * np.ones((20, 3)))
    *_, plan = islice(plans(arm.random(0), np.ones(3), guess), 8)
    assert not plan.gaps.any()
    with pytest.raises(ds.DelassusError, match="a plan of 2 controls that vary, got q of shape"):
        plans(arm.random(0), np.ones(3), ds.Plan(plan.q[1:], plan.v, plan.controls))


def test_controls_within_bounds_are_the_best_ones():
    """Of a linear problem: no slope by free controls, and by those at bounds none that leads back."""
    rod = ds.mechanisms.pendulum(1)
    kernels, least, most = smooth(rod), np.full(1, -0.15), np.full(1, 0.1)

    def last(q, v):
        return 9.0 * np.concatenate([q - 0.2, v], axis=-1)

    def cost(u):
        q, v = ds.rollout(kernels[0], [0.0], [0.0], u, DT)
        return 0.5 * (np.sum(u**2) + np.sum(last(q[-1], v[-1]) ** 2))

    how = {"bounds": (least, most)}
    plan = list(islice(ds.ilqr(*kernels, [0.0], [0.0], np.zeros((30, 1)), DT, effort, last, **how), 40))[-1]
    u = plan.controls
    assert (u == most).any() and (u == least).any() and ((u > least) & (u < most)).any()
    assert np.isclose(plan.cost, cost(u))
    slopes = np.array([(cost(u + d) - cost(u - d)) / 2e-4 for d in 1e-4 * np.eye(30)[:, :, None]])
    free = ((u > least) & (u < most))[:, 0]
    assert np.abs(slopes[free]).max() < 1e-5 * np.abs(slopes).max()
    assert (slopes[(u == most)[:, 0]] < 0.0).all() and (slopes[(u == least)[:, 0]] > 0.0).all()


@pytest.fixture(scope="module")
def landing():
    """An arm whose tip is held from the tenth step on, after an impact: problem of `ds.ilqr`, and another one's."""
    arm, tip = ds.mechanisms.chain(3), ds.Rows("link3", np.eye(6)[:2])
    outputs = {"step": ("q_next", "v_next", "forces"), "step_derivatives": ("A", "B", "C", "D")}
    kernels = [ds.compile(arm, tip, k, active=True, impacts=True, outputs=names) for k, names in outputs.items()]
    held = np.arange(20)[:, None] >= 10
    modes = {"active": held, "impacts": np.arange(20)[:, None] == 10, "per_step": ["active", "impacts"]}
    goal = arm.random(1)

    def along(t, q, v, u, forces):
        return np.concatenate([0.1 * v, 0.1 * u[..., :2], 0.02 * np.maximum(0.0, -forces)], axis=-1)

    def last(q, v):
        return 5.0 * (q - goal)

    def along_by(t, q, v, u, forces):
        J = np.zeros((*q.shape[:-1], 7, 11))
        J[..., range(3), range(3, 6)] = J[..., range(3, 5), range(6, 8)] = 0.1
        J[..., range(5, 7), range(9, 11)] = -0.02 * (forces < 0.0)
        return J

    def last_by(q, v):
        return np.eye(3, 6) * 5.0

    def plans(q, v, controls, **how):
        return ds.ilqr(*kernels, q, v, controls, DT, along, last, **{"varied": [0, 1], **modes, **how})

    return arm, tip, plans, (along_by, last_by), kernels


def test_plans_over_modes_with_impacts(landing):
    """The tip comes to rest at the step whose flags say so; given derivatives make the plans that differences make."""
    arm, tip, plans, jacobians, _ = landing
    start = arm.random(0), np.ones(3), 0.1 * np.ones((20, 3))
    found = [list(islice(plans(*start, jacobians=given), 8)) for given in (None, jacobians)]
    costs = [plan.cost for plan in found[1]]
    assert costs == sorted(costs, reverse=True) and costs[-1] < 0.5 * costs[0]
    assert np.abs(found[0][-1].controls - found[1][-1].controls).max() < 1e-4
    plan = found[1][-1]
    speed = np.abs(ds.jacobian(arm, tip, plan.q) @ plan.v[..., None])[..., 0].max(axis=-1)
    assert speed[10] > 0.1 and speed[11:].max() < 0.2 * speed[10]  # rows hold accelerations after the impact
    assert plan.forces.shape == (20, 2) and not plan.forces[:10].any() and plan.forces[10:].all()


def test_forces_of_steps_and_their_derivatives(landing):
    """Forces are those of the dynamics after impacts, in calls and in rollouts; their derivatives, by differences."""
    arm, tip, _, _, (step, derivatives) = landing
    rng, flags = np.random.default_rng(0), np.array([[1, 1], [1, 0], [0, 0], [1, 1], [1, 0]])
    state, modes = [arm.random(0, batch=5), *rng.normal(size=(2, 5, 3))], (flags[:, :1], flags[:, 1:])
    q, v, u = state
    _, struck = step(q, v, u, 0.0, *modes)[:2]
    of_dynamics = ds.forward_dynamics(arm, q, struck, u, tip, active=modes[0]).forces
    assert np.abs(step(*state, DT, *modes)[2] - of_dynamics).max() < 1e-9
    *_, forces = ds.rollout(step, q, v, u[None], DT, active=modes[0], impacts=modes[1], time_axis=0)
    assert np.abs(forces[0] - of_dynamics).max() < 1e-9
    *_, C, D = derivatives(*state, DT, *modes)
    for k, found in ((0, C[..., :3]), (1, C[..., 3:]), (2, D)):
        moved = [
            [x if j != k else x + sign * 1e-6 * np.eye(3)[:, None] for j, x in enumerate(state)] for sign in (1, -1)
        ]
        ahead, back = (step(*x, DT, *modes)[2] for x in moved)
        assert np.abs(np.moveaxis(ahead - back, 0, -1) / 2e-6 - found).max() < 1e-6 * np.abs(found).max()
    with pytest.raises(ds.DelassusError, match="a kernel from q, v, tau, dt, active, impacts to A, B, C and D"):
        ds.ilqr(step, ds.compile(arm, tip, "step_derivatives", active=True, impacts=True), q, v, u, DT, effort, to_goal)


def test_plans_that_are_shifted_go_on(landing):
    """From the state that the plan has for the time; elsewhere its feedback brings the trajectory back to it."""
    arm, _, plans, *_ = landing
    *_, plan = islice(plans(arm.random(0), np.ones(3), 0.1 * np.ones((20, 3))), 8)
    later = plan.shifted(2)
    modes = {"active": np.arange(20)[:, None] >= 8, "impacts": np.arange(20)[:, None] == 8}
    same = next(plans(plan.q[2], plan.v[2], later, **modes))
    assert max(np.abs(same.q[:19] - plan.q[2:]).max(), np.abs(same.controls[:18] - plan.controls[2:]).max()) < 1e-9
    assert not later.gains[18:].any() and np.array_equal(later.controls[19], plan.controls[19])
    assert same.regularisation == plan.regularisation < 0.01
    near, open_loop = (next(plans(plan.q[2] + 0.01, plan.v[2], x, **modes)) for x in (later, later.controls))
    assert np.abs(near.q[10] - plan.q[12]).max() < np.abs(open_loop.q[10] - plan.q[12]).max()
    with pytest.raises(ds.DelassusError, match="steps: expected a whole number ≥ 0 and ≤ 20"):
        plan.shifted(21)
    with pytest.raises(ds.DelassusError, match="controls: expected a plan of 1 controls that vary"):
        plans(plan.q[2], plan.v[2], later, varied=[0])


def reaching(second_order):
    """Costs and controls of all plans of an arm that brings its tip, a residual that is not linear, to a point."""
    arm = ds.mechanisms.chain(3)
    kernels = [ds.compile(arm, (), what) for what in ("step", "step_derivatives")]
    place = ds.compile(arm, (), "kinematics", frames=ds.Frame("link3", (0.0, 0.0, 0.3)))
    goal = place(arm.random(1))[:3, 3]

    def last(q, v):
        return np.concatenate([20.0 * (place(np.ascontiguousarray(q))[..., :3, 3] - goal), v], axis=-1)

    start = 0.3 * np.ones(3), np.zeros(3), np.zeros((20, 3))
    found = list(islice(ds.ilqr(*kernels, *start, 0.03, effort, last, second_order=second_order), 60))
    return [plan.cost for plan in found], [plan.controls for plan in found]


def check_errors_are_squared(controls):
    """Errors of controls of the last plans, beside the very last."""
    errors = np.array([np.abs(u - controls[-1]).max() for u in controls])
    end = int(np.flatnonzero(errors > 1e-9)[-1])
    assert errors[end - 2] < 1.0 and all(errors[k + 1] < errors[k] ** 1.5 for k in (end - 2, end - 1)), errors


def test_second_order_converges_quadratically():
    """Errors of controls are squared, where those of first order fall by a factor; both find one optimum."""
    (costs, controls), (slow, of_slow) = reaching(True), reaching(False)
    check_errors_are_squared(controls)
    by_first = np.array([np.abs(u - controls[-1]).max() for u in of_slow])
    near = np.flatnonzero((by_first < 0.1) & (by_first > 1e-6))[-4:]
    assert len(near) == 4 and np.all(by_first[near[1:]] > 0.02 * by_first[near[:-1]]), by_first
    assert len(costs) < len(slow) and abs(costs[-1] - slow[-1]) < 1e-6 * costs[-1]


TARGETS = {"kp": 3.0 * np.ones(3), "kd": 0.3 * np.ones(3)}
"""Gains of joints whose targets are controls."""


@pytest.mark.parametrize(("control", "given"), [("tau", {}), ("pd", TARGETS)])
def test_second_order_over_constraints_and_controls(control, given):
    """Under forces of constraints in the cost, by joint forces and targets: the optimum of first order, but sooner."""
    leg = ds.mechanisms.pendulum(3)
    held = ds.Distance(ds.Frame(leg.link_names[-1], (0.0, 0.0, -0.5)), "world")
    outputs = ("q_next", "v_next", "forces"), ("A", "B", "C", "D")
    step, changes = (
        ds.compile(leg, held, what, outputs=names, baumgarte=5.0, control=control)
        for what, names in zip(("step", "step_derivatives"), outputs, strict=True)
    )
    q0 = np.array([0.3, 0.5, -0.4])

    def along(t, q, v, u, f):
        return np.concatenate([0.3 * u, 0.3 * np.sin(q * (v + u)), 0.01 * f * f], axis=-1)

    def last(q, v):
        return 10.0 * np.concatenate([np.sin(q - 0.5), v], axis=-1)

    ends = []
    for second_order in (False, True):
        found = ds.ilqr(
            step, changes, q0, 0 * q0, np.zeros((12, 3)), 0.02, along, last, second_order=second_order, **given
        )
        plans = list(islice(found, 80))
        ends.append((plans[-1].cost, len(plans)))
    check_errors_are_squared([plan.controls for plan in plans])
    (cost, many), (of_second, few) = ends
    assert abs(cost - of_second) < 1e-7 * cost and few < many, ends


def test_refused(rolling):
    q0, (step, derivatives) = rolling
    start, zero = (q0, np.zeros(6)), np.zeros((STEPS, 6))
    rest = DT, effort, to_goal
    with pytest.raises(ds.DelassusError, match="step and derivatives: expected kernels of one robot"):
        ds.ilqr(derivatives, step, *start, zero, *rest)
    other = ds.mechanisms.free_body(2.0, [0.1, 0.1, 0.1], name="ball")
    of_other = ds.compile(other, (), "step"), ds.compile(other, (), "step_derivatives")
    with pytest.raises(ds.DelassusError, match="step and derivatives: expected kernels of one robot"):
        ds.ilqr(of_other[0], ds.compile(step.request.tree, (), "step_derivatives"), *start, zero, *rest)
    again = pickle.loads(pickle.dumps(of_other[1]))  # whose tree is another object of the same robot
    assert next(ds.ilqr(of_other[0], again, *start, zero, *rest)).cost < np.inf
    with pytest.raises(ds.DelassusError, match="derivatives: expected a kernel from"):
        ds.ilqr(step, step, *start, zero, *rest)
    rod, at = ds.mechanisms.pendulum(1), ([0.0], [0.0], zero[:, :1])
    step_of_rod, _ = smooth(rod)
    weightless = {"gravity": (0.0, 0.0, 0.0)}
    for name, constraints, options in (
        ("gravity", (), {}),
        ("passive", (), {**weightless, "passive": "none"}),
        ("damping", (), {**weightless, "damping": [0.1]}),
        ("integrator", (), {**weightless, "integrator": "rk4"}),
        ("constraints", ds.Orientation("rod1", axis=(0, 0, 1)), weightless),
    ):
        other = ds.compile(rod, constraints, "step_derivatives", **options)
        with pytest.raises(ds.DelassusError, match=f"a kernel whose {name} are those of the step"):
            ds.ilqr(step_of_rod, other, *at, *rest)
    with pytest.raises(ds.DelassusError, match=r"controls: expected finite numbers of shape \(n, 6\)"):
        ds.ilqr(step, derivatives, *start, zero[:, :3], *rest)
    with pytest.raises(ds.DelassusError, match="second_order: expected kernels of semi-implicit steps without impacts"):
        ds.ilqr(step, derivatives, *start, zero, *rest, second_order=True)
    with pytest.raises(ds.DelassusError, match="varied: expected numbers of controls"):
        ds.ilqr(step, derivatives, *start, zero, *rest, varied=[6])
    with pytest.raises(ds.DelassusError, match="controls: expected some whose steps are all solved"):
        ds.ilqr(*smooth(rod), [0.0], [1e200], zero[:, :1], *rest)
