"""Kernels for GPUs on PyTorch tensors, without a GPU: fake tensors of devices that there are not (see run_torch.sh)."""

from __future__ import annotations

import numpy as np
import pytest

import delassus as ds

torch = pytest.importorskip("torch")
HAND = [ds.Point("link4")]


def both(what="dynamics", dtype="float64", **options):
    """The kernel of an arm for the processor and the one for GPUs."""
    arm = ds.mechanisms.chain(4)
    return [ds.compile(arm, HAND, what, dtype=dtype, target=x, **options) for x in ("cpu", "cuda")]


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
