"""Kernels on PyTorch tensors: batched, differentiated, compiled. They run where torch is (see run_torch.sh)."""

from __future__ import annotations

import base64
import gc
import pickle
import subprocess
import sys
import weakref
import zlib
from pathlib import Path

import numpy as np
import pytest

import delassus as ds
from tools import error

pytestmark = pytest.mark.usefixtures("machine_code")

torch = pytest.importorskip("torch")

HAND = [ds.Point("link7")]


def tensors(*arrays):
    return tuple(torch.from_numpy(np.array(x)) for x in arrays)


@pytest.fixture
def motion():
    """An arm, its compiled dynamics, a batch (3, 4) of states."""
    tree, rng = ds.mechanisms.chain(7), np.random.default_rng(0)
    q = tree.random(rng, batch=(3, 4))
    return tree, ds.compile(tree, HAND, "dynamics"), (q, rng.normal(size=q.shape), rng.normal(size=7))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_batches_are_those_of_numpy(dtype):
    tree = ds.mechanisms.chain(7)
    kernel = ds.compile(tree, HAND, dtype=dtype)
    q, compiled = tree.random(0, batch=(3, 5)).astype(dtype), torch.compile(kernel, fullgraph=True)
    for call in (
        kernel,
        torch.vmap(kernel),
        torch.vmap(torch.vmap(kernel), 1, 1),
        compiled,
        torch.compile(lambda q: compiled(q), fullgraph=True),
        torch.compile(lambda q: kernel(q)),
    ):
        G = call(*tensors(q))
        assert isinstance(G, torch.Tensor) and str(G.dtype) == f"torch.{dtype}"
        assert np.array_equal(G, kernel(q))
    for size in (0, 1, 200):
        q = tree.random(1, batch=size).astype(dtype)
        assert np.array_equal(kernel(*tensors(q)), kernel(q))


def test_arguments_broadcast_by_position_and_by_name(motion):
    _, kernel, (q, v, tau) = motion
    expected = kernel(q, v, tau)
    tq, tv, ttau = tensors(q, v, tau)
    for found in (kernel(tq, tau=ttau, v=tv), kernel(tq, v, tau), torch.vmap(kernel, (1, 1, None), 1)(tq, tv, ttau)):
        assert all(np.array_equal(x, y) for x, y in zip(found, expected, strict=True))
        assert type(found) is type(expected) and found._fields == ("qdd", "forces")
    compiled = torch.compile(kernel, fullgraph=True)(tq, tv, ttau)
    assert type(compiled) is type(expected) and np.array_equal(compiled.forces, expected.forces)


def test_gradients(motion):
    """Backwards, forwards and by transforms of functions, against the formulas for derivatives of dynamics."""
    tree, kernel, state = motion
    known = ds.dynamics_derivatives(tree, *state, constraints=HAND)
    given = [x.requires_grad_() for x in tensors(*state)]
    for run in (kernel, torch.compile(kernel, fullgraph=True)):
        qdd, forces = run(*given)
        found = torch.autograd.grad(qdd.sum() + 2.0 * forces.sum(), given)
        for x, name in zip(found, ("q", "v", "tau"), strict=True):
            wanted = sum(k * getattr(known, f"{y}_d{name}").sum(axis=-2) for y, k in (("dqdd", 1.0), ("df", 2.0)))
            assert error(x, wanted if name != "tau" else wanted.sum(axis=(0, 1))) < 1e-9
    tau = tensors(state[2])[0]
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        J = torch.vmap(torch.vmap(transform(lambda q, v: kernel(q, v, tau)[0])))(*tensors(*state[:2]))
        assert error(J, known.dqdd_dq) < 1e-9
    ahead = torch.func.jvp(kernel, tensors(*state), tensors(*map(np.ones_like, state)))[1][0]
    assert error(ahead, sum(getattr(known, f"dqdd_d{name}").sum(axis=-1) for name in ("q", "v", "tau"))) < 1e-9

    def kinetic(q):  # graphs outlive the kernel
        return ds.compile(ds.mechanisms.chain(2), (), "energies")(q, q)[1]

    assert torch.autograd.gradgradcheck(kinetic, (tensors(state[0][0, :, :2])[0].requires_grad_(),))


def test_numbers_beside_tensors_are_compiled():
    arm = ds.mechanisms.chain(2)
    step, q = ds.compile(arm, (), "step"), arm.random(0, batch=3)
    found = torch.compile(step, fullgraph=True, backend="eager")(*tensors(q, q, q), 0.01)
    assert all(np.array_equal(x, y) for x, y in zip(found, step(q, q, q, 0.01), strict=True))


def test_direct_functions_compile_their_kernel(motion):
    tree, kernel, state = motion
    qdd, forces = ds.forward_dynamics(tree, *tensors(*state), HAND)
    assert all(np.array_equal(x, y) for x, y in zip((qdd, forces), kernel(*state), strict=True))
    assert ds.mass_matrix(tree, tensors(state[0])[0].float()).dtype is torch.float32


def test_gradients_of_many_cotangents_at_once(motion):
    """As autograd maps them, which is not `torch.vmap`: of kernels, of second derivatives, of rollouts, nested."""
    tree, step = ds.mechanisms.chain(2), ds.compile(ds.mechanisms.chain(2), (), "step")
    energy, rng, functional = ds.compile(tree, (), "energies"), np.random.default_rng(0), torch.autograd.functional
    q, v, u = tensors(tree.random(0, batch=2), np.ones(2), rng.normal(size=(3, 2, 2)))

    def total(q):
        return energy(q, v)[1]

    def end(q, u):
        return ds.rollout(step, q, v, u, 1e-2, time_axis=0)[0][-1]

    expected = torch.func.jacrev(total)(q)
    for how in ("reverse-mode", "forward-mode"):
        assert error(functional.jacobian(total, q, vectorize=True, strategy=how), expected) < 1e-12
    x = q.clone().requires_grad_()
    (found,) = torch.autograd.grad(total(x), x, torch.eye(2, dtype=x.dtype), is_grads_batched=True)
    assert error(found, expected) < 1e-12
    assert torch.autograd.gradcheck(
        total, (x,), check_batched_grad=True, check_forward_ad=True, check_batched_forward_grad=True
    )
    assert torch.autograd.gradgradcheck(total, (x,), check_batched_grad=True)
    hessian = functional.hessian(lambda q: total(q).sum(), q[0], vectorize=True)
    assert torch.allclose(hessian, torch.func.hessian(lambda q: total(q).sum())(q[0]), rtol=1e-12)
    both = functional.jacobian(end, (q, u), vectorize=True)
    for x, y in zip(both, torch.func.jacrev(end, (0, 1))(q, u), strict=True):
        assert torch.allclose(x, y, rtol=1e-12)
    assert torch.autograd.gradcheck(lambda u: end(q, u), (u.requires_grad_(),), check_batched_grad=True)


def test_kernels_go_when_nobody_holds_them():
    """Called, differentiated, mapped, compiled, rolled out; graphs of derivatives hold those that they need."""
    q, v = tensors(np.ones((2, 2)), np.ones(2))
    uses = {
        "call": lambda kernel, _: kernel(q, v),
        "backward": lambda kernel, _: kernel(q.clone().requires_grad_(), v)[1].sum().backward(),
        "vmap": lambda kernel, _: torch.vmap(torch.func.jacrev(lambda q: kernel(q, v)[1]))(q),
        "jacobian": lambda kernel, _: torch.autograd.functional.jacobian(lambda q: kernel(q, v)[1], q, vectorize=True),
        "compile": lambda kernel, _: (torch.compile(kernel, backend="eager")(q, v), torch.compiler.reset()),
        "meta": lambda kernel, _: kernel(q.to("meta"), v),
        "rollout": lambda _, step: ds.rollout(step, q.clone().requires_grad_(), v, torch.zeros(3, 2).double(), 1e-2),
    }
    for name, use in uses.items():
        kernels = [ds.compile(ds.mechanisms.chain(2), (), what) for what in ("energies", "step")]
        use(*kernels)
        held = [weakref.ref(kernel) for kernel in kernels]
        del kernels
        gc.collect()
        assert [kernel() for kernel in held] == [None, None], name
    x = q.clone().requires_grad_()
    y = ds.compile(ds.mechanisms.chain(2), (), "energies")(x, v)[1].sum()
    gc.collect()
    y.backward()
    assert x.grad.shape == q.shape


LOADED = """
import sys
if sys.argv[2] == "first":
    import torch
import delassus
import torch
program = torch.export.load(sys.argv[1])
q, expected = torch.ones(3, 7, dtype=torch.float64), torch.load(sys.argv[1] + ".expected")
assert all(map(torch.equal, program.module()(q), expected))
"""


@pytest.mark.parametrize("torch_is", ["first", "last"])
def test_graphs_that_were_saved_run_in_another_process(motion, tmp_path, torch_is):
    _, kernel, _ = motion

    class Module(torch.nn.Module):
        def forward(self, q):
            return kernel(q, q, q)

    q, path = torch.ones(3, 7, dtype=torch.float64), str(tmp_path / "graph.pt2")
    torch.export.save(torch.export.export(Module(), (q,), strict=False), path)
    torch.save(kernel(q, q, q), path + ".expected")
    subprocess.run([sys.executable, "-c", LOADED, path, torch_is], check=True, timeout=120)


def test_texts_of_kernels_call_nothing_else(tmp_path):
    """What somebody else has put in the place of a kernel in a saved graph is refused, not run."""
    made, place = [], tmp_path / "made"
    on_torch = sys.modules[ds.Kernel.__module__].libraries.MODULES["PyTorch"]

    class Evil:
        def __reduce__(self):
            return Path.touch, (place,)

    inner = pickle.dumps(Evil())
    made += [inner, b"cdelassus.frozen\nunpacked\n(" + pickle.dumps(inner, 2)[2:-1] + b"tR."]
    made += [b"cdelassus.frozen\npickle.loads\n.", b"cos\nsystem\n.", b"nothing"]
    for data in made:
        text = on_torch.TEXT + base64.b85encode(zlib.compress(data)).decode()
        with pytest.raises(ds.DelassusError, match="kernel: expected the text of one"):
            torch.ops.delassus.call.default([torch.ones(2)], text, [])
    assert not place.exists()


def test_tensors_without_numbers_give_such(motion):
    _, kernel, state = motion
    q, v, tau = tensors(*state)
    expected = kernel(q, v, tau)
    for given in ((q.to("meta"), v, tau), (q, v.to("meta").requires_grad_(), tau.to("meta"))):
        found = kernel(*given)
        assert [(x.shape, x.dtype, x.device.type) for x in found] == [(x.shape, x.dtype, "meta") for x in expected]
    found[0].sum().backward()
    assert given[1].grad.shape == v.shape
    with pytest.raises(ds.DelassusError, match=r"shape \(\.\.\., 7\), got shape \(3, 4, 6\)"):
        kernel(q.to("meta")[..., :6], v, tau)
    with pytest.raises(ds.DelassusError, match=r"expected dtype torch\.float64, got dtype torch\.float32"):
        kernel(q.to("meta"), v.float(), tau)


def test_wrong_tensors_are_refused(motion):
    _, kernel, state = motion
    q, v, tau = tensors(*state)
    with pytest.raises(ds.DelassusError, match=r"expected dtype torch\.float64, got dtype torch\.float32"):
        kernel(q.float(), v, tau)
    with pytest.raises(ds.DelassusError, match=r"shape \(\.\.\., 7\), got shape \(3, 4, 6\)"):
        kernel(q[..., :6], v, tau)
    with pytest.raises(ds.DelassusError, match="axes that broadcast"):
        kernel(q, v[:, :3], tau)
    with pytest.raises(ds.DelassusError, match="arrays alone, of PyTorch"):
        kernel(q, v, tau, threads=1)


def test_rollouts_are_those_of_numpy_and_have_derivatives():
    arm = ds.mechanisms.chain(3)
    point = ds.Point(ds.Frame("link3", (0.1, 0.2, 0.0)))
    step, rng = ds.compile(arm, point, "step", active=True), np.random.default_rng(0)
    q, v, tau, held = (
        arm.random(0, batch=2),
        np.ones(3),
        rng.normal(size=(3, 2, 3)),
        np.array([[1.0], [0.0]]).repeat(3, 0),
    )
    how = dict(per_step=["active"], decimation=2)
    known = ds.rollout(step, q, v, tau, 1e-2, active=held, **how)
    given = [x.requires_grad_() for x in tensors(q, v, tau.swapaxes(0, 1))]

    def rolled(q, v, tau):
        return ds.rollout(step, q, v, tau, 1e-2, active=held, time_axis=1, **how)

    for x, expected in zip(rolled(*given), known, strict=True):
        assert isinstance(x, torch.Tensor) and np.array_equal(x.detach(), expected)
    assert torch.autograd.gradcheck(rolled, given)
    with pytest.raises(ds.DelassusError, match=r"controls: expected arrays with arrays of PyTorch.* in a loop"):
        ds.rollout(step, given[0], v, lambda t, q, v: -v, 1e-2, steps=3, active=held[0])
    with pytest.raises(ds.DelassusError, match="return_status: expected no such argument"):
        ds.rollout(step, given[0], v, tau, 1e-2, active=held[0], return_status=True)


def test_rollouts_of_contact_steps_have_transforms():
    """Through contact, of friction too: `torch.func` forwards and backwards, mapped, and what autograd says."""
    ball = ds.mechanisms.free_body(1.0, np.diag([0.01, 0.02, 0.03]), name="ball")
    how = {"friction": "input", "tolerance": 1e-10, "sweeps": 200}
    step = ds.compile(ball, ds.Contact("ball", ds.contact.Sphere(0.1)), "contact_step", **how)
    rng, q = np.random.default_rng(0), torch.tensor([0, 0, 0.1 - 1e-4, 0, 0, 0, 1.0], dtype=torch.float64)
    v, tau = rng.normal(size=(3, 6)) * [1, 1, 0, 1, 1, 1], rng.normal(size=(8, 3, 6))
    given = tensors(v, tau, np.full((3, 1), 0.2))

    def ends(v, tau, friction):
        return ds.rollout(step, q, v, tau, 1e-2, time_axis=0, friction=friction)[1][-1]

    assert torch.autograd.gradcheck(ends, [x.clone().requires_grad_() for x in given], atol=1e-5, rtol=1e-4)
    axes = 0, 1, 0
    backwards, forwards = (
        torch.vmap(f(ends, argnums=(0, 1, 2)), axes)(*given) for f in (torch.func.jacrev, torch.func.jacfwd)
    )
    for x, y in zip(backwards, forwards, strict=True):
        assert torch.allclose(x, y, rtol=1e-9, atol=1e-12)
    mapped = torch.vmap(torch.func.grad(lambda *x: ends(*x).sum()), axes)(*given)
    assert torch.allclose(mapped, backwards[0].sum(1))
    with pytest.raises(ds.DelassusError, match=r"rollout: expected first derivatives, with tensors"):
        torch.func.hessian(lambda v: ends(v, *given[1:]).sum())(given[0])
