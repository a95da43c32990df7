"""The thread that takes part in calls: every state is computed once, as on one thread, whatever happens."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import delassus as ds
from delassus.runtime import helper
from delassus.runtime.helper import LONGEST, UNIT
from internals import threads

pytestmark = [
    pytest.mark.usefixtures("machine_code"),
    pytest.mark.skipif(os.name != "posix", reason="helpers need POSIX"),
]

SPAN = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
HELPED, TAKEN, REST = threads.HELPED, helper.TAKEN // 8, helper.REST // 8


@pytest.fixture
def fresh(monkeypatch):
    """Fields of helpers that nobody has started, asleep and rested then, on two processors."""
    monkeypatch.setattr(threads, "cores", lambda: 2)
    fields = type(helper._HELPER)()
    monkeypatch.setattr(helper, "_HELPER", fields)
    monkeypatch.setattr(helper, "ADDRESS", ctypes.addressof(fields))
    return fields


@pytest.fixture
def kernel_and_states(fresh):
    tree = ds.mechanisms.chain(12)
    kernel = ds.compile(tree, ds.Weld("link12"))
    return kernel, tree.random(0, batch=-(-HELPED // kernel.operations.total) + 7)


@pytest.mark.parametrize("n", [1, UNIT - 1, UNIT, 2 * UNIT + 1, 1000, 1024, 4096 - UNIT + 1])
def test_both_threads_together_take_each_state_once(fresh, n):
    """Each waits at its first states for the other."""
    taken, came = [], threading.Barrier(2, timeout=30)

    def run(arrays, first, states):
        who = threading.get_ident()
        if n > 2 * UNIT and who not in {who for *_, who in taken}:
            came.wait()
        taken.append((first, states, who))

    span = SPAN(run)
    helper.share(ctypes.cast(span, ctypes.c_void_p).value, [], n)
    ends = 0
    for first, states, _ in sorted(taken):
        assert first == ends and first % UNIT == 0 and states > 0
        assert states >= UNIT or n < UNIT
        ends = first + states
    assert ends == n and len({who for *_, who in taken}) == (2 if n > 2 * UNIT else 1)


@pytest.mark.parametrize("away", [(TAKEN, 1), (REST, 2**62)], ids=["taken", "resting"])
def test_helpers_that_others_have_are_passed_over(fresh, away):
    """Or that rest. A caller waits for the others, who may still be at work when it has nothing left to do."""
    helper.start(3)
    taken, came, ended = set(), threading.Barrier(2, timeout=30), []

    def run(arrays, first, states):
        if (who := threading.get_ident()) not in taken:
            taken.add(who)
            came.wait()
        if who != caller:
            time.sleep(0.3)
        ended.append(states)

    caller, span, n = threading.get_ident(), SPAN(run), 8 * UNIT
    field, value = away
    fresh[field] = value
    helper.share(ctypes.cast(span, ctypes.c_void_p).value, [], n, 3)
    done = sum(ended)
    time.sleep(0.4)  # until all are done, whatever happens
    assert done == n and len(taken) == 2


def test_several_callers_at_once(fresh):
    n, rounds, counts = 5000, 50, [np.zeros(5000, dtype=int) for _ in range(4)]

    def call(count):
        def run(arrays, first, states):
            count[first : first + states] += 1

        span = SPAN(run)
        for _ in range(rounds):
            helper.share(ctypes.cast(span, ctypes.c_void_p).value, [], n)

    callers = [threading.Thread(target=call, args=(count,)) for count in counts]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
    assert all((count == rounds).all() for count in counts)
    assert helper._HELPER[TAKEN] == 0


def several(results):
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::delassus.DelassusWarning")  # states that are solved again
@pytest.mark.parametrize(
    ("what", "dtype"), [("delassus", "float64"), ("delassus", "float32"), ("dynamics", "float64"), ("step", "float32")]
)
def test_numbers_are_those_of_one_thread(fresh, what, dtype):
    tree = ds.mechanisms.chain(12)
    kernel = ds.compile(tree, ds.Weld("link12"), what, dtype=dtype)
    rng = np.random.default_rng(0)
    least = -(-HELPED // kernel.operations.total)
    for n in (least, least + 5, least + UNIT - 1, 4 * least + 3):
        arrays = [
            np.full(n, 1e-3, dtype) if not a.shape else rng.standard_normal((n, *a.shape)).astype(dtype)
            for a in kernel.arguments
        ]
        alone = kernel(*arrays, threads=1)
        out = kernel.empty_results(n)
        for _ in range(20):
            kernel(*arrays, out=out)
            for found in (out, kernel(*arrays)):
                pairs = zip(several(found), several(alone), strict=True)
                assert all(np.array_equal(*pair) for pair in pairs)
    assert helper._HELPER[0]


def test_one_thread_stays_alone_and_few_states_too(fresh, kernel_and_states):
    kernel, q = kernel_and_states
    kernel(q, threads=1)
    kernel(q[:64])
    assert not helper._HELPER[0]
    kernel(q)
    assert helper._HELPER[0]


@pytest.mark.parametrize("field", [TAKEN, REST])
def test_a_helper_that_is_not_to_be_had(kernel_and_states, field):
    kernel, q = kernel_and_states
    G = kernel(q)
    helper._HELPER[field] = 2**62
    assert np.array_equal(kernel(q), G)
    assert np.array_equal(kernel(q, threads=2), G)


def test_callers_do_without_one_that_is_kept_from_work(fresh):
    def run(arrays, first, states):
        if threading.get_ident() != caller:
            came.set()
            time.sleep(0.5)
        else:
            came.wait(30)

    came, caller, span = threading.Event(), threading.get_ident(), SPAN(run)
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    helper.share(ctypes.cast(span, ctypes.c_void_p).value, [], 4 * UNIT)
    assert before + LONGEST < fresh[REST] <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) + LONGEST


def test_a_system_without_threads(kernel_and_states, monkeypatch):
    kernel, q = kernel_and_states
    G = kernel(q, threads=1)

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert np.array_equal(kernel(q), G)
    assert np.array_equal(kernel(q), G)


def _same(kernel, q, G):
    fine = not helper._HELPER[0] and all(np.array_equal(kernel(q), G) for _ in range(100))
    sys.exit(0 if fine and helper._HELPER[0] else 1)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="no fork")
def test_a_child_has_a_helper_of_its_own(kernel_and_states):
    kernel, q = kernel_and_states
    G = kernel(q)
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            kernel(q)

    other = threading.Thread(target=busy)
    other.start()
    children = [multiprocessing.get_context("fork").Process(target=_same, args=(kernel, q, G)) for _ in range(5)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    stop.set()
    other.join()
    assert [child.exitcode for child in children] == [0] * 5
    assert np.array_equal(kernel(q), G)


def test_ctrl_c_comes_through(kernel_and_states):
    kernel, q = kernel_and_states
    G = kernel(q)
    for pause in np.linspace(0.0, 0.01, 10):
        timer = threading.Timer(pause, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            while True:
                kernel(q, out=G)
        timer.join()
    assert helper._HELPER[TAKEN] == 0
    assert np.array_equal(kernel(q), G)


AT_EXIT = """
import threading, sys
from delassus.runtime import threads
threads.cores = lambda: 2
import delassus as ds

tree = ds.mechanisms.chain(12)
kernel, q = ds.compile(tree, ds.Weld("link12")), tree.random(0, batch=2000)

def forever():
    while True:
        kernel(q)

if sys.argv[1] == "busy":
    threading.Thread(target=forever, daemon=True).start()
for _ in range(100):
    kernel(q)
print("ended", any(t.name == "delassus helper" for t in threading.enumerate()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("others", ["busy", "none"])
def test_the_interpreter_ends_while_the_helper_is_awake(others):
    for _ in range(3):
        run = subprocess.run([sys.executable, "-c", AT_EXIT, others], capture_output=True, text=True, timeout=120)
        assert (run.returncode, run.stdout) == (0, "ended True\n"), run.stderr[-2000:]
