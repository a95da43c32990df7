"""Parameters of kernels from measurements: of trajectories in contact, of inertias, of any kernel."""

import numpy as np
import pytest

import delassus as ds
from random_trees import some_mechanism
from tools import error

DT, EVERY, NOISE = 2e-3, 5, 1e-3


@pytest.fixture(scope="module")
def bouncing():
    """Step of a ball, its parameters, and throws that slide and bounce, measured with little noise."""
    rng, n, T = np.random.default_rng(4), 12, 100
    ball = ds.mechanisms.free_body(0.5, 0.002 * np.eye(3), name="ball")
    contact = ds.Contact("ball", ds.contact.Sphere(0.1))
    step = ds.compile(ball, contact, "contact_step", friction="input", restitution="input", tolerance=1e-8)
    q0 = np.tile([0, 0, 0.15, 0, 0, 0, 1.0], (n, 1))
    v0 = rng.normal([5, 0, -1, 0, 0, 0], [0.3, 0.3, 0.1, 3, 3, 3], (n, 6))
    true = {"friction": np.array([0.25]), "restitution": np.array([0.6])}
    q, v = (x[::EVERY] for x in ds.rollout(step, q0, v0, np.zeros((T, 6)), DT, **true)[:2])
    q[1:] = ball.integrate(q[1:], SCALE["q"] * rng.normal(size=(*q[1:].shape[:2], 6)))
    v[1:] += SCALE["v"] * rng.normal(size=v[1:].shape)
    q[-3:, 2] = np.nan
    return step, true, {"q": q, "v": v}


SCALE = {"q": 1e-3, "v": 2e-2}
START = {"friction": 0.15, "restitution": 0.5}
HOW = {
    "bounds": {"friction": (0, 1), "restitution": (0, 1)}, "every": EVERY, "dt": DT, "scale": SCALE,
    "controls": np.zeros((100, 6)), "starts": "measured",
}  # fmt: skip


@pytest.mark.slow
def test_friction_and_restitution_are_found_back(bouncing):
    """Within four standard errors, which are small; residuals are of the size of the noise."""
    step, true, measured = bouncing
    found = ds.identify(step, measured, START, **HOW)
    assert found.converged and found.unsolved == 0 and found.units == 12
    for name, value in true.items():
        assert 0 < found.errors[name] < 0.02 and abs(found.values[name] - value) < 4 * found.errors[name]
    assert 0.9 < found.residual < 1.1
    text = str(found).splitlines()
    assert text[0].startswith("friction") and "±" in text[0] and "12 units, 0 not solved" in text[2]


@pytest.mark.slow
def test_outliers_count_less(bouncing):
    step, true, measured = bouncing
    q = measured["q"].copy()
    q[5:8, 0, :3] += 0.3
    found = {loss: ds.identify(step, {**measured, "q": q}, START, loss=loss, **HOW) for loss in ("linear", "huber")}
    wrong = {loss: max(abs(x.values[name] - true[name])[0] for name in true) for loss, x in found.items()}
    assert 2 * wrong["huber"] < wrong["linear"]


@pytest.mark.slow
def test_what_is_not_solved_takes_no_part(bouncing):
    step, _, measured = bouncing
    few = {name: x[:11] for name, x in measured.items()}
    how = {**HOW, "bounds": None, "controls": HOW["controls"][:50]}
    friction = np.full((12, 1), 0.25)
    friction[0] = -0.1  # has no meaning: no step is solved
    with pytest.warns(ds.DelassusWarning, match="1 of 12 unit"):
        found = ds.identify(step, few, {"restitution": 0.5}, friction=friction, **how)
    assert found.unsolved == 1 and abs(found.values["restitution"] - 0.6) < 4 * found.errors["restitution"]
    with pytest.warns(ds.DelassusWarning, match="12 of 12 unit"):
        none = ds.identify(step, {name: x[:3] for name, x in few.items()}, {"restitution": 0.5}, friction=friction[0],
                           **{**how, "controls": how["controls"][:10]})  # fmt: skip
    assert np.isinf(none.errors["restitution"])


@pytest.mark.slow
@pytest.mark.parametrize("velocities, height", [(True, 0.1), (False, 0.12)])
def test_starts_are_estimated(bouncing, velocities, height):
    """Of balls that slide until they roll, some after a fall: noise of first states is not in what comes after it."""
    (step, _, _), rng, n = bouncing, np.random.default_rng(7), 12
    ball, T, true = step.request.tree, 100, {"friction": np.array([0.25]), "restitution": np.array([0.0])}
    q0 = np.tile([0, 0, height, 0, 0, 0, 1.0], (n, 1))
    v0 = rng.normal([1, 0, 0, 0, 0, 0], [0.1, 0.2, 0, 3, 3, 3], (n, 6))
    q, v = (x[::EVERY] for x in ds.rollout(step, q0, v0, np.zeros((T, 6)), DT, **true)[:2])
    measured = {"q": ball.integrate(q, SCALE["q"] * rng.normal(size=v.shape))}
    if velocities:
        measured["v"] = v + SCALE["v"] * rng.normal(size=v.shape)
    how = {**HOW, "bounds": {"friction": (0, 1)}, "restitution": true["restitution"]}
    found = ds.identify(step, measured, {"friction": 0.2}, **{**how, "starts": "estimated"})
    assert found.converged and 0 < found.errors["friction"] < 0.02
    assert abs(found.values["friction"] - 0.25) < 4 * found.errors["friction"] and 0.9 < found.residual < 1.1
    if velocities:
        fixed = ds.identify(step, measured, {"friction": 0.2}, **how)
        assert fixed.residual > 1.5 and fixed.errors["friction"] > found.errors["friction"]
    else:
        with pytest.raises(ds.DelassusError, match="measured: expected q and v, unless starts are estimated"):
            ds.identify(step, measured, {"friction": 0.2}, **how)


@pytest.mark.slow
def test_starts_are_estimated_through_bounces(bouncing):
    """Of balls that bounce at other times where they start higher: residuals are of the size of the noise."""
    (step, true, _), rng, n, T = bouncing, np.random.default_rng(2), 12, 50
    ball, q0 = step.request.tree, np.tile([0, 0, 0.15, 0, 0, 0, 1.0], (n, 1))
    q0[:, 2] += rng.uniform(0, 0.1, n)
    v0 = rng.normal([5, 0, -1, 0, 0, 0], [0.3, 0.3, 0.1, 3, 3, 3], (n, 6))
    q = ds.rollout(step, q0, v0, np.zeros((T, 6)), DT, **true)[0][::EVERY]
    measured = {"q": ball.integrate(q, 1e-3 * rng.normal(size=(*q.shape[:2], 6)))}
    how = {**HOW, "bounds": {"restitution": (0, 1)}, "scale": 1e-3, "controls": np.zeros((T, 6)), "starts": "estimated"}
    found = ds.identify(step, measured, {"restitution": 0.5}, friction=true["friction"], **how)
    assert found.residual < 2 and 0 < found.errors["restitution"] < 0.02
    assert abs(found.values["restitution"] - 0.6) < 4 * found.errors["restitution"]


@pytest.mark.slow
def test_errors_are_those_of_trajectories(bouncing):
    """Of balls that slide, measured with drifts of their own: estimates from many sets spread as one set says."""
    (step, _, _), rng, n, T = bouncing, np.random.default_rng(11), 10, 50
    ball, q0, still = step.request.tree, np.tile([0, 0, 0.1, 0, 0, 0, 1.0], (n, 1)), np.array([0.0])
    how = {**HOW, "controls": np.zeros((T, 6)), "scale": {"q": 1e-3, "v": np.inf}, "restitution": still, "bounds": None}
    friction, errors = [], []
    for _ in range(25):
        v0 = rng.normal([2, 0, 0, 0, 0, 0], [0.2, 0.2, 0, 3, 3, 3], (n, 6))
        q, v = (
            x[::EVERY] for x in ds.rollout(step, q0, v0, np.zeros((T, 6)), DT, friction=[0.25], restitution=still)[:2]
        )
        drift = np.linspace(0.0, 1.0, len(q))[:, None, None] * rng.normal(size=(n, 6))
        q[1:] = ball.integrate(q, 5e-3 * drift + 1e-3 * rng.normal(size=v.shape))[1:]
        found = ds.identify(step, {"q": q, "v": v}, {"friction": 0.2}, **how)
        assert found.clusters == n
        friction.append(found.values["friction"])
        errors.append(found.errors["friction"])
    spread, root = np.std(friction, ddof=1), np.sqrt(np.mean(np.square(errors)))
    assert 0.6 * spread < root < 1.8 * spread  # three times the spread of a spread of 25
    alone = ds.identify(step, {"q": q[:, :1], "v": v[:, :1]}, {"friction": 0.2}, **how)
    assert alone.clusters == 0 and "independent" in str(alone)


@pytest.fixture(scope="module")
def loaded():
    """An arm, and the payload on its last link."""
    inertia = np.array([[0.011, 0.001, 0], [0.001, 0.014, 0.0003], [0, 0.0003, 0.009]])
    com = np.array([0.05, 0.02, -0.03])
    about = inertia + 0.8 * (com @ com * np.eye(3) - np.outer(com, com))
    return ds.mechanisms.chain(3), np.r_[0.8, 0.8 * com, about[[0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2]]]


@pytest.mark.slow
def test_payload_from_trajectories(loaded, monkeypatch):
    (arm, payload), rng, T = loaded, np.random.default_rng(5), 100
    step = ds.compile(arm, (), "step", payloads=["link3"])
    tau, q0 = 2 * rng.normal(size=(T, 4, 3)), arm.random(rng, batch=4)
    q = ds.rollout(step, q0, np.zeros(3), tau, DT, payload0=payload, time_axis=0)[0][::EVERY]
    measured = q + NOISE * rng.normal(size=q.shape)
    start = {"payload0": np.zeros(10)}
    how = {"every": EVERY, "scale": NOISE, "controls": tau, "dt": DT, "starts": "estimated"}
    found = ds.identify(step, {"q": measured}, start, **how)
    assert (np.abs(found.values["payload0"] - payload) < 4 * found.errors["payload0"]).all()
    assert found.errors["payload0"][0] < 0.2
    fine = {"q": q + 0.1 * NOISE * rng.normal(size=q.shape)}
    near = ds.identify(step, fine, {"payload0": payload}, **how | {"scale": 0.1 * NOISE})  # only starts are wrong
    assert near.converged and 0.9 < near.residual < 1.1
    with pytest.raises(ds.DelassusError, match="start of payload0: expected a payload with which its link is a body"):
        ds.identify(step, {"q": measured}, {"payload0": [-10.0, *[0.0] * 9]}, **how)

    plain = ds.Kernel.ill_conditioned

    def spoiled(kernel, rcond, batch):  # derivatives of one step on the way
        out = np.array(plain(kernel, rcond, batch))
        if [x.name for x in kernel.results] == ["A", "B"]:
            out[len(out) // 2] = True
        return out

    monkeypatch.setattr(ds.Kernel, "ill_conditioned", spoiled)
    with pytest.warns(ds.DelassusWarning, match="1 of 4 unit"):
        found = ds.identify(step, {"q": measured}, start, **how)
    assert found.unsolved == 1 and (np.abs(found.values["payload0"] - payload) < 4 * found.errors["payload0"]).all()


def test_payload_from_joint_forces(loaded):
    """Of a kernel that is no time step. Ten numbers are more than three joints show; a weighed mass fixes one."""
    (arm, payload), rng = loaded, np.random.default_rng(6)
    kernel = ds.compile(arm, (), "inverse_dynamics", payloads=["link3"])
    q, v, qdd = arm.random(rng, batch=400), rng.normal(size=(400, 3)), rng.normal(size=(400, 3))
    tau = kernel(q, v, qdd, payload) + 0.01 * rng.normal(size=(400, 3))
    tau[::7, 1] = np.nan
    known = {"q": q, "v": v, "qdd": qdd, "scale": 0.01}
    found = ds.identify(kernel, {"tau": tau}, {"payload0": np.zeros(10)}, **known)
    assert isinstance(found, ds.Identification)
    sure = np.isfinite(found.errors["payload0"])
    assert 3 <= sure.sum() and (np.abs(found.values["payload0"] - payload) < 4 * found.errors["payload0"])[sure].all()
    assert 0.9 < found.residual < 1.1
    start, prior = np.r_[0.8, np.zeros(9)], np.r_[1e-3, np.full(9, np.inf)]
    start[[4, 6, 9]] = 0.01
    weighed = ds.identify(kernel, {"tau": tau}, {"payload0": start}, prior={"payload0": prior}, **known)
    assert abs(weighed.values["payload0"][0] - 0.8) < 4e-3 and weighed.errors["payload0"][0] <= 1.1e-3


@pytest.fixture(scope="module")
def unknown():
    """Inverse dynamics of a floating mechanism, all of whose inertias are unknown, and joint forces of others."""
    tree, rng = some_mechanism(7, 4, "floating").tree, np.random.default_rng(8)
    kernel = ds.compile(tree, (), "inverse_dynamics", payloads=tree.link_names, passive="none")
    q, (v, qdd) = tree.random(rng, batch=100), rng.normal(size=(2, 100, tree.nv))
    heavier = rng.uniform(0.2, 2.0, tree.n_links)[:, None] * tree.inertial_parameters
    given = {"q": q, "v": v, "qdd": qdd, "scale": 0.2}
    forces = kernel(q, v, qdd, *(x for x in heavier)) + 0.2 * rng.normal(size=v.shape)
    return kernel, tree, forces, given, heavier


def pseudo_inertia(parameters):
    """Second moments of mass (..., 4, 4) of ten parameters, which are positive definite of a body."""
    m, x, y, z, xx, xy, yy, xz, yz, zz = np.moveaxis(parameters, -1, 0)
    half = 0.5 * (xx + yy + zz)
    rows = [[half - xx, -xy, -xz, x], [-xy, half - yy, -yz, y], [-xz, -yz, half - zz, z], [x, y, z, m]]
    return np.moveaxis(np.array(rows), (0, 1), (-2, -1))


def test_all_links_of_a_floating_mechanism(unknown):
    """The search ends though bodies come to the edge of what is possible; base parameters have their errors."""
    kernel, tree, forces, given, heavier = unknown
    start = {f"payload{k}": np.zeros(10) for k in range(tree.n_links)}
    found = ds.identify(kernel, {"tau": forces}, start, **given)
    assert found.converged and found.evaluations < 20 and 0.9 < found.residual < 1.1
    assert (np.linalg.eigvalsh(pseudo_inertia(found.estimates.reshape(-1, 10) + tree.inertial_parameters)) > 0.0).all()
    base = ds.base_parameters(tree)
    more, errors = found.combination(base.grouping)
    assert np.isfinite(errors).all() and "not determined" in str(found)
    apart = (more - base.grouping @ heavier.ravel()) / errors
    assert np.abs(apart).max() < 4.5 and 0.6 < np.sqrt(np.mean(apart**2)) < 1.4
    with pytest.raises(ds.DelassusError, match="A: expected shape"):
        found.combination(np.eye(3))


def test_what_is_not_determined_stays(unknown):
    """Where nothing is noisy: the base parameters are right, and along no hidden direction the divergence is less."""
    kernel, tree, _, given, heavier = unknown
    forces = kernel(given["q"], given["v"], given["qdd"], *(0.5 * heavier))
    found = ds.identify(kernel, {"tau": forces}, {f"payload{k}": np.zeros(10) for k in range(tree.n_links)}, **given)
    base, own = ds.base_parameters(tree).grouping, tree.inertial_parameters
    assert error(base @ found.estimates, base @ (0.5 * heavier).ravel()) < 1e-6
    assert found.hidden.shape[1] == own.size - len(base)
    before, after = (np.linalg.inv(pseudo_inertia(x)) for x in (own, own + found.estimates.reshape(own.shape)))
    moved = pseudo_inertia(found.hidden.T.reshape(-1, *own.shape))
    slopes = [np.einsum("hnij,nji->h", moved, x) for x in (before, after)]
    assert error(*slopes) < 1e-3


def test_arguments_of_steps_are_finite_and_shared_or_of_each_trajectory():
    """One that is not finite among many is refused; one value for all trajectories is that of each."""
    arm, T, n = ds.mechanisms.chain(2), 3, 4
    step, rng = ds.compile(arm, [], "step", damping="input"), np.random.default_rng(0)
    measured = {"q": 0.1 * rng.normal(size=(T + 1, n, 2)), "v": rng.normal(size=(T + 1, n, 2))}
    given = {"start": {"damping": np.ones(2)}, "scale": 1.0, "dt": np.full(n, 1e-2)}
    given["controls"] = np.repeat(rng.normal(size=(T, 1, 2)), n, axis=1)
    expected = ds.identify(step, measured, **given)
    for name, shared in (("dt", 1e-2), ("controls", given["controls"][:, 0])):
        found = ds.identify(step, measured, **{**given, name: shared})
        assert error(found.estimates, expected.estimates) < 1e-12
        for wrong in (np.nan, np.inf):
            one = given[name].copy()
            one.flat[-1] = wrong
            with pytest.raises(ds.DelassusError, match=f"{name}: expected a finite array"):
                ds.identify(step, measured, **{**given, name: one})
        with pytest.raises(ds.DelassusError, match=f"{name}: expected shape"):
            ds.identify(step, measured, **{**given, name: given[name].T[:-1].T})


def test_windows_are_trajectories_that_are_cut():
    """Each from its own measured state, the last one shorter; what is measured at its end counts once."""
    arm, rng, window, steps = ds.mechanisms.chain(2), np.random.default_rng(3), 4, 20
    step = ds.compile(arm, (), "step", damping="input")
    tau, q0 = rng.normal(size=(steps, 3, 2)), arm.random(rng, batch=3)
    q, v = (x[::2] for x in ds.rollout(step, q0, np.zeros(2), tau, 1e-2, damping=[0.3, 0.2], time_axis=0)[:2])
    noisy = {name: x + 1e-3 * rng.normal(size=x.shape) for name, x in (("q", q), ("v", v))}
    how = {"every": 2, "dt": 1e-2, "scale": 1e-3, "starts": "measured"}
    found = ds.identify(step, noisy, {"damping": np.full(2, 0.1)}, window=window, controls=tau, **how)
    begins = range(0, len(q), window)
    cut = {
        name: np.concatenate([np.pad(x[k : k + window], ((0, window - len(x[k : k + window])), (0, 0), (0, 0)),
                                     constant_values=np.nan) for k in begins], axis=1)
        for name, x in noisy.items()
    }  # fmt: skip
    later = np.concatenate([tau, np.zeros((2 * window, 3, 2))])
    controls = np.concatenate([later[2 * k :][: 2 * (window - 1)] for k in begins], axis=1)
    same = ds.identify(step, cut, {"damping": np.full(2, 0.1)}, controls=controls, **how)
    assert found.units == same.units == 9 and found.clusters == 3
    assert error(found.values["damping"], same.values["damping"]) < 1e-9
    assert abs(found.residual - same.residual) < 1e-9 and 0.7 < found.residual < 2.0


def test_what_changes_forces_by_no_regressor_is_found_back():
    """Gravity that is felt, of more entries than there are joints, from exact numbers."""
    arm, rng, gravity = ds.mechanisms.chain(2), np.random.default_rng(9), np.array([1.0, -2.0, -9.0])
    kernel = ds.compile(arm, (), "inverse_dynamics", gravity="input")
    q, v, qdd = arm.random(rng, batch=50), rng.normal(size=(50, 2)), rng.normal(size=(50, 2))
    tau = kernel(q, v, qdd, gravity)
    found = ds.identify(kernel, {"tau": tau}, {"gravity": np.zeros(3)}, scale=0.01, q=q, v=v, qdd=qdd)
    assert error(found.values["gravity"], gravity) < 1e-9
