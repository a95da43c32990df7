"""Kernels for GPUs on PyTorch tensors, without a GPU: fake tensors of devices that there are not, and launches on the
processor's memory that are emulated. They run where torch is (see run_torch.sh)."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import delassus as ds
import emulated_gpu
from tools import error

torch = pytest.importorskip("torch")
HAND = [ds.Point("link4")]


def both(what="dynamics", dtype="float64", **options):
    """The kernel of an arm for the processor and the one for GPUs."""
    arm = ds.mechanisms.chain(4)
    return [ds.compile(arm, HAND, what, dtype=dtype, target=x, **options) for x in ("cpu", "cuda")]


def states(batch=(2, 5), dtype="float64"):
    """Of a bent arm, whose tip can go anywhere."""
    rng, shape = np.random.default_rng(0), (*np.atleast_1d(batch), 4)
    q = [0.3, 0.9, -0.7, 0.8] + 0.1 * rng.normal(size=shape)
    return tuple(torch.from_numpy(x.astype(dtype)) for x in (q, rng.normal(size=shape), rng.normal(size=4)))


# -- tensors of devices that there are not -------------------------------------------------------------------------


@pytest.fixture
def fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        yield lambda *shape, device="cuda": torch.empty(shape, dtype=torch.float64, device=device)


def test_results_are_on_the_device_of_the_arguments(fake):
    """Called and mapped, with numbers and arrays of NumPy beside tensors."""
    _, kernel = both("step")
    q = fake(2, 5, 4, device="cuda:1")
    for found in (
        kernel(q, q, np.zeros(4), 0.01),
        torch.vmap(kernel, (0, None, None, 0))(q, np.ones(4), fake(4, device="cuda:1"), fake(2, device="cuda:1")),
    ):
        assert [(x.shape, x.device, x.dtype) for x in found] == [(q.shape, q.device, q.dtype)] * 2
    graphs = []
    compiled = torch.compile(
        lambda q: kernel(q, q, q, 0.01),
        fullgraph=True,
        backend=lambda graph, _: graphs.append(graph.code) or graph.forward,
    )
    assert compiled(q)[0].device == q.device and "ops.delassus.traced" in graphs[0]


def test_tensors_of_other_devices_are_refused(fake):
    cpu, cuda = both()
    there, here, meta = fake(3, 4), fake(3, 4, device="cpu"), fake(3, 4, device="meta")
    refused = [
        ((here, here, here), r"q: expected a tensor on a GPU, got one on cpu\. Move it: \.cuda\(\), or compile with"),
        ((there, here, there), r"v: expected a tensor on cuda:0, as another is, got one on cpu\. .*\.to\('cuda:0'\)"),
        ((there, there, fake(3, 4, device="cuda:1")), "tau: expected a tensor on cuda:0, .* got one on cuda:1"),
        ((meta, there, there), "q: .* got one on meta"),
        ((there, there, there.float()), r"tau: expected dtype torch\.float64, got dtype torch\.float32"),
        ((there, fake(3, 5), there), r"v: expected shape \(\.\.\., 4\), got shape \(3, 5\)"),
    ]
    for given, message in refused:
        with pytest.raises(ds.DelassusError, match=message):
            cuda(*given)
    with pytest.raises(ds.DelassusError, match=r"q: expected a tensor on the processor, got one on cuda:0.*'cuda'"):
        cpu(there, there, there)


# -- launches that are emulated ------------------------------------------------------------------------------------


@pytest.fixture
def launches(monkeypatch):
    """Launches on the processor's memory: (device, stream, number of states)."""
    found = []

    def launch(kernel, device, stream, n, pointers, strides=None, steps=1, least=None):
        found.append((device, stream, n))
        entry = emulated_gpu.kernel_of(emulated_gpu.assembly_of(kernel.program(), kernel.dtype.name))
        least = kernel.least if least is None else least
        pairs = zip(pointers, strides or [0] * len(pointers), strict=True)
        numbers = [
            np.int64(n),
            np.int64(steps),
            kernel.dtype.type(least),
            *(np.int64(x) for pair in pairs for x in pair),
        ]
        if n:
            entry.launch(-(-n // 32), 32, 32 * 33 * kernel.dtype.itemsize, [x.tobytes() for x in numbers])

    monkeypatch.setattr(ds.CudaKernel, "launch", launch)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0x700))
    monkeypatch.setattr(
        sys.modules[ds.CudaKernel.__module__].libraries.MODULES["PyTorch"], "_number", lambda kernel, given: -1
    )
    return found


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_calls_are_those_of_the_processor(launches, dtype):
    (cpu, cuda), given = both(dtype=dtype), states((3, 13), dtype)
    bound, compiled = 1e-9 if dtype == "float64" else 1e-3, torch.compile(cuda, fullgraph=True)
    expected = cpu(*given)
    for call in (cuda, torch.vmap(cuda, (0, 0, None)), compiled):
        assert all(error(x, y) < bound for x, y in zip(call(*given), expected, strict=True))
    assert set(launches) == {(None, 0x700, 39)}
    given[0][1, 2] = 0.0
    found = cuda(given[0].movedim(0, 1).contiguous().movedim(0, 1), *given[1:])  # a stretched arm
    assert np.isnan(found[0][1, 2]).all() and np.isfinite(found[0][0]).all()
    assert cuda(given[0][:0], given[1][:0], given[2])[0].shape == (0, 13, 4)


@pytest.mark.slow
def test_gradients_are_those_of_the_processor(launches):
    (cpu, cuda), (q, v, tau) = both(), states(4)
    for kernels in ((cuda, cpu), (torch.compile(cuda, fullgraph=True), cpu)):
        found, expected = (
            torch.autograd.grad(sum((x**2).sum() for x in kernel(*given)), given)
            for kernel in kernels
            for given in [[x.clone().requires_grad_() for x in (q, v, tau)]]
        )
        assert all(error(x, y) < 1e-9 for x, y in zip(found, expected, strict=True))
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        J, known = (torch.vmap(transform(lambda q, v, k=k: k(q, v, tau)[0]))(q, v) for k in (cuda, cpu))
        assert error(J, known) < 1e-9
    assert {made.target for made in cuda._derivatives.values()} == {"cuda"}


@pytest.mark.slow
@pytest.mark.parametrize("what", ["step", "contact_step"])
def test_rollouts_have_derivatives_and_policies(launches, what):
    """One launch forwards and one for tangents; a launch for each step backwards, and for each of a policy's."""
    ball = ds.mechanisms.free_body(1.0, np.diag([0.01, 0.02, 0.03]), name="ball")
    contacts = ds.Contact("ball", ds.contact.Sphere(0.1)) if what == "contact_step" else ()
    cpu, cuda = (ds.compile(ball, contacts, what, target=x) for x in ("cpu", "cuda"))
    rng, q = np.random.default_rng(0), torch.tensor([0, 0, 0.1 - 1e-4, 0, 0, 0, 1.0], dtype=torch.float64)
    v, tau = (torch.from_numpy(rng.normal(size=shape)) for shape in ((3, 6), (4, 3, 6)))

    def rolled(kernel):
        return lambda v, tau: ds.rollout(kernel, q, v, tau, 1e-2, time_axis=0, decimation=2)

    for found, known in zip(rolled(cuda)(v, tau), rolled(cpu)(v, tau), strict=True):
        assert found.shape == known.shape and error(found, known) < 1e-9
    assert launches == [(None, 0x700, 3)]
    found, known = (
        torch.autograd.grad(sum((x**2).sum() for x in rolled(kernel)(*given)[:2]), given)
        for kernel in (cuda, cpu)
        for given in [[x.clone().requires_grad_() for x in (v, tau)]]
    )
    assert all(error(x, y) < 1e-9 for x, y in zip(found, known, strict=True)) and len(launches) == 1 + 1 + 8
    found, known = (torch.func.jvp(lambda v, k=k: rolled(k)(v, tau)[1], (v,), (v,))[1] for k in (cuda, cpu))
    assert error(found, known) < 1e-9 and len(launches) == 12

    def damped(kernel, gain):
        return ds.rollout(kernel, q, v, lambda t, q, v: t - gain * v, 1e-2, steps=4, decimation=2)

    gain = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    found = damped(cuda, gain)
    held = ds.rollout(cpu, q.numpy(), v.numpy(), lambda t, q, v: t - 0.3 * v, 1e-2, steps=4, decimation=2)
    assert all(error(x.detach(), y) < 1e-9 for x, y in zip(found, held, strict=True))
    (slope,) = torch.autograd.grad(found[1][-1].sum(), gain)
    ends = [damped(cuda, 0.3 + h)[1][-1].sum() for h in (1e-5, -1e-5)]
    assert abs(slope - (ends[0] - ends[1]) / 2e-5) < 1e-4 * abs(slope)


@pytest.mark.slow
def test_worlds_are_those_of_the_processor(launches, monkeypatch):
    """An environment whose kernels are for GPUs, all of it: controls, steps, observations, new episodes."""
    gym = pytest.importorskip("delassus.gym")
    known = gym.Worlds.__init__.__globals__
    of_torch = known["arrays_of"].__globals__["OfPyTorch"]
    monkeypatch.setitem(known, "arrays_of", lambda device: of_torch("cpu"))
    there, here = gym.ArmReach(3, device="cuda", episode=0.04), gym.ArmReach(3, episode=0.04)
    for envs in (there, here):
        envs.reset(seed=1)
    assert there.kernel.target == "cuda" and set(launches) == {
        (None, 0x700, 24),
        (None, 0x700, 3),
    }  # eight tries of each
    for state in ("q", "goals", "_friction", "_payload"):  # random numbers are the same on all devices
        assert error(getattr(there, state), getattr(here, state)) < 1e-6
    for k in range(2):
        actions = torch.linspace(-1, 1, 9).reshape(3, 3)
        launches.clear()
        found, expected = there.step(actions), here.step(actions.numpy())
        assert len(launches) >= 4 and here.kernel.target == "cpu"
        assert error(found[4]["final_obs"], np.asarray(expected[4].get("final_obs", expected[0]))) < 1e-3
        assert error(found[1], np.asarray(expected[1])) < 1e-3 and found[3].tolist() == [k == 1] * 3
