"""Kernels on JAX arrays, traced ones too: a primitive whose code is the kernel's own entry for XLA.

The primitive is `jax.vmap`-ped by a further leading axis of all arrays. Types and shapes are checked when it is traced.
Derivatives are kernels of their own (`Kernel.derivative`), compiled when XLA compiles what needs them: forwards that of
tangents, backwards that of cotangents.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache, partial
from math import prod
from typing import Any
from weakref import ref

import numpy as np

from delassus.compiler.jit.compile import address_of
from delassus.compiler.machine.cpu import ObjectCode, object_code
from delassus.compiler.machine.ptx import MOST_STATES, THREADS, shared_bytes
from delassus.compiler.targets.llvm.threads import WARP
from delassus.constraints import Argument
from delassus.errors import ConfigurationError, MissingDependencyError
from delassus.frozen import named_tuple
from delassus.runtime.any_kernel import kept_by_kernel
from delassus.runtime.arrays import Rollout, batch_of_all, check_shape, leading, of_one_batch, ordered, over_time
from delassus.runtime.libraries.xla_entry import (
    CALLED,
    OPERANDS,
    _xla_launch,
)
from delassus.runtime.libraries.xla_targets import counts_of, used_by_xla

OLDEST, BEFORE = (0, 9, 2), (0, 11)
"""Versions of JAX that this works with: earlier ones have another interface to calls; names may move in later ones."""

PLATFORMS = {"cpu": "cpu", "cuda": "cuda"}
"""Targets of the kernels that run on platforms of JAX."""

REGISTERED_AS = {"cpu": "cpu", "cuda": "CUDA"}
"""Names of platforms for `jax.ffi.register_ffi_target`."""


def call(kernel: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Results of a kernel, as JAX arrays: one, or a tuple of several."""
    return _compiled(kernel)(*given, **named)


class KernelInJax:
    """A kernel as JAX has it, whose tables outlive kernels; made again where it is needed after it has gone.

    What a kernel holds and JAX's tables go by leads to these, and so must not lead back: the kernel would never go.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel, self._hash, self._content = ref(kernel), hash(kernel), kernel.content
        self.request, (self._make, self._how) = kernel.request, kernel.__reduce__()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KernelInJax) and self._content == other._content

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{self.request.title!r} of {self.request.tree.name!r}"

    @property
    def kernel(self) -> Any:
        """The kernel, or one that is equal."""
        found = self._kernel()
        if found is None:
            found = self._make(*self._how)
            self._kernel = ref(found)
        return found


@kept_by_kernel
def _compiled(kernel: Any) -> Any:
    """The call of a kernel, checked once for all arrays of equal types and shapes."""
    import jax

    bind, arguments, dtype, traced = _primitive(), kernel.arguments, kernel.dtype, KernelInJax(kernel)
    several = named_tuple(*(r.name for r in kernel.results))

    def checked(*given: Any, **named: Any) -> Any:
        complete = ordered([a.name for a in arguments], given, named)
        arrays = [_checked(x, a, dtype) for x, a in zip(complete, arguments, strict=True)]
        whole, _ = of_one_batch(arrays, arguments, jax.numpy.broadcast_to)
        results = bind(*whole, kernel=traced, modes=())
        return results[0] if len(results) == 1 else several(*results)

    return jax.jit(checked, inline=True)


def rollout(asked: Rollout) -> tuple[Any, ...]:
    """Trajectories of a compiled time step, as `delassus.rollout` returns them: a `jax.lax.scan`."""
    import jax
    import jax.numpy as jnp

    kernel, start, controls, fixed = asked.kernel, asked.start, asked.controls, asked.fixed
    steps, decimation = asked.steps, asked.decimation
    control = kernel.request.control
    by_name = {a.name: a for a in kernel.arguments}
    anew = {name: jnp.asarray(fixed[name]) for name in asked.per_step}
    if steps is None:
        anew[control] = jnp.asarray(controls)
    anew = over_time(jnp, anew, by_name, asked.time_axis, {control: decimation})
    steps = len(anew[control]) if steps is None else steps
    for name, x in anew.items():
        if len(x) != steps:
            raise ConfigurationError(name, f"{steps} steps", f"{len(x)}", "Pass as many as there are steps.")
    fixed = {name: x for name, x in fixed.items() if name not in anew}
    given = {name: jnp.asarray(x) for name, x in {**start, **fixed, **anew}.items()}
    arguments = [a for a in kernel.arguments if a.name in given]
    own = [leading(given[a.name], a)[a.name in anew :] for a in arguments]
    batch = batch_of_all([a.name for a in arguments], own)

    def of_kernel(x: Any, name: str) -> Any:
        x = jnp.asarray(x)
        _check_numbers(x, name)
        check_shape(x.shape, by_name[name].shape, name)
        return x.astype(kernel.dtype)

    first = tuple(jnp.broadcast_to(of_kernel(x, k), (*batch, *by_name[k].shape)) for k, x in start.items())

    def policy(t: Any, state: Any) -> dict[str, Any]:
        """Controls of a policy at a step."""
        dt = of_kernel(fixed["dt"], "dt")
        return {control: of_kernel(controls(t * jnp.max(dt), *state[:2]), control)}

    def step(carried: Any, now: Any) -> Any:
        state, held = carried
        t, now = now
        if held:
            held = jax.lax.cond(t % decimation == 0, lambda: policy(t, state), lambda: held)
        found = kernel(**dict(zip(start, state, strict=True)), **fixed, **now, **held)
        return (found[: len(state)], held), found

    held = policy(0, first) if control not in anew else {}
    _, found = jax.lax.scan(step, (first, held), (jnp.arange(steps), anew))
    trajectories = [jnp.concatenate([x[None], xs]) for x, xs in zip(first, found, strict=False)]
    return (*trajectories, *(jnp.max(x, axis=0, initial=0.0) for x in found[len(first) :]))


def _check_numbers(x: Any, name: str) -> None:
    """Refuse what has a type of JAX's own, as keys of random numbers have."""
    if not isinstance(x.dtype, np.dtype):
        raise ConfigurationError(name, "numbers", f"dtype {x.dtype}", "Draw them: jax.random.normal(key, shape).")


def _checked(x: Any, argument: Argument, dtype: np.dtype[Any]) -> Any:
    """Traced array (..., shape of one state) of the kernel's type; whole numbers and Python's own are converted."""
    import jax

    x = jax.numpy.asarray(x)  # without `jax.jit` it is what was given
    _check_numbers(x, argument.name)
    if x.dtype != dtype and not (x.dtype.kind in ("iub" if argument.flags else "iu") or x.weak_type):
        advice = f"Convert it with astype({dtype.name!r}), or compile with dtype='float32' or 'float64'."
        if dtype == np.float64 and not jax.config.jax_enable_x64:
            advice = "Set jax.config.update('jax_enable_x64', True), or compile with dtype='float32'."
        raise ConfigurationError(argument.name, f"dtype {dtype}", f"dtype {x.dtype}", advice)
    check_shape(x.shape, argument.shape, argument.name)
    return x.astype(dtype)


@cache
def _primitive() -> Any:
    """Results of the primitive of all kernels and their derivatives; ``modes`` are those of `Kernel.derivative`."""
    import jax
    from jax.extend.core import Primitive
    from jax.interpreters import mlir

    if not OLDEST <= jax.__version_info__ < BEFORE:
        wanted = ",".join(sign + ".".join(map(str, version)) for sign, version in ((">=", OLDEST), ("<", BEFORE)))
        advice = f"Install it: pip install 'jax{wanted}'"
        raise MissingDependencyError("arrays of JAX", f"jax{wanted}", f"jax {jax.__version__}", advice)
    primitive = Primitive("delassus")
    primitive.multiple_results = True

    @kept_by_kernel
    def compiled(kernel: Any, modes: tuple[str, ...]) -> Any:
        traced = KernelInJax(kernel)
        return jax.jit(lambda *arrays: bind(*arrays, kernel=traced, modes=modes))

    def called(*arrays: Any, kernel: KernelInJax, modes: tuple[str, ...]) -> Any:
        with jax.disable_jit(False):  # which would bring it here again
            return compiled(kernel.kernel, modes)(*arrays)

    def bind(*arrays: Any, **how: Any) -> Any:
        """Of arrays some of which differ from device to device of a `jax.shard_map`: all do then."""
        differ = [_differs(x) for x in arrays]
        over = frozenset[Any]().union(*differ)
        same = [
            jax.lax.pcast(x, tuple(over - d), to="varying") if d != over else x
            for x, d in zip(arrays, differ, strict=True)
        ]
        return primitive.bind(*same, **how)

    def shaped(*arrays: Any, kernel: Any, modes: tuple[str, ...]) -> Any:
        arguments, results = _shapes(kernel, modes)
        batch = arrays[0].shape[: arrays[0].ndim - len(arguments[0])]
        return [_whole(arrays[0], (*batch, *shape)) for shape in results]

    primitive.def_impl(called)
    primitive.def_abstract_eval(shaped)
    _transform(primitive, bind)
    for platform in PLATFORMS:
        mlir.register_lowering(primitive, partial(_lowered, platform), platform=platform)
    return bind


def _transform(primitive: Any, bind: Callable[..., Any]) -> None:
    """Give the primitive, whose results ``bind`` has, its rules for batches and derivatives."""
    import jax.numpy as jnp
    from jax.interpreters import ad, batching

    def batched(arrays: Sequence[Any], axes: Sequence[int | None], **how: Any) -> Any:
        (n,) = {x.shape[axis] for x, axis in zip(arrays, axes, strict=True) if axis is not None}
        led = [
            jnp.broadcast_to(x, (n, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)
            for x, axis in zip(arrays, axes, strict=True)
        ]
        results = bind(*led, **how)
        return results, [0] * len(results)

    def changed(arrays: Sequence[Any], tangents: Sequence[Any], *, kernel: Any, modes: tuple[str, ...]) -> Any:
        results = bind(*arrays, kernel=kernel, modes=modes)
        known = map(ad.instantiate_zeros, tangents)
        return results, bind(*arrays, *known, kernel=kernel, modes=(*modes, "jvp"))

    def transposed(cotangents: Sequence[Any], *arrays: Any, kernel: Any, modes: tuple[str, ...]) -> Any:
        *base, mode = modes  # linear in what the last derivative has added
        n = len(_shapes(kernel, tuple(base))[0])
        known = map(ad.instantiate_zeros, cotangents)
        other = "vjp" if mode == "jvp" else "jvp"
        found = bind(*arrays[:n], *known, kernel=kernel, modes=(*base, other))
        wanted = map(ad.is_undefined_primal, arrays[n:])
        return [None] * n + [x if asked else None for x, asked in zip(found, wanted, strict=True)]

    batching.primitive_batchers[primitive] = batched
    ad.primitive_jvps[primitive] = changed
    ad.primitive_transposes[primitive] = transposed


def _whole(like: Any, shape: tuple[int, ...]) -> Any:
    """Abstract array of this shape on all devices that one ``like`` it is on."""
    import jax

    sharding = jax.sharding.NamedSharding(like.sharding.mesh, jax.sharding.PartitionSpec())
    return like.update(shape=shape, sharding=sharding)


def _lowered(platform: str, context: Any, *arrays: Any, kernel: Any, modes: tuple[str, ...]) -> Any:
    """The primitive as a call that XLA makes."""
    import jax

    made, last = _made_for(platform, kernel.kernel).derivative(*modes), context.avals_out[-1]
    batch = last.shape[: last.ndim - len(made.results[-1].shape)]
    if made.target == "cuda" and (n := prod(batch)) > MOST_STATES:
        advice = "Call with a part of the batch at a time."
        raise ConfigurationError("batch", f"{MOST_STATES} states at most", f"{n}", advice)
    if made.target == "cuda" and made.has_rcond:  # of each state, which nobody reads
        context = context.replace(avals_out=[*context.avals_out, _whole(last, batch)])
    name, used = _target(made, platform)
    if context.module_context.lowering_parameters.for_export:  # of this process alone, which it does not outlive
        _exported.append(used)
    else:
        context.module_context.add_keepalive(used)
    found = jax.ffi.ffi_lowering(name)(context, *arrays)
    return found[: len(made.results)]


def _made_for(platform: str, kernel: Any) -> Any:
    """The kernel, if its target is that of a platform of XLA."""
    if kernel.target == PLATFORMS[platform]:
        return kernel
    wanted, advice = f"a kernel for arrays on {platform}", f"Compile it with target={PLATFORMS[platform]!r}"
    others = ", ".join(platform for platform, target in PLATFORMS.items() if target == kernel.target)
    advice += f", or move the arrays: jax.device_put(x, jax.devices({others!r})[0])."
    raise ConfigurationError("kernel", wanted, f"one with target={kernel.target!r}", advice)


def _differs(x: Any) -> frozenset[Any]:
    """Axes of devices, of a `jax.shard_map` that checks them, along which an array differs."""
    import jax

    kind = jax.typeof(x)
    axes: frozenset[Any] = kind.mat.varying if hasattr(kind, "mat") else kind.vma
    return axes


Shapes = list[tuple[int, ...]]


@lru_cache(maxsize=256)
def _shapes(kernel: KernelInJax, modes: tuple[str, ...]) -> tuple[Shapes, Shapes]:
    """Shapes of one state of the arguments and results of a derivative, which need not be compiled."""
    asked = replace(kernel.request, derivative=(*kernel.request.derivative, *modes))
    return [a.shape for a in asked.arguments], [asked.shape_of(o) for o in asked.outputs]


_exported: list[Any] = []
"""What `jax.export` needs of kernels, whose safety checks have to be off: for good."""

_targets: set[str] = set()
"""What XLA knows by name of kernels for GPUs, which stay for good."""


def _target(kernel: Any, platform: str) -> tuple[str, Any]:
    """Name by which XLA calls a kernel, the same in every process, and what is to be held as long as it may."""
    name = f"delassus_{kernel.identity}"
    if kernel.target == "cuda":
        _register_for_gpus(kernel, name, platform)
        return name, None
    return name, used_by_xla(kernel, name)


def _register_for_gpus(kernel: Any, name: str, platform: str) -> None:
    """Tell XLA of a kernel for GPUs, which stays for good."""
    import jax

    if name not in _targets:
        code, (record, *needed) = ObjectCode(object_code(CALLED.format(0))), _launch_record(kernel)
        ctypes.c_void_p.from_address(code.address_of_data("record0")).value = ctypes.addressof(record)
        called = jax.ffi.pycapsule(ctypes.c_void_p(code.address("called0")))
        jax.ffi.register_ffi_target(name, called, platform=REGISTERED_AS[platform])
        for x in (code, record, *needed):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(x))
        _targets.add(name)


def _launch_record(kernel: Any) -> list[Any]:
    """What ``_xla_launch`` takes of a kernel, loaded on all devices that JAX has, and what that needs."""
    counts = counts_of(kernel, kernel.has_rcond)
    if (came := 3 + 2 * counts[1]) > OPERANDS // 8:
        advice = "Differentiate fewer times, or by fewer arguments."
        raise ConfigurationError("kernel", f"{OPERANDS // 8} operands at most", f"{came}", advice)
    loaded = [kernel.loaded(number) for number in _devices()]
    known = [int(x) for of in loaded for x in (of.device.context, of.function, of.device.processors)]
    devices, names = (ctypes.c_int64 * len(known))(*known), ("cuLaunchKernel", "cuStreamGetCtx", "cuGetErrorString")
    functions = [loaded[0].device.driver.address_of(name) for name in names] if loaded else [0] * len(names)
    record = ctypes.create_string_buffer(struct.pack(
        f"12q{'d' if kernel.dtype == np.float64 else 'f4x'}2q",
        *(address_of(_xla_launch), *functions, ctypes.addressof(devices), len(loaded), ctypes.addressof(ELSEWHERE)),
        *(THREADS // WARP, *counts, shared_bytes(WARP, kernel.dtype.itemsize)),
        *(kernel.least, 1, 0),
    ))  # fmt: skip
    return [record, devices, loaded, _xla_launch]


def _devices() -> list[int]:
    """Numbers of the GPUs that JAX has; none where it only lowers for them."""
    import jax

    try:
        found = jax.local_devices(backend="cuda")
    except RuntimeError:
        return []
    return [device.local_hardware_id for device in found]


ELSEWHERE = ctypes.create_string_buffer(b"The kernel was not loaded on this device: JAX has not named it among its own")
