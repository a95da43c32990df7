"""Pieces of C99: identifiers, constants and comments that mean what they should whatever they are made from."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Literal

import numpy as np

Scalar = Literal["double", "float"]

LONGEST = 100
"""Longer identifiers end in a hash of what was cut off: they become file names, which systems bound at 255 bytes."""

WIDTH = 112
"""Characters of a comment line before it is wrapped."""

_KEYWORDS = frozenset(
    """auto break case char const continue default do double else enum extern float for goto if inline int long
    register restrict return short signed sizeof static struct switch typedef union unsigned void volatile
    while asm and and_eq bitand bitor bool catch class compl const_cast delete dynamic_cast explicit export
    false friend mutable namespace new not not_eq operator or or_eq private protected public reinterpret_cast
    static_cast template this throw true try typeid typename using virtual wchar_t xor xor_eq alignas alignof
    char8_t char16_t char32_t concept consteval constexpr constinit co_await co_return co_yield decltype
    noexcept nullptr requires static_assert thread_local main abs size_t ptrdiff_t max_align_t offsetof NULL
    NAN INFINITY HUGE_VAL HUGE_VALF HUGE_VALL FP_NAN FP_INFINITE FP_ZERO FP_SUBNORMAL FP_NORMAL FP_ILOGB0
    FP_ILOGBNAN FP_FAST_FMA FP_FAST_FMAF FP_FAST_FMAL MATH_ERRNO MATH_ERREXCEPT float_t double_t
    math_errhandling signgam fpclassify isfinite isinf isnan isnormal signbit isgreater isgreaterequal isless
    islessequal islessgreater isunordered linux unix""".split()
)
_MATH = frozenset(
    name + suffix
    for name in """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs fdim
    floor fma fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb
    lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round scalb scalbln scalbn sin sincos
    sinh sqrt tan tanh tgamma trunc y0 y1 yn""".split()
    for suffix in ("", "f", "l")
)
_LOCAL = re.compile(r"[tw]\d*|p\d+|[iknrs]|row|ds_.*")
"""Names that the generated functions use themselves."""


def identifier(text: str, taken: Iterable[str] = ()) -> str:
    """C (and C++) identifier that resembles a text, means nothing else in a generated file and is not ``taken``.

    It has at most `LONGEST` characters, but for what sets it apart from others.

    Examples
    --------
    >>> identifier("talos delassus"), identifier("3R arm"), identifier("double"), identifier("sin")
    ('talos_delassus', 'x3R_arm', 'double_', 'sin_')
    """
    name = re.sub(r"_{2,}", "_", re.sub(r"[^0-9A-Za-z]", "_", text)).strip("_") or "x"
    if name[0].isdigit():
        name = f"x{name}"
    if len(name) > LONGEST:
        name = f"{name[: LONGEST - 17]}_{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:16]}"
    avoid = _KEYWORDS | _MATH | set(taken)
    while name in avoid or _LOCAL.fullmatch(name):
        name += "_" if not name.endswith("_") else "1"
    return name


def literal(value: float, scalar: Scalar = "double") -> str:
    """Constant that equals ``value``, rounded to float where that is the type.

    Examples
    --------
    >>> literal(0.1), literal(-2.0), literal(0.1, "float"), literal(float("inf"))
    ('0x1.999999999999ap-4', '-0x1p+1', '0x1.99999ap-4f', 'INFINITY')
    """
    if scalar == "float":
        with np.errstate(all="ignore"):
            value = float(np.float32(value))
    if np.isnan(value):
        return "NAN"
    if np.isinf(value):
        return "INFINITY" if value > 0 else "-INFINITY"
    mantissa, exponent = value.hex().split("p")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}p{exponent}{'f' if scalar == 'float' else ''}"


def comment(lines: Iterable[str]) -> list[str]:
    """Comment of these lines, which nothing in them can end; long ones are wrapped and keep their indentation."""
    out = ["/*"]
    for line in lines:
        shown = "".join(c if c.isprintable() else " " for c in line).rstrip()
        shown = re.sub(r"\*(?=/)|/(?=\*)|\?(?=\?)", r"\g<0> ", shown).rstrip("\\ ")
        indent = " " * (len(shown) - len(shown.lstrip()) + 4)
        while len(shown) > WIDTH and " " in shown[len(indent) : WIDTH]:
            cut = shown.rindex(" ", len(indent), WIDTH)
            out.append(f" * {shown[:cut]}".rstrip())
            shown = indent + shown[cut + 1 :].lstrip()
        if shown.startswith("/"):
            shown = f" {shown}"
        out.append(f" * {shown}".rstrip())
    return [*out, " */"]
