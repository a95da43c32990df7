"""An entry that Python calls directly with NumPy arrays: it checks them and runs the kernel, with no wrapper between.

The function follows CPython's fast-call convention (``METH_FASTCALL``) and reads the fields of array objects at the
offsets that NumPy's C interface fixes; `delassus.runtime.fastcall` checks these offsets before it uses the entry.
Called with arrays for the results, it returns the last of them; without, it makes them by NumPy's C interface, at cache
lines, and returns the one or a tuple. In place of an array of one number a state, a float, of Python or NumPy, stands
for all states.

It returns its table for whatever is not a C-contiguous, aligned array of the right type and shape, for results that
share memory with another array, and for batches above a limit; the caller then takes the general path. A program's
hidden result, the reciprocal condition, stays inside: where that of a state is below the limit in the table, the entry
returns its table as well, and the general path does it all again.

`called` is what a kernel has for its own call, with nothing in Python between: arguments by position, results as
``out``. All other calls, and those that the entry declines, go to the general path as they came.
"""

from __future__ import annotations

from math import prod

from delassus.compiler.program.program import Program

OBJECT_TYPE, DATA, DIMENSIONS_COUNT, DIMENSIONS, DESCRIPTOR, FLAGS = 8, 16, 24, 32, 56, 64
"""Offsets in an array object (64-bit): type, data, nd, dimensions, descr, flags."""

CONTENTS = 32
"""Offset of the contents in a bytes object, such as the table."""

VALUE, LENGTH, ITEMS = 16, 16, 24
"""Offsets of the number in a float object, and of the length and the items of a tuple."""

TABLE = (
    *("array_type", "descriptor", "least", "float_type", "bytes_descriptor"),
    *("new_array", "set_base", "new_tuple", "drop", "helper", "double_type"),
)
"""Fields of the table, 8 bytes each: types, descriptors, the least pivot, functions of NumPy and Python, and a helper
(`delassus.runtime.helper`), or NULL for one that stays on this thread; NumPy's type of a float."""

CALLED = ("general", "table", "out", "tuple_type", "vectorcall")
"""Fields of what `called` reads: the general path, the entry's table, the name "out", a type, a function of Python."""

READABLE, WRITEABLE = 0x1 | 0x100, 0x1 | 0x100 | 0x400
"""C-contiguous and aligned; the same and writeable."""

FEWEST, MOST, OPERATIONS = 64, 4096, 8_000_000
"""States up to which a call comes here: `FEWEST`, and up to `MOST` if they need fewer operations. The general path,
which releases the interpreter lock and may use more threads, takes 20 µs more."""

MOST_ALONE = 1024
"""States up to which a call without a helper comes here: other threads wait for the lock."""

HELPED = 2_500_000
"""Operations of a call from which it pays to share it, even with a helper that has to wake up."""

PART = 128
"""States that are run before the entry looks whether some of them are doubtful."""

LINE = 64
"""Bytes of a cache line."""


def limit(program: Program) -> int:
    """States above which the general path takes over."""
    return min(MOST, max(FEWEST, OPERATIONS // max(1, program.count().total)))


class _Lines(list[str]):
    """Lines of the function, and shorthands."""

    def field(self, name: str, base: str, offset: int, kind: str) -> str:
        """Load a field of a structure; returns ``name``."""
        self += [f"  {name}.at = getelementptr i8, ptr {base}, i64 {offset}", f"  {name} = load {kind}, ptr {name}.at"]
        return name

    def hold(self, name: str, what: str, more: int = 1) -> None:
        """Count one more reference to an object, or one less to one that has others."""
        self += [
            f"  {name}.references = load i64, ptr {what}",
            f"  {name}.more = add i64 {name}.references, {more}",
            f"  store i64 {name}.more, ptr {what}",
        ]


def python_entry(program: Program, item_size: int) -> str:
    """Assembly of ``call(self, args, nargs)``; ``self`` is a bytes object with what `TABLE` says.

    ``item_size`` is the size of a number in bytes.
    """
    shown = [r.shape for r in program.results if not r.hidden]
    shapes = [a.shape for a in program.arguments] + shown
    n_inputs, is_judged = len(program.arguments), len(shown) < len(program.results)
    number = "double" if item_size == 8 else "float"
    lines = _Lines(["define ptr @call(ptr %self, ptr %args, i64 %nargs) nounwind {", "entry:"])
    if is_judged:
        lines.append(f"  %pivots = alloca {number}, i64 {limit(program)}, align 64")
    lines.append(f"  %arrays = alloca ptr, i64 {len(shapes) + 1}")
    lines += [f"  %made = alloca ptr, i64 {len(shown)}", f"  %shape = alloca i64, i64 {1 + max(map(len, shown))}"]
    scalars = [k for k in range(1, n_inputs) if not shapes[k]]
    lines += [f"  %repeated{k} = alloca {number}, i64 {limit(program)}, align 64" for k in scalars]
    for position, name in enumerate(TABLE):
        lines.field(f"%{name}", "%self", CONTENTS + 8 * position, number if name == "least" else "ptr")
    lines += [
        f"  %given = icmp eq i64 %nargs, {len(shapes)}",
        f"  %wanted = icmp eq i64 %nargs, {n_inputs}",
        "  %complete = or i1 %given, %wanted",
        "  %alone = icmp eq ptr %helper, null",
        f"  %most = select i1 %alone, i64 {min(MOST_ALONE, limit(program))}, i64 {limit(program)}",
        "  br i1 %complete, label %check0, label %decline",
    ]
    for k, shape in enumerate(shapes):
        flags = READABLE if k < n_inputs else WRITEABLE
        _check(lines, k, shape, flags, number if k in scalars else None)
        if k == n_inputs - 1:
            lines += [f"  %size{j} = mul i64 %n, {prod(s) * item_size}" for j, s in enumerate(shapes)]
            lines.append(f"  br i1 %given, label %check{n_inputs}, label %make{n_inputs}")
        else:
            lines.append(f"  br label %{f'check{k + 1}' if k + 1 < len(shapes) else 'apart'}")

    # results that are given: apart from one another and from arguments
    lines.append("apart:")
    for k in range(len(shapes)):
        lines.append(f"  %end{k} = getelementptr i8, ptr %data{k}, i64 %size{k}")
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
    lines.append(f"  br i1 {apart}, label %go, label %decline")

    # results that are not: new arrays
    for k in range(n_inputs, len(shapes)):
        _make(lines, k, shapes[k], k - n_inputs)
        lines.append(f"  br label %{f'make{k + 1}' if k + 1 < len(shapes) else 'go'}")
    lines.append("go:")
    for k in range(n_inputs, len(shapes)):
        lines.append(f"  %result{k} = phi ptr [ %data{k}, %apart ], [ %start{k}, %made{len(shapes) - 1} ]")
    data = [f"ptr %data{k}" if k < n_inputs else f"ptr %result{k}" for k in range(len(shapes))]
    pointers = [*data, "ptr %pivots"] if is_judged else data
    strides = [prod(shape) * item_size for shape in shapes]
    _run(lines, pointers, strides, -(-HELPED // max(1, program.count().total)), number)
    lines += ["  br i1 %given, label %return.last, label %return.made", "return.last:"]
    lines.hold("%last", lines.field("%last", "%args", 8 * (len(shapes) - 1), "ptr"))
    lines += ["  ret ptr %last", "return.made:"]
    if len(shown) == 1:
        lines += ["  %only = load ptr, ptr %made", "  ret ptr %only"]
    else:
        lines += [
            f"  %tuple = call ptr %new_tuple(i64 {len(shown)})",
            "  %no.tuple = icmp eq ptr %tuple, null",
            "  br i1 %no.tuple, label %fail.all, label %fill",
            "fill:",
            f"  %items = getelementptr i8, ptr %tuple, i64 {ITEMS}",
            f"  call void @llvm.memcpy.p0.p0.i64(ptr %items, ptr %made, i64 {8 * len(shown)}, i1 false)",
            "  ret ptr %tuple",
            "fail.all:",
            f"  call void @drop_made(ptr %drop, ptr %made, i64 {len(shown)})",
            "  ret ptr null",
        ]
    lines += ["unwanted:", f"  call void @drop_made(ptr %drop, ptr %made, i64 {len(shown)})"]
    lines += ["  br label %decline", "decline:"]
    lines.hold("%table", "%self")
    lines += ["  ret ptr %self", "}", _DROP]
    if len(shown) > 1:
        lines.append("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
    return "\n".join(lines)


def _run(lines: _Lines, pointers: list[str], strides: list[int], least: int, number: str) -> None:
    """Run %n states, and look for doubtful ones if there is one more pointer than there are ``strides``.

    With the helper from ``least`` states on, if there is one; the general path starts it. Without, by parts, so that
    little is lost where the general path has to do all again.
    """
    is_judged = len(pointers) > len(strides)
    lines += [
        f"  %large = icmp sge i64 %n, {least}",
        "  %shared = select i1 %alone, i1 false, i1 %large",
        "  br i1 %shared, label %share, label %run",
        "share:",
        "  %share.it = load atomic ptr, ptr %helper seq_cst, align 8",
        "  %no.share = icmp eq ptr %share.it, null",
        "  br i1 %no.share, label %unready, label %ready",
        "unready:",
        "  br i1 %given, label %decline, label %unwanted",
        "ready:",
    ]
    for k, pointer in enumerate(pointers):
        lines += [f"  %operand{k} = getelementptr ptr, ptr %arrays, i64 {k}", f"  store {pointer}, ptr %operand{k}"]
    lines += [
        "  call void %share.it(ptr %helper, ptr @span, ptr %arrays, i64 %n)",
        f"  br label %{'look' if is_judged else 'ran'}",
        "run:",
    ]
    if not is_judged:
        lines += [f"  call void @batch(i64 %n, {', '.join(pointers)})", "  br label %ran", "ran:"]
        return
    lines += [
        "  br label %part",
        "part:",
        "  %from = phi i64 [ 0, %run ], [ %until, %after ]",
        "  %left = sub i64 %n, %from",
        f"  %small = icmp slt i64 %left, {PART}",
        f"  %size = select i1 %small, i64 %left, i64 {PART}",
        "  %to = add i64 %from, %size",
    ]
    own = [*strides, 0]  # of the pivots, those of one part are kept
    for k, (pointer, stride) in enumerate(zip(pointers, own, strict=True)):
        lines += [f"  %past{k} = mul i64 %from, {stride}", f"  %part{k} = getelementptr i8, {pointer}, i64 %past{k}"]
    lines += [
        f"  call void @batch(i64 %size, {', '.join(f'ptr %part{k}' for k in range(len(pointers)))})",
        "  br label %look",
        "look:",
        "  %seen = phi i64 [ %n, %ready ], [ %size, %part ]",
        "  %until = phi i64 [ %n, %ready ], [ %to, %part ]",
        f"  %doubtful = call i1 @doubtful(i64 %seen, {number} %least, {pointers[-1]})",
        "  br i1 %doubtful, label %doubt, label %after",
        "doubt:",
        "  br i1 %given, label %decline, label %unwanted",
        "after:",
        "  %more.parts = icmp slt i64 %until, %n",
        "  br i1 %more.parts, label %part, label %ran",
        "ran:",
    ]


def called(program: Program) -> str:
    """Assembly of ``called(self, args, nargs, names)``; ``self`` is a tuple, its first item bytes with `CALLED`."""
    n_inputs, n_shown = len(program.arguments), sum(not r.hidden for r in program.results)
    lines = _Lines(["define ptr @called(ptr %self, ptr %args, i64 %nargs, ptr %names) nounwind {", "entry:"])
    lines.append(f"  %all = alloca ptr, i64 {n_inputs + n_shown}")
    record = lines.field("%record", "%self", ITEMS, "ptr")
    for position, name in enumerate(CALLED):
        lines.field(f"%{name}", record, CONTENTS + 8 * position, "ptr")
    lines += [
        f"  %right = icmp eq i64 %nargs, {n_inputs}",
        "  br i1 %right, label %named, label %general.path",
        "named:",
        "  %unnamed = icmp eq ptr %names, null",
        "  br i1 %unnamed, label %enter, label %name",
        "name:",
    ]
    lines.field("%n.names", "%names", LENGTH, "i64")
    lines.field("%first", "%names", ITEMS, "ptr")
    lines += [
        "  %single = icmp eq i64 %n.names, 1",
        "  %is.out = icmp eq ptr %first, %out",
        "  %only.out = and i1 %single, %is.out",
        "  br i1 %only.out, label %with.out, label %general.path",
        "with.out:",
    ]
    lines.field("%results", "%args", 8 * n_inputs, "ptr")
    before = "with.out"
    if n_shown > 1:
        before = "items"
        lines.field("%results.type", "%results", OBJECT_TYPE, "ptr")
        lines += ["  %is.tuple = icmp eq ptr %results.type, %tuple_type"]
        lines += ["  br i1 %is.tuple, label %tuple, label %general.path", "tuple:"]
        lines.field("%n.results", "%results", LENGTH, "i64")
        lines += [f"  %every = icmp eq i64 %n.results, {n_shown}"]
        lines += ["  br i1 %every, label %items, label %general.path", "items:"]
        for k in range(n_inputs + n_shown):
            of, offset = ("%args", 8 * k) if k < n_inputs else ("%results", ITEMS + 8 * (k - n_inputs))
            lines.field(f"%item{k}", of, offset, "ptr")
            lines += [f"  %all{k} = getelementptr ptr, ptr %all, i64 {k}", f"  store ptr %item{k}, ptr %all{k}"]
    given = "%all" if n_shown > 1 else "%args"
    lines += [
        "  br label %enter",
        "enter:",
        f"  %given = phi ptr [ %args, %named ], [ {given}, %{before} ]",
        f"  %n.given = phi i64 [ {n_inputs}, %named ], [ {n_inputs + n_shown}, %{before} ]",
        f"  %holder = phi ptr [ null, %named ], [ %results, %{before} ]",
        "  %found = call ptr @call(ptr %table, ptr %given, i64 %n.given)",
        "  %declined = icmp eq ptr %found, %table",
        "  br i1 %declined, label %let.go, label %found.it",
        "let.go:",
    ]
    lines.hold("%table", "%table", -1)
    lines += [
        "  br label %general.path",
        "general.path:",
        "  %general.found = call ptr %vectorcall(ptr %general, ptr %args, i64 %nargs, ptr %names)",
        "  ret ptr %general.found",
        "found.it:",
    ]
    if n_shown > 1:  # the tuple takes the place of its last item
        lines += [
            "  %failed = icmp eq ptr %found, null",
            "  %new = or i1 %failed, %unnamed",
            "  br i1 %new, label %return, label %exchange",
            "exchange:",
        ]
        lines.hold("%found", "%found", -1)
        lines.hold("%holder", "%holder")
        lines += ["  ret ptr %holder", "return:"]
    return "\n".join([*lines, "  ret ptr %found", "}"])


def _check(lines: _Lines, k: int, shape: tuple[int, ...], flags: int, number: str | None) -> None:
    """Check array ``k`` of at most ``%most`` states, whose data are ``%data{k}`` then.

    Of type ``number``, a float may stand in its place.
    """
    lines.append(f"check{k}:")
    p = lines.field(f"%p{k}", "%args", 8 * k, "ptr")
    lines.field(f"%type{k}", p, OBJECT_TYPE, "ptr")
    lines += [
        f"  %is.array{k} = icmp eq ptr %type{k}, %array_type",
        f"  br i1 %is.array{k}, label %fields{k}, label %{'decline' if number is None else f'other{k}'}",
        f"fields{k}:",
    ]
    lines.field(f"%descr{k}", p, DESCRIPTOR, "ptr")
    lines.field(f"%flags{k}", p, FLAGS, "i32")
    lines.field(f"%nd{k}", p, DIMENSIONS_COUNT, "i32")
    lines.field(f"%dims{k}", p, DIMENSIONS, "ptr")
    lines.field(f"%array{k}", p, DATA, "ptr")
    if k == 0:
        lines += [
            f"  %batched = icmp eq i32 %nd0, {len(shape) + 1}",
            "  %extra = zext i1 %batched to i32",
            "  %skip = zext i1 %batched to i64",
        ]
    lines += [
        f"  %right.type{k} = icmp eq ptr %descr{k}, %descriptor",
        f"  %masked{k} = and i32 %flags{k}, {flags}",
        f"  %right.flags{k} = icmp eq i32 %masked{k}, {flags}",
        f"  %ndim{k} = add i32 %extra, {len(shape)}",
        f"  %right.count{k} = icmp eq i32 %nd{k}, %ndim{k}",
        f"  %ok{k}.a = and i1 %right.type{k}, %right.flags{k}",
        f"  %ok{k}.b = and i1 %ok{k}.a, %right.count{k}",
        f"  br i1 %ok{k}.b, label %shape{k}, label %decline",
        f"shape{k}:",
    ]
    right = "true"
    for d, size in enumerate(shape):
        name = f"%d{k}.{d}"
        lines += [
            f"  {name}.index = add i64 %skip, {d}",
            f"  {name}.at = getelementptr i64, ptr %dims{k}, i64 {name}.index",
            f"  {name} = load i64, ptr {name}.at",
            f"  {name}.right = icmp eq i64 {name}, {size}",
            f"  {name}.ok = and i1 {right}, {name}.right",
        ]
        right = f"{name}.ok"
    lines += [
        f"  br i1 {right}, label %batch{k}, label %decline",
        f"batch{k}:",
        f"  br i1 %batched, label %rows{k}, label %counted{k}",
        f"rows{k}:",
        f"  %length{k} = load i64, ptr %dims{k}",
        f"  br label %counted{k}",
        f"counted{k}:",
        f"  %n{k} = phi i64 [ 1, %batch{k} ], [ %length{k}, %rows{k} ]",
    ]
    if k == 0:
        lines += ["  %n = add i64 %n0, 0", "  %fits0 = icmp sle i64 %n, %most"]
    else:
        lines.append(f"  %fits{k} = icmp eq i64 %n{k}, %n")
    lines.append(f"  br i1 %fits{k}, label %known{k}, label %decline")
    if number is not None:
        lines += [
            f"other{k}:",
            f"  %is.own{k} = icmp eq ptr %type{k}, %float_type",
            f"  %is.double{k} = icmp eq ptr %type{k}, %double_type",
            f"  %is.float{k} = or i1 %is.own{k}, %is.double{k}",
            f"  br i1 %is.float{k}, label %float{k}, label %decline",
            f"float{k}:",
        ]
        lines.field(f"%value{k}", p, VALUE, "double")
        if number != "double":
            lines.append(f"  %number{k} = fptrunc double %value{k} to {number}")
        lines += [
            f"  br label %repeat{k}",
            f"repeat{k}:",
            f"  %s{k} = phi i64 [ 0, %float{k} ], [ %s{k}.next, %repeat{k} ]",
            f"  %s{k}.at = getelementptr {number}, ptr %repeated{k}, i64 %s{k}",
            f"  store {number} %{'value' if number == 'double' else 'number'}{k}, ptr %s{k}.at",
            f"  %s{k}.next = add i64 %s{k}, 1",
            f"  %s{k}.more = icmp slt i64 %s{k}.next, %n",
            f"  br i1 %s{k}.more, label %repeat{k}, label %known{k}",
        ]
    other = "" if number is None else f", [ %repeated{k}, %repeat{k} ]"
    lines += [f"known{k}:", f"  %data{k} = phi ptr [ %array{k}, %counted{k} ]{other}"]


def _make(lines: _Lines, k: int, shape: tuple[int, ...], position: int) -> None:
    """Make array ``k``, result ``position``, a view of memory of its own that begins at a cache line, ``%start{k}``."""
    axes = [f"  %axis{k}.at = getelementptr i64, ptr %shape, i64 %skip", "  store i64 %n, ptr %shape"]
    for d, size in enumerate(shape):
        axes += [
            f"  %axis{k}.{d} = getelementptr i64, ptr %axis{k}.at, i64 {d}",
            f"  store i64 {size}, ptr %axis{k}.{d}",
        ]
    lines += [f"make{k}:", f"  %bytes{k} = add i64 %size{k}, {LINE}", f"  store i64 %bytes{k}, ptr %shape"]
    lines.hold(f"%bytes_descriptor{k}", "%bytes_descriptor")
    lines += [
        f"  %memory{k} = call ptr %new_array(ptr %array_type, ptr %bytes_descriptor, i32 1, ptr %shape, ptr null,"
        " ptr null, i32 0, ptr null)",
        f"  %no.memory{k} = icmp eq ptr %memory{k}, null",
        f"  br i1 %no.memory{k}, label %fail{k}, label %place{k}",
        f"place{k}:",
    ]
    lines.field(f"%begin{k}", f"%memory{k}", DATA, "ptr")
    lines += [
        f"  %begin{k}.number = ptrtoint ptr %begin{k} to i64",
        f"  %begin{k}.minus = sub i64 0, %begin{k}.number",
        f"  %begin{k}.skip = and i64 %begin{k}.minus, {LINE - 1}",
        f"  %start{k} = getelementptr i8, ptr %begin{k}, i64 %begin{k}.skip",
        *axes,
        f"  %axes{k} = add i32 %extra, {len(shape)}",
    ]
    lines.hold(f"%descriptor{k}", "%descriptor")
    lines += [
        f"  %new{k} = call ptr %new_array(ptr %array_type, ptr %descriptor, i32 %axes{k}, ptr %shape, ptr null,"
        f" ptr %start{k}, i32 {WRITEABLE}, ptr null)",
        f"  %no.array{k} = icmp eq ptr %new{k}, null",
        f"  br i1 %no.array{k}, label %forget{k}, label %made{k}",
        f"forget{k}:",
        f"  call void %drop(ptr %memory{k})",
        f"  br label %fail{k}",
        f"fail{k}:",
        f"  call void @drop_made(ptr %drop, ptr %made, i64 {position})",
        "  ret ptr null",
        f"made{k}:",
        f"  %based{k} = call i32 %set_base(ptr %new{k}, ptr %memory{k})",  # which fails for no array that is new
        f"  %made{k}.at = getelementptr ptr, ptr %made, i64 {position}",
        f"  store ptr %new{k}, ptr %made{k}.at",
    ]


_DROP = """define void @drop_made(ptr %drop, ptr %made, i64 %n) nounwind {
entry:
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %one ]
  %more = icmp slt i64 %k, %n
  br i1 %more, label %one, label %end
one:
  %at = getelementptr ptr, ptr %made, i64 %k
  %object = load ptr, ptr %at
  call void %drop(ptr %object)
  %k.next = add i64 %k, 1
  br label %next
end:
  ret void
}"""
"""Releases references to new arrays."""
