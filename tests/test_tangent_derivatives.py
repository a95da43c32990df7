"""Derivatives of any quantity along the tangent of the configuration: differences, identities, kernels."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import delassus as ds
from random_trees import INNER, REVERSIBLE, some_mechanism, some_rotors
from test_dynamics import everything
from tools import AGREEMENT, direct, error, interpreted, random_frame, requested

STEP = 1e-4
"""Step of differences of fourth order, in rad, m or their rates."""

DIFFERENCE = 1e-8
"""Differences, relative to the largest entry: the fourth power of their step times a fifth derivative."""

WHAT = {
    "inverse_dynamics": ("q", "v", "qdd"),
    "bias_force": ("q", "v"),
    "frame_velocity": ("q", "v"),
    "frame_acceleration": ("q", "v", "qdd"),
    "momentum": ("q", "v"),
    "momentum_rate": ("q", "v", "qdd"),
    "momentum_drift": ("q", "v"),
    "energies": ("q", "v"),
    "centre_of_mass": ("q",),
}


def differences(tree, function, states):
    """Derivatives of the results of a batched function by name, a list of those with each state, in tangents."""
    out = {}
    for name in states:
        steps = STEP * np.array([1.0, -1.0, 2.0, -2.0])[:, None, None] * np.eye(tree.nv)
        at = {k: np.broadcast_to(x, (*steps.shape[:-1], x.size)) for k, x in states.items()}
        at[name] = tree.integrate(at[name], steps) if name == "q" else at[name] + steps
        for result, x in function(at).items():
            up, down, far_up, far_down = x
            change = (8 * (up - down) - (far_up - far_down)) / (12 * STEP)
            out[f"d{result}_d{name}"] = np.moveaxis(change, 0, -1)
    return out


def options_of(m, what, rest):
    if "frame" in what:
        frames = ["world", *(random_frame(m.rng, name) for name in m.rng.choice(m.names, 3))]
        return {"frames": frames, "reference": ("local", "world", "local-world-aligned")[m.rng.integers(3)]}
    return rest if what in ("inverse_dynamics", "bias_force") else {"payloads": rest["payloads"]}


@pytest.mark.parametrize("root", ["fixed", "floating"])
@pytest.mark.parametrize("seed", range(2))
def test_random_mechanisms(seed, root):
    """Every kind of joint, armature, damping, wrenches, payloads and gravity, where the quantity takes them."""
    m = some_mechanism(seed + 40, 9, root)
    q, v, qdd, rest = everything(m)
    by_matrix = ds.momentum_jacobian(m.tree, q) @ qdd + ds.momentum_drift(m.tree, q, v)
    assert error(ds.momentum_rate(m.tree, q, v, qdd), by_matrix) < AGREEMENT
    rest["payloads"] = {str(m.rng.choice(m.names)): [2.0, 0.1, 0.2, 0.3, 2, 0, 2, 0, 0, 2]}

    for what, names in WHAT.items():
        options = options_of(m, what, rest)
        states = dict(zip(names, (q, v, qdd), strict=False))
        found = direct(m.tree, what, states, derivative="tangent_jacobian", **options)
        expected = differences(m.tree, partial(direct, m.tree, what, **options), states)
        assert found.keys() == expected.keys()
        for name, x in found.items():
            assert error(x, expected[name]) < DIFFERENCE, (what, name, options.get("reference"))


DT = 0.02


@pytest.mark.turns(4)
@pytest.mark.parametrize("straight", [False, True])
@pytest.mark.parametrize("root", INNER, ids=lambda kind: kind.name)
def test_armature(root, straight):
    """On the root and inside, along axes that turn with the joint or do not: every path to a derivative.

    Programs are those of kernels; direct functions, of one state; ``τ v`` is the rate of the energy.
    """
    rng = np.random.default_rng(7)
    tree = some_rotors(rng, root, straight)
    nv, q, (v, x) = tree.nv, tree.random(rng), rng.normal(size=(2, tree.nv))
    states, found = {"q": q, "v": v, "tau": x, "qdd": x}, {}
    rows = ds.JointRows({joint.name: rng.normal(size=joint.nv).tolist() for joint in tree.joints[:2]})
    for what in ("dynamics", "step", "inverse_dynamics", "bias_force", "energies"):
        asked = requested(tree, rows if what == "dynamics" else (), what)
        given = {name: y for name, y in states.items() if name in asked.inputs}
        one = {**{name: y[None] for name, y in given.items()}, "dt": DT}
        centre = interpreted(asked, one)

        def results(at, asked=asked, centre=centre):
            made = interpreted(asked, {**at, "dt": DT})
            if "q_next" in made:
                start = np.broadcast_to(centre["q_next"], made["q_next"].shape)
                made["q_next"] = tree.difference(start, made["q_next"])
            return made

        made = interpreted(asked.differentiated("tangent_jacobian"), one)
        found[what] = {name: y[0] for name, y in made.items()}
        for name, y in differences(tree, results, given).items():
            assert error(found[what][name], y) < DIFFERENCE, (what, name)

    at_once = ds.dynamics_derivatives(tree, q, v, x, rows)
    for name in ("dqdd_dq", "dqdd_dv", "dqdd_dtau"):
        assert error(getattr(at_once, name), found["dynamics"][name]) < AGREEMENT, name
    A = ds.step_derivatives(tree, q, v, x, DT, ())[2]
    parts = [[found["step"][f"d{y}_next_d{z}"] for z in ("q", "v")] for y in ("q", "v")]
    assert error(A, np.block(parts)) < AGREEMENT and A.shape == (2 * nv, 2 * nv)
    qdd, kinetic = ds.forward_dynamics(tree, q, v, x, gravity=(0, 0, 0)).qdd, found["energies"]
    power = kinetic["dkinetic_dq"] @ v + kinetic["dkinetic_dv"] @ qdd
    assert abs(power - x @ v) < AGREEMENT * (1 + np.abs(x) @ np.abs(v))
    bias = ds.bias_force(tree, q, v, gravity=(0, 0, 0))
    assert error(ds.coriolis_matrix(tree, q, v) @ v, bias) < AGREEMENT


@pytest.mark.parametrize("motors", ["all but a hinge", "two", "all", "two alone"])
def test_inverse_dynamics_with_constraints(motors):
    """Forces that are unique, least ones of many, and nearest ones where none reach the motion; a constraint is off."""
    tree, rng = ds.mechanisms.star(2, 2, root="floating"), np.random.default_rng(3)
    tips = [ds.Frame(f"branch{k}_2", rng.normal(size=3)) for k in (1, 2)]
    driven = {"all but a hinge": tree.joint_names[1:-1], "all": tree.joint_names}.get(motors, tree.joint_names[1:3])
    constraints = [] if motors == "two alone" else [ds.Weld(tips[0]), ds.Point(tips[1]), ds.Point(*tips)]
    q, (v, qdd) = tree.random(rng), rng.normal(size=(2, tree.nv))
    given = {"motors": list(driven), "weights": rng.uniform(0.5, 2.0, tree.nv + 4 * len(constraints))}
    if constraints:
        given["active"] = [1.0, motors != "two", 0.0]
    results = partial(direct, tree, "inverse_dynamics", constraints=constraints, **given)
    states = {"q": q, "v": v, "qdd": qdd}
    found = results(states, derivative="tangent_jacobian")
    for name, expected in differences(tree, results, states).items():
        assert np.abs(found[name] - expected).max(initial=0.0) < DIFFERENCE * max(
            1.0, np.abs(expected).max(initial=0.0)
        ), name


@pytest.fixture(scope="module")
def robot():
    """A floating robot with a ball joint, and a state."""
    m = some_mechanism(5, 2, "floating", kinds=REVERSIBLE[3:4])
    return m.tree, *everything(m)[:3]


def test_programs_without_formulas(robot):
    """Poses, and a step by a method that iterates: configurations as arguments and as results."""
    tree, q, v, tau = robot
    foot, dt = ds.Point(ds.Frame(tree.link_names[-1], (0.1, 0.2, 0.3))), 0.05

    step = requested(tree, foot, "step", compliance=1e-3, method="proximal")
    states = {"q": q, "v": v, "tau": tau}
    centre = interpreted(step, {**states, "dt": dt})["q_next"]

    def stepped(at):
        found = interpreted(step, {**at, "dt": dt})
        return {**found, "q_next": tree.difference(np.broadcast_to(centre, found["q_next"].shape), found["q_next"])}

    poses = requested(tree, (), "kinematics")
    for asked, results in ((poses, partial(interpreted, poses)), (step, stepped)):
        inputs = {name: x for name, x in states.items() if name in asked.inputs}
        found = interpreted(asked.differentiated("tangent_jacobian"), {**inputs, "dt": dt})
        for name, expected in differences(tree, results, inputs).items():
            assert error(found[name], expected) < DIFFERENCE, name


@pytest.mark.filterwarnings("ignore:.*are CONFLICTING:delassus.DelassusWarning")
@pytest.mark.parametrize("what", ["dynamics", "impulse"])
def test_programs_of_dependent_rows(what):
    """A weld and a point on one link, whose rows are dependent everywhere and contradict one another."""
    tree, rng = ds.mechanisms.chain(5), np.random.default_rng(4)
    held = [ds.Weld("link5"), ds.Point(ds.Frame("link5", (0.1, 0.2, 0.3)), axes="world")]
    states = {"q": tree.random(rng), "v": rng.normal(size=5), "tau": rng.normal(size=5)}
    asked = requested(tree, held, what).differentiated("tangent_jacobian")
    states = {name: x for name, x in states.items() if name in asked.inputs}
    found = interpreted(asked, states)
    for name, expected in differences(tree, partial(direct, tree, what, constraints=held), states).items():
        assert error(found[name], expected) < DIFFERENCE, name


def test_kernels(robot):
    """Formulas in machine code, and beside them the derivative of the program with an argument that is no state."""
    tree, q, v, qdd = robot
    kernel = ds.compile(tree, (), "inverse_dynamics", gravity="input").derivative("tangent_jacobian")
    g, names = np.array([1.0, 2.0, -9.0]), [r.name for r in kernel.results]
    found = dict(zip(names, kernel(q, v, qdd, g), strict=True))
    for ours, name in zip(ds.inverse_dynamics_derivatives(tree, q, v, qdd, gravity=g), names, strict=False):
        assert error(found[name], ours) < AGREEMENT
    by_gravity, without = (ds.inverse_dynamics(tree, q, 0 * v, 0 * qdd, gravity=x) for x in (g, 0 * g))
    assert error(found["dtau_dgravity"] @ g, by_gravity - without) < AGREEMENT
