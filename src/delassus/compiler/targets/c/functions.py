"""Functions of C that generated files define for themselves, so that all targets round alike.

Multiplications fused with additions are those of the processor; where it has none, both are rounded. Compilers may fuse
nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from delassus.compiler.targets.c.text import Scalar, literal
from delassus.spatial.trace.operations import Op
from delassus.spatial.trace.sincos import sincos

HEAD = """
#include <math.h>

#ifdef __FAST_MATH__
#error "Compile without -ffast-math and -Ofast: NaN, infinities and each rounding count."
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#elif defined(_MSC_VER)
#pragma fp_contract(off)
#endif""".strip().splitlines()
"""First lines of a source."""

FMA = """
#if defined({FAST}) || defined(__FMA__) || defined(__aarch64__) || defined(__AVX2__) || defined(_M_ARM64)
#define DS_HAS_FMA
#endif

/* x y + z, rounded once; twice where processors have no such instruction: last digits are others there. */
static {scalar} ds_fma({scalar} x, {scalar} y, {scalar} z)
{{
#ifdef DS_HAS_FMA
    return fma{f}(x, y, z);
#else
    return x * y + z;
#endif
}}"""

KEPT = """
static {scalar} ds_kept({scalar} x)
{{
#if defined(__clang__) || !defined(__GNUC__)
#elif defined(__x86_64__)
    __asm__("" : "+x"(x));
#elif defined(__aarch64__)
    __asm__("" : "+w"(x));
#else
    __asm__("" : "+m"(x));
#endif
    return x;
}}"""
"""GCC 12 takes ``−fma(x, y, z)`` for ``fma(−x, y, −z)``, which is a zero of the other sign where all is zero."""

FUSED = frozenset({Op.FMA, Op.FMS, Op.FNMA})
NEGATED: Mapping[int, tuple[int, ...]] = {Op.NEGATE: (0,), Op.FMS: (2,), Op.FNMA: (0,)}
"""Operands that operations negate: those that are fused go through ``ds_kept``."""

SIMPLE = {
    "ds_min": "y < x || x != x ? y : x",
    "ds_max": "y > x || x != x ? y : x",
    "ds_copysign": "copysign{f}(x, y == y ? y : 1)",
}
"""Expressions of functions of x and y."""

_BITS = """
typedef union {{ {scalar} number; uint{bits}_t bits; }} ds_word;

static uint{bits}_t ds_bits({scalar} x)
{{
    ds_word word;

    word.number = x;
    return word.bits;
}}

static {scalar} ds_number(uint{bits}_t bits)
{{
    ds_word word;

    word.bits = bits;
    return word.number;
}}"""


def definitions(body: list[str], scalar: Scalar) -> Iterator[str]:
    """Lines that define the functions which lines of a source call."""
    used = {name for line in body for name in re.findall(r"\bds_\w+(?=\()", line)}
    f, bits = ("f", 32) if scalar == "float" else ("", 64)
    trig = used & {"ds_sincos", "ds_sin", "ds_cos"}
    if trig:
        yield "#include <stdint.h>"
    if trig or "ds_fma" in used:
        yield from FMA.format(FAST=f"FP_FAST_FMA{f.upper()}", scalar=scalar, f=f).splitlines()
    if "ds_kept" in used:
        yield from KEPT.format(scalar=scalar).splitlines()
    for name, expression in SIMPLE.items():
        if name in used:
            yield from ["", f"static {scalar} {name}({scalar} x, {scalar} y)", "{"]
            yield from [f"    return {expression.format(f=f)};", "}"]
    if trig:
        yield from _BITS.format(scalar=scalar, bits=bits).splitlines()
        yield from [
            "",
            f"static void ds_sincos({scalar} x, {scalar} *sine, {scalar} *cosine)",
            "{",
            "#ifdef DS_HAS_FMA",
        ]
        yield from _Statements(scalar, has_fma=True).of_sincos()
        yield "#else"
        yield from _Statements(scalar, has_fma=False).of_sincos()
        yield from ["#endif", "}"]
    for name in sorted(trig - {"ds_sincos"}):
        kept = {"ds_sin": "sine", "ds_cos": "cosine"}[name]
        yield from ["", f"static {scalar} {name}({scalar} x)", "{", f"    {scalar} sine, cosine;", ""]
        yield from ["    ds_sincos(x, &sine, &cosine);", f"    return {kept};", "}"]


class _Statements:
    """Statements of the function of sines and cosines."""

    def __init__(self, scalar: Scalar, has_fma: bool) -> None:
        self.scalar, self.has_fma, self.bits = scalar, has_fma, 32 if scalar == "float" else 64
        self._lines: list[str] = []

    def of_sincos(self) -> Iterator[str]:
        """The function's body."""
        sine, cosine = sincos(self, "x")
        yield from (f"    {line}" for line in [*self._lines, "", f"*sine = {sine};", f"*cosine = {cosine};"])

    def _named(self, kind: str, expression: str) -> str:
        name = f"t{len(self._lines)}"
        self._lines.append(f"const {kind} {name} = {expression};")
        return name

    def constant(self, value: float) -> str:
        text = literal(value, self.scalar)
        return f"({text})" if text.startswith("-") else text

    def integer_constant(self, value: int) -> str:
        return f"UINT{self.bits}_C({value % (1 << self.bits)})"

    def binary(self, operation: str, x: str, y: str) -> str:
        return self._named(self.scalar, f"{x} {({'fadd': '+', 'fsub': '-', 'fmul': '*'})[operation]} {y}")

    def integer_binary(self, operation: str, x: str, y: str) -> str:
        shown = {"add": "+", "and": "&", "xor": "^", "shl": "<<"}[operation]
        return self._named(f"uint{self.bits}_t", f"{x} {shown} {y}")

    def integer_compare(self, predicate: str, x: str, y: str) -> str:
        return self._named("int", f"{x} {({'ult': '<', 'ne': '!='})[predicate]} {y}")

    def fma(self, x: str, y: str, z: str) -> str:
        return self._named(self.scalar, f"ds_fma({x}, {y}, {z})")

    def select(self, mask: str, x: str, y: str) -> str:
        return self._named(self.scalar, f"{mask} ? {x} : {y}")

    def to_bits(self, x: str) -> str:
        return self._named(f"uint{self.bits}_t", f"ds_bits({x})")

    def from_bits(self, x: str) -> str:
        return self._named(self.scalar, f"ds_number({x})")
