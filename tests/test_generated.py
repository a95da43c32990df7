"""Generated robots at every quantity, option, derivative and kind of kernel; and nothing of the library is left out.

The cases follow the sources of a commit. An assertion says how to do one again. `generated.FOUND` keeps those that
found a fault. ``python tests/generated.py --seconds 600`` runs more of them.
"""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Collider, HalfSpace, Sphere
from generated import FOUND, MARGIN, Check, commit_number, run, with_jax
from generated_cases import (
    CHOICES,
    COMPILED,
    FUNCTIONS,
    OPERATORS,
    OPTIONS,
    QUANTITIES,
    Case,
    arguments_of,
    cases,
    chosen_of,
    results_of,
    taken,
    taken_by,
)
from internals import joint_kinds
from random_trees import some_robot, some_rows
from tools import beside_simulator, direct

pytestmark = [pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")]

NUMBER = commit_number()


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.usefixtures("machine_code")
@pytest.mark.parametrize(("name", "k"), list(cases()))
def test_cases(name, k):
    run(name, NUMBER, k)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "number", "k"), FOUND)
def test_found(name, number, k):
    """By the evaluator: what they found is in programs."""
    run(name, number, k)


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_on_jax(name):
    """Public functions, which compile their kernel then, against their own results at once."""
    case = next(case for case in (Case(name, NUMBER + i, derives=False, most=3) for i in range(9)) if case.is_wide)
    check = Check(case)
    check.reference()
    with with_jax() as jax:
        if jax is None:
            pytest.skip("JAX is not installed")
        for function in FUNCTIONS[name]:
            call, arrays = getattr(ds, function), {k: jax.numpy.asarray(x) for k, x in check.part(0).items()}
            found = results_of(case, function, call(**arguments_of(case, call, arrays)), jax.numpy)
            assert all(isinstance(x, jax.Array) for x in found.values())
            for key in found.keys() & check.expected.keys():
                x, expected = np.asarray(found[key]), check.expected[key]
                x = x if x.shape == expected.shape[1:] else x[np.tril_indices(len(x))]  # packed
                check.hold("JAX", key, x, expected, check.bound(check.noise[key], MARGIN * check.worst), 0)


def assert_same(found, expected):
    """Bit for bit, shapes too."""
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y), strict=True)


@pytest.mark.parametrize("damping", [None, 1e-3])
def test_operators(damping):
    """What is of no quantity: the factorised matrix, also damped."""
    rng = np.random.default_rng(NUMBER)
    mechanism = some_robot(rng, 6)
    tree, constraints = mechanism.tree, [ds.Point(mechanism.moving[-1])]
    q, x = tree.random(rng, 2), rng.normal(size=(2, 3))
    for how in (lambda op, x: op.solve(x), lambda op, x: op.apply(x), lambda op, x: op.dense()):

        def call(q, x, how=how):
            return how(ds.delassus_operator(tree, constraints, q, damping=damping), x)

        batch = call(q, x)
        found = [call(q[:1], x[:1]), call(q[1], x[1]), call(q[1].tolist(), x[1].tolist())]
        assert_same(found, [batch[:1], batch[1], batch[1]])


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("kind", joint_kinds.KINDS)
def test_trees(kind):
    """Methods of a robot, and what moves on the manifold of each kind of joint."""
    rng = np.random.default_rng(NUMBER)
    tree = some_robot(rng, 4, kinds=(kind,)).tree
    q, q1, v = tree.random(rng, 2), tree.random(rng, 2), rng.normal(size=(2, tree.nv))
    calls = [
        lambda q, q1, v: tree.integrate(q, v),
        lambda q, q1, v: tree.difference(q, q1),
        lambda q, q1, v: tree.passive_forces(q, v),
        lambda q, q1, v: tree.check_configuration(q),
        lambda q, q1, v: tree.check_velocity(v),
    ]
    for name in ("step", "position_update", "momentum_drift"):

        def at_once(q, q1, v, name=name):
            state = {"q": q, "v": v, "tau": v, "dt": np.full(q.shape[:-1], 0.01), "shift": v}
            return tuple(direct(tree, name, {n: state[n] for n in QUANTITIES[name].inputs}).values())

        calls.append(at_once)
    for call in calls:
        batch, first, one = (
            found if isinstance(found := call(q[at], q1[at], v[at]), tuple) else (found,)
            for at in (slice(None), slice(1), 1)
        )
        assert_same(first, [x[:1] for x in batch])
        assert_same(one, [x[1] for x in batch])


def test_limits_cut_controls():
    """What the cases are to find: controls are beyond the limits of joints, of actuators and of controls."""
    for control in CHOICES["control"][1:]:
        cut = False
        for number in range(NUMBER, NUMBER + 9):
            tree = some_robot(np.random.default_rng(number), 6).tree
            if not (tree.nu and np.isfinite(tree.effort_limit).any()):
                continue
            kernel = ds.compile(tree, (), "control_forces", control=control)
            state = {a.name: np.full(a.shape, 1e3) for a in kernel.arguments}
            tau = kernel(**{**state, "q": tree.neutral(), "v": np.zeros(tree.nv)})
            assert np.all(np.abs(tau) <= tree.effort_limit)
            cut = control == "actuators" or np.any(tau == tree.effort_limit)  # "pd" drives some of the joints
            if cut:
                break
        assert cut


@pytest.mark.slow
@pytest.mark.parametrize("k", range(4))
def test_simulators(k):
    """A robot above a floor that is far away goes as the step with contacts of its scene; its limits act."""
    rng = np.random.default_rng([NUMBER, k])
    mechanism = some_robot(rng, 4)
    tree = mechanism.tree
    floor = Collider("world", HalfSpace(), position=(0.0, 0.0, -9.0))
    scene = ds.Scene(tree, [Collider(mechanism.moving[-1], Sphere(0.05)), floor])
    state = tree.random(rng), rng.normal(size=tree.nv), rng.normal(size=tree.nv)
    _, sim = beside_simulator(scene, *state, 5, 1e-3, tolerance=1e-10, sweeps=2000)
    assert sim.status.name == "CONVERGED"


# -- nothing is left out ---------------------------------------------------------------------------------------------


def test_every_option_and_function_is_met():
    assert set(CHOICES) | set(COMPILED) == set(OPTIONS)
    for name, quantity in QUANTITIES.items():
        values, _ = taken(quantity)
        every = [chosen_of(quantity, NUMBER, k)[0] for of, k in cases() if of == name]
        for option in values.keys() - {"lanes"}:
            met = {repr(chosen[option]) for chosen in every}
            assert met == {repr(x) for x in OPTIONS[option]}, (name, option)
    methods = {chosen_of(QUANTITIES[name], NUMBER, k)[1] for name, k in cases()}
    assert methods == {m for quantity in QUANTITIES.values() for m in ("auto", *quantity.methods)}
    of_states = {name for name in ds.__all__ if inspect.isfunction(f := getattr(ds, name)) and "q" in taken_by(f)}
    assert of_states == {*(name for names in FUNCTIONS.values() for name in names), *OPERATORS}


def test_robots_have_what_acts():
    """In many: what has a value, joints of every kind, and constraints of every kind."""
    robots = [some_robot(np.random.default_rng(NUMBER + k), 6) for k in range(60)]
    for attribute in ("stiffness", "damping", "friction", "armature"):
        assert any(m.tree.per_dof(attribute).any() for m in robots), attribute
    assert any(m.tree.nu for m in robots) and any(m.tree.gravity_compensation for m in robots)
    assert {joint.kind for m in robots for joint in m.tree.joints} == set(joint_kinds.KINDS)
    assert {type(some_rows(m)) for m in robots for _ in range(3)} == {
        ds.CenterOfMass, ds.Cylindrical, ds.Distance, ds.Hinge, ds.JointRows, ds.Orientation, ds.Planar, ds.Point,
        ds.Prismatic, ds.Rows, ds.Universal, ds.Weld,
    }  # fmt: skip
