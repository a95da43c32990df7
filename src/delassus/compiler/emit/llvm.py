"""LLVM assembly of a kernel: one-state code, lane code, a batch loop, and an entry that reads NumPy arrays itself.

The functions of the module, for arguments ``a0, a1, …`` and results ``r0, r1, …`` (row-major, state after state):

=====================================  ==========================================================================
``one(a0, …, r0, …)``                  one state, scalars: least latency
``block(a0, …, r0, …)``                as many states as there are lanes; rows are transposed to lanes inside
``batch(n, a0, …, r0, …)``             n states: whole blocks, the last one overlapping the one before it
``call(self, args, nargs)``            one or a few states, straight from Python; see `delassus.runtime.fastcall`
``roll(n, pitch, steps, a0, …)``       of a time step: a rollout; see `delassus.compiler.emit.llvm_roll`
=====================================  ==========================================================================

The operations are in functions ``one_part0``, … and ``block_part0``, … that ``one`` and ``block`` call one by one.
Values that wait in memory (`delassus.compiler.allocate`) are in a workspace. That of a block has the inputs, the
outputs and the slots, all by lanes; one state's has the slots only.
"""

from __future__ import annotations

from functools import partial

from delassus.compiler.allocate import Act, Step, allocate
from delassus.compiler.emit.llvm_operations import Operations
from delassus.compiler.emit.llvm_roll import roll
from delassus.compiler.emit.llvm_rows import load_rows, row, slot, store_rows
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
    declarations: set[str] = set()
    functions: list[str] = []
    functions += _One(program, scalar, 1, registers, has_fma, declarations).assembly()
    if lanes > 1:
        functions += _Block(program, scalar, lanes, registers, has_fma, declarations).assembly()
    functions += [_batch(program, scalar, lanes), python_entry(program, 8 if scalar == "double" else 4)]
    if program.state_results:
        functions.append(roll(program, scalar, lanes, ATTRIBUTES))
    return "\n\n".join([*sorted(declarations), *functions]) + "\n"


def _pointers(program: Program) -> list[str]:
    return [f"%a{i}" for i in range(len(program.arguments))] + [f"%r{i}" for i in range(len(program.results))]


def _signature(program: Program) -> str:
    inputs = [f"ptr noalias readonly %a{i}" for i in range(len(program.arguments))]
    return ", ".join([*inputs, *(f"ptr noalias %r{i}" for i in range(len(program.results)))])


def _define(name: str, signature: str, text: LlvmText, attributes: str = "") -> str:
    body = "\n".join(f"  {line}" for line in text.lines)
    return f"define void @{name}({signature}) {attributes}{ATTRIBUTES} {{\n{body}\n  ret void\n}}"


class _Code:
    """A function from rows to rows and the parts that it calls."""

    name: str

    def __init__(
        self, program: Program, scalar: str, lanes: int, registers: int, has_fma: bool, declarations: set[str]
    ) -> None:
        self.program, self.graph, self.scalar, self.has_fma = program, program.graph, scalar, has_fma
        self.lanes, self.declarations = lanes, declarations
        self.outputs = [int(k) for group in program.graph.outputs for k in group.tolist()]
        self.allocation = allocate(self.graph, self.outputs, registers - SPARE, PART)
        self.inputs = [(i, k) for i, a in enumerate(program.arguments) for k in range(a.size)]

    def text(self) -> LlvmText:
        """An empty function body."""
        return LlvmText(self.lanes, self.scalar)

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
        operations = Operations(text, self.graph, self.has_fma)
        outputs = set(self.outputs)
        for act, k, where in steps:
            if act == Act.COMPUTE:
                value = operations.emit(k)
                if k in outputs:
                    self.write(text, k, value)
            elif act == Act.LOAD:
                address = slot(text, "%w", self.first_slot + where) if where >= 0 else self.home(text, k)
                operations.values[k] = text.instruction(f"load {text.vector}, ptr {address}")
            else:
                address = slot(text, "%w", self.first_slot + where)
                text.lines.append(f"store {text.vector} {operations.values[k]}, ptr {address}")

    first_slot = 0

    def home(self, text: LlvmText, k: int) -> str:
        """Address of an input, or of an output that has been written."""
        raise NotImplementedError

    def write(self, text: LlvmText, k: int, value: str) -> None:
        """Write an output to where it belongs."""
        raise NotImplementedError

    def assembly(self) -> list[str]:
        """All functions."""
        raise NotImplementedError


class _One(_Code):
    name = "one"

    def __init__(
        self, program: Program, scalar: str, lanes: int, registers: int, has_fma: bool, declarations: set[str]
    ) -> None:
        super().__init__(program, scalar, 1, registers, has_fma, declarations)
        self.places: dict[int, list[tuple[int, int]]] = {}
        for r, result in enumerate(program.results):
            for position, entry in enumerate(result.entries):
                self.places.setdefault(self.outputs[entry], []).append((r, position))

    def home(self, text: LlvmText, k: int) -> str:
        if self.graph.op[k] == Op.INPUT:
            i, entry = self.inputs[int(self.graph.a[k])]
            return row(text, f"%a{i}", entry)
        r, position = self.places[k][0]
        return row(text, f"%r{r}", position)

    def write(self, text: LlvmText, k: int, value: str) -> None:
        for r, position in self.places.get(k, ()):
            text.lines.append(f"store {text.scalar} {value}, ptr {row(text, f'%r{r}', position)}")

    def assembly(self) -> list[str]:
        signature = f"{_signature(self.program)}, ptr noalias %w"
        text = self.text()
        text.lines.append(f"%w = alloca {text.scalar}, i64 {max(1, self.allocation.n_slots)}")
        pointers = ", ".join(f"ptr {p}" for p in [*_pointers(self.program), "%w"])
        text.lines += [f"call void @one_part{k}({pointers})" for k in range(len(self.allocation.parts))]
        operations = Operations(text, self.graph, self.has_fma)
        for k in self.places:
            if self.graph.op[k] == Op.INPUT:
                operations.values[k] = text.instruction(f"load {text.scalar}, ptr {self.home(text, k)}")
            if self.graph.op[k] < Op.ADD:
                self.write(text, k, operations.operand(k))
        return [*self.parts(signature), _define("one", _signature(self.program), text)]


class _Block(_Code):
    name = "block"

    def __init__(
        self, program: Program, scalar: str, lanes: int, registers: int, has_fma: bool, declarations: set[str]
    ) -> None:
        super().__init__(program, scalar, lanes, registers, has_fma, declarations)
        self.first_output = len(self.inputs)
        self.place = {k: self.first_output + position for position, k in enumerate(self.outputs)}
        self.first_slot = self.first_output + len(self.outputs)
        self.size = max(1, self.first_slot + self.allocation.n_slots)

    def home(self, text: LlvmText, k: int) -> str:
        return slot(text, "%w", int(self.graph.a[k]) if self.graph.op[k] == Op.INPUT else self.place[k])

    def write(self, text: LlvmText, k: int, value: str) -> None:
        text.lines.append(f"store {text.vector} {value}, ptr {slot(text, '%w', self.place[k])}")

    def assembly(self) -> list[str]:
        rows = f"{_signature(self.program)}, ptr noalias %w"
        text = self.text()
        text.lines.append(f"%w = alloca {text.vector}, i64 {self.size}, align {self.lanes * text.bits // 8}")
        pointers = ", ".join(f"ptr {p}" for p in [*_pointers(self.program), "%w"])
        text.lines.append(f"call void @block_in({pointers})")
        text.lines += [f"call void @block_part{k}(ptr %w)" for k in range(len(self.allocation.parts))]
        text.lines.append(f"call void @block_out({pointers})")
        return [
            _define("block_in", rows, self._rows_in(), "noinline "),
            *self.parts("ptr noalias %w"),
            _define("block_out", rows, self._rows_out(), "noinline "),
            _define("block", _signature(self.program), text),
        ]

    def _rows_in(self) -> LlvmText:
        """Bring the rows of the arguments into the workspace."""
        text = self.text()
        used = set(self.graph.a[self.graph.op == Op.INPUT].tolist())
        start = 0
        for i, argument in enumerate(self.program.arguments):
            wanted = {k - start for k in used if start <= k < start + argument.size}
            targets = {k: slot(text, "%w", start + k) for k in sorted(wanted)}
            load_rows(text, f"%a{i}", argument.size, wanted, targets.__getitem__)
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
        if self.graph.op[k] == Op.CONSTANT:
            return text.constant(float(self.graph.value[k]))
        return text.instruction(f"load {text.vector}, ptr {self.home(text, k)}")


def _rows_at(program: Program, scalar: str, state: str) -> tuple[list[str], str]:
    """Instructions for the addresses of a state's rows, and those addresses as operands."""
    sizes = [a.size for a in program.arguments] + [r.size for r in program.results]
    lines, operands = [], []
    for p, size in zip(_pointers(program), sizes, strict=True):
        name = f"{p}.{state[1:]}"
        lines.append(f"  {name}.at = mul i64 {state}, {size}")
        lines.append(f"  {name} = getelementptr {scalar}, ptr {p}, i64 {name}.at")
        operands.append(f"ptr {name}")
    return lines, ", ".join(operands)


# -- the loop over a batch -----------------------------------------------------------------------------------------


def _batch(program: Program, scalar: str, lanes: int) -> str:
    body = [f"define void @batch(i64 %n, {_signature(program)}) {ATTRIBUTES} {{", "entry:"]
    if lanes > 1:
        rows, operands = _rows_at(program, scalar, "%s")
        body += [
            f"  %few = icmp slt i64 %n, {lanes}",
            "  br i1 %few, label %single, label %whole",
            "whole:",
            f"  %last = sub i64 %n, {lanes}",
            "  br label %blocks",
            "blocks:",
            "  %s = phi i64 [ 0, %whole ], [ %next, %blocks ]",
            *rows,
            f"  call void @block({operands})",
            f"  %further = add i64 %s, {lanes}",
            "  %past = icmp sgt i64 %further, %last",
            "  %next = select i1 %past, i64 %last, i64 %further",
            "  %finished = icmp eq i64 %s, %last",
            "  br i1 %finished, label %end, label %blocks",
            "single:",
        ]
    else:
        body += ["  br label %single", "single:"]
    rows, operands = _rows_at(program, scalar, "%i")
    body += [
        "  %none = icmp sle i64 %n, 0",
        "  br i1 %none, label %end, label %singles",
        "singles:",
        "  %i = phi i64 [ 0, %single ], [ %i.next, %singles ]",
        *rows,
        f"  call void @one({operands})",
        "  %i.next = add i64 %i, 1",
        "  %all = icmp eq i64 %i.next, %n",
        "  br i1 %all, label %end, label %singles",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join(body)
