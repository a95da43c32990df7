"""Kernels on PyTorch tensors of the processor: one operator of `torch.library`, for all kernels and their derivatives.

`torch.vmap` is a further leading axis of all tensors. Backwards runs the kernel of cotangents (`Kernel.derivative`),
compiled when it is first needed; it can be differentiated in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from delassus.algorithms.inputs import Argument
from delassus.errors import ConfigurationError
from delassus.runtime.arrays import check_shape, common_batch, ordered


def call(kernel: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    """Results of a kernel, as tensors: one, or a tuple of several."""
    import torch

    arguments, name = kernel.arguments, _known(kernel)
    complete = ordered([a.name for a in arguments], given, named)
    wanted = torch.float64 if kernel.dtype == np.float64 else torch.float32
    tensors = [
        x if isinstance(x, torch.Tensor) and _fits(x, a, wanted) else _converted(x, a, wanted)
        for x, a in zip(complete, arguments, strict=True)
    ]
    leading = [x.shape[: x.ndim - len(a.shape)] for x, a in zip(tensors, arguments, strict=True)]
    if leading.count(leading[0]) < len(leading):
        batch = common_batch([a.name for a in arguments], [tuple(shape) for shape in leading])
        tensors = [x.expand(*batch, *a.shape) for x, a in zip(tensors, arguments, strict=True)]
    if torch.compiler.is_compiling():
        results = torch.ops.delassus.traced.default(tensors, name, ())
    elif _is_differentiated(tensors):
        results = _keep[0](name, (), *tensors)
    else:
        results = torch.ops.delassus.call.default(tensors, name, ())
    return results[0] if len(results) == 1 else tuple(results)


_kernels: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""Kernels by what the operator knows them by, which is the same in every process."""


_keep: list[Any] = []
"""The function with derivatives, and what holds the operators; empty before the first call."""


def _known(kernel: Any) -> str:
    """Name by which the operator knows a kernel."""
    name: str = kernel.identity
    if name not in _kernels:
        if not _keep:
            _keep.insert(0, _register())
        _kernels[name] = kernel
    return name


_known._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch.compile calls it once, and traces the rest


def _fits(x: Any, argument: Argument, wanted: Any) -> bool:
    return bool(x.dtype is wanted and x.is_cpu and x.shape[x.ndim - len(argument.shape) :] == argument.shape)


def _converted(x: Any, argument: Argument, wanted: Any) -> Any:
    """Tensor (..., shape of one state) of the type ``wanted``, from whole numbers and Python's own; or an error."""
    import torch

    if not isinstance(x, torch.Tensor):
        x = torch.as_tensor(x, dtype=wanted if type(x) in (float, int) else None)
    if x.dtype is not wanted and (x.is_floating_point() or x.is_complex()):
        advice = f"Convert it with .to({wanted}), or compile with dtype='float32' or 'float64'."
        raise ConfigurationError(argument.name, f"dtype {wanted}", f"dtype {x.dtype}", advice)
    if not x.is_cpu:
        raise ConfigurationError(argument.name, "a tensor of the processor", f"one on {x.device}", "Move it: .cpu().")
    check_shape(tuple(x.shape), argument.shape, argument.name)
    return x.to(wanted)


def _is_differentiated(tensors: Sequence[Any]) -> bool:
    """Whether somebody wants derivatives of these."""
    import torch

    dual = torch.autograd.forward_ad.unpack_dual
    return any(x.requires_grad or dual(x).tangent is not None for x in tensors)


def _register() -> Any:
    """Make the operators and their rules; ``modes`` are those of `Kernel.derivative`.

    ``torch.ops.delassus.call`` is what runs; ``torch.ops.delassus.traced``, for `torch.compile` alone, the same with
    its derivative, which costs time at every call. Without the compiler, it is the function that is returned that has
    derivatives: backwards, forwards and of the transforms of `torch.func`.
    """
    import torch

    call = torch.library.Library("delassus", "FRAGMENT")
    _keep.append(call)  # what is registered ends with it

    def batch_of(tensors: Sequence[Any], kernel: Any) -> Any:
        return tensors[0].shape[: tensors[0].ndim - len(kernel.arguments[0].shape)]

    def run(tensors: Sequence[Any], kernel: str, modes: Sequence[str]) -> Any:
        made = _kernels[kernel]
        if modes:
            made = made.derivative(*modes)
        batch = batch_of(tensors, made)
        results = [tensors[0].new_empty((*batch, *r.shape)) for r in made.results]
        flat = [*(x.detach().numpy() for x in tensors), *(x.numpy() for x in results)]
        if len(batch) > 1:  # the direct entry takes one axis at most
            flat = [x.reshape(-1, *a.shape) for x, a in zip(flat, (*made.arguments, *made.results), strict=True)]
        out = flat[len(tensors) :]
        made(*flat[: len(tensors)], out=out[0] if len(out) == 1 else tuple(out))
        return results

    def fake(tensors: Sequence[Any], kernel: str, modes: Sequence[str]) -> Any:
        root = _kernels[kernel]
        asked = replace(root.request, derivative=(*root.request.derivative, *modes))
        batch = batch_of(tensors, root)
        return [tensors[0].new_empty((*batch, *asked.shape_of(output))) for output in asked.outputs]

    def batched(info: Any, axes: Any, tensors: Sequence[Any], kernel: str, modes: Sequence[str]) -> Any:
        results = torch.ops.delassus.call.default(_led(info, axes[0], tensors), kernel, modes)
        return results, [0] * len(results)

    for name in ("call", "traced"):
        call.define(f"{name}(Tensor[] tensors, str kernel, str[] modes) -> Tensor[]")
        call.impl(name, run, "CPU")
        torch.library.register_fake(f"delassus::{name}", fake, lib=call)
        torch.library.register_vmap(f"delassus::{name}", batched, lib=call)

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        tensors, ctx.kernel, ctx.modes = inputs
        ctx.save_for_backward(*tensors)

    def backward(ctx: Any, cotangents: Sequence[Any]) -> Any:
        arrays, modes = [*ctx.saved_tensors, *cotangents], [*ctx.modes, "vjp"]
        return torch.ops.delassus.traced.default(arrays, ctx.kernel, modes), None, [None] * len(ctx.modes)

    torch.library.register_autograd("delassus::traced", backward, setup_context=keep, lib=call)

    class Results(torch.autograd.Function):  # type: ignore[misc]
        """What is returned of a kernel's name, modes and tensors."""

        @staticmethod
        def forward(kernel: str, modes: tuple[str, ...], *tensors: Any) -> Any:
            return tuple(torch.ops.delassus.call.default(tensors, kernel, modes))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.kernel, ctx.modes, *tensors = inputs
            ctx.save_for_backward(*tensors)
            ctx.save_for_forward(*tensors)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            return None, None, *Results.apply(ctx.kernel, (*ctx.modes, "vjp"), *ctx.saved_tensors, *cotangents)

        @staticmethod
        def jvp(ctx: Any, _: Any, __: Any, *tangents: Any) -> Any:
            return Results.apply(ctx.kernel, (*ctx.modes, "jvp"), *ctx.saved_tensors, *tangents)

        @staticmethod
        def vmap(info: Any, axes: Any, kernel: str, modes: tuple[str, ...], *tensors: Any) -> Any:
            results = Results.apply(kernel, modes, *_led(info, axes[2:], tensors))
            return results, (0,) * len(results)

    return Results.apply


def _led(info: Any, axes: Sequence[int | None], tensors: Sequence[Any]) -> list[Any]:
    """Tensors whose axis of `torch.vmap` leads."""
    return [
        x.expand(info.batch_size, *x.shape) if axis is None else x.movedim(axis, 0)
        for x, axis in zip(tensors, axes, strict=True)
    ]
