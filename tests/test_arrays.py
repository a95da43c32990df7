"""Kernels on arrays of Dask, and of whatever library has the Python array API; those of JAX and PyTorch elsewhere."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import delassus as ds
import fake_arrays
import fake_cuda
from delassus.contact import Sphere
from internals import host

pytestmark = pytest.mark.usefixtures("machine_code")

HAND = ds.Point("link7")


@pytest.fixture
def arm():
    tree = ds.mechanisms.chain(7)
    return tree, tree.random(0, batch=1000), np.ones(7)


@pytest.mark.slow
def test_blocks_of_dask_arrays_are_computed_when_they_are_asked_for(arm):
    dask = pytest.importorskip("dask")
    tree, q, v = arm
    kernel = ds.compile(tree, HAND, "dynamics")
    blocks = pytest.importorskip("dask.array").from_array(q, chunks=(300, 7))
    qdd, forces = kernel(blocks, v, tau=v)
    assert forces.chunks == ((300, 300, 300, 100), (3,))
    found = dask.compute(qdd, forces, scheduler="threads", num_workers=2)
    assert all(np.array_equal(x, y) for x, y in zip(found, kernel(q, v, v), strict=True))
    halves = kernel(blocks.rechunk((500, 4)), v, v)[0]  # of states, which are joined
    assert np.array_equal(halves.compute(scheduler="threads"), found[0])
    with pytest.raises(ds.DelassusError, match=r"shape \(\.\.\., 7\), got shape \(1000, 3\)"):
        kernel(blocks[:, :3], v, v)
    with pytest.raises(ds.DelassusError, match="dtype float64, got dtype float32"):
        kernel(blocks.astype("float32"), v, v)
    with pytest.raises(ds.DelassusError, match="axes that broadcast"):
        kernel(blocks, np.ones((3, 7)), v)


def test_tasks_carry_a_description_of_the_kernel(arm, monkeypatch):
    """One for all blocks; who takes a graph apart makes no kernel, as schedulers must not."""
    da, cloudpickle = pytest.importorskip("dask.array"), pytest.importorskip("cloudpickle")
    tree, _, v = arm
    kernel = ds.compile(tree, HAND, "dynamics")
    graph = cloudpickle.dumps(kernel(da.zeros((10**9, 7), chunks=(10**5, 7)), v, v)[0].__dask_graph__())
    assert len(graph) < 100_000
    monkeypatch.setattr(type(kernel.code), "__init__", lambda *_: 1 // 0)
    assert len(cloudpickle.loads(graph)) > 20_000


def test_blocks_are_computed_on_gpus(monkeypatch):
    """Those of NumPy are copied over and back; those that are there stay, and what is no Dask array goes there."""
    da, dask = pytest.importorskip("dask.array"), pytest.importorskip("dask")
    fake = fake_cuda.install(monkeypatch)
    arm, rng = ds.mechanisms.chain(3), np.random.default_rng(0)
    known, kernel = (ds.compile(arm, (), "energies", target=target) for target in ("cpu", "cuda"))
    q, v = arm.random(rng, batch=50), rng.normal(size=3)
    expected = known(q, v)
    found = dask.compute(*kernel(da.from_array(q, chunks=(30, 3)), v), scheduler="synchronous")
    assert all(np.allclose(x, y, rtol=1e-12) for x, y in zip(found, expected, strict=True))
    there = fake_arrays.Library("there")
    monkeypatch.setitem(sys.modules, "there", there)

    def of_library(x, function, types, arguments, more):
        made = np.empty(arguments[0], more.get("dtype", arguments[-1])) if function is np.empty else arguments[0]
        return there.array(made)

    there.kind.__array_function__, there.kind.__getitem__ = of_library, lambda x, _: x  # of those without numbers
    there.kind.ndim = property(lambda x: len(x.shape))
    da.dispatch.concatenate_lookup.register(there.kind, lambda parts, axis: parts[0])  # as Dask has it for CuPy
    meta = there.empty((0, 3), np.dtype(float))
    made = lambda block_id: there.array(q[30 * block_id[0] :][:30])  # noqa: E731
    blocks = da.map_blocks(made, chunks=((30, 20), (3,)), meta=meta)
    kinetic = kernel(blocks, v)[1]
    assert type(kinetic._meta) is there.kind
    parts = dask.compute(*kinetic.to_delayed(), scheduler="synchronous")
    assert np.allclose(np.concatenate([x.numpy() for x in parts]), expected[1], rtol=1e-12)
    fake.check()


@pytest.mark.slow
def test_a_killed_worker_loses_no_result(arm, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # clusters set it for good
    da, distributed = pytest.importorskip("dask.array"), pytest.importorskip("distributed")
    tree, q, _ = arm
    kernel = ds.compile(tree, HAND)

    def late(q):
        time.sleep(0.1)
        return q

    local = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with distributed.LocalCluster(**local) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        first, _ = client.run(os.getpid).values()
        blocks = kernel(da.from_array(q, chunks=(50, 7)).map_blocks(late, meta=q[:0]))
        done = client.persist(blocks)
        while sum(map(len, client.has_what().values())) < 6:
            time.sleep(0.01)
        os.kill(first, signal.SIGKILL)
        found = client.compute(done.max(axis=0)).result(timeout=60)
        assert np.array_equal(found, kernel(q).max(axis=0))
        assert first not in client.run(os.getpid).values()


TIP = ds.Frame("link3", (0.1, 0.2, 0.0))


@pytest.mark.slow
@pytest.mark.parametrize("what", [ds.Point(TIP), ds.Contact(TIP, Sphere(0.1)), ()], ids=("point", "contact", "none"))
def test_trajectories_of_dask_arrays_are_those_of_numpy(what):
    da = pytest.importorskip("dask.array")
    tree = ds.mechanisms.chain(3)
    step = ds.compile(tree, what, "step" if isinstance(what, ds.Point) else "contact_step")
    q, v, controls = tree.random(0, batch=10), np.ones(3), np.ones((5, 10, 3))
    known = ds.rollout(step, q, v, controls, 1e-3, decimation=2, time_axis=0)
    blocks = da.from_array(q, chunks=(4, 3))
    for given in (controls, da.from_array(controls, chunks=(2, 5, 3))):
        found = ds.rollout(step, blocks, v, given, 1e-3, decimation=2)
        for x, y in zip(found, known, strict=True):
            assert x.shape == y.shape and np.array_equal(x.compute(scheduler="threads"), y)
    shared = ds.rollout(step, blocks, v, controls[:, 0], 1e-3, decimation=2, time_axis=1)[0]
    assert shared.chunks == ((11,), (4, 4, 2), (3,)) and np.array_equal(shared.compute(), known[0])
    for how in ({"steps": 4}, {"steps": 4, "decimation": 3}):
        found, known = (ds.rollout(step, x, v, lambda t, q, v: np.cos(t) - v, 1e-3, **how) for x in (blocks, q))
        assert np.array_equal(found[0].compute(scheduler="threads"), known[0])
    with pytest.raises(ds.DelassusError, match=r"tau: expected shape \(T, \.\.\., 3\)"):
        ds.rollout(step, blocks, v, np.ones(3), 1e-3)
    with pytest.raises(ds.DelassusError, match="threads: expected no such argument with arrays of Dask"):
        ds.rollout(step, blocks, v, controls, 1e-3, threads=2)


def test_what_is_given_anew_at_each_step_comes_in_blocks_too():
    da = pytest.importorskip("dask.array")
    tree = ds.mechanisms.chain(3)
    step = ds.compile(tree, ds.Point(TIP), "step", active=True)
    q, zero, active = tree.random(0, batch=10), np.zeros((6, 3)), np.ones((6, 10, 1))
    active[3:, ::2] = 0.0
    how = {"active": active, "per_step": ["active"], "time_axis": 0}
    known = ds.rollout(step, q, np.ones(3), zero, 1e-3, **how)
    found = ds.rollout(step, da.from_array(q, chunks=(3, 3)), np.ones(3), zero, 1e-3, **how)
    assert all(np.array_equal(x.compute(scheduler="threads"), y) for x, y in zip(found, known, strict=True))


def test_equal_kernels_come_out_of_pickles_as_one(arm):
    kernel = ds.compile(arm[0], HAND)
    assert pickle.loads(pickle.dumps(kernel)) is pickle.loads(pickle.dumps(ds.compile(arm[0], HAND)))


def test_kernels_out_of_pickles_have_the_lanes_of_their_processor(monkeypatch):
    tree, narrow = ds.mechanisms.chain(2), replace(host(), vector_bits=128)
    free, fixed = (pickle.dumps(ds.compile(tree, (), "mass_matrix", lanes=lanes)) for lanes in (None, 1))
    monkeypatch.setattr("delassus.runtime.kernel.host", lambda: narrow)
    assert pickle.loads(free).lanes == 2 and pickle.loads(fixed).lanes == 1


def test_arrays_of_any_library_of_the_array_api(arm):
    xp = pytest.importorskip("array_api_strict")
    tree, q, v = arm
    kernel = ds.compile(tree, HAND, "dynamics")
    found = kernel(xp.asarray(q), v, tau=xp.asarray(v))
    for x, y in zip(found, kernel(q, v, v), strict=True):
        assert type(x) is type(xp.asarray(q)) and np.array_equal(np.from_dlpack(x), y)
    M = ds.mass_matrix(tree, xp.asarray(q, dtype=xp.float32))
    assert M.dtype == xp.float32

    class OnGpu:
        def __array_namespace__(self):
            return xp

        def __dlpack__(self, **_):
            raise BufferError("on a GPU")

        def __dlpack_device__(self):
            return 2, 0

    with pytest.raises(ds.DelassusError, match="an array in the processor's memory, got OnGpu"):
        kernel(OnGpu(), v, v)
