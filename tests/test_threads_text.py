"""The text of kernels for GPUs, compiled for this processor and run thread by thread: the interpreter's bits."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest

import delassus as ds
from emulated_gpu import Kernel, Misuse, device_module, emulate, kernel_of
from generated_cases import Case
from internals import QUANTITIES, make_program
from programs import Argument, Graph, Op, Program, Result, plain_program, reference, same, table_of_operations
from tools import traced

DTYPES = ("float64", "float32")

ARM, HAND = ds.mechanisms.chain(6), [ds.Weld("link6")]
ARM_PROGRAM = traced(ARM, HAND, "delassus")
KINDS, TABLE, SPECIAL = table_of_operations()
TABLE_PROGRAM = plain_program(TABLE, 3)


@pytest.fixture(params=DTYPES)
def dtype(request):
    """Type of numbers."""
    return request.param


def given(program, n, dtype, seed=0):
    """Random arguments for n states."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1.5, 1.5, (n, *a.shape)).astype(dtype) for a in program.arguments]


def agree(program, arguments, **options):
    """Whether all bits are the interpreter's."""
    found = emulate(program, arguments, **options)
    for x, y in zip(found, reference(program, *arguments), strict=True):
        same(x, y)
    return found


# -- one launch ----------------------------------------------------------------------------------------------------


def test_operations(dtype):
    """Each of the table, at all special values."""
    with np.errstate(over="ignore"):
        x = SPECIAL.astype(dtype)
    (found,), (wanted,) = emulate(TABLE_PROGRAM, [x]), reference(TABLE_PROGRAM, x)
    for k in range(len(KINDS)):
        same(found[:, k], wanted[:, k])


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 64, 77])
def test_batches(dtype, n):
    """Of one warp and more, and of less; of one and several blocks; threads in several orders between waits."""
    program = ARM_PROGRAM
    for seed, threads in ((0, 64), (1, 32), (2, 96)):
        agree(program, given(program, n, dtype), seed=seed, threads=threads)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*contacts alone leave out:delassus.DelassusWarning")
@pytest.mark.parametrize(("name", "dtype"), [*zip(QUANTITIES, cycle(DTYPES))])
def test_quantities(name, dtype):
    """Generated ones: derivatives, steps, and contact steps, whose loops end state by state."""
    drawn = Case(name, 0, 1, derives=False, most=3)
    program, values = make_program(drawn.asked, dtype=dtype), drawn.states(33, dtype)
    agree(program, [np.ascontiguousarray(values[a.name]) for a in program.arguments], seed=2)


@pytest.mark.turns(6)
@pytest.mark.slow
@pytest.mark.parametrize("what", ["delassus", "dynamics", "dynamics_derivatives"])
@pytest.mark.parametrize("tree", [ds.mechanisms.asimo(), ds.mechanisms.chain(14)], ids=["asimo", "chain"])
def test_robots(dtype, tree, what):
    """Long programs, with arrays of more columns than a tile has, and more tiles than are unrolled."""
    links = [tree.link_names[-1], tree.link_names[len(tree.link_names) // 2]]
    program = traced(tree, [ds.Weld(link) for link in links], what)
    agree(program, given(program, 35, dtype), seed=3)


def test_a_nan_stays_in_its_own_state(dtype):
    program = ARM_PROGRAM
    (x,) = given(program, 40, dtype)
    clean = agree(program, [x])[0]
    x[[3, 35]] = np.nan
    spoilt = emulate(program, [x])[0]
    others = np.delete(np.arange(40), [3, 35])
    same(spoilt[others], clean[others])
    assert np.isnan(spoilt[[3, 35]]).all(axis=(1, 2)).all()


def test_states_that_are_ill_conditioned_give_nan(dtype):
    program = traced(ds.mechanisms.chain(7, root="floating"), [ds.Weld("link7")], "delassus_solution")
    assert program.results[-1].hidden
    x = given(program, 70, dtype)
    *found, rcond = agree(program, x)
    least = np.median(rcond)
    for y, kept in zip(emulate(program, x, least=least), [*found, rcond], strict=True):
        is_bad = rcond.reshape(70) < least
        assert 0 < is_bad.sum() < 70 and np.isnan(y[is_bad]).all()
        same(y[~is_bad], kept[~is_bad])


def test_arrays_of_no_numbers(dtype):
    """Results of no rows, and arguments of a robot that does not move."""
    result = Result("empty", (0,), ())
    program = replace(ARM_PROGRAM, results=(*ARM_PROGRAM.results[:1], result, *ARM_PROGRAM.results[1:]))
    assert agree(program, given(program, 40, dtype))[1].shape == (40, 0)


@pytest.mark.parametrize("seed", range(4))
def test_numbers_that_nothing_reads(dtype, seed):
    """Arguments of any size, up to more tiles than are unrolled, of which few numbers are read."""
    rng = np.random.default_rng(seed)
    sizes = [int(rng.choice((1, 3, 31, 32, 33, 511, 512, 513, 600))) for _ in range(3)]
    sizes[rng.integers(3)] = int(rng.integers(513, 700))
    starts = np.cumsum([0, *sizes])[:-1]
    read = {int(start + k) for start, size in zip(starts, sizes, strict=True) for k in (0, rng.integers(size))}
    n, nothing = len(read), np.full(2 * len(read), -1)
    op, a = np.repeat([Op.INPUT, Op.NEGATE], n), np.array([*sorted(read), *range(n)])
    graph = Graph(op, a, nothing, nothing, np.zeros(2 * n), (np.arange(n, 2 * n),))
    arguments = tuple(Argument(f"x{k}", (size,)) for k, size in enumerate(sizes))
    program = Program("few", graph, arguments, (Result("y", (n,), tuple(range(n))),))
    agree(program, given(program, 33, dtype, seed))


# -- steps in time -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 40])
def test_steps(dtype, n):
    """Arguments of each step, or the same at each; results of each."""
    program, steps = traced(ds.mechanisms.chain(4), [ds.Weld("link4")], "dynamics"), 3
    rng = np.random.default_rng(4)
    x = [rng.uniform(-1, 1, (steps, n, *a.shape)).astype(dtype) for a in program.arguments]
    x[1] = x[1][0]  # the same at each step
    found = emulate(program, x, steps=steps)
    for t in range(steps):
        for y, wanted in zip(found, reference(program, x[0][t], x[1], *[a[t] for a in x[2:]]), strict=True):
            same(y[t], wanted)


def test_a_step_reads_what_the_one_before_has_written(dtype):
    """An argument and a result in one array, a step apart, as in a rollout: all threads of a warp are as far."""
    tree, n, steps = ds.mechanisms.chain(3), 37, 5
    program = traced(tree, (), "step")
    names = [a.name for a in program.arguments]
    x = dict(zip(names, given(program, n, dtype, 2), strict=True))
    x["h"] = np.full_like(x["h"], 0.01) if "h" in x else None
    wanted, now = [], dict(x)
    for _ in range(steps):
        found = dict(zip([r.name for r in program.results], reference(program, *[now[k] for k in names]), strict=True))
        wanted.append(found)
        now |= {k: found[k + "_next"] for k in ("q", "v") if k + "_next" in found}
    states = {k: np.concatenate([x[k][None], np.full((steps, *x[k].shape), np.nan, dtype)]) for k in ("q", "v")}
    found = emulate(program, [x[k] for k in names], steps=steps, chained=states)
    for t in range(steps):
        for k, array in states.items():
            same(array[t + 1], wanted[t][k + "_next"])
    assert found


# -- what the emulation sees ---------------------------------------------------------------------------------------


def test_a_wait_that_is_missing_is_seen():
    """Some order of threads gives other numbers, NaN of the tile as a rule."""
    program = ARM_PROGRAM
    (x,) = given(program, 33, "float64")
    text, wait = device_module(program, "double"), "call void @llvm.nvvm.bar.warp.sync(i32 -1)"
    places = [k for k in range(len(text)) if text.startswith(wait, k)]
    wanted = emulate(program, [x])[0]
    for place in (places[0], places[2], places[4]):  # of an argument's tile, of a result's, and before its next
        broken = text[:place] + text[place + len(wait) :]
        found = [emulate(program, [x], assembly=broken, seed=seed)[0] for seed in (0, 1)]
        assert any(not np.array_equal(y, wanted) for y in found)


def test_threads_that_do_not_wait_for_all_are_seen():
    program = TABLE_PROGRAM
    text = device_module(program, "double").replace("sync(i32 -1)", "sync(i32 1)")
    with pytest.raises(Misuse, match="whole warp"):
        emulate(program, [SPECIAL], assembly=text)


def test_types_of_parameters():
    kernel = kernel_of(device_module(TABLE_PROGRAM, "float"))
    assert isinstance(kernel, Kernel)
    assert kernel.types == ["i64", "i64", "float", *["ptr addrspace(1)", "i64"] * 2]
