"""Kernels on GPUs that there are not, a fake driver's (`fake_cuda.py`): numbers, streams, lifetimes, errors."""

from __future__ import annotations

import gc
import os
import pickle
import sys
import threading

import numpy as np
import pytest

import delassus as ds
import emulated_gpu
import fake_cuda
from delassus.errors import ConfigurationError, DeviceError, MissingDependencyError
from fake_arrays import Library

ARM, HAND = ds.mechanisms.chain(3), [ds.Weld("link3")]


def test_a_kernel_for_gpus_is_made_without_one():
    kernel, same = (ds.compile(ARM, HAND, dtype="float32", target=t) for t in ("cuda", "cpu"))
    assert isinstance(kernel, ds.CudaKernel) and not isinstance(kernel, ds.Kernel)
    assert kernel.operations == same.operations and kernel.results == same.results
    assert kernel.arguments == same.arguments and kernel.what == same.what and kernel.method == same.method
    assert ".target sm_75" in kernel.ptx() and ".target sm_90" in kernel.ptx("sm_90")
    assert pickle.loads(pickle.dumps(kernel)).identity == kernel.identity != same.identity
    assert kernel.derivative("vjp").ptx() != kernel.ptx()
    assert type(kernel.derivative("vjp")) is ds.CudaKernel
    assert np.shape(kernel.empty_results(3)) == (3, 6, 6)


def test_what_kernels_for_gpus_refuse():
    with pytest.raises(ConfigurationError, match="lanes: expected None with target='cuda', got 4"):
        ds.compile(ARM, lanes=4, target="cuda")
    with pytest.raises(ConfigurationError, match="target: expected 'cpu' or 'cuda'"):
        ds.compile(ARM, target="gpu")
    kernel = ds.compile(ARM, HAND, dtype="float32", target="cuda")
    for architecture in ("sm_70", "sm75", 90, "sm_1"):
        with pytest.raises(ConfigurationError, match="architecture: expected 'sm_75' or above"):
            kernel.ptx(architecture)
    with pytest.raises(AttributeError, match=r"of kernels for the processor\. Call launch"):
        kernel.address(1)


LEG, FOOT = ds.mechanisms.chain(5), [ds.Point("link5")]
LIBRARIES = {
    "cupy": {},
    "lends": {"says": False},
    "says": {"lends": False, "borrows": False, "computes": False},
}
"""Libraries of arrays: with all that CuPy has, with DLPack alone, with ``__cuda_array_interface__`` alone."""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def start(monkeypatch, cache):
    """Starts a fake driver with some options; at the end nothing was misused, and all is freed but one module each."""
    monkeypatch.setenv("DELASSUS_CACHE", cache)
    started = []

    def start(**options):
        started.append(fake_cuda.install(monkeypatch, **options))
        return started[-1]

    yield start
    gc.collect()
    for fake in started:
        fake.check()
        assert fake.live() == {"memory": 0, "streams": 0, "events": 0, "modules": 0}


@pytest.fixture
def library(monkeypatch):
    """Makes a library of arrays, by its name in `LIBRARIES`."""

    def make(name):
        made = Library(name, **LIBRARIES[name])
        monkeypatch.setitem(sys.modules, name, made)
        return made

    return make


def pair(what="delassus", dtype="float32", **options):
    """A kernel for GPUs and the same for the processor."""
    return tuple(ds.compile(LEG, FOOT, what, dtype=dtype, target=target, **options) for target in ("cuda", "cpu"))


def states(kernel, batch, seed=0):
    """Arguments of a kernel, at random."""
    rng = np.random.default_rng(seed)
    made = [rng.normal(size=(*batch, *a.shape)) for a in kernel.arguments]
    return [x.astype(kernel.dtype) for x in made]


def near(x, y, margin=64.0):
    """Numbers of the same operations, which two compilers fuse in other ways."""
    bound = margin * np.finfo(np.asarray(y).dtype).eps * np.abs(y).max(initial=1.0)
    return x.shape == y.shape and np.isfinite(x).all() and np.abs(x - y).max(initial=0.0) <= bound


def on_host(x):
    return x.numpy() if hasattr(x, "numpy") else x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_of_numpy_go_over_all_devices_and_come_back(start, monkeypatch, dtype):
    fake = start(devices=2)
    monkeypatch.setitem(ds.CudaKernel.__call__.__globals__["call_from_host"].__globals__, "LEAST_BLOCK", 30)
    kernel, same = pair("dynamics", dtype)
    q, v, tau = states(kernel, (5, 14))
    assert all(map(near, kernel(q, v, tau), same(q, v, tau)))
    assert [launch[0] for launch in fake.launches].count(0) == [launch[0] for launch in fake.launches].count(1) == 1
    out = kernel.empty_results((5, 14))
    assert kernel(q, v[0, 0], tau=tau[:, :1], out=out) is out
    assert all(map(near, out, same(q, v[0, 0], tau[:, :1])))
    assert kernel(q[:, :0], v[:, :0], tau[:, :0])[0].shape == (5, 0, 5)
    assert near(kernel(q[0, 0], v[0, 0], tau[0, 0])[0], same(q[0, 0], v[0, 0], tau[0, 0])[0])
    free = ds.compile(LEG, (), "dynamics", dtype=dtype, target="cuda")
    assert [x.shape for x in free(q, v, tau)] == [(5, 14, 5), (5, 14, 0)]  # no forces
    with pytest.raises(ConfigurationError, match="stream: expected None, for arrays of NumPy"):
        kernel(q, v, tau, stream=1)


@pytest.mark.parametrize("name", LIBRARIES)
def test_arrays_on_a_device_stay_there(start, library, name):
    """On that of the arguments and the stream of their library, without waiting."""
    fake, xp = start(devices=2), library(name)
    kernel, same = pair("dynamics")
    given = states(kernel, (4, 10))
    with xp._on_device(1):
        q, v, tau = map(xp.array, given)
        waited = list(fake.waits)
        found = kernel(q, v, tau=tau)
        assert fake.waits == waited and [launch[0] for launch in fake.launches] == [1]
    if xp.kind is type(found[0]):
        assert all(map(near, map(on_host, found), same(*given)))
    out = tuple(xp.empty((4, 10, *r.shape), np.dtype("float32")) for r in kernel.results)
    q, v, tau = map(xp.array, given)
    assert kernel(q, v, tau, out=out) is out
    assert all(map(near, map(on_host, out), same(*given)))
    xp.held = []


def test_what_is_given_for_fewer_states_is_copied(start, library):
    start()
    kernel, same = pair("step")
    q, v, tau, _ = states(kernel, (6,))
    for name in LIBRARIES:
        xp = library(name)
        found = kernel(xp.array(q), xp.array(v[0]), xp.array(tau[:1]), 1e-3)
        if xp.kind is type(found[0]):
            assert all(map(near, map(on_host, found), same(q, v[0], tau[:1], 1e-3)))
        xp.held = []
    xp = library("cupy")
    spread, other = q.reshape(6, 1, 5), np.repeat(v[None, :2], 1, 0)
    found = kernel(xp.array(spread), xp.array(other), xp.array(tau[0]), 1)
    assert all(map(near, map(on_host, found), same(spread, other, tau[0], 1)))
    whole = xp.array(np.arange(30).reshape(6, 5))
    found = kernel(xp.array(q), whole, xp.array(tau), 1e-3)
    assert all(map(near, map(on_host, found), same(q, np.arange(30).reshape(6, 5), tau, 1e-3)))


LYING = [
    ((6, 5), (5, 1), 0), ((4, 5), (5, 1), 10), ((2, 1, 5), (5, 77, 1), 5), ((1, 5), (77, 1), 3), ((5,), (1,), 7),
    ((0, 5), (77, 3), 0), ((3, 0, 5), (1, 2, 3), 0),
]  # fmt: skip
"""Shapes, strides and first numbers of arrays without gaps: axes of one, or of no state, have any stride."""

GAPING = [((2, 5), (10, 1), 0), ((6, 5), (1, 6), 0), ((2, 1, 5), (10, 5, 1), 0), ((6, 5), (0, 1), 0), ((5,), (2,), 0)]


@pytest.mark.parametrize(("says", "lends"), [(True, False), (False, True)], ids=["interface", "dlpack"])
def test_memory_without_gaps_is_taken_as_it_lies(start, library, monkeypatch, says, lends):
    """From anywhere on, whatever the strides of axes of one; nothing is copied, and what has gaps is refused."""
    start()
    xp = Library("plain", says=says, lends=lends, computes=False)
    monkeypatch.setitem(sys.modules, "plain", xp)
    kernel, same = pair()
    (q,) = states(kernel, (6,))
    x = xp.array(q)
    for shape, strides, first in LYING:
        own = np.lib.stride_tricks.as_strided(q.ravel()[first:], shape, [4 * s for s in strides])
        out = xp.empty((*shape[:-1], 3, 3), np.dtype("float32"))
        kernel(x.view(shape, strides, first), out=out)
        assert near(out.numpy(), same(own))
    for shape, strides, first in GAPING:
        with pytest.raises(ConfigurationError, match="expected a C-contiguous array, got one that is not"):
            kernel(x.view(shape, strides, first))
    xp.held = []


def test_results_may_be_beside_arguments_but_not_on_them(start, library):
    start()
    xp = library("cupy")
    kernel, same = pair("dynamics")
    given = states(kernel, (6,))
    memory = xp.array(np.concatenate([given[0].ravel(), np.zeros(100, "float32")]))
    v, tau = map(xp.array, given[1:])
    q, forces = memory.view((6, 5)), xp.empty((6, 3), np.dtype("float32"))
    for first, other in ((29, "an argument"), (0, "an argument"), (30, "")):
        out = memory.view((6, 5), None, first), forces
        if other:
            with pytest.raises(ConfigurationError, match=f"memory of its own, got memory of {other}"):
                kernel(q, v, tau, out=out)
        else:
            kernel(q, v, tau, out=out)
            assert all(near(x.numpy(), y) for x, y in zip(out, same(*given), strict=True))
    for first, second, good in ((30, 60, True), (48, 30, True), (30, 59, False), (47, 30, False)):
        out = memory.view((6, 5), None, first), memory.view((6, 3), None, second)
        if good:
            kernel(q, v, tau, out=out)
            assert all(near(x.numpy(), y) for x, y in zip(out, same(*given), strict=True))
        else:
            with pytest.raises(ConfigurationError, match="memory of its own, got memory of another result"):
                kernel(q, v, tau, out=out)


def test_calls_keep_the_order_of_streams(start, library):
    """Of streams that wait for no others: what is written there before is read, and results are there after."""
    fake, xp = start(), library("cupy")
    kernel, same = pair("delassus")
    (q,) = states(kernel, (40,))
    own = Stream()
    with xp._on_stream(own.handle):
        x = xp.array(q)
        assert near(kernel(x).numpy(), same(q)) and fake.launches[-1][1] == own.handle
        other = Stream()
        found = kernel(x, stream=other.handle)
        assert fake.launches[-1][1] == other.handle
    with xp._on_stream(other.handle):
        assert near(found.numpy(), same(q))
    lends = library("lends")
    lends.stream = own.handle
    x = lends.array(q)
    found = kernel(x, stream=other.handle)
    assert lends.told[-1] == other.handle and near(found.numpy(), same(q))
    lends.held = []
    del x, found


class Stream:
    """A stream of a library, on the first device, for as long as the object is."""

    def __init__(self):
        self.made = fake_cuda.driver.Stream(fake_cuda.driver.driver().device(0))
        self.handle = self.made.handle


def test_errors_above_the_bound_are_nan_or_estimated(start, library):
    start()
    arm = ds.mechanisms.chain(3)
    made = [ds.compile(arm, [ds.Point("link3"), ds.Point("link3")], "osim", dtype="float32", target=t) for t in
            ("cuda", "cpu")]  # fmt: skip
    kernel, same = made
    assert kernel.has_rcond
    q = arm.random(0, batch=5).astype("float32")
    assert np.isnan(kernel(q)).all()
    found, error = kernel(q, return_error=True)
    expected = same.error_estimator is same
    assert expected and error.shape == (5,) and (error > 1e-2).all()
    xp = library("cupy")
    on_device = kernel(xp.array(q), return_error=True)
    assert np.array_equal(on_device[1].numpy(), error) and np.isnan(kernel(xp.array(q)).numpy()).all()
    assert np.array_equal(on_device[0].numpy(), found, equal_nan=True)
    with pytest.raises(ConfigurationError, match="return_error: expected arrays of a library with arithmetic"):
        kernel(library("says").array(q), return_error=True)
    with pytest.raises(ConfigurationError, match="return_status: expected False with target='cuda'"):
        kernel(q, return_status=True)
    with pytest.raises(ConfigurationError, match="threads: expected None with target='cuda'"):
        kernel(q, threads=1)


def test_arrays_that_do_not_fit(start, library):
    start()
    xp = library("cupy")
    kernel, _ = pair("dynamics")
    given = states(kernel, (6,))
    q, v, tau = map(xp.array, given)
    with xp._on_device(1):
        elsewhere = xp.array(given[1])
    wrong = [
        ((q, elsewhere, tau), r"v: expected an array on device 0 \(Fake 0\), as another is, got one on device 1"),
        ((q, given[1], tau), r"v: expected an array on device 0"),
        ((q, library("lends").array(given[1]), tau), "kernel: expected arrays of one library, got some of cupy and"),
        ((q, xp.array(given[1].astype(float)), tau), "v: expected dtype float32, got dtype float64"),
        ((q, xp.array(given[1][:, :2]), tau), r"v: expected shape \(..., 5\), got shape \(6, 2\)"),
        ((q, xp.array(given[1][:5]), tau), "v: expected leading axes that broadcast"),
        ((q, v), "arguments: expected 3 array"),
    ]
    for arguments, message in wrong:
        with pytest.raises(ConfigurationError, match=message):
            kernel(*arguments)
    says = library("says")
    with pytest.raises(ConfigurationError, match=r"v: expected an array of shape \(2, 3, 5\), got one of"):
        x, y = (says.array(x.reshape(2, 3, 5)) for x in (given[0], given[2]))
        kernel(x, says.array(given[1][:3].reshape(1, 3, 5)), y)
    results = tuple(xp.empty((6, *r.shape), np.dtype("float32")) for r in kernel.results)
    for out, message in (
        (results[0], "out: expected a tuple of 2 arrays: qdd, forces"),
        ((results[0], given[0]), "out: expected a writeable C-contiguous array"),
        ((q, results[1]), "out: expected memory of its own, got memory of an argument"),
        ((results[0], xp.empty((5, 3), np.dtype("float32"))), r"got shape \(5, 3\), dtype float32, on device 0"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            kernel(q, v, tau, out=out)
    with pytest.raises(ConfigurationError, match="pointers: expected"):
        kernel.launch(0, 0, 1, [1])
    with pytest.raises(ConfigurationError, match="n: expected 0 to"):
        kernel.launch(0, 0, 2**32, [1] * (5 + kernel.has_rcond))


DRIVERS = [
    ({"has_driver": False}, MissingDependencyError, "NVIDIA's driver, got none: .*Install NVIDIA's driver"),
    ({"devices": 0}, DeviceError, "expected a device, got a driver that sees none. .*CUDA_VISIBLE_DEVICES"),
    ({"capability": (7, 0)}, DeviceError, r"compute capability 7.5 or above, got device 0 \(Fake 0\) of 7.0"),
    ({"ptx": (5, 0), "driver": 9000}, DeviceError, r"a driver that knows PTX 6.\d, got one for CUDA 9.0. Install"),
    ({"memory": 1 << 14}, DeviceError, "memory: expected arrays, .* MiB, on the device, got .*Call with a part of"),
]
FAILURES = [
    ("cuLaunchKernel", "ILLEGAL_ADDRESS", "cuLaunchKernel .*got ILLEGAL_ADDRESS. The process must start anew"),
    ("cuInit", "NOT_INITIALIZED", "a child that was forked"),
    ("cuInit", "SYSTEM_DRIVER_MISMATCH", "got SYSTEM_DRIVER_MISMATCH. The library and the driver of the system"),
    ("cuModuleLoadDataEx", "OUT_OF_MEMORY", "memory: expected the code of a kernel"),
]


@pytest.mark.parametrize(("options", "kind", "message"), DRIVERS, ids=range(len(DRIVERS)))
def test_drivers_that_cannot_run_it_say_why(start, options, kind, message):
    start(**options)
    kernel, _ = pair()
    assert kernel.ptx()
    with pytest.raises(kind, match=message):
        kernel(np.zeros((2000, 5), np.float32) + 0.1)


@pytest.mark.parametrize(("function", "name", "message"), FAILURES)
def test_errors_of_the_driver_name_the_way_out(start, function, name, message):
    fake = start(devices=1)
    kernel, same = pair()
    fake.failures[function] = name
    q = np.full((3, 5), 0.1, np.float32)
    with pytest.raises((DeviceError, MissingDependencyError), match=message):
        kernel(q)
    fake.failures.clear()
    assert near(kernel(q), same(q))


def test_without_the_package(monkeypatch, start):
    start()
    kernel, _ = pair()
    monkeypatch.setitem(sys.modules, "cuda", None)
    for name in ("cuda.bindings", "cuda.bindings.driver"):
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingDependencyError, match=r"pip install 'delassus\[cuda\]'"):
        kernel(np.zeros((1, 5), np.float32))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_does_not_use_the_contexts_of_its_parent(start):
    start()
    kernel, same = pair()
    q = np.full((2, 5), 0.1, np.float32)
    assert near(kernel(q), same(q))
    child = os.fork()
    if not child:
        try:
            kernel(q)
        except DeviceError as error:
            os._exit(0 if "a child that was forked" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert near(kernel(q), same(q))


def test_threads_launch_at_once(start):
    fake = start()
    kernel, same = pair()
    found, inputs = {}, [states(kernel, (33,), seed)[0] for seed in range(4)]
    threads = [
        threading.Thread(target=lambda k=k, q=q: found.update({k: kernel(q)})) for k, q in enumerate(inputs)
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert all(near(found[k], same(q)) for k, q in enumerate(inputs))
    assert fake.calls["cuModuleLoadDataEx"] == 1


def test_ptx_is_kept_whatever_the_processor_is(start, monkeypatch):
    start()
    kernel, _ = pair()
    text, made = kernel.ptx(), []
    monkeypatch.setattr(emulated_gpu.ptx_module, "ptx", lambda *_: made.append(1))
    assert pair()[0].ptx() == text and not made


def test_memory_is_free_where_nobody_takes_a_capsule_over(start, library):
    """The fixture sees what stays."""
    fake = start()
    kernel, own = pair()[0], library("says")
    found = kernel(*[own.array(x) for x in states(kernel, (3,))])
    assert "dltensor" in repr(found.__dlpack__())
    waited = fake.calls["cuStreamWaitEvent"]
    found.__dlpack__(stream=-1)  # whose consumer sees to the order
    assert fake.calls["cuStreamWaitEvent"] == waited
    other = Stream()
    found.__dlpack__(stream=other.handle)
    assert fake.calls["cuStreamWaitEvent"] == waited + 1
