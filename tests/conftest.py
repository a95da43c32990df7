"""One cache of kernels for all workers of a test run, none from runs before it; a current directory of its own."""

import gc
import os
import signal
import sys
import tempfile
from collections import defaultdict

import pytest
import threadpoolctl

# threads of BLAS wait for one another, busily, where workers have the cores; here and in processes that tests start
threadpoolctl.threadpool_limits(1)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# what one process compiles of Python's files, the many that follow it read
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers and processes that tests start inherit it
    folder = tempfile.TemporaryDirectory(prefix="delassus-kernels-")
    os.environ["DELASSUS_CACHE"] = folder.name

# the evaluator gives the bits of machine code; tests of machine code ask for it, by the fixture of this name
os.environ.setdefault("DELASSUS_COMPILE", "never")

signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # a shell has its background jobs ignore it; children inherit it


gc.set_threshold(10_000, 10, 10)  # traces make many objects, none of them garbage


def pytest_collection_finish():
    gc.freeze()  # what is imported stays


@pytest.fixture(autouse=True, scope="module")
def frozen():
    """What a file leaves in caches stays, too: tests that collect garbage look at their own."""
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """MuJoCo writes its warnings to a file in the current directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def machine_code(monkeypatch):
    """Kernels and loops wait for LLVM, and processes that tests start do, too."""
    monkeypatch.setenv("DELASSUS_COMPILE", "wait")


@pytest.fixture
def one_lane(monkeypatch):
    """Kernels as on a processor without vector registers: where lanes do not matter, half of the code to compile."""
    from internals import Host

    monkeypatch.setattr(Host, "lanes", lambda self, dtype: 1)


@pytest.hookimpl(tryfirst=True)  # before pytest selects by marker
def pytest_collection_modifyitems(config, items):
    cases = defaultdict(list)
    for item in items:
        if turns := item.get_closest_marker("turns"):
            cases[item.path, item.originalname, *turns.args].append(item)
    if cases:
        from generated import commit_number

        number = commit_number()
        left = {x for (*_, n), every in cases.items() if len(every) >= n for x in {*every} - {*every[number % n :: n]}}
        config.hook.pytest_deselected(items=[*left])
        items[:] = [item for item in items if item not in left]
    for item in items:
        if not any(item.get_closest_marker(name) for name in ("slow", "peer")):
            item.add_marker(pytest.mark.fast)
