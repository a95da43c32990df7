"""CasADi: functions of its symbols, C code for `casadi.external`, their Jacobians, and problems that IPOPT solves."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

import delassus as ds
from internals import casadi_function
from programs import ROBOTS, delassus_program, draw, plain_program, reference, table_of_operations
from tools import AGREEMENT, ROUND_OFF, error

GCC = shutil.which("gcc")
STRICT = ("-std=c99", "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wmissing-prototypes")


def test_casadi_operations():
    """On ordinary values and zeros: CasADi may lose the sign of a zero and the NaN of what it simplifies."""
    kinds, graph, _ = table_of_operations()
    program = plain_program(graph, 3)
    function = casadi_function(program)
    ordinary = [0.0, 1.0, -1.0, 0.75, -3.5]
    x = np.array(np.meshgrid(ordinary, ordinary, ordinary)).reshape(3, -1).T
    (expected,) = reference(program, x)
    found = np.array(function(x.T)).T
    for column, kind in enumerate(kinds):
        assert np.allclose(found[:, column], expected[:, column], rtol=1e-15, atol=0, equal_nan=True), kind


@pytest.mark.turns(2)
@pytest.mark.slow
@pytest.mark.parametrize("robot", ROBOTS)
def test_casadi_kernels(robot):
    tree, constraints = ROBOTS[robot]
    program = delassus_program("kernel", tree, constraints, "pv-osimr")
    function = casadi_function(program)
    assert function.name_in() == [a.name for a in program.arguments]
    assert function.name_out() == [r.name for r in program.results]
    assert [function.size_in(i) for i in range(len(program.arguments))] == [
        (*a.shape, 1)[:2] for a in program.arguments
    ]
    arguments = draw(program, tree, np.random.default_rng(0), ())
    assert error(np.array(function(*arguments)), reference(program, *arguments)[0]) < ROUND_OFF


@pytest.mark.parametrize("robot", ["müller_1", "my robot (v2)", "3R", "机器人", "", "_", "jac", "a__b_", "r" * 300])
def test_names_of_robots_are_names_in_every_target(robot, tmp_path):
    """One name for C and CasADi, which refuses two underscores in a row and what is not ASCII."""
    arm = replace(ds.mechanisms.chain(2), name=robot)
    kernel = ds.compile(arm, ds.Point("link2"), "jacobian")
    name, q = kernel.program().name, arm.random(0)
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", name)
    assert kernel.casadi().name() == kernel.casadi(jacobian=True).name() == name
    assert error(np.array(kernel.casadi()(q)), kernel(q)) < ROUND_OFF
    assert [path.stem for path in kernel.export_c(tmp_path)] == [name] * 2


def test_casadi_derivatives():
    tree = ds.mechanisms.chain(4)
    program = delassus_program("arm", tree, [ds.Point("link4")], "pv-osimr")
    function = casadi_function(program)
    q = ca.SX.sym("q", tree.nq)
    gradient = ca.Function("gradient", [q], [ca.gradient(ca.trace(function(q)), q)])
    at, h = tree.random(0), 1e-6
    steps = [np.trace(reference(program, at + h * e)[0] - reference(program, at - h * e)[0]) for e in np.eye(4)]
    assert error(np.array(gradient(at)).ravel(), np.array(steps) / (2 * h)) < 1e-7


@pytest.mark.skipif(not ca.has_nlpsol("ipopt"), reason="this CasADi has no IPOPT")
def test_inverse_kinematics_with_ipopt():
    """The posture, within joint limits, in which the tip of an arm feels heaviest."""
    tree = ds.mechanisms.chain(4)
    program = delassus_program("arm", tree, [ds.Point("link4", axes="world")], "pv-osimr")
    G = casadi_function(program)
    q = ca.SX.sym("q", tree.nq)
    problem = {"x": q, "f": ca.trace(G(q))}
    options = {"ipopt.print_level": 0, "print_time": False, "ipopt.sb": "yes", "ipopt.tol": 1e-10}
    solver = ca.nlpsol("posture", "ipopt", problem, options)
    start, bound = np.array([0.3, -0.2, 0.4, 0.1]), 1.2
    solution = solver(x0=start, lbx=-bound, ubx=bound)
    assert solver.stats()["success"]
    best = np.array(solution["x"]).ravel()
    value = float(solution["f"])

    def direct(x):
        return float(np.trace(ds.delassus(tree, [ds.Point("link4", axes="world")], x)))

    assert abs(direct(best) - value) < 1e-9 * value and value < direct(start)
    inside = np.random.default_rng(0).normal(0, 1e-3, (50, 4)) + best
    assert min(map(direct, np.clip(inside, -bound, bound))) >= value * (1 - 1e-7)  # a local minimum within the bounds


# -- Jacobians and external functions ------------------------------------------------------------------------------

ARM, FLYING = ds.mechanisms.chain(3), ds.mechanisms.chain(2, root="floating")
KERNELS = {
    "formulas": (ARM, ds.Point(ds.Frame("link3", (0.1, 0.2, 0.3))), "dynamics"),
    "quaternions": (FLYING, ds.Weld("link2"), "dynamics"),
    "matrices": (ARM, ds.Rows("link3", 2), "osim"),
    "step": (FLYING, (), "step"),
    "result named as an argument": (ds.mechanisms.chain(2), (), "control_forces"),
}


def library_of(source, *flags):
    library = source.with_suffix(".so")
    command = [GCC, "-O0", "-shared", "-fPIC", str(source), "-o", str(library), *flags, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return str(library)


def compiled(kernel, folder, order=1):
    """CasADi's function of the exported C code."""
    _, source = kernel.export_c(folder, casadi=order)
    return ca.external(f"{source.stem}_casadi", library_of(source, *STRICT))


def answers(function, arguments):
    found = function(*arguments)
    return [np.array(ca.DM(x)) for x in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.slow
@pytest.mark.skipif(GCC is None, reason="gcc is not installed")
@pytest.mark.parametrize("name", KERNELS)
def test_jacobians_are_those_that_casadi_derives(name, tmp_path):
    """Of symbols and of C; quaternions are four numbers, of any length."""
    tree, constraints, what = KERNELS[name]
    kernel, rng = ds.compile(tree, constraints, what), np.random.default_rng(0)
    state = [rng.normal(size=a.shape) for a in kernel.arguments]
    derived, external = kernel.casadi(), compiled(kernel, tmp_path)
    assert external.name_in() == derived.name_in() and external.name_out() == derived.name_out()
    for made, known in zip(answers(external, state), answers(derived, state), strict=True):
        assert error(made, known) < AGREEMENT
    state += [0] * len(kernel.results)
    known = derived.jacobian()
    for function in (external.jacobian(), kernel.casadi(jacobian=True).jacobian()):
        assert function.name_out() == known.name_out()
        for block, other in zip(answers(function, state), answers(known, state), strict=True):
            assert error(block, other) < AGREEMENT
        if name != "formulas":
            assert function.nnz_out() == known.nnz_out()


@pytest.mark.skipif(GCC is None, reason="gcc is not installed")
def test_second_derivatives_in_c(tmp_path):
    tree = ds.mechanisms.chain(2)
    kernel, rng = ds.compile(tree, ds.Rows("link2", 2), "delassus"), np.random.default_rng(0)
    rows, external, symbolic = rng.normal(size=(2, 6)), compiled(kernel, tmp_path, 2), kernel.casadi()
    for of_rows in (False, True):
        found = []
        for function, kind in ((external, ca.MX), (symbolic, ca.SX)):
            q, given = kind.sym("q", 2), kind.sym("rows", 2, 6)
            value = ca.sumsqr(function(q, given)[0, :])
            hessian = ca.Function("hessian", [q, given], [ca.hessian(value, ca.vec(given) if of_rows else q)[0]])
            found.append(np.array(ca.DM(hessian(tree.random(0), rows))))
        assert error(*found) < AGREEMENT
    assert answers(external.reverse(1).jacobian(), [tree.random(0), rows, 0, np.ones((2, 2)), 0, 0])[0].any()


@pytest.mark.skipif(GCC is None, reason="gcc is not installed")
def test_external_functions_in_expressions(tmp_path):
    """Rows that are not given are zeros, results that nobody wants are left out; gradients by way of the Jacobian."""
    tree, rows = ARM, np.random.default_rng(0).normal(size=(2, 6))
    kernel = ds.compile(tree, ds.Rows("link3", 2), "osim")
    external, q = compiled(kernel, tmp_path), ca.MX.sym("q", 3)
    gradient = ca.Function("gradient", [q], [ca.gradient(ca.trace(external(q, rows)), q)])
    symbolic, x = kernel.casadi(), ca.SX.sym("q", 3)
    known = ca.Function("known", [x], [ca.gradient(ca.trace(symbolic(x, rows)), x)])
    at = tree.random(1)
    assert error(np.array(gradient(at)), np.array(known(at))) < AGREEMENT
    second = ca.Function("second", [q], [external.jacobian()(q, rows, 0)[1]])
    assert error(np.array(ca.DM(second(at))), np.array(ca.DM(symbolic.jacobian()(at, rows, 0)[1]))) < AGREEMENT
    code = ca.CodeGenerator("generated")  # as acados has it
    code.add(gradient)
    generated = library_of(Path(code.generate(f"{tmp_path}/")), str(tmp_path / "chain3_osim.so"))
    assert error(np.array(ca.external("gradient", generated)(at)), np.array(known(at))) < AGREEMENT
    with pytest.raises(ds.DelassusError, match="float64"):
        ds.compile(tree, (), "mass_matrix", dtype="float32").export_c(tmp_path, casadi=1)
    with pytest.raises(ds.DelassusError, match="≥ 0 and ≤ 2"):
        kernel.export_c(tmp_path, casadi=3)
    with pytest.raises(ds.DelassusError, match="return_error"):
        kernel.casadi(return_error=True, jacobian=True)


@pytest.mark.skipif(not ca.has_nlpsol("ipopt"), reason="this CasADi has no IPOPT")
def test_a_throw_through_contact_with_ipopt():
    """How a ball has to start, sliding and then rolling, to be at a goal after 0.1 s; by the derivatives of steps."""
    ball = ds.mechanisms.free_body(1.0, 0.004 * np.eye(3), name="ball")
    step = ds.compile(ball, ds.Contact("ball", ds.contact.Sphere(0.1), friction=0.2), "contact_step", tolerance=1e-8)
    symbolic, start, steps, dt = step.casadi(jacobian=True), [0, 0, 0.1 - 1e-6, 0, 0, 0, 1], 20, 5e-3
    v0 = ca.MX.sym("v0", 6)
    q, v, impulses = ca.DM(start), v0, ca.DM.zeros(3)
    for _ in range(steps):
        q, v, impulses, _ = symbolic(q, v, impulses, ca.DM.zeros(6), dt)
    problem = {"x": v0, "f": 1e-2 * ca.sumsqr(v0), "g": q[:2] - ca.DM([0.08, 0.03])}
    quiet = {"ipopt.print_level": 0, "print_time": 0, "ipopt.sb": "yes"}
    solver = ca.nlpsol("solver", "ipopt", problem, {**quiet, "ipopt.hessian_approximation": "limited-memory"})
    found = solver(x0=[1.0, 0.5, 0, 0, 0, 0], lbg=0, ubg=0)
    assert solver.stats()["success"]
    qs, *_ = ds.rollout(step, np.array(start, dtype=float), np.array(found["x"]).ravel(), np.zeros((steps, 6)), dt)
    assert np.allclose(qs[-1][:2], [0.08, 0.03], atol=1e-8)
