"""The evaluator of programs, to the bit beside the interpreter that defines what operations mean."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import delassus as ds
from internals import Evaluated, TraceOps, laid_out
from programs import HAS_FMA, at_a_wall, graphs, plain_program, reference, same, table_of_operations
from test_loops import CASES, program_of, random_calls, states
from tools import traced

DTYPES = ("float64", "float32")

pytestmark = pytest.mark.skipif(not HAS_FMA, reason="no fused multiply-add on this machine")


class Runs:
    """A program by the evaluator, as a function of arrays of its arguments (n, …)."""

    def __init__(self, program, dtype):
        self.program, self.dtype = program, np.dtype(dtype)
        sizes = tuple(x.size for x in (*program.arguments, *program.results))
        self.evaluated = Evaluated(laid_out(program), sizes, len(program.arguments), dtype)
        kinds = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        self.span = ctypes.CFUNCTYPE(None, *kinds)(self.evaluated.address("span"))

    def __call__(self, *arguments, first=0, n=None, behind=False):
        given = [at_a_wall(np.ascontiguousarray(x, self.dtype), behind) for x in arguments]
        states = len(given[0])
        found = [at_a_wall(np.full((states, *r.shape), 77, self.dtype), behind) for r in self.program.results]
        places = (ctypes.c_int64 * len([*given, *found]))(*(x.ctypes.data for x in (*given, *found)))
        self.span(places, first, states - first if n is None else n)
        return found


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
    run = Runs(program, dtype)
    for n in some_numbers(dtype):
        same(run(x[:n])[0], reference(program, x[:n])[0])


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
