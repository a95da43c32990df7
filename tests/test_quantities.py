"""Declarations of quantities: each evaluates on NumPy and compiled to what it declares; requests are resolved once."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pytest

import delassus as ds
from delassus.quantities import QUANTITIES
from delassus.quantities.evaluate import case_of
from delassus.quantities.options import Keywords
from delassus.quantities.request import request
from tools import AGREEMENT, error


@pytest.fixture(scope="module")
def robot():
    """A floating robot with a constraint to the world, a loop, and rows that come with each call."""
    return ds.mechanisms.star(3, 2), [ds.Point("branch1_2"), ds.Point("branch2_2", "branch3_1"), ds.Rows("hub", 1)]


@pytest.mark.parametrize("name", QUANTITIES)
def test_numpy_and_kernels_give_what_is_declared(robot, name):
    tree, constraints = robot
    quantity, rng = QUANTITIES[name], np.random.default_rng(1)
    kernel = ds.compile(tree, constraints, name)
    values = {a.name: rng.normal(size=(3, *a.shape)) for a in kernel.arguments}
    values["q"] = tree.random(rng, 3)
    states = {n: values[n] for n in quantity.inputs}
    direct = case_of(tree, constraints, quantity, states, rows=[values["K2"]]).run()
    compiled = kernel(**values)
    compiled = compiled if isinstance(compiled, tuple) else (compiled,)
    assert [o.name for o in quantity.outputs] == list(direct) == [r.name for r in kernel.results]
    for output, result, found in zip(quantity.outputs, kernel.results, compiled, strict=True):
        assert found.shape == direct[output.name].shape == (3, *result.shape)
        assert error(found, direct[output.name]) < 1e3 * AGREEMENT, output.name
        assert output.meaning and result.meaning == output.meaning


@pytest.mark.parametrize("name", QUANTITIES)
def test_declarations_are_documented(name):
    quantity, text = QUANTITIES[name], inspect.getdoc(ds.compile)
    rows = text[text.index("====") : text.rindex("====")].splitlines()
    cells = {r.split(" ")[0]: r for r in rows}
    row = cells.get(f"``{name}``") or next(r for c, r in cells.items() if c[-1:] == "_" and name.startswith(c[2:]))
    assert ", ".join(quantity.inputs) in row
    assert set(quantity.options) <= set(Keywords.__annotations__)
    assert quantity.meaning and not (quantity.is_step and not quantity.has_status)


def test_requests_are_resolved_once(robot):
    tree, constraints = robot
    asked = request(
        tree, constraints, QUANTITIES["dynamics"], compliance=[None, 1e-3, None], baumgarte=2.0, targets=True
    )
    assert asked.method == asked.plan.method == "proximal" and asked.options.soft == [False, True, False]
    names = [a.name for a in asked.arguments]
    assert names == ["q", "v", "tau", "K2", "target0", "target1", "target2"]
    again = pickle.loads(pickle.dumps(asked))
    assert again.describe() == asked.describe() and again.quantity == asked.quantity
    with pytest.raises(ds.DelassusError, match="Did you mean 'damping'"):
        request(tree, constraints, QUANTITIES["dynamics"], dampin=None)
