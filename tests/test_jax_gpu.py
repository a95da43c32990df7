"""Kernels for GPUs on JAX arrays, without a GPU: what is lowered for one, and XLA's calls, with launches emulated.

XLA calls the kernel's entry on the processor, in frames of its own. On the way there its interface is replaced by one
that knows a stream, and behind it the driver by one that runs the threads of each launch at once.
"""

from __future__ import annotations

import ctypes
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
import fake_cuda
from tools import error

jax = pytest.importorskip("jax")
jnp = jax.numpy
on_jax = sys.modules[ds.CudaKernel.__module__].libraries.MODULES["JAX"]
xla_entry = sys.modules[on_jax._xla_launch.__module__]
ARM, HAND = ds.mechanisms.chain(4), [ds.Point("link4")]


@pytest.fixture(autouse=True)
def every_type():
    with jax.enable_x64(True):
        yield


def both(what="dynamics", dtype="float64", **options):
    """The kernel of an arm for the processor and the one for GPUs."""
    return [ds.compile(ARM, HAND, what, dtype=dtype, target=x, **options) for x in ("cpu", "cuda")]


def states(batch=40, dtype="float64"):
    """Of a bent arm, whose tip can go anywhere."""
    rng, shape = np.random.default_rng(0), (*np.atleast_1d(batch), 4)
    q = [0.3, 0.9, -0.7, 0.8] + 0.1 * rng.normal(size=shape)
    return tuple(x.astype(dtype) for x in (q, rng.normal(size=shape), rng.normal(size=4)))


# -- the interface of XLA ------------------------------------------------------------------------------------------


def structures():
    """Structures of XLA's header, by their names without what all begin with."""
    text = re.sub(r"//.*", "", Path(jax.ffi.include_dir(), "xla/ffi/api/c_api.h").read_text())
    text = re.sub(r"_XLA_FFI_API_STRUCT_FIELD\((\w+)\)", r"void* \1", text)
    known = {"size_t": ctypes.c_size_t, "int64_t": ctypes.c_int64, "int32_t": ctypes.c_int32, "int": ctypes.c_int}
    known |= {name: ctypes.c_int for name in re.findall(r"\} (\w+);", text)}  # enums; structures come over them
    known |= {name: ctypes.c_uint32 for name in re.findall(r"typedef uint32_t (\w+);", text)}
    for name, body in re.findall(r"struct (XLA_FFI_\w+) \{(.*?)\n\}", text, re.S):
        fields = []
        for field in filter(None, map(str.strip, body.split(";"))):
            kind, word = re.fullmatch(r"(.*?)(\w+)\)?(?:\(.*\))?", " ".join(field.split())).groups()
            fields.append((word, ctypes.c_void_p if "*" in kind else known[kind.strip()]))
        known[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return {name.removeprefix("XLA_FFI_"): kind for name, kind in known.items()}


def test_offsets_are_those_of_the_header():
    known = structures()
    frame, buffer, api = known["CallFrame"], known["Buffer"], known["Api"]
    found = {
        "EXTENSION": frame.extension_start, "API": frame.api, "CONTEXT": frame.ctx, "DATA": buffer.data,
        "RANK": buffer.rank, "DIMENSIONS": buffer.dims, "ERROR_CREATE": api.XLA_FFI_Error_Create,
        "ERROR_DESTROY": api.XLA_FFI_Error_Destroy, "STREAM_GET": api.XLA_FFI_Stream_Get,
        "SCHEDULE": api.XLA_FFI_ThreadPool_Schedule, "NUM_THREADS": api.XLA_FFI_ThreadPool_NumThreads,
        "EXTENSION_TYPE": known["Extension_Base"].type, "METADATA": known["Metadata_Extension"].metadata,
        "TRAITS": known["Metadata"].traits, "STATE_TYPE": known["Metadata"].state_type_id,
    }  # fmt: skip
    assert {name: getattr(xla_entry, name) for name in found} == {name: field.offset for name, field in found.items()}
    assert frame.args.offset + known["Args"].args.offset == xla_entry.ARGUMENTS
    assert frame.rets.offset + known["Rets"].rets.offset == xla_entry.RESULTS
    for name in ("major", "minor"):
        field = getattr(known["Api_Version"], f"{name}_version")
        assert known["Metadata"].api_version.offset + field.offset == getattr(xla_entry, name.upper())
    stream = known["Stream_Get_Args"]
    assert (stream.ctx.offset, stream.stream.offset, ctypes.sizeof(stream)) == (16, 24, 32)


# -- lowering ------------------------------------------------------------------------------------------------------


def lowered(function, *given):
    text = jax.jit(function).trace(*given).lower(lowering_platforms=("cuda",)).as_text()
    return re.findall(r"custom_call @(\S+?)\(.*?operand_layouts = \[(.*?)\], result_layouts = \[(.*?)\]\}", text)


def test_what_is_lowered_for_a_gpu(monkeypatch):
    """Its name is that of the kernel; all arrays are row-major, the reciprocal conditions too."""
    registered = []
    monkeypatch.setattr(jax.ffi, "register_ffi_target", lambda name, _, platform: registered.append((name, platform)))
    monkeypatch.setattr(on_jax, "_targets", set())
    _, kernel = both()
    given = states(batch=(2, 5))
    rows = "dense<[2, 1, 0]> : tensor<3xindex>"
    ((name, operands, results),) = lowered(kernel, *given)
    assert name.strip('"') == f"delassus_{kernel.identity}"
    assert operands == ", ".join([rows] * 3) and results == f"{rows}, {rows}, dense<[1, 0]> : tensor<2xindex>"
    mapped = jax.vmap(jax.grad(lambda *x: kernel(*x)[0].sum()), (0, 0, None))
    ((name, operands, _),) = lowered(jax.vmap(mapped, (0, 0, None)), *given)
    assert name.strip('"') == f"delassus_{kernel.derivative('vjp').identity}" and operands.count(rows) == 5
    assert registered == [(f"delassus_{x.identity}", "CUDA") for x in (kernel, kernel.derivative("vjp"))]
    ((name, _, results),) = lowered(both("energies")[1], *given[:2])
    assert results == "dense<[1, 0]> : tensor<2xindex>, dense<[1, 0]> : tensor<2xindex>"  # nothing divides


def test_what_no_launch_can_have_is_refused():
    kernel = both("energies")[1]
    huge = jax.ShapeDtypeStruct((2**32, 4), "float64")
    with pytest.raises(ds.DelassusError, match="batch: expected 4294967295 states at most, got 4294967296"):
        lowered(kernel, huge, huge)


def test_kernels_of_another_target_are_refused():
    cpu, cuda = both()
    with pytest.raises(ds.DelassusError, match=r"arrays on cuda, got one with target='cpu'\. Compile .* target='cuda'"):
        lowered(cpu, *states())
    for call in (cuda, jax.jit(cuda)):
        with pytest.raises(
            ds.DelassusError, match=r"arrays on cpu, got one with target='cuda'.*jax\.devices\('cuda'\)"
        ):
            call(*map(jnp.asarray, states()))


# -- calls ---------------------------------------------------------------------------------------------------------


class Gpu:
    """XLA on the processor, which believes that it is on a GPU: its streams are numbers, contexts by their streams.

    ``launches`` are devices' numbers, streams, blocks, threads and shared bytes; ``fails`` is what the next one does.
    """

    def __init__(self, monkeypatch, fake):
        self.devices = {0x500: 0, 0x600: 1}  # by their streams
        self.fake, self.launches, self.fails, self.stream, self.api = fake, [], 0, 0x500, None
        self.known = structures()
        word, address = ctypes.c_uint32, ctypes.c_void_p
        kinds = {
            "cuLaunchKernel": ctypes.CFUNCTYPE(ctypes.c_int32, address, *[word] * 7, address, address, address),
            "cuStreamGetCtx": ctypes.CFUNCTYPE(ctypes.c_int32, address, address),
            "cuGetErrorString": ctypes.CFUNCTYPE(ctypes.c_int32, word, address),
        }
        self.functions = {name: kind(getattr(self, name)) for name, kind in kinds.items()}
        self.stream_get = ctypes.CFUNCTYPE(address, address)(self.give_stream)
        self.text, self.entries = ctypes.create_string_buffer(b"out of luck"), []
        fake.cuGetProcAddress = lambda name, version, flags: (0, self.address(self.functions[name.decode()]), 0)
        monkeypatch.setitem(on_jax.PLATFORMS, "cpu", "cuda")
        monkeypatch.setattr(on_jax, "_devices", lambda: [0, 1])
        monkeypatch.setattr(on_jax, "_targets", set())
        own = f"fake_{id(self):x}_"  # XLA forgets no name, and each has one entry for good
        register, lowering, capsule = jax.ffi.register_ffi_target, jax.ffi.ffi_lowering, jax.ffi.pycapsule
        monkeypatch.setattr(
            jax.ffi, "register_ffi_target", lambda name, *how, **more: register(own + name, *how, **more)
        )
        monkeypatch.setattr(jax.ffi, "ffi_lowering", lambda name: lowering(own + name))
        monkeypatch.setattr(jax.ffi, "pycapsule", lambda entry: capsule(address(self.wrapped(entry))))
        monkeypatch.setattr(on_jax, "_made_for", lambda platform, kernel: kernel)

    @staticmethod
    def address(function):
        return ctypes.cast(function, ctypes.c_void_p).value

    def wrapped(self, entry):
        """Address of an entry that is called by frames of XLA whose interface has streams."""
        kind = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
        inner, Frame, Api = kind(entry.value), self.known["CallFrame"], self.known["Api"]

        def called(at):
            frame = Frame.from_buffer_copy(ctypes.string_at(at, ctypes.sizeof(Frame)))
            if not frame.extension_start:
                size = min(ctypes.sizeof(Api), ctypes.c_size_t.from_address(frame.api).value)
                self.api = Api.from_buffer_copy(ctypes.string_at(frame.api, size).ljust(ctypes.sizeof(Api), b"\0"))
                self.api.XLA_FFI_Stream_Get = self.address(self.stream_get)
                frame.api = ctypes.addressof(self.api)
            return inner(ctypes.addressof(frame))

        self.entries += [inner, kind(called)]
        return self.address(self.entries[-1])

    def give_stream(self, call):
        self.known["Stream_Get_Args"].from_address(call).stream = self.stream

    def cuStreamGetCtx(self, stream, out):
        ctypes.c_void_p.from_address(out).value = self.fake.devices[self.devices[stream]].context
        return 0

    def cuGetErrorString(self, status, out):
        ctypes.c_void_p.from_address(out).value = ctypes.addressof(self.text)
        return 0

    def cuLaunchKernel(self, function, gx, gy, gz, bx, by, bz, shared, stream, operands, extra):
        device, kernel, *_ = self.fake.functions[function]
        assert (gy, gz, by, bz, extra) == (1, 1, 1, 1, None) and device.number == self.devices[stream]
        self.launches.append((device.number, stream, gx, bx, shared))
        if not self.fails:
            kernel.launch(gx, bx, shared, fake_cuda.parameters(kernel.types, operands))
        return self.fails


@pytest.fixture
def gpu(monkeypatch):
    jax.clear_caches()
    yield Gpu(monkeypatch, fake_cuda.install(monkeypatch))
    jax.clear_caches()


@pytest.mark.slow
def test_calls_are_those_of_the_processor(gpu):
    """To round-off; but for a stretched arm, which the processor solves again."""
    dtype = "float32"
    cpu, cuda = both(dtype=dtype)
    given = states(70, dtype)
    given[0][3] = 0.0
    good, bound = np.arange(70) != 3, 1e-3
    with pytest.warns(ds.DelassusWarning):
        expected = cpu(*given)
    for call in (cuda, jax.jit(cuda), jax.vmap(cuda, (0, 0, None)), jax.jit(jax.vmap(cuda, (0, 0, None)))):
        for found, known in zip(call(*map(jnp.asarray, given)), expected, strict=True):
            assert found.dtype == dtype and error(found[good], known[good]) < bound
            assert np.isnan(found[3]).all()
    pitch = 33 * np.dtype(dtype).itemsize
    assert set(gpu.launches) == {(0, 0x500, 3, 32, 32 * pitch)}
    gpu.stream = 0x600  # of the other device
    cuda(*map(jnp.asarray, states(400, dtype)))
    assert gpu.launches[-1] == (1, 0x600, 5 if 13 // 4 < 2 else 7, 64, 64 * pitch)
    n = len(gpu.launches)
    assert cuda(*map(jnp.asarray, states(0, dtype)))[0].shape == (0, 4) and len(gpu.launches) == n
    one = cuda(*(jnp.asarray(x) for x in (given[0][0], given[1][0], given[2])))
    assert error(one[0], expected[0][0]) < bound


@pytest.mark.slow
def test_derivatives_transforms_and_loops(gpu):
    """Kernels of derivatives are for GPUs, too: against those of the processor, backwards, forwards and over time."""
    cpu, cuda = both()
    q, v, tau = map(jnp.asarray, states(3))

    def loss(kernel):
        return lambda q: sum((x**2).sum() for x in kernel(q, v, tau))

    known = np.concatenate([2.0 * x for x in cpu(*map(np.asarray, (q, v, tau)))], axis=-1)
    bar = cpu.derivative("vjp")(*map(np.asarray, (q, v, tau)), known[:, :4], known[:, 4:])
    assert error(jax.jit(jax.grad(loss(cuda)))(q), bar[0]) < 1e-9
    dot = cpu.derivative("jvp")(*map(np.asarray, (q, v, tau, v, v, tau)))
    _, found = jax.jvp(cuda, (q, v, tau), (v, v, tau))
    assert all(error(x, y) < 1e-9 for x, y in zip(found, dot, strict=True))
    J = jax.vmap(jax.jacrev(lambda q, v: cuda(q, v, tau)[0]))(q, v)
    assert error(J, jax.vmap(jax.jacfwd(lambda q, v: cuda(q, v, tau)[0]))(q, v)) < 1e-9
    assert {made.target for made in cuda._derivatives.values()} == {"cuda"} and not gpu.fake.waits

    cpu, cuda = both("step")
    controls = np.random.default_rng(1).normal(size=(4, 3, 4))
    known = ds.rollout(cpu, np.asarray(q), np.asarray(v), controls, 1e-3)
    found = jax.jit(lambda x: ds.rollout(cuda, q, v, x, 1e-3, time_axis=0))(controls)
    assert all(error(x, y) < 1e-9 for x, y in zip(found, known, strict=True))
    mesh, of_device = jax.sharding.Mesh(jax.devices()[:1], "devices"), jax.P("devices")
    split = jax.shard_map(lambda q, v: both("energies")[1](q, v)[0], mesh=mesh, in_specs=of_device, out_specs=of_device)
    assert error(split(q, v), both("energies")[0](np.asarray(q), np.asarray(v))[0]) < 1e-12


def test_errors_of_the_driver_are_those_of_xla(gpu):
    """Of a launch, of streams that are of no device of JAX, and of loading, when it is compiled."""
    _, kernel = both("energies")
    q, v, _ = map(jnp.asarray, states(3))
    kernel(q, v)
    gpu.fails = 701
    with pytest.raises(Exception, match=r"INTERNAL.*out of luck"):
        jax.block_until_ready(kernel(q, v))
    gpu.fails, gpu.devices[0x700] = 0, 2
    gpu.fake.devices.append(fake_cuda.Device(2, (9, 0), 1 << 28, "Fake 2"))
    gpu.stream = 0x700
    with pytest.raises(Exception, match=r"INTERNAL.*not loaded on this device"):
        jax.block_until_ready(kernel(q, v))
    gpu.fake.ptx_version = (6, 0)
    with pytest.raises(ds.DelassusError, match="a driver that knows PTX"):
        both("centre_of_mass")[1](q)


def test_xla_may_record_launches_in_graphs(gpu):
    """What an entry says of itself: the version of the interface, and that it is made for command buffers."""
    entry = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(on_jax.address_of(xla_entry._xla_launch))
    known = structures()
    metadata, frame = known["Metadata"](), known["CallFrame"]()
    extension = known["Metadata_Extension"](metadata=ctypes.addressof(metadata))
    extension.extension_base.type, frame.extension_start = 1, ctypes.addressof(extension)
    assert entry(ctypes.addressof(frame)) is None
    assert (metadata.api_version.major_version, metadata.api_version.minor_version, metadata.traits) == (0, 3, 1)
