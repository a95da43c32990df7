"""What this core can do at most, measured: independent multiplies and multiply-adds, clock, straight-line code."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable
from itertools import count

import numpy as np

from delassus.compiler.machine.cpu import Code, host, object_code
from delassus_studies.machine_code import text_size

CHAINS = 12
"""Independent chains: more than latency times instructions a cycle, fewer than registers."""
UNROLLED = 4
PIECE = 400
"""Instructions of one function of straight-line code: its operands in memory then stay in the first-level cache."""
FAR = 128
"""Vectors from the base to the first operand in memory: too far for the short form of an address."""
TRIES = 15

_SCALAR = {"float64": ("double", "f64"), "float32": ("float", "f32")}


def _vector(dtype: str) -> tuple[str, str]:
    lanes = host().lanes(dtype)
    scalar, suffix = _SCALAR[dtype]
    return f"<{lanes} x {scalar}>", f"v{lanes}{suffix}"


def _chains(vector: str, suffix: str, kinds: Iterable[str], start: str) -> tuple[list[str], list[str]]:
    """Lines of one instruction after the other, over the chains in turn, and the chains' last values."""
    values, lines, places = [f"%{start}{k}" for k in range(CHAINS)], [], count(FAR)
    text = {
        "multiply": f"fmul {vector} {{}}, %a",
        "add": f"fadd {vector} {{}}, %b",
        "add from memory": f"fadd {vector} {{}}, %m{{}}",
        "multiply-add": f"call {vector} @llvm.fma.{suffix}({vector} {{}}, {vector} %a, {vector} %b)",
    }
    for number, kind in enumerate(kinds):
        k = number % CHAINS
        if kind in ("add from memory", "store"):
            lines.append(f"%pm{number} = getelementptr {vector}, ptr %x, i64 {next(places)}")
        if kind == "store":
            lines.append(f"store {vector} %a, ptr %pm{number}, align 64")
            continue
        if kind == "add from memory":
            lines.append(f"%m{number} = load {vector}, ptr %pm{number}, align 64")
        lines.append(f"%v{number} = {text[kind].format(values[k], number)}")
        values[k] = f"%v{number}"
    return lines, values


def _loads(vector: str) -> list[str]:
    """Operands ``a`` and ``b``, and the chains' first values."""
    out = []
    for i, name in enumerate(("a", "b", *(f"s{k}" for k in range(CHAINS)))):
        out += [
            f"%p{name} = getelementptr {vector}, ptr %x, i64 {i}",
            f"%{name} = load {vector}, ptr %p{name}, align 4",
        ]
    return out


def _stores(vector: str, values: Iterable[str]) -> list[str]:
    return [f"store {vector} {value}, ptr %ps{k}, align 4" for k, value in enumerate(values)]


def _repeated(before: Iterable[str], carried: Iterable[str], lines: Iterable[str], after: Iterable[str]) -> list[str]:
    """Body of a function that runs ``lines`` n times; ``carried`` are the values that go from one time to the next."""
    return [
        "entry:", *before, "br label %again",
        "again:", "%i = phi i64 [ 0, %entry ], [ %next, %again ]", *carried, *lines,
        "%next = add i64 %i, 1", "%done = icmp eq i64 %next, %n", "br i1 %done, label %end, label %again",
        "end:", *after, "ret void",
    ]  # fmt: skip


def _loop(dtype: str, kind: str) -> str:
    """``run(n, x)``: n rounds of ``CHAINS * UNROLLED`` instructions of one kind."""
    vector, suffix = _vector(dtype)
    lines, last = _chains(vector, suffix, [kind] * (CHAINS * UNROLLED), "c")
    carried = [f"%c{k} = phi {vector} [ %s{k}, %entry ], [ {last[k]}, %again ]" for k in range(CHAINS)]
    body = _repeated(_loads(vector), carried, lines, _stores(vector, last))
    return _module(vector, suffix, [("run", "i64 %n, ptr %x", body)])


def _straight(dtype: str, instructions: int, other: str) -> str:
    """``run(n, x)``: n times so many instructions in a row, multiply-adds and others in turn; no loop inside."""
    vector, suffix = _vector(dtype)
    functions, calls = [], []
    for first in range(0, instructions, PIECE):
        # one more after each round of the chains: each chain has both kinds in turn
        kinds = [("multiply-add", other)[(k + k // CHAINS) % 2] for k in range(min(PIECE, instructions - first))]
        lines, last = _chains(vector, suffix, kinds, "s")
        body = ["entry:", *_loads(vector), *lines, *_stores(vector, last), "ret void"]
        functions.append((f"piece{first}", "ptr %x", body))
        calls.append(f"call void @piece{first}(ptr %x)")
    return _module(vector, suffix, [*functions, ("run", "i64 %n, ptr %x", _repeated((), (), calls, ()))])


def _module(vector: str, suffix: str, functions: Iterable[tuple[str, str, list[str]]]) -> str:
    out = [f"declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})"]
    for name, signature, body in functions:
        text = "\n".join(body)
        out.append(f'define void @{name}({signature}) noinline "prefer-vector-width"="512" nounwind {{\n{text}\n}}')
    return "\n".join(out)


def _clock() -> str:
    """``run(n, x)``: n rounds of 64 integer operations, each of which waits one cycle for the one before it."""
    chain = [f"%c{k + 1} = {('add', 'xor')[k % 2]} i64 %c{k}, %{'ab'[k % 2]}" for k in range(64)]
    before = ["%a = load i64, ptr %x", "%pb = getelementptr i64, ptr %x, i64 1", "%b = load i64, ptr %pb"]
    carried = ["%c0 = phi i64 [ 0, %entry ], [ %c64, %again ]"]
    text = "\n".join(_repeated(before, carried, chain, ["store i64 %c64, ptr %x"]))
    return f"define void @run(i64 %n, ptr %x) nounwind {{\n{text}\n}}"


def _seconds(object_file: bytes, rounds: int, dtype: str) -> float:
    """Least seconds of one round: the fastest of several tries is what the core can do."""
    code, lanes = Code(object_file), host().lanes(dtype)
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code.address("run"))
    memory = np.zeros((FAR + PIECE + 8) * lanes, dtype=dtype)
    numbers = memory[-memory.ctypes.data % 64 // memory.itemsize :]
    numbers[:lanes] = 1.0  # a; b and the chains' first values stay zero
    taken = []
    for _ in range(TRIES):
        start = time.perf_counter()
        run(rounds, numbers.ctypes.data)
        taken.append((time.perf_counter() - start) / rounds)
    return min(taken)


def clock() -> float:
    """Cycles a second, from a chain of integer operations of one cycle each."""
    return 64 / _seconds(object_code(_clock()), 100_000, "float64")


def instructions_per_second(dtype: str, kind: str) -> float:
    """Rate of independent vector instructions: "multiply", "add", "multiply-add", "add from memory" or "store"."""
    return CHAINS * UNROLLED / _seconds(object_code(_loop(dtype, kind)), 100_000, dtype)


def straight_line(dtype: str, instructions: int, other: str) -> tuple[float, float]:
    """Rate of independent vector instructions in a row, each fetched anew, and bytes of code an instruction.

    Half are multiply-adds, half ``other``: "add", or "add from memory", whose operands are in the first-level cache.
    """
    code = object_code(_straight(dtype, instructions, other))
    rate = instructions / _seconds(code, max(1, 4_000_000 // instructions), dtype)
    return rate, text_size(code) / instructions
