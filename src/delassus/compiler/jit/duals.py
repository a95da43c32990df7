"""Numbers with their changes along seven directions: one vector register, the number first.

Loops that are compiled for arrays of these (`delassus.compiler.jit.types.DUAL`) compute the derivatives of what they
compute, in the branches that numbers alone decide. Where a root is zero, its changes are.
"""

from __future__ import annotations

from collections.abc import Callable

VECTOR = "<8 x double>"

Do = Callable[[str], str]
"""Appends an instruction and returns the name of what it makes."""


def lifted(do: Do, x: str) -> str:
    """A number that does not change."""
    return do(f"insertelement {VECTOR} zeroinitializer, double {x}, i64 0")


def number_of(do: Do, x: str) -> str:
    """The number."""
    return do(f"extractelement {VECTOR} {x}, i64 0")


def scaled(do: Do, a: str, x: str) -> str:
    """``a x`` of a number that does not change."""
    one = do(f"insertelement {VECTOR} poison, double {a}, i64 0")
    every = do(f"shufflevector {VECTOR} {one}, {VECTOR} poison, <8 x i32> zeroinitializer")
    return do(f"fmul {VECTOR} {every}, {x}")


def made(do: Do, number: str, *parts: tuple[str, str]) -> str:
    """A number whose changes are sums of slopes times those of others."""
    total = "zeroinitializer"
    for slope, x in parts:
        part = scaled(do, slope, x)
        total = part if total == "zeroinitializer" else do(f"fadd {VECTOR} {total}, {part}")
    return do(f"insertelement {VECTOR} {total}, double {number}, i64 0")


def product(do: Do, x: str, y: str) -> str:
    """``x y``."""
    a, b = number_of(do, x), number_of(do, y)
    return made(do, do(f"fmul double {a}, {b}"), (b, x), (a, y))


def quotient(do: Do, x: str, y: str) -> str:
    """``x / y``."""
    a, b = number_of(do, x), number_of(do, y)
    over, ratio = do(f"fdiv double 1.0, {b}"), do(f"fdiv double {a}, {b}")
    return made(do, ratio, (over, x), (do(f"fneg double {do(f'fmul double {ratio}, {over}')}"), y))


def function(do: Do, name: str, arguments: list[str]) -> str:
    """A function by the name that LLVM has for it; raises `TypeError` for others."""
    numbers = [number_of(do, x) for x in arguments]
    a, b = numbers[0], numbers[-1]

    def call(what: str, *of: str) -> str:
        return do(f"call double @{what}({', '.join(f'double {x}' for x in of)})")

    def over(x: str, y: str) -> str:  # x / y, zero where y is
        some = do(f"fcmp une double {y}, 0.0")
        return do(f"select i1 {some}, double {do(f'fdiv double {x}, {y}')}, double 0.0")

    value = call(name, *numbers)
    if name == "llvm.sqrt.f64":
        return made(do, value, (over("0.5", value), arguments[0]))
    if name == "llvm.fabs.f64":
        return made(do, value, (call("llvm.copysign.f64", "1.0", a), arguments[0]))
    if name == "llvm.copysign.f64":
        slope = do(f"fmul double {call(name, '1.0', a)}, {call(name, '1.0', b)}")
        return made(do, value, (slope, arguments[0]))
    raise TypeError(f"{name} of numbers with changes")
