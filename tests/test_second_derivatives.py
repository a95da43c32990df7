"""Second derivatives of dynamics and steps: differences of first ones, dependent rows, kernels."""

from __future__ import annotations

import numpy as np
import pytest

import delassus as ds
from delassus.compiler.program.sent_rows import sending
from internals import batched_calls
from random_trees import KINDS, SINGLE, some_constraints, some_mechanism, with_rotors
from test_dynamics import everything, pairs, state
from test_dynamics_derivatives import PAYLOAD, SOLVED, as_regular, goals, is_regular, joint_kinds, kinds_in_turn, places
from tools import bound_program, direct, error, random_frame, results_at

STEP = 1e-3
"""Step of differences of sixth order in extended precision, in rad or m: its sixth power, and 1e-16 over it."""

DIFFERENCE = 1e-8
"""Differences of first derivatives, relative to the largest entry."""

ROUNDING = 1e-6
"""Of double precision, relative to the largest entry: 1e-16 times the square of the largest condition of rows, 1e4."""

SIZE = 1e-3
"""Of the largest entry of all second derivatives: blocks that are smaller are compared with this."""


def differences(f, size):
    """Derivatives by name (…, size), last axis, of a function of displacements (k, size) by central differences."""
    steps = STEP * np.array([1.0, -1.0, 2.0, -2.0, 3.0, -3.0])[:, None, None] * np.eye(size)
    out = {}
    for name, x in f(steps.reshape(-1, size)).items():
        near, far, farthest = (a - b for a, b in x.reshape(3, 2, size, *x.shape[1:]))
        out[name] = np.moveaxis((45 * near - 9 * far + farthest) / (60 * STEP), 0, -1)
    return out


def mean(x):
    """Mean of both orders of the last two axes."""
    return 0.5 * (x + x.swapaxes(-1, -2))


def moved(tree, states, which, d):
    """States displaced by d (k, size) of one of them, of configurations in their tangent."""
    out = {name: np.broadcast_to(x, (len(d), *np.shape(x))) for name, x in states.items()}
    out[which] = tree.integrate(out["q"], d) if which == "q" else out[which] + d
    return out


def second_differences(tree, name, states, by, constraints, options):
    """Results of a quantity, and their derivatives by each of these states."""
    program, values = bound_program(tree, name, states, constraints, **options)
    each = {name: np.asarray(x)[None] for name, x in states.items()}
    size = {which: len(states[which]) if which != "q" else tree.nv for which in by}
    sloped = [differences(lambda d, x=x: results_at(program, values, moved(tree, states, x, d)), size[x]) for x in by]
    return {name: x[0] for name, x in results_at(program, values, each).items()}, *sloped


def check(tree, q, v, tau, constraints, **options):
    """Compare with differences of first derivatives, in extended precision, and double precision with that."""
    states, expected = {"q": q, "v": v, "tau": tau}, {}
    each = {name: np.asarray(x)[None] for name, x in states.items()}
    program, values = bound_program(tree, "dynamics_hessian", states, constraints, **options)
    exact, found = results_at(program, values, each), results_at(program, values, each, float)
    first, by_q, by_v = second_differences(tree, "dynamics_derivatives", states, "qv", constraints, options)
    for what in ("qdd", "f"):
        expected[f"d2{what}_dqdq"], expected[f"d2{what}_dqdv"] = mean(by_q[f"d{what}_dq"]), by_v[f"d{what}_dq"]
        expected[f"d2{what}_dvdv"] = by_v[f"d{what}_dv"]
        expected[f"d2{what}_dqdtau"] = by_q[f"d{what}_dtau"].swapaxes(-1, -2)
    for name in ("qdd", "dqdd_dq", "dqdd_dv", "dqdd_dtau", "df_dq", "df_dv", "df_dtau"):
        assert error(found[name][0], np.float64(first[name])) < ROUNDING
    for what in ("qdd", "f"):
        parts = {name: x for name, x in expected.items() if name.startswith(f"d2{what}_")}
        largest = SIZE * max(np.abs(x).max(initial=0.0) for x in parts.values())
        for name, x in parts.items():
            scale, actual = max(np.abs(x).max(initial=0.0), largest), exact[name][0]
            assert np.abs(actual - x).max(initial=0.0) <= DIFFERENCE * scale, (name, constraints)
            assert np.abs(found[name][0] - actual).max(initial=0.0) <= ROUNDING * scale, (name, constraints)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 4, 5, 7, 9, 11])
def test_random_mechanisms(seed):
    """Every kind of joint and of constraint ends, all inputs, velocities that violate the constraints."""
    rng = np.random.default_rng(seed)
    m = some_mechanism(seed, int(rng.integers(3, 6)), ("fixed", "floating")[seed % 2])
    q, v, tau, rest = everything(m)
    made, rows = some_constraints(m)
    rest_of = iter(rows)
    kept, rows = as_regular(m, [(c, next(rest_of) if c.rows is None else None) for c in made], q)
    payloads = {str(m.rng.choice(m.names)): PAYLOAD}
    assert kept
    check(m.tree, q, v, tau, kept, rows=rows, payloads=payloads, **rest, **goals(m, kept))


@pytest.mark.slow
@pytest.mark.parametrize("kind", joint_kinds.KINDS, ids=lambda kind: kind.name)
def test_joint_kinds(kind):
    """A tree of one kind of joint and revolute ones, held at one end and closed to a loop; with armature."""
    tree, rng = kinds_in_turn(kind, 5)
    tree = with_rotors(tree, rng)
    q, v, tau = state(tree, rng)
    a, b = random_frame(rng, "l3"), random_frame(rng, "l5")
    constraints = [ds.Rows(a, rng.normal(size=(1, 6))), ds.Point(a, b)]
    assert is_regular(tree, constraints, q, {})
    check(tree, q, v, tau, constraints, damping=rng.uniform(0, 1, tree.nv))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "axes"), [("fixed", "world"), ("two branches", "local"), ("base and tip", "world")]
)  # fmt: skip
def test_every_constraint(where, axes):
    """To the world, from the world, across the base, both frames on one branch; frames turned; with stabilisation.

    Welds, points and hinges change places from one mechanism to the next; the constraints of each are in few sets.
    """
    tree, names, rng = places(where)
    q, v, tau = state(tree, rng)
    *some, rows = (c for c in pairs(tree, names, rng) if c.axes == axes)
    turn, sets = ["two branches", "base and tip", "fixed"].index(where), [[]]
    at_ends = [[some[3 * k + (j + turn) % 3] for j in range(3)] for k in range(len(some) // 3)]
    for c in (*(next(c for c in every if is_regular(tree, [c], q, {})) for every in at_ends), rows):
        if not is_regular(tree, [*sets[-1], c], q, {}):
            sets.append([])
        sets[-1].append(c)
    for x in sets:
        check(tree, q, v, tau, x, baumgarte=ds.Baumgarte(3.0, 0.7), targets=[rng.normal(size=c.size) for c in x])


def test_other_constraints():
    """Distances, gears and joint rows, with a floating root among them, the centre of mass, and poses of it."""
    tree, rng = with_rotors(ds.mechanisms.star(2, 2), np.random.default_rng(1)), np.random.default_rng(0)
    q, v, tau = state(tree, rng)
    joints = [name for name, joint in zip(tree.joint_names, tree.joints, strict=True) if joint.nv == 1]
    a, b = random_frame(rng, "branch1_2"), random_frame(rng, "branch2_2")
    stable = {"baumgarte": ds.Baumgarte(3.0, 0.7)}
    check(tree, q, v, tau, [ds.Distance(a, b), ds.JointRows({joints[0]: 1.0, joints[1]: -2.0})], **stable)
    of_root = {tree.joint_names[0]: rng.normal(size=6), joints[0]: 1.0}
    check(tree, q, v, tau, ds.JointRows([of_root, {joints[0]: 2.0, joints[1]: 1.0}]))
    check(tree, q, v, tau, ds.CenterOfMass(), poses=[rng.normal(size=3)], **stable)
    check(tree, q, v, tau, [ds.Orientation(a, b)], **stable)
    check(tree, q, v, tau, [ds.Weld(a), ds.Point(b)], compliance=[rng.uniform(0.1, 1.0, 6), None])


def sprung():
    """A floating robot with springs on a free and a ball joint, a straight rotor, and a weight that is compensated."""
    return ds.load(
        """
        <mujoco><worldbody><body name="a" pos="0 0 1"><freejoint/>
          <geom type="box" size=".1 .2 .3" pos=".1 0 0"/>
          <body name="b" gravcomp="0.7"><joint type="ball" stiffness="3" armature="0.2"/>
            <geom type="capsule" size=".05" fromto="0 0 0 .3 .1 .2"/>
            <body name="c" pos=".3 .1 .2" gravcomp="1"><joint type="slide" axis="0 1 1" stiffness="20" damping="2"/>
              <geom type="box" size=".1 .05 .1" pos=".1 .1 0"/></body></body></body></worldbody></mujoco>
        """
    )


def test_passive_forces():
    """Springs about turning axes, rotors, and weights that are compensated."""
    tree, rng = sprung(), np.random.default_rng(2)
    q, v, tau = state(tree, rng)
    check(tree, q, v, tau, ())
    check(tree, q, v, tau, ds.Point(random_frame(rng, "c"), axes="world"))


@pytest.mark.parametrize("seed", range(6))
def test_inverse_dynamics(seed):
    """Differences of its first derivatives."""
    m = some_mechanism(seed, 5, ("fixed", "floating")[seed % 2])
    q, v, qdd, rest = everything(m)
    tree, states = m.tree, {"q": q, "v": v, "qdd": qdd}
    found = ds.inverse_dynamics_hessian(tree, q, v, qdd, **rest)
    _, by_q, by_v = second_differences(tree, "inverse_dynamics_derivatives", states, "qv", (), rest)
    expected = mean(by_q["dtau_dq"]), by_v["dtau_dq"], by_v["dtau_dv"], by_q["dtau_dqdd"].swapaxes(-1, -2)
    largest = SIZE * max(np.abs(x).max() for x in expected)
    for name, actual, x in zip(found._fields, found, expected, strict=True):
        assert np.abs(actual - x).max() <= DIFFERENCE * max(np.abs(x).max(), largest), name


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_steps(seed):
    """Differences of ``A`` and ``B``: half a bracket apart, which the mean of both orders leaves out."""
    rng = np.random.default_rng(seed)
    m = some_mechanism(seed, 4, ("fixed", "floating")[seed % 2])
    q, v, tau = state(m.tree, rng)
    kept, _ = as_regular(m, [(c, None) for c in some_constraints(m)[0] if c.rows is not None], q)
    check_step(m.tree, {"q": q, "v": v, "tau": tau, "dt": np.array(0.3)}, kept)


def check_step(tree, states, constraints):
    """Compare second derivatives of a step with differences of first ones."""
    found, n = ds.step_hessian(tree, *states.values(), constraints), 2 * tree.nv
    _, *by = second_differences(tree, "step_derivatives", states, ("q", "v", "tau"), constraints, {})
    expected = mean(np.concatenate([np.concatenate([x["A"], x["B"]], axis=1) for x in by], axis=-1))
    parts = expected[:, :n, :n], expected[:, :n, n:], expected[:, n:, n:]
    for actual, x in zip((found.d2x_dxdx, found.d2x_dxdtau, found.d2x_dtaudtau), parts, strict=True):
        assert np.abs(actual - x).max() <= DIFFERENCE * np.abs(expected).max()


DRIVEN = """
    <mujoco><worldbody><body><joint type="hinge" name="a" axis="0 1 0"/><geom size=".1" pos=".3 0 0"/>
      <body name="tip" pos=".5 0 0"><joint name="b" type="hinge" axis="1 1 0"/><geom size=".1" pos=".3 0 .2"/></body>
    </body></worldbody><actuator>
      <general joint="a" gaintype="affine" gainprm="2 3 4" biastype="affine" biasprm="1 -2 -3"/>
      <position joint="b" kp="5"/></actuator></mujoco>
    """
"""An arm whose actuators have forces that are products of controls with lengths and rates."""


@pytest.mark.parametrize("control", ["tau", "actuators", "pd"])
def test_steps_along_costates(control):
    """Differences of products of ``A``, ``B``, ``C`` and ``D`` with a costate, as `ilqr` takes them."""
    tree, rng = ds.load(DRIVEN) if control == "actuators" else ds.mechanisms.star(2, 2), np.random.default_rng(0)
    point = ds.Distance(ds.Frame("tip", (0.3, 0.1, 0.2)), "world") if control == "actuators" else ds.Point("branch1_2")
    q, v, _ = state(tree, rng)
    size = {"tau": tree.nv, "actuators": tree.nu, "pd": tree.nq}[control]
    gains = {name: x * np.ones(tree.nv) for name, x in (("kp", 3.0), ("kd", 0.3)) if control == "pd"}
    states = {"q": q, "v": v, "tau": rng.normal(size=size), "dt": np.array(0.1)}
    p = rng.normal(size=2 * tree.nv + point.size)
    options = {"control": control, "baumgarte": 5.0, **gains}
    found = direct(tree, "step_curvature", {**states, "costate": p}, point, **options)["H"]
    outputs = ("A", "B", "C", "D")

    def gradient(which):
        def of(d):
            at, n = moved(tree, states, which, d), tree.nv
            kernel = ds.compile(tree, point, "step_derivatives", outputs=outputs, control=control, baumgarte=5.0)
            named = {**at, **{name: np.broadcast_to(x, (len(d), n)) for name, x in gains.items()}}
            named[kernel.request.control] = named["tau"]
            A, B, C, D = kernel(*(named[a.name] for a in kernel.arguments))
            by_x, by_u = np.concatenate([A, C], axis=1), np.concatenate([B, D], axis=1)
            return {"": np.einsum("i,kij->kj", p, np.concatenate([by_x, by_u], axis=2))}

        return differences(of, tree.nv if which != "tau" else size)[""]

    expected = mean(np.concatenate([gradient(which) for which in ("q", "v", "tau")], axis=-1))
    assert error(found, expected) < DIFFERENCE


# -- what is returned ------------------------------------------------------------------------------------------------


def test_symmetric_and_read_only():
    """Positions twice and velocities twice are symmetric; a batch is its states; a kernel gives the same."""
    tree, rng = ds.mechanisms.star(2, 2), np.random.default_rng(0)
    q, v, tau = state(tree, rng, (3,))
    feet = [ds.Point("branch1_2"), ds.Weld("branch2_2", axes="world")]
    found = ds.dynamics_hessian(tree, q, v, tau, feet)
    assert isinstance(found, ds.DynamicsHessian) and "DynamicsHessian" in repr(found)
    assert np.all(found.status == SOLVED)
    kernel = ds.compile(tree, feet, "dynamics_hessian")
    names = [r.name for r in kernel.results]
    compiled = dict(zip(names, kernel(q, v, tau), strict=True))
    some = ["d2qdd_dqdq", "d2f_dqdtau"]
    single = ds.compile(tree, feet, "dynamics_hessian", dtype="float32", outputs=some, error_bound=0.1)
    for name in names[2:]:
        x = getattr(found, name)
        assert not x.flags.writeable and error(compiled[name], x) < ROUNDING
        assert error(getattr(ds.dynamics_hessian(tree, q[1], v[1], tau[1], feet), name), x[1]) < ROUNDING
    for name in ("d2qdd_dqdq", "d2qdd_dvdv", "d2f_dqdq", "d2f_dvdv"):
        assert np.array_equal(compiled[name], compiled[name].swapaxes(2, 3)), name
    for x, name in zip(single(*(np.float32(x) for x in (q, v, tau))), some, strict=True):
        assert error(x, getattr(found, name)) < 1e-2
    step = ds.step_hessian(tree, q, v, tau, 1e-2, feet)
    of_inverse = ds.inverse_dynamics_hessian(tree, q, v, tau)
    assert step.d2x_dtaudtau.shape == (3, 2 * tree.nv, tree.nv, tree.nv) and of_inverse.d2tau_dqdqdd.shape[0] == 3
    assert error(of_inverse.d2tau_dvdv, of_inverse.d2tau_dvdv.swapaxes(2, 3)) == 0


def test_dependent_rows():
    """Accelerations are those of independent rows, forces are not known; rows that are off have none."""
    tree, rng = ds.mechanisms.star(2, 2), np.random.default_rng(0)
    q, v, tau = state(tree, rng)
    foot = ds.Weld("branch1_2")
    once, twice = ds.dynamics_hessian(tree, q, v, tau, foot), ds.dynamics_hessian(tree, q, v, tau, [foot, foot])
    assert twice.status == ds.DynamicsStatus.REDUNDANT
    for name in ("d2qdd_dqdq", "d2qdd_dqdv", "d2qdd_dvdv", "d2qdd_dqdtau"):
        assert error(getattr(twice, name), getattr(once, name)) < 1e-7
        assert np.all(np.isnan(getattr(twice, name.replace("qdd", "f", 1))))
    kernel = ds.compile(tree, [foot, foot], "dynamics_hessian", outputs=["d2qdd_dqdv", "d2f_dqdv"])
    accelerations, forces, status = kernel(q, v, tau, return_status=True)
    assert status == ds.DynamicsStatus.REDUNDANT and np.all(np.isnan(forces))
    assert error(accelerations, once.d2qdd_dqdv) < 1e-7
    point = ds.Point("branch2_2")
    off = ds.dynamics_hessian(tree, q, v, tau, [foot, point], active=[1.0, 0.0])
    assert error(off.d2qdd_dqdq, once.d2qdd_dqdq) < 1e-9 and error(off.d2f_dqdv[:6], once.d2f_dqdv) < 1e-9
    assert not off.d2f_dqdq[6:].any() and not off.d2f_dqdtau[6:].any()


def test_nothing_moves():
    """A robot without degrees of freedom has tensors without entries."""
    tree = ds.load("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
    none = np.zeros(0)
    assert ds.dynamics_hessian(tree, none, none, none).d2qdd_dqdq.shape == (0, 0, 0)
    assert ds.inverse_dynamics_hessian(tree, none, none, none).d2tau_dqdq.shape == (0, 0, 0)
    assert ds.step_hessian(tree, none, none, none, 0.1).d2x_dxdx.shape == (0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "n_links", "kinds"), [(1, 7, SINGLE), (2, 9, KINDS)], ids=["floating", "fixed"])
def test_rows_are_sent_as_they_are_made(seed, n_links, kinds):
    """Tensors of robots with many joints leave code for lanes row by row: the bits of one state, whose code waits."""
    m = some_mechanism(seed, n_links, ("fixed", "floating")[seed % 2], kinds)
    q, v, tau = state(m.tree, m.rng, (11,))
    foot = ds.Point(m.names[-1], axes="world")
    kernel = ds.compile(m.tree, foot, "dynamics_hessian")
    sent = sending(kernel.program(), 8).slices
    assert sum(len(row) for rows in sent.values() for row in rows) > m.tree.nv
    direct_call = ds.dynamics_hessian(m.tree, q, v, tau, foot)
    some = kernel(q, v, tau)
    for k in (0, 10):
        for result, x, of_one in zip(kernel.results, some, kernel(q[k], v[k], tau[k]), strict=True):
            assert np.array_equal(x[k], of_one), result.name
            if result.name.startswith("d2"):
                assert error(getattr(direct_call, result.name)[k], of_one) < ROUNDING, result.name
    h, d = 1e-5, m.rng.normal(size=m.tree.nv)
    ahead, behind = (ds.dynamics_derivatives(m.tree, q[0], v[0] + s * h * d, tau[0], foot) for s in (1.0, -1.0))
    for what in ("qdd", "f"):
        for x in "vq":
            slope = (getattr(ahead, f"d{what}_d{x}") - getattr(behind, f"d{what}_d{x}")) / (2.0 * h)
            assert error(getattr(direct_call, f"d2{what}_d{x}dv")[0] @ d, slope) < 1e-5


def test_more_numbers_than_there_is_memory_for_are_refused():
    """Memory alone bounds tensors: those of this chain are terabytes of program."""
    robot = ds.mechanisms.chain(600)
    none = np.zeros(600)
    with pytest.raises(ds.DelassusError, match=r"numbers of second derivatives, got 864,000,000, 4,000 bytes each"):
        ds.dynamics_hessian(robot, none, none, none)
    with pytest.raises(ds.DelassusError, match=r"outputs: expected at most [\d,]+ numbers"):
        ds.step_hessian(robot, none, none, none, 0.1)


def test_batches_write_every_number(machine_code, monkeypatch):
    """Slices that are sent are no whole tiles (9 numbers), and results hold nothing of before."""
    monkeypatch.setattr("delassus.compiler.program.sent_rows.LEAST", 1)
    monkeypatch.setattr(batched_calls, "MANY", 1)
    monkeypatch.setattr("delassus.compiler.targets.llvm.text.STACK", 1)  # workspaces are allocated
    tree, rng = ds.mechanisms.chain(3), np.random.default_rng(0)
    q, v, tau = state(tree, rng, (11,))
    kernel, expected = ds.compile(tree, (), "dynamics_hessian"), ds.dynamics_hessian(tree, q, v, tau)
    assert sending(kernel.program(), 8).slices
    out = tuple(np.full((11, *r.shape), np.nan) for r in kernel.results)
    for r, x in zip(kernel.results, kernel(q, v, tau, out=out), strict=True):
        assert np.abs(x - getattr(expected, r.name, x)).max(initial=0.0) < ROUNDING, r.name
