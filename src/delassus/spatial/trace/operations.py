"""Operations of a graph: what each means on numbers, what it is in each target, and how it is differentiated."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from delassus.spatial.trace.fused import fused
from delassus.spatial.trace.sincos import cosine, sincos_of, sine


class Op(IntEnum):
    """Kind of a node. `LESS` gives 1.0 or 0.0; `SELECT` takes its second operand where its first is not zero.

    The last three are products with sums, rounded once: ``a b + c``, ``a b - c`` and ``c - a b``. Traces have none; a
    pass of programs makes them (`delassus.compiler.passes.fuse`).
    """

    INPUT = 0
    CONSTANT = 1
    ADD = 2
    SUBTRACT = 3
    MULTIPLY = 4
    DIVIDE = 5
    NEGATE = 6
    SQRT = 7
    SIN = 8
    COS = 9
    COPYSIGN = 10
    MIN = 11
    MAX = 12
    LESS = 13
    SELECT = 14
    FMA = 15
    FMS = 16
    FNMA = 17

    __hash__ = int.__hash__  # graphs look operations up by the million


LEAVES = frozenset({Op.INPUT, Op.CONSTANT})
COMMUTATIVE = frozenset({Op.ADD, Op.MULTIPLY})

CHOICE, SUM, PRODUCT, NEGATIVE, CALL = range(5)
"""How tightly an expression of C holds its operands."""


class Operation(NamedTuple):
    """Properties of an operation: meaning, text in each target, derivative, error.

    Attributes
    ----------
    counted : str
        Field of `OperationCount`.
    latency : int
        Cycles until the result can be used.
    is_exact : bool
        Whether it rounds nothing.
    values : function
        Its meaning, on arrays of float64 or float32. A minimum or maximum ignores a NaN, and is the first of two that
        are equal, which zeros of both signs are; a comparison with a NaN is 0.0, and a NaN counts as true. The sign of
        a NaN is that of 1.0; what sign and payload a NaN itself has is left open.
    sizes : function
        What it makes of the sizes of its operands if nothing cancels.
    c, binds, casadi : str, int, str
        Expression of C, with the operands and the suffix ``f`` of functions, and how tightly it holds them; name of
        CasADi's function, where it has one.
    llvm : function or None
        ``llvm(text, *operands)`` emits it; sines and cosines are emitted in pairs.
    partials : tuple of functions
        For each operand ``f(ops, x, y, *operands)``: the node of ``x`` times the derivative of the result ``y`` with
        it, of the branch that is taken; node 0 is zero. Of a zero ``x`` it is zero also where the derivative, of
        quotients of small numbers in float32, is above all numbers.
    """

    counted: str
    latency: int
    is_exact: bool
    values: Callable[..., Any]
    sizes: Callable[..., Any]
    c: str
    binds: int
    casadi: str
    llvm: Callable[..., str] | None
    partials: tuple[Callable[..., int], ...]


def _instruction(name: str) -> Callable[..., str]:
    return lambda text, x, y: text.binary(name, x, y)


def _intrinsic(name: str) -> Callable[..., str]:
    return lambda text, *operands: text.intrinsic(name, *operands)


def _extreme(largest: bool) -> Callable[..., str]:
    """The first of two numbers, but where the second one is beyond it, or the first one is NaN."""

    def emit(text: Any, x: str, y: str) -> str:
        beyond = text.compare("ogt" if largest else "olt", y, x)
        return str(text.select(text.compare("uno", x, x), y, text.select(beyond, y, x)))

    return emit


def _with_sign(text: Any, x: str, y: str) -> str:
    """The magnitude of x with the sign of y, or of 1.0 where that is NaN."""
    signed = text.select(text.compare("uno", y, y), text.constant(1.0), y)
    return str(text.intrinsic("copysign", x, signed))


def _same(_: Any, x: int, *__: int) -> int:
    return x


def _opposite(ops: Any, x: int, *_: int) -> int:
    return int(ops.negate(x))


def _zero(*_: Any) -> int:
    return 0


def _signed(ops: Any, x: int, _: int, a: int, b: int) -> int:
    one = ops.number(1.0)
    return int(ops.multiply(x, ops.multiply(*(ops.operation(Op.COPYSIGN, one, k) for k in (a, b)))))


def _where(ops: Any, condition: int, x: int, holds: bool) -> int:
    """``x`` where the condition holds, or where it does not, and else zero."""
    return int(ops.operation(Op.SELECT, condition, x if holds else 0, 0 if holds else x))


def _if_less(first: bool) -> Callable[..., int]:
    """``x`` where the first operand is the lesser, or where it is not."""
    return lambda ops, x, _, a, b: _where(ops, ops.operation(Op.LESS, a, b), x, first)


def _if_greater(first: bool) -> Callable[..., int]:
    return lambda ops, x, _, a, b: _where(ops, ops.operation(Op.LESS, b, a), x, first)


def _if(holds: bool) -> Callable[..., int]:
    return lambda ops, x, _, condition, *__: _where(ops, condition, x, holds)


_FUSED = (_zero, _zero, _zero)
"""Programs are differentiated before a pass fuses anything."""

# fmt: off
OPERATIONS: Mapping[int, Operation] = MappingProxyType({
    Op.ADD: Operation(
        "add", 3, False, np.add, np.add, "{0} + {1}", SUM, "plus", _instruction("fadd"), (_same, _same)),
    Op.SUBTRACT: Operation(
        "add", 3, False, np.subtract, np.add, "{0} - {1}", SUM, "minus", _instruction("fsub"), (_same, _opposite)),
    Op.MULTIPLY: Operation(
        "mul", 3, False, np.multiply, np.multiply, "{0} * {1}", PRODUCT, "times", _instruction("fmul"),
        (lambda ops, x, y, a, b: ops.multiply(x, b), lambda ops, x, y, a, b: ops.multiply(x, a))),
    Op.DIVIDE: Operation(
        "div", 14, False, np.divide, np.divide, "{0} / {1}", PRODUCT, "rdivide", _instruction("fdiv"),
        (lambda ops, x, y, a, b: ops.divide(x, b),
         lambda ops, x, y, a, b: ops.negate(ops.divide(ops.multiply(x, y), b)))),
    Op.NEGATE: Operation(
        "neg", 3, True, np.negative, np.abs, "-{0}", NEGATIVE, "", lambda text, x: text.negate(x), (_opposite,)),
    Op.SQRT: Operation(
        "sqrt", 18, False, np.sqrt, np.sqrt, "sqrt{f}({0})", CALL, "sqrt", _intrinsic("sqrt"),
        (lambda ops, x, y, a: ops.multiply(x, ops.divide(ops.number(0.5), y)),)),
    Op.SIN: Operation(
        "trig", 40, False, sine, lambda x: np.minimum(x, 1.0), "ds_sin({0})", CALL, "sin", None,
        (lambda ops, x, y, a: ops.multiply(x, ops.operation(Op.COS, a)),)),
    Op.COS: Operation(
        "trig", 40, False, cosine, np.ones_like, "ds_cos({0})", CALL, "cos", None,
        (lambda ops, x, y, a: ops.negate(ops.multiply(x, ops.operation(Op.SIN, a))),)),
    Op.COPYSIGN: Operation(
        "other", 3, True, lambda x, y: np.copysign(x, np.where(np.isnan(y), 1.0, y).astype(x.dtype)), lambda x, _: x,
        "ds_copysign({0}, {1})", CALL, "copysign", _with_sign, (_signed, _zero)),
    Op.MIN: Operation(
        "other", 3, True, lambda a, b: np.where((b < a) | np.isnan(a), b, a), np.fmax, "ds_min({0}, {1})", CALL, "fmin",
        _extreme(False), (_if_less(True), _if_less(False))),
    Op.MAX: Operation(
        "other", 3, True, lambda a, b: np.where((b > a) | np.isnan(a), b, a), np.fmax, "ds_max({0}, {1})", CALL, "fmax",
        _extreme(True), (_if_greater(True), _if_greater(False))),
    Op.LESS: Operation(
        "other", 3, True, lambda a, b: (a < b).astype(a.dtype), lambda x, _: np.ones_like(x),
        "{0} < {1} ? 1.0{f} : 0.0{f}", CHOICE, "lt",
        lambda text, x, y: text.select(text.compare("olt", x, y), text.constant(1.0), text.constant(0.0)),
        (_zero, _zero)),
    Op.SELECT: Operation(
        "other", 3, True, lambda c, a, b: np.where(c != 0, a, b), lambda _, x, y: np.maximum(x, y),
        "{0} != 0.0{f} ? {1} : {2}", CHOICE, "if_else",
        lambda text, x, y, z: text.select(text.compare("une", x, text.constant(0.0)), y, z),
        (_zero, _if(True), _if(False))),
    Op.FMA: Operation(
        "fma", 4, False, fused, fused, "ds_fma({0}, {1}, {2})", CALL, "",
        lambda text, x, y, z: text.fma(x, y, z), _FUSED),
    Op.FMS: Operation(
        "fma", 4, False, lambda a, b, c: fused(a, b, -c), fused, "ds_fma({0}, {1}, -({2}))", CALL, "",
        lambda text, x, y, z: text.fma(x, y, text.negate(z)), _FUSED),
    Op.FNMA: Operation(
        "fma", 4, False, lambda a, b, c: fused(-a, b, c), fused, "ds_fma(-({0}), {1}, {2})", CALL, "",
        lambda text, x, y, z: text.fma(text.negate(x), y, z), _FUSED),
})
# fmt: on
"""All operations; nodes of other kinds are leaves."""

_ARITY = [len(OPERATIONS[op].partials) if op in OPERATIONS else 0 for op in Op]


def arity(op: int) -> int:
    """Number of operands."""
    return _ARITY[op]


def _or_library(own: float, function: Callable[[float], float], x: float) -> float:
    """A sine or cosine; by the library beyond the angles of ours, as structure is judged by numbers of any size."""
    return function(x) if math.isnan(own) else own


NUMBERS: Mapping[int, Callable[..., float]] = MappingProxyType(
    {
        Op.ADD: operator.add,
        Op.SUBTRACT: operator.sub,
        Op.MULTIPLY: operator.mul,
        Op.DIVIDE: operator.truediv,
        Op.NEGATE: operator.neg,
        Op.SQRT: math.sqrt,
        Op.SIN: lambda x: _or_library(sincos_of(x)[0], math.sin, x),
        Op.COS: lambda x: _or_library(sincos_of(x)[1], math.cos, x),
        Op.COPYSIGN: lambda x, y: math.copysign(x, 1.0 if math.isnan(y) else y),
        Op.MIN: lambda x, y: y if y < x or math.isnan(x) else x,
        Op.MAX: lambda x, y: y if y > x or math.isnan(x) else x,
        Op.LESS: lambda x, y: float(x < y),
        Op.SELECT: lambda condition, x, y: x if condition else y,
        Op.FMA: lambda x, y, z: x * y + z,
        Op.FMS: lambda x, y, z: x * y - z,
        Op.FNMA: lambda x, y, z: z - x * y,
    }
)
"""What operations give of known numbers, or of symbols; products of sums are rounded twice."""

DIGITS = 24
"""Binary digits of numbers that are meant as they are, such as 0.375 and 2 but not 0.3: those of float32."""


ABOUT: Mapping[int, Callable[..., float]] = MappingProxyType({**NUMBERS, Op.SIN: math.sin, Op.COS: math.cos})
"""The same but for the last bit, a hundred times as fast: what no program holds, values that structure is judged by."""


def value_of(
    op: int, at: Sequence[float], a: int, b: int, c: int, numbers: Mapping[int, Callable[..., float]] = NUMBERS
) -> float:
    """What an operation of nodes with the values ``at`` gives, NaN if nothing."""
    try:
        if b < 0:
            return numbers[op](at[a])
        return numbers[op](at[a], at[b]) if c < 0 else numbers[op](at[a], at[b], at[c])
    except (ArithmeticError, ValueError):  # division by zero, overflow, root of a negative number
        return math.nan


def has_few_digits(x: float) -> bool:
    """Whether a number has at most `DIGITS` of them."""
    return math.ldexp(math.frexp(x)[0], DIGITS).is_integer()
