"""Kernels on GPUs that there are not, a fake driver's (`fake_cuda.py`): numbers, streams, lifetimes, errors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import delassus as ds
from delassus.errors import ConfigurationError

ARM, HAND = ds.mechanisms.chain(7), [ds.Weld("link7")]


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
