"""Expressions of compiled loops, from Python's syntax tree to assembly."""

from __future__ import annotations

import ast
import builtins
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Protocol

import numpy as np

from delassus.compiler.jit import duals
from delassus.compiler.jit.loop_ops import Emitted
from delassus.compiler.jit.memory import ACCESSES, STORED
from delassus.compiler.jit.text import Text
from delassus.compiler.jit.types import (
    BOOL,
    DUAL,
    FLOAT,
    INT,
    ITEMS,
    NOTHING,
    ArrayOf,
    Number,
    TupleOf,
    Type,
    Value,
    has_arrays,
    item_of,
    items_of,
    joined,
    operands_of,
    tuple_of,
)

FUNCTIONS = {
    math.sqrt: "llvm.sqrt.f64", np.sqrt: "llvm.sqrt.f64", math.fabs: "llvm.fabs.f64", math.sin: "sin", math.cos: "cos",
    math.copysign: "llvm.copysign.f64",
}  # fmt: skip
"""Functions of numbers, by their names in `Text.apply`. Those of C's library are not among them: they round otherwise
on other machines."""


class CompiledFunction(Protocol):
    """A function that is compiled, and whether it becomes a part of those that call it."""

    function: FunctionType
    is_inlined: bool


@dataclass
class Called:
    """A function made for certain types: its name, its assembly, what it returns, and whether it makes arrays."""

    name: str
    text: str
    result: Type
    allocates: bool


class Expressions(Text):
    """Translates expressions of one function.

    Parameters
    ----------
    function : FunctionType
    call : callable
        What is called for a `CompiledFunction` and types of arguments.
    """

    def __init__(
        self, function: FunctionType, call: Callable[[CompiledFunction, list[Type]], Called], checked: bool
    ) -> None:
        super().__init__(checked)
        self.function, self.called_for = function, call
        self.kinds: dict[str, Type] = {}
        self.places: dict[str, list[str]] = {}
        self.fixed: dict[str, Value] = {}

    def value(self, node: ast.expr) -> Value:
        """Instructions for an expression."""
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            raise TypeError(f"{type(node).__name__} is not compiled")
        found: Value = method(node)
        return found

    def number(self, node: ast.expr, kind: Number | None = None) -> str:
        """Operand of a number, as one of a kind."""
        value = self.value(node)
        if not isinstance(value.type, Number) or (kind is not None and joined(value.type, kind) != kind):
            raise TypeError(f"{value.type} where {kind or 'a number'} is needed")
        return (value if kind is None else self.converted(value, kind)).operands[0]

    # -- names -------------------------------------------------------------------------------------------------------

    def object_of(self, node: ast.expr) -> Any:
        """The object of Python that a name outside the function stands for; None where there is none."""
        if isinstance(node, ast.Name) and node.id not in self.function.__code__.co_varnames:
            scope = self.function.__globals__
            return scope[node.id] if node.id in scope else getattr(builtins, node.id, None)
        if isinstance(node, ast.Attribute):
            return getattr(self.object_of(node.value), node.attr, None)
        return None

    def constant_of(self, x: Any) -> Value:
        """Numbers and tuples of them from outside the function."""
        if isinstance(x, tuple):
            return tuple_of([self.constant_of(item) for item in x], tuple(getattr(x, "_fields", ())))
        if not isinstance(x, (bool, int, float)):
            raise TypeError(f"{x!r} is not a number")
        return self.constant(x)

    def _Constant(self, node: ast.Constant) -> Value:
        return NOTHING_AT_ALL if node.value is None else self.constant_of(node.value)

    def _Name(self, node: ast.Name) -> Value:
        if node.id in self.fixed:
            return self.fixed[node.id]
        if (variable := self._variable(node)) is not None:
            return self._loaded(*variable)
        found = self.object_of(node)
        if found is None:
            raise TypeError(f"{node.id} has no value here")
        return self.constant_of(found)

    def _variable(self, node: ast.expr) -> tuple[Type, list[str]] | None:
        """Type and places of a variable, or of an item of one, by its name, of an item."""
        if isinstance(node, ast.Name) and node.id in self.kinds and node.id not in self.fixed:
            return self.kinds[node.id], self.places[node.id]
        whole = self._variable(node.value) if isinstance(node, ast.Attribute) else None
        if whole is None or not isinstance(node, ast.Attribute):
            return None
        kind, places = whole
        if not isinstance(kind, TupleOf) or node.attr not in kind.names:
            return None
        k = kind.names.index(node.attr)
        return kind.items[k], places[kind.parts[k]]

    def _loaded(self, kind: Type, places: list[str]) -> Value:
        loads = zip(operands_of(kind), places, strict=True)
        return Value(kind, tuple(self.do(f"load {llvm}, ptr {place}") for llvm, place in loads))

    def _Attribute(self, node: ast.Attribute) -> Value:
        if (variable := self._variable(node)) is not None:
            return self._loaded(*variable)
        found = self.object_of(node)
        if found is not None:
            return self.constant_of(found)
        base = self.value(node.value)
        if isinstance(base.type, ArrayOf):
            lengths = [Value(INT, (n,)) for n in base.operands[1:]]
            if node.attr == "shape":
                return tuple_of(lengths)
            if node.attr == "size":
                return Value(INT, (self.product(base.operands[1:]),))
        if isinstance(base.type, TupleOf) and node.attr in base.type.names:
            return item_of(base, base.type.names.index(node.attr))
        raise TypeError(f"{base.type} has no {node.attr}")

    def _Tuple(self, node: ast.Tuple) -> Value:
        return tuple_of([self.value(item) for item in node.elts])

    # -- indices -----------------------------------------------------------------------------------------------------

    def index(self, node: ast.expr, length: str) -> str:
        """Operand of an index; constants below zero count from the end."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return self.do(f"sub nsw i64 {length}, {ast.literal_eval(node.operand)}")
        return self.number(node, INT)

    def place(self, node: ast.Subscript, base: Value | None = None) -> Value:
        """Part of an array that an index stands for."""
        base = self.value(node.value) if base is None else base
        nodes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not isinstance(base.type, ArrayOf) or len(nodes) > base.type.ndim:
            raise TypeError(f"{len(nodes)} indices of {base.type}")
        lengths = base.operands[1:]
        return self.part(base, [self.index(n, length) for n, length in zip(nodes, lengths, strict=False)])

    def _Subscript(self, node: ast.Subscript) -> Value:
        base = self.value(node.value)
        if isinstance(base.type, ArrayOf):
            place = self.place(node, base)
            assert isinstance(place.type, ArrayOf)
            return place if place.type.ndim else self.load(place)
        k = node.slice.value if isinstance(node.slice, ast.Constant) else self.object_of(node.slice)
        if isinstance(k, int):
            return item_of(base, k)
        places, kind = self.spread(base)
        return self.gathered(places, kind, self.number(node.slice, INT))

    def spread(self, value: Value) -> tuple[list[str], Type]:
        """Items of a tuple, which must be of one type, in stack memory: one place for each operand."""
        items = items_of(value)
        kind = items[0].type
        for item in items:
            kind = joined(kind, item.type)
        items = [self.converted(item, kind) for item in items]
        places = []
        for k, llvm in enumerate(operands_of(kind)):
            place = self.slot(f"[{len(items)} x {llvm}]")
            for e, item in enumerate(items):
                at = self.do(f"getelementptr inbounds {llvm}, ptr {place}, i64 {e}")
                self.lines.append(f"store {llvm} {item.operands[k]}, ptr {at}")
            places.append(place)
        return places, kind

    def gathered(self, places: list[str], kind: Type, at: str) -> Value:
        """The item at a place of what `spread` has left."""
        found = []
        for llvm, place in zip(operands_of(kind), places, strict=True):
            item = self.do(f"getelementptr inbounds {llvm}, ptr {place}, i64 {at}")
            found.append(self.do(f"load {llvm}, ptr {item}"))
        return Value(kind, tuple(found))

    # -- arithmetic --------------------------------------------------------------------------------------------------

    def _BinOp(self, node: ast.BinOp) -> Value:
        return self.binary(node.op, self.value(node.left), node.right)

    def binary(self, op: ast.operator, a: Value, right: ast.expr) -> Value:
        """``a op right``; powers are those with small constant integers."""
        if isinstance(op, ast.Pow):
            if not isinstance(right, ast.Constant) or not isinstance(right.value, int) or not 0 < right.value < 9:
                raise TypeError("powers are compiled with constant exponents of 1 to 8")
            product = a
            for _ in range(right.value - 1):
                product = self.arithmetic(ast.Mult(), product, a)
            return product
        if isinstance(a.type, TupleOf) and isinstance(op, ast.Mult) and isinstance(right, ast.Constant):
            return tuple_of(items_of(a) * ast.literal_eval(right))
        return self.arithmetic(op, a, self.value(right))

    def _UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return Value(BOOL, (self.do(f"xor i1 {self.truth(value)}, true"),))
        if not isinstance(node.op, ast.USub) or not isinstance(value.type, Number):
            raise TypeError(f"{type(node.op).__name__} of {value.type}")
        if value.type in (FLOAT, DUAL):
            return Value(value.type, (self.do(f"fneg {value.type.llvm} {value.operands[0]}"),))
        return Value(INT, (self.do(f"sub nsw i64 0, {self.converted(value, INT).operands[0]}"),))

    # -- conditions --------------------------------------------------------------------------------------------------

    def _Compare(self, node: ast.Compare) -> Value:
        values = [self.value(node.left), *map(self.value, node.comparators)]
        found = [self.compare(op, values[k], values[k + 1]) for k, op in enumerate(node.ops)]
        holds = found[0]
        for other in found[1:]:
            holds = self.do(f"and i1 {holds}, {other}")
        return Value(BOOL, (holds,))

    def _BoolOp(self, node: ast.BoolOp) -> Value:
        place, end, stops = self.slot("i1"), self.label(), isinstance(node.op, ast.Or)
        for k, item in enumerate(node.values):
            holds = self.truth(self.value(item))
            self.lines.append(f"store i1 {holds}, ptr {place}")
            if k + 1 < len(node.values):
                more = self.label()
                yes, no = (end, more) if stops else (more, end)
                self.lines += [f"br i1 {holds}, label %{yes}, label %{no}", f"{more}:"]
        self.begin(end)
        return Value(BOOL, (self.do(f"load i1, ptr {place}"),))

    def _IfExp(self, node: ast.IfExp) -> Value:
        yes, no, end = self.label(), self.label(), self.label()
        self.branch(self.truth(self.value(node.test)), yes, no)
        a, at = self.value(node.body), len(self.lines)
        self.lines += [f"br label %{end}", f"{no}:"]
        b = self.value(node.orelse)
        kind = joined(a.type, b.type)
        places = [self.slot(llvm) for llvm in operands_of(kind)]
        self.keep(self.converted(b, kind), places)
        rest, self.lines = self.lines[at:], self.lines[:at]
        self.keep(self.converted(a, kind), places)
        self.lines += rest
        self.begin(end)
        return self._loaded(kind, places)

    def keep(self, value: Value, places: list[str]) -> None:
        """Store a value's operands."""
        for llvm, x, place in zip(operands_of(value.type), value.operands, places, strict=True):
            self.lines.append(f"store {llvm} {x}, ptr {place}")

    # -- calls -------------------------------------------------------------------------------------------------------

    def _Call(self, node: ast.Call) -> Value:
        f = self.object_of(node.func)
        if isinstance(getattr(f, "function", None), FunctionType):
            return self._call(f, node)
        if node.keywords:
            raise TypeError("keywords in calls of what is not compiled")
        if isinstance(f, Emitted):
            return f.emit(self, [self.value(x) for x in node.args])
        name = getattr(f, "__name__", "")
        if f in (np.empty, np.zeros, np.ones, np.full, np.arange, np.copy):
            return self._array(f, node.args)
        if f in FUNCTIONS:
            return self.apply(FUNCTIONS[f], [self.value(x) for x in node.args])
        if f in (min, max):
            return self.extreme(f is max, [self.value(x) for x in node.args])
        if f in (abs, int, float, bool):
            return self._of_one(name, self.value(node.args[0]))
        if f in (np.real, np.isrealobj):  # numbers without changes are real, for those with changes are dual
            value = self.value(node.args[0])
            return self.plain(value) if f is np.real else self.constant(value.type is not DUAL)
        if f in ACCESSES:
            return self._memory(name, node.args)
        if isinstance(f, type) and issubclass(f, tuple) and hasattr(f, "_fields"):
            return tuple_of([self.value(x) for x in node.args], f._fields)
        raise TypeError(f"calls of {ast.unparse(node.func)} are not compiled")

    def _call(self, loop: CompiledFunction, node: ast.Call) -> Value:
        code = loop.function.__code__
        names = code.co_varnames[: code.co_argcount]
        given = dict(zip(names, map(self.value, node.args), strict=False))
        given |= {str(k.arg): self.value(k.value) for k in node.keywords}
        defaults = loop.function.__defaults__ or ()
        for name, default in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            if name not in given:
                given[name] = self.constant_of(default)
        if set(given) != set(names) or len(node.args) > len(names):
            raise TypeError(f"{loop.function.__name__} takes {', '.join(names)}")
        arguments = [given[name] for name in names]
        called = self.called_for(loop, [value.type for value in arguments])
        operands = [
            f"{llvm} {x}"
            for value in arguments
            for llvm, x in zip(operands_of(value.type), value.operands, strict=True)
        ]
        if called.allocates:
            self.allocates = True
            self.made += has_arrays(called.result)
            operands.insert(0, "ptr %heap")
        kinds = operands_of(called.result)
        text = f"call {returned(kinds)} @{called.name}({', '.join(operands)})"
        if not kinds:
            self.lines.append(text)
            return NOTHING_AT_ALL
        result = self.do(text)
        if len(kinds) == 1:
            return Value(called.result, (result,))
        parts = (self.do(f"extractvalue {returned(kinds)} {result}, {k}") for k in range(len(kinds)))
        return Value(called.result, tuple(parts))

    def _array(self, f: Any, arguments: list[ast.expr]) -> Value:
        given = self.value(arguments[0])
        if f is np.copy:
            if not isinstance(given.type, ArrayOf):
                raise TypeError(f"a copy of {given.type}")
            copy = self.make(given.type.item, list(given.operands[1:]))
            flat = Value(ArrayOf(given.type.item, 1), (given.operands[0], self.product(given.operands[1:])))
            self.each(copy, lambda k: self.load(self.part(flat, [k])))
            return copy
        lengths = items_of(given) if isinstance(given.type, TupleOf) else [given]
        if any(n.type is not INT for n in lengths):
            raise TypeError(f"an array of lengths {given.type}")
        sizes = [n.operands[0] for n in lengths]
        if f in (np.empty, np.zeros):
            dtype = self.object_of(arguments[1]) if len(arguments) > 1 else np.float64
            return self.make(ITEMS[np.dtype(dtype)], sizes, zero=f is np.zeros)
        number = self.value(arguments[1]) if f is np.full else self.constant(0 if f is np.arange else 1.0)
        if not isinstance(number.type, Number):
            raise TypeError(f"an array of {number.type}")
        array = self.make(number.type, sizes)
        self.each(array, lambda k: Value(INT, (k,)) if f is np.arange else number)
        return array

    def _of_one(self, name: str, value: Value) -> Value:
        if not isinstance(value.type, Number):
            raise TypeError(f"{name} of {value.type}")
        if name == "bool":
            return Value(BOOL, (self.truth(value),))
        if name == "int":
            value = self.plain(value)
        if name == "float" or (name == "int" and value.type is not FLOAT):
            return self.converted(value, joined(value.type, FLOAT) if name == "float" else INT)
        (x,) = value.operands
        if name == "int":
            return Value(INT, (self.do(f"call i64 @llvm.fptosi.sat.i64.f64(double {x})"),))
        if value.type is DUAL:
            return Value(DUAL, (duals.function(self.do, "llvm.fabs.f64", [x]),))
        if value.type is FLOAT:
            return Value(FLOAT, (self.do(f"call double @llvm.fabs.f64(double {x})"),))
        whole = self.converted(value, INT)
        return self.extreme(True, [whole, Value(INT, (self.do(f"sub nsw i64 0, {whole.operands[0]}"),))])

    def _memory(self, name: str, nodes: list[ast.expr]) -> Value:
        """Functions of `ACCESSES`."""
        first = self.number(nodes[0], INT)
        if name == "reserve":
            return Value(INT, (self.do(f"ptrtoint ptr {self.slot(f'[{first} x i8], align 64')} to i64"),))
        place = self.do(f"inttoptr i64 {first} to ptr")
        if name == "call_at":
            values = [self.value(x) for x in nodes[1:]]
            kinds = [llvm for value in values for llvm in operands_of(value.type)]
            operands = map(" ".join, zip(kinds, (x for value in values for x in value.operands), strict=True))
            return Value(INT, (self.do(f"call i64 {place}({', '.join(operands)})"),))
        if name in ("load", "store"):
            item, given = nodes[1 + (name == "store") :], self.value(nodes[1]) if name == "store" else None
            stored = STORED[np.dtype(self.object_of(item[0]) if item else np.int64)]
            return self._access(place, *stored, given)
        numbers = ", ".join(f"i64 {self.number(x, INT)}" for x in nodes[1:])
        if name == "exchange":
            return Value(INT, (self.do(f"atomicrmw xchg ptr {place}, {numbers} seq_cst"),))
        found = self.do(f"cmpxchg ptr {place}, {numbers} seq_cst seq_cst")
        return Value(BOOL, (self.do(f"extractvalue {{ i64, i1 }} {found}, 1"),))

    def _access(self, place: str, stored: str, read: str, written: str, given: Value | None) -> Value:
        """Number at an address, or ``given`` written there, as it is ``stored``; how it is made wider and narrower."""
        kind = FLOAT if stored in ("double", "float") else INT
        shared = ("atomic ", " acquire, align 8", " release, align 8") if stored == "i64" else ("", "", "")
        if given is None:
            x = self.do(f"load {shared[0]}{stored}, ptr {place}{shared[1]}")
            return Value(kind, (self.do(f"{read} {stored} {x} to {kind.llvm}") if read else x,))
        (x,) = self.converted(given, kind).operands
        x = self.do(f"{written} {kind.llvm} {x} to {stored}") if written else x
        self.lines.append(f"store {shared[0]}{stored} {x}, ptr {place}{shared[2]}")
        return NOTHING_AT_ALL


NOTHING_AT_ALL = Value(NOTHING, ())


def returned(kinds: Sequence[str]) -> str:
    """LLVM's type of what a function returns."""
    return "void" if not kinds else kinds[0] if len(kinds) == 1 else f"{{{', '.join(kinds)}}}"
