"""Compiled kernels, and everything around calling them; their numbers are held by `test_generated`."""

from __future__ import annotations

import copy
import ctypes
import gc
import inspect
import itertools
import multiprocessing
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import delassus as ds
from internals import (
    code,
    fastcall,
    llvm_module,
    llvm_parts,
    object_code,
)
from tools import requested

pytestmark = pytest.mark.usefixtures("machine_code")

DOUBLE = 1e-11
"""Relative to the largest entry: the same operations in another order, with fused multiply-adds."""


def error(G: np.ndarray, reference: np.ndarray) -> float:
    if not reference.size:
        return 0.0
    scale = np.max(np.abs(reference), axis=(-1, -2), keepdims=True)
    return float(np.max(np.abs(G - reference) / scale))


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 8])
def test_long_programs_are_cut(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DELASSUS_CACHE", "off")
    monkeypatch.setattr(llvm_parts, "PART", 300)
    tree, left = ds.mechanisms.star(3, 3), ds.Point(ds.Frame("branch1_3", (0.1, 0.05, -0.04)))
    constraints = [left, ds.Weld("branch2_3"), ds.Rows("branch3_3", 2)]
    q, K = tree.random(4, batch=19), np.random.default_rng(0).normal(size=(19, 2, 6))
    G = ds.compile(tree, constraints, method="pv-osim", lanes=lanes)(q, K)
    assert error(G, ds.delassus(tree, constraints, q, rows=[K])) < DOUBLE
    J = ds.compile(tree, constraints, "jacobian", lanes=lanes)(q, K)  # has outputs that are constants or inputs
    assert error(J, ds.jacobian(tree, constraints, q, rows=[K])) < DOUBLE


def test_what_others_compile_is_ordered_by_llvm_as_ever() -> None:
    """Its scheduler orders our code by parts, by an option of the whole process."""
    cpu, program = code.host(), code.make_program(requested(ds.mechanisms.chain(6), [ds.Weld("link6")], "delassus"))
    text = llvm_module(program, "double", 1, cpu.vector_registers, cpu.has_fma)
    as_ours = {"cpu": cpu.cpu, "features": cpu.features, "opt": 1, "reloc": "pic", "codemodel": "small"}
    target = llvm.Target.from_triple(cpu.triple).create_target_machine(**as_ours)
    before = bytes(target.emit_object(llvm.parse_assembly(text)))
    assert object_code(text) != before
    with pytest.raises(RuntimeError):
        object_code("no assembly")
    assert bytes(target.emit_object(llvm.parse_assembly(text))) == before


@pytest.fixture(scope="module")
def small() -> tuple[ds.Tree, list[object], np.ndarray, np.ndarray]:
    tree = ds.mechanisms.chain(4)
    constraints = [ds.Weld("link4")]
    q = tree.random(5, batch=64)
    return tree, constraints, q, ds.delassus(tree, constraints, q, method="dense")


def test_the_direct_entry_is_used_and_declines_the_rest(small) -> None:  # type: ignore[no-untyped-def]
    tree, constraints, q, reference = small
    kernel = ds.compile(tree, constraints)
    if not fastcall.supported():
        pytest.skip("this interpreter has no direct entry")
    out = np.empty((64, 6, 6))
    one = np.empty((6, 6))
    assert kernel.entry(q, out=out) is NotImplemented  # nothing is compiled yet
    kernel(q), kernel(q[0])
    assert kernel.entry(q, out=out) is out
    assert kernel.entry(q[3], out=one) is one
    assert error(one, reference[3]) < DOUBLE
    for wrong in (q[:, ::2], q.astype(np.float32), q[:3], q[None], "text", None, 1.0, q[:, :3].copy(), q.copy("F")):
        assert kernel.entry(wrong, out=out) is NotImplemented
    frozen = np.empty((64, 6, 6))
    frozen.setflags(write=False)
    assert kernel.entry(q, out=frozen) is NotImplemented
    most = fastcall.limit(kernel.operations.total, fastcall.MOST_ALONE, fastcall.HELD)
    more = np.resize(q, (most + 1, 4))  # than it takes
    assert kernel.entry(more) is NotImplemented is kernel.entry(more, out=np.empty((most + 1, 6, 6)))
    assert np.array_equal(kernel.entry(more[:most]), kernel(more, threads=1)[:most])


def misfits(x: np.ndarray) -> list[object]:
    """What stands for the numbers of an array, or for more or fewer, and is not to be read in its place."""
    found = [np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(x.dtype).reshape(x.shape), x[None], x[..., None]]
    if x.ndim:
        found += [np.asfortranarray(x), np.repeat(x, 2, -1), np.repeat(x, 2, -1)[..., ::2], x[..., :-1], x[::-1]]
    if x.ndim > 1:
        found += [np.repeat(x, 2, 0), x[:-1], x[:0]]
    found = [y for y in found if y.shape != x.shape or not (y.flags.c_contiguous and y.flags.aligned)]
    types = [">f8" if x.itemsize == 8 else ">f4", np.float32 if x.itemsize == 8 else np.float64, np.float16, int]
    return [*found, *map(x.astype, types), x.view(np.matrix if x.ndim == 2 else np.recarray), x.tolist(), 0.5, None]


@pytest.mark.skipif(not fastcall.supported(), reason="this interpreter has no direct entry")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_direct_entry_reads_and_writes_what_lies_as_it_should_and_nothing_else(dtype) -> None:  # type: ignore[no-untyped-def]
    step, rng = ds.compile(ds.mechanisms.chain(2), (), "step", dtype=dtype), np.random.default_rng(0)
    shapes = [(2,), (2,), (2,), (), (2,), (2,)]
    for batch in ((), (1,), (5,), (40,)):
        arrays = [rng.normal(size=(*batch, *shape)).astype(dtype) for shape in shapes]
        step(*arrays[:4])
        assert step.entry(*arrays[:4], out=tuple(arrays[4:])) is not NotImplemented
        for k, x in enumerate(arrays):
            for wrong in misfits(x):
                if type(wrong) is not float or shapes[k]:  # which stands for all states
                    given = [*arrays[:k], wrong, *arrays[k + 1 :]]
                    assert step.entry(*given[:4], out=tuple(given[4:])) is NotImplemented, (k, wrong)
                    if k >= 4 and type(wrong) is np.ndarray:
                        with pytest.raises(ds.DelassusError, match="writeable C-contiguous"):
                            step(*given[:4], out=tuple(given[4:]))
        fixed = [x.copy() for x in arrays]
        for x in fixed:
            x.setflags(write=False)
        assert step.entry(*fixed[:4], out=tuple(arrays[4:])) is not NotImplemented
        with pytest.raises(ds.DelassusError, match="writeable C-contiguous"):
            step(*fixed[:4], out=tuple(fixed[4:]))
        for k, j in [(k, j) for j in (4, 5) for k in range(6) if k != j]:  # side by side, or one reaches into the other
            sizes = arrays[k].size, arrays[j].size
            for shared in {0, 1, min(sizes)}:
                memory = rng.normal(size=sum(sizes)).astype(dtype)
                given = [*arrays]
                given[k] = memory[: sizes[0]].reshape(arrays[k].shape)
                given[j] = memory[sizes[0] - shared :][: sizes[1]].reshape(arrays[j].shape)
                found = step.entry(*given[:4], out=tuple(given[4:]))
                assert (found is NotImplemented) == (shared > 0), (k, j, shared)
                if shared:
                    with pytest.raises(ds.DelassusError, match="memory of its own"):
                        step(*given[:4], out=tuple(given[4:]))


@pytest.mark.skipif(not fastcall.supported(), reason="this interpreter has no direct entry")
def test_kernels_of_more_arrays_than_the_direct_entry_has_room_for_have_none(small) -> None:  # type: ignore[no-untyped-def]
    kernel = ds.compile(*small[:2])
    known = {
        name: getattr(kernel, name) for name in ("dtype", "operations", "code", "has_rcond", "lanes", "least_rcond")
    }
    for argument, most in (((), fastcall.SCALARS), ((1,), fastcall.MOST_ARRAYS - 2)):
        for n in (most, most + 1):
            arguments = (*kernel.arguments, *(replace(kernel.arguments[0], shape=argument) for _ in range(n)))
            made = SimpleNamespace(arguments=arguments, results=kernel.results, **known)
            assert (fastcall.direct_entry(made, print) is print) == (n > most)


@pytest.mark.skipif(not fastcall.supported(), reason="this interpreter has no direct entry")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_direct_entry_sees_each_state_that_is_not_solved(dtype) -> None:  # type: ignore[no-untyped-def]
    tree = ds.mechanisms.chain(2)
    kernel = ds.compile(tree, ds.JointRows({tree.joint_names[1]: 1.0}), "dynamics", dtype=dtype)
    part, n = fastcall.LEAST_PART, 2 * fastcall.LEAST_PART + 40
    q = tree.random(0, batch=n).astype(dtype)
    v = np.ones_like(q)
    expected = kernel(q, v, v)
    assert kernel.has_rcond and all(map(np.array_equal, kernel.entry(q, v, v), expected))
    for k in (0, 1, part - 1, part, part + 1, 2 * part - 1, 2 * part, n - 1):
        bad = q.copy()
        bad[k] = np.nan
        assert kernel.entry(bad, v, v) is NotImplemented, k


def test_batches_broadcast_as_numpy_has_it() -> None:
    """Of every argument: of fewer axes, of axes of one, with steps between states."""
    step, rng = ds.compile(ds.mechanisms.chain(2), (), "step"), np.random.default_rng(0)
    batches = [(), (1,), (3,), (2, 1), (1, 3), (2, 3)]
    given = {batch: rng.normal(size=(4, *batch, 4))[..., ::2] for batch in batches}
    for some in itertools.product(batches, repeat=3):
        q, v, tau = (given[batch][k] for k, batch in enumerate(some))
        whole = np.broadcast_shapes(*some)
        dt = rng.uniform(size=whole) if some[0] != some[1] else 0.1
        found = step(q, v, tau, dt)
        full = [np.ascontiguousarray(np.broadcast_to(x, (*whole, 2))) for x in (q, v, tau)]
        for x, y in zip(found, step(*full, np.broadcast_to(dt, whole).copy()), strict=True):
            assert x.shape == (*whole, 2) and np.array_equal(x, y), some


def test_a_free_threaded_interpreter_has_no_direct_entry(small, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Its objects are laid out otherwise; calls go the general way."""
    tree, constraints, q, reference = small
    monkeypatch.setattr(fastcall.sysconfig, "get_config_var", lambda name: int(name == "Py_GIL_DISABLED"))
    monkeypatch.setattr(fastcall, "supported", fastcall.supported.__wrapped__)  # what it has found is kept
    kernel = ds.compile(tree, constraints)
    assert kernel.entry(q) is NotImplemented
    assert error(kernel(q), reference) < DOUBLE and error(kernel(q[0]), reference[0]) < DOUBLE


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_direct_entry_makes_results_as_the_general_path_does(dtype) -> None:  # type: ignore[no-untyped-def]
    tree = ds.mechanisms.chain(3)
    step = ds.compile(tree, (), "step", dtype=dtype)
    if not fastcall.supported():
        pytest.skip("this interpreter has no direct entry")
    for batch in ((), (0,), (5,), (64,)):
        q = tree.random(0, batch).astype(dtype)
        v, dt = np.ones_like(q), np.full(batch, 0.1, dtype)
        general, found = step(q, v, v, dt, threads=1), step.entry(q, v, v, 0.1)  # a float for all states
        for x, y in zip(found, step.entry(q, v, v, np.float64(0.1)), strict=True):
            assert np.array_equal(x, y)
        for x, expected in zip(found, general, strict=True):
            assert type(x) is np.ndarray and str(x.flags) == str(expected.flags) and x.strides == expected.strides
            assert x.ctypes.data % 64 == expected.ctypes.data % 64 == 0 and np.array_equal(x, expected)
    changes, directions = step.derivative("jvp"), (v, q, v)
    expected = changes(q, v, v, np.full(64, 0.1, dtype), *directions, np.full(64, -0.7, dtype))
    assert all(map(np.array_equal, changes.entry(q, v, v, 0.1, *directions, -0.7), expected))
    counted = [sys.getrefcount(x) for x in (q, step.dtype)]
    for _ in range(100):
        step.entry(q, v, v, 0.1), step.entry(q, v, v), step.entry(np.nan, v, v, 0.1)
    assert max(sys.getrefcount(x) - n for x, n in zip((q, step.dtype), counted, strict=True)) < 50


def test_a_call_goes_through_the_entry_or_past_it(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    tree = ds.mechanisms.chain(7)
    kernel = ds.compile(tree, [ds.Weld("link7")], "dynamics")
    q, v = tree.random(0), np.linspace(-1, 1, 7)
    plain, out = kernel(q, v, v), kernel.empty_results()
    assert all(np.array_equal(x, y) for x, y in zip(plain, kernel(q, v, v, threads=1), strict=True))
    assert kernel(q, v, v, out=out) is out and all(np.array_equal(x, y) for x, y in zip(plain, out, strict=True))
    if fastcall.supported():
        assert type(type(kernel).__dict__["__call__"]).__name__ == "member_descriptor"
        watched = (q, v, out, *out)
        counted = [sys.getrefcount(x) for x in watched]
        for _ in range(100):
            kernel(q, v, v, out=out), kernel(q, v, v), kernel(list(q), v, v, out=out), kernel(q, v, tau=v)
        assert [sys.getrefcount(x) for x in watched] == counted
        kernel(*(np.tile(x, (2, 1)) for x in (q, v, v)))  # compiles
        with monkeypatch.context() as patch:  # what is converted first, and solved states' statuses, take it, too
            patch.setattr(ds.Kernel, "compute", None)
            made = [kernel(q.tolist(), v, v), kernel(q, v, tau=list(v)), kernel(np.stack([q, q], 1)[:, 0], v, v)]
            made += [kernel(q, v, v, threads=n) for n in (1, 2)] + [kernel(q, v, v.tolist(), threads=2, out=out)]
            assert made[-1] is out
            made += [kernel(q, v, v, return_status=True, **how) for how in ({}, {"threads": 2}, {"out": out})]
            assert all(x.status.shape == () and x.status == ds.DynamicsStatus.SOLVED for x in made[-3:])
            assert made[-1].qdd is out[0]
            assert all(np.array_equal(x, y) for found in made for x, y in zip(found, plain, strict=False))
            two = kernel([q, q], v, [v, v], return_status=True)
            assert two.status.tolist() == [ds.DynamicsStatus.SOLVED] * 2
        nothing = kernel(np.full(7, np.nan).tolist(), v, v, return_status=True).status
        assert nothing[()] == ds.DynamicsStatus.FAILED
    assert list(inspect.signature(kernel).parameters)[:3] == ["arguments", "out", "threads"]
    wrong = [((q, v), {}), ((q, v, v, v), {}), ((q, v, v, *out), {}), ((q, v, v), {"out": out[0]})]
    for given, named in [
        *wrong,
        ((q, v, v), {"out": (*out, v)}),
        ((q, v, v), {"out": list(out)}),
        ((q, v), {"out": v}),
        ((q, v, v), {"tau": out}),
    ]:
        with pytest.raises(ds.DelassusError):
            kernel(*given, **named)
    call, alive = kernel.__call__, weakref.ref(kernel)
    del kernel
    gc.collect()
    assert np.array_equal(call(q, v, v)[0], plain[0])
    del call
    gc.collect()
    assert alive() is None


def test_functions_own_what_python_reads_when_it_frees_them(small) -> None:  # type: ignore[no-untyped-def]
    """The garbage collector frees a kernel's parts in any order; a function then still reads its ``PyMethodDef``."""
    tree, constraints, _, _ = small
    kernel = ds.compile(tree, constraints)
    if not fastcall.supported():
        pytest.skip("no direct entry")
    for function in (kernel.entry, kernel.__call__):
        record = function.__self__[0]
        method = ctypes.c_void_p.from_address(id(function) + 16).value
        start = id(record) + bytes.__basicsize__ - 1
        assert not gc.is_tracked(record) and start < method < start + len(record)


def test_a_nan_spoils_its_own_state_only(small) -> None:  # type: ignore[no-untyped-def]
    tree, constraints, q, reference = small
    bad = q.copy()
    bad[[3, 40, 63], [1, 2, 3]] = np.nan, np.inf, np.nan
    with pytest.warns(ds.DelassusWarning, match=r"3 of 64 state\(s\)"):
        G = ds.compile(tree, constraints)(bad)
    spoiled = np.isnan(G).any(axis=(1, 2))
    assert spoiled.tolist() == [k in (3, 40, 63) for k in range(64)]
    assert error(G[~spoiled], reference[~spoiled]) < DOUBLE


@pytest.mark.slow
def test_several_results_are_a_named_tuple() -> None:
    """Of every way of calling, with the names of the declaration; it unpacks, indexes, pickles, and is a JAX pytree."""
    arm, tip = ds.mechanisms.pendulum(2), ds.JointRows({"rod1_joint": 1.0})
    step, q, controls = ds.compile(arm, tip, "step"), arm.random(0, batch=3), np.zeros((4, 2))
    given = (q, q, q, 0.001)
    out = step.empty_results(3)
    plain = tuple(np.empty_like(x) for x in out)
    assert step(*given, out=out) is out and step(*given, out=plain) is plain and np.array_equal(out.v_next, plain[1])
    kind, (_, second) = type(out), out
    many = [np.resize(x, (5000, 2)) for x in given[:3]]
    for found in (step(q[0], q[0], q[0], 0.001), step(*given), step(*given, threads=2), step(*many, 0.001)):
        assert type(found) is kind and found._fields == ("q_next", "v_next") == tuple(r.name for r in step.results)
        assert found.v_next is found[1] and isinstance(found, tuple) and len(found) == 2
    assert np.array_equal(second, step(*given).v_next) and gc.is_tracked(step(*given))
    asked = step(*given, return_status=True, return_error=True)
    assert asked._fields == ("q_next", "v_next", "status", "error") and asked.status[0].name == "SOLVED"
    for again in (pickle.loads(pickle.dumps(out)), copy.deepcopy(out), copy.copy(out), out._replace(q_next=q)):
        assert type(again) is kind and np.array_equal(again.v_next, out.v_next)

    assert ds.rollout(step, q, q, controls, 1e-3, return_status=True)._fields == ("q", "v", "status")
    path = ds.rollout(step, q, q, controls, 1e-3)
    assert path._fields == ("q", "v")
    K = np.zeros((4, 2, 4))
    assert ds.rollout(step, q, q, controls, 1e-3, feedback=K, nominal=path)._fields == ("q", "v", "controls")

    differentiated = ds.compile(arm, tip, "step_derivatives")
    assert ds.step_derivatives(arm, *given, tip)._fields == tuple(r.name for r in differentiated.results)
    of_inverse = ds.compile(arm, (), "inverse_dynamics").derivative("tangent_jacobian")
    assert ds.inverse_dynamics_derivatives(arm, q, q, q)._fields == tuple(r.name for r in of_inverse.results)
    assert ds.regressor(arm, q, q, q, outputs=["momentum", "tau"])._fields == ("momentum", "tau")
    for library in ("jax.numpy", "dask.array"):
        arrays = pytest.importorskip(library)
        with sys.modules["jax"].enable_x64(True) if library == "jax.numpy" else nullcontext():
            assert step(arrays.asarray(q), q, q, 0.001)._fields == ("q_next", "v_next")
            assert ds.rollout(step, arrays.asarray(q), q, controls, 1e-3)._fields == ("q", "v")
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        found = jax.jit(jax.vmap(lambda q: step(q, q, q, 0.001)))(q)
    assert type(found) is type(jax.tree.map(np.asarray, found)) is kind


@pytest.mark.skipif(not fastcall.supported(), reason="no direct entry")
def test_named_tuples_of_the_direct_entry_are_let_go() -> None:
    kernel, q = ds.compile(ds.mechanisms.chain(2), (), "energies"), np.zeros(2)
    kind = type(kernel(q, q))
    gc.collect()  # of other tests, whose kernels return the same
    before = sys.getrefcount(kind)
    kept = [kernel.entry(q, q) for _ in range(100)]
    assert sys.getrefcount(kind) == before + 100 and all(type(x) is kind for x in kept)
    array = weakref.ref(kept[0].kinetic)
    kept[0] = (kept,)  # a cycle, which the garbage collector takes apart
    del kept
    gc.collect()
    assert sys.getrefcount(kind) == before and array() is None


def test_many_threads_may_call_one_kernel(small) -> None:  # type: ignore[no-untyped-def]
    tree, constraints, q, reference = small
    kernel = ds.compile(tree, constraints)
    errors: list[float] = []

    def work() -> None:
        out = np.empty((64, 6, 6))
        errors.append(max(error(kernel(q, out=out), reference) for _ in range(50)))

    workers = [threading.Thread(target=work) for _ in range(6)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert len(errors) == 6 and max(errors) < DOUBLE


def _in_another_process(kernel: ds.Kernel, q: np.ndarray) -> np.ndarray:
    return np.asarray(kernel(q, threads=2))


def test_kernels_are_equal_where_what_they_hold_is() -> None:
    """Of robots and constraints that are built anew, and pickled: all differ that differ in anything."""

    def some() -> list[ds.Kernel]:
        tree, tip = ds.mechanisms.chain(2), ds.Frame("link2", (0.1, 0.0, 0.0))
        limited = tuple(replace(joint, lower=-np.ones(1)) for joint in tree.joints)
        trees = tree, replace(tree, name="other"), replace(tree, joints=limited)  # of one program
        made = [ds.compile(of, (), "energies") for of in trees]
        options: tuple[dict[str, object], ...] = (
            {}, {"gravity": (0, 0, -1)}, {"gravity": "input"}, {"payloads": ["link2"]}, {"outputs": ["potential"]},
            {"passive": "none"}, {"dtype": "float32"}, {"lanes": 1}, {"error_bound": 1e-3, "dtype": "float32"},
        )  # fmt: skip
        made += [ds.compile(tree, (), "step", **how) for how in options if "outputs" not in how]
        made += [ds.compile(tree, (), "energies", **how) for how in options[1:5]]
        made += [ds.compile(tree, c) for c in (ds.Point(tip), ds.Point("link2"), ds.Weld(tip), [ds.Weld(tip)] * 2)]
        return [*made, made[0].derivative("jvp"), made[0].derivative("jvp", by="q"), made[0].derivative("vjp")]

    kernels = some()
    for kernel, other in zip(kernels, some(), strict=True):
        kept = pickle.dumps(kernel)
        again = pickle.loads(kept)
        for twin in (other, again):
            assert twin == kernel and hash(twin) == hash(kernel) and pickle.dumps(twin) == kept
        assert again is pickle.loads(kept) and again.request.tree == kernel.request.tree
    assert len({*kernels}) == len({pickle.dumps(kernel) for kernel in kernels}) == len(kernels)
    assert kernels[0] != kernels[0].request


@pytest.mark.parametrize("name", ["numpy", "rollout", "pickle", "casadi", "dask"])
def test_kernels_go_when_nobody_holds_them(name: str) -> None:
    """After calls with whatever arrays, derivatives and other targets; see the tests of JAX and PyTorch for theirs."""
    q, v, u = np.ones((2, 2)), np.ones(2), np.zeros((3, 2))

    def dask(kernel: ds.Kernel, step: ds.Kernel) -> object:
        da = pytest.importorskip("dask.array")
        return kernel(da.from_array(q), v)[0].compute(), ds.rollout(step, da.from_array(q), v, u, 1e-2)[0].compute()

    def casadi(kernel: ds.Kernel, step: ds.Kernel) -> object:
        pytest.importorskip("casadi")
        return kernel.casadi(jacobian=True), step.casadi()

    uses = {
        "numpy": lambda kernel, _: (kernel(q, v), kernel(q[0], v, threads=1), kernel.derivative("jvp")(q, v, v, v)),
        "rollout": lambda _, step: (ds.rollout(step, q, v, u, 1e-2), step.derivative("vjp"), step.difference(q, q)),
        "pickle": lambda kernel, step: [pickle.loads(pickle.dumps(x)) for x in (kernel, step)],
        "casadi": casadi,
        "dask": dask,
    }
    kernels = [ds.compile(ds.mechanisms.chain(2), (), what) for what in ("energies", "step")]
    made = uses[name](*kernels)
    held = [weakref.ref(x) for x in (*kernels, *(made if name == "pickle" else ()))]
    del kernels, made
    gc.collect()
    assert [kernel() for kernel in held] == [None] * len(held)


@pytest.mark.slow
@pytest.mark.parametrize("start", ["spawn", "fork"])
def test_kernels_pickle_and_run_in_other_processes(small, start: str) -> None:  # type: ignore[no-untyped-def]
    tree, constraints, q, reference = small
    kernel = ds.compile(tree, constraints)
    again = pickle.loads(pickle.dumps(kernel))
    assert np.array_equal(again(q), kernel(q))
    with multiprocessing.get_context(start).Pool(1) as pool:
        assert error(pool.apply(_in_another_process, (kernel, q)), reference) < DOUBLE


def test_code_is_compiled_at_the_first_call_with_so_many_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One state or lanes, each once a process, whatever thread asks, and once a cache."""
    ds.compile(ds.mechanisms.chain(1), (), "energies")  # compiles how kernels are called
    monkeypatch.setenv("DELASSUS_CACHE", str(tmp_path))
    tree, made = ds.mechanisms.chain(2), list[str]()
    monkeypatch.setattr(code, "object_code", lambda text: made.append(text) or object_code(text))
    kernel, q = ds.compile(tree, (), "energies"), tree.random(0, batch=40)
    assert not made
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda n: kernel(q[:n], q[:n])[0], (40, 33, 8, 40)))
    assert len(made) == 1 and "@block_" in made[0] and "@one_" not in made[0]
    assert all(np.array_equal(x, found[0][: len(x)]) for x in found)
    for again in (kernel, pickle.loads(pickle.dumps(kernel)), ds.compile(tree, (), "energies")):
        assert np.array_equal(again(q[0], q[0])[0], found[0][0])
        assert np.array_equal(again(q[:3], q[:3], threads=2)[0], found[0][:3])
        assert np.array_equal(again(q, q)[0], found[0])
    assert len(made) == 2 and "@one_" in made[1] and len(list(tmp_path.glob("*.kernel"))) == 3


def test_calls_that_do_not_wait_have_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code for one state and code for lanes are each asked for once, and take over when they are there."""
    monkeypatch.setenv("DELASSUS_CACHE", str(tmp_path))
    monkeypatch.delenv("DELASSUS_COMPILE", raising=False)
    jobs = list[Any]()
    monkeypatch.setattr(code, "maker", lambda: SimpleNamespace(ask=jobs.append))
    arm = ds.mechanisms.chain(6)
    kernel = ds.compile(arm, ds.Point("link6"), "dynamics", wait=False)
    states = [arm.random(0, batch=40), *np.random.default_rng(0).normal(size=(2, 40, 6))]

    def found() -> list[np.ndarray]:
        parts = [[x[part] for x in states] for part in (0, slice(1), slice(kernel.lanes), slice(None))]
        return [y for part in parts for y in (*kernel(*part), *kernel(*part, threads=1))]

    assert len([*kernel(*(x[0] for x in states)), *kernel(*(x[0] for x in states))]) == 4 and len(jobs) == 1
    before = found()
    assert len(jobs) == 2
    first = [kernel.code.of(n) for n in (1, 40)]
    assert first[0] is first[1]
    again = pickle.loads(pickle.dumps(kernel))
    assert np.array_equal(again(*states)[0], before[-2]) and len(jobs) == 3
    for job in jobs[:2]:
        job.done(pickle.loads(pickle.dumps(job.make))())
    after = found()
    assert len({*map(id, (kernel.code.of(1), kernel.code.of(40), first[0]))}) == 3 and len(jobs) == 3
    waited = ds.compile(arm, ds.Point("link6"), "dynamics")(*states)
    for x, y in zip(before, after, strict=True):
        assert np.array_equal(x, y)
    assert np.array_equal(waited[0], after[-2])


def test_programs_that_are_frozen_start_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be started is the program itself: a thread compiles."""
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("it starts a process"))
    made = queue.SimpleQueue[bytes]()
    code.maker.__globals__["Maker"]().ask(code.Job(lambda: b"code", made.put))
    assert made.get(timeout=60) == b"code"


BEHIND = """
import os, time
from pathlib import Path
import numpy as np, delassus as ds

def ours():
    return {int(x) for path in Path("/proc/self/task").glob("*/children") for x in path.read_text().split()}

def taken_over(kernel, q):
    first, before = kernel.code.of(1), kernel(q)
    while kernel.code.of(1) is first:
        time.sleep(0.02)
    assert np.array_equal(kernel(q), before)

arm, ends = ds.mechanisms.chain(4), [ds.Point(f"link{k}") for k in (2, 3, 4)]
q = arm.random(0)
first, second, third = (ds.compile(arm, end, wait=False) for end in ends)
taken_over(first, q)
(process,) = ours()
os.kill(process, 9)
taken_over(second, q)  # by a thread
third(q)
child = os.fork()
if not child:
    taken_over(third, q)
    os._exit(len(ours()) != 1)
assert os.waitpid(child, 0)[1] == 0
while len(ours()) != 1:
    time.sleep(0.02)
print(*ours())
"""
"""Process that compiles behind, whose helper dies, and that forks; it ends while the next helper compiles."""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="no children are listed here")
def test_another_process_compiles_behind(tmp_path: Path) -> None:
    ours = {**os.environ, "DELASSUS_CACHE": str(tmp_path), "DELASSUS_COMPILE": "background"}
    run = subprocess.run([sys.executable, "-c", BEHIND], capture_output=True, text=True, timeout=120, env=ours)
    assert run.returncode == 0, run.stderr
    process = Path("/proc") / run.stdout.strip()
    while process.exists() and "State:\tZ" not in (process / "status").read_text():  # it ends with its parent
        time.sleep(0.02)


def test_a_damaged_cache_file_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    monkeypatch.setenv("DELASSUS_CACHE", str(folder))
    tree = ds.mechanisms.chain(3)
    q = tree.random(0, batch=9)
    kernel = ds.compile(tree, ds.Point("link3"))
    first, file = kernel(q), folder / f"{kernel.identity.partition('_')[0]}.kernel"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(bytes(data))
    with pytest.warns(ds.DelassusWarning, match=r"\.kernel"):
        again = ds.compile(tree, ds.Point("link3"))(q)
    assert np.array_equal(again, first)


def test_the_key_tells_requests_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    tree, other = ds.mechanisms.chain(3), ds.mechanisms.chain(4)
    weld, point = (ds.Weld("link3"),), (ds.Point("link3"),)
    moved = (ds.Point(ds.Frame("link3", (0, 0, 1e-9))),)
    base = (tree, weld, "delassus", "auto", "float64", 8)
    variants = [
        base,
        (other, *base[1:]),
        (tree, point, *base[2:]),
        (tree, moved, *base[2:]),
        (tree, weld, "osim", *base[3:]),
    ]
    variants += [(*base[:3], "efpa", *base[4:]), (*base[:4], "float32", 8), (*base[:5], 4)]

    def key(tree: ds.Tree, c: object, what: str, method: str, dtype: str, lanes: int) -> str:
        return code.key_of(requested(tree, c, what, method=method), dtype, lanes)  # type: ignore[arg-type]

    keys = [key(*v) for v in variants]
    this = code.host()
    for name, value in (
        *(("host", lambda part=part: replace(this, **{part: "other"})) for part in ("triple", "cpu", "features")),
        ("__version__", "other"),
        ("versions", lambda: "other"),
        ("sources", lambda: "other"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(code, name, value)
            keys.append(key(*base))
    assert len(set(keys)) == len(keys)
    assert key(*base) == keys[0]


def test_an_edit_of_the_same_size_and_time_makes_another_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package, found = tmp_path / "delassus", []
    (package / "runtime").mkdir(parents=True)
    monkeypatch.setattr(code.disk, "__file__", str(package / "runtime" / "code.py"))
    for text in ("x = 1", "x = 2", "x = 1"):
        (package / "model.py").write_text(text)
        os.utime(package / "model.py", (1, 1))
        found.append(code.sources.__wrapped__())
    assert found[0] == found[2] != found[1]


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda k, q: k(q[:, :3]), r"q: expected shape \(\.\.\., 4\)"),
        (lambda k, q: k(q.astype(np.float32)), "dtype float64"),
        (lambda k, q: k(q > 0), "dtype float64"),
        (lambda k, q: k("text"), "dtype float64"),
        (lambda k, q: k(), r"1 array\(s\): q"),
        (lambda k, q: k(q, q), r"1 array\(s\): q"),
        (lambda k, q: k(q, out=np.empty((3, 6, 6))), "out: expected a writeable C-contiguous array"),
        (lambda k, q: k(q, out=np.empty((64, 6, 6), dtype=np.float32)), "out: expected"),
        (lambda k, q: k(q, out=np.empty((64, 6, 12))[..., ::2]), "out: expected"),
        (lambda k, q: k(q, out="text"), "out: expected"),
        (lambda k, q: k(q, threads=0), "threads: expected"),
        (lambda k, q: k(q, threads=1.5), "threads: expected"),
    ],
)
def test_bad_calls(small, call, match: str) -> None:  # type: ignore[no-untyped-def]
    tree, constraints, q, _ = small
    kernel = ds.compile(tree, constraints)
    with pytest.raises(ds.DelassusError, match=match):
        call(kernel, q)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"what": "delasus"}, "Did you mean 'delassus'"),
        ({"method": "efpo"}, "Did you mean 'efpa'"),
        ({"dtype": "float16"}, "'float64' or 'float32'"),
        ({"lanes": 3}, "lanes: expected"),
    ],
)
def test_bad_requests(arguments: dict[str, object], match: str) -> None:
    with pytest.raises(ds.DelassusError, match=match):
        ds.compile(ds.mechanisms.chain(2), ds.Weld("link2"), **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("patience", [0.0, threading.TIMEOUT_MAX])
def test_compilation_that_takes_long_is_announced(patience, monkeypatch, caplog):
    """To who listens."""
    caplog.set_level("INFO", "delassus")
    monkeypatch.setenv("DELASSUS_CACHE", "off")
    monkeypatch.setattr("delassus.errors.PATIENCE", patience)
    arm = replace(ds.mechanisms.chain(2), gravity=(0.0, min(patience, 1.0), -3.0))  # no other test has its programs
    kernel = ds.compile(arm, (), "energies")
    kernel(arm.random(0), np.ones(2))
    kernel.derivative("jvp")(arm.random(0), np.ones(2), np.ones(2), np.ones(2))
    said = [line for line in caplog.messages if "chain2" in line]
    whole = ["energies of chain2", "tangents of energies of chain2, for derivatives"]
    lines = [line for x in whole for line in (f"the program of {x}", f"{x}, for one state")]
    assert said == ([] if patience else [f"compiling {line} …" for line in lines])
