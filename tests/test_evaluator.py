"""The evaluator of programs and machine code, to the bit beside the interpreter that defines what operations mean."""

from __future__ import annotations

import contextlib
import gc
import itertools
import math
import os
import pickle
import re
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delassus as ds
from delassus.contact import Box, Collider, HalfSpace, Sphere
from delassus.errors import ConfigurationError
from internals import TraceOps, passes
from programs import HAS_FMA, Graph, Op, Runs, by_llvm, graphs, plain_program, reference, same, table_of_operations
from test_loops import CASES, program_of, random_calls, states
from tools import traced

DTYPES = ("float64", "float32")

pytestmark = [
    pytest.mark.usefixtures("machine_code"),
    pytest.mark.skipif(not HAS_FMA, reason="no fused multiply-add on this machine"),
]


def some_numbers(dtype):
    """Of states, about those at which machine code of another kind begins."""
    lanes = ds.compile(ds.mechanisms.chain(1), (), "mass_matrix", dtype=dtype).lanes
    return sorted({1, 3, lanes - 1, lanes, lanes + 1, 2 * lanes, 2 * lanes + 1, 5 * lanes, 128, 129, 300} - {0})


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_operation(dtype):
    """On special values, zeros of both signs, infinities and NaN among them."""
    _, graph, x = table_of_operations()
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    program = plain_program(graph, 3)
    run, (expected,) = Runs(program, dtype), reference(program, x)
    same(run(x)[0], expected)
    same(np.concatenate([run(x[k : k + 1])[0] for k in range(0, len(x), 97)]), expected[::97])


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(0, 2**32 - 1), st.sampled_from(DTYPES))
def test_random_graphs(graph, seed, dtype):
    rng = np.random.default_rng(seed)
    program = plain_program(graph, 8)
    x = rng.choice([0.0, -0.0, 1.0, -2.5, 0.3, 1e-3, np.inf, np.nan, 7.0], (int(rng.integers(1, 40)), 8)).astype(dtype)
    same(Runs(program, dtype)(x)[0], reference(program, x)[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("algorithm", CASES)
def test_stages_loops_and_calls(algorithm, dtype):
    """Blocks end loops by themselves: states that have stopped keep their values."""
    program, x = program_of(algorithm), states(300, np.dtype(dtype))
    run, (expected,) = Runs(program, dtype), reference(program, x)
    for n in some_numbers(dtype):
        same(run(x[:n])[0], expected[:n])


@pytest.mark.parametrize("seed", range(25))
def test_random_calls(seed):
    program, x = program_of(random_calls(seed)), states(37)
    same(Runs(program, "float64")(x)[0], reference(program, x)[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_and_batches_of_every_size(dtype):
    """Fewer numbers a state than there are lanes, as many and more; some states from the first on, others untouched."""
    ops, sizes = TraceOps(), (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
    made = [ops.number(2.0 * y + 1.0) for size in sizes for y in ops.vector(size)]
    entries = [range(end - n, end) for n, end in zip(sizes, np.cumsum(sizes), strict=True)]
    run = Runs(plain_program(ops.graph([made]), *sizes, entries=entries), dtype)
    for n, behind in itertools.product(some_numbers(dtype), (False, True)):
        given = [np.random.default_rng(n).normal(size=(n, size)).astype(dtype) for size in sizes]
        for x, y in zip(given, run(*given, behind=behind), strict=True):
            same(y, (2.0 * x + 1.0).astype(dtype))
        if n > 2:
            for x, y in zip(given, run(*given, first=1, n=n - 2), strict=True):
                same(y[1:-1], (2.0 * x[1:-1] + 1.0).astype(dtype))
                assert (y[[0, -1]] == 77).all()


def test_results_that_are_leaves():
    ops = TraceOps()
    x, y = ops.vector(40), ops.vector(5)
    made = [*map(ops.number, [*x, *[ops.number(0.0)] * 20, *y, ops.number(-0.0), x[0] * y[0], *reversed(x)])]
    program = plain_program(ops.graph([made]), 40, 5, entries=[range(len(made)), (44,) * 33])
    given = [np.random.default_rng(k).normal(size=(11, size)) for k, size in enumerate((40, 5))]
    for found, wanted in zip(Runs(program, "float64")(*given), reference(program, *given), strict=True):
        same(found, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("what", ["delassus", "dynamics", "contact_step", "inverse_dynamics"])
def test_robots(what, dtype):
    """As compiled code runs them, too: the same bits in blocks and state by state."""
    tree = ds.mechanisms.star(3, 2)
    feet = [ds.Contact(f"branch{k}_2", ds.contact.Sphere(0.05)) for k in (1, 2)]
    constraints = feet if what == "contact_step" else [ds.Weld("branch1_2"), ds.Point("branch2_2")]
    kernel = ds.compile(tree, constraints, what, dtype=dtype)
    program = traced(tree, constraints, what, dtype)
    rng, n = np.random.default_rng(0), 41
    given = [tree.random(rng, batch=n) if a.name == "q" else rng.normal(size=(n, *a.shape)) for a in kernel.arguments]
    given = [
        np.full((n, *a.shape), 1e-3) if a.name == "dt" else x for a, x in zip(kernel.arguments, given, strict=True)
    ]
    given = [x.astype(dtype) for x in given]
    run = Runs(program, dtype)
    found, wanted = run(*given), reference(program, *given)
    compiled = kernel(*given, return_status=True) if kernel.request.has_status or kernel.iterates else (kernel(*given),)
    solved = np.full(n, True)  # others are solved again
    if len(compiled) > 1:
        *compiled, status = compiled
        solved = np.array([s.name in ("SOLVED", "CONVERGED") for s in status])
    for k, (x, y) in enumerate(zip(found, wanted, strict=True)):
        same(x, y)
        same(run(*(z[5:6] for z in given))[k], x[5:6])
    for x, y in zip(found, compiled, strict=False):
        same(x[solved], np.asarray(y)[solved])


def test_long_programs_need_little_of_a_stack():
    """Where a block of states has 4 MB of values."""
    n = 30_000
    leaves, kinds = np.arange(n), np.repeat([Op.INPUT, Op.MULTIPLY], n)
    others = np.concatenate([np.full(n, -1), np.roll(leaves, 1)])
    graph = Graph(kinds, np.tile(leaves, 2), others, np.full(2 * n, -1), np.zeros(2 * n), (n + leaves,))
    run, x, found = Runs(plain_program(graph, n), "float64"), np.random.default_rng(0).normal(size=(17, n)), []
    usual = threading.stack_size(1 << 18)
    try:
        thread = threading.Thread(target=lambda: found.extend((run(x[:1])[0], run(x)[0])))
        thread.start()
    finally:
        threading.stack_size(usual)
    thread.join()
    same(np.concatenate(found), np.concatenate([x[:1], x]) * np.roll(np.concatenate([x[:1], x]), 1, axis=1))


# -- machine code ------------------------------------------------------------------------------------------------------


def of_operations():
    """All of them, at special values."""
    _, graph, x = table_of_operations()
    return plain_program(graph, 3), [x[::5]]


def of_products():
    """One that many sums take, but not rounded with them."""
    ops = TraceOps()
    x, y, *others = ops.vector(2 + 2 * passes.MOST_USES)
    product = x * y
    made = [ops.number(product + z) for z in others[::2]] + [ops.number(z - product) for z in others[1::2]]
    program = plain_program(passes.fuse(ops.graph([made])), 2 + len(others))
    assert (program.graph.count().mul, program.graph.count().fma) == (1, 0)
    return program, [np.random.default_rng(0).normal(size=(200, 2 + len(others)))]


def of_negated_sums():
    """Fused ones that are subtracted, some of which are zero."""
    ops = TraceOps()
    x, y = ops.vector(2)
    made = x * y - (x * x + x), x - (y * y + y) * x, -(y * y + x), -(x * x - y), -(y - x * x)
    graph = passes.fuse(ops.graph([[*map(ops.number, made)]]))
    assert (graph.count().fma, graph.count().neg) == (7, 3)
    return plain_program(graph, 2), [
        np.array([[-0.0, 0.3], [0.0, -0.3], [0.0, 0.0], [-0.0, 0.0], [0.0, -0.0], [-0.0, -0.0]])
    ]


def of_an_arm():
    """Its dynamics, one end held."""
    arm = ds.mechanisms.chain(2)
    rng = np.random.default_rng(0)
    return traced(arm, [ds.Point("link2")], "dynamics"), [arm.random(rng, batch=33), *rng.normal(size=(2, 33, 2))]


def of_loops():
    """Stages, loops and calls."""
    return program_of(random_calls(3)), [states(37)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [of_operations, of_products, of_negated_sums, of_an_arm, of_loops])
def test_lanes_and_levels(make, dtype):
    """Of machine code: whatever LLVM does, it rounds as programs say."""
    program, x = make()
    with np.errstate(over="ignore"):
        x = [y.astype(dtype) for y in x]
    wanted = reference(program, *x)
    for lanes, level in itertools.product((1, 4, 8, 16), (0, 3)):
        for y, right in zip(by_llvm(program, dtype, lanes, level)(*x), wanted, strict=True):
            same(y, right)


@pytest.mark.parametrize("dtype", DTYPES)
def test_fused_operations(dtype):
    """Of numbers of all sizes, denormal ones too, of those that cancel, and of those that end near half way of two."""
    ops, rng, n = TraceOps(), np.random.default_rng(0), 4000
    x, y, z = ops.vector(3)
    made = [ops.number(x * y + z), ops.number(x * y - z), ops.number(z - x * y)]
    program = plain_program(passes.fuse(ops.graph([made])), 3)
    assert program.graph.count().fma == 3
    info = np.finfo(dtype)
    exponents = rng.integers(info.minexp - info.nmant, info.maxexp, (n, 3))
    with np.errstate(all="ignore"):
        given = np.ldexp(rng.uniform(-1, 1, (n, 3)), exponents).astype(dtype)
        near = given[: n // 2, 0] * given[: n // 2, 1]
        given[: n // 2, 2] = -near * (1 + rng.integers(-2, 3, n // 2) * info.eps).astype(dtype)
    a, m = rng.integers(1, 50, (2, n // 4)) * info.eps
    given[-len(a) :] = np.stack([(1 + a) * info.eps / 2, rng.choice((-1, 1), len(a)) * (1 - a), 1 + m], axis=-1)
    wanted = reference(program, given)[0]
    assert 0.2 * n < np.isfinite(wanted[:, 0]).sum()
    same(Runs(program, dtype)(given)[0], wanted)


def test_constants_are_folded_as_machines_compute_them():
    """Sines and cosines too, which the C library rounds otherwise."""
    angles = np.random.default_rng(0).uniform(-9.0, 9.0, 300)
    ops = TraceOps()
    known = [f(a) for a in angles.tolist() for f in (ops.sin, ops.cos)]
    given = [f(x) for x in ops.vector(len(angles)) for f in (ops.sin, ops.cos)]
    program = plain_program(ops.graph([[*map(ops.number, known), *map(ops.number, given)]]), len(angles))
    (found,) = Runs(program, "float64")(angles[None])
    folded, computed = np.split(found[0], 2)
    assert (folded != np.stack([np.vectorize(math.sin)(angles), np.vectorize(math.cos)(angles)], -1).ravel()).any()
    same(folded, computed)


# -- steps -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_thousand_steps(monkeypatch):
    """Of a simulator, by the evaluator and by machine code: a box, an arm and a ladder fall, hit, slide and lie."""
    robots = {
        "box": ds.mechanisms.free_body(1.0, 0.01 * np.eye(3)),
        "arm": ds.mechanisms.chain(3, root="floating"),
        "ladder": ds.mechanisms.ladder(2),
    }
    shapes = {"box/body": Box(0.2, 0.3, 0.1), "arm/link1": Sphere(0.1), "arm/link3": Sphere(0.1), "world": HalfSpace()}
    scene = ds.Scene(robots, [Collider(link, shape, friction=0.5) for link, shape in shapes.items()])
    q, turn = scene.tree.neutral(), np.array([0.2, -0.1, 0.3, 0.9])
    q[:7], q[7:10] = [0.0, 2.0, 0.3, *turn / np.linalg.norm(turn)], [2.0, 0.0, 1.2]
    found = []
    for how in ("never", "wait"):
        monkeypatch.setenv("DELASSUS_COMPILE", how)
        sim = ds.Simulator(scene, q0=q, v0=np.full(scene.tree.nv, 0.1), dt=1e-3)
        found.append(np.array(run_of(sim, 1000)))
        assert len(sim.impulses) > 3
    same(*found)


@pytest.mark.slow
def test_a_thousand_steps_of_a_kernel(monkeypatch):
    ball = ds.mechanisms.free_body(1.0, np.diag([0.01, 0.02, 0.03]), name="ball")
    step = ds.compile(ball, ds.Contact("ball", ds.contact.Sphere(0.1), friction=0.4), "contact_step")
    start = np.tile([0.0, 0.0, 0.3, 0.0, 0.0, 0.0, 1.0], (9, 1)), np.random.default_rng(0).normal(size=(9, 6))
    found = []
    for how in ("never", "wait"):
        monkeypatch.setenv("DELASSUS_COMPILE", how)
        found.append(ds.rollout(step, *start, np.zeros((1000, 9, 6)), 1e-3, time_axis=0))
    assert (found[0][0][-1, :, 2] < 0.11).all()
    for x, y in zip(*found, strict=True):
        same(x, y)


def test_programs_that_are_garbage_together():
    """All that a copy of the machine has room for, in a circle: their places are free again, and hold others."""
    program, _ = of_negated_sums()
    for _ in range(2):
        circle = [Runs(program, "float64") for _ in range(34)]  # a copy has 32 places
        circle.append(circle)
        del circle
        gc.collect()
    test_every_operation("float64")


# -- machine code that takes over -------------------------------------------------------------------------------------


def falling(**options):
    """A pendulum of two links beside a ball, both over the ground, and the states of a run of so many steps."""
    arm, ball = ds.mechanisms.pendulum(2), ds.mechanisms.free_body(1.0, Sphere(0.1).inertia(1.0))
    shapes = [Collider("arm/rod2", Sphere(0.1), (0, 0, -0.5), restitution=0.5), Collider("ball/body", Sphere(0.1))]
    scene = ds.Scene({"arm": arm, "ball": ball}, [*shapes, Collider("world", HalfSpace(), (0, 0, -1.2))])
    start = scene.configuration(arm=[0.3, -0.2], ball=[0.5, 0, -0.8, 0, 0, 0, 1])
    return ds.Simulator(scene, q0=start, v0=np.r_[0.5, 1.0, 0.2, np.zeros(5)], dt=2e-3, **options)


def run_of(sim, steps):
    """States after each of so many steps."""
    states = []
    for _ in range(steps):
        sim.step()
        states.append(np.concatenate([sim.q, sim.v]))
    return states


def asked(monkeypatch, *functions):
    """What is asked for machine code in the background from now on by modules of these functions, in order."""
    jobs = []
    for function in functions:
        monkeypatch.setitem(function.__globals__, "maker", lambda: SimpleNamespace(ask=jobs.append))
    return jobs


@pytest.mark.slow
def test_scenes_go_the_same_way_while_machine_code_takes_over(tmp_path, monkeypatch, one_lane):
    """By the evaluator and quickly made code, by machine code, and from the one to the other in the midst of a run."""
    sim, shared = falling(), os.environ["DELASSUS_CACHE"]
    steps, kernel = sim._steps, ds.compile(ds.mechanisms.pendulum(1), (), "bias_force")
    monkeypatch.setenv("DELASSUS_COMPILE", "wait")
    wanted = run_of(falling(), 200)
    monkeypatch.setattr(steps._run.__globals__["run"], "_made", {})
    jobs = asked(monkeypatch, kernel.code.of, type(steps._steps._machine)._take)
    monkeypatch.setenv("DELASSUS_CACHE", str(tmp_path))
    monkeypatch.setenv("DELASSUS_COMPILE", "background")
    slow, sim = falling(), falling()
    same(np.array(run_of(slow, 200)), np.array(wanted))
    assert len(jobs) == 9  # two simulators, of four kernels each, and their steps
    found = run_of(sim, 100)
    monkeypatch.setenv("DELASSUS_CACHE", shared)
    for job in jobs:
        job.done(pickle.loads(pickle.dumps(job.make))())
    same(np.array(found + run_of(sim, 100)), np.array(wanted))
    assert len(sim._steps._steps._machine._codes) == 2


SCRIPT = """
import os, signal, time
import numpy as np
import delassus as ds
robot = ds.mechanisms.humanoid()
kernel = ds.compile(robot, [ds.Weld("left_foot")], "dynamics", wait=False)
given = robot.random(0), np.ones(robot.nv), np.zeros(robot.nv)
stored = lambda: sum(name.endswith(".kernel") for name in os.listdir(os.environ["DELASSUS_CACHE"]))
before, process, files = kernel(*given), kernel.code.of.__globals__["maker"](), stored()
while process._process is None:
    time.sleep(0.01)
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(10)
except KeyboardInterrupt:
    assert process._process.poll() is None
child = os.fork()
if child == 0:  # asks again, another process
    same = np.array_equal(kernel(*given)[0], before[0])
    other = ds.compile(robot, (), "bias_force", wait=False)
    other(*given[:2])
    os._exit(0 if same and kernel.code.of.__globals__["maker"]() is not process else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print(process._process.pid, files)
"""


def is_running(pid):
    """Whether a process has not ended, also if nobody asks for its status."""
    stat = Path(f"/proc/{pid}/stat")
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        os.kill(pid, 0)
        return not (stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z")
    return False


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this system")
def test_processes_end_while_another_one_compiles_for_them(tmp_path):
    """It does not see Ctrl-C, is not that of a forked child, and stores what it was asked for, then ends."""
    setting = os.environ | {"DELASSUS_CACHE": str(tmp_path), "DELASSUS_COMPILE": "background"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=setting, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and not re.search("Traceback|Warning", done.stderr), done
    pid, files = map(int, done.stdout.split())
    end, both = time.monotonic() + 120.0, files + 2  # what the child asked for, too
    while (is_running(pid) or len(list(tmp_path.glob("*.kernel"))) < both) and time.monotonic() < end:
        time.sleep(0.01)
    assert not is_running(pid) and len(list(tmp_path.glob("*.kernel"))) >= both


def test_the_environment_says_who_waits(monkeypatch, one_lane):
    arm = replace(ds.mechanisms.pendulum(1), gravity=(0.0, 0.1, -9.0))  # no other test has its programs
    kernels = [ds.compile(arm, (), "bias_force", wait=wait) for wait in (True, False, True)]
    jobs = asked(monkeypatch, kernels[0].code.of)
    given, found = (arm.random(0), np.ones(1)), []
    for kernel, mode in zip(kernels, ("never", "background", "wait"), strict=True):
        monkeypatch.setenv("DELASSUS_COMPILE", mode)
        found.append(kernel(*given))
        assert (len(jobs), any(kernel.code._codes)) == (mode != "never", mode == "wait")
    same(*found[:2])
    same(*found[1:])
    monkeypatch.setenv("DELASSUS_COMPILE", "later")
    kernel = ds.compile(arm, (), "energies")
    with pytest.raises(ConfigurationError, match="DELASSUS_COMPILE: expected 'wait' or 'background' or 'never'"):
        kernel(*given)
