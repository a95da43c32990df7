"""Compiled loops do what Python does with the same functions; what cannot be compiled is named."""

from __future__ import annotations

import ctypes
import gc
import math
import os
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import delassus as ds
from delassus.contact import Box, Collider, HalfSpace
from internals import SOLVERS, call_at, compiled, inlined, runtime_loops
from programs import ObjectCode, elf, host, llvm_module, object_for, undefined
from test_c import ARM, FOR_ARM
from test_evaluator import falling

pytestmark = pytest.mark.usefixtures("machine_code")

HALF, SIDES, LARGEST = 0.5, (2, 3.5, -1.25), 2**63 - 1


class Pair(NamedTuple):
    a: np.ndarray
    n: int


@compiled
def _arithmetic(x, y, i, j):
    z = x * y - x / y + 2 * i
    z += i // j + i % j + x**3 + (i & 5)
    return z, i // -3, -i % 7, -x, abs(x), abs(-i), int(x), float(i), bool(j), HALF * SIDES[1]


@compiled
def _choices(x, i):
    found = 0
    if x > 0.0 and (i > 2 or not x < 1.0):
        found = 1
    elif -1.0 < x <= i != 3:
        found = 2
    else:
        found = 3
    a, b = (x, i) if found == 1 else (i, x)
    return found, a, b, min(x, i, 0.5), max(i, 2), (x > 0) == (i > 0), found + (x > 1.0)


@compiled
def _ranges(n):
    total, seen = 0, 0
    for k in range(n):
        if k == 3:
            continue
        for c in (1, 4, n):
            total += c * k
        if total > 60:
            break
        k = 100  # does not change the loop
        seen += k
    for k in range(n, -1, -2):
        total -= k
    while True:
        seen -= 7
        if seen < 0:
            break
    return total, seen, SIDES[n % 3]


@inlined
def _square(x, scale=1.0):
    return scale * x * x


@compiled
def _rows(A, out, flags, pair):
    n, m = A.shape
    B = np.zeros((n, m))
    for r in range(n):
        row = A[r]
        for c in range(m):
            B[r, c] += _square(row[c], HALF) + _square(row[-1])
        out[r] = r * m
        flags[r] = row[0] > 0.0
    pair.a[:] = 2.5
    first = last = B[0, 0]
    first, last = last, first + pair.n
    total = 0.0
    for row in A:
        total += row[0] + row.size
    return B, first, last, total, A.size


@compiled
def _made(n):
    a, b, c, d = np.arange(n), np.full(n, -1), np.ones((n, 2)), np.full((2, n), 0.5)
    e, f = np.copy(d), np.empty(n, np.int64)
    d[0, 0] = 7.0
    for k in range(n):
        f[k] = a[k] * b[k]
    return a, c, d, e, f


@compiled
def _whole(x):
    return int(x)


@pytest.mark.parametrize(
    "x, whole",
    [(np.nan, 0), (-np.nan, 0), (np.inf, LARGEST), (1e19, LARGEST), (-np.inf, -LARGEST - 1)]
    + [(float(x), int(x)) for x in (0.9, -0.9, -0.0, 2.0**62, -(2.0**63), 2.0**63 - 1024.0)],
)
def test_numbers_beyond_integers_become_the_nearest_and_nan_zero(x: float, whole: int) -> None:
    assert _whole(x) == whole


@compiled
def _functions(x, y):
    return math.sqrt(x) + math.sin(x) * math.cos(y), math.fabs(x), math.copysign(x, -y), np.sqrt(y), math.pi


@pytest.mark.parametrize("seed", range(20))
def test_numbers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y, i, j = float(rng.normal()), float(rng.normal()), int(rng.integers(-9, 9)), int(rng.integers(1, 9))
    for function, arguments in (
        (_arithmetic, (x, y, i, j)), (_choices, (x, i)), (_ranges, (seed,)), (_functions, (abs(x), abs(y))),
    ):  # fmt: skip
        found, expected = function(*arguments), function.function(*arguments)
        np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
        if function is _arithmetic:  # elsewhere one of two types is taken
            assert [type(a) for a in found] == [type(a) for a in expected]


def test_arrays() -> None:
    """Values and the arrays written to; those that are made outlive the call."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 3))
    results = []
    for function in (_rows, _rows.function):
        out, flags, pair = np.zeros(5, np.int64), np.zeros(5, bool), Pair(np.zeros((2, 2)), 4)
        found = function(A, out, flags, pair)
        results.append([*found, out, flags, pair.a])
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(found, expected)
    for found, expected in zip(_made(6), _made.function(6), strict=True):
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


@compiled
def _narrow(x, y):
    z = np.zeros(x.size, np.float32)
    for k in range(x.size):
        z[k] = x[k] / 3.0 + y[k]
        x[k] += 1
    return z, x[0]


def test_float32_is_computed_in_float64() -> None:
    x, y = np.arange(5, dtype=np.float32), np.full(5, 0.1)
    z, first = _narrow(x, y)
    assert z.dtype == np.float32 and first == 1.0
    np.testing.assert_array_equal(z, (np.arange(5) / 3.0 + y).astype(np.float32))
    np.testing.assert_array_equal(x, np.arange(5) + 1.0)


@compiled
def _filled(n, rounds):
    total = 0.0
    for k in range(rounds):
        total += _sum_of(np.full(n, k))
    return total


@compiled
def _sum_of(x):
    y, total = np.copy(x), 0.0
    for k in range(y.size):
        total += y[k]
    return total


@compiled
def _grown(n, rounds):
    kept, total = np.zeros(n), 0.0
    for k in range(rounds):
        row = _next(kept, k)[0]
        if k % 2 == 0:
            kept = row
            continue
        total += row[0] + kept[n - 1]
    return kept, total


@compiled
def _next(x, k):
    y, waste = np.zeros((2, x.size)), np.empty(x.size)
    waste[:] = 7.0
    for c in range(x.size):
        y[0, c] = 0.5 * x[c] + k
    return y


@compiled
def _kept_over(n, rounds):
    first, total = np.ones(n), 0.0
    pair = Pair(first, n)
    for k in range(rounds):
        row = np.full(n, k)
        total += row[0] + pair.a[k % pair.n]
    return total, first


def test_arrays_that_are_named_once_stay() -> None:
    """While loops give back what they make."""
    (total, first), (expected, ones) = _kept_over(4, 100), _kept_over.function(4, 100)
    assert total == expected and np.array_equal(first, ones)


@pytest.mark.slow
def test_memory_is_given_back() -> None:
    """What no variable holds after a round of a loop, and what a function does not return: else 0.8 to 3 GB."""
    import resource

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert _filled(1000, 100_000) == 1000 * 99_999 * 100_000 / 2
    kept, total = _grown(1000, 100_000)
    expected = _grown.function(3, 100_000)
    assert kept[0] == expected[0][0] and total == expected[1]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


def test_a_bound_call_takes_other_numbers() -> None:
    x = np.arange(4.0)
    call = _sum.bound(2.0, 1, x)
    assert isinstance(call, runtime_loops.Bound) and call() == 2.0 * 6.0 + 1
    call.set(0, 3.0)
    call.set(1, -1)
    x[0] = 10.0
    assert call() == 3.0 * 16.0 - 1


@compiled
def _sum(scale, offset, x):
    total = 0.0
    for k in range(x.size):
        total += x[k]
    return scale * total + offset


def test_other_threads_run() -> None:
    """And calls at once do not know of one another."""
    x, found = np.ones(20_000_000), []
    call = _sum.bound(1.0, 0, x)
    threads = [threading.Thread(target=lambda: found.append(call())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [2e7, 2e7]


@compiled
def _through(address, x, y):
    call_at(address, x.size, (x.ctypes, y.ctypes))


@compiled
def _called_by_address(address, n, a, b):
    call_at(address, n, (a, b))


def test_machine_code_is_called_by_its_address() -> None:
    seen = []
    record = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(lambda *x: seen.append(x))
    _called_by_address(ctypes.cast(record, ctypes.c_void_p).value, 3, 40, 50)
    assert seen == [(3, 40, 50)]


@compiled
def _reads(x, k):
    return x[k]


@compiled
def _libraries(x):
    return math.exp(x)


@compiled
def _remainders(x):
    return x % 1.0


@compiled
def _itself(n):
    return _itself(n - 1) if n > 0 else 0


@compiled
def _lists(n):
    return [n]


@compiled
def _mixed(x, n):
    x = n
    return x


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (_reads, (np.ones(3, np.int32), 0), "_reads: arrays of float64.*int32"),
        (_reads, (np.ones((3, 3))[:, 0], 0), "C-contiguous"),
        (_reads, ([1.0], 0), "_reads: numbers, arrays .* not list"),
        (_reads, (np.ones(3), 0.5), r"test_compiled_loops.py, line \d+, return x\[k\]"),
        (_libraries, (0.5,), r"return math.exp\(x\): calls of math.exp are not compiled"),
        (_remainders, (0.5,), "Mod of float"),
        (_itself, (3,), "_itself calls itself"),
        (_lists, (3,), r"line \d+, return \[n\]: List is not compiled"),
        (_mixed, (np.ones(3), 1), "array of float .* and int are different types"),
        (_through, (1, np.ones(3), np.ones(3)), "has no ctypes"),
    ],
)
def test_what_cannot_be_compiled_is_named(function, arguments, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TypeError, match=message):
        function(*arguments)


LIBRARY = {"malloc", "free", "memset", "memcpy"}
"""Functions of C whose results are the same everywhere."""


@elf
@pytest.mark.parametrize("processor", [{}, {"cpu": "generic", "features": ""}], ids=["this", "oldest"])
def test_loops_call_only_memory_of_c(processor, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """All that loops are written in, also where no processor has fused operations."""
    numbers = 0.7, 0.3, 5, 2
    for function, arguments in ((_arithmetic, numbers), (_functions, numbers[:2]), (_made, (3,)), (_choices, (0.5, 3))):
        types = next(iter(function._made), None) or function.bound(*arguments)._machine.types  # type: ignore[attr-defined]
        with monkeypatch.context() as its:
            its.setattr(type(host()), "has_fma", not processor)
            text, _ = runtime_loops.Module().assembly(function, list(types))
        found = {*undefined(object_for(text, **processor))}
        assert found <= LIBRARY and ("malloc" in found or function is not _made)


@elf
@pytest.mark.slow
def test_scenes_call_only_memory_of_c(monkeypatch, one_lane) -> None:  # type: ignore[no-untyped-def]
    """All machine code of their steps by each solver of impulses: kernels and loops."""
    made, load = list[bytes](), ObjectCode.__init__
    monkeypatch.setattr(ObjectCode, "__init__", lambda self, payload: (made.append(payload), load(self, payload))[1])
    for loop in [x for x in gc.get_objects() if isinstance(x, runtime_loops.Compiled)]:
        monkeypatch.setattr(loop, "_made", {})
    for formulation, solver in ((None, None), *(("os", solver) for solver in SOLVERS)):
        sim = falling(formulation=formulation, solver=solver)
        sim.run(0.4)
        assert np.isfinite(sim.q).all()
    found = {name for code in made for name in undefined(code)}
    assert len(made) > 2 * len(SOLVERS) and found <= LIBRARY


DRIVER = """
#include <stdint.h>
#include <stdio.h>
static char memory[{size}] __attribute__((aligned(64)));
static int64_t pointers[{n}][2], out[3];
void entry(void *, void *);
void span(void **, int64_t, int64_t);

int main(void)
{{
    FILE *file = fopen("before", "rb");
    int k;

    if (fread(memory, 1, {size}, file) != {size} || fread(pointers, 16, {n}, file) != {n})
        return 1;
    for (k = 0; k < {n}; ++k)
        *(int64_t *)(memory + pointers[k][0]) = (int64_t)(memory + pointers[k][1]);
    *(int64_t *)memory = (int64_t)span;
    entry(memory + {arguments}, out);
    printf("%ld %ld", out[1], out[2]);
    file = fopen("after", "wb");
    return fwrite(memory, 1, {size}, file) != {size} || fclose(file);
}}
"""
"""Program that reads memory of a loop, in whose first word the address of a kernel goes, sets pointers and calls it."""


def arrays_of(x, kind):
    """Arrays of an argument of a loop; None for each other number that it is made of."""
    if isinstance(kind, runtime_loops.TupleOf):
        return [y for item, of in zip(x, kind.items, strict=True) for y in arrays_of(item, of)]
    return [x, *[None] * kind.ndim] if isinstance(kind, runtime_loops.ArrayOf) else [None]


@pytest.mark.slow
@pytest.mark.skipif(FOR_ARM is None or ARM is None, reason="needs gcc for arm64 and qemu")
def test_steps_on_arm64(tmp_path, one_lane) -> None:  # type: ignore[no-untyped-def]
    """Five boxes fall, by emulated machine code: all memory that 300 steps leave has the bits that it has here."""
    rng, floor = np.random.default_rng(0), Collider("world", HalfSpace())
    boxes = [Collider(f"b{k}/body", Box(0.2, 0.3, 0.25), friction=0.5, restitution=0.2 * (k % 2)) for k in range(5)]
    scene = ds.Scene({f"b{k}": ds.mechanisms.free_body(1.0, 0.01 * np.eye(3)) for k in range(5)}, [*boxes, floor])
    turns = rng.normal(size=(5, 4))
    turns /= np.linalg.norm(turns, axis=1, keepdims=True)
    places = [[*rng.uniform(-0.1, 0.1, 2), 0.4 + 0.4 * k, *turns[k]] for k in range(5)]
    sim = ds.Simulator(scene, q0=np.concatenate(places), dt=2e-3, max_overlap=1.0)
    start, steps = sim.get_state(), sim._steps
    sim.run(0.6)  # makes room for all contacts
    assert len(sim.contacts) > 10
    sim.set_state(start)
    steps._set(sim.q, sim.v, np.zeros(scene.tree.nv))
    call, (kernel,) = steps._steps, steps._kernels.values()
    call.set(2, 300)

    # memory, piece by piece: of arguments of the loop and of the kernel, with pointers as distances
    types = call._machine.types
    words = [y for x, of in zip(call._arguments, types, strict=True) for y in arrays_of(x, of)]
    own = np.frombuffer(call._in, np.uint8)
    found = [own, steps.blocks.inertias, *steps._arguments, *(x for x in words if x is not None)]
    pieces, size = list[list[int]](), 64
    for begin, end in sorted((x.ctypes.data, x.ctypes.data + x.nbytes) for x in found):
        if pieces and begin <= pieces[-1][1]:  # a view of another one
            pieces[-1][1] = max(pieces[-1][1], end)
        else:
            pieces.append([begin, end])
    starts = np.cumsum([size, *(-(-(end - begin) // 64) * 64 + 64 for begin, end in pieces)]).tolist()

    def place(address):
        return next((s + address - a for s, (a, b) in zip(starts, pieces, strict=False) if a <= address <= b), 0)

    def memory():
        made = np.zeros(starts[-1], np.uint8)
        for at, (begin, end) in zip(starts, pieces, strict=False):
            ctypes.memmove(made.ctypes.data + at, begin, end - begin)
        return made.view(np.int64)

    before, free = memory(), place(steps.model.free.ctypes.data)
    at = [place(own.ctypes.data) + 8 * k for k, x in enumerate(words) if x is not None] + [free + 16]
    at += [place(x.ctypes.data) + 8 * k for x in steps._arguments for k in range(len(x))]
    pointers = np.array([(free, 0), *((k, place(int(before[k // 8]))) for k in at)])

    processor = {"triple": "aarch64-linux-gnu", "cpu": "generic", "features": "", "vector_bits": 128}
    text, _ = runtime_loops.Module().assembly(call._machine._make.args[0], list(types))
    (tmp_path / "span.o").write_bytes(
        object_for(llvm_module(kernel.code._made_program(), "double", 2, 32, True), **processor)
    )
    (tmp_path / "loop.o").write_bytes(runtime_loops.quick_code(text, replace(host(), **processor)))
    (tmp_path / "before").write_bytes(before.tobytes() + pointers.tobytes())
    fields = {"size": before.nbytes, "n": len(pointers), "arguments": place(own.ctypes.data)}
    (tmp_path / "driver.c").write_text(DRIVER.format(**fields))
    for command in ([FOR_ARM, "-static", "driver.c", "loop.o", "span.o", "-o", "made"], [ARM, "./made"]):
        run = subprocess.run(command, cwd=tmp_path, check=True, timeout=120, stdout=subprocess.PIPE, text=True)
    after = np.fromfile(tmp_path / "after", np.int64)
    assert run.stdout == "{} {}".format(*call()) and run.stdout.startswith("300 ")
    here = memory()
    for x in (after, here):
        x[0] = x[pointers[:, 0] // 8] = 0
    assert np.array_equal(after, here)


@pytest.mark.slow
def test_large_loops_run_quickly_made_code_until_another_process_has_optimised_it(tmp_path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """All do here: the same numbers, and calls that were bound before run what came later."""
    monkeypatch.setenv("DELASSUS_CACHE", str(tmp_path))
    monkeypatch.setenv("DELASSUS_COMPILE", "background")
    monkeypatch.setitem(compiled.__globals__, "WORTH_WAITING", -1.0)
    monkeypatch.setattr(_functions, "_made", {})
    bound = _functions.bound(0.7, 0.3)  # type: ignore[attr-defined]
    found, machine = bound(), bound._machine
    entry, end = machine.place.value, time.monotonic() + 120.0
    while machine.place.value == entry and time.monotonic() < end:
        time.sleep(0.01)
    assert len(machine._codes) == 2 and len(list(tmp_path.glob("*.kernel"))) == 2
    assert bound() == found == _functions(0.7, 0.3)


@pytest.mark.parametrize("listens", [False, True])
@pytest.mark.parametrize("is_terminal", [False, True])
def test_compilation_is_announced(listens, is_terminal, tmp_path, monkeypatch, capsys, caplog) -> None:  # type: ignore[no-untyped-def]
    """Once a function that Python calls, by the name that it has for users, unless it is in the cache.

    To who listens, else where stderr is a terminal.
    """
    caplog.set_level("INFO" if listens else "WARNING", "delassus")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    monkeypatch.setenv("DELASSUS_CACHE", str(tmp_path))
    monkeypatch.setattr("delassus.errors.PATIENCE", 0.0)
    for announced in (1, 0):
        function = runtime_loops.compiled_for("six times as much")(_six_times)
        assert (function(1.0), function(2.0)) == (6.0, 12.0)
        said = [line.removeprefix("delassus: ") for line in capsys.readouterr().err.splitlines()]
        assert bool(said) == bool(announced and is_terminal and not listens)
        said += caplog.messages
        caplog.clear()
        wanted = ["compiling six times as much …", "compiled in "] if announced and (is_terminal or listens) else []
        assert [line.rstrip("0123456789.s ") for line in said] == [line.rstrip() for line in wanted]


@compiled
def _twice(x):
    return 2.0 * x


def _six_times(x):
    return 3.0 * _twice(x)


CHECKS = """
import sys
import numpy as np
import delassus as ds
from delassus.contact import *
from delassus.compiler.jit.compile import compiled

sys.path.insert(0, TESTS)
from test_piles import robot_between_planes
from test_terrain import closed, grid

rng, half = np.random.default_rng(0), np.full(3, 0.1)
CUBE = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * half
STONE, SURFACE = Mesh(0.1 * rng.normal(size=(30, 3))), closed(CUBE)
SHAPES = (Sphere(.1), Capsule(.1, .1), Cylinder(.1, .2), Box(*2 * half), Mesh(.2 * (np.eye(4, 3) - .25)))
CROWD = 2 * (*SHAPES, Mesh(CUBE), Ellipsoid(.1, .12, .08), STONE, SURFACE, SURFACE)
ground = grid(7, 2.0, rng, lambda x, y: 0.05 * np.cos(7 * x) * np.cos(9 * y))

def run(robots, solids, place, seconds, **options):
    scene = ds.Scene(robots, [*solids, Collider("world", HalfSpace())])
    sim = ds.Simulator(scene, q0=place, dt=4e-3, max_overlap=1.0, **options)
    sim.run(seconds)
    assert len(sim.contacts) and np.isfinite(sim.q).all()

# all shapes, light and heavy, fall onto terrain and one another
bodies = {f"b{k}": ds.mechanisms.free_body(10.0 ** (k % 4), 0.01 * np.eye(3)) for k in range(len(CROWD))}
solids = [Collider(f"b{k}/body", shape, friction=0.5, restitution=0.2 * (k % 2)) for k, shape in enumerate(CROWD)]
turns = rng.normal(size=(len(CROWD), 4))
turns /= np.linalg.norm(turns, axis=1, keepdims=True)
places = [[*rng.uniform(-.3, .3, 2), .4 + .15 * k, *turn] for k, turn in enumerate(turns)]
run(bodies, [*solids, Collider("world", ground, (0, 0, 0.1))], np.concatenate(places), 1.0, sleep=0.1)

for seed in (3, 9):  # limits, friction and loops of joints
    scene, rng = robot_between_planes(seed)
    sim = ds.Simulator(scene, q0=scene.tree.neutral(), dt=1e-2, max_overlap=100.0)
    for trial in range(4):
        sim.set_state({**sim.get_state(), "q": scene.tree.random(rng), "v": rng.normal(size=scene.tree.nv)})
        sim.step()

for formulation, solver in ((None, None), ("os", "nsgs"), ("os", "lemke"), ("nmc", "pgs"), ("os", "admm")):
    robots, solids = {"arm": ds.mechanisms.chain(4)}, [Collider("arm/link4", Sphere(.1), restitution=.5)]
    for k, shape in enumerate(SHAPES[:5 if formulation is None else 2]):
        robots[f"b{k}"] = ds.mechanisms.free_body(1.0, 0.01 * np.eye(3))
        solids.append(Collider(f"b{k}/body", shape, restitution=0.3 * (k % 2)))
    place = ds.Scene(robots, solids).tree.neutral()
    for k in range(len(robots) - 1):
        place[4 + 7 * k:7 + 7 * k] = [0.1 * k, 0.05 * k, 0.25 + 0.25 * k]
    options = {} if formulation is None else {"formulation": formulation, "solver": solver}
    run(robots, solids, place, 0.3 if formulation is None else 0.1, **options)

@compiled
def outside(x, k):
    return x[k]

try:
    outside(np.ones(3), 3)
except IndexError as error:
    print(error)
"""


@pytest.mark.slow
def test_no_loop_leaves_its_arrays(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Collisions of all shapes, impacts, contacts and solvers with every index compared to its axis."""
    script = tmp_path / "checks.py"
    text = CHECKS.replace("TESTS", repr(str(Path(__file__).parent)))
    script.write_text(text)
    environment = {**os.environ, "DELASSUS_CHECK_LOOPS": "1", "DELASSUS_COMPILE": "never"}  # not optimised
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=240)
    line = text.split("\n").index("    return x[k]") + 1
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"outside: outside of an array at line {line}" in run.stdout
