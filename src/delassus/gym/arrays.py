"""Arrays of worlds: what libraries of arrays do not share, and random numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from delassus.errors import ConfigurationError, missing_dependency, shown
from delassus.model.check import finite_array


class Arrays(Protocol):
    """A library of arrays on a device, with functions ``xp`` that all libraries share: ``where``, ``exp``, ``hstack``.

    ``waits``: whether numbers can be asked for at no cost. On a GPU the processor would wait for them.
    """

    xp: Any
    waits: bool

    def seed(self, numbers: np.random.Generator) -> None:
        """Take random numbers from these, or from what they start."""

    def uniform(self, low: float, high: float, shape: tuple[int, ...]) -> Any:
        """Random numbers between two, float32 on a GPU."""

    def zeros(self, shape: tuple[int, ...], kind: str = "float32") -> Any:
        """Array of a type."""

    def whole(self, x: Sequence[int]) -> Any:
        """Array of whole numbers."""

    def array(self, x: Any) -> Any:
        """Array of float32."""

    def copy(self, x: Any) -> Any:
        """Array of its own."""

    def actions(self, given: Any, shape: tuple[int, ...]) -> Any:
        """Array of this shape, or an error."""


class OfNumPy:
    """Arrays of NumPy."""

    xp: Any = np
    waits = True

    def seed(self, numbers: np.random.Generator) -> None:
        """Take random numbers from these."""
        self._numbers = numbers

    def uniform(self, low: float, high: float, shape: tuple[int, ...]) -> Any:
        """Random numbers between two."""
        return self._numbers.uniform(low, high, shape)

    def zeros(self, shape: tuple[int, ...], kind: str = "float32") -> Any:
        """Array of a type."""
        return np.zeros(shape, kind)

    def whole(self, x: Sequence[int]) -> Any:
        """Array of whole numbers."""
        return np.array(x, np.int64)

    def array(self, x: Any) -> Any:
        """Array of float32."""
        return np.array(x, np.float32)

    def copy(self, x: Any) -> Any:
        """Array of its own."""
        return x.copy()

    def actions(self, given: Any, shape: tuple[int, ...]) -> Any:
        """Array of this shape, of finite numbers, or an error."""
        return finite_array(given, shape, "actions", "Numbers between −1 and 1 for each world.")


class OfPyTorch:
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
        self.xp: Any = torch
        self._numbers = torch.Generator(self._device)

    def seed(self, numbers: np.random.Generator) -> None:
        """Start random numbers of the device by one of these."""
        self._numbers.manual_seed(int(numbers.integers(2**63)))

    def uniform(self, low: float, high: float, shape: tuple[int, ...]) -> Any:
        """Random numbers between two."""
        return low + (high - low) * self.xp.rand(shape, generator=self._numbers, device=self._device)

    def zeros(self, shape: tuple[int, ...], kind: str = "float32") -> Any:
        """Tensor of a type."""
        return self.xp.zeros(shape, dtype=getattr(self.xp, kind), device=self._device)

    def whole(self, x: Sequence[int]) -> Any:
        """Tensor of whole numbers."""
        return self.xp.tensor(list(x), device=self._device)

    def array(self, x: Any) -> Any:
        """Tensor of float32."""
        return self.xp.as_tensor(x, dtype=self.xp.float32, device=self._device).clone()

    def copy(self, x: Any) -> Any:
        """Tensor of its own."""
        return x.clone()

    def actions(self, given: Any, shape: tuple[int, ...]) -> Any:
        """Tensor of this shape, or an error; that numbers are finite is checked of what is not on the device yet."""
        if not isinstance(given, self.xp.Tensor):
            return self.array(OfNumPy().actions(given, shape))
        if tuple(given.shape) != shape:
            raise ConfigurationError("actions", f"shape {shape}", f"shape {tuple(given.shape)}", "One row a world.")
        return given.to(self._device, self.xp.float32)


def arrays_of(device: Any) -> Arrays:
    """Arrays on the processor, ``"cpu"``, or on a GPU, ``"cuda"`` or ``"cuda:1"``."""
    if device == "cpu":
        return OfNumPy()
    if isinstance(device, str) and device.partition(":")[0] == "cuda":
        return OfPyTorch(device)
    raise ConfigurationError("device", "'cpu', 'cuda' or such as 'cuda:1'", shown(device), "Leave it out for 'cpu'.")
