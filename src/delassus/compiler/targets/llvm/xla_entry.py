"""An entry that XLA calls directly, by its typed foreign-function interface, without Python or its lock.

``xla(frame)`` is an ``XLA_FFI_Handler``. It reads the structures of ``xla/ffi/api/c_api.h``, whose version it tells XLA
when that asks for it. What it does not check, types and shapes, the caller has checked when the program was traced.

States are taken a chunk at a time by ``xla_work(job)``, on this thread and, from ``@xla_many`` states on, on those that
XLA's own pool lends, at most ``@xla_threads`` in all. A job is in memory of its own, which the last to leave it
releases: threads that come late find no states left, after the entry has returned. Nobody waits for a thread that has
not begun; while others end their chunks, this thread yields.

A program's hidden result, its reciprocal condition, stays inside: where that of a state is below the number at
``@xla_least``, the entry calls the function at ``@xla_settle`` with the number of all states and an array of pointers
to all arrays. That does it all again and returns NULL, or the text of an error, which XLA raises. There is no such
function any more when Python ends, which ``@xla_settling``, the number of its calls, makes wait for those that have
begun: threads that want Python's lock later never get it.
"""

from __future__ import annotations

from delassus.compiler.program.program import Program
from delassus.compiler.targets.llvm.text import hexadecimal

API_VERSION = 0, 3
"""Major and minor version of the interface."""

EXTENSION, API, CONTEXT, ARGUMENTS, RESULTS = 8, 16, 24, 72, 112
"""Offsets in ``XLA_FFI_CallFrame``: ``extension_start``, ``api``, ``ctx``, ``args.args``, ``rets.rets``."""

DATA, RANK, DIMENSIONS = 24, 32, 40
"""Offsets in ``XLA_FFI_Buffer``."""

EXTENSION_TYPE, METADATA, IS_METADATA = 8, 24, 1
"""Offsets in ``XLA_FFI_Metadata_Extension``, and its type."""

MAJOR, MINOR, TRAITS, STATE_TYPE = 24, 28, 32, 40
"""Offsets in ``XLA_FFI_Metadata``: both of its ``api_version``, ``traits``, ``state_type_id``."""

ERROR_CREATE, ERROR_DESTROY, SCHEDULE, NUM_THREADS = 48, 64, 136, 144
"""Offsets in ``XLA_FFI_Api``. What these take begins with its size and an extension; its other fields are below."""

INTERNAL = 13
"""``XLA_FFI_Error_Code_INTERNAL``."""

MOST = 1024
"""States of a chunk at most."""

CHUNKS = 4
"""Chunks for each thread at least."""

USERS, NEXT, DONE, STATES, CHUNK, DOUBT, ARRAYS = 0, 8, 16, 24, 32, 40, 48
"""Offsets in a job: threads that may still read it, states that have been taken, states that are done, all states,
states of a chunk, whether one is doubtful, pointers to all arrays."""


LATE = "Python has ended before all states were solved"
"""What XLA is told then; nobody is left to read it."""


class _Lines(list[str]):
    """Lines of a function, and shorthands for fields of structures in memory."""

    def read(self, name: str, base: str, offset: int, kind: str) -> str:
        """Load a field; returns ``name``."""
        self += [f"  {name}.at = getelementptr i8, ptr {base}, i64 {offset}", f"  {name} = load {kind}, ptr {name}.at"]
        return name

    def write(self, name: str, base: str, offset: int, value: str) -> None:
        """Store a field."""
        self += [f"  {name} = getelementptr i8, ptr {base}, i64 {offset}", f"  store {value}, ptr {name}"]

    def add(self, name: str, base: str, offset: int, value: str) -> str:
        """Add to a field that threads share; returns ``name``, what it was."""
        self.append(f"  {name}.at = getelementptr i8, ptr {base}, i64 {offset}")
        self.append(f"  {name} = atomicrmw add ptr {name}.at, i64 {value} seq_cst")
        return name


def xla_entry(program: Program, scalar: str, lanes: int) -> str:
    """Assembly of ``xla(frame)``, of what it calls and of its variables."""
    variables = [
        f"@xla_least = global {scalar} {hexadecimal(0.0)}",
        f"@xla_many = global i64 {2**62}",
        "@xla_threads = global i64 1",
        "@xla_settling = global i64 0",
        *(f"@xla_{name} = global ptr null" for name in ("settle", "allocate", "release", "yield")),
        f'@xla_late = private constant [{len(LATE) + 1} x i8] c"{LATE}\\00"',
    ]
    return "\n".join([*variables, *_work(program, scalar), *_entry(program, lanes)])


def _work(program: Program, scalar: str) -> list[str]:
    """``xla_work(job)``, and ``xla_task(job)``, which leaves the job afterwards."""
    sizes = [*(a.size for a in program.arguments), *(r.size for r in program.results if not r.hidden)]
    is_judged = any(r.hidden for r in program.results)
    lines = _Lines(["define void @xla_work(ptr %job) nounwind {", "entry:"])
    if is_judged:
        lines.append(f"  %pivots = alloca {scalar}, i64 {MOST}, align 64")
        lines.append(f"  %least = load {scalar}, ptr @xla_least")
    for k in range(len(sizes)):
        lines.read(f"%data{k}", "%job", ARRAYS + 8 * k, "ptr")
    lines.read("%n", "%job", STATES, "i64")
    lines.read("%chunk", "%job", CHUNK, "i64")
    lines += ["  br label %next", "next:"]
    lines.add("%first", "%job", NEXT, "%chunk")
    lines += [
        "  %left = sub i64 %n, %first",
        "  %some = icmp sgt i64 %left, 0",
        "  br i1 %some, label %run, label %end",
        "run:",
        "  %is.last = icmp slt i64 %left, %chunk",
        "  %size = select i1 %is.last, i64 %left, i64 %chunk",
    ]
    for k, size in enumerate(sizes):
        lines.append(f"  %from{k}.at = mul i64 %first, {size}")
        lines.append(f"  %from{k} = getelementptr {scalar}, ptr %data{k}, i64 %from{k}.at")
    pointers = [f"ptr %from{k}" for k in range(len(sizes))] + ["ptr %pivots"] * is_judged
    lines.append(f"  call void @batch(i64 %size, {', '.join(pointers)})")
    if is_judged:
        lines.append(f"  %doubtful = call i1 @doubtful(i64 %size, {scalar} %least, ptr %pivots)")
        lines.append("  %more.doubt = zext i1 %doubtful to i64")
        lines.add("%doubt", "%job", DOUBT, "%more.doubt")
    lines.add("%done", "%job", DONE, "%size")
    lines += ["  br label %next", "end:", "  ret void", "}"]
    lines += ["define void @xla_leave(ptr %job) nounwind {", "entry:"]
    lines.add("%users", "%job", USERS, "-1")
    lines += [
        "  %is.last = icmp eq i64 %users, 1",
        "  br i1 %is.last, label %free, label %end",
        "free:",
        "  %release = load ptr, ptr @xla_release",
        "  call void %release(ptr %job)",
        "  br label %end",
        "end:",
        "  ret void",
        "}",
        "define void @xla_task(ptr %job) nounwind {",
        "  call void @xla_work(ptr %job)",
        "  call void @xla_leave(ptr %job)",
        "  ret void",
        "}",
    ]
    return lines


def _entry(program: Program, lanes: int) -> list[str]:
    """``xla(frame)``."""
    n_inputs, depth = len(program.arguments), len(program.arguments[0].shape)
    n_arrays = n_inputs + sum(not r.hidden for r in program.results)
    lines = _Lines(["define ptr @xla(ptr %frame) nounwind {", "entry:"])
    lines += [f"  %own = alloca i8, i64 {ARRAYS + 8 * n_arrays}, align 64", "  %call = alloca i8, i64 48, align 8"]
    lines.append("  %answer = alloca i64")
    lines.read("%extension", "%frame", EXTENSION, "ptr")
    lines += ["  %extended = icmp ne ptr %extension, null", "  br i1 %extended, label %extra, label %execute", "extra:"]
    lines.read("%kind", "%extension", EXTENSION_TYPE, "i32")
    lines += [f"  %asked = icmp eq i32 %kind, {IS_METADATA}", "  br i1 %asked, label %describe, label %execute"]
    lines.append("describe:")
    lines.read("%metadata", "%extension", METADATA, "ptr")
    lines.write("%major", "%metadata", MAJOR, f"i32 {API_VERSION[0]}")
    lines.write("%minor", "%metadata", MINOR, f"i32 {API_VERSION[1]}")
    lines.write("%traits", "%metadata", TRAITS, "i32 0")
    lines.write("%state", "%metadata", STATE_TYPE, "i64 0")
    lines += ["  ret ptr null", "execute:"]

    # states: all axes of the first argument but those of a state
    lines.read("%arguments", "%frame", ARGUMENTS, "ptr")
    lines.read("%results", "%frame", RESULTS, "ptr")
    for k in range(n_arrays):
        of, number = ("%arguments", k) if k < n_inputs else ("%results", k - n_inputs)
        lines.read(f"%buffer{k}", of, 8 * number, "ptr")
        lines.read(f"%data{k}", f"%buffer{k}", DATA, "ptr")
    lines.read("%rank", "%buffer0", RANK, "i64")
    lines.read("%dimensions", "%buffer0", DIMENSIONS, "ptr")
    lines += [
        f"  %leading = sub i64 %rank, {depth}",
        "  br label %count",
        "count:",
        "  %axis = phi i64 [ 0, %execute ], [ %axis.next, %multiply ]",
        "  %n = phi i64 [ 1, %execute ], [ %n.next, %multiply ]",
        "  %more.axes = icmp slt i64 %axis, %leading",
        "  br i1 %more.axes, label %multiply, label %counted",
        "multiply:",
        "  %length.at = getelementptr i64, ptr %dimensions, i64 %axis",
        "  %length = load i64, ptr %length.at",
        "  %n.next = mul i64 %n, %length",
        "  %axis.next = add i64 %axis, 1",
        "  br label %count",
        "counted:",
        "  %many = load i64, ptr @xla_many",
        "  %is.many = icmp sge i64 %n, %many",
    ]

    # threads: those of XLA's pool, if it has one, where it pays
    lines.read("%api", "%frame", API, "ptr")
    lines.read("%context", "%frame", CONTEXT, "ptr")
    lines += ["  store i64 1, ptr %answer", "  br i1 %is.many, label %ask, label %prepare", "ask:"]
    lines.write("%ask.size", "%call", 0, "i64 32")
    lines.write("%ask.extension", "%call", 8, "ptr null")
    lines.write("%ask.context", "%call", 16, "ptr %context")
    lines.write("%ask.answer", "%call", 24, "ptr %answer")
    lines.read("%ask.function", "%api", NUM_THREADS, "ptr")
    lines += ["  %no.pool = call ptr %ask.function(ptr %call)", "  call void @xla_forget(ptr %api, ptr %no.pool)"]
    lines += [
        "  br label %prepare",
        "prepare:",
        "  %pool = load i64, ptr %answer",
        "  %allowed = load i64, ptr @xla_threads",
        "  %lent = call i64 @llvm.smin.i64(i64 %pool, i64 %allowed)",
        "  %threads = call i64 @llvm.smax.i64(i64 %lent, i64 1)",
        f"  %parts = mul i64 %threads, {CHUNKS * lanes}",
        "  %part = sdiv i64 %n, %parts",
        "  %part.more = add i64 %part, 1",
        f"  %part.states = mul i64 %part.more, {lanes}",
        f"  %part.most = call i64 @llvm.smin.i64(i64 %part.states, i64 {MOST // lanes * lanes})",
        "  %alone = icmp eq i64 %threads, 1",
        f"  %chunk = select i1 %alone, i64 {MOST // lanes * lanes}, i64 %part.most",
        "  br i1 %alone, label %fill, label %allocate",
        "allocate:",
        "  %allocate.function = load ptr, ptr @xla_allocate",
        f"  %memory = call ptr %allocate.function(i64 {ARRAYS + 8 * n_arrays})",
        "  %got = icmp ne ptr %memory, null",
        "  br i1 %got, label %fill, label %instead",
        "instead:",
        "  br label %fill",
        "fill:",
        "  %job = phi ptr [ %own, %prepare ], [ %memory, %allocate ], [ %own, %instead ]",
        "  %users = phi i64 [ 1, %prepare ], [ %threads, %allocate ], [ 1, %instead ]",
    ]
    for name, offset, value in (
        ("users", USERS, "%users"), ("next", NEXT, "0"), ("done", DONE, "0"), ("states", STATES, "%n"),
        ("chunk", CHUNK, "%chunk"), ("doubt", DOUBT, "0"),
    ):  # fmt: skip
        lines.write(f"%job.{name}", "%job", offset, f"i64 {value}")
    for k in range(n_arrays):
        lines.write(f"%job.array{k}", "%job", ARRAYS + 8 * k, f"ptr %data{k}")
    lines += [
        "  br label %schedule",
        "schedule:",
        "  %helper = phi i64 [ 1, %fill ], [ %helper.next, %scheduled ]",
        "  %more.helpers = icmp slt i64 %helper, %users",
        "  br i1 %more.helpers, label %invite, label %work",
        "invite:",
    ]
    lines.write("%task.size", "%call", 0, "i64 40")
    lines.write("%task.extension", "%call", 8, "ptr null")
    lines.write("%task.context", "%call", 16, "ptr %context")
    lines.write("%task.function", "%call", 24, "ptr @xla_task")
    lines.write("%task.job", "%call", 32, "ptr %job")
    lines.read("%schedule.function", "%api", SCHEDULE, "ptr")
    lines += [
        "  %refused = call ptr %schedule.function(ptr %call)",
        "  %was.refused = icmp ne ptr %refused, null",
        "  br i1 %was.refused, label %alone.then, label %scheduled",
        "alone.then:",
        "  call void @xla_forget(ptr %api, ptr %refused)",
        "  call void @xla_leave(ptr %job)",
        "  br label %scheduled",
        "scheduled:",
        "  %helper.next = add i64 %helper, 1",
        "  br label %schedule",
        "work:",
        "  call void @xla_work(ptr %job)",
        "  br label %wait",
        "wait:",
        "  %now = load atomic i64, ptr %job.done seq_cst, align 8",
        "  %ready = icmp sge i64 %now, %n",
        "  br i1 %ready, label %ended, label %yield",
        "yield:",
        "  %yield.function = load ptr, ptr @xla_yield",
        "  %yielded = call i32 %yield.function()",
        "  br label %wait",
        "ended:",
        "  %doubt = load atomic i64, ptr %job.doubt seq_cst, align 8",
        "  %doubtful = icmp ne i64 %doubt, 0",
        "  %is.own = icmp eq ptr %job, %own",
        "  br i1 %is.own, label %judge, label %leave",
        "leave:",
    ]
    for k in range(n_arrays):  # for what settles, below
        lines.write(f"%own.array{k}", "%own", ARRAYS + 8 * k, f"ptr %data{k}")
    lines += [
        "  call void @xla_leave(ptr %job)",
        "  br label %judge",
        "judge:",
        "  br i1 %doubtful, label %settle, label %fine",
        "settle:",
        "  %settling = atomicrmw add ptr @xla_settling, i64 1 seq_cst",
        "  %settle.function = load atomic ptr, ptr @xla_settle seq_cst, align 8",
        "  %is.late = icmp eq ptr %settle.function, null",
        "  br i1 %is.late, label %answered, label %ask.python",
        "ask.python:",
        f"  %arrays = getelementptr i8, ptr %own, i64 {ARRAYS}",
        "  %answer.text = call ptr %settle.function(i64 %n, ptr %arrays)",
        "  br label %answered",
        "answered:",
        "  %text = phi ptr [ @xla_late, %settle ], [ %answer.text, %ask.python ]",
        "  %fewer = atomicrmw sub ptr @xla_settling, i64 1 seq_cst",
        "  %settled = icmp eq ptr %text, null",
        "  br i1 %settled, label %fine, label %fail",
        "fail:",
    ]
    lines.write("%failure.size", "%call", 0, "i64 28")
    lines.write("%failure.extension", "%call", 8, "ptr null")
    lines.write("%failure.text", "%call", 16, "ptr %text")
    lines.write("%failure.code", "%call", 24, f"i32 {INTERNAL}")
    lines.read("%create", "%api", ERROR_CREATE, "ptr")
    lines += ["  %error = call ptr %create(ptr %call)", "  ret ptr %error", "fine:", "  ret ptr null", "}"]

    lines += ["define void @xla_forget(ptr %api, ptr %error) nounwind {", "entry:"]
    lines += ["  %call = alloca i8, i64 24, align 8", "  %none = icmp eq ptr %error, null"]
    lines += ["  br i1 %none, label %end, label %destroy", "destroy:"]
    lines.write("%size", "%call", 0, "i64 24")
    lines.write("%extension", "%call", 8, "ptr null")
    lines.write("%which", "%call", 16, "ptr %error")
    lines.read("%function", "%api", ERROR_DESTROY, "ptr")
    lines += ["  call void %function(ptr %call)", "  br label %end", "end:", "  ret void", "}"]
    lines += ["declare i64 @llvm.smax.i64(i64, i64)", "declare i64 @llvm.smin.i64(i64, i64)"]
    return lines
