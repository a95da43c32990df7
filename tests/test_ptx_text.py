"""Kernels from their PTX, by an interpreter of it: the numbers of the interpreter of programs, to the bit."""

from __future__ import annotations

import re

import numpy as np
import pytest

import delassus as ds
from emulated_gpu import assembly_of, ptx
from programs import plain_program, reference, same, table_of_operations
from ptx_interpreter import Module
from test_threads_text import given
from tools import traced

DTYPES = ("float64", "float32")
KINDS, TABLE, SPECIAL = table_of_operations()


def from_ptx(program, arguments, threads=64, steps=1, least=-np.inf):
    """Results of a launch, at arguments (n, …) that are the same at each step."""
    dtype, n = arguments[0].dtype, len(arguments[0])
    module = Module(ptx(assembly_of(program, dtype.name)))
    arrays = {f"a{k}": x for k, x in enumerate(arguments)}
    results = [np.full((steps, n, *r.shape), np.nan, dtype) for r in program.results]
    arrays |= {f"r{k}": y for k, y in enumerate(results)}
    values = [n, steps, int(dtype.type(least).view(f"u{dtype.itemsize}"))]
    for k in range(len(arguments)):
        values += [f"a{k}", 0]
    for k, y in enumerate(results):
        values += [f"r{k}", y[0].size]
    module.launch(-(-n // threads), threads, threads * 33 * dtype.itemsize, values, arrays)
    return [y[0] for y in results] if steps == 1 else results


@pytest.mark.parametrize("dtype", DTYPES)
def test_operations(dtype):
    program = plain_program(TABLE, 3)
    with np.errstate(over="ignore"):
        x = SPECIAL[::3].astype(dtype)
    (found,), (wanted,) = from_ptx(program, [x]), reference(program, x)
    for k in range(len(KINDS)):
        same(found[:, k], wanted[:, k])


def test_no_rounding_is_left_to_ptxas():
    """It may fuse products and sums that say nothing."""
    lines = ptx(assembly_of(traced(ds.mechanisms.chain(3), (), "step"), "float64")).splitlines()
    rounded = [line for line in lines if re.match(r"\s*(add|sub|mul|fma|div|sqrt)[.\w]*\.f(32|64)\b", line)]
    assert len(rounded) > 300 and all(".rn." in line for line in rounded)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "threads"), [(1, 32), (33, 64), (77, 96)])
def test_batches(dtype, n, threads):
    """Warps that are not full, blocks with a warp that has nothing to do, several blocks."""
    program = traced(ds.mechanisms.chain(6), [ds.Weld("link6")], "delassus")
    x = given(program, n, dtype)
    same(from_ptx(program, x, threads)[0], reference(program, *x)[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_many_tiles(dtype):
    """They are a loop, with a table of places."""
    program = traced(ds.mechanisms.chain(23), (), "mass_matrix")
    x = given(program, 33, dtype)
    same(from_ptx(program, x)[0], reference(program, *x)[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_steps_and_states_that_are_ill_conditioned(dtype):
    program = traced(ds.mechanisms.chain(3), (), "step")
    x = given(program, 40, dtype)
    *found, rcond = from_ptx(program, x, steps=2)
    for y, wanted in zip(found, reference(program, *x), strict=False):
        same(y[1], wanted)
        same(y[0], y[1])
    assert all(np.isnan(y).all() for y in from_ptx(program, x, least=2.0)) and (rcond <= 1.0).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("solver", ["nsgs"])
def test_contact_steps(dtype, solver):
    """Loops, which end thread by thread."""
    tree = ds.mechanisms.chain(3, root="floating")
    contact = ds.Contact(ds.Frame("link3", (0.0, 0.0, 0.1)), ds.contact.Sphere(0.5), friction=0.6)
    program = traced(tree, [contact], "contact_step", solver=solver, sweeps=20)
    x = given(program, 40, dtype)
    for a, values in zip(program.arguments, x, strict=True):
        if a.name == "q":
            values[:, 3:7] /= np.linalg.norm(values[:, 3:7], axis=1, keepdims=True)
        if a.name == "dt":
            values[:] = 0.01
    for y, wanted in zip(from_ptx(program, x), reference(program, *x), strict=True):
        same(y, wanted)


def test_what_is_unknown_is_an_error():
    program = plain_program(TABLE, 3)
    text = ptx(assembly_of(program, "float32"))
    x, y = np.ones((32, 3), np.float32), np.zeros((32, len(KINDS)), np.float32)
    for exact, other in (("sqrt.rn.f32", "sqrt.approx.f32"), ("add.rn.f32", "add.rn.ftz.f32")):
        module = Module(text.replace(exact, other))
        with pytest.raises(NotImplementedError, match=other):
            module.launch(1, 32, 32 * 33 * 4, [32, 1, 0, "x", 0, "y", 0], {"x": x, "y": y})
    with pytest.raises(AssertionError, match="global memory: an address beyond the ends"):
        Module(text).launch(1, 32, 32 * 33 * 4, [32, 1, 0, "x", 0, "y", 0], {"x": x[:31], "y": y})
    with pytest.raises(AssertionError, match="shared memory: an address beyond the ends"):
        Module(text).launch(1, 32, 31 * 33 * 4, [32, 1, 0, "x", 0, "y", 0], {"x": x, "y": y})
