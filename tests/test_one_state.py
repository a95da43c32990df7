"""One state is a batch of one, in a direct call, in a kernel and on JAX: every quantity, public function and option.

Cases are made from the library's tables; what is new there is met here without a change, or the last tests name it.
"""

from __future__ import annotations

import inspect
from dataclasses import replace
from functools import cache
from typing import get_args, get_type_hints

import numpy as np
import pytest

import delassus as ds
from internals import (
    QUANTITIES,
    SOFT,
    UNCONSTRAINED,
    Actuator,
    NumpyRequest,
    RawJoint,
    RawLink,
    build_tree,
    joint_kinds,
    usual_states,
)
from tools import error, requested

pytestmark = [pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")]

STATES = 2


def make_robot(first, stiffness=5.0):
    """A joint, a hinge and a slide: springs, damping, friction, limits, a coupling, actuators that are cut off."""
    turning = np.diag([0.02, 0.03, 0.025])
    links = [RawLink("ground"), *(RawLink(name, 1.5, np.array([0.1, 0.02, -0.03]), turning) for name in "abc")]
    at = np.array([0.2, 0.0, 0.1])
    joints = [
        RawJoint("first", first, "ground", "a", at, damping=0.1, stiffness=stiffness, rest_position=0.1),
        RawJoint(
            "hinge", joint_kinds.REVOLUTE, "a", "b", at, axis=np.array([0.0, 1.0, 0.0]), damping=0.2, friction=0.3,
            stiffness=2.0, rest_position=0.4, lower=-0.5, upper=0.5, effort_limit=2.0, armature=0.05,
        ),
        RawJoint("slide", joint_kinds.PRISMATIC, "b", "c", at, axis=np.array([1.0, 0.0, 0.0]), effort_limit=3.0),
    ]  # fmt: skip
    motor = Actuator("motor", {"hinge": 2.0, "slide": 0.5}, control_range=(-1.5, 1.5))
    servo = Actuator("servo", {"slide": 1.0}, (20.0, 0.0, 0.0), (0.0, -20.0, -1.0), force_range=(-2.5, 2.5))
    return replace(
        build_tree(f"small_{first}", links, joints),
        actuators=(motor, servo),
        gravity_compensation={"c": np.array([0.7, 0.01, 0.0, 0.02])},
        constraints=(ds.JointRows({"hinge": 1.0, "slide": -2.0}),),
    )


ROBOTS = [make_robot(kind) for kind in (joint_kinds.BALL, joint_kinds.REVOLUTE)]
TIP = ds.Frame("c", (0.3, 0.0, 0.1))
CONSTRAINTS = (
    [*ROBOTS[0].constraints, ds.Point(TIP)],
    [ds.Distance(TIP, ds.Frame("a", given="placement")), ds.Rows("b", 1, axes="world")],
)
CONTACTS = (
    [ds.Contact(TIP, ds.contact.Sphere(0.5), friction=0.6)],
    [ds.Contact("c", ds.contact.Sphere(0.5), "input", restitution=0.2)],
)

(KEYWORDS,) = get_type_hints(ds.compile)["options"].__args__
CHOICES = {name: get_args(hint) for name, hint in get_type_hints(KEYWORDS).items()}
LEFT_OUT = object()
OPTIONS = {
    "gravity": (LEFT_OUT, "input", (1.0, -2.0, -9.0)),
    "passive": ("model", "none"),
    "damping": (LEFT_OUT, "input", lambda tree: np.full(tree.nv, 0.3)),
    "control": CHOICES["control"],
    "v_target": (True, False),
    "wrenches": ((), ("c", ds.Frame("b", (0.1, 0.2, 0.3)))),
    "targets": (False, True),
    "baumgarte": (None, 10.0, ds.Baumgarte(20.0, 0.5)),
    "poses": (False, False, True),
    "compliance": (None, "input", 1e-2, [1e-3, None]),
    "active": (False, True),
    "impacts": (False, True),
    "frames": (LEFT_OUT, "c", ["b", TIP]),
    "reference": CHOICES["reference"],
    "sensors": (
        [
            ds.Sensor("imu", "accelerometer", TIP),
            ds.Sensor("load", "torque", "b", cutoff=0.5),
            ds.Sensor("turn", "framequat", TIP, "a"),
            ds.Sensor("all", "subtreeangmom", "a"),
        ],
    ),
    "hold": ((), ["hinge"]),
    "independent": (LEFT_OUT,),
    "output": (LEFT_OUT, ds.Point(TIP)),
    "motors": (["hinge"], None),
    "weights": (LEFT_OUT, LEFT_OUT, "input"),
    "contacts": (None, ds.Point("b", axes="world")),
    "kp": (LEFT_OUT, "input", 30.0),
    "kd": (5.0, "input", [None, 3.0]),
    "impedance": (False, [True, False]),
    "posture": (False, True, True),
    "posture_kp": (LEFT_OUT, "input"),
    "posture_kd": (LEFT_OUT, 2.0, "input"),
    "integrator": CHOICES["integrator"],
    "friction": (None, "input", 0.7),
    "restitution": (None, "input", 0.3),
    "smoothing": (0.0, "input", 0.1),
    "limits": (True, False),
    "solver": CHOICES["solver"],
    "sweeps": (200, 30),
    "tolerance": (1e-4, 1e-6),
    # of `compile` itself
    "dtype": ("float64", "float64", "float32"),
    "lanes": (None, 1),
    "payloads": ((), ("c",)),
    "error_bound": (None, 1e-3),
    "outputs": (None, slice(None, None, -1)),
    "packed": (False, True),
}
"""Values of options as `delassus.compile` takes them, what is not given first; which outputs, by their places."""

COMPILED = [name for name in [*inspect.signature(ds.compile).parameters][4:-1] if name != "target"]
"""Options that `delassus.compile` itself has, but for the method; one state needs no GPU."""

FUNCTIONS = {
    "kinematics": ["forward_kinematics"],
    "dynamics": ["forward_dynamics"],
    "energies": ["kinetic_energy", "potential_energy"],
}
"""Public functions of quantities that have other names."""

OPERATORS = {"delassus_operator", "inverse_dynamics_derivatives"}
"""Public functions of states that are of no quantity, or derivatives of one."""


# -- cases ----------------------------------------------------------------------------------------------------------


def taken(quantity):
    """Options of a quantity and its methods, with their values."""
    more = (name for other in quantity.by_option.values() for name in other.options)
    values = {name: OPTIONS[name] for name in (*quantity.options, *more, *COMPILED) if name in OPTIONS}
    if not any(output.symmetric for output in quantity.outputs):
        del values["packed"]
    return values, ("auto", *quantity.methods)


def cases():
    """Quantities, and numbers of cases: of all options, and of all methods once."""
    met = set()
    for name, quantity in QUANTITIES.items():
        values, methods = taken(quantity)
        several = [*values.values(), *([] if methods in met else [methods])]
        met.add(methods)
        yield from ((name, k) for k in range(max(map(len, several))))


def options_of(quantity, k):
    """Robot, constraints and options of the k-th case: the k-th value of each, but for what does not go together."""
    tree, constraints = ROBOTS[k % len(ROBOTS)], CONSTRAINTS[k % len(CONSTRAINTS)]
    values, methods = taken(quantity)
    chosen = {name: several[k % len(several)] for name, several in values.items()}
    method = methods[k % len(methods)]
    if chosen.get("control") != "pd":
        chosen.pop("v_target", None)
    for option, other in quantity.by_option.items():
        if chosen[option] is None:
            chosen = {name: x for name, x in chosen.items() if name not in other.options - quantity.options}
    if quantity.has_status and method in UNCONSTRAINED:
        constraints = []
    if "compliance" in chosen:
        if not constraints or method == "pv":  # takes hard ones only
            chosen["compliance"] = None
        elif method in SOFT:
            chosen["compliance"] = "input"
        elif isinstance(chosen["compliance"], list) and chosen["active"] and method == "pv-early":
            chosen["active"] = False
        if chosen["compliance"] is not None:  # such constraints take no impulses
            chosen.pop("impacts", None)
    if "solver" in chosen:
        loops = [] if "A" in [o.name for o in quantity.outputs] else [constraints[0]]  # which these derivatives refuse
        if loops:
            chosen.pop("smoothing")
        constraints = [*loops, *CONTACTS[k % len(CONTACTS)]]
    if "solver" in chosen and "sensors" in chosen:  # outputs on request, of touch, too; without forces of loops
        turn = [x for x in chosen.pop("sensors") if x.kind != "torque"]
        touch = ds.Sensor("touch", "touch", TIP, within=ds.contact.Box(1.0, 0.8, 0.6))
        chosen |= {} if chosen["outputs"] is None else {"sensors": [*turn, touch]}
    if chosen["outputs"] is not None:
        there = [f"{o.name}dt" if o.each else o.name for o in quantity.outputs]
        chosen["outputs"] = there[chosen["outputs"]]
    chosen = {name: x(tree) if callable(x) else x for name, x in chosen.items() if x is not LEFT_OUT}
    return tree, constraints, {**chosen, **({"method": method} if quantity.methods else {})}


@cache
def made(name, k):
    """Kernel of a case, and values of its arguments (STATES, …), controls beyond what is given."""
    tree, constraints, options = options_of(QUANTITIES[name], k)
    kernel = ds.compile(tree, constraints, name, **options)
    at, values = 0, {}
    states = np.concatenate(usual_states(kernel.request))[:STATES]
    for a in kernel.arguments:
        values[a.name] = states[:, at : at + a.size].reshape(STATES, *a.shape)
        at += a.size
        if a.name in ("kp", "kd"):
            values[a.name] = 1e4 * values[a.name]
    return kernel, values


def as_tuple(found):
    return found if isinstance(found, tuple) else (found,)


def each(values, k):
    """One state of all."""
    return {name: x[k] for name, x in values.items()}


def on_numpy(kernel, values):
    """What the kernel's request gives on NumPy."""
    return NumpyRequest(kernel.request, values, values["q"].shape[:-1]).run()


def compiled(kernel, values, cast=np.asarray, **asked):
    """What the kernel gives, in a tuple."""
    return as_tuple(kernel(**{name: cast(x, kernel.dtype) for name, x in values.items()}, **asked))


def bound_of(kernel, values):
    """Largest relative error of a kernel: what it estimates itself, round-off of all operations, where it ends.

    A tenth of it at most was met.
    """
    estimate = np.max(compiled(kernel, values, return_error=True)[-1]) if kernel.has_rcond else 0.0
    last = kernel.request.options.tolerance if kernel.iterates else 0.0
    return estimate + np.finfo(kernel.dtype).eps * max(kernel.operations.total, 1) + last


@pytest.fixture
def every_type():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    yield jax
    jax.config.update("jax_enable_x64", False)


def assert_same(found, expected):
    """Bit for bit, shapes too."""
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y), strict=True)


# -- quantities ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name, k", list(cases()))
def test_quantities(name, k):
    """At once and compiled: one state, a batch of one and the same state of a batch are the same bits."""
    kernel, values = made(name, k)
    quantity, first = QUANTITIES[name], {name: x[:1] for name, x in values.items()}
    for call in (lambda x: tuple(on_numpy(kernel, x).values()), lambda x: compiled(kernel, x)):
        batch = call(values)
        assert_same(call(first), [x[:1] for x in batch])
        assert_same(call({name: x[:0] for name, x in values.items()}), [x[:0] for x in batch])
        for i in range(STATES):
            assert_same(call(each(values, i)), [x[i] for x in batch])
    direct, bound = on_numpy(kernel, values), bound_of(kernel, values)
    assert list(direct) == [r.name for r in kernel.results] and set(quantity.inputs) - {"tau"} <= set(values)
    for result, found in zip(kernel.results, compiled(kernel, values), strict=True):
        assert found.shape == direct[result.name].shape == (STATES, *result.shape)
        residual = result.name == "residuals"  # ends anywhere below the tolerance
        assert residual or error(found, direct[result.name]) < bound, result.name
        assert result.meaning


def test_limits_cut_controls_of_one_state():
    """What the cases above are to find: controls are beyond the limits of joints, of actuators and of controls."""
    for tree in ROBOTS:
        limit = tree.effort_limit
        for control in CHOICES["control"][1:]:
            kernel = ds.compile(tree, (), "control_forces", control=control)
            names = [a.name for a in kernel.arguments][2:]
            state = {"q": tree.neutral(), "v": np.zeros(tree.nv)}
            state |= {name: np.full(a.shape, 1e3) for name in names for a in kernel.arguments if a.name == name}
            (tau,) = compiled(kernel, state)
            moved = np.abs(tau) > 0.0
            assert moved.sum() >= 2 and np.all(np.abs(tau[moved]) <= limit[moved]) and np.any(np.abs(tau) == limit)
            assert_same(on_numpy(kernel, state).values(), [tau])
            start = {name: state[name] for name in ("q", "v")}
            target, *gains = (state[name] for name in names)
            found = ds.forward_dynamics(tree, **start, tau=target, constraints=(), control=control,
                                        **dict(zip(names[1:], gains, strict=True)))  # fmt: skip
            assert error(found.qdd, ds.forward_dynamics(tree, **start, tau=tau, constraints=()).qdd) < 1e-12


# -- public functions ------------------------------------------------------------------------------------------------

FUNCTIONS = {
    **{name: name for name in QUANTITIES if name in ds.__all__},
    "forward_kinematics": "kinematics", "forward_dynamics": "dynamics",
    "kinetic_energy": "energies", "potential_energy": "energies",
}  # fmt: skip
"""Quantities by public functions."""


def taken_by(function):
    """Names of what a public function takes."""
    names = dict(inspect.signature(function).parameters)
    if names.pop("given", None) is not None:
        (typed,) = get_type_hints(function)["given"].__args__
        return {**names, **typed.__annotations__}
    return names


def direct(name, k, values):
    """Arguments of a public function for the k-th case of its quantity."""
    asked = made(FUNCTIONS[name], k)[0].request
    _, constraints, chosen = options_of(QUANTITIES[FUNCTIONS[name]], k)

    def all_of(keyword):
        return [values[a.name] for a in asked.arguments if a.keyword == keyword]

    def each_of(what, fixed=None):
        several = fixed if isinstance(fixed, list) else [fixed] * len(constraints)
        return [values.get(f"{what}{i}", x) for i, x in enumerate(several)]

    given = {
        **chosen, **values, "tree": asked.tree, "constraints": constraints, "tasks": constraints,
        "tau": values.get((*asked.inputs, "", "")[2]), "rows": all_of("rows"),
        "placements": all_of("placements"), "payloads": dict(zip(chosen["payloads"], all_of("payloads"), strict=True)),
        "wrenches": dict(zip(chosen.get("wrenches", ()), all_of("wrenches"), strict=True)),
        "targets": each_of("target"), "poses": each_of("pose"),
        "compliance": each_of("compliance", chosen.get("compliance")),
    }  # fmt: skip
    if name == "control":
        given |= {gain: each_of(gain, chosen.get(gain)) for gain in ("kp", "kd")}
    left_out = {"v_target", "active", "impacts", "posture"} - set(values) | {"error_bound"}
    if name == "inverse_dynamics" and chosen["motors"] is None:
        left_out |= {"constraints", "rows", "placements"}
    return {key: given[key] for key in taken_by(getattr(ds, name)) if key in given and key not in left_out}


def results(name, found, k):
    """Results of a public function by the names of the quantity's outputs."""
    quantity = QUANTITIES[FUNCTIONS[name]]
    chosen = options_of(quantity, k)[2]["outputs"] if "outputs" in taken_by(getattr(ds, name)) else None
    outputs = chosen or [o.name for o in quantity.outputs if not o.on_request]
    if isinstance(found, ds.InverseDynamics):
        outputs = [o.name for o in quantity.by_option["motors"].outputs]
    if name.endswith("_energy"):
        return {name.removesuffix("_energy"): found}
    if isinstance(found, tuple):
        return dict(zip(outputs, found, strict=True))
    if isinstance(found, dict):
        return {outputs[0]: np.concatenate([*found.values()], axis=-1)}
    if len(outputs) == 1:
        return {outputs[0]: found}
    if name == "close_loops":
        closed = found.status == ds.LoopStatus.CLOSED
        return {"q_closed": found.q, "residual": found.residual, "closed": closed, "rank": found.rank}
    if name == "reduced_dynamics":
        kinds = np.vectorize(list(ds.Singularity).index)(found.singularity)
        found = found.transmission, found.drift, found.mass_matrix, found.bias, found.delassus, found.margin, kinds
        return dict(zip(outputs, found, strict=True))
    by_constraint = {"forces", "impulses"}  # a tuple of arrays
    first = getattr(found, outputs[0])
    return {o: np.concatenate([first[..., :0], *x], axis=-1) if o in by_constraint else x
            for o, x in zip(outputs, (getattr(found, o) for o in outputs), strict=True)}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    """One state, numbers of Python too, as of a batch, bit for bit; as of the kernel, to round-off."""
    for k in (k for of, k in cases() if of == FUNCTIONS[name]):
        kernel, values = made(FUNCTIONS[name], k)

        def call(given, name=name, k=k):
            found = getattr(ds, name)(**direct(name, k, given))
            return {key: np.asarray(x) for key, x in results(name, found, k).items()}

        first, one = (
            call({key: x[1:2] for key, x in values.items()}),
            call({key: x[1].tolist() for key, x in values.items()}),
        )
        assert_same(one.values(), [x[0] for x in first.values()])
        bound = bound_of(kernel, values)
        for result, found in zip(kernel.results, compiled(kernel, each(values, 1)), strict=True):
            if (expected := one.get(result.name)) is not None:
                packed = expected.shape != found.shape
                expected = expected[np.tril_indices(len(expected))] if packed else expected
                assert error(found, expected) < bound, result.name


@pytest.mark.slow
@pytest.mark.parametrize("name, k", list(cases()))
def test_jax(every_type, name, k):
    """Of one state, the bits of the call with NumPy arrays; `test_jax` has batches."""
    kernel, values = made(name, k)
    state = each(values, 1)
    assert_same(compiled(kernel, state, every_type.numpy.asarray), compiled(kernel, state))


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_on_jax(every_type, name):
    """Public functions, which compile their kernel then, against their own results on NumPy."""
    kernel, values = made(FUNCTIONS[name], 0)
    call, state = getattr(ds, name), each(values, 1)
    arrays = {key: every_type.numpy.asarray(x) for key, x in state.items()}
    expected = results(name, call(**direct(name, 0, state)), 0)
    found = call(**direct(name, 0, arrays))
    if isinstance(found, dict):
        found = every_type.numpy.concatenate([*found.values()], axis=-1)
    for x, y in zip(found if isinstance(found, tuple) else (found,), expected.values(), strict=True):
        assert isinstance(x, every_type.Array) and error(x, y) < bound_of(kernel, values)


def test_operators():
    """What is of no quantity: the factorised matrix, also damped."""
    tree, rng = ROBOTS[0], np.random.default_rng(0)
    q, x = tree.random(rng, STATES), rng.normal(size=(STATES, 4))
    for call in (
        *(
            lambda q, x, damping=damping, how=how: how(
                ds.delassus_operator(tree, CONSTRAINTS[0], q, damping=damping), x
            )
            for damping in (None, 1e-3)
            for how in (lambda op, x: op.solve(x), lambda op, x: op.apply(x), lambda op, x: op.dense())
        ),
    ):
        batch = call(q, x)
        assert_same([call(q[:1], x[:1]), call(q[1], x[1]), call(q[1].tolist(), x[1].tolist())],
                    [batch[:1], batch[1], batch[1]])  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", joint_kinds.KINDS)
def test_trees(kind):
    """Methods of a robot, and what moves on the manifold of each kind of joint."""
    tree, rng = make_robot(kind, 0.0), np.random.default_rng(0)
    q, q1, v = tree.random(rng, STATES), tree.random(rng, STATES), rng.normal(size=(STATES, tree.nv))
    calls = [
        lambda q, q1, v: tree.integrate(q, v),
        lambda q, q1, v: tree.difference(q, q1),
        lambda q, q1, v: tree.passive_forces(q, v),
        lambda q, q1, v: tree.check_configuration(q),
        lambda q, q1, v: tree.check_velocity(v),
    ]
    for asked in (requested(tree, (), name) for name in ("step", "position_update", "momentum_drift")):

        def at_once(q, q1, v, asked=asked):
            state = {"q": q, "v": v, "tau": v, "dt": np.full(q.shape[:-1], 0.01), "shift": v}
            return tuple(NumpyRequest(asked, {n: state[n] for n in asked.inputs}, q.shape[:-1]).run().values())

        calls.append(at_once)
    for call in calls:
        batch = as_tuple(call(q, q1, v))
        assert_same(as_tuple(call(q[:1], q1[:1], v[:1])), [x[:1] for x in batch])
        assert_same(as_tuple(call(q[1], q1[1], v[1])), [x[1] for x in batch])


@pytest.mark.slow
def test_rollouts_and_solutions(every_type):
    kernel, values = made("step", 0)
    states = {"q0": values["q"], "v0": values["v"]}
    controls, dt = np.zeros((4, kernel.request.tree.nv)), 1e-3
    batch = ds.rollout(kernel, **states, controls=controls, dt=dt)
    first = ds.rollout(kernel, **{n: x[:1] for n, x in states.items()}, controls=controls, dt=dt)
    assert_same(first, [x[:, :1] for x in batch])
    one = {n: x[1] for n, x in states.items()}
    assert_same(ds.rollout(kernel, **one, controls=controls, dt=dt), [x[:, 1] for x in batch])
    arrays = {n: every_type.numpy.asarray(x) for n, x in one.items()}
    assert_same(ds.rollout(kernel, **arrays, controls=controls, dt=dt), [x[:, 1] for x in batch])
    kernel, values = made("dynamics", 0)
    batch, one = kernel.solve(**values), kernel.solve(**each(values, 1))
    assert_same([one.qdd, *one.forces], [batch.qdd[1], *(f[1] for f in batch.forces)])


# -- nothing is left out ---------------------------------------------------------------------------------------------


def test_every_option_and_function_is_met():
    assert set(CHOICES) | set(COMPILED) == set(OPTIONS)
    met = {name: [] for name in (*OPTIONS, "method")}
    for of, k in cases():
        for name, x in options_of(QUANTITIES[of], k)[2].items():
            met[name].append(repr(x))
    for name, values in OPTIONS.items():
        assert len(set(met[name])) >= len({repr(x) for x in values if x is not LEFT_OUT}), name
    assert set(met["method"]) == {repr(m) for quantity in QUANTITIES.values() for m in ("auto", *quantity.methods)}
    of_states = {name for name in ds.__all__ if inspect.isfunction(f := getattr(ds, name)) and "q" in taken_by(f)}
    assert of_states == {*FUNCTIONS, *OPERATORS}
    keywords = {keyword for name in of_states for keyword in taken_by(getattr(ds, name))}
    arguments = set()
    for of, k in cases():
        tree, constraints, chosen = options_of(QUANTITIES[of], k)
        asked = {name: x for name, x in chosen.items() if name not in ("dtype", "lanes", "error_bound")}
        arguments |= {a.name for a in requested(tree, constraints, of, **asked).arguments}
    assert {"pose1", "compliance0", "target0", "K1", "placement0_second", "wrench1", "payload0", "ground1"} <= arguments
    assert keywords - arguments - set(OPTIONS) == {
        "tree", "constraints", "tasks", "method", "max_iterations", "tau", "rows", "placements"
    } - arguments  # fmt: skip


def test_the_robots_have_what_acts():
    tree = ROBOTS[0]
    for attribute in ("stiffness", "damping", "friction", "armature"):
        assert tree.per_dof(attribute).any()
    assert tree.nu and tree.gravity_compensation and tree.constraints and np.isfinite(tree.effort_limit).any()
