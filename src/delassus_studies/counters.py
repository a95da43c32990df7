"""What programs cost, counted: operations, stages of compilation, instructions, cache misses; the peak of this core.

Operations of a kernel are straight-line code: what is in its functions ``block*`` runs once a block of states, so that
counting what is there, by objdump, counts what runs. Stages are seconds of the processor: compilation runs on one
thread, and other work on the machine does not count.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from delassus.algorithms.dynamics import METHODS, SOFT
from delassus.algorithms.dynamics.state import EliminationOrder
from delassus.compiler.machine.cpu import Code, Host, host, object_code
from delassus.compiler.passes.simplify import PASSES
from delassus.compiler.program.pipeline import make_program
from delassus.compiler.program.program import Program
from delassus.compiler.program.trace import report_of, trace_request
from delassus.compiler.targets.llvm.module import llvm_module
from delassus.planner.plan import plan
from delassus.quantities.bound_request import elimination_order, symbolic_request
from delassus.quantities.dynamics import DYNAMICS
from delassus.quantities.osim import DELASSUS
from delassus.quantities.request import Request, request
from delassus.spatial.trace.graph import OperationCount
from delassus.spatial.trace.trace_ops import TraceOps
from delassus_studies.cases import COMPLIANCE, Case
from delassus_studies.timing import best, uncached

# -- one cold compilation, stage by stage --------------------------------------------------------------------------

T = TypeVar("T")
STAGES = ("plan", "trace", "passes", "schedule", "assembly", "LLVM")


@dataclass(frozen=True, slots=True)
class Compilation:
    """A compiled Delassus kernel: program, states in a vector register, seconds by stage, object code."""

    program: Program
    lanes: int
    stages: dict[str, float]
    code: bytes

    @property
    def seconds(self) -> float:
        """Of all stages; on an idle core, about what a user waits for."""
        return sum(self.stages.values())


def compile_cold(case: Case, method: str = "auto", dtype: str = "float64", target: Host | None = None) -> Compilation:
    """Run the stages of ``ds.compile`` one after the other, with nothing cached; for this processor or for another."""
    stages: dict[str, float] = {}
    cpu = target or host()

    def timed(stage: str, call: Callable[[], T]) -> T:
        start = time.process_time()
        result = call()
        stages[stage] = stages.get(stage, 0.0) + time.process_time() - start
        return result

    asked = request(case.tree, case.constraints, DELASSUS, method=method)
    with uncached():
        if method == "auto":
            timed("plan", lambda: plan(case.tree, case.constraints))  # which the trace finds in memory
        traced = timed("trace", lambda: trace_request(asked))
        graph = traced.ops.graph(traced.computed)
        for name, run in PASSES:
            graph = timed("schedule" if name == "schedule" else "passes", partial(run, graph))
        program = make_program(asked)
    lanes, scalar = cpu.lanes(dtype), "double" if dtype == "float64" else "float"
    text = timed("assembly", lambda: llvm_module(program, scalar, lanes, cpu.vector_registers, cpu.has_fma))
    code = timed("LLVM", lambda: object_code(text, cpu))
    return Compilation(program, lanes, stages, code)


# -- operations of forward dynamics --------------------------------------------------------------------------------


def dynamics_request(case: Case, method: str) -> Request:
    """Forward dynamics of a case by a method; of soft ones with `COMPLIANCE` on all constraints."""
    soft = COMPLIANCE if method in SOFT and case.constraints else None
    return request(case.tree, case.constraints, DYNAMICS, method=method, compliance=soft, passive="none")


def operations(case: Case, method: str, order: EliminationOrder | None = None) -> int:
    """Operations of forward dynamics by a method; ``order`` of links, None for that of fewest operations."""
    ops, asked = TraceOps(), dynamics_request(case, method)
    traced = symbolic_request(asked, ops)
    traced.order = order or elimination_order(asked)
    found = METHODS[method](traced.motion())
    return ops.count([*ops.nodes(found.qdd), *ops.nodes(found.forces)])


def phases(case: Case, method: str) -> dict[str, OperationCount]:
    """Operations that each phase of forward dynamics adds to those before it, of what the results need.

    The last is the rest. Phases are those of `delassus.spatial.ops.Ops.mark`.
    """
    out: dict[str, OperationCount] = {}
    for name, number in report_of(trace_request(dynamics_request(case, method))).phases:
        if number.total:  # a method may run through phases again
            before = asdict(out.get(name, OperationCount()))
            out[name] = OperationCount(**{kind: n + before[kind] for kind, n in asdict(number).items()})
    return out


# -- instructions of object code -----------------------------------------------------------------------------------

_FUNCTION = re.compile(r"^([0-9a-f]+) <(.+)>:$")
_LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S+)\s*(.*?)\s*(?:#.*)?$")
_MEMORY = re.compile(r"(-?0x[0-9a-f]+)?\((%\w+)?[^)]*\)")
_FRAME = re.compile(r"\$0x([0-9a-f]+),%rsp$")
_ARITHMETIC = re.compile(r"^v?(?:fn?m(?:add|sub)\w*|(?:add|sub|mul|div|sqrt|max|min)[ps][sd])$")
_MOVE = re.compile(r"^v?(mov|broadcast|pbroadcast)")
_SHUFFLE = re.compile(r"^v?(p?unpck|shuf|p?perm|insert|extract|blend|p?align)")


def available() -> bool:
    """Whether objdump is installed."""
    return shutil.which("objdump") is not None


@dataclass(frozen=True, slots=True)
class Census:
    """Instructions of some functions by kind, bytes of code, bytes of the largest stack frame.

    ``from_memory`` counts operands that instructions other than moves read from memory, by where they are.
    """

    kinds: Counter[str]
    from_memory: Counter[str]
    size: int
    frame: int

    @property
    def total(self) -> int:
        """All instructions."""
        return sum(self.kinds.values())


def census(code: bytes, functions: str) -> Census:
    """Count the instructions of the functions of an x86 object file whose whole names match a pattern."""
    kinds, from_memory = Counter[str](), Counter[str]()
    size = frame = 0
    for lines in _disassembled(code, functions):
        constants: set[str] = set()  # registers that hold the address of a constant
        size += lines[-1][0] - lines[0][0]
        for _, name, operands in lines[:-1]:
            where = _place(operands, constants) if not name.startswith("lea") else None
            kind = _kind(name, operands, where)
            kinds[kind] += 1
            if where and kind == "arithmetic":
                from_memory[where] += 1
            follow = constants.add if name.startswith("movabs") else constants.discard
            follow(operands.rsplit(",", 1)[-1])
            if name.startswith("sub") and (found := _FRAME.match(operands)):
                frame = max(frame, int(found[1], 16))
    return Census(kinds, from_memory, size, frame)


def _disassembled(code: bytes, pattern: str) -> Iterator[list[tuple[int, str, str]]]:
    """Address, name and operands of the instructions of each function that matches; the end's address last."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.o"
        file.write_bytes(code)
        text = _run("objdump", "-d", "--no-show-raw-insn", str(file)).stdout
    lines: list[tuple[int, str, str]] = []
    wanted = False
    for line in text.splitlines():
        if header := _FUNCTION.match(line):
            if wanted and lines:
                yield [*lines, (int(header[1], 16), "", "")]
            lines, wanted = [], re.fullmatch(pattern, header[2]) is not None
        elif wanted and (found := _LINE.match(line)):
            lines.append((int(found[1], 16), found[2], found[3]))
    if wanted and lines:
        yield [*lines, (lines[-1][0], "", "")]


def _place(operands: str, constants: set[str]) -> str | None:
    """What a memory operand is: "constant", "stack" or "data"; None if there is none."""
    if (found := _MEMORY.search(operands)) is None:
        return None
    base = found[2] or ""
    if base == "%rip" or base in constants:
        return "constant"
    return "stack" if base in ("%rsp", "%rbp") else "data"


def _kind(name: str, operands: str, where: str | None) -> str:
    if _ARITHMETIC.match(name):
        return "arithmetic"
    if name.startswith("movabs"):
        return "address of a constant"
    vector = re.search(r"%[xyz]mm", operands) is not None
    if vector and _MOVE.match(name):
        if where is None:
            return "copy"
        return f"store, {where}" if operands.rstrip().endswith(")") or "){" in operands else f"load, {where}"
    return "shuffle" if vector and _SHUFFLE.match(name) else "other"


def _run(*command: str, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, check=check, capture_output=True, text=True, timeout=300.0, **options)


# -- cache misses, by the processor's counters or simulated --------------------------------------------------------

STATES, REPEATS = 512, 4
LEVELS = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=1048576,16,64")
"""The simulated caches: 32 KB each at first, 1 MB behind them."""
SIMULATED = {"Ir": "instructions", "I1mr": "I1 misses", "Dr": "reads", "D1mr": "D1 read misses", "Dw": "writes",
             "D1mw": "D1 write misses"}  # fmt: skip
COUNTED = {"instructions:u": "instructions", "cycles:u": "cycles", "L1-icache-load-misses:u": "I1 misses",
           "L1-dcache-load-misses:u": "D1 read misses"}  # fmt: skip
DRIVER = """
#include <stdlib.h>
void batch(long n, const double *q, double *G, double *rcond);
int main(int argc, char **argv) {{
  long n = {states}, repeats = argc > 1 ? atol(argv[1]) : 1;
  double *q = aligned_alloc(64, n * {size_in} * sizeof(double) + 64);
  double *G = aligned_alloc(64, n * {size_out} * sizeof(double) + 64);
  double *rcond = aligned_alloc(64, n * sizeof(double) + 64);
  for (long i = 0; i < n * {size_in}; ++i) q[i] = 0.001 * (double)(i % 1000);
  for (long k = 0; k < repeats; ++k) batch(n, q, G, rcond);
  return G[0] == 1.0;
}}
"""

Found = tuple[dict[str, float], str]
"""Events per state, none if they could not be had, and how they were counted or why not."""


def with_avx2() -> Host:
    """A processor of this architecture with AVX2 and no more; its code runs here if this one has its features."""
    features = "+avx2,+fma,+bmi,+bmi2"
    return replace(host(), cpu="haswell", features=features, vector_bits=256, vector_registers=16, has_fma=True)


@contextmanager
def _executable(case: Case, target: Host | None = None) -> Iterator[Path]:
    """Folder with the kernel's object code and a main program that runs it on batches, linked by gcc."""
    made = compile_cold(case, target=target)
    sizes = {"size_in": made.program.arguments[0].size, "size_out": made.program.results[0].size}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "kernel.o").write_bytes(made.code)
        (folder / "main.c").write_text(DRIVER.format(states=STATES, **sizes))
        _run("gcc", "-O1", "-no-pie", "-o", "run", "main.c", "kernel.o", cwd=folder)
        yield folder


def _missing(*programs: str) -> str:
    absent = [program for program in programs if shutil.which(program) is None]
    return f"not counted: {', '.join(absent)} not installed" if absent else ""


def count_with_perf(case: Case) -> Found:
    """Counters of the processor for the kernel as it is compiled for it: many calls less few."""
    if reason := _missing("gcc", "perf"):
        return {}, reason
    with _executable(case) as folder:
        many, few = (_perf(folder, repeats) for repeats in (100 + REPEATS, REPEATS))
    if not many or many.keys() != few.keys():
        return {}, "not counted: perf has no counters on this machine"
    return {COUNTED[e]: (many[e] - few[e]) / (100 * STATES) for e in many}, "perf"


def _perf(folder: Path, repeats: int) -> dict[str, float]:
    command = ("perf", "stat", "-x", ",", "-e", ",".join(COUNTED), "./run", str(repeats))
    rows = (line.split(",") for line in _run(*command, check=False, cwd=folder).stderr.splitlines())
    return {row[2]: float(row[0]) for row in rows if len(row) > 2 and row[2] in COUNTED and row[0].isdigit()}


def count_with_callgrind(case: Case) -> Found:
    """Valgrind's simulation. It does not know AVX-512: the kernel is compiled for AVX2, half as many lanes."""
    if reason := _missing("gcc", "valgrind"):
        return {}, reason
    with _executable(case, with_avx2()) as folder:
        command = ["valgrind", "--tool=callgrind", "--cache-sim=yes", "--toggle-collect=batch", *LEVELS]
        command += ["--callgrind-out-file=counts", "./run", str(REPEATS)]
        done = _run(*command, check=False, cwd=folder, env={**os.environ, "VALGRIND_OPTS": ""})
        if done.returncode not in (0, 1) or not (folder / "counts").exists():
            return {}, f"not counted: valgrind ended with status {done.returncode}"
        text = (folder / "counts").read_text()
    names, sums = (re.search(rf"^{key}: (.*)$", text, re.M) for key in ("events", "totals"))
    if names is None or sums is None:
        return {}, "not counted: valgrind's output was not understood"
    totals = dict(zip(names[1].split(), map(float, sums[1].split()), strict=False))
    return {said: totals[e] / (REPEATS * STATES) for e, said in SIMULATED.items()}, "callgrind, AVX2, 32 KB + 32 KB"


# -- what this core can do at most: independent vector instructions, straight-line code, clock -----------------------

CHAINS, UNROLLED = 12, 4
"""Independent chains: more than latency times instructions a cycle, fewer than registers; rounds of them in a loop."""
PIECE = 400
"""Instructions of one function of straight-line code: its operands in memory then stay in the first-level cache."""
FAR = 128
"""Vectors from the base to the first operand in memory: too far for the short form of an address."""
TRIES = 15


def clock() -> float:
    """Cycles a second, from a chain of integer operations of one cycle each."""
    chain = [f"%c{k + 1} = {('add', 'xor')[k % 2]} i64 %c{k}, %{'ab'[k % 2]}" for k in range(64)]
    before = ["%a = load i64, ptr %x", "%pb = getelementptr i64, ptr %x, i64 1", "%b = load i64, ptr %pb"]
    carried = ["%c0 = phi i64 [ 0, %entry ], [ %c64, %again ]"]
    text = _function("run", "i64 %n, ptr %x", _repeated(before, carried, chain, ["store i64 %c64, ptr %x"]))
    return 64 / _seconds(object_code(text), 100_000, "float64")


def instructions_per_second(dtype: str, kind: str) -> float:
    """Rate of independent vector instructions: "multiply", "add", "multiply-add", "add from memory" or "store"."""
    return CHAINS * UNROLLED / _seconds(object_code(loop(dtype, kind)), 100_000, dtype)


def straight_line(dtype: str, instructions: int, other: str) -> tuple[float, float]:
    """Rate of independent vector instructions in a row, each fetched anew, and bytes of code an instruction.

    Half are multiply-adds, half ``other``: "add", or "add from memory", whose operands are in the first-level cache.
    """
    functions, calls = [], []
    for first in range(0, instructions, PIECE):
        # one more after each round of the chains: each chain has both kinds in turn
        kinds = [("multiply-add", other)[(k + k // CHAINS) % 2] for k in range(min(PIECE, instructions - first))]
        lines, last = _chains(dtype, kinds, "s")
        body = ["entry:", *_loads(dtype), *lines, *_stores(dtype, last), "ret void"]
        functions.append(_function(f"piece{first}", "ptr %x", body))
        calls.append(f"call void @piece{first}(ptr %x)")
    code = object_code(_module(dtype, *functions, _function("run", "i64 %n, ptr %x", _repeated((), (), calls, ()))))
    rate = instructions / _seconds(code, max(1, 4_000_000 // instructions), dtype)
    return rate, census(code, ".*").size / instructions


def loop(dtype: str, kind: str) -> str:
    """``run(n, x)``: n rounds of ``CHAINS * UNROLLED`` instructions of one kind, in LLVM's language."""
    lines, last = _chains(dtype, [kind] * (CHAINS * UNROLLED), "c")
    carried = [f"%c{k} = phi {_vector(dtype)} [ %s{k}, %entry ], [ {last[k]}, %again ]" for k in range(CHAINS)]
    body = _repeated(_loads(dtype), carried, lines, _stores(dtype, last))
    return _module(dtype, _function("run", "i64 %n, ptr %x", body))


def _vector(dtype: str) -> str:
    return f"<{host().lanes(dtype)} x {'double' if dtype == 'float64' else 'float'}>"


def _fma(dtype: str) -> str:
    return f"{_vector(dtype)} @llvm.fma.v{host().lanes(dtype)}f{dtype[-2:]}"


def _chains(dtype: str, kinds: Iterable[str], start: str) -> tuple[list[str], list[str]]:
    """Lines of one instruction after the other, over the chains in turn, and the chains' last values."""
    vector, values, lines, places = _vector(dtype), [f"%{start}{k}" for k in range(CHAINS)], [], count(FAR)
    text = {
        "multiply": f"fmul {vector} {{}}, %a",
        "add": f"fadd {vector} {{}}, %b",
        "add from memory": f"fadd {vector} {{}}, %m{{}}",
        "multiply-add": f"call {_fma(dtype)}({vector} {{}}, {vector} %a, {vector} %b)",
    }
    for number, kind in enumerate(kinds):
        if kind in ("add from memory", "store"):
            lines.append(f"%pm{number} = getelementptr {vector}, ptr %x, i64 {next(places)}")
        if kind == "store":
            lines.append(f"store {vector} %a, ptr %pm{number}, align 64")
            continue
        if kind == "add from memory":
            lines.append(f"%m{number} = load {vector}, ptr %pm{number}, align 64")
        lines.append(f"%v{number} = {text[kind].format(values[number % CHAINS], number)}")
        values[number % CHAINS] = f"%v{number}"
    return lines, values


def _loads(dtype: str) -> Iterator[str]:
    """Operands ``a`` and ``b``, and the chains' first values."""
    for i, name in enumerate(("a", "b", *(f"s{k}" for k in range(CHAINS)))):
        yield f"%p{name} = getelementptr {_vector(dtype)}, ptr %x, i64 {i}"
        yield f"%{name} = load {_vector(dtype)}, ptr %p{name}, align 4"


def _stores(dtype: str, values: Iterable[str]) -> list[str]:
    return [f"store {_vector(dtype)} {value}, ptr %ps{k}, align 4" for k, value in enumerate(values)]


def _repeated(before: Iterable[str], carried: Iterable[str], lines: Iterable[str], after: Iterable[str]) -> list[str]:
    """Body of a function that runs ``lines`` n times; ``carried`` are the values that go from one time to the next."""
    return [
        "entry:", *before, "br label %again",
        "again:", "%i = phi i64 [ 0, %entry ], [ %next, %again ]", *carried, *lines,
        "%next = add i64 %i, 1", "%done = icmp eq i64 %next, %n", "br i1 %done, label %end, label %again",
        "end:", *after, "ret void",
    ]  # fmt: skip


def _function(name: str, signature: str, body: Iterable[str]) -> str:
    text = "\n".join(body)
    return f'define void @{name}({signature}) noinline "prefer-vector-width"="512" nounwind {{\n{text}\n}}'


def _module(dtype: str, *functions: str) -> str:
    return "\n".join([f"declare {_fma(dtype)}({', '.join([_vector(dtype)] * 3)})", *functions])


def _seconds(object_file: bytes, rounds: int, dtype: str) -> float:
    """Least seconds of one round: the fastest of several tries is what the core can do."""
    code, lanes = Code(object_file), host().lanes(dtype)
    run = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(code.address("run"))
    memory = np.zeros((FAR + PIECE + 8) * lanes, dtype=dtype)
    numbers = memory[-memory.ctypes.data % 64 // memory.itemsize :]
    numbers[:lanes] = 1.0  # a; b and the chains' first values stay zero
    return best(lambda: run(rounds, numbers.ctypes.data), TRIES)[0] / rounds
