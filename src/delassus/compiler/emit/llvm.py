"""LLVM assembly of a kernel: one-state code, lane code, a batch loop, and an entry that reads NumPy arrays itself.

The functions of the module, for arguments ``a0, a1, …`` and results ``r0, r1, …`` (row-major, state after state):

=====================================  ==========================================================================
``one(a0, …, r0, …)``                  one state, scalars: least latency
``block(a0, …, r0, …)``                as many states as there are lanes; rows are transposed to lanes inside
``batch(n, a0, …, r0, …)``             n states: whole blocks, the last one overlapping the one before it
``call(self, args, nargs)``            one or a few states, straight from Python; see `delassus.runtime.fastcall`
=====================================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from delassus.compiler.cut import Part, cut, operands_of
from delassus.compiler.emit.llvm_text import LlvmText
from delassus.compiler.emit.python_entry import python_entry
from delassus.compiler.emit.trig import atan2, sincos
from delassus.compiler.graph import Graph, Op
from delassus.compiler.program import Program

UNCUT = 20_000
"""Longest program, in operations, that stays one function: values then stay in registers across the whole of it."""

PART = 2_500
"""Operations of one function of a longer program."""

ATTRIBUTES = '"prefer-vector-width"="512" nounwind'


def llvm_module(program: Program, scalar: str, lanes: int, has_fma: bool) -> str:
    """Assembly of all functions for one number type; ``lanes`` of 1 leaves out the lane code."""
    declarations: set[str] = set()
    functions: list[str] = []
    for width in (1, lanes) if lanes > 1 else (1,):
        functions += _Function(program, scalar, width, has_fma, declarations).assembly()
    functions += [_batch(program, scalar, lanes), python_entry(program)]
    return "\n\n".join([*sorted(declarations), *functions]) + "\n"


def _pointers(program: Program) -> list[str]:
    return [f"%a{i}" for i in range(len(program.arguments))] + [f"%r{i}" for i in range(len(program.results))]


def _signature(program: Program) -> str:
    inputs = [f"ptr noalias readonly %a{i}" for i in range(len(program.arguments))]
    return ", ".join([*inputs, *(f"ptr noalias %r{i}" for i in range(len(program.results)))])


class _Function:
    """``one`` or ``block``: rows in, operations (in parts, if there are many), rows out."""

    def __init__(self, program: Program, scalar: str, lanes: int, has_fma: bool, declarations: set[str]) -> None:
        self.program, self.scalar, self.lanes, self.has_fma = program, scalar, lanes, has_fma
        self.declarations = declarations
        self.name = "one" if lanes == 1 else "block"
        self.flat = [int(k) for group in program.graph.outputs for k in group.tolist()]

    def assembly(self) -> list[str]:
        """The function, after those that it calls."""
        parts, n_slots = cut(self.program.graph, self.flat, UNCUT, PART)
        text = LlvmText(self.lanes, self.scalar)
        addresses = self._input_addresses(text)
        if len(parts) == 1:
            values = self._emit(text, range(len(self.program.graph)), lambda k: self._load(text, addresses[k]))
            before: list[str] = []
        else:
            values, before = self._in_parts(text, parts, n_slots, addresses)
        for r, result in enumerate(self.program.results):
            _store_rows(text, f"%r{r}", [values[self.flat[entry]] for entry in result.entries])
        self.declarations |= text.declarations
        return [*before, _define(self.name, _signature(self.program), text)]

    def _input_addresses(self, text: LlvmText) -> list[str]:
        """Where each input is, one after the other through all arguments; by lanes, if there are any."""
        graph = self.program.graph
        used = set(graph.a[graph.op == Op.INPUT].tolist())
        addresses: list[str] = []
        for i, argument in enumerate(self.program.arguments):
            start = len(addresses)
            if self.lanes == 1:
                addresses += [_row(text, f"%a{i}", k) for k in range(argument.size)]
            else:
                wanted = {k - start for k in used if start <= k < start + argument.size}
                addresses += _transposed_rows(text, f"%a{i}", argument.size, wanted)
        return addresses

    def _load(self, text: LlvmText, address: str) -> str:
        return text.instruction(f"load {text.vector}, ptr {address}")

    def _emit(self, text: LlvmText, nodes: Iterable[int], load: Callable[[int], str]) -> dict[int, str]:
        return _operations(text, self.program.graph, nodes, {}, load, self.has_fma)

    def _in_parts(
        self, text: LlvmText, parts: list[Part], n_slots: int, addresses: list[str]
    ) -> tuple[dict[int, str], list[str]]:
        """Call one function a part; inputs, crossing values and outputs are in workspaces by lanes."""
        graph = self.program.graph
        inputs = self._workspace(text, len(addresses))
        for k in sorted(set(graph.a[graph.op == Op.INPUT].tolist())):
            text.lines.append(f"store {text.vector} {self._load(text, addresses[k])}, ptr {_slot(text, inputs, k)}")
        crossing, results = self._workspace(text, max(n_slots, 1)), self._workspace(text, len(self.flat))
        place = {k: position for position, k in enumerate(self.flat)}
        functions = []
        for number, part in enumerate(parts):
            inner = LlvmText(self.lanes, self.scalar)
            here = set(part.nodes)
            operands = {x for k in part.nodes for x in operands_of(graph, k)}
            leaves = [x for x in sorted(operands - here) if graph.op[x] < Op.ADD]
            known = {x: self._load(inner, _slot(inner, "%w", slot)) for x, slot in part.loads.items()}
            values = _operations(inner, graph, [*leaves, *part.nodes], known, self._reader(inner, "%x"), self.has_fma)
            for base, stored in (("%w", part.stores), ("%y", {k: place[k] for k in part.nodes if k in place})):
                for k, slot in stored.items():
                    inner.lines.append(f"store {inner.vector} {values[k]}, ptr {_slot(inner, base, slot)}")
            name = f"{self.name}_part{number}"
            functions.append(_define(name, "ptr noalias %x, ptr noalias %w, ptr noalias %y", inner, "noinline "))
            self.declarations |= inner.declarations
            text.lines.append(f"call void @{name}(ptr {inputs}, ptr {crossing}, ptr {results})")
        outside = [k for k in place if graph.op[k] < Op.ADD]
        values = _operations(text, graph, outside, {}, self._reader(text, inputs), self.has_fma)
        for k, position in place.items():
            if graph.op[k] >= Op.ADD:
                values[k] = self._load(text, _slot(text, results, position))
        return values, functions

    def _reader(self, text: LlvmText, base: str) -> Callable[[int], str]:
        return lambda k: self._load(text, _slot(text, base, k))

    def _workspace(self, text: LlvmText, size: int) -> str:
        return text.instruction(f"alloca {text.vector}, i64 {max(size, 1)}, align {self.lanes * text.bits // 8}")


def _slot(text: LlvmText, base: str, k: int) -> str:
    return text.instruction(f"getelementptr {text.vector}, ptr {base}, i64 {k}")


def _define(name: str, signature: str, text: LlvmText, attributes: str = "") -> str:
    body = "\n".join(f"  {line}" for line in text.lines)
    return f"define void @{name}({signature}) {attributes}{ATTRIBUTES} {{\n{body}\n  ret void\n}}"


_BINARY = {Op.ADD: "fadd", Op.SUBTRACT: "fsub", Op.MULTIPLY: "fmul", Op.DIVIDE: "fdiv"}
_COMPARE = {Op.LESS: "olt", Op.LESS_EQUAL: "ole", Op.EQUAL: "oeq", Op.NOT_EQUAL: "une"}
_INTRINSIC = {Op.SQRT: "sqrt", Op.FABS: "fabs", Op.COPYSIGN: "copysign", Op.MIN: "minnum", Op.MAX: "maxnum"}


def _operations(
    text: LlvmText,
    graph: Graph,
    nodes: Iterable[int],
    known: dict[int, str],
    load: Callable[[int], str],
    has_fma: bool,
) -> dict[int, str]:
    """Emit ``nodes`` in their order, given the operands of ``known`` ones; returns the operand of each."""
    values = dict(known)
    pairs: dict[int, tuple[str, str]] = {}
    zero, one = text.constant(0.0), text.constant(1.0)
    op, a, b, c = graph.op.tolist(), graph.a.tolist(), graph.b.tolist(), graph.c.tolist()
    for k in nodes:
        kind = op[k]
        if kind == Op.INPUT:
            values[k] = load(a[k])
        elif kind == Op.CONSTANT:
            values[k] = text.constant(float(graph.value[k]))
        elif kind in _BINARY:
            values[k] = text.binary(_BINARY[Op(kind)], values[a[k]], values[b[k]])
        elif kind == Op.NEGATE:
            values[k] = text.negate(values[a[k]])
        elif kind in (Op.SIN, Op.COS):
            if a[k] not in pairs:
                pairs[a[k]] = sincos(text, values[a[k]], has_fma)
            values[k] = pairs[a[k]][0 if kind == Op.SIN else 1]
        elif kind == Op.ATAN2:
            values[k] = atan2(text, values[a[k]], values[b[k]])
        elif kind in _INTRINSIC:
            operands = [values[x] for x in (a[k], b[k]) if x >= 0]
            values[k] = text.intrinsic(_INTRINSIC[Op(kind)], *operands)
        elif kind in _COMPARE:
            values[k] = text.select(text.compare(_COMPARE[Op(kind)], values[a[k]], values[b[k]]), one, zero)
        elif kind == Op.NOT:
            values[k] = text.select(text.compare("oeq", values[a[k]], zero), one, zero)
        elif kind in (Op.AND, Op.OR):
            masks = [text.compare("une", values[x], zero) for x in (a[k], b[k])]
            both = text.instruction(f"{'and' if kind == Op.AND else 'or'} {text.mask} {masks[0]}, {masks[1]}")
            values[k] = text.select(both, one, zero)
        else:
            assert kind == Op.SELECT
            mask = text.compare("une", values[a[k]], zero)
            values[k] = text.select(mask, values[b[k]], values[c[k]])
    return values


# -- rows of states to lanes and back ------------------------------------------------------------------------------


def _transpose(text: LlvmText, rows: list[str]) -> list[str]:
    """Transpose a square block of as many vectors as there are lanes."""
    lanes = text.lanes
    distance = lanes // 2
    while distance:
        new = list(rows)
        low = [i if not i & distance else i - distance + lanes for i in range(lanes)]
        high = [i + distance if not i & distance else i + lanes for i in range(lanes)]
        for i in range(lanes):
            if i & distance:
                continue
            first, second = rows[i], rows[i + distance]
            for position, mask in ((i, low), (i + distance, high)):
                shown = ", ".join(f"i32 {m}" for m in mask)
                new[position] = text.instruction(
                    f"shufflevector {text.vector} {first}, {text.vector} {second}, <{lanes} x i32> <{shown}>"
                )
        rows = new
        distance //= 2
    return rows


def _row(text: LlvmText, base: str, offset: int) -> str:
    return text.instruction(f"getelementptr {text.scalar}, ptr {base}, i64 {offset}")


def _alignment(text: LlvmText) -> int:
    return text.bits // 8


def _transposed_rows(text: LlvmText, base: str, size: int, wanted: set[int]) -> list[str]:
    """Copy the rows of ``lanes`` states into a workspace by lanes; returns the address of each entry."""
    lanes = text.lanes
    buffer = text.instruction(f"alloca {text.vector}, i64 {size}, align {lanes * _alignment(text)}")
    addresses = [text.instruction(f"getelementptr {text.vector}, ptr {buffer}, i64 {k}") for k in range(size)]
    covered: set[int] = set()
    if size >= lanes:
        for first in [*range(0, size - lanes + 1, lanes), *([size - lanes] if size % lanes else [])]:
            mine = set(range(first, first + lanes)) - covered
            if not mine & wanted:
                continue
            rows = [
                text.instruction(
                    f"load {text.vector}, ptr {_row(text, base, s * size + first)}, align {_alignment(text)}"
                )
                for s in range(lanes)
            ]
            for k, vector in enumerate(_transpose(text, rows)):
                if first + k in mine & wanted:
                    text.lines.append(f"store {text.vector} {vector}, ptr {addresses[first + k]}")
            covered |= mine
        return addresses
    for k in sorted(wanted):
        vector = "poison"
        for s in range(lanes):
            number = text.instruction(f"load {text.scalar}, ptr {_row(text, base, s * size + k)}")
            vector = text.instruction(f"insertelement {text.vector} {vector}, {text.scalar} {number}, i64 {s}")
        text.lines.append(f"store {text.vector} {vector}, ptr {addresses[k]}")
    return addresses


def _store_rows(text: LlvmText, base: str, vectors: list[str]) -> None:
    """Store vectors by lanes as the rows of ``lanes`` states."""
    lanes, size = text.lanes, len(vectors)
    if lanes == 1:
        for k, vector in enumerate(vectors):
            text.lines.append(f"store {text.scalar} {vector}, ptr {_row(text, base, k)}")
        return
    if size >= lanes:
        for first in [*range(0, size - lanes + 1, lanes), *([size - lanes] if size % lanes else [])]:
            for s, vector in enumerate(_transpose(text, vectors[first : first + lanes])):
                address = _row(text, base, s * size + first)
                text.lines.append(f"store {text.vector} {vector}, ptr {address}, align {_alignment(text)}")
        return
    for k, vector in enumerate(vectors):
        for s in range(lanes):
            number = text.instruction(f"extractelement {text.vector} {vector}, i64 {s}")
            text.lines.append(f"store {text.scalar} {number}, ptr {_row(text, base, s * size + k)}")


# -- the loop over a batch -----------------------------------------------------------------------------------------


def _batch(program: Program, scalar: str, lanes: int) -> str:
    sizes = [a.size for a in program.arguments] + [r.size for r in program.results]
    pointers = _pointers(program)

    def step(label: str, index: str) -> tuple[list[str], str]:
        lines, operands = [], []
        for p, size in zip(pointers, sizes, strict=True):
            name = f"{p}.{label}"
            lines.append(f"  {name}.at = mul i64 {index}, {size}")
            lines.append(f"  {name} = getelementptr {scalar}, ptr {p}, i64 {name}.at")
            operands.append(f"ptr {name}")
        return lines, ", ".join(operands)

    one, one_operands = step("one", "%i")
    body = [f"define void @batch(i64 %n, {_signature(program)}) {ATTRIBUTES} {{", "entry:"]
    if lanes == 1:
        body += ["  br label %single"]
    else:
        block, block_operands = step("block", "%s")
        body += [
            f"  %few = icmp slt i64 %n, {lanes}",
            "  br i1 %few, label %single, label %whole",
            "whole:",
            f"  %last = sub i64 %n, {lanes}",
            "  br label %blocks",
            "blocks:",
            "  %s = phi i64 [ 0, %whole ], [ %next, %blocks ]",
            *block,
            f"  call void @block({block_operands})",
            f"  %further = add i64 %s, {lanes}",
            "  %past = icmp sgt i64 %further, %last",
            "  %next = select i1 %past, i64 %last, i64 %further",
            "  %done = icmp eq i64 %s, %last",
            "  br i1 %done, label %end, label %blocks",
        ]
    body += [
        "single:",
        "  %none = icmp sle i64 %n, 0",
        "  br i1 %none, label %end, label %singles",
        "singles:",
        "  %i = phi i64 [ 0, %single ], [ %i.next, %singles ]",
        *one,
        f"  call void @one({one_operands})",
        "  %i.next = add i64 %i, 1",
        "  %all = icmp eq i64 %i.next, %n",
        "  br i1 %all, label %end, label %singles",
        "end:",
        "  ret void",
        "}",
    ]
    return "\n".join(body)
