"""LLVM assembly of a kernel for a GPU: a state a thread, through any number of time steps.

``run(n, steps, least, a0, a0.step, …, r0, r0.step, …, start, lane, tile)`` is what a thread does, the one of number
``lane`` in the warp of the 32 states from ``start`` on. Threads beyond the last state repeat it, so that no two warps
write to a state. Arrays are row-major, state after state, as those of code for lanes; each is ``step`` numbers further
on at the next of the ``steps``. Results of states whose reciprocal condition, the last result of programs that have
one, is below ``least`` are NaN.

A thread has a workspace of its own, with the inputs and the results as well. The rows of a warp's states are one piece
of memory, which its threads copy together, `WARP` columns at a time, by way of a ``tile`` of `WARP` rows in memory that
they share.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from delassus.compiler.program.program import Program, Stage
from delassus.compiler.targets.llvm.loops import pointers, sizes
from delassus.compiler.targets.llvm.parts import Section, WorkspaceCode, define
from delassus.compiler.targets.llvm.rows import tiles_of
from delassus.compiler.targets.llvm.text import LlvmText, llvm_table
from delassus.spatial.trace.operations import Op

WARP = 32
"""Threads of a warp, and rows and columns of a tile."""

PITCH = WARP + 1
"""Numbers from one row of a tile to the next: those of a column lie in different banks."""

REGISTERS = {"float": 200, "double": 96}
"""Values that a thread holds at a time; it has 255 registers of 32 bits.

Of Go1's float32 Delassus matrix 200 leave 268 loads and stores of local memory, in 199 registers: 8 warps of a
multiprocessor. 120 leave 434 and 12 warps, 90 leave 653 and 16; of G1's, 2,623 become 3,310 and 3,713. Fewer values are
more instructions, and waiting is short with 8 warps already, for parts are straight code with much to do at once. In
double, 96 take what there is; fewer gain nothing.
"""

PART = 8_000
"""Longest function, in operations. What crosses a cut waits in memory, and an operation of a thread is one instruction.

One part instead of two takes Talos's float32 Delassus matrix from 725 loads and stores of local memory to 509, and from
1,088 to 752 bytes a thread, at as many registers. `ptxas` takes as long for 700, 4,000 or 8,000: its time grows with
all functions together. Parts of 1,500 let Go1's take 1,104 bytes instead of 432.
"""

UNROLLED = 16
"""Tiles of an array that are code each; of an array with more, they are a loop."""

WAIT = "call void @wait()"
"""Waits for the other threads of the warp."""


def threads_module(program: Program, scalar: str) -> str:
    """Assembly of all functions for one number type; whoever runs it says what `WAIT` is, and calls ``run``."""
    stages = {f"stage{k}_": stage for k, stage in enumerate(program.before)} | {"": Stage(program.graph, ())}
    sections = [Section(name, stage, REGISTERS[scalar], False, PART) for name, stage in stages.items()]
    code = Threads(program, sections, scalar)
    functions = code.functions()
    return "\n\n".join([*sorted(code.declarations), *functions]) + "\n"


class Threads(WorkspaceCode):
    """Code for one state a thread."""

    name, row_given = "thread", "%row.given"

    def __init__(self, program: Program, sections: list[Section], scalar: str) -> None:
        super().__init__(program, sections, scalar, 1, True)
        self.has_rcond = program.results[-1].hidden
        self.copies = (
            f"i32 %lane, i32 %last, {scalar} %least, "
            "ptr noalias %tile.given, ptr noalias %rows.given, ptr noalias %w.given"
        )

    def text(self) -> LlvmText:
        """For a function that is given the workspace, which is memory of this thread alone."""
        text = super().text()
        text.lines += [
            "%w.local = addrspacecast ptr %w.given to ptr addrspace(5)",
            "%w = addrspacecast ptr addrspace(5) %w.local to ptr",
        ]
        return text

    def text_of(self, section: Section) -> LlvmText:
        """For the code of a part: a row of a table, which is what calls are given, is global memory."""
        text = self.text()
        if section.rows is not None:
            text.lines += [
                "%row.global = addrspacecast ptr %row.given to ptr addrspace(1)",
                "%row = addrspacecast ptr addrspace(1) %row.global to ptr",
            ]
        return text

    def functions(self) -> list[str]:
        """Assembly of all functions."""
        names, functions = self.units("ptr noalias %w.given", "ptr %w")
        copies, tables, start = list[str](), list[str](), 0
        for i, (argument, wanted) in enumerate(zip(self.program.arguments, self.wanted(), strict=True)):
            is_looped = len(tiles_of(argument.size, WARP)) > UNROLLED  # then unread numbers are copied, too
            places = {k: start + k for k in (range(argument.size) if is_looped else sorted(wanted))}
            if argument.size:
                copies.append(self._copy(f"a{i}", argument.size, places, tables))
            start += argument.size
        for r, result in enumerate(self.program.results):
            places = {k: self.home_of(self.last.outputs[entry]) for k, entry in enumerate(result.entries)}
            if result.size:
                copies.append(self._copy(f"r{r}", result.size, places, tables))
        return [*tables, *functions, *copies, self._run(names)]

    def _copy(self, array: str, size: int, places: Mapping[int, int], tables: list[str]) -> str:
        """Function that brings a warp's rows of an array into the workspaces of its threads, or takes them out."""
        text, firsts, width = self.text(), tiles_of(size, min(size, WARP)), min(size, WARP)
        text.lines += [
            "%tile.shared = addrspacecast ptr %tile.given to ptr addrspace(3)",
            "%tile = addrspacecast ptr addrspace(3) %tile.shared to ptr",
            "%rows.global = addrspacecast ptr %rows.given to ptr addrspace(1)",
            "%rows = addrspacecast ptr addrspace(1) %rows.global to ptr",
            f"%own.k = mul i32 %lane, {PITCH}",
            f"%own = getelementptr {text.scalar}, ptr %tile, i32 %own.k",
        ]
        if self.has_rcond and array[0] == "r":
            rcond = self.home_of(self.last.outputs[self.program.results[-1].entries[0]])
            text.lines.append(f"%is_good = fcmp oge {text.scalar} {text.load(self.slot(text, rcond))}, %least")
        move = self._move_in if array[0] == "a" else self._move_out
        shared = self._shared(text, size)
        if len(firsts) <= UNROLLED:
            for first in firsts:
                homes = {k - first: self.slot(text, places[k]) for k in range(first, first + width) if k in places}
                move(text, text.row("%rows", first), shared, homes)
        else:
            entries = [x for first in firsts for x in (first, *(places[k] for k in range(first, first + WARP)))]
            tables.append(llvm_table(f"{array}.table", [x * text.bits // 8 for x in entries]))
            with text.loop("tiles", len(firsts)) as k:
                row = text.entry(f"{array}.table", k, 1 + WARP)
                homes = {j: text.behind("%w", row, 1 + j) for j in range(WARP)}
                move(text, text.behind("%rows", row, 0), shared, homes)
        return define(f"copy_{array}", self.copies, text, "noinline ")

    def _shared(self, text: LlvmText, size: int) -> list[tuple[str, str]]:
        """Numbers of the tile that this thread copies: how far behind its array's first one each is, and its address.

        Neighbouring threads copy as many rows together as fit. What is left over does what the first thread does; rows
        beyond the last state are that of the last one, as the threads beyond it are.
        """
        width, named = min(size, WARP), text.instruction
        together = 1 << (WARP // width).bit_length() - 1
        row, column = named(f"udiv i32 %lane, {width}"), named(f"urem i32 %lane, {width}")
        within = named(f"icmp ult i32 {row}, {together}")
        row, column = (named(f"select i1 {within}, i32 {x}, i32 0") for x in (row, column))
        shared = []
        for k in range(0, WARP, together):
            at = named(f"add i32 {row}, {k}")
            state = named(f"select i1 {named(f'icmp ult i32 {at}, %last')}, i32 {at}, i32 %last")
            outside = named(f"add i32 {named(f'mul i32 {state}, {size}')}, {column}")
            inside = named(f"add i32 {named(f'mul i32 {at}, {PITCH}')}, {column}")
            address = named(f"getelementptr {text.scalar}, ptr %tile, i32 {inside}")
            shared.append((named(f"zext i32 {outside} to i64"), address))
        return shared

    def _move_in(self, text: LlvmText, rows: str, shared: list[tuple[str, str]], homes: Mapping[int, str]) -> None:
        """Bring columns from ``rows`` on to their homes in the workspace."""
        numbers = [text.load(text.row(rows, distance)) for distance, _ in shared]
        for number, (_, address) in zip(numbers, shared, strict=True):
            text.store(number, address)
        text.lines.append(WAIT)
        for j, home in homes.items():
            text.store(text.load(text.row("%own", j)), home)
        text.lines.append(WAIT)

    def _move_out(self, text: LlvmText, rows: str, shared: list[tuple[str, str]], homes: Mapping[int, str]) -> None:
        """Take columns out of the workspace, to ``rows`` on."""
        for j, home in homes.items():
            number = text.load(home)
            if self.has_rcond:
                number = text.select("%is_good", number, text.constant(math.nan))
            text.store(number, text.row("%own", j))
        text.lines.append(WAIT)
        numbers = [text.load(address) for _, address in shared]
        for number, (distance, _) in zip(numbers, shared, strict=True):
            text.store(number, text.row(rows, distance))
        text.lines.append(WAIT)

    def _run(self, names: list[str]) -> str:
        """``run``: all steps of a thread."""
        text, arrays = self.text(), pointers(self.program)
        text.lines.insert(0, f"%w.given = alloca {text.scalar}, i64 {self.size}, align 16")
        constants = {self.last.outputs[entry] for result in self.program.results for entry in result.entries}
        for k in sorted(k for k in constants if self.last.nodes[k][0] == Op.CONSTANT):
            text.store(text.constant(self.last.numbers[k]), self.slot(text, self.place[k]))
        text.lines += [
            "%left = sub i64 %n, %start",
            "%beyond = sub i64 %left, 1",
            f"%last.wide = call i64 @llvm.smin.i64(i64 %beyond, i64 {WARP - 1})",
            "%last = trunc i64 %last.wide to i32",
        ]
        self.declarations.add("declare i64 @llvm.smin.i64(i64, i64)")
        for p, size in zip(arrays, sizes(self.program), strict=True):
            text.lines += [
                f"{p}.behind = mul i64 %start, {size}",
                f"{p}.rows = getelementptr {text.scalar}, ptr {p}, i64 {p}.behind",
            ]
        with text.loop("step", "%steps") as t:
            for p in arrays:
                text.lines += [
                    f"{p}.far = mul i64 {t}, {p}.step",
                    f"{p}.now = getelementptr {text.scalar}, ptr {p}.rows, i64 {p}.far",
                ]
            given = f"i32 %lane, i32 %last, {text.scalar} %least, ptr %tile"
            some = [p for p, size in zip(arrays, sizes(self.program), strict=True) if size]
            copies = [f"call void @copy_{p[1:]}({given}, ptr {p}.now, ptr %w)" for p in some]
            n = sum(p[1] == "a" for p in some)
            text.lines += [*copies[:n], *(f"call void @{name}(ptr %w)" for name in names), *copies[n:]]
        steps = ", ".join(f"ptr {p}, i64 {p}.step" for p in arrays)
        place = "i64 %start, i32 %lane, ptr %tile"
        return define("run", f"i64 %n, i64 %steps, {text.scalar} %least, {steps}, {place}", text)
