"""LLVM assembly of the operations of a program: functions that are called one by one, of a bounded length each."""

from __future__ import annotations

from functools import partial
from itertools import accumulate, groupby, pairwise

from delassus.compiler.passes.allocate import Act, Step, allocate
from delassus.compiler.passes.schedule import overlap
from delassus.compiler.program.batched_calls import CallRows, as_scalars, as_vectors
from delassus.compiler.program.program import Program, Stage
from delassus.compiler.targets.llvm.loops import pointers, signature
from delassus.compiler.targets.llvm.operations import Operations
from delassus.compiler.targets.llvm.text import LlvmText, llvm_table
from delassus.spatial.trace.operations import Op

PART = 700
"""Longest part, in operations: compile time of a function grows faster than its length."""

SPARE = 5
"""Registers left to LLVM for what lies between operations (constants, reductions of angles)."""

ATTRIBUTES = '"prefer-vector-width"="512" nounwind'


def define(name: str, signature: str, text: LlvmText, attributes: str = "") -> str:
    """Assembly of a function that returns nothing."""
    body = "\n".join(f"  {line}" for line in text.lines)
    return f"define void @{name}({signature}) {attributes}{ATTRIBUTES} {{\n{body}\n  ret void\n}}"


class Section:
    """A stage of a program, or the last part of it, laid out for so many registers.

    ``targets`` are the numbers of the values that its outputs are, none of the last part, whose outputs are results.
    Those of a loop are kept ``apart`` until the end of a pass, since the pass reads what they replace. ``rows`` say
    where the operands and the results of calls are; ``inputs`` and ``goals`` are their columns of that table. ``lanes``
    are numbers of one state side by side, in the body of calls of one-state code (`SimdBody`).
    ``unless`` is that of `Stage`.
    """

    def __init__(self, name: str, stage: Stage, registers: int, is_one_state: bool, length: int = PART) -> None:
        self.name, self.targets, self.times, self.apart = name, stage.targets, stage.times, stage.is_loop
        self.unless = stage.unless
        self.rows: CallRows | None = None
        self.lanes, graph = 1, stage.graph
        if stage.calls:
            self.rows, body = (as_vectors if is_one_state else as_scalars)(stage)
            graph, self.lanes, self.inputs, self.goals = body.graph, body.lanes, body.inputs, body.outputs
        graph = overlap(graph, registers - SPARE)
        self.nodes, self.numbers, self.outputs = graph.nodes(), graph.value.tolist(), graph.flat_outputs()
        self.allocation = allocate(graph, self.outputs, registers - SPARE, length)
        self.positions: dict[int, list[int]] = {}
        for position, k in enumerate(self.outputs):
            self.positions.setdefault(k, []).append(position)

    def angle(self, k: int) -> int | None:
        """Number of the input whose sine or cosine a node is; None for others."""
        op, x, *_ = self.nodes[k]
        is_known = op in (Op.SIN, Op.COS) and self.rows is None and self.nodes[x][0] == Op.INPUT
        return self.nodes[x][1] if is_known else None


class RowCode:
    """A function from rows to rows and the parts that it calls.

    The workspace holds values that cross from stage to stage, those that a pass of a loop keeps apart, and slots. It
    begins at ``start``; so many blocks go through the parts ``at_once``. Parts of calls are given a row of a table, by
    the name ``row_given``.
    """

    name: str
    start, row_given = "%w", "%row"
    at_once = 1

    def __init__(
        self, program: Program, sections: list[Section], first: int, size: int, scalar: str, lanes: int, has_fma: bool
    ) -> None:
        """``first``: where in the workspace what crosses begins; ``size``: of what lies between that and the slots."""
        self.program, self.sections, self.last = program, sections, sections[-1]
        self._text = partial(LlvmText, lanes, scalar, has_fma)
        self.first, self.bytes_each = first, lanes * (8 if scalar == "double" else 4)
        self.n_inputs = program.n_inputs
        self.first_apart = first + program.n_values
        self.first_output = self.first_apart + max(len(s.targets) if s.apart else 0 for s in sections)
        self.first_slot = self.first_output + size
        self.size = max(1, self.first_slot + max(s.allocation.n_slots * s.lanes for s in sections))
        self.declarations: set[str] = set()
        self._bases: dict[int, str] = {}
        self.pointers = ", ".join(f"ptr {p}" for p in [*pointers(program), "%w"])
        self.signature = signature(program)

    def text(self) -> LlvmText:
        """For the code of a function that is given the workspace."""
        return self._text()

    def operations(self, text: LlvmText, section: Section) -> Operations:
        """Emits operations of a section."""
        return Operations(text, section.nodes, section.numbers)

    def units(self, signature: str, operands: str) -> tuple[list[str], list[str]]:
        """What is called one after the other, with such operands: names, and functions, those that these call too."""
        names, functions = list[str](), list[str]()
        for flag, sections in groupby(self.sections, key=lambda section: section.unless):
            called = [name for section in sections for name in self._called(section, signature, operands, functions)]
            if flag is not None:
                skipped = f"{self.name}_pass{len(functions)}"
                functions.append(self._skipped(skipped, called, flag, signature, operands))
                called = [skipped]
            names += called
        return names, functions

    def _called(self, section: Section, signature: str, operands: str, functions: list[str]) -> list[str]:
        """What is called of a section, added to functions."""
        shown = signature if section.rows is None else f"{signature}, ptr noalias readonly {self.row_given}"
        parts = [f"{self.name}_{section.name}part{k}" for k in range(len(section.allocation.parts))]
        for part, steps in zip(parts, section.allocation.parts, strict=True):
            text, self._bases = self.text_of(section), {}
            operations = self._emit(text, section, steps)
            if part == parts[-1] and section is not self.last:
                self._emit_leaves(text, section, operations)
            functions.append(define(part, shown, text, "noinline "))
            self.declarations |= text.declarations
        if section.rows is not None:
            places = (section.rows.bases.ravel() + self.first - self.program.n_inputs) * self.bytes_each
            functions.append(llvm_table(f"{self.name}_{section.name}rows", places.tolist()))
        if section.rows is not None or section.apart:
            functions.append(self._repeated(section, parts, self.after_row(section, functions), signature, operands))
            parts = [f"{self.name}_{section.name}loop"]
        return parts

    def _emit(self, text: LlvmText, section: Section, steps: list[Step]) -> Operations:
        operations = self.operations(text, section)
        for act, k, where in steps:
            if act == Act.COMPUTE:
                value = self.compute(text, section, operations, k)
                if k in section.positions:
                    self.write(text, section, k, value)
            elif act == Act.STORE:
                text.store(operations.values[k], self.slot(text, self.first_slot + where * section.lanes))
            elif where >= 0:
                operations.values[k] = text.load(self.slot(text, self.first_slot + where * section.lanes))
            else:
                operations.values[k] = self.read(text, section, k)
        return operations

    def compute(self, text: LlvmText, section: Section, operations: Operations, k: int) -> str:
        """Operand for a node that is no leaf."""
        return operations.emit(k)

    def read(self, text: LlvmText, section: Section, k: int) -> str:
        """An input, or an output that has been written."""
        if section.rows is None:
            return text.load(self.home(text, section, k))
        op, index, *_ = section.nodes[k]
        columns = section.inputs[index] if op == Op.INPUT else section.goals[section.positions[k][0]]
        places = self._of_row(text, section, columns)
        if len(columns) < section.lanes:
            return text.splat(places[0])
        return text.load(places[0]) if len(places) == 1 else text.gather(places)

    def _emit_leaves(self, text: LlvmText, section: Section, operations: Operations) -> None:
        """Outputs of a stage that are inputs or constants."""
        for k in section.positions:
            op = section.nodes[k][0]
            if op < Op.ADD:
                if op == Op.INPUT:
                    operations.values[k] = self.read(text, section, k)
                self.write(text, section, k, operations.operand(k))

    def home(self, text: LlvmText, section: Section, k: int) -> str:
        """Address of an input, or of an output that has been written."""
        op, index, *_ = section.nodes[k]
        if op == Op.INPUT:
            return self.value(text, index)
        if section is self.last:
            return self.result(text, k)
        return self._target(text, section, section.positions[k][0])

    def write(self, text: LlvmText, section: Section, k: int, value: str) -> None:
        """Write an output to where it belongs."""
        if section is self.last:
            self.write_result(text, k, value)
            return
        for position in section.positions[k]:
            if section.rows is None:
                text.store(value, self._target(text, section, position))
                continue
            places = self._of_row(text, section, section.goals[position])
            if len(places) == 1:
                text.store(value, places[0])
            else:
                text.scatter(value, places)

    def _target(self, text: LlvmText, section: Section, position: int) -> str:
        if section.apart:
            return self.slot(text, self.first_apart + position)
        return self.value(text, section.targets[position])

    def _of_row(self, text: LlvmText, section: Section, columns: tuple[int, ...]) -> list[str]:
        """Addresses of operands or results of the row of calls that is at hand; one where they are neighbours."""
        assert section.rows is not None
        wanted = columns[:1] if section.rows.are_neighbours(columns) else columns
        places = [section.rows.places[column] for column in wanted]
        for base, _ in places:
            if base not in self._bases:
                self._bases[base] = text.behind(self.start, "%row", base)
        return [self.at(text, self._bases[base], distance) for base, distance in places]

    def value(self, text: LlvmText, number: int) -> str:
        """Address of an input: of the program, or set by a stage."""
        return self.slot(text, self.first + number - self.n_inputs)

    def at(self, text: LlvmText, base: str, k: int) -> str:
        """Address of the k-th value behind ``base``."""
        return text.slot(base, k)

    def slot(self, text: LlvmText, k: int) -> str:
        """Address of the k-th value of the workspace."""
        return self.at(text, "%w", k)

    def text_of(self, section: Section) -> LlvmText:
        """For the code of a part."""
        return self.text()

    def result(self, text: LlvmText, k: int) -> str:
        """Address of a result that has been written."""
        raise NotImplementedError

    def write_result(self, text: LlvmText, k: int, value: str) -> None:
        """Write a result to where it belongs."""
        raise NotImplementedError

    def after_row(self, section: Section, functions: list[str]) -> list[str]:
        """Lines after the parts of a row of calls, whose number is ``%again.k``; and functions that they call."""
        return []

    def _repeated(self, section: Section, parts: list[str], after: list[str], signature: str, operands: str) -> str:
        """The parts of a section again and again: for each row of calls, or until the last pass or all have stopped."""
        text, name = self.text(), f"{self.name}_{section.name}"
        if section.rows is not None:
            n, width = section.rows.bases.shape
            with text.loop("again", n) as k:
                row = text.entry(f"{name}rows", k, width)
                text.lines += [*(f"call void @{part}({operands}, ptr {row})" for part in parts), *after]
            return define(f"{name}loop", signature, text)
        text.lines += [
            "br label %again",
            "again:",
            "%again.k = phi i64 [ 0, %0 ], [ %again.next, %pass ]",
            f"%again.last = icmp eq i64 %again.k, {section.times}",
        ]
        text.lines += [
            f"%again.end = or i1 %again.last, {self._in_all(text, section.targets[-1])}",
            "br i1 %again.end, label %again.done, label %pass",
            "pass:",
            *(f"call void @{part}({operands})" for part in parts),
        ]
        for position, target in enumerate(section.targets):
            made = text.load(self.slot(text, self.first_apart + position))
            text.store(made, self.value(text, target))
        text.lines += ["%again.next = add i64 %again.k, 1", "br label %again", "again.done:"]
        return define(f"{name}loop", signature, text)

    def _in_all(self, text: LlvmText, number: int) -> str:
        """Whether an input is not zero in all lanes."""
        bits = text.compare("une", text.load(self.value(text, number)), text.constant(0.0))
        if text.lanes == 1:
            return bits
        whole = text.instruction(f"bitcast {text.mask} {bits} to i{text.lanes}")
        return text.instruction(f"icmp eq i{text.lanes} {whole}, -1")

    def _skipped(self, name: str, called: list[str], flag: int, signature: str, operands: str) -> str:
        """Calls, but where a flag is set in all lanes."""
        text = self.text()
        text.lines += [
            f"br i1 {self._in_all(text, flag)}, label %done, label %pass",
            "pass:",
            *(f"call void @{x}({operands})" for x in called),
            "br label %done",
            "done:",
        ]
        return define(name, signature, text)

    def functions(self) -> list[str]:
        """Assembly of all functions."""
        raise NotImplementedError


class WorkspaceCode(RowCode):
    """Code whose workspace holds the inputs and the results as well, each number of them that is computed once.

    ``further`` places of it are behind the results.
    """

    def __init__(
        self, program: Program, sections: list[Section], scalar: str, lanes: int, has_fma: bool, further: int = 0
    ) -> None:
        last = sections[-1]
        computed = [k for k in dict.fromkeys(last.outputs) if last.nodes[k][0] != Op.INPUT]
        super().__init__(program, sections, program.n_inputs, len(computed) + further, scalar, lanes, has_fma)
        self.first_further = self.first_output + len(computed)
        self.place = {k: self.first_output + position for position, k in enumerate(computed)}

    def result(self, text: LlvmText, k: int) -> str:
        """Address of a result that has been written."""
        return self.slot(text, self.place[k])

    def write_result(self, text: LlvmText, k: int, value: str) -> None:
        """Write a result to where it belongs."""
        text.store(value, self.slot(text, self.place[k]))

    def home_of(self, k: int) -> int:
        """Where a result is in the workspace."""
        op, index, *_ = self.last.nodes[k]
        return self.first + index - self.program.n_inputs if op == Op.INPUT else self.place[k]

    def wanted(self) -> list[set[int]]:
        """Of each argument the numbers that something reads."""
        used = {index for section in self.sections for op, index, *_ in section.nodes if op == Op.INPUT}
        ends = [*accumulate((a.size for a in self.program.arguments), initial=0)]
        return [{k - start for k in used if start <= k < end} for start, end in pairwise(ends)]
