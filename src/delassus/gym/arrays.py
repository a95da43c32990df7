"""Array libraries of worlds, their random numbers, and checks of what worlds are given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from delassus import CudaKernel, Kernel
from delassus.errors import ConfigurationError, missing_dependency, shown
from delassus.model.check import MOST_AXES, check_list, check_whole, finite_array, is_whole, real_array

STEP, FIRST, SECOND = 0x9E3779B97F4A7C15 - 2**64, 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64
"""Constants of SplitMix64 as signed integers: PyTorch has no unsigned ones of 64 bits that multiply."""

MOST_NUMBERS = 2**24
"""Numbers of an observation or an action, or drawn at once for one world."""

LARGEST = float(np.finfo(np.float32).max) / 2
"""Of numbers that worlds are given: float32 has the difference of two of them."""

Range = tuple[float, float]
"""From and to; random numbers between are drawn at the start of each episode."""

BITS = 24
"""Number of random bits in a random number: float32 holds them exactly."""


def scrambled(x: Any) -> Any:
    """Hash of integers of 64 bits, in any array library: one step of SplitMix64.

    References: Steele, Lea, Flood 2014, Fast splittable pseudorandom number generators, figure 16.
    """
    x = (x + 1) * STEP
    x = (x ^ ((x >> 30) & (2**34 - 1))) * FIRST
    x = (x ^ ((x >> 27) & (2**37 - 1))) * SECOND
    return x ^ ((x >> 31) & (2**33 - 1))


def uniform(arrays: ArrayLibrary, keys: Any, drawn: Any, low: Any, high: Any, shape: tuple[int, ...]) -> Any:
    """Random numbers (k, *shape) between ``low`` and ``high`` from streams (k,), each with its key.

    ``drawn`` (k,) is how many numbers were drawn from each stream before. A number is a function of its key and its
    place in the stream, so all libraries and devices draw the same numbers.
    """
    places = drawn[:, None] + arrays.whole(range(math.prod(shape)))
    bits = (scrambled(keys[:, None] ^ scrambled(places)) >> (64 - BITS)) & (2**BITS - 1)
    unit = (arrays.array(bits) * 2.0**-BITS).reshape(len(keys), *shape)
    return low + (high - low) * unit


def check_range(name: str, given: Any) -> Range:
    """Return from and to as numbers; or `ConfigurationError`."""
    low, high = finite_array(given, (2,), name, "Pass the lowest and the highest.")
    if not 0 <= low <= high <= LARGEST:
        wanted = f"0 ≤ lowest ≤ highest ≤ {LARGEST:.2g}"
        raise ConfigurationError(name, wanted, shown(given), "Pass the lowest and the highest.")
    return float(low), float(high)


def check_kernel(kernel: Any) -> Kernel | CudaKernel:
    """Return a kernel that steps worlds; or `ConfigurationError`."""
    if isinstance(kernel, Kernel | CudaKernel) and kernel.dtype == np.float32 and kernel.request.states == 3:
        if {"friction", "payload0"} <= {argument.name for argument in kernel.arguments}:
            return kernel
    wanted = "a 'contact_step' compiled with dtype='float32', friction='input' and one payload"
    raise ConfigurationError("kernel", wanted, shown(kernel), "Pass what delassus.compile returns.")


def check_drawn(arrays: ArrayLibrary, low: Any, high: Any, shape: Any, worlds: Any) -> tuple[Any, Any, tuple[int, ...]]:
    """Return what `uniform` takes for worlds (k,); or `ConfigurationError`. Numbers on a GPU are not looked at."""
    k = len(worlds)
    several = check_list("shape", shape, "sizes, such as (3,)", "It is that of the numbers of one world.")
    if len(several) > MOST_AXES:
        advice = "It is that of the numbers of one world."
        raise ConfigurationError("shape", f"up to {MOST_AXES} axes", f"{len(several)} of them", advice)
    sizes = tuple(check_whole("shape", n, "One size an axis.", most=MOST_NUMBERS) for n in several)
    check_whole("shape", math.prod(sizes), "So many numbers of one world.", most=MOST_NUMBERS)
    found = []
    for name, given in (("low", low), ("high", high)):
        if not arrays.waits and isinstance(given, type(worlds)):
            found.append(given)
            continue
        x = real_array(given)
        fits = x is not None and all(n in (1, m) for n, m in zip(x.shape[::-1], (k, *sizes)[::-1], strict=False))
        if x is None or x.ndim > 1 + len(sizes) or not fits or not (np.abs(x) <= LARGEST).all():
            wanted = f"numbers up to {LARGEST:.2g} that broadcast with shape {(k, *sizes)}"
            raise ConfigurationError(name, wanted, shown(given), "Pass such as -1.0, or one number an entry.")
        found.append(given if isinstance(given, int | float | np.ndarray) else arrays.array(x))
    return found[0], found[1], sizes


def seeds_of(seed: Any, n: int) -> list[int | None]:
    """Seeds of n worlds: from an integer upwards, from a list, or none."""
    if seed is None:
        return [None] * n
    wanted, advice = f"a whole number ≥ 0, or a list of {n} of them", "None in a list keeps the stream of that world."
    if is_whole(seed):
        return [int(seed) + k for k in range(n)]
    seeds = check_list("seed", seed, wanted, advice)
    if len(seeds) != n:
        raise ConfigurationError("seed", wanted, f"a list of {len(seeds)}", advice)
    return [s if s is None else check_whole("seed", s, advice) for s in seeds]


def key_of(seed: int) -> int:
    """Key of 63 bits of a seed of any size."""
    return seed if seed < 2**63 else int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0] >> 1)


def mask_of(arrays: ArrayLibrary, mask: Any, n: int) -> NDArray[np.bool_]:
    """Mask (n,) of the worlds to reset, all if ``mask`` is None; or `ConfigurationError`."""
    if mask is None:
        return np.ones(n, bool)
    found: NDArray[Any] = arrays.host(mask) if hasattr(mask, "dtype") else np.zeros(0)
    if found.dtype != bool or found.shape != (n,) or not found.any():
        wanted, came = f"an array ({n},) of bool, not all False", shown(mask)
        raise ConfigurationError("reset_mask", wanted, came, "Leave reset_mask out to reset all worlds.")
    return found


class ArrayLibrary:
    """A library of arrays on a device, NumPy here: ``xp`` has functions that all share, ``where``, ``exp``, ``hstack``.

    ``waits``: whether numbers can be asked for at no cost. On a GPU the processor would wait for them.
    """

    waits = True

    @property
    def xp(self) -> Any:
        """Functions of arrays: a property, because instances with a module as attribute cannot be pickled."""
        return np

    def zeros(self, shape: tuple[int, ...], kind: str = "float32") -> Any:
        """Array of a type."""
        return np.zeros(shape, kind)

    def whole(self, x: Sequence[int] | NDArray[np.int64]) -> Any:
        """Array of whole numbers, int64."""
        return np.array(x, np.int64)

    def array(self, x: Any) -> Any:
        """Array of float32."""
        return np.array(x, np.float32)

    def copy(self, x: Any) -> Any:
        """Array of its own."""
        return x.copy()

    def host(self, x: Any) -> NDArray[Any]:
        """NumPy array with these numbers; waits for the device."""
        return np.asarray(x)

    def actions(self, given: Any, shape: tuple[int, ...]) -> Any:
        """Array of this shape, of finite numbers, or an error."""
        return finite_array(given, shape, "actions", "Numbers between −1 and 1 for each world.")


class OfPyTorch(ArrayLibrary):
    """Tensors of PyTorch on one device, such as ``"cuda"`` or ``"cuda:1"``."""

    waits = False

    def __init__(self, device: str) -> None:
        try:
            import torch
        except ImportError as cause:
            raise missing_dependency("torch", "torch", "worlds on a GPU") from cause
        try:
            self._device = torch.empty(0, device=device).device
        except (AssertionError, RuntimeError) as cause:  # without CUDA, it says so by either
            wanted, advice = "'cpu', or a GPU that PyTorch sees", "torch.cuda.is_available() says whether it sees any."
            raise ConfigurationError("device", wanted, f"{device!r}: {cause}", advice) from None

    @property
    def xp(self) -> Any:
        """The module torch."""
        import torch

        return torch

    def zeros(self, shape: tuple[int, ...], kind: str = "float32") -> Any:
        """Tensor of a type."""
        return self.xp.zeros(shape, dtype=getattr(self.xp, kind), device=self._device)

    def whole(self, x: Sequence[int] | NDArray[np.int64]) -> Any:
        """Tensor of whole numbers; those of a range are made on the device, without a copy."""
        if isinstance(x, range):
            return self.xp.arange(x.start, x.stop, x.step, device=self._device)
        return self.xp.as_tensor(np.array(x, np.int64), device=self._device)

    def array(self, x: Any) -> Any:
        """Tensor of float32."""
        return self.xp.as_tensor(x, dtype=self.xp.float32, device=self._device).clone()

    def copy(self, x: Any) -> Any:
        """Tensor of its own."""
        return x.clone()

    def host(self, x: Any) -> NDArray[Any]:
        """NumPy array of a tensor, or of anything that NumPy takes."""
        return np.asarray(x.detach().cpu() if isinstance(x, self.xp.Tensor) else x)

    def actions(self, given: Any, shape: tuple[int, ...]) -> Any:
        """Tensor of this shape, or an error; that numbers are finite is checked of what is not on the device yet."""
        if not isinstance(given, self.xp.Tensor):
            return self.array(super().actions(given, shape))
        if tuple(given.shape) != shape:
            raise ConfigurationError("actions", f"shape {shape}", f"shape {tuple(given.shape)}", "One row a world.")
        return given.to(self._device, self.xp.float32)


def check_device(device: Any) -> str:
    """Return a device: the processor, ``"cpu"``, or a GPU, ``"cuda"`` or ``"cuda:1"``; or `ConfigurationError`."""
    if isinstance(device, str) and (device == "cpu" or device.partition(":")[0] == "cuda"):
        return device
    raise ConfigurationError("device", "'cpu', 'cuda' or such as 'cuda:1'", shown(device), "Leave it out for 'cpu'.")


def arrays_of(device: Any) -> ArrayLibrary:
    """Arrays on a device."""
    return ArrayLibrary() if check_device(device) == "cpu" else OfPyTorch(device)
