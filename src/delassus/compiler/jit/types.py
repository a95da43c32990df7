"""Types of compiled loops: numbers, arrays of them, tuples; what LLVM and NumPy call them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from delassus.compiler.jit.duals import VECTOR
from delassus.frozen import cached_property


@dataclass(frozen=True)
class Number:
    """``int`` (64 bits), ``float`` (64 bits) or ``bool``: in registers ``llvm``, in arrays ``stored``."""

    name: str
    llvm: str
    stored: str
    size: int

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        """By its name in this module: there is one of each."""
        return next(name for name, number in globals().items() if number is self)


BOOL, INT, FLOAT = Number("bool", "i1", "i8", 1), Number("int", "i64", "i64", 8), Number("float", "double", "double", 8)
DUAL = Number("dual", VECTOR, VECTOR, 64)
"""A float and its changes along seven directions, which all that is computed of it has."""
NUMBERS = (BOOL, INT, FLOAT, DUAL)
"""Each widens to those after it."""

SINGLE = Number("float32", "double", "float", 4)
"""In arrays only: items become `FLOAT` where they are read."""

DUALS = np.dtype([("x", np.float64), ("changes", np.float64, (7,))])
"""Of NumPy's arrays of `DUAL`."""
ITEMS = {
    np.dtype(np.bool_): BOOL,
    np.dtype(np.int64): INT,
    np.dtype(np.float64): FLOAT,
    np.dtype(np.float32): SINGLE,
    DUALS: DUAL,
}
DTYPES = {number: dtype for dtype, number in ITEMS.items()}


@dataclass(frozen=True)
class ArrayOf:
    """A C-contiguous array; its values are a pointer and the length of each axis."""

    item: Number
    ndim: int

    def __str__(self) -> str:
        return f"array of {self.item} ({self.ndim}-D)"


@dataclass(frozen=True)
class TupleOf:
    """A tuple, with the names of its items if it is a named one; its values are those of its items."""

    items: tuple[Type, ...]
    names: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        """Without what is kept: texts have other hashes in another process."""
        return TupleOf, (self.items, self.names)

    @cached_property
    def _hash(self) -> int:
        return hash((self.items, self.names))

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """LLVM's types of what values are made of."""
        return tuple(operand for item in self.items for operand in operands_of(item))

    @cached_property
    def parts(self) -> tuple[slice, ...]:
        """Operands of each item among all."""
        ends = list(accumulate((len(operands_of(item)) for item in self.items), initial=0))
        return tuple(map(slice, ends, ends[1:]))

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"


Type = Number | ArrayOf | TupleOf
NOTHING = TupleOf(())
"""Of functions that return None."""


@dataclass(frozen=True)
class Value:
    """An expression's value: its type, and the operands that hold it (`operands_of`)."""

    type: Type
    operands: tuple[str, ...]


def operands_of(type: Type) -> Sequence[str]:
    """LLVM's types of what a value is made of."""
    if isinstance(type, TupleOf):
        return type.operands
    return (type.llvm,) if isinstance(type, Number) else ("ptr", *["i64"] * type.ndim)


def items_of(value: Value) -> list[Value]:
    """Items of a tuple."""
    assert isinstance(value.type, TupleOf)
    return [item_of(value, k) for k in range(len(value.type.items))]


def item_of(value: Value, k: int) -> Value:
    """Item of a tuple."""
    assert isinstance(value.type, TupleOf)
    return Value(value.type.items[k], value.operands[value.type.parts[k]])


def tuple_of(values: list[Value], names: tuple[str, ...] = ()) -> Value:
    """A tuple of these values."""
    return Value(TupleOf(tuple(v.type for v in values), names), tuple(x for v in values for x in v.operands))


def joined(a: Type, b: Type) -> Type:
    """The type that holds values of both; raises `TypeError` if there is none."""
    if a == b:
        return a
    if isinstance(a, Number) and isinstance(b, Number):
        return NUMBERS[max(NUMBERS.index(a), NUMBERS.index(b))]
    if isinstance(a, TupleOf) and isinstance(b, TupleOf) and len(a.items) == len(b.items):
        names = a.names if a.names == b.names else ()
        return TupleOf(tuple(joined(x, y) for x, y in zip(a.items, b.items, strict=True)), names)
    raise TypeError(f"{a} and {b} are different types")


def has_arrays(type: Type) -> bool:
    """Whether it is an array or holds one."""
    return isinstance(type, ArrayOf) or (isinstance(type, TupleOf) and any(map(has_arrays, type.items)))


def type_of(x: Any) -> Type:
    """Type of an object of Python; raises `TypeError` where loops have none for it."""
    if isinstance(x, np.ndarray):
        item = ITEMS.get(x.dtype)
        if item is None or not x.flags.c_contiguous:
            layout = "" if x.flags.c_contiguous else ", not C-contiguous"
            raise TypeError(
                f"arrays of float64, float32, int64, bool and duals, C-contiguous, are compiled for, not {x.dtype}"
                f"{layout}"
            )
        return ArrayOf(item, x.ndim)
    if isinstance(x, (bool, np.bool_)):
        return BOOL
    if isinstance(x, (int, np.integer)):
        return INT
    if isinstance(x, (float, np.floating)):
        return FLOAT
    if isinstance(x, tuple):
        return TupleOf(tuple(map(type_of, x)), tuple(getattr(x, "_fields", ())))
    raise TypeError(f"numbers, arrays and tuples of them are compiled for, not {type(x).__name__}")
