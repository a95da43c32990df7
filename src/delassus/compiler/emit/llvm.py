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

from collections.abc import Callable

from delassus.compiler.emit.llvm_text import LlvmText
from delassus.compiler.emit.python_entry import python_entry
from delassus.compiler.emit.trig import atan2, sincos
from delassus.compiler.graph import Graph, Op
from delassus.compiler.program import Program

ATTRIBUTES = '"prefer-vector-width"="512" nounwind'


def llvm_module(program: Program, scalar: str, lanes: int, has_fma: bool) -> str:
    """Assembly of all functions for one number type; ``lanes`` of 1 leaves out the lane code."""
    declarations: set[str] = set()
    functions = [_one(program, scalar, has_fma, declarations)]
    if lanes > 1:
        functions.append(_block(program, scalar, lanes, has_fma, declarations))
    functions += [_batch(program, scalar, lanes), python_entry(program)]
    return "\n\n".join([*sorted(declarations), *functions]) + "\n"


def _pointers(program: Program) -> list[str]:
    return [f"%a{i}" for i in range(len(program.arguments))] + [f"%r{i}" for i in range(len(program.results))]


def _signature(program: Program) -> str:
    inputs = [f"ptr noalias readonly %a{i}" for i in range(len(program.arguments))]
    return ", ".join([*inputs, *(f"ptr noalias %r{i}" for i in range(len(program.results)))])


def _one(program: Program, scalar: str, has_fma: bool, declarations: set[str]) -> str:
    text = LlvmText(1, scalar)
    where = [(i, k) for i, argument in enumerate(program.arguments) for k in range(argument.size)]

    def load(index: int) -> str:
        argument, entry = where[index]
        address = text.instruction(f"getelementptr {scalar}, ptr %a{argument}, i64 {entry}")
        return text.instruction(f"load {scalar}, ptr {address}")

    values = _operations(text, program.graph, load, has_fma)
    flat = [values[k] for group in program.graph.outputs for k in group.tolist()]
    for r, result in enumerate(program.results):
        for position, entry in enumerate(result.entries):
            address = text.instruction(f"getelementptr {scalar}, ptr %r{r}, i64 {position}")
            text.lines.append(f"store {scalar} {flat[entry]}, ptr {address}")
    declarations |= text.declarations
    return _function("one", _signature(program), text)


def _block(program: Program, scalar: str, lanes: int, has_fma: bool, declarations: set[str]) -> str:
    text = LlvmText(lanes, scalar)
    buffers: list[str] = []
    used = set(program.graph.a[program.graph.op == Op.INPUT].tolist())
    start = 0
    for i, argument in enumerate(program.arguments):
        wanted = {k - start for k in used if start <= k < start + argument.size}
        buffers.extend(_transposed_rows(text, f"%a{i}", argument.size, wanted))
        start += argument.size

    def load(index: int) -> str:
        return text.instruction(f"load {text.vector}, ptr {buffers[index]}")

    values = _operations(text, program.graph, load, has_fma)
    flat = [values[k] for group in program.graph.outputs for k in group.tolist()]
    for r, result in enumerate(program.results):
        _store_rows(text, f"%r{r}", [flat[entry] for entry in result.entries])
    declarations |= text.declarations
    return _function("block", _signature(program), text)


def _function(name: str, signature: str, text: LlvmText) -> str:
    body = "\n".join(f"  {line}" for line in text.lines)
    return f"define void @{name}({signature}) {ATTRIBUTES} {{\n{body}\n  ret void\n}}"


_BINARY = {Op.ADD: "fadd", Op.SUBTRACT: "fsub", Op.MULTIPLY: "fmul", Op.DIVIDE: "fdiv"}
_COMPARE = {Op.LESS: "olt", Op.LESS_EQUAL: "ole", Op.EQUAL: "oeq", Op.NOT_EQUAL: "une"}
_INTRINSIC = {Op.SQRT: "sqrt", Op.FABS: "fabs", Op.COPYSIGN: "copysign", Op.MIN: "minnum", Op.MAX: "maxnum"}


def _operations(text: LlvmText, graph: Graph, load: Callable[[int], str], has_fma: bool) -> list[str]:
    """Emit all nodes in their order; returns the operand of each."""
    values: list[str] = []
    pairs: dict[int, tuple[str, str]] = {}
    zero, one = text.constant(0.0), text.constant(1.0)
    op, a, b, c = graph.op.tolist(), graph.a.tolist(), graph.b.tolist(), graph.c.tolist()
    for k, kind in enumerate(op):
        if kind == Op.INPUT:
            values.append(load(a[k]))
        elif kind == Op.CONSTANT:
            values.append(text.constant(float(graph.value[k])))
        elif kind in _BINARY:
            values.append(text.binary(_BINARY[Op(kind)], values[a[k]], values[b[k]]))
        elif kind == Op.NEGATE:
            values.append(text.negate(values[a[k]]))
        elif kind in (Op.SIN, Op.COS):
            if a[k] not in pairs:
                pairs[a[k]] = sincos(text, values[a[k]], has_fma)
            values.append(pairs[a[k]][0 if kind == Op.SIN else 1])
        elif kind == Op.ATAN2:
            values.append(atan2(text, values[a[k]], values[b[k]]))
        elif kind in _INTRINSIC:
            operands = [values[x] for x in (a[k], b[k]) if x >= 0]
            values.append(text.intrinsic(_INTRINSIC[Op(kind)], *operands))
        elif kind in _COMPARE:
            values.append(text.select(text.compare(_COMPARE[Op(kind)], values[a[k]], values[b[k]]), one, zero))
        elif kind == Op.NOT:
            values.append(text.select(text.compare("oeq", values[a[k]], zero), one, zero))
        elif kind in (Op.AND, Op.OR):
            masks = [text.compare("une", values[x], zero) for x in (a[k], b[k])]
            both = text.instruction(f"{'and' if kind == Op.AND else 'or'} {text.mask} {masks[0]}, {masks[1]}")
            values.append(text.select(both, one, zero))
        else:
            assert kind == Op.SELECT
            mask = text.compare("une", values[a[k]], zero)
            values.append(text.select(mask, values[b[k]], values[c[k]]))
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
