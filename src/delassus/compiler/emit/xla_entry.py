"""An entry that XLA calls directly, by its typed foreign-function interface, without Python or its lock.

``xla(frame)`` is an ``XLA_FFI_Handler``. It reads the structures of ``xla/ffi/api/c_api.h``, whose version it tells XLA
when that asks for it. What it does not check, types and shapes, the caller has checked when the program was traced. It
runs the states a chunk at a time.

A program's hidden result, its reciprocal condition, stays inside: where that of a state is below the number at
``@xla_least``, or a number that is watched is not finite, it calls the function at ``@xla_settle`` with the number of
all states and an array of pointers to all arrays. That does it all again and returns NULL, or the text of an error,
which XLA raises.
"""

from __future__ import annotations

from math import prod

from delassus.compiler.emit.llvm_loops import watched
from delassus.compiler.emit.llvm_text import hexadecimal
from delassus.compiler.program import Program

API_VERSION = 0, 3
"""Major and minor version of the interface."""

EXTENSION, API, ARGUMENTS, RESULTS = 8, 16, 72, 112
"""Offsets in ``XLA_FFI_CallFrame``: ``extension_start``, ``api``, ``args.args``, ``rets.rets``."""

DATA, RANK, DIMENSIONS = 24, 32, 40
"""Offsets in ``XLA_FFI_Buffer``."""

EXTENSION_TYPE, METADATA, IS_METADATA = 8, 24, 1
"""Offsets in ``XLA_FFI_Metadata_Extension``, and its type."""

MAJOR, MINOR, TRAITS, STATE_TYPE = 24, 28, 32, 40
"""Offsets in ``XLA_FFI_Metadata``: both of its ``api_version``, ``traits``, ``state_type_id``."""

ERROR_CREATE = 48
"""Offset of ``XLA_FFI_Error_Create`` in ``XLA_FFI_Api``; its arguments: size, extension, text, code."""

INTERNAL = 13
"""``XLA_FFI_Error_Code_INTERNAL``."""

CHUNK = 1024
"""States at a time."""


def xla_entry(program: Program, scalar: str) -> str:
    """Assembly of ``xla(frame)``, and of its two variables."""
    shown = [r.shape for r in program.results if not r.hidden]
    shapes = [a.shape for a in program.arguments] + shown
    n_inputs, is_judged = len(program.arguments), len(shown) < len(program.results)
    lines: list[str] = []

    def field(name: str, base: str, offset: int, kind: str) -> str:
        lines.append(f"  {name}.at = getelementptr i8, ptr {base}, i64 {offset}")
        lines.append(f"  {name} = load {kind}, ptr {name}.at")
        return name

    def put(name: str, base: str, offset: int, value: str) -> None:
        lines.append(f"  {name} = getelementptr i8, ptr {base}, i64 {offset}")
        lines.append(f"  store {value}, ptr {name}")

    lines += [
        f"@xla_least = global {scalar} {hexadecimal(0.0)}",
        "@xla_settle = global ptr null",
        "define ptr @xla(ptr %frame) nounwind {",
        "entry:",
        f"  %arrays = alloca ptr, i64 {len(shapes)}, align 8",
        "  %failure = alloca i8, i64 32, align 8",
    ]
    if is_judged:
        lines.append(f"  %pivots = alloca {scalar}, i64 {CHUNK}, align 64")
    extension = field("%extension", "%frame", EXTENSION, "ptr")
    lines += [
        f"  %extended = icmp ne ptr {extension}, null",
        "  br i1 %extended, label %extra, label %execute",
        "extra:",
    ]
    kind = field("%kind", extension, EXTENSION_TYPE, "i32")
    lines += [
        f"  %asked = icmp eq i32 {kind}, {IS_METADATA}",
        "  br i1 %asked, label %describe, label %execute",
        "describe:",
    ]
    metadata = field("%metadata", extension, METADATA, "ptr")
    put("%major", metadata, MAJOR, f"i32 {API_VERSION[0]}")
    put("%minor", metadata, MINOR, f"i32 {API_VERSION[1]}")
    put("%traits", metadata, TRAITS, "i32 0")
    put("%state", metadata, STATE_TYPE, "i64 0")
    lines += ["  ret ptr null", "execute:"]
    field("%arguments", "%frame", ARGUMENTS, "ptr")
    field("%results", "%frame", RESULTS, "ptr")
    for k in range(len(shapes)):
        of, number = ("%arguments", k) if k < n_inputs else ("%results", k - n_inputs)
        field(f"%buffer{k}", of, 8 * number, "ptr")
        field(f"%data{k}", f"%buffer{k}", DATA, "ptr")
        put(f"%place{k}", "%arrays", 8 * k, f"ptr %data{k}")
    rank = field("%rank", "%buffer0", RANK, "i64")
    dimensions = field("%dimensions", "%buffer0", DIMENSIONS, "ptr")
    lines += [
        f"  %leading = sub i64 {rank}, {len(shapes[0])}",
        "  br label %count",
        "count:",
        "  %axis = phi i64 [ 0, %execute ], [ %axis.next, %multiply ]",
        "  %n = phi i64 [ 1, %execute ], [ %n.next, %multiply ]",
        "  %more.axes = icmp slt i64 %axis, %leading",
        "  br i1 %more.axes, label %multiply, label %begin",
        "multiply:",
        f"  %length.at = getelementptr i64, ptr {dimensions}, i64 %axis",
        "  %length = load i64, ptr %length.at",
        "  %n.next = mul i64 %n, %length",
        "  %axis.next = add i64 %axis, 1",
        "  br label %count",
        "begin:",
        "  br label %next",
        "next:",
        "  %first = phi i64 [ 0, %begin ], [ %following, %settled ]",
        "  %left = sub i64 %n, %first",
        "  %some = icmp sgt i64 %left, 0",
        "  br i1 %some, label %chunk, label %done",
        "chunk:",
        f"  %is.last = icmp slt i64 %left, {CHUNK}",
        f"  %size = select i1 %is.last, i64 %left, i64 {CHUNK}",
    ]
    for k, shape in enumerate(shapes):
        lines.append(f"  %from{k}.at = mul i64 %first, {prod(shape)}")
        lines.append(f"  %from{k} = getelementptr {scalar}, ptr %data{k}, i64 %from{k}.at")
    pointers = [f"ptr %from{k}" for k in range(len(shapes))] + ["ptr %pivots"] * is_judged
    lines.append(f"  call void @batch(i64 %size, {', '.join(pointers)})")
    if is_judged:
        lines.append(f"  %least = load {scalar}, ptr @xla_least")
        lines += [
            f"  %doubtful = call i1 @doubtful(i64 %size, {scalar} %least, ptr %pivots, ptr %from{watched(program)})",
            "  br i1 %doubtful, label %doubt, label %settled",
            "doubt:",
            "  %settle = load ptr, ptr @xla_settle",
            "  %text = call ptr %settle(i64 %n, ptr %arrays)",
            "  %fine = icmp eq ptr %text, null",
            "  br i1 %fine, label %done, label %fail",
            "fail:",
        ]
        put("%failure.size", "%failure", 0, "i64 28")
        put("%failure.extension", "%failure", 8, "ptr null")
        put("%failure.text", "%failure", 16, "ptr %text")
        put("%failure.code", "%failure", 24, f"i32 {INTERNAL}")
        api = field("%api", "%frame", API, "ptr")
        create = field("%create", api, ERROR_CREATE, "ptr")
        lines += [f"  %error = call ptr {create}(ptr %failure)", "  ret ptr %error"]
    else:
        lines += ["  br label %settled"]
    lines += ["settled:", "  %following = add i64 %first, %size", "  br label %next", "done:", "  ret ptr null", "}"]
    return "\n".join(lines)
