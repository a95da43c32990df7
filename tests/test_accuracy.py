"""How accurate solutions of dynamics are: estimates beside 50-digit numbers, and what follows from them.

Small compliances, rows that hardly meet a joint, links of very different mass, gimbals without mass in loops.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import delassus as ds
from internals import DYNAMICS_ALGORITHMS, case
from tools import LongOps, exactly, requested, urdf_joint

BELOW = 10.0
"""Estimates are not to be so many times too small."""

ABOVE = 20.0
"""Nor, in the median, so many times too large."""


def exact(tree, constraints, state, **options):
    """Accelerations and forces (n, …) of a state (q, v, tau) of n states each, by the dense saddle point on 50 digits."""
    asked = requested(tree, constraints, "dynamics", method="kkt", **options)
    found = []
    with mpmath.workdps(50):
        for one in zip(*(np.asarray(x, dtype=float) for x in state), strict=True):
            values = dict(zip(("q", "v", "tau"), map(exactly, one), strict=True))
            solution = DYNAMICS_ALGORITHMS["kkt"](case.Case(asked, LongOps(), values).motion())
            found.append([x[:, 0].astype(float) for x in (solution.qdd, solution.forces)])
    return [np.stack(x) for x in zip(*found, strict=True)]


def true_error(got, expected):
    """Largest error of accelerations and of forces (n,), each by the largest entry."""
    errors = [np.abs(x - y).max(axis=-1) / np.abs(y).max(axis=-1) for x, y in zip(got, expected, strict=True) if y.size]
    return np.max(errors, axis=0)


def states(tree, n, seed=0):
    rng = np.random.default_rng(seed)
    return tree.random(rng, batch=n), rng.normal(size=(n, tree.nv)), rng.normal(size=(n, tree.nv))


def check_solution(tree, constraints, state, method, **options):
    """A direct call: what is called solved is within the bound, and no estimate is far too small."""
    found = ds.forward_dynamics(tree, *state, constraints, method=method, **options)
    forces = np.concatenate(found.forces, axis=-1) if found.forces else np.zeros((len(found.qdd), 0))
    error = true_error((found.qdd, forces), exact(tree, constraints, state, **options))
    assert np.all(error <= BELOW * found.error_estimate), (error, found.error_estimate)
    assert np.all((error <= 1e-6) | (found.status == ds.DynamicsStatus.INACCURATE))
    return error, found


TWICE = [ds.Point("link7"), ds.Point("link7", axes="world")]


@pytest.mark.parametrize("compliance", [1e-13, 1e-12, 1e-9, 1e-6, 1e-3, 10.0])
@pytest.mark.parametrize("method", ["ltl", "pv-early", "proximal", "pv-soft", "ltl-soft"])
def test_compliances_of_any_size(method, compliance):
    """Rows that depend on one another but for their compliance, and a weld that does not."""
    arm = ds.mechanisms.chain(7)
    for constraints in (TWICE, [ds.Weld("link7")]):
        check_solution(arm, constraints, states(arm, 2), method, compliance=compliance)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_compliances_that_come_with_calls(dtype):
    """What machine code calls solved is within the bound, from compliances of hard rows to very soft ones."""
    arm, bound = ds.mechanisms.chain(7), {"float64": 1e-6, "float32": 1e-2}[dtype]
    kernel = ds.compile(arm, TWICE, "dynamics", compliance="input", dtype=dtype)
    q, v, tau = (x.astype(dtype).astype(float) for x in states(arm, 3))
    for compliance in (1e-13, 1e-10, 1e-6, 1e-2, 10.0):
        R = float(np.dtype(dtype).type(compliance))
        expected = exact(arm, TWICE, (q, v, tau), compliance=R)
        qdd, forces, status, estimate = kernel(
            *(x.astype(dtype) for x in (q, v, tau, np.full(3, R), np.full(3, R))), return_status=True, return_error=True
        )
        error = true_error((qdd, forces), expected)
        assert np.all(error <= np.maximum(BELOW * estimate, np.finfo(dtype).eps)), (compliance, error, estimate)
        assert np.all((error <= bound) | (status == ds.DynamicsStatus.INACCURATE)), (compliance, error)


@pytest.mark.parametrize("method", ["ltl", "pv-early", "pv"])
def test_a_row_that_hardly_meets_its_only_joint(method):
    """A point 1e-8 m beside a hinge that carries links of 1e-6 to 1e3 kg."""
    rng = np.random.default_rng(0)
    links = [("base", 1e3), ("arm", 1e-6), ("hand", 1.0)]
    text = "".join(
        f'<link name="{name}"><inertial><origin xyz="0.1 0.02 0.3"/><mass value="{m}"/>'
        f'<inertia ixx="{m}" iyy="{m}" izz="{m}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        for name, m in links
    )
    joints = urdf_joint("a", "base", "arm", "revolute", '<axis xyz="0 0 1"/>')
    joints += urdf_joint("b", "arm", "hand", "revolute", '<origin xyz="0.3 0.1 0"/><axis xyz="0 1 0"/>')
    tree = ds.load(f'<robot name="r">{text}{joints}</robot>')
    beside = ds.Rows(ds.Frame("arm", (1e-8, 0.0, 0.0)), np.array([[0.0, 1.0, 0.0, 0.0, 0.0, 0.0]]))
    state = tree.random(rng, batch=4), rng.normal(size=(4, 2)), rng.normal(size=(4, 2))
    check_solution(tree, [beside], state, method)
