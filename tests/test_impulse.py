"""Impacts of constraints that close, alone and before time steps: dense solutions, energies, differences, flags."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import delassus as ds
from random_trees import some_constraints, some_mechanism
from tools import AGREEMENT, ELIMINATION, error

DIFFERENCE = 1e-7
"""Central differences over 1e-5."""


def dense(M, J, v, change):
    """``Δv`` and impulses by the saddle point in 40 digits."""
    n, m = len(M), len(J)
    with mpmath.workdps(40):
        K = mpmath.matrix(np.block([[M, -J.T], [J, np.zeros((m, m))]]).tolist())
        x = mpmath.lu_solve(K, mpmath.matrix([0.0] * n + change.tolist()))
        found = np.array([float(y) for y in x])
    return v + found[:n], found[n:]


@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", range(6))
def test_random_mechanisms(seed):
    """Every kind of joint and constraint; restitution of each, targets; redundant rows have the least-norm impulses."""
    m = some_mechanism(seed, 5, ("fixed", "floating")[seed % 2])
    tree, rng = m.tree, m.rng
    constraints, rows = some_constraints(m, most=2)
    q, v, e = tree.random(rng), rng.normal(size=tree.nv), rng.uniform(size=len(constraints))
    targets = [rng.normal(size=c.size) for c in constraints]
    found = ds.impulse(tree, q, v, constraints, e, targets=targets, rows=rows)
    M, J = ds.mass_matrix(tree, q), ds.jacobian(tree, constraints, q, rows=rows)
    p, rebound = np.concatenate(found.impulses), np.repeat(e, [c.size for c in constraints])
    change = np.concatenate(targets) - (1.0 + rebound) * (J @ v)
    size = np.abs(J.T) @ np.abs(p) + np.abs(M) @ np.abs(v)
    assert np.max(np.abs(M @ (found.v_next - v) - J.T @ p)) < AGREEMENT * np.max(size)
    if found.status.item() is ds.DynamicsStatus.SOLVED:
        v_next, impulses = dense(M, J, v, change)
        assert error(found.v_next, v_next) < ELIMINATION and error(p, impulses) < ELIMINATION
        late = ds.impulse(tree, q, v, constraints, e, method="pv", targets=targets, rows=rows)
        assert error(late.v_next, v_next) < AGREEMENT and error(np.concatenate(late.impulses), impulses) < AGREEMENT
    else:
        left = J.T @ np.linalg.pinv(J @ np.linalg.solve(M, J.T), rcond=1e-9)
        assert error(M @ (found.v_next - v), left @ change) < 1e-7


@pytest.fixture(scope="module")
def arms():
    """Three arms, a tip that is held and a loop; states, and flags of all modes."""
    tree, rng = ds.mechanisms.star(3, 2), np.random.default_rng(0)
    constraints = [ds.Point(ds.Frame("branch1_2", (0.1, 0.2, 0.3))), ds.Rows("branch2_2", rng.normal(size=(2, 6)))]
    q, v = tree.random(rng, batch=4), rng.normal(size=(4, tree.nv))
    return tree, constraints, q, v, np.array([[1, 1], [1, 0], [0, 1], [0, 0]], dtype=bool)


def test_energy(arms):
    """Without restitution it falls by half of p · J v; with restitution 1 of all rows it stays."""
    tree, constraints, q, v, _ = arms
    before = ds.kinetic_energy(tree, q, v)
    plastic, elastic = (ds.impulse(tree, q, v, constraints, e) for e in (0.0, 1.0))
    work = np.sum(
        np.concatenate(plastic.impulses, axis=-1) * (ds.jacobian(tree, constraints, q) @ v[..., None])[..., 0], -1
    )
    assert np.all(work < 0.0) and isinstance(plastic, ds.ImpulseDynamics) and "SOLVED at 4" in plastic.report()
    assert error(ds.kinetic_energy(tree, q, plastic.v_next) - before, 0.5 * work) < AGREEMENT
    assert error(ds.kinetic_energy(tree, q, elastic.v_next), before) < AGREEMENT
    assert np.max(np.abs(ds.jacobian(tree, constraints, q) @ plastic.v_next[..., None])) < AGREEMENT


def test_kernel_with_flags_that_are_booleans(arms):
    tree, constraints, q, v, active = arms
    kernel = ds.compile(tree, constraints, "impulse", restitution="input", active=True)
    e = np.random.default_rng(1).uniform(size=(4, 2))
    v_next, impulses, status = kernel(q, v, e, active, return_status=True)
    known = ds.impulse(tree, q, v, constraints, e, active=active)
    assert error(v_next, known.v_next) < AGREEMENT
    assert error(impulses, np.concatenate(known.impulses, axis=-1)) < AGREEMENT
    assert np.array_equal(kernel(q, v, e, active.astype(float))[0], v_next) and list(status) == list(known.status)
    for k, flags in enumerate(active):
        on = [c for c, flag in zip(constraints, flags, strict=True) if flag]
        assert error(v_next[k], ds.impulse(tree, q[k], v[k], on, e[k][flags]).v_next) < AGREEMENT
    with pytest.raises(ds.DelassusError, match="restitution"):
        kernel(q, v, e > 0.5, active)  # numbers that are no flags


@pytest.mark.turns(3)
@pytest.mark.slow
@pytest.mark.parametrize("integrator", ["semi-implicit", "rk4", "doubled rows"])
def test_steps_that_begin_with_impacts(arms, integrator):
    """A step from the velocity after the impact; constraints that are not struck keep the velocities of their rows.

    Rows that are doubled contradict one another where one of them is struck and the other is not.
    """
    tree, constraints, q, v, active = arms
    rng, dt, h = np.random.default_rng(2), 1e-2, 1e-5
    impacts = np.array([[1, 1], [1, 0], [1, 0], [0, 0]], dtype=bool)  # the third one strikes what is off
    if integrator == "doubled rows":
        constraints, integrator = [*constraints, constraints[0]], "semi-implicit"
        active, impacts = (
            np.concatenate([x, y], axis=1) for x, y in ((active, active[:, :1]), (impacts, active[:, 1:]))
        )
    tau, given = rng.normal(size=(4, tree.nv)), {"active": active, "integrator": integrator}

    def stepped(q, v, tau):
        return ds.step_derivatives(tree, q, v, tau, dt, constraints, impacts=impacts, **given)

    q_next, v_next, A, B = stepped(q, v, tau)
    J = ds.jacobian(tree, constraints, q)
    kept = np.where(np.repeat(impacts, [c.size for c in constraints], axis=-1), 0.0, (J @ v[..., None])[..., 0])
    targets = np.split(kept, np.cumsum([c.size for c in constraints])[:-1], axis=-1)
    struck = ds.impulse(tree, q, v, constraints, 0.0, targets=targets, active=active).v_next
    known = ds.step_derivatives(tree, q, struck, tau, dt, constraints, **given)
    assert error(q_next, known[0]) < AGREEMENT and error(v_next, known[1]) < AGREEMENT
    x, u = rng.normal(size=(4, 2 * tree.nv)), rng.normal(size=(4, tree.nv))
    ends = [stepped(tree.integrate(q, s * x[:, : tree.nv]), v + s * x[:, tree.nv :], tau + s * u) for s in (h, -h)]
    (q_up, v_up, *_), (q_down, v_down, *_) = ends
    slope = np.concatenate([tree.difference(q_down, q_up), v_up - v_down], axis=-1) / (2.0 * h)
    assert error((A @ x[..., None] + B @ u[..., None])[..., 0], slope) < DIFFERENCE
