"""A machine that runs programs without compiling them: it is compiled once for a processor and a type of numbers.

It goes through the instructions of a program (`delassus.compiler.program.instructions`) and does each for a block of
states, some vectors of lanes at a time. Each operation is emitted by the same text as in compiled programs, so that the
bits are the same.

=====================================  ==========================================================================
``one(program, arrays, first, n)``     states one by one: a row of the workspace is a number
``few(program, arrays, first, n)``     blocks; a row of the workspace is as many vectors as the block needs
``many(program, arrays, first, n)``    the same, `TOGETHER` vectors at a time
``span(program, arrays, first, n)``    whichever fits
``span{k}(arrays, first, n)``          the same for the program in place k of ``programs``, as compiled code has it
=====================================  ==========================================================================

``program`` is an array of addresses and numbers, see `Field`.
"""

from __future__ import annotations

import ctypes
import json
from enum import IntEnum
from functools import cache

import numpy as np

from delassus.compiler.machine import cache as disk
from delassus.compiler.machine.cpu import Host, ObjectCode, host, object_code, versions
from delassus.compiler.program.instructions import WIDTH, ControlKind, instructions
from delassus.compiler.program.program import Program
from delassus.compiler.targets.llvm.operations import EMIT
from delassus.compiler.targets.llvm.parts import ATTRIBUTES
from delassus.compiler.targets.llvm.rows import transposed
from delassus.compiler.targets.llvm.text import LlvmText
from delassus.spatial.trace.operations import Op, arity
from delassus.spatial.trace.sincos import sincos


class Field(IntEnum):
    """What a program is for the machine: an array of 64-bit numbers."""

    CODE = 0
    CONSTANTS = 1
    N_CONSTANTS = 2
    PLACES = 3
    RESULTS = 4
    SIZES = 5
    ARRAYS = 6
    ARGUMENTS = 7
    MOST_STATES = 8


TOGETHER = 4
"""Vectors of a row that an instruction of ``many`` takes at a time."""

COMMON = frozenset({Op.ADD, Op.SUBTRACT, Op.MULTIPLY, Op.NEGATE, Op.FMA, Op.FMS, Op.FNMA})
"""Operations that do; others are rare or take long, and their vectors follow one another, in less code."""

BLOCK = 64
"""States of a block at most: of more, values leave the first-level cache; of fewer, decoding takes longer."""

WORKSPACE = 1 << 21
"""Bytes of a workspace from which on blocks are smaller, down to two vectors of states."""

PROGRAMS = 32
"""Programs for which a copy of the machine has functions."""


def machine(scalar: str, lanes: int, has_fma: bool) -> str:
    """Assembly of the machine."""
    parts = [_EvaluatorCode(scalar, 1, has_fma, 1, "one")]
    if lanes > 1:
        parts += [
            _EvaluatorCode(scalar, lanes, has_fma, 1, "few"),
            _EvaluatorCode(scalar, lanes, has_fma, TOGETHER, "many"),
        ]
    head = f"@programs = global [{PROGRAMS} x ptr] zeroinitializer"
    texts = [part.function() for part in parts]
    declarations = sorted({line for part in parts for line in part.text.declarations})
    return "\n\n".join([head, *declarations, *texts, _span(lanes), *map(_span_of, range(PROGRAMS))]) + "\n"


def _span_of(k: int) -> str:
    """``span`` of a program."""
    return f"""define void @span{k}(ptr %arrays, i64 %first, i64 %n) {ATTRIBUTES} {{
  %at = getelementptr ptr, ptr @programs, i64 {k}
  %program = load ptr, ptr %at
  call void @span(ptr %program, ptr %arrays, i64 %first, i64 %n)
  ret void
}}"""


def _span(lanes: int) -> str:
    """Blocks of nearly equal size; those of fewer states than there are lanes are run one by one."""
    head = f"define void @span(ptr %program, ptr %arrays, i64 %first, i64 %n) {ATTRIBUTES} {{"
    call = "(ptr %program, ptr %arrays, i64 %first, i64 %n)"
    if lanes == 1:
        return f"{head}\n  call void @one{call}\n  ret void\n}}"
    return f"""{head}
  %is.few = icmp slt i64 %n, {lanes}
  br i1 %is.few, label %singly, label %blocks
singly:
  call void @one{call}
  ret void
blocks:
  %most.at = getelementptr i64, ptr %program, i64 {Field.MOST_STATES:d}
  %most = load i64, ptr %most.at
  %above = sub i64 %most, 1
  %sum = add i64 %n, %above
  %count = udiv i64 %sum, %most
  br label %block
block:
  %k = phi i64 [ 0, %blocks ], [ %next, %done ]
  %next = add i64 %k, 1
  %from.n = mul i64 %k, %n
  %from = udiv i64 %from.n, %count
  %to.n = mul i64 %next, %n
  %to = udiv i64 %to.n, %count
  %size = sub i64 %to, %from
  %start = add i64 %first, %from
  %is.short = icmp sle i64 %size, {2 * lanes}
  br i1 %is.short, label %few, label %many
few:
  call void @few(ptr %program, ptr %arrays, i64 %start, i64 %size)
  br label %done
many:
  call void @many(ptr %program, ptr %arrays, i64 %start, i64 %size)
  br label %done
done:
  %last = icmp eq i64 %next, %count
  br i1 %last, label %end, label %block
end:
  ret void
}}"""


class _EvaluatorCode:
    """One of the functions."""

    def __init__(self, scalar: str, lanes: int, has_fma: bool, together: int, name: str) -> None:
        self.text = LlvmText(lanes, scalar, has_fma, is_aligned=False)
        self.lanes, self.together, self.name = lanes, together, name
        self.bytes = self.text.bits // 8
        self.align = f"align {self.bytes}"
        self._labels = 0

    def _label(self, name: str) -> str:
        self._labels += 1
        return f"{name}{self._labels}"

    def _do(self, line: str) -> str:
        return self.text.instruction(line)

    def _line(self, *lines: str) -> None:
        self.text.lines += lines

    def _field(self, field: Field, kind: str = "i64") -> str:
        return self._do(f"load {kind}, ptr {self._do(f'getelementptr i64, ptr %program, i64 {field:d}')}")

    def function(self) -> str:
        """Assembly."""
        unit = self.lanes * self.together
        n_places, n_constants = self._field(Field.PLACES), self._field(Field.N_CONSTANTS)
        constants = self._field(Field.CONSTANTS, "ptr")
        width = self.lanes * self.bytes
        vectors, row = "1", str(self.bytes)
        if self.lanes > 1:
            units = self._do(f"udiv i64 {self._do(f'add i64 %n, {unit - 1}')}, {unit}")
            vectors = self._do(f"mul i64 {units}, {self.together}")
            row = self._do(f"mul i64 {vectors}, {width}")
        of_places = self._do(f"mul i64 {n_places}, {row}")
        workspace = "%workspace"
        self.text.allocate(workspace, self._do(f"add i64 {of_places}, {self._do(f'mul i64 {n_constants}, {width}')}"))
        repeated = self._do(f"getelementptr i8, ptr {workspace}, i64 {of_places}")  # constants lie behind the slots
        self._repeat_constants(repeated, constants, n_constants)
        at = self._do(f"add i64 %first, {self._begin_loop('state', '%n')}") if self.lanes == 1 else "%first"
        self._copy(workspace, repeated, n_places, row, at, vectors, is_in=True)
        self._run(workspace, repeated, n_places, row, vectors)
        self._copy(workspace, repeated, n_places, row, at, vectors, is_in=False)
        if self.lanes == 1:
            self._end_loop("state", "%n")
        self.text.free()
        body = "\n".join(f"  {line}" for line in self.text.lines)
        return (
            f"define internal void @{self.name}(ptr %program, ptr %arrays, i64 %first, i64 %n) noinline {ATTRIBUTES} "
            f"{{\n{body}\n  ret void\n}}"
        )

    # -- loops -------------------------------------------------------------------------------------------------------

    def _begin_loop(self, name: str, count: str) -> str:
        """Number from 0 on below a count, which may be zero; it is kept in memory."""
        k = f"%{name}.at"
        self._line(f"{k} = alloca i64", f"store i64 0, ptr {k}", f"br label %{name}.head", f"{name}.head:")
        number = self._do(f"load i64, ptr {k}")
        within = self._do(f"icmp slt i64 {number}, {count}")
        self._line(f"br i1 {within}, label %{name}.body, label %{name}.end", f"{name}.body:")
        self._numbers = {**getattr(self, "_numbers", {}), name: number}
        return number

    def _end_loop(self, name: str, count: str) -> None:
        following = self._do(f"add i64 {self._numbers[name]}, 1")
        self._line(f"store i64 {following}, ptr %{name}.at", f"br label %{name}.head", f"{name}.end:")

    def _repeat_constants(self, repeated: str, constants: str, count: str) -> None:
        k = self._begin_loop("constant", count)
        place = self.text.row(constants, k)
        goal = self._do(f"getelementptr {self.text.vector}, ptr {repeated}, i64 {k}")
        self.text.store(self.text.load(place) if self.lanes == 1 else self.text.splat(place), goal)
        self._end_loop("constant", count)

    # -- arguments and results ---------------------------------------------------------------------------------------

    def _copy(self, workspace: str, repeated: str, n_places: str, row: str, at: str, vectors: str, is_in: bool) -> None:
        """Bring arguments into the workspace, or take results out of it, array by array, square by square."""
        name = "in" if is_in else "out"
        begin = "0" if is_in else self._field(Field.ARGUMENTS)
        end = self._field(Field.ARGUMENTS if is_in else Field.ARRAYS)
        sizes, table = self._field(Field.SIZES, "ptr"), self._field(Field.RESULTS, "ptr")
        number = f"%{name}.number"
        self._line(f"{number} = alloca i64", f"store i64 0, ptr {number}")
        count = self._do(f"sub i64 {end}, {begin}")
        k = self._begin_loop(f"{name}.array", count)
        array = self._do(f"add i64 {k}, {begin}")
        size = self._do(f"load i64, ptr {self._do(f'getelementptr i64, ptr {sizes}, i64 {array}')}")
        base = self._do(f"load ptr, ptr {self._do(f'getelementptr ptr, ptr %arrays, i64 {array}')}")
        first = self._do(f"load i64, ptr {number}")  # number of the array's first number among all
        self._line(f"store i64 {self._do(f'add i64 {first}, {size}')}, ptr {number}")
        group = self._begin_loop(f"{name}.group", vectors)
        state = self._state_of(group, at)
        begin_of = self._do(f"mul i64 {state}, {size}")
        source = self.text.row(base, begin_of)
        shift = self._do(f"mul i64 {group}, {self.lanes * self.bytes}")

        def place(entry: str) -> str:
            """Address of the vector of a number of the array."""
            of_all = self._do(f"add i64 {first}, {entry}")
            if is_in:
                behind = self._do(f"add i64 {self._do(f'mul i64 {of_all}, {row}')}, {shift}")
                return self._do(f"getelementptr i8, ptr {workspace}, i64 {behind}")
            slot = self._do(f"load i32, ptr {self._do(f'getelementptr i32, ptr {table}, i64 {of_all}')}")
            pointer, step = self._operand(slot, workspace, repeated, n_places, row)
            return self._do(f"getelementptr i8, ptr {pointer}, i64 {self._do(f'mul i64 {step}, {group}')}")

        if self.lanes > 1:
            tiles = self._do(f"udiv i64 {size}, {self.lanes}")
            done = self._do(f"mul i64 {tiles}, {self.lanes}")
            tile = self._begin_loop(f"{name}.tile", tiles)
            entry = self._do(f"mul i64 {tile}, {self.lanes}")
            rows = []
            for s in range(self.lanes):
                of_state = self._do(f"add i64 {self._do(f'mul i64 {size}, {s}')}, {entry}")
                rows.append(self.text.row(source, of_state))
            entries = [self._do(f"add i64 {entry}, {e}") for e in range(self.lanes)]
            if is_in:
                for e, vector in zip(entries, transposed(self.text, [self.text.load(x) for x in rows]), strict=True):
                    self.text.store(vector, place(e))
            else:
                vectors_of = transposed(self.text, [self.text.load(place(e)) for e in entries])
                for vector, target in zip(vectors_of, rows, strict=True):
                    self.text.store(vector, target)
            self._end_loop(f"{name}.tile", tiles)
        else:
            done = "0"
        left = self._do(f"sub i64 {size}, {done}")
        k = self._begin_loop(f"{name}.left", left)
        entry = self._do(f"add i64 {done}, {k}")
        address = place(entry)
        for s in range(self.lanes):
            outside = self.text.row(source, self._do(f"add i64 {self._do(f'mul i64 {size}, {s}')}, {entry}"))
            inside = self.text.row(address, s)
            a, b = (outside, inside) if is_in else (inside, outside)
            self._line(f"store {self.text.scalar} {self._do(f'load {self.text.scalar}, ptr {a}')}, ptr {b}")
        self._end_loop(f"{name}.left", left)
        self._end_loop(f"{name}.group", vectors)
        self._end_loop(f"{name}.array", count)

    def _state_of(self, group: str, at: str) -> str:
        """First state of a vector: the last ones overlap those before them."""
        if self.lanes == 1:
            return at
        whole = self._do(f"mul i64 {group}, {self.lanes}")
        last = self._do(f"sub i64 %n, {self.lanes}")
        within = self._do(f"icmp slt i64 {whole}, {last}")
        return self._do(f"add i64 %first, {self._do(f'select i1 {within}, i64 {whole}, i64 {last}')}")

    def _operand(self, slot: str, workspace: str, repeated: str, n_places: str, row: str) -> tuple[str, str]:
        """Address of a place that is a slot or a constant, and how far its vectors are from one another."""
        wide = self._do(f"zext i32 {slot} to i64")
        if self.lanes == 1:
            return self.text.row(workspace, wide), "0"
        width = self.lanes * self.bytes
        beyond = self._do(f"sub i64 {wide}, {n_places}")
        is_slot = self._do(f"icmp slt i64 {beyond}, 0")
        base = self._do(f"select i1 {is_slot}, ptr {workspace}, ptr {repeated}")
        k = self._do(f"select i1 {is_slot}, i64 {wide}, i64 {beyond}")
        size = self._do(f"select i1 {is_slot}, i64 {row}, i64 {width}")
        step = self._do(f"select i1 {is_slot}, i64 {width}, i64 0")
        return self._do(f"getelementptr i8, ptr {base}, i64 {self._do(f'mul i64 {k}, {size}')}"), step

    # -- instructions ------------------------------------------------------------------------------------------------

    def _run(self, workspace: str, repeated: str, n_places: str, row: str, vectors: str) -> None:
        """Go through the code, run by run of instructions of a kind."""
        code = self._field(Field.CODE, "ptr")
        kinds = [ControlKind.COPY, ControlKind.SINCOS, *(op for op in Op if EMIT[op] is not None)]
        self._line("%passes = alloca i64", "store i64 0, ptr %passes", "br label %begin", "begin:", "br label %next")
        self._line("next:", "")
        at_next = len(self.text.lines) - 1
        comes_from = [(code, "begin")]
        kind = self._do("load i32, ptr %at")
        count = self._do(f"load i32, ptr {self._do('getelementptr i32, ptr %at, i64 1')}")
        body = self._do("getelementptr i32, ptr %at, i64 2")
        numbers = self._do(f"mul i64 {self._do(f'zext i32 {count} to i64')}, {WIDTH}")
        end = self._do(f"getelementptr i32, ptr {body}, i64 {numbers}")
        every = [*kinds, ControlKind.SKIP, ControlKind.AGAIN, ControlKind.END]
        self._line(f"switch i32 {kind}, label %impossible [", *(f"  i32 {x:d}, label %do{x:d}" for x in every), "]")
        self._line("impossible:", "unreachable")
        args = (workspace, repeated, n_places, row)
        for x in kinds:
            name = f"do{x:d}"
            self._line(f"{name}:", f"br label %{name}.each", f"{name}.each:")
            p = f"%{name}.p"
            self._line(f"{p} = phi ptr [ {body}, %{name} ], [ {p}.next, %{name}.last ]")
            made, *operands = self._operands(p)
            n = 1 if x in (ControlKind.COPY, ControlKind.SINCOS) else arity(x)
            places = [self._operand(operand, *args) for operand in operands[:n]]
            goals = [self._target(made, workspace, row)]
            if x == ControlKind.SINCOS:
                goals.append(self._target(operands[1], workspace, row))
            self._for_vectors(x, places, goals, vectors)
            self._line(f"br label %{name}.last", f"{name}.last:")
            self._line(f"{p}.next = getelementptr i32, ptr {p}, i64 {WIDTH}")
            finished = self._do(f"icmp eq ptr {p}.next, {end}")
            self._line(f"br i1 {finished}, label %{name}.done, label %{name}.each", f"{name}.done:", "br label %next")
            comes_from.append((end, f"{name}.done"))
        self._line(f"do{ControlKind.SKIP:d}:")
        distance, flag, times, _ = self._operands(body)
        is_set = self._in_all(flag, workspace, row, vectors)
        comes_from.append((self._jump(is_set, end, distance), "skip.done"))
        self._line("br label %skip.done", "skip.done:", "br label %next", f"do{ControlKind.AGAIN:d}:")
        distance, flag, times, _ = self._operands(body)
        passes = self._do(f"add i64 {self._do('load i64, ptr %passes')}, 1")
        is_last = self._do(f"icmp eq i64 {passes}, {self._do(f'zext i32 {times} to i64')}")
        ends = self._do(f"or i1 {is_last}, {self._in_all(flag, workspace, row, vectors)}")
        self._line(f"store i64 {self._do(f'select i1 {ends}, i64 0, i64 {passes}')}, ptr %passes")
        comes_from.append((self._jump(self._do(f"xor i1 {ends}, true"), end, distance), "again.done"))
        self._line("br label %again.done", "again.done:", "br label %next", f"do{ControlKind.END:d}:")
        self.text.lines[at_next] = f"%at = phi ptr {', '.join(f'[ {x}, %{block} ]' for x, block in comes_from)}"

    def _operands(self, p: str) -> list[str]:
        """Numbers of the instruction at an address."""
        return [self._do(f"load i32, ptr {self._do(f'getelementptr i32, ptr {p}, i64 {k}')}") for k in range(WIDTH)]

    def _jump(self, condition: str, end: str, distance: str) -> str:
        """Where the code goes on: so many numbers behind, where a condition holds."""
        there = self._do(f"getelementptr i32, ptr {end}, i64 {self._do(f'sext i32 {distance} to i64')}")
        return self._do(f"select i1 {condition}, ptr {there}, ptr {end}")

    def _target(self, slot: str, workspace: str, row: str) -> str:
        wide = self._do(f"zext i32 {slot} to i64")
        if self.lanes == 1:
            return self.text.row(workspace, wide)
        return self._do(f"getelementptr i8, ptr {workspace}, i64 {self._do(f'mul i64 {wide}, {row}')}")

    def _for_vectors(self, kind: int, places: list[tuple[str, str]], goals: list[str], vectors: str) -> None:
        """An operation for all vectors of its rows."""
        if self.lanes == 1:
            self._emit(kind, [self.text.load(place) for place, _ in places], goals)
            return
        name, width = self._label("over"), self.lanes * self.bytes
        end = self._do(f"getelementptr i8, ptr {goals[0]}, i64 {self._do(f'mul i64 {vectors}, {width}')}")
        self._line(f"br label %{name}.start", f"{name}.start:", f"br label %{name}", f"{name}:")
        pointers = []
        for k, (start, step) in enumerate([*places, *((goal, str(width)) for goal in goals)]):
            p = f"%{name}.p{k}"
            self._line(f"{p} = phi ptr [ {start}, %{name}.start ], [ {p}.next, %{name} ]")
            pointers.append((p, step))
        n = len(places)
        at = [[p for p, _ in pointers]]
        for _ in range(self.together - 1 if kind in COMMON else 0):
            pairs = zip(at[-1], pointers, strict=True)
            at.append([self._do(f"getelementptr i8, ptr {p}, i64 {step}") for p, (_, step) in pairs])
        loaded = [[self.text.load(p) for p in some[:n]] for some in at]
        for values, some in zip(loaded, at, strict=True):
            self._emit(kind, values, some[n:])
        for k, (p, step) in enumerate(pointers):
            self._line(f"{p}.next = getelementptr i8, ptr {at[-1][k]}, i64 {step}")
        finished = self._do(f"icmp eq ptr %{name}.p{n}.next, {end}")
        self._line(f"br i1 {finished}, label %{name}.end, label %{name}", f"{name}.end:")

    def _emit(self, kind: int, values: list[str], goals: list[str]) -> None:
        emit = EMIT[kind]
        made = (emit(self.text, *values),) if emit else sincos(self.text, *values) if len(goals) > 1 else values
        for value, goal in zip(made, goals, strict=True):
            self.text.store(value, goal)

    def _in_all(self, slot: str, workspace: str, row: str, vectors: str) -> str:
        """Whether a place is not zero in all states."""
        target = self._target(slot, workspace, row)
        if self.lanes == 1:
            return self.text.compare("une", self.text.load(target), self.text.constant(0.0))
        name = self._label("all")
        self._line(f"br label %{name}.start", f"{name}.start:", f"br label %{name}", f"{name}:")
        self._line(f"%{name}.k = phi i64 [ 0, %{name}.start ], [ %{name}.next, %{name} ]")
        self._line(f"%{name}.found = phi i1 [ true, %{name}.start ], [ %{name}.both, %{name} ]")
        value = self.text.load(self._do(f"getelementptr {self.text.vector}, ptr {target}, i64 %{name}.k"))
        bits = self.text.compare("une", value, self.text.constant(0.0))
        whole = self._do(f"icmp eq i{self.lanes} {self._do(f'bitcast {self.text.mask} {bits} to i{self.lanes}')}, -1")
        self._line(f"%{name}.both = and i1 %{name}.found, {whole}", f"%{name}.next = add i64 %{name}.k, 1")
        finished = self._do(f"icmp eq i64 %{name}.next, {vectors}")
        self._line(f"br i1 {finished}, label %{name}.end, label %{name}", f"{name}.end:")
        return f"%{name}.both"


# -- programs --------------------------------------------------------------------------------------------------------


_KEPT: list[ObjectCode] = []
"""Copies of the machine, which stay: of objects that are garbage together, a program may outlive the last copy."""


@cache
def _copies(dtype: str, this: Host) -> tuple[bytes, list[tuple[ObjectCode, int]]]:
    """Object code of the machine for numbers of a type; and places that are free in copies of it, with the copy."""
    asked = "double" if dtype == "float64" else "float", this.lanes(dtype), this.has_fma
    processor = f"{this.triple} {this.cpu} {this.features}"
    key = disk.cache_key(evaluator=repr(asked), processor=processor, versions=f"{versions()} {disk.sources()}")
    return disk.fetch(key, lambda: object_code(machine(*asked)), f"the evaluator of programs in {dtype}"), []


class Evaluated:
    """A program that the evaluator runs; it stands where machine code does.

    Parameters
    ----------
    content : bytes
        See `laid_out`.
    sizes : sequence of int
        Numbers of a state in each argument and result, of which ``n_arguments`` are arguments.
    dtype : str
    """

    def __init__(self, content: bytes, sizes: tuple[int, ...], n_arguments: int, dtype: str) -> None:
        head, _, body = content.partition(b"\n")
        n_places, n_constants, n_code = json.loads(head)
        with np.errstate(over="ignore"):
            constants = np.frombuffer(body[: 8 * n_constants], dtype=np.float64).astype(dtype)
        code, results = np.split(np.frombuffer(body[8 * n_constants :], dtype=np.int32).copy(), [n_code])
        lanes = host().lanes(dtype)
        states = max(2 * lanes, min(BLOCK, WORKSPACE // max(1, n_places * constants.itemsize)) // lanes * lanes)
        self._kept = code, results, constants, np.array(sizes, dtype=np.int64)
        fields = {
            Field.CODE: code.ctypes.data, Field.CONSTANTS: constants.ctypes.data,
            Field.N_CONSTANTS: n_constants, Field.PLACES: n_places,
            Field.RESULTS: results.ctypes.data, Field.SIZES: self._kept[-1].ctypes.data,
            Field.ARRAYS: len(sizes), Field.ARGUMENTS: n_arguments, Field.MOST_STATES: states,
        }  # fmt: skip
        self._record = np.array([fields[field] for field in Field], dtype=np.int64)
        content, self._free = _copies(dtype, host())
        if not self._free:
            copy = ObjectCode(content)
            _KEPT.append(copy)
            self._free += [(copy, k) for k in range(PROGRAMS)]
        self._code, self._k = self._free.pop()
        place = self._code.address_of_data("programs") + 8 * self._k
        ctypes.c_int64.from_address(place).value = self._record.ctypes.data
        self._span = self._code.address(f"span{self._k}")

    def __del__(self) -> None:
        if hasattr(self, "_k"):
            self._free.append((self._code, self._k))

    def address(self, function: str) -> int:
        """Address of ``span``."""
        assert function == "span", function
        return self._span


def laid_out(program: Program) -> bytes:
    """A program as the evaluator takes it: how much there is, and its arrays."""
    made = instructions(program)
    head = json.dumps([made.n_places, len(made.constants), len(made.code)]).encode() + b"\n"
    return head + b"".join(x.tobytes() for x in (made.constants, made.code, made.results))
