"""LLVM assembly of a kernel: one-state code, lane code, a batch loop, and an entry that reads NumPy arrays itself.

The functions of the module, for arguments ``a0, a1, …`` and results ``r0, r1, …`` (row-major, state after state):

=====================================  ==========================================================================
``one(a0, …, r0, …)``                  one state, scalars: least latency
``block(n, a0, …, r0, …)``             from one to two times as many states as there are lanes, all at once
``batch(n, a0, …, r0, …)``             n states; see `delassus.compiler.emit.llvm_loops`
``span(arrays, first, n)``               n states from the first on, with pointers to the arrays in an array
``roll(n, pitch, steps, a0, …)``       of a time step: a rollout; see there
``call(self, args, nargs)``            one or a few states, straight from Python; see `delassus.runtime.fastcall`
``called(self, args, nargs, names)``   the same, as a kernel is called: with ``out=``
``xla(frame)``                         a batch of JAX arrays; see `delassus.runtime.on_jax`
=====================================  ==========================================================================

The operations are in functions ``one_part0``, … and ``block_part0``, … that ``one`` and ``block`` call one by one.
Values that wait in memory (`delassus.compiler.allocate`) are in a workspace, with those that stages of the program set
for others. That of a block also has the inputs and the outputs, all by lanes: ``block_in`` transposes rows to lanes,
``block_out`` lanes to rows.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from delassus.compiler.allocate import Act, Step, allocate
from delassus.compiler.emit.calls import Rows, llvm_table
from delassus.compiler.emit.columns import WIDTH, Columns, side_by_side
from delassus.compiler.emit.llvm_loops import batch, doubtful, pointers, roll, signature, sizes, span
from delassus.compiler.emit.llvm_operations import Operations
from delassus.compiler.emit.llvm_rows import load_rows, loop_over_tiles, store_rows
from delassus.compiler.emit.llvm_text import LlvmText
from delassus.compiler.emit.python_entry import called, python_entry
from delassus.compiler.emit.xla_entry import xla_entry
from delassus.compiler.program import Program, Stage
from delassus.compiler.schedule import overlap
from delassus.spatial.graph import Op

PART = 700
"""Longest part, in operations: compile time of a function grows faster than its length."""

LOOPED = 40
"""Results of at least so many squares of lanes are taken out in a loop."""

AT_ONCE, ROOM = 2, 60_000
"""Blocks that each part is run for before the next part: its code is fetched once for both, and the workspaces of more
would not fit the first-level cache; and vectors that these have on the stack, 64 bytes each, else one block has it."""

REACH, MOST_BASES = 256, 4
"""Vectors of the workspace that instructions reach from a pointer with a distance of one byte, and how many pointers
there are at most; a workspace that needs more has but one."""

SPARE = 5
"""Registers left to LLVM for what lies between operations (constants, reductions of angles)."""

ATTRIBUTES = '"prefer-vector-width"="512" nounwind'


def llvm_module(program: Program, scalar: str, lanes: int, registers: int, has_fma: bool) -> str:
    """Assembly of all functions for one number type; ``lanes`` of 1 leaves out the lane code."""
    sections = [_Section(f"stage{k}_", stage, registers) for k, stage in enumerate(program.before)]
    sections.append(_Section("", Stage(program.graph, ()), registers))
    one = [section.side_by_side(registers) for section in sections]
    codes: list[_Code] = [_One(program, one, scalar, 1, has_fma)]
    if lanes > 1:
        codes.append(_Block(program, sections, scalar, lanes, has_fma))
    functions = [function for code in codes for function in code.functions()]
    if any(r.hidden for r in program.results):
        functions.append(doubtful(scalar, ATTRIBUTES))
    functions += [
        batch(program, scalar, lanes, codes[-1].at_once, ATTRIBUTES),
        span(program, scalar, ATTRIBUTES),
        python_entry(program, 8 if scalar == "double" else 4),
        called(program),
    ]
    functions.append(xla_entry(program, scalar, lanes))
    if program.is_step:
        functions.append(roll(program, scalar, lanes, ATTRIBUTES))
    declarations = set[str]().union(*(code.declarations for code in codes))
    return "\n\n".join([*sorted(declarations), *functions]) + "\n"


def _define(name: str, signature: str, text: LlvmText, attributes: str = "") -> str:
    body = "\n".join(f"  {line}" for line in text.lines)
    return f"define void @{name}({signature}) {attributes}{ATTRIBUTES} {{\n{body}\n  ret void\n}}"


class _Section:
    """A stage of a program, or the last part of it, laid out for so many registers.

    ``targets`` are the numbers of the values that its outputs are, none of the last part, whose outputs are results.
    Those of a loop are kept ``apart`` until the end of a pass, since the pass reads what they replace. ``rows`` say
    where the operands and the results of calls are; ``inputs`` and ``goals`` are their columns of that table, and
    whether an input is of all lanes or the same number in all. ``lanes`` are columns side by side in one-state code.
    """

    def __init__(self, name: str, stage: Stage, registers: int, columns: Columns | None = None) -> None:
        graph = overlap(stage.graph if columns is None else columns.graph, registers - SPARE)
        self.name, self.targets, self.times, self._stage = name, stage.targets, stage.times, stage
        self.rows = Rows(stage) if stage.calls else None
        self.lanes = 1 if columns is None else WIDTH
        if columns is not None:
            self.inputs, self.goals = columns.inputs, columns.outputs
        elif self.rows is not None:
            n = self.rows.n_given
            self.inputs, self.goals = [(k, True) for k in range(n)], [n + k for k in range(len(graph.flat_outputs()))]
        self.nodes, self.numbers, self.outputs = graph.nodes(), graph.value.tolist(), graph.flat_outputs()
        self.allocation = allocate(graph, self.outputs, registers - SPARE, PART)
        self.positions: dict[int, list[int]] = {}
        for position, k in enumerate(self.outputs):
            self.positions.setdefault(k, []).append(position)
        self.apart = stage.is_loop

    def side_by_side(self, registers: int) -> _Section:
        """The same for columns side by side, if it is calls that allow for that."""
        columns = side_by_side(self._stage, self.rows) if self.rows is not None else None
        return self if columns is None else _Section(self.name, self._stage, registers, columns)


class _Code:
    """A function from rows to rows and the parts that it calls.

    The workspace holds values that cross from stage to stage, those that a pass of a loop keeps apart, and slots. It
    begins at ``start``; so many blocks go through the parts ``at_once``.
    """

    name: str
    start = "%w"
    at_once = 1

    def __init__(
        self, program: Program, sections: list[_Section], first: int, size: int, scalar: str, lanes: int, has_fma: bool
    ) -> None:
        """``first``: where in the workspace what crosses begins; ``size``: of what lies between that and the slots."""
        self.program, self.sections, self.last = program, sections, sections[-1]
        self.text = partial(LlvmText, lanes, scalar)
        self.has_fma, self.first, self.bytes_each = has_fma, first, lanes * (8 if scalar == "double" else 4)
        self.first_apart = first + program.n_values
        self.first_output = self.first_apart + max(len(s.targets) if s.apart else 0 for s in sections)
        self.first_slot = self.first_output + size
        self.size = max(1, self.first_slot + max(s.allocation.n_slots * s.lanes for s in sections))
        self.declarations: set[str] = set()
        self._bases: dict[int, str] = {}
        self.pointers = ", ".join(f"ptr {p}" for p in [*pointers(program), "%w"])
        self.signature = signature(program)

    def operations(self, text: LlvmText, section: _Section) -> Operations:
        """Emits operations of a section."""
        return Operations(text, section.nodes, section.numbers, self.has_fma)

    def units(self, signature: str, operands: str) -> tuple[list[str], list[str]]:
        """What is called one after the other, with such operands: names, and functions, those that these call too."""
        names, functions = list[str](), list[str]()
        for section in self.sections:
            shown = signature if section.rows is None else f"{signature}, ptr noalias readonly %row"
            parts = [f"{self.name}_{section.name}part{k}" for k in range(len(section.allocation.parts))]
            for part, steps in zip(parts, section.allocation.parts, strict=True):
                text, self._bases = self.text_of(section), {}
                operations = self._emit(text, section, steps)
                if part == parts[-1] and section is not self.last:
                    self._emit_leaves(text, section, operations)
                functions.append(_define(part, shown, text, "noinline "))
                self.declarations |= text.declarations
            if section.rows is not None:
                places = section.rows.bases + self.first - self.program.n_inputs
                functions.append(llvm_table(f"{self.name}_{section.name}rows", places * self.bytes_each))
            if section.rows is not None or section.apart:
                functions.append(self._repeated(section, parts, signature, operands))
                parts = [f"{self.name}_{section.name}loop"]
            names += parts
        return names, functions

    def _emit(self, text: LlvmText, section: _Section, steps: list[Step]) -> Operations:
        operations = self.operations(text, section)
        for act, k, where in steps:
            if act == Act.COMPUTE:
                value = operations.emit(k)
                if k in section.positions:
                    self.write(text, section, k, value)
            elif act == Act.STORE:
                text.store(operations.values[k], self.slot(text, self.first_slot + where * section.lanes))
            elif where >= 0:
                operations.values[k] = text.load(self.slot(text, self.first_slot + where * section.lanes))
            else:
                operations.values[k] = self._read(text, section, k)
        return operations

    def _read(self, text: LlvmText, section: _Section, k: int) -> str:
        """An input, or an output that has been written."""
        op, index, *_ = section.nodes[k]
        of_all_lanes = op != Op.INPUT or section.rows is None or section.inputs[index][1]
        return (text.load if of_all_lanes else text.splat)(self.home(text, section, k))

    def _emit_leaves(self, text: LlvmText, section: _Section, operations: Operations) -> None:
        """Outputs of a stage that are inputs or constants."""
        for k in section.positions:
            op = section.nodes[k][0]
            if op < Op.ADD:
                if op == Op.INPUT:
                    operations.values[k] = self._read(text, section, k)
                self.write(text, section, k, operations.operand(k))

    def home(self, text: LlvmText, section: _Section, k: int) -> str:
        """Address of an input, or of an output that has been written."""
        op, index, *_ = section.nodes[k]
        if op == Op.INPUT:
            return (
                self.value(text, index)
                if section.rows is None
                else self._of_row(text, section, section.inputs[index][0])
            )
        if section is self.last:
            return self.result(text, k)
        return self._target(text, section, section.positions[k][0])

    def write(self, text: LlvmText, section: _Section, k: int, value: str) -> None:
        """Write an output to where it belongs."""
        if section is self.last:
            self.write_result(text, k, value)
            return
        for position in section.positions[k]:
            text.store(value, self._target(text, section, position))

    def _target(self, text: LlvmText, section: _Section, position: int) -> str:
        if section.apart:
            return self.slot(text, self.first_apart + position)
        if section.rows is not None:
            return self._of_row(text, section, section.goals[position])
        return self.value(text, section.targets[position])

    def _of_row(self, text: LlvmText, section: _Section, column: int) -> str:
        """Address of an operand or result of the row of calls that is at hand."""
        assert section.rows is not None
        base, distance = section.rows.places[column]
        if base not in self._bases:
            place = text.instruction(f"getelementptr i32, ptr %row, i64 {base}")
            distance_in_bytes = text.instruction(f"zext i32 {text.instruction(f'load i32, ptr {place}')} to i64")
            self._bases[base] = text.instruction(f"getelementptr i8, ptr {self.start}, i64 {distance_in_bytes}")
        return self.at(text, self._bases[base], distance)

    def value(self, text: LlvmText, number: int) -> str:
        """Address of an input: of the program, or set by a stage."""
        return self.slot(text, self.first + number - self.program.n_inputs)

    def at(self, text: LlvmText, base: str, k: int) -> str:
        """Address of the k-th value behind ``base``."""
        return text.slot(base, k)

    def slot(self, text: LlvmText, k: int) -> str:
        """Address of the k-th value of the workspace."""
        return self.at(text, "%w", k)

    def text_of(self, section: _Section) -> LlvmText:
        """For the code of a part."""
        return self.text()

    def result(self, text: LlvmText, k: int) -> str:
        """Address of a result that has been written."""
        raise NotImplementedError

    def write_result(self, text: LlvmText, k: int, value: str) -> None:
        """Write a result to where it belongs."""
        raise NotImplementedError

    def _repeated(self, section: _Section, parts: list[str], signature: str, operands: str) -> str:
        """The parts of a section again and again: for each row of calls, or until the last pass or all have stopped."""
        text, rows, name = self.text(), section.rows, f"{self.name}_{section.name}"
        given = operands if rows is None else f"{operands}, ptr %again.row"
        calls = [f"call void @{part}({given})" for part in parts]
        text.lines.append("start:")
        if rows is not None:
            text.lines += rows.llvm_loop("again", f"{name}rows", calls, "start")
            return _define(f"{name}loop", signature, text)
        text.lines += ["br label %again", "again:", "%again.k = phi i64 [ 0, %start ], [ %again.next, %again ]", *calls]
        for position, target in enumerate(section.targets):
            made = text.load(self.slot(text, self.first_apart + position))
            text.store(made, self.value(text, target))
        stopped = text.compare("une", made, text.constant(0.0))
        if text.lanes > 1:
            bits = text.instruction(f"bitcast {text.mask} {stopped} to i{text.lanes}")
            stopped = text.instruction(f"icmp eq i{text.lanes} {bits}, -1")
        text.lines += [
            "%again.next = add i64 %again.k, 1",
            f"%again.last = icmp eq i64 %again.next, {section.times}",
            f"%again.end = or i1 %again.last, {stopped}",
            "br i1 %again.end, label %again.done, label %again",
            "again.done:",
        ]
        return _define(f"{name}loop", signature, text)

    def functions(self) -> list[str]:
        """Assembly of all functions."""
        raise NotImplementedError


class _One(_Code):
    name = "one"

    def __init__(self, program: Program, sections: list[_Section], *shared: Any) -> None:
        super().__init__(program, sections, 0, 0, *shared)
        self.inputs = [(i, k) for i, a in enumerate(self.program.arguments) for k in range(a.size)]
        self.places: dict[int, list[tuple[int, int]]] = {}
        for r, result in enumerate(self.program.results):
            for position, entry in enumerate(result.entries):
                self.places.setdefault(self.last.outputs[entry], []).append((r, position))

    def value(self, text: LlvmText, number: int) -> str:
        """Address of an input: of the program, or set by a stage."""
        if number >= len(self.inputs):
            return super().value(text, number)
        i, entry = self.inputs[number]
        return text.row(f"%a{i}", entry)

    def at(self, text: LlvmText, base: str, k: int) -> str:
        """Address of the k-th value behind ``base``."""
        return text.row(base, k)

    def text_of(self, section: _Section) -> LlvmText:
        """For the code of a part."""
        return self.text() if section.lanes == 1 else LlvmText(section.lanes, self.text().scalar, is_aligned=False)

    def result(self, text: LlvmText, k: int) -> str:
        """Address of a result that has been written."""
        r, position = self.places[k][0]
        return text.row(f"%r{r}", position)

    def write_result(self, text: LlvmText, k: int, value: str) -> None:
        """Write a result to where it belongs."""
        for r, position in self.places.get(k, ()):
            text.store(value, text.row(f"%r{r}", position))

    def functions(self) -> list[str]:
        """Assembly of all functions."""
        text, rows = self.text(), f"{self.signature}, ptr noalias %w"
        names, functions = self.units(rows, self.pointers)
        text.lines.append(f"%w = alloca {text.scalar}, i64 {self.size}")
        text.lines += [f"call void @{name}({self.pointers})" for name in names]
        self._copy_leaves(text)
        return [*functions, _define("one", self.signature, text)]

    def _copy_leaves(self, text: LlvmText) -> None:
        """Results that are constants, arguments or set by stages; of the last, neighbours that stay so at once."""
        operations, kept = self.operations(text, self.last), list[tuple[int, int, int]]()
        for k, places in self.places.items():
            op, index, *_ = self.last.nodes[k]
            if op == Op.INPUT and index >= self.program.n_inputs:
                kept += [(*place, index) for place in places]
            elif op < Op.ADD:
                operations.values[k] = self._read(text, self.last, k) if op == Op.INPUT else operations.operand(k)
                self.write_result(text, k, operations.values[k])
        kept.sort()
        while kept:
            (r, position, index), *_ = kept
            run = [(r, position + k, index + k) for k in range(WIDTH)]
            kind, n = (f"<{WIDTH} x {text.scalar}>", WIDTH) if kept[:WIDTH] == run else (text.scalar, 1)
            align, source, target = f"align {text.bits // 8}", self.value(text, index), text.row(f"%r{r}", position)
            made = text.instruction(f"load {kind}, ptr {source}, {align}")
            text.lines.append(f"store {kind} {made}, ptr {target}, {align}")
            del kept[:n]


class _Block(_Code):
    name, start = "block", "%w0"

    def __init__(self, program: Program, sections: list[_Section], *shared: Any) -> None:
        last = sections[-1]
        computed = [k for k in dict.fromkeys(last.outputs) if last.nodes[k][0] != Op.INPUT]
        super().__init__(program, sections, program.n_inputs, len(computed), *shared)
        self.place = {k: self.first_output + position for position, k in enumerate(computed)}
        n_bases = -(-self.size // REACH)
        is_short = n_bases <= MOST_BASES and all(section.rows is None for section in sections)
        self.bases = [REACH * b + REACH // 2 for b in range(n_bases)] if is_short else [0]
        self.at_once = AT_ONCE if AT_ONCE * self.size <= ROOM else 1
        self.workspace = ", ".join(f"ptr %w{b}" for b in range(len(self.bases)))

    def slot(self, text: LlvmText, k: int) -> str:
        """Address of the k-th value of the workspace."""
        b = min(k // REACH, len(self.bases) - 1)
        return text.slot(f"%w{b}", k - self.bases[b])

    def result(self, text: LlvmText, k: int) -> str:
        """Address of a result that has been written."""
        return self.slot(text, self.place[k])

    def write_result(self, text: LlvmText, k: int, value: str) -> None:
        """Write a result to where it belongs."""
        text.store(value, self.slot(text, self.place[k]))

    def functions(self) -> list[str]:
        """Assembly of all functions."""
        shown = self.workspace if len(self.bases) > 1 else "ptr noalias %w0"
        names, functions = self.units(shown, self.workspace)
        rows = f"{self.signature}, {shown}"
        rows_out, tables = self._rows_out()
        return [
            _define("block_in", rows, self._rows_in(), "noinline "),
            *functions,
            *tables,
            _define("block_out", rows, rows_out, "noinline "),
            self._blocks(names),
        ]

    def _blocks(self, names: list[str]) -> str:
        """``block``: each of these functions for block after block, in workspaces of their own."""
        text, arrays = self.text(), pointers(self.program)
        bytes_each = self.size * self.bytes_each
        text.lines += [
            f"%workspaces = alloca {text.vector}, i64 {self.at_once * self.size}, align {self.bytes_each}",
            f"%rounded = add i64 %n, {text.lanes - 1}",
            f"%count = udiv i64 %rounded, {text.lanes}",
            f"%last = sub i64 %n, {text.lanes}",
            "br label %first",
            "first:",
        ]
        before = "first"
        for name in ["block_in", *names, "block_out"]:
            label, operands = f"over.{name}", ", ".join(f"ptr %{name}.w{b}" for b in range(len(self.bases)))
            text.lines += [
                f"br label %{label}",
                f"{label}:",
                f"%{label}.b = phi i64 [ 0, %{before} ], [ %{label}.next, %{label} ]",
                f"%{label}.at = mul i64 %{label}.b, {bytes_each}",
                f"%{label}.w = getelementptr i8, ptr %workspaces, i64 %{label}.at",
                *(
                    f"%{name}.w{b} = getelementptr i8, ptr %{label}.w, i64 {base * self.bytes_each}"
                    for b, base in enumerate(self.bases)
                ),
            ]
            if name in ("block_in", "block_out"):
                text.lines += [
                    f"%{label}.whole = mul i64 %{label}.b, {text.lanes}",
                    f"%{label}.within = icmp slt i64 %{label}.whole, %last",
                    f"%{label}.s = select i1 %{label}.within, i64 %{label}.whole, i64 %last",
                ]
                for p, size in zip(arrays, sizes(self.program), strict=True):
                    text.lines += [
                        f"{p}.{name}.at = mul i64 %{label}.s, {size}",
                        f"{p}.{name} = getelementptr {text.scalar}, ptr {p}, i64 {p}.{name}.at",
                    ]
                operands = ", ".join([*(f"ptr {p}.{name}" for p in arrays), operands])
            text.lines += [
                f"call void @{name}({operands})",
                f"%{label}.next = add i64 %{label}.b, 1",
                f"%{label}.more = icmp ult i64 %{label}.next, %count",
                f"br i1 %{label}.more, label %{label}, label %{label}.done",
                f"{label}.done:",
            ]
            before = f"{label}.done"
        return _define("block", f"i64 %n, {self.signature}", text)

    def _rows_in(self) -> LlvmText:
        """Bring the rows of the arguments into the workspace."""
        text = self.text()
        used = {index for section in self.sections for op, index, *_ in section.nodes if op == Op.INPUT}
        start = 0
        for i, argument in enumerate(self.program.arguments):
            wanted = sorted(k - start for k in used if start <= k < start + argument.size)
            load_rows(text, f"%a{i}", argument.size, {k: self.slot(text, start + k) for k in wanted})
            start += argument.size
        return text

    def _rows_out(self) -> tuple[LlvmText, list[str]]:
        """Take the rows of the results out of the workspace, in loops where there are many; and tables of the loops."""
        text, tables, constants = self.text(), list[str](), set[int]()
        text.lines.append(f"%w = getelementptr {text.vector}, ptr %w0, i64 {-self.bases[0]}")
        for r, result in enumerate(self.program.results):
            nodes = [self.last.outputs[entry] for entry in result.entries]
            if len(nodes) < LOOPED * text.lanes:
                store_rows(text, f"%r{r}", [partial(self._written, text, k) for k in nodes])
                continue
            for k in {k for k in nodes if self.last.nodes[k][0] == Op.CONSTANT} - constants:
                text.store(text.constant(self.last.numbers[k]), self.slot(text, self.place[k]))
                constants.add(k)
            tables.append(loop_over_tiles(text, f"out{r}", f"%r{r}", [self._slot(k) for k in nodes]))
        return text, tables

    def _slot(self, k: int) -> int:
        """Where a result is in the workspace."""
        op, index, *_ = self.last.nodes[k]
        return self.first + index - self.program.n_inputs if op == Op.INPUT else self.place[k]

    def _written(self, text: LlvmText, k: int) -> str:
        if self.last.nodes[k][0] == Op.CONSTANT:
            return self.operations(text, self.last).operand(k)
        return text.load(self.home(text, self.last, k))
