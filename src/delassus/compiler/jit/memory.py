"""Memory by its address, and machine code: what compiled functions do with structures of others; pointers are integers.

Integers of 64 bits are acquired when they are read, and released when they are written, so that threads can share them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

STORED = {
    np.dtype(np.int64): ("i64", "", ""), np.dtype(np.int32): ("i32", "sext", "trunc"),
    np.dtype(np.float64): ("double", "", ""), np.dtype(np.float32): ("float", "fpext", "fptrunc"),
}  # fmt: skip
"""Numbers in memory: their type there, and the instructions that make them wider and narrower."""

ONLY = "memory is read and written by address in compiled functions only"


def load(address: int, item: Any = np.int64) -> Any:
    """Number at an address, of a type in `STORED`."""
    raise AssertionError(ONLY)


def store(address: int, number: float, item: Any = np.int64) -> None:
    """Write a number to an address."""
    raise AssertionError(ONLY)


def exchange(address: int, number: int) -> int:
    """Write an integer to an address, sequentially consistent; what was there."""
    raise AssertionError(ONLY)


def compare_exchange(address: int, expected: int, number: int) -> bool:
    """Write an integer to an address if the expected one is there, sequentially consistent; whether it was."""
    raise AssertionError(ONLY)


def reserve(size: int) -> int:
    """Address of memory until the function returns: a constant number of bytes, at a cache line."""
    raise AssertionError(ONLY)


def call_at(address: int, *arguments: Any) -> int:
    """Call machine code with numbers and tuples of them; what it returns, if it does."""
    raise AssertionError(ONLY)


ACCESSES = (load, store, exchange, compare_exchange, reserve, call_at)
