"""Derivatives of programs: against differences, formulas for the derivatives of dynamics, and one another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
from delassus.compiler.passes.differentiate import DifferentiableTraceOps, cotangents, tangents
from delassus.spatial.trace.nodes import Expression
from internals import TraceOps, make_program
from tools import error, evaluated, outputs_of, requested

pytestmark = pytest.mark.usefixtures("one_lane")

DIFFERENCES = 1e-6
"""Central differences with a step of 1e-6: round-off over the step, with what division makes of it."""

OPERATIONS = {
    "x + y": lambda ops, x, y: (x + y, 1, 1),
    "x − y": lambda ops, x, y: (x - y, 1, -1),
    "x y": lambda ops, x, y: (x * y, y, x),
    "x / y": lambda ops, x, y: (x / y, 1 / y, -x / (y * y)),
    "−x": lambda ops, x, y: (-x, -1, 0),
    "x²": lambda ops, x, y: (x * x, 2 * x, 0),
    "√x": lambda ops, x, y: (ops.sqrt(x), 0.5 / ops.sqrt(x), 0),
    "sin x": lambda ops, x, y: (ops.sin(x), ops.cos(x), 0),
    "cos y": lambda ops, x, y: (ops.cos(y), 0, -ops.sin(y)),
    "copysign": lambda ops, x, y: (ops.copysign(x, -y), ops.copysign(1.0, x * -y), 0),
    "min": lambda ops, x, y: (ops.minimum(x, y), ops.less(x, y), ops.less(y, x)),
    "max": lambda ops, x, y: (ops.maximum(x, y), ops.less(y, x), ops.less(x, y)),
    "less": lambda ops, x, y: (ops.less(x, y), 0, 0),
    "select": lambda ops, x, y: (ops.select(ops.less(x, y), x * y, x / x), y * ops.less(x, y), x * ops.less(x, y)),
}


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("at", [(0.3, 2.0), (5.0, 0.7)])
def test_every_operation(name, at):
    ops = TraceOps()
    x, y, dx, dy = ops.vector(4, [*at, 1.0, 1.0])
    made, by_x, by_y = OPERATIONS[name](ops, x, y)
    (change,) = tangents(ops, [x.node, y.node], [made.node], [dx.node, dy.node])
    pair = cotangents(ops, [x.node, y.node], [made.node], [dx.node])
    found = evaluated(ops, [Expression(ops, k) for k in (change, *pair)] + [ops.matrix([[by_x, by_y]])], *at, 3.0, 4.0)
    change, back_x, back_y, known = (np.squeeze(a) for a in found)
    assert np.allclose(change, 3.0 * known[0] + 4.0 * known[1], rtol=1e-15)
    assert np.allclose([back_x, back_y], 3.0 * known, rtol=1e-15)


def test_solutions_of_which_some_are_needed():
    """``p₀² = x``, ``p₁ = x p₀``: derivatives of the second alone."""
    ops = DifferentiableTraceOps()
    x, dx = ops.vector(2, [4.0, 1.0])
    root = ops.sqrt(x)
    found = ops.implicit([root, x * root], lambda p: [p[0] - (p[0] * p[0] - x), x * p[0]], [[1.0, 0.0], [0.0, 1.0]])
    (change,) = tangents(ops, [x.node], [found[1].node], [dx.node])
    (back,) = cotangents(ops, [x.node], [found[1].node], [dx.node])
    known = evaluated(ops, [Expression(ops, k) for k in (change, back)], 4.0, 1.0)
    assert np.allclose(np.ravel(known), 1.5 * 4.0**0.5, rtol=1e-6)


END = [ds.Weld("link2")]
QUANTITIES = {
    "delassus": {},
    "osim": {},
    "mass_matrix": {"payloads": ["link2"]},
    "dynamics": {},
    "step": {"constraints": ()},
    "kinematics": {"frames": ["link2"], "constraints": ()},
    "energies": {"constraints": ()},
}


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("what", QUANTITIES)
def test_tangents_are_differences_and_cotangents_their_transpose(what):
    tree, h, rng = ds.mechanisms.chain(2, root="floating"), 1e-6, np.random.default_rng(0)
    kernel = ds.compile(tree, what=what, **{"constraints": END, **QUANTITIES[what]})
    x = [tree.random(rng, batch=9) if a.name == "q" else rng.normal(size=(9, *a.shape)) for a in kernel.arguments]
    dx = [rng.normal(size=a.shape) for a in x]

    def run(made, *arrays):
        found = made(*arrays)
        return found if isinstance(found, tuple) else (found,)

    y = [run(kernel, *(a + s * h * da for a, da in zip(x, dx, strict=True))) for s in (1, -1)]
    dy = run(kernel.derivative("jvp"), *x, *dx)
    for found, after, before in zip(dy, *y, strict=True):
        assert error(found, (after - before) / (2 * h)) < DIFFERENCES
    y_bar = [rng.normal(size=a.shape) for a in dy]
    x_bar = run(kernel.derivative("vjp"), *x, *y_bar)
    one, other = (sum(np.sum(a * b) for a, b in zip(*pair, strict=True)) for pair in ((y_bar, dy), (x_bar, dx)))
    assert one == pytest.approx(other, rel=1e-9)
    for found, known in zip(moved(kernel.request, x, dx), dy, strict=True):
        assert error(found, known) < 1e-9


def moved(asked, x, dx):
    """Tangents of the results, by the interpreted Jacobian."""
    program = make_program(asked.differentiated("jacobian"), with_rcond=False)
    batch = x[0].shape[:1]
    inputs = np.concatenate([np.reshape(a, (*batch, -1)) for a in x], axis=-1)
    flat = outputs_of(program, inputs)
    blocks = iter(np.reshape(flat[:, result.entries], (*batch, *result.shape)) for result in program.results)
    for result in asked.outputs:
        change = 0.0
        for a in dx:
            block = next(blocks)
            change = change + np.einsum("nij,nj->ni", block.reshape(*batch, -1, a[0].size), a.reshape(*batch, -1))
        yield change.reshape(*batch, *asked.shape_of(result))


HELD = ds.Point(ds.Frame("link4", (0.1, 0.2, 0.3)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("dynamics", {"outputs": ("forces",), "wrenches": ["link4"], "active": True, "baumgarte": 10.0}),
        ("dynamics", {"compliance": 1e-2}),
        ("dynamics", {"method": "proximal"}),
        ("step", {"control": "pd"}),
        ("step", {"constraints": (), "integrator": "rk4"}),
    ],
)
def test_formulas_of_jacobians_are_derivatives_of_the_program(what, options):
    """Columns that formulas do not have, and iterations, are differentiated; formulas are of soft constraints, too."""
    asked = requested(ds.mechanisms.chain(4), options.pop("constraints", HELD), what, **options)
    rng = np.random.default_rng(0)
    x = [np.ones((5, 1)) if a.name == "active" else rng.uniform(0.2, 1.0, (5, *a.shape)) for a in asked.arguments]
    dx = [rng.normal(size=a.shape) for a in x]
    without = replace(asked, quantity=replace(asked.quantity, jacobian=None))
    for found, known in zip(moved(asked, x, dx), moved(without, x, dx), strict=True):
        assert error(found, known) < 1e-8


@pytest.mark.slow
def test_derivatives_of_dynamics_are_those_of_their_formulas():
    tree, hand = ds.mechanisms.chain(7), ds.Point("link7")
    kernel, rng = ds.compile(tree, hand, "dynamics"), np.random.default_rng(1)
    q, v, tau = tree.random(rng, batch=20), rng.normal(size=(20, 7)), rng.normal(size=(20, 7))
    known = ds.dynamics_derivatives(tree, q, v, tau, constraints=hand)
    blocks = [(known.dqdd_dq, known.df_dq), (known.dqdd_dv, known.df_dv), (known.dqdd_dtau, known.df_dtau)]
    for block, made in enumerate(blocks):
        dx = np.zeros((3, 7, 7))
        dx[block] = np.eye(7)
        found = kernel.derivative("jvp")(*(x[:, None] for x in (q, v, tau)), *dx)
        for columns, matrix in zip(found, made, strict=True):
            assert error(np.swapaxes(columns, -1, -2), matrix) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "root", "options"),
    [("dynamics", "floating", {}), ("step", "fixed", {"compliance": 1e-2, "damping": "input"})],
)
def test_derivatives_by_some_arguments(what, root, options):
    """Hessian products are symmetric, and differences of cotangents; Jacobians are parts of the whole."""
    tree, by, h = ds.mechanisms.chain(3 if root == "fixed" else 1, root=root), ("q", "v", "tau"), 1e-6
    asked = requested(tree, ds.Point(ds.Frame(tree.link_names[-1], (0.1, 0.2, 0.3))), what, **options)
    rng, sizes = np.random.default_rng(0), [a.size for a in asked.arguments]
    x = np.concatenate([tree.random(rng, batch=4), rng.uniform(0.1, 1.0, (4, sum(sizes[1:])))], axis=1)
    bars = rng.normal(size=(4, sum(np.prod(asked.shape_of(o), dtype=int) for o in asked.outputs)))
    along, others = rng.normal(size=(2, 4, sum(sizes[:3])))

    def run(modes, *inputs):
        program = make_program(asked.differentiated(*modes, by=by), with_rcond=False)
        flat = outputs_of(program, np.concatenate(inputs, axis=1))
        return np.concatenate([flat[:, list(result.entries)] for result in program.results], axis=1)

    products = [run(("vjp", "jvp"), x, bars, y) for y in (along, others)]
    moves = np.concatenate([along, np.zeros((4, x.shape[1] - along.shape[1]))], axis=1).astype(np.longdouble)
    after, before = (run(("vjp",), x + s * h * moves, bars.astype(np.longdouble)) for s in (1, -1))
    assert error(products[0], (after - before) / (2 * h)) < 1e-9
    one, other = np.sum(products[0] * others, axis=1), np.sum(products[1] * along, axis=1)
    assert error(one, other) < 1e-11
    slopes = run(("jacobian",), x).reshape(4, -1)
    every = make_program(asked.differentiated("jacobian"), with_rcond=False)
    flat = outputs_of(every, x)
    kept = [r for r in every.results if r.name.rpartition("_d")[2] in by]
    assert error(slopes, np.concatenate([flat[:, list(r.entries)] for r in kept], axis=1)) < 1e-12


def test_derivatives_that_do_not_exist_are_refused():
    kernel = ds.compile(ds.mechanisms.chain(2), (), "energies")
    for by in ("qdd", ["q", 3]):
        with pytest.raises(ds.errors.UnknownNameError, match="arguments of 'energies'"):
            kernel.derivative("jacobian", by=by)
    with pytest.raises(ds.DelassusError, match="by: expected at least one name"):
        kernel.derivative("jacobian", by=())
    with pytest.raises(ds.DelassusError, match="vjp"):
        kernel.derivative("hessian")
    ball = ds.mechanisms.free_body(1.0, np.eye(3), name="ball")
    step = ds.compile(ball, ds.Contact("ball", ds.contact.Sphere(0.1)), "contact_step")
    for modes in (("vjp", "jvp"), ("jvp", "jacobian")):
        with pytest.raises(ds.DelassusError, match="the first, of steps with contacts"):
            _ = step.derivative(*modes).operations
    with pytest.raises(ds.DelassusError, match="the first, of steps with contacts"):
        _ = ds.compile(ball, (), "contact_step_derivatives").derivative("vjp").operations
    twice = kernel.derivative("vjp", "jvp")
    assert twice is kernel.derivative("vjp", "jvp") and "tangents of cotangents of energies" in repr(twice)


@pytest.mark.filterwarnings("ignore::delassus.errors.DelassusWarning")  # of rows that depend on one another
def test_cotangents_of_rollouts_where_rows_are_dependent():
    """From such steps on back to the start, as calls of the kernel have them; constraints that act at some steps."""
    arm, rng, steps = ds.mechanisms.chain(3), np.random.default_rng(0), 6
    step = ds.compile(arm, ds.Point("link3"), "step", active=True)
    back, q, tau = step.derivative("vjp"), arm.random(0, batch=3), rng.normal(size=(steps, 3, 3))
    q[1], held = 0.0, np.tile([[1.0], [0.0]], (3, 1))
    how = {"dt": 1e-2, "active": held, "per_step": ["active"], "time_axis": 0}
    qs, vs = ds.rollout(step, q, np.zeros(3), tau, **how)
    of_q, of_v = (rng.normal(size=x[1:].shape) for x in (qs, vs))
    found = ds.rollout(back, qs, vs, tau, q_next_bar=of_q, v_next_bar=of_v, **how)
    state, of_tau, of_dt, of_active = [np.zeros((3, 3))] * 2, np.zeros(tau.shape), np.zeros(3), np.zeros((steps, 3, 1))
    for t in reversed(range(steps)):
        made = back(qs[t], vs[t], tau[t], 1e-2, held[t], of_q[t] + state[0], of_v[t] + state[1])
        state, of_tau[t], of_dt, of_active[t] = made[:2], made[2], of_dt + made[3], made[4]
    for x, y in zip(found, [*state, of_tau, of_dt, of_active], strict=True):
        assert error(x, y) < 1e-12
    q, v, of_q, of_v, tau = (x[:, 1] for x in (qs, vs, of_q, of_v, tau))  # a single trajectory, such a one
    alone = ds.rollout(back, q, v, tau, q_next_bar=of_q, v_next_bar=of_v, **how)
    for x, y, time in zip(alone, found, (0, 0, 1, 0, 1), strict=True):
        assert error(x, y[:, 1] if time else y[1]) < 1e-12
    with pytest.raises(ds.DelassusError, match=r"return_status: expected False .* Contact steps have a status"):
        ds.rollout(back, qs, vs, tau, return_status=True, **how)
