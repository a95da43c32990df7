"""Kernels on JAX arrays: traced, batched, of both number types, judged as on NumPy arrays."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import warnings
import weakref
from functools import partial
from typing import get_type_hints

import numpy as np
import pytest

import delassus as ds
from tools import error

jax = pytest.importorskip("jax")
from jax.experimental.serialize_executable import deserialize_and_load, serialize  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

jnp = jax.numpy
pytestmark = pytest.mark.usefixtures("every_type", "machine_code")


@pytest.fixture
def every_type():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


FEET = [ds.Weld("branch1_3"), ds.Point("branch2_3")]


def compiled(what="delassus", dtype="float64", tree=None, constraints=FEET, **options):
    tree = ds.mechanisms.star(2, 3) if tree is None else tree
    return tree, ds.compile(tree, constraints, what, dtype=dtype, **options)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_batches_are_those_of_numpy(dtype):
    """Called, jitted, under one vmap and two, over any axis: the bits of the call with NumPy arrays."""
    tree, kernel = compiled(dtype=dtype)
    q = tree.random(0, batch=(3, 5)).astype(dtype)
    expected = kernel(q)
    for call in (kernel, jax.jit(kernel), jax.vmap(kernel), jax.jit(jax.vmap(jax.vmap(kernel), 1, 1))):
        G = call(jnp.asarray(q))
        assert isinstance(G, jax.Array) and G.dtype == dtype
        assert np.array_equal(G, expected)
    for size in (0, 1, 5000, 2048, 8192):  # the larger ones on all threads; whole chunks, also of one or two threads
        q = tree.random(1, batch=size).astype(dtype)
        assert np.array_equal(jax.jit(kernel)(q), kernel(q))
    assert np.array_equal(jax.jit(kernel)(q[0]), kernel(q[0]))


def test_arguments_broadcast_by_position_and_by_name():
    tree, step = compiled("step", tree=ds.mechanisms.chain(3, root="floating"), constraints=())
    q, v, tau = tree.random(0, batch=4), np.ones(tree.nv), np.zeros((3, 1, tree.nv))
    expected = step(q, v, tau, 0.001)
    for found in (jax.jit(step)(q, v, tau=tau, dt=0.001), jax.vmap(step, (None, None, 0, None))(q, v, tau, 0.001)):
        assert all(np.array_equal(x, y) for x, y in zip(found, expected, strict=True))
    lists = step(jnp.asarray(q), v.tolist(), tau.tolist(), dt=0.001)
    assert all(np.array_equal(x, y) for x, y in zip(lists, expected, strict=True))
    with pytest.raises(ds.DelassusError, match="v: expected an array of numbers"):
        step(jnp.asarray(q), ["fast"], tau, 0.001)
    assert step(jnp.asarray(q), v, tau, 1)[0].dtype == np.float64  # whole numbers are converted
    whole = step(jnp.asarray(q), jnp.ones(tree.nv, int), tau, 0.001)
    assert all(np.array_equal(x, y) for x, y in zip(whole, expected, strict=True))


@pytest.mark.slow
def test_states_that_machine_code_does_not_solve_are_solved_as_by_the_kernel():
    """A stretched arm has dependent rows; XLA calls back for such states alone."""
    tree, kernel = compiled("dynamics", tree=ds.mechanisms.chain(4), constraints=[ds.Point("link4")])
    q, v = np.zeros((2000, 4)), np.ones(4)
    q[:1990] = tree.random(0, batch=1990)
    with pytest.warns(ds.DelassusWarning, match="of 2000 state"):
        expected = kernel(q, v, v)
    with pytest.warns(ds.DelassusWarning, match="of 2000 state"):
        found = jax.block_until_ready(jax.jit(kernel)(q, v, v))
    assert all(np.array_equal(x, y) for x, y in zip(found, expected, strict=True))
    with pytest.raises(Exception, match=r"DelassusWarning.*2000 state"):  # an error there is one of XLA
        jax.block_until_ready(jax.jit(kernel)(q, v, v))


@pytest.mark.slow
def test_python_ends_while_states_are_left():
    """What nobody waits for neither hangs at the end nor crashes, though XLA would call back for it."""
    script = """
import jax, numpy as np, delassus as ds, warnings
warnings.simplefilter("ignore")
jax.config.update("jax_enable_x64", True)
arm = ds.mechanisms.chain(4)
q = arm.random(0, batch=20_000)
q[::2000] = 0.0
step = jax.jit(ds.compile(arm, ds.Point("link4"), "dynamics"))
for _ in range(5):
    step(q, np.ones(4), np.ones(4))
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


@pytest.mark.slow
def test_wrong_arrays_are_refused_when_they_are_traced():
    tree, kernel = compiled(constraints=[ds.Point("branch1_3")])
    q = jnp.asarray(tree.random(0, batch=3))
    for call in (kernel, jax.jit(kernel)):
        with pytest.raises(ds.DelassusError, match="expected dtype float64, got dtype float32"):
            call(q.astype("float32"))
        with pytest.raises(ds.DelassusError, match=r"shape \(\.\.\., \d+\), got shape"):
            call(q[:, :3])
        with pytest.raises(ds.DelassusError, match="1 array"):
            call(q, q)
    with pytest.raises(ds.DelassusError, match="arrays alone"):
        kernel(q, out=q)
    with jax.enable_x64(False), pytest.raises(ds.DelassusError, match="jax_enable_x64"):
        jax.jit(kernel)(np.asarray(q))


@pytest.mark.parametrize("shape", [(), (3,)])
def test_keys_of_random_numbers_are_no_arrays(shape):
    arm, key = ds.mechanisms.chain(3), jax.random.split(jax.random.key(0), shape)
    step, zeros = ds.compile(arm, (), "step"), jnp.zeros(3)
    for call in (
        lambda: step(key, zeros, zeros, 1e-3),
        lambda: jax.jit(step)(zeros, zeros, key, 1e-3),
        lambda: step(zeros, zeros, zeros, dt=key),
        lambda: ds.forward_kinematics(arm, key),
        lambda: ds.forward_dynamics(arm, zeros, key, zeros),
        lambda: ds.rollout(step, key, zeros, jnp.zeros((4, 3)), 1e-3),
        lambda: ds.rollout(step, zeros, zeros, jnp.zeros((4, 3)), key),
        lambda: ds.rollout(step, zeros, zeros, lambda t, q, v: key, 1e-3, steps=2),
    ):
        with pytest.raises(ds.DelassusError, match=r"^(q|v|tau|dt): expected numbers, got dtype key<fry>"):
            call()
    with pytest.raises(ds.DelassusError, match="rng: expected a generator or a seed"):
        arm.random(key)


@pytest.mark.slow
def test_kernels_go_when_nobody_holds_them():
    """Called, traced, differentiated, mapped, rolled out, without `jax.jit`: they go, and their code after XLA."""
    q, v, u = jnp.asarray(ds.mechanisms.chain(2).random(0, batch=2)), jnp.ones(2), jnp.zeros((3, 2))

    def without_jit(kernel):
        with jax.disable_jit():
            return kernel(q, v)

    uses = {
        "jit": lambda kernel, _: jax.jit(kernel)(q, v),
        "vmap": lambda kernel, _: jax.vmap(kernel, (0, None))(q, v),
        "grad": lambda kernel, _: jax.grad(lambda q: kernel(q, v)[0].sum())(q),
        "disable_jit": lambda kernel, _: without_jit(kernel),
        "grad of rollout": lambda _, step: jax.grad(lambda q: ds.rollout(step, q, v, u, 1e-2)[0].sum())(q),
    }
    codes = []
    for name, use in uses.items():
        kernels = [ds.compile(ds.mechanisms.chain(2), (), what) for what in ("energies", "step")]
        jax.block_until_ready(use(*kernels))
        held = [weakref.ref(kernel) for kernel in kernels]
        codes += [weakref.ref(kernel.code) for kernel in kernels]
        del kernels
        gc.collect()
        assert [kernel() for kernel in held] == [None, None], name
    jax.clear_caches()  # of the last loops, whose executables JAX keeps
    for what in ("mass_matrix", "centre_of_mass"):  # by the second one, XLA has let go of what the first one found
        jax.jit(ds.compile(ds.mechanisms.chain(2), (), what))(q).block_until_ready()
        gc.collect()
    assert [code() for code in codes] == [None] * len(codes)


@pytest.mark.slow
def test_functions_outlive_kernels():
    """One whose kernel has gone still solves states that machine code does not, and compiles for other batches."""
    arm, v = ds.mechanisms.chain(4), np.ones(4)
    q = arm.random(0, batch=20)
    q[3] = 0.0  # stretched: rows are dependent

    def made():
        return ds.compile(arm, ds.Point("link4"), "dynamics")

    run = jax.jit(lambda q: made()(q, v, v))
    lowered = run.trace(q).lower()
    jaxpr = jax.make_jaxpr(lambda q: made()(q, v, v))(q)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = made()(q, v, v)
        gc.collect()
        for call in (run, lowered.compile(), lambda q: jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, q), run):
            found = jax.block_until_ready(call(q))
            assert all(np.array_equal(x, y) for x, y in zip(found, expected, strict=True))
        assert all(np.array_equal(x, y) for x, y in zip(run(q[3]), made()(q[3], v, v), strict=True))


def test_executables_that_were_kept_in_another_way_are_refused_without_their_kernel():
    kernel = ds.compile(ds.mechanisms.chain(2), (), "momentum")
    q = jnp.ones((3, 2))
    kept = serialize(jax.jit(kernel).lower(q, q).compile())
    assert np.array_equal(deserialize_and_load(*kept)(q, q), kernel(np.asarray(q), np.asarray(q)))
    del kernel
    gc.collect()
    jax.jit(ds.compile(ds.mechanisms.chain(2), (), "jacobian"))(q)
    gc.collect()
    with pytest.raises(Exception, match="The kernel has gone: trace"):
        deserialize_and_load(*kept)


@pytest.mark.slow
def test_without_jit_results_are_the_same():
    tree, kernel = compiled("energies", tree=ds.mechanisms.chain(2), constraints=())
    q, v = jnp.asarray(tree.random(0, batch=3)), jnp.ones(2)
    step, u = ds.compile(tree, (), "step"), jnp.zeros((3, 2))
    calls = (
        lambda: kernel(q, v),
        lambda: jax.grad(lambda q: kernel(q, v)[1].sum())(q),
        lambda: ds.rollout(step, q, v, u, 1e-2),
    )
    for call in calls:
        expected = call()
        with jax.disable_jit():
            found = call()
        assert all(np.array_equal(x, y) for x, y in zip(found, expected, strict=True))


def test_equal_kernels_are_traced_once():
    traced, q = [], jnp.ones(2)

    @partial(jax.jit, static_argnums=0)
    def energy(kernel, q):
        traced.append(kernel)
        return kernel(q, q)[0]

    kernels = [ds.compile(ds.mechanisms.chain(2), (), "energies") for _ in range(2)]
    for kernel in (*kernels, pickle.loads(pickle.dumps(kernels[0]))):
        energy(kernel, q)
    assert len(traced) == 1
    energy(ds.compile(ds.mechanisms.chain(2), (), "energies", gravity=(0, 0, 0)), q)
    assert len(traced) == 2


def test_other_versions_of_jax_are_refused(monkeypatch):
    from delassus.runtime.libraries import on_jax

    monkeypatch.setattr(jax, "__version_info__", (0, 9, 1))
    on_jax._primitive.cache_clear()
    tree, kernel = compiled(constraints=[ds.Point("branch1_3")])
    with pytest.raises(ds.DelassusError, match=r"jax>=0\.9\.2,<0\.11"):
        kernel(jnp.asarray(tree.neutral()))


@pytest.mark.slow
def test_derivatives_of_all_orders_and_modes():
    """Against differences and one another, by JAX's own check; backwards, tangents are not compiled."""
    tree, kernel = compiled("dynamics", tree=ds.mechanisms.chain(4), constraints=[ds.Point("link4")])
    q, v, tau = jnp.asarray(tree.random(0, batch=2)), jnp.arange(4.0), jnp.ones((2, 4))
    loss = jax.jit(jax.grad(lambda q: jnp.sum(kernel(q, v, tau)[0] ** 2)))
    assert loss(q).shape == q.shape and list(kernel._derivatives) == [(), ("vjp",)]
    energy = ds.compile(ds.mechanisms.chain(1), (), "energies")
    check_grads(lambda *x: energy(*x)[1], (q[:, :1], tau[:, :1]), order=2)

    def one(q):
        return kernel(q, v, tau[0])

    forward, backward = jax.vmap(jax.jacfwd(one))(q), jax.vmap(jax.jacrev(one))(q)
    known = ds.dynamics_derivatives(tree, np.asarray(q), np.asarray(v), np.ones(4), constraints=[ds.Point("link4")])
    for found in (forward, backward):
        assert error(found[0], known.dqdd_dq) < 1e-9 and error(found[1], known.df_dq) < 1e-9


def test_devices_donated_buffers_and_export():
    """Each device of a `jax.shard_map` takes its states; what it checks of devices, derivatives keep."""
    tree, kernel = compiled(tree=ds.mechanisms.chain(2), constraints=[ds.Point("link2")])
    load = ds.compile(tree, (), "energies")
    q, v = jnp.asarray(tree.random(0, batch=4)), jnp.ones(2)
    mesh, of_device, shared = jax.sharding.Mesh(jax.devices()[:1], "devices"), jax.P("devices"), jax.P()
    split = jax.shard_map(lambda q, v: load(q, v)[0], mesh=mesh, in_specs=(of_device, shared), out_specs=of_device)
    for k in (0, 1):
        found = jax.jit(jax.grad(lambda *x: jnp.sum(split(*x)), k))(q, v)
        assert error(found, jax.grad(lambda *x: jnp.sum(load(*x)[0]), k)(q, v)) < 1e-12
    expected = kernel(np.asarray(q))
    assert np.array_equal(jax.pmap(kernel)(q[None])[0], expected)
    with pytest.raises(ValueError, match="no compatibility guarantees"):
        jax.export.export(jax.jit(kernel))(q)
    step, v = ds.compile(tree, (), "step"), jnp.ones_like(q)
    expected = step(np.asarray(q), np.ones(2), np.ones(2), 0.1)
    found = jax.jit(step, donate_argnums=(0, 1))(q, v, np.ones(2), 0.1)
    assert q.is_deleted() and all(np.array_equal(x, y) for x, y in zip(found, expected, strict=True))


@pytest.mark.slow
def test_direct_functions_compile_their_kernel():
    arm, hand = ds.mechanisms.chain(7), ds.Point("link7")
    q, v = arm.random(0, batch=4), np.ones(7)
    solution = ds.forward_dynamics(arm, q, v, v, hand)
    qdd, forces = jax.jit(lambda q: ds.forward_dynamics(arm, q, v, v, hand))(q)
    assert error(qdd, solution.qdd) < 1e-9 and error(forces, solution.forces[0]) < 1e-9
    assert error(ds.delassus(arm, hand, jnp.asarray(q)), ds.delassus(arm, hand, q)) < 1e-12
    change = jax.grad(lambda q: ds.potential_energy(arm, q))(jnp.asarray(q[0]))
    assert error(change, ds.bias_force(arm, q[0], 0.0 * v)) < 1e-12
    given = jnp.asarray(q, dtype="float32")
    assert ds.mass_matrix(arm, given).dtype == np.float32
    assert error(ds.consistent_inverse(arm, hand, jnp.asarray(q)), ds.consistent_inverse(arm, hand, q)) < 1e-9
    with pytest.raises(ds.DelassusError, match="error_bound"):
        ds.forward_dynamics(arm, given, v, v, hand, error_bound=1e-3)


@pytest.mark.slow
@pytest.mark.slow
def test_every_array_of_a_direct_call_may_be_traced():
    arm, rng = ds.mechanisms.chain(5), np.random.default_rng(0)
    tip, free = ds.Frame("link5", given="position"), ds.Rows("link3", 1)
    v, row, place = rng.normal(size=5), rng.normal(size=(1, 6)), np.array([0.1, 0.2, -0.1])
    given = {
        "gravity": np.array([0.0, 1.0, -9.0]), "damping": np.full(5, 0.1), "kp": np.ones(5), "kd": np.ones(5),
        "v_target": 0.1 * v, "wrenches": {"link4": rng.normal(size=6)}, "targets": [rng.normal(size=3), None],
        "poses": [rng.normal(size=3), None], "compliance": [np.full(3, 1e-3), np.full(1, 1e-2)], "rows": [row],
        "placements": [place], "payloads": {"link2": np.array([0.3, 0, 0, 0, 0.1, 0, 0.1, 0, 0, 0.1])},
        "active": np.ones(2),
    }  # fmt: skip
    (keywords,) = get_type_hints(ds.forward_dynamics)["given"].__args__
    assert set(given) == set(keywords.__annotations__) - {"passive", "control", "baumgarte"} | {"compliance"}

    def qdd(given, state):
        asked = {"baumgarte": 2.0, "control": "pd", "method": "proximal"}
        found = ds.forward_dynamics(arm, *state, [ds.Point(tip), free], **asked, **given)
        return found[0] if isinstance(found, tuple) else found.qdd

    state = arm.random(1), v, arm.random(2)
    assert np.allclose(jax.jit(qdd)(given, state), qdd(given, state), rtol=1e-9)


def test_rollouts_are_those_of_numpy_and_have_derivatives():
    arm = ds.mechanisms.chain(3)
    step, q = ds.compile(arm, (), "step"), arm.random(0, batch=4)
    v, controls = np.ones(3), np.random.default_rng(0).normal(size=(5, 4, 3))
    for u, how in ((controls, {"decimation": 2}), (controls[:0], {"time_axis": 0})):
        known = ds.rollout(step, q, v, u, 1e-2, **how)
        for found, expected in zip(ds.rollout(step, jnp.asarray(q), v, u, 1e-2, **how), known, strict=True):
            assert found.shape == expected.shape and error(found, expected) < 1e-12

    def end(controls):
        return jnp.sum(ds.rollout(step, q, v, controls, 1e-2, time_axis=1)[0][-1])

    late = jax.jit(jax.grad(end))(jnp.asarray(np.swapaxes(controls, 0, 1)))
    assert late.shape == (4, 5, 3) and np.all(np.abs(late[:, -1]).sum(axis=-1) > 0.0)
    with pytest.raises(
        ds.DelassusError, match=r"threads: expected no such argument with arrays of JAX.*jax\.lax\.scan"
    ):
        ds.rollout(step, jnp.asarray(q), v, controls, 1e-2, threads=1)


@pytest.mark.slow
def test_policies_have_gradients_through_contact():
    """With feedback, in float32: forwards, backwards, mapped, and with states that are made again on the way."""
    ball, number = ds.mechanisms.free_body(1.0, np.diag([0.01, 0.02, 0.03]), name="ball"), np.float32
    step = ds.compile(
        ball, ds.Contact("ball", ds.contact.Sphere(0.1)), "contact_step", friction="input", dtype="float32"
    )
    rng, q = np.random.default_rng(0), jnp.array([0, 0, 0.1 - 1e-4, 0, 0, 0, 1.0], "float32")
    v, W = (rng.normal(size=shape).astype("float32") for shape in ((3, 6), (6, 6)))
    v[:, 2], W, rest = 0.0, number(0.1) * W, jnp.zeros(3, "float32")

    def run(W, state, friction, steps):
        how = {"steps": steps, "friction": friction[None], "impulses": state[2]}
        found = ds.rollout(step, *state[:2], lambda t, q, v: jnp.tanh(v @ W), number(2e-3), **how)
        return tuple(x[-1] for x in found[:3])

    def end(W, v, friction):
        return run(W, (q, v, rest), friction, 60)[1]

    def in_parts(W, v, friction):
        part = jax.checkpoint(lambda state, _: (run(W, state, friction, 20), None))
        return jax.lax.scan(part, (q, v, rest), None, length=3)[0][1]

    given, every = (W, v[0], number(0.2)), (0, 1, 2)
    backward, forward, parts = (jax.jit(f)(*given) for f in (
        jax.jacrev(end, every), jax.jacfwd(end, every), jax.jacrev(in_parts, every)
    ))  # fmt: skip
    mapped = jax.jit(jax.vmap(jax.jacrev(end), (None, 0, None)))(W, v, number(0.2))
    for x, y, z in zip(backward, forward, parts, strict=True):
        assert error(y, x) < 1e-4 and error(z, x) < 1e-4  # 1e-5 seen
    assert error(mapped[0], backward[0]) < 1e-4

    def slides(friction):
        start = jnp.array([1.0, 0, 0, 0, 0, 0], "float32")
        return ds.rollout(step, q, start, jnp.zeros((60, 6), "float32"), number(2e-3), friction=friction[None])[0][-1][
            0
        ]

    host = np.asarray(q), v[0], np.zeros((2, 6), "float32"), number(2e-3)
    alone = ds.rollout(step, *host, friction=np.full(1, 0.2, "float32"), impulses=rest)  # they alone are of JAX
    assert isinstance(alone.q, jax.Array)
    by_hand = -9.81 * 4e-6 * 60 * 61 / 2
    assert abs(jax.jit(jax.grad(slides))(number(0.2)) - by_hand) < 1e-3 * abs(by_hand)
    D, h = rng.normal(size=W.shape).astype("float32"), number(1e-2)
    slope = (end(W + h * D, *given[1:]) - end(W - h * D, *given[1:])) / (2 * h)
    assert error((backward[0] * D).sum(axis=(1, 2)), slope) < 1e-2


@pytest.mark.slow
def test_rollouts_with_policies_and_inputs_per_step():
    arm = ds.mechanisms.chain(3)
    point = ds.Point(ds.Frame("link3", (0.1, 0.2, 0.0)))
    step, q, v, zero = ds.compile(arm, point, "step", active=True), arm.random(0, batch=4), np.ones(3), np.zeros((5, 3))
    held = np.array([[1.0], [1.0], [0.0], [0.0], [1.0]])
    known = ds.rollout(step, q, v, zero, 1e-2, active=held, per_step=["active"])
    found = jax.jit(lambda held: ds.rollout(step, q, v, zero, 1e-2, active=held, per_step=["active"]))(held)
    assert all(error(x, y) < 1e-12 for x, y in zip(found, known, strict=True))
    with pytest.raises(ds.DelassusError, match="active: expected 5 steps, got 4"):
        ds.rollout(step, jnp.asarray(q), v, zero, 1e-2, active=held[1:], per_step=["active"])

    step = ds.compile(arm, (), "step")
    known = ds.rollout(step, q, v, lambda t, q, v: t - v, 1e-2, steps=5, decimation=2)

    def damped(gain):
        return ds.rollout(step, jnp.asarray(q), v, lambda t, q, v: t - gain * v, 1e-2, steps=5, decimation=2)

    assert all(error(x, y) < 1e-12 for x, y in zip(damped(1.0), known, strict=True))
    check_grads(jax.jit(lambda gain: damped(gain)[1][-1]), (1.0,), order=1)


AT_EXIT = """
import jax, numpy as np
import delassus as ds

jax.config.update("jax_enable_x64", True)
tree, tip = ds.mechanisms.pendulum(2), ds.Frame("rod2", (0, 0, -0.5))
kernel = ds.compile(tree, ds.Rows(tip, np.eye(6)[[0, 2]], axes="world"), "dynamics")
call, state = jax.jit(kernel), (np.tile([0.3, 0.0], (20_000, 1)), np.zeros(2), np.ones(2))  # stretched: by direct calls
jax.block_until_ready(call(*state))
made = [call(*state) for _ in range(3)]
print("ended")
"""


@pytest.mark.slow
def test_the_interpreter_ends_while_xla_calls_back():
    """With states that are solved again, which nobody waits for."""
    run = subprocess.run([sys.executable, "-W", "ignore", "-c", AT_EXIT], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout) == (0, "ended\n"), run.stderr[-2000:]
