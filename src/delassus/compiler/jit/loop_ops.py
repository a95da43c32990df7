"""Texts on `ScalarOps` as parts of compiled loops: they run once, where the loop is translated, on registers."""

from __future__ import annotations

import ast
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from delassus.compiler.jit.text import Text
from delassus.compiler.jit.types import DUAL, FLOAT, TupleOf, Value, items_of, joined, tuple_of
from delassus.spatial.ops import Scalar, ScalarOps


@dataclass(frozen=True)
class Emitted:
    """A text that takes a backend, then numbers and tuples of them, and makes the like."""

    text: Callable[..., Any]

    def __call__(self, *numbers: float) -> Any:
        """What it is called with in a compiled loop."""
        raise AssertionError("the text is a part of compiled loops")

    def emit(self, loop: Text, arguments: list[Value]) -> Value:
        """Instructions for a call, and its numbers."""
        ops = LoopOps(loop)
        return ops.of(self.text(ops, *map(ops.numbers, arguments)))


def emitted(text: Callable[..., Any]) -> Any:
    """A text ``text(ops, *numbers)`` on `ScalarOps` as what compiled loops call, with numbers and tuples of them."""
    return Emitted(text)


class Register:
    """A number of a loop, with the arithmetic of `Scalar`."""

    def __init__(self, ops: LoopOps, value: Value) -> None:
        self.ops, self.value = ops, value

    def _with(self, op: ast.operator, a: Any, b: Any) -> Register:
        return Register(self.ops, self.ops.loop.arithmetic(op, self.ops.of(a), self.ops.of(b)))

    def __add__(self, other: Any) -> Register:
        return self._with(ast.Add(), self, other)

    def __radd__(self, other: Any) -> Register:
        return self._with(ast.Add(), other, self)

    def __sub__(self, other: Any) -> Register:
        return self._with(ast.Sub(), self, other)

    def __rsub__(self, other: Any) -> Register:
        return self._with(ast.Sub(), other, self)

    def __mul__(self, other: Any) -> Register:
        return self._with(ast.Mult(), self, other)

    def __rmul__(self, other: Any) -> Register:
        return self._with(ast.Mult(), other, self)

    def __truediv__(self, other: Any) -> Register:
        return self._with(ast.Div(), self, other)

    def __rtruediv__(self, other: Any) -> Register:
        return self._with(ast.Div(), other, self)

    def __neg__(self) -> Register:
        return self._with(ast.Sub(), -0.0, self)


class LoopOps(ScalarOps):
    """Instructions of a loop that is translated."""

    def __init__(self, loop: Text) -> None:
        self.loop = loop

    def numbers(self, value: Value) -> Any:
        """A number, or a tuple of them, as texts take it."""
        if isinstance(value.type, TupleOf):
            items = map(self.numbers, items_of(value))
            return namedtuple("Numbers", value.type.names)(*items) if value.type.names else tuple(items)
        return Register(self, self.number(value))

    def of(self, x: Any) -> Value:
        """The value of a number, which may be one of Python, or of a tuple."""
        if isinstance(x, tuple | list):
            return tuple_of([self.of(item) for item in x], tuple(getattr(x, "_fields", ())))
        return x.value if isinstance(x, Register) else self.loop.constant(float(x))

    def number(self, value: Value) -> Value:
        """A number as a float, or with its changes."""
        return value if value.type is DUAL else self.loop.converted(value, FLOAT)

    def _function(self, name: str, *numbers: Any) -> Register:
        return Register(self, self.loop.apply(name, [self.of(x) for x in numbers]))

    def cos(self, x: Scalar) -> Scalar:
        return self._function("cos", x)

    def sin(self, x: Scalar) -> Scalar:
        return self._function("sin", x)

    def sqrt(self, x: Scalar) -> Scalar:
        return self._function("llvm.sqrt.f64", x)

    def length(self, x: Scalar, y: Scalar) -> Scalar:
        return self.sqrt(x * x + y * y)

    def copysign(self, x: Scalar, y: Scalar) -> Scalar:
        return self._function("llvm.copysign.f64", x, y)

    def minimum(self, x: Scalar, y: Scalar) -> Scalar:
        return Register(self, self.loop.extreme(False, [self.of(x), self.of(y)]))

    def maximum(self, x: Scalar, y: Scalar) -> Scalar:
        return Register(self, self.loop.extreme(True, [self.of(x), self.of(y)]))

    def less(self, x: Scalar, y: Scalar) -> Scalar:
        holds = self.loop.compare(ast.Lt(), self.of(x), self.of(y))
        return Register(self, Value(FLOAT, (self.loop.do(f"uitofp i1 {holds} to double"),)))

    def select(self, condition: Scalar, x: Scalar, y: Scalar) -> Scalar:
        a, b = self.number(self.of(x)), self.number(self.of(y))
        kind = joined(a.type, b.type)
        ways = self.loop.converted(a, kind), self.loop.converted(b, kind)
        return Register(self, self.loop.select(self.loop.truth(self.of(condition)), *ways))

    def where(
        self, condition: Scalar, values: Callable[[], Sequence[Scalar]], others: Sequence[Scalar]
    ) -> list[Scalar]:
        loop, places = self.loop, [self.loop.slot("double") for _ in others]
        yes, end = loop.label(), loop.label()
        self._store(others, places)
        loop.branch(loop.truth(self.of(condition)), yes, end)
        self._store(values(), places)
        loop.begin(end)
        return [Register(self, Value(FLOAT, (loop.do(f"load double, ptr {place}"),))) for place in places]

    def _store(self, values: Sequence[Scalar], places: Sequence[str]) -> None:
        for x, place in zip(values, places, strict=True):
            number = self.loop.converted(self.of(x), FLOAT)
            self.loop.lines.append(f"store double {number.operands[0]}, ptr {place}")
