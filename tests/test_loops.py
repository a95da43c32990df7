"""Programs with loops: what the interpreter, C, CasADi and machine code make of parts that are repeated."""

from __future__ import annotations

import ctypes
import itertools
import re
import subprocess
from functools import cache, lru_cache

import casadi as ca
import numpy as np
import pytest

import delassus as ds
from delassus import Point, Weld, mechanisms
from delassus.compiler.program import stages, workspace_slots
from delassus.compiler.program.stages import cut
from internals import (
    Argument,
    CallingTraceOps,
    NumpyOps,
    Op,
    Program,
    Result,
    TraceOps,
    c,
    casadi_function,
    host,
    interpret,
    interpret_program,
    llvm_module,
    make_program,
    optimise,
    without_calls,
)
from programs import FUSING, at_a_wall, loaded, same
from tools import requested

N = 4


def root_by_newton(ops, x):
    """Square roots by Newton's method, until a pass changes little."""

    def body(values):
        (y,) = values
        new = 0.5 * (y + x[0] / y)
        change = new - y
        return [new], ops.less(change * change, 1e-20)

    (y,) = ops.repeat(60, [1.0 + x[0]], body)
    return [y, y * x[1]]


def swapped(ops, x):
    """Values that take each other's place: all are set at once, after a pass; one is never set, one is a constant."""

    def body(values):
        a, b, c, d = values
        return [b, a + x[2] * d, c, 2.0], 0.0

    return ops.repeat(5, [x[0], x[1], x[3], 1.0], body)


def two_loops(ops, x):
    """The second loop starts from the first one and reads what the first one reads; each state stops for itself."""
    shared = x[0] * x[1] + 1.0

    def first(values):
        y = values[0] + shared
        return [y], ops.less(3.0 + x[2], y)

    def second(values):
        y, k = values
        y = ops.maximum(y * 0.5, ops.minimum(x[3], shared))
        return [ops.select(ops.less(k, 2.0), y - 1.0, y), k + 1.0], ops.less(x[3], k)

    (y,) = ops.repeat(40, [x[2]], first)
    middle = y * shared + x[1]
    z, k = ops.repeat(7, [middle, 0.0], second)
    return [z, k, y, middle * z, x[0] * x[3], x[1]]


def once(ops, x):
    """One pass."""
    return ops.repeat(1, [x[0], x[1]], lambda values: ([values[1], values[0] * x[2]], 1.0))


def not_at_all(ops, x):
    """No pass where it is not wanted: in some states, and in all of them."""

    def body(values):
        return [values[0] * x[2] + 1.0], ops.less(20.0, values[0])

    (y,) = ops.repeat(5, [x[0]], body, ops.less(x[0], x[1]))
    (z,) = ops.repeat(5, [x[3] * y], body, ops.less(x[0], 100.0))
    return [y, z]


def long_body(ops, x):
    """More operations than one function holds, and more values than there are registers."""

    def body(values):
        values = list(values)
        for k in range(90):
            for i in range(N * 8):
                values[i] = values[i] + 0.25 * values[(i * 7 + k) % (N * 8)] * x[(i + k) % N]
        scale = 1.0 / (1.0 + values[0] * values[0])
        return [v * scale for v in values], ops.less(1.5 * x[0], values[1])

    return ops.repeat(6, [(0.1 * i) + x[i % N] for i in range(N * 8)], body)


def tiles(ops, x):
    """Products of dense blocks and of what is sparse, one from the result of the other, and what a body shares."""
    A = ops.matrix([[x[i % N] + 0.1 * i * x[j % N] if i < 10 or j < 5 else 0.0 for j in range(11)] for i in range(19)])
    B = ops.matrix([[x[j % N] - 0.2 * i if j != 3 or i == 2 else 0.0 for j in range(9)] for i in range(11)])
    y = ops.product(A, B)
    return [z for row in ops.entries(ops.product(y, ops.transpose(y))) for z in row]


def rows_of_a_body(ops, x):
    """What rows share, constants that differ, results that are operands, constants, or the same in all rows."""

    def body(a, b):
        ((p, q),), ((r, s),) = ops.entries(a), ops.entries(b)
        made = p * r + x[0] * q
        return [ops.matrix([[made, s, 3.0, x[1] * x[2], ops.sqrt(q * q + 1.0) * s + made]])]

    rows = [(ops.matrix([[x[k % N], 0.5 * k]]), ops.matrix([[x[3], x[1] - k]])) for k in range(7)]
    first = [ops.entries(found)[0] for (found,) in ops.map(body, rows)]
    again = [(ops.matrix([[row[0], row[4]]]), ops.matrix([[2.0, row[1]]])) for row in first]
    return [y for (found,) in ops.map(body, again) for y in ops.entries(found)[0]]


def results_that_nothing_reads(ops, x):
    """Of most rows two results are not read, of the others calls read them."""

    def body(a):
        p, q, r = ops.entries(a)[0]
        return [ops.matrix([[p * q + x[0], p - q * x[1], r * r + q]])]

    rows = [(ops.matrix([[x[k % N], x[3] - k, x[1] + k]]),) for k in range(12)]
    first = [ops.entries(made)[0] for (made,) in ops.map(body, rows)]
    again = ops.map(body, [(ops.matrix([row]),) for row in first[:3]])
    return [*(y for y, *_ in first[3:]), *(y for (made,) in again for y in ops.entries(made)[0])]


def loop_from_calls(ops, x):
    """A loop that starts from what calls give alone, reads it, and has products in its body."""
    A = ops.matrix([[x[(i + j) % N] + 0.1 * i for j in range(8)] for i in range(8)])
    entries = [y for row in ops.entries(ops.product(A, A)) for y in row]

    def body(values):
        B = ops.matrix([values[k : k + 8] for k in range(0, 64, 8)])
        found = [y for row in ops.entries(ops.product(B, A)) for y in row]
        return [0.01 * y + z for y, z in zip(found, entries, strict=True)], ops.less(2.0, x[0])

    return ops.repeat(3, entries, body, ops.less(x[1], 0.5))


def loops_in_place(ops, x):
    """Starts from calls, from before them and from a loop: read by one loop alone, twice, in bodies and afterwards."""
    A = ops.matrix([[x[(i + j) % N] - 0.1 * i for j in range(8)] for i in range(8)])
    made, early = [y for row in ops.entries(ops.product(A, A)) for y in row], [y * x[2] + 1.0 for y in x]

    def body(values):
        return [*values[1:], 0.5 * values[0] + values[2] * x[1]], ops.less(2.0, x[0])

    first = ops.repeat(3, [*made[:60], made[0], *early[:3]], body, ops.less(x[1], 0.5))
    second = ops.repeat(2, [*first[:40], early[3], early[2], made[62]], body, ops.less(x[0], x[1]))
    third = ops.repeat(1, [*second[:20], first[41]], lambda values: ([y + made[61] for y in values], 1.0))
    return [*third, first[40], second[21], second[-1], made[63], early[0]]


def a_pass_that_few_want(ops, x):
    """A single pass reads what nothing else reads, what a second one reads as well, and what follows it."""
    own, both, after = (ops.sqrt(x[k] * x[1] + 2.0) * x[2] for k in range(3))

    def body(values):
        return [values[0] * own + both, values[1] - own * after], 1.0

    first = ops.repeat(1, [x[0], x[1] * x[2]], body, ops.less(x[0], 2.0))
    second = ops.repeat(1, first, lambda values: ([y * both for y in values], 1.0), ops.less(x[1], x[0]))
    return [*second, after]


def calls_in_passes(ops, x):
    """Single passes with calls, which read values of one another, of the pass and from before; one that none wants."""
    A = ops.matrix([[x[(i + j) % N] - 0.1 * i for j in range(8)] for i in range(8)])
    early = [ops.sqrt(y + 1.0) * x[0] for y in x]

    def halved(values):
        return [0.5 * values[0] + early[2]], ops.less(values[0], 0.1)

    def body(values):
        B = ops.matrix([values[k : k + 8] for k in range(0, 64, 8)])
        found = ops.product(ops.product(A, A), B)
        each = [[ops.take(found, (k,), None)] for k in range(8)]
        rows = ops.map(lambda row: [row @ ops.transpose(row), row @ A], each)
        (y,) = ops.repeat(9, [early[1] * values[1]], halved)
        sizes = [ops.entries(size)[0][0] * early[3] for size, _ in rows]
        also_after = ops.map(lambda a: [a @ ops.transpose(a)], [[ops.matrix([[early[k], x[k]]])] for k in range(4)])
        y = y + sum(ops.entries(made)[0][0] for (made,) in also_after)
        return [*sizes, y, *(z for _, row in rows[1:] for z in ops.entries(row)[0][:7]), *values[58:]], 1.0

    start = [0.1 * k + x[k % N] for k in range(64)]
    first = ops.repeat(1, start, body, ops.less(x[0], x[1]))
    second = ops.repeat(1, [*first[1:], x[2]], body, ops.less(x[1], 100.0))
    third = ops.repeat(1, second[:3], lambda values: ([y * first[0] for y in values], 1.0), ops.less(x[0], x[2]))
    return [*third, *second[3:], early[0]]


def sines_of_results(ops, x):
    """Sines of arguments, of what a loop gives, of what calls give and of what they are given."""
    (y,) = ops.repeat(3, [0.1 * x[0]], lambda values: ([0.5 * values[0] + 0.1 * x[1]], ops.less(values[0], 0.1 * x[2])))
    rows = [[ops.matrix([[0.1 * scale * z for z in x]])] for scale in (1.0, 0.5, 0.7)]

    def body(row):
        ((first, *_),) = ops.entries(row)
        return [row @ ops.transpose(row), ops.matrix([[ops.sin(first)]])]

    found = [ops.entries(one)[0][0] for made in ops.map(body, rows) for one in made]
    z = found[4]
    return [*found, *(f(value) for value in (x[3], y, z, x[1]) for f in (ops.sin, ops.cos))]


CASES = [
    root_by_newton, swapped, two_loops, once, not_at_all, long_body, tiles, rows_of_a_body,
    results_that_nothing_reads, loop_from_calls, loops_in_place, a_pass_that_few_want, sines_of_results,
    calls_in_passes,
]  # fmt: skip


@lru_cache(maxsize=len(CASES))
def program_of(algorithm):
    ops = CallingTraceOps()
    x = ops.vector(N, [0.5, 0.6, 0.7, 0.8])
    outputs = [ops.number(y) for y in algorithm(ops, x)]
    before, graph = cut(ops.graph([outputs]), ops.loops, N, optimise)
    results = (Result("y", (len(outputs),), tuple(range(len(outputs)))),)
    return Program(algorithm.__name__, graph, (Argument("x", (N,)),), results, before=before)


def states(n=37, dtype=float):
    return np.random.default_rng(0).uniform(0.1, 4.0, (n, N)).astype(dtype)


@cache
def wanted_of(algorithm, dtype="float64"):
    """What the interpreter makes of the states."""
    (wanted,) = interpret_program(program_of(algorithm), states(dtype=dtype))
    return wanted


class AtOnce(NumpyOps):
    """Loops as Python has them."""

    def repeat(self, times, start, body, unless=0.0):
        values, stopped = list(start), np.asarray(unless)
        for _ in range(times):
            following, stop = body(values)
            values = [self.select(stopped, old, new) for old, new in zip(values, following, strict=True)]
            stopped = np.maximum(stopped, stop)
        return values


def by_numpy(algorithm, x):
    found = algorithm(AtOnce(x.dtype), [x[:, k] for k in range(N)])
    return np.stack([np.broadcast_to(y, len(x)) for y in found], axis=-1)


@pytest.mark.parametrize("algorithm", CASES)
def test_the_interpreter_does_what_the_algorithm_does_at_once(algorithm):
    np.testing.assert_allclose(wanted_of(algorithm), by_numpy(algorithm, states()), rtol=1e-12)


@pytest.mark.parametrize("algorithm", CASES)
def test_a_state_does_not_depend_on_its_batch_mates(algorithm):
    x, program, whole = states(), program_of(algorithm), wanted_of(algorithm)
    for some in (slice(1), slice(17, 18), slice(20, None)):
        same(interpret_program(program, x[some])[0], whole[some])


def test_values_of_a_loop():
    x = states()
    y = by_numpy(root_by_newton, x)[:, 0]
    np.testing.assert_allclose(y, np.sqrt(x[:, 0]), rtol=1e-14)
    a, b, x2, d = x[:, 0].copy(), x[:, 1].copy(), x[:, 2], np.ones(len(x))
    for _ in range(5):
        a, b, d = b, a + x2 * d, 2.0 * np.ones(len(x))
    np.testing.assert_allclose(by_numpy(swapped, x), np.stack([a, b, x[:, 3], d], axis=-1))


def test_what_does_not_change_in_a_loop_is_computed_before_it():
    program = program_of(two_loops)
    first, loop, *_ = program.before
    assert loop.times == 40 and loop.graph.count().total <= 4
    assert program.count().total == sum(max(1, s.times) * s.graph.count().total for s in program.before) + (
        program.graph.count().total
    )
    count = first.graph.count()
    assert count.mul + count.fma == 2


def test_what_only_a_single_pass_reads_is_computed_in_it():
    before, body, *_ = program_of(a_pass_that_few_want).before
    assert body.times == 1 and [x.graph.count().sqrt for x in (before, body)] == [2, 1]


def test_passes_that_no_state_wants_run_no_calls():
    stages = program_of(calls_in_passes).before
    flags = [stage.unless for stage in stages if stage.calls]
    assert len(flags) >= 6 and None not in flags


def test_what_only_a_loop_starts_from_is_made_in_its_place():
    program = program_of(loops_in_place)
    copied = [t for stage in program.before for k, t in zip(stage.graph.flat_outputs(), stage.targets, strict=False)
              if not stage.is_loop and not stage.calls and stage.graph.op[k] == Op.INPUT]  # fmt: skip
    assert len(copied) < 20


@pytest.mark.slow
def test_values_that_are_read_no_more_give_their_slots_to_others(monkeypatch):
    """What is computed is the same to the last bit, in half of the slots."""
    tree = mechanisms.star(2, 4)
    asked = requested(tree, [Weld("branch1_4"), Point("branch2_4")], "dynamics_derivatives")
    shared = make_program(asked)
    monkeypatch.setattr(stages, "share_slots", lambda before, last, n_inputs: (before, last))
    apart = make_program(asked)
    assert shared.n_values < 0.55 * apart.n_values
    assert {x for stage in shared.before for x in stage.targets} == set(
        range(shared.n_inputs, shared.n_inputs + shared.n_values)
    )
    x = np.random.default_rng(3).normal(size=(5, shared.n_inputs))
    for this, that in zip(interpret_program(shared, x), interpret_program(apart, x), strict=True):
        same(this, that)


def test_runs_of_values_go_to_the_first_places_that_are_free():
    rng = np.random.default_rng(0)
    for _ in range(100):
        free_from, n, stage = rng.integers(0, 4, 20), int(rng.integers(1, 4)), int(rng.integers(1, 4))
        free_from[-n:] = 0  # there is always room behind the last
        first = next(k for k in range(20) if (free_from[k : k + n] <= stage).all())
        assert workspace_slots._first_fit(free_from, stage, n) == first


@pytest.mark.slow
@pytest.mark.parametrize(("lanes", "scalar"), [(1, "double"), (2, "float"), (8, "double"), (8, "float")])
@pytest.mark.parametrize("algorithm", CASES)
def test_machine_code(algorithm, lanes, scalar):
    program, cpu = program_of(algorithm), host()
    dtype = np.float64 if scalar == "double" else np.float32
    code = loaded(llvm_module(program, scalar, lanes, cpu.vector_registers, cpu.has_fma))
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(code.address("batch"))
    x, wanted = states(dtype=dtype), wanted_of(algorithm, np.dtype(dtype).name)
    for n in (lanes, 8, 37):
        found, given = at_a_wall(np.full((n, *wanted.shape[1:]), np.nan, dtype)), at_a_wall(x[:n])
        run(n, given.ctypes.data, found.ctypes.data)
        same(found, wanted[:n])


def random_calls(seed):
    """Calls whose columns are treated alike, or all but one; operands side by side, permuted, picked, or shared."""

    def algorithm(ops, x):
        rng = np.random.default_rng(seed)
        width, n, odd, other = int(rng.choice([3, 4, 6, 8])), int(rng.integers(2, 11)), seed // 5 - 1, seed % 5
        order, way = rng.permutation(width), rng.choice(["block", "permuted", "picked"])
        if rng.random() < 0.5:  # its ends are where they would be
            order[:] = [0, 2, 1, *range(3, width)]
        pool = [(1.0 + 0.1 * k) * x[k % N] + 0.2 * x[(k + 1) % N] for k in range(n + width + 2)]
        kinds = [
            lambda a, t: 0.5 * (a + t) * a, lambda a, t: 0.25 * (a + t) * a, lambda a, t: 0.5 * (a - t) * a,
            lambda a, t: 0.5 * (a + t) * t, lambda a, t: 0.5 * a * t + a,
        ]  # fmt: skip

        def body(row, shared):
            ((*entries,),), ((t,),) = ops.entries(row), ops.entries(shared)
            return [ops.matrix([[kinds[other if j == odd else 0](a, t) for j, a in enumerate(entries)]])]

        def chosen(values, k):
            block = values[k : k + width] if k + width <= len(values) else values[:width]
            if way == "picked":
                return [values[i] for i in rng.integers(0, len(values), width)]
            return [block[i] for i in order] if way == "permuted" else block

        shared = [pool[i] for i in rng.integers(0, 2, n)]
        rows = [(ops.matrix([chosen(pool, k)]), ops.matrix([[shared[k]]])) for k in range(n)]
        found = [ops.entries(made)[0] for (made,) in ops.map(body, rows)]
        again = [(ops.matrix([chosen(found[k], 0)]), ops.matrix([[shared[0]]])) for k in range(n)]
        return [y for row in (*found, *(ops.entries(made)[0] for (made,) in ops.map(body, again))) for y in row]

    algorithm.__name__ = f"random_calls{seed}"
    return algorithm


@pytest.mark.parametrize("seed", range(25))
def test_what_random_calls_make_without_them(seed):
    """Graphs in which what is called is made for each row that is read, to the bit."""
    ops = CallingTraceOps()
    outputs = [ops.number(y) for y in random_calls(seed)(ops, ops.vector(N, [0.5, 0.6, 0.7, 0.8]))]
    outputs = outputs[seed % 7 :: seed % 7 or 1]
    graph, x = ops.graph([outputs]), states(3)
    flat, place = without_calls(graph)
    x = np.concatenate([x, np.full((3, flat.a[flat.op == Op.INPUT].max() + 1 - N), np.nan)], axis=1)
    assert not flat.calls and flat.outputs[0].tolist() == [place[k] for k in outputs]
    np.testing.assert_array_equal(interpret(flat, x)[0], interpret(graph, x)[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_one_state_code_of_random_calls(seed):
    program, cpu, x = program_of(random_calls(seed)), host(), states(3)
    code = loaded(llvm_module(program, "double", 1, cpu.vector_registers, cpu.has_fma))
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(code.address("batch"))
    wanted = by_numpy(random_calls(seed), x)
    found, given = at_a_wall(np.full(wanted.shape, np.nan)), at_a_wall(x)
    run(len(x), given.ctypes.data, found.ctypes.data)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("algorithm", CASES)
def test_workspaces_hold_what_waits_in_them(algorithm):
    """In one-state code, of few registers: operands of calls that run on vectors are several numbers."""
    text = llvm_module(program_of(algorithm), "double", 1, 7, True)
    (size,) = map(int, re.findall(r"%w = alloca double, i64 (\d+)", text))
    for function in text.split("\ndefine "):
        places = {name: int(k) for name, k in re.findall(r"(%\d+) = getelementptr double, ptr %w, i64 (\d+)", function)}
        wide = set(re.findall(r"<4 x double>(?: %\d+)?, ptr (%\d+)", function))
        assert all(k + (4 if name in wide else 1) <= size for name, k in places.items())


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(6,), (2, 4), (1, 1, 1, 1, 1), (7, 2, 1)])
def test_sines_of_one_state(sizes):
    """Four at once, of any set of inputs: with gaps, and across the ends of arguments."""
    n, cpu = sum(sizes), host()
    rng = np.random.default_rng(n)
    arguments = tuple(Argument(f"x{k}", (size,)) for k, size in enumerate(sizes))
    values = [at_a_wall(rng.uniform(-4, 4, size)) for size in sizes]
    x = np.concatenate(values)
    sets = [chosen for chosen in itertools.product((False, True), repeat=n) if any(chosen)]
    for chosen in sets if n < 7 else [sets[k] for k in rng.integers(0, len(sets), 64)]:
        ops, angles = CallingTraceOps(), np.flatnonzero(chosen)
        inputs = [y for size in sizes for y in ops.vector(size)]
        pairs = [y for k in angles for y in (ops.sin(inputs[k]), ops.cos(2.0 * inputs[k]), ops.cos(inputs[k]))]
        outputs = [ops.number(y) for y in pairs]
        results = (Result("y", (len(outputs),), tuple(range(len(outputs)))),)
        program = Program("sines", optimise(ops.graph([outputs])), arguments, results)
        code = loaded(llvm_module(program, "double", 1, cpu.vector_registers, cpu.has_fma))
        run = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (len(sizes) + 1))(code.address("batch"))
        found = np.full(len(outputs), np.nan)
        run(1, *(value.ctypes.data for value in values), found.ctypes.data)
        wanted = np.stack([np.sin(x), np.cos(2 * x), np.cos(x)], axis=1)[angles]
        assert np.abs(found.reshape(-1, 3) - wanted).max() < 1e-15, angles


@pytest.mark.parametrize("scalar", ["double", "float"])
@pytest.mark.parametrize("lanes", [1, 2, 4, 8])
def test_arrays_and_batches_of_every_size(lanes, scalar):
    """Fewer numbers a state than there are lanes, as many and more; every number of states that ends a block."""
    ops, cpu = TraceOps(), host()
    sizes = (1, 2, 3, 4, 5, 7, 8, 9, 17)
    made = [ops.number(2.0 * y + 1.0) for size in sizes for y in ops.vector(size)]
    arguments = tuple(Argument(f"x{size}", (size,)) for size in sizes)
    ends = np.cumsum(sizes)
    results = tuple(Result(f"y{n}", (n,), tuple(range(end - n, end))) for n, end in zip(sizes, ends, strict=True))
    program = Program("sizes", ops.graph([made]), arguments, results)
    dtype = np.float64 if scalar == "double" else np.float32
    code = loaded(llvm_module(program, scalar, lanes, cpu.vector_registers, cpu.has_fma))
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 2 * len(sizes))(code.address("batch"))
    for n, behind in itertools.product(range(lanes, 5 * lanes + 2), (False, True)):
        given = [at_a_wall(np.random.default_rng(n).normal(size=(n, size)).astype(dtype), behind) for size in sizes]
        found = [at_a_wall(np.full(x.shape, np.nan, dtype), behind) for x in given]
        run(n, *(a.ctypes.data for a in (*given, *found)))
        for x, y in zip(given, found, strict=True):
            np.testing.assert_allclose(y, 2.0 * x + 1.0, rtol=1e-6)


@pytest.mark.parametrize("scalar", ["double", "float"])
@pytest.mark.parametrize("lanes", [1, 4])
def test_results_that_are_leaves(lanes, scalar):
    """Neighbours of one number, of one argument, equal, alone, of two arguments; long and short; signs of zeros."""
    ops, cpu = TraceOps(), host()
    x, y = ops.vector(40), ops.vector(5)
    zeros = [ops.number(0.0)] * 150
    pattern = [*x, *zeros, *x[7:16], *y, ops.number(2.0), *y[1:], *x[:3], *zeros[:5], *[x[3]] * 6, x[0] * y[0]]
    pattern += [*zeros[:9], x[1] * y[1], *zeros[:9], *reversed(x), *y, *x]
    made, n = [*map(ops.number, pattern), ops.number(7.0)], len(pattern)
    results = (Result("y", (n,), tuple(range(n))), Result("z", (33,), (44,) * 33), Result("w", (181,), (n,) * 181))
    program = Program("leaves", ops.graph([made]), (Argument("x", (40,)), Argument("y", (5,))), results)
    dtype = np.float64 if scalar == "double" else np.float32
    code = loaded(llvm_module(program, scalar, lanes, cpu.vector_registers, cpu.has_fma))
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * 5)(code.address("batch"))
    for n in (lanes, 9):
        given = np.random.default_rng(n).normal(size=(n, 45)).astype(dtype)
        given[:, ::4] = -0.0
        x, y = at_a_wall(given[:, :40]), at_a_wall(given[:, 40:])
        found = [at_a_wall(np.full((n, *r.shape), np.nan, dtype)) for r in results]
        run(n, *(a.ctypes.data for a in (x, y, *found)))
        (wanted,) = interpret_program(program, given)
        for this, result in zip(found, results, strict=True):
            same(this, wanted[:, list(result.entries)])


def test_code_of_sparse_results_grows_with_their_rows():
    """A mass matrix of free bodies is almost all zeros: written one by one, LLVM took minutes for them."""
    rod, found = ds.mechanisms.free_body(0.3, [1e-4, 1e-3, 1e-3]), []
    for n in (4, 8, 16):
        rope = ds.Scene({f"rod{k}": rod for k in range(n)}, []).tree
        joints = [
            ds.Point(ds.Frame(f"rod{k}/body", (0.1, 0, 0)), ds.Frame(f"rod{k + 1}/body", (-0.1, 0, 0)))
            for k in range(n - 1)
        ]
        program = make_program(requested(rope, joints, "joint_space_motion"))
        code = llvm_module(program, "double", lanes=4, registers=16, has_fma=True)
        lengths = [function.count("\n") for function in code.split("\ndefine ")]
        found.append((max(lengths), sum(lengths)))
    (_, few), (longest, some), (_, many) = found
    assert many - some < 2.2 * (some - few), found  # twice the rows; of numbers there are four times as many
    assert found[-1][0] < 2 * longest, found


@pytest.mark.slow
@pytest.mark.parametrize("scalar", ["double", "float"])
def test_c(tmp_path, scalar, monkeypatch):
    """Of float, in short functions."""
    if scalar == "float":
        monkeypatch.setattr(c, "PART", 25)
        monkeypatch.setattr(c, "UNCUT", 25)
    dtype = np.float64 if scalar == "double" else np.float32
    x = states(dtype=dtype)
    programs = [program_of(algorithm) for algorithm in CASES]
    sources = [c.write_c(program, tmp_path, scalar)[1] for program in programs]
    library = tmp_path / "loops.so"
    flags = [*FUSING, "-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, *map(str, sources), "-lm", "-o", str(library)], check=True, timeout=120)
    loaded = ctypes.CDLL(str(library))
    for algorithm, program in zip(CASES, programs, strict=True):
        wanted = wanted_of(algorithm, np.dtype(dtype).name)
        found = np.full_like(wanted, np.nan)
        function = getattr(loaded, f"{program.name}_batch")
        function(ctypes.c_size_t(len(x)), ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(found.ctypes.data))
        same(found, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", CASES[:-1])
def test_casadi(algorithm):
    function = casadi_function(program_of(algorithm))
    np.testing.assert_allclose(np.array(function(states().T)).T, wanted_of(algorithm), rtol=1e-12)
    assert isinstance(function, ca.Function)
