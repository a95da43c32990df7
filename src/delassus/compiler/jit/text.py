"""Assembly of one function under construction: instructions, blocks, variables on the stack, arrays in memory."""

from __future__ import annotations

import ast
import struct
from collections.abc import Callable

from delassus.compiler.jit import duals
from delassus.compiler.jit.types import (
    BOOL,
    DUAL,
    FLOAT,
    INT,
    SINGLE,
    ArrayOf,
    Number,
    TupleOf,
    Type,
    Value,
    items_of,
    joined,
    tuple_of,
)
from delassus.compiler.machine.cpu import host
from delassus.compiler.targets.llvm.text import LlvmText
from delassus.spatial.trace.sincos import sincos

ALIAS = {FLOAT: "!tbaa !1", INT: "!tbaa !2", BOOL: "!tbaa !3", SINGLE: "!tbaa !7", DUAL: "align 8"}
"""Arrays of floats, of integers and of truth values do not overlap; those of duals begin anywhere."""


LOOP = "!llvm.loop !loop"
"""At the end of a loop; `Module` numbers them. Loops of unknown length are not unrolled: it takes long, for nothing."""

OPERATORS = {
    ast.Add: ("fadd", "add nsw"), ast.Sub: ("fsub", "sub nsw"), ast.Mult: ("fmul", "mul nsw"),
    ast.BitAnd: ("", "and"), ast.BitOr: ("", "or"), ast.BitXor: ("", "xor"), ast.LShift: ("", "shl"),
    ast.RShift: ("", "ashr"),
}  # fmt: skip
COMPARISONS = {
    ast.Lt: ("olt", "slt"), ast.LtE: ("ole", "sle"), ast.Gt: ("ogt", "sgt"), ast.GtE: ("oge", "sge"),
    ast.Eq: ("oeq", "eq"), ast.NotEq: ("une", "ne"),
}  # fmt: skip


class Text:
    """Instructions of one function.

    Attributes
    ----------
    slots : list of str
        Stack memory, which LLVM wants at the beginning.
    lines : list of str
    allocates : bool
        Whether it makes arrays, or calls what does: then it has ``%heap``, a list of the memory that was taken.
    checked : bool
        Whether each index is compared with the length of its axis; what is outside is noted in ``@outside``.
    line : int
        Of the source.
    made : int
        How many instructions so far make arrays.
    products : dict of str to (str, str)
        Factors of each product of floats: a sum that takes one is rounded once, where the processor can.
    """

    def __init__(self, checked: bool) -> None:
        self.slots: list[str] = []
        self.lines: list[str] = []
        self.allocates, self.checked, self.line, self.made = False, checked, 0, 0
        self.products: dict[str, tuple[str, str]] = {}
        self._names = 0

    def new(self) -> str:
        """A new name."""
        self._names += 1
        return f"%v{self._names}"

    def do(self, text: str) -> str:
        """Append ``name = text`` and return the name."""
        name = self.new()
        self.lines.append(f"{name} = {text}")
        return name

    def label(self) -> str:
        """A new name for a block."""
        self._names += 1
        return f"b{self._names}"

    def begin(self, label: str) -> None:
        """Go to a block, and on from there."""
        self.lines += [f"br label %{label}", f"{label}:"]

    def leave(self, text: str) -> None:
        """End a block; what follows is not reached."""
        self.lines += [text, f"{self.label()}:"]

    def branch(self, condition: str, yes: str, no: str) -> None:
        """End a block by a condition; the block ``yes`` follows."""
        self.lines += [f"br i1 {condition}, label %{yes}, label %{no}", f"{yes}:"]

    def slot(self, kind: str) -> str:
        """Stack memory for a value."""
        name = self.new()
        self.slots.append(f"{name} = alloca {kind}")
        return name

    # -- numbers -----------------------------------------------------------------------------------------------------

    def constant(self, x: bool | int | float) -> Value:
        """A number of Python."""
        if isinstance(x, bool):
            return Value(BOOL, ("true" if x else "false",))
        if isinstance(x, int):
            return Value(INT, (str(int(x)),))
        return Value(FLOAT, (f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}",))

    def converted(self, value: Value, kind: Type) -> Value:
        """A value as one of a wider type."""
        if value.type == kind:
            return value
        if isinstance(kind, TupleOf):
            both = zip(items_of(value), kind.items, strict=True)
            return tuple_of([self.converted(v, item) for v, item in both], kind.names)
        assert isinstance(kind, Number)
        if kind is DUAL:
            return Value(DUAL, (duals.lifted(self.do, self.converted(value, FLOAT).operands[0]),))
        (x,) = value.operands
        how = "zext" if kind is INT else "sitofp" if value.type is INT else "uitofp"
        assert isinstance(value.type, Number)
        return Value(kind, (self.do(f"{how} {value.type.llvm} {x} to {kind.llvm}"),))

    def truth(self, value: Value) -> str:
        """Whether a number is not zero."""
        (x,) = self.plain(value).operands
        if value.type is BOOL:
            return x
        return self.do(f"icmp ne i64 {x}, 0" if value.type is INT else f"fcmp une double {x}, 0.0")

    def plain(self, value: Value) -> Value:
        """A number without its changes."""
        return Value(FLOAT, (duals.number_of(self.do, value.operands[0]),)) if value.type is DUAL else value

    def select(self, condition: str, a: Value, b: Value) -> Value:
        """``a`` where the condition holds, else ``b``; numbers of one type."""
        assert isinstance(a.type, Number)
        kind = a.type.llvm
        return Value(a.type, (self.do(f"select i1 {condition}, {kind} {a.operands[0]}, {kind} {b.operands[0]}"),))

    # -- arithmetic --------------------------------------------------------------------------------------------------

    def arithmetic(self, op: ast.operator, a: Value, b: Value) -> Value:
        """Sum, product … of two numbers by the rules of Python: ``/`` makes floats, ``//`` and ``%`` take integers."""
        kind = joined(a.type, b.type)
        if not isinstance(kind, Number):
            raise TypeError(f"{type(op).__name__} of {a.type} and {b.type}")
        if isinstance(op, ast.BitAnd) and kind is BOOL:
            return Value(BOOL, (self.do(f"and i1 {a.operands[0]}, {b.operands[0]}"),))
        kind = joined(FLOAT, kind) if isinstance(op, ast.Div) else INT if kind is BOOL else kind
        assert isinstance(kind, Number)
        if kind is DUAL and isinstance(op, ast.Mult) and a.type != b.type:
            one, other = (b, a) if a.type is DUAL else (a, b)
            return Value(DUAL, (duals.scaled(self.do, self.converted(one, FLOAT).operands[0], other.operands[0]),))
        (x,), (y,) = self.converted(a, kind).operands, self.converted(b, kind).operands
        if kind is DUAL and isinstance(op, (ast.Mult, ast.Div)):
            return Value(DUAL, ((duals.product if isinstance(op, ast.Mult) else duals.quotient)(self.do, x, y),))
        if isinstance(op, ast.Div):
            return Value(FLOAT, (self.do(f"fdiv double {x}, {y}"),))
        if isinstance(op, (ast.Mod, ast.FloorDiv)) and kind is INT:
            return self._floored(op, x, y)
        if type(op) not in OPERATORS or (kind in (FLOAT, DUAL) and not OPERATORS[type(op)][0]):
            raise TypeError(f"{type(op).__name__} of {kind}")
        of_floats, of_integers = OPERATORS[type(op)]
        fused = self._fused(op, x, y) if kind is FLOAT and isinstance(op, (ast.Add, ast.Sub)) else ""
        made = fused or self.do(f"{f'{of_integers} i64' if kind is INT else f'{of_floats} {kind.llvm}'} {x}, {y}")
        if kind is FLOAT and isinstance(op, ast.Mult):
            self.products[made] = x, y
        return Value(kind, (made,))

    def _fused(self, op: ast.operator, x: str, y: str) -> str:
        """A sum or difference that takes a product, the first one of two, rounded once; "" if there is none."""
        if not host().has_fma or not {x, y} & self.products.keys():
            return ""
        (a, b), other = (self.products[x], y) if x in self.products else (self.products[y], x)
        if isinstance(op, ast.Sub) and x in self.products:
            other = self.do(f"fneg double {other}")
        elif isinstance(op, ast.Sub):
            a = self.do(f"fneg double {a}")
        return self.do(f"call double @llvm.fma.f64(double {a}, double {b}, double {other})")

    def _floored(self, op: ast.operator, x: str, y: str) -> Value:
        """Quotient or remainder of integers, rounded down."""
        left = self.do(f"srem i64 {x}, {y}")
        signs = [self.do(f"icmp slt i64 {z}, 0") for z in (left, y)]
        some = self.do(f"icmp ne i64 {left}, 0")
        wrong = self.do(f"and i1 {some}, {self.do(f'xor i1 {signs[0]}, {signs[1]}')}")
        if isinstance(op, ast.Mod):
            return Value(INT, (self.do(f"select i1 {wrong}, i64 {self.do(f'add nsw i64 {left}, {y}')}, i64 {left}"),))
        whole = self.do(f"sdiv i64 {x}, {y}")
        return Value(INT, (self.do(f"sub nsw i64 {whole}, {self.do(f'zext i1 {wrong} to i64')}"),))

    def compare(self, op: ast.cmpop, a: Value, b: Value) -> str:
        """Whether a comparison of two numbers holds."""
        a, b = self.plain(a), self.plain(b)
        kind = joined(a.type, b.type)
        if not isinstance(kind, Number) or type(op) not in COMPARISONS:
            raise TypeError(f"{type(op).__name__} of {a.type} and {b.type}")
        kind = INT if kind is BOOL else kind
        (x,), (y,) = self.converted(a, kind).operands, self.converted(b, kind).operands
        of_floats, of_integers = COMPARISONS[type(op)]
        return self.do(f"fcmp {of_floats} double {x}, {y}" if kind is FLOAT else f"icmp {of_integers} i64 {x}, {y}")

    def extreme(self, largest: bool, values: list[Value]) -> Value:
        """The largest or the smallest number."""
        kind = values[0].type
        for value in values:
            kind = joined(kind, value.type)
        best, *others = (self.converted(value, kind) for value in values)
        for other in others:  # the first of those that are equal, and NaN where Python has it
            best = self.select(self.compare(ast.Gt() if largest else ast.Lt(), other, best), other, best)
        return best

    def apply(self, name: str, values: list[Value]) -> Value:
        """A function of numbers by the name that LLVM has for it; the sign of NaN is that of 1.0."""
        if name in ("sin", "cos"):
            return self._trig(name == "sin", values[0])
        if name == "llvm.copysign.f64":
            (y,) = self.converted(self.plain(values[1]), FLOAT).operands
            one, sign = self.constant(1.0), Value(FLOAT, (y,))
            values = [values[0], self.select(self.do(f"fcmp uno double {y}, {y}"), one, sign)]
        if any(value.type is DUAL for value in values):
            operands = [self.converted(value, DUAL).operands[0] for value in values]
            return Value(DUAL, (duals.function(self.do, name, operands),))
        numbers = [f"double {self.converted(value, FLOAT).operands[0]}" for value in values]
        return Value(FLOAT, (self.do(f"call double @{name}({', '.join(numbers)})"),))

    def _trig(self, is_sine: bool, x: Value) -> Value:
        """Sine or cosine."""
        sine, cosine = sincos(_Inline(self), self.converted(self.plain(x), FLOAT).operands[0])
        if x.type is not DUAL:
            return Value(FLOAT, (sine if is_sine else cosine,))
        slope = cosine if is_sine else self.do(f"fneg double {sine}")
        return Value(DUAL, (duals.made(self.do, sine if is_sine else cosine, (slope, x.operands[0])),))

    # -- arrays ------------------------------------------------------------------------------------------------------

    def product(self, lengths: tuple[str, ...] | list[str]) -> str:
        """Product of integers."""
        total = "1"
        for n in lengths:
            total = n if total == "1" else total if n == "1" else self.do(f"mul nsw i64 {total}, {n}")
        return total

    def part(self, array: Value, indices: list[str]) -> Value:
        """Subarray at some first indices; at indices of all axes, an array without axes."""
        assert isinstance(array.type, ArrayOf)
        pointer, *lengths = array.operands
        at = "0"
        for index, length in zip(indices, lengths, strict=False):
            if at != "0":
                at = self.do(f"mul nsw i64 {at}, {length}")
            at = index if at == "0" else self.do(f"add nsw i64 {at}, {index}")
        rest = lengths[len(indices) :]
        if rest:
            at = self.do(f"mul nsw i64 {at}, {self.product(rest)}")
        place = self.do(f"getelementptr inbounds {array.type.item.stored}, ptr {pointer}, i64 {at}")
        if self.checked:
            for index, length in zip(indices, lengths, strict=False):
                inside = self.do(f"icmp ult i64 {index}, {length}")
                before = self.do("load i64, ptr @outside")
                noted = self.do(f"select i1 {inside}, i64 {before}, i64 {self.line}")
                self.lines.append(f"store i64 {noted}, ptr @outside")
                place = self.do(f"select i1 {inside}, ptr {place}, ptr @elsewhere")
        return Value(ArrayOf(array.type.item, len(rest)), (place, *rest))

    def load(self, place: Value) -> Value:
        """The number at a place."""
        assert isinstance(place.type, ArrayOf) and place.type.ndim == 0
        item = place.type.item
        x = self.do(f"load {item.stored}, ptr {place.operands[0]}, {ALIAS[item]}")
        if item is SINGLE:
            return Value(FLOAT, (self.do(f"fpext float {x} to double"),))
        return Value(item, (self.do(f"icmp ne i8 {x}, 0") if item is BOOL else x,))

    def store(self, place: Value, value: Value) -> None:
        """Write a number to a place; floats are not cut to integers."""
        assert isinstance(place.type, ArrayOf)
        item = place.type.item
        widest = FLOAT if item is SINGLE else DUAL if item is DUAL else FLOAT if item is FLOAT else INT
        if not isinstance(value.type, Number) or joined(value.type, widest) != widest:
            raise TypeError(f"{value.type} in an array of {item}")
        if item is BOOL:
            x = self.do(f"zext i1 {self.truth(value)} to i8")
        else:
            (x,) = self.converted(value, FLOAT if item is SINGLE else item).operands
            x = self.do(f"fptrunc double {x} to float") if item is SINGLE else x
        self.lines.append(f"store {item.stored} {x}, ptr {place.operands[0]}, {ALIAS[item]}")

    def make(self, item: Number, lengths: list[str], zero: bool = False) -> Value:
        """Memory for an array, until no variable holds it (see `release`)."""
        self.allocates = True
        self.made += 1
        size = self.do(f"mul nsw i64 {self.product(lengths)}, {item.size}")
        pointer = self.do(f"call ptr @take(ptr %heap, i64 {size})")
        if zero:
            self.lines.append(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {size}, i1 false)")
        return Value(ArrayOf(item, len(lengths)), (pointer, *lengths))

    def release(self, kept: list[str]) -> None:
        """Give back the memory of arrays that the function has made, or got, but for those at some addresses."""
        self.allocates = True
        places = self.slot(f"[{max(len(kept), 1)} x ptr]")
        for k, x in enumerate(kept):
            self.lines.append(f"store ptr {x}, ptr {self.do(f'getelementptr ptr, ptr {places}, i64 {k}')}")
        self.lines.append(f"call void @release(ptr %heap, ptr %mark, ptr {places}, i64 {len(kept)})")

    def each(self, array: Value, item: Callable[[str], Value]) -> None:
        """Set every item of an array to what ``item`` gives for its number."""
        assert isinstance(array.type, ArrayOf)
        count, flat = self.product(array.operands[1:]), ArrayOf(array.type.item, 1)
        at, head, body, end = self.slot("i64"), self.label(), self.label(), self.label()
        self.lines.append(f"store i64 0, ptr {at}")
        self.begin(head)
        k = self.do(f"load i64, ptr {at}")
        self.branch(self.do(f"icmp slt i64 {k}, {count}"), body, end)
        self.store(self.part(Value(flat, (array.operands[0], count)), [k]), item(k))
        self.lines.append(f"store i64 {self.do(f'add nsw i64 {k}, 1')}, ptr {at}")
        self.lines += [f"br label %{head}, {LOOP}", f"{end}:"]


class _Inline(LlvmText):
    """Instructions of numbers that go into a function."""

    def __init__(self, loop: Text) -> None:
        super().__init__(1, "double", host().has_fma)
        self._loop = loop

    def instruction(self, text: str) -> str:
        """Append ``name = text`` and return the name."""
        return self._loop.do(text)
