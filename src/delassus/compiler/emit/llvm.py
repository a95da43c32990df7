"""LLVM assembly of a kernel: one-state code, lane code, a batch loop, and an entry that reads NumPy arrays itself.

The functions of the module, for arguments ``a0, a1, …`` and results ``r0, r1, …`` (row-major, state after state):

=====================================  ==========================================================================
``one(a0, …, r0, …)``                  one state, scalars: least latency
``block(a0, …, r0, …)``                as many states as there are lanes; rows are transposed to lanes inside
``batch(n, a0, …, r0, …)``             n states; see `delassus.compiler.emit.llvm_loops`
``roll(n, pitch, steps, a0, …)``       of a time step: a rollout; see there
``call(self, args, nargs)``            one or a few states, straight from Python; see `delassus.runtime.fastcall`
=====================================  ==========================================================================

The operations are in functions ``one_part0``, … and ``block_part0``, … that ``one`` and ``block`` call one by one.
Values that wait in memory (`delassus.compiler.allocate`) are in a workspace. That of a block has the inputs, the
outputs and the slots, all by lanes; one state's has the slots only.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from delassus.compiler.allocate import Act, Allocation, Step, allocate
from delassus.compiler.emit.llvm_loops import batch, pointers, roll, signature
from delassus.compiler.emit.llvm_operations import Operations
from delassus.compiler.emit.llvm_rows import load_rows, store_rows
from delassus.compiler.emit.llvm_text import LlvmText
from delassus.compiler.emit.python_entry import python_entry
from delassus.compiler.program import Program
from delassus.spatial.graph import Op

PART = 1_500
"""Longest part, in operations: compile time of a function grows faster than its length."""

SPARE = 5
"""Registers left to LLVM for what lies between operations (constants, reductions of angles)."""

ATTRIBUTES = '"prefer-vector-width"="512" nounwind'


def llvm_module(program: Program, scalar: str, lanes: int, registers: int, has_fma: bool) -> str:
    """Assembly of all functions for one number type; ``lanes`` of 1 leaves out the lane code."""
    allocation = allocate(program.graph, program.graph.flat_outputs(), registers - SPARE, PART)
    codes: list[_Code] = [_One(program, allocation, scalar, 1, has_fma)]
    if lanes > 1:
        codes.append(_Block(program, allocation, scalar, lanes, has_fma))
    functions = [function for code in codes for function in code.functions()]
    functions += [batch(program, scalar, lanes, ATTRIBUTES), python_entry(program, 8 if scalar == "double" else 4)]
    if program.is_step:
        functions.append(roll(program, scalar, lanes, ATTRIBUTES))
    declarations = set[str]().union(*(code.declarations for code in codes))
    return "\n\n".join([*sorted(declarations), *functions]) + "\n"


def _define(name: str, signature: str, text: LlvmText, attributes: str = "") -> str:
    body = "\n".join(f"  {line}" for line in text.lines)
    return f"define void @{name}({signature}) {attributes}{ATTRIBUTES} {{\n{body}\n  ret void\n}}"


class _Code:
    """A function from rows to rows and the parts that it calls."""

    name: str
    first_slot = 0

    def __init__(self, program: Program, allocation: Allocation, scalar: str, lanes: int, has_fma: bool) -> None:
        self.program, self.allocation = program, allocation
        self.nodes, self.outputs = program.graph.nodes(), program.graph.flat_outputs()
        self.text = partial(LlvmText, lanes, scalar)
        self.operations = partial(Operations, nodes=self.nodes, numbers=program.graph.value.tolist(), has_fma=has_fma)
        self.declarations: set[str] = set()
        self.pointers = ", ".join(f"ptr {p}" for p in [*pointers(program), "%w"])
        self.signature = signature(program)

    def parts(self, signature: str) -> list[str]:
        """The functions of the parts."""
        functions = []
        for number, steps in enumerate(self.allocation.parts):
            text = self.text()
            self._emit(text, steps)
            functions.append(_define(f"{self.name}_part{number}", signature, text, "noinline "))
            self.declarations |= text.declarations
        return functions

    def _emit(self, text: LlvmText, steps: list[Step]) -> None:
        operations, outputs = self.operations(text), set(self.outputs)
        for act, k, where in steps:
            if act == Act.COMPUTE:
                value = operations.emit(k)
                if k in outputs:
                    self.write(text, k, value)
            elif act == Act.LOAD:
                address = text.slot("%w", self.first_slot + where) if where >= 0 else self.home(text, k)
                operations.values[k] = text.load(address)
            else:
                text.store(operations.values[k], text.slot("%w", self.first_slot + where))

    def home(self, text: LlvmText, k: int) -> str:
        """Address of an input, or of an output that has been written."""
        raise NotImplementedError

    def write(self, text: LlvmText, k: int, value: str) -> None:
        """Write an output to where it belongs."""
        raise NotImplementedError

    def functions(self) -> list[str]:
        """Assembly of all functions."""
        raise NotImplementedError


class _One(_Code):
    name = "one"

    def __init__(self, *shared: Any) -> None:
        super().__init__(*shared)
        self.inputs = [(i, k) for i, a in enumerate(self.program.arguments) for k in range(a.size)]
        self.places: dict[int, list[tuple[int, int]]] = {}
        for r, result in enumerate(self.program.results):
            for position, entry in enumerate(result.entries):
                self.places.setdefault(self.outputs[entry], []).append((r, position))

    def home(self, text: LlvmText, k: int) -> str:
        op, index, *_ = self.nodes[k]
        if op == Op.INPUT:
            i, entry = self.inputs[index]
            return text.row(f"%a{i}", entry)
        r, position = self.places[k][0]
        return text.row(f"%r{r}", position)

    def write(self, text: LlvmText, k: int, value: str) -> None:
        for r, position in self.places.get(k, ()):
            text.store(value, text.row(f"%r{r}", position))

    def functions(self) -> list[str]:
        text = self.text()
        text.lines.append(f"%w = alloca {text.scalar}, i64 {max(1, self.allocation.n_slots)}")
        text.lines += [f"call void @one_part{k}({self.pointers})" for k in range(len(self.allocation.parts))]
        operations = self.operations(text)
        for k in self.places:
            op = self.nodes[k][0]
            if op == Op.INPUT:
                operations.values[k] = text.load(self.home(text, k))
            if op < Op.ADD:
                self.write(text, k, operations.operand(k))
        return [*self.parts(f"{self.signature}, ptr noalias %w"), _define("one", self.signature, text)]


class _Block(_Code):
    name = "block"

    def __init__(self, *shared: Any) -> None:
        super().__init__(*shared)
        first_output = sum(a.size for a in self.program.arguments)
        self.place = {k: first_output + position for position, k in enumerate(self.outputs)}
        self.first_slot = first_output + len(self.outputs)

    def home(self, text: LlvmText, k: int) -> str:
        op, index, *_ = self.nodes[k]
        return text.slot("%w", index if op == Op.INPUT else self.place[k])

    def write(self, text: LlvmText, k: int, value: str) -> None:
        text.store(value, text.slot("%w", self.place[k]))

    def functions(self) -> list[str]:
        rows, text = f"{self.signature}, ptr noalias %w", self.text()
        size = max(1, self.first_slot + self.allocation.n_slots)
        text.lines.append(f"%w = alloca {text.vector}, i64 {size}, align {text.lanes * text.bits // 8}")
        text.lines.append(f"call void @block_in({self.pointers})")
        text.lines += [f"call void @block_part{k}(ptr %w)" for k in range(len(self.allocation.parts))]
        text.lines.append(f"call void @block_out({self.pointers})")
        return [
            _define("block_in", rows, self._rows_in(), "noinline "),
            *self.parts("ptr noalias %w"),
            _define("block_out", rows, self._rows_out(), "noinline "),
            _define("block", self.signature, text),
        ]

    def _rows_in(self) -> LlvmText:
        """Bring the rows of the arguments into the workspace."""
        text = self.text()
        used = {index for op, index, *_ in self.nodes if op == Op.INPUT}
        start = 0
        for i, argument in enumerate(self.program.arguments):
            wanted = sorted(k - start for k in used if start <= k < start + argument.size)
            load_rows(text, f"%a{i}", argument.size, {k: text.slot("%w", start + k) for k in wanted})
            start += argument.size
        return text

    def _rows_out(self) -> LlvmText:
        """Take the rows of the results out of the workspace."""
        text = self.text()
        for r, result in enumerate(self.program.results):
            nodes = [self.outputs[entry] for entry in result.entries]
            store_rows(text, f"%r{r}", [partial(self._written, text, k) for k in nodes])
        return text

    def _written(self, text: LlvmText, k: int) -> str:
        is_constant = self.nodes[k][0] == Op.CONSTANT
        return self.operations(text).operand(k) if is_constant else text.load(self.home(text, k))
