"""Calls on several threads: whatever interrupts them, no thread touches memory that is gone, and none is left over."""

from __future__ import annotations

import gc
import itertools
import multiprocessing
import os
import subprocess
import sys
import threading
import weakref

import llvmlite.binding
import numpy as np
import pytest

import delassus as ds
from delassus.contact import Collider, HalfSpace, Sphere
from internals import fastcall, threads
from test_joint_contacts import some_scene
from test_piles import CUBE, cube, dropped

pytestmark = pytest.mark.usefixtures("machine_code")


@pytest.fixture
def cores(monkeypatch):
    """Four processors, and a pool that no other test has used."""
    monkeypatch.setattr(threads, "cores", lambda: 4)
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    threads._pool.cache_clear()
    yield 4
    threads._pool.cache_clear()


class Chunks:
    """Stands for machine code: of four threads' first chunks, all but the caller's are held up until `go`."""

    def __init__(self, error, by_caller=True):
        self.error, self.caller, self.by_caller = error, threading.get_ident(), by_caller
        self.all_at_work, self.go = threading.Barrier(4), threading.Event()
        self.begun, self.done = [], []

    def __call__(self, states, address):
        if threading.get_ident() not in self.begun:
            self.begun.append(threading.get_ident())
            self.all_at_work.wait(30)
        else:
            self.begun.append(threading.get_ident())
        if (threading.get_ident() == self.caller) is self.by_caller:
            self.go.set()
            raise self.error
        self.go.wait(30)
        self.done.append(address)


def run(function, array):
    threads.over_states(function, [array], [array.itemsize], len(array), 4, 1)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_chunks_are_all_states_once_and_fill_the_lanes(cores, number):
    for n, lanes, most in itertools.product(range(1, 80), (1, 4, 8), (1, 20, 10**6)):
        array, taken, operations = np.zeros((n, 2)), [], threads.UNINTERRUPTED // most
        threads.over_states(
            lambda *chunk, to=taken: to.append(chunk), [array], [16], n, number, lanes, None, operations
        )
        chunks = sorted(((at - array.ctypes.data) // 16, states) for states, at in taken)
        assert [k for first, states in chunks for k in range(first, first + states)] == list(range(n))
        assert min(states for _, states in chunks) >= min(n, lanes)
        assert max(states for _, states in chunks) < 2 * (most + lanes)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError("no more")])
def test_an_interrupted_call_waits_for_its_threads_and_begins_nothing_more(cores, error):
    chunks = Chunks(error)
    with pytest.raises(type(error)):
        run(chunks, np.zeros(1000))
    assert len(chunks.begun) <= 4 + 3  # a thread may have taken one more just before
    assert len(chunks.done) == len(chunks.begun) - 1


def test_an_error_on_another_thread_is_the_callers(cores):
    with pytest.raises(ZeroDivisionError):
        run(Chunks(ZeroDivisionError(), by_caller=False), np.zeros(1000))


def test_interrupted_twice_the_threads_hold_what_they_write_to(cores, monkeypatch):
    def interrupted(others):
        raise KeyboardInterrupt

    monkeypatch.setattr(threads, "wait", interrupted)
    chunks, array = Chunks(KeyboardInterrupt()), np.zeros(1000)
    chunks.go.set = lambda: None
    held = weakref.ref(array), weakref.ref(chunks)
    with pytest.raises(KeyboardInterrupt):
        run(chunks, array)
    pool = {thread for thread in threading.enumerate() if thread.name.startswith("delassus_")}  # helpers never end
    go = chunks.go
    del array, chunks
    gc.collect()
    assert all(reference() is not None for reference in held)
    threading.Event.set(go)
    for thread in pool:
        thread.join(30)  # its pool has gone
    gc.collect()
    assert [reference() for reference in held] == [None, None]


INTERRUPTS = """
import random, signal
import numpy as np
import delassus as ds

def interrupt(*_):
    raise KeyboardInterrupt

def once(delay, again):
    if steps:
        kernel, q = ds.compile(arm, [], "step"), arm.random(0, batch=20_000)
    else:
        kernel, q = ds.compile(robot, [ds.Weld("left_foot")]), np.tile(start, (200, 1))
    signal.setitimer(signal.ITIMER_REAL, delay, again)
    if steps:
        ds.rollout(kernel, q, np.zeros(7), np.zeros((20, 7)), 1e-3, threads=2)
    else:
        kernel(q, threads=2)

random.seed(0)
robot, arm = ds.mechanisms.humanoid(), ds.mechanisms.chain(7)
start = robot.random(0, batch=1000)
ds.compile(arm, [], "step")
signal.signal(signal.SIGALRM, interrupt)
for k in range(8):
    steps = k % 4 == 3
    try:
        try:
            once(0.01 + 0.1 * random.random(), 0.01 if k % 2 else 0.0)
        finally:
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
    except KeyboardInterrupt:
        pass
    signal.setitimer(signal.ITIMER_REAL, 0.0)
    signal.signal(signal.SIGALRM, interrupt)
    [np.ones(200_000) for _ in range(20)]
print("alive")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="signals of POSIX")
def test_ctrl_c_at_any_time():
    run = subprocess.run([sys.executable, "-c", INTERRUPTS], capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, run.stderr[-2000:]
    assert run.stdout.strip().endswith("alive")


@pytest.fixture
def parts(monkeypatch):
    """Chunks of a thousand times fewer operations than else, and parts of one step."""
    monkeypatch.setattr(threads, "UNINTERRUPTED", threads.UNINTERRUPTED // 1000)
    monkeypatch.setattr(threads, "PART", 0.0)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("n", [1, 3, 1000])
def test_no_call_of_a_rollout_is_long(cores, parts, monkeypatch, n, number):
    """So that what interrupts is seen soon: of few states and of many, forwards and backwards."""
    arm, asked = ds.mechanisms.chain(3), []
    step, steps = ds.compile(arm, (), "step"), 3000 // n
    u, q, kernels = np.ones((steps, 3)), arm.random(0, batch=n), (step, step.derivative("vjp"))

    def both():
        path = ds.rollout(step, q, 0.0 * q, u, 1e-3, threads=number)
        return *path, *ds.rollout(kernels[1], *path, u, 1e-3, threads=number, q_next_bar=np.ones((steps, 3)))

    for kernel in kernels:

        def noted(*given, run=kernel._roll, operations=kernel.operations.total):
            *_, states, some, _, _ = given
            asked.append(states * some * operations)
            run(*given)

        monkeypatch.setattr(kernel, "_roll", noted)
    found, fewest = both(), step.lanes * kernels[1].operations.total
    assert len(asked) > 10 and max(asked) <= 2 * (threads.UNINTERRUPTED + fewest)
    monkeypatch.setattr(threads, "UNINTERRUPTED", 2**62)
    assert all(np.array_equal(x, y) for x, y in zip(found, both(), strict=True))


def test_plans_of_many_steps_are_made_in_parts(monkeypatch):
    """Riccati's equation, of one step at a time here: parts change nothing."""
    rod, free = ds.mechanisms.pendulum(2), np.zeros((30, 2))
    kernels = [ds.compile(rod, (), what) for what in ("step", "step_derivatives")]

    def plans():
        cost = lambda t, q, v, u: 0.3 * u, lambda q, v: q - 0.2
        return list(itertools.islice(ds.ilqr(*kernels, [0.0] * 2, [0.0] * 2, free, 0.02, *cost), 3))

    known = plans()
    monkeypatch.setattr(threads, "UNINTERRUPTED", 1)
    for plan, expected in zip(plans(), known, strict=True):
        assert np.array_equal(plan.gains, expected.gains) and np.array_equal(plan.controls, expected.controls)
    assert np.any(known[-1].gains)


@pytest.fixture(scope="module")
def kernel_and_states():
    tree = ds.mechanisms.chain(4)
    return ds.compile(tree, ds.Weld("link4")), tree.random(0, batch=1100)


def test_a_million_threads_are_as_many_as_processors(cores, kernel_and_states):
    kernel, q = kernel_and_states
    G = kernel(q, threads=1)
    before = threading.active_count()
    callers = [threading.Thread(target=kernel, args=(q,), kwargs={"threads": 10**6}) for _ in range(10)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert np.array_equal(kernel(q, threads=10**6), G)
    assert np.array_equal(kernel(q, threads=10**400), G)
    assert np.array_equal(kernel(q[:9], threads=10**6), G[:9])
    assert threading.active_count() - before <= cores


def test_the_work_of_a_call_says_whether_threads_are_worth_it(cores, kernel_and_states, monkeypatch):
    kernel, q = kernel_and_states
    q = np.resize(q, (fastcall.MOST + 2, 4))
    asked, pool = [], threads._pool
    with monkeypatch.context() as patch:
        patch.setattr(threads, "ENOUGH_FOR_THREADS", (fastcall.MOST + 2) * kernel.operations.total)
        patch.setattr(kernel, "_few", 0)  # as if no call were short
        patch.setattr(threads, "_pool", lambda process: asked.append(process) or pool(process))
        few = kernel(q[:-1])
        assert not asked
        many = kernel(q)
    assert asked and np.array_equal(many[:-1], few)


@pytest.mark.parametrize("number", [0, -1, -(10**400), 1.0, True, "2", float("nan"), [2], None.__class__])
def test_numbers_of_threads_that_are_none(kernel_and_states, number):
    kernel, q = kernel_and_states
    with pytest.raises(ds.DelassusError, match="threads: expected a whole number ≥ 1"):
        kernel(q, threads=number)


def test_a_system_without_threads(cores, kernel_and_states, monkeypatch):
    kernel, q = kernel_and_states
    G = kernel(q, threads=1)

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert np.array_equal(kernel(q, threads=4), G)


OURS, OPENMP = threads.VARIABLES


@pytest.mark.parametrize(
    "variables, most",
    [
        ({}, 4), ({OURS: ""}, 4), ({OURS: "1"}, 1), ({OURS: " 3 "}, 3), ({OURS: "99999"}, 4), ({OPENMP: "2"}, 2),
        ({OPENMP: "2,1"}, 2), ({OURS: "3", OPENMP: "1"}, 3), ({OURS: "", OPENMP: "1"}, 1),
    ],
)  # fmt: skip
def test_the_environment_says_how_many_threads_calls_have(cores, monkeypatch, variables, most):
    """Those whose number is not given; steps of scenes and what is helped have two at most."""
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    few, many = fastcall.HELPED, threads.ENOUGH_FOR_THREADS
    assert threads.number_of(None, many) == most and threads.number_of(None, few - 1, is_helped=True) == 1
    assert threads.number_of(3, 1) == 3 and threads.number_of(10**9, 1) == cores
    if os.name == "posix":
        assert threads.number_of(None, few, is_helped=True) == min(most, 2) == threads.number_with_helpers(None)
        asked = []
        monkeypatch.setattr(fastcall, "helper_address", lambda: asked.append(1) or 0)
        ds.compile(ds.mechanisms.chain(1), (), "energies")
        assert bool(asked) is (most > 1)  # the direct entry has none with one thread


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "1,2", "²", "1_0", "9" * 5000, "0x2"])
def test_numbers_of_threads_in_the_environment_that_are_none(cores, kernel_and_states, monkeypatch, text):
    kernel, q = kernel_and_states
    monkeypatch.setenv(OURS, text)
    for call in (lambda: kernel(np.tile(q, (50, 1))), lambda: ds.compile(ds.mechanisms.chain(1), (), "energies")):
        with pytest.raises(ds.DelassusError, match=r"DELASSUS_THREADS: expected a whole number ≥ 1, got .*unset"):
            call()
    assert kernel(q, threads=1).shape == (len(q), 6, 6)
    monkeypatch.delenv(OURS)
    monkeypatch.setenv(OPENMP, text.replace(",", ",x"))
    threads._number.cache_clear()
    with pytest.warns(ds.DelassusWarning, match="OMP_NUM_THREADS=.*is ignored"):
        assert threads.number_of(None, threads.ENOUGH_FOR_THREADS) == cores


def _same(kernel, q, G):
    sys.exit(0 if np.array_equal(kernel(q, threads=2), G) else 1)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork")
def test_a_child_has_threads_of_its_own(cores, kernel_and_states):
    kernel, q = kernel_and_states
    G = kernel(q, threads=2)
    child = multiprocessing.get_context("fork").Process(target=_same, args=(kernel, q, G))
    child.start()
    child.join(60)
    assert child.exitcode == 0


def test_calls_take_no_lock_of_llvm(kernel_and_states, machine_code):
    """Which a child that is forked while another thread has it would wait for, for ever; garbage takes none, either."""
    kernel, q = kernel_and_states
    G, found = kernel(q, threads=2), []
    arm = ds.mechanisms.chain(3)
    garbage = [ds.compile(arm, (), "mass_matrix")]
    garbage[0](arm.random(0))
    step = ds.compile(arm, (), "step")
    kernel(q[0])
    step(arm.random(0), np.zeros(3), np.zeros(3), 1e-3)  # these compile, which takes it

    def call():
        garbage.clear()
        gc.collect()
        found.extend(kernel(q, threads=n) for n in (None, 1, 2))
        found.extend([kernel(q[0]), kernel(q.tolist()), kernel.address(1)])
        ds.rollout(step, arm.random(0), np.zeros(3), np.zeros((2, 3)), 1e-3)
        found.append(step(arm.random(0), np.zeros(3), np.zeros(3), 1e-3, return_status=True))

    thread = threading.Thread(target=call, daemon=True)
    with llvmlite.binding.ffi.lib._lock:
        thread.start()
        thread.join(60)
        assert not thread.is_alive() and len(found) == 7
    assert all(np.array_equal(x, G) for x in found[:3])


FORKS = """
import os, signal, sys, threading, time
import numpy as np
import delassus as ds

tree = ds.mechanisms.star(2, 3)
kernel, q = ds.compile(tree, ds.Weld("branch1_3"), "dynamics"), tree.random(0, batch=2_000)
still, stop = np.zeros((2_000, tree.nv)), threading.Event()
expected, stretched = kernel(q, still, still), np.zeros((1, 7))
arm = ds.mechanisms.chain(7)
held = ds.compile(arm, ds.Weld("link7"), "dynamics")
held(stretched, stretched, stretched, return_status=True)  # what has to be compiled for it

def same(threads=None):
    found = kernel(q, still, still, threads=threads)
    return all(np.array_equal(x, y) for x, y in zip(found, expected))

def calls(threads):
    while not stop.is_set():
        same(threads)

def solves():
    while not stop.is_set():
        held(stretched, stretched, stretched, return_status=True)

def compiles():
    while not stop.is_set():
        ds.compile(ds.mechanisms.chain(1), (), "mass_matrix")

busy = [threading.Thread(target=f, args=a) for f, a in ((calls, (None,)), (calls, (2,)), (solves, ()), (compiles, ()))]
for thread in busy:
    thread.start()
failed = 0
for _ in range(5):
    child = os.fork()
    if not child:
        signal.alarm(30)  # ends it if it hangs
        kernel(q[:2], still[:2], still[:2])
        held(stretched, stretched, stretched, return_status=True)
        compiled = ds.compile(ds.mechanisms.chain(1), (), "jacobian")(np.zeros(1))
        os._exit(0 if same() and same(2) and compiled.shape == (0, 1) else 1)
    failed += os.waitpid(child, 0)[1] != 0
    if failed:
        break
stop.set()
for thread in busy:
    thread.join()
sys.exit(failed)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_children_that_are_forked_while_threads_call_and_compile(monkeypatch):
    monkeypatch.setenv("DELASSUS_CACHE", "off")
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORKS], check=True, timeout=240)


AT_EXIT = """
import atexit, threading, time
import numpy as np
import delassus as ds

tree = ds.mechanisms.chain(4)
kernel, q = ds.compile(tree, ds.Weld("link4")), tree.random(0, batch=100_000)
G = kernel(q, threads=2)
atexit.register(lambda: print("late", np.array_equal(kernel(q, threads=2), G)))

def forever():
    while True:
        kernel(q, threads=2)

threading.Thread(target=forever, daemon=True).start()
time.sleep(0.1)
"""


@pytest.mark.slow
def test_the_interpreter_ends_while_threads_run():
    run = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout) == (0, "late True\n"), run.stderr[-2000:]


# -- steps of scenes ---------------------------------------------------------------------------------------------


def several_islands():
    """Heaps of cubes that bounce a little beside a robot with limits, springs and friction."""
    robot, law = some_scene(5)[0].tree, {"friction": 0.6, "restitution": 0.2}
    heaps = [dropped(6, 2, seed).reshape(-1, 7) for seed in range(5)]
    for k, heap in enumerate(heaps):
        heap[:, 0] += 3.0 * (k + 1)
    colliders = [Collider(f"box{k}/body", CUBE, **law) for k in range(30)]
    feet = [Collider(f"robot/{robot.link_names[k]}", Sphere(0.1), **law) for k in (1, 2)]
    bodies = {"robot": robot, **{f"box{k}": cube() for k in range(30)}}
    scene = ds.Scene(bodies, [*colliders, *feet, Collider("world", HalfSpace(), **law)])
    return scene, np.concatenate([robot.neutral() + np.eye(robot.nq)[2], *map(np.ravel, heaps)])


@pytest.mark.skipif(os.name != "posix", reason="helpers need POSIX")
@pytest.mark.parametrize("several", [2, 4])
def test_steps_are_those_of_one_thread(cores, several):
    scene, q0 = several_islands()
    sims = [ds.Simulator(scene, q0=q0, dt=2e-3, sleep=0.2, max_overlap=1.0, threads=n) for n in (1, several)]
    bounced = False
    for _ in range(20):
        for sim in sims:
            sim.run(0.05)
        one, other = (sim.get_state() for sim in sims)
        bounced = bounced or bool((one["impulses"] != one["sustained"]).any())
        for name, value in one.items():
            assert np.array_equal(value, other[name]) if isinstance(value, np.ndarray) else value == other[name], name
    assert bounced and len(sims[0].contacts) > 60 and sims[0].asleep.any()


def test_an_interrupted_run_stands_at_a_step_and_goes_on_from_there(parts, monkeypatch):
    """Interrupted after machine code has made some of the steps of a part; parts change nothing."""
    scene, q0 = several_islands()
    one, other, whole = (ds.Simulator(scene, q0=q0, dt=2e-3, max_overlap=1.0) for _ in range(3))
    one.run(0.5)
    advance, calls = other._steps.advance, []

    def interrupted(*given):
        found = advance(*given)
        calls.append(given)
        if len(calls) == 200:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(other._steps, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            other.run(0.5)
    assert 190 < other.steps < 250
    other.run(0.5 - other.time)
    monkeypatch.setattr(threads, "PART", 1e9)
    whole.run(0.5)
    for sim in (other, whole):
        for name, value in one.get_state().items():
            assert np.array_equal(value, sim.get_state()[name]), name


def _run_on(sim, q):
    sim.run(0.05)
    sys.exit(0 if np.array_equal(sim.q, q) else 1)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork")
def test_steps_go_on_in_a_child(cores):
    scene, q0 = several_islands()
    one, other = (ds.Simulator(scene, q0=q0, dt=2e-3, max_overlap=1.0, threads=n) for n in (1, 2))
    other.run(0.3)
    one.run(0.35)
    child = multiprocessing.get_context("fork").Process(target=_run_on, args=(other, one.q))
    child.start()
    child.join(60)
    assert child.exitcode == 0


@pytest.mark.parametrize("several", [0, -1, 1.5, "two"])
def test_numbers_of_threads_of_steps_that_are_none(several):
    with pytest.raises(ds.DelassusError, match="threads"):
        ds.Simulator(several_islands()[0], threads=several)
