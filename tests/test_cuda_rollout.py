"""Rollouts by kernels for GPUs, of arrays of NumPy and of a library like CuPy, on a fake driver."""

from __future__ import annotations

import sys
import types
from contextlib import contextmanager

import numpy as np
import pytest

import delassus as ds
import fake_cuda
from delassus.contact import Sphere
from delassus.errors import ConfigurationError


class Array(np.ndarray):
    """Array of the library below: what the host does with it comes after all that was begun on its device."""

    __module__ = "cupy"
    library = None

    @property
    def device(self):
        return types.SimpleNamespace(id=self.number)

    @property
    def data(self):
        return types.SimpleNamespace(ptr=self.ctypes.data)

    def __array_finalize__(self, origin):
        self.number = getattr(origin, "number", 0)

    def __array_function__(self, function, kinds, arguments, named):
        raise TypeError("functions of NumPy do not take these")

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **named):
        self.library.finish()
        into = {"out": tuple(x.view(np.ndarray) for x in out)} if out else {}
        found = getattr(ufunc, method)(*(np.asarray(x).view(np.ndarray) for x in inputs), **into, **named)
        return out[0] if out else self.library.asarray(found)

    def __setitem__(self, where, x):
        self.library.finish()
        super().__setitem__(where, x)

    def numpy(self):
        self.library.finish()
        return np.array(self.view(np.ndarray))

    def max(self):
        return self.library.asarray(self.numpy().max())

    def sum(self, axis):
        return self.library.asarray(self.numpy().sum(axis))


class Library(types.ModuleType):
    """The module ``cupy``, on a fake driver."""

    def __init__(self, fake):
        super().__init__("cupy")
        self.fake, self.number = fake, 0
        self.cuda = types.SimpleNamespace(Device=self._on, get_current_stream=lambda: types.SimpleNamespace(ptr=0))
        fake.cuInit(0)
        self.contexts = [fake.cuDevicePrimaryCtxRetain(k)[1] for k in range(len(fake.devices))]
        self.broadcast_to, self.moveaxis = (
            lambda x, s: np.broadcast_to(x.view(np.ndarray), s).view(Array),
            lambda x, a, b: np.moveaxis(x.view(np.ndarray), a, b).view(Array),
        )
        for name in ("repeat", "amax", "concatenate", "stack"):
            setattr(self, name, self._on_host(getattr(np, name)))

    @contextmanager
    def _on(self, number):
        self.number, before = number, self.number
        yield
        self.number = before

    def _on_host(self, function):
        def made(x, *others):
            return self.asarray(function([y.numpy() for y in x] if isinstance(x, list) else x.numpy(), *others))

        return made

    def finish(self):
        for device in self.fake.devices:
            device.legacy.run(device.legacy.begun)

    def empty(self, shape, dtype):
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self.fake.cuCtxPushCurrent(self.contexts[self.number])
        allocation = self.fake._new(max(size, 1), True)
        self.fake.cuCtxPopCurrent()
        made = np.ndarray(shape, dtype, allocation.memory, fake_cuda.GUARD).view(Array)
        made.number = self.number
        return made

    def zeros(self, shape, dtype):
        return self.asarray(np.zeros(shape, dtype))

    def asarray(self, x):
        x = np.asarray(x)
        made = self.empty(x.shape, x.dtype)
        made[...] = x
        return made

    def ascontiguousarray(self, x):
        return x if x.flags.c_contiguous else self.asarray(x.numpy())


@pytest.fixture
def fake(monkeypatch):
    known = ds.CudaKernel.__init__.__globals__["driver"].__globals__  # of the driver, which another test may have
    monkeypatch.setitem(known, "_driver", None)
    made = fake_cuda.install(monkeypatch, order=np.random.default_rng(0).permutation)
    yield made
    made.check()


@pytest.fixture
def cupy(fake, monkeypatch):
    library = Library(fake)
    monkeypatch.setattr(Array, "library", library)
    monkeypatch.setitem(sys.modules, "cupy", library)
    return library


def close(a, b, dtype):
    a, b = (np.asarray(x.numpy() if isinstance(x, Array) else x) for x in (a, b))
    assert a.shape == b.shape and a.dtype == b.dtype == dtype
    assert np.isfinite(b).all()
    assert np.abs(a - b).max() <= 200 * np.finfo(dtype).eps * max(1.0, np.abs(b).max())


RNG = np.random.default_rng(7)


def chain(n, T, dtype):
    """Kernels of both targets, a start, controls, and what is given beside."""
    arm = ds.mechanisms.chain(3)
    kernels = [ds.compile(arm, (), "step", dtype=dtype, target=t) for t in ("cpu", "cuda")]
    q, v, tau = arm.random(RNG, batch=n), RNG.normal(size=(*n, 3)), RNG.normal(size=(T, *n, 3))
    return kernels, q, v, tau, {}


def floating(n, T, dtype):
    """A floating body whose two arms are tied to one another, at some of the steps."""
    tree = ds.mechanisms.star(2, 2)
    loop = ds.Point(*(ds.Frame(name, (0.1, 0.0, 0.2)) for name in (tree.link_names[2], tree.link_names[-1])))
    kernels = [ds.compile(tree, loop, "step", dtype=dtype, active=True, target=t) for t in ("cpu", "cuda")]
    q, v = tree.random(RNG, batch=n), 0.1 * RNG.normal(size=(n, tree.nv))
    active = (RNG.uniform(size=(T, n, 1)) > 0.5).astype(dtype)
    return kernels, q, v, RNG.normal(size=(T, n, tree.nv)), {"active": active}


def contact(n, T, dtype):
    """A chain that touches the ground with its tip."""
    arm = ds.mechanisms.chain(3)
    tip = ds.Contact(ds.Frame("link3", (0.2, 0.0, 0.0)), Sphere(0.03))
    how = {"dtype": dtype, "friction": "input", "payloads": ["link3"], "sweeps": 5}
    kernels = [ds.compile(arm, tip, "contact_step", target=t, **how) for t in ("cpu", "cuda")]
    payload = np.zeros((n, 10))
    payload[:, 0] = RNG.uniform(size=n)
    q, v = 0.3 * RNG.normal(size=(n, 3)), RNG.normal(size=(n, 3))
    return kernels, q, v, RNG.normal(size=(T, n, 3)), {"payload0": payload, "friction": np.full(1, 0.7)}


CASES = [
    pytest.param(chain, (), 2, "float64", ("jvp", "vjp")),
    pytest.param(floating, 5, 3, "float64", ()),
    pytest.param(contact, 33, 2, "float64", ("vjp",), marks=pytest.mark.slow),
]


@pytest.mark.filterwarnings("ignore::delassus.errors.DelassusWarning")
@pytest.mark.parametrize(("made", "n", "T", "dtype", "modes"), CASES)
def test_trajectories(made, n, T, dtype, modes, cupy, fake):
    kernels, q, v, controls, others = made(n, T, dtype)
    q, v, controls = (x.astype(dtype) for x in (q, v, controls))
    others = {name: x.astype(dtype) for name, x in others.items()}
    how = {"time_axis": 0, "per_step": [name for name in others if name == "active"]}
    expected = ds.rollout(kernels[0], q, v, controls, 4e-3, **how, **others)
    found = ds.rollout(kernels[1], q, v, controls, 4e-3, **how, **others)
    assert all(type(x) is np.ndarray for x in found) and len(fake.launches) == 1
    assert fake.live()["memory"] == len(cupy.fake.memory) - sum(a.freed for a in fake.memory.values())
    for a, b in zip(found, expected, strict=True):
        close(a, b, dtype)
    fake.waits.clear()
    there = {name: cupy.asarray(x) for name, x in others.items()}
    found = ds.rollout(kernels[1], *map(cupy.asarray, (q, v, controls)), 4e-3, **how, **there)
    assert not fake.waits and all(type(x) is Array for x in found) and len(fake.launches) == 2
    for a, b in zip(found, expected, strict=True):
        close(a, b, dtype)
    _derivatives(modes, kernels, found, expected, controls, others, there, how, cupy, dtype)


def _derivatives(modes, kernels, found, expected, controls, others, there, how, cupy, dtype):
    """Tangents and cotangents at the trajectories of a rollout."""
    n_states = kernels[0].request.states
    names = [a.name for a in kernels[0].arguments]
    states = expected[:n_states]
    starts = {f"{name}_dot": RNG.normal(size=x[0].shape).astype(dtype) for name, x in zip(names, states, strict=False)}
    ends = {
        f"{r.name}_bar": RNG.normal(size=x[1:].shape).astype(dtype)
        for r, x in zip(kernels[0].results, states, strict=False)
    }
    tangent = {f"{kernels[0].request.control}_dot": RNG.normal(size=controls.shape).astype(dtype)}
    for mode in modes:
        given = starts | tangent if mode == "jvp" else ends
        impulses = [{"impulses": x[2]} if n_states > 2 else {} for x in (expected, found)]
        want = ds.rollout(
            kernels[0].derivative(mode), *states[:2], controls, 4e-3, **how, **others, **given, **impulses[0]
        )
        of = kernels[1].derivative(mode)
        got = ds.rollout(of, *states[:2], controls, 4e-3, **how, **others, **given, **impulses[0])
        given = {name: cupy.asarray(x) for name, x in given.items()}
        on_device = ds.rollout(of, *found[:2], cupy.asarray(controls), 4e-3, **how, **there, **given, **impulses[1])
        for a, b, c in zip(got, on_device, want, strict=True):
            scale = max(1.0, np.abs(c).max())
            close(a / scale, c / scale, dtype)
            close(b.numpy() / scale, c / scale, dtype)


def test_held_controls_time_axes_and_policies(cupy, fake):
    (cpu, gpu), q, v, controls, _ = chain((3,), 4, "float64")
    batch_first = np.swapaxes(controls, 0, 1)
    for given, how in ((controls, {"time_axis": 0, "decimation": 3}), (batch_first, {"time_axis": 1})):
        expected = ds.rollout(cpu, q, v, given, 1e-2, **how)
        for of in (np.asarray, cupy.asarray):
            found = ds.rollout(gpu, of(q), of(v), of(np.ascontiguousarray(given)), 1e-2, **how)
            for a, b in zip(found, expected, strict=True):
                close(a, b, "float64")
    bars = {"q_next_bar": RNG.normal(size=(12, 3, 3))}
    how = {"time_axis": 0, "decimation": 3}
    qs, vs = ds.rollout(cpu, q, v, controls, 1e-2, **how)
    want = ds.rollout(cpu.derivative("vjp"), qs, vs, controls, 1e-2, **how, **bars)
    for of in (np.asarray, cupy.asarray):
        bars = {name: of(x) for name, x in bars.items()}
        got = ds.rollout(gpu.derivative("vjp"), *map(of, (qs, vs, controls)), 1e-2, **how, **bars)
        for a, b in zip(got, want, strict=True):
            close(a, b, "float64")
        times = []

        def policy(t, q, v, times=times):
            times.append(float(t))
            return -2.0 * v

        expected = ds.rollout(cpu, q, v, lambda t, q, v: -2.0 * v, 1e-2, steps=5, decimation=2)
        found = ds.rollout(gpu, of(q), of(v), policy, 1e-2, steps=5, decimation=2)
        assert times == [0.0, 0.02, 0.04]
        for a, b in zip(found, expected, strict=True):
            close(a, b, "float64")


def test_trajectories_are_shared_out(fake):
    """A block of the batch to each device, from so many on."""
    (cpu, gpu), q, v, controls, _ = chain((2,), 1, "float32")
    n = 2 * 4096
    q, v = (np.resize(x, (n, 3)).astype("float32") for x in (q, v))
    controls = np.resize(controls, (1, n, 3)).astype("float32")
    found = ds.rollout(gpu, q, v, controls, 1e-2, time_axis=0)
    assert sorted(launch[0] for launch in fake.launches) == [0, 1]
    for a, b in zip(found, ds.rollout(cpu, q, v, controls, 1e-2, time_axis=0), strict=True):
        close(a, b, "float32")


def test_what_is_not_solved_is_nan_from_there_on(cupy):
    """Two rods whose ends are held at one place by rows that are redundant."""
    arm = ds.mechanisms.chain(2)
    rows = [ds.Weld("link2"), ds.Weld("link2")]
    kernel = ds.compile(arm, rows, "step", method="pv-early", target="cuda")
    q, v, tau = arm.random(RNG, batch=2), np.zeros((2, 2)), np.zeros((3, 2, 2))
    for of in (np.asarray, cupy.asarray):
        qs, _ = ds.rollout(kernel, of(q), of(v), of(tau), 1e-3, time_axis=0)
        qs = qs.numpy() if isinstance(qs, Array) else qs
        assert np.array_equal(qs[0], q) and np.isnan(qs[1:]).all()


def test_what_rollouts_on_gpus_refuse(cupy):
    (_, gpu), q, v, controls, _ = chain((3,), 4, "float64")
    for name, x in (("threads", 1), ("return_status", True), ("feedback", np.zeros((4, 3, 6)))):
        with pytest.raises(ConfigurationError, match=f"{name}: expected none with target='cuda'"):
            ds.rollout(gpu, q, v, controls, 1e-2, time_axis=0, **{name: x})
    there = [cupy.asarray(x) for x in (q, v, controls)]
    with pytest.raises(ConfigurationError, match="q: expected dtype float64"):
        ds.rollout(gpu, there[0].astype("float32"), *there[1:], 1e-2)
    with pytest.raises(ConfigurationError, match="q: expected 5 steps"):
        ds.rollout(gpu.derivative("vjp"), *there, 1e-2)
    with cupy._on(1):
        elsewhere = cupy.asarray(q)
    with pytest.raises(ConfigurationError, match="arrays on one device"):
        ds.rollout(gpu, elsewhere, *there[1:], 1e-2)
