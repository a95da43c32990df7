"""The fake of NVIDIA's driver: it does what is asked, in order, and refuses or names what is wrong."""

from __future__ import annotations

import ctypes
import inspect
import re

import numpy as np
import pytest

import fake_cuda
from emulated_gpu import Misuse, device_module, ptx
from fake_cuda_names import ENUMS, TYPES
from programs import Op, plain_program, table_of_operations

KINDS, GRAPH, _ = table_of_operations()
TEXT = fake_cuda.with_assembly(ptx)(device_module(plain_program(GRAPH, 3), "double"))
ITEM, WARP_SHARED = 8, 32 * 33 * 8


@pytest.fixture
def fake():
    return fake_cuda.FakeCuda()


class Session:
    """A context that is current, a stream, and a kernel of `TEXT`."""

    def __init__(self, fake, number=0):
        self.fake = fake
        self("cuInit", 0)
        self.device = self("cuDeviceGet", number)
        self.context = self("cuDevicePrimaryCtxRetain", self.device)
        self("cuCtxPushCurrent", self.context)
        self.stream = self("cuStreamCreate", 1)
        self.module = self("cuModuleLoadDataEx", TEXT.encode() + b"\0", 0, [], [])
        self.kernel = self("cuModuleGetFunction", self.module, b"kernel")

    def __call__(self, name, *arguments):
        code, *found = getattr(self.fake, name)(*arguments)
        assert int(code) == 0, (name, code)
        return found[0] if len(found) == 1 else tuple(found) or None

    def array(self, values):
        there = self("cuMemAllocAsync", values.nbytes, self.stream)
        self("cuMemcpyHtoDAsync", there, values.ctypes.data, values.nbytes, self.stream)
        return there

    def launch(self, n, x, y, blocks=None, shared=2 * WARP_SHARED, stream=None, kernel=None):
        values = (n, 1, -np.inf, int(x), 0, int(y), 0)
        kinds = (ctypes.c_int64, ctypes.c_int64, ctypes.c_double, *[ctypes.c_void_p, ctypes.c_int64] * 2)
        blocks, stream = blocks or -(-n // 64), self.stream if stream is None else stream
        kernel = kernel or self.kernel
        return self.fake.cuLaunchKernel(kernel, blocks, 1, 1, 64, 1, 1, shared, stream, (values, kinds), 0)[0].name

    def numbers(self, there, shape):
        found = np.full(shape, 7.0)
        self("cuMemcpyDtoHAsync", found.ctypes.data, there, found.nbytes, self.stream)
        return found


def sums(x):
    """What the kernel makes of rows (n, 3), the sums alone."""
    return x[:, 0] + x[:, 1]


N = 70
X = np.random.default_rng(1).uniform(0.1, 0.9, (N, 3))


def test_a_launch(fake):
    run = Session(fake)
    x, y = run.array(X), run("cuMemAllocAsync", N * len(KINDS) * ITEM, run.stream)
    assert run.launch(N, x, y) == "CUDA_SUCCESS"
    found = run.numbers(y, (N, len(KINDS)))
    assert (found == 7.0).all() and fake.waits == []  # nothing has waited
    run("cuStreamSynchronize", run.stream)
    np.testing.assert_array_equal(found[:, KINDS.index(Op.ADD)], sums(X))
    for name, handle in (("cuMemFreeAsync", x), ("cuMemFreeAsync", y)):
        run(name, handle, run.stream)
    run("cuStreamSynchronize", run.stream)
    run("cuStreamDestroy", run.stream)
    run("cuModuleUnload", run.module)
    assert not any(fake.live().values())
    fake.check()


def test_what_is_not_ordered_is_not_done(fake):
    run = Session(fake)
    other = run("cuStreamCreate", 1)
    x, y = run.array(X), run("cuMemAllocAsync", N * len(KINDS) * ITEM, run.stream)
    event = run("cuEventCreate", 2)
    run("cuEventRecord", event, run.stream)
    run("cuStreamWaitEvent", other, event, 0)
    run.launch(N, x, y, stream=other)  # after the allocations
    early = run.numbers(y, (N, len(KINDS)))  # held, as copies to it are yet to come
    assert np.all(early == 7.0)  # nothing was done yet
    found = run.numbers(y, (N, len(KINDS)))
    run("cuStreamSynchronize", run.stream)  # before the launch, which it does not wait for
    assert np.isnan(found).all()
    run("cuEventRecord", event, other)
    run("cuStreamWaitEvent", run.stream, event, 0)
    found = run.numbers(y, (N, len(KINDS)))
    run("cuStreamSynchronize", run.stream)
    np.testing.assert_array_equal(found[:, KINDS.index(Op.ADD)], sums(X))


def test_the_default_stream_waits_for_streams_that_block(fake):
    run = Session(fake)
    blocking, x = run("cuStreamCreate", 0), run("cuMemAlloc", X.nbytes)
    run("cuMemcpyHtoDAsync", x, X.ctypes.data, X.nbytes, blocking)
    found = np.zeros_like(X)
    run("cuMemcpyDtoH", found.ctypes.data, x, X.nbytes)
    np.testing.assert_array_equal(found, X)
    run("cuMemcpyHtoDAsync", x, (-X).ctypes.data, X.nbytes, run.stream)  # of which it knows nothing
    run("cuMemcpyDtoH", found.ctypes.data, x, X.nbytes)
    np.testing.assert_array_equal(found, X)
    assert fake.cuStreamQuery(run.stream)[0].name == "CUDA_ERROR_NOT_READY"
    assert fake.cuStreamQuery(run.stream)[0].name == "CUDA_SUCCESS"


def test_answers(fake):
    assert fake.cuDeviceGetCount() == (3, None)
    fake.cuInit(0)
    assert fake.cuDeviceGetCount() == (0, 2) and fake.cuDeviceGet(2)[0].name == "CUDA_ERROR_INVALID_DEVICE"
    assert fake.cuMemAlloc(8)[0].name == "CUDA_ERROR_INVALID_CONTEXT"
    run = Session(fake)
    assert fake.cuMemAlloc(0)[0].name == "CUDA_ERROR_INVALID_VALUE"
    assert fake.cuMemAlloc(1 << 40) == (ENUMS["CUresult"].CUDA_ERROR_OUT_OF_MEMORY, None)
    x, y = run.array(X), run("cuMemAllocAsync", N * len(KINDS) * ITEM, run.stream)
    assert run.launch(N, x, y, shared=60 << 10) == "CUDA_ERROR_INVALID_VALUE"
    run("cuFuncSetAttribute", run.kernel, ENUMS["CUfunction_attribute"].CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
        60 << 10)  # fmt: skip
    assert run.launch(N, x, y, shared=60 << 10) == "CUDA_SUCCESS"
    assert run.launch(0, x, y) == "CUDA_ERROR_INVALID_VALUE"  # a grid of no blocks
    assert run.launch(N, x, y, stream=TYPES["CUstream"](5)) == "CUDA_ERROR_INVALID_HANDLE"
    fake.failures["cuMemAllocAsync"] = "OUT_OF_MEMORY"
    assert fake.cuMemAllocAsync(8, 0)[0].name == "CUDA_ERROR_OUT_OF_MEMORY"
    other = Session(fake, 1)
    assert run.launch(N, x, y) == "CUDA_ERROR_INVALID_HANDLE" and int(other.device) == 1
    kinds = ENUMS["CUpointer_attribute"]
    assert fake.cuPointerGetAttribute(kinds.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, y) == (0, 0)
    assert fake.cuPointerGetAttribute(kinds.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, X.ctypes.data)[0] == 1


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"capability": (7, 0)}, "CUDA_ERROR_NO_BINARY_FOR_GPU"),
        ({"ptx": (5, 0)}, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"),
    ],
)
def test_code_that_a_device_cannot_have(options, answer):
    fake = fake_cuda.FakeCuda(**options)
    fake.cuInit(0)
    fake.cuCtxPushCurrent(fake.cuDevicePrimaryCtxRetain(0)[1])
    assert fake.cuModuleLoadData(TEXT.encode())[0].name == answer


def test_no_driver_and_no_device():
    assert fake_cuda.FakeCuda(devices=0).cuInit(0)[0].name == "CUDA_ERROR_NO_DEVICE"
    with pytest.raises(RuntimeError, match="found"):
        fake_cuda.FakeCuda(has_driver=False).cuInit(0)


def free_twice(run, x, y):
    run("cuMemFree", x)
    run("cuMemFree", x)


def free_then_launch(run, x, y):
    run("cuMemFree", x)
    run.launch(N, x, y)


def free_in_order_then_launch_elsewhere(run, x, y):
    run("cuMemFreeAsync", x, run.stream)
    run("cuStreamSynchronize", run.stream)
    run.launch(N, x, y, stream=0)


def allocate_elsewhere(run, x, y):
    late = run("cuMemAllocAsync", X.nbytes, run("cuStreamCreate", 1))
    run.launch(N, late, y)
    run("cuStreamSynchronize", run.stream)


def results_too_short(run, x, y):
    short = run("cuMemAlloc", N * len(KINDS) * ITEM - 8)
    run.launch(N, x, short)
    run("cuStreamSynchronize", run.stream)


def tile_too_short(run, x, y):
    run.launch(N, x, y, shared=WARP_SHARED)
    run("cuStreamSynchronize", run.stream)


def another_device(run, x, y):
    Session(run.fake, 1).launch(N, x, y)
    run("cuCtxSynchronize")


def copy_too_much(run, x, y):
    run("cuMemcpyDtoH", np.zeros(4 * N), x, X.nbytes + 8)


def host_memory(run, x, y):
    run.launch(N, X.ctypes.data, y)


def one_parameter_short(run, x, y):
    kinds = (ctypes.c_int64, ctypes.c_int64)
    run.fake.cuLaunchKernel(run.kernel, 2, 1, 1, 64, 1, 1, 2 * WARP_SHARED, 0, ((N, 1), kinds), 0)


def a_short_parameter(run, x, y):
    kinds = (ctypes.c_int32, ctypes.c_int64, ctypes.c_double, *[ctypes.c_void_p, ctypes.c_int64] * 2)
    given = ((N, 1, 0.0, int(x), 0, int(y), 0), kinds)
    run.fake.cuLaunchKernel(run.kernel, 2, 1, 1, 64, 1, 1, 2 * WARP_SHARED, 0, given, 0)


def half_a_warp(run, x, y):
    run.fake.cuLaunchKernel(run.kernel, 2, 1, 1, 48, 1, 1, 2 * WARP_SHARED, 0, 0, 0)


@pytest.mark.parametrize(
    ("misuse", "said"),
    [
        (free_twice, "cuMemFree: .* freed already"),
        (free_then_launch, "used after it was freed"),
        (free_in_order_then_launch_elsewhere, "used after it was freed"),
        (allocate_elsewhere, "before its stream has allocated it"),
        (results_too_short, "memory of .* bytes: behind it was written"),
        (tile_too_short, "shared memory: behind it was written"),
        (another_device, "memory of device 0 is used on device 1"),
        (copy_too_much, "bytes are more than there are"),
        (host_memory, "is no address of a device"),
        (one_parameter_short, "has 7 parameters; 2 values"),
        (a_short_parameter, "parameter 0 has 8 bytes; 4 came"),
        (half_a_warp, "48 threads are not whole warps"),
    ],
)
def test_misuse(fake, misuse, said):
    run = Session(fake)
    x, y = run.array(X), run("cuMemAllocAsync", N * len(KINDS) * ITEM, run.stream)
    run("cuStreamSynchronize", run.stream)
    with pytest.raises(Misuse, match=said):
        misuse(run, x, y)
    assert len(fake.faults) == 1


def test_names_are_those_of_the_driver():
    """Numbers, parameters, and numbers of results, where the package is installed."""
    driver = pytest.importorskip("cuda.bindings.driver")
    for name, kind in ENUMS.items():
        assert {x.name: int(x) for x in kind} == {x.name: int(getattr(getattr(driver, name), x.name)) for x in kind}
    assert all(hasattr(driver, name) for name in TYPES)
    for name, function in vars(fake_cuda.FakeCuda).items():
        if re.match("cu[A-Z]", name):
            given = getattr(driver, name).__doc__.split("(", 1)[1].split(")\n")[0]
            while "[" in given:
                given = re.sub(r"\[[^][]*\]", "", given)
            theirs = [x.split(":")[0].split()[-1].strip("*") for x in given.split(",") if x]
            assert list(inspect.signature(function).parameters)[1:] == theirs, name
