"""Sine and cosine of all lanes at once: branch-free instructions for scalars and vectors.

They share one reduction ``r = x - k π/2`` with an integer ``k`` and ``|r| ≤ π/4``: π/2 is a sum of constants
of which each product with ``k`` is exact (three constants and fused multiply-adds, or shorter ones without), so that
``r`` has a full mantissa even where ``x`` is the nearest number to a multiple of π/2. The polynomials in ``z = r²`` run
in Horner's order: the fewest instructions, and there is always another joint to fill the latencies.

Coefficients: minimax fits (Remez) of the relative error in arithmetic of 60 digits; each coefficient is rounded in turn
from the lowest order on and the rest fitted again. The reduction is that of Cody and Waite, *Software Manual for the
Elementary Functions*, 1980, ch. 8.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from delassus.spatial.trace.fused import fused, fused_number


class Emitter(Protocol):
    """What emits instructions, or runs them: of numbers of type ``scalar`` and of their ``bits``."""

    scalar: Any
    bits: int
    has_fma: bool

    def constant(self, value: float) -> Any:
        """A number."""

    def integer_constant(self, value: int) -> Any:
        """An integer, modulo two to the number of bits."""

    def binary(self, operation: str, x: Any, y: Any) -> Any:
        """``fadd``, ``fsub``, ``fmul``."""

    def integer_binary(self, operation: str, x: Any, y: Any) -> Any:
        """``add``, ``and``, ``xor``, ``shl``."""

    def integer_compare(self, predicate: str, x: Any, y: Any) -> Any:
        """``ult``, ``ne``."""

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """``x y + z``, rounded once."""

    def select(self, mask: Any, x: Any, y: Any) -> Any:
        """First number where the mask is set, else the second."""

    def to_bits(self, x: Any) -> Any:
        """Bit pattern."""

    def from_bits(self, x: Any) -> Any:
        """Number of a bit pattern."""


_HALF_PI = Fraction(0xC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74, 1 << 191)
"""π/2 to 192 bits."""


def _pieces(widths: tuple[int, ...]) -> tuple[float, ...]:
    """π/2 as a sum of numbers of so many bits, each what those before it leave, cut off.

    All are positive: a negative one times ``k = 0`` would turn ``x = -0.0`` into ``+0.0``.
    """
    rest, pieces = _HALF_PI, []
    for width in widths:
        unit = Fraction(2) ** (math.frexp(float(rest))[1] - width)
        piece = rest // unit * unit
        pieces.append(float(piece))
        rest -= piece
    return tuple(pieces)


@dataclass(frozen=True, slots=True)
class _Format:
    """Numbers that depend on the type of a scalar.

    Attributes
    ----------
    mantissa : int
        Bits of a number after the leading one.
    quarters : int
        Largest multiple of π/2 that is promised: a multiple of 4.
    fused, short : tuples of float
        π/2 in pieces. A short piece times an integer up to `quarters` + 1 is exact, except the last one.
    sine, cosine : tuples of float
        Coefficients of ``sin(r)/r`` and ``cos(r)`` after the leading one, in powers of ``r²``.
    """

    mantissa: int
    quarters: int
    fused: tuple[float, ...]
    short: tuple[float, ...]
    sine: tuple[float, ...]
    cosine: tuple[float, ...]


FORMATS = {
    "double": _Format(
        mantissa=52,
        quarters=1 << 20,
        fused=_pieces((53, 53, 53)),
        short=_pieces((32, 32, 32, 53)),
        sine=(  # relative error 2^-57.9
            -0.1666666666666663,
            0.00833333333332184,
            -0.00019841269829358528,
            2.7557313538514234e-06,
            -2.5050734389257543e-08,
            1.58954332893452e-10,
        ),
        cosine=(  # relative error 2^-53.9; one more would halve the total error, and cost an instruction
            -0.4999999999999941,
            0.041666666666487266,
            -0.0013888888870544059,
            2.4801578632410607e-05,
            -2.7555239690827164e-07,
            2.063047507775753e-09,
        ),
    ),
    "float": _Format(
        mantissa=23,
        quarters=1 << 16,
        fused=_pieces((24, 24, 24)),
        short=_pieces((7, 7, 7, 7, 7, 24)),
        sine=(-0.16666653752326965, 0.008332106284797192, -0.00019507882825564593),  # 2^-27.8
        cosine=(-0.5, 0.04166664555668831, -0.00138873013202101, 2.443075027258601e-05),  # 2^-32.8
    ),
}

LIMIT = {scalar: numbers.quarters * math.pi / 2 for scalar, numbers in FORMATS.items()}
"""Largest argument of `sincos`: 2^20 π/2 ≈ 1.6e6 for double, 2^16 π/2 ≈ 1.0e5 for float."""


def sincos(text: Emitter, x: Any) -> tuple[Any, Any]:
    """Sine and cosine of ``x`` (rad), as operands.

    Double: within 2 ulp up to `LIMIT`. Float: the same, but without FMA up to 100 only, and to 2e-7 beyond. An
    argument above the limit by more than π gives NaN, as infinities and NaN do; ``sin(-0.0)`` is ``-0.0``. Without
    FMA the reduction is longer, of plain operations, and correct on every target.
    """
    numbers = FORMATS[text.scalar]
    # k = x / (π/2) to the nearest integer, as a number and in the low bits of `bits`
    shift = 1.5 * 2.0**numbers.mantissa
    shifted = text.fma(x, text.constant(float(1 / _HALF_PI)), text.constant(shift))
    k = text.binary("fsub", shifted, text.constant(shift))
    bits = text.to_bits(shifted)
    reduced = _reduce_fused(text, x, k, numbers.fused) if text.has_fma else _reduce_short(text, x, k, numbers.short)

    # following = k + 1 + a multiple of 4, and not negative where |k| ≤ quarters + 1; others become NaN
    offset = numbers.quarters + 1 - _bit_pattern(shift, numbers.mantissa)
    following = text.integer_binary("add", bits, text.integer_constant(offset))
    valid = text.integer_compare("ult", following, text.integer_constant(2 * numbers.quarters + 3))
    r = text.select(valid, reduced, text.constant(math.nan))

    z = text.binary("fmul", r, r)
    sine = _odd(text, r, z, numbers.sine)
    cosine = text.fma(z, _horner(text, z, numbers.cosine), text.constant(1.0))

    # odd k: the two change places; bit 1 of k is the sign of the sine, bit 1 of k + 1 that of the cosine
    zero, one = text.integer_constant(0), text.integer_constant(1)
    swapped = text.integer_compare("ne", text.integer_binary("and", bits, one), zero)
    return (
        _flip(text, text.select(swapped, cosine, sine), bits),
        _flip(text, text.select(swapped, sine, cosine), following),
    )


def _reduce_fused(text: Emitter, x: Any, k: Any, pieces: tuple[float, ...]) -> Any:
    """``x - k Σ pieces``: the first step is exact; the second one too, where it cancels."""
    for piece in pieces:
        x = text.fma(k, text.constant(-piece), x)
    return x


def _reduce_short(text: Emitter, x: Any, k: Any, pieces: tuple[float, ...]) -> Any:
    """``x - k Σ pieces`` in plain operations: exact up to the last three pieces, with the next step's error caught."""
    *exact, first, second, third = (text.binary("fmul", k, text.constant(piece)) for piece in pieces)

    def minus(a: Any, b: Any) -> Any:
        return text.binary("fsub", a, b)

    for product in exact:
        x = minus(x, product)
    high = minus(x, first)
    error = minus(minus(x, high), first)
    return minus(minus(high, minus(second, error)), third)


def _horner(text: Emitter, z: Any, coefficients: tuple[float, ...]) -> Any:
    """Polynomial with the given coefficients, lowest order first."""
    value = text.constant(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        value = text.fma(z, value, text.constant(coefficient))
    return value


def _odd(text: Emitter, r: Any, z: Any, coefficients: tuple[float, ...]) -> Any:
    """``r + r z P(z)``. The sum with +0.0 costs nothing when fused, and keeps the sign of ``r = -0.0``."""
    correction = text.fma(z, _horner(text, z, coefficients), text.constant(0.0))
    return text.fma(r, correction, r)


def _flip(text: Emitter, value: Any, quadrant: Any) -> Any:
    """Change the sign where bit 1 of ``quadrant`` is set."""
    moved = text.integer_binary("shl", quadrant, text.integer_constant(text.bits - 2))
    sign = text.integer_binary("and", moved, text.integer_constant(1 << (text.bits - 1)))
    return text.from_bits(text.integer_binary("xor", text.to_bits(value), sign))


def _bit_pattern(shift: float, mantissa: int) -> int:
    """Bits of ``1.5 · 2^mantissa`` as an integer of the type's width."""
    bias = 1023 if mantissa == 52 else 127
    return ((bias + mantissa) << mantissa) + int(shift) - (1 << mantissa)


class ArrayOperations:
    """Runs instructions on arrays of float64 or float32."""

    has_fma = True
    _binary: ClassVar[dict[str, Callable[..., Any]]] = {
        "fadd": np.add, "fsub": np.subtract, "fmul": np.multiply,
        "add": np.add, "and": np.bitwise_and, "xor": np.bitwise_xor, "shl": np.left_shift,
        "ult": np.less, "ne": np.not_equal,
    }  # fmt: skip

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.scalar, self.bits = ("double", 64) if dtype == np.float64 else ("float", 32)
        self._float, self._integer = dtype.type, np.uint64 if self.bits == 64 else np.uint32

    def constant(self, value: float) -> Any:
        """A number."""
        return self._float(value)

    def integer_constant(self, value: int) -> Any:
        """An integer, modulo two to the number of bits."""
        return self._integer(value % (1 << self.bits))

    def binary(self, operation: str, x: Any, y: Any) -> Any:
        """``fadd``, ``fsub``, ``fmul``."""
        return self._binary[operation](x, y)

    integer_binary = integer_compare = binary

    def fma(self, x: Any, y: Any, z: Any) -> Any:
        """``x y + z``, rounded once."""
        return fused(x, y, z)

    def select(self, mask: Any, x: Any, y: Any) -> Any:
        """First number where the mask is set, else the second."""
        return np.where(mask, x, y)

    def to_bits(self, x: Any) -> Any:
        """Bit pattern."""
        return np.ascontiguousarray(x).view(self._integer)

    def from_bits(self, x: Any) -> Any:
        """Number of a bit pattern."""
        return np.ascontiguousarray(x).view(self._float)


class Numbers:
    """Runs instructions on one number of float64."""

    scalar, bits, has_fma = "double", 64, True
    _binary: ClassVar[dict[str, Callable[..., Any]]] = {
        "fadd": operator.add, "fsub": operator.sub, "fmul": operator.mul,
        "add": lambda x, y: (x + y) % (1 << 64), "and": operator.and_, "xor": operator.xor,
        "shl": lambda x, y: (x << y) % (1 << 64), "ult": operator.lt, "ne": operator.ne,
    }  # fmt: skip

    def constant(self, value: float) -> float:
        """A number."""
        return value

    def integer_constant(self, value: int) -> int:
        """An integer, modulo two to the number of bits."""
        return value % (1 << 64)

    def binary(self, operation: str, x: Any, y: Any) -> Any:
        """``fadd``, ``fsub``, ``fmul``."""
        return self._binary[operation](x, y)

    integer_binary = integer_compare = binary

    def fma(self, x: float, y: float, z: float) -> float:
        """``x y + z``, rounded once."""
        return fused_number(x, y, z)

    def select(self, mask: bool, x: float, y: float) -> float:
        """First number where the mask is set, else the second."""
        return x if mask else y

    def to_bits(self, x: float) -> int:
        """Bit pattern."""
        bits: int = struct.unpack("<Q", struct.pack("<d", x))[0]
        return bits

    def from_bits(self, x: int) -> float:
        """Number of a bit pattern."""
        number: float = struct.unpack("<d", struct.pack("<Q", x))[0]
        return number


def sincos_of(x: float) -> tuple[float, float]:
    """Sine and cosine of a number, to the bit those of all targets."""
    return _of_number(x) if x else (x, 1.0)  # zeros of both signs are one key


@lru_cache(maxsize=1024)
def _of_number(x: float) -> tuple[float, float]:
    """The same, kept: traces ask for those of the same numbers again and again."""
    made: tuple[float, float] = sincos(Numbers(), x)
    return made


def sine(x: NDArray[Any]) -> NDArray[Any]:
    """Sines of an array, of float64 and float32 to the bit those of all targets."""
    return _of_array(x, 0) if x.dtype in (np.float64, np.float32) else np.sin(x)


def cosine(x: NDArray[Any]) -> NDArray[Any]:
    """Cosines of an array, of float64 and float32 to the bit those of all targets."""
    return _of_array(x, 1) if x.dtype in (np.float64, np.float32) else np.cos(x)


def _of_array(x: NDArray[Any], which: int) -> NDArray[Any]:
    with np.errstate(all="ignore"):
        made: NDArray[Any] = sincos(ArrayOperations(x.dtype), np.atleast_1d(x))[which].reshape(x.shape)
    return made
