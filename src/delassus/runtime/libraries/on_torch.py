"""Kernels on PyTorch tensors: one operator of `torch.library`, for all kernels and their derivatives.

Kernels for GPUs are launched on the current stream of the tensors' device, and nobody waits for them. `torch.vmap` is a
further leading axis of all tensors. Backwards runs the kernel of cotangents (`Kernel.derivative`), compiled when it is
first needed; it can be differentiated in turn.
"""

from __future__ import annotations

import base64
import inspect
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from math import prod
from types import SimpleNamespace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from delassus.constraints import Argument
from delassus.errors import ConfigurationError, DelassusError
from delassus.frozen import packed, safe_parts
from delassus.model.check import library_of
from delassus.runtime.any_kernel import kept_by_kernel
from delassus.runtime.arrays import Rollout, check_shape, of_one_batch, ordered, over_time
from delassus.runtime.rollouts.on_device import OnDevice, check_times, run_on_device, under_policy


def call(kernel: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Results of a kernel, as tensors: one, or a tuple of several."""
    import torch

    arguments = kernel.arguments
    tensors = _checked(kernel, ordered([a.name for a in arguments], given, named), True)
    if len(tensors) > 1:
        tensors, _ = of_one_batch(tensors, arguments, torch.Tensor.expand)
    if torch.compiler.is_compiling():
        results = torch.ops.delassus.traced.default(tensors, _text(kernel), ())
    elif _is_differentiated(tensors):
        results = _registered()(kernel, (), *tensors)
    else:
        results = torch.ops.delassus.call.default(tensors, _known(kernel), ())
    return kernel.returned(results)


def rollout(asked: Rollout) -> Any:
    """Trajectories of a compiled time step, as `delassus.rollout` returns them of arrays of NumPy.

    Backwards, the kernel of cotangents runs over time, from the end to the start; forwards that of tangents. Policies
    are for kernels for GPUs: parts of a trajectory, each with derivatives.
    """
    import torch

    if callable(asked.controls):
        return under_policy(torch, asked, rollout)
    kernel, control = asked.kernel, asked.kernel.request.control
    arguments = {a.name: a for a in kernel.arguments}
    complete = ordered([*arguments], (), {**asked.fixed, **asked.start, control: asked.controls})
    given = dict(zip(arguments, _checked(kernel, complete), strict=True))
    moving = {name: x for name, x in given.items() if name == control or name in asked.per_step}
    given |= over_time(torch, moving, arguments, asked.time_axis, {control: asked.decimation})
    anew = [name in moving for name in arguments]
    tensors, _ = of_one_batch([*given.values()], kernel.arguments, torch.Tensor.expand, anew=anew)
    return _rolled()(asked.roll, kernel, "", anew, *tensors)


@cache
def _rolled() -> Any:
    """Function of a rollout, or of its tangents or cotangents: of these mode, and all arguments of one batch.

    Of derivatives the state is trajectories, and tangents of all arguments or cotangents of the states after each step
    follow. Which arguments are given ``anew`` at each step is said of those of the step.
    """
    import torch

    class Rolled(torch.autograd.Function):  # type: ignore[misc]
        """Autograd function of a rollout."""

        @staticmethod
        def forward(roll: Any, kernel: Any, mode: str, anew: Sequence[bool], *tensors: Any) -> Any:
            if any(map(_is_led, tensors)):

                def mapped(info: Any, axes: Any, *led: Any) -> Any:
                    return Rolled.vmap(info, axes, roll, kernel, mode, anew, *led)

                return tuple(_led_by_autograd(mapped, 4, tensors))
            made, n = kernel.derivative(mode) if mode else kernel, kernel.request.states
            if made.target == "cuda":
                found = _rolled_on_device(made, anew if mode != "jvp" else [*anew, *anew], tensors)
                return tuple(found[:n] if mode == "jvp" else found)
            arrays, names = [x.detach().numpy() for x in tensors], [a.name for a in made.arguments]
            given = dict(zip(names, arrays, strict=False))
            control = kernel.request.control
            per_step = [a.name for a, moves in zip(kernel.arguments, anew, strict=True) if moves and a.name != control]
            first = (given.pop(name) for name in ("q", "v", control))
            found = roll(made, *first, time_axis=0, per_step=per_step, **given)
            return tuple(torch.from_numpy(np.array(x)) for x in (found[:n] if mode == "jvp" else found))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.roll, ctx.kernel, ctx.mode, ctx.anew, *tensors = inputs
            n = ctx.kernel.request.states
            if not ctx.mode:
                ctx.mark_non_differentiable(*output[n:])
                ctx.save_for_backward(*output[:n], *tensors[n:])
                ctx.save_for_forward(*output[:n], *tensors[n:])

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            _only_first(ctx.mode)
            n = ctx.kernel.request.states
            after = (x[1:] for x in cotangents[:n])
            found = Rolled.apply(ctx.roll, ctx.kernel, "vjp", ctx.anew, *ctx.saved_tensors, *after)
            starts = [x + of_all[0] for x, of_all in zip(found, cotangents[:n], strict=False)]
            return None, None, None, None, *starts, *found[n:]

        @staticmethod
        def jvp(ctx: Any, _: Any, __: Any, ___: Any, ____: Any, *tangents: Any) -> Any:
            _only_first(ctx.mode)
            found = Rolled.apply(ctx.roll, ctx.kernel, "jvp", ctx.anew, *ctx.saved_tensors, *tangents)
            return *found, *(None for _ in ctx.kernel.results[len(found) :])

        @staticmethod
        def vmap(info: Any, axes: Any, roll: Any, kernel: Any, mode: str, anew: Sequence[bool], *tensors: Any) -> Any:
            n = kernel.request.states
            trajectories = [True] * n
            moves = [*(trajectories if mode else anew[:n]), *anew[n:], *(anew if mode == "jvp" else trajectories)]
            led = [
                x.movedim(0, 1) if moving else x
                for x, moving in zip(_led(info, axes[4:], tensors), moves, strict=False)
            ]
            results = Rolled.apply(roll, kernel, mode, anew, *led)
            after = anew if mode == "vjp" else [*trajectories, *(False for _ in results[n:])]
            return results, tuple(int(moving) for moving in after)

    return torch.compiler.disable(Rolled.apply)


def _rolled_on_device(kernel: Any, anew: Sequence[bool], tensors: Sequence[Any]) -> list[Any]:
    """Rollout of tensors on a GPU, by a time step or its derivative; ``anew``: what is given at each step."""
    import torch

    of_path, first = int(bool(kernel.request.derivative)), tensors[0]
    batch = tuple(first.shape[of_path : first.ndim - len(kernel.arguments[0].shape)])
    of_time = {a.name: x for a, x, moves in zip(kernel.arguments, tensors, anew, strict=False) if moves}
    steps = len(next(iter(of_time.values())))
    check_times([*of_time], [*of_time.values()], steps)
    moving = [*anew, *(True for _ in tensors[len(anew) :])]
    device, stream = first.device.index, _stream(first)

    def launch(n: int, places: Sequence[Any], steps: int) -> None:
        kernel.launch(device, stream, n, [p.address for p in places], [p.step for p in places], steps)

    def largest(x: Any) -> Any:
        return x.amax(0) if len(x) else x.new_zeros(x.shape[1:])

    on = OnDevice(first.detach().new_empty, torch.Tensor.data_ptr, launch, largest)
    return run_on_device(kernel, on, [x.detach().contiguous() for x in tensors], moving, batch, steps)


def _stream(x: Any) -> int:
    """Handle of the current stream of a tensor's device."""
    import torch

    handle: int = torch.cuda.current_stream(x.device).cuda_stream
    return handle


def _only_first(mode: str) -> None:
    """Refuse derivatives of derivatives."""
    if mode:
        advice = "Call the kernel of the step in a loop, whose derivatives have every order."
        raise ConfigurationError("rollout", "first derivatives, with tensors", "second ones", advice)


_kernels: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""Kernels by what operators know them by; who differentiates holds them."""

_keep: list[Any] = []
"""What holds the operators; empty before they are registered."""

TEXT = "delassus:"
"""What texts of kernels begin with, which every process makes them from; names are those of kernels of this one."""


def _known(kernel: Any) -> str:
    """Name by which the operator knows a kernel as long as it lives."""
    name: str = kernel.identity
    if _kernels.get(name) is not kernel:
        _registered()
        _kernels[name] = kernel
    return name


@kept_by_kernel
def _written(kernel: Any) -> str:
    made, is_ours = packed(kernel.__reduce__())
    if not is_ours:
        wanted, advice = "constraints of this library in a graph", "Call the kernel outside of torch.compile."
        raise ConfigurationError("kernel", wanted, repr(kernel), advice)
    return TEXT + base64.b85encode(zlib.compress(made)).decode()


def _text(kernel: Any) -> str:
    """Text by which graphs know a kernel, which outlive it and go to other processes; it is made again from that."""
    _registered()
    text: str = _written(kernel)
    _kernels[text] = kernel
    return text


def _kernel_of(name: str) -> Any:
    """The kernel that an operator is called with."""
    found = _kernels.get(name)
    if found is None and name.startswith(TEXT):
        return _made_again(name)
    if found is None:
        wanted, advice = "one that is alive", "Hold it as long as graphs call it."
        raise ConfigurationError("kernel", wanted, "the name of one that has gone", advice)
    return found


@lru_cache(maxsize=256)
def _made_again(text: str) -> Any:
    try:
        make, how = safe_parts(zlib.decompress(base64.b85decode(text.removeprefix(TEXT))))
        return make(*how)
    except DelassusError:
        raise
    except Exception as error:  # of a damaged file, anything
        wanted, advice = "the text of one, of this version", "Export it again."
        raise ConfigurationError("kernel", wanted, f"{type(error).__name__}: {error}", advice) from error


# torch.compile calls these once, and traces the rest
_text._dynamo_marked_constant = True  # type: ignore[attr-defined]
library_of._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _checked(kernel: Any, given: Sequence[Any], meta: bool = False) -> list[Any]:
    """Tensors for all arguments, each (..., shape of one state), of the kernel's type, on one device of its target.

    With ``meta``, all are without numbers where some are.
    """
    import torch

    if meta and any(isinstance(x, torch.Tensor) and x.is_meta for x in given):
        wanted = torch.float64 if kernel.dtype == np.float64 else torch.float32
        return [_without_numbers(x, a, wanted) for x, a in zip(given, kernel.arguments, strict=True)]
    wanted = torch.float64 if kernel.dtype == np.float64 else torch.float32
    number = -1 if kernel.target == "cpu" else _number(kernel, given)
    return [
        x if isinstance(x, torch.Tensor) and _fits(x, a, wanted, number) else _converted(x, a, wanted, number)
        for x, a in zip(given, kernel.arguments, strict=True)
    ]


def _without_numbers(x: Any, argument: Argument, wanted: Any) -> Any:
    """Tensor of the right type and shape on the device "meta"."""
    import torch

    x = x if isinstance(x, torch.Tensor) else torch.as_tensor(x, dtype=wanted if type(x) in (float, int) else None)
    _check_type(x, argument, wanted)
    check_shape(tuple(x.shape), argument.shape, argument.name)
    return x.to("meta", wanted)


def _number(kernel: Any, given: Sequence[Any]) -> int:
    """Number of the GPU of the first tensor that is on one."""
    import torch

    tensors = [(x, a) for x, a in zip(given, kernel.arguments, strict=True) if isinstance(x, torch.Tensor)]
    for x, _ in tensors:
        if x.is_cuda:
            return int(x.get_device())
    x, argument = tensors[0]
    raise _elsewhere(x, argument, "a GPU", "Move it: .cuda(), or compile with target='cpu'.")


def _elsewhere(x: Any, argument: Argument, wanted: str, advice: str) -> ConfigurationError:
    return ConfigurationError(argument.name, f"a tensor on {wanted}", f"one on {x.device}", advice)


def _fits(x: Any, argument: Argument, wanted: Any, number: int) -> bool:
    """Whether a tensor is of a type and shape, and on the GPU of a number, or if that is negative on the processor."""
    is_there = x.is_cpu if number < 0 else x.is_cuda and x.get_device() == number
    return bool(x.dtype is wanted and is_there and x.shape[x.ndim - len(argument.shape) :] == argument.shape)


def _converted(x: Any, argument: Argument, wanted: Any, number: int) -> Any:
    """Tensor (..., shape of one state) of the type ``wanted``, from whole numbers and Python's own; or an error."""
    import torch

    if not isinstance(x, torch.Tensor):
        device = "cpu" if number < 0 else f"cuda:{number}"
        x = torch.as_tensor(x, dtype=wanted if type(x) in (float, int) else None, device=device)
    _check_type(x, argument, wanted)
    if number < 0 and not x.is_cpu:
        advice = "Move it: .cpu()" + (", or compile with target='cuda'." if x.is_cuda else ".")
        raise _elsewhere(x, argument, "the processor", advice)
    if number >= 0 and not (x.is_cuda and x.get_device() == number):
        raise _elsewhere(x, argument, f"cuda:{number}, as another is", f"Move it: .to('cuda:{number}').")
    check_shape(tuple(x.shape), argument.shape, argument.name)
    return x.to(wanted)


def _check_type(x: Any, argument: Argument, wanted: Any) -> None:
    """Refuse other numbers than those of a kernel, and whole ones."""
    if x.dtype is not wanted and (x.is_floating_point() or x.is_complex()):
        advice = f"Convert it with .to({wanted}), or compile with dtype='float32' or 'float64'."
        raise ConfigurationError(argument.name, f"dtype {wanted}", f"dtype {x.dtype}", advice)


def _is_differentiated(tensors: Sequence[Any]) -> bool:
    """Whether somebody wants derivatives of these."""
    import torch

    backwards, dual = torch.is_grad_enabled(), torch.autograd.forward_ad.unpack_dual
    for x in tensors:  # a third of the time of any()
        if (backwards and x.requires_grad) or dual(x).tangent is not None:
            return True
    return False


def _is_led(x: Any) -> bool:
    """Whether a tensor is one of many, as autograd maps: with ``is_grads_batched`` or ``vectorize``."""
    import torch

    return bool(torch._C._functorch.is_legacy_batchedtensor(x))


def _led_by_autograd(mapped: Callable[..., Any], others: int, tensors: Sequence[Any]) -> list[Any]:
    """Results of a rule of `torch.vmap` for tensors as autograd maps them, from the innermost level on.

    The rule takes ``info``, axes of ``others`` arguments before those of tensors, and these; it returns results and
    their axes.
    """
    import torch

    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    for k in range(level, 0, -1):
        taken = [torch._remove_batch_dim(x, k, 0, 0) for x in tensors]  # of no numbers where one is the same for all
        if sizes := {len(x) for x in taken} - {0}:
            info = SimpleNamespace(batch_size=max(sizes))
            axes = [0 if len(x) else None for x in taken]
            given = [x if axis is None else new for x, new, axis in zip(tensors, taken, axes, strict=True)]
            found, out = mapped(info, (*(None,) * others, *axes), *given)
            return [torch._add_batch_dim(x, axis, k) for x, axis in zip(found, out, strict=True)]
    raise ConfigurationError("tensors", "at least one to map over", "none", "Call it without them.")


def _registered() -> Any:
    """The function with derivatives, after the operators have been made."""
    import torch

    if not _keep:
        vars(torch.ops).pop("delassus", None)  # what stands for them (`graphs`)
        _keep.insert(0, _register())
    return _keep[0]


def _register() -> Any:
    """Make the operators and their rules; ``modes`` are those of `Kernel.derivative`.

    ``torch.ops.delassus.call`` is what runs; ``torch.ops.delassus.traced``, for `torch.compile` alone, the same with
    its derivative, which costs time at every call. Without the compiler, it is the function that is returned that has
    derivatives: backwards, forwards and of the transforms of `torch.func`.
    """
    import torch

    call = torch.library.Library("delassus", "FRAGMENT")
    _keep.append(call)  # what is registered ends with it

    def fake(tensors: Sequence[Any], kernel: str, modes: Sequence[str]) -> Any:
        root = _kernel_of(kernel)
        asked = replace(root.request, derivative=(*root.request.derivative, *modes))
        batch = _batch_of(tensors, root)
        return [tensors[0].new_empty((*batch, *asked.shape_of(output))) for output in asked.outputs]

    def batched(info: Any, axes: Any, tensors: Sequence[Any], kernel: str, modes: Sequence[str]) -> Any:
        results = torch.ops.delassus.call.default(_led(info, axes[0], tensors), kernel, modes)
        return results, [0] * len(results)

    def led(tensors: Sequence[Any], kernel: str, modes: Sequence[str]) -> Any:
        def mapped(info: Any, axes: Any, *given: Any) -> Any:
            return batched(info, (axes,), given, kernel, modes)

        return _led_by_autograd(mapped, 0, tensors)

    for name in ("call", "traced"):
        call.define(f"{name}(Tensor[] tensors, str kernel, str[] modes) -> Tensor[]")
        for key in ("CPU", "CUDA"):
            call.impl(name, _run, key)
        call.impl(name, led, "Batched")
        torch.library.register_fake(f"delassus::{name}", fake, lib=call)
        torch.library.register_vmap(f"delassus::{name}", batched, lib=call)

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        tensors, ctx.kernel, ctx.modes = inputs
        ctx.save_for_backward(*tensors)

    def backward(ctx: Any, cotangents: Sequence[Any]) -> Any:
        arrays, modes = [*ctx.saved_tensors, *cotangents], [*ctx.modes, "vjp"]
        return torch.ops.delassus.traced.default(arrays, ctx.kernel, modes), None, [None] * len(ctx.modes)

    torch.library.register_autograd("delassus::traced", backward, setup_context=keep, lib=call)

    return _function()


def _batch_of(tensors: Sequence[Any], kernel: Any) -> Any:
    """Shape of the batch of a kernel's arguments."""
    return tensors[0].shape[: tensors[0].ndim - len(kernel.arguments[0].shape)]


def _run(tensors: Sequence[Any], kernel: str, modes: Sequence[str]) -> Any:
    """Results of a kernel, or of its derivative, for tensors that all have the same batch."""
    import torch

    made = _kernel_of(kernel)
    if modes:
        made = made.derivative(*modes)
    if made.target == "cuda":
        return _launched(made, tensors, _batch_of(tensors, made))
    flat = [(x.detach() if x.requires_grad else x).numpy() for x in tensors]
    depth = len(made.arguments[0].shape)
    batch = flat[0].shape[: flat[0].ndim - depth]
    if len(batch) > 1:  # the direct entry takes one axis at most
        flat = [x.reshape((prod(batch), *a.shape)) for x, a in zip(flat, made.arguments, strict=True)]
    found = made(*flat)
    results = [torch.from_numpy(x) for x in (found if isinstance(found, tuple) else (found,))]
    return results if len(batch) < 2 else [x.view(*batch, *x.shape[1:]) for x in results]


def _function() -> Any:
    """The function with derivatives of all orders, which calls the operator."""
    import torch

    class Results(torch.autograd.Function):  # type: ignore[misc]
        """Autograd function of a kernel, which graphs hold, its modes and tensors."""

        @staticmethod
        def forward(kernel: Any, modes: tuple[str, ...], *tensors: Any) -> Any:
            return tuple(torch.ops.delassus.call.default(tensors, _known(kernel), modes))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.kernel, ctx.modes, *tensors = inputs
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            tensors, modes = (*ctx.saved_tensors, *cotangents), (*ctx.modes, "vjp")
            if _is_differentiated(tensors):
                return None, None, *Results.apply(ctx.kernel, modes, *tensors)
            return None, None, *torch.ops.delassus.call.default(tensors, _known(ctx.kernel), modes)

        @staticmethod
        def jvp(ctx: Any, _: Any, __: Any, *tangents: Any) -> Any:
            return Results.apply(ctx.kernel, (*ctx.modes, "jvp"), *ctx.saved_tensors, *tangents)

        @staticmethod
        def vmap(info: Any, axes: Any, kernel: Any, modes: tuple[str, ...], *tensors: Any) -> Any:
            results = Results.apply(kernel, modes, *_led(info, axes[2:], tensors))
            return results, (0,) * len(results)

    asked: Any = Results.forward  # for its signature, at each call
    asked.__signature__ = inspect.signature(asked)
    return Results.apply


def _launched(kernel: Any, tensors: Sequence[Any], batch: Sequence[int]) -> list[Any]:
    """Results of a kernel for GPUs, of tensors on one device that have a batch in common.

    PyTorch frees and reuses memory in the order of a stream, so that nothing has to stay until the launch is done.
    """
    given = [(x.detach() if x.requires_grad else x).contiguous() for x in tensors]
    shapes = [*(r.shape for r in kernel.results), *([()] * kernel.has_rcond)]
    results = [given[0].new_empty((*batch, *shape)) for shape in shapes]
    pointers = [x.data_ptr() for x in (*given, *results)]
    kernel.launch(tensors[0].device.index, _stream(tensors[0]), prod(batch), pointers)
    return results[: len(kernel.results)]


def _led(info: Any, axes: Sequence[int | None], tensors: Sequence[Any]) -> list[Any]:
    """Tensors whose axis of `torch.vmap` leads."""
    return [
        x.expand(info.batch_size, *x.shape) if axis is None else x.movedim(axis, 0)
        for x, axis in zip(tensors, axes, strict=True)
    ]
