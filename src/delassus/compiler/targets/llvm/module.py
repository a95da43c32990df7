"""LLVM assembly of a kernel: code for one state, or code for lanes, and a loop over the states of a batch.

The functions of the module, for arguments ``a0, a1, …`` and results ``r0, r1, …`` (row-major, state after state):

=====================================  ==========================================================================
``one(a0, …, r0, …)``                  of one lane: one state, scalars, least latency
``block(n, a0, …, r0, …)``             of more: from one to two times as many states as there are lanes, all at once
``batch(n, a0, …, r0, …)``             n states, at least as many as there are lanes
``span(arrays, first, n)``             the same from the first on, with pointers to the arrays in an array; see `loops`
=====================================  ==========================================================================

The operations are in functions ``one_part0``, … and ``block_part0``, … that ``one`` and ``block`` call one by one; see
`delassus.compiler.targets.llvm.parts`. Of one state, ``one_angles`` computes sines and cosines before them.
Values that wait in memory (`delassus.compiler.passes.allocate`) are in a workspace, with those that stages of the
program set for others. That of a block also has the inputs and the outputs, all by lanes: ``block_in`` transposes rows
to lanes, ``block_out`` lanes to rows.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import Any

from delassus.compiler.program.batched_calls import SIMD_LANES
from delassus.compiler.program.program import Program, Stage
from delassus.compiler.program.sent_rows import NEVER, Sending, sending
from delassus.compiler.targets.llvm.loops import batch, pointers, sizes, span
from delassus.compiler.targets.llvm.operations import Operations
from delassus.compiler.targets.llvm.parts import ATTRIBUTES, RowCode, Section, WorkspaceCode, define
from delassus.compiler.targets.llvm.rows import Sent, load_rows, loop_over_tiles, send_rows, store_rows
from delassus.compiler.targets.llvm.text import LlvmText, hexadecimal, llvm_table
from delassus.spatial.trace.operations import Op
from delassus.spatial.trace.sincos import sincos

LOOPED = 40
"""Results of at least so many squares of lanes are taken out in a loop."""

AT_ONCE, ROOM = 2, 60_000
"""Blocks that each part is run for before the next part: its code is fetched once for both, and the workspaces of more
would not fit the first-level cache; and vectors that these have, 64 bytes each, else one block has it."""

MOST_RUNS = 500
"""Parts of a result that are copied by code of their own, at most: of more, each number is copied in a loop."""

MOST_LINES, LONG = 2_000, 4
"""Lines of a function that writes results that are leaves, and vectors of neighbours that more than are a loop."""

REACH, MOST_BASES = 256, 4
"""Vectors of the workspace that instructions reach from a pointer with a distance of one byte, and how many pointers
there are at most; a workspace that needs more has but one."""


def llvm_module(program: Program, scalar: str, lanes: int, registers: int, has_fma: bool) -> str:
    """Assembly of all functions for one number type: for states one by one if ``lanes`` is 1, else for lanes."""
    sent = sending(program, lanes if lanes > 1 else NEVER)
    program = sent.program
    stages = {f"stage{k}_": stage for k, stage in enumerate(program.before)} | {"": Stage(program.graph, ())}
    sections = [Section(name, stage, registers, lanes == 1) for name, stage in stages.items()]
    if lanes == 1:
        code: _One | _Block = _One(program, sections, scalar, lanes, has_fma)
    else:
        code = _Block(sent, sections, scalar, lanes, has_fma)
    functions = [*code.functions(), span(program, scalar, lanes, code.at_once, ATTRIBUTES), batch(program, ATTRIBUTES)]
    return "\n\n".join([*sorted(code.declarations), *functions]) + "\n"


class _One(RowCode):
    """Code for one state: sines and cosines of ``angles`` come first, `SIMD_LANES` at once, into the workspace.

    ``sines`` is where the sine of an argument is there; its cosine is `SIMD_LANES` behind it.
    """

    name = "one"

    def __init__(self, program: Program, sections: list[Section], *shared: Any) -> None:
        angles = sorted(
            {
                k
                for section in sections
                for k in map(section.angle, range(len(section.nodes)))
                if k is not None and k < program.n_inputs
            }
        )
        self.angles = [angles[k : k + SIMD_LANES] for k in range(0, len(angles), SIMD_LANES)]
        if len(angles) > SIMD_LANES:
            self.angles[-1] = angles[-SIMD_LANES:]
        super().__init__(program, sections, 0, 2 * SIMD_LANES * len(self.angles), *shared)
        self.sines = {
            angle: self.first_output + 2 * SIMD_LANES * k + lane
            for k, some in enumerate(self.angles)
            for lane, angle in enumerate(some)
        }
        self.tables: list[str] = []
        self.inputs = [(i, k) for i, a in enumerate(self.program.arguments) for k in range(a.size)]
        self.places: dict[int, list[tuple[int, int]]] = {}
        for r, result in enumerate(self.program.results):
            for position, entry in enumerate(result.entries):
                self.places.setdefault(self.last.outputs[entry], []).append((r, position))

    def value(self, text: LlvmText, number: int) -> str:
        """Address of an input: of the program, or set by a stage."""
        if number >= len(self.inputs):
            return super().value(text, number)
        return text.row(*self._given(number))

    def at(self, text: LlvmText, base: str, k: int) -> str:
        """Address of the k-th value behind ``base``."""
        return text.row(base, k)

    def text_of(self, section: Section) -> LlvmText:
        """For the code of a part."""
        return (
            self.text()
            if section.lanes == 1
            else LlvmText(section.lanes, self.text().scalar, self.text().has_fma, is_aligned=False)
        )

    def compute(self, text: LlvmText, section: Section, operations: Operations, k: int) -> str:
        """Operand for a node that is no leaf."""
        angle = section.angle(k)
        if angle not in self.sines:
            return operations.emit(k)
        is_cosine = section.nodes[k][0] == Op.COS
        operations.values[k] = text.load(self.slot(text, self.sines[angle] + SIMD_LANES * is_cosine))
        return operations.values[k]

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
        if self.angles:
            functions.append(define("one_angles", rows, self._angles()))
            names = ["one_angles", *names]
        for leaves in self._leaves():
            names.append(f"one_leaves{len(names)}")
            functions.append(define(names[-1], rows, leaves, "noinline "))
        text.reserve("%w", self.size)
        text.lines += [f"call void @{name}({self.pointers})" for name in names]
        text.free()
        self.declarations |= text.declarations
        return [*self.tables, *functions, define("one", self.signature, text)]

    def _angles(self) -> LlvmText:
        """Sines and cosines of arguments."""
        text = LlvmText(SIMD_LANES, self.text().scalar, self.text().has_fma, is_aligned=False)
        for some in self.angles:
            places = [self.value(text, angle) for angle in some]
            are_neighbours = some == [*range(some[0], some[0] + SIMD_LANES)]
            if are_neighbours and self.inputs[some[0]][0] == self.inputs[some[-1]][0]:
                x = text.load(places[0])
            else:
                x = text.gather([*places, *places[-1:] * (SIMD_LANES - len(places))])
            for k, made in enumerate(sincos(text, x)):
                text.store(made, self.slot(text, self.sines[some[0]] + k * SIMD_LANES))
        self.declarations |= text.declarations
        return text

    def _leaves(self) -> list[LlvmText]:
        """Results that are constants, arguments or set by stages, in functions of a bounded length.

        Of large results most are structural zeros: neighbours of one number, or of neighbours, are written together.
        """
        found: list[tuple[int, int, str, int]] = []  # result, position, number or pointer, and distance behind that
        for k, places in self.places.items():
            op, index, *_ = self.last.nodes[k]
            if op < Op.ADD:
                origin, distance = hexadecimal(self.last.numbers[k], self.text().scalar), 0
                if op == Op.INPUT:
                    set_by_stage = index - self.program.n_inputs
                    origin, distance = self._given(index) if set_by_stage < 0 else ("%w", self.first + set_by_stage)
                found += [(*place, origin, distance) for place in places]
        texts: list[LlvmText] = []
        left = list[tuple[int, int, str, int]]()
        for r, of_result in groupby(sorted(found), key=lambda leaf: leaf[0]):
            mine = [*of_result]
            if len(_runs(mine)) > MOST_RUNS:
                texts.append(self._gathered(r, [leaf for leaf in mine if leaf[2] == "%w"]))
                mine = [leaf for leaf in mine if leaf[2] != "%w"]
            left += mine
        texts += [self.text()] if texts else []
        for run in _runs(left):
            if not texts or len(texts[-1].lines) > MOST_LINES:
                texts.append(self.text())
            self._copy(texts[-1], run)
        return texts

    def _gathered(self, r: int, leaves: list[tuple[int, int, str, int]]) -> LlvmText:
        """Write numbers of a result that stages have set, in a loop over a table."""
        text, size = self.text(), self.bytes_each
        self.tables.append(
            llvm_table(f"one_from{r}", [x * size for _, position, _, at in leaves for x in (position, at)])
        )
        with text.loop("leaf", len(leaves)) as k:
            row = text.entry(f"one_from{r}", k, 2)
            number = text.load(text.behind("%w", row, 1))
            text.store(number, text.behind(f"%r{r}", row, 0))
        return text

    def _given(self, index: int) -> tuple[str, int]:
        """Pointer to the argument that an input is of, and the distance behind it."""
        i, entry = self.inputs[index]
        return f"%a{i}", entry

    def _copy(self, text: LlvmText, run: list[tuple[int, int, str, int]]) -> None:
        """Write neighbours, `SIMD_LANES` at once."""
        (r, position, origin, distance), n = run[0], len(run)
        align, of_width = f"align {text.bits // 8}", f"<{SIMD_LANES} x {text.scalar}>"
        target = text.row(f"%r{r}", position)
        source = text.row(origin, distance) if origin[0] == "%" else ""

        def copy(kind: str, k: int | str) -> None:
            value = origin if kind == text.scalar else f"splat ({text.scalar} {origin})"
            if source:
                value = text.instruction(f"load {kind}, ptr {text.row(source, k)}, {align}")
            text.lines.append(f"store {kind} {value}, ptr {text.row(target, k)}, {align}")

        if n < SIMD_LANES:
            for k in range(n):
                copy(text.scalar, k)
            return
        if n > LONG * SIMD_LANES:
            with text.loop(f"copy{len(text.lines)}", n // SIMD_LANES * SIMD_LANES, SIMD_LANES) as at:
                copy(of_width, at)
        else:
            for k in range(0, n // SIMD_LANES * SIMD_LANES, SIMD_LANES):
                copy(of_width, k)
        if n % SIMD_LANES:  # the last overlap those before them
            copy(of_width, n - SIMD_LANES)


def _runs(leaves: list[tuple[int, int, str, int]]) -> list[list[tuple[int, int, str, int]]]:
    """Parts of a list of leaves that are neighbours, and of one number or of neighbours."""
    runs: list[list[tuple[int, int, str, int]]] = []
    for leaf in leaves:
        r, position, origin, distance = leaf
        before = (r, position - 1, origin, distance - (origin[0] == "%"))
        if runs and runs[-1][-1] == before:
            runs[-1].append(leaf)
        else:
            runs.append([leaf])
    return runs


class _Block(WorkspaceCode):
    name, start = "block", "%w0"

    def __init__(self, sent: Sending, sections: list[Section], scalar: str, lanes: int, has_fma: bool) -> None:
        self._sent = sent
        pointers_of = len(sent.program.results) if sent.slices else 0
        super().__init__(sent.program, sections, scalar, lanes, has_fma, pointers_of)
        n_bases = -(-self.size // REACH)
        is_short = n_bases <= MOST_BASES and all(section.rows is None for section in sections)
        self.bases = [REACH * b + REACH // 2 for b in range(n_bases)] if is_short else [0]
        self.at_once = AT_ONCE if AT_ONCE * self.size <= ROOM else 1
        self.workspace = ", ".join(f"ptr %w{b}" for b in range(len(self.bases)))

    def slot(self, text: LlvmText, k: int) -> str:
        """Address of the k-th value of the workspace."""
        b = min(k // REACH, len(self.bases) - 1)
        return text.slot(f"%w{b}", k - self.bases[b])

    def functions(self) -> list[str]:
        """Assembly of all functions."""
        shown = self.workspace if len(self.bases) > 1 else "ptr noalias %w0"
        names, functions = self.units(shown, self.workspace)
        rows = f"{self.signature}, {shown}"
        rows_out, tables = self._rows_out()
        return [
            define("block_in", rows, self._rows_in(), "noinline "),
            *functions,
            *tables,
            define("block_out", rows, rows_out, "noinline "),
            self._blocks(names),
        ]

    def _blocks(self, names: list[str]) -> str:
        """``block``: each of these functions for block after block, in workspaces of their own."""
        text, arrays = self.text(), pointers(self.program)
        bytes_each = self.size * self.bytes_each
        text.reserve("%workspaces", self.at_once * self.size)
        text.lines += [
            f"%rounded = add i64 %n, {text.lanes - 1}",
            f"%count = udiv i64 %rounded, {text.lanes}",
            f"%last = sub i64 %n, {text.lanes}",
        ]
        for name in ["block_in", *names, "block_out"]:
            label, operands = f"over.{name}", ", ".join(f"ptr %{name}.w{b}" for b in range(len(self.bases)))
            with text.loop(label, "%count") as k:
                text.lines += [
                    f"%{label}.at = mul i64 {k}, {bytes_each}",
                    f"%{label}.w = getelementptr i8, ptr %workspaces, i64 %{label}.at",
                    *(
                        f"%{name}.w{b} = getelementptr i8, ptr %{label}.w, i64 {base * self.bytes_each}"
                        for b, base in enumerate(self.bases)
                    ),
                ]
                if name in ("block_in", "block_out"):
                    text.lines += [
                        f"%{label}.whole = mul i64 {k}, {text.lanes}",
                        f"%{label}.within = icmp slt i64 %{label}.whole, %last",
                        f"%{label}.s = select i1 %{label}.within, i64 %{label}.whole, i64 %last",
                    ]
                    for p, size in zip(arrays, sizes(self.program), strict=True):
                        text.lines += [
                            f"{p}.{name}.at = mul i64 %{label}.s, {size}",
                            f"{p}.{name} = getelementptr {text.scalar}, ptr {p}, i64 {p}.{name}.at",
                        ]
                    operands = ", ".join([*(f"ptr {p}.{name}" for p in arrays), operands])
                text.lines.append(f"call void @{name}({operands})")
        text.free()
        self.declarations |= text.declarations
        return define("block", f"i64 %n, {self.signature}", text)

    def _rows_in(self) -> LlvmText:
        """Bring the rows of the arguments into the workspace."""
        text, start = self.text(), 0
        for i, (argument, wanted) in enumerate(zip(self.program.arguments, self.wanted(), strict=True)):
            load_rows(text, f"%a{i}", argument.size, {k: self.slot(text, start + k) for k in sorted(wanted)})
            start += argument.size
        if self._sent.slices:
            for r in range(len(self.program.results)):
                text.lines.append(f"store ptr %r{r}, ptr {self.slot(text, self.first_further + r)}")
            of_slices = {x for rows in self._sent.slices.values() for row in rows for part in row for x in part.values}
            for k in (-1 - x for x in sorted(of_slices) if x < 0):
                text.store(text.constant(self.last.numbers[k]), self.slot(text, self.place[k]))
        return text

    def after_row(self, section: Section, functions: list[str]) -> list[str]:
        """Calls that send what row ``%again.k`` of calls has made."""
        name = f"{self.name}_{section.name}"
        rows = self._sent.slices.get(self.sections.index(section))
        if rows is None:
            return []
        of_slices = [
            [
                Sent(
                    self.first_further + part.result,
                    part.first,
                    self.program.results[part.result].size,
                    [self.first + x - self.program.n_inputs if x >= 0 else self.place[-1 - x] for x in part.values],
                )
                for part in row
            ]
            for row in rows
        ]
        tiles, each = self.text(), self.text()
        tables = send_rows(tiles, each, name, of_slices)
        functions += [
            *tables,
            define(f"{name}tiles", "ptr noalias %w0, ptr %slice", tiles, "noinline "),
            define(f"{name}send", "ptr noalias %w0, i64 %k", each, "noinline "),
        ]
        return [f"call void @{name}send(ptr %w0, i64 %again.k)"]

    def _rows_out(self) -> tuple[LlvmText, list[str]]:
        """Take the rows of the results out of the workspace, in loops where there are many; and tables of the loops."""
        text, tables, constants = self.text(), list[str](), set[int]()
        text.lines.append(f"%w = getelementptr {text.vector}, ptr %w0, i64 {-self.bases[0]}")
        for r, result in enumerate(self.program.results):
            nodes = [self.last.outputs[entry] for entry in result.entries]
            waits = self._sent.waits(r)
            if not waits.any() and result.size:
                continue
            if len(nodes) < LOOPED * text.lanes and waits.all():
                store_rows(text, f"%r{r}", [partial(self._written, text, k) for k in nodes])
                continue
            mine = {k for k, own in zip(nodes, waits, strict=True) if own}
            for k in {k for k in mine if self.last.nodes[k][0] == Op.CONSTANT} - constants:
                text.store(text.constant(self.last.numbers[k]), self.slot(text, self.place[k]))
                constants.add(k)
            slots = [self.home_of(k) if own else -1 for k, own in zip(nodes, waits, strict=True)]
            tables.append(loop_over_tiles(text, f"out{r}", f"%r{r}", slots))
        return text, tables

    def _written(self, text: LlvmText, k: int) -> str:
        if self.last.nodes[k][0] == Op.CONSTANT:
            return self.operations(text, self.last).operand(k)
        return text.load(self.home(text, self.last, k))
