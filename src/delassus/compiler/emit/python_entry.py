"""An entry that Python calls directly with NumPy arrays: it checks them and runs the kernel, with no wrapper between.

The function follows CPython's fast-call convention (``METH_FASTCALL``) and reads the fields of array objects at the
offsets that NumPy's C interface fixes; `delassus.runtime.fastcall` checks these offsets before it uses the entry. It
declines, by returning its first argument, whatever is not a C-contiguous, aligned array of the right type and shape,
results that share memory with another array, and batches above a limit; the caller then takes the general path.

A program's hidden result, its smallest pivot, stays inside: where that of a state is below the limit in the table, or a
number that is watched is not finite, the entry returns its table, and the general path does it all again. Otherwise it
returns the last result.
"""

from __future__ import annotations

from math import prod

from delassus.compiler.emit.llvm_loops import watched
from delassus.compiler.program import Program

OBJECT_TYPE, DATA, DIMENSIONS_COUNT, DIMENSIONS, DESCRIPTOR, FLAGS = 8, 16, 24, 32, 56, 64
"""Offsets in an array object (64-bit): type, data, nd, dimensions, descr, flags."""

TABLE = 32
"""Offset of the contents in a bytes object."""

LEAST = 16
"""Offset of the least pivot in the table."""

READABLE, WRITEABLE = 0x1 | 0x100, 0x1 | 0x100 | 0x400
"""C-contiguous and aligned; the same and writeable."""

LIMIT = 64
"""States above which the general path (which releases the interpreter lock and uses threads) takes over."""


def python_entry(program: Program, item_size: int) -> str:
    """Assembly of ``call(self, args, nargs)``; ``self`` is a bytes object: array type, descriptor, least pivot.

    ``item_size`` is the size of a number in bytes.
    """
    shown = [r.shape for r in program.results if not r.hidden]
    shapes = [a.shape for a in program.arguments] + shown
    n_inputs, is_judged = len(program.arguments), len(shown) < len(program.results)
    number = "double" if item_size == 8 else "float"
    lines: list[str] = []

    def field(name: str, base: str, offset: int, kind: str) -> str:
        lines.append(f"  {name}.at = getelementptr i8, ptr {base}, i64 {offset}")
        lines.append(f"  {name} = load {kind}, ptr {name}.at")
        return name

    lines += ["define ptr @call(ptr %self, ptr %args, i64 %nargs) nounwind {", "entry:"]
    if is_judged:
        lines.append(f"  %pivots = alloca {number}, i64 {LIMIT}, align 64")
    field("%first", "%args", 0, "ptr")
    field("%array.type", "%self", TABLE, "ptr")
    field("%descriptor", "%self", TABLE + 8, "ptr")
    lines += [
        f"  %complete = icmp eq i64 %nargs, {len(shapes)}",
        "  br i1 %complete, label %check0, label %decline",
    ]
    for k, shape in enumerate(shapes):
        lines.append(f"check{k}:")
        p = field(f"%p{k}", "%args", 8 * k, "ptr")
        kind = field(f"%type{k}", p, OBJECT_TYPE, "ptr")
        lines += [
            f"  %is.array{k} = icmp eq ptr {kind}, %array.type",
            f"  br i1 %is.array{k}, label %fields{k}, label %decline",
        ]
        lines.append(f"fields{k}:")
        descriptor = field(f"%descr{k}", p, DESCRIPTOR, "ptr")
        flags = field(f"%flags{k}", p, FLAGS, "i32")
        count = field(f"%nd{k}", p, DIMENSIONS_COUNT, "i32")
        dims = field(f"%dims{k}", p, DIMENSIONS, "ptr")
        wanted = READABLE if k < n_inputs else WRITEABLE
        if k == 0:
            lines += [
                f"  %batched = icmp eq i32 {count}, {len(shape) + 1}",
                "  %extra = zext i1 %batched to i32",
                "  %skip = zext i1 %batched to i64",
            ]
        lines += [
            f"  %right.type{k} = icmp eq ptr {descriptor}, %descriptor",
            f"  %masked{k} = and i32 {flags}, {wanted}",
            f"  %right.flags{k} = icmp eq i32 %masked{k}, {wanted}",
            f"  %ndim{k} = add i32 %extra, {len(shape)}",
            f"  %right.count{k} = icmp eq i32 {count}, %ndim{k}",
            f"  %ok{k}.a = and i1 %right.type{k}, %right.flags{k}",
            f"  %ok{k}.b = and i1 %ok{k}.a, %right.count{k}",
            f"  br i1 %ok{k}.b, label %shape{k}, label %decline",
            f"shape{k}:",
        ]
        previous = "true"
        for d, size in enumerate(shape):
            name = f"%d{k}.{d}"
            lines += [
                f"  {name}.index = add i64 %skip, {d}",
                f"  {name}.at = getelementptr i64, ptr {dims}, i64 {name}.index",
                f"  {name} = load i64, ptr {name}.at",
                f"  {name}.right = icmp eq i64 {name}, {size}",
                f"  {name}.ok = and i1 {previous}, {name}.right",
            ]
            previous = f"{name}.ok"
        following = f"check{k + 1}" if k + 1 < len(shapes) else "run"
        if k == 0:
            lines += [
                f"  br i1 {previous}, label %length, label %decline",
                "length:",
                "  br i1 %batched, label %many, label %counted",
                "many:",
                f"  %rows = load i64, ptr {dims}",
                "  br label %counted",
                "counted:",
                "  %n = phi i64 [ 1, %length ], [ %rows, %many ]",
                f"  %few = icmp sle i64 %n, {LIMIT}",
                f"  br i1 %few, label %{following}, label %decline",
            ]
            continue
        lines += [
            f"  br i1 {previous}, label %batch{k}, label %decline",
            f"batch{k}:",
            f"  br i1 %batched, label %rows{k}, label %{following}",
            f"rows{k}:",
            f"  %n{k} = load i64, ptr {dims}",
            f"  %same{k} = icmp eq i64 %n{k}, %n",
            f"  br i1 %same{k}, label %{following}, label %decline",
        ]
    lines.append("run:")
    data = [f"ptr {field(f'%data{k}', f'%p{k}', DATA, 'ptr')}" for k in range(len(shapes))]
    for k, shape in enumerate(shapes):
        lines += [
            f"  %size{k} = mul i64 %n, {prod(shape) * item_size}",
            f"  %end{k} = getelementptr i8, ptr %data{k}, i64 %size{k}",
        ]
    apart = "true"
    for k in range(n_inputs, len(shapes)):
        for other in range(k):
            name = f"%apart{k}.{other}"
            lines += [
                f"  {name}.below = icmp ule ptr %end{k}, %data{other}",
                f"  {name}.above = icmp ule ptr %end{other}, %data{k}",
                f"  {name}.either = or i1 {name}.below, {name}.above",
                f"  {name} = and i1 {apart}, {name}.either",
            ]
            apart = name
    lines += [f"  br i1 {apart}, label %go, label %decline", "go:"]
    result = f"%p{len(shapes) - 1}"
    pointers = [*data, "ptr %pivots"] if is_judged else data
    lines.append(f"  call void @batch(i64 %n, {', '.join(pointers)})")
    if is_judged:
        lines += [
            f"  %least.at = getelementptr i8, ptr %self, i64 {TABLE + LEAST}",
            f"  %least = load {number}, ptr %least.at",
            f"  %doubtful = call i1 @doubtful(i64 %n, {number} %least, ptr %pivots, ptr %data{watched(program)})",
            "  br i1 %doubtful, label %doubt, label %settled",
            "doubt:",
            "  %doubts = load i64, ptr %self",
            "  %doubts.more = add i64 %doubts, 1",
            "  store i64 %doubts.more, ptr %self",
            "  ret ptr %self",
            "settled:",
        ]
    lines += [
        f"  %references = load i64, ptr {result}",
        "  %more = add i64 %references, 1",
        f"  store i64 %more, ptr {result}",
        f"  ret ptr {result}",
        "decline:",
        "  %count = load i64, ptr %first",
        "  %count.more = add i64 %count, 1",
        "  store i64 %count.more, ptr %first",
        "  ret ptr %first",
        "}",
    ]
    return "\n".join(lines)
