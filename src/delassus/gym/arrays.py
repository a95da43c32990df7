"""Arrays of worlds: what libraries of arrays do not share, and random numbers."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

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

    def numbers(self, n: int) -> Any:
        """Whole numbers from 0 to n − 1."""

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

    def numbers(self, n: int) -> Any:
        """Whole numbers from 0 to n − 1."""
        return np.arange(n)

    def array(self, x: Any) -> Any:
        """Array of float32."""
        return np.array(x, np.float32)

    def copy(self, x: Any) -> Any:
        """Array of its own."""
        return x.copy()

    def actions(self, given: Any, shape: tuple[int, ...]) -> Any:
        """Array of this shape, of finite numbers, or an error."""
        return finite_array(given, shape, "actions", "Numbers between −1 and 1 for each world.")
