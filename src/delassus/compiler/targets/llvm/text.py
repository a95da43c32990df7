"""LLVM assembly, instruction by instruction, for scalars or for vectors of lanes.

No fast-math flag is ever emitted: what is fused is decided in programs, and all targets round alike.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


def hexadecimal(value: float, scalar: str = "double") -> str:
    """LLVM's exact notation of a floating-point constant (float constants are written as doubles that they equal)."""
    if scalar == "float":
        try:
            value = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:  # rounds to infinity
            value = math.copysign(math.inf, value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def llvm_table(name: str, entries: Sequence[int]) -> str:
    """Global table of whole numbers."""
    shown = ", ".join(f"i32 {x}" for x in entries)
    return f"@{name} = private unnamed_addr constant [{len(entries)} x i32] [{shown}]"


STACK, LINE = 1 << 18, 64
"""Bytes of a workspace that is on the stack, of which threads may have half a megabyte: larger ones are allocated; and
bytes of a cache line, where those begin."""


class LlvmText:
    """Instructions of one function under construction.

    Attributes
    ----------
    lanes : int
        1 for scalars.
    scalar : {"double", "float"}
        Type of one number.
    vector, integer, mask : str
        Types of all lanes: of numbers, of their bit patterns and of the results of comparisons.
    lines : list of str
    declarations : set of str
        Intrinsics that the module must declare.

    Parameters
    ----------
    lanes, scalar
        As above.
    has_fma : bool
        Whether the processor has instructions that multiply and add.
    is_aligned : bool
        Whether vectors lie on boundaries of their size.
    """

    def __init__(self, lanes: int, scalar: str, has_fma: bool = True, is_aligned: bool = True) -> None:
        self.lanes, self.scalar, self.has_fma = lanes, scalar, has_fma
        self.bits = 64 if scalar == "double" else 32
        self._align = "" if is_aligned else f", align {self.bits // 8}"
        types = (scalar, f"i{self.bits}", "i1")
        self.vector, self.integer, self.mask = types if lanes == 1 else (f"<{lanes} x {t}>" for t in types)
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self._names, self._is_allocated = 0, False

    def constant(self, value: float) -> str:
        """The same number in all lanes, as an operand."""
        text = hexadecimal(value, self.scalar)
        return text if self.lanes == 1 else f"splat ({self.scalar} {text})"

    def integer_constant(self, value: int) -> str:
        """The same integer in all lanes, as an operand (two's complement of the type's width)."""
        value = (value + (1 << (self.bits - 1))) % (1 << self.bits) - (1 << (self.bits - 1))
        return str(value) if self.lanes == 1 else f"splat (i{self.bits} {value})"

    def instruction(self, text: str) -> str:
        """Append ``name = text`` and return the name."""
        self._names += 1
        name = f"%{self._names}"
        self.lines.append(f"{name} = {text}")
        return name

    def binary(self, operation: str, x: str, y: str) -> str:
        """``fadd``, ``fsub``, ``fmul``, ``fdiv``."""
        return self.instruction(f"{operation} {self.vector} {x}, {y}")

    def integer_binary(self, operation: str, x: str, y: str) -> str:
        """``add``, ``and``, ``xor``, ``shl`` … on `integer`."""
        return self.instruction(f"{operation} {self.integer} {x}, {y}")

    def negate(self, x: str) -> str:
        """Flip the sign bit."""
        return self.instruction(f"fneg {self.vector} {x}")

    def intrinsic(self, name: str, *operands: str) -> str:
        """Call ``llvm.<name>`` whose operands and result are all of type `vector`."""
        suffix = f"f{self.bits}" if self.lanes == 1 else f"v{self.lanes}f{self.bits}"
        function = f"@llvm.{name}.{suffix}"
        self.declarations.add(f"declare {self.vector} {function}({', '.join([self.vector] * len(operands))})")
        return self.instruction(f"call {self.vector} {function}({', '.join(f'{self.vector} {x}' for x in operands)})")

    def row(self, base: str, k: int | str) -> str:
        """Address of the k-th number behind ``base``."""
        return self.instruction(f"getelementptr {self.scalar}, ptr {base}, i64 {k}")

    def slot(self, base: str, k: int) -> str:
        """Address of the k-th vector behind ``base``."""
        return self.instruction(f"getelementptr {self.vector}, ptr {base}, i64 {k}")

    def load(self, address: str) -> str:
        """The vector at an address."""
        return self.instruction(f"load {self.vector}, ptr {address}{self._align}")

    def splat(self, address: str) -> str:
        """The number at an address in all lanes."""
        number = self.instruction(f"load {self.scalar}, ptr {address}")
        first = self.instruction(f"insertelement {self.vector} poison, {self.scalar} {number}, i64 0")
        zeros = f"<{self.lanes} x i32> zeroinitializer"
        return self.instruction(f"shufflevector {self.vector} {first}, {self.vector} poison, {zeros}")

    def gather(self, addresses: Sequence[str]) -> str:
        """The numbers at these addresses, one a lane."""
        x = "poison"
        for lane, address in enumerate(addresses):
            number = self.instruction(f"load {self.scalar}, ptr {address}")
            x = self.instruction(f"insertelement {self.vector} {x}, {self.scalar} {number}, i64 {lane}")
        return x

    def scatter(self, x: str, addresses: Sequence[str]) -> None:
        """Write the numbers of the lanes to these addresses."""
        for lane, address in enumerate(addresses):
            number = self.instruction(f"extractelement {self.vector} {x}, i64 {lane}")
            self.lines.append(f"store {self.scalar} {number}, ptr {address}")

    def store(self, x: str, address: str) -> None:
        """Write a vector to an address."""
        self.lines.append(f"store {self.vector} {x}, ptr {address}{self._align}")

    def allocate(self, name: str, size: int | str) -> None:
        """Let a name be the address of so many bytes, at a cache line, until `free`."""
        # called by their addresses: llvmlite leaves no room for stubs
        self.declarations |= {"declare ptr @malloc(i64) nonlazybind", "declare void @free(ptr) nonlazybind"}
        self._is_allocated = True
        self.lines += [f"%more = add i64 {size}, {LINE - 1}", "%taken = call ptr @malloc(i64 %more)"]
        behind = self.instruction(f"getelementptr i8, ptr %taken, i64 {LINE - 1}")
        whole = self.instruction(f"and i64 {self.instruction(f'ptrtoint ptr {behind} to i64')}, -{LINE}")
        self.lines.append(f"{name} = inttoptr i64 {whole} to ptr")

    def reserve(self, name: str, vectors: int) -> None:
        """Let a name be the address of so many vectors, until `free`: on the stack if they are few."""
        align = self.lanes * self.bits // 8
        if vectors * align > STACK:
            self.allocate(name, vectors * align)
        else:
            at = f", align {align}" if self.lanes > 1 else ""
            self.lines.append(f"{name} = alloca {self.vector}, i64 {vectors}{at}")

    def free(self) -> None:
        """Give back what has been allocated."""
        if self._is_allocated:
            self.lines.append("call void @free(ptr %taken)")

    @contextmanager
    def loop(self, name: str, count: int | str, step: int = 1) -> Iterator[str]:
        """What is appended meanwhile, for numbers from 0 on below ``count``, a multiple of ``step`` above zero."""
        self.lines += [
            f"br label %{name}.start",
            f"{name}.start:",
            f"br label %{name}",
            f"{name}:",
            f"%{name}.k = phi i64 [ 0, %{name}.start ], [ %{name}.next, %{name} ]",
        ]
        yield f"%{name}.k"
        self.lines += [
            f"%{name}.next = add i64 %{name}.k, {step}",
            f"%{name}.last = icmp eq i64 %{name}.next, {count}",
            f"br i1 %{name}.last, label %{name}.done, label %{name}",
            f"{name}.done:",
        ]

    def entry(self, table: str, k: str, width: int) -> str:
        """Address of the k-th row of a table of so many columns."""
        return self.instruction(f"getelementptr i32, ptr @{table}, i64 {self.instruction(f'mul i64 {k}, {width}')}")

    def behind(self, base: str, row: str, column: int) -> str:
        """Address that is as many bytes behind ``base`` as a row of a table says."""
        place = self.instruction(f"getelementptr i32, ptr {row}, i64 {column}")
        in_bytes = self.instruction(f"zext i32 {self.instruction(f'load i32, ptr {place}')} to i64")
        return self.instruction(f"getelementptr i8, ptr {base}, i64 {in_bytes}")

    def fma(self, x: str, y: str, z: str) -> str:
        """``x y + z`` rounded once, or twice where the processor has no such instruction."""
        if self.has_fma:
            return self.intrinsic("fma", x, y, z)
        return self.binary("fadd", self.binary("fmul", x, y), z)

    def compare(self, predicate: str, x: str, y: str) -> str:
        """``fcmp`` (``olt``, ``ole``, ``oeq``, ``une`` …) → `mask`."""
        return self.instruction(f"fcmp {predicate} {self.vector} {x}, {y}")

    def integer_compare(self, predicate: str, x: str, y: str) -> str:
        """``icmp`` → `mask`."""
        return self.instruction(f"icmp {predicate} {self.integer} {x}, {y}")

    def select(self, mask: str, x: str, y: str) -> str:
        """``x`` where the mask is set, else ``y``."""
        return self.instruction(f"select {self.mask} {mask}, {self.vector} {x}, {self.vector} {y}")

    def to_bits(self, x: str) -> str:
        """Bit pattern."""
        return self.instruction(f"bitcast {self.vector} {x} to {self.integer}")

    def from_bits(self, x: str) -> str:
        """Number of a bit pattern."""
        return self.instruction(f"bitcast {self.integer} {x} to {self.vector}")
