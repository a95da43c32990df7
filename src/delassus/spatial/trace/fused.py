"""Products that are fused with sums, rounded once: the meaning of fused operations, on arrays.

Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums" (IEEE Transactions on Computers 57, 2008).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

SPLIT = 2.0**27 + 1.0
"""Dekker's factor: it halves a float64 into two numbers of at most 26 bits."""

FAR = 120
"""Exponents of 2 between a product and what is added, at most: beyond, only the sign of the lesser one counts."""

LEAST = 2.0**-1021
"""Below this magnitude float64 has fewer bits, and scaling a result back would round it once more."""


def fused(x: NDArray[Any], y: NDArray[Any], z: NDArray[Any]) -> NDArray[Any]:
    """``x y + z`` rounded once to the type of the arrays, float64 or float32, else twice; shapes broadcast."""
    if x.dtype not in (np.float64, np.float32):
        return np.asarray(x * y + z)
    with np.errstate(all="ignore"):
        return _rounded_once(*np.broadcast_arrays(*np.atleast_1d(x, y, z))).reshape(np.broadcast(x, y, z).shape)


def fused_number(x: float, y: float, z: float) -> float:
    """The same of three numbers, by whole numbers: twenty times as fast as arrays of one."""
    try:
        (a, p), (b, q), (c, r) = x.as_integer_ratio(), y.as_integer_ratio(), z.as_integer_ratio()
    except (OverflowError, ValueError):  # infinities, NaN
        return z if math.isinf(z) and math.isfinite(x) and math.isfinite(y) else x * y + z
    top = a * b * r + c * p * q
    if not top:
        return x * y + z
    sign = 1.0 if top > 0 else -1.0
    try:
        return math.copysign(top / (p * q * r), sign)
    except OverflowError:
        return math.copysign(math.inf, sign)


def _rounded_once(x: NDArray[Any], y: NDArray[Any], z: NDArray[Any]) -> NDArray[Any]:
    plain = np.where(np.isinf(z) & np.isfinite(x) & np.isfinite(y), z, x * y + z)
    if x.dtype == np.float32:  # the product is exact in float64
        exact = _to_odd(*two_sum(x.astype(float) * y, z.astype(float))).astype(np.float32)
        return np.where(np.isfinite(exact) & np.isfinite(plain), exact, plain)
    is_rounded = np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & (x != 0) & (y != 0)
    if not is_rounded.any():
        return plain
    made = np.where(is_rounded & (z == 0), x * y, plain)
    where = np.nonzero(is_rounded & (z != 0))
    made[where] = _scaled(x[where], y[where], z[where])
    return made


def _scaled(x: NDArray[Any], y: NDArray[Any], z: NDArray[Any]) -> NDArray[Any]:
    """``x y + z`` of numbers that are finite and not zero, computed near 1."""
    (x1, of_x), (y1, of_y), (z1, of_z) = map(np.frexp, (x, y, z))
    exponent = of_x + of_y
    scale = np.maximum(exponent, of_z - FAR)
    z1 = np.ldexp(z1, np.clip(of_z - exponent, -FAR, FAR))
    high = x1 * y1
    sum_high, sum_low = two_sum(z1, product_error(x1, y1, high))
    total, rest = two_sum(high, sum_high)
    made: NDArray[Any] = np.ldexp(total + _to_odd(*two_sum(sum_low, rest)), scale)
    for k in np.flatnonzero(np.abs(made) < LEAST):
        made[k] = fused_number(float(x[k]), float(y[k]), float(z[k]))
    return made


def product_error(x: NDArray[Any], y: NDArray[Any], product: NDArray[Any]) -> NDArray[Any]:
    """What the rounded product of numbers misses."""
    (x1, x2), (y1, y2) = _halves(x), _halves(y)
    error: NDArray[Any] = x2 * y2 - (((product - x1 * y1) - x2 * y1) - x1 * y2)
    return error


def _halves(x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    scaled = SPLIT * x
    high = scaled - (scaled - x)
    return high, x - high


def two_sum(x: NDArray[Any], y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The rounded sum, and what it misses."""
    total = x + y
    of_y = total - x
    return total, (x - (total - of_y)) + (y - of_y)


def _to_odd(total: NDArray[Any], missed: NDArray[Any]) -> NDArray[Any]:
    """A sum cut off, with its last bit set where anything is missed: rounding it again rounds as if it were exact."""
    total = np.ascontiguousarray(total, dtype=float)
    bits = total.view(np.int64)
    is_even = (missed != 0) & np.isfinite(missed) & (bits & 1 == 0)
    away = (missed > 0) == (total > 0)  # the exact sum has the larger magnitude
    return np.where(is_even, bits + np.where(away, 1, -1), bits).view(float)
