"""Declarations of quantities: their outputs, alone and packed, and their documents; requests are resolved once.

`test_generated` evaluates each at once and compiled.
"""

from __future__ import annotations

import inspect
import json
import pickle
from contextlib import suppress
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest

import delassus as ds
from internals import bind, quantities
from random_trees import some_mechanism
from tools import AGREEMENT, error, requested, traced


@pytest.fixture(scope="module")
def robot():
    """A floating robot with a constraint to the world, a loop, and rows that come with each call."""
    return ds.mechanisms.star(3, 2), [ds.Point("branch1_2"), ds.Point("branch2_2", "branch3_1"), ds.Rows("hub", 1)]


QUANTITIES, OPTIONS = quantities.QUANTITIES, quantities.options.OPTIONS
SEVERAL = [name for name, quantity in QUANTITIES.items() if len(quantity.outputs) > 1]


@pytest.mark.slow
@pytest.mark.parametrize("name", SEVERAL)
def test_only_the_outputs_that_are_asked_for(name):
    tree, tip = ds.mechanisms.chain(3), ds.Rows("link3", [[0, 1, 0, 0, 0, 1]])
    quantity, rng = QUANTITIES[name], np.random.default_rng(1)
    tip = ds.Contact("link3", ds.contact.Sphere(0.1)) if name.startswith("contact_step") else tip
    every = [f"{o.name}dt" if o.each else o.name for o in quantity.outputs]
    names = [o.name for o in quantity.outputs if not o.each][:-3:-1]
    gyro = [ds.Sensor("gyro", "gyro", "link3")]

    def measured(outputs):
        return {"sensors": gyro} if "sensors" in outputs else {}

    some, one = (ds.compile(tree, tip, name, outputs=x, **measured(x)) for x in (names, names[0]))
    values = {a.name: rng.normal(size=(5, *a.shape)) for a in some.arguments}
    if "dt" in values:  # contact steps flag negative ones, smooth motion takes many steps in long ones
        values["dt"] = 0.01 * np.abs(values["dt"])
    whole = quantity.only(every) if any(o.on_request for o in quantity.outputs) else quantity
    direct = bind(tree, tip, whole, {n: values[n] for n in quantity.inputs}, **measured(every)).run()
    assert [r.name for r in some.results] == names and list(direct) == every
    for found, wanted in zip((*some(**values), one(**values)), (*names, names[0]), strict=True):
        assert error(found, direct[wanted]) < 1e3 * AGREEMENT
    counts = [operations(tree, tip, name, x, **measured(x)) for x in (every, names, every[0], every[-1])]
    assert max(counts) == counts[0] and counts[1] == some.operations.total
    # one loop carries smooth motion, all but a few operations; joint forces that are controls need none
    left_out = counts[0] - min(counts)
    assert counts[0] == 0 or (left_out < 10 if name.startswith("smooth_motion") else left_out > 0)
    again = pickle.loads(pickle.dumps(one))
    assert np.array_equal(again(**values), one(**values)) and again.operations == one.operations
    restricted = bind(tree, tip, quantity.only(names), {n: values[n] for n in quantity.inputs}, **measured(names)).run()
    assert list(restricted) == names and np.array_equal(restricted[names[0]], direct[names[0]])


def operations(tree, constraints, name, outputs, **options):
    return traced(tree, constraints, name, outputs=outputs, **options).count().total


@pytest.mark.slow
def test_derivatives_that_are_asked_for_are_judged():
    """Dependent rows are found whatever is asked for, and what is left out costs nothing."""
    tree, weld = ds.mechanisms.chain(3), ds.Weld("link3")
    kernel = ds.compile(tree, weld, "dynamics_derivatives", outputs=("dqdd_dq", "dqdd_dv"))
    states = tree.random(0, 4), np.ones(3), np.ones(3)
    *found, status = kernel(*states, return_status=True)
    direct = ds.dynamics_derivatives(tree, *states, weld)
    assert np.all(status == ds.DynamicsStatus.CONFLICTING)
    assert np.allclose(found, [direct.dqdd_dq, direct.dqdd_dv])
    tree, tip = ds.mechanisms.chain(4), ds.Point("link4")
    states = tree.random(0, 4), np.ones(4), np.ones(4)
    counts = [operations(tree, tip, "dynamics_derivatives", x) for x in (None, "qdd", "df_dtau")]
    assert counts[0] > 5 * counts[1] > 5 * counts[2]
    _, error_of = ds.compile(tree, tip, "dynamics_derivatives", outputs=["df_dq"])(*states, return_error=True)
    assert np.all(error_of > 0)
    assert operations(tree, tip, "operational_space_compliance", "poses") < 40 * tree.n_links


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*(above the bound|INACCURATE)")  # nothing moves the row of a point
@pytest.mark.parametrize("mass", [False, True])
def test_robots_without_joints(tmp_path, mass):
    """Every quantity of a robot that does not move, and its cotangents: finite and of their shapes, or refused."""
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>' if mass else ""
    (tmp_path / "block.urdf").write_text(f'<robot name="r"><link name="block">{inertial}</link></robot>')
    tree = ds.load(tmp_path / "block.urdf")
    refused = set()
    for name, constraints in product(QUANTITIES, ((), ds.Point("block")) if mass else ((),)):
        if name == "osim" and constraints:
            continue  # what nothing moves has no finite inertia
        try:
            kernels = [ds.compile(tree, constraints, name)]
        except ds.errors.DelassusError as error:
            refused.add(str(error).split(":")[0])
            continue
        if constraints or not mass:
            with suppress(ds.errors.ConfigurationError):  # of derivatives there are none
                kernels.append(kernels[0].derivative("vjp"))
        for kernel, batch in product(kernels, ((), (0,), (3,))):
            found = kernel(**{a.name: np.full((*batch, *a.shape), 1e-3) for a in kernel.arguments})
            for x, result in zip(found if isinstance(found, tuple) else [found], kernel.results, strict=True):
                assert x.shape == (*batch, *result.shape), name
                assert np.isfinite(x).all(), name
    assert refused == {"tree", "sensors"}


@pytest.mark.slow
def test_outputs_that_are_none(robot):
    tree, constraints = robot
    for wrong in ("qd", ["qdd", "dqdd"], [3]):
        with pytest.raises(ds.errors.UnknownNameError, match="outputs of 'dynamics'"):
            ds.compile(tree, constraints, "dynamics", outputs=wrong)
    for wrong in ((), ("qdd", "qdd"), 3):
        with pytest.raises(ds.errors.ConfigurationError, match="outputs"):
            ds.compile(tree, constraints, "dynamics", outputs=wrong)
    step = ds.compile(tree, constraints, "step", outputs="v_next")
    with pytest.raises(ds.errors.ConfigurationError, match="all outputs"):
        ds.rollout(step, tree.neutral(), np.zeros(tree.nv), np.zeros((2, tree.nv)), 1e-3)
    accelerations = ds.compile(tree, constraints, "dynamics", outputs="qdd")
    with pytest.raises(ds.errors.ConfigurationError, match="all outputs"):
        accelerations.solve(tree.neutral(), np.zeros(tree.nv), np.zeros(tree.nv), K2=np.ones((1, 6)))


@pytest.mark.parametrize("name", QUANTITIES)
def test_declarations_are_documented(name):
    quantity = QUANTITIES[name]
    assert (f"\n``{name}``" in inspect.getdoc(ds.compile)) != quantity.is_private
    assert set(quantity.options) <= set(OPTIONS)
    assert quantity.meaning and not (quantity.states == 2 and not quantity.has_status)


def test_text_for_type_checkers_is_that_of_the_registries():
    """Names and choices as literals; who declares a quantity, a method or a choice adds it."""
    osim, dynamics = (getattr(quantities.declarations, x).METHODS for x in ("osim", "dynamics"))
    inverse = QUANTITIES["inverse_dynamics"].by_option["motors"].methods
    registries = {
        "What": quantities.public_names(),
        "OsimMethod": [*osim],
        "DynamicsMethod": [*dynamics, "auto"],
        "InverseDynamicsMethod": [*inverse, "auto"],
        "Method": [*osim, *dynamics, *inverse],
        **{name.capitalize(): option.choices for name, option in OPTIONS.items() if option.choices},
    }
    for name, names in registries.items():
        wanted = f"{name} = Literal[{', '.join(map(json.dumps, names))}]"
        assert sorted(get_args(getattr(quantities.keywords, name))) == sorted(names), f"paste where it stands: {wanted}"
    typed = get_type_hints(quantities.keywords.Keywords)
    assert set(typed) == set(OPTIONS)
    for name, option in OPTIONS.items():
        takes_input = option.argument and not option.is_flag and name != "wrenches"
        assert ("'input'" in str(typed[name])) == bool(takes_input), name
    assert get_args(quantities.keywords.OsimMethod) == ds.OSIM_METHODS
    assert get_args(quantities.keywords.DynamicsMethod) == (*ds.DYNAMICS_METHODS, "auto")


def test_direct_functions_compile_by_their_names():
    """All but the one that makes an operator; each result is that of the function."""
    functions = {name: f for name in ds.__all__ if inspect.isfunction(f := getattr(ds, name))}
    named = [name for name, f in functions.items() if "q" in inspect.signature(f).parameters]
    assert len(named) > 25 and {*named} - {*quantities.public_names()} == {"delassus_operator"}
    m = some_mechanism(5, 4, "fixed")
    q, rng = m.tree.random(0), np.random.default_rng(0)
    v, tau = rng.normal(size=(2, m.tree.nv))
    found = ds.compile(m.tree, (), "forward_dynamics")(q, v, tau).qdd
    assert error(found, ds.forward_dynamics(m.tree, q, v, tau, ()).qdd) < AGREEMENT
    assert error(ds.compile(m.tree, (), "forward_kinematics")(q), ds.forward_kinematics(m.tree, q)) < AGREEMENT
    assert ds.compile(m.tree, (), "kinetic_energy")(q, v) == pytest.approx(ds.kinetic_energy(m.tree, q, v))
    assert ds.compile(m.tree, (), "potential_energy")(q) == pytest.approx(ds.potential_energy(m.tree, q))
    derivatives = ds.compile(m.tree, (), "inverse_dynamics_derivatives")(q, v, tau)
    for x, y in zip(derivatives, ds.inverse_dynamics_derivatives(m.tree, q, v, tau), strict=True):
        assert error(x, y) < AGREEMENT


@pytest.mark.parametrize(
    ("wrong", "offered"),
    [("forward_dynamic", "forward_dynamics"), ("dynamic", "dynamics"), ("smoth_motion", None), (None, None)],
)
def test_the_nearest_public_name_is_offered(wrong, offered):
    """Of quantities and direct functions; none of those that only simulators need."""
    with pytest.raises(ds.errors.UnknownNameError, match="what to compile") as caught:
        ds.compile(ds.mechanisms.chain(2), (), wrong)
    message = str(caught.value)
    assert (f"Did you mean {offered!r}" in message) == (offered is not None), message
    assert not any(f"'{name}'" in message for name, q in QUANTITIES.items() if q.is_private)


def test_requests_are_resolved_once(robot):
    tree, constraints = robot
    asked = requested(tree, constraints, "dynamics", compliance=[None, 1e-3, None], baumgarte=2.0, targets=True)
    assert asked.method == asked.plan.method == "pv-early" and asked.options.soft == [False, True, False]
    names = [a.name for a in asked.arguments]
    assert names == ["q", "v", "tau", "K2", "target0", "target1", "target2"]
    again = pickle.loads(pickle.dumps(asked))
    assert again.describe() == asked.describe() and again.quantity == asked.quantity
    with pytest.raises(ds.DelassusError, match="Did you mean 'damping'"):
        requested(tree, constraints, "dynamics", dampin=None)


def test_packed_of_what_is_not_symmetric():
    tree, tip = ds.mechanisms.chain(3), ds.Point("link3")
    for what in ("jacobian", "dynamics"):
        with pytest.raises(ds.DelassusError, match=f"packed: .*'{what}'"):
            ds.compile(tree, tip, what, packed=True)
    with pytest.raises(ds.DelassusError, match="packed: expected True or False"):
        ds.compile(tree, tip, packed="half")
    assert ds.compile(tree, [], packed=True)(tree.random(0, 2)).shape == (2, 0)


# -- to add a thing ---------------------------------------------------------------------------------------------------


def test_a_declaration_is_all_that_a_quantity_takes(robot):
    """Power of joint forces: its values, a kernel, and its derivative with the velocity."""
    tree, _ = robot

    def power(case):
        tau, v = case.entries("tau"), case.entries("v")
        return [case.ops.matrix([[sum(a * b for a, b in zip(tau, v, strict=True))]])]

    like = QUANTITIES["mass_matrix"]
    output = replace(like.outputs[0], name="p", shape=(), meaning="power in W", symmetric=False)
    toy = replace(like, name="power", inputs=("v", "tau"), outputs=(output,), run=power)
    asked = replace(requested(tree, (), "mass_matrix"), quantity=toy)
    rng = np.random.default_rng(0)
    v, tau = rng.normal(size=(2, 5, tree.nv))
    kernel = ds.Kernel(asked, "float64", 1)
    assert np.allclose(kernel(v, tau), np.sum(v * tau, axis=-1), rtol=1e-13)
    assert np.allclose(kernel.derivative("jacobian")(v, tau)[0], tau, rtol=1e-13)


def test_a_toy_algorithm_needs_its_text_and_its_row(monkeypatch):
    """One that the table names runs at once and compiled; it is refused without."""
    tree, constraints = ds.mechanisms.star(2, 2), (ds.Weld("branch1_2"), ds.Point("branch2_2", "branch1_1"))

    def toy(problem):
        """``G`` by its columns: accelerations that unit forces cause, from the definition."""
        ops, m, G = problem.ops, problem.n_rows, table["dense"](problem)
        return ops.transpose(ops.vstack([ops.transpose(G @ ops.take(ops.eye(m), None, (k,))) for k in range(m)]))

    like, q = QUANTITIES["delassus"], tree.random(3, batch=4)
    table = like.run.__globals__["METHODS"]
    with pytest.raises(ds.DelassusError, match="toy"):
        bind(tree, constraints, like, {"q": q}, "toy")
    monkeypatch.setitem(table, "toy", toy)
    named = replace(like, methods=(*like.methods, "toy"))
    bound, expected = bind(tree, constraints, named, {"q": q}, "toy"), ds.delassus(tree, constraints, q)
    assert error(bound.run()["G"], expected) < AGREEMENT
    assert error(ds.Kernel(bound.request, "float64", 1)(q), expected) < AGREEMENT


def unlisted(room):
    """Files of algorithms that the room's table neither imports nor names."""
    table = (room / "__init__.py").read_text()
    names = (path.stem for path in sorted(room.glob("*.py")) if path.stem != "__init__")
    return [f"{name}.py" for name in names if f".{name} import" not in table and f"`{name}`" not in table]


def test_every_algorithm_is_listed(tmp_path):
    """A file that was forgotten in the table is named."""
    assert unlisted(Path(ds.__file__).parent / "algorithms" / "osim") == []
    for name in ("__init__", "forgotten"):
        (tmp_path / f"{name}.py").write_text("")
    assert unlisted(tmp_path) == ["forgotten.py"]


@pytest.mark.parametrize("page", ["methods.md", "algorithms.md"])
def test_pages_name_every_algorithm(page):
    text = (Path(__file__).parent.parent / "docs" / page).read_text()
    assert [f"docs/{page}: {name}" for name in ds.OSIM_METHODS if f"`{name}`" not in text] == []
